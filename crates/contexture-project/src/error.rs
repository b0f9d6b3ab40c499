//! [`Error`]: an error with a cause, a field and advice.
//!
//! The message says what happened; [`Advice`] is the remedy, as data, because
//! only an interface knows how its caller writes fields.

use std::fmt;

use contexture_store::StoreError;

use crate::advice::{self, Advice, Interface, Operation};

/// An error, in words a user can act on.
///
/// Two kinds matter to a person: [input errors](Error::is_input), which the
/// user fixes by changing their input, and failures of the machine. A program
/// uses the [cause](Error::cause).
#[derive(Debug)]
pub struct Error {
    message: String,
    advice: Vec<Advice>,
    field: Option<String>,
    is_input: bool,
    cause: Cause,
    code: Option<ActionCode>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The cause of an error, as far as it decides the caller's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The request is invalid.
    Input,
    /// Pinned content does not fit the budget.
    OverBudget,
    /// Nothing has that name.
    Missing,
    /// The name is already in use.
    Exists,
    /// Another writer changed the session since it was read.
    Conflict,
    /// The request breaks the provider's cache although the caller forbade it.
    CacheBreak,
    /// The caller is not permitted.
    Denied,
    /// The store cannot be used now: it is locked, read-only, or missing.
    Unavailable,
    /// The disk of the store is full.
    Full,
    /// Stored data differs from what was recorded.
    Damaged,
    /// An operation timed out.
    Late,
    /// Whether a write succeeded is unknown.
    Unknown,
    /// The machine failed.
    Failure,
}

/// The reason why a working-set action was rejected: stable codes for the
/// model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionCode {
    /// No reason was given.
    MissingWhy,
    /// The file or entry does not exist.
    NotFound,
    /// The path or the entry is off limits.
    PermissionDenied,
    /// A field is missing or wrong.
    InvalidArgs,
    /// Too many files or actions.
    QuotaExceeded,
}

impl ActionCode {
    /// Returns the code as shown to the model.
    pub fn as_str(self) -> &'static str {
        match self {
            ActionCode::MissingWhy => "MISSING_WHY",
            ActionCode::NotFound => "NOT_FOUND",
            ActionCode::PermissionDenied => "PERMISSION_DENIED",
            ActionCode::InvalidArgs => "INVALID_ARGS",
            ActionCode::QuotaExceeded => "QUOTA_EXCEEDED",
        }
    }
}

