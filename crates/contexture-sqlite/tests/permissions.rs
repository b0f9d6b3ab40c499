//! Tests where the system forbids a write, or a larger file.
//!
//! The system forbids nothing to root. When root starts these tests, they run
//! as the user `nobody`.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use contexture_sqlite::SqliteStore;
use contexture_store::{Ledger, StoreError, Tenants};
use support::{
    at, check_store, child, child_path, counted, path as walked, run, said, say, session, turn,
};
use tempfile::TempDir;

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Returns a directory that every user may enter, and the path of a store in
/// it.
fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    allow(directory.path(), 0o755);
    let inside = directory.path().join("inside");
    fs::create_dir(&inside).unwrap();
    (directory, inside.join("store.db"))
}

/// Returns a command that runs the test `name` as a user without privileges.
fn child_as_nobody(name: &str, directory: &TempDir, path: &Path) -> Command {
    let command = child(name, path);
    let is_root = fs::metadata(directory.path()).unwrap().uid() == 0;
    if is_root {
        // The user `nobody` cannot reach the original of the test binary.
        let copy = directory.path().join("test");
        fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        allow(&copy, 0o755);
        let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let mut copied = Command::new(copy);
        copied
            .args(arguments)
            .env("CONTEXTURE_TEST_PATH", path)
            .current_dir(directory.path())
            .uid(65534)
            .gid(65534);
        return copied;
    }
    command
}

/// Reads one turn; writes are rejected.
#[test]
fn reads_and_cannot_write() {
    let Some(path) = child_path() else { return };
    for open in [SqliteStore::open, SqliteStore::open_read_only] {
        let store = open(path.clone()).unwrap();
        for _ in 0..2 {
            let session = store.session("s").unwrap();
            assert_eq!(session.turns, 1);
            assert_eq!(walked(&store, session.head.unwrap()).len(), 1);
        }
        let refused = store.record("s", &turn("more"), None, None, at(2));
        assert!(
            matches!(refused, Err(StoreError::ReadOnly { .. })),
            "{refused:?}"
        );
        let again = store.create_session(&session("t"), at(2));
        assert!(
            matches!(again, Err(StoreError::ReadOnly { .. })),
            "{again:?}"
        );
    }
    let elsewhere = SqliteStore::open(path.with_file_name("new.db")).err();
    assert!(elsewhere.is_none() || matches!(elsewhere, Some(StoreError::ReadOnly { .. })));
}

/// Creates a store with one turn and returns it.
fn one_turn(path: &Path) -> SqliteStore {
    let store = SqliteStore::open(path).unwrap();
    store.create_session(&session("s"), at(0)).unwrap();
    let turn = turn("hello");
    store
        .record("s", &turn, Some(&counted(&turn)), None, at(1))
        .unwrap();
    store
}

#[test]
fn a_read_only_file_can_be_read() {
    let (directory, path) = place();
    drop(one_turn(&path));
    allow(&path, 0o444);
    allow(path.parent().unwrap(), 0o777);
    run(child_as_nobody("reads_and_cannot_write", &directory, &path));
}

#[test]
fn a_read_only_directory_can_be_read() {
    // The mode of the file does not matter: SQLite must create a log next to
    // it.
    for mode in [0o444, 0o666] {
        let (directory, path) = place();
        drop(one_turn(&path));
        allow(&path, mode);
        allow(path.parent().unwrap(), 0o555);
        run(child_as_nobody("reads_and_cannot_write", &directory, &path));
        allow(path.parent().unwrap(), 0o755);
    }
}

#[test]
fn a_store_can_be_read_while_another_process_writes() {
    let (directory, path) = place();
    let store = one_turn(&path);
    for file in fs::read_dir(path.parent().unwrap()).unwrap() {
        allow(&file.unwrap().path(), 0o444);
    }
    allow(path.parent().unwrap(), 0o555);
    // The turn is still in the log.
    run(child_as_nobody("reads_and_cannot_write", &directory, &path));
    allow(path.parent().unwrap(), 0o755);
    drop(store);
}

