//! The source `messages`: a conversation inside the request itself.
//!
//! It is fitted like a session's history: by steps, without gaps, with a
//! summary of the steps that are left out. Nothing is stored.

use std::sync::Arc;

use contexture_core::{Code, Excluded, Fit, Marker, Role, Tokens, UnofferedRange};
use contexture_engine::{Ask, Concept, Error, Offer, Outcome, Source, Warning};
use contexture_store::check_messages;

use crate::compaction::{Condenser, Material, Space};
use crate::facts::Facts;
use crate::history::{LooseMessages, Reach, ResultLimits, Target};
use crate::source::LEFT_OUT;

/// Offers the messages of the request.
pub(crate) struct MessagesSource;

/// The percentage of the available tokens that messages with a summary use. The
/// summary is not stored for the next request, so there is no reason to use
/// less.
const MOST_USED: f64 = 95.0;

/// The state of one request's messages during assembly.
#[derive(Default)]
struct Progress {
    prepared: Option<Arc<LooseMessages>>,
    // Whether long tool results are cut, because the messages do not fit otherwise.
    cuts_results: bool,
    // The first message that is shown, and the summary of those before.
    from: usize,
    summary: Option<String>,
    is_settled: bool,
}

impl Source for MessagesSource {
    fn name(&self) -> &str {
        "messages"
    }

