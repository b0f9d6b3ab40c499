//! Shortens an item that does not fit, and leaves a marker in its place.
//!
//! [`Cut`] says which part of the text may be removed. The marker is counted
//! too, so that the shortened block never costs more than the room it was
//! given. A cut never ends where the rest would read as a tag.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unicode_segmentation::GraphemeCursor;

use crate::counts::{Counts, TokenCounter, Tokens};
use crate::item::Item;
use crate::markup::escape_attribute;
use crate::measure::{self, BoundedMeasure, Size};
use crate::report::LinesCut;
use crate::text::Text;

/// An item that a cut would leave with less content than this is dropped.
pub const MIN_USEFUL_TOKENS: Tokens = 32;

/// The part of an item that a cut removes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// The item is kept whole or dropped.
    Never,
    /// The start is removed, for example from logs.
    Start,
    /// The middle is removed, for example from code.
    Middle,
    /// The end is removed, for example from documents.
    #[default]
    End,
}

/// A shortened text, with a marker where lines were removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutText {
    // The text ends with a line end, like the body of a whole text.
    body: Arc<str>,
    /// The tokens of the text and its marker, without tags.
    pub tokens: Tokens,
    /// The lines that were removed.
    pub lines: LinesCut,
    /// Whether only the limit on lines removed content.
    pub by_lines_only: bool,
}

impl CutText {
    /// Returns the text with its marker, without a final line end.
    pub fn as_str(&self) -> &str {
        &self.body[..self.body.len() - 1]
    }

    pub(crate) fn body(&self) -> &str {
        &self.body
    }
}

/// The lines that `max_lines` leaves: everything up to `head`, and everything
/// from `tail` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    head: usize,
    tail: usize,
}

/// Returns true if the item's `max_lines` removes lines.
pub(crate) fn is_line_limited(item: &Item, text: &Text) -> bool {
    bounds(item, text.body()).is_some()
}

fn bounds(item: &Item, body: &str) -> Option<Bounds> {
    let max = item.max_lines? as usize;
    let starts: Vec<usize> = std::iter::once(0)
        .chain(memchr::memchr_iter(b'\n', body.as_bytes()).map(|at| at + 1))
        .collect();
    let lines = starts.len() - 1;
    if lines <= max {
        return None;
    }
    let (head, tail) = match item.cut {
        Cut::Start => (0, max),
        Cut::Middle => (max - max / 2, max / 2),
        // A limit on lines also applies to an item that is never cut by tokens.
        Cut::End | Cut::Never => (max, 0),
    };
    Some(Bounds {
        head: starts[head],
        tail: starts[lines - tail],
    })
}

/// Shortens the item's text so that the block costs at most `room` tokens,
/// tags and marker included.
///
/// Returns `None` when less than `least` tokens of it would be left, which are
/// not worth showing. With `Cut::Never`, only `max_lines` shortens it.
pub(crate) fn cut(
    item: &Item,
    text: &Text,
    measured: BoundedMeasure<'_>,
    counts: &Counts,
    room: Tokens,
    least: Tokens,
) -> Option<CutText> {
    let body = text.body();
    let limited = bounds(item, body);
    let whole = Bounds {
        head: body.len(),
        tail: body.len(),
    };
    let cutter = Cutter {
        item,
        body,
        measured,
        counter: counts.counter(),
        bounds: limited.unwrap_or(match item.cut {
            Cut::Start => Bounds { head: 0, tail: 0 },
            Cut::Middle => Bounds {
                head: body.len(),
                tail: 0,
            },
            Cut::End | Cut::Never => whole,
        }),
    };
    let mut limit = room.checked_sub(counts.wrapper(item, body))?;
    // The marker's numbers depend on the cut, and the cut on the marker's
    // length: choose, count, and tighten if it came out too long.
    for _ in 0..8 {
        let (mut cut, kept) = cutter.within(limit)?;
        let total = cut.tokens + counts.wrapper(item, cut.body());
        if total <= room {
            cut.by_lines_only = limited.is_some_and(|b| cutter.shows_all_of(b, &cut));
            let may_be_cut = item.cut != Cut::Never && kept >= least;
            let enough = may_be_cut || cut.by_lines_only;
            return enough.then_some(cut);
        }
        limit = limit.min(cut.tokens).checked_sub(total - room)?;
    }
    None
}

struct Cutter<'a> {
    item: &'a Item,
    body: &'a str,
    measured: BoundedMeasure<'a>,
    counter: &'a dyn TokenCounter,
    bounds: Bounds,
}

/// A kept part of the body and its count.
#[derive(Debug, Clone, Copy)]
struct Part {
    start: usize,
    end: usize,
    tokens: Tokens,
}

