//! Whether what was sent has the shape that the document describes.
//!
//! Readers made from types are more lenient than the document: they take a list
//! of an object's values for the object, and say in their own words what is
//! wrong. This looks at names, kinds of values, lengths of lists and ranges of
//! numbers; what else a value may be is checked by whoever reads it.

use serde_json::{Map, Value};

/// Where a value does not have the shape that is described, and what is wrong
/// there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Misshapen {
    pub(crate) path: String,
    pub(crate) message: String,
    // Whether it is something else altogether: of another kind, or with another
    // word where kinds are told apart by one.
    is_other: bool,
}

/// Schemas by name.
pub(crate) type Definitions = Map<String, Value>;

/// Looks whether `value` has the shape that `schema` describes.
pub(crate) fn check(
    definitions: &Definitions,
    schema: &Value,
    value: &Value,
) -> Result<(), Misshapen> {
    let Some(schema) = schema.as_object() else {
        return Ok(());
    };
    if let Some(Value::String(to)) = schema.get("$ref") {
        let name = to.rsplit('/').next().unwrap_or_default();
        if let Some(schema) = definitions.get(name) {
            check(definitions, schema, value)?;
        }
    }
    if let Some(Value::Array(all)) = schema.get("allOf") {
        for one in all {
            check(definitions, one, value)?;
        }
    }
    if let Some(kinds) = schema.get("type")
        && !is_one_of(kinds, value)
    {
        return Err(Misshapen {
            is_other: true,
            ..Misshapen::here(format!("expected {}", named(kinds)))
        });
    }
    if let Some(only) = schema.get("const")
        && only != value
    {
        return Err(Misshapen {
            is_other: true,
            ..Misshapen::here(format!("expected {only}"))
        });
    }
    if let Some(Value::Array(known)) = schema.get("enum")
        && !known.contains(value)
    {
        let known: Vec<String> = known.iter().map(Value::to_string).collect();
        return Err(Misshapen {
            is_other: true,
            ..Misshapen::here(format!("expected {}", known.join(" or ")))
        });
    }
    for (bound, word) in [("minimum", "at least"), ("maximum", "at most")] {
        let Some(limit) = schema.get(bound) else {
            continue;
        };
        let beyond = match bound {
            "minimum" => is_less(value, limit),
            _ => is_less(limit, value),
        };
        if beyond {
            return Err(Misshapen::here(format!(
                "expected a number of {word} {limit}"
            )));
        }
    }
    match value {
        Value::Object(fields) => {
            check_fields(definitions, schema, fields)?;
        }
        Value::Array(items) => {
            let limit = |name: &str| schema.get(name).and_then(Value::as_u64);
            let count = items.len() as u64;
            for (name, is_wrong, word) in [
                (
                    "minItems",
                    limit("minItems").is_some_and(|least| count < least),
                    "at least",
                ),
                (
                    "maxItems",
                    limit("maxItems").is_some_and(|most| count > most),
                    "at most",
                ),
            ] {
                if is_wrong {
                    let many = limit(name).unwrap_or_default();
                    return Err(Misshapen::here(format!("expected a list of {word} {many}")));
                }
            }
            if let Some(schema) = schema.get("items") {
                for (i, item) in items.iter().enumerate() {
                    let inside = |wrong: Misshapen| wrong.inside(&format!("[{i}]"));
                    check(definitions, schema, item).map_err(inside)?;
                }
            }
        }
        _ => {}
    }
    // Last: the word that tells kinds apart was looked at before.
    for choices in ["anyOf", "oneOf"] {
        let Some(Value::Array(choices)) = schema.get(choices) else {
            continue;
        };
        let mut wrong = Vec::new();
        for choice in choices {
            match check(definitions, choice, value) {
                Ok(()) => {
                    wrong.clear();
                    break;
                }
                Err(misshapen) => wrong.push(misshapen),
            }
        }
        if let Some(nearest) = nearest(wrong) {
            return Err(nearest);
        }
    }
    Ok(())
}

