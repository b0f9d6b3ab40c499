//! The conversation that a request itself holds, as items.
//!
//! A window shows the latest steps only. So the latest messages are read, from
//! the newest back, until there are more than the budget holds; older messages
//! cost only their length.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_core::guard::Policy;
use contexture_core::{Code, Counts, Role, Text, TokenCounter, Tokens, Written};
use contexture_store::{
    Block, Message, MessageContent, MessageRole, NewTurn, Turn, TurnHead, TurnId, TurnKind,
};
use jiff::Timestamp;
use serde_json::Value;

use super::items::{ItemBuilder, count};
use super::join::{CallIds, join};
use super::{History, PreparedTurn, SUMMARY_NAME, Target, row, steps, summary_item, summary_text};

/// A conversation that is in no ledger, as items.
pub(crate) struct LooseMessages {
    prepared: [Arc<PreparedTurn>; 1],
    // The tokens of each message: estimated for those that were not read.
    tokens: [Vec<Tokens>; 1],
    // The first message that was read, and the steps before it.
    first: usize,
    unread_steps: u64,
    target: Target,
    follows_stored: bool,
}

/// The part of a conversation that a request can show at most: its latest steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    /// The tokens that the request may use.
    pub(crate) tokens: Tokens,
    /// The tokens that are shown at most of a conversation with more than
    /// `tokens`.
    pub(crate) shown: Tokens,
    /// The number of latest steps that are read, whatever their size.
    pub(crate) steps: usize,
}

/// The bytes per token that messages which are not read are assumed to have, and
/// blocks other than texts until they are counted.
const USUAL_BYTES_PER_TOKEN: usize = 4;

impl LooseMessages {
    /// Prepares messages for a request: all of them, or those within `reach`.
    /// Earlier messages are neither guarded nor counted.
    ///
    /// With `follows_stored`, the messages follow others that the provider
    /// stores: results of calls that are not among the messages are always kept.
    pub(crate) fn new(
        messages: &[Message],
        counts: &Counts,
        policy: Policy,
        target: Target,
        max_result: Option<Tokens>,
        reach: Option<Reach>,
        follows_stored: bool,
    ) -> Self {
        let mut previous = steps::Previous::default();
        let starts: Vec<usize> = (0..messages.len())
            .filter(|&at| previous.starts_step(&messages[at]))
            .collect();
        let mut latest = Latest {
            messages,
            // Counted as the items are.
            counts: counts.native(),
            policy,
            first: messages.len(),
            tokens: 0,
            sent_tokens: 0,
            texts: BTreeMap::new(),
        };
        // A conversation that is certainly too long is read as far as it is
        // shown.
        let needed = reach.map(|reach| {
            if reach.shown == reach.tokens {
                return reach.tokens;
            }
            latest.read(&starts, reach.shown, reach.steps);
            match latest.exceeds(reach.tokens) {
                true => reach.shown,
                false => reach.tokens,
            }
        });
        let mut wanted = needed.unwrap_or_default();
        loop {
            let first = match reach {
                Some(reach) => latest.read(&starts, wanted, reach.steps),
                None => 0,
            };
            let mut maker = ItemBuilder::new(turn_id(), policy, target, max_result)
                .of_loose_messages(first, latest.texts.clone());
            let read = NewTurn {
                messages: messages[first..].to_vec(),
                ..NewTurn::default()
            };
            let items = maker.items(&read, counts);
            let blocks = count(&items, &read, counts);
            let counted = blocks.iter().map(|blocks| blocks.iter().sum::<Tokens>());
            let sum: Tokens = counted.clone().sum();
            if first > 0 && needed.is_some_and(|needed| sum <= needed) {
                // The blocks have fewer tokens than they were assumed to have:
                // the request may show more of them.
                wanted = wanted.saturating_mul(2);
                continue;
            }
            let estimated = messages[..first].iter().map(usual_tokens);
            let tokens = estimated.chain(counted).collect();
            let unread_steps = starts.iter().take_while(|start| **start < first).count() as u64;
            return Self {
                prepared: [Arc::new(maker.finish(items, None))],
                tokens: [tokens],
                first,
                unread_steps,
                target,
                follows_stored,
            };
        }
    }

    /// Returns the turn that holds `messages`, the messages that were prepared.
    pub(crate) fn turn(messages: &[Message], now: Timestamp) -> [Turn; 1] {
        [Turn {
            id: turn_id(),
            parent: None,
            depth: 1,
            kind: TurnKind::Normal,
            created_at: now,
            turn: NewTurn {
                messages: messages.to_vec(),
                ..NewTurn::default()
            },
            compaction: None,
            counts: None,
        }]
    }

    /// Returns the bytes of the longest tool result.
    pub(crate) fn longest_result(messages: &[Message]) -> usize {
        messages.iter().map(result_bytes).max().unwrap_or(0)
    }

    /// Returns true if all messages were read and have at most this many tokens.
    pub(crate) fn is_within(&self, tokens: Tokens) -> bool {
        self.first == 0 && self.tokens[0].iter().sum::<Tokens>() <= tokens
    }

    /// Returns the tokens of the messages.
    pub(crate) fn tokens(&self) -> &[Vec<Tokens>] {
        &self.tokens
    }

