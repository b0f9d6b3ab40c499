//! Finds nodes, and walks to their parents and children.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::driver::{Connection, OptionalExtension};
use contexture_store::{
    Arrival, Connections, Edge, EdgeKind, EdgeSource, LOCAL_ID_CHARS, NodeHead, SourceRole,
    StoreError,
};

use super::head::{HeadRow, Heads};
use super::{TreeRow, node_id};
use crate::error::Fault;
use crate::row::Word;

/// The smallest length of an id prefix, in characters.
const SHORTEST_BEGINNING: usize = 4;

/// The number of nodes that the error for an ambiguous prefix lists.
const MOST_NAMED: usize = 3;

pub(super) fn find_node(
    db: &Connection,
    tenant: i64,
    tree: &str,
    name: &str,
) -> Result<NodeHead, Fault> {
    let tree = TreeRow::find(db, tenant, tree)?;
    let mut heads = Heads::new(db)?;
    if let Some(key) = tree.node_if_any(db, name)? {
        return heads.head(key);
    }
    let mut by_local_id =
        db.prepare_cached("SELECT key, id FROM nodes WHERE tree = ?1 AND local_id = ?2")?;
    let mut local = |local_id: &str| {
        let found = by_local_id.query_row((tree.key, local_id), |row| {
            Ok((row.get::<i64>(0)?, row.get::<String>(1)?))
        });
        found.optional()
    };
    if let Some((key, _)) = local(name)? {
        return heads.head(key);
    }
    if name.chars().count() < SHORTEST_BEGINNING {
        return Err(Fault::not_found("node", name));
    }
    // Short names are prefixes of ids. If an id begins with `name`, either its
    // short name begins with `name`, or its short name is a prefix of `name`.
    let mut found: Vec<(i64, String)> = Vec::new();
    let ends = name.char_indices().map(|(at, c)| at + c.len_utf8());
    for end in ends.skip(LOCAL_ID_CHARS - 1) {
        found.extend(local(&name[..end])?.filter(|(_, id)| id.starts_with(name)));
    }
    let mut by_prefix = db.prepare_cached(
        "SELECT key, id, local_id FROM nodes WHERE tree = ?1 AND local_id > ?2
             AND local_id < ?3 ORDER BY local_id",
    )?;
    // Names that begin with `name` are adjacent. A few of them are a whole id
    // with a number after it; those are skipped.
    let beyond = format!("{name}{}", char::MAX);
    by_prefix.for_each((tree.key, name, beyond), |row| {
        let local_id = row.get_ref(2)?.as_str()?;
        if found.len() > MOST_NAMED || !local_id.starts_with(name) {
            return Ok(ControlFlow::Break(()));
        }
        let id: String = row.get(1)?;
        // A number after a whole id is not part of a prefix.
        if id.starts_with(name) {
            found.push((row.get(0)?, id));
        }
        Ok::<_, Fault>(ControlFlow::Continue(()))
    })?;
    match found.as_slice() {
        [] => Err(Fault::not_found("node", name)),
        [(key, _)] => heads.head(*key),
        several => {
            let mut named: Vec<String> = several
                .iter()
                .take(MOST_NAMED)
                .map(|(_, id)| format!("`{id}`"))
                .collect();
            if several.len() > MOST_NAMED {
                named.push("...".to_owned());
            }
            let message = format!(
                "several nodes begin with `{name}`: {}; give more of the id",
                named.join(", ")
            );
            Err(StoreError::invalid("node", message).into())
        }
    }
}

pub(super) fn climb(
    db: &Connection,
    tenant: i64,
    tree: &str,
    from: &str,
    limit: usize,
) -> Result<Vec<NodeHead>, Fault> {
    let tree = TreeRow::find(db, tenant, tree)?;
    let mut next = Some(tree.node(db, from)?);
    let mut heads = Heads::new(db)?;
    let mut climbed = Vec::new();
    // The next row has the id of the parent of the previous row.
    let mut before: Option<HeadRow> = None;
    let mut rows = 0;
    while let Some(key) = next.take()
        && rows < limit
    {
        rows += 1;
        let row = heads.row_above(key)?;
        if let Some(below) = before.take() {
            climbed.push(heads.named(below, Some(row.id()))?);
        }
        next = row.parent;
        before = Some(row);
    }
    if let Some(last) = before {
        climbed.push(heads.named(last, None)?);
    }
    Ok(climbed)
}

