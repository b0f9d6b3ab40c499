//! Housekeeping of a memory: caps, deletion, new vectors and statistics.

use std::collections::BTreeMap;

use contexture_recall::Vector;
use contexture_store::{
    Change, EmbedderInfo, Forget, Forgotten, KindStats, MemoryStats, Outcome, Record, RecordKey,
    RecordKind, RecordList, Sketch, StoreError,
};
use jiff::Timestamp;
use serde::Serialize;

use crate::context::VectorProgress;
use crate::error::Error;
use crate::later::{FillIn, Generation};
use crate::record::part_id;
use crate::time::DAY;
use crate::view::View;
use crate::{Memory, form, info};

/// How many texts are embedded at a time.
const BATCH: usize = 512;

/// The number of records archived at a time.
const ARCHIVED: usize = 1_000;

/// The content of a memory in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryOverview {
    /// The number of records by kind, including tasks.
    pub kinds: BTreeMap<RecordKind, KindOverview>,
    /// The number of distinct sessions.
    pub sessions: u64,
    /// The number of distinct sources.
    pub sources: u64,
    /// The number of events and chunks without a vector of the current
    /// embedder.
    pub unembedded: u64,
    /// The size of all records in bytes.
    pub bytes: u64,
    /// The embedder that created the vectors while recording. Null if there are
    /// none.
    pub embedder: Option<EmbedderInfo>,
    /// The configured encoder, which creates vectors after recording. Null
    /// without an encoder.
    pub encoder: Option<EncoderOverview>,
}

/// The state of the vectors of an encoder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EncoderOverview {
    /// The encoder.
    #[serde(flatten)]
    pub embedder: EmbedderInfo,
    /// How many texts have a vector.
    #[serde(flatten)]
    pub progress: VectorProgress,
    /// Whether recall ranks by these vectors. It does when at least 95 % of the
    /// texts have one.
    pub ranks: bool,
}

/// The number of records of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindOverview {
    /// All that can be found.
    #[serde(flatten)]
    pub all: KindStats,
    /// The number of records that recall can return and that have no end of
    /// validity.
    pub hold: u64,
}

/// A page of a list of records.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordPage {
    /// The records, in the order they were first recorded.
    pub records: Vec<Record>,
    /// The cursor of the next page, for `after`. Null on the last page.
    pub next: Option<String>,
}

/// The maximum number of records of a page.
const MOST_LISTED: usize = 1_000;

/// The result of creating vectors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reembedded {
    /// The name of the current embedder.
    pub embedder: String,
    /// The number of dimensions of a vector.
    pub dimensions: usize,
    /// The number of texts that got a vector.
    pub embedded: u64,
}

