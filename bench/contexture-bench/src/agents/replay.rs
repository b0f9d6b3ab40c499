//! Replays a run call by call through the engine and a store: assembles a
//! request, then records the call as a turn.

use std::path::Path;

use anyhow::Context as _;
use contexture::store::{Ledger as _, MessageRole, NewTurn};
use contexture::turn::Usage;
use contexture::{Assembled, Error, Format};

use super::bill::CLAUDE_TOKENS;
use super::measure::{Measured, Meter, STEP};
use super::options::Options;
use super::survival::Facts;
use super::trace::Trace;
use super::wire::{Blocks, Wire};
use crate::cpu_ms;
use crate::project::{self, Project, SESSION};

/// The formats that every request is rendered in.
const FORMS: [Format; 4] = [
    Format::Anthropic,
    Format::OpenAiChat,
    Format::OpenAiResponses,
    Format::Gemini,
];

/// The user message of requests that must end with the user, where the trace has
/// no message: after an interrupted answer and after the last answer. It is not
/// recorded.
pub(crate) const CONTINUE: &str = "Continue.";

/// Replays `trace` with at most `window` tokens per request.
pub(crate) fn replay(
    trace: &Trace,
    window: u64,
    options: &Options,
    dir: &Path,
    blocks: &mut Blocks,
) -> anyhow::Result<Measured> {
    let model = options.model.as_str();
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
    let mut last = None;
    // One request more than calls: it shows what is left after the last call.
    for i in 0..=trace.calls.len() {
        let now = STEP * i as i64;
        let call = trace.calls.get(i);
        let asked = call.and_then(super::trace::Call::asked);
        let event = match &asked {
            None if !after_user => CONTINUE,
            asked => asked.as_deref().unwrap_or_default(),
        };
        let mut request = project::request(SESSION, event, window, now);
        request.reserve_response = options.reserve;
        let before = cpu_ms();
        let assembled = engine.assemble(&project.root, &request);
        *meter.cpu_ms.get_or_insert(0.0) += cpu_ms() - before;
        let snapshot = (assembled.as_ref().ok()).and_then(|it| it.snapshot.clone());
        let wire = meter.take(assembled, blocks)?;
        let Some(call) = call else {
            last = wire;
            break;
        };
        let factor = if estimated { CLAUDE_TOKENS } else { 1.0 };
        let count = wire
            .as_ref()
            .map(|wire| (wire.tokens() as f64 * factor) as u64);
        if count.is_some_and(|count| count > window) {
            *meter.malformed.entry("over_window".to_owned()).or_default() += 1;
        }
        if let Some(wire) = wire {
            meter.sent(wire, now);
        }

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
                input_tokens: count,
                ..Usage::default()
            }),
            ..NewTurn::default()
        };
        engine
            .record(SESSION, &turn, Some(project::clock(now + STEP / 2)))
            .with_context(|| format!("{}: call {i}", trace.file))?;
    }
    Ok(meter.finish(last.as_ref(), &Facts::of(trace, trace.calls.len())))
}

impl Meter {
    /// Adds the report of a request and renders the request in every form.
    /// Returns the request in Anthropic's form.
    fn take(
        &mut self,
        assembled: Result<Assembled, Error>,
        blocks: &mut Blocks,
    ) -> anyhow::Result<Option<Wire>> {
        let assembled = match assembled {
            Ok(assembled) => assembled,
            Err(error) => {
                let code = format!("assemble {:?}", error.cause());
                *self.malformed.entry(code).or_default() += 1;
                return Ok(None);
            }
        };
        self.compactions += usize::from(assembled.compacted().is_some());
        for warning in &assembled.report.warnings {
            *self.warnings.entry(warning.code.to_string()).or_default() += 1;
        }
        self.max_used = self.max_used.max(assembled.report.budget.used);
        self.available = assembled.budget.available();
        let mut sent = None;
        for form in FORMS {
            match assembled.render_compact(form) {
                Ok(body) if form == Format::Anthropic => {
                    sent = Some(Wire::read(&body, blocks)?);
                }
                Ok(_) => {}
                Err(refused) => {
                    let code = format!("{} {}", form.name(), refused.rule);
                    *self.malformed.entry(code).or_default() += 1;
                }
            }
        }
        Ok(sent)
    }
}
