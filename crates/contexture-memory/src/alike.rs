//! Groups the texts of a search that are alike: identical texts of an author, and
//! series of texts that differ only in numbers and ids.

use std::collections::{BTreeMap, BTreeSet};

use contexture_core::grouped;
use contexture_recall::Hit;
use contexture_store::RecordKey;

use crate::query::Query;
use crate::view::{Text, View};

/// If more texts than this differ only in numbers and ids, only two of them
/// compete with other texts on equal terms.
const MOST_ALIKE: usize = 8;

/// The maximum size of a series: texts that differ only in numbers and ids, and
/// that are all shown if the query is about them and there is room. A larger group
/// is a log.
const MOST_SERIES: usize = 400;

/// The factor of the match of the third text of a series, and the number of
/// further texts after which the factor is half of it.
const SERIES: f64 = 0.5;
const SERIES_HALVES: f64 = 16.0;

/// The speaker and the user of a text. Equal texts of two authors say two
/// things: `I am allergic to peanuts.`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Author {
    /// The number of the speaker.
    pub(crate) speaker: Option<u32>,
    // The hash of the user; 0 for none.
    user: u64,
}

impl Author {
    pub(crate) fn of(text: &Text) -> Self {
        Self {
            speaker: text.speaker(),
            user: text.owner()[0],
        }
    }
}

/// The texts that one text represents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Alike {
    /// The number of identical texts of the same author.
    pub(crate) same: usize,
    /// The number of texts that differ only in numbers and ids and are not
    /// candidates.
    pub(crate) like: usize,
    /// The texts of the series that are candidates, too.
    pub(crate) members: Vec<RecordKey>,
}

impl Alike {
    /// Returns the number of represented texts that are not candidates.
    pub(crate) fn others(&self) -> usize {
        self.same + self.like
    }

    /// Returns the note for a text that represents others.
    pub(crate) fn note(others: usize) -> Option<String> {
        (others > 0).then(|| format!(" (and {} like it)", grouped(others as u64)))
    }
}

/// The texts of a search, each content of an author once.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    /// The texts by descending match.
    pub(crate) hits: Vec<Hit>,
    /// Further texts of a series, with the factor of their scores.
    pub(crate) series: Vec<(Hit, f64)>,
    /// The texts that others represent, by the key of the representing text.
    pub(crate) alike: BTreeMap<RecordKey, Represented>,
}

/// The texts that one text represents, by their keys.
#[derive(Debug, Default)]
pub(crate) struct Represented {
    pub(crate) same: Vec<RecordKey>,
    pub(crate) like: Vec<RecordKey>,
    members: Vec<RecordKey>,
}

impl Represented {
    /// Counts the texts that another channel does not offer by itself.
    pub(crate) fn counted(self, offered: &BTreeSet<RecordKey>) -> Alike {
        let Self {
            same,
            like,
            mut members,
        } = self;
        let mut hidden = |keys: Vec<RecordKey>| {
            let (shown, hidden): (Vec<RecordKey>, Vec<RecordKey>) =
                keys.into_iter().partition(|key| offered.contains(key));
            members.extend(shown);
            hidden.len()
        };
        let (same, like) = (hidden(same), hidden(like));
        Alike {
            same,
            like,
            members,
        }
    }
}

/// The role of a text among those that differ only in numbers and ids.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// It competes like any other text.
    Kept,
    /// It is a further text of a series, with this factor.
    Further(f64),
    /// It is counted.
    Hidden,
}

