//! The traits and types of a portable copy: everything that a tenant has stored,
//! as rows that every store can write and read.
//!
//! Rows refer to each other by number, from 1, in the order of the rows of a
//! table. The numbers do not depend on the store that wrote the rows: the same
//! data has the same rows everywhere.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::StoreError;

/// One entry of a portable copy.
#[derive(Debug, Clone, PartialEq)]
pub enum ArchiveEntry {
    /// The number of rows of each table that other rows refer to. It is the
    /// first entry.
    Keys(BTreeMap<String, u64>),
    /// The start of a table. Tables without rows are omitted.
    Table {
        /// The name of the table.
        name: String,
        /// The names of its columns.
        columns: Vec<String>,
    },
    /// A row of the table that began last, in the order of its columns. Bytes are
    /// written in Base64.
    Row(Vec<Value>),
}

/// Receives the entries of a portable copy.
pub type ArchiveSink<'a> = &'a mut dyn FnMut(ArchiveEntry) -> Result<(), StoreError>;

/// Returns the next entry of a portable copy; `None` at the end.
pub type ArchiveSource = Box<dyn FnMut() -> Result<Option<ArchiveEntry>, StoreError> + Send>;

/// Copies a tenant's data out of a store and into another.
pub trait Archive: Send + Sync {
    /// Calls `put` with all data of the tenant, in a fixed order.
    ///
    /// The entries show one state of the tenant's data. Two tenants with the
    /// same data have the same entries, whatever store they are in.
    fn export_entries(&self, put: ArchiveSink<'_>) -> Result<(), StoreError>;

    /// Stores the entries of a copy, all or none, and verifies the result before
    /// it becomes visible.
    ///
    /// Fails with [`StoreError::Exists`] if the tenant has data, and with
    /// [`StoreError::Invalid`] or [`StoreError::Damaged`] if the entries are not
    /// a whole copy. An error of `next` is returned unchanged.
    fn import_entries(&self, next: ArchiveSource) -> Result<(), StoreError>;

    /// Returns true if the tenant has nothing that an import would have to
    /// replace.
    fn is_blank(&self) -> Result<bool, StoreError>;
}
