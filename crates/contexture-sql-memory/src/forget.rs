//! Deletes records from all tables.
//!
//! The connection overwrites deleted rows. The writer overwrites the copies
//! that SQLite leaves when it moves rows. No bytes of a deleted record remain.

use crate::driver::Connection;
use contexture_store::{Forget, Forgotten, RecordKind};

use super::batch::Batch;
use super::{kind, kind_of, load, number_of};
use crate::error::Fault;
use crate::row::Time;
use crate::tasks;

/// Deletes records, and everything that was derived only from them.
pub fn forget(db: &Connection, tenant: i64, what: &Forget) -> Result<Forgotten, Fault> {
    let mut batch = Batch::open(db, tenant)?;
    let named = named(db, tenant, what)?;
    for (kind, key) in &named {
        batch.forget(*kind, *key)?;
    }
    batch.close()?;
    let mut gone = std::mem::take(&mut batch.deleted);
    if let Forget::Id { kind, id } = what
        && kind.is_none_or(|kind| kind == RecordKind::Task)
        && tasks::forget(db, tenant, id)?
    {
        gone.insert(RecordKind::Task, 1);
    }
    if gone.is_empty() {
        return Err(match what {
            Forget::Id { kind, id } => {
                Fault::not_found(kind.map_or("record", RecordKind::name), id)
            }
            Forget::Source(source) => Fault::not_found("record of source", source),
            Forget::Session(session) => Fault::not_found("record of session", session),
        });
    }
    Ok(Forgotten {
        forgotten: gone,
        pending: false,
    })
}

/// Deletes events and chunks from before a time, and returns the number of
/// deleted records. A dry run only counts the events and chunks.
pub fn forget_older(
    db: &Connection,
    tenant: i64,
    before: Time,
    dry_run: bool,
) -> Result<u64, Fault> {
    let mut select = db.prepare_cached(
        "SELECT kind, key FROM memories WHERE tenant = ?1 AND kind <= 1 AND at < ?2 ORDER BY key",
    )?;
    let found = select.query_map((tenant, before), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found: Vec<(i64, i64)> = found.collect::<Result<_, _>>()?;
    if dry_run || found.is_empty() {
        return Ok(found.len() as u64);
    }
    let mut batch = Batch::open(db, tenant)?;
    for (kind, key) in found {
        batch.forget(kind, key)?;
    }
    batch.close()?;
    Ok(batch.deleted.values().sum())
}

/// Returns the records that the request selects, with their kinds.
fn named(db: &Connection, tenant: i64, what: &Forget) -> Result<Vec<(i64, i64)>, Fault> {
    let (sql, name) = match what {
        Forget::Id { kind, id } => {
            let mut found = load::keys(db, tenant, &[id])?;
            found.retain(|(is, _)| kind.is_none_or(|kind| kind == *is));
            let numbered = |(kind, key)| Some((number_of(kind)?, key));
            return Ok(found.into_iter().filter_map(numbered).collect());
        }
        Forget::Source(source) => (
            "SELECT kind, key FROM memories WHERE tenant = ?1 AND source = ?2 ORDER BY key",
            source,
        ),
        Forget::Session(session) => (
            "SELECT kind, key FROM memories WHERE tenant = ?1 AND session = ?2 ORDER BY key",
            session,
        ),
    };
    let mut select = db.prepare_cached(sql)?;
    let found = select.query_map((tenant, name), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

impl Batch<'_> {
    fn forget(&mut self, number: i64, key: i64) -> Result<(), Fault> {
        // The record may have been deleted together with another one.
        let Some(row) = self.row_if_any(key)? else {
            return Ok(());
        };
        match number {
            kind::EVENT | kind::CHUNK => self.remove_mentions(&row)?,
            kind::ENTITY => {
                self.unmention(key)?;
                self.remove_derived_at(key)?;
            }
            _ => {}
        }
        self.remove_references(kind_of(number)?, &row.id)?;
        self.remove(key)
    }
}
