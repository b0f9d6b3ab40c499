use std::fmt;

use crate::id::TurnId;

/// Why a store did not do what it was asked.
#[derive(Debug)]
pub enum StoreError {
    /// There is nothing of that name.
    NotFound {
        /// What was looked for, such as `session`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// There is something of that name already.
    Exists {
        /// What it is, such as `session`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Another writer was first: the head is not where the caller took it to
    /// be. Nothing was written.
    Conflict {
        /// The session.
        session: String,
        /// Where the caller took the head to be.
        expected: Option<TurnId>,
        /// Where it is.
        head: Option<TurnId>,
    },
    /// An idempotency key was used before, for something else.
    KeyReused {
        /// The key.
        key: String,
    },
    /// What was to be stored makes no sense.
    Invalid {
        /// Where: a path such as `messages[2].content`.
        field: String,
        /// What is wrong with it.
        message: String,
    },
    /// The store is used by somebody else and stayed so.
    Busy {
        /// The store's address.
        store: String,
    },
    /// The store cannot be written.
    ReadOnly {
        /// The store's address.
        store: String,
    },
    /// The store was written by a newer version.
    Newer {
        /// The store's address.
        store: String,
        /// Its schema version.
        found: u32,
        /// The newest that is understood.
        known: u32,
    },
    /// What is there is no store of ours, or a damaged one.
    NotAStore {
        /// The store's address.
        store: String,
        /// What is wrong with it.
        message: String,
    },
    /// The store was there and is not any more, or something else is in its
    /// place. It is used again as soon as it is there again.
    Unavailable {
        /// The store's address.
        store: String,
        /// What is wrong with it.
        message: String,
    },
    /// There is no room for more. Nothing was written; reading goes on.
    Full {
        /// The store's address.
        store: String,
    },
    /// The machine failed.
    Backend {
        /// The kind of store.
        store: &'static str,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// Returns an error for something that makes no sense at `field`.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        StoreError::Invalid {
            field: field.into(),
            message: message.into(),
        }
    }

    /// Returns the error with its field as one inside `field`.
    pub fn within(self, outer: &str) -> Self {
        match self {
            StoreError::Invalid { field, message } => {
                StoreError::invalid(format!("{outer}.{field}"), message)
            }
            other => other,
        }
    }

    /// Returns true when the caller mends it by asking for something else; false
    /// when the machine or the store is at fault.
    pub fn is_input(&self) -> bool {
        !matches!(
            self,
            StoreError::Backend { .. }
                | StoreError::Busy { .. }
                | StoreError::Full { .. }
                | StoreError::Unavailable { .. }
        )
    }
}

fn place(turn: &Option<TurnId>) -> String {
    match turn {
        Some(turn) => turn.to_string(),
        None => "the beginning".to_owned(),
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::NotFound { what, name } => write!(f, "there is no {what} `{name}`"),
            StoreError::Exists { what, name } => write!(f, "there is a {what} `{name}` already"),
            StoreError::Conflict {
                session,
                expected,
                head,
            } => write!(
                f,
                "conflict: the head of session `{session}` is {}, not {}; nothing was recorded",
                place(head),
                place(expected)
            ),
            StoreError::KeyReused { key } => write!(
                f,
                "the idempotency key `{key}` was used for another turn; nothing was recorded"
            ),
            StoreError::Invalid { field, message } if field.is_empty() => f.write_str(message),
            StoreError::Invalid { field, message } => write!(f, "{field}: {message}"),
            StoreError::Busy { store } => {
                write!(f, "{store} is locked by another process and stayed so")
            }
            StoreError::ReadOnly { store } => {
                write!(f, "{store} cannot be written: it is read-only")
            }
            StoreError::Newer {
                store,
                found,
                known,
            } => write!(
                f,
                "{store} was written by a newer version: its schema is {found}, and {known} is \
                 the newest that this one knows"
            ),
            StoreError::NotAStore { store, message } => write!(f, "{store}: {message}"),
            StoreError::Unavailable { store, message } => {
                write!(f, "{store} is not available: {message}")
            }
            StoreError::Full { store } => write!(
                f,
                "{store} is full: the disk has no room, or the file is as large as it may be; \
                 nothing was written"
            ),
            StoreError::Backend { store, source } => write!(f, "{store}: {source}"),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StoreError::Backend { source, .. } => Some(&**source),
            _ => None,
        }
    }
}
