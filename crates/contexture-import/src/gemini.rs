//! Gemini CLI: `~/.gemini/tmp/PROJECT/chats/session-TIME-ID.jsonl`, or `.json` of
//! older versions.
//!
//! A row is a message, a change of the session's data (`$set`), or a rewind
//! (`$rewindTo`), which removes a message and all after it. A message that comes
//! again with the same id replaces the first.

use std::path::{Path, PathBuf};
use std::time::Duration;

use contexture_core::Usage;
use contexture_store::{
    Block, Message, MessageRole, NewSession, NewTurn, StopReason, TurnError, TurnStatus,
};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::error::ImportError;
use crate::exported::cut_label;
use crate::file::{Rest, SourceFile};
use crate::format::{Environment, Format};
use crate::lines::Line;
use crate::messages::{message, text, title};
use crate::writer::{TurnRef, Writer};

/// The format of Gemini CLI.
pub(crate) struct GeminiCli;

const NAME: &str = "gemini";

/// The largest file of the older form that is read, in bytes.
const MAX_FILE: u64 = 512 << 20;

impl Format for GeminiCli {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Gemini CLI"
    }

    fn places(&self, environment: &Environment) -> Vec<PathBuf> {
        let configured = environment.variable("GEMINI_CLI_HOME").map(Path::to_owned);
        let home = configured.or_else(|| environment.home.clone());
        home.map(|home| home.join(".gemini/tmp"))
            .into_iter()
            .collect()
    }

    fn is_transcript(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let in_chats = path.components().any(|part| part.as_os_str() == "chats");
        let is_json = name.ends_with(".jsonl") || name.ends_with(".json");
        in_chats && is_json && (name.starts_with("session-") || name.ends_with(".jsonl"))
    }

    fn read(&self, file: &mut SourceFile<'_>, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        let mut chat = Chat::default();
        if file.path.extension().is_some_and(|it| it == "json") {
            let bytes = file.bytes(MAX_FILE)?;
            let whole: Map<String, Value> = serde_json::from_slice(&bytes)
                .map_err(|error| file.refuse(format!("is not a chat of Gemini CLI: {error}")))?;
            chat.set(&whole, file, writer)?;
            file.held = chat.write(file, file.rest, writer)?;
            file.new_offset = file.size();
            return Ok(());
        }
        let mut lines = file.lines()?;
        let failed = |error| ImportError::file(file.path, error);
        while let Some(line) = lines.next().map_err(failed)? {
            let (offset, bytes) = match line {
                Line::Text { offset, bytes } => (offset, bytes),
                Line::TooLong { .. } => {
                    writer.counts.too_long += 1;
                    continue;
                }
            };
            let row: Option<Map<String, Value>> = serde_json::from_slice(bytes).ok();
            let is_read = match row {
                None => false,
                Some(row) => chat.row(row, file, writer)?,
            };
            if !is_read {
                writer.unknown(NAME, &file.name, offset, bytes)?;
            }
        }
        file.held = chat.write(file, file.rest, writer)?;
        file.new_offset = lines.offset();
        Ok(())
    }
}

struct ChatMessage {
    id: String,
    timestamp: Option<Timestamp>,
    kind: String,
    content: Option<Value>,
    model: Option<String>,
    tool_calls: Vec<ToolCall>,
    thoughts: Vec<Thought>,
    tokens: Option<Value>,
    // Whether every part of the message is understood.
    is_whole: bool,
}

struct ToolCall {
    id: Option<String>,
    name: Option<String>,
    args: Option<Value>,
    result: Option<Value>,
    status: Option<String>,
}

struct Thought {
    subject: Option<String>,
    description: Option<String>,
}

