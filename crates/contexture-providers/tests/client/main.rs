//! Calls to a server on this machine that follows a script.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used)]

mod embeddings;
mod support;

use std::time::{Duration, Instant};

use contexture_core::Usage;
use contexture_providers::client::CallErrorKind::{
    Auth, BadAnswer, Overflow, RateLimited, Refused, Timeout, Unreachable,
};
use contexture_providers::client::{CallError, CallErrorKind, Completion, Endpoint, Protocol};
use serde_json::{Value, json};
use support::{Reply, Server};

const KEY: &str = "sk-test-0123456789abcdef";

/// A deadline that a test waits for.
const SHORT: Duration = Duration::from_millis(250);

/// How late a call with a short deadline may be on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

fn endpoint(protocol: Protocol, base_url: &str) -> Endpoint {
    Endpoint {
        protocol,
        base_url: base_url.into(),
        model: "model-1".into(),
        api_key: Some(KEY.into()),
        deadline: Duration::from_secs(20),
        attempts: 3,
        back_off: Duration::from_millis(1),
        max_answer_bytes: 100_000,
    }
}

fn ask(endpoint: &Endpoint) -> Result<Completion, CallError> {
    let result = endpoint.complete("Be brief.", "Hello?", 64);
    if let Err(error) = &result {
        // Properties of every error are checked on every error.
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(KEY), "{shown}");
        assert!(!error.message().contains(char::is_control), "{shown}");
        assert!(error.message().chars().count() < 400, "{shown}");
    }
    result
}

/// Runs a call against `script`; returns how it failed and how often the
/// server was asked.
#[track_caller]
fn fails(script: Vec<Reply>, expected: CallErrorKind, connections: usize) -> CallError {
    let server = Server::start(script);
    let error = ask(&endpoint(Protocol::OpenAi, &server.url())).unwrap_err();
    assert_eq!(error.kind, expected, "{error}");
    assert_eq!(error.attempts as usize, connections, "{error}");
    assert_eq!(server.connections(), connections, "{error}");
    error
}

/// Runs a call with a short deadline against `reply`.
#[track_caller]
fn times_out(reply: Reply) {
    let server = Server::start(vec![reply]);
    let mut endpoint = endpoint(Protocol::OpenAi, &server.url());
    endpoint.deadline = SHORT;
    let start = Instant::now();
    let error = ask(&endpoint).unwrap_err();
    assert_eq!(error.kind, Timeout, "{error}");
    assert_eq!(error.attempts, 1);
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

fn openai(text: &str) -> Value {
    json!({
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2},
    })
}

fn anthropic(text: &str) -> Value {
    json!({
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 2},
    })
}

fn hello() -> Reply {
    Reply::json(200, openai("Hello!"))
}

fn error(status: u16, error: Value) -> Reply {
    Reply::json(status, json!({ "error": error }))
}

// Requests.

