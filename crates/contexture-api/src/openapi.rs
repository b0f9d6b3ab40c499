//! Creates the OpenAPI 3.1 document from the declared operations.
//!
//! Each [`Operation`] brings its route, texts, schemas and example. This module
//! adds what all operations share: the error answers, the tags and the security
//! scheme. A type that is read and written in different forms gets a second
//! schema with the suffix `Output`.

mod generators;

use std::collections::BTreeMap;

use contexture::store::MAX_IDEMPOTENCY_KEY_BYTES;
use http::StatusCode;
use schemars::Schema;
use serde_json::{Map, Value, json};

use crate::operation::{Api, Operation, ResponseBody};
use crate::problem::ErrorResponse;
use crate::schema::Schemas;

/// The answers to the examples. A test writes this file from real answers.
const ANSWERS: &str = include_str!("../assets/answers.json");

/// The tags in the order in which they are shown, with their descriptions.
const TAGS: [(&str, &str); 15] = [
    ("assemble", "Assemble the request to send to a model."),
    ("fit", "Make a provider's request fit into a token budget."),
    ("sessions", "Conversations: record, fork and compact them."),
    ("memory", "Records that are found again by later requests."),
    (
        "tasks",
        "Task stacks: the current task, its parents and results.",
    ),
    ("stacks", "The names of the task stacks."),
    ("trees", "Looms: conversations and documents with branches."),
    ("working-set", "The files that requests are assembled from."),
    ("snapshots", "Assembled requests exactly as they were."),
    (
        "blobs",
        "Tool results that requests hold in a shortened form.",
    ),
    ("recipes", "Recipes: the layers of a request."),
    ("sources", "Sources: they fill the layers of a recipe."),
    ("models", "Models and their context windows."),
    ("tokens", "Token counts of texts."),
    (
        "admin",
        "Tenants, quotas, API keys and the audit log. These operations need an admin key.",
    ),
];

