//! The content, token counts and raw responses of nodes.

use crate::driver::{Connection, OptionalExtension};
use contexture_core::Tokens;
use contexture_store::{CountedNode, MessageContent, NodeHead, RawResponse};

use super::TreeRow;
use super::head::Heads;
use super::insert::node_sum;
use crate::error::Fault;
use crate::row::Json;
use crate::{record, turns};

pub(super) fn nodes(
    db: &Connection,
    tenant: i64,
    tree: &str,
    ids: &[&str],
    counter: &str,
) -> Result<Vec<CountedNode>, Fault> {
    let tree = TreeRow::find(db, tenant, tree)?;
    let counter = turns::counter(db, tenant, counter)?;
    let mut heads = Heads::new(db)?;
    let mut contents = db.prepare_cached(
        "SELECT c.content, k.blocks, c.sum FROM node_contents c
         LEFT JOIN node_counts k ON k.node = c.node AND k.counter = ?2 WHERE c.node = ?1",
    )?;
    ids.iter()
        .map(|id| {
            let key = tree.node(db, id)?;
            let mut row = heads.row(key)?;
            // The caller does not use the parent.
            (row.step, row.parent) = (0, None);
            let head = heads.named(row, None)?;
            // A damaged index can return another, undamaged node.
            if head.id != *id {
                return Err(damaged(id));
            }
            let (content, tokens, intact) = contents.query_row((key, counter), |row| {
                let intact = is_intact(&head, row.get_ref(0)?.as_str()?, row.get(2)?);
                let content = row.get::<Json<MessageContent>>(0)?.0;
                Ok((content, crate::row::json(row, 1)?, intact))
            })?;
            if !intact {
                return Err(damaged(&head.id));
            }
            let node = head.with(content, None);
            Ok(CountedNode { node, tokens })
        })
        .collect()
}

/// Returns true when a node equals the stored one. Nodes from before version 13
/// have no checksum and pass.
pub(crate) fn is_intact(head: &NodeHead, content: &str, sum: Option<[u8; 16]>) -> bool {
    let now = || node_sum(&head.id, head.author.name(), head.created_at, content);
    sum.is_none_or(|sum| sum == now())
}

pub(super) fn damaged(id: &str) -> Fault {
    Fault::damaged(format!("node `{id}`"), "it does not match its hash")
}

pub(super) fn put_counts(
    db: &Connection,
    tenant: i64,
    tree: &str,
    counter: &str,
    counts: &[(String, Vec<Tokens>)],
) -> Result<(), Fault> {
    let tree = TreeRow::find(db, tenant, tree)?;
    if counts.is_empty() {
        return Ok(());
    }
    let counter = record::counter(db, tenant, counter)?;
    let mut insert = db.prepare_cached(
        "INSERT INTO node_counts (node, counter, blocks) VALUES (?1, ?2, ?3)
         ON CONFLICT DO NOTHING",
    )?;
    for (id, blocks) in counts {
        insert.execute((tree.node(db, id)?, counter, Json(blocks)))?;
    }
    Ok(())
}

pub(super) fn raw_response(
    db: &Connection,
    tenant: i64,
    tree: &str,
    node: &str,
) -> Result<Option<RawResponse>, Fault> {
    let node = TreeRow::find(db, tenant, tree)?.node(db, node)?;
    let mut select = db.prepare_cached("SELECT response FROM raw_responses WHERE node = ?1")?;
    let found = select.query_row([node], |row| row.get::<Json<_>>(0));
    Ok(found.optional()?.map(|response| response.0))
}
