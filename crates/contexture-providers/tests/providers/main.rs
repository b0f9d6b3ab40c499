//! The tests of this crate in one program: each links all dependencies.

#![allow(clippy::unwrap_used)]

mod byte_for_byte;
mod common;
mod conversations;
mod documents;
mod formats;
mod laws;
mod marks;
mod media;
mod native;
mod response;
mod rules;
mod sampling;
#[cfg(feature = "schema")]
mod schema;
mod sdk;
