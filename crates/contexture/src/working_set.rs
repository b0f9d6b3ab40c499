//! Prompts from files: the manifest, its updates, hints, boot header and log.

pub mod actions;
mod boot;
pub mod edit;
mod expand;
mod guidelines;
mod hints;
mod list;
mod log;
mod manifest;
pub mod observe;

pub use boot::BootHeader;
pub use expand::{Candidate, expand};
pub use guidelines::guidelines;
pub use hints::{Fate, Hint, HintList, Hints, MAX_SHIFT};
pub use list::{WorkingSet, WorkingSetFile};
pub use log::{Log, session_dir};
pub use manifest::{Entry, Lines, Manifest, PROTOCOL, find_manifest};
pub(crate) use manifest::{cut_named, split_lines};
