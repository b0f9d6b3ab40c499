//! Deletion, collection, verification and backups.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use contexture_core::ContentHash;
use contexture_sqlite::{Options, SqliteStore};
use contexture_store::{
    Analysis, Blob, Call, Derived, Events, Forget, Handle, HandlePrefix, Ledger, MAX_EVENTS,
    Memories, NewRecord, NewSession, NewTask, PendingSnapshot, Record, Retention, Snapshot,
    Snapshots, StoreError, TaskStatus, Tasks, Tenants, Trees, Upkeep,
};
use rusqlite::Connection;
use support::{
    COUNTER, Random, at, check_rows, counted, path as turns_of, session, turn, turn_with_result,
};

fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    (directory, path)
}

fn has(path: &Path, word: &str) -> bool {
    let files = fs::read_dir(path.parent().unwrap()).unwrap();
    files.map(|file| file.unwrap().path()).any(|file| {
        let bytes = fs::read(file).unwrap_or_default();
        bytes.windows(word.len()).any(|it| it == word.as_bytes())
    })
}

fn talk(store: &SqliteStore, label: &str, word: &str, turns: i64) {
    for i in 0..turns {
        let said = turn(&format!("{word} {i}"));
        let counts = counted(&said);
        store
            .record(label, &said, Some(&counts), None, at(i))
            .unwrap();
    }
}

fn snapshot(session: &str, hash: ContentHash) -> Snapshot {
    Snapshot {
        hash,
        session: session.to_owned(),
        parent_turn: None,
        model: "m".to_owned(),
        tokens: 1,
        counter: COUNTER.to_owned(),
        root: hash,
        created_at: at(1),
    }
}

fn import(store: &SqliteStore, id: &str, word: &str, nodes: usize) {
    let edges: Vec<String> = (1..nodes)
        .map(|i| {
            format!(
                r#"{{"id":"{id}e{i}","type":"continuation","target_node_id":"{id}n{i}",
                "sources":[{{"node_id":"{id}n{}","role":"primary"}}]}}"#,
                i - 1
            )
        })
        .collect();
    let nodes: Vec<String> = (0..nodes)
        .map(|i| format!(r#"{{"id":"{id}n{i}","author":"human","content":"{word} node {i}"}}"#))
        .collect();
    let json = format!(
        r#"{{"tree":{{"id":"{id}","mode":"dialogue","title":"{word}"}},
        "agents":[{{"id":"a","type":"model","system_prompt":"{word}"}}],
        "nodes":[{}],"edges":[{}]}}"#,
        nodes.join(","),
        edges.join(",")
    );
    let document = serde_json::from_str(&json).unwrap();
    store.import_tree(&document, at(2)).unwrap();
}

fn remember(store: &SqliteStore, word: &str, records: usize) {
    let records: Vec<NewRecord> = (0..records)
        .map(|i| {
            let event = serde_json::json!({"kind": "event", "id": format!("{word}{i}"),
                "session_id": "s", "timestamp": 1_770_000_000_000_i64, "type": "note",
                "actor": "user", "content": {"text": format!("{word} remembers {i}")}});
            NewRecord {
                record: serde_json::from_value(event).unwrap(),
                derived: Derived::default(),
            }
        })
        .collect();
    let analysis = Analysis {
        words: 1,
        embedder: None,
    };
    store.remember(&records, &analysis, at(3)).unwrap();
}

/// Saves a request with `content`, as the engine does: a list of hashes, and
/// the content itself.
fn save(store: &SqliteStore, session: &str, content: &[&str], second: i64) -> ContentHash {
    let mut blobs: Vec<Blob> = content
        .iter()
        .map(|text| Blob {
            hash: ContentHash::of(text.as_bytes()),
            bytes: text.as_bytes().to_vec(),
        })
        .collect();
    let list: Vec<String> = blobs.iter().map(|blob| blob.hash.to_string()).collect();
    let root = format!("{second} {}", serde_json::json!({"chunks": list})).into_bytes();
    let root = Blob {
        hash: ContentHash::of(&root),
        bytes: root,
    };
    let snapshot = Snapshot {
        hash: root.hash,
        session: session.to_owned(),
        parent_turn: None,
        model: "m".to_owned(),
        tokens: 1,
        counter: COUNTER.to_owned(),
        root: root.hash,
        created_at: at(second),
    };
    blobs.push(root);
    store.put_snapshot(&snapshot, &blobs).unwrap();
    snapshot.hash
}

