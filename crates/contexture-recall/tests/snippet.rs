//! Tests of passages and of shortened texts.
#![allow(clippy::unwrap_used)]

use contexture_recall::{shorten, snippet};
use contexture_words::{query_keywords, sentences};
use proptest::prelude::*;

fn ids(query: &str) -> Vec<u32> {
    query_keywords(query)
        .iter()
        .map(|keyword| keyword.id)
        .collect()
}

/// Compares the best passage of at most `most` characters.
#[track_caller]
fn check(text: &str, query: &str, most: usize, expected: Option<&str>) {
    let found = snippet(text, &ids(query), &mut |part| part.chars().count() <= most);
    assert_eq!(found.map(|range| &text[range]), expected);
}

const STORY: &str = "We moved to Berlin in May. The flat is small. Ana loves the lake, and swims \
    there every day. In winter the lake is frozen. Bob misses Rome.";

#[test]
fn a_passage_contains_the_query_terms() {
    check(
        STORY,
        "does Ana swim in the lake?",
        52,
        Some("Ana loves the lake, and swims there every day."),
    );
    check(
        STORY,
        "does Ana swim in the lake in winter?",
        90,
        Some("Ana loves the lake, and swims there every day. In winter the lake is frozen."),
    );
    check(
        STORY,
        "Rome",
        60,
        Some("In winter the lake is frozen. Bob misses Rome."),
    );
    check(STORY, "Rome", 1000, Some(STORY));
}

#[test]
fn without_a_match_the_passage_is_the_beginning() {
    check(STORY, "parser", 30, Some("We moved to Berlin in May."));
    check(STORY, "", 30, Some("We moved to Berlin in May."));
}

#[test]
fn one_giant_sentence_is_cut_between_words() {
    check(STORY, "swims every day", 20, Some("swims there every"));
    let line = format!(
        "{} Berlin {}",
        "word ".repeat(10_000),
        "more ".repeat(10_000)
    );
    check(&line, "berlin", 22, Some("word  Berlin more more"));
}

#[test]
fn one_giant_word_is_cut_between_characters() {
    let text = format!("{}東京タワー{}", "あ".repeat(1000), "い".repeat(1000));
    let found = snippet(&text, &ids("東京"), &mut |part| {
        part.chars().count() <= 20
    })
    .unwrap();
    assert!(text[found.clone()].contains("東京"), "{}", &text[found]);
    check(&"x".repeat(100), "x", 5, None);
    check("", "x", 5, None);
}

#[test]
fn the_number_of_attempts_is_bounded() {
    let text = "Ana loves the lake. ".repeat(10_000);
    let mut calls = 0;
    let mut largest = 0;
    let found = snippet(&text, &ids("lake"), &mut |part| {
        calls += 1;
        largest = largest.max(part.len());
        part.len() <= 5000
    });
    let length = found.unwrap().len();
    assert!(length > 4970 && length <= 5000, "{length}");
    assert!(calls <= 20 && largest < 12_000, "{calls} {largest}");
}

#[track_caller]
fn check_short(text: &str, query: &str, most: usize, expected: Option<&str>) {
    let found = shorten(text, &ids(query), &mut |part| part.chars().count() <= most);
    assert_eq!(found.as_deref(), expected);
}

#[test]
fn the_most_relevant_sentences_are_kept_in_order() {
    check_short(STORY, "", 1000, Some(STORY));
    check_short(
        STORY,
        "Rome",
        80,
        Some("… Ana loves the lake, and swims there every day. … Bob misses Rome."),
    );
    check_short(
        STORY,
        "frozen lake",
        35,
        Some("… In winter the lake is frozen. …"),
    );
    check_short(STORY, "frozen lake", 12, Some("lake is"));
    check_short(STORY, "frozen lake", 0, None);
}

#[test]
fn repeated_sentences_are_dropped_and_line_breaks_are_kept() {
    check_short(
        "warning: unused import\nwarning: unused import\nwarning: unused import\nerror: no field `x`\nok",
        "error",
        50,
        Some("warning: unused import\n…\nerror: no field `x`\nok"),
    );
}

proptest! {
    #[test]
    fn a_passage_fits_and_is_a_part(text in "([a-z]{1,9}|[ .!?\n]|东|é){0,60}", query in "[a-z ]{0,20}", most in 0_usize..60) {
        let found = snippet(&text, &ids(&query), &mut |part| part.chars().count() <= most);
        if let Some(range) = found {
            prop_assert!(text[range.clone()].chars().count() <= most);
            prop_assert!(!text[range].trim().is_empty());
        } else {
            prop_assert!(most < 8 || sentences(&text).next().is_none());
        }
    }

    #[test]
    fn shortened_text_fits(text in "([a-z]{1,9}|[ .!?\n]){0,60}", query in "[a-z ]{0,20}", most in 0_usize..60) {
        let made = |text: &str| shorten(text, &ids(&query), &mut |part| part.chars().count() <= most);
        if let Some(short) = made(&text) {
            prop_assert!(short.chars().count() <= most);
            prop_assert_eq!(made(&text), Some(short));
        }
    }
}