#[test]
fn the_request_to_openai() {
    let server = Server::start(vec![hello()]);
    ask(&endpoint(Protocol::OpenAi, &server.url())).unwrap();
    let [request] = &server.requests()[..] else {
        panic!("one request")
    };
    assert_eq!(request.line, "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(
        request.body,
        r#"{"model":"model-1","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello?"}],"max_tokens":64}"#
    );
    let mut headers = request.headers.clone();
    headers.sort();
    let length = request.body.len().to_string();
    let host = server.address().to_string();
    let agent = concat!("contexture/", env!("CARGO_PKG_VERSION"));
    let expected = [
        ("accept", "application/json"),
        ("authorization", "Bearer sk-test-0123456789abcdef"),
        ("content-length", &length),
        ("content-type", "application/json"),
        ("host", &host),
        ("user-agent", agent),
    ];
    assert_eq!(
        headers,
        expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
}

#[test]
fn the_request_to_anthropic() {
    let server = Server::start(vec![Reply::json(200, anthropic("Hello!"))]);
    ask(&endpoint(Protocol::Anthropic, &server.url())).unwrap();
    let [request] = &server.requests()[..] else {
        panic!("one request")
    };
    assert_eq!(request.line, "POST /v1/messages HTTP/1.1");
    assert_eq!(
        request.body,
        r#"{"model":"model-1","max_tokens":64,"system":"Be brief.","messages":[{"role":"user","content":"Hello?"}]}"#
    );
    let mut headers = request.headers.clone();
    headers.sort();
    let length = request.body.len().to_string();
    let host = server.address().to_string();
    let agent = concat!("contexture/", env!("CARGO_PKG_VERSION"));
    let expected = [
        ("accept", "application/json"),
        ("anthropic-version", "2023-06-01"),
        ("content-length", &length),
        ("content-type", "application/json"),
        ("host", &host),
        ("user-agent", agent),
        ("x-api-key", "sk-test-0123456789abcdef"),
    ];
    assert_eq!(
        headers,
        expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
}

#[test]
fn an_empty_system_and_no_key_are_not_sent() {
    for (protocol, answer) in [
        (Protocol::OpenAi, openai("Hi")),
        (Protocol::Anthropic, anthropic("Hi")),
    ] {
        for key in [None, Some(" \n".to_owned())] {
            let server = Server::start(vec![Reply::json(200, answer.clone())]);
            let mut endpoint = endpoint(protocol, &server.url());
            endpoint.api_key = key;
            endpoint.complete("", "Hello?", 64).unwrap();
            let request = &server.requests()[0];
            assert_eq!(request.header("authorization"), None);
            assert_eq!(request.header("x-api-key"), None);
            assert!(!request.body.contains("system"), "{}", request.body);
        }
    }
}

#[test]
fn models_of_openai_get_the_new_name_of_the_limit() {
    for (model, field) in [
        ("gpt-5-mini", "max_completion_tokens"),
        ("openai/o4-mini", "max_completion_tokens"),
        ("olmo-2", "max_tokens"),
        ("openai/gpt-oss-20b", "max_tokens"),
        ("mistral-small-latest", "max_tokens"),
    ] {
        let server = Server::start(vec![hello()]);
        let mut endpoint = endpoint(Protocol::OpenAi, &server.url());
        endpoint.model = model.into();
        ask(&endpoint).unwrap();
        let body: Value = serde_json::from_str(&server.requests()[0].body).unwrap();
        assert_eq!(body[field], 64, "{model}");
        assert_eq!(body.as_object().unwrap().len(), 3, "{model}");
    }
}

#[test]
fn json_can_be_posted_to_any_path() {
    let vectors = json!({"data": [{"embedding": [0.5, 1.0]}]});
    let server = Server::start(vec![
        Reply::json(500, json!({})),
        Reply::json(200, vectors.clone()),
    ]);
    let endpoint = endpoint(Protocol::OpenAi, &format!("{}/api/v4/", server.url()));
    let answer = endpoint.post_json("/embeddings", &json!({"input": ["é"]}));
    assert_eq!(answer.unwrap(), vectors);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert_eq!(request.line, "POST /api/v4/embeddings HTTP/1.1");
        assert_eq!(request.body, r#"{"input":["é"]}"#);
    }
}

// Responses.

#[test]
fn an_answer_of_openai() {
    let answer = json!({
        "choices": [{"message": {"content": "Lima"}, "finish_reason": "length"}],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 30,
            "prompt_tokens_details": {"cached_tokens": 64},
            "completion_tokens_details": {"reasoning_tokens": 20},
        },
    });
    let server = Server::start(vec![Reply::json(200, answer)]);
    let expected = Completion {
        text: "Lima".into(),
        usage: Some(Usage {
            input_tokens: 100,
            output_tokens: 30,
            cached_input_tokens: 64,
            cache_write_tokens: 0,
            reasoning_tokens: 20,
        }),
        stop_reason: Some("length".into()),
        attempts: 1,
    };
    assert_eq!(
        ask(&endpoint(Protocol::OpenAi, &server.url())),
        Ok(expected)
    );
}

#[test]
fn an_answer_of_anthropic() {
    let answer = json!({
        "content": [
            {"type": "thinking", "thinking": "Peru, so"},
            {"type": "text", "text": "Li"},
            {"type": "text", "text": "ma"},
        ],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 10,
            "output_tokens": 30,
            "cache_read_input_tokens": 64,
            "cache_creation_input_tokens": 26,
        },
    });
    let server = Server::start(vec![Reply::json(200, answer)]);
    let expected = Completion {
        text: "Lima".into(),
        usage: Some(Usage {
            input_tokens: 100,
            output_tokens: 30,
            cached_input_tokens: 64,
            cache_write_tokens: 26,
            reasoning_tokens: 0,
        }),
        stop_reason: Some("end_turn".into()),
        attempts: 1,
    };
    assert_eq!(
        ask(&endpoint(Protocol::Anthropic, &server.url())),
        Ok(expected)
    );
}

