//! Compaction: automatic, on request, and undone.

use super::*;

/// Returns the questions that a request still has whole, by number.
fn questions(request: &Value) -> Vec<usize> {
    let messages = request["history"].as_array().unwrap();
    let asked = messages.iter().filter_map(|message| {
        let said = message["content"].as_str()?;
        let rest = said.strip_prefix("Please look at file number ")?;
        rest.split_once(':')?.0.parse().ok()
    });
    asked.collect()
}

#[test]
fn a_summary_on_request() {
    let project = long_chat(6);
    let args = [
        "session",
        "compact",
        "chat",
        "--max-tokens",
        "2000",
        "--now",
        NOW,
    ];
    let told = project.ok(&args);
    assert!(told.starts_with("summarised 3 steps: "), "{told}");
    assert!(told.contains(" (extractive):\n\n## Goal\n"), "{told}");
    assert!(
        told.ends_with("\nUndo it with `contexture session uncompact chat`.\n"),
        "{told}"
    );
    let request = assembled(&project, &[]);
    assert_eq!(questions(&request), [4, 5, 6]);
    assert_eq!(
        outline(&request)[0],
        "user: [Previous conversation summary]"
    );
    // History shows both: the turns and their summary.
    let shown = project.ok(&["session", "history", "chat"]);
    assert!(shown.starts_with("1 "), "{shown}");
    assert!(
        shown.contains(" replaces turns 1-3 in requests (manual, extractive): "),
        "{shown}"
    );
}

#[test]
fn there_is_too_little_to_summarise() {
    let project = chat();
    let told = |why: &str| {
        let told = format!("nothing was summarised: {why}\n");
        assert_eq!(project.ok(&["session", "compact", "chat"]), told);
    };
    told("the session has no turns");
    say(&project, "chat", "Hi", "Hello.");
    told("all steps are among the latest, which are never summarised");
    for _ in 0..4 {
        say(&project, "chat", "Hi", "Hello.");
    }
    told("the older steps are too short for a summary");
    assert_eq!(
        json_of(&project, &["session", "compact", "chat"]),
        Value::Null
    );
    assert_eq!(json_of(&project, &["session", "show", "chat"])["turns"], 5);
}

#[test]
fn a_request_that_would_be_too_long_is_summarised_and_that_is_said() {
    let project = long_chat(12);
    let run = run_request(
        &project,
        &[
            "--max-tokens",
            "2100",
            "--reserve-response",
            "0",
            "--format",
            "json",
        ],
    );
    let request = parsed(&run.out);
    assert_eq!(questions(&request), [9, 10, 11, 12]);
    let compacted = &request["truncation"]["compacted"];
    assert_eq!(compacted["trigger"], "context_limit");
    run.says(&format!(
        "warning: 8 steps were summarised, {} tokens became {} (extractive): the request would \
         take more than 85 % of the budget; `contexture session uncompact chat` undoes the \
         compaction",
        compacted["tokens_before"], compacted["tokens_after"]
    ));
    assert_eq!(
        project.ok(&["session", "uncompact", "chat"]),
        format!(
            "undid summary {}: requests contain all turns again, as far as they fit\n",
            &text(&compacted["turn_id"])[..8]
        )
    );
}
