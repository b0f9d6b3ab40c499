//! Making history shorter: the older turns get a summary, the latest stay.
//!
//! Nothing is lost: a compaction is a turn of its own behind the others, and
//! undoing it moves the head, or puts back what stood before.

mod extract;
mod model;

use contexture_core::guard::{self, Policy};
use contexture_core::{Counts, Tokens, Usage};
use contexture_store::{
    Block, Compaction, Ledger, MessageRole, Session, Trigger, Turn, TurnHead, TurnId, TurnKind,
    TurnStatus, Walk,
};
pub use extract::{Passage, Speaker, extract};
use jiff::Timestamp;
use serde::Serialize;

use contexture_engine::config::CompactionConfig;
use contexture_engine::{Error, Summariser, Warning};

use crate::history::{LatestCompaction, count_turn, counter_of, turn_name};

/// The longest summary, whatever the window.
const MAX_SUMMARY: Tokens = 8_192;

/// The shortest that is worth making.
const MIN_SUMMARY: Tokens = 48;

/// How many times what is available is looked at, at most. A history that was
/// never summarised may be longer than anybody could read; what is older stays
/// in the ledger, and the summary says so.
const MOST_READ: Tokens = 4;

/// A compaction that was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compacted {
    /// The id of the turn that holds the summary.
    pub turn_id: TurnId,
    /// The number of turns that the summary covers, without turns of earlier
    /// summaries.
    pub turns: usize,
    /// The first turn that requests still show in full.
    pub first_kept: Option<TurnId>,
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
    /// Warnings that the caller should read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// What is to be made shorter, and how far.
pub(crate) struct Plan<'a> {
    pub(crate) session: &'a Session,
    pub(crate) trigger: Trigger,
    pub(crate) focus: Option<&'a str>,
    /// What the request may use in all.
    pub(crate) available: Tokens,
    /// What everything but history takes.
    pub(crate) fixed: Tokens,
    /// The percentage of `available` to come down to; with `None`, as little as
    /// may be is kept.
    pub(crate) target: Option<f64>,
    /// The system prompt, which a model that summarises is shown.
    pub(crate) system: &'a str,
    pub(crate) now: Timestamp,
}

/// Makes summaries of one store's histories.
pub(crate) struct Compactor<'a> {
    pub(crate) store: &'a dyn Ledger,
    pub(crate) config: &'a CompactionConfig,
    pub(crate) counts: &'a Counts,
    pub(crate) policy: Policy,
    /// The language model that writes summaries, when there is one.
    pub(crate) summariser: Option<&'a dyn Summariser>,
    /// The window of the model, in tokens.
    pub(crate) model_window: Tokens,
    /// The limit of tool results that turns are counted with, if there is one.
    pub(crate) max_result: Option<Tokens>,
}