#[test]
fn usage_that_is_missing_or_strange_is_none() {
    for usage in [Value::Null, json!({}), json!({"prompt_tokens": -1})] {
        let answer = json!({"choices": [{"message": {"content": "Hi"}}], "usage": usage});
        let server = Server::start(vec![Reply::json(200, answer)]);
        let completion = ask(&endpoint(Protocol::OpenAi, &server.url())).unwrap();
        assert_eq!(completion.usage, None);
        assert_eq!(completion.stop_reason, None);
    }
    let mut answer = anthropic("Hi");
    answer["usage"] = json!({"input_tokens": 7, "cache_read_input_tokens": null});
    let server = Server::start(vec![Reply::json(200, answer)]);
    let completion = ask(&endpoint(Protocol::Anthropic, &server.url())).unwrap();
    assert_eq!(completion.usage.unwrap().input_tokens, 7);
}

#[test]
fn chunked_and_compressed_answers_are_read() {
    for reply in [
        hello().chunked(),
        hello().until_closed(),
        hello().late(Duration::from_millis(50)),
        hello().dribbled(Duration::from_micros(100)),
    ] {
        let server = Server::start(vec![reply]);
        let completion = ask(&endpoint(Protocol::OpenAi, &server.url())).unwrap();
        assert_eq!(completion.text, "Hello!");
    }
}

#[test]
fn an_answer_without_text_is_an_error() {
    let stopped = |content: Value| json!({"choices": [{"message": {"content": content}, "finish_reason": "length"}]});
    for (answer, says) in [
        (stopped(Value::Null), "stopped by `length`"),
        (stopped("".into()), "stopped by `length`"),
        (stopped(" \n".into()), "stopped by `length`"),
        (stopped(json!([])), "stopped by `length`"),
        (
            json!({"choices": [{"message": {"content": null, "refusal": "I must not."}}]}),
            "I must not.",
        ),
        (json!({"choices": []}), "lacks the fields"),
        (json!({"choices": "none"}), "lacks the fields"),
        (json!({}), "lacks the fields"),
        (json!([1]), "lacks the fields"),
        (json!("Hello!"), "lacks the fields"),
        (json!({"error": {"message": "no backend"}}), "no backend"),
    ] {
        let error = fails(vec![Reply::json(200, answer)], BadAnswer, 1);
        assert!(error.message().contains(says), "{error}");
    }
    let mut answer = anthropic("");
    answer["content"] = json!([{"type": "tool_use", "name": "x", "input": {}}]);
    let server = Server::start(vec![Reply::json(200, answer)]);
    let error = ask(&endpoint(Protocol::Anthropic, &server.url())).unwrap_err();
    assert_eq!(error.kind, BadAnswer);
}

#[test]
fn invalid_json_is_an_error() {
    for junk in [
        "",
        "<html>\nBad\x1b[31m Gateway</html>",
        r#"{"choices": ["#,
        "\u{0}",
    ] {
        fails(vec![Reply::new(200, junk)], BadAnswer, 1);
    }
    fails(vec![Reply::new(200, [0xff, 0xfe])], BadAnswer, 1);
    fails(vec![Reply::new(204, "")], BadAnswer, 1);
    let deep = "[".repeat(50_000);
    fails(vec![Reply::new(200, deep)], BadAnswer, 1);
}

