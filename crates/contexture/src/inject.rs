//! Memory in a request: asked for what is asked, within what is left, and
//! accounted for record by record.

use std::time::Duration;

use contexture_core::guard::{self, Policy};
use contexture_core::{
    Code, Cut, Excluded, GuardLine, Included, Item, Reason, Report, Role, Text, Tokens, Trust,
};

use crate::call::{Call, LITTLE_ROOM, Made};
use crate::config::MemoryFormat;
use crate::error::Error;
use crate::memory::{Context, ContextComponent, ContextRequest, Recall, Recalled};
use crate::recipe::SourceKind;

/// The item that holds what is remembered.
const ITEM: &str = "memory";

/// What the tags around it may take.
const AROUND: Tokens = 16;

/// Less than this says nothing.
const LEAST: Tokens = 32;

/// What memory gave for a request.
#[derive(Default)]
pub(crate) struct Injected {
    pub(crate) item: Option<Item>,
    recalled: Option<Recalled>,
    // Whether the item is a summary of what was recalled.
    summary: bool,
    excluded: Vec<Excluded>,
    warnings: Vec<String>,
}

impl Call<'_> {
    /// Asks memory, once it is known how much room the rest leaves, and returns
    /// true when there is something to add.
    pub(crate) fn recall(&mut self, made: &Made) -> Result<bool, Error> {
        let layer = self.recipe.layers.iter();
        let layer = layer
            .clone()
            .find(|layer| layer.source == SourceKind::Memory);
        let Some(layer) = layer else {
            return Ok(false);
        };
        let config = &self.engine.config.memory;
        let asked = self.recipe.name == "memory" || self.request.query.is_some();
        if !(config.inject || asked) {
            return Ok(false);
        }
        let mut injected = Injected::default();
        if self.permissions.denies("memory") {
            injected.leave_out(Code::NotPermitted, "permissions deny `memory`".to_owned());
            self.memory = Some(injected);
            return Ok(false);
        }
        let Some(query) = self.query() else {
            if asked {
                let nothing = "nothing is asked of memory: give --query or --event";
                injected.warnings.push(nothing.to_owned());
                self.memory = Some(injected);
            }
            return Ok(false);
        };
        if !self.engine.has_store() || self.engine.memory()?.is_empty()? {
            if asked {
                let empty = "memory is empty: `contexture memory record FILE` fills it";
                injected.warnings.push(empty.to_owned());
                self.memory = Some(injected);
            }
            return Ok(false);
        }
        let room = made
            .room_for(ITEM)
            .min(layer.share.max.unwrap_or(Tokens::MAX));
        let room = room.min(config.max_tokens.unwrap_or(Tokens::MAX));
        // An agent's answer needs some of what is left.
        let spared = match self.uses(SourceKind::History) && self.budget.reserve_response() == 0 {
            true => LITTLE_ROOM,
            false => 0,
        };
        let room = room.min(made.room_for(ITEM).saturating_sub(spared));
        let room = room.saturating_sub(AROUND);
        if room < LEAST {
            let reason = format!("{room} tokens were left for it");
            injected.leave_out(Code::OverBudget, reason);
            self.memory = Some(injected);
            return Ok(false);
        }
        let mut filters = self.request.filters.clone();
        if let Some(current) = self.tasks.as_ref().and_then(|tasks| tasks.path.last()) {
            filters.task_id.get_or_insert_with(|| current.id.clone());
        }
        let request = ContextRequest {
            query,
            session_id: self.request.session.clone(),
            max_tokens: room,
            archetype: self.request.strategy.clone(),
            filters,
            ..ContextRequest::default()
        };
        let identity = self.identity();
        let how = Recall {
            model: Some(&self.model.name),
            now: self.request.now,
            identity: &identity,
            permissions: Some(&self.permissions),
            deadline: Some(Duration::from_millis(config.deadline_ms)),
            ..Recall::default()
        };
        let recalled = match self.engine.memory()?.recall(&request, &how) {
            Ok(recalled) => recalled,
            Err(error) if error.is_late() => {
                injected.leave_out(Code::Deadline, error.to_string());
                self.memory = Some(injected);
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let policy = Policy::masking(self.engine.config.secrets.mask && layer.mask_secrets);
        injected.item = self.item(&recalled.context, room, policy);
        injected.recalled = Some(recalled);
        injected.summary = config.format == MemoryFormat::Summary;
        self.memory = Some(injected);
        Ok(true)
    }

    /// Returns what memory is asked for.
    fn query(&self) -> Option<String> {
        let of_event = || {
            self.request
                .event
                .as_ref()
                .map(|event| event.content.clone())
        };
        let of_task = || {
            let current = self.tasks.as_ref()?.path.last()?;
            Some(current.goal.clone())
        };
        // One that is given and empty asks for what is recent and what matters.
        if let Some(query) = &self.request.query {
            return Some(query.clone());
        }
        let query = of_task().or_else(of_event)?;
        (!query.trim().is_empty()).then_some(query)
    }

    /// Returns who asks: the persona, and whoever sent the event, by id. A name
    /// is what somebody calls themselves.
    fn identity(&self) -> Vec<String> {
        let session = self.session.as_ref();
        let persona = session.and_then(|session| session.persona.clone());
        let persona = persona.or_else(|| self.engine.config.persona.name.clone());
        let event = self.request.event.as_ref();
        let sender = event.and_then(|event| event.sender.as_ref()?.id.clone());
        persona.into_iter().chain(sender).collect()
    }

    fn item(&self, context: &Context, room: Tokens, policy: Policy) -> Option<Item> {
        let text = match self.engine.config.memory.format {
            MemoryFormat::Structured => context.content.clone(),
            MemoryFormat::Raw => raw(context),
            MemoryFormat::Summary => {
                let third = (room / 3).max(LEAST);
                self.engine
                    .shorten(&raw(context), &context.metadata.query, third, &self.counts)
            }
        };
        if text.trim().is_empty() {
            return None;
        }
        // The lines have been guarded; what an item holds is guarded once.
        let text = Text::guarded(&guard::restore_by(text.trim_end(), policy), policy);
        let mut item = Item::new(ITEM, Role::Context, text);
        item.trust = Trust::Retrieved;
        item.cut = Cut::Never;
        Some(item)
    }
}

/// Returns the texts alone.
fn raw(context: &Context) -> String {
    let lines = context.components.iter().map(|part| part.content.as_str());
    lines.collect::<Vec<_>>().join("\n")
}

impl Injected {
    /// Says that nothing is remembered here, and why.
    fn leave_out(&mut self, code: Code, reason: String) {
        self.warnings.push(format!("memory is left out: {reason}"));
        let row = Excluded::unoffered(ITEM, "memory", Role::Context, code, reason);
        self.excluded.push(row);
    }

    /// Replaces the row of the item by rows of the records in it, and adds those
    /// that were found and are not. Returns what is to be said.
    pub(crate) fn account(mut self, report: &mut Report) -> Vec<String> {
        report.excluded.append(&mut self.excluded);
        let Some(recalled) = self.recalled else {
            return self.warnings;
        };
        let context = &recalled.context;
        self.warnings
            .extend(context.metadata.warnings.iter().cloned());
        for left in &context.excluded {
            let reason = left.reason.clone();
            let mut row = Excluded::unoffered(&left.source, ITEM, Role::Context, left.code, reason);
            row.tokens = left.tokens;
            row.score = Some(left.relevance_score);
            report.excluded.push(row);
        }
        let place = |report: &Report| {
            let mut rows = report.included.iter();
            rows.position(|row| is_ours(&row.layer, &row.id))
        };
        if self.summary && place(report).is_some() {
            let reason = "the summary `memory` stands for it";
            for part in &context.components {
                let (code, reason) = (Code::Compacted, reason.to_owned());
                let mut row = Excluded::unoffered(&part.source, ITEM, Role::Context, code, reason);
                row.tokens = part.tokens;
                row.score = Some(part.relevance_score);
                row.scores = part.scores.clone();
                report.excluded.push(row);
            }
        } else if let Some(at) = place(report) {
            let whole = report.included.remove(at);
            let rows = rows(&whole, &context.components);
            let (kept, _) = (rows.len(), report.included.splice(at..at, rows).count());
            for layer in report.budget.layers.iter_mut().filter(|l| &*l.name == ITEM) {
                layer.kept = kept;
                layer.cut = context
                    .components
                    .iter()
                    .filter(|p| p.shown.is_some())
                    .count();
                layer.dropped = context.excluded.len();
            }
            let findings = recalled.findings.iter().map(|(id, finding)| GuardLine {
                item: id.as_str().into(),
                finding: finding.clone(),
            });
            report.guard.extend(findings);
        } else if let Some(row) = report
            .excluded
            .iter()
            .find(|row| is_ours(&row.layer, &row.id))
        {
            // It gave way to everything else: so did each record.
            let whole = row.clone();
            report.excluded.retain(|row| !is_ours(&row.layer, &row.id));
            for part in &context.components {
                report.excluded.push(Excluded {
                    id: part.source.as_str().into(),
                    path: None,
                    tokens: part.tokens,
                    score: Some(part.relevance_score),
                    scores: part.scores.clone(),
                    ..whole.clone()
                });
            }
        }
        self.warnings
    }
}

fn is_ours(layer: &str, id: &str) -> bool {
    layer == ITEM && id == ITEM
}

/// Returns a row for each record; what headings and tags take is the first
/// one's.
fn rows(whole: &Included, parts: &[ContextComponent]) -> Vec<Included> {
    let sum: Tokens = parts.iter().map(|part| part.tokens).sum();
    // Without headings the lines may count a little less than by themselves.
    let mut rest = whole.tokens.saturating_sub(sum);
    let mut left = whole.tokens;
    let mut rows: Vec<Included> = Vec::with_capacity(parts.len());
    for part in parts {
        let own = (part.tokens + std::mem::take(&mut rest)).min(left);
        left -= own;
        let missing = part.original_tokens.saturating_sub(part.tokens);
        let cut = part.shown.is_some();
        rows.push(Included {
            id: part.source.as_str().into(),
            path: None,
            tokens: own,
            truncated: cut,
            original_tokens: own + missing,
            score: Some(part.relevance_score),
            scores: part.scores.clone(),
            code: if cut { Code::Cut } else { Code::Fits },
            reason: match cut {
                true => Reason::Cut { missing },
                false => Reason::Fits,
            },
            ..whole.clone()
        });
    }
    if let Some(first) = rows.first_mut() {
        first.tokens += left;
    }
    rows
}
