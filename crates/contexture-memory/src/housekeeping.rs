//! Housekeeping of a memory: caps, deletion, new vectors and statistics.

use std::collections::{BTreeMap, BTreeSet};

use contexture_engine::ContextFilters;
use contexture_recall::{Strategy, Vector};
use contexture_store::{
    Change, EmbedderInfo, EntitySketch, Forget, Forgotten, KindStats, MemoryStats, Outcome,
    PatternSketch, Record, RecordKey, RecordKind, RecordList, RelationSketch, Sketch, StoreError,
};
use jiff::Timestamp;
use serde::Serialize;

use crate::admission::Admission;
use crate::context::VectorProgress;
use crate::error::Error;
use crate::facts::{self, Facts};
use crate::later::{FillIn, Generation};
use crate::record::part_id;
use crate::time::DAY;
use crate::view::View;
use crate::{Memory, form, info, lock};

/// The number of texts that are embedded at a time.
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
    /// The number of texts with a vector.
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
    /// Deletes records, and everything that was derived from them. The store,
    /// the index and the caches keep nothing of them. Saved requests that
    /// contain them are not changed.
    pub fn forget(&self, what: &Forget) -> Result<Forgotten, Error> {
        let mut result = self.store.forget(what);
        if let Forget::Id { kind, id } = what
            && kind.is_none_or(|kind| kind == RecordKind::Chunk)
        {
            // A chunk that was split is identified by its original id.
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
        // The index and the cached lines are updated at once.
        if self.cache.view.read().is_some() {
            drop(self.view(None)?);
        } else {
            self.cache.lines.clear();
        }
        self.drop_contexts();
        Ok(forgotten)
    }

    /// Returns statistics of the memory, and the embedders of its vectors.
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
        let mut counts = stats.kinds;
        if let Some(relations) = counts.get_mut(&RecordKind::Relation) {
            // Later texts end extracted relations, of which the store has no
            // end of validity.
            let recorded = RecordList {
                kind: Some(RecordKind::Relation),
                ..RecordList::default()
            };
            let live = usize::try_from(relations.live).unwrap_or(usize::MAX);
            if self.store.list(&recorded, 0, live)?.len() < live {
                // Statistics must also work with a damaged index.
                let ended = self.ended_relations(&RecordList::default(), None);
                let ended = ended.unwrap_or_default().len() as u64;
                relations.ended = (relations.ended + ended).min(relations.live);
            }
        }
        let kinds = counts.into_iter().map(|(kind, all)| {
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

    /// Returns statistics of the memory.
    pub fn stats(&self) -> Result<MemoryStats, Error> {
        Ok(self.store.memory_stats()?)
    }

    /// Returns the records with this id, of any kind, archived ones included.
    pub fn named(&self, id: &str) -> Result<Vec<Record>, Error> {
        let keys = self.store.record_keys(&[id])?;
        let keys: Vec<RecordKey> = keys.into_iter().map(|(_, key)| key).collect();
        let records = self.store.records(&keys)?;
        Ok(records.into_iter().flatten().collect())
    }

    /// Returns a page of the records that a list selects, in the order they were
    /// first recorded, and the cursor of the next page, if there is one.
    ///
    /// An extracted relation belongs to the user of its texts. If a later text
    /// ended it, it has an end of validity.
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
        keys.extend(self.extracted_of(what, after)?);
        keys.sort_unstable();
        keys.dedup();
        let more = keys.len() > limit;
        keys.truncate(limit);
        let next = keys.last().filter(|_| more).map(RecordKey::to_string);
        let mut records = self.store.records(&keys)?;
        let is_relation = |record: &Option<Record>| matches!(record, Some(Record::Relation(_)));
        if what.extracted && records.iter().any(is_relation) {
            let ended = self.ended_relations(what, Some(&keys))?;
            for (key, record) in keys.iter().zip(&mut records) {
                if let (Some(Record::Relation(relation)), Some(end)) = (record, ended.get(key)) {
                    facts::show_end(relation, *end);
                }
            }
        }
        let records = records.into_iter().flatten().collect();
        Ok(RecordPage { records, next })
    }

    /// Returns the keys after `after` of the extracted entities and relations
    /// whose texts match a list. The store has no owner of them.
    fn extracted_of(&self, what: &RecordList, after: RecordKey) -> Result<Vec<RecordKey>, Error> {
        let names = [&what.user, &what.agent, &what.source];
        let is_limited = names.iter().any(|name| name.is_some())
            || what.session.is_some()
            || what.task.is_some();
        let wants = |kind: RecordKind| what.kind.is_none_or(|wanted| wanted == kind);
        let [entities, relations] = [RecordKind::Entity, RecordKind::Relation].map(wants);
        if !what.extracted || !is_limited || !(entities || relations) {
            return Ok(Vec::new());
        }
        let guard = self.view(None)?;
        let Some(view) = &*guard else {
            return Ok(Vec::new());
        };
        let owner = names.map(|name| form::name_number(name.as_deref()));
        let same = |asked: &Option<String>, own: Option<u32>| match asked {
            None => true,
            Some(name) => own.is_some_and(|own| view.name_of(own) == name),
        };
        let texts = view.texts().filter(|(_, text)| {
            let owned = |(asked, own): (&u64, &u64)| *asked == 0 || asked == own;
            owner.iter().zip(&text.owner()).all(owned)
                && same(&what.session, text.session())
                && same(&what.task, text.task())
        });
        let mut keys = BTreeSet::new();
        let mut of = BTreeSet::new();
        for (key, text) in texts {
            of.insert(key);
            let derived = |key: &&RecordKey| view.entities.get(*key).is_some_and(|e| !e.given);
            if entities {
                keys.extend(view.mentions(text).iter().filter(derived));
            }
        }
        if relations {
            let all = view.relations.iter();
            let from_texts = all.filter(|(_, relation)| {
                let mut derived = relation.derived_from.iter();
                derived.any(|text| of.contains(text))
            });
            keys.extend(from_texts.map(|(key, _)| *key));
        }
        Ok(keys.into_iter().filter(|key| *key > after).collect())
    }

    /// Returns the extracted relations that ended, and the times of their ends in
    /// Unix milliseconds: of these keys, or of all. Texts of other users and
    /// agents than those of the list are ignored.
    fn ended_relations(
        &self,
        what: &RecordList,
        keys: Option<&[RecordKey]>,
    ) -> Result<BTreeMap<RecordKey, i64>, Error> {
        let guard = self.view(None)?;
        let Some(view) = &*guard else {
            return Ok(BTreeMap::new());
        };
        let filters = ContextFilters {
            user: what.user.clone(),
            agent: what.agent.clone(),
            ..ContextFilters::default()
        };
        let (strategy, none, now) = (Strategy::default(), BTreeSet::new(), Timestamp::now());
        let admission = Admission::new(view, &filters, none, &strategy, &[], None, now);
        let single = self.single_relations()?;
        let mut facts = Facts::new(view, &admission, &single);
        let mut ended = BTreeMap::new();
        let mut add = |key: RecordKey, relation: &RelationSketch| {
            // A recorded end of validity is shown already.
            if relation.valid_to.is_none()
                && let Some(end) = facts.end_of(key, relation)
            {
                ended.insert(key, end);
            }
        };
        match keys {
            None => view.relations.iter().for_each(|(key, of)| add(*key, of)),
            Some(keys) => {
                let known = keys
                    .iter()
                    .filter_map(|key| view.relations.get_key_value(key));
                known.for_each(|(key, of)| add(*key, of));
            }
        }
        Ok(ended)
    }

    /// Calls `each` with every record that recall can return, in the order of
    /// its recording or last change, and then with the tasks, each after its
    /// parent. Derived records are not exported.
    pub fn export(&self, each: &mut dyn FnMut(&Record) -> Result<(), Error>) -> Result<(), Error> {
        let mut after = 0;
        loop {
            let changes = self.store.changes(after, BATCH)?;
            let Some(last) = changes.last() else { break };
            after = last.seq;
            // Derived records, and the mentions that texts add, are created
            // again with the texts.
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

    /// Gives every text a vector of the configured embedder, and makes that
    /// embedder current. With an encoder, it creates vectors of both
    /// generations. An interrupted run continues where it stopped.
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

    /// Archives the least valuable records above the caps, and returns their
    /// number. One in a hundred is chosen at once, so that the next recordings
    /// need no new choice. A thousand are archived at a time.
    pub(crate) fn keep_within_caps(&self, now: Timestamp) -> Result<u64, Error> {
        let mut archived = 0;
        // Records that were chosen before may be deleted meanwhile.
        for may_choose_again in [true, false] {
            let over = self.over_caps()?;
            if over.is_empty() {
                break;
            }
            archived += self.put_aside(&over, now, may_choose_again)?;
        }
        Ok(archived)
    }

    /// Returns the kinds with more records than the caps allow, and the excess.
    fn over_caps(&self) -> Result<Vec<(RecordKind, u64)>, Error> {
        let caps = &self.engine.config().memory.caps;
        let over = |(kind, live): (&RecordKind, &u64)| {
            let over = live.saturating_sub(caps.of(*kind));
            (over > 0).then_some((*kind, over))
        };
        Ok(self
            .store
            .record_counts()?
            .iter()
            .filter_map(over)
            .collect())
    }

    /// Archives this many records of each kind, or some more. Uses the earlier
    /// choice if `chosen` is set.
    fn put_aside(
        &self,
        over: &[(RecordKind, u64)],
        now: Timestamp,
        chosen: bool,
    ) -> Result<u64, Error> {
        let caps = &self.engine.config().memory.caps;
        let mut waiting = lock(&self.cache.leaving);
        if !chosen {
            waiting.clear();
        }
        let mut values: Option<Vec<RecordValue>> = None;
        let mut archived = 0;
        for &(kind, over) in over {
            let more = usize::try_from(over + caps.of(kind) / 100).unwrap_or(usize::MAX);
            let over = usize::try_from(over).unwrap_or(usize::MAX);
            let of_kind = waiting.entry(kind).or_default();
            if of_kind.len() < over {
                if values.is_none() {
                    values = Some(self.values(now.as_millisecond())?);
                }
                *of_kind = least_valuable(values.as_deref().unwrap_or_default(), kind, more);
            }
            let most = over.max(ARCHIVED).min(more).min(of_kind.len());
            let keys = of_kind.split_off(of_kind.len() - most);
            for keys in keys.chunks(ARCHIVED) {
                self.store.archive(keys)?;
                archived += keys.len() as u64;
            }
        }
        Ok(archived)
    }

    /// Returns the value of every record. An index in memory or in a file is
    /// used instead of the store.
    fn values(&self, now: i64) -> Result<Vec<RecordValue>, Error> {
        let is_loaded = self.cache.view.read().is_some();
        let is_filed = || self.index_path().is_some_and(|path| path.is_file());
        if (is_loaded || is_filed())
            && let Some(view) = &*self.view(None)?
        {
            return Ok(values_in(view, now));
        }
        let mut values = Vec::new();
        let mut after = 0;
        loop {
            let changes = self.store.changes(after, super::CHANGES)?;
            let Some(last) = changes.last() else { break };
            after = last.seq;
            values.extend(changes.iter().filter_map(|change| {
                let (kind, value) = value(change, now)?;
                Some((kind, value, change.key))
            }));
        }
        Ok(values)
    }

    fn drop_contexts(&self) {
        self.cache.contexts.clear();
    }
}

/// A record's kind, value and key. A lower value is archived first.
type RecordValue = (RecordKind, f64, RecordKey);

/// Returns the `count` records of a kind with the lowest values, the lowest
/// last.
fn least_valuable(values: &[RecordValue], kind: RecordKind, count: usize) -> Vec<RecordKey> {
    let of_kind = values.iter().filter(|(other, ..)| *other == kind);
    let mut of_kind: Vec<(f64, RecordKey)> =
        of_kind.map(|(_, value, key)| (*value, *key)).collect();
    let less = |a: &(f64, RecordKey), b: &(f64, RecordKey)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    // Only the chosen records are sorted.
    if count < of_kind.len() {
        of_kind.select_nth_unstable_by(count, less);
        of_kind.truncate(count);
    }
    of_kind.sort_unstable_by(|a, b| less(b, a));
    of_kind.into_iter().map(|(_, key)| key).collect()
}

/// Returns the value of a record. Expired records have the lowest value; then
/// old records with few mentions and no outcome.
fn value(change: &Change, now: i64) -> Option<(RecordKind, f64)> {
    Some(match change.sketch.as_ref()? {
        Sketch::Text(text) => {
            let value = text_value(text.at, text.mentions.len(), text.outcome, now);
            (text.kind, value + ended(text.valid_to, now))
        }
        Sketch::Entity(entity) => (RecordKind::Entity, entity_value(entity, now)),
        Sketch::Relation(relation) => (RecordKind::Relation, relation_value(relation, now)),
        Sketch::Pattern(pattern) => (RecordKind::Pattern, pattern_value(pattern, now)),
    })
}

/// Returns the value of every record of a view.
fn values_in(view: &View, now: i64) -> Vec<RecordValue> {
    let texts = view.texts().map(|(key, text)| {
        let mentions = view.mentions(text).len();
        let value = text_value(text.at, mentions, text.outcome, now);
        (text.kind, value + ended(text.valid().end(), now), key)
    });
    let entities = view.entities.iter();
    let entities = entities.map(|(key, of)| (RecordKind::Entity, entity_value(of, now), *key));
    let relations = view.relations.iter();
    let relations =
        relations.map(|(key, of)| (RecordKind::Relation, relation_value(of, now), *key));
    let patterns = view.patterns.iter();
    let patterns =
        patterns.map(|(key, of)| (RecordKind::Pattern, pattern_value(&of.sketch, now), *key));
    texts
        .chain(entities)
        .chain(relations)
        .chain(patterns)
        .collect()
}

/// Returns the penalty of an expired record.
fn ended(to: Option<i64>, now: i64) -> f64 {
    match to.is_some_and(|to| to <= now) {
        true => -1.0,
        false => 0.0,
    }
}

fn text_value(at: i64, mentions: usize, outcome: Option<Outcome>, now: i64) -> f64 {
    let age = now.saturating_sub(at).max(0) as f64 / DAY as f64;
    let fresh = 0.5_f64.powf(age / 30.0);
    let mentions = mentions.min(4) as f64 / 4.0;
    let outcome = match outcome {
        Some(Outcome::Success | Outcome::Failure) => 1.0,
        _ => 0.0,
    };
    0.6 * fresh + 0.25 * mentions + 0.15 * outcome
}

fn entity_value(entity: &EntitySketch, now: i64) -> f64 {
    View::salience(entity) * entity.confidence + ended(entity.valid_to, now)
}

fn relation_value(relation: &RelationSketch, now: i64) -> f64 {
    relation.weight + ended(relation.valid_to, now)
}

fn pattern_value(pattern: &PatternSketch, now: i64) -> f64 {
    let success = (pattern.successes as f64 + 1.0) / (pattern.applications as f64 + 2.0);
    success + ended(pattern.valid_to, now)
}
