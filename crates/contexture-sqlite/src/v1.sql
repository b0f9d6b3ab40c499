-- Version 1 of the schema.
--
-- Inside, everything is named by integer keys in the order of writing, so that
-- what is written together lies together. Names that come from outside (labels,
-- ids, hashes) carry their tenant, and everything else hangs on such a row.
-- Times are Unix milliseconds.

CREATE TABLE tenants (
    key  INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE sessions (
    key            INTEGER PRIMARY KEY,
    tenant         INTEGER NOT NULL REFERENCES tenants,
    label          TEXT NOT NULL,
    head           INTEGER REFERENCES turns,
    -- How often the head has moved: the number of the next row in head_moves.
    moves          INTEGER NOT NULL,
    persona        TEXT,
    parent_session INTEGER REFERENCES sessions,
    parent_turn    INTEGER REFERENCES turns,
    task           TEXT,
    status         TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    UNIQUE (tenant, label)
) STRICT;

CREATE TABLE aliases (
    tenant  INTEGER NOT NULL REFERENCES tenants,
    alias   TEXT NOT NULL,
    session INTEGER NOT NULL REFERENCES sessions,
    PRIMARY KEY (tenant, alias)
) STRICT, WITHOUT ROWID;

CREATE INDEX aliases_of_session ON aliases (session);

CREATE TABLE turns (
    key                 INTEGER PRIMARY KEY,
    tenant              INTEGER NOT NULL REFERENCES tenants,
    id                  BLOB NOT NULL CHECK (length(id) = 16),
    session             INTEGER NOT NULL REFERENCES sessions,
    parent              INTEGER REFERENCES turns,
    depth               INTEGER NOT NULL,
    kind                TEXT NOT NULL CHECK (kind IN ('normal', 'compaction')),
    -- The latest compaction on the path to the turn, without itself.
    compaction          INTEGER REFERENCES turns,
    begins              INTEGER NOT NULL,
    bytes               INTEGER NOT NULL,
    created_at          INTEGER NOT NULL,
    -- JSON; NULL when there are none.
    open_calls          TEXT,
    model               TEXT,
    provider            TEXT,
    -- All five, or none.
    input_tokens        INTEGER,
    output_tokens       INTEGER,
    cached_input_tokens INTEGER,
    cache_write_tokens  INTEGER,
    reasoning_tokens    INTEGER,
    stop_reason         TEXT,
    error_kind          TEXT,
    error_message       TEXT,
    status              TEXT,
    role                TEXT,
    toolset_name        TEXT,
    -- JSON lists; NULL when empty.
    tools               TEXT,
    permissions_granted TEXT,
    source_event_id     TEXT,
    request_hash        TEXT,
    -- Whether the turn said which parent it takes to be the head.
    parent_given        INTEGER NOT NULL,
    idempotency_key     TEXT,
    UNIQUE (tenant, id)
) STRICT;

-- The key is the turn's, shifted by 14 bits, and the place in it: the messages
-- of a turn lie side by side and are found without an index.
CREATE TABLE messages (
    key          INTEGER PRIMARY KEY,
    turn         INTEGER NOT NULL GENERATED ALWAYS AS (key >> 14) VIRTUAL REFERENCES turns,
    seq          INTEGER NOT NULL GENERATED ALWAYS AS (key & 16383) VIRTUAL,
    role         TEXT NOT NULL,
    source       TEXT,
    -- JSON, as it was handed over.
    content      TEXT NOT NULL,
    tool_call_id TEXT,
    is_error     INTEGER NOT NULL,
    context_json TEXT
) STRICT;

CREATE TABLE tool_calls (
    turn     INTEGER NOT NULL REFERENCES turns,
    seq      INTEGER NOT NULL,
    id       TEXT NOT NULL,
    name     TEXT NOT NULL,
    message  INTEGER NOT NULL,
    -- NULL when the turn ends without the result.
    is_error INTEGER,
    PRIMARY KEY (turn, seq)
) STRICT, WITHOUT ROWID;

-- Results of calls that an earlier turn made.
CREATE TABLE late_results (
    turn     INTEGER NOT NULL REFERENCES turns,
    seq      INTEGER NOT NULL,
    id       TEXT NOT NULL,
    is_error INTEGER NOT NULL,
    PRIMARY KEY (turn, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE compactions (
    turn               INTEGER PRIMARY KEY REFERENCES turns,
    summary            TEXT NOT NULL,
    summarized_through INTEGER REFERENCES turns,
    first_kept         INTEGER REFERENCES turns,
    trigger_name       TEXT NOT NULL,
    focus              TEXT,
    summariser         TEXT NOT NULL,
    tokens_before      INTEGER NOT NULL,
    tokens_after       INTEGER NOT NULL,
    -- JSON.
    usage              TEXT
) STRICT;

CREATE TABLE head_moves (
    session INTEGER NOT NULL REFERENCES sessions,
    seq     INTEGER NOT NULL,
    source  INTEGER REFERENCES turns,
    target  INTEGER REFERENCES turns,
    reason  TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency_keys (
    session INTEGER NOT NULL REFERENCES sessions,
    key     TEXT NOT NULL,
    turn    INTEGER NOT NULL REFERENCES turns,
    -- The hash of what the turn says: a retry has the same.
    body    BLOB NOT NULL,
    PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;

-- Names of what counts tokens, written once instead of with every turn.
CREATE TABLE counters (
    key    INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenants,
    name   TEXT NOT NULL,
    UNIQUE (tenant, name)
) STRICT;

CREATE TABLE counts (
    turn    INTEGER NOT NULL REFERENCES turns,
    counter INTEGER NOT NULL REFERENCES counters,
    total   INTEGER NOT NULL,
    -- JSON: the tokens of each block of each message.
    blocks  TEXT NOT NULL,
    PRIMARY KEY (turn, counter)
) STRICT, WITHOUT ROWID;

-- The latest has the largest key. The session is a name only: a request can be
-- assembled for a session that has no turns yet.
CREATE TABLE snapshots (
    key         INTEGER PRIMARY KEY,
    tenant      INTEGER NOT NULL REFERENCES tenants,
    session     TEXT NOT NULL,
    hash        BLOB NOT NULL,
    parent_turn BLOB,
    model       TEXT NOT NULL,
    tokens      INTEGER NOT NULL,
    counter     TEXT NOT NULL,
    root        BLOB NOT NULL,
    created_at  INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX snapshots_by_hash ON snapshots (tenant, hash, session);
-- The key stands at the end of every index, so these are in order of time.
CREATE INDEX snapshots_of_session ON snapshots (tenant, session);
CREATE INDEX snapshots_of_tenant ON snapshots (tenant);

-- With rows of their own rather than inside the index (WITHOUT ROWID): on 60,000
-- blobs of a few KB that is 2.5 times as fast to write and to read, and a sixth
-- smaller.
CREATE TABLE blobs (
    key    INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenants,
    hash   BLOB NOT NULL,
    bytes  BLOB NOT NULL,
    UNIQUE (tenant, hash)
) STRICT;

CREATE TABLE samples (
    key     INTEGER PRIMARY KEY,
    tenant  INTEGER NOT NULL REFERENCES tenants,
    model   TEXT NOT NULL,
    counter TEXT NOT NULL,
    counted INTEGER NOT NULL,
    actual  INTEGER NOT NULL
) STRICT;

CREATE INDEX samples_by_model ON samples (tenant, model, counter);
