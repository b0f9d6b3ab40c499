//! Records concurrent turns in one transaction, and reads ahead for concurrent
//! calls in one.
//!
//! A rejected turn does not affect the others. After any other error, no turn
//! is written, and each caller records its own turn alone.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use contexture_sql::{Answers, Error, Fault, Reading, Recording, Value};
use contexture_store::{Call, Recorded, StoreError};

use crate::error::{PgError, again, explain};
use crate::pool::Lease;
use crate::rows::Rows;
use crate::{BEGIN_READ, BEGIN_WRITE, Database, HAS_DATA, group};

/// A turn with a waiting caller.
type Waiting = Box<group::Waiting<Box<Recording>, Recorded>>;

/// A call that reads ahead.
type WaitingToRead = Box<group::Waiting<Reading, Answers>>;

/// Locks a tenant until the commit. Unlike FOR UPDATE, this lock does not wait
/// for references to the row.
const LOCK_ONE: &str = "SELECT key, has_data FROM tenants WHERE key = $1 FOR NO KEY UPDATE";

/// Locks those of the tenants that are not locked, so that two transactions
/// never wait for each other. The turns of the other tenants are recorded alone.
const LOCK_SOME: &str = "SELECT key, has_data FROM tenants WHERE key = ANY($1)
    FOR NO KEY UPDATE SKIP LOCKED";

/// How long a lost commit is looked for: until a standby has taken over, or the
/// database has restarted.
const SETTLE: Duration = Duration::from_secs(10);

/// The pause between two attempts.
const SETTLE_INTERVAL: Duration = Duration::from_millis(100);

/// The turns that were recorded or rejected, by their index in the batch.
type TurnOutcomes = Vec<(usize, Result<Recorded, Fault>)>;

impl Database {
    /// Records turns in one transaction. Turns without an outcome must then be
    /// recorded alone.
    pub(crate) fn record_all(&self, batch: &mut [Waiting]) {
        for waiting in batch.iter_mut() {
            if let Some(Err(withdrawn)) = waiting.call.as_ref().map(Call::begin) {
                waiting.answer(Err(withdrawn));
            }
        }
        if batch.iter().all(|it| it.job.is_none()) {
            return;
        }
        let mut lease = match self.pool.take() {
            Ok(lease) => lease,
            Err(error) => return fail(batch, &error),
        };
        let address = &self.place.address;
        let mut done = match self.write_all(&mut lease, batch) {
            Ok(done) => done,
            Err(error) => return self.give_up(lease, batch, error),
        };
        match done.iter().any(|(_, done)| done.is_ok()) {
            true => match lease.link().commit() {
                Ok(()) => lease.give_back(),
                Err(error) if error.ends_connection() => {
                    drop(lease);
                    self.settle(batch, &mut done, &error);
                }
                Err(error) => return self.give_up(lease, batch, error),
            },
            false => lease.finish(None),
        }
        for (at, done) in done {
            batch[at].answer(done.map_err(|fault| explain(fault, address)));
        }
    }

    /// Ends a transaction that has written nothing. Turns without an answer must then be
    /// recorded alone: a connection may have been closed just now, or one of several
    /// turns may cause the error.
    fn give_up(&self, mut lease: Lease<'_>, batch: &mut [Waiting], error: PgError) {
        let error = lease.link().ended_with(error);
        lease.finish(Some(&error));
        let turns = batch.iter().filter(|it| it.job.is_some()).count();
        if error.concerns_all() || turns == 1 && !error.ends_connection() {
            fail(batch, &error.at(&self.place.address));
        }
    }

    /// Finds out whether a transaction was committed whose connection was lost during
    /// the commit, and changes the outcomes if it was not, or if the database does not
    /// answer.
    fn settle(&self, batch: &[Waiting], done: &mut TurnOutcomes, lost: &PgError) {
        let address = &self.place.address;
        let written = |(at, outcome): &(usize, Result<Recorded, Fault>)| {
            let recorded = outcome.as_ref().ok().filter(|it| !it.replayed)?;
            let waiting = &batch[*at];
            Some((waiting.tenant, waiting.job.as_deref()?, *recorded))
        };
        // All turns were committed, or none. A turn that was recorded before is there.
        let Some((tenant, recording, recorded)) = done.iter().find_map(written) else {
            return;
        };
        let since = Instant::now();
        let is_committed = loop {
            match self.is_recorded(tenant, recording, &recorded) {
                Ok(is_recorded) => break Some(is_recorded),
                Err(_) if since.elapsed() < SETTLE => {
                    Call::wait();
                    thread::sleep(SETTLE_INTERVAL);
                }
                Err(_) => break None,
            }
        };
        if is_committed == Some(true) {
            return;
        }
        for (_, outcome) in done.iter_mut() {
            let is_written = outcome.as_ref().is_ok_and(|it| !it.replayed);
            let error = match is_committed {
                None => StoreError::UnknownOutcome {
                    store: address.clone(),
                    message: lost.to_string(),
                },
                _ => lost.at(address),
            };
            if is_written {
                *outcome = Err(Fault::Refused(error));
            }
        }
    }

