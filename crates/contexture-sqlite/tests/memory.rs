//! Tests of a memory that need a file: deleted data leaves no bytes, a change
//! that does not fit leaves no part, and several handles lose nothing.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use contexture_sqlite::{Options, SqliteStore};
use contexture_store::{
    Analysis, Change, ChunkRecord, Derived, EmbedderInfo, Forget, Link, Memories, Mention,
    NewRecord, NewTask, Record, RecordKey, RecordKind, StoreError, TaskStatus, Tasks,
};
use serde_json::json;
use support::{Random, at, check_rows};

fn analysis() -> Analysis {
    Analysis {
        words: 1,
        embedder: Some(embedder("m")),
    }
}

fn embedder(name: &str) -> EmbedderInfo {
    EmbedderInfo {
        name: name.to_owned(),
        dimensions: 4,
    }
}

fn mention(name: &str) -> Mention {
    Mention {
        entity_type: "person".to_owned(),
        name: name.to_owned(),
        key: name.to_lowercase(),
    }
}

/// An event with `word` in every field.
fn event(id: &str, word: &str, text: &str) -> NewRecord {
    let record = json!({
        "kind": "event", "id": format!("{word}-{id}"), "session_id": format!("{word} session"),
        "timestamp": 1_770_000_000_000_i64, "type": format!("{word} type"),
        "actor": format!("{word} actor"), "content": {"text": format!("{text} {word} {text}")},
        "summary": format!("{word} summary"), "keywords": [format!("{word} keyword")],
        "task_id": format!("{word} task"), "source": format!("{word} source"),
    });
    let names = [format!("{word} Name {id}"), format!("{word} Other")];
    NewRecord {
        record: serde_json::from_value(record).unwrap(),
        derived: Derived {
            words: Some(format!("{word} words {text}").into_bytes()),
            vector: Some(format!("{word} vector").into_bytes()),
            speaker: Some(format!("{word} speaker")),
            mentions: names.iter().map(|name| mention(name)).collect(),
            links: vec![Link {
                relation_type: format!("{word} relation"),
                from: 0,
                to: 1,
            }],
            ..Derived::default()
        },
    }
}

fn remember(store: &SqliteStore, records: &[NewRecord]) -> Vec<RecordKey> {
    let remembered = store.remember(records, &analysis(), at(0)).unwrap();
    remembered.iter().map(|it| it.key()).collect()
}

/// Returns the files of a store that contain a word, ignoring case.
fn files_with(path: &Path, word: &str) -> Vec<String> {
    let word = word.to_lowercase().into_bytes();
    let mut found = Vec::new();
    for file in fs::read_dir(path.parent().unwrap()).unwrap() {
        let file = file.unwrap();
        let bytes = fs::read(file.path()).unwrap().to_ascii_lowercase();
        if bytes.windows(word.len()).any(|window| window == word) {
            found.push(file.file_name().into_string().unwrap());
        }
    }
    found
}

fn place() -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    (directory, path)
}

#[test]
fn deleted_records_leave_no_bytes_in_the_files() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    remember(&store, &[event("1", "stays", "x")]);
    let keys = remember(
        &store,
        &[event("1", "canary", "x"), event("2", "canary", "y")],
    );
    // Other records refer to it, one of them only as evidence.
    let mut naming = event("3", "stays", "x");
    if let Record::Event(event) = &mut naming.record {
        event.parent_id = Some("canary-1".to_owned());
        event.supersedes = Some("canary-1".to_owned());
    }
    let relation = json!({"kind": "relation", "id": "r", "type": "x", "source_id": "a",
        "target_id": "b", "evidence": ["canary-1", "stays-1"]});
    let relation = NewRecord {
        record: serde_json::from_value(relation).unwrap(),
        derived: Derived::default(),
    };
    remember(&store, &[naming, relation]);
    // An earlier version of the text, and vectors of another embedder.
    remember(
        &store,
        &[event("1", "canary", "before, it said something else")],
    );
    let vectors = [(keys[0], b"canary next".to_vec())];
    store.put_vectors(&embedder("next"), &vectors).unwrap();
    store.archive(&keys[1..]).unwrap();
    assert!(!files_with(&path, "canary").is_empty());

    let what = Forget::Session("canary session".to_owned());
    let done = store.forget(&what).unwrap();
    assert!(!done.pending);
    let gone = done.forgotten;
    let expected = [
        (RecordKind::Event, 2),
        (RecordKind::Entity, 3),
        (RecordKind::Relation, 2),
    ];
    assert_eq!(gone, BTreeMap::from(expected));
    // Checked while the store is open, and after it is closed.
    assert_eq!(files_with(&path, "canary"), Vec::<String>::new());
    assert!(!files_with(&path, "stays").is_empty());
    drop(store);
    assert_eq!(files_with(&path, "canary"), Vec::<String>::new());
    check_rows(&path);
}

