//! Every rule, broken.
use crate::common::*;
use contexture_core::{Item, MediaKind, MediaSource, Native, Part, RawJson, Role};
use contexture_providers::{Format, Prompt, preflight};
use serde_json::{Value, json};

/// Checks that a history, with an event after it, breaks a rule in every
/// format.
fn check(history: Vec<Item>, rule: &str) {
    let talk = Talk {
        history,
        event: vec![user("Go on.")],
        ..Talk::default()
    };
    check_talk(&talk, rule);
}

fn check_talk(talk: &Talk, rule: &str) {
    for format in FORMATS {
        let provider = match format {
            Format::Anthropic => "anthropic",
            Format::Gemini => "gemini",
            _ => "openai",
        };
        assert_eq!(talk.broken(format), format!("{provider}.{rule}"));
    }
}

#[test]
fn a_conversation_starts_with_the_user() {
    let talk = Talk {
        history: vec![model("Hello.")],
        event: vec![user("Go on.")],
        ..Talk::default()
    };
    assert_eq!(talk.broken(Format::Anthropic), "anthropic.user_first");
    assert_eq!(talk.broken(Format::Gemini), "gemini.user_first");
}

#[test]
fn a_conversation_ends_with_the_user() {
    let talk = Talk {
        history: vec![user("Hello."), model("Hello.")],
        event: vec![user(" ")],
        ..Talk::default()
    };
    check_talk(&talk, "user_last");
}

#[test]
fn a_request_has_content() {
    let blank = Talk {
        event: vec![user(" \n")],
        ..Talk::default()
    };
    check_talk(&blank, "no_blank_text");
    assert_eq!(
        Talk::default().broken(Format::Gemini),
        "gemini.contents_not_empty"
    );
    for format in [
        Format::Anthropic,
        Format::OpenAiChat,
        Format::OpenAiResponses,
    ] {
        assert!(
            Talk::default()
                .broken(format)
                .ends_with(".messages_not_empty")
        );
    }
}

#[test]
fn results_follow_their_calls_directly() {
    check(
        vec![user("Look."), call("c1", "shell", "{}")],
        "calls_answered",
    );
    check(
        vec![
            user("Look."),
            call("c1", "shell", "{}"),
            call("c2", "shell", "{}"),
            result("c1", "shell", "ok"),
            model("Hm."),
            result("c2", "shell", "ok"),
        ],
        "calls_answered",
    );
}

#[test]
fn every_result_has_its_call() {
    check(
        vec![user("Look."), result("c1", "shell", "ok")],
        "results_called",
    );
    check(
        vec![
            user("Look."),
            call("c1", "shell", "{}"),
            result("c1", "shell", "ok"),
            result("c1", "shell", "ok"),
        ],
        "results_called",
    );
}

#[test]
fn every_call_has_its_own_id() {
    let pair = || [call("c1", "shell", "{}"), result("c1", "shell", "ok")];
    let mut history = vec![user("Look.")];
    history.extend(pair());
    history.extend(pair());
    check(history, "call_ids");
}

#[test]
fn arguments_that_are_no_object_are_sent_back_as_they_are() {
    for json in ["[1]", "{\"a\":", "null", "text"] {
        let talk = Talk {
            history: vec![
                user("Look."),
                call("c1", "shell", json),
                result("c1", "shell", "ok"),
            ],
            event: vec![user("Go on.")],
            ..Talk::default()
        };
        let chat = talk.request(Format::OpenAiChat).unwrap();
        let function = &chat["messages"][1]["tool_calls"][0]["function"];
        assert_eq!(function["arguments"], json);
        let responses = talk.request(Format::OpenAiResponses).unwrap();
        assert_eq!(responses["input"][1]["arguments"], json);
        // These two take nothing but an object.
        let wrapped = json!({"malformed_arguments": json});
        let anthropic = talk.request(Format::Anthropic).unwrap();
        assert_eq!(anthropic["messages"][1]["content"][0]["input"], wrapped);
        let gemini = talk.request(Format::Gemini).unwrap();
        let part = &gemini["contents"][1]["parts"][0];
        assert_eq!(part["functionCall"]["args"], wrapped);
    }
}

