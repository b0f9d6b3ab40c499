//! The inspector: its page, its calls, and a read-only server.

use serde_json::{Value, json};

use crate::support::{Client, Lab};

/// Returns a project whose working set does not fit.
fn lab() -> Lab {
    let line = "fn tide(input: &str) -> usize { input.len() }\n";
    Lab::new()
        .file("kept.md", "The ferry leaves at nine.\n")
        .file("cut.rs", &line.repeat(200))
        .file("large.rs", &line.repeat(100))
        .file(
            "working-set.yml",
            "protocol: CONTEXT-ASSEMBLY/0.1\n\
             budget: {max_tokens: 1500, reserved_for_response: 100}\n\
             files:\n\
             - {path: kept.md, priority: 0.9}\n\
             - {path: cut.rs, priority: 0.5}\n\
             - {path: large.rs, priority: 0.1, truncate_strategy: never}\n",
        )
}

fn assemble(client: &Client, body: &Value) -> String {
    let made = client.post("/v1/assemble", &body.to_string()).ok(200);
    made.json()["report"]["snapshot"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn the_page_and_its_files_are_served_with_a_strict_policy() {
    let lab = Lab::new();
    let _key = lab.key("");
    let server = lab.serve();
    // The page itself needs no key: it asks for one.
    let page = server.get("/").ok(200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(!page.body.contains("{{"), "{}", page.body);
    let script = page.body.split("src=\"").nth(1).unwrap();
    let script = script.split('"').next().unwrap();
    let file = server.get(script).ok(200);
    assert_eq!(
        file.header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
    assert!(file.header("cache-control").unwrap().contains("immutable"));
    for wrong in [
        script.replace("app.js", "unknown.js"),
        script.replace("app.js", "../src/lib.rs"),
        script.replace("/ui/", "/ui/0"),
    ] {
        assert_eq!(server.get(&wrong).status, 404, "{wrong}");
    }
}

#[test]
fn every_file_that_the_page_names_is_served() {
    let server = Lab::new().serve();
    let page = server.get("/").ok(200).body;
    let base = page
        .split("/ui/")
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    let mut waiting = vec![
        "app.js".to_owned(),
        "style.css".to_owned(),
        "icon.svg".to_owned(),
    ];
    let mut seen: Vec<String> = Vec::new();
    while let Some(name) = waiting.pop() {
        if seen.contains(&name) {
            continue;
        }
        let file = server.get(&format!("/ui/{base}/{name}")).ok(200).body;
        for part in file.split("\"./").skip(1) {
            waiting.push(part.split('"').next().unwrap().to_owned());
        }
        seen.push(name);
    }
    assert!(seen.len() > 12, "{seen:?}");
}

#[test]
fn a_report_is_stored_with_its_request() {
    let lab = lab();
    let server = lab.serve();
    let client = server.anybody();
    let hash = assemble(
        &client,
        &json!({"recipe": "working-set", "model": "gpt-4o"}),
    );
    let report = client
        .get(&format!("/v1/snapshots/{hash}/report"))
        .ok(200)
        .json();
    assert_eq!(report["recipe"], "working-set");
    assert_eq!(report["has_inputs"], true);
    assert_eq!(report["budget"]["max"], 1500);
    let blocks = report["blocks"].as_array().unwrap();
    let block = |path: &str| blocks.iter().find(|block| block["path"] == path).unwrap();
    let kept = block("kept.md");
    assert_eq!(kept["text"], "The ferry leaves at nine.\n");
    assert_eq!(kept["since"]["requests"], 1);
    assert_eq!(block("cut.rs")["row"]["truncated"], true);
    let left = &report["excluded"][0];
    assert_eq!(left["path"], "large.rs");
    assert!(
        left["reason"]
            .as_str()
            .unwrap()
            .contains("more would have kept it"),
        "{left}"
    );
    let bare = client.get(&format!("/v1/snapshots/{hash}/report?content=false"));
    assert_eq!(bare.ok(200).json()["blocks"][0]["text"], Value::Null);
}

#[test]
fn a_block_knows_since_when_it_is_sent() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    client.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    let mut hashes = Vec::new();
    for i in 0..3 {
        let event = format!("question {i}");
        let body = json!({"recipe": "broker", "session": "s", "event": event});
        hashes.push(assemble(&client, &body));
        let turn = json!({"messages": [
            {"role": "user", "content": event},
            {"role": "assistant", "content": format!("answer {i}")},
        ]});
        client
            .post("/v1/sessions/s/turns", &turn.to_string())
            .ok(201);
    }
    let report = client
        .get(&format!("/v1/snapshots/{}/report", hashes[2]))
        .ok(200)
        .json();
    let since = |text: &str| {
        let blocks = report["blocks"].as_array().unwrap();
        let found = |block: &&Value| block["text"].as_str().unwrap().contains(text);
        let since = &blocks.iter().find(found).unwrap()["since"];
        (
            since["snapshot"].as_str().unwrap().to_owned(),
            since["requests"].as_u64().unwrap(),
        )
    };
    assert_eq!(since("answer 0"), (hashes[1].clone(), 2));
    assert_eq!(since("answer 1"), (hashes[2].clone(), 1));
}

#[test]
fn a_request_is_refitted_from_its_sources_and_nothing_is_stored() {
    let lab = lab();
    let server = lab.serve();
    let client = server.anybody();
    let hash = assemble(
        &client,
        &json!({"recipe": "working-set", "model": "gpt-4o"}),
    );
    let refit = |body: Value| {
        let target = format!("/v1/snapshots/{hash}/refit");
        client.post(&target, &body.to_string()).ok(200).json()
    };
    let same = refit(json!({"verify": true}));
    assert_eq!(same["basis"], "sources");
    assert_eq!(same["reproduced"], true);
    assert_eq!(same["changes"], json!([]));
    let larger = refit(json!({"max_tokens": 9000}));
    let paths: Vec<&str> = larger["report"]["included"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row["path"].as_str())
        .collect();
    assert!(paths.contains(&"large.rs"), "{paths:?}");
    let changes = larger["changes"].as_array().unwrap();
    let new = changes
        .iter()
        .find(|change| change["before"] == Value::Null)
        .unwrap();
    assert!(new["now"].as_str().unwrap().contains("fn tide"), "{new}");
    let other = refit(json!({"model": "claude-sonnet-4-5", "max_tokens": 1500}));
    assert_eq!(other["provider"], "anthropic");
    // The sources change: that is reported.
    std::fs::write(lab.path("kept.md"), "It leaves at ten.\n").unwrap();
    assert_eq!(refit(json!({"verify": true}))["reproduced"], false);
    let listed = client.get("/v1/snapshots").ok(200).json();
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 1);
}

#[test]
fn a_refit_sees_the_history_of_its_time_and_does_not_compact() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    client.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    let record = |i: u32| {
        let turn = json!({"messages": [
            {"role": "user", "content": format!("question {i}")},
            {"role": "assistant", "content": format!("answer {i} {}", "and more ".repeat(300))},
        ]});
        client
            .post("/v1/sessions/s/turns", &turn.to_string())
            .ok(201);
    };
    (0..4).for_each(record);
    let hash = assemble(
        &client,
        &json!({"recipe": "broker", "session": "s", "event": "Why?"}),
    );
    (4..6).for_each(record);
    let target = format!("/v1/snapshots/{hash}/refit");
    let same = client.post(&target, r#"{"verify":true}"#).ok(200).json();
    assert_eq!(same["reproduced"], true, "{same}");
    let small = json!({"max_tokens": 1600, "reserve_response": 100});
    let small = client.post(&target, &small.to_string()).ok(200).json();
    assert!(!small["changes"].as_array().unwrap().is_empty(), "{small}");
    let history = client.get("/v1/sessions/s/history").ok(200).json();
    let kinds: Vec<&Value> = history["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| &turn["kind"])
        .collect();
    assert_eq!(kinds, ["normal"; 6]);
}

#[test]
fn a_request_that_brought_its_content_is_refitted_from_what_was_sent() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    let messages: Vec<Value> = (0..8)
        .flat_map(|i| {
            [
                json!({"role": "user", "content": format!("question {i}")}),
                json!({"role": "assistant", "content": "and more ".repeat(200)}),
            ]
        })
        .chain([json!({"role": "user", "content": "Why?"})])
        .collect();
    let body = json!({"recipe": "inline", "messages": messages, "model": "gpt-4o"});
    let hash = assemble(&client, &body);
    let target = format!("/v1/snapshots/{hash}/refit");
    let body = json!({"max_tokens": 1200, "reserve_response": 100});
    let refitted = client.post(&target, &body.to_string()).ok(200).json();
    assert_eq!(refitted["basis"], "content");
    assert!(refitted["report"]["budget"]["used"].as_u64().unwrap() <= 1100);
    assert!(!refitted["changes"].as_array().unwrap().is_empty());
    // Without another setting, nothing differs, and a window needs no reserve.
    for body in [json!({}), json!({"max_tokens": 90_000})] {
        let same = client.post(&target, &body.to_string()).ok(200).json();
        assert_eq!(same["changes"], json!([]), "{body}");
        let reserved = same["report"]["budget"]["reserved"].as_u64().unwrap();
        assert!(reserved <= 22_500, "{body}: {reserved}");
    }
    let listed = client.get("/v1/snapshots").ok(200).json();
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 1);
}

#[test]
fn history_and_snapshots_are_read_page_by_page() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    client.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    for i in 0..5 {
        let body = json!({"recipe": "broker", "session": "s", "event": format!("question {i}")});
        assemble(&client, &body);
        let turn = json!({"messages": [{"role": "user", "content": format!("question {i}")}]});
        client
            .post("/v1/sessions/s/turns", &turn.to_string())
            .ok(201);
    }
    let pages = |path: &str, list: &str| {
        let mut sizes = Vec::new();
        let mut next = String::new();
        loop {
            let page = client.get(&format!("{path}{next}")).ok(200).json();
            sizes.push(page[list].as_array().unwrap().len());
            match page["next"].as_str() {
                Some(cursor) => next = format!("&before={cursor}"),
                None => return sizes,
            }
        }
    };
    assert_eq!(pages("/v1/sessions/s/history?limit=2", "turns"), [2, 2, 1]);
    assert_eq!(
        pages("/v1/snapshots?session=s&limit=2", "snapshots"),
        [2, 2, 1]
    );
    let wrong = client.get("/v1/sessions/s/history?before=12");
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    let unknown = client.get(&format!("/v1/sessions/s/history?before={}", "0".repeat(32)));
    assert_eq!(unknown.status, 404, "{}", unknown.text());
}

