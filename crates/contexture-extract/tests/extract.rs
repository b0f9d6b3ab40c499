//! Tests of the entities and relations that the rules find in texts.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use contexture_extract::{
    EntityRule, Extractor, Find, MOST_LINKS, MOST_MENTIONS, RelationRule, Rules, TextContext,
};
use proptest::prelude::*;

fn rule(kind: &str, find: Find) -> EntityRule {
    EntityRule {
        kind: kind.to_owned(),
        find: Some(find),
        pattern: None,
    }
}

fn pattern(kind: &str, pattern: &str) -> EntityRule {
    EntityRule {
        kind: kind.to_owned(),
        find: None,
        pattern: Some(pattern.to_owned()),
    }
}

fn relation(kind: &str, from: &str, to: &str, phrases: &[&str]) -> RelationRule {
    RelationRule {
        kind: kind.to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
        phrases: phrases.iter().map(|&phrase| phrase.to_owned()).collect(),
        ends: match kind {
            "works_at" => vec!["left".to_owned(), "quit".to_owned()],
            "lives_in" => vec!["moved from".to_owned(), "lived in".to_owned()],
            _ => Vec::new(),
        },
        single: false,
    }
}

/// All matchers, and some relations.
fn everything() -> Rules {
    Rules {
        entities: Find::ALL
            .iter()
            .map(|(name, find)| rule(name, *find))
            .collect(),
        relations: vec![
            relation(
                "works_at",
                "person",
                "organization",
                &["works at", "work at", "works for"],
            ),
            relation(
                "lives_in",
                "person",
                "place",
                &["lives in", "live in", "moved to"],
            ),
            relation(
                "married_to",
                "person",
                "person",
                &["is married to", "married"],
            ),
            relation("calls", "symbol", "symbol", &["calls"]),
            relation("mentioned_with", "error", "file", &[]),
        ],
        keywords: 0,
    }
}

/// Compares the matches, written as `type:name` and `from -type-> to`.
#[track_caller]
fn check_said(speaker: Option<&str>, text: &str, expected: &str) {
    let extractor = Extractor::new(&everything()).unwrap();
    let known = TextContext {
        speaker,
        names: &["Caroline"],
    };
    let found = extractor.extract(text, &known);
    let name = |i: usize| &found.entities[i].name;
    let entities = found
        .entities
        .iter()
        .map(|m| format!("{}:{}", m.kind, m.name));
    let links = found.relations.iter().map(|link| {
        let ended = if link.ended { "ended " } else { "" };
        format!(
            "{} -{ended}{}-> {}",
            name(link.from),
            link.kind,
            name(link.to)
        )
    });
    let told: Vec<String> = entities.chain(links).collect();
    assert_eq!(told.join(" | "), expected, "{text}");
}

#[track_caller]
fn check(text: &str, expected: &str) {
    check_said(None, text, expected);
}

#[test]
fn names_are_recognised_by_capital_letters() {
    check(
        "Yesterday Ana met Bob Smith.",
        "person:Ana | person:Bob Smith",
    );
    check(
        "I saw Dr. Lee and J. R. McLean’s dog",
        "person:Lee | person:J. R. McLean",
    );
    check("she and Jean-Luc O'Brien", "person:Jean-Luc O'Brien");
    check("Hey Caroline! Good to see you", "person:Caroline");
    check(
        "Bye Caroline, we fly to New York City",
        "person:Caroline | place:New York City",
    );
    check("Zoë told José", "person:Zoë | person:José");
}

#[test]
fn a_capital_at_the_start_of_a_sentence_is_ignored() {
    check("Running the tests. Berlin is nice.", "");
    check("Caroline is nice.", "person:Caroline");
    check("Ana is nice. I like Ana.", "person:Ana");
    check("Ana Smith is nice.", "person:Ana Smith");
    check("He said: \"Come here, please\"", "");
    check("Deploying Services Without Any Downtime At All", "");
}

#[test]
fn not_everything_with_a_capital_is_a_name() {
    check("on Monday in May I spoke English at Christmas", "");
    check("we use Python and Docker, OK?", "");
    check("the HTTP API of NASA", "");
}

