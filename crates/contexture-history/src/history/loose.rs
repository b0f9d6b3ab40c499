//! The conversation that a request itself holds, as items.
//!
//! A window shows the latest steps only. So the latest messages are read, from
//! the newest back, until there are more than the budget holds; older messages
//! cost only their length.

use std::sync::Arc;

use contexture_core::guard::Policy;
use contexture_core::{Code, Counts, Role, Tokens};
use contexture_store::{Block, Message, NewTurn, Turn, TurnHead, TurnId, TurnKind};
use jiff::Timestamp;
use serde_json::Value;

use super::items::{ItemBuilder, count};
use super::join::join;
use super::{History, PreparedTurn, SUMMARY_NAME, Target, row, steps, summary_item, summary_text};

/// A conversation that is in no ledger, as items.
pub(crate) struct LooseMessages {
    turn: [Turn; 1],
    prepared: [Arc<PreparedTurn>; 1],
    // The tokens of each message: estimated for those that were not read.
    tokens: [Vec<Tokens>; 1],
    // The first message that was read, and the steps before it.
    first: usize,
    unread_steps: u64,
}

/// The part of a conversation that a request can show at most: its latest steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    /// The tokens that the request may use.
    pub(crate) tokens: Tokens,
    /// The number of latest steps that are read, whatever their size.
    pub(crate) steps: usize,
}

/// The bytes of text per token that a conversation is assumed to have at most,
/// so that enough of it is read. Code and prose have three to five.
const MOST_BYTES_PER_TOKEN: usize = 5;

/// The bytes of the latest texts that are counted to find out how many bytes
/// their tokens have.
const SAMPLE_BYTES: usize = 16 * 1024;

/// The bytes of text per token that messages which are not read are assumed to
/// have.
const USUAL_BYTES_PER_TOKEN: usize = 4;

impl LooseMessages {
    /// Prepares messages for a request: all of them, or those within `reach`.
    /// Earlier messages are neither guarded nor counted.
    pub(crate) fn new(
        messages: Vec<Message>,
        counts: &Counts,
        policy: Policy,
        target: Target,
        max_result: Option<Tokens>,
        reach: Option<Reach>,
        now: Timestamp,
    ) -> Self {
        let turn = Turn {
            id: TurnId::of(b"messages"),
            parent: None,
            depth: 1,
            kind: TurnKind::Normal,
            created_at: now,
            turn: NewTurn {
                messages,
                ..NewTurn::default()
            },
            compaction: None,
            counts: None,
        };
        let messages = &turn.turn.messages;
        let bytes: Vec<usize> = messages.iter().map(text_bytes).collect();
        let mut previous = steps::Previous::default();
        let starts: Vec<usize> = (0..messages.len())
            .filter(|&at| previous.starts_step(&messages[at]))
            .collect();
        let mut wanted = reach.map_or(usize::MAX, |reach| {
            bytes_of(reach.tokens as usize, messages, counts)
        });
        loop {
            let first = reach.map_or(0, |reach| {
                first_within(&starts, &bytes, wanted, reach.steps)
            });
            let mut maker =
                ItemBuilder::new(turn.id, policy, target, max_result).of_loose_messages(first);
            let items = maker.items(&turn.turn, counts);
            let blocks = count(&items, &turn.turn, counts);
            let mut tokens: Vec<Tokens> = blocks.iter().map(|blocks| blocks.iter().sum()).collect();
            let read: Tokens = tokens[first..].iter().sum();
            if first > 0 && reach.is_some_and(|reach| read <= reach.tokens) {
                // These texts have more bytes per token: the request may show
                // more of them.
                wanted = wanted.saturating_mul(2);
                continue;
            }
            for (tokens, bytes) in tokens.iter_mut().zip(&bytes).take(first) {
                *tokens = (bytes / USUAL_BYTES_PER_TOKEN) as Tokens;
            }
            let unread_steps = starts.iter().take_while(|start| **start < first).count() as u64;
            return Self {
                prepared: [Arc::new(maker.finish(items, None))],
                turn: [turn],
                tokens: [tokens],
                first,
                unread_steps,
            };
        }
    }

