//! Records messages of a conversation as events, and adds earlier messages to a
//! query that says little.

use contexture_core::message::{Block, Message, MessageContent, MessageRole};
use contexture_engine::{Error, Warning};
use contexture_store::{EventRecord, Ledger, Record, RecordScope, TurnId, Walk};
use contexture_words::query_keywords;
use jiff::Timestamp;
use serde_json::json;

use crate::{Memory, MemoryRecorded};

/// The maximum size of earlier messages that are added to a query, in bytes.
const MOST_BEFORE: usize = 600;

/// The number of messages before an event that are considered.
const MESSAGES_BEFORE: usize = 4;

/// Words of an answer without a subject.
const ASSENT: &[&str] = &[
    "yes", "yeah", "yep", "no", "nope", "ok", "okay", "sure", "go", "ahead", "please", "thanks",
    "thank", "continue", "proceed", "right", "fine", "good", "great", "perfect", "next", "done",
    "again", "exactly", "correct", "agreed", "cool", "nice", "alright", "sounds", "it", "that",
    "this", "one", "first", "second", "both", "neither", "maybe", "try", "let",
];

impl Memory<'_> {
    /// Records the messages of users and models as events, all or none. Messages
    /// without text are left out. The same messages recorded twice are stored
    /// once.
    pub fn record_messages(
        &self,
        messages: &[Message],
        owner: &RecordScope,
        now: Option<Timestamp>,
    ) -> Result<MemoryRecorded, Error> {
        let events = messages.iter().filter_map(|message| event(message, owner));
        let events: Vec<Record> = events.map(Record::Event).collect();
        match events.is_empty() {
            true => Ok(MemoryRecorded::default()),
            false => self.record(events, now),
        }
    }

    /// Records the messages of a turn, once: the events have the turn's id. The
    /// turn itself is already recorded, so an error here becomes a warning of
    /// the next recall.
    pub fn remember_turn(
        &self,
        session: &str,
        turn: TurnId,
        messages: &[Message],
        now: Option<Timestamp>,
    ) {
        let now = crate::kept(now);
        let owner = RecordScope {
            session: Some(session.to_owned()),
            ..RecordScope::default()
        };
        let events = messages.iter().enumerate().filter_map(|(i, message)| {
            let mut event = event(message, &owner)?;
            event.id = format!("turn:{turn}:{i}");
            event.timestamp = Some(now);
            Some(Record::Event(event))
        });
        let events: Vec<Record> = events.collect();
        if events.is_empty() {
            return;
        }
        if let Err(error) = self.record(events, Some(now)) {
            let message =
                format!("the turn {turn} of session `{session}` is not in memory: {error}");
            self.warn_later(Warning::new("turn_not_remembered", message));
        }
    }
}

/// Returns a message as an event; `None` without text, and for instructions and
/// results of tools.
fn event(message: &Message, owner: &RecordScope) -> Option<EventRecord> {
    let sender = Sender::of(message);
    let user = owner.user.as_deref().or(sender.id).or(sender.name);
    let user = user.filter(|_| message.role == MessageRole::User || owner.user.is_some());
    let (event_type, speaker) = match message.role {
        MessageRole::User => ("user_message", sender.name.or(user).unwrap_or("user")),
        MessageRole::Assistant => (
            "assistant_message",
            owner.agent.as_deref().unwrap_or("assistant"),
        ),
        MessageRole::System | MessageRole::Developer | MessageRole::Tool => return None,
    };
    let text = text_of(&message.content);
    (!text.trim().is_empty()).then(|| EventRecord {
        id: String::new(),
        session_id: owner.session.clone(),
        timestamp: None,
        event_type: event_type.to_owned(),
        actor: Some(message.role.name().to_owned()),
        content: json!({"speaker": speaker, "text": text}),
        outcome: None,
        parent_id: None,
        summary: None,
        keywords: Vec::new(),
        task_id: owner.task.clone(),
        source: owner.source.clone(),
        valid_from: None,
        valid_to: None,
        supersedes: None,
        visible_to: Vec::new(),
        user: user.map(str::to_owned),
        agent: owner.agent.clone(),
    })
}

/// The sender of a message, in its `context_json`: `sender`, or `user.sender` as a
/// request has it.
#[derive(Default)]
struct Sender<'m> {
    name: Option<&'m str>,
    id: Option<&'m str>,
}

impl<'m> Sender<'m> {
    fn of(message: &'m Message) -> Self {
        let context = message.context_json.as_ref();
        let sender = context.and_then(|context| {
            let own = context.get("sender");
            own.or_else(|| context.pointer("/user/sender"))
        });
        let text = |name: &str| {
            let text = sender.and_then(|sender| sender.get(name)?.as_str());
            text.filter(|text| !text.trim().is_empty())
        };
        Self {
            name: text("name"),
            id: text("id"),
        }
    }
}

fn text_of(content: &MessageContent) -> String {
    let blocks = content.blocks();
    let texts = blocks.iter().filter_map(|block| match &**block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns true when a text has nothing to search for: `yes, go ahead`.
pub(crate) fn says_little(text: &str) -> bool {
    let words = query_keywords(text);
    let tells = |word: &str| !ASSENT.contains(&word.to_lowercase().as_str());
    words.len() <= 6 && !words.iter().any(|keyword| tells(&keyword.word))
}

/// Returns the last texts of a conversation, the latest last, as far as they
/// are short enough for a query.
pub(crate) fn last_said(messages: &[Message]) -> Option<String> {
    let is_said =
        |message: &&Message| matches!(message.role, MessageRole::User | MessageRole::Assistant);
    let latest = messages.iter().rev().filter(is_said).take(MESSAGES_BEFORE);
    let mut parts: Vec<String> = Vec::new();
    let mut room = MOST_BEFORE;
    for message in latest {
        let text = text_of(&message.content);
        let text = text.trim();
        let head = &text[..text.floor_char_boundary(room)];
        if says_little(head) {
            continue;
        }
        room -= head.len();
        parts.push(head.to_owned());
        if room == 0 {
            break;
        }
    }
    parts.reverse();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

/// Returns the last texts of a session.
pub(crate) fn last_of_session(ledger: &dyn Ledger, label: &str) -> Option<String> {
    let head = ledger.session(label).ok()?.head?;
    let walk = Walk {
        counter: "",
        tokens: 0,
        at_least: 2,
        through: None,
    };
    let turns = ledger.walk(head, &walk).ok()?;
    let mut ids: Vec<TurnId> = turns.iter().take(2).map(|turn| turn.id).collect();
    ids.reverse();
    let turns = ledger.turns(&ids, "").ok()?;
    let messages: Vec<Message> = turns
        .into_iter()
        .flat_map(|turn| turn.turn.messages)
        .collect();
    last_said(&messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assent_says_little() {
        for little in [
            "yes, go ahead",
            "Ok, thanks!",
            "",
            "please continue",
            "Sure.",
        ] {
            assert!(says_little(little), "{little}");
        }
        for enough in ["yes, but paint the fence", "Where is the fuse?"] {
            assert!(!says_little(enough), "{enough}");
        }
    }
}
