//! The rules that every provider has for a conversation.
//!
//! They are checked twice with the same code: on the [`Conversation`] before it
//! is rendered, and on the finished JSON by [`preflight`](crate::preflight).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::conversation::{Content, Conversation, Speaker, is_blank};
use crate::dialect::{Dialect, Rules};
use crate::{Prompt, Refused};

/// A message, as far as the rules look at it.
pub(crate) struct Turn<'a> {
    pub(crate) speaker: Speaker,
    pub(crate) parts: Vec<CheckedPart<'a>>,
}

/// A part of a message, as far as the rules look at it.
pub(crate) enum CheckedPart<'a> {
    Text(&'a str),
    Call { id: Cow<'a, str>, name: &'a str },
    Result { id: Cow<'a, str> },
    Thinking { signed: bool },
    Other,
}

/// The rules that apply to a request.
#[derive(Clone, Copy)]
pub(crate) struct Demands {
    /// No speaker has two messages in a row.
    pub(crate) alternation: bool,
    /// The first message is the user's.
    pub(crate) user_first: bool,
    /// The last message is the user's.
    pub(crate) user_last: bool,
    /// Results are in the message directly after the calls.
    pub(crate) adjacent: bool,
    /// Results come before the other parts of their message.
    pub(crate) results_first: bool,
    /// The request is complete: no call is stored by the provider.
    pub(crate) complete: bool,
}

impl Demands {
    pub(crate) const ALL: Demands = Demands {
        alternation: true,
        user_first: true,
        user_last: true,
        adjacent: true,
        results_first: true,
        complete: true,
    };
}

/// Checks the conversation of a prompt before it is rendered.
pub(crate) fn check(
    conversation: &Conversation<'_>,
    prompt: &Prompt<'_>,
    dialect: &Dialect,
) -> Result<(), Refused> {
    let rules = &dialect.rules;
    if conversation.messages.is_empty() && conversation.left_out_blank {
        return Err(refused(
            rules.no_blank_text,
            "all messages are blank: add a user message",
        ));
    }
    check_tool_names(dialect, conversation.tools.iter().map(|tool| tool.name))?;
    let spoken = conversation
        .messages
        .iter()
        .filter(|message| message.speaker != Speaker::Other);
    let turns = merged(spoken.map(|message| {
        Turn {
            speaker: message.speaker,
            parts: message
                .pieces
                .iter()
                .map(|piece| match &piece.content {
                    Content::Text(text) => CheckedPart::Text(text),
                    Content::Call(call) => CheckedPart::Call {
                        id: Cow::Borrowed(&call.id),
                        name: call.name,
                    },
                    Content::Result(result) => CheckedPart::Result {
                        id: Cow::Borrowed(&result.id),
                    },
                    Content::Thinking { signature, .. } => CheckedPart::Thinking {
                        signed: !signature.is_empty(),
                    },
                    Content::Provider(_) if piece.is_thinking() => {
                        CheckedPart::Thinking { signed: true }
                    }
                    Content::Media(_) | Content::Provider(_) => CheckedPart::Other,
                })
                .collect(),
        }
    }));
    let goes_on = prompt.continues
        && ((dialect.goes_on)(prompt.model) || dialect.resumes && is_paused(conversation));
    let ends_with_model = turns
        .last()
        .is_some_and(|turn| turn.speaker == Speaker::Model);
    if ends_with_model && prompt.continues && !goes_on {
        return Err(refused(
            rules.user_last,
            format!(
                "the last message is the model's, and `{}` does not go on where it ends: add what \
                 is asked",
                prompt.model
            ),
        ));
    }
    let demands = Demands {
        user_first: !dialect.model_first,
        user_last: !goes_on,
        complete: !prompt.follows_stored,
        ..Demands::ALL
    };
    check_turns(dialect, &turns, demands)?;
    for piece in conversation.pieces() {
        match &piece.content {
            Content::Media(media) => (dialect.check_media)(media)?,
            Content::Result(result) => result
                .media
                .iter()
                .try_for_each(|media| (dialect.check_media)(media))?,
            _ => {}
        }
    }
    Ok(())
}

/// Returns true if the model's last message uses tools of the provider: it may
/// have been paused (`pause_turn`), and is then sent back to be resumed.
fn is_paused(conversation: &Conversation<'_>) -> bool {
    let mut spoken = conversation.messages.iter().rev();
    let last = spoken.find(|message| message.speaker != Speaker::Other);
    last.is_some_and(|message| {
        let mut pieces = message.pieces.iter();
        pieces.any(|piece| matches!(piece.content, Content::Provider(_)) && !piece.is_thinking())
    })
}

/// Returns messages with adjacent ones of one speaker merged: a message of
/// another role was between them.
pub(crate) fn merged<'a>(turns: impl IntoIterator<Item = Turn<'a>>) -> Vec<Turn<'a>> {
    let mut merged: Vec<Turn<'a>> = Vec::new();
    for turn in turns {
        match merged.last_mut() {
            Some(last) if last.speaker == turn.speaker => last.parts.extend(turn.parts),
            _ => merged.push(turn),
        }
    }
    merged
}

