//! The channels of a recall: recent events, matches, entities, relations and
//! patterns.

use contexture::memory::{Channel, ContextRequest};

use crate::fixture::{TestMemory, ids, query_for, said, talk};

fn people() -> String {
    r#"{"kind":"entity","id":"ana","type":"person","name":"Ana Silva","aliases":["Annie"],"properties":{"role":"captain"}}
{"kind":"entity","id":"globex","type":"company","name":"Globex","properties":{"city":"Lisbon"}}
{"kind":"entity","id":"boat","type":"boat","name":"Marigold","properties":{"length":"9 m"}}
{"kind":"relation","type":"works_at","source_id":"ana","target_id":"globex","weight":0.9}
{"kind":"relation","type":"owns","source_id":"globex","target_id":"boat","weight":0.8}
{"kind":"relation","type":"named_after","source_id":"boat","target_id":"ana","weight":0.5}
{"kind":"relation","type":"knows","source_id":"ana","target_id":"ana"}
"#
    .to_owned()
}

fn with_depth(depth: u32) -> ContextRequest {
    let patch = format!(r#"{{"depth_limit":{depth}}}"#);
    ContextRequest {
        strategy: Some(serde_json::from_str(&patch).unwrap()),
        ..query_for("Where does Annie work?", 1_000)
    }
}

#[test]
fn an_entity_is_found_by_an_alias_and_shown_with_what_is_known() {
    let mind = TestMemory::of(&people());
    let context = mind.recall("What does Annie do?");
    let line = "**person**: Ana Silva (also Annie, role: captain)";
    assert!(context.content.contains(line), "{}", context.content);
    assert_eq!(context.metadata.signals.mentioned_entities, ["ana"]);
}

#[test]
fn relations_are_followed_as_far_as_the_strategy_says_each_once() {
    let mind = TestMemory::of(&people());
    let relations = |depth| {
        let context = mind.ask(&with_depth(depth));
        let lines = context.content.lines().filter(|line| line.contains("-->"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        relations(1),
        [
            "Ana Silva --[knows]--> Ana Silva",
            "Ana Silva --[works_at]--> Globex",
            "Marigold --[named_after]--> Ana Silva",
        ]
    );
    assert_eq!(relations(2).len(), 4);
    assert_eq!(relations(16).len(), 4);
    assert!(relations(2).contains(&"Globex --[owns]--> Marigold".to_owned()));
}

#[test]
fn a_relation_may_come_before_its_entities_and_name_them() {
    let mind = TestMemory::of(
        "{\"kind\":\"relation\",\"type\":\"sails\",\"source_id\":\"Ana Silva\",\"target_id\":\"the Marigold\"}\n",
    );
    mind.record(&people());
    let context = mind.recall("What does Ana Silva sail?");
    assert!(
        context
            .content
            .contains("Ana Silva --[sails]--> the Marigold"),
        "{}",
        context.content
    );
}

#[test]
fn entity_types_filter_entities_and_their_relations() {
    let mind = TestMemory::of(&people());
    let request = ContextRequest {
        filters: serde_json::from_str(r#"{"entity_types":["person"]}"#).unwrap(),
        ..query_for("Annie at Globex with Marigold", 1_000)
    };
    let context = mind.ask(&request);
    assert!(!context.content.contains("Globex"), "{}", context.content);
    assert!(context.content.contains("Ana Silva --[knows]--> Ana Silva"));
}

#[test]
fn patterns_are_thought_of_by_their_signs_and_success() {
    let mind = TestMemory::of(
        r#"{"kind":"pattern","name":"Clear the cache","conditions":[{"type":"keyword","value":"build"},{"type":"error_type","value":"E0463"}],"procedure":"Run make clean, then build again.","applications":10,"successes":9,"failures":1}
{"kind":"pattern","name":"Ask a colleague","conditions":[{"type":"keyword","value":"builds"}],"procedure":"Ask in the channel."}
{"kind":"pattern","name":"Never","conditions":[],"procedure":"Nothing leads here."}
{"kind":"pattern","name":"Elsewhere","conditions":[{"type":"keyword","value":"build"}],"procedure":"Only there.","scope":"other"}
"#,
    );
    let context = mind.recall("The build fails with error[E0463]");
    let of_patterns = context
        .components
        .iter()
        .filter(|part| part.channel == Channel::Pattern);
    let found: Vec<&str> = of_patterns.map(|part| part.source.as_str()).collect();
    assert_eq!(found, ["Clear the cache", "Ask a colleague"]);
    assert!(
        context
            .content
            .contains("**Clear the cache** (worked 9 of 10 times): Run make clean")
    );
    assert!(
        context
            .content
            .contains("**Ask a colleague** (not tried yet)")
    );
    let untried = &context.components[1].scores;
    assert!((untried["success"] - 0.5).abs() < 1e-9, "{untried:?}");
}

#[test]
fn without_a_query_recent_events_are_returned() {
    let mind = TestMemory::of(&talk());
    let request = ContextRequest {
        session_id: Some("mon".to_owned()),
        ..query_for("", 500)
    };
    let context = mind.ask(&request);
    assert!(
        context
            .content
            .starts_with("## Recent Activity\n\n[2026-02-02T10:00:00Z] Ana: Where")
    );
    assert!(ids(&context).contains(&"b1".to_owned()), "{context:?}");
}

#[test]
fn recency_counts_when_the_query_asks_for_it() {
    let mind = TestMemory::of(
        &[
            said(
                "old",
                "s",
                "2026-01-01T10:00:00Z",
                "Ana",
                "The plan for the boat is blue sails.",
            ),
            said(
                "new",
                "t",
                "2026-03-01T11:00:00Z",
                "Ana",
                "The plan for the boat is red sails now.",
            ),
        ]
        .concat(),
    );
    let context = mind.recall("What is the latest plan for the boat?");
    let best = |context: &contexture::memory::Context| {
        let best = context
            .components
            .iter()
            .max_by(|a, b| a.relevance_score.total_cmp(&b.relevance_score));
        best.unwrap().source.clone()
    };
    assert!(context.metadata.signals.recent);
    assert_eq!(best(&context), "new");
    assert!(context.components[0].scores.contains_key("recency"));
}
