//! [`Usage`]: the token counts that a provider reports for a call.

use serde::{Deserialize, Serialize};

use crate::counts::Tokens;

/// The token usage that a provider reported for a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "usage: an object with `input_tokens` and `output_tokens`"
)]
pub struct Usage {
    /// The number of input tokens, including cached tokens. Default: 0.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Number"))]
    pub input_tokens: Tokens,
    /// The number of output tokens. Default: 0.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Number"))]
    pub output_tokens: Tokens,
    /// The number of input tokens that were read from the provider's cache.
    /// Default: 0.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Number"))]
    pub cached_input_tokens: Tokens,
    /// The number of input tokens that were written to the provider's cache.
    /// Default: 0.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Number"))]
    pub cache_write_tokens: Tokens,
    /// The number of output tokens that were reasoning. Default: 0.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Number"))]
    pub reasoning_tokens: Tokens,
}
