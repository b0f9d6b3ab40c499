//! Queries that name a time.

use contexture::memory::{ContextRequest, Recall};

use crate::fixture::{TestMemory, ids, now, query_for, said};

/// One text on each of 20 days before now, 1 March 2026.
fn days() -> String {
    let words = [
        "bread",
        "fence",
        "museum",
        "garlic",
        "attic",
        "brakes",
        "letter",
        "coffee",
        "puzzle",
        "soup",
        "pottery",
        "jacket",
        "accordion",
        "hallway",
        "lake",
        "film",
        "books",
        "swim",
        "market",
        "vet",
    ];
    let line = |(age, word): (usize, &&str)| {
        let at = now() - std::time::Duration::from_secs(86_400 * age as u64 + 7_200);
        said(
            &format!("d{age}"),
            &format!("s{age}"),
            &at.to_string(),
            "Ana",
            &format!("It was about the {word}."),
        )
    };
    words.iter().enumerate().map(line).collect()
}

#[test]
fn records_of_the_time_that_is_named_come_first() {
    let mind = TestMemory::of(&days());
    let best = |query: &str| {
        let context = mind.ask(&query_for(query, 60));
        ids(&context)
    };
    assert!(best("What was it about yesterday?").contains(&"d1".to_owned()));
    assert!(best("What was it about on 20 February 2026?").contains(&"d9".to_owned()));
    assert!(best("what was it about on friday").contains(&"d2".to_owned()));
    let context = mind.recall("What happened in the last three days?");
    let intervals = &context.metadata.signals.intervals;
    assert_eq!(intervals.len(), 1);
    assert_eq!(
        intervals[0].from.unwrap().to_string(),
        "2026-02-26T00:00:00Z"
    );
}

#[test]
fn times_in_a_text_count() {
    let mut lines = days();
    lines.push_str(&said(
        "told",
        "t",
        "2026-02-28T10:00:00Z",
        "Ben",
        "On 3 January we went to the castle.",
    ));
    let mind = TestMemory::of(&lines);
    let context = mind.ask(&query_for("What did we do on 3 January 2026?", 50));
    assert!(
        ids(&context).contains(&"told".to_owned()),
        "{}",
        context.content
    );
}

#[test]
fn days_are_those_of_the_time_zone() {
    // At noon on 1 March in Greenwich it is 2 March in Auckland.
    let mind = TestMemory::of(&days());
    let ask = |zone: Option<&str>| {
        let request = ContextRequest {
            timezone: zone.map(str::to_owned),
            ..query_for("What was it about yesterday?", 40)
        };
        mind.ask(&request)
    };
    let intervals = |zone| {
        ask(zone).metadata.signals.intervals[0]
            .from
            .unwrap()
            .to_string()
    };
    assert_eq!(intervals(None), "2026-02-28T00:00:00Z");
    assert_eq!(intervals(Some("+13:00")), "2026-02-28T11:00:00Z");
    let unknown = ask(Some("Mars/Base"));
    assert_eq!(unknown.metadata.warnings[0].code, "unknown_time_zone");
    assert!(ids(&unknown).contains(&"d1".to_owned()));
}

#[test]
fn times_that_contradict_are_reported() {
    let mind = TestMemory::of(&days());
    let context = mind.recall("What happened after May 2026 and before March 2026?");
    assert_eq!(context.metadata.warnings[0].code, "times_contradict");
    assert!(!ids(&context).is_empty());
}

#[test]
fn a_record_of_the_year_9999_is_not_the_latest() {
    let mut lines = days();
    lines.push_str(&said(
        "far",
        "t",
        "9999-12-30T21:00:00Z",
        "Ben",
        "The end of the calendar.",
    ));
    let mind = TestMemory::of(&lines);
    let context = mind.ask(&query_for("zzyzx", 60));
    assert!(
        !ids(&context).contains(&"far".to_owned()),
        "{}",
        context.content
    );
    assert!(
        ids(&context).contains(&"d0".to_owned()),
        "{}",
        context.content
    );
    assert!(ids(&mind.recall("the end of the calendar")).contains(&"far".to_owned()));
    assert!(ids(&mind.recall("What happened next year?")).len() > 1);
}

#[test]
fn comparisons_get_texts_of_several_days() {
    let mut lines = String::new();
    for i in 0..12 {
        let at = format!("2026-02-02T10:{:02}:00Z", i);
        let text = format!(
            "The garden wedding needs more {} for the guests.",
            [
                "chairs", "tables", "lamps", "plates", "cups", "forks", "rugs", "tents", "songs",
                "cakes", "cards", "bells"
            ][i]
        );
        lines.push_str(&said(&format!("w{i}"), "s", &at, "Ana", &text));
    }
    lines.push_str(&said(
        "move",
        "t",
        "2025-06-02T10:00:00Z",
        "Ana",
        "We did the move today.",
    ));
    let mind = TestMemory::of(&lines);
    let query = "How long was it between the move and the garden wedding?";
    let context = mind.ask(&query_for(query, 120));
    assert!(
        ids(&context).contains(&"move".to_owned()),
        "{}",
        context.content
    );
    let how = Recall {
        now: Some(now()),
        ..Recall::default()
    };
    let again = mind.memory().recall(&query_for(query, 120), &how).unwrap();
    assert_eq!(again.context.content, context.content);
}

#[test]
fn the_first_and_the_latest_are_found_by_time_alone() {
    let things = [
        "planted tomatoes",
        "fixed the bike",
        "called the bank",
        "baked bread",
    ];
    // No two texts are the same: of near-duplicates, the newest is kept.
    let names = [
        "Ana", "Ben", "Cleo", "Dora", "Emil", "Fay", "Gus", "Hana", "Ivo", "Jon",
    ];
    let lines: String = (0..40)
        .map(|i| {
            let time = format!("2026-0{}-{:02}T10:00:00Z", 1 + i / 28, 1 + i % 28);
            let text = format!("I {} with {}.", things[i % 4], names[i / 4]);
            said(&format!("d{i}"), &format!("s{i}"), &time, "Ana", &text)
        })
        .collect();
    let mind = TestMemory::of(&lines);
    for (query, wanted) in [
        ("What was the first thing I did?", "d0"),
        ("What is the latest thing I did?", "d39"),
    ] {
        let found = ids(&mind.ask(&query_for(query, 60)));
        assert!(found.contains(&wanted.to_owned()), "{query}: {found:?}");
    }
}
