//! A value that is written in several pieces: literals that are joined, lines
//! that continue.

use super::Secret;

/// The maximum number of pieces of one value.
const MOST: usize = 32;
/// The maximum bytes of all pieces together.
const LONGEST: usize = 2048;
/// The widest gap between two pieces: an operator, a line end and an indentation.
const GAP: usize = 120;

/// A value joined from pieces, and the end of its last piece.
pub(super) struct Joined {
    pub(super) value: String,
    pub(super) end: usize,
}

/// Returns the start of the text of the next literal, after one that ended with
/// the quotation mark at `close`, and its quotation mark.
///
/// Literals are joined by `+`, `.`, `..`, `&`, `++`, `<>` or `\`, or only by a
/// line end.
pub(super) fn next_literal(bytes: &[u8], close: usize, escaped: bool) -> Option<(usize, u8)> {
    let mut pos = close + 1;
    let stop = pos + GAP;
    let (mut lines, mut operator) = (0, 0);
    while pos < stop {
        match *bytes.get(pos)? {
            b' ' | b'\t' | b'\r' => {}
            b'\n' => lines += 1,
            b'+' | b'.' | b'&' if operator < 2 => operator += 1,
            b'\\' if matches!(bytes.get(pos + 1), Some(b'\n' | b'\r')) => operator += 1,
            b'<' if bytes.get(pos + 1) == Some(&b'>') => {
                operator += 1;
                pos += 1;
            }
            byte => {
                if lines > 3 || (lines == 0 && operator == 0) {
                    return None;
                }
                let prefixed = b"brfuBRFU@".contains(&byte);
                let at = pos + usize::from(prefixed);
                let at = match escaped && bytes.get(at) == Some(&b'\\') {
                    true => at + 1,
                    false => at,
                };
                let quote = *bytes.get(at)?;
                // An empty literal, or one of three quotation marks, begins something else.
                return (matches!(quote, b'"' | b'\'' | b'`') && bytes.get(at + 1) != Some(&quote))
                    .then_some((at + 1, quote));
            }
        }
        pos += 1;
    }
    None
}

/// Returns the end of the literal that begins at `start`; `None` when its line ends first.
fn literal_end(bytes: &[u8], start: usize, quote: u8) -> Option<usize> {
    let mut end = start;
    while end - start <= LONGEST {
        match *bytes.get(end)? {
            b'\n' => return None,
            byte if byte == quote => return Some(end),
            b'\\' if bytes.get(end + 1) == Some(&quote) => return Some(end),
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    None
}

/// Joins a literal with those that follow it; `None` when there are none.
pub(super) fn literals(text: &str, start: usize, end: usize, escaped: bool) -> Option<Joined> {
    let bytes = text.as_bytes();
    let first = text.get(start..end)?;
    // Most literals are in one piece.
    let close = end + usize::from(escaped && bytes.get(end) == Some(&b'\\'));
    if next_literal(bytes, close, escaped).is_none() && !first.contains('\n') {
        return None;
    }
    let mut value = unfolded(first);
    let mut last = end;
    for _ in 0..MOST {
        let close = last + usize::from(escaped && bytes.get(last) == Some(&b'\\'));
        let Some((next, quote)) = next_literal(bytes, close, escaped) else {
            break;
        };
        let Some(stop) = literal_end(bytes, next, quote) else {
            break;
        };
        value.push_str(text.get(next..stop)?);
        last = stop;
        if value.len() > LONGEST {
            return None;
        }
    }
    (last > end || value.len() < end - start).then_some(Joined { value, end: last })
}

/// Returns a literal without the line ends that a backslash hides in it.
fn unfolded(literal: &str) -> String {
    if !literal.contains('\n') {
        return literal.to_owned();
    }
    let mut value = String::with_capacity(literal.len());
    for (index, line) in literal.split('\n').enumerate() {
        let line = line.trim_end_matches('\r');
        let line = line.strip_suffix('\\').unwrap_or(line);
        value.push_str(match index {
            0 => line,
            _ => line.trim_start(),
        });
    }
    value
}

/// Joins a bare value that a backslash at `end` continues on the next line.
pub(super) fn continued(text: &str, start: usize, end: usize) -> Option<Joined> {
    let bytes = text.as_bytes();
    if bytes.get(end) != Some(&b'\\') {
        return None;
    }
    let mut value = text.get(start..end)?.to_owned();
    let mut last = end;
    for _ in 0..MOST {
        if bytes.get(last) != Some(&b'\\') {
            break;
        }
        let mut next = last + 1;
        next += usize::from(bytes.get(next) == Some(&b'\r'));
        if bytes.get(next) != Some(&b'\n') {
            break;
        }
        next += 1;
        let line = next;
        while next - line < 40 && matches!(bytes.get(next), Some(b' ' | b'\t')) {
            next += 1;
        }
        let length = bytes[next..]
            .iter()
            .take(LONGEST)
            .position(|byte| *byte <= b' ' || b"\"'`\\<>;,".contains(byte))
            .unwrap_or_else(|| LONGEST.min(bytes.len() - next));
        let piece = text.get(next..next + length)?;
        // A flag on the next line is another word of the command.
        if piece.is_empty() || piece.starts_with('-') || piece.contains('=') && next > line {
            break;
        }
        value.push_str(piece);
        last = next + length;
        if value.len() > LONGEST {
            return None;
        }
    }
    (last > end).then_some(Joined { value, end: last })
}

/// Joins the lines of a YAML block, which begin deeper than `indent`. `at` is its first line.
///
/// Only lines of one word each are a value; lines with blanks are prose.
pub(super) fn block(text: &str, at: usize, indent: usize) -> Option<(usize, Joined)> {
    let bytes = text.as_bytes();
    let mut value = String::new();
    let (mut start, mut last, mut line) = (None, at, at);
    for _ in 0..MOST {
        let mut pos = line;
        while pos - line < 64 && bytes.get(pos) == Some(&b' ') {
            pos += 1;
        }
        let rest = bytes.get(pos..)?;
        let length = rest
            .iter()
            .take(LONGEST)
            .position(|byte| *byte == b'\n')
            .unwrap_or_else(|| LONGEST.min(rest.len()));
        let word = text.get(pos..pos + length)?.trim_end();
        if word.is_empty() || pos - line <= indent {
            break;
        }
        if word.contains([' ', '\t']) {
            return None;
        }
        value.push_str(word);
        start = start.or(Some(pos));
        last = pos + word.len();
        if value.len() > LONGEST {
            return None;
        }
        line = pos + length + 1;
        if line >= bytes.len() {
            break;
        }
    }
    Some((start?, Joined { value, end: last }))
}

/// Returns a token together with the literals that it is joined to: a token
/// that was split to shorten lines is one token.
pub(super) fn extended(bytes: &[u8], mut secret: Secret) -> Secret {
    for _ in 0..MOST {
        let close = secret.range.end;
        if !matches!(bytes.get(close), Some(b'"' | b'\'' | b'`')) {
            break;
        }
        let Some((next, quote)) = next_literal(bytes, close, false) else {
            break;
        };
        let Some(stop) = literal_end(bytes, next, quote) else {
            break;
        };
        let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_+/=.~".contains(byte);
        let piece = &bytes[next..stop];
        if piece.len() < 4 || !piece.iter().all(is_token) || !super::value::is_mixed(piece) {
            break;
        }
        secret.range.end = stop;
    }
    secret
}
