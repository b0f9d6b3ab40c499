//! Deletes in steps, each in a transaction of its own.
//!
//! A deletion is one transaction as long as the disk has space for its log. On a
//! disk that is too full, the deletion is divided: each step deletes a number of
//! rows, and the log of one step is emptied before the next begins. The store is valid
//! after each step. The deletion is stored before its first step, so that it is
//! continued after an error or a restart.

use std::collections::BTreeMap;

use contexture_sql_memory::{forget, tasks};
use contexture_store::{Deleted, Forget, Retention, StoreError, TurnId};
use jiff::Timestamp;

use super::pending::{self, Deletion, PendingDeletion};
use super::{Garbage, collect, delete_snapshot, keys_of, session, tree, trim};
use crate::driver::Connection;
use crate::error::Fault;
use crate::row::Time;
use crate::sessions;
use crate::{Backend, SqlStore};

/// The number of rows that the first step deletes. If that is too much for the
/// disk, a step deletes a quarter of it.
const MOST_ROWS: usize = 512;

pub(super) type Counts = BTreeMap<String, u64>;

/// The count of deleted rows that a result does not list.
pub(super) const UNCOUNTED: &str = "";

impl<B: Backend> SqlStore<B> {
    /// Runs a deletion. If the disk is too full for it, runs it in steps.
    pub(crate) fn delete_or_divide(&self, what: Deletion) -> Result<Deleted, StoreError> {
        let all = what.clone();
        match self.delete(move |db, tenant| all.run(db, tenant)) {
            Err(StoreError::Full { .. }) if what.is_divisible() => {
                self.divide(what, MOST_ROWS, usize::MAX)
            }
            // A session or tree is not found while its deletion is pending.
            Err(StoreError::NotFound { .. }) if self.is_hidden(&what)? => {
                self.divide(what, MOST_ROWS, usize::MAX)
            }
            done => done,
        }
    }

    fn is_hidden(&self, what: &Deletion) -> Result<bool, StoreError> {
        match what {
            Deletion::Session(_) | Deletion::Tree(_) => {
                let begun = self.read(pending::list)?;
                Ok(begun.iter().any(|begun| begun.what == *what))
            }
            _ => Ok(false),
        }
    }

    /// Begins a deletion, and runs at most `steps` steps of at most `most` rows.
    fn divide(&self, what: Deletion, most: usize, steps: usize) -> Result<Deleted, StoreError> {
        let (begun, _) = self.write_and_clean(move |db, tenant| {
            let begun = pending::add(db, tenant, &what, Timestamp::now())?;
            begun.what.begin(db, tenant)?;
            Ok(begun)
        })?;
        self.run_steps(begun, most, steps)
    }

    /// Runs a deletion that has begun to its end. If the disk is too full even for one
    /// row, the deletion stays pending.
    fn run_steps(
        &self,
        begun: PendingDeletion,
        mut most: usize,
        steps: usize,
    ) -> Result<Deleted, StoreError> {
        let mut deleted = Counts::new();
        let mut add = |counts: Counts| {
            for (kind, count) in counts {
                *deleted.entry(kind).or_default() += count;
            }
        };
        let mut left = steps;
        let pending = loop {
            if left == 0 {
                break true;
            }
            left -= 1;
            let step = begun.clone();
            let done = match self.delete(move |db, tenant| step.step(db, tenant, most)) {
                Ok(done) if !done.deleted.is_empty() => {
                    add(done.deleted);
                    continue;
                }
                Ok(_) => {
                    let last = begun.clone();
                    self.delete(move |db, tenant| last.finish(db, tenant))
                }
                failed => failed,
            };
            match done {
                Ok(last) => {
                    add(last.deleted);
                    break last.pending;
                }
                Err(StoreError::Full { .. }) if most > 1 => most = (most / 4).max(1),
                Err(StoreError::Full { .. }) => break true,
                Err(error) => return Err(error),
            }
        };
        deleted.remove(UNCOUNTED);
        Ok(Deleted { deleted, pending })
    }

    /// Continues all deletions that have not ended. Returns the number of those that
    /// still have not.
    pub(super) fn continue_all(&self) -> Result<u64, StoreError> {
        let begun = self.read(pending::list)?;
        if begun.is_empty() {
            return self.read(pending::count);
        }
        self.settle();
        let mut failed = None;
        for begun in begun {
            // Another deletion may still be possible.
            if let Err(error) = self.run_steps(begun, MOST_ROWS, usize::MAX) {
                failed.get_or_insert(error);
            }
        }
        match failed {
            None => self.read(pending::count),
            Some(error) => Err(error),
        }
    }

