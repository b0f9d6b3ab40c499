//! Listening to what happens in a session.

use serde_json::{Value, json};

use crate::support::{Lab, Running, Wire, talk, turn, until};

/// Opens a stream of events and waits until it has begun.
fn listen(server: &Running, key: Option<&str>, label: &str) -> Wire {
    let key = key.map_or_else(String::new, |key| {
        format!("authorization: Bearer {key}\r\n")
    });
    listen_with(server, &key, label)
}

/// Opens a stream of events with more headers.
fn listen_with(server: &Running, headers: &str, label: &str) -> Wire {
    let mut wire = server.connect();
    wire.send(format!(
        "GET /v1/sessions/{label}/events HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n"
    ));
    let head = wire.until("\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(
        head.contains("content-type: text/event-stream\r\n"),
        "{head}"
    );
    wire
}

/// Reads the next event: its id, its name and its data.
fn next(wire: &mut Wire) -> (String, String, Value) {
    let mut event = (String::new(), String::new(), Value::Null);
    loop {
        // Chunk sizes have their own lines, which are not fields.
        let line = wire.until("\n");
        assert!(!line.is_empty(), "the stream ended");
        match line.trim_end().split_once(':') {
            Some(("id", id)) => event.0 = id.trim().to_owned(),
            Some(("event", name)) => event.1 = name.trim().to_owned(),
            Some(("data", data)) => event.2 = serde_json::from_str(data.trim()).unwrap(),
            _ if line == "\n" && !event.1.is_empty() => return event,
            _ => {}
        }
    }
}

#[test]
fn events_of_a_session_are_sent_in_order() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    talk(&client, "s", "First.");
    talk(&client, "other", "First.");
    client
        .patch("/v1/sessions/s", r#"{"alias":"nick"}"#)
        .ok(200);
    // An alias leads to the session.
    let mut wire = listen(&server, None, "nick");
    let recorded = client
        .post("/v1/sessions/nick/turns", &turn("Second."))
        .ok(201)
        .json();
    // Events of other sessions are not sent.
    client
        .post("/v1/sessions/other/turns", &turn("Elsewhere."))
        .ok(201);
    let request = r#"{"session":"s","recipe":"broker","event":"And?","model":"gpt-4o"}"#;
    let assembled = client.post("/v1/assemble", request).ok(200).json();
    for i in 0..6 {
        client
            .post(
                "/v1/sessions/s/turns",
                &turn(&format!("turn {i} {}", "word ".repeat(2000))),
            )
            .ok(201);
    }
    let compacted = client
        .post("/v1/sessions/s/compact", r#"{"max_tokens":4000}"#)
        .ok(200)
        .json();
    assert_eq!(
        next(&mut wire),
        (
            "3".to_owned(),
            "turn_recorded".to_owned(),
            json!({"type": "turn_recorded", "session": "s", "turn_id": recorded["turn_id"], "number": 2})
        )
    );
    let (id, name, event) = next(&mut wire);
    // An event of another session has the number in between.
    assert_eq!((id.as_str(), name.as_str()), ("5", "assembled"));
    assert_eq!(event["session"], "s");
    assert_eq!(event["recipe"], "broker");
    assert_eq!(event["model"], "gpt-4o");
    assert_eq!(event["snapshot"], assembled["snapshot"]);
    for number in 3..9 {
        let (_, name, event) = next(&mut wire);
        assert_eq!(
            (name.as_str(), &event["number"]),
            ("turn_recorded", &json!(number))
        );
    }
    let (_, name, event) = next(&mut wire);
    assert_eq!(name, "compacted");
    assert_eq!(
        event,
        json!({"type": "compacted", "session": "s", "turn_id": compacted["compacted"]["turn_id"]})
    );
}

#[test]
fn a_retried_turn_gives_one_event() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    talk(&client, "s", "First.");
    let mut wire = listen(&server, None, "s");
    let once = r#"{"messages":[{"role":"user","content":"Once."}],"idempotency_key":"k"}"#;
    client.post("/v1/sessions/s/turns", once).ok(201);
    client.post("/v1/sessions/s/turns", once);
    client.post("/v1/sessions/s/turns", &turn("Then.")).ok(201);
    assert_eq!(next(&mut wire).2["number"], 2);
    assert_eq!(next(&mut wire).2["number"], 3);
}

#[test]
fn events_are_not_sent_to_other_tenants() {
    let lab = Lab::new();
    let (harbour, island) = (lab.key("harbour"), lab.key("island"));
    let server = lab.serve();
    for key in [&harbour, &island] {
        talk(&server.with_key(key), "s", "First.");
    }
    let mut wire = listen(&server, Some(&island), "s");
    server
        .with_key(&harbour)
        .post("/v1/sessions/s/turns", &turn("Ours."))
        .ok(201);
    let mine = server
        .with_key(&island)
        .post("/v1/sessions/s/turns", &turn("Mine."))
        .ok(201)
        .json();
    let (id, _, event) = next(&mut wire);
    // Not even a number was used for what happened there.
    assert_eq!(id, "2");
    assert_eq!(event["turn_id"], mine["turn_id"]);
}

