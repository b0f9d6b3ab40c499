//! Writes text as a JSON string.
//!
//! Requests are mostly text, so this is a large part of rendering. Runs of
//! characters that need no escape are found eight bytes at a time and copied at
//! once.

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
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // The lowest byte that is flagged is right; those above it may not be.
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGH;
    let is = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let found = below(word, 0x20) | is(word, b'"') | is(word, b'\\');
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

#[cfg(test)]
mod tests {
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
}
