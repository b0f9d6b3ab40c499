//! Errors that the database raises while a turn is recorded: a full disk, and
//! transactions that must be repeated.
#![allow(clippy::unwrap_used)]

mod support;

use std::thread;

use contexture_postgres::PostgresStore;
use contexture_store::{
    Events as _, Ledger, NewSession, NewTurn, Recorded, StoreError, Upkeep as _,
};
use jiff::Timestamp;
use serde_json::json;

use crate::support::{Schema, run};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// The session whose events cannot be stored.
const UNLUCKY: &str = "unlucky";

/// When the database reports the error.
#[derive(Clone, Copy)]
enum Moment {
    /// With the last statement that records a turn.
    Statement,
    /// With the commit.
    Commit,
}

/// Makes the database raise an error when an event of the unlucky session is
/// stored, which is the last part of a turn.
fn raise(schema: &Schema, code: &str, moment: Moment) {
    let name = schema.name();
    let trigger = match moment {
        Moment::Statement => "CREATE TRIGGER fail BEFORE INSERT",
        Moment::Commit => "CREATE CONSTRAINT TRIGGER fail AFTER INSERT",
    };
    let deferred = match moment {
        Moment::Statement => "",
        Moment::Commit => "DEFERRABLE INITIALLY DEFERRED",
    };
    run(&format!(
        "SET search_path = \"{name}\";
         CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '{code}'; END $$;
         {trigger} ON events {deferred} FOR EACH ROW WHEN (NEW.session = '{UNLUCKY}')
         EXECUTE FUNCTION fail()"
    ));
}

fn raise_no_more(schema: &Schema) {
    run(&format!("DROP FUNCTION \"{}\".fail CASCADE", schema.name()));
}

fn create(store: &PostgresStore, label: &str) {
    let new = NewSession {
        label: label.to_owned(),
        ..NewSession::default()
    };
    store.create_session(&new, NOW).unwrap();
}

fn record(store: &PostgresStore, label: &str, text: &str) -> Result<Recorded, StoreError> {
    let turn: NewTurn = serde_json::from_value(json!({
        "messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "yes"}],
        "idempotency_key": format!("{label} {text}"),
    }))
    .unwrap();
    store.record(label, &turn, None, None, NOW)
}

/// A full disk, a transaction that cannot be serialised, and a deadlock, while a
/// turn is recorded and when it is committed.
#[test]
fn a_turn_that_fails_leaves_nothing() {
    for (code, is_full) in [("53100", true), ("40001", false), ("40P01", false)] {
        for moment in [Moment::Statement, Moment::Commit] {
            let schema = Schema::new();
            let store = schema.open();
            create(&store, UNLUCKY);
            raise(&schema, code, moment);
            let error = record(&store, UNLUCKY, "One.").unwrap_err();
            match is_full {
                true => assert!(matches!(error, StoreError::Full { .. }), "{error}"),
                false => assert!(matches!(error, StoreError::Busy { .. }), "{error}"),
            }
            assert_eq!(store.session(UNLUCKY).unwrap().turns, 0);
            assert_eq!(store.events(0, 10).unwrap().latest, 0);
            let verified = store.verify().unwrap();
            assert_eq!(verified.damaged, []);
            // The same turn, with the same key, is recorded when the disk has
            // space.
            raise_no_more(&schema);
            let first = record(&store, UNLUCKY, "One.").unwrap();
            let again = record(&store, UNLUCKY, "One.").unwrap();
            assert_eq!(first.id, again.id);
            assert_eq!(store.session(UNLUCKY).unwrap().turns, 1);
        }
    }
}

