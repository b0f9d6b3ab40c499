//! The logic of Contexture's stores in SQL, without a database.
//!
//! ```
//! use contexture_sql::{Backend, SqlStore};
//!
//! // Works with every database that has a backend.
//! fn store_of<B: Backend>(store: &SqlStore<B>, tenant: &str) -> SqlStore<B> {
//!     store.for_tenant(tenant)
//! }
//! ```
//!
//! [`SqlStore`] implements the traits of `contexture-store` in SQL that SQLite and
//! PostgreSQL share. A [`Backend`] opens transactions on a database and knows where
//! its tenants are; a [`Driver`] runs statements inside a transaction. The crates
//! `contexture-sqlite` and `contexture-postgres` have one of each, and the schema.
//!
//! No other write of the same tenant runs at the same time: in SQLite because a
//! file has one writer, in PostgreSQL because the tenant's row is locked first.
//! The logic relies on that: it reads, decides and writes, and the numbers of
//! changes are in the order of commits.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use contexture_store::{
    Call, EventHint, Recorded, Store, StoreError, StoreStats, Upkeep as _, Usage, Watch,
};

mod ahead;
#[cfg(feature = "alternating")]
mod alternating;
mod archive;
mod events;
mod files;
mod idempotency;
mod import;
mod keys;
mod known;
mod ledger;
mod memory;
mod pending;
mod pins;
mod record;
mod results;
mod sessions;
mod snapshots;
mod tasks;
mod trees;
mod turns;
mod upkeep;
mod verify;

pub use ahead::{Answers, Reading};
#[cfg(feature = "alternating")]
pub use alternating::Alternating;
pub use contexture_driver::{
    Columns, Connection, Driver, Error, Fault, FromSql, HasSqlType, OptionalExtension, Params,
    Prepared, Question, Row, Rows, SqlType, Statement, ToSql, Value, ValueRef,
};
pub use record::Recording;

use contexture_driver::{driver, error, params, row, together, value};

/// The key of a tenant without data. Databases assign keys from 1.
pub const NO_TENANT: i64 = 0;

/// Transactions on a database for one tenant. Clones share all state.
pub trait Backend: Clone + Send + Sync + Sized + 'static {
    /// Calls `read` with a connection and the tenant's key, in a transaction
    /// that sees one state of the store. The key of a tenant without data is
    /// [`NO_TENANT`].
    fn read<T>(
        &self,
        read: impl FnOnce(&Connection, i64) -> Result<T, Fault>,
    ) -> Result<T, StoreError>;

    /// Calls `write` with a connection and the tenant's key, in a transaction
    /// that is durable on return. No other write of the tenant runs at the same
    /// time.
    fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError>;

    /// Reads the data that a call will use, like [`read`](Self::read). A
    /// backend can read for several callers in one transaction.
    fn read_ahead(&self, reading: Reading) -> Result<Answers, StoreError> {
        self.read(move |db, tenant| reading.run(db, tenant))
    }

    /// Records a turn like [`write`](Self::write). A backend can record the turns
    /// of several callers in one transaction.
    fn record(&self, recording: Recording) -> Result<Recorded, StoreError> {
        self.write(move |db, tenant| recording.run(db, tenant))
    }

    /// Calls `write` like [`write`](Self::write), and returns true if the
    /// deleted data is in none of the database's files any more.
    fn write_and_clean<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<(T, bool), StoreError>;

    /// Calls `write` like [`write`](Self::write) without waiting for the disk,
    /// and passes the result to `done`.
    fn write_later(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<(), Fault> + Send + 'static,
        done: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    );

    /// Waits until every earlier [`write_later`](Self::write_later) has
    /// finished.
    fn settle(&self);

    /// Returns the same store for another tenant.
    fn for_tenant(&self, tenant: &str) -> Self;

    /// Returns the backend of the database that has the shared data: the API
    /// keys and the list of tenants. Its tenant is `tenant`.
    fn shared(&self, tenant: &str) -> Self;

    /// Converts a fault to the error that callers get.
    fn explain(&self, fault: Fault) -> StoreError;

    /// Returns true when each statement costs a round trip to another process.
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns the path for an index of the tenant's memory on the local disk,
    /// if the store has one.
    fn index_path(&self) -> Option<PathBuf> {
        None
    }

    /// Returns the size limit of a message or a tree node, in bytes.
    fn max_message_bytes(&self) -> u64;

    /// Returns the address of the store.
    fn address(&self) -> String;

    /// Returns the name of the tenant.
    fn tenant_name(&self) -> &str;

    /// Returns false when the tenant has never stored anything.
    fn has_data(&self) -> Result<bool, StoreError>;

    /// Adds the size in bytes to a usage, and whether deleted text may still be
    /// in the files.
    fn measure(&self, usage: Usage) -> Result<Usage, StoreError>;

    /// Returns true while deleted text may still be in the files and the store
    /// will overwrite it.
    fn has_deleted_text(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Returns the names of the tenants with data, the default tenant first.
    fn tenant_names(&self) -> Result<Vec<String>, StoreError>;

    /// Removes the data of a tenant.
    fn remove_tenant(&self, name: &str) -> Result<(), StoreError>;

    /// Tests reads and writes with a change that is rolled back.
    fn probe(&self) -> Result<(), StoreError>;

    /// Returns the function that notifies other servers that an event of the tenant was
    /// stored. `None` if there can be no other servers. The thread that writes may be the
    /// last to drop it, so that it must not own that thread.
    fn announcer(&self) -> Option<Announcer> {
        None
    }

    /// Calls `woken` for events that other servers have stored.
    fn on_event(&self, _woken: EventHint) {}

    /// Reports the waiting times of callers to `watch`, unless a watch is set
    /// already.
    fn watch(&self, watch: Watch);

    /// Returns the state of the store, for metrics.
    fn stats(&self) -> Result<StoreStats, StoreError> {
        Ok(StoreStats::default())
    }

    /// Returns a number that changes when the data was replaced.
    fn incarnation(&self) -> u64;
}

