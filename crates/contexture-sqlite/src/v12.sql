-- Version 12 of the schema: a second generation of vectors.

-- The embedder of the second generation, and a number that grows with each of
-- its vectors.
ALTER TABLE memory_states ADD COLUMN later INTEGER;
ALTER TABLE memory_states ADD COLUMN later_seq INTEGER NOT NULL DEFAULT 0;

-- The vectors of the second generation, which are computed after recording.
CREATE TABLE memory_later (
    record INTEGER PRIMARY KEY REFERENCES memories ON DELETE CASCADE,
    tenant INTEGER NOT NULL REFERENCES tenants,
    seq    INTEGER NOT NULL,
    vector BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX later_by_seq ON memory_later (tenant, seq);

-- The active events and chunks that have none.
CREATE TABLE memory_pending (
    tenant INTEGER NOT NULL REFERENCES tenants,
    record INTEGER NOT NULL REFERENCES memories ON DELETE CASCADE,
    -- Random. It tells a text from the one that it replaced.
    stamp  INTEGER NOT NULL,
    PRIMARY KEY (tenant, record)
) STRICT, WITHOUT ROWID;

CREATE INDEX pending_of_record ON memory_pending (record);

-- How many texts have such a vector, and how many have none.
CREATE TABLE memory_progress (
    tenant  INTEGER PRIMARY KEY REFERENCES tenants,
    current INTEGER NOT NULL,
    pending INTEGER NOT NULL
) STRICT;

INSERT INTO memory_pending
    SELECT tenant, key, random() FROM memories WHERE kind <= 1 AND archived = 0;
INSERT INTO memory_progress SELECT tenant, 0, count(*) FROM memory_pending GROUP BY tenant;

CREATE TRIGGER pending_added AFTER INSERT ON memory_pending BEGIN
    INSERT INTO memory_progress VALUES (NEW.tenant, 0, 1)
        ON CONFLICT (tenant) DO UPDATE SET pending = pending + 1;
END;

CREATE TRIGGER pending_removed AFTER DELETE ON memory_pending BEGIN
    UPDATE memory_progress SET pending = pending - 1 WHERE tenant = OLD.tenant;
END;

CREATE TRIGGER later_added AFTER INSERT ON memory_later BEGIN
    INSERT INTO memory_progress VALUES (NEW.tenant, 1, 0)
        ON CONFLICT (tenant) DO UPDATE SET current = current + 1;
END;

CREATE TRIGGER later_removed AFTER DELETE ON memory_later BEGIN
    UPDATE memory_progress SET current = current - 1 WHERE tenant = OLD.tenant;
END;

CREATE TRIGGER text_added AFTER INSERT ON memories WHEN NEW.kind <= 1 BEGIN
    INSERT INTO memory_pending VALUES (NEW.tenant, NEW.key, random());
END;

-- Another text takes the place of this one, which may be archived.
CREATE TRIGGER text_replaced AFTER UPDATE OF digest ON memories WHEN NEW.kind <= 1 BEGIN
    DELETE FROM memory_later WHERE record = NEW.key;
    INSERT INTO memory_pending VALUES (NEW.tenant, NEW.key, random())
        ON CONFLICT (tenant, record) DO UPDATE SET stamp = excluded.stamp;
END;

-- Vectors of archived texts are dropped, so that both numbers are of active
-- texts.
CREATE TRIGGER text_archived AFTER UPDATE OF archived ON memories
    WHEN NEW.kind <= 1 AND NEW.archived = 1 AND OLD.archived = 0 BEGIN
    DELETE FROM memory_later WHERE record = NEW.key;
    DELETE FROM memory_pending WHERE tenant = NEW.tenant AND record = NEW.key;
END;

CREATE TRIGGER text_restored AFTER UPDATE OF archived ON memories
    WHEN NEW.kind <= 1 AND NEW.archived = 0 AND OLD.archived = 1 BEGIN
    INSERT INTO memory_pending VALUES (NEW.tenant, NEW.key, random())
        ON CONFLICT (tenant, record) DO UPDATE SET stamp = excluded.stamp;
END;
