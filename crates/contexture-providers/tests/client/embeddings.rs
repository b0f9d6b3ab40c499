//! Vectors of texts.

use std::time::Duration;

use contexture_providers::client::CallErrorKind::{
    Auth, BadAnswer, RateLimited, Refused, Timeout, Unreachable,
};
use contexture_providers::client::{CallError, CallErrorKind, EmbeddingsApi};
use serde_json::{Value, json};

use crate::support::{Reply, Server};
use crate::{KEY, SHORT};

fn api(url: &str) -> EmbeddingsApi {
    EmbeddingsApi {
        api_key: Some(KEY.into()),
        ..EmbeddingsApi::new(url, "model-1")
    }
}

fn embed(api: &EmbeddingsApi, texts: &[&str]) -> Result<Vec<Vec<f32>>, CallError> {
    let result = api.embed(texts);
    if let Err(error) = &result {
        // Properties of every error are checked on every error.
        let shown = format!("{error} {error:?} {api:?}");
        assert!(!shown.contains(KEY), "{shown}");
        assert!(!error.message().contains(char::is_control), "{shown}");
        assert!(error.message().chars().count() < 400, "{shown}");
    }
    result
}

/// Asks for the vectors of two texts; returns how that failed.
#[track_caller]
fn fails(script: Vec<Reply>, expected: CallErrorKind, attempts: usize, says: &str) -> CallError {
    let server = Server::start(script);
    let error = embed(&api(&server.url()), &["a", "b"]).unwrap_err();
    assert_eq!(error.kind, expected, "{error}");
    assert_eq!(error.attempts as usize, attempts, "{error}");
    assert_eq!(server.connections(), attempts, "{error}");
    assert!(error.message().contains(says), "{error}");
    error
}

/// An answer with these vectors under these indices.
fn vectors(rows: &[(usize, &[f32])]) -> Value {
    let data: Vec<Value> = rows
        .iter()
        .map(|(index, vector)| json!({"object": "embedding", "index": index, "embedding": vector}))
        .collect();
    json!({
        "object": "list",
        "data": data,
        "model": "model-1",
        "usage": {"prompt_tokens": 2, "total_tokens": 2},
    })
}

fn reply(rows: &[(usize, &[f32])]) -> Reply {
    Reply::json(200, vectors(rows))
}

fn good() -> Reply {
    reply(&[(0, &[1.0, 2.0]), (1, &[3.0, 4.0])])
}

/// Returns the texts of each request that arrived.
fn inputs(server: &Server) -> Vec<Vec<String>> {
    let texts = |body: &str| {
        let body: Value = serde_json::from_str(body).unwrap();
        serde_json::from_value(body["input"].clone()).unwrap()
    };
    let requests = server.requests();
    requests.iter().map(|r| texts(&r.body)).collect()
}

// Requests.

#[test]
fn the_request() {
    let server = Server::start(vec![good(), good()]);
    let mut api = api(&server.url());
    embed(&api, &["a", "é\n"]).unwrap();
    api.base_url = format!("{}/api/v4/", server.url());
    api.dimensions = Some(2);
    api.api_key = None;
    embed(&api, &["a", "b"]).unwrap();
    let [first, second] = &server.requests()[..] else {
        panic!("two requests")
    };
    assert_eq!(first.line, "POST /v1/embeddings HTTP/1.1");
    assert_eq!(
        first.body,
        r#"{"model":"model-1","input":["a","é\n"],"encoding_format":"float"}"#
    );
    let bearer = format!("Bearer {KEY}");
    assert_eq!(first.header("authorization"), Some(bearer.as_str()));
    assert_eq!(second.line, "POST /api/v4/embeddings HTTP/1.1");
    assert_eq!(
        second.body,
        r#"{"model":"model-1","input":["a","b"],"encoding_format":"float","dimensions":2}"#
    );
    assert_eq!(second.header("authorization"), None);
}

#[test]
fn no_texts_need_no_call() {
    let server = Server::start(vec![good()]);
    assert_eq!(embed(&api(&server.url()), &[]).unwrap().len(), 0);
    assert_eq!(server.connections(), 0);
    // Not even an address that could be used, or time.
    let mut api = api("nowhere");
    api.deadline = Duration::ZERO;
    assert_eq!(embed(&api, &[]).unwrap().len(), 0);
}

