//! The suite that every store passes.
#![allow(clippy::unwrap_used)]

use contexture_sqlite::SqliteStore;
use contexture_store::{Store, Tenants};
use contexture_store_suite::InSteps;

fn with_fresh_store(test: impl FnOnce(&dyn Store)) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("store.db")).unwrap();
    test(&store);
}

contexture_store_suite::conformance!(with_fresh_store);

fn with_fresh_tenants(test: impl FnOnce(&dyn Tenants)) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("store.db")).unwrap();
    test(&store);
}

contexture_store_suite::key_conformance!(with_fresh_tenants);

/// A trait of another crate can be implemented for a type of this one only.
struct Steps(SqliteStore);

contexture_store_suite::in_steps!(Steps);

fn with_fresh_steps(test: impl FnOnce(&dyn InSteps)) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("store.db")).unwrap();
    test(&Steps(store));
}

contexture_store_suite::step_conformance!(with_fresh_steps);
