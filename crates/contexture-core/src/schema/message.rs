//! Additions to the JSON Schemas of messages that their types cannot express.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::message::{Block, MessageContent};
use crate::stands_for;

/// The types of the blocks that a message of any role can have.
pub const MEDIA_AND_TEXT: [&str; 4] = ["text", "image", "audio", "document"];

stands_for! {
    /// The arguments of a call.
    Arguments, |_generator| json_schema!({
        "description": "The arguments of the call: an object, or the text that the model wrote \
                        if it is not a JSON object.",
        "type": ["object", "string"],
        "additionalProperties": true,
    })
}

stands_for! {
    /// A block in a provider's own form.
    RawObject, |_generator| json_schema!({"type": "object", "additionalProperties": true})
}

impl JsonSchema for MessageContent {
    fn schema_name() -> Cow<'static, str> {
        "MessageContent".into()
    }

    fn schema_id() -> Cow<'static, str> {
        concat!(module_path!(), "::MessageContent").into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Text, or a list of blocks.",
            "type": ["string", "array"],
            "items": generator.subschema_for::<Block>(),
        })
    }
}

/// Adds the rules for the blocks of each role's messages, and the fields of a
/// tool's message.
pub fn message(schema: &mut Schema) {
    let role =
        |names: &[&str]| json!({"properties": {"role": {"enum": names}}, "required": ["role"]});
    let blocks = |names: &[&str]| -> Value {
        let all: Vec<&str> = MEDIA_AND_TEXT.iter().chain(names).copied().collect();
        json!({"properties": {"content": {"items": {"properties": {"type": {"enum": all}}}}}})
    };
    let result = json!({"properties": {"type": {"const": "tool_result"}}});
    schema.insert(
        "allOf".to_owned(),
        json!([
            {"if": role(&["system", "developer"]), "then": blocks(&["provider"])},
            {"if": role(&["user", "tool"]), "then": blocks(&["tool_result", "provider"])},
            {
                "if": role(&["assistant"]),
                "then": blocks(&["tool_call", "thinking", "provider"]),
            },
            {
                "if": role(&["tool"]),
                "then": {
                    "anyOf": [
                        {
                            "required": ["tool_call_id"],
                            "properties": {"tool_call_id": {"type": "string"}},
                        },
                        {"properties": {"content": {"type": "array", "contains": result}}},
                    ],
                },
                "else": {
                    "properties": {"tool_call_id": {"type": "null"}, "is_error": {"const": false}},
                },
            },
        ]),
    );
}

/// Adds the rule that a picture, recording or document has either `data` or
/// `url`.
pub fn media(schema: &mut Schema) {
    either(schema, "data", "url");
}

/// Adds the rule that an object has exactly one of two fields.
pub fn either(schema: &mut Schema, one: &str, other: &str) {
    let this = |one: &str, other: &str| {
        json!({
            "required": [one],
            "properties": {one: {"type": "string"}, other: {"type": "null"}},
        })
    };
    schema.insert(
        "oneOf".to_owned(),
        json!([this(one, other), this(other, one)]),
    );
}