#[test]
fn places_and_organizations_are_recognised_by_context() {
    check(
        "we are in Berlin near Lake Como",
        "place:Berlin | place:Lake Como",
    );
    check("she studies at Oxford", "organization:Oxford");
    check(
        "we visited Hyde Park with Acme Inc",
        "place:Hyde Park | organization:Acme Inc",
    );
    check("they went to Rome with Ana", "place:Rome | person:Ana");
}

#[test]
fn relations_are_recognised_by_phrases() {
    check(
        "My sister Ana works at Google and lives near Bob.",
        "person:Ana | organization:Google | place:Bob | Ana -works_at-> Google",
    );
    check(
        "we know that Ana has moved to Lisbon",
        "person:Ana | place:Lisbon | Ana -lives_in-> Lisbon",
    );
    check(
        "so Ana recently married Bob",
        "person:Ana | person:Bob | Ana -married_to-> Bob",
    );
    check(
        "then Ana, works at Google",
        "person:Ana | organization:Google",
    );
    check("`foo` calls `bar()`", "symbol:foo | function:bar");
    check(
        "`foo` calls `bar`",
        "symbol:foo | symbol:bar | foo -calls-> bar",
    );
}

#[test]
fn i_refers_to_the_speaker() {
    check_said(
        Some("Melanie"),
        "I work at Google, and I like it.",
        "person:Melanie | organization:Google | Melanie -works_at-> Google",
    );
    check_said(Some("Melanie"), "I like it.", "");
    check("I work at Google", "organization:Google");
}

#[test]
fn files_are_recognised_by_their_paths() {
    check(
        "see src/main.rs:12:3, ./run.sh, Makefile and /etc/hosts/x",
        "file:src/main.rs | file:./run.sh | file:Makefile | file:/etc/hosts/x",
    );
    check("either/or and 3/4, Node.js, e.g. this. and/or", "");
    check("config.toml.", "file:config.toml");
}

#[test]
fn identifiers_are_recognised_by_their_form() {
    check(
        "parse_http and parseHttp use http::parse, not `Parser` or `a b`",
        "symbol:parse_http | symbol:parseHttp | symbol:http::parse | symbol:Parser",
    );
    check(
        "call run() or self.start(x); fn load",
        "function:run | function:start | function:load",
    );
    check("my iPhone, the file(s) and GitHub", "");
}

#[test]
fn errors_are_recognised_by_type_or_code() {
    check(
        "TypeError: x; error[E0308]: y; ENOENT, java.io.IOException",
        "error:TypeError | error:E0308 | error:ENOENT | error:java.io.IOException",
    );
    check(
        "thread 'main' panicked at src/a.rs",
        "error:panicked | file:src/a.rs | panicked -mentioned_with-> src/a.rs",
    );
    check("an Error or an exception", "");
}

#[test]
fn addresses_numbers_dates_titles_and_topics_are_extracted() {
    check(
        "at https://a.org/x?y=1. Or <http://b.org>",
        "url:https://a.org/x?y=1 | url:http://b.org",
    );
    check("ask ana@example.org, not @ana", "email:ana@example.org");
    check(
        "#123 and OPS-12, CVE-2021-44228, not UTF-8",
        "number_id:#123 | number_id:OPS-12 | number_id:CVE-2021-44228",
    );
    check("#rust but not #", "hashtag:#rust");
    check(
        "2023-05-08, 8 May 2023, May 8, 2023; on May 8th. March 2020",
        "date:2023-05-08 | date:8 May 2023 | date:May 8, 2023 | date:May 8th | date:March 2020",
    );
    check("we may 8 times", "");
    check(
        "she read \"Nothing Is Impossible\" and said \"Go away!\"",
        "quoted:Nothing Is Impossible",
    );
}

#[test]
fn custom_patterns_are_applied() {
    let rules = Rules {
        entities: vec![
            pattern("customer", r"customer (\w+)"),
            pattern("empty", "x*"),
            rule("person", Find::Person),
        ],
        ..Rules::default()
    };
    let extractor = Extractor::new(&rules).unwrap();
    let found = extractor.extract(
        "so customer Ana met Bob and customer ana",
        &TextContext::default(),
    );
    let told: Vec<String> = found
        .entities
        .iter()
        .map(|m| format!("{}:{}", m.kind, m.name))
        .collect();
    assert_eq!(told, ["customer:Ana", "person:Bob"]);
}

