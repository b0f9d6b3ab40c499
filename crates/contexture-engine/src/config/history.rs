//! Settings of history: tool results, compaction and the summariser.

use contexture_core::Tokens;
use serde::{Deserialize, Serialize};

/// How long tool results are shortened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolResults {
    /// The most tokens of one tool result in a request. 0 or false: no limit.
    /// Default: an eighth of the window, at least 2,000 and at most 20,000.
    pub max_tokens: Option<ResultLimit>,
}

/// The limit of a tool result: a number of tokens, or whether there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number of tokens, or false")]
pub enum ResultLimit {
    /// So many tokens; 0 for no limit.
    Tokens(Tokens),
    /// The default limit, or none.
    Switch(bool),
}

impl ToolResults {
    /// The smallest limit: less leaves hardly more than a marker.
    pub const LEAST: Tokens = 500;

    /// Returns the most tokens of one tool result in a window of that size, or
    /// `None` if there is no limit.
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

/// When and how history is summarised.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompactionConfig {
    /// Whether it is done when the budget asks for it.
    pub enabled: bool,
    /// Percent of what is available from which on it is done.
    pub threshold: f64,
    /// Percent of what is available that the request is brought down to.
    /// Default: 60 up to 20,000 available tokens, and less where more are
    /// available.
    pub target: Option<f64>,
    /// The same after the provider said that a request was too long.
    pub overflow_target: f64,
    /// How many of the latest turns are kept when they leave room for the rest.
    pub keep_turns: usize,
    /// The longest summary, in percent of what is available.
    pub summary: f64,
    /// The user's messages that stay verbatim beside a summary, in percent of
    /// what is available.
    pub user_messages: f64,
    /// Summarises all but the latest turns whenever so many came since the
    /// last summary, however much room there is.
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
#[serde(default, deny_unknown_fields)]
pub struct Summariser {
    /// `extractive`, which needs no network, or the API of a language model:
    /// `openai` (and what is compatible) or `anthropic`.
    pub kind: SummariserKind,
    /// The API's address.
    pub base_url: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// How long a summary may take, retries included.
    pub deadline_ms: u64,
    /// How often a call is tried.
    pub attempts: u32,
    /// The pause before the first retry; it doubles.
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
    /// Returns true when no language model is asked.
    pub fn is_extractive(&self) -> bool {
        self.kind == SummariserKind::Extractive
    }
}

/// What kind of thing writes summaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SummariserKind {
    /// Takes sentences out of the conversation.
    Extractive,
    /// Asks a model through OpenAI's Chat Completions.
    #[serde(rename = "openai")]
    OpenAi,
    /// Asks a model through Anthropic's Messages.
    Anthropic,
}
