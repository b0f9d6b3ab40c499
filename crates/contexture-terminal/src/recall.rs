//! The result of a recall as a table: scores, reasons and budgets
//! (`--explain`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use contexture::core::grouped;
use contexture::memory::{Channel, Context, ContextComponent, Recalled, Shown};

use crate::interface::CommandLine;
use crate::table::table as empty_table;
use crate::text;

const GOOD: Style = AnsiColor::Green.on_default();
const CUT: Style = AnsiColor::Yellow.on_default();
const OUT: Style = AnsiColor::Red.on_default();

/// The maximum number of rows for included and for excluded items; the JSON has
/// more.
const MOST_ROWS: usize = 60;
const MOST_OUT: usize = 12;

/// The tokenizer, the budget and the strategy of a recall.
pub struct Counted<'a> {
    /// The name of the model.
    pub model: &'a str,
    /// The name of the tokenizer.
    pub tokenizer: &'a str,
    /// Whether the tokenizer counts as the model does.
    pub exact: bool,
    /// The tokens that the result can use.
    pub budget: u64,
    /// The name of the strategy.
    pub strategy: &'a str,
}

/// Returns a table of the items found, the tokens of each channel, and the
/// terms of the query.
pub fn table(recalled: &Recalled, counted: &Counted<'_>) -> String {
    let context = &recalled.context;
    let header = ["", "item", "found as", "tokens", "score", "made of", "why"];
    let mut table = empty_table(&header, &[3, 4]);
    for part in context.components.iter().take(MOST_ROWS) {
        table.add_row([
            if part.shown.is_some() { "part" } else { "kept" }.to_owned(),
            text::visible(&part.source),
            found_as(part),
            grouped(part.tokens),
            format!("{:.2}", part.relevance_score),
            score_parts(part.channel, &part.scores, context),
            why(part, context),
        ]);
    }
    for left in context.excluded.iter().take(MOST_OUT) {
        table.add_row([
            "out".to_owned(),
            text::visible(&left.source),
            left.channel.name().to_owned(),
            grouped(left.tokens),
            format!("{:.2}", left.relevance_score),
            score_parts(left.channel, &left.scores, context),
            text::visible(&left.reason.to_string()),
        ]);
    }
    let mut out = String::new();
    for line in table.to_string().lines() {
        let style = match line.split_whitespace().next() {
            Some("kept") => GOOD,
            Some("part") => CUT,
            Some("out") => OUT,
            _ => Style::new(),
        };
        let _ = writeln!(out, "{style}{}{style:#}", line.trim_end());
    }
    let hidden = context.components.len().saturating_sub(MOST_ROWS)
        + context.excluded.len().saturating_sub(MOST_OUT);
    // The JSON is bounded, too.
    let of_them = match context.metadata.unlisted {
        0 => "them".to_owned(),
        _ => format!("{} of them", grouped(hidden as u64)),
    };
    let more = grouped((hidden + context.metadata.unlisted) as u64);
    if hidden > 0 {
        let _ = writeln!(out, "and {more} more; --format json lists {of_them}");
    }
    out.push('\n');
    budgets(&mut out, context, counted);
    query_signals(&mut out, context, counted);
    if let Some(vectors) = context.metadata.vectors {
        let _ = writeln!(out, "vectors: {} % current", vectors.percent());
    }
    for (id, finding) in &*recalled.findings {
        let _ = writeln!(out, "{}", crate::report::guard_line(id, finding));
    }
    for warning in &context.metadata.warnings {
        let warning = text::visible(&warning.phrase(&CommandLine));
        let _ = writeln!(out, "{CUT}warning:{CUT:#} {warning}");
    }
    out.truncate(out.trim_end().len());
    out
}

fn found_as(part: &ContextComponent) -> String {
    match part.kind {
        Some(kind) if kind.name() != part.channel.name() => {
            format!("{} {}", part.channel.name(), kind.name())
        }
        _ => part.channel.name().to_owned(),
    }
}

