//! Writes texts as JSON strings.
//!
//! The bytes are those of `serde_json`. That crate compares one byte at a time;
//! here, eight bytes are compared at once.

/// Writes a text as a JSON string.
pub(crate) fn write(text: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut rest = text.as_bytes();
    out.push(b'"');
    loop {
        let (plain, others) = rest.split_at(plain_bytes(rest));
        out.extend_from_slice(plain);
        let Some((byte, after)) = others.split_first() else {
            break;
        };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x8 => out.extend_from_slice(b"\\b"),
            0xc => out.extend_from_slice(b"\\f"),
            control => {
                out.extend_from_slice(b"\\u00");
                out.extend([control >> 4, control & 15].map(|at| DIGITS[usize::from(at)]));
            }
        }
        rest = after;
    }
    out.push(b'"');
}

/// Returns the number of bytes before the first that is escaped.
fn plain_bytes(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    // Sets the highest bit of bytes below `limit`. A byte after the first one
    // may be wrong.
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGH;
    let (words, _) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
        let found = below(word, 0x20) | is(b'"') | is(b'\\');
        if found != 0 {
            return 8 * at + found.trailing_zeros() as usize / 8;
        }
    }
    let is_escaped = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    let tail = 8 * words.len();
    let rest = &bytes[tail..];
    tail + rest.iter().position(is_escaped).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_written_as_serde_writes_it() {
        let all: String = (0..0x300_u32).filter_map(char::from_u32).collect();
        // Every character at every place of a word.
        for length in 0..9 {
            for one in all.chars() {
                let text =
                    "é".repeat(length / 2) + &"x".repeat(length) + &one.to_string() + "yyyyyyyy\"";
                let mut out = Vec::new();
                write(&text, &mut out);
                assert_eq!(out, serde_json::to_vec(&text).unwrap(), "{text:?}");
            }
        }
        let mut out = Vec::new();
        write(&all, &mut out);
        assert_eq!(out, serde_json::to_vec(&all).unwrap());
    }
}
