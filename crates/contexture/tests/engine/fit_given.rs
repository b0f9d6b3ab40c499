//! What a provider's own request has around its conversation, and what a client
//! changes in it.

use crate::support::*;
use contexture::snapshot::{self, Saved};
use contexture::store::NewTurn;
use contexture::{CacheCause, Cause, Error, FitOptions, Fitted, Format};
use serde_json::{Value, json};

fn fit(lab: &Lab, body: &Value, session: Option<&str>, max_tokens: u64) -> Result<Fitted, Error> {
    let options = FitOptions {
        session: session.map(str::to_owned),
        max_tokens: Some(max_tokens),
        ..FitOptions::default()
    };
    lab.engine
        .fit(&lab.root, body.to_string().as_bytes(), &options)
}

fn step(i: usize, result: &str) -> [Value; 2] {
    let id = format!("t{i}");
    [
        json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": id, "name": "bash", "input": {"command": format!("cat f{i}")}},
        ]}),
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": result},
        ]}),
    ]
}

fn run(first: &str, steps: usize) -> Vec<Value> {
    let mut messages = vec![json!({"role": "user", "content": first})];
    messages.extend((0..steps).flat_map(|i| step(i, &prose(i, 60))));
    messages
}

fn request(messages: &[Value]) -> Value {
    json!({"model": "claude-sonnet-5-5", "max_tokens": 500, "messages": messages})
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Runs it.", "input_schema": {"type": "object"}})
}

/// Returns the latest saved request of a session, in Anthropic's form.
fn saved(lab: &Lab, fitted: &Fitted) -> Value {
    let hash = fitted.assembled.snapshot.as_deref().unwrap();
    let store = lab.engine.store().unwrap();
    let snapshot = snapshot::find(store, hash).unwrap();
    let saved = Saved::load(store, &snapshot).unwrap();
    saved.check(store).unwrap();
    let body = saved.render(store, Format::Anthropic).unwrap();
    serde_json::from_str(&body).unwrap()
}

/// The provider counts the tools and the instructions, too. A count of the messages
/// alone would make the model look as if its tokens were shorter.
#[test]
fn a_provider_s_count_is_compared_with_the_whole_request() {
    let lab = Lab::new("");
    let system: Vec<String> = (0..250)
        .map(|i| format!("Rule {i}: follow the guide."))
        .collect();
    let mut messages = vec![json!({"role": "user", "content": "Look at the repository."})];
    for i in 0..8 {
        let mut body = request(&messages);
        body["system"] = json!(system.join(" "));
        let fitted = fit(&lab, &body, Some("s"), 60_000).unwrap();
        let real = bpe_openai::o200k_base().count(&fitted.body) as u64 * 6 / 5;
        let said = format!("Answer {i}: {}", prose(i, 400));
        let response = json!({"id": format!("m{i}"), "type": "message", "role": "assistant",
            "model": "claude-sonnet-5-5", "content": [{"type": "text", "text": said}],
            "stop_reason": "end_turn", "usage": {"input_tokens": real, "output_tokens": 60}});
        let recording =
            contexture::Recording::read("-", response.to_string().as_bytes(), None).unwrap();
        let turn: NewTurn = lab.engine.turn_of("s", recording).unwrap();
        lab.record("s", &turn);
        messages.push(json!({"role": "assistant", "content": said}));
        messages.push(json!({"role": "user", "content": format!("Next module, number {i}.")}));
    }
    let fitted = fit(&lab, &request(&messages), Some("s"), 60_000).unwrap();
    let name = &fitted.assembled.report.tokenizer.name;
    let factor: f64 = name.rsplit(" x").next().unwrap().parse().unwrap();
    assert!((1.15..=1.3).contains(&factor), "{name}");
}