/// Turns that are written in one transaction with one that fails are recorded.
#[test]
fn the_turns_of_others_are_recorded() {
    const OTHERS: usize = 8;
    let schema = Schema::new();
    let store = schema.open();
    create(&store, UNLUCKY);
    for i in 0..OTHERS {
        create(&store, &format!("s{i}"));
    }
    raise(&schema, "53100", Moment::Statement);
    thread::scope(|scope| {
        for i in 0..OTHERS {
            let store = &store;
            scope.spawn(move || {
                for n in 0..10 {
                    record(store, &format!("s{i}"), &format!("{n}")).unwrap();
                }
            });
        }
        scope.spawn(|| {
            for n in 0..10 {
                let error = record(&store, UNLUCKY, &format!("{n}")).unwrap_err();
                assert!(matches!(error, StoreError::Full { .. }), "{error}");
            }
        });
    });
    assert_eq!(store.session(UNLUCKY).unwrap().turns, 0);
    for i in 0..OTHERS {
        assert_eq!(store.session(&format!("s{i}")).unwrap().turns, 10);
    }
    assert_eq!(store.events(0, 1).unwrap().latest, 10 * OTHERS as u64);
    assert_eq!(store.verify().unwrap().damaged, []);
}

/// Turns of several tenants share a transaction. The others are recorded if one
/// turn fails, one is rejected and the tenant of one is locked by another
/// program.
#[test]
fn the_turns_of_other_tenants_are_recorded() {
    const OTHERS: usize = 8;
    const TURNS: usize = 10;
    let schema = Schema::new();
    let store = schema.open();
    let unlucky = store.for_tenant("unlucky");
    create(&unlucky, UNLUCKY);
    let tenants: Vec<PostgresStore> = (0..OTHERS)
        .map(|i| store.for_tenant(&format!("t{i}")))
        .collect();
    for tenant in &tenants {
        create(tenant, "s");
    }
    let locked = store.for_tenant("locked");
    create(&locked, "s");
    raise(&schema, "53100", Moment::Statement);
    thread::scope(|scope| {
        let name = schema.name();
        scope.spawn(move || {
            run(&format!(
                "SET search_path = \"{name}\"; BEGIN;
                 SELECT 1 FROM tenants WHERE name = 'locked' FOR UPDATE; SELECT pg_sleep(0.3);
                 COMMIT"
            ));
        });
        for tenant in tenants.iter().chain([&locked]) {
            scope.spawn(move || {
                for n in 0..TURNS {
                    record(tenant, "s", &format!("{n}")).unwrap();
                    let missing = record(tenant, "missing", &format!("{n}")).unwrap_err();
                    assert!(matches!(missing, StoreError::NotFound { .. }), "{missing}");
                }
            });
        }
        scope.spawn(|| {
            for n in 0..TURNS {
                let error = record(&unlucky, UNLUCKY, &format!("{n}")).unwrap_err();
                assert!(matches!(error, StoreError::Full { .. }), "{error}");
            }
        });
    });
    assert_eq!(unlucky.session(UNLUCKY).unwrap().turns, 0);
    assert_eq!(unlucky.events(0, 1).unwrap().latest, 0);
    for tenant in tenants.iter().chain([&locked]) {
        assert_eq!(tenant.session("s").unwrap().turns, TURNS as u64);
        assert_eq!(tenant.events(0, 1).unwrap().latest, TURNS as u64);
        assert_eq!(tenant.verify().unwrap().damaged, []);
    }
}

/// Many turns of one session, some with the same idempotency key: each is
/// recorded once, one after the other.
#[test]
fn turns_of_one_session_follow_each_other() {
    const WRITERS: usize = 8;
    const TURNS: usize = 10;
    let schema = Schema::new();
    let store = schema.open();
    create(&store, "s");
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &store;
            scope.spawn(move || {
                for n in 0..TURNS {
                    // Two writers each record the same turns.
                    record(store, "s", &format!("{} {n}", writer / 2)).unwrap();
                }
            });
        }
    });
    let turns = (WRITERS / 2 * TURNS) as u64;
    assert_eq!(store.session("s").unwrap().turns, turns);
    assert_eq!(store.events(0, 1).unwrap().latest, turns);
    assert_eq!(store.verify().unwrap().damaged, []);
}
