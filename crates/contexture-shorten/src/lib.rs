//! Shortens one tool result, and keeps the part that matters for its kind.
//!
//! | Kind | What is kept first |
//! |---|---|
//! | [`Kind::Log`] | failures, warnings, results and the lines around them; then the start and the end |
//! | [`Kind::Json`] | the shape: keys, scalars, the first elements of each array, the number of the others |
//! | [`Kind::Diff`] | the headers of files and hunks; then hunks of each file in turn |
//! | [`Kind::Code`] | an outline: imports, types, signatures, the first line of each comment |
//! | [`Kind::Plain`] | the start and the end |
//!
//! Each cut leaves a marker with the line numbers and a handle by which the
//! whole can be fetched. The first marker of a text also has the approximate
//! number of tokens of the lines; the others have the first digits of the
//! handle.
//!
//! ```
//! use contexture_shorten::{Hint, shorten};
//! use contexture_tokens::{Encoding, OpenAi};
//!
//! let mut log: Vec<String> = (0..2_000).map(|i| format!("INFO request {i} took 3 ms")).collect();
//! log[900] = "ERROR pool exhausted in src/pool.rs:41".to_owned();
//! let counter = OpenAi::new(Encoding::O200k);
//! let hint = Hint { tool: "shell", ..Hint::default() };
//! let short = shorten(&log.join("\n"), &hint, 400, &counter, Some("sha256:1a2b3c4d5e6f")).unwrap();
//! assert!(short.tokens <= 400);
//! assert!(short.text.contains("\nERROR pool exhausted in src/pool.rs:41\n"));
//! assert!(short.text.contains("fetch sha256:1a2b3c4d5e6f for the rest"));
//! ```
//!
//! [`part`] returns content that a cut removed: lines, matches, or a part of
//! JSON.
//!
//! The result depends only on the arguments. It never has more tokens than the
//! limit, and takes time in proportion to the size of the text.
//!
//! # Grammars
//!
//! The feature `outline`, on by default, links tree-sitter and six grammars.
//! The table has the size of each static library and the CPU time of a debug
//! build on one core of the machine that they were measured on.
//!
//! | Grammar | Bytes | Seconds |
//! |---|---|---|
//! | runtime | 370 k | 3 |
//! | Rust | 1,156 k | 1.3 |
//! | TypeScript and JavaScript (the `tsx` grammar reads all four) | 1,480 k | 2.8 |
//! | C | 649 k | 1.1 |
//! | Python | 529 k | 1.1 |
//! | Java | 448 k | 0.8 |
//! | Go | 242 k | 0.9 |
//!
//! Two grammars were left out: `typescript` (1,470 k) and `javascript` (452 k)
//! add nothing to an outline that `tsx` does not show.

mod code;
pub mod cues;
mod diff;
mod hint;
mod jq;
mod json;
mod kind;
mod lines;
mod log;
#[cfg(feature = "outline")]
mod outline;
mod part;
mod pick;
mod plain;

use contexture_core::{LinesCut, TokenCounter, Tokens};

pub use hint::Hint;
pub use kind::Kind;
pub use part::{Part, PartError, Selection, part, query};

use lines::Lines;
use pick::{Picker, Plan};

/// A tool result that was shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortened {
    /// The shown text, with its markers. It has no final line end.
    pub text: String,
    /// The tokens of the shown text.
    pub tokens: Tokens,
    /// The approximate tokens of the whole result.
    pub original_tokens: Tokens,
    /// The first and the last line from which something was removed. Some lines
    /// between them may be shown.
    pub lines: LinesCut,
    /// The kind that decided which part was kept.
    pub kind: Kind,
}

/// Shortens `text`, a tool result, to at most `limit` tokens. Returns `None`
/// when the whole is within the limit.
///
/// `handle` names the whole in the markers, if it can be fetched. A limit that is too small for a
/// marker leaves the start of the text without one.
pub fn shorten(
    text: &str,
    hint: &Hint<'_>,
    limit: Tokens,
    counter: &dyn TokenCounter,
    handle: Option<&str>,
) -> Option<Shortened> {
    if counter.count_up_to(text, limit).is_some() {
        return None;
    }
    let task = Task {
        text,
        hint,
        limit,
        counter,
        handle,
        rate: Rate::of(text, counter),
    };
    let kind = Kind::of(text, hint);
    let shortened = match kind {
        Kind::Json => json::shorten(&task),
        _ => task.by_lines(kind),
    };
    let shortened = shortened.or_else(|| task.by_lines(Kind::Plain));
    Some(shortened.unwrap_or_else(|| plain::inside(&task)))
}

/// Everything that a cut depends on.
struct Task<'a> {
    text: &'a str,
    hint: &'a Hint<'a>,
    limit: Tokens,
    counter: &'a dyn TokenCounter,
    handle: Option<&'a str>,
    rate: Rate,
}

