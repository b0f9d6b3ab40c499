//! [`ImportError`]: the reason why a file cannot be imported.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use contexture_store::StoreError;

/// The reason why a file, or everything, cannot be imported.
#[derive(Debug)]
pub enum ImportError {
    /// The file cannot be read.
    File {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The content of the file does not match the format.
    Content {
        /// The path.
        path: PathBuf,
        /// The problem, and the remedy.
        message: String,
    },
    /// The store failed.
    Store(StoreError),
}

impl ImportError {
    pub(crate) fn file(path: &Path, source: io::Error) -> Self {
        ImportError::File {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn content(path: &Path, message: impl Into<String>) -> Self {
        ImportError::Content {
            path: path.to_owned(),
            message: message.into(),
        }
    }

    /// Returns true if the store failed, so that other files would fail too.
    pub fn is_store(&self) -> bool {
        matches!(self, ImportError::Store(_))
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::File { path, source } => write!(f, "{}: {source}", path.display()),
            ImportError::Content { path, message } => write!(f, "{}: {message}", path.display()),
            ImportError::Store(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for ImportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ImportError::File { source, .. } => Some(source),
            ImportError::Content { .. } => None,
            ImportError::Store(error) => Some(error),
        }
    }
}

impl From<StoreError> for ImportError {
    fn from(error: StoreError) -> Self {
        ImportError::Store(error)
    }
}
