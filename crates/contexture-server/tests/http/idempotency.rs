//! The header `Idempotency-Key`: calls that are sent again.

use std::thread;

use serde_json::{Value, json};

use crate::support::{Answer, Client, Lab, talk, turn};

fn send(client: &Client, key: &str, target: &str, body: &str) -> Answer {
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", key),
    ];
    match body {
        "" => client.send("POST", target, &headers[1..], None),
        body => client.send("POST", target, &headers, Some(body)),
    }
}

/// Calls of all operations that accept the header, in an order in which each can
/// be done: operation, target and body.
fn calls() -> Vec<(&'static str, &'static str, String)> {
    let records = json!({"records": [{"kind": "event", "content": "The ferry is late."}]});
    let edge = |id: &str, to: &str| {
        json!({"id": id, "type": "continuation", "target_node_id": to,
            "sources": [{"node_id": "root", "role": "primary"}]})
    };
    let tree = json!({"tree": {"id": "t", "mode": "dialogue"},
        "nodes": [{"id": "root", "author": "human", "content": "Hello."},
                  {"id": "a", "author": "human", "content": "One."},
                  {"id": "b", "author": "human", "content": "Two."}],
        "edges": [edge("e1", "a"), edge("e2", "b")],
        "agents": [{"id": "guide", "type": "model"}]});
    let note = json!({"id": "e3", "type": "annotation", "target_node_id": "b",
        "sources": [{"node_id": "a", "role": "primary"}]});
    let pinned = json!({"action": "pin", "what": {"text": "The ferry takes bicycles."}});
    let text = json!({"source": "n.md", "text": "High tide."});
    let set = json!({"actions": [{"action": "add_to_working_set", "path": "notes.md",
        "priority": 0.5, "why": "it has the tides"}]});
    let said = json!({"messages": [{"role": "user", "content": "See notes.md."}]});
    let shorter = json!({"max_tokens": 4000});
    let node = json!({"author": "human", "content": "More.", "after": ["a"]});
    [
        ("create_session", "/v1/sessions", json!({"label": "s"})),
        (
            "fork_session",
            "/v1/sessions/talk/fork",
            json!({"label": "f"}),
        ),
        (
            "compact_session",
            "/v1/sessions/talk/compact",
            shorter.clone(),
        ),
        (
            "uncompact_session",
            "/v1/sessions/talk/uncompact",
            Value::Null,
        ),
        ("recover_overflow", "/v1/sessions/talk/overflow", shorter),
        (
            "pin",
            "/v1/sessions/talk/pins",
            json!({"text": "Be brief."}),
        ),
        (
            "push_task",
            "/v1/tasks",
            json!({"goal": "reach the harbour"}),
        ),
        (
            "complete_task",
            "/v1/tasks/t1/complete",
            json!({"blocked": true}),
        ),
        ("resume_task", "/v1/tasks/t1/resume", Value::Null),
        ("record_memory", "/v1/memory/records", records),
        ("record_text", "/v1/memory/texts", text),
        ("import_tree", "/v1/trees", tree),
        ("add_node", "/v1/trees/t/nodes", node),
        (
            "edit_node",
            "/v1/trees/t/nodes/a/edits",
            json!({"content": "Uno."}),
        ),
        ("add_edge", "/v1/trees/t/edges", note),
        (
            "change_agent_memory",
            "/v1/trees/t/agents/guide/memory",
            pinned,
        ),
        ("update_working_set", "/v1/working-set/actions", set),
        ("observe_turn", "/v1/working-set/observe", said),
    ]
    .into_iter()
    .map(|(operation, target, body)| {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        (operation, target, body)
    })
    .collect()
}

