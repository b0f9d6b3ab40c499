//! Archives records and restores them.

use crate::driver::Connection;
use contexture_store::RecordKey;

use super::batch::{Batch, Row};
use crate::error::Fault;

pub(super) fn archive(db: &Connection, tenant: i64, keys: &[RecordKey]) -> Result<(), Fault> {
    let mut batch = Batch::open(db, tenant)?;
    for key in keys {
        match batch.row_if_any(*key)? {
            Some(row) if !row.archived => batch.show(&row, false)?,
            _ => {}
        }
    }
    batch.close()
}

impl Batch<'_> {
    /// Brings back what was archived.
    pub(super) fn bring_back(&mut self, row: &Row) -> Result<(), Fault> {
        self.show(row, true)
    }

    /// Puts a record aside or brings it back. What a text tells of counts only
    /// while it is in sight.
    fn show(&mut self, row: &Row, shown: bool) -> Result<(), Fault> {
        (self.db)
            .prepare_cached("UPDATE memories SET archived = ?2 WHERE key = ?1")?
            .execute((row.key, !shown))?;
        self.changed(row.key, row.kind)?;
        let more = match shown {
            true => 1,
            false => -1,
        };
        for entity in &row.mentions {
            self.touch(*entity, more, 0);
        }
        for relation in self.told(row.key)? {
            self.touch(relation, more, 0);
        }
        Ok(())
    }
}
