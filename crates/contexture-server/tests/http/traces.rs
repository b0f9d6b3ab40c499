//! Traces, as a collector gets them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, Receiver};

use serde_json::{Value, json};

use crate::support::{HANGS_AFTER, Lab, talk, until};

/// Receives OTLP over HTTP, and hands on each body.
fn collector() -> (SocketAddr, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, bodies) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            loop {
                let mut length = 0;
                let mut line = String::new();
                let mut first = String::new();
                while reader.read_line(&mut line).unwrap_or(0) > 0 && line != "\r\n" {
                    if first.is_empty() {
                        first.clone_from(&line);
                    }
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                if first.is_empty() {
                    break;
                }
                assert!(first.starts_with("POST /v1/traces HTTP/1.1"), "{first}");
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let _ = sender.send(serde_json::from_slice(&body).unwrap());
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                if reader.get_mut().write_all(answer).is_err() {
                    break;
                }
            }
        }
    });
    (address, bodies)
}

/// Returns all spans that came, after the server has stopped.
fn spans(bodies: &Receiver<Value>) -> Vec<Value> {
    let mut spans = Vec::new();
    while let Ok(body) = bodies.recv_timeout(std::time::Duration::from_millis(200)) {
        let resource = &body["resourceSpans"][0];
        let service = &resource["resource"]["attributes"][0];
        assert_eq!(
            service,
            &json!({"key": "service.name", "value": {"stringValue": "contexture"}})
        );
        let more = resource["scopeSpans"][0]["spans"].as_array().unwrap();
        spans.extend(more.iter().cloned());
    }
    spans
}

fn attribute(span: &Value, name: &str) -> Option<String> {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == name)?;
    let value = found["value"].as_object().unwrap().values().next().unwrap();
    Some(value.as_str().map_or(value.to_string(), str::to_owned))
}

#[test]
fn requests_become_spans_without_content() {
    let (address, bodies) = collector();
    let lab = Lab::new().with(|server| {
        server.otlp_endpoint = format!("http://{address}/v1/traces");
    });
    let server = lab.serve();
    let client = server.anybody();
    talk(&client, "secret-label", "A secret sentence.");
    let body = json!({
        "session": "secret-label", "recipe": "broker", "model": "gpt-4o",
        "event": "Another secret sentence.",
    });
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let json = [
        ("content-type", "application/json"),
        ("traceparent", parent),
    ];
    let assemble = |headers: &[(&str, &str)]| {
        client
            .send("POST", "/v1/assemble", headers, Some(&body.to_string()))
            .ok(200);
    };
    assemble(&json);
    // Not sampled.
    let unsampled = parent.replace("-01", "-00");
    assemble(&[json[0], ("traceparent", &unsampled)]);
    client.get("/v1/sessions/none").ok(404);
    client.get("/healthz").ok(200);
    drop(server);
    let spans = spans(&bodies);
    let names: Vec<&str> = spans
        .iter()
        .map(|span| span["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "POST /v1/sessions",
            "POST /v1/sessions/{label}/turns",
            "POST /v1/assemble",
            "GET /v1/sessions/{label}",
        ]
    );
    let assembled = &spans[2];
    assert_eq!(assembled["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(assembled["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(assembled["kind"], 2);
    let begin: u128 = assembled["startTimeUnixNano"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let end: u128 = assembled["endTimeUnixNano"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(begin <= end);
    for (name, value) in [
        ("http.route", "/v1/assemble"),
        ("http.response.status_code", "200"),
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "gpt-4o"),
        ("contexture.tenant", "default"),
    ] {
        assert_eq!(attribute(assembled, name).as_deref(), Some(value), "{name}");
    }
    let missing = &spans[3];
    assert_eq!(
        attribute(missing, "error.type").as_deref(),
        Some("not_found")
    );
    assert!(
        spans
            .iter()
            .all(|span| !span.to_string().contains("secret"))
    );
}

#[test]
fn a_collector_that_is_gone_or_hangs_harms_no_request() {
    // One that accepts connections and never answers, and one that is not there.
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    for address in [hanging.local_addr().unwrap(), gone] {
        let lab = Lab::new().with(|server| {
            server.otlp_endpoint = format!("http://{address}/v1/traces");
        });
        let server = lab.serve();
        let began = std::time::Instant::now();
        for _ in 0..600 {
            server.get("/v1/sessions").ok(200);
        }
        assert!(began.elapsed() < HANGS_AFTER);
        if address == gone {
            until(|| {
                let metrics = server.get("/metrics").ok(200).body;
                let line = metrics
                    .lines()
                    .find_map(|line| line.strip_prefix("contexture_dropped_spans_total "));
                (line.unwrap() != "0").then_some(())
            });
        }
    }
}
