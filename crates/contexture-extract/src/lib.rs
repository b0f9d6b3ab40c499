//! Extracts entities, relations and keywords from text by rules. No model is
//! called, and the same text always gives the same result.
//!
//! ```
//! use contexture_extract::{EntityRule, Extractor, Find, Rules, TextContext};
//!
//! let rules = Rules {
//!     entities: vec![EntityRule {
//!         kind: "ticket".to_owned(),
//!         find: Some(Find::NumberId),
//!         pattern: None,
//!     }],
//!     ..Rules::default()
//! };
//! let extractor = Extractor::new(&rules).expect("the rule has a detector");
//! let found = extractor.extract("Ana closed OPS-12 today.", &TextContext::default());
//! assert_eq!(found.entities[0].name, "OPS-12");
//! ```
//!
//! Precision is more important than recall, because a stored entity is shown as a
//! fact. A capitalised word at the start of a sentence, a month or a language is
//! not a name. The first word of a sentence counts as a person where a relation of
//! persons follows it directly: `Alice lives in Paris`. A name without a sign of its
//! type has the type [`UNKNOWN`], unless a relation determines the type.
//!
//! `I` and `we` mean the speaker, also in `I'm` and `we've`. A sentence can omit the
//! subject of a second relation: `I live in Haifa and work at Intel`. An event of the
//! past is not a current relation: `In 2010 I moved to Rome`.
//!
//! `He` or `She` at the start of a sentence means the person of the sentence before,
//! if that sentence states one relation of one person and nothing else.
//!
//! The work is linear in the text and bounded: only the first [`MOST_BYTES`] are
//! read, and at most [`MOST_MENTIONS`] entities and [`MOST_LINKS`] relations are
//! returned.

mod claim;
mod extracted;
mod extractor;
mod find;
mod forms;
mod found;
mod german;
mod keywords;
mod mood;
mod name_lists;
mod names;
mod not_names;
mod phrase;
mod relate;
mod rules;

pub use extracted::{Extracted, Link, MOST_LINKS, MOST_MENTIONS, Mention};
pub use extractor::{Extractor, MOST_BYTES, TextContext, UNKNOWN};
pub use rules::{EntityRule, Find, MOST_PATTERN, RelationRule, RuleError, Rules};
