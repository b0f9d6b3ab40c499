//! The source `history`: conversations from the ledger as items, summarised when
//! they have become too long.
//!
//! [`register`] adds the source to an engine. [`Sessions`] records turns, forks
//! and compacts conversations, and says what they cost.

pub mod compaction;
mod fetch;
mod history;
mod session;
mod source;

pub use fetch::{FetchRequest, Fetched};
pub use session::{CompactRequest, SessionCost, Sessions, TurnCost};
pub use source::register;

pub(crate) use contexture_engine::turn;