    /// Deletes a session in at most `steps` steps of at most `most` rows, as on a full
    /// disk.
    #[doc(hidden)]
    pub fn delete_session_in_steps(
        &self,
        label: &str,
        most: usize,
        steps: usize,
    ) -> Result<Deleted, StoreError> {
        self.divide(Deletion::Session(label.to_owned()), most, steps)
    }

    /// Deletes a tree in steps, like
    /// [`delete_session_in_steps`](Self::delete_session_in_steps).
    #[doc(hidden)]
    pub fn delete_tree_in_steps(
        &self,
        id: &str,
        most: usize,
        steps: usize,
    ) -> Result<Deleted, StoreError> {
        self.divide(Deletion::Tree(id.to_owned()), most, steps)
    }

    /// Deletes the turns before a turn in steps, like
    /// [`delete_session_in_steps`](Self::delete_session_in_steps).
    #[doc(hidden)]
    pub fn delete_turns_in_steps(
        &self,
        label: &str,
        turn: TurnId,
        most: usize,
        steps: usize,
    ) -> Result<Deleted, StoreError> {
        let session = label.to_owned();
        let what = Deletion::Turns {
            session,
            before: turn,
        };
        self.divide(what, most, steps)
    }

    /// Deletes records of the memory in steps, like
    /// [`delete_session_in_steps`](Self::delete_session_in_steps).
    #[doc(hidden)]
    pub fn forget_in_steps(
        &self,
        of: &Forget,
        most: usize,
        steps: usize,
    ) -> Result<Deleted, StoreError> {
        let (of, through) = (of.clone(), None);
        self.divide(Deletion::Records { of, through }, most, steps)
    }

    /// Collects garbage in steps, like
    /// [`delete_session_in_steps`](Self::delete_session_in_steps).
    #[doc(hidden)]
    pub fn collect_in_steps(
        &self,
        retention: &Retention,
        most: usize,
        steps: usize,
    ) -> Result<Deleted, StoreError> {
        self.divide(Deletion::Collection((*retention).into()), most, steps)
    }
}

impl Deletion {
    /// Returns false for a deletion that has no steps.
    fn is_divisible(&self) -> bool {
        !matches!(
            self,
            Deletion::Records {
                of: Forget::Id { .. },
                ..
            }
        )
    }

    /// Deletes everything at once.
    fn run(&self, db: &Connection, tenant: i64) -> Result<Counts, Fault> {
        match self {
            Deletion::Session(label) => {
                session::delete(db, tenant, &sessions::find(db, tenant, label)?)
            }
            Deletion::Turns { session, before } => trim::run(db, tenant, session, *before),
            Deletion::Snapshot(hash) => delete_snapshot(db, tenant, *hash),
            Deletion::Tree(id) => tree::delete(db, tenant, id, tree::find(db, tenant, id)?),
            Deletion::Records { of, .. } => Ok(by_name(forget::forget(db, tenant, of)?.forgotten)),
            Deletion::Collection(retention) => {
                collect(db, tenant, &Retention::from(*retention), false)
            }
        }
    }

    /// Prepares the steps, in the transaction that stores the deletion.
    fn begin(&self, db: &Connection, tenant: i64) -> Result<(), Fault> {
        match self {
            Deletion::Session(label) if sessions::find_deleted(db, tenant, label)?.is_none() => {
                session::hide(db, tenant, label)
            }
            Deletion::Tree(id) if tree::find_deleted(db, tenant, id)?.is_none() => {
                tree::hide(db, tenant, id)
            }
            _ => Ok(()),
        }
    }

    /// Deletes at most about `most` rows. Returns no counts if so few rows are left that
    /// the last step can delete them.
    fn step(&self, db: &Connection, tenant: i64, most: usize) -> Result<Counts, Fault> {
        match self {
            Deletion::Session(label) => match sessions::find_deleted(db, tenant, label)? {
                Some(session) => session::step(db, tenant, &session, most),
                None => Ok(Counts::new()),
            },
            Deletion::Turns { session, before } => turns_step(db, tenant, session, *before, most),
            Deletion::Snapshot(hash) => garbage_step(db, tenant, keys_of(db, tenant, *hash)?, most),
            Deletion::Tree(id) => match tree::find_deleted(db, tenant, id)? {
                Some(tree) => tree::step(db, tenant, id, tree, most),
                None => Ok(Counts::new()),
            },
            Deletion::Records { of, through } => {
                forget::forget_some(db, tenant, of, *through, most).map(by_name)
            }
            Deletion::Collection(retention) => {
                collection_step(db, tenant, &Retention::from(*retention), most)
            }
        }
    }

