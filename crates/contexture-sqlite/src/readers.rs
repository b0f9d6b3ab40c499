//! A few connections that read.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use crate::connect::{Place, Reader};
use crate::error::Fault;

/// The most connections that read at a time. Reads are short, and a machine has
/// only so many cores.
const MAX_READERS: usize = 8;

pub(crate) struct Readers {
    state: Mutex<Idle>,
    freed: Condvar,
}

struct Idle {
    connections: Vec<Reader>,
    in_use: usize,
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
        };
        Self {
            state: Mutex::new(state),
            freed: Condvar::new(),
        }
    }

    /// Calls `read` in a transaction, so that it sees one state of the store.
    pub(crate) fn run<T>(
        &self,
        place: &Place,
        read: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut lease = self.take();
        let reader = match &mut lease.reader {
            Some(reader) => reader,
            none => none.insert(place.reader()?),
        };
        let connection = &reader.connection;
        // Prepared once. A transaction that is not ended, because `read` panics,
        // ends with its connection.
        connection.prepare_cached("BEGIN DEFERRED")?.execute([])?;
        let result = read(connection);
        if !connection.is_autocommit() {
            connection.prepare_cached("ROLLBACK")?.execute([])?;
        }
        result
    }

    /// Waits until there is a connection to be had, or to be made.
    fn take(&self) -> Lease<'_> {
        let mut state = self.lock();
        while state.in_use == MAX_READERS {
            state = (self.freed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
        state.in_use += 1;
        Lease {
            readers: self,
            reader: state.connections.pop(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connections that nobody uses.
    pub(crate) fn close(&self) {
        self.lock().connections.clear();
    }
}

/// The right to a connection, given back when it is dropped.
struct Lease<'a> {
    readers: &'a Readers,
    reader: Option<Reader>,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut state = self.readers.lock();
        state.in_use -= 1;
        if let Some(reader) = self.reader.take()
            && reader.reusable
            && reader.connection.is_autocommit()
        {
            state.connections.push(reader);
        }
        drop(state);
        self.readers.freed.notify_one();
    }
}
