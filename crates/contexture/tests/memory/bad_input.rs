//! Invalid records, requests and files.

use contexture::memory::{ContextFilters, ContextRequest, Recall};
use contexture::store::Record;
use serde_json::json;

use crate::fixture::{TestMemory, ids, now, query_for, said, talk};

#[test]
fn any_query_is_accepted() {
    let mind = TestMemory::of(&talk());
    let long = "Lisbon train ".repeat(80_000);
    for query in [
        "",
        " ",
        "\n",
        "的",
        "我们去年夏天去了哪里？",
        "\" OR NEAR( *",
        "AND NOT (",
        "\u{0}\u{7}\u{1b}[31m",
        "\u{202e}\u{feff}",
        "?",
        "the of and",
        "'; DROP TABLE memories; --",
        &long,
        "🚂",
    ] {
        let context = mind.ask(&query_for(query, 300));
        assert!(context.token_count <= 300, "{query:.20}");
    }
    let context = mind.ask(&query_for(&long, 300));
    assert!(ids(&context).contains(&"a2".to_owned()));
    assert!(
        context.metadata.warnings[0]
            .message
            .contains("only the first 8192 are used")
    );
}

#[test]
fn chinese_is_found_by_chinese() {
    let mind = TestMemory::of(
        &[
            said(
                "zh",
                "s",
                "2026-02-02T10:00:00Z",
                "Li",
                "我们坐夜车去了里斯本。",
            ),
            said(
                "en",
                "s",
                "2026-02-02T10:01:00Z",
                "Ana",
                "The meeting is at noon.",
            ),
        ]
        .concat(),
    );
    assert_eq!(ids(&mind.ask(&query_for("去了里斯本吗", 40)))[0], "zh");
}

