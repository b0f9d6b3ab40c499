//! Full text: the stems of a text, each with a fixed number.
//!
//! - A word is a run of letters and digits of any script, in lower case, without
//!   accents. A word in ASCII is stemmed as English. A word of another language,
//!   which is detected by its script or by the stop words of the text, has its
//!   stem in that language as well.
//! - A compound (`parseHttpRequest`, `parse_http`, `well-known`, `config.toml`)
//!   has its parts and the whole as terms, so that either finds it. Parts of one
//!   letter are not terms.
//! - `'s` and the other short endings are removed; `don't` and similar
//!   contractions are stop words.
//! - Scripts without spaces (Chinese, Japanese, Thai and others), and Korean, have
//!   overlapping pairs of characters as terms. A single character is its own term.
//! - Numbers are words.
//! - A word of more than [`LONGEST`] bytes, which no query contains, is ignored. A
//!   compound of that length has only its parts as terms.
//!
//! The time is linear in the text. The caller limits the length of the text.

mod foreign_stop;
mod language;
mod scan;
mod stem;
mod stop;

use std::collections::BTreeMap;

use foreign_stop::ForeignStopWords;
pub use scan::is_unspaced;
use scan::{Part, scan};
use stem::Stems;

pub(crate) use stop::is_stop_word;

/// The version of the rules of this module.
///
/// Terms of another version cannot be compared with these and must be created
/// again.
pub const ANALYSER: u32 = 1;

/// The maximum size of a word in bytes; a longer word is ignored.
pub const LONGEST: usize = 64;

/// A stem of a text and its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term {
    /// The stem's number: [`term_id`].
    pub id: u32,
    /// The number of occurrences, at most 255.
    pub count: u8,
}

/// The full text search data of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// The stems by ascending id, without duplicates and stop words.
    pub terms: Vec<Term>,
    /// The number of words, with repeats and without stop words. A compound
    /// counts as its parts.
    pub length: u32,
    /// The number of words with stop words.
    pub total: u32,
    /// The number of negations: `not`, `never`, `don't`.
    pub negations: u8,
    /// A hash of all words in their order, stop words included, in lower case:
    /// equal for texts with equal words.
    pub print: u64,
}

/// A word of a text that is not a stop word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyword {
    /// The word as it was written, in lower case.
    pub word: String,
    /// The stem of the word.
    pub stem: String,
    /// The stem's number: [`term_id`].
    pub id: u32,
    /// True for a whole compound, whose parts are keywords, too.
    pub is_compound: bool,
}

