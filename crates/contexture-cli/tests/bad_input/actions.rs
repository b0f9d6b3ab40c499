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
        error: MISSING_WHY: the change to `b.md` gives no reason
        hint: every change needs a reason: `why`
        ",
    );
    small().refuses(
        &["working-set", "remove", "a.md"],
        2,
        "
        error: MISSING_WHY: the change to `a.md` gives no reason
        hint: every change needs a reason: `why`
        ",
    );
}

#[test]
fn an_action_with_a_blank_reason() {
    small().refuses_actions(
        "
        action: add_to_working_set
        path: b.md
        priority: 0.7
        why: \" \\t \"
        ",
        "
        error: MISSING_WHY: the change to `b.md` gives no reason
        hint: every change needs a reason: `why`
        ",
    );
}

#[test]
fn an_action_on_an_unknown_path_suggests_the_nearest() {
    small().refuses_actions(
        "
        action: remove_from_working_set
        path: rules.mdx
        why: no longer needed
        ",
        "
        error: NOT_FOUND: `rules.mdx` is not in the working set
        hint: did you mean `rules.md`?
        ",
    );
    small().refuses(
        &[
            "working-set",
            "adjust",
            "zzz",
            "--priority",
            "0.1",
            "--why",
            "x",
        ],
        2,
        "
        error: NOT_FOUND: `zzz` is not in the working set
        hint: `contexture working-set list` shows what is
        ",
    );
}

#[test]
fn adding_a_file_that_is_not_there() {
    small().refuses_actions(
        "
        action: add_to_working_set
        path: gone.md
        priority: 0.5
        why: it was there
        ",
        "error: NOT_FOUND: there is no file `gone.md`\n",
    );
}

#[test]
fn adding_a_path_outside_the_root() {
    let outside = Project::new().file("o.md", "from outside\n");
    let project = small().link("out.md", outside.path("o.md"));
    for (path, why) in [
        (
            "../b.md",
            "`../b.md` holds `..`, which could lead out of the root",
        ),
        (
            "/etc/passwd",
            "`/etc/passwd` is absolute; paths are relative to the root",
        ),
        ("out.md", "`out.md` leads out of the root through a link"),
    ] {
        project.refuses_actions(
            &format!("action: add_to_working_set\npath: {path}\npriority: 0.5\nwhy: x\n"),
            &format!(
                "error: PERMISSION_DENIED: {why}\n\
                 hint: only files below the root can be in the working set\n"
            ),
        );
    }
}

#[test]
fn the_model_may_not_touch_what_is_pinned() {
    for action in ["remove_from_working_set", "adjust_priority\npriority: 0.1"] {
        small().refuses_actions(
            &format!("action: {action}\npath: ./rules.md\nwhy: in the way\n"),
            "error: PERMISSION_DENIED: `rules.md` is pinned; only a person may change it\n",
        );
    }
}

#[test]
fn an_action_with_a_bad_priority() {
    small().refuses_actions(
        "
        action: adjust_priority
        path: a.md
        priority: high
        why: x
        ",
        "error: INVALID_ARGS: actions.yml:3:11: priority: must be a number, not `high`\n",
    );
    small().refuses_actions(
        "
        action: adjust_priority
        path: a.md
        priority: 1.5
        why: x
        ",
        "error: INVALID_ARGS: priority of `a.md` must be from 0 to 1, not 1.5\n",
    );
    small().refuses_actions(
        "
        action: adjust_priority
        path: a.md
        why: x
        ",
        "error: INVALID_ARGS: actions.yml:1:1: priority: is missing\n",
    );
}

#[test]
fn an_unknown_action_suggests_the_nearest() {
    small().refuses_actions(
        "
        action: add_to_workingset
        path: b.md
        priority: 0.5
        why: x
        ",
        "error: INVALID_ARGS: actions.yml:1:9: action: unknown action `add_to_workingset`; \
         did you mean `add_to_working_set`? \
         (one of add_to_working_set, remove_from_working_set, adjust_priority)\n",
    );
}

#[test]
fn an_action_with_an_unknown_field() {
    small().refuses_actions(
        "
        action: add_to_working_set
        path: b.md
        priority: 0.5
        prio: 0.6
        why: x
        ",
        "error: INVALID_ARGS: actions.yml:4:1: prio: unknown field `prio`; did you mean `priority`? \
         (one of action, path, priority, why, role, truncate_strategy, max_lines)\n",
    );
}