impl Memory<'_> {
    /// Forgets records, and all that was derived from them. Nothing of them is
    /// left in the store, in the index or in what is kept in memory. Requests
    /// that were assembled with them are kept as they were sent.
    pub fn forget(&self, what: &Forget) -> Result<Forgotten, Error> {
        let mut result = self.store.forget(what);
        if let Forget::Id { kind, id } = what
            && kind.is_none_or(|kind| kind == RecordKind::Chunk)
        {
            // A chunk that was split is known by the id that it was given.
            for part in 0.. {
                let (kind, id) = (Some(RecordKind::Chunk), part_id(id, part));
                match self.store.forget(&Forget::Id { kind, id }) {
                    Ok(more) => {
                        let mut all = result.unwrap_or_default();
                        all.pending |= more.pending;
                        for (kind, count) in more.forgotten {
                            *all.forgotten.entry(kind).or_default() += count;
                        }
                        result = Ok(all);
                    }
                    Err(StoreError::NotFound { .. }) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let forgotten = result?;
        self.delete_index()?;
        // The index and the lines in memory follow at once.
        drop(self.view(None)?);
        self.drop_contexts();
        Ok(forgotten)
    }

    /// Returns what is in the memory, and what made its vectors.
    pub fn overview(&self) -> Result<MemoryOverview, Error> {
        let stats = self.stats()?;
        let state = self.store.memory_state()?;
        let encoder = match (&self.embedders()?.later, self.lacking()?) {
            (Some(later), Some((lacking, texts))) => Some(EncoderOverview {
                embedder: info(&**later),
                progress: VectorProgress {
                    current: texts - lacking,
                    texts,
                },
                ranks: self.generation(&state)? == Generation::Later,
            }),
            _ => None,
        };
        let analysis = state.analysis;
        let kinds = stats.kinds.into_iter().map(|(kind, all)| {
            let hold = all.live.saturating_sub(all.ended);
            (kind, KindOverview { all, hold })
        });
        Ok(MemoryOverview {
            kinds: kinds.collect(),
            sessions: stats.sessions,
            sources: stats.sources,
            unembedded: stats.unembedded,
            bytes: stats.bytes,
            embedder: analysis.and_then(|analysis| analysis.embedder),
            encoder,
        })
    }

    /// Returns what is in the memory.
    pub fn stats(&self) -> Result<MemoryStats, Error> {
        Ok(self.store.memory_stats()?)
    }

    /// Returns the records of that id, of any kind, archived ones included.
    pub fn named(&self, id: &str) -> Result<Vec<Record>, Error> {
        let keys = self.store.record_keys(&[id])?;
        let keys: Vec<RecordKey> = keys.into_iter().map(|(_, key)| key).collect();
        let records = self.store.records(&keys)?;
        Ok(records.into_iter().flatten().collect())
    }

    /// Returns a page of the records that a list selects, in the order they were
    /// first recorded, and the cursor of the next page, if there is one.
    pub fn list(
        &self,
        what: &RecordList,
        after: Option<&str>,
        limit: usize,
    ) -> Result<RecordPage, Error> {
        let after = match after {
            None => 0,
            Some(cursor) => cursor.parse::<RecordKey>().map_err(|_| {
                Error::input(format!("after: `{cursor}` is not a cursor of a list"))
                    .advise("use the value of `next` of the page before")
            })?,
        };
        let limit = limit.clamp(1, MOST_LISTED);
        let mut keys = self.store.list(what, after, limit + 1)?;
        let more = keys.len() > limit;
        keys.truncate(limit);
        let next = keys.last().filter(|_| more).map(RecordKey::to_string);
        let records = self.store.records(&keys)?.into_iter().flatten().collect();
        Ok(RecordPage { records, next })
    }

    /// Hands out every record that can be found, in the order it was recorded or
    /// last changed, and then the tasks, each behind the one it is a part of.
    /// What is only derived from others comes with those.
    pub fn export(&self, each: &mut dyn FnMut(&Record) -> Result<(), Error>) -> Result<(), Error> {
        let mut after = 0;
        loop {
            let changes = self.store.changes(after, BATCH)?;
            let Some(last) = changes.last() else { break };
            after = last.seq;
            // What is only derived comes with the texts, and so do the mentions
            // that they add.
            let live = changes.iter().filter_map(|change| match &change.sketch {
                Some(Sketch::Entity(entity)) => entity.given.then_some((change.key, entity.texts)),
                Some(Sketch::Relation(relation)) => {
                    (relation.derived_from.is_empty()).then_some((change.key, 0))
                }
                sketch => sketch.is_some().then_some((change.key, 0)),
            });
            let (keys, added): (Vec<RecordKey>, Vec<u64>) = live.unzip();
            let records = self.store.records(&keys)?;
            for (record, added) in records.into_iter().zip(added) {
                let Some(mut record) = record else { continue };
                if let Record::Entity(entity) = &mut record {
                    entity.mentions = entity.mentions.saturating_sub(added);
                }
                each(&record)?;
            }
        }
        for stack in self.engine.tasks()?.task_stacks()? {
            for task in self.engine.tasks()?.tasks(&stack)? {
                each(&Record::Task(task))?;
            }
        }
        Ok(())
    }

    /// Gives every text a vector of the configured embedder, and puts that in
    /// use; with an encoder, vectors of both generations. What was done before
    /// an interruption is not done again.
    pub fn reembed(&self, progress: &mut dyn FnMut(u64)) -> Result<Reembedded, Error> {
        let embedder = self.embedder()?;
        let here = info(&*embedder);
        let (mut after, mut embedded) = (0, 0);
        loop {
            let keys = self.store.unembedded(&here, after, BATCH)?;
            let Some(last) = keys.last() else { break };
            after = *last;
            let records = self.store.records(&keys)?;
            let texts: Vec<(RecordKey, String)> = (keys.iter().zip(&records))
                .filter_map(|(key, record)| Some((*key, form::searchable(record.as_ref()?)?)))
                .collect();
            let heads: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
            let vectors = embedder.embed(&heads).map_err(|error| {
                Error::failure(
                    format!("the embedder failed after {embedded} texts: {error}"),
                    error,
                )
                .advise("run it again when the embedder works; it continues from there")
            })?;
            let vectors: Vec<(RecordKey, Vec<u8>)> = (texts.iter().zip(&vectors))
                .map(|((key, _), vector)| (*key, Vector::quantise(vector).to_bytes()))
                .collect();
            self.store.put_vectors(&here, &vectors)?;
            embedded += vectors.len() as u64;
            progress(embedded);
        }
        self.store.use_embedder(&here)?;
        let filled = self.fill_in(FillIn::ALL, &mut |filled| progress(embedded + filled));
        let filled = filled.map_err(|error| {
            error.advise("run it again when the embedder works; it continues from there")
        })?;
        self.drop_contexts();
        let last = self.embedders()?.later.as_ref().unwrap_or(&embedder);
        Ok(Reembedded {
            embedder: last.name().to_owned(),
            dimensions: last.dimensions(),
            embedded: embedded + filled,
        })
    }

    /// Puts the least valuable records aside where there are more than the caps
    /// allow, and returns how many. One in a hundred goes at once, so that the
    /// next records find space without another look at all of them.
    pub(crate) fn keep_within_caps(&self, now: Timestamp) -> Result<u64, Error> {
        let caps = &self.engine.config().memory.caps;
        let counts = self.store.record_counts()?;
        let over = |(kind, live): (&RecordKind, &u64)| {
            let cap = caps.of(*kind);
            let over = live.saturating_sub(cap);
            (over > 0).then(|| (*kind, over + cap / 100))
        };
        let kinds: Vec<(RecordKind, u64)> = counts.iter().filter_map(over).collect();
        if kinds.is_empty() {
            return Ok(0);
        }
        let mut values: Vec<(RecordKind, f64, RecordKey)> = Vec::new();
        let mut after = 0;
        loop {
            let changes = self.store.changes(after, super::CHANGES)?;
            let Some(last) = changes.last() else { break };
            after = last.seq;
            values.extend(changes.iter().filter_map(|change| {
                let (kind, value) = value(change, now.as_millisecond())?;
                Some((kind, value, change.key))
            }));
        }
        let mut archived = 0;
        for (kind, over) in kinds {
            let mut of_kind: Vec<(f64, RecordKey)> = (values.iter())
                .filter(|(other, ..)| *other == kind)
                .map(|(_, value, key)| (*value, *key))
                .collect();
            of_kind.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let keys: Vec<RecordKey> = of_kind.into_iter().map(|(_, key)| key).collect();
            let over = usize::try_from(over).unwrap_or(usize::MAX).min(keys.len());
            for keys in keys[..over].chunks(ARCHIVED) {
                self.store.archive(keys)?;
                archived += keys.len() as u64;
            }
        }
        Ok(archived)
    }

    fn drop_contexts(&self) {
        self.cache.contexts.clear();
    }
}

/// Returns what a record is worth keeping: what no longer holds is worth least;
/// then what is old, mentions little and came to nothing.
fn value(change: &Change, now: i64) -> Option<(RecordKind, f64)> {
    let ended = |to: Option<i64>| {
        if to.is_some_and(|to| to <= now) {
            -1.0
        } else {
            0.0
        }
    };
    let age = |at: i64| now.saturating_sub(at).max(0) as f64 / DAY as f64;
    let value = match change.sketch.as_ref()? {
        Sketch::Text(text) => {
            let fresh = 0.5_f64.powf(age(text.at) / 30.0);
            let mentions = text.mentions.len().min(4) as f64 / 4.0;
            let outcome = match text.outcome {
                Some(Outcome::Success | Outcome::Failure) => 1.0,
                _ => 0.0,
            };
            let value = 0.6 * fresh + 0.25 * mentions + 0.15 * outcome;
            (text.kind, value + ended(text.valid_to))
        }
        Sketch::Entity(entity) => {
            let value = View::salience(entity) * entity.confidence;
            (RecordKind::Entity, value + ended(entity.valid_to))
        }
        Sketch::Relation(relation) => {
            let value = relation.weight + ended(relation.valid_to);
            (RecordKind::Relation, value)
        }
        Sketch::Pattern(pattern) => {
            let success = (pattern.successes as f64 + 1.0) / (pattern.applications as f64 + 2.0);
            (RecordKind::Pattern, success + ended(pattern.valid_to))
        }
    };
    Some(value)
}
