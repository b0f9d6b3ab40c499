//! Compactions: summaries that replace earlier turns in requests.
//!
//! A compaction is a turn of the session. The turns that it covers stay stored,
//! so a compaction can be undone.

use contexture_core::{Tokens, Usage};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::id::TurnId;
use crate::turn::{Body, check_number, check_usage};

/// A summary that replaces earlier turns in requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compaction {
    /// The text of the summary. Empty only if a compaction was undone and no
    /// older one exists.
    pub summary: String,
    /// The last turn that the summary covers. Null if it covers none.
    pub summarized_through: Option<TurnId>,
    /// The first turn that requests still show. It precedes the compaction on
    /// the path. Null if the summary covers everything before it, or if the
    /// summary is empty and everything is shown.
    pub first_kept: Option<TurnId>,
    /// The index of the first message of that turn that requests still show.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_kept_message: usize,
    /// The facts that the summary was made of, for the next summary. They are
    /// stored, and are not part of the JSON form.
    #[serde(skip)]
    pub facts: Option<serde_json::Value>,
    /// Turns that the summary was made of. If one of them was deleted meanwhile,
    /// the compaction is not saved. They are not stored.
    #[serde(skip)]
    pub made_of: Vec<TurnId>,
    /// The cause of the compaction.
    pub trigger: Trigger,
    /// The topic that the summary concentrates on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// The name of the summariser: `extractive`, or a model.
    pub summariser: String,
    /// The number of tokens of the turns that the summary covers.
    pub tokens_before: Tokens,
    /// The number of tokens of the summary.
    pub tokens_after: Tokens,
    /// The token usage of the summary, if a model wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Compaction {
    /// Checks that its numbers can be stored.
    pub fn check(&self) -> Result<(), StoreError> {
        check_number("tokens_before", self.tokens_before)?;
        check_number("tokens_after", self.tokens_after)?;
        self.usage.as_ref().map_or(Ok(()), check_usage)
    }

    /// Returns the form of the compaction that is hashed: all of it.
    pub fn body(&self) -> Body {
        Body::of(self)
    }
}

/// The cause of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(rename = "CompactionTrigger"))]
pub enum Trigger {
    /// The next request would have exceeded the budget.
    ContextLimit,
    /// The provider rejected the request as too long.
    OverflowRecovery,
    /// A caller requested the compaction.
    Manual,
    /// A schedule started the compaction.
    Periodic,
    /// An earlier compaction was undone.
    Undo,
}

impl Trigger {
    /// Returns the trigger's name.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::ContextLimit => "context_limit",
            Trigger::OverflowRecovery => "overflow_recovery",
            Trigger::Manual => "manual",
            Trigger::Periodic => "periodic",
            Trigger::Undo => "undo",
        }
    }
}
