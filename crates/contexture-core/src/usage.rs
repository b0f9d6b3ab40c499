//! [`Usage`]: the token counts that a provider reports for a call.

use serde::{Deserialize, Serialize};

use crate::counts::Tokens;

/// What a provider says a call cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "usage: an object with `input_tokens` and `output_tokens`"
)]
pub struct Usage {
    /// Tokens read, whether from the cache or not.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Number"))]
    pub input_tokens: Tokens,
    /// Tokens written.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Number"))]
    pub output_tokens: Tokens,
    /// Of those read, how many came from the cache.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Number"))]
    pub cached_input_tokens: Tokens,
    /// Of those read, how many were put into the cache.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Number"))]
    pub cache_write_tokens: Tokens,
    /// Of those written, how many were reasoning.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Number"))]
    pub reasoning_tokens: Tokens,
}
