//! Streams: the text of an answer while the model writes it.

use serde_json::{Map, Value, json};

use super::post::{self, Clock};
use super::wire::ServerError;
use super::{CallError, CallErrorKind, Completion, Endpoint, Protocol, error};
use crate::response::usage_of;

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
    /// The model and `stream` are set in `body`, and for OpenAI's API also that
    /// the usage is sent. `path` is that of the API, such as `chat/completions`,
    /// `completions` or `messages`. An answer without text is an error.
    ///
    /// Returns the answer, and the provider's response as it would be without
    /// streaming, joined from the events.
    pub fn continue_with(
        &self,
        path: &str,
        mut body: Value,
        text: &mut dyn FnMut(&str) -> bool,
    ) -> Result<(Completion, Value), CallError> {
        body["model"] = self.model.clone().into();
        body["stream"] = true.into();
        if self.protocol == Protocol::OpenAi {
            body["stream_options"] = json!({"include_usage": true});
        }
        let mut response = Response::default();
        let mut whole = String::new();
        let (mut stop_reason, mut failed) = (None, None);
        let mut read = |data: &str| {
            // `[DONE]` and comments of servers are not JSON.
            let Ok(value) = serde_json::from_str::<Value>(data) else {
                return true;
            };
            response.add(self.protocol, &value);
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
                let body = match self.protocol {
                    Protocol::Anthropic => response.message(&whole, stop_reason.as_deref()),
                    Protocol::OpenAi => {
                        let answer = match path {
                            "completions" => json!({"text": whole}),
                            _ => json!({"message": {"role": "assistant", "content": whole}}),
                        };
                        response.choice(answer, stop_reason.as_deref())
                    }
                };
                let completion = Completion {
                    usage: usage_of(&body),
                    text: whole,
                    stop_reason,
                    attempts,
                };
                return Ok((completion, body));
            }
        };
        Err(CallError {
            kind: CallErrorKind::BadAnswer,
            attempts,
            message: error::quote(&problem, self.key()),
        })
    }
}

/// The fields of a response besides its text, joined from the events of a stream.
#[derive(Debug, Default)]
struct Response {
    fields: Map<String, Value>,
    usage: Map<String, Value>,
}

impl Response {
    fn add(&mut self, protocol: Protocol, event: &Value) {
        // Later events of a stream have the usage so far.
        for usage in [&event["message"]["usage"], &event["usage"]] {
            let fields = usage.as_object().into_iter().flatten();
            let fields = fields.filter(|(_, value)| !value.is_null());
            let fields = fields.map(|(name, value)| (name.clone(), value.clone()));
            self.usage.extend(fields);
        }
        let holder = match protocol {
            Protocol::Anthropic => &event["message"],
            Protocol::OpenAi => event,
        };
        for (name, value) in holder.as_object().into_iter().flatten() {
            if !matches!(name.as_str(), "choices" | "usage" | "object") && !value.is_null() {
                self.fields.insert(name.clone(), value.clone());
            }
        }
    }

    /// Returns the response of Anthropic's API.
    fn message(mut self, text: &str, stop_reason: Option<&str>) -> Value {
        let content = json!([{"type": "text", "text": text}]);
        self.fields.insert("content".to_owned(), content);
        self.fields
            .insert("stop_reason".to_owned(), json!(stop_reason));
        self.with_usage()
    }

    /// Returns the response of an API like OpenAI's, with its one choice.
    fn choice(mut self, mut choice: Value, stop_reason: Option<&str>) -> Value {
        choice["index"] = 0.into();
        choice["finish_reason"] = json!(stop_reason);
        self.fields.insert("choices".to_owned(), json!([choice]));
        self.with_usage()
    }

    fn with_usage(mut self) -> Value {
        if !self.usage.is_empty() {
            self.fields.insert("usage".to_owned(), self.usage.into());
        }
        self.fields.into()
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
    fn the_response_is_joined_from_its_events() {
        let mut chat = Response::default();
        for event in [
            json!({"id": "c1", "model": "m-1", "object": "chat.completion.chunk", "choices": [{"delta": {"content": "a"}}], "usage": null}),
            json!({"id": "c1", "model": "m-1", "choices": [{"delta": {}, "finish_reason": "length"}]}),
            json!({"id": "c1", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 1}}),
        ] {
            chat.add(Protocol::OpenAi, &event);
        }
        let body = chat.choice(json!({"text": "a"}), Some("length"));
        assert_eq!(
            body,
            json!({
                "id": "c1", "model": "m-1",
                "choices": [{"text": "a", "index": 0, "finish_reason": "length"}],
                "usage": {"prompt_tokens": 7, "completion_tokens": 1},
            })
        );
        assert_eq!(usage_of(&body).map(|usage| usage.input_tokens), Some(7));
        let mut message = Response::default();
        for event in [
            json!({"type": "message_start", "message": {"id": "m1", "type": "message", "model": "c-1", "content": [], "usage": {"input_tokens": 5, "output_tokens": 1}}}),
            json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "b"}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 9}}),
        ] {
            message.add(Protocol::Anthropic, &event);
        }
        assert_eq!(
            message.message("b", Some("max_tokens")),
            json!({
                "id": "m1", "type": "message", "model": "c-1",
                "content": [{"type": "text", "text": "b"}], "stop_reason": "max_tokens",
                "usage": {"input_tokens": 5, "output_tokens": 9},
            })
        );
    }

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
