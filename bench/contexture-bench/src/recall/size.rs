//! Memories of up to a million records: recording them, and recalling.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::ensure;
use contexture::memory::Lines;
use contexture::store::{EventRecord, Forget, Memories as _, Record, Sketch};
use contexture::{Engine, Timestamp};
use contexture_recall::{Embedder as _, Entry, Index, StaticModel, Vector, best};
use contexture_sqlite::SqliteStore;
use contexture_words::Words;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::baseline::{FullText, dot};
use super::made::{self, Maker};
use super::{TIMED, Times, Wrong, ask, milliseconds};
use crate::project::Project;
use crate::{counter, cpu_ms, runs};

/// How many queries are asked.
const QUERIES: usize = 200;

/// How many queries the vectors are checked with, and how many of the best.
const CHECKED: usize = 50;
const BEST: usize = 50;

/// Records so many turns that were made up, and says how fast. A store that is
/// there is left as it is.
pub(crate) fn make(records: usize, db: &Path, dir: &Path) -> anyhow::Result<()> {
    let mut figures = json!({"records": records});
    if !db.exists() {
        figures["made"] = record(records, db, dir)?;
    }
    figures["bytes"] = json!(std::fs::metadata(db)?.len());
    println!("{figures}");
    Ok(())
}

fn record(records: usize, db: &Path, dir: &Path) -> anyhow::Result<Value> {
    // Under another name until it is whole.
    let partial = db.with_extension("partial");
    let remove = |suffix: &str| {
        let _ = std::fs::remove_file(format!("{}{suffix}", partial.display()));
    };
    for suffix in ["", "-wal", "-shm", "-seal"] {
        remove(suffix);
    }
    let maker = Maker::new()?;
    StaticModel::built_in().embed(&["load the embedder"])?;
    let project = project(dir, partial.clone())?;
    let store = project.store()?;
    let engine = project.engine(&store)?;
    let (cpu, wall) = (cpu_ms(), Instant::now());
    let mut lines = Lines {
        name: "made up",
        reader: &mut maker.lines(records),
        progress: &mut |_, _| {},
    };
    let recorded = engine
        .memory()?
        .record_lines(&mut lines, Some(now(records)))?;
    let (wall, cpu) = (milliseconds(wall), cpu_ms() - cpu);
    ensure!(
        recorded.added == records as u64 && recorded.archived == 0,
        "{records} records, but {recorded:?}"
    );
    drop((engine, store));
    std::fs::rename(&partial, db)?;
    // The store creates it again for the new name.
    remove("-seal");
    Ok(json!({
        "per_second": records as f64 / wall * 1e3,
        "wall_ms": wall,
        "cpu_ms": cpu,
        "rss_mb": resident("VmHWM")?,
    }))
}

