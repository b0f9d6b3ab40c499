//! Compaction between turns, before the next request needs it.
//!
//! A server runs it in the background after a turn was recorded, if
//! `[compaction] background` is set. The next request then finds the summary
//! and does not wait for a language model.

use contexture_core::Tokens;
use contexture_engine::Error;
use contexture_store::{Block, MessageRole, Trigger, Turn, TurnKind, Walk};
use jiff::Timestamp;

use super::{Attempt, Flight};
use crate::session::{CompactRequest, Sessions};

/// The distance below `compaction.threshold` at which a history is summarised
/// ahead, in percent of the available tokens.
const MARGIN: f64 = 10.0;

impl Sessions<'_> {
    /// Summarises a session's history if the next request is likely to need it,
    /// so that the request need not wait for the summary.
    ///
    /// That is the case if the latest request and the turns recorded since have
    /// nearly as many tokens as `compaction.threshold` allows. Nothing is done
    /// while the model waits for the results of its calls. Only one compaction
    /// of a history runs at a time.
    pub fn compact_ahead(&self, label: &str, now: Option<Timestamp>) -> Result<Attempt, Error> {
        let config = &self.engine.config().compaction;
        let store = self.engine.ledger()?;
        let session = store.session(label)?;
        let Some(head) = session.head.filter(|_| config.enabled) else {
            return Ok(Attempt::Nothing("there is nothing to summarise"));
        };
        let Some(latest) = self.engine.snapshots()?.latest_snapshot(&session.label)? else {
            return Ok(Attempt::Nothing("no request was assembled yet"));
        };
        let turns = store.turns(&[head], "")?;
        if !turns.first().is_some_and(is_complete) {
            return Ok(Attempt::Nothing("the latest turn is not complete"));
        }
        let Some(saved) = self.load_unless_deleted(&session.label, &latest)? else {
            return Ok(Attempt::Nothing("the session has moved on"));
        };
        let available = saved.available();
        let walk = Walk {
            counter: &latest.counter,
            tokens: available,
            at_least: 0,
            through: latest.parent_turn,
        };
        let since = store.walk(head, &walk)?;
        let new = since
            .iter()
            .filter(|turn| Some(turn.id) != latest.parent_turn);
        let grown: Tokens = new.map(|turn| turn.weight()).sum();
        let near = (available as f64 * (config.threshold - MARGIN) / 100.0) as Tokens;
        if saved.tokens().saturating_add(grown) <= near {
            return Ok(Attempt::Nothing("the next request has room"));
        }
        let _flight = Flight::begin(head);
        if store.session(label)?.head != session.head {
            return Ok(Attempt::Nothing("the session has moved on"));
        }
        let request = CompactRequest {
            model: Some(latest.model.clone()),
            now,
            ..CompactRequest::default()
        };
        let target = config.target_of(available);
        self.compact_to(label, &request, Trigger::ContextLimit, Some(target))
    }
}

/// Returns true for a turn that ends with an answer, and waits for no result.
fn is_complete(turn: &Turn) -> bool {
    let Some(last) = turn.turn.messages.last() else {
        return false;
    };
    let calls = |block: &Block| matches!(block, Block::ToolCall { .. });
    turn.kind == TurnKind::Normal
        && last.role == MessageRole::Assistant
        && !last.blocks().iter().any(|block| calls(block))
}
