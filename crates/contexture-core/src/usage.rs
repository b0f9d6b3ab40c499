use serde::{Deserialize, Serialize};

use crate::counts::Tokens;

/// What a provider says a call cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "usage: an object with `input_tokens` and `output_tokens`"
)]
pub struct Usage {
    /// Tokens read, whether from the cache or not.
    pub input_tokens: Tokens,
    /// Tokens written.
    pub output_tokens: Tokens,
    /// Of those read, how many came from the cache.
    pub cached_input_tokens: Tokens,
    /// Of those read, how many were put into the cache.
    pub cache_write_tokens: Tokens,
    /// Of those written, how many were reasoning.
    pub reasoning_tokens: Tokens,
}