#[test]
fn a_deleted_session_leaves_nothing_but_what_forks_share() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    store.create_session(&session("main"), at(0)).unwrap();
    talk(&store, "main", "shared", 5);
    let shared = store.session("main").unwrap().head.unwrap();
    let fork = NewSession {
        label: "fork".to_owned(),
        head: Some(shared),
        parent_session: Some("main".to_owned()),
        ..NewSession::default()
    };
    store.create_session(&fork, at(1)).unwrap();
    talk(&store, "fork", "stays", 3);
    talk(&store, "main", "canary", 30);
    let result = "canary result ".repeat(50);
    store
        .record("main", &turn_with_result(&result), None, None, at(9))
        .unwrap();
    let same = "the same result ".repeat(50);
    for label in ["main", "fork"] {
        store
            .record(label, &turn_with_result(&same), None, None, at(9))
            .unwrap();
    }
    save(&store, "main", &["canary request", "both"], 1);
    save(&store, "fork", &["stays request", "both"], 1);
    store.create_session(&session("third"), at(1)).unwrap();
    talk(&store, "third", "stays", 2);

    let deleted = store.delete_session("main").unwrap();
    assert!(!deleted.pending);
    assert_eq!(deleted.deleted["turns"], 32);
    assert_eq!(deleted.deleted["sessions"], 1);
    assert_eq!(deleted.deleted["snapshots"], 1);
    assert!(!has(&path, "canary"));
    assert!(has(&path, "shared") && has(&path, "stays request"));
    assert!(matches!(
        store.session("main"),
        Err(StoreError::NotFound { .. })
    ));
    // The fork is complete, with its shared turns, and its hashes match.
    let fork = store.session("fork").unwrap();
    assert_eq!((fork.turns, fork.parent_session), (9, None));
    let ids: Vec<_> = turns_of(&store, fork.head.unwrap())
        .iter()
        .map(|head| head.id)
        .collect();
    assert_eq!(store.turns(&ids, COUNTER).unwrap().len(), 9);
    // A result that both had is still found.
    let found = store.tool_result(&HandlePrefix::from(Handle::of(&same)));
    assert_eq!(found.unwrap().text, same);
    assert_eq!(store.verify().unwrap().damaged, []);
    // The label is free, and the fork can be deleted, too.
    store.create_session(&session("main"), at(5)).unwrap();
    store.delete_session("fork").unwrap();
    assert!(!has(&path, "shared"));
    let usage = store.usage().unwrap();
    assert_eq!((usage.sessions, usage.turns, usage.snapshots), (2, 2, 0));
    drop(store);
    check_rows(&path);
}

#[test]
fn turns_that_are_deleted_in_steps_are_those_of_one_deletion() {
    for most in [1, 3, 1_000] {
        let (_directory, path) = place();
        let store = SqliteStore::open(&path).unwrap();
        store.create_session(&session("main"), at(0)).unwrap();
        talk(&store, "main", "canary", 20);
        let result = "canary result ".repeat(50);
        store
            .record("main", &turn_with_result(&result), None, None, at(9))
            .unwrap();
        talk(&store, "main", "stays", 5);
        for i in 0..5 {
            let own = format!("canary request {i}");
            save(&store, "main", &[&own, "both"], i);
        }
        let head = store.session("main").unwrap().head.unwrap();
        let turns = turns_of(&store, head);
        let first = turns[4].id;
        let deleted = store
            .delete_turns_in_steps("main", first, most, usize::MAX)
            .unwrap();
        assert!(!deleted.pending);
        assert_eq!(deleted.deleted["turns"], 21);
        assert_eq!(deleted.deleted["snapshots"], 5);
        assert!(!has(&path, "canary") && has(&path, "stays 0"));
        assert_eq!(turns_of(&store, head).len(), 5);
        assert_eq!(store.verify().unwrap().damaged, []);
        drop(store);
        check_rows(&path);
    }
}

/// Fills a store with a session, a tree and records that are deleted, and others.
fn with_canaries(path: &Path) -> SqliteStore {
    let store = SqliteStore::open(path).unwrap();
    store.create_session(&session("main"), at(0)).unwrap();
    talk(&store, "main", "shared", 2);
    let fork = NewSession {
        label: "fork".to_owned(),
        head: store.session("main").unwrap().head,
        parent_session: Some("main".to_owned()),
        ..NewSession::default()
    };
    store.create_session(&fork, at(1)).unwrap();
    talk(&store, "main", "canary", 4);
    let result = "canary result ".repeat(50);
    store
        .record("main", &turn_with_result(&result), None, None, at(9))
        .unwrap();
    save(&store, "main", &["canary request", "both"], 1);
    save(&store, "fork", &["stays request", "both"], 2);
    import(&store, "canary-tree", "canary", 5);
    import(&store, "tree", "stays", 5);
    remember(&store, "canary", 5);
    store
}