/// Recalls from a memory of that size: first with an engine that has seen
/// nothing, then warm; then something that was just recorded.
pub(crate) fn recall(records: usize, db: &Path, dir: &Path) -> anyhow::Result<()> {
    let maker = Maker::new()?;
    counter().count("load the vocabulary");
    StaticModel::built_in().embed(&["load the embedder"])?;
    let sessions = made::sessions_within(records);
    let query = |number: usize| maker.query(number as u64, sessions);
    let now = now(records);
    let mut wrong = Wrong::default();

    let project = project(dir, db.to_owned())?;
    let before_mb = resident("VmRSS")?;
    let from_file = project
        .engine(&project.store()?)?
        .memory()?
        .has_index_file()?;
    let mut first = Times::default();
    let engine = first.take(|| {
        let engine = project.engine(&project.store()?)?;
        ask(&engine, &query(0).0, TIMED, now)?;
        Ok(engine)
    })?;
    let after_mb = resident("VmRSS")?;
    let (saving, saved) = save(&engine)?;
    let saved_mb = resident("VmRSS")?;

    for number in 1..=20 {
        ask(&engine, &query(number).0, TIMED, now)?;
    }
    let (mut fresh, mut again, mut found) = (Times::default(), Times::default(), 0);
    // What is asked for a second time has its texts read, but is asked with
    // another budget, so that it is not the context that was kept.
    for number in 1_000..1_000 + QUERIES {
        let (query, turn) = query(number);
        for (times, budget) in [(&mut fresh, TIMED), (&mut again, TIMED - 1)] {
            let recalled = times.take(|| ask(&engine, &query, budget, now))?;
            wrong.check(&recalled, budget, &query);
            let mut sources = recalled.context.components.iter().map(|part| &part.source);
            found += usize::from(sources.any(|id| *id == turn.id));
        }
    }
    let warm_mb = resident("VmRSS")?;
    let new = newly_recorded(&engine, now)?;
    // Forgetting deletes the file: the next run begins with one.
    save(&engine)?;
    println!(
        "{}",
        json!({
            "records": records,
            "first": first.figures(),
            "first_from_file": from_file,
            "saved": saved,
            "save": saving.figures(),
            "index_bytes": index_bytes(&engine)?,
            "rss_saved_mb": saved_mb,
            "unread": fresh.figures(),
            "read": again.figures(),
            "found": found as f64 / (2 * QUERIES) as f64,
            "rss_before_mb": before_mb,
            "rss_loaded_mb": after_mb,
            "rss_warm_mb": warm_mb,
            "new": new,
            "wrong": wrong.told,
            "wrong_answers": wrong.answers,
            "digest": wrong.digest.figure(),
        })
    );
    Ok(())
}

/// Writes the index file if that is due, and says whether it was.
fn save(engine: &Engine) -> anyhow::Result<(Times, bool)> {
    let mut times = Times::default();
    let saved = times.take(|| Ok(engine.memory()?.save_index()?))?;
    Ok((times, saved))
}

fn index_bytes(engine: &Engine) -> anyhow::Result<u64> {
    let path = engine.memory()?.index_path();
    let file = path.and_then(|path| std::fs::metadata(path).ok());
    Ok(file.map_or(0, |file| file.len()))
}

/// Records something, and recalls it.
fn newly_recorded(engine: &Engine, now: Timestamp) -> anyhow::Result<Value> {
    const SESSION: &str = "newly recorded";
    let memory = engine.memory()?;
    let (mut recording, mut recalling, mut found) = (Times::default(), Times::default(), 0);
    let times = runs(5);
    for number in 0..times {
        let id = format!("new/{number}");
        let text = format!("The locksmith of Quedlinburg left key number {number} with us.");
        let record: EventRecord = serde_json::from_value(json!({
            "id": id, "session_id": SESSION, "timestamp": now, "type": "user_message",
            "content": {"speaker": "Ida", "text": text},
        }))?;
        let record = vec![Record::Event(record)];
        recording.take(|| Ok(memory.record(record, Some(now))?))?;
        let query = format!("key number {number} of the locksmith in Quedlinburg");
        let recalled = recalling.take(|| ask(engine, &query, TIMED, now))?;
        let mut sources = recalled.context.components.iter().map(|part| &part.source);
        found += usize::from(sources.any(|source| *source == id));
    }
    // So that the store is as it was.
    let mut forgetting = Times::default();
    forgetting.take(|| Ok(memory.forget(&Forget::Session(SESSION.to_owned()))?))?;
    Ok(json!({
        "recorded": times,
        "found": found,
        "record": recording.figures(),
        "recall": recalling.figures(),
        "forget": forgetting.figures(),
    }))
}

