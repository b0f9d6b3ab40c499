//! Conversations in, summaries out.
#![allow(clippy::unwrap_used)]

use contexture_history::facts::{Facts, Passage, Speaker, SummaryLimits};
use contexture_tokens::{Encoding, OpenAi};

/// Reads `speaker [tool]: text` from each line. Further lines of a text are
/// indented by four spaces. A turn begins with each line `turn N`; without such a
/// line all messages are of turn 1.
fn facts(script: &str) -> Facts {
    let mut entries: Vec<(Speaker, String, u64, Option<String>)> = Vec::new();
    let mut turn = 1;
    for line in script.lines().filter(|line| !line.is_empty()) {
        if let Some(more) = line.strip_prefix("    ") {
            let text = &mut entries.last_mut().unwrap().1;
            text.push('\n');
            text.push_str(more);
            continue;
        }
        if let Some(number) = line.strip_prefix("turn ") {
            turn = number.parse().unwrap();
            continue;
        }
        let (head, text) = line.split_once(':').unwrap();
        let (speaker, tool) = head.split_once(' ').unwrap_or((head, ""));
        let speaker = match speaker {
            "user" => Speaker::User,
            "assistant" => Speaker::Assistant,
            "call" => Speaker::ToolCall,
            "result" => Speaker::ToolResult,
            other => panic!("{other}"),
        };
        let tool = Some(tool.to_owned()).filter(|tool| !tool.is_empty());
        entries.push((speaker, text.trim_start().to_owned(), turn, tool));
    }
    let passages: Vec<Passage<'_>> = (entries.iter())
        .map(|(speaker, text, turn, tool)| Passage {
            speaker: *speaker,
            text,
            failed: false,
            turn: *turn,
            tool: tool.as_deref(),
            call: None,
        })
        .collect();
    let mut facts = Facts::default();
    facts.read(&passages);
    facts
}

fn written(facts: &Facts, tokens: u64, messages: u64) -> String {
    let counter = OpenAi::new(Encoding::O200k);
    facts.write(&SummaryLimits {
        tokens,
        messages,
        focus: None,
        counter: &counter,
    })
}

/// Checks the summary of a conversation.
fn check(script: &str, expected: &str) {
    let text = written(&facts(script), 1_200, 800);
    assert_eq!(text.trim(), expected.trim(), "{text}");
}

#[test]
fn a_call_whose_result_is_an_error_did_nothing_to_the_file() {
    check(
        r#"
call edit: {"path": "src/a.ts"}
result: Error: oldText not found in src/a.ts. The text must match exactly.
call edit: {"path": "src/b.ts"}
result: The user doesn't want to proceed with this tool use. The tool use was rejected.
call edit: {"path": "src/c.ts"}
result: [Request interrupted by user]
call write: {"path": "src/d.ts"}
result: EACCES: permission denied, open 'src/d.ts'
call read: {"path": "src/e.ts"}
result: ENOENT: no such file or directory, open 'src/e.ts'
call read: {"path": "src/f.ts"}
result: File does not exist.
call bash: {"command": "ls src/g.ts"}
result: ls: cannot access 'src/g.ts': No such file or directory
call bash: {"command": "grep -n x src/h.ts | head -20"}
result: grep: src/h.ts: No such file or directory
call apply_patch: {"patch": "*** Begin Patch\n*** Update File: src/i.ts\n@@\n-a\n+b\n*** End Patch"}
result: Invalid context in src/i.ts
"#,
        "
## Failed attempts
- `edit src/a.ts`: Error: oldText not found in src/a.ts. The text must match exactly.
- `edit src/b.ts`: The user doesn't want to proceed with this tool use. The tool use was rejected.
- `edit src/c.ts`: [Request interrupted by user]
- `write src/d.ts`: EACCES: permission denied, open 'src/d.ts'
- `read src/e.ts`: ENOENT: no such file or directory, open 'src/e.ts'
- `read src/f.ts`: File does not exist.
- `ls src/g.ts`: ls: cannot access 'src/g.ts': No such file or directory
- `grep -n x src/h.ts | head -20`: grep: src/h.ts: No such file or directory
- `apply_patch src/i.ts`: Invalid context in src/i.ts
## Other files that were named
- src/a.ts
- src/b.ts
- src/c.ts
- src/d.ts
- src/e.ts
- src/f.ts
- src/g.ts
- src/h.ts
- src/i.ts
",
    );
}

