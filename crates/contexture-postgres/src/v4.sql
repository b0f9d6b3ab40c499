-- Version 4 of the schema: calls with an idempotency key.

CREATE TABLE done_calls (
    tenant BIGINT NOT NULL,
    -- The idempotency key, which the caller chose.
    key    TEXT COLLATE "C" NOT NULL,
    -- The hash of the call: a retry has the same.
    digest BYTEA NOT NULL CHECK (length(digest) = 32),
    at     BIGINT NOT NULL,
    -- NULL if it is not known, too long, or was removed by a deletion.
    answer BYTEA,
    PRIMARY KEY (tenant, key)
);

CREATE INDEX done_calls_by_time ON done_calls (tenant, at);
