//! Requests from a node of a loom: the whole request, rule by rule.
#![allow(clippy::unwrap_used)]

mod aware;
mod bad_input;
mod buffer;
mod continuation;
mod dialogue;
mod growth;
mod laws;
mod support;
mod truncation;
mod versions;
