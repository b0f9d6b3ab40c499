//! Views of a text in which a rule can match: escapes or base64 decoded, colours removed, the
//! prefixes of lines removed. Each view knows where its bytes come from.

use std::ops::Range;

use super::{Crossing, base64, prefix};

/// A stretch of a view: as many bytes as in the original, one escape, or a block of base64.
struct Stretch {
    view: usize,
    original: Range<usize>,
}

/// A text made from another one, and where its bytes come from.
#[derive(Default)]
pub(super) struct View {
    pub(super) text: String,
    stretches: Vec<Stretch>,
}

impl View {
    fn clear(&mut self) {
        self.text.clear();
        self.stretches.clear();
    }

    /// Adds `text[range]` as it is.
    fn copy(&mut self, text: &str, range: Range<usize>) {
        if !range.is_empty() {
            self.add(&text[range.clone()], range);
        }
    }

    /// Adds `shown` in place of the bytes at `original`.
    fn add(&mut self, shown: &str, original: Range<usize>) {
        self.stretches.push(Stretch {
            view: self.text.len(),
            original,
        });
        self.text.push_str(shown);
    }

    /// Returns the range of the original that `range` comes from.
    pub(super) fn original(&self, range: &Range<usize>) -> Range<usize> {
        let at = |place: usize| {
            let after = self.stretches.partition_point(|one| one.view <= place);
            let index = after.saturating_sub(1);
            let next = self.stretches.get(after).map(|one| one.view);
            (&self.stretches[index], next.unwrap_or(self.text.len()))
        };
        let (first, next) = at(range.start);
        let start = match next - first.view == first.original.len() {
            true => first.original.start + range.start - first.view,
            false => first.original.start,
        };
        let (last, next) = at(range.end - 1);
        let end = match next - last.view == last.original.len() {
            true => last.original.start + range.end - last.view,
            false => last.original.end,
        };
        start..end
    }
}

/// Literals with less text than this hold no key with its value.
const LITERAL_MIN: usize = 16;

/// Calls `each` with the decoded text of every literal that has escapes, as in JSON.
///
/// A literal begins at a quotation mark and ends at the next one, or with its line.
pub(super) fn literals(text: &str, mut each: impl FnMut(&View)) {
    let bytes = text.as_bytes();
    let mut view = View::default();
    // Nothing before this is part of a literal that is still to be read.
    let mut floor = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[floor..]) {
        let escape = floor + found;
        let known = matches!(
            bytes.get(escape + 1),
            Some(b'n' | b't' | b'r' | b'"' | b'\\' | b'u' | b'/')
        );
        let open = match known {
            true => memchr::memrchr2(b'"', b'\n', &bytes[floor..escape]),
            false => None,
        };
        let Some(open) = open.filter(|open| bytes[floor + open] == b'"') else {
            floor = (escape + 2).min(bytes.len());
            continue;
        };
        let start = floor + open + 1;
        let mut end = escape;
        while let Some(found) = bytes
            .get(end..)
            .and_then(|rest| memchr::memchr3(b'"', b'\\', b'\n', rest))
        {
            end += found;
            match bytes[end] {
                b'\\' if bytes.get(end + 1).is_some_and(|byte| *byte != b'\n') => end += 2,
                b'\\' => end += 1,
                _ => break,
            }
        }
        // Without an end the literal is the rest of the text.
        if !matches!(bytes.get(end), Some(b'"' | b'\n')) {
            end = bytes.len();
        }
        if end - start >= LITERAL_MIN {
            view.clear();
            decode(text, start..end, &mut view);
            each(&view);
        }
        floor = (end + 1).min(bytes.len());
    }
}

/// Adds `text[range]` to `view` with its escapes decoded.
fn decode(text: &str, range: Range<usize>, view: &mut View) {
    let bytes = &text.as_bytes()[..range.end];
    let (mut copied, mut at) = (range.start, range.start);
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        let escape = at + found;
        let mut letter = [0; 4];
        let (shown, length): (&str, usize) = match bytes.get(escape + 1) {
            Some(b'n') => ("\n", 2),
            Some(b'r') => ("\r", 2),
            Some(b't') => ("\t", 2),
            Some(b'"') => ("\"", 2),
            Some(b'/') => ("/", 2),
            Some(b'\\') => ("\\", 2),
            Some(b'u') => {
                let code = text
                    .get(escape + 2..escape + 6)
                    .filter(|_| escape + 6 <= range.end)
                    .and_then(|digits| u32::from_str_radix(digits, 16).ok())
                    .and_then(char::from_u32);
                match code {
                    Some(code) => (&*code.encode_utf8(&mut letter), 6),
                    None => ("", 0),
                }
            }
            _ => ("", 0),
        };
        if length == 0 {
            // Not an escape of JSON: the backslash is kept, and what follows it is read.
            at = (escape + 1).min(bytes.len());
            continue;
        }
        view.copy(text, copied..escape);
        view.add(shown, escape..escape + length);
        copied = escape + length;
        at = copied;
    }
    view.copy(text, copied..range.end);
}

/// The shortest block of base64 that is decoded: 24 bytes, such as `DB_PASSWORD=tr0ub4dor-9x`.
const ENCODED_MIN: usize = 32;

