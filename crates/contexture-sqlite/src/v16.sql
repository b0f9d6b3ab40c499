-- Version 16 of the schema: files of a tenant.

CREATE TABLE files (
    tenant     INTEGER NOT NULL REFERENCES tenants,
    path       TEXT NOT NULL,
    -- BLAKE3 of the content.
    hash       BLOB NOT NULL CHECK (length(hash) = 32),
    bytes      BLOB NOT NULL,
    -- The number of the change that stored it.
    revision   INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, path)
) STRICT, WITHOUT ROWID;

-- The number of the latest change of a tenant's files.
CREATE TABLE file_states (
    tenant   INTEGER PRIMARY KEY REFERENCES tenants,
    revision INTEGER NOT NULL
) STRICT;
