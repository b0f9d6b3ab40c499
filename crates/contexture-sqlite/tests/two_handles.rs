//! The suite that every store passes, with two handles on one database.
//! Successive calls alternate between them.
#![allow(clippy::unwrap_used)]

use contexture_sql::{Alternating, SqlStore};
use contexture_sqlite::SqliteStore;
use contexture_store::{Store, Tenants};

fn with_fresh_store(test: impl FnOnce(&dyn Store)) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (one, other) = (
        SqliteStore::open(&path).unwrap(),
        SqliteStore::open(&path).unwrap(),
    );
    let both = Alternating::new(one.backend().clone(), other.backend().clone());
    test(&SqlStore::new(both));
}

contexture_store_suite::conformance!(with_fresh_store);

fn with_fresh_tenants(test: impl FnOnce(&dyn Tenants)) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (one, other) = (
        SqliteStore::open(&path).unwrap(),
        SqliteStore::open(&path).unwrap(),
    );
    let both = Alternating::new(one.backend().clone(), other.backend().clone());
    test(&SqlStore::new(both));
}

contexture_store_suite::key_conformance!(with_fresh_tenants);
