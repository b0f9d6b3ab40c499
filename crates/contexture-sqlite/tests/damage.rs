//! Tests of files that are locked, full, damaged, or of another program.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use contexture_sqlite::{Options, SqliteStore};
use contexture_store::{Growth, Ledger, Snapshots, StoreError, Tenants, TreeDocument, Trees};
use rusqlite::Connection;
use support::{EVERYTHING, at, check_rows, check_store, counted, session, turn};
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    (directory, path)
}

/// Records this many turns in the session `s`.
fn record(store: &SqliteStore, turns: u64) {
    for i in 0..turns {
        let turn = turn(&format!("turn {i}: {}", "x".repeat(3000)));
        let counted = counted(&turn);
        store
            .record("s", &turn, Some(&counted), None, at(1))
            .unwrap();
    }
}

/// Creates a store with this many turns, and closes it.
fn filled(path: &Path, turns: u64) {
    let store = SqliteStore::open(path).unwrap();
    store.create_session(&session("s"), at(0)).unwrap();
    record(&store, turns);
}

/// Returns the files in a directory with their content.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap();
    entries
        .map(|entry| {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            (path, bytes)
        })
        .collect()
}

/// Checks that the file at `path` is rejected, and returns the error.
fn refused(path: &Path) -> StoreError {
    let why = SqliteStore::open(path).unwrap_err();
    let also = SqliteStore::open_read_only(path).unwrap_err();
    assert_eq!(why.to_string(), also.to_string());
    why
}

/// Checks that a file with these bytes is rejected with `message`. Neither the
/// file nor its directory may change.
fn is_not_a_store(bytes: &[u8], message: &str) {
    let (directory, path) = place();
    fs::write(&path, bytes).unwrap();
    let before = files(directory.path());
    match refused(&path) {
        StoreError::NotAStore { message: said, .. } => assert!(said.contains(message), "{said}"),
        other => panic!("{other}"),
    }
    assert!(files(directory.path()) == before, "something was changed");
}

/// Returns the bytes of a SQLite file that was created with `sql`.
fn made_with(sql: &str) -> Vec<u8> {
    let (_directory, path) = place();
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(sql).unwrap();
    drop(connection);
    fs::read(&path).unwrap()
}

#[test]
fn a_file_with_garbage_is_rejected() {
    for bytes in [
        b"# Notes\n\nBuy milk.\n".to_vec(),
        vec![0xA5; 100_000],
        b"SQLite format 2\0 and so on".to_vec(),
        vec![0; 5000],
    ] {
        is_not_a_store(&bytes, "is not a SQLite database");
    }
}

#[test]
fn a_database_of_another_program_is_rejected() {
    let table = "CREATE TABLE notes (text); INSERT INTO notes VALUES ('mine');";
    is_not_a_store(&made_with(table), "of another program");
    let logged = format!("PRAGMA journal_mode = WAL; {table}");
    is_not_a_store(&made_with(&logged), "of another program");
    let marked = format!("PRAGMA application_id = 12345; {table}");
    is_not_a_store(&made_with(&marked), "application id 0x00003039");
    let versioned = "PRAGMA user_version = 1; CREATE VIEW v AS SELECT 1;";
    is_not_a_store(&made_with(versioned), "of another program");
}

#[test]
fn a_newer_store_is_rejected() {
    let (directory, path) = place();
    filled(&path, 1);
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let before = fs::read(&path).unwrap();
    match refused(&path) {
        StoreError::Newer { found, known, .. } => assert_eq!((found, known), (99, 23)),
        other => panic!("{other}"),
    }
    assert!(fs::read(&path).unwrap() == before);
    drop(directory);
}

#[test]
fn a_truncated_file_is_reported_as_damaged() {
    let (_directory, path) = place();
    filled(&path, 50);
    let whole = fs::read(&path).unwrap();
    let lengths = [
        50,
        100,
        512,
        4096,
        whole.len() / 2,
        whole.len() - 4096,
        whole.len() - 1,
    ];
    for length in lengths {
        let (_directory, path) = place();
        fs::write(&path, &whole[..length]).unwrap();
        match refused(&path) {
            StoreError::NotAStore { message, .. } => {
                assert!(message.contains("damaged"), "{length}: {message}");
            }
            other => panic!("{length}: {other}"),
        }
        assert!(fs::read(&path).unwrap() == whole[..length], "left alone");
    }
}

#[test]
fn damage_inside_is_an_error_and_not_a_panic() {
    let (_directory, path) = place();
    filled(&path, 50);
    let whole = fs::read(&path).unwrap();
    let mut found = 0;
    for page in 0..whole.len() / 4096 {
        let (_directory, path) = place();
        let mut bytes = whole.clone();
        bytes[page * 4096 + 120..(page + 1) * 4096].fill(0xA5);
        fs::write(&path, &bytes).unwrap();
        let read = || -> Result<(), StoreError> {
            let store = SqliteStore::open(&path)?;
            let head = store.session("s")?.head.unwrap();
            let walked = store.walk(head, &EVERYTHING)?;
            let ids: Vec<_> = walked.iter().map(|head| head.id).collect();
            store.turns(&ids, "words")?;
            store.head_moves("s", 100)?;
            store.snapshots(None, 10)?;
            store.record("s", &turn("more"), None, None, at(2))?;
            Ok(())
        };
        match read() {
            Ok(()) => {}
            Err(StoreError::NotAStore { .. } | StoreError::NotFound { .. }) => found += 1,
            Err(other) => panic!("page {page}: {other:?}"),
        }
    }
    assert!(found > 10, "{found}");
}

