//! Pins: texts that stay in every request of a session.

use crate::support::*;
use contexture::core::Role;
use contexture::{Assembled, CompactRequest, FitOptions, Format, PinRequest, Request};
use serde_json::{Value, json};

fn pin(lab: &Lab, label: &str, name: &str, text: &str) {
    let request = PinRequest {
        name: Some(name.to_owned()),
        text: Some(text.to_owned()),
        ..PinRequest::default()
    };
    lab.engine.pin(label, &request, Some(lab.tick())).unwrap();
}

fn text(assembled: &Assembled) -> String {
    unmarked(&assembled.render(Format::Text).unwrap())
}

const RULE: &str = "Never change the public API.\n  Not even <b>once</b>.";

#[test]
fn pins_survive_every_compaction_verbatim() {
    let lab = Lab::new("");
    lab.session("s");
    pin(&lab, "s", "api", RULE);
    pin(&lab, "s", "goal", "Ship version 2.");
    for (n, turn) in chat(60, 120).iter().enumerate() {
        lab.record("s", turn);
        let assembled = lab.assemble("s", 6_000);
        check(&assembled).unwrap();
        let sent = text(&assembled);
        let pinned = format!(
            "<context path=\"pin:api\">\n{RULE}\n</context>\n\n<context path=\"pin:goal\">"
        );
        assert_eq!(sent.matches(&pinned).count(), 1, "turn {n}: {sent}");
        // They are items of a source of their own.
        let rows = assembled.report.included.iter();
        let rows: Vec<_> = rows.filter(|row| &*row.layer == "pins").collect();
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.code.as_str() == "pinned"));
    }
    let turns = lab.engine.history("s", usize::MAX).unwrap();
    let summaries = turns.iter().filter(|turn| turn.compaction.is_some());
    assert!(summaries.count() >= 2);
    let compact = CompactRequest {
        max_tokens: Some(3_000),
        ..CompactRequest::default()
    };
    lab.engine.recover_overflow("s", &compact).unwrap();
    assert!(text(&lab.assemble("s", 6_000)).contains(RULE));
}

#[test]
fn a_request_begins_as_before_while_pins_stay() {
    let lab = Lab::new("");
    lab.session("s");
    pin(&lab, "s", "api", RULE);
    let mut previous: Option<Assembled> = None;
    let mut moved = 0;
    for turn in &chat(50, 80) {
        lab.record("s", turn);
        let now = lab.assemble("s", 5_000);
        if let Some(previous) = &previous {
            let blocks = |assembled: &Assembled| -> Vec<String> {
                let blocks = assembled.layout.history.iter();
                blocks.map(|block| block.text().to_owned()).collect()
            };
            moved += usize::from(!blocks(&now).starts_with(&blocks(previous)));
        }
        previous = Some(now);
    }
    assert!((1..12).contains(&moved), "{moved} moves");
}

#[test]
fn a_pin_is_replaced_under_its_name_and_removed() {
    let lab = Lab::new("");
    lab.talk("s", &[exchange("Which port?", "Port 8080 it is.")]);
    pin(&lab, "s", "port", "Use port 80.");
    pin(&lab, "s", "port", "Use port 8080.");
    let sent = text(&lab.assemble("s", 9_000));
    assert!(sent.contains("Use port 8080.") && !sent.contains("Use port 80."));
    let turn = lab.store.session("s").unwrap().head.unwrap();
    let request = PinRequest {
        turn: Some(turn.to_string()),
        ..PinRequest::default()
    };
    let of_turn = lab.engine.pin("s", &request, Some(lab.tick())).unwrap();
    assert_eq!(
        of_turn.text.as_deref(),
        Some("Which port?\n\nPort 8080 it is.")
    );
    assert_eq!(of_turn.origin, Some(format!("turn {}", turn.short())));
    lab.fork("s", "fork");
    assert_eq!(
        lab.engine.pins("fork").unwrap(),
        lab.engine.pins("s").unwrap()
    );
    lab.engine.unpin("s", "port", Some(lab.tick())).unwrap();
    assert!(!text(&lab.assemble("s", 9_000)).contains("Use port"));
    assert!(text(&lab.assemble("fork", 9_000)).contains("Use port 8080."));
    let revisions = lab.engine.pin_revisions("s", "port").unwrap();
    let texts: Vec<_> = revisions.iter().map(|pin| pin.text.as_deref()).collect();
    assert_eq!(texts, [Some("Use port 80."), Some("Use port 8080."), None]);
}

