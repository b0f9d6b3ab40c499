//! Checks new nodes and edges without reading the whole tree.
//!
//! The store collects the existing records that the addition refers to
//! ([`Surroundings`]), and the check is a function of those. Appending a node
//! therefore costs the same in a tree of any size.

use std::collections::{BTreeMap, BTreeSet};

use super::check::{check_circles, check_local_id, several_roots, unique};
use super::{Growth, SourceRole};
use crate::error::StoreError;

/// The existing records that a growth refers to. A store collects them. Their
/// number depends on the growth and not on the tree, unless an edge leads to a
/// node that existed before.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Surroundings {
    /// The tree's root; `None` when the tree is empty.
    pub root: Option<String>,
    /// The referenced agents that exist in the tree.
    pub agents: BTreeSet<String>,
    /// The referenced edges that exist in the tree.
    pub edges: BTreeSet<String>,
    /// The referenced nodes that exist in the tree. For every edit that no edge
    /// leads to, the node that it was edited from is included.
    ///
    /// If an edge leads to a node that existed before, all predecessors of that
    /// edge's sources are included, too.
    pub nodes: BTreeMap<String, KnownNode>,
    /// The referenced nodes that exist in another tree, each with that tree's
    /// id.
    pub elsewhere: BTreeMap<String, String>,
    /// The referenced short names that are in use in the tree, each with its
    /// node.
    pub local_ids: BTreeMap<String, String>,
}

/// The properties of a node that exists in the tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownNode {
    /// Whether an edge leads to the node. If no edge of the growth leads to a
    /// node that existed before, an edge to the node's original is enough.
    pub reached: bool,
    /// The primary sources of the edges that lead to the node, if its
    /// predecessors are needed.
    pub sources: Vec<String>,
    /// The node that it was edited from, if no edge leads to it.
    pub edited_from: Option<String>,
}

impl Growth {
    /// Returns the names of all nodes that the growth has or refers to.
    pub fn named_nodes(&self) -> BTreeSet<&str> {
        let of_nodes = self
            .nodes
            .iter()
            .flat_map(|node| [Some(&*node.id), node.edited_from.as_deref()])
            .flatten();
        let of_edges = self.edges.iter().flat_map(|edge| {
            let sources = edge.sources.iter().map(|source| &*source.node_id);
            sources.chain([&*edge.target_node_id])
        });
        of_nodes.chain(of_edges).collect()
    }

    /// Checks that the growth is valid in the tree, and returns the root of the
    /// tree after it. The error names the field and the nodes.
    pub fn check<'a>(&'a self, around: &'a Surroundings) -> Result<Option<&'a str>, StoreError> {
        let new = unique("nodes", "id", self.nodes.iter().map(|one| &*one.id))?;
        unique("edges", "id", self.edges.iter().map(|one| &*one.id))?;
        let node = |field: String, id: &str| {
            if new.contains(id) || around.nodes.contains_key(id) {
                return Ok(());
            }
            Err(StoreError::invalid(field, around.no_node(id)))
        };
        let mut locals = around.local_ids.clone();
        for (i, one) in self.nodes.iter().enumerate() {
            let at = format!("nodes[{i}]");
            one.check(&at)?;
            if around.nodes.contains_key(&one.id) {
                let message = format!("node `{}` is in this tree already", one.id);
                return Err(StoreError::invalid(format!("{at}.id"), message));
            }
            if let Some(tree) = around.elsewhere.get(&one.id) {
                return Err(in_another_tree(&at, &one.id, tree));
            }
            if let Some(agent) = &one.author_agent_id
                && !around.agents.contains(agent)
            {
                let message = format!("there is no agent `{agent}` in this tree");
                return Err(StoreError::invalid(
                    format!("{at}.author_agent_id"),
                    message,
                ));
            }
            if let Some(from) = &one.edited_from {
                node(format!("{at}.edited_from"), from)?;
            }
            if let Some(local) = &one.local_id {
                let field = format!("{at}.local_id");
                check_local_id(&field, local, &one.id)?;
                if let Some(other) = locals.insert(local.clone(), one.id.clone()) {
                    let message = format!("`{local}` is already the short name of node `{other}`");
                    return Err(StoreError::invalid(field, message));
                }
            }
        }
        for (i, edge) in self.edges.iter().enumerate() {
            let at = format!("edges[{i}]");
            edge.check(&at)?;
            if around.edges.contains(&edge.id) {
                let message = format!("edge `{}` is in this tree already", edge.id);
                return Err(StoreError::invalid(format!("{at}.id"), message));
            }
            node(format!("{at}.target_node_id"), &edge.target_node_id)?;
            for (s, source) in edge.sources.iter().enumerate() {
                node(format!("{at}.sources[{s}].node_id"), &source.node_id)?;
            }
        }
        self.check_circles(around)?;
        self.root(around)
    }

