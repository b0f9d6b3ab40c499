-- Version 4 of the schema: keys.

-- What opens the store to those who ask over a network. Rows are never removed.
CREATE TABLE keys (
    key     INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,
    -- Of the secret, which is nowhere.
    hash    BLOB NOT NULL CHECK (length(hash) = 32),
    tenant  INTEGER NOT NULL REFERENCES tenants,
    -- 0 the tenant's data, 1 the server's measurements.
    scope   INTEGER NOT NULL CHECK (scope BETWEEN 0 AND 1),
    name    TEXT,
    created INTEGER NOT NULL,
    revoked INTEGER
) STRICT;

-- Always empty: written to, and undone, to see whether something can be written.
CREATE TABLE probe (
    content BLOB NOT NULL
) STRICT;
