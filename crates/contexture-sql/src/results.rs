//! Lists tool results, images and documents by their handles.

use contexture_sql_archive::message_key::message_key;
use contexture_sql_archive::unlisted;
use contexture_store::{
    Block, Handle, HandlePrefix, LEAST_FETCHABLE_BYTES, Message, StoreError, ToolResult, fetchable,
};

use crate::driver::{Connection, Writes};
use crate::error::Fault;
use crate::turns;

/// How many turns are listed in one transaction.
const TURNS_AT_ONCE: i64 = 256;

/// A tool result that can be fetched: the index of its block, and its handle.
pub(crate) type Listed = (usize, Handle);

/// Returns the tool results of a message that can be fetched.
pub(crate) fn of_message(message: &Message) -> Vec<Listed> {
    let blocks = message.blocks();
    let blocks = blocks.iter().enumerate();
    let listed = blocks.filter_map(|(at, block)| Some((at, Handle::of(fetchable(block)?))));
    listed.collect()
}

/// Lists tool results of a message.
pub(crate) fn insert(
    db: &Connection,
    tenant: i64,
    message: i64,
    listed: &[Listed],
) -> Result<(), Fault> {
    let mut rows = db.writes(INSERT)?;
    add(&mut rows, tenant, message, listed)?;
    Ok(rows.flush()?)
}

/// Inserts a tool result.
pub(crate) const INSERT: &str = "INSERT INTO tool_results (tenant, handle, message, block)
    VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";

/// Adds the tool results of a message to the rows of [`INSERT`].
pub(crate) fn add(
    rows: &mut Writes<'_>,
    tenant: i64,
    message: i64,
    listed: &[Listed],
) -> Result<(), Fault> {
    for (block, handle) in listed {
        rows.add((tenant, handle.as_bytes(), message, *block as i64))?;
    }
    Ok(())
}

/// The result of a search for a handle.
pub(crate) enum Search {
    Found(ToolResult),
    /// The handle was not found, but some turns are not listed yet.
    Unlisted,
}

pub(crate) fn find(db: &Connection, tenant: i64, prefix: &HandlePrefix) -> Result<Search, Fault> {
    let (first, last) = prefix.range();
    let mut select = db.prepare_cached(
        "SELECT handle, message, block FROM tool_results
         WHERE tenant = ?1 AND handle BETWEEN ?2 AND ?3 ORDER BY handle LIMIT 2",
    )?;
    let rows = select.query_map((tenant, first.as_bytes(), last.as_bytes()), |row| {
        let handle = Handle::from_bytes(row.get(0)?);
        Ok((handle, row.get::<i64>(1)?, row.get::<i64>(2)?))
    })?;
    let rows: Vec<(Handle, i64, i64)> = rows.collect::<Result<_, _>>()?;
    match rows[..] {
        [] if unlisted::next(db, tenant)?.is_some() => Ok(Search::Unlisted),
        [] => Err(Fault::not_found("tool result", prefix)),
        [(handle, message, block)] => {
            let message = turns::message(db, message)?;
            let block = message.blocks().into_iter().nth(block as usize);
            let block = block.map(std::borrow::Cow::into_owned);
            let text = block.as_ref().and_then(fetchable).map(str::to_owned);
            let Some(text) = text else {
                return Err(Fault::not_found("tool result", prefix));
            };
            let media = block.as_ref().and_then(Block::media);
            Ok(Search::Found(ToolResult {
                handle,
                text,
                media_type: media.map(|media| media.media_type),
            }))
        }
        _ => Err(Fault::Refused(StoreError::invalid(
            "handle",
            format!("{prefix} matches several tool results; give more digits"),
        ))),
    }
}

/// Lists the tool results of some turns that are not listed yet.
pub(crate) fn list_some(db: &Connection, tenant: i64) -> Result<(), Fault> {
    let Some(range) = unlisted::next(db, tenant)? else {
        return Ok(());
    };
    let end = (range.next)
        .saturating_add(TURNS_AT_ONCE)
        .min(range.last + 1);
    let mut select = db.prepare_cached(
        "SELECT m.key, t.tenant FROM messages m JOIN turns t ON t.key = m.turn
         WHERE m.key >= ?1 AND m.key < ?2 AND length(m.content) >= ?3
             AND (m.role = 'tool' OR m.content LIKE '%\"tool_result\"%')
             AND (?4 IS NULL OR t.tenant = ?4)",
    )?;
    let keys = (
        message_key(range.next, 0),
        message_key(end, 0),
        LEAST_FETCHABLE_BYTES as i64,
        range.tenant,
    );
    let keys = select.query_map(keys, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let keys: Vec<(i64, i64)> = keys.collect::<Result<_, _>>()?;
    for (key, tenant) in keys {
        let listed = of_message(&turns::message(db, key)?);
        insert(db, tenant, key, &listed)?;
    }
    let sql = match end > range.last {
        true => {
            "DELETE FROM unlisted_results
             WHERE next = ?1 AND tenant IS NOT DISTINCT FROM ?2 AND ?3 > 0"
        }
        false => {
            "UPDATE unlisted_results SET next = ?3
             WHERE next = ?1 AND tenant IS NOT DISTINCT FROM ?2"
        }
    };
    db.prepare_cached(sql)?
        .execute((range.next, range.tenant, end))?;
    Ok(())
}
