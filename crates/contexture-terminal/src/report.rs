//! The report of an assembled request as a table (`--explain`).

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use contexture::core::guard::{Finding, FindingKind};
use contexture::core::{Code, Cut, Excluded, Included, Reason, grouped};
use contexture::{Assembled, Report};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::interface::CommandLine;
use crate::text;

const GOOD: Style = AnsiColor::Green.on_default();
const CUT: Style = AnsiColor::Yellow.on_default();
const OUT: Style = AnsiColor::Red.on_default();
const DIM: Style = Style::new().dimmed();

/// The widest a bar gets.
const BAR: usize = 56;

/// The most rows that a terminal gets; a file gets them all.
const MOST_ROWS: usize = 60;

/// The narrowest terminal that has room for all columns.
const ALL_COLUMNS: usize = 100;

/// The narrowest terminal that has room for a table.
const TABLE: usize = 72;

/// The narrowest that lines are made for.
const NARROWEST: usize = 30;

/// Returns a table of the outcome of every candidate, and a bar of the budget,
/// in lines of at most `width` columns, if that is known.
pub fn table(assembled: &Assembled, width: Option<usize>) -> String {
    let width = width.map(|width| width.max(NARROWEST));
    let out = match width {
        Some(width) if width < TABLE => narrow_rows(assembled, width),
        Some(width) => {
            let whole = rows(assembled, None, MOST_ROWS);
            let plain = anstream::adapter::strip_str(&whole).to_string();
            match plain.lines().all(|line| line.width() <= width) {
                true => whole,
                false => rows(assembled, Some(width), MOST_ROWS),
            }
        }
        // A file has no limit on rows.
        None => rows(assembled, None, usize::MAX),
    };
    let out = account(out, assembled, width);
    match width {
        Some(width) => wrapped(&out, width),
        None => out,
    }
}