/// While the store is open, the file, and then its directory, become read-only
/// and writable again.
#[test]
fn becomes_read_only_and_writable_again() {
    let Some(path) = child_path() else { return };
    let store = one_turn(&path);
    let mut turns = 1;
    let reads = |turns: u64| {
        // Several threads read, so that some connections are opened only now.
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let session = store.session("s").unwrap();
                        assert_eq!(session.turns, turns);
                        assert_eq!(walked(&store, session.head.unwrap()).len() as u64, turns);
                    }
                });
            }
        });
    };
    let directory = path.parent().unwrap().to_owned();
    for (forbidden, mode, usual) in [
        (&path, 0o444, 0o600),
        (&directory, 0o555, 0o700),
        (&path, 0o400, 0o600),
    ] {
        allow(forbidden, mode);
        for _ in 0..2 {
            let refused = store.record("s", &turn("more"), None, None, at(2));
            assert!(
                matches!(refused, Err(StoreError::ReadOnly { .. })),
                "{refused:?}"
            );
            let ping = store.ping();
            assert!(matches!(ping, Err(StoreError::ReadOnly { .. })), "{ping:?}");
            reads(turns);
        }
        allow(forbidden, usual);
        store.ping().unwrap();
        let more = turn("more");
        store
            .record("s", &more, Some(&counted(&more)), None, at(2))
            .unwrap();
        turns += 1;
        reads(turns);
    }
    drop(store);
    assert_eq!(check_store(&path).len() as u64, turns);
}

#[test]
fn a_store_that_becomes_read_only_can_still_be_read() {
    let (directory, path) = place();
    allow(path.parent().unwrap(), 0o777);
    let own = path.parent().unwrap().join("own/store.db");
    let name = "becomes_read_only_and_writable_again";
    run(child_as_nobody(name, &directory, &own));
}

/// Records until the system rejects a larger file, then once more.
#[test]
fn records_until_the_disk_is_full() {
    let Some(path) = child_path() else { return };
    say("");
    let store = SqliteStore::open(&path).unwrap();
    let mut refused = 0;
    for i in 0..3000 {
        let turn = turn(&format!("{i} {}", "x".repeat(3000)));
        match store.record("s", &turn, Some(&counted(&turn)), None, at(2)) {
            Ok(recorded) => say(&format!("recorded {}", recorded.id)),
            Err(StoreError::Backend { .. } | StoreError::Full { .. }) if refused < 3 => {
                refused += 1;
            }
            Err(StoreError::Backend { .. } | StoreError::Full { .. }) => break,
            Err(other) => panic!("{other:?}"),
        }
    }
    say(&format!("refused {refused}"));
    // Reads still work; the write error is reported.
    assert!(store.session("s").unwrap().turns > 10);
    for _ in 0..2 {
        let ping = store.ping();
        assert!(
            matches!(
                ping,
                Err(StoreError::Backend { .. } | StoreError::Full { .. })
            ),
            "{ping:?}"
        );
    }
}

#[test]
fn a_full_disk_loses_no_acknowledged_write() {
    let (_directory, path) = place();
    drop(one_turn(&path));
    let child = child("records_until_the_disk_is_full", &path);
    // The system limits each file of the process to 2 MiB. A write fails in the
    // middle of a commit, or while the log moves into the file.
    let mut limited = Command::new("sh");
    limited
        .arg("-c")
        .arg("trap '' XFSZ; ulimit -f 4096; exec \"$0\" \"$@\"")
        .arg(child.get_program())
        .args(child.get_args())
        .env("CONTEXTURE_TEST_PATH", &path);
    let output = run(limited);
    assert_eq!(said(&output, "refused"), ["3"]);
    let acknowledged = said(&output, "recorded");
    assert!(acknowledged.len() > 10, "{}", acknowledged.len());
    let stored: Vec<String> = (check_store(&path).iter().map(|(id, _)| id.to_string())).collect();
    for id in acknowledged {
        assert!(stored.iter().any(|it| it == id), "{id} is lost");
    }
}
