//! Several handles and several processes on one file.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contexture_sqlite::SqliteStore;
use contexture_store::{Ledger, MessageContent, Snapshots, StoreError};
use jiff::Timestamp;
use support::{check_store, child, child_path, counted, path as walked, session, turn};

const EACH: usize = 600;

/// Waits until this many writers have started, so that they overlap. Each
/// writer creates a file as its signal.
fn meet(path: &Path, name: &str, writers: usize) {
    let directory = path.with_file_name("here");
    let _ = std::fs::create_dir(&directory);
    std::fs::write(directory.join(name), "").unwrap();
    while std::fs::read_dir(&directory).unwrap().count() < writers {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Records `EACH` turns with two threads, as the writer `name` of several.
fn write(path: &Path, name: &str, writers: usize) {
    meet(path, name, writers);
    let store = SqliteStore::open(path).unwrap();
    match store.create_session(&session("s"), Timestamp::now()) {
        Ok(_) | Err(StoreError::Exists { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    std::thread::scope(|scope| {
        for half in 0..2 {
            let store = &store;
            scope.spawn(move || {
                for i in 0..EACH / 2 {
                    let turn = turn(&format!("{name} {half} {i}"));
                    let counted = counted(&turn);
                    let recorded = store.record("s", &turn, Some(&counted), None, Timestamp::now());
                    recorded.unwrap();
                }
            });
        }
    });
}

/// Returns the writers of the turns in the session, oldest first.
fn speakers(path: &Path) -> Vec<String> {
    let store = SqliteStore::open(path).unwrap();
    let head = store.session("s").unwrap().head.unwrap();
    let ids: Vec<_> = walked(&store, head)
        .iter()
        .rev()
        .map(|head| head.id)
        .collect();
    let turns = store.turns(&ids, "words").unwrap();
    let name = |content: &MessageContent| match content {
        MessageContent::Text(text) => text.split(' ').next().unwrap().to_owned(),
        MessageContent::Blocks(_) => panic!("text only"),
    };
    (turns
        .iter()
        .map(|turn| name(&turn.turn.messages[0].content)))
    .collect()
}

/// Checks that no writer waited until all others were done.
fn took_turns(speakers: &[String], names: &[&str]) {
    for name in names {
        let first = speakers.iter().position(|it| it == name).unwrap();
        let last = speakers.iter().rposition(|it| it == name).unwrap();
        let between = speakers[first..last].iter().filter(|it| it != name).count();
        assert!(between > 0, "{name} wrote alone");
        assert_eq!(speakers.iter().filter(|it| it == name).count(), EACH);
    }
}

#[test]
fn writes() {
    let Some(path) = child_path() else { return };
    let variable = |name| std::env::var(name).unwrap();
    let writers = variable("CONTEXTURE_TEST_WRITERS").parse().unwrap();
    write(&path, &variable("CONTEXTURE_TEST_NAME"), writers);
}

/// Two processes start at once: both create the file, and both write.
#[test]
fn two_processes_create_one_chain() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let names = ["ana", "ben"];
    let processes = names.map(|name| {
        let mut process = child("writes", &path);
        process.env("CONTEXTURE_TEST_NAME", name);
        process.env("CONTEXTURE_TEST_WRITERS", "2").spawn().unwrap()
    });
    for process in processes {
        let output = process.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
    }
    assert_eq!(check_store(&path).len(), 2 * EACH);
    took_turns(&speakers(&path), &names);
}

/// Two handles in one process next to another process, while other handles open
/// and close the store. Closing a file handle removes the locks of the process
/// on that file, unless the store prevents it.
#[test]
fn stores_are_opened_and_closed_during_writes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let done = AtomicBool::new(false);
    let process = child("writes", &path)
        .env("CONTEXTURE_TEST_NAME", "ana")
        .env("CONTEXTURE_TEST_WRITERS", "3")
        .spawn()
        .unwrap();
    std::thread::scope(|scope| {
        let writers = ["ben", "cid"].map(|name| {
            let path = &path;
            scope.spawn(move || write(path, name, 3))
        });
        let (path, done) = (&path, &done);
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                let store = SqliteStore::open(path).unwrap();
                store.snapshots(None, 1).unwrap();
                drop(SqliteStore::open_read_only(path).unwrap());
                drop(store);
            }
        });
        let output = process.wait_with_output().unwrap();
        let ended = writers.map(|writer| writer.join());
        done.store(true, Ordering::Relaxed);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        assert!(ended.iter().all(Result::is_ok));
    });
    assert_eq!(check_store(&path).len(), 3 * EACH);
    took_turns(&speakers(&path), &["ana", "ben", "cid"]);
}

/// Many handles that open a new store at the same time create it once.
#[test]
fn concurrent_processes_create_one_store() {
    for _ in 0..10 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a").join("store.db");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| SqliteStore::open(&path).unwrap().sessions(None, 1).unwrap());
            }
        });
    }
}
