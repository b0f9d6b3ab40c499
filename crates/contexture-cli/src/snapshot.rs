//! `contexture snapshot`: lists, prints, compares and verifies saved requests.
//!
//! `diff --min-shared` is the check for CI: it exits with 1 when less of a
//! request is shared with an earlier one, which is what prompt caches depend
//! on.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use contexture::core::grouped;
use contexture::snapshot::{self, Change, Comparison, Saved};
use contexture::{CacheCause, Engine, Error, Format, Report};
use serde_json::json;

use crate::args::{SnapshotArgs, SnapshotCommand};
use crate::{output, store};

pub(crate) fn run(args: &SnapshotArgs) -> anyhow::Result<()> {
    let engine = store::engine(&args.options, false)?;
    let json = args.options.json;
    match &args.command {
        SnapshotCommand::List { session, limit } => list(&engine, session.as_deref(), *limit, json),
        SnapshotCommand::Show { hash, format } => {
            let saved = load(&engine, hash)?;
            if json || *format == Format::Json {
                return output::text(&format!("{:#}\n", saved.to_json()));
            }
            output::bytes(saved.render(engine.store()?, *format)?.as_bytes())
        }
        SnapshotCommand::Diff { a, b, min_shared } => diff(&engine, a, b, *min_shared, json),
        SnapshotCommand::Check { hash } => check(&engine, hash.as_deref(), json),
    }
}

fn load(engine: &Engine, prefix: &str) -> anyhow::Result<Saved> {
    let store = engine.store()?;
    Ok(Saved::load(store, &snapshot::find(store, prefix)?)?)
}

