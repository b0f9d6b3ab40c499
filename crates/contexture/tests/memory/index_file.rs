//! The index file: a new process reads it in the place of the store, and
//! whatever is wrong with it, the answers are the same.

use std::fs;
use std::path::PathBuf;

use contexture::Engine;
use contexture::memory::{Context, ContextRequest, Recall};
use contexture::store::Forget;

use crate::fixture::{TestMemory, ids, now, query_for, said};

/// Vectors that are made at once.
const STATIC: &str = "[memory]\nembedder = \"static\"\n";

/// The number of texts from which a file is written.
const ENOUGH: usize = 2_000;

/// Returns a memory that is large enough for a file, and has one.
fn filed() -> TestMemory {
    let mind = TestMemory::with(STATIC);
    mind.record(&lines(0, ENOUGH + 20));
    mind.record(&said(
        "t1",
        "harbour",
        "2026-02-10T08:00:00Z",
        "Ines",
        "The keel of the Heron is cracked.",
    ));
    mind.record(&said(
        "t2",
        "harbour",
        "2026-02-10T08:01:00Z",
        "Ben",
        "Marta Lopez from Lisbon can weld it.",
    ));
    mind.record(
        r#"{"kind":"entity","id":"heron","type":"boat","name":"Heron","aliases":["the old boat"]}
{"kind":"entity","id":"marta","type":"person","name":"Marta Lopez"}
{"kind":"relation","type":"repairs","source_id":"marta","target_id":"heron"}
{"kind":"pattern","id":"leak","name":"A leak","conditions":[{"type":"keyword","value":"leak"}],"procedure":"Close the valve first."}
{"kind":"event","id":"secret","content":"The safe opens with 4711.","visible_to":["ines"]}
{"kind":"event","id":"past","content":"The Heron lies in Porto.","valid_to":"2026-01-01T00:00:00Z"}
"#,
    );
    mind.recall("keel");
    assert!(mind.memory().save_index().unwrap());
    assert!(path(&mind).exists());
    mind
}

fn lines(from: usize, to: usize) -> String {
    (from..to)
        .map(|i| {
            let session = format!("s{}", i / 20);
            let time = format!("2026-01-{:02}T{:02}:00:00Z", 1 + i / 80 % 28, i % 24);
            said(
                &format!("n{i}"),
                &session,
                &time,
                "Ana",
                &format!("Crate {i} holds {} valves.", i % 17),
            )
        })
        .collect()
}

fn path(mind: &TestMemory) -> PathBuf {
    mind.memory().index_path().unwrap()
}

/// Returns an engine that has read nothing yet.
fn another(mind: &TestMemory) -> Engine {
    mind.lab.another(STATIC)
}

fn ask_with(engine: &Engine, request: &ContextRequest) -> Context {
    let how = Recall {
        now: Some(now()),
        ..Recall::default()
    };
    let recalled = engine.memory().unwrap().recall(request, &how).unwrap();
    (*recalled.context).clone()
}

const QUERIES: [&str; 5] = [
    "Who can weld the keel of the old boat?",
    "Which crate holds 3 valves?",
    "What happened on 5 January 2026?",
    "How do we stop a leak?",
    "What opens the safe?",
];

/// Fails unless an engine answers like one that reads the store.
fn check_same(mind: &TestMemory, engine: &Engine) {
    let kept = fs::read(path(mind)).ok();
    let _ = fs::remove_file(path(mind));
    let plain = another(mind);
    let expected: Vec<Context> = QUERIES
        .iter()
        .map(|query| ask_with(&plain, &query_for(query, 600)))
        .collect();
    if let Some(bytes) = kept {
        fs::write(path(mind), bytes).unwrap();
    }
    for (query, expected) in QUERIES.iter().zip(expected) {
        let found = ask_with(engine, &query_for(query, 600));
        assert_eq!(found.content, expected.content, "{query}");
        assert_eq!(ids(&found), ids(&expected), "{query}");
    }
}

/// Fails if the file is used, or if answers are wrong without it.
fn check_unused(mind: &TestMemory) {
    let engine = another(mind);
    assert!(!engine.memory().unwrap().has_index_file().unwrap());
    check_same(mind, &engine);
    // The file is written again.
    assert!(engine.memory().unwrap().save_index().unwrap());
    assert!(another(mind).memory().unwrap().has_index_file().unwrap());
}

#[test]
fn a_new_process_answers_from_the_file_as_from_the_store() {
    let mind = filed();
    let engine = another(&mind);
    assert!(engine.memory().unwrap().has_index_file().unwrap());
    check_same(&mind, &engine);
    // Nothing has changed: nothing is written.
    assert!(!engine.memory().unwrap().save_index().unwrap());
}

#[test]
fn a_file_is_brought_up_to_date_by_changes() {
    let mind = filed();
    mind.record(&said(
        "t3",
        "harbour",
        "2026-02-11T08:00:00Z",
        "Ana",
        "Marta Lopez welded the keel on Tuesday.",
    ));
    mind.record(&said(
        "t1",
        "harbour",
        "2026-02-10T08:00:00Z",
        "Ines",
        "The mast of the Heron is cracked, not the keel.",
    ));
    mind.record(
        "{\"kind\":\"entity\",\"id\":\"heron\",\"type\":\"boat\",\"name\":\"Grey Heron\"}\n",
    );
    let engine = another(&mind);
    assert!(engine.memory().unwrap().has_index_file().unwrap());
    check_same(&mind, &engine);
}

#[test]
fn a_small_memory_has_no_file() {
    let mind = TestMemory::with(STATIC);
    mind.record(&lines(0, 100));
    mind.recall("valves");
    assert!(!mind.memory().save_index().unwrap());
    assert!(!path(&mind).exists());
}

