//! The report of an assembled request as a table (`--explain`).

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use contexture::Assembled;
use contexture::core::guard::{Finding, FindingKind};
use contexture::core::{Cut, Included, Reason, grouped};

use crate::face::CommandLine;
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
    // What is remembered has a score instead of a priority.
    let scored = report.included.iter().any(|row| row.score.is_some())
        || report.excluded.iter().any(|row| row.score.is_some());
    let mut header = vec!["", "item", "role", "priority", "tokens", "of", "why"];
    if scored {
        header.insert(4, "score");
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    let right = if scored { 3..7 } else { 3..6 };
    for i in right {
        if let Some(column) = table.column_mut(i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    if let Some(column) = table.column_mut(1) {
        column.set_constraint(ColumnConstraint::UpperBoundary(Width::Percentage(45)));
    }
    let worth = |own: f64, base: Option<f64>, score: Option<f64>| {
        let priority = match (score, base) {
            (Some(_), _) => String::new(),
            (None, Some(base)) if base != own => format!("{} -> {}", short(base), short(own)),
            (None, _) => short(own),
        };
        let score = score.map_or(String::new(), |score| format!("{score:.2}"));
        let cells = [Some(priority), scored.then_some(score)];
        cells.into_iter().flatten()
    };
    let about = |guess: bool| if guess { "~" } else { "" };
    for row in report.included.iter().take(MOST_ROWS) {
        let fate = if row.truncated { "cut" } else { "kept" };
        let of = format!(
            "{}{}",
            about(row.original_estimated),
            grouped(row.original_tokens)
        );
        let why = match row.lines_cut {
            Some(lines) => format!("{}; {} removed", row.reason, lines),
            None => row.reason.to_string(),
        };
        let mut cells = vec![fate.to_owned(), output::visible(&row.id)];
        cells.push(row.role.name().to_owned());
        cells.extend(worth(row.priority, row.base_priority, row.score));
        cells.extend([grouped(row.tokens), of, why]);
        table.add_row(cells);
    }
    let room = MOST_ROWS.saturating_sub(report.included.len()).max(10);
    for row in report.excluded.iter().take(room) {
        let of = format!("{}{}", about(row.estimated), grouped(row.tokens));
        let mut cells = vec!["out".to_owned(), output::visible(&row.id)];
        cells.push(row.role.name().to_owned());
        cells.extend(worth(row.priority, row.base_priority, row.score));
        cells.extend(["0".to_owned(), of, output::visible(&row.reason.to_string())]);
        table.add_row(cells);
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
            "{DIM}and {hidden} more; --report FILE lists all{DIM:#}"
        );
    }
    out.push('\n');
    bar(&mut out, assembled);
    let cut_at_end = |row: &Included| {
        let at_end = matches!(
            row.reason,
            Reason::Cut {
                part: Some(Cut::End),
                ..
            }
        );
        at_end && row.path.is_some()
    };
    if report.included.iter().any(cut_at_end) {
        let _ = writeln!(
            out,
            "{DIM}to keep the latest lines of a file that is cut at the end, set its \
             truncate_strategy to start{DIM:#}"
        );
    }
    for line in &report.guard {
        let _ = writeln!(out, "{}", guard_line(&line.item, &line.finding));
    }
    if let Some(hash) = &report.snapshot {
        let _ = writeln!(
            out,
            "{DIM}request {id}: print it again with `contexture snapshot show {id}`{DIM:#}",
            id = &hash[..12]
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
        let warning = output::visible(&warning.phrase(&CommandLine));
        let _ = writeln!(out, "{CUT}warning:{CUT:#} {warning}");
    }
    out.truncate(out.trim_end().len());
    out
}

/// Says what the guard changed in an item.
pub(crate) fn guard_line(item: &str, finding: &Finding) -> String {
    let what = match finding.kind {
        FindingKind::Secret => "secret masked",
        FindingKind::Boundary => "boundary mark in content, another is used",
        FindingKind::ControlToken => "control token escaped",
        FindingKind::Invisible => "invisible character shown",
    };
    let times = match finding.count {
        1 => String::new(),
        n => format!(" ({n} times)"),
    };
    format!(
        "{CUT}guard:{CUT:#} {}:{}: {what}: {}{times}",
        output::visible(item),
        finding.line,
        output::visible(&finding.what)
    )
}

/// Returns a priority with two digits at most.
fn short(priority: f64) -> String {
    ((priority * 100.0).round() / 100.0).to_string()
}

/// Returns a letter for each layer, no two of them the same as long as there
/// are letters: those that the parts of its name begin with come first.
fn letters<'n>(names: impl Iterator<Item = &'n str>) -> Vec<char> {
    let mut taken: Vec<char> = Vec::new();
    for name in names {
        let first = name
            .split(['-', '_', ' '])
            .filter_map(|part| part.chars().next());
        let rest = name.chars().filter(|c| c.is_alphanumeric());
        let letter = first.chain(rest).chain('a'..='z').chain('A'..='Z');
        let letter = letter.into_iter().find(|letter| !taken.contains(letter));
        taken.push(letter.unwrap_or('#'));
    }
    taken
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
    // Layers without anything need no letter.
    let layers = || {
        budget
            .layers
            .iter()
            .filter(|layer| layer.used > 0 || layer.kept + layer.dropped > 0)
    };
    let letters = letters(layers().map(|layer| &*layer.name));
    for ((layer, letter), colour) in layers().zip(&letters).zip(colours.iter().cycle()) {
        let width = cells(layer.used)
            .max(usize::from(layer.used > 0))
            .min(BAR - drawn);
        let style = colour.on_default();
        let part: String = std::iter::repeat_n(letter, width).collect();
        let _ = write!(line, "{style}{part}{style:#}");
        drawn += width;
    }
    let reserved = cells(budget.reserved).min(BAR - drawn);
    let free = BAR - drawn - reserved;
    let _ = writeln!(
        out,
        "[{line}{}{}]  . free, - reserved",
        ".".repeat(free),
        "-".repeat(reserved)
    );
    let tokenizer = &assembled.report.tokenizer;
    let _ = writeln!(
        out,
        "{} of {} tokens used, {} free, {} reserved; {}",
        grouped(budget.used),
        grouped(budget.effective),
        grouped(budget.available),
        grouped(budget.reserved),
        output::counted_with(
            &tokenizer.name,
            Some(&assembled.report.model),
            tokenizer.exact
        ),
    );
    let width = layers().map(|layer| layer.name.chars().count()).max();
    let width = width.unwrap_or(0).clamp(11, 40);
    for (layer, letter) in layers().zip(&letters) {
        if layer.kept + layer.dropped == 0 {
            continue;
        }
        let _ = writeln!(
            out,
            "  {letter} {:<width$} {:>9} tokens of {:>9} allowed: {} kept ({} cut), {} dropped",
            layer.name,
            grouped(layer.used),
            grouped(layer.allowed),
            layer.kept,
            layer.cut,
            layer.dropped,
        );
    }
}
