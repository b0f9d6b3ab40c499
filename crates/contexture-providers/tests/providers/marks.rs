//! The cache breakpoints for Anthropic.
use crate::common::*;
use contexture_core::{Item, Role};
use contexture_providers::Format;
use serde_json::Value;

/// Returns the texts of the marked blocks, in order, with their position.
fn marked(talk: &Talk) -> Vec<String> {
    let request = talk.request(Format::Anthropic).unwrap();
    let mut found = Vec::new();
    let mut look = |place: &str, block: &Value| {
        if block.get("cache_control").is_some() {
            let text = ["name", "text", "content"]
                .iter()
                .find_map(|key| block[*key].as_str());
            found.push(format!("{place}: {}", text.unwrap_or_default()));
        }
    };
    for place in ["tools", "system"] {
        let blocks = request[place].as_array().into_iter().flatten();
        blocks.for_each(|block| look(place, block));
    }
    for message in request["messages"].as_array().unwrap() {
        for block in message["content"].as_array().unwrap() {
            look(message["role"].as_str().unwrap(), block);
        }
    }
    found
}

fn exchange(number: usize) -> Vec<Item> {
    let said = |who: &str| format!("{who} {number}");
    turn(
        &format!("t{number}"),
        vec![user(&said("ask")), model(&said("answer"))],
    )
}

/// A unit with this many calls one after the other: two blocks each.
fn long(number: usize, calls: usize) -> Vec<Item> {
    let mut items = vec![user("look")];
    for at in 0..calls {
        let id = format!("c{number}-{at}");
        items.push(call(&id, "shell", "{}"));
        items.push(result(&id, "shell", &format!("result {at}")));
    }
    items.push(model("done"));
    turn(&format!("t{number}"), items)
}

fn talk(history: Vec<Item>) -> Talk {
    Talk {
        system: vec![
            said(Role::System, "rules"),
            said(Role::System, "more rules"),
            tool("shell", "{}"),
        ],
        history,
        current: vec![file("a", "x"), user("note")],
        event: vec![user("now"), user("later")],
    }
}

#[test]
fn marks_are_at_the_end_of_the_previous_and_the_current_request() {
    let history = [exchange(1), exchange(2), exchange(3)].concat();
    assert_eq!(
        marked(&talk(history)),
        [
            "system: more rules",
            "assistant: answer 2",
            "assistant: answer 3",
            "user: note",
        ]
    );
}

#[test]
fn a_request_repeats_the_mark_of_the_previous_one() {
    let first = marked(&talk([exchange(1), exchange(2)].concat()));
    let second = marked(&talk([exchange(1), exchange(2), exchange(3)].concat()));
    assert!(first.contains(&"assistant: answer 2".to_owned()));
    assert!(second.contains(&"assistant: answer 2".to_owned()));
}

#[test]
fn without_groups_marks_follow_the_latest_user_message() {
    let history: Vec<Item> = (1..=3)
        .flat_map(exchange)
        .map(|mut item| {
            item.group = None;
            item
        })
        .collect();
    assert_eq!(
        marked(&talk(history))[1..3],
        ["assistant: answer 2", "assistant: answer 3"]
    );
}

#[test]
fn without_rules_the_last_tool_is_the_end_of_the_static_part() {
    let mut talk = talk(exchange(1));
    talk.system = vec![tool("a", "{}"), tool("b", "{}")];
    assert_eq!(
        marked(&talk),
        ["tools: b", "assistant: answer 1", "user: note"]
    );
}

#[test]
fn volatile_items_are_never_marked() {
    let mut talk = talk(Vec::new());
    talk.current.clear();
    assert_eq!(marked(&talk), ["system: more rules"]);
    talk.system.clear();
    assert_eq!(marked(&talk), Vec::<String>::new());
}

#[test]
fn a_long_last_unit_gets_a_mark_in_its_middle_when_one_is_free() {
    let mut talk = talk([exchange(1), long(2, 15)].concat());
    assert_eq!(
        marked(&talk),
        [
            "system: more rules",
            "assistant: answer 1",
            "assistant: done",
            "user: note"
        ]
    );
    talk.current.clear();
    assert_eq!(
        marked(&talk),
        [
            "system: more rules",
            "assistant: answer 1",
            "user: result 7",
            "assistant: done"
        ]
    );
    talk.history = [exchange(1), long(2, 9)].concat();
    assert_eq!(
        marked(&talk),
        [
            "system: more rules",
            "assistant: answer 1",
            "assistant: done"
        ]
    );
}

#[test]
fn thinking_is_never_marked() {
    // The boundary of the last group comes after the model's reasoning.
    let mut history = exchange(1);
    history.extend(turn("t2", vec![user("why"), thought("hm", "s")]));
    history.extend(turn("t3", vec![model("so")]));
    assert_eq!(marked(&talk(history))[1..3], ["user: why", "assistant: so"]);
}

/// The texts with a breakpoint for OpenAI's cache, in order.
fn breakpoints(talk: &Talk, format: Format, model: &str) -> Vec<String> {
    fn look(value: &Value, found: &mut Vec<String>) {
        if let Some(mark) = value.get("prompt_cache_breakpoint") {
            assert_eq!(mark, &serde_json::json!({"mode": "explicit"}));
            found.push(value["text"].as_str().unwrap().to_owned());
        }
        match value {
            Value::Array(list) => list.iter().for_each(|value| look(value, found)),
            Value::Object(fields) => fields.values().for_each(|value| look(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    look(&talk.request_for(format, model).unwrap(), &mut found);
    found
}

#[test]
fn openai_has_breakpoints_after_the_latest_stable_texts_of_the_user() {
    let history = [exchange(1), exchange(2), exchange(3), long(4, 3)].concat();
    let talk = talk(history);
    let responses = breakpoints(&talk, Format::OpenAiResponses, "gpt-5.6-sol");
    assert_eq!(responses.len(), 3);
    assert_eq!(responses[0], "look");
    assert_eq!(responses[2], "note");
    // A message of several texts is one string in Chat, with a breakpoint it
    // would be a list: the next request would not begin the same.
    let chat = breakpoints(&talk, Format::OpenAiChat, "gpt-6");
    assert_eq!(chat, ["ask 2", "ask 3", "look"]);
    for older in ["gpt-5.5", "gpt-4o", "gpt-35-turbo", "some-model", "o3"] {
        assert_eq!(breakpoints(&talk, Format::OpenAiChat, older), [""; 0]);
        assert_eq!(breakpoints(&talk, Format::OpenAiResponses, older), [""; 0]);
    }
}

#[test]
fn the_key_of_the_cache_goes_to_openai_only() {
    let talk = talk(exchange(1));
    let layout = talk.layout();
    for (model, key) in [("gpt-4o", Some("k1")), ("llama-3", None)] {
        let prompt = contexture_providers::Prompt {
            cache_key: Some("k1"),
            ..contexture_providers::Prompt::new(&layout, model, 9000)
        };
        for format in [Format::OpenAiChat, Format::OpenAiResponses] {
            let request = prompt.request(format).unwrap();
            assert_eq!(request.get("prompt_cache_key").and_then(Value::as_str), key);
        }
        for format in [Format::Anthropic, Format::Gemini] {
            let request = prompt.request(format).unwrap();
            assert_eq!(request.get("prompt_cache_key"), None);
        }
    }
}