/// Checks the names of the tools that may be called.
pub(crate) fn check_tool_names<'a>(
    dialect: &Dialect,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), Refused> {
    let mut seen = BTreeSet::new();
    for name in names {
        check_tool_name(dialect, name)?;
        if !seen.insert(name) {
            return Err(refused(
                dialect.rules.tool_names_unique,
                format!("the tool `{name}` is defined twice: remove one"),
            ));
        }
    }
    Ok(())
}

fn check_tool_name(dialect: &Dialect, name: &str) -> Result<(), Refused> {
    if (dialect.is_tool_name)(name) {
        return Ok(());
    }
    Err(refused(
        dialect.rules.tool_name,
        format!(
            "the provider does not accept `{name}` as a tool name: rename it to {}",
            dialect.tool_names
        ),
    ))
}

/// Checks messages, independent of their format.
pub(crate) fn check_turns(
    dialect: &Dialect,
    turns: &[Turn<'_>],
    demands: Demands,
) -> Result<(), Refused> {
    let rules = &dialect.rules;
    let (Some(first), Some(last)) = (turns.first(), turns.last()) else {
        return Err(refused(
            rules.not_empty,
            "the request has no message: add a file with the role user or context, or an \
             event",
        ));
    };
    if demands.user_first && first.speaker != Speaker::User {
        return Err(refused(
            rules.user_first,
            "the first message is the model's: start with a user message",
        ));
    }
    for (at, pair) in turns.windows(2).enumerate() {
        if demands.alternation && pair[0].speaker == pair[1].speaker {
            return Err(refused(
                rules.alternation,
                format!(
                    "messages {} and {} have the same role: merge them",
                    at + 1,
                    at + 2
                ),
            ));
        }
    }
    for (at, turn) in turns.iter().enumerate() {
        check_parts(dialect, turn, at + 1)?;
    }
    check_call_ids(rules, turns)?;
    if demands.adjacent {
        check_adjacent(rules, turns, demands)?;
    } else {
        check_anywhere(rules, turns, demands)?;
    }
    if demands.user_last && last.speaker != Speaker::User {
        return Err(refused(
            rules.user_last,
            "the last message is the model's: end with a user message or a tool result",
        ));
    }
    Ok(())
}

/// Checks what can be seen in one message.
fn check_parts(dialect: &Dialect, turn: &Turn<'_>, number: usize) -> Result<(), Refused> {
    let rules = &dialect.rules;
    let blank = |part: &CheckedPart<'_>| matches!(part, CheckedPart::Text(text) if is_blank(text));
    if turn.parts.is_empty() || turn.parts.iter().any(blank) {
        return Err(refused(
            rules.no_blank_text,
            format!("message {number} has a blank text block: remove it"),
        ));
    }
    let thinking = |part: &CheckedPart<'_>| matches!(part, CheckedPart::Thinking { .. });
    let leading = turn.parts.iter().take_while(|part| thinking(part)).count();
    let wrong = if leading == 0 && turn.parts.iter().any(thinking) {
        Some("does not start with its thinking block")
    } else if leading > 0 && leading == turn.parts.len() {
        Some("contains only thinking blocks")
    } else if leading > 0 && turn.speaker == Speaker::User {
        Some("is a user message with a thinking block")
    } else if turn
        .parts
        .iter()
        .any(|part| matches!(part, CheckedPart::Thinking { signed: false }))
    {
        Some("has a thinking block without its signature")
    } else {
        None
    };
    if let Some(wrong) = wrong {
        return Err(refused(
            rules.thinking,
            format!(
                "message {number} {wrong}: send thinking blocks unchanged and first, or omit them"
            ),
        ));
    }
    for part in &turn.parts {
        match part {
            CheckedPart::Call { name, .. } => {
                check_tool_name(dialect, name)?;
                if turn.speaker == Speaker::User {
                    return Err(refused(
                        rules.roles,
                        format!("message {number} is a user message with a tool call"),
                    ));
                }
            }
            CheckedPart::Result { .. } if turn.speaker == Speaker::Model => {
                return Err(refused(
                    rules.roles,
                    format!("message {number} is a model message with a tool result"),
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_call_ids(rules: &Rules, turns: &[Turn<'_>]) -> Result<(), Refused> {
    let mut seen = BTreeSet::new();
    for id in turns.iter().flat_map(calls) {
        if !seen.insert(id) {
            return Err(refused(
                rules.call_ids,
                format!("two calls have the id `{id}`: use unique ids"),
            ));
        }
    }
    Ok(())
}

/// Checks that calls are answered in the message directly after them.
fn check_adjacent(rules: &Rules, turns: &[Turn<'_>], demands: Demands) -> Result<(), Refused> {
    let mut open: BTreeSet<&str> = BTreeSet::new();
    let mut called: BTreeSet<&str> = BTreeSet::new();
    for (at, turn) in turns.iter().enumerate() {
        let mut unanswered = std::mem::take(&mut open);
        for id in results(turn) {
            // The provider stores the other calls.
            let is_stored = !demands.complete && !called.contains(id);
            if !unanswered.remove(id) && !is_stored {
                return Err(not_called(rules, id));
            }
        }
        if let Some(id) = unanswered.first() {
            return Err(not_answered(rules, id));
        }
        let is_result = |part: &CheckedPart<'_>| matches!(part, CheckedPart::Result { .. });
        let mut behind = turn.parts.iter().skip_while(|part| is_result(part));
        if demands.results_first && behind.any(is_result) {
            return Err(refused(
                rules.results_first,
                format!(
                    "message {} has content before the tool result: move the content after it",
                    at + 1
                ),
            ));
        }
        open.extend(calls(turn));
        called.extend(calls(turn));
    }
    open.first()
        .map_or(Ok(()), |id| Err(not_answered(rules, id)))
}

/// Checks that calls are answered in any later message.
fn check_anywhere(rules: &Rules, turns: &[Turn<'_>], demands: Demands) -> Result<(), Refused> {
    let mut answered: BTreeMap<&str, bool> = BTreeMap::new();
    for turn in turns {
        for id in results(turn) {
            match answered.get_mut(id) {
                Some(answered) if !*answered => *answered = true,
                None if !demands.complete => {}
                _ => return Err(not_called(rules, id)),
            }
        }
        answered.extend(calls(turn).map(|id| (id, false)));
    }
    let open = answered.iter().find(|(_, answered)| !**answered);
    open.map_or(Ok(()), |(id, _)| Err(not_answered(rules, id)))
}

fn calls<'t>(turn: &'t Turn<'_>) -> impl Iterator<Item = &'t str> {
    turn.parts.iter().filter_map(|part| match part {
        CheckedPart::Call { id, .. } => Some(&**id),
        _ => None,
    })
}

fn results<'t>(turn: &'t Turn<'_>) -> impl Iterator<Item = &'t str> {
    turn.parts.iter().filter_map(|part| match part {
        CheckedPart::Result { id } => Some(&**id),
        _ => None,
    })
}

fn not_answered(rules: &Rules, id: &str) -> Refused {
    refused(
        rules.calls_answered,
        format!(
            "the call `{id}` has no result directly after it: keep both together, or remove \
             both out"
        ),
    )
}

fn not_called(rules: &Rules, id: &str) -> Refused {
    refused(
        rules.results_called,
        format!(
            "the result for `{id}` does not follow a call with that id, or is a second one: keep \
             each with its call, or leave it out"
        ),
    )
}

pub(crate) fn refused(rule: &'static str, message: impl Into<String>) -> Refused {
    Refused {
        rule,
        message: message.into(),
    }
}
