//! Checks tree documents, and converts them to the normal form.
//!
//! A valid tree has one root and no cycles, and all ids that it mentions exist.
//! The normal form has a fixed order, so that an exported tree has the same
//! bytes wherever it was stored.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{
    Agent, AgentMemory, Edge, EdgeKind, EdgeSource, LOCAL_ID_CHARS, MemoryChange, Node, Pin,
    SavedPath, SourceRole, Tree, TreeDocument, TreeMode,
};
use crate::error::StoreError;
use crate::session::check_label;
use crate::time::kept;
use crate::turn::{check_depth, check_number, check_usage};
use contexture_core::message::{Block, MessageContent};

/// The maximum number of nodes that an error lists for a cycle.
const MOST_NAMED: usize = 8;

impl TreeDocument {
    /// Returns the document in the form that a store returns: agents, edges,
    /// paths and memories by name, nodes by time and id, times in milliseconds.
    /// A missing time becomes `now`.
    pub fn normalised(mut self, now: Timestamp) -> TreeDocument {
        let kept = |time: Option<Timestamp>| Some(kept(time.unwrap_or(now)));
        self.tree.created_at = kept(self.tree.created_at);
        for node in &mut self.nodes {
            node.created_at = kept(node.created_at);
            node.metadata = Some(node.flags());
            let usual = node.local_id.as_deref() == Some(short(&node.id));
            node.local_id = node.local_id.take().filter(|_| !usual);
        }
        self.agents.sort_by(|a, b| a.id.cmp(&b.id));
        self.nodes
            .sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        self.edges.sort_by(|a, b| a.id.cmp(&b.id));
        self.paths.sort_by(|a, b| a.name.cmp(&b.name));
        self.paths.iter_mut().for_each(SavedPath::normalise);
        self.memories.retain(|memory| !memory.is_empty());
        for memory in &mut self.memories {
            memory.stashes.sort_by(|a, b| a.name.cmp(&b.name));
            for action in &mut memory.trace {
                action.at = kept(action.at);
            }
        }
        self.memories.sort_by(|a, b| a.agent_id.cmp(&b.agent_id));
        self
    }

