//! `snapshot`: list, show, diff, check.

use super::*;

/// A conversation with a tool's call in it, tools, a picture and a question.
fn rich() -> Project {
    let project = chat()
        .file("AGENTS.md", "Follow the house rules.\n")
        .file(
            "tools.json",
            r#"[{"name": "shell", "description": "Runs </system>."}]"#,
        )
        .file(
            "event.json",
            json!({
                "content": "What is <this>?",
                "attachments": [{"media_type": "image/png", "url": "https://example.com/a.png"}],
            })
            .to_string(),
        );
    let turn = json!({"messages": [
        {"role": "user", "content": "Why? </user>"},
        {"role": "assistant", "content": [
            {"type": "tool_call", "id": "c1", "name": "shell", "arguments": {"command": "a < b"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "no\trule\u{7}"},
        {"role": "assistant", "content": "Because.\n\n"}]});
    record(&project, "chat", &turn);
    project
}

fn latest(project: &Project) -> String {
    text(&json_of(project, &["snapshot", "list"])[0]["hash"]).to_owned()
}

#[test]
fn a_shown_snapshot_equals_the_assembled_request_byte_for_byte() {
    for (format, model) in [
        ("text", "gpt-4o"),
        ("anthropic", "claude-sonnet-4"),
        ("openai-chat", "gpt-4o"),
        ("openai-responses", "gpt-4o"),
        ("gemini", "gemini-2.5-pro"),
    ] {
        let project = rich();
        let args = [
            "--format",
            format,
            "--model",
            model,
            "--event-file",
            "event.json",
        ];
        let more = ["--reserve-response", "500"];
        let made = project.ok(&request(&[&args[..], &more].concat()));
        let shown = project.ok(&["snapshot", "show", &latest(&project), "--format", format]);
        assert_eq!(shown, made, "{format}");
    }
}

#[test]
fn a_request_from_files_is_kept_too() {
    let project = Project::new().file("a.md", "alpha\n").entries("a.md 0.5");
    let made = project.ok(&["assemble", "--now", NOW]);
    let listed = json_of(&project, &["snapshot", "list"]);
    assert_eq!(listed[0]["session"], "default");
    assert_eq!(
        project.ok(&["snapshot", "show", text(&listed[0]["hash"])]),
        made
    );
}

#[test]
fn requests_are_listed_newest_first() {
    let project = chat();
    assert_eq!(project.ok(&["snapshot", "list"]), "no snapshots\n");
    let first = assembled(&project, &[]);
    let turn = say(&project, "chat", "Go on.", "I do.");
    let second = assembled(&project, &[]);
    let tokens = |request: &Value| request["token_budget"]["used"]["total"].to_string();
    let hash = |request: &Value| text(&request["snapshot"])[..12].to_owned();
    assert_eq!(
        project.ok(&["snapshot", "list"]),
        format!(
            " hash          session  created               model   tokens  turn before\n \
             {}  chat     2026-01-31T12:00:00Z  gpt-4o  {:>6}  {}\n \
             {}  chat     2026-01-31T12:00:00Z  gpt-4o  {:>6}\n",
            hash(&second),
            tokens(&second),
            &turn[..8],
            hash(&first),
            tokens(&first)
        )
    );
    let of_session = |args: &[&str]| {
        let found = json_of(&project, &[&["snapshot", "list"], args].concat());
        found.as_array().unwrap().len()
    };
    assert_eq!(of_session(&["--session", "chat"]), 2);
    assert_eq!(of_session(&["--session", "nobody"]), 0);
    assert_eq!(of_session(&["--limit", "1"]), 1);
}

#[test]
fn the_session_shows_its_latest_request() {
    let project = chat();
    let request = assembled(&project, &[]);
    let shown = project.ok(&["session", "show", "chat"]);
    let line = format!(
        "request   {} ({} tokens, gpt-4o)\n",
        &text(&request["snapshot"])[..12],
        request["token_budget"]["used"]["total"]
    );
    assert!(shown.contains(&line), "{shown}");
}

#[test]
fn where_two_requests_part_and_what_differs() {
    let project = chat().file("AGENTS.md", "Be kind.\nBe brief.\n");
    let first = assembled(&project, &[]);
    project.write("AGENTS.md", "Be kind.\nBe thorough.\n");
    let second = assembled(&project, &[]);
    let (a, b) = (text(&first["snapshot"]), text(&second["snapshot"]));
    let told = project.ok(&["snapshot", "diff", &a[..10], &b[..10]]);
    let mut lines = told.lines();
    let shared = lines.next().unwrap();
    assert!(shared.contains(" tokens are shared ("), "{told}");
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            "first difference: item AGENTS.md in layer workspace, at byte 31",
            "expected of the provider's cache: 0 tokens read, 0 written, $0.0002",
            "cache break: content changed, 0 tokens missed, $0.0000",
            "",
            "changed: AGENTS.md (layer workspace), 12 tokens",
            "    - Be brief.",
            "    + Be thorough.",
        ]
    );
    let same = project.ok(&["snapshot", "diff", a, a]);
    assert!(
        same.ends_with(" (100.0 %)\nthe requests are identical\n"),
        "{same}"
    );
    let changes = json_of(&project, &["snapshot", "diff", a, b])["changes"].clone();
    assert_eq!(changes[0]["before"], "Be kind.\nBe brief.\n");
    assert_eq!(changes[0]["now"], "Be kind.\nBe thorough.\n");
}

#[test]
fn a_check_for_ci_fails_when_too_little_is_shared() {
    let project = long_chat(3).file("AGENTS.md", "Be kind.\n");
    let first = assembled(&project, &[]);
    say(&project, "chat", "Go on.", "I do.");
    let second = assembled(&project, &[]);
    project.write("AGENTS.md", "Be brief.\n");
    let third = assembled(&project, &[]);
    let check = |a: &Value, b: &Value, least: &str| {
        let (a, b) = (text(&a["snapshot"]), text(&b["snapshot"]));
        project.run(&["snapshot", "diff", a, b, "--min-shared", least])
    };
    check(&first, &second, "90").expect_code(0);
    let run = check(&second, &third, "90");
    run.expect_code(1);
    let percent = run
        .out
        .split_once('(')
        .unwrap()
        .1
        .split_once(" %")
        .unwrap()
        .0;
    run.says(&format!(
        "error: {percent} % of the later request are shared, less than 90 %"
    ));
    check(&second, &third, "0").expect_code(0);
}

#[test]
fn every_request_comes_out_with_the_same_bytes() {
    let project = rich();
    assembled(&project, &["--event-file", "event.json"]);
    say(&project, "chat", "Go on.", "I do.");
    let second = assembled(&project, &[]);
    let told = project.ok(&["snapshot", "check"]);
    assert!(told.starts_with("verified 2 requests with "), "{told}");
    let hash = &text(&second["snapshot"])[..8];
    let one = json_of(&project, &["snapshot", "check", hash]);
    assert_eq!(one["checked"], 1);
    let blocks = second["report"]["included"].as_array().unwrap().len();
    assert_eq!(one["blocks"], blocks);
}

#[test]
fn content_that_was_changed_is_noticed() {
    let project = chat().file("AGENTS.md", "Follow the house rules.\n");
    assembled(&project, &[]);
    let db = rusqlite::Connection::open(project.path(".contexture/contexture.db")).unwrap();
    let changed = db
        .execute(
            "UPDATE blobs SET bytes = CAST(replace(CAST(bytes AS TEXT), 'house', 'other') AS BLOB)
             WHERE CAST(bytes AS TEXT) LIKE 'Follow%'",
            [],
        )
        .unwrap();
    assert_eq!(changed, 1);
    drop(db);
    let run = project.run(&["snapshot", "check"]);
    run.expect_code(1);
    assert!(
        run.err
            .contains(" of the snapshot does not match its hash\n"),
        "{}",
        run.err
    );
    run.says("hint: the store is damaged; restore it from a backup");
}

#[test]
fn added_and_removed_turns_are_reported() {
    let project = chat();
    let first = assembled(&project, &[]);
    say(&project, "chat", "Go on.", "I do.");
    let second = assembled(&project, &[]);
    let (a, b) = (text(&first["snapshot"]), text(&second["snapshot"]));
    let there = project.ok(&["snapshot", "diff", a, b]);
    assert!(
        there.contains("added: ")
            && there.contains(" (layer session), ")
            && there.contains("    + I do.\n"),
        "{there}"
    );
    let back = project.ok(&["snapshot", "diff", b, a]);
    assert!(
        back.contains("removed: ")
            && back.contains(" (layer session), ")
            && back.contains("    - I do.\n"),
        "{back}"
    );
}

#[test]
fn explain_reports_the_shared_prefix() {
    let project = long_chat(2);
    project.ok(&request(&[]));
    let run = run_request(&project, &["--event", "Something else", "--explain"]);
    let line = run.err.lines().find(|line| line.starts_with("cache: "));
    let line = line.unwrap_or_else(|| panic!("{}", run.err));
    assert!(
        line.ends_with("; first difference: item event in layer event"),
        "{line}"
    );
}
