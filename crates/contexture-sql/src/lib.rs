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

use contexture_store::{Call, EventHint, Recorded, Store, StoreError, StoreStats, Usage, Watch};

mod ahead;
#[cfg(feature = "alternating")]
mod alternating;
pub mod archive;
mod driver;
mod error;
mod events;
mod files;
mod idempotency;
mod import;
mod keys;
mod ledger;
mod memory;
mod pins;
mod record;
mod results;
mod row;
mod sessions;
mod snapshots;
mod tasks;
mod together;
mod trees;
mod turns;
mod upkeep;
mod value;
mod verify;

pub use ahead::{Answers, Reading};
#[cfg(feature = "alternating")]
pub use alternating::Alternating;
pub use driver::{Columns, Connection, Driver, OptionalExtension, Prepared, Row, Statement};
pub use error::{Error, Fault};
pub use record::Recording;
pub use together::{Question, Rows};
pub use value::{FromSql, HasSqlType, Params, SqlType, ToSql, Value, ValueRef};

/// The key of nobody: databases count from 1.
pub const NOBODY: i64 = 0;

/// Transactions on a database, as one tenant sees it. Clones share everything.
pub trait Backend: Clone + Send + Sync + Sized + 'static {
    /// Calls `read` with a connection and the tenant's key, in a transaction
    /// that sees one state of the store. The key of a tenant that has nothing is
    /// [`NOBODY`].
    fn read<T>(
        &self,
        read: impl FnOnce(&Connection, i64) -> Result<T, Fault>,
    ) -> Result<T, StoreError>;

    /// Calls `write` with a connection and the tenant's key, in a transaction
    /// that is durable when this returns. Nobody else writes for the tenant
    /// meanwhile.
    fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError>;

    /// Reads what a call will ask for, like [`read`](Self::read). A backend can read
    /// for several callers in one transaction.
    fn read_ahead(&self, reading: Reading) -> Result<Answers, StoreError> {
        self.read(move |db, tenant| reading.run(db, tenant))
    }

    /// Records a turn like [`write`](Self::write). A backend can record the turns
    /// of several callers in one transaction.
    fn record(&self, recording: Recording) -> Result<Recorded, StoreError> {
        self.write(move |db, tenant| recording.run(db, tenant))
    }

    /// Calls `write` like [`write`](Self::write), and returns whether what it
    /// deleted is in none of the database's files any more.
    fn write_and_clean<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<(T, bool), StoreError>;

    /// Calls `write` like [`write`](Self::write), without waiting for the disk,
    /// and tells `done` what came of it.
    fn write_later(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<(), Fault> + Send + 'static,
        done: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    );

    /// Waits until nothing is on its way that [`write_later`](Self::write_later)
    /// was asked for before.
    fn settle(&self);

    /// Returns the same store as another tenant sees it.
    fn for_tenant(&self, tenant: &str) -> Self;

    /// Returns the rows of a tenant in the place that holds what all tenants
    /// share: the keys, and the list of tenants.
    fn shared(&self, tenant: &str) -> Self;

    /// Returns the error for the store.
    fn explain(&self, fault: Fault) -> StoreError;

    /// Returns true when each statement costs a round trip to another process.
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns the path of the file in which an index of the tenant's memory can
    /// be kept on the local disk, if there is one.
    fn index_path(&self) -> Option<PathBuf> {
        None
    }

    /// Returns the largest message, or node of a tree, that is accepted.
    fn max_message_bytes(&self) -> u64;

    /// Returns the address of the store.
    fn address(&self) -> String;

    /// Returns the name of the tenant.
    fn tenant_name(&self) -> &str;

    /// Returns false when the tenant has never stored anything.
    fn has_data(&self) -> Result<bool, StoreError>;

    /// Adds to a usage how many bytes that is, and whether something deleted may
    /// still be in the files.
    fn measure(&self, usage: Usage) -> Result<Usage, StoreError>;

    /// Returns true while something deleted may still be in the files, and the
    /// store overwrites it by itself.
    fn has_deleted_text(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Returns the names of the tenants that have data, the default one first.
    fn tenant_names(&self) -> Result<Vec<String>, StoreError>;

    /// Removes the data of a tenant.
    fn remove_tenant(&self, name: &str) -> Result<(), StoreError>;

    /// Reads and writes something that is undone, to see whether that works.
    fn probe(&self) -> Result<(), StoreError>;

    /// Says that an event of the tenant was stored, for other servers.
    fn announce(&self) {}

    /// Has `woken` told of events that other servers have stored.
    fn on_event(&self, _woken: EventHint) {}

    /// Reports to `watch` how long callers wait, unless another watch is set
    /// already.
    fn watch(&self, watch: Watch);

    /// Returns the state of the store, for metrics.
    fn stats(&self) -> Result<StoreStats, StoreError> {
        Ok(StoreStats::default())
    }

    /// Returns a number that changes when the data was replaced.
    fn incarnation(&self) -> u64;
}

/// A backend that is opened at a place of that type.
pub trait Open<P>: Backend {
    /// How a store is opened.
    type Options: Default;

    /// Opens the store at `place`, and creates it if there is none.
    fn open(place: P, options: Self::Options) -> Result<Self, StoreError>;

    /// Opens the store at `place` for reading only. It must exist.
    fn open_read_only(place: P) -> Result<Self, StoreError>;
}

/// A store in SQL, as one tenant sees it. Clones share everything.
#[derive(Clone)]
pub struct SqlStore<B> {
    backend: B,
}

impl<B: Backend> SqlStore<B> {
    /// Returns the store on a backend.
    pub fn new(backend: B) -> Self {
        Self { backend }
    }

    /// Opens the store at `place`, and creates it if there is none.
    pub fn open<P>(place: P) -> Result<Self, StoreError>
    where
        B: Open<P>,
    {
        B::open(place, B::Options::default()).map(Self::new)
    }

    /// Opens a store like [`open`](Self::open), with other options.
    pub fn open_with<P>(place: P, options: B::Options) -> Result<Self, StoreError>
    where
        B: Open<P>,
    {
        B::open(place, options).map(Self::new)
    }

    /// Opens the store at `place` for reading only. It must exist.
    pub fn open_read_only<P>(place: P) -> Result<Self, StoreError>
    where
        B: Open<P>,
    {
        B::open_read_only(place).map(Self::new)
    }

    /// Returns the same store as another tenant sees it. Tenants share nothing:
    /// what one has stored, another can neither see nor name. The tenant of a
    /// store that was just opened is `""`.
    pub fn for_tenant(&self, tenant: &str) -> Self {
        Self::new(self.backend.for_tenant(tenant))
    }

    /// Returns the backend.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Connection, i64) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.backend.read(read)
    }

    /// Returns an answer that was read ahead, or reads it.
    fn read_once<T: 'static>(
        &self,
        name: impl Fn() -> String,
        read: impl FnOnce(&Connection, i64) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        match Call::take_ahead(|| self.ahead_key(&name())) {
            Some(answer) => Ok(answer),
            None => self.read(read),
        }
    }

    fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        Call::forget_ahead();
        self.backend.write(write)
    }

    /// Writes what a call changes. If the call has an idempotency key, the key is
    /// stored in the same transaction.
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
        Call::forget_ahead();
        self.backend.write_and_clean(move |db, tenant| {
            idempotency::remove_answers(db, tenant)?;
            write(db, tenant)
        })
    }

    fn write_later(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<(), Fault> + Send + 'static,
        done: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) {
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
