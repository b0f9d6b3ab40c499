//! Writes schemas so that client generators understand them.
//!
//! The schemas that types produce are correct, but common generators of clients
//! read some of their forms wrongly:
//!
//! | In the schema | Generators | Here |
//! |---|---|---|
//! | `oneOf` of `const` | raise on every value but the first | one `enum` |
//! | `default` of an optional field | make the field required | a sentence in the description |
//! | alternatives without names | invent names such as `BlockType3` | a schema of their own, and a `discriminator` |
//! | conditions next to `properties` | lose the properties | conditions inside `allOf` |
//!
//! The values that a schema allows stay the same.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Schemas by name.
type Definitions = Map<String, Value>;

/// Rewrites all schemas of requests and of answers.
pub(super) fn rewrite(inputs: &mut Definitions, outputs: &mut Definitions) {
    for schema in inputs.values_mut().chain(outputs.values_mut()) {
        rewrite_schema(schema);
    }
    let names: BTreeSet<String> = inputs.keys().chain(outputs.keys()).cloned().collect();
    for definitions in [inputs, outputs] {
        name_titled(definitions);
        name_alternatives(definitions, &names);
        distinguish(definitions);
    }
}

/// Rewrites a schema and the schemas in it.
pub(super) fn rewrite_schema(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else {
        return;
    };
    list_values(map);
    wrap_conditions(map);
    if let Some(Value::Object(fields)) = map.get_mut("properties") {
        fields.values_mut().for_each(describe_default);
    }
    for (key, value) in map {
        match (key.as_str(), value) {
            ("properties" | "$defs" | "patternProperties", Value::Object(schemas)) => {
                schemas.values_mut().for_each(rewrite_schema);
            }
            ("oneOf" | "anyOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(rewrite_schema);
            }
            (
                "items"
                | "additionalProperties"
                | "contains"
                | "not"
                | "if"
                | "then"
                | "else"
                | "propertyNames",
                schema,
            ) => rewrite_schema(schema),
            _ => {}
        }
    }
}

/// Writes a choice of constant strings as `enum`. The descriptions of the values
/// go into `x-enum-descriptions`, in the same order.
fn list_values(schema: &mut Map<String, Value>) {
    for union in ["oneOf", "anyOf"] {
        let Some(choices) = schema.get(union).and_then(Value::as_array) else {
            continue;
        };
        let mut values = Vec::new();
        let mut descriptions = Vec::new();
        for choice in choices {
            let constants: Vec<&Value> = match (choice.get("const"), choice.get("enum")) {
                (Some(constant), None) => vec![constant],
                (None, Some(Value::Array(constants))) => constants.iter().collect(),
                _ => Vec::new(),
            };
            let about = choice.get("description").and_then(Value::as_str);
            if constants.is_empty() || !constants.iter().all(|constant| constant.is_string()) {
                values.clear();
                break;
            }
            for constant in constants {
                values.push(constant.clone());
                descriptions.push(about.unwrap_or_default().to_owned());
            }
        }
        if values.is_empty() {
            continue;
        }
        schema.remove(union);
        schema.insert("type".to_owned(), json!("string"));
        schema.insert("enum".to_owned(), Value::Array(values));
        if descriptions.iter().any(|about| !about.is_empty()) {
            schema.insert("x-enum-descriptions".to_owned(), json!(descriptions));
        }
    }
}

/// Moves a union next to `properties` into `allOf`. Such a union states which
/// fields exclude each other; the fields themselves are in `properties`. A union
/// of alternatives with fields of their own is written without `properties`: each
/// alternative gets the common fields.
fn wrap_conditions(schema: &mut Map<String, Value>) {
    if !schema.contains_key("properties") {
        return;
    }
    let choices = schema.get("oneOf").and_then(Value::as_array);
    if choices.is_some_and(|choices| tags(choices).is_some()) {
        return add_common_fields(schema);
    }
    for union in ["oneOf", "anyOf"] {
        if let Some(choices) = schema.remove(union) {
            let condition = json!({union: choices});
            match schema.get_mut("allOf").and_then(Value::as_array_mut) {
                Some(all) => all.push(condition),
                None => drop(schema.insert("allOf".to_owned(), json!([condition]))),
            }
        }
    }
}

