//! The patterns that split a text into pieces before its bytes are merged.
//!
//! Both are written as code: a regex takes a millisecond to compile, and its
//! caches more. Tests compare the pieces with those of the regexes.
//!
//! Each alternative of a pattern is one step below, in the pattern's order. The
//! classes are found in a table, so that a character is looked up once.

use super::class::{BLOCK, LETTER, LINE_END, LOWER, NUMBER, OTHER, SPACE, UPPER};

include!(concat!(env!("OUT_DIR"), "/classes.rs"));

/// The pattern that splits a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// The pattern of `o200k_base`, where upper case after lower case begins a
    /// piece, and a contraction belongs to its word:
    ///
    /// ```text
    /// [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
    /// [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
    /// \p{N}{1,3}
    ///  ?[^\s\p{L}\p{N}]+[\r\n/]*
    /// \s*[\r\n]+
    /// \s+(?!\S)
    /// \s+
    /// ```
    O200k,
    /// The pattern of `cl100k_base`:
    ///
    /// ```text
    /// (?i:'s|'t|'re|'ve|'m|'ll|'d)
    /// [^\r\n\p{L}\p{N}]?\p{L}+
    /// \p{N}{1,3}
    ///  ?[^\s\p{L}\p{N}]+[\r\n]*
    /// \s*[\r\n]+
    /// \s+(?!\S)
    /// \s+
    /// ```
    Cl100k,
}

impl Pattern {
    /// Returns the end of the piece of `text` that begins at `at`, which is not
    /// the end of `text`.
    #[inline(always)]
    pub(crate) fn piece_end(self, text: &str, at: usize) -> usize {
        if self == Self::O200k
            && let Some(end) = plain_word(text.as_bytes(), at)
        {
            return end;
        }
        let (class, next) = class_at(text, at);
        let word = match self {
            Self::O200k => cased_word(text, at, class, next),
            Self::Cl100k => contraction(text, at).or_else(|| word(text, at, class, next)),
        };
        if let Some(end) = word {
            return end;
        }
        if class & NUMBER != 0 {
            return number(text, next);
        }
        let starts_with_blank = text.as_bytes()[at] == b' ' && class_at(text, next).0 & OTHER != 0;
        if class & OTHER != 0 || starts_with_blank {
            let end = run(text, next, OTHER);
            let tail = |byte: &&u8| match byte {
                b'\r' | b'\n' => true,
                b'/' => self == Self::O200k,
                _ => false,
            };
            return end + text.as_bytes()[end..].iter().take_while(tail).count();
        }
        white_space(text, at)
    }
}

/// Matches the first alternative of o200k for most words of plain text: a letter and
/// at most seven lower-case letters, perhaps after a blank or a mark. Returns `None`
/// for any other text, and near the end of the text.
#[inline(always)]
fn plain_word(text: &[u8], at: usize) -> Option<usize> {
    let class_of = |byte: u8| match byte.is_ascii() {
        true => BLOCKS[0][usize::from(byte)],
        false => 0,
    };
    let first = *text.get(at)?;
    if !first.is_ascii() {
        return None;
    }
    let start = at + usize::from(precedes_word(class_of(first)));
    let (first, rest) = text.get(start..)?.split_first()?;
    let first = class_of(*first);
    let lower = lower_run(rest.first_chunk()?);
    let end = rest.get(lower)?;
    // An apostrophe may begin a contraction.
    let is_end = end.is_ascii() && *end != b'\'' && lower < 8;
    let is_word = first & LOWER != 0 || first & LETTER != 0 && lower > 0;
    (is_word && is_end).then_some(start + 1 + lower)
}

