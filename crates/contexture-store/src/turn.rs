use std::collections::BTreeSet;

use contexture_core::{Tokens, Usage};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compaction::Compaction;
use crate::error::StoreError;
use crate::id::TurnId;
use crate::message::{Block, Message, MessageRole};

/// A turn as a program hands it over: what was said and done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a turn: an object with `messages`")]
pub struct NewTurn {
    /// The messages, in order.
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::messages))]
    pub messages: Vec<Message>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whose API it was called through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// What the provider says it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// What went wrong, when something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TurnError>,
    /// How far the turn got. Default: failed when there is an error, else
    /// completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<TurnStatus>,
    /// The agent's role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<AgentRole>,
    /// The named set that the tools were taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolset_name: Option<String>,
    /// The tools that the model was given, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// What the agent was allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions_granted: Vec<String>,
    /// The event that caused the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_event_id: Option<String>,
    /// The snapshot of the request that was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_hash: Option<String>,
    /// The turn before. Default: the session's latest. One that is not the
    /// latest is a conflict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_turn_id: Option<TurnId>,
    /// Makes a retry safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::NotEmpty>"))]
    pub idempotency_key: Option<String>,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It was done.
    #[serde(alias = "stop", alias = "stop_sequence", alias = "STOP")]
    EndTurn,
    /// Its answer was as long as it may be.
    #[serde(alias = "length", alias = "MAX_TOKENS")]
    MaxTokens,
    /// It called a tool.
    #[serde(alias = "tool_calls", alias = "function_call")]
    ToolUse,
    /// It took too long.
    Timeout,
    /// Somebody stopped it.
    Aborted,
    /// Something went wrong.
    Error,
}

/// How far a turn got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// Not begun.
    Pending,
    /// On its way.
    Streaming,
    /// Done.
    Completed,
    /// Failed.
    Failed,
}

/// What went wrong in a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "an error: an object with `kind` and `message`"
)]
pub struct TurnError {
    /// What kind of thing.
    pub kind: ErrorKind,
    /// In words.
    #[serde(default)]
    pub message: String,
}

/// The kinds of things that go wrong in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The request was longer than the model takes.
    ContextOverflow,
    /// The key was refused.
    AuthFailure,
    /// Too many requests.
    RateLimit,
    /// The provider failed.
    ModelError,
    /// It took too long.
    Timeout,
    /// History could not be made shorter.
    CompactionFailure,
    /// Something else.
    Unknown,
}

/// What an agent is to the conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AgentRole {
    /// Talks to the user and hands out work.
    Manager,
    /// Does one task.
    Worker,
    /// Both.
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

/// What a turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TurnKind {
    /// Something was said.
    Normal,
    /// What was said before got a summary.
    Compaction,
}

/// A turn as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// The turn before.
    pub parent: Option<TurnId>,
    /// How many normal turns the path to it has, itself included.
    pub depth: u64,
    /// What it is.
    pub kind: TurnKind,
    /// When it was recorded, by the clock of who recorded it.
    pub created_at: Timestamp,
    /// What was said and done. Its `parent_turn_id` and `idempotency_key` are
    /// as they were handed over.
    #[serde(flatten)]
    pub turn: NewTurn,
    /// The summary, for a compaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    /// The tokens of each block of each message, as far as they were counted
    /// with the counter that was asked for.
    #[serde(skip)]
    pub counts: Option<BlockCounts>,
}

/// Tokens of each block, by message.
pub type BlockCounts = Vec<Vec<Tokens>>;

/// A call that has no result yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpenCall {
    /// Names the call.
    pub id: String,
    /// The tool.
    pub name: String,
}

/// A call and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallRecord {
    /// Names the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The message it stands in.
    pub message: usize,
    /// `Some` when it was answered in this turn: whether it failed.
    pub is_error: Option<bool>,
}

/// What a store keeps beside a turn, so that nobody has to read it again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outline {
    /// The calls made in this turn.
    pub calls: Vec<ToolCallRecord>,
    /// Calls of earlier turns that are answered in this one, and whether they
    /// failed.
    pub answered: Vec<(String, bool)>,
    /// The calls that have no result when the turn ends.
    pub open_calls: Vec<OpenCall>,
    /// Whether a history can begin with this turn: it begins with the user.
    pub begins: bool,
    /// How many bytes its messages hold.
    pub bytes: u64,
}

/// The most messages in one turn.
pub const MAX_MESSAGES: usize = 10_000;

