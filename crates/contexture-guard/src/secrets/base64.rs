//! Base64: where a block of it ends, and the text that it encodes.

use super::blocks::skip;

/// Returns true for a byte of base64, except padding.
pub(super) fn is_digit(byte: u8) -> bool {
    const DIGITS: [bool; 256] = {
        let mut digits = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            digits[byte] =
                (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'+' | b'/');
            byte += 1;
        }
        digits
    };
    DIGITS[usize::from(byte)]
}

/// Returns the end of the block of base64 that begins at `start`.
///
/// Wrapped lines continue while they are as long as the first; the last may be shorter.
pub(super) fn block_end(bytes: &[u8], start: usize) -> usize {
    let run = |from: usize| {
        let digits = bytes[from..].iter().take_while(|byte| is_digit(**byte));
        let length = digits.count();
        skip(bytes, from + length, 2, b"=") - from
    };
    let width = run(start);
    let mut end = start + width;
    let mut goes_on = width >= 48;
    while goes_on {
        let next = skip(bytes, end, 80, b" \t\r\n\\");
        if next == end || !bytes[end..next].contains(&b'\n') {
            break;
        }
        let length = run(next);
        let closed = bytes
            .get(next + length)
            .is_none_or(|byte| matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'\\'));
        if length == 0 || length > width || !closed {
            break;
        }
        end = next + length;
        goes_on = length == width;
    }
    end
}

/// Decodes base64 to text. Returns `None` for anything else, usually after a few bytes.
pub(super) fn decode(encoded: &[u8]) -> Option<String> {
    let mut plain = Vec::new();
    let (mut bits, mut held) = (0_u32, 0_u32);
    for byte in encoded {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b' ' | b'\t' | b'\r' | b'\n' | b'\\' => continue,
            _ => break,
        };
        held = (held << 6 | u32::from(six)) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            let byte = (held >> bits & 0xff) as u8;
            if byte.is_ascii_control() && !matches!(byte, b'\t' | b'\r' | b'\n') {
                return None;
            }
            plain.push(byte);
        }
    }
    String::from_utf8(plain).ok()
}