    fn check_circles(&self, around: &Surroundings) -> Result<(), StoreError> {
        let mut before: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut edited: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (id, known) in &around.nodes {
            if known.reached {
                let sources = known.sources.iter().map(String::as_str);
                before.insert(id, sources.collect());
            }
            if let Some(from) = &known.edited_from {
                edited.insert(id, vec![from]);
            }
        }
        for edge in &self.edges {
            let sources = edge.sources_as(SourceRole::Primary);
            let all = before.entry(&edge.target_node_id).or_default();
            all.extend(sources);
        }
        for node in &self.nodes {
            if let Some(from) = &node.edited_from {
                edited.insert(&node.id, vec![from]);
            }
        }
        check_circles(edited, &mut before)
    }

    /// Returns the root of the tree after the growth. Fails if there would be
    /// several.
    fn root<'a>(&'a self, around: &'a Surroundings) -> Result<Option<&'a str>, StoreError> {
        let targets: BTreeSet<&str> = self
            .edges
            .iter()
            .map(|edge| &*edge.target_node_id)
            .collect();
        let mut edited: BTreeMap<&str, &str> = BTreeMap::new();
        for node in &self.nodes {
            if let Some(from) = &node.edited_from {
                edited.insert(&node.id, from);
            }
        }
        // Follows the edits of a node back to its original. Returns `None` if
        // an edge leads to one of them.
        let loose = |mut id: &'a str| -> Option<&'a str> {
            loop {
                let known = around.nodes.get(id);
                if targets.contains(id) || known.is_some_and(|known| known.reached) {
                    return None;
                }
                let from = match known {
                    Some(known) => known.edited_from.as_deref(),
                    None => edited.get(id).copied(),
                };
                match from {
                    Some(from) => id = from,
                    None => return Some(id),
                }
            }
        };
        let mut roots: BTreeSet<&str> = around.root.as_deref().into_iter().collect();
        let mut material: BTreeSet<&str> = BTreeSet::new();
        for source in self.edges.iter().flat_map(|edge| &edge.sources) {
            let list = match source.role {
                SourceRole::Primary => &mut roots,
                SourceRole::Context | SourceRole::Instruction => &mut material,
            };
            list.extend(loose(&source.node_id));
        }
        let new = self.nodes.iter().filter(|node| node.edited_from.is_none());
        let new = new.filter_map(|node| loose(&node.id));
        roots.extend(new.filter(|id| !material.contains(id)));
        if roots.len() <= 1 {
            return Ok(roots.first().copied());
        }
        // The existing root comes first.
        let mut named: Vec<&str> = roots.into_iter().collect();
        named.sort_by_key(|id| around.root.as_deref() != Some(*id));
        Err(several_roots(&named))
    }
}

impl Surroundings {
    /// Returns the error message for a node that cannot be referred to.
    fn no_node(&self, id: &str) -> String {
        no_node(id, self.elsewhere.get(id).map(String::as_str))
    }
}

/// Returns the error message for a node that is not in the tree, with the tree
/// that has it.
pub fn no_node(id: &str, elsewhere: Option<&str>) -> String {
    match elsewhere {
        None => format!("there is no node `{id}` in this tree"),
        Some(tree) => format!("there is no node `{id}` in this tree; it is in tree `{tree}`"),
    }
}

/// Returns the error for a new node that another tree already has.
pub fn in_another_tree(at: &str, id: &str, tree: &str) -> StoreError {
    let message = format!("node `{id}` is in tree `{tree}` already; a node belongs to one tree");
    StoreError::invalid(format!("{at}.id"), message)
}
