//! Statements that are prepared once for each connection.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use contexture_postgres::PostgresStore;
use contexture_sql::Backend as _;
use contexture_store::{Ledger as _, NewSession, NewTurn};
use jiff::Timestamp;
use serde_json::json;

use crate::support::{Schema, run, server};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn create(store: &PostgresStore, label: &str) {
    let new = NewSession {
        label: label.to_owned(),
        ..NewSession::default()
    };
    store.create_session(&new, NOW).unwrap();
}

fn record(store: &PostgresStore, label: &str, text: &str) {
    let turn: NewTurn = serde_json::from_value(json!({
        "messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "yes"}],
    }))
    .unwrap();
    store.record(label, &turn, None, None, NOW).unwrap();
}

/// Returns the number of statements that the connection has prepared.
fn prepared(store: &PostgresStore) -> i64 {
    let read = |db: &contexture_sql::Connection, _| {
        let sql = "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'contexture%'";
        Ok(db.query_row(sql, (), |row| row.get(0))?)
    };
    store.backend().read(read).unwrap()
}

/// Forwards connections like a pooler: with its own process number.
fn pooler() -> u16 {
    let target = server()
        .split('@')
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(target).unwrap());
            pass_on(&client, &server, false);
            pass_on(&server, &client, true);
        }
    });
    port
}

fn pass_on(from: &TcpStream, to: &TcpStream, answers: bool) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    thread::spawn(move || {
        let mut part = [0; 65536];
        while let Ok(read @ 1..) = from.read(&mut part) {
            let part = &mut part[..read];
            // The message with the process number, before the first query.
            let told = b"K\0\0\0\x0c";
            let at = part.windows(told.len()).position(|it| it == told);
            if let Some(at) = at.filter(|_| answers) {
                part[at + told.len()] ^= 0x40;
            }
            if to.write_all(part).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
}

#[test]
fn statements_have_names_on_a_direct_connection_only() {
    let schema = Schema::new();
    let direct = schema.open();
    create(&direct, "direct");
    match std::env::var_os("CONTEXTURE_TEST_POOLER") {
        None => assert!(prepared(&direct) > 0),
        Some(_) => assert_eq!(prepared(&direct), 0),
    }
    let at = server()
        .split('@')
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    let url = schema.url.replace(at, &format!("127.0.0.1:{}", pooler()));
    let pooled = PostgresStore::open(&url).unwrap();
    create(&pooled, "pooled");
    record(&pooled, "pooled", "one");
    assert_eq!(pooled.session("pooled").unwrap().turns, 1);
    assert_eq!(prepared(&pooled), 0);
    // The session has no other state, either.
    let path = pooled
        .backend()
        .read(|db, _| Ok(db.query_row("SHOW search_path", (), |row| row.get::<String>(0))?))
        .unwrap();
    assert!(path.contains(schema.name()), "{path}");
}

#[test]
fn statements_are_prepared_anew_after_a_connection_was_lost() {
    let schema = Schema::new();
    let url = format!("{}&application_name={}", schema.url, schema.name());
    let store = PostgresStore::open(&url).unwrap();
    create(&store, "s");
    record(&store, "s", "one");
    run(&format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE application_name = '{}' AND pid <> pg_backend_pid()",
        schema.name()
    ));
    thread::sleep(std::time::Duration::from_millis(50));
    record(&store, "s", "two");
    assert_eq!(store.session("s").unwrap().turns, 2);
}

/// Another server of a newer version adds a column and an index, and changes the type
/// of a column, while statements are prepared.
#[test]
fn a_table_that_changes_is_planned_anew() {
    let schema = Schema::new();
    let store = schema.open();
    create(&store, "s");
    for n in 0..8 {
        record(&store, "s", &n.to_string());
        store.session("s").unwrap();
    }
    run(&format!(
        "SET search_path = \"{}\"; ALTER TABLE turns ADD COLUMN extra BIGINT;
         CREATE INDEX extra ON turns (extra); DROP INDEX turns_of_session",
        schema.name()
    ));
    record(&store, "s", "more");
    assert_eq!(store.session("s").unwrap().turns, 9);
    run(&format!(
        "SET search_path = \"{}\"; ALTER TABLE sessions ALTER COLUMN task TYPE VARCHAR(100)",
        schema.name()
    ));
    // A statement whose result has another type fails once, and the caller retries.
    let first = store.session("s");
    if let Err(error) = first {
        let unavailable = matches!(error, contexture_store::StoreError::Unavailable { .. });
        assert!(unavailable, "{error}");
    }
    assert_eq!(store.session("s").unwrap().turns, 9);
    record(&store, "s", "last");
    assert_eq!(store.session("s").unwrap().turns, 10);
}
