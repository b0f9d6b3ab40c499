//! Finds near-duplicates: texts with almost the same words.

use std::cmp::Ordering;

use contexture_words::Words;
use contexture_words::words::is_unspaced;

/// From this similarity on, two texts count as near-duplicates.
///
/// Nine of ten terms are the same: a log line with another time, a message
/// that was sent again with a word corrected.
pub const NEAR_DUPLICATE: f64 = 0.9;

/// Returns the Jaccard index of the terms of two texts: from 0 (no common
/// terms) to 1 (all terms are common). It is 0 for texts without terms.
///
/// It is also 0 if one text negates the other.
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

/// Returns true if two texts are near-duplicates: [`similar`] returns at least
/// [`NEAR_DUPLICATE`].
///
/// Most pairs already differ in their first terms, so that the comparison ends
/// early.
pub fn is_near_duplicate(a: &Words, b: &Words) -> bool {
    if a.negations != b.negations {
        return false;
    }
    let (a, b) = (&a.terms, &b.terms);
    let both_sizes = a.len() + b.len();
    // The smallest sufficient number of common terms.
    let is_enough = |common: usize| {
        let all = both_sizes - common;
        all > 0 && common as f64 / all as f64 >= NEAR_DUPLICATE
    };
    let most = a.len().min(b.len());
    if !is_enough(most) {
        return false;
    }
    let about = (NEAR_DUPLICATE / (1.0 + NEAR_DUPLICATE) * both_sizes as f64) as usize;
    let mut least = about.saturating_sub(1);
    while !is_enough(least) {
        least += 1;
    }
    let mut apart_left = both_sizes - 2 * least;
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let order = x.id.cmp(&y.id);
        i += usize::from(order != Ordering::Greater);
        j += usize::from(order != Ordering::Less);
        if order != Ordering::Equal {
            match apart_left.checked_sub(1) {
                Some(left) => apart_left = left,
                None => return false,
            }
        }
    }
    a.len() - i + b.len() - j <= apart_left
}

/// Returns some of the terms of a text. Two near-duplicates share at least one
/// of these, so texts that share none need not be compared.
///
/// If nine tenths of two sets are equal, the first tenth plus one of each, in
/// the same order, overlap.
pub fn near_keys(words: &Words) -> impl Iterator<Item = u32> + '_ {
    let terms = &words.terms;
    let common = (NEAR_DUPLICATE * terms.len() as f64).ceil() as usize;
    let first = (terms.len() + 1).saturating_sub(common).min(terms.len());
    terms[..first].iter().map(|term| term.id)
}

/// Returns a bit for each term of a text, some for several, and half of the largest
/// number of bits in which those of a near-duplicate of the same size differ. The
/// bits of two near-duplicates differ in at most the sum of both numbers.
///
/// A term that only one of two texts has changes at most one bit.
pub fn near_bits(words: &Words) -> (u64, u32) {
    let terms = words.terms.iter();
    let bits = terms.fold(0, |bits, term| bits | near_bit(term.id));
    // Of `a + b` terms of two texts, at most this share is in one of them only.
    let apart = (1.0 - NEAR_DUPLICATE) / (1.0 + NEAR_DUPLICATE);
    (bits, (apart * words.terms.len() as f64).ceil() as u32)
}

fn near_bit(term: u32) -> u64 {
    1 << (term % 64)
}

/// Returns false if a text with these [bits](near_bits) does not have a term.
pub fn has_near_bit(bits: u64, term: u32) -> bool {
    bits & near_bit(term) != 0
}

/// Returns a hash of the template of a text: equal for texts that differ only
/// in numbers, dates and ids.
pub fn template_print(text: &str) -> u64 {
    // FNV-1a, like the other hashes.
    let mut print = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |byte: u8| {
        print ^= u64::from(byte);
        print = print.wrapping_mul(0x0100_0000_01b3);
    };
    let mut folded = false;
    // In scripts without spaces, a number is not a part of the characters
    // around it.
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words = words.flat_map(|word| word.split_inclusive(is_unspaced));
    let words = words.flat_map(|word| {
        let last = word.char_indices().next_back();
        let last = last.filter(|(_, c)| is_unspaced(*c));
        let (spaced, last) = word.split_at(last.map_or(word.len(), |(at, _)| at));
        [spaced, last]
    });
    for word in words {
        if word.is_empty() {
            continue;
        }
        // A word with a digit is a number or an id. Consecutive ones count as
        // one: `2026-04-17` and `17.4.` are dates.
        if word.bytes().any(|byte| byte.is_ascii_digit()) {
            if !folded {
                add(b'#');
                add(b' ');
            }
            folded = true;
            continue;
        }
        folded = false;
        word.chars()
            .flat_map(char::to_lowercase)
            .for_each(|c| c.to_string().bytes().for_each(&mut add));
        add(b' ');
    }
    print
}

#[cfg(test)]
mod tests {
    use super::*;
    use contexture_words::analyse;

    #[test]
    fn a_template_is_the_text_without_its_numbers() {
        let same = |a: &str, b: &str| template_print(a) == template_print(b);
        assert!(same(
            "backup 17 failed: retrying",
            "Backup 9,999 failed, retrying"
        ));
        assert!(same("job a81f-99 done", "job 7c done"));
        assert!(same("seen on 2026-04-17", "seen on 3.5.2026"));
        assert!(!same("backup 17 failed", "backup 17 worked"));
        assert!(!same("backup failed", "backup 17 failed"));
        // The same holds without spaces between words.
        assert!(same("备份17失败", "备份9999失败"));
        assert!(!same("王伟3号住在杭州", "王伟3号会弹钢琴"));
        assert!(!same("李娜3号住在杭州", "王伟3号住在杭州"));
        assert!(!same("3号", "3番"));
    }

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

    proptest::proptest! {
        #[test]
        fn near_duplicates_share_a_key(
            words in proptest::collection::vec("[a-z]{3,8}", 1..40),
            dropped in proptest::collection::vec(proptest::prelude::any::<bool>(), 40),
        ) {
            let a = analyse(&words.join(" "));
            let kept: Vec<&str> = (words.iter().zip(&dropped))
                .filter(|(_, dropped)| !**dropped)
                .map(|(word, _)| word.as_str())
                .collect();
            let b = analyse(&kept.join(" "));
            let is_near = similar(&a, &b) >= NEAR_DUPLICATE;
            proptest::prop_assert_eq!(is_near, is_near_duplicate(&a, &b));
            proptest::prop_assert_eq!(is_near, is_near_duplicate(&b, &a));
            if is_near {
                let keys: Vec<u32> = near_keys(&a).collect();
                proptest::prop_assert!(near_keys(&b).any(|key| keys.contains(&key)));
                let ((a, a_apart), (b, b_apart)) = (near_bits(&a), near_bits(&b));
                proptest::prop_assert!((a ^ b).count_ones() <= a_apart + b_apart);
            }
        }
    }
}
