//! Adds nodes and edges.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};

use crate::driver::{Connection, OptionalExtension};
use contexture_store::{Edge, Growth, KnownNode, NodeHead, Surroundings, local_id};
use jiff::Timestamp;

use super::head::Heads;
use super::insert::{Inserts, NodeRow, created_at, in_order, key_of, place_agent};
use super::{TreeRow, agent_key, change, node_id, step};
use crate::error::Fault;

pub(super) fn grow(
    db: &Connection,
    tenant: i64,
    tree: &str,
    growth: &Growth,
    now: Timestamp,
) -> Result<Vec<NodeHead>, Fault> {
    let mut tree = TreeRow::find(db, tenant, tree)?;
    let mut keys = HashMap::new();
    let around = surroundings(db, &tree, growth, &mut keys)?;
    let root = growth.check(&around)?;
    let agents = agent_keys(db, &tree, growth)?;
    let local_ids = local_ids(db, &tree, growth, now)?;

    let mut inserts = Inserts::new(db)?;
    let mut arrivals: HashMap<&str, usize> = HashMap::new();
    for edge in &growth.edges {
        *arrivals.entry(&edge.target_node_id).or_default() += 1;
    }
    let places: HashMap<&str, usize> = growth
        .nodes
        .iter()
        .enumerate()
        .map(|(i, node)| (&*node.id, i))
        .collect();
    let needs = |i: usize| {
        let from = growth.nodes[i].edited_from.as_deref();
        [from.and_then(|id| places.get(id).copied())]
    };
    for i in in_order(growth.nodes.len(), needs) {
        let node = &growth.nodes[i];
        let from = node.edited_from.as_deref();
        let place = NodeRow {
            agent: (node.author_agent_id.as_deref()).and_then(|id| agents.get(id).copied()),
            edited_from: from.map(|id| key_of(&keys, id)).transpose()?,
            arrivals: arrivals.get(&*node.id).copied().unwrap_or(0),
            // The remaining columns are computed below.
            ..NodeRow::default()
        };
        let key = inserts.node(&tree, node, &local_ids[i], created_at(node, now), place)?;
        keys.insert(node.id.clone(), key);
    }
    let mut changed: BTreeSet<i64> = BTreeSet::new();
    let mut arrive =
        db.prepare_cached("UPDATE nodes SET arrivals = arrivals + ?2 WHERE key = ?1")?;
    for (target, more) in &arrivals {
        if places.contains_key(target) {
            continue;
        }
        arrive.execute((key_of(&keys, target)?, *more as i64))?;
        // The node no longer replaces another node.
        if let Some(KnownNode {
            reached: false,
            edited_from: Some(from),
            ..
        }) = around.nodes.get(*target)
        {
            changed.extend(step::targets(db, key_of(&keys, from)?)?);
        }
    }
    for edge in &growth.edges {
        inserts.edge(&tree, edge, &keys)?;
        changed.insert(key_of(&keys, &edge.target_node_id)?);
    }
    for node in &growth.nodes {
        changed.insert(key_of(&keys, &node.id)?);
        if let (Some(from), false) = (&node.edited_from, arrivals.contains_key(&*node.id)) {
            changed.extend(step::targets(db, key_of(&keys, from)?)?);
        }
        let is_root = root == Some(&*node.id);
        let goes_on = |edge: &Edge| edge.continues() && edge.target_node_id == node.id;
        if let Some(agent) = &node.author_agent_id
            && (is_root || growth.edges.iter().any(goes_on))
        {
            place_agent(db, key_of(&agents, agent)?, key_of(&keys, &node.id)?)?;
        }
    }
    step::refresh(db, changed)?;

    let edits = growth.nodes.iter().any(|node| node.edited_from.is_some());
    let joins = arrivals.keys().any(|target| !places.contains_key(target));
    tree.epoch += u64::from(tree.nodes > 0 && (edits || joins));
    tree.root = root.map(|id| key_of(&keys, id)).transpose()?;
    tree.nodes += growth.nodes.len() as u64;
    tree.edges += growth.edges.len() as u64;
    tree.instructions += super::instructions(growth.edges.iter());
    change::put_shape(db, &tree)?;
    let mut heads = Heads::new(db)?;
    let grown = growth.nodes.iter();
    grown
        .map(|node| heads.head(key_of(&keys, &node.id)?))
        .collect()
}

