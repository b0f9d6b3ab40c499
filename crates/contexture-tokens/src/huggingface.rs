//! [`HuggingFace`]: a counter for a `tokenizer.json`, with the feature
//! `huggingface`.

use std::path::Path;

use contexture_core::{ContentHash, TokenCounter, Tokens};

use crate::tokenizer::LoadError;

/// Counts tokens with a Hugging Face `tokenizer.json`.
///
/// Exact for whole texts. Nothing is known about where such a tokenizer
/// splits, so sums over parts are not bounds, and a finished request is
/// counted once more as a whole.
pub struct HuggingFace {
    name: String,
    // Nearly all such files have the same name.
    identity: String,
    tokenizer: tokenizers::Tokenizer,
}

impl HuggingFace {
    /// Loads the tokenizer at `path`.
    pub fn from_file(path: &Path) -> Result<Self, LoadError> {
        let bytes = std::fs::read(path).map_err(|source| LoadError::read(path, source))?;
        let mut tokenizer = tokenizers::Tokenizer::from_bytes(&bytes)
            .map_err(|source| LoadError::parse(path, source.to_string()))?;
        // Truncation and padding would make the count untrue.
        tokenizer
            .with_truncation(None)
            .map_err(|source| LoadError::parse(path, source.to_string()))?;
        tokenizer.with_padding(None);
        let name = path.file_name().map_or_else(
            || path.display().to_string(),
            |n| n.to_string_lossy().into_owned(),
        );
        let hash = ContentHash::of(&bytes).to_string();
        Ok(Self {
            identity: format!("{name}#{}", &hash[..16]),
            name,
            tokenizer,
        })
    }
}

impl TokenCounter for HuggingFace {
    fn name(&self) -> &str {
        &self.name
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str) -> Tokens {
        // Encoding fails only when a pre-tokenizer's own regex gives up; each
        // byte being a token is then the only safe answer.
        self.tokenizer
            .encode_fast(text, false)
            .map_or(text.len(), |encoding| encoding.len()) as Tokens
    }
}
