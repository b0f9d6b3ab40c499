//! [`Native`]: a block in the own form of a provider's API, byte for byte.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// The text of a JSON value, kept byte for byte: blanks, escapes, the order of
/// fields and the spelling of numbers.
///
/// Invariant: it is one JSON value without blanks around it. Cloning is cheap.
#[derive(Clone, PartialEq, Eq)]
pub struct RawJson(Arc<str>);

impl RawJson {
    /// Returns the JSON that `text` is, or why it is none.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<&RawValue>(text).map(|raw| Self(raw.get().into()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for RawJson {
    fn default() -> Self {
        Self("null".into())
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Borrowed: a block can be large.
        match serde_json::from_str::<&RawValue>(&self.0) {
            Ok(raw) => raw.serialize(serializer),
            Err(error) => Err(serde::ser::Error::custom(error)),
        }
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(raw.get().into()))
    }
}

/// A block in the own form of a provider's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "NativeBlock"))]
#[serde(deny_unknown_fields)]
pub struct Native {
    /// The API that the block belongs to, such as `anthropic` or
    /// `openai-responses`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub provider: Arc<str>,
    /// The block as JSON, byte for byte.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "crate::schema::message::RawObject")
    )]
    pub raw: RawJson,
}

impl Native {
    /// Returns a block of `provider`.
    pub fn new(provider: impl Into<Arc<str>>, raw: RawJson) -> Self {
        Self {
            provider: provider.into(),
            raw,
        }
    }
}
