//! Acknowledged writes exist completely after the process is killed at any
//! time.
//!
//! A kill does not lose data that the system has not yet written to disk; a
//! power cut does. The test `every_connection_that_writes_waits_for_the_disk`
//! shows that commits wait for the disk, and `tests/faults/power-cuts` (which
//! needs root) cuts the writes to a disk.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use contexture_sqlite::{Options, SqliteStore};
use contexture_store::{
    Growth, Ledger, MessageRole, NewTurn, Step, StoreError, TreeDocument, Trees, TurnId,
    Upkeep as _,
};
use jiff::Timestamp;
use support::{
    Random, check_rows, check_store, child, child_path, counted, message, said, say, session,
};

const SESSIONS: u64 = 4;

/// Turns of all kinds: short and long, with few and many messages, with and
/// without an idempotency key.
fn turn(writer: u64, i: u64) -> NewTurn {
    let name = format!("{}-{writer}-{i}", std::process::id());
    let length = match i % 7 {
        0 => 20_000,
        _ => 100 * (i % 5),
    };
    let padding = "x".repeat(length as usize);
    let messages = (0..2 + i % 5)
        .map(|n| match n % 2 {
            0 => message(MessageRole::User, &format!("{name} {n} {padding}")),
            _ => message(MessageRole::Assistant, &format!("{name} {n}")),
        })
        .collect();
    NewTurn {
        messages,
        idempotency_key: i.is_multiple_of(3).then_some(name),
        ..NewTurn::default()
    }
}

/// Opens the store in a child. A panic then ends the process, so that the
/// parent detects that the child was not killed.
fn open(path: &Path) -> SqliteStore {
    open_with(path, Options::default())
}

fn open_with(path: &Path, options: Options) -> SqliteStore {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        std::process::exit(1);
    }));
    say("");
    let store = SqliteStore::open_with(path, options).unwrap();
    for n in 0..SESSIONS {
        match store.create_session(&session(&format!("s{n}")), Timestamp::now()) {
            Ok(_) | Err(StoreError::Exists { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    store
}

/// Eight writers on four sessions. Each turn is printed after it was
/// acknowledged.
#[test]
fn writes_until_killed() {
    let Some(path) = child_path() else { return };
    write_for_ever(&open(&path));
}

/// The same with a rollback journal.
#[test]
fn writes_in_bulk_until_killed() {
    let Some(path) = child_path() else { return };
    let options = Options {
        bulk: true,
        ..Options::default()
    };
    write_for_ever(&open_with(&path, options));
}

fn write_for_ever(store: &SqliteStore) {
    std::thread::scope(|scope| {
        for writer in 0..8 {
            scope.spawn(move || {
                let label = format!("s{}", writer % SESSIONS);
                for i in 0.. {
                    let turn = turn(writer, i);
                    let counted = counted(&turn);
                    let record =
                        || store.record(&label, &turn, Some(&counted), None, Timestamp::now());
                    let recorded = record().unwrap();
                    say(&format!("recorded {} {}", recorded.id, turn.body().hash()));
                    if turn.idempotency_key.is_some() {
                        let again = record().unwrap();
                        assert_eq!((again.id, again.replayed), (recorded.id, true));
                    }
                }
            });
        }
    });
}

/// The same, but each turn is printed *before* it is recorded, like a store
/// that acknowledges too early.
#[test]
fn prints_too_early_until_killed() {
    let Some(path) = child_path() else { return };
    let store = open(&path);
    std::thread::scope(|scope| {
        for writer in 0..SESSIONS {
            let store = &store;
            scope.spawn(move || {
                let label = format!("s{writer}");
                for i in 0.. {
                    let turn = turn(writer, i);
                    let now = Timestamp::now();
                    let head = store.session(&label).unwrap().head;
                    let id = turn.body().id(head, &label, now);
                    say(&format!("recorded {id} {}", turn.body().hash()));
                    let recorded = store.record(&label, &turn, Some(&counted(&turn)), None, now);
                    assert_eq!(recorded.unwrap().id, id);
                }
            });
        }
    });
}

/// Prints the content of a store after a power cut, and checks that it is
/// complete. The program `tests/faults/power-cuts` runs it.
#[test]
fn prints_the_stored_turns() {
    let Some(path) = child_path() else { return };
    say("");
    if path.exists() {
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(store.verify().unwrap().damaged, []);
        drop(store);
        for (id, hash) in check_store(&path) {
            say(&format!("recorded {id} {hash}"));
        }
    }
    say("checked");
}

/// Starts a child, kills it some time after it has printed this many lines, and
/// returns its output. On a busy machine, a child that is killed after a fixed
/// time has hardly begun.
fn kill(name: &str, path: &Path, lines: u64, after: Duration) -> String {
    let mut process = child(name, path)
        .stderr(std::process::Stdio::inherit())
        .spawn()
        .unwrap();
    let mut stdout = process.stdout.take().unwrap();
    let (heard, hears) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut output = Vec::new();
        let mut part = [0; 4096];
        loop {
            let read = stdout.read(&mut part).unwrap();
            if read == 0 {
                return String::from_utf8(output).unwrap();
            }
            output.extend_from_slice(&part[..read]);
            let lines = part[..read].iter().filter(|byte| **byte == b'\n').count();
            let _ = heard.send(lines as u64);
        }
    });
    let mut said = 0;
    while said < lines {
        match hears.recv() {
            Ok(more) => said += more,
            // The child ended by itself, which the check below detects.
            Err(_) => break,
        }
    }
    std::thread::sleep(after);
    // SIGKILL cannot be handled by the process.
    process.kill().unwrap();
    let status = process.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "it ended by itself: {status}");
    reader.join().unwrap()
}

