//! ChatGPT: the export of a user's data, a zip file with `conversations.json`.
//!
//! A conversation is a tree: an edited question or a regenerated answer is
//! another child. It becomes a loom, and `current_node` its saved path `current`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use contexture_store::{Author, TreeMode};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::error::ImportError;
use crate::exported::{TreeMessage, conversations, is_conversations, tree};
use crate::file::SourceFile;
use crate::format::{Environment, Format};
use crate::writer::Writer;

/// The format of ChatGPT exports.
pub(crate) struct ChatGpt;

const NAME: &str = "chatgpt";

impl Format for ChatGpt {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "ChatGPT export"
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
                Ok(conversation) if conversation.mapping.is_some() => conversation,
                _ => return Ok(writer.unknown(NAME, &file.name, number, raw.as_bytes())?),
            };
            let Some(document) = conversation.tree() else {
                return Ok(());
            };
            writer.tree_or_skip(&document, now)?;
            Ok(())
        })?;
        if number > 0 && writer.counts.unknown == number {
            return Err(file.refuse(
                "has no conversation with `mapping`; for an export of claude.ai, use the source \
                 `claude`",
            ));
        }
        file.new_offset = file.size();
        Ok(())
    }
}

#[derive(Deserialize)]
struct Conversation {
    title: Option<String>,
    create_time: Option<f64>,
    // In the order of the file.
    mapping: Option<serde_json::Map<String, Value>>,
    current_node: Option<String>,
    conversation_id: Option<String>,
    id: Option<String>,
}

#[derive(Deserialize)]
struct MappedNode {
    message: Option<Message>,
    parent: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    author: Option<MessageAuthor>,
    create_time: Option<f64>,
    content: Option<Value>,
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct MessageAuthor {
    role: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    model_slug: Option<String>,
    is_visually_hidden_from_conversation: Option<bool>,
}

impl Conversation {
    fn tree(self) -> Option<contexture_store::TreeDocument> {
        let id = self.conversation_id.or(self.id)?;
        let mut parents: HashMap<String, Option<String>> = HashMap::new();
        let mut found: Vec<TreeMessage> = Vec::new();
        for (id, node) in self.mapping? {
            let node: MappedNode = match serde_json::from_value(node) {
                Ok(node) => node,
                Err(_) => continue,
            };
            parents.insert(id.clone(), node.parent.clone());
            let Some(message) = node.message else {
                continue;
            };
            let role = message.author.as_ref().and_then(|it| it.role.as_deref());
            let name = message.author.as_ref().and_then(|it| it.name.as_deref());
            let text = message.content.as_ref().map(content).unwrap_or_default();
            let metadata = message.metadata.unwrap_or_default();
            let is_hidden = metadata.is_visually_hidden_from_conversation == Some(true);
            if text.trim().is_empty() || is_hidden && role == Some("system") {
                continue;
            }
            let text = match (role, name) {
                (Some("tool"), Some(name)) => format!("[{name}]\n{text}"),
                (Some("tool"), None) => format!("[tool]\n{text}"),
                _ => text,
            };
            found.push(TreeMessage {
                id,
                parent: node.parent,
                author: match role {
                    Some("user" | "system") => Author::Human,
                    _ => Author::Model,
                },
                text,
                at: message.create_time.and_then(time),
                model: metadata.model_slug.filter(|_| role == Some("assistant")),
                bookmarked: false,
            });
        }
        let kept: std::collections::HashSet<String> =
            found.iter().map(|message| message.id.clone()).collect();
        // A node without content is left out, and its children follow the node
        // before it.
        let nearest = |start: Option<&String>| {
            let mut at = start.cloned();
            for _ in 0..=parents.len() {
                match at {
                    Some(id) if kept.contains(&id) => return Some(id),
                    Some(id) => at = parents.get(&id).cloned().flatten(),
                    None => return None,
                }
            }
            None
        };
        for message in &mut found {
            message.parent = nearest(message.parent.as_ref());
        }
        let current = nearest(self.current_node.as_ref());
        tree(
            &format!("{NAME}:{id}"),
            TreeMode::Dialogue,
            self.title.filter(|title| !title.trim().is_empty()),
            self.create_time.and_then(time),
            found,
            current.as_deref(),
        )
    }
}

/// Reads Unix seconds.
fn time(seconds: f64) -> Option<Timestamp> {
    Timestamp::from_millisecond((seconds * 1000.0) as i64).ok()
}

/// Returns the content of a message as text.
fn content(content: &Value) -> String {
    let text = |name: &str| {
        content
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let kind = text("content_type");
    match kind {
        "text" | "multimodal_text" => {
            let parts = content.get("parts").and_then(Value::as_array);
            let parts = parts.into_iter().flatten().map(part);
            let parts: Vec<String> = parts.filter(|part| !part.trim().is_empty()).collect();
            parts.join("\n\n")
        }
        "code" => {
            let language = text("language");
            let language = match language {
                "unknown" => "",
                language => language,
            };
            format!("```{language}\n{}\n```", text("text"))
        }
        "thoughts" => {
            let thoughts = content.get("thoughts").and_then(Value::as_array);
            let thoughts = thoughts.into_iter().flatten().map(|thought| {
                let text = |name: &str| thought.get(name).and_then(Value::as_str);
                let summary = text("summary").unwrap_or_default();
                format!("{summary}\n{}", text("content").unwrap_or_default())
            });
            let thoughts: Vec<String> = thoughts.collect();
            format!("[thoughts]\n{}", thoughts.join("\n\n").trim())
        }
        "reasoning_recap" => text("content").to_owned(),
        "execution_output" | "system_error" | "tether_quote" | "computer_output" => {
            text("text").to_owned()
        }
        "tether_browsing_display" => text("result").to_owned(),
        "model_editable_context" | "user_editable_context" => String::new(),
        _ => match content.get("text").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => content.to_string(),
        },
    }
}

fn part(part: &Value) -> String {
    if let Some(text) = part.as_str() {
        return text.to_owned();
    }
    let text = |name: &str| part.get(name).and_then(Value::as_str);
    let kind = text("content_type").unwrap_or("part");
    if let Some(text) = text("text") {
        return text.to_owned();
    }
    match text("asset_pointer") {
        Some(pointer) => format!("[{kind} {pointer}]"),
        None => format!("[{kind}]"),
    }
}
