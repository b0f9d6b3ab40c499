//! Messages of a turn and their blocks: text, media, tool calls, results, and
//! blocks in a provider's own form.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::block_text::BlockText;
use crate::native::{Native, RawJson};
use crate::part::{Media, MediaKind, MediaSource};

/// One message of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a message: an object with `role` and `content`"
)]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::message::message))]
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

    /// Returns true for the roles of instructions: system and developer.
    pub fn is_instruction(self) -> bool {
        matches!(self, MessageRole::System | MessageRole::Developer)
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
            MessageContent::Text(text) => vec![Cow::Owned(Block::text(text))],
            MessageContent::Blocks(blocks) => blocks.iter().map(Cow::Borrowed).collect(),
        }
    }

    /// Returns the size of the content in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            MessageContent::Text(text) => text.len(),
            MessageContent::Blocks(blocks) => blocks.iter().map(Block::bytes).sum(),
        }
    }
}

// Written by hand, so that the error describes the problem inside a block, and
// not only that neither form matches.
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
///
/// A block that was read from a provider's own body has its `native` form if
/// it has fields that the block cannot represent, such as a signature. A
/// request to the same provider then holds those bytes; other providers get the
/// block as its fields describe it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    deny_unknown_fields,
    remote = "Self"
)]
pub enum Block {
    /// A text block.
    Text {
        /// The text of the block.
        text: BlockText,
        /// The block in its provider's own form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Native>,
    },
    /// An image, given by `data` or `url`.
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::message::media))]
    Image {
        /// The media type, such as `image/png`.
        media_type: String,
        /// The bytes of the image in base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// The URL of the image.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// The block in its provider's own form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Native>,
    },
    /// An audio recording, given by `data` or `url`.
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::message::media))]
    Audio {
        /// The media type, such as `audio/wav`.
        media_type: String,
        /// The bytes of the recording in base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// The URL of the recording.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// The block in its provider's own form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Native>,
    },
    /// A document, given by `data` or `url`.
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::message::media))]
    Document {
        /// The media type, such as `application/pdf`.
        media_type: String,
        /// The bytes of the document in base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// The URL of the document.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// The block in its provider's own form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Native>,
    },
    /// A tool call of the model.
    ToolCall {
        /// The id of the call, unique in the turn.
        #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NotBlank"))]
        id: String,
        /// The name of the tool.
        #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NotBlank"))]
        name: String,
        /// The arguments of the call: an object, or the text that the model wrote
        /// if it is not a JSON object.
        #[cfg_attr(
            feature = "schema",
            schemars(with = "crate::schema::message::Arguments")
        )]
        arguments: Value,
        /// The block in its provider's own form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Native>,
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
        /// The block in its provider's own form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Native>,
    },
    /// Reasoning of the model.
    Thinking {
        /// The reasoning text.
        text: String,
        /// The provider's signature of the reasoning text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// The block in its provider's own form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Native>,
    },
    /// A block that Contexture does not interpret, in its provider's own form:
    /// encrypted reasoning, a server tool and its result, a compaction item. It
    /// is stored and sent back to its provider with the same bytes, and left out
    /// of requests to other providers.
    Provider {
        /// The API that the block belongs to, such as `anthropic` or
        /// `openai-responses`.
        #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NotBlank"))]
        provider: String,
        /// The block as JSON, byte for byte.
        #[serde(deserialize_with = "read_elsewhere")]
        #[cfg_attr(
            feature = "schema",
            schemars(with = "crate::schema::message::RawObject")
        )]
        raw: RawJson,
    },
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Block::serialize(self, serializer)
    }
}

/// Reads nothing: the bytes of this field were read before.
fn read_elsewhere<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RawJson, D::Error> {
    serde::de::IgnoredAny::deserialize(deserializer)?;
    Ok(RawJson::default())
}

/// The type of a block.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BlockType {
    Text,
    Image,
    Audio,
    Document,
    ToolCall,
    ToolResult,
    Thinking,
    Provider,
}