#[test]
fn unknown_filters_are_refused_by_name() {
    let error = ContextFilters::from_json(r#"{"sinse":0}"#).unwrap_err();
    assert!(error.to_string().contains("sinse"), "{error}");
    let error = ContextFilters::from_json(r#"{"since":"yesterday"}"#).unwrap_err();
    assert!(error.to_string().contains("since"), "{error}");
}

#[test]
fn no_budget_is_an_error() {
    let mind = TestMemory::of(&talk());
    let error = mind.try_ask(&query_for("boat", 0)).unwrap_err();
    assert!(
        error.is_input() && error.to_string().contains("0 tokens"),
        "{error}"
    );
    // A budget that nothing fits is not.
    let context = mind.ask(&query_for("boat", 3));
    assert!(context.components.is_empty() && !context.excluded.is_empty());
}

#[test]
fn a_hundred_thousand_events_that_say_the_same_are_one() {
    let mind = TestMemory::of(&talk());
    let many: String = (0..100_000)
        .map(|i| {
            said(
                &format!("n{i}"),
                "noise",
                "2026-02-20T10:00:00Z",
                "Bot",
                "The boat is still there.",
            )
        })
        .collect();
    mind.record(&many);
    let context = mind.recall("boat");
    let found = ids(&context);
    assert!(found.contains(&"b1".to_owned()), "{found:?}");
    assert_eq!(found.iter().filter(|id| id.starts_with('n')).count(), 1);
    let noted = "The boat is still there. (and 99,999 like it)";
    assert!(context.content.contains(noted), "{}", context.content);
}

#[test]
fn times_from_the_first_year_to_the_future_are_accepted() {
    let mind = TestMemory::of(
        &[
            said("first", "s", "0001-01-01T00:00:00Z", "Ana", "The oldest boat."),
            said("far", "s", "9999-01-01T00:00:00Z", "Ana", "The newest boat."),
            r#"{"kind":"event","id":"ms","timestamp":-62135596800000,"content":"A boat in milliseconds."}"#.to_owned() + "\n",
        ]
        .concat(),
    );
    assert_eq!(mind.found("latest boat today").len(), 3);
}

#[test]
fn a_line_that_is_wrong_is_named_and_what_came_before_stays() {
    let mind = TestMemory::new();
    let good: String = (0..1_500)
        .map(|i| {
            said(
                &format!("g{i}"),
                "s",
                "2026-02-20T10:00:00Z",
                "Ana",
                &format!("Fact number {i}."),
            )
        })
        .collect();
    for (bad, expected) in [
        ("not json", "records.jsonl:1501"),
        (r#"{"kind":"event","content":"x","colour":"red"}"#, "colour"),
        (r#"{"kind":"thing","content":"x"}"#, "thing"),
        (r#"{"kind":"event","content":null}"#, "content"),
        (
            r#"{"kind":"event","content":"x","supersedes":"nobody"}"#,
            "nobody",
        ),
        (r#"{"kind":"chunk","source":"s","text":"  "}"#, "text"),
        (r#"{"kind":"entity","type":"t","name":""}"#, "name"),
        (
            r#"{"kind":"relation","type":"t","source_id":"a","target_id":"b","weight":2}"#,
            "weight",
        ),
        (
            r#"{"kind":"pattern","name":"p","procedure":"x","applications":1,"successes":2}"#,
            "applications",
        ),
        (
            r#"{"kind":"chunk","source":"s","text":"x","embedding":[1,2]}"#,
            "embedding",
        ),
    ] {
        let error = mind.try_record(&format!("{good}{bad}\n")).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("records.jsonl:1501"), "{message}");
        assert!(message.contains(expected), "{message}");
        assert!(
            message.contains("lines 1 to 1000 were recorded;"),
            "{message}"
        );
        assert!(error.is_input());
    }
    assert_eq!(
        mind.memory()
            .stats()
            .unwrap()
            .kinds
            .values()
            .next()
            .unwrap()
            .live,
        1_000
    );
}

/// Returns events and chunks that are split, with more parts than lines are
/// recorded at a time.
fn many() -> Vec<Record> {
    let event = |i: usize| {
        let content = format!("Fact number {i}.");
        json!({"kind": "event", "id": format!("g{i}"), "content": content})
    };
    let chunk = |i: usize| {
        let text = format!("Chapter {i}. {}", "The boat is late. ".repeat(200));
        json!({"kind": "chunk", "id": format!("c{i}"), "source": "book", "text": text})
    };
    let records = (0..1_000).map(event).chain((0..50).map(chunk));
    records.map(read).collect()
}

fn read(record: serde_json::Value) -> Record {
    serde_json::from_value(record).unwrap()
}

#[test]
fn of_many_records_one_that_is_wrong_leaves_nothing() {
    let mind = TestMemory::new();
    for (bad, expected) in [
        (
            json!({"kind": "event", "id": "e", "content": "x", "supersedes": "nobody"}),
            "records[1050]: supersedes: there is no event `nobody`",
        ),
        (
            json!({"kind": "task", "id": "t", "goal": "x", "parent_id": "nobody"}),
            "records[1050]: parent_id: there is no task `nobody`",
        ),
    ] {
        let mut records = many();
        records.push(read(bad));
        let error = mind.memory().record(records, Some(now())).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
        assert!(error.is_input());
        assert!(mind.memory().is_empty().unwrap());
        assert_eq!(mind.found("fact number boat"), [] as [&str; 0]);
    }
    // The same without it are all recorded.
    let done = mind.memory().record(many(), Some(now())).unwrap();
    assert!(done.added > 1_050, "{done:?}");
}

#[test]
fn percentages_beyond_a_hundred_and_depths_without_end_are_refused() {
    let mind = TestMemory::of(&talk());
    for (patch, expected) in [
        (r#"{"budget":{"recent":50,"semantic":80}}"#, "130"),
        (r#"{"depth_limit":100}"#, "depth_limit"),
        (r#"{"recency_weight":-1}"#, "recency_weight"),
    ] {
        let request = ContextRequest {
            strategy: Some(serde_json::from_str(patch).unwrap()),
            ..query_for("boat", 500)
        };
        let error = mind.try_ask(&request).unwrap_err();
        assert!(
            error.is_input() && error.to_string().contains(expected),
            "{error}"
        );
    }
    let request = ContextRequest {
        archetype: Some("recal".to_owned()),
        ..query_for("boat", 500)
    };
    let error = mind.try_ask(&request).unwrap_err();
    assert!(
        error.to_string().contains("did you mean `recall`"),
        "{error}"
    );
}

#[test]
fn an_event_without_text_is_rejected_with_its_line() {
    let mind = TestMemory::of(&talk());
    for content in [
        r#""""#,
        r#"" ""#,
        "{}",
        "[]",
        r#"{"text":""}"#,
        r#"{"speaker":"Ana","text":" "}"#,
        r#"{"parts":[null,""]}"#,
    ] {
        let lines = format!(
            "{{\"kind\":\"event\",\"content\":\"A boat.\"}}\n{{\"kind\":\"event\",\"content\":{content}}}\n"
        );
        let error = mind.try_record(&lines).unwrap_err().to_string();
        let expected = "records.jsonl:2: content: is empty";
        assert!(error.contains(expected), "{content}: {error}");
    }
    for content in ["0", r#"{"name":"deploy"}"#, r#"{"ok":true}"#] {
        mind.record(&format!("{{\"kind\":\"event\",\"content\":{content}}}\n"));
    }
    mind.record("{\"kind\":\"event\",\"content\":{},\"summary\":\"A storm.\"}\n");
}

#[test]
fn an_unknown_model_is_a_warning_and_the_result_is_cached() {
    let mind = TestMemory::of(&talk());
    let ask = |model: &str| {
        let how = Recall {
            model: Some(model),
            now: Some(now()),
            ..Recall::default()
        };
        let request = query_for("boat", 300);
        mind.memory().recall(&request, &how).unwrap().context
    };
    let first = ask("foo-1");
    let warning = &first.metadata.warnings[0];
    assert_eq!(&*warning.code, "unknown_model");
    assert!(warning.message.contains("`foo-1`"), "{}", warning.message);
    assert!(std::sync::Arc::ptr_eq(&first, &ask("foo-1")));
    let other = ask("foo-2");
    assert!(other.metadata.warnings[0].message.contains("`foo-2`"));
    assert!(ask("gpt-5.6").metadata.warnings.is_empty());
}
