//! Clients that send slowly, send too much, open many connections or
//! disconnect.

use std::thread;
use std::time::Duration;

use crate::support::{Lab, Running, Wire, talk, turn, until};

const HEAD: &str = "GET /v1/sessions HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Sends a byte at a time until the server hangs up or all is sent.
fn drip(wire: &mut Wire, bytes: &[u8]) {
    for byte in bytes {
        if !wire.send([*byte]) {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_slow_request_head_times_out() {
    let lab = Lab::new().with(|server| server.header_timeout_ms = 200);
    let server = lab.serve();
    let mut wire = server.connect();
    let long = format!(
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n",
        "x".repeat(400)
    );
    drip(&mut wire, long.as_bytes());
    let said = wire.rest();
    assert!(!said.contains("200 OK"), "{said}");
    // A silent connection is closed, too, at first or after a response.
    assert_eq!(server.connect().rest(), "");
    let mut wire = server.connect();
    wire.send(HEAD);
    wire.answer().ok(200);
    assert_eq!(wire.rest(), "");
    server.get("/healthz").ok(200);
}

#[test]
fn a_slow_request_body_times_out_with_status_408() {
    let lab = Lab::new().with(|server| server.body_timeout_ms = 200);
    let server = lab.serve();
    server.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    let body = turn(&"slow ".repeat(100));
    let mut wire = server.connect();
    wire.send(format!(
        "POST /v1/sessions/s/turns HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
         application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    ));
    // It is answered before all of it is there.
    drip(&mut wire, &body.as_bytes()[..30]);
    let said = wire.answer();
    assert_eq!(said.text(), "408 timeout: the body did not arrive in time");
    assert_eq!(wire.rest(), "");
    assert_eq!(server.get("/v1/sessions/s").json()["turns"], 0);
}

/// Begins a stream of records and leaves it open.
fn stream(server: &Running, key: Option<&str>, lines: &str) -> Wire {
    let key = key.map_or_else(String::new, |key| {
        format!("authorization: Bearer {key}\r\n")
    });
    let mut wire = server.connect();
    wire.send(format!(
        "POST /v1/memory/records HTTP/1.1\r\nhost: localhost\r\n{key}expect: \
         100-continue\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: \
         chunked\r\n\r\n"
    ));
    // It has begun.
    let head = wire.until("\r\n\r\n");
    assert!(head.contains("100 Continue"), "{head}");
    wire.send(format!("{:x}\r\n{lines}\r\n", lines.len()));
    wire
}

const EVENT: &str = "{\"kind\":\"event\",\"content\":\"The ferry is late.\"}\n";

#[test]
fn idle_streams_do_not_block_other_calls() {
    let lab = Lab::new().with(|server| {
        server.max_concurrent = 1;
        server.body_timeout_ms = 600_000;
    });
    let (harbour, island) = (lab.key("harbour"), lab.key("island"));
    let server = lab.serve();
    let client = server.with_key(&harbour);
    let mut streams: Vec<Wire> = (0..4)
        .map(|_| stream(&server, Some(&harbour), EVENT))
        .collect();
    // Other work goes on, of this tenant and of others.
    talk(&client, "s", "Is anybody there?");
    talk(&server.with_key(&island), "s", "Is anybody there?");
    let lines = [("content-type", "application/x-ndjson")];
    let refused = client.send("POST", "/v1/memory/records", &lines, Some(EVENT));
    assert_eq!(
        refused.text(),
        "503 unavailable: the limit of 4 open record streams is reached [wait until a stream has \
         ended, or send more records in one stream]"
    );
    for wire in &mut streams {
        wire.send("0\r\n\r\n");
        wire.answer().ok(200);
    }
    client
        .send("POST", "/v1/memory/records", &lines, Some(EVENT))
        .ok(200);
}

#[test]
fn an_invalid_line_is_answered_before_the_body_ends() {
    let lab = Lab::new().with(|server| server.body_timeout_ms = 600_000);
    let server = lab.serve();
    let mut wire = stream(&server, None, "{\"kind\":\"nothing\"}\n");
    let said = wire.answer().ok(422).text();
    assert!(said.contains("body:1: "), "{said}");
}

#[test]
fn long_lines_are_stored_in_smaller_batches() {
    let lab = Lab::new();
    let server = lab.serve();
    let wide = " ".repeat(3 << 20) + EVENT;
    let mut lines = wide.repeat(5);
    lines.push_str("nothing\n");
    let kind = [("content-type", "application/x-ndjson")];
    let said = server
        .anybody()
        .send("POST", "/v1/memory/records", &kind, Some(&lines))
        .ok(422)
        .text();
    assert!(said.contains("body:6: "), "{said}");
    assert!(said.contains("lines 1 to 3 were recorded;"), "{said}");
}

#[test]
fn large_bodies_wait_for_memory_and_small_ones_do_not() {
    let lab = Lab::new().with(|server| server.request_timeout_ms = 2_000);
    let server = lab.serve();
    let begin = |length: usize| {
        let mut wire = server.connect();
        wire.send(format!(
            "POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\nexpect: \
             100-continue\r\ncontent-type: application/json\r\ncontent-length: \
             {length}\r\n\r\n"
        ));
        wire
    };
    // Each has room before it is read: half of a GiB for a tenant, and eight
    // times its size for a body.
    let large: Vec<Wire> = (0..4)
        .map(|_| {
            let mut wire = begin(16 << 20);
            let head = wire.until("\r\n\r\n");
            assert!(head.contains("100 Continue"), "{head}");
            wire
        })
        .collect();
    server.post("/v1/sessions", r#"{"label":"small"}"#).ok(201);
    let said = begin(100_000).answer();
    assert_eq!(
        said.text(),
        "503 unavailable: the server has no memory for more large bodies and answers [retry after \
         `retry-after` seconds]"
    );
    drop(large);
    let mut wire = begin(100_000);
    assert!(wire.until("\r\n\r\n").contains("100 Continue"));
    let label = r#"{"label":"large"}"#;
    wire.send(label.to_owned() + &" ".repeat(100_000 - label.len()));
    wire.answer().ok(201);
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let lab = Lab::new().with(|server| server.body_timeout_ms = 300);
    let server = lab.serve();
    talk(&server.anybody(), "s", &"long ".repeat(400_000));
    let mut wire = server.connect();
    // The response is larger than the system's buffers for a slow client.
    let ask = "GET /v1/sessions/s/history HTTP/1.1\r\nhost: localhost\r\n\r\n";
    wire.send(ask.repeat(40));
    assert!(wire.until("\r\n").contains("200 OK"));
    until(|| {
        let mut asking = server.connect();
        asking.send("GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let metrics = asking.rest();
        metrics.contains("contexture_connections 1\n").then_some(())
    });
}

#[test]
fn work_is_finished_after_the_client_disconnects() {
    let lab = Lab::new();
    let server = lab.serve();
    server.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    let recorded = 20;
    for i in 0..recorded {
        let body = turn(&format!("turn {i} {}", "x".repeat(20_000)));
        let mut wire = server.connect();
        wire.send(format!(
            "POST /v1/sessions/s/turns HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
             application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ));
        // Gone, without a look at the answer.
        drop(wire);
    }
    // A request whose client disconnects before it is read may be recorded or
    // not; none is recorded in part, and the session can be used.
    server.post("/v1/sessions/s/turns", &turn("last")).ok(201);
    let mut before = 0;
    let history = until(|| {
        let history = server
            .get("/v1/sessions/s/history?limit=1000")
            .ok(200)
            .json();
        let turns = history["turns"].as_array().unwrap().len();
        let settled = turns == before;
        before = turns;
        settled.then_some(history)
    });
    for turn in history["turns"].as_array().unwrap() {
        assert_eq!(turn["messages"].as_array().unwrap().len(), 2);
    }
    assert!(history["total"].as_u64().unwrap() <= recorded + 1);
    // No work continues for disconnected clients.
    until(|| {
        let metrics = server.get("/metrics").body;
        metrics
            .contains("contexture_requests_in_progress 0")
            .then_some(())
    });
}

#[test]
fn a_disconnect_during_an_answer_does_not_affect_other_calls() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    talk(&client, "s", &"long ".repeat(400_000));
    for _ in 0..10 {
        let mut wire = server.connect();
        wire.send("GET /v1/sessions/s/history HTTP/1.1\r\nhost: localhost\r\n\r\n");
        assert!(wire.until("\r\n").contains("200 OK"));
        drop(wire);
    }
    let whole = client.get("/v1/sessions/s/history").ok(200);
    assert!(whole.body.len() > 2_000_000);
}

#[test]
fn a_thousand_idle_connections_do_not_block_other_calls() {
    let lab = Lab::new();
    let server = lab.serve();
    let idle: Vec<Wire> = (0..1000)
        .map(|i| {
            let mut wire = server.connect();
            // Some connections are silent, some have begun a request.
            wire.send(if i % 2 == 0 { "" } else { "GET /v1/ses" });
            wire
        })
        .collect();
    let client = server.anybody();
    talk(&client, "s", "Is anybody there?");
    until(|| {
        let metrics = client.get("/metrics").body;
        let line = metrics
            .lines()
            .find(|line| line.starts_with("contexture_connections "));
        let open: u64 = line?.rsplit(' ').next()?.parse().ok()?;
        (open > 1000).then_some(())
    });
    client.get("/v1/sessions/s/history").ok(200);
    drop(idle);
}

#[test]
fn connections_above_the_limit_wait() {
    let lab = Lab::new().with(|server| server.max_connections = 3);
    let server = lab.serve();
    let mut inside: Vec<Wire> = (0..3)
        .map(|_| {
            let mut wire = server.connect();
            wire.send(HEAD);
            wire.answer().ok(200);
            wire
        })
        .collect();
    let mut outside = server.connect();
    outside.send(HEAD);
    // Those inside go on.
    for wire in &mut inside {
        wire.send(HEAD);
        wire.answer().ok(200);
    }
    drop(inside.pop());
    outside.answer().ok(200);
}

#[test]
fn calls_above_the_concurrency_limit_wait() {
    let lab = Lab::new().with(|server| server.max_concurrent = 1);
    let server = lab.serve();
    server.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    thread::scope(|scope| {
        for i in 0..16 {
            let client = server.anybody();
            scope.spawn(move || {
                client
                    .post("/v1/sessions/s/turns", &turn(&format!("turn {i}")))
                    .ok(201)
            });
        }
    });
    assert_eq!(server.get("/v1/sessions/s").json()["turns"], 16);
}

#[test]
fn a_too_large_head_is_rejected() {
    let lab = Lab::new().with(|server| server.max_header_bytes = 8192);
    let server = lab.serve();
    let long = format!(
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n",
        "x".repeat(20_000)
    );
    assert_eq!(server.raw(long).status, 431);
    let target = format!(
        "GET /v1/sessions/{} HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "x".repeat(20_000)
    );
    let status = server.raw(target).status;
    assert!([414, 431].contains(&status), "{status}");
    let many: String = (0..200).map(|i| format!("x-{i}: y\r\n")).collect();
    let many = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    assert_eq!(server.raw(many).status, 431);
    server.get("/healthz").ok(200);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let lab = Lab::new();
    let server = lab.serve();
    let mut wire = server.connect();
    let mut requests = String::new();
    for i in 0..20 {
        let body = format!(r#"{{"label":"s{i}"}}"#);
        requests.push_str(&format!(
            "POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
             application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ));
        requests.push_str(&format!(
            "GET /v1/sessions/s{i} HTTP/1.1\r\nhost: localhost\r\n\r\n"
        ));
    }
    wire.send(requests);
    for i in 0..20 {
        let (made, found) = (wire.answer().ok(201), wire.answer().ok(200));
        assert_eq!(made.json()["label"], format!("s{i}"));
        assert_eq!(made.body, found.body);
    }
}

#[test]
fn an_http_1_0_client_is_answered_and_disconnected() {
    let lab = Lab::new();
    let server = lab.serve();
    let mut wire = server.connect();
    wire.send("GET /v1/sessions HTTP/1.0\r\nhost: localhost\r\n\r\n");
    let said = wire.rest();
    assert!(said.starts_with("HTTP/1.0 200 OK\r\n"), "{said}");
    assert!(said.ends_with(r#"{"sessions":[],"next":null}"#), "{said}");
    // Without a host, the server cannot check that the request was meant for it.
    let said = server.raw("GET /v1/sessions HTTP/1.0\r\n\r\n").text();
    assert_eq!(said, "400 invalid_host: missing or malformed Host header");
}

#[test]
fn input_that_is_not_http_is_rejected() {
    let lab = Lab::new();
    let server = lab.serve();
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nno colon\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost : localhost\r\n\r\n",
        b"POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        b"POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n{}",
        b"POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip\r\n\r\n{}",
    ] {
        let mut wire = server.connect();
        wire.send(bytes);
        wire.end();
        let said = wire.rest();
        let refused = said.is_empty() || said.starts_with("HTTP/1.1 400 ");
        assert!(refused, "{}: {said}", String::from_utf8_lossy(bytes));
    }
    server.get("/healthz").ok(200);
}
