//! Recorded runs of agents, replayed call by call: what a request still says of
//! the run, how much of it the provider has read before, and what it costs.

mod measure;
mod replay;
mod survival;
mod trace;
mod wire;

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use measure::{ByCode, Measured};
use survival::Found;
use trace::Trace;
use wire::Tokens;

const USAGE: &str = "usage: contexture-bench agents [--traces DIR] [--at 8k,32k,128k] \
    [--trace NAME] [--shape recorded|one_question] [--model gpt|claude|NAME] [--missing] [--json]";

/// Where the traces are, relative to the repository.
const TRACES: &str = "../shared/bench/traces";

/// What to replay, and how to print it.
struct Options {
    traces: PathBuf,
    name: String,
    windows: Vec<u64>,
    shapes: Vec<Shape>,
    model: String,
    missing: bool,
    json: bool,
}

/// The shape of a run.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// As it was recorded.
    Recorded,
    /// One user message, then only steps.
    OneQuestion,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Shape::Recorded => "recorded",
            Shape::OneQuestion => "one_question",
        }
    }
}

impl Options {
    fn read(args: &[&str]) -> anyhow::Result<Self> {
        let mut options = Self {
            traces: traces_dir(),
            name: String::new(),
            windows: vec![8_000, 32_000, 128_000],
            shapes: vec![Shape::Recorded, Shape::OneQuestion],
            model: "gpt-4o".to_owned(),
            missing: false,
            json: false,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || {
                args.next()
                    .with_context(|| format!("{arg}: no value; {USAGE}"))
            };
            match *arg {
                "--traces" => options.traces = PathBuf::from(value()?),
                "--trace" => options.name = (*value()?).to_owned(),
                "--at" => {
                    options.windows = value()?.split(',').map(size).collect::<Result<_, _>>()?
                }
                "--shape" => {
                    options.shapes = match *value()? {
                        "recorded" => vec![Shape::Recorded],
                        "one_question" => vec![Shape::OneQuestion],
                        other => bail!("--shape {other}: not `recorded` or `one_question`"),
                    };
                }
                "--model" => {
                    options.model = match *value()? {
                        "gpt" => "gpt-4o",
                        "claude" => "claude-sonnet-4-5",
                        other => other,
                    }
                    .to_owned();
                }
                "--missing" => options.missing = true,
                "--json" => options.json = true,
                other => bail!("{other}: unknown option; {USAGE}"),
            }
        }
        ensure!(
            options.traces.is_dir(),
            "{}: no such directory. The traces are not part of the project: name their directory \
             with --traces DIR or CONTEXTURE_TRACES (its form: bench/README.md)",
            options.traces.display()
        );
        Ok(options)
    }
}

/// Reads a number of tokens such as `32k`.
fn size(text: &str) -> anyhow::Result<u64> {
    let (number, unit) = match text.strip_suffix('k') {
        Some(number) => (number, 1000),
        None => (text, 1),
    };
    let number: u64 = number
        .parse()
        .with_context(|| format!("--at {text}: not a number of tokens such as 32k"))?;
    Ok(number * unit)
}

fn traces_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("CONTEXTURE_TRACES") {
        return PathBuf::from(dir);
    }
    let repository = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    repository.join(TRACES)
}

/// Replays the traces that the arguments name.
pub(crate) fn agents(args: &[&str]) -> anyhow::Result<()> {
    let options = Options::read(args)?;
    let traces = Trace::read_all(&options.traces, &options.name)?;
    let mut tokens = Tokens::new();
    let mut figures: Vec<Value> = Vec::new();
    for shape in &options.shapes {
        let shaped: Vec<Trace> = match shape {
            Shape::Recorded => traces.clone(),
            Shape::OneQuestion => (traces.iter())
                .map(Trace::one_question)
                .collect::<anyhow::Result<_>>()?,
        };
        for window in &options.windows {
            let mut rows = Vec::new();
            for trace in &shaped {
                let dir = tempfile::tempdir()?;
                let ours = replay::replay(trace, *window, &options.model, dir.path(), &mut tokens)?;
                rows.push((trace.file.clone(), ours));
            }
            let mut sum = Measured::default();
            rows.iter().for_each(|(_, row)| sum.add(row));
            rows.push(("all".to_owned(), sum));
            if options.json {
                for (trace, row) in &rows {
                    figures.push(json!({
                        "shape": shape.name(), "window": window, "trace": trace,
                        "means": "contexture", "figures": row,
                    }));
                }
            } else {
                print(*shape, *window, &rows, options.missing);
            }
        }
    }
    if options.json {
        println!("{}", json!({"model": options.model, "rows": figures}));
    }
    Ok(())
}

fn print(shape: Shape, window: u64, rows: &[(String, Measured)], missing: bool) {
    println!("\n{}, {}k tokens", shape.name(), window / 1000);
    println!(
        "{:<22} {:>5} {:>12} {:>12} {:>12} {:>12} {:>7} {:>8} {:>8} {:>8} {:>7}  warnings; malformed",
        "trace",
        "reqs",
        "goal",
        "errors",
        "paths",
        "constraints",
        "shared",
        "compact",
        "mean tok",
        "max tok",
        "CPU ms",
    );
    for (name, row) in rows {
        let survival = &row.survival;
        println!(
            "{name:<22} {:>5} {:>12} {:>12} {:>12} {:>12} {:>6.1}% {:>8} {:>8.0} {:>8} {:>7.2}  {}; {}",
            row.requests,
            percent(survival.goal),
            percent(survival.errors),
            percent(survival.paths),
            percent(survival.constraints),
            row.shared.mean() * 100.0,
            row.compactions,
            row.tokens.mean(),
            row.max_tokens,
            row.cpu_ms / row.requests.max(1) as f64,
            codes(&row.warnings),
            codes(&row.malformed),
        );
        if missing {
            row.missing
                .iter()
                .for_each(|fact| println!("    not there: {fact}"));
        }
    }
}

fn percent(found: Found) -> String {
    match found.share() {
        Some(share) => format!("{:.1}% of {}", share * 100.0, found.of),
        None => "-".to_owned(),
    }
}

fn codes(codes: &ByCode) -> String {
    if codes.is_empty() {
        return "0".to_owned();
    }
    let codes = codes.iter().map(|(code, count)| format!("{count} {code}"));
    codes.collect::<Vec<_>>().join(", ")
}
