//! The tools: their descriptions and their effects.

use super::*;

const CHANGING: [&str; 9] = [
    "add_to_working_set",
    "remove_from_working_set",
    "adjust_priority",
    "remember",
    "forget",
    "begin_session",
    "push_task",
    "pop_task",
    "compact",
];

#[test]
fn the_server_describes_itself_and_its_tools() {
    let project = project();
    for mode in MODES {
        let steps = [json!({"do": "info"}), json!({"do": "tools"})];
        let seen = drive(&stdio(&project), mode, &steps);
        let info = &seen[0]["ok"];
        assert_eq!(info["server"]["name"], "contexture");
        assert_eq!(info["server"]["version"], env!("CARGO_PKG_VERSION"));
        let protocol = match mode {
            "legacy" => "2025-11-25",
            _ => "2026-07-28",
        };
        assert_eq!(info["protocol"], protocol);
        let instructions = info["instructions"].as_str().unwrap();

        let tools = seen[1]["ok"].as_array().unwrap();
        let names: Vec<&str> = tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        let expected = [
            "assemble",
            "context_report",
            "add_to_working_set",
            "remove_from_working_set",
            "adjust_priority",
            "remember",
            "recall",
            "forget",
            "begin_session",
            "record_turn",
            "push_task",
            "pop_task",
            "compact",
            "fetch",
            "fit",
        ];
        assert_eq!(names, expected);
        for tool in tools {
            let name = tool["name"].as_str().unwrap();
            assert!(instructions.contains(&format!("`{name}`")), "{name}");
            assert!(tool["description"].as_str().unwrap().len() > 80, "{name}");
            let takes = &tool["inputSchema"];
            assert_eq!(takes["additionalProperties"], false, "{name}");
            let required = takes["required"].as_array();
            let needs_why = required.is_some_and(|names| names.contains(&json!("why")));
            assert_eq!(needs_why, CHANGING.contains(&name), "{name}");
            for (argument, schema) in takes["properties"].as_object().unwrap() {
                let about = schema["description"].as_str();
                assert!(
                    about.is_some_and(|about| about.len() > 8),
                    "{name}.{argument}"
                );
                assert!(schema["type"].is_string(), "{name}.{argument}: {schema}");
            }
            assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
            let hints = &tool["annotations"];
            assert_eq!(hints["openWorldHint"], false, "{name}");
            let reads = ["recall", "fetch", "fit"].contains(&name);
            assert_eq!(hints["readOnlyHint"], reads, "{name}");
            assert_eq!(hints["title"], tool["title"], "{name}");
        }
    }
}

#[test]
fn the_default_list_is_short() {
    let project = project();
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let said = format!("{begin}\n{ready}\n{call}\n");
    let list = |args: &[&str]| -> Vec<Value> {
        let out = project.run_with(args, &said).out;
        let answer: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        answer["result"]["tools"].as_array().unwrap().clone()
    };
    let tokens = |tools: &[Value]| {
        let shown: Vec<Value> = tools
            .iter()
            .map(|tool| {
                json!({"name": tool["name"], "description": tool["description"],
                    "inputSchema": tool["inputSchema"]})
            })
            .collect();
        let text = serde_json::to_string(&shown).unwrap();
        (
            bpe_openai::o200k_base().count(&text),
            bpe_openai::o200k_base().count(&serde_json::to_string(tools).unwrap()),
        )
    };
    let core = list(&["mcp"]);
    let (shown, sent) = tokens(&core);
    println!("{} tools: {shown} tokens, {sent} as sent", core.len());
    assert!(sent <= 1200, "{sent} tokens");
    let names: Vec<&str> = core
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    for name in [
        "remember",
        "recall",
        "forget",
        "begin_session",
        "record_turn",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    let all = list(&["mcp", "--tools", "all"]);
    println!("{} tools: {:?}", all.len(), tokens(&all));
    // A tool that is not listed can be called.
    let call = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {
        "name": "push_task", "arguments": {"goal": "Mend the lamp", "why": "It is dark."}}});
    let out = project
        .run_with(&["mcp"], &format!("{begin}\n{ready}\n{call}\n"))
        .out;
    assert!(out.contains("task t1 is current"), "{out}");
}