#[test]
fn deleted_entities_and_tasks_leave_no_bytes_in_the_files() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let kinds = [
        json!({"kind": "entity", "id": "canary e", "type": "canary type", "name": "canary",
            "aliases": ["canary alias"], "properties": {"canary": "canary"}}),
        json!({"kind": "relation", "id": "canary r", "type": "canary", "source_id": "canary e",
            "target_id": "canary e", "evidence": ["canary"]}),
        json!({"kind": "pattern", "id": "canary p", "name": "canary", "procedure": "canary",
            "scope": "canary", "conditions": [{"type": "custom", "value": "canary"}]}),
        json!({"kind": "chunk", "id": "canary c", "source": "canary", "text": "canary"}),
    ];
    for record in kinds {
        let record: Record = serde_json::from_value(record).unwrap();
        let id = record.id().to_owned();
        let names = match &record {
            Record::Entity(_) => vec!["canary".to_owned(), "canary alias".to_owned()],
            _ => Vec::new(),
        };
        let derived = Derived {
            names,
            ..Derived::default()
        };
        remember(&store, &[NewRecord { record, derived }]);
        assert!(!files_with(&path, "canary").is_empty());
        let kind = None;
        store.forget(&Forget::Id { kind, id }).unwrap();
        assert_eq!(files_with(&path, "canary"), Vec::<String>::new());
    }
    let task = NewTask {
        id: Some("canary".to_owned()),
        goal: "canary".to_owned(),
        parent_id: None,
    };
    store.push_task("canary", &task, at(0)).unwrap();
    let done = TaskStatus::Complete;
    (store.finish_task("canary", None, done, Some("canary"), at(0))).unwrap();
    let what = Forget::Id {
        kind: Some(RecordKind::Task),
        id: "canary".to_owned(),
    };
    store.forget(&what).unwrap();
    assert_eq!(files_with(&path, "canary"), Vec::<String>::new());
}

/// Pages are split, joined and freed on the way, so that copies of a row can be
/// in several pages.
#[test]
fn deleted_records_leave_no_bytes_in_a_large_store() {
    for (seed, most) in [(1, 50), (2, 400), (3, 3000), (4, 12_000)] {
        let (_directory, path) = place();
        let store = SqliteStore::open(&path).unwrap();
        let mut random = Random(seed * 0x9e37_79b9);
        for _ in 0..15 {
            let new: Vec<NewRecord> = (0..60)
                .map(|_| {
                    let word = ["canary", "stays"][random.below(2) as usize];
                    let id = format!("{:016x}", random.below(u64::MAX));
                    let text = "x".repeat(random.below(most) as usize);
                    event(&id, word, &text)
                })
                .collect();
            remember(&store, &new);
            // Some records are replaced, some are archived.
            let mut again = new;
            again.retain(|_| random.below(4) == 0);
            for new in &mut again {
                if let Record::Event(event) = &mut new.record {
                    event.summary = Some("y".repeat(random.below(most) as usize));
                }
            }
            let keys = remember(&store, &again);
            store.archive(&keys[..keys.len() / 3]).unwrap();
        }
        store
            .forget(&Forget::Source("canary source".to_owned()))
            .unwrap();
        assert_eq!(files_with(&path, "canary"), Vec::<String>::new(), "{most}");
        drop(store);
        check_rows(&path);
        assert_eq!(files_with(&path, "canary"), Vec::<String>::new(), "{most}");
    }
}