// Written by hand: serde reads a tagged enum into memory first, which would
// lose the bytes of content that is stored verbatim.
impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Block;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a block: an object with `type`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Block, A::Error> {
                let mut fields = Map::new();
                let mut raw: Option<RawJson> = None;
                let mut native: Option<Option<Native>> = None;
                while let Some(name) = map.next_key::<String>()? {
                    let twice = match name.as_str() {
                        // Read by itself, so that an error names the field.
                        "type" => {
                            let kind: BlockType = map.next_value()?;
                            let kind = serde_json::to_value(kind).map_err(A::Error::custom)?;
                            fields.insert(name.clone(), kind).is_some()
                        }
                        "raw" => raw.replace(map.next_value()?).is_some(),
                        "native" => native.replace(map.next_value()?).is_some(),
                        _ => fields.insert(name.clone(), map.next_value()?).is_some(),
                    };
                    if twice {
                        return Err(A::Error::custom(format!("duplicate field `{name}`")));
                    }
                }
                if raw.is_some() {
                    fields.insert("raw".to_owned(), Value::Null);
                }
                let mut block = Block::deserialize(Value::Object(fields))
                    .map_err(|error: serde_json::Error| A::Error::custom(error))?;
                if let (Block::Provider { raw: field, .. }, Some(raw)) = (&mut block, raw) {
                    *field = raw;
                }
                match (block.native_mut(), native) {
                    (Some(field), Some(native)) => *field = native,
                    (None, Some(_)) => {
                        return Err(A::Error::custom(
                            "unknown field `native`, expected `provider` or `raw`",
                        ));
                    }
                    (_, None) => {}
                }
                Ok(block)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

impl Block {
    /// Returns a block of plain text.
    pub fn text(text: impl Into<BlockText>) -> Self {
        Block::Text {
            text: text.into(),
            native: None,
        }
    }

    /// Returns the block in its provider's own form, if that is stored.
    pub fn native(&self) -> Option<&Native> {
        match self {
            Block::Text { native, .. }
            | Block::Image { native, .. }
            | Block::Audio { native, .. }
            | Block::Document { native, .. }
            | Block::ToolCall { native, .. }
            | Block::ToolResult { native, .. }
            | Block::Thinking { native, .. } => native.as_ref(),
            Block::Provider { .. } => None,
        }
    }

    /// Returns the field of the block's own form, or `None` for a block that
    /// has only its own form.
    pub fn native_mut(&mut self) -> Option<&mut Option<Native>> {
        match self {
            Block::Text { native, .. }
            | Block::Image { native, .. }
            | Block::Audio { native, .. }
            | Block::Document { native, .. }
            | Block::ToolCall { native, .. }
            | Block::ToolResult { native, .. }
            | Block::Thinking { native, .. } => Some(native),
            Block::Provider { .. } => None,
        }
    }

    /// Returns the picture, recording or document of the block. Returns `None`
    /// for other blocks, and if the block does not say where the bytes are.
    pub fn media(&self) -> Option<Media> {
        let (kind, media_type, data, url) = match self {
            Block::Image {
                media_type,
                data,
                url,
                ..
            } => (MediaKind::Image, media_type, data, url),
            Block::Audio {
                media_type,
                data,
                url,
                ..
            } => (MediaKind::Audio, media_type, data, url),
            Block::Document {
                media_type,
                data,
                url,
                ..
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

    /// Returns the size of the block in bytes.
    pub fn bytes(&self) -> usize {
        self.native().map_or(0, |native| native.raw.as_str().len()) + self.content_bytes()
    }

    fn content_bytes(&self) -> usize {
        match self {
            Block::Text { text, .. } => text.len(),
            Block::Thinking { text, .. } => text.len(),
            Block::Image { data, url, .. }
            | Block::Audio { data, url, .. }
            | Block::Document { data, url, .. } => {
                let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
                length(data) + length(url)
            }
            Block::ToolCall {
                name, arguments, ..
            } => name.len() + json_bytes(arguments),
            Block::ToolResult { content, .. } => content.len(),
            Block::Provider { raw, .. } => raw.as_str().len(),
        }
    }
}

/// Returns the size of a value as JSON, which is not written for that.
fn json_bytes(value: &Value) -> usize {
    // Brackets, and a comma between two parts.
    let around = |parts: usize| 2 + parts.saturating_sub(1);
    match value {
        Value::Null => 4,
        Value::Bool(value) => 5 - usize::from(*value),
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => json_text_bytes(text),
        Value::Array(values) => around(values.len()) + values.iter().map(json_bytes).sum::<usize>(),
        Value::Object(fields) => {
            let field =
                |(name, value): (&String, &Value)| json_text_bytes(name) + 1 + json_bytes(value);
            around(fields.len()) + fields.iter().map(field).sum::<usize>()
        }
    }
}

/// Returns the size of a text as JSON. The loops have no branches, so that they
/// handle many bytes at once.
fn json_text_bytes(text: &str) -> usize {
    let mut size = 2 + text.len();
    // A count of a part fits into a byte.
    for part in text.as_bytes().chunks(255) {
        // Such a byte is two characters, or six if it has no short form.
        let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        let is_long = |byte: u8| byte < 0x20 && !matches!(byte, 8..=10 | 12..=13);
        let (mut escaped, mut long) = (0_u8, 0_u8);
        for byte in part {
            escaped += u8::from(is_escaped(*byte));
            long += u8::from(is_long(*byte));
        }
        size += usize::from(escaped) + 4 * usize::from(long);
    }
    size
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
                    native: None,
                })]
            }
            (MessageContent::Blocks(blocks), Some(call)) if self.role == MessageRole::Tool => {
                // Texts next to the id of a call are its result, and media
                // belong to that result.
                let texts: Vec<&str> = blocks
                    .iter()
                    .filter_map(|block| match block {
                        Block::Text { text, .. } => Some(text.as_str()),
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
                        native: None,
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

    /// Returns the size of the message in bytes.
    pub fn bytes(&self) -> usize {
        self.content.bytes()
    }

    /// Calls `each` with every text in the message, including tool arguments
    /// and results.
    pub fn each_text(&self, mut each: impl FnMut(&str)) {
        match &self.content {
            MessageContent::Text(text) => each(text),
            MessageContent::Blocks(blocks) => {
                for block in blocks {
                    match block {
                        Block::Text { text, .. } => each(text),
                        Block::Thinking { text, .. } => each(text),
                        Block::ToolCall {
                            arguments: Value::String(written),
                            ..
                        } => each(written),
                        Block::ToolCall { arguments, .. } => each(&arguments.to_string()),
                        Block::ToolResult { content, .. } => each(content),
                        Block::Image { .. }
                        | Block::Audio { .. }
                        | Block::Document { .. }
                        | Block::Provider { .. } => {}
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Block, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn the_size_of_a_value_is_that_of_its_json() {
        let all: String = (0..=0x17f_u32).filter_map(char::from_u32).collect();
        let long = "a\nb\"c\\d\u{1}é".repeat(300);
        let value = serde_json::json!({
            "": [], "a\n": {}, "b": [null, true, false, 0, -12, 1.5, 1e300, u64::MAX],
            "all": all, "long": long, "nested": [[1, {"x": [""], "y": "\u{7f}\u{2028}"}]],
        });
        assert_eq!(json_bytes(&value), value.to_string().len());
    }

    #[test]
    fn an_opaque_block_keeps_its_bytes() {
        let raw = "{ \"b\" : 1.50,\n\"a\":\"\\u00e9\", \"n\": 12345678901234567890123 }";
        let json = format!("{{\"type\":\"provider\",\"provider\":\"anthropic\",\"raw\":{raw}}}");
        let block = read(&json).unwrap();
        assert_eq!(serde_json::to_string(&block).unwrap(), json);
        // The order of the fields does not matter.
        let turned = format!("{{\"raw\":{raw},\"provider\":\"anthropic\",\"type\":\"provider\"}}");
        assert_eq!(read(&turned).unwrap(), block);
        let message = format!("{{\"role\":\"assistant\",\"content\":[{json}]}}");
        let message: Message = serde_json::from_str(&message).unwrap();
        assert_eq!(message.blocks()[0].as_ref(), &block);
    }

    #[test]
    fn a_block_keeps_its_native_form() {
        let json = "{\"type\":\"tool_call\",\"id\":\"a\",\"name\":\"b\",\"arguments\":{\"n\":1},\
                    \"native\":{\"provider\":\"gemini\",\"raw\":{\"n\": 1.0}}}";
        let block = read(json).unwrap();
        assert_eq!(block.native().unwrap().raw.as_str(), "{\"n\": 1.0}");
        assert_eq!(serde_json::to_string(&block).unwrap(), json);
        // Content that was stored before there were such forms is read as
        // before.
        let old = "{\"type\":\"text\",\"text\":\"a\"}";
        assert_eq!(read(old).unwrap(), Block::text("a"));
        assert_eq!(serde_json::to_string(&Block::text("a")).unwrap(), old);
    }

    #[test]
    fn fields_of_other_blocks_are_rejected() {
        for (json, error) in [
            ("{\"type\":\"text\"}", "missing field `text`"),
            ("{\"text\":\"a\"}", "missing field `type`"),
            (
                "{\"type\":\"text\",\"text\":\"a\",\"x\":1}",
                "unknown field `x`",
            ),
            (
                "{\"type\":\"text\",\"text\":\"a\",\"raw\":{}}",
                "unknown field `raw`",
            ),
            (
                "{\"type\":\"text\",\"text\":\"a\",\"text\":\"b\"}",
                "duplicate field `text`",
            ),
            (
                "{\"type\":\"provider\",\"provider\":\"a\"}",
                "missing field `raw`",
            ),
            (
                "{\"type\":\"provider\",\"provider\":\"a\",\"raw\":{},\"native\":null}",
                "unknown field `native`",
            ),
            ("{\"type\":\"txt\"}", "unknown variant `txt`"),
            ("7", "invalid type: integer `7`, expected a block"),
        ] {
            let refused = read(json).unwrap_err();
            assert!(refused.starts_with(error), "{json}: {refused}");
        }
    }
}
