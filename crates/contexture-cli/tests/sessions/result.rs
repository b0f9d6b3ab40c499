//! What `assemble` returns for a session: every field, with the right value.

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
    assert_eq!(hashed, ["workspace", "persona", "runtime", "role", "tools"]);
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
    // Three tags of the two messages each, and what stands between them.
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
    run.says("warning: no session is named: there is no history");
    let value = parsed(&run.out);
    assert_eq!(value["history"], json!([]));
    assert_eq!(value["parent_turn_id"], Value::Null);
    assert_eq!(value["role"], "unified");
}

#[test]
fn a_tool_call_and_its_result_go_to_each_provider_in_its_own_form() {
    let project = chat();
    let turn = json!({"messages": [
        {"role": "user", "content": "Why does the build fail?"},
        {"role": "assistant", "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool_call", "id": "c1", "name": "shell", "arguments": {"command": "make"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "no rule"},
        {"role": "assistant", "content": "There is no rule."}]});
    record(&project, "chat", &turn);
    let get = |format: &str, model: &str, pointer: &str| -> Value {
        let value = parsed(&project.ok(&request(&["--format", format, "--model", model])));
        value
            .pointer(pointer)
            .cloned()
            .unwrap_or_else(|| panic!("{value:#}"))
    };
    let anthropic = |pointer| get("anthropic", "claude-sonnet-4", pointer);
    let call = anthropic("/messages/1/content/1");
    assert_eq!(call["type"], "tool_use");
    assert_eq!(call["input"], json!({"command": "make"}));
    let result = anthropic("/messages/2/content/0");
    assert_eq!(result["type"], "tool_result");
    assert_eq!(result["tool_use_id"], call["id"]);

    let chat = |pointer| get("openai-chat", "gpt-4o", pointer);
    let call = chat("/messages/2/tool_calls/0");
    assert_eq!(
        call["function"],
        json!({"name": "shell", "arguments": "{\"command\":\"make\"}"})
    );
    assert_eq!(chat("/messages/3/role"), "tool");
    assert_eq!(chat("/messages/3/tool_call_id"), call["id"]);

    let gemini = |pointer| get("gemini", "gemini-2.5-pro", pointer);
    assert_eq!(gemini("/contents/1/parts/1/functionCall/name"), "shell");
    assert_eq!(gemini("/contents/2/parts/0/functionResponse/name"), "shell");

    let own = assembled(&project, &[]);
    assert_eq!(
        own["history"][1]["content"][1]["arguments"],
        json!({"command": "make"})
    );
    assert_eq!(own["history"][2]["role"], "tool");
    assert_eq!(own["history"][2]["trust"], "tool");
}

#[test]
fn what_the_turn_is_to_be_recorded_with_can_be_recorded() {
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
fn a_turn_knows_the_request_that_it_answers() {
    let project = chat();
    let request = assembled(&project, &[]);
    say(&project, "chat", "Go on.", "I do.");
    let turns = json_of(&project, &["session", "history", "chat"]);
    assert_eq!(turns[0]["request_hash"], request["snapshot"]);
}

#[test]
fn another_model_has_another_budget() {
    let project = chat();
    let limit = |model: &str| assembled(&project, &["--model", model])["token_budget"].clone();
    assert_eq!(limit("gpt-4o")["model_limit"], 128_000);
    assert_eq!(limit("claude-sonnet-4")["model_limit"], 200_000);
}

#[test]
fn the_same_call_gives_the_same_bytes() {
    // Two projects, because a second request tells of the first.
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
fn thoughts_behind_a_call_go_to_who_thought_them() {
    let project = chat();
    let turn = json!({"messages": [
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": [
            {"type": "thinking", "text": "Let me see.", "signature": "c2ln"},
            {"type": "tool_call", "id": "c1", "name": "shell", "arguments": {}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        {"role": "assistant", "content": [
            {"type": "thinking", "text": "That is it.", "signature": "c2ln"},
            {"type": "text", "text": "Because."}]}]});
    record(&project, "chat", &turn);
    let args = ["--format", "anthropic", "--model", "claude-sonnet-4"];
    let anthropic = parsed(&project.ok(&request(&args)));
    let thought = &anthropic["messages"][1]["content"][0];
    assert_eq!(thought["type"], "thinking");
    assert_eq!(thought["thinking"], "Let me see.");
    assert_eq!(thought["signature"], "c2ln");
    // Others never see them, and nobody those that led to no call.
    assert!(
        !anthropic.to_string().contains("That is it."),
        "{anthropic:#}"
    );
    let openai = project.ok(&request(&["--format", "openai-chat"]));
    assert!(!openai.contains("Let me see."), "{openai}");
    assert!(openai.contains("Because."), "{openai}");
}

#[test]
fn a_secret_in_the_conversation_is_masked() {
    let project = chat();
    // In two parts, so that nobody takes this file for a leak.
    let key = ["AKIA", "Z7QX2M4N6P8R3T5V"].concat();
    say(&project, "chat", &format!("The key is {key}."), "Noted.");
    let request = assembled(&project, &[]);
    assert!(!request.to_string().contains(&key), "{request:#}");
    let guard = request["report"]["guard"].as_array().unwrap();
    assert_eq!(guard.len(), 1, "{guard:?}");
    // The ledger has what was said.
    let turns = json_of(&project, &["session", "history", "chat"]);
    assert!(text(&turns[0]["messages"][0]["content"]).contains(&key));
}

#[test]
fn what_a_system_message_said_is_kept_and_not_sent() {
    let project = chat();
    let turn = json!({"messages": [
        {"role": "system", "content": "You were Otto."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."}]});
    let id = record(&project, "chat", &turn);
    let request = assembled(&project, &[]);
    assert_eq!(outline(&request), ["user: Hi", "assistant: Hello."]);
    let row = &request["report"]["excluded"][0];
    assert_eq!(row["id"], format!("{}/0", &id[..12]));
    assert_eq!(
        row["reason"],
        "kept for the record: the system prompt is made anew each time"
    );
}
