//! An assembled request in Contexture's own form.
//!
//! The form has the system prompt, the history, the current message, the tools
//! and the budget as JSON, with the report. The command prints it with
//! `--format json`, and HTTP returns it unless the request sets another format.

use std::ops::{Deref, DerefMut};

use contexture_core::{
    Block, MediaKind, MediaSource, Native, Part, RawJson, Role, Tokens, Trust, markup,
};
use contexture_engine::assembled::bare;
use contexture_engine::{Concept, Report};
use contexture_history::compaction::Compacted;
use contexture_loom::LoomSummary;
use contexture_providers::{Format, Refused, Sampling};
use contexture_store::{AgentRole, TurnId};
use contexture_tokens::Provider;
use serde::Serialize;
use serde_json::{Value, json};

/// An assembled request and its report: that of the engine, with the details of
/// the built-in sources.
#[derive(Debug, Clone)]
pub struct Assembled(pub(crate) contexture_engine::Assembled);

impl Deref for Assembled {
    type Target = contexture_engine::Assembled;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Assembled {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Assembled {
    /// Returns the engine's own request.
    pub fn into_inner(self) -> contexture_engine::Assembled {
        self.0
    }

    /// Returns the request in a form, as bytes to send.
    pub fn render(&self, format: Format) -> Result<String, Refused> {
        match format {
            Format::Json => Ok(format!("{:#}\n", self.to_json())),
            format => self.0.render(format),
        }
    }

    /// Renders the request like [`render`](Self::render), but JSON without
    /// white space between its elements, for programs.
    pub fn render_compact(&self, format: Format) -> Result<String, Refused> {
        match format {
            Format::Json => Ok(self.to_json().to_string()),
            format => self.0.render_compact(format),
        }
    }

    /// Returns the use of the path through a loom. `None` if the request has no
    /// loom.
    pub fn loom(&self) -> Option<&LoomSummary> {
        self.details.get()
    }

    /// Returns the compaction that made room, or `None` if there was none.
    pub fn compacted(&self) -> Option<&Compacted> {
        self.details.get()
    }

    /// Returns the document that is sent, where it is one and not a
    /// conversation.
    fn document(&self) -> Option<String> {
        let mut text = String::new();
        markup::write_document(&mut text, self.layout.blocks());
        self.layout.is_document().then_some(text)
    }

    /// Returns the request in Contexture's own form, as JSON.
    pub fn to_json(&self) -> Value {
        json!(self.form())
    }

    /// Returns the request in Contexture's own form.
    pub fn form(&self) -> AssembledForm<'_> {
        let used = |blocks: &[Block]| -> Tokens { blocks.iter().map(|block| block.tokens).sum() };
        // A document is not a message.
        let document = self.document();
        let current = document.is_none().then(|| CurrentMessage {
            role: "user",
            content: bare(&self.layout.current, self.layout.mark),
            parts: self.layout.current.iter().map(MessagePart::of).collect(),
        });
        AssembledForm {
            system_prompt: bare(&self.layout.system, self.layout.mark),
            history: messages(&self.layout.history),
            current_message: current,
            document,
            tools: self.layout.system.iter().filter_map(tool).collect(),
            model: &self.model.name,
            provider: self.model.provider,
            model_config: ModelConfig {
                max_output_tokens: self.prompt().max_output,
                sampling: Sampling {
                    max_tokens: None,
                    ..self.sampling.clone()
                },
            },
            token_budget: TokenBudget {
                model_limit: self.budget.window(),
                reserve_response: self.budget.reserve_response(),
                reserve_tools: self.budget.reserve_tools(),
                available: self.budget.available(),
                used: UsedTokens {
                    system_prompt: used(&self.layout.system),
                    history: used(&self.layout.history),
                    event: used(&self.layout.current),
                    total: self.report.budget.used,
                },
                remaining: self.budget.available() - self.report.budget.used,
                allocation: AllocatedTokens {
                    workspace: self.used_by(Concept::Workspace),
                    persona: self.used_by(Concept::Persona),
                    history: self.used_by(Concept::History),
                    memory: self.used_by(Concept::Memory),
                    event: self.used_by(Concept::Event),
                },
            },
            session_label: self.session_label.as_deref(),
            parent_turn_id: self.parent_turn_id,
            role: self.role,
            toolset_name: self.toolset_name.as_deref(),
            permissions_granted: &self.permissions_granted,
            source_event_id: self.source_event_id.as_deref(),
            workspace_path: &self.workspace_path,
            loom: self.loom(),
            truncation: Truncation {
                truncated: self.report.included.iter().any(|row| row.truncated)
                    || self.loom().is_some_and(|loom| loom.truncated),
                items_cut: (self.report.included.iter())
                    .filter(|row| row.truncated)
                    .count(),
                items_dropped: self.report.excluded.len(),
                compacted: self.compacted(),
            },
            snapshot: self.snapshot.as_deref(),
            context_json: &self.context_json,
            report: &self.report,
        }
    }
}

/// An assembled request in Contexture's own format, with its report.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Assembled"))]
pub struct AssembledForm<'a> {
    /// The system prompt as one text.
    system_prompt: String,
    /// The earlier messages, oldest first.
    history: Vec<HistoryMessage<'a>>,
    /// The current user message. Null for a document.
    current_message: Option<CurrentMessage<'a>>,
    /// The document that the model continues. Null for a conversation.
    document: Option<String>,
    /// The tools that the model can call, each with `name`, `description` and
    /// `parameters`.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<contexture_engine::schema::Tool>")
    )]
    tools: Vec<Value>,
    /// The model that the request is for.
    model: &'a str,
    /// The provider whose API the model is called through.
    provider: Provider,
    /// The sampling settings of the model.
    model_config: ModelConfig,
    /// The token budget and its use.
    token_budget: TokenBudget,
    /// The label of the session.
    session_label: Option<&'a str>,
    /// The head of the session. Send this id as `parent_turn_id` of the turn
    /// that answers the request.
    parent_turn_id: Option<TurnId>,
    /// The agent's role.
    role: Option<AgentRole>,
    /// The name of the toolset that the tools came from.
    toolset_name: Option<&'a str>,
    /// The permissions of the agent.
    permissions_granted: &'a [String],
    /// The id of the event that the request answers.
    source_event_id: Option<&'a str>,
    /// The root directory that all paths are relative to.
    workspace_path: &'a str,
    /// The use of the path through a loom tree. Null without a tree.
    loom: Option<&'a LoomSummary>,
    /// The items that were cut or dropped.
    truncation: Truncation<'a>,
    /// The hash under which the request was saved. Null if it was not saved.
    snapshot: Option<&'a str>,
    /// Data to record with the answer: hashes of the parts of the system
    /// prompt, and the event's context.
    context_json: &'a Value,
    /// The report of every candidate.
    report: &'a Report,
}

