//! Whole requests with everything that a conversation can hold, to be read by
//! a person.
use crate::common::*;
use contexture_core::{MediaKind, Role};
use contexture_providers::Format;
use serde_json::{Value, json};

const SCHEMA: &str = r#"{"description":"Runs a command","parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}"#;

/// Two calls at once, one of them failing, one showing a picture.
fn example() -> Talk {
    Talk {
        system: vec![
            said(Role::System, "Be brief."),
            tool("shell", SCHEMA),
            tool("now", "{}"),
        ],
        history: turn(
            "t1",
            vec![
                user("What is this?"),
                picture(Role::User),
                thought("Look at <user> first.", "c2VhbA=="),
                model("Let me look."),
                call("c1", "shell", r#"{"command":"screenshot"}"#),
                call("c2", "shell", r#"{"command":"\u003cuser>"}"#),
                result("c1", "shell", "ok"),
                picture(Role::Tool),
                failure("c2", "shell", "not found: <user>"),
                model("A dot."),
            ],
        ),
        current: vec![file("a.rs", "fn a() {}")],
        event: vec![user("Why?")],
    }
}

const FILE: &str = "<context path=\"a.rs\">\nfn a() {}\n</context>";
// Text that looks like one of our tags is sent unchanged.
const NOT_FOUND: &str = "not found: <user>";

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    })
}

#[test]
fn anthropic() {
    let image = json!({
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
    });
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        example().request(Format::Anthropic).unwrap(),
        json!({
            "model": "some-model",
            "max_tokens": 500,
            "tools": [
                {"name": "shell", "description": "Runs a command", "input_schema": schema()},
                {"name": "now", "input_schema": {"type": "object", "properties": {}}},
            ],
            "system": [{"type": "text", "text": "Be brief.", "cache_control": mark}],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "What is this?"},
                    image,
                ]},
                {"role": "assistant", "content": [
                    // Unchanged: its signature holds for the very same text.
                    {"type": "thinking", "thinking": "Look at <user> first.", "signature": "c2VhbA=="},
                    {"type": "text", "text": "Let me look."},
                    {"type": "tool_use", "id": "c1", "name": "shell", "input": {"command": "screenshot"}},
                    {"type": "tool_use", "id": "c2", "name": "shell", "input": {"command": "<user>"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [
                        {"type": "text", "text": "ok"},
                        image,
                    ]},
                    {"type": "tool_result", "tool_use_id": "c2", "content": NOT_FOUND, "is_error": true},
                ]},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "A dot.", "cache_control": mark},
                ]},
                {"role": "user", "content": [
                    {"type": "text", "text": FILE, "cache_control": mark},
                    {"type": "text", "text": "Why?"},
                ]},
            ],
        })
    );
}

#[test]
fn openai_chat() {
    let image = json!({
        "type": "image_url",
        "image_url": {"url": format!("data:image/png;base64,{PIXEL}")},
    });
    assert_eq!(
        example().request(Format::OpenAiChat).unwrap(),
        json!({
            "model": "some-model",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]},
                {"role": "assistant", "content": "Let me look.", "tool_calls": [
                    {"id": "c1", "type": "function",
                     "function": {"name": "shell", "arguments": r#"{"command":"screenshot"}"#}},
                    {"id": "c2", "type": "function",
                     "function": {"name": "shell", "arguments": r#"{"command":"\u003cuser>"}"#}},
                ]},
                {"role": "tool", "tool_call_id": "c1", "content": "ok"},
                {"role": "tool", "tool_call_id": "c2", "content": format!("Error: {NOT_FOUND}")},
                // A result is text only here, so its picture comes after it.
                {"role": "user", "content": [image]},
                {"role": "assistant", "content": "A dot."},
                {"role": "user", "content": format!("{FILE}\n\nWhy?")},
            ],
            "tools": [
                {"type": "function", "function": {
                    "name": "shell", "description": "Runs a command", "parameters": schema()}},
                {"type": "function", "function": {
                    "name": "now", "parameters": {"type": "object", "properties": {}}}},
            ],
            "max_completion_tokens": 500,
        })
    );
}

#[test]
fn openai_responses() {
    let image = json!({
        "type": "input_image",
        "image_url": format!("data:image/png;base64,{PIXEL}"),
        "detail": "auto",
    });
    assert_eq!(
        example().request(Format::OpenAiResponses).unwrap(),
        json!({
            "model": "some-model",
            "instructions": "Be brief.",
            "tools": [
                {"type": "function", "name": "shell", "description": "Runs a command",
                 "parameters": schema(), "strict": false},
                {"type": "function", "name": "now",
                 "parameters": {"type": "object", "properties": {}}, "strict": false},
            ],
            "input": [
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "What is this?"}, image]},
                {"type": "message", "role": "assistant", "content": "Let me look."},
                {"type": "function_call", "call_id": "c1", "name": "shell",
                 "arguments": r#"{"command":"screenshot"}"#},
                {"type": "function_call", "call_id": "c2", "name": "shell",
                 "arguments": r#"{"command":"\u003cuser>"}"#},
                {"type": "function_call_output", "call_id": "c1", "output": [
                    {"type": "input_text", "text": "ok"}, image]},
                {"type": "function_call_output", "call_id": "c2", "output": format!("Error: {NOT_FOUND}")},
                {"type": "message", "role": "assistant", "content": "A dot."},
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": FILE},
                    {"type": "input_text", "text": "Why?"}]},
            ],
            "max_output_tokens": 500,
        })
    );
}