/// Says how many of the best by vector are the best by exact products, of the
/// vectors as they were made and of those that are kept; and how long SQLite's
/// full text takes for the best over the same texts.
pub(crate) fn compare(records: usize, db: &Path, data: &Path) -> anyhow::Result<()> {
    let maker = Maker::new()?;
    let model = StaticModel::built_in();
    let sessions = made::sessions_within(records);
    let query = |number: usize| maker.query(number as u64, sessions).0;
    let queries: Vec<String> = (2_000..2_000 + CHECKED).map(query).collect();
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    let queries = model.embed(&queries)?;

    let index = index(db, model.dimensions())?;
    ensure!(index.vectors.len() == records, "not all texts have vectors");
    let mut by_engine = Vec::new();
    let mut engine_times = Times::default();
    for query in &queries {
        let hits = engine_times.take(|| {
            let scores = index.index.scores(&[], Some(query), &[]);
            Ok(best(&index.index, &scores, BEST, 0.0, |_| 0.0, |_| true))
        })?;
        let mut found = Best::default();
        hits.iter().for_each(|hit| found.offer(hit.vector, hit.key));
        by_engine.push(found);
    }
    let mut kept: Vec<Best> = queries.iter().map(|_| Best::default()).collect();
    for (key, vector) in &index.vectors {
        let vector = vector.to_floats();
        for (best, query) in kept.iter_mut().zip(&queries) {
            best.offer(dot(&vector, query), *key);
        }
    }
    // Keys rise with the order of recording.
    let mut exact: Vec<Best> = queries.iter().map(|_| Best::default()).collect();
    let mut keys: Vec<i64> = index.vectors.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    let wanted: std::collections::BTreeSet<i64> = (by_engine.iter().flat_map(|best| &best.0))
        .map(|(_, key)| *key)
        .collect();
    let mut of_wanted = std::collections::BTreeMap::new();
    let mut turns = maker.turns(records);
    for keys in keys.chunks(10_000) {
        let texts: Vec<String> = turns
            .by_ref()
            .take(keys.len())
            .map(|turn| turn.text)
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        for (key, vector) in keys.iter().zip(model.embed(&texts)?) {
            for (best, query) in exact.iter_mut().zip(&queries) {
                best.offer(dot(&vector, query), *key);
            }
            if wanted.contains(key) {
                of_wanted.insert(*key, vector);
            }
        }
    }
    let stored: std::collections::BTreeMap<i64, &Vector> = index
        .vectors
        .iter()
        .filter(|(key, _)| wanted.contains(key))
        .map(|(key, v)| (*key, v))
        .collect();
    // One that is as good as the last of the best is as right.
    let share = |truth: &[Best], score: &dyn Fn(i64, &[f32]) -> f32| {
        let right = by_engine
            .iter()
            .zip(truth)
            .zip(&queries)
            .map(|((found, truth), query)| {
                let bar = truth.worst() - 1e-6;
                found
                    .0
                    .iter()
                    .filter(|(_, key)| score(*key, query) >= bar)
                    .count()
            });
        right.sum::<usize>() as f64 / (CHECKED * BEST) as f64
    };
    let of_made = share(&exact, &|key, query| dot(&of_wanted[&key], query));
    let of_kept = share(&kept, &|key, query| dot(&stored[&key].to_floats(), query));
    drop(index);
    println!(
        "{}",
        json!({
            "records": records,
            "queries": CHECKED,
            "best": BEST,
            "of_made": of_made,
            "of_kept": of_kept,
            "scan": engine_times.figures(),
            "full_text": full_text(records, &maker, data)?,
        })
    );
    Ok(())
}

struct Known {
    index: Index,
    vectors: Vec<(i64, Vector)>,
}

/// Reads the vectors of all texts of a store into an index.
fn index(db: &Path, dimensions: usize) -> anyhow::Result<Known> {
    let store = SqliteStore::open(db)?;
    let mut known = Known {
        index: Index::new(dimensions),
        vectors: Vec::new(),
    };
    let mut after = 0;
    loop {
        let changes = store.changes(after, 20_000)?;
        let Some(last) = changes.last() else {
            return Ok(known);
        };
        after = last.seq;
        for change in changes {
            let Some(Sketch::Text(text)) = change.sketch else {
                continue;
            };
            let vector = text.vector.as_deref();
            let vector = vector.and_then(|bytes| Vector::from_bytes(bytes, dimensions));
            known.index.add(&Entry {
                key: change.key,
                // Only vectors are compared, and how words are kept is the
                // engine's own affair.
                words: &Words::default(),
                vector: vector.as_ref(),
                // A run would add the vector of the text before.
                run: None,
                position: (text.at, 0),
            });
            known
                .vectors
                .extend(vector.map(|vector| (change.key, vector)));
        }
    }
}