/// Returns the number of a stem: FNV-1a of its bytes, 32 bits.
///
/// It is stored, so it never changes. Two stems may share a number; among a
/// million of them about a hundred pairs do.
///
/// ```
/// # use contexture_words::term_id;
/// assert_eq!(term_id("foobar"), 0xbf9c_f968);
/// ```
pub fn term_id(stem: &str) -> u32 {
    stem.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// Returns the terms of `text`.
pub fn analyse(text: &str) -> Words {
    let mut ids = Vec::with_capacity((text.len() / 6).min(4096));
    let (mut length, mut total, mut negations) = (0_u32, 0_u32, 0_u8);
    let mut print = FNV_OFFSET;
    Stems::with(text, |stems| {
        scan(text, &mut |part| {
            let counts = u32::from(!matches!(part, Part::Whole(_)));
            total = total.saturating_add(counts);
            if let Some(id) = stems.id(part) {
                ids.push(id);
                ids.extend(stems.other(part).map(|stem| term_id(&stem)));
                length = length.saturating_add(counts);
            }
            let word = stems.word();
            print = fnv(print, word.as_bytes());
            let negates = matches!(part, Part::Negation(_)) || NEGATIONS.contains(&word);
            negations = negations.saturating_add(u8::from(negates));
        });
    });
    ids.sort_unstable();
    let mut terms: Vec<Term> = Vec::with_capacity(ids.len());
    for id in ids {
        match terms.last_mut() {
            Some(last) if last.id == id => last.count = last.count.saturating_add(1),
            _ => terms.push(Term { id, count: 1 }),
        }
    }
    // A text that consists of compounds without parts (`U.S.`) has words, too.
    if length == 0 {
        length = u32::try_from(terms.len()).unwrap_or(u32::MAX);
    }
    Words {
        terms,
        length,
        total: total.max(length),
        negations,
        print,
    }
}

/// Negations other than `don't` and similar contractions.
const NEGATIONS: [&str; 8] = [
    "not", "no", "never", "nor", "none", "without", "cannot", "neither",
];

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues a hash with a word and its end: FNV-1a, 64 bits.
fn fnv(hash: u64, word: &[u8]) -> u64 {
    let bytes = word.iter().chain(&[0]);
    bytes.fold(hash, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns the words of `text` without stop words, in order of appearance, each
/// stem once. A compound comes before its parts.
pub fn keywords(text: &str) -> Vec<Keyword> {
    gather(text, false)
}

/// Returns the keywords of a query.
///
/// A query of only stop words (`who are you`) keeps them: documents have no
/// such terms, but names can be such words, and an explanation can list them.
///
/// Stop words of other languages are removed if another word remains. Documents
/// have such terms.
pub fn query_keywords(text: &str) -> Vec<Keyword> {
    let found = gather(text, false);
    if found.is_empty() {
        return gather(text, true);
    }
    let foreign = ForeignStopWords::of(text);
    let is_stop = |keyword: &Keyword| foreign.contains(&keyword.word);
    match found.iter().all(is_stop) {
        true => found,
        false => found.into_iter().filter(|one| !is_stop(one)).collect(),
    }
}

fn gather(text: &str, stop_words: bool) -> Vec<Keyword> {
    let counted = counted_keywords(text, stop_words).into_iter();
    counted.map(|(keyword, _)| keyword).collect()
}

/// Returns the keywords of `text` and the count of each.
pub fn counted_keywords(text: &str, stop_words: bool) -> Vec<(Keyword, u32)> {
    let mut places = BTreeMap::new();
    let mut found: Vec<(Keyword, u32)> = Vec::new();
    Stems::with(text, |stems| {
        scan(text, &mut |part| {
            let Some((word, stem)) = stems.stem(part, stop_words) else {
                return;
            };
            let (word, stem) = (word.to_owned(), stem.into_owned());
            for stem in std::iter::once(stem).chain(stems.other(part)) {
                let id = term_id(&stem);
                let place = *places.entry(id).or_insert(found.len());
                match found.get_mut(place) {
                    Some((_, count)) => *count += 1,
                    None => {
                        let keyword = Keyword {
                            word: word.clone(),
                            stem,
                            id,
                            is_compound: matches!(part, Part::Whole(_)),
                        };
                        found.push((keyword, 1));
                    }
                }
            }
        });
    });
    found
}

/// Calls `each` with every term of `text` and its offset, by ascending offset.
pub fn places(text: &str, mut each: impl FnMut(usize, u32)) {
    let begin = text.as_ptr().addr();
    Stems::with(text, |stems| {
        scan(text, &mut |part| {
            if let Some(id) = stems.id(part) {
                let place = part.as_str().as_ptr().addr() - begin;
                each(place, id);
                if let Some(other) = stems.other(part) {
                    each(place, term_id(&other));
                }
            }
        });
    });
}

impl Words {
    /// Returns the count of a term, at most 255.
    pub fn count(&self, id: u32) -> u8 {
        self.terms
            .binary_search_by_key(&id, |term| term.id)
            .map_or(0, |at| self.terms[at].count)
    }

    /// Returns the terms as bytes to store: the [`ANALYSER`], the numbers and
    /// the differences between the ids, as variable-length integers.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(4 + self.terms.len() * 5);
        put(&mut bytes, u64::from(ANALYSER));
        put(&mut bytes, u64::from(self.length));
        put(&mut bytes, u64::from(self.total));
        bytes.push(self.negations);
        bytes.extend(self.print.to_le_bytes());
        let mut before = 0;
        for term in &self.terms {
            // One bit marks that a count follows: nearly all counts are 1.
            let distance = u64::from(term.id - before) << 1;
            put(&mut bytes, distance | u64::from(term.count > 1));
            if term.count > 1 {
                bytes.push(term.count);
            }
            before = term.id;
        }
        bytes
    }

    /// Reads the output of [`Words::to_bytes`].
    ///
    /// Returns `None` for bytes of another [`ANALYSER`] and for damaged ones.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        if take(&mut bytes)? != u64::from(ANALYSER) {
            return None;
        }
        let length = u32::try_from(take(&mut bytes)?).ok()?;
        let total = u32::try_from(take(&mut bytes)?).ok()?;
        let (negations, rest) = bytes.split_first()?;
        let (print, rest) = rest.split_first_chunk::<8>()?;
        bytes = rest;
        let mut terms: Vec<Term> = Vec::with_capacity(bytes.len() / 4);
        while !bytes.is_empty() {
            let word = take(&mut bytes)?;
            let count = if word & 1 == 1 {
                let (count, rest) = bytes.split_first()?;
                bytes = rest;
                (*count > 1).then_some(*count)?
            } else {
                1
            };
            let before = terms.last().map_or(0, |term| u64::from(term.id));
            let distance = word >> 1;
            if distance == 0 && !terms.is_empty() {
                return None;
            }
            let id = u32::try_from(before.checked_add(distance)?).ok()?;
            terms.push(Term { id, count });
        }
        Some(Self {
            terms,
            length,
            total,
            negations: *negations,
            print: u64::from_le_bytes(*print),
        })
    }
}

/// Writes a variable-length integer with 7 bits per byte, lowest first.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number as u8) | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads a number of at most 63 bits that [`put`] wrote.
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