impl ChatMessage {
    /// Reads a message. A field of another type is left out. Returns `None` if
    /// the message has no id or no type.
    fn read(value: &Value) -> Option<Self> {
        let mut is_whole = true;
        let mut list = |name: &str| {
            let (items, odd): (Vec<&Value>, Vec<&Value>) = match value.get(name) {
                None | Some(Value::Null) => (Vec::new(), Vec::new()),
                Some(Value::Array(items)) => items.iter().partition(|item| item.is_object()),
                Some(other) => (Vec::new(), vec![other]),
            };
            is_whole &= odd.is_empty();
            items
        };
        let tool_calls = list("toolCalls").into_iter().map(|call| ToolCall {
            id: text_field(call, "id"),
            name: text_field(call, "name"),
            args: present(call, "args"),
            result: present(call, "result"),
            status: text_field(call, "status"),
        });
        let tool_calls = tool_calls.collect();
        let thoughts = list("thoughts").into_iter().map(|thought| Thought {
            subject: text_field(thought, "subject"),
            description: text_field(thought, "description"),
        });
        let thoughts = thoughts.collect();
        Some(Self {
            id: text_field(value, "id")?,
            timestamp: text_field(value, "timestamp").and_then(|time| time.parse().ok()),
            kind: text_field(value, "type")?,
            content: present(value, "content"),
            model: text_field(value, "model"),
            tool_calls,
            thoughts,
            tokens: present(value, "tokens"),
            is_whole,
        })
    }

    /// Returns true if the message is understood completely.
    fn is_known(&self) -> bool {
        let kinds = ["user", "gemini", "info", "warning", "error"];
        self.is_whole && kinds.contains(&self.kind.as_str())
    }
}

fn text_field(value: &Value, name: &str) -> Option<String> {
    Some(value.get(name)?.as_str()?.to_owned())
}

/// Returns a field unless it is null.
fn present(value: &Value, name: &str) -> Option<Value> {
    value.get(name).filter(|field| !field.is_null()).cloned()
}

#[derive(Default)]
struct Chat {
    id: Option<String>,
    kind: Option<String>,
    started: Option<Timestamp>,
    messages: Vec<ChatMessage>,
}

