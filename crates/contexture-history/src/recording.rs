//! [`Recording`]: what can be recorded as a turn. A turn in our own form, or the
//! bodies of a provider's own API.
//!
//! A provider's response becomes the last message of a turn. Where the request is
//! given as well, the messages of it that the session does not have yet come
//! before it.

use std::collections::{BTreeMap, BTreeSet};

use contexture_engine::Error;
use contexture_engine::turn::turn_from_json;
use contexture_providers::native::{self, Api, NativeError, NativeExchange, NativeRequest};
use contexture_store::{
    Block, Message, MessageContent, MessageRole, NewTurn, Session, StopReason, Turn, TurnId,
    TurnKind,
};
use serde_json::{Map, Value};

use crate::session::Sessions;

/// The number of latest messages that are compared with those of a
/// conversation.
const COMPARED: usize = 4;

/// The most places of a conversation that are tried as the end of a session's.
const MOST_ENDS: usize = 64;

/// The number of latest turns that are compared with a request.
const LOOK_BACK: usize = 8;

/// Input that can be recorded as a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Recording {
    /// A turn in our own form.
    Turn(Box<NewTurn>),
    /// The bodies of a provider's own API.
    Exchange(Box<NativeExchange>),
}

impl Recording {
    /// Reads a turn in our own form, a provider's response, a recorded stream
    /// of one, or `{"provider": …, "request": …, "response": …}`. Error
    /// messages refer to the body by `name`.
    ///
    /// `from` is the name of the provider whose response it is. Without it, the
    /// form of the body decides.
    pub fn read(name: &str, body: &[u8], from: Option<&str>) -> Result<Self, Error> {
        let shown = if name == "-" { "standard input" } else { name };
        if from.is_none() && !native::is_native(body) {
            let text = std::str::from_utf8(body).map_err(|error| {
                let at = error.valid_up_to();
                Error::input(format!("{shown}: is not UTF-8 at byte {at}"))
            })?;
            return match turn_from_json(name, text) {
                Ok(turn) => Ok(Recording::Turn(Box::new(turn))),
                Err(error) => Err(request_alone(shown, body).unwrap_or(error)),
            };
        }
        let apis = match from {
            Some(from) => Api::named(from).ok_or_else(|| {
                Error::input(format!(
                    "unknown provider `{from}`; expected one of {}",
                    Api::NAMES.join(", ")
                ))
            })?,
            None => &Api::ALL,
        };
        let exchange = native::read_exchange(body, apis);
        let exchange = exchange.map_err(|error| from_native(shown, &error))?;
        Ok(Recording::Exchange(Box::new(exchange)))
    }
}

/// Returns an error for a body that is a provider's request without its
/// response.
fn request_alone(name: &str, body: &[u8]) -> Option<Error> {
    const OF_REQUESTS: [&str; 6] = [
        "contents",
        "input",
        "max_tokens",
        "max_completion_tokens",
        "system",
        "stream",
    ];
    let read = native::read_request(body, &Api::ALL).ok()?;
    let fields: Map<String, Value> = serde_json::from_slice(body).ok()?;
    let is_request = OF_REQUESTS.iter().any(|field| fields.contains_key(*field));
    let error = || {
        Error::input(format!(
            "{name}: is a request of {}, not a response",
            read.api.name()
        ))
        .advise("record the response; send {\"request\": …, \"response\": …} to record both")
    };
    is_request.then(error)
}

fn from_native(name: &str, error: &NativeError) -> Error {
    let text = match name {
        "" => error.to_string(),
        name => format!("{name}: {error}"),
    };
    Error::input(text).at(error.path.as_str())
}

/// The latest messages of a session, to find out what of a whole conversation it
/// does not have yet.
#[derive(Debug, Clone, Default)]
pub struct LatestMessages {
    // The latest turn of the session.
    head: Option<TurnId>,
    // The contents of the messages, the latest last.
    contents: Vec<String>,
}

impl LatestMessages {
    /// Returns true when the session has no later turn than it had.
    pub fn is_current(&self, session: &Session) -> bool {
        self.head == session.head
    }

