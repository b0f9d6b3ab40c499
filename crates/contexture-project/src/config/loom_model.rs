//! Settings of the model that continues trees.

use serde::{Deserialize, Serialize};

use super::{ANTHROPIC, OPENAI};

/// The model that continues trees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LoomModel {
    /// The API of the model.
    pub kind: ModelApi,
    /// The address of the API. It must be trusted. Default: the provider's.
    pub base_url: Option<String>,
    /// The name of the model. Required unless `kind` is `none`.
    pub model: Option<String>,
    /// The environment variable that holds the API key. It must be trusted.
    pub api_key_env: Option<String>,
    /// The time limit of one sample with its retries, in milliseconds.
    pub deadline_ms: u64,
    /// The number of attempts of one call.
    pub attempts: u32,
}

impl Default for LoomModel {
    fn default() -> Self {
        Self {
            kind: ModelApi::None,
            base_url: None,
            model: None,
            api_key_env: None,
            deadline_ms: 120_000,
            attempts: 2,
        }
    }
}

/// The API of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelApi {
    /// No model: trees cannot be continued.
    None,
    /// OpenAI's Chat Completions, or a compatible API. Documents use its
    /// Completions.
    #[serde(rename = "openai")]
    OpenAi,
    /// Anthropic's Messages.
    Anthropic,
}

impl LoomModel {
    /// Returns the address of the API. `None` without a model.
    pub fn address(&self) -> Option<String> {
        let usual = match self.kind {
            ModelApi::None => return None,
            ModelApi::OpenAi => OPENAI,
            ModelApi::Anthropic => ANTHROPIC,
        };
        Some(self.base_url.clone().unwrap_or_else(|| usual.to_owned()))
    }
}
