//! Turns: their content, their checks, and their ids.
//!
//! A [`NewTurn`] is checked when it is recorded: roles, tool calls and their
//! results, sizes and numbers. The [`Outline`] of that check is stored next to
//! the turn. The id of a turn is a hash of its [`Body`] and its position.

mod body;
mod check;

use contexture_core::message::Message;
use contexture_core::{Tokens, Usage};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::compaction::Compaction;
use crate::id::TurnId;
use crate::sent::SentBlock;

pub use self::body::Body;
pub use self::check::check_messages;
pub(crate) use self::check::{check_depth, check_number, check_usage};

/// A turn to record: one exchange between the user and the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a turn: an object with `messages`")]
pub struct NewTurn {
    /// The messages in order, 1 to 10,000.
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::messages))]
    pub messages: Vec<Message>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider whose API was called, such as `anthropic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The token usage that the provider reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The reason why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// The error, if the turn failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TurnError>,
    /// The status of the turn. Default: `failed` if `error` is given, otherwise
    /// `completed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<TurnStatus>,
    /// The agent's role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<AgentRole>,
    /// The name of the toolset that the tools came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolset_name: Option<String>,
    /// The names of the tools that the model could call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The permissions that the agent had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions_granted: Vec<String>,
    /// The id of the event that caused the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_event_id: Option<String>,
    /// The hash of the snapshot of the request that was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_hash: Option<String>,
    /// The id of the previous turn. If the field is absent, the turn is recorded
    /// after the session's head. Null requires an empty session. An id that is
    /// not the head is rejected as a conflict.
    #[serde(default, skip_serializing_if = "ParentTurn::is_head")]
    pub parent_turn_id: ParentTurn,
    /// A key that makes a retry safe: a turn with the same key is recorded
    /// once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::NotEmpty>"))]
    pub idempotency_key: Option<String>,
    /// The current message of the request that the turn answers, as it was
    /// sent. Callers do not send it, and it does not affect the turn's id.
    #[serde(skip)]
    pub sent: Vec<SentBlock>,
}

/// The turn that a new turn is recorded after.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ParentTurn {
    /// The session's head, whichever it is.
    #[default]
    Head,
    /// None: the session must be empty.
    Empty,
    /// This turn, which must be the session's head.
    Turn(TurnId),
}

impl ParentTurn {
    /// Returns true if any head is accepted.
    pub fn is_head(&self) -> bool {
        *self == ParentTurn::Head
    }

    /// Returns the head that the session must have, a turn or none. `None` if
    /// the caller does not require one.
    pub fn expected(self) -> Option<Option<TurnId>> {
        match self {
            ParentTurn::Head => None,
            ParentTurn::Empty => Some(None),
            ParentTurn::Turn(id) => Some(Some(id)),
        }
    }
}

impl From<TurnId> for ParentTurn {
    fn from(id: TurnId) -> Self {
        ParentTurn::Turn(id)
    }
}

/// The turn that an assembled request follows; a request without one follows the
/// beginning of the session.
impl From<Option<TurnId>> for ParentTurn {
    fn from(id: Option<TurnId>) -> Self {
        id.map_or(ParentTurn::Empty, ParentTurn::Turn)
    }
}

impl Serialize for ParentTurn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.expected().flatten().serialize(serializer)
    }
}

// An absent field uses the default, so a value that is read here was given.
impl<'de> Deserialize<'de> for ParentTurn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = Option::<TurnId>::deserialize(deserializer)?;
        Ok(id.map_or(ParentTurn::Empty, ParentTurn::Turn))
    }
}

/// The reason why a model stopped.
///
/// The providers' words for the first three are converted to these variants.
/// Every other word is stored as the provider wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The model finished its answer.
    EndTurn,
    /// The answer reached the maximum number of tokens.
    MaxTokens,
    /// The model called a tool.
    ToolUse,
    /// The call timed out.
    Timeout,
    /// The user or the program cancelled the call.
    Aborted,
    /// The call failed.
    Error,
    /// Any other reason, as the provider wrote it: `refusal`, `pause_turn`,
    /// `content_filter`, `SAFETY`.
    Other(String),
}

impl StopReason {
    /// The maximum length of a reason, in bytes.
    pub const MAX_BYTES: usize = 200;

    /// Returns the reason for a provider's word.
    pub fn of(word: &str) -> Self {
        match word {
            "end_turn" | "stop" | "stop_sequence" | "STOP" => StopReason::EndTurn,
            "max_tokens" | "length" | "MAX_TOKENS" => StopReason::MaxTokens,
            "tool_use" | "tool_calls" | "function_call" => StopReason::ToolUse,
            "timeout" => StopReason::Timeout,
            "aborted" => StopReason::Aborted,
            "error" => StopReason::Error,
            other => StopReason::Other(other.to_owned()),
        }
    }

    /// Returns true if the provider paused the answer (`pause_turn`). It resumes
    /// the answer when the answer is sent back as the last message.
    pub fn is_pause(&self) -> bool {
        self.as_str() == "pause_turn"
    }

    /// Returns the name of the reason.
    pub fn as_str(&self) -> &str {
        match self {
            StopReason::EndTurn => "end_turn",
            StopReason::MaxTokens => "max_tokens",
            StopReason::ToolUse => "tool_use",
            StopReason::Timeout => "timeout",
            StopReason::Aborted => "aborted",
            StopReason::Error => "error",
            StopReason::Other(word) => word,
        }
    }
}

