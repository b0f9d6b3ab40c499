//! Stores that are opened to write much at once: with a rollback journal instead of
//! the log, as long as nothing else has the file open.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use contexture_sqlite::{Options, SqliteStore};
use contexture_store::{Ledger, Store, StoreError, Upkeep as _};
use jiff::Timestamp;
use rusqlite::Connection;
use support::session;

fn open(path: &Path) -> SqliteStore {
    let options = Options {
        bulk: true,
        ..Options::default()
    };
    SqliteStore::open_with(path, options).unwrap()
}

fn create(store: &SqliteStore, label: &str) {
    let now = Timestamp::UNIX_EPOCH;
    store.create_session(&session(label), now).unwrap();
}

fn sessions(store: &SqliteStore) -> usize {
    store.sessions(None, 99).unwrap().len()
}

fn journal_mode(path: &Path) -> String {
    let db = Connection::open(path).unwrap();
    db.pragma_query_value(None, "journal_mode", |row| row.get(0))
        .unwrap()
}

fn with_fresh_store(test: impl FnOnce(&dyn Store)) {
    let directory = tempfile::tempdir().unwrap();
    test(&open(&directory.path().join("store.db")));
}

contexture_store_suite::conformance!(with_fresh_store);

#[test]
fn there_is_no_log_until_another_handle_opens_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let log = directory.path().join("store.db-wal");
    drop(SqliteStore::open(&path).unwrap());
    assert_eq!(journal_mode(&path), "wal");
    let bulk = open(&path);
    create(&bulk, "one");
    assert!(!log.exists());
    assert_eq!(journal_mode(&path), "delete");
    let other = SqliteStore::open(&path).unwrap();
    assert!(log.exists());
    assert_eq!(sessions(&other), 1);
    create(&bulk, "two");
    create(&other, "three");
    create(&bulk, "four");
    assert_eq!((sessions(&bulk), sessions(&other)), (4, 4));
    drop(other);
    create(&bulk, "five");
    assert_eq!(bulk.verify().unwrap().damaged, []);
    drop(bulk);
    assert!(!log.exists());
    assert_eq!(journal_mode(&path), "wal");
}

#[test]
fn a_store_has_its_log_again_when_it_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let bulk = open(&path);
    create(&bulk, "one");
    drop(bulk);
    assert_eq!(journal_mode(&path), "wal");
    assert!(!directory.path().join("store.db-journal").exists());
    assert_eq!(sessions(&SqliteStore::open(&path).unwrap()), 1);
}

#[test]
fn a_store_that_is_open_keeps_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let other = SqliteStore::open(&path).unwrap();
    let bulk = open(&path);
    create(&bulk, "one");
    assert!(directory.path().join("store.db-wal").exists());
    assert_eq!(journal_mode(&path), "wal");
    create(&other, "two");
    assert_eq!((sessions(&bulk), sessions(&other)), (2, 2));
}

#[test]
fn a_commit_waits_for_a_reader() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let bulk = open(&path);
    create(&bulk, "one");
    let reader = Connection::open(&path).unwrap();
    let count = "SELECT count(*) FROM sessions";
    reader.execute_batch("BEGIN").unwrap();
    let read = || reader.query_row(count, [], |row| row.get::<_, i64>(0));
    assert_eq!(read().unwrap(), 1);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| create(&bulk, "two"));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!writing.is_finished());
        assert_eq!(read().unwrap(), 1);
        reader.execute_batch("COMMIT").unwrap();
        writing.join().unwrap();
    });
    assert!(start.elapsed() < Duration::from_secs(30));
    assert_eq!(read().unwrap(), 2);
}

#[test]
fn a_store_that_is_written_in_bulk_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let bulk = open(&path);
    create(&bulk, "one");
    let target = directory.path().join("backup");
    let now = Timestamp::UNIX_EPOCH;
    bulk.backend().back_up(&target, None, now).unwrap();
    create(&bulk, "two");
    let refused = contexture_sqlite::restore(&target, &path, true).unwrap_err();
    assert!(matches!(refused, StoreError::Busy { .. }), "{refused}");
    drop(bulk);
    contexture_sqlite::restore(&target, &path, true).unwrap();
    assert_eq!(sessions(&SqliteStore::open(&path).unwrap()), 1);
}

#[test]
fn closing_does_not_touch_the_log_of_another_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let log = directory.path().join("store.db-wal");
    let bulk = open(&path);
    create(&bulk, "one");
    std::fs::rename(&path, directory.path().join("away.db")).unwrap();
    std::fs::write(&path, "another file").unwrap();
    drop(bulk);
    assert!(!log.exists());
    assert_eq!(std::fs::read(&path).unwrap(), b"another file");
}
