//! An assembled request in Contexture's own form.

use std::ops::{Deref, DerefMut};

use contexture_core::{Block, MediaKind, MediaSource, Part, Role, Tokens, Trust, markup};
use contexture_engine::assembled::bare;
use contexture_engine::{Concept, Report};
use contexture_history::compaction::Compacted;
use contexture_loom::LoomSummary;
use contexture_providers::{Format, Refused, Sampling};
use contexture_store::{AgentRole, TurnId};
use contexture_tokens::Provider;
use serde::Serialize;
use serde_json::{Value, json};

/// An assembled request and its account: the engine's, with what the built-in
/// sources know of it.
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
    /// Returns the engine's part of it.
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

    /// The same without blanks between what JSON is made of: for programs.
    pub fn render_compact(&self, format: Format) -> Result<String, Refused> {
        match format {
            Format::Json => Ok(self.to_json().to_string()),
            format => self.0.render_compact(format),
        }
    }

    /// Returns what became of the path through a loom, where it is one.
    pub fn loom(&self) -> Option<&LoomSummary> {
        self.details.get()
    }

    /// Returns what was summarised to make room, if anything was.
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
        // A document is nobody's message.
        let document = self.document();
        let current = document.is_none().then(|| CurrentMessage {
            role: "user",
            content: bare(&self.layout.current),
            parts: self.layout.current.iter().map(MessagePart::of).collect(),
        });
        AssembledForm {
            system_prompt: bare(&self.layout.system),
            history: messages(&self.layout.history),
            current_message: current,
            document,
            tools: self.layout.system.iter().filter_map(tool).collect(),
            model: &self.model.name,
            provider: self.model.provider,
            model_config: ModelConfig {
                max_output_tokens: Some(self.budget.reserve_response()).filter(|&n| n > 0),
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

/// An assembled request in Contexture's own form, with its account.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Assembled"))]
pub struct AssembledForm<'a> {
    /// The system prompt, as one text.
    system_prompt: String,
    /// Earlier messages, oldest first.
    history: Vec<HistoryMessage<'a>>,
    /// What is asked now; null for a document.
    current_message: Option<CurrentMessage<'a>>,
    /// The document that the model is to go on with, where it is one and not a
    /// conversation.
    document: Option<String>,
    /// The tools that the model may call, each with its `name`, `description`
    /// and `parameters`.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<contexture_engine::schema::Tool>")
    )]
    tools: Vec<Value>,
    /// The model it is for.
    model: &'a str,
    /// Whose API the model is called through.
    provider: Provider,
    /// How the answer is drawn.
    model_config: ModelConfig,
    /// What might be spent, and on what it was.
    token_budget: TokenBudget,
    /// The session it belongs to.
    session_label: Option<&'a str>,
    /// The head of the session: the parent of the turn that answers.
    parent_turn_id: Option<TurnId>,
    /// The agent's role, where it has one.
    role: Option<AgentRole>,
    /// The set that the tools were taken from.
    toolset_name: Option<&'a str>,
    /// The names that the agent may use.
    permissions_granted: &'a [String],
    /// The event that is answered.
    source_event_id: Option<&'a str>,
    /// The directory that all paths are relative to.
    workspace_path: &'a str,
    /// What became of the path through a loom, where it is one.
    loom: Option<&'a LoomSummary>,
    /// Whether something is missing.
    truncation: Truncation<'a>,
    /// The hash that the request is kept by, if it is kept.
    snapshot: Option<&'a str>,
    /// What goes with the answer into the ledger: hashes of what went into the
    /// system prompt, and what is known about the event.
    context_json: &'a Value,
    /// One row for every candidate, and the budget.
    report: &'a Report,
}

/// An earlier message.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct HistoryMessage<'a> {
    /// The role: user or assistant.
    role: Role,
    /// Its id: the turn, and its place in it.
    id: String,
    /// How far it is to be believed.
    trust: Trust,
    /// The size in tokens.
    tokens: Tokens,
    /// The text.
    content: HistoryContent<'a>,
}

