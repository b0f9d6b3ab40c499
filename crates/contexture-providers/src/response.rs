//! Reads the token usage and the kind of error from a provider's answer.

use contexture_core::{Tokens, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Returns the token usage of a call, from the answer of any of the providers,
/// or from the event that ends its stream.
///
/// Anthropic counts cached input separately; here, as with the others,
/// [`Usage::input_tokens`] includes all input. Returns `None` if the answer has
/// no usage.
pub fn usage_of(provider_response: &Value) -> Option<Usage> {
    let holders = [
        Some(provider_response),
        provider_response.get("response"),
        provider_response.get("message"),
    ];
    holders.into_iter().flatten().find_map(|holder| {
        let gemini = holder
            .get("usageMetadata")
            .filter(|usage| usage.is_object());
        let other = holder.get("usage").filter(|usage| usage.is_object());
        gemini
            .map(gemini_usage)
            .or_else(|| other.and_then(usage_of_object))
    })
}

fn tokens(usage: &Value, path: &[&str]) -> Tokens {
    path.iter()
        .try_fold(usage, |value, key| value.get(key))
        .and_then(Value::as_u64)
        .unwrap_or(0)
}

fn gemini_usage(usage: &Value) -> Usage {
    let reasoning = tokens(usage, &["thoughtsTokenCount"]);
    Usage {
        // The output of Google's own tools is read as input as well.
        input_tokens: tokens(usage, &["promptTokenCount"])
            .saturating_add(tokens(usage, &["toolUsePromptTokenCount"])),
        output_tokens: tokens(usage, &["candidatesTokenCount"]).saturating_add(reasoning),
        cached_input_tokens: tokens(usage, &["cachedContentTokenCount"]),
        cache_write_tokens: 0,
        reasoning_tokens: reasoning,
    }
}

fn usage_of_object(usage: &Value) -> Option<Usage> {
    let number = |key: &str| usage.get(key).and_then(Value::as_u64);
    if usage.get("prompt_tokens").is_some() {
        return Some(Usage {
            input_tokens: number("prompt_tokens")?,
            output_tokens: tokens(usage, &["completion_tokens"]),
            cached_input_tokens: tokens(usage, &["prompt_tokens_details", "cached_tokens"]),
            cache_write_tokens: tokens(usage, &["prompt_tokens_details", "cache_write_tokens"]),
            reasoning_tokens: tokens(usage, &["completion_tokens_details", "reasoning_tokens"]),
        });
    }
    let read = tokens(usage, &["cache_read_input_tokens"]);
    let written = tokens(usage, &["cache_creation_input_tokens"]);
    Some(Usage {
        // Responses has the cached ones in its sum, and not these two fields.
        input_tokens: number("input_tokens")?
            .saturating_add(read)
            .saturating_add(written),
        output_tokens: tokens(usage, &["output_tokens"]),
        cached_input_tokens: read
            .saturating_add(tokens(usage, &["input_tokens_details", "cached_tokens"])),
        cache_write_tokens: written,
        reasoning_tokens: tokens(usage, &["output_tokens_details", "reasoning_tokens"]),
    })
}

/// The reason why a provider did not answer, as far as it decides the next
/// step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The request is too long for the model: make it shorter.
    ContextOverflow,
    /// The key is missing, wrong, or not allowed to do this.
    AuthFailure,
    /// Too many requests or tokens in a short time: wait.
    RateLimit,
    /// The provider failed, or has no such model.
    ModelError,
    /// The call timed out.
    Timeout,
    /// Anything else, such as a request that is wrong in itself.
    Unknown,
}

