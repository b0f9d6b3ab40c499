//! CPU time of a request against the number of steps of a run: one question,
//! then only calls of tools.

use std::path::Path;

use anyhow::Context as _;
use contexture::Format;
use contexture::store::{Ledger as _, MessageRole};
use serde_json::{Value, json};

use crate::project::{self, Dice, Project, SESSION};
use crate::{cpu_ms, runs};

/// The numbers of steps that are measured.
pub(crate) const STEPS: [usize; 5] = [10, 100, 500, 1_000, 5_000];

/// A request is assembled after so many steps, as an agent does after each one,
/// so that history is summarised on the way and not all at once.
const BETWEEN: usize = 10;

/// Measures a run at each number of steps.
pub(crate) fn steps(
    counts: &[usize],
    window: u64,
    model: &str,
    dir: &Path,
) -> anyhow::Result<Vec<Value>> {
    let run = Run::new(window, model, dir)?;
    let mut rows = Vec::new();
    let (mut made, mut compactions) = (0, 0);
    for count in counts {
        // The last steps before the number are measured.
        let measured = count - runs(21).min(count / 2);
        let mut next = Vec::new();
        while made < *count {
            run.step(made)?;
            made += 1;
            if made % BETWEEN != 0 && made <= measured {
                continue;
            }
            let before = cpu_ms();
            let assembled = run.assemble(made)?;
            let time = cpu_ms() - before;
            // One request in many summarises; the others are what a step costs.
            match assembled.compacted() {
                Some(_) => compactions += 1,
                None if made > measured => next.push(time),
                None => {}
            }
        }
        run.assemble(made)?;
        let mut same = Vec::new();
        for _ in 0..runs(21) {
            let before = cpu_ms();
            run.assemble(made)?;
            same.push(cpu_ms() - before);
        }
        let assembled = run.assemble(made)?;
        let mut answer = assembled.to_json();
        let report = answer
            .as_object_mut()
            .and_then(|answer| answer.shift_remove("report"))
            .context("the answer has no report")?;
        rows.push(json!({
            "steps": count,
            "same_cpu_ms": median(same),
            "next_cpu_ms": median(next),
            "tokens": assembled.report.budget.used,
            "request_bytes": assembled.render_compact(Format::Anthropic)?.len(),
            "answer_bytes": answer.to_string().len(),
            "report_bytes": report.to_string().len(),
            "report_rows": assembled.report.included.len() + assembled.report.excluded.len(),
            "compactions": compactions,
        }));
    }
    Ok(rows)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A session that grows.
struct Run {
    project: Project,
    engine: contexture::Engine,
    window: u64,
}

impl Run {
    fn new(window: u64, model: &str, dir: &Path) -> anyhow::Result<Self> {
        let root = dir.join("root");
        std::fs::create_dir_all(&root)?;
        std::fs::write(root.join("AGENTS.md"), "You work on a large program.")?;
        let mut project = Project::new(&root, dir.join("store.db"))?;
        model.clone_into(&mut project.config.model);
        project.config.snapshots.keep = false;
        let store = project.store()?;
        store.create_session(&project::session(SESSION), project::clock(0))?;
        let engine = project.engine(&store)?;
        Ok(Self {
            project,
            engine,
            window,
        })
    }

    /// Records a step of about 200 tokens: a call, and what the tool returns.
    fn step(&self, number: usize) -> anyhow::Result<()> {
        let mut dice = Dice(number as u64);
        let path = format!("src/part-{}/file-{}.rs", dice.roll(1, 40), dice.roll(1, 9));
        let line = |i| {
            format!(
                "{i}: let value_{} = read({});",
                dice.roll(1, 99),
                dice.roll(1, 999)
            )
        };
        let result: Vec<String> = (0..12).map(line).collect();
        let mut messages = Vec::new();
        if number == 0 {
            let asked = "Rename every value in src. You must not change the tests.";
            messages.push(project::said(MessageRole::User, asked));
        }
        let [call, mut answer] = project::call(
            &format!("call-{number}"),
            "read",
            json!({"path": path}),
            &result.join("\n"),
        );
        answer.is_error = number % 50 == 49;
        messages.extend([call, answer]);
        self.engine
            .record(
                SESSION,
                &project::turn(messages),
                Some(project::clock(number as i64)),
            )
            .with_context(|| format!("step {number}"))?;
        Ok(())
    }

    fn assemble(&self, made: usize) -> anyhow::Result<contexture::Assembled> {
        let request = project::request(SESSION, "", self.window, made as i64);
        Ok(self.engine.assemble(&self.project.root, &request)?)
    }
}
