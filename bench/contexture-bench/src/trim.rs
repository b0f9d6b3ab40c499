//! A long conversation cut to a budget.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use contexture::core::guard::Policy;
use contexture::core::{
    Anchor, Budget, Content, Counts, Cut, Fit, Item, Layer, Path as Newest, Place, Role, Text,
    assemble, no_loader,
};
use contexture::store::{Ledger as _, MessageRole, NewTurn};
use contexture::turn::turn_from_json;
use contexture::{Assembled, Engine, Format, Request};
use contexture_sqlite::SqliteStore;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::project::{self, Project, SESSION};
use crate::{counter, median, runs};

#[derive(Deserialize)]
struct Message {
    role: String,
    text: String,
}

impl Message {
    fn role(&self) -> Role {
        match self.role.as_str() {
            "user" => Role::User,
            _ => Role::Assistant,
        }
    }
}

/// Keeps the newest of `items`.
fn window(
    items: Vec<Item>,
    budget: u64,
    counts: &Counts,
    load: &mut dyn FnMut(&Item) -> Content,
) -> anyhow::Result<(usize, u64)> {
    let mut layer = Layer::new("session");
    layer.place = Place::History;
    // As much as fits, as the peers do.
    let anchor = Anchor {
        shrink_to: 1.0,
        ..Anchor::default()
    };
    layer.fit = Fit::Path(Newest {
        anchor: Some(anchor),
        ..Newest::window()
    });
    layer.items = items;
    let assembly = assemble(vec![layer], Budget::new(budget, 0, 0)?, counts, load)?;
    Ok((assembly.layout.history.len(), assembly.report.budget.used))
}

/// Cuts messages to a budget: with the core alone, and with the engine from a
/// history in SQLite.
pub(crate) fn trim(file: &str, budget: u64, dir: &Path) -> anyhow::Result<()> {
    let messages: Vec<Message> = serde_json::from_slice(&std::fs::read(file)?)?;
    counter().count("load the vocabulary");

    // The core, cold: texts are guarded and counted when they are looked at,
    // newest first, and not at all once the budget is spent. Once without a
    // look for secrets, which the peers do not take either.
    let cold = |mask_secrets: bool| {
        let policy = Policy::masking(mask_secrets);
        crate::cold_median(runs(15), || {
            let counts = Counts::new(counter());
            let pending = |(i, message): (usize, &Message)| {
                let bytes = message.text.len() as u64;
                let content = Content::Pending { bytes, policy };
                Item::with_content(i.to_string(), message.role(), content).cut(Cut::Never)
            };
            let items = messages.iter().enumerate().map(pending).collect();
            window(items, budget, &counts, &mut |item: &Item| {
                let i: usize = item.id.parse().unwrap_or_default();
                Content::Ready(Text::guarded(&messages[i].text, policy))
            })
        })
    };
    let (core_unmasked_cold, unmasked) = cold(false)?;
    let (core_cold, (core_kept, core_used)) = cold(true)?;
    ensure!(
        unmasked.0.abs_diff(core_kept) <= 2,
        "masking changes what is kept"
    );
    // Warm: what a session that is kept in memory does for its next request.
    let counts = Counts::new(counter());
    let ready: Vec<Item> = messages
        .iter()
        .enumerate()
        .map(|(i, message)| {
            Item::new(i.to_string(), message.role(), Text::new(&message.text)).cut(Cut::Never)
        })
        .collect();
    let first = window(ready.clone(), budget, &counts, &mut no_loader)?;
    let (core_warm, again) = median(runs(51), || {
        window(ready.clone(), budget, &counts, &mut no_loader)
    })?;
    ensure!(
        first == again && first == (core_kept, core_used),
        "cold and warm runs differ"
    );

    let engine = through_engine(&messages, budget, dir)?;
    println!(
        "{}",
        json!({
            "messages": messages.len(),
            "core_kept": core_kept,
            "core_tokens": core_used,
            "core_cold_cpu_ms": core_cold,
            "core_unmasked_cold_cpu_ms": core_unmasked_cold,
            "core_warm_cpu_ms": core_warm,
            "engine_kept": engine.kept,
            "engine_tokens": engine.tokens,
            "engine_uncounted_cold_cpu_ms": engine.uncounted_cold,
            "engine_cold_cpu_ms": engine.cold,
            "engine_warm_cpu_ms": engine.warm,
            "engine_warm_stages": engine.stages,
        })
    );
    Ok(())
}

struct ThroughEngine {
    kept: usize,
    tokens: u64,
    uncounted_cold: f64,
    cold: f64,
    warm: f64,
    // Wall time by stage, of one warm call.
    stages: BTreeMap<String, f64>,
}