#[test]
fn a_pattern_may_match_more_than_one_sentence() {
    let mut rules = everything();
    rules.entities.push(pattern("pair", r"Oslo\. Then Bergen"));
    let extractor = Extractor::new(&rules).unwrap();
    let text = "We know that Ana moved to Oslo. Then Bergen was next.";
    let found = extractor.extract(text, &TextContext::default());
    assert_eq!(found.entities.len(), 2);
}

#[test]
fn invalid_rules_are_errors() {
    let complaint = |rule: EntityRule| {
        let rules = Rules {
            entities: vec![pattern("a", "a"), rule],
            ..Rules::default()
        };
        let (number, why) = Extractor::new(&rules).unwrap_err();
        format!("{number} {why}")
    };
    assert_eq!(
        complaint(pattern("x", "(a")),
        "1 pattern: is no regular expression: unclosed group"
    );
    assert_eq!(
        complaint(pattern("x", "(?:a{1000}){1000}")),
        "1 pattern: is no regular expression: Compiled regex exceeds size limit of 1048576 bytes."
    );
    assert_eq!(
        complaint(pattern("x", &"a".repeat(1001))),
        "1 pattern: has 1001 bytes, more than 1000"
    );
    assert_eq!(complaint(pattern(" ", "a")), "1 type: must not be empty");
    let mut both = rule("x", Find::File);
    both.pattern = Some("a".to_owned());
    assert_eq!(
        complaint(both.clone()),
        "1 pattern: cannot be combined with `find`"
    );
    (both.find, both.pattern) = (None, None);
    assert_eq!(complaint(both), "1 find: is missing, and so is `pattern`");
}

#[test]
fn keywords_are_the_most_specific_terms() {
    let rules = Rules {
        keywords: 3,
        ..Rules::default()
    };
    let extractor = Extractor::new(&rules).unwrap();
    let text = "The lake is big. A parse_http bug at the lake, at my house by the lake";
    assert_eq!(
        extractor.extract(text, &TextContext::default()).keywords,
        ["lake", "parse_http", "house"]
    );
}

#[test]
fn a_megabyte_of_text_gives_bounded_output() {
    let extractor = Extractor::new(&everything()).unwrap();
    for part in [
        "and Ana met Bob, ",
        "a",
        "\"",
        "`",
        "(",
        "I ",
        "A ",
        "é.",
        "#1 ",
        "a/b.rs ",
        "x. Y",
    ] {
        let text = part.repeat(1_000_000 / part.len());
        let found = extractor.extract(&text, &TextContext::default());
        assert!(found.entities.len() <= MOST_MENTIONS && found.relations.len() <= MOST_LINKS);
    }
    let many: String = (0..5000)
        .map(|i| format!("see file{i}.rs and Error{i}Error. "))
        .collect();
    let found = extractor.extract(&many, &TextContext::default());
    assert_eq!(found.entities.len(), MOST_MENTIONS);
}

proptest! {
    #[test]
    fn any_text_can_be_read(text in "([A-Za-z]{1,8}|[ .,:;!?\"'`()#@/_-]|[éÉ中“”’…\n]|::|I |in |Ana |https://|2023-05-08){0,60}") {
        let extractor = Extractor::new(&everything()).unwrap();
        let known = TextContext { speaker: Some("Ana"), names: &["Bob"] };
        let found = extractor.extract(&text, &known);
        let distinct: BTreeSet<_> = found.entities.iter().map(|m| (&m.kind, &m.name)).collect();
        prop_assert_eq!(distinct.len(), found.entities.len());
        for link in &found.relations {
            prop_assert!(link.from != link.to);
            prop_assert!(link.from.max(link.to) < found.entities.len());
        }
        for mention in &found.entities {
            prop_assert!(!mention.name.trim().is_empty());
        }
    }
}

