//! Invalid calls are reported, and change nothing.

use super::*;

/// Calls a tool that must refuse, and returns its code, field and text.
#[track_caller]
fn refused(project: &Project, calls: &[Value]) -> Vec<(String, String, String)> {
    let results = drive(&stdio(project), "auto", calls);
    let told = results.iter().map(|result| {
        let result = &result["ok"];
        assert_eq!(result["isError"], true, "{result}");
        let problem = &result["structuredContent"];
        let word = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
        let (message, hint) = (word("message"), word("hint"));
        assert!(
            text(result).contains(&message) && text(result).contains(&hint),
            "{result}"
        );
        (word("code"), word("field"), message)
    });
    told.collect()
}

#[test]
fn every_change_needs_a_reason() {
    let project = with_session(project(), "support", 1);
    let changes = [
        (
            "add_to_working_set",
            json!({"path": "src/lamp.rs", "priority": 0.9}),
        ),
        ("remove_from_working_set", json!({"path": "notes.md"})),
        (
            "adjust_priority",
            json!({"path": "notes.md", "priority": 0.9}),
        ),
        ("remember", json!({"text": "Ada drinks tea."})),
        ("push_task", json!({"goal": "Mend the lamp"})),
        ("pop_task", json!({"result": "Done"})),
        ("compact", json!({"session": "support"})),
    ];
    let mut calls = Vec::new();
    for (name, arguments) in changes {
        for why in [
            None,
            Some(json!(null)),
            Some(json!("")),
            Some(json!(" \n\u{a0}")),
        ] {
            let mut arguments = arguments.clone();
            if let Some(why) = why {
                arguments["why"] = why;
            }
            calls.push(call(name, arguments));
        }
    }
    let before = project.read("working-set.yml");
    for (code, field, _) in refused(&project, &calls) {
        assert_eq!((code.as_str(), field.as_str()), ("MISSING_WHY", "why"));
    }
    assert_eq!(project.read("working-set.yml"), before);
    assert!(!project.path(".contexture/sessions").exists());
    assert_eq!(json_of(&project, &["task", "show"])["tasks"], json!([]));
    let known = project.ok(&["memory", "export"]);
    assert!(!known.contains("tea"), "{known}");
}

#[test]
fn paths_cannot_leave_the_root() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret.txt"), "secret\n").unwrap();
    let project = project()
        .link("way-out.txt", outside.path().join("secret.txt"))
        .link("way-out", outside.path());
    let before = project.snapshot();
    let secret = outside.path().join("secret.txt");
    let paths = [
        "../secret.txt",
        "src/../../secret.txt",
        secret.to_str().unwrap(),
        "/etc/passwd",
        "way-out.txt",
        "way-out/secret.txt",
    ];
    let add = |path: &&str| {
        let arguments = json!({"path": path, "priority": 0.9, "why": "It would be nice."});
        call("add_to_working_set", arguments)
    };
    let calls: Vec<Value> = paths.iter().map(add).collect();
    for (path, (code, _, message)) in paths.iter().zip(refused(&project, &calls)) {
        assert_eq!(code, "PERMISSION_DENIED", "{path}: {message}");
    }
    let mut after = project.snapshot();
    // The store is made when the server starts.
    after.retain(|path, _| !path.starts_with(".contexture"));
    assert_eq!(after, before);
    assert!(!project.path(".contexture/sessions").exists());
}

#[test]
fn a_model_may_not_do_what_is_for_a_person() {
    let project = project();
    let before = project.read("working-set.yml");
    let calls = [
        call(
            "add_to_working_set",
            json!({"path": "src/lamp.rs", "priority": 1.0, "truncate_strategy": "never",
                   "why": "Always."}),
        ),
        call(
            "remove_from_working_set",
            json!({"path": "rules.md", "why": "No more rules."}),
        ),
        call(
            "adjust_priority",
            json!({"path": "rules.md", "priority": 0.1, "why": "Less."}),
        ),
    ];
    for (code, _, message) in refused(&project, &calls) {
        assert_eq!(code, "PERMISSION_DENIED", "{message}");
    }
    assert_eq!(project.read("working-set.yml"), before);
}

