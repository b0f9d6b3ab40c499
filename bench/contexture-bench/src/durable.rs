//! Turns that are on disk when the call returns.

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use contexture::store::{Ledger as _, MessageRole};
use serde_json::json;

use crate::counter;
use crate::project::{self, Project};

/// How long is recorded for.
const LENGTH: Duration = Duration::from_secs(4);

/// Records turns with one writer and with 64, each in a session of its own, and
/// syncs a plain file for comparison: no store can acknowledge more often with
/// one writer.
pub(crate) fn durable(dir: &Path) -> anyhow::Result<()> {
    counter().count("load the vocabulary");
    let syncs = plain_syncs(dir)?;
    let one = writers(dir, 1)?;
    let many = writers(dir, 64)?;
    println!(
        "{}",
        json!({"syncs_per_second": syncs, "one": one, "many": many})
    );
    Ok(())
}

fn plain_syncs(dir: &Path) -> anyhow::Result<f64> {
    let mut file = std::fs::File::create(dir.join("plain"))?;
    let (start, mut syncs) = (Instant::now(), 0_u64);
    while start.elapsed() < LENGTH / 4 {
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        syncs += 1;
    }
    Ok(syncs as f64 / start.elapsed().as_secs_f64())
}

fn writers(dir: &Path, writers: usize) -> anyhow::Result<serde_json::Value> {
    let db = dir.join(format!("durable-{writers}.db"));
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
    Ok(json!({
        "writers": writers,
        "turns": times.len(),
        "per_second": times.len() as f64 / took,
        "wall_ms_median": at(0.5),
        "wall_ms_p99": at(0.99),
        "cpu_ms_each": (crate::cpu_ms() - cpu) / times.len() as f64,
    }))
}

pub(crate) const ASKED: &str = "The build fails again on the second machine, with the same \
    message as last week about a symbol that is not found. What changed since then?";
pub(crate) const ANSWERED: &str = "Two things changed: the linker was updated, and the order of \
    the libraries on its command line follows the order of the manifest now. The symbol is in a \
    library that is named before the one that needs it, so the linker has dropped it by the time \
    it is looked for. Name it behind, or once more at the end.";
