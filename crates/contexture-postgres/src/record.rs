//! Records concurrent turns in one transaction, and reads ahead for concurrent
//! calls in one.
//!
//! A rejected turn does not affect the others. After any other error, no turn
//! is written, and each caller records its own turn alone.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

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
        let turns = batch.iter().filter(|it| it.job.is_some()).count();
        if turns == 0 {
            return;
        }
        let fail = |batch: &mut [Waiting], error: StoreError| {
            for waiting in batch.iter_mut().filter(|it| it.job.is_some()) {
                waiting.answer(Err(again(&error)));
            }
        };
        let mut lease = match self.pool.take() {
            Ok(lease) => lease,
            Err(error) => return fail(batch, error),
        };
        let address = &self.place.address;
        let mut committing = false;
        let done = self.write_all(&mut lease, batch).and_then(|done| {
            if done.iter().any(|(_, done)| done.is_ok()) {
                committing = true;
                lease.link().commit()?;
            }
            Ok(done)
        });
        match done {
            Ok(done) => {
                match committing {
                    true => lease.give_back(),
                    false => lease.finish(None),
                }
                for (at, done) in done {
                    batch[at].answer(done.map_err(|fault| explain(fault, address)));
                }
            }
            Err(error) if committing && error.ends_connection() => {
                let unknown = StoreError::UnknownOutcome {
                    store: address.clone(),
                    message: error.to_string(),
                };
                fail(batch, unknown);
            }
            Err(error) => {
                let error = lease.link().ended_with(error);
                lease.finish(Some(&error));
                // No turn was written. A connection may have been closed just
                // now, or one of several turns may cause the error.
                if error.concerns_all() || turns == 1 && !error.ends_connection() {
                    fail(batch, error.at(address));
                }
            }
        }
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
