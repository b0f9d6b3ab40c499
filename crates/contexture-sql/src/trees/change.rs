//! Changes of settings, agents, paths, flags and agent memories.

use crate::driver::Connection;
use crate::params;
use contexture_store::{FlagChange, MemoryChange, Pin, TreeChange};
use jiff::Timestamp;

use super::insert::{place_agent, put_agent, put_path};
use super::{TreeRow, agent_key, memory};
use crate::error::Fault;
use crate::row::{Json, number};

pub(super) fn change(
    db: &Connection,
    tenant: i64,
    tree: &str,
    change: &TreeChange,
    now: Timestamp,
) -> Result<(), Fault> {
    let mut tree = TreeRow::find(db, tenant, tree)?;
    match change {
        TreeChange::Settings(settings) => {
            settings.apply(&mut tree.tree);
            tree.tree.check("")?;
            put_settings(db, &tree)
        }
        TreeChange::Agent(agent) => {
            let position = agent.position.as_deref();
            let position = position.map(|id| tree.node_if_any(db, id)).transpose()?;
            agent.check("", |_| matches!(position, Some(Some(_))))?;
            let key = put_agent(db, &tree, agent)?;
            match position.flatten() {
                Some(node) => place_agent(db, key, node),
                None => Ok(()),
            }
        }
        TreeChange::Path(path) => {
            let head = tree.node_if_any(db, &path.head)?;
            let mut known = Vec::new();
            for choice in &path.choices {
                if tree.has_edge(db, choice)? || tree.node_if_any(db, choice)?.is_some() {
                    known.push(choice.as_str());
                }
            }
            path.check(
                "",
                |id| id == path.head && head.is_some() || known.contains(&id),
                |_| false,
            )?;
            let head = head.ok_or_else(|| Fault::not_found("node", &path.head))?;
            put_path(db, &tree, path, head)
        }
        TreeChange::Flags { node, change } => {
            let node = tree.node(db, node)?;
            if change_flags(db, node, *change)? {
                tree.epoch += 1;
                put_shape(db, &tree)?;
            }
            Ok(())
        }
        TreeChange::Memory { agent, change } => {
            let agent = agent_key(db, &tree, agent)?;
            let is_node = match change {
                MemoryChange::Pin(Pin {
                    node_id: Some(id), ..
                }) => tree.node_if_any(db, id)?.is_some(),
                _ => false,
            };
            change.check(|_| is_node)?;
            memory::change(db, &tree, agent, change, now)
        }
    }
}

/// Writes all settings of a tree.
pub(super) fn put_settings(db: &Connection, row: &TreeRow) -> Result<(), Fault> {
    let tree = &row.tree;
    db.prepare_cached(
        "UPDATE trees SET title = ?2, system_context = ?3, buffer_mode_system_context = ?4,
             preferences = ?5 WHERE key = ?1",
    )?
    .execute(params![
        row.key,
        tree.title,
        tree.system_context,
        tree.buffer_mode_system_context,
        Json(tree.preferences),
    ])?;
    Ok(())
}

/// Writes the summary columns of a tree's row, such as its counts.
pub(super) fn put_shape(db: &Connection, tree: &TreeRow) -> Result<(), Fault> {
    db.prepare_cached(
        "UPDATE trees SET root = ?2, epoch = ?3, nodes = ?4, edges = ?5, instructions = ?6
         WHERE key = ?1",
    )?
    .execute(params![
        tree.key,
        tree.root,
        number("epoch", tree.epoch)?,
        number("nodes", tree.nodes)?,
        number("edges", tree.edges)?,
        number("instructions", tree.instructions)?,
    ])?;
    Ok(())
}

/// Changes flags of a node. Returns false when nothing changed.
pub(super) fn change_flags(db: &Connection, node: i64, change: FlagChange) -> Result<bool, Fault> {
    let changed = db
        .prepare_cached(
            "UPDATE nodes SET excluded = coalesce(?2, excluded), pruned = coalesce(?3, pruned),
                 bookmarked = coalesce(?4, bookmarked)
             WHERE key = ?1 AND (excluded, pruned, bookmarked) IS DISTINCT FROM
                 (coalesce(?2, excluded), coalesce(?3, pruned), coalesce(?4, bookmarked))",
        )?
        .change((node, change.excluded, change.pruned, change.bookmarked))?;
    Ok(changed > 0)
}
