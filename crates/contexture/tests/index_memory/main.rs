//! Memory indexes stay within a limit for the process, and an index that was
//! evicted gives the same recall.
//!
//! The limit is the process's, so each test holds [`LIMIT`].
#![allow(clippy::unwrap_used)]

#[path = "../memory/fixture.rs"]
#[allow(dead_code)]
mod fixture;
#[path = "../support/mod.rs"]
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

use contexture::Engine;
use contexture::memory::index_memory::{self, IndexStats};
use contexture::memory::{Context, Recall};

use fixture::{TestMemory, now, query_for, said};

/// Vectors that are made at once.
const STATIC: &str = "[memory]\nembedder = \"static\"\n";

static LIMIT: Mutex<()> = Mutex::new(());

/// Holds the limit of the process. The end of the test removes it.
struct Limited {
    _held: MutexGuard<'static, ()>,
}

impl Limited {
    fn new() -> Self {
        Self {
            _held: LIMIT.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        index_memory::set_limit(u64::MAX);
    }
}

const QUERIES: [&str; 6] = [
    "Which crate holds 3 valves?",
    "What happened on 5 January 2026?",
    "Who has the valves of crate 17?",
    "Where is crate 40?",
    "valves",
    "What did Ana say about crate 9?",
];

fn memory_of(texts: usize) -> TestMemory {
    let mind = TestMemory::with(STATIC);
    let lines: String = (0..texts)
        .map(|i| {
            let time = format!("2026-01-{:02}T{:02}:00:00Z", 1 + i / 80 % 28, i % 24);
            let text = format!("Crate {i} holds {} valves.", i % 17);
            said(
                &format!("n{i}"),
                &format!("s{}", i / 20),
                &time,
                "Ana",
                &text,
            )
        })
        .collect();
    mind.record(&lines);
    mind
}

fn ask(engine: &Engine, query: &str) -> Context {
    let how = Recall {
        now: Some(now()),
        ..Recall::default()
    };
    let recalled = engine
        .memory()
        .unwrap()
        .recall(&query_for(query, 600), &how);
    (*recalled.unwrap().context).clone()
}

/// Returns the answers of an engine whose index is never evicted.
fn expected(mind: &TestMemory) -> Vec<String> {
    index_memory::set_limit(u64::MAX);
    let engine = mind.lab.another(STATIC);
    let answers = QUERIES.iter().map(|query| ask(&engine, query));
    answers.map(|context| context.content).collect()
}

/// Loads the index of a memory, and returns its size.
fn load(mind: &TestMemory) -> u64 {
    let before = index_memory::stats().bytes;
    mind.memory().load_index().unwrap();
    index_memory::stats().bytes - before
}

#[test]
fn an_evicted_index_gives_the_same_recall() {
    let _limited = Limited::new();
    let mind = memory_of(2_100);
    let expected = expected(&mind);
    for saved in [false, true] {
        // The second engine reads the file.
        let engine = mind.lab.another(STATIC);
        engine.memory().unwrap().load_index().unwrap();
        if saved {
            engine.memory().unwrap().save_index().unwrap();
        }
        for (query, expected) in QUERIES.iter().zip(&expected) {
            index_memory::set_limit(1);
            let stats = index_memory::stats();
            assert_eq!((stats.indexes, stats.bytes), (0, 0), "{stats:?}");
            index_memory::set_limit(u64::MAX);
            assert_eq!(ask(&engine, query).content, *expected, "{query}");
            assert_eq!(index_memory::stats().indexes, 1);
        }
    }
}

#[test]
fn a_record_that_is_forgotten_while_its_index_is_evicted_is_not_recalled() {
    let _limited = Limited::new();
    let mind = memory_of(30);
    let request = query_for("Crate 7", 600);
    assert!(mind.ask(&request).content.contains("Crate 7 holds"));
    index_memory::set_limit(1);
    index_memory::set_limit(u64::MAX);
    // Another process would delete with an engine of its own.
    let other = mind.lab.another(STATIC);
    let forget = contexture::store::Forget::Id {
        kind: None,
        id: "n7".to_owned(),
    };
    other.memory().unwrap().forget(&forget).unwrap();
    assert!(!mind.ask(&request).content.contains("Crate 7 holds"));
}

#[test]
fn an_index_above_its_share_evicts_no_other() {
    let _limited = Limited::new();
    let (large, a, b) = (memory_of(2_100), memory_of(60), memory_of(60));
    let expected = expected(&large);
    let small = load(&a) + load(&b);
    let before = index_memory::stats();
    assert_eq!((before.indexes, before.bytes), (2, small));
    index_memory::set_limit(2 * small);
    for (query, expected) in QUERIES.iter().zip(&expected) {
        assert_eq!(ask(&large.lab.engine, query).content, *expected, "{query}");
        let IndexStats { indexes, bytes, .. } = index_memory::stats();
        assert_eq!((indexes, bytes), (2, small));
    }
    let after = index_memory::stats();
    assert!(
        after.passing >= before.passing + QUERIES.len() as u64,
        "{after:?}"
    );
    // With room for it, the index stays.
    index_memory::set_limit(u64::MAX);
    ask(&large.lab.engine, "Where is crate 1?");
    assert_eq!(index_memory::stats().indexes, 3);
}

#[test]
fn the_least_recently_used_index_is_evicted() {
    let _limited = Limited::new();
    let minds: Vec<TestMemory> = (0..6).map(|_| memory_of(60)).collect();
    let size = load(&minds[0]);
    index_memory::set_limit(size * 5 + size / 2);
    for mind in &minds[1..5] {
        load(mind);
    }
    ask(&minds[0].lab.engine, "valves");
    let before = index_memory::stats();
    assert_eq!(before.indexes, 5, "{before:?}");
    ask(&minds[5].lab.engine, "valves");
    let after = index_memory::stats();
    assert_eq!(after.indexes, 5, "{after:?}");
    assert_eq!(after.evictions, before.evictions + 1);
    // The second is evicted, not the first.
    ask(&minds[0].lab.engine, "Crate 1");
    assert_eq!(index_memory::stats().evictions, after.evictions);
    ask(&minds[1].lab.engine, "Crate 1");
    assert_eq!(index_memory::stats().evictions, after.evictions + 1);
}

#[test]
fn recalls_during_evictions_are_right() {
    let _limited = Limited::new();
    let minds: Vec<TestMemory> = [900, 300, 200, 100, 50].map(memory_of).into();
    let expected: Vec<Vec<String>> = minds.iter().map(expected).collect();
    let sizes: Vec<u64> = minds.iter().map(load).collect();
    // The largest never fits next to others, and the others not all.
    let limit = sizes[1] + sizes[2] + sizes[3];
    index_memory::set_limit(limit);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (minds, expected) = (&minds, &expected);
            scope.spawn(move || {
                for round in 0..30 {
                    let which = (thread + round) % minds.len();
                    let query = (thread * 7 + round) % QUERIES.len();
                    let answer = ask(&minds[which].lab.another(STATIC), QUERIES[query]);
                    assert_eq!(answer.content, expected[which][query]);
                    let answer = ask(&minds[which].lab.engine, QUERIES[query]);
                    assert_eq!(answer.content, expected[which][query]);
                }
            });
        }
    });
    let stats = index_memory::stats();
    assert!(stats.bytes <= limit, "{stats:?}");
    assert!(stats.evictions > 0);
}
