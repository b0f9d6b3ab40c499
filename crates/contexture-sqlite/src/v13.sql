-- Version 13 of the schema: operations.

-- A row while something deleted may still be in the files, because it could not
-- be overwritten yet.
CREATE TABLE unclean_files (
    since INTEGER NOT NULL
) STRICT;

-- Whether the data of a tenant is still in this file. Since this version, only
-- the default tenant's is; others have files of their own.
ALTER TABLE tenants ADD COLUMN inside INTEGER NOT NULL DEFAULT 0;

UPDATE tenants SET inside = 1 WHERE name <> '';

-- The hash of a node's id, author, time and content. NULL for nodes from before
-- this version.
ALTER TABLE node_contents ADD COLUMN sum BLOB;

-- How many transactions were committed. The file beside this one that ends in
-- `-seal` has the number, too: so it is noticed when some of them are lost.
CREATE TABLE commits (
    number INTEGER NOT NULL
) STRICT;

INSERT INTO commits VALUES (0);

-- The label of the session that a turn was recorded in, where that session was
-- deleted and the turn is part of another one. The turn's id follows from it.
CREATE TABLE turn_labels (
    turn  INTEGER PRIMARY KEY REFERENCES turns,
    label TEXT NOT NULL
) STRICT;

-- Administrative acts. Rows are only added.
CREATE TABLE audit (
    key     INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    act     TEXT NOT NULL,
    tenant  TEXT NOT NULL,
    subject TEXT NOT NULL
) STRICT;
