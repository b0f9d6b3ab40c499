//! The suite that every store passes.
#![allow(clippy::unwrap_used)]

use contexture_sqlite::SqliteStore;
use contexture_store::Store;

fn with_fresh_store(test: impl FnOnce(&dyn Store)) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("store.db")).unwrap();
    test(&store);
}

contexture_store::conformance!(with_fresh_store);
