//! [`Tokenizer`]: names a counter and loads it.
//!
//! OpenAI's vocabularies are loaded on first use, a `tokenizer.json` at once.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contexture_core::TokenCounter;

use crate::estimated::Estimated;
use crate::openai::{Encoding, OpenAi};
use crate::scaled::Scaled;

/// The tokenizer of a model.
#[derive(Debug, Clone, PartialEq)]
pub enum Tokenizer {
    /// One of OpenAI's vocabularies, exact.
    OpenAi(Encoding),
    /// A Hugging Face `tokenizer.json`, exact.
    HuggingFace(PathBuf),
    /// An estimate that errs high, times a factor.
    Estimate(f64),
    /// An estimate: the count of one of OpenAI's vocabularies, times a factor.
    Scaled(Encoding, f64),
}

impl Tokenizer {
    /// Reads `o200k_base`, `cl100k_base`, `estimate`, or the path of a
    /// `tokenizer.json`.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "o200k_base" | "o200k" => Some(Self::OpenAi(Encoding::O200k)),
            "cl100k_base" | "cl100k" => Some(Self::OpenAi(Encoding::Cl100k)),
            "estimate" => Some(Self::Estimate(1.0)),
            path if path.ends_with(".json") => Some(Self::HuggingFace(path.into())),
            _ => None,
        }
    }

    /// Returns the name of its counter, without loading it.
    pub fn name(&self) -> String {
        match self {
            Self::OpenAi(encoding) => encoding.name().to_owned(),
            Self::HuggingFace(path) => path.display().to_string(),
            Self::Estimate(factor) => Estimated::new(*factor).name().to_owned(),
            Self::Scaled(encoding, factor) => Scaled::new(*encoding, *factor).name().to_owned(),
        }
    }

    /// Returns the factor of an estimate.
    pub fn factor(&self) -> Option<f64> {
        match self {
            Self::Estimate(factor) | Self::Scaled(_, factor) => Some(*factor),
            Self::OpenAi(_) | Self::HuggingFace(_) => None,
        }
    }

    /// Returns the same estimate with another factor. An exact tokenizer has
    /// none.
    pub fn with_factor(&self, factor: f64) -> Self {
        match self {
            Self::Estimate(_) => Self::Estimate(factor),
            Self::Scaled(encoding, _) => Self::Scaled(*encoding, factor),
            exact => exact.clone(),
        }
    }

    /// Returns the factor that the counter of that name has, if it is a counter
    /// of this tokenizer.
    pub fn factor_in(&self, counter: &str) -> Option<f64> {
        match self {
            Self::Estimate(_) => Estimated::factor_of(counter),
            Self::Scaled(encoding, _) => Scaled::factor_of(*encoding, counter),
            Self::OpenAi(_) | Self::HuggingFace(_) => None,
        }
    }

    /// Returns the counter. A `tokenizer.json` is loaded now; the other counters
    /// need no loading.
    pub fn load(&self) -> Result<Arc<dyn TokenCounter>, LoadError> {
        Ok(match self {
            Self::OpenAi(encoding) => Arc::new(OpenAi::new(*encoding)),
            Self::Estimate(factor) => Arc::new(Estimated::new(*factor)),
            Self::Scaled(encoding, factor) => Arc::new(Scaled::new(*encoding, *factor)),
            #[cfg(feature = "huggingface")]
            Self::HuggingFace(path) => Arc::new(crate::HuggingFace::from_file(path)?),
            #[cfg(not(feature = "huggingface"))]
            Self::HuggingFace(path) => return Err(LoadError::not_built_in(path)),
        })
    }
}

/// The reason why a tokenizer could not be loaded.
#[derive(Debug)]
pub struct LoadError {
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Read(std::io::Error),
    #[cfg_attr(not(feature = "huggingface"), allow(dead_code))]
    Parse(String),
    #[cfg(not(feature = "huggingface"))]
    NotBuiltIn,
}

impl LoadError {
    #[cfg_attr(not(feature = "huggingface"), allow(dead_code))]
    pub(crate) fn read(path: &Path, source: std::io::Error) -> Self {
        Self {
            path: path.to_owned(),
            kind: Kind::Read(source),
        }
    }

    #[cfg_attr(not(feature = "huggingface"), allow(dead_code))]
    pub(crate) fn parse(path: &Path, message: String) -> Self {
        Self {
            path: path.to_owned(),
            kind: Kind::Parse(message),
        }
    }

    #[cfg(not(feature = "huggingface"))]
    pub(crate) fn not_built_in(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            kind: Kind::NotBuiltIn,
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.kind {
            Kind::Read(source) => write!(f, "cannot read tokenizer {path}: {source}"),
            Kind::Parse(message) => write!(f, "{path} is not a tokenizer: {message}"),
            #[cfg(not(feature = "huggingface"))]
            Kind::NotBuiltIn => write!(
                f,
                "cannot use {path}: built without the `huggingface` feature"
            ),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            Kind::Read(source) => Some(source),
            _ => None,
        }
    }
}
