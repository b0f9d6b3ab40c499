//! Archives records and restores them.

use crate::driver::Connection;
use contexture_store::RecordKey;

use super::batch::{Batch, Row};
use crate::error::Fault;

/// Archives records: recall ignores them, and nothing is deleted.
pub fn archive(db: &Connection, tenant: i64, keys: &[RecordKey]) -> Result<(), Fault> {
    let mut batch = Batch::open(db, tenant)?;
    for key in keys {
        match batch.row_if_any(*key)? {
            Some(row) if !row.archived => batch.set_visible(&row, false)?,
            _ => {}
        }
    }
    batch.close()
}

impl Batch<'_> {
    /// Restores an archived record.
    pub(crate) fn restore(&mut self, row: &Row) -> Result<(), Fault> {
        self.set_visible(row, true)
    }

    /// Archives a record or restores it. The mentions of a text count only
    /// while the text is not archived.
    fn set_visible(&mut self, row: &Row, visible: bool) -> Result<(), Fault> {
        (self.db)
            .prepare_cached("UPDATE memories SET archived = ?2 WHERE key = ?1")?
            .execute((row.key, !visible))?;
        self.changed(row.key, row.kind)?;
        let more = match visible {
            true => 1,
            false => -1,
        };
        for entity in &row.mentions {
            self.touch(*entity, more, 0);
        }
        for relation in self.relations_of(row.key)? {
            self.touch(relation, more, 0);
        }
        Ok(())
    }
}
