//! The same over HTTP: keys, tenants, and what must not come in.

use super::server::Server;
use super::*;

/// Makes a key for a tenant.
#[track_caller]
fn key(project: &Project, tenant: &str) -> String {
    let key = project.ok(&["key", "new", "--tenant", tenant]);
    key.trim_end().to_owned()
}

#[test]
fn tenants_see_only_their_own() {
    let project = project();
    let keys = ["ada", "bob"].map(|tenant| key(&project, tenant));
    for tenant in ["ada", "bob"] {
        let dir = format!(".contexture/tenants/{tenant}");
        project.write(
            &format!("{dir}/mine.md"),
            format!("This is what {tenant} wrote.\n"),
        );
        project.write(
            &format!("{dir}/working-set.yml"),
            "protocol: CONTEXT-ASSEMBLY/0.1\nbudget:\n  max_tokens: 1000\nfiles:\n  - path: mine.md\n    priority: 0.5\n",
        );
    }
    let server = Server::start(&project);
    for (mode, tenant) in MODES.iter().zip(["ada", "bob"]) {
        let at = usize::from(tenant == "bob");
        let (secret, why) = (
            format!("The word of {tenant} is {tenant}word."),
            "Asked to.",
        );
        let steps = [
            call(
                "remember",
                json!({"text": secret, "session": "chat", "why": why}),
            ),
            call(
                "push_task",
                json!({"goal": format!("{tenant}'s goal"), "id": "t", "why": why}),
            ),
            call("assemble", json!({"session": "chat"})),
            call("recall", json!({"query": "the word", "session": "chat"})),
            json!({"do": "read", "uri": "contexture://request/chat"}),
            call(
                "add_to_working_set",
                json!({"path": "../bob/mine.md", "priority": 1, "why": why}),
            ),
        ];
        let seen = drive(&server.with_key(&keys[at]), mode, &steps);
        for done in &seen[..4] {
            assert_ne!(done["ok"]["isError"], true, "{done}");
        }
        let other = ["bob", "ada"][at];
        let (request, found) = (text(&seen[2]["ok"]), text(&seen[3]["ok"]));
        assert!(
            request.contains(&format!("what {tenant} wrote")),
            "{request}"
        );
        assert!(found.contains(&secret), "{found}");
        assert!(!found.contains(&format!("{other}word")), "{found}");
        assert_eq!(seen[4]["ok"][0]["text"], request);
        assert_eq!(
            seen[5]["ok"]["structuredContent"]["code"],
            "PERMISSION_DENIED"
        );
    }
    // Nor does the one who started the server.
    let own = drive(
        &stdio(&project),
        "auto",
        &[call("recall", json!({"query": "the word"}))],
    );
    assert_eq!(text(&own[0]["ok"]), "nothing was found");
}

#[test]
fn who_is_not_let_in_does_nothing() {
    let project = project();
    let key = key(&project, "default");
    let server = Server::start(&project);
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "push_task", "arguments": {"goal": "x", "why": "y"}},
    });
    let body = body.to_string();
    let accept = "application/json, text/event-stream";
    let json = "application/json";
    let ask = |method: &str, headers: Value, body: &str| {
        let mut headers = headers;
        headers["Accept"] = accept.into();
        if headers["Content-Type"].is_null() {
            headers["Content-Type"] = json.into();
        }
        serde_json::json!({"method": method, "headers": headers, "body": body})
    };
    let large = format!(r#"{{"jsonrpc":"2.0","id":"{}"}}"#, "x".repeat(40 << 20));
    let status = |key: &str, step: Value| {
        let seen = drive(&server.with_key(key), "raw", &[step]);
        (
            seen[0]["ok"]["status"].as_u64().unwrap(),
            seen[0]["ok"]["body"].as_str().unwrap().to_owned(),
        )
    };
    let wrong = format!("{}x", &key[..key.len() - 1]);
    assert_eq!(status(&wrong, ask("POST", json!({}), &body)).0, 401);
    assert_eq!(status("none", ask("POST", json!({}), &body)).0, 401);
    for (headers, expected) in [
        (json!({"Origin": "https://elsewhere.example"}), 403),
        (json!({"Host": "elsewhere.example"}), 403),
        (json!({"Content-Type": "text/plain"}), 415),
    ] {
        let (status, told) = status(&key, ask("POST", headers.clone(), &body));
        assert_eq!(status, expected, "{headers}: {told}");
    }
    assert_eq!(status(&key, ask("POST", json!({}), &large)).0, 413);
    assert_eq!(status(&key, ask("GET", json!({}), "")).0, 405);
    assert_eq!(status(&key, ask("DELETE", json!({}), "")).0, 405);
    assert_eq!(json_of(&project, &["task", "show"])["tasks"], json!([]));
    // With everything right, it is done.
    let (status, told) = status(&key, ask("POST", json!({}), &body));
    assert_eq!(status, 200, "{told}");
    assert!(told.contains("task t1 is current"), "{told}");
}

#[test]
fn calls_leave_nothing_behind() {
    let project = project();
    let key = key(&project, "default");
    let server = Server::start(&project);
    let repeat = |times: usize| {
        let step = json!({"do": "repeat", "times": times, "name": "recall",
                          "arguments": {"query": "lighthouses", "filters": {"since": NOW}}});
        let seen = drive(&server.with_key(&key), "legacy", &[step]);
        assert_eq!(seen[0]["ok"]["refused"], 0, "{}", seen[0]);
    };
    repeat(200);
    let (memory, files) = server.holds();
    repeat(1000);
    let (memory_then, files_then) = server.holds();
    assert!(files_then <= files + 4, "{files} files became {files_then}");
    let grown = memory_then.saturating_sub(memory);
    assert!(grown < 8 << 20, "1000 calls took {grown} bytes");
}
