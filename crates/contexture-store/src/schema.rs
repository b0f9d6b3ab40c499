//! Additions to the JSON Schemas of stored types that their types cannot
//! express.

use std::borrow::Cow;

use contexture_core::schema::{NOT_WHITE, hexadecimal};
use contexture_core::stands_for;
use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::id::TurnId;
use crate::memory::MAX_ID_BYTES;
use crate::message::{Block, MessageContent};
use crate::session::MAX_LABEL_BYTES;
use crate::turn::StopReason;

/// A label: no control characters, and no blanks at its ends.
const LABEL: &str = concat!(
    r"^[^\u0000-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]",
    r"([^\u0000-\u001f\u007f-\u009f]*",
    r"[^\u0000-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000])?$",
);

/// A name: more than blanks, and without NUL.
const NAME: &str = concat!(
    r"^[^\u0000]*",
    r"[^\u0000\u0009-\u000d \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]",
    r"[^\u0000]*$",
);

stands_for! {
    /// A [label](crate::check_label). Its limit is in bytes, of which a
    /// character has one or more.
    Label, |_generator| json_schema!({
        "type": "string", "minLength": 1, "maxLength": MAX_LABEL_BYTES, "pattern": LABEL,
    })
}

stands_for! {
    /// An id, or the name of a session, source or task.
    Name, |_generator| name(NAME, MAX_ID_BYTES)
}

stands_for! {
    /// An id that may be missing.
    NameOrEmpty, |_generator| name(&format!("^$|{NAME}"), MAX_ID_BYTES)
}

stands_for! {
    /// The id of a relation that may be missing. It can hold three names.
    LongNameOrEmpty, |_generator| name(&format!("^$|{NAME}"), 4 * MAX_ID_BYTES)
}

fn name(pattern: &str, longest: usize) -> Schema {
    json_schema!({"type": "string", "maxLength": longest, "pattern": pattern})
}

stands_for! {
    /// A time that may be missing: RFC 3339, or Unix milliseconds.
    Time, |generator| {
        if generator.contract().is_serialize() {
            return json_schema!({"type": ["string", "null"], "format": "date-time"});
        }
        json_schema!({
            "type": ["string", "integer", "null"],
            "format": "date-time",
            "minimum": Timestamp::MIN.as_millisecond(),
            // Parts of the last second are no times.
            "maximum": Timestamp::MAX.as_second() * 1000,
        })
    }
}

stands_for! {
    /// Anything but null.
    NotNull, |_generator| json_schema!({
        "type": ["string", "object", "array", "number", "boolean"],
        // An object of any fields: said, because some generators read an object without
        // fields as one that has none.
        "additionalProperties": true,
    })
}

stands_for! {
    /// A number of 32 bits.
    Float, |_generator| json_schema!({
        "type": "number", "format": "float", "minimum": f32::MIN, "maximum": f32::MAX,
    })
}

stands_for! {
    /// A number that is not negative.
    Weight, |_generator| json_schema!({"type": "number", "format": "double", "minimum": 0})
}

stands_for! {
    /// A text that is not empty.
    NotEmpty, |_generator| json_schema!({"type": "string", "minLength": 1})
}

stands_for! {
    /// What a node holds: text and media.
    NodeContent, |generator| {
        let content = generator.subschema_for::<MessageContent>();
        json_schema!({
            "allOf": [content],
            "minItems": 1,
            "items": {"properties": {"type": {"enum": MEDIA_AND_TEXT}}},
        })
    }
}

stands_for! {
    /// How an agent's answers are drawn. A store takes any parameters; what is
    /// read from them is this.
    Parameters, |_generator| {
        let number = |about: &str| json!({"description": about, "type": ["number", "null"]});
        let count = |about: &str| {
            json!({
                "description": about, "type": ["integer", "null"], "format": "uint64", "minimum": 0,
            })
        };
        json_schema!({
            "type": "object",
            "properties": {
                "temperature": number(
                    "The sampling temperature. Higher values give more varied responses."
                ),
                "top_p": number(
                    "Nucleus sampling: only the most likely tokens with this total probability \
                     are used, from 0 to 1."
                ),
                "top_k": count("The number of most likely tokens that are used."),
                "stop": {
                    "description": "Texts at which the response ends: a list, or one text.",
                    "type": ["string", "array"],
                    "items": {"type": "string"},
                },
                "seed": {
                    "description": "The random seed. The same seed gives the same response if \
                                    the provider supports it.",
                    "type": ["integer", "null"],
                    "format": "int64",
                },
                "frequency_penalty": number("The penalty for tokens by how often they occurred."),
                "presence_penalty": number("The penalty for tokens that occurred at least once."),
                "max_tokens": count("The maximum number of tokens of the response."),
            },
            "additionalProperties": false,
        })
    }
}

