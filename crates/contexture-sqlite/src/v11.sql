-- Version 11 of the schema: whose a record is, and how many there are.

-- NULL for what belongs to nobody in particular.
ALTER TABLE memories ADD COLUMN user TEXT;
ALTER TABLE memories ADD COLUMN agent TEXT;

-- How many records can be found, by kind. Follows from `memories`; counting
-- those would read all of them.
CREATE TABLE memory_kinds (
    tenant INTEGER NOT NULL REFERENCES tenants,
    kind   INTEGER NOT NULL,
    live   INTEGER NOT NULL,
    PRIMARY KEY (tenant, kind)
) STRICT, WITHOUT ROWID;

INSERT INTO memory_kinds (tenant, kind, live)
    SELECT tenant, kind, count(*) FROM memories WHERE archived = 0 GROUP BY tenant, kind;

CREATE TRIGGER memory_counted AFTER INSERT ON memories WHEN NEW.archived = 0 BEGIN
    INSERT INTO memory_kinds (tenant, kind, live) VALUES (NEW.tenant, NEW.kind, 1)
        ON CONFLICT DO UPDATE SET live = live + 1;
END;

CREATE TRIGGER memory_archived AFTER UPDATE OF archived ON memories
WHEN NEW.archived <> OLD.archived BEGIN
    INSERT INTO memory_kinds (tenant, kind, live)
        VALUES (NEW.tenant, NEW.kind, 1 - NEW.archived)
        ON CONFLICT DO UPDATE SET live = live + 1 - 2 * NEW.archived;
END;

CREATE TRIGGER memory_uncounted AFTER DELETE ON memories WHEN OLD.archived = 0 BEGIN
    UPDATE memory_kinds SET live = live - 1 WHERE tenant = OLD.tenant AND kind = OLD.kind;
END;
