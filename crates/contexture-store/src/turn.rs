//! Turns: their content, their checks, and their ids.
//!
//! A [`NewTurn`] is checked when it is recorded: roles, tool calls and their
//! results, sizes and numbers. The [`Outline`] of that check is stored next to
//! the turn. The id of a turn is a hash of its [`Body`] and its position.

use std::collections::BTreeSet;
use std::ops::Range;

use contexture_core::{RawJson, Tokens, Usage};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::compaction::Compaction;
use crate::error::StoreError;
use crate::id::TurnId;
use crate::json_text;
use crate::sent::SentBlock;
use contexture_core::message::{Block, Message, MessageContent, MessageRole};

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
    /// Checks the turn and returns its outline. `open` are the calls that the
    /// previous turn left without a result. Message sizes must be
    /// [checked](Self::check_sizes) before.
    ///
    /// Fails with the path of the invalid field. Calls of the previous turn
    /// that have no result before the next other message count as abandoned;
    /// calls of the turn itself must have a result before that.
    pub fn outline(&self, open: &[OpenCall]) -> Result<Outline, StoreError> {
        self.outline_after(open, &[])
    }

    /// Checks the turn as [`outline`](Self::outline) does. `given_up` are calls
    /// of earlier turns that never got a result: a late result of one is
    /// accepted, too.
    pub fn outline_after(
        &self,
        open: &[OpenCall],
        given_up: &[OpenCall],
    ) -> Result<Outline, StoreError> {
        check_count(&self.messages)?;
        if self.idempotency_key.as_deref() == Some("") {
            return Err(StoreError::invalid("idempotency_key", "is empty"));
        }
        if let Some(usage) = &self.usage {
            check_usage(usage)?;
        }
        if let Some(StopReason::Other(word)) = &self.stop_reason {
            if word.trim().is_empty() {
                return Err(StoreError::invalid("stop_reason", "is empty"));
            }
            if word.len() > StopReason::MAX_BYTES {
                return Err(StoreError::invalid(
                    "stop_reason",
                    format!(
                        "is {} bytes long; the limit is {}",
                        word.len(),
                        StopReason::MAX_BYTES
                    ),
                ));
            }
        }
        let checker = Checker {
            inherited: open.to_vec(),
            given_up: given_up.to_vec(),
            ..Checker::default()
        };
        checker.outline(&self.messages)
    }

    /// Returns the ids of calls that the turn answers and does not make itself,
    /// without those in `open`.
    pub fn late_results(&self, open: &[OpenCall]) -> Vec<String> {
        let mut known: BTreeSet<String> = open.iter().map(|call| call.id.clone()).collect();
        let mut late = Vec::new();
        for message in &self.messages {
            for block in message.blocks().iter() {
                match &**block {
                    Block::ToolCall { id, .. } => drop(known.insert(id.clone())),
                    Block::ToolResult { tool_call_id, .. } if !known.contains(tool_call_id) => {
                        late.push(tool_call_id.clone());
                    }
                    _ => {}
                }
            }
        }
        late
    }

    /// Checks that no message is too large. This must come before all other
    /// checks.
    pub fn check_sizes(&self, max_message_bytes: u64) -> Result<(), StoreError> {
        let mut messages = self.messages.iter().enumerate();
        messages.try_for_each(|(i, message)| {
            let bytes = message.bytes() as u64;
            if bytes <= max_message_bytes {
                return Ok(());
            }
            Err(StoreError::invalid(
                format!("messages[{i}].content"),
                format!(
                    "is {bytes} bytes; the limit is {max_message_bytes} (limits.max_message_bytes)"
                ),
            ))
        })
    }

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

#[derive(Default)]
struct Checker {
    // Calls of earlier turns that may still be answered.
    inherited: Vec<OpenCall>,
    // Calls of earlier turns that were abandoned.
    given_up: Vec<OpenCall>,
    // Calls of this turn that are still to be answered.
    own: Vec<OpenCall>,
    seen: BTreeSet<String>,
    says_something: bool,
    spoken: bool,
    outline: Outline,
}

impl Checker {
    fn outline(mut self, messages: &[Message]) -> Result<Outline, StoreError> {
        for (i, message) in messages.iter().enumerate() {
            self.message(i, message)?;
        }
        if !self.says_something {
            return Err(StoreError::invalid(
                "messages",
                "have no content: a turn needs text, media or a tool call",
            ));
        }
        let mut outline = self.outline;
        outline.open_calls = self.inherited;
        outline.open_calls.extend(self.own);
        Ok(outline)
    }

