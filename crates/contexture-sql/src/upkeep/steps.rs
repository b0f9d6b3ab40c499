//! Deletes in steps, each in a transaction of its own.
//!
//! A deletion is one transaction as long as the disk has space for its log. On a
//! disk that is too full, the deletion is divided: each step deletes a number of
//! rows, and the log of one step is emptied before the next begins. After an error
//! in between, the session has fewer turns and snapshots, and a repeated call
//! continues.

use std::collections::{BTreeMap, BTreeSet};

use contexture_store::{Deleted, Retention, StoreError, TurnId};

use super::{Garbage, delete_rows, delete_session, needed, reassign_turns, trim};
use crate::driver::Connection;
use crate::error::Fault;
use crate::sessions::{self, SessionRow};
use crate::{Backend, SqlStore};

/// The number of rows that the first step deletes. If that is too much for the
/// disk, a step deletes a quarter of it.
const MOST_ROWS: usize = 512;

/// The counts of steps that delete no content.
const REASSIGNED: &str = "reassigned turns";
const ROWS: &str = "rows of turns";

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
        D: FnOnce(&Connection, i64) -> Result<Counts, Fault> + Send + 'static,
        S: Fn(&Connection, i64, usize) -> Result<Counts, Fault> + Clone + Send + 'static,
    {
        let mut all = Counts::new();
        let mut add = |counts: Counts| {
            for (kind, count) in counts {
                *all.entry(kind).or_default() += count;
            }
        };
        loop {
            let step = step.clone();
            match self.delete(move |db, tenant| step(db, tenant, most)) {
                Ok(done) if done.deleted.is_empty() => break,
                Ok(done) => add(done.deleted),
                Err(StoreError::Full { .. }) if most > 1 => most = (most / 4).max(1),
                Err(error) => return Err(error),
            }
        }
        let last = self.delete(delete)?;
        add(last.deleted);
        // These steps delete nothing that was not counted before.
        all.retain(|kind, _| kind != REASSIGNED && kind != ROWS);
        Ok(Deleted {
            deleted: all,
            pending: last.pending,
        })
    }

    /// Deletes a session in steps of at most `most` rows, as on a full disk.
    #[doc(hidden)]
    pub fn delete_session_in_steps(&self, label: &str, most: usize) -> Result<Deleted, StoreError> {
        let (name, again) = (label.to_owned(), label.to_owned());
        self.delete_in_steps(
            move |db, tenant| delete_session(db, tenant, &name),
            move |db, tenant, most| session_step(db, tenant, &again, most),
            most,
        )
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

/// Deletes the first of these rows of a session: snapshots, content of requests,
/// content of turns that no other session needs, rows of such turns.
pub(super) fn session_step(
    db: &Connection,
    tenant: i64,
    label: &str,
    most: usize,
) -> Result<Counts, Fault> {
    let session = sessions::find(db, tenant, label)?;
    let deleted = snapshots_step(db, tenant, &session, most)?;
    if !deleted.is_empty() {
        return Ok(deleted);
    }
    let needed = needed(db, tenant, session.key)?;
    let mut select = db
        .prepare_cached("SELECT key, deleted IS NULL FROM turns WHERE session = ?1 ORDER BY key")?;
    let own = select.query_map([session.key], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let own: Vec<(i64, bool)> = own.collect::<Result<_, _>>()?;
    let is_needed = |(key, _): &(i64, bool)| needed.contains(key);
    let (shared, own): (Vec<_>, Vec<_>) = own.into_iter().partition(is_needed);
    // The oldest first: what follows a deleted turn is still a conversation.
    let whole = own.iter().filter(|(_, is_whole)| *is_whole);
    let some: BTreeSet<i64> = whole.map(|(key, _)| *key).take(most).collect();
    if !some.is_empty() {
        return trim::delete(db, tenant, &session, &some);
    }
    if !shared.is_empty() {
        let some: BTreeSet<i64> = shared.iter().map(|(key, _)| *key).take(most).collect();
        reassign_turns(db, tenant, &session, &some)?;
        return Ok([(REASSIGNED.to_owned(), some.len() as u64)].into());
    }
    // The newest first: a turn refers to the one before it.
    let rows = own.iter().rev().map(|(key, _)| *key);
    delete_turn_rows(db, &session, rows.take(most))
}

/// Deletes the rows of turns that are the newest of their session and have no
/// content.
fn delete_turn_rows(
    db: &Connection,
    session: &SessionRow,
    turns: impl Iterator<Item = i64>,
) -> Result<Counts, Fault> {
    let mut deleted = 0;
    for turn in turns {
        if deleted == 0 {
            delete_rows(
                db,
                session.key,
                &[
                    ("", "UPDATE sessions SET head = NULL WHERE key = ?1"),
                    ("", "DELETE FROM head_moves WHERE session = ?1"),
                ],
            )?;
        }
        delete_rows(
            db,
            turn,
            &[
                ("", "DELETE FROM idempotency_keys WHERE turn = ?1"),
                ("", "DELETE FROM turn_labels WHERE turn = ?1"),
                ("", "DELETE FROM turns WHERE key = ?1"),
            ],
        )?;
        deleted += 1;
    }
    // They were counted with their content.
    let rows = (deleted > 0).then(|| (ROWS.to_owned(), deleted));
    Ok(rows.into_iter().collect())
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