/// The similarity from which a vector counts as a reason: most texts are as
/// similar below it.
const NEAR: f64 = 0.2;

/// The minimum weight of recency if a query asks for recent items.
const ASKED_RECENCY: f64 = 0.3;

const NAMED: &str = "the query names a person or a time";

const INSTRUCTION: &str = "a standing instruction";

/// Returns the parts of a score that count in this strategy, and its factors.
fn score_parts(channel: Channel, scores: &contexture::core::Scores, context: &Context) -> String {
    let strategy = &context.strategy;
    let signals = &context.metadata.signals;
    let recency = match strategy.recency_only_when_asked {
        true => signals.recent || signals.keywords.is_empty() || context.metadata.unmatched,
        false => strategy.recency_weight > 0.0,
    };
    let counts = |name: &str| match name {
        // The parts of relevance are more specific.
        "relevance" => !scores.contains_key("words") && strategy.relevance_weight > 0.0,
        "recency" => recency && !matches!(channel, Channel::Entity | Channel::Pattern),
        "salience" => strategy.salience_weight > 0.0,
        "words" | "vector" => !signals.keywords.is_empty(),
        // A number of words, shown with their score.
        "matched" => false,
        // Shown with the vector.
        "vector_weight" => false,
        _ => true,
    };
    let (boosts, parts): (BTreeMap<&str, f64>, BTreeMap<&str, f64>) = (scores.iter())
        .filter(|(name, _)| counts(name))
        .partition(|(name, _)| name.starts_with("boost_"));
    // The most important part comes first.
    let order = [
        "words",
        "vector",
        "run",
        "bonus",
        "instruction",
        "asks",
        "relevance",
    ];
    let place = |name: &str| order.iter().position(|one| *one == name);
    let mut parts: Vec<(&str, f64)> = parts.into_iter().collect();
    parts.sort_by_key(|(name, _)| place(name).unwrap_or(order.len()));
    let asked = signals.keywords.len();
    let parts = parts
        .iter()
        .map(|(name, value)| match scores.get("matched") {
            Some(matched) if *name == "words" => {
                format!("words {value:.2} ({matched:.0} of {asked})")
            }
            _ if *name == "depth" => format!("depth {value:.0}"),
            _ if *name == "vector" => match scores.get("vector_weight") {
                Some(weight) => format!("vector {value:.2} ×{weight:.1}"),
                None => format!("vector {value:.2}"),
            },
            _ => format!("{name} {value:.2}"),
        });
    let boosts = boosts.iter().map(|(name, value)| {
        let name = name.trim_start_matches("boost_");
        format!("×{value:.2} {name}")
    });
    parts.chain(boosts).collect::<Vec<_>>().join(", ")
}

fn why(part: &ContextComponent, context: &Context) -> String {
    // A value that is shown as 0.00 is not a reason.
    let has = |name: &str| part.scores.get(name).is_some_and(|value| *value >= 0.005);
    let found = match part.channel {
        Channel::Recent if has("new") => "new event".to_owned(),
        Channel::Recent if has("session") => "recent in this session".to_owned(),
        Channel::Recent => "recent".to_owned(),
        Channel::Semantic => {
            let near = part.scores.get("vector").is_some_and(|near| *near >= NEAR);
            let own = (part.scores.get("matched")).is_none_or(|matched| *matched > 0.0);
            let by = match (has("words"), own, near) {
                (false, _, false) if has("instruction") => return with_part(INSTRUCTION, part),
                (false, _, false) if has("bonus") => return with_part(NAMED, part),
                (false, _, false) => "little in common with the query; there was space",
                (false, _, true) => "similar meaning",
                (true, true, false) => "matching words",
                (true, true, true) => "matching words and similar meaning",
                (true, false, false) => "matching words in neighbouring records",
                (true, false, true) => "matching words in neighbouring records and similar meaning",
            };
            match (has("instruction"), has("bonus")) {
                (true, _) => format!("{by}; {INSTRUCTION}"),
                (_, true) => format!("{by}; {NAMED}"),
                _ => by.to_owned(),
            }
        }
        Channel::Entity if has("boost_mentioned") => "named in the query".to_owned(),
        Channel::Entity => "among the most salient entities".to_owned(),
        Channel::Relation => {
            let from = match context.metadata.signals.mentioned_entities.is_empty() {
                true => "a salient entity",
                false => "an entity that the query names, or a salient one",
            };
            let depth = part.scores.get("depth").copied().unwrap_or(1.0);
            match depth > 1.0 {
                true => format!("{depth:.0} steps from {from}"),
                false => format!("relation of {from}"),
            }
        }
        Channel::Pattern => "its conditions match the query".to_owned(),
        Channel::Custom => "given with the request".to_owned(),
    };
    with_part(&found, part)
}

