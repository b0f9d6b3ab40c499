//! Our side of the comparisons that `bench/run` makes.
//!
//! Each command prints one line of JSON. Times are CPU time of this process;
//! "cold" begins with raw text, nothing guarded and nothing counted, but with
//! the vocabulary loaded, as the peers' figures do.
#![allow(clippy::print_stdout)]

mod agents;
mod cache;
mod durable;
mod fit;
mod guard;
mod history;
mod loom;
mod postgres;
mod project;
mod recall;
mod serve;
mod trim;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use contexture::core::guard::Policy;
use contexture::core::{
    Budget, Content, Counts, Cut, Item, Layer, Order, Role, Text, assemble, markup, no_loader,
};
use contexture::tokens::{Encoding, OpenAi, TokenCounter};
use serde::Deserialize;
use serde_json::json;

/// As in the command line.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Deserialize)]
struct Block {
    id: String,
    priority: f64,
    text: String,
}

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["blocks", "--blocks", file, "--budget", budget] => blocks(file, budget.parse()?),
        ["lines", "--count", count] => lines(count.parse()?),
        ["count", file] => count(file),
        ["trim", "--messages", file, "--budget", budget, "--dir", dir] => {
            trim::trim(file, budget.parse()?, Path::new(dir))
        }
        ["valid", "--chat", file, "--budgets", budgets, "--dir", dir] => {
            trim::valid(file, budgets, Path::new(dir))
        }
        ["guard", "--dir", dir] => guard::guard(Path::new(dir)),
        ["fit", "--request", file, "--budget", budget, "--dir", dir] => {
            fit::fit(file, budget.parse()?, Path::new(dir))
        }
        ["agents", options @ ..] => agents::agents(options),
        ["cache", "--text", file, "--dir", dir] => cache::cache(file, Path::new(dir)),
        [
            "history",
            "--turns",
            small,
            large,
            "--data",
            data,
            "--dir",
            dir,
        ] => {
            let turns = [small.parse()?, large.parse()?];
            history::history(turns, Path::new(data), Path::new(dir))
        }
        ["loom", "--nodes", small, large, "--dir", dir] => {
            loom::loom([small.parse()?, large.parse()?], Path::new(dir))
        }
        ["durable", "--dir", dir] => durable::durable(Path::new(dir)),
        [
            "postgres",
            "--url",
            url,
            "--dir",
            dir,
            "--tenants",
            tenants,
            "--records",
            records,
        ] => postgres::postgres(url, Path::new(dir), tenants.parse()?, records.parse()?),
        ["postgres-assemble", "--url", url, "--dir", dir] => {
            postgres::assemblies(url, Path::new(dir))
        }
        [
            "postgres-writers",
            "--url",
            url,
            "--dir",
            dir,
            "--writers",
            counts,
        ] => postgres::writers(url, Path::new(dir), counts),
        ["serve", "--text", file, "--dir", dir, "--seconds", seconds] => {
            serve::serve(file, Path::new(dir), seconds.parse()?)
        }
        [
            "serve-one",
            "--text",
            file,
            "--dir",
            dir,
            "--requests",
            requests,
        ] => serve::one(file, Path::new(dir), requests.parse()?),
        [
            "growth",
            "--text",
            file,
            "--dir",
            dir,
            "--requests",
            requests,
            "--sessions",
            sessions,
        ] => serve::growth(file, Path::new(dir), requests.parse()?, sessions.parse()?),
        ["recall", "--locomo", data, "--dir", dir] => {
            recall::evidence(Path::new(data), Path::new(dir), "encoder")
        }
        [
            "recall",
            "--locomo",
            data,
            "--dir",
            dir,
            "--vectors",
            vectors @ ("encoder" | "static" | "none"),
        ] => recall::evidence(Path::new(data), Path::new(dir), vectors),
        [
            "recall-warm",
            "--locomo",
            data,
            "--dir",
            dir,
            "--budgets",
            budgets,
        ] => recall::warm_only(Path::new(data), Path::new(dir), budgets),
        ["recall-times", "--dir", dir] => recall::times::measure(Path::new(dir)),
        ["recall-key", "--dir", dir] => recall::size::key(Path::new(dir)),
        [
            "recall-make",
            "--records",
            records,
            "--db",
            db,
            "--dir",
            dir,
        ] => recall::size::make(records.parse()?, Path::new(db), Path::new(dir)),
        [
            "recall-size",
            "--records",
            records,
            "--db",
            db,
            "--dir",
            dir,
        ] => recall::size::recall(records.parse()?, Path::new(db), Path::new(dir)),
        ["recall-tenants", "--tenants", tenants, "--dir", dir] => {
            recall::limits::tenants(tenants.parse()?, Path::new(dir))
        }
        ["recall-cap", "--records", records, "--db", db, "--dir", dir] => {
            recall::limits::cap(records.parse()?, Path::new(db), Path::new(dir))
        }
        [
            "recall-compare",
            "--records",
            records,
            "--db",
            db,
            "--data",
            data,
        ] => recall::size::compare(records.parse()?, Path::new(db), Path::new(data)),
        _ => bail!(
            "usage: contexture-bench blocks --blocks FILE --budget N | lines --count N | \
             count FILE | trim --messages FILE --budget N --dir DIR | \
             guard --dir DIR | agents [--traces DIR] [OPTIONS] | fit --request FILE --budget N --dir DIR | \
             valid --chat FILE --budgets FROM:TO:STEP --dir DIR | cache --text FILE --dir DIR | \
             history --turns N M --data DIR --dir DIR | loom --nodes N M --dir DIR | \
             durable --dir DIR | serve --text FILE --dir DIR --seconds N | \
             serve-one --text FILE --dir DIR --requests N | \
             growth --text FILE --dir DIR --requests N --sessions N | recall --locomo DIR --dir DIR [--vectors encoder|static|none] | recall-warm --locomo DIR --dir DIR --budgets N,N | recall-times --dir DIR | recall-key --dir DIR | \
             recall-make --records N --db FILE --dir DIR | \
             recall-size --records N --db FILE --dir DIR | \
             recall-tenants --tenants N --dir DIR | recall-cap --records N --db FILE --dir DIR | \
             recall-compare --records N --db FILE --data DIR"
        ),
    }
}

