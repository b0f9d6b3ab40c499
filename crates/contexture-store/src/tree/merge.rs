//! Merges a tree document with the stored tree.
//!
//! New nodes and edges are added. Existing ones must have the same content,
//! because nodes and edges never change. Settings, agents, paths, memories and
//! flags of the document replace the stored ones.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use super::{Agent, AgentMemory, Edge, Node, SavedPath, Tree, TreeDocument, local_id};
use crate::error::StoreError;
use crate::time::kept;

/// A document merged with the tree's existing records.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    /// The contents of the tree after the merge: first the records of the
    /// document in its own order, so that errors refer to their positions, then
    /// the records that only the tree has. Every node has its short name and
    /// its time.
    ///
    /// The caller must still [check](TreeDocument::check) it.
    pub document: TreeDocument,
    /// The indexes of the new nodes.
    pub nodes: Vec<usize>,
    /// The indexes of the new edges.
    pub edges: Vec<usize>,
    /// The indexes of existing nodes whose flags change.
    pub reflagged: Vec<usize>,
    /// The indexes of existing nodes that get a missing raw response.
    pub answered: Vec<usize>,
    /// Whether the merge may change an existing path.
    pub disturbs: bool,
    /// Whether settings, agents, paths or memories change.
    pub changed: bool,
}

impl TreeDocument {
    /// Returns the document merged with the existing tree, if there is one.
    /// Nodes of `there` must have their short names.
    ///
    /// Fails if a node, an edge or the mode is in both and differs.
    pub fn merged(
        mut self,
        there: Option<TreeDocument>,
        now: Timestamp,
    ) -> Result<Merged, StoreError> {
        for node in &mut self.nodes {
            node.created_at = node.created_at.map(kept);
        }
        let mut there = match there {
            Some(there) => there,
            None => TreeDocument {
                tree: self.tree.clone(),
                agents: Vec::new(),
                nodes: Vec::new(),
                edges: Vec::new(),
                paths: Vec::new(),
                memories: Vec::new(),
            },
        };
        there.tree.check_mode("tree.mode", self.tree.mode)?;
        self.tree.created_at = Some(kept(there.tree.created_at.unwrap_or(now)));
        self.tree.keep(&there.tree);

        let mut merged = Merged {
            document: self,
            nodes: Vec::new(),
            edges: Vec::new(),
            reflagged: Vec::new(),
            answered: Vec::new(),
            disturbs: false,
            changed: false,
        };
        merged.add_nodes(&mut there.nodes, now)?;
        merged.add_edges(&there.edges)?;
        let document = &mut merged.document;
        rest(&mut document.nodes, there.nodes, |node| &node.id);
        rest(&mut document.edges, there.edges, |edge| &edge.id);
        for agent in &mut document.agents {
            let before = there.agents.iter().find(|before| before.id == agent.id);
            if let Some(before) = before {
                agent.keep(before);
            }
        }
        let mut paths: Vec<SavedPath> = document.paths.clone();
        paths.iter_mut().for_each(SavedPath::normalise);
        let mut changed = document.tree != there.tree
            || document
                .agents
                .iter()
                .any(|one| !there.agents.contains(one))
            || paths.iter().any(|one| !there.paths.contains(one));
        rest(&mut document.agents, there.agents, |agent| &agent.id);
        rest(&mut document.paths, there.paths, |path| &path.name);
        for memory in &mut document.memories {
            let before = there.memories.iter();
            let mut before = before.filter(|before| before.agent_id == memory.agent_id);
            let before = before.next();
            memory.keep_times(before, now);
            memory.stashes.sort_by(|a, b| a.name.cmp(&b.name));
            changed |= !memory.is_empty() && before != Some(memory);
        }
        rest(&mut document.memories, there.memories, |one| &one.agent_id);
        merged.changed = changed;
        merged.name_nodes()?;
        Ok(merged)
    }
}

