//! History that gets a summary: when it must, when somebody asks, and back.

use super::*;

/// Returns what part of what is available a request uses, in percent.
fn used(request: &Value) -> f64 {
    let budget = &request["token_budget"];
    let number = |value: &Value| value.as_f64().unwrap();
    number(&budget["used"]["total"]) / number(&budget["available"]) * 100.0
}

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
fn below_the_threshold_nothing_is_summarised() {
    let project = long_chat(12);
    let request = assembled(&project, &["--max-tokens", "3000"]);
    assert!(used(&request) < 85.0, "{}", used(&request));
    assert_eq!(request["truncation"]["compacted"], Value::Null);
    assert_eq!(questions(&request), (1..=12).collect::<Vec<_>>());
}

#[test]
fn over_the_threshold_history_is_summarised_to_about_the_target() {
    let project = long_chat(12);
    let head = json_of(&project, &["session", "show", "chat"])["head"].clone();
    let run = run_request(&project, &["--max-tokens", "2100", "--format", "json"]);
    let request = parsed(&run.out);
    assert!(
        (50.0..=60.0).contains(&used(&request)),
        "{}",
        used(&request)
    );

    // The summary comes first, then the turns from the first that is kept.
    let first = text(&request["history"][0]["content"]);
    assert!(
        first.starts_with("[Previous conversation summary]\n"),
        "{first}"
    );
    assert_eq!(request["history"][0]["role"], "user");
    assert_eq!(questions(&request), [8, 9, 10, 11, 12]);

    let compacted = &request["truncation"]["compacted"];
    assert_eq!(compacted["trigger"], "context_limit");
    assert_eq!(compacted["turns"], 7);
    assert_eq!(compacted["summariser"], "extractive");
    let turns = json_of(&project, &["session", "history", "chat", "--all"]);
    assert_eq!(compacted["first_kept"], turns[7]["id"]);
    // Behind the turns, as one of its own: nothing before it is changed.
    assert_eq!(turns[12]["kind"], "compaction");
    assert_eq!(turns[12]["parent"], head);
    assert_eq!(request["parent_turn_id"], turns[12]["id"]);

    let tokens = |name: &str| compacted[name].as_u64().unwrap();
    assert!(tokens("tokens_after") <= 210, "{compacted}");
    run.says(&format!(
        "warning: 7 turns were summarised, {} tokens became {} (extractive): the request would \
         take more than 85 % of the budget; `contexture session uncompact chat` undoes it",
        tokens("tokens_before"),
        tokens("tokens_after")
    ));
    let excluded = request["report"]["excluded"].as_array().unwrap();
    assert_eq!(excluded[0]["id"], "turns 1-7");
    assert_eq!(excluded[0]["code"], "compacted");
}

#[test]
fn once_summarised_it_stays_put() {
    let project = long_chat(12);
    let first = assembled(&project, &["--max-tokens", "2100"]);
    let second = assembled(&project, &["--max-tokens", "2100"]);
    assert_eq!(second["truncation"]["compacted"], Value::Null);
    assert_eq!(second["history"], first["history"]);
    assert_eq!(second["parent_turn_id"], first["parent_turn_id"]);
}

#[test]
fn a_summary_and_the_next_question_do_not_break_alternation() {
    let project = long_chat(12);
    for format in ["anthropic", "gemini", "openai-chat", "openai-responses"] {
        let args = ["--max-tokens", "2100", "--format", format];
        let run = run_request(&project, &args);
        run.expect_code(0);
        let request = parsed(&run.out);
        let messages = ["messages", "contents", "input"]
            .iter()
            .find_map(|key| request.get(key));
        let roles: Vec<&str> = messages
            .and_then(Value::as_array)
            .unwrap()
            .iter()
            .filter(|message| message["role"] != "system")
            .map(|message| text(&message["role"]))
            .collect();
        assert_eq!(roles.first(), Some(&"user"), "{format}");
        assert_eq!(roles.last(), Some(&"user"), "{format}");
        if ["anthropic", "gemini"].contains(&format) {
            assert!(
                roles.windows(2).all(|two| two[0] != two[1]),
                "{format}: {roles:?}"
            );
        }
    }
}

#[test]
fn summarising_can_be_turned_off() {
    let settings = "[runtime]\nhost = \"box\"\n[compaction]\nenabled = false\n";
    let project = long_chat(12).file("contexture.toml", settings);
    let request = assembled(&project, &["--max-tokens", "1000"]);
    assert_eq!(request["truncation"]["compacted"], Value::Null);
    assert_eq!(request["history"][0]["role"], "user");
    // The window keeps it within its budget.
    assert!(used(&request) <= 100.0);
    assert_eq!(questions(&request).last(), Some(&12));
}

#[test]
fn somebody_asks_for_a_summary() {
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
    assert!(told.starts_with("3 turns, "), "{told}");
    assert!(told.contains(" (extractive):\n\n## Asked for\n"), "{told}");
    assert!(
        told.ends_with("\n\n`contexture session uncompact chat` undoes it\n"),
        "{told}"
    );
    let request = assembled(&project, &[]);
    assert_eq!(questions(&request), [4, 5, 6]);
    assert_eq!(
        outline(&request)[0],
        "user: [Previous conversation summary]"
    );
    // History shows both: the turns and what stands for them.
    let shown = project.ok(&["session", "history", "chat"]);
    assert!(shown.starts_with("1 "), "{shown}");
    assert!(
        shown.contains(" summary (manual, by extractive): "),
        "{shown}"
    );
}