/// The best so far, best first.
#[derive(Default)]
struct Best(Vec<(f32, i64)>);

impl Best {
    fn offer(&mut self, score: f32, key: i64) {
        if self.0.len() == BEST && score <= self.worst() {
            return;
        }
        let at = self.0.partition_point(|(other, _)| *other >= score);
        self.0.insert(at, (score, key));
        self.0.truncate(BEST);
    }

    fn worst(&self) -> f32 {
        self.0.last().map_or(f32::NEG_INFINITY, |(score, _)| *score)
    }
}

/// Returns how long SQLite's full text takes.
fn full_text(records: usize, maker: &Maker, data: &Path) -> anyhow::Result<Value> {
    let path = data.join(format!("recall-fts-{records}-{}.db", made::VERSION));
    if !path.exists() {
        let partial = path.with_extension("partial");
        let _ = std::fs::remove_file(&partial);
        let db = Connection::open(&partial)?;
        db.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")?;
        let texts: Box<dyn Iterator<Item = String>> =
            Box::new(maker.turns(records).map(|turn| turn.text));
        FullText::new(db, texts)?;
        std::fs::rename(&partial, &path)?;
    }
    let db = Connection::open(&path)?;
    // All of it in memory.
    db.pragma_update(None, "cache_size", -1_000_000)?;
    let index = FullText::open(db);
    let sessions = made::sessions_within(records);
    let mut times = Times::default();
    // The same queries as ours; once before, so that all is read.
    for number in 1_000..1_000 + QUERIES {
        index.best(&maker.query(number as u64, sessions).0, BEST)?;
    }
    for number in 1_000..1_000 + QUERIES {
        let query = maker.query(number as u64, sessions).0;
        times.take(|| index.best(&query, BEST))?;
    }
    Ok(times.figures())
}

/// Says what a store of made-up records depends on, so that one that was kept is
/// known to be what would be made now: what is derived from texts, and the
/// schema.
pub(crate) fn key(dir: &Path) -> anyhow::Result<()> {
    let db = dir.join("key.db");
    let maker = Maker::new()?;
    let project = project(dir, db.clone())?;
    let store = project.store()?;
    let engine = project.engine(&store)?;
    let mut lines = Lines {
        name: "made up",
        reader: &mut maker.lines(500),
        progress: &mut |_, _| {},
    };
    engine.memory()?.record_lines(&mut lines, Some(now(500)))?;
    let mut all = format!("{}\n", made::VERSION);
    for change in store.changes(0, usize::MAX >> 1)? {
        all += &format!("{:?}\n", change.sketch);
    }
    drop((engine, store));
    let db = Connection::open(&db)?;
    let mut select = db.prepare("SELECT coalesce(sql, '') FROM sqlite_schema ORDER BY name")?;
    for sql in select.query_map([], |row| row.get::<_, String>(0))? {
        all += &sql?;
    }
    // FNV-1a, 64 bits.
    let hash = all.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    println!("{}", json!({"key": format!("{hash:016x}")}));
    Ok(())
}

/// Returns a project with its store there, that may keep more than a million
/// records.
pub(super) fn project(dir: &Path, db: PathBuf) -> anyhow::Result<Project> {
    let mut project = Project::new(&dir.join("root"), db)?;
    project.config.memory.caps.events = u64::MAX >> 1;
    Ok(project)
}

/// Returns a time a day after the last of so many records.
pub(super) fn now(records: usize) -> Timestamp {
    let seconds = 1_600_000_000 + (records as i64 / 20 + 32) * 2_700;
    Timestamp::from_second(seconds).unwrap_or_default()
}

/// Returns what the system says of this process's memory, in MB.
fn resident(field: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    Ok(kib.unwrap_or_default() / 1024.0)
}
