//! [`ContextFilters`]: which records memory may return.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::turn::json_with_path;

/// Filters for recall. Recall returns only records that pass every filter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ContextFilters {
    /// The earliest time of events, chunks and relations: RFC 3339 or Unix
    /// milliseconds. Default: no limit.
    #[serde(with = "since", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "contexture_store::schema::Time"))]
    pub since: Option<Timestamp>,
    /// The allowed types of events. Default: every type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_types: Option<Vec<String>>,
    /// The allowed types of entities; a relation is returned only if both of
    /// its entities pass. Default: every type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity_types: Option<Vec<String>>,
    /// The ids of records that are not returned. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// The id of the task whose events are returned. Default: every task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The user whose events and chunks are returned. Entities, relations and
    /// patterns without a user are returned, too. Default: every user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The agent whose events and chunks are returned. Entities, relations and
    /// patterns without an agent are returned, too. Default: every agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The session whose events and chunks are returned. Entities, relations and
    /// patterns without a session are returned, too. Default: every session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The source whose events and chunks are returned. Entities, relations and
    /// patterns without a source are returned, too. Default: every source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl ContextFilters {
    /// Reads filters from JSON. Error messages name the field.
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

/// The time of a filter: RFC 3339 or Unix milliseconds.
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
