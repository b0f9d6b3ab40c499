//! Finds the best passage of a text that is too long to be shown.

use std::ops::Range;

use contexture_words::sentences;
use contexture_words::words::places;

/// The number of words around a word that are considered.
const AROUND_A_WORD: usize = 20;

/// The number of characters of a piece of a word that is too long itself.
const PIECE: usize = 8;

/// Returns the passage of `text` around the most of `terms` that `fits`: whole
/// sentences when one of them fits, else whole words of the best sentence, else
/// a part of a word. Returns `None` when not even a few characters fit.
///
/// A passage grows from the position with the most different terms, towards the
/// side with more terms that it lacks. Without any term it is the beginning of
/// the text. Only the first 64 terms are used.
///
/// `fits` must be true for everything shorter than something it is true for. It
/// is called about twice for each doubling of the first sentence, never with
/// more than about twice the text that fits.
pub fn snippet(
    text: &str,
    terms: &[u32],
    fits: &mut dyn FnMut(&str) -> bool,
) -> Option<Range<usize>> {
    let hits = Hits::of(text, terms);
    let by_sentence: Vec<Range<usize>> = sentences(text).collect();
    let best = match best_of(text, &by_sentence, &hits, 1, fits) {
        Best::Passage(passage) => return Some(passage),
        Best::Nothing => return None,
        Best::TooLarge(sentence) => sentence,
    };
    let by_word: Vec<Range<usize>> = words(text, best).collect();
    let best = match best_of(text, &by_word, &hits, AROUND_A_WORD, fits) {
        Best::Passage(passage) => return Some(passage),
        Best::Nothing => return None,
        Best::TooLarge(word) => word,
    };
    let pieces: Vec<Range<usize>> = pieces(text, best).collect();
    match best_of(text, &pieces, &hits, AROUND_A_WORD, fits) {
        Best::Passage(passage) => Some(passage),
        Best::Nothing | Best::TooLarge(_) => None,
    }
}

/// The positions of the terms, each with the number of the term's bit.
struct Hits(Vec<(usize, u64)>);

impl Hits {
    fn of(text: &str, terms: &[u32]) -> Self {
        let mut bits: Vec<(u32, u64)> = Vec::with_capacity(terms.len().min(64));
        for (i, term) in terms.iter().take(64).enumerate() {
            bits.push((*term, 1 << i));
        }
        bits.sort_unstable();
        // A repeated term counts once.
        bits.dedup_by_key(|(term, _)| *term);
        let mut hits = Vec::new();
        if !bits.is_empty() {
            places(text, |at, id| {
                if let Ok(found) = bits.binary_search_by_key(&id, |(term, _)| *term) {
                    hits.push((at, bits[found].1));
                }
            });
        }
        Self(hits)
    }

    /// Returns the terms that begin in each of `units`.
    fn in_each(&self, units: &[Range<usize>]) -> Vec<u64> {
        let mut masks = vec![0; units.len()];
        for (at, bit) in &self.0 {
            let unit = units.partition_point(|unit| unit.end <= *at);
            if units.get(unit).is_some_and(|unit| unit.start <= *at) {
                masks[unit] |= bit;
            }
        }
        masks
    }
}

enum Best {
    Passage(Range<usize>),
    /// The best unit, which does not fit.
    TooLarge(Range<usize>),
    Nothing,
}

/// Finds the best passage of whole units.
fn best_of(
    text: &str,
    units: &[Range<usize>],
    hits: &Hits,
    around: usize,
    fits: &mut dyn FnMut(&str) -> bool,
) -> Best {
    if units.is_empty() {
        return Best::Nothing;
    }
    let masks = hits.in_each(units);
    let first = densest(&masks, around);
    let span = |growth: &Range<usize>| units[growth.start].start..units[growth.end - 1].end;
    if !fits(&text[units[first].clone()]) {
        return Best::TooLarge(units[first].clone());
    }
    // The order of growth does not depend on `fits`, so that the largest
    // passage can be found by binary search.
    let mut passages: Vec<Range<usize>> = std::iter::once(first..first + 1).collect();
    let mut grow = Growth::at(first, &masks);
    let mut known = 0;
    let mut step = 1;
    let too_large = loop {
        while passages.len() <= known + step {
            match grow.next() {
                Some(passage) => passages.push(passage),
                None => break,
            }
        }
        let next = (known + step).min(passages.len() - 1);
        if next == known {
            return Best::Passage(span(&passages[known]));
        }
        if !fits(&text[span(&passages[next])]) {
            break next;
        }
        known = next;
        step *= 2;
    };
    let mut range = known..too_large;
    while range.end - range.start > 1 {
        let middle = range.start + (range.end - range.start) / 2;
        if fits(&text[span(&passages[middle])]) {
            range.start = middle;
        } else {
            range.end = middle;
        }
    }
    Best::Passage(span(&passages[range.start]))
}

/// Returns the unit with the most terms in it, then around it; the first of
/// equals.
fn densest(masks: &[u64], around: usize) -> usize {
    let mut best = (0, 0);
    for (i, mask) in masks.iter().enumerate() {
        if *mask == 0 {
            continue;
        }
        let near = &masks[i.saturating_sub(around)..masks.len().min(i + around + 1)];
        let company = near.iter().fold(0, |all, mask| all | mask).count_ones();
        let score = mask.count_ones() * 2 + company * 2;
        if score > best.0 {
            best = (score, i);
        }
    }
    best.1
}

/// Passages that grow by one unit at a time.
struct Growth<'m> {
    masks: &'m [u64],
    range: Range<usize>,
    has: u64,
    /// The side to grow when both add the same.
    backwards: bool,
}

impl<'m> Growth<'m> {
    fn at(first: usize, masks: &'m [u64]) -> Self {
        Self {
            masks,
            range: first..first + 1,
            has: masks[first],
            backwards: false,
        }
    }
}

impl Iterator for Growth<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let brings = |mask: &u64| (mask & !self.has).count_ones();
        let before = self
            .range
            .start
            .checked_sub(1)
            .map(|i| brings(&self.masks[i]));
        let after = self.masks.get(self.range.end).map(brings);
        let backwards = match (before, after) {
            (None, None) => return None,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(before), Some(after)) if before != after => before > after,
            (Some(_), Some(_)) => {
                let backwards = self.backwards;
                self.backwards = !backwards;
                backwards
            }
        };
        if backwards {
            self.range.start -= 1;
            self.has |= self.masks[self.range.start];
        } else {
            self.has |= self.masks[self.range.end];
            self.range.end += 1;
        }
        Some(self.range.clone())
    }
}

/// Returns the words between white space.
fn words(text: &str, within: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let begin = text.as_ptr().addr();
    text[within].split_whitespace().map(move |word| {
        let start = word.as_ptr().addr() - begin;
        start..start + word.len()
    })
}

/// Splits a word into pieces of a few characters.
fn pieces(text: &str, within: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut at = within.start;
    std::iter::from_fn(move || {
        let rest = &text[at..within.end];
        let length: usize = rest.chars().take(PIECE).map(char::len_utf8).sum();
        let piece = at..at + length;
        at = piece.end;
        (length > 0).then_some(piece)
    })
}
