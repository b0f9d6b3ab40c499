//! What a report says beyond the rows: fates of files, warnings, the log.

use std::collections::BTreeMap;

use contexture_core::guard::FindingKind;
use contexture_core::{Code, Report, Tokens};
use serde::Serialize;

use crate::working_set::Fate;

/// Returns what became of each file. Of several ranges of one file, the best
/// fate counts.
pub(crate) fn fates(report: &Report) -> BTreeMap<&str, Fate> {
    let mut fates: BTreeMap<&str, Fate> = BTreeMap::new();
    let kept = report.included.iter().map(|row| {
        let fate = match row.code {
            Code::Pinned => Fate::Pinned,
            _ if row.truncated => Fate::Cut,
            _ => Fate::Whole,
        };
        (row.path.as_deref(), fate)
    });
    let dropped = report
        .excluded
        .iter()
        .map(|row| (row.path.as_deref(), Fate::Dropped));
    for (path, fate) in kept.chain(dropped) {
        let Some(path) = path else { continue };
        let file = crate::working_set::split_lines(path).map_or(path, |(file, _)| file);
        fates
            .entry(file)
            .and_modify(|best| *best = (*best).min(fate))
            .or_insert(fate);
    }
    fates
}

/// Says in a few lines what a person should not overlook.
pub(crate) fn summarise(report: &Report) -> Vec<String> {
    // What a rule leaves out is no surprise; the report has it.
    let expected = [
        Code::Compacted,
        Code::NotForProvider,
        Code::NotPermitted,
        Code::BeforeWindow,
        // A path has one line of its own.
        Code::CutFromPath,
        Code::Excluded,
        Code::Pruned,
        Code::Annotation,
        Code::OtherVersion,
        Code::SourceExcluded,
    ];
    let (unusable, over): (Vec<_>, Vec<_>) = report
        .excluded
        .iter()
        .filter(|row| !expected.contains(&row.code))
        // Memory finds more than fits, and says itself when it is left out.
        .filter(|row| &*row.layer != "memory" || row.score.is_none() && &*row.id != "memory")
        .partition(|row| row.tokens == 0);
    let mut lines = Vec::new();
    for row in unusable.iter().take(MOST_NAMED) {
        let reason = row.reason.to_string();
        let name = if reason.contains(&format!("`{}`", row.id)) {
            String::new()
        } else {
            format!("`{}`: ", row.id)
        };
        lines.push(format!("{name}{reason}"));
    }
    if unusable.len() > MOST_NAMED {
        let more = unusable.len() - MOST_NAMED;
        lines.push(format!(
            "{more} more files cannot be used; the report names them"
        ));
    }
    if !over.is_empty() {
        let names: Vec<String> = over
            .iter()
            .map(|row| format!("`{}` ({})", row.id, row.code.as_str()))
            .collect();
        lines.push(format!("left out for want of tokens: {}", named(&names)));
    }
    let halved: Vec<String> = report
        .included
        .iter()
        .filter(|row| row.code == Code::Cut && row.tokens * 2 < row.original_tokens)
        .map(|row| format!("`{}`", row.id))
        .collect();
    if !halved.is_empty() {
        lines.push(format!("cut to less than half: {}", named(&halved)));
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
        lines.push(format!("{} {secrets} masked: {named}", masked.len()));
    }
    lines
}

/// Names the first few.
fn named(names: &[String]) -> String {
    let first = names[..names.len().min(MOST_NAMED)].join(", ");
    match names.len().saturating_sub(MOST_NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Most files that a warning names.
const MOST_NAMED: usize = 3;

/// What the event log keeps of an assembly.
#[derive(Serialize)]
pub(crate) struct Logged<'r> {
    recipe: &'r str,
    model: &'r str,
    max: Tokens,
    effective: Tokens,
    used: Tokens,
    included: Vec<(&'r str, Tokens)>,
    // Blocks of history and their tokens: which they are is in the ledger, and
    // naming them with each request would make the log grow with its square.
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<(usize, Tokens)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<&'r str>,
    excluded: usize,
    hints: &'r [contexture_core::HintVerdict],
}

impl<'r> Logged<'r> {
    pub(crate) fn of(report: &'r Report) -> Self {
        Self {
            recipe: &report.recipe,
            model: &report.model,
            max: report.budget.max,
            effective: report.budget.effective,
            used: report.budget.used,
            included: report
                .included
                .iter()
                .filter(|row| &*row.layer != "session")
                .map(|row| (&*row.id, row.tokens))
                .collect(),
            history: report
                .budget
                .layers
                .iter()
                .find(|layer| &*layer.name == "session")
                .map(|layer| (layer.kept, layer.used)),
            snapshot: report.snapshot.as_deref(),
            excluded: report.excluded.len(),
            hints: &report.hints,
        }
    }
}
