//! Tests of the keys of names, and of the names in queries.
#![allow(clippy::unwrap_used)]

use contexture_words::{name_key, names_in};
use proptest::prelude::*;

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
fn a_megabyte_of_text_has_a_bounded_number_of_names() {
    for query in [
        "lake ".repeat(200_000),
        "a".repeat(1_000_000),
        "'".repeat(1_000_000),
    ] {
        assert!(names_in(&query).len() <= 512 * 5);
    }
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
