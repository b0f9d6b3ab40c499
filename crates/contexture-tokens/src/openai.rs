//! [`OpenAi`]: exact counters for OpenAI's public vocabularies.
//!
//! Each vocabulary is a table that the build script writes and that is read in
//! place, so that a new process counts at once.

mod class;
mod hash;
mod merge;
mod pattern;
mod vocabulary;

use std::cell::RefCell;

use contexture_core::{TokenCounter, Tokens};

use merge::Merger;
use pattern::Pattern;
use vocabulary::{CL100K_BASE, O200K_BASE};

/// One of OpenAI's public vocabularies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// GPT-4o and everything after it.
    O200k,
    /// GPT-4 and GPT-3.5.
    Cl100k,
}

impl Encoding {
    /// Returns the encoding's public name.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::O200k => "o200k_base",
            Encoding::Cl100k => "cl100k_base",
        }
    }
}

/// Counts tokens exactly as OpenAI's models do. Special tokens in the text
/// count as plain text.
///
/// The vocabularies are tables in the program, written when it was built and
/// read in place: nothing is loaded at run time.
///
/// The encoding's pattern splits a text into pieces, which are counted one by
/// one. A piece that is not a token is merged from its bytes. Counting takes
/// time in proportion to the size of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenAi {
    encoding: Encoding,
}

thread_local! {
    static MERGER: RefCell<Merger> = const { RefCell::new(Merger::new()) };
}

impl OpenAi {
    /// Returns the counter for `encoding`.
    pub fn new(encoding: Encoding) -> Self {
        Self { encoding }
    }

    /// Returns the number of tokens of `text`, or some number above `limit`
    /// when there are more.
    fn count_limited(&self, text: &str, limit: Tokens) -> Tokens {
        let bytes = text.as_bytes();
        MERGER.with_borrow_mut(|merger| match self.encoding {
            Encoding::O200k => merger.count(&O200K_BASE, bytes, limit, |at| {
                Pattern::O200k.piece_end(text, at)
            }),
            Encoding::Cl100k => merger.count(&CL100K_BASE, bytes, limit, |at| {
                Pattern::Cl100k.piece_end(text, at)
            }),
        })
    }
}

impl TokenCounter for OpenAi {
    fn name(&self) -> &str {
        self.encoding.name()
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str) -> Tokens {
        self.count_limited(text, Tokens::MAX)
    }

    fn count_up_to(&self, text: &str, limit: Tokens) -> Option<Tokens> {
        Some(self.count_limited(text, limit)).filter(|&tokens| tokens <= limit)
    }

    fn longest_token(&self) -> Option<u64> {
        // Runs of 128 blanks are the longest tokens of both vocabularies.
        Some(128)
    }

    /// Both patterns begin a piece with a letter that follows a blank or certain marks, or
    /// with that character.
    ///
    /// An apostrophe is not among them, because it can be inside of a word. Line ends and
    /// the marks of base64 are not either, so that an encoded text does not count.
    fn lower_bound(&self, text: &str) -> Tokens {
        word_starts(text.as_bytes())
    }

    /// A letter of an escape follows a backslash, a digit or another letter, which are
    /// not among the characters. The last character of an escape is among them only
    /// if the escape is a quote, which remains a quote.
    fn lower_bound_in_json(&self, json: &str) -> Tokens {
        self.lower_bound(json)
    }

    /// Both patterns end a piece at a line end unless white space with another
    /// line end in it follows, or, in o200k, a slash after punctuation.
    fn is_seam(&self, before: &str, after: &str) -> bool {
        let blanks = after
            .bytes()
            .take_while(|byte| matches!(byte, b' ' | b'\t'))
            .count();
        let Some(&first) = after.as_bytes().get(blanks) else {
            return false;
        };
        match first {
            b'\n' | b'\r' | 0x0B | 0x0C => false,
            b'/' if blanks == 0 => before
                .trim_end_matches(['\n', '\r'])
                .bytes()
                .next_back()
                .is_none_or(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'\t')),
            0x80.. => after[blanks..]
                .chars()
                .next()
                .is_some_and(|c| !c.is_whitespace()),
            _ => true,
        }
    }

    fn sums_are_bounds(&self) -> bool {
        true
    }
}

/// Returns the number of letters that follow a blank or a mark, eight bytes at a
/// time: not all builds use vectors.
fn word_starts(bytes: &[u8]) -> Tokens {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    // The high bit of each byte that is zero.
    let zeros = |word: u64| !(((word & !HIGH) + !HIGH) | word) & HIGH;
    let is_before = |word: u64| {
        let is_blank_or_mark = zeros((word ^ (ONES * 0x20)) & (ONES * 0xF0));
        let from_7 = (word & (ONES * 0x0F)) + ONES * (0x80 - 7);
        let is_odd = word << 7;
        is_blank_or_mark & !(from_7 & is_odd)
    };
    let is_letter = |word: u64| {
        // Without the high bit, no sum is carried to the next byte.
        let low = (word | (ONES * 0x20)) & !HIGH;
        let from_a = low + ONES * u64::from(0x80 - b'a');
        let above_z = low + ONES * u64::from(0x80 - b'z' - 1);
        from_a & !above_z & !word & HIGH
    };
    // The bytes that are counted in lanes of one byte each.
    const PART: usize = 8 * 255;
    let mut count = 0;
    let mut at = 0;
    while at < bytes.len() {
        let part = &bytes[at..bytes.len().min(at + PART + 1)];
        let mut lanes = 0;
        let mut passed = 0;
        while let Some(pairs) = part.get(passed..).and_then(<[u8]>::first_chunk::<9>) {
            let [befores @ .., _] = *pairs;
            let [_, letters @ ..] = *pairs;
            let starts =
                is_before(u64::from_le_bytes(befores)) & is_letter(u64::from_le_bytes(letters));
            lanes += starts >> 7;
            passed += 8;
        }
        count += lanes.to_le_bytes().map(Tokens::from).iter().sum::<Tokens>();
        let rest = part[passed..].windows(2);
        let starts = |pair: &&[u8]| is_start(pair[0], pair[1]);
        count += rest.filter(starts).count() as Tokens;
        at += PART;
    }
    count
}

/// Returns true if a piece certainly begins with `byte` or with the byte before it, which
/// is one of ``' !"#$%&(*,.'``.
fn is_start(before: u8, byte: u8) -> bool {
    matches!(before, b' '..=b'&' | b'(' | b'*' | b',' | b'.') && byte.is_ascii_alphabetic()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn starts_are_counted_in_words_of_eight_bytes(
            text in "[a-z ('/0-9?@{é\n]{0,40}",
            repeated in 1_usize..200,
        ) {
            let text = text.repeat(repeated);
            let bytes = text.as_bytes();
            let starts = bytes.windows(2).filter(|pair| is_start(pair[0], pair[1]));
            prop_assert_eq!(word_starts(bytes), starts.count() as Tokens);
        }
    }

    #[test]
    fn every_pair_of_bytes_is_judged_alike() {
        for before in 0..=u8::MAX {
            for byte in 0..=u8::MAX {
                let pair = [b'1', b'1', before, byte, b'1', b'1', b'1', b'1', b'1', b'1'];
                let starts =
                    Tokens::from(is_start(before, byte)) + Tokens::from(is_start(b'1', before));
                assert_eq!(word_starts(&pair), starts, "{before} {byte}");
            }
        }
    }
}
