-- Version 7 of the schema: tool results by their content.

-- Where each tool result is that can be fetched by its handle. The same text in
-- several messages is listed once.
CREATE TABLE tool_results (
    tenant  INTEGER NOT NULL REFERENCES tenants,
    -- SHA-256 of the text.
    handle  BLOB NOT NULL CHECK (length(handle) = 32),
    message INTEGER NOT NULL REFERENCES messages ON DELETE CASCADE,
    -- The number of the block in its message.
    block   INTEGER NOT NULL,
    PRIMARY KEY (tenant, handle)
) STRICT, WITHOUT ROWID;

CREATE INDEX tool_results_by_message ON tool_results (message);

-- The turns that were recorded before there was the table above, and are not in
-- it yet. They are listed when a handle is asked for that is not there.
CREATE TABLE unlisted_results (
    next INTEGER NOT NULL,
    last INTEGER NOT NULL
) STRICT;

INSERT INTO unlisted_results SELECT min(key), max(key) FROM turns HAVING max(key) IS NOT NULL;