#[test]
fn deleted_bytes_are_removed_after_open_reads_end() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    remember(&store, &[event("1", "canary", "x")]);
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let count = "SELECT count(*) FROM memories";
    let _: i64 = reader.query_row(count, [], |row| row.get(0)).unwrap();
    let what = Forget::Session("canary session".to_owned());
    assert!(store.forget(&what).unwrap().pending);
    assert!(!files_with(&path, "canary").is_empty());
    reader.execute_batch("COMMIT").unwrap();
    // The next write of any kind cleans the file.
    remember(&store, &[event("1", "stays", "x")]);
    assert_eq!(files_with(&path, "canary"), Vec::<String>::new());
}

/// Waits until the files no longer contain a word.
fn wait_until_gone(path: &Path, word: &str) {
    for _ in 0..600 {
        if files_with(path, word).is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("{word} is still in {:?}", files_with(path, word));
}

#[test]
fn deleted_bytes_are_removed_after_a_restart() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    remember(
        &store,
        &[event("1", "canary", "x"), event("2", "stays", "x")],
    );
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let count = "SELECT count(*) FROM memories";
    let _: i64 = reader.query_row(count, [], |row| row.get(0)).unwrap();
    let what = Forget::Session("canary session".to_owned());
    assert!(store.forget(&what).unwrap().pending);
    drop(store);
    assert!(!files_with(&path, "canary").is_empty());
    // No further write happens. The file is cleaned as soon as the other reader
    // has finished.
    let store = SqliteStore::open(&path).unwrap();
    assert!(!files_with(&path, "canary").is_empty());
    reader.execute_batch("COMMIT").unwrap();
    wait_until_gone(&path, "canary");
    drop(store);
    let connection = rusqlite::Connection::open(&path).unwrap();
    let marks = "SELECT count(*) FROM unclean_files";
    let marks: i64 = connection.query_row(marks, [], |row| row.get(0)).unwrap();
    assert_eq!(marks, 0);
}

#[test]
fn a_refused_deletion_changes_nothing() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let many: Vec<NewRecord> = (0..200)
        .map(|i| event(&format!("{i}"), "stays", "some text"))
        .collect();
    remember(&store, &many);
    let state = || -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<_> = fs::read_dir(path.parent().unwrap())
            .unwrap()
            .map(|file| file.unwrap().path())
            .filter(|file| !file.to_string_lossy().ends_with("-shm"))
            .map(|file| (file.display().to_string(), fs::read(&file).unwrap()))
            .collect();
        files.sort();
        files
    };
    let before = state();
    let kind = None;
    let id = "nothing-has-this-id".to_owned();
    for what in [
        Forget::Id { kind, id },
        Forget::Session("nothing".to_owned()),
        Forget::Source("nothing".to_owned()),
    ] {
        let refused = store.forget(&what).unwrap_err();
        assert!(matches!(refused, StoreError::NotFound { .. }), "{refused}");
    }
    // No file was rewritten, emptied or overwritten.
    assert!(state() == before);
}

/// Pages in the writer's cache could restore overwritten data.
#[test]
fn later_writes_do_not_bring_deleted_bytes_back() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let mut random = Random(7);
    let mut text = move || "x".repeat(random.below(1500) as usize);
    for round in 0..6 {
        let word = format!("canary{round}");
        let new: Vec<NewRecord> = (0..150)
            .map(|i| {
                let word = ["stays", word.as_str()][i % 2];
                event(&format!("{:03}-{round}", i * 7 % 150), word, &text())
            })
            .collect();
        remember(&store, &new);
        let what = Forget::Session(format!("{word} session"));
        let size = fs::metadata(&path).unwrap().len();
        assert!(!store.forget(&what).unwrap().pending);
        // The file is cleaned in place: the log was emptied into it, and it did
        // not shrink.
        assert!(fs::metadata(&path).unwrap().len() >= size);
        for i in 0..40 {
            remember(
                &store,
                &[event(&format!("{i:03}-{round}"), "stays", &text())],
            );
        }
        assert_eq!(files_with(&path, "canary"), Vec::<String>::new());
    }
    drop(store);
    check_rows(&path);
}

