//! Additions to the JSON Schemas of strategies that their types cannot express.

use schemars::Schema;
use serde_json::{Value, json};

/// Fields that are known by two names.
const NAMES: [(&str, &str); 2] = [
    ("salience_weight", "salient_weight"),
    ("budget", "budget_allocation"),
];

/// Says that some fields may be written by another name, but not by both.
pub(crate) fn other_names(schema: &mut Schema) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (name, other) in NAMES {
        if let Some(mut property) = properties.get(name).cloned() {
            property["description"] = format!("Another name for `{name}`.").into();
            property["deprecated"] = true.into();
            properties.insert(other.to_owned(), property);
        }
    }
    let both = NAMES.map(|(name, other)| json!({"not": {"required": [name, other]}}));
    schema.insert("allOf".to_owned(), json!(both));
}

/// Says that some part of a budget is more than nothing.
pub(crate) fn something(schema: &mut Schema) {
    let parts = ["recent", "semantic", "entities", "relations", "patterns"];
    let some = parts
        .map(|part| json!({"required": [part], "properties": {part: {"exclusiveMinimum": 0}}}));
    schema.insert("anyOf".to_owned(), json!(some));
}
