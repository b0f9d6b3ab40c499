//! Bodies of providers are recorded as they come, and keys are honoured.

use serde_json::{Value, json};

use crate::support::{Answer, Lab, Running};

fn server() -> (Lab, Running) {
    let lab = Lab::new();
    let server = lab.serve();
    server.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    (lab, server)
}

/// Sends a turn with headers of its own.
fn post(server: &Running, headers: &str, body: &str) -> Answer {
    let head = format!(
        "POST /v1/sessions/s/turns HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: \
         {}\r\n\r\n",
        body.len()
    );
    server.raw([head.as_bytes(), body.as_bytes()].concat())
}

const JSON: &str = "content-type: application/json\r\n";

const SEALED: &str = r#"{"type":"redacted_thinking","n":1.50,"data":"c2Vj"}"#;

fn response() -> String {
    format!(
        r#"{{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-5-5",
            "content":[{SEALED},{{"type":"text","text":"Late."}}],"stop_reason":"refusal",
            "usage":{{"input_tokens":10,"output_tokens":2}}}}"#
    )
}

fn latest(server: &Running) -> Value {
    let history = server.get("/v1/sessions/s/history?limit=1").json();
    history["turns"][0].clone()
}

#[test]
fn a_response_is_recorded_as_it_came() {
    let (_lab, server) = server();
    let body = format!(
        r#"{{"provider":"anthropic","request":{{"model":"claude-sonnet-5-5","max_tokens":9,
            "messages":[{{"role":"user","content":"Is the ferry late?"}}]}},"response":{}}}"#,
        response()
    );
    post(&server, JSON, &body).ok(201);
    let turn = latest(&server);
    assert_eq!(turn["stop_reason"], "refusal");
    assert_eq!(turn["provider"], "anthropic");
    assert_eq!(turn["usage"]["input_tokens"], 10);
    assert_eq!(turn["messages"][0]["role"], "user");
    // Numbers keep their spelling in the answer, too.
    let history = server.get("/v1/sessions/s/history?limit=1").text();
    assert!(history.contains(SEALED), "{history}");
    let ask = json!({"recipe": "broker", "session": "s", "event": "And now?",
                     "model": "claude-sonnet-5-5", "format": "anthropic"});
    let assembled = server.post("/v1/assemble", &ask.to_string()).ok(200).text();
    assert!(assembled.contains("redacted_thinking"), "{assembled}");
    // The response alone.
    post(&server, JSON, &response()).ok(201);
    assert_eq!(latest(&server)["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn a_stream_is_recorded_as_it_came() {
    let (_lab, server) = server();
    server
        .post(
            "/v1/sessions/s/turns",
            r#"{"messages":[{"role":"user","content":"Late?"}]}"#,
        )
        .ok(201);
    let stream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"By té\"}}],\"model\":\"gpt-5.5\"}\n\n\
                  data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"n.\"},\"finish_reason\":\"stop\"}]}\n\n\
                  data: [DONE]\n\n";
    post(&server, "content-type: text/event-stream\r\n", stream).ok(201);
    assert_eq!(
        latest(&server)["messages"][0]["content"][0]["text"],
        "By tén."
    );
    let wrapped = json!({"provider": "openai", "response": stream}).to_string();
    post(&server, JSON, &wrapped).ok(201);
    let half = stream
        .split("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"n.")
        .next();
    let refused = post(
        &server,
        "content-type: text/event-stream\r\n",
        half.unwrap(),
    );
    assert!(
        refused
            .text()
            .starts_with("422 invalid: the stream was cut off: it has no `finish_reason`"),
        "{}",
        refused.text()
    );
    let refused = post(&server, "content-type: text/event-stream\r\n", "hello");
    assert_eq!(
        refused.text(),
        "422 invalid: is empty: the stream has no event"
    );
    assert_eq!(server.get("/v1/sessions/s").json()["turns"], 3);
}

#[test]
fn a_body_of_no_provider_is_refused_with_its_path() {
    let (_lab, server) = server();
    for (body, said) in [
        (
            r#"{"provider":"gemini","response":{"choices":[]}}"#,
            "422 invalid: response: is a response of openai-chat, not of gemini",
        ),
        (
            r#"{"response":{"content":[{"type":"tool_use"}],"role":"assistant"}}"#,
            "422 invalid: response.content[0].id: is missing",
        ),
        (
            r#"{"provider":"acme","response":{}}"#,
            "422 invalid: provider: unknown provider `acme`",
        ),
        (r#"{"hello":1}"#, "400 invalid_field"),
    ] {
        let refused = post(&server, JSON, body).text();
        assert!(refused.starts_with(said), "{refused}");
    }
    assert_eq!(server.get("/v1/sessions/s").json()["turns"], 0);
}

#[test]
fn the_header_is_a_key_that_agrees_with_the_body() {
    let (_lab, server) = server();
    let turn = r#"{"messages":[{"role":"user","content":"Late?"}]}"#;
    let keyed = format!("{JSON}Idempotency-Key: k1\r\n");
    let first = post(&server, &keyed, turn).ok(201).json();
    let again = post(&server, &keyed, turn).ok(201).json();
    assert_eq!(first["turn_id"], again["turn_id"]);
    assert_eq!(again["replayed"], true);
    let own = turn.replace("]}", r#"],"idempotency_key":"k1"}"#);
    assert_eq!(post(&server, &keyed, &own).ok(201).json()["replayed"], true);
    let other = own.replace("k1", "k2");
    let refused = post(&server, &keyed, &other).text();
    assert!(
        refused.starts_with("422 invalid: is `k2`, but the header `Idempotency-Key` is `k1`"),
        "{refused}"
    );
    let empty = format!("{JSON}Idempotency-Key: \r\n");
    let refused = post(&server, &empty, turn).text();
    assert!(
        refused.contains("the header `Idempotency-Key` is empty"),
        "{refused}"
    );
    // A response is recorded once, too, though the session has moved on.
    let body = format!(
        r#"{{"request":{{"model":"claude-sonnet-5-5","max_tokens":9,"messages":[
            {{"role":"user","content":"Late?"}}]}},"response":{}}}"#,
        response()
    );
    let keyed = format!("{JSON}Idempotency-Key: k3\r\n");
    let first = post(&server, &keyed, &body).ok(201).json();
    let again = post(&server, &keyed, &body).ok(201).json();
    assert_eq!(
        (&first["turn_id"], &again["replayed"]),
        (&again["turn_id"], &json!(true))
    );
}

#[test]
fn null_needs_an_empty_session() {
    let (_lab, server) = server();
    let turn = r#"{"messages":[{"role":"user","content":"Late?"}],"parent_turn_id":null}"#;
    post(&server, JSON, turn).ok(201);
    let refused = post(&server, JSON, turn).text();
    assert!(refused.starts_with("409 conflict: "), "{refused}");
    assert!(refused.contains("nothing was recorded"), "{refused}");
    assert_eq!(server.get("/v1/sessions/s").json()["turns"], 1);
}

#[test]
fn an_opaque_block_of_our_own_form_keeps_its_bytes() {
    let (_lab, server) = server();
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"Late?"}},{{"role":"assistant","content":[
            {{"type":"provider","provider":"anthropic","raw":{SEALED}}}]}}]}}"#
    );
    post(&server, JSON, &body).ok(201);
    let history = server.get("/v1/sessions/s/history?limit=1").text();
    assert!(history.contains(SEALED), "{history}");
}