fn list(engine: &Engine, session: Option<&str>, limit: usize, json: bool) -> anyhow::Result<()> {
    let store = engine.store()?;
    let found = store.snapshots(session, limit).map_err(Error::from)?;
    if json {
        return output::text(&format!("{:#}\n", json!(found)));
    }
    if found.is_empty() {
        return output::text("no snapshots\n");
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header([
            "hash",
            "session",
            "created",
            "model",
            "tokens",
            "turn before",
        ]);
    if let Some(column) = table.column_mut(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for one in &found {
        table.add_row([
            one.hash.to_string()[..12].to_owned(),
            output::visible(&one.session),
            format!("{:.0}", one.created_at),
            output::visible(&one.model),
            grouped(one.tokens),
            one.parent_turn
                .map_or_else(String::new, |turn| turn.short()),
        ]);
    }
    let lines: String = table
        .to_string()
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect();
    output::text(&lines)
}

fn diff(
    engine: &Engine,
    a: &str,
    b: &str,
    min_shared: Option<f64>,
    json: bool,
) -> anyhow::Result<()> {
    let compared = engine.compare(a, b)?;
    let shared = &compared.cache;
    if json {
        output::text(&format!("{:#}\n", json!(compared)))?;
    } else {
        let mut out = format!(
            "{} of {} tokens are shared ({:.1} %)\n",
            grouped(shared.shared_tokens),
            grouped(compared.tokens),
            shared.shared_fraction * 100.0
        );
        match &shared.first_difference {
            Some(_) if shared.cause == Some(CacheCause::Model) => {
                out.push_str("the model changed\n");
                out.push_str(&cached(&compared));
            }
            Some(first) => {
                out.push_str(&format!(
                    "first difference: item {} in layer {}, at byte {}\n",
                    output::visible(&first.item),
                    first.layer,
                    grouped(first.byte)
                ));
                out.push_str(&cached(&compared));
            }
            None => out.push_str("the requests are identical\n"),
        }
        for change in &compared.changes {
            out.push_str(&describe(change));
        }
        output::text(&out)?;
    }
    match min_shared {
        Some(least) if shared.shared_fraction * 100.0 < least => Err(anyhow::anyhow!(
            "{:.1} % of the later request are shared, less than {least} %",
            shared.shared_fraction * 100.0
        )),
        _ => Ok(()),
    }
}

/// Returns a description of the later request's use of the provider's cache.
fn cached(compared: &Comparison) -> String {
    let cache = &compared.cache;
    let dollars = |dollars: Option<f64>| match dollars {
        Some(dollars) => format!(", ${dollars:.4}"),
        None => String::new(),
    };
    let mut out = format!(
        "expected of the provider's cache: {} tokens read, {} written{}\n",
        grouped(cache.read_tokens),
        grouped(cache.written_tokens),
        dollars(cache.dollars)
    );
    if let Some(cause) = cache.cause {
        out.push_str(&format!(
            "cache break: {}, {} tokens missed{}\n",
            cause.words(),
            grouped(cache.missed_tokens),
            dollars(cache.dollars_missed)
        ));
    }
    if let Some(usage) = compared.usage {
        out.push_str(&format!(
            "reported by the provider: {} of {} tokens read, {} written\n",
            grouped(usage.cached_input_tokens),
            grouped(usage.input_tokens),
            grouped(usage.cache_write_tokens)
        ));
    }
    out
}

/// The maximum number of lines of a difference in a block that are shown.
const MOST_LINES: usize = 12;

fn describe(change: &Change) -> String {
    let what = match (&change.before, &change.now) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "changed",
    };
    let mut out = format!(
        "\n{what}: {} (layer {}), {} tokens\n",
        output::visible(&change.id),
        change.layer,
        grouped(change.tokens)
    );
    let lines = |text: &Option<String>| -> Vec<String> {
        text.as_deref()
            .unwrap_or("")
            .lines()
            .map(output::visible)
            .collect()
    };
    let (before, now) = (lines(&change.before), lines(&change.now));
    // Common lines at both ends are left out.
    let head = before.iter().zip(&now).take_while(|(a, b)| a == b).count();
    let rest = before.len().min(now.len()) - head;
    let tail = before.iter().rev().zip(now.iter().rev());
    let tail = tail.take(rest).take_while(|(a, b)| a == b).count();
    for (sign, lines) in [('-', &before), ('+', &now)] {
        let differing = &lines[head..lines.len() - tail];
        for line in differing.iter().take(MOST_LINES) {
            out.push_str(&format!("    {sign} {line}\n"));
        }
        if differing.len() > MOST_LINES {
            out.push_str(&format!(
                "    {sign} … {} more lines\n",
                differing.len() - MOST_LINES
            ));
        }
    }
    out
}

fn check(engine: &Engine, prefix: Option<&str>, json: bool) -> anyhow::Result<()> {
    let store = engine.store()?;
    let found = match prefix {
        Some(prefix) => vec![snapshot::find(store, prefix)?],
        None => store
            .snapshots(None, usize::MAX >> 1)
            .map_err(Error::from)?,
    };
    let mut blocks = 0;
    for one in &found {
        blocks += Saved::load(store, one)?.check(store)?;
    }
    if json {
        return output::text(&format!(
            "{:#}\n",
            json!({"checked": found.len(), "blocks": blocks})
        ));
    }
    output::text(&format!(
        "verified {} with {}: all render to the same bytes\n",
        output::many(found.len() as u64, "request"),
        output::many(blocks as u64, "block")
    ))
}

/// Returns a description of the part that a request shares with the previous
/// one.
pub(crate) fn shared(report: &Report) -> Option<String> {
    let cache = report.cache.as_ref()?;
    let at = cache
        .first_difference
        .as_ref()
        .map_or_else(String::new, |first| {
            // All of this request can be the beginning of the one before it.
            let what = match cache.shared_fraction >= 1.0 {
                true => "the previous request continued with",
                false => "first difference:",
            };
            format!(
                "; {what} item {} in layer {}",
                output::visible(&first.item),
                first.layer
            )
        });
    Some(format!(
        "cache: {} tokens ({:.1} %) are shared with the previous request{at}",
        grouped(cache.shared_tokens),
        cache.shared_fraction * 100.0
    ))
}
