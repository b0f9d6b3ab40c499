//! Loomsidian, a loom for Obsidian: `data.json` of the plugin.
//!
//! The file holds one tree, or a tree for each note under `state`. A node is a
//! piece of text; the text of a path is the concatenation of its nodes.

use std::path::{Path, PathBuf};

use contexture_store::{Author, TreeMode};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::ImportError;
use crate::exported::{TreeMessage, tree};
use crate::file::SourceFile;
use crate::format::{Environment, Format};
use crate::writer::Writer;

/// The format of Loomsidian.
pub(crate) struct Loomsidian;

const NAME: &str = "loomsidian";

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 30;

impl Format for Loomsidian {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Loomsidian"
    }

    fn places(&self, environment: &Environment) -> Vec<PathBuf> {
        let current = environment.current.iter();
        current
            .map(|vault| vault.join(".obsidian/plugins/loom/data.json"))
            .collect()
    }

    fn is_transcript(&self, path: &Path) -> bool {
        path.ends_with("loom/data.json")
    }

    fn read(&self, file: &mut SourceFile<'_>, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        let bytes = file.bytes(MAX_FILE)?;
        let data: Data = serde_json::from_slice(&bytes)
            .map_err(|error| file.refuse(format!("is not the data of Loomsidian: {error}")))?;
        // The vault is the directory above `.obsidian`, else the file's own.
        let mut vault = file
            .path
            .ancestors()
            .skip_while(|it| !it.ends_with(".obsidian"));
        let vault = vault.nth(1).or(file.path.parent());
        let vault = vault.and_then(Path::file_name).unwrap_or_default();
        let vault = vault.to_string_lossy().into_owned();
        let mut notes: Vec<(String, Note)> = Vec::new();
        if let Some(nodes) = data.nodes {
            let note = Note {
                nodes,
                current: data.current,
            };
            notes.push((String::new(), note));
        }
        for (name, value) in data.state.unwrap_or_default() {
            match serde_json::from_value::<Note>(value.clone()) {
                Ok(note) => notes.push((name, note)),
                Err(_) => {
                    let raw = value.to_string();
                    writer.unknown(NAME, &file.name, notes.len() as u64, raw.as_bytes())?;
                }
            }
        }
        if notes.is_empty() {
            return Err(file.refuse("has neither `nodes` nor `state` with trees"));
        }
        for (name, note) in notes {
            let mut messages = Vec::new();
            for (id, node) in &note.nodes {
                let Ok(node) = serde_json::from_value::<LoomNode>(node.clone()) else {
                    writer.counts.unknown += 1;
                    continue;
                };
                messages.push(TreeMessage {
                    id: id.clone(),
                    parent: node.parent_id,
                    author: Author::Human,
                    text: node.text,
                    at: None,
                    model: None,
                    bookmarked: node.bookmarked,
                });
            }
            let id = match name.is_empty() {
                true => format!("{NAME}:{vault}"),
                false => format!("{NAME}:{vault}/{name}"),
            };
            let title = (!name.is_empty()).then_some(name);
            let current = note.current.as_deref();
            if let Some(document) = tree(&id, TreeMode::Buffer, title, None, messages, current) {
                writer.tree_or_skip(&document, file.now)?;
            }
        }
        file.new_offset = file.size();
        Ok(())
    }
}

#[derive(Deserialize)]
struct Data {
    nodes: Option<Map<String, Value>>,
    current: Option<String>,
    state: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct Note {
    nodes: Map<String, Value>,
    current: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoomNode {
    text: String,
    parent_id: Option<String>,
    #[serde(default)]
    bookmarked: bool,
}
