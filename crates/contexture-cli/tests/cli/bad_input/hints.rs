//! Hints and turns.

use super::*;

#[test]
fn an_observation_that_is_refused_leaves_nothing_and_can_be_repeated() {
    let project = small()
        .file("turn.json", TURN_WITH_TOOL)
        .file("contexture.toml", "[limits]\nmax_entries = 2\n");
    project.refuses(
        &["working-set", "observe", "turn.json"],
        2,
        "
        error: QUOTA_EXCEEDED: the working set is full: the limit is 2 entries
        hint: remove some first, or raise limits.max_entries in contexture.toml
        ",
    );
    fs::remove_file(project.path("contexture.toml")).unwrap();
    project.ok(&["working-set", "observe", "turn.json"]);
}

#[test]
fn damaged_observations_are_an_error() {
    small()
        .file("turn.json", TURN_WITH_TOOL)
        .file(".contexture/sessions/default/observed.json", "{\"turn\":")
        .refuses(
            &["working-set", "observe", "turn.json"],
            2,
            "
            error: .contexture/sessions/default/observed.json: turn: it ends before a value at line 1 column 8
            hint: delete the file to restart the counts
            ",
        );
}

#[test]
fn a_session_label_cannot_lead_elsewhere() {
    let above = Project::new();
    for (path, text) in small().snapshot() {
        above.write(&format!("root/{path}"), text);
    }
    for label in ["../../../evil", "/evil", "..", "."] {
        let run = above.run(&["assemble", "root", "--session", label]);
        run.expect_code(0);
    }
    let escaped = above
        .names()
        .into_iter()
        .filter(|name| name.ends_with("events.jsonl"))
        .filter(|name| !name.starts_with("root/.contexture/sessions/"))
        .collect::<Vec<_>>();
    assert!(escaped.is_empty(), "{escaped:?}");
}

#[test]
fn a_log_that_is_a_symbolic_link_is_not_written() {
    let outside = Project::new().file("target", "mine\n");
    let project = small();
    fs::create_dir_all(project.path(".contexture/sessions/default")).unwrap();
    let project = project.link(
        ".contexture/sessions/default/events.jsonl",
        outside.path("target"),
    );
    project.run(&["assemble"]).expect_code(0);
    assert_eq!(outside.read("target"), "mine\n");
}

#[test]
fn a_turn_that_was_written_but_not_remembered_is_observed_again() {
    let project = small().file("turn.json", TURN_WITH_TOOL);
    project.ok(&["working-set", "observe", "turn.json"]);
    fs::remove_file(project.path(".contexture/sessions/default/observed.json")).unwrap();
    project.ok(&["working-set", "observe", "turn.json"]);
    project.ok(&["working-set", "observe", "turn.json"]);
    project.ok(&["assemble"]);
}

#[test]
fn a_tool_output_that_is_pinned_does_not_stop_later_turns() {
    let project = small().file("turn.json", TURN_WITH_TOOL);
    let added = project.ok(&["working-set", "observe", "turn.json"]);
    let path = added.split_whitespace().nth(1).unwrap();
    project.ok(&[
        "working-set",
        "adjust",
        path,
        "--priority",
        "1.0",
        "--why",
        "keep it",
    ]);
    for _ in 0..7 {
        project.ok(&["working-set", "observe", "turn.json"]);
    }
    assert!(project.read("working-set.yml").contains(path));
}

#[test]
fn a_pipe_in_the_place_of_the_log_is_a_warning() {
    let project = small();
    let log = project.path(".contexture/sessions/default");
    fs::create_dir_all(&log).unwrap();
    let made = Command::new("mkfifo")
        .arg(log.join("events.jsonl"))
        .status();
    assert!(made.unwrap().success());
    let run = project.run(&["assemble"]);
    run.expect_code(0);
    assert!(
        run.err.contains("cannot write the event log"),
        "{}",
        run.err
    );
}