    /// Returns the messages from index `from` on as items, after a summary of
    /// the earlier ones.
    pub(crate) fn history(&self, from: usize, summary: Option<&str>, policy: Policy) -> History {
        let mut history = History {
            heads: vec![TurnHead {
                id: turn_id(),
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
        let ids = match self.follows_stored {
            true => CallIds::Stored,
            false => CallIds::Unique,
        };
        let first = from.max(self.first);
        join(&mut history, &self.prepared, first, ids, self.target);
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

/// Returns the bytes of the longest tool result in a message. The texts of a tool's
/// message that names its call are the result of that call.
fn result_bytes(message: &Message) -> usize {
    if message.role == MessageRole::Tool && message.tool_call_id.is_some() {
        return message.bytes();
    }
    let MessageContent::Blocks(blocks) = &message.content else {
        return 0;
    };
    let results = blocks.iter().map(|block| match block {
        Block::ToolResult { content, .. } => content.len(),
        _ => 0,
    });
    results.max().unwrap_or(0)
}

/// Returns the id of the turn of messages that have none.
fn turn_id() -> TurnId {
    TurnId::of(b"messages")
}

/// Returns true if the texts of a message are sent.
fn is_sent(message: &Message) -> bool {
    let talks = matches!(message.role, MessageRole::User | MessageRole::Assistant);
    talks && message.tool_call_id.is_none()
}

/// Returns a number that the tokens of a message's texts are never below.
fn lower_bound(message: &Message, counter: &dyn TokenCounter) -> Tokens {
    let blocks = match &message.content {
        MessageContent::Text(text) => return counter.lower_bound(text),
        MessageContent::Blocks(blocks) => blocks.iter(),
    };
    let of_block = |block: &Block| match block {
        Block::Text { text, .. } => match text.written() {
            Written::Text(text) => counter.lower_bound(text),
            Written::Json(json) => counter.lower_bound_in_json(json),
        },
        _ => 0,
    };
    blocks.map(of_block).sum()
}

/// The latest messages, as far as they were read.
struct Latest<'m> {
    messages: &'m [Message],
    counts: Counts,
    policy: Policy,
    first: usize,
    // The tokens of the messages from `first` on, and those of their texts that are
    // certainly sent.
    tokens: Tokens,
    sent_tokens: Tokens,
    // The plain texts among them, by message and block.
    texts: BTreeMap<(usize, usize), Text>,
}

impl Latest<'_> {
    /// Reads steps from the newest back, until they have more than `wanted`
    /// tokens and are more than `steps`. Returns the message that they begin
    /// with.
    ///
    /// Texts are counted, and other blocks are assumed to have the usual tokens.
    fn read(&mut self, starts: &[usize], wanted: Tokens, steps: usize) -> usize {
        for (taken, &start) in starts.iter().rev().enumerate() {
            if self.tokens > wanted && taken > steps {
                return self.first;
            }
            for at in (start..self.first).rev() {
                self.tokens = self.tokens.saturating_add(self.count(at));
            }
            self.first = self.first.min(start);
        }
        0
    }

    /// Returns true if all messages certainly have more than this many tokens when
    /// they are sent. Those that were not read are not counted either.
    fn exceeds(&self, tokens: Tokens) -> bool {
        // The guard may replace a secret by fewer tokens.
        let most = tokens.saturating_add(tokens / 8);
        let mut least = self.sent_tokens;
        let older = self.messages[..self.first].iter().rev();
        let mut older = older.filter(|message| is_sent(message));
        least > most
            || older.any(|message| {
                least = least.saturating_add(lower_bound(message, self.counts.counter()));
                least > most
            })
    }

    fn count(&mut self, at: usize) -> Tokens {
        let message = &self.messages[at];
        if message.tool_call_id.is_some() {
            return usual_tokens(message);
        }
        match &message.content {
            MessageContent::Text(text) => self.count_text((at, 0), text),
            MessageContent::Blocks(blocks) => {
                let of_block = |(b, block): (usize, &Block)| match block {
                    Block::Text { text, .. } => self.count_text((at, b), text),
                    block => (bytes_of(block) / USUAL_BYTES_PER_TOKEN) as Tokens,
                };
                blocks.iter().enumerate().map(of_block).sum()
            }
        }
    }

    fn count_text(&mut self, at: (usize, usize), text: &str) -> Tokens {
        let is_blank = text.trim().is_empty();
        let text = Text::guarded(text, self.policy);
        let tokens = self.counts.count_of(&text);
        self.texts.insert(at, text);
        if is_sent(&self.messages[at.0]) && !is_blank {
            self.sent_tokens = self.sent_tokens.saturating_add(tokens);
        }
        tokens
    }
}

/// Returns the tokens that a message is assumed to have.
fn usual_tokens(message: &Message) -> Tokens {
    let bytes = match &message.content {
        MessageContent::Text(text) => text.len(),
        MessageContent::Blocks(blocks) => blocks.iter().map(bytes_of).sum(),
    };
    (bytes / USUAL_BYTES_PER_TOKEN) as Tokens
}

/// Returns the bytes of text of a block.
fn bytes_of(block: &Block) -> usize {
    match block {
        // One that comes from JSON need not be read for its size.
        Block::Text { text, .. } => text.written().bytes(),
        Block::Thinking { text, .. } => text.len(),
        Block::ToolResult { content, .. } => content.len(),
        Block::ToolCall { arguments, .. } => match arguments {
            Value::String(written) => written.len(),
            arguments => arguments.to_string().len(),
        },
        Block::Provider { raw, .. } => raw.as_str().len(),
        Block::Image { .. } | Block::Audio { .. } | Block::Document { .. } => 0,
    }
}
