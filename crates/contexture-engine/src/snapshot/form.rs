//! The form of a saved request: a root with its settings and chunks of blocks, in
//! JSON. Content and chunks are stored by their hash.

use std::sync::Arc;

use contexture_core::guard::Mark;
use contexture_core::{
    Block, ContentHash, Join, Media, MediaKind, MediaSource, Native, Part, RawJson, Role, Section,
    Text, Tokens, Trust,
};
use contexture_project::masked_json_text;
use contexture_providers::native::Api;
use contexture_providers::{Format, Sampling};
use contexture_store::{AgentRole, Blob};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{damaged, parse};
use crate::error::Error;
use crate::request::{GivenFields, GivenPart};

/// The data of a request that is not in its blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) version: u32,
    pub(super) model: String,
    pub(super) max_output: Option<u64>,
    pub(super) spare: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) continues: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) follows_stored: bool,
    #[serde(default, skip_serializing_if = "Sampling::is_unset")]
    pub(super) sampling: Sampling,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cache_key: Option<String>,
    // The definitions of tools that the model can search for, by their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deferred: Option<ContentHash>,
    // The hash of the text form, to check that it renders the same.
    pub(super) text: ContentHash,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<Agent>,
    // The fields around the conversation, if they were given in a provider's own
    // request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) given: Option<SavedFields>,
    // The mark of the boundary tags.
    pub(super) mark: Mark,
}

/// The fields of a provider's own request around the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedFields {
    pub(super) format: Format,
    // The request with an empty conversation, its secrets masked.
    pub(super) body: ContentHash,
    // The hash of that request as it was given, if it had secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unmasked: Option<ContentHash>,
    pub(super) tools: GivenPart,
    pub(super) system: GivenPart,
}

impl SavedFields {
    /// Returns the fields in the form that is saved. Their bytes become a blob,
    /// unless `known` has them.
    pub(super) fn of(
        fields: &GivenFields,
        mask_secrets: bool,
        known: Option<&SavedFields>,
        blobs: &mut Vec<Blob>,
    ) -> Self {
        let given = ContentHash::of(fields.body.as_bytes());
        let (body, unmasked) = match known {
            Some(known) if known.given() == given => (known.body, known.unmasked),
            // A tool of a remote server can have the key of that server.
            _ => match masked_json_text(&fields.body).filter(|_| mask_secrets) {
                Some(masked) => (put(masked.into_bytes(), blobs), Some(given)),
                None => (put(fields.body.as_bytes().to_vec(), blobs), None),
            },
        };
        Self {
            format: fields.api.format(),
            body,
            unmasked,
            tools: fields.tools,
            system: fields.system,
        }
    }

    /// Returns the hash of the request as it was given.
    fn given(&self) -> ContentHash {
        self.unmasked.unwrap_or(self.body)
    }

    /// Returns the fields, of which `body` are the bytes.
    pub(super) fn read(&self, body: Vec<u8>) -> Result<GivenFields, Error> {
        let api = Api::ALL.into_iter().find(|api| api.format() == self.format);
        Ok(GivenFields {
            api: api.ok_or_else(|| damaged(self.body))?,
            body: String::from_utf8(body).map_err(|_| damaged(self.body))?,
            tools: self.tools,
            system: self.system,
        })
    }

    pub(super) fn tokens(&self) -> Tokens {
        self.tools.tokens + self.system.tokens
    }
}

/// The agent that a request was made for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SnapshotAgent"))]
pub struct Agent {
    /// The role.
    pub role: AgentRole,
    /// The toolset that its tools come from.
    pub toolset_name: Option<String>,
    /// The permissions that the agent had.
    pub permissions_granted: Vec<String>,
    /// The id of the event that the request answers.
    pub source_event_id: Option<String>,
    /// Hashes of the contents of the system prompt, and the context of the
    /// event.
    pub context_json: Value,
}

