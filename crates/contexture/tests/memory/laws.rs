//! Properties of any records and queries.

use std::collections::BTreeSet;

use contexture::memory::{ContextFilters, ContextRequest, Recall};
use contexture::tokens::Models;
use proptest::prelude::*;

use crate::fixture::{TestMemory, event, now, query_for};

const WORDS: [&str; 24] = [
    "boat",
    "train",
    "lisbon",
    "Ana",
    "Ben",
    "custard",
    "tart",
    "release",
    "noon",
    "valve",
    "lever",
    "build",
    "error",
    "fails",
    "parseHttp",
    "config.toml",
    "42",
    "red",
    "sails",
    "winter",
    "plan",
    "去了",
    "🚂",
    "don't",
];

#[derive(Debug, Clone)]
struct Thing {
    words: Vec<usize>,
    session: u8,
    hours: u16,
    speaker: u8,
    kind: u8,
    ended: bool,
    failed: bool,
    task: u8,
}

fn things() -> impl Strategy<Value = Vec<Thing>> {
    let thing = (
        prop::collection::vec(0..WORDS.len(), 1..40),
        0..4_u8,
        0..2_000_u16,
        0..3_u8,
        0..4_u8,
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
        0..3_u8,
    );
    let thing = thing.prop_map(
        |(words, session, hours, speaker, kind, ended, failed, task)| Thing {
            words,
            session,
            hours,
            speaker,
            kind,
            ended,
            failed,
            task,
        },
    );
    prop::collection::vec(thing, 0..60)
}

fn id(i: usize) -> String {
    format!("r{i}")
}

fn line(i: usize, thing: &Thing) -> String {
    let words: Vec<&str> = thing.words.iter().map(|&w| WORDS[w]).collect();
    let text = words.join(" ");
    let at = now() - std::time::Duration::from_secs(u64::from(thing.hours) * 3600);
    let ended = thing
        .ended
        .then(|| (now() - std::time::Duration::from_secs(60)).to_string());
    // The end of a record is after its start.
    let at = match thing.ended {
        true => at - std::time::Duration::from_secs(7200),
        false => at,
    };
    let speaker = ["Ana", "Ben", "Li"][usize::from(thing.speaker)];
    let value = match thing.kind {
        0 => {
            serde_json::json!({"kind": "chunk", "id": id(i), "source": format!("file{}", thing.session),
            "index": i, "text": text, "timestamp": at.to_string(), "valid_to": ended})
        }
        1 => serde_json::json!({"kind": "entity", "id": id(i), "type": format!("t{}", thing.task),
            "name": words[0], "properties": {"note": text}, "valid_to": ended}),
        _ => {
            serde_json::json!({"kind": "event", "id": id(i), "session_id": format!("s{}", thing.session),
            "timestamp": at.to_string(), "type": format!("type{}", thing.speaker),
            "content": {"speaker": speaker, "text": text},
            "task_id": format!("t{}", thing.task), "valid_to": ended,
            "outcome": if thing.failed { Some("failure") } else { None }})
        }
    };
    format!("{value}\n")
}

