//! JSON Schemas of the API's types, generated from the types themselves.
//!
//! [`input`] makes the schemas of requests, [`output`] those of responses.

use contexture_core::stands_for;
use schemars::{Schema, json_schema};
use serde_json::{Value, json};

pub use contexture_core::schema::*;
pub use contexture_store::schema::{Label, Name, Time};

stands_for! {
    /// A path below the root.
    RelativePath, |_generator| json_schema!({
        "type": "string",
        "minLength": 1,
        "pattern": r"^[^/\u0000][^\u0000]*$",
        "not": {"pattern": r"(^|/)\.\.(/|#|$)"},
    })
}

stands_for! {
    /// A tool that the model may call.
    Tool, |_generator| json_schema!({
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    })
}

/// Adds the rule that an event has a text or an attachment.
pub fn event(schema: &mut Schema) {
    schema.insert(
        "anyOf".to_owned(),
        json!([
            {"properties": {"content": {"pattern": NOT_WHITE}}},
            {"properties": {"attachments": {"minItems": 1}}, "required": ["attachments"]},
        ]),
    );
}

/// Adds the rule that an attachment has exactly one kind of content, with the
/// fields that belong to it.
pub fn attachment(schema: &mut Schema) {
    let ways = ["path", "content", "data", "url"];
    let only = |way: &str, more: &[&str]| -> Value {
        let others = ways.iter().filter(|other| **other != way);
        let mut properties: serde_json::Map<String, Value> = others
            .map(|other| ((*other).to_owned(), json!({"type": "null"})))
            .collect();
        let given = more.iter().chain([&way]);
        properties.extend(given.map(|one| ((*one).to_owned(), json!({"type": "string"}))));
        let lines = match way {
            "path" => json!({"items": {"minimum": 1}}),
            _ => json!({"type": "null"}),
        };
        properties.insert("lines".to_owned(), lines);
        let required: Vec<&str> = [way].iter().chain(more).copied().collect();
        json!({"required": required, "properties": properties})
    };
    schema.insert(
        "oneOf".to_owned(),
        json!([
            only("path", &[]),
            only("content", &[]),
            only("data", &["media_type"]),
            only("url", &["media_type"]),
        ]),
    );
}

/// Adds the rule that a request sets a budget, which the type would leave at 0.
pub fn needs_max_tokens(schema: &mut Schema) {
    match schema.get_mut("required").and_then(Value::as_array_mut) {
        Some(required) if required.iter().any(|name| name == "max_tokens") => {}
        Some(required) => required.push("max_tokens".into()),
        None => drop(schema.insert("required".to_owned(), json!(["max_tokens"]))),
    }
    let budget = schema
        .get_mut("properties")
        .and_then(|properties| properties.get_mut("max_tokens"))
        .and_then(Value::as_object_mut);
    if let Some(budget) = budget {
        budget.remove("default");
    }
}

/// Adds the rule that a source is either an existing node or a new one.
pub fn material(schema: &mut Schema) {
    let this = |one: &str, other: &str| -> Value {
        json!({
            "required": [one],
            "properties": {one: {"not": {"type": "null"}}, other: {"type": "null"}},
        })
    };
    schema.insert(
        "oneOf".to_owned(),
        json!([this("node_id", "content"), this("content", "node_id")]),
    );
}