#[test]
fn a_focus_is_what_the_summary_pays_attention_to() {
    let project = long_chat(12);
    let args = [
        "session",
        "compact",
        "chat",
        "--max-tokens",
        "1000",
        "--now",
        NOW,
    ];
    let plain = json_of(&project, &args);
    project.ok(&["session", "uncompact", "chat"]);
    let focused = json_of(&project, &[&args[..], &["--focus", "handle 4"]].concat());
    let has = |compacted: &Value| text(&compacted["summary"]).contains("close the handle 4");
    assert!(!has(&plain) && has(&focused), "{plain:#}\n{focused:#}");
}

#[test]
fn an_overflow_is_recovered_from_once() {
    let project = long_chat(12);
    let args = [
        "session",
        "compact",
        "chat",
        "--overflow",
        "--max-tokens",
        "2100",
    ];
    let compacted = json_of(&project, &args);
    assert_eq!(compacted["trigger"], "overflow_recovery");
    let request = assembled(&project, &["--max-tokens", "2100"]);
    assert!(used(&request) <= 45.0, "{}", used(&request));
    project.refuses(
        &args,
        2,
        "
        error: session `chat` was made shorter after an overflow already, and nothing was recorded since; the overflow stands
        hint: take a model with a larger window, or fork before the largest turn
        ",
    );
}

#[test]
fn undoing_a_summary_brings_everything_back() {
    let project = long_chat(12);
    let before = assembled(&project, &[]);
    let compacted = json_of(&project, &["session", "compact", "chat"]);
    let id = text(&compacted["turn_id"]);
    assert_eq!(
        project.ok(&["session", "uncompact", "chat"]),
        format!(
            "summary {} no longer counts: all turns are shown again, as far as they fit\n",
            &id[..8]
        )
    );
    let after = assembled(&project, &[]);
    assert_eq!(after["history"], before["history"]);
    assert_eq!(after["parent_turn_id"], before["parent_turn_id"]);
}

#[test]
fn undoing_a_summary_loses_nothing_that_was_said_since() {
    let project = long_chat(6);
    project.ok(&["session", "compact", "chat"]);
    say_many(&project, 7, 8);
    assert_eq!(questions(&assembled(&project, &[])), [4, 5, 6, 7, 8]);
    project.ok(&["session", "uncompact", "chat"]);
    let request = assembled(&project, &[]);
    assert_eq!(questions(&request), (1..=8).collect::<Vec<_>>());
    assert_eq!(outline(&request).len(), 16, "no summary is left");
    project.refuses(
        &["session", "uncompact", "chat"],
        2,
        "error: session `chat` has no compaction to undo\n",
    );
}

#[test]
fn undoing_the_second_summary_leaves_the_first() {
    let project = long_chat(8);
    let first = json_of(
        &project,
        &["session", "compact", "chat", "--max-tokens", "2000"],
    );
    say_many(&project, 9, 12);
    let second = json_of(
        &project,
        &["session", "compact", "chat", "--max-tokens", "2000"],
    );
    say_many(&project, 13, 13);
    assert_eq!(questions(&assembled(&project, &[])), [10, 11, 12, 13]);
    assert_ne!(first["turn_id"], second["turn_id"]);
    project.ok(&["session", "uncompact", "chat"]);
    let request = assembled(&project, &[]);
    assert_eq!(questions(&request), (6..=13).collect::<Vec<_>>());
    let summary = text(&request["history"][0]["content"]);
    assert!(summary.ends_with(text(&first["summary"])), "{summary}");
}

#[test]
fn a_fork_before_a_summary_does_not_have_it() {
    let project = long_chat(6);
    let turns = json_of(&project, &["session", "history", "chat"]);
    project.ok(&["session", "compact", "chat"]);
    let at = text(&turns[4]["id"]);
    project.ok(&["session", "fork", "chat", "early", "--at", at]);
    project.ok(&["session", "fork", "chat", "late"]);
    let ask = |label: &str| -> Value {
        let args = [
            "assemble",
            "--recipe",
            "broker",
            "--session",
            label,
            "--format",
            "json",
        ];
        parsed(&project.ok(&args))
    };
    assert_eq!(questions(&ask("early")), [1, 2, 3, 4, 5]);
    assert_eq!(questions(&ask("late")), [4, 5, 6]);
    assert!(outline(&ask("late"))[0].contains("[Previous conversation summary]"));
}

#[test]
fn secrets_do_not_reach_a_summary() {
    let project = chat();
    // In two parts, so that nobody takes this file for a leak.
    let key = ["AKIA", "Z7QX2M4N6P8R3T5V"].concat();
    let asked = format!("The key is {key}, use it for the upload to the bucket.");
    for _ in 0..6 {
        say(&project, "chat", &asked, "I will use it for the upload.");
    }
    let compacted = json_of(&project, &["session", "compact", "chat"]);
    assert!(!compacted.to_string().contains(&key), "{compacted:#}");
}

#[test]
fn there_is_too_little_to_summarise() {
    let told = "nothing to summarise: the latest 3 turns are kept, and before them is too little\n";
    let project = chat();
    assert_eq!(project.ok(&["session", "compact", "chat"]), told);
    say(&project, "chat", "Hi", "Hello.");
    assert_eq!(project.ok(&["session", "compact", "chat"]), told);
    for _ in 0..4 {
        say(&project, "chat", "Hi", "Hello.");
    }
    assert_eq!(project.ok(&["session", "compact", "chat"]), told);
    assert_eq!(
        json_of(&project, &["session", "compact", "chat"]),
        Value::Null
    );
    assert_eq!(json_of(&project, &["session", "show", "chat"])["turns"], 5);
}
