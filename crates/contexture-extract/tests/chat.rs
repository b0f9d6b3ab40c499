//! Tests of the relations and entities that the rules find in lines of chats.
#![allow(clippy::unwrap_used)]

use contexture_extract::{EntityRule, Extractor, Find, RelationRule, Rules, TextContext};
use proptest::prelude::*;

fn relation(kind: &str, to: &str, phrases: &str, ends: &str) -> RelationRule {
    let list = |text: &str| text.split(", ").map(str::to_owned).collect();
    RelationRule {
        kind: kind.to_owned(),
        from: "person".to_owned(),
        to: to.to_owned(),
        phrases: list(phrases),
        ends: list(ends),
        single: true,
    }
}

/// The rules of the archetype `recall`.
fn rules() -> Rules {
    let entities = [
        ("date", Find::Date),
        ("title", Find::Quoted),
        ("person", Find::Person),
        ("organization", Find::Organization),
        ("place", Find::Place),
    ];
    let entity = |(kind, find): &(&str, Find)| EntityRule {
        kind: (*kind).to_owned(),
        find: Some(*find),
        pattern: None,
    };
    Rules {
        entities: entities.iter().map(entity).collect(),
        relations: vec![
            relation(
                "works_at",
                "organization",
                "works at, work at, has worked at, have worked at, works for, work for",
                "worked at, worked for, left, quit, resigned from, retired from, was fired from, \
                 stopped working at, stopped working for, leaves",
            ),
            relation(
                "lives_in",
                "place",
                "lives in, live in, has lived in, have lived in, moved to, is from, am from",
                "lived in, left, moved from, moved away from, moved out of",
            ),
            relation(
                "married_to",
                "person",
                "married to, is married to, married, got married to",
                "was married to, divorced, is divorced from, got divorced from, separated from",
            ),
        ],
        keywords: 0,
    }
}

/// Returns the relations as `type target`, or `from type target` if another person
/// than the speaker is the source.
fn relations(text: &str) -> String {
    let extractor = Extractor::new(&rules()).unwrap();
    let known = TextContext {
        speaker: Some("Ben"),
        names: &["Ben"],
    };
    let found = extractor.extract(text, &known);
    let links = found.relations.iter().map(|link| {
        let from = match found.entities[link.from].name.as_str() {
            "Ben" => String::new(),
            other => format!("{other} "),
        };
        let ended = if link.ended { "ended " } else { "" };
        format!(
            "{from}{ended}{} {}",
            link.kind, found.entities[link.to].name
        )
    });
    links.collect::<Vec<_>>().join("; ")
}

