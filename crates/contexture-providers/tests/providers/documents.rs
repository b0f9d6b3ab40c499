//! Paragraphs of one message, documents, and messages that the model is to go
//! on with.
use crate::common::*;
use contexture_core::guard::Policy;
use contexture_core::{Item, Join, Native, Part, RawJson, Role, Text};
use contexture_providers::{Format, Prompt, preflight, preflight_continued};
use serde_json::{Value, json};

fn joined(item: Item) -> Item {
    item.join(Join::Paragraph)
}

fn part(text: &str) -> Item {
    let text = Text::guarded(text, Policy::default().in_document());
    Item::new("node", Role::Document, text)
}

/// Returns the messages of a request, whatever the provider calls the field.
fn messages(format: Format, request: &Value) -> Value {
    let key = match format {
        Format::Anthropic | Format::OpenAiChat => "messages",
        Format::Gemini => "contents",
        _ => "input",
    };
    request[key].clone()
}

#[test]
fn paragraphs_become_one_text() {
    let talk = Talk {
        system: vec![
            joined(said(Role::System, "Be brief.")),
            joined(said(Role::System, "Be kind.")),
        ],
        history: vec![
            joined(user("a")),
            joined(user(" \n")),
            joined(user("b")),
            joined(model("c")),
            joined(model("d")),
            joined(file("f", "e")),
        ],
        ..Talk::default()
    };
    let request = talk.request(Format::Anthropic).unwrap();
    assert_eq!(
        request["system"],
        json!([{"type": "text", "text": "Be brief.\n\nBe kind.", "cache_control": {"type": "ephemeral"}}])
    );
    let texts: Vec<&str> = request["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|message| message["content"].as_array().unwrap())
        .map(|block| block["text"].as_str().unwrap())
        .collect();
    assert_eq!(
        texts,
        ["a\n\nb", "c\n\nd", "<context path=\"f\">\ne\n</context>"]
    );
    let request = talk.request(Format::OpenAiResponses).unwrap();
    assert_eq!(
        request["input"][0]["content"],
        json!([{"type": "input_text", "text": "a\n\nb"}])
    );
}

#[test]
fn a_document_is_sent_as_a_user_message() {
    let talk = Talk {
        system: vec![said(Role::System, "Go on.")],
        history: vec![
            part("It was a dark"),
            part(" and stormy </user>"),
            part("\n\n"),
        ],
        event: vec![part("night")],
        ..Talk::default()
    };
    let text = "It was a dark and stormy </user>\n\nnight";
    for (format, expected) in [
        (
            Format::Anthropic,
            json!([{"role": "user", "content": [{"type": "text", "text": text}]}]),
        ),
        (
            Format::OpenAiResponses,
            json!([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]),
        ),
        (
            Format::Gemini,
            json!([{"role": "user", "parts": [{"text": text}]}]),
        ),
    ] {
        let request = talk.request(format).unwrap();
        assert_eq!(messages(format, &request), expected);
    }
    let chat = talk.request(Format::OpenAiChat).unwrap();
    assert_eq!(
        chat["messages"],
        json!([{"role": "system", "content": "Go on."}, {"role": "user", "content": text}])
    );
}

#[test]
fn an_image_keeps_its_position_in_a_document() {
    let talk = Talk {
        history: vec![part("Before "), picture(Role::Document), part(" behind")],
        ..Talk::default()
    };
    let request = talk.request(Format::Gemini).unwrap();
    let parts = request["contents"][0]["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 3);
    assert_eq!(parts[0], json!({"text": "Before "}));
    assert_eq!(parts[2], json!({"text": " behind"}));
    assert_eq!(request["contents"].as_array().unwrap().len(), 1);
}

#[test]
fn completions_use_the_text_format() {
    let document = Talk {
        system: vec![said(Role::System, "Go on.")],
        history: vec![part("It was a dark"), part(" and stormy")],
        ..Talk::default()
    };
    assert_eq!(
        document
            .request_for(Format::OpenAiCompletions, "davinci-002")
            .unwrap(),
        json!({
            "model": "davinci-002",
            "prompt": "Go on.\n\nIt was a dark and stormy",
            "max_tokens": 500,
        })
    );
    let dialogue = Talk {
        history: vec![joined(user("a")), joined(user("b")), model("c")],
        ..Talk::default()
    };
    let request = dialogue.request(Format::OpenAiCompletions).unwrap();
    assert_eq!(
        request["prompt"],
        "<user>\na\n\nb\n</user>\n\n<assistant>\nc\n</assistant>\n"
    );
}

#[test]
fn completions_get_a_default_limit() {
    let talk = Talk {
        history: vec![part("It was")],
        ..Talk::default()
    };
    let layout = talk.layout();
    let limit = |spare| {
        let prompt = Prompt::new(&layout, "davinci-002", spare);
        prompt.request(Format::OpenAiCompletions).unwrap()["max_tokens"].clone()
    };
    assert_eq!(limit(100_000), 4096);
    assert_eq!(limit(100), 100);
}

#[test]
fn completions_reject_media() {
    let broken = |item: Item| {
        let talk = Talk {
            system: vec![item],
            history: vec![part("It was")],
            ..Talk::default()
        };
        let refused = talk.request(Format::OpenAiCompletions).unwrap_err();
        (refused.rule, refused.message)
    };
    assert_eq!(
        broken(picture(Role::User)),
        (
            "openai.completions_text_only",
            "`said 0` holds an image: completions takes text only; exclude it, or use the format \
             `openai-chat`"
                .to_owned()
        )
    );
    assert_eq!(broken(tool("shell", "{}")).0, "openai.completions_no_tools");
    assert_eq!(
        broken(call("c1", "shell", "{}")).0,
        "openai.completions_no_tools"
    );
    let blank = Talk {
        history: vec![part(" \n")],
        ..Talk::default()
    };
    assert_eq!(
        blank.broken(Format::OpenAiCompletions),
        "openai.completions_not_blank"
    );
    let wrong = |request: Value| {
        let refused = preflight(Format::OpenAiCompletions, &request);
        refused.unwrap_err().rule
    };
    assert_eq!(wrong(json!({"model": "m"})), "openai.completions_not_blank");
    assert_eq!(
        wrong(json!({"model": "m", "prompt": " "})),
        "openai.completions_not_blank"
    );
    assert_eq!(
        wrong(json!({"model": "m", "messages": []})),
        "openai.completions_prompt"
    );
}

#[test]
fn the_model_continues_its_own_message() {
    let talk = Talk {
        history: vec![
            user("Tell a story."),
            model("Once upon a "),
            model("time \n"),
        ],
        ..Talk::default()
    };
    let layout = talk.layout();
    let ask = |model: &str, format, continues| {
        let prompt = Prompt {
            continues,
            ..Prompt::new(&layout, model, 9000)
        };
        prompt.request(format)
    };
    for format in FORMATS {
        let refused = ask("some-model", format, false).unwrap_err();
        assert!(refused.rule.ends_with(".user_last"), "{refused}");
    }
    for format in [Format::OpenAiChat, Format::OpenAiResponses] {
        let request = ask("some-model", format, true).unwrap();
        let last = messages(format, &request)[1].clone();
        assert_eq!(last["role"], "assistant");
        assert_eq!(last["content"], "Once upon a \n\ntime \n");
        assert_eq!(preflight_continued(format, &request), Ok(()));
    }
    // Anthropic takes no blanks at the end.
    let request = ask("claude-sonnet-4-5", Format::Anthropic, true).unwrap();
    assert_eq!(request["messages"][1]["content"][1]["text"], json!("time"));
    assert_eq!(preflight_continued(Format::Anthropic, &request), Ok(()));
    let strict = preflight(Format::Anthropic, &request).unwrap_err();
    assert_eq!(strict.rule, "anthropic.user_last");
    let mut blank = request.clone();
    blank["messages"][1]["content"][1]["text"] = json!("time ");
    let refused = preflight_continued(Format::Anthropic, &blank).unwrap_err();
    assert_eq!(refused.rule, "anthropic.trailing_blank");
    // Gemini does not go on.
    let refused = ask("gemini-2.5-pro", Format::Gemini, true).unwrap_err();
    assert_eq!(refused.rule, "gemini.user_last");
    assert_eq!(
        refused.message,
        "the last message is the model's, and `gemini-2.5-pro` does not go on where it ends: add \
         what is asked"
    );
}

#[test]
fn newer_anthropic_models_reject_prefilled_answers() {
    let talk = Talk {
        history: vec![user("Tell a story."), model("Once")],
        ..Talk::default()
    };
    let layout = talk.layout();
    for (model, goes_on) in [
        ("claude-3-5-sonnet-20241022", true),
        ("claude-3-opus-latest", true),
        ("claude-sonnet-4-20250514", true),
        ("claude-opus-4-5", true),
        ("claude-haiku-4-5-20251001", true),
        ("claude-opus-4-6", false),
        ("claude-sonnet-4.6", false),
        ("anthropic.claude-opus-4-6-v1", false),
        ("claude-opus-5", false),
        ("some-model", true),
    ] {
        let prompt = Prompt {
            continues: true,
            ..Prompt::new(&layout, model, 9000)
        };
        assert_eq!(
            prompt.request(Format::Anthropic).is_ok(),
            goes_on,
            "{model}"
        );
    }
}

/// Anthropic pauses a long turn with its own tools (`pause_turn`). Every model
/// resumes it when it is sent back as the last message.
#[test]
fn a_paused_turn_is_resumed_by_every_model() {
    let raw = r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}"#;
    let native = Native::new("anthropic", RawJson::parse(raw).unwrap());
    let mut search = model("(a search)");
    search.part = Part::Provider(native.into());
    let talk = Talk {
        history: vec![user("Search."), model("I search. "), search],
        ..Talk::default()
    };
    let layout = talk.layout();
    let ask = |continues| {
        let prompt = Prompt {
            continues,
            ..Prompt::new(&layout, "claude-opus-4-6", 9000)
        };
        prompt.request(Format::Anthropic)
    };
    assert_eq!(ask(false).unwrap_err().rule, "anthropic.user_last");
    let request = ask(true).unwrap();
    assert_eq!(request["messages"][1]["content"][1]["id"], "srvtoolu_1");
    assert_eq!(preflight_continued(Format::Anthropic, &request), Ok(()));
}

/// The provider stores the calls that the results answer.
#[test]
fn results_of_stored_calls_are_sent() {
    let talk = Talk {
        history: vec![result("c1", "shell", "ok"), user("And?")],
        ..Talk::default()
    };
    let layout = talk.layout();
    let ask = |follows_stored| {
        let prompt = Prompt {
            follows_stored,
            ..Prompt::new(&layout, "gpt-5.5", 9000)
        };
        prompt.request(Format::OpenAiResponses)
    };
    assert_eq!(ask(false).unwrap_err().rule, "openai.results_called");
    let request = ask(true).unwrap();
    assert_eq!(request["input"][0]["call_id"], "c1");
}

#[test]
fn a_user_message_after_the_models_is_answered() {
    let talk = Talk {
        history: vec![user("Tell a story."), model("Once upon a time ")],
        event: vec![user("Another.")],
        ..Talk::default()
    };
    let layout = talk.layout();
    for format in FORMATS {
        let prompt = Prompt::new(&layout, "claude-opus-4-6", 9000);
        let continued = Prompt {
            continues: true,
            ..prompt
        };
        assert_eq!(continued.request(format), prompt.request(format));
    }
}
