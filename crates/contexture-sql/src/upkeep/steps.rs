//! Deletes in steps, each in a transaction of its own.
//!
//! A deletion is one transaction as long as the disk has space for its log. On a
//! disk that is too full, the deletion is divided: each step deletes a number of
//! rows, and the log of one step is emptied before the next begins. After an error
//! in between, the session has fewer turns and snapshots, and a repeated call
//! continues. A whole session is deleted in one transaction: a part of its rows would
//! be a damaged session.

use std::collections::BTreeMap;

use contexture_store::{Deleted, Retention, StoreError, TurnId};

use super::{Garbage, trim};
use crate::driver::Connection;
use crate::error::Fault;
use crate::sessions::{self, SessionRow};
use crate::{Backend, SqlStore};

/// The number of rows that the first step deletes. If that is too much for the
/// disk, a step deletes a quarter of it.
const MOST_ROWS: usize = 512;

type Counts = BTreeMap<String, u64>;

impl<B: Backend> SqlStore<B> {
    /// Runs a deletion. If the disk is too full for it, runs steps until one has
    /// nothing to delete, and then the deletion again.
    pub(super) fn delete_or_divide<D, S>(&self, delete: D, step: S) -> Result<Deleted, StoreError>
    where
        D: Fn(&Connection, i64) -> Result<Counts, Fault> + Clone + Send + 'static,
        S: Fn(&Connection, i64, usize) -> Result<Counts, Fault> + Clone + Send + 'static,
    {
        match self.delete(delete.clone()) {
            Err(StoreError::Full { .. }) => self.delete_in_steps(delete, step, MOST_ROWS),
            done => done,
        }
    }

    fn delete_in_steps<D, S>(
        &self,
        delete: D,
        step: S,
        mut most: usize,
    ) -> Result<Deleted, StoreError>
    where
        D: Fn(&Connection, i64) -> Result<Counts, Fault> + Clone + Send + 'static,
        S: Fn(&Connection, i64, usize) -> Result<Counts, Fault> + Clone + Send + 'static,
    {
        let mut all = Counts::new();
        let mut add = |counts: Counts| {
            for (kind, count) in counts {
                *all.entry(kind).or_default() += count;
            }
        };
        let last = loop {
            let step = step.clone();
            let done = match self.delete(move |db, tenant| step(db, tenant, most)) {
                Ok(done) if done.deleted.is_empty() => self.delete(delete.clone()),
                Ok(done) => {
                    add(done.deleted);
                    continue;
                }
                full => full,
            };
            match done {
                Err(StoreError::Full { .. }) if most > 1 => most = (most / 4).max(1),
                done => break done?,
            }
        };
        add(last.deleted);
        Ok(Deleted {
            deleted: all,
            pending: last.pending,
        })
    }

    /// Deletes the turns before a turn in steps of at most `most` rows, as on a full
    /// disk.
    #[doc(hidden)]
    pub fn delete_turns_in_steps(
        &self,
        label: &str,
        turn: TurnId,
        most: usize,
    ) -> Result<Deleted, StoreError> {
        let (name, again) = (label.to_owned(), label.to_owned());
        self.delete_in_steps(
            move |db, tenant| trim::run(db, tenant, &name, turn),
            move |db, tenant, most| turns_step(db, tenant, &again, turn, most),
            most,
        )
    }
}

/// Deletes the first snapshots of a session, and content without references.
fn snapshots_step(
    db: &Connection,
    tenant: i64,
    session: &SessionRow,
    most: usize,
) -> Result<Counts, Fault> {
    let mut select = db.prepare_cached(
        "SELECT key FROM snapshots WHERE tenant = ?1 AND session = ?2 ORDER BY key LIMIT ?3",
    )?;
    let limit = crate::row::limit(most);
    let keys = select.query_map((tenant, &session.label, limit), |row| row.get(0))?;
    garbage_step(db, tenant, keys.collect::<Result<_, _>>()?, most)
}

/// Deletes the first of the snapshots and the content that a collection deletes.
pub(super) fn collection_step(
    db: &Connection,
    tenant: i64,
    retention: &Retention,
    most: usize,
) -> Result<Counts, Fault> {
    let mut snapshots = Garbage::snapshots(db, tenant, retention)?;
    snapshots.truncate(most);
    garbage_step(db, tenant, snapshots, most)
}

/// Deletes snapshots, and some of the content that no other snapshot refers to.
pub(super) fn garbage_step(
    db: &Connection,
    tenant: i64,
    snapshots: Vec<i64>,
    most: usize,
) -> Result<Counts, Fault> {
    let mut garbage = Garbage::with_content(db, tenant, snapshots)?;
    garbage.limit(most);
    garbage.delete(db)?;
    Ok(garbage.counts())
}

/// Deletes the first snapshots of a session, or its oldest turns before a turn. The
/// last of these turns are left.
pub(super) fn turns_step(
    db: &Connection,
    tenant: i64,
    label: &str,
    turn: TurnId,
    most: usize,
) -> Result<Counts, Fault> {
    let session = sessions::find(db, tenant, label)?;
    let deleted = snapshots_step(db, tenant, &session, most)?;
    if !deleted.is_empty() {
        return Ok(deleted);
    }
    let oldest = trim::oldest_before(db, tenant, &session, turn, most)?;
    match oldest.is_empty() {
        true => Ok(Counts::new()),
        false => trim::delete(db, tenant, &session, &oldest),
    }
}
