//! Faults that are injected into the writes of a store.
//!
//! The limit on the size of a file (`RLIMIT_FSIZE`) makes a write end at any
//! chosen byte. By default the system then kills the process, in the middle of
//! this write. If the signal is ignored, the write is short and the next one
//! fails, like on a full or broken disk. Other tests flip bits of the database
//! and of its log at rest.
//!
//! Each test has a small size. `CONTEXTURE_FAULTS=50` makes each 50 times as
//! large.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use contexture_sqlite::SqliteStore;
use contexture_store::{Ledger, StoreError, Upkeep as _};
use tempfile::TempDir;

mod support;

use support::faults::{copy, limit_files, limited};
use support::{
    COUNTER, EVERYTHING, Random, at, check_store, child_path, counted, rounds, said, say, session,
    turn,
};

/// The word that every turn contains.
fn text(i: u64) -> String {
    format!("Turn {i}: {}", "the tide is high at the pier. ".repeat(60))
}

/// Creates a store with a few turns, some of which are still in the log.
fn filled(turns: u64) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    store.create_session(&session("s"), at(0)).unwrap();
    for i in 0..turns {
        record(&store, i).unwrap();
    }
    drop(store);
    (directory, path)
}

fn record(store: &SqliteStore, i: u64) -> Result<String, StoreError> {
    let turn = turn(&text(i));
    let counted = counted(&turn);
    let recorded = store.record("s", &turn, Some(&counted), None, at(i as i64))?;
    Ok(recorded.id.to_string())
}

/// Records turns until a call fails.
#[test]
fn records_below_a_limit() {
    let Some(path) = child_path() else { return };
    // The store is opened without a limit: opening has its own writes, which
    // the test of migrations covers.
    let store = SqliteStore::open(&path).unwrap();
    let first = store.session("s").unwrap().turns;
    say("ready");
    limit_files();
    for i in first..first + 4 {
        match record(&store, i) {
            Ok(id) => say(&format!("recorded {id}")),
            Err(error) => {
                say(&format!("failed {error}"));
                break;
            }
        }
    }
    // Dropping the store writes, too.
    drop(store);
    say("done");
}

/// Ends the writes of a turn at any byte, by a kill or with an error.
/// Acknowledged turns exist, and no turn is incomplete.
#[test]
fn a_turn_is_whole_or_absent_wherever_its_writes_end() {
    let (directory, _) = filled(3);
    let (mut killed, mut failed, mut unharmed, mut acknowledged) = (0, 0, 0, 0);
    let mut random = Random(0x5EED);
    for round in 0..rounds(40) {
        // The limit ranges from the first byte of the log to more than four
        // turns need.
        let limit = random.below(160 << 10);
        let ignore = round % 2 == 1;
        let copied = tempfile::tempdir().unwrap();
        copy(directory.path(), copied.path());
        let path = copied.path().join("store.db");
        let mut command = limited("records_below_a_limit", &path, limit, ignore);
        let output = command.output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(out.contains("ready"), "{out}\n{errors}");
        let heard = said(&out, "recorded");
        match output.status.signal() {
            // SIGXFSZ.
            Some(25) if !ignore => killed += 1,
            None if !said(&out, "failed").is_empty() => failed += 1,
            None => unharmed += 1,
            other => panic!("{other:?} at {limit}: {out}\n{errors}"),
        }
        acknowledged += heard.len();
        let stored = check_store(&path);
        for id in &heard {
            let found = stored.iter().any(|(stored, _)| stored.to_string() == *id);
            assert!(found, "acknowledged and lost at {limit}: {id}\n{out}");
        }
        // At most one more turn than was printed: it was acknowledged, and the
        // process was killed before it printed.
        assert!(stored.len() <= 3 + heard.len() + 1, "{out}");
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(store.verify().unwrap().damaged, []);
        // The store works as usual afterwards.
        record(&store, 9).unwrap();
    }
    println!(
        "{killed} kills and {failed} errors inside a write, {unharmed} without; {acknowledged} \
         turns acknowledged, none lost"
    );
    assert!(killed > 5 && failed > 5, "{killed} {failed}");
    assert!(acknowledged > 10, "{acknowledged}");
}

