//! Memory records: events, chunks, entities, relations, patterns and tasks.
//!
//! A user stores and reads [`Record`]s. Next to each record a store saves its
//! search data ([`Derived`]: words, vector, mentions), which the caller creates.
//! A store does not search: it returns [changes](Memories::changes) in order,
//! from which an index in memory is built and updated, and records by key.

mod check;
mod record;
mod search;

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
pub use record::{
    ChunkRecord, Condition, ConditionKind, EntityRecord, EventRecord, Outcome, PatternRecord,
    Record, RecordKind, RecordScope, RelationRecord,
};
pub use search::{
    Analysis, Change, Derived, EmbedderInfo, EntitySketch, LaterState, LaterVector, Link,
    MemoryState, Mention, NewRecord, PatternSketch, PendingText, RecordKey, RelationSketch,
    Remembered, Sketch, TextSketch,
};

/// The maximum length of an id, and of the name of a session, source or task,
/// in bytes.
pub const MAX_ID_BYTES: usize = 512;

/// The records to delete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Forget {
    /// Deletes the records with an id.
    Id {
        /// The kind of record. Default: every kind.
        #[serde(default)]
        kind: Option<RecordKind>,
        /// The id of the records.
        id: String,
    },
    /// Deletes the chunks and events of a source.
    Source(String),
    /// Deletes the events and chunks of a session.
    Session(String),
    /// Deletes all records of a user.
    User(String),
}

/// The records to list: those that match every field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RecordList {
    /// The kind of record. Default: every kind.
    pub kind: Option<RecordKind>,
    /// The user that the records belong to. Default: every user.
    pub user: Option<String>,
    /// The agent that the records belong to. Default: every agent.
    pub agent: Option<String>,
    /// The session that the records belong to. Default: every session.
    pub session: Option<String>,
    /// The id of the task that the records belong to. Default: every task.
    pub task: Option<String>,
    /// The origin of the records. Default: every source.
    pub source: Option<String>,
    /// True to list also the entities and relations that were extracted from texts.
    /// Default: false.
    pub extracted: bool,
}

/// The number of deleted records, by kind. It includes entities and relations
/// that were derived only from the deleted records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DeletedRecords"))]
pub struct Forgotten {
    /// The number of deleted records by kind.
    pub forgotten: BTreeMap<RecordKind, u64>,
    /// Whether the store's files can still hold deleted text, or rows that are not
    /// deleted yet. The store deletes and overwrites them as soon as it can, also
    /// after a restart.
    pub pending: bool,
}

/// The content of a memory in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryStats {
    /// The number of records by kind, including tasks.
    pub kinds: BTreeMap<RecordKind, KindStats>,
    /// The number of distinct sessions.
    pub sessions: u64,
    /// The number of distinct sources.
    pub sources: u64,
    /// The number of events and chunks without a vector of the current
    /// embedder.
    pub unembedded: u64,
    /// The size of all records in bytes.
    pub bytes: u64,
}

/// The number of records of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindStats {
    /// The number of records that recall can return.
    pub live: u64,
    /// The number of those records that have an end of validity.
    pub ended: u64,
    /// The number of archived records.
    pub archived: u64,
}

/// Stores memory records. Keys, ids and counts never include other tenants.
pub trait Memories: Send + Sync {
    /// Stores records, all or none, and returns the result of each, in the order
    /// given. Tasks are stored like [`Tasks`](crate::Tasks) does, without
    /// becoming current.
    ///
    /// A record replaces a different record with the same id; an identical
    /// record changes nothing. A record that
    /// [supersedes](EventRecord::supersedes) another of its kind ends the
    /// other's validity at its own `valid_from`, otherwise at its time, otherwise
    /// at `now`. Mentions and links create or strengthen entities and relations.
    ///
    /// A recorded entity or relation replaces a derived one and keeps its key:
    /// one with the same id, an entity with the same type and a common name, or
    /// a relation of the same type between the same entities. A missing time is
    /// `now`, and keeps that value when the record is repeated. Missing words or
    /// vectors are filled in.
    ///
    /// Fails if a record is [invalid](Record::check), with its position
    /// (`records[3].id`); if the superseded record does not exist; if the parent
    /// of a task is missing or a descendant; and if there are texts and
    /// `analysis` is not the current one. A memory without texts adopts
    /// `analysis`; a memory without an embedder adopts the first one. Callers
    /// without an embedder give texts without vectors.
    fn remember(
        &self,
        records: &[NewRecord],
        analysis: &Analysis,
        now: Timestamp,
    ) -> Result<Vec<Remembered>, StoreError>;

    /// Returns the state of the memory. This is cheap: every recall calls it.
    fn memory_state(&self) -> Result<MemoryState, StoreError>;