/// A process that stops between two steps leaves a valid store, and the next process
/// deletes the rest.
#[test]
fn an_interrupted_deletion_ends_when_the_store_is_opened() {
    let records = Forget::Session("s".to_owned());
    for steps in 0.. {
        let (_directory, path) = place();
        let store = with_canaries(&path);
        let pending = [
            store.delete_session_in_steps("main", 2, steps).unwrap(),
            store.delete_tree_in_steps("canary-tree", 2, steps).unwrap(),
            store.forget_in_steps(&records, 2, steps).unwrap(),
        ];
        let pending = pending.iter().filter(|it| it.pending).count() as u64;
        let counted = |store: &SqliteStore| {
            let checked = store.verify().unwrap();
            assert_eq!(checked.damaged, []);
            let listed = checked.checked.get("pending_deletions").copied();
            assert_eq!(
                store.stats().unwrap().pending_deletions,
                Some(listed.unwrap_or(0))
            );
            assert_eq!(store.usage().unwrap().pending, listed.is_some());
            listed.unwrap_or(0)
        };
        assert_eq!(counted(&store), pending);
        drop(store);
        check_rows(&path);
        // A store that cannot be written shows what is left as pending.
        let reader = SqliteStore::open_read_only(&path).unwrap();
        assert_eq!(counted(&reader), pending);
        assert!(matches!(
            reader.session("main"),
            Err(StoreError::NotFound { .. })
        ));
        assert!(matches!(
            reader.tree("canary-tree"),
            Err(StoreError::NotFound { .. })
        ));
        assert_eq!(reader.session("fork").unwrap().turns, 2);
        drop(reader);
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(counted(&store), 0);
        assert!(!has(&path, "canary"), "{steps}");
        assert!(has(&path, "shared 1") && has(&path, "stays request"));
        assert_eq!(store.tree("tree").unwrap().nodes, 5);
        let usage = store.usage().unwrap();
        assert_eq!((usage.sessions, usage.turns, usage.records), (1, 2, 0));
        drop(store);
        check_rows(&path);
        if pending == 0 {
            assert!(steps > 10, "{steps}");
            return;
        }
    }
}

/// The deletion of another tenant is continued by the call that a server uses.
#[test]
fn an_interrupted_deletion_of_a_tenant_is_continued() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let tenant = store.for_tenant("acme");
    tenant.create_session(&session("main"), at(0)).unwrap();
    talk(&tenant, "main", "canary", 4);
    assert!(
        tenant
            .delete_session_in_steps("main", 1, 2)
            .unwrap()
            .pending
    );
    drop((store, tenant));
    let store = SqliteStore::open(&path).unwrap();
    let tenant = store.for_tenant("acme");
    assert!(tenant.has_deleted_text().unwrap());
    assert_eq!(store.stats().unwrap().pending_deletions, Some(1));
    assert_eq!(tenant.continue_deletions().unwrap(), 0);
    assert!(!tenant.has_deleted_text().unwrap());
    assert_eq!(store.stats().unwrap().pending_deletions, Some(0));
}

#[test]
fn a_turn_and_its_request_are_one_commit() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    store.create_session(&session("main"), at(0)).unwrap();
    let commits = || {
        let db = Connection::open(&path).unwrap();
        let count = "SELECT number FROM commits";
        db.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let before = commits();
    Call::default().run(|| {
        let found = store.session("main").unwrap();
        let kept = store.record_with_request(&found, &turn("one"), None, None, at(1));
        let recorded = kept.unwrap().unwrap();
        assert_eq!(commits(), before);
        let hash = ContentHash::of(b"root");
        let (report, reported) = mpsc::channel();
        store.put_snapshot_later(PendingSnapshot {
            snapshot: Snapshot {
                parent_turn: Some(recorded.id),
                ..snapshot("main", hash)
            },
            blobs: Vec::new(),
            report: None,
            builds_on: None,
            made_of: Some(vec![recorded.id]),
            done: Box::new(move |saved| drop(report.send(saved))),
        });
        reported.recv().unwrap().unwrap();
        assert!(store.finish_turn(recorded.id));
    });
    assert_eq!(commits(), before + 1);
    assert_eq!(store.session("main").unwrap().turns, 1);
    assert_eq!(store.snapshots(Some("main"), 9).unwrap().len(), 1);
}

