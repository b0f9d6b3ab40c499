//! `session pin`, `pins` and `unpin`.

use super::*;

#[test]
fn texts_files_and_turns_are_pinned() {
    let project = project().file("rules.md", "Keep the API.\n").file(
        "turn.json",
        r#"{"messages":[{"role":"user","content":"Why?"},{"role":"assistant","content":"So."}]}"#,
    );
    project.ok(&["session", "new", "s"]);
    project.ok(&["session", "record", "s", "turn.json", "--now", NOW]);
    let pin = |args: &[&str]| {
        let mut all = vec!["session", "pin", "s", "--now", NOW];
        all.extend(args);
        project.ok(&all)
    };
    assert_eq!(
        project.ok(&["session", "pins", "s"]),
        "session s has no pins\n"
    );
    assert_eq!(pin(&["Be brief."]), "pinned pin-1 to session s\n");
    assert_eq!(
        pin(&["--file", "rules.md", "--name", "api"]),
        "pinned api to session s\n"
    );
    assert_eq!(
        pin(&["--turn", "1", "--name", "api"]),
        "replaced pin api of session s: revision 2\n"
    );
    let listed = json_of(&project, &["session", "pins", "s"]);
    assert_eq!(listed[0]["text"], "Be brief.");
    assert_eq!(listed[1]["text"], "Why?\n\nSo.");
    assert!(listed[1]["origin"].as_str().unwrap().starts_with("turn "));
    let revisions = project.ok(&["session", "pins", "s", "--revisions", "api"]);
    assert!(
        revisions.contains("file rules.md  Keep the API."),
        "{revisions}"
    );
    let sent = project.ok(&[
        "assemble",
        "--recipe",
        "broker",
        "--session",
        "s",
        "--event",
        "Now?",
    ]);
    assert!(sent.contains("path=\"pin:pin-1\">\nBe brief.\n"), "{sent}");
    assert_eq!(
        project.ok(&["session", "unpin", "s", "api"]),
        "removed pin api of session s\n"
    );
    let sent = project.ok(&[
        "assemble",
        "--recipe",
        "broker",
        "--session",
        "s",
        "--event",
        "Now?",
    ]);
    assert!(!sent.contains("pin:api"), "{sent}");
}

#[test]
fn bad_pins_are_usage_errors() {
    let project = project();
    project.ok(&["session", "new", "s"]);
    for (args, expected) in [
        (&["session", "pin", "s"][..], "required"),
        (
            &["session", "pin", "s", "a", "--turn", "1"],
            "cannot be used with",
        ),
        (&["session", "pin", "s", "  "], "text: is empty"),
        (&["session", "pin", "s", "--turn", "7"], "has no turn 7"),
        (&["session", "pin", "s", "--file", "none.md"], "none.md"),
        (&["session", "pin", "nobody", "a"], "nobody"),
        (&["session", "unpin", "s", "x"], "there is no pin `x`"),
        (
            &["session", "pins", "s", "--revisions", "x"],
            "there is no pin `x`",
        ),
    ] {
        let run = project.run(args);
        run.expect_code(2);
        assert!(run.err.contains(expected), "{args:?}: {}", run.err);
    }
}
