//! Deletes a tree, at once or in steps.
//!
//! Before the first step, the tree is hidden. Its rows are then deleted in an order in
//! which no row refers to a deleted one.
//!
//! Requests of a tree are saved under labels of their own (`loom:TREE`, and
//! `loom:TREE/AGENT` for each agent). They contain the text of nodes, so they are
//! deleted with the tree.

use contexture_store::Retention;

use super::steps::{Counts, UNCOUNTED, snapshots_step};
use super::{Garbage, delete_rows};
use crate::driver::{Connection, OptionalExtension};
use crate::error::Fault;
use crate::events;
use crate::row::limit;

/// Returns the key of a tree.
pub(super) fn find(db: &Connection, tenant: i64, id: &str) -> Result<i64, Fault> {
    let mut select = db.prepare_cached(
        "SELECT key FROM trees WHERE tenant = ?1 AND id = ?2 AND deleted IS NULL",
    )?;
    let found = select.query_row((tenant, id), |row| row.get(0));
    found
        .optional()?
        .ok_or_else(|| Fault::not_found("tree", id))
}

/// Returns the key of a tree that is being deleted.
pub(super) fn find_deleted(db: &Connection, tenant: i64, id: &str) -> Result<Option<i64>, Fault> {
    let mut select =
        db.prepare_cached("SELECT key FROM trees WHERE tenant = ?1 AND id = ?2 AND deleted = 1")?;
    let found = select.query_row((tenant, id), |row| row.get(0));
    Ok(found.optional()?)
}

/// Returns the labels under which the requests of a tree are saved.
fn labels(db: &Connection, id: &str, key: i64) -> Result<Vec<String>, Fault> {
    let mut select = db.prepare_cached("SELECT id FROM agents WHERE tree = ?1 ORDER BY key")?;
    let mut labels = vec![format!("loom:{id}")];
    for agent in select.query_map([key], |row| row.get::<String>(0))? {
        labels.push(format!("loom:{id}/{}", agent?));
    }
    Ok(labels)
}

/// Deletes a tree and its requests.
pub(super) fn delete(db: &Connection, tenant: i64, id: &str, key: i64) -> Result<Counts, Fault> {
    let mut snapshots = 0;
    let mut delete =
        db.prepare_cached("DELETE FROM snapshots WHERE tenant = ?1 AND session = ?2")?;
    for label in labels(db, id, key)? {
        snapshots += delete.change((tenant, &label))? as u64;
        events::forget_session(db, tenant, &label)?;
    }
    let mut counts = delete_tree_rows(db, key)?;
    // Content that only these requests had.
    if snapshots > 0 {
        let content = Garbage::find(db, tenant, &Retention::default())?;
        content.delete(db, tenant)?;
        counts.extend(content.counts());
        counts.insert("snapshots".to_owned(), snapshots);
    }
    Ok(counts)
}

fn delete_tree_rows(db: &Connection, key: i64) -> Result<Counts, Fault> {
    const NODES: &str = "node IN (SELECT key FROM nodes WHERE tree = ?1)";
    const AGENTS: &str = "agent IN (SELECT key FROM agents WHERE tree = ?1)";
    let by_node = |table: &str| format!("DELETE FROM {table} WHERE {NODES}");
    let by_agent = |table: &str| format!("DELETE FROM {table} WHERE {AGENTS}");
    let (counts, contents, responses) = (
        by_node("node_counts"),
        by_node("node_contents"),
        by_node("raw_responses"),
    );
    let (pins, stashes, actions) = (by_agent("pins"), by_agent("stashes"), by_agent("actions"));
    delete_rows(
        db,
        key,
        &[
            ("", &counts),
            ("", &contents),
            ("", &responses),
            ("", &pins),
            ("", &stashes),
            ("", &actions),
            (
                "",
                "DELETE FROM edge_sources WHERE edge IN (SELECT key FROM edges WHERE tree = ?1)",
            ),
            ("edges", "DELETE FROM edges WHERE tree = ?1"),
            ("paths", "DELETE FROM saved_paths WHERE tree = ?1"),
            ("agents", "DELETE FROM agents WHERE tree = ?1"),
            ("nodes", "DELETE FROM nodes WHERE tree = ?1"),
            ("trees", "DELETE FROM trees WHERE key = ?1"),
        ],
    )
}