/// An earlier message.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct HistoryMessage<'a> {
    /// The role of the author.
    role: Role,
    /// The id of the turn and the position of the message in the turn.
    id: String,
    /// The trust level of the content.
    trust: Trust,
    /// The tokens of the message.
    tokens: Tokens,
    /// The content of the message.
    content: HistoryContent<'a>,
}

/// Text, or a list of blocks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum HistoryContent<'a> {
    /// Plain text.
    Text(String),
    /// Blocks in order.
    Blocks(Vec<HistoryBlock<'a>>),
}

/// A part of an earlier message.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
enum HistoryBlock<'a> {
    /// A text block.
    Text {
        /// The text of the block.
        text: &'a str,
        /// The block in its provider's own form.
        #[serde(skip_serializing_if = "Option::is_none")]
        native: Option<&'a Native>,
    },
    /// A tool that the model can call.
    Tool {
        /// The name of the tool.
        name: &'a str,
    },
    /// A tool call of the model.
    ToolCall {
        /// The id of the call.
        id: &'a str,
        /// The name of the tool.
        name: &'a str,
        /// The arguments of the call: an object, or the text that the model wrote
        /// if it is not a JSON object.
        arguments: Value,
        /// The block in its provider's own form.
        #[serde(skip_serializing_if = "Option::is_none")]
        native: Option<&'a Native>,
    },
    /// A result of a tool.
    ToolResult {
        /// The id of the call that the result answers.
        tool_call_id: &'a str,
        /// The output of the tool.
        content: &'a str,
        /// Whether the tool failed.
        is_error: bool,
        /// The block in its provider's own form.
        #[serde(skip_serializing_if = "Option::is_none")]
        native: Option<&'a Native>,
    },
    /// Reasoning of the model.
    Thinking {
        /// The reasoning text.
        text: &'a str,
        /// The provider's signature of the reasoning text.
        signature: &'a str,
        /// The block in its provider's own form.
        #[serde(skip_serializing_if = "Option::is_none")]
        native: Option<&'a Native>,
    },
    /// A block that only its own provider understands.
    Provider {
        /// The API that the block belongs to.
        provider: &'a str,
        /// The block as JSON, byte for byte.
        #[cfg_attr(
            feature = "schema",
            schemars(with = "contexture_core::schema::message::RawObject")
        )]
        raw: &'a RawJson,
    },
    /// An image.
    Image(MediaForm<'a>),
    /// An audio recording.
    Audio(MediaForm<'a>),
    /// A document.
    Document(MediaForm<'a>),
}

/// A picture, a recording or a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
struct MediaForm<'a> {
    /// The media type, such as `image/png`.
    media_type: &'a str,
    /// The location of the bytes.
    #[serde(flatten)]
    source: &'a MediaSource,
}

/// The current user message.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct CurrentMessage<'a> {
    /// The role of the message: always `user`.
    role: &'static str,
    /// The whole message as one text.
    content: String,
    /// The parts of the message.
    parts: Vec<MessagePart<'a>>,
}