impl Cutter<'_> {
    /// Returns a cut whose text and marker count about `limit` tokens at most,
    /// and how many of them are content.
    fn within(&self, limit: Tokens) -> Option<(CutText, Tokens)> {
        let everything = LinesCut {
            first: self.item.first_line,
            last: self.line_at(self.body.len()),
            partial: false,
        };
        let Size {
            tokens: total,
            exact,
        } = self.measured.size(self.body);
        let widest = self.counter.count(&self.marker(everything, total, exact));
        let inner = limit.checked_sub(widest)?;

        let head_room = if self.item.cut == Cut::Middle {
            inner / 2
        } else {
            inner
        };
        let head = self.head(head_room);
        let tail = self.tail(inner - head.tokens, head.end);
        let kept = head.tokens + tail.tokens;
        if kept == 0 || head.end >= tail.start {
            return None;
        }

        let lines = self.lines_between(head.end, tail.start);
        let marker = self.marker(lines, total.saturating_sub(kept).max(1), exact);
        let mut body =
            String::with_capacity(head.end + marker.len() + self.body.len() - tail.start);
        body.push_str(&self.body[..head.end]);
        if !body.is_empty() && !body.ends_with('\n') {
            body.push('\n');
        }
        let marker_start = body.len();
        body.push_str(&marker);
        body.push_str(&self.body[tail.start..]);
        let tokens = head.tokens + self.marker_and_tail(&body[marker_start..], &marker, tail);
        let cut = CutText {
            body: body.into(),
            tokens,
            lines,
            by_lines_only: false,
        };
        Some((cut, kept))
    }

    /// Counts the marker and the tail after it, which may share a token.
    fn marker_and_tail(&self, joined: &str, marker: &str, tail: Part) -> Tokens {
        let kept = &self.body[tail.start..];
        if kept.is_empty() || self.counter.is_seam(marker, kept) {
            return self.counter.count(marker) + tail.tokens;
        }
        let first = measure::next_seam(kept, 0, self.counter);
        let first_tokens = self.counter.count(&kept[..first]);
        self.counter.count(&joined[..marker.len() + first])
            + tail.tokens.saturating_sub(first_tokens)
    }

    /// Returns the longest start of the text that counts at most `room`.
    fn head(&self, room: Tokens) -> Part {
        let max = self.bounds.head;
        let (mut end, mut tokens) = (0, 0);
        for piece in self.measured.pieces() {
            if tokens + piece.tokens > room || piece.end > max {
                break;
            }
            end = piece.end;
            tokens += piece.tokens;
        }
        // A piece may hold several lines, some of which still fit; and a first
        // line that is too long by itself is cut inside.
        if end < max {
            let piece = measure::next_seam(self.body, end, self.counter).min(max);
            let nothing_yet = self.body[..end].trim_start().is_empty();
            let (more, count) = self.prefix(&self.body[end..piece], room - tokens, nothing_yet);
            end += more;
            tokens += count;
        }
        Part {
            start: 0,
            end,
            tokens,
        }
    }

    /// Returns the length and count of a prefix of `text` that counts at most
    /// `room` with a line end after it: whole lines, or with `inside` a part of
    /// the first.
    fn prefix(&self, text: &str, room: Tokens, inside: bool) -> (usize, Tokens) {
        let mut limit = room;
        while limit > 0 {
            let fits = self.counter.prefix_within(text, limit);
            // Blank lines before a line that is too long do not count as
            // content.
            let whole = memchr::memrchr(b'\n', &text.as_bytes()[..fits]).map_or(0, |at| at + 1);
            let end = match inside && text[..whole].trim_start().is_empty() {
                true => grapheme_floor(text, fits),
                false => whole,
            };
            if end == 0 {
                return (0, 0);
            }
            let tokens = if text[..end].ends_with('\n') {
                self.counter.count(&text[..end])
            } else {
                self.counter.count(&format!("{}\n", &text[..end]))
            };
            if tokens <= room {
                return (end, tokens);
            }
            limit = limit.saturating_sub(tokens - room);
        }
        (0, 0)
    }

    /// Returns the longest end of the text, not reaching before `from`, that
    /// counts at most `room`.
    fn tail(&self, room: Tokens, from: usize) -> Part {
        let min = self.bounds.tail.max(from);
        let len = self.body.len();
        let (mut start, mut tokens) = (len, 0);
        if self.bounds.tail < len {
            for (piece_start, piece_tokens) in self.pieces_from_end(room) {
                if tokens + piece_tokens > room || piece_start < min {
                    break;
                }
                start = piece_start;
                tokens += piece_tokens;
            }
            if start > min {
                let piece = measure::previous_seam(self.body, start, self.counter).max(min);
                let nothing_yet = self.body[start..].trim_end().is_empty();
                let more = self.suffix(&self.body[piece..start], room - tokens, nothing_yet);
                start -= more.0;
                tokens += more.1;
            }
        }
        Part {
            start,
            end: len,
            tokens,
        }
    }

    /// Returns the length and count of a suffix of `text` that counts at most
    /// `room`: whole lines, or with `inside` a part of the last.
    fn suffix(&self, text: &str, room: Tokens, inside: bool) -> (usize, Tokens) {
        if room == 0 {
            return (0, 0);
        }
        let fits = self.counter.suffix_within(text, room);
        let start = if fits == 0 {
            0
        } else {
            let whole = memchr::memchr(b'\n', &text.as_bytes()[fits - 1..])
                .map_or(text.len(), |newline| fits + newline);
            // Blank lines after it do not count as content either.
            match inside && text[whole..].trim_end().is_empty() {
                true => grapheme_ceil(text, fits),
                false => whole,
            }
        };
        // A line end alone is not content.
        if text[start..].trim_end().is_empty() {
            return (0, 0);
        }
        match self.counter.count_up_to(&text[start..], room) {
            Some(tokens) => (text.len() - start, tokens),
            None => (0, 0),
        }
    }

    /// Yields start and count of each piece, the last first, without measuring
    /// more than `room` of them.
    fn pieces_from_end(&self, room: Tokens) -> Box<dyn Iterator<Item = (usize, Tokens)> + '_> {
        if self.measured.is_complete() {
            let pieces = self.measured.pieces();
            return Box::new((0..pieces.len()).rev().map(move |i| {
                let start = if i == 0 { 0 } else { pieces[i - 1].end };
                (start, pieces[i].tokens)
            }));
        }
        let mut end = self.body.len();
        Box::new(std::iter::from_fn(move || {
            if end == 0 {
                return None;
            }
            let start = measure::previous_seam(self.body, end, self.counter);
            let tokens = self.counter.count_up_to(&self.body[start..end], room)?;
            end = start;
            Some((start, tokens))
        }))
    }

    fn shows_all_of(&self, bounds: Bounds, cut: &CutText) -> bool {
        cut.lines == self.lines_between(bounds.head, bounds.tail)
    }

    /// Returns the number of the line that holds the byte before `at`.
    fn line_at(&self, at: usize) -> u32 {
        let newlines = memchr::memchr_iter(b'\n', &self.body.as_bytes()[..at]).count();
        let ends_line = self.body[..at].ends_with('\n');
        let line = newlines + usize::from(!ends_line);
        self.item
            .first_line
            .saturating_add(u32::try_from(line.saturating_sub(1)).unwrap_or(u32::MAX))
    }

    fn lines_between(&self, from: usize, to: usize) -> LinesCut {
        let starts_line = from == 0 || self.body[..from].ends_with('\n');
        let ends_line = to == self.body.len() || self.body[..to].ends_with('\n');
        LinesCut {
            first: match (from, starts_line) {
                (0, _) => self.item.first_line,
                (_, true) => self.line_at(from) + 1,
                (_, false) => self.line_at(from),
            },
            last: self.line_at(to),
            partial: !(starts_line && ends_line),
        }
    }

    /// Returns the marker that replaces the removed lines, as a line.
    fn marker(&self, lines: LinesCut, tokens: Tokens, exact: bool) -> String {
        let name = self.item.path.as_deref().unwrap_or(&self.item.id);
        let name = escape_attribute(name);
        let what = match self.item.original {
            // The lines that are left have other numbers than those of the whole.
            Some(_) => format!("more of {name}"),
            None => format!("{lines} of {name}"),
        };
        cut_marker(&what, tokens, exact, self.item.handle.as_deref())
    }
}

