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
    /// Returns the name of the exact model. Only vectors of the same name can
    /// be compared.
    fn name(&self) -> &str;

    /// Returns the number of components of a vector.
    fn dimensions(&self) -> usize;

    /// Returns one vector for each text, in the same order.
    ///
    /// A vector has the length 1. It is all zeros if the model knows nothing in
    /// the text; its similarity to every vector is then 0. An empty list gives
    /// an empty list.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// Returns true if vectors are computed in this process, so that a caller
    /// need not wait for anything. Default: false.
    fn is_local(&self) -> bool {
        false
    }
}

/// The reason why texts could not be embedded.
#[derive(Debug)]
#[non_exhaustive]
pub enum EmbedError {
    /// The address of the model cannot be reached.
    Unreachable {
        /// The address that was called.
        place: String,
        /// The error of the connection.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The deadline passed without an answer.
    Timeout {
        /// The address that was called.
        place: String,
        /// The deadline.
        after_ms: u64,
    },
    /// The model's server answered with an error.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The message of the answer.
        message: String,
    },
    /// The answer does not have the expected form.
    BadAnswer {
        /// The difference from the expected form.
        message: String,
    },
    /// The number of vectors differs from the number of texts.
    WrongNumber {
        /// The number of texts.
        expected: usize,
        /// The number of vectors.
        got: usize,
    },
    /// A vector has another number of components than the model.
    WrongDimensions {
        /// The index of the vector, from 0.
        at: usize,
        /// The number of components of the model.
        expected: usize,
        /// The number of components of this vector.
        got: usize,
    },
    /// A component is not a finite number.
    NotFinite {
        /// The index of the vector, from 0.
        at: usize,
    },
    /// The tokenizer of the model failed on a text.
    Tokenizer {
        /// The index of the text, from 0.
        at: usize,
        /// The error of the tokenizer.
        message: String,
    },
}

impl EmbedError {
    /// Returns true if the same call may succeed later.
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

/// Checks the result of an embedder: one vector for each text, each with the
/// model's number of components, all of them finite numbers.
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
