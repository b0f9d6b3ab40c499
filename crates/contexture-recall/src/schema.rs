//! Additions to the JSON Schemas of strategies that their types cannot express.

use schemars::Schema;
use serde_json::{Value, json};

/// Fields with two names.
const NAMES: [(&str, &str); 2] = [
    ("salience_weight", "salient_weight"),
    ("budget", "budget_allocation"),
];

/// Adds the rule that some fields have a second name, and that only one of both
/// may be given.
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

/// Adds the rule that at least one share of a budget is above 0.
pub(crate) fn something(schema: &mut Schema) {
    let parts = ["recent", "semantic", "entities", "relations", "patterns"];
    let some = parts
        .map(|part| json!({"required": [part], "properties": {part: {"exclusiveMinimum": 0}}}));
    schema.insert("anyOf".to_owned(), json!(some));
}