    fn message(&mut self, i: usize, message: &Message) -> Result<(), StoreError> {
        // Paths are made for errors only: most turns have none.
        let at = || format!("messages[{i}]");
        let bytes = message.bytes() as u64;
        self.outline.bytes += bytes;
        if let Some(context) = &message.context_json {
            check_depth(|| format!("{}.context_json", at()), context)?;
        }
        let blocks = message.blocks();
        let is_result = |block: &Block| matches!(block, Block::ToolResult { .. });
        let answers = blocks.iter().any(|block| is_result(block));
        if message.is_error && message.role != MessageRole::Tool {
            return Err(StoreError::invalid(
                format!("{}.is_error", at()),
                format!(
                    "belongs to a message of role tool, not {}",
                    message.role.name()
                ),
            ));
        }
        if message.tool_call_id.is_some() && message.role != MessageRole::Tool {
            return Err(StoreError::invalid(
                format!("{}.tool_call_id", at()),
                format!(
                    "belongs to a message of role tool, not {}",
                    message.role.name()
                ),
            ));
        }
        if message.role == MessageRole::Tool && !answers {
            return Err(StoreError::invalid(
                format!("{}.tool_call_id", at()),
                "is missing: a message of role `tool` needs the id of the call it answers",
            ));
        }
        let opaque = blocks
            .iter()
            .all(|block| matches!(**block, Block::Provider { .. }));
        let is_talk = match message.role {
            // An item that only the provider understands may be a result.
            MessageRole::User => !opaque,
            role => role == MessageRole::Assistant,
        };
        if is_talk && !self.spoken {
            self.spoken = true;
            self.outline.begins = !answers && self.outline.answered.is_empty();
        }
        if is_talk && !answers {
            // A message that is not a result abandons the calls of earlier
            // turns. Calls of this turn must have a result before it.
            self.inherited.clear();
            if let Some(call) = self.own.first() {
                return Err(StoreError::invalid(
                    at(),
                    format!(
                        "call `{}` has no result yet; results must directly follow their \
                         calls",
                        call.id
                    ),
                ));
            }
        }
        for (b, block) in blocks.iter().enumerate() {
            let at = || match &message.content {
                MessageContent::Text(_) => format!("{}.content", at()),
                MessageContent::Blocks(_) => format!("{}.content[{b}]", at()),
            };
            self.block(i, &at, message.role, block)?;
        }
        Ok(())
    }

