//! Clears tool results that a later result makes useless, if that saves tokens.
//!
//! A result is stale if a later result has the same content, or if the same
//! file is read again later. A cleared result is a line with its handle.
//! Clearing changes the prefix that the provider has cached, so many results
//! are cleared at once, when the tokens saved in later requests are worth more
//! than the prefix that is written again. A cleared result stays cleared: the
//! previous request shows which ones are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_core::{
    Content, ContentHash, Counts, Cut, Item, LinesCut, Original, Part, Text, Tokens,
};
use contexture_engine::StaleResults;
use contexture_engine::config::ToolResults;
use contexture_engine::snapshot::Saved;
use contexture_tokens::Prices;

use crate::facts::ReadCall;

/// A result with fewer tokens than this stays.
const LEAST_TOKENS: Tokens = 100;

/// Clearing must save this many times its cost. The number of later requests is
/// an estimate: with 1, runs of 30 steps cost more than without clearing.
const MARGIN: Tokens = 3;

/// The least tokens for which a cached prefix is broken.
const LEAST_SAVED: Tokens = 500;

/// The cache prices that are assumed where a model has none, as parts of the
/// price of input: reading from the cache, and writing to it.
const USUAL_PRICES: (f64, f64) = (0.1, 1.25);

/// The settings and the state that the decision depends on, apart from the
/// results.
pub(crate) struct Clearing<'a> {
    pub(crate) settings: &'a ToolResults,
    pub(crate) counts: &'a Counts,
    /// The request before, if it was for the same model.
    pub(crate) previous: Option<&'a Saved>,
    pub(crate) prices: Option<Prices>,
    /// The tokens that history can grow to before it is summarised.
    pub(crate) most: Tokens,
    /// Whether all stale results are cleared, whatever it costs, because
    /// otherwise history would have to be summarised.
    pub(crate) is_forced: bool,
}

/// A stale result.
struct Stale {
    at: usize,
    cleared: Text,
    tokens: Tokens,
    // The tokens saved by clearing it.
    saved: Tokens,
}

impl Clearing<'_> {
    /// Clears stale results among the items of a history, if that pays. Returns
    /// both sides of the sum, or `None` if no result is stale.
    pub(crate) fn clear(&self, items: &mut [Item]) -> Option<StaleResults> {
        if !self.settings.clear_stale {
            return None;
        }
        let earlier = self.cleared_before();
        let stale = self.find(items, &earlier);
        let is_sticky = |one: &Stale| earlier.get(&*items[one.at].id) == Some(&one.cleared.hash());
        let (sticky, new): (Vec<Stale>, Vec<Stale>) = stale.into_iter().partition(is_sticky);
        if sticky.is_empty() && new.is_empty() {
            return None;
        }
        let mut sum = self.sum(items, &new);
        sum.stale = sticky.len() + new.len();
        sum.cleared = sticky.len();
        let pays = match sum.cost {
            0 => sum.gain > 0,
            cost => sum.gain > MARGIN * cost && sum.tokens >= LEAST_SAVED,
        };
        if !new.is_empty() && (pays || self.is_forced) {
            sum.cleared += new.len();
            new.into_iter().for_each(|one| clear_item(items, one));
        }
        sticky.into_iter().for_each(|one| clear_item(items, one));
        Some(sum)
    }

    /// Returns the blocks of history in the request before.
    fn cleared_before(&self) -> BTreeMap<&str, ContentHash> {
        let previous = self.previous.into_iter();
        let bodies = previous.flat_map(Saved::history_bodies);
        bodies.map(|(id, body)| (&**id, body)).collect()
    }

    /// Finds the results that are stale, and those that were cleared before.
    fn find(&self, items: &[Item], earlier: &BTreeMap<&str, ContentHash>) -> Vec<Stale> {
        let calls: BTreeMap<&str, usize> = (items.iter().enumerate())
            .filter_map(|(at, item)| match &item.part {
                Part::ToolCall { id, .. } => Some((&**id, at)),
                _ => None,
            })
            .collect();
        let mut seen = Seen::default();
        let mut stale = Vec::new();
        let (mut steps, mut group) = (0, None);
        for (at, item) in items.iter().enumerate().rev() {
            if item.group.is_some() && item.group != group {
                steps += 1;
                group.clone_from(&item.group);
            }
            let Part::ToolResult { id, is_error, .. } = &item.part else {
                continue;
            };
            let (Some(handle), Content::Ready(text)) = (&item.handle, &item.content) else {
                continue;
            };
            let call = calls.get(&**id).map(|&at| &items[at]);
            // Failed results stay, and do not replace others.
            if *is_error {
                continue;
            }
            let is_repeated = seen.has_later(handle, call);
            let is_old = (self.settings.stale_after).is_some_and(|most| steps > most);
            let cleared = cleared_text(handle);
            let was_cleared = earlier.get(&*item.id) == Some(&cleared.hash());
            if !is_repeated && !is_old && !was_cleared {
                continue;
            }
            let tokens = self.counts.count_of(text);
            let saved = tokens.saturating_sub(self.counts.count_of(&cleared));
            if tokens >= LEAST_TOKENS || was_cleared {
                stale.push(Stale {
                    at,
                    cleared,
                    tokens,
                    saved,
                });
            }
        }
        stale.reverse();
        stale
    }

    /// Returns the tokens that clearing saves and costs.
    fn sum(&self, items: &[Item], new: &[Stale]) -> StaleResults {
        let Some(first) = new.first() else {
            return StaleResults::default();
        };
        let size = |item: &Item| match &item.content {
            Content::Ready(text) => self.counts.count_of(text) + self.counts.overhead_of(item),
            _ => 0,
        };
        let tokens: Tokens = new.iter().map(|one| one.saved).sum();
        // The cached items after the first result that changes.
        let cached = self.shared(items).saturating_sub(first.at);
        let behind: Tokens = items.iter().skip(first.at).take(cached).map(size).sum();
        let known = new.iter().filter(|one| one.at < first.at + cached);
        let rewritten = behind.saturating_sub(known.map(|one| one.saved).sum());
        let all: Tokens = items.iter().map(size).sum();
        let mut groups: Vec<_> = items
            .iter()
            .filter_map(|item| item.group.as_ref())
            .collect();
        groups.dedup();
        let steps = groups.len() as u64;
        // As many requests as there were, at most until history is full.
        let growth = (all / steps.max(1)).max(1);
        let requests = steps.min(self.most.saturating_sub(all) / growth).max(1);
        let (read, write) = self.parts_of_input();
        StaleResults {
            tokens,
            requests,
            rewritten,
            gain: (tokens as f64 * requests as f64 * read).round() as Tokens,
            cost: (rewritten as f64 * (write - read).max(0.0)).round() as Tokens,
            ..StaleResults::default()
        }
    }

    /// Returns the number of items at the beginning that the provider has
    /// cached.
    fn shared(&self, items: &[Item]) -> usize {
        let (Some(previous), Some(first)) = (self.previous, items.first()) else {
            return 0;
        };
        let before = previous.history_bodies().map(|(id, _)| id);
        let before = before.skip_while(|id| **id != first.id);
        let both = before.zip(items);
        both.take_while(|(id, item)| **id == item.id).count()
    }

    /// Returns the prices of reading from the cache and of writing to it, as
    /// parts of the price of input.
    fn parts_of_input(&self) -> (f64, f64) {
        match self.prices {
            Some(prices) if prices.input > 0.0 => {
                let write = prices.cache_write.max(prices.input);
                (prices.cached_input / prices.input, write / prices.input)
            }
            _ => USUAL_PRICES,
        }
    }
}