#[test]
fn a_session_is_begun_recorded_and_forgotten() {
    let project = project();
    let begin = json!({"label": "trip", "why": "The user plans a trip."});
    let done = called(
        &project,
        &[
            call("begin_session", begin.clone()),
            call(
                "record_turn",
                json!({"session": "trip", "user": "Where to?",
                "assistant": "To Oslo."}),
            ),
            call("begin_session", begin),
            call(
                "remember",
                json!({"text": "Ann likes Oslo.", "why": "She said so."}),
            ),
        ],
    );
    assert_eq!(text(&done[0]), "session trip is created");
    assert_eq!(text(&done[1]), "recorded turn 1 of session trip");
    assert_eq!(text(&done[2]), "session trip has 1 turns");
    assert!(
        project
            .ok(&["session", "history", "trip"])
            .contains("To Oslo.")
    );
    let id = done[3]["structuredContent"]["id"].as_str().unwrap();
    let done = called(
        &project,
        &[call(
            "forget",
            json!({"id": id, "why": "She changed her mind."}),
        )],
    );
    // The fact, and the place that only this fact mentions.
    assert_eq!(text(&done[0]), "2 records deleted");
    assert!(
        !project
            .ok(&["memory", "recall", "Oslo"])
            .contains("Ann likes")
    );
}

/// Returns a request without the mark in its tags, which is the store's.
fn without_mark(text: &str) -> String {
    let at = text.find("<system-").unwrap() + "<system".len();
    text.replace(&text[at..at + 10], "")
}

#[test]
fn the_request_is_the_one_of_the_command_line() {
    let project = project();
    let (expected, _) = project.assemble(&[]);
    let arguments = json!({"max_tokens": 500, "format": "anthropic", "model": "claude-sonnet-4-5"});
    let done = called(
        &project,
        &[call("assemble", json!({})), call("assemble", arguments)],
    );
    assert_eq!(without_mark(text(&done[0])), expected);
    let about = &done[0]["structuredContent"];
    assert!(
        (900..=1000).contains(&about["tokens"].as_u64().unwrap()),
        "{about}"
    );
    assert_eq!(about["format"], "text");
    let warnings = about["warnings"].as_array().unwrap();
    assert!(
        warnings.contains(&json!("cut to less than half: `notes.md`")),
        "{warnings:?}"
    );
    // It is kept.
    let hash = about["snapshot"].as_str().unwrap();
    assert_eq!(
        without_mark(&project.ok(&["snapshot", "show", hash, "--format", "text"])),
        expected
    );

    let request: Value = serde_json::from_str(text(&done[1])).unwrap();
    assert_eq!(request["model"], "claude-sonnet-4-5");
    assert!(
        request["messages"][0]["content"]
            .to_string()
            .contains("lighthouses")
    );
}

#[test]
fn the_report_accounts_for_every_candidate() {
    let project = project().file("big.md", "more of it\n".repeat(4000));
    project.ok("working-set add big.md --priority 0.1 --why test");
    let done = called(&project, &[call("context_report", json!({}))]);
    let account = &done[0]["structuredContent"];
    let ids = |name: &str| -> Vec<(String, String)> {
        let rows = account[name].as_array().unwrap();
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        rows.iter()
            .map(|row| (word(&row["id"]), word(&row["code"])))
            .collect()
    };
    let row = |id: &str, code: &str| (id.to_owned(), code.to_owned());
    assert_eq!(
        ids("included"),
        [
            row("boot header", "pinned"),
            row("rules.md", "pinned"),
            row("notes.md", "cut")
        ]
    );
    assert_eq!(ids("excluded"), [row("big.md", "over_budget")]);
    let lines: Vec<&str> = text(&done[0]).lines().collect();
    assert!(
        lines[0].starts_with("working-set for gpt-5.6: 9"),
        "{lines:?}"
    );
    assert!(lines[1].starts_with("out   big.md (files): "), "{lines:?}");
    assert!(
        lines[2].starts_with("cut   notes.md (files): "),
        "{lines:?}"
    );
}