impl Chat {
    /// Applies a row. Returns false if it is not understood.
    fn row(
        &mut self,
        row: Map<String, Value>,
        file: &SourceFile<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<bool, ImportError> {
        if let Some(Value::Object(fields)) = row.get("$set") {
            self.set(fields, file, writer)?;
            return Ok(true);
        }
        if let Some(Value::String(id)) = row.get("$rewindTo") {
            if let Some(at) = self.messages.iter().position(|one| one.id == *id) {
                // Removed messages become a branch of their own.
                self.write(file, Rest::default(), writer)?;
                self.messages.truncate(at);
            }
            return Ok(true);
        }
        if row.contains_key("sessionId") {
            self.set(&row, file, writer)?;
            return Ok(true);
        }
        let Some(message) = ChatMessage::read(&Value::Object(row)) else {
            return Ok(false);
        };
        let is_known = message.is_known();
        self.put(message);
        Ok(is_known)
    }

    fn put(&mut self, message: ChatMessage) {
        match self.messages.iter_mut().find(|one| one.id == message.id) {
            Some(one) => *one = message,
            None => self.messages.push(message),
        }
    }

    /// Changes the data of the session. A message in it that is not understood
    /// is stored as it is.
    fn set(
        &mut self,
        fields: &Map<String, Value>,
        file: &SourceFile<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        self.id = text("sessionId").map(str::to_owned).or(self.id.take());
        self.kind = text("kind").map(str::to_owned).or(self.kind.take());
        let started = text("startTime").and_then(|time| time.parse().ok());
        self.started = self.started.or(started);
        let mut unknown = |value: &Value| {
            let raw = value.to_string();
            writer.unknown_part(NAME, &file.name, raw.as_bytes())
        };
        match fields.get("messages") {
            None | Some(Value::Null) => {}
            Some(Value::Array(messages)) => {
                self.messages.clear();
                for value in messages {
                    let message = ChatMessage::read(value);
                    if !message.as_ref().is_some_and(ChatMessage::is_known) {
                        unknown(value)?;
                    }
                    message.into_iter().for_each(|message| self.put(message));
                }
            }
            Some(other) => unknown(other)?,
        }
        Ok(())
    }

    /// Records the messages as turns. Existing turns are not recorded again.
    /// Returns how long the file must be unchanged before its end can be recorded,
    /// if that is held back.
    fn write(
        &self,
        file: &SourceFile<'_>,
        rest: Rest,
        writer: &mut Writer<'_>,
    ) -> Result<Option<Duration>, ImportError> {
        let mut held = None;
        let last_row_at = self.messages.iter().rev().find_map(|one| one.timestamp);
        let rest = rest.since(last_row_at);
        let stem = file.path.file_stem().unwrap_or_default().to_string_lossy();
        let id = self.id.as_deref().unwrap_or(&stem);
        let label = cut_label(&format!("{NAME}:{id}"));
        let start = self.started.unwrap_or(file.now);
        let mut head: Option<TurnRef> = None;
        let mut at = start;
        let mut waiting: Vec<Message> = Vec::new();
        let mut is_created = false;
        let mut create = |writer: &mut Writer<'_>| {
            if std::mem::replace(&mut is_created, true) {
                return Ok(());
            }
            let new = NewSession {
                label: label.clone(),
                task: self.title(),
                ..NewSession::default()
            };
            writer.session(new, None, start)
        };
        // The latest answer gets its calls and their results later.
        let last = self.messages.iter().rposition(|one| one.kind == "gemini");
        let last = last.filter(|last| last + 1 == self.messages.len());
        for (i, one) in self.messages.iter().enumerate() {
            if last == Some(i) && !rest.allows(false, &mut held) {
                waiting.clear();
                break;
            }
            at = one.timestamp.unwrap_or(at);
            match one.kind.as_str() {
                "user" => waiting.extend(one.user()),
                "gemini" => {
                    create(writer)?;
                    let turn = one.turn(std::mem::take(&mut waiting));
                    head = writer.turn(&label, head, turn, at)?;
                }
                "error" => {
                    create(writer)?;
                    let shown = shown(one.content.as_ref());
                    let mut messages = std::mem::take(&mut waiting);
                    messages.push(text(MessageRole::System, shown.as_str()));
                    let turn = NewTurn {
                        messages,
                        provider: Some("gemini".to_owned()),
                        error: Some(TurnError {
                            kind: contexture_store::ErrorKind::Unknown,
                            message: shown,
                        }),
                        ..NewTurn::default()
                    };
                    head = writer.turn(&label, head, turn, at)?;
                }
                _ => {
                    let shown = shown(one.content.as_ref());
                    if !shown.trim().is_empty() {
                        waiting.push(text(MessageRole::System, shown));
                    }
                }
            }
        }
        let is_said = waiting.iter().any(|one| one.role == MessageRole::User);
        if file.with_tail && is_said && rest.allows(false, &mut held) {
            create(writer)?;
            let turn = NewTurn {
                messages: waiting,
                status: Some(TurnStatus::Pending),
                ..NewTurn::default()
            };
            head = writer.turn(&label, head, turn, at)?;
        }
        if head.is_some() {
            writer.head(&label, head, "imported", at)?;
        }
        Ok(held)
    }

    fn title(&self) -> Option<String> {
        let first = self.messages.iter().find(|one| one.kind == "user")?;
        title(&shown(first.content.as_ref()))
    }
}

impl ChatMessage {
    fn user(&self) -> Option<Message> {
        let mut blocks = Vec::new();
        match &self.content {
            Some(Value::Array(parts)) => {
                for part in parts {
                    blocks.push(match (part.get("text").and_then(Value::as_str), part) {
                        (Some(text), _) => Block::text(text),
                        (None, Value::String(text)) => Block::text(text.as_str()),
                        (None, part) => {
                            media(part).unwrap_or_else(|| Block::text(part.to_string()))
                        }
                    });
                }
            }
            content => blocks.push(Block::text(shown(content.as_ref()))),
        }
        blocks.retain(|block| block.bytes() > 0);
        (!blocks.is_empty()).then(|| message(MessageRole::User, blocks))
    }

