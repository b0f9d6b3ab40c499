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
    assert_eq!(text(&own[0]["ok"]), "no records found");
}

#[test]
fn clients_without_a_key_can_do_nothing() {
    let project = project().file("contexture.toml", "[server]\nmax_body_bytes = 50000\n");
    let key = key(&project, "default");
    let server = Server::start(&project);
    let push = |id: &str| {
        json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "push_task", "arguments": {"goal": "x", "id": id, "why": "y"}},
        })
        .to_string()
    };
    let last = if key.ends_with('x') { 'y' } else { 'x' };
    let wrong = format!("Bearer {}{last}", &key[..key.len() - 1]);
    let table = [
        ("POST", json!({"Authorization": wrong}), push("a"), 401),
        ("POST", json!({"Authorization": ""}), push("b"), 401),
        (
            "POST",
            json!({"Origin": "https://elsewhere.example"}),
            push("c"),
            403,
        ),
        ("POST", json!({"Host": "elsewhere.example"}), push("d"), 403),
        (
            "POST",
            json!({"Content-Type": "text/plain"}),
            push("e"),
            415,
        ),
        ("POST", json!({}), push(&"f".repeat(60_000)), 413),
        ("GET", json!({}), String::new(), 405),
        ("DELETE", json!({}), String::new(), 405),
        // With everything right, it is done.
        ("POST", json!({}), push("g"), 200),
    ];
    let steps: Vec<Value> = table
        .iter()
        .map(|(method, given, body, _)| {
            let mut headers = json!({
                "Accept": "application/json, text/event-stream",
                "Content-Type": "application/json",
            });
            for (name, value) in given.as_object().unwrap() {
                headers[name] = value.clone();
            }
            json!({"method": method, "headers": headers, "body": body})
        })
        .collect();
    let seen = drive(&server.with_key(&key), "raw", &steps);
    for ((method, headers, _, expected), seen) in table.iter().zip(&seen) {
        assert_eq!(
            seen["ok"]["status"], *expected,
            "{method} {headers}: {seen}"
        );
    }
    let tasks = json_of(&project, &["task", "show"])["tasks"].clone();
    let ids: Vec<_> = tasks
        .as_array()
        .unwrap()
        .iter()
        .map(|task| &task["id"])
        .collect();
    assert_eq!(ids, ["g"]);
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
