//! The lines of records and their token counts, cached by record.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use contexture_core::cache::{Cache, Owner};
use contexture_core::guard::Policy;
use contexture_core::{Counts, Text, Tokens};
use contexture_store::{Record, RecordKey, StoreError};
use contexture_words::{Words, analyse, sentences};
use jiff::tz::TimeZone;

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
    // The time of the event, as it is shown.
    at: Option<String>,
    // The line with its time before it.
    dated: OnceLock<Text>,
    words: OnceLock<Words>,
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
            "" => Text::new(""),
            group => Text::guarded(&format!("[{group}]"), policy),
        };
        Self {
            id: record.id().into(),
            group,
            tokens: counts.count_of(&text),
            asks: question_share(text.as_str()),
            lead,
            text,
            at: at.map(|at| form::second(at, zone)),
            dated: OnceLock::new(),
            words: OnceLock::new(),
        }
    }

    /// Returns the words of the line, to detect near-duplicates. They are
    /// computed on demand, because most lines are never chosen.
    pub(crate) fn words(&self) -> &Words {
        self.words.get_or_init(|| analyse(self.text.as_str()))
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
        512 + self.id.len() + self.group.as_str().len() + 3 * self.text.as_str().len()
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
    lines: BTreeMap<String, Arc<ByKey>>,
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

type ByKey = Cache<RecordKey, Arc<Line>>;

impl LineCache {
    /// Removes the lines of changed records.
    pub(crate) fn forget(&self, keys: impl Iterator<Item = RecordKey> + Clone) {
        let mut kept = lock(&self.0);
        kept.epoch += 1;
        for of_kind in kept.lines.values() {
            keys.clone().for_each(|key| of_kind.remove(&key));
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

    /// Returns the lines of records, in the requested order; `None` for deleted
    /// records. `load` reads those that are not cached.
    pub(crate) fn lines(
        &self,
        kind: &str,
        keys: &[RecordKey],
        load: impl FnOnce(&[RecordKey]) -> Result<Vec<Option<Line>>, StoreError>,
    ) -> Result<Vec<Option<Arc<Line>>>, StoreError> {
        let (of_kind, epoch) = self.of_kind(kind);
        let mut found: Vec<_> = keys.iter().map(|key| of_kind.get(key)).collect();
        let lacking: Vec<RecordKey> = (keys.iter().zip(&found))
            .filter(|(_, line)| line.is_none())
            .map(|(key, _)| *key)
            .collect();
        if lacking.is_empty() {
            return Ok(found);
        }
        let loaded = load(&lacking)?;
        // The lock is held until all lines are cached, so that no deletion
        // intervenes.
        let kept = lock(&self.0);
        let current = kept.epoch == epoch;
        let mut loaded = lacking.iter().zip(loaded);
        for line in found.iter_mut().filter(|line| line.is_none()) {
            if let Some((key, Some(new))) = loaded.next() {
                let new = Arc::new(new);
                if current {
                    of_kind.insert(*key, Arc::clone(&new), new.bytes());
                }
                *line = Some(new);
            }
        }
        Ok(found)
    }

    fn of_kind(&self, kind: &str) -> (Arc<ByKey>, u64) {
        let mut kept = lock(&self.0);
        let epoch = kept.epoch;
        if let Some(known) = kept.lines.get(kind) {
            return (Arc::clone(known), epoch);
        }
        // A caller may choose any time zone.
        if kept.lines.len() >= MOST_KINDS {
            kept.lines.clear();
        }
        let new = Arc::new(kept.owner.own(ByKey::new));
        kept.lines.insert(kind.to_owned(), Arc::clone(&new));
        (new, epoch)
    }
}