#[derive(Serialize, Deserialize)]
pub(super) struct RootBlob {
    #[serde(flatten)]
    pub(super) settings: Settings,
    pub(super) chunks: Vec<ContentHash>,
}

/// One block of a saved request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SnapshotBlock"))]
pub(super) struct Entry {
    pub(super) section: Section,
    pub(super) id: Arc<str>,
    pub(super) layer: Arc<str>,
    pub(super) role: Role,
    pub(super) trust: Trust,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "SavedPart::is_text")]
    pub(super) part: SavedPart,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) native: Option<SavedNative>,
    #[serde(default, skip_serializing_if = "Join::is_apart")]
    pub(super) join: Join,
    pub(super) tokens: Tokens,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) surcharge: Tokens,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) volatile: bool,
    // Whether the block enters history when the answer is recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) recorded: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<Arc<str>>,
    pub(super) body: ContentHash,
    pub(super) bytes: u64,
}

impl Entry {
    /// Returns true if the block continues inside the tags of `previous`, as
    /// [`Block::joins`] does.
    pub(super) fn joins(&self, previous: &Entry) -> bool {
        let may = |entry: &Entry| entry.join == Join::Paragraph && entry.part.is_text();
        let names_another = self.role.shows_path() && self.path != previous.path;
        may(self)
            && may(previous)
            && self.section == previous.section
            && self.role == previous.role
            && self.role.tag().is_some()
            && !names_another
    }

    /// Returns the block with its content, of which `body` is the text. `load`
    /// returns other content of the block.
    pub(super) fn block(
        &self,
        load: &dyn Fn(ContentHash) -> Result<Vec<u8>, Error>,
        body: Vec<u8>,
    ) -> Result<Block, Error> {
        let native = |native: &SavedNative| native.read(load(native.content)?);
        let body = String::from_utf8(body).map_err(|_| damaged(self.body))?;
        let text = body.strip_suffix('\n').ok_or_else(|| damaged(self.body))?;
        let mut block = Block::new(
            Arc::clone(&self.id),
            Arc::clone(&self.layer),
            self.role,
            Text::verbatim(text),
        );
        block.join = self.join;
        block.trust = self.trust;
        block.path = self.path.clone();
        block.tokens = self.tokens;
        block.surcharge = self.surcharge;
        block.volatile = self.volatile;
        block.recorded = self.recorded;
        block.group = self.group.clone();
        block.part = match &self.part {
            SavedPart::Media { content, .. } => {
                let media: Media = parse(&load(*content)?)?;
                Part::Media(media.into())
            }
            SavedPart::Provider(saved) => Part::Provider(native(saved)?),
            part => part.shown(),
        };
        if let Some(saved) = &self.native {
            block.native = Some(native(saved)?);
        }
        Ok(block)
    }
}

pub(super) fn is_zero(n: &Tokens) -> bool {
    *n == 0
}

/// A block in a provider's own form; its bytes are content of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SnapshotNative"))]
pub(super) struct SavedNative {
    pub(super) provider: Arc<str>,
    pub(super) content: ContentHash,
}

impl SavedNative {
    /// Returns the stored form of `native`. Its bytes are added to `blobs`
    /// unless `known`, the block at the same position before, has the same.
    pub(super) fn of(native: &Native, known: Option<&Self>, blobs: &mut Vec<Blob>) -> Self {
        let bytes = native.raw.as_str().as_bytes();
        let saved = Self {
            provider: Arc::clone(&native.provider),
            content: ContentHash::of(bytes),
        };
        if known != Some(&saved) {
            put(bytes.to_vec(), blobs);
        }
        saved
    }

