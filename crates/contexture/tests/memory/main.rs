//! Memory: what is recorded is found again, within a budget, and accounted for.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod bad_input;
mod channels;
mod fixture;
mod hidden;
mod housekeeping;
mod inject;
mod laws;
mod recall;
mod vectors;
