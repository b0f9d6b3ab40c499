//! The tables of a portable copy in their order, and the kinds of their
//! columns.
//!
//! A table that is added to the schema is added here, or to [`OMITTED`] with
//! the reason. The stores have tests that compare these lists with their
//! schemas.

/// The content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Integer,
    /// Text.
    Text,
    /// Bytes.
    Blob,
    /// The key of the row. The copy omits it and uses the row's number.
    Key,
    /// The key of a row of that table.
    Reference(&'static str),
    /// Keys of records, 8 bytes each.
    Records,
    /// The key of a message: the key of its turn and the message's index.
    Message,
    /// The key of the tenant. The copy omits it.
    Tenant,
    /// The lookup number of a record, a hash of tenant, kind and id. The copy
    /// omits it.
    Tag,
    /// A random number. The copy omits it.
    Random,
}

impl Kind {
    /// Returns true for columns that are in a copy.
    pub(crate) fn is_copied(self) -> bool {
        !matches!(self, Kind::Key | Kind::Tenant | Kind::Tag | Kind::Random)
    }
}

/// How the rows of a tenant are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// The rows have a key and a tenant.
    Keyed,
    /// The rows have a key and refer to a row of another table.
    KeyedBelow {
        /// The column that refers to it.
        column: &'static str,
        /// The other table.
        table: &'static str,
    },
    /// The rows refer to a row of another table.
    Below {
        /// The column that refers to it.
        column: &'static str,
        /// The other table.
        table: &'static str,
        /// The columns that order the rows of one such row.
        order: &'static [&'static str],
    },
    /// The rows have the key of a message in this column.
    OfMessages(&'static str),
    /// The rows have a tenant. Either there are few rows, or the first sort
    /// column identifies a row.
    OfTenant(&'static [&'static str]),
    /// The marker that some turns have no listed tool results yet: one row or
    /// none.
    Unlisted,
}

/// A table of a portable copy.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// The name of the table.
    pub name: &'static str,
    /// How the rows of a tenant are found.
    pub rows: Rows,
    /// The columns of the table.
    pub columns: &'static [(&'static str, Kind)],
    /// True if a row can be large. Few such rows are read at once.
    pub is_large: bool,
}

/// The tables that a copy omits, with the reason.
pub const OMITTED: &[(&str, &str)] = &[
    ("tenants", "a copy is of one tenant"),
    ("keys", "copied with what all tenants share"),
    ("quotas", "copied with what all tenants share"),
    ("audit", "copied with what all tenants share"),
    (
        "memory_gone",
        "tells indexes what to remove; a copy begins without an index",
    ),
    ("memory_kinds", "triggers count the rows"),
    ("memory_progress", "triggers count the rows"),
    ("memory_keys", "the next key of a database"),
    ("commits", "a number of a file"),
    ("probe", "written to see whether that works"),
    ("unclean_files", "a state of a file"),
    ("contexture_meta", "the version of the schema"),
    ("events", "tells listeners what has just happened"),
    (
        "done_calls",
        "tells retries of calls what has just been done",
    ),
    ("request_counts", "counts the requests of all servers today"),
];

use Kind::{Blob, Integer, Key, Message, Random, Records, Reference, Tag, Tenant, Text};

const TURN: Kind = Reference("turns");
const SESSION: Kind = Reference("sessions");
const NODE: Kind = Reference("nodes");
const AGENT: Kind = Reference("agents");
const TREE: Kind = Reference("trees");
const RECORD: Kind = Reference("memories");
const COUNTER: Kind = Reference("counters");
const MODEL: Kind = Reference("memory_models");

