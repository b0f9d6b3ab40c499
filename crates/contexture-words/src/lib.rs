//! Splits text into words, stems, sentences and names. Search and extraction use
//! the same ones.
//!
//! ```
//! use contexture_words::{analyse, query_keywords};
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
//! terms on every machine.

pub mod names;
mod sentence;
pub mod words;

pub use names::{NameCandidate, name_key, names_in};
pub use sentence::sentences;
pub use words::{ANALYSER, Keyword, Term, Words, analyse, keywords, query_keywords, term_id};