    /// Adds the messages of a turn that became the session's latest.
    pub fn extend<'m>(
        &mut self,
        head: Option<TurnId>,
        messages: impl IntoIterator<Item = &'m Message, IntoIter: DoubleEndedIterator>,
    ) {
        self.head = head;
        let latest = messages.into_iter().rev().take(COMPARED);
        let mut latest: Vec<String> = latest.map(content).collect();
        latest.reverse();
        self.contents.extend(latest);
        let first = self.contents.len().saturating_sub(COMPARED);
        self.contents.drain(..first);
    }

    /// Returns the indices that can be that of the first message of a
    /// conversation that the session does not have, the last first: those after
    /// the session's latest messages. There are several if messages repeat.
    fn ends_in<'m>(&'m self, messages: &'m [Message]) -> impl Iterator<Item = usize> + 'm {
        let least = usize::from(!self.contents.is_empty());
        let most = match least {
            0 => 0,
            _ => messages.len(),
        };
        let is_same = move |end: &usize| {
            let given = messages[..*end].iter().rev();
            given
                .zip(self.contents.iter().rev())
                .all(|(given, latest)| content(given) == *latest)
        };
        (least..=most).rev().filter(is_same)
    }

    /// Returns the index of the first message that the session does not have, in
    /// the end of a conversation. Its first message may be incomplete, so it is
    /// not compared. Returns `None` if the end alone does not show that.
    pub fn first_new_in_end(&self, messages: &[Message]) -> Option<usize> {
        let mut ends = self.ends_in(messages);
        let first = ends.next()?;
        let is_only = ends.next().is_none();
        (first > COMPARED && is_only && !self.contents.is_empty()).then_some(first)
    }
}

/// A text or a call of a conversation, to compare it with another.
struct Said {
    role: MessageRole,
    is_call: bool,
    /// The text without white space, or the name of the tool.
    text: String,
    // The message.
    at: usize,
}

/// Returns what messages say, the latest first. Reasoning, results of tools and
/// instructions are left out: clients shorten and change them.
fn said<'m>(messages: impl Iterator<Item = &'m Message>) -> Vec<Said> {
    let mut said: Vec<Said> = Vec::new();
    for (at, message) in messages.enumerate() {
        let role = message.role;
        if !matches!(role, MessageRole::User | MessageRole::Assistant) {
            continue;
        }
        for block in message.blocks() {
            let (is_call, text) = match &*block {
                Block::Text { text, .. } => (false, text.split_whitespace().collect()),
                Block::ToolCall { name, .. } => (true, name.clone()),
                _ => continue,
            };
            match said.last_mut() {
                _ if text.is_empty() => {}
                // A text may be divided into blocks in other places.
                Some(last) if last.role == role && !last.is_call && !is_call => {
                    last.text.push_str(&text);
                }
                _ => said.push(Said {
                    role,
                    is_call,
                    text,
                    at,
                }),
            }
        }
    }
    said.reverse();
    said
}

/// How a conversation differs from that of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreement {
    /// The first message after the session's latest ones.
    pub first_new: usize,
    /// The latest message of the conversation that the session does not have.
    pub unknown: Option<usize>,
    /// Whether the session has earlier messages that the conversation does not have.
    pub is_shorter: bool,
}

impl Sessions<'_> {
    /// Compares what was said in a conversation and in a session, of which `latest`
    /// are the latest messages. Returns `None` if the conversation does not have these.
    ///
    /// Either may begin earlier: the other one was shortened there.
    pub fn agreement(
        &self,
        session: &Session,
        latest: &LatestMessages,
        messages: &[Message],
    ) -> Result<Option<Agreement>, Error> {
        let mut ends = latest.ends_in(messages).take(MOST_ENDS).peekable();
        let Some(&first_new) = ends.peek() else {
            return Ok(None);
        };
        let recorded = self.history(&session.label, first_new + 1)?;
        if recorded.last().map(|turn| turn.id) != session.head {
            // Another caller has recorded a turn meanwhile. Recording will fail, and the
            // session is read again.
            return Ok(Some(Agreement {
                first_new,
                ..Agreement::default()
            }));
        }
        let normal = recorded.iter().filter(|turn| turn.kind == TurnKind::Normal);
        let recorded = said(normal.flat_map(|turn| &turn.turn.messages));
        let mut different = None;
        for end in ends {
            let agreement = Agreement {
                first_new: end,
                ..compare(&said(messages[..end].iter()), &recorded)
            };
            if agreement.unknown.is_none() {
                return Ok(Some(agreement));
            }
            different = different.or(Some(agreement));
        }
        Ok(different)
    }
}

/// Compares what was said in a conversation and in a session, both the latest first.
fn compare(given: &[Said], recorded: &[Said]) -> Agreement {
    let oldest = recorded.len().min(given.len()).saturating_sub(1);
    let differs = |i: usize, one: &Said, other: &Said| {
        let is_end = one.text.ends_with(&other.text) || other.text.ends_with(&one.text);
        let is_same = one.text == other.text || i == oldest && is_end;
        one.role != other.role || one.is_call != other.is_call || !is_same
    };
    let mut both = given.iter().zip(recorded).enumerate();
    let different = both.find(|(i, (one, other))| differs(*i, one, other));
    Agreement {
        first_new: 0,
        unknown: different.map(|(_, (given, _))| given.at),
        is_shorter: recorded.len() > given.len(),
    }
}