/// Returns a row for each of at most `most` candidates: in whole words, or in
/// short ones so that a row takes one line of `width` columns.
fn rows(assembled: &Assembled, width: Option<usize>, most: usize) -> String {
    let report = &assembled.report;
    // Memory records have a score instead of a priority.
    let scored = report.included.iter().any(|row| row.score.is_some())
        || report.excluded.iter().any(|row| row.score.is_some());
    let is_brief = width.is_some();
    let is_small = width.is_some_and(|width| width < ALL_COLUMNS);
    let reason = |reason: &Reason| match is_brief {
        true => brief(reason),
        false => text::visible(&reason.to_string()),
    };
    let mut header = vec!["", "item", "role", "priority", "tokens", "of", "why"];
    if scored {
        header.insert(4, "score");
    }
    if is_small {
        header.retain(|name| !["role", "of"].contains(name));
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header.clone());
    let numbers = ["priority", "score", "tokens", "of"];
    let right = header.iter().enumerate();
    let right = right.filter(|(_, name)| numbers.contains(name));
    for (i, _) in right.collect::<Vec<_>>() {
        if let Some(column) = table.column_mut(i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    if let Some(width) = width {
        table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    }
    let item = |id: &str| {
        let id = text::visible(id);
        // Names get three eighths of the line; the rest is for the other columns.
        width.map_or(id.clone(), |width| text::shortened(&id, width * 3 / 8))
    };
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
    for row in report.included.iter().take(most) {
        let fate = if row.truncated { "cut" } else { "kept" };
        let of = format!(
            "{}{}",
            about(row.original_estimated),
            grouped(row.original_tokens)
        );
        let why = match row.lines_cut {
            Some(lines) if !is_brief => format!("{}; {} removed", row.reason, lines),
            _ => reason(&row.reason),
        };
        let mut cells = vec![fate.to_owned(), item(&row.id)];
        cells.extend((!is_small).then(|| row.role.name().to_owned()));
        cells.extend(worth(row.priority, row.base_priority, row.score));
        cells.push(grouped(row.tokens));
        cells.extend((!is_small).then_some(of));
        cells.push(why);
        table.add_row(cells);
    }
    for row in excluded(assembled, most) {
        let of = format!("{}{}", about(row.estimated), grouped(row.tokens));
        let mut cells = vec!["out".to_owned(), item(&row.id)];
        cells.extend((!is_small).then(|| row.role.name().to_owned()));
        cells.extend(worth(row.priority, row.base_priority, row.score));
        cells.push("0".to_owned());
        cells.extend((!is_small).then_some(of));
        cells.push(reason(&row.reason));
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
    out
}

/// Returns a reason in a few words; the report has all of them.
fn brief(reason: &Reason) -> String {
    match reason {
        Reason::Pinned => "pinned".to_owned(),
        Reason::Fits => "whole".to_owned(),
        Reason::Cut { missing, .. } => format!("{} more needed", grouped(*missing)),
        Reason::Dropped {
            missing: Some(missing),
            exactly_missing,
            ..
        } if *missing > 0 => {
            let about = if *exactly_missing { "" } else { "~" };
            format!("{about}{} more needed", grouped(*missing))
        }
        Reason::Dropped { code, .. } if *code == Code::CUT_FROM_PATH => {
            "in the part that was cut".to_owned()
        }
        Reason::LineLimit { max_lines } => format!("max_lines {max_lines}"),
        Reason::TokenLimit { max_tokens } => format!("max_tokens {}", grouped(*max_tokens)),
        other => text::shortened(&text::visible(&other.to_string()), 30),
    }
}

/// Returns the number of rows of excluded candidates that are shown.
fn room_for_excluded(assembled: &Assembled, most: usize) -> usize {
    let included = assembled.report.included.len();
    most.saturating_sub(included).max(10)
}

/// Returns the excluded candidates that are shown: files without content last,
/// because nothing can be done about them. If not all are shown, the highest
/// priorities are.
fn excluded(assembled: &Assembled, most: usize) -> Vec<&Excluded> {
    let mut rows: Vec<&Excluded> = assembled.report.excluded.iter().collect();
    rows.sort_by_key(|row| row.code == Code::EMPTY);
    let room = room_for_excluded(assembled, most);
    if rows.len() > room {
        let given = rows.partition_point(|row| row.code != Code::EMPTY);
        rows[..given].sort_by(|a, b| b.priority.total_cmp(&a.priority));
        rows.truncate(room);
    }
    rows
}

/// Returns a row with the most important columns for each candidate, and the
/// reason below the row where it is not obvious.
fn narrow_rows(assembled: &Assembled, width: usize) -> String {
    let report = &assembled.report;
    let mut out = String::new();
    let mut row = |fate: &str, id: &str, tokens: u64, why: Option<String>| {
        let style = match fate {
            "kept" => GOOD,
            "cut" => CUT,
            _ => OUT,
        };
        // Before the name: the fate, the tokens, and blanks.
        let name = text::shortened(&text::visible(id), width - 16);
        let tokens = grouped(tokens);
        let _ = writeln!(out, "{style}{fate:<4} {tokens:>8}  {name}{style:#}");
        if let Some(why) = why {
            let _ = writeln!(out, "    {}", text::visible(&why));
        }
    };
    for one in report.included.iter().take(MOST_ROWS) {
        let why = one.truncated.then(|| one.reason.to_string());
        let fate = if one.truncated { "cut" } else { "kept" };
        row(fate, &one.id, one.tokens, why);
    }
    for one in excluded(assembled, MOST_ROWS) {
        row("out", &one.id, 0, Some(one.reason.to_string()));
    }
    out
}

/// Adds the summary below the rows.
fn account(mut out: String, assembled: &Assembled, width: Option<usize>) -> String {
    let report = &assembled.report;
    let most = width.map_or(usize::MAX, |_| MOST_ROWS);
    let room = room_for_excluded(assembled, most);
    let kept = report.included.len().saturating_sub(most);
    let dropped = report.excluded.len().saturating_sub(room);
    let more = [(kept, "kept"), (dropped, "left out")];
    let more = more.iter().filter(|(count, _)| *count > 0);
    let more: Vec<String> = more
        .map(|(count, fate)| format!("{} more {fate}", grouped(*count as u64)))
        .collect();
    if !more.is_empty() {
        let more = more.join(", ");
        let _ = writeln!(out, "{DIM}{more}: --report FILE lists all{DIM:#}");
    }
    out.push('\n');
    bar(&mut out, assembled, width);
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
    if let Some(row) = crowding(report) {
        let _ = writeln!(
            out,
            "{DIM}the file {} uses {} of {} tokens: give it `max_tokens` in the working set, or a \
             range of lines, to make room{DIM:#}",
            text::visible(row.path.as_deref().unwrap_or_default()),
            grouped(row.tokens),
            grouped(report.budget.used)
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
            text::visible(&hint.path),
            hint.verdict
        );
    }
    for warning in &report.warnings {
        let warning = text::visible(&warning.phrase(&CommandLine));
        let _ = writeln!(out, "{CUT}warning:{CUT:#} {warning}");
    }
    out.truncate(out.trim_end().len());
    out
}

/// Returns the file that uses more than half of a request in which something
/// else found no room.
fn crowding(report: &Report) -> Option<&Included> {
    let mut left_out = report.excluded.iter();
    if !left_out.any(|row| row.code == Code::OVER_BUDGET) {
        return None;
    }
    let files = report.included.iter().filter(|row| row.path.is_some());
    let largest = files.max_by_key(|row| row.tokens)?;
    (largest.tokens > report.budget.used / 2).then_some(largest)
}

/// Breaks lines at spaces so that none is wider than `width`; continuation
/// lines are indented. Colour codes do not count.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let (mut column, mut is_first) = (0, true);
        for word in line.split(' ') {
            let needs = anstream::adapter::strip_str(word).to_string().width();
            if column > indent && column + 1 + needs > width {
                out.push('\n');
                out.push_str(&" ".repeat(indent + 2));
                column = indent + 2;
            } else if !is_first {
                out.push(' ');
                column += 1;
            }
            is_first = false;
            if column + needs <= width || word.contains('\u{1b}') {
                out.push_str(word);
                column += needs;
                continue;
            }
            // A word that is longer than a line, such as a path.
            for c in word.chars() {
                let needs = c.width().unwrap_or(0);
                if column + needs > width {
                    out.push('\n');
                    out.push_str(&" ".repeat(indent + 2));
                    column = indent + 2;
                }
                out.push(c);
                column += needs;
            }
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

/// Returns a line about a change of the guard in an item.
pub fn guard_line(item: &str, finding: &Finding) -> String {
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
        text::visible(item),
        finding.line,
        text::visible(&finding.what)
    )
}

/// Returns a priority with two digits at most.
fn short(priority: f64) -> String {
    ((priority * 100.0).round() / 100.0).to_string()
}

/// Returns a letter for each layer, unique as long as there are letters. The
/// initials of the parts of its name are preferred.
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

/// Draws the budget: a letter of each layer's name for its share, dots for free
/// tokens, and dashes for reserved ones.
fn bar(out: &mut String, assembled: &Assembled, width: Option<usize>) {
    let budget = &assembled.report.budget;
    // The brackets take two columns.
    let bar = width.map_or(BAR, |width| BAR.min(width - 2));
    let cells = |tokens: u64| -> usize {
        (tokens as f64 / budget.max.max(1) as f64 * bar as f64).round() as usize
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
            .min(bar - drawn);
        let style = colour.on_default();
        let part: String = std::iter::repeat_n(letter, width).collect();
        let _ = write!(line, "{style}{part}{style:#}");
        drawn += width;
    }
    let reserved = cells(budget.reserved).min(bar - drawn);
    let free = bar - drawn - reserved;
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
        text::counted_with(
            &tokenizer.name,
            Some(&assembled.report.model),
            tokenizer.exact
        ),
    );
    let is_small = width.is_some_and(|width| width < ALL_COLUMNS);
    let width = layers().map(|layer| layer.name.chars().count()).max();
    let width = width.unwrap_or(0).clamp(11, 40);
    for (layer, letter) in layers().zip(&letters) {
        if layer.kept + layer.dropped == 0 {
            continue;
        }
        if is_small {
            let _ = writeln!(
                out,
                "  {letter} {}: {} of {} tokens, {} kept ({} cut), {} dropped",
                layer.name,
                grouped(layer.used),
                grouped(layer.allowed),
                layer.kept,
                layer.cut,
                layer.dropped,
            );
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