/// Providers add the schema of the response to the prompt.
#[test]
fn the_schema_of_the_response_is_counted() {
    let lab = Lab::new("");
    let schema = json!({"type": "object", "description": prose(7, 2_000)});
    let said = json!([{"role": "user", "content": "Hi."}]);
    for (request, field, value) in [
        (
            json!({"model": "gpt-4o", "messages": said}),
            "response_format",
            json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}),
        ),
        (
            json!({"model": "gpt-4o", "input": "Hi."}),
            "text",
            json!({"format": {"type": "json_schema", "name": "a", "schema": schema}}),
        ),
        (
            json!({"model": "claude-sonnet-5-5", "max_tokens": 500, "messages": said}),
            "output_config",
            json!({"format": {"type": "json_schema", "schema": schema}}),
        ),
        (
            json!({"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]}),
            "generationConfig",
            json!({"responseMimeType": "application/json", "responseJsonSchema": schema}),
        ),
    ] {
        let available = |request: &Value| {
            let fitted = fit(&lab, request, None, 50_000).unwrap();
            fitted.assembled.report.budget.available
        };
        let mut with = request.clone();
        with[field] = value;
        let (before, after) = (available(&request), available(&with));
        assert!(after + 1_200 < before, "{field}: {before} {after}");
    }
}

#[test]
fn changed_tools_and_instructions_break_the_cache() {
    let lab = Lab::new("");
    let mut body = request(&run("Go.", 2));
    body["tools"] = json!([tool("bash")]);
    body["system"] = json!("Be brief.");
    fit(&lab, &body, Some("s"), 32_000).unwrap();
    let mut next = body.clone();
    next["messages"] = json!(run("Go.", 3));
    let fitted = fit(&lab, &next, Some("s"), 32_000).unwrap();
    assert_eq!(fitted.assembled.report.cache_break(), None);

    next["messages"] = json!(run("Go.", 4));
    next["tools"] = json!([tool("read")]);
    let fitted = fit(&lab, &next, Some("s"), 32_000).unwrap();
    let cache = fitted.assembled.report.cache_break().unwrap();
    assert_eq!(cache.cause, Some(CacheCause::Tools));
    assert_eq!(cache.shared_tokens, 0);

    next["messages"] = json!(run("Go.", 5));
    next["system"] = json!("Be verbose.");
    let fitted = fit(&lab, &next, Some("s"), 32_000).unwrap();
    let difference = fitted.assembled.report.cache.clone().unwrap();
    let first = difference.first_difference.unwrap();
    assert_eq!(&*first.layer, "system");
    assert!(fitted.assembled.report.cache_break().is_some());
}

/// Settings, tools and instructions included.
#[test]
fn a_saved_request_is_the_one_that_was_sent() {
    let lab = Lab::new("");
    for steps in [3, 60] {
        let mut body = request(&run("Fix it.", steps));
        body["tools"] = json!([tool("bash")]);
        body["system"] = json!([{"type": "text", "text": "Be brief."}]);
        body["temperature"] = json!(0.25);
        let fitted = fit(&lab, &body, Some("s"), 8_000).unwrap();
        assert_eq!(fitted.is_changed, steps > 3);
        let saved = saved(&lab, &fitted);
        for field in ["tools", "system", "temperature", "model", "max_tokens"] {
            assert_eq!(saved[field], body[field], "{field}");
        }
        if fitted.is_changed {
            let sent: Value = serde_json::from_str(&fitted.body).unwrap();
            assert_eq!(saved, sent);
        }
    }
}

#[test]
fn a_conversation_that_was_edited_is_rejected() {
    let lab = Lab::new("");
    fit(
        &lab,
        &request(&run("Never touch main.py.", 6)),
        Some("s"),
        16_000,
    )
    .unwrap();
    let edited = run("You may edit main.py.", 7);
    let error = fit(&lab, &request(&edited), Some("s"), 16_000)
        .map(|fitted| fitted.body)
        .unwrap_err();
    assert_eq!(error.cause(), Cause::Conflict);
    assert!(
        error
            .to_string()
            .contains("the user message that begins with `You may edit main.py.`"),
        "{error}"
    );
    // The client's own summary, and the latest messages.
    let mut summarised = vec![json!({"role": "user", "content": "[Summary] All is well."})];
    summarised.extend(run("Never touch main.py.", 7).split_off(9));
    let error = fit(&lab, &request(&summarised), Some("s"), 16_000)
        .map(|fitted| fitted.body)
        .unwrap_err();
    assert!(error.to_string().contains("[Summary]"), "{error}");
    // Nothing was recorded, and the conversation goes on.
    let body = request(&run("Never touch main.py.", 7));
    let fitted = fit(&lab, &body, Some("s"), 16_000).unwrap();
    assert!(fitted.body.contains("Never touch main.py."));
}

