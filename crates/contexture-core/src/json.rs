//! Writes text as a JSON string, and reads it.
//!
//! Requests are mostly text, so this is a large part of reading and rendering.
//! Runs of characters that need no escape are found eight bytes at a time and
//! copied at once.

/// Writes `text` as a JSON string, including the quotation marks. Runs of
/// characters that need no escape are copied at once.
pub fn write(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    loop {
        let at = next_escape(rest.as_bytes());
        out.push_str(&rest[..at]);
        let Some(&byte) = rest.as_bytes().get(at) else {
            break;
        };
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            0x08 => out.push_str("\\b"),
            0x0C => out.push_str("\\f"),
            byte => out.push_str(&format!("\\u{byte:04x}")),
        }
        rest = &rest[at + 1..];
    }
    out.push('"');
}

/// Returns the position of the first byte that JSON escapes, or the length if
/// there is none. Reads eight bytes at a time.
fn next_escape(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let found = escapes(word);
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let is_escaped = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    at + bytes[at..]
        .iter()
        .position(is_escaped)
        .unwrap_or(bytes.len() - at)
}

/// Returns the content of a JSON string, or `None` for another value.
///
/// Code and prose have an escape in most lines. Sixteen bytes are therefore
/// copied at once and searched for one; those after it are overwritten.
pub fn read(json: &str) -> Option<String> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?.as_bytes();
    let mut text = vec![0; inner.len() + WIDE];
    let (mut from, mut to) = (0, 0);
    while from < inner.len() {
        let rest = &inner[from..];
        let plain = match rest.first_chunk::<WIDE>() {
            Some(chunk) => {
                *text[to..].first_chunk_mut()? = *chunk;
                first_escape(chunk)
            }
            None => {
                text[to..to + rest.len()].copy_from_slice(rest);
                let escape = rest.iter().position(|byte| *byte == b'\\');
                escape.unwrap_or(rest.len())
            }
        };
        (from, to) = (from + plain, to + plain);
        if plain == WIDE || from == inner.len() {
            continue;
        }
        let [b'\\', escape, ..] = inner[from..] else {
            return None;
        };
        let character = match escape {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'"' | b'\\' | b'/' => escape,
            b'u' => {
                let Some(character) = inner.get(from + 2..from + 6).and_then(code_point) else {
                    // A pair of code points, or half of one.
                    return serde_json::from_str(json).ok();
                };
                to += character.encode_utf8(&mut text[to..]).len();
                from += 6;
                continue;
            }
            // What hardly occurs.
            _ => return serde_json::from_str(json).ok(),
        };
        text[to] = character;
        (from, to) = (from + 2, to + 1);
    }
    text.truncate(to);
    String::from_utf8(text).ok()
}

/// Returns the character of four hexadecimal digits.
fn code_point(digits: &[u8]) -> Option<char> {
    let mut number = 0;
    for digit in digits {
        number = number * 16 + char::from(*digit).to_digit(16)?;
    }
    char::from_u32(number)
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// Returns a word with the high bit of its first byte below `limit`, and perhaps of
/// later bytes, or zero if it has no such byte.
#[inline(always)]
fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES * u64::from(limit)) & !word & (ONES << 7)
}

/// Returns a word with the high bit of its first byte that equals `byte`, and
/// perhaps of later bytes, or zero if it has no such byte.
#[inline(always)]
pub fn flag(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * u64::from(byte)), 1)
}

/// Returns a word with the high bit of its first byte that JSON escapes, and perhaps of
/// later bytes, or zero if it has no such byte.
#[inline(always)]
pub fn escapes(word: u64) -> u64 {
    below(word, 0x20) | flag(word, b'"') | flag(word, b'\\')
}

/// The bytes that are copied at once.
const WIDE: usize = 16;

/// Returns the position of the first backslash of `chunk`, or [`WIDE`] if there is
/// none.
#[inline(always)]
fn first_escape(chunk: &[u8; WIDE]) -> usize {
    let all = u128::from_le_bytes(*chunk);
    let (low, high) = (flag(all as u64, b'\\'), flag((all >> 64) as u64, b'\\'));
    match (low | high, low) {
        (0, _) => WIDE,
        (_, 0) => 8 + high.trailing_zeros() as usize / 8,
        _ => low.trailing_zeros() as usize / 8,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn characters_to_escape_are_found_at_any_position() {
        for byte in 0..=0x7F_u8 {
            for before in 0..20 {
                let text = format!("{}{}ü", "x".repeat(before), char::from(byte));
                let is_escaped = byte < 0x20 || byte == b'"' || byte == b'\\';
                let expected = if is_escaped { before } else { text.len() };
                assert_eq!(next_escape(text.as_bytes()), expected, "{text:?}");
            }
        }
    }

    #[test]
    fn a_text_is_written_between_quotation_marks() {
        let mut out = String::from("> ");
        write(&mut out, "a\"b\\c\n\u{1}\u{7f}é");
        assert_eq!(out, "> \"a\\\"b\\\\c\\n\\u0001\u{7f}é\"");
    }

    #[test]
    fn texts_are_those_that_a_parser_reads() {
        for json in [
            r#""""#,
            r#""plain""#,
            r#""a\nb\tc\"d\\e\/f\r""#,
            r#""\u00e9\ud83d\ude00 \b\f""#,
            r#""\ud83d alone""#,
            "12",
            "null",
            "{}",
        ] {
            assert_eq!(read(json), serde_json::from_str(json).ok(), "{json}");
        }
    }

    proptest! {
        #[test]
        fn a_text_that_was_written_is_read(written: String) {
            let json = serde_json::to_string(&written).unwrap();
            prop_assert_eq!(read(&json), Some(written));
        }

        #[test]
        fn any_text_is_read_without_a_panic(json in "[\"\\\\{}un1é]{0,40}") {
            read(&json);
        }
    }
}