#[test]
fn many_texts_are_sent_in_batches() {
    let server = Server::start(vec![
        reply(&[(1, &[2.0]), (0, &[1.0])]),
        reply(&[(1, &[4.0]), (0, &[3.0])]),
        reply(&[(0, &[5.0])]),
    ]);
    let mut api = api(&server.url());
    api.batch = 2;
    let found = embed(&api, &["a", "b", "c", "d", "e"]).unwrap();
    assert_eq!(found.concat(), [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(inputs(&server), [vec!["a", "b"], vec!["c", "d"], vec!["e"]]);

    // Zero would be a batch that never ends.
    let server = Server::start(vec![reply(&[(0, &[1.0])]), reply(&[(0, &[2.0])])]);
    api.base_url = server.url();
    api.batch = 0;
    assert_eq!(embed(&api, &["a", "b"]).unwrap().concat(), [1.0, 2.0]);
}

#[test]
fn long_texts_are_sent_in_batches() {
    let (small, large) = ("x".repeat(100 * 1024), "y".repeat(300 * 1024));
    let one = || reply(&[(0, &[0.5])]);
    let server = Server::start(vec![
        reply(&[(0, &[1.0]), (1, &[1.0])]),
        one(),
        one(),
        one(),
    ]);
    let texts = [&*small, &small, &small, &large, "z"];
    assert_eq!(embed(&api(&server.url()), &texts).unwrap().len(), 5);
    let sizes: Vec<usize> = inputs(&server).iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 1, 1, 1]);
}

// Responses.

#[test]
fn vectors_are_in_the_order_of_their_texts() {
    let shuffled = || reply(&[(2, &[0.5, -2.0]), (0, &[1e-9, 0.0]), (1, &[3.0, 4.0])]);
    for reply in [shuffled(), shuffled().chunked(), shuffled().until_closed()] {
        let server = Server::start(vec![reply]);
        let found = embed(&api(&server.url()), &["a", "b", "c"]).unwrap();
        // They are not normalised, either.
        assert_eq!(found, [[1e-9, 0.0], [3.0, 4.0], [0.5, -2.0]]);
    }
}

#[test]
fn unused_fields_can_be_missing_or_invalid() {
    let answer = json!({
        "usage": "none",
        "data": [{"embedding": [1], "index": 0, "object": null}],
        "extra": [{}],
    });
    let server = Server::start(vec![Reply::json(200, answer)]);
    assert_eq!(embed(&api(&server.url()), &["a"]).unwrap(), [[1.0]]);
}

#[test]
fn a_wrong_number_of_vectors() {
    for (rows, says) in [
        (&[][..], "0 vectors for 2 texts"),
        (&[(0, &[1.0][..])][..], "1 vectors for 2 texts"),
        (
            &[(0, &[1.0][..]), (1, &[1.0]), (2, &[1.0])],
            "3 vectors for 2 texts",
        ),
    ] {
        fails(vec![reply(rows)], BadAnswer, 1, says);
    }
}

#[test]
fn missing_and_duplicate_indices_are_errors() {
    let twice = reply(&[(1, &[1.0]), (1, &[2.0])]);
    fails(vec![twice], BadAnswer, 1, "two vectors with the index 1");
    let beyond = reply(&[(0, &[1.0]), (2, &[2.0])]);
    fails(vec![beyond], BadAnswer, 1, "index 2 for 2 texts");
    let mut answer = vectors(&[(0, &[1.0]), (1, &[2.0])]);
    for index in [json!(-1), json!(null), json!("1"), json!(0.5)] {
        answer["data"][1]["index"] = index;
        let reply = Reply::json(200, answer.clone());
        fails(vec![reply], BadAnswer, 1, "not in the form");
    }
    answer["data"][1] = json!({"embedding": [1.0]});
    let reply = Reply::json(200, answer);
    fails(vec![reply], BadAnswer, 1, "missing field `index`");
}