fn add_common_fields(schema: &mut Map<String, Value>) {
    let common = schema.remove("properties");
    let required = schema.remove("required");
    schema.remove("type");
    let Some(Value::Array(choices)) = schema.get_mut("oneOf") else {
        return;
    };
    for choice in choices {
        for (name, common) in [("properties", &common), ("required", &required)] {
            match (common, choice.get_mut(name)) {
                (Some(Value::Object(common)), Some(Value::Object(own))) => {
                    own.extend(common.clone());
                }
                (Some(Value::Array(common)), Some(Value::Array(own))) => {
                    own.extend(common.iter().cloned());
                }
                (Some(common), None) => choice[name] = common.clone(),
                _ => {}
            }
        }
    }
}

/// Moves the default of a field into its description. Null, empty texts and
/// empty lists are what a missing field means anyway.
fn describe_default(field: &mut Value) {
    let Some(field) = field.as_object_mut() else {
        return;
    };
    let Some(default) = field.remove("default") else {
        return;
    };
    let is_empty = match &default {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    let about = field.get("description").and_then(Value::as_str);
    let about = about.unwrap_or_default();
    if !is_empty && !about.contains("Default") {
        let about = format!("{about} Default: `{default}`.");
        field.insert("description".to_owned(), json!(about.trim_start()));
    }
}

/// Gives each inline object with a title a schema of its own, of that name.
fn name_titled(definitions: &mut Definitions) {
    let mut added = Definitions::new();
    for schema in definitions.values_mut() {
        if let Some(parts) = schema.as_object_mut() {
            parts.values_mut().for_each(|part| lift(part, &mut added));
        }
    }
    for (name, schema) in added {
        definitions.entry(name).or_insert(schema);
    }
}

fn lift(schema: &mut Value, added: &mut Definitions) {
    match schema {
        Value::Object(map) => {
            map.values_mut().for_each(|part| lift(part, added));
            let title = map.get("title").and_then(Value::as_str).map(str::to_owned);
            let Some(title) = title.filter(|_| map.contains_key("properties")) else {
                return;
            };
            let reference = json!({"$ref": format!("#/components/schemas/{title}")});
            let mut named = std::mem::replace(schema, reference);
            if let Some(named) = named.as_object_mut() {
                named.remove("title");
            }
            added.insert(title, named);
        }
        Value::Array(list) => list.iter_mut().for_each(|part| lift(part, added)),
        _ => {}
    }
}

/// Gives each alternative of a union that a field with a constant distinguishes
/// a schema of its own, such as `TextBlock` for `{"type": "text"}` of `Block`.
fn name_alternatives(definitions: &mut Definitions, taken: &BTreeSet<String>) {
    let mut added = Definitions::new();
    for (name, schema) in &mut *definitions {
        let Some(Value::Array(choices)) = schema.get_mut("oneOf") else {
            continue;
        };
        let Some(tags) = tags(choices) else {
            continue;
        };
        let names: Vec<String> = tags.iter().map(|tag| joined(&pascal(tag), name)).collect();
        let names = match free(&names, taken) {
            true => names,
            false => tags
                .iter()
                .map(|tag| format!("{name}{}", pascal(tag)))
                .collect(),
        };
        if !free(&names, taken) {
            continue;
        }
        for (choice, name) in choices.iter_mut().zip(names) {
            let reference = json!({"$ref": format!("#/components/schemas/{name}")});
            added.insert(name, std::mem::replace(choice, reference));
        }
    }
    definitions.extend(added);
}

fn free(names: &[String], taken: &BTreeSet<String>) -> bool {
    let own: BTreeSet<&String> = names.iter().collect();
    own.len() == names.len() && names.iter().all(|name| !taken.contains(name))
}

/// Returns the constants of the field that distinguishes inline alternatives.
fn tags(choices: &[Value]) -> Option<Vec<String>> {
    let first = choices.first()?["properties"].as_object()?;
    first.keys().find_map(|field| {
        let tag = |choice: &Value| {
            let constant = choice["properties"][field]["const"].as_str()?;
            is_required(choice, field).then(|| constant.to_owned())
        };
        choices.iter().map(tag).collect()
    })
}

/// Adds a `discriminator` to unions of named schemas that a field with different
/// constants distinguishes.
fn distinguish(definitions: &mut Definitions) {
    let found: Vec<(String, Value)> = definitions
        .iter()
        .filter_map(|(name, schema)| Some((name.clone(), discriminator(definitions, schema)?)))
        .collect();
    for (name, discriminator) in found {
        let Some(schema) = definitions.get_mut(&name).and_then(Value::as_object_mut) else {
            continue;
        };
        // The constants differ, so that never two alternatives match.
        if let Some(choices) = schema.remove("anyOf") {
            schema.insert("oneOf".to_owned(), choices);
        }
        schema.insert("discriminator".to_owned(), discriminator);
    }
}

fn discriminator(definitions: &Definitions, schema: &Value) -> Option<Value> {
    let union = schema.get("oneOf").or_else(|| schema.get("anyOf"))?;
    let union = union.as_array().filter(|union| union.len() > 1)?;
    let mut choices = Vec::new();
    for choice in union {
        let reference = choice["$ref"].as_str()?;
        choices.push((reference, definitions.get(last(reference))?));
    }
    let (_, first) = choices.first()?;
    first["properties"].as_object()?.keys().find_map(|field| {
        let mut mapping = Map::new();
        for (reference, choice) in &choices {
            if !is_required(choice, field) {
                return None;
            }
            for value in constants(definitions, &choice["properties"][field])? {
                if mapping.insert(value, json!(reference)).is_some() {
                    return None;
                }
            }
        }
        Some(json!({"propertyName": field, "mapping": mapping}))
    })
}

/// Returns the strings that a schema allows, if it allows no other values.
fn constants(definitions: &Definitions, schema: &Value) -> Option<Vec<String>> {
    if let Some(reference) = schema["$ref"].as_str() {
        return constants(definitions, definitions.get(last(reference))?);
    }
    if let Some(constant) = schema["const"].as_str() {
        return Some(vec![constant.to_owned()]);
    }
    let values = schema["enum"].as_array()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    values.iter().map(text).collect()
}

fn is_required(schema: &Value, field: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|names| names.iter().any(|name| name == field))
}

