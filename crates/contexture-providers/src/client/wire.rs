//! The JSON of completion requests and answers, for OpenAI and Anthropic.

use contexture_core::Usage;
use serde_json::{Value, json};

use super::Protocol;
use crate::openai;
use crate::response::usage_of;

/// The text and the usage of an answer.
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) usage: Option<Usage>,
    pub(super) stop_reason: Option<String>,
}

/// Returns the path and the body of a request for a completion.
pub(super) fn request(
    protocol: Protocol,
    model: &str,
    system: &str,
    user: &str,
    max_output: u64,
) -> (&'static str, Value) {
    match protocol {
        Protocol::OpenAi => {
            let mut messages = Vec::new();
            if !system.is_empty() {
                messages.push(json!({"role": "system", "content": system}));
            }
            messages.push(json!({"role": "user", "content": user}));
            let mut body = json!({"model": model, "messages": messages});
            body[max_output_field(model)] = max_output.into();
            ("chat/completions", body)
        }
        Protocol::Anthropic => {
            let mut body = json!({"model": model, "max_tokens": max_output});
            if !system.is_empty() {
                body["system"] = system.into();
            }
            body["messages"] = json!([{"role": "user", "content": user}]);
            ("messages", body)
        }
    }
}

/// Returns the name of the field that limits the response.
///
/// OpenAI's reasoning models reject the old name. Other servers reject or ignore
/// the new one.
fn max_output_field(model: &str) -> &'static str {
    if openai::is_of_openai(model) {
        "max_completion_tokens"
    } else {
        "max_tokens"
    }
}

/// Reads the answer to [`request`]. The error names what the answer lacks.
pub(super) fn read(protocol: Protocol, answer: &Value) -> Result<Answer, String> {
    let (content, stop_reason) = match protocol {
        Protocol::OpenAi => {
            let choice = &answer["choices"][0];
            (&choice["message"]["content"], &choice["finish_reason"])
        }
        Protocol::Anthropic => (&answer["content"], &answer["stop_reason"]),
    };
    let usage = usage_of(answer);
    let stop_reason = stop_reason.as_str().map(str::to_owned);
    let text = match content {
        Value::String(text) => text.clone(),
        // Reasoning and other blocks are not the answer.
        Value::Array(blocks) => blocks
            .iter()
            .filter(|block| block["type"] == "text")
            .filter_map(|block| block["text"].as_str())
            .collect(),
        _ => String::new(),
    };
    if !text.trim().is_empty() {
        return Ok(Answer {
            text,
            usage,
            stop_reason,
        });
    }
    // Some servers report an error with a status of success.
    let error = ServerError::of(answer);
    let refusal = answer["choices"][0]["message"]["refusal"].as_str();
    Err(if let Some(said) = error.message.or(refusal) {
        format!("the answer has no text: {said}")
    } else if let Some(reason) = stop_reason {
        format!("the answer has no text (stopped by `{reason}`)")
    } else if content.is_null() {
        "the answer lacks the fields of a completion".into()
    } else {
        "the answer has no text".into()
    })
}

/// The error that a server reports in its answer.
pub(super) struct ServerError<'a> {
    pub(super) message: Option<&'a str>,
    code: Option<&'a str>,
}

impl<'a> ServerError<'a> {
    pub(super) fn of(body: &'a Value) -> ServerError<'a> {
        // Some servers wrap it, some do not, and some give nothing but words.
        let wrapped = &body["error"];
        let error = if wrapped.is_object() { wrapped } else { body };
        ServerError {
            message: error["message"]
                .as_str()
                .or_else(|| error["detail"].as_str())
                .or_else(|| wrapped.as_str()),
            code: error["code"].as_str(),
        }
    }

    /// Returns true if a retry cannot succeed.
    pub(super) fn is_out_of_credit(&self) -> bool {
        self.code == Some("insufficient_quota")
    }
}
