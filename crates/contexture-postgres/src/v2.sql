-- Version 2 of the schema in PostgreSQL: version 16 of the one in SQLite.

CREATE TABLE files (
    tenant     BIGINT NOT NULL,
    path       TEXT COLLATE "C" NOT NULL,
    hash       BYTEA NOT NULL CHECK (length(hash) = 32),
    bytes      BYTEA NOT NULL,
    revision   BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, path)
);

CREATE TABLE file_states (
    tenant   BIGINT PRIMARY KEY,
    revision BIGINT NOT NULL
);

-- An import of many records counts them at its end: each update of a count would
-- leave a version of its row until the transaction ends.
CREATE FUNCTION counts_are_off() RETURNS BOOLEAN LANGUAGE SQL STABLE
    RETURN current_setting('contexture.counts', true) IS NOT DISTINCT FROM 'off';

CREATE OR REPLACE FUNCTION memory_counted() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF counts_are_off() THEN
        RETURN NULL;
    END IF;
    INSERT INTO memory_kinds AS k (tenant, kind, live) VALUES (NEW.tenant, NEW.kind, 1)
        ON CONFLICT (tenant, kind) DO UPDATE SET live = k.live + 1;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION pending_added() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF counts_are_off() THEN
        RETURN NULL;
    END IF;
    INSERT INTO memory_progress AS p (tenant, current, pending) VALUES (NEW.tenant, 0, 1)
        ON CONFLICT (tenant) DO UPDATE SET pending = p.pending + 1;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION later_added() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF counts_are_off() THEN
        RETURN NULL;
    END IF;
    INSERT INTO memory_progress AS p (tenant, current, pending) VALUES (NEW.tenant, 1, 0)
        ON CONFLICT (tenant) DO UPDATE SET current = p.current + 1;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION text_added() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF counts_are_off() THEN
        RETURN NULL;
    END IF;
    INSERT INTO memory_pending (tenant, record, stamp)
        VALUES (NEW.tenant, NEW.key, random_key());
    RETURN NULL;
END $$;
