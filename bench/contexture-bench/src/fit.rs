//! A provider's own request made to fit: cold, and warm with a session.

use std::path::Path;

use anyhow::{Context as _, ensure};
use contexture::{Engine, FitOptions};
use serde_json::{Value, json};

use crate::project::Project;
use crate::{counter, median, runs};

/// How many messages a session has before the warm calls.
const NEW_MESSAGES: usize = 2;

/// Makes the request in `file` fit into `budget` tokens.
///
/// Cold: each call has an engine of its own, in a thread of its own, so that
/// nothing was counted or kept before; the vocabulary is loaded. Once with the summary
/// of what is left out, which is the default, and once without. Warm: one engine
/// and a session with all messages but the latest; each call has two more. Repeated: the
/// last of these calls again, as for a retry.
pub(crate) fn fit(file: &str, budget: u64, dir: &Path) -> anyhow::Result<()> {
    let body = std::fs::read(file)?;
    let request: Value = serde_json::from_slice(&body)?;
    let messages = request["messages"]
        .as_array()
        .context("no messages")?
        .clone();
    counter().count("load the vocabulary");
    let options = FitOptions {
        max_tokens: Some(budget),
        reserve_response: Some(0),
        ..FitOptions::default()
    };
    let project = |name: &str, summaries: bool| -> anyhow::Result<Project> {
        let mut project = Project::new(&dir.join(name), dir.join(format!("{name}.db")))?;
        project.config.compaction.enabled = summaries;
        Ok(project)
    };
    let cold = |name: &str, summaries: bool| -> anyhow::Result<(f64, usize, u64)> {
        let project = project(name, summaries)?;
        let (cpu, fitted) = crate::cold_median(runs(9), || {
            let engine = Engine::builder().config(project.config.clone()).build()?;
            Ok(engine.fit(&project.root, &body, &options)?.body)
        })?;
        let (kept, tokens) = check(&fitted, &messages, budget)?;
        Ok((cpu, kept, tokens))
    };
    let (summary_cpu, summary_kept, summary_tokens) = cold("summary", true)?;
    let (window_cpu, window_kept, window_tokens) = cold("window", false)?;

    let project = project("session", true)?;
    let store = project.store()?;
    let engine = project.engine(&store)?;
    let options = FitOptions {
        session: Some("bench".to_owned()),
        ..options
    };
    let calls = runs(100);
    let first = messages.len() - calls * NEW_MESSAGES;
    let bodies: Vec<Vec<u8>> = (0..=calls)
        .map(|call| {
            let mut request = request.clone();
            request["messages"] = messages[..first + call * NEW_MESSAGES].into();
            request.to_string().into_bytes()
        })
        .collect();
    engine.fit(&project.root, &bodies[0], &options)?;
    let mut next = bodies[1..].iter();
    let (warm_cpu, fitted) = median(calls, || {
        let body = next.next().context("no more bodies")?;
        Ok(engine.fit(&project.root, body, &options)?.body)
    })?;
    let (warm_kept, warm_tokens) = check(&fitted, &messages, budget)?;
    let last = bodies.last().context("no body")?;
    let (repeated_cpu, again) = median(calls, || {
        Ok(engine.fit(&project.root, last, &options)?.body)
    })?;
    ensure!(again == fitted, "the same request has another result");
    println!(
        "{}",
        json!({
            "messages": messages.len(),
            "cold_cpu_ms": summary_cpu,
            "cold_kept": summary_kept,
            "cold_tokens": summary_tokens,
            "cold_window_cpu_ms": window_cpu,
            "cold_window_kept": window_kept,
            "cold_window_tokens": window_tokens,
            "warm_cpu_ms": warm_cpu,
            "warm_kept": warm_kept,
            "warm_tokens": warm_tokens,
            "repeated_cpu_ms": repeated_cpu,
            "repeated_kept": warm_kept,
        })
    );
    Ok(())
}

/// Returns how many of the messages are in a result, and the tokens of its
/// texts. The newest must be there.
fn check(body: &str, messages: &[Value], budget: u64) -> anyhow::Result<(usize, u64)> {
    let body: Value = serde_json::from_str(body)?;
    let kept = body["messages"].as_array().context("no messages")?;
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    ensure!(
        kept.last() == messages.last(),
        "the newest message is missing"
    );
    let tokens: u64 = kept
        .iter()
        .map(|message| counter().count(&text(message)))
        .sum();
    ensure!(tokens <= budget, "{tokens} tokens are more than {budget}");
    Ok((kept.len(), tokens))
}
