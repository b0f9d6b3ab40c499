//! Embeddings: vectors of texts that are close if the texts have similar meaning.
//!
//! [`StaticModel`] needs no network and no key, and one model is compiled in.
//! Clients of embedding servers implement [`Embedder`] elsewhere and check the
//! vectors with [`check`].

mod static_model;
pub mod tensors;
pub mod wordpiece;

use std::fmt;

#[cfg(feature = "built-in-model")]
pub use static_model::built_in_tokenizer;
pub use static_model::{ModelError, StaticModel, fingerprint};

/// Turns texts into vectors.
pub trait Embedder: Send + Sync {
    /// Returns a name that says exactly which model it is. Vectors are only
    /// comparable with those of the same name.
    fn name(&self) -> &str;

    /// Returns how many components a vector has.
    fn dimensions(&self) -> usize;

    /// Returns one vector for each text, in the same order.
    ///
    /// A vector has the length 1, or is all zeros when nothing in the text
    /// means anything to the model: it is then like nothing else. No texts give
    /// no vectors.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// Why texts could not be embedded.
#[derive(Debug)]
#[non_exhaustive]
pub enum EmbedError {
    /// Nobody answers where the model should be.
    Unreachable {
        /// What was called.
        place: String,
        /// Why that failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No answer came in time.
    Timeout {
        /// What was called.
        place: String,
        /// How long it was waited for.
        after_ms: u64,
    },
    /// The answer was a refusal.
    Refused {
        /// The status of HTTP.
        status: u16,
        /// What the answer said.
        message: String,
    },
    /// The answer is not what it should be.
    BadAnswer {
        /// What is wrong with it.
        message: String,
    },
    /// There is not one vector for each text.
    WrongNumber {
        /// How many texts there were.
        expected: usize,
        /// How many vectors came back.
        got: usize,
    },
    /// A vector has not as many components as the others of its model.
    WrongDimensions {
        /// Which vector, from 0.
        at: usize,
        /// How many components the model has.
        expected: usize,
        /// How many this one has.
        got: usize,
    },
    /// A component is no number.
    NotFinite {
        /// Which vector, from 0.
        at: usize,
    },
    /// The model's tokenizer gave up on a text.
    Tokenizer {
        /// Which text, from 0.
        at: usize,
        /// What it said.
        message: String,
    },
}

impl EmbedError {
    /// Returns true when the same call may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            EmbedError::Unreachable { .. } | EmbedError::Timeout { .. } => true,
            EmbedError::Refused { status, .. } => matches!(status, 408 | 425 | 429 | 500..=599),
            EmbedError::BadAnswer { .. }
            | EmbedError::WrongNumber { .. }
            | EmbedError::WrongDimensions { .. }
            | EmbedError::NotFinite { .. }
            | EmbedError::Tokenizer { .. } => false,
        }
    }
}

impl fmt::Display for EmbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EmbedError::Unreachable { place, source } => {
                write!(f, "cannot reach {place}: {source}")
            }
            EmbedError::Timeout { place, after_ms } => {
                write!(f, "{place} did not answer within {after_ms} ms")
            }
            EmbedError::Refused { status, message } => {
                write!(f, "the embedder refused (status {status}): {message}")
            }
            EmbedError::BadAnswer { message } => f.write_str(message),
            EmbedError::WrongNumber { expected, got } => {
                write!(f, "the embedder gave {got} vectors for {expected} texts")
            }
            EmbedError::WrongDimensions { at, expected, got } => write!(
                f,
                "vector {at} has {got} components, but the model has {expected}"
            ),
            EmbedError::NotFinite { at } => {
                write!(f, "vector {at} has a component that is no number")
            }
            EmbedError::Tokenizer { at, message } => {
                write!(f, "the tokenizer gave up on text {at}: {message}")
            }
        }
    }
}

impl std::error::Error for EmbedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            EmbedError::Unreachable { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

/// Checks what an embedder gave: one vector for each text, each of as many
/// components as the model has, all of them numbers.
pub fn check(vectors: &[Vec<f32>], texts_len: usize, dimensions: usize) -> Result<(), EmbedError> {
    if vectors.len() != texts_len {
        return Err(EmbedError::WrongNumber {
            expected: texts_len,
            got: vectors.len(),
        });
    }
    for (at, vector) in vectors.iter().enumerate() {
        if vector.len() != dimensions {
            return Err(EmbedError::WrongDimensions {
                at,
                expected: dimensions,
                got: vector.len(),
            });
        }
        if vector.iter().any(|component| !component.is_finite()) {
            return Err(EmbedError::NotFinite { at });
        }
    }
    Ok(())
}
