//! `assemble`: hints.

use super::*;

#[test]
fn hints_move_priorities_and_get_their_verdict() {
    let project = Project::new()
        .file("hot.md", "hot\n")
        .file("cold.md", "cold\n")
        .file("both.md", "both\n")
        .file("plain.md", "plain\n")
        .file("rules.md", "rules\n")
        .file(
            "hot.yml",
            dedent(
                "
            keep:
              - path: hot.md
                why: the bug is here
                since: 2026-01-01T00:00:00Z
                touches: 5
              - path: both.md
                touches: 5
              - path: unlisted.md
            ",
            ),
        )
        .file(
            "cold.yml",
            dedent(
                "
            evict:
              - path: cold.md
                why: old
                last_touch: 2026-01-01T00:00:00Z
                suggested_action: remove
              - path: both.md
              - path: rules.md
              - path: gone.md
            ",
            ),
        )
        .entries(
            "
            hot.md   0.5
            cold.md  0.5
            both.md  0.5
            plain.md 0.5
            rules.md 1.0 truncate_strategy=never
            ",
        );
    let (prompt, report) = project.assemble(&[]);
    assert!(prompt.contains("\nCache hints: hot.yml, cold.yml\n"));
    let priority = |id: &str| row(&report, id)["priority"].as_f64().unwrap();
    assert!(
        0.5 < priority("hot.md") && priority("hot.md") <= 0.7,
        "{}",
        priority("hot.md")
    );
    assert!(
        0.3 <= priority("cold.md") && priority("cold.md") < 0.5,
        "{}",
        priority("cold.md")
    );
    assert_eq!(row(&report, "hot.md")["base_priority"], 0.5);
    assert_eq!(priority("plain.md"), 0.5);
    assert!(row(&report, "plain.md")["base_priority"].is_null());
    let verdicts: BTreeMap<(&str, &str), &str> = report["hints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hint| {
            (
                (text(&hint["path"]), text(&hint["list"])),
                text(&hint["verdict"]),
            )
        })
        .collect();
    assert_eq!(
        verdicts.into_iter().collect::<Vec<_>>(),
        [
            (("both.md", "hot"), "promoted"),
            (("cold.md", "cold"), "deferred"),
            (("gone.md", "cold"), "deferred"),
            (("hot.md", "hot"), "honored"),
            (("rules.md", "cold"), "overridden"),
            (("unlisted.md", "hot"), "deferred"),
        ]
    );
    let log = project.read(".contexture/sessions/default/events.jsonl");
    assert_eq!(
        parsed(log.lines().next().unwrap())["hints"]
            .as_array()
            .unwrap()
            .len(),
        6
    );
}

#[test]
fn being_on_the_hot_list_alone_raises_a_priority() {
    // `touches` need not be given; the scaffold promises that a listed file gains.
    let project = Project::new()
        .file("a.md", "alpha\n")
        .file(
            "hot.yml",
            "keep:\n  - path: a.md\n    why: the bug is here\n",
        )
        .entries("a.md 0.5");
    let (_, report) = project.assemble(&[]);
    let priority = row(&report, "a.md")["priority"].as_f64().unwrap();
    assert!(priority > 0.5, "{priority}");
}

#[test]
fn a_misspelt_field_of_a_hint_is_a_warning() {
    let project = Project::new()
        .file("a.md", "alpha\n")
        .file("hot.yml", "keep:\n  - path: a.md\n    toches: 5\n")
        .entries("a.md 0.5");
    let run = project.run(&["assemble"]);
    run.expect_code(0);
    run.says("warning: hot.yml:3: unknown field `keep[0].toches` is ignored");
}
