//! Decides which steps are summarised, and writes the extractive summary.

use contexture_core::guard::Policy;
use contexture_core::{TokenCounter, Tokens};
use contexture_engine::config::CompactionConfig;
use contexture_store::{Message, Turn};

use super::position::{self, Limits, Position};
use super::script::Script;
use crate::facts::{Facts, SummaryLimits};
use crate::history::steps;

/// The maximum tokens of a summary, without the user's messages, however large
/// the window is.
const MAX_SUMMARY: Tokens = 8_192;

/// The most tokens of the user's messages that stay verbatim.
const MAX_MESSAGES: Tokens = 20_000;

/// The tokens that a summary gets if the window allows it.
const USEFUL_SUMMARY: Tokens = 1_200;

/// The shortest that is worth making.
const MIN_SUMMARY: Tokens = 48;

/// The minimum number of tokens that a summary saves, or a quarter of the
/// replaced tokens if that is less. In a small window a summary replaces the
/// previous summary and a few steps, and would shrink each time if it always
/// had to save a quarter.
const MIN_SAVED: Tokens = 128;

/// The number of free tokens from which on a summary that leaves facts out is
/// written again with more room.
const MIN_FREE: Tokens = 256;

/// The percentage of the available tokens that the latest turns may fill before
/// some of their steps are summarised, too.
const MOST_KEPT: f64 = 70.0;

/// A history with its token counts and the facts of its earlier summary.
pub(crate) struct Material<'t> {
    pub(crate) turns: &'t [Turn],
    /// The tokens of each message of each turn.
    pub(crate) tokens: &'t [Vec<Tokens>],
    /// The first message of the first turn that no earlier summary covers.
    pub(crate) from: usize,
    /// The facts of the earlier summary.
    pub(crate) facts: Facts,
    pub(crate) earlier_tokens: Tokens,
}

/// The tokens that a history is condensed to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Space<'a> {
    /// The tokens available to the whole request.
    pub(crate) available: Tokens,
    /// The tokens of everything but history.
    pub(crate) fixed: Tokens,
    /// The percentage of `available` to reduce the request to. `None` keeps as
    /// little history as possible.
    pub(crate) target: Option<f64>,
    /// Whether the summary may use all tokens that the latest steps leave of the
    /// target. A summary that is stored has the limits of the configuration.
    pub(crate) uses_free_tokens: bool,
    pub(crate) focus: Option<&'a str>,
}

/// A history whose older part has a summary.
pub(crate) struct Condensed<'t, 'a> {
    pub(crate) older: Older<'t>,
    /// The tokens that the summary may use.
    pub(crate) room: SummaryLimits<'a>,
    /// The tokens of the messages that the summary replaces.
    pub(crate) before: Tokens,
    pub(crate) facts: Facts,
    /// The extractive summary.
    pub(crate) text: String,
}

/// The part of a history that is summarised.
pub(crate) struct Older<'t> {
    pub(crate) turns: &'t [Turn],
    // The first message of the first turn that no earlier summary covers.
    pub(crate) from: usize,
    // The start of the part that is kept.
    pub(crate) kept: Position,
}

impl<'t> Older<'t> {
    /// Returns the turns that are summarised, each with its messages.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&'t Turn, &'t [Message])> {
        let start = Position {
            turn: 0,
            message: self.from,
        };
        self.parts_from(start)
    }

    /// Returns the summarised turns from the start of a step on, each with its
    /// messages.
    fn parts_from(&self, start: Position) -> impl Iterator<Item = (&'t Turn, &'t [Message])> {
        let kept = self.kept;
        let last = kept.turn + usize::from(kept.message > 0);
        let turns = self.turns[..last].iter().enumerate().skip(start.turn);
        turns.map(move |(t, turn)| {
            let messages = &turn.turn.messages;
            let end = match t == kept.turn {
                true => kept.message,
                false => messages.len(),
            };
            let first = if t == start.turn { start.message } else { 0 };
            (turn, &messages[first.min(end)..end])
        })
    }

    pub(crate) fn steps(&self) -> usize {
        let mut previous = steps::Previous::default();
        let messages = self.parts().flat_map(|(_, messages)| messages);
        messages
            .filter(|message| previous.starts_step(message))
            .count()
    }
}

