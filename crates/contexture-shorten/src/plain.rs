//! Keeps the start and the end of a text.

use contexture_core::LinesCut;
use unicode_segmentation::GraphemeCursor;

use crate::lines::Lines;
use crate::pick::{Plan, Step};
use crate::{Kind, Shortened, Task};

/// Returns the plan for a text of unknown kind: its start and its end, in equal
/// parts.
pub(crate) fn plan(lines: &Lines<'_>) -> Plan {
    let mut plan = Plan::new(lines.len());
    plan.share(50, Step::Head);
    plan.step(100, Step::Tail);
    plan.step(100, Step::Head);
    plan
}

/// Keeps the start and the end of a text, independent of its lines: for a text
/// that is one long line.
pub(crate) fn inside(task: &Task<'_>) -> Shortened {
    let text = task.text;
    let last = u32::try_from(memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1);
    let last = last.unwrap_or(u32::MAX);
    let line_of = |at: usize| {
        let before = memchr::memchr_iter(b'\n', &text.as_bytes()[..at]).count() + 1;
        u32::try_from(before).unwrap_or(u32::MAX)
    };
    let widest = task.marker(&format!("part of lines {last}-{last}"), text.len());
    let mut room = task
        .limit
        .saturating_sub(task.counter.count(&widest).saturating_add(2));
    while room > 0 {
        let head = task.counter.prefix_within(text, room / 2);
        let head = grapheme_floor(text, head);
        let tail = task.counter.suffix_within(&text[head..], room / 2) + head;
        let tail = grapheme_ceil(text, tail);
        let lines = LinesCut {
            first: line_of(head),
            last: line_of(tail),
            partial: true,
        };
        let marker = task.marker(&lines.to_string(), tail - head);
        let shown = format!("{}\n{marker}{}", &text[..head], &text[tail..]);
        let shortened = task.shortened(shown, lines, Kind::Plain);
        if shortened.tokens <= task.limit {
            return shortened;
        }
        room = room.saturating_sub((shortened.tokens - task.limit).max(room / 16).max(1));
    }
    // Not even a marker fits.
    let mut limit = task.limit;
    loop {
        let head = grapheme_floor(text, task.counter.prefix_within(text, limit));
        let lines = LinesCut {
            first: line_of(head),
            last,
            partial: true,
        };
        let shortened = task.shortened(text[..head].to_owned(), lines, Kind::Plain);
        if shortened.tokens <= task.limit || limit == 0 {
            return shortened;
        }
        limit -= 1;
    }
}

fn is_boundary(text: &str, at: usize) -> bool {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    cursor.is_boundary(text, 0).unwrap_or(true)
}

/// Returns the last boundary between graphemes at or before `at`.
pub(crate) fn grapheme_floor(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    if is_boundary(text, at) {
        return at;
    }
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    cursor.prev_boundary(text, 0).ok().flatten().unwrap_or(0)
}

/// Returns the first boundary between graphemes at or after `at`.
pub(crate) fn grapheme_ceil(text: &str, at: usize) -> usize {
    let at = text.ceil_char_boundary(at);
    if is_boundary(text, at) {
        return at;
    }
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    let next = cursor.next_boundary(text, 0).ok().flatten();
    next.unwrap_or(text.len())
}
