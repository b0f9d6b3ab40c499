//! Memory: records are kept, found again, shown, forgotten, and put into
//! requests.

#[allow(dead_code, unreachable_pub)]
mod bad_input;
mod embedder;
mod keeping;
mod recalling;
mod recording;

use crate::support::{Call, NOW, Project, Run, dedent, run, text, warnings};
use serde_json::{Value, json};

/// Records about a boat house and its people.
fn boats() -> Vec<Value> {
    let said = |id: &str, day: &str, speaker: &str, text: &str| {
        json!({"kind": "event", "id": id, "session_id": day,
            "timestamp": format!("{day}T09:00:0{}Z", id.len() % 10),
            "type": "user_message", "actor": "user",
            "content": {"speaker": speaker, "text": text}})
    };
    let mut moved = said(
        "e3",
        "2026-01-29",
        "Mara",
        "The regatta is on the 7th of June now.",
    );
    moved["supersedes"] = json!("e1");
    vec![
        json!({"kind": "entity", "id": "mara", "type": "person", "name": "Mara Lind",
            "aliases": ["Mara"], "properties": {"role": "coach"}}),
        json!({"kind": "entity", "id": "heron", "type": "boat", "name": "Heron",
            "properties": {"seats": 8}}),
        json!({"kind": "relation", "type": "steers", "source_id": "mara", "target_id": "heron",
            "weight": 0.9, "timestamp": "2026-01-20T09:00:00Z"}),
        said(
            "e1",
            "2026-01-20",
            "Mara",
            "The regatta is on the 31st of May.",
        ),
        said(
            "e2",
            "2026-01-20",
            "Olu",
            "The Heron has a crack below the third seat.",
        ),
        moved,
        said(
            "e4",
            "2026-01-29",
            "Olu",
            "Resin for the crack costs 38 euros at the chandler.",
        ),
        json!({"kind": "chunk", "source": "rules.md", "index": 0,
            "timestamp": "2026-01-02T09:00:00Z",
            "text": "Nobody rows alone after dark. The key of the boat house hangs in the office."}),
        json!({"kind": "pattern", "id": "crack", "name": "crack in a hull",
            "conditions": [{"type": "keyword", "value": "crack"}],
            "procedure": "Dry it for two days, then fill it with resin.",
            "applications": 3, "successes": 2, "failures": 1}),
    ]
}

fn lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

/// A project that remembers the boat house.
#[track_caller]
fn boat_house() -> Project {
    with(&boats())
}

/// A project that remembers some records.
#[track_caller]
fn with(records: &[Value]) -> Project {
    let project = Project::new().file("records.jsonl", lines(records));
    let run = call(&project, &["memory", "record", "records.jsonl"]);
    run.expect_code(0);
    project
}

/// Runs a call at the tests' moment.
fn call(project: &Project, args: &(impl Call + ?Sized)) -> Run {
    project.run_now(args)
}

/// Runs a call that must succeed, and returns what it prints.
#[track_caller]
fn out(project: &Project, args: &(impl Call + ?Sized)) -> String {
    let run = call(project, args);
    run.expect_code(0);
    run.out
}

/// Returns what is recalled as text.
#[track_caller]
fn recall(project: &Project, args: &[&str]) -> String {
    let mut all = vec!["memory", "recall"];
    all.extend(args);
    out(project, &all)
}

/// Returns what is recalled, with how it came about.
#[track_caller]
fn recall_json(project: &Project, args: &[&str]) -> Value {
    let mut all = vec!["memory", "recall", "--format", "json"];
    all.extend(args);
    serde_json::from_str(&out(project, &all)).unwrap()
}

/// Returns the ids of what is recalled, in alphabetical order.
#[track_caller]
fn found(project: &Project, args: &[&str]) -> Vec<String> {
    let context = recall_json(project, args);
    let parts = context["components"].as_array().unwrap();
    let mut ids: Vec<String> = parts
        .iter()
        .map(|part| text(&part["source"]).to_owned())
        .collect();
    ids.sort();
    ids
}
