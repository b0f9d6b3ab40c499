//! Responses of providers.
use contexture_core::Usage;
use contexture_providers::{ErrorKind, error_kind, usage_of};
use serde_json::{Value, json};

#[test]
fn usage_is_read_in_one_shape() {
    let anthropic = json!({"type": "message", "usage": {
        "input_tokens": 21, "cache_creation_input_tokens": 188, "cache_read_input_tokens": 2048,
        "output_tokens": 393, "cache_creation": {"ephemeral_5m_input_tokens": 188},
    }});
    assert_eq!(
        usage_of(&anthropic),
        Some(Usage {
            input_tokens: 21 + 188 + 2048,
            output_tokens: 393,
            cached_input_tokens: 2048,
            cache_write_tokens: 188,
            reasoning_tokens: 0,
        })
    );
    let begun = json!({"type": "message_start", "message": anthropic});
    assert_eq!(usage_of(&begun), usage_of(&anthropic));

    let chat = json!({"object": "chat.completion", "usage": {
        "prompt_tokens": 2006, "completion_tokens": 300, "total_tokens": 2306,
        "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 256},
    }});
    let responses = json!({"object": "response", "usage": {
        "input_tokens": 2006, "input_tokens_details": {"cached_tokens": 1920},
        "output_tokens": 300, "output_tokens_details": {"reasoning_tokens": 256},
        "total_tokens": 2306,
    }});
    let gemini = json!({"candidates": [], "usageMetadata": {
        "promptTokenCount": 2006, "cachedContentTokenCount": 1920,
        "candidatesTokenCount": 44, "thoughtsTokenCount": 256, "totalTokenCount": 2306,
    }});
    let ended = json!({"type": "response.completed", "response": responses});
    for response in [chat, responses, ended, gemini] {
        assert_eq!(
            usage_of(&response),
            Some(Usage {
                input_tokens: 2006,
                output_tokens: 300,
                cached_input_tokens: 1920,
                cache_write_tokens: 0,
                reasoning_tokens: 256,
            })
        );
    }
    // Compatible servers leave out what they do not know.
    let plain = json!({"usage": {"prompt_tokens": 5, "completion_tokens": 2}});
    assert_eq!(usage_of(&plain).unwrap().input_tokens, 5);
}

#[test]
fn an_answer_without_usage_has_none() {
    for response in [
        Value::Null,
        json!([]),
        json!({}),
        json!({"usage": null}),
        json!({"usage": {}}),
        json!({"usage": 7, "usageMetadata": "much"}),
        json!({"error": {"message": "no"}}),
    ] {
        assert_eq!(usage_of(&response), None);
    }
}

#[test]
fn overflows_are_recognised() {
    for (status, body) in [
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 209353 tokens > 199999 maximum"}}"#,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 170636 + 34048 > 200000, decrease input length or `max_tokens` and try again"}}"#,
        ),
        (
            413,
            r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
        ),
        (413, "<html>413 Request Entity Too Large</html>"),
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#,
        ),
        (
            200,
            r#"{"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}}"#,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).","status":"INVALID_ARGUMENT"}}"#,
        ),
        (
            400,
            r#"[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).","status":"INVALID_ARGUMENT"}}]"#,
        ),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens.","code":400}"#,
        ),
        (400, "prompt is too long: 209353 tokens > 199999 maximum"),
    ] {
        assert_eq!(
            error_kind(status, body),
            ErrorKind::ContextOverflow,
            "{body}"
        );
    }
}

#[test]
fn ordinary_errors_are_not_overflows() {
    for (status, body, kind) in [
        // About the answer, not about the request.
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4"}}"#,
            ErrorKind::Unknown,
        ),
        (
            400,
            r#"{"error":{"message":"max_tokens is too large: 65536. This model supports at most 16384 completion tokens","type":"invalid_request_error","param":"max_tokens","code":"invalid_value"}}"#,
            ErrorKind::Unknown,
        ),
        (
            400,
            r#"{"error":{"message":"Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 51 instead.","code":"string_above_max_length"}}"#,
            ErrorKind::Unknown,
        ),
        // About tokens per minute.
        (
            429,
            r#"{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 48000. The input or output tokens must be reduced in order to run successfully.","type":"tokens","code":"rate_limit_exceeded"}}"#,
            ErrorKind::RateLimit,
        ),
        (
            429,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 40,000 input tokens per minute"}}"#,
            ErrorKind::RateLimit,
        ),
        (
            429,
            r#"{"error":{"code":429,"message":"Quota exceeded for metric: generate_content_free_tier_input_token_count","status":"RESOURCE_EXHAUSTED"}}"#,
            ErrorKind::RateLimit,
        ),
        (
            200,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"prompt is too long for now"}}"#,
            ErrorKind::RateLimit,
        ),
        (
            401,
            r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
            ErrorKind::AuthFailure,
        ),
        (
            403,
            r#"{"error":{"status":"PERMISSION_DENIED"}}"#,
            ErrorKind::AuthFailure,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
            ErrorKind::AuthFailure,
        ),
        (
            500,
            r#"{"type":"error","error":{"type":"api_error","message":"Internal server error"}}"#,
            ErrorKind::ModelError,
        ),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            ErrorKind::ModelError,
        ),
        (
            200,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            ErrorKind::ModelError,
        ),
        (
            404,
            r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}"#,
            ErrorKind::ModelError,
        ),
        (502, "<html>Bad Gateway</html>", ErrorKind::ModelError),
        (
            503,
            r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
            ErrorKind::ModelError,
        ),
        (
            504,
            r#"{"error":{"code":504,"status":"DEADLINE_EXCEEDED"}}"#,
            ErrorKind::Timeout,
        ),
        (408, "", ErrorKind::Timeout),
        (
            400,
            r#"{"error":{"message":"messages: roles must alternate"}}"#,
            ErrorKind::Unknown,
        ),
        (400, "", ErrorKind::Unknown),
        (400, "null", ErrorKind::Unknown),
        (418, "prompt is too long", ErrorKind::Unknown),
    ] {
        assert_eq!(error_kind(status, body), kind, "{body}");
    }
}

#[test]
fn kinds_have_names_in_json() {
    let names = json!([
        ErrorKind::ContextOverflow,
        ErrorKind::AuthFailure,
        ErrorKind::RateLimit
    ]);
    assert_eq!(
        names,
        json!(["context_overflow", "auth_failure", "rate_limit"])
    );
}