#[test]
fn a_callback_can_be_the_last_owner_of_a_store() {
    let (_directory, path) = place();
    let store = Arc::new(SqliteStore::open(&path).unwrap());
    let hash = ContentHash::of(b"root");
    let (inside, (dropped, wait), (report, reported)) =
        (Arc::clone(&store), mpsc::channel(), mpsc::channel());
    store.put_snapshot_later(PendingSnapshot {
        snapshot: snapshot("s", hash),
        blobs: Vec::new(),
        report: None,
        builds_on: None,
        made_of: None,
        done: Box::new(move |_| {
            let _ = wait.recv();
            let closed = catch_unwind(AssertUnwindSafe(|| drop(inside)));
            let _ = report.send(closed.is_ok());
        }),
    });
    drop(store);
    dropped.send(()).unwrap();
    assert!(reported.recv().unwrap());
}

#[test]
fn a_deleted_tree_leaves_nothing() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    import(&store, "t1", "canary", 40);
    import(&store, "t2", "stays", 3);
    let deleted = store.delete_tree("t1").unwrap();
    assert_eq!(deleted.deleted["nodes"], 40);
    assert_eq!(deleted.deleted["edges"], 39);
    assert!(!has(&path, "canary"));
    assert_eq!(store.tree("t2").unwrap().nodes, 3);
    assert!(matches!(
        store.delete_tree("t1"),
        Err(StoreError::NotFound { .. })
    ));
    // Its ids can be used again.
    import(&store, "t1", "again", 2);
    assert_eq!(store.verify().unwrap().damaged, []);
    assert_eq!(store.usage().unwrap().nodes, 5);
    drop(store);
    check_rows(&path);
}

#[test]
fn only_what_nothing_refers_to_is_collected() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let common = "in all of them";
    for second in 0..10 {
        let own = format!("canary {second}");
        save(&store, "s", &[common, &own], second * 86_400);
    }
    save(&store, "other", &[common, "old, but the latest"], 0);
    let count = || store.usage().unwrap().snapshots;
    let nothing = store.collect(&Retention::default(), false).unwrap();
    assert_eq!(nothing.deleted.len(), 0);
    let retention = Retention {
        before: Some(at(5 * 86_400)),
        ..Retention::default()
    };
    let would = store.collect(&retention, true).unwrap();
    assert_eq!((would.deleted["snapshots"], count()), (5, 11));
    let did = store.collect(&retention, false).unwrap();
    assert_eq!((did.deleted, count()), (would.deleted, 6));
    let few = Retention {
        per_session: Some(2),
        ..Retention::default()
    };
    assert_eq!(store.collect(&few, false).unwrap().deleted["snapshots"], 3);
    assert!(!has(&path, "canary 7") && has(&path, "canary 9"));
    // The remaining snapshots are complete.
    for kept in store.snapshots(None, 100).unwrap() {
        let root = store.blobs(&[kept.root]).unwrap().remove(0).unwrap();
        let root = String::from_utf8(root).unwrap();
        let (_, list) = root.split_once(' ').unwrap();
        let list: serde_json::Value = serde_json::from_str(list).unwrap();
        for hash in list["chunks"].as_array().unwrap() {
            let hash = ContentHash::from_hex(hash.as_str().unwrap()).unwrap();
            assert!(store.blobs(&[hash]).unwrap()[0].is_some());
        }
    }
    assert_eq!(store.verify().unwrap().damaged, []);
}

#[test]
fn old_memories_and_finished_tasks_are_collected() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    remember(&store, "canary", 5);
    let push = |id: &str, second: i64| {
        let new = serde_json::json!({"id": id, "goal": format!("The goal of {id}")});
        let new: NewTask = serde_json::from_value(new).unwrap();
        store.push_task("main", &new, at(second)).unwrap();
    };
    let finish = |id: &str, second: i64| {
        let done = TaskStatus::Complete;
        let finished = store.finish_task("main", Some(id), done, None, at(second));
        finished.unwrap();
    };
    // One task was finished long ago with its subtask; another has a subtask
    // that was finished late.
    for (id, second) in [("old", 0), ("old-part", 1)] {
        push(id, second);
    }
    finish("old-part", 2);
    finish("old", 3);
    push("late", 4);
    push("early-part", 5);
    finish("early-part", 6);
    push("late-part", 7);
    finish("late-part", 100);
    finish("late", 101);
    push("open", 102);
    let tasks = || {
        let mut ids: Vec<String> = store
            .tasks("main")
            .unwrap()
            .into_iter()
            .map(|it| it.id)
            .collect();
        ids.sort();
        ids
    };
    let retention = Retention {
        memories_before: Some(at(0)),
        tasks_before: Some(at(50)),
        ..Retention::default()
    };
    let would = store.collect(&retention, true).unwrap();
    assert_eq!(would.deleted.get("tasks"), Some(&3));
    assert_eq!(tasks().len(), 6);
    let did = store.collect(&retention, false).unwrap();
    assert_eq!(did.deleted, would.deleted);
    assert_eq!(tasks(), ["late", "late-part", "open"]);
    assert!(!has(&path, "early-part"));
    // All records have the time of second 0.
    assert_eq!(store.usage().unwrap().records, 5);
    let retention = Retention {
        memories_before: Some(at(1)),
        ..Retention::default()
    };
    let would = store.collect(&retention, true).unwrap();
    assert_eq!(would.deleted.get("records"), Some(&5));
    let did = store.collect(&retention, false).unwrap();
    assert_eq!(did.deleted, would.deleted);
    assert_eq!(store.usage().unwrap().records, 0);
    assert!(!has(&path, "canary remembers"));
    assert_eq!(store.verify().unwrap().damaged, []);
}

