//! Undoes a compaction.
//!
//! A compaction is a turn that hides earlier turns from requests. Undoing it
//! never deletes a turn: the head moves back, or a new turn restores the
//! previous state.

use contexture_engine::Error;
use contexture_store::{Compaction, Ledger, Session, Trigger, TurnId};
use jiff::Timestamp;
use serde::Serialize;

use crate::history::LatestCompaction;

/// Undoes the latest compaction of a session.
///
/// If no turn was recorded since, the head moves back. Otherwise a new turn
/// restores the previous compaction, or none, so that no recorded turn is lost.
/// Fails if there is no compaction to undo.
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
    // An earlier undo comes after the compaction that it undid; both are
    // skipped together.
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
    // The previous state: the compaction before the latest one, or none.
    let before = before.map(|latest| latest.compaction);
    let before = before.unwrap_or(Compaction {
        summary: String::new(),
        summarized_through: None,
        first_kept: None,
        first_kept_message: 0,
        facts: None,
        made_of: Vec::new(),
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
        made_of: standing.into_iter().collect(),
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
