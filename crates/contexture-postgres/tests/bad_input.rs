//! Databases that cannot be used, and connections that are lost.
#![allow(clippy::unwrap_used)]

mod support;

use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use contexture_postgres::{Options, PostgresStore};
use contexture_store::{
    Events as _, Ledger, NewSession, NewSessionPin, NewTurn, StoreError, Tenants, Upkeep as _,
};
use jiff::Timestamp;

use crate::support::proxy::Proxy;
use crate::support::{Schema, run, server};

fn session(label: &str) -> NewSession {
    NewSession {
        label: label.to_owned(),
        ..NewSession::default()
    }
}

fn turn(text: &str) -> NewTurn {
    let turn = serde_json::json!({"messages": [{"role": "user", "content": text},
        {"role": "assistant", "content": "yes"}]});
    serde_json::from_value(turn).unwrap()
}

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

#[test]
fn a_database_that_is_down_is_unavailable() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let url = format!("postgres://ann:secret@127.0.0.1:{port}/app");
    let error = PostgresStore::open(&url).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("Connection refused"), "{message}");
    assert!(!message.contains("secret"), "{message}");
}

#[test]
fn a_wrong_password_or_database_is_unavailable() {
    let elsewhere = server().replace("/postgres", "/no_such_database");
    let error = PostgresStore::open(&elsewhere).unwrap_err().to_string();
    assert!(error.contains("no_such_database"), "{error}");
    let stranger = server().replace("postgres@", "no_such_user@");
    let error = PostgresStore::open(&stranger).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
}

#[test]
fn a_server_without_tls_is_refused_when_tls_is_wanted() {
    let schema = Schema::new();
    let error = PostgresStore::open(&format!("{}&sslmode=verify-full", schema.url)).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("TLS"), "{error}");
}

#[test]
fn a_schema_of_another_program_is_not_touched() {
    let schema = Schema::new();
    let name = schema.name();
    run(&format!(
        "CREATE SCHEMA {name}; CREATE TABLE {name}.orders (id INT)"
    ));
    let error = PostgresStore::open(&schema.url).unwrap_err();
    assert!(matches!(error, StoreError::NotAStore { .. }), "{error}");
    run(&format!("SELECT * FROM {name}.orders"));
}

#[test]
fn a_newer_schema_is_refused() {
    let schema = Schema::new();
    drop(schema.open());
    run(&format!(
        "UPDATE {}.contexture_meta SET version = 99",
        schema.name()
    ));
    match PostgresStore::open(&schema.url).unwrap_err() {
        StoreError::Newer { found, known, .. } => assert_eq!((found, known), (99, 9)),
        other => panic!("{other}"),
    }
}

#[test]
fn servers_that_start_together_create_the_schema_once() {
    let schema = Schema::new();
    thread::scope(|scope| {
        for i in 0..8 {
            let schema = &schema;
            scope.spawn(move || {
                let store = schema.open();
                store
                    .create_session(&session(&format!("s{i}")), NOW)
                    .unwrap();
            });
        }
    });
    assert_eq!(schema.open().sessions(None, 100).unwrap().len(), 8);
}

#[test]
fn a_name_that_is_a_keyword_is_a_name() {
    let schema = Schema::new();
    let url = format!("{}?schema=select%22from", server());
    run("DROP SCHEMA IF EXISTS \"select\"\"from\" CASCADE");
    let store = PostgresStore::open(&url).unwrap();
    for tenant in ["", "user", "order by \"name\" --"] {
        let store = store.for_tenant(tenant);
        store.create_session(&session("table'; DROP"), NOW).unwrap();
        let recorded = store.record("table'; DROP", &turn("NULL"), None, None, NOW);
        recorded.unwrap();
        assert_eq!(store.session("table'; DROP").unwrap().turns, 1);
    }
    drop(store);
    run("DROP SCHEMA \"select\"\"from\" CASCADE");
    drop(schema);
}

#[test]
fn a_database_that_only_reads_says_so() {
    let schema = Schema::new();
    let store = schema.open();
    store.create_session(&session("before"), NOW).unwrap();
    // As on a standby, all transactions are read-only, whatever they ask for.
    run("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN");
    run(&format!(
        "GRANT USAGE ON SCHEMA {0} TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA {0} TO reader",
        schema.name()
    ));
    let url = schema.url.replace("postgres@", "reader@");
    let reader = PostgresStore::open(&url).unwrap();
    assert_eq!(reader.session("before").unwrap().label, "before");
    let refused = reader.create_session(&session("more"), NOW).unwrap_err();
    assert!(!refused.is_input(), "{refused}");
    assert!(reader.ping().is_err());
    run(&format!(
        "REVOKE ALL ON ALL TABLES IN SCHEMA {0} FROM reader; REVOKE ALL ON SCHEMA {0} FROM reader;
         DROP ROLE reader",
        schema.name()
    ));
}