/// Returns content that must be returned as stored, or not at all.
fn contents(store: &SqliteStore) -> Result<String, StoreError> {
    let session = store.session("s")?;
    let path = store.walk(
        session.head.ok_or(StoreError::Withdrawn)?,
        &support::EVERYTHING,
    )?;
    let ids: Vec<_> = path.iter().map(|head| head.id).collect();
    let turns = store.turns(&ids, COUNTER)?;
    let said: Vec<_> = turns
        .iter()
        .map(|turn| (turn.id, turn.parent, &turn.turn.messages))
        .collect();
    let tree = store.export_tree("t")?;
    let nodes: Vec<_> = tree
        .nodes
        .iter()
        .map(|node| (&node.id, &node.content))
        .collect();
    let ids: Vec<&str> = tree.nodes.iter().map(|node| &*node.id).collect();
    let by_id = store.nodes("t", &ids, COUNTER)?;
    let by_id: Vec<_> = by_id.iter().map(|it| &it.node.content).collect();
    let changes = store.changes(0, 1000)?;
    let keys: Vec<_> = changes.iter().map(|change| change.key).collect();
    let records: Vec<Option<Record>> = store.records(&keys)?;
    Ok(format!(
        "{} {said:?} {nodes:?} {by_id:?} {records:?}",
        session.turns
    ))
}

/// Flips bytes of a store at rest. All content that is returned must equal the
/// stored content.
#[test]
fn damaged_content_is_never_returned() {
    let (directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    store.create_session(&session("s"), at(0)).unwrap();
    talk(&store, "s", "a sentence that is said", 60);
    import(&store, "t", "a sentence of a tree", 60);
    remember(&store, "a sentence that", 60);
    let truth = contents(&store).unwrap();
    drop(store);
    let whole = fs::read(&path).unwrap();
    let mut random = Random(0x5eed);
    let (mut told, mut unharmed, mut silent) = (0, 0, Vec::new());
    let damaged = directory.path().join("damaged.db");
    for _ in 0..support::rounds(250) {
        let mut bytes = whole.clone();
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        fs::write(&damaged, &bytes).unwrap();
        for beside in ["-wal", "-shm", "-seal"] {
            let _ = fs::remove_file(directory.path().join(format!("damaged.db{beside}")));
        }
        let read = SqliteStore::open(&damaged).and_then(|store| contents(&store));
        match read {
            Err(_) => told += 1,
            Ok(read) if read == truth => unharmed += 1,
            Ok(read) => {
                let differs = read.bytes().zip(truth.bytes()).position(|(a, b)| a != b);
                let around = differs.unwrap_or(0).saturating_sub(60);
                silent.push(format!(
                    "byte {at} changed, and nobody noticed: {} instead of {}",
                    read.chars().skip(around).take(160).collect::<String>(),
                    truth.chars().skip(around).take(160).collect::<String>(),
                ));
            }
        }
    }
    let number = silent.len();
    println!("{told} flips were noticed, {unharmed} changed nothing, {number} were silent");
    assert!(silent.is_empty(), "{}", silent.join("\n"));
    assert!(told > 20 && unharmed > 20, "{told} {unharmed}");
}

/// An index row that leads to another record, or a record without its content,
/// is reported as damage.
#[test]
fn a_record_is_not_confused_with_another() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    remember(&store, "noted", 60);
    let keys: Vec<_> = (store.changes(0, 1000).unwrap().iter())
        .map(|change| change.key)
        .collect();
    drop(store);
    let whole = fs::read(&path).unwrap();
    let db = Connection::open(&path).unwrap();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'changes_of_memory'";
    let root: u32 = db.query_row(root, [], |row| row.get(0)).unwrap();
    drop(db);
    // The index is one page. A row ends with the key of its record.
    let page = (root as usize - 1) * 4096;
    assert_eq!(whole[page], 10);
    let number = |at: usize| usize::from(u16::from_be_bytes([whole[at], whole[at + 1]]));
    let ends: Vec<usize> = (0..number(page + 3))
        .map(|row| page + number(page + 8 + 2 * row))
        .map(|cell| cell + usize::from(whole[cell]))
        .collect();
    assert_eq!(ends.len(), 60);
    let mut damaged = whole.clone();
    assert_ne!(damaged[ends[18]], damaged[ends[5]]);
    damaged[ends[18]] = damaged[ends[5]];
    fs::write(&path, &damaged).unwrap();
    let found = SqliteStore::open(&path).unwrap().changes(0, 1000);
    assert!(
        matches!(found, Err(StoreError::Damaged { .. })),
        "{found:?}"
    );

    fs::write(&path, &whole).unwrap();
    let db = Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    let away = "UPDATE memory_bodies SET record = record + 1000 WHERE record = ?1";
    assert_eq!(db.execute(away, [keys[40]]).unwrap(), 1);
    drop(db);
    let store = SqliteStore::open(&path).unwrap();
    let missing = store.records(&keys[40..41]).unwrap_err();
    let said = missing.to_string();
    assert!(said.contains("its content is missing"), "{said}");
    assert!(
        store
            .records(&keys[..40])
            .unwrap()
            .iter()
            .all(Option::is_some)
    );
}

