//! Token counts of files as JSON for programs.

use contexture_core::{TokenizerInfo, Tokens};
use serde::Serialize;

/// Token counts of texts for a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenCounts {
    /// The model, or the tokenizer that was asked for.
    pub model: String,
    /// The tokenizer.
    pub tokenizer: TokenizerInfo,
    /// Each text.
    pub files: Vec<FileTokens>,
    /// All of them together.
    pub total: Tokens,
}

/// The token count of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileTokens {
    /// The name.
    pub path: String,
    /// The number of tokens.
    pub tokens: Tokens,
    /// The size in bytes.
    pub bytes: usize,
}
