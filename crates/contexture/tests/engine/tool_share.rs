//! Definitions of tools have a share of the budget: used tools remain, the
//! others are ranked by the event, and the choice changes in large steps.

use crate::support::*;
use contexture::{Assembled, Event, Format, Request};
use serde_json::{Value, json};

/// The topics of tools.
const TOPICS: [&str; 10] = [
    "calendar", "invoice", "weather", "ticket", "mail", "ledger", "image", "route", "stock", "note",
];

/// Five hundred tools of some sixty tokens.
fn tools() -> Vec<Value> {
    let tool = |number: usize| {
        let topic = TOPICS[number % TOPICS.len()];
        json!({
            "name": format!("{topic}_action{number}"),
            "description": format!("Does action number {number} with the {topic} of the customer."),
            "parameters": {"type": "object", "properties": {
                "id": {"type": "string", "description": "The id of what is changed"},
                "force": {"type": "boolean", "description": "Whether to go on after a warning"},
            }},
        })
    };
    (0..500).map(tool).collect()
}

fn lab() -> Lab {
    let lab = Lab::new("[compaction]\nenabled = false");
    lab.write("tools.json", &json!(tools()).to_string());
    lab.session("s");
    lab
}

fn ask(event: &str) -> Request {
    Request {
        event: Some(Event::from(event)),
        ..request("s", 20_000)
    }
}

/// Returns the names of the tools that are sent, in order.
fn sent(assembled: &Assembled) -> Vec<String> {
    let body = assembled.render(Format::Anthropic).unwrap();
    let body: Value = serde_json::from_str(&body).unwrap();
    let tools = body["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn five_hundred_tools_fit_their_share() {
    let lab = lab();
    let made = lab
        .engine
        .assemble(&lab.root, &ask("What will the weather be?"))
        .unwrap();
    let names = sent(&made);
    assert!(names.is_sorted() && names.len() > 50, "{}", names.len());
    let available = made.budget.available();
    let used: u64 = (made.report.budget.layers.iter())
        .find(|layer| &*layer.name == "tools")
        .unwrap()
        .used;
    assert!(
        used <= available / 2 + available / 20,
        "{used} of {available}"
    );
    // Tools for the topic of the event come first.
    for number in (2..500).step_by(10) {
        assert!(
            names.contains(&format!("weather_action{number}")),
            "{names:?}"
        );
    }
    // Every tool has one row, with its size and its use.
    let rows = made.report.excluded.iter();
    let rows: Vec<_> = rows
        .filter(|row| row.code.as_str() == "tool_share")
        .collect();
    assert_eq!(rows.len() + names.len(), 500);
    assert!(
        rows.iter()
            .all(|row| row.tokens > 20 && &*row.layer == "tools")
    );
    assert_eq!(rows[0].scores["calls"], 0.0);
    assert!(rows[0].scores["dollars"] > 0.0);

    let all = Lab::new("[tools]\nshare = 100");
    all.write("tools.json", &json!(&tools()[..3]).to_string());
    all.session("s");
    let made = all.engine.assemble(&all.root, &ask("Hi")).unwrap();
    assert_eq!(sent(&made).len(), 3);
}

#[test]
fn the_choice_stays_until_a_tool_is_needed() {
    let lab = lab();
    let assemble = |event: &str| lab.engine.assemble(&lab.root, &ask(event)).unwrap();
    let first = assemble("What will the weather be?");
    let names = sent(&first);
    lab.record("s", &exchange("What will the weather be?", "Fine."));
    // Another topic must not break the cache.
    let second = assemble("And how is the stock of apples?");
    assert_eq!(sent(&second), names);
    assert!(!second.report.cache.as_ref().unwrap().broken);

    let missing = (0..500)
        .map(|number| format!("{}_action{number}", TOPICS[number % TOPICS.len()]))
        .find(|name| !names.contains(name))
        .unwrap();
    let named = assemble(&format!("Please run {missing} now."));
    assert!(sent(&named).contains(&missing), "{missing}");
    let cache = named.report.cache.clone().unwrap();
    assert_eq!(cache.cause.map(|cause| cause.name()), Some("tools"));

    // Called tools remain, whatever comes next.
    let called = turn([
        user("Please run it."),
        blocks(
            contexture::store::MessageRole::Assistant,
            [call("c1", &missing, "x")],
        ),
        result("c1", "done"),
        says("It is done."),
    ]);
    lab.record("s", &called);
    for event in ["Thank you.", "What about the route?", "And the invoice?"] {
        let made = assemble(event);
        assert!(sent(&made).contains(&missing), "{event}");
        let row = made.report.included.iter();
        let row = row
            .clone()
            .find(|row| *row.id == *format!("tool:{missing}"))
            .unwrap();
        assert_eq!(row.scores["calls"], 1.0);
        assert_eq!(row.scores["last_use_turns_ago"], 0.0);
    }
    lab.record("s", &exchange("Go on.", "I do."));
    let made = assemble("And now?");
    let row = made.report.included.iter();
    let row = row
        .clone()
        .find(|row| *row.id == *format!("tool:{missing}"))
        .unwrap();
    assert_eq!(row.scores["last_use_turns_ago"], 1.0);
}

#[test]
fn the_model_can_search_for_the_rest_where_its_provider_has_a_search() {
    let lab = lab();
    for (format, model, search) in [
        (
            Format::Anthropic,
            "claude-sonnet-5-5",
            "tool_search_tool_bm25_20251119",
        ),
        (Format::OpenAiResponses, "gpt-5.6", "tool_search"),
    ] {
        let asked = Request {
            model: Some(model.to_owned()),
            format: Some(format),
            ..ask("What will the weather be?")
        };
        let made = lab.engine.assemble(&lab.root, &asked).unwrap();
        let rendered = made.render(format).unwrap();
        let body: Value = serde_json::from_str(&rendered).unwrap();
        let tools = body["tools"].as_array().unwrap();
        assert_eq!(tools.len(), 501);
        let is_deferred = |tool: &&Value| tool["defer_loading"] == true;
        let deferred = tools.iter().filter(is_deferred).count();
        assert!(deferred > 100 && deferred < 450, "{deferred}");
        assert_eq!(tools[500 - deferred]["type"], search);
        let rows = made.report.excluded.iter();
        let rows = rows.filter(|row| row.code.as_str() == "deferred").count();
        assert_eq!(rows, deferred);
        // The saved request has them, too.
        let store = lab.engine.store().unwrap();
        let hash = made.snapshot.as_deref().unwrap();
        let saved = contexture::snapshot::find(store, hash).unwrap();
        let saved = contexture::snapshot::Saved::load(store, &saved).unwrap();
        assert_eq!(saved.render(store, format).unwrap(), rendered);
        saved.check(store).unwrap();
    }
}

#[test]
fn a_share_out_of_range_is_refused() {
    let error = contexture::config::Config::parse("[tools]\nshare = 0").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("tools.share: must be from 1 to 100"),
        "{error}"
    );
}
