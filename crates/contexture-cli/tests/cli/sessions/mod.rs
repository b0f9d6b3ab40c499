//! Conversations: recorded, summarised, forked and sent, from the files of a
//! project and its store to the bytes of a request.

#[allow(dead_code, unreachable_pub)]
mod bad_calls;
mod bad_stores;
mod commands;
mod compaction;
mod cost;
mod fetch;
mod native;
mod pins;
mod result;
mod snapshots;
mod summariser;
mod trust;
mod writers;

use crate::support::{NOW, Project, Run, dedent, text};
use serde_json::{Value, json};

/// A project with fixed environment values, so that every machine has the same
/// output.
fn project() -> Project {
    Project::new().file("contexture.toml", "[runtime]\nhost = \"box\"\n")
}

/// A project with an empty session `chat`.
fn chat() -> Project {
    with_session(project())
}

/// Gives a project the session `chat`.
fn with_session(project: Project) -> Project {
    project.ok(&["session", "new", "chat", "--now", NOW]);
    project
}

/// A project whose session `chat` has `turns` turns, each of some 180 tokens.
fn long_chat(turns: usize) -> Project {
    let project = chat();
    say_many(&project, 1, turns);
    project
}

/// Records the turns from `first` to `last`.
fn say_many(project: &Project, first: usize, last: usize) {
    for n in first..=last {
        let asked = format!(
            "Please look at file number {n}: what is wrong with function f{n} in src/mod{n}.rs? {}",
            "It was fine last week. ".repeat(10)
        );
        let answered = format!(
            "Function f{n} forgets to close the handle {n}. {}",
            "I looked at the callers as well. ".repeat(10)
        );
        say(project, "chat", &asked, &answered);
    }
}

/// Records a question and its answer, and returns the turn's id.
#[track_caller]
fn say(project: &Project, session: &str, asked: &str, answered: &str) -> String {
    let turn = json!({"messages": [
        {"role": "user", "content": asked},
        {"role": "assistant", "content": answered},
    ]});
    record(project, session, &turn)
}

/// Records a turn and returns its id.
#[track_caller]
fn record(project: &Project, session: &str, turn: &Value) -> String {
    let args = ["session", "record", session, "-", "--now", NOW, "--json"];
    let run = project.run_with(&args, &turn.to_string());
    run.expect_code(0);
    text(&parsed(&run.out)["turn_id"]).to_owned()
}

/// Runs `args` with `--json`, which must succeed.
#[track_caller]
fn json_of(project: &Project, args: &[&str]) -> Value {
    let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    parsed(&project.ok(&args))
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}:\n{text}"))
}

/// The call that assembles the next request of `chat`.
fn request<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["assemble", "--recipe", "broker", "--session", "chat"];
    let mut all: Vec<&str> = fixed.into_iter().chain(["--now", NOW]).collect();
    if !args.contains(&"--model") {
        all.extend(["--model", "gpt-4o"]);
    }
    if !args.contains(&"--event-file") && !args.contains(&"--event") {
        all.extend(["--event", "Go on."]);
    }
    all.extend(args);
    all
}

/// Assembles the next request of `chat` in Contexture's own form.
#[track_caller]
fn assembled(project: &Project, args: &[&str]) -> Value {
    let args: Vec<&str> = args.iter().copied().chain(["--format", "json"]).collect();
    parsed(&project.ok(&request(&args)))
}

/// Assembles the next request of `chat` and returns all that the run left.
fn run_request(project: &Project, args: &[&str]) -> Run {
    project.run(&request(args))
}

/// Returns the role of each message in the history of a request, and its
/// beginning.
fn outline(request: &Value) -> Vec<String> {
    let messages = request["history"].as_array().unwrap();
    messages
        .iter()
        .map(|message| {
            let said = match &message["content"] {
                Value::String(said) => said.clone(),
                blocks => blocks.to_string(),
            };
            let start: String = said.lines().next().unwrap_or("").chars().take(40).collect();
            format!("{}: {start}", text(&message["role"]))
        })
        .collect()
}

/// Returns the labels of the sessions that there are.
fn labels(project: &Project) -> Vec<String> {
    let sessions = json_of(project, &["session", "list"]);
    let sessions = sessions.as_array().unwrap().iter();
    sessions.map(|one| text(&one["label"]).to_owned()).collect()
}
