//! Errors of PostgreSQL, translated into errors of a store.

use std::fmt;

use contexture_sql::{Error, Fault};
use contexture_store::StoreError;
use tokio_postgres::error::SqlState;

/// An error of the database or of the connection to it.
#[derive(Debug, Clone)]
pub(crate) enum PgError {
    /// The database returned this error.
    Database { code: SqlState, message: String },
    /// The connection failed.
    Io(String),
}

impl fmt::Display for PgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PgError::Database { code, message } => write!(f, "{message} [{}]", code.code()),
            PgError::Io(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for PgError {}

impl From<PgError> for Error {
    fn from(error: PgError) -> Self {
        Error::Driver(Box::new(error))
    }
}

impl PgError {
    /// Returns true when the connection cannot be used any more.
    pub(crate) fn ends_connection(&self) -> bool {
        match self {
            PgError::Io(_) => true,
            PgError::Database { code, .. } => {
                matches!(class(code), "08" | "57") && *code != SqlState::QUERY_CANCELED
            }
        }
    }

    /// Returns true when a prepared statement is no longer valid: a table was
    /// changed, or a pooler has switched to another connection.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(
            self,
            PgError::Database { code, .. } if [
                SqlState::FEATURE_NOT_SUPPORTED,
                SqlState::INVALID_SQL_STATEMENT_NAME,
                SqlState::DUPLICATE_PSTATEMENT,
            ].contains(code)
        )
    }

    /// Returns true when a retry would fail in the same way: the lock was not
    /// available in time, or the database is read-only.
    pub(crate) fn concerns_all(&self) -> bool {
        matches!(
            self,
            PgError::Database { code, .. } if [
                SqlState::LOCK_NOT_AVAILABLE,
                SqlState::QUERY_CANCELED,
                SqlState::READ_ONLY_SQL_TRANSACTION,
            ].contains(code)
        )
    }

    /// Returns true when another server has created the same thing meanwhile.
    pub(crate) fn is_race(&self) -> bool {
        matches!(
            self,
            PgError::Database { code, .. } if [
                SqlState::UNIQUE_VIOLATION,
                SqlState::DUPLICATE_SCHEMA,
                SqlState::DUPLICATE_TABLE,
                SqlState::DUPLICATE_OBJECT,
                SqlState::T_R_DEADLOCK_DETECTED,
            ].contains(code)
        )
    }

    /// Returns the error for the store at `address`.
    pub(crate) fn at(&self, address: &str) -> StoreError {
        let store = address.to_owned();
        let unavailable = |message: String| StoreError::Unavailable {
            store: address.to_owned(),
            message,
        };
        let (code, message) = match self {
            PgError::Io(message) => return unavailable(message.clone()),
            PgError::Database { code, message } => (code, message),
        };
        match class(code) {
            // Connection; operator intervention; authorisation; no such
            // database.
            "57" if *code == SqlState::QUERY_CANCELED => StoreError::Busy { store },
            "08" | "57" | "28" | "3D" => unavailable(message.clone()),
            // Lock not available; serialisation failure, deadlock.
            "55" if *code == SqlState::LOCK_NOT_AVAILABLE => StoreError::Busy { store },
            "40" => StoreError::Busy { store },
            "53" if *code == SqlState::DISK_FULL => StoreError::Full { store },
            // Too many connections, out of memory.
            "53" => unavailable(message.clone()),
            "25" if *code == SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly { store },
            // A prepared statement is no longer valid. The next connection
            // prepares it again.
            _ if self.is_stale() => unavailable(message.clone()),
            // No permission.
            "42" if *code == SqlState::INSUFFICIENT_PRIVILEGE => unavailable(message.clone()),
            // The data is too large for the database.
            "54" => StoreError::invalid("", message.clone()),
            // A damaged page or index.
            "XX" => StoreError::NotAStore {
                store,
                message: format!("is damaged: {self}"),
            },
            _ => StoreError::Backend {
                store: "postgres",
                source: format!("{address}: {self}").into(),
            },
        }
    }
}

/// Returns the first two characters of a code, which are its class.
fn class(code: &SqlState) -> &str {
    code.code().get(..2).unwrap_or_default()
}

/// Returns the error of a transaction for the store at `address`.
pub(crate) fn explain(fault: Fault, address: &str) -> StoreError {
    let error = match fault {
        Fault::Refused(error) => return error,
        Fault::Sql(error) => error,
    };
    let damaged = |error: &Error| StoreError::NotAStore {
        store: address.to_owned(),
        message: format!("is damaged: {error}"),
    };
    match error {
        Error::Refused(error) => error,
        Error::NoRows | Error::NotRead | Error::Column { .. } | Error::Content(_) => {
            damaged(&error)
        }
        Error::Parameter(message) => StoreError::Backend {
            store: "postgres",
            source: message.into(),
        },
        Error::Driver(error) => match error.downcast_ref::<PgError>() {
            Some(error) => error.at(address),
            None => StoreError::Backend {
                store: "postgres",
                source: error,
            },
        },
    }
}

/// Returns a copy of an error, because every caller in a transaction gets it.
pub(crate) fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Busy { store } => StoreError::Busy {
            store: store.clone(),
        },
        StoreError::ReadOnly { store } => StoreError::ReadOnly {
            store: store.clone(),
        },
        StoreError::Full { store } => StoreError::Full {
            store: store.clone(),
        },
        StoreError::Unavailable { store, message } => StoreError::Unavailable {
            store: store.clone(),
            message: message.clone(),
        },
        StoreError::UnknownOutcome { store, message } => StoreError::UnknownOutcome {
            store: store.clone(),
            message: message.clone(),
        },
        StoreError::NotAStore { store, message } => StoreError::NotAStore {
            store: store.clone(),
            message: message.clone(),
        },
        other => StoreError::Backend {
            store: "postgres",
            source: other.to_string().into(),
        },
    }
}
