//! The changes of the working set that a model may make, and the errors for
//! others.

use crate::support::Lab;
use contexture::working_set::Quota;
use contexture::working_set::actions::{Actor, Target, apply, parse};

const MANIFEST: &str = "protocol: CONTEXT-ASSEMBLY/0.1\nfiles:\n\
    - {path: rules.md, priority: 1.0, role: system, truncate_strategy: never}\n\
    - {path: a.md, priority: 0.5}\n- {path: never.md, priority: 0.5, truncate_strategy: never}\n";

fn project() -> Lab {
    let lab = Lab::new("");
    lab.write("working-set.yml", MANIFEST);
    for name in ["rules.md", "a.md", "b.md", "never.md"] {
        lab.write(name, "text\n");
    }
    lab
}

/// Applies a model's actions, which must be rejected and change nothing, and
/// returns the error with its hint.
fn refused(lab: &Lab, actions: &str, max_entries: usize, max_actions: usize) -> String {
    let target = Target {
        root: &lab.root,
        manifest: "working-set.yml",
        session: None,
        quota: Quota {
            max_entries,
            max_actions,
        },
        now: lab.tick(),
    };
    let done =
        parse("actions.yml", actions).and_then(|actions| apply(target, &actions, Actor::Model));
    let error = done.unwrap_err();
    assert!(error.is_input(), "{error}");
    let manifest = std::fs::read_to_string(lab.dir.path().join("working-set.yml"));
    assert_eq!(manifest.unwrap(), MANIFEST);
    match error.hint(&contexture::advice::Plain).as_deref() {
        Some(hint) => format!("{error}\nhint: {hint}"),
        None => error.to_string(),
    }
}

#[test]
fn invalid_actions_are_rejected() {
    let lab = project();
    let why = "MISSING_WHY: the change to `b.md` has no reason\nhint: set `why` to the reason \
               for the change";
    let list = "hint: `get_working_set` lists the files";
    let root = "hint: only files below the root can be in the working set";
    let pinned = "PERMISSION_DENIED: `rules.md` is pinned; only a person can change it";
    for (actions, message) in [
        (
            "{action: add_to_working_set, path: b.md, priority: 0.7}",
            why,
        ),
        (
            "{action: add_to_working_set, path: b.md, priority: 0.7, why: \" \\t \"}",
            why,
        ),
        (
            "{action: add_to_working_set, path: b.md, priority: 0.7, why: \"\\u200b\\u2060\"}",
            why,
        ),
        (
            "{action: remove_from_working_set, path: rules.mdx, why: x}",
            "NOT_FOUND: `rules.mdx` is not in the working set\nhint: did you mean `rules.md`?",
        ),
        (
            "{action: adjust_priority, path: zzz, priority: 0.1, why: x}",
            &format!("NOT_FOUND: `zzz` is not in the working set\n{list}"),
        ),
        (
            "{action: add_to_working_set, path: gone.md, priority: 0.5, why: x}",
            "NOT_FOUND: file `gone.md` does not exist",
        ),
        (
            "{action: add_to_working_set, path: ../b.md, priority: 0.5, why: x}",
            &format!(
                "PERMISSION_DENIED: `../b.md` contains `..`, which can leave the root; use a \
                 path below the root\n{root}"
            ),
        ),
        (
            "{action: add_to_working_set, path: /etc/passwd, priority: 0.5, why: x}",
            &format!(
                "PERMISSION_DENIED: `/etc/passwd` is absolute; use a path relative to the \
                 root\n{root}"
            ),
        ),
        (
            "{action: remove_from_working_set, path: ./rules.md, why: x}",
            pinned,
        ),
        (
            "{action: adjust_priority, path: ./rules.md, priority: 0.1, why: x}",
            pinned,
        ),
        (
            "{action: add_to_working_set, path: b.md, priority: 1.0, truncate_strategy: never, \
             why: x}",
            "PERMISSION_DENIED: `b.md` would be pinned; only a person can do that",
        ),
        (
            "{action: add_to_working_set, path: b.md, priority: 0.5, role: system, why: x}",
            "PERMISSION_DENIED: `b.md` would get another role; only a person can do that",
        ),
        (
            "{action: adjust_priority, path: never.md, priority: 1.0, why: x}",
            "PERMISSION_DENIED: `never.md` would be pinned; only a person can do that",
        ),
        // Nor two together.
        (
            "{action: add_to_working_set, path: b.md, priority: 0.9, truncate_strategy: never, \
             why: x}\n---\n{action: adjust_priority, path: b.md, priority: 1.0, why: x}",
            "PERMISSION_DENIED: `b.md` would be pinned; only a person can do that",
        ),
        (
            "{action: adjust_priority, path: a.md, priority: 1.5, why: x}",
            "INVALID_ARGS: priority of `a.md` must be from 0 to 1, not 1.5",
        ),
        (
            "action: adjust_priority\npath: a.md\npriority: high\nwhy: x",
            "INVALID_ARGS: actions.yml:3:11: priority: must be a number, not `high`",
        ),
        (
            "action: adjust_priority\npath: a.md\nwhy: x",
            "INVALID_ARGS: actions.yml:1:1: priority: is missing",
        ),
        (
            "action: add_to_workingset\npath: b.md\npriority: 0.5\nwhy: x",
            "INVALID_ARGS: actions.yml:1:9: action: unknown action `add_to_workingset`; did you \
             mean `add_to_working_set`? (one of add_to_working_set, remove_from_working_set, \
             adjust_priority)",
        ),
        (
            "action: add_to_working_set\npath: b.md\npriority: 0.5\nprio: 0.6\nwhy: x",
            "INVALID_ARGS: actions.yml:4:1: prio: unknown field `prio`; did you mean `priority`? \
             (one of action, path, priority, why, role, truncate_strategy, max_lines, max_tokens)",
        ),
        // By its own line, not by one of the manifest, which was never written.
        (
            "action: add_to_working_set\npath: b.md\npriority: 0.5\nrole: sytem\nwhy: x",
            "INVALID_ARGS: actions.yml:4:7: role: unknown role `sytem`; did you mean `system`? \
             (one of system, developer, user, context)",
        ),
        // Nothing is applied when the last of several is bad.
        (
            "{action: add_to_working_set, path: b.md, priority: 0.7, why: x}\n---\n\
             {action: remove_from_working_set, path: zzz, why: x}",
            &format!("NOT_FOUND: `zzz` is not in the working set\n{list}"),
        ),
    ] {
        assert_eq!(refused(&lab, actions, 9, 9), message, "{actions}");
    }
}