    pub(super) fn read(&self, bytes: Vec<u8>) -> Result<Arc<Native>, Error> {
        let raw = String::from_utf8(bytes).map_err(|_| damaged(self.content))?;
        let raw = RawJson::parse(&raw).map_err(|_| damaged(self.content))?;
        Ok(Arc::new(Native::new(Arc::clone(&self.provider), raw)))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SnapshotPart"))]
#[serde(rename_all = "snake_case")]
pub(super) enum SavedPart {
    #[default]
    Text,
    Tool {
        name: Arc<str>,
    },
    ToolCall {
        id: Arc<str>,
        name: Arc<str>,
    },
    ToolResult {
        id: Arc<str>,
        name: Arc<str>,
        is_error: bool,
    },
    Thinking {
        signature: Arc<str>,
    },
    // The medium itself is content of its own.
    Media {
        kind: MediaKind,
        media_type: Arc<str>,
        content: ContentHash,
    },
    Provider(SavedNative),
}

impl SavedPart {
    /// Returns the name of the part's kind.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            SavedPart::Text => "text",
            SavedPart::Tool { .. } => "tool",
            SavedPart::ToolCall { .. } => "tool_call",
            SavedPart::ToolResult { .. } => "tool_result",
            SavedPart::Thinking { .. } => "thinking",
            SavedPart::Media { .. } => "media",
            SavedPart::Provider(_) => "provider",
        }
    }

    /// Returns the name of the tool that it belongs to.
    pub(super) fn tool(&self) -> Option<&Arc<str>> {
        match self {
            SavedPart::Tool { name }
            | SavedPart::ToolCall { name, .. }
            | SavedPart::ToolResult { name, .. } => Some(name),
            _ => None,
        }
    }

    pub(super) fn is_text(&self) -> bool {
        *self == SavedPart::Text
    }

    /// Returns the part as shown in the text form: a medium without its bytes.
    pub(super) fn shown(&self) -> Part {
        match self.clone() {
            SavedPart::Text => Part::Text,
            SavedPart::Tool { name } => Part::Tool { name },
            SavedPart::ToolCall { id, name } => Part::ToolCall { id, name },
            SavedPart::ToolResult { id, name, is_error } => Part::ToolResult { id, name, is_error },
            SavedPart::Thinking { signature } => Part::Thinking { signature },
            SavedPart::Media {
                kind, media_type, ..
            } => Part::Media(Arc::new(Media {
                kind,
                media_type: media_type.to_string(),
                source: MediaSource::Url(String::new()),
            })),
            SavedPart::Provider(native) => {
                let raw = RawJson::default();
                Part::Provider(Arc::new(Native::new(native.provider, raw)))
            }
        }
    }

    /// Returns the stored form of `part`. The content of a medium is added to
    /// `blobs` unless `known`, the block at the same position before, has the
    /// same.
    pub(super) fn of(part: &Part, known: Option<&Self>, blobs: &mut Vec<Blob>) -> Self {
        match part.clone() {
            Part::Text => SavedPart::Text,
            Part::Tool { name } => SavedPart::Tool { name },
            Part::ToolCall { id, name } => SavedPart::ToolCall { id, name },
            Part::ToolResult { id, name, is_error } => SavedPart::ToolResult { id, name, is_error },
            Part::Thinking { signature } => SavedPart::Thinking { signature },
            Part::Media(media) => {
                let bytes = json(&*media);
                let part = SavedPart::Media {
                    kind: media.kind,
                    media_type: media.media_type.as_str().into(),
                    content: ContentHash::of(&bytes),
                };
                if known != Some(&part) {
                    put(bytes, blobs);
                }
                part
            }
            Part::Provider(native) => {
                let known = known.and_then(|known| match known {
                    SavedPart::Provider(known) => Some(known),
                    _ => None,
                });
                SavedPart::Provider(SavedNative::of(&native, known, blobs))
            }
        }
    }
}

pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    // This fails only for maps whose keys are not text.
    serde_json::to_vec(value).unwrap_or_default()
}

pub(super) fn put(bytes: Vec<u8>, blobs: &mut Vec<Blob>) -> ContentHash {
    let hash = ContentHash::of(&bytes);
    blobs.push(Blob { hash, bytes });
    hash
}
