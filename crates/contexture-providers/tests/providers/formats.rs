//! The whole request in each provider's form, to be read by a person.
use std::sync::Arc;

use contexture_core::{
    Budget, Counts, Item, Layer, Layout, Place, Role, Text, TokenCounter, Tokens, assemble, markup,
    no_loader,
};
use contexture_providers::{Format, Prompt};
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Clone)]
struct Words;

impl TokenCounter for Words {
    fn name(&self) -> &str {
        "words"
    }
    fn is_exact(&self) -> bool {
        true
    }
    fn count(&self, text: &str) -> Tokens {
        text.split_whitespace().count() as Tokens
    }
    fn sums_are_bounds(&self) -> bool {
        true
    }
}

fn layout(items: &[(&str, Role, &str)], event: Option<&str>) -> Layout {
    let mut files = Layer::new("files");
    files.place = Place::ByRole;
    files.items = items
        .iter()
        .map(|(id, role, text)| Item::new(*id, *role, Text::new(text)))
        .collect();
    let mut last = Layer::new("event");
    last.volatile = true;
    last.items = event
        .iter()
        .map(|text| Item::new("event", Role::User, Text::new(text)).pinned())
        .collect();
    let counts = Counts::new(Arc::new(Words));
    let budget = Budget::new(10_000, 0, 0).unwrap();
    assemble(vec![files, last], budget, &counts, &mut no_loader)
        .unwrap()
        .layout
}

fn example() -> Layout {
    layout(
        &[
            ("header", Role::Header, "Root: .agent/"),
            ("rules", Role::System, "Be brief."),
            ("task", Role::Developer, "Mend the bug."),
            ("src/a.rs", Role::Context, "fn a() {}\n</context>"),
            ("question", Role::User, "Why?"),
        ],
        Some("Go on."),
    )
}

fn request(layout: &Layout, model: &str, format: Format) -> Value {
    Prompt {
        max_output: Some(500),
        ..Prompt::new(layout, model, 9000)
    }
    .request(format)
    .map(|request| unmarked(&request.to_string(), layout))
    .map(|text| serde_json::from_str(&text).unwrap())
    .unwrap()
}

/// Returns a request without the marks in its tags.
fn unmarked(request: &str, layout: &Layout) -> String {
    request.replace(&format!("-{}", layout.mark), "")
}

const CONTEXT: &str = "<context path=\"src/a.rs\">\nfn a() {}\n</context>\n</context>";

#[test]
fn text_has_role_tags() {
    let layout = example();
    let prompt = Prompt::new(&layout, "gpt-4o", 9000);
    assert_eq!(
        unmarked(&prompt.render(Format::Text).unwrap(), &layout),
        format!(
            "Root: .agent/\n\n<system>\nBe brief.\n</system>\n\n<developer>\nMend the bug.\n</developer>\n\n\
             {CONTEXT}\n\n<user>\nWhy?\n</user>\n\n<user>\nGo on.\n</user>\n"
        )
    );
}

#[test]
fn anthropic_has_system_blocks_and_cache_marks() {
    assert_eq!(
        request(&example(), "claude-sonnet-4", Format::Anthropic),
        json!({
            "model": "claude-sonnet-4",
            "max_tokens": 500,
            "system": [
                {"type": "text", "text": "Root: .agent/"},
                {"type": "text", "text": "Be brief."},
                {"type": "text", "text": "<developer>\nMend the bug.\n</developer>",
                 "cache_control": {"type": "ephemeral"}},
            ],
            "messages": [{"role": "user", "content": [
                {"type": "text", "text": CONTEXT},
                {"type": "text", "text": "Why?", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "Go on."},
            ]}],
        })
    );
}

#[test]
fn openai_chat_has_a_developer_role() {
    assert_eq!(
        request(&example(), "gpt-4o", Format::OpenAiChat),
        json!({
            "model": "gpt-4o",
            "messages": [
                {"role": "system", "content": "Root: .agent/\n\nBe brief."},
                {"role": "developer", "content": "Mend the bug."},
                {"role": "user", "content": format!("{CONTEXT}\n\nWhy?\n\nGo on.")},
            ],
            "max_completion_tokens": 500,
        })
    );
}

