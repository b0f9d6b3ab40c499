//! Shortens a text by dropping its least relevant sentences.
//!
//! No model is called, and the same text always gives the same result.

use std::collections::BTreeSet;

use contexture_words::{analyse, sentences};

use crate::snippet::snippet;

/// The marker for omitted sentences.
const GAP: &str = "…";

/// The extra weight of a term of the query.
const ASKED_FOR: f64 = 4.0;

/// The number of further sentences to try if the next best is too long.
const TRIES: usize = 8;

/// Returns `text` shortened so that it `fits`: the most informative sentences
/// in their order, with `…` in place of the others.
///
/// A sentence is informative if, for its length, many of its words are frequent
/// in the text or are `terms` of the query. The first sentence has an
/// advantage, and a repeated sentence has no weight. If no sentence fits, the
/// best passage of one is used ([`snippet`]). Returns `None` if nothing fits,
/// and the text itself if it fits.
///
/// `fits` must be true for everything shorter than something it is true for.
pub fn shorten(text: &str, terms: &[u32], fits: &mut dyn FnMut(&str) -> bool) -> Option<String> {
    let text = text.trim();
    if fits(text) {
        return Some(text.to_owned());
    }
    let parts: Vec<&str> = sentences(text).map(|range| &text[range]).collect();
    let ranked = rank(text, &parts, terms);
    // The largest number of best sentences that fit together. It is searched
    // for by doubling, then by halving, because counting tokens is the
    // expensive part.
    let mut keep = |number: usize| fits(&join(text, &parts, &ranked[..number]));
    let (mut known, mut too_many) = (0, 1);
    while too_many <= ranked.len() && keep(too_many) {
        known = too_many;
        too_many *= 2;
    }
    too_many = too_many.min(ranked.len() + 1);
    while too_many - known > 1 {
        let middle = known + (too_many - known) / 2;
        if keep(middle) {
            known = middle;
        } else {
            too_many = middle;
        }
    }
    let mut kept: Vec<usize> = ranked[..known].to_vec();
    for next in ranked.iter().skip(known + 1).take(TRIES) {
        kept.push(*next);
        if !fits(&join(text, &parts, &kept)) {
            kept.pop();
        }
    }
    if kept.is_empty() {
        return snippet(text, terms, fits).map(|range| text[range].to_owned());
    }
    Some(join(text, &parts, &kept))
}

/// Returns the indexes of the informative sentences, the best first.
fn rank(text: &str, parts: &[&str], terms: &[u32]) -> Vec<usize> {
    let all = analyse(text);
    let mut seen = BTreeSet::new();
    let mut scores: Vec<(f64, usize)> = Vec::with_capacity(parts.len());
    for (i, part) in parts.iter().enumerate() {
        let words = analyse(part);
        if !words.terms.is_empty() && !seen.insert(words.print) {
            continue;
        }
        let says: f64 = words
            .terms
            .iter()
            .map(|term| {
                let weight = f64::from(all.count(term.id)).ln_1p();
                if terms.contains(&term.id) {
                    weight * ASKED_FOR
                } else {
                    weight
                }
            })
            .sum();
        let advantage = if i == 0 { 1.5 } else { 1.0 };
        scores.push((advantage * says / f64::from(words.length + 4).sqrt(), i));
    }
    scores.sort_by(|(a, i), (b, j)| b.total_cmp(a).then(i.cmp(j)));
    scores.into_iter().map(|(_, i)| i).collect()
}

/// Returns the kept sentences in their order. Line breaks are preserved.
fn join(text: &str, parts: &[&str], kept: &[usize]) -> String {
    let mut kept = kept.to_vec();
    kept.sort_unstable();
    let place = |i: usize| parts[i].as_ptr().addr() - text.as_ptr().addr();
    let mut joined = String::new();
    let mut next = 0;
    for i in kept {
        if i > 0 {
            let space = &text[place(i - 1) + parts[i - 1].len()..place(i)];
            let space = if space.contains('\n') { "\n" } else { " " };
            if i > next {
                if next > 0 {
                    joined.push_str(space);
                }
                joined.push_str(GAP);
            }
            joined.push_str(space);
        }
        joined.push_str(parts[i]);
        next = i + 1;
    }
    if next < parts.len() && next > 0 {
        joined.push(' ');
        joined.push_str(GAP);
    }
    joined
}
