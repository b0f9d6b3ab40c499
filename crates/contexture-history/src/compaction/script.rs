//! The part of a conversation that is summarised, with its secrets masked.

use std::borrow::Cow;
use std::collections::BTreeMap;

use contexture_core::guard::{self, Policy};
use contexture_providers::describe;
use contexture_store::{Block, Message, MessageRole, Turn, TurnStatus};
use serde_json::Value;

use crate::facts::{Passage, Speaker};
use crate::history::turn_name;
use crate::sent;

/// Messages as lines.
pub(super) struct Script<'t> {
    lines: Vec<Line<'t>>,
}

struct Line<'t> {
    speaker: Speaker,
    text: Cow<'t, str>,
    failed: bool,
    turn: u64,
    tool: Option<String>,
    call: Option<String>,
}

impl<'t> Script<'t> {
    /// Reads turns, and of each the messages that are summarised.
    pub(super) fn of(
        turns: impl Iterator<Item = (&'t Turn, &'t [Message])>,
        policy: Policy,
    ) -> Self {
        let mut script = Self { lines: Vec::new() };
        // The tool of each call.
        let mut tools = BTreeMap::new();
        for (turn, messages) in turns {
            // The user's text may be only in the message that was sent.
            let is_start = messages.as_ptr() == turn.turn.messages.as_ptr();
            for text in sent::unrecorded_words(&turn.turn).filter(|_| is_start) {
                script.lines.push(Line {
                    speaker: Speaker::User,
                    text: visible(Cow::Borrowed(text), policy),
                    failed: false,
                    turn: turn.depth,
                    tool: None,
                    call: None,
                });
            }
            for message in messages {
                script.message(turn, message, &mut tools, policy);
            }
            let ends = messages.as_ptr_range().end == turn.turn.messages.as_ptr_range().end;
            if ends && turn.turn.effective_status() == TurnStatus::Failed {
                let error = turn.turn.error.as_ref();
                let kind = error.map_or_else(String::new, |error| format!("{:?}", error.kind));
                let said = error.map_or("", |error| error.message.as_str());
                let text = format!("turn {} failed: {kind} {said}", turn_name(turn.id));
                script.lines.push(Line {
                    speaker: Speaker::Other,
                    text: visible(Cow::Owned(text.trim_end().to_owned()), policy),
                    failed: true,
                    turn: turn.depth,
                    tool: None,
                    call: None,
                });
            }
        }
        script
    }

    fn message(
        &mut self,
        turn: &Turn,
        message: &'t Message,
        tools: &mut BTreeMap<String, String>,
        policy: Policy,
    ) {
        let speaker = match message.role {
            MessageRole::User => Speaker::User,
            MessageRole::Assistant => Speaker::Assistant,
            MessageRole::Tool => Speaker::ToolResult,
            MessageRole::System | MessageRole::Developer => Speaker::Instruction,
        };
        let first = self.lines.len();
        for block in message.blocks() {
            // What the user shows is described next to what the user says.
            if let (Speaker::User, Some(media)) = (speaker, block.media())
                && let Some(line) = self.lines[first..].last_mut()
                && line.speaker == Speaker::User
            {
                let text = format!("{} {}", line.text.trim_end(), describe(&media));
                line.text = Cow::Owned(text);
                continue;
            }
            // A recorded system prompt is not a part of the conversation: each
            // request has its own.
            if speaker == Speaker::Instruction && block.native().is_none() {
                continue;
            }
            let mut line = Line {
                speaker,
                text: Cow::Borrowed(""),
                failed: false,
                turn: turn.depth,
                tool: None,
                call: None,
            };
            // Most texts are read where they are.
            if let Cow::Borrowed(Block::Text { text, .. }) = block {
                line.text = guard::visible(text, policy);
                self.lines.push(line);
                continue;
            }
            let text = match &*block {
                Block::Text { text, .. } => text.to_string(),
                Block::ToolCall {
                    id,
                    name,
                    arguments,
                    ..
                } => {
                    tools.insert(id.clone(), name.clone());
                    line.speaker = Speaker::ToolCall;
                    (line.tool, line.call) = (Some(name.clone()), Some(id.clone()));
                    match arguments {
                        Value::String(written) => written.clone(),
                        object => object.to_string(),
                    }
                }
                Block::ToolResult {
                    tool_call_id,
                    content,
                    is_error,
                    ..
                } => {
                    line.speaker = Speaker::ToolResult;
                    line.failed = *is_error;
                    line.tool = tools.get(tool_call_id).cloned();
                    line.call = Some(tool_call_id.clone());
                    content.clone()
                }
                // Reasoning is not a result, and other blocks have no text.
                _ => continue,
            };
            line.text = visible(Cow::Owned(text), policy);
            self.lines.push(line);
        }
    }

    pub(super) fn passages(&self) -> Vec<Passage<'_>> {
        let lines = self.lines.iter();
        lines
            .map(|line| Passage {
                speaker: line.speaker,
                text: &line.text,
                failed: line.failed,
                turn: line.turn,
                tool: line.tool.as_deref(),
                call: line.call.as_deref(),
            })
            .collect()
    }
}

/// Returns a text with its secrets masked.
fn visible(text: Cow<'_, str>, policy: Policy) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => guard::visible(text, policy),
        Cow::Owned(text) => match guard::visible(&text, policy) {
            Cow::Owned(masked) => Cow::Owned(masked),
            Cow::Borrowed(_) => Cow::Owned(text),
        },
    }
}
