//! ChatGPT: the export of a user's data, a zip file with `conversations.json`.
//!
//! A conversation is a tree: an edited question or a regenerated answer is
//! another child. It becomes a loom, and `current_node` its saved path `current`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use contexture_store::{Author, TreeMode};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::ImportError;
use crate::exported::{
    Branching, Entries, Export, TreeMessage, connect, is_conversations, lenient, time,
};
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
            let Some((tree, unknown)) = conversation.read() else {
                return Ok(false);
            };
            for node in unknown {
                writer.unknown_part(NAME, &name, node.get().as_bytes())?;
            }
            tree.write(writer, now)?;
            Ok(true)
        })
    }
}

const EXPORT: Export = Export {
    source: NAME,
    field: "mapping",
    other_field: "chat_messages",
    other_advice: "for an export of claude.ai, use the source `claude`",
};

/// A field is read on its own, so that one of another type does not hide the
/// others.
type Field<'a> = Option<&'a RawValue>;

#[derive(Deserialize)]
struct Conversation<'a> {
    #[serde(borrow)]
    title: Field<'a>,
    #[serde(borrow)]
    create_time: Field<'a>,
    #[serde(borrow)]
    mapping: Entries<'a>,
    #[serde(borrow)]
    current_node: Field<'a>,
    #[serde(borrow)]
    conversation_id: Field<'a>,
    #[serde(borrow)]
    id: Field<'a>,
}

#[derive(Deserialize)]
struct MappedNode<'a> {
    #[serde(borrow)]
    message: Field<'a>,
    #[serde(borrow)]
    parent: Field<'a>,
    #[serde(borrow)]
    children: Field<'a>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    author: Field<'a>,
    #[serde(borrow)]
    create_time: Field<'a>,
    #[serde(borrow)]
    content: Field<'a>,
    #[serde(borrow)]
    metadata: Field<'a>,
}

impl<'a> Conversation<'a> {
    /// Returns the conversation, and the nodes that are not understood. Returns
    /// `None` if the conversation has no id.
    fn read(self) -> Option<(Branching, Vec<&'a RawValue>)> {
        let id: String = lenient(self.conversation_id).or_else(|| lenient(self.id))?;
        let mut parents: HashMap<String, Option<String>> = HashMap::new();
        let mut parents_by_child: HashMap<String, String> = HashMap::new();
        let mut found: Vec<TreeMessage> = Vec::new();
        let mut unknown = Vec::new();
        // The nodes whose parent cannot be read.
        let mut lost = Vec::new();
        for (id, raw) in self.mapping.0 {
            let Ok(node) = serde_json::from_str::<MappedNode>(raw.get()) else {
                lost.push(id);
                unknown.push(raw);
                continue;
            };
            let parent: Option<String> = lenient(node.parent);
            for child in lenient::<Vec<Value>>(node.children).unwrap_or_default() {
                if let Value::String(child) = child {
                    parents_by_child.insert(child, id.clone());
                }
            }
            if parent.is_none() && node.parent.is_some() {
                lost.push(id.clone());
            }
            parents.insert(id.clone(), parent.clone());
            let Some(message) = node.message else {
                continue;
            };
            match read_message(message) {
                ReadMessage::Unknown => unknown.push(raw),
                ReadMessage::Empty => {}
                ReadMessage::Text(message) => found.push(TreeMessage {
                    id,
                    parent,
                    ..message
                }),
            }
        }
        // The parent of such a node is the node that lists it as a child.
        for id in lost {
            let parent = parents_by_child.get(&id).cloned();
            parents.insert(id, parent);
        }
        for message in &mut found {
            if message.parent.is_none() {
                message.parent = parents.get(&message.id).cloned().flatten();
            }
        }
        let current = lenient(self.current_node);
        let current = connect(&mut found, &parents, current.as_ref());
        let title = lenient(self.title).filter(|title: &String| !title.trim().is_empty());
        let tree = Branching {
            id: format!("{NAME}:{id}"),
            mode: TreeMode::Dialogue,
            title,
            created_at: time(self.create_time),
            messages: found,
            current,
        };
        Some((tree, unknown))
    }
}

/// A message of the export.
enum ReadMessage {
    /// A message without an id and a parent.
    Text(TreeMessage),
    /// A message without text, or one that is hidden.
    Empty,
    /// The message is not understood.
    Unknown,
}

fn read_message(raw: &RawValue) -> ReadMessage {
    let Ok(message) = serde_json::from_str::<Message>(raw.get()) else {
        return ReadMessage::Unknown;
    };
    let mut shown = match message.content {
        None => String::new(),
        Some(raw) => match serde_json::from_str(raw.get()) {
            Ok(value) => content(&value),
            Err(_) => return ReadMessage::Unknown,
        },
    };
    let author: Value = lenient(message.author).unwrap_or_default();
    let metadata: Value = lenient(message.metadata).unwrap_or_default();
    for attachment in attachments(&metadata, &shown) {
        if !shown.is_empty() {
            shown.push_str("\n\n");
        }
        shown.push_str(&attachment);
    }
    let role = author.get("role").and_then(Value::as_str);
    let name = author.get("name").and_then(Value::as_str);
    let is_hidden = metadata.get("is_visually_hidden_from_conversation");
    let is_hidden = is_hidden.and_then(Value::as_bool) == Some(true);
    if shown.trim().is_empty() || is_hidden && role == Some("system") {
        return ReadMessage::Empty;
    }
    let model = metadata.get("model_slug").and_then(Value::as_str);
    ReadMessage::Text(TreeMessage {
        id: String::new(),
        parent: None,
        author: match role {
            Some("user" | "system") => Author::Human,
            _ => Author::Model,
        },
        text: match (role, name) {
            (Some("tool"), Some(name)) => format!("[{name}]\n{shown}"),
            (Some("tool"), None) => format!("[tool]\n{shown}"),
            _ => shown,
        },
        at: time(message.create_time),
        model: model
            .filter(|_| role == Some("assistant"))
            .map(str::to_owned),
        bookmarked: false,
    })
}

/// Returns the attached files that the content does not show, as text.
fn attachments(metadata: &Value, shown: &str) -> Vec<String> {
    let list = metadata.get("attachments").and_then(Value::as_array);
    let mut found = Vec::new();
    for attachment in list.into_iter().flatten() {
        let text = |name: &str| attachment.get(name).and_then(Value::as_str);
        let id = text("id").filter(|id| !id.is_empty());
        if id.is_some_and(|id| shown.contains(id)) {
            continue;
        }
        let parts = [text("name"), text("mime_type").or(text("mimeType"))];
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        found.push(match parts.is_empty() {
            true => format!("[attachment {attachment}]"),
            false => format!("[attachment {}]", parts.join(" ")),
        });
    }
    found
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
            let parts: Vec<String> = match content.get("parts") {
                None | Some(Value::Null) => Vec::new(),
                Some(Value::Array(parts)) => parts.iter().map(part).collect(),
                Some(one) => vec![part(one)],
            };
            let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
            parts.collect::<Vec<_>>().join("\n\n")
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
