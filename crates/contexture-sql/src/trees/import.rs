//! Imports tree documents.

use std::collections::{HashMap, HashSet};

use crate::driver::{Connection, OptionalExtension};
use crate::params;
use contexture_store::{
    Imported, Merged, Step, StoreError, TreeDocument, in_another_tree, no_node,
};
use jiff::Timestamp;

use super::insert::{
    Inserts, NodeRow, check_sizes, created_at, in_order, key_of, place_agent, put_agent, put_path,
};
use super::{TreeRow, change, export, memory, step};
use crate::error::Fault;
use crate::row::{Json, Time};

/// The number of new nodes from which the table statistics are updated.
const MANY_NODES: usize = 1_000;

pub(super) fn import(
    db: &Connection,
    tenant: i64,
    document: TreeDocument,
    now: Timestamp,
    most: u64,
) -> Result<Imported, Fault> {
    document.tree.check("tree")?;
    let (given_agents, given_paths) = (document.agents.len(), document.paths.len());
    let given_memories = document.memories.len();
    let row = TreeRow::find_if_any(db, tenant, &document.tree.id)?;
    let (there, mut keys) = match &row {
        Some(row) => {
            let (there, keys) = export::load(db, row)?;
            (Some(there), keys)
        }
        None => {
            check_free(db, tenant, &document.tree.id)?;
            (None, HashMap::new())
        }
    };
    let before = there.as_ref().map_or(0, |there| there.nodes.len());
    let merged = document.merged(there, now)?;
    check_elsewhere(db, tenant, &merged)?;
    merged.document.check()?;
    let new = merged.nodes.iter();
    check_sizes(new.map(|&i| (i, &merged.document.nodes[i])), most)?;

    let document = &merged.document;
    let created = row.is_none();
    let mut tree = match row {
        Some(row) => row,
        None => create(db, tenant, document, now)?,
    };
    let mut agents = HashMap::new();
    for (i, agent) in document.agents.iter().enumerate() {
        let key = match i < given_agents {
            true => put_agent(db, &tree, agent)?,
            false => super::agent_key(db, &tree, &agent.id)?,
        };
        agents.insert(&*agent.id, key);
    }
    insert(db, &tree, &merged, &agents, &mut keys, now)?;
    if merged.nodes.len() >= MANY_NODES {
        db.inserted_many(&["nodes", "edges", "edge_sources"])?;
    }
    if before > 0 {
        step::set(db, document, &keys)?;
    }
    for agent in &document.agents[..given_agents] {
        if let Some(position) = &agent.position {
            place_agent(db, agents[&*agent.id], key_of(&keys, position)?)?;
        }
    }
    for path in &document.paths[..given_paths] {
        put_path(db, &tree, path, key_of(&keys, &path.head)?)?;
    }
    for one in &document.memories[..given_memories] {
        memory::replace(db, agents[&*one.agent_id], one, &keys)?;
    }
    tree.tree = document.tree.clone();
    change::put_settings(db, &tree)?;
    tree.root = document.root().map(|id| key_of(&keys, id)).transpose()?;
    tree.nodes += merged.nodes.len() as u64;
    tree.edges += merged.edges.len() as u64;
    tree.instructions += super::instructions(merged.edges.iter().map(|&i| &document.edges[i]));
    tree.epoch += u64::from(merged.disturbs);
    change::put_shape(db, &tree)?;
    Ok(Imported {
        created,
        nodes: merged.nodes.len() as u64,
        edges: merged.edges.len() as u64,
        reflagged: merged.reflagged.len() as u64,
        changed: merged.changed && !created,
    })
}

/// Fails if a tree with this id is being deleted.
fn check_free(db: &Connection, tenant: i64, id: &str) -> Result<(), Fault> {
    let mut deleted = db.prepare_cached("SELECT 1 FROM trees WHERE tenant = ?1 AND id = ?2")?;
    match deleted.exists((tenant, id))? {
        true => Err(Fault::exists("pending deletion of tree", id)),
        false => Ok(()),
    }
}

fn create(
    db: &Connection,
    tenant: i64,
    document: &TreeDocument,
    now: Timestamp,
) -> Result<TreeRow, Fault> {
    let tree = &document.tree;
    let mut insert = db.prepare_cached(
        "INSERT INTO trees (tenant, id, mode, title, system_context, buffer_mode_system_context,
             preferences, epoch, nodes, edges, instructions, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, 0, ?8)",
    )?;
    let key = insert.insert(params![
        tenant,
        tree.id,
        tree.mode.name(),
        tree.title,
        tree.system_context,
        tree.buffer_mode_system_context,
        Json(tree.preferences),
        Time(tree.created_at.unwrap_or(now)),
    ])?;
    Ok(TreeRow {
        key,
        tenant,
        tree: tree.clone(),
        root: None,
        epoch: 0,
        nodes: 0,
        edges: 0,
        instructions: 0,
    })
}