/// Text, or blocks of several kinds.
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
    /// Text.
    Text {
        /// The text.
        text: &'a str,
    },
    /// A tool that the model may call.
    Tool {
        /// The name.
        name: &'a str,
    },
    /// The model calls a tool.
    ToolCall {
        /// Names the call.
        id: &'a str,
        /// The tool.
        name: &'a str,
        /// The arguments of the call.
        arguments: Value,
    },
    /// The result of a tool call.
    ToolResult {
        /// The call it answers.
        tool_call_id: &'a str,
        /// The content of the result.
        content: &'a str,
        /// Whether it failed.
        is_error: bool,
    },
    /// The thinking of the model.
    Thinking {
        /// The thought.
        text: &'a str,
        /// The provider's seal on it.
        signature: &'a str,
    },
    /// A picture.
    Image(MediaForm<'a>),
    /// A recording.
    Audio(MediaForm<'a>),
    /// A document.
    Document(MediaForm<'a>),
}

/// A picture, a recording or a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
struct MediaForm<'a> {
    /// Its media type, such as `image/png`.
    media_type: &'a str,
    /// Where its bytes are.
    #[serde(flatten)]
    source: &'a MediaSource,
}

/// The current question or event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct CurrentMessage<'a> {
    /// The role, always `user`.
    role: &'static str,
    /// All of it, as one text.
    content: String,
    /// The parts of the message.
    parts: Vec<MessagePart<'a>>,
}

/// A part of what is asked now.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct MessagePart<'a> {
    /// The role: system, user, assistant, context and others.
    role: Role,
    /// The id of the item.
    id: &'a str,
    /// The path, if it is a file.
    path: Option<&'a str>,
    /// The name of the layer.
    layer: &'a str,
    /// How far it is to be believed.
    trust: Trust,
    /// The size in tokens.
    tokens: Tokens,
    /// The text.
    content: &'a str,
}

/// How an answer is drawn.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ModelConfig {
    /// Most tokens of the answer, when that is limited.
    max_output_tokens: Option<Tokens>,
    #[serde(flatten)]
    sampling: Sampling,
}

/// What might be spent, and on what it was.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct TokenBudget {
    /// The whole window.
    model_limit: Tokens,
    /// What is set aside for the response.
    reserve_response: Tokens,
    /// Tokens reserved for tools.
    reserve_tools: Tokens,
    /// Tokens available to the request.
    available: Tokens,
    /// Tokens that the request uses.
    used: UsedTokens,
    /// Tokens that remain.
    remaining: Tokens,
    /// Tokens by part of the request.
    allocation: AllocatedTokens,
}

/// What a request uses, by where it stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct UsedTokens {
    /// In the system prompt.
    system_prompt: Tokens,
    /// In earlier messages.
    history: Tokens,
    /// In what is asked now.
    event: Tokens,
    /// In all, with what stands between them.
    total: Tokens,
}

/// The tokens of a request by kind of content.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct AllocatedTokens {
    /// Tokens of files, tools and environment.
    workspace: Tokens,
    /// Tokens of persona, role and task.
    persona: Tokens,
    /// Earlier messages.
    history: Tokens,
    /// Recalled records.
    memory: Tokens,
    /// The current question or event.
    event: Tokens,
}

/// Whether something is missing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Truncation<'a> {
    /// Whether something was cut.
    truncated: bool,
    /// The number of items that were cut.
    items_cut: usize,
    /// The number of items that were dropped.
    items_dropped: usize,
    /// What was summarised to make room, if anything was.
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
    let text = contexture_core::guard::restore(block.text());
    serde_json::from_str(&text).unwrap_or(Value::Null)
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
        // A document stands in a field of its own.
        if first.role == Role::Document {
            continue;
        }
        let joined = run.windows(2).all(|pair| pair[1].joins(&pair[0]));
        let content = match run {
            run if joined && first.part == Part::Text => {
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
        match &block.part {
            Part::Text => HistoryBlock::Text { text },
            Part::Tool { name } => HistoryBlock::Tool { name },
            Part::ToolCall { id, name } => HistoryBlock::ToolCall {
                id,
                name,
                arguments: parsed(block),
            },
            Part::ToolResult { id, is_error, .. } => HistoryBlock::ToolResult {
                tool_call_id: id,
                content: text,
                is_error: *is_error,
            },
            Part::Thinking { signature } => HistoryBlock::Thinking { text, signature },
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
