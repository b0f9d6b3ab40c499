//! Properties of every conversation.
use crate::common::generate::{talk, unit};
use crate::common::*;
use contexture_core::{TokenCounter, markup};
use contexture_providers::preflight;
use proptest::prelude::*;
use serde_json::Value;

/// Fields of the protocol, not of the content.
const PROTOCOL: [&str; 22] = [
    "type",
    "role",
    "id",
    "call_id",
    "tool_use_id",
    "tool_call_id",
    "model",
    "signature",
    "thoughtSignature",
    "data",
    "media_type",
    "mimeType",
    "url",
    "image_url",
    "fileUri",
    "file_data",
    "filename",
    "detail",
    "cache_control",
    "strict",
    "source",
    "is_error",
];

/// Fields whose JSON the model reads as it is, keys and all.
const AS_JSON: [&str; 5] = [
    "input_schema",
    "parameters",
    "parametersJsonSchema",
    "args",
    "input",
];

/// Everything in a request that the model reads.
fn says(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::String(text) => out.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| says(item, out)),
        Value::Object(fields) => {
            for (key, value) in fields {
                if AS_JSON.contains(&key.as_str()) && value.is_object() {
                    out.push(value.to_string());
                } else if !PROTOCOL.contains(&key.as_str()) {
                    says(value, out);
                }
            }
        }
        _ => {}
    }
}

/// The messages of a request without the current one and without marks.
fn history(request: &Value) -> Vec<Value> {
    let key = ["messages", "input", "contents"]
        .into_iter()
        .find(|key| request.get(key).is_some());
    let mut messages = request[key.unwrap()].as_array().unwrap().clone();
    messages.pop();
    for message in &mut messages {
        let blocks = message.get_mut("content").and_then(Value::as_array_mut);
        for block in blocks.into_iter().flatten() {
            block.as_object_mut().unwrap().remove("cache_control");
        }
    }
    messages
}

proptest! {
    #[test]
    fn every_conversation_becomes_a_request_that_every_provider_takes(
        units in prop::collection::vec(unit(), 0..5),
    ) {
        for format in FORMATS {
            let request = talk(&units).request(format);
            prop_assert!(request.is_ok(), "{}: {}", name(format), request.unwrap_err());
            let request = request.unwrap();
            prop_assert_eq!(preflight(format, &request), Ok(()));
            let again = talk(&units).request(format).unwrap();
            prop_assert_eq!(request.to_string(), again.to_string());
        }
    }

    #[test]
    fn a_request_begins_with_the_one_before(
        mut units in prop::collection::vec(unit(), 1..5),
    ) {
        // An answer ends each, or the next question would join the last.
        for unit in &mut units {
            unit.answer = "Done.".to_owned();
        }
        for format in FORMATS {
            let now = history(&talk(&units).request(format).unwrap());
            let before = history(&talk(&units[..units.len() - 1]).request(format).unwrap());
            prop_assert!(now.starts_with(&before), "{}", name(format));
        }
    }

    #[test]
    fn no_format_has_more_content_than_the_text_format(units in prop::collection::vec(unit(), 0..4)) {
        let talk = talk(&units);
        let counted = Runs.count(&markup::render(&talk.layout()));
        for format in FORMATS {
            let mut request = talk.request(format).unwrap();
            request.as_object_mut().unwrap().remove("model");
            let mut said = Vec::new();
            says(&request, &mut said);
            let runs: u64 = said.iter().map(|text| Runs.count(text)).sum();
            prop_assert!(runs <= counted, "{}: {runs} > {counted}", name(format));
        }
    }

    #[test]
    fn a_broken_request_is_refused_not_a_panic(
        units in prop::collection::vec(unit(), 1..3),
        at in any::<prop::sample::Index>(),
    ) {
        // Without any one of its items, a conversation is accepted or rejected.
        let mut talk = talk(&units);
        talk.history.remove(at.index(talk.history.len()));
        for format in FORMATS {
            if let Ok(request) = talk.request(format) {
                prop_assert_eq!(preflight(format, &request), Ok(()));
            }
        }
    }
}
