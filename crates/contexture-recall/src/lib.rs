//! Search and extraction without a network or a model call: full text search,
//! embeddings, chunks, and rules that extract entities and relations.
//!
//! ```
//! use contexture_recall::{analyse, query_keywords};
//!
//! let text = analyse("parseHttpRequest fails on empty bodies");
//! let query = query_keywords("Why does parsing an HTTP request fail?");
//! let found = query
//!     .iter()
//!     .filter(|keyword| text.count(keyword.id) > 0)
//!     .map(|keyword| keyword.word.as_str());
//! assert_eq!(found.collect::<Vec<_>>(), ["parsing", "http", "request", "fail"]);
//! ```
//!
//! Everything here is a function of its arguments: the same text gives the same
//! terms, vectors and chunks on every machine. The only files that are read are
//! those of a static model, if a caller gives its folder.

pub mod archetype;
pub mod chunk;
pub mod compress;
pub mod embed;
pub mod extract;
pub mod index;
pub mod instruction;
pub mod near;
pub mod rank;
mod scan;
#[cfg(feature = "schema")]
mod schema;
pub mod sections;
mod sentence;
pub mod signals;
pub mod snippet;
pub mod vector;
pub mod words;

pub use archetype::{Allocation, Archetype, Shares, Strategy, StrategyError, StrategyPatch};
pub use chunk::{Chunk, chunks};
pub use compress::shorten;
pub use embed::{EmbedError, Embedder, ModelError, StaticModel};
pub use extract::{
    EntityRule, Extracted, Extractor, Find, Link, Mention, RelationRule, RuleError, Rules,
    TextContext,
};
pub use index::{Entry, Index, Scores, Slot};
pub use instruction::is_standing_instruction;
pub use near::{NEAR_DUPLICATE, is_near_duplicate, near_keys, similar, template_print};
pub use rank::{Hit, best, best_hits, hits};
pub use sentence::sentences;
pub use signals::{
    Intent, NameCandidate, asks_for_recent, detect_intent, name_key, names_in, relevant_event_types,
};
pub use snippet::snippet;
pub use vector::Vector;
pub use words::{ANALYSER, Keyword, Term, Words, analyse, keywords, query_keywords, term_id};
