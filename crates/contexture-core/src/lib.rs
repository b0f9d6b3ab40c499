//! The pure engine of Contexture.
//!
//! Given candidates ([`Item`]s in [`Layer`]s), a [`Budget`] and a token
//! counter, [`assemble`] decides what a language model sees: which candidates
//! are kept, cut or dropped, and in what order they are laid out. Every
//! candidate is listed exactly once in the [`Report`], with the numbers for its
//! outcome.
//!
//! ```
//! use contexture_core::{assemble, Budget, Counts, Item, Layer, Role, Text, no_loader};
//!
//! // `contexture-tokens` has real counters.
//! struct Words;
//! impl contexture_core::TokenCounter for Words {
//!     fn name(&self) -> &str { "words" }
//!     fn is_exact(&self) -> bool { true }
//!     fn count(&self, text: &str) -> u64 { text.split_whitespace().count() as u64 }
//! }
//!
//! let mut files = Layer::new("files");
//! files.items = vec![
//!     Item::new("notes.md", Role::Context, Text::new("ship on Friday")).priority(0.9),
//!     Item::new("log.txt", Role::Context, Text::new("one two three four five six seven")),
//! ];
//! let counts = Counts::new(std::sync::Arc::new(Words));
//! let assembly = assemble(vec![files], Budget::new(10, 0, 0)?, &counts, &mut no_loader)?;
//! assert_eq!(assembly.report.included.len(), 1);
//! assert_eq!(assembly.report.excluded[0].code.as_str(), "over_budget");
//! # Ok::<(), contexture_core::Error>(())
//! ```
//!
//! It does not read files, open sockets, read the clock or print. The caller
//! passes in everything from outside.

mod assemble;
mod block_text;
mod budget;
pub mod cache;
mod code;
mod counts;
mod cut;
mod error;
mod fit;
mod form;
mod item;
pub mod json;
mod layer;
mod layout;
pub mod markup;
mod measure;
pub mod message;
mod native;
mod part;
mod report;
mod room;
#[cfg(feature = "schema")]
pub mod schema;
mod scores;
mod text;
mod usage;

pub use assemble::{Assembly, assemble, assemble_layers, no_loader};
pub use contexture_guard as guard;

pub use block_text::{BlockText, Written};
pub use budget::{Budget, Share};
pub use code::Code;
pub use counts::{Counts, TokenCounter, Tokens};
pub use cut::{Cut, CutText, MIN_USEFUL_TOKENS, cut_marker, grouped};
pub use error::{Error, Piece as ErrorPiece};
pub use fit::{Anchor, ByScore, Fit, Marker, Path, UnofferedRange};
pub use form::{Curator, Form, FormKind, NearPrint};
pub use item::{Content, Data, Item, Join, Original, Role, Trust};
pub use layer::{Frame, Heading, Layer, Order, Place};
pub use layout::{Block, Layout, Section};
pub use native::{Native, RawJson};
pub use part::{Media, MediaKind, MediaSource, Part};
pub use report::{
    BudgetReport, Excluded, GuardLine, Included, LayerBudget, LinesCut, Reason, Report, Room,
    TokenizerInfo,
};
pub use scores::Scores;
pub use text::{ContentHash, Text};
pub use usage::Usage;
