//! Reads exports: a JSON file, or a zip file that holds it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::{Component, Path};

use contexture_store::{
    Author, Edge, EdgeKind, EdgeSource, MAX_LABEL_BYTES, MessageContent, Node, Preferences,
    RawResponse, SavedPath, SourceRole, Store, StoreError, Tree, TreeDocument, TreeMode,
};
use jiff::Timestamp;
use serde::de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::ImportError;
use crate::fields;
use crate::file::SourceFile;
use crate::writer::Writer;

/// The largest conversation of an export, in bytes.
const MAX_CONVERSATION: u64 = 1 << 30;

/// Returns true for the file of an export that holds its conversations.
pub(crate) fn is_conversations(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("conversations") && name.ends_with(".json")
}

/// An export of conversations.
pub(crate) struct Export {
    /// The name of the format.
    pub(crate) source: &'static str,
    /// The field that a conversation has.
    pub(crate) field: &'static str,
    /// The field that a conversation of the other program has.
    pub(crate) other_field: &'static str,
    /// The advice for an export of the other program.
    pub(crate) other_advice: &'static str,
}

impl Export {
    /// Reads every conversation of a file with `read`, which returns false for
    /// one that it does not understand. Such a conversation is stored as it is.
    ///
    /// Fails if no conversation is understood.
    pub(crate) fn read(
        &self,
        file: &mut SourceFile<'_>,
        writer: &mut Writer<'_>,
        mut read: impl FnMut(&str, &mut Writer<'_>) -> Result<bool, ImportError>,
    ) -> Result<(), ImportError> {
        let mut is_understood = false;
        let mut is_of_other = false;
        let mut unknown = 0;
        conversations(file, |raw| {
            let Some(raw) = raw else {
                writer.counts.too_long += 1;
                return Ok(());
            };
            if read(raw, writer)? {
                is_understood = true;
                return Ok(());
            }
            unknown += 1;
            is_of_other |= fields::find(raw, self.other_field).is_some();
            writer.unknown_part(self.source, &file.name, raw.as_bytes())?;
            Ok(())
        })?;
        if unknown > 0 && !is_understood {
            writer.discard_unknown();
            let field = self.field;
            return Err(file.refuse(match is_of_other {
                true => format!("has no conversation with `{field}`; {}", self.other_advice),
                false => format!("has no conversation with an id and `{field}`"),
            }));
        }
        file.new_offset = file.size();
        Ok(())
    }
}

/// Calls `each` with every element of the list in the file `conversations.json`
/// of an export, or with `None` for an element that is too long. The export is
/// that file, or a zip file that contains it. One element is in memory at a time.
///
/// A zip file with a path that leads outside is rejected.
fn conversations(
    file: &SourceFile<'_>,
    mut each: impl FnMut(Option<&str>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let failed = |error| ImportError::file(file.path, error);
    let mut source = File::open(file.path).map_err(failed)?;
    let mut start = [0; 2];
    let read = source.read(&mut start).map_err(failed)?;
    source.rewind().map_err(failed)?;
    if &start[..read] != b"PK" {
        return elements(file, BufReader::new(source), MAX_CONVERSATION, &mut each);
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
        elements(file, BufReader::new(entry), MAX_CONVERSATION, &mut each)?;
    }
    Ok(())
}

/// Calls `each` with every element of a JSON list, or with `None` for an element
/// over `max` bytes.
fn elements(
    file: &SourceFile<'_>,
    reader: impl Read,
    max: u64,
    each: &mut impl FnMut(Option<&str>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    struct List<'f, F> {
        each: &'f mut F,
        max: u64,
        failure: &'f mut Option<ImportError>,
    }

    impl<'de, F: FnMut(Option<&str>) -> Result<(), ImportError>> Visitor<'de> for List<'_, F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of conversations")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
            while let Some(element) = list.next_element::<Box<RawValue>>()? {
                let element = element.get();
                let is_short = element.len() as u64 <= self.max;
                if let Err(error) = (self.each)(is_short.then_some(element)) {
                    *self.failure = Some(error);
                    return Err(A::Error::custom("stopped"));
                }
            }
            Ok(())
        }
    }

    let mut failure = None;
    let mut json = serde_json::Deserializer::from_reader(reader);
    let read = json.deserialize_seq(List {
        each,
        max,
        failure: &mut failure,
    });
    match (failure, read) {
        (Some(failure), _) => Err(failure),
        (None, Err(error)) => Err(file.refuse(format!(
            "is not an export that can be read: {error}; give conversations.json or the zip file"
        ))),
        (None, Ok(())) => Ok(()),
    }
}

/// The fields of a JSON object in the order of the file. Values are not parsed,
/// so that one bad value does not hide the others.
pub(crate) struct Entries<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs)
            }
        }

        deserializer.deserialize_map(Pairs).map(Entries)
    }
}

/// Reads a field. Returns `None` if the field is missing or has another type.
pub(crate) fn lenient<T: DeserializeOwned>(field: Option<&RawValue>) -> Option<T> {
    serde_json::from_str(field?.get()).ok()
}

