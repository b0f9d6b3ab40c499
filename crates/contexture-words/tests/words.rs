//! Tests of the terms of texts.
#![allow(clippy::unwrap_used)]

use contexture_words::{Term, Words, analyse, keywords, query_keywords, term_id};
use proptest::prelude::*;

/// Compares the stems of `text`, in order of appearance.
#[track_caller]
fn check(text: &str, stems: &str) {
    let found: Vec<String> = keywords(text).into_iter().map(|k| k.stem).collect();
    assert_eq!(found.join(" "), stems, "{text}");
}

#[test]
fn words_are_stemmed_and_stop_words_left_out() {
    check(
        "The parsers were failing on empty bodies",
        "parser fail empti bodi",
    );
    check("Ana LOVES the lake; who loves it more?", "ana love lake");
    check("", "");
    check("... !? --", "");
}

#[test]
fn compounds_give_the_whole_and_their_parts() {
    check("parseHttpRequest", "parsehttprequest pars http request");
    check("parse_http_request", "parse_http_request pars http request");
    check(
        "HTTPServer XMLHttpRequest",
        "httpserver http server xmlhttprequest xml request",
    );
    check("well-known", "well-known well known");
    check("edit src/config.toml", "edit src config.toml config toml");
    check("__init__ and URLs", "init url");
    check("utf8Parser sha256", "utf8pars utf8 parser sha256");
    check("U.S. e.g. iPhone", "u. e.g iphon phone");
    check("end of one.Next one", "end one.next one next");
}

#[test]
fn a_compound_counts_as_its_parts() {
    assert_eq!(analyse("parseHttpRequest").length, 3);
    assert_eq!(analyse("parse http request").length, 3);
    assert_eq!(analyse("U.S.").length, 1);
    let words = analyse("the lake, the Lake and don't the lakes");
    assert_eq!((words.length, words.total), (3, 8));
}

#[test]
fn a_compound_differs_from_its_parts() {
    let wholes: Vec<bool> = keywords("parse_http now")
        .iter()
        .map(|k| k.is_compound)
        .collect();
    assert_eq!(wholes, [true, false, false]);
}

#[test]
fn large_inputs_are_read() {
    for part in [
        "a", "aB", "a-", "a_", "_", "a'", "東", "é", "\u{301}", "don't ", "x.y.z/",
    ] {
        let text = part.repeat(300_000 / part.len());
        assert!(analyse(&text).terms.len() < 100, "{part}");
        assert!(query_keywords(&text).len() < 100, "{part}");
    }
}

#[test]
fn apostrophes_belong_to_the_word() {
    check("Ana's we'll they're I'd", "ana");
    check("don't isn't WON'T", "");
    check("O'Brien’s o'clock", "obrien oclock");
    check("She won", "won");
}

#[test]
fn numbers_are_words() {
    check(
        "on 2023-05-08 at 3.14 for 42%",
        "2023-05-08 2023 05 08 3.14 3 14 42",
    );
    check("5K H2O 3D", "5k h2o 3d");
    check("E0308 #123", "e0308 123");
}

#[test]
fn accents_and_widths_are_ignored() {
    check("Café cafe\u{301} CAFÉS", "cafe");
    check("ＡＢＣ abc", "abc");
    check("☕\u{fe0f} tea \u{301}", "tea");
    check("Straße", "straße");
    // The stem in Greek may follow it.
    assert_eq!(keywords("Ωμέγα")[0].stem, "ωμεγα");
    assert_eq!(keywords("Ёлка")[0].stem, "елка");
}

#[test]
fn scripts_without_spaces_give_pairs() {
    check("東京タワー", "東京 京タ タワ ワー");
    check("湖 is lake", "湖 lake");
    check("한국어 test", "한국 국어 test");
    check("abc東京", "abc 東京");
    check("ไทย", "ไท ทย");
    check("東京。大阪・京都", "東京 大阪 京都");
}

#[test]
fn overlong_words_are_dropped() {
    let hash = "a".repeat(64);
    check(&hash, &hash);
    check(&"a".repeat(65), "");
    check(&format!("see {} here", "aGVsbG8".repeat(20)), "see");
    let (one, other) = ("q".repeat(40), "w".repeat(40));
    check(&format!("{one}.{other}"), &format!("{one} {other}"));
}

#[test]
fn a_query_of_stop_words_keeps_them() {
    assert!(keywords("Who are you?").is_empty());
    assert!(analyse("Who are you?").terms.is_empty());
    let kept: Vec<String> = query_keywords("Who are you?")
        .into_iter()
        .map(|k| k.word)
        .collect();
    assert_eq!(kept, ["who", "are", "you"]);
    let kept: Vec<String> = query_keywords("Who is Ana?")
        .into_iter()
        .map(|k| k.word)
        .collect();
    assert_eq!(kept, ["ana"]);
    assert_eq!(query_keywords("Don't!")[0].word, "dont");
}

