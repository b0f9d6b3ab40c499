//! What one record costs among many tenants, and in a memory at its cap.

use std::path::Path;
use std::sync::Arc;

use anyhow::ensure;
use contexture::store::{EventRecord, Record, Store, Tenants as _};
use contexture::{Engine, Timestamp};
use contexture_recall::{Embedder as _, StaticModel};
use serde_json::json;

use super::size::{now, project};
use super::{TIMED, Times, ask};
use crate::{counter, runs};

/// How many tenants record, of all that there are.
const RECORDING: usize = 10;

/// How many records each of them makes.
const EACH: usize = 30;

/// How many records are made at the cap.
const AT_CAP: usize = 200;

fn record(engine: &Engine, id: String, at: Timestamp) -> anyhow::Result<u64> {
    let text = format!("The locksmith of Quedlinburg left key number {id} with us.");
    let event: EventRecord = serde_json::from_value(json!({
        "id": id, "session_id": "keys", "timestamp": at, "type": "user_message",
        "content": {"speaker": "Ida", "text": text},
    }))?;
    let done = engine
        .memory()?
        .record(vec![Record::Event(event)], Some(at))?;
    ensure!(done.added == 1, "{done:?}");
    Ok(done.archived)
}

/// Records in a few of so many tenants: the first record of an engine, and
/// further ones.
pub(crate) fn tenants(count: usize, dir: &Path) -> anyhow::Result<()> {
    StaticModel::built_in().embed(&["load the embedder"])?;
    std::fs::create_dir_all(dir)?;
    let project = project(dir, dir.join("tenants.db"))?;
    let store = project.store()?;
    let engine = |number: usize| -> anyhow::Result<Engine> {
        let tenant: Arc<dyn Store> = store.tenant(&format!("tenant-{number}"));
        Ok(Engine::new(project.config.clone(), &project.root)?.with_store(tenant))
    };
    let at = now(0);
    for number in 0..count {
        record(&engine(number)?, "made".to_owned(), at)?;
    }
    let (mut first, mut further) = (Times::default(), Times::default());
    for one in 0..RECORDING {
        let engine = engine(one * count / RECORDING)?;
        first.take(|| record(&engine, "first".to_owned(), at))?;
        for number in 0..EACH {
            further.take(|| record(&engine, number.to_string(), at))?;
        }
    }
    println!(
        "{}",
        json!({
            "tenants": count,
            "first_of_an_engine": first.figures(),
            "further": further.figures(),
        })
    );
    Ok(())
}

/// Records in a memory that holds as many records as it may. The store is
/// changed: the oldest one in a hundred are archived.
pub(crate) fn cap(records: usize, db: &Path, dir: &Path) -> anyhow::Result<()> {
    counter().count("load the vocabulary");
    StaticModel::built_in().embed(&["load the embedder"])?;
    let mut project = project(dir, db.to_owned())?;
    project.config.memory.caps.events = records as u64;
    let engine = project.engine(&project.store()?)?;
    let at = now(records);
    let query = "key number 17 of the locksmith in Quedlinburg";
    ask(&engine, query, TIMED, at)?;
    let (mut times, mut archiving, mut archived) = (Times::default(), Times::default(), 0);
    for number in 0..runs(AT_CAP) {
        let mut one = Times::default();
        let more = one.take(|| record(&engine, format!("cap/{number}"), at))?;
        archived += more;
        let to = if more > 0 { &mut archiving } else { &mut times };
        to.wall.extend(one.wall);
        to.cpu.extend(one.cpu);
    }
    let mut recall = Times::default();
    recall.take(|| ask(&engine, query, TIMED, at))?;
    ensure!(!archiving.cpu.is_empty(), "the memory is not at its cap");
    println!(
        "{}",
        json!({
            "records": records,
            "recorded": times.cpu.len() + archiving.cpu.len(),
            "archived": archived,
            "record": times.figures(),
            "record_that_archives": archiving.figures(),
            "mean_cpu_ms": (times.cpu.iter().chain(&archiving.cpu).sum::<f64>())
                / (times.cpu.len() + archiving.cpu.len()) as f64,
            "next_recall": recall.figures(),
        })
    );
    Ok(())
}
