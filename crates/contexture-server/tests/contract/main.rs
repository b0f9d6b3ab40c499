//! The OpenAPI document and the server hold each other to their word.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod examples;
mod generated;
mod python;