/// Calls `each` with the text of every block of base64 that encodes text, such as a whole `.env`.
pub(super) fn encoded(text: &str, mut each: impl FnMut(&View)) {
    // Every block of the shortest length has a whole window. Few windows of other text have no
    // blank or sign at any of these places, so most bytes are not read.
    const WINDOW: usize = ENCODED_MIN / 2;
    const PLACES: [usize; 4] = [5, 10, 0, WINDOW - 1];
    let bytes = text.as_bytes();
    let mut view = View::default();
    // Nothing before this is part of a block that is still to be read.
    let mut floor = 0;
    let mut at = 0;
    while let Some(window) = bytes.get(at..at + WINDOW) {
        if !PLACES.iter().all(|place| base64::is_digit(window[*place])) {
            at += WINDOW;
            continue;
        }
        let before = bytes[floor..at + WINDOW].iter().rev();
        let length = before.take_while(|byte| base64::is_digit(**byte)).count();
        let start = at + WINDOW - length;
        let end = base64::block_end(bytes, start);
        if end - start >= ENCODED_MIN
            && let Some(plain) = base64::decode(&bytes[start..end])
        {
            view.clear();
            view.add(&plain, start..end);
            each(&view);
        }
        (floor, at) = (end, end);
    }
}

/// Returns `text` without the colour codes of terminals, or `None` if it has none.
pub(super) fn uncoloured(text: &str) -> Option<View> {
    let bytes = text.as_bytes();
    memchr::memchr(0x1b, bytes)?;
    let mut view = View::default();
    let mut copied = 0;
    for escape in memchr::memchr_iter(0x1b, bytes) {
        if escape < copied || bytes.get(escape + 1) != Some(&b'[') {
            continue;
        }
        let is_parameter = |byte: &&u8| byte.is_ascii_digit() || b";?".contains(byte);
        let length = bytes[escape + 2..]
            .iter()
            .take(32)
            .take_while(is_parameter)
            .count();
        let end = escape + 2 + length;
        if bytes.get(end).is_some_and(u8::is_ascii_alphabetic) {
            view.copy(text, copied..escape);
            copied = end + 1;
        }
    }
    if copied == 0 {
        return None;
    }
    view.copy(text, copied..text.len());
    Some(view)
}

/// Calls `each` with the lines around each of `crossings` without their prefixes, where lines in
/// a row have a prefix of one kind: numbers, names of files, times, signs of a diff.
pub(super) fn unprefixed(text: &str, crossings: Vec<Crossing>, mut each: impl FnMut(&View)) {
    let bytes = text.as_bytes();
    let mut view = View::default();
    let mut done = 0;
    for crossing in crossings {
        if crossing.at < done {
            continue;
        }
        let start =
            memchr::memrchr(b'\n', &bytes[done..crossing.at]).map_or(done, |at| done + at + 1);
        let line = Line::at(bytes, start);
        let Some(kind) = line.kind(bytes) else {
            continue;
        };
        view.clear();
        // Private keys are read backwards too, when only their last line was seen.
        let mut lines = Vec::new();
        let mut first = start;
        for _ in 0..crossing.lines {
            let Some(end) = first.checked_sub(1).filter(|end| *end > done) else {
                break;
            };
            let begin = memchr::memrchr(b'\n', &bytes[done..end]).map_or(done, |at| done + at + 1);
            let line = Line::at(bytes, begin);
            if line.end != end || line.length(bytes, kind).is_none() {
                break;
            }
            lines.push(line);
            first = begin;
        }
        lines.reverse();
        let mut next = start;
        for _ in 0..=crossing.lines {
            let line = Line::at(bytes, next);
            if next >= bytes.len() || line.length(bytes, kind).is_none() {
                break;
            }
            next = line.end + 1;
            lines.push(line);
        }
        if lines.len() < 2 {
            continue;
        }
        for line in &lines {
            let length = line.length(bytes, kind).unwrap_or(0);
            let end = (line.end + 1).min(bytes.len());
            view.copy(text, line.start + length..end);
            done = end;
        }
        each(&view);
    }
}

/// A line of a text, without its line end.
struct Line {
    start: usize,
    end: usize,
}

impl Line {
    fn at(bytes: &[u8], start: usize) -> Line {
        let start = start.min(bytes.len());
        let end = memchr::memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |at| start + at);
        Line { start, end }
    }

    fn kind(&self, bytes: &[u8]) -> Option<prefix::Kind> {
        prefix::of(&bytes[self.start..self.end]).map(|(kind, _)| kind)
    }

    /// Returns the length of the prefix of `kind`. Lines of a diff may begin with a blank.
    fn length(&self, bytes: &[u8], kind: prefix::Kind) -> Option<usize> {
        let line = &bytes[self.start..self.end];
        if kind == prefix::Kind::Sign {
            let is_sign = matches!(line.first(), Some(b'+' | b'-' | b' '));
            return is_sign.then_some(1).or(line.is_empty().then_some(0));
        }
        prefix::of(line)
            .filter(|(found, _)| *found == kind)
            .map(|(_, length)| length)
    }
}