/// Returns all turns, or the error of reading them.
fn contents(path: &Path) -> Result<Vec<String>, StoreError> {
    let store = SqliteStore::open(path)?;
    let session = store.session("s")?;
    let head = session.head.ok_or(StoreError::Withdrawn)?;
    let walked = store.walk(head, &EVERYTHING)?;
    let ids: Vec<_> = walked.iter().map(|head| head.id).collect();
    let turns = store.turns(&ids, COUNTER)?;
    Ok(turns
        .iter()
        .map(|turn| format!("{} {:?} {:?}", turn.id, turn.parent, turn.turn.messages))
        .collect())
}

/// Flips a bit of the log, which has committed turns that are not yet in the
/// database. The store must detect the lost turns.
#[test]
fn a_flipped_bit_of_the_log_is_never_silent() {
    let (directory, path) = filled(3);
    let store = SqliteStore::open(&path).unwrap();
    for i in 3..9 {
        record(&store, i).unwrap();
    }
    let truth = contents(&path).unwrap();
    // The log exists while the store is open.
    let file = |suffix: &str| directory.path().join(format!("store.db{suffix}"));
    let read = |suffix: &str| fs::read(file(suffix)).unwrap();
    let (database, log, seal) = (read(""), read("-wal"), read("-seal"));
    drop(store);
    assert!(log.len() > 20_000, "{}", log.len());
    let mut random = Random(0xB17);
    let (mut told, mut unharmed) = (0, 0);
    for _ in 0..rounds(60) {
        // The file is written in place: the number of commits belongs to this
        // file, not to a copy.
        fs::write(file(""), &database).unwrap();
        fs::write(file("-seal"), &seal).unwrap();
        let mut bytes = log.clone();
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        fs::write(file("-wal"), &bytes).unwrap();
        // The index of the log belongs to the process that had it open.
        let _ = fs::remove_file(file("-shm"));
        match contents(&path) {
            Err(_) => told += 1,
            Ok(read) if read == truth => unharmed += 1,
            Ok(read) => panic!(
                "bit of byte {at} of the log flipped: {} turns instead of {}, and nobody noticed",
                read.len(),
                truth.len()
            ),
        }
    }
    println!("{told} flips were noticed, {unharmed} changed nothing, 0 were silent");
    assert!(told > 10, "{told} {unharmed}");
}

/// Makes a backup with too little disk space.
#[test]
fn backs_up_below_a_limit() {
    let Some(path) = child_path() else { return };
    let store = SqliteStore::open(&path).unwrap();
    let target = path.with_file_name("backup");
    limit_files();
    match store.backend().back_up(&target, None, at(0)) {
        Ok(_) => say("made"),
        Err(error) => say(&format!("failed {error}")),
    }
}

/// A backup without enough disk space fails and leaves no files, and the store
/// is not affected.
#[test]
fn a_backup_to_a_full_disk_leaves_nothing() {
    let (directory, path) = filled(20);
    let size = fs::metadata(&path).unwrap().len();
    let mut failed = 0;
    for part in 0..8 {
        let copied = tempfile::tempdir().unwrap();
        copy(directory.path(), copied.path());
        let path = copied.path().join("store.db");
        let limit = size * part / 8;
        let mut command = limited("backs_up_below_a_limit", &path, limit, true);
        let output = command.output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{out}");
        let target = copied.path().join("backup");
        match out.contains("made") {
            true => drop(contexture_sqlite::check_backup(&target).unwrap()),
            false => {
                assert!(!target.exists(), "{out}");
                failed += 1;
            }
        }
        check_store(&path);
    }
    assert!(failed > 3, "{failed}");
}