/// How deep the JSON of a tool's arguments or of `context_json` may be nested.
/// Readers of JSON have a limit, and what is stored must be readable.
pub const MAX_DEPTH: usize = 100;

/// The largest number that is stored, for tokens: databases have no unsigned
/// ones.
pub const MAX_NUMBER: u64 = i64::MAX as u64;

impl NewTurn {
    /// Checks the turn and returns its outline. `open` are the calls that the
    /// turn before left without a result. The sizes of messages are
    /// [checked](Self::check_sizes) before.
    ///
    /// Fails with the path of what is wrong. Calls of the turn before that are
    /// not answered before somebody else speaks count as given up; calls of the
    /// turn itself must be answered before that.
    pub fn outline(&self, open: &[OpenCall]) -> Result<Outline, StoreError> {
        if self.messages.is_empty() {
            return Err(StoreError::invalid(
                "messages",
                "is empty: a turn has at least one message",
            ));
        }
        if self.messages.len() > MAX_MESSAGES {
            return Err(StoreError::invalid(
                "messages",
                format!(
                    "{} messages; the most that one turn takes is {MAX_MESSAGES}",
                    self.messages.len()
                ),
            ));
        }
        if self.idempotency_key.as_deref() == Some("") {
            return Err(StoreError::invalid("idempotency_key", "is empty"));
        }
        if let Some(usage) = &self.usage {
            check_usage(usage)?;
        }
        let mut checker = Checker {
            inherited: open.to_vec(),
            ..Checker::default()
        };
        for (i, message) in self.messages.iter().enumerate() {
            checker.message(i, message)?;
        }
        if !checker.says_something {
            return Err(StoreError::invalid(
                "messages",
                "hold nothing: a turn says or does something",
            ));
        }
        let mut outline = checker.outline;
        outline.open_calls = checker.inherited;
        outline.open_calls.extend(checker.own);
        Ok(outline)
    }

    /// Checks that no message is too large: before anything else is done with
    /// them.
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

    /// Returns how far the turn got.
    pub fn effective_status(&self) -> TurnStatus {
        match (self.status, &self.error) {
            (Some(status), _) => status,
            (None, Some(_)) => TurnStatus::Failed,
            (None, None) => TurnStatus::Completed,
        }
    }

    /// Returns what is hashed of the turn: everything but `parent_turn_id`,
    /// `idempotency_key` and `request_hash`.
    pub fn body(&self) -> Body {
        Body::of(&NewTurn {
            parent_turn_id: None,
            idempotency_key: None,
            // Which request it answers is found out when it is recorded, and a
            // retry may find another.
            request_hash: None,
            ..self.clone()
        })
    }
}

#[derive(Default)]
struct Checker {
    // Calls of earlier turns that may still be answered.
    inherited: Vec<OpenCall>,
    // Calls of this turn that are still to be answered.
    own: Vec<OpenCall>,
    seen: BTreeSet<String>,
    says_something: bool,
    spoken: bool,
    outline: Outline,
}

impl Checker {
    fn message(&mut self, i: usize, message: &Message) -> Result<(), StoreError> {
        let at = format!("messages[{i}]");
        let bytes = message.bytes() as u64;
        self.outline.bytes += bytes;
        if let Some(context) = &message.context_json {
            check_depth(&format!("{at}.context_json"), context)?;
        }
        let blocks = message.blocks();
        let is_result = |block: &Block| matches!(block, Block::ToolResult { .. });
        let answers = blocks.iter().any(|block| is_result(block));
        if message.is_error && message.role != MessageRole::Tool {
            return Err(StoreError::invalid(
                format!("{at}.is_error"),
                format!(
                    "belongs to a message of role tool, not {}",
                    message.role.name()
                ),
            ));
        }
        if message.tool_call_id.is_some() && message.role != MessageRole::Tool {
            return Err(StoreError::invalid(
                format!("{at}.tool_call_id"),
                format!(
                    "belongs to a message of role tool, not {}",
                    message.role.name()
                ),
            ));
        }
        if message.role == MessageRole::Tool && !answers {
            return Err(StoreError::invalid(
                format!("{at}.tool_call_id"),
                "is missing: a tool's message says which call it answers",
            ));
        }
        let is_talk = matches!(message.role, MessageRole::User | MessageRole::Assistant);
        if is_talk && !self.spoken {
            self.spoken = true;
            self.outline.begins =
                message.role == MessageRole::User && !answers && self.outline.answered.is_empty();
        }
        if is_talk && !answers {
            // Whoever speaks now has given up waiting for what was called
            // before this turn; what was called in it must have its answer.
            self.inherited.clear();
            if let Some(call) = self.own.first() {
                return Err(StoreError::invalid(
                    &at,
                    format!(
                        "call `{}` has no result yet; the results of calls follow directly \
                         behind them",
                        call.id
                    ),
                ));
            }
        }
        for (b, block) in blocks.iter().enumerate() {
            let at = match &message.content {
                crate::message::MessageContent::Text(_) => format!("{at}.content"),
                crate::message::MessageContent::Blocks(_) => format!("{at}.content[{b}]"),
            };
            self.block(i, &at, message.role, block)?;
        }
        Ok(())
    }