impl Merged {
    /// Merges the document's nodes with those of the tree.
    fn add_nodes(&mut self, there: &mut [Node], now: Timestamp) -> Result<(), StoreError> {
        let known: HashMap<String, usize> = there
            .iter()
            .enumerate()
            .map(|(i, node)| (node.id.clone(), i))
            .collect();
        for (i, node) in self.document.nodes.iter_mut().enumerate() {
            let Some(before) = known.get(&node.id).map(|&place| &there[place]) else {
                node.created_at = Some(node.created_at.unwrap_or(kept(now)));
                self.disturbs |= node.edited_from.is_some() && !there.is_empty();
                self.nodes.push(i);
                continue;
            };
            let same = node.author == before.author
                && node.author_agent_id == before.author_agent_id
                && node.content == before.content
                && node.edited_from == before.edited_from
                && (node.created_at.is_none() || node.created_at == before.created_at)
                && match (&node.raw_response, &before.raw_response) {
                    (Some(a), Some(b)) => a == b,
                    _ => true,
                };
            if !same {
                return Err(changed(&format!("nodes[{i}]"), "node", &node.id));
            }
            let flags = *node.metadata.get_or_insert(before.flags());
            if flags != before.flags() {
                self.reflagged.push(i);
                self.disturbs = true;
            }
            match &before.raw_response {
                None if node.raw_response.is_some() => self.answered.push(i),
                None => {}
                Some(response) => node.raw_response = Some(response.clone()),
            }
            node.created_at = before.created_at;
            node.local_id = before.local_id.clone();
        }
        Ok(())
    }

