//! Streams: the text of an answer while the model writes it.

use serde_json::Value;

use super::post::{self, Clock};
use super::wire::ServerError;
use super::{CallError, CallErrorKind, Completion, Endpoint, Protocol, error};

/// One event of a stream, as far as it matters.
#[derive(Debug, Default, PartialEq, Eq)]
struct Event {
    text: String,
    stop_reason: Option<String>,
    failed: Option<String>,
}

impl Endpoint {
    /// Sends a request in the provider's own form and calls `text` with each
    /// part of the answer. `text` returns false to end the call; the answer
    /// then ends there.
    ///
    /// The model and `stream` are set in `body`. `path` is that of the API,
    /// such as `chat/completions`, `completions` or `messages`. An answer
    /// without text is an error. The usage is not read.
    pub fn continue_with(
        &self,
        path: &str,
        mut body: Value,
        text: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Completion, CallError> {
        body["model"] = self.model.clone().into();
        body["stream"] = true.into();
        let mut whole = String::new();
        let (mut stop_reason, mut failed) = (None, None);
        let mut read = |data: &str| {
            // `[DONE]` and comments of servers are not JSON.
            let Ok(value) = serde_json::from_str::<Value>(data) else {
                return true;
            };
            let event = event(self.protocol, &value);
            stop_reason = event.stop_reason.or(stop_reason.take());
            if event.failed.is_some() {
                failed = event.failed;
                return false;
            }
            whole.push_str(&event.text);
            event.text.is_empty() || text(&event.text)
        };
        let clock = Clock::start(self.deadline);
        let attempts = post::stream(self, path, &body, clock, &mut read)?;
        let problem = match failed {
            Some(failed) => failed,
            None if whole.trim().is_empty() => "the answer has no text".to_owned(),
            None => {
                return Ok(Completion {
                    text: whole,
                    usage: None,
                    stop_reason,
                    attempts,
                });
            }
        };
        Err(CallError {
            kind: CallErrorKind::BadAnswer,
            attempts,
            message: error::quote(&problem, self.key()),
        })
    }
}

fn event(protocol: Protocol, value: &Value) -> Event {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let failed = (value["type"] == "error" || value["error"].is_object()).then(|| {
        let said = ServerError::of(value);
        said.message
            .unwrap_or("the stream reports an error")
            .to_owned()
    });
    let (part, stop_reason) = match protocol {
        Protocol::OpenAi => {
            let choice = &value["choices"][0];
            // Completions have `text`, chat has `delta`.
            let part = text(&choice["delta"]["content"]).or_else(|| text(&choice["text"]));
            (part, &choice["finish_reason"])
        }
        Protocol::Anthropic => (
            text(&value["delta"]["text"]),
            &value["delta"]["stop_reason"],
        ),
    };
    Event {
        text: part.unwrap_or_default(),
        stop_reason: text(stop_reason),
        failed,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_of_each_api_are_read() {
        use Protocol::{Anthropic, OpenAi};
        let stopped = Some("stop".to_owned());
        for (protocol, value, expected) in [
            (
                OpenAi,
                json!({"choices": [{"delta": {"role": "assistant", "content": "a"}}]}),
                ("a", None),
            ),
            (
                OpenAi,
                json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
                ("", stopped.clone()),
            ),
            (
                OpenAi,
                json!({"choices": [{"text": "b", "finish_reason": "stop"}]}),
                ("b", stopped),
            ),
            (OpenAi, json!({"choices": [], "usage": {}}), ("", None)),
            (
                Anthropic,
                json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "c"}}),
                ("c", None),
            ),
            (
                Anthropic,
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
                ("", Some("end_turn".to_owned())),
            ),
            (Anthropic, json!({"type": "ping"}), ("", None)),
        ] {
            let found = event(protocol, &value);
            assert_eq!(
                (found.text.as_str(), found.stop_reason),
                expected,
                "{value}"
            );
            assert_eq!(found.failed, None, "{value}");
        }
        let failed =
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
        assert_eq!(event(Anthropic, &failed).failed.as_deref(), Some("busy"));
    }
}
