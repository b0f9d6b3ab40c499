//! The suite that every store passes, with one handle.
#![allow(clippy::unwrap_used)]

mod support;

use contexture_store::{Store, Tenants};

use crate::support::Schema;

fn with_fresh_store(test: impl FnOnce(&dyn Store)) {
    let schema = Schema::new();
    test(&schema.open());
}

contexture_store_suite::conformance!(with_fresh_store);

fn with_fresh_tenants(test: impl FnOnce(&dyn Tenants)) {
    let schema = Schema::new();
    test(&schema.open());
}

contexture_store_suite::key_conformance!(with_fresh_tenants);
