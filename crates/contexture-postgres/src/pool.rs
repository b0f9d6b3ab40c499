//! A pool of connections, with limits on their number and on the time that
//! callers wait for one.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use contexture_sql::Connection;
use contexture_store::{StoreError, StoreStats};

use crate::driver::Transaction;
use crate::error::PgError;
use crate::link::Link;
use crate::place::DatabaseLocation;

/// How long an unused connection stays open.
const IDLE: Duration = Duration::from_secs(300);

pub(crate) struct Pool {
    place: DatabaseLocation,
    size: usize,
    wait: Duration,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<(Link, Instant)>,
    in_use: usize,
    waiting: usize,
    retries: u64,
}

impl Pool {
    pub(crate) fn new(place: DatabaseLocation, size: usize, wait: Duration) -> Self {
        Self {
            place,
            size: size.max(1),
            wait,
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a connection that was open a moment ago.
    pub(crate) fn take(&self) -> Result<Lease<'_>, StoreError> {
        let start = Instant::now();
        let mut state = self.lock();
        while state.in_use >= self.size {
            let left = self.wait.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(StoreError::Unavailable {
                    store: self.place.address.clone(),
                    message: format!(
                        "all {} connections are in use; retry, or raise store.pool_size",
                        self.size
                    ),
                });
            }
            state.waiting += 1;
            let waited = self.freed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        state.in_use += 1;
        loop {
            let Some((mut link, _)) = state.idle.pop() else {
                break;
            };
            drop(state);
            if link.is_open() {
                return Ok(Lease::new(self, link));
            }
            state = self.lock();
        }
        drop(state);
        self.open()
    }

    /// Opens another connection. The caller has checked the limit.
    fn open(&self) -> Result<Lease<'_>, StoreError> {
        match Link::open_for_many(&self.place) {
            Ok(link) => Ok(Lease::new(self, link)),
            Err(error) => {
                self.end();
                Err(error.at(&self.place.address))
            }
        }
    }

    /// Returns a new connection, and closes the unused ones: the server may
    /// have closed them, too.
    pub(crate) fn connect(&self) -> Result<Lease<'_>, StoreError> {
        self.lock().retries += 1;
        self.close_idle();
        self.take()
    }

    /// Closes the unused connections.
    fn close_idle(&self) {
        let idle = std::mem::take(&mut self.lock().idle);
        drop(idle);
    }

    /// Returns a connection to the pool.
    fn give_back(&self, link: Link) {
        let mut state = self.lock();
        let now = Instant::now();
        state.idle.push((link, now));
        // The oldest connections are at the front: the latest is used first.
        let old = state
            .idle
            .iter()
            .take_while(|(_, since)| now - *since > IDLE)
            .count();
        let gone: Vec<_> = state.idle.drain(..old).collect();
        drop(state);
        drop(gone);
        self.end();
    }

    /// Counts a connection as no longer in use.
    fn end(&self) {
        let mut state = self.lock();
        state.in_use = state.in_use.saturating_sub(1);
        drop(state);
        self.freed.notify_one();
    }

    /// Returns the state of the pool, for metrics.
    pub(crate) fn stats(&self) -> StoreStats {
        let state = self.lock();
        StoreStats {
            max_connections: Some(self.size as u64),
            connections_in_use: Some(state.in_use as u64),
            waiting_for_connections: Some(state.waiting as u64),
            retries: Some(state.retries),
            ..StoreStats::default()
        }
    }

    /// Returns the number of connections in use.
    pub(crate) fn in_use(&self) -> usize {
        self.lock().in_use
    }
}

/// A connection in use. Dropping it closes the connection.
pub(crate) struct Lease<'p> {
    pool: &'p Pool,
    // `None` after the connection was returned to the pool.
    transaction: Option<Transaction>,
}

impl<'p> Lease<'p> {
    fn new(pool: &'p Pool, link: Link) -> Self {
        Self {
            pool,
            transaction: Some(Transaction::new(link)),
        }
    }

    #[expect(clippy::expect_used)]
    pub(crate) fn link(&mut self) -> &mut Link {
        let transaction = self.transaction.as_mut();
        transaction
            .expect("a lease ends when it is given back")
            .link()
    }

    pub(crate) fn connection(&self) -> &Connection {
        self.transaction()
    }

    #[expect(clippy::expect_used)]
    pub(crate) fn transaction(&self) -> &Transaction {
        let transaction = self.transaction.as_ref();
        transaction.expect("a lease ends when it is given back")
    }

    /// Returns the connection to the pool, outside a transaction.
    pub(crate) fn give_back(mut self) {
        if let Some(transaction) = self.transaction.take() {
            let mut link = transaction.into_link();
            link.forget();
            if link.is_stale() {
                // The other connections have prepared the same statements.
                self.pool.close_idle();
                self.pool.end();
                return;
            }
            match link.is_alive() {
                true => self.pool.give_back(link),
                false => self.pool.end(),
            }
        }
    }

    /// Rolls back the transaction and returns the connection to the pool,
    /// without waiting.
    pub(crate) fn finish(mut self, error: Option<&PgError>) {
        if error.is_some_and(PgError::ends_connection) {
            return;
        }
        self.link().roll_back();
        self.give_back();
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(transaction) = self.transaction.take() {
            drop(transaction);
            self.pool.end();
        }
    }
}