/// A tree of 200 nodes, each following the one before it.
fn tree() -> TreeDocument {
    let mut document: TreeDocument = serde_json::from_str(
        r#"{"tree":{"id":"t","mode":"dialogue"},
            "agents":[{"id":"a","type":"model"}],"nodes":[],"edges":[]}"#,
    )
    .unwrap();
    for i in 0..200 {
        let text = "x".repeat(300);
        let node = format!(
            r#"{{"id":"node{i:03}","author":"model","author_agent_id":"a","content":"{text}"}}"#
        );
        document.nodes.push(serde_json::from_str(&node).unwrap());
        if i > 0 {
            let edge = format!(
                r#"{{"id":"e{i}","type":"continuation","sources":[{{"node_id":"node{:03}"}}],
                    "target_node_id":"node{i:03}"}}"#,
                i - 1
            );
            document.edges.push(serde_json::from_str(&edge).unwrap());
        }
    }
    document
}

#[test]
fn damage_inside_a_tree_is_an_error_and_not_a_panic() {
    let (_directory, path) = place();
    let whole = tree();
    let store = SqliteStore::open(&path).unwrap();
    store.import_tree(&whole, at(1)).unwrap();
    drop(store);
    let bytes = fs::read(&path).unwrap();
    let mut found = 0;
    for page in 0..bytes.len() / 4096 {
        let (_directory, path) = place();
        let mut bytes = bytes.clone();
        bytes[page * 4096 + 120..(page + 1) * 4096].fill(0xA5);
        fs::write(&path, &bytes).unwrap();
        let read = || -> Result<(), StoreError> {
            let store = SqliteStore::open(&path)?;
            store.tree("t")?;
            store.climb("t", "node199", 1000)?;
            store.arrivals("t", "node100")?;
            store.find_node("t", "node123")?;
            store.skeleton("t")?;
            store.export_tree("t")?;
            store.nodes("t", &["node000", "node150"], "words")?;
            let mut growth = Growth {
                nodes: vec![whole.nodes[0].clone()],
                edges: vec![whole.edges[0].clone()],
            };
            growth.nodes[0].id = "new".to_owned();
            growth.edges[0].id = "new".to_owned();
            growth.edges[0].target_node_id = "new".to_owned();
            store.grow("t", &growth, at(2))?;
            Ok(())
        };
        match read() {
            Ok(()) => {}
            Err(StoreError::NotAStore { .. } | StoreError::NotFound { .. }) => found += 1,
            Err(other) => panic!("page {page}: {other:?}"),
        }
    }
    assert!(found > 10, "{found}");
}

#[test]
fn a_directory_is_rejected() {
    let (_directory, path) = place();
    fs::create_dir(&path).unwrap();
    assert!(refused(&path).to_string().contains("is a directory"));
    #[cfg(unix)]
    assert!(
        refused(Path::new("/dev/null"))
            .to_string()
            .contains("is not a file")
    );
}

#[test]
fn a_new_store_is_private_to_its_owner() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a").join("b").join("store.db");
    let missing = SqliteStore::open_read_only(&path);
    assert!(matches!(missing.err(), Some(StoreError::NotFound { .. })));
    assert!(!directory.path().join("a").exists());
    filled(&path, 3);
    let store = SqliteStore::open(&path).unwrap();
    record(&store, 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory.path().join("a")), 0o700);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        for file in files(path.parent().unwrap()).into_keys() {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    }
    let in_a_file = path.join("store.db");
    assert!(SqliteStore::open(&in_a_file).is_err());
}

