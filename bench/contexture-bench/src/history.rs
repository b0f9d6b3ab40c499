//! A long history against a short one: what is paid is the tail.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, ensure};
use contexture::store::{Ledger as _, MessageRole, NewSession, NewTurn};
use contexture::{Assembled, Engine};
use contexture_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::durable::{ANSWERED, ASKED};
use crate::project::{self, Project, SESSION};
use crate::{counter, cpu_ms, runs};

const BUDGET: u64 = 32_000;

/// Writers that share commits while a history is made.
const WRITERS: u64 = 256;

/// Compares two sessions that differ only in their length.
///
/// The stores are made once and kept in `data`; each run works on a fork.
pub(crate) fn history(turns: [u64; 2], data: &Path, dir: &Path) -> anyhow::Result<()> {
    counter().count("load the vocabulary");
    let mut made = Vec::new();
    for turns in turns {
        made.push(Subject::open(turns, data, dir)?);
    }

    // What was never summarised is summarised by the first request: bounded,
    // but not what later requests pay.
    for subject in &mut made {
        let (time, first) = subject.cold()?;
        subject.first = time;
        let compacted = first.compacted().context("the first request summarises")?;
        subject.first_summarised = compacted.turns;
    }
    // The two take turns, so that a busy machine is busy for both.
    for _ in 0..runs(15) {
        for subject in &mut made {
            let (time, assembled) = subject.cold()?;
            ensure!(assembled.compacted().is_none(), "it is summarised already");
            subject.cold.push(time);
        }
    }
    for subject in &mut made {
        subject.warm()?;
    }
    for _ in 0..runs(51) {
        for subject in &mut made {
            let time = subject.warm()?;
            subject.warm.push(time);
        }
    }
    for i in 0..runs(101) {
        for subject in &mut made {
            let turn = turn(subject.turns + i as u64);
            let engine = &subject.engine;
            let before = cpu_ms();
            engine.record(&subject.label, &turn, None)?;
            subject.record.push(cpu_ms() - before);
        }
    }
    let [small, large] = made.as_mut_slice() else {
        anyhow::bail!("two sessions are compared");
    };
    println!(
        "{}",
        json!({"budget": BUDGET, "small": small.figures(), "large": large.figures()})
    );
    Ok(())
}

struct Subject {
    turns: u64,
    label: String,
    path: PathBuf,
    project: Project,
    engine: Engine,
    built: f64,
    first: f64,
    first_summarised: usize,
    cold: Vec<f64>,
    warm: Vec<f64>,
    record: Vec<f64>,
    kept: usize,
    tokens: u64,
}

impl Subject {
    fn open(turns: u64, data: &Path, dir: &Path) -> anyhow::Result<Self> {
        let path = data.join(format!("history-{turns}.db"));
        let built = build(turns, &path)?;
        let project = Project::new(&dir.join(turns.to_string()), path.clone())?;
        let store = project.store()?;
        let session = store.session(SESSION)?;
        ensure!(
            session.turns == turns,
            "{} turns, not {turns}",
            session.turns
        );
        let label = format!("run-{}", contexture::Timestamp::now().as_millisecond());
        let fork = NewSession {
            label: label.clone(),
            head: session.head,
            ..NewSession::default()
        };
        store.create_session(&fork, contexture::Timestamp::now())?;
        // Counts that were made while building are those that the engine looks
        // for.
        let head = session.head.context("a session with turns")?;
        let name = project::counted(&turn(0)).counter;
        let latest = store.turns(&[head], &name)?;
        ensure!(latest[0].counts.is_some(), "no counts by {name}");
        Ok(Self {
            engine: project.engine(&store)?,
            turns,
            label,
            path,
            project,
            built,
            first: 0.0,
            first_summarised: 0,
            cold: Vec::new(),
            warm: Vec::new(),
            record: Vec::new(),
            kept: 0,
            tokens: 0,
        })
    }

    /// Opens the store and assembles with an engine that has seen nothing.
    fn cold(&mut self) -> anyhow::Result<(f64, Assembled)> {
        let request = project::request(&self.label, "What changed?", BUDGET, 0);
        let before = cpu_ms();
        let engine = self.project.engine(&self.project.store()?)?;
        let assembled = engine.assemble(&self.project.root, &request)?;
        let time = cpu_ms() - before;
        self.kept = assembled.layout.history.len();
        self.tokens = assembled.report.budget.used;
        Ok((time, assembled))
    }

    fn warm(&mut self) -> anyhow::Result<f64> {
        let request = project::request(&self.label, "What changed?", BUDGET, 0);
        let before = cpu_ms();
        self.engine.assemble(&self.project.root, &request)?;
        Ok(cpu_ms() - before)
    }

    fn figures(&mut self) -> Value {
        let middle = |times: &mut Vec<f64>| -> f64 {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let bytes = std::fs::metadata(&self.path).map_or(0, |file| file.len());
        json!({
            "turns": self.turns,
            "bytes": bytes,
            "built_seconds": self.built,
            "kept": self.kept,
            "tokens": self.tokens,
            "first_cpu_ms": self.first,
            "first_summarised_turns": self.first_summarised,
            "cold_cpu_ms": middle(&mut self.cold),
            "warm_cpu_ms": middle(&mut self.warm),
            "record_cpu_ms": middle(&mut self.record),
        })
    }
}

fn turn(n: u64) -> NewTurn {
    project::turn(vec![
        project::said(MessageRole::User, format!("{n}: {ASKED}")),
        project::said(MessageRole::Assistant, format!("{n}: {ANSWERED}")),
    ])
}

/// Makes the store at `path` unless it is there. Returns the seconds it took.
fn build(turns: u64, path: &Path) -> anyhow::Result<f64> {
    if path.exists() {
        return Ok(0.0);
    }
    let start = std::time::Instant::now();
    // Under another name until it is whole.
    let partial = path.with_extension("partial");
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", partial.display()));
    }
    let store = SqliteStore::open(&partial)?;
    store.create_session(&project::session(SESSION), project::clock(0))?;
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let write = || -> anyhow::Result<()> {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= turns {
                    return Ok(());
                }
                let turn = turn(n);
                let counted = project::counted(&turn);
                store.record(SESSION, &turn, Some(&counted), None, project::clock(0))?;
            }
        };
        let threads: Vec<_> = (0..WRITERS.min(turns))
            .map(|_| scope.spawn(write))
            .collect();
        for thread in threads {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a writer panicked"))??;
        }
        Ok(())
    })?;
    drop(store);
    std::fs::rename(&partial, path)?;
    Ok(start.elapsed().as_secs_f64())
}
