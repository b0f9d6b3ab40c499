//! Inserts the rows of nodes, edges, agents and paths.

use std::collections::HashMap;

use crate::driver::{Connection, Statement};
use crate::params;
use contexture_core::ContentHash;
use contexture_store::{
    Agent, Edge, MessageContent, Node, PREVIEW_CHARS, RawResponse, SavedPath, StoreError,
};
use jiff::Timestamp;

use super::TreeRow;
use crate::error::{Error, Fault};
use crate::row::{Json, Time, Word, number};

/// The columns of a node that its caller knows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NodeRow {
    pub(super) agent: Option<i64>,
    pub(super) edited_from: Option<i64>,
    pub(super) arrivals: usize,
    pub(super) step: i64,
    pub(super) parent: Option<i64>,
}

/// The statements that add nodes and edges, prepared once for many.
pub(super) struct Inserts<'db> {
    node: Statement<'db>,
    content: Statement<'db>,
    response: Statement<'db>,
    edge: Statement<'db>,
    source: Statement<'db>,
}

impl<'db> Inserts<'db> {
    pub(super) fn new(db: &'db Connection) -> Result<Self, Fault> {
        Ok(Self {
            node: db.prepare_cached(
                "INSERT INTO nodes (tenant, tree, id, local_id, author, agent, edited_from,
                     excluded, pruned, bookmarked, created_at, bytes, arrivals, step, parent)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            )?,
            content: db.prepare_cached(
                "INSERT INTO node_contents (node, preview, content, sum) VALUES (?1, ?2, ?3, ?4)",
            )?,
            response: db
                .prepare_cached("INSERT INTO raw_responses (node, response) VALUES (?1, ?2)")?,
            edge: db.prepare_cached(
                "INSERT INTO edges (tree, id, kind, target) VALUES (?1, ?2, ?3, ?4)",
            )?,
            source: db.prepare_cached(
                "INSERT INTO edge_sources (edge, seq, node, role) VALUES (?1, ?2, ?3, ?4)",
            )?,
        })
    }

    /// Adds a node and returns its key.
    pub(super) fn node(
        &mut self,
        tree: &TreeRow,
        node: &Node,
        local_id: &str,
        created_at: Timestamp,
        place: NodeRow,
    ) -> Result<i64, Fault> {
        let bytes = node.content.bytes() as u64;
        let key = self.node.insert(params![
            tree.tenant,
            tree.key,
            node.id,
            local_id,
            node.author.name(),
            place.agent,
            place.edited_from,
            node.flags().excluded,
            node.flags().pruned,
            node.flags().bookmarked,
            Time(created_at),
            number("content", bytes)?,
            place.arrivals as i64,
            place.step,
            place.parent,
        ])?;
        let preview = match &node.content {
            // A character has at least one byte.
            MessageContent::Text(text) if text.len() <= PREVIEW_CHARS => None,
            _ => Some(node.preview()),
        };
        let content = serde_json::to_string(&node.content)
            .map_err(|error| Error::Parameter(error.to_string()))?;
        let sum = node_sum(&node.id, node.author.name(), created_at, &content);
        self.content.execute((key, preview, content, sum))?;
        if let Some(response) = &node.raw_response {
            self.response(key, response)?;
        }
        Ok(key)
    }

    /// Adds the raw provider response of a node.
    pub(super) fn response(&mut self, node: i64, response: &RawResponse) -> Result<(), Fault> {
        self.response.execute((node, Json(response)))?;
        Ok(())
    }

    /// Adds an edge between nodes with known keys.
    pub(super) fn edge(
        &mut self,
        tree: &TreeRow,
        edge: &Edge,
        keys: &HashMap<String, i64>,
    ) -> Result<(), Fault> {
        let target = key_of(keys, &edge.target_node_id)?;
        let kind = Word(edge.kind);
        let key = self.edge.insert((tree.key, &edge.id, kind, target))?;
        for (seq, source) in edge.sources.iter().enumerate() {
            let node = key_of(keys, &source.node_id)?;
            self.source
                .execute((key, seq as i64, node, Word(source.role)))?;
        }
        Ok(())
    }
}

