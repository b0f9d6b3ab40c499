//! Reads exports: a JSON file, or a zip file that holds it.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::{Component, Path};

use contexture_store::{
    Author, Edge, EdgeKind, EdgeSource, MAX_LABEL_BYTES, MessageContent, Node, Preferences,
    RawResponse, SavedPath, SourceRole, Tree, TreeDocument, TreeMode,
};
use jiff::Timestamp;
use serde::Deserializer as _;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::ImportError;
use crate::file::SourceFile;

/// The largest conversation of an export, in bytes.
const MAX_CONVERSATION: u64 = 1 << 30;

/// Returns true for the file of an export that holds its conversations.
pub(crate) fn is_conversations(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("conversations") && name.ends_with(".json")
}

/// Calls `each` with every element of the list in the file `conversations.json`
/// of an export. The export is that file, or a zip file that contains it. One
/// element is in memory at a time.
///
/// A zip file with a path that leads outside is rejected.
pub(crate) fn conversations(
    file: &SourceFile<'_>,
    mut each: impl FnMut(&str) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let failed = |error| ImportError::file(file.path, error);
    let mut source = File::open(file.path).map_err(failed)?;
    let mut start = [0; 2];
    let read = source.read(&mut start).map_err(failed)?;
    source.rewind().map_err(failed)?;
    if &start[..read] != b"PK" {
        return elements(file, BufReader::new(source), &mut each);
    }
    let broken = |error: zip::result::ZipError| {
        file.refuse(format!("is not a zip file that can be read: {error}"))
    };
    let mut archive = zip::ZipArchive::new(BufReader::new(source)).map_err(broken)?;
    let mut found = Vec::new();
    for i in 0..archive.len() {
        let entry = archive.by_index_raw(i).map_err(broken)?;
        let name = entry.name().map_err(broken)?.into_owned();
        let leaves = Path::new(&name)
            .components()
            .any(|part| !matches!(part, Component::Normal(_) | Component::CurDir));
        if leaves || name.contains('\\') || entry.enclosed_name().is_none() {
            return Err(file.refuse(format!(
                "contains the path `{}`, which leads out of the archive; nothing was imported",
                name.escape_debug()
            )));
        }
        let base = name.rsplit('/').next().unwrap_or_default();
        if base.starts_with("conversations") && base.ends_with(".json") {
            found.push(i);
        }
    }
    if found.is_empty() {
        return Err(file.refuse(
            "does not contain conversations.json; give the zip file as it was downloaded",
        ));
    }
    for i in found {
        let entry = archive.by_index(i).map_err(broken)?;
        elements(file, BufReader::new(entry), &mut each)?;
    }
    Ok(())
}

/// Calls `each` with every element of a JSON list.
fn elements(
    file: &SourceFile<'_>,
    reader: impl Read,
    each: &mut impl FnMut(&str) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    struct List<'f, F>(&'f mut F, &'f mut Option<ImportError>);

    impl<'de, F: FnMut(&str) -> Result<(), ImportError>> Visitor<'de> for List<'_, F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of conversations")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
            while let Some(element) = list.next_element::<Box<RawValue>>()? {
                if element.get().len() as u64 > MAX_CONVERSATION {
                    continue;
                }
                if let Err(error) = (self.0)(element.get()) {
                    *self.1 = Some(error);
                    return Err(A::Error::custom("stopped"));
                }
            }
            Ok(())
        }
    }

    let mut failure = None;
    let mut json = serde_json::Deserializer::from_reader(reader);
    let read = json.deserialize_seq(List(each, &mut failure));
    match (failure, read) {
        (Some(failure), _) => Err(failure),
        (None, Err(error)) => Err(file.refuse(format!(
            "is not an export that can be read: {error}; give conversations.json or the zip file"
        ))),
        (None, Ok(())) => Ok(()),
    }
}

/// Returns a text as a label that the store accepts.
pub(crate) fn cut_label(label: &str) -> String {
    let mut label: String = label.chars().filter(|one| !one.is_control()).collect();
    let mut end = label.len().min(MAX_LABEL_BYTES);
    while !label.is_char_boundary(end) {
        end -= 1;
    }
    label.truncate(end);
    label.trim().to_owned()
}

