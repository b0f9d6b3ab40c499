//! Portable copies: export a tenant's rows from one database and import them
//! into another.
//!
//! [`tables`] lists the tables and the meaning of their columns. Row keys are
//! specific to a database; in a copy, rows are numbered from 1 in the order of
//! their keys. An import assigns new keys in the same order. A copy of the
//! import is therefore identical to the copy that was imported.

use contexture_store::{Archive, ArchiveSink, ArchiveSource, SharedPart, StoreError, Upkeep as _};

use crate::{Backend, SqlStore};

mod export;
mod import;
mod shared;
pub mod tables;

impl<B: Backend> Archive for SqlStore<B> {
    fn export_entries(&self, put: ArchiveSink<'_>) -> Result<(), StoreError> {
        self.settle();
        // What cannot be deleted now is deleted by the store that imports the archive.
        let _ = self.continue_deletions();
        self.read(|db, tenant| export::export(db, tenant, put))
    }

    fn import_entries(&self, next: ArchiveSource) -> Result<(), StoreError> {
        let name = self.backend.tenant_name().to_owned();
        self.write(move |db, tenant| import::import(db, tenant, &name, next))
    }

    fn is_blank(&self) -> Result<bool, StoreError> {
        self.settle();
        if !self.backend.has_data()? {
            return Ok(true);
        }
        self.read(import::is_blank)
    }
}

impl<B: Backend> SqlStore<B> {
    pub(crate) fn export_part(
        &self,
        part: SharedPart,
        put: ArchiveSink<'_>,
    ) -> Result<(), StoreError> {
        let shared = self.backend.shared("");
        shared.read(|db, _| shared::export(db, part, put))
    }

    pub(crate) fn import_part(
        &self,
        part: SharedPart,
        next: ArchiveSource,
    ) -> Result<(), StoreError> {
        let shared = self.backend.shared("");
        shared.write(move |db, _| shared::import(db, part, next))
    }
}
