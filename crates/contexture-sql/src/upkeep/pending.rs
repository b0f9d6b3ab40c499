//! The deletions that have begun and have not ended.
//!
//! A deletion that is divided into steps is stored before its first step, and removed in
//! the transaction of its last step. It can be continued at any time, also by another
//! process.

use contexture_core::ContentHash;
use contexture_sql_memory::forget;
use contexture_store::{Forget, Retention, StoreError, TurnId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::driver::Connection;
use crate::error::Fault;
use crate::row::Time;
use crate::sessions;

/// What a call deletes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Deletion {
    /// The session with a label.
    Session(String),
    /// The turns of a session before a turn.
    Turns {
        /// The label of the session.
        session: String,
        /// The first turn that is kept.
        before: TurnId,
    },
    /// A saved request.
    Snapshot(ContentHash),
    /// The tree with an id.
    Tree(String),
    /// Records of the memory.
    Records {
        /// The records.
        of: Forget,
        /// The key of the latest record when the deletion began. Later records are kept.
        through: Option<i64>,
    },
    /// Everything that a retention does not keep, and content without references.
    Collection(StoredRetention),
}

/// A [`Retention`], with times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRetention {
    before: Option<i64>,
    per_session: Option<u64>,
    memories_before: Option<i64>,
    tasks_before: Option<i64>,
}

impl From<Retention> for StoredRetention {
    fn from(retention: Retention) -> Self {
        let stored = |time: Option<Timestamp>| time.map(Timestamp::as_millisecond);
        Self {
            before: stored(retention.before),
            per_session: retention.per_session,
            memories_before: stored(retention.memories_before),
            tasks_before: stored(retention.tasks_before),
        }
    }
}

impl From<StoredRetention> for Retention {
    fn from(stored: StoredRetention) -> Self {
        let time = |time: Option<i64>| time.and_then(|at| Timestamp::from_millisecond(at).ok());
        Self {
            before: time(stored.before),
            per_session: stored.per_session,
            memories_before: time(stored.memories_before),
            tasks_before: time(stored.tasks_before),
        }
    }
}

/// A deletion that has begun.
#[derive(Debug, Clone)]
pub(super) struct PendingDeletion {
    pub(super) key: i64,
    pub(super) what: Deletion,
}

/// Returns the number of deletions that have not ended.
pub(crate) fn count(db: &Connection, tenant: i64) -> Result<u64, Fault> {
    let mut select =
        db.prepare_cached("SELECT count(*) FROM pending_deletions WHERE tenant = ?1")?;
    let count: i64 = select.query_row([tenant], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

/// Returns the deletions that have not ended, the oldest first. One that a newer version
/// has begun is left to that version.
pub(super) fn list(db: &Connection, tenant: i64) -> Result<Vec<PendingDeletion>, Fault> {
    let mut select = db
        .prepare_cached("SELECT key, what FROM pending_deletions WHERE tenant = ?1 ORDER BY key")?;
    let rows = select.query_map([tenant], |row| Ok((row.get(0)?, row.get::<String>(1)?)))?;
    let rows: Vec<(i64, String)> = rows.collect::<Result<_, _>>()?;
    let read = |(key, what): (i64, String)| {
        let what = serde_json::from_str(&what).ok()?;
        Some(PendingDeletion { key, what })
    };
    Ok(rows.into_iter().filter_map(read).collect())
}

/// Stores a deletion, unless the same one has begun already. A collection replaces one
/// with another retention.
pub(super) fn add(
    db: &Connection,
    tenant: i64,
    what: &Deletion,
    now: Timestamp,
) -> Result<PendingDeletion, Fault> {
    let mut what = what.with_label(db, tenant)?;
    for begun in list(db, tenant)? {
        if begun.what.is_same(&what) {
            return Ok(begun);
        }
        if let (Deletion::Collection(_), Deletion::Collection(_)) = (&begun.what, &what) {
            let key = begun.key;
            replace(db, key, &what)?;
            return Ok(PendingDeletion { key, what });
        }
    }
    if let Deletion::Records { through, .. } = &mut what {
        *through = Some(forget::last_key(db, tenant)?);
    }
    let key = db
        .prepare_cached("INSERT INTO pending_deletions (tenant, since, what) VALUES (?1, ?2, ?3)")?
        .insert((tenant, Time(now), text(&what)?))?;
    Ok(PendingDeletion { key, what })
}

/// Returns true if the deletion has not ended.
pub(super) fn exists(db: &Connection, tenant: i64, key: i64) -> Result<bool, Fault> {
    let mut select =
        db.prepare_cached("SELECT 1 FROM pending_deletions WHERE tenant = ?1 AND key = ?2")?;
    Ok(select.exists((tenant, key))?)
}

/// Removes a deletion. Returns false if it has ended before.
pub(super) fn remove(db: &Connection, tenant: i64, key: i64) -> Result<bool, Fault> {
    let mut delete =
        db.prepare_cached("DELETE FROM pending_deletions WHERE tenant = ?1 AND key = ?2")?;
    Ok(delete.change((tenant, key))? > 0)
}

/// Updates the keys of records in the deletions of an imported archive, whose records
/// have got other keys.
pub(crate) fn renumber(db: &Connection, tenant: i64) -> Result<(), Fault> {
    for PendingDeletion { key, mut what } in list(db, tenant)? {
        if let Deletion::Records { through, .. } = &mut what {
            *through = Some(forget::last_key(db, tenant)?);
            replace(db, key, &what)?;
        }
    }
    Ok(())
}

fn replace(db: &Connection, key: i64, what: &Deletion) -> Result<(), Fault> {
    db.prepare_cached("UPDATE pending_deletions SET what = ?2 WHERE key = ?1")?
        .execute((key, text(what)?))?;
    Ok(())
}

fn text(what: &Deletion) -> Result<String, Fault> {
    serde_json::to_string(what).map_err(|error| Fault::damaged("a deletion", error.to_string()))
}

impl Deletion {
    /// Returns the deletion with the label of its session instead of an alias, which can
    /// get another meaning before the deletion ends.
    fn with_label(&self, db: &Connection, tenant: i64) -> Result<Deletion, Fault> {
        let label = |name: &str| match sessions::find(db, tenant, name) {
            Ok(session) => Ok(session.label),
            // The session is being deleted.
            Err(Fault::Refused(StoreError::NotFound { .. })) => Ok(name.to_owned()),
            Err(fault) => Err(fault),
        };
        Ok(match self {
            Deletion::Session(name) => Deletion::Session(label(name)?),
            Deletion::Turns { session, before } => Deletion::Turns {
                session: label(session)?,
                before: *before,
            },
            other => other.clone(),
        })
    }

    /// Returns true if both delete the same, apart from what was stored since.
    fn is_same(&self, other: &Deletion) -> bool {
        match (self, other) {
            (Deletion::Records { of: one, .. }, Deletion::Records { of: other, .. }) => {
                one == other
            }
            (one, other) => one == other,
        }
    }
}