/// A part of the current user message.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct MessagePart<'a> {
    /// The role that the content is sent as.
    role: Role,
    /// The id of the part.
    id: &'a str,
    /// The path, if the part is a file.
    path: Option<&'a str>,
    /// The layer of the part.
    layer: &'a str,
    /// The trust level of the content.
    trust: Trust,
    /// The tokens of the part.
    tokens: Tokens,
    /// The content of the part.
    content: &'a str,
}

/// The sampling settings of a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ModelConfig {
    /// The maximum number of tokens of the response. Null for no limit.
    max_output_tokens: Option<Tokens>,
    #[serde(flatten)]
    sampling: Sampling,
}

/// The token budget of a request and its use by position and by kind of
/// content, in tokens. `report.budget` has the use by layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct TokenBudget {
    /// The size of the context window in tokens.
    model_limit: Tokens,
    /// The tokens reserved for the response.
    reserve_response: Tokens,
    /// The tokens reserved for tools.
    reserve_tools: Tokens,
    /// The tokens that the request can use.
    available: Tokens,
    /// The tokens that the request uses, by position.
    used: UsedTokens,
    /// The tokens that remain of `available`.
    remaining: Tokens,
    /// The tokens that the request uses, by kind of content.
    allocation: AllocatedTokens,
}

/// The tokens that a request uses, by position.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct UsedTokens {
    /// The tokens of the system prompt.
    system_prompt: Tokens,
    /// The tokens of earlier messages.
    history: Tokens,
    /// The tokens of the current user message.
    event: Tokens,
    /// The tokens of the whole request, including separators.
    total: Tokens,
}

/// The tokens that a request uses, by kind of content.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct AllocatedTokens {
    /// The tokens of files, tools and the environment.
    workspace: Tokens,
    /// The tokens of the persona and the task.
    persona: Tokens,
    /// The tokens of earlier messages.
    history: Tokens,
    /// The tokens of recalled memory.
    memory: Tokens,
    /// The tokens of the current user message.
    event: Tokens,
}

