//! Lists that are handed out in parts.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// How many of something are wanted, at most.
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

/// Which part of a list is wanted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Page {
    /// Begin behind this one: `next` of the part before.
    pub(crate) after: Option<String>,
    /// How many, at most.
    pub(crate) limit: Limit,
}
