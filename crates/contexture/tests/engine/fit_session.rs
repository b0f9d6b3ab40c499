//! The turn of a request that is made to fit is stored together with the request.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::support::*;
use contexture::config::Config;
use contexture::store::{Ledger as _, RecordKind, Snapshots as _};
use contexture::{Ask, Cause, Engine, Error, FitOptions, Offer, Root, Source};
use contexture_sqlite::SqliteStore;
use serde_json::{Value, json};

/// A conversation with `answers` of the model, which ends with the user.
fn body(answers: usize) -> String {
    let mut messages = vec![json!({"role": "user", "content": prose(0, 40)})];
    for i in 0..answers {
        messages.push(json!({"role": "assistant", "content": prose(2 * i + 1, 40)}));
        messages.push(json!({"role": "user", "content": prose(2 * i + 2, 40)}));
    }
    json!({"model": "gpt-4o", "messages": messages}).to_string()
}

fn options(lab: &Lab) -> FitOptions {
    FitOptions {
        session: Some("s".to_owned()),
        max_tokens: Some(4_000),
        now: Some(lab.tick()),
        ..FitOptions::default()
    }
}

/// Returns the number of turns of the session, and of its requests.
fn stored(lab: &Lab) -> (u64, usize) {
    let turns = lab.store.session("s").unwrap().turns;
    (turns, lab.store.snapshots(Some("s"), 999).unwrap().len())
}

/// Also for an engine that does not wait for the disk otherwise.
#[test]
fn a_turn_and_its_request_are_stored_when_the_call_returns() {
    for in_background in [false, true] {
        let mut lab = Lab::new("");
        if in_background {
            lab.engine = Engine::builder()
                .config(Config::parse("").unwrap())
                .store(Arc::clone(&lab.store) as _)
                .background_snapshots()
                .build()
                .unwrap();
        }
        let path = lab.dir.path().join("lab.db");
        for answers in 0..40 {
            let body = body(answers);
            let fitted = lab.engine.fit(&lab.root, body.as_bytes(), &options(&lab));
            let fitted = fitted.unwrap();
            let reader = SqliteStore::open_read_only(&path).unwrap();
            let session = reader.session("s").unwrap();
            assert_eq!(session.turns, answers as u64 + 1);
            // The first turn and those before a summary are read from the store, and are
            // written before that.
            if in_background && !(1..10).contains(&answers) {
                continue;
            }
            let latest = reader.latest_snapshot("s").unwrap().unwrap();
            let saved = fitted.assembled.snapshot.clone();
            assert_eq!(Some(latest.hash.to_string()), saved);
            assert_eq!(latest.parent_turn, session.head);
        }
        assert_eq!(stored(&lab), (40, 40));
        assert_eq!(lab.store.verify().unwrap().damaged, []);
    }
}

#[test]
fn the_messages_of_a_request_that_does_not_fit_are_recorded() {
    let lab = Lab::new("");
    let fit = |body: &str, max_tokens: u64| {
        let options = FitOptions {
            max_tokens: Some(max_tokens),
            ..options(&lab)
        };
        let fitted = lab.engine.fit(&lab.root, body.as_bytes(), &options);
        fitted.map(|fitted| fitted.body)
    };
    fit(&body(1), 4_000).unwrap();
    // The instructions alone are too long, so that nothing is assembled.
    let mut instructed: Value = serde_json::from_str(&body(2)).unwrap();
    let system = json!({"role": "system", "content": prose(99, 400)});
    let messages = instructed["messages"].as_array_mut().unwrap();
    messages.insert(0, system);
    let refused = fit(&instructed.to_string(), 100).unwrap_err();
    assert_eq!(refused.cause(), Cause::OverBudget, "{refused}");
    assert_eq!(stored(&lab), (2, 1));
    // No message fits.
    let refused = fit(&body(3), 40).unwrap_err();
    assert_eq!(refused.cause(), Cause::OverBudget, "{refused}");
    assert_eq!(
        refused.to_string(),
        "no message of the session fits: 40 tokens are left"
    );
    assert_eq!(stored(&lab).0, 3);
    // A retry has nothing to record.
    fit(&body(3), 4_000).unwrap();
    assert_eq!(stored(&lab).0, 3);
}

/// Runs a function while the second request is assembled.
struct Interrupt<F>(AtomicUsize, F);

impl<F: Fn() + Send + Sync> Source for Interrupt<F> {
    fn name(&self) -> &str {
        "system"
    }

    fn gather(&self, _ask: &Ask<'_>) -> Result<Offer, Error> {
        if self.0.fetch_add(1, Ordering::SeqCst) == 1 {
            // Another caller has no part in this call.
            std::thread::scope(|threads| threads.spawn(&self.1).join().unwrap());
        }
        Ok(Offer::default())
    }
}