#[test]
fn vectors_of_the_wrong_length() {
    for (rows, says) in [
        ([(0, &[1.0][..]), (1, &[1.0, 2.0])], "1 and 2 numbers"),
        ([(0, &[1.0]), (1, &[])], "1 and 0 numbers"),
        ([(0, &[]), (1, &[])], "without numbers"),
    ] {
        fails(vec![reply(&rows)], BadAnswer, 1, says);
    }
    // A server that does not know `dimensions` ignores it.
    let server = Server::start(vec![good()]);
    let mut api = api(&server.url());
    api.dimensions = Some(3);
    let error = embed(&api, &["a", "b"]).unwrap_err();
    assert_eq!(error.kind, BadAnswer);
    assert!(error.message().contains("of 2 numbers, where 3"), "{error}");
    // Between two requests, the server changed its model.
    let server = Server::start(vec![reply(&[(0, &[1.0])]), reply(&[(0, &[1.0, 2.0])])]);
    api.base_url = server.url();
    api.dimensions = None;
    api.batch = 1;
    let error = embed(&api, &["a", "b"]).unwrap_err();
    assert_eq!(error.kind, BadAnswer);
    assert!(error.message().contains("1 and 2 numbers"), "{error}");
}

#[test]
fn numbers_that_are_not_finite_are_errors() {
    for (number, says) in [
        ("1e999", "out of range"),
        ("-1e999", "out of range"),
        ("NaN", "not JSON"),
        ("Infinity", "not JSON"),
        ("null", "null"),
        ("true", "boolean"),
        ("\"NaN\"", "string"),
        ("[1]", "sequence"),
    ] {
        let body = format!(
            r#"{{"data":[{{"index":0,"embedding":[1,{number}]}},{{"index":1,"embedding":[1,2]}}]}}"#
        );
        fails(vec![Reply::new(200, body)], BadAnswer, 1, says);
    }
    // Finite in JSON, and too large for what is returned.
    for number in [1e39, -1e39, f64::MAX] {
        let answer = json!({"data": [{"index": 0, "embedding": [number]}]});
        let server = Server::start(vec![Reply::json(200, answer)]);
        let error = embed(&api(&server.url()), &["a"]).unwrap_err();
        assert_eq!(error.kind, BadAnswer, "{error}");
    }
}

#[test]
fn an_answer_without_vectors() {
    let told = Reply::json(200, json!({"error": {"message": "no backend"}}));
    fails(vec![told], BadAnswer, 1, "no vectors: no backend");
    for answer in [json!({}), json!({"data": null})] {
        fails(vec![Reply::json(200, answer)], BadAnswer, 1, "no vectors");
    }
    for answer in [json!([1]), json!("x"), json!({"data": {}})] {
        fails(
            vec![Reply::json(200, answer)],
            BadAnswer,
            1,
            "not in the form",
        );
    }
    // Base64, which was not asked for.
    let answer = json!({"data": [{"index": 0, "embedding": "AACAPwAAAEA="}]});
    fails(vec![Reply::json(200, answer)], BadAnswer, 1, "a sequence");
}