/// Returns the marker that replaces removed content, as a line: `what` it was,
/// its number of tokens, and the handle by which the whole can be fetched.
pub fn cut_marker(what: &str, tokens: Tokens, exact: bool, handle: Option<&str>) -> String {
    let about = if exact { "" } else { "about " };
    let plural = if tokens == 1 { "" } else { "s" };
    let tokens = grouped(tokens);
    match handle {
        None => format!("[... {what} cut, {about}{tokens} token{plural} ...]\n"),
        Some(handle) => format!(
            "[... {what} cut, {about}{tokens} token{plural}; fetch {handle} for the rest ...]\n"
        ),
    }
}

/// Writes a number with commas between thousands.
pub fn grouped(number: Tokens) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn is_grapheme_boundary(text: &str, at: usize) -> bool {
    GraphemeCursor::new(at, text.len(), true)
        .is_boundary(text, 0)
        .unwrap_or(true)
}

/// Returns the last grapheme boundary of `text` at or before `at`.
fn grapheme_floor(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    if is_grapheme_boundary(text, at) {
        return at;
    }
    GraphemeCursor::new(at, text.len(), true)
        .prev_boundary(text, 0)
        .ok()
        .flatten()
        .unwrap_or(0)
}

/// Returns the first grapheme boundary of `text` at or after `at`.
fn grapheme_ceil(text: &str, at: usize) -> usize {
    let at = text.ceil_char_boundary(at);
    if is_grapheme_boundary(text, at) {
        return at;
    }
    GraphemeCursor::new(at, text.len(), true)
        .next_boundary(text, 0)
        .ok()
        .flatten()
        .unwrap_or(text.len())
}
