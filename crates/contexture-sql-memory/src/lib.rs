//! The memory records and tasks of Contexture's stores in SQL.
//!
//! ```
//! use contexture_driver::{Connection, Fault};
//! use contexture_sql_memory::stats;
//!
//! // Works with every database that has a driver.
//! fn count_records(db: &Connection, tenant: i64) -> Result<u64, Fault> {
//!     Ok(stats::counts(db, tenant)?.values().sum())
//! }
//! ```
//!
//! Each kind of record has a table. Search data (words, vectors, mentions) is
//! in tables of its own, in the same transaction. Every change gets a sequence
//! number, from which indexes are updated. `contexture-sql` opens the
//! transactions and implements the traits of `contexture-store`.

pub mod archive;
mod batch;
pub mod changes;
mod columns;
pub mod embed;
mod entities;
pub mod forget;
pub mod later;
pub mod load;
pub mod prepare;
mod relations;
pub mod remember;
pub mod stats;
pub mod tasks;

pub use columns::{pack, unpack};

use columns::{is_counted, is_text, kind, kind_of, number_of, outcome_number, outcome_of};
use contexture_driver::{driver, error, params, row};
