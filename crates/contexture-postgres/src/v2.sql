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