#[test]
fn an_answer_above_the_size_limit_is_rejected() {
    let huge = Reply::json(200, openai(&"x".repeat(100_000)));
    for reply in [
        huge.clone(),
        huge.clone().chunked(),
        huge.until_closed(),
        Reply::new(200, " ".repeat(1000)).endless(),
    ] {
        let error = fails(vec![reply], BadAnswer, 1);
        assert!(error.message().contains("100000 bytes"), "{error}");
    }
    // The limit itself is allowed.
    let server = Server::start(vec![hello(), hello()]);
    let mut endpoint = endpoint(Protocol::OpenAi, &server.url());
    endpoint.max_answer_bytes = openai("Hello!").to_string().len() as u64;
    ask(&endpoint).unwrap();
    endpoint.max_answer_bytes -= 1;
    assert_eq!(ask(&endpoint).unwrap_err().kind, BadAnswer);
}

// Retries.

#[test]
fn temporary_errors_are_retried() {
    let overloaded = || {
        error(
            529,
            json!({"type": "overloaded_error", "message": "Overloaded"}),
        )
    };
    for script in [
        vec![Reply::new(500, ""), Reply::new(500, "")],
        vec![Reply::new(408, ""), Reply::new(409, "")],
        vec![Reply::new(502, "x"), Reply::new(503, "x")],
        vec![Reply::new(504, "x"), overloaded()],
        vec![
            Reply::new(429, "").header("Retry-After", "0"),
            Reply::new(429, "").header("retry-after-ms", "5"),
        ],
        vec![Reply::closed(), hello().cut_after(10)],
        vec![Reply::new(500, "never comes").cut_after(3), Reply::closed()],
    ] {
        let mut script = script;
        script.push(hello());
        let server = Server::start(script);
        let completion = ask(&endpoint(Protocol::OpenAi, &server.url())).unwrap();
        assert_eq!(completion.text, "Hello!");
        assert_eq!(completion.attempts, 3);
        let requests = server.requests();
        assert_eq!(requests.len(), 3);
        assert!(
            requests
                .iter()
                .all(|request| request.body == requests[0].body)
        );
    }
}

#[test]
fn attempts_are_limited() {
    let again = |status| (0..9).map(|_| Reply::new(status, "later")).collect();
    fails(again(429), RateLimited, 3);
    fails(again(529), RateLimited, 3);
    let error = fails(again(503), Refused { status: 503 }, 3);
    assert!(
        error
            .to_string()
            .ends_with("answers 503: later (after 3 attempts)"),
        "{error}"
    );

    for attempts in [0, 1] {
        let server = Server::start(again(500));
        let mut endpoint = endpoint(Protocol::OpenAi, &server.url());
        endpoint.attempts = attempts;
        assert_eq!(ask(&endpoint).unwrap_err().attempts, 1);
        assert_eq!(server.connections(), 1);
    }
}

#[test]
fn permanent_errors_are_not_retried() {
    for status in [400, 402, 404, 405, 422, 501] {
        fails(vec![Reply::new(status, "no")], Refused { status }, 1);
    }
    for status in [401, 403] {
        fails(vec![Reply::new(status, "no")], Auth, 1);
    }
    fails(vec![Reply::new(413, "no")], Overflow, 1);
    let broke = json!({"code": "insufficient_quota", "message": "You exceeded your quota"});
    fails(vec![error(429, broke)], RateLimited, 1);
}

#[test]
fn a_retry_after_the_deadline_is_not_started() {
    // Had the header been ignored, the second reply would have come.
    let busy = || Reply::new(429, "").header("retry-after", "3600");
    fails(vec![busy(), hello()], RateLimited, 1);

    let server = Server::start(vec![Reply::new(500, ""), hello()]);
    let mut endpoint = endpoint(Protocol::OpenAi, &server.url());
    endpoint.back_off = Duration::MAX;
    assert_eq!(ask(&endpoint).unwrap_err().kind, Refused { status: 500 });
    assert_eq!(server.connections(), 1);
}

