//! [`BlockText`]: the text of a block, read from JSON when it is first used.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json;

/// The text of a block.
///
/// A request has its whole conversation, and a window shows the end of it. So a
/// text that comes from JSON stays as it was written until it is used.
#[derive(Clone)]
pub struct BlockText(Repr);

#[derive(Clone)]
enum Repr {
    Text(String),
    // A JSON string that is known to be a text.
    Json {
        json: Arc<str>,
        text: OnceLock<Arc<str>>,
    },
}

impl BlockText {
    /// Returns the text of a JSON string, which must be valid JSON. Returns `None`
    /// for another value, and for a string with half of a surrogate pair.
    pub fn of_json(json: &str) -> Option<Self> {
        let inner = json.strip_prefix('"')?.strip_suffix('"')?;
        // Only code points in digits can be wrong.
        Some(match inner.contains("\\u") {
            true => Self(Repr::Text(json::read(json)?)),
            false => Self(Repr::Json {
                json: json.into(),
                text: OnceLock::new(),
            }),
        })
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Text(text) => text,
            Repr::Json { json, text } => {
                text.get_or_init(|| json::read(json).unwrap_or_default().into())
            }
        }
    }

    /// Returns the text as it was given: with the escapes of JSON, if it comes from
    /// there, without quotes.
    pub fn written(&self) -> Written<'_> {
        match &self.0 {
            Repr::Text(text) => Written::Text(text),
            Repr::Json { json, .. } => Written::Json(&json[1..json.len() - 1]),
        }
    }

    /// Returns true if the text is white space.
    pub fn is_blank(&self) -> bool {
        match self.written() {
            Written::Text(text) => text.trim().is_empty(),
            Written::Json(json) => {
                let begins = json.trim_start().bytes().next();
                // An escape may be a line end.
                match begins {
                    Some(b'\\') => self.as_str().trim().is_empty(),
                    begins => begins.is_none(),
                }
            }
        }
    }
}

/// A text as it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written<'t> {
    /// The text itself.
    Text(&'t str),
    /// The text with the escapes of JSON.
    Json(&'t str),
}

impl Written<'_> {
    /// Returns the size in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Written::Text(text) | Written::Json(text) => text.len(),
        }
    }
}

impl Default for BlockText {
    fn default() -> Self {
        String::new().into()
    }
}

impl Deref for BlockText {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for BlockText {
    fn as_ref(&self) -> &str {
        self
    }
}

impl From<String> for BlockText {
    fn from(text: String) -> Self {
        Self(Repr::Text(text))
    }
}

impl From<&str> for BlockText {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<&String> for BlockText {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

impl From<BlockText> for String {
    fn from(text: BlockText) -> Self {
        match text.0 {
            Repr::Text(text) => text,
            Repr::Json { .. } => text.as_str().to_owned(),
        }
    }
}

impl PartialEq for BlockText {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for BlockText {}

impl PartialEq<str> for BlockText {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for BlockText {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl fmt::Debug for BlockText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for BlockText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl Serialize for BlockText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for BlockText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for BlockText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_that_is_not_text_is_refused() {
        for json in ["12", "null", "{}", "\"", r#""\ud83d alone""#] {
            assert!(BlockText::of_json(json).is_none(), "{json}");
        }
        let text = BlockText::of_json(r#""\ud83d\ude00""#).unwrap();
        assert_eq!(text, "😀");
    }

    #[test]
    fn a_text_says_whether_it_is_blank() {
        for (text, is_blank) in [
            ("", true),
            (" \n\t\u{a0}", true),
            ("\n", true),
            ("\n a", false),
            (" \"", false),
            ("\u{2003}", true),
            ("ä", false),
        ] {
            let json = serde_json::to_string(text).unwrap();
            assert_eq!(BlockText::of_json(&json).unwrap().is_blank(), is_blank);
            assert_eq!(BlockText::from(text).is_blank(), is_blank);
        }
    }

    proptest! {
        #[test]
        fn a_text_from_json_is_the_text(written: String) {
            let json = serde_json::to_string(&written).unwrap();
            let text = BlockText::of_json(&json).unwrap();
            prop_assert_eq!(text.is_blank(), written.trim().is_empty());
            prop_assert_eq!(&text, &BlockText::from(written.as_str()));
            prop_assert_eq!(serde_json::to_string(&text).unwrap(), json);
            prop_assert_eq!(String::from(text), written);
        }
    }
}
