//! The report as a person reads it.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use contexture::Assembled;
use contexture::core::grouped;

use crate::output;

const GOOD: Style = AnsiColor::Green.on_default();
const CUT: Style = AnsiColor::Yellow.on_default();
const OUT: Style = AnsiColor::Red.on_default();
const DIM: Style = Style::new().dimmed();

/// The widest a bar gets.
const BAR: usize = 60;

/// Most rows of files that are shown; the report has them all.
const MOST_ROWS: usize = 60;

/// Returns a table of what became of every candidate, and a bar of the budget.
pub(crate) fn table(assembled: &Assembled) -> String {
    let report = &assembled.report;
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(["", "item", "role", "priority", "tokens", "of", "why"]);
    for i in [3, 4, 5] {
        if let Some(column) = table.column_mut(i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    if let Some(column) = table.column_mut(1) {
        column.set_constraint(ColumnConstraint::UpperBoundary(Width::Percentage(45)));
    }
    let priority = |own: f64, base: Option<f64>| match base {
        Some(base) if base != own => format!("{base} -> {own}"),
        _ => own.to_string(),
    };
    let about = |guess: bool| if guess { "~" } else { "" };
    for row in report.included.iter().take(MOST_ROWS) {
        table.add_row([
            if row.truncated { "cut" } else { "kept" }.to_owned(),
            output::visible(&row.id),
            row.role.name().to_owned(),
            priority(row.priority, row.base_priority),
            grouped(row.tokens),
            format!(
                "{}{}",
                about(row.original_estimated),
                grouped(row.original_tokens)
            ),
            match row.lines_cut {
                Some(lines) => format!("{}; {} went", row.reason, lines),
                None => row.reason.to_string(),
            },
        ]);
    }
    let room = MOST_ROWS.saturating_sub(report.included.len()).max(10);
    for row in report.excluded.iter().take(room) {
        table.add_row([
            "out".to_owned(),
            output::visible(&row.id),
            row.role.name().to_owned(),
            priority(row.priority, row.base_priority),
            "0".to_owned(),
            format!("{}{}", about(row.estimated), grouped(row.tokens)),
            output::visible(&row.reason.to_string()),
        ]);
    }

    let mut out = String::new();
    for line in table.to_string().lines() {
        let style = match line.split_whitespace().next() {
            Some("kept") => GOOD,
            Some("cut") => CUT,
            Some("out") => OUT,
            _ => Style::new(),
        };
        let _ = writeln!(out, "{style}{}{style:#}", line.trim_end());
    }
    let hidden = report.included.len().saturating_sub(MOST_ROWS)
        + report.excluded.len().saturating_sub(room);
    if hidden > 0 {
        let _ = writeln!(
            out,
            "{DIM}and {hidden} more; --report FILE has them all{DIM:#}"
        );
    }
    out.push('\n');
    bar(&mut out, assembled);
    for line in &report.guard {
        let finding = &line.finding;
        let what = match finding.kind {
            contexture::core::guard::FindingKind::Secret => "secret masked",
            contexture::core::guard::FindingKind::Boundary => "tag escaped",
            contexture::core::guard::FindingKind::ControlToken => "control token escaped",
            contexture::core::guard::FindingKind::Invisible => "invisible character shown",
        };
        let times = match finding.count {
            1 => String::new(),
            n => format!(" ({n} times)"),
        };
        let _ = writeln!(
            out,
            "{CUT}guard:{CUT:#} {}:{}: {what}: {}{times}",
            output::visible(&line.item),
            finding.line,
            output::visible(&finding.what)
        );
    }
    if let Some(hash) = &report.snapshot {
        let _ = writeln!(
            out,
            "{DIM}request {}: `contexture snapshot show` prints it again{DIM:#}",
            &hash[..12]
        );
    }
    if let Some(shared) = crate::snapshot::shared(report) {
        let _ = writeln!(out, "{DIM}{shared}{DIM:#}");
    }
    for hint in &report.hints {
        let why = hint.why.as_deref().unwrap_or("no reason given");
        let _ = writeln!(
            out,
            "{} hint for {}: {}: {why}",
            hint.list,
            output::visible(&hint.path),
            hint.verdict
        );
    }
    for warning in &report.warnings {
        let _ = writeln!(out, "{CUT}warning:{CUT:#} {}", output::visible(warning));
    }
    out.truncate(out.trim_end().len());
    out
}

/// Draws the budget: a letter of each layer's name for its part, dots for what
/// is free, and dashes for what is reserved.
fn bar(out: &mut String, assembled: &Assembled) {
    let budget = &assembled.report.budget;
    let cells = |tokens: u64| -> usize {
        (tokens as f64 / budget.max.max(1) as f64 * BAR as f64).round() as usize
    };
    let colours = [
        AnsiColor::Cyan,
        AnsiColor::Green,
        AnsiColor::Magenta,
        AnsiColor::Blue,
        AnsiColor::Yellow,
    ];
    let mut drawn = 0;
    let mut line = String::new();
    for (layer, colour) in budget.layers.iter().zip(colours.iter().cycle()) {
        let width = cells(layer.used)
            .max(usize::from(layer.used > 0))
            .min(BAR - drawn);
        let style = colour.on_default();
        let letter = layer.name.chars().next().unwrap_or('#').to_string();
        let _ = write!(line, "{style}{}{style:#}", letter.repeat(width));
        drawn += width;
    }
    let reserved = cells(budget.reserved).min(BAR - drawn);
    let free = BAR - drawn - reserved;
    let _ = writeln!(out, "[{line}{}{}]", ".".repeat(free), "-".repeat(reserved));
    let exact = if assembled.report.tokenizer.exact {
        "exact"
    } else {
        "an estimate that errs high"
    };
    let _ = writeln!(
        out,
        "{} of {} tokens used, {} free, {} reserved; {} for {}, {exact}",
        grouped(budget.used),
        grouped(budget.effective),
        grouped(budget.available),
        grouped(budget.reserved),
        assembled.report.tokenizer.name,
        assembled.report.model,
    );
    for layer in budget
        .layers
        .iter()
        .filter(|layer| layer.kept + layer.dropped > 0)
    {
        let letter = layer.name.chars().next().unwrap_or('#');
        let _ = writeln!(
            out,
            "  {letter} {:<11} {:>9} tokens of {:>9} allowed: {} kept ({} cut), {} left out",
            layer.name,
            grouped(layer.used),
            grouped(layer.allowed),
            layer.kept,
            layer.cut,
            layer.dropped,
        );
    }
}
