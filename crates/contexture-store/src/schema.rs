//! Additions to the JSON Schemas of stored types that their types cannot
//! express.

use std::borrow::Cow;

use contexture_core::message::MessageContent;
use contexture_core::schema::message::{MEDIA_AND_TEXT, either};
use contexture_core::schema::{NOT_WHITE, hexadecimal};
use contexture_core::stands_for;
use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::id::TurnId;
use crate::memory::MAX_ID_BYTES;
use crate::session::MAX_LABEL_BYTES;
use crate::turn::{ParentTurn, StopReason};

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
    /// An optional id.
    NameOrEmpty, |_generator| name(&format!("^$|{NAME}"), MAX_ID_BYTES)
}

stands_for! {
    /// The optional id of a relation. It can contain three names.
    LongNameOrEmpty, |_generator| name(&format!("^$|{NAME}"), 4 * MAX_ID_BYTES)
}

fn name(pattern: &str, longest: usize) -> Schema {
    json_schema!({"type": "string", "maxLength": longest, "pattern": pattern})
}

stands_for! {
    /// An optional time: RFC 3339, or Unix milliseconds.
    Time, |generator| {
        if generator.contract().is_serialize() {
            return json_schema!({"type": ["string", "null"], "format": "date-time"});
        }
        json_schema!({
            "type": ["string", "integer", "null"],
            "format": "date-time",
            "minimum": Timestamp::MIN.as_millisecond(),
            // Fractions of the last second are not valid times.
            "maximum": Timestamp::MAX.as_second() * 1000,
        })
    }
}

stands_for! {
    /// Anything but null.
    NotNull, |_generator| json_schema!({
        "type": ["string", "object", "array", "number", "boolean"],
        // An object with any fields. This is explicit, because some generators
        // read an object without fields as an empty one.
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
    /// The content of a node: text and media.
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
    /// The sampling parameters of an agent. A store accepts any parameters;
    /// these are the ones in use.
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

impl JsonSchema for StopReason {
    fn schema_name() -> Cow<'static, str> {
        "StopReason".into()
    }

    fn schema_id() -> Cow<'static, str> {
        concat!(module_path!(), "::StopReason").into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let accepted = match generator.contract().is_serialize() {
            true => "",
            false => {
                " The words of providers for the first three, such as `stop`, `length` and \
                      `tool_calls`, are accepted, too."
            }
        };
        json_schema!({
            "description": format!(
                "The reason why a model stopped: `end_turn`, `max_tokens`, `tool_use`, `timeout`, \
                 `aborted`, `error`, or another word as the provider wrote it, such as \
                 `refusal`.{accepted}"
            ),
            "type": "string",
            "minLength": 1,
            "maxLength": StopReason::MAX_BYTES,
            "pattern": NOT_WHITE,
            "examples": ["end_turn", "tool_use", "refusal"],
        })
    }
}

impl JsonSchema for ParentTurn {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ParentTurn".into()
    }

    fn schema_id() -> Cow<'static, str> {
        concat!(module_path!(), "::ParentTurn").into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Option<TurnId>>()
    }
}

/// A compaction is a turn without messages.
pub(crate) fn recorded(schema: &mut Schema) {
    if let Some(messages) = schema.pointer_mut("/properties/messages")
        && let Some(messages) = messages.as_object_mut()
    {
        messages.remove("minItems");
    }
}

/// Adds the rule that a turn has a message with content.
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

/// Adds the rule that a pin is either a node or a text.
pub(crate) fn pin(schema: &mut Schema) {
    either(schema, "node_id", "text");
}

/// Adds the rule that an edge has a primary source. A source without a role is
/// primary.
pub(crate) fn sources(schema: &mut Schema) {
    schema.insert("minItems".to_owned(), 1.into());
    schema.insert(
        "contains".to_owned(),
        json!({"properties": {"role": {"const": "primary"}}}),
    );
}

/// Adds the rule that a new session has a label, which the type would leave
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