#[test]
fn gemini() {
    let image = json!({"inlineData": {"mimeType": "image/png", "data": PIXEL}});
    assert_eq!(
        example().request(Format::Gemini).unwrap(),
        json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "tools": [{"functionDeclarations": [
                {"name": "shell", "description": "Runs a command", "parametersJsonSchema": schema()},
                {"name": "now", "parametersJsonSchema": {"type": "object", "properties": {}}},
            ]}],
            "contents": [
                {"role": "user", "parts": [{"text": "What is this?"}, image]},
                {"role": "model", "parts": [
                    {"text": "Let me look."},
                    {"functionCall": {"id": "c1", "name": "shell", "args": {"command": "screenshot"}}},
                    {"functionCall": {"id": "c2", "name": "shell", "args": {"command": "<user>"}}},
                ]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "c1", "name": "shell", "response": {"output": "ok"}}},
                    {"functionResponse": {"id": "c2", "name": "shell", "response": {"error": NOT_FOUND}}},
                    image,
                ]},
                {"role": "model", "parts": [{"text": "A dot."}]},
                {"role": "user", "parts": [{"text": FILE}, {"text": "Why?"}]},
            ],
            "generationConfig": {"maxOutputTokens": 500},
        })
    );
}

/// The messages of a request to Anthropic, without marks.
fn messages(history: Vec<contexture_core::Item>) -> Value {
    let talk = Talk {
        history,
        event: vec![user("Go on.")],
        ..Talk::default()
    };
    let mut request = talk.request(Format::Anthropic).unwrap();
    for message in request["messages"].as_array_mut().unwrap() {
        for block in message["content"].as_array_mut().unwrap() {
            block.as_object_mut().unwrap().remove("cache_control");
        }
    }
    request["messages"].take()
}

#[test]
fn user_text_between_call_and_result_is_moved_after_the_result() {
    let messages = messages(vec![
        user("Look."),
        call("c1", "shell", ""),
        user("Hurry!"),
        result("c1", "shell", "ok"),
    ]);
    assert_eq!(
        messages,
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Look."}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c1", "name": "shell", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "ok"},
                {"type": "text", "text": "Hurry!"},
                {"type": "text", "text": "Go on."},
            ]},
        ])
    );
}

#[test]
fn thinking_is_sent_first_and_unchanged_or_not_at_all() {
    let kept = |history: Vec<contexture_core::Item>| {
        let said = messages(history).to_string();
        said.contains("\"thinking\"")
    };
    let ask = || user("Why?");
    assert!(kept(vec![ask(), thought("Hm.", "s"), model("So.")]));
    // Some models hide their reasoning, and still sign it.
    assert!(kept(vec![ask(), thought("", "s"), model("So.")]));
    assert!(!kept(vec![ask(), thought("Hm.", ""), model("So.")]));
    assert!(!kept(vec![
        ask(),
        model("So."),
        thought("Hm.", "s"),
        model("Yes.")
    ]));
    assert!(!kept(vec![ask(), thought("Hm.", "s"), model(" ")]));
    let key = "MIIEowIBAAKCAQEAx7Rk2qLw9Zt4\n".repeat(4);
    let secret = format!("-----BEGIN RSA PRIVATE KEY-----\n{key}-----END RSA PRIVATE KEY-----");
    assert!(!kept(vec![ask(), thought(&secret, "s"), model("So.")]));
    assert!(!kept(vec![ask(), thought("a\u{202E}b", "s"), model("So.")]));
}