#[test]
fn a_pool_that_is_used_up_is_unavailable() {
    let schema = Schema::new();
    let store = schema.open_with(Options {
        pool_size: 2,
        pool_timeout: Duration::from_millis(50),
        ..Options::default()
    });
    store.create_session(&session("s"), NOW).unwrap();
    use contexture_sql::Backend as _;
    let refused = store.backend().read(|_, _| {
        let inner = store.backend().read(|_, _| {
            assert_eq!(store.backend().connections_in_use(), 2);
            Ok(store.session("s").unwrap_err())
        });
        Ok(inner.unwrap())
    });
    let refused = refused.unwrap().to_string();
    assert!(
        refused.contains("all 2 connections are in use"),
        "{refused}"
    );
    assert!(store.session("s").is_ok());
}

#[test]
fn a_write_waits_for_another_server_only_so_long() {
    let schema = Schema::new();
    let one = schema.open();
    one.create_session(&session("s"), NOW).unwrap();
    let other = schema.open_with(Options {
        lock_timeout: Duration::from_millis(50),
        ..Options::default()
    });
    use contexture_sql::Backend as _;
    let (held, hold) = std::sync::mpsc::channel::<()>();
    let (begun, begin) = std::sync::mpsc::channel::<()>();
    thread::scope(|scope| {
        let one = &one;
        scope.spawn(move || {
            one.backend().write(move |db, _| {
                // The lock is acquired with the first statement.
                db.query_row("SELECT 1", (), |_| Ok(()))?;
                begun.send(()).unwrap();
                hold.recv().unwrap();
                Ok(())
            })
        });
        begin.recv().unwrap();
        let busy = other.create_session(&session("t"), NOW).unwrap_err();
        assert!(matches!(busy, StoreError::Busy { .. }), "{busy}");
        // Neither another tenant nor a read waits.
        let tenant = other.for_tenant("acme");
        tenant.create_session(&session("t"), NOW).unwrap();
        assert!(other.session("s").is_ok());
        held.send(()).unwrap();
    });
    other.create_session(&session("t"), NOW).unwrap();
}

#[test]
fn text_with_zeros_is_stored() {
    let schema = Schema::new();
    let store = schema.open();
    store.create_session(&session("s"), NOW).unwrap();
    let pin = NewSessionPin {
        name: Some("p".to_owned()),
        text: "a\0b\u{1A}c\u{1A}0".to_owned(),
        origin: None,
    };
    store.pin("s", &pin, NOW).unwrap();
    let read = store.pins("s").unwrap();
    assert_eq!(read[0].text.as_deref(), Some("a\0b\u{1A}c\u{1A}0"));
    let said = turn("one\0two \u{1A}");
    let recorded = store.record("s", &said, None, None, NOW).unwrap();
    let read = store.turns(&[recorded.id], "none").unwrap();
    assert_eq!(read[0].turn.messages, said.messages);
    assert_eq!(store.verify().unwrap().damaged, []);
    // A URL cannot have them.
    for url in [
        "postgres://a%00b@127.0.0.1/d",
        "postgres://a:b%00c@127.0.0.1/d",
    ] {
        let error = PostgresStore::open(url).unwrap_err();
        assert!(!error.to_string().contains("b\0c"), "{error}");
    }
}

#[test]
fn a_connection_that_is_cut_during_a_commit_leaves_the_outcome_unknown() {
    let schema = Schema::new();
    let proxy = Proxy::start(server());
    let store = PostgresStore::open(&proxy.url(&schema.url)).unwrap();
    store.create_session(&session("before"), NOW).unwrap();
    proxy.cuts.commits.store(true, Ordering::Release);
    let unknown = store.create_session(&session("during"), NOW).unwrap_err();
    assert!(
        matches!(unknown, StoreError::UnknownOutcome { .. }),
        "{unknown}"
    );
    // The turn was committed, and the error did not claim the opposite.
    assert!(schema.open().session("during").is_ok());
    proxy.cuts.commits.store(false, Ordering::Release);
    store.create_session(&session("after"), NOW).unwrap();
}

