//! Updates the step of each node: how the node is reached from its parent.

use std::collections::{BTreeSet, HashMap};

use crate::driver::Connection;
use contexture_store::{EdgeKind, Step, TreeDocument};

use crate::error::Fault;
use crate::row::Word;

/// Updates, for each node of a document, the number of incoming edges and the
/// step.
pub(super) fn set(
    db: &Connection,
    document: &TreeDocument,
    keys: &HashMap<String, i64>,
) -> Result<(), Fault> {
    let mut arrivals: HashMap<&str, i64> = HashMap::new();
    for edge in &document.edges {
        *arrivals.entry(&edge.target_node_id).or_default() += 1;
    }
    let mut update = db.prepare_cached(
        "UPDATE nodes SET arrivals = ?2, step = ?3, parent = ?4
         WHERE key = ?1 AND (arrivals, step, parent) IS DISTINCT FROM (?2, ?3, ?4)",
    )?;
    for (node, step) in document.nodes.iter().zip(document.steps()) {
        let (step, parent) = match &step {
            Step::Nothing => (0, None),
            Step::Plain { parent } => (1, keys.get(parent).copied()),
            Step::Look => (2, None),
        };
        let arrivals = arrivals.get(&*node.id).copied().unwrap_or(0);
        update.execute((keys.get(&node.id).copied(), arrivals, step, parent))?;
    }
    Ok(())
}

/// Computes the steps of nodes again, and of the edits that replace these
/// nodes.
pub(super) fn refresh(db: &Connection, nodes: impl IntoIterator<Item = i64>) -> Result<(), Fault> {
    let mut select =
        db.prepare_cached("SELECT arrivals, edited_from, step, parent FROM nodes WHERE key = ?1")?;
    let mut sources = db.prepare_cached(
        "SELECT e.kind, s.node FROM edges e JOIN edge_sources s ON s.edge = e.key
         WHERE e.target = ?1 LIMIT 2",
    )?;
    let mut update = db.prepare_cached("UPDATE nodes SET step = ?2, parent = ?3 WHERE key = ?1")?;
    let mut edits =
        db.prepare_cached("SELECT key FROM nodes WHERE edited_from = ?1 AND arrivals = 0")?;
    let mut waiting: BTreeSet<i64> = nodes.into_iter().collect();
    while let Some(node) = waiting.pop_first() {
        type Reached = (i64, Option<i64>);
        let (arrivals, edited_from, before) = select.query_row([node], |row| {
            let before: Reached = (row.get(2)?, row.get(3)?);
            Ok((row.get::<i64>(0)?, row.get::<Option<i64>>(1)?, before))
        })?;
        let now: Reached = match (arrivals, edited_from) {
            (0, None) => (0, None),
            (0, Some(from)) => select.query_row([from], |row| Ok((row.get(2)?, row.get(3)?)))?,
            (1, _) => {
                let found = sources.query_map([node], |row| {
                    Ok((row.get::<Word<EdgeKind>>(0)?.0, row.get::<i64>(1)?))
                })?;
                match found.collect::<Result<Vec<_>, _>>()?.as_slice() {
                    [(EdgeKind::Continuation, source)] if !edits.exists([source])? => {
                        (1, Some(*source))
                    }
                    _ => (2, None),
                }
            }
            _ => (2, None),
        };
        if now != before {
            update.execute((node, now.0, now.1))?;
            let in_place = edits.query_map([node], |row| row.get::<i64>(0))?;
            waiting.extend(in_place.collect::<Result<Vec<_>, _>>()?);
        }
    }
    Ok(())
}

/// Returns the targets of a node's outgoing edges.
pub(super) fn targets(db: &Connection, source: i64) -> Result<Vec<i64>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT e.target FROM edge_sources s JOIN edges e ON e.key = s.edge WHERE s.node = ?1",
    )?;
    let found = select.query_map([source], |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}