/// Reads a time: Unix seconds as a number or as text, or RFC 3339. Returns `None`
/// for anything else.
pub(crate) fn time(field: Option<&RawValue>) -> Option<Timestamp> {
    // A smaller number in quotes is rather a year.
    const MIN_SECONDS_AS_TEXT: f64 = 1e8;
    let of_seconds = |seconds: f64| Timestamp::from_millisecond((seconds * 1000.0) as i64).ok();
    match lenient(field)? {
        Value::Number(number) => of_seconds(number.as_f64()?),
        Value::String(text) => {
            let text = text.trim();
            text.parse().ok().or_else(|| {
                let seconds: f64 = text.parse().ok()?;
                of_seconds(seconds).filter(|_| seconds >= MIN_SECONDS_AS_TEXT)
            })
        }
        _ => None,
    }
}

/// Returns the first of `start` and its ancestors that is a message. `parents`
/// has the parent of every node, also of those that are not messages.
fn nearest(
    start: Option<&String>,
    parents: &HashMap<String, Option<String>>,
    messages: &HashSet<String>,
) -> Option<String> {
    let mut at = start;
    // More steps than nodes are a circle.
    for _ in 0..=parents.len() {
        match at {
            Some(id) if messages.contains(id) => return Some(id.clone()),
            Some(id) => at = parents.get(id)?.as_ref(),
            None => return None,
        }
    }
    None
}

/// Connects every message to the nearest message before it. A node that is not a
/// message is left out, and its children follow the message before it. Returns
/// the message that is nearest to `current`.
pub(crate) fn connect(
    messages: &mut [TreeMessage],
    parents: &HashMap<String, Option<String>>,
    current: Option<&String>,
) -> Option<String> {
    let ids: HashSet<String> = messages.iter().map(|one| one.id.clone()).collect();
    for message in messages {
        message.parent = nearest(message.parent.as_ref(), parents, &ids);
    }
    nearest(current, parents, &ids)
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

/// A conversation that branches.
pub(crate) struct Branching {
    /// The id of the tree.
    pub(crate) id: String,
    pub(crate) mode: TreeMode,
    pub(crate) title: Option<String>,
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) messages: Vec<TreeMessage>,
    /// The message at which the saved path `current` ends.
    pub(crate) current: Option<String>,
}

/// The form of the ids of a tree's nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeIds {
    /// A hash, the id of the tree and the id of the message. The beginnings of
    /// such ids differ, which makes them good short names.
    Hashed,
    /// The id of the tree and the id of the message. Trees of earlier imports
    /// have such ids.
    Plain,
}

impl NodeIds {
    /// Returns the id of the node of a message.
    fn node(self, tree: &str, message: &str) -> String {
        self.id(tree, message, message)
    }

    /// Returns the id of an empty root.
    fn root(self, tree: &str) -> String {
        // No message has this id.
        self.id(tree, "root", "\0root")
    }

    fn id(self, tree: &str, shown: &str, hashed: &str) -> String {
        let plain = format!("{tree}/{shown}");
        cut_label(&match self {
            NodeIds::Plain => plain,
            NodeIds::Hashed => {
                let hash = blake3::hash(format!("{tree}\0{hashed}").as_bytes()).to_hex();
                format!("{}/{plain}", &hash[..16])
            }
        })
    }
}

