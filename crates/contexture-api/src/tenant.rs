//! The tenant of a call, as operations see it.

use std::sync::Arc;

use contexture::store::Store;
use contexture::turn::Usage;
use contexture::{Assembled, Engine, Root, Timestamp};

use crate::problem::Problem;
use crate::quota::{ReachedQuotas, StorageKind};
use crate::stored_files::StoredFiles;

/// A tenant: its files, its engine and its clock.
pub struct Tenant {
    /// The name; "" is the default tenant.
    pub name: Arc<str>,
    /// The directory with the tenant's files.
    pub root: Root,
    /// The engine, with the tenant's store and settings.
    pub engine: Engine,
    /// The files that are kept in the store. `None` if the tenant has a root of
    /// its own.
    pub stored: Option<StoredFiles>,
    /// A fixed time, which makes output reproducible. Default: the system clock.
    pub now: Option<Timestamp>,
    /// Receives the actions of operations.
    pub observer: Arc<dyn Observer>,
    /// The storage quotas that the tenant has reached.
    pub reached_quotas: ReachedQuotas,
}

impl Tenant {
    /// Returns the fixed time, otherwise the current time.
    pub fn now(&self) -> Timestamp {
        self.now.unwrap_or_else(Timestamp::now)
    }

    /// Returns the fixed time, which makes output reproducible.
    pub fn fixed_now(&self) -> Option<Timestamp> {
        self.now
    }

    /// Returns the tenant's store. Fails if the engine has none.
    pub fn store(&self) -> Result<&dyn Store, Problem> {
        Ok(self.engine.store()?)
    }

    /// Fails if the tenant has reached its quota of that kind. An operation calls
    /// this before it adds something of that kind.
    pub fn check_quota(&self, kind: StorageKind) -> Result<(), Problem> {
        let checked = self.reached_quotas.check(&self.name, kind);
        checked.inspect_err(|_| self.observer.refused_by_quota())
    }
}

/// Receives the actions of operations: for metrics, and for listeners to the
/// events of a session.
pub trait Observer: Send + Sync {
    /// A request was assembled.
    fn assembled(&self, _assembled: &Assembled) {}

    /// A turn was recorded, with the tokens that the provider reported.
    fn recorded(&self, _usage: Option<&Usage>) {}

    /// That many memory records were added or replaced.
    fn remembered(&self, _records: u64) {}

    /// The store has a new event of a session.
    fn has_event(&self) {}

    /// A call was refused because its tenant has reached a storage quota.
    fn refused_by_quota(&self) {}
}

/// Observes nothing.
impl Observer for () {}