impl Serialize for StopReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for StopReason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::of(&String::deserialize(deserializer)?))
    }
}

/// The status of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// The turn has not started.
    Pending,
    /// The answer is being received.
    Streaming,
    /// The turn is complete.
    Completed,
    /// The turn failed.
    Failed,
}

/// An error that ended a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "an error: an object with `kind` and `message`"
)]
pub struct TurnError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The error message.
    #[serde(default)]
    pub message: String,
}

/// The kinds of errors that end a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The request exceeded the model's context window.
    ContextOverflow,
    /// The provider rejected the API key.
    AuthFailure,
    /// The provider's rate limit was exceeded.
    RateLimit,
    /// The provider failed.
    ModelError,
    /// The call timed out.
    Timeout,
    /// The history could not be compacted.
    CompactionFailure,
    /// Any other error.
    Unknown,
}

/// The role of an agent in a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AgentRole {
    /// Talks to the user and delegates tasks to workers.
    Manager,
    /// Does one task.
    Worker,
    /// Talks to the user and does the tasks.
    #[default]
    Unified,
}

impl AgentRole {
    /// Returns the role's name.
    pub fn name(self) -> &'static str {
        match self {
            AgentRole::Manager => "manager",
            AgentRole::Worker => "worker",
            AgentRole::Unified => "unified",
        }
    }
}

/// The kind of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TurnKind {
    /// Messages of a conversation.
    Normal,
    /// A summary of earlier turns.
    Compaction,
}

/// A recorded turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::recorded))]
pub struct Turn {
    /// The turn's id.
    pub id: TurnId,
    /// The id of the previous turn. Null for the first turn, and if the previous
    /// turn was deleted.
    pub parent: Option<TurnId>,
    /// The number of normal turns on the path to this turn, including this
    /// turn.
    pub depth: u64,
    /// The kind of turn.
    pub kind: TurnKind,
    /// The time when the turn was recorded.
    pub created_at: Timestamp,
    /// The content of the turn. `parent_turn_id` and `idempotency_key` have the
    /// values that the caller sent.
    #[serde(flatten)]
    pub turn: NewTurn,
    /// The summary, if the turn is a compaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    /// The tokens of each block of each message, for blocks that were counted
    /// with the requested counter.
    #[serde(skip)]
    pub counts: Option<BlockCounts>,
}

/// Token counts of each block, by message.
pub type BlockCounts = Vec<Vec<Tokens>>;

/// A tool call without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpenCall {
    /// The id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
}

/// A tool call and its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallRecord {
    /// The id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The index of the message that holds the call.
    pub message: usize,
    /// `Some` if the turn holds the result: whether the tool failed.
    pub is_error: Option<bool>,
}

/// Facts about a turn that a store saves next to it, so that the messages need
/// not be parsed again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outline {
    /// The tool calls of this turn.
    pub calls: Vec<ToolCallRecord>,
    /// The ids of calls of earlier turns that this turn answers, and whether
    /// each call failed.
    pub answered: Vec<(String, bool)>,
    /// The calls without a result at the end of the turn.
    pub open_calls: Vec<OpenCall>,
    /// Whether a step starts with this turn: it answers no earlier calls first.
    pub begins: bool,
    /// The size of the messages in bytes.
    pub bytes: u64,
}

/// The maximum number of messages in one turn.
pub const MAX_MESSAGES: usize = 10_000;

/// The maximum nesting depth of a tool call's arguments and of `context_json`.
/// JSON parsers have a depth limit, and stored JSON must stay readable.
pub const MAX_DEPTH: usize = 100;

/// The largest number of tokens that can be stored: databases have no unsigned
/// integers.
pub const MAX_NUMBER: u64 = i64::MAX as u64;

impl NewTurn {
    /// Returns the status of the turn: the given one, else `Failed` if it has
    /// an error, else `Completed`.
    pub fn effective_status(&self) -> TurnStatus {
        match (self.status, &self.error) {
            (Some(status), _) => status,
            (None, Some(_)) => TurnStatus::Failed,
            (None, None) => TurnStatus::Completed,
        }
    }

    /// Returns the form of the turn that is hashed: everything but
    /// `parent_turn_id`, `idempotency_key` and `request_hash`.
    pub fn body(&self) -> Body {
        // All fields except the messages, which can be large and are not
        // copied.
        let rest = NewTurn {
            messages: Vec::new(),
            model: self.model.clone(),
            provider: self.provider.clone(),
            usage: self.usage,
            stop_reason: self.stop_reason.clone(),
            error: self.error.clone(),
            status: self.status,
            role: self.role,
            toolset_name: self.toolset_name.clone(),
            tools: self.tools.clone(),
            permissions_granted: self.permissions_granted.clone(),
            source_event_id: self.source_event_id.clone(),
            // The request that the turn answers is found when it is recorded,
            // and a retry may find another.
            request_hash: None,
            parent_turn_id: ParentTurn::Head,
            idempotency_key: None,
            sent: Vec::new(),
        };
        Body::of_turn(&rest, &self.messages)
    }
}
