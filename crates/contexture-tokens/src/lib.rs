//! Token counts for Contexture: exact where a tokenizer is public, estimated
//! high where it is not.
//!
//! ```
//! use contexture_tokens::Models;
//!
//! let model = Models::built_in().resolve("gpt-4o-2024-08-06");
//! assert_eq!(model.window, 128_000);
//! let counter = model.tokenizer.load()?;
//! assert_eq!(counter.count("hello world"), 2);
//! # Ok::<(), contexture_tokens::LoadError>(())
//! ```
//!
//! OpenAI's vocabularies are tables in the program that are read in place, so
//! that counting needs no loading. Counting takes time in proportion to the
//! size of the text, whatever the text is.

pub mod estimate;
mod estimated;
mod factor;
#[cfg(feature = "huggingface")]
mod huggingface;
mod models;
mod openai;
mod scaled;
mod tokenizer;

pub use contexture_core::{TokenCounter, Tokens};
pub use estimated::Estimated;
#[cfg(feature = "huggingface")]
pub use huggingface::HuggingFace;
pub use models::{
    ImportError, ListedModel, Model, ModelList, ModelRow, ModelTable, Models, Prices, Provider,
    TableError, UNKNOWN_WINDOW,
};
pub use openai::{Encoding, OpenAi};
pub use scaled::Scaled;
pub use tokenizer::{LoadError, Tokenizer};
