//! The Model Context Protocol, spoken with its own client library.
//!
//! This needs Python and its package index. Without them it fails: a test that
//! is skipped looks just like one that passes.

mod http;
mod inspector;
mod mistakes;
mod reading;
mod server;
mod tools;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use crate::support::{BIN, NOW, Project};
use serde_json::{Value, json};

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/mcp")
}

/// A Python that has the client library. The tests of this file share it.
static PYTHON: LazyLock<String> = LazyLock::new(|| {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let made = Command::new("sh")
        .arg(crates.join("contexture-providers/tests/sdk/setup.sh"))
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp"))
        .arg(scripts().join("requirements.txt"))
        .arg("mcp, httpx2")
        .output()
        .expect("this test needs sh");
    assert!(
        made.status.success(),
        "this test needs Python 3.11 or newer and its package index, to install the protocol's \
         client library:\n{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let printed = String::from_utf8(made.stdout).unwrap();
    printed.lines().last().unwrap().to_owned()
});

/// How a client begins: with a handshake, or by asking what there is.
const MODES: [&str; 2] = ["legacy", "auto"];

/// Has the client do each step, and returns what came of each.
#[track_caller]
fn drive(server: &Value, mode: &str, steps: &[Value]) -> Vec<Value> {
    let mut child = Command::new(&*PYTHON)
        .arg(scripts().join("drive.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the Python that setup.sh made runs");
    let script = json!({"server": server, "mode": mode, "steps": steps});
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(script.to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let lines: Vec<Value> = output
        .stdout
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "drive.py failed:\n{told}");
    assert_eq!(lines.len(), steps.len(), "{told}");
    lines
}

/// Returns how a client starts the server in a project.
fn stdio(project: &Project) -> Value {
    json!({
        "command": BIN,
        "args": ["mcp", "--tools", "all", "--root", project.path("").to_str().unwrap(), "--now", NOW],
    })
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"do": "call", "name": name, "arguments": arguments})
}

/// Calls tools over standard input and output; all of them must be done.
#[track_caller]
fn called(project: &Project, calls: &[Value]) -> Vec<Value> {
    let results = drive(&stdio(project), "auto", calls);
    let done = results.into_iter().map(|result| {
        let result = result["ok"].clone();
        assert_ne!(result["isError"], true, "{result}");
        result
    });
    done.collect()
}

/// Returns the text of a tool's answer.
#[track_caller]
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

/// Runs a command that prints JSON.
#[track_caller]
fn json_of(project: &Project, args: &[&str]) -> Value {
    let mut all = args.to_vec();
    all.push("--json");
    serde_json::from_str(&project.ok(&all)).unwrap()
}

/// A project with two files, one of which does not fit whole.
fn project() -> Project {
    let notes: String = (1..=200)
        .map(|i| format!("line {i} of the notes tells of lighthouses\n"))
        .collect();
    Project::new()
        .file("rules.md", "Answer briefly.\n")
        .file("notes.md", notes)
        .file("src/lamp.rs", "fn lamp() {}\n")
        .entries("rules.md 1.0 role=system truncate_strategy=never\nnotes.md 0.5")
}

/// Adds a session with turns that are worth a summary.
fn with_session(project: Project, label: &str, turns: usize) -> Project {
    project.ok(&["session", "new", label, "--now", NOW]);
    for i in 1..=turns {
        let told = format!("Handle number {i} was never closed. ").repeat(12);
        let turn = json!({"messages": [
            {"role": "user", "content": format!("Please look at file number {i}: what leaks?")},
            {"role": "assistant", "content": format!("{told}I decided to close handle {i}.")},
        ]});
        let args = ["session", "record", label, "-", "--now", NOW];
        project.run_with(&args, &turn.to_string()).expect_code(0);
    }
    project
}
