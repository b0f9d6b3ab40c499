//! Completes the report after assembly: warnings, hint verdicts and the event
//! log.

use contexture_core::guard::FindingKind;
use contexture_core::{Code, Tokens};
use serde::Serialize;

use crate::advice::Warning;
use crate::assembled::Assembled;
use crate::report::{HintVerdict, Report};
use crate::source::Concept;

/// Returns the warnings that a person should not overlook.
pub(crate) fn summarise(report: &Report) -> Vec<Warning> {
    let (unusable, over): (Vec<_>, Vec<_>) = report
        .excluded
        .iter()
        // Exclusions by a rule are expected and are in the report.
        .filter(|row| !row.code.is_by_rule() && !row.is_told)
        // A search usually finds more than fits.
        .filter(|row| row.score.is_none())
        // An empty file is expected, too, as `__init__.py` often is, unless its
        // priority is high.
        .filter(|row| row.code != Code::EMPTY || row.priority >= WANTED)
        .partition(|row| row.tokens == 0);
    let mut lines = Vec::new();
    for row in unusable.iter().take(MOST_NAMED) {
        let reason = row.reason.to_string();
        let name = if reason.contains(&format!("`{}`", row.id)) {
            String::new()
        } else {
            format!("`{}`: ", row.id)
        };
        lines.push(Warning::new("unusable", format!("{name}{reason}")));
    }
    if unusable.len() > MOST_NAMED {
        let more = unusable.len() - MOST_NAMED;
        lines.push(Warning::new(
            "unusable",
            format!("{more} more files cannot be used; see the report"),
        ));
    }
    let over: Vec<_> = over
        .into_iter()
        .filter(|row| row.priority >= WANTED)
        .collect();
    if !over.is_empty() {
        let names: Vec<String> = over
            .iter()
            .map(|row| format!("`{}` ({})", row.id, row.code.as_str()))
            .collect();
        let message = format!("dropped because the budget is full: {}", named(&names));
        lines.push(Warning::new("over_budget", message));
    }
    let halved: Vec<String> = report
        .included
        .iter()
        .filter(|row| row.code == Code::CUT && row.tokens * 2 < row.original_tokens)
        .filter(|row| row.priority >= WANTED)
        .map(|row| format!("`{}`", row.id))
        .collect();
    if !halved.is_empty() {
        let message = format!("cut to less than half: {}", named(&halved));
        lines.push(Warning::new("cut", message));
    }
    let masked: Vec<String> = report
        .guard
        .iter()
        .filter(|line| line.finding.kind == FindingKind::Secret)
        .map(|line| {
            format!(
                "{}:{} ({})",
                line.item, line.finding.line, line.finding.what
            )
        })
        .collect();
    if !masked.is_empty() {
        let secrets = if masked.len() == 1 {
            "secret"
        } else {
            "secrets"
        };
        let named = named(&masked);
        let message = format!("{} {secrets} masked: {named}", masked.len());
        lines.push(Warning::new("secrets_masked", message));
    }
    lines
}

/// Returns the first few names as a list.
fn named(names: &[String]) -> String {
    let first = names[..names.len().min(MOST_NAMED)].join(", ");
    match names.len().saturating_sub(MOST_NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The priority from which a warning reports that an item was dropped or cut
/// because the budget was full. Less important items only fill the remaining
/// tokens.
const WANTED: f64 = 0.5;

/// The maximum number of files that a warning names.
const MOST_NAMED: usize = 3;

/// The data of an assembly that the event log stores.
#[derive(Serialize)]
pub(crate) struct Logged<'r> {
    recipe: &'r str,
    model: &'r str,
    max: Tokens,
    effective: Tokens,
    used: Tokens,
    included: Vec<(&'r str, Tokens)>,
    // The number of blocks of history and their tokens. The ledger lists them;
    // listing them in each request would make the log grow quadratically.
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<(usize, Tokens)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<&'r str>,
    excluded: usize,
    hints: &'r [HintVerdict],
}

impl<'r> Logged<'r> {
    pub(crate) fn of(assembled: &'r Assembled) -> Self {
        let report = &assembled.report;
        let of_history: Vec<&str> = (assembled.layers.iter())
            .filter(|layer| layer.concept == Concept::History)
            .map(|layer| &*layer.name)
            .collect();
        let is_history = |layer: &str| of_history.contains(&layer);
        let kept = report.included.iter().filter(|row| is_history(&row.layer));
        let kept = kept.count();
        Self {
            recipe: &report.recipe,
            model: &report.model,
            max: report.budget.max,
            effective: report.budget.effective,
            used: report.budget.used,
            included: report
                .included
                .iter()
                .filter(|row| !is_history(&row.layer))
                .map(|row| (&*row.id, row.tokens))
                .collect(),
            history: (!of_history.is_empty()).then(|| (kept, assembled.used_by(Concept::History))),
            snapshot: report.snapshot.as_deref(),
            excluded: report.excluded.len(),
            hints: &report.hints,
        }
    }
}