#[test]
fn tools_are_objects_with_a_schema() {
    for json in [
        "",
        "[]",
        "{\"description\": 1}",
        "{\"parameters\": []}",
        "{\"parameters\": {\"type\": \"string\"}}",
    ] {
        let talk = Talk {
            system: vec![tool("shell", json)],
            event: vec![user("Go on.")],
            ..Talk::default()
        };
        check_talk(&talk, "tool_json");
    }
}

#[test]
fn tool_names_are_valid_and_unique() {
    let with = |names: &[&str]| Talk {
        system: names.iter().map(|name| tool(name, "{}")).collect(),
        event: vec![user("Go on.")],
        ..Talk::default()
    };
    check_talk(&with(&["a b"]), "tool_name");
    check_talk(&with(&[""]), "tool_name");
    check_talk(&with(&[&"x".repeat(65)]), "tool_name");
    check_talk(&with(&["a", "b", "a"]), "tool_names_unique");
    // They differ about dots, and about digits in front.
    with(&["a.b"]).request(Format::Gemini).unwrap();
    assert_eq!(
        with(&["a.b"]).broken(Format::OpenAiChat),
        "openai.tool_name"
    );
    with(&["7z"]).request(Format::OpenAiChat).unwrap();
    assert_eq!(with(&["7z"]).broken(Format::Gemini), "gemini.tool_name");
    // A tool that is no longer defined may have been called before.
    check(
        vec![
            user("Look."),
            call("c1", "a b", "{}"),
            result("c1", "a b", "ok"),
        ],
        "tool_name",
    );
}

#[test]
fn the_response_fits_into_the_context_window() {
    let talk = Talk {
        event: vec![user("Go on.")],
        ..Talk::default()
    };
    let layout = talk.layout();
    for format in FORMATS {
        let prompt = Prompt {
            max_output: Some(501),
            ..Prompt::new(&layout, "m", 500)
        };
        let refused = prompt.request(format).unwrap_err();
        assert!(refused.rule.ends_with(".window"));
    }
}

#[test]
fn media_types_are_checked_per_provider() {
    let broken = |format: Format, kind, media_type: &str, source: MediaSource| {
        let talk = Talk {
            event: vec![media(Role::User, kind, media_type, source)],
            ..Talk::default()
        };
        talk.broken(format)
    };
    use Format::{Anthropic, Gemini, OpenAiChat, OpenAiResponses};
    use MediaKind::{Audio, Document, Image};
    let bytes = || data("AAAA");
    let there = || url("https://example.com/a");
    for (format, kind, media_type, source, rule) in [
        (Anthropic, Audio, "audio/wav", bytes(), "anthropic.no_audio"),
        (
            Anthropic,
            Image,
            "image/tiff",
            bytes(),
            "anthropic.image_type",
        ),
        (
            Anthropic,
            Document,
            "text/html",
            bytes(),
            "anthropic.document_type",
        ),
        (
            OpenAiResponses,
            Audio,
            "audio/wav",
            bytes(),
            "openai.no_audio",
        ),
        (
            OpenAiResponses,
            Image,
            "image/tiff",
            bytes(),
            "openai.image_type",
        ),
        (
            OpenAiChat,
            Image,
            "image/heic",
            bytes(),
            "openai.image_type",
        ),
        (OpenAiChat, Audio, "audio/ogg", bytes(), "openai.audio_type"),
        (OpenAiChat, Audio, "audio/wav", there(), "openai.media_url"),
        (
            OpenAiChat,
            Document,
            "application/pdf",
            there(),
            "openai.media_url",
        ),
        (
            OpenAiChat,
            Document,
            "text/html",
            bytes(),
            "openai.document_type",
        ),
        (Gemini, Image, "image/gif", bytes(), "gemini.image_type"),
        (Gemini, Audio, "audio/midi", bytes(), "gemini.audio_type"),
        (
            Gemini,
            Document,
            "application/zip",
            bytes(),
            "gemini.document_type",
        ),
    ] {
        assert_eq!(broken(format, kind, media_type, source), rule);
    }
    for format in FORMATS {
        for source in [
            data("AAA"),
            data("AA\nAA"),
            data(""),
            url("file:///a"),
            url(""),
        ] {
            let rule = broken(format, Image, "image/png", source);
            assert!(rule.ends_with(".media_data"), "{rule}");
        }
    }
}

