//! Search without a network or a model call: full text search, embeddings, ranking
//! and chunks.
//!
//! ```
//! use contexture_recall::{Entry, Index, best};
//! use contexture_words::{analyse, query_keywords};
//!
//! let mut index = Index::new(0);
//! for (key, text) in [(1, "The boat leaves at noon"), (2, "The lake froze in January")] {
//!     index.add(&Entry {
//!         key,
//!         words: &analyse(text),
//!         vector: None,
//!         run: None,
//!         position: (0, 0),
//!     });
//! }
//! let query = query_keywords("When does the boat leave?");
//! let terms: Vec<u32> = query.iter().map(|keyword| keyword.id).collect();
//! let scores = index.scores(&terms, None, &[]);
//! let found = best(&index, &scores, 1, 0.0, |_| 0.0, |_| true);
//! assert_eq!(index.key(found[0].slot), Some(1));
//! ```
//!
//! Everything here is a function of its arguments: the same text gives the same
//! terms, vectors and chunks on every machine. The only files that are read are
//! those of a static model, if a caller gives its folder.

pub mod chunk;
pub mod compress;
pub mod embed;
pub mod index;
pub mod instruction;
pub mod near;
pub mod rank;
mod scan;
#[cfg(feature = "schema")]
mod schema;
pub mod sections;
pub mod signals;
pub mod snippet;
pub mod strategy;
pub mod vector;

pub use chunk::{Chunk, chunks};
pub use compress::shorten;
pub use embed::{EmbedError, Embedder, ModelError, StaticModel};
pub use index::{Entry, Index, Scores, Slot};
pub use instruction::is_standing_instruction;
pub use near::{
    NEAR_DUPLICATE, has_near_bit, is_near_duplicate, near_bits, near_keys, similar, template_print,
};
pub use rank::{Hit, best, best_hits, hits};
pub use signals::{Intent, asks_for_recent, detect_intent, relevant_event_types};
pub use snippet::snippet;
pub use strategy::{Allocation, Shares, Strategy, StrategyError, StrategyPatch};
pub use vector::Vector;