#[test]
fn empty_messages_do_not_make_a_request_invalid() {
    let messages = messages(vec![
        user("Look."),
        model(" \n"),
        call("c1", "shell", "{}"),
        call("c2", "shell", "{}"),
        call("c3", "shell", "{}"),
        result("c1", "shell", ""),
        failure("c2", "shell", " "),
        result("c3", "shell", ""),
        picture(Role::Tool),
        user(""),
        model("Done."),
        user(""),
        model("Really."),
    ]);
    let image = json!({
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
    });
    assert_eq!(
        messages.as_array().unwrap()[2..],
        json!([
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "(no output)"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "(no output)", "is_error": true},
                {"type": "tool_result", "tool_use_id": "c3", "content": [image]},
            ]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "Done."},
                {"type": "text", "text": "Really."},
            ]},
            {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
        ])
        .as_array()
        .unwrap()[..]
    );
}

#[test]
fn an_image_of_a_failed_call_is_placed_after_the_results() {
    let messages = messages(vec![
        user("Look."),
        call("c1", "shell", "{}"),
        failure("c1", "shell", ""),
        picture(Role::Tool),
    ]);
    let content = messages[2]["content"].as_array().unwrap();
    assert_eq!(content[0]["content"], "(attached)");
    assert_eq!(content[1]["type"], "image");
}

#[test]
fn invalid_call_ids_are_mapped_in_calls_and_results() {
    let long = "y".repeat(70);
    let talk = Talk {
        history: vec![
            user("Look."),
            call("functions.shell:0", "shell", "{}"),
            call(&long, "shell", "{}"),
            result("functions.shell:0", "shell", "one"),
            result(&long, "shell", "two"),
        ],
        ..Talk::default()
    };
    let ids = |format| {
        let request = talk.request(format).unwrap();
        let (calls, results) = match format {
            Format::Anthropic => (
                request["messages"][1]["content"].clone(),
                request["messages"][2]["content"].clone(),
            ),
            Format::OpenAiChat => (
                request["messages"][1]["tool_calls"].clone(),
                json!([request["messages"][2], request["messages"][3]]),
            ),
            _ => (
                json!([request["input"][1], request["input"][2]]),
                json!([request["input"][3], request["input"][4]]),
            ),
        };
        let read = |list: &Value| -> Vec<String> {
            let keys = ["id", "tool_use_id", "tool_call_id", "call_id"];
            let id = |value: &Value| {
                keys.iter()
                    .find_map(|key| value[*key].as_str().map(str::to_owned))
            };
            list.as_array().unwrap().iter().filter_map(id).collect()
        };
        assert_eq!(read(&calls), read(&results));
        read(&calls)
    };
    assert_eq!(
        ids(Format::Anthropic),
        [
            "functions_shell_0_7d7fbbb3",
            &format!("{}_80e54ea7", "y".repeat(55))
        ]
    );
    assert_eq!(
        ids(Format::OpenAiChat),
        ["functions.shell:0", &format!("{}_80e54ea7", "y".repeat(31))]
    );
    assert_eq!(
        ids(Format::OpenAiResponses),
        ["functions.shell:0", &format!("{}_80e54ea7", "y".repeat(55))]
    );
}