    fn concept(&self) -> Concept {
        Concept::History
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error> {
        if ask.request.messages.is_empty() {
            return Ok(Offer::default());
        }
        let state = ask.state::<Progress>()?;
        let mut progress = state.lock();
        let prepared = match &progress.prepared {
            Some(prepared) => Arc::clone(prepared),
            None => {
                let (prepared, cuts_results) = prepare(ask, progress.cuts_results)?;
                let prepared = Arc::new(prepared);
                progress.cuts_results = cuts_results;
                progress.prepared = Some(Arc::clone(&prepared));
                prepared
            }
        };
        let summary = progress.summary.as_deref();
        let mut history = prepared.history(progress.from, summary, ask.policy);
        // Nothing is stored here: content that is left out cannot be fetched.
        for item in &mut history.items {
            item.handle = None;
        }
        if progress.from > 0 {
            history.unsent.insert(0, summarised(progress.from));
        }
        let mut fit = ask.layer.fit.clone();
        if let Fit::Path(path) = &mut fit {
            let mut marker = Marker::new("earlier step", Role::User);
            marker.text = Some(LEFT_OUT.into());
            marker.is_required = true;
            path.marker = Some(marker);
            path.unseen = (history.unread > 0).then_some(UnofferedRange {
                at: 0,
                count: history.unread,
            });
        }
        Ok(Offer {
            items: history.items,
            excluded: history.unsent,
            fit: Some(fit),
            keeps_parts: true,
            ..Offer::default()
        })
    }

    fn revise(&self, ask: &Ask<'_>, outcome: &Outcome<'_>) -> Result<Option<Offer>, Error> {
        let state = ask.state::<Progress>()?;
        let mut progress = state.lock();
        if !progress.cuts_results && has_lost(ask, outcome) {
            (progress.cuts_results, progress.prepared) = (true, None);
            drop(progress);
            return self.gather(ask).map(Some);
        }
        let Some(assembly) = outcome.assembly() else {
            // A summary that does not fit is dropped.
            let over = outcome.error().is_some_and(|error| error.is_over_budget());
            let had = progress.summary.take().is_some();
            progress.from = 0;
            drop(progress);
            return match over && had {
                true => self.gather(ask).map(Some),
                false => Ok(None),
            };
        };
        let config = &ask.engine.config().compaction;
        if !lacks(ask, outcome) || progress.is_settled || !summarises(ask) {
            return Ok(None);
        }
        progress.is_settled = true;
        let Some(prepared) = progress.prepared.clone() else {
            return Ok(None);
        };
        let Some(layer) = outcome.layer_budget() else {
            return Ok(None);
        };
        let turns = LooseMessages::turn(&ask.request.messages, ask.now);
        let material = Material {
            turns: &turns,
            tokens: prepared.tokens(),
            from: 0,
            facts: Facts::default(),
            earlier_tokens: 0,
        };
        let fixed = assembly.report.budget.used - layer.used;
        let available = ask.budget.available().min(fixed + layer.allowed);
        let space = Space {
            available,
            fixed,
            target: Some(MOST_USED),
            uses_free_tokens: true,
            focus: None,
        };
        let condenser = Condenser {
            config,
            counter: ask.counts.counter(),
            policy: ask.policy,
        };
        let Ok(condensed) = condenser.condense(&material, &space) else {
            return Ok(None);
        };
        if condensed.text.is_empty() {
            return Ok(None);
        }
        let steps = condensed.older.steps();
        progress.from = condensed.older.kept.message;
        progress.summary = Some(condensed.text);
        drop(progress);
        let plural = if steps == 1 { " is" } else { "s are" };
        ask.warn(Warning::new(
            "messages_condensed",
            format!("{steps} earlier step{plural} summarised, because the messages do not fit"),
        ));
        self.gather(ask).map(Some)
    }
}

/// Returns true if messages are missing because they do not fit.
fn lacks(ask: &Ask<'_>, outcome: &Outcome<'_>) -> bool {
    let is_lack = |code: Code| matches!(code, Code::OVER_BUDGET | Code::BEFORE_WINDOW);
    let dropped = outcome.assembly().map(|assembly| &assembly.report.excluded);
    let mut dropped = dropped.into_iter().flatten();
    dropped.any(|row| *row.layer == *ask.layer.name && is_lack(row.code))
        || outcome.not_offered().any(|row| is_lack(row.code))
}

/// Returns true if messages are missing or cut, or if the request cannot be made.
fn has_lost(ask: &Ask<'_>, outcome: &Outcome<'_>) -> bool {
    let Some(assembly) = outcome.assembly() else {
        return outcome.error().is_some_and(|error| error.is_over_budget());
    };
    let mut kept = assembly.report.included.iter();
    lacks(ask, outcome) || kept.any(|row| *row.layer == *ask.layer.name && row.truncated)
}

/// Returns true if messages that do not fit are summarised.
fn summarises(ask: &Ask<'_>) -> bool {
    ask.layer.compact && ask.engine.config().compaction.enabled
}

/// Prepares the messages. Long tool results are cut if `cuts_results` is true, or if
/// the messages are certainly too long without that. Returns whether they are.
fn prepare(ask: &Ask<'_>, cuts_results: bool) -> Result<(LooseMessages, bool), Error> {
    let messages = &ask.request.messages;
    let follows_stored = ask.request.given.follows_stored;
    check_messages(messages, follows_stored)?;
    let target = Target {
        provider: ask.model.provider,
        format: ask.request.format,
    };
    let limits = ResultLimits::of(ask.engine.config(), ask.budget.window());
    // A window over the latest steps shows none of the steps far before them.
    let reach = match &ask.layer.fit {
        // Results of stored calls may be anywhere.
        _ if follows_stored => None,
        Fit::Path(path) if path.head == 0.0 => {
            let tokens = ask.budget.available();
            // With a summary, the latest steps fill what it leaves.
            let anchor = path.anchor.as_ref().filter(|_| !summarises(ask));
            Some(Reach {
                tokens,
                shown: anchor.map_or(tokens, |anchor| anchor.shrunk(tokens)),
                steps: path.min_recent,
            })
        }
        _ => None,
    };
    let make = |max_result: Option<Tokens>| {
        LooseMessages::new(
            messages,
            ask.counts,
            ask.policy,
            target,
            max_result,
            reach,
            follows_stored,
        )
    };
    let longest = LooseMessages::longest_result(messages) as Tokens;
    let available = ask.budget.available();
    // No counter has more than two tokens per byte, and hardly a text has fewer than
    // one for 16 bytes.
    let is_short = limits.shown.is_none_or(|limit| longest <= limit / 2);
    if is_short {
        // There is no result to cut, so a second preparation would be the same.
        return Ok((make(None), true));
    }
    if !cuts_results && longest / 16 <= available {
        let whole = make(None);
        if whole.is_within(available) {
            return Ok((whole, false));
        }
    }
    Ok((make(limits.shown), true))
}

/// Returns the report's row for messages that a summary replaces.
fn summarised(count: usize) -> Excluded {
    let id = format!("messages/0-{}", count.saturating_sub(1));
    let reason = format!("{count} messages: replaced by a summary");
    let mut row = Excluded::unoffered(&id, "", Role::User, Code::COMPACTED, reason);
    row.items = Some(count as u64);
    row
}