    /// Returns the turn that holds the messages, and their tokens.
    pub(crate) fn material(&self) -> (&[Turn], &[Vec<Tokens>]) {
        (&self.turn, &self.tokens)
    }

    /// Returns the messages from index `from` on as items, after a summary of
    /// the earlier ones.
    pub(crate) fn history(&self, from: usize, summary: Option<&str>, policy: Policy) -> History {
        let turn = &self.turn[0];
        let mut history = History {
            heads: vec![TurnHead {
                id: turn.id,
                parent: None,
                depth: 1,
                kind: TurnKind::Normal,
                compaction: None,
                begins: true,
                bytes: 0,
                tokens: None,
            }],
            ..History::default()
        };
        if let Some(summary) = summary {
            let name = format!("{SUMMARY_NAME}messages");
            let text = summary_text(summary, policy);
            history.items.push(summary_item(name, text));
        }
        join(&mut history, &self.prepared, from.max(self.first), true);
        if from < self.first {
            let tokens = self.tokens[0][from..self.first].iter().sum();
            let count = self.first - from;
            let reason = format!("{count} older messages: not read because the budget is full");
            let id = format!("messages/{from}-{}", self.first - 1);
            let mut row = row(&id, Role::User, Code::BEFORE_WINDOW, tokens, reason);
            row.items = Some(count as u64);
            history.unsent.insert(0, row);
            history.unread = self.unread_steps;
        }
        history
    }
}

/// Returns the bytes of text that probably have more than this many tokens, by
/// the latest texts of a conversation.
fn bytes_of(tokens: usize, messages: &[Message], counts: &Counts) -> usize {
    let most = tokens.saturating_mul(MOST_BYTES_PER_TOKEN);
    if most <= 4 * SAMPLE_BYTES {
        return most;
    }
    let (mut bytes, mut counted) = (0, 0);
    for message in messages.iter().rev() {
        for block in message.blocks() {
            if let Block::Text { text, .. } = &*block {
                let text = &text[..text.floor_char_boundary(SAMPLE_BYTES - bytes)];
                bytes += text.len();
                counted += counts.counter().count(text) as usize;
            }
        }
        // A character that did not fit may be missing.
        if bytes + 4 > SAMPLE_BYTES {
            // A fifth more, because other texts may have longer tokens.
            let likely = tokens.saturating_mul(bytes) / counted.max(1);
            return most.min(likely.saturating_add(likely / 5));
        }
    }
    most
}

/// Returns the message that the latest steps begin with: those with that many
/// bytes of text, and at least that many steps.
fn first_within(starts: &[usize], bytes: &[usize], wanted: usize, steps: usize) -> usize {
    let mut end = bytes.len();
    let mut sum: usize = 0;
    for (taken, &start) in starts.iter().rev().enumerate() {
        if sum > wanted && taken > steps {
            return end;
        }
        sum = bytes[start..end]
            .iter()
            .fold(sum, |sum, more| sum.saturating_add(*more));
        end = start;
    }
    0
}

/// Returns the bytes of text of a message.
fn text_bytes(message: &Message) -> usize {
    let of_block = |block: &Block| match block {
        Block::Text { text, .. } | Block::Thinking { text, .. } => text.len(),
        Block::ToolResult { content, .. } => content.len(),
        Block::ToolCall { arguments, .. } => match arguments {
            Value::String(written) => written.len(),
            arguments => arguments.to_string().len(),
        },
        Block::Provider { raw, .. } => raw.as_str().len(),
        Block::Image { .. } | Block::Audio { .. } | Block::Document { .. } => 0,
    };
    message.blocks().iter().map(|block| of_block(block)).sum()
}
