//! Token counts of a text, piece by piece.
//!
//! Counting stops when the budget could use no more of the text. The result is
//! then a lower bound, and reports say "about".

use std::sync::OnceLock;

use smallvec::SmallVec;

use crate::counts::{TokenCounter, Tokens};

/// The token counts of a text, piece by piece.
///
/// A piece is a few lines, ending where the counter always splits text (see
/// [`TokenCounter::is_seam`]). Sums over pieces are therefore exact, and a cut
/// must count at most one piece again.
#[derive(Debug)]
pub(crate) struct Measured {
    // Most texts are one piece, and then need no allocation for it.
    pieces: SmallVec<[Piece; 1]>,
    tokens: Tokens,
    // The limit of the measurement. Measuring stops there because a larger text
    // cannot be used anyway.
    limit: Tokens,
    // False if measuring stopped at the limit; the pieces then cover a prefix.
    complete: bool,
    // Whether only the total is known, from an earlier count.
    total_only: bool,
    // The tokens of the first `SAMPLE` bytes, if the first piece is longer than
    // that. It is the only known count if not even the first piece is within
    // the limit.
    sample: Option<Tokens>,
    // The tokens of the text with a blank line after it, once they were needed.
    spaced: OnceLock<Tokens>,
}

/// Bytes per token, in tenths, by file name extension. Nine of ten files of a
/// kind have more, so an estimate is rarely too low. Measured with `o200k_base`
/// on crates, Python packages and headers.
const TENTHS_OF_BYTES: [(&str, u64); 14] = [
    ("rs", 32),
    ("js", 34),
    ("mjs", 34),
    ("ts", 34),
    ("tsx", 34),
    ("jsx", 34),
    ("md", 31),
    ("rst", 35),
    ("json", 29),
    ("c", 28),
    ("lock", 26),
    ("csv", 20),
    ("svg", 21),
    ("txt", 23),
];

/// The same value for all other files.
const USUAL_TENTHS: u64 = 30;

/// File name extensions of binary formats.
const BINARY_ENDS: [&str; 36] = [
    "png", "jpg", "jpeg", "gif", "webp", "ico", "bmp", "tiff", "pdf", "zip", "gz", "tgz", "xz",
    "bz2", "zst", "7z", "tar", "jar", "whl", "exe", "dll", "so", "dylib", "a", "o", "wasm", "woff",
    "woff2", "ttf", "otf", "eot", "mp3", "mp4", "mov", "sqlite", "db",
];

fn end_of(path: &str) -> Option<String> {
    let (_, end) = path.rsplit_once('.')?;
    Some(end.to_ascii_lowercase())
}

/// Returns the estimated tokens of a file that is not worth reading.
pub(crate) fn likely_tokens(path: &str, bytes: u64) -> Tokens {
    let end = end_of(path);
    let known = |(of, _): &&(&str, u64)| end.as_deref() == Some(of);
    let tenths = TENTHS_OF_BYTES.iter().find(known);
    let tenths = tenths.map_or(USUAL_TENTHS, |(_, tenths)| *tenths);
    bytes.saturating_mul(10).div_ceil(tenths)
}

/// Returns true if the extension of a file's name is one of a binary format.
pub(crate) fn is_binary_name(path: &str) -> bool {
    end_of(path).is_some_and(|end| BINARY_ENDS.contains(&&*end))
}

/// The number of bytes counted to estimate the size of a line that is too long
/// to count.
const SAMPLE: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The end of the piece, in bytes.
    pub(crate) end: usize,
    pub(crate) tokens: Tokens,
}

impl Measured {
    /// Measures `body`, which ends with a line end, until `limit` is exceeded.
    pub(crate) fn new(body: &str, counter: &dyn TokenCounter, limit: Tokens) -> Self {
        let mut pieces = SmallVec::with_capacity(body.len().min(1 << 20) / LEAST_PIECE + 1);
        let (mut tokens, mut start) = (0, 0);
        let mut sample = None;
        while start < body.len() {
            let end = next_seam(body, start, counter);
            let counted = counter.count_up_to(&body[start..end], limit - tokens);
            let Some(count) = counted else {
                if pieces.is_empty() {
                    sample = sample_of(body, end, counter);
                }
                return Self {
                    sample,
                    pieces,
                    tokens,
                    limit,
                    complete: false,
                    total_only: false,
                    spaced: OnceLock::new(),
                };
            };
            if pieces.is_empty() {
                sample = sample_of(body, end, counter);
            }
            pieces.push(Piece { end, tokens: count });
            tokens += count;
            start = end;
        }
        Self {
            pieces,
            tokens,
            limit,
            complete: true,
            total_only: false,
            sample,
            spaced: OnceLock::new(),
        }
    }

    /// Returns the measurement of a text of `bytes` bytes of which only the
    /// total is known.
    pub(crate) fn known(bytes: usize, tokens: Tokens) -> Self {
        Self {
            pieces: SmallVec::from_elem(Piece { end: bytes, tokens }, 1),
            tokens,
            limit: tokens,
            complete: true,
            total_only: true,
            sample: None,
            spaced: OnceLock::new(),
        }
    }