/// Compares the relations of each text. A line is `text | relations`.
#[track_caller]
fn check(lines: &str) {
    let mut wrong = Vec::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (text, expected) = line.split_once('|').unwrap();
        let found = relations(text.trim());
        if found != expected.trim() {
            wrong.push(format!("{text}: `{found}`, expected `{}`", expected.trim()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_event_of_the_past_is_not_current() {
    check(
        "In 2010 I moved to Rome. |
         I moved to Lima when I was 18. |
         I moved to Lima, Peru, when I was 18. |
         As a child I moved to Rome. |
         We moved to Rome ten years ago. |
         I moved to Lima at the age of 18. |
         I moved to Rome for two years. |
         Back in the 90s we moved to Oslo. |
         I started at Nokia in 2004. |
         When I moved to Rome I knew no one. |
         I have lived in Rome. |
         I've worked at Nokia and Ericsson. |
         I've lived in Rome since 2010. | lives_in Rome
         I've worked at Nokia for ten years. | works_at Nokia
         I have been living in Rome since 2010. | lives_in Rome
         I moved to Rome last week. | lives_in Rome
         I moved to Rome in May. | lives_in Rome
         I moved to Porto in 2010 and now I live in Rome. | lives_in Rome
         I moved to Bergen in 2019 and then to Turku. | lives_in Turku
         I moved to Bergen in May 2019 and then to Turku. | lives_in Turku
         I moved to Bergen and later to Turku. | ended lives_in Bergen; lives_in Turku
         I moved to Bergen in 2019 and then to Turku in 2021. |
         I moved from Lyon to Porto last week. | ended lives_in Lyon; lives_in Porto",
    );
}

#[test]
fn contractions_and_we_are_read() {
    check(
        "I've moved to Lyon. | lives_in Lyon
         I’ve just moved to Lyon. | lives_in Lyon
         We moved to Lyon. | lives_in Lyon
         We've moved to Lyon. | lives_in Lyon
         I moved back to Lyon. | lives_in Lyon
         We’re living in Lyon now. | lives_in Lyon
         We live in Lyon. | lives_in Lyon
         we live in Lyon | lives_in Lyon
         i live in Lyon | lives_in Lyon
         And we both work at Nokia. | works_at Nokia
         I'm married to Olga. | married_to Olga
         I'm working at Nokia. | works_at Nokia
         So Ana's moved to Lyon. | Ana lives_in Lyon
         I'd live in Lyon. |
         I'd moved to Lyon. |
         I'll work at Nokia. |
         I'm from Poland. |
         I live in St. Louis. | lives_in St. Louis
         I live in St. Louis and work at Boeing. | lives_in St. Louis; works_at Boeing",
    );
}

#[test]
fn the_usual_ends_are_read() {
    check(
        "I quit my job at Lego. | ended works_at Lego
         I got fired from Lego. | ended works_at Lego
         I just got laid off from Lego. | ended works_at Lego
         I’m not working at Lego any more. | ended works_at Lego
         I'm no longer working for Lego. | ended works_at Lego
         We don't live in Rome anymore. | ended lives_in Rome
         I left Rome. | ended lives_in Rome
         I left Lego. | ended works_at Lego
         I left Lego out of the list. |
         I'm no longer married to Olga. | ended married_to Olga
         I’m no longer married to Olga. | ended married_to Olga
         Olga and I are divorced. | ended married_to Olga
         Olga and I got divorced last year. | ended married_to Olga
         Olga and I have separated. | ended married_to Olga
         Olga and I split up. | ended married_to Olga
         Olga and I are no longer married. | ended married_to Olga
         My ex-wife Olga called. | ended married_to Olga
         Olga and I are happy. |
         Olga and I might get divorced. |",
    );
}

#[test]
fn a_second_relation_may_omit_its_subject() {
    check(
        "I live in Haifa and work at Intel. | lives_in Haifa; works_at Intel
         I live in Haifa, Israel and work at Intel. | lives_in Haifa; works_at Intel
         I live in Haifa but work for Intel. | lives_in Haifa; works_at Intel
         I live in Haifa, work at Intel and like it. | lives_in Haifa; works_at Intel
         Ana lives in Haifa and works at Intel. | Ana lives_in Haifa; Ana works_at Intel
         I live in Haifa and Ana works at Intel. | lives_in Haifa; Ana works_at Intel
         I live in Haifa and my sister works at Intel. | lives_in Haifa
         I live in Haifa and would like to work at Intel. |
         I live in Haifa and want to work at Intel. | lives_in Haifa
         I grew up in Oulu but now live in Turku. | lives_in Turku
         I'm from Oulu and work at Nokia. | works_at Nokia
         I know that Ana and Bob grew up in Oulu and live in Turku. |",
    );
}

#[test]
fn the_usual_forms_of_chats_are_read() {
    check(
        "My wife Olga loves tea. | married_to Olga
         I went there with my husband Tom. | married_to Tom
         my wife is called Olga | married_to Olga
         My wife's name is Olga. | married_to Olga
         My wife’s name is Olga. | married_to Olga
         Olga is my wife. | married_to Olga
         Olga and I got married! | married_to Olga
         I got a job at Nokia! | works_at Nokia
         I started at Nokia last week. | works_at Nokia
         Started at Nokia last week | works_at Nokia
         Just started working at Nokia :) | works_at Nokia
         Got a job at Nokia! | works_at Nokia
         Got fired from Nokia today | ended works_at Nokia
         Moved to Lyon last month | lives_in Lyon
         I'm a nurse at Charité. | works_at Charité
         I work as a senior engineer at Bosch. | works_at Bosch
         I'm an engineer at Bosch and live in Ulm. | works_at Bosch; lives_in Ulm
         We relocated to Porto. | lives_in Porto
         I'm based in Porto. | lives_in Porto
         I'm currently living in Porto. | lives_in Porto
         Living in Porto now, love it | lives_in Porto
         I live in a small flat in Lund. | lives_in Lund
         I live with my parents in Lund. | lives_in Lund
         I'm living alone in Lund. | lives_in Lund
         I live and work in Lund. | lives_in Lund
         I live for the weekends in Ibiza. |
         I work part time at Ikea. | works_at Ikea
         We work remotely for Ikea. | works_at Ikea
         I've been at Nokia since 2011. | works_at Nokia
         I've been at Ikea for two hours. |
         I've lived in Lund all my life. | lives_in Lund
         Karin started at Nokia last week. | Karin works_at Nokia
         Karin quit her job at Nokia. | Karin ended works_at Nokia",
    );
}

#[test]
fn what_is_not_a_fact_gives_no_relation() {
    check(
        "If we live in Rome we need a car. |
         Once I live in Rome, I will learn Italian. |
         When I live in Rome, I will learn Italian. |
         My sister said she works at Bosch. |
         Ana wrote: \"I live in Rome\". |
         “I live in Rome”, Ana wrote. |
         Do I live in Rome |
         I am moving to Rome. |
         I want to live in Rome. |
         I may work at Nokia. |
         I wish my wife Olga were here. |
         My wife Olga died. |
         My late wife Olga loved tea. |
         My sister Karin is here. |
         I'm a customer at Lidl. |
         I'm not a nurse at Charité. |
         We moved to Terraform. |
         Moved to Archive |
         My wife works at Lego. |
         I never lived in Rome. |
         I almost moved to Rome. |
         You live in Rome. |
         People think I work at Google. |
         Let's say I live in Paris. |
         Assume I work at Nokia. |
         In my novel I live in Paris. |
         Translate to German: I live in Paris. |
         'I work at Nokia' is a sentence. |
         I moved to Marketing. |
         I moved to Ericsson. |
         I left Ana at the station. |
         I left Rome this morning. |
         I work for Nokia's competitor. |
         I live in Karin's flat. |
         Living in Rome is expensive. |
         Working at Nokia was fun. |
         I started at Finse and walked for hours. |
         Started at Finse |
         We moved to Google Cloud. |
         We moved to Staging. |
         Olga and I are married to our jobs. |
         Tom and I split the bill. |",
    );
}

/// Compares the entities, written as `type:name`.
#[track_caller]
fn check_entities(lines: &str) {
    let extractor = Extractor::new(&rules()).unwrap();
    let mut wrong = Vec::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (text, expected) = line.split_once('|').unwrap();
        let found = extractor.extract(text.trim(), &TextContext::default());
        let told = found.entities.iter();
        let told: Vec<String> = told.map(|m| format!("{}:{}", m.kind, m.name)).collect();
        if told.join(", ") != expected.trim() {
            wrong.push(format!(
                "{text}: `{}`, expected `{}`",
                told.join(", "),
                expected.trim()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_name_without_a_sign_has_no_type() {
    check_entities(
        "we saw Saturn and its rings | unknown:Saturn
         we love Norway and Pune | place:Norway, place:Pune
         Several Belgian beers were good. |
         it costs 40 Euro |
         we met at Ystad | place:Ystad
         dinner at Sven's | person:Sven
         dinner at Zorba's | unknown:Zorba
         my colleague Adaeze is nice | person:Adaeze
         then Adaeze said hello | person:Adaeze
         yesterday Adaeze | unknown:Adaeze
         so Apple said no | organization:Apple
         we saw J. R. McLean | person:J. R. McLean
         our dog is called Struppi | unknown:Struppi
         I have a cat named Mia. | unknown:Mia
         we live near Mt. Etna | place:Mt. Etna
         In Berlin it rains. | place:Berlin
         I moved to Ericsson last year. | organization:Ericsson",
    );
}

#[test]
fn a_first_name_at_the_start_of_a_sentence_is_a_person() {
    check_entities(
        "Karin called today. | person:Karin
         Karin's dog is old. | person:Karin
         Thanks! Karin will come. | person:Karin
         Berlin is nice. |
         Rust is nice. |
         Adaeze called today. |",
    );
}

#[test]
fn nouns_of_german_texts_are_no_names() {
    check_entities(
        "Das Auto ist in der Werkstatt, die Kupplung ist kaputt. |
         Die Reparatur kostet 400 Euro. Hast Du im März Zeit? |
         Termin beim Zahnarzt am Dienstag um 15 Uhr. |
         Mein Sohn Emil spielt heute Fußball. | person:Emil
         Wir waren gestern mit Karin in Hamburg. | person:Karin, place:Hamburg
         The German word Werkstatt is nice, and Ana likes it. | unknown:Werkstatt, person:Ana",
    );
}

proptest! {
    #[test]
    fn any_chat_can_be_read(text in "(I|I'm |I’ve |we |We |my wife |is my wife|Olga|Ana|Rome|St\\. Louis|Nokia|and I |are divorced|moved to |moved from |then to |to |live in |work at |got a job at |started at |in 2010|when I was|, |and |but |not |any more|'s |’|\"|“|ß|May|\\. |\\? |Moved to |der |und | ){0,40}") {
        let extractor = Extractor::new(&rules()).unwrap();
        let known = TextContext { speaker: Some("Ben"), names: &["Ben"] };
        let found = extractor.extract(&text, &known);
        for link in &found.relations {
            prop_assert!(link.from != link.to);
            prop_assert!(link.from.max(link.to) < found.entities.len());
        }
    }
}
