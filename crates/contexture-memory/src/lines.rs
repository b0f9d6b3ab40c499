//! The lines of records and their token counts, cached by record.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use contexture_core::cache::Cache;
use contexture_core::guard::Policy;
use contexture_core::{Counts, Text, Tokens};
use contexture_recall::{Words, analyse, sentences};
use contexture_store::{Record, RecordKey, StoreError};
use jiff::Timestamp;

use crate::{form, lock};

/// A record as it reads in a prompt.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) id: String,
    /// The heading of the group it stands in.
    pub(crate) group: Text,
    /// The guarded text of the line.
    pub(crate) text: Text,
    /// How many bytes of it stay when the rest is shortened: who says it.
    pub(crate) lead: usize,
    /// What it counts, with a line end.
    pub(crate) tokens: Tokens,
    /// Which part of it is a question at its end.
    pub(crate) asks: f64,
    /// The time of the event.
    pub(crate) at: Option<Timestamp>,
    // With its time before it.
    dated: OnceLock<Text>,
    words: OnceLock<Words>,
}

impl Line {
    /// Returns the line of a record. `names` gives the ends of a relation.
    pub(crate) fn new(
        record: &Record,
        names: impl Fn(&str) -> String,
        counts: &Counts,
        policy: Policy,
    ) -> Self {
        let mut lead = String::new();
        let (body, at, group) = match record {
            Record::Event(event) => {
                let day = event.timestamp.map(form::day);
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
                let body = form::indented(&form::relation(relation, &from, &to));
                (body, relation.timestamp, String::new())
            }
            Record::Pattern(pattern) => {
                (form::indented(&form::pattern(pattern)), None, String::new())
            }
            Record::Task(task) => (task.goal.clone(), task.created_at, String::new()),
        };
        let text = Text::guarded(body.trim_end(), policy);
        // The guard may have changed it; then nothing is known to stand before.
        let lead = match text.as_str().starts_with(&lead) {
            true => lead.len(),
            false => 0,
        };
        let group = match group.replace(['\n', '\r'], " ").trim() {
            "" => Text::new(""),
            group => Text::guarded(&format!("[{group}]"), policy),
        };
        Self {
            id: record.id().to_owned(),
            group,
            tokens: counts.count_of(&text),
            asks: asks(text.as_str()),
            lead,
            text,
            at,
            dated: OnceLock::new(),
            words: OnceLock::new(),
        }
    }

    /// Returns the words it holds, to tell near-duplicates by. Most lines are
    /// never picked, and are not asked.
    pub(crate) fn words(&self) -> &Words {
        self.words.get_or_init(|| analyse(self.text.as_str()))
    }

    /// Returns the line with its time before it.
    pub(crate) fn dated(&self) -> &Text {
        self.dated.get_or_init(|| match self.at {
            Some(at) => self.text.behind(&format!("[{at:.0}] ")),
            None => self.text.clone(),
        })
    }

    /// Returns about how many bytes it takes, with what is made of it later.
    fn bytes(&self) -> usize {
        512 + self.id.len() + self.group.as_str().len() + 3 * self.text.as_str().len()
    }
}

/// Returns which part of a text is a question at its end: who asks seldom says
/// what is looked for.
fn asks(text: &str) -> f64 {
    if !text.ends_with(['?', '？']) {
        return 0.0;
    }
    let last = sentences(text).last();
    last.map_or(0.0, |last| last.len() as f64 / text.len() as f64)
}

/// Lines by what counted them.
#[derive(Debug, Default)]
pub(crate) struct LineCache(Mutex<CachedLines>);

#[derive(Debug, Default)]
struct CachedLines {
    lines: BTreeMap<String, Arc<ByKey>>,
    // Rises when something is forgotten: a line that was read before is not
    // kept then.
    epoch: u64,
}

type ByKey = Cache<RecordKey, Arc<Line>>;

impl LineCache {
    /// Forgets the lines of records that changed.
    pub(crate) fn forget(&self, keys: impl Iterator<Item = RecordKey> + Clone) {
        let mut kept = lock(&self.0);
        kept.epoch += 1;
        for of_kind in kept.lines.values() {
            keys.clone().for_each(|key| of_kind.remove(&key));
        }
    }

    /// Forgets the lines of a kind.
    pub(crate) fn forget_kind(&self, suffix: &str) {
        let mut kept = lock(&self.0);
        kept.epoch += 1;
        kept.lines.retain(|kind, _| !kind.ends_with(suffix));
    }

    /// Returns the lines of records, in the order asked for; `None` for those
    /// that are gone. `load` reads the ones that are not known yet.
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
        // Locked until all are kept, so that nothing is forgotten meanwhile.
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
        let new = Arc::new(ByKey::new());
        kept.lines.insert(kind.to_owned(), Arc::clone(&new));
        (new, epoch)
    }
}