    /// Returns the approximate size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.pieces.len() * size_of::<Piece>()
    }

    /// Returns the tokens of the text with a blank line after it. `count` is
    /// called once.
    pub(crate) fn spaced(&self, count: impl FnOnce() -> Tokens) -> Tokens {
        *self.spaced.get_or_init(count)
    }

    /// Returns the tokens of the whole text, unless measuring stopped at the
    /// limit.
    pub(crate) fn total(&self) -> Option<Tokens> {
        self.complete.then_some(self.tokens)
    }

    /// Returns false if only the total is known.
    pub(crate) fn has_pieces(&self) -> bool {
        !self.total_only
    }

    /// Returns true if measuring again with `limit` would add no information.
    pub(crate) fn covers(&self, limit: Tokens) -> bool {
        // A total alone only shows whether the text is within a limit.
        match self.total_only {
            true => self.tokens <= limit,
            false => self.complete || self.limit >= limit,
        }
    }

    /// Returns the measurement restricted to `limit`.
    ///
    /// Counts beyond it, made for some other use, must not be visible: a result
    /// may not depend on the contents of the cache.
    pub(crate) fn within(&self, limit: Tokens) -> BoundedMeasure<'_> {
        if self.tokens <= limit {
            return BoundedMeasure {
                pieces: &self.pieces,
                tokens: self.tokens,
                limit,
                complete: self.complete,
                sample: self.sample.filter(|_| self.pieces.is_empty()),
            };
        }
        let mut tokens = 0;
        let fitting = self
            .pieces
            .iter()
            .take_while(|piece| {
                tokens += piece.tokens;
                tokens <= limit
            })
            .count();
        BoundedMeasure {
            pieces: &self.pieces[..fitting],
            tokens: self.pieces[..fitting]
                .iter()
                .map(|piece| piece.tokens)
                .sum(),
            limit,
            complete: false,
            sample: self.sample.filter(|_| fitting == 0),
        }
    }
}

/// Returns the count of the first bytes of a text whose first piece is long.
fn sample_of(body: &str, end: usize, counter: &dyn TokenCounter) -> Option<Tokens> {
    let sample = || counter.count(&body[..body.floor_char_boundary(SAMPLE)]);
    (end > SAMPLE).then(sample)
}

/// A measurement up to a limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoundedMeasure<'m> {
    pieces: &'m [Piece],
    tokens: Tokens,
    limit: Tokens,
    complete: bool,
    sample: Option<Tokens>,
}

/// A token count, or an estimate if an exact count would cost too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) tokens: Tokens,
    pub(crate) exact: bool,
}

impl Size {
    pub(crate) const ZERO: Self = Self {
        tokens: 0,
        exact: true,
    };

    pub(crate) fn add(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.exact &= other.exact;
    }
}

impl BoundedMeasure<'_> {
    /// Returns true when the whole text is within the limit.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns the size of the whole text, extrapolated if it exceeds the
    /// limit.
    pub(crate) fn size(&self, body: &str) -> Size {
        if self.complete {
            return Size {
                tokens: self.tokens,
                exact: true,
            };
        }
        // A short prefix is not representative; four bytes per token is
        // typical.
        let (bytes, tokens) = match (self.pieces.last(), self.sample) {
            (_, Some(tokens)) => (SAMPLE, tokens),
            (Some(piece), _) if piece.end >= 1024 => (piece.end, self.tokens),
            _ => (4, 1),
        };
        let about = tokens as f64 * body.len() as f64 / bytes as f64;
        Size {
            tokens: (about.ceil() as Tokens).max(self.limit.saturating_add(1)),
            exact: false,
        }
    }

    /// Returns the pieces from the start of the text.
    pub(crate) fn pieces(&self) -> &[Piece] {
        self.pieces
    }
}

/// Pieces are at least this long: counting line by line costs more than the
/// lines themselves.
const LEAST_PIECE: usize = 512;

/// Returns the end of the piece that begins at `start`.
pub(crate) fn next_seam(body: &str, start: usize, counter: &dyn TokenCounter) -> usize {
    let mut from = (start + LEAST_PIECE).min(body.len());
    while let Some(newline) = memchr::memchr(b'\n', &body.as_bytes()[from..]) {
        let end = from + newline + 1;
        if end == body.len() || counter.is_seam(&body[start..end], &body[end..]) {
            return end;
        }
        from = end;
    }
    body.len()
}

/// Returns the start of the piece that ends at `end`.
pub(crate) fn previous_seam(body: &str, end: usize, counter: &dyn TokenCounter) -> usize {
    let mut before = end.saturating_sub(LEAST_PIECE);
    while let Some(newline) = memchr::memrchr(b'\n', &body.as_bytes()[..before]) {
        let start = newline + 1;
        if counter.is_seam(&body[..start], &body[start..end]) {
            return start;
        }
        before = newline;
    }
    0
}