/// An interrupted call has no result. It may have changed its file, but not after
/// the file was deleted.
#[test]
fn a_call_without_a_result_does_not_restore_a_deleted_file() {
    let passage = |speaker, tool, text, call| Passage {
        speaker,
        text,
        failed: false,
        turn: 1,
        tool,
        call: Some(call),
    };
    let mut facts = Facts::default();
    facts.read(&[
        passage(
            Speaker::ToolCall,
            Some("edit"),
            r#"{"path": "src/a.ts"}"#,
            "c1",
        ),
        passage(
            Speaker::ToolCall,
            Some("edit"),
            r#"{"path": "src/b.ts"}"#,
            "c2",
        ),
        passage(
            Speaker::ToolCall,
            Some("bash"),
            r#"{"command": "rm src/a.ts"}"#,
            "c3",
        ),
        passage(Speaker::ToolResult, None, "", "c3"),
    ]);
    assert_eq!(
        written(&facts, 500, 100),
        "## Files\n- src/a.ts: deleted\n- src/b.ts: edited"
    );
}

/// A success may have the words of a failure, and so may the content of a file.
#[test]
fn words_of_failures_in_content_and_in_paths_are_no_failure() {
    for (call, result) in [
        (
            r#"edit: {"path": "src/error.ts"}"#,
            "The file src/error.ts has been updated.",
        ),
        (
            r#"write: {"path": "a.ts"}"#,
            "Wrote a.ts\n    error: not checked",
        ),
        (
            r#"read: {"path": "a.md"}"#,
            "Errors\n    A missing file does not exist.",
        ),
        (
            r#"read: {"path": "a.log"}"#,
            "job started\n    job exited with code 1",
        ),
        (
            r#"shell: {"command": "cat a.log"}"#,
            "app: b.txt: No such file\n    ok\n    ok\n    ok\n    ok",
        ),
        (
            r#"find_user: {"id": "1"}"#,
            r#"{"error": null, "name": "Ann"}"#,
        ),
    ] {
        let script = format!("call {call}\nresult: {result}");
        assert_eq!(facts(&script).failures, [], "{call}");
    }
}

#[test]
fn commands_say_what_they_do_to_files() {
    check(
        r#"
call bash: {"command": "find packages -name \"main.ts\" -type f"}
result: packages/agent/src/main.ts
call bash: {"command": "cat > src/k.ts <<'EOF'\nimport './other.ts'\nEOF"}
result:
call bash: {"command": "cd app && sed -i 's/a/b/' src/l.ts"}
result:
call bash: {"command": "echo hi >> src/m.ts"}
result:
call bash: {"command": "cp src/n.ts src/o.ts && git mv src/p.ts src/q.ts"}
result:
call write: {"path": "src/r.json"}
result: Wrote src/r.json
call edit: {"path": "src/r.json"}
result: ok
call bash: {"command": "rm src/r.json"}
result:
call edit: {"path": "src/s.ts"}
result: ok
call bash: {"command": "git checkout -- src/s.ts"}
result:
call bash: {"command": "cat src/t.ts src/none.ts | head -5"}
result: fn
    cat: src/none.ts: No such file or directory
call bash: {"command": "cat > /tmp/fix.py << 'EOF'\nprint(1)\nEOF\npython3 /tmp/fix.py"}
result: 1
call bash: {"command": ["bash", "-lc", "cargo test"]}
result: {"output": "test result: ok. 4 passed; 0 failed", "metadata": {"exit_code": 0}}
"#,
        "
## Done
- `cat > /tmp/fix.py << 'EOF' print(1) EOF python3 /tmp/fix.py` succeeded
- `cargo test` succeeded: test result: ok. 4 passed; 0 failed
## Files
- src/k.ts: written
- src/l.ts: edited
- src/m.ts: edited
- src/n.ts: read
- src/o.ts: written
- src/p.ts: moved to src/q.ts
- src/q.ts: written
- src/r.json: written, edited, then deleted
- src/s.ts: edited, then reverted
- src/t.ts: read
- /tmp/fix.py: written
## Other files that were named
- src/none.ts
",
    );
}

