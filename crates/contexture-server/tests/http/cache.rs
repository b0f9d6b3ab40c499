//! A broken cache is an error when it must hold, and histories are summarised
//! between turns.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Lab, Running};

fn assemble(server: &Running, more: &Value) -> crate::support::Answer {
    let mut body = json!({"recipe": "broker", "session": "s", "model": "gpt-5.6",
                          "format": "openai-responses", "max_tokens": 6000, "event": "Go on."});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    server.post("/v1/assemble", &body.to_string())
}

fn say(server: &Running, number: usize) {
    let text = format!(
        "Number {number}: {}",
        "the tide is high at the pier. ".repeat(20)
    );
    let turn = json!({"messages": [
        {"role": "user", "content": text},
        {"role": "assistant", "content": text},
    ]});
    let recorded = server.post("/v1/sessions/s/turns", &turn.to_string());
    recorded.ok(201);
}

#[test]
fn a_request_that_must_not_break_the_cache_is_refused() {
    let lab = Lab::new().file("AGENTS.md", "Be kind.\n");
    let server = lab.serve();
    server.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    say(&server, 1);
    let must = json!({"fail_on_cache_break": true});
    assemble(&server, &must).ok(200);
    std::fs::write(lab.path("AGENTS.md"), "Be brief.\n").unwrap();
    let answer = assemble(&server, &must);
    assert_eq!(answer.status, 422);
    let error = &answer.json()["error"];
    assert_eq!(error["code"], "cache_break");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("content changed"), "{message}");
    // `fit` needs a session to compare with.
    let body = json!({"request": {"model": "gpt-5.6", "messages": [
        {"role": "user", "content": "Hi"}]}, "fail_on_cache_break": true});
    let answer = server.post("/v1/fit", &body.to_string());
    assert_eq!(answer.status, 422);
    assert_eq!(answer.json()["error"]["field"], "fail_on_cache_break");
}

#[test]
fn a_history_is_summarised_after_a_turn() {
    let mut lab = Lab::new();
    lab.config.compaction.background = true;
    let server = lab.serve();
    server.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    let is_compacted = || {
        let history = server.get("/v1/sessions/s/history?limit=1000").json();
        let turns = history["turns"].as_array().unwrap().clone();
        turns.iter().any(|turn| turn["kind"] == "compaction")
    };
    say(&server, 0);
    assemble(&server, &json!({})).ok(200);
    // Nothing but recorded turns from here on.
    for number in 1..40 {
        say(&server, number);
        std::thread::sleep(Duration::from_millis(20));
    }
    for _ in 0..500 {
        if is_compacted() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no summary was made");
}
