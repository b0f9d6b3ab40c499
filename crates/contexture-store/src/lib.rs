//! The types that Contexture stores, and the traits of a store.
//!
//! ```
//! use contexture_store::{Ledger, NewSession, Session, StoreError};
//!
//! // Works with every store.
//! fn begin(store: &dyn Ledger, label: &str) -> Result<Session, StoreError> {
//!     let new = NewSession { label: label.to_owned(), ..NewSession::default() };
//!     store.create_session(&new, "2026-02-02T10:00:00Z".parse().expect("is a time"))
//! }
//! ```
//!
//! - [`Ledger`] stores conversations. Turns form a tree, a [`Session`] is a label
//!   for its head, a fork shares its ancestors, and turns never change.
//! - [`Snapshots`] stores assembled requests by content.
//! - [`Samples`] stores token counts for calibration.
//! - [`Trees`] stores looms: conversations and documents with branches.
//! - [`Memories`] stores records that can be recalled, and [`Tasks`] task
//!   stacks.
//! - [`Imports`] stores imported data, and the progress of each imported file.
//! - [`Files`] stores personas, tools, recipes and working sets of a tenant.
//! - [`Events`] stores events of sessions, for listeners.
//! - [`DoneCalls`] stores the calls with an idempotency key that were done.
//! - [`Upkeep`] measures, verifies and deletes a tenant's data.
//! - [`Archive`] copies a tenant's data from one store to another.
//! - [`Tenants`] stores the API keys of a server and separates its tenants.
//!
//! The documentation of these traits is their contract. The crate
//! `contexture-store-suite` tests the contract, and every store runs it.
//!
//! All methods block. Asynchronous callers run them in a thread.
//!
//! # Guarantees of every store
//!
//! - **Order.** The writes of a tenant run one after the other, also those of
//!   several processes: a file has one writer, and a database locks the tenant's
//!   row. The numbers of [changes](Memories::changes) and [events](Events::events)
//!   are therefore in the order of commits. A reader that has seen a number never
//!   finds a new change with a smaller one.
//! - **Durability.** A write that returns `Ok` is committed, and survives the loss
//!   of the process. It survives the loss of the machine, unless the method says
//!   that it does not wait for the disk, or the database is configured so. With
//!   [`StoreError::UnknownOutcome`], a write may have happened. Every other error
//!   means that nothing was written.
//! - **Visibility.** A handle, in this process or another one, sees a write as
//!   soon as it has returned `Ok`. Each call sees one state of the store: all
//!   of a write, or nothing of it. Two calls can see two states. Answers that
//!   were [read ahead](Ledger::read_ahead) show the state at the time of
//!   reading.
//! - **Clocks.** The caller gives the time, so the clock of the caller's machine
//!   counts. No order depends on it: a clock that is set back, or that differs
//!   between servers, changes only the times that are stored.
//! - **Deletion.** No handle returns deleted data. The embedded store also
//!   overwrites it in its files, at once or as soon as no reader needs it;
//!   `pending` is true in the latter case. PostgreSQL keeps it in its files
//!   until VACUUM has run and in its log and backups, so `pending` is always
//!   true there. An index that another process holds in memory drops it at its
//!   next call.

mod archive;
mod call;
mod compaction;
mod error;
mod event;
mod file;
mod handle;
mod id;
mod idempotency;
mod import;
mod json_text;
mod key;
mod ledger;
mod memory;
mod pin;
#[cfg(feature = "schema")]
pub mod schema;
mod sent;
mod session;
mod snapshot;
mod task;
mod time;
mod tree;
mod turn;
mod upkeep;

pub use archive::{Archive, ArchiveEntry, ArchiveSink, ArchiveSource};
pub use call::{Call, ExecutionSlot, ModelCall};
pub use compaction::{Compaction, Trigger};
pub use contexture_core::message::{Block, Message, MessageContent, MessageRole, Source};
pub use contexture_core::{BlockText, Native, RawJson};
pub use error::StoreError;
pub use event::{EventPage, Events, MAX_EVENTS, StoredEvent};
pub use file::{
    ExpectedFile, Files, MAX_FILE_BYTES, MAX_FILES, MAX_PATH_BYTES, StoredFile, check_file_path,
};
pub use handle::{Handle, HandlePrefix, LEAST_FETCHABLE_BYTES, fetchable};
pub use id::{NotAnId, TurnId};
pub use idempotency::{
    DoneCall, DoneCalls, IDEMPOTENCY_HOURS, IdempotentCall, MAX_IDEMPOTENCY_KEY_BYTES,
    MAX_STORED_ANSWER_BYTES,
};
pub use import::{ImportCursor, ImportOutcome, ImportRow, ImportStep, ImportedTurn, Imports};
pub use key::{
    AuditEntry, EventHint, KeyRecord, KeyScope, MAX_KEY_NAME_BYTES, SharedPart, StoreStats,
    TenantQuota, Tenants, Waited, Watch,
};
pub use ledger::{Counted, Ledger, ReadAhead, Recorded, ToolResult, TurnHead, Walk};
pub use memory::{
    Analysis, Change, ChunkRecord, Condition, ConditionKind, Derived, EmbedderInfo, EntityRecord,
    EntitySketch, EventRecord, Forget, Forgotten, KindStats, LaterState, LaterVector, Link,
    MAX_ID_BYTES, Memories, MemoryState, MemoryStats, Mention, NewRecord, Outcome, PatternRecord,
    PatternSketch, PendingText, Record, RecordKey, RecordKind, RecordList, RecordScope,
    RelationRecord, RelationSketch, Remembered, Sketch, TextSketch,
};
pub use pin::{NewSessionPin, SessionPin};
pub use sent::SentBlock;
pub use session::{
    HeadMove, MAX_LABEL_BYTES, NewSession, Session, SessionChange, SessionStatus, check_alias,
    check_label,
};
pub use snapshot::{
    Blob, PendingSnapshot, Sample, Samples, Snapshot, Snapshots, Store, TurnSample,
};
pub use task::{NewTask, TaskRecord, TaskStatus, TaskView, Tasks};
pub use time::lenient::deserialize as lenient_time;
pub use tree::{
    Action, Agent, AgentMemory, Arrival, Author, Connections, CountedNode, Edge, EdgeKind,
    EdgeSource, FlagChange, Flags, Growth, Imported, KnownNode, LOCAL_ID_CHARS, MemoryChange,
    Merged, Node, NodeHead, PREVIEW_CHARS, Pin, Preferences, PreferencesChange, RawResponse,
    SavedPath, SettingsChange, Skeleton, SourceRole, Stash, Step, Surroundings, Tree, TreeChange,
    TreeDocument, TreeInfo, TreeMode, Trees, TruncationStrategy, in_another_tree, local_id,
    no_node,
};
pub use turn::{
    AgentRole, BlockCounts, Body, ErrorKind, MAX_DEPTH, MAX_MESSAGES, MAX_NUMBER, NewTurn,
    OpenCall, Outline, ParentTurn, StopReason, ToolCallRecord, Turn, TurnError, TurnKind,
    TurnStatus, check_messages,
};
pub use upkeep::{Damage, Deleted, MAX_DAMAGES, Retention, Upkeep, Usage, Verification};
