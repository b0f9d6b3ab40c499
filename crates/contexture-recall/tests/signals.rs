//! Tests of the signals in queries.
#![allow(clippy::unwrap_used)]

use contexture_recall::Intent::{Action, Explain, Fix, Other, Question};
use contexture_recall::{
    Intent, asks_for_recent, detect_intent, name_key, names_in, relevant_event_types,
};
use proptest::prelude::*;

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
fn names_are_normalised_for_lookup() {
    let check = |name: &str, key: &str| assert_eq!(name_key(name), key);
    check("Ana's", "ana");
    check("  ANA ", "ana");
    check("José  García", "jose garcia");
    check("parse_http-request()", "parse http request");
    check("src/main.rs", "src main rs");
    check("O'Brien’s", "obrien");
    check("C++", "c++");
    check("C# and C", "c# and c");
    check("a+b", "a b");
    check("issue #12", "issue 12");
    check("東京", "東京");
    check("🚀", "🚀");
    check("", "");
}

#[test]
fn names_of_several_words_are_candidates() {
    let keys: Vec<String> = names_in("Did Ana's New York trip?")
        .into_iter()
        .map(|n| n.key)
        .collect();
    assert_eq!(
        keys,
        [
            "did ana new york trip",
            "did ana new york",
            "did ana new",
            "did ana",
            "ana new york trip",
            "ana new york",
            "ana new",
            "ana",
            "new york trip",
            "new york",
            "new",
            "york trip",
            "york",
            "trip",
        ]
    );
    let names = names_in("ana ana");
    assert_eq!(
        (names[1].key.as_str(), names[1].first, names[1].words),
        ("ana", 0, 1)
    );
    assert_eq!(names.len(), 2);
}

#[test]
fn a_megabyte_of_text_gives_bounded_output() {
    for query in [
        "lake ".repeat(200_000),
        "a".repeat(1_000_000),
        "'".repeat(1_000_000),
    ] {
        assert!(names_in(&query).len() <= 512 * 5);
        assert_eq!(detect_intent(&query), Other);
        assert!(!asks_for_recent(&query));
    }
    let late = format!("{} latest error", "lake ".repeat(512));
    assert_eq!(
        (detect_intent(&late), asks_for_recent(&late)),
        (Other, false)
    );
}

proptest! {
    #[test]
    fn a_name_is_found_in_a_query(name in "[a-zA-Zé]{1,8}( [a-zA-Z]{1,8}){0,4}", rest in "[a-z ?]{0,30}") {
        let key = name_key(&name);
        let found = names_in(&format!("{name}, {rest}"));
        let is_there = found.iter().any(|candidate| candidate.key == key);
        // A stop word alone is not a name.
        prop_assert!(is_there || !name.contains(' '), "{} {:?}", key, found);
    }

    #[test]
    fn normalising_a_key_again_changes_nothing(name in ".{0,40}") {
        let key = name_key(&name);
        prop_assert_eq!(name_key(&key), key);
    }
}
