//! The files that Contexture writes are private, masked, and ignored by git.

use std::fs;

use super::*;

/// A key as a tool could print it. It is put together here, so that no scanner
/// takes this file for a leak.
fn key() -> String {
    format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
}

fn turn(output: &str) -> String {
    json!({"messages": [
        {"role": "assistant", "content": [{"type": "tool_call", "id": "c", "name": "shell",
            "arguments": {"command": "env"}}]},
        {"role": "tool", "tool_call_id": "c", "content": output}]})
    .to_string()
}

/// A project whose working set has observed a turn with a key in it.
fn observed() -> Project {
    let project = roles().file("turn.json", turn(&format!("TOKEN={}\nok\n", key())));
    project.ok("working-set observe turn.json");
    project
}

const TOOL: &str = ".contexture/sessions/default/tool";

#[test]
fn secrets_in_tool_outputs_and_logs_are_masked() {
    let project = observed();
    let output = project.read(&format!("{TOOL}/000001-01-shell.txt"));
    assert_eq!(output, "TOKEN=[secret masked: github-token]\nok\n");
    let why = format!("the key is {}", key());
    project.ok([
        "working-set",
        "adjust",
        "main.rs",
        "--priority",
        "0.4",
        "--why",
        &why,
    ]
    .as_slice());
    let log = project.read(".contexture/sessions/default/events.jsonl");
    assert!(log.contains("[secret masked"), "{log}");
    for line in log.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    for (path, text) in project.snapshot() {
        let is_input = path == "turn.json";
        assert!(is_input || !text.contains(&key()), "{path}: {text}");
    }
}

#[test]
fn every_folder_that_is_created_is_ignored_by_git() {
    let project = observed();
    for folder in [
        ".contexture",
        ".contexture/sessions",
        ".contexture/sessions/default",
        TOOL,
    ] {
        assert_eq!(project.read(&format!("{folder}/.gitignore")), "*\n");
    }
    // Files of the project are not.
    let project = roles().file("turn.json", turn("ok"));
    project.ok("init");
    project.ok("working-set observe turn.json");
    assert_eq!(project.read(".agent/sessions/.gitignore"), "*\n");
    assert!(!project.path(".agent/.gitignore").exists());
    assert!(!project.path(".gitignore").exists());
}

#[test]
fn folders_of_earlier_versions_are_ignored_by_git_from_now_on() {
    let project = roles().file("turn.json", turn("ok"));
    fs::create_dir_all(project.path(".agent/sessions/default/tool")).unwrap();
    project.ok("working-set observe turn.json");
    assert_eq!(project.read(".agent/sessions/.gitignore"), "*\n");
    assert!(!project.path(".agent/.gitignore").exists());
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_what_is_written() {
    use std::os::unix::fs::PermissionsExt as _;
    let project = observed();
    project.ok("assemble");
    let names = project.names();
    let written: Vec<&String> = names
        .iter()
        .filter(|name| name.starts_with(".contexture"))
        .collect();
    assert!(written.len() > 8, "{written:?}");
    for name in written {
        let meta = fs::metadata(project.path(name)).unwrap();
        let mode = meta.permissions().mode() & 0o777;
        let expected = if meta.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{name} has mode {mode:o}");
    }
}

#[test]
fn outputs_that_left_the_working_set_are_deleted() {
    let project = roles().file("turn.json", turn("ok"));
    let outputs = || -> Vec<String> {
        let names = project.names().into_iter();
        let names = names.filter_map(|name| {
            name.strip_prefix(TOOL)?
                .strip_prefix('/')
                .map(str::to_owned)
        });
        names.filter(|name| name.ends_with(".txt")).collect()
    };
    for _ in 0..7 {
        project.ok("working-set observe turn.json");
    }
    let expected: Vec<String> = (3..=7).map(|n| format!("00000{n}-01-shell.txt")).collect();
    assert_eq!(outputs(), expected);
    let remove = format!("working-set remove {TOOL}/000005-01-shell.txt --why done");
    project.ok(remove.as_str());
    assert!(!outputs().contains(&expected[2]));
    // A file that a person put there stays.
    project.write(&format!("{TOOL}/notes.txt"), "mine");
    project.ok("working-set observe turn.json");
    assert!(outputs().contains(&"notes.txt".to_owned()));
}

#[cfg(unix)]
#[test]
fn temporary_files_of_killed_writers_are_removed_at_the_next_start() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let killed = child.id();
    child.wait().unwrap();
    let own = std::process::id();
    let left = [
        format!(".working-set.yml.{killed}.0123abcd.contexture.tmp"),
        format!(".working-set.yml.{killed}.tmp"),
        format!(".contexture/.environment.json.{killed}.tmp"),
        format!("{TOOL}/.000001-01-shell.txt.{killed}.0123abcd.contexture.tmp"),
    ];
    let others = [
        // Another program's, one of a running process, and a folder.
        format!(".main.rs.{killed}.tmp"),
        format!(".working-set.yml.{own}.0123abcd.contexture.tmp"),
        "notes.tmp".to_owned(),
    ];
    for command in [
        "assemble",
        "session list",
        "working-set adjust main.rs --priority 0.4 --why x",
    ] {
        let project = roles();
        project.ok("session new x");
        for name in left.iter().chain(&others) {
            project.write(name, "half");
        }
        project.ok(command);
        let names = project.names();
        for name in &left {
            assert!(!names.contains(name), "{command}: {name}");
        }
        for name in &others {
            assert!(names.contains(name), "{command}: {name}");
        }
    }
}
