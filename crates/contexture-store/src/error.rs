//! The error of a store, with the variants that a caller can act on.

use std::fmt;

use crate::id::TurnId;

/// An error of a store.
#[derive(Debug)]
pub enum StoreError {
    /// The name or id does not exist.
    NotFound {
        /// The kind of the missing object, such as `session`.
        what: &'static str,
        /// The name of the missing object.
        name: String,
    },
    /// The name or id is already in use.
    Exists {
        /// The kind of the existing object, such as `session`.
        what: &'static str,
        /// The name of the existing object.
        name: String,
    },
    /// The session has moved on: its head is not the turn that the caller
    /// expected. Nothing was written.
    Conflict {
        /// The session.
        session: String,
        /// The head that the caller expected.
        expected: Option<TurnId>,
        /// The current head.
        head: Option<TurnId>,
    },
    /// A stored file is not what the caller expected. Nothing was written.
    FileChanged {
        /// The path of the file.
        path: String,
        /// The hash of the current content. `None` if the file does not exist.
        hash: Option<contexture_core::ContentHash>,
    },
    /// An idempotency key was already used for another turn or call.
    KeyReused {
        /// The key.
        key: String,
    },
    /// The call with an idempotency key was done before, and its answer is not
    /// stored. Nothing was written.
    AlreadyDone {
        /// The key.
        key: String,
    },
    /// The session is closed: it accepts no more turns.
    Closed {
        /// The session.
        session: String,
        /// The current status, such as `completed`.
        status: &'static str,
    },
    /// Turns are part of other sessions, too. Nothing was deleted.
    Shared {
        /// The session whose turns were to be deleted.
        session: String,
        /// The labels of the other sessions.
        others: Vec<String>,
    },
    /// The input is invalid.
    Invalid {
        /// The path of the invalid field, such as `messages[2].content`.
        field: String,
        /// The problem with the field.
        message: String,
    },
    /// Another process holds a lock on the store.
    Busy {
        /// The store's address.
        store: String,
    },
    /// The store is read-only.
    ReadOnly {
        /// The store's address.
        store: String,
    },
    /// The store was written by a newer version.
    Newer {
        /// The store's address.
        store: String,
        /// The schema version of the data.
        found: u32,
        /// The newest schema version that this program supports.
        known: u32,
    },
    /// The file is not a Contexture store, or it is damaged.
    NotAStore {
        /// The store's address.
        store: String,
        /// The problem, in words.
        message: String,
    },
    /// The store's file was removed or replaced while the store was open, or the
    /// database cannot be reached. The store works again as soon as it is back.
    Unavailable {
        /// The store's address.
        store: String,
        /// The problem, in words.
        message: String,
    },
    /// The disk or the store is full. Nothing was written; reading still works.
    Full {
        /// The store's address.
        store: String,
    },
    /// Stored data is damaged: it differs from what was recorded. It is not
    /// returned.
    Damaged {
        /// The damaged object, such as ``turn `3f2a…` of session `main` ``.
        what: String,
        /// The evidence of the damage.
        message: String,
    },
    /// The write was cancelled before it began, because its caller stopped
    /// waiting. Nothing was written.
    Withdrawn,
    /// The connection to the database was lost while a write was committed.
    /// Whether it was written is unknown.
    UnknownOutcome {
        /// The store's address.
        store: String,
        /// The error of the connection.
        message: String,
    },
    /// The database or the operating system failed.
    Backend {
        /// The kind of store.
        store: &'static str,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// Returns an error for invalid input at `field`.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        StoreError::Invalid {
            field: field.into(),
            message: message.into(),
        }
    }

    /// Returns the error with its field nested in `outer`.
    pub fn within(self, outer: &str) -> Self {
        match self {
            StoreError::Invalid { field, message } => {
                StoreError::invalid(format!("{outer}.{field}"), message)
            }
            other => other,
        }
    }

    /// Returns true if the caller can fix the error with another call, and false
    /// if the machine or the store is at fault.
    pub fn is_input(&self) -> bool {
        !matches!(
            self,
            StoreError::Backend { .. }
                | StoreError::Busy { .. }
                | StoreError::Full { .. }
                | StoreError::ReadOnly { .. }
                | StoreError::Unavailable { .. }
                | StoreError::Damaged { .. }
                | StoreError::Withdrawn
                | StoreError::UnknownOutcome { .. }
        )
    }
}

fn place(turn: &Option<TurnId>) -> String {
    match turn {
        Some(turn) => turn.to_string(),
        None => "the beginning".to_owned(),
    }
}

/// The maximum number of sessions that a message names.
const MOST_NAMED: usize = 8;

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
            StoreError::FileChanged { path, hash: None } => write!(
                f,
                "conflict: the file `{path}` does not exist; nothing was changed"
            ),
            StoreError::FileChanged {
                path,
                hash: Some(hash),
            } => write!(
                f,
                "conflict: the file `{path}` has the hash {hash}; nothing was changed"
            ),
            StoreError::KeyReused { key } => write!(
                f,
                "the idempotency key `{key}` was used for another call; nothing was recorded"
            ),
            StoreError::AlreadyDone { key } => write!(
                f,
                "conflict: the call with the idempotency key `{key}` was done before, and its \
                 answer is not stored; nothing was written"
            ),
            StoreError::Closed { session, status } => write!(
                f,
                "conflict: session `{session}` is closed ({status}); nothing was recorded"
            ),
            StoreError::Shared { session, others } => {
                let named: Vec<String> = (others.iter().take(MOST_NAMED))
                    .map(|other| format!("`{other}`"))
                    .collect();
                let more = match others.len().saturating_sub(MOST_NAMED) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                write!(
                    f,
                    "conflict: session `{session}` shares turns before that turn with {}{more}; \
                     nothing was deleted",
                    named.join(", ")
                )
            }
            StoreError::Invalid { field, message } if field.is_empty() => f.write_str(message),
            StoreError::Invalid { field, message } => write!(f, "{field}: {message}"),
            StoreError::Busy { store } => {
                write!(f, "{store} is locked by another process; retry later")
            }
            StoreError::ReadOnly { store } => {
                write!(f, "{store} is read-only")
            }
            StoreError::Newer {
                store,
                found,
                known,
            } => write!(
                f,
                "{store} was written by a newer version: its schema version is {found}, and this \
                 version supports at most {known}; upgrade Contexture"
            ),
            StoreError::NotAStore { store, message } => write!(f, "{store}: {message}"),
            StoreError::Unavailable { store, message } => {
                write!(f, "{store} is not available: {message}")
            }
            StoreError::Full { store } => write!(
                f,
                "{store} is full: the disk is full, or the file has reached its size limit; \
                 nothing was written"
            ),
            StoreError::Damaged { what, message } => {
                write!(f, "{what} is damaged: {message}")
            }
            StoreError::Withdrawn => f.write_str("the caller did not wait; nothing was written"),
            StoreError::UnknownOutcome { store, message } => write!(
                f,
                "the connection to {store} was lost during a write ({message}): whether it \
                 succeeded is unknown"
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