fn check_fields(
    definitions: &Definitions,
    schema: &Map<String, Value>,
    fields: &Map<String, Value>,
) -> Result<(), Misshapen> {
    let described = schema.get("properties").and_then(Value::as_object);
    let of = |name: &str| described.and_then(|described| described.get(name));
    let inside = |name: &str, schema: &Value, field: &Value| {
        check(definitions, schema, field).map_err(|wrong| wrong.inside(name))
    };
    // The word that tells kinds apart comes first: what else is wrong with
    // another kind does not matter.
    let tells = |name: &str, schema: &Value| {
        let is_tag = matches!(name, "type" | "kind" | "action");
        schema.get("const").is_some() || is_tag && schema.get("enum").is_some()
    };
    for (name, field) in fields {
        if let Some(schema) = of(name).filter(|schema| tells(name, schema)) {
            let other = |wrong: Misshapen| Misshapen {
                is_other: true,
                ..wrong
            };
            inside(name, schema, field).map_err(other)?;
        }
    }
    for (name, field) in fields {
        match (of(name), schema.get("additionalProperties")) {
            (Some(schema), _) => inside(name, schema, field)?,
            (None, Some(Value::Bool(false))) => return Err(unknown(name, described)),
            (None, Some(schema)) => inside(name, schema, field)?,
            (None, None) => {}
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    match required.find(|name| !fields.contains_key(*name)) {
        Some(missing) => Err(Misshapen::here("is missing").inside(missing)),
        None => Ok(()),
    }
}

/// The most names that are told of where another one was expected.
const MOST_NAMES: usize = 12;

fn unknown(name: &str, described: Option<&Map<String, Value>>) -> Misshapen {
    let known: Vec<&str> = described
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let message = match known.len() {
        0 => "is not known here: nothing is expected".to_owned(),
        1..=MOST_NAMES => format!("is not known here (known are {})", known.join(", ")),
        _ => "is not known here; the document lists what is".to_owned(),
    };
    Misshapen::here(message).inside(&name[..name.floor_char_boundary(LONGEST_NAME)])
}

/// The longest name that is told whole.
const LONGEST_NAME: usize = 60;

/// Returns what is wrong with the choice that was most probably meant: one of the
/// right kind, and there what goes wrong furthest inside.
fn nearest(wrong: Vec<Misshapen>) -> Option<Misshapen> {
    let depth = |wrong: &Misshapen| wrong.path.matches(['.', '[']).count();
    let deepest = wrong.iter().filter(|wrong| !wrong.is_other).rev();
    if let Some(meant) = deepest.max_by_key(|wrong| depth(wrong)) {
        return Some(meant.clone());
    }
    // All are of another kind: each says which.
    let first = wrong.first()?;
    let mut expected: Vec<&str> = Vec::new();
    for wrong in wrong.iter().filter(|wrong| wrong.path == first.path) {
        let what = wrong.message.trim_start_matches("expected ");
        if !expected.contains(&what) {
            expected.push(what);
        }
    }
    Some(Misshapen {
        message: format!("expected {}", expected.join(" or ")),
        ..first.clone()
    })
}

/// Returns true when both are numbers and `a` is less.
fn is_less(a: &Value, b: &Value) -> bool {
    let whole = |value: &Value| {
        let signed = value.as_i64().map(i128::from);
        signed.or_else(|| value.as_u64().map(i128::from))
    };
    match (whole(a), whole(b)) {
        // Large ones would be the same when they are rounded.
        (Some(a), Some(b)) => a < b,
        _ => matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if a < b),
    }
}

/// Returns a whole number as such.
fn whole(number: f64) -> Option<Value> {
    // Two to the power of 63 and of 64: the first that are too large.
    const SIGNED: f64 = 9_223_372_036_854_775_808.0;
    const UNSIGNED: f64 = 18_446_744_073_709_551_616.0;
    match number {
        number if number.fract() != 0.0 => None,
        number if (-SIGNED..SIGNED).contains(&number) => Some(Value::from(number as i64)),
        number if (SIGNED..UNSIGNED).contains(&number) => Some(Value::from(number as u64)),
        _ => None,
    }
}

/// Writes numbers such as 5.0 as 5 where whole ones are described. Returns true
/// when there were any.
pub(crate) fn write_whole(definitions: &Definitions, schema: &Value, value: &mut Value) -> bool {
    let Some(schema) = schema.as_object() else {
        return false;
    };
    let mut found = false;
    if let Some(Value::String(to)) = schema.get("$ref") {
        let name = to.rsplit('/').next().unwrap_or_default();
        if let Some(schema) = definitions.get(name) {
            found |= write_whole(definitions, schema, value);
        }
    }
    for choices in ["anyOf", "oneOf", "allOf"] {
        let Some(Value::Array(choices)) = schema.get(choices) else {
            continue;
        };
        for choice in choices {
            if check(definitions, choice, value).is_ok() {
                found |= write_whole(definitions, choice, value);
            }
        }
    }
    let takes = |kind: &str| match schema.get("type") {
        Some(Value::String(known)) => known == kind,
        Some(Value::Array(known)) => known.iter().any(|known| known == kind),
        _ => false,
    };
    match value {
        Value::Number(number) if takes("integer") && !takes("number") => {
            if let Some(whole) = number.as_f64().filter(|_| number.is_f64()).and_then(whole) {
                *value = whole;
                found = true;
            }
        }
        Value::Object(fields) => {
            let described = schema.get("properties").and_then(Value::as_object);
            for (name, field) in fields {
                let schema = described
                    .and_then(|described| described.get(name))
                    .or_else(|| schema.get("additionalProperties"));
                if let Some(schema) = schema {
                    found |= write_whole(definitions, schema, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    found |= write_whole(definitions, schema, item);
                }
            }
        }
        _ => {}
    }
    found
}

impl Misshapen {
    fn here(message: impl Into<String>) -> Self {
        Self {
            path: String::new(),
            message: message.into(),
            is_other: false,
        }
    }

    fn inside(self, outer: &str) -> Self {
        let path = match self.path.as_str() {
            "" => outer.to_owned(),
            path if path.starts_with('[') => format!("{outer}{path}"),
            path => format!("{outer}.{path}"),
        };
        Self {
            path,
            is_other: false,
            ..self
        }
    }
}

fn is_one_of(kinds: &Value, value: &Value) -> bool {
    match kinds {
        Value::String(kind) => is(kind, value),
        Value::Array(kinds) => kinds.iter().any(|kind| is_one_of(kind, value)),
        _ => true,
    }
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

fn named(kinds: &Value) -> String {
    let name = |kind: &Value| match kind.as_str().unwrap_or_default() {
        "null" => "null",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a text",
        "array" => "a list",
        _ => "an object",
    };
    match kinds {
        Value::Array(kinds) => kinds.iter().map(name).collect::<Vec<_>>().join(" or "),
        kind => name(kind).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(value: Value) -> Option<(String, String)> {
        let Value::Object(definitions) = json!({
            "Message": {
                "type": "object",
                "properties": {
                    "content": {"anyOf": [
                        {"type": "string"},
                        {"type": "array", "items": {"$ref": "#/components/schemas/Block"}},
                    ]},
                    "tokens": {"type": ["integer", "null"]},
                    "lines": {"type": "array", "minItems": 1, "maxItems": 2},
                    "count": {"type": "integer", "minimum": 1, "maximum": i64::MAX},
                },
            },
            "Block": {"oneOf": [{"type": "object", "properties": {"text": {"type": "string"}}}]},
        }) else {
            return None;
        };
        let schema = json!({"$ref": "#/components/schemas/Message"});
        let wrong = check(&definitions, &schema, &value).err()?;
        Some((wrong.path, wrong.message))
    }

    #[test]
    fn a_list_is_no_object() {
        let said = |path: &str, what: &str| Some((path.to_owned(), format!("expected {what}")));
        assert_eq!(
            wrong(json!({"content": "x", "tokens": 3, "other": []})),
            None
        );
        assert_eq!(
            wrong(json!({"content": [{"text": "x"}], "tokens": null})),
            None
        );
        assert_eq!(wrong(json!(["x", 3])), said("", "an object"));
        assert_eq!(
            wrong(json!({"lines": []})),
            said("lines", "a list of at least 1")
        );
        assert_eq!(wrong(json!({"lines": [1, 2]})), None);
        assert_eq!(wrong(json!({"count": i64::MAX})), None);
        assert_eq!(
            wrong(json!({"count": 0})),
            said("count", "a number of at least 1")
        );
        assert_eq!(
            wrong(json!({"count": i64::MAX as u64 + 1})),
            said("count", "a number of at most 9223372036854775807")
        );
        assert_eq!(
            wrong(json!({"lines": [1, 2, 3]})),
            said("lines", "a list of at most 2")
        );
        assert_eq!(
            wrong(json!({"content": [["x"]]})),
            said("content[0]", "an object")
        );
        assert_eq!(
            wrong(json!({"content": [{"text": 1}]})),
            said("content[0].text", "a text")
        );
        assert_eq!(
            wrong(json!({"tokens": 1.5})),
            said("tokens", "a whole number or null")
        );
    }
    #[test]
    fn names_are_told_with_their_place() {
        let Value::Object(definitions) = json!({
            "Pin": {
                "type": "object",
                "properties": {"action": {"const": "pin"}, "what": {"type": "string"}},
                "required": ["action", "what"],
                "additionalProperties": false,
            },
            "Stash": {
                "type": "object",
                "properties": {"action": {"const": "stash"}, "name": {"type": "string"}},
                "required": ["action", "name"],
                "additionalProperties": false,
            },
        }) else {
            return;
        };
        let schema = json!({"type": "object", "properties": {"changes": {
            "type": "array",
            "items": {"oneOf": [
                {"$ref": "#/components/schemas/Pin"},
                {"$ref": "#/components/schemas/Stash"},
            ]},
        }}});
        let wrong = |change: Value| {
            let wrong = check(&definitions, &schema, &json!({"changes": [change]}));
            wrong
                .map_err(|wrong| format!("{}: {}", wrong.path, wrong.message))
                .unwrap_err()
        };
        assert_eq!(
            wrong(json!({"action": "stash"})),
            "changes[0].name: is missing"
        );
        assert_eq!(
            wrong(json!({"action": "pin", "what": "x", "name": "y"})),
            "changes[0].name: is not known here (known are action, what)"
        );
        assert_eq!(
            wrong(json!({"action": "drop"})),
            "changes[0].action: expected \"pin\" or \"stash\""
        );
        assert_eq!(wrong(json!([])), "changes[0]: expected an object");
        assert_eq!(
            wrong(json!({"action": "pin", "what": 1})),
            "changes[0].what: expected a text"
        );
    }
}