/// Returns the document.
pub(crate) fn document(api: &Api, bodies: &Schemas) -> Value {
    let mut inputs = api.inputs.clone();
    let mut outputs = api.outputs.clone();
    let error = outputs.subschema_for::<ErrorResponse>();
    let (mut inputs, mut outputs) = (
        inputs.take_definitions(true),
        outputs.take_definitions(true),
    );
    generators::rewrite(&mut inputs, &mut outputs);
    // A type can have one form in a request and another in an answer: a field
    // with a default is optional in a request and always present in an answer.
    let renamed: Vec<String> = outputs
        .iter()
        .filter(|(name, schema)| inputs.get(*name).is_some_and(|taken| taken != *schema))
        .map(|(name, _)| name.clone())
        .collect();
    // A schema that refers to a renamed one differs from the schema of requests,
    // too. A type that occurs only in answers keeps its name.
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
    // Operations are declared in an order in which the examples can be called.
    // Readers start with `assemble`, so the document lists it first.
    let mut operations: Vec<&Operation> = api.operations.iter().collect();
    operations.sort_by_key(|operation| operation.id != "assemble");
    for operation in operations {
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
            "summary": "Assembles requests to language models within a token budget",
            "description": "`POST /v1/assemble` returns the request to send to a model, and a \
                report that lists every candidate. `POST /v1/sessions/{label}/turns` records the \
                model's answer for the next request. `POST /v1/memory/records` stores facts that \
                later requests find.\n\n\
                All errors have the same form: a stable `code`, a `message`, the `field` with \
                the error, and a `hint` with what to do. Status 400 means that a call does not \
                match this document. Status 422 means that a call matches the document and is \
                still invalid, such as a tool result without a tool call.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": TAGS.map(|(name, about)| json!({"name": name, "description": about})),
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {
                "type": "http",
                "scheme": "bearer",
                "description": "An API key. Create one with `contexture key new` on the server. \
                    A server on a loopback address without keys accepts calls without a key.",
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

/// The keywords that say something about the fields of an object.
const CONSTRAINTS: [&str; 6] = [
    "properties",
    "required",
    "oneOf",
    "anyOf",
    "allOf",
    "patternProperties",
];

/// Replaces inline objects with any fields by a reference to one named schema.
/// Some client generators create a type of the same name for each inline object
/// and then omit everything that refers to it.
fn name_objects(schema: &mut Value) {
    let reference = json!(format!("#/components/schemas/{ANY_OBJECT}"));
    match schema {
        Value::Object(map) => {
            let has_fields = map.contains_key("properties");
            let is_open = match map.get("additionalProperties") {
                Some(others) => others == &Value::Bool(true) && !has_fields,
                None => !CONSTRAINTS.iter().any(|name| map.contains_key(*name)),
            };
            match map.get("type").cloned() {
                Some(Value::String(kind)) if is_open && kind == "object" => {
                    map.remove("type");
                    map.remove("additionalProperties");
                    map.insert("$ref".to_owned(), reference);
                }
                // `anyOf` is equivalent to a list of types, and generators keep the
                // type of a list's items.
                Some(Value::Array(kinds)) if is_choice(&kinds) && !has_fields => {
                    let mut list = json!({"type": "array", "items": {}});
                    for name in ["items", "minItems", "maxItems"] {
                        if let Some(limit) = map.remove(name) {
                            list[name] = limit;
                        }
                    }
                    let choice = |kind: &Value| match kind.as_str() {
                        Some("object") if is_open => json!({"$ref": reference}),
                        Some("array") => list.clone(),
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

/// Returns true if a list of types leaves a choice besides null, or holds objects.
fn is_choice(kinds: &[Value]) -> bool {
    let others = kinds.iter().filter(|kind| *kind != "null").count();
    others > 1 || kinds.iter().any(|kind| kind == "object")
}

/// Returns `names`, and the names of all schemas of requests that refer to them
/// directly or indirectly.
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

/// Returns the example calls in an order in which they succeed: the id of the
/// operation, the method, the path with its query, and the body.
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
    if operation.takes.idempotency_header {
        let (about, schema) = match operation.takes.native.is_some() {
            true => (
                "The same as `idempotency_key` in the body. If both are sent, they must be equal.",
                json!({"type": "string", "minLength": 1}),
            ),
            false => (
                "A text that makes retries safe. A call that is sent again with the same key \
                 within 24 hours is done once and gets the first answer. Another call with the \
                 same key is rejected with 409.",
                json!({"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY_BYTES}),
            ),
        };
        parameters.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "required": false,
            "description": about,
            "schema": schema,
        }));
    }
    let mut described = json!({
        "operationId": operation.id,
        "tags": [operation.group()],
        "summary": operation.summary,
        "description": operation.about,
        "parameters": parameters,
        "responses": responses(operation, error, answer),
    });
    if let Some(media) = operation.takes.binary {
        let schema = json!({"type": "string", "format": "binary"});
        let content = json!({media: {"schema": schema}});
        described["requestBody"] = json!({"required": true, "content": content});
    }
    if let Some(schema) = &operation.takes.body {
        let mut content = json!({"application/json": {"schema": schema}});
        if let Some(body) = operation
            .example
            .as_ref()
            .and_then(|example| example.body.as_ref())
        {
            content["application/json"]["example"] = body.clone();
        }
        if let Some(native) = &operation.takes.native {
            content["application/json"]["schema"] = json!({"anyOf": [schema, native]});
            content["text/event-stream"] = json!({
                "schema": {
                    "type": "string",
                    "description": "The recorded event stream of a provider's response.",
                },
            });
        }
        if operation.takes.lines {
            content["application/x-ndjson"] = json!({
                "schema": {"type": "string", "description": "One record per line, as JSON."},
            });
        }
        // A call without a body is read as an empty object, except where its type
        // says whether it is JSON or lines.
        let is_empty_valid = schemas.check(operation.id, &json!({})).is_ok();
        let required = operation.takes.lines || !is_empty_valid;
        described["requestBody"] = json!({"required": required, "content": content});
    }
    described
}

/// Returns the value of a parameter in the example call.
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
        generators::rewrite_schema(&mut field);
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

/// Returns a schema without null: paths and queries have no null, and a missing
/// parameter is omitted.
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

/// The error answers of every operation.
const REFUSALS: [(u16, &str); 7] = [
    (401, "Unauthorized: the API key is missing or invalid"),
    (
        403,
        "Forbidden: the key has no access, the host or origin is not allowed, or the path is \
         outside the root",
    ),
    (429, "Too many requests: retry after `retry-after` seconds"),
    (
        500,
        "Internal error: search the server's log for the answer's `x-request-id`",
    ),
    (
        503,
        "Unavailable: the server or the store is overloaded; retry after `retry-after` seconds",
    ),
    (
        504,
        "Unknown outcome: a write has begun and did not finish in time; send the same call with \
         the same `Idempotency-Key` or `x-request-id`",
    ),
    (
        507,
        "Insufficient storage: the tenant has reached a quota; see `message`",
    ),
];

const BAD_REQUEST: &str = "Bad request: the call does not match this document; see `field`";
const NOT_FOUND: &str = "Not found: see `message`";
const CONFLICT: &str = "Conflict: the session has moved on since you read it, or the name is \
                        already in use";
const UNPROCESSABLE: &str = "Well-formed but invalid: see `field` and `message`";

fn responses(operation: &Operation, error: &Schema, answer: Option<&Value>) -> Value {
    let mut refusals: BTreeMap<u16, &str> = REFUSALS.into();
    let has_input = [
        &operation.takes.path,
        &operation.takes.query,
        &operation.takes.body,
    ]
    .iter()
    .any(|input| input.is_some());
    // An operation without a query rejects calls that have one.
    if has_input || operation.takes.query.is_none() {
        refusals.insert(400, BAD_REQUEST);
    }
    if operation.takes.path.is_some() {
        refusals.insert(404, NOT_FOUND);
    }
    if operation.takes.body.is_some() {
        refusals.insert(408, "Request timeout: the body did not arrive in time");
        refusals.insert(
            413,
            "Content too large: the body has too many bytes or values",
        );
        refusals.insert(
            415,
            "Unsupported media type: send uncompressed JSON with `Content-Type: application/json`",
        );
        refusals.insert(422, UNPROCESSABLE);
    }
    if operation.takes.idempotency_header {
        refusals.insert(409, CONFLICT);
    }
    for status in operation.refusals {
        let about = match status {
            404 => NOT_FOUND,
            409 => CONFLICT,
            422 => UNPROCESSABLE,
            _ => "Error: see `code` and `message`",
        };
        refusals.insert(*status, about);
    }
    let mut responses = Map::new();
    let success = match operation.status {
        StatusCode::CREATED => "Created",
        _ => "Success",
    };
    let done = match &operation.response {
        ResponseBody::Json(schema) => {
            let mut content = json!({"schema": schema});
            if let Some(answer) = answer {
                content["example"] = answer.clone();
            }
            json!({"description": success, "content": {"application/json": content}})
        }
        ResponseBody::Stream { media, schema } => {
            let name = schema.get("$ref").and_then(Value::as_str);
            let name = name
                .and_then(|name| name.rsplit('/').next())
                .unwrap_or("JSON");
            let about = format!("A stream of objects with the schema `{name}`.");
            let schema = json!({"type": "string", "description": about});
            json!({"description": success, "content": {*media: {"schema": schema}}})
        }
        ResponseBody::Binary(media) => {
            let schema = json!({"type": "string", "format": "binary"});
            json!({"description": success, "content": {*media: {"schema": schema}}})
        }
        ResponseBody::Nothing => json!({"description": success}),
    };
    responses.insert(operation.status.as_u16().to_string(), done);
    for (status, about) in refusals {
        let content = json!({"application/json": {"schema": error}});
        let refusal = json!({"description": about, "content": content});
        responses.insert(status.to_string(), refusal);
    }
    Value::Object(responses)
}
