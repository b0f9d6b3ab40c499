//! Tests of a store whose file is removed or replaced while it is open.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use contexture_sqlite::SqliteStore;
use contexture_store::{Ledger, StoreError, Tenants};
use rusqlite::Connection;
use support::{at, check_rows, check_store, counted, path as walked, session, turn};
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    (directory, path)
}

fn say(store: &SqliteStore, said: &str) -> Result<String, StoreError> {
    let turn = turn(said);
    let recorded = store.record("s", &turn, Some(&counted(&turn)), None, at(1))?;
    Ok(recorded.id.to_string())
}

/// Creates a store with a session and this many turns.
fn filled(path: &Path, turns: u64) -> SqliteStore {
    let store = SqliteStore::open(path).unwrap();
    store.create_session(&session("s"), at(0)).unwrap();
    for i in 0..turns {
        say(&store, &format!("turn {i}")).unwrap();
    }
    store
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Checks that reads, writes and the health check fail with `why`, and that no
/// file is created at the path.
#[track_caller]
fn is_unavailable(store: &SqliteStore, path: &Path, why: &str) {
    let before = fs::symlink_metadata(path).map(|found| found.len()).ok();
    for _ in 0..2 {
        let answers = [
            say(store, "lost").err(),
            store.session("s").err(),
            store.ping().err(),
            store.keys().err(),
        ];
        for answer in answers {
            let answer = answer.expect("an error");
            assert!(!answer.is_input(), "{answer}");
            let is_told = matches!(&answer, StoreError::Unavailable { message, .. }
                if message.contains(why));
            assert!(is_told, "{answer:?}");
        }
    }
    let after = fs::symlink_metadata(path).map(|found| found.len()).ok();
    assert_eq!(before, after);
}

/// Checks that reads and writes work, and that the session has this many turns.
#[track_caller]
fn goes_on(store: &SqliteStore, turns: u64) {
    store.ping().unwrap();
    let session = store.session("s").unwrap();
    assert_eq!(session.turns, turns);
    if let Some(head) = session.head {
        assert_eq!(walked(store, head).len() as u64, turns);
    }
    say(store, "once more").unwrap();
    assert_eq!(store.session("s").unwrap().turns, turns + 1);
}

#[test]
fn a_deleted_store_is_unavailable_until_it_is_restored() {
    let (directory, path) = place();
    let copy = directory.path().join("copy.db");
    drop(filled(&path, 2));
    fs::copy(&path, &copy).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    say(&store, "after the copy").unwrap();
    fs::remove_file(&path).unwrap();
    is_unavailable(&store, &path, "was deleted");
    fs::rename(&copy, &path).unwrap();
    goes_on(&store, 2);
    drop(store);
    assert_eq!(check_store(&path).len(), 3);
}

#[test]
fn a_store_deleted_with_its_log_is_unavailable() {
    let (directory, path) = place();
    let copy = directory.path().join("copy.db");
    drop(filled(&path, 2));
    fs::copy(&path, &copy).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    say(&store, "after the copy").unwrap();
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(beside(&path, suffix)).unwrap();
    }
    is_unavailable(&store, &path, "was deleted");
    fs::rename(&copy, &path).unwrap();
    goes_on(&store, 2);
    drop(store);
    assert_eq!(check_store(&path).len(), 3);
}

#[test]
fn reads_notice_a_moved_file() {
    let (directory, path) = place();
    let away = directory.path().join("away.db");
    drop(filled(&path, 2));
    for open in [SqliteStore::open, SqliteStore::open_read_only] {
        let store = open(path.clone()).unwrap();
        assert_eq!(store.session("s").unwrap().turns, 2);
        fs::rename(&path, &away).unwrap();
        let gone = store.session("s").unwrap_err();
        assert!(matches!(gone, StoreError::Unavailable { .. }), "{gone}");
        fs::rename(&away, &path).unwrap();
        assert_eq!(store.session("s").unwrap().turns, 2);
    }
}

#[test]
fn acknowledged_writes_are_in_a_moved_file() {
    let (directory, path) = place();
    let away = directory.path().join("away.db");
    let store = filled(&path, 3);
    fs::rename(&path, &away).unwrap();
    is_unavailable(&store, &path, "was deleted");
    // The log, which has another name, is empty.
    assert_eq!(fs::metadata(beside(&path, "-wal")).unwrap().len(), 0);
    assert_eq!(check_store(&away).len(), 3);
    let incarnation = store.incarnation();
    fs::rename(&away, &path).unwrap();
    goes_on(&store, 3);
    assert_eq!(store.incarnation(), incarnation);
    drop(store);
    assert_eq!(check_store(&path).len(), 4);
}