/// The connection is lost during the commit: the store looks for the turn, and the
/// caller learns whether it was committed.
#[test]
fn a_turn_whose_connection_is_cut_is_recorded_once() {
    for is_committed in [false, true] {
        let schema = Schema::new();
        let proxy = Proxy::start(server());
        let store = PostgresStore::open(&proxy.url(&schema.url)).unwrap();
        store.create_session(&session("s"), NOW).unwrap();
        let cut = match is_committed {
            true => &proxy.cuts.commits,
            false => &proxy.cuts.turns,
        };
        cut.store(true, Ordering::Release);
        let turn = NewTurn {
            idempotency_key: Some("once".to_owned()),
            ..turn("one")
        };
        let first = store.record("s", &turn, None, None, NOW);
        let turns = schema.open().session("s").unwrap().turns;
        assert_eq!(turns, u64::from(is_committed));
        match &first {
            Ok(recorded) => assert!(is_committed && !recorded.replayed),
            Err(error) => {
                let is_unavailable = matches!(error, StoreError::Unavailable { .. });
                assert!(!is_committed && is_unavailable, "{error}");
            }
        }
        cut.store(false, Ordering::Release);
        let recorded = store.record("s", &turn, None, None, NOW).unwrap();
        assert_eq!(recorded.replayed, is_committed);
        assert_eq!(store.session("s").unwrap().turns, 1);
        assert_eq!(store.verify().unwrap().damaged, []);
    }
}

/// The database does not come back, so nobody knows whether the turn was committed.
#[test]
fn a_turn_whose_database_is_gone_has_an_unknown_outcome() {
    let schema = Schema::new();
    let proxy = Proxy::start(server());
    let store = PostgresStore::open(&proxy.url(&schema.url)).unwrap();
    store.create_session(&session("s"), NOW).unwrap();
    proxy.cuts.commits.store(true, Ordering::Release);
    proxy.cuts.new.store(true, Ordering::Release);
    let unknown = store
        .record("s", &turn("one"), None, None, NOW)
        .unwrap_err();
    let is_unknown = matches!(unknown, StoreError::UnknownOutcome { .. });
    assert!(is_unknown, "{unknown}");
}

/// A connection that is cut in the middle of a transaction leaves nothing, and the
/// tenant is not locked.
#[test]
fn a_transaction_that_is_cut_leaves_nothing() {
    let schema = Schema::new();
    let proxy = Proxy::start(server());
    let store = PostgresStore::open(&proxy.url(&schema.url)).unwrap();
    store.create_session(&session("s"), NOW).unwrap();
    use contexture_sql::Backend as _;
    let cuts = std::sync::Arc::clone(&proxy.cuts);
    let cut = store.backend().write(move |db, tenant| {
        let mut update = db.prepare_cached("UPDATE sessions SET label = 'x' WHERE tenant = ?1")?;
        assert_eq!(update.change([tenant])?, 1);
        cuts.all.store(true, Ordering::Release);
        Ok(update.change([tenant])?)
    });
    let error = cut.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    let other = schema.open_with(Options {
        lock_timeout: Duration::from_secs(5),
        ..Options::default()
    });
    other.record("s", &turn("one"), None, None, NOW).unwrap();
    assert_eq!(other.session("s").unwrap().turns, 1);
}

#[test]
fn a_connection_that_is_cut_before_a_write_is_replaced() {
    let schema = Schema::new();
    let proxy = Proxy::start(server());
    let url = format!(
        "{}&application_name={}",
        proxy.url(&schema.url),
        schema.name()
    );
    let store = PostgresStore::open(&url).unwrap();
    store.create_session(&session("before"), NOW).unwrap();
    // The server ends all connections of the pool, as when it is restarted.
    run(&format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE application_name = '{}' AND pid <> pg_backend_pid()",
        schema.name()
    ));
    thread::sleep(Duration::from_millis(50));
    store.create_session(&session("after"), NOW).unwrap();
    assert!(store.session("after").is_ok());
    // Everything is cut: no write happens, and the outcome is known.
    proxy.cuts.all.store(true, Ordering::Release);
    let error = store.create_session(&session("never"), NOW).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    proxy.cuts.all.store(false, Ordering::Release);
    store.create_session(&session("again"), NOW).unwrap();
}

#[test]
fn a_store_can_be_used_in_a_thread_of_a_runtime() {
    let schema = Schema::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = schema.open();
        store.create_session(&session("s"), NOW).unwrap();
        assert!(store.session("s").is_ok());
        drop(store);
    });
    let store = schema.open();
    let found = runtime.spawn_blocking(move || store.session("s").is_ok());
    assert!(runtime.block_on(found).unwrap());
}

#[test]
fn a_tenant_is_measured_and_removed() {
    let schema = Schema::new();
    let store = schema.open();
    let tenant = store.for_tenant("acme");
    assert_eq!(store.tenant_names().unwrap(), [""]);
    tenant.create_session(&session("s"), NOW).unwrap();
    assert_eq!(tenant.usage().unwrap().sessions, 1);
    assert_eq!(tenant.verify().unwrap().damaged, []);
    assert_eq!(store.usage().unwrap().sessions, 0);
    assert_eq!(store.tenant_names().unwrap(), ["", "acme"]);
    store.delete_tenant("acme", NOW).unwrap();
    assert_eq!(store.tenant_names().unwrap(), [""]);
    assert_eq!(store.for_tenant("acme").usage().unwrap().sessions, 0);
}

