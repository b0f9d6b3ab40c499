-- Version 3 of the schema: events of sessions, and requests that are counted on
-- all servers.

-- What happened in sessions, for listeners. The latest are kept.
CREATE TABLE events (
    tenant  BIGINT NOT NULL,
    -- In the order of commits.
    seq     BIGINT NOT NULL,
    at      BIGINT NOT NULL,
    kind    TEXT COLLATE "C" NOT NULL,
    session TEXT COLLATE "C" NOT NULL,
    -- JSON.
    data    TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, seq)
);

-- How many requests were sent, on all servers.
CREATE TABLE request_counts (
    -- Of what, such as a tenant or a key.
    name   TEXT COLLATE "C" NOT NULL,
    -- The time that the count is for, such as a day. 0 for all times.
    period BIGINT NOT NULL,
    count  BIGINT NOT NULL,
    PRIMARY KEY (name, period)
);
