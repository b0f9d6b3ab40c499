//! Messages of one role in a row stay as they were given.

use crate::support::*;
use contexture::{FitOptions, Fitted};
use serde_json::{Value, json};

fn fit(lab: &Lab, body: &Value, session: Option<&str>) -> Fitted {
    let options = FitOptions {
        max_tokens: Some(6_000),
        session: session.map(str::to_owned),
        ..FitOptions::default()
    };
    let fitted = lab
        .engine
        .fit(&lab.root, body.to_string().as_bytes(), &options);
    fitted.unwrap()
}

/// The messages of a request that does not fit, before `tail`, in the form of
/// each API.
fn request(api: &str, tail: &[Value]) -> Value {
    let said = (0..60).flat_map(|i| {
        let (user, model) = (prose(i, 60), prose(i + 1_000, 60));
        match api {
            "openai-chat" => [
                json!({"role": "user", "content": user}),
                json!({"role": "assistant", "content": model}),
            ],
            "openai-responses" => [
                json!({"type": "message", "role": "user",
                    "content": [{"type": "input_text", "text": user}]}),
                json!({"type": "message", "role": "assistant", "content": model}),
            ],
            "gemini" => [
                json!({"role": "user", "parts": [{"text": user}]}),
                json!({"role": "model", "parts": [{"text": model}]}),
            ],
            _ => [
                json!({"role": "user", "content": user}),
                json!({"role": "assistant", "content": model}),
            ],
        }
    });
    let said: Vec<Value> = said.chain(tail.iter().cloned()).collect();
    match api {
        "openai-chat" => json!({"model": "gpt-4o", "max_tokens": 500, "messages": said}),
        "openai-responses" => {
            json!({"model": "gpt-4o", "max_output_tokens": 500, "input": said})
        }
        "gemini" => json!({"contents": said, "generationConfig": {"maxOutputTokens": 500}}),
        _ => json!({"model": "claude-sonnet-5-5", "max_tokens": 500, "messages": said}),
    }
}

/// Returns the conversation of a fitted request.
fn messages(fitted: &Fitted) -> Vec<Value> {
    let body: Value = serde_json::from_str(&fitted.body).unwrap();
    let fields = ["messages", "input", "contents"];
    let list = fields.iter().find_map(|field| body[*field].as_array());
    list.unwrap().clone()
}

fn check(api: &str, tail: &[Value]) {
    let lab = Lab::new("");
    for session in [None, Some("s")] {
        let fitted = fit(&lab, &request(api, tail), session);
        assert!(fitted.is_changed, "{api}");
        let sent = messages(&fitted);
        let last = &sent[sent.len() - tail.len()..];
        assert_eq!(last, tail, "{api} {session:?}");
    }
}

#[test]
fn messages_in_a_row_stay_as_they_are_in_chat() {
    let mark = json!({"type": "ephemeral"});
    check(
        "openai-chat",
        &[
            json!({"role": "user", "content": "One."}),
            json!({"role": "user", "content": "Two."}),
            json!({"role": "user", "content": "Three.", "name": "ana"}),
            json!({"role": "user", "name": "bob", "content": [
                {"type": "text", "text": "Four."}, {"type": "text", "text": "Five."}]}),
            json!({"role": "user", "content": [
                {"type": "text", "text": "Six.", "cache_control": mark}]}),
            json!({"role": "user", "content": [{"type": "text", "text": "Seven."}]}),
            json!({"role": "system", "content": "Be brief."}),
            json!({"role": "system", "content": "Be kind."}),
            json!({"role": "developer", "content": "Be quick."}),
            json!({"role": "assistant", "content": "Eight."}),
            json!({"role": "assistant", "content": "Nine."}),
            json!({"role": "assistant", "content": "Ten.", "name": "cy"}),
            json!({"role": "user", "content": "Eleven."}),
        ],
    );
}

#[test]
fn messages_in_a_row_stay_as_they_are_in_responses() {
    let user = |text: &str| {
        json!({"type": "message", "role": "user",
            "content": [{"type": "input_text", "text": text}]})
    };
    let model = |text: &str| json!({"type": "message", "role": "assistant", "content": text});
    check(
        "openai-responses",
        &[
            user("One."),
            user("Two."),
            json!({"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "Three."},
                {"type": "input_text", "text": "Four."}]}),
            model("Five."),
            model("Six."),
            model("Seven."),
            user("Eight."),
        ],
    );
}

/// Anthropic combines the messages of one role itself, and Gemini rejects them.
#[test]
fn messages_in_a_row_are_one_for_anthropic_and_gemini() {
    let lab = Lab::new("");
    for (api, model, content) in [
        ("anthropic", "assistant", "content"),
        ("gemini", "model", "parts"),
    ] {
        let said = |role: &str, text: &str| match api {
            "gemini" => json!({"role": role, "parts": [{"text": text}]}),
            _ => json!({"role": role, "content": text}),
        };
        let tail = [
            said("user", "One."),
            said("user", "Two."),
            said(model, "Three."),
            said(model, "Four."),
            said("user", "Five."),
        ];
        let sent = messages(&fit(&lab, &request(api, &tail), None));
        let texts = |message: &Value| -> Vec<String> {
            match &message[content] {
                Value::String(text) => vec![text.clone()],
                blocks => {
                    let blocks = blocks.as_array().unwrap().iter();
                    let text = |block: &Value| block["text"].as_str().unwrap().to_owned();
                    blocks.map(text).collect()
                }
            }
        };
        let last: Vec<Vec<String>> = sent[sent.len() - 3..].iter().map(texts).collect();
        assert_eq!(
            last,
            [vec!["One.", "Two."], vec!["Three.", "Four."], vec!["Five."]]
        );
    }
}

/// Each request adds a message of the user, before the model has answered.
#[test]
fn messages_that_are_recorded_one_by_one_are_not_joined() {
    let lab = Lab::new("");
    let mut tail = Vec::new();
    for text in ["One.", "Two.", "Three."] {
        tail.push(json!({"role": "user", "content": text}));
        let fitted = fit(&lab, &request("openai-chat", &tail), Some("s"));
        let sent = messages(&fitted);
        assert_eq!(sent[sent.len() - tail.len()..], tail);
    }
}