    /// Returns the document as JSON, as written to a file.
    pub fn to_json(&self) -> String {
        // This fails only for maps whose keys are not text; there are none.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Checks that the document is valid by itself. The error names the field
    /// and the nodes.
    pub fn check(&self) -> Result<(), StoreError> {
        self.tree.check("tree")?;
        let agents = unique("agents", "id", self.agents.iter().map(|one| &*one.id))?;
        let nodes = unique("nodes", "id", self.nodes.iter().map(|one| &*one.id))?;
        let edges = unique("edges", "id", self.edges.iter().map(|one| &*one.id))?;
        unique("paths", "name", self.paths.iter().map(|one| &*one.name))?;
        unique(
            "memories",
            "agent_id",
            self.memories.iter().map(|one| &*one.agent_id),
        )?;
        let node = |field: String, id: &str| known(&nodes, "node", field, id);
        let agent = |field: String, id: &str| known(&agents, "agent", field, id);

        for (i, one) in self.agents.iter().enumerate() {
            one.check(&format!("agents[{i}]"), |id| nodes.contains(id))?;
        }
        for (i, one) in self.nodes.iter().enumerate() {
            one.check(&format!("nodes[{i}]"))?;
            if let Some(id) = &one.author_agent_id {
                agent(format!("nodes[{i}].author_agent_id"), id)?;
            }
            if let Some(id) = &one.edited_from {
                node(format!("nodes[{i}].edited_from"), id)?;
            }
        }
        for (i, edge) in self.edges.iter().enumerate() {
            edge.check(&format!("edges[{i}]"))?;
            node(format!("edges[{i}].target_node_id"), &edge.target_node_id)?;
            for (s, source) in edge.sources.iter().enumerate() {
                node(format!("edges[{i}].sources[{s}].node_id"), &source.node_id)?;
            }
        }
        self.check_local_ids()?;
        self.check_shape()?;
        for (i, path) in self.paths.iter().enumerate() {
            path.check(
                &format!("paths[{i}]"),
                |id| nodes.contains(id),
                |id| edges.contains(id),
            )?;
        }
        for (i, memory) in self.memories.iter().enumerate() {
            let at = format!("memories[{i}]");
            agent(format!("{at}.agent_id"), &memory.agent_id)?;
            unique(
                &format!("{at}.stashes"),
                "name",
                memory.stashes.iter().map(|one| &*one.name),
            )?;
            for (p, pin) in memory.pins.iter().enumerate() {
                pin.check(&format!("{at}.pins[{p}]"), |id| nodes.contains(id))?;
            }
            for (a, action) in memory.trace.iter().enumerate() {
                check_words(&format!("{at}.trace[{a}].action"), &action.action)?;
            }
        }
        Ok(())
    }

    /// Given short names must be unique prefixes of their ids.
    fn check_local_ids(&self) -> Result<(), StoreError> {
        let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
        for (i, node) in self.nodes.iter().enumerate() {
            let Some(local) = &node.local_id else {
                continue;
            };
            let field = format!("nodes[{i}].local_id");
            check_local_id(&field, local, &node.id)?;
            if let Some(other) = taken.insert(local, i) {
                let message = format!("`{local}` is already the short name of nodes[{other}]");
                return Err(StoreError::invalid(field, message));
            }
        }
        Ok(())
    }

    /// Checks that the document has one root and no cycles.
    fn check_shape(&self) -> Result<(), StoreError> {
        let mut before = self.primary_sources();
        check_circles(self.edited(), &mut before)?;
        self.check_root(&before)
    }

    fn check_root(&self, before: &BTreeMap<&str, Vec<&str>>) -> Result<(), StoreError> {
        match self.roots(before).as_slice() {
            [_] => Ok(()),
            [] if self.nodes.is_empty() => Ok(()),
            [] => Err(StoreError::invalid(
                "nodes",
                "there is no root: every node is only a context or instruction source",
            )),
            roots => Err(several_roots(roots)),
        }
    }

    /// Returns the root node, if there is one. The document must be
    /// [valid](TreeDocument::check).
    pub fn root(&self) -> Option<&str> {
        self.roots(&self.before()).first().copied()
    }

    /// Returns the predecessors of each node, or its original if no edge leads
    /// to it.
    fn before(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut before = self.primary_sources();
        for (node, from) in self.edited() {
            before.entry(node).or_insert(from);
        }
        before
    }

    fn primary_sources(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut before: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for edge in &self.edges {
            let sources = edge.sources_as(SourceRole::Primary);
            before
                .entry(&edge.target_node_id)
                .or_default()
                .extend(sources);
        }
        before
    }

    fn edited(&self) -> BTreeMap<&str, Vec<&str>> {
        let edits = self.nodes.iter();
        let edits = edits.filter_map(|node| Some((&*node.id, vec![node.edited_from.as_deref()?])));
        edits.collect()
    }

    /// Returns the nodes without a predecessor that are not context sources. A
    /// context source here is a node that edges use only in the role `context`
    /// or `instruction`, or the original of such a node.
    fn roots(&self, before: &BTreeMap<&str, Vec<&str>>) -> Vec<&str> {
        let reached: BTreeSet<&str> = (self.edges.iter())
            .map(|edge| &*edge.target_node_id)
            .collect();
        let mut stands_for: BTreeMap<&str, &str> = BTreeMap::new();
        for (id, from) in before {
            if let (false, [from]) = (reached.contains(id), from.as_slice()) {
                stands_for.insert(id, from);
            }
        }
        let place = |node: &EdgeSource| -> String {
            let mut id = node.node_id.as_str();
            while let Some(from) = stands_for.get(id) {
                id = from;
            }
            id.to_owned()
        };
        let mut primary = BTreeSet::new();
        let mut material = BTreeSet::new();
        for source in self.edges.iter().flat_map(|edge| &edge.sources) {
            match source.role {
                SourceRole::Primary => primary.insert(place(source)),
                SourceRole::Context | SourceRole::Instruction => material.insert(place(source)),
            };
        }
        let is_material = |id: &str| material.contains(id) && !primary.contains(id);
        let ids = self.nodes.iter().map(|node| &*node.id);
        ids.filter(|id| !before.contains_key(id) && !is_material(id))
            .collect()
    }
}

/// Returns the error for a tree with several roots.
pub(super) fn several_roots(roots: &[&str]) -> StoreError {
    StoreError::invalid(
        "nodes",
        format!(
            "there are {} roots ({}): a tree has one node that no edge leads to; others follow \
             from something, are edits, or are context or instruction sources",
            roots.len(),
            named(roots, ", ")
        ),
    )
}

/// Checks that neither edits nor edges form a cycle. `edited` has the nodes
/// that each node was edited from; `before` has the predecessors of each node,
/// and is completed with `edited`.
pub(super) fn check_circles<'a>(
    edited: BTreeMap<&'a str, Vec<&'a str>>,
    before: &mut BTreeMap<&'a str, Vec<&'a str>>,
) -> Result<(), StoreError> {
    if let Some(cycle) = cycle(&edited) {
        return Err(StoreError::invalid(
            "nodes",
            format!("the edits form a cycle: {}", named(&cycle, " -> ")),
        ));
    }
    for (node, from) in edited {
        // An edit without edges of its own has the position of its original.
        before.entry(node).or_insert(from);
    }
    match cycle(before) {
        None => Ok(()),
        Some(cycle) => Err(StoreError::invalid(
            "edges",
            format!("the edges form a cycle: {}", named(&cycle, " -> ")),
        )),
    }
}

