//! The ids of turns.
//!
//! An id is a hash over the content of a turn and the id of its parent, as in
//! Git. It therefore identifies the whole conversation up to the turn, and a
//! damaged turn is detected when it is read.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The id of a turn: the first half of a BLAKE3 hash of its content and of its
/// parent's id.
///
/// Two turns with the same id are therefore the same turn with the same
/// ancestors, on any machine. A changed ancestor changes the id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnId([u8; 16]);

impl TurnId {
    /// Returns the id of a turn whose canonical form is `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_hash(&blake3::hash(bytes))
    }

    /// Returns the id of a turn whose canonical form has these parts.
    pub(crate) fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(part);
        }
        Self::from_hash(&hasher.finalize())
    }

    fn from_hash(hash: &blake3::Hash) -> Self {
        let mut id = [0; 16];
        id.copy_from_slice(&hash.as_bytes()[..16]);
        Self(id)
    }

    /// Returns the id with these bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the id as bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Returns the first eight digits, for people.
    pub fn short(&self) -> String {
        self.to_string()[..8].to_owned()
    }
}

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let mut text = String::with_capacity(32);
        text.extend(digits.map(|digit| char::from(DIGITS[usize::from(digit)])));
        f.write_str(&text)
    }
}

impl fmt::Debug for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for a text that is not the id of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAnId;

impl fmt::Display for NotAnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a turn's id is 32 hexadecimal digits")
    }
}

impl std::error::Error for NotAnId {}

impl FromStr for TurnId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NotAnId);
        }
        let mut id = [0; 16];
        for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| NotAnId)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| NotAnId)?;
        }
        Ok(Self(id))
    }
}

impl Serialize for TurnId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TurnId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| {
            serde::de::Error::custom(format!("`{text}` is not the id of a turn: {NotAnId}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_parsed_from_its_text() {
        let id = TurnId::of(b"a turn");
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in [
            "",
            "abc",
            &"x".repeat(32),
            &"é".repeat(16),
            &"+1".repeat(16),
        ] {
            assert_eq!(wrong.parse::<TurnId>(), Err(NotAnId), "{wrong}");
        }
    }
}