#[test]
fn every_changed_letter_is_found() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    store.create_session(&session("s"), at(0)).unwrap();
    talk(&store, "s", "said", 5);
    import(&store, "t", "written", 5);
    remember(&store, "noted", 5);
    save(&store, "s", &["sent"], 1);
    let verified = store.verify().unwrap();
    assert_eq!(verified.damaged, []);
    let counts = ["turns", "nodes", "records", "snapshots", "blobs"].map(|it| verified.checked[it]);
    assert_eq!(counts, [5, 5, 5, 1, 2]);
    let changes = [
        "UPDATE messages SET content = replace(content, 'said 3', 'sayd 3')",
        "UPDATE node_contents SET content = replace(content, 'node 3', 'nude 3')",
        "UPDATE memory_bodies SET body = replace(body, 'remembers 3', 'remembers 4')",
        "UPDATE blobs SET bytes = CAST('lost' AS BLOB) WHERE bytes = CAST('sent' AS BLOB)",
        "UPDATE sessions SET head = (SELECT min(key) FROM turns)",
    ];
    let db = Connection::open(&path).unwrap();
    for (i, change) in changes.iter().enumerate() {
        assert_eq!(
            db.execute(change, []).map(|rows| rows > 0),
            Ok(true),
            "{change}"
        );
        let damaged = store.verify().unwrap().damaged;
        assert_eq!(damaged.len(), i + 1, "{change}: {damaged:?}");
    }
    let refused = contents(&store).unwrap_err();
    assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
}

/// A damaged frame ends the recovery of a log, and later commits are lost. The
/// store detects that, because a second file has the number of commits.
#[test]
fn lost_commits_are_noticed() {
    let (directory, _) = place();
    // The commits are lost: the file is older than the stored number.
    let older = directory.path().join("older.db");
    let store = SqliteStore::open(&older).unwrap();
    store.create_session(&session("s"), at(0)).unwrap();
    talk(&store, "s", "said", 5);
    drop(store);
    let db = Connection::open(&older).unwrap();
    db.execute("UPDATE commits SET number = number - 2", [])
        .unwrap();
    drop(db);
    let refused = SqliteStore::open(&older).unwrap_err();
    assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
    assert!(refused.to_string().contains("2 transactions"), "{refused}");
    contexture_sqlite::accept_loss(&older).unwrap();
    let store = SqliteStore::open(&older).unwrap();
    assert_eq!(store.session("s").unwrap().turns, 5);
    talk(&store, "s", "again", 1);
}

