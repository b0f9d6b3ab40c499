//! The lines of records and their token counts, cached by record.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use contexture_core::cache::{Cache, Owner};
use contexture_core::guard::Policy;
use contexture_core::{Counts, NearPrint, Text, Tokens};
use contexture_recall::{has_near_bit, near_bits, near_keys};
use contexture_store::{Record, RecordKey, StoreError};
use contexture_words::{Words, analyse, sentences};
use jiff::tz::TimeZone;
use smallvec::SmallVec;

use crate::{form, lock};

/// The maximum number of kinds of lines that are cached.
const MOST_KINDS: usize = 32;

/// The line of a record in a prompt.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) id: Arc<str>,
    /// The heading of the line's group.
    pub(crate) group: Text,
    /// The guarded text of the line.
    pub(crate) text: Text,
    /// The length of the prefix, in bytes, that is kept when the rest is
    /// shortened: the speaker.
    pub(crate) lead: usize,
    /// The tokens of the line, with its line end.
    pub(crate) tokens: Tokens,
    /// The fraction of the text that is a question at its end, from 0 to 1.
    pub(crate) asks: f64,
    /// Whether the text is empty.
    pub(crate) is_empty: bool,
    // The time of the event, as it is shown.
    at: Option<String>,
    // The line with its time before it.
    dated: OnceLock<Text>,
    words: OnceLock<Words>,
    near: OnceLock<Near>,
}

/// What near-duplicates of a line have in common.
#[derive(Debug)]
pub(crate) struct Near {
    /// Near-duplicates share one of these terms.
    pub(crate) keys: SmallVec<[u32; 4]>,
    /// The terms of the line, as bits: see [`near_bits`].
    pub(crate) print: NearPrint,
    // Other bits of the same terms.
    others: u64,
}

impl Line {
    /// Returns the line of a record, with dates in a time zone. `names` returns
    /// the names of a relation's entities.
    pub(crate) fn new(
        record: &Record,
        names: impl Fn(&str) -> String,
        zone: &TimeZone,
        counts: &Counts,
        policy: Policy,
        headings: Option<&Headings>,
    ) -> Self {
        let mut lead = String::new();
        let (body, at, group) = match record {
            Record::Event(event) => {
                let day = event.timestamp.map(|at| form::day(at, zone));
                let (head, rest) = form::event(event);
                let body = form::indented(&format!("{head}{rest}"));
                lead = form::indented(&head);
                (body, event.timestamp, day.unwrap_or_default())
            }
            Record::Chunk(chunk) => {
                let body = form::escaped(&form::chunk(chunk));
                (body, chunk.timestamp, chunk.source.clone())
            }
            Record::Entity(entity) => (form::indented(&form::entity(entity)), None, String::new()),
            Record::Relation(relation) => {
                let (from, to) = (names(&relation.source_id), names(&relation.target_id));
                let body = form::indented(&form::relation(relation, &from, &to, zone));
                (body, relation.timestamp, String::new())
            }
            Record::Pattern(pattern) => {
                (form::indented(&form::pattern(pattern)), None, String::new())
            }
            Record::Task(task) => (task.goal.clone(), task.created_at, String::new()),
        };
        let text = Text::guarded(body.trim_end(), policy);
        // The guard may have changed the prefix; the line then has none.
        let lead = match text.as_str().starts_with(&lead) {
            true => lead.len(),
            false => 0,
        };
        let group = match group.replace(['\n', '\r'], " ").trim() {
            "" => String::new(),
            group => format!("[{group}]"),
        };
        let group = match headings {
            Some(headings) => headings.text(group, policy),
            None => Text::guarded(&group, policy),
        };
        Self {
            is_empty: text.is_empty(),
            id: record.id().into(),
            group,
            tokens: counts.count_of(&text),
            asks: question_share(text.as_str()),
            lead,
            text,
            at: at.map(|at| form::second(at, zone)),
            dated: OnceLock::new(),
            words: OnceLock::new(),
            near: OnceLock::new(),
        }
    }

