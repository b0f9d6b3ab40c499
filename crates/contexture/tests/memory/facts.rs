//! Relations from texts: only facts, only the current ones, with their date.

use crate::fixture::{TestMemory, query_for, said};

fn relations(mind: &TestMemory, query: &str) -> Vec<String> {
    let context = mind.ask(&query_for(query, 2_000));
    let lines = context.content.lines().filter(|line| line.contains("-->"));
    lines.map(str::to_owned).collect()
}

fn told(texts: &[(&str, &str)]) -> TestMemory {
    let line = |(i, (day, text)): (usize, &(&str, &str))| {
        let at = format!("{day}T10:00:00Z");
        said(&format!("t{i}"), &format!("s{i}"), &at, "Ana", text)
    };
    let lines: String = texts.iter().enumerate().map(line).collect();
    TestMemory::of(&lines)
}

#[test]
fn a_condition_is_no_fact() {
    let mind = told(&[("2026-02-01", "If I worked at Nokia I would be rich.")]);
    assert!(relations(&mind, "Where does Ana work?").is_empty());
}

#[test]
fn ended_records_are_not_shown_as_current() {
    let mind = told(&[
        ("2026-01-05", "I work at Siemens."),
        ("2026-02-10", "I no longer work at Siemens."),
    ]);
    assert!(relations(&mind, "Where does Ana work?").is_empty());
    // It may begin again.
    mind.record(&said(
        "back",
        "z",
        "2026-02-20T10:00:00Z",
        "Ana",
        "I work at Siemens again.",
    ));
    assert_eq!(relations(&mind, "Where does Ana work?").len(), 1);
}

#[test]
fn a_new_value_ends_the_old_one_in_any_order_of_recording() {
    let texts = [
        ("2026-01-05", "I work at Siemens."),
        ("2026-02-10", "I work at Nokia now."),
    ];
    let shown = ["Ana --[works_at]--> Nokia (2026-02-10)"];
    assert_eq!(relations(&told(&texts), "Where does Ana work?"), shown);
    let [a, b] = texts;
    assert_eq!(relations(&told(&[b, a]), "Where does Ana work?"), shown);
}

#[test]
fn forgetting_what_ended_a_relation_restores_it() {
    let mind = told(&[
        ("2026-01-05", "I work at Siemens."),
        ("2026-02-10", "I left Siemens."),
    ]);
    assert!(relations(&mind, "Where does Ana work?").is_empty());
    let id = "t1".to_owned();
    let forget = contexture::store::Forget::Id { kind: None, id };
    mind.memory().forget(&forget).unwrap();
    let shown = ["Ana --[works_at]--> Siemens (2026-01-05)"];
    assert_eq!(relations(&mind, "Where does Ana work?"), shown);
}

#[test]
fn a_sentence_can_end_one_relation_and_begin_another() {
    let mind = told(&[
        ("2026-01-05", "I live in Lyon."),
        ("2026-02-10", "I moved from Lyon to Porto last week."),
    ]);
    let shown = ["Ana --[lives_in]--> Porto (2026-02-10)"];
    assert_eq!(relations(&mind, "Where does Ana live?"), shown);
    let mind = told(&[("2026-01-05", "I am married to Ben.")]);
    let shown = ["Ana --[married_to]--> Ben (2026-01-05)"];
    assert_eq!(relations(&mind, "Who is Ana married to?"), shown);
}

#[test]
fn reports_and_negations_are_not_facts() {
    for text in [
        "My sister said she works at Bosch.",
        "I might work at Airbus next year.",
        "I don't work at Intel.",
        "I wish I worked at Google.",
        "I have never worked at Opel.",
        "Do I work at Apple?",
        "I used to work at Volvo.",
        "I worked at Saab.",
        "Until 2019 I worked at Saab.",
        "Neither Ida nor Jon works at Saab.",
    ] {
        let mind = told(&[("2026-01-05", text)]);
        assert!(
            relations(&mind, "Where does Ana work?").is_empty(),
            "{text}"
        );
    }
}

#[test]
fn a_denied_relation_of_another_person_ends() {
    let lives = ("2026-01-05", "My sister Lena lives in Berlin.");
    for denial in [
        "Lena no longer lives in Berlin.",
        "Lena does not live in Berlin.",
        "Lena lived in Berlin until last week.",
    ] {
        let mind = told(&[lives, ("2026-02-10", denial)]);
        assert!(
            relations(&mind, "Where does Lena live?").is_empty(),
            "{denial}"
        );
    }
    let moved = "Lena does not live in Berlin. She moved to Munich.";
    let mind = told(&[lives, ("2026-02-10", moved)]);
    let shown = ["Lena --[lives_in]--> Munich (2026-02-10)"];
    assert_eq!(relations(&mind, "Where does Lena live?"), shown);
}

#[test]
fn a_person_at_the_start_of_a_sentence_has_relations() {
    let mind = told(&[
        ("2026-01-05", "Alice lives in Paris."),
        ("2026-01-06", "Everyone moved to Berlin."),
        ("2026-01-07", "Before 2020, Otto lived in Graz."),
    ]);
    let shown = ["Alice --[lives_in]--> Paris (2026-01-05)"];
    assert_eq!(relations(&mind, "Where do Alice and Otto live?"), shown);
}