#[test]
fn term_ids_never_change() {
    // These ids are stored in existing memories.
    assert_eq!(term_id(""), 0x811c_9dc5);
    assert_eq!(term_id("a"), 0xe40c_292c);
    assert_eq!(term_id("foobar"), 0xbf9c_f968);
    let words = analyse("The lakes of Berlin, the lake");
    let mut expected = vec![
        Term {
            id: term_id("lake"),
            count: 2,
        },
        Term {
            id: term_id("berlin"),
            count: 1,
        },
    ];
    expected.sort();
    assert_eq!(words.terms, expected);
    assert_eq!(words.count(term_id("lake")), 2);
    assert_eq!(words.count(term_id("sea")), 0);
    assert_eq!(
        words.to_bytes(),
        [
            1, 3, 6, 0, 189, 124, 62, 196, 7, 191, 205, 37, 226, 189, 145, 147, 8, 155, 187, 153,
            156, 4, 2
        ]
    );
}

#[test]
fn counts_stop_at_255() {
    let words = analyse(&"lake ".repeat(1000));
    assert_eq!(words.terms[0].count, 255);
    assert_eq!(words.length, 1000);
    assert_eq!(Words::from_bytes(&words.to_bytes()), Some(words));
}

#[test]
fn damaged_bytes_are_errors() {
    let bytes = analyse("The lakes of Berlin, the lake").to_bytes();
    assert_eq!(Words::from_bytes(&[]), None);
    assert_eq!(Words::from_bytes(&bytes[..bytes.len() - 1]), None);
    let mut other = bytes.clone();
    other[0] = 2;
    assert_eq!(Words::from_bytes(&other), None);
    assert_eq!(
        Words::from_bytes(&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        None
    );
    let nothing = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(Words::from_bytes(&nothing), Some(Words::default()));
}

#[test]
fn texts_with_the_same_words_have_the_same_fingerprint() {
    let print = |text: &str| analyse(text).print;
    assert_eq!(print("The build failed."), print("the BUILD, failed"));
    for (one, other) in [
        ("Ana met Bob", "Bob met Ana"),
        ("it works", "it does not work"),
        ("I can", "I can't"),
        ("retry 1", "retry 2"),
        ("a b", "ab"),
    ] {
        assert_ne!(print(one), print(other), "{one} / {other}");
    }
    assert_eq!(analyse("It doesn't work, and never did").negations, 2);
}

proptest! {
    #[test]
    fn terms_are_sorted_and_read_back_unchanged(text in ".{0,200}") {
        let words = analyse(&text);
        prop_assert!(words.terms.windows(2).all(|two| two[0].id < two[1].id));
        prop_assert!(words.terms.iter().all(|term| term.count > 0));
        prop_assert_eq!(words.terms.is_empty(), words.length == 0);
        prop_assert!(words.total >= words.length);
        prop_assert_eq!(Words::from_bytes(&words.to_bytes()), Some(words));
    }

    #[test]
    fn keywords_are_the_terms(text in "([a-zA-Z_.'’é東 -]|the |lake |isn't ){0,60}") {
        let mut ids: Vec<u32> = keywords(&text).iter().map(|keyword| keyword.id).collect();
        ids.sort_unstable();
        let terms: Vec<u32> = analyse(&text).terms.iter().map(|term| term.id).collect();
        prop_assert_eq!(ids, terms);
    }

    #[test]
    fn reading_any_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Some(words) = Words::from_bytes(&bytes) {
            prop_assert_eq!(Words::from_bytes(&words.to_bytes()), Some(words));
        }
    }
}

/// Returns true when a query and a text share a term.
fn finds(query: &str, text: &str) -> bool {
    let text = analyse(text);
    let words = query_keywords(query);
    words.iter().any(|word| text.count(word.id) > 0)
}

#[test]
fn other_languages_have_their_own_stems() {
    for (query, text) in [
        (
            "Wo sind die Schlüssel der Häuser?",
            "Das Haus ist nicht weit von hier.",
        ),
        (
            "¿Dónde están los gatos?",
            "El gato es muy grande y está en la casa.",
        ),
        (
            "Où sont les chevaux et la maison ?",
            "Les maisons sont dans la rue.",
        ),
        ("где находятся книги", "книгами полна комната"),
        ("Waar zijn de katten?", "Het is een kat van mijn zus."),
    ] {
        assert!(finds(query, text), "{query} | {text}");
    }
    // A query of unknown language finds the word as it is written.
    assert!(finds("Schlüssel", "Der Schlüssel ist nicht im Keller."));
    assert!(finds("Keller", "Der Schlüssel ist nicht im Keller."));
}

#[test]
fn english_texts_have_english_stems_only() {
    for text in [
        "The old catalogue is in the cellar, and I was there on Monday.",
        "Die hard is a movie",
        "parseHttpRequest fails",
        "La La Land was on at the cinema when we were there",
    ] {
        let plain: Vec<String> = keywords(text).into_iter().map(|k| k.word).collect();
        let mut once = plain.clone();
        once.dedup();
        assert_eq!(plain, once, "{text}");
    }
}
