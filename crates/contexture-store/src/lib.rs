//! What Contexture stores, and what a store must do.
//!
//! [`Ledger`] keeps conversations: turns form a tree, a [`Session`] is a name
//! for its head, a fork shares its ancestors, and nothing is ever changed.
//! [`Snapshots`] keeps the requests that were assembled, by content.
//! [`Samples`] keeps what calibration learns from. [`Trees`] keeps looms:
//! conversations and documents that branch. [`Memories`] keeps what is to be
//! found again, and [`Tasks`] what is being done. [`Tenants`] keeps the keys that
//! open all this to those who ask over a network, each to their own part.
//!
//! A store promises what the documentation of these traits says. The crate
//! `contexture-store-suite` has a test for each promise, and every store runs
//! it.
//!
//! Calls block. A caller that must not wait hands them to a thread.

mod compaction;
mod error;
mod id;
mod key;
mod ledger;
mod memory;
mod message;
#[cfg(feature = "schema")]
pub mod schema;
mod session;
mod snapshot;
mod task;
mod time;
mod tree;
mod turn;

pub use compaction::{Compaction, Trigger};
pub use error::StoreError;
pub use id::{NotAnId, TurnId};
pub use key::{KeyRecord, KeyScope, MAX_KEY_NAME_BYTES, Tenants, Waited, Watch};
pub use ledger::{Counted, Ledger, Recorded, TurnHead, Walk};
pub use memory::{
    Analysis, Change, ChunkRecord, Condition, ConditionKind, Derived, EmbedderInfo, EntityRecord,
    EntitySketch, EventRecord, Forget, Forgotten, KindStats, Link, MAX_ID_BYTES, Memories,
    MemoryState, MemoryStats, Mention, NewRecord, Outcome, PatternRecord, PatternSketch, Record,
    RecordKey, RecordKind, RelationRecord, RelationSketch, Remembered, Sketch, TextSketch,
};
pub use message::{Block, Message, MessageContent, MessageRole, Source};
pub use session::{
    HeadMove, MAX_LABEL_BYTES, NewSession, Session, SessionChange, SessionStatus, check_alias,
    check_label,
};
pub use snapshot::{Blob, Later, Sample, Samples, Snapshot, Snapshots, Store, TurnSample};
pub use task::{NewTask, TaskRecord, TaskStatus, TaskView, Tasks};
pub use time::lenient::deserialize as lenient_time;
pub use tree::{
    Action, Agent, AgentMemory, Arrival, Author, Connections, CountedNode, Edge, EdgeKind,
    EdgeSource, FlagChange, Flags, Growth, Imported, Known, LOCAL_ID_CHARS, MemoryChange, Merged,
    Node, NodeHead, PREVIEW_CHARS, Pin, Preferences, PreferencesChange, RawResponse, SavedPath,
    SettingsChange, Skeleton, SourceRole, Stash, Step, Surroundings, Tree, TreeChange,
    TreeDocument, TreeInfo, TreeMode, Trees, TruncationStrategy, in_another_tree, local_id,
    no_node,
};
pub use turn::{
    AgentRole, BlockCounts, Body, ErrorKind, MAX_DEPTH, MAX_MESSAGES, MAX_NUMBER, NewTurn,
    OpenCall, Outline, StopReason, ToolCallRecord, Turn, TurnError, TurnKind, TurnStatus,
};
