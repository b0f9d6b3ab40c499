//! Many callers, of two servers on one store, change different fields of the
//! same thing at once.

use std::thread;

use serde_json::{Value, json};

use crate::support::{Client, Lab};

/// How often each caller changes its field.
const CHANGES: usize = 20;

const TREE: &str = r#"{"tree":{"id":"t","mode":"dialogue"},
    "nodes":[{"id":"n1","author":"human","content":"When does the ferry leave?"}]}"#;

/// Changes one field of what is at `target` to each of the values in turn, and
/// checks after each call that the field has that value.
fn change(client: &Client, target: &str, field: &str, values: [Value; 2], read: &str) {
    for value in values.iter().cycle().take(CHANGES) {
        let body = json!({field: value}).to_string();
        let answer = client.patch(target, &body).ok(200).json();
        assert_eq!(answer.pointer(read), Some(value), "{target} {field}");
    }
}

#[test]
fn concurrent_changes_of_different_fields_are_all_applied() {
    let lab = Lab::new();
    let servers = [lab.serve(), lab.serve()];
    let client = servers[0].anybody();
    client.post("/v1/trees", TREE).ok(200);
    client.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    let node = "/v1/trees/t/nodes/n1";
    let tree = "/v1/trees/t";
    let strategy = |name: &str| json!({"truncation_strategy": name});
    let changes = [
        (node, "excluded", [json!(false), json!(true)], "/excluded"),
        (node, "pruned", [json!(false), json!(true)], "/pruned"),
        (
            node,
            "bookmarked",
            [json!(false), json!(true)],
            "/bookmarked",
        ),
        (tree, "title", [json!("a"), json!("b")], "/tree/title"),
        (
            tree,
            "system_context",
            [json!("c"), json!("d")],
            "/tree/system_context",
        ),
        (
            tree,
            "buffer_mode_system_context",
            [json!(false), json!(true)],
            "/tree/buffer_mode_system_context",
        ),
        (
            tree,
            "preferences",
            [strategy("rolling_window"), strategy("stop_at_limit")],
            "/tree/preferences",
        ),
        (
            "/v1/sessions/s",
            "status",
            [json!("failed"), json!("completed")],
            "/status",
        ),
        (
            "/v1/sessions/s",
            "remember",
            [json!(false), json!(true)],
            "/remember",
        ),
    ];
    thread::scope(|scope| {
        for (i, (target, field, values, read)) in changes.into_iter().enumerate() {
            let client = servers[i % 2].anybody();
            scope.spawn(move || change(&client, target, field, values, read));
        }
        for server in &servers {
            let client = server.anybody();
            let from = server.address.port();
            scope.spawn(move || {
                for i in 0..CHANGES {
                    let body = json!({"alias": format!("{from}-{i}")}).to_string();
                    client.patch("/v1/sessions/s", &body).ok(200);
                }
            });
        }
    });
    let flags = &client.get(node).ok(200).json()["node"]["metadata"];
    let all = json!({"excluded": true, "pruned": true, "bookmarked": true});
    assert_eq!(*flags, all);
    let there = &client.get(tree).ok(200).json()["tree"];
    assert_eq!(there["title"], "b");
    assert_eq!(there["system_context"], "d");
    assert_eq!(there["buffer_mode_system_context"], true);
    assert_eq!(there["preferences"], strategy("stop_at_limit"));
    let session = client.get("/v1/sessions/s").ok(200).json();
    assert_eq!(session["status"], "completed");
    assert_eq!(session["aliases"].as_array().unwrap().len(), 2 * CHANGES);
}

#[test]
fn a_rejected_change_of_a_session_changes_nothing() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    client.post("/v1/sessions", r#"{"label":"a"}"#).ok(201);
    client.post("/v1/sessions", r#"{"label":"b"}"#).ok(201);
    let both = r#"{"alias":"b","status":"failed"}"#;
    assert_eq!(client.patch("/v1/sessions/a", both).status, 409);
    let there = client.get("/v1/sessions/a").ok(200).json();
    assert_eq!(there["status"], "active");
    assert_eq!(there["aliases"], json!([]));
}
