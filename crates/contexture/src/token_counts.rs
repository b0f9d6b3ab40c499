//! Token counts of files as JSON for programs.

use contexture_core::{TokenizerInfo, Tokens};
use serde::Serialize;

/// The token counts of texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenCounts {
    /// The model, or the tokenizer that the caller requested.
    pub model: String,
    /// The tokenizer that counted the tokens.
    pub tokenizer: TokenizerInfo,
    /// The counts of each text.
    pub files: Vec<FileTokens>,
    /// The total number of tokens.
    pub total: Tokens,
}

/// The size of one text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileTokens {
    /// The name of the text.
    pub path: String,
    /// The number of tokens.
    pub tokens: Tokens,
    /// The number of bytes.
    pub bytes: usize,
}