impl Sessions<'_> {
    /// Returns the end of a session's conversation.
    pub fn latest_messages(&self, session: &Session) -> Result<LatestMessages, Error> {
        let recorded = self.history(&session.label, LOOK_BACK)?;
        let normal = recorded.iter().filter(|turn| turn.kind == TurnKind::Normal);
        let messages: Vec<&Message> = normal.flat_map(|turn| &turn.turn.messages).collect();
        let mut latest = LatestMessages::default();
        latest.extend(session.head, messages);
        Ok(latest)
    }

    /// Returns the turn that a recording makes in a session.
    ///
    /// Of a request, these messages are used:
    ///
    /// - all of them, if the session has no turn yet;
    /// - those after the latest answer of the model that the session has, if
    ///   the request has that answer;
    /// - otherwise those after the last answer of the model in the request, and
    ///   that answer itself if it made the calls that they answer.
    pub fn turn_of(&self, label: &str, recording: Recording) -> Result<NewTurn, Error> {
        let exchange = match recording {
            Recording::Turn(turn) => return Ok(*turn),
            Recording::Exchange(exchange) => *exchange,
        };
        let NativeExchange {
            request,
            response,
            other,
        } = exchange;
        let mut turn = other_fields(&other)?;
        turn.provider = Some(response.api.provider().to_owned());
        turn.model = response.model;
        turn.usage = response.usage;
        turn.stop_reason = response.stop_reason.as_deref().map(StopReason::of);
        if let Some(request) = request {
            let recorded = self.history(label, LOOK_BACK)?;
            let known = before_retry(&recorded, turn.idempotency_key.as_deref());
            turn.model = turn.model.or_else(|| request.model.clone());
            if turn.tools.is_empty() {
                let tools = request.tools.iter();
                turn.tools = tools.filter_map(|tool| tool.name.clone()).collect();
            }
            turn.messages = new_messages(request, known);
        }
        let is_silent = response.messages.is_empty();
        turn.messages.extend(response.messages);
        if is_silent && turn.stop_reason.is_some() {
            // The model ended without a word. The turn has its usage and its reason.
            turn.messages.push(Message {
                role: MessageRole::Assistant,
                source: None,
                content: MessageContent::Text(String::new()),
                tool_call_id: None,
                is_error: false,
                context_json: None,
            });
        }
        if turn.messages.is_empty() {
            return Err(Error::input(
                "the response has neither content nor a reason why the model stopped, so there is \
                 nothing to record",
            ));
        }
        make_ids_unique(&mut turn.messages);
        Ok(turn)
    }
}

/// Returns a turn with the fields that are given next to a response.
fn other_fields(other: &[(String, contexture_store::RawJson)]) -> Result<NewTurn, Error> {
    const FROM_RESPONSE: [&str; 4] = ["messages", "model", "usage", "stop_reason"];
    let mut fields = Map::new();
    fields.insert("messages".to_owned(), Value::Array(Vec::new()));
    for (name, raw) in other {
        if FROM_RESPONSE.contains(&name.as_str()) {
            return Err(Error::input(format!(
                "{name}: the value comes from the response; remove the field"
            ))
            .at(name.as_str()));
        }
        let value = serde_json::from_str(raw.as_str()).unwrap_or(Value::Null);
        fields.insert(name.clone(), value);
    }
    contexture_engine::turn::json_with_path("the body", &Value::Object(fields).to_string())
}

/// Returns the turns that were there when a call was first made that may be a
/// retry.
fn before_retry<'t>(turns: &'t [Turn], key: Option<&str>) -> &'t [Turn] {
    let is_it = |turn: &Turn| key.is_some() && turn.turn.idempotency_key.as_deref() == key;
    let first = turns.iter().position(is_it).unwrap_or(turns.len());
    &turns[..first]
}

/// Returns the messages of a request that are not in `turns`.
fn new_messages(request: NativeRequest, turns: &[Turn]) -> Vec<Message> {
    let mut messages = request.messages;
    let normal = || turns.iter().filter(|turn| turn.kind == TurnKind::Normal);
    if normal().next().is_none() {
        return messages;
    }
    let is_answer = |message: &Message| message.role == MessageRole::Assistant;
    let latest = normal()
        .flat_map(|turn| &turn.turn.messages)
        .rfind(|one| is_answer(one));
    let known = latest.and_then(|latest| {
        let same = |message: &Message| is_answer(message) && gist(message) == gist(latest);
        messages.iter().rposition(same)
    });
    if let Some(at) = known {
        return without_known(messages.split_off(at + 1), turns);
    }
    let Some(last) = messages.iter().rposition(is_answer) else {
        return without_known(messages, turns);
    };
    // Results need the calls that they answer.
    let recorded: BTreeSet<&str> = normal()
        .flat_map(|turn| &turn.turn.messages)
        .flat_map(call_ids)
        .collect();
    let is_new = call_ids(&messages[last]).any(|id| !recorded.contains(id));
    let answers = messages[last + 1..]
        .iter()
        .any(|one| one.role == MessageRole::Tool);
    match answers && is_new {
        true => messages.split_off(last),
        false => messages.split_off(last + 1),
    }
}