pub(super) fn arrivals(
    db: &Connection,
    tenant: i64,
    tree: &str,
    node: &str,
) -> Result<Vec<Arrival>, Fault> {
    let tree = TreeRow::find(db, tenant, tree)?;
    let place = place(db, tree.node(db, node)?)?;
    let target_node_id = node_id(db, place)?;
    let mut heads = Heads::new(db)?;
    let mut edges =
        db.prepare_cached("SELECT key, id, kind FROM edges WHERE target = ?1 ORDER BY id")?;
    let found = edges.query_map([place], |row| {
        Ok((
            row.get::<i64>(0)?,
            row.get::<String>(1)?,
            row.get::<Word<EdgeKind>>(2)?.0,
        ))
    })?;
    found
        .map(|edge| {
            let (key, id, kind) = edge?;
            let (sources, primary) = sources(db, key)?;
            Ok(Arrival {
                edge: Edge {
                    id,
                    kind,
                    sources,
                    target_node_id: target_node_id.clone(),
                },
                versions: versions(db, &mut heads, &primary)?,
            })
        })
        .collect()
}

/// Returns the original of an edited node, or the node itself.
fn place(db: &Connection, node: i64) -> Result<i64, Fault> {
    let mut select =
        db.prepare_cached("SELECT edited_from FROM nodes WHERE key = ?1 AND arrivals = 0")?;
    let mut place = node;
    loop {
        let from = select.query_row([place], |row| row.get::<Option<i64>>(0));
        match from.optional()?.flatten() {
            Some(from) => place = from,
            None => return Ok(place),
        }
    }
}

/// Returns the sources of an edge, and the keys of the primary ones.
fn sources(db: &Connection, edge: i64) -> Result<(Vec<EdgeSource>, Vec<i64>), Fault> {
    let mut select = db.prepare_cached(
        "SELECT s.node, n.id, s.role FROM edge_sources s JOIN nodes n ON n.key = s.node
         WHERE s.edge = ?1 ORDER BY s.seq",
    )?;
    let mut primary = Vec::new();
    let found = select.query_map([edge], |row| {
        let role = row.get::<Word<_>>(2)?.0;
        if role == SourceRole::Primary {
            primary.push(row.get(0)?);
        }
        Ok(EdgeSource {
            node_id: row.get(1)?,
            role,
        })
    })?;
    let sources = found.collect::<Result<_, _>>()?;
    Ok((sources, primary))
}

/// Returns primary sources, each followed by its edits.
pub(super) fn versions(
    db: &Connection,
    heads: &mut Heads<'_>,
    primary: &[i64],
) -> Result<Vec<NodeHead>, Fault> {
    let mut edits =
        db.prepare_cached("SELECT key FROM nodes WHERE edited_from = ?1 AND arrivals = 0")?;
    let mut seen: BTreeSet<i64> = primary.iter().copied().collect();
    let mut versions = Vec::new();
    for &source in primary {
        versions.push(heads.head(source)?);
        let mut in_place = Vec::new();
        let mut next = vec![source];
        while let Some(node) = next.pop() {
            let found = edits.query_map([node], |row| row.get::<i64>(0))?;
            for edit in found {
                let edit = edit?;
                if seen.insert(edit) {
                    in_place.push(heads.head(edit)?);
                    next.push(edit);
                }
            }
        }
        in_place.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        versions.extend(in_place);
    }
    Ok(versions)
}

pub(super) fn connections(
    db: &Connection,
    tenant: i64,
    tree: &str,
    ids: &[&str],
) -> Result<Vec<Connections>, Fault> {
    let tree = TreeRow::find(db, tenant, tree)?;
    let mut select = db.prepare_cached(
        "SELECT count(*) FILTER (WHERE s.role = 'primary' AND e.kind = 'continuation'),
             count(*) FILTER (WHERE s.role = 'primary' AND e.kind = 'annotation'),
             count(*) FILTER (WHERE s.role <> 'primary')
         FROM edge_sources s JOIN edges e ON e.key = s.edge WHERE s.node = ?1",
    )?;
    ids.iter()
        .map(|id| {
            let node = tree.node(db, id)?;
            Ok(select.query_row([node], |row| {
                Ok(Connections {
                    continuations: crate::row::unsigned(row, 0)?,
                    annotations: crate::row::unsigned(row, 1)?,
                    links: crate::row::unsigned(row, 2)?,
                })
            })?)
        })
        .collect()
}

pub(super) fn annotations(
    db: &Connection,
    tenant: i64,
    tree: &str,
    ids: &[&str],
) -> Result<Vec<(String, NodeHead)>, Fault> {
    let tree = TreeRow::find(db, tenant, tree)?;
    let mut heads = Heads::new(db)?;
    let mut select = db.prepare_cached(
        "SELECT DISTINCT n.key, n.created_at, n.id FROM edge_sources s
         JOIN edges e ON e.key = s.edge JOIN nodes n ON n.key = e.target
         WHERE s.node = ?1 AND s.role = 'primary' AND e.kind = 'annotation'
         ORDER BY n.created_at, n.id",
    )?;
    let mut remarks = Vec::new();
    for id in ids {
        let node = tree.node(db, id)?;
        for target in select.query_map([node], |row| row.get::<i64>(0))? {
            remarks.push(((*id).to_owned(), heads.head(target?)?));
        }
    }
    Ok(remarks)
}
