//! Memory: records are recalled within a budget, and each is listed.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod bad_input;
mod channels;
mod facts;
mod fixture;
mod hidden;
mod housekeeping;
mod index_file;
mod inject;
mod laws;
mod never_silent;
mod processes;
mod recall;
mod scopes;
mod times;
mod vectors;
