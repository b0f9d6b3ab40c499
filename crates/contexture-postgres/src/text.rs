//! Text as PostgreSQL can store it.
//!
//! PostgreSQL rejects the character U+0000 in text. It is written as U+001A and
//! `0`, and U+001A itself as U+001A and `1`. Different texts remain different.

use std::borrow::Cow;

/// The escape character.
const MARK: u8 = 0x1A;

/// Returns the text in the form that is stored.
pub(crate) fn encode(text: &str) -> Cow<'_, str> {
    if memchr::memchr2(0, MARK, text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace('\u{1A}', "\u{1A}1").replace('\0', "\u{1A}0"))
}

/// Returns the text of its stored form; `None` when the stored form is the text
/// itself.
pub(crate) fn decode(stored: &[u8]) -> Option<Vec<u8>> {
    memchr::memchr(MARK, stored)?;
    let mut text = Vec::with_capacity(stored.len());
    let mut bytes = stored.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            MARK => match bytes.next() {
                Some(b'0') => text.push(0),
                Some(b'1') | None => text.push(MARK),
                Some(&other) => text.extend([MARK, other]),
            },
            byte => text.push(byte),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_read_back_unchanged() {
        for text in ["", "a", "\0", "\u{1A}", "\u{1A}0", "\0\u{1A}1\0\0", "ü\0🦀"] {
            let stored = encode(text);
            assert!(!stored.contains('\0'), "{text:?}");
            let read = decode(stored.as_bytes()).unwrap_or(stored.as_bytes().to_vec());
            assert_eq!(read, text.as_bytes(), "{text:?}");
        }
        assert!(matches!(encode("plain"), Cow::Borrowed(_)));
    }
}