impl Compactor<'_> {
    /// Summarises the older part of a session's history. Returns `None` when
    /// there is nothing that could be summarised.
    pub(crate) fn compact(&self, plan: &Plan<'_>) -> Result<Option<Compacted>, Error> {
        let Some(head) = plan.session.head else {
            return Ok(None);
        };
        let counter = counter_of(self.counts, self.policy, self.max_result);
        let earlier = LatestCompaction::find(self.store, head)?;
        let walk = Walk {
            counter: &counter,
            tokens: plan.available.saturating_mul(MOST_READ),
            at_least: self.config.keep_turns + 1,
            through: earlier.as_ref().and_then(LatestCompaction::through),
        };
        let mut heads = self.store.walk(head, &walk)?;
        heads.retain(|head| head.kind == TurnKind::Normal);
        heads.reverse();
        let longest = (plan.available as f64 * self.config.summary / 100.0) as Tokens;
        let longest = longest.clamp(MIN_SUMMARY, MAX_SUMMARY);
        // A summary is pinned: one that left no room for the latest turns, or
        // had none itself, would do more harm than good.
        let longest = longest.min(plan.available.saturating_sub(plan.fixed) / 2);
        if longest < MIN_SUMMARY / 2 {
            return Ok(None);
        }
        let kept = self.first_kept(plan, &heads, longest);
        let (old, recent) = heads.split_at(kept);
        let Some(last) = old.last() else {
            return Ok(None);
        };

        let ids: Vec<TurnId> = old.iter().map(|head| head.id).collect();
        let turns = self.store.turns(&ids, &counter)?;
        let earlier_text = earlier.as_ref().and_then(LatestCompaction::summary);
        let earlier_tokens = earlier_text.map_or(0, |text| self.counts.counter().count(text));
        let before = self.counted(&turns, &counter)? + earlier_tokens;
        let unread = self.unread(old, earlier.as_ref())?;
        // Shorter than what it replaces, but no shorter than the one before:
        // else each generation would halve what is known of the beginning.
        let target = longest.min((before / 2).max(earlier_tokens));
        if target < MIN_SUMMARY / 2 {
            return Ok(None);
        }
        let mut warnings = Vec::new();
        let focus = plan.focus.map(|focus| guard::visible(focus, self.policy));
        let plan = &Plan {
            focus: focus.as_deref(),
            ..*plan
        };
        let made = self.summarise(plan, earlier_text, &turns, target, before, &mut warnings)?;
        let Some(mut made) = made else {
            return Ok(None);
        };
        if unread > 0 {
            let older = if earlier_text.is_some() {
                ""
            } else {
                " still older"
            };
            made.text = format!(
                "({unread}{older} turns are in the ledger and not in this summary.)\n{}",
                made.text
            );
        }
        let compaction = Compaction {
            tokens_after: self.counts.counter().count(&made.text),
            summary: made.text,
            summarized_through: Some(last.id),
            first_kept: recent.first().map(|head| head.id),
            trigger: plan.trigger,
            focus: plan.focus.map(str::to_owned),
            summariser: made.by,
            tokens_before: before,
            usage: made.usage,
        };
        let recorded = self
            .store
            .compact(&plan.session.label, head, &compaction, plan.now)?;
        Ok(Some(Compacted {
            turn_id: recorded.id,
            turns: old.len(),
            first_kept: compaction.first_kept,
            trigger: compaction.trigger,
            summariser: compaction.summariser,
            tokens_before: compaction.tokens_before,
            tokens_after: compaction.tokens_after,
            summary: compaction.summary,
            warnings,
        }))
    }

    /// Returns how many turns are neither read now nor in an earlier summary.
    fn unread(&self, old: &[TurnHead], earlier: Option<&LatestCompaction>) -> Result<u64, Error> {
        let Some(first) = old.first() else {
            return Ok(0);
        };
        let summarised = match earlier {
            None => 0,
            Some(earlier) => match earlier.compaction.first_kept {
                // The turns before the first that it kept.
                Some(kept) if kept == first.id => return Ok(0),
                Some(kept) => {
                    let kept = self.store.turns(&[kept], "")?;
                    kept.first().map_or(0, |kept| kept.depth - 1)
                }
                None if earlier.summary().is_some() => earlier.depth,
                None => 0,
            },
        };
        Ok((first.depth - 1).saturating_sub(summarised))
    }

    /// Returns what turns count; what was not counted with this counter yet is
    /// counted now and kept.
    fn counted(&self, turns: &[Turn], counter: &str) -> Result<Tokens, Error> {
        let mut total = 0;
        let mut uncounted = Vec::new();
        for turn in turns {
            match &turn.counts {
                Some(counts) => total += counts.iter().flatten().sum::<Tokens>(),
                None => {
                    let counted = count_turn(&turn.turn, self.counts, self.policy, self.max_result);
                    total += counted.total();
                    debug_assert_eq!(counted.counter, counter);
                    uncounted.push((turn.id, counted));
                }
            }
        }
        if !uncounted.is_empty() {
            self.store.put_counts(&uncounted)?;
        }
        Ok(total)
    }

    /// Returns where the part that is kept begins: at a turn that a history can
    /// begin with, with the latest turns behind it in any case, and as many
    /// more as the target leaves room for.
    fn first_kept(&self, plan: &Plan<'_>, heads: &[TurnHead], summary: Tokens) -> usize {
        let least = self.config.keep_turns;
        let room = plan.target.map_or(0, |percent| {
            let target = (plan.available as f64 * percent / 100.0) as Tokens;
            target.saturating_sub(plan.fixed).saturating_sub(summary)
        });
        let (mut kept, mut cost) = (None, 0);
        for (i, head) in heads.iter().enumerate().rev() {
            cost += head.weight();
            let enough = kept.is_some_and(|kept| heads.len() - kept >= least);
            if cost > room && enough {
                break;
            }
            if head.begins {
                kept = Some(i);
            }
        }
        // Where no history can begin, everything is kept: the next turn may
        // answer a call of the last one.
        kept.unwrap_or(0)
    }

    /// Asks each means in turn until one gives a summary that is worth having.
    fn summarise(
        &self,
        plan: &Plan<'_>,
        earlier: Option<&str>,
        turns: &[Turn],
        target: Tokens,
        before: Tokens,
        warnings: &mut Vec<Warning>,
    ) -> Result<Option<Draft>, Error> {
        let script = Script::of(turns, self.policy);
        let passages = script.passages();
        let counter = self.counts.counter();
        let worth = |made: Draft, warnings: &mut Vec<Warning>| -> Option<Draft> {
            // A model may spell out what it was told in other words.
            let text = guard::visible(made.text.trim(), self.policy);
            let tokens = counter.count(&text);
            // It is pinned: one that takes the room of the latest turns does
            // more harm than good.
            let most = before.min(target.saturating_mul(2));
            if text.is_empty() || tokens >= most {
                let message = format!(
                    "the summary by {} was rejected: {}",
                    made.by,
                    if text.is_empty() {
                        "it is empty".to_owned()
                    } else if tokens < before {
                        format!("it has {tokens} tokens; the target was {target}")
                    } else {
                        format!(
                            "it has {tokens} tokens, no fewer than the {before} it would \
                                 replace"
                        )
                    }
                );
                warnings.push(Warning::new("summary_rejected", message));
                return None;
            }
            let text = text.into_owned();
            Some(Draft { text, ..made })
        };
        if let Some(summariser) = self.summariser {
            let request = model::Summary {
                summariser,
                window: self.model_window,
                system: plan.system,
                earlier,
                focus: plan.focus,
                target,
                counter,
                policy: self.policy,
                key: self.counts.key(),
            };
            match request.make(&passages) {
                Ok(made) => {
                    if let Some(made) = worth(made, warnings) {
                        return Ok(Some(made));
                    }
                }
                Err(why) => {
                    let message = format!("{why}; using the extractive summariser instead");
                    warnings.push(Warning::new("summariser_failed", message));
                }
            }
        }
        let text = extract(earlier, &passages, plan.focus, target, counter);
        let by = "extractive".to_owned();
        let usage = None;
        Ok(worth(Draft { text, by, usage }, warnings))
    }
}

