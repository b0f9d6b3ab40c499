//! What happened in a turn, as programs hand it over.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// One turn: what was said and done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// The model that answered.
    #[serde(default)]
    pub model: Option<String>,
    /// Whose API it was called through.
    #[serde(default)]
    pub provider: Option<String>,
    /// What the provider says it cost.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// Why the model stopped.
    #[serde(default)]
    pub stop_reason: Option<String>,
    /// The turn before; `None` means the session's latest.
    #[serde(default)]
    pub parent_turn_id: Option<String>,
    /// Makes a retry safe.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// What a provider says a turn cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Of those read, how many came from the cache.
    pub cached_input_tokens: u64,
    /// Of those read, how many were put into the cache.
    pub cache_write_tokens: u64,
    /// Of those written, how many were reasoning.
    pub reasoning_tokens: u64,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Whose it is.
    pub role: MessageRole,
    /// What caused it.
    #[serde(default)]
    pub source: Option<String>,
    /// What it says.
    pub content: MessageContent,
    /// For a tool's message, the call it answers.
    #[serde(default)]
    pub tool_call_id: Option<String>,
}

/// Whose a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageRole {
    /// The operator's.
    System,
    /// The developer's.
    Developer,
    /// The user's.
    User,
    /// The model's.
    Assistant,
    /// A tool's.
    Tool,
}

/// Text, or blocks of several kinds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "`content` must be text or a list of blocks (`type`: text, tool_call, tool_result, …)"
)]
pub enum MessageContent {
    /// Plain text.
    Text(String),
    /// Blocks in order.
    Blocks(Vec<Block>),
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Block {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// Its media type.
        media_type: String,
        /// Its bytes in base64.
        #[serde(default)]
        data: Option<String>,
        /// Where it is.
        #[serde(default)]
        url: Option<String>,
    },
    /// A recording.
    Audio {
        /// Its media type.
        media_type: String,
        /// Its bytes in base64.
        #[serde(default)]
        data: Option<String>,
        /// Where it is.
        #[serde(default)]
        url: Option<String>,
    },
    /// A document.
    Document {
        /// Its media type.
        media_type: String,
        /// Its bytes in base64.
        #[serde(default)]
        data: Option<String>,
        /// Where it is.
        #[serde(default)]
        url: Option<String>,
    },
    /// The model calls a tool.
    ToolCall {
        /// Names the call.
        id: String,
        /// The tool.
        name: String,
        /// What it is given.
        arguments: serde_json::Value,
    },
    /// What a tool returned.
    ToolResult {
        /// The call it answers.
        tool_call_id: String,
        /// What it returned.
        content: String,
        /// Whether it failed.
        #[serde(default)]
        is_error: bool,
    },
    /// What the model thought.
    Thinking {
        /// The thought.
        text: String,
        /// The provider's seal on it.
        #[serde(default)]
        signature: Option<String>,
    },
}

impl Turn {
    /// Reads a turn from JSON; `name` stands for it in complaints.
    pub fn from_json(name: &str, text: &str) -> Result<Self, Error> {
        serde_json::from_str(text).map_err(|error| {
            Error::input(format!("{name}: {error}"))
                .hint("a turn is `{\"messages\":[{\"role\":\"user\",\"content\":\"…\"}]}`")
        })
    }
}

impl Message {
    /// Calls `each` with every piece of text in the message, tool arguments
    /// and results among them.
    pub fn each_text(&self, mut each: impl FnMut(&str)) {
        match &self.content {
            MessageContent::Text(text) => each(text),
            MessageContent::Blocks(blocks) => {
                for block in blocks {
                    match block {
                        Block::Text { text } | Block::Thinking { text, .. } => each(text),
                        Block::ToolCall { arguments, .. } => each(&arguments.to_string()),
                        Block::ToolResult { content, .. } => each(content),
                        Block::Image { .. } | Block::Audio { .. } | Block::Document { .. } => {}
                    }
                }
            }
        }
    }
}