    fn block(
        &mut self,
        i: usize,
        at: &str,
        role: MessageRole,
        block: &Block,
    ) -> Result<(), StoreError> {
        let only_model = |what: &str| {
            StoreError::invalid(
                at,
                format!(
                    "{what} belongs to the assistant's messages, not to {}",
                    role.name()
                ),
            )
        };
        match block {
            Block::Text { text } => self.says_something |= !text.trim().is_empty(),
            Block::Image { .. } | Block::Audio { .. } | Block::Document { .. } => {
                self.says_something = true;
                if block.media().is_none() {
                    return Err(StoreError::invalid(at, "needs either `data` or `url`"));
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
            } => {
                self.says_something = true;
                for (field, value) in [("id", id), ("name", name)] {
                    if value.trim().is_empty() {
                        return Err(StoreError::invalid(format!("{at}.{field}"), "is empty"));
                    }
                }
                if !arguments.is_object() {
                    return Err(StoreError::invalid(
                        format!("{at}.arguments"),
                        "must be an object",
                    ));
                }
                check_depth(&format!("{at}.arguments"), arguments)?;
                if !self.seen.insert(id.clone()) {
                    return Err(StoreError::invalid(
                        format!("{at}.id"),
                        format!("`{id}` names another call of this turn already"),
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
                        at,
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
                } else {
                    return Err(StoreError::invalid(
                        at,
                        format!(
                            "answers call `{tool_call_id}`, which was not made or has its result"
                        ),
                    ));
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn check_depth(at: &str, value: &Value) -> Result<(), StoreError> {
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
            at,
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
        check_number(&format!("usage.{name}"), number)?;
    }
    // What some providers report apart is a part of it here.
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

/// What a turn or a compaction holds, in the one form that is hashed.
///
/// A turn's place in its session and its idempotency key are no part of it, so
/// that a retry has the same. Every store makes ids from it, and so the same
/// turns have the same ids everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body(Vec<u8>);

impl Body {
    // Our types serialise to JSON in the order of their fields, and so always
    // to the same bytes.
    pub(crate) fn of(value: &impl Serialize) -> Self {
        // It fails only for maps with keys that are no text, which none has.
        Self(serde_json::to_vec(value).unwrap_or_default())
    }

    /// Returns a hash of what is said, wherever it is said.
    pub fn hash(&self) -> TurnId {
        TurnId::of(&self.0)
    }

    /// Returns the id of the turn that says it behind `parent`, in the session
    /// of that label (not an alias), at that time (to the millisecond): the
    /// hash of the JSON `[parent,session,milliseconds,body]`.
    pub fn id(&self, parent: Option<TurnId>, session: &str, created_at: Timestamp) -> TurnId {
        let place = Self::of(&(parent, session, created_at.as_millisecond()));
        // The body can be large, and is not copied in between the brackets.
        let open = place.0.strip_suffix(b"]").unwrap_or(&place.0);
        TurnId::of_parts(&[open, b",", &self.0, b"]"])
    }
}

#[cfg(test)]
mod tests {
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
            parent_turn_id: Some(parent),
            idempotency_key: Some("k".to_owned()),
            ..turn.clone()
        };
        let json = format!(r#"["{parent}","a\"b",1770000000123,{{"messages":[],"model":"m"}}]"#);
        let id = TurnId::of(json.as_bytes());
        assert_eq!(turn.body().id(Some(parent), "a\"b", now), id);
        assert_eq!(placed.body().id(Some(parent), "a\"b", now), id);
        assert_eq!(placed.body().hash(), turn.body().hash());
    }
}