#[test]
fn too_many_records_are_rejected_as_a_whole() {
    let (_directory, path) = place();
    let options = Options {
        max_bytes: Some(1 << 20),
        max_message_bytes: 20_000,
        ..Options::default()
    };
    let store = SqliteStore::open_with(&path, options).unwrap();
    let mut kept = 0;
    let full = loop {
        let new: Vec<NewRecord> = (0..20)
            .map(|i| event(&format!("{kept}-{i}"), "word", &"x".repeat(1000)))
            .collect();
        match store.remember(&new, &analysis(), at(0)) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(kept > 3, "{kept}");
    assert!(matches!(full, StoreError::Full { .. }), "{full}");
    assert!(full.to_string().contains("full"), "{full}");
    let events = || store.memory_stats().unwrap().kinds[&RecordKind::Event].live;
    assert_eq!(events(), kept * 20);
    let changes = store.changes(0, usize::MAX).unwrap();
    assert_eq!(
        changes.last().unwrap().seq,
        store.memory_state().unwrap().seq
    );
    check_rows(&path);
    // A deletion needs no disk space, and frees some.
    let what = Forget::Session("word session".to_owned());
    store.forget(&what).unwrap();
    remember(&store, &[event("1", "word", "x")]);
    assert_eq!(events(), 1);

    let large = [
        event("1", "word", "x"),
        event("2", "word", &"x".repeat(10_000)),
    ];
    let refused = store.remember(&large, &analysis(), at(0)).unwrap_err();
    let said = refused.to_string();
    assert!(said.starts_with("records[1].content: is "), "{said}");
    assert!(said.contains("the limit is 20000"), "{said}");
    let chunk = ChunkRecord {
        id: "c".to_owned(),
        source: "s".to_owned(),
        text: "x".repeat(30_000),
        index: 0,
        timestamp: None,
        session_id: None,
        embedding: None,
        valid_from: None,
        valid_to: None,
        supersedes: None,
        visible_to: Vec::new(),
        user: None,
        agent: None,
        task_id: None,
    };
    let large = NewRecord {
        record: Record::Chunk(chunk),
        derived: Derived::default(),
    };
    let refused = store.remember(&[large], &analysis(), at(0)).unwrap_err();
    assert!(refused.to_string().starts_with("records[0].text: is "));
}

#[test]
fn stores_on_one_file_see_every_change() {
    const EACH: usize = 150;
    let (_directory, path) = place();
    let open = || SqliteStore::open(&path).unwrap();
    let (writers, reader) = ([open(), open()], open());
    let done = AtomicUsize::new(0);
    let mut seen: BTreeMap<RecordKey, Change> = BTreeMap::new();
    std::thread::scope(|scope| {
        for (w, writer) in writers.iter().enumerate() {
            let done = &done;
            scope.spawn(move || {
                for i in 0..EACH {
                    let own = event(&format!("{w}-{i}"), "own", "x");
                    let both = event("both", "shared", &format!("{w} {i}"));
                    remember(writer, &[own, both]);
                    if i % 10 == 9 {
                        let id = format!("own-{w}-{}", i - 5);
                        writer.forget(&Forget::Id { kind: None, id }).unwrap();
                    }
                }
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        let mut after = 0;
        loop {
            let last = done.load(Ordering::SeqCst) == 2;
            let changes = reader.changes(after, 50).unwrap();
            if changes.is_empty() && last {
                break;
            }
            for change in changes {
                assert!(change.seq > after, "{} after {after}", change.seq);
                after = change.seq;
                seen.insert(change.key, change);
            }
        }
    });
    let kept: Vec<&Change> = (seen.values())
        .filter(|change| change.sketch.is_some())
        .collect();
    let mut all = reader.changes(0, usize::MAX).unwrap();
    all.retain(|change| change.sketch.is_some());
    all.sort_by_key(|change| change.key);
    assert_eq!(kept, all.iter().collect::<Vec<_>>());
    let stats = reader.memory_stats().unwrap();
    let events = 2 * (EACH - EACH / 10) as u64 + 1;
    assert_eq!(stats.kinds[&RecordKind::Event].live, events);
    check_rows(&path);
}