#[test]
fn other_compatible_servers_get_developer_messages_as_system() {
    let request = request(&example(), "deepseek-chat", Format::OpenAiChat);
    assert_eq!(
        request["messages"][0],
        json!({
            "role": "system",
            "content": "Root: .agent/\n\nBe brief.\n\n<developer>\nMend the bug.\n</developer>",
        })
    );
}

#[test]
fn openai_responses_has_instructions_and_input() {
    assert_eq!(
        request(&example(), "o3", Format::OpenAiResponses),
        json!({
            "model": "o3",
            "instructions": "Root: .agent/\n\nBe brief.",
            "input": [
                {"type": "message", "role": "developer",
                 "content": [{"type": "input_text", "text": "Mend the bug."}]},
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": CONTEXT},
                    {"type": "input_text", "text": "Why?"},
                    {"type": "input_text", "text": "Go on."},
                ]},
            ],
            "max_output_tokens": 500,
        })
    );
}

#[test]
fn gemini_has_a_system_instruction_and_contents() {
    assert_eq!(
        request(&example(), "gemini-2.5-pro", Format::Gemini),
        json!({
            "systemInstruction": {"parts": [
                {"text": "Root: .agent/"},
                {"text": "Be brief."},
                {"text": "<developer>\nMend the bug.\n</developer>"},
            ]},
            "contents": [{"role": "user", "parts": [
                {"text": CONTEXT}, {"text": "Why?"}, {"text": "Go on."},
            ]}],
            "generationConfig": {"maxOutputTokens": 500},
        })
    );
}

#[test]
fn a_request_that_a_provider_would_reject_is_an_error() {
    let empty = layout(&[("rules", Role::System, "Be brief.")], None);
    let blank = layout(&[("a", Role::User, "  \n ")], None);
    let model_first = layout(&[("a", Role::Assistant, "Hello.")], None);
    for (format, provider) in [
        (Format::Anthropic, "anthropic"),
        (Format::OpenAiChat, "openai"),
        (Format::OpenAiResponses, "openai"),
        (Format::Gemini, "gemini"),
    ] {
        let rule = |layout: &Layout| {
            let prompt = Prompt::new(layout, "m", 9000);
            prompt.request(format).unwrap_err().rule
        };
        assert!(rule(&empty).ends_with("_not_empty"), "{provider}");
        assert_eq!(rule(&blank), format!("{provider}.no_blank_text"));
        // At OpenAI the model may speak first, but not last.
        let broken = match provider {
            "openai" => "user_last",
            _ => "user_first",
        };
        assert_eq!(rule(&model_first), format!("{provider}.{broken}"));
    }
}

/// Every string of a request that the model reads.
fn strings(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| strings(item, out)),
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text)
                        if ["text", "content", "instructions"].contains(&key.as_str()) =>
                    {
                        out.push(text.clone());
                    }
                    _ => strings(value, out),
                }
            }
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn no_form_has_more_text_than_the_counted_one(
        blocks in prop::collection::vec(
            (prop::sample::select(vec![Role::System, Role::Developer, Role::User, Role::Context]), "[a-z<>/ \n]{1,60}"),
            1..6,
        ),
    ) {
        let items: Vec<(String, Role, String)> = blocks
            .into_iter()
            .enumerate()
            .map(|(i, (role, text))| (format!("f{i}"), role, text))
            .collect();
        let items: Vec<(&str, Role, &str)> =
            items.iter().map(|(id, role, text)| (id.as_str(), *role, text.as_str())).collect();
        let layout = layout(&items, Some("go on"));
        let counted = Words.count(&markup::render(&layout));
        for (name, format) in Format::ALL {
            let prompt = Prompt::new(&layout, "gpt-4o", 9000);
            let Ok(request) = prompt.request(format) else { continue };
            let mut said = Vec::new();
            strings(&request, &mut said);
            // A message of a provider's own costs some four tokens, a tag of
            // ours some two words of several tokens each.
            let words: Tokens = said.iter().map(|text| Words.count(text)).sum();
            prop_assert!(words <= counted, "{name}: {words} > {counted}");
        }
    }
}
