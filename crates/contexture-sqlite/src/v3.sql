-- Version 3 of the schema: memory and tasks.

-- The last key of a record that was given away. Keys are never used again, not
-- even when the record is gone.
CREATE TABLE memory_keys (
    last INTEGER NOT NULL
) STRICT;

INSERT INTO memory_keys VALUES (0);

-- Everything that is to be found again, but for tasks. What a record says is
-- apart, so that the rows an index is built from lie close together.
CREATE TABLE memories (
    key        INTEGER PRIMARY KEY,
    tenant     INTEGER NOT NULL REFERENCES tenants,
    -- 0 event, 1 chunk, 2 entity, 3 relation, 4 pattern.
    kind       INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 4),
    -- The number of its last change; NULL for entities and relations, for
    -- which memory_counts has it.
    seq        INTEGER CHECK ((seq IS NULL) = (kind IN (2, 3))),
    archived   INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    idx        INTEGER NOT NULL,
    valid_from INTEGER,
    -- What the record says, or when it was superseded, if that is earlier.
    valid_to   INTEGER,
    superseded INTEGER,
    -- 0 success, 1 failure, 2 partial.
    outcome    INTEGER,
    type       TEXT NOT NULL,
    session    TEXT,
    task       TEXT,
    source     TEXT,
    speaker    TEXT,
    -- The keys of the entities that a text mentions, 8 bytes each.
    mentions   BLOB,
    words      BLOB,
    -- By the embedder in use.
    vector     BLOB,
    -- Of what it says, and of what was derived from it: tells whether a record
    -- that comes again says the same.
    digest     BLOB NOT NULL,
    -- Of the tenant, the kind and the id: by it a record is found. Ids come in
    -- any order, and an index of numbers has half the pages to be written.
    tag        INTEGER NOT NULL,
    id         TEXT NOT NULL
) STRICT;

CREATE INDEX memories_by_id ON memories (tag);
CREATE UNIQUE INDEX changes_of_memory ON memories (tenant, seq) WHERE seq IS NOT NULL;
CREATE INDEX memories_of_session ON memories (tenant, session) WHERE session IS NOT NULL;
CREATE INDEX memories_of_source ON memories (tenant, source) WHERE source IS NOT NULL;
CREATE INDEX memories_without_vector ON memories (tenant, key)
    WHERE vector IS NULL AND archived = 0 AND kind <= 1;

-- What changes about entities and relations with the texts that tell of them.
-- Apart, because it changes often: so many of these are on one page.
CREATE TABLE memory_counts (
    key    INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    -- 0 when it is only known from texts.
    given  INTEGER NOT NULL,
    -- How many texts tell of it, without and with those that are archived.
    -- Follows from memory_mentions and memory_evidence.
    texts  INTEGER NOT NULL,
    held   INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX changes_of_counts ON memory_counts (tenant, seq);

CREATE TABLE memory_bodies (
    record INTEGER PRIMARY KEY REFERENCES memories,
    -- JSON, as it was handed over.
    body   TEXT NOT NULL
) STRICT;

-- How far a memory is.
CREATE TABLE memory_states (
    tenant INTEGER PRIMARY KEY REFERENCES tenants,
    seq    INTEGER NOT NULL,
    -- The version of the rules for words, and the embedder; NULL before the
    -- first.
    words  INTEGER,
    model  INTEGER REFERENCES memory_models,
    -- The number in the last name that was made for a task.
    tasks  INTEGER NOT NULL
) STRICT;

CREATE TABLE memory_models (
    key        INTEGER PRIMARY KEY,
    tenant     INTEGER NOT NULL REFERENCES tenants,
    name       TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    UNIQUE (tenant, name, dimensions)
) STRICT;

-- Vectors of embedders that are not in use yet.
CREATE TABLE memory_vectors (
    record INTEGER NOT NULL REFERENCES memories,
    model  INTEGER NOT NULL REFERENCES memory_models,
    vector BLOB NOT NULL,
    PRIMARY KEY (record, model)
) STRICT;

CREATE INDEX vectors_of_model ON memory_vectors (model);

-- The names of entities, normalised, in the order given.
CREATE TABLE memory_names (
    tenant INTEGER NOT NULL REFERENCES tenants,
    name   TEXT NOT NULL,
    entity INTEGER NOT NULL REFERENCES memories,
    place  INTEGER NOT NULL,
    PRIMARY KEY (tenant, name, entity)
) STRICT, WITHOUT ROWID;

CREATE INDEX names_of_entity ON memory_names (entity, place);

-- What `mentions` says, close together: all of it is read to find the texts that
-- mention an entity, which is seldom, and texts only add at its end.
CREATE TABLE memory_mentions (
    record INTEGER NOT NULL,
    entity INTEGER NOT NULL,
    PRIMARY KEY (record, entity)
) STRICT, WITHOUT ROWID;

-- The entities between which a relation is, where they are known.
CREATE TABLE memory_ends (
    relation INTEGER PRIMARY KEY REFERENCES memories,
    source   INTEGER NOT NULL REFERENCES memories,
    target   INTEGER NOT NULL REFERENCES memories,
    type     TEXT NOT NULL
) STRICT;

CREATE INDEX relations_from ON memory_ends (source, target, type);
CREATE INDEX relations_to ON memory_ends (target);

-- The texts that tell of a relation.
CREATE TABLE memory_evidence (
    relation INTEGER NOT NULL REFERENCES memories,
    record   INTEGER NOT NULL REFERENCES memories,
    PRIMARY KEY (relation, record)
) STRICT, WITHOUT ROWID;

CREATE INDEX evidence_of_record ON memory_evidence (record);

-- The ids that a record names beside its own, so that what is forgotten is not
-- named any longer.
CREATE TABLE memory_references (
    tenant INTEGER NOT NULL REFERENCES tenants,
    id     TEXT NOT NULL,
    record INTEGER NOT NULL REFERENCES memories,
    PRIMARY KEY (tenant, id, record)
) STRICT, WITHOUT ROWID;

CREATE INDEX references_of_record ON memory_references (record);

-- What was forgotten: numbers only.
CREATE TABLE memory_gone (
    tenant INTEGER NOT NULL REFERENCES tenants,
    seq    INTEGER NOT NULL,
    key    INTEGER NOT NULL,
    PRIMARY KEY (tenant, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
    key         INTEGER PRIMARY KEY,
    tenant      INTEGER NOT NULL REFERENCES tenants,
    id          TEXT NOT NULL,
    stack       TEXT NOT NULL,
    parent      INTEGER REFERENCES tasks,
    depth       INTEGER NOT NULL,
    -- How many of its parts are active or have such parts. Follows from them.
    open_parts  INTEGER NOT NULL,
    status      TEXT NOT NULL,
    goal        TEXT NOT NULL,
    result      TEXT,
    created_at  INTEGER NOT NULL,
    finished_at INTEGER,
    UNIQUE (tenant, id)
) STRICT;

CREATE INDEX tasks_of_stack ON tasks (tenant, stack, parent, status, created_at, id);
CREATE INDEX parts_of_task ON tasks (parent) WHERE parent IS NOT NULL;

CREATE TABLE task_stacks (
    tenant  INTEGER NOT NULL REFERENCES tenants,
    stack   TEXT NOT NULL,
    current INTEGER REFERENCES tasks,
    PRIMARY KEY (tenant, stack)
) STRICT, WITHOUT ROWID;

CREATE INDEX stacks_at_task ON task_stacks (current) WHERE current IS NOT NULL;
