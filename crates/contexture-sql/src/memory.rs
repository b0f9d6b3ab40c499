//! Memory records.
//!
//! Each kind of record has a table. Search data (words, vectors, mentions) is
//! in tables of its own, in the same transaction. Every change gets a sequence
//! number, from which indexes are updated.

mod archive;
mod batch;
mod changes;
mod embed;
mod entities;
pub(crate) mod forget;
mod later;
pub(crate) mod load;
pub(crate) mod prepare;
mod relations;
mod remember;
mod stats;

use std::collections::BTreeMap;
use std::path::PathBuf;

use contexture_store::{
    Analysis, Change, EmbedderInfo, Forget, Forgotten, LaterVector, Memories, MemoryState,
    MemoryStats, NewRecord, Outcome, PendingText, Record, RecordKey, RecordKind, RecordList,
    Remembered, StoreError,
};
use jiff::Timestamp;

use crate::error::Error;
use crate::together::Together;
use crate::{Backend, SqlStore, ahead};

pub(crate) use embed::state;

impl<B: Backend> Memories for SqlStore<B> {
    fn remember(
        &self,
        records: &[NewRecord],
        analysis: &Analysis,
        now: Timestamp,
    ) -> Result<Vec<Remembered>, StoreError> {
        let most = self.max_message_bytes();
        let items = prepare::prepare(records, analysis, most)?;
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let analysis = analysis.clone();
        self.write_keyed(move |db, tenant| remember::remember(db, tenant, &items, &analysis, now))
    }

    fn memory_state(&self) -> Result<MemoryState, StoreError> {
        self.read_once(ahead::memory, embed::state)
    }

    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.read(|db, tenant| changes::changes(db, tenant, after, limit))
    }

    fn records(&self, keys: &[RecordKey]) -> Result<Vec<Option<Record>>, StoreError> {
        self.read(|db, tenant| {
            let mut together = Together::default();
            let records: Vec<_> = keys
                .iter()
                .map(|&key| together.add(move |db| load::record(db, tenant, key)))
                .collect();
            together.run(db)?;
            records.into_iter().map(|record| record.take()).collect()
        })
    }

    fn record_keys(&self, ids: &[&str]) -> Result<Vec<(RecordKind, RecordKey)>, StoreError> {
        self.read(|db, tenant| load::keys(db, tenant, ids))
    }

    fn archive(&self, keys: &[RecordKey]) -> Result<(), StoreError> {
        let keys = keys.to_vec();
        self.write(move |db, tenant| archive::archive(db, tenant, &keys))
    }

    fn forget(&self, what: &Forget) -> Result<Forgotten, StoreError> {
        let what = what.clone();
        let forget = move |db: &_, tenant| forget::forget(db, tenant, &what);
        let (forgotten, clean) = self.write_and_clean(forget)?;
        let count: u64 = forgotten.forgotten.values().sum();
        self.note_deletion("memory_forgotten", format!("{count} records"));
        Ok(Forgotten {
            pending: !clean,
            ..forgotten
        })
    }

    fn put_words(&self, rules: u32, words: &[(RecordKey, Vec<u8>)]) -> Result<(), StoreError> {
        let words = words.to_vec();
        self.write(move |db, tenant| embed::put_words(db, tenant, rules, &words))
    }

    fn put_vectors(
        &self,
        embedder: &EmbedderInfo,
        vectors: &[(RecordKey, Vec<u8>)],
    ) -> Result<(), StoreError> {
        let (embedder, vectors) = (embedder.clone(), vectors.to_vec());
        self.write(move |db, tenant| embed::put_vectors(db, tenant, &embedder, &vectors))
    }

    fn unembedded(
        &self,
        embedder: &EmbedderInfo,
        after: RecordKey,
        limit: usize,
    ) -> Result<Vec<RecordKey>, StoreError> {
        self.read(|db, tenant| embed::unembedded(db, tenant, embedder, after, limit))
    }

    fn use_embedder(&self, embedder: &EmbedderInfo) -> Result<(), StoreError> {
        let embedder = embedder.clone();
        self.write(move |db, tenant| embed::use_embedder(db, tenant, &embedder))
    }

    fn list(
        &self,
        what: &RecordList,
        after: RecordKey,
        limit: usize,
    ) -> Result<Vec<RecordKey>, StoreError> {
        self.read(|db, tenant| stats::list(db, tenant, what, after, limit))
    }

    fn record_counts(&self) -> Result<BTreeMap<RecordKind, u64>, StoreError> {
        self.read(stats::counts)
    }

    fn put_later(
        &self,
        embedder: &EmbedderInfo,
        vectors: &[(PendingText, Vec<u8>)],
    ) -> Result<(), StoreError> {
        let (embedder, vectors) = (embedder.clone(), vectors.to_vec());
        self.write(move |db, tenant| later::put(db, tenant, &embedder, &vectors))
    }

    fn pending(&self, limit: usize) -> Result<Vec<PendingText>, StoreError> {
        self.read(|db, tenant| later::pending(db, tenant, limit))
    }

    fn later_vectors(&self, after: u64, limit: usize) -> Result<Vec<LaterVector>, StoreError> {
        self.read(|db, tenant| later::vectors(db, tenant, after, limit))
    }

    fn index_path(&self) -> Option<PathBuf> {
        self.backend().index_path()
    }

    fn memory_stats(&self) -> Result<MemoryStats, StoreError> {
        self.read(stats::stats)
    }
}