/// Reads the existing nodes that the growth refers to, and their keys.
fn surroundings(
    db: &Connection,
    tree: &TreeRow,
    growth: &Growth,
    keys: &mut HashMap<String, i64>,
) -> Result<Surroundings, Fault> {
    let mut around = Surroundings::default();
    if let Some(root) = tree.root {
        let id = node_id(db, root)?;
        keys.insert(id.clone(), root);
        around.root = Some(id);
    }
    for node in &growth.nodes {
        if let Some(agent) = &node.author_agent_id {
            let mut select =
                db.prepare_cached("SELECT 1 FROM agents WHERE tree = ?1 AND id = ?2")?;
            if select.exists((tree.key, agent))? {
                around.agents.insert(agent.clone());
            }
        }
        if let Some(local) = &node.local_id {
            let found = named(db, tree, local)?;
            around.local_ids.extend(found.map(|id| (local.clone(), id)));
        }
    }
    for edge in &growth.edges {
        if tree.has_edge(db, &edge.id)? {
            around.edges.insert(edge.id.clone());
        }
    }
    let mut find = db.prepare_cached(
        "SELECT n.key, n.tree, t.id FROM nodes n JOIN trees t ON t.key = n.tree
         WHERE n.tenant = ?1 AND n.id = ?2",
    )?;
    let mut waiting = Vec::new();
    for id in growth.named_nodes() {
        let found = find.query_row((tree.tenant, id), |row| {
            Ok((
                row.get::<i64>(0)?,
                row.get::<i64>(1)?,
                row.get::<String>(2)?,
            ))
        });
        match found.optional()? {
            None => {}
            Some((key, its_tree, _)) if its_tree == tree.key => waiting.push(key),
            Some((_, _, its_tree)) => {
                around.elsewhere.insert(id.to_owned(), its_tree);
            }
        }
    }
    let mut seen: HashSet<i64> = waiting.iter().copied().collect();
    let mut select = db.prepare_cached(
        "SELECT id, arrivals > 0, step > 0, edited_from FROM nodes WHERE key = ?1",
    )?;
    let mut sources = db.prepare_cached(
        "SELECT s.node FROM edges e JOIN edge_sources s ON s.edge = e.key
         WHERE e.target = ?1 AND s.role = 'primary'",
    )?;
    // Ancestors matter only if an edge leads back to one.
    let ids: HashSet<&str> = growth.nodes.iter().map(|node| &*node.id).collect();
    let leads_back = growth
        .edges
        .iter()
        .any(|edge| !ids.contains(&*edge.target_node_id));
    while let Some(key) = waiting.pop() {
        let (id, reached, place_reached, edited_from) = select.query_row([key], |row| {
            Ok((
                row.get::<String>(0)?,
                row.get::<bool>(1)?,
                row.get::<bool>(2)?,
                row.get::<Option<i64>>(3)?,
            ))
        })?;
        // The row has a flag for this, so that chains of edits are not
        // followed.
        let reached = reached || place_reached && !leads_back;
        let edited_from = edited_from.filter(|_| !reached);
        let mut known = KnownNode {
            reached,
            sources: Vec::new(),
            edited_from: edited_from.map(|key| node_id(db, key)).transpose()?,
        };
        let mut before = Vec::new();
        if reached && leads_back {
            let found = sources.query_map([key], |row| row.get::<i64>(0))?;
            before = found.collect::<Result<Vec<i64>, _>>()?;
            let ids = before.iter().map(|&source| node_id(db, source));
            known.sources = ids.collect::<Result<_, _>>()?;
        }
        before.extend(edited_from);
        waiting.extend(before.into_iter().filter(|&key| seen.insert(key)));
        keys.insert(id.clone(), key);
        around.nodes.insert(id, known);
    }
    Ok(around)
}

/// Returns the id of the node with this short name.
fn named(db: &Connection, tree: &TreeRow, local_id: &str) -> Result<Option<String>, Fault> {
    let mut select = db.prepare_cached("SELECT id FROM nodes WHERE tree = ?1 AND local_id = ?2")?;
    let found = select.query_row((tree.key, local_id), |row| row.get(0));
    Ok(found.optional()?)
}

fn agent_keys(
    db: &Connection,
    tree: &TreeRow,
    growth: &Growth,
) -> Result<HashMap<String, i64>, Fault> {
    let mut keys = HashMap::new();
    for id in growth
        .nodes
        .iter()
        .filter_map(|node| node.author_agent_id.as_ref())
    {
        if !keys.contains_key(id) {
            keys.insert(id.clone(), agent_key(db, tree, id)?);
        }
    }
    Ok(keys)
}

/// Returns short names for the nodes: first for nodes with a given name, then
/// for the others by time and id.
fn local_ids(
    db: &Connection,
    tree: &TreeRow,
    growth: &Growth,
    now: Timestamp,
) -> Result<Vec<String>, Fault> {
    let nodes = &growth.nodes;
    let mut names: Vec<Option<String>> = nodes.iter().map(|node| node.local_id.clone()).collect();
    let mut taken: HashSet<String> = names.iter().flatten().cloned().collect();
    let mut nameless: Vec<usize> = (0..nodes.len()).filter(|&i| names[i].is_none()).collect();
    nameless.sort_by_key(|&i| (created_at(&nodes[i], now).as_millisecond(), &nodes[i].id));
    for i in nameless {
        let failed = RefCell::new(None);
        let name = local_id(&nodes[i].id, |name| {
            let found = named(db, tree, name).map(|found| found.is_some());
            let is_named = found.unwrap_or_else(|fault| {
                failed.replace(Some(fault));
                false
            });
            is_named || taken.contains(name)
        });
        if let Some(fault) = failed.into_inner() {
            return Err(fault);
        }
        taken.insert(name.clone());
        names[i] = Some(name);
    }
    Ok(names.into_iter().flatten().collect())
}