    /// Returns true if the turn is in the database. Waits for the transaction that
    /// recorded it, which has the tenant's lock if it is still running.
    fn is_recorded(
        &self,
        tenant: i64,
        recording: &Recording,
        recorded: &Recorded,
    ) -> Result<bool, StoreError> {
        let address = &self.place.address;
        let mut lease = self.pool.connect()?;
        let link = lease.link();
        link.begin(BEGIN_WRITE, &self.place);
        if let Err(error) = link.query(LOCK_ONE, &[Value::Integer(tenant)]) {
            lease.finish(Some(&error));
            return Err(error.at(address));
        }
        let found = recording.is_recorded(lease.connection(), tenant, recorded);
        lease.finish(None);
        found.map_err(|fault| explain(fault, address))
    }

    /// Locks the tenants and writes their turns, without a commit.
    fn write_all(&self, lease: &mut Lease<'_>, batch: &[Waiting]) -> Result<TurnOutcomes, PgError> {
        let jobs: Vec<(usize, (i64, &Recording))> = (batch.iter().enumerate())
            .filter_map(|(at, it)| Some((at, (it.tenant, &**it.job.as_ref()?))))
            .collect();
        let tenants: BTreeSet<i64> = jobs.iter().map(|(_, (tenant, _))| *tenant).collect();
        let keys: Vec<Value<'_>> = tenants.iter().map(|key| Value::Integer(*key)).collect();
        let link = lease.link();
        link.begin(BEGIN_WRITE, &self.place);
        // The locks are acquired before the first statement of the turns runs. Both
        // arrive in one round trip.
        let lock = match &keys[..] {
            [_] => link.send_query(LOCK_ONE, &keys),
            _ => link.send_array_query(LOCK_SOME, &keys),
        };
        let locked = OnceCell::new();
        let transaction = lease.transaction();
        let locked = || {
            locked.get_or_init(|| {
                let rows = transaction.take(lock);
                rows.map(|rows| Self::locked(&rows)).unwrap_or_default()
            })
        };
        let recordings: Vec<(i64, &Recording)> = jobs.iter().map(|(_, job)| *job).collect();
        let is_locked = |tenant: i64| locked().contains_key(&tenant);
        let done = Recording::run_all(transaction, &recordings, &is_locked).map_err(cause)?;
        let locked = locked().clone();
        let link = lease.link();
        for tenant in &tenants {
            match locked.get(tenant) {
                Some(false) => link.send_statement(HAS_DATA, &[Value::Integer(*tenant)]),
                // The row of a tenant is never removed.
                None if tenants.len() == 1 => return Err(crate::missing_tenant()),
                _ => {}
            }
        }
        let outcome = |((at, _), done): (&(usize, _), Option<_>)| Some((*at, done?));
        Ok(jobs.iter().zip(done).filter_map(outcome).collect())
    }

    /// Returns the locked tenants, and whether each has data.
    fn locked(rows: &Rows) -> BTreeMap<i64, bool> {
        let tenant = |row| Some((rows.integer(row, 0)?, rows.integer(row, 1)? != 0));
        (0..rows.len()).filter_map(tenant).collect()
    }
}

impl Database {
    /// Reads ahead for several calls in one transaction. Calls without a
    /// response must then read alone.
    pub(crate) fn read_ahead_all(&self, batch: &mut [WaitingToRead]) {
        let mut lease = match self.pool.take() {
            Ok(lease) => lease,
            Err(error) => {
                for waiting in batch {
                    waiting.answer(Err(again(&error)));
                }
                return;
            }
        };
        lease.link().begin(BEGIN_READ, &self.place);
        let readings: Vec<(i64, &Reading)> = (batch.iter())
            .filter_map(|waiting| Some((waiting.tenant, waiting.job.as_ref()?)))
            .collect();
        let read = Reading::run_all(lease.connection(), &readings);
        lease.finish(None);
        if let Ok(answers) = read {
            for (waiting, answers) in batch.iter_mut().zip(answers) {
                waiting.answer(Ok(answers));
            }
        }
    }
}

/// Answers the waiting calls with an error.
fn fail(batch: &mut [Waiting], error: &StoreError) {
    for waiting in batch.iter_mut().filter(|it| it.job.is_some()) {
        waiting.answer(Err(again(error)));
    }
}

/// Returns the error of the database in a fault.
fn cause(fault: Fault) -> PgError {
    let message = match fault {
        Fault::Sql(Error::Driver(error)) => match error.downcast::<PgError>() {
            Ok(error) => return *error,
            Err(error) => error.to_string(),
        },
        Fault::Sql(error) => error.to_string(),
        Fault::Refused(error) => error.to_string(),
    };
    PgError::Database {
        code: tokio_postgres::error::SqlState::DATA_EXCEPTION,
        message,
    }
}
