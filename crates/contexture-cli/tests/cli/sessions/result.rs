//! The result of `assemble` for a session: every field, with the right value.

use super::*;

#[test]
fn every_field_of_the_result() {
    let project = with_session(
        Project::new()
            .file("AGENTS.md", "Follow the house rules.\n")
            .file("tools.json", r#"[{"name": "shell"}, {"name": "mail"}]"#)
            .file("event.json", r#"{"content": "Why?", "id": "e1"}"#)
            .file(
                "contexture.toml",
                "runtime.host = \"box\"\ntoolsets.small = [\"shell\"]\npermissions.allow = [\"s*\"]\n",
            ),
    );
    say(&project, "chat", "Hi", "Hello.");
    let head = say(&project, "chat", "And?", "Nothing.");
    let args = "--role manager --toolset small --event-file event.json --reserve-response 1000 \
                --reserve-tools 500 --max-tokens 10000";
    let value = assembled(&project, &args.split(' ').collect::<Vec<_>>());

    assert_eq!(value["model"], "gpt-4o");
    assert_eq!(value["provider"], "openai");
    assert_eq!(value["model_config"], json!({"max_output_tokens": 1000}));
    assert_eq!(value["session_label"], "chat");
    assert_eq!(value["parent_turn_id"], head.as_str());
    assert_eq!(value["role"], "manager");
    assert_eq!(value["toolset_name"], "small");
    assert_eq!(value["permissions_granted"], json!(["s*"]));
    assert_eq!(value["source_event_id"], "e1");
    assert_eq!(value["workspace_path"], ".");
    assert_eq!(value["document"], Value::Null);
    assert_eq!(value["tools"][0]["name"], "shell");
    assert_eq!(
        outline(&value),
        [
            "user: Hi",
            "assistant: Hello.",
            "user: And?",
            "assistant: Nothing."
        ]
    );
    assert_eq!(
        value["truncation"],
        json!({"truncated": false, "items_cut": 0, "items_dropped": 1, "compacted": null})
    );
    let system = &value["context_json"]["system"];
    let hashed: Vec<&String> = system.as_object().unwrap().keys().collect();
    assert_eq!(hashed, ["tools", "workspace", "persona", "runtime", "role"]);
    assert_eq!(value["snapshot"].as_str().map(str::len), Some(64));
}

#[test]
fn the_token_budget_adds_up() {
    let project = chat().file("AGENTS.md", "Follow the house rules.\n");
    say(&project, "chat", "Hi", "Hello.");
    let args = [
        "--reserve-response",
        "1000",
        "--reserve-tools",
        "500",
        "--max-tokens",
        "10000",
    ];
    let value = assembled(&project, &args);
    let budget = &value["token_budget"];
    assert_eq!(budget["model_limit"], 10_000);
    assert_eq!(budget["reserve_response"], 1_000);
    assert_eq!(budget["reserve_tools"], 500);
    assert_eq!(budget["available"], 8_500);
    let number = |value: &Value| value.as_u64().unwrap();
    let sum = |object: &Value, names: &[&str]| -> u64 {
        names.iter().map(|name| number(&object[name])).sum()
    };
    let used = &budget["used"];
    let total = number(&used["total"]);
    assert_eq!(sum(used, &["system_prompt", "history", "event"]), total);
    let layers = ["workspace", "persona", "history", "memory", "event"];
    assert_eq!(sum(&budget["allocation"], &layers), total);
    assert_eq!(number(&budget["remaining"]), 8_500 - total);
    assert_eq!(budget["allocation"]["history"], used["history"]);
    assert_eq!(budget["allocation"]["memory"], 0);
    assert_eq!(value["report"]["budget"]["used"], used["total"]);
    // Three tags of each of the two messages, and the text between them.
    let prompt = project.ok(&request(&args));
    assert_eq!(tokens(&prompt), total);
}

/// Counts by a tokenizer that is not ours.
fn tokens(text: &str) -> u64 {
    bpe_openai::o200k_base().count(text) as u64
}

#[test]
fn without_a_session_there_is_no_history_and_a_warning() {
    let project = project();
    let args = [
        "assemble", "--recipe", "broker", "--event", "Hi", "--format", "json",
    ];
    let run = project.run(&args);
    run.expect_code(0);
    run.says("warning: no session is named, so the request has no history; set --session");
    let value = parsed(&run.out);
    assert_eq!(value["history"], json!([]));
    assert_eq!(value["parent_turn_id"], Value::Null);
    assert_eq!(value["role"], "unified");
}

#[test]
fn the_fields_for_recording_are_accepted() {
    let project = chat();
    let value = assembled(&project, &["--role", "manager"]);
    let turn = json!({
        "messages": [
            {"role": "user", "content": "Go on.", "context_json": value["context_json"]["user"]},
            {"role": "assistant", "content": "I do."},
        ],
        "model": value["model"], "provider": value["provider"], "role": value["role"],
        "permissions_granted": value["permissions_granted"],
        "parent_turn_id": value["parent_turn_id"], "request_hash": value["snapshot"],
    });
    record(&project, "chat", &turn);
    let turns = json_of(&project, &["session", "history", "chat"]);
    assert_eq!(turns[0]["request_hash"], value["snapshot"]);
    assert_eq!(turns[0]["role"], "manager");
    assert_eq!(turns[0]["messages"][0]["context_json"]["injected_at"], NOW);
}

#[test]
fn the_same_call_gives_the_same_bytes() {
    // Two projects are needed, because a second request is compared with the
    // first.
    let [one, other] = [long_chat(3), long_chat(3)];
    for format in [
        "json",
        "text",
        "anthropic",
        "openai-chat",
        "openai-responses",
        "gemini",
    ] {
        let args = request(&["--format", format]);
        assert_eq!(one.ok(&args), other.ok(&args), "{format}");
    }
    for args in [
        "session show chat",
        "session history chat",
        "snapshot list",
        "session list",
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        assert_eq!(one.ok(&args), other.ok(&args), "{args:?}");
        assert_eq!(json_of(&one, &args), json_of(&other, &args), "{args:?}");
    }
}

#[test]
fn an_event_comes_from_standard_input() {
    let project = chat();
    let args = request(&["--event-file", "-", "--format", "json"]);
    let run = project.run_with(&args, r#"{"content":"From a pipe","id":"e7"}"#);
    let value = parsed(&run.out);
    assert_eq!(value["source_event_id"], "e7");
    assert!(text(&value["current_message"]["content"]).ends_with("\n\nFrom a pipe"));
    // Half an event, or another object, is not sent as text.
    for wrong in ["{\"content\": \"tor", "{\"just\": \"JSON\"}\n"] {
        let run = project.run_with(&args, wrong);
        run.expect_code(2);
        assert!(
            run.err.starts_with("error: standard input: "),
            "{}",
            run.err
        );
    }
    // Text that does not begin like JSON is an event.
    let run = project.run_with(&args, "{{ template }}\n");
    let value = parsed(&run.out);
    assert!(text(&value["current_message"]["content"]).ends_with("\n\n{{ template }}"));
}