#[test]
fn context_overflow_is_a_separate_error() {
    let too_long = [
        json!({
            "type": "invalid_request_error",
            "message": "prompt is too long: 233153 tokens > 200000 maximum",
        }),
        json!({
            "type": "invalid_request_error",
            "message": "input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000",
        }),
        json!({
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
            "message": "Your input is too much.",
        }),
        json!({"type": "exceed_context_size_error", "code": 400, "message": "too many"}),
        json!("This model's maximum context length is 8192 tokens."),
    ];
    for body in too_long {
        let failed = fails(vec![error(400, body)], Overflow, 1);
        assert!(failed.message().contains("answers 400: "), "{failed}");
    }
    // vLLM does not wrap it.
    let plain = json!({"object": "error", "message": "maximum context length is 8192 tokens"});
    fails(vec![Reply::json(400, plain)], Overflow, 1);
    // Only the server's own error counts, not text that it repeats.
    let other = json!({"message": "bad role", "input": "prompt is too long"});
    fails(vec![error(400, other)], Refused { status: 400 }, 1);
}

// Connection errors.

#[test]
fn a_refused_connection() {
    let error = ask(&endpoint(Protocol::OpenAi, &Server::nowhere())).unwrap_err();
    assert_eq!(error.kind, Unreachable);
    assert_eq!(error.attempts, 3);
}

