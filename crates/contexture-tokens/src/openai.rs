//! [`OpenAi`]: exact counters for OpenAI's public vocabularies.
//!
//! Two tokenizer crates share the work: a fast one, and one that is linear on
//! any input. Their results are identical, which tests check on generated
//! text.

use std::sync::OnceLock;

use contexture_core::{TokenCounter, Tokens};

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

/// Counts tokens exactly as OpenAI's models do. Special tokens in the text are
/// plain text.
///
/// Text is counted chunk by chunk, split where the encoding's own pattern
/// always splits (see [`TokenCounter::is_seam`] and `word_end`), so that the
/// sum is the count of the whole. The fast counter takes more than linear time
/// on a single piece of thousands of bytes, such as a run of blanks; a chunk
/// that holds one has no place to split, is therefore long, and goes to a
/// counter that is linear on any input.
#[derive(Debug, Clone, Copy)]
pub struct OpenAi {
    encoding: Encoding,
}

/// The size at which a chunk is ended at the next opportunity.
const CHUNK: usize = 4 * 1024;

/// A chunk that is longer than this holds a piece that is too long for the
/// fast counter.
const LONG_CHUNK: usize = 2 * CHUNK;

impl OpenAi {
    /// Returns the counter for `encoding`. Nothing is loaded before the first
    /// count.
    pub fn new(encoding: Encoding) -> Self {
        Self { encoding }
    }

    fn fast(&self) -> &'static Fast {
        // Looking the encoding up by name costs as much as counting a word.
        static O200K: OnceLock<Fast> = OnceLock::new();
        static CL100K: OnceLock<Fast> = OnceLock::new();
        let loaded = match self.encoding {
            Encoding::O200k => &O200K,
            Encoding::Cl100k => &CL100K,
        };
        loaded.get_or_init(|| Fast::load(self.encoding))
    }

    fn linear(&self) -> &'static bpe_openai::Tokenizer {
        match self.encoding {
            Encoding::O200k => bpe_openai::o200k_base(),
            Encoding::Cl100k => bpe_openai::cl100k_base(),
        }
    }

    fn count_chunk(&self, chunk: &str) -> Tokens {
        if chunk.len() > LONG_CHUNK {
            self.linear().count(chunk) as Tokens
        } else {
            self.fast().count(chunk)
        }
    }
}

/// The longest run of blanks or line ends that is counted by table.
const LONGEST_RUN: usize = 64;

/// The fast counter, relieved of what it is slow at.
///
/// It takes the white space that begins a line through a regex, which is an
/// eighth of its time on code. What such a run costs is looked up here instead:
/// all but the last of the blanks before a word are a piece of their own, and
/// so are the line ends behind a letter or a digit.
struct Fast {
    bpe: &'static tiktoken::CoreBpe,
    blanks: [Tokens; LONGEST_RUN],
    line_ends: [Tokens; LONGEST_RUN],
}

impl Fast {
    fn load(encoding: Encoding) -> Self {
        let bpe = tiktoken::get_encoding(encoding.name())
            .expect("both vocabularies are compiled in by the crate's features");
        let runs_of =
            |unit: &str| std::array::from_fn(|length| bpe.count(&unit.repeat(length)) as Tokens);
        Self {
            bpe,
            blanks: runs_of(" "),
            line_ends: runs_of("\n"),
        }
    }

    fn count(&self, text: &str) -> Tokens {
        let bytes = text.as_bytes();
        let run = |from: usize, byte: u8| {
            let rest = &bytes[from..];
            rest.iter().take_while(|&&b| b == byte).count()
        };
        let (mut tokens, mut start) = (0, 0);
        for newline in memchr::memchr_iter(b'\n', bytes) {
            if newline < start {
                continue;
            }
            let ends = run(newline, b'\n');
            let blanks = run(newline + ends, b' ');
            let word = newline + ends + blanks;
            let begins_word = match bytes.get(word) {
                Some(byte) => byte.is_ascii_graphic(),
                None => blanks == 0,
            };
            if !begins_word || ends >= LONGEST_RUN || blanks > LONGEST_RUN {
                continue;
            }
            let behind_word = newline > start && bytes[newline - 1].is_ascii_alphanumeric();
            if behind_word {
                tokens += self.piecewise(&text[start..newline]) + self.line_ends[ends];
            } else if blanks > 1 {
                tokens += self.piecewise(&text[start..newline + ends]);
            } else {
                continue;
            }
            // The last blank belongs to the word.
            start = word - blanks.min(1);
            tokens += self.blanks[blanks.saturating_sub(1)];
        }
        tokens + self.piecewise(&text[start..])
    }

    fn piecewise(&self, text: &str) -> Tokens {
        self.bpe.count(text) as Tokens
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
        if text.len() <= CHUNK {
            return self.count_chunk(text);
        }
        chunks(text).map(|chunk| self.count_chunk(chunk)).sum()
    }

    fn count_up_to(&self, text: &str, limit: Tokens) -> Option<Tokens> {
        if text.len() <= CHUNK {
            return Some(self.count_chunk(text)).filter(|&tokens| tokens <= limit);
        }
        let mut tokens = 0;
        for chunk in chunks(text) {
            if chunk.len() > LONG_CHUNK {
                let left = usize::try_from(limit - tokens).unwrap_or(usize::MAX);
                let linear = self.linear();
                tokens += linear.count_till_limit(&linear.normalize(chunk), left)? as Tokens;
            } else {
                tokens += self.count_chunk(chunk);
            }
            if tokens > limit {
                return None;
            }
        }
        Some(tokens)
    }

    fn longest_token(&self) -> Option<u64> {
        // Runs of 128 blanks are the longest tokens of both vocabularies.
        Some(128)
    }

    /// Both patterns end a piece at a line end unless white space with another
    /// line end in it follows, or, in o200k, a slash behind punctuation.
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

/// Splits `text` where both patterns always end a piece.
fn chunks(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        let (chunk, rest) = text.split_at(word_end(text, CHUNK));
        text = rest;
        Some(chunk)
    })
}

/// Returns the first place at or behind `from` where an ASCII word ends: a
/// letter stands before it and something that is neither a letter nor an
/// apostrophe, nor perhaps a combining mark, behind it.
///
/// No piece of either pattern goes on behind a letter with anything else than
/// letters, marks, and an apostrophe that begins a contraction.
fn word_end(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes();
    if from >= bytes.len() {
        return bytes.len();
    }
    (from.max(1)..bytes.len())
        .find(|&at| {
            bytes[at - 1].is_ascii_alphabetic()
                && bytes[at].is_ascii()
                && !bytes[at].is_ascii_alphabetic()
                && bytes[at] != b'\''
        })
        .unwrap_or(bytes.len())
}
