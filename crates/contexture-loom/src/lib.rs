//! The source `loom`: the path to a node of a branching tree becomes a
//! conversation or a document.
//!
//! ```
//! use contexture_engine::Engine;
//!
//! let engine = contexture_loom::register(Engine::builder()).build()?;
//! assert!(engine.sources().any(|(name, _)| name == "loom"));
//! # Ok::<(), contexture_engine::Error>(())
//! ```
//!
//! A walk finds the nodes on the path to the node, and only those that the
//! budget could use are read. The engine then fits them like other items.
//!
//! [`register`] adds the source to an engine. [`Looms`] grows and shows trees.

mod aware;
mod inspect;
mod items;
mod path;
mod read;
mod reading;
mod source;
mod target;
mod write;

use contexture_core::Code;

pub use contexture_store::FlagChange;
pub use source::register;
pub use target::{LoomSummary, check_agent};
pub use write::{
    Looms, MAX_TITLE_BYTES, Material, NewNode, NodeEdit, check_title, raw_response, tree_from_json,
};

#[cfg(feature = "schema")]
pub(crate) use contexture_engine::schema;
pub(crate) use contexture_engine::{error, turn};

/// The node was pruned.
pub const PRUNED: Code = Code::by_rule("pruned");
/// The node is an annotation, and the request does not include annotations.
pub const ANNOTATION: Code = Code::by_rule("annotation");
/// Another version of the node is used.
pub const OTHER_VERSION: Code = Code::by_rule("other_version");
/// The node that it belongs to is not in the request.
pub const SOURCE_EXCLUDED: Code = Code::by_rule("source_excluded");

/// The number of nodes that are read at once.
const BATCH: usize = 64;
