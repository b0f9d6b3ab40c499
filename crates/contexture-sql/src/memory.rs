//! Memory records: the transactions around `contexture-sql-memory`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use contexture_store::{
    Analysis, Change, EmbedderInfo, Forget, Forgotten, LaterVector, Memories, MemoryState,
    MemoryStats, NewRecord, PendingText, Record, RecordKey, RecordKind, RecordList, Remembered,
    StoreError,
};
use jiff::Timestamp;

use contexture_driver::together::Together;
use contexture_sql_memory::{archive, changes, embed, later, load, prepare, remember, stats};

use crate::upkeep::Deletion;
use crate::{Backend, SqlStore, ahead};

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
        let done = self.delete_or_divide(Deletion::Records {
            of: what.clone(),
            through: None,
        })?;
        let count: u64 = done.deleted.values().sum();
        self.note_deletion("memory_forgotten", format!("{count} records"));
        let counted = |kind: RecordKind| Some((kind, *done.deleted.get(kind.name())?));
        Ok(Forgotten {
            forgotten: RecordKind::ALL.into_iter().filter_map(counted).collect(),
            pending: done.pending,
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
