//! Two processes on one store and one index file, and a directory that cannot
//! be written to.
//!
//! A test starts this test program again, with the name of a test that does what
//! the other process is to do. Without a path that test does nothing.
#![cfg(unix)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use contexture::memory::{Lines, Recall};
use contexture::store::Store;
use contexture::{Engine, Root};
use contexture_sqlite::SqliteStore;

use crate::fixture::{ids, now, query_for, said};
use crate::support::engine;

/// Vectors that are made at once.
const STATIC: &str = "[memory]\nembedder = \"static\"\n";

const PATH: &str = "CONTEXTURE_TEST_PATH";
const NAME: &str = "CONTEXTURE_TEST_NAME";

/// The number of texts that each process records: enough for the file to be
/// written again.
const EACH: usize = 200;

/// Returns a command that runs a test of this file in a process of its own.
fn child(test: &str, store: &Path, name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("processes::{test}"), "--nocapture"])
        .env(PATH, store)
        .env(NAME, name)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Returns the store that a [`child`] was given, and its name.
fn given() -> Option<(PathBuf, String)> {
    let path = std::env::var_os(PATH)?;
    Some((path.into(), std::env::var(NAME).unwrap_or_default()))
}

fn open(path: &Path) -> Engine {
    let root = Root::open(path.parent().unwrap()).unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path).unwrap());
    engine(STATIC, &root, &store)
}

fn record(engine: &Engine, lines: &str) {
    let mut lines = Lines {
        name: "records.jsonl",
        reader: &mut lines.as_bytes(),
        progress: &mut |_, _| {},
    };
    let memory = engine.memory().unwrap();
    memory.record_lines(&mut lines, Some(now())).unwrap();
}

fn found(engine: &Engine, query: &str) -> Vec<String> {
    let how = Recall {
        now: Some(now()),
        ..Recall::default()
    };
    let memory = engine.memory().unwrap();
    ids(&memory.recall(&query_for(query, 300), &how).unwrap().context)
}

/// Returns lines about the crates of a person.
fn crates_of(name: &str, count: usize) -> String {
    (0..count)
        .map(|i| {
            let (session, text) = (
                format!("{name} {}", i / 20),
                format!("Crate {i} of {name} holds {} valves.", i % 17),
            );
            let time = format!("2026-01-{:02}T10:00:00Z", 1 + i / 100 % 28);
            said(&format!("{name}-{i}"), &session, &time, "Ana", &text)
        })
        .collect()
}

/// Returns a store of 2,100 texts that has an index file.
fn filed(directory: &Path) -> PathBuf {
    let path = directory.join("lab.db");
    let engine = open(&path);
    record(&engine, &crates_of("first", 2_100));
    found(&engine, "Which crate holds 3 valves?");
    let memory = engine.memory().unwrap();
    assert!(memory.save_index().unwrap());
    path
}

/// The work of each of two processes: it reads the file, records in several
/// batches, finds its records, and writes the file.
#[test]
fn records_and_writes_the_file() {
    let Some((path, name)) = given() else { return };
    let engine = open(&path);
    let memory = engine.memory().unwrap();
    assert!(memory.has_index_file().unwrap());
    for part in 0..4 {
        let lines: Vec<String> = crates_of(&name, EACH).lines().map(str::to_owned).collect();
        let lines = &lines[part * EACH / 4..(part + 1) * EACH / 4];
        record(&engine, &(lines.join("\n") + "\n"));
        let last = part * EACH / 4;
        let wanted = format!("{name}-{last}");
        let found = found(&engine, &format!("What does crate {last} of {name} hold?"));
        assert!(found.contains(&wanted), "{wanted}: {found:?}");
        memory.save_index().unwrap();
    }
}

#[test]
fn two_processes_share_a_store_and_its_index_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = filed(directory.path());
    let names = ["second", "third"];
    let children = names.map(|name| {
        let mut command = child("records_and_writes_the_file", &path, name);
        command.spawn().unwrap()
    });
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}\n{errors}");
    }
    let from_file = open(&path);
    let index = from_file.memory().unwrap().index_path().unwrap();
    assert!(from_file.memory().unwrap().has_index_file().unwrap());
    let mut answers = Vec::new();
    for name in ["first", "second", "third"] {
        let query = format!("What does crate 150 of {name} hold?");
        let found = found(&from_file, &query);
        assert!(found.contains(&format!("{name}-150")), "{found:?}");
        answers.push((query, found));
    }
    fs::remove_file(&index).unwrap();
    let from_store = open(&path);
    for (query, expected) in answers {
        assert_eq!(found(&from_store, &query), expected, "{query}");
    }
    let unfinished = index.with_file_name("lab.db-index-new");
    assert!(!unfinished.exists());
}

/// The work of a process that may not write: it reads the file, answers from
/// it, and warns once that it cannot write another.
#[test]
fn answers_without_writing() {
    let Some((path, _)) = given() else { return };
    let engine = open(&path);
    let memory = engine.memory().unwrap();
    let has_file = memory.has_index_file().unwrap();
    assert_eq!(has_file, memory.index_path().unwrap().exists());
    let found = found(&engine, "What does crate 150 of first hold?");
    assert!(found.contains(&"first-150".to_owned()), "{found:?}");
    if !has_file {
        let error = memory.save_index().unwrap_err().to_string();
        assert!(error.contains("cannot be written"), "{error}");
    }
    assert!(!memory.save_index().unwrap());
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_directory_that_cannot_be_written_is_read() {
    for has_file in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        allow(directory.path(), 0o755);
        let inside = directory.path().join("inside");
        fs::create_dir(&inside).unwrap();
        let path = filed(&inside);
        if !has_file {
            fs::remove_file(inside.join("lab.db-index")).unwrap();
        }
        for file in fs::read_dir(&inside).unwrap() {
            allow(&file.unwrap().path(), 0o444);
        }
        allow(&inside, 0o555);
        let mut command = child("answers_without_writing", &path, "");
        // The system forbids nothing to root.
        if fs::metadata(directory.path()).unwrap().uid() == 0 {
            let copy = directory.path().join("test");
            fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
            allow(&copy, 0o755);
            let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
            command = Command::new(copy);
            command
                .args(arguments)
                .env(PATH, &path)
                .current_dir(directory.path())
                .uid(65534)
                .gid(65534);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        allow(&inside, 0o755);
        assert!(output.status.success(), "{text}\n{errors}");
    }
}
