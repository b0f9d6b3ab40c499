//! Conversations in, facts and summaries out.

use contexture::facts::{Facts, Passage, Speaker, SummaryLimits};
use contexture_tokens::{Encoding, OpenAi, TokenCounter};
use proptest::prelude::*;

/// Reads `turn speaker [tool]: text` from each line; further lines of a text are
/// indented by four spaces. `fail` is a failed result.
fn facts(script: &str) -> Facts {
    let mut entries: Vec<(Speaker, String, bool, u64, Option<String>)> = Vec::new();
    for line in script.lines() {
        if let Some(more) = line.strip_prefix("    ") {
            let text = &mut entries.last_mut().unwrap().1;
            text.push('\n');
            text.push_str(more);
            continue;
        }
        let Some((head, text)) = line.split_once(": ") else {
            continue;
        };
        let mut head = head.split(' ');
        let turn = head.next().unwrap().parse().unwrap();
        let (speaker, failed) = match head.next().unwrap() {
            "user" => (Speaker::User, false),
            "assistant" => (Speaker::Assistant, false),
            "call" => (Speaker::ToolCall, false),
            "result" => (Speaker::ToolResult, false),
            "fail" => (Speaker::ToolResult, true),
            _ => (Speaker::Other, true),
        };
        let tool = head.next().map(str::to_owned);
        entries.push((speaker, text.to_owned(), failed, turn, tool));
    }
    let passages: Vec<Passage<'_>> = entries
        .iter()
        .map(|(speaker, text, failed, turn, tool)| Passage {
            speaker: *speaker,
            text,
            failed: *failed,
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

const RUN: &str = r#"
1 user: Add a cache to src/http/client.rs. Entries must expire after 300 seconds.
1 assistant: I'll start by reading the client.
1 call read_file: {"path": "src/http/client.rs"}
1 result read_file: pub fn get() { return Err("Operation aborted: error"); }
1 call shell: {"command": "cd app && cargo test 2>&1"}
1 fail shell: error[E0433]: failed to resolve: use of undeclared crate `lru`
    Command exited with code 101
1 assistant: The crate is missing. We'll use a HashMap instead of `lru`.
1 call edit_file: {"path": "src/http/client.rs", "old": "a", "new": "b"}
1 result edit_file: ok
1 call shell: {"command": "cargo test 2>&1"}
1 result shell: running 12 tests
    test result: ok. 12 passed; 0 failed
1 assistant: I added the cache and all tests pass. Next I will update the README.
2 user: Good. Don't add dependencies.
"#;

#[test]
fn a_run_is_summarised_by_what_happened() {
    let text = written(&facts(RUN), 1_000, 500);
    assert_eq!(
        text,
        "\
## Goal
The user's latest request before this point, verbatim:
Good. Don't add dependencies.
## Earlier messages of the user
[turn 1] Add a cache to src/http/client.rs. Entries must expire after 300 seconds.
## Done
- `cargo test` succeeded: test result: ok. 12 passed; 0 failed
- The assistant: I added the cache and all tests pass.
## Decisions
- Assistant: We'll use a HashMap instead of `lru`.
## Failed attempts
- `cargo test 2>&1`: Command exited with code 101 / error[E0433]: failed to resolve: use of undeclared crate \
`lru` (succeeded later)
## Files
- src/http/client.rs: edited, read"
    );
}

/// Source code that contains the word "aborted" was read, and nothing failed.
#[test]
fn words_in_the_content_of_a_file_are_no_failure() {
    for (call, result) in [
        (r#"read: {"path": "a.ts"}"#, "throw new Error(\"aborted\")"),
        (r#"shell: {"command": "cat a.log"}"#, "ERROR: disk full"),
        (r#"grep: {"pattern": "fatal"}"#, "a.rs:1: fatal: no"),
        (r#"shell: {"command": "cargo test"}"#, "12 passed; 0 failed"),
    ] {
        let script = format!("1 call {call}\n1 result x: {result}");
        assert_eq!(facts(&script).failures, [], "{call}");
    }
}

/// An outcome is an error flag, an exit code, a test result, or the first or
/// last line of a command.
#[test]
fn recorded_outcomes_are_failures() {
    for (kind, call, result) in [
        ("fail", r#"read: {"path": "a.ts"}"#, "not there"),
        (
            "result",
            r#"shell: {"command": "make"}"#,
            "cc a.c\n    exit code: 2",
        ),
        (
            "result",
            r#"shell: {"command": "pytest"}"#,
            "..F\n    1 failed, 2 passed in 0.1s",
        ),
        (
            "result",
            r#"shell: {"command": "frob"}"#,
            "bash: frob: command not found",
        ),
        (
            "result",
            r#"book: {"id": "7"}"#,
            "Error: payment method not found",
        ),
    ] {
        let script = format!("1 call {call}\n1 {kind} x: {result}");
        let found = facts(&script).failures;
        assert_eq!(found.len(), 1, "{call}: {found:?}");
        assert!(!found[0].is_solved);
    }
}

#[test]
fn the_exit_code_of_a_pipe_says_nothing_about_its_first_command() {
    let script = "1 call shell: {\"command\": \"make check | tail -3\"}\n\
                  1 result shell: some output";
    let facts = facts(script);
    assert_eq!((facts.failures.len(), facts.results.len()), (0, 0));
}

#[test]
fn a_failure_is_solved_by_the_same_command_and_open_again_when_it_returns() {
    let run = |outcomes: &str| {
        let mut script = String::new();
        for outcome in outcomes.chars() {
            let kind = if outcome == '-' { "fail" } else { "result" };
            script +=
                &format!("1 call shell: {{\"command\": \"make\"}}\n1 {kind} shell: error: bad\n");
        }
        let failures = facts(&script.replace("result shell: error: bad", "result shell: fine"));
        let failure = failures.failures[0].clone();
        (failure.times, failure.is_solved)
    };
    assert_eq!(run("--"), (2, false));
    assert_eq!(run("--+"), (2, true));
    assert_eq!(run("--+-"), (3, false));
}

/// Facts are stored and read back, so that nothing is lost from summary to
/// summary.
#[test]
fn facts_survive_many_generations() {
    let mut facts = facts(RUN);
    for turn in 3..40 {
        let text = format!("Look at number {turn}.");
        let path = format!(r#"{{"path": "src/{turn}.rs"}}"#);
        let passage = |speaker, text| Passage {
            speaker,
            text,
            failed: false,
            turn,
            tool: Some("read"),
            call: Some("c"),
        };
        let passages = [
            passage(Speaker::User, text.as_str()),
            passage(Speaker::ToolCall, path.as_str()),
            passage(Speaker::ToolResult, "fine"),
        ];
        let stored = serde_json::to_string(&facts).unwrap();
        facts = serde_json::from_str(&stored).unwrap();
        facts.read(&passages);
    }
    let text = written(&facts, 1_500, 1_000);
    for known in [
        "Entries must expire after 300 seconds.",
        "error[E0433]: failed to resolve",
        "Don't add dependencies.",
        "src/3.rs",
        "src/39.rs",
        "Look at number 39.",
    ] {
        assert!(text.contains(known), "{known}: {text}");
    }
    assert_eq!(facts.missing_from(&text), Vec::<String>::new());
}

/// Facts that a summary lacks are listed.
#[test]
fn facts_missing_from_a_summary_are_listed() {
    let lost = facts(RUN).missing_from("Good. Don't add dependencies. src/http/client.rs");
    assert_eq!(
        lost,
        [
            "constraint: Entries must expire after 300 seconds.",
            "error: error[E0433]: failed to resolve: use of undeclared crate `lru`",
        ]
    );
}

#[test]
fn a_focus_comes_first() {
    let mut script = String::new();
    for i in 0..60 {
        let what = if i % 2 == 0 { "billing" } else { "search" };
        script += &format!("{i} user: Look at the {what} page number {i} and tell me.\n");
    }
    let counter = OpenAi::new(Encoding::O200k);
    let text = facts(&script).write(&SummaryLimits {
        tokens: 200,
        messages: 300,
        focus: Some("billing"),
        counter: &counter,
    });
    let count = |word: &str| text.matches(word).count();
    assert!(count("billing") > 4 && count("search") <= 1, "{text}");
}

#[test]
fn nothing_gives_nothing() {
    assert_eq!(written(&Facts::default(), 500, 500), "");
    assert_eq!(written(&facts("1 assistant: ok"), 500, 500), "");
}

fn speaker() -> impl Strategy<Value = Speaker> {
    prop_oneof![
        Just(Speaker::User),
        Just(Speaker::Assistant),
        Just(Speaker::ToolCall),
        Just(Speaker::ToolResult),
        Just(Speaker::Other),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z .:/`\\n{}\"éß中]{0,200}",
        Just(r#"{"path": "src/a.rs"}"#.to_owned()),
        Just(r#"{"command": "cargo test"}"#.to_owned()),
        Just("error[E0308]: mismatched types\nCommand exited with code 1".to_owned()),
        Just("We must never use port 80. I decided to go with 443.".to_owned()),
        Just("a".repeat(70_000)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A summary is never longer than it may be, does not depend on when it is
    /// made, and facts are the same after they were stored.
    #[test]
    fn laws(
        passages in prop::collection::vec((speaker(), text(), any::<bool>(), 0..9_u64), 0..30),
        tokens in 0..900_u64,
        messages in 0..900_u64,
    ) {
        let passages: Vec<Passage<'_>> = passages
            .iter()
            .map(|(speaker, text, failed, turn)| Passage {
                speaker: *speaker,
                text,
                failed: *failed,
                turn: *turn,
                tool: Some("shell"),
                call: None,
            })
            .collect();
        let mut facts = Facts::default();
        facts.read(&passages);
        let text = written(&facts, tokens, messages);
        let count = OpenAi::new(Encoding::O200k).count(&text);
        prop_assert!(count <= tokens + messages, "{count} of {tokens} + {messages}: {text}");
        let stored = serde_json::to_string(&facts).unwrap();
        let read: Facts = serde_json::from_str(&stored).unwrap();
        prop_assert_eq!(&read, &facts);
        prop_assert_eq!(written(&read, tokens, messages), text);
    }
}

/// A message over several lines is one constraint, in the user's own words;
/// text after the end of a sentence is another.
#[test]
fn a_constraint_of_several_lines_keeps_its_line_breaks() {
    let script = "1 user: Begin.\n2 user: the section on themes comes last\n    \
        it must name the variable\n    and its default. Then look at the tests.\n    - never touch main.rs\n\
        3 user: Go on.\n4 user: And on.\n5 user: And now?\n6 user: Well?\n7 user: Finish it.\n";
    let text = written(&facts(script), 400, 40);
    let whole = "the section on themes comes last\nit must name the variable\nand its default.";
    assert!(text.contains(whole), "{text}");
    assert!(text.contains("- never touch main.rs"), "{text}");
    assert!(!text.contains("Then look"), "{text}");
}

/// Constraints come before files where there is little room.
#[test]
fn constraints_come_before_files_when_there_are_few_tokens() {
    let mut script = String::from("1 user: Begin.\n");
    for i in 0..12 {
        script += &format!(
            "{} user: Rule {i}: module number {i} must stay as it is.\n",
            i + 2
        );
    }
    for i in 0..60 {
        script +=
            &format!("20 call read_file: {{\"path\": \"src/modules/part_{i}/file_{i}.rs\"}}\n");
        script += "20 result read_file: fn main() {}\n";
    }
    script += "21 user: Finish it.\n";
    let text = written(&facts(&script), 600, 60);
    for i in 0..12 {
        assert!(
            text.contains(&format!("module number {i} must stay")),
            "{i}: {text}"
        );
    }
    assert!(text.contains("## Files"), "{text}");
}

/// Earlier passages are read only as far as they add to the facts that are kept.
#[test]
fn a_long_conversation_has_the_facts_of_its_parts() {
    let text = |i: usize| match i % 7 {
        0 => format!("Because page {i} is cached, the header was stale. I fixed header {i} now."),
        1 => format!(
            "Added the index {i} to the table. We decided to keep plan {}.",
            i % 20
        ),
        2 => format!("Nothing here {i}: a line of plain words.\nAnother line of words."),
        3 => "The root cause is the same as before in this place.".to_owned(),
        4 => format!("Updated module {i}; it is called part {i}. Next: look at part {i}?"),
        5 => format!(
            "Page {i} must never load slowly. Use plan {} instead of drafts.",
            i % 9
        ),
        _ => format!("- Keep table {i} small\n- {i} rows at most, naïve or not"),
    };
    let texts: Vec<String> = (0..900)
        .map(|i| format!("{}\n", text(i)).repeat(4 + i % 3))
        .collect();
    let passages: Vec<Passage<'_>> = (texts.iter().enumerate())
        .map(|(i, text)| Passage {
            speaker: [Speaker::User, Speaker::Assistant][i % 2],
            text,
            failed: false,
            turn: i as u64,
            tool: None,
            call: None,
        })
        .collect();
    let mut at_once = Facts::default();
    at_once.read(&passages);
    let mut in_parts = Facts::default();
    for part in passages.chunks(3) {
        in_parts.read(part);
    }
    assert_eq!(at_once, in_parts);
    assert_eq!(at_once.done.len(), 60);
    assert!(!at_once.constraints.is_empty());
}

/// Constraints, failures and files each have room of their own where there is
/// little of it, and firm constraints come before wishes.
#[test]
fn no_kind_of_fact_takes_the_room_of_the_others() {
    let mut script = String::from("1 user: Begin.\n");
    for i in 0..40 {
        let turn = i + 2;
        script += &format!("{turn} user: Page number {i} should look a bit nicer than before.\n");
        script += &format!("{turn} user: Module number {i} must keep its public names.\n");
        script += &format!("{turn} call shell: {{\"command\": \"build part-{i}\"}}\n");
        script += &format!(
            "{turn} fail shell: error: part {i} is broken\n    Command exited with code 1\n"
        );
        script += &format!("{turn} call read_file: {{\"path\": \"src/part_{i}.rs\"}}\n");
        script += &format!("{turn} result read_file: fn main() {{}}\n");
    }
    script += "50 user: Finish it.\n";
    let text = written(&facts(&script), 900, 100);
    let count = |part: &str| text.matches(part).count();
    assert!(count("must keep its public names") >= 25, "{text}");
    // Those of the newest messages only.
    assert!(count("should look") <= 2, "{text}");
    assert!(count("is broken") >= 15, "{text}");
    assert!(count("src/part_") >= 25, "{text}");
    assert!(text.contains("- Command exited with code 1"), "{text}");
}
