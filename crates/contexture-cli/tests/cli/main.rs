//! The tests of the command in one program: each links all dependencies.

#![cfg(unix)]
#![allow(clippy::unwrap_used)] // Helpers of a test are not a test to the lint.

#[allow(dead_code, unreachable_pub)] // The library's tests use more of it.
#[path = "../../../contexture/tests/support/server.rs"]
mod server;
mod support;

mod bad_input;
mod keys;
mod main_job;
mod mcp;
mod memory;
mod postgres;
mod serve;
mod sessions;
mod tasks;
mod trees;
mod upkeep;
