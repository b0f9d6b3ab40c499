//! PostgreSQL next to SQLite and to plain statements, on the server at a URL.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use contexture::memory::Lines;
use contexture::store::{Ledger, MessageRole, Store};
use contexture::{Engine, Format, Request, Timestamp};
use contexture_postgres::{Options, PostgresStore};
use serde_json::{Value, json};

use crate::counter;
use crate::durable::{ANSWERED, ASKED};
use crate::project::{self, Project};

/// The turns of a session that requests are assembled for.
const TURNS: usize = 50;

/// How often a request is assembled in a round, and how many rounds there are. The
/// stores take turns.
const ASSEMBLIES: u64 = 40;
const ROUNDS: u64 = 8;

/// How many write at once, for how long, and for how long before that without being counted:
/// a new thread and a new connection allocate and prepare.
const WRITERS: usize = 64;
const LENGTH: Duration = Duration::from_secs(3);
const WARM_UP: Duration = Duration::from_secs(1);

/// How often turns and single rows are measured, one after the other.
const WRITING_ROUNDS: usize = 5;

/// How many records are recorded one by one.
const SINGLE: u64 = 300;

/// How many tenants few are.
const FEW: usize = 10;

/// Measures everything, each part in a schema of its own.
pub(crate) fn postgres(
    url: &str,
    dir: &Path,
    tenants: usize,
    records: usize,
) -> anyhow::Result<()> {
    counter().count("load the vocabulary");
    println!(
        "{}",
        json!({
            "assemble": assemble(url, dir)?,
            "record": record(url, dir, WRITERS)?,
            "tenants": of_tenants(url, dir, tenants, records)?,
        })
    );
    Ok(())
}

/// Assembles requests only, for a profiler.
pub(crate) fn assemblies(url: &str, dir: &Path) -> anyhow::Result<()> {
    counter().count("load the vocabulary");
    println!("{}", assemble(url, dir)?);
    Ok(())
}

/// Records turns with each of these numbers of writers.
pub(crate) fn writers(url: &str, dir: &Path, counts: &str) -> anyhow::Result<()> {
    counter().count("load the vocabulary");
    for count in counts.split(',') {
        let count: usize = count.parse()?;
        let dir = dir.join(format!("writers-{count}"));
        println!(
            "{}",
            json!({"writers": count, "record": record(url, &dir, count)?})
        );
    }
    Ok(())
}

/// Opens a store in a schema that is empty.
fn open(url: &str, schema: &str, pool_size: usize) -> anyhow::Result<PostgresStore> {
    block_on(async {
        let client = connect(url).await?;
        let drop = format!("DROP SCHEMA IF EXISTS {schema} CASCADE");
        Ok(client.batch_execute(&drop).await?)
    })?;
    let options = Options {
        pool_size,
        ..Options::default()
    };
    Ok(PostgresStore::open_with(
        &format!("{url}?schema={schema}"),
        options,
    )?)
}

fn engine(project: &Project, store: Arc<dyn Store>) -> anyhow::Result<Engine> {
    Ok(Engine::builder()
        .config(project.config.clone())
        .folder(project.root.path())
        .store(store)
        .confined()
        .background_snapshots()
        .build()?)
}

fn turn(n: u64) -> contexture::store::NewTurn {
    project::turn(vec![
        project::said(MessageRole::User, format!("{n}: {ASKED}")),
        project::said(MessageRole::Assistant, format!("{n}: {ANSWERED}")),
    ])
}

/// Assembles and renders a request, as a server does.
fn ask(project: &Project, engine: &Engine, n: u64) -> anyhow::Result<usize> {
    let event = format!("Question {n}: does the build pass now?");
    let request = Request {
        session: Some(project::SESSION.to_owned()),
        event: Some(event.as_str().into()),
        format: Some(Format::Anthropic),
        ..Request::default()
    };
    let assembled = engine.assemble(&project.root, &request)?;
    Ok(assembled.render(Format::Anthropic)?.len())
}