#[test]
fn the_working_set_is_changed_with_a_reason() {
    let project = project();
    let done = called(
        &project,
        &[
            call(
                "add_to_working_set",
                json!({"path": "src/lamp.rs", "priority": 0.9, "why": " The bug is there. ",
                       "max_lines": 40, "session": "repair"}),
            ),
            call(
                "adjust_priority",
                json!({"path": "notes.md", "priority": 0.2, "why": "Background only.",
                       "session": "repair"}),
            ),
        ],
    );
    assert_eq!(text(&done[0]), "added src/lamp.rs at 0.9");
    assert_eq!(text(&done[1]), "set notes.md to 0.2");
    let changed = &done[0]["structuredContent"];
    assert_eq!(changed["manifest"], "working-set.yml");
    assert_eq!(changed["changes"][0]["why"], "The bug is there.");
    let listed = json_of(&project, &["working-set", "list"]);
    let files: Vec<_> = listed["files"].as_array().unwrap().iter().collect();
    assert_eq!(files.len(), 3);
    assert_eq!(
        (&files[1]["path"], &files[1]["priority"]),
        (&json!("notes.md"), &json!(0.2))
    );
    assert_eq!(files[2]["path"], "src/lamp.rs");
    assert_eq!(files[2]["max_lines"], 40);
    let log = project.read(".contexture/sessions/repair/events.jsonl");
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["actor"], "model");
    assert_eq!(lines[0]["why"], "The bug is there.");
    assert_eq!(lines[1]["why"], "Background only.");

    let gone = call(
        "remove_from_working_set",
        json!({"path": "src/lamp.rs", "why": "Mended."}),
    );
    assert_eq!(text(&called(&project, &[gone])[0]), "removed src/lamp.rs");
    let listed = json_of(&project, &["working-set", "list"]);
    assert_eq!(listed["files"].as_array().unwrap().len(), 2);
}