#[test]
fn a_renamed_directory_makes_the_store_unavailable() {
    let directory = tempfile::tempdir().unwrap();
    let (inside, away) = (
        directory.path().join("inside"),
        directory.path().join("away"),
    );
    let path = inside.join("store.db");
    let store = filled(&path, 3);
    fs::rename(&inside, &away).unwrap();
    is_unavailable(&store, &path, "was deleted");
    fs::rename(&away, &inside).unwrap();
    goes_on(&store, 3);
}

#[test]
fn a_replaced_file_becomes_the_store() {
    let (directory, path) = place();
    let (other, away) = (
        directory.path().join("other.db"),
        directory.path().join("away.db"),
    );
    // The first tenant in this store is the second in the other.
    let first = SqliteStore::open(&other).unwrap();
    let harbour = first.for_tenant("harbour");
    harbour.create_session(&session("quay"), at(0)).unwrap();
    drop((first, harbour));
    drop(filled(&other, 5));

    let store = filled(&path, 3);
    let harbour = store.for_tenant("harbour");
    assert_eq!(harbour.sessions(None, 10).unwrap().len(), 0);
    let incarnation = store.incarnation();
    fs::rename(&path, &away).unwrap();
    // The files of the tenants are moved, too.
    let directory_of = |path: &Path| contexture_sqlite::tenants_directory(path);
    fs::rename(directory_of(&other), directory_of(&path)).unwrap();
    fs::rename(&other, &path).unwrap();
    assert_eq!(harbour.session("quay").unwrap().turns, 0);
    // A cache of its data can detect the change.
    assert_ne!(store.incarnation(), incarnation);
    assert_eq!(harbour.incarnation(), store.incarnation());
    goes_on(&store, 5);
    harbour.create_session(&session("pier"), at(1)).unwrap();
    let labels = |store: &SqliteStore| -> Vec<String> {
        let sessions = store.sessions(None, 10).unwrap();
        sessions.into_iter().map(|it| it.label).collect()
    };
    assert_eq!(labels(&store), ["s"]);
    assert_eq!(labels(&harbour), ["pier", "quay"]);
    drop((store, harbour));
    check_rows(&path);
    assert_eq!(check_store(&away).len(), 3);
}

#[test]
fn a_changed_symlink_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("a")).unwrap();
    fs::create_dir(at("b")).unwrap();
    let (a, b, link) = (at("a/one.db"), at("b/two.db"), at("store.db"));
    drop(filled(&a, 1));
    drop(filled(&b, 2));
    std::os::unix::fs::symlink(&a, &link).unwrap();
    let store = SqliteStore::open(&link).unwrap();
    goes_on(&store, 1);
    fs::remove_file(&link).unwrap();
    is_unavailable(&store, &link, "was deleted");
    std::os::unix::fs::symlink(&b, &link).unwrap();
    goes_on(&store, 2);
    drop(store);
    assert_eq!((check_store(&a).len(), check_store(&b).len()), (2, 3));
}

#[test]
fn a_replaced_file_that_is_not_a_store_is_rejected() {
    let (directory, path) = place();
    let away = directory.path().join("away.db");
    let store = filled(&path, 2);
    let whole = {
        let copy = directory.path().join("copy.db");
        let db = Connection::open(&path).unwrap();
        db.execute("VACUUM INTO ?1", [copy.to_str().unwrap()])
            .unwrap();
        fs::read(copy).unwrap()
    };
    fs::rename(&path, &away).unwrap();
    let newer = || {
        let db = Connection::open(&path).unwrap();
        db.pragma_update(None, "user_version", 99).unwrap();
    };
    let contents: [(&[u8], &str); 4] = [
        (b"", "is empty"),
        (b"hello", "not a SQLite database"),
        (&whole[..whole.len() / 2], "damaged"),
        (&whole, "newer version"),
    ];
    for (content, why) in contents {
        fs::write(&path, content).unwrap();
        if why == "newer version" {
            newer();
        }
        is_unavailable(&store, &path, why);
        fs::remove_file(&path).unwrap();
    }
    fs::create_dir(&path).unwrap();
    is_unavailable(&store, &path, "not a file");
    fs::remove_dir(&path).unwrap();
    is_unavailable(&store, &path, "was deleted");
    fs::write(&path, &whole).unwrap();
    goes_on(&store, 2);
}