    /// Deletes what the steps have left.
    fn finish(&self, db: &Connection, tenant: i64) -> Result<Counts, Fault> {
        match self {
            Deletion::Session(label) => match sessions::find_deleted(db, tenant, label)? {
                Some(session) => session::delete(db, tenant, &session),
                None => Ok(Counts::new()),
            },
            Deletion::Tree(id) => match tree::find_deleted(db, tenant, id)? {
                Some(tree) => tree::delete(db, tenant, id, tree),
                None => Ok(Counts::new()),
            },
            // Its content is all that can be left.
            Deletion::Snapshot(_) => collect(db, tenant, &Retention::default(), false),
            Deletion::Records { .. } => Ok(Counts::new()),
            Deletion::Turns { .. } | Deletion::Collection(_) => self.run(db, tenant),
        }
    }
}

impl PendingDeletion {
    fn step(&self, db: &Connection, tenant: i64, most: usize) -> Result<Counts, Fault> {
        // Another process may have continued the deletion to its end.
        match pending::exists(db, tenant, self.key)? {
            true => or_nothing(self.what.step(db, tenant, most)),
            false => Ok(Counts::new()),
        }
    }

    fn finish(&self, db: &Connection, tenant: i64) -> Result<Counts, Fault> {
        match pending::remove(db, tenant, self.key)? {
            true => or_nothing(self.what.finish(db, tenant)),
            false => Ok(Counts::new()),
        }
    }
}

/// Nothing is left to delete if the object was deleted in another way.
fn or_nothing(done: Result<Counts, Fault>) -> Result<Counts, Fault> {
    match done {
        Err(Fault::Refused(StoreError::NotFound { .. })) => Ok(Counts::new()),
        done => done,
    }
}

fn by_name(records: BTreeMap<contexture_store::RecordKind, u64>) -> Counts {
    let records = records.into_iter();
    records
        .map(|(kind, count)| (kind.name().to_owned(), count))
        .collect()
}

/// Deletes the first snapshots with a label, and content without references.
pub(super) fn snapshots_step(
    db: &Connection,
    tenant: i64,
    label: &str,
    most: usize,
) -> Result<Counts, Fault> {
    let mut select = db.prepare_cached(
        "SELECT key FROM snapshots WHERE tenant = ?1 AND session = ?2 ORDER BY key LIMIT ?3",
    )?;
    let limit = crate::row::limit(most);
    let keys = select.query_map((tenant, label, limit), |row| row.get(0))?;
    garbage_step(db, tenant, keys.collect::<Result<_, _>>()?, most)
}

/// Deletes the first of what a collection deletes: snapshots and content, then records,
/// then tasks.
fn collection_step(
    db: &Connection,
    tenant: i64,
    retention: &Retention,
    most: usize,
) -> Result<Counts, Fault> {
    let mut snapshots = Garbage::snapshots(db, tenant, retention)?;
    snapshots.truncate(most);
    let deleted = garbage_step(db, tenant, snapshots, most)?;
    if !deleted.is_empty() {
        return Ok(deleted);
    }
    let some = |name: &str, rows: u64| Ok(Counts::from([(name.to_owned(), rows)]));
    if let Some(before) = retention.memories_before {
        let records = forget::forget_older(db, tenant, Time(before), most)?;
        if records > 0 {
            return some("records", records);
        }
    }
    if let Some(before) = retention.tasks_before {
        let tasks = tasks::forget_finished(db, tenant, Time(before), most)?;
        if tasks > 0 {
            return some("tasks", tasks);
        }
    }
    Ok(Counts::new())
}

/// Deletes snapshots, and some of the content that no other snapshot refers to.
fn garbage_step(
    db: &Connection,
    tenant: i64,
    snapshots: Vec<i64>,
    most: usize,
) -> Result<Counts, Fault> {
    let mut garbage = Garbage::with_content(db, tenant, snapshots)?;
    garbage.limit(most);
    garbage.delete(db, tenant)?;
    Ok(garbage.counts())
}

/// Deletes the first snapshots of a session, or its oldest turns before a turn. The
/// last of these turns are left.
fn turns_step(
    db: &Connection,
    tenant: i64,
    label: &str,
    turn: TurnId,
    most: usize,
) -> Result<Counts, Fault> {
    let session = sessions::find(db, tenant, label)?;
    let deleted = snapshots_step(db, tenant, &session.label, most)?;
    if !deleted.is_empty() {
        return Ok(deleted);
    }
    let oldest = trim::oldest_before(db, tenant, &session, turn, most)?;
    match oldest.is_empty() {
        true => Ok(Counts::new()),
        false => trim::delete(db, tenant, &session, &oldest),
    }
}