/// A request of up to this part of the window is quoted whole, even if the user's
/// messages have a smaller share.
const MOST_GOAL: Tokens = 4;

/// The tokens of the heading of the request.
const AROUND_GOAL: Tokens = 48;

/// Condenses histories, without a store and without a language model.
pub(crate) struct Condenser<'a> {
    pub(crate) config: &'a CompactionConfig,
    pub(crate) counter: &'a dyn TokenCounter,
    pub(crate) policy: Policy,
}

impl<'a> Condenser<'a> {
    /// Decides which steps are summarised, and writes the summary. Fails with
    /// why nothing can be summarised.
    pub(crate) fn condense<'t>(
        &self,
        material: &Material<'t>,
        space: &Space<'a>,
    ) -> Result<Condensed<'t, 'a>, &'static str> {
        // A summary is pinned: one that left no room for the latest steps, or
        // had none itself, would do more harm than good.
        let beside = space.available.saturating_sub(space.fixed);
        let share = |percent: f64| (space.available as f64 * percent / 100.0) as Tokens;
        let summary = share(self.config.summary).clamp(USEFUL_SUMMARY, MAX_SUMMARY);
        let summary = summary.min(beside / 20 * 9);
        let messages = share(self.config.user_messages).min(MAX_MESSAGES);
        let messages = messages.min(beside / 20 * 3);
        if summary < MIN_SUMMARY / 2 {
            return Err("the rest of the request leaves no room for a summary");
        }
        let older_for = |reserve: Tokens| {
            let within = |percent: f64| {
                let within = share(percent).saturating_sub(space.fixed);
                within.saturating_sub(reserve)
            };
            let limits = Limits {
                room: space.target.map_or(0, within),
                most: within(MOST_KEPT),
                turns: self.config.keep_turns,
            };
            let kept =
                position::first_kept(material.turns, material.tokens, material.from, &limits)?;
            Some(Older {
                turns: material.turns,
                from: material.from,
                kept,
            })
        };
        // The part that is summarised in any case is read once.
        let mut known = material.facts.clone();
        let mut read_to = Position {
            turn: 0,
            message: material.from,
        };
        if let Some(least) = older_for(0) {
            known.read(&Script::of(least.parts(), self.policy).passages());
            read_to = least.kept;
        }
        let messages = messages.max(self.whole_goal(&known).min(beside / MOST_GOAL));
        // A summary is often shorter than its limit. The latest steps get the
        // rest, so the size of the summary is computed first.
        let mut reserve = summary + messages;
        let mut is_sized = false;
        loop {
            let older = older_for(reserve)
                .ok_or("all steps are among the latest, which are never summarised")?;
            let before = older_tokens(&older, material.tokens);
            let before = before.saturating_add(material.earlier_tokens);
            // The summary must be shorter than the replaced messages, by a
            // quarter or by `MIN_SAVED`.
            let most = (before / 4 * 3).max(before.saturating_sub(MIN_SAVED));
            let whole = summary + messages;
            let scaled = |tokens: Tokens| match whole > most {
                true => (u128::from(tokens) * u128::from(most) / u128::from(whole)) as Tokens,
                false => tokens,
            };
            let room = SummaryLimits {
                tokens: scaled(summary),
                messages: scaled(messages),
                focus: space.focus,
                counter: self.counter,
            };
            if room.tokens < MIN_SUMMARY / 2 {
                return Err("the older steps are too short for a summary");
            }
            let script = Script::of(older.parts_from(read_to), self.policy);
            let mut facts = known.clone();
            facts.read(&script.passages());
            let (text, size) = facts.write_counted(&room);
            if !is_sized && size + size / 4 < reserve {
                (reserve, is_sized) = (size + size / 4, true);
                continue;
            }
            // Steps that were too long to be kept leave tokens free.
            let kept = kept_tokens(&older, material.tokens);
            let used = space.fixed.saturating_add(kept).saturating_add(size);
            let within = space.target.map_or(0, share);
            let free = within.saturating_sub(used);
            let is_longer = space.uses_free_tokens && free >= MIN_FREE && facts.leaves_out(&text);
            let text = match is_longer {
                true => longer(&facts, &room, size + free, most).unwrap_or(text),
                false => text,
            };
            return Ok(Condensed {
                older,
                room,
                before,
                facts,
                text,
            });
        }
    }
}

