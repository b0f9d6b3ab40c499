//! Decides at which step the kept part of a history begins.
//!
//! Steps are kept from the newest backward as long as they fit into the target.
//! The latest turns stay whole if they are within a larger limit. The latest
//! step is always kept.

use contexture_core::Tokens;
use contexture_store::Turn;

use crate::history::steps;

/// The start of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// The index of the turn.
    pub(crate) turn: usize,
    /// The index of the message in the turn.
    pub(crate) message: usize,
}

/// The limits that decide where the kept part begins.
pub(super) struct Limits {
    /// The tokens that the part that stays may have, by the target.
    pub(super) room: Tokens,
    /// The tokens that it may have at most for the sake of `turns`.
    pub(super) most: Tokens,
    /// The number of latest turns that stay if they fit in `most`.
    pub(super) turns: usize,
}

/// Returns the start of the kept part: as many steps as fit, and the latest
/// turns. If the latest turns are the whole history, only the latest steps are
/// kept. The latest step is always kept.
///
/// `tokens` are the tokens of each message of each turn. Messages before `from`
/// belong to an earlier summary. Returns `None` if no step could be summarised.
pub(super) fn first_kept(
    turns: &[Turn],
    tokens: &[Vec<Tokens>],
    from: usize,
    limits: &Limits,
) -> Option<Position> {
    let mut previous = steps::Previous::default();
    let mut starts = Vec::new();
    for (t, turn) in turns.iter().enumerate() {
        let skip = if t == 0 { from } else { 0 };
        for (m, message) in turn.turn.messages.iter().enumerate().skip(skip) {
            if previous.starts_step(message) {
                starts.push(Position {
                    turn: t,
                    message: m,
                });
            }
        }
    }
    let oldest = starts.first().copied()?;
    let mut cost: Tokens = 0;
    let mut counted = (turns.len(), 0);
    // The tokens from a position to the end.
    let mut cost_from = |position: Position| -> Tokens {
        while (position.turn, position.message) < counted {
            counted = match counted {
                (t, 0) => (t - 1, tokens[t - 1].len()),
                (t, m) => {
                    cost = cost.saturating_add(tokens[t][m - 1]);
                    (t, m - 1)
                }
            };
        }
        cost
    };
    let latest_turns = turns.len().saturating_sub(limits.turns);
    // With the latest turns, and with as many of the latest steps.
    let (mut by_turns, mut by_steps) = (None, None);
    for (steps, &start) in starts.iter().rev().enumerate() {
        let cost = cost_from(start);
        let is_latest = steps < limits.turns && cost <= limits.most;
        let is_wanted = start.turn >= latest_turns && cost <= limits.most;
        let fits = cost <= limits.room || is_latest || steps == 0;
        if !fits && !is_wanted {
            break;
        }
        if fits {
            by_steps = Some(start);
        }
        by_turns = Some(start);
    }
    // The latest turns may be all there are.
    let kept = by_turns.filter(|kept| *kept > oldest).or(by_steps);
    kept.filter(|kept| *kept > oldest)
}