#[test]
fn only_stated_facts_give_relations() {
    for text in [
        "If I work at Nokia I would be rich.",
        "If I worked at Nokia I would be rich.",
        "Does Caroline work at Nokia?",
        "Caroline said that Ana works at Nokia.",
        "Maybe Caroline works at Nokia.",
        "It is not true that Caroline works at Nokia.",
        "Caroline doesn't work at Nokia on Fridays.",
        "Neither Caroline nor Jon lives in Prague.",
    ] {
        let extractor = Extractor::new(&everything()).unwrap();
        let known = TextContext {
            speaker: Some("Ben"),
            names: &["Caroline"],
        };
        let found = extractor.extract(text, &known);
        assert!(found.relations.is_empty(), "{text}: {found:?}");
    }
}

#[test]
fn the_end_of_a_relation_is_told() {
    let siemens = |text: &str| {
        let expected = "person:Ben | organization:Siemens | Ben -ended works_at-> Siemens";
        check_said(Some("Ben"), text, expected);
    };
    siemens("I no longer work at Siemens.");
    siemens("I left Siemens.");
    siemens("I just quit Siemens!");
    siemens("I don't work at Siemens anymore.");
    siemens("I do not work at Siemens.");
    siemens("I don’t work at Siemens, by the way.");
    check_said(
        Some("Ben"),
        "I moved from Oslo.",
        "person:Ben | place:Oslo | Ben -ended lives_in-> Oslo",
    );
}

#[test]
fn the_past_tense_states_no_present_relation() {
    for text in [
        "Until 2019 Lena lived in Berlin.",
        "Before 2020, Lena lived in Berlin.",
        "Lena lived in Berlin.",
        "Lena used to live in Berlin.",
    ] {
        let expected = "person:Lena | place:Berlin | Lena -ended lives_in-> Berlin";
        check(text, expected);
    }
}

#[test]
fn a_first_word_before_a_relation_is_a_person() {
    for (text, expected) in [
        (
            "Alice lives in Paris.",
            "person:Alice | place:Paris | Alice -lives_in-> Paris",
        ),
        (
            "Peter works at Bosch.",
            "person:Peter | organization:Bosch | Peter -works_at-> Bosch",
        ),
        (
            "Lena no longer lives in Berlin.",
            "person:Lena | place:Berlin | Lena -ended lives_in-> Berlin",
        ),
        (
            "Lena does not live in Berlin.",
            "person:Lena | place:Berlin | Lena -ended lives_in-> Berlin",
        ),
        (
            "Alice is married to Bob.",
            "person:Alice | person:Bob | Alice -married_to-> Bob",
        ),
        ("Alice lives alone.", "person:Alice"),
        ("Alice is nice.", "person:Alice"),
        ("Adaeze lives alone.", ""),
        ("Adaeze is nice.", ""),
        (
            "Adaeze lives in Paris.",
            "person:Adaeze | place:Paris | Adaeze -lives_in-> Paris",
        ),
    ] {
        check(text, expected);
    }
    for word in [
        "Everyone",
        "Everybody",
        "Nobody",
        "Someone",
        "She",
        "He",
        "It",
        "This",
        "Who",
        "People",
        "Monday",
        "May",
        "Production",
        "Manufacturing",
        "Two",
    ] {
        check(&format!("{word} moved to Berlin."), "place:Berlin");
    }
}

#[test]
fn a_pronoun_refers_to_the_only_person_of_the_sentence_before() {
    check(
        "Lena does not live in Berlin anymore. She moved to Munich. She works at Bosch.",
        "person:Lena | place:Berlin | place:Munich | organization:Bosch | \
         Lena -ended lives_in-> Berlin | Lena -lives_in-> Munich | Lena -works_at-> Bosch",
    );
    for text in [
        "Lena is married to Bob. She moved to Munich.",
        "Lena works at Bosch with her sister. She moved to Munich.",
        "Lena works at Bosch, as does her sister. She moved to Munich.",
        "I work at Bosch. She moved to Munich.",
        "Lena works at Bosch. It is far. She moved to Munich.",
        "Lena's sister is nice. She moved to Munich.",
    ] {
        let extractor = Extractor::new(&everything()).unwrap();
        let known = TextContext {
            speaker: Some("Ben"),
            names: &[],
        };
        let found = extractor.extract(text, &known);
        let moved = found.relations.iter().any(|link| link.kind == "lives_in");
        assert!(!moved, "{text}: {found:?}");
    }
}
