//! [`ContextFilters`]: which records memory may return.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::turn::json_with_path;

/// What may be found. Nothing else ever is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ContextFilters {
    /// Only what happened at this time or later: events, chunks, relations.
    #[serde(with = "since", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "contexture_store::schema::Time"))]
    pub since: Option<Timestamp>,
    /// Only events of these types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_types: Option<Vec<String>>,
    /// Only entities of these types, and relations between such.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity_types: Option<Vec<String>>,
    /// None of these ids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Only events of this task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
}

impl ContextFilters {
    /// Reads filters from JSON; complaints name the field.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        // A list would be read as the fields in their order.
        if !text.trim_start().starts_with('{') {
            let example = r#"{"since":"2026-01-31T12:00:00Z"}"#;
            return Err(Error::input(format!(
                "the filters: must be an object such as {example}"
            )));
        }
        json_with_path("the filters", text)
    }
}

/// A time as a filter has it: RFC 3339 or Unix milliseconds.
mod since {
    use jiff::Timestamp;
    use serde::{Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        contexture_store::lenient_time(deserializer)
    }
}