/// Clients replace old results by a note, leave out reasoning and old messages, and
/// write texts in lists.
#[test]
fn a_client_may_clear_results_and_leave_out_its_oldest_messages() {
    let lab = Lab::new("");
    let whole = run("Never touch main.py.", 8);
    fit(&lab, &request(&whole[..13]), Some("s"), 16_000).unwrap();
    let mut cleared = whole.clone();
    cleared[2]["content"][0]["content"] = json!("[Old tool result content cleared]");
    cleared[0]["content"] = json!([{"type": "text", "text": "Never touch main.py."}]);
    // Another process, which has not read the session yet.
    let other = lab.another("");
    let options = FitOptions {
        session: Some("s".to_owned()),
        max_tokens: Some(16_000),
        ..FitOptions::default()
    };
    for body in [&cleared[..15], &cleared[3..]] {
        let body = request(body).to_string();
        let fitted = other.fit(&lab.root, body.as_bytes(), &options).unwrap();
        assert!(fitted.body.contains("Never touch main.py."));
    }
}

#[test]
fn long_results_are_cut_only_if_the_request_does_not_fit() {
    let lab = Lab::new("");
    let long = prose(3, 3_000);
    let mut messages = run("Read it in full.", 1);
    messages.extend(step(7, &long));
    let body = request(&messages);
    let fitted = fit(&lab, &body, None, 64_000).unwrap();
    assert!(!fitted.is_changed);
    assert_eq!(fitted.body, body.to_string());
    let fitted = fit(&lab, &body, None, 4_000).unwrap();
    assert!(fitted.is_changed);
    assert!(fitted.body.contains("cut"), "{}", fitted.body);
    // Nothing is stored, so nothing can be fetched.
    assert!(!fitted.body.contains("fetch"), "{}", fitted.body);
}

/// The model must know that there was one.
#[test]
fn an_image_of_the_user_is_described_in_the_summary() {
    let lab = Lab::new("");
    let mut messages = run("Make it look like this.", 60);
    messages[0] = json!({"role": "user", "content": [
        {"type": "text", "text": "Make it look like this."},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
    ]});
    let fitted = fit(&lab, &request(&messages), None, 6_000).unwrap();
    let made: Value = serde_json::from_str(&fitted.body).unwrap();
    let summary = made["messages"][0].to_string();
    assert!(
        summary.contains("Make it look like this. [image"),
        "{summary}"
    );
}

/// The provider's cache has them as they were sent first.
#[test]
fn ids_and_empty_results_stay_as_they_are() {
    let lab = Lab::new("");
    let mut messages = run("Go.", 1);
    messages.extend(step(1, ""));
    fit(&lab, &request(&messages), Some("s"), 32_000).unwrap();
    messages.extend(step(2, &prose(1, 12_000)));
    let fitted = fit(&lab, &request(&messages), Some("s"), 32_000).unwrap();
    assert!(fitted.is_changed);
    let made: Value = serde_json::from_str(&fitted.body).unwrap();
    for (i, message) in messages.iter().enumerate().take(5) {
        let mut sent = made["messages"][i].clone();
        let mut given = message.clone();
        for message in [&mut sent, &mut given] {
            if let Some(text) = message["content"].as_str().map(str::to_owned) {
                message["content"] = json!([{"type": "text", "text": text}]);
            }
            message["content"][0]
                .as_object_mut()
                .unwrap()
                .remove("cache_control");
        }
        assert_eq!(sent, given);
    }
}

