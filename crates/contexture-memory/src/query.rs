//! [`Query`]: the terms, entities and dates of a query.

use std::collections::{BTreeMap, BTreeSet};

use contexture_recall::{Slot, asks_for_recent, detect_intent, relevant_event_types};
use contexture_store::RecordKey;
use contexture_time::Clock;
use contexture_words::{name_key, names_in, query_keywords};

use crate::admission::Admission;
use crate::context::Signals;
use crate::time::{Times, without_relative};
use crate::view::{Text, View};

/// The score bonus when a query names the speaker of a text.
const SPEAKER: f32 = 0.1;

/// The score bonus when a text mentions, by another name, an entity of the
/// query.
const ALIAS: f32 = 0.1;

/// The maximum number of entities with one name, and of all entities of a
/// query.
const MOST_NAMESAKES: usize = 16;
const MOST_ENTITIES: usize = 128;

/// The maximum number of words of a query that are used.
const MOST_WORDS: usize = 64;

/// The lengths, in letters, of words that may be mistyped: a shorter word
/// resembles too many others.
const CORRECTED: std::ops::RangeInclusive<usize> = 5..=24;

/// The maximum number of words of a query that are corrected.
const MOST_CORRECTED: usize = 4;

/// The terms, entities and dates of a query.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) signals: Signals,
    /// The terms that are searched for.
    pub(crate) terms: Vec<u32>,
    /// The text for the vector search: the query without the names of speakers.
    pub(crate) text: String,
    /// The speakers that the query names.
    pub(crate) speakers: BTreeSet<u32>,
    // A bit for each slot whose text has a word of their names.
    naming: Vec<u64>,
    /// The times that the query names.
    pub(crate) times: Times,
    /// The keys of the entities that the query names.
    pub(crate) entities: Vec<RecordKey>,
    // Those of the entities that have several names.
    aliased: BTreeSet<RecordKey>,
    /// The query in lower case.
    pub(crate) lower: String,
}

impl Query {
    /// Extracts the signals of a query.
    pub(crate) fn read(query: &str, view: &View, filters: &Admission<'_>, clock: &Clock) -> Self {
        let whole = head_of(query);
        let times = Times::named_in(whole, clock);
        let timeless = without_relative(whole, &times.reading);
        let head = timeless.as_str();
        let names = names_in(head);
        let speakers: BTreeSet<u32> = (names.iter())
            .filter_map(|name| view.speaker(&name.key))
            .collect();
        let mut entities: Vec<RecordKey> = Vec::new();
        for name in &names {
            let named = view.entities_named(&name.key);
            let named = named.filter(|key| filters.entity(*key));
            for key in named.take(MOST_NAMESAKES) {
                if entities.len() < MOST_ENTITIES && !entities.contains(&key) {
                    entities.push(key);
                }
            }
        }
        let naming = naming(view, filters, &speakers);
        let text = without_names(head, speakers.iter().map(|&speaker| view.name_of(speaker)));
        let mut keywords = query_keywords(&text);
        let text = match keywords.is_empty() {
            true => {
                keywords = query_keywords(head);
                head.to_owned()
            }
            false => text,
        };
        keywords.truncate(MOST_WORDS);
        // A word may have two stems.
        let mut words: Vec<String> = keywords.iter().map(|one| one.word.clone()).collect();
        words.dedup();
        let mut terms: Vec<u32> = keywords.iter().map(|keyword| keyword.id).collect();
        // If no text that may be returned has any of the words, a word may be
        // mistyped.
        let mut corrected = BTreeMap::new();
        let is_held = |term: &u32| view.index.holders(*term).any(|slot| filters.text(slot));
        if !terms.iter().any(is_held) {
            for keyword in keywords.iter().take(MOST_CORRECTED) {
                if let Some((word, term)) = corrected_word(&keyword.word, view, filters) {
                    corrected.insert(keyword.word.clone(), word);
                    terms.push(term);
                }
            }
        }
        let intent = detect_intent(whole);
        let ids = entities.iter().filter_map(|key| view.entities.get(key));
        let several = |key: &&RecordKey| {
            let entity = view.entities.get(*key);
            entity.is_some_and(|entity| entity.names.len() > 1)
        };
        Self {
            signals: Signals {
                keywords: words,
                mentioned_entities: ids.map(|entity| entity.id.clone()).collect(),
                intent,
                relevant_event_types: relevant_event_types(intent).to_vec(),
                recent: asks_for_recent(whole) && times.reading.intervals.is_empty(),
                corrected,
                intervals: times
                    .reading
                    .intervals
                    .iter()
                    .map(|one| (*one).into())
                    .collect(),
            },
            terms,
            text,
            aliased: entities.iter().filter(several).copied().collect(),
            entities,
            speakers,
            naming,
            times,
            lower: whole.to_lowercase(),
        }
    }