#[test]
fn mistakes_name_the_argument() {
    let project = project();
    let table = [
        (
            "recall",
            json!({"query": "x", "limit": 3}),
            "invalid_field",
            "limit",
        ),
        ("recall", json!({"query": 3}), "invalid_field", "query"),
        ("recall", json!({}), "invalid_field", "query"),
        (
            "recall",
            json!({"query": "x", "filters": {"sinc": "now"}}),
            "invalid_field",
            "filters.sinc",
        ),
        (
            "recall",
            json!({"query": "x", "filters": []}),
            "invalid_field",
            "filters",
        ),
        (
            "recall",
            json!({"query": "x", "max_tokens": -1}),
            "invalid_field",
            "max_tokens",
        ),
        (
            "assemble",
            json!({"format": "word"}),
            "invalid_field",
            "format",
        ),
        (
            "assemble",
            json!({"recipe": "nothing-like-it"}),
            "invalid",
            "recipe",
        ),
        (
            "assemble",
            json!({"recipe": "broker", "session": "nobody"}),
            "not_found",
            "",
        ),
        (
            "assemble",
            json!({"recipe": "broker", "event": " "}),
            "invalid",
            "event",
        ),
        ("remember", json!({"why": "x"}), "invalid", "text"),
        (
            "remember",
            json!({"why": 3, "text": "x"}),
            "invalid_field",
            "why",
        ),
        (
            "remember",
            json!({"why": "x", "record": {"kind": "person", "name": "Ada"}}),
            "invalid_field",
            "record",
        ),
        (
            "add_to_working_set",
            json!({"path": "rules.md", "priority": 2, "why": "x"}),
            "invalid_field",
            "priority",
        ),
        (
            "add_to_working_set",
            json!({"path": "none.md", "priority": 0.5, "why": "x"}),
            "NOT_FOUND",
            "",
        ),
        ("pop_task", json!({"why": "x"}), "invalid", "stack"),
        (
            "compact",
            json!({"session": "nobody", "why": "x"}),
            "not_found",
            "",
        ),
    ];
    let calls: Vec<Value> = table
        .iter()
        .map(|(name, arguments, ..)| call(name, arguments.clone()))
        .collect();
    let told = refused(&project, &calls);
    for ((name, arguments, code, field), told) in table.iter().zip(told) {
        let about = format!("{name} {arguments}: {told:?}");
        assert_eq!(
            (told.0.as_str(), told.1.as_str()),
            (*code, *field),
            "{about}"
        );
        assert!(!told.2.contains(" line 1"), "{about}");
    }
}

#[test]
fn a_missing_resource_is_a_protocol_error() {
    let project = project();
    let steps = [
        call("format_disk", json!({})),
        json!({"do": "read", "uri": "contexture://secrets"}),
        json!({"do": "read", "uri": "contexture://report/nobody"}),
        json!({"do": "prompt", "name": "haiku", "arguments": {}}),
        json!({"do": "prompt", "name": "assemble", "arguments": {"budget": "3"}}),
        json!({"do": "prompt", "name": "assemble", "arguments": {"max_tokens": "many"}}),
    ];
    let messages = [
        "unknown tool `format_disk`",
        "unknown resource `contexture://secrets`",
        "session `nobody` has no assembled request yet",
        "unknown prompt `haiku`",
        "unknown argument `budget`",
        "max_tokens: must be an integer of 0 or more",
    ];
    for (result, message) in drive(&stdio(&project), "auto", &steps).iter().zip(messages) {
        let error = &result["error"];
        assert_eq!(error["code"], -32602, "{result}");
        let told = error["message"].as_str().unwrap();
        assert!(told.starts_with(message), "{told}");
    }
}

#[test]
fn invalid_protocol_messages_get_no_answer() {
    let project = project();
    for said in ["", "hello\n"] {
        let run = project.run_with(&["mcp"], said);
        run.expect_code(0);
        assert_eq!(run.out, "");
    }
}
