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