impl Tree {
    /// Checks a tree by itself. `at` is its path in the document, for errors.
    pub fn check(&self, at: &str) -> Result<(), StoreError> {
        check_label(&join(at, "id"), &self.id)?;
        if let Some(tokens) = self.preferences.token_buffer {
            check_number(&join(at, "preferences.token_buffer"), tokens)?;
        }
        if let Some(nodes) = self.preferences.minimum_recent_nodes {
            check_number(&join(at, "preferences.minimum_recent_nodes"), nodes as u64)?;
        }
        Ok(())
    }

    /// Checks that `mode`, which `field` holds, is the mode of this tree.
    pub fn check_mode(&self, field: &str, mode: TreeMode) -> Result<(), StoreError> {
        if mode == self.mode {
            return Ok(());
        }
        let message = format!(
            "tree `{}` is a {}; you cannot change the mode of an existing tree",
            self.id, self.mode
        );
        Err(StoreError::invalid(field, message))
    }
}

impl Agent {
    /// Checks an agent, and that its current node exists. `at` is its path in
    /// the document, for errors.
    pub fn check(&self, at: &str, is_node: impl Fn(&str) -> bool) -> Result<(), StoreError> {
        check_label(&join(at, "id"), &self.id)?;
        for (name, value) in &self.parameters {
            check_depth(|| join(at, &format!("parameters.{name}")), value)?;
        }
        match &self.position {
            Some(id) if !is_node(id) => Err(StoreError::invalid(
                join(at, "position"),
                format!("there is no node `{id}` in this tree"),
            )),
            _ => Ok(()),
        }
    }
}

impl Node {
    /// Checks a node by itself. `at` is its path in the document, for errors.
    pub fn check(&self, at: &str) -> Result<(), StoreError> {
        check_label(&format!("{at}.id"), &self.id)?;
        if let MessageContent::Blocks(blocks) = &self.content {
            if blocks.is_empty() {
                return Err(StoreError::invalid(format!("{at}.content"), "is empty"));
            }
            for (b, block) in blocks.iter().enumerate() {
                let at = format!("{at}.content[{b}]");
                match block {
                    Block::Text { .. } => {}
                    Block::Image { .. } | Block::Audio { .. } | Block::Document { .. } => {
                        if block.media().is_none() {
                            let message = "needs either `data` or `url`";
                            return Err(StoreError::invalid(at, message));
                        }
                    }
                    Block::ToolCall { .. }
                    | Block::ToolResult { .. }
                    | Block::Thinking { .. }
                    | Block::Provider { .. } => {
                        let message = "a node can contain only text, images, audio and documents";
                        return Err(StoreError::invalid(at, message));
                    }
                }
            }
        }
        if let Some(response) = &self.raw_response {
            let field = format!("{at}.raw_response");
            if let Some(usage) = &response.usage {
                check_usage(usage).map_err(|error| error.within(&field))?;
            }
            check_depth(|| format!("{field}.body"), &response.body)?;
        }
        Ok(())
    }