/// Returns the kind of an error from its HTTP status and its body. A status of
/// 0 or 200 means an error in a stream.
///
/// Only errors that are known to be an overflow are reported as one: an
/// overflow compacts the session, which an ordinary error must never cause.
pub fn error_kind(status: u16, body: &str) -> ErrorKind {
    let error = Details::of(body);
    match status {
        401 | 403 => return ErrorKind::AuthFailure,
        // Rate limits also mention tokens, so this is checked first.
        429 => return ErrorKind::RateLimit,
        408 | 504 | 524 => return ErrorKind::Timeout,
        413 => return ErrorKind::ContextOverflow,
        _ => {}
    }
    let kind = error.kind();
    if kind == Some(ErrorKind::RateLimit) || kind == Some(ErrorKind::AuthFailure) {
        return kind.unwrap_or(ErrorKind::Unknown);
    }
    let could_overflow = status < 300 || status == 400 || status == 422;
    if could_overflow && error.is_overflow() {
        return ErrorKind::ContextOverflow;
    }
    match status {
        404 | 500.. => ErrorKind::ModelError,
        _ => kind.unwrap_or(ErrorKind::Unknown),
    }
}

/// The contents of an error's body.
struct Details {
    // In lower case, all of them.
    names: Vec<String>,
    message: String,
}

impl Details {
    fn of(body: &str) -> Self {
        let parsed = serde_json::from_str(body).unwrap_or(Value::Null);
        // Gemini's streams wrap the error in a list.
        let parsed = parsed.get(0).unwrap_or(&parsed);
        let failed = &parsed["response"]["error"];
        let error = [&parsed["error"], failed, parsed]
            .into_iter()
            .find(|value| value.is_object());
        let Some(error) = error else {
            return Self {
                names: Vec::new(),
                message: body.to_lowercase(),
            };
        };
        let reasons = error["details"].as_array().into_iter().flatten();
        let named = ["type", "code", "status"].map(|key| &error[key]);
        let names = named
            .into_iter()
            .chain(reasons.map(|detail| &detail["reason"]))
            .filter_map(Value::as_str)
            .map(str::to_lowercase)
            .collect();
        let message = [&error["message"], &parsed["error"], &parsed["detail"]]
            .into_iter()
            .find_map(Value::as_str)
            .unwrap_or_default()
            .to_lowercase();
        Self { names, message }
    }

    fn is(&self, names: &[&str]) -> bool {
        self.names.iter().any(|name| names.contains(&name.as_str()))
    }

    fn is_overflow(&self) -> bool {
        let says = |words: &[&str]| words.iter().all(|words| self.message.contains(words));
        self.is(&[
            "context_length_exceeded",
            "request_too_large",
            "exceed_context_size_error",
            "model_context_window_exceeded",
        ]) || says(&["prompt is too long"])
            || says(&["input length and `max_tokens` exceed context limit"])
            || says(&["input length and max_tokens exceed context limit"])
            || says(&["maximum context length is", "tokens"])
            || says(&["exceeds the context window"])
            || says(&["exceeds the model's maximum context length"])
            || says(&["exceeds the available context size"])
            || says(&["input token count", "exceeds the maximum number of tokens"])
            || says(&["input is too long for requested model"])
    }

    fn kind(&self) -> Option<ErrorKind> {
        let kinds: [(ErrorKind, &[&str]); 4] = [
            (
                ErrorKind::RateLimit,
                &[
                    "rate_limit_error",
                    "rate_limit_exceeded",
                    "insufficient_quota",
                    "resource_exhausted",
                ],
            ),
            (
                ErrorKind::AuthFailure,
                &[
                    "authentication_error",
                    "permission_error",
                    "invalid_api_key",
                    "api_key_invalid",
                    "unauthenticated",
                    "permission_denied",
                ],
            ),
            (
                ErrorKind::Timeout,
                &["timeout", "timeout_error", "deadline_exceeded"],
            ),
            (
                ErrorKind::ModelError,
                &[
                    "api_error",
                    "overloaded_error",
                    "server_error",
                    "internal",
                    "unavailable",
                    "not_found_error",
                    "model_not_found",
                    "not_found",
                ],
            ),
        ];
        kinds
            .into_iter()
            .find(|(_, names)| self.is(names))
            .map(|(kind, _)| kind)
    }
}
