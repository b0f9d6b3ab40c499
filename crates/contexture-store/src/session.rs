//! Sessions, and the rules for their labels and aliases.
//!
//! A session is a name for the latest turn of a conversation, its head.
//! Recording a turn moves the head; a fork is another session that starts at
//! the same turn. The turns themselves belong to no session and never change.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::id::TurnId;
use crate::ledger::Recorded;

/// A session: a named conversation that grows by turns.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Session {
    /// The session's unique name.
    pub label: String,
    /// Other names of the session, in alphabetical order.
    pub aliases: Vec<String>,
    /// The id of the latest turn. Null while the session is empty.
    pub head: Option<TurnId>,
    /// The number of normal turns on the path to the head, deleted ones included.
    /// Compactions are not counted.
    pub turns: u64,
    /// The persona that the agent speaks as.
    pub persona: Option<String>,
    /// The label of the session that this one was forked from or started by.
    pub parent_session: Option<String>,
    /// The turn of the parent session at which this session starts.
    pub parent_turn: Option<TurnId>,
    /// The task of the agent in this session.
    pub task: Option<String>,
    /// Whether recorded turns become memory events. Null: as `from_sessions` in
    /// the settings says.
    pub remember: Option<bool>,
    /// Whether the session is active, completed or failed.
    pub status: SessionStatus,
    /// The time when the session was created.
    pub created_at: Timestamp,
    /// The time when the head last moved. This time never decreases, even if
    /// the clock is set back.
    pub updated_at: Timestamp,
    /// The number of times that turns of the tenant's sessions were deleted.
    /// Turns in a cache are valid for one such number only.
    #[serde(skip)]
    pub turn_deletions: u64,
}

impl Session {
    /// Returns true if `label` is the session's label or an alias of it.
    pub fn is_named(&self, label: &str) -> bool {
        self.label == label || self.aliases.iter().any(|alias| alias == label)
    }

    /// Changes the session as a turn does that was recorded in it at `now`.
    pub fn follow(&mut self, recorded: &Recorded, now: Timestamp) {
        self.head = Some(recorded.id);
        self.turns = recorded.depth;
        // Stores keep milliseconds.
        let now = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
        self.updated_at = self.updated_at.max(now);
    }
}

/// Whether a session is still in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// Work in the session continues.
    #[default]
    Active,
    /// The work is done.
    Completed,
    /// The work failed.
    Failed,
}

impl SessionStatus {
    /// Returns the status's name.
    pub fn name(self) -> &'static str {
        match self {
            SessionStatus::Active => "active",
            SessionStatus::Completed => "completed",
            SessionStatus::Failed => "failed",
        }
    }
}

/// A session to create.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::new_session))]
pub struct NewSession {
    /// The unique name of the session, at most 200 bytes.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub label: String,
    /// Other names of the session. Default: none.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::schema::Label>"))]
    pub aliases: Vec<String>,
    /// The turn to start at. The new session shares the history up to that
    /// turn. Default: an empty history.
    pub head: Option<TurnId>,
    /// The persona that the agent speaks as. Default: none.
    pub persona: Option<String>,
    /// The label of the session that starts this one. Default: none.
    pub parent_session: Option<String>,
    /// The task of the agent in this session. Default: none.
    pub task: Option<String>,
    /// Whether recorded turns become memory events. Default: as `from_sessions`
    /// in the settings says.
    pub remember: Option<bool>,
}

/// A change to a session. Fields that are `None` are not changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SessionChange {
    /// An additional name of the session.
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Label>"))]
    pub alias: Option<String>,
    /// The new status.
    pub status: Option<SessionStatus>,
    /// Whether turns that are recorded from now on become memory events.
    pub remember: Option<bool>,
}

/// A move of a session's head.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeadMove {
    /// The head before the move.
    pub from: Option<TurnId>,
    /// The head after the move.
    pub to: Option<TurnId>,
    /// The reason: `recorded`, `compacted`, `created`, `forked`, or a text
    /// given by the caller.
    pub reason: String,
    /// The time of the move.
    pub at: Timestamp,
}

/// The maximum length of a label or an alias, in bytes.
pub const MAX_LABEL_BYTES: usize = 200;

/// Checks the label of a session or an alias.
pub fn check_label(field: &str, label: &str) -> Result<(), StoreError> {
    if label.trim().is_empty() {
        return Err(StoreError::invalid(field, "is empty"));
    }
    if label.len() > MAX_LABEL_BYTES {
        return Err(StoreError::invalid(
            field,
            format!("is {} bytes; the limit is {MAX_LABEL_BYTES}", label.len()),
        ));
    }
    if label.trim() != label || label.chars().any(char::is_control) {
        return Err(StoreError::invalid(
            field,
            "contains control characters, or starts or ends with a space",
        ));
    }
    Ok(())
}

impl NewSession {
    /// Checks the names.
    pub fn check(&self) -> Result<(), StoreError> {
        check_label("label", &self.label)?;
        for alias in &self.aliases {
            check_alias(alias, &self.label)?;
        }
        Ok(())
    }
}

/// Checks an alias of `label`.
pub fn check_alias(alias: &str, label: &str) -> Result<(), StoreError> {
    check_label("alias", alias)?;
    if alias == label {
        return Err(StoreError::invalid(
            "alias",
            format!("`{alias}` is the label itself"),
        ));
    }
    Ok(())
}