/// The provider wrote it, and rejects it if it was changed.
#[test]
fn signed_reasoning_with_a_secret_is_sent_unchanged() {
    let lab = Lab::new("");
    let thinking = json!({"type": "thinking", "signature": "c2lnbmVk",
        "thinking": "The token is ghp_012345678901234567890123456789abcdef."});
    let mut messages = run("Go.", 40);
    let [mut call, result] = step(90, "done");
    call["content"]
        .as_array_mut()
        .unwrap()
        .insert(0, thinking.clone());
    messages.extend([call, result]);
    let fitted = fit(&lab, &request(&messages), None, 6_000).unwrap();
    assert!(fitted.is_changed);
    let made: Value = serde_json::from_str(&fitted.body).unwrap();
    let kept = made["messages"].as_array().unwrap();
    assert_eq!(kept[kept.len() - 2]["content"][0], thinking);
}

/// The request that is sent has the key; the store does not.
#[test]
fn keys_in_the_fields_of_a_request_are_masked_in_its_snapshot() {
    let lab = Lab::new("");
    let key = "ghp_Zq8Lw2Xv5Nt1Rb7Kd4Mj9Hc3Fy6Gs0PaQeUi";
    let server = json!({"type": "url", "url": "https://tools.example", "name": "hub",
        "authorization_token": key});
    let mut body = request(&run("Look at the repository.", 2));
    body["mcp_servers"] = json!([server]);
    body["tools"] = json!([tool("bash")]);
    let first = fit(&lab, &body, Some("s"), 60_000).unwrap();
    assert!(first.body.contains(key), "{}", first.body);
    let kept = saved(&lab, &first);
    assert!(!kept.to_string().contains(key), "{kept}");
    assert_eq!(kept["mcp_servers"][0]["url"], "https://tools.example");
    assert_eq!(kept["tools"], body["tools"]);

    // The same fields are no cache break, and are not written again.
    body["messages"]
        .as_array_mut()
        .unwrap()
        .extend(step(2, "ok"));
    let second = fit(&lab, &body, Some("s"), 60_000).unwrap();
    assert!(second.body.contains(key));
    assert_eq!(second.assembled.report.cache_break(), None);
    assert!(!saved(&lab, &second).to_string().contains(key));
}

/// An agent that polls makes the same call with the same result many times.
#[test]
fn steps_that_repeat_continue_a_session() {
    let lab = Lab::new("");
    let poll = |i: usize| {
        let mut step = step(i, "pending");
        step[0]["content"][0]["input"] = json!({"command": "status"});
        step
    };
    let mut messages = vec![json!({"role": "user", "content": "Deploy, and wait for it."})];
    for i in 0..12 {
        messages.extend(poll(i));
        let fitted = fit(&lab, &request(&messages), Some("s"), 60_000).unwrap();
        assert!(!fitted.is_changed, "{}", fitted.body);
        let turns = lab.engine.history("s", 100).unwrap();
        let recorded: usize = turns.iter().map(|turn| turn.turn.messages.len()).sum();
        assert_eq!(recorded, messages.len());
    }
    // The same request again adds nothing, and several steps at once are all new.
    fit(&lab, &request(&messages), Some("s"), 60_000).unwrap();
    messages.extend((12..15).flat_map(poll));
    fit(&lab, &request(&messages), Some("s"), 60_000).unwrap();
    let turns = lab.engine.history("s", 100).unwrap();
    let recorded: usize = turns.iter().map(|turn| turn.turn.messages.len()).sum();
    assert_eq!(recorded, messages.len());
}

const KEY: &str = "ghp_Zq8Lw2Xv5Nt1Rb7Kd4Mj9Hc3Fy6Gs0PaQeUi";

/// Returns the masked request and the ids of the items with a secret.
fn masked(lab: &Lab, body: &Value) -> (String, Vec<String>) {
    let fitted = fit(lab, body, None, 60_000).unwrap();
    let lines = fitted.assembled.report.guard.iter();
    let items = lines.map(|line| line.item.to_string()).collect();
    (fitted.body, items)
}