    /// Fails when the node has more than `most` bytes.
    pub fn check_size(&self, at: &str, most: u64) -> Result<(), StoreError> {
        let bytes = self.content.bytes() as u64;
        if bytes <= most {
            return Ok(());
        }
        let message = format!("is {bytes} bytes; the limit is {most}");
        Err(StoreError::invalid(format!("{at}.content"), message))
    }
}

impl Edge {
    /// Checks an edge by itself. `at` is its path in the document, for errors.
    pub fn check(&self, at: &str) -> Result<(), StoreError> {
        check_label(&format!("{at}.id"), &self.id)?;
        if self.sources_as(SourceRole::Primary).next().is_none() {
            return Err(StoreError::invalid(
                format!("{at}.sources"),
                format!("edge `{}` has no primary source", self.id),
            ));
        }
        let mut seen = BTreeSet::new();
        for (s, source) in self.sources.iter().enumerate() {
            let field = format!("{at}.sources[{s}].node_id");
            if source.node_id == self.target_node_id {
                let message = format!("`{}` cannot follow from itself", source.node_id);
                return Err(StoreError::invalid(field, message));
            }
            if !seen.insert(&source.node_id) {
                let message = format!("`{}` is already a source of this edge", source.node_id);
                return Err(StoreError::invalid(field, message));
            }
        }
        Ok(())
    }

    /// Returns true if the target continues the text of the source.
    pub fn continues(&self) -> bool {
        self.kind == EdgeKind::Continuation
    }
}

impl SavedPath {
    /// Converts the path to the form that stores return.
    pub(super) fn normalise(&mut self) {
        self.choices.sort();
        self.choices.dedup();
    }

    /// Checks that the nodes of a path exist. `at` is its path in the document,
    /// for errors.
    pub fn check(
        &self,
        at: &str,
        is_node: impl Fn(&str) -> bool,
        is_edge: impl Fn(&str) -> bool,
    ) -> Result<(), StoreError> {
        check_label(&join(at, "name"), &self.name)?;
        if !is_node(&self.head) {
            let message = format!("there is no node `{}` in this tree", self.head);
            return Err(StoreError::invalid(join(at, "head"), message));
        }
        for (c, choice) in self.choices.iter().enumerate() {
            if !is_node(choice) && !is_edge(choice) {
                let message =
                    format!("there is neither a node nor an edge `{choice}` in this tree");
                return Err(StoreError::invalid(
                    join(at, &format!("choices[{c}]")),
                    message,
                ));
            }
        }
        Ok(())
    }
}

impl Pin {
    /// Checks that a pin is either a text or an existing node. `at` is its path
    /// in the document, for errors.
    pub fn check(&self, at: &str, is_node: impl Fn(&str) -> bool) -> Result<(), StoreError> {
        match (&self.node_id, &self.text) {
            (Some(id), None) if is_node(id) => Ok(()),
            (Some(id), None) => Err(StoreError::invalid(
                join(at, "node_id"),
                format!("there is no node `{id}` in this tree"),
            )),
            (None, Some(text)) => check_words(&join(at, "text"), text),
            _ => Err(StoreError::invalid(at, "needs either `node_id` or `text`")),
        }
    }
}

impl MemoryChange {
    /// Checks that a change is not empty, and that its nodes exist.
    pub fn check(&self, is_node: impl Fn(&str) -> bool) -> Result<(), StoreError> {
        match self {
            MemoryChange::Pin(pin) => pin.check("pin", is_node),
            // A node that does not exist is not pinned either; the store
            // reports that.
            MemoryChange::Unpin(pin) => pin.check("pin", |_| true),
            MemoryChange::Stash { name, .. } => check_label("name", name),
            MemoryChange::Recall { .. } | MemoryChange::Discard { .. } => Ok(()),
            MemoryChange::Act(action) => check_words("action", action),
        }
    }
}

