//! [`Part`]: what kind of content a block is, for providers that treat it
//! specially.
//!
//! Text needs no part. Tool calls, tool results, thinking, media and tool
//! definitions have one, which the provider's format reads.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::native::Native;

/// The kind of a block's content, for the kinds that providers represent
/// separately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Part {
    /// Plain text.
    #[default]
    Text,
    /// A tool that the model may call. The text is a JSON object with its
    /// `description` and its `parameters`.
    Tool {
        /// The tool's name.
        name: Arc<str>,
    },
    /// A tool call of the model. The text is the JSON of the arguments.
    ToolCall {
        /// The id of the call.
        id: Arc<str>,
        /// The name of the tool.
        name: Arc<str>,
    },
    /// The result of a tool. The text is the result.
    ToolResult {
        /// The id of the call that the result answers.
        id: Arc<str>,
        /// The name of the tool.
        name: Arc<str>,
        /// Whether the tool failed.
        is_error: bool,
    },
    /// The model's reasoning. Providers accept it unchanged or not at all.
    Thinking {
        /// The provider's signature of the reasoning.
        signature: Arc<str>,
    },
    /// A picture, a recording or a document. The text describes it.
    Media(Arc<Media>),
    /// A block that only its own provider understands. The text shows its JSON
    /// with long encrypted values left out; the provider gets the bytes.
    Provider(Arc<Native>),
}

/// An image, a recording or a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Media {
    /// The kind of media.
    pub kind: MediaKind,
    /// The media type, such as `image/png`.
    pub media_type: String,
    /// The bytes, or the URL of the bytes.
    #[serde(flatten)]
    pub source: MediaSource,
}

/// The kind of a medium, as providers distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MediaKind {
    /// A picture.
    Image,
    /// A recording.
    Audio,
    /// A document, such as a PDF.
    Document,
}

impl MediaKind {
    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            MediaKind::Image => "image",
            MediaKind::Audio => "audio",
            MediaKind::Document => "document",
        }
    }
}

/// The bytes of media, or the URL of the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MediaSource {
    /// The bytes in base64.
    Data(String),
    /// The URL of the bytes.
    Url(String),
}

impl Part {
    /// Returns the attributes that identify the part in the text form.
    pub fn attributes(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let (first, second, third) = match self {
            Part::Text => (None, None, None),
            Part::Tool { name } => (Some(("tool", &**name)), None, None),
            Part::ToolCall { id, name } => (Some(("call", &**id)), Some(("tool", &**name)), None),
            Part::ToolResult { id, name, is_error } => (
                Some(("call", &**id)),
                Some(("tool", &**name)),
                is_error.then_some(("error", "true")),
            ),
            // The signature is of no use in the text form; providers receive
            // it.
            Part::Thinking { .. } => (Some(("thinking", "true")), None, None),
            Part::Media(media) => (
                Some((media.kind.name(), media.media_type.as_str())),
                None,
                None,
            ),
            Part::Provider(native) => (Some(("provider", &*native.provider)), None, None),
        };
        [first, second, third].into_iter().flatten()
    }
}
