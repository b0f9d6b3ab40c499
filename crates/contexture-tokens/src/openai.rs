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

/// The bytes whose pieces are counted in one byte.
const LANE: usize = 240;

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

    /// Both patterns begin a piece with a letter that follows one of the
    /// characters below, or with that character.
    ///
    /// An apostrophe is not among them, because it can be inside of a word. A
    /// line end is not either, so that the lines of an encoded text do not count.
    fn lower_bound(&self, text: &str) -> Tokens {
        let begins = |before: u8, byte: u8| {
            let is_blank = (before == b'\t') | (before.wrapping_sub(b' ') <= b'&' - b' ');
            let is_mark = (before == b'(') | (before == b'.') | (before == b':');
            let is_letter = (byte | 0x20).wrapping_sub(b'a') < 26;
            u8::from((is_blank | is_mark) & is_letter)
        };
        let bytes = text.as_bytes();
        let befores = bytes.chunks(LANE);
        let afters = bytes.get(1..).unwrap_or_default().chunks(LANE);
        let in_chunk = |(befores, afters): (&[u8], &[u8])| {
            let pairs = befores.iter().zip(afters);
            let starts: u8 = pairs.map(|(before, byte)| begins(*before, *byte)).sum();
            Tokens::from(starts)
        };
        befores.zip(afters).map(in_chunk).sum()
    }

    /// A letter of an escape follows a backslash, a digit or another letter, which are
    /// not among the characters. The last character of an escape is among them only
    /// if the escape is a quote, which stands for itself.
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
