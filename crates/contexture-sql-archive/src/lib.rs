//! Portable copies of Contexture's stores in SQL: export a tenant's rows from one
//! database and import them into another.
//!
//! ```
//! use contexture_driver::{Connection, Fault};
//! use contexture_store::ArchiveEntry;
//!
//! // Works with every database that has a driver.
//! fn count_rows(db: &Connection, tenant: i64) -> Result<u64, Fault> {
//!     let mut rows = 0;
//!     contexture_sql_archive::export(db, tenant, &mut |entry| {
//!         rows += u64::from(matches!(entry, ArchiveEntry::Row(_)));
//!         Ok(())
//!     })?;
//!     Ok(rows)
//! }
//! ```
//!
//! [`tables`] lists the tables and the meaning of their columns. Row keys are
//! specific to a database; in a copy, rows are numbered from 1 in the order of
//! their keys. An import assigns new keys in the same order. A copy of the
//! import is therefore identical to the copy that was imported. `contexture-sql`
//! opens the transactions, and verifies the rows after an import.

mod export;
mod import;
pub mod message_key;
pub mod shared;
pub mod tables;
pub mod unlisted;

pub use export::export;
pub use import::{import, is_blank};