    fn block(
        &mut self,
        i: usize,
        at: &dyn Fn() -> String,
        role: MessageRole,
        block: &Block,
    ) -> Result<(), StoreError> {
        let only_model = |what: &str| {
            StoreError::invalid(
                at(),
                format!(
                    "{what} belongs to the assistant's messages, not to {}",
                    role.name()
                ),
            )
        };
        if let Some(native) = block.native() {
            check_raw(
                &|| format!("{}.native", at()),
                &native.provider,
                &native.raw,
            )?;
        }
        match block {
            Block::Provider { provider, raw } => {
                self.says_something = true;
                check_raw(at, provider, raw)?;
            }
            Block::Text { text, .. } => self.says_something |= !text.trim().is_empty(),
            Block::Image { .. } | Block::Audio { .. } | Block::Document { .. } => {
                self.says_something = true;
                if block.media().is_none() {
                    return Err(StoreError::invalid(at(), "needs either `data` or `url`"));
                }
            }
            Block::Thinking { .. } if role != MessageRole::Assistant => {
                return Err(only_model("thinking"));
            }
            Block::Thinking { .. } => self.says_something = true,
            Block::ToolCall { .. } if role != MessageRole::Assistant => {
                return Err(only_model("a tool call"));
            }
            Block::ToolCall {
                id,
                name,
                arguments,
                ..
            } => {
                self.says_something = true;
                for (field, value) in [("id", id), ("name", name)] {
                    if value.trim().is_empty() {
                        return Err(StoreError::invalid(format!("{}.{field}", at()), "is empty"));
                    }
                }
                if !arguments.is_object() && !arguments.is_string() {
                    return Err(StoreError::invalid(
                        format!("{}.arguments", at()),
                        "must be an object, or the text that the model wrote if it is not one",
                    ));
                }
                check_depth(|| format!("{}.arguments", at()), arguments)?;
                if !self.seen.insert(id.clone()) {
                    return Err(StoreError::invalid(
                        format!("{}.id", at()),
                        format!("`{id}` is the id of another call in this turn"),
                    ));
                }
                self.own.push(OpenCall {
                    id: id.clone(),
                    name: name.clone(),
                });
                self.outline.calls.push(ToolCallRecord {
                    id: id.clone(),
                    name: name.clone(),
                    message: i,
                    is_error: None,
                });
            }
            Block::ToolResult {
                tool_call_id,
                is_error,
                ..
            } => {
                if !matches!(role, MessageRole::Tool | MessageRole::User) {
                    return Err(StoreError::invalid(
                        at(),
                        format!(
                            "a tool result belongs to a tool's message, not to {}",
                            role.name()
                        ),
                    ));
                }
                self.says_something = true;
                let is_it = |call: &OpenCall| call.id == *tool_call_id;
                if let Some(found) = self.own.iter().position(is_it) {
                    self.own.remove(found);
                    let calls = &mut self.outline.calls;
                    if let Some(call) = calls.iter_mut().find(|call| call.id == *tool_call_id) {
                        call.is_error = Some(*is_error);
                    }
                } else if let Some(found) = self.inherited.iter().position(is_it) {
                    self.inherited.remove(found);
                    self.outline
                        .answered
                        .push((tool_call_id.clone(), *is_error));
                } else if let Some(found) = self.given_up.iter().position(is_it) {
                    self.given_up.remove(found);
                    self.outline
                        .answered
                        .push((tool_call_id.clone(), *is_error));
                } else {
                    return Err(StoreError::invalid(
                        at(),
                        format!(
                            "answers call `{tool_call_id}`, which does not exist or already has a result"
                        ),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Checks messages that are not recorded, as [`NewTurn::outline`] checks those
/// of a turn.
pub fn check_messages(messages: &[Message]) -> Result<(), StoreError> {
    check_count(messages)?;
    Checker::default().outline(messages).map(drop)
}

fn check_count(messages: &[Message]) -> Result<(), StoreError> {
    let count = messages.len();
    match count {
        0 => Err(StoreError::invalid(
            "messages",
            "is empty: a turn has at least one message",
        )),
        1..=MAX_MESSAGES => Ok(()),
        _ => Err(StoreError::invalid(
            "messages",
            format!("{count} messages; the limit of one turn is {MAX_MESSAGES}"),
        )),
    }
}

/// Checks that a block in a provider's own form is an object that can be read
/// back, and names its provider.
fn check_raw(at: &dyn Fn() -> String, provider: &str, raw: &RawJson) -> Result<(), StoreError> {
    if provider.trim().is_empty() {
        let at = format!("{}.provider", at());
        return Err(StoreError::invalid(at, "is empty"));
    }
    let at = || format!("{}.raw", at());
    match serde_json::from_str(raw.as_str()) {
        Ok(value @ Value::Object(_)) => check_depth(at, &value),
        Ok(_) => Err(StoreError::invalid(at(), "must be an object")),
        Err(error) => Err(StoreError::invalid(at(), error.to_string())),
    }
}

pub(crate) fn check_depth(at: impl Fn() -> String, value: &Value) -> Result<(), StoreError> {
    fn is_deeper(value: &Value, than: usize) -> bool {
        let mut inside: Box<dyn Iterator<Item = &Value>> = match value {
            Value::Array(values) => Box::new(values.iter()),
            Value::Object(fields) => Box::new(fields.values()),
            _ => return false,
        };
        than == 0 || inside.any(|value| is_deeper(value, than - 1))
    }
    if is_deeper(value, MAX_DEPTH) {
        return Err(StoreError::invalid(
            at(),
            format!("is nested more than {MAX_DEPTH} levels deep"),
        ));
    }
    Ok(())
}

/// Checks that the numbers in `usage` can be stored.
pub(crate) fn check_usage(usage: &Usage) -> Result<(), StoreError> {
    let numbers = [
        ("input_tokens", usage.input_tokens),
        ("output_tokens", usage.output_tokens),
        ("cached_input_tokens", usage.cached_input_tokens),
        ("cache_write_tokens", usage.cache_write_tokens),
        ("reasoning_tokens", usage.reasoning_tokens),
    ];
    for (name, number) in numbers {
        if number > MAX_NUMBER {
            check_number(&format!("usage.{name}"), number)?;
        }
    }
    // Tokens that some providers report separately are included here.
    let parts = usage
        .cached_input_tokens
        .saturating_add(usage.cache_write_tokens);
    if parts > usage.input_tokens {
        return Err(StoreError::invalid(
            "usage.input_tokens",
            format!(
                "is {}, less than the {parts} that were read from the cache or put into it: it \
                 counts everything that was read (for Anthropic, input_tokens + \
                 cache_read_input_tokens + cache_creation_input_tokens)",
                usage.input_tokens
            ),
        ));
    }
    Ok(())
}

/// Checks that a number can be stored.
pub(crate) fn check_number(field: &str, number: u64) -> Result<(), StoreError> {
    if number > MAX_NUMBER {
        return Err(StoreError::invalid(
            field,
            format!("{number} is too large; the limit is {MAX_NUMBER}"),
        ));
    }
    Ok(())
}

/// The content of a turn or a compaction, in the one form that is hashed.
///
/// It does not include the turn's position in its session and its idempotency
/// key, so a retry has the same body. Every store derives ids from it, so the
/// same turns have the same ids everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    bytes: Vec<u8>,
    // The byte range of each message's content.
    contents: Vec<Range<usize>>,
}

impl Body {
    // Our types serialise to JSON in the order of their fields, and so always
    // to the same bytes.
    pub(crate) fn of(value: &impl Serialize) -> Self {
        Self {
            // This fails only for maps whose keys are not text; there are none.
            bytes: serde_json::to_vec(value).unwrap_or_default(),
            contents: Vec::new(),
        }
    }

    /// Returns the body of a turn: `rest` is the turn without its messages.
    fn of_turn(rest: &NewTurn, messages: &[Message]) -> Self {
        let rest = Self::of(rest).bytes;
        // The messages are the first field, and are always written.
        let after = rest.strip_prefix(MESSAGES).unwrap_or(b"}");
        let size: usize = messages.iter().map(Message::bytes).sum();
        let mut bytes = Vec::with_capacity(rest.len() + size + size / 8 + 64 * messages.len());
        bytes.extend_from_slice(&MESSAGES[..MESSAGES.len() - 1]);
        let mut contents = Vec::with_capacity(messages.len());
        for (i, message) in messages.iter().enumerate() {
            if i > 0 {
                bytes.push(b',');
            }
            contents.push(write_message(message, &mut bytes));
        }
        bytes.push(b']');
        bytes.extend_from_slice(after);
        Self { bytes, contents }
    }

    /// Returns the content of a message as JSON: a text, or a list of blocks.
    /// `None` if there is no message with that number.
    pub fn content(&self, message: usize) -> Option<&str> {
        let content = self.bytes.get(self.contents.get(message)?.clone())?;
        std::str::from_utf8(content).ok()
    }

    /// Returns a hash of the content, independent of its position.
    pub fn hash(&self) -> TurnId {
        TurnId::of(&self.bytes)
    }

    /// Returns the id of the turn with this content after `parent`, in the
    /// session of that label (not an alias), at that time (to the millisecond):
    /// the hash of the JSON `[parent,session,milliseconds,body]`.
    pub fn id(&self, parent: Option<TurnId>, session: &str, created_at: Timestamp) -> TurnId {
        let mut list = Self::of(&(parent, session, created_at.as_millisecond())).bytes;
        list.pop();
        list.reserve_exact(self.bytes.len() + 2);
        // The body is copied: BLAKE3 hashes one piece of memory several times as
        // fast as parts of it.
        list.push(b',');
        list.extend_from_slice(&self.bytes);
        list.push(b']');
        TurnId::of(&list)
    }
}

/// The start of the body of a turn without messages.
const MESSAGES: &[u8] = br#"{"messages":[]"#;

/// The JSON of an empty message content.
const NO_CONTENT: &[u8] = br#""content":"""#;

/// Writes a message as JSON. Returns the byte range of its content.
fn write_message(message: &Message, out: &mut Vec<u8>) -> Range<usize> {
    let shell = Message {
        role: message.role,
        source: message.source,
        content: MessageContent::Text(String::new()),
        tool_call_id: message.tool_call_id.clone(),
        is_error: message.is_error,
        context_json: message.context_json.clone(),
    };
    let shell = Body::of(&shell).bytes;
    // The fields before the content contain only enum names, so this is the
    // first match.
    let at = shell
        .windows(NO_CONTENT.len())
        .position(|window| window == NO_CONTENT);
    let at = at.unwrap_or(0) + NO_CONTENT.len();
    out.extend_from_slice(&shell[..at - 2]);
    let begins = out.len();
    match &message.content {
        MessageContent::Text(text) => json_text::write(text, out),
        MessageContent::Blocks(blocks) => {
            out.push(b'[');
            for (i, block) in blocks.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_block(block, out);
            }
            out.push(b']');
        }
    }
    let ends = out.len();
    out.extend_from_slice(&shell[at..]);
    begins..ends
}

/// Writes a block as JSON.
fn write_block(block: &Block, out: &mut Vec<u8>) {
    // Long texts are most of a history, so they are written apart.
    let (shell, empty, text): (_, &[u8], _) = match block {
        Block::Text { text, native: None } => {
            let text_only = Block::Text {
                text: String::new(),
                native: None,
            };
            (text_only, br#""text":"""#, text)
        }
        Block::ToolResult {
            tool_call_id,
            content,
            is_error,
            native: None,
        } => {
            let result = Block::ToolResult {
                tool_call_id: tool_call_id.clone(),
                content: String::new(),
                is_error: *is_error,
                native: None,
            };
            (result, NO_CONTENT, content)
        }
        other => return out.extend_from_slice(&Body::of(other).bytes),
    };
    let shell = Body::of(&shell).bytes;
    // A quote inside of a text is escaped, so this is the field.
    let at = shell.windows(empty.len()).position(|part| part == empty);
    let at = at.unwrap_or(0) + empty.len();
    out.extend_from_slice(&shell[..at - 2]);
    json_text::write(text, out);
    out.extend_from_slice(&shell[at..]);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_is_the_hash_of_a_list() {
        let parent = TurnId::of(b"parent");
        let now = Timestamp::from_millisecond(1_770_000_000_123).unwrap();
        let turn = NewTurn {
            model: Some("m".to_owned()),
            ..NewTurn::default()
        };
        let placed = NewTurn {
            parent_turn_id: parent.into(),
            idempotency_key: Some("k".to_owned()),
            ..turn.clone()
        };
        let json = format!(r#"["{parent}","a\"b",1770000000123,{{"messages":[],"model":"m"}}]"#);
        let id = TurnId::of(json.as_bytes());
        assert_eq!(turn.body().id(Some(parent), "a\"b", now), id);
        assert_eq!(placed.body().id(Some(parent), "a\"b", now), id);
        assert_eq!(placed.body().hash(), turn.body().hash());
    }

    #[test]
    fn a_body_is_the_json_of_the_turn() {
        let all = json!([
            {"role": "user", "source": "human", "content": "a \"b\"\n\u{1}é"},
            {"role": "assistant", "content": [
                {"type": "text", "text": "\"content\":\"\""},
                {"type": "tool_call", "id": "c", "name": "n", "arguments": {"content": ""}},
            ]},
            {"role": "tool", "content": [
                {"type": "tool_result", "tool_call_id": "\"content\":\"\"", "content": "x\n\\",
                    "is_error": true},
                {"type": "tool_result", "tool_call_id": "c", "content": ""},
                {"type": "text", "text": ""},
            ]},
            {"role": "tool", "content": "", "tool_call_id": "\"content\":\"\"", "is_error": true,
                "context_json": {"content": ""}},
        ]);
        let turn: NewTurn = serde_json::from_value(json!({
            "messages": all, "model": "m", "tools": ["t"], "permissions_granted": ["p"],
            "usage": {"input_tokens": 1, "output_tokens": 2}, "stop_reason": "end_turn",
            "toolset_name": "x", "source_event_id": "e", "role": "manager", "status": "completed",
        }))
        .unwrap();
        let body = turn.body();
        assert_eq!(body.bytes, serde_json::to_vec(&turn).unwrap());
        for (i, message) in turn.messages.iter().enumerate() {
            let content = serde_json::to_string(&message.content).unwrap();
            assert_eq!(body.content(i), Some(content.as_str()));
        }
        assert_eq!(body.content(turn.messages.len()), None);
        assert_eq!(NewTurn::default().body().bytes, br#"{"messages":[]}"#);
    }
}
