//! Requests for an agent: the system prompt, its tools, and the current
//! message.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod environment;
mod event;
mod role;
mod session;
mod tools;

use contexture::{Error, Event, Request};
use serde_json::Value;
use support::{Lab, request};

/// Returns a project with these files and an empty session `chat`.
fn project(config: &str, files: &[(&str, &str)]) -> Lab {
    let lab = Lab::new(config);
    std::fs::remove_file(lab.dir.path().join("AGENTS.md")).unwrap();
    for (path, text) in files {
        lab.write(path, text);
    }
    lab.session("chat");
    lab
}

/// Returns the next request of `chat`, changed by `change`, in our own form.
fn ask(lab: &Lab, change: impl FnOnce(&mut Request)) -> Value {
    made(lab, change).unwrap().to_json()
}

fn made(lab: &Lab, change: impl FnOnce(&mut Request)) -> Result<contexture::Assembled, Error> {
    let mut asked = request("chat", 100_000);
    change(&mut asked);
    lab.engine.assemble(&lab.root, &asked)
}

/// Returns the error of the next request, with its hint.
fn complaint(lab: &Lab, change: impl FnOnce(&mut Request)) -> String {
    let error = made(lab, change).unwrap_err();
    assert!(error.is_input(), "{error}");
    told(&error)
}

fn told(error: &Error) -> String {
    match error.hint(&contexture::advice::Plain).as_deref() {
        Some(hint) => format!("{error}\nhint: {hint}"),
        None => error.to_string(),
    }
}

fn system(request: &Value) -> &str {
    request["system_prompt"].as_str().unwrap()
}

/// Returns what is left out, a line each: id, code, reason.
fn left_out(request: &Value) -> Vec<String> {
    let rows = request["report"]["excluded"].as_array().unwrap();
    let word = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    rows.iter()
        .map(|row| {
            format!(
                "{} {}: {}",
                word(row, "id"),
                word(row, "code"),
                word(row, "reason")
            )
        })
        .collect()
}

fn event(json: Value) -> Event {
    Event::read("event.json", &json.to_string()).unwrap()
}
