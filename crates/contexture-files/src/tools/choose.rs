//! Chooses among tools whose definitions together are too long.
//!
//! Tools that the conversation called stay. The others are ranked by the words
//! of the event, and as many are sent as the share of the budget allows.
//! Tools come first in a request, so that another choice loses the provider's
//! whole prompt cache: the choice of the previous request is kept until a tool is
//! needed that it does not have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_core::{Code, Content, Excluded, Item, Part, Scores, Text, Tokens};
use contexture_engine::ToolUsage;

/// The reason why a tool is not sent if there are too many.
pub(crate) const TOOL_SHARE: Code = Code::by_rule("tool_share");

/// The reason why a tool is sent, but not in the context.
pub(crate) const DEFERRED: Code = Code::by_rule("deferred");

/// The tools that are not in the context.
#[derive(Default)]
pub(crate) struct LeftOut {
    /// The rows of the report for these tools.
    pub(crate) rows: Vec<Excluded>,
    /// The tools that the model can search for.
    pub(crate) deferred: Vec<Item>,
}

/// The inputs of the choice of tools.
pub(crate) struct Choice<'a> {
    /// The most tokens of all definitions together.
    pub(crate) limit: Tokens,
    /// The text of the current event.
    pub(crate) event: &'a str,
    /// The number of calls of each tool.
    pub(crate) usage: &'a ToolUsage,
    /// The tools of the previous request.
    pub(crate) previous: BTreeSet<&'a str>,
    /// Whether the model can search for tools that are not in its context.
    pub(crate) can_defer: bool,
    /// The price of a million tokens of input, if it is known.
    pub(crate) price: Option<f64>,
    /// Returns the tokens of a definition, including the text around it.
    pub(crate) tokens: &'a dyn Fn(&Item, &Text) -> Tokens,
}

/// A tool that may be sent.
struct Candidate {
    at: usize,
    tokens: Tokens,
    is_used: bool,
    is_named: bool,
    words: f64,
    is_previous: bool,
}

/// Removes from `items` the tools that are not in the context, and returns
/// them. Rows of both kinds get the calls, the last use and the cost of the
/// tool.
pub(crate) fn choose(items: &mut Vec<Item>, choice: &Choice<'_>) -> LeftOut {
    let ready = |item: &Item| match &item.content {
        Content::Ready(text) => Some(text.clone()),
        _ => None,
    };
    let texts: Vec<(usize, Text)> = items
        .iter()
        .enumerate()
        .filter_map(|(at, item)| Some((at, ready(item)?)))
        .collect();
    let sizes: Vec<Tokens> = texts
        .iter()
        .map(|(at, text)| (choice.tokens)(&items[*at], text))
        .collect();
    let total: Tokens = sizes.iter().sum();
    if total <= choice.limit {
        return LeftOut::default();
    }
    let asked = words(choice.event);
    let described: Vec<BTreeSet<String>> = texts
        .iter()
        .map(|(at, text)| {
            let mut all = words(text.as_str());
            all.extend(name_words(name_of(&items[*at])));
            all
        })
        .collect();
    let mut frequency: BTreeMap<&str, usize> = BTreeMap::new();
    for word in described.iter().flatten() {
        *frequency.entry(word).or_default() += 1;
    }
    let number = texts.len() as f64;
    let candidates: Vec<Candidate> = texts
        .iter()
        .zip(&sizes)
        .zip(&described)
        .map(|(((at, _), tokens), described)| {
            let name = name_of(&items[*at]);
            let named = name_words(name);
            let weight = |word: &String| {
                let among = frequency.get(word.as_str()).copied().unwrap_or(1) as f64;
                let rare = (1.0 + number / among).ln();
                if named.contains(word) {
                    3.0 * rare
                } else {
                    rare
                }
            };
            Candidate {
                at: *at,
                tokens: *tokens,
                is_used: choice.usage.calls(name) > 0,
                is_named: !named.is_empty() && named.is_subset(&asked),
                words: described.intersection(&asked).map(weight).sum(),
                is_previous: choice.previous.contains(name),
            }
        })
        .collect();
    let sent = select(&candidates, choice.limit);
    let mut left_out = LeftOut::default();
    for candidate in &candidates {
        let item = &mut items[candidate.at];
        let name = name_of(item).to_owned();
        let mut scores = Scores::new();
        scores.insert("calls".into(), choice.usage.calls(&name) as f64);
        if let Some(ago) = choice.usage.last_use(&name) {
            scores.insert("last_use_turns_ago".into(), ago as f64);
        }
        scores.insert("words".into(), (candidate.words * 1e3).round() / 1e3);
        if let Some(price) = choice.price {
            let dollars = candidate.tokens as f64 * price / 1e6;
            scores.insert("dollars".into(), (dollars * 1e9).round() / 1e9);
        }
        item.scores = Arc::new(scores);
        if sent.contains(&candidate.at) {
            continue;
        }
        let (code, what) = match choice.can_defer {
            true => (DEFERRED, "the model can search for this one"),
            false => (
                TOOL_SHARE,
                "this one was not called and fits the event less than others",
            ),
        };
        let reason = format!(
            "the definitions of all tools have {total} tokens, more than their share of {}; {what}",
            choice.limit
        );
        let row = Excluded::unoffered(&item.id, "", item.role, code, reason);
        left_out.rows.push(Excluded {
            scores: Arc::clone(&item.scores),
            ..row.about(candidate.tokens)
        });
        if choice.can_defer {
            left_out.deferred.push(item.clone());
        }
    }
    let all: BTreeSet<usize> = candidates.iter().map(|one| one.at).collect();
    let mut at = 0;
    items.retain(|_| {
        let stays = !all.contains(&at) || sent.contains(&at);
        at += 1;
        stays
    });
    left_out
}

/// Returns the places of the tools that are sent.
fn select(candidates: &[Candidate], limit: Tokens) -> BTreeSet<usize> {
    let before: Vec<&Candidate> = candidates.iter().filter(|one| one.is_previous).collect();
    let size: Tokens = before.iter().map(|one| one.tokens).sum();
    let needs_another = |one: &Candidate| (one.is_used || one.is_named) && !one.is_previous;
    if !before.is_empty() && size <= limit && !candidates.iter().any(needs_another) {
        return before.iter().map(|one| one.at).collect();
    }
    let mut order: Vec<&Candidate> = candidates.iter().collect();
    order.sort_by(|a, b| {
        let first = |one: &Candidate| (one.is_used, one.is_named);
        first(b)
            .cmp(&first(a))
            .then(b.words.total_cmp(&a.words))
            .then(b.is_previous.cmp(&a.is_previous))
            .then(a.at.cmp(&b.at))
    });
    let mut left = limit;
    let mut sent = BTreeSet::new();
    for one in order {
        // A tool that was called is in the history, and must be defined.
        if one.is_used || one.tokens <= left {
            left = left.saturating_sub(one.tokens);
            sent.insert(one.at);
        }
    }
    sent
}

fn name_of(item: &Item) -> &str {
    match &item.part {
        Part::Tool { name } => name,
        _ => "",
    }
}

/// Returns the words of a text, in lower case.
fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() >= 3)
        .map(str::to_lowercase)
        .collect()
}

/// Returns the words of a tool's name: `send_mail`, `sendMail` and `send-mail`
/// have two.
fn name_words(name: &str) -> BTreeSet<String> {
    let mut spaced = String::with_capacity(name.len() + 8);
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && was_lower {
            spaced.push(' ');
        }
        was_lower = c.is_lowercase();
        spaced.push(c);
    }
    words(&spaced)
}
