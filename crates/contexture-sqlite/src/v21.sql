-- Version 21 of the schema: deletions that are divided into several transactions.

-- Deletions that have begun and have not ended. The store continues them.
CREATE TABLE pending_deletions (
    key    INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenants,
    since  INTEGER NOT NULL,
    -- What is deleted: JSON.
    what   TEXT NOT NULL
) STRICT;

-- 1 while the session or the tree is being deleted; NULL otherwise. Such a row is
-- not shown, and some of the rows that belong to it are missing.
ALTER TABLE sessions ADD COLUMN deleted INTEGER;
ALTER TABLE trees ADD COLUMN deleted INTEGER;

-- The number of times that content of requests was deleted. An import compares it to
-- see whether content that it stored before may be missing.
ALTER TABLE tenants ADD COLUMN content_deletions INTEGER NOT NULL DEFAULT 0;
