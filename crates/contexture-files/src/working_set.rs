//! Prompts from files: the manifest, its updates, hints, boot header and log.

mod absent;
pub mod actions;
mod boot;
pub mod edit;
mod expand;
mod guidelines;
mod hints;
mod list;
mod manifest;
pub mod observe;

pub use absent::why_absent;
pub use boot::BootHeader;
pub use contexture_engine::config::{Habits, Quota};
pub use contexture_engine::lines::Lines;
pub use contexture_engine::{Log, session_dir};
pub use expand::{Candidate, expand};
pub use guidelines::guidelines;
pub use hints::{Hint, HintList, HintOutcome, Hints, MAX_SHIFT};
pub use list::{WorkingSet, WorkingSetFile};
pub use manifest::{Entry, Manifest, PROTOCOL, find_manifest};
