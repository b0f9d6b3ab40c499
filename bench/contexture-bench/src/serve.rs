//! What a server does for each request, without the network: assemble a warm
//! session, render it for a provider, and write its report.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use contexture::store::{Ledger as _, MessageRole};
use contexture::{Engine, Format, Request, Timestamp};
use contexture_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::cache::Script;
use crate::counter;
use crate::durable::ANSWERED;
use crate::project::{self, Project};

const TURNS: usize = 50;

/// The sessions that threads of their own ask for.
const SESSIONS: usize = 8;

/// Asks for sessions of 50 turns from several threads, as fast as they can, for
/// so long each time.
pub(crate) fn serve(file: &str, dir: &Path, seconds: f64) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file)?;
    let length = Duration::from_secs_f64(seconds);
    let mut rows = Vec::new();
    let mut sizes = json!({});
    for (name, talk) in [("tools", Talk::Tools), ("plain", Talk::Plain)] {
        for keep in [true, false] {
            let dir = dir.join(format!("{name}-{keep}"));
            let served = Served::new(&text, &dir, SESSIONS, talk, keep)?;
            sizes[name] = served.sizes()?;
            for (who, event) in [
                (Who::Shared, Event::New),
                (Who::Shared, Event::Same),
                (Who::Own, Event::New),
            ] {
                for threads in [1, 2, 8] {
                    let mut row = served.run(threads, who, event, length)?;
                    row["snapshots"] = keep.into();
                    row["talk"] = name.into();
                    rows.push(row);
                }
            }
            for threads in [1, 2, 8] {
                let mut row = served.record_and_ask(threads, length)?;
                row["snapshots"] = keep.into();
                row["talk"] = name.into();
                rows.push(row);
            }
        }
    }
    println!("{}", json!({"sizes": sizes, "rows": rows}));
    Ok(())
}

/// Asks so many times from one thread, for a profiler.
pub(crate) fn one(file: &str, dir: &Path, requests: u64) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file)?;
    let talk = match std::env::var_os("PLAIN") {
        Some(_) => Talk::Plain,
        None => Talk::Tools,
    };
    let served = Served::new(&text, dir, 1, talk, true)?;
    served.ask("0", &event(0))?;
    let cpu = crate::cpu_ms();
    for n in 1..=requests {
        served.ask("0", &event(n))?;
    }
    let cpu = (crate::cpu_ms() - cpu) / requests as f64;
    println!("{}", json!({"cpu_ms_each": cpu}));
    Ok(())
}

/// Asks for `sessions` sessions in turn, `requests` times, with an event that is
/// new each time, and says how much memory the process has on the way.
pub(crate) fn growth(file: &str, dir: &Path, requests: u64, sessions: usize) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file)?;
    let served = Served::new(&text, &dir.join("growth"), sessions, Talk::Plain, true)?;
    let mut resident = Vec::new();
    let next = AtomicU64::new(0);
    for part in 1..=10 {
        let until = requests * part / 10;
        std::thread::scope(|scope| -> anyhow::Result<()> {
            let ask = || -> anyhow::Result<()> {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= until {
                        return Ok(());
                    }
                    served.ask(&(n as usize % sessions).to_string(), &event(n))?;
                }
            };
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(ask)).collect();
            for thread in threads {
                thread
                    .join()
                    .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            }
            Ok(())
        })?;
        next.store(until, Ordering::Relaxed);
        resident.push((until, resident_mb()?));
    }
    println!(
        "{}",
        json!({"sessions": sizes_of(sessions), "resident_mb": resident})
    );
    Ok(())
}

fn sizes_of(sessions: usize) -> Value {
    json!({"sessions": sessions, "turns": TURNS})
}

/// The memory of the process, in megabytes.
fn resident_mb() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kb = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kb.context("no VmRSS")?.parse::<u64>()? / 1024)
}

/// What is said in a session.
#[derive(Clone, Copy, PartialEq)]
enum Talk {
    /// As in `cache`: tools are called, and return some hundred lines.
    Tools,
    /// A question and an answer of some sentences in each turn.
    Plain,
}

/// Whose session a thread asks for.
#[derive(Clone, Copy, PartialEq)]
enum Who {
    Shared,
    Own,
}

/// What is asked.
#[derive(Clone, Copy, PartialEq)]
enum Event {
    New,
    Same,
}

fn event(n: u64) -> String {
    format!("Question {n}: what changed in the parts that were read, and does the build pass now?")
}

/// An engine with sessions in its store.
struct Served {
    project: Project,
    engine: Engine,
}

impl Served {
    fn new(
        text: &str,
        dir: &Path,
        sessions: usize,
        talk: Talk,
        keep: bool,
    ) -> anyhow::Result<Self> {
        let script = Script::new(text, TURNS);
        script.write_project(&dir.join("root"))?;
        let mut project = Project::new(&dir.join("root"), dir.join("store.db"))?;
        project.config.snapshots.keep = keep;
        let store = project.store()?;
        let engine = project.served_engine(&store)?;
        let fill = |label: usize| fill(&script, talk, &engine, &store, &label.to_string());
        // Several at a time share the wait for the disk.
        let next = AtomicU64::new(0);
        std::thread::scope(|scope| -> anyhow::Result<()> {
            let work = || -> anyhow::Result<()> {
                loop {
                    let label = next.fetch_add(1, Ordering::Relaxed) as usize;
                    if label >= sessions {
                        return Ok(());
                    }
                    fill(label)?;
                }
            };
            let threads: Vec<_> = (0..32).map(|_| scope.spawn(work)).collect();
            for thread in threads {
                thread
                    .join()
                    .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            }
            Ok(())
        })?;
        Ok(Self { project, engine })
    }

