use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::id::TurnId;

/// A session: a name for the head of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Session {
    /// Its name.
    pub label: String,
    /// Other names for it, in alphabetical order.
    pub aliases: Vec<String>,
    /// Its latest turn.
    pub head: Option<TurnId>,
    /// How many normal turns the path to its head has.
    pub turns: u64,
    /// The persona that speaks in it.
    pub persona: Option<String>,
    /// The session it came from, by fork or as a task.
    pub parent_session: Option<String>,
    /// The turn at which it came from there.
    pub parent_turn: Option<TurnId>,
    /// What it is to do.
    pub task: Option<String>,
    /// Whether it goes on.
    pub status: SessionStatus,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its head last moved. Never earlier than before, whatever the clock
    /// says.
    pub updated_at: Timestamp,
}

/// Whether a session goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// It goes on.
    #[default]
    Active,
    /// Its work is done.
    Completed,
    /// Its work failed.
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

/// A session to be made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::new_session))]
pub struct NewSession {
    /// Its name.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub label: String,
    /// Other names for it.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::schema::Label>"))]
    pub aliases: Vec<String>,
    /// Where it begins: a turn of another session for a fork, which shares its
    /// ancestors.
    pub head: Option<TurnId>,
    /// The persona that speaks in it.
    pub persona: Option<String>,
    /// The session it comes from.
    pub parent_session: Option<String>,
    /// What it is to do.
    pub task: Option<String>,
}

/// A change to a session. What is left out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SessionChange {
    /// One more name.
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Label>"))]
    pub alias: Option<String>,
    /// Another status.
    pub status: Option<SessionStatus>,
}

/// A move of a session's head.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeadMove {
    /// From where.
    pub from: Option<TurnId>,
    /// To where.
    pub to: Option<TurnId>,
    /// Why: `recorded`, `compacted`, `created`, `forked`, or what was said.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// The longest label.
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
            "holds control characters, or blanks at its ends",
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
            format!("`{alias}` cannot stand for itself"),
        ));
    }
    Ok(())
}
