-- Version 9 of the schema: where the imports of other programs' files are.

CREATE TABLE imports (
    key      INTEGER PRIMARY KEY,
    tenant   INTEGER NOT NULL REFERENCES tenants,
    -- The name of the format, and the path of the file.
    source   TEXT NOT NULL,
    file     TEXT NOT NULL,
    identity TEXT NOT NULL,
    size     INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    -- How many bytes were imported, and a hash of them.
    offset   INTEGER NOT NULL,
    hash     BLOB NOT NULL,
    unknown  INTEGER NOT NULL,
    UNIQUE (tenant, source, file)
) STRICT;

-- What the reader of a file needs to go on. It is large, and apart from the
-- cursors, which are read for every file.
CREATE TABLE import_states (
    import INTEGER PRIMARY KEY REFERENCES imports,
    bytes  BLOB NOT NULL
) STRICT;

-- The first file with a conversation's first row: a copy of the conversation
-- shares its turns.
CREATE TABLE import_roots (
    tenant INTEGER NOT NULL REFERENCES tenants,
    source TEXT NOT NULL,
    root   TEXT NOT NULL,
    file   TEXT NOT NULL,
    PRIMARY KEY (tenant, source, root)
) STRICT, WITHOUT ROWID;

-- Rows that were not understood.
CREATE TABLE import_rows (
    key    INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenants,
    source TEXT NOT NULL,
    file   TEXT NOT NULL,
    offset INTEGER NOT NULL,
    raw    TEXT NOT NULL,
    UNIQUE (tenant, source, file, offset)
) STRICT;