#[test]
fn invalid_json_instead_of_vectors_is_an_error() {
    for junk in ["", "<html>Bad Gateway</html>", "\u{0}"] {
        fails(vec![Reply::new(200, junk)], BadAnswer, 1, "not JSON");
    }
    let whole = vectors(&[(0, &[1.0]), (1, &[2.0])]).to_string();
    for end in [1, whole.len() / 2, whole.len() - 1] {
        let half = Reply::new(200, &whole[..end]);
        fails(vec![half.clone()], BadAnswer, 1, "not JSON");
        fails(vec![half.until_closed()], BadAnswer, 1, "not JSON");
    }
    let deep = format!(r#"{{"data":{}"#, "[".repeat(50_000));
    fails(vec![Reply::new(200, deep)], BadAnswer, 1, "not");
}

#[test]
fn an_endless_answer() {
    // The limit grows with the request, here two vectors.
    let says = format!("larger than {} bytes", (64 + 2 * 512) * 1024);
    for body in [" ", "x", "[1,"] {
        let endless = Reply::new(200, body.repeat(1000)).endless();
        fails(vec![endless], BadAnswer, 1, &says);
    }
}

#[test]
fn the_longest_vectors_can_be_read() {
    let long: Vec<f32> = (0..16_384).map(|n| -1.0 / (n as f32 + 3.0)).collect();
    let server = Server::start(vec![reply(&[(0, &long)])]);
    assert_eq!(embed(&api(&server.url()), &["a"]).unwrap(), [long]);
}

// Connection errors.

#[test]
fn a_server_that_is_down() {
    let error = embed(&api(&Server::nowhere()), &["a"]).unwrap_err();
    assert_eq!((error.kind, error.attempts), (Unreachable, 3), "{error}");
    assert!(
        error.message().starts_with("no answer from 127."),
        "{error}"
    );

    let error = embed(&api("nowhere"), &["a"]).unwrap_err();
    assert_eq!((error.kind, error.attempts), (Unreachable, 0), "{error}");
}

#[test]
fn the_deadline_holds_for_a_request() {
    for slow in [
        Reply::silent(),
        good().late(Duration::from_secs(60)),
        good().dribbled(Duration::from_secs(1)),
        good().dribbled_until_closed(Duration::from_secs(1)),
    ] {
        let server = Server::start(vec![slow]);
        let mut api = api(&server.url());
        api.deadline = SHORT;
        let error = embed(&api, &["a", "b"]).unwrap_err();
        assert_eq!(error.kind, Timeout, "{error}");
        assert!(error.message().ends_with("no answer in 250ms"), "{error}");
    }
}

#[test]
fn the_deadline_is_one_for_all_requests() {
    // Each of them is answered in time, were it alone.
    let slow = || reply(&[(0, &[1.0])]).late(SHORT / 2);
    let server = Server::start((0..100).map(|_| slow()).collect());
    let mut api = api(&server.url());
    api.deadline = 2 * SHORT;
    api.batch = 1;
    let error = embed(&api, &["a"; 100]).unwrap_err();
    assert_eq!(error.kind, Timeout, "{error}");
    assert!(error.message().ends_with("no answer in 500ms"), "{error}");
}

#[test]
fn temporary_errors_are_retried() {
    let busy = || Reply::new(429, "").header("retry-after", "0");
    for script in [
        vec![busy(), good()],
        vec![busy(), Reply::new(503, ""), good()],
        vec![Reply::closed(), good().cut_after(10), good()],
    ] {
        let asked = script.len();
        let server = Server::start(script);
        assert_eq!(embed(&api(&server.url()), &["a", "b"]).unwrap().len(), 2);
        assert_eq!(server.connections(), asked);
    }
    let busy = |status| (0..9).map(|_| Reply::new(status, "later")).collect();
    fails(busy(429), RateLimited, 3, "answers 429: later");
    fails(busy(500), Refused { status: 500 }, 3, "answers 500: later");
}

#[test]
fn a_retry_after_the_deadline_is_not_started() {
    let busy = Reply::new(429, "").header("retry-after", "3600");
    fails(vec![busy, good()], RateLimited, 1, "answers 429");
}

#[test]
fn errors_of_the_server_do_not_contain_the_key() {
    for echo in [
        format!("wrong key {KEY}"),
        "wrong key sk-test-**cdef".into(),
    ] {
        let refused = Reply::json(401, json!({"error": {"message": echo}}));
        fails(vec![refused], Auth, 1, "answers 401: wrong key ***");
        // As it would be where a server repeats it in place of a vector.
        let answer = json!({"data": [{"index": 0, "embedding": echo}]});
        fails(vec![Reply::json(200, answer)], BadAnswer, 1, "***");
    }
    let unknown = Reply::json(404, json!({"error": "model \"model-1\" not found"}));
    let status = Refused { status: 404 };
    fails(vec![unknown], status, 1, r#"model "model-1" not found"#);

    let api = api("http://me:pw@localhost?q=pw");
    let shown = format!("{api:?} {api:#?}");
    assert!(!shown.contains(KEY) && !shown.contains("pw"), "{shown}");
    assert!(shown.contains("model-1"), "{shown}");
}