#[test]
fn the_number_of_listeners_is_limited() {
    let lab = Lab::new().with(|server| server.max_listeners = 2);
    let server = lab.serve();
    talk(&server.anybody(), "s", "First.");
    let first = listen(&server, None, "s");
    let _second = listen(&server, None, "s");
    let refused = server.get("/v1/sessions/s/events");
    assert_eq!(
        refused.text(),
        "503 unavailable: too many listeners, or the server is stopping [retry later, or raise \
         `max_listeners` in the server's settings]"
    );
    assert_eq!(refused.header("retry-after"), Some("1"));
    // One leaves, and there is room. That it left is noticed when something is
    // sent to it.
    drop(first);
    until(|| {
        server
            .post("/v1/sessions/s/turns", &turn("Anybody?"))
            .ok(201);
        let mut wire = server.connect();
        wire.send("GET /v1/sessions/s/events HTTP/1.1\r\nhost: localhost\r\n\r\n");
        wire.until("\r\n").contains("200 OK").then_some(())
    });
}

#[test]
fn a_stream_ends_when_its_key_is_revoked() {
    let lab = Lab::new();
    let (key, other) = (lab.key("harbour"), lab.key("harbour"));
    let server = lab.serve();
    talk(&server.with_key(&key), "s", "First.");
    let mut wire = listen(&server, Some(&key), "s");
    lab.revoke(&key);
    let rest = wire.rest();
    assert!(rest.ends_with("0\r\n\r\n"), "whole to its end: {rest:?}");
    // Others of the tenant go on.
    let mut wire = listen(&server, Some(&other), "s");
    let client = server.with_key(&other);
    client
        .post("/v1/sessions/s/turns", &turn("Second."))
        .ok(201);
    assert_eq!(next(&mut wire).1, "turn_recorded");
}

#[test]
fn a_stream_without_a_key_ends_when_the_first_key_is_created() {
    let lab = Lab::new();
    let server = lab.serve();
    talk(&server.anybody(), "s", "First.");
    let mut wire = listen(&server, None, "s");
    lab.key("");
    let rest = wire.rest();
    assert!(rest.ends_with("0\r\n\r\n"), "whole to its end: {rest:?}");
}

#[test]
fn a_tenant_with_listeners_stays_loaded() {
    let lab = Lab::new();
    let harbour = lab.key("harbour");
    // More than are kept ready.
    let others: Vec<String> = (0..260).map(|i| lab.key(&format!("t{i}"))).collect();
    let server = lab.serve();
    let client = server.with_key(&harbour);
    talk(&client, "s", "First.");
    let mut wire = listen(&server, Some(&harbour), "s");
    for other in &others {
        server.with_key(other).get("/v1/sessions").ok(200);
    }
    client
        .post("/v1/sessions/s/turns", &turn("Second."))
        .ok(201);
    assert_eq!(next(&mut wire).2["number"], 2);
}

#[test]
fn streams_end_when_the_server_stops() {
    let lab = Lab::new();
    let mut server = lab.serve();
    talk(&server.anybody(), "s", "First.");
    let mut wire = listen(&server, None, "s");
    server.say_stop();
    let rest = wire.rest();
    assert!(rest.ends_with("0\r\n\r\n"), "whole to its end: {rest:?}");
}

#[test]
fn a_client_that_connects_again_gets_what_it_missed() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    talk(&client, "s", "First.");
    let mut wire = listen(&server, None, "s");
    client
        .post("/v1/sessions/s/turns", &turn("Second."))
        .ok(201);
    let (id, _, _) = next(&mut wire);
    drop(wire);
    for text in ["Third.", "Fourth."] {
        client.post("/v1/sessions/s/turns", &turn(text)).ok(201);
    }
    let mut wire = listen_with(&server, &format!("last-event-id: {id}\r\n"), "s");
    client.post("/v1/sessions/s/turns", &turn("Fifth.")).ok(201);
    for number in 3..=5 {
        assert_eq!(next(&mut wire).2["number"], number);
    }
    // More than are read at once.
    for i in 0..300 {
        let text = format!("Turn {i}.");
        client.post("/v1/sessions/s/turns", &turn(&text)).ok(201);
    }
    let mut wire = listen_with(&server, "last-event-id: 5\r\n", "s");
    for number in 6..=305 {
        assert_eq!(next(&mut wire).2["number"], number);
    }
}

#[test]
fn a_last_event_that_the_store_does_not_have_is_reported() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    talk(&client, "s", "First.");
    let mut wire = listen_with(&server, "last-event-id: 1000\r\n", "s");
    let (_, name, event) = next(&mut wire);
    assert_eq!(name, "missed");
    assert_eq!(event, json!({"type": "missed", "missed": null}));
    client
        .post("/v1/sessions/s/turns", &turn("Second."))
        .ok(201);
    assert_eq!(next(&mut wire).2["number"], 2);
    let mut wire = server.connect();
    wire.send("GET /v1/sessions/s/events HTTP/1.1\r\nhost: localhost\r\nlast-event-id: x\r\n\r\n");
    assert!(wire.until("\r\n").contains("400 "));
}
