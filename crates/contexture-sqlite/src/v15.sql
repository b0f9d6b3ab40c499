-- Version 15 of the schema: administration.

-- Keys with the scope 2 for the administration of the server.
CREATE TABLE keys_of_15 (
    key     INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,
    -- Of the secret, which is nowhere.
    hash    BLOB NOT NULL CHECK (length(hash) = 32),
    tenant  INTEGER NOT NULL REFERENCES tenants,
    -- 0 the tenant's data, 1 the server's metrics, 2 its administration.
    scope   INTEGER NOT NULL CHECK (scope BETWEEN 0 AND 2),
    name    TEXT,
    created INTEGER NOT NULL,
    revoked INTEGER
) STRICT;

INSERT INTO keys_of_15 SELECT key, id, hash, tenant, scope, name, created, revoked FROM keys;
DROP TABLE keys;
ALTER TABLE keys_of_15 RENAME TO keys;

-- The id of the key of the caller. NULL for acts on the command line.
ALTER TABLE audit ADD COLUMN actor TEXT;

-- Quotas that replace those of the settings. 0 is no limit.
CREATE TABLE quotas (
    tenant           TEXT PRIMARY KEY,
    bytes            INTEGER NOT NULL,
    sessions         INTEGER NOT NULL,
    records          INTEGER NOT NULL,
    nodes            INTEGER NOT NULL,
    requests_per_day INTEGER NOT NULL
) STRICT;

-- Metrics ask for the latest backup.
CREATE INDEX audit_backups ON audit (key) WHERE act = 'backup_made';
