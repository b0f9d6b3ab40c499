//! Actions.

use super::*;

#[test]
fn an_action_without_a_reason() {
    small().refuses_actions(
        "
        action: add_to_working_set
        path: b.md
        priority: 0.7
        ",
        "
        error: MISSING_WHY: the change to `b.md` has no reason
        hint: set `why` to the reason for the change
        ",
    );
    small().refuses(
        &["working-set", "remove", "a.md", "--why", " "],
        2,
        "
        error: MISSING_WHY: the change to `a.md` has no reason
        hint: set `why` to the reason for the change
        ",
    );
}

/// As over HTTP: the settings are not for models, and a pattern does not match
/// them.
#[test]
fn a_model_cannot_add_the_settings() {
    let project = small().file("contexture.toml", "# private\n");
    for path in [
        "contexture.toml",
        "./contexture.toml",
        "contexture.toml#L1-L1",
    ] {
        let run = project.run_with(
            "working-set apply -",
            &format!("action: add_to_working_set\npath: '{path}'\npriority: 0.7\nwhy: x\n"),
        );
        run.expect_code(2);
        assert!(run.err.contains("error: NOT_FOUND: "), "{}", run.err);
    }
    let pattern = "action: add_to_working_set\npath: '*.toml'\npriority: 0.7\nwhy: x\n";
    project
        .run_with("working-set apply -", pattern)
        .expect_code(0);
    assert!(!project.ok("assemble").contains("# private"));
    // A person can.
    project.ok("working-set add contexture.toml --priority 0.9 --why 'to explain it'");
    assert!(project.ok("assemble").contains("# private"));
}

#[test]
fn a_command_without_a_reason() {
    for args in [
        &["working-set", "add", "b.md"][..],
        &["working-set", "remove", "a.md"],
        &["working-set", "adjust", "a.md", "--priority", "0.4"],
    ] {
        let run = small().run(args);
        run.expect_code(2);
        assert!(run.err.contains("--why <TEXT>"), "{}", run.err);
    }
}

#[test]
fn a_file_that_is_there_already() {
    small().refuses(
        &["working-set", "add", "a.md", "--why", "again"],
        2,
        "
        error: INVALID_ARGS: `a.md` is already in the working set
        hint: `contexture working-set adjust a.md --priority P --why REASON` changes its priority
        ",
    );
}

#[test]
fn an_actions_file_that_holds_none() {
    let hint = "hint: write `action`, `path`, `priority` and `why`";
    small().refuses_actions(
        "",
        &format!("error: INVALID_ARGS: actions.yml contains no action\n{hint}\n"),
    );
    small().refuses_actions(
        "just a sentence\n",
        "error: INVALID_ARGS: actions.yml:1:1: must be a mapping (`key: value`), not `just a sentence`\n",
    );
    small().refuses(
        &["working-set", "apply", "nowhere.yml"],
        2,
        "error: cannot read nowhere.yml: No such file or directory (os error 2)\n",
    );
}

#[test]
fn a_manifest_that_is_a_link_is_not_replaced() {
    let project = small();
    fs::rename(project.path("working-set.yml"), project.path("real.yml")).unwrap();
    project.link("working-set.yml", "real.yml").refuses(
        "working-set add b.md --priority 0.5 --why x",
        2,
        "
        error: working-set.yml is a symbolic link
        hint: name the file it points to
        ",
    );
}

#[test]
fn actions_between_code_fences_are_read() {
    let project = small();
    project.write(
        "actions.yml",
        "```yaml\naction: add_to_working_set\npath: b.md\npriority: 0.4\nwhy: fenced\n```\n",
    );
    assert_eq!(
        project.ok(&["working-set", "apply", "actions.yml"]),
        "added b.md at 0.4: fenced\n"
    );
}
