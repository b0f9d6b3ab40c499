//! Query parameters of lists that are returned page by page.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// The maximum number of results, from 1 to 1000.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u32")]
pub(crate) struct Limit(u32);

impl Limit {
    pub(crate) const MOST: u32 = 1000;

    pub(crate) fn get(self) -> usize {
        self.0 as usize
    }
}

impl TryFrom<u32> for Limit {
    type Error = String;

    fn try_from(limit: u32) -> Result<Self, String> {
        match (1..=Self::MOST).contains(&limit) {
            true => Ok(Self(limit)),
            false => Err(format!("must be from 1 to {}", Self::MOST)),
        }
    }
}

impl JsonSchema for Limit {
    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 1, "maximum": Self::MOST, "default": 100})
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self(100)
    }
}

/// A page of a list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Page {
    /// The last name of the previous page: its `next`. Default: the first page.
    pub(crate) after: Option<String>,
    /// The maximum number of results, from 1 to 1000. Default: 100.
    pub(crate) limit: Limit,
}
