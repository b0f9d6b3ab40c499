//! A small pool of connections that read.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::connect::Reader;
use crate::driver::Database;
use crate::error::Fault;

/// The most connections that read at a time. Reads are short, and more
/// connections than cores would not be faster.
const MAX_READERS: usize = 8;

pub(crate) struct Readers {
    state: Mutex<Idle>,
    freed: Condvar,
}

struct Idle {
    connections: Vec<Reader>,
    in_use: usize,
    // The threads that wait for a connection.
    waiting: usize,
    closed: bool,
}

impl Readers {
    pub(crate) fn new(first: Reader) -> Self {
        let connections = match first.reusable {
            true => vec![first],
            false => Vec::new(),
        };
        let state = Idle {
            connections,
            in_use: 0,
            waiting: 0,
            closed: false,
        };
        Self {
            state: Mutex::new(state),
            freed: Condvar::new(),
        }
    }

    /// Waits until a connection is free or may be opened. Returns `None` if the
    /// pool is closed.
    pub(crate) fn take(&self) -> Option<Lease<'_>> {
        let mut state = self.lock();
        while state.in_use == MAX_READERS && !state.closed {
            state.waiting += 1;
            state = (self.freed.wait(state)).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        if state.closed {
            return None;
        }
        state.in_use += 1;
        Some(Lease {
            readers: self,
            reader: state.connections.pop(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the pool and its connections. Returns false if some are still in
    /// use after `patience`.
    pub(crate) fn close(&self, patience: Duration) -> bool {
        let start = Instant::now();
        let mut state = self.lock();
        state.closed = true;
        state.connections.clear();
        self.freed.notify_all();
        loop {
            let left = patience.saturating_sub(start.elapsed());
            if state.in_use == 0 || left.is_zero() {
                return state.in_use == 0;
            }
            let waited = self.freed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns true if the pool is closed.
    pub(crate) fn are_closed(&self) -> bool {
        self.lock().closed
    }
}

/// The right to a connection, given back when it is dropped.
pub(crate) struct Lease<'a> {
    readers: &'a Readers,
    reader: Option<Reader>,
}

impl Lease<'_> {
    /// Calls `read` in a transaction, so that it sees one state of the store.
    /// `make` opens a connection if there is none.
    pub(crate) fn run<T>(
        mut self,
        make: impl FnOnce() -> Result<Reader, Fault>,
        read: impl FnOnce(&Database) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(make()?),
        };
        let connection = &reader.connection;
        // The statements are prepared once. If `read` panics, the transaction
        // ends with its connection.
        connection.prepare_cached("BEGIN DEFERRED")?.execute([])?;
        let result = read(connection);
        if !connection.is_autocommit() {
            connection.prepare_cached("ROLLBACK")?.execute([])?;
        }
        result
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let reader = self.reader.take();
        let reader = reader.filter(|it| it.reusable && it.connection.is_autocommit());
        let mut state = self.readers.lock();
        match state.closed {
            true => drop(reader),
            false => state.connections.extend(reader),
        }
        state.in_use -= 1;
        // `close` waits for this, too.
        match state.closed {
            true => self.readers.freed.notify_all(),
            // A notification is a system call, even if no thread waits.
            false if state.waiting > 0 => self.readers.freed.notify_one(),
            false => {}
        }
    }
}