#[test]
fn secrets_in_instructions_are_masked_in_every_api() {
    let lab = Lab::new("");
    let said = format!("Use the token {KEY} for the hub.");
    let mut anthropic = request(&run("Look.", 1));
    anthropic["system"] =
        json!([{"type": "text", "text": said, "cache_control": {"type": "ephemeral"}}]);
    let chat = json!({"model": "gpt-5.6", "messages": [
        {"role": "system", "content": said}, {"role": "user", "content": "Look."}]});
    let responses = json!({"model": "gpt-5.6", "instructions": said, "input": "Look.",
        "metadata": {"a": "1.0e2"}});
    let gemini = json!({"systemInstruction": {"parts": [{"text": said}]},
        "contents": [{"role": "user", "parts": [{"text": "Look."}]}]});
    for body in [anthropic, chat, responses, gemini] {
        let (sent, items) = masked(&lab, &body);
        assert!(!sent.contains(KEY), "{sent}");
        assert!(sent.contains("Use the token [secret masked"), "{sent}");
        assert_eq!(items, ["system/0"], "{sent}");
        let sent: Value = serde_json::from_str(&sent).unwrap();
        assert_eq!(sent["model"], body["model"]);
        assert_eq!(sent["metadata"], body["metadata"]);
    }
}

/// The provider gets back what it sent. What the client wrote is masked, in any form.
#[test]
fn blocks_of_the_client_in_a_provider_s_form_are_masked() {
    let lab = Lab::new("");
    let output = json!({"model": "gpt-5.6", "input": [
        {"role": "user", "content": "Look."},
        {"type": "local_shell_call", "id": "l1", "call_id": "c1", "status": "completed",
         "action": {"type": "exec", "command": ["env"], "env": {}}},
        {"type": "local_shell_call_output", "id": "o1", "call_id": "c1",
         "output": format!("TOKEN={KEY}\nHOME=/home/a")},
    ]});
    let search = json!({"model": "claude-sonnet-5-5", "max_tokens": 500, "messages": [
        {"role": "user", "content": [
            {"type": "search_result", "source": "hub", "title": "Keys",
             "content": [{"type": "text", "text": format!("The token is {KEY}.")}]},
            {"type": "text", "text": "What is it?"}]},
    ]});
    for body in [output, search] {
        let (sent, items) = masked(&lab, &body);
        assert!(!sent.contains(KEY), "{sent}");
        assert_eq!(items.len(), 1, "{sent}");
    }
    // The model's own block is sent as it is, and the report does not say otherwise.
    let own = json!({"model": "claude-sonnet-5-5", "max_tokens": 500, "messages": [
        {"role": "user", "content": "Search."},
        {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": KEY}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
            {"type": "text", "text": "Found."}]},
        {"role": "user", "content": "Thanks."},
    ]});
    let (sent, items) = masked(&lab, &own);
    assert!(sent.contains(KEY), "{sent}");
    assert!(items.is_empty(), "{items:?}");
}

/// One secret changes one message, and no other.
#[test]
fn a_rebuilt_request_keeps_white_space_and_order() {
    let lab = Lab::new("");
    let body = json!({"model": "gpt-5.6", "messages": [
        {"role": "user", "content": format!("Use {KEY}.")},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "cat", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "line 1\nline 2  \n\n"},
        {"role": "assistant", "content": null, "function_call": {"name": "t", "arguments": "{}"}},
        {"role": "function", "name": "t", "content": "done\n"},
        {"role": "user", "content": "And now?"},
    ]});
    let fitted = fit(&lab, &body, None, 60_000).unwrap();
    let sent: Value = serde_json::from_str(&fitted.body).unwrap();
    let given = body["messages"].as_array().unwrap();
    let messages = sent["messages"].as_array().unwrap();
    assert_eq!(messages[1..], given[1..], "{}", fitted.body);
}