// --- Requests that somebody else wrote ---------------------------------------

/// The rule that a finished request breaks.
fn broken(format: Format, request: Value) -> &'static str {
    match preflight(format, &request) {
        Ok(()) => "none",
        Err(refused) => refused.rule,
    }
}

fn anthropic(messages: Value) -> Value {
    json!({"model": "m", "max_tokens": 9, "messages": messages})
}

#[test]
fn a_raw_anthropic_request_is_checked() {
    let check = |messages: Value, rule: &str| {
        assert_eq!(broken(Format::Anthropic, anthropic(messages)), rule);
    };
    check(json!([{"role": "user", "content": "hi"}]), "none");
    check(json!([]), "anthropic.messages_not_empty");
    check(
        json!([{"role": "tool", "content": "hi"}]),
        "anthropic.roles",
    );
    check(
        json!([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]),
        "anthropic.alternation",
    );
    check(
        json!([{"role": "user", "content": " "}]),
        "anthropic.no_blank_text",
    );
    check(
        json!([{"role": "user", "content": []}]),
        "anthropic.no_blank_text",
    );

    let tool_use = json!({"type": "tool_use", "id": "c1", "name": "shell", "input": {}});
    let answered = |call: Value, content: Value| {
        json!([
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": content},
        ])
    };
    let answer = json!({"type": "tool_result", "tool_use_id": "c1", "content": "ok"});
    let text = json!({"type": "text", "text": "b"});
    check(answered(tool_use.clone(), json!([answer, text])), "none");
    check(
        answered(tool_use.clone(), json!([text, answer])),
        "anthropic.results_first",
    );
    check(
        answered(tool_use.clone(), json!([text])),
        "anthropic.calls_answered",
    );
    check(
        answered(tool_use.clone(), json!([answer, answer])),
        "anthropic.results_called",
    );
    check(
        json!([{"role": "user", "content": [answer]}]),
        "anthropic.results_called",
    );
    check(
        json!([{"role": "user", "content": [tool_use]}]),
        "anthropic.roles",
    );
    let mut dotted = tool_use.clone();
    dotted["id"] = json!("c.1");
    check(answered(dotted, json!([answer])), "anthropic.call_ids");
    let mut failed = answer.clone();
    failed["is_error"] = json!(true);
    failed["content"] = json!("");
    check(
        answered(tool_use.clone(), json!([failed])),
        "anthropic.error_result_text",
    );
    failed["content"] = json!([{"type": "image", "source": {}}]);
    check(
        answered(tool_use, json!([failed])),
        "anthropic.error_result_text",
    );
}

#[test]
fn thinking_is_complete_or_absent() {
    let check = |content: Value, rule: &str| {
        let messages = json!([
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": content},
            {"role": "user", "content": "b"},
        ]);
        assert_eq!(broken(Format::Anthropic, anthropic(messages)), rule);
    };
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "s"});
    let redacted = json!({"type": "redacted_thinking", "data": "s"});
    let unsigned = json!({"type": "thinking", "thinking": "Hm."});
    let text = json!({"type": "text", "text": "So."});
    check(json!([thinking, redacted, text]), "none");
    check(json!([text, thinking]), "anthropic.thinking");
    check(json!([thinking]), "anthropic.thinking");
    check(json!([unsigned, text]), "anthropic.thinking");
    let mut marked = thinking.clone();
    marked["cache_control"] = json!({"type": "ephemeral"});
    check(json!([marked, text]), "anthropic.cache_marks");
}

