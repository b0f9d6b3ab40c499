//! Measures a memory: the rate of recorded events, the time to build an index,
//! and the reads of a recall.
//!
//! ```text
//! cargo run --release -p contexture-sqlite --example memory [EVENTS [DIRECTORY]]
//! ```
//!
//! Events are recorded in calls of 1000. Each has a hash as its id, a vector of
//! 256 bytes, words of about 100 bytes and two mentions.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use contexture_core::ContentHash;
use contexture_sqlite::SqliteStore;
use contexture_store::{
    Analysis, Derived, EmbedderInfo, EventRecord, Forget, Link, Memories, Mention, NewRecord,
    Record, RecordKey, Sketch,
};
use jiff::Timestamp;

const CALL: u64 = 1000;
const PAGE: usize = 10_000;
/// The number of entities. The first ones are mentioned most.
const NAMES: u64 = 50_000;

fn analysis() -> Analysis {
    Analysis {
        words: 1,
        embedder: Some(EmbedderInfo {
            name: "m".to_owned(),
            dimensions: 256,
        }),
    }
}

fn mention(n: u64) -> Mention {
    let name = format!("Name {n}");
    Mention {
        entity_type: "person".to_owned(),
        key: name.to_lowercase(),
        name,
    }
}

fn event(n: u64) -> NewRecord {
    let hash = ContentHash::of(&n.to_le_bytes());
    let bytes = hash.as_bytes();
    let random = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let id: String = bytes[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let text = format!("event {n}: the build fails again and nobody knows why; somebody looks");
    let record = EventRecord {
        id: format!("e-{id}"),
        session_id: Some(format!("session-{}", n / 200)),
        timestamp: Some(Timestamp::from_second(1_700_000_000 + n as i64).unwrap()),
        event_type: "user_message".to_owned(),
        actor: Some("somebody".to_owned()),
        content: serde_json::json!({"speaker": "somebody", "text": text.repeat(2)}),
        outcome: None,
        parent_id: None,
        summary: None,
        keywords: Vec::new(),
        task_id: None,
        source: None,
        valid_from: None,
        valid_to: None,
        supersedes: None,
        visible_to: Vec::new(),
        user: None,
        agent: None,
    };
    // The square makes a few names frequent.
    let name = |random: u64| (random % NAMES) * (random % 977) / 977;
    NewRecord {
        record: Record::Event(record),
        derived: Derived {
            words: Some(bytes.repeat(3)),
            vector: Some(bytes.repeat(8)),
            speaker: Some("somebody".to_owned()),
            names: Vec::new(),
            mentions: vec![mention(name(random)), mention(NAMES + name(random >> 20))],
            links: match n % 10 {
                0 => vec![Link {
                    relation_type: "knows".to_owned(),
                    from: 0,
                    to: 1,
                }],
                _ => Vec::new(),
            },
        },
    }
}

fn each(name: &str, times: u32, mut work: impl FnMut()) {
    let mut took: Vec<Duration> = (0..times)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    took.sort();
    println!(
        "{name}: median {:?}, worst {:?}",
        took[took.len() / 2],
        took[took.len() - 1]
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let events: u64 = args.next().map_or(1_000_000, |n| n.parse().unwrap());
    let directory = args.next().map_or_else(std::env::temp_dir, Into::into);
    let directory = tempfile::tempdir_in(directory).unwrap();
    let path = directory.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let mut spent = Duration::ZERO;
    let mut stretch = Duration::ZERO;
    for call in 0..events / CALL {
        let new: Vec<NewRecord> = (call * CALL..(call + 1) * CALL).map(event).collect();
        let start = Instant::now();
        store.remember(&new, &analysis(), Timestamp::now()).unwrap();
        stretch += start.elapsed();
        if (call + 1) % 100 == 0 || call + 1 == events / CALL {
            spent += stretch;
            let calls = match (call + 1) % 100 {
                0 => 100,
                rest => rest,
            };
            let rate = (calls * CALL) as f64 / stretch.as_secs_f64();
            println!("{} events: {rate:.0} events/s", (call + 1) * CALL);
            stretch = Duration::ZERO;
        }
    }
    println!("all: {:.0} events/s", events as f64 / spent.as_secs_f64());
    println!("file: {} MB", std::fs::metadata(&path).unwrap().len() >> 20);
    drop(store);

    for round in ["first", "warm"] {
        let store = SqliteStore::open(&path).unwrap();
        let (start, mut after, mut texts, mut others) = (Instant::now(), 0, 0, 0);
        loop {
            let changes = store.changes(after, PAGE).unwrap();
            let Some(last) = changes.last() else { break };
            after = last.seq;
            let is_text = |sketch: &Option<Sketch>| matches!(sketch, Some(Sketch::Text(_)));
            let found = changes.iter().filter(|it| is_text(&it.sketch)).count();
            texts += found;
            others += changes.len() - found;
        }
        let took = start.elapsed();
        println!("{round} load of {texts} texts and {others} others: {took:?}");
    }

    let store = SqliteStore::open(&path).unwrap();
    let last = store.memory_state().unwrap().seq;
    each("memory_state", 1000, || {
        store.memory_state().unwrap();
    });
    each("changes, none", 1000, || {
        assert!(store.changes(last, PAGE).unwrap().is_empty());
    });
    each("changes, the last 100", 1000, || {
        assert!(!store.changes(last - 100, PAGE).unwrap().is_empty());
    });
    let keys: Vec<RecordKey> = (0..200).map(|n| 1 + n * (events as i64 / 300)).collect();
    each("200 records", 200, || {
        assert_eq!(store.records(&keys).unwrap().len(), 200);
    });
    let again: Vec<NewRecord> = (0..CALL).map(event).collect();
    each("1000 events that are there", 20, || {
        store
            .remember(&again, &analysis(), Timestamp::now())
            .unwrap();
    });
    let one = |n: u64| [event(n)];
    let mut n = events;
    each("one event", 200, || {
        n += 1;
        store
            .remember(&one(n), &analysis(), Timestamp::now())
            .unwrap();
    });
    let mut session = 0;
    each("forgetting a session of 200", 3, || {
        session += 1;
        store
            .forget(&Forget::Session(format!("session-{session}")))
            .unwrap();
    });
    let start = Instant::now();
    store.memory_stats().unwrap();
    println!("memory_stats: {:?}", start.elapsed());
    let next = EmbedderInfo {
        name: "next".to_owned(),
        dimensions: 256,
    };
    let start = Instant::now();
    store.use_embedder(&next).unwrap();
    println!("use_embedder: {:?}", start.elapsed());
}
