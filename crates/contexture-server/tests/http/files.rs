//! Files of a tenant that are kept in the store.

use std::thread;

use serde_json::{Value, json};

use crate::support::{Answer, Client, Lab, until};

const MANIFEST: &str = "protocol: CONTEXT-ASSEMBLY/0.1\nbudget:\n  max_tokens: 1000\nfiles:\n\
                        - {path: rules.md, priority: 1.0}\n";

fn put(client: &Client, path: &str, body: &Value) -> Answer {
    let json = [("content-type", "application/json")];
    let target = format!("/v1/files/content?path={path}");
    client.send("PUT", &target, &json, Some(&body.to_string()))
}

fn get(client: &Client, path: &str) -> Answer {
    client.get(&format!("/v1/files/content?path={path}"))
}

#[test]
fn a_stored_file_is_read_changed_and_deleted() {
    let lab = Lab::new();
    let client = lab.key("harbour");
    let server = lab.serve();
    let client = server.with_key(&client);
    let first = put(
        &client,
        "persona/SOUL.md",
        &json!({"content": "You are kind."}),
    );
    let first = first.ok(200).json();
    assert_eq!(first["revision"], 1);
    let read = get(&client, "persona/SOUL.md").ok(200).json();
    assert_eq!(
        (&read["content"], &read["hash"]),
        (&json!("You are kind."), &first["hash"])
    );
    // The update of another caller is not lost.
    let stale = json!({"content": "x", "if_hash": "0".repeat(64)});
    assert_eq!(put(&client, "persona/SOUL.md", &stale).status, 409);
    let new = json!({"content": "x", "if_hash": ""});
    assert_eq!(put(&client, "persona/SOUL.md", &new).status, 409);
    let right = json!({"content": "You are brief.", "if_hash": first["hash"]});
    put(&client, "persona/SOUL.md", &right).ok(200);
    let files = client.get("/v1/files").ok(200).json();
    assert_eq!(files["files"][0]["path"], "persona/SOUL.md");
    client
        .delete("/v1/files/content?path=persona/SOUL.md")
        .ok(200);
    assert_eq!(get(&client, "persona/SOUL.md").status, 404);
    assert_eq!(
        client
            .delete("/v1/files/content?path=persona/SOUL.md")
            .status,
        404
    );
    // Acts are in the audit log.
    let admin = lab.admin_key();
    let audit = server
        .with_key(&admin)
        .get("/v1/admin/audit")
        .ok(200)
        .json();
    let acts = audit["entries"].to_string();
    assert!(
        acts.contains("file_stored") && acts.contains("file_deleted"),
        "{acts}"
    );
}

#[test]
fn wrong_paths_and_content_are_refused() {
    let lab = Lab::new();
    let (harbour, default) = (lab.key("harbour"), lab.key(""));
    let server = lab.serve();
    let client = server.with_key(&harbour);
    let text = json!({"content": "x"});
    for path in [
        "",
        "../a",
        "a/../../b",
        "/etc/passwd",
        ".contexture/contexture.db",
        "contexture.toml",
        "a%5Cb",
        "a%00b",
        ".git/config",
    ] {
        let refused = put(&client, path, &text);
        assert_eq!(refused.status, 422, "{path}: {}", refused.body);
    }
    let large = json!({"content": "x".repeat((1 << 20) + 1)});
    assert_eq!(put(&client, "a", &large).status, 422);
    let wrong = json!({"content": "x", "if_hash": "abc"});
    assert_eq!(put(&client, "a", &wrong).status, 422);
    // The default tenant has the server's root.
    assert_eq!(put(&server.with_key(&default), "a", &text).status, 422);
    // And nothing was stored.
    assert_eq!(client.get("/v1/files").ok(200).json(), json!({"files": []}));
}

#[test]
fn requests_are_assembled_from_stored_files_on_every_server() {
    let lab = Lab::new();
    let key = lab.key("harbour");
    let one = lab.serve();
    let client = one.with_key(&key);
    put(&client, "rules.md", &json!({"content": "Answer briefly."})).ok(200);
    put(&client, "working-set.yml", &json!({"content": MANIFEST})).ok(200);
    let body = json!({"recipe": "working-set", "format": "text"}).to_string();
    let assembled = client.post("/v1/assemble", &body).ok(200);
    assert!(
        assembled.body.contains("Answer briefly."),
        "{}",
        assembled.body
    );
    // Another server of the same store, in another directory.
    let other = Lab::new().sharing(&lab);
    let two = other.serve();
    let there = two.with_key(&key);
    let assembled = there.post("/v1/assemble", &body).ok(200);
    assert!(
        assembled.body.contains("Answer briefly."),
        "{}",
        assembled.body
    );
    // A change on one is used by the other.
    put(
        &client,
        "rules.md",
        &json!({"content": "Answer at length."}),
    )
    .ok(200);
    until(|| {
        let assembled = there.post("/v1/assemble", &body).ok(200);
        assembled.body.contains("Answer at length.").then_some(())
    });
    client.delete("/v1/files/content?path=rules.md").ok(200);
    until(|| {
        let assembled = there.post("/v1/assemble", &body).ok(200);
        (!assembled.body.contains("Answer at length.")).then_some(())
    });
}

#[test]
fn changes_of_a_stored_working_set_are_not_lost() {
    let lab = Lab::new();
    let key = lab.key("harbour");
    let other = Lab::new().sharing(&lab);
    let (one, two) = (lab.serve(), other.serve());
    let clients = [one.with_key(&key), two.with_key(&key)];
    put(&clients[0], "rules.md", &json!({"content": "x"})).ok(200);
    put(
        &clients[0],
        "working-set.yml",
        &json!({"content": MANIFEST}),
    )
    .ok(200);
    for number in 0..8 {
        put(
            &clients[0],
            &format!("f{number}.md"),
            &json!({"content": "x"}),
        )
        .ok(200);
    }
    thread::scope(|scope| {
        for (server, client) in clients.iter().enumerate() {
            scope.spawn(move || {
                for number in 0..4 {
                    let path = format!("f{}.md", 4 * server + number);
                    let action = json!({"actions": [{"action": "add_to_working_set",
                        "path": path, "priority": 0.5, "why": "it is needed"}]});
                    // The other server's copy may be two seconds old.
                    until(|| {
                        let done = client.post("/v1/working-set/actions", &action.to_string());
                        (done.status == 200).then_some(())
                    });
                }
            });
        }
    });
    let manifest = get(&clients[0], "working-set.yml").ok(200).json();
    let manifest = manifest["content"].as_str().unwrap().to_owned();
    for number in 0..8 {
        assert!(manifest.contains(&format!("f{number}.md")), "{manifest}");
    }
}
