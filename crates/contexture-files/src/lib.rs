//! Sources that read files: the working set, and the static content before the
//! conversation (workspace, persona, environment, runtime, role, tools).
//!
//! ```
//! use contexture_engine::Engine;
//!
//! let engine = contexture_files::register(Engine::builder()).build()?;
//! assert!(engine.sources().any(|(name, _)| name == "working-set"));
//! # Ok::<(), contexture_engine::Error>(())
//! ```
//!
//! [`register`] adds them to an engine. [`working_set`] holds the manifest, its
//! updates and its hints.

mod environment;
mod init;
mod load;
mod role;
mod sources;
mod static_content;
mod tools;
pub mod working_set;
mod workspace;

pub use init::{Proposal, ProposedEntry, Scaffold, existing_manifest, init, propose};
pub use sources::register;

#[cfg(feature = "schema")]
pub(crate) use contexture_engine::schema;
pub(crate) use contexture_engine::{advice, by_file, config, error, files, turn, yaml};
