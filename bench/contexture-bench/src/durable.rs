//! Turns that are on disk when the call returns.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use contexture::store::{Ledger as _, MessageRole};
use serde_json::json;

use crate::counter;
use crate::project::{self, Project};

/// How long is recorded for, so many times: how fast a disk syncs changes with
/// what others do to it.
const LENGTH: Duration = Duration::from_secs(1);
const ROUNDS: usize = 5;

/// Records turns with one writer and with 64, each in a session of its own, and
/// syncs a plain file for comparison.
pub(crate) fn durable(dir: &Path) -> anyhow::Result<()> {
    counter().count("load the vocabulary");
    let (mut syncs, mut one, mut many) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        syncs.push(plain_syncs(dir)?);
        one.push(writers(dir, 1, round)?);
        many.push(writers(dir, 64, round)?);
    }
    let middle = |mut of: Vec<f64>| {
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    };
    let figures = |rounds: &[Round]| {
        let each = |of: fn(&Round) -> f64| middle(rounds.iter().map(of).collect());
        json!({
            "per_second": each(|round| round.per_second),
            "wall_ms_median": each(|round| round.median_ms),
            "wall_ms_p99": each(|round| round.p99_ms),
            "cpu_ms_each": each(|round| round.cpu_ms),
            "rounds": rounds.iter().map(|round| round.per_second).collect::<Vec<_>>(),
        })
    };
    println!(
        "{}",
        json!({
            "syncs_per_second": middle(syncs.clone()),
            "syncs": syncs,
            "one": figures(&one),
            "many": figures(&many),
        })
    );
    Ok(())
}

/// What one round gave.
struct Round {
    per_second: f64,
    median_ms: f64,
    p99_ms: f64,
    cpu_ms: f64,
}

/// Overwrites a file that has its size already, as a write-ahead log that is
/// used again does, and syncs each time.
fn plain_syncs(dir: &Path) -> anyhow::Result<f64> {
    const PAGES: u64 = 1024;
    let mut file = std::fs::File::create(dir.join("plain"))?;
    file.write_all(&vec![0; 4096 * PAGES as usize])?;
    file.sync_all()?;
    let (start, mut syncs) = (Instant::now(), 0_u64);
    while start.elapsed() < LENGTH / 2 {
        file.seek(SeekFrom::Start(syncs % PAGES * 4096))?;
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        syncs += 1;
    }
    Ok(syncs as f64 / start.elapsed().as_secs_f64())
}

fn writers(dir: &Path, writers: usize, round: usize) -> anyhow::Result<Round> {
    let db = dir.join(format!("durable-{writers}-{round}.db"));
    let project = Project::new(&dir.join("root"), db)?;
    let store = project.store()?;
    for writer in 0..writers {
        let new = project::session(&writer.to_string());
        store.create_session(&new, project::clock(0))?;
    }
    let engine = project.engine(&store)?;
    let next = AtomicU64::new(0);
    let cpu = crate::cpu_ms();
    let start = Instant::now();
    let write = |writer: usize| -> anyhow::Result<Vec<Duration>> {
        let (label, mut times) = (writer.to_string(), Vec::new());
        while start.elapsed() < LENGTH {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let turn = project::turn(vec![
                project::said(MessageRole::User, format!("{n}: {ASKED}")),
                project::said(MessageRole::Assistant, format!("{n}: {ANSWERED}")),
            ]);
            let begun = Instant::now();
            engine.record(&label, &turn, None)?;
            times.push(begun.elapsed());
        }
        Ok(times)
    };
    let write = &write;
    let mut times = std::thread::scope(|scope| -> anyhow::Result<Vec<Duration>> {
        let threads: Vec<_> = (0..writers)
            .map(|writer| scope.spawn(move || write(writer)))
            .collect();
        let mut times = Vec::new();
        for thread in threads {
            let own = thread.join();
            times.extend(own.map_err(|_| anyhow::anyhow!("a writer panicked"))??);
        }
        Ok(times)
    })?;
    let took = start.elapsed().as_secs_f64();
    times.sort();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    Ok(Round {
        per_second: times.len() as f64 / took,
        median_ms: at(0.5),
        p99_ms: at(0.99),
        cpu_ms: (crate::cpu_ms() - cpu) / times.len() as f64,
    })
}

pub(crate) const ASKED: &str = "The build fails again on the second machine, with the same \
    message as last week about a symbol that is not found. What changed since then?";
pub(crate) const ANSWERED: &str = "Two things changed: the linker was updated, and the order of \
    the libraries on its command line follows the order of the manifest now. The symbol is in a \
    library that is named before the one that needs it, so the linker has dropped it by the time \
    it is looked for. Name it behind, or once more at the end.";
