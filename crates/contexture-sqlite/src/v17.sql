-- Version 17 of the schema: events of sessions, and requests that are counted on
-- all servers.

-- What happened in sessions, for listeners. The latest are kept.
CREATE TABLE events (
    tenant  INTEGER NOT NULL REFERENCES tenants,
    -- In the order of commits.
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    session TEXT NOT NULL,
    -- JSON.
    data    TEXT NOT NULL,
    PRIMARY KEY (tenant, seq)
) STRICT, WITHOUT ROWID;

-- How many requests were sent, on all servers.
CREATE TABLE request_counts (
    -- Of what, such as a tenant or a key.
    name   TEXT NOT NULL,
    -- The time that the count is for, such as a day. 0 for all times.
    period INTEGER NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (name, period)
) STRICT, WITHOUT ROWID;