/// Warm requests of one session, on both stores in turn, and round trips.
fn assemble(url: &str, dir: &Path) -> anyhow::Result<Value> {
    let project = Project::new(&dir.join("assemble"), dir.join("assemble.db"))?;
    let postgres = open(url, "bench_assemble", 16)?;
    let engines = [
        engine(&project, project.store()?)?,
        engine(&project, Arc::new(postgres.clone()))?,
    ];
    let mut times = [Vec::new(), Vec::new()];
    let mut sizes = Vec::new();
    for engine in &engines {
        let store = engine.store()?;
        store.create_session(&project::session(project::SESSION), Timestamp::now())?;
        for n in 0..TURNS {
            engine.record(project::SESSION, &turn(n as u64), None)?;
        }
        sizes.push(ask(&project, engine, 0)?);
    }
    ensure!(
        sizes[0] == sizes[1],
        "the stores give other requests: {sizes:?}"
    );
    for round in 0..ROUNDS {
        for (engine, times) in engines.iter().zip(&mut times) {
            for n in 0..ASSEMBLIES {
                let begun = Instant::now();
                ask(&project, engine, round * ASSEMBLIES + n)?;
                times.push(begun.elapsed());
            }
        }
    }
    let trips = |work: &mut dyn FnMut() -> anyhow::Result<()>| -> anyhow::Result<u64> {
        let before = postgres.backend().round_trips();
        work()?;
        Ok(postgres.backend().round_trips() - before)
    };
    let of_assembly = trips(&mut || ask(&project, &engines[1], 1_000_000).map(drop))?;
    let ledger: &dyn Ledger = &postgres;
    let of_turn = trips(&mut || {
        let turn = turn(1_000_000);
        ledger.record(project::SESSION, &turn, None, None, Timestamp::now())?;
        Ok(())
    })?;
    let [sqlite, postgres] = times.map(median_ms);
    Ok(json!({
        "sqlite_ms": sqlite,
        "postgres_ms": postgres,
        "round_trips": {"assemble": of_assembly, "record": of_turn},
    }))
}

/// Turns of several writers, next to single rows that as many connections commit.
fn record(url: &str, dir: &Path, writers: usize) -> anyhow::Result<Value> {
    let project = Project::new(&dir.join("record"), dir.join("record.db"))?;
    let store = open(url, "bench_record", writers)?;
    let (mut rows, mut one, mut each) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..WRITING_ROUNDS {
        rows.push(single_rows(url, writers)?);
        let same: Vec<PostgresStore> = vec![store.clone(); writers];
        one.push(turns(&project, &same, &format!("one-{round}"))?);
        let own: Vec<PostgresStore> = (0..writers)
            .map(|writer| store.for_tenant(&format!("t{writer}")))
            .collect();
        each.push(turns(&project, &own, &format!("each-{round}"))?);
    }
    // The disk becomes faster and slower. Only figures of one round are compared.
    let ratio = |turns: &[f64]| middle(turns.iter().zip(&rows).map(|(of, to)| of / to).collect());
    let ratios = json!({"one_tenant": ratio(&one), "tenant_each": ratio(&each)});
    Ok(json!({
        "rows_per_second": middle(rows),
        "turns_per_second": {"one_tenant": middle(one), "tenant_each": middle(each)},
        "turns_per_row": ratios,
    }))
}

/// Records turns from as many threads as there are stores. Returns how many were
/// acknowledged in a second.
fn turns(project: &Project, stores: &[PostgresStore], name: &str) -> anyhow::Result<f64> {
    let engines = stores
        .iter()
        .map(|store| engine(project, Arc::new(store.clone())))
        .collect::<anyhow::Result<Vec<Engine>>>()?;
    let label = |writer: usize| format!("{name}-{writer}");
    for (writer, store) in stores.iter().enumerate() {
        store.create_session(&project::session(&label(writer)), Timestamp::now())?;
    }
    let (next, counted) = (AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let (next, counted, label) = (&next, &counted, &label);
        let threads: Vec<_> = engines
            .iter()
            .enumerate()
            .map(|(writer, engine)| {
                scope.spawn(move || -> anyhow::Result<()> {
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        engine.record(&label(writer), &turn(n), None)?;
                        match is_counted(start) {
                            Some(true) => counted.fetch_add(1, Ordering::Relaxed),
                            Some(false) => continue,
                            None => return Ok(()),
                        };
                    }
                })
            })
            .collect();
        for thread in threads {
            let done = thread.join();
            done.map_err(|_| anyhow::anyhow!("a writer panicked"))??;
        }
        Ok(())
    })?;
    Ok(counted.into_inner() as f64 / LENGTH.as_secs_f64())
}

/// Returns whether what is acknowledged now counts, or `None` after the end.
fn is_counted(start: Instant) -> Option<bool> {
    let now = start.elapsed();
    (now < WARM_UP + LENGTH).then_some(now >= WARM_UP)
}

async fn connect(url: &str) -> anyhow::Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(async move {
        // Ends with the client.
        let _ = connection.await;
    });
    Ok(client)
}

fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(work)
}

/// Commits single rows over connections, as `pgbench` with a script of one INSERT
/// does.
fn single_rows(url: &str, connections: usize) -> anyhow::Result<f64> {
    block_on(async {
        let client = connect(url).await?;
        client
            .batch_execute(
                "DROP TABLE IF EXISTS bench_rows;
                 CREATE TABLE bench_rows (key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                     text TEXT NOT NULL)",
            )
            .await?;
        let mut clients = Vec::new();
        for _ in 0..connections {
            clients.push(connect(url).await?);
        }
        let start = Instant::now();
        let writers: Vec<_> = clients
            .into_iter()
            .map(|client| {
                tokio::spawn(async move {
                    let insert = "INSERT INTO bench_rows (text) VALUES ($1)";
                    let insert = client.prepare(insert).await?;
                    let mut rows = 0_u64;
                    loop {
                        client.execute(&insert, &[&ANSWERED]).await?;
                        match is_counted(start) {
                            Some(counts) => rows += u64::from(counts),
                            None => return Ok::<u64, tokio_postgres::Error>(rows),
                        }
                    }
                })
            })
            .collect();
        let mut rows = 0;
        for writer in writers {
            rows += writer.await??;
        }
        client.batch_execute("DROP TABLE bench_rows").await?;
        Ok(rows as f64 / LENGTH.as_secs_f64())
    })
}

