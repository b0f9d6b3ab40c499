//! Claude: the export of a user's data from claude.ai, a zip file with
//! `conversations.json`.
//!
//! Newer exports give the parent of each message, so that a conversation is a
//! tree. In older ones the messages follow each other.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use contexture_store::{Author, TreeMode};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::ImportError;
use crate::exported::{Branching, Export, TreeMessage, connect, is_conversations, lenient, time};
use crate::file::SourceFile;
use crate::format::{Environment, Format};
use crate::writer::Writer;

/// The format of exports from claude.ai.
pub(crate) struct ClaudeExport;

const NAME: &str = "claude";

/// The id of the missing parent of the first message.
const NO_PARENT: &str = "00000000-0000-4000-8000-000000000000";

impl Format for ClaudeExport {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "claude.ai export"
    }

    fn places(&self, _: &Environment) -> Vec<PathBuf> {
        // An export has no default directory.
        Vec::new()
    }

    fn has_places(&self) -> bool {
        false
    }

    fn is_transcript(&self, path: &Path) -> bool {
        is_conversations(path)
    }

    fn read(&self, file: &mut SourceFile<'_>, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        let (now, name) = (file.now, file.name.clone());
        EXPORT.read(file, writer, |raw, writer| {
            let Ok(conversation) = serde_json::from_str::<Conversation>(raw) else {
                return Ok(false);
            };
            let (tree, unknown) = conversation.read();
            for message in unknown {
                writer.unknown_part(NAME, &name, message.get().as_bytes())?;
            }
            tree.write(writer, now)?;
            Ok(true)
        })
    }
}

const EXPORT: Export = Export {
    source: NAME,
    field: "chat_messages",
    other_field: "mapping",
    other_advice: "for an export of ChatGPT, use the source `chatgpt`",
};

/// A field is read on its own, so that one of another type does not hide the
/// others.
type Field<'a> = Option<&'a RawValue>;

#[derive(Deserialize)]
struct Conversation<'a> {
    uuid: String,
    #[serde(borrow)]
    name: Field<'a>,
    #[serde(borrow)]
    created_at: Field<'a>,
    #[serde(borrow)]
    current_leaf_message_uuid: Field<'a>,
    #[serde(borrow)]
    chat_messages: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct ChatMessage<'a> {
    uuid: String,
    #[serde(borrow)]
    sender: Field<'a>,
    #[serde(borrow)]
    text: Field<'a>,
    #[serde(borrow)]
    content: Field<'a>,
    #[serde(borrow)]
    created_at: Field<'a>,
    #[serde(borrow)]
    parent_message_uuid: Field<'a>,
    #[serde(borrow)]
    attachments: Field<'a>,
    #[serde(borrow)]
    files: Field<'a>,
}

impl<'a> Conversation<'a> {
    /// Returns the conversation, and the messages that are not understood.
    fn read(self) -> (Branching, Vec<&'a RawValue>) {
        let mut parents: HashMap<String, Option<String>> = HashMap::new();
        let mut messages: Vec<TreeMessage> = Vec::new();
        let mut unknown = Vec::new();
        let mut has_parents = false;
        for raw in self.chat_messages {
            let Ok(message) = serde_json::from_str::<ChatMessage>(raw.get()) else {
                unknown.push(raw);
                continue;
            };
            let parent: Option<String> = lenient(message.parent_message_uuid);
            has_parents |= parent.is_some();
            let parent = parent.filter(|parent| parent != NO_PARENT);
            parents.insert(message.uuid.clone(), parent.clone());
            let Some(text) = message.shown() else {
                unknown.push(raw);
                continue;
            };
            let sender: Option<String> = lenient(message.sender);
            messages.push(TreeMessage {
                text,
                author: match sender.as_deref() {
                    Some("human") => Author::Human,
                    _ => Author::Model,
                },
                parent,
                at: time(message.created_at),
                model: None,
                bookmarked: false,
                id: message.uuid,
            });
        }
        if !has_parents {
            let mut last: Option<String> = None;
            for message in &mut messages {
                message.parent = last.replace(message.id.clone());
            }
        }
        let last = messages.last().map(|last| last.id.clone());
        let current = lenient(self.current_leaf_message_uuid);
        let current = connect(&mut messages, &parents, current.as_ref()).or(last);
        let tree = Branching {
            id: format!("{NAME}:{}", self.uuid),
            mode: TreeMode::Dialogue,
            title: lenient(self.name).filter(|name: &String| !name.trim().is_empty()),
            created_at: time(self.created_at),
            messages,
            current,
        };
        (tree, unknown)
    }
}

impl ChatMessage<'_> {
    /// Returns the message as text. Returns `None` if its content is not
    /// understood, and the message has no text either.
    fn shown(&self) -> Option<String> {
        let content = self.content.map_or(Ok(Value::Null), |content| {
            serde_json::from_str(content.get())
        });
        let is_read = content.is_ok();
        let blocks = match content.unwrap_or_default() {
            Value::Null => Vec::new(),
            Value::Array(blocks) => blocks,
            other => vec![other],
        };
        let has_blocks = blocks.iter().any(|it| it.is_object() || it.is_string());
        let mut parts: Vec<String> = blocks.iter().map(block_text).collect();
        let text = lenient(self.text).filter(|text: &String| !text.trim().is_empty());
        let is_empty = parts.iter().all(|part| part.trim().is_empty());
        match text {
            Some(text) if is_empty || !has_blocks => parts = vec![text],
            None if !is_read => return None,
            _ => {}
        }
        for list in [self.attachments, self.files] {
            let files = match lenient(list).unwrap_or_default() {
                Value::Null => Vec::new(),
                Value::Array(files) => files,
                other => vec![other],
            };
            parts.extend(files.iter().map(attachment_text));
        }
        parts.retain(|part| !part.trim().is_empty());
        Some(parts.join("\n\n"))
    }
}

fn block_text(block: &Value) -> String {
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    match text("type") {
        Some("text") => text("text").unwrap_or_default().to_owned(),
        Some("thinking") => {
            format!("[thinking]\n{}", text("thinking").unwrap_or_default())
        }
        Some("tool_use") => {
            let input = block.get("input").unwrap_or(&Value::Null);
            format!("[call of {}] {input}", text("name").unwrap_or_default())
        }
        Some("tool_result") => {
            let content = block.get("content").map(result_text).unwrap_or_default();
            format!(
                "[result of {}]\n{content}",
                text("name").unwrap_or_default()
            )
        }
        _ => match block {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        },
    }
}

fn attachment_text(file: &Value) -> String {
    let text = |name: &str| file.get(name).and_then(Value::as_str);
    let name = text("file_name").or(file.as_str()).unwrap_or("file");
    match text("extracted_content") {
        Some(content) => format!("[attachment {name}]\n{content}"),
        None => format!("[attachment {name}]"),
    }
}

fn result_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let text = |item: &Value| item.get("text").and_then(Value::as_str).map(str::to_owned);
            let texts: Vec<String> = items.iter().filter_map(text).collect();
            texts.join("\n\n")
        }
        other => other.to_string(),
    }
}
