-- Version 8 of the schema: messages as they were sent.

-- The current message of the request that a turn answers, as it was sent. A turn
-- whose request is not known, or had no such message, has none.
CREATE TABLE sent_messages (
    turn   INTEGER PRIMARY KEY REFERENCES turns ON DELETE CASCADE,
    -- JSON: the blocks in order.
    blocks TEXT NOT NULL
) STRICT;
