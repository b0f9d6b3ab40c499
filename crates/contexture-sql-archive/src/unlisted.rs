//! The turns whose tool results are not listed yet.

use contexture_driver::{Connection, Fault, OptionalExtension as _};

/// A range of turns that are not listed yet.
#[derive(Debug, Clone, Copy)]
pub struct Unlisted {
    /// The key of the next turn to list.
    pub next: i64,
    /// The key of the last turn to list.
    pub last: i64,
    /// The tenant of the turns. `None` for the turns of all tenants.
    pub tenant: Option<i64>,
}

/// Returns the first range of turns of a tenant that are not listed yet.
pub fn next(db: &Connection, tenant: i64) -> Result<Option<Unlisted>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT next, last, tenant FROM unlisted_results
         WHERE tenant IS NULL OR tenant = ?1 ORDER BY next LIMIT 1",
    )?;
    let found = select.query_row([tenant], |row| {
        Ok(Unlisted {
            next: row.get(0)?,
            last: row.get(1)?,
            tenant: row.get(2)?,
        })
    });
    Ok(found.optional()?)
}

/// Marks all turns of a tenant to be listed again.
pub fn mark_all(db: &Connection, tenant: i64) -> Result<(), Fault> {
    db.prepare_cached("DELETE FROM unlisted_results WHERE tenant = ?1")?
        .execute([tenant])?;
    db.prepare_cached(
        "INSERT INTO unlisted_results (next, last, tenant)
         SELECT min(key), max(key), ?1 FROM turns WHERE tenant = ?1
         HAVING max(key) IS NOT NULL",
    )?
    .execute([tenant])?;
    Ok(())
}