/// A summary, and what made it.
pub(crate) struct Draft {
    pub(crate) text: String,
    pub(crate) by: String,
    pub(crate) usage: Option<Usage>,
}

/// A conversation with its secrets masked.
struct Script {
    lines: Vec<Line>,
}

struct Line {
    speaker: Speaker,
    text: String,
    failed: bool,
    turn: u64,
    name: Option<String>,
}

impl Script {
    fn of(turns: &[Turn], policy: Policy) -> Self {
        let mut lines = Vec::new();
        let mut names = std::collections::BTreeMap::new();
        for turn in turns {
            for message in &turn.turn.messages {
                let speaker = match message.role {
                    MessageRole::User => Speaker::User,
                    MessageRole::Assistant => Speaker::Assistant,
                    MessageRole::Tool => Speaker::ToolResult,
                    MessageRole::System | MessageRole::Developer => continue,
                };
                for block in message.blocks() {
                    let (speaker, text, failed, name) = match &*block {
                        Block::Text { text } => (speaker, text.clone(), false, None),
                        Block::ToolCall {
                            id,
                            name,
                            arguments,
                        } => {
                            names.insert(id.clone(), name.clone());
                            let name = Some(name.clone());
                            (Speaker::ToolCall, arguments.to_string(), false, name)
                        }
                        Block::ToolResult {
                            tool_call_id,
                            content,
                            is_error,
                        } => {
                            let name = names.get(tool_call_id).cloned();
                            (Speaker::ToolResult, content.clone(), *is_error, name)
                        }
                        // Thoughts are not results; what is not text has none.
                        _ => continue,
                    };
                    lines.push(Line {
                        speaker,
                        text: guard::visible(&text, policy).into_owned(),
                        failed,
                        turn: turn.depth,
                        name,
                    });
                }
            }
            if turn.turn.effective_status() == TurnStatus::Failed {
                let error = turn.turn.error.as_ref();
                let kind = error.map_or_else(String::new, |error| format!("{:?}", error.kind));
                let told = error.map_or("", |error| error.message.as_str());
                let text = format!("turn {} failed: {kind} {told}", turn_name(turn.id));
                lines.push(Line {
                    speaker: Speaker::Other,
                    text: guard::visible(text.trim_end(), policy).into_owned(),
                    failed: true,
                    turn: turn.depth,
                    name: None,
                });
            }
        }
        Self { lines }
    }

