-- Version 18 of the schema: calls with an idempotency key.

CREATE TABLE done_calls (
    tenant INTEGER NOT NULL REFERENCES tenants,
    -- The idempotency key, which the caller chose.
    key    TEXT NOT NULL,
    -- The hash of the call: a retry has the same.
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    at     INTEGER NOT NULL,
    -- NULL if it is not known, too long, or was removed by a deletion.
    answer BLOB,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX done_calls_by_time ON done_calls (tenant, at);