/// The maximum number of times that lines are chosen again because the sum of
/// their counts differs from the count of the result.
const MOST_TRIES: usize = 6;

/// The number of digits of a handle that was shown in full before.
const SHORT_HANDLE: usize = 8;

/// The number of bytes of a long line that are shown, at first.
const LEAST_CLIP: usize = 600;

impl Task<'_> {
    /// Keeps whole lines, chosen by kind. Returns `None` if hardly anything can
    /// be kept that way.
    fn by_lines(&self, kind: Kind) -> Option<Shortened> {
        let lines = Lines::of(self.text)?;
        let plan = match kind {
            Kind::Log => log::plan(&lines),
            Kind::Diff => diff::plan(&lines),
            Kind::Code => code::plan(&lines, self.hint)?,
            Kind::Plain | Kind::Json => plain::plan(&lines),
        };
        let mut best: Option<Shortened> = None;
        let mut clip = LEAST_CLIP;
        // If long lines make up most of the text, more of each is shown.
        let most = usize::try_from(self.limit).ok()?.saturating_mul(3);
        loop {
            if let Some(made) = self.with_clip(kind, &lines, &plan, clip)
                && best.as_ref().is_none_or(|best| made.tokens > best.tokens)
            {
                best = Some(made);
            }
            let used = best.as_ref().map_or(0, |best| best.tokens);
            clip *= 4;
            if !lines.has_long() || used > self.limit / 2 || clip > most {
                break;
            }
        }
        // If hardly anything fits that way, a part of a line is more useful.
        best.filter(|best| best.tokens >= self.limit / 4 || !lines.has_long())
    }

    /// Keeps whole lines, and `clip` bytes of each long one.
    fn with_clip(
        &self,
        kind: Kind,
        lines: &Lines<'_>,
        plan: &Plan,
        clip: usize,
    ) -> Option<Shortened> {
        let mut picker = Picker::new(self, lines, clip)?;
        let mut best: Option<Shortened> = None;
        for _ in 0..MOST_TRIES {
            picker.choose(plan);
            let shortened = picker.render(plan, kind);
            let tokens = shortened.tokens;
            let is_better = |best: &Shortened| tokens > best.tokens;
            if tokens <= self.limit && best.as_ref().is_none_or(is_better) {
                best = Some(shortened);
            }
            if !picker.adjust(tokens) {
                break;
            }
        }
        best
    }

    /// Returns the marker of a cut.
    fn marker(&self, what: &str, bytes: usize) -> String {
        let tokens = self.rate.tokens(bytes).max(1);
        contexture_core::cut_marker(what, tokens, false, self.handle)
    }

    /// Returns the marker of a cut that is not the first of its text: it names
    /// the handle by its first digits.
    fn short_marker(&self, what: &str) -> String {
        let Some(handle) = self.handle else {
            return format!("[... {what} cut ...]\n");
        };
        let (digits, rest) = match handle.strip_prefix("sha256:") {
            Some(digits) => {
                let end = digits.find(' ').unwrap_or(digits.len());
                (&digits[..end.min(SHORT_HANDLE)], &digits[end..])
            }
            None => (handle, ""),
        };
        format!("[... {what} cut; fetch {digits}{rest} ...]\n")
    }

    fn shortened(&self, text: String, lines: LinesCut, kind: Kind) -> Shortened {
        Shortened {
            tokens: self.counter.count(&text),
            text,
            original_tokens: self.rate.tokens(self.text.len()).max(self.limit + 1),
            lines,
            kind,
        }
    }
}

/// Tokens by bytes, from samples of a text: the whole is not counted.
#[derive(Debug, Clone, Copy)]
struct Rate {
    tokens: Tokens,
    bytes: usize,
}

/// The number of samples of a text, and the length of each.
const SAMPLES: usize = 16;
const SAMPLE_BYTES: usize = 2048;

impl Rate {
    fn of(text: &str, counter: &dyn TokenCounter) -> Self {
        if text.len() <= SAMPLES * SAMPLE_BYTES {
            return Self {
                tokens: counter.count(text),
                bytes: text.len().max(1),
            };
        }
        let step = text.len() / SAMPLES;
        let (mut tokens, mut bytes) = (0, 0);
        for i in 0..SAMPLES {
            let start = text.floor_char_boundary(i * step);
            let end = text.floor_char_boundary(start + SAMPLE_BYTES);
            tokens += counter.count(&text[start..end]);
            bytes += end - start;
        }
        Self {
            tokens,
            bytes: bytes.max(1),
        }
    }

    /// Returns the approximate number of tokens of `bytes` bytes.
    fn tokens(self, bytes: usize) -> Tokens {
        let exact = u128::from(self.tokens) * bytes as u128 / self.bytes as u128;
        Tokens::try_from(exact).unwrap_or(Tokens::MAX)
    }
}