impl Error {
    /// Returns an error that the user fixes by changing their input.
    pub fn input(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            advice: Vec::new(),
            field: None,
            is_input: true,
            cause: Cause::Input,
            code: None,
            source: None,
        }
    }

    /// Returns an error for an action that was rejected.
    pub fn action(code: ActionCode, message: impl Into<String>) -> Self {
        Self {
            code: Some(code),
            cause: match code {
                ActionCode::NotFound => Cause::Missing,
                ActionCode::PermissionDenied => Cause::Denied,
                _ => Cause::Input,
            },
            ..Self::input(format!("{}: {}", code.as_str(), message.into()))
        }
    }

    /// Returns a failure of the machine, with its cause.
    pub fn failure(
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            is_input: false,
            cause: Cause::Failure,
            source: Some(source.into()),
            ..Self::input(message)
        }
    }

    /// Returns an error for an operation that timed out.
    pub fn late(message: impl Into<String>) -> Self {
        Self {
            is_input: false,
            cause: Cause::Late,
            ..Self::input(message)
        }
    }

    /// Returns an error for damaged data in the store, which no change of the
    /// input can fix.
    pub fn damage(message: impl Into<String>) -> Self {
        Self {
            is_input: false,
            cause: Cause::Failure,
            ..Self::input(message)
        }
    }

    /// Sets the cause.
    pub fn because(mut self, cause: Cause) -> Self {
        self.cause = cause;
        self
    }

    /// Names the field that is wrong.
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into()).filter(|field| !field.is_empty());
        self
    }

    /// Replaces the message.
    pub(crate) fn with_message(mut self, message: String) -> Self {
        self.message = message;
        self
    }

    /// Appends the outcome to the message.
    pub fn with_outcome(mut self, outcome: &str) -> Self {
        self.message = format!("{}; {outcome}", self.message);
        self
    }

    /// Adds what can be done about it.
    pub fn advise(mut self, advice: impl Into<Advice>) -> Self {
        self.advice.push(advice.into());
        self
    }

    /// Returns true if the user can fix the error by changing their input.
    pub fn is_input(&self) -> bool {
        self.is_input
    }

    /// Returns true when something was not there in time.
    pub fn is_late(&self) -> bool {
        self.cause == Cause::Late
    }

    /// Returns the cause.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Returns the field that is wrong, when that is known: a path such as
    /// `messages[2].content`.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// Returns the advice.
    pub fn advice(&self) -> &[Advice] {
        &self.advice
    }

    /// Returns the advice in the words of an interface. `None` if there is
    /// none.
    pub fn hint(&self, interface: &dyn Interface) -> Option<String> {
        advice::phrase(&self.advice, interface)
    }

    /// Returns the code of a rejected action.
    pub fn code(&self) -> Option<ActionCode> {
        self.code
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<contexture_core::Error> for Error {
    fn from(error: contexture_core::Error) -> Self {
        let told = Self::input(error.to_string()).advise(Advice::raise("max_tokens"));
        match error.is_over_budget() {
            true => told
                .because(Cause::OverBudget)
                .advise("use a model with a larger window, or unpin the largest items"),
            false => told.advise(Advice::lower("reserve_response")),
        }
    }
}

/// Returns the advice for an error of a store.
fn store_advice(error: &StoreError) -> Vec<Advice> {
    use Operation::{
        CreateSession, ExportMemory, ImportTree, ListKeys, ListSessions, ListStacks, ListTrees,
        PushTask, ShowHistory, ShowTasks, ShowTree,
    };
    let calls = |operations: &[Operation]| -> Vec<Advice> {
        operations.iter().copied().map(Advice::call).collect()
    };
    let text = |text: &'static str| vec![Advice::from(text)];
    match error {
        StoreError::NotFound { what, .. } => match *what {
            "session" => calls(&[ListSessions, CreateSession]),
            "tree" => calls(&[ListTrees, ImportTree]),
            "node" => calls(&[ShowTree]),
            "turn" => calls(&[ShowHistory]),
            "task" => calls(&[ShowTasks, ListStacks]),
            "key" => calls(&[ListKeys]),
            "record" | "record of source" | "record of session" | "event" | "chunk" | "entity"
            | "relation" | "pattern" => calls(&[ExportMemory]),
            _ => Vec::new(),
        },
        StoreError::Invalid { field, .. } if field == "task" || field == "stack" => {
            calls(&[ShowTasks, PushTask])
        }
        StoreError::Full { .. } => text("free disk space, or move the store to a larger disk"),
        StoreError::Unavailable { .. } => vec![
            Advice::from(
                "check that the database runs, or restore the file at its path; no restart is \
                 needed",
            ),
            Advice::set("db"),
        ],
        StoreError::Conflict { .. } => {
            text("assemble again to get the current state, then record the new turn")
        }
        StoreError::FileChanged { .. } => {
            text("read the file again, apply your change, and send it with the new hash")
        }
        StoreError::KeyReused { .. } => text("use a new idempotency key for each call"),
        StoreError::AlreadyDone { .. } => {
            text("read what was stored, and use a new idempotency key for a new call")
        }
        StoreError::Closed { session, .. } => vec![
            Advice::from("fork the session and record the turn there"),
            Advice::call_on(Operation::ReopenSession, session),
        ],
        StoreError::Shared { .. } => {
            text("delete those sessions first, or keep the turns that they share")
        }
        StoreError::Damaged { .. } => text("restore the data from a backup"),
        StoreError::Busy { .. } => text("retry when the other process has finished"),
        StoreError::ReadOnly { .. } => vec![
            Advice::from("check the permissions of the file and its directory"),
            Advice::set("db"),
        ],
        StoreError::Newer { .. } => {
            vec![
                Advice::from("install the newer version of Contexture"),
                Advice::set("db"),
            ]
        }
        StoreError::NotAStore { .. } => vec![
            Advice::from("move the file; it was not changed"),
            Advice::set("db"),
        ],
        _ => Vec::new(),
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let advice = store_advice(&error);
        let cause = match &error {
            StoreError::NotFound { .. } => Cause::Missing,
            StoreError::Exists { .. } => Cause::Exists,
            StoreError::Conflict { .. }
            | StoreError::FileChanged { .. }
            | StoreError::KeyReused { .. }
            | StoreError::AlreadyDone { .. }
            | StoreError::Closed { .. }
            | StoreError::Shared { .. } => Cause::Conflict,
            StoreError::Invalid { .. } => Cause::Input,
            StoreError::Damaged { .. } => Cause::Damaged,
            StoreError::Withdrawn => Cause::Late,
            StoreError::UnknownOutcome { .. } => Cause::Unknown,
            StoreError::Full { .. } => Cause::Full,
            _ => Cause::Unavailable,
        };
        let field = match &error {
            StoreError::Invalid { field, .. } => field.clone(),
            _ => String::new(),
        };
        let told = match error.is_input() {
            true => Error::input(error.to_string()),
            false => Error::failure(error.to_string(), error),
        };
        let mut told = told.because(cause).at(field);
        told.advice = advice;
        told
    }
}

/// Returns the word of `known` that is nearest to `word`, if one is near.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // Comparing words takes time in proportion to the product of their lengths.
    if word.len() > LONGEST_WORD {
        return None;
    }
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// The longest word that is compared with others or shown whole.
const LONGEST_WORD: usize = 256;

/// Returns the message that `word` is not one of `known`, with the most similar
/// one, if there is one.
pub fn not_one_of(what: &str, word: &str, known: &[&str]) -> String {
    let word = &word[..word.floor_char_boundary(LONGEST_WORD)];
    let meant = match nearest(word, known.iter().copied()) {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => String::new(),
    };
    let which = match known {
        [] => "none is defined".to_owned(),
        known => format!("one of {}", known.join(", ")),
    };
    format!("unknown {what} `{word}`{meant} ({which})")
}

/// Rewrites the messages of JSON and TOML parsers in a user's words.
pub fn plain(message: &str) -> String {
    [
        ("expected usize", "expected a whole number, 0 or more"),
        ("expected u64", "expected a whole number, 0 or more"),
        ("expected u32", "expected a whole number, 0 or more"),
        ("expected f64", "expected a number"),
        ("expected a boolean", "expected true or false"),
        ("unknown variant", "unknown value"),
        ("EOF while parsing a value", "it ends before a value"),
        ("EOF while parsing an object", "it ends inside an object"),
        ("EOF while parsing a list", "it ends inside a list"),
        ("EOF while parsing a string", "it ends inside a string"),
    ]
    .into_iter()
    .fold(message.to_owned(), |message, (theirs, ours)| {
        message.replace(theirs, ours)
    })
}
