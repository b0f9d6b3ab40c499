//! The boundaries of steps.
//!
//! A step is one answer of the model with the results of its tool calls. The
//! user's message before it belongs to it. History is cut and summarised only
//! between steps.

use contexture_store::{Block, Message, MessageContent, MessageRole};

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
        let is_result = |block: &Block| matches!(block, Block::ToolResult { .. });
        let is_opaque = |block: &Block| matches!(block, Block::Provider { .. });
        let answers = match &message.content {
            // A tool's message that names its call is a result.
            _ if message.role == MessageRole::Tool && message.tool_call_id.is_some() => true,
            MessageContent::Text(_) => false,
            // Blocks that only the provider understands may be results.
            MessageContent::Blocks(blocks) => {
                blocks.iter().any(is_result)
                    || message.role == MessageRole::User && blocks.iter().all(is_opaque)
            }
        };
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
