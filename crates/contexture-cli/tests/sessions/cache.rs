//! What a request shares with the one before it in its session.

use super::*;

#[test]
fn the_first_request_has_nothing_to_be_compared_with() {
    assert_eq!(assembled(&chat(), &[])["report"]["cache"], Value::Null);
}

#[test]
fn the_next_request_shares_everything_before_the_new_turn() {
    let project = long_chat(3);
    let first = assembled(&project, &[]);
    say(&project, "chat", "Go on.", "I do.");
    let second = assembled(&project, &["--event", "And then?"]);
    let cache = &second["report"]["cache"];
    assert_eq!(cache["previous"], first["snapshot"]);
    // System prompt and the three turns are shared to the byte.
    let used = &first["token_budget"]["used"];
    let stable = used["system_prompt"].as_u64().unwrap() + used["history"].as_u64().unwrap();
    let shared = cache["shared_tokens"].as_u64().unwrap();
    assert!(
        (stable..stable + 10).contains(&shared),
        "{shared} of {stable}"
    );
    assert_eq!(cache["first_difference"]["layer"], "session");
    let turns = json_of(&project, &["session", "history", "chat"]);
    let id = &text(&turns[3]["id"])[..12];
    assert_eq!(cache["first_difference"]["item"], format!("{id}/0"));
}

#[test]
fn the_bytes_before_the_first_difference_are_the_same() {
    let project = long_chat(3);
    let first = project.ok(&request(&[]));
    say(&project, "chat", "Go on.", "I do.");
    let second = project.ok(&request(&[]));
    let third = assembled(&project, &["--event", "Another"]);
    let same = first
        .bytes()
        .zip(second.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let listed = json_of(&project, &["snapshot", "list"]);
    let (a, b) = (text(&listed[2]["hash"]), text(&listed[1]["hash"]));
    let diff = json_of(&project, &["snapshot", "diff", a, b]);
    assert_eq!(diff["cache"]["first_difference"]["byte"], same);
    // Only the question is new in the third.
    assert_eq!(
        third["report"]["cache"]["first_difference"]["item"],
        "event"
    );
}

#[test]
fn a_changed_rule_is_named_as_the_cause() {
    let project = long_chat(2).file("AGENTS.md", "Be kind.\n");
    assembled(&project, &[]);
    project.write("AGENTS.md", "Be kind and brief.\n");
    let cache = assembled(&project, &[])["report"]["cache"].clone();
    assert_eq!(cache["first_difference"]["layer"], "workspace");
    assert_eq!(cache["first_difference"]["item"], "AGENTS.md");
    assert!(cache["shared_fraction"].as_f64().unwrap() < 0.1, "{cache}");
}

#[test]
fn explain_says_what_is_shared() {
    let project = long_chat(2);
    project.ok(&request(&[]));
    let run = run_request(&project, &["--event", "Something else", "--explain"]);
    let line = run.err.lines().find(|line| line.starts_with("cache: "));
    let line = line.unwrap_or_else(|| panic!("{}", run.err));
    assert!(line.ends_with("; they part at event of event"), "{line}");
}

#[test]
fn sessions_are_compared_with_themselves() {
    let project = chat();
    assembled(&project, &[]);
    project.ok(&["session", "new", "other"]);
    let args = [
        "assemble",
        "--recipe",
        "broker",
        "--session",
        "other",
        "--format",
        "json",
    ];
    assert_eq!(parsed(&project.ok(&args))["report"]["cache"], Value::Null);
}
