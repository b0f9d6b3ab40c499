//! Portable copies: the transactions around `contexture-sql-archive`.

use contexture_sql_archive::shared;
use contexture_store::{Archive, ArchiveSink, ArchiveSource, SharedPart, StoreError, Upkeep as _};

use crate::error::Fault;
use crate::upkeep::pending;
use crate::verify::verify;
use crate::{Backend, SqlStore};

impl<B: Backend> Archive for SqlStore<B> {
    fn export_entries(&self, put: ArchiveSink<'_>) -> Result<(), StoreError> {
        self.settle();
        // What cannot be deleted now is deleted by the store that imports the archive.
        let _ = self.continue_deletions();
        self.read(|db, tenant| contexture_sql_archive::export(db, tenant, put))
    }

    fn import_entries(&self, next: ArchiveSource) -> Result<(), StoreError> {
        let name = self.backend.tenant_name().to_owned();
        self.write(move |db, tenant| {
            contexture_sql_archive::import(db, tenant, &name, next)?;
            pending::renumber(db, tenant)?;
            let verified = verify(db, tenant)?;
            match verified.damaged.into_iter().next() {
                None => Ok(()),
                Some(damage) => Err(Fault::damaged(damage.what, damage.message)),
            }
        })
    }

    fn is_blank(&self) -> Result<bool, StoreError> {
        self.settle();
        if !self.backend.has_data()? {
            return Ok(true);
        }
        self.read(contexture_sql_archive::is_blank)
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
