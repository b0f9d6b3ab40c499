//! The OpenAPI document, made from the operations.

use std::collections::BTreeMap;

use schemars::Schema;
use serde_json::{Map, Value, json};

use crate::operation::{Api, Gives, Operation};
use crate::problem::ErrorAnswer;
use crate::schema::Schemas;

/// What the examples are answered with, as a test has seen it.
const ANSWERS: &str = include_str!("../assets/answers.json");

/// Returns the document.
pub(crate) fn document(api: &Api, bodies: &Schemas) -> Value {
    let mut inputs = api.inputs.clone();
    let mut outputs = api.outputs.clone();
    let error = outputs.subschema_for::<ErrorAnswer>();
    let (inputs, mut outputs) = (
        inputs.take_definitions(true),
        outputs.take_definitions(true),
    );
    // A type may be given in another form than it is taken: what has a default
    // need not be sent, and is always there in an answer.
    let renamed: Vec<String> = outputs
        .iter()
        .filter(|(name, schema)| inputs.get(*name).is_some_and(|taken| taken != *schema))
        .map(|(name, _)| name.clone())
        .collect();
    // What refers to a renamed one differs from what is taken, too. What is only
    // given keeps its name.
    let renamed = with_users(&outputs, &inputs, renamed);
    for name in &renamed {
        if let Some(schema) = outputs.remove(name) {
            outputs.insert(given(name), schema);
        }
    }
    for schema in outputs.values_mut() {
        rename(schema, &renamed);
    }
    let mut schemas: BTreeMap<String, Value> = inputs.into_iter().collect();
    schemas.extend(outputs);
    schemas.values_mut().for_each(name_objects);
    schemas.insert(ANY_OBJECT.to_owned(), any_object());
    let answers: Map<String, Value> = serde_json::from_str(ANSWERS).unwrap_or_default();

    let mut paths: Map<String, Value> = Map::new();
    for operation in &api.operations {
        let answer = answers.get(operation.id);
        let mut described = describe(operation, bodies, &error, answer);
        if let Some(responses) = described.get_mut("responses") {
            rename(responses, &renamed);
        }
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.as_str().to_ascii_lowercase()] = described;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Contexture",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Decides what a language model sees",
            "description": "You say where things are and how many tokens may be spent; it \
                returns the request to send, and a report that accounts for every candidate. \
                Errors have one form: a stable code, a message, the field that is wrong, and what \
                to do about it. 400 is what this document does not allow; 422 is what it cannot \
                tell, such as a turn that answers a call nobody made.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {
                "type": "http",
                "scheme": "bearer",
                "description": "A key from `contexture key new`. A server on a loopback address \
                    that has no keys needs none.",
            }},
        },
    })
}

fn given(name: &str) -> String {
    format!("{name}Output")
}

/// The name of the schema of an object with any fields.
const ANY_OBJECT: &str = "JsonObject";

fn any_object() -> Value {
    json!({
        "description": "An object with any fields.",
        "type": "object",
        "additionalProperties": true,
    })
}

/// Gives objects with any fields a name, wherever they stand: some generators
/// make one type of each, all of the same name, and then leave out whatever
/// refers to them.
fn name_objects(schema: &mut Value) {
    let reference = json!(format!("#/components/schemas/{ANY_OBJECT}"));
    match schema {
        Value::Object(map) => {
            let is_open = map.get("additionalProperties") == Some(&Value::Bool(true))
                && !map.contains_key("properties");
            match map.get("type").cloned() {
                Some(Value::String(kind)) if is_open && kind == "object" => {
                    map.remove("type");
                    map.remove("additionalProperties");
                    map.insert("$ref".to_owned(), reference);
                }
                Some(Value::Array(kinds)) if is_open => {
                    let choice = |kind: &Value| match kind.as_str() {
                        Some("object") => json!({"$ref": reference}),
                        Some("array") => json!({"type": "array", "items": {}}),
                        _ => json!({"type": kind}),
                    };
                    let choices = kinds.iter().map(choice).collect();
                    map.remove("type");
                    map.remove("additionalProperties");
                    map.insert("anyOf".to_owned(), choices);
                }
                _ => {}
            }
            map.values_mut().for_each(name_objects);
        }
        Value::Array(list) => list.iter_mut().for_each(name_objects),
        _ => {}
    }
}

