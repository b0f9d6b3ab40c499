//! Loomsidian, a loom for Obsidian: `data.json` of the plugin.
//!
//! The file holds one tree, or a tree for each note under `state`. A node is a
//! piece of text; the text of a path is the concatenation of its nodes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use contexture_store::{Author, TreeMode};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::ImportError;
use crate::exported::{Branching, Entries, TreeMessage, connect, lenient};
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
        let data: Data<'_> = serde_json::from_slice(&bytes)
            .map_err(|error| file.refuse(format!("is not the data of Loomsidian: {error}")))?;
        // The vault is the directory above `.obsidian`, else the file's own.
        let mut vault = file
            .path
            .ancestors()
            .skip_while(|it| !it.ends_with(".obsidian"));
        let vault = vault.nth(1).or(file.path.parent());
        let vault = vault.and_then(Path::file_name).unwrap_or_default();
        let mut vault = vault.to_string_lossy().into_owned();
        // Another vault may have the same name. A vault that was moved keeps its
        // trees.
        let root = format!("vault {vault}");
        match writer.origin(NAME, &root)? {
            Some(other) if other != file.name && Path::new(&other).exists() => {
                let hash = blake3::hash(file.name.as_bytes()).to_hex();
                vault = format!("{vault}-{}", &hash[..8]);
            }
            Some(_) => {}
            None => writer.root(NAME, &root, &file.name)?,
        }
        let mut notes: Vec<(String, Note<'_>)> = Vec::new();
        if let Some(nodes) = data.nodes {
            match serde_json::from_str(nodes.get()) {
                Ok(nodes) => notes.push((
                    String::new(),
                    Note {
                        nodes,
                        current: data.current,
                    },
                )),
                Err(_) => writer.unknown_part(NAME, &file.name, nodes.get().as_bytes())?,
            }
        }
        if let Some(state) = data.state {
            let entries: Option<Entries<'_>> = serde_json::from_str(state.get()).ok();
            if entries.is_none() {
                writer.unknown_part(NAME, &file.name, state.get().as_bytes())?;
            }
            for (name, raw) in entries.map(|it| it.0).unwrap_or_default() {
                match serde_json::from_str::<Note>(raw.get()) {
                    Ok(note) => notes.push((name, note)),
                    Err(_) => writer.unknown_part(NAME, &file.name, raw.get().as_bytes())?,
                }
            }
        }
        if notes.is_empty() {
            writer.discard_unknown();
            return Err(file.refuse("has neither `nodes` nor `state` with trees"));
        }
        for (name, note) in notes {
            let mut parents: HashMap<String, Option<String>> = HashMap::new();
            let mut messages = Vec::new();
            for (id, raw) in note.nodes.0 {
                let node: Option<LoomNode<'_>> = serde_json::from_str(raw.get()).ok();
                let parent: Option<String> = node.as_ref().and_then(|it| lenient(it.parent_id));
                parents.insert(id.clone(), parent.clone());
                let text = node.as_ref().and_then(|it| lenient(it.text));
                let (Some(node), Some(text)) = (node, text) else {
                    writer.unknown_part(NAME, &file.name, raw.get().as_bytes())?;
                    continue;
                };
                messages.push(TreeMessage {
                    id,
                    parent,
                    author: Author::Human,
                    text,
                    at: None,
                    model: None,
                    bookmarked: lenient(node.bookmarked) == Some(true),
                });
            }
            let current = lenient(note.current);
            let current = connect(&mut messages, &parents, current.as_ref());
            let tree = Branching {
                id: match name.is_empty() {
                    true => format!("{NAME}:{vault}"),
                    false => format!("{NAME}:{vault}/{name}"),
                },
                mode: TreeMode::Buffer,
                title: (!name.is_empty()).then_some(name),
                created_at: None,
                messages,
                current,
            };
            tree.write(writer, file.now)?;
        }
        file.new_offset = file.size();
        Ok(())
    }
}

/// A field is read on its own, so that one of another type does not hide the
/// others.
type Field<'a> = Option<&'a RawValue>;

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    nodes: Field<'a>,
    #[serde(borrow)]
    current: Field<'a>,
    #[serde(borrow)]
    state: Field<'a>,
}

#[derive(Deserialize)]
struct Note<'a> {
    #[serde(borrow)]
    nodes: Entries<'a>,
    #[serde(borrow)]
    current: Field<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoomNode<'a> {
    #[serde(borrow)]
    text: Field<'a>,
    #[serde(borrow)]
    parent_id: Field<'a>,
    #[serde(borrow)]
    bookmarked: Field<'a>,
}
