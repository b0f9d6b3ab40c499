//! Claude: the export of a user's data from claude.ai, a zip file with
//! `conversations.json`.
//!
//! Newer exports give the parent of each message, so that a conversation is a
//! tree. In older ones the messages follow each other.

use std::path::{Path, PathBuf};

use contexture_store::{Author, TreeDocument, TreeMode};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::error::ImportError;
use crate::exported::{TreeMessage, conversations, is_conversations, tree};
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

    fn is_transcript(&self, path: &Path) -> bool {
        is_conversations(path)
    }

    fn read(&self, file: &mut SourceFile<'_>, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        let mut number = 0;
        let now = file.now;
        conversations(file, |raw| {
            number += 1;
            let conversation: Result<Conversation, _> = serde_json::from_str(raw);
            let conversation = match conversation {
                Ok(conversation) => conversation,
                Err(_) => return Ok(writer.unknown(NAME, &file.name, number, raw.as_bytes())?),
            };
            if let Some(document) = conversation.tree() {
                writer.tree_or_skip(&document, now)?;
            }
            Ok(())
        })?;
        if number > 0 && writer.counts.unknown == number {
            return Err(file.refuse(
                "has no conversation with `chat_messages`; for an export of ChatGPT, use the \
                 source `chatgpt`",
            ));
        }
        file.new_offset = file.size();
        Ok(())
    }
}

#[derive(Deserialize)]
struct Conversation {
    uuid: String,
    name: Option<String>,
    created_at: Option<Timestamp>,
    current_leaf_message_uuid: Option<String>,
    chat_messages: Vec<ChatMessage>,
}

#[derive(Deserialize)]
struct ChatMessage {
    uuid: String,
    sender: Option<String>,
    text: Option<String>,
    #[serde(default)]
    content: Vec<Value>,
    created_at: Option<Timestamp>,
    parent_message_uuid: Option<String>,
    #[serde(default)]
    attachments: Vec<Attachment>,
    #[serde(default)]
    files: Vec<Attachment>,
}

#[derive(Deserialize)]
struct Attachment {
    file_name: Option<String>,
    extracted_content: Option<String>,
}

impl Conversation {
    fn tree(self) -> Option<TreeDocument> {
        let has_parents = self
            .chat_messages
            .iter()
            .any(|message| message.parent_message_uuid.is_some());
        let mut messages: Vec<TreeMessage> = Vec::new();
        for message in self.chat_messages {
            let parent = match has_parents {
                true => message.parent_message_uuid.clone(),
                false => messages.last().map(|last| last.id.clone()),
            };
            messages.push(TreeMessage {
                text: message.shown(),
                author: match message.sender.as_deref() {
                    Some("human") => Author::Human,
                    _ => Author::Model,
                },
                parent: parent.filter(|parent| parent != NO_PARENT),
                at: message.created_at,
                model: None,
                bookmarked: false,
                id: message.uuid,
            });
        }
        let last = messages.last().map(|last| last.id.clone());
        let current = self.current_leaf_message_uuid.or(last);
        tree(
            &format!("{NAME}:{}", self.uuid),
            TreeMode::Dialogue,
            self.name.filter(|name| !name.trim().is_empty()),
            self.created_at,
            messages,
            current.as_deref(),
        )
    }
}

impl ChatMessage {
    /// Returns the message as text.
    fn shown(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for block in &self.content {
            let text = |name: &str| block.get(name).and_then(Value::as_str);
            parts.push(match text("type") {
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
                _ => block.to_string(),
            });
        }
        if parts.iter().all(|part| part.trim().is_empty()) {
            parts = vec![self.text.clone().unwrap_or_default()];
        }
        for file in self.attachments.iter().chain(&self.files) {
            let name = file.file_name.as_deref().unwrap_or("file");
            parts.push(match &file.extracted_content {
                Some(content) => format!("[attachment {name}]\n{content}"),
                None => format!("[attachment {name}]"),
            });
        }
        parts.retain(|part| !part.trim().is_empty());
        parts.join("\n\n")
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