/// The tables with the records of a tenant, and the columns that another tenant has other
/// values in.
const RECORD_TABLES: &[(&str, &str)] = &[
    (
        "memories",
        "tenant = tenant + 1, key = key + 10000000, tag = random_key()",
    ),
    ("memory_bodies", "record = record + 10000000"),
    (
        "memory_pending",
        "tenant = tenant + 1, record = record + 10000000",
    ),
    (
        "memory_later",
        "tenant = tenant + 1, record = record + 10000000",
    ),
    ("memory_states", "tenant = tenant + 1"),
    ("memory_kinds", "tenant = tenant + 1"),
    ("memory_progress", "tenant = tenant + 1"),
];

/// Copies the records of the last of `few` tenants, so that there are `many`.
fn copy_records(url: &str, schema: &str, few: usize, many: usize) -> anyhow::Result<()> {
    let mut sql = format!(
        "SET search_path = {schema}; SET contexture.counts = 'off';
         INSERT INTO tenants (name, has_data) SELECT 'copy' || n, 1
             FROM generate_series(1, {many} - {few}) n;"
    );
    for (table, _) in RECORD_TABLES {
        let of = match *table {
            "memory_bodies" => "record IN (SELECT key FROM memories WHERE tenant = last.key)",
            _ => "tenant = last.key",
        };
        write!(
            sql,
            "CREATE TEMP TABLE copied_{table} AS SELECT c.* FROM {table} c,
                 (SELECT key FROM tenants WHERE name = 't{}') last WHERE {of};",
            few - 1
        )?;
    }
    for _ in few..many {
        for (table, set) in RECORD_TABLES {
            write!(
                sql,
                "UPDATE copied_{table} SET {set};
                 INSERT INTO {table} SELECT * FROM copied_{table};"
            )?;
        }
        // Each tenant is a transaction.
        sql += "COMMIT; BEGIN;";
    }
    sql += "COMMIT; ANALYZE;";
    block_on(async {
        let client = connect(url).await?;
        Ok(client.batch_execute(&sql).await?)
    })
}

/// One more record of a tenant, with few tenants in the database and with many.
fn of_tenants(url: &str, dir: &Path, tenants: usize, records: usize) -> anyhow::Result<Value> {
    let project = Project::new(&dir.join("tenants"), dir.join("tenants.db"))?;
    let store = open(url, "bench_tenants", 16)?;
    let mut figures = json!({"few": FEW, "many": tenants, "records": records});
    let of = |tenant: usize| -> anyhow::Result<Engine> {
        engine(&project, Arc::new(store.for_tenant(&format!("t{tenant}"))))
    };
    let few = FEW.min(tenants);
    for tenant in 0..few {
        remember(&of(tenant)?, tenant, 0..records as u64)?;
    }
    for (at, name) in ["few_ms", "many_ms"].into_iter().enumerate() {
        if at == 1 {
            copy_records(url, "bench_tenants", few, tenants)?;
        }
        let first = of(0)?;
        let from = records as u64 + at as u64 * SINGLE;
        let mut times = Vec::new();
        for n in from..from + SINGLE {
            let begun = Instant::now();
            remember(&first, 0, n..n + 1)?;
            times.push(begun.elapsed());
        }
        figures[name] = median_ms(times).into();
    }
    Ok(figures)
}

/// Records events of a tenant's memory in one call.
fn remember(engine: &Engine, tenant: usize, of: std::ops::Range<u64>) -> anyhow::Result<()> {
    let count = of.end - of.start;
    let mut lines = String::new();
    for n in of {
        let text = format!(
            "Ship {} of line {tenant} reached pier {} with {n} crates of tea.",
            n % 97,
            n % 13
        );
        let line = json!({"kind": "event", "id": format!("e{n}"), "type": "user_message",
            "actor": "user", "content": {"speaker": "Ana", "text": text}});
        writeln!(lines, "{line}").context("a line")?;
    }
    let recorded = engine.memory()?.record_lines(
        &mut Lines {
            name: "made up",
            reader: &mut lines.as_bytes(),
            progress: &mut |_, _| {},
        },
        Some(Timestamp::now()),
    )?;
    ensure!(recorded.added == count, "{count} records, but {recorded:?}");
    Ok(())
}

fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

fn middle(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}
