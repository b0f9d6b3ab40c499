//! Compaction: replaces the older steps of a history by a summary, and keeps
//! the latest.
//!
//! Nothing is lost: a compaction is a turn of its own after the others. Undoing
//! it moves the head back, or restores the previous state in a new turn.

mod ahead;
mod condense;
mod flight;
mod model;
mod position;
mod script;
mod undo;

use contexture_core::guard::{self, Policy};
use contexture_core::{Counts, Tokens, Usage};
use contexture_engine::config::CompactionConfig;
use contexture_engine::{Error, Summariser, Warning};
use contexture_store::{
    Compaction, Ledger, Session, StoreError, Trigger, Turn, TurnHead, TurnId, TurnKind, Walk,
};
use jiff::Timestamp;
use serde::Serialize;

use crate::facts::{Facts, SummaryLimits};
use crate::history::{LatestCompaction, by_message, count_turn, counter_of, fits};
use condense::Older;
pub(crate) use condense::{Condensed, Condenser, Material, Space};
pub(crate) use flight::Flight;
use script::Script;
pub use undo::Undone;
pub(crate) use undo::undo;

/// The most that is read of a history: a multiple of the available tokens, and at
/// least a number of tokens. A history that was never summarised may be longer than
/// any model can read; older turns stay in the ledger, and the summary mentions them.
const MOST_READ: Tokens = 4;
const LEAST_READ: Tokens = 100_000;

/// The largest number of older turns among which the first turn is searched.
const MOST_WALKED: u64 = 10_000;

/// The most facts that a summary is reported to lack.
const MOST_LOST: usize = 50;

/// A compaction that was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "CompactionResult"))]
pub struct Compacted {
    /// The id of the turn that holds the summary.
    pub turn_id: TurnId,
    /// The number of turns that the summary covers, without turns of earlier
    /// summaries.
    pub turns: usize,
    /// The number of steps that the summary covers: answers of the model with
    /// their tool results.
    pub steps: usize,
    /// The first turn that requests still show.
    pub first_kept: Option<TurnId>,
    /// The index of the first message of that turn that requests still show.
    #[serde(skip_serializing_if = "is_zero")]
    pub first_kept_message: usize,
    /// The cause of the compaction.
    pub trigger: Trigger,
    /// The name of the summariser: `extractive`, or a model.
    pub summariser: String,
    /// The number of tokens of the turns that the summary covers.
    pub tokens_before: Tokens,
    /// The number of tokens of the summary.
    pub tokens_after: Tokens,
    /// The text of the summary.
    pub summary: String,
    /// Facts of the summarised part that the summary does not contain
    /// literally: constraints of the user, errors and paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Warnings that the caller should read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The outcome of an attempt to make a history shorter.
#[derive(Debug, Clone, PartialEq)]
pub enum Attempt {
    /// A summary was made.
    Compacted(Box<Compacted>),
    /// There is nothing to summarise, and why.
    Nothing(&'static str),
}

impl Attempt {
    /// Returns the compaction, if one was made.
    pub fn compacted(self) -> Option<Compacted> {
        match self {
            Attempt::Compacted(compacted) => Some(*compacted),
            Attempt::Nothing(_) => None,
        }
    }
}

/// The input of a compaction: the session, and the tokens to reach.
pub(crate) struct Plan<'a> {
    pub(crate) session: &'a Session,
    pub(crate) trigger: Trigger,
    pub(crate) focus: Option<&'a str>,
    /// The tokens available to the whole request.
    pub(crate) available: Tokens,
    /// The tokens of everything but history.
    pub(crate) fixed: Tokens,
    /// The percentage of `available` to reduce the request to. `None` keeps as
    /// little history as possible.
    pub(crate) target: Option<f64>,
    /// The system prompt, for the model that writes the summary.
    pub(crate) system: &'a str,
    pub(crate) now: Timestamp,
}

/// Makes summaries of one store's histories.
pub(crate) struct Compactor<'a> {
    pub(crate) store: &'a dyn Ledger,
    pub(crate) config: &'a CompactionConfig,
    pub(crate) counts: &'a Counts,
    pub(crate) policy: Policy,
    /// The language model that writes summaries. `None` uses extracted facts
    /// only.
    pub(crate) summariser: Option<&'a dyn Summariser>,
    /// The window of the model, in tokens.
    pub(crate) model_window: Tokens,
    /// The limit of tool results that turns are counted with, if there is one.
    pub(crate) max_result: Option<Tokens>,
}

