//! Errors of SQLite, translated into errors of a store.

use contexture_store::StoreError;
use rusqlite::types::Type;
use rusqlite::{ErrorCode, ffi};

/// An error inside the store, before the address of the store is added.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The store rejects the operation with this error.
    Refused(StoreError),
    /// SQLite failed.
    Sql(rusqlite::Error),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Fault::Refused(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Sql(error)
    }
}

impl From<contexture_sql::Fault> for Fault {
    fn from(fault: contexture_sql::Fault) -> Self {
        match fault {
            contexture_sql::Fault::Refused(error) => Fault::Refused(error),
            contexture_sql::Fault::Sql(error) => error.into(),
        }
    }
}

impl From<contexture_sql::Error> for Fault {
    fn from(error: contexture_sql::Error) -> Self {
        use contexture_sql::Error as E;
        Fault::Sql(match error {
            E::Refused(error) => return Fault::Refused(error),
            E::NoRows => rusqlite::Error::QueryReturnedNoRows,
            E::Parameter(message) => rusqlite::Error::ToSqlConversionFailure(message.into()),
            E::Driver(error) => match error.downcast() {
                Ok(error) => *error,
                Err(other) => rusqlite::Error::ToSqlConversionFailure(other),
            },
            damaged @ (E::Column { .. } | E::Content(_) | E::NotRead) => {
                let message = damaged.to_string().into();
                rusqlite::Error::FromSqlConversionFailure(0, Type::Null, message)
            }
        })
    }
}

impl Fault {
    /// Returns true if another connection holds a lock.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::DatabaseBusy))
    }

    pub(crate) fn code(&self) -> Option<ErrorCode> {
        match self {
            Fault::Sql(error) => error.sqlite_error_code(),
            Fault::Refused(_) => None,
        }
    }

    /// Returns the error for the store at `address`.
    pub(crate) fn at(self, address: &str) -> StoreError {
        match self {
            Fault::Refused(error) => error,
            Fault::Sql(error) => failed(address, error),
        }
    }
}

/// Returns the error for a store whose files are no longer at their paths.
pub(crate) fn gone(address: &str) -> StoreError {
    unavailable(address, "the database file was removed or replaced")
}

/// Returns the error for a store whose earlier file is still in use.
pub(crate) fn still_read(address: &str) -> StoreError {
    unavailable(
        address,
        "the file was replaced, and the one before is still read",
    )
}

pub(crate) fn unavailable(address: &str, message: impl Into<String>) -> StoreError {
    StoreError::Unavailable {
        store: address.to_owned(),
        message: message.into(),
    }
}

/// Returns the error for a store that existed before and cannot be opened
/// again. The cause is never the caller's input.
pub(crate) fn not_reopened(address: &str, error: StoreError) -> StoreError {
    match error {
        StoreError::NotAStore { message, .. } => {
            unavailable(address, format!("the file that replaced it {message}"))
        }
        StoreError::Newer { .. } | StoreError::NotFound { .. } | StoreError::Backend { .. } => {
            unavailable(address, error.to_string())
        }
        other => other,
    }
}

fn failed(address: &str, error: rusqlite::Error) -> StoreError {
    use rusqlite::Error as E;
    let store = address.to_owned();
    // Rows with unexpected content, or a key without its row.
    if let E::FromSqlConversionFailure(..)
    | E::IntegralValueOutOfRange(..)
    | E::InvalidColumnType(..)
    | E::QueryReturnedNoRows
    | E::Utf8Error(..) = error
    {
        let message = match &error {
            E::FromSqlConversionFailure(_, _, error) => format!("is damaged: {error}"),
            error => format!("is damaged: {error}"),
        };
        return StoreError::NotAStore { store, message };
    }
    // SQLite has no other code for a full disk when it extends its shared memory.
    if let E::SqliteFailure(code, _) = &error
        && code.extended_code == ffi::SQLITE_IOERR_SHMSIZE
    {
        return StoreError::Full { store };
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { store },
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { store },
        Some(ErrorCode::DiskFull) => StoreError::Full { store },
        Some(ErrorCode::NotADatabase) => StoreError::NotAStore {
            store,
            message: "is not a SQLite database, or its header is damaged".to_owned(),
        },
        Some(ErrorCode::DatabaseCorrupt) => StoreError::NotAStore {
            store,
            message: format!(
                "is damaged or truncated ({error}); restore a backup, or extract what can \
                 be read with `sqlite3 FILE .recover`"
            ),
        },
        Some(ErrorCode::TooBig) => {
            StoreError::invalid("", "is larger than the maximum row size of SQLite")
        }
        _ => StoreError::Backend {
            store: "sqlite",
            source: Box::new(Located { store, error }),
        },
    }
}

/// An error of SQLite with the store it happened in.
#[derive(Debug)]
struct Located {
    store: String,
    error: rusqlite::Error,
}

impl std::fmt::Display for Located {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.store, self.error)
    }
}

impl std::error::Error for Located {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