fn counter() -> Arc<dyn TokenCounter> {
    Arc::new(OpenAi::new(Encoding::O200k))
}

/// CPU time of the process so far, in milliseconds.
fn cpu_ms() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Returns how often to run: as `RUNS` says, for a profiler, else `usual`.
fn runs(usual: usize) -> usize {
    std::env::var("RUNS")
        .ok()
        .and_then(|runs| runs.parse().ok())
        .unwrap_or(usual)
}

/// Returns the median CPU time of `runs` calls, and the last result.
fn median<T>(runs: usize, mut run: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<(f64, T)> {
    let mut times = Vec::with_capacity(runs);
    let mut last = None;
    for _ in 0..runs {
        let before = cpu_ms();
        let result = run()?;
        times.push(cpu_ms() - before);
        last = Some(result);
    }
    times.sort_by(f64::total_cmp);
    Ok((times[times.len() / 2], last.context("no run")?))
}

/// The same, each call in a thread of its own: the tokenizer keeps pieces that it
/// has counted by thread, and a cold run must find none.
fn cold_median<T: Send>(
    runs: usize,
    mut run: impl FnMut() -> anyhow::Result<T> + Send,
) -> anyhow::Result<(f64, T)> {
    median(runs, || {
        std::thread::scope(|scope| match scope.spawn(&mut run).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

fn layer(items: Vec<Item>) -> Layer {
    let mut layer = Layer::new("files");
    layer.order = Order::Priority;
    layer.items = items;
    layer
}

type Packed = (usize, u64, String);

/// Packs `items`, guarding the text of an item when it is first looked at, as
/// the sources of the engine do.
fn pack(
    items: Vec<Item>,
    budget: u64,
    counts: &Counts,
    load: &mut dyn FnMut(&Item) -> Content,
) -> anyhow::Result<Packed> {
    let assembly = assemble(vec![layer(items)], Budget::new(budget, 0, 0)?, counts, load)?;
    let text = markup::render(&assembly.layout);
    Ok((
        assembly.report.included.len(),
        assembly.report.budget.used,
        text,
    ))
}

fn blocks(file: &str, budget: u64) -> anyhow::Result<()> {
    let blocks: Vec<Block> = serde_json::from_slice(&std::fs::read(file)?)?;
    counter().count("load the vocabulary");
    let item = |block: &Block, content: Content| {
        Item::with_content(block.id.as_str(), Role::User, content)
            .priority(block.priority)
            .cut(Cut::Never)
    };
    let texts: BTreeMap<&str, &str> = blocks
        .iter()
        .map(|block| (block.id.as_str(), block.text.as_str()))
        .collect();
    let (cold, (kept, used, text)) = cold_median(runs(15), || {
        let counts = Counts::new(counter());
        let pending = |block: &Block| {
            let bytes = block.text.len() as u64;
            let policy = Policy::default();
            item(block, Content::Pending { bytes, policy })
        };
        let mut load = |item: &Item| Content::Ready(Text::new(texts[&*item.id]));
        pack(
            blocks.iter().map(pending).collect(),
            budget,
            &counts,
            &mut load,
        )
    })?;
    // Warm: the same items again, guarded and counted.
    let counts = Counts::new(counter());
    let ready: Vec<Item> = blocks
        .iter()
        .map(|block| item(block, Content::Ready(Text::new(&block.text))))
        .collect();
    let first = pack(ready.clone(), budget, &counts, &mut no_loader)?;
    let (warm, again) = median(runs(51), || {
        pack(ready.clone(), budget, &counts, &mut no_loader)
    })?;
    if first != again || first.2 != text {
        bail!("cold and warm runs differ");
    }
    println!(
        "{}",
        json!({
            "kept": kept,
            "tokens": counter().count(&text),
            "used": used,
            "cold_cpu_ms": cold,
            "warm_cpu_ms": warm,
        })
    );
    Ok(())
}

fn lines(count: usize) -> anyhow::Result<()> {
    let line = |i: usize| {
        let word = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"][i * 31 % 7];
        format!(
            "{word} item number {i} says that value {} is {}",
            i * 7919 % 1000,
            i * 104_729 % 997
        )
    };
    let texts: Vec<String> = (0..count).map(line).collect();
    counter().count("load the vocabulary");
    let items = || -> Vec<Item> {
        let item = |(i, text): (usize, &String)| {
            Item::new(format!("line-{i}"), Role::User, Text::new(text))
                .priority((i * 7919 % count) as f64 / count as f64)
                .cut(Cut::Never)
        };
        texts.iter().enumerate().map(item).collect()
    };
    let counts = Counts::new(counter());
    let (_, total, _) = pack(items(), u64::MAX / 2, &counts, &mut no_loader)?;
    let (cpu, _) = median(runs(7), || {
        let counts = Counts::new(counter());
        pack(items(), total / 4, &counts, &mut no_loader)
    })?;
    println!("{}", json!({"items": count, "cpu_ms": cpu}));
    Ok(())
}

fn count(file: &str) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file)?;
    let before = cpu_ms();
    let counter = counter();
    counter.count("load the vocabulary");
    let load = cpu_ms() - before;
    let (cpu, tokens) = median(7, || Ok(counter.count(&text)))?;
    println!(
        "{}",
        json!({"tokens": tokens, "bytes": text.len(), "cpu_ms": cpu, "load_cpu_ms": load})
    );
    Ok(())
}