    /// Returns the turn of an answer, with the results of its calls.
    fn turn(&self, mut messages: Vec<Message>) -> NewTurn {
        let mut blocks = Vec::new();
        for thought in &self.thoughts {
            let subject = thought.subject.as_deref().unwrap_or_default();
            let description = thought.description.as_deref().unwrap_or_default();
            blocks.push(Block::Thinking {
                text: format!("{subject}\n{description}").trim().to_owned(),
                signature: None,
                native: None,
            });
        }
        let said = shown(self.content.as_ref());
        if !said.trim().is_empty() {
            blocks.push(Block::text(said));
        }
        let mut results = Vec::new();
        for (i, call) in self.tool_calls.iter().enumerate() {
            let id = call.id.clone().filter(|id| !id.trim().is_empty());
            let id = id.unwrap_or_else(|| format!("{}-{i}", self.id));
            let arguments = call.args.clone().filter(Value::is_object);
            blocks.push(Block::ToolCall {
                id: id.clone(),
                name: call.name.clone().unwrap_or_else(|| "tool".to_owned()),
                arguments: arguments.unwrap_or_else(|| Value::Object(Map::new())),
                native: None,
            });
            if let Some(result) = &call.result {
                results.push(Block::ToolResult {
                    tool_call_id: id,
                    content: result_text(result),
                    is_error: matches!(call.status.as_deref(), Some("error" | "cancelled")),
                    native: None,
                });
            }
        }
        let calls = !self.tool_calls.is_empty();
        if !blocks.is_empty() {
            messages.push(message(MessageRole::Assistant, blocks));
        }
        if !results.is_empty() {
            messages.push(message(MessageRole::Tool, results));
        }
        NewTurn {
            messages,
            model: self.model.clone().filter(|model| !model.trim().is_empty()),
            provider: Some("gemini".to_owned()),
            usage: self.tokens.as_ref().and_then(usage),
            stop_reason: Some(match calls {
                true => StopReason::ToolUse,
                false => StopReason::EndTurn,
            }),
            ..NewTurn::default()
        }
    }
}

fn usage(tokens: &Value) -> Option<Usage> {
    let number = |name: &str| tokens.get(name).and_then(Value::as_u64).unwrap_or(0);
    let input = tokens.get("input")?.as_u64()?;
    Some(Usage {
        input_tokens: input.saturating_add(number("tool")),
        output_tokens: number("output").saturating_add(number("thoughts")),
        cached_input_tokens: number("cached").min(input),
        cache_write_tokens: 0,
        reasoning_tokens: number("thoughts"),
    })
}

/// Returns content as text: a text, or parts.
fn shown(content: Option<&Value>) -> String {
    match content {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Vec<String> = parts.iter().map(|part| shown(Some(part))).collect();
            texts.join("\n")
        }
        Some(other) => match other.get("text").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => other.to_string(),
        },
    }
}

fn media(part: &Value) -> Option<Block> {
    let data = part.get("inlineData")?;
    let media_type = data.get("mimeType")?.as_str()?.to_owned();
    let bytes = Some(data.get("data")?.as_str()?.to_owned());
    let native = None;
    Some(match media_type.split('/').next() {
        Some("image") => Block::Image {
            media_type,
            data: bytes,
            url: None,
            native,
        },
        Some("audio") => Block::Audio {
            media_type,
            data: bytes,
            url: None,
            native,
        },
        _ => Block::Document {
            media_type,
            data: bytes,
            url: None,
            native,
        },
    })
}

/// Returns the result of a call as text.
fn result_text(result: &Value) -> String {
    let response = |part: &Value| {
        let response = part.get("functionResponse")?.get("response")?;
        let output = response.get("output").or(response.get("error"));
        Some(match output {
            Some(Value::String(text)) => text.clone(),
            _ => response.to_string(),
        })
    };
    match result {
        Value::Array(parts) => {
            let texts: Vec<String> = parts
                .iter()
                .map(|part| response(part).unwrap_or_else(|| shown(Some(part))))
                .collect();
            texts.join("\n")
        }
        other => response(other).unwrap_or_else(|| shown(Some(other))),
    }
}
