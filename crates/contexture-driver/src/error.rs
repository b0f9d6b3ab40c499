//! Errors inside the store, before the address of the store is added.

use std::fmt;

use contexture_store::StoreError;

/// An error of a database.
#[derive(Debug)]
pub enum Error {
    /// A result has no row although one is required.
    NoRows,
    /// A column does not have the stored value.
    Column {
        /// The index of the column in the row.
        column: usize,
        /// The description of the error.
        message: String,
    },
    /// The content of a row is not the stored content.
    Content(String),
    /// A value cannot be stored.
    Parameter(String),
    /// The database cannot store a value that the caller passed.
    Refused(StoreError),
    /// A read that runs together with others lacks the rows of a statement.
    NotRead,
    /// The database failed. The source is the driver's own error type.
    Driver(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Returns the error for content that cannot be read.
    pub fn content(error: impl fmt::Display) -> Self {
        Error::Content(error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoRows => f.write_str("a row is missing"),
            Error::Column { column, message } => write!(f, "column {column} {message}"),
            Error::Content(message) => f.write_str(message),
            Error::Parameter(message) => f.write_str(message),
            Error::Refused(error) => error.fmt(f),
            Error::NotRead => f.write_str("a statement was not run"),
            Error::Driver(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Driver(error) => Some(&**error),
            _ => None,
        }
    }
}

/// The reason why a transaction failed.
#[derive(Debug)]
pub enum Fault {
    /// The store rejected the request with this error.
    Refused(StoreError),
    /// The database failed.
    Sql(Error),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Fault::Refused(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(error) => Fault::Refused(error),
            error => Fault::Sql(error),
        }
    }
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Fault::Sql(Error::Content(message))
    }
}

impl Fault {
    /// Returns the error for something that does not exist.
    pub fn not_found(what: &'static str, name: impl ToString) -> Self {
        let name = name.to_string();
        Fault::Refused(StoreError::NotFound { what, name })
    }

    /// Returns the error for something that exists already.
    pub fn exists(what: &'static str, name: impl ToString) -> Self {
        let name = name.to_string();
        Fault::Refused(StoreError::Exists { what, name })
    }

    /// Returns the error for data that is not what was stored.
    pub fn damaged(what: impl Into<String>, message: impl Into<String>) -> Self {
        Fault::Refused(StoreError::Damaged {
            what: what.into(),
            message: message.into(),
        })
    }
}
