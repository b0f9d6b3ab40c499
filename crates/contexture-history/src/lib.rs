//! The source `history`: conversations from the ledger as items, summarised when
//! they have become too long.
//!
//! ```
//! use contexture_engine::Engine;
//!
//! let engine = contexture_history::register(Engine::builder()).build()?;
//! assert!(engine.sources().any(|(name, _)| name == "history"));
//! # Ok::<(), contexture_engine::Error>(())
//! ```
//!
//! [`register`] adds the source to an engine. [`Recording`] reads turns and
//! providers' responses. [`Sessions`] records turns, forks and compacts
//! conversations, and computes their cost.

pub mod compaction;
mod cost;
pub mod facts;
mod fetch;
mod history;
mod messages;
mod pins;
mod recording;
mod sent;
mod session;
mod source;

pub use cost::{SessionCost, TurnCost};
pub use fetch::{FetchRequest, Fetched};
pub use pins::PinRequest;
pub use recording::{Agreement, LatestMessages, Recording, make_ids_unique};
pub use session::{CompactRequest, Sessions, TurnWrite};
pub use source::register;

pub use history::is_summary;

pub(crate) use contexture_engine::turn;