/// Returns the turns that a child printed as recorded.
fn recorded(output: &str) -> Vec<(TurnId, TurnId)> {
    said(output, "recorded")
        .into_iter()
        .map(|line| {
            let (id, hash) = line.split_once(' ').unwrap();
            (id.parse().unwrap(), hash.parse().unwrap())
        })
        .collect()
}

/// Kills the child `name` repeatedly, on a few stores in turn. Returns the
/// number of printed turns, and how many of them are missing.
fn lost(name: &str, kills: u64) -> (usize, usize) {
    let mut random = Random(0x5EED);
    let (mut all, mut lost) = (0, 0);
    let mut killed = 0;
    while killed < kills {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let mut acknowledged = BTreeMap::new();
        // Several kills use one store, so that each child opens the remains of
        // the one before.
        for n in 0..10.min(kills - killed) {
            // The first kill happens while the store is created, the others
            // anywhere in a series of commits. The test harness prints a few
            // lines first.
            let lines = if n == 0 { 0 } else { random.below(40) };
            let after = Duration::from_micros(random.below(20_000));
            acknowledged.extend(recorded(&kill(name, &path, lines, after)));
            killed += 1;
            if !path.exists() {
                continue;
            }
            let stored: BTreeMap<TurnId, TurnId> = check_store(&path).into_iter().collect();
            let is_lost = |(id, hash): &(&TurnId, &TurnId)| stored.get(id) != Some(hash);
            let gone = acknowledged.iter().filter(is_lost).count();
            lost += gone;
            if gone > 0 {
                // From here on, the stored chain differs from the printed one.
                break;
            }
        }
        all += acknowledged.len();
    }
    (all, lost)
}

#[test]
fn no_acknowledged_write_in_bulk_is_lost() {
    let (all, lost) = lost("writes_in_bulk_until_killed", support::rounds(100));
    assert!(all > 100, "only {all} turns were acknowledged");
    assert_eq!(lost, 0, "of {all}");
}

#[test]
fn no_acknowledged_write_is_lost() {
    let kills = support::rounds(200);
    let (all, lost) = lost("writes_until_killed", kills);
    println!("{all} turns were acknowledged over {kills} kills");
    assert!(all > 200, "only {all} turns were acknowledged");
    assert_eq!(lost, 0, "of {all}");
}

/// Deletes a session in small steps, after the others have been recorded.
#[test]
fn deletes_until_killed() {
    let Some(path) = child_path() else { return };
    let store = open(&path);
    for i in 0..20 {
        let turn = turn(0, i);
        let counted = counted(&turn);
        for label in ["s0", "s1"] {
            store
                .record(label, &turn, Some(&counted), None, Timestamp::now())
                .unwrap();
        }
    }
    say("begun deletion");
    store.delete_session_in_steps("s0", 1, usize::MAX).unwrap();
    say("deleted session");
    std::thread::sleep(Duration::from_secs(60));
}

