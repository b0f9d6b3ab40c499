//! Finds near-duplicates: texts with almost the same words.

use std::cmp::Ordering;

use crate::words::Words;

/// From this similarity on, two texts count as near-duplicates.
///
/// Nine of ten terms are the same: a log line with another time, a message
/// that was sent again with a word corrected.
pub const NEAR_DUPLICATE: f64 = 0.9;

/// Returns which part of the terms of both texts is in both of them: from 0
/// for none to 1 for all (Jaccard's index). Texts without terms are like
/// nothing.
///
/// A text that denies what the other says is like nothing of it.
pub fn similar(a: &Words, b: &Words) -> f64 {
    if a.negations != b.negations {
        return 0.0;
    }
    let (mut i, mut j, mut both) = (0, 0, 0_usize);
    while let (Some(x), Some(y)) = (a.terms.get(i), b.terms.get(j)) {
        let order = x.id.cmp(&y.id);
        both += usize::from(order == Ordering::Equal);
        i += usize::from(order != Ordering::Greater);
        j += usize::from(order != Ordering::Less);
    }
    let all = a.terms.len() + b.terms.len() - both;
    if all == 0 {
        0.0
    } else {
        both as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::analyse;

    #[test]
    fn similarity_is_the_share_of_common_terms() {
        let check = |a: &str, b: &str, expected: f64| {
            assert_eq!(similar(&analyse(a), &analyse(b)), expected, "{a} / {b}");
            assert_eq!(similar(&analyse(b), &analyse(a)), expected, "{b} / {a}");
        };
        check("the lake in Berlin", "Berlin's lakes", 1.0);
        check("lake berlin", "lake rome", 1.0 / 3.0);
        check("lake", "sea", 0.0);
        check("", "", 0.0);
        check("", "lake", 0.0);
        check("the build works", "the build doesn't work", 0.0);
        check("it works", "it never works", 0.0);
    }
}