#[test]
fn a_file_that_is_lost_truncated_or_altered_is_built_again() {
    let mind = filed();
    let bytes = fs::read(path(&mind)).unwrap();
    fs::remove_file(path(&mind)).unwrap();
    check_unused(&mind);
    let length = bytes.len();
    for size in [0, 7, 40, length / 2, length - 1] {
        fs::write(path(&mind), &bytes[..size]).unwrap();
        check_unused(&mind);
    }
    for at in [3, 12, 30, 100, length / 3, length / 2, length - 10] {
        let mut altered = bytes.clone();
        altered[at] ^= 4;
        fs::write(path(&mind), &altered).unwrap();
        check_unused(&mind);
    }
}

#[test]
fn a_file_of_a_newer_version_is_not_read() {
    let mind = filed();
    let mut bytes = fs::read(path(&mind)).unwrap();
    assert_eq!(&bytes[..8], b"ctxidx02");
    bytes[7] = b'3';
    fs::write(path(&mind), &bytes).unwrap();
    check_unused(&mind);
}

#[test]
fn a_file_of_another_store_is_not_used() {
    let (mind, other) = (filed(), filed());
    other.record(&lines(ENOUGH + 20, ENOUGH + 400));
    other.recall("valves");
    assert!(other.memory().save_index().unwrap());
    fs::copy(path(&other), path(&mind)).unwrap();
    check_unused(&mind);
}

/// A store that was copied back has the numbers of the changes, but not the
/// changes.
#[test]
fn a_file_of_another_history_of_the_store_is_not_used() {
    let (first, other) = (filed(), filed());
    // The same number of changes, with other texts at the end.
    first.record(&lines(5_000, 5_130));
    first.recall("valves");
    other.record(&lines(7_000, 7_130));
    assert!(first.memory().save_index().unwrap());
    fs::copy(path(&first), path(&other)).unwrap();
    check_unused(&other);
}

#[test]
fn a_directory_in_the_place_of_the_file_is_reported_once() {
    let mind = filed();
    fs::remove_file(path(&mind)).unwrap();
    fs::create_dir(path(&mind)).unwrap();
    fs::write(path(&mind).join("full"), "x").unwrap();
    let engine = another(&mind);
    let memory = engine.memory().unwrap();
    assert!(!ids(&ask_with(&engine, &query_for("keel", 300))).is_empty());
    let error = memory.save_index().unwrap_err().to_string();
    assert!(
        error.starts_with("the index file ") && error.contains("cannot be written"),
        "{error}"
    );
    assert!(!memory.save_index().unwrap());
    assert!(!path(&mind).with_file_name("lab.db-index-new").exists());
}

/// Where no new file can be made, recall works and the reason is reported once.
#[test]
fn a_place_that_cannot_be_written_is_reported_once() {
    let mind = filed();
    let new = path(&mind).with_file_name("lab.db-index-new");
    fs::remove_file(path(&mind)).unwrap();
    fs::create_dir(&new).unwrap();
    let engine = another(&mind);
    let memory = engine.memory().unwrap();
    check_same(&mind, &engine);
    let error = memory.save_index().unwrap_err().to_string();
    assert!(error.contains("cannot be written"), "{error}");
    assert!(!memory.save_index().unwrap());
    check_same(&mind, &engine);
}

#[test]
fn a_file_that_is_deleted_while_it_is_used_is_not_missed() {
    let mind = filed();
    let engine = another(&mind);
    assert!(!ids(&ask_with(&engine, &query_for("keel", 300))).is_empty());
    fs::remove_file(path(&mind)).unwrap();
    mind.record(&lines(4_000, 4_010));
    check_same(&mind, &engine);
}

#[test]
fn two_processes_use_one_file() {
    let mind = filed();
    let (first, second) = (another(&mind), another(&mind));
    let ask = |engine: &Engine| ids(&ask_with(engine, &query_for("Who can weld the keel?", 400)));
    assert_eq!(ask(&first), ask(&second));
    mind.record(&lines(3_000, 3_300));
    assert_eq!(ask(&first), ask(&second));
    std::thread::scope(|threads| {
        let saved = [&first, &second]
            .map(|engine| threads.spawn(|| engine.memory().unwrap().save_index().unwrap()));
        let saved = saved.map(|thread| thread.join().unwrap());
        assert!(saved.contains(&true));
    });
    assert!(another(&mind).memory().unwrap().has_index_file().unwrap());
    assert_eq!(ask(&first), ask(&another(&mind)));
}

#[test]
fn deleted_records_are_in_no_file() {
    let mind = filed();
    let names = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap();
        let holds = |name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
        (holds(b"harbour"), holds(b"marta lopez"))
    };
    assert_eq!(names(&path(&mind)), (true, true));
    let reading = another(&mind);
    reading.memory().unwrap().load_index().unwrap();
    for forget in [
        Forget::Session("harbour".to_owned()),
        Forget::Id {
            kind: None,
            id: "marta".to_owned(),
        },
    ] {
        mind.memory().forget(&forget).unwrap();
        assert!(!path(&mind).exists());
    }
    // A process that had read the file does not write it again.
    for engine in [&mind.lab.engine, &reading] {
        let found = ask_with(engine, &query_for("Who can weld the keel?", 400));
        assert!(!found.content.contains("Marta") && !found.content.contains("keel"));
        engine.memory().unwrap().save_index().unwrap();
        if path(&mind).exists() {
            assert_eq!(names(&path(&mind)), (false, false));
        }
    }
    assert!(path(&mind).exists());
    let fresh = another(&mind);
    assert!(fresh.memory().unwrap().has_index_file().unwrap());
    check_same(&mind, &fresh);
}
