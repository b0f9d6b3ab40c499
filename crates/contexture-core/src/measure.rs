use crate::counts::{TokenCounter, Tokens};

/// The token counts of a text, piece by piece.
///
/// A piece is one line, or several where the counter could not tell them apart
/// (see [`TokenCounter::is_seam`]). Sums over pieces are therefore counts, and
/// a cut between two pieces needs no second look at the text.
#[derive(Debug)]
pub(crate) struct Measured {
    pieces: Vec<Piece>,
    tokens: Tokens,
    // False when measuring stopped because the text is larger than any use of
    // it could be; the pieces then cover a prefix.
    complete: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Where the piece ends, in bytes.
    pub(crate) end: usize,
    pub(crate) tokens: Tokens,
}

impl Measured {
    /// Measures `body`, which ends with a line end, until `limit` is exceeded.
    pub(crate) fn new(body: &str, counter: &dyn TokenCounter, limit: Tokens) -> Self {
        let (mut pieces, mut tokens, mut start) = (Vec::new(), 0, 0);
        while start < body.len() {
            let end = next_seam(body, start, counter);
            let counted = counter.count_up_to(&body[start..end], limit - tokens);
            let Some(count) = counted else {
                return Self {
                    pieces,
                    tokens,
                    complete: false,
                };
            };
            pieces.push(Piece { end, tokens: count });
            tokens += count;
            start = end;
        }
        pieces.shrink_to_fit();
        Self {
            pieces,
            tokens,
            complete: true,
        }
    }

    /// Returns true when measuring again with `limit` would tell nothing new.
    pub(crate) fn covers(&self, limit: Tokens) -> bool {
        self.complete || self.tokens >= limit
    }

    /// Returns the count of the whole, when it is known.
    pub(crate) fn total(&self) -> Option<Tokens> {
        self.complete.then_some(self.tokens)
    }

    /// Returns the count of the whole, extrapolated from the measured prefix
    /// when the text was too large to count, and whether it is a count.
    pub(crate) fn total_or_about(&self, body: &str, counter: &dyn TokenCounter) -> (Tokens, bool) {
        if self.complete {
            return (self.tokens, true);
        }
        let (mut bytes, mut tokens) = (self.pieces.last().map_or(0, |p| p.end), self.tokens);
        if bytes == 0 {
            // The first line alone is too long: take a sample of it.
            bytes = body.floor_char_boundary(4096);
            tokens = counter.count(&body[..bytes]);
        }
        let about = tokens as f64 * body.len() as f64 / bytes.max(1) as f64;
        (about.ceil() as Tokens, false)
    }

    /// Returns the pieces measured, from the start of the text.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}

/// Returns the end of the piece that begins at `start`.
pub(crate) fn next_seam(body: &str, start: usize, counter: &dyn TokenCounter) -> usize {
    let mut from = start;
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
    // The line end that closes the piece itself is not a seam before it.
    let mut before = end.saturating_sub(1);
    while let Some(newline) = memchr::memrchr(b'\n', &body.as_bytes()[..before]) {
        let start = newline + 1;
        if counter.is_seam(&body[..start], &body[start..end]) {
            return start;
        }
        before = newline;
    }
    0
}