#[test]
fn a_read_only_server_refuses_every_operation_that_writes() {
    let lab = lab();
    let hash = assemble(
        &lab.serve().anybody(),
        &json!({"recipe": "working-set", "model": "gpt-4o"}),
    );
    let server = lab.inspect("one-time");
    let client = server.with_key("one-time");
    // No other key opens it, and none of the store.
    for key in ["", "one-tim", "one-time-2", &lab.key("")] {
        assert_eq!(
            server.with_key(key).get("/v1/sessions").status,
            401,
            "{key}"
        );
    }
    assert_eq!(server.get("/v1/sessions").status, 401);
    let reading = [
        "recall",
        "refit_snapshot",
        "preview_request",
        "count_tokens",
        "check_recipe",
    ];
    let mut refused = 0;
    for (id, method, target, body) in contexture_server::examples() {
        // The inspector has no access to the admin API at all.
        if target.starts_with("/v1/admin/") {
            assert_eq!(client.send(&method, &target, &[], None).status, 403);
            continue;
        }
        let body = body.map(|body| body.to_string());
        let json = [("content-type", "application/json")];
        let answer = client.send(&method, &target, &json, body.as_deref());
        let may = method == "GET" || reading.contains(&id.as_str());
        let is_refused = answer.status == 403 && answer.body.contains("read_only");
        assert_eq!(is_refused, !may, "{id}: {}", answer.body);
        refused += u32::from(is_refused);
    }
    assert!(refused > 20, "{refused}");
    let tool = client.post("/mcp", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert_eq!(tool.status, 403, "{}", tool.body);
    client
        .post(&format!("/v1/snapshots/{hash}/refit"), "{}")
        .ok(200);
    assert!(client.get("/").body.contains("read-only"));
}

#[test]
fn a_preview_stores_nothing() {
    let lab = lab();
    let server = lab.serve();
    let client = server.anybody();
    let body = json!({"recipe": "working-set", "model": "gpt-4o"});
    let shown = client
        .post("/v1/assemble/preview", &body.to_string())
        .ok(200)
        .json();
    let texts: Vec<&str> = shown["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|block| block["text"].as_str())
        .collect();
    assert!(texts.contains(&"The ferry leaves at nine.\n"), "{texts:?}");
    assert_eq!(shown["report"]["excluded"][0]["path"], "large.rs");
    let listed = client.get("/v1/snapshots").ok(200).json();
    assert_eq!(listed["snapshots"], json!([]));
}
