//! The figures as tables.

use serde_json::Value;

use super::Row;
use super::measure::ByCode;
use super::options::{Options, Shape};
use super::survival::Found;

/// Prints the figures of a shape at a window.
pub(crate) fn print(shape: Shape, window: u64, rows: &[Row], options: &Options) {
    println!("\n{}, {window} tokens, {}", shape.name(), options.model);
    println!(
        "{:<17} {:<17} {:>5} {:>11} {:>11} {:>11} {:>11} {:>7} {:>5} {:>7} {:>7} {:>10} {:>8} {:>7}",
        "trace",
        "",
        "calls",
        "goal",
        "errors",
        "paths",
        "constraints",
        "shared",
        "comp.",
        "mean",
        "max",
        "Anthropic",
        "OpenAI",
        "CPU ms"
    );
    for row in rows {
        let (figures, survival) = (&row.figures, &row.figures.survival);
        let cpu = (figures.cpu_ms).map(|time| time / figures.requests.max(1) as f64);
        println!(
            "{:<17} {:<17} {:>5} {:>11} {:>11} {:>11} {:>11} {:>6.1}% {:>5} {:>7.0} {:>7} {:>10} {:>8} {:>7}",
            row.trace,
            row.method,
            figures.requests,
            percent(survival.goal),
            percent(survival.errors),
            percent(survival.paths),
            percent(survival.constraints),
            figures.shared.get() * 100.0,
            figures.compactions,
            figures.tokens.get(),
            figures.max_tokens,
            format!("${:.3}", figures.bill.anthropic_dollars),
            format!("${:.3}", figures.bill.openai_dollars),
            cpu.map_or_else(String::new, |cpu| format!("{cpu:.2}")),
        );
    }
    for row in rows {
        let at = format!("{}, {}", row.trace, row.method);
        if !row.figures.warnings.is_empty() {
            println!("{at}: warnings: {}", codes(&row.figures.warnings));
        }
        if !row.figures.malformed.is_empty() {
            println!("{at}: MALFORMED: {}", codes(&row.figures.malformed));
        }
        if row.method != super::OURS {
            continue;
        }
        if options.missing {
            for fact in &row.figures.missing {
                println!("{at}: lost: {fact}");
            }
        }
        if options.show && !row.figures.last_text.is_empty() {
            println!("{at}: text of the last request:\n{}", row.figures.last_text);
        }
    }
}

/// Prints CPU time against the number of steps.
pub(crate) fn print_steps(window: u64, rows: &[Value]) {
    println!("\none question and N steps, {window} tokens; CPU in ms, medians");
    println!(
        "{:>7} {:>9} {:>9} {:>7} {:>8} {:>8} {:>9} {:>6} {:>6}",
        "steps", "same", "next", "tokens", "request", "answer", "report", "rows", "comp."
    );
    let whole = |row: &Value, key: &str| row[key].as_u64().unwrap_or(0);
    let time = |row: &Value, key: &str| row[key].as_f64().unwrap_or(f64::NAN);
    for row in rows {
        println!(
            "{:>7} {:>9.2} {:>9.2} {:>7} {:>8} {:>8} {:>9} {:>6} {:>6}",
            whole(row, "steps"),
            time(row, "same_cpu_ms"),
            time(row, "next_cpu_ms"),
            whole(row, "tokens"),
            whole(row, "request_bytes"),
            whole(row, "answer_bytes"),
            whole(row, "report_bytes"),
            whole(row, "report_rows"),
            whole(row, "compactions"),
        );
    }
}

fn percent(found: Found) -> String {
    match found.share() {
        Some(share) => format!("{:.1}% of {}", share * 100.0, found.of),
        None => "-".to_owned(),
    }
}

fn codes(codes: &ByCode) -> String {
    let codes = codes.iter().map(|(code, count)| format!("{count} {code}"));
    codes.collect::<Vec<_>>().join(", ")
}
