//! `contexture fetch` prints what a cut left out.

use super::*;

/// Records a tool result of 400 lines and returns its handle.
fn printed(project: &Project) -> String {
    let lines: Vec<String> = (1..=400)
        .map(|i| format!("INFO step {i} of the build is done, all is well"))
        .collect();
    let mut lines = lines;
    lines[200] = "error: cannot find function `foo`".to_owned();
    let turn = json!({"messages": [
        {"role": "user", "content": "Build it."},
        {"role": "assistant", "content": [
            {"type": "tool_call", "id": "c1", "name": "shell", "arguments": {"command": "make"}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": lines.join("\n")},
        {"role": "assistant", "content": "It fails."},
    ]});
    record(project, "chat", &turn);
    let request = project.ok(&request(&["--max-tokens", "16000"]));
    assert!(
        request.contains("\nerror: cannot find function `foo`\n"),
        "{request}"
    );
    let marker = request.split("; fetch ").nth(1).unwrap();
    marker.split(' ').next().unwrap().to_owned()
}

#[test]
fn content_named_in_a_marker_is_printed() {
    let project = chat();
    let handle = printed(&project);
    assert!(handle.starts_with("sha256:"), "{handle}");
    let fetch = |args: &[&str]| {
        let args: Vec<&str> = ["fetch", &handle].iter().chain(args).copied().collect();
        project.run(&args)
    };
    let some = fetch(&["--lines", "200-202"]);
    assert_eq!(
        some.out,
        "INFO step 200 of the build is done, all is well\n\
         error: cannot find function `foo`\n\
         INFO step 202 of the build is done, all is well\n"
    );
    assert_eq!(
        fetch(&["--grep", "error|step 7 "]).out,
        "7: INFO step 7 of the build is done, all is well\n\
         201: error: cannot find function `foo`\n"
    );
    let first = fetch(&["--max-bytes", "100"]);
    assert_eq!(first.out.lines().count(), 2);
    assert_eq!(
        first.err,
        "this is up to line 2 of 400; continue with --lines 3-\n"
    );
    assert_eq!(fetch(&["--max-bytes", "0"]).out.lines().count(), 400);
    let none = fetch(&["--grep", "zzz"]);
    assert_eq!(
        (none.out.as_str(), none.err.as_str()),
        ("", "no line matches\n")
    );
}

#[test]
fn a_wrong_call_says_what_to_do() {
    let project = chat();
    let handle = printed(&project);
    for (args, expected) in [
        (
            vec!["12"],
            "error: handle: `12` is not a handle; use `sha256:` and at least 8 digits",
        ),
        (
            vec!["sha256:000000000000"],
            "error: there is no tool result `sha256:000000000000`",
        ),
        (
            vec![&handle, "--lines", "500-"],
            "error: lines: line 500 does not exist",
        ),
        (
            vec![&handle, "--jq", ".a"],
            "error: jq: the tool result is not JSON",
        ),
        (
            vec![&handle, "--grep", "["],
            "error: grep: `[` is not a regular expression",
        ),
    ] {
        let args: Vec<&str> = ["fetch"].into_iter().chain(args).collect();
        let run = project.run(&args);
        run.expect_code(2);
        assert!(run.err.contains(expected), "{}", run.err);
    }
}