impl AgentMemory {
    /// Returns true when the memory has no pins, stashes or actions.
    pub fn is_empty(&self) -> bool {
        self.pins.is_empty() && self.stashes.is_empty() && self.trace.is_empty()
    }
}

/// Returns the short name of the node `id`: as few of its first characters as
/// are unused, but at least [`LOCAL_ID_CHARS`]. If even the whole id is in use,
/// a number is appended.
pub fn local_id(id: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let ends = id.char_indices().map(|(at, c)| at + c.len_utf8());
    let mut beginnings = ends.skip(LOCAL_ID_CHARS - 1).map(|end| &id[..end]);
    // A short id is its own short name.
    let all_of_it = || (!is_taken(id)).then_some(id);
    if let Some(free) = beginnings
        .find(|beginning| !is_taken(beginning))
        .or_else(all_of_it)
    {
        return free.to_owned();
    }
    let mut numbers = 2_u64..;
    let numbered = numbers.find_map(|n| Some(format!("{id}~{n}")).filter(|name| !is_taken(name)));
    numbered.unwrap_or_default()
}

/// Returns the short name that a node has unless it is already in use.
fn short(id: &str) -> &str {
    let end = id.char_indices().nth(LOCAL_ID_CHARS);
    end.map_or(id, |(end, _)| &id[..end])
}

/// Checks that `local` can be the short name of `id`.
pub(super) fn check_local_id(field: &str, local: &str, id: &str) -> Result<(), StoreError> {
    match is_local_id(local, id) {
        true => Ok(()),
        false => Err(StoreError::invalid(
            field,
            format!(
                "`{local}` is not a short name for `{id}`: it is the first {LOCAL_ID_CHARS} \
                 characters or more of the id"
            ),
        )),
    }
}

fn is_local_id(local: &str, id: &str) -> bool {
    let numbered = || {
        local
            .strip_prefix(id)?
            .strip_prefix('~')?
            .parse::<u64>()
            .ok()
    };
    id.starts_with(local) && local.len() >= short(id).len() || numbered().is_some()
}

fn join(at: &str, field: &str) -> String {
    match at {
        "" => field.to_owned(),
        at => format!("{at}.{field}"),
    }
}

fn check_words(field: &str, text: &str) -> Result<(), StoreError> {
    match text.trim().is_empty() {
        true => Err(StoreError::invalid(field, "is empty")),
        false => Ok(()),
    }
}

/// Checks that names are valid and unique. Returns them.
pub(super) fn unique<'a>(
    list: &str,
    field: &str,
    names: impl Iterator<Item = &'a str>,
) -> Result<BTreeSet<&'a str>, StoreError> {
    let mut seen = BTreeSet::new();
    for (i, name) in names.enumerate() {
        let field = format!("{list}[{i}].{field}");
        check_label(&field, name)?;
        if !seen.insert(name) {
            let message = format!("`{name}` is there twice");
            return Err(StoreError::invalid(field, message));
        }
    }
    Ok(seen)
}

fn known(all: &BTreeSet<&str>, what: &str, field: String, id: &str) -> Result<(), StoreError> {
    match all.contains(id) {
        true => Ok(()),
        false => Err(StoreError::invalid(
            field,
            format!("there is no {what} `{id}` in this tree"),
        )),
    }
}

fn named(ids: &[&str], between: &str) -> String {
    let mut text = ids
        .iter()
        .take(MOST_NAMED)
        .map(|id| format!("`{id}`"))
        .collect::<Vec<_>>()
        .join(between);
    if ids.len() > MOST_NAMED {
        text.push_str(between);
        text.push_str("...");
    }
    text
}

