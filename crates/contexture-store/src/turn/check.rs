//! The checks of a turn that is recorded.
//!
//! They follow its messages in order: roles, tool calls and their results, sizes
//! and numbers. An error names the path of the invalid field.

use std::collections::BTreeSet;

use contexture_core::message::{Block, Message, MessageContent, MessageRole};
use contexture_core::{RawJson, Usage};
use serde_json::Value;

use super::{
    MAX_DEPTH, MAX_MESSAGES, MAX_NUMBER, NewTurn, OpenCall, Outline, StopReason, ToolCallRecord,
};
use crate::error::StoreError;

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
            // A model may end without a word. The reason is worth a record.
            says_something: self.stop_reason.is_some()
                && (self.messages.last()).is_some_and(|last| last.role == MessageRole::Assistant),
            ..Checker::default()
        };
        let mut outline = checker.outline(&self.messages)?;
        outline.bytes = self.bytes();
        Ok(outline)
    }

    /// Returns the size of the messages in bytes.
    pub fn bytes(&self) -> u64 {
        let messages = self.messages.iter();
        messages.map(|message| message.bytes() as u64).sum()
    }

    /// Returns whether a step begins with the turn, as its outline says after any
    /// turn that it can follow. Returns `None` if it can follow none.
    pub fn begins(&self) -> Option<bool> {
        let checker = Checker {
            accepts_unknown: true,
            says_something: true,
            ..Checker::default()
        };
        Some(checker.outline(&self.messages).ok()?.begins)
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
}

#[derive(Default)]
struct Checker {
    // Calls of earlier turns that may still be answered.
    inherited: Vec<OpenCall>,
    // Calls of earlier turns that were abandoned.
    given_up: Vec<OpenCall>,
    // Whether calls that are not known here may be answered.
    accepts_unknown: bool,
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
            Block::Text { text, .. } => {
                self.says_something = self.says_something || !text.is_blank();
            }
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
                } else {
                    if let Some(found) = self.inherited.iter().position(is_it) {
                        self.inherited.remove(found);
                    } else if let Some(found) = self.given_up.iter().position(is_it) {
                        self.given_up.remove(found);
                    } else if !self.accepts_unknown || self.seen.contains(tool_call_id) {
                        return Err(StoreError::invalid(
                            at(),
                            format!(
                                "answers call `{tool_call_id}`, which does not exist or already has a result"
                            ),
                        ));
                    }
                    let answered = (tool_call_id.clone(), *is_error);
                    self.outline.answered.push(answered);
                }
            }
        }
        Ok(())
    }
}

/// Checks messages that are not recorded, as [`NewTurn::outline`] checks those
/// of a turn.
///
/// With `follows_stored`, the messages follow others that the provider stores:
/// results of calls that are not among the messages are accepted.
pub fn check_messages(messages: &[Message], follows_stored: bool) -> Result<(), StoreError> {
    check_count(messages)?;
    let checker = Checker {
        accepts_unknown: follows_stored,
        ..Checker::default()
    };
    checker.outline(messages).map(drop)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_turn_begins_a_step_after_any_turn_alike() {
        let user = json!({"role": "user", "content": "Go."});
        let says = json!({"role": "assistant", "content": "Done."});
        let calls = |id: &str| {
            json!({"role": "assistant", "content": [
                {"type": "tool_call", "id": id, "name": "f", "arguments": {}}
            ]})
        };
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "ok"});
        let answer = json!({"role": "user", "content": [
            {"type": "tool_result", "tool_call_id": "open", "content": "ok"},
            {"type": "text", "text": "And now?"}
        ]});
        let open = |id: &str| OpenCall {
            id: id.to_owned(),
            name: "f".to_owned(),
        };
        for (messages, begins) in [
            (vec![user.clone(), says.clone()], true),
            (vec![says.clone()], true),
            (vec![result("open"), says.clone()], false),
            (vec![result("given-up"), user.clone()], false),
            (vec![result("open")], false),
            (vec![answer], false),
            (vec![calls("own"), result("own"), says], true),
            (vec![user, calls("own")], true),
        ] {
            let turn = NewTurn {
                messages: serde_json::from_value(messages.into()).unwrap(),
                ..NewTurn::default()
            };
            let outline = turn.outline_after(&[open("open")], &[open("given-up")]);
            assert_eq!(outline.unwrap().begins, begins, "{turn:?}");
            assert_eq!(turn.begins(), Some(begins), "{turn:?}");
        }
    }
}
