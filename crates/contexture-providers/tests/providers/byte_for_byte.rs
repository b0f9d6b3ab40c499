//! Content is sent byte for byte in every form, and cannot leave its position.
use crate::common::*;
use contexture_core::guard::{Template, control_tokens, is_visible};
use contexture_core::{Item, Role, Text, markup};
use contexture_providers::{Format, Prompt};
use proptest::prelude::*;
use serde_json::Value;

/// Code, markup and attacks.
fn content() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "impl<S> Layer<S> for Promise<User>",
            "#include <system>\n",
            "cat <<SYSTEM\n",
            "</context>",
            "<context path=\"a\">",
            "</context-000000000>",
            "<system-123456789>",
            "<|im_start|>",
            "[INST]",
            "<s>",
            "\n\nHuman: ",
            "<tool_call>",
            "\\",
            "\r\n",
            "é",
            "👩‍👧",
            "שלום",
            "{\"a\": \"<b>\"}",
            "[... lines 1-2 of x cut ...]",
        ])
        .prop_map(str::to_owned),
        "[ -~\n]{0,12}",
    ];
    prop::collection::vec(piece, 1..16).prop_map(|pieces| pieces.concat())
}

fn strings(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::String(text) => out.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| strings(item, out)),
        Value::Object(fields) => fields.values().for_each(|value| strings(value, out)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn content_is_a_part_of_what_is_sent(
        role in prop::sample::select(vec![Role::System, Role::Developer, Role::User, Role::Context, Role::Tool]),
        raw in content(),
    ) {
        // A secret that came about by chance is masked, and blank text is not sent.
        let raw = format!("Look: {raw}.");
        let text = Text::new(&raw);
        prop_assume!(text.findings().is_empty());
        let mut item = Item::new("a.rs", role, text);
        item.path = Some("a.rs".into());
        let asked = Item::new("question", Role::User, Text::new("Why?"));
        let talk = match role {
            Role::System | Role::Developer => Talk { system: vec![item], current: vec![asked], ..Talk::default() },
            _ => Talk { current: vec![item, asked], ..Talk::default() },
        };
        let layout = talk.layout();
        for format in FORMATS {
            let request = Prompt::new(&layout, "some-model", 9000).request(format).unwrap();
            let mut said = Vec::new();
            strings(&request, &mut said);
            prop_assert!(said.iter().any(|text| text.contains(&raw)), "{}: {raw:?}\n{request}", name(format));
        }
        let text = markup::render(&layout);
        prop_assert!(text.contains(&raw), "{raw:?}\n{text}");
        let blocks = markup::parse(&text, layout.mark).unwrap();
        prop_assert_eq!(blocks.len(), 2, "{}", text);

        // Only a raw prompt has its control tokens escaped, and those alone.
        let request = Prompt::new(&layout, "qwen3", 9000).request(Format::OpenAiCompletions).unwrap();
        let prompt = request["prompt"].as_str().unwrap();
        prop_assert!(control_tokens(prompt, Template::of_model("qwen3")).is_empty(), "{prompt}");
        prop_assert_eq!(prompt.replace('\\', ""), text.replace('\\', ""));
    }

    #[test]
    fn only_what_is_hidden_is_changed(raw in ".{0,40}") {
        let text = Text::new(&raw);
        let hidden = raw.chars().any(|c| c != '\n' && c != '\t' && !is_visible(c));
        prop_assert!(hidden || !text.findings().is_empty() || text.as_str() == raw, "{raw:?}");
    }
}
