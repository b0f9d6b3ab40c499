//! The trait [`Upkeep`]: measures, verifies and deletes a tenant's data, and
//! collects data without references.

use std::collections::BTreeMap;

use contexture_core::ContentHash;
use jiff::Timestamp;
use serde::Serialize;

use crate::error::StoreError;
use crate::id::TurnId;

/// The amount of data that a tenant has stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "StorageUsage"))]
pub struct Usage {
    /// The size of the tenant's files on disk, in bytes.
    pub bytes: u64,
    /// The number of sessions.
    pub sessions: u64,
    /// The number of turns.
    pub turns: u64,
    /// The number of saved requests.
    pub snapshots: u64,
    /// The number of memory records, archived ones included.
    pub records: u64,
    /// The number of trees.
    pub trees: u64,
    /// The number of nodes of all trees.
    pub nodes: u64,
    /// The number of tasks.
    pub tasks: u64,
    /// Whether the files can still hold deleted text.
    pub pending: bool,
}

/// The result of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DeletionResult"))]
pub struct Deleted {
    /// The number of deleted rows by kind, such as `turns`.
    pub deleted: BTreeMap<String, u64>,
    /// Whether the store's files can still hold deleted text, or rows that are not
    /// deleted yet. The store deletes and overwrites them as soon as it can, also
    /// after a restart.
    pub pending: bool,
}

/// The retention settings of a collection. The latest snapshot of each session
/// is always kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Snapshots from before this time are deleted.
    pub before: Option<Timestamp>,
    /// The number of snapshots that a session keeps.
    pub per_session: Option<u64>,
    /// Events and chunks of the memory from before this time are deleted,
    /// together with data derived only from them.
    pub memories_before: Option<Timestamp>,
    /// Tasks that were finished before this time are deleted. A task with a
    /// subtask that is kept is kept, too, and so is the current task of a stack.
    pub tasks_before: Option<Timestamp>,
}

/// Stored data that differs from what was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Damage {
    /// The damaged object, such as ``turn `3f2a…` of session `main` ``.
    pub what: String,
    /// The evidence of the damage.
    pub message: String,
}

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verification {
    /// The number of checked objects by kind, such as `turns`.
    pub checked: BTreeMap<String, u64>,
    /// The damaged objects: at most [`MAX_DAMAGES`].
    pub damaged: Vec<Damage>,
}

/// The maximum number of damages that a verification lists.
pub const MAX_DAMAGES: usize = 1000;

/// The upkeep of a tenant's data.
pub trait Upkeep: Send + Sync {
    /// Returns the amount of stored data.
    fn usage(&self) -> Result<Usage, StoreError>;

    /// Returns true while the store's files can still hold deleted text, which the
    /// store overwrites by itself as long as it is open, and while deletions have not
    /// [ended](Self::continue_deletions).
    fn has_deleted_text(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Continues deletions that have not ended: a deletion that is larger than the free
    /// space of the disk is divided into steps, and the store or the process can stop
    /// between two of them. Returns the number of deletions that still have not ended.
    ///
    /// A store does that when it is opened, for its default tenant. A server does it for
    /// all tenants.
    fn continue_deletions(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Checks everything that is stored: the hashes of turns and their chains,
    /// heads, hashes of snapshots and their content, memory records, nodes and
    /// the structure of trees. Damage is listed; the method fails only if the
    /// store cannot be read at all.
    fn verify(&self) -> Result<Verification, StoreError>;

    /// Deletes a session with its turns and snapshots. Turns that another session
    /// shares, because it was forked, are kept. Memory records of the session are
    /// kept.
    fn delete_session(&self, label: &str) -> Result<Deleted, StoreError>;

    /// Deletes the turns of a session before `turn`, which becomes the first. The
    /// turn and those after it are kept with their ids and numbers. Turns of the
    /// session that are not on the path to its head are kept only if they come
    /// after `turn`.
    ///
    /// All snapshots of the session are deleted, too, because their requests can
    /// contain deleted turns. Memory records are kept, and so are summaries that
    /// were recorded after `turn`.
    ///
    /// Fails if `turn` is not on the path to the head, or if it has results of
    /// tool calls that would be deleted. Fails with
    /// [`Shared`](StoreError::Shared) if another session needs one of the turns.
    /// Deletes nothing, and does not fail, if `turn` is the first that was
    /// recorded. A repeated call deletes snapshots that were saved meanwhile.
    fn delete_turns_before(&self, label: &str, turn: TurnId) -> Result<Deleted, StoreError>;

    /// Deletes a snapshot in all sessions that have it, with its report, and
    /// content that no other snapshot refers to.
    fn delete_snapshot(&self, hash: ContentHash) -> Result<Deleted, StoreError>;

    /// Deletes a tree with its nodes, edges, agents and paths, and the snapshots of
    /// its requests: those with the label `loom:TREE` or `loom:TREE/AGENT`. Content
    /// that other snapshots refer to is kept.
    fn delete_tree(&self, id: &str) -> Result<Deleted, StoreError>;

    /// Deletes snapshots, memory records and tasks that the retention does not
    /// keep, and content that no snapshot refers to. With `dry_run`, nothing is deleted, and the result is
    /// what would be.
    fn collect(&self, retention: &Retention, dry_run: bool) -> Result<Deleted, StoreError>;
}