/// The kinds as the column `kind` has them.
mod kind {
    pub(super) const EVENT: i64 = 0;
    pub(super) const CHUNK: i64 = 1;
    pub(super) const ENTITY: i64 = 2;
    pub(super) const RELATION: i64 = 3;
    pub(super) const PATTERN: i64 = 4;
}

/// Returns the kind that a number in the column `kind` stands for.
fn kind_of(number: i64) -> crate::driver::Result<RecordKind> {
    match number {
        kind::EVENT => Ok(RecordKind::Event),
        kind::CHUNK => Ok(RecordKind::Chunk),
        kind::ENTITY => Ok(RecordKind::Entity),
        kind::RELATION => Ok(RecordKind::Relation),
        kind::PATTERN => Ok(RecordKind::Pattern),
        other => Err(Error::Content(format!("{other} is no kind of record"))),
    }
}

/// Returns the number of a kind; `None` for tasks, which are elsewhere.
fn number_of(kind: RecordKind) -> Option<i64> {
    match kind {
        RecordKind::Event => Some(kind::EVENT),
        RecordKind::Chunk => Some(kind::CHUNK),
        RecordKind::Entity => Some(kind::ENTITY),
        RecordKind::Relation => Some(kind::RELATION),
        RecordKind::Pattern => Some(kind::PATTERN),
        RecordKind::Task => None,
    }
}

fn is_text(kind: i64) -> bool {
    matches!(kind, kind::EVENT | kind::CHUNK)
}

/// Returns true for the kinds of which texts tell.
fn is_counted(kind: i64) -> bool {
    matches!(kind, kind::ENTITY | kind::RELATION)
}

fn outcome_number(outcome: Outcome) -> i64 {
    match outcome {
        Outcome::Success => 0,
        Outcome::Failure => 1,
        Outcome::Partial => 2,
    }
}

fn outcome_of(number: i64) -> Option<Outcome> {
    match number {
        0 => Some(Outcome::Success),
        1 => Some(Outcome::Failure),
        2 => Some(Outcome::Partial),
        _ => None,
    }
}

/// Writes the keys of entities as the column `mentions`; none take no room.
pub(crate) fn pack(keys: &[i64]) -> Option<Vec<u8>> {
    let bytes = keys.iter().flat_map(|key| key.to_le_bytes());
    (!keys.is_empty()).then(|| bytes.collect())
}

/// Reads the column `mentions`.
pub(crate) fn unpack(bytes: Option<&[u8]>) -> Vec<i64> {
    let (keys, _) = bytes.unwrap_or_default().as_chunks::<8>();
    keys.iter().copied().map(i64::from_le_bytes).collect()
}
