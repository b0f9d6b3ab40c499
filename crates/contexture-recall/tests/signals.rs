//! Tests of the signals in queries.
#![allow(clippy::unwrap_used)]

use contexture_recall::Intent::{Action, Explain, Fix, Other, Question};
use contexture_recall::{Intent, asks_for_recent, detect_intent, relevant_event_types};

#[test]
fn intents_are_recognised_by_whole_words() {
    let check = |query: &str, intent: Intent| assert_eq!(detect_intent(query), intent, "{query}");
    check("Fix the login", Fix);
    check("Why do I get this error?", Fix);
    check("the build isn't right, it doesn’t work", Fix);
    check("What is the prefix of a route?", Explain);
    check("add a prefix", Action);
    check("debugger settings", Other);
    check("terrorised by bugles", Other);
    check("Explain the cache", Explain);
    check("How does the budget work", Explain);
    check("When did Ana move?", Question);
    check("when did Ana move", Question);
    check("アナはいつ引っ越した？", Question);
    check("Please add a test", Action);
    check("Could you please refactor this?", Action);
    check("Do you know Ana?", Question);
    check("Do it", Action);
    check("notes on Berlin", Other);
    check("", Other);
    assert_eq!(Fix.as_str(), "fix");
    assert_eq!(serde_json::to_string(&Question).unwrap(), "\"question\"");
}

#[test]
fn an_intent_has_relevant_event_types() {
    assert!(relevant_event_types(Fix).starts_with(&["error", "shell_exec", "file_write"]));
    assert!(relevant_event_types(Other).is_empty());
}

#[test]
fn recency_is_recognised_by_whole_words() {
    for query in [
        "What was the latest error?",
        "the most recent message",
        "What did I say just now?",
        "where does she live now?",
        "What happened today?",
        "What did we do last time?",
    ] {
        assert!(asks_for_recent(query), "{query}");
    }
    for query in [
        "When did Ana last visit Rome?",
        "Now add a test",
        "What lasted the longest?",
        "todays and knowledge",
        "",
    ] {
        assert!(!asks_for_recent(query), "{query}");
    }
}

#[test]
fn a_megabyte_of_text_gives_bounded_output() {
    for query in [
        "lake ".repeat(200_000),
        "a".repeat(1_000_000),
        "'".repeat(1_000_000),
    ] {
        assert_eq!(detect_intent(&query), Other);
        assert!(!asks_for_recent(&query));
    }
    let late = format!("{} latest error", "lake ".repeat(512));
    assert_eq!(
        (detect_intent(&late), asks_for_recent(&late)),
        (Other, false)
    );
}