/// Adds the shown part of an item, if it is not whole.
fn with_part(found: &str, part: &ContextComponent) -> String {
    let shown = match part.shown {
        None => return found.to_owned(),
        Some(Shown::Snippet) => "best passage only: the whole record did not fit",
        Some(Shown::Compressed) => "shortened to its most relevant sentences to make room",
        Some(Shown::Summary) => "summarised to make room",
    };
    format!("{found}; {shown}")
}

fn budgets(out: &mut String, context: &Context, counted: &Counted<'_>) {
    let _ = writeln!(
        out,
        "{} of {} tokens used; {}",
        grouped(context.token_count),
        grouped(counted.budget),
        text::counted_with(counted.tokenizer, Some(counted.model), counted.exact)
    );
    for channel in Channel::ALL {
        let name = channel.name();
        let Some(budget) = context.metadata.channels.get(name) else {
            continue;
        };
        if budget.allowed == 0 && budget.found == 0 {
            continue;
        }
        let beyond = match budget.used > budget.allowed {
            true => ", plus unused tokens of other channels",
            false => "",
        };
        let _ = writeln!(
            out,
            "  {name:<8} {:>7} tokens of {:>7} allowed{beyond}: {} found, {} shown",
            grouped(budget.used),
            grouped(budget.allowed),
            grouped(budget.found as u64),
            grouped(budget.kept as u64),
        );
    }
}

fn query_signals(out: &mut String, context: &Context, counted: &Counted<'_>) {
    let (strategy, signals) = (&context.strategy, &context.metadata.signals);
    let asked = strategy.recency_weight.max(ASKED_RECENCY);
    let recency = match strategy.recency_only_when_asked {
        false => format!("recency {}", strategy.recency_weight),
        true if signals.recent => format!("recency {asked} (the query asks for recent records)"),
        true if signals.keywords.is_empty() => format!("recency {asked} (the query is empty)"),
        true if context.metadata.unmatched => {
            format!("recency {asked} (no record matches the query)")
        }
        true => "recency not used (the query does not ask for recent records)".to_owned(),
    };
    let _ = writeln!(
        out,
        "strategy {}: relevance {}, salience {}, {recency}",
        text::visible(counted.strategy),
        strategy.relevance_weight,
        strategy.salience_weight
    );
    let words = match signals.keywords.is_empty() {
        true => "no words: returning recent and salient records".to_owned(),
        false => signals.keywords.join(", "),
    };
    let _ = writeln!(
        out,
        "query terms ({}): {}",
        signals.intent.as_str(),
        text::visible(&words)
    );
    if context.metadata.unmatched {
        let _ = writeln!(
            out,
            "no record matches the query: returning recent and salient records"
        );
    }
    if !signals.mentioned_entities.is_empty() {
        let names = signals.mentioned_entities.join(", ");
        let _ = writeln!(
            out,
            "entities named in the query: {}",
            text::visible(&names)
        );
    }
    let _ = writeln!(
        out,
        "searched {}",
        text::many(context.metadata.chunks_searched as u64, "text")
    );
}