    fn passages(&self) -> Vec<Passage<'_>> {
        self.lines
            .iter()
            .map(|line| Passage {
                speaker: line.speaker,
                text: &line.text,
                failed: line.failed,
                turn: line.turn,
                name: line.name.as_deref(),
            })
            .collect()
    }
}

/// Undoes the latest compaction of a session.
///
/// When nothing was said since, the head moves back; otherwise what stood
/// before is put back behind it, so that nothing that was said is lost.
pub(crate) fn undo(store: &dyn Ledger, session: &Session, now: Timestamp) -> Result<Undone, Error> {
    let none = || {
        Error::input(format!(
            "session `{}` has no compaction to undo",
            session.label
        ))
    };
    let Some(head) = session.head else {
        return Err(none());
    };
    // What was undone before stands behind what it undid, and is passed over
    // together with that.
    let below = |latest: &LatestCompaction| match latest.parent {
        Some(parent) => LatestCompaction::find(store, parent),
        None => Ok(None),
    };
    let effective =
        |mut latest: Option<LatestCompaction>| -> Result<Option<LatestCompaction>, Error> {
            let mut skip = 0_usize;
            while let Some(found) = &latest {
                let is_undo = found.compaction.trigger == Trigger::Undo;
                if !is_undo && skip == 0 {
                    break;
                }
                skip = if is_undo { skip + 1 } else { skip - 1 };
                latest = below(found)?;
            }
            Ok(latest)
        };
    let latest = effective(LatestCompaction::find(store, head)?)?.ok_or_else(none)?;
    let before = effective(below(&latest)?)?;
    let standing = before.as_ref().map(|before| before.id);
    if head == latest.id {
        let parent = latest.parent.ok_or_else(none)?;
        store.move_head(&session.label, Some(head), Some(parent), "uncompacted", now)?;
        return Ok(Undone {
            undone: latest.id,
            head: parent,
            standing,
        });
    }
    // What stood before: the compaction before that, or nothing.
    let before = before.map(|latest| latest.compaction);
    let before = before.unwrap_or(Compaction {
        summary: String::new(),
        summarized_through: None,
        first_kept: None,
        trigger: Trigger::Undo,
        focus: None,
        summariser: String::new(),
        tokens_before: 0,
        tokens_after: 0,
        usage: None,
    });
    let restored = Compaction {
        trigger: Trigger::Undo,
        focus: None,
        usage: None,
        ..before
    };
    let recorded = store.compact(&session.label, head, &restored, now)?;
    Ok(Undone {
        undone: latest.id,
        head: recorded.id,
        standing,
    })
}

/// A compaction that was undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "CompactionUndone"))]
pub struct Undone {
    /// The id of the compaction that was undone.
    pub undone: TurnId,
    /// The id of the session's new head.
    pub head: TurnId,
    /// The compaction that is in effect again. Null if there is none.
    pub standing: Option<TurnId>,
}