#[test]
fn a_retry_with_the_same_key_is_done_once_and_answered_as_before() {
    let lab = Lab::new().file("notes.md", "High tide at nine.\n").file(
        "working-set.yml",
        "budget:\n  max_tokens: 1000\nfiles: []\n",
    );
    let server = lab.serve();
    let client = server.anybody();
    talk(&client, "talk", "Hello.");
    for i in 0..40 {
        let said = turn(&format!("question {i} {}", "about the tide ".repeat(60)));
        client.post("/v1/sessions/talk/turns", &said).ok(201);
    }
    let document = server.get("/openapi.json").ok(200).json();
    let mut with_header: Vec<&str> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .filter_map(|path| {
            let post = path.get("post")?;
            let parameters = post["parameters"].as_array()?;
            let found = |it: &&Value| it["name"] == "Idempotency-Key";
            parameters.iter().find(found)?;
            post["operationId"].as_str()
        })
        .filter(|operation| *operation != "record_turn")
        .collect();
    with_header.sort_unstable();
    let mut called: Vec<&str> = calls().iter().map(|call| call.0).collect();
    called.sort_unstable();
    assert_eq!(called, with_header);

    for (i, (operation, target, body)) in calls().iter().enumerate() {
        let key = format!("k{i}");
        let first = send(&client, &key, target, body);
        assert!(first.status < 300, "{operation}: {}", first.body);
        let before = everything(&client);
        let again = send(&client, &key, target, body);
        assert_eq!(again.text(), first.text(), "{operation}");
        assert_eq!(everything(&client), before, "{operation}");
        let other = send(&client, &key, "/v1/tasks", r#"{"goal":"x"}"#);
        assert_eq!(
            other.text(),
            format!(
                "409 conflict: the idempotency key `{key}` was used for another call; nothing was \
                 recorded [use a new idempotency key for each call]"
            )
        );
    }
    let usage = client.get("/v1/usage").ok(200).json();
    assert_eq!(
        (&usage["tasks"], &usage["nodes"], &usage["sessions"]),
        (&json!(1), &json!(5), &json!(3)),
        "{usage}"
    );
}

/// Returns what all calls can change.
fn everything(client: &Client) -> Vec<String> {
    [
        "/v1/sessions",
        "/v1/sessions/talk/history",
        "/v1/sessions/talk/pins",
        "/v1/tasks",
        "/v1/memory/stats",
        "/v1/trees",
        "/v1/working-set",
    ]
    .map(|target| {
        let mut found = client.get(target).ok(200).json();
        // The encoder catches up in the background.
        if let Some(found) = found.as_object_mut() {
            found.remove("encoder");
        }
        found.to_string()
    })
    .to_vec()
}

#[test]
fn a_call_that_failed_is_not_done() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    let unknown = send(
        &client,
        "f",
        "/v1/sessions/nothing/fork",
        r#"{"label":"f"}"#,
    );
    assert_eq!(unknown.status, 404, "{}", unknown.body);
    send(&client, "f", "/v1/tasks", r#"{"goal":"x"}"#).ok(201);
    let long = "x".repeat(256);
    assert_eq!(
        send(&client, &long, "/v1/tasks", r#"{"goal":"x"}"#).text(),
        "400 invalid_header: the header `Idempotency-Key` is longer than 255 bytes"
    );
    let twice = |second: &str| {
        let headers = [
            ("content-type", "application/json"),
            ("idempotency-key", "one"),
            ("idempotency-key", second),
        ];
        client.send("POST", "/v1/tasks", &headers, Some(r#"{"goal":"x"}"#))
    };
    assert_eq!(
        twice("two").text(),
        "400 invalid_header: the header `Idempotency-Key` is sent twice, with different values"
    );
    twice("one").ok(201);
}

#[test]
fn concurrent_calls_with_one_key_are_done_once() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    let answers: Vec<Answer> = thread::scope(|scope| {
        let calls: Vec<_> = (0..16)
            .map(|_| {
                let client = client.clone();
                scope.spawn(move || send(&client, "k", "/v1/tasks", r#"{"goal":"once"}"#))
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let done: Vec<_> = answers.iter().filter(|it| it.status == 201).collect();
    assert!(!done.is_empty());
    for answer in &answers {
        match answer.status {
            201 => assert_eq!(answer.body, done[0].body),
            _ => assert_eq!(
                answer.text(),
                "409 conflict: a call with the idempotency key `k` is in progress [retry after \
                 `retry-after` seconds to get the answer of that call]"
            ),
        }
    }
    assert_eq!(client.get("/v1/usage").ok(200).json()["tasks"], 1);
    let after = send(&client, "k", "/v1/tasks", r#"{"goal":"once"}"#);
    assert_eq!(after.text(), done[0].text());
}

#[test]
fn keys_belong_to_a_tenant_and_answers_end_with_a_deletion() {
    let lab = Lab::new();
    let (one, other) = (lab.key("one"), lab.key("other"));
    let server = lab.serve();
    let (one, other) = (server.with_key(&one), server.with_key(&other));
    send(&one, "k", "/v1/tasks", r#"{"goal":"of one"}"#).ok(201);
    send(&other, "k", "/v1/tasks", r#"{"goal":"of another"}"#).ok(201);
    talk(&one, "s", "Delete this.");
    one.delete("/v1/sessions/s").ok(200);
    let retried = send(&one, "k", "/v1/tasks", r#"{"goal":"of one"}"#);
    assert_eq!(
        retried.text(),
        "409 conflict: the call with the idempotency key `k` was done before, and its answer is \
         not stored; nothing was written [read what was stored, and use a new idempotency key \
         for a new call]"
    );
    send(&other, "k", "/v1/tasks", r#"{"goal":"of another"}"#).ok(201);
    assert_eq!(other.get("/v1/usage").ok(200).json()["tasks"], 1);
}
