//! Settings of history: tool results, compaction and the summariser.

use contexture_core::Tokens;
use serde::{Deserialize, Serialize};

/// The address of OpenAI's API.
pub const OPENAI: &str = "https://api.openai.com/v1";

/// The address of Anthropic's API.
pub const ANTHROPIC: &str = "https://api.anthropic.com";

/// The limits on tool results in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ToolResults {
    /// The most tokens of one tool result in a request. 0 or false: no limit.
    /// Default: an eighth of the window, at least 2,000 and at most 20,000.
    pub max_tokens: Option<ResultLimit>,
    /// Whether results that a later result replaces are cleared when that
    /// saves money.
    pub clear_stale: bool,
    /// The number of latest steps whose results are never stale because of
    /// their age. Default: none; age alone makes no result stale.
    pub stale_after: Option<u64>,
}

impl Default for ToolResults {
    fn default() -> Self {
        Self {
            max_tokens: None,
            clear_stale: true,
            stale_after: None,
        }
    }
}

/// The limit of a tool result: a number of tokens, or whether there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "expected a number of tokens, or false")]
pub enum ResultLimit {
    /// The number of tokens; 0 for no limit.
    Tokens(Tokens),
    /// The default limit, or none.
    Switch(bool),
}

impl ToolResults {
    /// The smallest limit: less leaves hardly more than a marker.
    pub const LEAST: Tokens = 500;

    /// Returns the maximum tokens of one tool result in a window of that size,
    /// or `None` if there is no limit.
    ///
    /// The default is an eighth of the window, so that several results are
    /// shown next to each other. Below 2,000 tokens an outline or a log loses
    /// too much. Above 20,000, fetching the rest costs less than sending all of
    /// it again with each request.
    pub fn limit(&self, window: Tokens) -> Option<Tokens> {
        match self.max_tokens {
            Some(ResultLimit::Tokens(0) | ResultLimit::Switch(false)) => None,
            Some(ResultLimit::Tokens(tokens)) => Some(tokens),
            Some(ResultLimit::Switch(true)) | None => Some((window / 8).clamp(2_000, 20_000)),
        }
    }
}

/// The conditions and limits of compaction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct CompactionConfig {
    /// Whether history is compacted when the request reaches `threshold`.
    pub enabled: bool,
    /// The percentage of the available tokens above which history is compacted.
    #[cfg_attr(feature = "schema", schemars(range(min = 1.0, max = 100.0)))]
    pub threshold: f64,
    /// The percentage of the available tokens that compaction reduces the request
    /// to. At most `threshold`. Default: 60 up to 20,000 available tokens, and
    /// less above.
    #[cfg_attr(feature = "schema", schemars(range(min = 1.0, max = 100.0)))]
    pub target: Option<f64>,
    /// The same percentage after the provider rejected a request as too long.
    #[cfg_attr(feature = "schema", schemars(range(min = 1.0, max = 100.0)))]
    pub overflow_target: f64,
    /// The number of latest turns that stay, if they leave room for the rest.
    pub keep_turns: usize,
    /// The longest summary, as a percentage of the available tokens.
    #[cfg_attr(feature = "schema", schemars(range(min = 1.0, max = 100.0)))]
    pub summary: f64,
    /// The most of the user's messages that stay verbatim before a summary, as a
    /// percentage of the available tokens.
    #[cfg_attr(feature = "schema", schemars(range(min = 1.0, max = 100.0)))]
    pub user_messages: f64,
    /// The number of turns after which history is compacted, however much room
    /// there is. Default: never.
    pub every_turns: Option<u64>,
    /// Whether a server summarises between turns, before a request needs it.
    pub background: bool,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            threshold: 85.0,
            target: None,
            overflow_target: 40.0,
            keep_turns: 3,
            summary: 10.0,
            user_messages: 10.0,
            every_turns: None,
            background: false,
        }
    }
}

impl CompactionConfig {
    /// Returns the percentage that a request is brought down to.
    ///
    /// Tokens that are sent again with every request cost money even when they
    /// come from the cache. A large window is therefore filled less.
    pub fn target_of(&self, available: Tokens) -> f64 {
        self.target.unwrap_or_else(|| {
            let most = LARGE_TARGET as f64 * 100.0 / available.max(1) as f64;
            most.clamp(SMALLEST_TARGET, USUAL_TARGET.min(self.threshold))
        })
    }
}

/// The default of `compaction.target` in a small window, in percent.
pub(super) const USUAL_TARGET: f64 = 60.0;

/// The tokens that a request is brought down to in a large window.
const LARGE_TARGET: Tokens = 12_000;

/// The least default of `compaction.target`, in percent.
const SMALLEST_TARGET: f64 = 15.0;

/// The summariser for compaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Summariser {
    /// The kind of the summariser.
    pub kind: SummariserKind,
    /// The address of the API. It must be trusted. Default: the provider's.
    pub base_url: Option<String>,
    /// The model. Required unless `kind` is `extractive`.
    pub model: Option<String>,
    /// The environment variable that holds the API key. It must be trusted.
    pub api_key_env: Option<String>,
    /// The time limit of a summary with its retries, in milliseconds.
    pub deadline_ms: u64,
    /// The number of attempts of one call.
    pub attempts: u32,
    /// The pause before the first retry, in milliseconds. It doubles each time.
    pub back_off_ms: u64,
}

impl Default for Summariser {
    fn default() -> Self {
        Self {
            kind: SummariserKind::Extractive,
            base_url: None,
            model: None,
            api_key_env: None,
            deadline_ms: 20_000,
            attempts: 3,
            back_off_ms: 500,
        }
    }
}

impl Summariser {
    /// Returns true if no language model is called.
    pub fn is_extractive(&self) -> bool {
        self.kind == SummariserKind::Extractive
    }
}

/// The kind of a summariser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SummariserKind {
    /// Facts and sentences of the conversation. Needs no network.
    Extractive,
    /// A model with OpenAI's Chat Completions API, or a compatible one.
    #[serde(rename = "openai")]
    OpenAi,
    /// A model with Anthropic's Messages API.
    Anthropic,
}