    /// Returns at most `limit` changes after the sequence number `after`, in
    /// order. The numbers are in the order of commits, on all handles: once a
    /// change was returned, no change with a smaller number appears.
    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError>;

    /// Returns records in the order of the keys; `None` for missing ones. The
    /// `mentions` of an entity include the mentions in texts.
    fn records(&self, keys: &[RecordKey]) -> Result<Vec<Option<Record>>, StoreError>;

    /// Returns the keys of the records with those ids, of any kind, in no
    /// particular order, archived ones included. Tasks have none.
    fn record_keys(&self, ids: &[&str]) -> Result<Vec<(RecordKind, RecordKey)>, StoreError>;

    /// Archives records: recall does not find them any more, and recording one
    /// again restores it. Mentions in archived texts do not count, and records
    /// that are derived only from archived texts are archived too. Unknown keys
    /// are ignored.
    fn archive(&self, keys: &[RecordKey]) -> Result<(), StoreError>;

    /// Deletes records and everything derived only from them. No trace is left
    /// in the store's files, unless [`Forgotten::pending`] says so: the embedded
    /// store overwrites the rest as soon as it can, and PostgreSQL with its next
    /// VACUUM. Other handles do not return a deleted record from then on. Mentions are deleted with their texts; entities and
    /// relations that were derived only from those texts are deleted too, and so
    /// are derived relations of a deleted entity. References to a deleted record
    /// (as parent, evidence or superseded record) are removed.
    ///
    /// Fails if the id, source or session does not exist, and for a task that
    /// has subtasks or is current.
    fn forget(&self, what: &Forget) -> Result<Forgotten, StoreError>;

    /// Stores new words, made with version `rules` of the rules, which becomes
    /// the current version. If the version changed, the words of all other texts
    /// are removed, and those texts are reported as changes.
    fn put_words(&self, rules: u32, words: &[(RecordKey, Vec<u8>)]) -> Result<(), StoreError>;

    /// Stores vectors of an embedder, next to those of the current embedder if
    /// that is another one. Unknown keys are ignored.
    fn put_vectors(
        &self,
        embedder: &EmbedderInfo,
        vectors: &[(RecordKey, Vec<u8>)],
    ) -> Result<(), StoreError>;

    /// Returns at most `limit` keys after `after`, in order, of events and
    /// chunks that have no vector of that embedder. Archived ones are left out.
    fn unembedded(
        &self,
        embedder: &EmbedderInfo,
        after: RecordKey,
        limit: usize,
    ) -> Result<Vec<RecordKey>, StoreError>;

    /// Sets the embedder in use, and drops the vectors of all others. Every
    /// text then counts as changed.
    fn use_embedder(&self, embedder: &EmbedderInfo) -> Result<(), StoreError>;

    /// Returns at most `limit` keys after `after`, in ascending order, of the
    /// records that a list selects. Archived records and tasks are not listed.
    /// Derived entities and relations are listed only if `extracted` is set.
    fn list(
        &self,
        what: &RecordList,
        after: RecordKey,
        limit: usize,
    ) -> Result<Vec<RecordKey>, StoreError>;

    /// Returns the number of records that can be found, by kind. This is cheap:
    /// every recording calls it.
    fn record_counts(&self) -> Result<BTreeMap<RecordKind, u64>, StoreError>;

    /// Stores vectors of the second generation. They are not a change of the
    /// memory: [`later_vectors`](Memories::later_vectors) reports them.
    ///
    /// If the embedder is not that of the second generation so far, the
    /// vectors of the earlier one are dropped, and every text is pending. A
    /// text that was replaced, archived or deleted since it was read gets no
    /// vector.
    fn put_later(
        &self,
        embedder: &EmbedderInfo,
        vectors: &[(PendingText, Vec<u8>)],
    ) -> Result<(), StoreError>;

    /// Returns at most `limit` active events and chunks without a vector of the
    /// second generation, the newest first.
    fn pending(&self, limit: usize) -> Result<Vec<PendingText>, StoreError>;

    /// Returns at most `limit` vectors of the second generation after the
    /// number `after`, in order.
    fn later_vectors(&self, after: u64, limit: usize) -> Result<Vec<LaterVector>, StoreError>;

    /// Returns the path of the file in which an index derived from this memory
    /// can be kept on the local disk. `None` if the store has no such path; the
    /// index is then built whenever a process starts. A store that deletes a
    /// tenant deletes the file too.
    fn index_path(&self) -> Option<PathBuf> {
        None
    }

    /// Returns statistics of the memory.
    fn memory_stats(&self) -> Result<MemoryStats, StoreError>;
}