/// A backend that can be opened at an address of type `P`.
pub trait Open<P>: Backend {
    /// The options for opening a store.
    type Options: Default;

    /// Opens the store at `place`, and creates it if it does not exist.
    fn open(place: P, options: Self::Options) -> Result<Self, StoreError>;

    /// Opens the store at `place` for reading only. It must exist.
    fn open_read_only(place: P) -> Result<Self, StoreError>;
}

/// A store in SQL for one tenant. Clones share all state.
#[derive(Clone)]
pub struct SqlStore<B> {
    backend: B,
    known: Arc<known::KnownSessions>,
    // The start of the keys of answers that were read ahead.
    ahead_prefix: Arc<str>,
}

/// A function that notifies other servers of an event.
pub type Announcer = Box<dyn Fn() + Send>;

impl<B: Backend> SqlStore<B> {
    /// Returns the store on a backend.
    pub fn new(backend: B) -> Self {
        Self::with_known(backend, Arc::default())
    }

    fn with_known(backend: B, known: Arc<known::KnownSessions>) -> Self {
        let ahead_prefix = format!("{}\n{}\n", backend.address(), backend.tenant_name());
        Self {
            backend,
            known,
            ahead_prefix: ahead_prefix.into(),
        }
    }

    /// Opens the store at `place`, and creates it if it does not exist. Continues
    /// deletions of the default tenant that have not ended.
    pub fn open<P>(place: P) -> Result<Self, StoreError>
    where
        B: Open<P>,
    {
        Self::open_with(place, B::Options::default())
    }

    /// Opens a store like [`open`](Self::open), with other options.
    pub fn open_with<P>(place: P, options: B::Options) -> Result<Self, StoreError>
    where
        B: Open<P>,
    {
        let store = B::open(place, options).map(Self::new)?;
        // What cannot be deleted now is tried again later.
        let _ = store.continue_deletions();
        Ok(store)
    }

    /// Opens the store at `place` for reading only. It must exist.
    pub fn open_read_only<P>(place: P) -> Result<Self, StoreError>
    where
        B: Open<P>,
    {
        B::open_read_only(place).map(Self::new)
    }

    /// Returns the same store for another tenant. Tenants share nothing: a
    /// tenant can neither see nor name the data of another. The tenant of a
    /// newly opened store is `""`.
    pub fn for_tenant(&self, tenant: &str) -> Self {
        Self::with_known(self.backend.for_tenant(tenant), Arc::clone(&self.known))
    }

    /// Returns the backend.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Connection, i64) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.write_pending()?;
        self.backend.read(read)
    }

    /// Returns data that was read ahead, or reads it now. A turn that waits must not
    /// change the data.
    fn read_once<T: 'static>(
        &self,
        name: impl Fn() -> String,
        read: impl FnOnce(&Connection, i64) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        match Call::take_ahead(|| self.ahead_key(&name())) {
            Some(answer) => Ok(answer),
            None => self.backend.read(read),
        }
    }

    fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_pending()?;
        Call::forget_ahead();
        self.backend.write(write)
    }

    /// Writes the changes of a call. If the call has an idempotency key, the
    /// key is stored in the same transaction.
    fn write_keyed<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        Call::write_with_key(|call| {
            self.write(move |db, tenant| {
                if let Some(call) = &call {
                    idempotency::claim(db, tenant, call)?;
                }
                write(db, tenant)
            })
        })
    }

    fn write_and_clean<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<(T, bool), StoreError> {
        self.write_pending()?;
        Call::forget_ahead();
        self.backend.write_and_clean(move |db, tenant| {
            idempotency::remove_answers(db, tenant)?;
            write(db, tenant)
        })
    }

    /// Notifies other servers that an event of the tenant was stored.
    fn announce(&self) {
        if let Some(announce) = self.backend.announcer() {
            announce();
        }
    }

    fn write_later(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<(), Fault> + Send + 'static,
        done: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) {
        if let Err(error) = self.write_pending() {
            return done(Err(error));
        }
        Call::forget_ahead();
        self.backend.write_later(write, done);
    }

    fn settle(&self) {
        self.backend.settle();
    }

    fn explain(&self, fault: Fault) -> StoreError {
        self.backend.explain(fault)
    }

    fn max_message_bytes(&self) -> u64 {
        self.backend.max_message_bytes()
    }
}

impl<B: Backend> fmt::Debug for SqlStore<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlStore")
            .field("address", &self.backend.address())
            .field("tenant", &self.backend.tenant_name())
            .finish_non_exhaustive()
    }
}

impl<B: Backend> Store for SqlStore<B> {
    fn address(&self) -> String {
        self.backend.address()
    }
}