/// Returns an engine on the lab's store that has made a request of the session and runs
/// `meanwhile` during the next one.
fn interrupted(
    lab: &Lab,
    options: &FitOptions,
    meanwhile: impl Fn() + Send + Sync + 'static,
) -> Engine {
    let engine = Engine::builder()
        .config(Config::parse("").unwrap())
        .store(Arc::clone(&lab.store) as _)
        .source(Interrupt(AtomicUsize::new(0), meanwhile))
        .build()
        .unwrap();
    engine.fit(&lab.root, body(1).as_bytes(), options).unwrap();
    engine
}

/// Another process may record the same messages, for example for a retry.
#[test]
fn messages_that_another_caller_records_meanwhile_are_recorded_once() {
    let lab = Lab::new("");
    let options = options(&lab);
    let other = OnceLock::new();
    let (root, store) = (Root::open(lab.dir.path()).unwrap(), Arc::clone(&lab.store));
    let their_options = options.clone();
    let engine = interrupted(&lab, &options, move || {
        let other = other.get_or_init(|| engine("", &root, &store));
        let fitted = other.fit(&root, body(2).as_bytes(), &their_options);
        assert_eq!(fitted.unwrap().body, body(2));
    });
    let fitted = engine.fit(&lab.root, body(2).as_bytes(), &options).unwrap();
    assert_eq!(fitted.body, body(2));
    let warnings = &fitted.assembled.report.warnings;
    assert!(
        warnings.iter().all(|warning| warning.code != "not_kept"),
        "{warnings:?}"
    );
    assert_eq!(stored(&lab).0, 2);
    let next = engine.fit(&lab.root, body(3).as_bytes(), &options).unwrap();
    assert_eq!(next.body, body(3));
    assert_eq!(stored(&lab).0, 3);
    assert_eq!(lab.store.verify().unwrap().damaged, []);
}

/// Returns a function that records a turn which no request has.
fn something_else(lab: &Lab) -> impl Fn() + Send + Sync + 'static {
    let (store, now) = (Arc::clone(&lab.store), lab.tick());
    move || {
        let turn = turn([says("Something else.")]);
        store.record("s", &turn, None, None, now).unwrap();
    }
}

/// A turn of another caller that the request does not have is a conflict, as it would
/// have been before the request.
#[test]
fn another_turn_meanwhile_is_a_conflict() {
    let lab = Lab::new("");
    let options = options(&lab);
    let engine = interrupted(&lab, &options, something_else(&lab));
    let refused = engine.fit(&lab.root, body(2).as_bytes(), &options);
    let refused = refused.map(|fitted| fitted.body).unwrap_err();
    assert_eq!(refused.cause(), Cause::Conflict, "{refused}");
    assert!(refused.to_string().contains("do not continue session"));
    assert_eq!(stored(&lab), (2, 1));
}

/// A call that must begin again summarises nothing of the other caller, and logs nothing.
#[test]
fn a_call_stops_when_its_turn_cannot_be_written() {
    let lab = Lab::new("");
    let options = options(&lab);
    let engine = interrupted(&lab, &options, something_else(&lab));
    let moves = |lab: &Lab| {
        let moves = lab.store.head_moves("s", 99).unwrap();
        moves.into_iter().map(|it| it.reason).collect::<Vec<_>>()
    };
    let log = || {
        let log = lab.dir.path().join(".contexture/sessions/s/events.jsonl");
        let log = std::fs::read_to_string(log).unwrap();
        log.lines().filter(|it| it.contains("assembled")).count()
    };
    assert_eq!(log(), 1);
    // The conversation needs a summary.
    let little = FitOptions {
        max_tokens: Some(400),
        ..options
    };
    let refused = engine.fit(&lab.root, body(6).as_bytes(), &little);
    let refused = refused.map(|fitted| fitted.body).unwrap_err();
    assert_eq!(refused.cause(), Cause::Conflict, "{refused}");
    assert_eq!(moves(&lab), ["recorded", "recorded", "created"]);
    assert_eq!(log(), 1);
    assert_eq!(lab.store.verify().unwrap().damaged, []);
}

#[test]
fn a_session_that_is_deleted_meanwhile_is_begun_again() {
    let lab = Lab::new("");
    let options = options(&lab);
    let store = Arc::clone(&lab.store);
    let engine = interrupted(&lab, &options, move || {
        drop(store.delete_session("s").unwrap())
    });
    let fitted = engine.fit(&lab.root, body(2).as_bytes(), &options).unwrap();
    assert_eq!(fitted.body, body(2));
    assert_eq!(stored(&lab), (1, 1));
    assert_eq!(lab.store.verify().unwrap().damaged, []);
}

/// Turns become memory events in the same call.
#[test]
fn a_remembered_turn_is_recorded_once() {
    let lab = Lab::new("[memory]\nfrom_sessions = true");
    for answers in 0..4 {
        let body = body(answers);
        lab.engine
            .fit(&lab.root, body.as_bytes(), &options(&lab))
            .unwrap();
    }
    assert_eq!(stored(&lab), (4, 4));
    let stats = lab.engine.memory().unwrap().stats().unwrap();
    assert_eq!(stats.kinds[&RecordKind::Event].live, 7);
}
