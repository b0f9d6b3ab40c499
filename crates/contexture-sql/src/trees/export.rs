//! Exports whole trees.

use std::collections::HashMap;
use std::ops::ControlFlow;

use crate::driver::Connection;
use contexture_store::{Edge, EdgeSource, MessageContent, NodeHead, Skeleton, TreeDocument};

use super::head::{COLUMNS, HeadRow};
use super::{TreeRow, agents, contents, memory, paths};
use crate::error::{Error, Fault};
use crate::row::{Json, Word, json};

/// Reads a whole tree, with the short names of all nodes and the nodes' keys.
pub(super) fn load(
    db: &Connection,
    tree: &TreeRow,
) -> Result<(TreeDocument, HashMap<String, i64>), Fault> {
    let mut select = db.prepare_cached(&format!(
        "SELECT {COLUMNS}, c.content, r.response, c.sum FROM nodes n
         JOIN node_contents c ON c.node = n.key LEFT JOIN raw_responses r ON r.node = n.key
         WHERE n.tree = ?1"
    ))?;
    let rows = select.query_map([tree.key], |row| {
        let head = HeadRow::read(row)?;
        if !head.is_intact(row.get_ref(13)?.as_str()?, row.get(15)?) {
            return Ok(Err(contents::damaged(head.id())));
        }
        let content = row.get::<Json<MessageContent>>(13)?.0;
        Ok(Ok((head, (content, json(row, 14)?))))
    })?;
    let rows = rows.map(|row| row.map_err(Fault::from).flatten());
    let rows = rows.collect::<Result<Vec<_>, Fault>>()?;
    let keys: HashMap<String, i64> = rows
        .iter()
        .map(|(row, _)| (row.id().to_owned(), row.key))
        .collect();
    let nodes = named(db, tree, rows)?
        .into_iter()
        .map(|(head, (content, raw_response))| head.with(content, raw_response));
    let document = TreeDocument {
        tree: tree.tree.clone(),
        nodes: nodes.collect(),
        edges: edges(db, tree)?,
        agents: agents(db, tree.key)?,
        paths: paths(db, tree.key)?,
        memories: memory::load_all(db, tree)?,
    };
    Ok((document, keys))
}

pub(super) fn skeleton(db: &Connection, tree: &TreeRow) -> Result<Skeleton, Fault> {
    let mut select = db.prepare_cached(&format!(
        "SELECT {COLUMNS}, c.preview, CASE WHEN c.preview IS NULL THEN c.content END FROM nodes n
         JOIN node_contents c ON c.node = n.key WHERE n.tree = ?1"
    ))?;
    let rows = select.query_map([tree.key], |row| {
        let preview = match row.get::<Option<String>>(13)? {
            Some(preview) => preview,
            None => row.get::<Json<String>>(14)?.0,
        };
        Ok((HeadRow::read(row)?, preview))
    })?;
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    let mut nodes = named(db, tree, rows)?;
    nodes.sort_by(|(a, _), (b, _)| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    Ok(Skeleton {
        nodes,
        edges: edges(db, tree)?,
    })
}

/// Replaces keys with ids in all rows of a tree.
fn named<T>(
    db: &Connection,
    tree: &TreeRow,
    rows: Vec<(HeadRow, T)>,
) -> Result<Vec<(NodeHead, T)>, Fault> {
    let mut select = db.prepare_cached("SELECT key, id FROM agents WHERE tree = ?1")?;
    let agents = select.query_map([tree.key], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let agents: HashMap<i64, String> = agents.collect::<Result<_, _>>()?;
    let nodes: HashMap<i64, String> = rows
        .iter()
        .map(|(row, _)| (row.key, row.id().to_owned()))
        .collect();
    // A key without a row is damage.
    let get = |ids: &HashMap<i64, String>, key: i64| {
        let id = ids.get(&key).cloned();
        id.ok_or(Fault::Sql(Error::NoRows))
    };
    rows.into_iter()
        .map(|(row, with)| {
            let head = row.named(|key| get(&agents, key), |key| get(&nodes, key))?;
            Ok((head, with))
        })
        .collect()
}

/// Reads the edges of a tree, by id.
fn edges(db: &Connection, tree: &TreeRow) -> Result<Vec<Edge>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT e.id, e.kind, target.id, source.id, s.role FROM edges e
         JOIN edge_sources s ON s.edge = e.key
         JOIN nodes target ON target.key = e.target JOIN nodes source ON source.key = s.node
         WHERE e.tree = ?1 ORDER BY e.id, s.seq",
    )?;
    let mut edges: Vec<Edge> = Vec::new();
    select.for_each([tree.key], |row| {
        let id: String = row.get(0)?;
        let source = EdgeSource {
            node_id: row.get(3)?,
            role: row.get::<Word<_>>(4)?.0,
        };
        match edges.last_mut() {
            Some(edge) if edge.id == id => edge.sources.push(source),
            _ => edges.push(Edge {
                id,
                kind: row.get::<Word<_>>(1)?.0,
                sources: vec![source],
                target_node_id: row.get(2)?,
            }),
        }
        Ok::<_, Fault>(ControlFlow::Continue(()))
    })?;
    Ok(edges)
}