    /// Returns the words of the line, to detect near-duplicates. They are
    /// computed on demand, because most lines are never chosen.
    pub(crate) fn words(&self) -> &Words {
        self.words.get_or_init(|| analyse(self.text.as_str()))
    }

    /// Returns what near-duplicates of the line have in common.
    pub(crate) fn near(&self) -> &Near {
        self.near.get_or_init(|| {
            let words = self.words();
            let (bits, most_apart) = near_bits(words);
            let terms = words.terms.iter();
            Near {
                keys: near_keys(words).collect(),
                print: NearPrint { bits, most_apart },
                others: terms.fold(0, |bits, term| bits | other_bit(term.id)),
            }
        })
    }

    /// Returns the number of these terms that the line has.
    pub(crate) fn count_terms(&self, terms: &[u32]) -> usize {
        // Each term of the line sets two bits. The words of the line are read only
        // if it may have a term.
        let Near { print, others, .. } = self.near();
        let may_have =
            |term: &&u32| has_near_bit(print.bits, **term) && others & other_bit(**term) != 0;
        let has = |term: &&u32| self.words().count(**term) > 0;
        terms.iter().filter(may_have).filter(has).count()
    }

    /// Returns the line with its time before it.
    pub(crate) fn dated(&self) -> &Text {
        self.dated.get_or_init(|| match &self.at {
            Some(at) => self.text.with_lead(&format!("[{at}] ")),
            None => self.text.clone(),
        })
    }

    /// Returns the approximate size in bytes, with the values that are computed
    /// later.
    fn bytes(&self) -> usize {
        512 + self.id.len() + 3 * self.text.as_str().len()
    }
}

/// Returns the second bit of a term.
fn other_bit(term: u32) -> u64 {
    1 << (term / 64 % 64)
}

/// Cached headings. Most lines have the heading of another one, and equal headings
/// are then one text.
#[derive(Debug, Default)]
pub(crate) struct Headings(Cache<String, Text>);

impl Headings {
    fn text(&self, heading: String, policy: Policy) -> Text {
        if let Some(known) = self.0.get(&heading) {
            return known;
        }
        let text = Text::guarded(&heading, policy);
        // With its measurement.
        let bytes = 512 + 2 * heading.len();
        self.0.insert(heading, text.clone(), bytes);
        text
    }
}

/// Returns the fraction of a text that is a question at its end: a question
/// rarely contains the answer.
fn question_share(text: &str) -> f64 {
    if !text.ends_with(['?', '？']) {
        return 0.0;
    }
    let last = sentences(text).last();
    last.map_or(0.0, |last| last.len() as f64 / text.len() as f64)
}

/// Cached lines, by token counter.
#[derive(Debug, Default)]
pub(crate) struct LineCache(Mutex<CachedLines>);

#[derive(Debug)]
struct CachedLines {
    // The owner of all lines: the tenant whose engine was built.
    owner: Owner,
    lines: BTreeMap<String, Arc<LinesByKey>>,
    // The number increases with each deletion: a line that was read before is
    // then not cached.
    epoch: u64,
}

impl Default for CachedLines {
    fn default() -> Self {
        Self {
            owner: Owner::current(),
            lines: BTreeMap::new(),
            epoch: 0,
        }
    }
}

/// The number of adjacent keys whose lines are cached together. A recall reads
/// hundreds of lines, most of them next to others, and an entry of the cache
/// takes longer to find than to read.
const ADJACENT: i64 = 16;

/// The lines of records with adjacent keys, each with its place among them, in
/// ascending order.
type AdjacentLines = [(u8, Arc<Line>)];

/// Cached lines of one kind.
#[derive(Debug)]
struct LinesByKey {
    // By the keys of the records divided by [`ADJACENT`]. A new line makes a new
    // array, so that readers need no lock.
    lines: Cache<i64, Arc<AdjacentLines>>,
    headings: Headings,
}

/// Returns the number of the array with the line of a record, and its place there.
fn place_of(key: RecordKey) -> (i64, u8) {
    (key.div_euclid(ADJACENT), key.rem_euclid(ADJACENT) as u8)
}

