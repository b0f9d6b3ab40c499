//! [`FoundLines`]: the lines of the records that a recall found.

use std::collections::{BTreeMap, BTreeSet};
// The map is never iterated, so its order has no effect.
#[allow(clippy::disallowed_types)]
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use contexture_core::{Counts, Tokens};
use contexture_engine::Error;
use contexture_recall::Strategy;
use contexture_store::{Record, RecordKey, RecordKind, StoreError};
use jiff::tz::TimeZone;

use crate::channels::Candidate;
use crate::layers::FoundRecord;
use crate::lines::{Headings, Line};
use crate::score::Part;
use crate::view::View;
use crate::{Memory, RELATIONS};

/// The penalty of a text that consists only of a question.
const QUESTION_PENALTY: f64 = 0.1 / 1.4;

/// Longer texts have no penalty for a question at their end, because they also
/// state something.
const LONGEST_QUESTION: Tokens = 30;

/// The lines of found records. Each is read once, however many searches find
/// its record.
pub(crate) struct FoundLines<'a> {
    memory: &'a Memory<'a>,
    view: &'a View,
    counts: &'a Counts,
    zone: &'a TimeZone,
    // The kind of the cached lines.
    kind: String,
    // The lines; `None` for a deleted record.
    lines: LinesByKey,
}

/// Lines by the keys of their records.
#[allow(clippy::disallowed_types)]
type LinesByKey = HashMap<RecordKey, Option<Arc<Line>>, KeyHash>;

/// Hashes numbers that no caller chooses, such as keys of records.
pub(crate) type KeyHash = BuildHasherDefault<KeyHasher>;

/// The state of a [`KeyHash`].
#[derive(Debug, Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_i64(&mut self, key: i64) {
        self.write_u64(key as u64);
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing. A map uses the upper and the lower bits, so the upper
        // half of the product is added to the lower one.
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

impl<'a> FoundLines<'a> {
    pub(crate) fn new(
        memory: &'a Memory<'a>,
        view: &'a View,
        counts: &'a Counts,
        zone: &'a TimeZone,
    ) -> Self {
        let policy = memory.engine.policy();
        let counter = counts.counter().identity();
        Self {
            memory,
            view,
            counts,
            zone,
            kind: format!("{counter} {policy:?} {zone:?}"),
            lines: LinesByKey::default(),
        }
    }

    /// Reads the lines of records, each given with whether it is a relation.
    pub(crate) fn read(
        &mut self,
        records: impl Iterator<Item = (RecordKey, bool)> + Clone,
    ) -> Result<(), Error> {
        for relations in [false, true] {
            let of_kind = records.clone().filter(|(_, is_one)| *is_one == relations);
            let mut keys: Vec<RecordKey> = (of_kind.map(|(key, _)| key))
                .filter(|key| !self.lines.contains_key(key))
                .collect();
            if keys.is_empty() {
                continue;
            }
            keys.sort_unstable();
            keys.dedup();
            let with_relations;
            let kind = match relations {
                true => {
                    with_relations = format!("{}{RELATIONS}", self.kind);
                    &with_relations
                }
                false => &self.kind,
            };
            let cache = &self.memory.cache.lines;
            let lines = cache.lines(kind, &keys, |lacking, headings| {
                self.load(lacking, headings)
            })?;
            self.lines.extend(keys.into_iter().zip(lines));
        }
        Ok(())
    }

    /// Reads lines that are not cached.
    fn load(
        &self,
        lacking: &[RecordKey],
        headings: &Headings,
    ) -> Result<Vec<Option<Line>>, StoreError> {
        let (view, store) = (self.view, &self.memory.store);
        let policy = self.memory.engine.policy();
        let records = store.records(lacking)?;
        // Relations show the names of their entities.
        let mut ends: BTreeSet<RecordKey> = BTreeSet::new();
        for record in records.iter().flatten() {
            if let Record::Relation(relation) = record {
                let both = [&relation.source_id, &relation.target_id];
                ends.extend(both.into_iter().filter_map(|end| view.entity_at(end)));
            }
        }
        let ends: Vec<RecordKey> = ends.into_iter().collect();
        let entities = store.records(&ends)?;
        let names: BTreeMap<RecordKey, &str> = (ends.iter().zip(&entities))
            .filter_map(|(key, record)| match record {
                Some(Record::Entity(entity)) => Some((*key, entity.name.as_str())),
                _ => None,
            })
            .collect();
        let name = |end: &str| {
            let known = view.entity_at(end).and_then(|key| names.get(&key));
            known.map_or_else(|| end.to_owned(), |name| (*name).to_owned())
        };
        let (zone, headings) = (self.zone, Some(headings));
        let line = |record: &Record| Line::new(record, name, zone, self.counts, policy, headings);
        let lines = records.iter().map(|record| record.as_ref().map(line));
        Ok(lines.collect())
    }

    /// Returns the line of a record, unless it is empty.
    fn line(&self, key: RecordKey) -> Option<&Arc<Line>> {
        let line = self.lines.get(&key)?.as_ref();
        line.filter(|line| !line.is_empty)
    }

    /// Returns the tokens of the lines of records.
    pub(crate) fn tokens(&self, records: impl Iterator<Item = (RecordKey, bool)>) -> Tokens {
        let lines = records.filter_map(|(key, _)| self.line(key));
        lines.map(|line| line.tokens).sum()
    }

    /// Returns the candidates with their lines.
    pub(crate) fn records(
        mut self,
        candidates: Vec<Candidate>,
        strategy: &Strategy,
    ) -> Result<Vec<Arc<FoundRecord>>, Error> {
        // The filters did not check records that changed since.
        let (store, seq) = (&self.memory.store, self.view.seq);
        if store.memory_state()?.seq != seq {
            let changes = store.changes(seq, usize::MAX)?;
            let changed: BTreeSet<RecordKey> = changes.iter().map(|change| change.key).collect();
            changed.iter().for_each(|key| drop(self.lines.remove(key)));
        }
        let mut items = Vec::with_capacity(candidates.len());
        items.extend(candidates.into_iter().filter_map(|mut candidate| {
            let line = Arc::clone(self.line(candidate.key)?);
            let asks = line.asks > 0.0 && line.tokens <= LONGEST_QUESTION;
            if asks && candidate.kind == RecordKind::Event {
                let loss = QUESTION_PENALTY * line.asks;
                candidate.parts.add(Part::Asks, -loss);
                candidate.score = (candidate.score - loss * strategy.relevance_weight).max(0.0);
            }
            Some(Arc::new(FoundRecord::new(candidate, line)))
        }));
        Ok(items)
    }
}
