use contexture_core::{Tokens, Usage};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::id::TurnId;
use crate::turn::{Body, check_number, check_usage};

/// A summary that stands for the turns before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compaction {
    /// What it says. Empty only when a compaction was undone and there is no
    /// older one.
    pub summary: String,
    /// The last turn it stands for; null when it stands for none.
    pub summarized_through: Option<TurnId>,
    /// The first turn that is still shown, which lies *before* the compaction
    /// on the path; null when everything up to it is summarised, or, with an
    /// empty summary, when everything is shown.
    pub first_kept: Option<TurnId>,
    /// What caused it.
    pub trigger: Trigger,
    /// What it was to pay attention to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// What made the summary: `extractive`, or a model's name.
    pub summariser: String,
    /// The tokens of what it stands for.
    pub tokens_before: Tokens,
    /// The tokens of the summary.
    pub tokens_after: Tokens,
    /// What the summary cost, when a model made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl Compaction {
    /// Checks that its numbers can be stored.
    pub fn check(&self) -> Result<(), StoreError> {
        check_number("tokens_before", self.tokens_before)?;
        check_number("tokens_after", self.tokens_after)?;
        self.usage.as_ref().map_or(Ok(()), check_usage)
    }

    /// Returns what is hashed of the compaction: everything.
    pub fn body(&self) -> Body {
        Body::of(self)
    }
}

/// What caused a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(rename = "CompactionTrigger"))]
pub enum Trigger {
    /// The next request would have been too long.
    ContextLimit,
    /// The provider said that the request was too long.
    OverflowRecovery,
    /// Somebody asked for it.
    Manual,
    /// It was time.
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