/// Returns a cycle in `before`, if there is one, in the order from predecessor
/// to successor. Its first node is repeated at the end.
fn cycle<'a>(before: &BTreeMap<&'a str, Vec<&'a str>>) -> Option<Vec<&'a str>> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        OnPath,
        Done,
    }
    let mut states: BTreeMap<&str, State> = BTreeMap::new();
    for &start in before.keys() {
        // The loop uses no recursion, because paths can be long.
        let mut path: Vec<(&str, usize)> = Vec::new();
        let mut next = Some(start);
        while let Some(node) = next.take() {
            match states.get(node) {
                None => {
                    states.insert(node, State::OnPath);
                    path.push((node, 0));
                }
                Some(State::Done) => {}
                Some(State::OnPath) => {
                    let from = path.iter().position(|(id, _)| *id == node)?;
                    let mut circle: Vec<&str> = path[from..].iter().map(|(id, _)| *id).collect();
                    circle.push(node);
                    circle.reverse();
                    return Some(circle);
                }
            }
            while let Some((node, seen)) = path.last_mut() {
                let sources = before.get(node).map_or(&[][..], |sources| sources);
                if let Some(source) = sources.get(*seen) {
                    *seen += 1;
                    next = Some(source);
                    break;
                }
                states.insert(node, State::Done);
                path.pop();
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a document whose tree is `t`, and returns its error.
    fn complaint(records: &str) -> String {
        let json = format!(r#"{{"tree":{{"id":"t","mode":"dialogue"}},{records}}}"#);
        let document: TreeDocument = serde_json::from_str(&json).unwrap();
        match document.check() {
            Ok(()) => "fine".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// Checks a document in short notation: nodes with the nodes that they were
    /// edited from, and edges.
    ///
    /// ```text
    /// a
    /// b of a
    /// a context:c -> b
    /// ```
    fn check(text: &str, expected: &str) {
        let mut nodes = Vec::new();
        let mut edges = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some((sources, target)) = line.split_once("->") {
                let sources = sources.split_whitespace().map(|source| {
                    let (role, id) = source.split_once(':').unwrap_or(("primary", source));
                    format!(r#"{{"node_id":"{id}","role":"{role}"}}"#)
                });
                edges.push(format!(
                    r#"{{"id":"e{}","type":"continuation","sources":[{}],"target_node_id":"{}"}}"#,
                    edges.len(),
                    sources.collect::<Vec<_>>().join(","),
                    target.trim()
                ));
                continue;
            }
            let (id, from) = match line.split_once(" of ") {
                Some((id, from)) => (id, format!("\"{from}\"")),
                None => (line, "null".to_owned()),
            };
            nodes.push(format!(
                r#"{{"id":"{id}","author":"human","content":"x","edited_from":{from}}}"#
            ));
        }
        let records = format!(
            r#""nodes":[{}],"edges":[{}]"#,
            nodes.join(","),
            edges.join(",")
        );
        assert_eq!(complaint(&records), expected, "{text}");
    }

    #[test]
    fn valid_trees_are_accepted() {
        check("", "fine");
        check("a", "fine");
        check("a \n b \n c \n a -> b \n b -> c \n a -> c", "fine");
        check("a \n b of a \n c of b", "fine");
        check("a \n b \n rule \n a instruction:rule -> b", "fine");
        // The same text as a context source, edited, with the edit in use.
        check(
            "a \n b \n rule \n new of rule \n a context:new -> b",
            "fine",
        );
        // The root itself as a context source, next to its edit.
        check("a \n a2 of a \n b \n a2 context:a -> b", "fine");
        // Versions of one node.
        check("a \n b \n c \n d \n a -> b \n a -> c \n b c -> d", "fine");
    }

    #[test]
    fn cycles_are_rejected() {
        check(
            "a \n b \n c \n a -> b \n b -> c \n c -> b",
            "edges: the edges form a cycle: `b` -> `c` -> `b`",
        );
        check(
            "a \n b \n a -> b \n b -> a",
            "edges: the edges form a cycle: `a` -> `b` -> `a`",
        );
        // A cycle through the position of an edit.
        check(
            "a \n b \n b2 of b \n b2 -> b",
            "edges: the edges form a cycle: `b` -> `b2` -> `b`",
        );
        check(
            "a \n a -> a",
            "edges[0].sources[0].node_id: `a` cannot follow from itself",
        );
    }

    #[test]
    fn long_cycles_are_shortened_in_messages() {
        let mut text = String::from("n0\n");
        for i in 1..=20 {
            text += &format!("n{i}\nn{} -> n{i}\n", i - 1);
        }
        text += "n20 -> n5";
        check(
            &text,
            "edges: the edges form a cycle: `n10` -> `n11` -> `n12` -> `n13` -> `n14` -> \
             `n15` -> `n16` -> `n17` -> ...",
        );
    }

    #[test]
    fn edges_connect_existing_nodes() {
        check(
            "a \n a -> b",
            "edges[0].target_node_id: there is no node `b` in this tree",
        );
        check(
            "a \n b \n a -> b \n a context:c -> b",
            "edges[1].sources[1].node_id: there is no node `c` in this tree",
        );
        check(
            "a \n b \n context:a -> b",
            "edges[0].sources: edge `e0` has no primary source",
        );
        check(
            "a \n b \n -> b",
            "edges[0].sources: edge `e0` has no primary source",
        );
        check(
            "a \n b \n a context:a -> b",
            "edges[0].sources[1].node_id: `a` is already a source of this edge",
        );
    }

    #[test]
    fn a_tree_has_one_root() {
        check(
            "a \n b",
            "nodes: there are 2 roots (`a`, `b`): a tree has one node that no edge leads to; \
             others follow from something, are edits, or are context or instruction sources",
        );
        // A context source with a successor is a root, too, and so is the
        // original of its edit.
        check(
            "a \n m \n b \n c \n a context:m -> b \n m -> c",
            "nodes: there are 2 roots (`a`, `m`): a tree has one node that no edge leads to; \
             others follow from something, are edits, or are context or instruction sources",
        );
        check(
            "a \n m \n m2 of m \n b \n c \n a context:m -> b \n m2 -> c",
            "nodes: there are 2 roots (`a`, `m`): a tree has one node that no edge leads to; \
             others follow from something, are edits, or are context or instruction sources",
        );
    }

    #[test]
    fn an_edit_refers_to_another_node() {
        check(
            "a \n b of c",
            "nodes[1].edited_from: there is no node `c` in this tree",
        );
        check("a \n b of b", "nodes: the edits form a cycle: `b` -> `b`");
        check(
            "a \n b of d \n c of b \n d of c",
            "nodes: the edits form a cycle: `b` -> `c` -> `d` -> `b`",
        );
    }

    #[test]
    fn names_are_unique() {
        check("a \n b \n a", "nodes[2].id: `a` is there twice");
        for (records, expected) in [
            (
                r#""agents":[{"id":"a","type":"model"},{"id":"a","type":"human"}]"#,
                "agents[1].id: `a` is there twice",
            ),
            (
                r#""nodes":[{"id":"a","author":"human","content":"x"}],
                   "paths":[{"name":"p","head":"a"},{"name":"p","head":"a"}]"#,
                "paths[1].name: `p` is there twice",
            ),
            (
                r#""agents":[{"id":"a","type":"model"}],"memories":[{"agent_id":"a",
                   "stashes":[{"name":"s","text":"1"},{"name":"s","text":"2"}]}]"#,
                "memories[0].stashes[1].name: `s` is there twice",
            ),
            (
                r#""nodes":[{"id":"a","author":"human","content":"x"},
                   {"id":"a ","author":"human","content":"x"}]"#,
                "nodes[1].id: contains control characters, or starts or ends with a space",
            ),
        ] {
            assert_eq!(complaint(records), expected);
        }
    }

    #[test]
    fn a_node_holds_text_and_media() {
        for (content, expected) in [
            ("[]", "nodes[0].content: is empty"),
            (
                r#"[{"type":"text","text":"x"},
                    {"type":"tool_call","id":"c","name":"shell","arguments":{}}]"#,
                "nodes[0].content[1]: a node can contain only text, images, audio and documents",
            ),
            (
                r#"[{"type":"image","media_type":"image/png"}]"#,
                "nodes[0].content[0]: needs either `data` or `url`",
            ),
            (
                r#"[{"type":"audio","media_type":"audio/wav","data":"AA","url":"https://x.org"}]"#,
                "nodes[0].content[0]: needs either `data` or `url`",
            ),
            (r#"[{"type":"text","text":""}]"#, "fine"),
            (r#""""#, "fine"),
        ] {
            let records = format!(r#""nodes":[{{"id":"a","author":"human","content":{content}}}]"#);
            assert_eq!(complaint(&records), expected);
        }
    }

    #[test]
    fn referenced_nodes_and_agents_exist() {
        let node = r#""nodes":[{"id":"a","author":"human","content":"x"}]"#;
        let agent = r#""agents":[{"id":"x","type":"model"}]"#;
        for (records, expected) in [
            (
                r#""nodes":[{"id":"a","author":"human","content":"x","author_agent_id":"x"}]"#
                    .to_owned(),
                "nodes[0].author_agent_id: there is no agent `x` in this tree",
            ),
            (
                r#""agents":[{"id":"x","type":"model","position":"a"}]"#.to_owned(),
                "agents[0].position: there is no node `a` in this tree",
            ),
            (
                format!(r#"{node},"paths":[{{"name":"p","head":"b"}}]"#),
                "paths[0].head: there is no node `b` in this tree",
            ),
            (
                format!(r#"{node},"paths":[{{"name":"p","head":"a","choices":["a","e"]}}]"#),
                "paths[0].choices[1]: there is neither a node nor an edge `e` in this tree",
            ),
            (
                r#""memories":[{"agent_id":"x"}]"#.to_owned(),
                "memories[0].agent_id: there is no agent `x` in this tree",
            ),
            (
                format!(r#"{agent},"memories":[{{"agent_id":"x","pins":[{{"node_id":"a"}}]}}]"#),
                "memories[0].pins[0].node_id: there is no node `a` in this tree",
            ),
            (
                format!(r#"{agent},"memories":[{{"agent_id":"x","pins":[{{}}]}}]"#),
                "memories[0].pins[0]: needs either `node_id` or `text`",
            ),
            (
                format!(r#"{agent},"memories":[{{"agent_id":"x","trace":[{{"action":" "}}]}}]"#),
                "memories[0].trace[0].action: is empty",
            ),
        ] {
            assert_eq!(complaint(&records), expected);
        }
    }

    #[test]
    fn given_short_names_must_match() {
        for (id, local_id, expected) in [
            ("0123456789", "012345", "fine"),
            ("0123456789", "01234567", "fine"),
            ("0123456789", "0123456789~2", "fine"),
            ("012", "012", "fine"),
            (
                "0123456789",
                "01234",
                "nodes[0].local_id: `01234` is not a short name for `0123456789`: it is the first 6 \
                 characters or more of the id",
            ),
            (
                "0123456789",
                "012345~2",
                "nodes[0].local_id: `012345~2` is not a short name for `0123456789`: it is the first \
                 6 characters or more of the id",
            ),
        ] {
            let records = format!(
                r#""nodes":[{{"id":"{id}","local_id":"{local_id}","author":"human","content":""}}]"#
            );
            assert_eq!(complaint(&records), expected, "{local_id}");
        }
        assert_eq!(
            complaint(
                r#""nodes":[{"id":"abcdefg","local_id":"abcdef","author":"human","content":""},
                   {"id":"abcdefh","local_id":"abcdef","author":"human","content":"",
                    "edited_from":"abcdefg"}]"#
            ),
            "nodes[1].local_id: `abcdef` is already the short name of nodes[0]"
        );
    }

    #[test]
    fn short_names_are_as_short_as_they_can_be() {
        let name = |id: &str, taken: &[&str]| local_id(id, |name| taken.contains(&name));
        assert_eq!(name("0123456789", &[]), "012345");
        assert_eq!(name("0123456789", &["012345"]), "0123456");
        assert_eq!(name("0123456789", &["012345", "0123456"]), "01234567");
        assert_eq!(name("012", &[]), "012");
        assert_eq!(name("012", &["012"]), "012~2");
        assert_eq!(name("012345", &["012345", "012345~2"]), "012345~3");
        assert_eq!(name("äöüßéèx", &[]), "äöüßéè");
    }
}
