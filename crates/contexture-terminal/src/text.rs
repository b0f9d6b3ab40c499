//! Text for a terminal: printable characters, counts in words, and widths.

use contexture::core::guard::is_visible;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Returns `text` with control, bidirectional and invisible characters written
/// out: names and content may hold anything.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if !is_visible(c) {
            out.push_str(&format!("[U+{:04X}]", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// Returns a number of things in words: `1 turn`, `2,000 turns`.
pub fn many(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", contexture::core::grouped(number))
}

/// Returns a number of things in words, with an irregular plural.
pub fn number(number: u64, one: &str, several: &str) -> String {
    let thing = if number == 1 { one } else { several };
    format!("{} {thing}", contexture::core::grouped(number))
}

/// Returns `text` in at most `width` columns. The middle of a longer text is
/// left out, because both ends of a path are more informative.
pub fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let take = |chars: &mut dyn Iterator<Item = char>, room: usize| {
        let mut used = 0;
        let fits = chars.take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= room
        });
        fits.collect::<Vec<char>>()
    };
    let end = take(&mut text.chars().rev(), room - room / 2);
    let start = take(&mut text.chars(), room / 2);
    let end = end.into_iter().rev();
    start.into_iter().chain(['…']).chain(end).collect()
}

/// Returns a description of the token counter: the tokenizer, the model, and
/// the accuracy.
pub fn counted_with(tokenizer: &str, model: Option<&str>, exact: bool) -> String {
    let model = model.map_or_else(String::new, |model| format!(" for {model}"));
    if exact {
        return format!("{tokenizer}{model}, exact");
    }
    match contexture::tokens::Estimated::factor_of(tokenizer) {
        Some(1.0) => format!("estimated{model}, usually too high"),
        Some(factor) => format!("estimated{model} with factor {factor}, usually too high"),
        None => match tokenizer.strip_suffix(" x1") {
            // The vocabulary of an older model, for one that is not published.
            Some(vocabulary) => format!("{vocabulary}{model}, an estimate"),
            None => format!("{tokenizer}{model}, usually too high"),
        },
    }
}

/// Returns the first line of `text`, with at most `most` characters.
pub fn short(text: &str, most: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let more = line.chars().count() > most || text.trim().lines().count() > 1;
    let mut short: String = line.chars().take(most).collect();
    if more {
        short.push('…');
    }
    short
}

/// Returns `text`, or its beginning with a mark at the end, at most `room`
/// columns wide.
pub(crate) fn cut(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    if room < 4 {
        return String::new();
    }
    let (mut out, mut used) = (String::new(), 0);
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide >= room {
            break;
        }
        used += wide;
        out.push(c);
    }
    out.truncate(out.trim_end().len());
    if !out.ends_with('…') {
        out.push('…');
    }
    out
}

/// Returns `text` with blanks up to `width` columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    let blanks = width.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(blanks))
}
