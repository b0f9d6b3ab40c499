//! Every call that the document shows, made in order.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::support::{Client, Lab};

/// A project in which every call that is shown can be made.
pub(crate) fn lab() -> Lab {
    let manifest = "protocol: CONTEXT-ASSEMBLY/0.1\nbudget:\n  max_tokens: 8000\nfiles:\n  \
                    - path: src/main.rs\n    priority: 0.9\n    why: where it begins\n";
    let root = ".contexture/tenants/harbour";
    let mut lab = Lab::new()
        .file(&format!("{root}/working-set.yml"), manifest)
        .file(
            &format!("{root}/src/main.rs"),
            "fn main() {\n    foo();\n}\n",
        )
        .file(
            &format!("{root}/src/link.rs"),
            "// Nothing is linked yet.\n",
        );
    lab.config.runtime.host = Some("harbour".to_owned());
    lab
}

/// Has a long conversation, so that there is something to make shorter.
fn talk_at_length(client: &Client) {
    client
        .post("/v1/sessions", r#"{"label":"harbour"}"#)
        .ok(201);
    for hour in 1..=12 {
        let asked = format!("Which ships are expected at {hour} o'clock?");
        let answered = format!(
            "At {hour} o'clock the ferry from the island arrives at pier {hour}. {}",
            "It carries passengers, bicycles and the mail. ".repeat(20)
        );
        let turn = json!({"messages": [
            {"role": "user", "content": asked},
            {"role": "assistant", "content": answered},
        ]});
        let recorded = client.post("/v1/sessions/harbour/turns", &turn.to_string());
        recorded.ok(201);
    }
}

/// Records what a tool printed, so that there is something to fetch.
fn print_at_length(client: &Client) {
    client.post("/v1/sessions", r#"{"label":"pier"}"#).ok(201);
    let mut printed: Vec<String> = (1..=12)
        .map(|hour| format!("{hour:02}:00 ferry {hour} arrives at pier {}", hour % 4 + 1))
        .collect();
    printed.push("13:00 ferry 13 is late: fog at pier 2".to_owned());
    let turn = json!({"messages": [
        {"role": "user", "content": "Which ferries are late?"},
        {"role": "assistant", "content": [
            {"type": "tool_call", "id": "c1", "name": "timetable", "arguments": {}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": printed.join("\n")},
    ]});
    let recorded = client.post("/v1/sessions/pier/turns", &turn.to_string());
    recorded.ok(201);
}

/// Makes the calls and hands each answer to `look`: the id of the operation,
/// the status and the answer.
///
/// Ids of keys are random. `mask` replaces them by the id that is shown.
fn call_all(
    client: &Client,
    admin: &Client,
    mask: &mut Mask,
    look: &mut dyn FnMut(&str, u16, Value),
) {
    for (id, method, target, body) in contexture_server::examples() {
        let client = match target.starts_with("/v1/admin/") {
            true => admin,
            false => client,
        };
        let target = mask.unmasked(&target);
        let body = body.map(|body| body.to_string());
        let json = [("content-type", "application/json")];
        let headers = if body.is_some() { &json[..] } else { &[] };
        let answer = client.send(&method, &target, headers, body.as_deref());
        let answer_json = answer.json();
        if let Some(created) = answer_json["key"].as_str() {
            mask.add(created);
        }
        look(&id, answer.status, mask.masked(&answer_json));
    }
}

/// The keys of the test, whose ids and secrets are random. The last one is shown
/// with a fixed id.
#[derive(Default)]
struct Mask(Vec<(String, String)>);

impl Mask {
    const SHOWN: &str = "7hK2mQx9PzR4";

    fn add(&mut self, key: &str) {
        let (id, secret) = contexture::key::parse(key).unwrap();
        self.0.push((id.to_owned(), secret.to_owned()));
    }

    /// Returns a text with the real id of the last key.
    fn unmasked(&self, text: &str) -> String {
        let last = self.0.last().map_or("", |(id, _)| id);
        text.replace(Self::SHOWN, last)
    }

    fn masked(&self, answer: &Value) -> Value {
        let mut text = answer.to_string();
        for (i, (id, secret)) in self.0.iter().enumerate().rev() {
            let shown = match i + 1 == self.0.len() {
                true => Self::SHOWN.to_owned(),
                false => format!("aKey{i:08}"),
            };
            text = text.replace(id, &shown);
            text = text.replace(secret, "SECRET");
        }
        serde_json::from_str(&text).unwrap()
    }
}

/// Returns each operation of the document with its id.
fn operations(document: &Value) -> Vec<(String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let operations = paths
        .values()
        .flat_map(|path| path.as_object().unwrap().values());
    operations
        .map(|operation| {
            (
                operation["operationId"].as_str().unwrap().to_owned(),
                operation.clone(),
            )
        })
        .collect()
}

#[test]
fn every_call_that_is_shown_is_answered_as_shown() {
    let lab = lab();
    let (key, island, admin) = (lab.key("harbour"), lab.key("island"), lab.admin_key());
    let mut mask = Mask::default();
    for key in [&key, &island, &admin] {
        mask.add(key);
    }
    let server = lab.serve();
    let sessions = server.with_key(&island);
    sessions
        .post("/v1/sessions", r#"{"label":"ferry"}"#)
        .ok(201);
    let document = contexture_server::openapi();
    assert_eq!(server.get("/openapi.json").json(), document);
    let described: Map<String, Value> = operations(&document).into_iter().collect();
    let mut answers = Map::new();
    let client = server.with_key(&key);
    talk_at_length(&client);
    print_at_length(&client);
    let admin = server.with_key(&admin);
    call_all(&client, &admin, &mut mask, &mut |id, status, answer| {
        let response = &described[id]["responses"][status.to_string()];
        let made = answers
            .get("assemble")
            .map(|made: &Value| &made["snapshot"]);
        assert!(
            status < 300,
            "{id}: {status} {answer} (assembled: {made:?})"
        );
        let mut schema = response["content"]["application/json"]["schema"].clone();
        assert!(schema.is_object(), "{id}: {status} is not in the document");
        schema["components"] = document["components"].clone();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let wrong: Vec<String> = validator
            .iter_errors(&answer)
            .map(|error| format!("{} at {}", error, error.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{id}: {wrong:#?}\n{answer}");
        answers.insert(id.to_owned(), answer);
    });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contexture-api/assets/answers.json");
    let written = format!("{}\n", serde_json::to_string_pretty(&answers).unwrap());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(
        kept == written,
        "what is shown is not what is answered; run the test with UPDATE_DOCS=1 and look at the \
         difference"
    );
}

#[test]
fn every_json_operation_has_an_example() {
    let document = contexture_server::openapi();
    let shown: Vec<String> = contexture_server::examples()
        .into_iter()
        .map(|(id, ..)| id)
        .collect();
    let without: Vec<String> = operations(&document)
        .into_iter()
        .filter(|(id, operation)| {
            let taken = &operation["requestBody"]["content"]["application/json"];
            let given =
                operation["responses"]
                    .as_object()
                    .unwrap()
                    .iter()
                    .any(|(status, response)| {
                        status.starts_with('2')
                            && response["content"]["application/json"].is_object()
                    });
            let cannot_be_shown = [
                // The answer is the whole model table.
                "list_models",
                // They need a model, the bytes of an archive, or a tenant without
                // a root.
                "continue_tree",
                "admin_import_archive",
                "admin_import_tenant",
                "put_file",
                "get_file",
                "delete_file",
            ]
            .contains(&id.as_str());
            (taken.is_object() || given) && !shown.contains(id) && !cannot_be_shown
        })
        .map(|(id, _)| id)
        .collect();
    assert_eq!(without, Vec::<String>::new());
}

#[test]
fn all_references_of_the_document_resolve() {
    let document = contexture_server::openapi();
    fn look(document: &Value, part: &Value) {
        match part {
            Value::Object(fields) => {
                if let Some(Value::String(to)) = fields.get("$ref") {
                    let at = to.strip_prefix('#').unwrap();
                    assert!(document.pointer(at).is_some(), "{to} leads nowhere");
                }
                fields.values().for_each(|field| look(document, field));
            }
            Value::Array(items) => items.iter().for_each(|item| look(document, item)),
            _ => {}
        }
    }
    look(&document, &document);
    // The example bodies match their schemas.
    for (id, operation) in operations(&document) {
        let content = &operation["requestBody"]["content"]["application/json"];
        let Some(example) = content.get("example") else {
            continue;
        };
        let mut schema = content["schema"].clone();
        schema["components"] = document["components"].clone();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let wrong: Vec<String> = validator
            .iter_errors(example)
            .map(|error| error.to_string())
            .collect();
        assert!(wrong.is_empty(), "{id}: {wrong:#?}");
    }
}