/// The items that were cut or dropped to fit the budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Truncation<'a> {
    /// Whether an item was cut.
    truncated: bool,
    /// The number of items that were cut.
    items_cut: usize,
    /// The number of items that were dropped.
    items_dropped: usize,
    /// The compaction that made room. Null if there was none.
    compacted: Option<&'a Compacted>,
}

impl<'a> MessagePart<'a> {
    fn of(block: &'a Block) -> Self {
        Self {
            role: block.role,
            id: &block.id,
            path: block.path.as_deref(),
            layer: &block.layer,
            trust: block.trust,
            tokens: block.tokens,
            content: block.text(),
        }
    }
}

fn tool(block: &Block) -> Option<Value> {
    let Part::Tool { name } = &block.part else {
        return None;
    };
    let mut tool = json!({"name": name});
    if let Value::Object(definition) = parsed(block) {
        for (key, value) in definition {
            tool[key] = value;
        }
    }
    Some(tool)
}

/// Returns the JSON that a block's text is.
fn parsed(block: &Block) -> Value {
    serde_json::from_str(block.text()).unwrap_or(Value::Null)
}

/// Returns history as messages with blocks, as they were recorded.
fn messages(blocks: &[Block]) -> Vec<HistoryMessage<'_>> {
    let name = |block: &Block| -> String {
        let id = &*block.id;
        let message = id.rsplit_once('.').map_or(id, |(message, _)| message);
        message.to_owned()
    };
    let mut messages = Vec::new();
    let is_one = |a: &Block, b: &Block| a.role == b.role && name(a) == name(b);
    for run in blocks.chunk_by(|a, b| b.joins(a) || is_one(a, b)) {
        let Some(first) = run.first() else { continue };
        // A document is returned in a field of its own.
        if first.role == Role::Document {
            continue;
        }
        let joined = run.windows(2).all(|pair| pair[1].joins(&pair[0]));
        let content = match run {
            run if joined && first.part == Part::Text && first.native.is_none() => {
                let texts: Vec<&str> = run.iter().map(Block::text).collect();
                HistoryContent::Text(texts.join("\n\n"))
            }
            run => HistoryContent::Blocks(run.iter().map(HistoryBlock::of).collect()),
        };
        let tokens: Tokens = run.iter().map(|block| block.tokens).sum();
        messages.push(HistoryMessage {
            role: first.role,
            id: name(first),
            trust: first.trust,
            tokens,
            content,
        });
    }
    messages
}

impl<'a> HistoryBlock<'a> {
    fn of(block: &'a Block) -> Self {
        let text = block.text();
        let native = block.native.as_deref();
        match &block.part {
            Part::Text => HistoryBlock::Text { text, native },
            Part::Tool { name } => HistoryBlock::Tool { name },
            Part::ToolCall { id, name } => HistoryBlock::ToolCall {
                id,
                name,
                arguments: match parsed(block) {
                    Value::Null => Value::String(text.to_owned()),
                    arguments => arguments,
                },
                native,
            },
            Part::ToolResult { id, is_error, .. } => HistoryBlock::ToolResult {
                tool_call_id: id,
                content: text,
                is_error: *is_error,
                native,
            },
            Part::Thinking { signature } => HistoryBlock::Thinking {
                text,
                signature,
                native,
            },
            Part::Provider(native) => HistoryBlock::Provider {
                provider: &native.provider,
                raw: &native.raw,
            },
            Part::Media(media) => {
                let form = MediaForm {
                    media_type: &media.media_type,
                    source: &media.source,
                };
                match media.kind {
                    MediaKind::Image => HistoryBlock::Image(form),
                    MediaKind::Audio => HistoryBlock::Audio(form),
                    MediaKind::Document => HistoryBlock::Document(form),
                }
            }
        }
    }
}
