//! Tool results are fetched by their handles.

use serde_json::json;

use crate::support::{Client, Lab};

/// Records a tool result and returns its handle.
fn record(client: &Client, printed: &str) -> String {
    client.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    let turn = json!({"messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [
            {"type": "tool_call", "id": "c1", "name": "shell", "arguments": {}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": printed},
    ]});
    let recorded = client.post("/v1/sessions/s/turns", &turn.to_string());
    recorded.ok(201);
    contexture::store::Handle::of(printed).short()
}

#[test]
fn a_tool_result_is_fetched_in_parts() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    let printed: Vec<String> = (1..=5_000).map(|i| format!("line {i}")).collect();
    let handle = record(&client, &printed.join("\n"));
    let get = |query: &str| client.get(&format!("/v1/blobs/{handle}{query}")).json();
    let first = get("");
    assert_eq!(first["total_lines"], 5_000);
    let next = first["next_lines"].as_str().unwrap();
    let second = get(&format!("?lines={next}"));
    let expected = first["last_line"].as_u64().unwrap() + 1;
    assert_eq!(second["first_line"], expected);
    assert_eq!(get("?lines=7-8")["text"], "line 7\nline 8");
    assert_eq!(get("?grep=%5Eline%2042%24")["text"], "42: line 42");
    assert_eq!(get("?max_bytes=7")["text"], "line 1");
}

#[test]
fn wrong_calls_are_rejected() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    let handle = record(&client, &"not JSON\n".repeat(99));
    for (target, expected) in [
        (
            "sha256:000000000000",
            "404 not_found: there is no tool result `sha256:000000000000`",
        ),
        ("12", "handle: `12` is not a handle"),
        (
            "{}?lines=100-",
            "lines: line 100 does not exist: there are 99 lines",
        ),
        ("{}?grep=(", "grep: `(` is not a regular expression"),
        ("{}?jq=.a", "jq: the tool result is not JSON"),
        ("{}?max_bytes=0", "max_bytes: must be from 1 to 4194304"),
        ("{}?line=1", "line"),
    ] {
        let target = format!("/v1/blobs/{}", target.replace("{}", &handle));
        let answer = client.get(&target);
        let is_refused = (400..500).contains(&answer.status);
        assert!(
            is_refused && answer.text().contains(expected),
            "{target}: {}",
            answer.text()
        );
    }
}

#[test]
fn tool_results_of_another_tenant_are_unknown() {
    let lab = Lab::new();
    let (ada, bob) = (lab.key("ada"), lab.key("bob"));
    let server = lab.serve();
    let handle = record(&server.with_key(&ada), &"secret of ada\n".repeat(99));
    let target = format!("/v1/blobs/{handle}");
    server.with_key(&ada).get(&target).ok(200);
    let refused = server.with_key(&bob).get(&target);
    assert_eq!(refused.status, 404);
    assert!(!refused.text().contains("ada"), "{}", refused.text());
}
