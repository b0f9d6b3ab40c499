//! The boundaries of steps.
//!
//! A step is one answer of the model with the results of its tool calls. The
//! user's message before it belongs to it. History is cut and summarised only
//! between steps.

use contexture_store::{Block, Message, MessageRole};

/// The author of the message before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Previous {
    /// No message, or a tool result.
    #[default]
    Other,
    User,
    Assistant,
}

impl Previous {
    /// Returns true if a step begins with `message`, and advances to that
    /// message.
    pub(crate) fn starts_step(&mut self, message: &Message) -> bool {
        let blocks = message.blocks();
        let is_result = |block: &Block| matches!(block, Block::ToolResult { .. });
        let is_opaque = |block: &Block| matches!(block, Block::Provider { .. });
        // Blocks that only the provider understands may be results.
        let answers = blocks.iter().any(|block| is_result(block))
            || message.role == MessageRole::User && blocks.iter().all(|block| is_opaque(block));
        let before = *self;
        *self = match message.role {
            MessageRole::System | MessageRole::Developer => return false,
            _ if answers => Previous::Other,
            MessageRole::User => Previous::User,
            MessageRole::Assistant => Previous::Assistant,
            MessageRole::Tool => Previous::Other,
        };
        match self {
            Previous::User | Previous::Assistant => before != Previous::User,
            Previous::Other => false,
        }
    }
}