#[test]
fn at_most_four_cache_marks_are_allowed() {
    let marked =
        |text: &str| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
    let mut request = json!({
        "model": "m",
        "max_tokens": 9,
        "tools": [{"name": "shell", "input_schema": {"type": "object"},
                   "cache_control": {"type": "ephemeral"}}],
        "system": [marked("a")],
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c1", "name": "shell",
                 "input": {"cache_control": {"type": "data of the tool, not a mark"}}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [marked("b")]},
                marked("c"),
            ]},
        ],
    });
    assert_eq!(broken(Format::Anthropic, request.clone()), "none");
    request["cache_control"] = json!({"type": "ephemeral"});
    assert_eq!(broken(Format::Anthropic, request), "anthropic.cache_marks");
}

#[test]
fn a_raw_chat_request_is_checked() {
    let check = |messages: Value, rule: &str| {
        let request = json!({"model": "m", "messages": messages});
        assert_eq!(broken(Format::OpenAiChat, request), rule);
    };
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "shell", "arguments": "{}"}});
    let calls = json!({"role": "assistant", "content": "", "tool_calls": [call("c1"), call("c2")]});
    let answer = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": ""});
    let ask = json!({"role": "user", "content": "a"});
    check(
        json!([ask, calls, answer("c2"), answer("c1"), ask, ask]),
        "none",
    );
    check(
        json!([{"role": "system", "content": "a"}]),
        "openai.messages_not_empty",
    );
    check(
        json!([ask, calls, answer("c1"), ask]),
        "openai.calls_answered",
    );
    check(
        json!([ask, calls, answer("c1"), ask, answer("c2")]),
        "openai.calls_answered",
    );
    check(json!([ask, answer("c1")]), "openai.results_called");
    check(json!([{"role": "model", "content": "a"}]), "openai.roles");
    let mut wrong = calls.clone();
    wrong["tool_calls"][0]["function"]["arguments"] = json!({"a": 1});
    check(
        json!([ask, wrong, answer("c1"), answer("c2")]),
        "openai.call_json",
    );
}

/// An answer of OpenAI Chat may have no text.
#[test]
fn a_chat_answer_without_text_is_accepted() {
    let check = |messages: Value, rule: &str| {
        let request = json!({"model": "m", "messages": messages});
        assert_eq!(broken(Format::OpenAiChat, request), rule);
    };
    let ask = json!({"role": "user", "content": "a"});
    for (field, value) in [
        ("refusal", json!("I cannot help.")),
        ("audio", json!({"id": "audio_1"})),
        ("function_call", json!({"name": "shell", "arguments": "{}"})),
    ] {
        for content in [Value::Null, json!("")] {
            let mut said = json!({"role": "assistant", "content": content});
            check(json!([ask, said, ask]), "openai.no_blank_text");
            said[field] = Value::Null;
            check(json!([ask, said, ask]), "openai.no_blank_text");
            said[field] = value.clone();
            check(json!([ask, said, ask]), "none");
        }
    }
    let called = json!({"role": "assistant", "content": null,
        "function_call": {"name": "shell", "arguments": "{}"}});
    let answer = json!({"role": "function", "name": "shell", "content": "ok"});
    check(json!([ask, called, answer]), "none");
}

