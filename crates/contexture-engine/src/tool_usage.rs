//! [`ToolUsage`]: how often the tools of a conversation were called, and when
//! last.
//!
//! A turn's usage is the usage of the turn before it plus its own calls, so a
//! conversation is read once and afterwards only its new turns.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_core::cache::Cache;
use contexture_core::message::{Block, Message};
use contexture_store::{Ledger, TurnId, Walk};

use crate::error::Error;

/// The number of calls of each tool up to a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolUsage {
    calls: BTreeMap<String, Calls>,
    // The number of the latest turn.
    turn: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Calls {
    number: u64,
    // The turn of the latest.
    last: u64,
}

impl ToolUsage {
    /// Returns the usage of a list of messages, each of which counts as a turn.
    pub fn of<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Self {
        let mut usage = Self::default();
        for (at, message) in messages.into_iter().enumerate() {
            usage.add(at as u64 + 1, std::slice::from_ref(message));
        }
        usage
    }

    fn add(&mut self, turn: u64, messages: &[Message]) {
        self.turn = self.turn.max(turn);
        for message in messages {
            for block in message.blocks() {
                if let Block::ToolCall { name, .. } = &*block {
                    let calls = self.calls.entry(name.clone()).or_default();
                    calls.number += 1;
                    calls.last = turn;
                }
            }
        }
    }

    /// Returns the number of calls of a tool.
    pub fn calls(&self, tool: &str) -> u64 {
        self.calls.get(tool).map_or(0, |calls| calls.number)
    }

    /// Returns the number of turns since the last call of a tool: 0 for the
    /// latest turn. `None` if it was never called.
    pub fn last_use(&self, tool: &str) -> Option<u64> {
        let calls = self.calls.get(tool)?;
        Some(self.turn - calls.last)
    }
}

/// The number of latest turns that are searched for one whose usage is cached.
const LOOK_BACK: usize = 16;

/// The number of turns that are read at once.
const AT_ONCE: usize = 256;

/// Usages by turn.
pub(crate) type ToolUsageCache = Cache<TurnId, Arc<ToolUsage>>;

/// Returns the usage up to the turn `head`.
pub(crate) fn usage_at(
    store: &dyn Ledger,
    head: TurnId,
    known: &ToolUsageCache,
) -> Result<Arc<ToolUsage>, Error> {
    if let Some(usage) = known.get(&head) {
        return Ok(usage);
    }
    let walk = |tokens, at_least| Walk {
        counter: "",
        tokens,
        at_least,
        through: None,
    };
    let latest = store.walk(head, &walk(0, LOOK_BACK))?;
    let found = latest
        .iter()
        .enumerate()
        .find_map(|(at, turn)| Some((at, known.get(&turn.id)?)));
    let (new, mut usage) = match found {
        Some((at, usage)) => (latest[..at].to_vec(), (*usage).clone()),
        None => {
            let all = store.walk(head, &walk(u64::MAX, usize::MAX))?;
            (all, ToolUsage::default())
        }
    };
    // The list is newest first; turns are read oldest first.
    let ids: Vec<TurnId> = new.iter().rev().map(|turn| turn.id).collect();
    for some in ids.chunks(AT_ONCE) {
        for turn in store.turns(some, "")? {
            usage.add(turn.depth, &turn.turn.messages);
        }
    }
    let usage = Arc::new(usage);
    let bytes = usage
        .calls
        .keys()
        .map(|name| name.len() + 64)
        .sum::<usize>()
        + 128;
    known.insert(head, Arc::clone(&usage), bytes);
    Ok(usage)
}