#[test]
fn a_patch_names_what_it_does_to_each_file() {
    let patch = "*** Begin Patch\n    *** Update File: src/a.rs\n    @@\n    -a\n    +b\n    \
                 *** Add File: src/b.rs\n    +x\n    *** Delete File: src/c.rs\n    \
                 *** Update File: src/d.rs\n    *** Move to: src/e.rs\n    *** End Patch";
    let failed = patch.replace(".rs", ".go");
    check(
        &format!(
            "call apply_patch: {patch}\nresult: {{\"output\":\"Success. Updated the following \
             files:\\nM src/a.rs\",\"metadata\":{{\"exit_code\":0}}}}\n\
             call apply_patch: {failed}\nresult: apply_patch verification failed: Failed to find \
             expected lines in src/a.go\n\
             call apply_patch: {{\"input\": \"*** Begin Patch\\n*** Update File: src/f.rs\\n*** End \
             Patch\"}}\nresult: Success. Updated the following files:\n    M src/f.rs"
        ),
        "
## Failed attempts
- `apply_patch src/a.go, src/b.go, src/c.go, src/d.go, src/e.go`: apply_patch verification failed: \
Failed to find expected lines in src/a.go
## Files
- src/a.rs: edited
- src/b.rs: written
- src/c.rs: deleted
- src/d.rs: moved to src/e.rs
- src/e.rs: written
- src/f.rs: edited
## Other files that were named
- src/a.go
- src/b.go
- src/c.go
- src/d.go
- src/e.go
",
    );
}

#[test]
fn arguments_that_name_a_file_have_many_spellings() {
    check(
        r#"
call read_file: {"absolute_path": "/r/src/a.go"}
result: package x
call read: {"filePath": "/r/src/b.go"}
result: package x
call read_many_files: {"paths": ["/r/src/c.go", "/r/src/d.go"]}
result: package x
call Grep: {"pattern": "foo", "path": "/r/src"}
result: Found 1 file
call delete_file: {"target_file": "/r/src/e.go"}
result: Deleted.
"#,
        "
## Files
- /r/src/a.go: read
- /r/src/b.go: read
- /r/src/c.go: read
- /r/src/d.go: read
- /r/src/e.go: deleted
## Other files that were named
- /r/src
",
    );
}

#[test]
fn a_piped_command_that_failed_and_succeeded_later_is_solved() {
    check(
        r#"
call bash: {"command": "npm run build 2>&1 | tail -3"}
result: npm error command failed
    npm error command sh -c tsc
    Waiting for the debugger to disconnect...
call bash: {"command": "cargo test 2>&1 | tail -5"}
result: test result: FAILED. 3 passed; 1 failed; 0 ignored
call bash: {"command": "make check"}
result: make: *** [check] Error 2
call bash: {"command": "go vet ./..."}
result: error: vet: broken
call bash: {"command": "npm run build 2>&1 | tail -3"}
result: > tsc -p .
    Waiting for the debugger to disconnect...
call bash: {"command": "cd app && cargo test 2>&1 | grep result"}
result: test result: ok. 4 passed; 0 failed; 0 ignored
call bash: {"command": "make check > /tmp/out.log; echo done"}
result: done
call bash: {"command": "go vet ./... | head -1"}
result: # pkg
"#,
        "
## Done
- `cargo test` succeeded: test result: ok. 4 passed; 0 failed; 0 ignored
- `make check` succeeded
## Failed attempts
- `make check`: make: *** [check] Error 2 (succeeded later)
- `go vet ./...`: error: vet: broken
- npm error command failed: `npm run build 2>&1 | tail -3` (succeeded later)
- test result: FAILED. 3 passed; 1 failed; 0 ignored: `cargo test 2>&1 | tail -5` (succeeded later)
## Files
- /tmp/out.log: written
",
    );
}

