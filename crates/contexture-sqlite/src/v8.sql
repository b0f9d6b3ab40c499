-- Version 8 of the schema: messages as they were sent, and pins.

-- The current message of the request that a turn answers, as it was sent. A turn
-- whose request is not known, or had no such message, has none.
CREATE TABLE sent_messages (
    turn   INTEGER PRIMARY KEY REFERENCES turns ON DELETE CASCADE,
    -- JSON: the blocks in order.
    blocks TEXT NOT NULL
) STRICT;

-- Texts that stay in every request of a session. A row is a revision, and is
-- never changed.
CREATE TABLE session_pins (
    session    INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    name       TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    -- NULL when the revision removed the pin.
    text       TEXT,
    origin     TEXT,
    -- How many turns the session had.
    depth      INTEGER NOT NULL,
    -- The number of the row in its session.
    seq        INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (session, name, revision)
) STRICT, WITHOUT ROWID;
