//! The tests of this crate in one program: each links all dependencies.

#![allow(clippy::unwrap_used)]

mod cut;
mod fit;
mod laws;
mod nested;
mod path;
#[cfg(feature = "schema")]
mod schema;
mod support;
mod text_form;
