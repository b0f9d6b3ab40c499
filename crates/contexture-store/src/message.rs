//! Messages of a turn and their blocks: text, media, tool calls and results.

use std::borrow::Cow;
use std::fmt;

use contexture_core::{Media, MediaKind, MediaSource};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// One message of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a message: an object with `role` and `content`"
)]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::message))]
pub struct Message {
    /// The role of the author.
    pub role: MessageRole,
    /// The cause of the message. Default: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The content: text, or a list of blocks.
    pub content: MessageContent,
    /// For role `tool`: the id of the call that the message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// For role `tool`: whether the tool failed. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Data about the message that is stored with it, such as hashes of the
    /// parts of a system prompt or the event of a user message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_json: Option<Value>,
}

/// The role of a message's author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MessageRole {
    /// Instructions of the operator.
    System,
    /// Instructions of the developer.
    Developer,
    /// A message of the user.
    User,
    /// A message of the model.
    Assistant,
    /// A result of a tool.
    Tool,
}

impl MessageRole {
    /// Returns the role's name.
    pub fn name(self) -> &'static str {
        match self {
            MessageRole::System => "system",
            MessageRole::Developer => "developer",
            MessageRole::User => "user",
            MessageRole::Assistant => "assistant",
            MessageRole::Tool => "tool",
        }
    }
}

/// The cause of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(rename = "MessageSource"))]
pub enum Source {
    /// A person wrote it.
    Human,
    /// A rule fired.
    Trigger,
    /// Another agent sent it.
    Agent,
    /// An external system sent it.
    Webhook,
    /// A schedule started it.
    Cron,
    /// Any other event.
    Event,
}

/// Text, or a list of blocks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MessageContent {
    /// Plain text.
    Text(String),
    /// Blocks in order.
    Blocks(Vec<Block>),
}

impl MessageContent {
    /// Returns the content as blocks.
    pub fn blocks(&self) -> Vec<Cow<'_, Block>> {
        match self {
            MessageContent::Text(text) => vec![Cow::Owned(Block::Text { text: text.clone() })],
            MessageContent::Blocks(blocks) => blocks.iter().map(Cow::Borrowed).collect(),
        }
    }

    /// Returns how many bytes it holds.
    pub fn bytes(&self) -> usize {
        match self {
            MessageContent::Text(text) => text.len(),
            MessageContent::Blocks(blocks) => blocks.iter().map(Block::bytes).sum(),
        }
    }
}

// By hand, so that what is wrong inside a block is said, and not only that
// neither form fits.
impl<'de> Deserialize<'de> for MessageContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = MessageContent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or a list of blocks")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(MessageContent::Text(text.to_owned()))
            }

            fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Self::Value, E> {
                Ok(MessageContent::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut blocks = Vec::with_capacity(list.size_hint().unwrap_or(0).min(1024));
                while let Some(block) = list.next_element()? {
                    blocks.push(block);
                }
                Ok(MessageContent::Blocks(blocks))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Block {
    /// A text block.
    Text {
        /// The text of the block.
        text: String,
    },
    /// An image, given by `data` or `url`.
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::media))]
    Image {
        /// The media type, such as `image/png`.
        media_type: String,
        /// The bytes of the image in base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// The URL of the image.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    },
    /// An audio recording, given by `data` or `url`.
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::media))]
    Audio {
        /// The media type, such as `audio/wav`.
        media_type: String,
        /// The bytes of the recording in base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// The URL of the recording.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    },
    /// A document, given by `data` or `url`.
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::media))]
    Document {
        /// The media type, such as `application/pdf`.
        media_type: String,
        /// The bytes of the document in base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// The URL of the document.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    },
    /// A tool call of the model.
    ToolCall {
        /// The id of the call, unique in the turn.
        #[cfg_attr(
            feature = "schema",
            schemars(with = "contexture_core::schema::NotBlank")
        )]
        id: String,
        /// The name of the tool.
        #[cfg_attr(
            feature = "schema",
            schemars(with = "contexture_core::schema::NotBlank")
        )]
        name: String,
        /// The arguments of the call.
        #[cfg_attr(feature = "schema", schemars(with = "serde_json::Map<String, Value>"))]
        arguments: Value,
    },
    /// A result of a tool.
    ToolResult {
        /// The id of the call that the result answers.
        tool_call_id: String,
        /// The output of the tool.
        content: String,
        /// Whether the tool failed. Default: false.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// Reasoning of the model.
    Thinking {
        /// The reasoning text.
        text: String,
        /// The provider's signature of the reasoning text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
}

impl Block {
    /// Returns the picture, recording or document that the block is, if it is
    /// one and says where its bytes are.
    pub fn media(&self) -> Option<Media> {
        let (kind, media_type, data, url) = match self {
            Block::Image {
                media_type,
                data,
                url,
            } => (MediaKind::Image, media_type, data, url),
            Block::Audio {
                media_type,
                data,
                url,
            } => (MediaKind::Audio, media_type, data, url),
            Block::Document {
                media_type,
                data,
                url,
            } => (MediaKind::Document, media_type, data, url),
            _ => return None,
        };
        let source = match (data, url) {
            (Some(data), None) => MediaSource::Data(data.clone()),
            (None, Some(url)) => MediaSource::Url(url.clone()),
            _ => return None,
        };
        Some(Media {
            kind,
            media_type: media_type.clone(),
            source,
        })
    }

    /// Returns how many bytes the block holds.
    pub fn bytes(&self) -> usize {
        match self {
            Block::Text { text } | Block::Thinking { text, .. } => text.len(),
            Block::Image { data, url, .. }
            | Block::Audio { data, url, .. }
            | Block::Document { data, url, .. } => {
                let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
                length(data) + length(url)
            }
            Block::ToolCall {
                name, arguments, ..
            } => name.len() + arguments.to_string().len(),
            Block::ToolResult { content, .. } => content.len(),
        }
    }
}

impl Message {
    /// Returns the message as blocks. The text of a tool's message that names
    /// its call is the result of that call.
    pub fn blocks(&self) -> Vec<Cow<'_, Block>> {
        match (&self.content, &self.tool_call_id) {
            (MessageContent::Text(text), Some(call)) if self.role == MessageRole::Tool => {
                vec![Cow::Owned(Block::ToolResult {
                    tool_call_id: call.clone(),
                    content: text.clone(),
                    is_error: self.is_error,
                })]
            }
            (MessageContent::Blocks(blocks), Some(call)) if self.role == MessageRole::Tool => {
                // Texts beside the id of a call are its result, and media go
                // with it.
                let texts: Vec<&str> = blocks
                    .iter()
                    .filter_map(|block| match block {
                        Block::Text { text } => Some(text.as_str()),
                        _ => None,
                    })
                    .collect();
                let others = blocks
                    .iter()
                    .filter(|block| !matches!(block, Block::Text { .. }));
                let answers = blocks
                    .iter()
                    .any(|block| matches!(block, Block::ToolResult { .. }));
                let result = (!answers || !texts.is_empty()).then(|| {
                    Cow::Owned(Block::ToolResult {
                        tool_call_id: call.clone(),
                        content: texts.join("\n\n"),
                        is_error: self.is_error,
                    })
                });
                result
                    .into_iter()
                    .chain(others.map(Cow::Borrowed))
                    .collect()
            }
            (content, _) => content.blocks(),
        }
    }

    /// Returns how many bytes the message holds.
    pub fn bytes(&self) -> usize {
        self.content.bytes()
    }

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