const MEDIA_AND_TEXT: [&str; 4] = ["text", "image", "audio", "document"];

impl JsonSchema for TurnId {
    fn schema_name() -> Cow<'static, str> {
        "TurnId".into()
    }

    fn schema_id() -> Cow<'static, str> {
        concat!(module_path!(), "::TurnId").into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The id of a turn: 32 hexadecimal digits, a hash of its content and \
                            of the id of the previous turn.",
            "type": "string",
            "pattern": hexadecimal(generator, 32),
        })
    }
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

impl JsonSchema for StopReason {
    fn schema_name() -> Cow<'static, str> {
        "StopReason".into()
    }

    fn schema_id() -> Cow<'static, str> {
        concat!(module_path!(), "::StopReason").into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let own = [
            "end_turn",
            "max_tokens",
            "tool_use",
            "timeout",
            "aborted",
            "error",
        ];
        if generator.contract().is_serialize() {
            return json_schema!({
                "description": "The reason why a model stopped.",
                "type": "string",
                "enum": own,
            });
        }
        // As providers write them. Those in capitals are apart: generators make
        // constants of words, and `stop` and `STOP` would be the same one.
        let others = [
            "stop",
            "stop_sequence",
            "length",
            "tool_calls",
            "function_call",
        ];
        let words: Vec<&str> = own.iter().chain(&others).copied().collect();
        json_schema!({
            "description": "The reason why a model stopped. The values of providers are \
                            accepted, too.",
            "anyOf": [
                {"type": "string", "enum": words},
                {"type": "string", "enum": ["STOP", "MAX_TOKENS"]},
            ],
        })
    }
}

/// Says which blocks a message of which role may hold, and what belongs to a
/// tool's message.
pub(crate) fn message(schema: &mut Schema) {
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
            {"if": role(&["system", "developer"]), "then": blocks(&[])},
            {"if": role(&["user", "tool"]), "then": blocks(&["tool_result"])},
            {"if": role(&["assistant"]), "then": blocks(&["tool_call", "thinking"])},
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

/// Says that a turn has a message that says or does something.
pub(crate) fn messages(schema: &mut Schema) {
    let text = json!({"properties": {"text": {"pattern": NOT_WHITE}}});
    let other = json!({"properties": {"type": {"not": {"const": "text"}}}});
    let says = json!({"properties": {"content": {"anyOf": [
        {"type": "string", "pattern": NOT_WHITE},
        {"type": "array", "contains": {"anyOf": [text, other]}},
    ]}}});
    let answers = json!({"properties": {
        "role": {"const": "tool"},
        "tool_call_id": {"type": "string"},
    }, "required": ["role", "tool_call_id"]});
    schema.insert("minItems".to_owned(), 1.into());
    schema.insert("maxItems".to_owned(), crate::MAX_MESSAGES.into());
    schema.insert("contains".to_owned(), json!({"anyOf": [says, answers]}));
}

/// Says that a picture, recording or document has either `data` or `url`.
pub(crate) fn media(schema: &mut Schema) {
    either(schema, "data", "url");
}

/// Says that a pin is either a node or a text.
pub(crate) fn pin(schema: &mut Schema) {
    either(schema, "node_id", "text");
}

fn either(schema: &mut Schema, one: &str, other: &str) {
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

/// Says that an edge has a primary source, as one is that does not say what it
/// is.
pub(crate) fn sources(schema: &mut Schema) {
    schema.insert("minItems".to_owned(), 1.into());
    schema.insert(
        "contains".to_owned(),
        json!({"properties": {"role": {"const": "primary"}}}),
    );
}

/// Says that a session to be made has a label, which the type would leave
/// empty.
pub(crate) fn new_session(schema: &mut Schema) {
    schema.insert("required".to_owned(), json!(["label"]));
    let label = schema
        .get_mut("properties")
        .and_then(|properties| properties.get_mut("label"))
        .and_then(Value::as_object_mut);
    if let Some(label) = label {
        label.remove("default");
    }
}