#[test]
fn pins_that_do_not_fit_are_an_error_that_says_so() {
    let lab = Lab::new("");
    lab.session("s");
    pin(&lab, "s", "small", "Be brief.");
    pin(&lab, "s", "large", &prose(1, 3_000));
    let request = request("s", 2_000);
    let error = lab.engine.assemble(&lab.root, &request).unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("the pins of session `s` need 3"),
        "{message}"
    );
    assert!(
        message.ends_with("but 2000 are available (largest: `pin:large`)"),
        "{message}"
    );
}

#[test]
fn bad_pins_are_refused() {
    let lab = Lab::new("[limits]\nmax_message_bytes = 2000");
    lab.talk("s", &[turn([calls(["c1"]), result("c1", "ok")])]);
    let turn = lab.store.session("s").unwrap().head.unwrap().to_string();
    let refused = |request: PinRequest| {
        let error = lab.engine.pin("s", &request, None).unwrap_err();
        error.to_string()
    };
    let some = |text: &str| Some(text.to_owned());
    let base = PinRequest::default;
    for (request, expected) in [
        (base(), "either `text` or `turn`"),
        (
            PinRequest {
                text: some("a"),
                turn: some("b"),
                ..base()
            },
            "either `text` or `turn`",
        ),
        (
            PinRequest {
                text: some("  "),
                ..base()
            },
            "text",
        ),
        (
            PinRequest {
                text: Some("x".repeat(2_001)),
                ..base()
            },
            "the limit is 2000",
        ),
        (
            PinRequest {
                text: some("a"),
                name: some("a\nb"),
                ..base()
            },
            "name",
        ),
        (
            PinRequest {
                turn: Some(turn),
                ..base()
            },
            "has no text to pin",
        ),
        (
            PinRequest {
                turn: some("ffff"),
                ..base()
            },
            "no turn `ffff`",
        ),
    ] {
        let message = refused(request);
        assert!(message.contains(expected), "{message}");
    }
    assert!(lab.engine.unpin("s", "nothing", None).is_err());
}

#[test]
fn a_recipe_without_a_layer_for_pins_is_warned_about() {
    let lab = Lab::new("");
    lab.talk("s", &[exchange("a", "b")]);
    let recipe = json!({"recipe": "own", "layers": [
        {"layer": "session", "source": "history", "fit": "window", "place": "history"},
        {"layer": "event", "source": "event", "place": "current"}]});
    let assemble = || {
        let mut body = json!(request("s", 9_000));
        body["recipe"] = recipe.clone();
        let request: Request = serde_json::from_value(body).unwrap();
        let assembled = lab.engine.assemble(&lab.root, &request).unwrap();
        let warnings = assembled.report.warnings.iter();
        let warnings: Vec<String> = warnings.map(|warning| warning.code.to_string()).collect();
        warnings.contains(&"pins_not_sent".to_owned())
    };
    assert!(!assemble());
    pin(&lab, "s", "api", RULE);
    assert!(assemble());
}

#[test]
fn a_fitted_request_has_the_pins_of_its_session() {
    let lab = Lab::new("");
    let body = |n: usize| {
        let mut messages = Vec::new();
        for i in 0..=n {
            messages.push(json!({"role": "user", "content": format!("Question {i}?")}));
            if i < n {
                messages.push(json!({"role": "assistant", "content": format!("Answer {i}.")}));
            }
        }
        json!({"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": messages}).to_string()
    };
    let options = FitOptions {
        session: Some("s".to_owned()),
        now: Some(lab.tick()),
        ..FitOptions::default()
    };
    let fit = |n| {
        lab.engine
            .fit(&lab.root, body(n).as_bytes(), &options)
            .unwrap()
    };
    assert!(!fit(0).is_changed);
    pin(&lab, "s", "api", RULE);
    let fitted = fit(1);
    assert!(fitted.is_changed);
    let sent: Value = serde_json::from_str(&fitted.body).unwrap();
    let first = sent["messages"][0].to_string();
    assert!(
        first.contains("pin:api") && first.contains("Question 0?"),
        "{first}"
    );
    let mut blocks = fitted.assembled.layout.history.iter();
    assert!(blocks.any(|block| block.role == Role::Context));
}