    /// Does what a handler does for a request. Returns how many bytes it would
    /// answer with.
    fn ask(&self, session: &str, event: &str) -> anyhow::Result<usize> {
        let request = Request {
            session: Some(session.to_owned()),
            event: Some(event.into()),
            format: Some(Format::Anthropic),
            ..Request::default()
        };
        let assembled = self.engine.assemble(&self.project.root, &request)?;
        let body = assembled.render(Format::Anthropic)?;
        let report = serde_json::to_vec(&assembled.report)?;
        ensure!(assembled.compacted().is_none(), "history was summarised");
        ensure!(
            assembled.report.warnings.is_empty(),
            "{:?}",
            assembled.report.warnings
        );
        Ok(body.len() + report.len())
    }

    fn sizes(&self) -> anyhow::Result<Value> {
        let request = Request {
            session: Some("0".to_owned()),
            event: Some("What now?".into()),
            format: Some(Format::Anthropic),
            ..Request::default()
        };
        let assembled = self.engine.assemble(&self.project.root, &request)?;
        Ok(json!({
            "tokens": assembled.report.budget.used,
            "blocks": assembled.report.included.len(),
            "body_bytes": assembled.render(Format::Anthropic)?.len(),
            "report_bytes": serde_json::to_vec(&assembled.report)?.len(),
        }))
    }

    fn run(
        &self,
        threads: usize,
        who: Who,
        what: Event,
        length: Duration,
    ) -> anyhow::Result<Value> {
        let next = AtomicU64::new(0);
        let mut row = timed(threads, length, |thread| {
            let session = match who {
                Who::Shared => 0,
                Who::Own => thread % SESSIONS,
            };
            let event = match what {
                Event::New => event(next.fetch_add(1, Ordering::Relaxed)),
                Event::Same => event(0),
            };
            self.ask(&session.to_string(), &event).map(drop)
        })?;
        row["sessions"] = if who == Who::Shared { "one" } else { "each" }.into();
        row["event"] = if what == Event::New { "new" } else { "same" }.into();
        Ok(row)
    }

    /// Asks, and records a short turn after each 50th request, so that sessions
    /// grow meanwhile.
    fn record_and_ask(&self, threads: usize, length: Duration) -> anyhow::Result<Value> {
        let next = AtomicU64::new(0);
        let mut row = timed(threads, length, |thread| {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let session = (thread % SESSIONS).to_string();
            self.ask(&session, &event(n))?;
            if n.is_multiple_of(50) {
                let turn = project::turn(vec![
                    project::said(MessageRole::User, event(n)),
                    project::said(MessageRole::Assistant, "It does."),
                ]);
                self.engine.record(&session, &turn, None)?;
            }
            Ok(())
        })?;
        row["sessions"] = "each, a turn recorded after each 50th request".into();
        row["event"] = "new".into();
        Ok(row)
    }
}

/// Calls `work` from several threads for a while, and says how it went.
fn timed(
    threads: usize,
    length: Duration,
    work: impl Fn(usize) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<Value> {
    counter().count("load the vocabulary");
    (0..threads).try_for_each(&work)?;
    let cpu = crate::cpu_ms();
    let start = Instant::now();
    let one = |thread: usize| -> anyhow::Result<Vec<Duration>> {
        let mut times = Vec::new();
        while start.elapsed() < length {
            let begun = Instant::now();
            work(thread)?;
            times.push(begun.elapsed());
        }
        Ok(times)
    };
    let one = &one;
    let mut times = std::thread::scope(|scope| -> anyhow::Result<Vec<Duration>> {
        let threads: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || one(thread)))
            .collect();
        let mut times = Vec::new();
        for thread in threads {
            let own = thread.join();
            times.extend(own.map_err(|_| anyhow::anyhow!("a thread panicked"))??);
        }
        Ok(times)
    })?;
    let took = start.elapsed().as_secs_f64();
    let cpu = crate::cpu_ms() - cpu;
    times.sort();
    let at = |part: f64| {
        let at = times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
        (at * 1e3).round() / 1e3
    };
    Ok(json!({
        "threads": threads,
        "per_second": (times.len() as f64 / took).round(),
        "cpu_ms_each": (cpu / times.len() as f64 * 1e4).round() / 1e4,
        "wall_ms_median": at(0.5),
        "wall_ms_p99": at(0.99),
    }))
}

fn fill(
    script: &Script<'_>,
    talk: Talk,
    engine: &Engine,
    store: &Arc<SqliteStore>,
    label: &str,
) -> anyhow::Result<()> {
    store.create_session(&project::session(label), Timestamp::now())?;
    for (i, said) in script.turns.iter().enumerate() {
        // No two sessions say the same.
        let asked = format!("Session {label}, {}", said.asked);
        let mut messages = vec![project::said(MessageRole::User, asked)];
        match talk {
            Talk::Tools => messages.extend(said.did.iter().cloned()),
            Talk::Plain => messages.push(project::said(MessageRole::Assistant, ANSWERED)),
        }
        engine
            .record(label, &project::turn(messages), None)
            .with_context(|| format!("turn {i}"))?;
    }
    Ok(())
}