impl Branching {
    /// Imports the conversation as a tree.
    pub(crate) fn write(&self, writer: &mut Writer<'_>, now: Timestamp) -> Result<(), ImportError> {
        let ids = self.ids(writer.store())?;
        let Some(mut document) = self.document(ids) else {
            return Ok(());
        };
        let stored = match writer.store().export_tree(&document.tree.id) {
            Ok(stored) => Some(stored),
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(stored) = stored {
            let moved = self.revise(&mut document, &stored, ids);
            if moved > 0 {
                let id = &document.tree.id;
                writer.warn(format!(
                    "tree `{id}`: {moved} node(s) have another parent in the file than in the \
                     store; their stored place is kept"
                ));
            }
        }
        writer.tree_or_skip(&document, now)?;
        Ok(())
    }

    /// Adapts the document to the stored tree, whose nodes and edges never change.
    /// A message that differs becomes a new version of its node. Returns the
    /// number of nodes whose parent differs.
    fn revise(&self, document: &mut TreeDocument, stored: &TreeDocument, ids: NodeIds) -> usize {
        let known: HashMap<&str, &Node> = (stored.nodes.iter())
            .map(|node| (&*node.id, node))
            .collect();
        let edges: HashMap<&str, &Edge> = (stored.edges.iter())
            .map(|edge| (&*edge.id, edge))
            .collect();
        let version = |message: &str, number: usize| {
            let message = format!("{message}@{number}");
            ids.node(&self.id, &message)
        };
        // The newest version of each node that has one.
        let mut newest: HashMap<String, String> = HashMap::new();
        let mut versions = Vec::new();
        let messages = self.messages.iter();
        let messages: HashMap<String, &str> = messages
            .map(|message| (ids.node(&self.id, &message.id), &*message.id))
            .collect();
        for node in &mut document.nodes {
            let Some(before) = known.get(&*node.id) else {
                continue;
            };
            let message = messages.get(&node.id).copied().unwrap_or("root");
            let mut latest = *before;
            let mut number = 1;
            while let Some(next) = known.get(&*version(message, number)) {
                latest = *next;
                number += 1;
            }
            let is_same = latest.author == node.author
                && latest.content == node.content
                && match (&latest.raw_response, &node.raw_response) {
                    (Some(one), Some(other)) => one == other,
                    _ => true,
                };
            if !is_same {
                versions.push(Node {
                    id: version(message, number),
                    edited_from: Some(latest.id.clone()),
                    // The time of the import: the newest version is shown.
                    created_at: None,
                    metadata: None,
                    ..node.clone()
                });
                newest.insert(node.id.clone(), version(message, number));
            } else if latest.id != node.id {
                newest.insert(node.id.clone(), latest.id.clone());
            }
            let raw_response = node.raw_response.take();
            *node = Node {
                metadata: node.metadata.take(),
                raw_response: before.raw_response.clone().or(raw_response),
                ..(*before).clone()
            };
        }
        document.nodes.extend(versions);
        let mut moved = 0;
        for edge in &mut document.edges {
            if let Some(before) = edges.get(&*edge.id).filter(|before| ***before != *edge) {
                moved += 1;
                *edge = (*before).clone();
            }
        }
        for path in &mut document.paths {
            if let Some(version) = newest.get(&path.head) {
                path.head.clone_from(version);
            }
        }
        moved
    }

    /// Returns the form of the ids that the stored tree has, so that a message is
    /// not added twice.
    fn ids(&self, store: &dyn Store) -> Result<NodeIds, StoreError> {
        let tree = cut_label(&self.id);
        let has = |ids: NodeIds, message: &TreeMessage| {
            let node = ids.node(&self.id, &message.id);
            match store.find_node(&tree, &node) {
                Ok(found) => Ok(found.id == node),
                Err(StoreError::NotFound { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        };
        match store.tree(&tree) {
            Ok(_) => {}
            Err(StoreError::NotFound { .. }) => return Ok(NodeIds::Hashed),
            Err(error) => return Err(error),
        }
        for message in &self.messages {
            if has(NodeIds::Hashed, message)? {
                return Ok(NodeIds::Hashed);
            }
            if has(NodeIds::Plain, message)? {
                return Ok(NodeIds::Plain);
            }
        }
        Ok(NodeIds::Hashed)
    }

    /// Makes a tree from the messages. A message whose parent is missing, or is
    /// one of its own descendants, is a root. Several roots follow an empty one.
    fn document(&self, ids: NodeIds) -> Option<TreeDocument> {
        let (id, messages) = (&*self.id, &self.messages);
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
        let node_id = |message: &str| ids.node(id, message);
        let start = self.created_at.unwrap_or(Timestamp::UNIX_EPOCH);
        let made_root = ids.root(id);
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
        for message in messages {
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
        let current = self.current.as_deref();
        let current = current.filter(|current| seen.contains(*current));
        let paths = current.map(|current| SavedPath {
            name: "current".to_owned(),
            head: node_id(current),
            choices: Vec::new(),
        });
        Some(TreeDocument {
            tree: Tree {
                id: cut_label(id),
                mode: self.mode,
                title: self.title.clone(),
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
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_element_over_the_limit_is_reported() {
        let path = std::env::current_exe().unwrap();
        let file = SourceFile::open(&path, Timestamp::UNIX_EPOCH, 1).unwrap();
        let mut found = Vec::new();
        elements(&file, &b"[1, \"long\", 2]"[..], 3, &mut |element| {
            found.push(element.map(str::to_owned));
            Ok(())
        })
        .unwrap();
        let found: Vec<Option<&str>> = found.iter().map(Option::as_deref).collect();
        assert_eq!(found, [Some("1"), None, Some("2")]);
    }

    #[test]
    fn times_are_read_in_all_forms() {
        let read = |json: &str| {
            let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
            time(Some(&raw)).map(|time| time.to_string())
        };
        let expected = Some("2026-02-02T10:00:00.5Z".to_owned());
        for json in [
            "1770026400.5",
            "\"1770026400.5\"",
            "\"2026-02-02T10:00:00.5Z\"",
            "\" 2026-02-02T11:00:00.5+01:00\"",
        ] {
            assert_eq!(read(json), expected, "{json}");
        }
        for json in ["\"2026\"", "null", "[]", "\"soon\"", "1e300", "\"nan\""] {
            assert_eq!(read(json), None, "{json}");
        }
    }

    #[test]
    fn an_empty_root_differs_from_every_message() {
        assert_ne!(NodeIds::Hashed.root("t"), NodeIds::Hashed.node("t", "root"));
    }
}