impl Distinct {
    /// Keeps one of identical texts of an author, at the rank of the best of
    /// them: the one that fits the times of the query best, else the newest. Of
    /// many texts of an author that differ only in numbers and ids, it keeps
    /// two, the best and the newest. The others are a series if there are not
    /// too many.
    ///
    /// `hits` are sorted by descending match.
    pub(crate) fn of(hits: &[Hit], view: &View, query: &Query) -> Self {
        let age = |(hit, text): &(Hit, &Text)| (query.in_time(text), text.at, hit.key);
        let found_texts = hits
            .iter()
            .filter_map(|hit| Some((*hit, view.text(hit.slot)?)));
        let mut distinct: Vec<(Hit, &Text)> = Vec::with_capacity(hits.len());
        distinct.extend(found_texts);
        // Of each group of identical texts: the kept text at the rank of the best
        // of them, and the others by its key.
        let mut same_texts: BTreeMap<RecordKey, Vec<RecordKey>> = BTreeMap::new();
        let prints: Vec<u64> = distinct.iter().map(|(_, text)| text.print).collect();
        let groups_of_same = groups(&prints, 2, |i| Author::of(distinct[i].1));
        if !groups_of_same.is_empty() {
            let mut is_kept = vec![true; distinct.len()];
            for same in groups_of_same {
                let all = same.iter().map(|i| distinct[*i]);
                let kept = all.clone().max_by_key(age);
                let kept = kept.unwrap_or(distinct[same[0]]);
                let not_kept = all.map(|(hit, _)| hit.key).filter(|key| *key != kept.0.key);
                same_texts.insert(kept.0.key, not_kept.collect());
                same.iter().for_each(|i| is_kept[*i] = false);
                is_kept[same[0]] = true;
                distinct[same[0]] = kept;
            }
            let mut is_kept = is_kept.into_iter();
            distinct.retain(|_| is_kept.next().unwrap_or(true));
        }
        let mut fates = vec![Fate::Kept; distinct.len()];
        let mut found = Self::default();
        let templates: Vec<u64> = distinct.iter().map(|(_, text)| text.template).collect();
        let alike = groups(&templates, MOST_ALIKE + 1, |i| Author::of(distinct[i].1));
        for of_template in alike {
            let hit = |i: usize| &distinct[i].0;
            let same_as = |i: usize| same_texts.get(&hit(i).key).into_iter().flatten();
            let level = |i: usize| age(&distinct[i]).0;
            let all = of_template.iter().copied();
            // If the query names a time, the texts of that time are the series.
            let top = all.clone().map(level).max().unwrap_or(0);
            let (series, others): (Vec<usize>, Vec<usize>) = all.partition(|i| level(*i) == top);
            let best = series[0];
            let newest = series.iter().max_by_key(|i| age(&distinct[**i]));
            let newest = newest.copied().unwrap_or(best);
            // The query is about the series if the best match of all is one of it.
            let is_asked_for = of_template.contains(&0);
            let is_log = series.len() > MOST_SERIES || !is_asked_for;
            let mut represented = Represented::default();
            let further = series.into_iter().filter(|i| *i != best && *i != newest);
            let mut place = 0.0;
            for i in further {
                if is_log {
                    represented.like.push(hit(i).key);
                    represented.like.extend(same_as(i));
                    fates[i] = Fate::Hidden;
                } else {
                    represented.members.push(hit(i).key);
                    fates[i] = Fate::Further(SERIES / (1.0 + place / SERIES_HALVES));
                    place += 1.0;
                }
            }
            for i in others {
                represented.like.push(hit(i).key);
                represented.like.extend(same_as(i));
                fates[i] = Fate::Hidden;
            }
            found.alike.insert(hit(best).key, represented);
        }
        found.hits.reserve(distinct.len());
        for ((hit, _), fate) in distinct.into_iter().zip(fates) {
            match fate {
                Fate::Hidden => continue,
                Fate::Kept => found.hits.push(hit),
                Fate::Further(factor) => found.series.push((hit, factor)),
            }
            if let Some(same) = same_texts.remove(&hit.key) {
                found.alike.entry(hit.key).or_default().same = same;
            }
        }
        found
    }
}

/// Returns the groups of at least `least` texts with the same number and the same
/// author, each as indices in ascending order.
///
/// Nearly all numbers differ. Only those that may be equal to enough others are
/// sorted, and only the authors of equal ones are compared.
fn groups(numbers: &[u64], least: usize, author: impl Fn(usize) -> Author) -> Vec<Vec<usize>> {
    let mut counts = vec![0_u8; (4 * numbers.len()).next_power_of_two()];
    let last = counts.len() - 1;
    let bucket = |number: u64| number as usize & last;
    for number in numbers {
        let count = &mut counts[bucket(*number)];
        *count = count.saturating_add(1);
    }
    let is_frequent = |number: u64| usize::from(counts[bucket(number)]) >= least;
    let mut sorted: Vec<(u64, usize)> = (numbers.iter().enumerate())
        .filter(|(_, number)| is_frequent(**number))
        .map(|(i, number)| (*number, i))
        .collect();
    sorted.sort_unstable();
    let mut groups = Vec::new();
    for same in sorted.chunk_by(|a, b| a.0 == b.0) {
        if same.len() < least {
            continue;
        }
        let mut by_author: Vec<(Author, usize)> =
            same.iter().map(|(_, i)| (author(*i), *i)).collect();
        by_author.sort_unstable();
        let same = by_author.chunk_by(|a, b| a.0 == b.0);
        let same = same.filter(|same| same.len() >= least);
        groups.extend(same.map(|same| same.iter().map(|(_, i)| *i).collect()));
    }
    groups
}