#[test]
fn a_connection_that_is_closed_too_early() {
    fails(vec![Reply::closed(); 3], Unreachable, 3);
    fails(vec![hello().cut_after(20); 3], Unreachable, 3);
    // Without a length, the client cannot detect a truncated body.
    let half = Reply::new(200, r#"{"choices": [{"mess"#).until_closed();
    fails(vec![half], BadAnswer, 1);
}

#[test]
fn a_redirect_is_refused() {
    for status in [300, 301, 302, 303, 307, 308] {
        let other = Server::start(vec![hello()]);
        let away = Reply::new(status, "").header("location", &other.url());
        let error = fails(vec![away], Refused { status }, 1);
        assert!(error.message().contains("redirect"), "{error}");
        assert_eq!(other.connections(), 0);
    }
}

#[test]
fn bytes_that_are_not_http_are_an_error() {
    let server = Server::start(vec![Reply::raw("SSH-2.0-Server\r\n\r\n"); 2]);
    let error = ask(&endpoint(Protocol::OpenAi, &server.url())).unwrap_err();
    assert_eq!((error.kind, error.attempts), (BadAnswer, 1), "{error}");
    let tls = endpoint(Protocol::OpenAi, &format!("https://{}", server.address()));
    let error = ask(&tls).unwrap_err();
    assert_eq!((error.kind, error.attempts), (Unreachable, 1), "{error}");

    let long = "x".repeat(100_000);
    let error = fails(vec![hello().header("x-long", &long)], BadAnswer, 1);
    assert!(error.message().contains("cannot read"), "{error}");
}

#[test]
fn a_url_that_cannot_be_used() {
    for (url, says) in [
        ("", "not a URL"),
        ("localhost:1", "http:// or https://"),
        ("ftp://localhost", "http:// or https://"),
        ("http://", "http:// or https://"),
        ("http://a b", "not a URL"),
        (
            "http://me:sk-test-0123456789abcdef@localhost",
            "names a user",
        ),
        (
            "http://localhost?key=sk-test-0123456789abcdef",
            "has a query",
        ),
    ] {
        let endpoint = endpoint(Protocol::OpenAi, url);
        let error = ask(&endpoint).unwrap_err();
        assert_eq!((error.kind, error.attempts), (Unreachable, 0), "{error}");
        assert!(error.message().contains(says), "{error}");
    }
}

// The deadline.

#[test]
fn the_deadline_holds_against_a_silent_server() {
    times_out(Reply::silent());
}

#[test]
fn the_deadline_holds_against_a_slow_server() {
    times_out(hello().late(Duration::from_secs(2)));
}

#[test]
fn the_deadline_holds_against_a_dribbling_server() {
    let long = Reply::json(200, openai(&"x".repeat(5000)));
    times_out(long.clone().dribbled(Duration::from_millis(5)));
    times_out(long.dribbled_until_closed(Duration::from_millis(5)));
}

#[test]
fn the_deadline_holds_against_a_server_that_reads_slowly() {
    let server = Server::start(vec![Reply::sipping()]);
    let mut endpoint = endpoint(Protocol::OpenAi, &server.url());
    // Writing so large a request takes part of it.
    endpoint.deadline = 2 * SHORT;
    let start = Instant::now();
    let large = "x".repeat(8 << 20);
    let error = endpoint.complete("", &large, 64).unwrap_err();
    // More than the buffers on the way can hold, so that it is the sending
    // which is cut off.
    assert_eq!((error.kind, error.attempts), (Timeout, 1), "{error}");
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

#[test]
fn the_deadline_holds_for_all_attempts_together() {
    let slow = || Reply::new(500, "").late(Duration::from_millis(40));
    let server = Server::start((0..1000).map(|_| slow()).collect());
    let mut endpoint = endpoint(Protocol::OpenAi, &server.url());
    endpoint.deadline = SHORT;
    endpoint.attempts = u32::MAX;
    endpoint.back_off = Duration::ZERO;
    let start = Instant::now();
    let error = ask(&endpoint).unwrap_err();
    assert!(
        matches!(error.kind, Timeout | Refused { status: 500 }),
        "{error}"
    );
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

#[test]
fn a_failed_connection_is_retried_before_the_deadline() {
    // The server accepts the connection and never answers the TLS handshake.
    let server = Server::start(vec![Reply::sipping(), Reply::sipping()]);
    let mut endpoint = endpoint(Protocol::OpenAi, &format!("https://{}", server.address()));
    endpoint.deadline = Duration::from_millis(500);
    endpoint.attempts = 2;
    let error = ask(&endpoint).unwrap_err();
    assert_eq!((error.kind, error.attempts), (Timeout, 2), "{error}");
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_zero_deadline_sends_nothing_and_a_huge_one_is_accepted() {
    let server = Server::start(vec![hello()]);
    let mut endpoint = endpoint(Protocol::OpenAi, &server.url());
    endpoint.deadline = Duration::ZERO;
    let error = ask(&endpoint).unwrap_err();
    assert_eq!((error.kind, error.attempts), (Timeout, 0), "{error}");
    assert_eq!(server.connections(), 0);
    endpoint.deadline = Duration::MAX;
    ask(&endpoint).unwrap();
}

// Error messages.

#[test]
fn errors_do_not_contain_the_key() {
    let echoes = [
        format!("wrong key {KEY}"),
        format!("{} {KEY}", "x".repeat(190)),
        "wrong key sk-test-\u{0}0123456789\u{200b}abcdef".to_owned(),
        "wrong key sk-test-********cdef".to_owned(),
    ];
    for echo in echoes {
        let wrapped = error(401, json!({"message": echo}));
        for reply in [Reply::new(401, echo.clone()), wrapped] {
            let error = fails(vec![reply], Auth, 1);
            assert!(error.message().contains("***"), "{error}");
            assert!(!error.message().contains("cdef"), "{error}");
        }
        fails(vec![Reply::new(200, echo.clone())], BadAnswer, 1);
        let answer = json!({"error": echo});
        fails(vec![Reply::json(200, answer)], BadAnswer, 1);
    }
    let mut endpoint = endpoint(Protocol::OpenAi, "http://me:pw@localhost?q=pw");
    assert!(!format!("{endpoint:?}").contains(KEY));
    assert!(!format!("{endpoint:#?}").contains("pw"));
    assert!(format!("{endpoint:?}").contains("model-1"));

    // A key that no header can contain is not sent, and not printed, either.
    endpoint.base_url = Server::nowhere();
    endpoint.api_key = Some("sk-\nsecret".into());
    let error = ask(&endpoint).unwrap_err();
    assert_eq!((error.kind, error.attempts), (Auth, 0));
    assert!(!format!("{error:?}").contains("secret"));
}

#[test]
fn errors_are_quoted_in_one_short_line() {
    let page = format!("<html>\r\n\x1b[2J{}</html>", "long ".repeat(20_000));
    let error = fails(vec![Reply::new(400, page)], Refused { status: 400 }, 1);
    assert!(
        error.message().contains("answers 400: <html> [2Jlong long"),
        "{error}"
    );
    assert!(error.message().ends_with('…'), "{error}");
}