#[test]
fn a_deleted_log_loses_no_acknowledged_write() {
    for removed in [&["-wal"][..], &["-shm"], &["-wal", "-shm"]] {
        let (_directory, path) = place();
        let store = filled(&path, 3);
        for suffix in removed {
            fs::remove_file(beside(&path, suffix)).unwrap();
        }
        // The file has all acknowledged turns.
        goes_on(&store, 3);
        let other = SqliteStore::open(&path).unwrap();
        goes_on(&other, 4);
        goes_on(&store, 5);
        drop((store, other));
        assert_eq!(check_store(&path).len(), 6);
    }
}

#[test]
fn a_reader_finds_the_new_log() {
    let (_directory, path) = place();
    let store = filled(&path, 3);
    let reader = SqliteStore::open_read_only(&path).unwrap();
    assert_eq!(reader.session("s").unwrap().turns, 3);
    for suffix in ["-wal", "-shm"] {
        fs::remove_file(beside(&path, suffix)).unwrap();
    }
    goes_on(&store, 3);
    let start = Instant::now();
    loop {
        match reader.session("s") {
            Ok(session) if session.turns == 4 => break,
            Ok(_) | Err(StoreError::Unavailable { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
        assert!(start.elapsed() < Duration::from_secs(30), "it never does");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_log_of_another_file_is_not_used() {
    let (directory, path) = place();
    let (other, away) = (
        directory.path().join("other.db"),
        directory.path().join("away.db"),
    );
    drop(filled(&other, 5));
    // Another handle has written, and its writes are still in the log.
    let writer = filled(&path, 3);
    let reader = SqliteStore::open(&path).unwrap();
    assert_eq!(reader.session("s").unwrap().turns, 3);
    drop(writer);
    assert!(fs::metadata(beside(&path, "-wal")).unwrap().len() > 0);
    fs::rename(&path, &away).unwrap();
    fs::rename(&other, &path).unwrap();
    is_unavailable(&reader, &path, "move it next to the earlier file");
    fs::rename(beside(&path, "-wal"), beside(&away, "-wal")).unwrap();
    goes_on(&reader, 5);
    drop(reader);
    assert_eq!(check_store(&path).len(), 6);
    assert_eq!(check_store(&away).len(), 3);
}

/// Replaces the store at `path` with a copy of `template`. The earlier file is then
/// at `away`.
fn replace(path: &Path, template: &Path, away: &Path) {
    fs::rename(path, away).unwrap();
    fs::copy(template, path).unwrap();
}

#[test]
fn a_new_handle_closes_the_replaced_file_of_another() {
    let (directory, path) = place();
    let at = |name: &str| directory.path().join(name);
    drop(filled(&at("template.db"), 5));
    for i in 0..20 {
        let away = at(&format!("away-{i}.db"));
        // The log has the writes of both, and is emptied by either.
        let writer = filled(&path, 3);
        let reader = SqliteStore::open(&path).unwrap();
        assert_eq!(reader.session("s").unwrap().turns, 3);
        replace(&path, &at("template.db"), &away);
        let new = SqliteStore::open(&path).unwrap();
        assert_eq!(new.session("s").unwrap().turns, 5);
        goes_on(&new, 5);
        goes_on(&reader, 6);
        goes_on(&writer, 7);
        drop((writer, reader, new));
        assert_eq!(check_store(&away).len(), 3);
        assert_eq!(check_store(&path).len(), 8);
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_reader_closes_the_replaced_file_of_a_writer() {
    let (directory, path) = place();
    let at = |name: &str| directory.path().join(name);
    drop(filled(&at("template.db"), 5));
    let writer = filled(&path, 3);
    let reader = SqliteStore::open_read_only(&path).unwrap();
    assert_eq!(reader.session("s").unwrap().turns, 3);
    replace(&path, &at("template.db"), &at("away.db"));
    assert_eq!(reader.session("s").unwrap().turns, 5);
    goes_on(&writer, 5);
    drop((writer, reader));
    assert_eq!(check_store(&at("away.db")).len(), 3);
    assert_eq!(check_store(&path).len(), 6);
}

#[test]
fn a_backup_copies_the_file_that_is_there() {
    let (directory, path) = place();
    let at_name = |name: &str| directory.path().join(name);
    drop(filled(&at_name("template.db"), 5));
    let store = filled(&path, 3);
    replace(&path, &at_name("template.db"), &at_name("away.db"));
    let target = at_name("backup");
    store.backend().back_up(&target, Some(""), at(9)).unwrap();
    assert_eq!(check_store(&target.join("store.db")).len(), 5);
    goes_on(&store, 5);
    drop(store);
    assert_eq!(check_store(&at_name("away.db")).len(), 3);
    assert_eq!(check_store(&path).len(), 6);
}

/// The progress of the recording threads during a change.
#[derive(Default)]
struct Progress {
    acknowledged: AtomicU64,
    refused: AtomicU64,
    done: AtomicBool,
}

impl Progress {
    /// Waits until this many more turns are acknowledged.
    fn wait(&self, more: u64) {
        Self::wait_for(&self.acknowledged, more);
    }

    /// Waits until this many more turns are rejected.
    fn wait_refused(&self, more: u64) {
        Self::wait_for(&self.refused, more);
    }

    fn wait_for(count: &AtomicU64, more: u64) {
        let (start, before) = (Instant::now(), count.load(Ordering::Relaxed));
        while count.load(Ordering::Relaxed) < before + more {
            assert!(start.elapsed() < Duration::from_secs(60), "nothing goes on");
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Records in several threads until `change` is done, and returns the ids that
/// were acknowledged.
fn recorded_while(store: &SqliteStore, change: impl FnOnce(&Progress)) -> BTreeSet<String> {
    struct Done<'a>(&'a Progress);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.done.store(true, Ordering::Relaxed);
        }
    }
    let progress = Progress::default();
    let progress = &progress;
    let write = |writer: u64| {
        move || {
            let mut acknowledged = Vec::new();
            let mut i = 0;
            while !progress.done.load(Ordering::Relaxed) {
                match say(store, &format!("{writer} {i}")) {
                    Ok(id) => {
                        acknowledged.push(id);
                        progress.acknowledged.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(StoreError::Unavailable { .. }) => {
                        progress.refused.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(other) => panic!("{other:?}"),
                }
                match store.session("s") {
                    Ok(_) | Err(StoreError::Unavailable { .. }) => {}
                    Err(other) => panic!("{other:?}"),
                }
                i += 1;
            }
            acknowledged
        }
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4).map(|writer| scope.spawn(write(writer))).collect();
        let done = Done(progress);
        change(progress);
        drop(done);
        let all = writers.into_iter().flat_map(|it| it.join().unwrap());
        all.collect()
    })
}

fn ids(path: &Path) -> impl Iterator<Item = String> {
    let stored = check_store(path).into_iter();
    stored.map(|(id, _)| id.to_string())
}

#[test]
fn no_write_is_lost_while_the_file_is_moved_repeatedly() {
    let (directory, path) = place();
    let away = directory.path().join("away.db");
    let store = filled(&path, 0);
    let acknowledged = recorded_while(&store, |progress| {
        for i in 0..30 {
            progress.wait(i % 5);
            fs::rename(&path, &away).unwrap();
            progress.wait_refused(i % 3);
            fs::rename(&away, &path).unwrap();
        }
        progress.wait(5);
    });
    drop(store);
    let stored: BTreeSet<String> = ids(&path).collect();
    assert_eq!(acknowledged.difference(&stored).next(), None);
}

#[test]
fn acknowledged_writes_are_in_one_of_the_files() {
    are_in_one_of_the_files(|_| ());
}

#[test]
fn acknowledged_writes_are_in_one_of_the_files_of_two_handles() {
    are_in_one_of_the_files(|path| {
        let other = SqliteStore::open(path).unwrap();
        let _ = other.session("s");
        other
    });
}

/// Replaces the file of a store 20 times while threads record. `other` opens the
/// first file, too.
fn are_in_one_of_the_files<T>(other: impl FnOnce(&Path) -> T) {
    let (directory, path) = place();
    let template = directory.path().join("template.db");
    drop(filled(&template, 0));
    fs::copy(&template, &path).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let other = other(&path);
    let named = |i: usize| directory.path().join(format!("old-{i}.db"));
    let acknowledged = recorded_while(&store, |progress| {
        for i in 0..20 {
            let next = directory.path().join("next.db");
            fs::copy(&template, &next).unwrap();
            progress.wait(i as u64 % 5 + 1);
            match i % 2 {
                // A file exists at the path at all times.
                0 => fs::hard_link(&path, named(i)).unwrap(),
                _ => {
                    fs::rename(&path, named(i)).unwrap();
                    progress.wait_refused(i as u64 % 3);
                }
            }
            fs::rename(&next, &path).unwrap();
        }
        progress.wait(5);
    });
    drop((store, other));
    let mut stored: BTreeSet<String> = ids(&path).collect();
    for i in 0..20 {
        stored.extend(ids(&named(i)));
    }
    assert_eq!(acknowledged.difference(&stored).next(), None);
}