const fn of(name: &'static str, rows: Rows, columns: &'static [(&'static str, Kind)]) -> Table {
    let is_large = false;
    Table {
        name,
        rows,
        columns,
        is_large,
    }
}

const fn large(name: &'static str, rows: Rows, columns: &'static [(&'static str, Kind)]) -> Table {
    let is_large = true;
    Table {
        name,
        rows,
        columns,
        is_large,
    }
}

const fn below(column: &'static str, table: &'static str, order: &'static [&'static str]) -> Rows {
    Rows::Below {
        column,
        table,
        order,
    }
}

/// The tables of a copy, in its order.
pub const TABLES: &[Table] = &[
    of(
        "mark_keys",
        Rows::OfTenant(&["tenant"]),
        &[("tenant", Tenant), ("secret", Blob)],
    ),
    of(
        "sessions",
        Rows::Keyed,
        &[
            ("key", Key),
            ("tenant", Tenant),
            ("label", Text),
            ("head", TURN),
            ("moves", Integer),
            ("persona", Text),
            ("parent_session", SESSION),
            ("parent_turn", TURN),
            ("task", Text),
            ("status", Text),
            ("created_at", Integer),
            ("updated_at", Integer),
            ("remember", Integer),
            ("deleted", Integer),
        ],
    ),
    of(
        "aliases",
        below("session", "sessions", &["alias"]),
        &[("tenant", Tenant), ("alias", Text), ("session", SESSION)],
    ),
    of(
        "turns",
        Rows::Keyed,
        &[
            ("key", Key),
            ("tenant", Tenant),
            ("id", Blob),
            ("session", SESSION),
            ("parent", TURN),
            ("depth", Integer),
            ("kind", Text),
            ("compaction", TURN),
            ("begins", Integer),
            ("bytes", Integer),
            ("created_at", Integer),
            ("open_calls", Text),
            ("model", Text),
            ("provider", Text),
            ("input_tokens", Integer),
            ("output_tokens", Integer),
            ("cached_input_tokens", Integer),
            ("cache_write_tokens", Integer),
            ("reasoning_tokens", Integer),
            ("stop_reason", Text),
            ("error_kind", Text),
            ("error_message", Text),
            ("status", Text),
            ("role", Text),
            ("toolset_name", Text),
            ("tools", Text),
            ("permissions_granted", Text),
            ("source_event_id", Text),
            ("request_hash", Text),
            ("parent_given", Integer),
            ("idempotency_key", Text),
            ("deleted", Integer),
        ],
    ),
    large(
        "messages",
        Rows::OfMessages("key"),
        &[
            ("key", Message),
            ("role", Text),
            ("source", Text),
            ("content", Text),
            ("tool_call_id", Text),
            ("is_error", Integer),
            ("context_json", Text),
        ],
    ),
    of(
        "tool_calls",
        below("turn", "turns", &["seq"]),
        &[
            ("turn", TURN),
            ("seq", Integer),
            ("id", Text),
            ("name", Text),
            ("message", Integer),
            ("is_error", Integer),
        ],
    ),
    of(
        "late_results",
        below("turn", "turns", &["seq"]),
        &[
            ("turn", TURN),
            ("seq", Integer),
            ("id", Text),
            ("is_error", Integer),
        ],
    ),
    of(
        "compactions",
        below("turn", "turns", &[]),
        &[
            ("turn", TURN),
            ("summary", Text),
            ("summarized_through", TURN),
            ("first_kept", TURN),
            ("trigger_name", Text),
            ("focus", Text),
            ("summariser", Text),
            ("tokens_before", Integer),
            ("tokens_after", Integer),
            ("usage", Text),
            ("first_kept_message", Integer),
            ("facts", Text),
        ],
    ),
    of(
        "head_moves",
        below("session", "sessions", &["seq"]),
        &[
            ("session", SESSION),
            ("seq", Integer),
            ("source", TURN),
            ("target", TURN),
            ("reason", Text),
            ("at", Integer),
        ],
    ),
    of(
        "idempotency_keys",
        below("session", "sessions", &["key"]),
        &[
            ("session", SESSION),
            ("key", Text),
            ("turn", TURN),
            ("body", Blob),
        ],
    ),
    of(
        "turn_labels",
        below("turn", "turns", &[]),
        &[("turn", TURN), ("label", Text)],
    ),
    large(
        "sent_messages",
        below("turn", "turns", &[]),
        &[("turn", TURN), ("blocks", Text)],
    ),
    of(
        "session_pins",
        below("session", "sessions", &["name", "revision"]),
        &[
            ("session", SESSION),
            ("name", Text),
            ("revision", Integer),
            ("text", Text),
            ("origin", Text),
            ("depth", Integer),
            ("seq", Integer),
            ("created_at", Integer),
        ],
    ),
    of(
        "tool_results",
        Rows::OfMessages("message"),
        &[
            ("tenant", Tenant),
            ("handle", Blob),
            ("message", Message),
            ("block", Integer),
        ],
    ),
    of(
        "counters",
        Rows::Keyed,
        &[("key", Key), ("tenant", Tenant), ("name", Text)],
    ),
    of(
        "counts",
        below("turn", "turns", &["counter"]),
        &[
            ("turn", TURN),
            ("counter", COUNTER),
            ("total", Integer),
            ("blocks", Text),
        ],
    ),
    of(
        "snapshots",
        Rows::Keyed,
        &[
            ("key", Key),
            ("tenant", Tenant),
            ("session", Text),
            ("hash", Blob),
            ("parent_turn", Blob),
            ("model", Text),
            ("tokens", Integer),
            ("counter", Text),
            ("root", Blob),
            ("created_at", Integer),
        ],
    ),
    large(
        "snapshot_reports",
        Rows::OfTenant(&["hash"]),
        &[("tenant", Tenant), ("hash", Blob), ("report", Blob)],
    ),
    large(
        "blobs",
        Rows::Keyed,
        &[
            ("key", Key),
            ("tenant", Tenant),
            ("hash", Blob),
            ("bytes", Blob),
        ],
    ),
    of(
        "samples",
        Rows::Keyed,
        &[
            ("key", Key),
            ("tenant", Tenant),
            ("model", Text),
            ("counter", Text),
            ("counted", Integer),
            ("actual", Integer),
        ],
    ),
    of(
        "trees",
        Rows::Keyed,
        &[
            ("key", Key),
            ("tenant", Tenant),
            ("id", Text),
            ("mode", Text),
            ("title", Text),
            ("system_context", Text),
            ("buffer_mode_system_context", Integer),
            ("preferences", Text),
            ("root", NODE),
            ("epoch", Integer),
            ("nodes", Integer),
            ("edges", Integer),
            ("instructions", Integer),
            ("created_at", Integer),
            ("deleted", Integer),
        ],
    ),
    of(
        "agents",
        Rows::KeyedBelow {
            column: "tree",
            table: "trees",
        },
        &[
            ("key", Key),
            ("tree", TREE),
            ("id", Text),
            ("kind", Text),
            ("name", Text),
            ("system_prompt", Text),
            ("model", Text),
            ("parameters", Text),
            ("permissions", Text),
            ("loom_aware", Integer),
            ("position", NODE),
        ],
    ),
    of(
        "nodes",
        Rows::Keyed,
        &[
            ("key", Key),
            ("tenant", Tenant),
            ("tree", TREE),
            ("id", Text),
            ("local_id", Text),
            ("author", Text),
            ("agent", AGENT),
            ("edited_from", NODE),
            ("excluded", Integer),
            ("pruned", Integer),
            ("bookmarked", Integer),
            ("created_at", Integer),
            ("bytes", Integer),
            ("arrivals", Integer),
            ("step", Integer),
            ("parent", NODE),
        ],
    ),
    large(
        "node_contents",
        below("node", "nodes", &[]),
        &[
            ("node", NODE),
            ("preview", Text),
            ("content", Text),
            ("sum", Blob),
        ],
    ),
    large(
        "raw_responses",
        below("node", "nodes", &[]),
        &[("node", NODE), ("response", Text)],
    ),
    of(
        "edges",
        Rows::KeyedBelow {
            column: "tree",
            table: "trees",
        },
        &[
            ("key", Key),
            ("tree", TREE),
            ("id", Text),
            ("kind", Text),
            ("target", NODE),
        ],
    ),
    of(
        "edge_sources",
        below("edge", "edges", &["seq"]),
        &[
            ("edge", Reference("edges")),
            ("seq", Integer),
            ("node", NODE),
            ("role", Text),
        ],
    ),
    of(
        "node_counts",
        below("node", "nodes", &["counter"]),
        &[("node", NODE), ("counter", COUNTER), ("blocks", Text)],
    ),
    of(
        "saved_paths",
        below("tree", "trees", &["name"]),
        &[
            ("tree", TREE),
            ("name", Text),
            ("head", NODE),
            ("choices", Text),
        ],
    ),
    of(
        "pins",
        below("agent", "agents", &["seq"]),
        &[
            ("agent", AGENT),
            ("seq", Integer),
            ("node", NODE),
            ("text", Text),
        ],
    ),
    of(
        "stashes",
        below("agent", "agents", &["name"]),
        &[
            ("agent", AGENT),
            ("name", Text),
            ("text", Text),
            ("recalled", Integer),
        ],
    ),
    of(
        "actions",
        below("agent", "agents", &["seq"]),
        &[
            ("agent", AGENT),
            ("seq", Integer),
            ("action", Text),
            ("at", Integer),
        ],
    ),
    of(
        "memory_models",
        Rows::Keyed,
        &[
            ("key", Key),
            ("tenant", Tenant),
            ("name", Text),
            ("dimensions", Integer),
        ],
    ),
    of(
        "memory_states",
        Rows::OfTenant(&["tenant"]),
        &[
            ("tenant", Tenant),
            ("seq", Integer),
            ("words", Integer),
            ("model", MODEL),
            ("tasks", Integer),
            ("later", MODEL),
            ("later_seq", Integer),
        ],
    ),
    of(
        "memories",
        Rows::Keyed,
        &[
            ("key", Key),
            ("tenant", Tenant),
            ("kind", Integer),
            ("seq", Integer),
            ("archived", Integer),
            ("at", Integer),
            ("idx", Integer),
            ("valid_from", Integer),
            ("valid_to", Integer),
            ("superseded", Integer),
            ("outcome", Integer),
            ("type", Text),
            ("session", Text),
            ("task", Text),
            ("source", Text),
            ("speaker", Text),
            ("mentions", Records),
            ("words", Blob),
            ("vector", Blob),
            ("digest", Blob),
            ("tag", Tag),
            ("id", Text),
            ("user", Text),
            ("agent", Text),
        ],
    ),
    of(
        "memory_counts",
        below("key", "memories", &[]),
        &[
            ("key", RECORD),
            ("tenant", Tenant),
            ("seq", Integer),
            ("given", Integer),
            ("texts", Integer),
            ("held", Integer),
        ],
    ),
    large(
        "memory_bodies",
        below("record", "memories", &[]),
        &[("record", RECORD), ("body", Text)],
    ),
    of(
        "memory_vectors",
        below("record", "memories", &["model"]),
        &[("record", RECORD), ("model", MODEL), ("vector", Blob)],
    ),
    of(
        "memory_names",
        below("entity", "memories", &["place", "name"]),
        &[
            ("tenant", Tenant),
            ("name", Text),
            ("entity", RECORD),
            ("place", Integer),
        ],
    ),
    of(
        "memory_mentions",
        below("record", "memories", &["entity"]),
        &[("record", RECORD), ("entity", RECORD)],
    ),
    of(
        "memory_ends",
        below("relation", "memories", &[]),
        &[
            ("relation", RECORD),
            ("source", RECORD),
            ("target", RECORD),
            ("type", Text),
        ],
    ),
    of(
        "memory_evidence",
        below("relation", "memories", &["record"]),
        &[("relation", RECORD), ("record", RECORD)],
    ),
    of(
        "memory_references",
        below("record", "memories", &["id"]),
        &[("tenant", Tenant), ("id", Text), ("record", RECORD)],
    ),
    of(
        "memory_later",
        below("record", "memories", &[]),
        &[
            ("record", RECORD),
            ("tenant", Tenant),
            ("seq", Integer),
            ("vector", Blob),
        ],
    ),
    of(
        "memory_pending",
        below("record", "memories", &[]),
        &[("tenant", Tenant), ("record", RECORD), ("stamp", Random)],
    ),
    of(
        "tasks",
        Rows::Keyed,
        &[
            ("key", Key),
            ("tenant", Tenant),
            ("id", Text),
            ("stack", Text),
            ("parent", Reference("tasks")),
            ("depth", Integer),
            ("open_parts", Integer),
            ("status", Text),
            ("goal", Text),
            ("result", Text),
            ("created_at", Integer),
            ("finished_at", Integer),
        ],
    ),
    of(
        "task_stacks",
        Rows::OfTenant(&["stack"]),
        &[
            ("tenant", Tenant),
            ("stack", Text),
            ("current", Reference("tasks")),
        ],
    ),
    of(
        "imports",
        Rows::Keyed,
        &[
            ("key", Key),
            ("tenant", Tenant),
            ("source", Text),
            ("file", Text),
            ("identity", Text),
            ("size", Integer),
            ("modified", Integer),
            ("offset", Integer),
            ("hash", Blob),
            ("unknown", Integer),
        ],
    ),
    large(
        "import_states",
        below("import", "imports", &[]),
        &[("import", Reference("imports")), ("bytes", Blob)],
    ),
    of(
        "import_roots",
        Rows::OfTenant(&["source", "root"]),
        &[
            ("tenant", Tenant),
            ("source", Text),
            ("root", Text),
            ("file", Text),
        ],
    ),
    large(
        "import_rows",
        Rows::Keyed,
        &[
            ("key", Key),
            ("tenant", Tenant),
            ("source", Text),
            ("file", Text),
            ("offset", Integer),
            ("raw", Text),
        ],
    ),
    large(
        "files",
        Rows::OfTenant(&["path"]),
        &[
            ("tenant", Tenant),
            ("path", Text),
            ("hash", Blob),
            ("bytes", Blob),
            ("revision", Integer),
            ("updated_at", Integer),
        ],
    ),
    of(
        "file_states",
        Rows::OfTenant(&["tenant"]),
        &[("tenant", Tenant), ("revision", Integer)],
    ),
    of(
        "pending_deletions",
        Rows::Keyed,
        &[
            ("key", Key),
            ("tenant", Tenant),
            ("since", Integer),
            ("what", Text),
        ],
    ),
    of("unlisted_results", Rows::Unlisted, &[]),
];

/// The tables that must have no rows of a tenant when a copy is imported.
pub(crate) const CONTENT: &[&str] = &[
    "sessions",
    "turns",
    "snapshots",
    "blobs",
    "samples",
    "trees",
    "memories",
    "memory_states",
    "tasks",
    "imports",
    "import_rows",
    "files",
    "file_states",
];

/// The tables whose rows an import replaces in a tenant without content.
pub(crate) const REPLACED: &[&str] = &[
    "mark_keys",
    "counters",
    "memory_models",
    "memory_gone",
    "memory_kinds",
    "memory_progress",
    "task_stacks",
    "import_roots",
    "unlisted_results",
];

impl Table {
    /// Returns the table with this name and its index in the order.
    pub(crate) fn named(name: &str) -> Option<(usize, &'static Table)> {
        let tables = TABLES.iter().enumerate();
        tables.into_iter().find(|(_, table)| table.name == name)
    }

    /// Returns true when rows of other tables can refer to rows of this one.
    pub(crate) fn is_keyed(&self) -> bool {
        matches!(self.rows, Rows::Keyed | Rows::KeyedBelow { .. })
    }

    /// Returns the columns that are in a copy.
    pub(crate) fn copied(&self) -> impl Iterator<Item = (&'static str, Kind)> {
        let columns = self.columns.iter().copied();
        columns.filter(|(_, kind)| kind.is_copied())
    }

    /// Returns true if the column is one of the table.
    pub fn has_column(&self, name: &str) -> bool {
        self.columns.iter().any(|(column, _)| *column == name)
    }
}