#[test]
fn an_action_with_a_bad_role_is_told_by_its_own_line() {
    // Not by a line of the manifest, which was never written.
    small().refuses_actions(
        "
        action: add_to_working_set
        path: b.md
        priority: 0.5
        role: sytem
        why: x
        ",
        "error: INVALID_ARGS: actions.yml:4:7: role: unknown role `sytem`; did you mean `system`? \
         (one of system, developer, user, context)\n",
    );
}

#[test]
fn an_actions_file_that_holds_none() {
    let hint =
        "hint: write `action`, `path`, `priority` and `why`; see `contexture working-set --help`";
    small().refuses_actions(
        "",
        &format!("error: INVALID_ARGS: actions.yml holds no action\n{hint}\n"),
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
fn nothing_is_applied_when_the_last_of_several_is_bad() {
    small().refuses_actions(
        "
        action: add_to_working_set
        path: b.md
        priority: 0.7
        why: found it
        ---
        action: adjust_priority
        path: a.md
        priority: 0.9
        why: more relevant
        ---
        action: remove_from_working_set
        path: gone.md
        why: not needed
        ",
        "
        error: NOT_FOUND: `gone.md` is not in the working set
        hint: `contexture working-set list` shows what is
        ",
    );
}

#[test]
fn too_many_actions_in_a_call() {
    small()
        .file("contexture.toml", "[limits]\nmax_actions = 1\n")
        .refuses_actions(
            "
        - {action: add_to_working_set, path: b.md, priority: 0.7, why: x}
        - {action: remove_from_working_set, path: a.md, why: x}
        ",
            "
        error: QUOTA_EXCEEDED: 2 actions in one call, 1 are allowed
        hint: send fewer at a time, or raise limits.max_actions in contexture.toml
        ",
        );
}

#[test]
fn too_many_entries() {
    small()
        .file("contexture.toml", "[limits]\nmax_entries = 2\n")
        .refuses_actions(
            "
        action: add_to_working_set
        path: b.md
        priority: 0.7
        why: x
        ",
            "
        error: QUOTA_EXCEEDED: the working set may hold 2 entries
        hint: remove some first, or raise limits.max_entries in contexture.toml
        ",
        );
}

#[test]
fn a_manifest_that_is_a_link_is_not_replaced() {
    let project = small();
    fs::rename(project.path("working-set.yml"), project.path("real.yml")).unwrap();
    project.link("working-set.yml", "real.yml").refuses(
        &[
            "working-set",
            "add",
            "b.md",
            "--priority",
            "0.5",
            "--why",
            "x",
        ],
        2,
        "
        error: working-set.yml is a symbolic link
        hint: name the file it points to
        ",
    );
}

#[test]
fn a_model_can_neither_pin_a_file_nor_speak_as_the_operator() {
    let project = small().file("never.md", "never\n").entries(
        "
        rules.md 1.0 role=system truncate_strategy=never
        never.md 0.5 truncate_strategy=never
        ",
    );
    for (action, why) in [
        (
            "{action: add_to_working_set, path: b.md, priority: 1.0, truncate_strategy: never, why: x}",
            "`b.md` would be pinned",
        ),
        (
            "{action: add_to_working_set, path: b.md, priority: 0.5, role: system, why: x}",
            "`b.md` would speak in another role",
        ),
        (
            "{action: adjust_priority, path: never.md, priority: 1.0, why: x}",
            "`never.md` would be pinned",
        ),
    ] {
        project.write("actions.yml", action);
        let expected = format!("error: PERMISSION_DENIED: {why}; only a person may do that\n");
        project.refuses(&["working-set", "apply", "actions.yml"], 2, &expected);
    }
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

#[test]
fn two_actions_together_do_not_pin_a_file_either() {
    let project = small();
    project.write(
        "actions.yml",
        "{action: add_to_working_set, path: b.md, priority: 0.9, truncate_strategy: never, why: x}\n\
         ---\n{action: adjust_priority, path: b.md, priority: 1.0, why: x}\n",
    );
    project.refuses(
        &["working-set", "apply", "actions.yml"],
        2,
        "error: PERMISSION_DENIED: `b.md` would be pinned; only a person may do that\n",
    );
}