#[test]
fn recorded_events_are_recalled() {
    let project = project();
    let done = called(
        &project,
        &[
            call(
                "remember",
                json!({"text": "Ada drinks green tea in the morning.", "speaker": "Ada",
                       "session": "kitchen", "why": "It is asked every day."}),
            ),
            call(
                "remember",
                json!({"record": {"kind": "entity", "type": "person", "name": "Ada"},
                       "why": "She is mentioned often."}),
            ),
            call("recall", json!({"query": "What does Ada drink?"})),
            call(
                "recall",
                json!({"query": "", "max_tokens": 100,
                                  "filters": {"event_types": ["decision"]}}),
            ),
        ],
    );
    let id = done[0]["structuredContent"]["id"].as_str().unwrap();
    assert_eq!(text(&done[0]), format!("stored as {id}"));
    assert_eq!(done[0]["structuredContent"]["added"], 1);
    assert_eq!(done[1]["structuredContent"]["id"], "person:Ada");
    assert!(
        text(&done[2]).contains("Ada drinks green tea in the morning."),
        "{}",
        text(&done[2])
    );
    let found = done[2]["structuredContent"]["records"].as_array().unwrap();
    assert!(found.iter().any(|record| record["id"] == id), "{found:?}");
    assert!(!text(&done[3]).contains("green tea"), "{}", text(&done[3]));

    let shown = project.ok(&["memory", "show", id, "--json"]);
    assert!(shown.contains("green tea"), "{shown}");
    let log = project.read(".contexture/sessions/kitchen/events.jsonl");
    assert!(log.contains(r#""why":"It is asked every day.""#), "{log}");
    // The same again is one record.
    let again = json!({"text": "Ada drinks green tea in the morning.", "speaker": "Ada",
                       "session": "kitchen", "why": "Again."});
    let done = called(&project, &[call("remember", again)]);
    assert_eq!(text(&done[0]), format!("{id} already exists"));
}

#[test]
fn recorded_events_have_their_scope() {
    let project = project();
    let scope = json!({"text": "The tea of the morning is green.", "user": "ada",
                       "agent": "cook", "session": "kitchen", "task": "breakfast",
                       "source": "kitchen.md", "why": "It is asked every day."});
    let recall = |filters| call("recall", json!({"query": "Which tea?", "filters": filters}));
    let entity = json!({"record": {"kind": "entity", "type": "person", "name": "Ada"},
                        "user": "ada", "why": "x"});
    let done = called(
        &project,
        &[
            call("remember", scope),
            recall(json!({"user": "ada", "agent": "cook", "source": "kitchen.md"})),
            recall(json!({"user": "ben"})),
        ],
    );
    assert!(text(&done[1]).contains("green"), "{}", text(&done[1]));
    assert_eq!(text(&done[2]), "no records found");
    let refused = &drive(&stdio(&project), "auto", &[call("remember", entity)])[0]["ok"];
    assert_eq!(refused["structuredContent"]["field"], "user", "{refused}");
    let id = done[0]["structuredContent"]["id"].as_str().unwrap();
    let shown = json_of(&project, &["memory", "show", id]).to_string();
    for field in [
        r#""user":"ada""#,
        r#""agent":"cook""#,
        r#""session_id":"kitchen""#,
        r#""task_id":"breakfast""#,
        r#""source":"kitchen.md""#,
    ] {
        assert!(shown.contains(field), "{field}: {shown}");
    }
}

#[test]
fn tasks_are_pushed_and_popped() {
    let project = project();
    let done = called(
        &project,
        &[
            call(
                "push_task",
                json!({"goal": "Mend the lamp", "id": "lamp", "why": "It is dark."}),
            ),
            call(
                "push_task",
                json!({"goal": "Find the wire", "id": "wire", "why": "A part."}),
            ),
            call(
                "pop_task",
                json!({"result": "Behind the wall", "why": "Found."}),
            ),
            call(
                "pop_task",
                json!({"result": "No wire to buy", "blocked": true, "why": "Waits."}),
            ),
        ],
    );
    let said: Vec<&str> = done.iter().map(text).collect();
    let expected = [
        "task lamp is current",
        "task wire is current; its parent is lamp",
        "task wire is complete; lamp is current: Mend the lamp",
        "task lamp is blocked; no task is current",
    ];
    assert_eq!(said, expected);
    let stack = json_of(&project, &["task", "show"]);
    let tasks = &stack["tasks"];
    assert_eq!(
        (&tasks[0]["status"], &tasks[1]["status"]),
        (&json!("blocked"), &json!("complete"))
    );
    assert_eq!(tasks[1]["result"], "Behind the wall");
    let log = project.read(".contexture/sessions/default/events.jsonl");
    assert!(
        log.contains(r#""event":"task_popped","actor":"model","why":"Found.""#),
        "{log}"
    );
}

#[test]
fn a_cut_tool_result_can_be_fetched() {
    let project = project();
    project.ok(&["session", "new", "support", "--now", NOW]);
    let secret = "ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW2xY4";
    let mut lines: Vec<String> = (1..=2_000).map(|i| format!("step {i} is done")).collect();
    lines[700] = format!("error: token {secret} was rejected");
    let turn = json!({"messages": [
        {"role": "user", "content": "Run it."},
        {"role": "assistant", "content": [
            {"type": "tool_call", "id": "c1", "name": "shell", "arguments": {"command": "run"}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": lines.join("\n")},
    ]});
    let record = ["session", "record", "support", "-", "--now", NOW];
    project.run_with(&record, &turn.to_string()).expect_code(0);
    let request = project.ok(&[
        "assemble",
        "--recipe",
        "broker",
        "--session",
        "support",
        "--event",
        "Go on.",
        "--max-tokens",
        "16000",
        "--now",
        NOW,
    ]);
    let handle = request.split("; fetch ").nth(1).unwrap();
    let handle = handle.split(' ').next().unwrap();
    let done = called(
        &project,
        &[
            call("fetch", json!({"handle": handle, "lines": "699-700"})),
            call("fetch", json!({"handle": handle, "grep": "^error"})),
            call("fetch", json!({"handle": handle, "max_bytes": 30})),
            call("fetch", json!({"handle": handle, "grep": "zzz"})),
        ],
    );
    assert_eq!(text(&done[0]), "step 699 is done\nstep 700 is done");
    assert!(text(&done[1]).starts_with("701: error: token [secret masked: "));
    assert_eq!(
        text(&done[2]),
        "step 1 is done\nstep 2 is done\n[this is up to line 2 of 2000; continue with lines 3-]"
    );
    assert_eq!(text(&done[3]), "no line matches");
    let steps = [
        call("fetch", json!({"handle": "sha256:000000000000"})),
        call("fetch", json!({"handle": handle, "jq": ".a"})),
    ];
    let refused = drive(&stdio(&project), "auto", &steps);
    for (refused, told) in refused
        .iter()
        .zip(["there is no tool result", "is not JSON"])
    {
        assert_eq!(refused["ok"]["isError"], true, "{refused}");
        assert!(text(&refused["ok"]).contains(told), "{refused}");
    }
}

#[test]
fn a_session_is_summarised() {
    let project = with_session(project(), "support", 12);
    let arguments = json!({"session": "support", "focus": "handles", "max_tokens": 2100,
                           "why": "The first files are done."});
    let done = called(&project, &[call("compact", arguments)]);
    let compacted = &done[0]["structuredContent"]["compacted"];
    assert!(compacted["turns"].as_u64().unwrap() > 4, "{compacted}");
    assert!(
        text(&done[0]).starts_with("compacted "),
        "{}",
        text(&done[0])
    );
    let turns = json_of(&project, &["session", "history", "support", "--all"]);
    let last = turns.as_array().unwrap().last().unwrap();
    assert_eq!(last["kind"], "compaction");
    assert_eq!(last["id"], compacted["turn_id"]);
    let log = project.read(".contexture/sessions/support/events.jsonl");
    assert!(
        log.contains(r#""why":"The first files are done.""#),
        "{log}"
    );
}