impl Compactor<'_> {
    /// Summarises the older part of a session's history.
    pub(crate) fn compact(&self, plan: &Plan<'_>) -> Result<Attempt, Error> {
        let Some(head) = plan.session.head else {
            return Ok(Attempt::Nothing("the session has no turns"));
        };
        let counter = counter_of(self.counts, self.policy, self.max_result);
        let earlier = LatestCompaction::find(self.store, head)?;
        let walk = Walk {
            counter: &counter,
            tokens: plan.available.saturating_mul(MOST_READ).max(LEAST_READ),
            at_least: self.config.keep_turns + 1,
            through: earlier.as_ref().and_then(LatestCompaction::through),
        };
        let mut heads = self.store.walk(head, &walk)?;
        heads.retain(|head| head.kind == TurnKind::Normal);
        heads.reverse();
        let ids: Vec<TurnId> = heads.iter().map(|head| head.id).collect();
        let turns = self.store.turns(&ids, &counter)?;
        let tokens = self.tokens(&turns, &counter)?;

        let earlier_text = earlier.as_ref().and_then(LatestCompaction::summary);
        let unread = self.unread(&heads, earlier.as_ref())?;
        let mut facts = earlier
            .as_ref()
            .map_or_else(Facts::default, LatestCompaction::facts);
        if (1..=MOST_WALKED).contains(&unread) && earlier_text.is_none() {
            self.read_beginning(&heads, &mut facts)?;
        }
        let focus = plan.focus.map(|focus| guard::visible(focus, self.policy));
        let material = Material {
            turns: &turns,
            tokens: &tokens,
            from: earlier
                .as_ref()
                .map_or(0, |earlier| earlier.first_message(&heads)),
            facts,
            earlier_tokens: earlier_text.map_or(0, |text| self.counts.counter().count(text)),
        };
        let space = Space {
            available: plan.available,
            fixed: plan.fixed,
            target: plan.target,
            uses_free_tokens: false,
            focus: focus.as_deref(),
        };
        let condenser = Condenser {
            config: self.config,
            counter: self.counts.counter(),
            policy: self.policy,
        };
        let condensed = match condenser.condense(&material, &space) {
            Ok(condensed) => condensed,
            Err(why) => return Ok(Attempt::Nothing(why)),
        };
        let Condensed {
            older,
            room,
            before,
            facts,
            text,
        } = condensed;
        let kept = older.kept;
        let mut warnings = Vec::new();
        let by_model = self.by_model(plan, earlier_text, &older, &room, &facts, &mut warnings);
        let mut made = by_model.unwrap_or(Draft {
            text,
            by: "extractive".to_owned(),
            usage: None,
            facts,
        });
        let size = self.counts.counter().count(&made.text);
        if made.text.is_empty() || size >= before {
            return Ok(Attempt::Nothing(
                "no summary would be shorter than the older steps",
            ));
        }
        if unread > 0 {
            let turns = if unread == 1 { "turn is" } else { "turns are" };
            let older = if earlier_text.is_some() { "" } else { "older " };
            made.text = format!(
                "({unread} {older}{turns} in the ledger and not in this summary.)\n{}",
                made.text
            );
            let message = format!(
                "the summary does not cover {unread} {older}turn{}: the history is too long to be \
                 read at once",
                if unread == 1 { "" } else { "s" }
            );
            warnings.push(Warning::new("turns_not_summarised", message));
        }
        let mut lost = made.facts.missing_from(&made.text);
        lost.truncate(MOST_LOST);
        let covered = older.parts().last().map(|(turn, _)| turn.id);
        let compaction = Compaction {
            tokens_after: self.counts.counter().count(&made.text),
            summary: made.text,
            summarized_through: covered,
            first_kept: heads.get(kept.turn).map(|head| head.id),
            first_kept_message: kept.message,
            facts: serde_json::to_value(&made.facts).ok(),
            made_of: (heads.first().map(|head| head.id).into_iter())
                .chain(earlier.as_ref().map(|earlier| earlier.id))
                .collect(),
            trigger: plan.trigger,
            focus: focus.as_deref().map(str::to_owned),
            summariser: made.by,
            tokens_before: before,
            usage: made.usage,
        };
        let recorded = self
            .store
            .compact(&plan.session.label, head, &compaction, plan.now)?;
        Ok(Attempt::Compacted(Box::new(Compacted {
            turn_id: recorded.id,
            turns: older.parts().count(),
            steps: older.steps(),
            first_kept: compaction.first_kept,
            first_kept_message: compaction.first_kept_message,
            trigger: compaction.trigger,
            summariser: compaction.summariser,
            tokens_before: compaction.tokens_before,
            tokens_after: compaction.tokens_after,
            summary: compaction.summary,
            lost,
            warnings,
        })))
    }

    /// Reads the facts of the first turn of a session: it has the user's goal.
    fn read_beginning(&self, heads: &[TurnHead], facts: &mut Facts) -> Result<(), Error> {
        let Some(parent) = heads.first().and_then(|first| first.parent) else {
            return Ok(());
        };
        let walk = Walk {
            counter: "",
            tokens: Tokens::MAX,
            at_least: 0,
            through: None,
        };
        let mut older = self.store.walk(parent, &walk)?;
        older.retain(|head| head.kind == TurnKind::Normal);
        if let Some(first) = older.last() {
            let turns = self.store.turns(&[first.id], "")?;
            let parts = turns
                .iter()
                .map(|turn| (turn, turn.turn.messages.as_slice()));
            facts.read(&Script::of(parts, self.policy).passages());
        }
        Ok(())
    }

    /// Returns the number of turns that are neither read now nor covered by an
    /// earlier summary.
    fn unread(&self, heads: &[TurnHead], earlier: Option<&LatestCompaction>) -> Result<u64, Error> {
        // Turns before the first that is stored were deleted.
        let Some(first) = heads.first().filter(|first| first.parent.is_some()) else {
            return Ok(0);
        };
        let summarised = match earlier {
            None => 0,
            Some(earlier) => match earlier.compaction.first_kept {
                // The turns before the first that it kept.
                Some(kept) if kept == first.id => return Ok(0),
                Some(kept) => {
                    match self.store.turns(&[kept], "") {
                        Ok(kept) => kept.first().map_or(0, |kept| kept.depth - 1),
                        // The turns before the compaction were deleted.
                        Err(StoreError::NotFound { .. }) => earlier.depth,
                        Err(error) => return Err(error.into()),
                    }
                }
                None if earlier.summary().is_some() => earlier.depth,
                None => 0,
            },
        };
        Ok((first.depth - 1).saturating_sub(summarised))
    }

    /// Returns the tokens of each message. Messages without counts of this
    /// counter are counted now, and the counts are saved.
    fn tokens(&self, turns: &[Turn], counter: &str) -> Result<Vec<Vec<Tokens>>, Error> {
        let mut tokens = Vec::with_capacity(turns.len());
        let mut uncounted = Vec::new();
        for turn in turns {
            let known = turn.counts.as_ref();
            match known.filter(|counts| fits(counts, &turn.turn)) {
                Some(counts) => tokens.push(by_message(counts, &turn.turn)),
                None => {
                    let counted = count_turn(&turn.turn, self.counts, self.policy, self.max_result);
                    debug_assert_eq!(counted.counter, counter);
                    tokens.push(by_message(&counted.blocks, &turn.turn));
                    uncounted.push((turn.id, counted));
                }
            }
        }
        if !uncounted.is_empty() {
            self.store.put_counts(&uncounted)?;
        }
        Ok(tokens)
    }

    /// Requests a summary from the language model, if one is configured.
    fn by_model(
        &self,
        plan: &Plan<'_>,
        earlier: Option<&str>,
        older: &Older<'_>,
        room: &SummaryLimits<'_>,
        facts: &Facts,
        warnings: &mut Vec<Warning>,
    ) -> Option<Draft> {
        let summariser = self.summariser?;
        let script = Script::of(older.parts(), self.policy);
        let request = model::Summary {
            summariser,
            window: self.model_window,
            system: plan.system,
            earlier,
            focus: room.focus,
            target: room.tokens * 6 / 10,
            counter: room.counter,
            policy: self.policy,
            key: self.counts.key(),
        };
        let prose = match request.make(&script.passages()) {
            Ok(prose) => prose,
            Err(why) => {
                let message = format!("{why}; using the extractive summariser instead");
                warnings.push(Warning::new("summariser_failed", message));
                return None;
            }
        };
        // A model may repeat text from its prompt in other words, so it is
        // guarded again.
        let text = guard::visible(prose.text.trim(), self.policy).into_owned();
        let used = room.counter.count(&text);
        let rest = SummaryLimits {
            tokens: room.tokens.saturating_sub(used).max(room.tokens / 4),
            ..*room
        };
        Some(Draft {
            text: facts.write_with_prose(&text, &rest),
            by: summariser.name().to_owned(),
            usage: Some(prose.usage),
            facts: Facts {
                notes: text,
                ..facts.clone()
            },
        })
    }
}

/// A summary, and what made it.
struct Draft {
    text: String,
    by: String,
    usage: Option<Usage>,
    facts: Facts,
}