#[test]
fn a_raw_responses_request_is_checked() {
    let check = |request: Value, rule: &str| {
        assert_eq!(broken(Format::OpenAiResponses, request), rule);
    };
    let call =
        json!({"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"});
    let answer = json!({"type": "function_call_output", "call_id": "c1", "output": ""});
    let ask = json!({"role": "user", "content": "a"});
    check(json!({"input": "hi"}), "none");
    check(json!({"input": ""}), "openai.no_blank_text");
    check(json!({"input": []}), "openai.messages_not_empty");
    // In this API, a result may come anywhere after its call.
    check(json!({"input": [ask, call, ask, answer]}), "none");
    check(json!({"input": [ask, call, ask]}), "openai.calls_answered");
    check(json!({"input": [answer, call]}), "openai.results_called");
    check(json!({"input": [answer]}), "openai.results_called");
    check(
        json!({"input": [answer], "previous_response_id": "r1"}),
        "none",
    );
    // Reasoning belongs to the item of the model after it.
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let said = json!({"role": "assistant", "content": "b"});
    check(
        json!({"input": [ask, thought, thought, call, answer]}),
        "none",
    );
    check(json!({"input": [ask, thought, said, ask]}), "none");
    for input in [
        json!([ask, thought]),
        json!([ask, thought, ask]),
        json!([ask, call, thought, answer]),
        json!([ask, said, thought, thought, ask]),
    ] {
        check(json!({"input": input}), "openai.thinking");
    }
}

/// An answer that was cut off while the model reasoned has no item after the
/// reasoning.
#[test]
fn reasoning_without_a_following_item_is_left_out() {
    let own = |raw: &str| {
        let native = Native::new("openai-responses", RawJson::parse(raw).unwrap());
        let mut item = model("(reasoning)");
        item.part = Part::Provider(native.into());
        item
    };
    let thought = r#"{"type":"reasoning","id":"rs_1","summary":[]}"#;
    let talk = Talk {
        history: vec![
            user("One."),
            own(thought),
            user("Two."),
            own(thought),
            model("Yes."),
        ],
        event: vec![user("Three.")],
        ..Talk::default()
    };
    let request = talk.request(Format::OpenAiResponses).unwrap();
    let kinds: Vec<&str> = (request["input"].as_array().unwrap().iter())
        .map(|item| item["role"].as_str().unwrap_or("reasoning"))
        .collect();
    assert_eq!(kinds, ["user", "user", "reasoning", "assistant", "user"]);
}

#[test]
fn a_raw_gemini_request_is_checked() {
    let check = |contents: Value, rule: &str| {
        assert_eq!(broken(Format::Gemini, json!({"contents": contents})), rule);
    };
    let call = |id: Value| json!({"functionCall": {"id": id, "name": "shell", "args": {}}});
    let answer = |id: Value| json!({"functionResponse": {"id": id, "name": "shell", "response": {"output": "ok"}}});
    let talk = |calls: Value, answers: Value| {
        json!([
            {"role": "user", "parts": [{"text": "a"}]},
            {"role": "model", "parts": calls},
            {"role": "user", "parts": answers},
        ])
    };
    let (none, c1, c2) = (Value::Null, json!("c1"), json!("c2"));
    check(json!([{"parts": [{"text": "a"}]}]), "none");
    check(json!([]), "gemini.contents_not_empty");
    check(
        talk(json!([call(c1.clone())]), json!([answer(c1.clone())])),
        "none",
    );
    // Without ids they go by name and order.
    check(
        talk(
            json!([call(none.clone()), call(none.clone())]),
            json!([answer(none.clone()), answer(none.clone())]),
        ),
        "none",
    );
    check(
        talk(
            json!([call(none.clone()), call(none.clone())]),
            json!([answer(none)]),
        ),
        "gemini.calls_answered",
    );
    check(
        talk(json!([call(c1)]), json!([answer(c2)])),
        "gemini.results_called",
    );
    check(json!([{"role": "assistant", "parts": []}]), "gemini.roles");
    // A stream ends with a signature on an empty text.
    let ask = json!({"role": "user", "parts": [{"text": "a"}]});
    let end = json!({"text": "", "thoughtSignature": "c2ln"});
    let said = |parts: Value| json!([ask, {"role": "model", "parts": parts}, ask]);
    check(said(json!([{"text": "b"}, end])), "none");
    check(said(json!([{"text": ""}])), "gemini.no_blank_text");
}
