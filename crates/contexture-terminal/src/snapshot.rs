//! The comparison of two requests, as text.

use contexture::core::grouped;
use contexture::snapshot::{Change, Comparison};
use contexture::{CacheCause, Report};

use crate::text;

/// Returns the common and the different parts of two requests.
pub fn comparison(compared: &Comparison) -> String {
    let shared = &compared.cache;
    let mut out = format!(
        "{} of {} tokens are shared ({:.1} %)\n",
        grouped(shared.shared_tokens),
        grouped(compared.tokens),
        shared.shared_fraction * 100.0
    );
    match &shared.first_difference {
        Some(_) if shared.cause == Some(CacheCause::Model) => {
            out.push_str("the model changed\n");
            out.push_str(&cached(compared));
        }
        Some(first) => {
            out.push_str(&format!(
                "first difference: item {} in layer {}, at byte {}\n",
                text::visible(&first.item),
                first.layer,
                grouped(first.byte)
            ));
            out.push_str(&cached(compared));
        }
        None => out.push_str("the requests are identical\n"),
    }
    for change in &compared.changes {
        out.push_str(&describe(change));
    }
    out
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
        text::visible(&change.id),
        change.layer,
        grouped(change.tokens)
    );
    let lines = |text: &Option<String>| -> Vec<String> {
        text.as_deref()
            .unwrap_or("")
            .lines()
            .map(text::visible)
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

/// Returns a description of the part that a request shares with the previous
/// one.
pub fn shared(report: &Report) -> Option<String> {
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
                text::visible(&first.item),
                first.layer
            )
        });
    Some(format!(
        "cache: {} tokens ({:.1} %) are shared with the previous request{at}",
        grouped(cache.shared_tokens),
        cache.shared_fraction * 100.0
    ))
}