/// Rejects new nodes that exist in another tree, and references to such nodes.
fn check_elsewhere(db: &Connection, tenant: i64, merged: &Merged) -> Result<(), Fault> {
    let mut select = db.prepare_cached(
        "SELECT t.id FROM nodes n JOIN trees t ON t.key = n.tree
         WHERE n.tenant = ?1 AND n.id = ?2",
    )?;
    let mut elsewhere = |id: &str| -> Result<Option<String>, Fault> {
        let tree = select.query_row((tenant, id), |row| row.get(0));
        Ok(tree.optional()?)
    };
    let document = &merged.document;
    for &i in &merged.nodes {
        let id = &document.nodes[i].id;
        if let Some(tree) = elsewhere(id)? {
            return Err(in_another_tree(&format!("nodes[{i}]"), id, &tree).into());
        }
    }
    let here: HashSet<&str> = document.nodes.iter().map(|node| &*node.id).collect();
    let mut refers = |field: String, id: &str| -> Result<(), Fault> {
        if here.contains(id) {
            return Ok(());
        }
        let tree = elsewhere(id)?;
        Err(StoreError::invalid(field, no_node(id, tree.as_deref())).into())
    };
    for &i in &merged.nodes {
        if let Some(from) = &document.nodes[i].edited_from {
            refers(format!("nodes[{i}].edited_from"), from)?;
        }
    }
    for &i in &merged.edges {
        let edge = &document.edges[i];
        refers(format!("edges[{i}].target_node_id"), &edge.target_node_id)?;
        for (s, source) in edge.sources.iter().enumerate() {
            refers(format!("edges[{i}].sources[{s}].node_id"), &source.node_id)?;
        }
    }
    Ok(())
}

/// Inserts the new rows, and adds the keys of new nodes to `keys`.
fn insert(
    db: &Connection,
    tree: &TreeRow,
    merged: &Merged,
    agents: &HashMap<&str, i64>,
    keys: &mut HashMap<String, i64>,
    now: Timestamp,
) -> Result<(), Fault> {
    let document = &merged.document;
    let steps = document.steps();
    let mut arrivals: HashMap<&str, usize> = HashMap::new();
    for edge in &document.edges {
        *arrivals.entry(&edge.target_node_id).or_default() += 1;
    }
    let mut inserts = Inserts::new(db)?;
    // Rows are inserted by time, so that rows that are read together are stored
    // together.
    let mut new = merged.nodes.clone();
    new.sort_by_key(|&i| (document.nodes[i].created_at, &document.nodes[i].id));
    let places: HashMap<&str, usize> = new
        .iter()
        .enumerate()
        .map(|(place, &i)| (&*document.nodes[i].id, place))
        .collect();
    let needs = |place: usize| {
        let i = new[place];
        let parent = match &steps[i] {
            Step::Plain { parent } => Some(&**parent),
            _ => None,
        };
        [document.nodes[i].edited_from.as_deref(), parent]
            .map(|id| id.and_then(|id| places.get(id).copied()))
    };
    for place in in_order(new.len(), needs) {
        let i = new[place];
        let node = &document.nodes[i];
        let (step, parent) = match &steps[i] {
            Step::Nothing => (0, None),
            Step::Plain { parent } => (1, Some(key_of(keys, parent)?)),
            Step::Look => (2, None),
        };
        let from = node.edited_from.as_deref();
        let place = NodeRow {
            agent: (node.author_agent_id.as_deref()).and_then(|id| agents.get(id).copied()),
            edited_from: from.map(|id| key_of(keys, id)).transpose()?,
            arrivals: arrivals.get(&*node.id).copied().unwrap_or(0),
            step,
            parent,
        };
        let local_id = node.local_id.as_deref().unwrap_or(&node.id);
        let key = inserts.node(tree, node, local_id, created_at(node, now), place)?;
        keys.insert(node.id.clone(), key);
    }
    for &i in &merged.edges {
        inserts.edge(tree, &document.edges[i], keys)?;
    }
    for &i in &merged.reflagged {
        let node = &document.nodes[i];
        change::change_flags(db, key_of(keys, &node.id)?, node.flags().into())?;
    }
    for &i in &merged.answered {
        let node = &document.nodes[i];
        if let Some(response) = &node.raw_response {
            inserts.response(key_of(keys, &node.id)?, response)?;
        }
    }
    Ok(())
}