    /// Merges the document's edges with those of the tree.
    fn add_edges(&mut self, there: &[Edge]) -> Result<(), StoreError> {
        let known: HashMap<&str, &Edge> = there.iter().map(|edge| (&*edge.id, edge)).collect();
        let new: HashSet<&str> = self
            .nodes
            .iter()
            .map(|&i| &*self.document.nodes[i].id)
            .collect();
        for (i, edge) in self.document.edges.iter().enumerate() {
            match known.get(&*edge.id) {
                None => {
                    self.disturbs |= !new.contains(&*edge.target_node_id);
                    self.edges.push(i);
                }
                Some(before) if *before != edge => {
                    return Err(changed(&format!("edges[{i}]"), "edge", &edge.id));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Sets the short names of new nodes: first of those that choose one, and
    /// then of the others by time and id, so that the order of the records does
    /// not matter.
    fn name_nodes(&mut self) -> Result<(), StoreError> {
        let nodes = &mut self.document.nodes;
        let new: HashSet<usize> = self.nodes.iter().copied().collect();
        let mut taken: HashMap<String, usize> = HashMap::with_capacity(nodes.len());
        for (i, node) in nodes.iter().enumerate() {
            if let (false, Some(local)) = (new.contains(&i), &node.local_id) {
                taken.insert(local.clone(), i);
            }
        }
        for &i in &self.nodes {
            let Some(local) = &nodes[i].local_id else {
                continue;
            };
            match taken.get(local) {
                // The check of the document reports duplicates within it.
                Some(other) if !new.contains(other) => {
                    return Err(StoreError::invalid(
                        format!("nodes[{i}].local_id"),
                        format!(
                            "`{local}` is already the short name of node `{}`",
                            nodes[*other].id
                        ),
                    ));
                }
                _ => taken.insert(local.clone(), i),
            };
        }
        let mut nameless: Vec<usize> = self.nodes.clone();
        nameless.retain(|&i| nodes[i].local_id.is_none());
        nameless.sort_by(|&a, &b| {
            let order = |i: usize| (nodes[i].created_at, &nodes[i].id);
            order(a).cmp(&order(b))
        });
        for i in nameless {
            let local = local_id(&nodes[i].id, |name| taken.contains_key(name));
            taken.insert(local.clone(), i);
            nodes[i].local_id = Some(local);
        }
        Ok(())
    }
}

impl Tree {
    /// Sets unset fields from `before`.
    fn keep(&mut self, before: &Tree) {
        let keep = |now: &mut Option<String>, before: &Option<String>| {
            *now = now.take().or_else(|| before.clone());
        };
        keep(&mut self.title, &before.title);
        keep(&mut self.system_context, &before.system_context);
        let (now, before) = (&mut self.preferences, before.preferences);
        now.truncation_strategy = now.truncation_strategy.or(before.truncation_strategy);
        now.minimum_recent_nodes = now.minimum_recent_nodes.or(before.minimum_recent_nodes);
        now.token_buffer = now.token_buffer.or(before.token_buffer);
    }
}

impl Agent {
    /// Sets unset fields from `before`.
    fn keep(&mut self, before: &Agent) {
        let keep = |now: &mut Option<String>, before: &Option<String>| {
            *now = now.take().or_else(|| before.clone());
        };
        keep(&mut self.name, &before.name);
        keep(&mut self.system_prompt, &before.system_prompt);
        keep(&mut self.model, &before.model);
        keep(&mut self.position, &before.position);
        if self.parameters.is_empty() {
            self.parameters.clone_from(&before.parameters);
        }
        if self.permissions.is_empty() {
            self.permissions.clone_from(&before.permissions);
        }
    }
}

impl AgentMemory {
    /// Sets missing times of actions to their earlier ones, or to `now`.
    fn keep_times(&mut self, before: Option<&AgentMemory>, now: Timestamp) {
        let trace = before.map_or(&[][..], |before| &before.trace);
        for (i, action) in self.trace.iter_mut().enumerate() {
            let same = trace.get(i).filter(|one| one.action == action.action);
            let known = action.at.or(same.and_then(|one| one.at));
            action.at = Some(kept(known.unwrap_or(now)));
        }
    }
}

fn changed(field: &str, what: &str, id: &str) -> StoreError {
    let instead = match what {
        "node" => "nodes never change; add an edit",
        _ => "edges never change; add another",
    };
    let message =
        format!("{what} `{id}` already exists in this tree with different content: {instead}");
    StoreError::invalid(field, message)
}

/// Appends the records of `there` whose names are not among `records`.
fn rest<T>(records: &mut Vec<T>, there: Vec<T>, name: impl Fn(&T) -> &String) {
    let named: HashSet<String> = records.iter().map(|one| name(one).clone()).collect();
    records.extend(there.into_iter().filter(|one| !named.contains(name(one))));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn read(records: &str) -> TreeDocument {
        let json = format!(r#"{{"tree":{{"id":"t","mode":"dialogue"}},{records}}}"#);
        serde_json::from_str(&json).unwrap()
    }

    fn nodes(list: &[&str]) -> String {
        let nodes = list
            .iter()
            .map(|node| format!(r#"{{"author":"human","content":"x",{node}}}"#));
        format!(r#""nodes":[{}]"#, nodes.collect::<Vec<_>>().join(","))
    }

    /// Returns the contents of a store after a document was imported.
    fn there(records: &str) -> TreeDocument {
        read(records).merged(None, at(1)).unwrap().document
    }

    /// Each node with its short name and its time.
    fn lines(document: &TreeDocument) -> Vec<String> {
        let line = |node: &Node| {
            let local = node.local_id.as_deref().unwrap_or("-");
            let time = node.created_at.unwrap().as_second();
            format!("{} {local} {time}", node.id)
        };
        document.nodes.iter().map(line).collect()
    }

    #[test]
    fn a_document_for_an_empty_store_is_all_new() {
        let document = read(&nodes(&[
            r#""id":"abcdefg","created_at":3000"#,
            r#""id":"abcdefh","created_at":2000"#,
            r#""id":"abcdefi","local_id":"abcdef""#,
        ]));
        let merged = document.merged(None, at(9)).unwrap();
        // Nodes are in the document's order. Names are assigned by time, except
        // for nodes with a given name.
        let expected = ["abcdefg abcdefg 3", "abcdefh abcdefh 2", "abcdefi abcdef 9"];
        assert_eq!(lines(&merged.document), expected);
        assert_eq!(merged.nodes, [0, 1, 2]);
        assert!(!merged.disturbs);
    }

    #[test]
    fn stored_nodes_follow_those_of_the_document() {
        let there = there(&nodes(&[r#""id":"n1""#, r#""id":"n2""#]));
        let document = read(&nodes(&[
            r#""id":"n3""#,
            r#""id":"n2","metadata":{"pruned":true}"#,
        ]));
        let merged = document.merged(Some(there), at(9)).unwrap();
        assert_eq!(lines(&merged.document), ["n3 n3 9", "n2 n2 1", "n1 n1 1"]);
        assert_eq!((merged.nodes, merged.reflagged), (vec![0], vec![1]));
        assert!(merged.disturbs);
    }

    #[test]
    fn omitted_parts_of_a_document_change_nothing() {
        let full = there(&nodes(&[
            r#""id":"abcdefg","created_at":5000,"raw_response":{"body":1},
               "metadata":{"excluded":true}"#,
            r#""id":"abcdefh","created_at":6000"#,
        ]));
        let brief = read(&nodes(&[
            r#""id":"abcdefh","local_id":"abcdef""#,
            r#""id":"abcdefg""#,
        ]));
        let merged = brief.merged(Some(full.clone()), at(9)).unwrap();
        assert_eq!(
            lines(&merged.document),
            ["abcdefh abcdefh 6", "abcdefg abcdef 5"]
        );
        assert_eq!(merged.document.nodes[1], full.nodes[0]);
        let changes = [
            merged.nodes,
            merged.edges,
            merged.reflagged,
            merged.answered,
        ];
        assert_eq!(changes, [const { Vec::<usize>::new() }; 4]);
        assert!(!merged.disturbs);
    }

    #[test]
    fn only_changes_that_affect_paths_change_the_epoch() {
        let edges = |list: &str| format!(r#","edges":[{list}]"#);
        let edge = |id: &str, from: &str, to: &str| {
            format!(
                r#"{{"id":"{id}","type":"continuation","sources":[{{"node_id":"{from}"}}],
                    "target_node_id":"{to}"}}"#
            )
        };
        let disturbs = |records: &str| {
            let two = nodes(&[r#""id":"n1""#, r#""id":"n2""#]) + &edges(&edge("e1", "n1", "n2"));
            let merged = read(records).merged(Some(there(&two)), at(9)).unwrap();
            merged.disturbs
        };
        assert!(!disturbs(
            &(nodes(&[r#""id":"n3""#]) + &edges(&edge("e2", "n2", "n3")))
        ));
        assert!(!disturbs(&(nodes(&[]) + &edges(&edge("e1", "n1", "n2")))));
        assert!(disturbs(&(nodes(&[]) + &edges(&edge("e2", "n1", "n2")))));
        assert!(disturbs(&nodes(&[r#""id":"n3","edited_from":"n1""#])));
        assert!(disturbs(&nodes(&[
            r#""id":"n1","metadata":{"excluded":true}"#
        ])));
    }

    #[test]
    fn actions_keep_the_times_they_have() {
        let records = r#""agents":[{"id":"a","type":"model"}],"memories":[{"agent_id":"a",
            "trace":[{"action":"went"},{"action":"saw","at":5000},{"action":"MORE"}]}]"#;
        let before = there(&records.replace("MORE", "came"));
        let merged = read(&records.replace("MORE", "won")).merged(Some(before), at(9));
        let trace = &merged.unwrap().document.memories[0].trace;
        let times: Vec<i64> = trace
            .iter()
            .map(|one| one.at.unwrap().as_second())
            .collect();
        assert_eq!(times, [1, 5, 9]);
    }
}