/// Returns the name of a schema from a reference to it.
fn last(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or_default()
}

/// Returns `tool_call` as `ToolCall`.
fn pascal(tag: &str) -> String {
    let words = tag.split(|c: char| !c.is_ascii_alphanumeric());
    words
        .filter_map(|word| {
            let mut letters = word.chars();
            let first = letters.next()?.to_ascii_uppercase();
            Some(format!("{first}{}", letters.as_str()))
        })
        .collect()
}

/// Joins two names. Words that end the first and begin the second occur once:
/// `AddToWorkingSet` and `WorkingSetAction` become `AddToWorkingSetAction`.
fn joined(first: &str, second: &str) -> String {
    let starts = second.char_indices().skip(1).map(|(at, _)| at);
    let ends = starts.filter(|at| second[*at..].starts_with(|c: char| c.is_ascii_uppercase()));
    let shared = ends.filter(|at| first.ends_with(&second[..*at])).max();
    format!("{first}{}", &second[shared.unwrap_or_default()..])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn rewritten(mut schemas: Value) -> Value {
        let inputs = schemas.as_object_mut().unwrap();
        rewrite(inputs, &mut Definitions::new());
        schemas
    }

    #[test]
    fn a_choice_of_constants_is_an_enum() {
        let schemas = json!({"Cut": {"oneOf": [
            {"type": "string", "const": "start", "description": "The beginning."},
            {"type": "string", "enum": ["end", "never"]},
        ]}});
        assert_eq!(
            rewritten(schemas),
            json!({"Cut": {
                "type": "string",
                "enum": ["start", "end", "never"],
                "x-enum-descriptions": ["The beginning.", "", ""],
            }})
        );
    }

    #[test]
    fn a_default_is_described() {
        let schemas = json!({"Call": {"properties": {
            "a": {"type": ["string", "null"], "default": null},
            "b": {"type": "boolean", "description": "Whether.", "default": true},
            "c": {"type": "integer", "description": "A number. Default: 5.", "default": 5},
            "default": {"type": "string", "const": "default"},
        }}});
        assert_eq!(
            rewritten(schemas),
            json!({"Call": {"properties": {
                "a": {"type": ["string", "null"]},
                "b": {"type": "boolean", "description": "Whether. Default: `true`."},
                "c": {"type": "integer", "description": "A number. Default: 5."},
                "default": {"type": "string", "const": "default"},
            }}})
        );
    }

    #[test]
    fn alternatives_have_names_and_a_discriminator() {
        let alternative = |tag: &str| {
            json!({
                "type": "object",
                "properties": {"type": {"type": "string", "const": tag}},
                "required": ["type"],
            })
        };
        let schemas = json!({
            "Block": {"oneOf": [alternative("text"), alternative("tool_call")]},
        });
        assert_eq!(
            rewritten(schemas),
            json!({
                "Block": {
                    "oneOf": [
                        {"$ref": "#/components/schemas/TextBlock"},
                        {"$ref": "#/components/schemas/ToolCallBlock"},
                    ],
                    "discriminator": {"propertyName": "type", "mapping": {
                        "text": "#/components/schemas/TextBlock",
                        "tool_call": "#/components/schemas/ToolCallBlock",
                    }},
                },
                "TextBlock": alternative("text"),
                "ToolCallBlock": alternative("tool_call"),
            })
        );
    }

    #[test]
    fn an_alternative_gets_no_name_that_is_in_use() {
        let alternative = |tag: &str| {
            json!({
                "properties": {"kind": {"const": tag}},
                "required": ["kind"],
            })
        };
        let schemas = rewritten(json!({
            "Record": {"oneOf": [alternative("task"), alternative("event")]},
            "TaskRecord": {"type": "object"},
        }));
        let names: Vec<&String> = schemas.as_object().unwrap().keys().collect();
        assert_eq!(names, ["Record", "TaskRecord", "RecordTask", "RecordEvent"]);
    }

    #[test]
    fn conditions_leave_the_fields_alone() {
        let condition = json!([{"required": ["data"]}, {"required": ["url"]}]);
        let fields = json!({"data": {"type": "string"}, "url": {"type": "string"}});
        assert_eq!(
            rewritten(json!({"Image": {"properties": fields, "oneOf": condition}})),
            json!({"Image": {"properties": fields, "allOf": [{"oneOf": condition}]}})
        );
    }

    #[test]
    fn common_fields_belong_to_each_alternative() {
        let tag = |tag: &str| json!({"const": tag});
        let text = json!({"type": "string"});
        let schemas = json!({"Act": {
            "type": "object",
            "properties": {"why": text},
            "required": ["why"],
            "oneOf": [
                {"properties": {"do": tag("add"), "path": text}, "required": ["do", "path"]},
                {"properties": {"do": tag("stop")}, "required": ["do"]},
            ],
        }});
        let schemas = rewritten(schemas);
        assert_eq!(
            schemas["AddAct"],
            json!({
                "properties": {"do": tag("add"), "path": text, "why": text},
                "required": ["do", "path", "why"],
            })
        );
        assert_eq!(
            schemas["StopAct"],
            json!({"properties": {"do": tag("stop"), "why": text}, "required": ["do", "why"]})
        );
        assert!(schemas["Act"].get("properties").is_none());
    }

    #[test]
    fn an_inline_object_with_a_title_is_named_by_it() {
        let layer = json!({"type": "object", "properties": {"layer": {"type": "string"}}});
        let mut titled = layer.clone();
        titled["title"] = json!("Layer");
        let schemas = rewritten(json!({"Layers": {"type": "array", "items": titled}}));
        let named = json!({"$ref": "#/components/schemas/Layer"});
        assert_eq!(
            schemas,
            json!({"Layers": {"type": "array", "items": named}, "Layer": layer})
        );
    }

    #[test]
    fn shared_words_occur_once() {
        assert_eq!(
            joined("AddToWorkingSet", "WorkingSetAction"),
            "AddToWorkingSetAction"
        );
        assert_eq!(joined("Text", "Block"), "TextBlock");
    }
}