/// The contents and files of later results.
#[derive(Default)]
struct Seen {
    handles: BTreeSet<Arc<str>>,
    reads: BTreeSet<String>,
    // Files that were read whole.
    files: BTreeSet<String>,
}

impl Seen {
    /// Returns true if a later result has the content of this one, and notes it.
    fn has_later(&mut self, handle: &Arc<str>, call: Option<&Item>) -> bool {
        let mut is_known = !self.handles.insert(Arc::clone(handle));
        let Some((name, arguments)) = call.and_then(call_of) else {
            return is_known;
        };
        let Some(read) = ReadCall::of(name, arguments) else {
            return is_known;
        };
        let file = read.file.as_deref();
        is_known |= file.is_some_and(|file| self.files.contains(file));
        if read.is_whole {
            self.files.extend(read.file);
        }
        !self.reads.insert(format!("{name} {arguments}")) || is_known
    }
}

/// Returns the tool and the arguments of a call.
fn call_of(item: &Item) -> Option<(&str, &str)> {
    match (&item.part, &item.content) {
        (Part::ToolCall { name, .. }, Content::Ready(text)) => Some((&**name, text.as_str())),
        _ => None,
    }
}

/// Returns the text of a cleared result. It depends only on the result, so that
/// it is the same in every request.
fn cleared_text(handle: &str) -> Text {
    Text::verbatim(&format!(
        "[... this tool result was cleared; fetch {handle} for all of it ...]"
    ))
}

fn clear_item(items: &mut [Item], stale: Stale) {
    let item = &mut items[stale.at];
    let lines = match &item.content {
        Content::Ready(text) => text.as_str().lines().count(),
        _ => 0,
    };
    let shown = LinesCut {
        first: 1,
        last: u32::try_from(lines).unwrap_or(u32::MAX).max(1),
        partial: false,
    };
    let original = item.original.as_deref();
    item.original = Some(Arc::new(Original {
        tokens: original.map_or(stale.tokens, |original| original.tokens),
        lines: original.map_or(shown, |original| LinesCut {
            last: original.lines.last.max(shown.last),
            ..shown
        }),
        max_tokens: None,
    }));
    // The provider's own form contains the cleared content.
    item.native = None;
    item.cut = Cut::Never;
    item.content = Content::Ready(stale.cleared);
}