/// Removes the messages that a session already has after its latest answer, if the
/// new messages begin with all of these.
fn without_known(mut messages: Vec<Message>, turns: &[Turn]) -> Vec<Message> {
    let normal = turns.iter().filter(|turn| turn.kind == TurnKind::Normal);
    let recorded: Vec<&Message> = normal.flat_map(|turn| &turn.turn.messages).collect();
    let is_answer = |message: &&Message| message.role == MessageRole::Assistant;
    let unanswered = recorded.iter().rposition(is_answer).map_or(0, |at| at + 1);
    let unanswered = &recorded[unanswered..];
    let same = |(new, known): (&Message, &&Message)| {
        new.role == known.role && content(new) == content(known)
    };
    if messages.len() >= unanswered.len() && messages.iter().zip(unanswered).all(same) {
        messages.drain(..unanswered.len());
    }
    messages
}

/// Returns the ids of the calls of a message.
fn call_ids(message: &Message) -> impl Iterator<Item = &str> {
    let blocks = match &message.content {
        MessageContent::Blocks(blocks) => &blocks[..],
        MessageContent::Text(_) => &[],
    };
    blocks.iter().filter_map(|block| match block {
        Block::ToolCall { id, .. } => Some(id.as_str()),
        _ => None,
    })
}

/// Returns the texts and calls of a message, for comparison with another:
/// clients leave out reasoning, and write white space and fields differently.
fn gist(message: &Message) -> Vec<String> {
    let blocks = message.blocks();
    let part = |block: &Block| match block {
        Block::Text { text, .. } => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Block::ToolCall { id, name, .. } => Some(format!("call {id} {name}")),
        _ => None,
    };
    let parts: Vec<String> = blocks.iter().filter_map(|block| part(block)).collect();
    match parts.is_empty() {
        // Messages with only opaque blocks are compared by their bytes.
        true => blocks.iter().map(|block| format!("{block:?}")).collect(),
        false => parts,
    }
}

/// Returns the content of a message, to compare it with another. Ids are left
/// out: some are made up here.
fn content(message: &Message) -> String {
    let blocks = message.blocks();
    let part = |block: &Block| match block {
        Block::Text { text, .. } => text.trim().to_owned(),
        Block::ToolCall {
            name, arguments, ..
        } => format!("call {name} {arguments}"),
        Block::ToolResult { content, .. } => format!("result {}", content.trim_end()),
        // Clients may leave out reasoning.
        Block::Thinking { .. } => String::new(),
        // Blank text has no information.
        Block::Provider { raw, .. } => match serde_json::from_str::<Value>(raw.as_str()) {
            Ok(value) => value.to_string(),
            Err(_) => raw.as_str().to_owned(),
        },
        other => format!("{other:?}"),
    };
    let parts: Vec<String> = blocks.iter().map(|block| part(block)).collect();
    format!("{} {}", message.role.name(), parts.concat())
}

/// Replaces repeated ids of calls, except the last of each. They occur for
/// calls without an id, and for servers that number calls from one in each
/// answer.
pub fn make_ids_unique(messages: &mut [Message]) {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for message in messages.iter() {
        for id in call_ids(message) {
            *count.entry(id).or_default() += 1;
        }
    }
    count.retain(|_, count| *count > 1);
    if count.is_empty() {
        return;
    }
    let count: BTreeMap<String, usize> = (count.into_iter())
        .map(|(id, count)| (id.to_owned(), count))
        .collect();
    // The number of calls so far with each id.
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let name = |id: &str, number: usize| match count.get(id) {
        Some(&most) if number < most => Some(format!("{id}~{number}")),
        _ => None,
    };
    for message in messages {
        let MessageContent::Blocks(blocks) = &mut message.content else {
            continue;
        };
        for block in blocks {
            let renamed = match &mut *block {
                Block::ToolCall { id, .. } => {
                    let number = seen.entry(id.clone()).or_default();
                    *number += 1;
                    name(id, *number).map(|name| std::mem::replace(id, name))
                }
                Block::ToolResult { tool_call_id, .. } => {
                    let number = seen.get(tool_call_id).copied();
                    let renamed = number.and_then(|number| name(tool_call_id, number));
                    renamed.map(|name| std::mem::replace(tool_call_id, name))
                }
                _ => None,
            };
            // A block's own form that contains the old id is no longer valid.
            if let (Some(old), Some(native)) = (renamed, block.native_mut())
                && let Some(own) = native
                && own.raw.as_str().contains(&format!("\"{old}\""))
            {
                *native = None;
            }
        }
    }
}