#[test]
fn an_empty_file_becomes_a_store() {
    let (_directory, path) = place();
    fs::write(&path, "").unwrap();
    let refused = SqliteStore::open_read_only(&path).err().unwrap();
    assert!(refused.to_string().contains("is empty"), "{refused}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    filled(&path, 2);
    // An empty database, as `sqlite3 store.db vacuum` creates it, is accepted,
    // too.
    fs::remove_file(&path).unwrap();
    fs::write(&path, made_with("VACUUM")).unwrap();
    filled(&path, 2);
    assert_eq!(check_store(&path).len(), 2);
}

#[test]
fn a_permanent_lock_is_an_error() {
    let (_directory, path) = place();
    filled(&path, 1);
    let options = Options {
        busy_timeout: Duration::from_millis(50),
        ..Options::default()
    };
    let store = SqliteStore::open_with(&path, options).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let locked = store.record("s", &turn("now?"), None, None, at(2));
    assert!(matches!(locked, Err(StoreError::Busy { .. })), "{locked:?}");
    assert_eq!(store.session("s").unwrap().turns, 1, "reading goes on");
    other.execute_batch("ROLLBACK").unwrap();
    store.record("s", &turn("now!"), None, None, at(2)).unwrap();
    // A process with an exclusive lock blocks readers, too.
    drop(store);
    other
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; COMMIT")
        .unwrap();
    let options = Options {
        busy_timeout: Duration::from_millis(50),
        ..Options::default()
    };
    let locked = SqliteStore::open_with(&path, options).err();
    assert!(
        matches!(locked, Some(StoreError::Busy { .. })),
        "{locked:?}"
    );
}

#[test]
fn a_temporary_lock_is_waited_for() {
    let (_directory, path) = place();
    filled(&path, 1);
    let store = SqliteStore::open(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::scope(|scope| {
        let recorded = scope.spawn(|| store.record("s", &turn("now?"), None, None, at(2)));
        std::thread::sleep(Duration::from_millis(200));
        other.execute_batch("ROLLBACK").unwrap();
        recorded.join().unwrap().unwrap();
    });
}

#[test]
fn writes_above_the_size_limit_are_rejected() {
    let (_directory, path) = place();
    filled(&path, 1);
    let options = Options {
        max_bytes: Some(1 << 20),
        ..Options::default()
    };
    let store = SqliteStore::open_with(&path, options).unwrap();
    // Several writers share a transaction, so that some of its requests fit and
    // others do not.
    let acknowledged: u64 = std::thread::scope(|scope| {
        let write = |writer: u64| {
            let store = &store;
            move || {
                (0..200)
                    .filter(|i| {
                        let length = if (writer + i).is_multiple_of(3) {
                            50_000
                        } else {
                            500
                        };
                        let turn = turn(&format!("{writer} {i} {}", "x".repeat(length)));
                        let recorded = store.record("s", &turn, Some(&counted(&turn)), None, at(2));
                        if let Err(refused) = &recorded {
                            let message = refused.to_string();
                            let is_full = message.contains("full") || message.contains("rolled");
                            assert!(is_full, "{message}");
                        }
                        recorded.is_ok()
                    })
                    .count() as u64
            }
        };
        let writers: Vec<_> = (0..8).map(|writer| scope.spawn(write(writer))).collect();
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .sum()
    });
    assert!(acknowledged > 10 && acknowledged < 1600, "{acknowledged}");
    assert_eq!(store.session("s").unwrap().turns, acknowledged + 1);
    drop(store);
    assert_eq!(check_store(&path).len() as u64, acknowledged + 1);
    // With a higher limit, writes succeed again.
    let store = SqliteStore::open(&path).unwrap();
    record(&store, 5);
    check_rows(&path);
}

#[test]
fn the_size_of_a_message_is_limited() {
    let (_directory, path) = place();
    let options = Options {
        max_message_bytes: 10,
        ..Options::default()
    };
    let store = SqliteStore::open_with(&path, options).unwrap();
    store.create_session(&session("s"), at(0)).unwrap();
    store
        .record("s", &turn("0123456789"), None, None, at(1))
        .unwrap();
    match store.record("s", &turn("0123456789A"), None, None, at(1)) {
        Err(StoreError::Invalid { field, message }) => {
            assert_eq!(field, "messages[0].content");
            assert!(message.contains("11 bytes; the limit is 10"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_a_store_is_the_store() {
    let (directory, path) = place();
    filled(&path, 2);
    let link = directory.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let (one, other) = (
        SqliteStore::open(&path).unwrap(),
        SqliteStore::open(&link).unwrap(),
    );
    record(&one, 2);
    record(&other, 2);
    assert_eq!(one.session("s").unwrap().turns, 6);
    drop((one, other));
    assert_eq!(check_store(&path).len(), 6);
}

#[test]
fn a_full_store_is_reported_and_can_still_be_read() {
    let (_directory, path) = place();
    filled(&path, 1);
    let limited = |max_bytes| {
        let options = Options {
            max_bytes,
            ..Options::default()
        };
        SqliteStore::open_with(&path, options).unwrap()
    };
    let store = limited(Some(1 << 20));
    store.ping().unwrap();
    let long = turn(&"x".repeat(10_000));
    let full = loop {
        if let Err(full) = store.record("s", &long, Some(&counted(&long)), None, at(2)) {
            break full;
        }
    };
    assert!(matches!(full, StoreError::Full { .. }), "{full:?}");
    assert!(!full.is_input());
    let turns = store.session("s").unwrap().turns;
    assert!(turns > 20, "{turns}");
    for _ in 0..2 {
        let ping = store.ping();
        assert!(matches!(ping, Err(StoreError::Full { .. })), "{ping:?}");
        assert_eq!(store.session("s").unwrap().turns, turns);
    }
    drop(store);
    let larger = limited(None);
    larger.ping().unwrap();
    larger
        .record("s", &long, Some(&counted(&long)), None, at(3))
        .unwrap();
    drop(larger);
    assert_eq!(check_store(&path).len() as u64, turns + 1);
}
