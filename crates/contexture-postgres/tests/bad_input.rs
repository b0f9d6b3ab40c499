//! Databases that cannot be used, and connections that are lost.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use contexture_postgres::{Options, PostgresStore};
use contexture_store::{Events as _, Ledger, NewSession, NewSessionPin, StoreError, Tenants};
use jiff::Timestamp;

use crate::support::{Schema, run, server};

fn session(label: &str) -> NewSession {
    NewSession {
        label: label.to_owned(),
        ..NewSession::default()
    }
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
        StoreError::Newer { found, known, .. } => assert_eq!((found, known), (99, 5)),
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
    store.create_session(&session("table'; DROP"), NOW).unwrap();
    assert_eq!(store.session("table'; DROP").unwrap().turns, 0);
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
                // The lock comes with the first statement.
                db.query_row("SELECT 1", (), |_| Ok(()))?;
                begun.send(()).unwrap();
                hold.recv().unwrap();
                Ok(())
            })
        });
        begin.recv().unwrap();
        let busy = other.create_session(&session("t"), NOW).unwrap_err();
        assert!(matches!(busy, StoreError::Busy { .. }), "{busy}");
        // Another tenant does not wait, nor does a read.
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
}

/// A proxy between a store and the server, whose connections can be cut.
struct Proxy {
    port: u16,
    /// Cut connections as soon as the server has answered a COMMIT, before the
    /// answer arrives.
    cut_commits: Arc<AtomicBool>,
    cut: Arc<AtomicBool>,
}

impl Proxy {
    fn start() -> Self {
        let target = server()
            .split('@')
            .nth(1)
            .unwrap()
            .split('/')
            .next()
            .unwrap();
        let target = target.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let cut_commits = Arc::new(AtomicBool::new(false));
        let cut = Arc::new(AtomicBool::new(false));
        let (commits, all) = (Arc::clone(&cut_commits), Arc::clone(&cut));
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect(&target).unwrap();
                pass_on(
                    &client,
                    &server,
                    Arc::clone(&commits),
                    Arc::clone(&all),
                    true,
                );
                pass_on(
                    &server,
                    &client,
                    Arc::clone(&commits),
                    Arc::clone(&all),
                    false,
                );
            }
        });
        Self {
            port,
            cut_commits,
            cut,
        }
    }

    fn url(&self, schema: &Schema) -> String {
        let server = server()
            .split('@')
            .nth(1)
            .unwrap()
            .split('/')
            .next()
            .unwrap();
        schema
            .url
            .replace(server, &format!("127.0.0.1:{}", self.port))
    }
}

fn pass_on(
    from: &TcpStream,
    to: &TcpStream,
    cut_commits: Arc<AtomicBool>,
    cut: Arc<AtomicBool>,
    requests: bool,
) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    thread::spawn(move || {
        let mut part = [0; 65536];
        while let Ok(read @ 1..) = from.read(&mut part) {
            let part = &part[..read];
            if cut.load(Ordering::Acquire) {
                break;
            }
            let holds = |word: &[u8]| part.windows(word.len()).any(|it| it == word);
            // The answer to COMMIT begins with the name of the command.
            if !requests && cut_commits.load(Ordering::Acquire) && holds(b"COMMIT\0") {
                break;
            }
            if to.write_all(part).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
}

#[test]
fn a_connection_that_is_cut_during_a_commit_leaves_the_outcome_unknown() {
    let schema = Schema::new();
    let proxy = Proxy::start();
    let store = PostgresStore::open(&proxy.url(&schema)).unwrap();
    store.create_session(&session("before"), NOW).unwrap();
    proxy.cut_commits.store(true, Ordering::Release);
    let unknown = store.create_session(&session("during"), NOW).unwrap_err();
    assert!(
        matches!(unknown, StoreError::UnknownOutcome { .. }),
        "{unknown}"
    );
    // It was committed, and the caller was not told that it was not.
    assert!(schema.open().session("during").is_ok());
    proxy.cut_commits.store(false, Ordering::Release);
    store.create_session(&session("after"), NOW).unwrap();
}

#[test]
fn a_connection_that_is_cut_before_a_write_is_replaced() {
    let schema = Schema::new();
    let proxy = Proxy::start();
    let url = format!("{}&application_name={}", proxy.url(&schema), schema.name());
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
    // Everything is cut: nothing is written, and nothing is unknown.
    proxy.cut.store(true, Ordering::Release);
    let error = store.create_session(&session("never"), NOW).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    proxy.cut.store(false, Ordering::Release);
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
    use contexture_store::Upkeep as _;
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
    // As an older version has left it.
    let name = schema.name();
    support::run(&format!(
        "SET search_path = \"{name}\"; DROP TABLE events; DROP TABLE request_counts;
         DROP TABLE done_calls; ALTER TABLE sessions DROP COLUMN remember;
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
        // It locks the session, and then wants the row of the tenant.
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
    // Nothing is left behind.
    store.create_session(&session("t"), NOW).unwrap();
}

#[test]
fn a_name_that_is_too_long_is_refused() {
    let url = format!("{}?schema={}", support::server(), "x".repeat(64));
    let error = PostgresStore::open(&url).unwrap_err();
    assert!(error.to_string().contains("1 to 63 bytes"), "{error}");
}

/// The clocks of two servers differ by a day: the order of turns, changes and events
/// is that of commits.
#[test]
fn the_order_does_not_depend_on_clocks() {
    let schema = Schema::new();
    let (ahead, behind) = (schema.open(), schema.open());
    ahead.create_session(&session("s"), NOW).unwrap();
    let hour = |hours: i64| NOW + jiff::SignedDuration::from_hours(hours);
    let turn = |text: &str| -> contexture_store::NewTurn {
        let turn = serde_json::json!({"messages": [{"role": "user", "content": text},
            {"role": "assistant", "content": "yes"}]});
        serde_json::from_value(turn).unwrap()
    };
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