/// Returns the names and those of all schemas that refer to them and are taken,
/// too.
fn with_users(
    schemas: &Map<String, Value>,
    taken: &Map<String, Value>,
    mut names: Vec<String>,
) -> Vec<String> {
    loop {
        let more: Vec<String> = schemas
            .iter()
            .filter(|(name, schema)| {
                taken.contains_key(*name) && !names.contains(name) && refers(schema, &names)
            })
            .map(|(name, _)| name.clone())
            .collect();
        if more.is_empty() {
            return names;
        }
        names.extend(more);
    }
}

fn refers(schema: &Value, names: &[String]) -> bool {
    match schema {
        Value::Object(map) => map.iter().any(|(key, value)| match value {
            Value::String(to) if key == "$ref" => {
                names.iter().any(|name| to.rsplit('/').next() == Some(name))
            }
            value => refers(value, names),
        }),
        Value::Array(list) => list.iter().any(|value| refers(value, names)),
        _ => false,
    }
}

fn rename(schema: &mut Value, names: &[String]) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(to) if key == "$ref" => {
                        let name = to.rsplit('/').next().unwrap_or_default();
                        if names.iter().any(|known| known == name) {
                            *to = format!("#/components/schemas/{}", given(name));
                        }
                    }
                    value => rename(value, names),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| rename(value, names)),
        _ => {}
    }
}

/// Returns the calls that the document shows, in an order in which they can be
/// made: the id of the operation, the method, the path with its query, and the
/// body.
pub(crate) fn examples(api: &Api) -> Vec<(String, String, String, Option<Value>)> {
    let shown = |operation: &Operation| {
        let example = operation.example.as_ref()?;
        Some((
            operation.id.to_owned(),
            operation.method.to_string(),
            example.target.to_owned(),
            example.body.clone(),
        ))
    };
    api.operations.iter().filter_map(shown).collect()
}

fn describe(
    operation: &Operation,
    schemas: &Schemas,
    error: &Schema,
    answer: Option<&Value>,
) -> Value {
    let mut parameters = Vec::new();
    for (place, schema) in [
        ("path", &operation.takes.path),
        ("query", &operation.takes.query),
    ] {
        let shown = |name: &str| shown_value(operation, place, name);
        parameters.extend(
            schema
                .iter()
                .flat_map(|schema| parameters_of(place, schema, &shown)),
        );
    }
    let mut described = json!({
        "operationId": operation.id,
        "tags": [operation.group()],
        "summary": operation.summary,
        "description": operation.about,
        "parameters": parameters,
        "responses": responses(operation, error, answer),
    });
    if let Some(schema) = &operation.takes.body {
        let mut content = json!({"application/json": {"schema": schema}});
        if let Some(body) = operation
            .example
            .as_ref()
            .and_then(|example| example.body.as_ref())
        {
            content["application/json"]["example"] = body.clone();
        }
        if operation.takes.lines {
            content["application/x-ndjson"] = json!({
                "schema": {"type": "string", "description": "Such an object in each line."},
            });
        }
        // Without one, an empty object is read.
        let required = schemas.check(operation.id, &json!({})).is_err();
        described["requestBody"] = json!({"required": required, "content": content});
    }
    described
}

/// Returns what stands for a parameter in the example.
fn shown_value(operation: &Operation, place: &str, name: &str) -> Option<String> {
    let target = operation.example.as_ref()?.target;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if place == "query" {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        return pairs
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.to_owned());
    }
    let mut parts = operation.path.split('/').zip(path.split('/'));
    let braced = format!("{{{name}}}");
    parts
        .find(|(part, _)| *part == braced)
        .map(|(_, value)| value.to_owned())
}

