//! Replays recorded runs of agents call by call. Measures which facts of the run
//! survive in the last request, which part of each request the provider has
//! cached, and the cost.

mod baseline;
mod bill;
mod measure;
mod options;
mod replay;
mod steps;
mod survival;
mod table;
mod trace;
mod wire;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use baseline::Rule;
use measure::Measured;
use options::{Options, Shape};
use trace::Trace;
use wire::Blocks;

/// The method name of Contexture's rows.
const OURS: &str = "contexture";

/// The name of the rows for all traces together.
const ALL: &str = "all";

/// The figures of one trace, or of all, by one method.
struct Row {
    trace: String,
    method: &'static str,
    figures: Measured,
}

/// Replays the traces that the arguments name, or measures runs of many steps.
pub(crate) fn agents(args: &[&str]) -> anyhow::Result<()> {
    let options = Options::read(args)?;
    if !options.steps.is_empty() {
        return grow(&options);
    }
    let traces = Trace::read_all(&options.traces()?, &options.trace)?;
    let mut blocks = Blocks::new();
    let mut rows: Vec<Value> = Vec::new();
    for shape in &options.shapes {
        let shaped: Vec<Trace> = match shape {
            Shape::Recorded => traces.clone(),
            Shape::OneQuestion => (traces.iter())
                .map(Trace::one_question)
                .collect::<anyhow::Result<_>>()?,
        };
        for window in &options.windows {
            let measured = measure(&options, &shaped, *window, &mut blocks)?;
            if options.json {
                rows.extend(measured.iter().map(|row| {
                    json!({
                        "shape": shape.name(), "window": window, "trace": row.trace,
                        "method": row.method, "figures": row.figures,
                    })
                }));
            } else {
                table::print(*shape, *window, &measured, &options);
            }
        }
    }
    if options.json {
        println!("{}", json!({"model": options.model, "rows": rows}));
    }
    Ok(())
}

/// Replays all traces at a window, by all methods, with sums.
fn measure(
    options: &Options,
    traces: &[Trace],
    window: u64,
    blocks: &mut Blocks,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for trace in traces {
        let dir = tempfile::tempdir()?;
        let ours = replay::replay(trace, window, options, dir.path(), blocks)?;
        let available = ours.available;
        rows.push(Row {
            trace: trace.file.clone(),
            method: OURS,
            figures: ours,
        });
        for rule in options.rules() {
            rows.push(Row {
                trace: trace.file.clone(),
                method: rule.name(),
                figures: baseline::replay(*rule, trace, window, available, blocks),
            });
        }
    }
    if traces.len() > 1 {
        let mut sums: BTreeMap<&str, Measured> = BTreeMap::new();
        for row in &rows {
            sums.entry(row.method).or_default().add(&row.figures);
        }
        let method = [OURS].into_iter().chain(Rule::ALL.map(Rule::name));
        rows.extend(method.filter_map(|method| {
            Some(Row {
                trace: ALL.to_owned(),
                method,
                figures: sums.remove(method)?,
            })
        }));
    }
    Ok(rows)
}

/// Measures CPU time against the number of steps.
fn grow(options: &Options) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for window in &options.windows {
        let dir = tempfile::tempdir()?;
        let rows = steps::steps(&options.steps, *window, &options.model, dir.path())?;
        if !options.json {
            table::print_steps(*window, &rows);
        }
        all.push(json!({"window": window, "rows": rows}));
    }
    if options.json {
        println!("{}", json!({"model": options.model, "windows": all}));
    }
    Ok(())
}