/// A deletion that a kill has interrupted ends when the store is opened again.
#[test]
fn an_interrupted_deletion_ends_after_a_kill() {
    let mut random = Random(0x5EED);
    let mut interrupted = 0;
    for _ in 0..support::rounds(20) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        // The test harness prints three lines before the child begins the deletion.
        let after = Duration::from_micros(random.below(200_000));
        let output = kill("deletes_until_killed", &path, 4, after);
        assert_eq!(said(&output, "begun").len(), 1, "{output}");
        check_rows(&path);
        let reader = SqliteStore::open_read_only(&path).unwrap();
        let verified = reader.verify().unwrap();
        assert_eq!(verified.damaged, []);
        let pending = verified.checked.contains_key("pending_deletions");
        interrupted += u64::from(pending);
        let is_deleted = matches!(reader.session("s0"), Err(StoreError::NotFound { .. }));
        assert!(is_deleted || !pending);
        assert!(is_deleted || said(&output, "deleted").is_empty());
        drop(reader);
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(store.continue_deletions().unwrap(), 0);
        assert_eq!(store.session("s1").unwrap().turns, 20);
        assert_eq!(store.session("s0").is_err(), is_deleted);
        let turns = if is_deleted { 20 } else { 40 };
        assert_eq!(store.usage().unwrap().turns, turns);
        assert_eq!(store.verify().unwrap().damaged, []);
        drop(store);
        check_rows(&path);
    }
    println!("{interrupted} deletions were interrupted");
    assert!(interrupted > 0);
}

/// Four writers on one tree. Each adds a node after its last one together with
/// an edit of it, and prints that.
#[test]
fn grows_until_killed() {
    let Some(path) = child_path() else { return };
    let store = open(&path);
    let json = r#"{"tree":{"id":"t","mode":"dialogue","created_at":1},
        "nodes":[{"id":"root","author":"human","content":"","created_at":1}]}"#;
    let document = serde_json::from_str(json).unwrap();
    store.import_tree(&document, Timestamp::now()).unwrap();
    let run = std::process::id();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let store = &store;
            scope.spawn(move || {
                let mut last = "root".to_owned();
                for i in 0.. {
                    let id = format!("{run}-{writer}-{i}");
                    let json = format!(
                        r#"{{"tree":{{"id":"t","mode":"dialogue"}},
                        "nodes":[{{"id":"{id}","author":"model","content":"{}"}},
                            {{"id":"{id}-edit","author":"human","content":"","edited_from":"{id}"}}],
                        "edges":[{{"id":"{id}","type":"continuation","target_node_id":"{id}",
                            "sources":[{{"node_id":"{last}"}}]}}]}}"#,
                        "x".repeat(i % 7 * 500)
                    );
                    let document: TreeDocument = serde_json::from_str(&json).unwrap();
                    let growth = Growth {
                        nodes: document.nodes,
                        edges: document.edges,
                    };
                    store.grow("t", &growth, Timestamp::now()).unwrap();
                    say(&format!("grown {id}"));
                    last = id;
                }
            });
        }
    });
}

#[test]
fn no_acknowledged_node_is_lost() {
    let mut random = Random(0x7EE5);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut acknowledged = BTreeSet::new();
    for _ in 0..25 {
        let after = Duration::from_micros(random.below(20_000));
        let output = kill("grows_until_killed", &path, random.below(20), after);
        acknowledged.extend(said(&output, "grown").into_iter().map(str::to_owned));
        if !path.exists() {
            continue;
        }
        check_rows(&path);
        let store = SqliteStore::open(&path).unwrap();
        let Ok(whole) = store.export_tree("t") else {
            assert!(acknowledged.is_empty());
            continue;
        };
        whole.check().unwrap();
        let ids: BTreeSet<&str> = whole.nodes.iter().map(|node| &*node.id).collect();
        for id in &acknowledged {
            assert!(ids.contains(&**id), "{id} is lost");
        }
        // Each growth is stored completely or not at all.
        for id in ids.iter().filter(|id| **id != "root") {
            let id = id.strip_suffix("-edit").unwrap_or(id);
            assert!(ids.contains(id) && ids.contains(&*format!("{id}-edit")));
        }
        let info = store.tree("t").unwrap();
        assert_eq!(info.nodes, ids.len() as u64);
        assert_eq!(info.edges, info.nodes / 2);
        let steps: BTreeMap<&str, Step> = ids_of(&whole).into_iter().zip(whole.steps()).collect();
        for (head, _) in store.skeleton("t").unwrap().nodes {
            assert_eq!(head.step, steps[&*head.id], "{}", head.id);
        }
    }
    assert!(acknowledged.len() > 25, "only {}", acknowledged.len());
}

fn ids_of(document: &TreeDocument) -> Vec<&str> {
    document.nodes.iter().map(|node| &*node.id).collect()
}

#[test]
fn the_check_finds_a_loss() {
    let (all, lost) = lost("prints_too_early_until_killed", 20);
    assert!(lost > 0, "none of {all} was found to be lost");
}