    /// Returns true when the text in a slot has a word of the names of the
    /// query's speakers.
    pub(crate) fn is_named_in(&self, slot: Slot) -> bool {
        let word = self.naming.get(slot as usize / 64);
        word.is_some_and(|word| word & (1 << (slot % 64)) != 0)
    }

    /// Returns true when the query has nothing to search for.
    pub(crate) fn is_blank(&self) -> bool {
        self.terms.is_empty() && self.times.is_empty()
    }

    /// Returns the largest possible [`bonus`](Self::bonus) for this weight of
    /// vectors.
    pub(crate) fn most_bonus(&self, vector_weight: f32) -> f32 {
        let speaker = if self.speakers.is_empty() {
            0.0
        } else {
            SPEAKER
        };
        let alias = if self.aliased.is_empty() { 0.0 } else { ALIAS };
        speaker + vector_weight * self.times.most_bonus() + alias
    }

    /// Returns how well a text fits the times that the query names.
    pub(crate) fn in_time(&self, text: &Text) -> u8 {
        (self.times.bonus(text.at, text.told()) * 4.0) as u8
    }

    /// Returns the bonus of a text for its speaker, its times and its aliases.
    /// A time in the query counts relative to the weight of vectors.
    pub(crate) fn bonus(&self, view: &View, text: &Text, vector_weight: f32) -> f32 {
        let mut bonus = 0.0;
        if text
            .speaker()
            .is_some_and(|who| self.speakers.contains(&who))
        {
            bonus += SPEAKER;
        }
        bonus += vector_weight * self.times.bonus(text.at, text.told());
        let is_aliased = |entity: &RecordKey| self.aliased.contains(entity);
        if !self.aliased.is_empty() && view.mentions(text).iter().any(is_aliased) {
            bonus += ALIAS;
        }
        bonus
    }
}

/// Returns the most frequent word that differs from a word by one letter or two
/// swapped neighbours, and its term. Only texts that may be returned count: a
/// word of a hidden text must not be revealed.
fn corrected_word(word: &str, view: &View, filters: &Admission<'_>) -> Option<(String, u32)> {
    let letters: Vec<char> = word.chars().collect();
    if !CORRECTED.contains(&letters.len()) || !letters.iter().all(|c| c.is_alphabetic()) {
        return None;
    }
    let mut best: Option<(usize, String, u32)> = None;
    let mut consider = |letters: Vec<char>| {
        let word: String = letters.into_iter().collect();
        for keyword in query_keywords(&word) {
            let holders = view.index.holders(keyword.id);
            let holding = holders.filter(|slot| filters.text(*slot)).count();
            if holding > best.as_ref().map_or(0, |(most, ..)| *most) {
                best = Some((holding, word.clone(), keyword.id));
            }
        }
    };
    for at in 0..=letters.len() {
        if at < letters.len() {
            let mut less = letters.clone();
            less.remove(at);
            consider(less);
        }
        for other in [at + 1, at + 2] {
            if other < letters.len() {
                let mut swapped = letters.clone();
                swapped.swap(at, other);
                consider(swapped);
            }
        }
        for other in 'a'..='z' {
            if at < letters.len() {
                let mut changed = letters.clone();
                changed[at] = other;
                consider(changed);
            }
            let mut more = letters.clone();
            more.insert(at, other);
            consider(more);
        }
    }
    best.map(|(_, word, term)| (word, term))
}

/// Returns a bit for each slot whose text may be returned and has a word of the
/// speakers' names.
fn naming(view: &View, filters: &Admission<'_>, speakers: &BTreeSet<u32>) -> Vec<u64> {
    if speakers.is_empty() {
        return Vec::new();
    }
    let mut bits = vec![0; view.index.slots().div_ceil(64)];
    for speaker in speakers {
        for keyword in query_keywords(view.name_of(*speaker)) {
            let holders = view.index.holders(keyword.id);
            for slot in holders.filter(|slot| filters.text(*slot)) {
                if let Some(word) = bits.get_mut(slot as usize / 64) {
                    *word |= 1_u64 << (slot % 64);
                }
            }
        }
    }
    bits
}

/// The maximum length of a query, in bytes. The rest is ignored.
pub(crate) const LONGEST_QUERY: usize = 8 << 10;

/// Returns the part of a query that is used.
pub(crate) fn head_of(query: &str) -> &str {
    &query[..query.floor_char_boundary(LONGEST_QUERY)]
}

/// Returns a query without these normalised names.
fn without_names<'a>(query: &str, names: impl Iterator<Item = &'a str>) -> String {
    let parts: BTreeSet<&str> = names.flat_map(|name| name.split(' ')).collect();
    if parts.is_empty() {
        return query.to_owned();
    }
    let words = query.split_whitespace();
    let kept: Vec<&str> = words
        .filter(|word| !parts.contains(name_key(word).as_str()))
        .collect();
    kept.join(" ")
}