/// Returns the hash of the fields of a node that never change.
pub(crate) fn node_sum(id: &str, author: &str, created_at: Timestamp, content: &str) -> [u8; 16] {
    let place = format!(
        "{author} {} {} {id} ",
        created_at.as_millisecond(),
        id.len()
    );
    let whole = ContentHash::of((place + content).as_bytes());
    let mut sum = [0; 16];
    sum.copy_from_slice(&whole.as_bytes()[..16]);
    sum
}

/// Returns the key of a node that an earlier check has found.
pub(super) fn key_of(keys: &HashMap<String, i64>, id: &str) -> Result<i64, Fault> {
    let key = keys.get(id).copied();
    key.ok_or_else(|| Fault::not_found("node", id))
}

/// Returns an order of `0..count` in which each index comes after the indexes
/// that it `needs`, and otherwise keeps its position. Rows may only refer to
/// existing rows. The needs must not contain a cycle.
pub(super) fn in_order<const N: usize>(
    count: usize,
    needs: impl Fn(usize) -> [Option<usize>; N],
) -> Vec<usize> {
    let mut order = Vec::with_capacity(count);
    let mut begun = vec![false; count];
    // The loop uses no recursion, because a path can be long.
    let mut open = Vec::new();
    for first in 0..count {
        if !std::mem::replace(&mut begun[first], true) {
            open.push(first);
        }
        while let Some(&one) = open.last() {
            let missing = needs(one).into_iter().flatten().find(|&need| !begun[need]);
            match missing {
                Some(need) => {
                    begun[need] = true;
                    open.push(need);
                }
                None => order.extend(open.pop()),
            }
        }
    }
    order
}

/// Writes an agent, replacing one with the same id, and returns its key. The
/// agent has no position until [`place_agent`] sets it.
pub(super) fn put_agent(db: &Connection, tree: &TreeRow, agent: &Agent) -> Result<i64, Fault> {
    let parameters = (!agent.parameters.is_empty()).then_some(Json(&agent.parameters));
    let permissions = (!agent.permissions.is_empty()).then_some(Json(&agent.permissions));
    let mut put = db.prepare_cached(
        "INSERT INTO agents (tree, id, kind, name, system_prompt, model, parameters, permissions,
             loom_aware)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (tree, id) DO UPDATE SET kind = excluded.kind, name = excluded.name,
             system_prompt = excluded.system_prompt, model = excluded.model,
             parameters = excluded.parameters, permissions = excluded.permissions,
             loom_aware = excluded.loom_aware, position = NULL
         RETURNING key",
    )?;
    let key = put.query_row(
        params![
            tree.key,
            agent.id,
            agent.kind.name(),
            agent.name,
            agent.system_prompt,
            agent.model,
            parameters,
            permissions,
            agent.loom_aware,
        ],
        |row| row.get(0),
    )?;
    Ok(key)
}

/// Sets the position of an agent.
pub(super) fn place_agent(db: &Connection, agent: i64, node: i64) -> Result<(), Fault> {
    db.prepare_cached("UPDATE agents SET position = ?2 WHERE key = ?1")?
        .execute((agent, node))?;
    Ok(())
}

/// Writes a path, replacing one with the same name.
pub(super) fn put_path(
    db: &Connection,
    tree: &TreeRow,
    path: &SavedPath,
    head: i64,
) -> Result<(), Fault> {
    let mut choices = path.choices.clone();
    choices.sort();
    choices.dedup();
    db.prepare_cached(
        "INSERT INTO saved_paths (tree, name, head, choices) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (tree, name) DO UPDATE SET head = excluded.head, choices = excluded.choices",
    )?
    .execute((tree.key, &path.name, head, Json(choices)))?;
    Ok(())
}

/// Returns the time of a node, or `now` if it has none.
pub(super) fn created_at(node: &Node, now: Timestamp) -> Timestamp {
    node.created_at.unwrap_or(now)
}

/// Returns the error for the first node that is too large.
pub(super) fn check_sizes<'a>(
    nodes: impl Iterator<Item = (usize, &'a Node)>,
    most: u64,
) -> Result<(), StoreError> {
    for (i, node) in nodes {
        node.check_size(&format!("nodes[{i}]"), most)?;
    }
    Ok(())
}
