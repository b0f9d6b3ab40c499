//! What texts count, as programs read it.

use contexture_core::{TokenizerInfo, Tokens};
use serde::Serialize;

/// What texts count for a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenCounts {
    /// The model, or the tokenizer that was asked for.
    pub model: String,
    /// What counted.
    pub tokenizer: TokenizerInfo,
    /// Each text.
    pub files: Vec<FileTokens>,
    /// All of them together.
    pub total: Tokens,
}

/// What a text counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileTokens {
    /// What it is called.
    pub path: String,
    /// Its tokens.
    pub tokens: Tokens,
    /// Its bytes.
    pub bytes: usize,
}