/// Returns the number of letters from `a` to `z` at the beginning of `bytes`.
#[inline(always)]
fn lower_run(bytes: &[u8; 8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    let word = u64::from_le_bytes(*bytes);
    // Each byte without its high bit, so that no sum is carried to the next byte.
    let low = word & !HIGH;
    let from_a = low + ONES * u64::from(0x80 - b'a');
    let above_z = low + ONES * u64::from(0x80 - b'z' - 1);
    let other = !(from_a & !above_z & !word) & HIGH;
    other.trailing_zeros() as usize / 8
}

/// Returns the class of the character at `at` and the place after it. At the
/// end of `text` the class is 0, which is none.
#[inline(always)]
fn class_at(text: &str, at: usize) -> (u8, usize) {
    match text.as_bytes().get(at) {
        None => (0, at),
        // The first block is that of ASCII.
        Some(&byte) if byte.is_ascii() => (BLOCKS[0][usize::from(byte)], at + 1),
        Some(_) => wide_class_at(text, at),
    }
}

/// Does what [`class_at`] does for characters of several bytes.
#[inline(never)]
fn wide_class_at(text: &str, at: usize) -> (u8, usize) {
    text[at..].chars().next().map_or((0, at), |character| {
        let block = usize::from(BLOCK_OF[character as usize / BLOCK]);
        let class = BLOCKS[block][character as usize % BLOCK];
        (class, at + character.len_utf8())
    })
}

/// Returns the end of the characters from `at` on that have one of `classes`.
#[inline]
fn run(text: &str, mut at: usize, classes: u8) -> usize {
    loop {
        let (class, next) = class_at(text, at);
        if class & classes == 0 {
            return at;
        }
        at = next;
    }
}

/// Returns true if a character of `class` before the letters of a word is part
/// of that word: `[^\r\n\p{L}\p{N}]`.
#[inline]
fn precedes_word(class: u8) -> bool {
    class & (LETTER | NUMBER | LINE_END) == 0
}

/// Matches the second alternative of cl100k.
#[inline]
fn word(text: &str, at: usize, class: u8, next: usize) -> Option<usize> {
    let letters = if precedes_word(class) { next } else { at };
    let end = run(text, letters, LETTER);
    (end > letters).then_some(end)
}

/// Matches the first two alternatives of o200k.
#[inline]
fn cased_word(text: &str, at: usize, class: u8, next: usize) -> Option<usize> {
    let end = if precedes_word(class) {
        let letters = Letters::scan(text, next);
        // A mark may come before a word, and is a part of words as well.
        let from_mark = || (class & LOWER != 0).then(|| Letters::scan(text, at));
        letters
            .with_lower
            .or_else(|| from_mark()?.with_lower)
            .or(letters.upper)
    } else if class & LETTER != 0 {
        let letters = Letters::scan(text, at);
        letters.with_lower.or(letters.upper)
    } else {
        None
    }?;
    Some(contraction(text, end).unwrap_or(end))
}

/// The matches of the letters from a position on.
struct Letters {
    /// The end of `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
    with_lower: Option<usize>,
    /// The end of `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+`
    upper: Option<usize>,
}

impl Letters {
    #[inline]
    fn scan(text: &str, start: usize) -> Self {
        let mut upper = start;
        // The end of the last character that is in both sets.
        let mut caseless = None;
        loop {
            let (class, next) = class_at(text, upper);
            if class & UPPER == 0 {
                let with_lower = match class & LOWER {
                    // The first set has to leave something to the second: it
                    // gives back what follows the last character of both.
                    0 => caseless,
                    _ => Some(run(text, next, LOWER)),
                };
                return Self {
                    with_lower,
                    upper: (upper > start).then_some(upper),
                };
            }
            upper = next;
            if class & LOWER != 0 {
                caseless = Some(next);
            }
        }
    }
}

/// Matches `(?i:'s|'t|'re|'ve|'m|'ll|'d)`.
#[inline]
fn contraction(text: &str, at: usize) -> Option<usize> {
    let (b'\'', rest) = text.as_bytes()[at..].split_first()? else {
        return None;
    };
    let lower = |at: usize| rest.get(at).map_or(0, u8::to_ascii_lowercase);
    let length = match (lower(0), lower(1)) {
        (b's' | b't' | b'm' | b'd', _) => 1,
        (b'r' | b'v', b'e') | (b'l', b'l') => 2,
        // The long s is an s without regard to case.
        (0xC5, 0xBF) => 2,
        _ => return None,
    };
    Some(at + 1 + length)
}

/// Matches `\p{N}{1,3}`, of which the first ends at `at`.
#[inline]
fn number(text: &str, mut at: usize) -> usize {
    for _ in 1..3 {
        let (class, next) = class_at(text, at);
        if class & NUMBER == 0 {
            break;
        }
        at = next;
    }
    at
}

/// Matches the last three alternatives, where nothing but white space is left.
#[inline]
fn white_space(text: &str, start: usize) -> usize {
    let (mut at, mut last, mut line_end) = (start, start, None);
    loop {
        let (class, next) = class_at(text, at);
        if class & SPACE == 0 {
            break;
        }
        if class & LINE_END != 0 {
            line_end = Some(next);
        }
        (last, at) = (at, next);
    }
    match line_end {
        Some(end) => end,
        // The last blank before a word belongs to the word, unless it is alone.
        None if at < text.len() && last > start => last,
        None => at,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(pattern: Pattern, text: &str) -> Vec<&str> {
        let mut at = 0;
        let mut pieces = Vec::new();
        while at < text.len() {
            let end = pattern.piece_end(text, at);
            pieces.push(&text[at..end]);
            at = end;
        }
        pieces
    }

    fn reference(pattern: Pattern, text: &str) -> Vec<&str> {
        let tokenizer = match pattern {
            Pattern::O200k => bpe_openai::o200k_base(),
            Pattern::Cl100k => bpe_openai::cl100k_base(),
        };
        tokenizer.split(text).collect()
    }

    fn check(text: &str) {
        for pattern in [Pattern::O200k, Pattern::Cl100k] {
            assert_eq!(
                pieces(pattern, text),
                reference(pattern, text),
                "{pattern:?} {text:?}"
            );
        }
    }

    /// All characters are in the right classes: each meets every class, before
    /// it, after it and twice.
    #[test]
    fn every_character_splits_as_the_regex_splits_it() {
        let neighbours = ["a", "A", "中", "1", " ", "\n", ".", "\u{301}", "'s"];
        let mut text = String::new();
        for character in '\0'..=char::MAX {
            for neighbour in neighbours {
                text.push(character);
                text.push_str(neighbour);
            }
            text.push(character);
            text.push(character);
            text.push_str("A\n;");
            if text.len() > 1 << 16 {
                check(&text);
                text.clear();
            }
        }
        check(&text);
    }

    /// All sequences of a few characters of all classes, which covers every way
    /// through the alternatives that does not need a longer one.
    #[test]
    fn every_short_sequence_splits_as_the_regex_splits_it() {
        let characters = [
            'a', 'B', 'ǅ', '中', 'ʰ', '\u{301}', '7', ' ', '\t', '\n', '\r', '\u{A0}', '.', '/',
            '\'', 's', 'ſ', 'l',
        ];
        let mut text = String::new();
        for length in 1..=4 {
            for number in 0..characters.len().pow(length) {
                let mut rest = number;
                text.clear();
                for _ in 0..length {
                    text.push(characters[rest % characters.len()]);
                    rest /= characters.len();
                }
                check(&text);
                // Words are found in another way far from the end of a text.
                text.push_str("s and more words");
                check(&text);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn any_text_splits_as_the_regex_splits_it(
            any in ".{0,80}",
            words in "([ .A-Z]?[a-z]{0,12}['ü1 ]?){0,12}",
            lines in "[\r\n \tabAB1./'\u{85}\u{2028}中\u{301}]{0,60}",
            cases in "[aBǅ中ʰ\u{301}' sStTrReEvVlLmMdDſ]{0,60}",
        ) {
            check(&any);
            check(&words);
            check(&lines);
            check(&cases);
        }
    }
}