fn through_engine(messages: &[Message], budget: u64, dir: &Path) -> anyhow::Result<ThroughEngine> {
    let without = dir.join("uncounted.db");
    let project = |db: &Path| -> anyhow::Result<Project> {
        let mut project = Project::new(&dir.join("root"), db.to_owned())?.sliding()?;
        project.config.snapshots.keep = false;
        Ok(project)
    };
    let turns: Vec<NewTurn> = messages
        .chunks(2)
        .map(|pair| {
            let said = pair.iter().map(|message| {
                let role = match message.role() {
                    Role::User => MessageRole::User,
                    _ => MessageRole::Assistant,
                };
                project::said(role, message.text.as_str())
            });
            project::turn(said.collect())
        })
        .collect();
    let store = project(&without)?.store()?;
    store.create_session(&project::session(SESSION), project::clock(0))?;
    let mut ids = Vec::with_capacity(turns.len());
    for turn in &turns {
        ids.push(
            store
                .record(SESSION, turn, None, None, project::clock(0))?
                .id,
        );
    }
    drop(store);

    // LangChain fills the whole budget and leaves nothing for the answer.
    let request = Request {
        reserve_response: Some(0),
        ..project::request(SESSION, "", budget, 0)
    };
    let once = |engine: &Engine, project: &Project| -> anyhow::Result<Assembled> {
        Ok(engine.assemble(&project.root, &request)?)
    };
    // Turns that were imported without counts: everything that is used is
    // counted now, and the counts are kept, so each run has a store of its own.
    let times = (0..runs(5)).map(|i| {
        let copy = dir.join(format!("copy-{i}.db"));
        std::fs::copy(&without, &copy)?;
        let project = project(&copy)?;
        let (time, _) =
            crate::cold_median(1, || once(&project.engine(&project.store()?)?, &project))?;
        Ok(time)
    });
    let mut times: Vec<f64> = times.collect::<anyhow::Result<_>>()?;
    times.sort_by(f64::total_cmp);
    let uncounted_cold = times[times.len() / 2];

    // Turns that were recorded by the engine: counted then.
    let with = dir.join("counted.db");
    std::fs::copy(&without, &with)?;
    let project = project(&with)?;
    let counts: Vec<_> = ids
        .iter()
        .zip(&turns)
        .map(|(id, turn)| (*id, project::counted(turn)))
        .collect();
    let store: Arc<SqliteStore> = project.store()?;
    store.put_counts(&counts)?;
    drop(store);
    let (cold, assembled) = crate::cold_median(runs(15), || {
        once(&project.engine(&project.store()?)?, &project)
    })?;
    let store = project.store()?;
    let engine = project.engine(&store)?;
    once(&engine, &project)?;
    let (warm, again) = median(runs(51), || once(&engine, &project))?;
    let text = again.render(Format::Text)?;
    ensure!(
        assembled.render(Format::Text)? == text,
        "cold and warm runs differ"
    );
    let timed = Request {
        now: None,
        ..request.clone()
    };
    let stages = engine.assemble(&project.root, &timed)?.into_inner();
    let stages = stages.report.timings_ms;
    Ok(ThroughEngine {
        kept: again.layout.history.len(),
        tokens: counter().count(&text),
        uncounted_cold,
        cold,
        warm,
        stages,
    })
}

/// Cuts a conversation with many tool calls to each of many budgets, and prints
/// the shape of what would be sent.
pub(crate) fn valid(file: &str, budgets: &str, dir: &Path) -> anyhow::Result<()> {
    let turns: Vec<Value> = serde_json::from_slice(&std::fs::read(file)?)?;
    let budgets: Vec<usize> = budgets
        .split(':')
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let &[from, to, step] = budgets.as_slice() else {
        anyhow::bail!("--budgets wants FROM:TO:STEP");
    };
    let mut project = Project::new(&dir.join("valid"), dir.join("valid.db"))?.sliding()?;
    project.config.snapshots.keep = false;
    let store = project.store()?;
    store.create_session(&project::session(SESSION), project::clock(0))?;
    let engine = project.engine(&store)?;
    for turn in &turns {
        let turn = turn_from_json(file, &turn.to_string())?;
        engine.record(SESSION, &turn, Some(project::clock(0)))?;
    }
    let (mut shapes, mut refused) = (Vec::new(), 0);
    for budget in (from..to).step_by(step) {
        let request = project::request(SESSION, "Go on.", budget as u64, 0);
        let Ok(assembled) = engine.assemble(&project.root, &request) else {
            refused += 1;
            continue;
        };
        let sent = assembled.render(Format::OpenAiChat)?;
        let used = counter().count(&assembled.render(Format::Text)?);
        let sent: Value = serde_json::from_str(&sent)?;
        let messages = sent["messages"].as_array().context("no messages")?;
        let shape: Vec<Value> = messages.iter().map(shape).collect();
        shapes.push(json!({"budget": budget, "used": used, "messages": shape}));
    }
    println!("{}", json!({"results": shapes, "refused": refused}));
    Ok(())
}

/// What matters of a message to whether it may stand where it does.
fn shape(message: &Value) -> Value {
    let calls = message["tool_calls"].as_array();
    let calls = calls.into_iter().flatten().map(|call| call["id"].clone());
    json!({
        "role": message["role"],
        "calls": calls.collect::<Vec<_>>(),
        "answers": message["tool_call_id"],
    })
}
