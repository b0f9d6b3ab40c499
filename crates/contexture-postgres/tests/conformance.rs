//! The suite that every store passes, with one handle.
#![allow(clippy::unwrap_used)]

mod support;

use contexture_postgres::PostgresStore;
use contexture_store::{Store, Tenants};
use contexture_store_suite::InSteps;

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

/// A trait of another crate can be implemented for a type of this one only.
struct Steps(PostgresStore);

contexture_store_suite::in_steps!(Steps);

fn with_fresh_steps(test: impl FnOnce(&dyn InSteps)) {
    let schema = Schema::new();
    test(&Steps(schema.open()));
}

contexture_store_suite::step_conformance!(with_fresh_steps);