impl LinesByKey {
    /// Returns the lines of records, in the requested order. Adjacent keys that
    /// follow each other are found together.
    fn get(&self, keys: &[RecordKey]) -> Vec<Option<Arc<Line>>> {
        let mut last: Option<(i64, Option<Arc<AdjacentLines>>)> = None;
        let line = |key: &RecordKey| {
            let (number, place) = place_of(*key);
            let known = last.take_if(|(other, _)| *other == number);
            let known = known.unwrap_or_else(|| (number, self.lines.get(&number)));
            let mut lines = last.insert(known).1.iter().flat_map(|lines| lines.iter());
            let line = lines.find(|(other, _)| *other == place);
            line.map(|(_, line)| Arc::clone(line))
        };
        keys.iter().map(line).collect()
    }

    /// Changes the lines of an array.
    fn change(&self, number: i64, change: impl FnOnce(&mut BTreeMap<u8, Arc<Line>>)) {
        let known = self.lines.get(&number);
        let known = known.iter().flat_map(|lines| lines.iter().cloned());
        let mut lines: BTreeMap<u8, Arc<Line>> = known.collect();
        change(&mut lines);
        if lines.is_empty() {
            self.lines.remove(&number);
            return;
        }
        let bytes = lines.values().map(|line| line.bytes()).sum();
        self.lines
            .insert(number, lines.into_iter().collect(), bytes);
    }

    /// Adds lines, by ascending keys.
    fn insert(&self, new: &[(RecordKey, Arc<Line>)]) {
        for adjacent in new.chunk_by(|a, b| place_of(a.0).0 == place_of(b.0).0) {
            let (number, _) = place_of(adjacent[0].0);
            let places = adjacent.iter();
            let places = places.map(|(key, line)| (place_of(*key).1, Arc::clone(line)));
            self.change(number, |lines| lines.extend(places));
        }
    }

    fn remove(&self, key: RecordKey) {
        let (number, place) = place_of(key);
        let is_there = self.get(&[key]).iter().any(Option::is_some);
        if is_there {
            self.change(number, |lines| {
                lines.remove(&place);
            });
        }
    }
}

impl LineCache {
    /// Removes the lines of changed records.
    pub(crate) fn forget(&self, keys: impl Iterator<Item = RecordKey> + Clone) {
        let mut kept = lock(&self.0);
        kept.epoch += 1;
        for of_kind in kept.lines.values() {
            keys.clone().for_each(|key| of_kind.remove(key));
        }
    }

    /// Removes all lines.
    pub(crate) fn clear(&self) {
        self.forget_kind("");
    }

    /// Removes the lines of a kind.
    pub(crate) fn forget_kind(&self, suffix: &str) {
        let mut kept = lock(&self.0);
        kept.epoch += 1;
        kept.lines.retain(|kind, _| !kind.ends_with(suffix));
    }

    /// Returns the lines of records by ascending keys, in the same order; `None` for
    /// deleted records. `load` reads those that are not cached.
    pub(crate) fn lines(
        &self,
        kind: &str,
        keys: &[RecordKey],
        load: impl FnOnce(&[RecordKey], &Headings) -> Result<Vec<Option<Line>>, StoreError>,
    ) -> Result<Vec<Option<Arc<Line>>>, StoreError> {
        let (of_kind, epoch) = self.of_kind(kind);
        let mut found = of_kind.get(keys);
        let lacking: Vec<RecordKey> = (keys.iter().zip(&found))
            .filter(|(_, line)| line.is_none())
            .map(|(key, _)| *key)
            .collect();
        if lacking.is_empty() {
            return Ok(found);
        }
        let loaded = load(&lacking, &of_kind.headings)?;
        // The lock is held until all lines are cached, so that no deletion
        // intervenes.
        let kept = lock(&self.0);
        let loaded: Vec<Option<Arc<Line>>> = (loaded.into_iter())
            .map(|line| line.map(Arc::new))
            .collect();
        if kept.epoch == epoch {
            let new = lacking.iter().zip(&loaded);
            let new = new.filter_map(|(key, line)| Some((*key, line.clone()?)));
            of_kind.insert(&new.collect::<Vec<_>>());
        }
        let missing = found.iter_mut().filter(|line| line.is_none());
        for (line, loaded) in missing.zip(loaded) {
            *line = loaded;
        }
        Ok(found)
    }