#[test]
fn a_schema_that_another_server_migrates_is_waited_for() {
    let schema = Schema::new();
    schema.open();
    // The schema has the state of an older version.
    let name = schema.name();
    support::run(&format!(
        "SET search_path = \"{name}\"; DROP TABLE events; DROP TABLE request_counts;
         DROP INDEX memories_of_user;
         DROP TABLE done_calls; ALTER TABLE sessions DROP COLUMN remember;
         ALTER TABLE turns DROP COLUMN deleted; ALTER TABLE tenants DROP COLUMN turn_deletions;
         DROP TABLE pending_deletions; ALTER TABLE sessions DROP COLUMN deleted;
         ALTER TABLE trees DROP COLUMN deleted;
         ALTER TABLE tenants DROP COLUMN content_deletions;
         UPDATE contexture_meta SET version = 2"
    ));
    thread::scope(|scope| {
        let migrating = scope.spawn(|| {
            support::run(&format!(
                "BEGIN; LOCK TABLE \"{name}\".contexture_meta IN SHARE ROW EXCLUSIVE MODE;
                 SELECT pg_sleep(0.5); COMMIT"
            ));
        });
        let servers: Vec<_> = (0..3).map(|_| scope.spawn(|| schema.open())).collect();
        for server in servers {
            let store = server.join().unwrap();
            assert_eq!(store.events(0, 1).unwrap().latest, 0);
        }
        migrating.join().unwrap();
    });
}

#[test]
fn a_deadlock_with_another_program_is_busy() {
    let schema = Schema::new();
    let store = schema.open();
    store.create_session(&session("s"), NOW).unwrap();
    use contexture_sql::Backend as _;
    let name = schema.name();
    let (begun, begin) = std::sync::mpsc::channel::<()>();
    thread::scope(|scope| {
        // The transaction locks the session, and then the row of the tenant.
        scope.spawn(|| {
            support::run(&format!(
                "SET search_path = \"{name}\"; SET deadlock_timeout = '30s'; BEGIN;
                 SELECT 1 FROM sessions FOR UPDATE; SELECT pg_sleep(1);
                 SELECT 1 FROM tenants FOR UPDATE; COMMIT"
            ));
        });
        thread::sleep(Duration::from_millis(300));
        let waited = store.backend().write(move |db, _| {
            db.query_row("SELECT 1", (), |_| Ok(()))?;
            begun.send(()).unwrap();
            Ok(db.query_row("SELECT 1 FROM sessions FOR UPDATE", (), |_| Ok(()))?)
        });
        begin.recv().unwrap();
        let busy = waited.unwrap_err();
        assert!(matches!(busy, StoreError::Busy { .. }), "{busy}");
    });
    // No lock remains.
    store.create_session(&session("t"), NOW).unwrap();
}

/// PostgreSQL shortens names after 63 bytes, so that two schemas would be one.
#[test]
fn a_name_may_have_63_bytes() {
    let limit = "ü".repeat(31);
    let names = [format!("{limit}a"), format!("{limit}b")];
    for (at, name) in names.iter().enumerate() {
        run(&format!("DROP SCHEMA IF EXISTS \"{name}\" CASCADE"));
        let store = PostgresStore::open(&format!("{}?schema={name}", server())).unwrap();
        store
            .create_session(&session(&format!("s{at}")), NOW)
            .unwrap();
        let sessions = store.sessions(None, 10).unwrap();
        assert_eq!(sessions.len(), 1, "{name}");
    }
    for name in &names {
        run(&format!("DROP SCHEMA \"{name}\" CASCADE"));
    }
    for long in ["x".repeat(64), "ü".repeat(32)] {
        let error = PostgresStore::open(&format!("{}?schema={long}", server())).unwrap_err();
        assert!(error.to_string().contains("1 to 63 bytes"), "{error}");
    }
}

/// The clocks of two servers differ by a day. The order of turns, changes and
/// events is that of commits.
#[test]
fn the_order_does_not_depend_on_clocks() {
    let schema = Schema::new();
    let (ahead, behind) = (schema.open(), schema.open());
    ahead.create_session(&session("s"), NOW).unwrap();
    let hour = |hours: i64| NOW + jiff::SignedDuration::from_hours(hours);
    let mut ids = Vec::new();
    for (store, text, at) in [
        (&ahead, "one", 24),
        (&behind, "two", 0),
        (&ahead, "three", 25),
    ] {
        let recorded = store.record("s", &turn(text), None, None, hour(at));
        ids.push(recorded.unwrap().id.to_string());
    }
    let events = behind.events(0, 10).unwrap().events;
    let told: Vec<_> = events
        .iter()
        .map(|event| event.data["turn_id"].clone())
        .collect();
    assert_eq!(told, ids);
    assert_eq!(behind.session("s").unwrap().turns, 3);
    assert_eq!(behind.session("s").unwrap().updated_at, hour(25));
}