#[test]
fn a_backup_is_made_while_the_store_is_used_and_checked_before_it_is_restored() {
    let (directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let harbour = store.for_tenant("harbour");
    for it in [&store, &harbour] {
        it.create_session(&session("s"), at(0)).unwrap();
        talk(it, "s", "said", 10);
        import(it, "t", "written", 5);
        remember(it, "noted", 5);
    }
    let truth = contents(&harbour).unwrap();
    let target = directory.path().join("backup");
    let made = std::thread::scope(|scope| {
        let writing = scope.spawn(|| talk(&store, "s", "meanwhile", 40));
        let made = store.backend().back_up(&target, None, at(99)).unwrap();
        writing.join().unwrap();
        made
    });
    assert_eq!(made.files.len(), 2);
    assert!(store.backend().back_up(&target, None, at(99)).is_err());
    talk(&harbour, "s", "later", 3);
    assert_eq!(contexture_sqlite::check_backup(&target).unwrap(), made);

    // A backup that was changed, truncated or created by another program is
    // rejected, and no file is replaced.
    let new = directory.path().join("new/store.db");
    let file = target.join("t-harbour.db");
    let good = fs::read(&file).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    for bad in [
        &flipped[..],
        &good[..good.len() - 4096],
        b"",
        b"not a store",
    ] {
        fs::write(&file, bad).unwrap();
        contexture_sqlite::restore(&target, &new, false).unwrap_err();
        assert!(!new.exists());
    }
    fs::write(&file, &good).unwrap();
    let manifest = fs::read_to_string(target.join("manifest.json")).unwrap();
    for (from, to) in [
        ("\"schema\": ", "\"schema\": 9"),
        ("t-harbour.db", "../../x.db"),
        ("{", "["),
    ] {
        fs::write(target.join("manifest.json"), manifest.replacen(from, to, 1)).unwrap();
        contexture_sqlite::restore(&target, &new, false).unwrap_err();
    }
    fs::remove_file(target.join("manifest.json")).unwrap();
    let foreign = contexture_sqlite::restore(&target, &new, false).unwrap_err();
    assert!(foreign.to_string().contains("is not a backup"), "{foreign}");
    fs::write(target.join("manifest.json"), &manifest).unwrap();

    contexture_sqlite::restore(&target, &new, false).unwrap();
    let restored = SqliteStore::open(&new).unwrap();
    assert_eq!(contents(&restored.for_tenant("harbour")).unwrap(), truth);
    assert_eq!(restored.verify().unwrap().damaged, []);
    drop(restored);
    // Existing files are replaced only on request.
    let refused = contexture_sqlite::restore(&target, &new, false).unwrap_err();
    assert!(matches!(refused, StoreError::Exists { .. }), "{refused}");
    // Files that are in use are not replaced.
    let refused = contexture_sqlite::restore(&target, &path, true).unwrap_err();
    assert!(matches!(refused, StoreError::Busy { .. }), "{refused}");
    // Copies of a rejected restore are removed.
    let other = directory.path().join("other/store.db");
    let tenants = contexture_sqlite::tenants_directory(&other);
    fs::create_dir_all(&tenants).unwrap();
    fs::write(tenants.join("t-harbour.db"), b"in the way").unwrap();
    let refused = contexture_sqlite::restore(&target, &other, false).unwrap_err();
    assert!(matches!(refused, StoreError::Exists { .. }), "{refused}");
    for place in [other.parent().unwrap(), path.parent().unwrap()] {
        let names = fs::read_dir(place).unwrap().map(|file| file.unwrap());
        let copies: Vec<_> = names
            .map(|file| file.file_name().to_string_lossy().into_owned())
            .filter(|name| name.contains("restored"))
            .collect();
        assert!(copies.is_empty(), "{copies:?}");
    }
    drop((store, harbour));
    contexture_sqlite::restore(&target, &path, true).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(contents(&store.for_tenant("harbour")).unwrap(), truth);
}

#[test]
fn a_deleted_tenant_is_gone_and_others_stay() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    for name in ["", "harbour", "island"] {
        let tenant = store.for_tenant(name);
        tenant.create_session(&session("s"), at(0)).unwrap();
        talk(&tenant, "s", &format!("canary{name}"), 3);
    }
    assert_eq!(store.tenant_names().unwrap(), ["", "harbour", "island"]);
    let usage = store.for_tenant("island").usage().unwrap();
    assert_eq!((usage.sessions, usage.turns), (1, 3));
    assert!(usage.bytes > 10_000);
    assert_eq!(store.for_tenant("nobody").usage().unwrap().bytes, 0);
    store.delete_tenant("harbour", at(9)).unwrap();
    assert_eq!(store.tenant_names().unwrap(), ["", "island"]);
    assert_eq!(store.for_tenant("harbour").sessions(None, 9).unwrap(), []);
    let files = contexture_sqlite::tenants_directory(&path);
    let left: Vec<_> = fs::read_dir(&files)
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .collect();
    assert!(
        left.iter()
            .all(|it| it.to_string_lossy().contains("island")),
        "{left:?}"
    );
    assert_eq!(store.for_tenant("island").session("s").unwrap().turns, 3);
    for name in ["", "nobody", "harbour"] {
        store.delete_tenant(name, at(9)).unwrap_err();
    }
    let audit = store.audit(10).unwrap();
    assert_eq!(audit.len(), 1);
    assert_eq!(
        (audit[0].act.as_str(), audit[0].tenant.as_str()),
        ("tenant_deleted", "harbour")
    );
    // The tenant can be created again.
    let harbour = store.for_tenant("harbour");
    harbour.create_session(&session("new"), at(10)).unwrap();
    assert_eq!(harbour.sessions(None, 9).unwrap().len(), 1);
}