fn is_event(thing: &Thing) -> bool {
    thing.kind > 1
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// The text is within the budget, counted again; it has no duplicates; it
    /// has no filtered record; every found record is listed once; and a new
    /// engine returns the same.
    #[test]
    fn within_the_budget_once_and_nothing_that_is_kept_out(
        things in things(),
        query in prop::collection::vec(0..WORDS.len(), 0..6),
        budget in 1..1_500_u64,
        since in prop::option::of(0..2_000_u16),
        types in prop::option::of(0..3_u8),
        task in prop::option::of(0..3_u8),
        exclude in prop::collection::vec(0..60_usize, 0..5),
        archetype in prop::sample::select(vec!["recall", "coding", "support", "research", "minimal"]),
        failures in any::<bool>(),
    ) {
        let lines: String = things.iter().enumerate().map(|(i, thing)| line(i, thing)).collect();
        let mind = TestMemory::of(&lines);
        let query: Vec<&str> = query.iter().map(|&word| WORDS[word]).collect();
        let since = since.map(|hours| now() - std::time::Duration::from_secs(u64::from(hours) * 3600));
        let patch = serde_json::json!({"include_failures": failures});
        let request = ContextRequest {
            session_id: Some("s1".to_owned()),
            archetype: Some(archetype.to_owned()),
            strategy: Some(serde_json::from_value(patch).unwrap()),
            filters: ContextFilters {
                since,
                event_types: types.map(|n| vec![format!("type{n}")]),
                task_id: task.map(|n| format!("t{n}")),
                exclude: exclude.iter().map(|&i| id(i)).collect(),
                ..ContextFilters::default()
            },
            ..query_for(&query.join(" "), budget)
        };
        let context = mind.ask(&request);
        let counter = Models::built_in().resolve("gpt-4o").tokenizer.load().unwrap();
        prop_assert_eq!(counter.count(&context.content), context.token_count);
        prop_assert!(context.token_count <= budget, "{} > {budget}", context.token_count);

        let mut seen = BTreeSet::new();
        for part in &context.components {
            prop_assert!(seen.insert((part.kind, part.source.clone())), "twice: {}", part.source);
            prop_assert!(context.content.contains(part.content.as_str()));
            let Ok(i) = part.source[1..].parse::<usize>() else { continue };
            let Some(thing) = things.get(i).filter(|_| part.source == id(i)) else { continue };
            prop_assert!(!thing.ended, "{} no longer holds", part.source);
            prop_assert!(!exclude.contains(&i), "{} is excluded", part.source);
            if is_event(thing) {
                prop_assert!(types.is_none_or(|n| n == thing.speaker));
                prop_assert!(task.is_none_or(|n| n == thing.task));
                prop_assert!(failures || !thing.failed);
                let at = now() - std::time::Duration::from_secs(u64::from(thing.hours) * 3600);
                prop_assert!(since.is_none_or(|since| at >= since));
            }
        }
        for row in &context.excluded {
            prop_assert!(!seen.iter().any(|(_, id)| *id == row.source), "{} is in both", row.source);
        }

        let how = Recall { now: Some(now()), ..Recall::default() };
        let fresh = mind.fresh();
        let again = fresh.memory().unwrap().recall(&request, &how).unwrap();
        let json = |context: &_| serde_json::to_string::<contexture::memory::Context>(context).unwrap();
        prop_assert_eq!(json(&context), json(&again.context));

        // An update is what asking with the event gives.
        let recalled = mind.memory().recall(&request, &how).unwrap();
        let event = event("new", &query.join(" and "));
        let updated = mind.memory().update(&recalled, &event).unwrap();
        let with = Recall { event: Some(&event), ..how };
        let anew = mind.memory().recall(&request, &with).unwrap();
        prop_assert_eq!(json(&updated.context), json(&anew.context));
        prop_assert!(updated.context.token_count <= budget);
    }

    /// After any sequence of records, replacements and deletions, a memory that
    /// was queried all the time returns the same as one that is queried for the
    /// first time.
    #[test]
    fn results_do_not_depend_on_the_history_of_a_memory(
        steps in prop::collection::vec((0..12_usize, things()), 1..6),
        query in prop::collection::vec(0..WORDS.len(), 1..5),
    ) {
        let mind = TestMemory::new();
        let query: Vec<&str> = query.iter().map(|&word| WORDS[word]).collect();
        let request = query_for(&query.join(" "), 800);
        for (gone, things) in &steps {
            let lines: String = things.iter().enumerate().map(|(i, thing)| line(i, thing)).collect();
            mind.record(&lines);
            let _ = mind.memory().forget(&contexture::store::Forget::Id { kind: None, id: id(*gone) });
            let context = mind.ask(&request);
            let how = Recall { now: Some(now()), ..Recall::default() };
            let fresh = mind.fresh();
            let again = fresh.memory().unwrap().recall(&request, &how).unwrap();
            prop_assert_eq!(&context.content, &again.context.content);
            let scores = |context: &contexture::memory::Context| {
                let parts = context.components.iter();
                parts.map(|part| part.relevance_score.to_bits()).collect::<Vec<_>>()
            };
            prop_assert_eq!(scores(&context), scores(&again.context));
        }
    }
}
