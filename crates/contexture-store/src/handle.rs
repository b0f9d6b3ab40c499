//! [`Handle`]: the name of a tool result, an image or a document, by its content.

use std::fmt;

use contexture_core::message::Block;
use sha2::{Digest, Sha256};

/// The prefix of every handle.
const PREFIX: &str = "sha256:";

/// The number of digits of a handle in a request.
const SHOWN_DIGITS: usize = 12;

/// The smallest number of digits that a prefix needs.
const LEAST_DIGITS: usize = 8;

/// The size in bytes from which a tool result can be fetched by its handle.
pub const LEAST_FETCHABLE_BYTES: usize = 256;

/// The SHA-256 hash of the text of a tool result, by which it can be fetched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle([u8; 32]);

impl Handle {
    /// Returns the handle of a text.
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Returns the handle with these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the handle as bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the handle as a request shows it: `sha256:` and 12 digits.
    pub fn short(&self) -> String {
        self.to_string()[..PREFIX.len() + SHOWN_DIGITS].to_owned()
    }
}

/// Returns the text of a block that can be fetched by its handle: a tool result,
/// or the base64 of an image, a recording or a document. Short ones need no
/// handle.
pub fn fetchable(block: &Block) -> Option<&str> {
    let text = match block {
        Block::ToolResult { content, .. } => content,
        Block::Image { data, .. } | Block::Audio { data, .. } | Block::Document { data, .. } => {
            data.as_ref()?
        }
        _ => return None,
    };
    Some(text.as_str()).filter(|text| text.len() >= LEAST_FETCHABLE_BYTES)
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The first digits of a handle, or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlePrefix {
    // From 8 to 64 hexadecimal digits, in lower case.
    digits: String,
}

impl HandlePrefix {
    /// Reads the first digits of a handle, with `sha256:` before them or
    /// without. Returns `None` unless there are from 8 to 64.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = text.strip_prefix(PREFIX).unwrap_or(text);
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_hex && (LEAST_DIGITS..=64).contains(&digits.len())).then(|| Self {
            digits: digits.to_ascii_lowercase(),
        })
    }

    /// Returns the first and the last handle that begin with these digits.
    pub fn range(&self) -> (Handle, Handle) {
        (self.filled('0'), self.filled('f'))
    }

    fn filled(&self, digit: char) -> Handle {
        let rest = 64 - self.digits.len();
        let digits = self.digits.bytes();
        let digits: Vec<u8> = digits
            .chain(std::iter::repeat_n(digit as u8, rest))
            .map(|digit| match digit {
                b'0'..=b'9' => digit - b'0',
                _ => digit - b'a' + 10,
            })
            .collect();
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Handle(bytes)
    }
}

impl From<Handle> for HandlePrefix {
    fn from(handle: Handle) -> Self {
        Self {
            digits: handle.to_string()[PREFIX.len()..].to_owned(),
        }
    }
}

impl fmt::Display for HandlePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.digits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_the_hash_of_the_text() {
        let handle = Handle::of("abc");
        let all = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(handle.to_string(), all);
        assert_eq!(handle.short(), "sha256:ba7816bf8f01");
    }

    #[test]
    fn a_prefix_covers_the_handles_that_begin_with_it() {
        let handle = Handle::of("abc");
        for prefix in ["ba7816bf", "sha256:BA7816BF8", " sha256:ba7816bf8f01 "] {
            let (first, last) = HandlePrefix::parse(prefix).unwrap().range();
            assert!(first <= handle && handle <= last, "{prefix}");
        }
        let (first, last) = HandlePrefix::from(handle).range();
        assert_eq!((first, last), (handle, handle));
        for wrong in [
            "",
            "ba7816b",
            "sha256:",
            "ba7816bg0",
            &"a".repeat(65),
            "äöüäöüäöü",
        ] {
            assert_eq!(HandlePrefix::parse(wrong), None, "{wrong}");
        }
    }
}