#[test]
fn calls_that_failed_for_the_same_reason_are_all_named() {
    check(
        r#"
call edit: {"path": "src/a.ts"}
result: [Request interrupted by user]
call edit: {"path": "src/b.ts"}
result: [Request interrupted by user]
call edit: {"path": "src/b.ts"}
result: [Request interrupted by user]
call edit: {"path": "src/a.ts"}
result: ok
"#,
        "
## Failed attempts
- [Request interrupted by user] 3 times: `edit src/b.ts`, `edit src/a.ts` (succeeded later)
## Files
- src/a.ts: edited
## Other files that were named
- src/b.ts
",
    );
}

#[test]
fn only_work_that_was_done_is_listed_as_done() {
    check(
        "
user: Fix the selector of the app.
assistant: I've ported the selector and removed the chalk imports. I added a retry to the client.
user: you broke it. i undid your changes, try again
assistant: I couldn't get the tests fixed. The migration of users was not created. Node.js has fs.watch() built-in. \
         The old deployment removed this flag in 2021. You already removed the logs. I renamed the client class. \
         Built-in themes aren't watched by the app. We stop the watcher of a deleted file. \
         All parser tests pass now. The cache has been added to the client.
",
        "
## Goal
The user's latest request before this point, verbatim:
you broke it. i undid your changes, try again
## Earlier messages of the user
[message 1] Fix the selector of the app.
## Done
- The assistant: I renamed the client class.
- The assistant: All parser tests pass now.
- The assistant: The cache has been added to the client.
## In progress and next
- I couldn't get the tests fixed.
- The migration of users was not created.
",
    );
}

#[test]
fn a_consent_shows_what_it_agrees_to() {
    check(
        r#"
user: Downgrade my flights.
call get_user: {"user_id": "omar"}
result: {"reservations": ["JG7FMM", "BOH180"]}
assistant: You have two reservations: JG7FMM and BOH180. I will downgrade both. Confirm?
user: yes, go ahead
call think: {"thought": "I should update the first."}
result:
call update_reservation: {"reservation_id": "JG7FMM", "cabin": "economy"}
result: {"reservation_id": "JG7FMM", "paid": -1719}
call send_payment: {"amount": 1719}
result: OK, payment id pay_77
call cancel_reservation: {"reservation_id": "QQQ111"}
result: {"success": false, "reason": "too late"}
"#,
        r#"
## Goal
The user's latest request before this point, verbatim:
yes, go ahead
It answers the assistant's message, which ended:
You have two reservations: JG7FMM and BOH180. I will downgrade both. Confirm?
## Earlier messages of the user
[message 1] Downgrade my flights.
## Done
- `update_reservation {"reservation_id":"JG7FMM","cabin":"economy"}` succeeded: {"reservation_id": "JG7FMM", "paid": -1719}
- `send_payment {"amount":1719}` succeeded: OK, payment id pay_77
## Failed attempts
- `cancel_reservation {"reservation_id":"QQQ111"}`: {"success": false, "reason": "too late"}
"#,
    );
}

/// The sections give tokens for the message, where the user's messages have few.
#[test]
fn a_consent_in_a_small_window_shows_what_it_agrees_to() {
    let ids: String = (0..30)
        .map(|id| format!("- reservation R{id}X7B\n    "))
        .collect();
    let script = format!("assistant: I will change:\n    {ids}Please confirm.\nuser: yes");
    let text = written(&facts(&script), 1_200, 120);
    assert!(text.contains("R0X7B") && text.contains("R29X7B"), "{text}");
    let text = written(&facts(&script), 200, 120);
    assert!(!text.contains("R0X7B") && text.contains("R29X7B"), "{text}");
}

