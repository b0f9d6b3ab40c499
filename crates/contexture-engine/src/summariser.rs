//! [`Summariser`]: the trait of language models that write summaries, and the
//! one over HTTP.

use std::time::Duration;

use contexture_core::{Tokens, Usage};

use crate::config;

/// Writes summaries with a language model. A program may bring its own.
pub trait Summariser: Send + Sync {
    /// Returns the name of the model, for reports.
    fn name(&self) -> &str;

    /// Returns the window of the model in tokens, or `None` if it is unknown.
    fn window(&self) -> Option<Tokens> {
        None
    }

    /// Returns the model's answer.
    ///
    /// Fails with the reason, in a sentence that begins with a verb.
    fn complete(&self, ask: &SummaryAsk<'_>) -> Result<SummaryText, String>;

    /// Returns the maximum duration of a summary, or `None` if there is no
    /// limit.
    fn deadline(&self) -> Option<Duration> {
        None
    }
}

/// A request to a language model for a summary.
#[derive(Debug, Clone, Copy)]
pub struct SummaryAsk<'a> {
    /// The instructions for the model.
    pub instructions: &'a str,
    /// The text to summarise.
    pub text: &'a str,
    /// The approximate maximum number of tokens of the answer.
    pub max_output: Tokens,
    /// The maximum duration, if shorter than the default. `None` uses the
    /// default.
    pub deadline: Option<Duration>,
}

/// The summary that a language model wrote.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SummaryText {
    /// The answer.
    pub text: String,
    /// The token usage, as the provider reports it.
    pub usage: Option<Usage>,
    /// The reason why the model stopped, as the provider spells it.
    pub stop_reason: Option<String>,
}

/// Returns the configured summariser, or `None` for the extractive one, which
/// needs no model.
pub(crate) fn configured(settings: &config::Summariser) -> Option<std::sync::Arc<dyn Summariser>> {
    if settings.is_extractive() {
        return None;
    }
    Some(std::sync::Arc::new(Api {
        settings: settings.clone(),
        model: settings.model.clone().unwrap_or_default(),
    }))
}

/// A summariser that calls a model over an HTTP API.
struct Api {
    settings: config::Summariser,
    model: String,
}

impl Summariser for Api {
    fn name(&self) -> &str {
        &self.model
    }

    fn deadline(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.settings.deadline_ms))
    }

    #[cfg(feature = "http")]
    fn complete(&self, ask: &SummaryAsk<'_>) -> Result<SummaryText, String> {
        use contexture_providers::client::{Endpoint, Protocol};
        use contexture_store::ModelCall;

        let settings = &self.settings;
        let (protocol, usual) = match settings.kind {
            config::SummariserKind::Anthropic => (Protocol::Anthropic, config::ANTHROPIC),
            _ => (Protocol::OpenAi, config::OPENAI),
        };
        let api_key = match &settings.api_key_env {
            None => None,
            Some(name) => Some(std::env::var(name).map_err(|_| {
                format!("has no API key: the environment variable {name} is not set")
            })?),
        };
        let endpoint = Endpoint {
            protocol,
            base_url: settings
                .base_url
                .clone()
                .unwrap_or_else(|| usual.to_owned()),
            model: self.model.clone(),
            api_key,
            deadline: ask
                .deadline
                .unwrap_or(Duration::from_millis(settings.deadline_ms)),
            attempts: settings.attempts,
            back_off: Duration::from_millis(settings.back_off_ms),
            max_answer_bytes: 4 << 20,
        };
        let complete = || endpoint.complete(ask.instructions, ask.text, ask.max_output);
        let answer = contexture_store::Call::wait_for_model(ModelCall::Summary, complete)
            .map_err(|error| format!("failed: {error}"))?;
        Ok(SummaryText {
            text: answer.text,
            usage: answer.usage,
            stop_reason: answer.stop_reason,
        })
    }

    /// Without the feature, no summariser can be called.
    #[cfg(not(feature = "http"))]
    fn complete(&self, _: &SummaryAsk<'_>) -> Result<SummaryText, String> {
        Err("needs the feature `http`, which is not enabled in this build".to_owned())
    }
}