    fn of_kind(&self, kind: &str) -> (Arc<LinesByKey>, u64) {
        let mut kept = lock(&self.0);
        let epoch = kept.epoch;
        if let Some(known) = kept.lines.get(kind) {
            return (Arc::clone(known), epoch);
        }
        // A caller may choose any time zone.
        if kept.lines.len() >= MOST_KINDS {
            kept.lines.clear();
        }
        let new = Arc::new(kept.owner.own(|| LinesByKey {
            lines: Cache::new(),
            headings: Headings::default(),
        }));
        kept.lines.insert(kind.to_owned(), Arc::clone(&new));
        (new, epoch)
    }
}

#[cfg(test)]
mod tests {
    use contexture_core::TokenCounter;

    use super::*;

    struct Bytes;

    impl TokenCounter for Bytes {
        fn name(&self) -> &str {
            "bytes"
        }

        fn is_exact(&self) -> bool {
            true
        }

        fn count(&self, text: &str) -> Tokens {
            text.len() as Tokens
        }
    }

    fn line(number: i64, headings: &Headings) -> Line {
        let record = serde_json::json!({
            "id": format!("e{number}"), "type": "note", "timestamp": "2026-05-08T09:00:00Z",
            "content": {"text": format!("text {number}")},
        });
        let record = Record::Event(serde_json::from_value(record).unwrap());
        let counts = Counts::new(Arc::new(Bytes));
        let (zone, policy) = (TimeZone::UTC, Policy::default());
        Line::new(
            &record,
            str::to_owned,
            &zone,
            &counts,
            policy,
            Some(headings),
        )
    }

    /// Returns the ids of lines, and the keys of those that were loaded.
    fn ids(cache: &LineCache, keys: &[RecordKey]) -> (Vec<Option<Arc<str>>>, Vec<RecordKey>) {
        let mut loaded = Vec::new();
        let lines = cache.lines("kind", keys, |lacking, headings| {
            loaded = lacking.to_vec();
            // A negative key is that of a deleted record.
            let line = |key: &RecordKey| (*key >= 0).then(|| line(*key, headings));
            Ok(lacking.iter().map(line).collect())
        });
        let ids = lines.unwrap().into_iter();
        let ids = ids.map(|line| line.map(|line| Arc::clone(&line.id)));
        (ids.collect(), loaded)
    }

    #[test]
    fn each_line_is_loaded_once_until_its_record_changes() {
        let cache = LineCache::default();
        let id = |key: RecordKey| -> Option<Arc<str>> { Some(format!("e{key}").into()) };
        let (found, loaded) = ids(&cache, &[-17, 3, 15, 16, 40]);
        assert_eq!(found, [None, id(3), id(15), id(16), id(40)]);
        assert_eq!(loaded, [-17, 3, 15, 16, 40]);
        // Adjacent lines do not replace each other.
        let (found, loaded) = ids(&cache, &[3, 4, 15, 16, 40]);
        assert_eq!(found, [id(3), id(4), id(15), id(16), id(40)]);
        assert_eq!(loaded, [4]);
        cache.forget([4, 16, 99].into_iter());
        let (found, loaded) = ids(&cache, &[3, 4, 15, 16, 40]);
        assert_eq!(found, [id(3), id(4), id(15), id(16), id(40)]);
        assert_eq!(loaded, [4, 16]);
        cache.clear();
        assert_eq!(ids(&cache, &[3, 40]).1, [3, 40]);
    }

    #[test]
    fn equal_headings_are_one_text() {
        let headings = Headings::default();
        let (a, b) = (line(1, &headings), line(2, &headings));
        assert_eq!(a.group.as_str(), "[2026-05-08]");
        assert!(std::ptr::eq(a.group.as_str(), b.group.as_str()));
    }
}
