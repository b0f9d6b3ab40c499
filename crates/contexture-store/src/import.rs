//! The writes of an import: sessions, turns, compactions, requests and a cursor
//! in one transaction, so that an interrupted import can continue.

use contexture_core::ContentHash;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::compaction::Compaction;
use crate::error::StoreError;
use crate::id::TurnId;
use crate::session::NewSession;
use crate::snapshot::{Blob, Snapshot};
use crate::turn::NewTurn;

/// One change of an import. The steps of a batch are applied in order.
#[derive(Debug, Clone, PartialEq)]
pub enum ImportStep {
    /// Creates a session, unless one with that label or alias exists. An existing
    /// session without a parent gets the parent of `new`.
    Session {
        /// The session.
        new: NewSession,
        /// The turn to start at, for a fork. It overrides `new.head`.
        head: ImportedTurn,
        /// The time of its creation.
        at: Timestamp,
    },
    /// Records a turn after `parent`. The head of the session does not move.
    /// A turn that is recorded already is not recorded again.
    Turn {
        /// The label of the session.
        session: String,
        /// The turn before.
        parent: ImportedTurn,
        /// The content. Its `parent_turn_id` and `idempotency_key` are ignored.
        turn: Box<NewTurn>,
        /// The time of the turn.
        at: Timestamp,
    },
    /// Records a compaction after `parent`. The head does not move.
    Compaction {
        /// The label of the session.
        session: String,
        /// The turn before.
        parent: ImportedTurn,
        /// The first turn that requests still show. It overrides the field of
        /// the same name.
        first_kept: ImportedTurn,
        /// The content.
        compaction: Box<Compaction>,
        /// The time of the compaction.
        at: Timestamp,
    },
    /// Moves the head of a session, if it is another turn.
    Head {
        /// The label of the session.
        session: String,
        /// The new head.
        to: ImportedTurn,
        /// The reason that is recorded with the move.
        reason: String,
        /// The time of the move.
        at: Timestamp,
    },
    /// Checks the content of requests. If content was deleted since the
    /// [number](Imports::content_deletions) was read, the batch is saved only if all
    /// content of its requests is stored. If none was deleted, the content that states
    /// need is not looked up: the reader has found or stored it since.
    ContentSince(u64),
    /// Saves a request.
    Snapshot {
        /// The description of the request.
        snapshot: Box<Snapshot>,
        /// The head of the session when it was sent. It overrides
        /// `snapshot.parent_turn`.
        parent: ImportedTurn,
        /// The content of the snapshot that may not be stored yet.
        blobs: Vec<Blob>,
    },
    /// Stores content that a later request may have. Until then, nothing refers
    /// to it, and a [collection](crate::Upkeep::collect) deletes it.
    Content(Vec<Blob>),
    /// Saves the progress of the import of a file.
    Cursor(Box<ImportCursor>),
    /// Saves the reader's state of the file whose cursor was saved before.
    State {
        /// The name of the format.
        source: String,
        /// The path of the file.
        file: String,
        /// The state.
        bytes: Vec<u8>,
        /// Content that the state and the imported requests refer to. If a
        /// collection has deleted some of it, the batch is not saved, and the
        /// file must be read again.
        needs: Vec<ContentHash>,
    },
    /// Records that the conversation with this root is in the file. The first
    /// file that claims a root keeps it.
    Root {
        /// The name of the format.
        source: String,
        /// The id of the first row.
        root: String,
        /// The path of the file.
        file: String,
    },
    /// Stores a row that the importer does not understand.
    Row(ImportRow),
}

/// A turn that a step refers to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImportedTurn {
    /// None: the beginning of the session.
    #[default]
    Nothing,
    /// A turn that is stored.
    Stored(TurnId),
    /// The turn of an earlier step of the same batch, by its index.
    Step(usize),
}

/// The result of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportOutcome {
    /// The id of the turn, for a turn or a compaction.
    pub turn: Option<TurnId>,
    /// Whether the step added something that was not there.
    pub added: bool,
}

/// The progress of the import of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportCursor {
    /// The name of the format, such as `claude-code`.
    pub source: String,
    /// The path of the file.
    pub file: String,
    /// The identity of the file in the file system: device and inode, where
    /// they exist.
    pub identity: String,
    /// The size of the file when it was read, in bytes.
    pub size: u64,
    /// The time of the file's last change when it was read, in Unix
    /// nanoseconds. Negative if the end of the file was held back: the time from
    /// which it is read again.
    pub modified: i64,
    /// The number of bytes that were imported.
    pub offset: u64,
    /// A hash of the beginning and the end of those bytes.
    pub hash: ContentHash,
    /// The number of rows that are not understood.
    pub unknown: u64,
}

/// A row that an importer did not understand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportRow {
    /// The name of the format.
    pub source: String,
    /// The path of the file.
    pub file: String,
    /// The start of the row in the file, in bytes.
    pub offset: u64,
    /// The row.
    pub raw: String,
}

/// Stores imported data, and the progress of importers.
pub trait Imports: Send + Sync {
    /// Applies steps, all or none, and returns the result of each.
    ///
    /// Fails if a step names a session or a turn that does not exist, or if a
    /// turn is [invalid](NewTurn::outline).
    fn import(&self, steps: Vec<ImportStep>) -> Result<Vec<ImportOutcome>, StoreError>;

    /// Returns the number of times that content of requests was deleted.
    fn content_deletions(&self) -> Result<u64, StoreError>;

    /// Returns the cursor of a file.
    fn import_cursor(&self, source: &str, file: &str) -> Result<Option<ImportCursor>, StoreError>;

    /// Returns all cursors, sorted by source and file.
    fn import_cursors(&self) -> Result<Vec<ImportCursor>, StoreError>;

    /// Returns the reader's state of a file.
    fn import_state(&self, source: &str, file: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Returns the first file that was imported with that root.
    fn import_with_root(&self, source: &str, root: &str) -> Result<Option<String>, StoreError>;

    /// Returns the first `limit` rows of a file that were not understood, in
    /// the order of the file.
    fn import_rows(
        &self,
        source: &str,
        file: &str,
        limit: usize,
    ) -> Result<Vec<ImportRow>, StoreError>;
}