#[test]
fn there_are_limits() {
    let two = "- {action: add_to_working_set, path: b.md, priority: 0.7, why: x}\n\
               - {action: remove_from_working_set, path: a.md, why: x}";
    assert_eq!(
        refused(&project(), two, 9, 1),
        "QUOTA_EXCEEDED: 2 actions in one call; the limit is 1\nhint: send fewer at a time, or \
         raise limits.max_actions in contexture.toml"
    );
    let add = "{action: add_to_working_set, path: b.md, priority: 0.7, why: x}";
    assert_eq!(
        refused(&project(), add, 3, 9),
        "QUOTA_EXCEEDED: the working set is full: the limit is 3 entries\nhint: remove some \
         first, or raise limits.max_entries in contexture.toml"
    );
}

#[test]
fn every_refusal_of_a_batch_is_reported() {
    let lab = project();
    let why = "hint: set `why` to the reason for the change";
    for (actions, message) in [
        (
            "- {action: add_to_working_set, path: gone.md, priority: 0.5, why: x}\n\
             - {action: add_to_working_set, path: b.md, priority: 0.7}\n\
             - {action: remove_from_working_set, path: zzz, why: x}",
            "MISSING_WHY: the change to `b.md` has no reason; also NOT_FOUND: file `gone.md` \
             does not exist; also NOT_FOUND: `zzz` is not in the working set",
        ),
        // An unreadable action does not hide a missing reason, either.
        (
            "- {action: adjust_priority, path: a.md, priority: high, why: x}\n\
             - {action: add_to_working_set, path: b.md, priority: 0.7}",
            "MISSING_WHY: the change to `b.md` has no reason; also INVALID_ARGS: \
             actions.yml:1:51: priority: must be a number, not `high`",
        ),
    ] {
        assert_eq!(refused(&lab, actions, 9, 9), format!("{message}\n{why}"));
    }
}

#[test]
fn the_example_of_the_protocol_is_accepted() {
    let example = "# Add file to working set\naction: add_to_working_set\npath: \"b.md\"\n\
        priority: 0.7\nwhy: \"Found relevant documentation\"\n\n\
        # Remove file from working set\naction: remove_from_working_set\npath: \"a.md\"\n\
        why: \"Task complete, don't need this\"\n\n\
        # Adjust priority\naction: adjust_priority\npath: \"never.md\"\npriority: 0.9\n\
        why: \"This is more relevant than initially thought\"\n";
    for text in [example.to_owned(), format!("```yaml\n{example}```\n")] {
        let actions = parse("actions.yml", &text).unwrap();
        let paths: Vec<&str> = actions.iter().map(|action| action.path.as_str()).collect();
        assert_eq!(paths, ["b.md", "a.md", "never.md"]);
    }
    // Messages still name the line.
    let wrong = example.replace("priority: 0.9", "priority: high");
    let error = parse("actions.yml", &wrong).unwrap_err().to_string();
    assert!(error.contains("actions.yml:15:11: priority"), "{error}");
}