/// A message that can be understood alone is shown alone.
#[test]
fn a_request_does_not_show_what_was_said_before() {
    let proposes = |request: &str, said: &str| {
        let script = format!("user: Begin.\nassistant: {said}\nuser: {request}");
        let text = written(&facts(&script), 500, 300);
        text.contains("It answers the assistant's message")
    };
    let (says, asks) = ("The theme has 5 colors.", "Shall I use red or blue?");
    for (request, after_text, after_question) in [
        ("yes", true, true),
        ("ok, go ahead please", true, true),
        ("the second one", false, true),
        (
            "yes, and then write the documentation of all themes",
            false,
            true,
        ),
        ("Fix it.", false, true),
        ("yes to all. what will it cost in total?", false, true),
        ("ok, make the muted color a little brighter", false, true),
        ("which one?", false, false),
        ("Write the documentation of all themes.", false, false),
    ] {
        assert_eq!(proposes(request, says), after_text, "{request}");
        assert_eq!(proposes(request, asks), after_question, "{request}");
    }
}

#[test]
fn the_open_items_of_the_latest_plan_come_next() {
    check(
        r#"
call TodoWrite: {"todos": [{"content": "Fix lexer", "status": "in_progress"}]}
result: Todos have been modified successfully.
call TodoWrite: {"todos": [{"content": "Fix lexer", "status": "completed"}, {"content": "Fix parser", "status": "in_progress"}, {"content": "Write docs", "status": "pending"}]}
result: Todos have been modified successfully.
call update_plan: {"plan": [{"step": "Fix lexer", "status": "completed"}, {"step": "Write release notes", "status": "pending"}]}
result: Plan updated
"#,
        "
## In progress and next
- Fix parser (in progress)
- Write docs (pending)
- Write release notes (pending)
",
    );
}

/// Turns of a session have numbers. Messages inside one request do not.
#[test]
fn messages_are_numbered_by_their_turn_or_by_themselves() {
    check(
        "turn 4\nuser: Begin with the parser.\nturn 7\nuser: Now write the documentation too.",
        "
## Goal
The user's latest request before this point, verbatim:
Now write the documentation too.
## Earlier messages of the user
[turn 4] Begin with the parser.
",
    );
}

#[test]
fn instructions_of_the_user_are_constraints() {
    let mut script = String::from("turn 1\nuser: Begin.\n");
    script += "turn 2\nuser: omfg use 8-bit rgb values in the themes, no rgb indices!\n";
    script += "turn 3\nuser: no, that is wrong\nturn 4\nuser: there is no file of that name here\n";
    for turn in 5..12 {
        script += &format!("turn {turn}\nuser: Look at page number {turn} of the themes again.\n");
    }
    let text = written(&facts(&script), 400, 60);
    let (_, rest) = text.split_once("## Constraints").unwrap();
    assert_eq!(
        rest.trim(),
        "- omfg use 8-bit rgb values in the themes, no rgb indices!"
    );
}

#[test]
fn the_end_of_a_long_message_is_kept() {
    let rows: String = (0..9_000)
        .map(|row| format!("row {row} of many\n    "))
        .collect();
    let script = format!("user: Please do X.\n    {rows}Finally: NEVER delete the database.\n");
    for (tokens, messages) in [(300, 100), (1_000, 4_000), (3_000, 20_000)] {
        let text = written(&facts(&script), tokens, messages);
        assert!(text.contains("Please do X."), "{text}");
        assert!(
            text.contains("Finally: NEVER delete the database."),
            "{text}"
        );
        assert_eq!(text.matches(" characters cut ...]").count(), 1, "{text}");
    }
}