impl Condenser<'_> {
    /// Returns the tokens of the user's messages in a summary that quotes the latest
    /// request whole.
    fn whole_goal(&self, facts: &Facts) -> Tokens {
        let Some(goal) = facts.messages.last() else {
            return 0;
        };
        let tokens = self.counter.count(&goal.text);
        // If there are other messages, the request gets two thirds.
        tokens + tokens / 2 + AROUND_GOAL
    }
}

/// Returns the summary with the tokens that are free, if it is longer then. The
/// user's messages get two thirds of the free tokens.
fn longer(
    facts: &Facts,
    room: &SummaryLimits<'_>,
    most: Tokens,
    shorter_than: Tokens,
) -> Option<String> {
    let most = most.min(shorter_than);
    let more = most.checked_sub(room.tokens + room.messages)?;
    let text = facts.write(&SummaryLimits {
        tokens: room.tokens + more / 3,
        messages: room.messages + more / 3 * 2,
        ..*room
    });
    (!text.is_empty()).then_some(text)
}

/// Returns the tokens of the messages that stay.
fn kept_tokens(older: &Older<'_>, tokens: &[Vec<Tokens>]) -> Tokens {
    let kept = older.kept;
    let of_turns = tokens.iter().enumerate().skip(kept.turn);
    let messages = of_turns.flat_map(|(t, of_turn)| {
        let first = if t == kept.turn { kept.message } else { 0 };
        of_turn.iter().skip(first)
    });
    messages.fold(0, |sum, more| sum.saturating_add(*more))
}

/// Returns the tokens of the messages that are summarised.
fn older_tokens(older: &Older<'_>, tokens: &[Vec<Tokens>]) -> Tokens {
    let mut sum: Tokens = 0;
    for (t, (turn, messages)) in older.parts().enumerate() {
        let end = match t == older.kept.turn {
            true => older.kept.message,
            false => turn.turn.messages.len(),
        };
        let of_turn = &tokens[t][end - messages.len()..end];
        sum = of_turn
            .iter()
            .fold(sum, |sum, more| sum.saturating_add(*more));
    }
    sum
}

#[cfg(test)]
mod tests {
    use contexture_tokens::{Encoding, OpenAi};
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::history::LooseMessages;

    /// The tokens that the latest steps leave are for the request, if its middle
    /// was cut out.
    #[test]
    fn a_long_request_uses_the_tokens_that_are_free() {
        let rows: String = (0..6_000)
            .map(|row| format!("row {row} of many\n"))
            .collect();
        let request = format!("Please do X.\n{rows}Finally: NEVER delete the database.");
        let mut messages = vec![json!({"role": "user", "content": request})];
        for step in 0..5 {
            let text = format!("Step {step} is done now. ").repeat(60);
            messages.push(json!({"role": "assistant", "content": text}));
        }
        let counter = OpenAi::new(Encoding::O200k);
        let count =
            |message: &serde_json::Value| counter.count(message["content"].as_str().unwrap());
        let tokens = [messages.iter().map(count).collect::<Vec<_>>()];
        assert!(tokens[0][0] > 30_000);
        let messages: Vec<Message> = messages
            .into_iter()
            .map(|message| serde_json::from_value(message).unwrap())
            .collect();
        let turns = LooseMessages::turn(&messages, Timestamp::UNIX_EPOCH);
        let material = Material {
            turns: &turns,
            tokens: &tokens,
            from: 0,
            facts: Facts::default(),
            earlier_tokens: 0,
        };
        let space = Space {
            available: 30_000,
            fixed: 1_000,
            target: Some(95.0),
            uses_free_tokens: true,
            focus: None,
        };
        let condenser = Condenser {
            config: &CompactionConfig::default(),
            counter: &counter,
            policy: Policy::default(),
        };
        let condensed = condenser.condense(&material, &space).ok().unwrap();
        let kept = kept_tokens(&condensed.older, &tokens);
        let size = counter.count(&condensed.text);
        assert!(condensed.text.contains("Please do X."));
        assert!(
            condensed
                .text
                .contains("Finally: NEVER delete the database.")
        );
        let used = space.fixed + kept + size;
        assert!(
            (20_000..=28_500).contains(&used),
            "{used}, the summary has {size}"
        );
    }
}
