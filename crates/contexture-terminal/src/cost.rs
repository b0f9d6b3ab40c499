//! The cost of a session, as text.

use contexture::SessionCost;
use contexture::core::grouped;

use crate::table::{plain, table};
use crate::text;

/// Returns the costs of a session's turns as a table.
pub fn text(cost: &SessionCost) -> String {
    let header = [
        "turn", "model", "input", "cached", "", "written", "output", "cost",
    ];
    let mut table = table(&header, &[0, 2, 3, 4, 5, 6, 7]);
    for turn in &cost.turns {
        let number = match turn.kind {
            "compaction" => "summary".to_owned(),
            _ => turn.number.to_string(),
        };
        table.add_row([
            number,
            text::visible(turn.model.as_deref().unwrap_or("?")),
            grouped(turn.usage.input_tokens),
            grouped(turn.usage.cached_input_tokens),
            share(turn.usage.cached_input_tokens, turn.usage.input_tokens),
            grouped(turn.usage.cache_write_tokens),
            grouped(turn.usage.output_tokens),
            money(turn.dollars),
        ]);
    }
    let total = &cost.total;
    table.add_row([
        "total".to_owned(),
        String::new(),
        grouped(total.input_tokens),
        grouped(total.cached_input_tokens),
        share(total.cached_input_tokens, total.input_tokens),
        grouped(total.cache_write_tokens),
        grouped(total.output_tokens),
        money(Some(cost.dollars)),
    ]);
    let mut out = plain(&table);
    if cost.dollars_saved != 0.0 {
        let change = cost.dollars_saved / cost.dollars_uncached * 100.0;
        let (word, change) = match change < 0.0 {
            true => ("more", -change),
            false => ("less", change),
        };
        out.push_str(&format!(
            "\n{:.1} % {word} than the ${:.4} it would have cost without a cache\n",
            change, cost.dollars_uncached
        ));
    }
    out.push_str(&breaks(cost));
    if cost.unreported > 0 {
        out.push_str(&format!(
            "{} without usage: cost unknown\n",
            text::many(cost.unreported as u64, "turn")
        ));
    }
    for model in &cost.unpriced {
        out.push_str(&format!(
            "no prices for {}; add [models.\"{}\".prices] to contexture.toml\n",
            text::visible(model),
            text::visible(model)
        ));
    }
    out
}

fn money(dollars: Option<f64>) -> String {
    dollars.map_or_else(|| "?".to_owned(), |dollars| format!("${dollars:.4}"))
}

fn share(part: u64, all: u64) -> String {
    match all {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", part as f64 / all as f64 * 100.0),
    }
}

/// Lists the turns whose requests broke the provider's cache, and those where
/// the provider read much less from its cache than expected.
fn breaks(cost: &SessionCost) -> String {
    let header = [
        "turn",
        "cause",
        "missed",
        "price",
        "reported hits",
        "first difference",
    ];
    let mut table = table(&header, &[0, 2, 3, 4]);
    for turn in &cost.turns {
        let Some(cache) = &turn.cache else { continue };
        let cached = turn.usage.cached_input_tokens;
        let (cause, missed, dollars) = match cache.cause {
            Some(cause) => (
                cause.words(),
                cache.missed_tokens,
                money(cache.dollars_missed),
            ),
            None if cached < cache.read_tokens / 2 => {
                ("not known", cache.read_tokens - cached, String::new())
            }
            None => continue,
        };
        let place = cache.first_difference.as_ref().filter(|_| cache.broken);
        table.add_row([
            turn.number.to_string(),
            cause.to_owned(),
            grouped(missed),
            dollars,
            share(cached, turn.usage.input_tokens),
            place.map_or_else(String::new, |place| text::visible(&place.item)),
        ]);
    }
    if table.is_empty() {
        return String::new();
    }
    format!(
        "\ncache breaks (${:.4}): tokens that the provider cannot have read from its\n\
         cache, because the request differs from the one before\n{}\
         `contexture snapshot diff EARLIER LATER` shows what changed\n",
        cost.dollars_missed,
        plain(&table)
    )
}
