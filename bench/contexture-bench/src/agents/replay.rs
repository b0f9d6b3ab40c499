//! Replays a run call by call through the engine and a store: assembles a
//! request, then records the call as a turn.

use std::path::Path;

use anyhow::Context as _;
use contexture::Format;
use contexture::store::{Ledger as _, MessageRole, NewTurn};
use contexture::turn::Usage;

use super::measure::{Measured, Meter};
use super::survival::Facts;
use super::trace::Trace;
use super::wire::{Tokens, Wire};
use crate::cpu_ms;
use crate::project::{self, Project, SESSION};

/// The forms that every request must have.
const FORMS: [Format; 4] = [
    Format::Anthropic,
    Format::OpenAiChat,
    Format::OpenAiResponses,
    Format::Gemini,
];

/// Seconds between two calls, less than a provider keeps its cache.
const STEP: i64 = 30;

/// What is sent where a request must end with the user, and the recorded run
/// has nothing there: after a run that was interrupted, and after the last
/// answer. It is not recorded.
pub(crate) const CONTINUE: &str = "Continue.";

/// Claude's tokens per token of o200k, by recorded usage.
pub(crate) const CLAUDE_TOKENS: f64 = 1.22;

/// Replays `trace` with at most `window` tokens per request.
pub(crate) fn replay(
    trace: &Trace,
    window: u64,
    model: &str,
    dir: &Path,
    tokens: &mut Tokens,
) -> anyhow::Result<Measured> {
    let root = dir.join("root");
    std::fs::create_dir_all(&root)?;
    std::fs::write(root.join("AGENTS.md"), &trace.system)?;
    std::fs::write(
        root.join("tools.json"),
        serde_json::to_string(&trace.tools)?,
    )?;
    let mut project = Project::new(&root, dir.join("store.db"))?;
    model.clone_into(&mut project.config.model);
    // Claude's tokens are estimated, from the usage of requests that are kept.
    let estimated = model.starts_with("claude");
    project.config.snapshots.keep = estimated;
    let store = project.store()?;
    store.create_session(&project::session(SESSION), project::clock(0))?;
    let engine = project.engine(&store)?;

    let mut meter = Meter::default();
    let mut after_user = true;
    // One request more than calls: it shows what is left after the last call.
    for i in 0..=trace.calls.len() {
        let now = STEP * i as i64;
        let call = trace.calls.get(i);
        let asked = call.and_then(super::trace::Call::asked);
        let event = match &asked {
            None if !after_user => CONTINUE,
            asked => asked.as_deref().unwrap_or_default(),
        };
        let request = project::request(SESSION, event, window, now);
        let before = cpu_ms();
        let assembled = engine.assemble(&project.root, &request);
        meter.cpu_ms += cpu_ms() - before;
        let (mut sent, mut snapshot) = (None, None);
        match assembled {
            Ok(assembled) => {
                snapshot.clone_from(&assembled.snapshot);
                meter.compactions += usize::from(assembled.compacted().is_some());
                for warning in &assembled.report.warnings {
                    *meter.warnings.entry(warning.code.to_string()).or_default() += 1;
                }
                meter.most_used = meter.most_used.max(assembled.report.budget.used);
                for form in FORMS {
                    match assembled.render_compact(form) {
                        Ok(body) if form == Format::Anthropic => {
                            sent = Some(Wire::read(&body, tokens)?);
                        }
                        Ok(_) => {}
                        Err(refused) => {
                            let code = format!("{} {}", form.name(), refused.rule);
                            *meter.malformed.entry(code).or_default() += 1;
                        }
                    }
                }
            }
            Err(error) => {
                let code = format!("assemble {:?}", error.cause());
                *meter.malformed.entry(code).or_default() += 1;
            }
        }
        let count = sent.as_ref().map(Wire::tokens);
        if let Some(wire) = sent {
            meter.sent(wire);
        }
        let Some(call) = call else { break };

        let mut messages: Vec<_> = (asked.iter())
            .map(|asked| project::said(MessageRole::User, asked.as_str()))
            .collect();
        messages.extend(call.messages.iter().cloned());
        after_user = !call.results().is_empty();
        let turn = NewTurn {
            messages,
            model: Some(model.to_owned()),
            request_hash: snapshot,
            usage: count.filter(|_| estimated).map(|count| Usage {
                input_tokens: (count as f64 * CLAUDE_TOKENS) as u64,
                ..Usage::default()
            }),
            ..NewTurn::default()
        };
        engine
            .record(SESSION, &turn, Some(project::clock(now + STEP / 2)))
            .with_context(|| format!("{}: call {i}", trace.file))?;
    }
    Ok(meter.finish(&Facts::of(trace, trace.calls.len())))
}
