//! Calls a model with one request and a deadline for the whole call.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use contexture_providers::client::{Endpoint, Protocol};
//!
//! let endpoint = Endpoint {
//!     protocol: Protocol::OpenAi,
//!     base_url: "http://localhost:11434".into(),
//!     model: "qwen3:8b".into(),
//!     api_key: None,
//!     deadline: Duration::from_secs(60),
//!     attempts: 3,
//!     back_off: Duration::from_millis(500),
//!     max_answer_bytes: 1 << 20,
//! };
//! let completion = endpoint.complete("Answer in one word.", "What is the capital of Peru?", 16)?;
//! assert_eq!(completion.text, "Lima");
//! # Ok::<(), contexture_providers::client::CallError>(())
//! ```
//!
//! [`EmbeddingsApi`] requests vectors of texts.
//!
//! [`Endpoint::continue_with`] sends a rendered request and passes the text on
//! while it is written.
//!
//! It blocks, and keeps no state between calls: no connections, no cookies. It
//! does not run tools or hold a conversation. Redirects are rejected, because a
//! key must only be sent to the configured server.
//!
//! The usual variables (`ALL_PROXY`, `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`)
//! set a proxy; a server on this machine is always reached directly.
//!
//! A call that failed on the network may still have reached the model, so a
//! retry can be billed twice.

mod embeddings;
mod error;
mod post;
mod stream;
mod wire;

use std::fmt;
use std::time::Duration;

use contexture_core::Usage;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use embeddings::EmbeddingsApi;
pub use error::{CallError, CallErrorKind};
use post::{Clock, Received};

/// The protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// OpenAI Chat Completions, which many other servers support, too. The key
    /// is sent as a bearer token.
    OpenAi,
    /// Anthropic Messages. The key is sent as `x-api-key`.
    Anthropic,
}

/// A model at a URL, with the deadline and the number of attempts.
#[derive(Clone)]
pub struct Endpoint {
    /// The protocol of the server.
    pub protocol: Protocol,
    /// The address of the server: `http://` or `https://`, with or without a
    /// final slash.
    ///
    /// For [`Protocol::OpenAi`] a bare host gets `/v1`, and a URL with a path
    /// is used unchanged, because servers differ in theirs. For
    /// [`Protocol::Anthropic`] `/v1` is added unless the URL ends with it. A
    /// user, a query or a fragment in the URL is rejected.
    pub base_url: String,
    /// The model's name on the server.
    pub model: String,
    /// The key, without white space around it; none and an empty one are the
    /// same, and send no header.
    pub api_key: Option<String>,
    /// The maximum duration of the whole call, with all attempts and the pauses
    /// between them.
    ///
    /// Connecting gets an equal share of it in each attempt; the answer gets
    /// all the remaining time. More than a day counts as a day.
    pub deadline: Duration,
    /// The maximum number of times that the request is sent; zero counts as
    /// one.
    pub attempts: u32,
    /// The pause after the first failure, doubled after each further one.
    ///
    /// A longer pause that the server requests with `retry-after` (in seconds;
    /// a date is ignored) or `retry-after-ms` is respected. If the deadline
    /// leaves no time for the pause, the call fails at once.
    pub back_off: Duration,
    /// The maximum bytes of an answer; a larger one is rejected.
    pub max_answer_bytes: u64,
}

/// Shows everything but the key, and the URL without what could be a secret.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("protocol", &self.protocol)
            .field("base_url", &error::public_url(&self.base_url))
            .field("model", &self.model)
            .field("api_key", &self.key().map(|_| error::MASK))
            .field("deadline", &self.deadline)
            .field("attempts", &self.attempts)
            .field("back_off", &self.back_off)
            .field("max_answer_bytes", &self.max_answer_bytes)
            .finish()
    }
}

/// The answer of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The text, never blank.
    pub text: String,
    /// The token usage of the call, if the server reports it.
    pub usage: Option<Usage>,
    /// The reason why the model stopped, in the server's words: `stop`,
    /// `end_turn`, `length`, `max_tokens`.
    pub stop_reason: Option<String>,
    /// The number of times that the request was sent.
    pub attempts: u32,
}

impl Endpoint {
    /// Asks the model to answer `user` with the instructions of `system`.
    ///
    /// An empty `system` is not sent. `max_output` limits the answer in tokens;
    /// an answer that was cut there is returned, with its
    /// [`stop_reason`](Completion::stop_reason). An answer without text is an
    /// error.
    pub fn complete(
        &self,
        system: &str,
        user: &str,
        max_output: u64,
    ) -> Result<Completion, CallError> {
        let (path, body) = wire::request(self.protocol, &self.model, system, user, max_output);
        let received = post::post(self, path, &body, Clock::start(self.deadline))?;
        let attempts = received.attempts;
        let answer = wire::read(self.protocol, &self.json(&received)?)
            .map_err(|problem| self.bad_answer(&problem, attempts))?;
        Ok(Completion {
            text: answer.text,
            usage: answer.usage,
            stop_reason: answer.stop_reason,
            attempts,
        })
    }

    /// Posts `body` to `path` and returns the JSON of the response.
    ///
    /// `path` is relative to the versioned root of the API, such as
    /// `embeddings` or `chat/completions`; a leading slash is ignored. The key,
    /// the deadline, the attempts and the limits are those of the endpoint.
    pub fn post_json(&self, path: &str, body: &Value) -> Result<Value, CallError> {
        self.json(&post::post(self, path, body, Clock::start(self.deadline))?)
    }

    /// Reads an answer as JSON of the form of `T`.
    fn json<T: DeserializeOwned>(&self, received: &Received) -> Result<T, CallError> {
        serde_json::from_slice(&received.body).map_err(|error| {
            // For JSON in another form, the error has the position; text that
            // is not JSON is best understood by its first words.
            let problem = if error.is_data() {
                format!("the answer is not in the form that was asked for: {error}")
            } else {
                let text = String::from_utf8_lossy(&received.body);
                format!("the answer is not JSON ({error}): {text}")
            };
            self.bad_answer(&problem, received.attempts)
        })
    }

    fn bad_answer(&self, problem: &str, attempts: u32) -> CallError {
        CallError {
            kind: CallErrorKind::BadAnswer,
            attempts,
            message: error::quote(problem, self.key()),
        }
    }

    fn key(&self) -> Option<&str> {
        self.api_key
            .as_deref()
            .map(str::trim)
            .filter(|key| !key.is_empty())
    }
}