#[test]
fn media_are_placed_where_each_provider_accepts_them() {
    let with = |item: contexture_core::Item, format: Format| {
        let talk = Talk {
            current: vec![item, user("What is it?")],
            ..Talk::default()
        };
        let request = talk.request(format).unwrap();
        let message = ["messages", "input", "contents"]
            .iter()
            .find_map(|key| request.get(*key))
            .unwrap();
        let content = ["content", "parts"]
            .iter()
            .find_map(|key| message[0].get(*key));
        content.unwrap()[0].clone()
    };
    let pdf = || {
        media(
            Role::User,
            MediaKind::Document,
            "application/pdf",
            data("JVBERi0="),
        )
    };
    let paper = || {
        let at = url("https://example.com/a.pdf");
        media(Role::User, MediaKind::Document, "application/pdf", at)
    };
    let photo = || {
        let at = url("https://example.com/a.jpg");
        media(Role::User, MediaKind::Image, "image/jpg", at)
    };
    let sound = || media(Role::User, MediaKind::Audio, "audio/mp3", data("SUQz"));
    let address = "data:application/pdf;base64,JVBERi0=";

    assert_eq!(
        with(pdf(), Format::Anthropic),
        json!({"type": "document", "source": {
            "type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}})
    );
    assert_eq!(
        with(paper(), Format::Anthropic),
        json!({"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}})
    );
    assert_eq!(
        with(photo(), Format::Anthropic),
        json!({"type": "image", "source": {"type": "url", "url": "https://example.com/a.jpg"}})
    );
    assert_eq!(
        with(pdf(), Format::OpenAiChat),
        json!({"type": "file", "file": {"filename": "document.pdf", "file_data": address}})
    );
    assert_eq!(
        with(photo(), Format::OpenAiChat),
        json!({"type": "image_url", "image_url": {"url": "https://example.com/a.jpg"}})
    );
    assert_eq!(
        with(sound(), Format::OpenAiChat),
        json!({"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}})
    );
    assert_eq!(
        with(pdf(), Format::OpenAiResponses),
        json!({"type": "input_file", "filename": "document.pdf", "file_data": address})
    );
    assert_eq!(
        with(paper(), Format::OpenAiResponses),
        json!({"type": "input_file", "file_url": "https://example.com/a.pdf"})
    );
    assert_eq!(
        with(photo(), Format::Gemini),
        json!({"fileData": {"mimeType": "image/jpeg", "fileUri": "https://example.com/a.jpg"}})
    );
    assert_eq!(
        with(sound(), Format::Gemini),
        json!({"inlineData": {"mimeType": "audio/mpeg", "data": "SUQz"}})
    );
}

#[test]
fn an_image_of_a_file_is_labelled_with_its_path() {
    let mut item = picture(Role::Context);
    item.path = Some("docs/a.png".into());
    let talk = Talk {
        current: vec![item],
        ..Talk::default()
    };
    let request = talk.request(Format::Gemini).unwrap();
    let parts = request["contents"][0]["parts"].as_array().unwrap();
    assert_eq!(
        parts[0]["text"],
        "<context path=\"docs/a.png\" image=\"image/png\">\n[image image/png, 1x1, 68 bytes]\n</context>"
    );
    assert!(parts[1]["inlineData"].is_object());
}

#[test]
fn an_image_by_the_model_is_described_where_it_is_not_accepted() {
    let talk = Talk {
        history: vec![user("Draw."), picture(Role::Assistant)],
        event: vec![user("Nice.")],
        ..Talk::default()
    };
    let chat = talk.request(Format::OpenAiChat).unwrap();
    assert_eq!(
        chat["messages"][1]["content"],
        "[image image/png, 1x1, 68 bytes]"
    );
    let gemini = talk.request(Format::Gemini).unwrap();
    assert!(gemini["contents"][1]["parts"][0]["inlineData"].is_object());
}

#[test]
fn gemini_3_gets_a_placeholder_for_a_missing_signature() {
    let talk = example();
    let signature = |model| {
        let request = talk.request_for(Format::Gemini, model).unwrap();
        let parts = request["contents"][1]["parts"].as_array().unwrap().clone();
        assert_eq!(
            parts[2].get("thoughtSignature"),
            None,
            "only the first has one"
        );
        parts[1].get("thoughtSignature").cloned()
    };
    assert_eq!(signature("gemini-2.5-pro"), None);
    let word = Some(json!("skip_thought_signature_validator"));
    assert_eq!(signature("gemini-3-pro-preview"), word);
    assert_eq!(signature("models/gemini-3.5-flash"), word);
}

#[test]
fn keys_keep_their_order() {
    let text = example().request(Format::Anthropic).unwrap().to_string();
    let places = [
        "\"model\"",
        "\"max_tokens\"",
        "\"tools\"",
        "\"system\"",
        "\"messages\"",
    ]
    .map(|key| text.find(key).unwrap());
    assert!(places.is_sorted());
}