#[test]
fn one_tenant_does_not_wait_for_another() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let (a, b) = (store.for_tenant("a"), store.for_tenant("b"));
    for it in [&a, &b] {
        it.create_session(&session("s"), at(0)).unwrap();
        remember(it, "noted", 3);
    }
    // Another connection writes to the file of `a` during the whole test.
    let file = contexture_sqlite::tenants_directory(&path).join("t-a.db");
    let db = Connection::open(file).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    talk(&b, "s", "said", 3);
    let what = Forget::Session("s".to_owned());
    assert!(!b.forget(&what).unwrap().pending);
    store.ping().unwrap();
    assert_eq!(a.session("s").unwrap().turns, 0);
}

/// A file that takes long to open, here because of another program's lock, does
/// not delay other tenants.
#[test]
fn one_tenant_does_not_wait_until_the_file_of_another_is_open() {
    let (_directory, path) = place();
    let options = Options {
        busy_timeout: Duration::from_secs(60),
        ..Options::default()
    };
    let store = SqliteStore::open_with(&path, options.clone()).unwrap();
    for tenant in ["a", "b"] {
        let it = store.for_tenant(tenant);
        it.create_session(&session("s"), at(0)).unwrap();
    }
    drop(store);
    let file = contexture_sqlite::tenants_directory(&path).join("t-a.db");
    let db = Connection::open(file).unwrap();
    db.execute_batch("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE")
        .unwrap();
    let store = SqliteStore::open_with(&path, options).unwrap();
    let (a, b) = (store.for_tenant("a"), store.for_tenant("b"));
    let (begun, begins) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let opening = scope.spawn(move || {
            begun.send(()).unwrap();
            a.session("s").map(|session| session.turns)
        });
        begins.recv().unwrap();
        talk(&b, "s", "said", 3);
        store.incarnation();
        store.ping().unwrap();
        assert!(!opening.is_finished());
        db.execute_batch("ROLLBACK").unwrap();
        assert_eq!(opening.join().unwrap().unwrap(), 0);
    });
}

/// A collection that finds nothing does not read and rewrite the whole file.
/// Bytes in the unused part of a page, which cleaning would remove, are
/// unchanged.
#[test]
fn nothing_is_overwritten_when_nothing_was_deleted() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    store.create_session(&session("s"), at(0)).unwrap();
    talk(&store, "s", "said", 3);
    remember(&store, "noted", 3);
    drop(store);
    let page = 4096;
    let mut file = fs::read(&path).unwrap();
    // A leaf page with unused bytes between its cell offsets and its cells.
    let (at_byte, _) = (1..file.len() / page)
        .map(|number| (number * page, &file[number * page..]))
        .filter(|(_, page)| page[0] == 13)
        .map(|(start, page)| {
            let number = |at: usize| usize::from(u16::from_be_bytes([page[at], page[at + 1]]));
            let gap = 8 + 2 * number(3);
            (start + gap, number(5).saturating_sub(gap))
        })
        .find(|(_, room)| *room > 64)
        .unwrap();
    file[at_byte + 16..at_byte + 22].copy_from_slice(b"canary");
    fs::write(&path, &file).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let collected = store.collect(&Retention::default(), false).unwrap();
    assert!(
        collected.deleted.is_empty() && !collected.pending,
        "{collected:?}"
    );
    let what = Forget::Session("unknown".to_owned());
    store.forget(&what).unwrap_err();
    assert!(has(&path, "canary"));
    // After a deletion, the bytes are overwritten.
    let what = Forget::Session("s".to_owned());
    assert!(!store.forget(&what).unwrap().pending);
    assert!(!has(&path, "canary"));
}

/// Every 64th event removes those before the latest 10,000, also when the clock
/// does not advance.
#[test]
fn the_latest_events_are_kept() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let now = jiff::Timestamp::from_millisecond(1_000_007).unwrap();
    let put = |count: u64| {
        for _ in 0..count {
            store.put_event("assembled", "s", serde_json::Map::new(), now);
        }
        let page = store.events(0, 1).unwrap();
        (page.oldest, page.latest)
    };
    let full = MAX_EVENTS.next_multiple_of(64);
    assert_eq!(put(full - 1), (1, full - 1));
    assert_eq!(put(1), (full - MAX_EVENTS + 1, full));
    assert_eq!(put(64), (full + 64 - MAX_EVENTS + 1, full + 64));
}
