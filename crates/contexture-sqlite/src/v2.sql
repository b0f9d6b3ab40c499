-- Version 2 of the schema: looms.

CREATE TABLE trees (
    key                        INTEGER PRIMARY KEY,
    tenant                     INTEGER NOT NULL REFERENCES tenants,
    id                         TEXT NOT NULL,
    mode                       TEXT NOT NULL,
    title                      TEXT,
    system_context             TEXT,
    buffer_mode_system_context INTEGER NOT NULL,
    -- JSON.
    preferences                TEXT NOT NULL,
    root                       INTEGER REFERENCES nodes,
    -- Rises when a path that somebody walked may no longer be what it was.
    epoch                      INTEGER NOT NULL,
    -- How many there are.
    nodes                      INTEGER NOT NULL,
    edges                      INTEGER NOT NULL,
    -- How many of those have instruction sources.
    instructions               INTEGER NOT NULL,
    created_at                 INTEGER NOT NULL,
    UNIQUE (tenant, id)
) STRICT;

CREATE TABLE agents (
    key           INTEGER PRIMARY KEY,
    tree          INTEGER NOT NULL REFERENCES trees,
    id            TEXT NOT NULL,
    kind          TEXT NOT NULL,
    name          TEXT,
    system_prompt TEXT,
    model         TEXT,
    -- JSON; NULL when empty.
    parameters    TEXT,
    permissions   TEXT,
    loom_aware    INTEGER NOT NULL,
    position      INTEGER REFERENCES nodes,
    UNIQUE (tree, id)
) STRICT;

-- What a node says is apart, so that the rows that are walked over lie close
-- together.
CREATE TABLE nodes (
    key         INTEGER PRIMARY KEY,
    tenant      INTEGER NOT NULL REFERENCES tenants,
    tree        INTEGER NOT NULL REFERENCES trees,
    id          TEXT NOT NULL,
    local_id    TEXT NOT NULL,
    author      TEXT NOT NULL,
    agent       INTEGER REFERENCES agents,
    edited_from INTEGER REFERENCES nodes,
    excluded    INTEGER NOT NULL,
    pruned      INTEGER NOT NULL,
    bookmarked  INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    -- How many edges lead to it. An edit with none stands in the place of the
    -- node it was edited from.
    arrivals    INTEGER NOT NULL,
    -- How it is reached: 0 by nothing; 1 by one continuation edge with one
    -- source, `parent`, in whose place nothing else stands; 2 in another way.
    -- An edit that stands in a place is reached as that place is. Follows from
    -- the edges and edits, and is kept up to date with them.
    step        INTEGER NOT NULL CHECK (step IN (0, 1, 2)),
    parent      INTEGER REFERENCES nodes CHECK ((step = 1) = (parent IS NOT NULL)),
    UNIQUE (tenant, id),
    UNIQUE (tree, local_id)
) STRICT;

CREATE INDEX edits_of_node ON nodes (edited_from) WHERE edited_from IS NOT NULL;

CREATE TABLE node_contents (
    node    INTEGER PRIMARY KEY REFERENCES nodes,
    -- The beginning of it; NULL when it is short text, and so all of it.
    preview TEXT,
    -- JSON, as it was handed over.
    content TEXT NOT NULL
) STRICT;

CREATE TABLE raw_responses (
    node     INTEGER PRIMARY KEY REFERENCES nodes,
    -- JSON.
    response TEXT NOT NULL
) STRICT;

CREATE TABLE edges (
    key    INTEGER PRIMARY KEY,
    tree   INTEGER NOT NULL REFERENCES trees,
    id     TEXT NOT NULL,
    kind   TEXT NOT NULL,
    target INTEGER NOT NULL REFERENCES nodes,
    UNIQUE (tree, id)
) STRICT;

CREATE INDEX edges_to_node ON edges (target);

CREATE TABLE edge_sources (
    edge INTEGER NOT NULL REFERENCES edges,
    seq  INTEGER NOT NULL,
    node INTEGER NOT NULL REFERENCES nodes,
    role TEXT NOT NULL,
    PRIMARY KEY (edge, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX edges_from_node ON edge_sources (node, role);

CREATE TABLE node_counts (
    node    INTEGER NOT NULL REFERENCES nodes,
    counter INTEGER NOT NULL REFERENCES counters,
    -- JSON: the tokens of each block.
    blocks  TEXT NOT NULL,
    PRIMARY KEY (node, counter)
) STRICT, WITHOUT ROWID;

CREATE TABLE saved_paths (
    tree    INTEGER NOT NULL REFERENCES trees,
    name    TEXT NOT NULL,
    head    INTEGER NOT NULL REFERENCES nodes,
    -- JSON: ids of nodes and edges.
    choices TEXT NOT NULL,
    PRIMARY KEY (tree, name)
) STRICT, WITHOUT ROWID;

-- What agents keep in mind. A pin is a node or a text.
CREATE TABLE pins (
    agent INTEGER NOT NULL REFERENCES agents,
    seq   INTEGER NOT NULL,
    node  INTEGER REFERENCES nodes,
    text  TEXT CHECK ((text IS NULL) <> (node IS NULL)),
    PRIMARY KEY (agent, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE stashes (
    agent    INTEGER NOT NULL REFERENCES agents,
    name     TEXT NOT NULL,
    text     TEXT NOT NULL,
    recalled INTEGER NOT NULL,
    PRIMARY KEY (agent, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE actions (
    agent  INTEGER NOT NULL REFERENCES agents,
    seq    INTEGER NOT NULL,
    action TEXT NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (agent, seq)
) STRICT, WITHOUT ROWID;
