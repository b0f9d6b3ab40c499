//! Near-duplicates: texts that say the same in nearly the same words.

use std::cmp::Ordering;

use crate::words::Words;

/// From this similarity on, two texts count as near-duplicates.
///
/// Nine of ten terms are the same: a log line with another time, a message
/// that was sent again with a word corrected.
pub const NEAR_DUPLICATE: f64 = 0.9;

/// Returns a number that is the same for texts with the same terms, as often
/// each: whatever their case, punctuation, stop words and order.
///
/// Numbers are terms, so `retry 1` and `retry 2` differ. Negations are stop
/// words: where `works` and `does not work` must not be taken for each other,
/// compare the texts as well.
pub fn fingerprint(words: &Words) -> u64 {
    let counted = words
        .terms
        .iter()
        .flat_map(|term| term.id.to_le_bytes().into_iter().chain([term.count]));
    let bytes = words.length.to_le_bytes().into_iter().chain(counted);
    // FNV-1a, 64 bits.
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns which part of the terms of both texts is in both of them: from 0
/// for none to 1 for all (Jaccard's index). Texts without terms are like
/// nothing.
pub fn similar(a: &Words, b: &Words) -> f64 {
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
    fn case_order_and_punctuation_do_not_matter() {
        let print = |text: &str| fingerprint(&analyse(text));
        assert_eq!(print("The build failed."), print("build FAILED"));
        assert_eq!(print("Ana met Bob"), print("Bob, Ana: met"));
        assert_ne!(print("retry 1"), print("retry 2"));
        assert_ne!(print("lake"), print("lake lake"));
        // It is stored.
        assert_eq!(print(""), 0x4d25_767f_9dce_13f5);
    }

    #[test]
    fn similarity_is_the_part_in_common() {
        let check = |a: &str, b: &str, expected: f64| {
            assert_eq!(similar(&analyse(a), &analyse(b)), expected, "{a} / {b}");
            assert_eq!(similar(&analyse(b), &analyse(a)), expected, "{b} / {a}");
        };
        check("the lake in Berlin", "Berlin's lakes", 1.0);
        check("lake berlin", "lake rome", 1.0 / 3.0);
        check("lake", "sea", 0.0);
        check("", "", 0.0);
        check("", "lake", 0.0);
    }
}
