//! Marks: the digits that distinguish Contexture's boundary tags from content.
//!
//! Every tag that Contexture writes carries a mark of nine digits
//! (`<context-482913220 path="a.rs">`). Content is sent byte for byte, so it may
//! hold any tag, but not one with the mark: the mark is derived from a key that
//! content does not know, and a mark that does appear in content is replaced by
//! the next one of the same key (see [`MarkKey::marks`]). The same key gives the
//! same marks, so that a request keeps its bytes from turn to turn and the
//! provider's prompt cache holds.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The number of digits of a mark.
const DIGITS: usize = 9;

/// A secret from which the marks of one root or tenant are derived.
#[derive(Clone, PartialEq, Eq)]
pub struct MarkKey([u8; 32]);

impl MarkKey {
    /// Returns the key that is these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the key derived from `text`, such as a passphrase. Anyone who
    /// knows the text can compute the marks.
    pub fn from_text(text: &str) -> Self {
        Self(blake3::derive_key(
            "contexture boundary marks 2026 text",
            text.as_bytes(),
        ))
    }

    /// Returns a derived key for one name, such as the path of a root. Marks of
    /// one such key reveal nothing about those of another.
    pub fn for_name(&self, name: &str) -> Self {
        Self(*blake3::keyed_hash(&self.0, name.as_bytes()).as_bytes())
    }

    /// Returns the marks of the key: the first is used unless content holds it,
    /// and so on. The sequence does not end.
    pub fn marks(&self) -> impl Iterator<Item = Mark> {
        (0u32..).map(|number| {
            let mut hasher = blake3::Hasher::new_keyed(&self.0);
            hasher.update(b"mark");
            hasher.update(&number.to_le_bytes());
            let mut first = [0; 8];
            hasher.finalize_xof().fill(&mut first);
            let number = u64::from_le_bytes(first) % 10u64.pow(DIGITS as u32);
            Mark::of(number)
        })
    }
}

impl fmt::Debug for MarkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MarkKey(..)")
    }
}

/// Nine digits that a boundary tag carries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mark([u8; DIGITS]);

impl Mark {
    /// A placeholder for a mark if only its length matters.
    pub const ANY: Self = Self([b'0'; DIGITS]);

    fn of(mut number: u64) -> Self {
        let mut digits = [b'0'; DIGITS];
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        Self(digits)
    }

    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Reads nine digits.
    pub fn from_digits(text: &str) -> Option<Self> {
        let digits: [u8; DIGITS] = text.as_bytes().try_into().ok()?;
        digits
            .iter()
            .all(u8::is_ascii_digit)
            .then_some(Self(digits))
    }

    /// Returns true when the digits appear anywhere in `text`.
    pub fn is_in(&self, text: &str) -> bool {
        memchr::memmem::find(text.as_bytes(), &self.0).is_some()
    }
}

impl Default for Mark {
    fn default() -> Self {
        Self::ANY
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Mark {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Mark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        Self::from_digits(&digits).ok_or_else(|| {
            serde::de::Error::custom(format!("`{digits}` is not a mark of nine digits"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_depend_on_the_key_alone() {
        let key = MarkKey::from_text("one");
        let marks: Vec<Mark> = key.marks().take(3).collect();
        assert_eq!(marks, key.clone().marks().take(3).collect::<Vec<_>>());
        assert_ne!(marks[0], marks[1]);
        let other = key.for_name("/home/ana/project").marks().next();
        assert_ne!(other, Some(marks[0]));
    }

    #[test]
    fn a_mark_is_read_back_from_its_digits() {
        let mark = Mark::of(42);
        assert_eq!(mark.as_str(), "000000042");
        assert_eq!(Mark::from_digits("000000042"), Some(mark));
        assert_eq!(Mark::from_digits("42"), None);
        assert_eq!(Mark::from_digits("00000004x"), None);
    }
}