/// Returns each field of a schema as a parameter.
fn parameters_of(
    place: &str,
    schema: &Schema,
    shown: &dyn Fn(&str) -> Option<String>,
) -> Vec<Value> {
    let schema = schema.as_value();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let Some(fields) = schema["properties"].as_object() else {
        return Vec::new();
    };
    let parameter = |(name, field): (&String, &Value)| {
        let mut field = never_null(field);
        let description = field
            .as_object_mut()
            .and_then(|field| field.remove("description"));
        let required = place == "path" || required.iter().any(|known| known == name.as_str());
        let mut parameter = json!({
            "name": name,
            "in": place,
            "required": required,
            "schema": field,
        });
        if let Some(description) = description {
            parameter["description"] = description;
        }
        if let Some(value) = shown(name) {
            let is_number = field["type"] == "integer";
            let number = value.parse::<u64>().ok().filter(|_| is_number);
            parameter["example"] = number.map_or(Value::String(value), Value::from);
        }
        parameter
    };
    fields.iter().map(parameter).collect()
}

/// Returns a schema without null: in a path or a query there is none, and what
/// is not there is left out.
fn never_null(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let is_null = |schema: &Value| schema == "null" || schema["type"] == "null";
    for choices in ["type", "anyOf"] {
        let Some(Value::Array(kinds)) = schema.get_mut(choices) else {
            continue;
        };
        kinds.retain(|kind| !is_null(kind));
        let [only] = kinds.as_slice() else {
            continue;
        };
        let only = only.clone();
        match (only, schema.as_object_mut()) {
            (only @ Value::String(_), Some(schema)) => {
                schema.insert("type".to_owned(), only);
            }
            (Value::Object(only), Some(schema)) => {
                schema.remove("anyOf");
                schema.extend(only);
            }
            _ => {}
        }
    }
    if let Some(schema) = schema.as_object_mut()
        && schema.get("default").is_some_and(Value::is_null)
    {
        schema.remove("default");
    }
    schema
}

/// What every operation may be refused with.
const REFUSALS: [(u16, &str); 5] = [
    (401, "There is no key, or a wrong one"),
    (
        403,
        "The key, the host or the origin is not let in, or a path is off limits",
    ),
    (429, "The key sends more than it may"),
    (500, "Something failed; the server's log has the details"),
    (503, "The store or the server cannot be used now; try again"),
];

fn responses(operation: &Operation, error: &Schema, answer: Option<&Value>) -> Value {
    let mut refusals: BTreeMap<u16, &str> = REFUSALS.into();
    let has_input = [
        &operation.takes.path,
        &operation.takes.query,
        &operation.takes.body,
    ]
    .iter()
    .any(|input| input.is_some());
    if has_input {
        refusals.insert(400, "What was sent is not what is described here");
    }
    if operation.takes.query.is_none() {
        // A query where none is taken is refused.
        refusals.insert(400, "What was sent is not what is described here");
    }
    if operation.takes.path.is_some() {
        refusals.insert(404, "There is nothing of that name");
    }
    if operation.takes.body.is_some() {
        refusals.insert(408, "The body did not arrive in time");
        refusals.insert(413, "The body is too large, or has too many values");
        refusals.insert(415, "The body is not said to be JSON");
        refusals.insert(422, "What was sent makes no sense");
    }
    for status in operation.refusals {
        let says = match status {
            404 => "There is nothing of that name",
            409 => "Somebody was faster, or there is one already",
            422 => "What was sent makes no sense",
            _ => "Refused",
        };
        refusals.insert(*status, says);
    }
    let mut responses = Map::new();
    let done = match &operation.gives {
        Gives::Json(schema) => {
            let mut content = json!({"schema": schema});
            if let Some(answer) = answer {
                content["example"] = answer.clone();
            }
            json!({"description": "Done", "content": {"application/json": content}})
        }
        Gives::Stream { media, schema } => {
            let name = schema.get("$ref").and_then(Value::as_str);
            let name = name
                .and_then(|name| name.rsplit('/').next())
                .unwrap_or("JSON");
            let says = format!("One after the other, each as `{name}` describes it.");
            let schema = json!({"type": "string", "description": says});
            json!({"description": "Done", "content": {*media: {"schema": schema}}})
        }
        Gives::Nothing => json!({"description": "Done"}),
    };
    responses.insert(operation.status.as_u16().to_string(), done);
    for (status, says) in refusals {
        let content = json!({"application/json": {"schema": error}});
        let refusal = json!({"description": says, "content": content});
        responses.insert(status.to_string(), refusal);
    }
    Value::Object(responses)
}