/// Hides a tree, so that it can be deleted in steps. Its id and those of its nodes cannot
/// be used again before the end.
pub(super) fn hide(db: &Connection, tenant: i64, id: &str) -> Result<(), Fault> {
    delete_rows(
        db,
        find(db, tenant, id)?,
        &[
            (
                "",
                "UPDATE trees SET deleted = 1, root = NULL WHERE key = ?1",
            ),
            ("", "UPDATE agents SET position = NULL WHERE tree = ?1"),
        ],
    )?;
    Ok(())
}

/// The statements of the steps before the nodes. Those of a step are run together. `?1` is
/// the key of the tree, and `?2` the most rows.
const STEPS: [(&str, &[&str]); 5] = [
    (
        UNCOUNTED,
        &["DELETE FROM pins WHERE (agent, seq) IN (
             SELECT p.agent, p.seq FROM agents a JOIN pins p ON p.agent = a.key
             WHERE a.tree = ?1 LIMIT ?2)"],
    ),
    (
        UNCOUNTED,
        &["DELETE FROM stashes WHERE (agent, name) IN (
             SELECT s.agent, s.name FROM agents a JOIN stashes s ON s.agent = a.key
             WHERE a.tree = ?1 LIMIT ?2)"],
    ),
    (
        UNCOUNTED,
        &["DELETE FROM actions WHERE (agent, seq) IN (
             SELECT c.agent, c.seq FROM agents a JOIN actions c ON c.agent = a.key
             WHERE a.tree = ?1 LIMIT ?2)"],
    ),
    (
        "paths",
        &["DELETE FROM saved_paths WHERE tree = ?1 AND name IN (
             SELECT name FROM saved_paths WHERE tree = ?1 ORDER BY name LIMIT ?2)"],
    ),
    (
        "edges",
        &[
            "DELETE FROM edge_sources WHERE edge IN (
                 SELECT key FROM edges WHERE tree = ?1 ORDER BY key LIMIT ?2)",
            "DELETE FROM edges WHERE key IN (
                 SELECT key FROM edges WHERE tree = ?1 ORDER BY key LIMIT ?2)",
        ],
    ),
];

/// Deletes the first of these rows of a hidden tree: snapshots, rows of agents, saved
/// paths, edges, and nodes with their content.
pub(super) fn step(
    db: &Connection,
    tenant: i64,
    id: &str,
    key: i64,
    most: usize,
) -> Result<Counts, Fault> {
    for label in labels(db, id, key)? {
        let deleted = snapshots_step(db, tenant, &label, most)?;
        if !deleted.is_empty() {
            return Ok(deleted);
        }
    }
    for (name, statements) in STEPS {
        let mut rows = 0;
        for sql in statements {
            rows = db.prepare_cached(sql)?.change((key, limit(most)))? as u64;
        }
        if rows > 0 {
            return Ok(Counts::from([(name.to_owned(), rows)]));
        }
    }
    let nodes = delete_nodes(db, key, most)?;
    Ok((nodes > 0)
        .then(|| ("nodes".to_owned(), nodes))
        .into_iter()
        .collect())
}

/// Deletes the newest nodes of a hidden tree. Its edges are deleted.
fn delete_nodes(db: &Connection, tree: i64, most: usize) -> Result<u64, Fault> {
    let mut select = db.prepare_cached(
        "SELECT min(key) FROM (
             SELECT key FROM nodes WHERE tree = ?1 ORDER BY key DESC LIMIT ?2) AS newest",
    )?;
    let Some(first) = select.query_row((tree, limit(most)), |row| row.get::<Option<i64>>(0))?
    else {
        return Ok(0);
    };
    const NODES: &str = "(SELECT key FROM nodes WHERE tree = ?1 AND key >= ?2)";
    db.defer_references()?;
    for sql in [
        // Older nodes can follow newer ones.
        "UPDATE nodes SET step = 2, parent = NULL WHERE tree = ?1 AND key < ?2 AND parent >= ?2",
        "UPDATE nodes SET edited_from = NULL WHERE tree = ?1 AND key < ?2 AND edited_from >= ?2",
        &format!("DELETE FROM node_counts WHERE node IN {NODES}"),
        &format!("DELETE FROM node_contents WHERE node IN {NODES}"),
        &format!("DELETE FROM raw_responses WHERE node IN {NODES}"),
    ] {
        db.prepare_cached(sql)?.execute((tree, first))?;
    }
    let nodes = "DELETE FROM nodes WHERE tree = ?1 AND key >= ?2";
    Ok(db.prepare_cached(nodes)?.change((tree, first))? as u64)
}