/// A message of a conversation that branches.
pub(crate) struct TreeMessage {
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) author: Author,
    pub(crate) text: String,
    pub(crate) at: Option<Timestamp>,
    pub(crate) model: Option<String>,
    pub(crate) bookmarked: bool,
}

/// Makes a tree from messages. A message whose parent is missing, or is one of
/// its own descendants, is a root. Several roots follow an empty one.
///
/// `current` is the message at which the saved path `current` ends.
pub(crate) fn tree(
    id: &str,
    mode: TreeMode,
    title: Option<String>,
    created_at: Option<Timestamp>,
    messages: Vec<TreeMessage>,
    current: Option<&str>,
) -> Option<TreeDocument> {
    use std::collections::{HashMap, HashSet};

    let parents: HashMap<String, Option<String>> = messages
        .iter()
        .map(|message| (message.id.clone(), message.parent.clone()))
        .collect();
    let ends = |start: &str| {
        // A path that does not end is a circle.
        let mut seen = HashSet::new();
        let mut at = start;
        while let Some(Some(parent)) = parents.get(at) {
            if !seen.insert(at) {
                return false;
            }
            at = parent;
        }
        true
    };
    let is_root = |message: &TreeMessage| {
        let parent = message.parent.as_deref();
        parent.is_none_or(|parent| !parents.contains_key(parent)) || !ends(&message.id)
    };
    let mut roots = messages.iter().filter(|message| is_root(message));
    let first = roots.next()?;
    let has_several = roots.any(|root| root.id != first.id);
    let root = first.id.clone();
    let mut nodes = Vec::new();
    let mut edges = Vec::new();
    let mut seen = HashSet::new();
    let node_id = |message: &str| cut_label(&format!("{id}/{message}"));
    let start = created_at.unwrap_or(Timestamp::UNIX_EPOCH);
    let made_root = node_id("root");
    if has_several {
        // A tree has one root: an empty one, if there are several beginnings.
        nodes.push(Node {
            id: made_root.clone(),
            local_id: None,
            author: Author::Human,
            author_agent_id: None,
            content: MessageContent::Text(String::new()),
            edited_from: None,
            metadata: None,
            created_at: Some(start),
            raw_response: None,
        });
    }
    for message in &messages {
        if !seen.insert(message.id.clone()) {
            continue;
        }
        let node = node_id(&message.id);
        if message.id != root || has_several {
            let parent = message.parent.as_deref().unwrap_or_default();
            let is_sound = parents.contains_key(parent) && ends(&message.id);
            let parent = match is_sound {
                true => node_id(parent),
                false => made_root.clone(),
            };
            edges.push(Edge {
                id: cut_label(&format!("to {node}")),
                kind: EdgeKind::Continuation,
                sources: vec![EdgeSource {
                    node_id: parent,
                    role: SourceRole::Primary,
                }],
                target_node_id: node.clone(),
            });
        }
        nodes.push(Node {
            id: node,
            local_id: None,
            author: message.author,
            author_agent_id: None,
            content: MessageContent::Text(message.text.clone()),
            edited_from: None,
            metadata: message.bookmarked.then(|| contexture_store::Flags {
                bookmarked: true,
                ..contexture_store::Flags::default()
            }),
            // The time comes from the file, so that a second import has the
            // same result.
            created_at: Some(message.at.unwrap_or(start)),
            raw_response: message.model.clone().map(|model| RawResponse {
                model: Some(model),
                ..RawResponse::default()
            }),
        });
    }
    let current = current.filter(|current| seen.contains(*current));
    let paths = current.map(|current| SavedPath {
        name: "current".to_owned(),
        head: node_id(current),
        choices: Vec::new(),
    });
    Some(TreeDocument {
        tree: Tree {
            id: cut_label(id),
            mode,
            title,
            system_context: None,
            buffer_mode_system_context: false,
            preferences: Preferences::default(),
            created_at: Some(start),
        },
        agents: Vec::new(),
        nodes,
        edges,
        paths: paths.into_iter().collect(),
        memories: Vec::new(),
    })
}
