//! The server over real connections: authentication, accepted calls, and
//! clients that send invalid data, send slowly or disconnect.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod admin;
mod archives;
mod bad_times;
mod blobs;
mod bodies;
mod cache;
mod events;
mod files;
mod idempotency;
mod inspector;
mod keys;
mod metrics;
mod native;
mod neighbours;
mod origins;
mod patches;
mod paths;
mod pins;
mod reload;
mod schedule;
mod shown;
mod slow;
mod stopping;
mod store;
mod tenants;
mod traces;
mod trust;
