//! Deletes records from all tables.
//!
//! The connection overwrites deleted rows. The writer overwrites the copies
//! that SQLite leaves when it moves rows. No bytes of a deleted record remain.

use std::collections::BTreeMap;

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
    let named = named(db, tenant, what, None, usize::MAX)?;
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
            Forget::User(user) => Fault::not_found("record of user", user),
        });
    }
    Ok(Forgotten {
        forgotten: gone,
        pending: false,
    })
}

/// Deletes the first `most` of the records that the request selects, up to the key
/// `through`. Returns the number of deleted records, also of those that were derived only
/// from them.
pub fn forget_some(
    db: &Connection,
    tenant: i64,
    what: &Forget,
    through: Option<i64>,
    most: usize,
) -> Result<BTreeMap<RecordKind, u64>, Fault> {
    let named = named(db, tenant, what, through, most)?;
    if named.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut batch = Batch::open(db, tenant)?;
    for (kind, key) in named {
        batch.forget(kind, key)?;
    }
    batch.close()?;
    Ok(batch.deleted)
}

/// Returns the key of the latest record, or 0 if there is none.
pub fn last_key(db: &Connection, tenant: i64) -> Result<i64, Fault> {
    let mut select =
        db.prepare_cached("SELECT coalesce(max(key), 0) FROM memories WHERE tenant = ?1")?;
    Ok(select.query_row([tenant], |row| row.get(0))?)
}

/// Returns the number of events and chunks from before a time.
pub fn count_older(db: &Connection, tenant: i64, before: Time) -> Result<u64, Fault> {
    Ok(older(db, tenant, before)?.len() as u64)
}

fn older(db: &Connection, tenant: i64, before: Time) -> Result<Vec<(i64, i64)>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT kind, key FROM memories WHERE tenant = ?1 AND kind <= 1 AND at < ?2 ORDER BY key",
    )?;
    let found = select.query_map((tenant, before), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Deletes at most `most` events and chunks from before a time, and returns the number of
/// deleted records.
pub fn forget_older(db: &Connection, tenant: i64, before: Time, most: usize) -> Result<u64, Fault> {
    let mut found = older(db, tenant, before)?;
    found.truncate(most);
    if found.is_empty() {
        return Ok(0);
    }
    let mut batch = Batch::open(db, tenant)?;
    for (kind, key) in found {
        batch.forget(kind, key)?;
    }
    batch.close()?;
    Ok(batch.deleted.values().sum())
}

/// Returns the first `most` of the records that the request selects, up to the key
/// `through`, with their kinds.
fn named(
    db: &Connection,
    tenant: i64,
    what: &Forget,
    through: Option<i64>,
    most: usize,
) -> Result<Vec<(i64, i64)>, Fault> {
    let (sql, name) = match what {
        Forget::Id { kind, id } => {
            let mut found = load::keys(db, tenant, &[id])?;
            found.retain(|(is, _)| kind.is_none_or(|kind| kind == *is));
            let numbered = |(kind, key)| Some((number_of(kind)?, key));
            return Ok(found.into_iter().filter_map(numbered).collect());
        }
        Forget::Source(source) => (
            "SELECT kind, key FROM memories WHERE tenant = ?1 AND source = ?2 AND key <= ?3 \
             ORDER BY key LIMIT ?4",
            source,
        ),
        Forget::Session(session) => (
            "SELECT kind, key FROM memories WHERE tenant = ?1 AND session = ?2 AND key <= ?3 \
             ORDER BY key LIMIT ?4",
            session,
        ),
        Forget::User(user) => (
            "SELECT kind, key FROM memories WHERE tenant = ?1 AND \"user\" = ?2 AND key <= ?3 \
             ORDER BY key LIMIT ?4",
            user,
        ),
    };
    let mut select = db.prepare_cached(sql)?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let wanted = (tenant, name, through.unwrap_or(i64::MAX), most);
    let found = select.query_map(wanted, |row| Ok((row.get(0)?, row.get(1)?)))?;
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
