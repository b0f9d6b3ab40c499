//! Measures whether recording and walking cost the same in a store of a million
//! turns as in one of a thousand.
//!
//! ```text
//! cargo run --release -p contexture-sqlite --example scale [TURNS [DIRECTORY]]
//! ```
//!
//! Both stores are measured in turns, a few operations each, so that a machine
//! that is busy for a while is busy for both.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use contexture_sqlite::SqliteStore;
use contexture_store::{
    Counted, Ledger, Message, MessageContent, MessageRole, NewSession, NewTurn, TurnId, Walk,
};
use jiff::Timestamp;

const COUNTER: &str = "o200k_base";
/// Half of all turns are in one session, the rest in these.
const OTHERS: u64 = 1000;

fn now() -> Timestamp {
    Timestamp::now()
}

fn turn(n: u64) -> NewTurn {
    let message = |role, text: String| Message {
        role,
        source: None,
        content: MessageContent::Text(text),
        tool_call_id: None,
        is_error: false,
        context_json: None,
    };
    let filler = "the build fails again and nobody knows why ".repeat(5);
    NewTurn {
        messages: vec![
            message(MessageRole::User, format!("question {n}: {filler}")),
            message(
                MessageRole::Assistant,
                format!("answer {n}: {filler}{filler}"),
            ),
        ],
        model: Some("some-model".to_owned()),
        provider: Some("some-provider".to_owned()),
        ..NewTurn::default()
    }
}

fn counted() -> Counted {
    Counted {
        counter: COUNTER.to_owned(),
        blocks: vec![vec![55], vec![105]],
    }
}

fn label(n: u64) -> String {
    match n % 2 {
        0 => "long".to_owned(),
        _ => format!("other-{}", n / 2 % OTHERS),
    }
}

fn record(store: &SqliteStore, n: u64) -> TurnId {
    let recorded = store.record(&label(n), &turn(n), Some(&counted()), None, now());
    recorded.unwrap().id
}

/// Creates a store with this many turns. Many writers share the commits.
fn build(path: &Path, turns: u64) -> SqliteStore {
    let store = SqliteStore::open(path).unwrap();
    let labels = (0..OTHERS).map(|n| label(2 * n + 1));
    for label in labels.chain([label(0)]) {
        let new = NewSession {
            label,
            ..NewSession::default()
        };
        store.create_session(&new, now()).unwrap();
    }
    let (next, start) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..256 {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= turns {
                        break;
                    }
                    record(&store, n);
                }
            });
        }
    });
    let took = start.elapsed();
    let bytes = std::fs::metadata(path).unwrap().len();
    println!(
        "{turns} turns written by 256 writers in {:.1} s: {:.0} per second, {} bytes each",
        took.as_secs_f64(),
        turns as f64 / took.as_secs_f64(),
        bytes / turns.max(1)
    );
    store
}

/// Times of one kind of operation on the small store and on the large one.
#[derive(Default)]
struct Times([Vec<Duration>; 2]);

impl Times {
    fn add(&mut self, which: usize, operation: impl FnOnce()) {
        let start = Instant::now();
        operation();
        self.0[which].push(start.elapsed());
    }

    fn print(mut self, what: &str) {
        for times in &mut self.0 {
            times.sort();
        }
        let at = |which: usize, part: f64| {
            let times: &Vec<Duration> = &self.0[which];
            times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e6
        };
        println!(
            "{what:<34} {:>7.0} µs (p99 {:>7.0})   {:>7.0} µs (p99 {:>7.0})   ratio {:.2}",
            at(0, 0.5),
            at(0, 0.99),
            at(1, 0.5),
            at(1, 0.99),
            at(1, 0.5) / at(0, 0.5)
        );
    }
}

fn walk(store: &SqliteStore, at_least: usize) -> usize {
    let head = store.session("long").unwrap().head.unwrap();
    let walk = Walk {
        counter: COUNTER,
        tokens: 0,
        at_least,
        through: None,
    };
    store.walk(head, &walk).unwrap().len()
}

/// Records with 64 writers for a while. Returns the acknowledged turns per
/// second, and the median time of one turn.
fn many_writers(store: &SqliteStore, next: &AtomicU64) -> (f64, f64) {
    let (start, length) = (Instant::now(), Duration::from_secs(3));
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..64)
            .map(|_| {
                scope.spawn(|| {
                    let mut times = Vec::new();
                    while start.elapsed() < length {
                        let begun = Instant::now();
                        record(store, next.fetch_add(1, Ordering::Relaxed));
                        times.push(begun.elapsed());
                    }
                    times
                })
            })
            .collect();
        writers
            .into_iter()
            .flat_map(|it| it.join().unwrap())
            .collect()
    });
    times.sort();
    let per_second = times.len() as f64 / start.elapsed().as_secs_f64();
    (per_second, times[times.len() / 2].as_secs_f64() * 1e6)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let turns = arguments.next().map_or(1_000_000, |n| n.parse().unwrap());
    let directory = tempfile::tempdir_in(arguments.next().unwrap_or(".".to_owned())).unwrap();
    // The path that is walked has 500 turns in the small store, too.
    let small = build(&directory.path().join("small.db"), 1000);
    let large = build(&directory.path().join("large.db"), turns);
    let stores = [&small, &large];
    let next = AtomicU64::new(10 * turns);
    let (mut records, mut walks, mut tails) = <(Times, Times, Times)>::default();
    for _ in 0..100 {
        for (which, store) in stores.into_iter().enumerate() {
            for _ in 0..5 {
                let n = next.fetch_add(1, Ordering::Relaxed);
                records.add(which, || {
                    record(store, n);
                });
            }
            walks.add(which, || assert_eq!(walk(store, 500), 500));
            tails.add(which, || assert_eq!(walk(store, 20), 20));
        }
    }
    println!("{:<34} {:<26} {turns} turns", "", "1000 turns");
    records.print("record, one writer");
    walks.print("session + walk of 500 turns");
    tails.print("session + walk of 20 turns");
    for (which, store) in stores.into_iter().enumerate() {
        let (per_second, middle) = many_writers(store, &next);
        let name = ["small", "large"][which];
        println!("64 writers, {name} store: {per_second:.0} per second, {middle:.0} µs each");
    }
    let start = Instant::now();
    SqliteStore::open_read_only(directory.path().join("large.db")).unwrap();
    println!(
        "open for reading: {:.0} µs",
        start.elapsed().as_secs_f64() * 1e6
    );
}
