//! The suite that every store passes, with two handles on one database.
//! Successive calls alternate between them.
#![allow(clippy::unwrap_used)]

mod support;

use contexture_sql::{Alternating, SqlStore};
use contexture_store::{Store, Tenants};

use crate::support::Schema;

fn with_fresh_store(test: impl FnOnce(&dyn Store)) {
    let schema = Schema::new();
    let (one, other) = (schema.open(), schema.open());
    let both = Alternating::new(one.backend().clone(), other.backend().clone());
    test(&SqlStore::new(both));
}

contexture_store_suite::conformance!(with_fresh_store);

fn with_fresh_tenants(test: impl FnOnce(&dyn Tenants)) {
    let schema = Schema::new();
    let (one, other) = (schema.open(), schema.open());
    let both = Alternating::new(one.backend().clone(), other.backend().clone());
    test(&SqlStore::new(both));
}

contexture_store_suite::key_conformance!(with_fresh_tenants);
