//! A memory, in few words.
#![allow(unreachable_pub)]

use std::sync::Arc;

use contexture::memory::{Context, ContextRequest, Lines, Memory, MemoryRecorded, Recall};
use contexture::store::{EventRecord, Record};
use contexture::{Engine, Error, Timestamp};

use crate::support::Lab;

/// The time of records without a time.
pub const NOW: &str = "2026-03-01T12:00:00Z";

/// A project with a memory.
pub struct TestMemory {
    pub lab: Lab,
}

impl TestMemory {
    pub fn new() -> Self {
        Self::with("")
    }

    pub fn with(config: &str) -> Self {
        Self {
            lab: Lab::new(config),
        }
    }

    /// Returns a memory that holds these lines.
    pub fn of(lines: &str) -> Self {
        let mind = Self::new();
        mind.record(lines);
        mind
    }

    pub fn memory(&self) -> Memory<'_> {
        self.lab.engine.memory().unwrap()
    }

    /// Records lines of JSON. A record without a time has the time `NOW`.
    pub fn try_record(&self, lines: &str) -> Result<MemoryRecorded, Error> {
        let mut progress = |_, _| {};
        let mut lines = Lines {
            name: "records.jsonl",
            reader: &mut lines.as_bytes(),
            progress: &mut progress,
        };
        self.memory().record_lines(&mut lines, Some(now()))
    }

    pub fn record(&self, lines: &str) -> MemoryRecorded {
        self.try_record(lines).unwrap()
    }

    pub fn try_ask(&self, request: &ContextRequest) -> Result<Arc<Context>, Error> {
        self.ask_as(request, &[])
    }

    pub fn ask_as(&self, request: &ContextRequest, who: &[String]) -> Result<Arc<Context>, Error> {
        let how = Recall {
            now: Some(now()),
            identity: who,
            ..Recall::default()
        };
        Ok(self.memory().recall(request, &how)?.context)
    }

    pub fn ask(&self, request: &ContextRequest) -> Arc<Context> {
        self.try_ask(request).unwrap()
    }

    /// Asks with a budget of 2,000 tokens.
    pub fn recall(&self, query: &str) -> Arc<Context> {
        self.ask(&query_for(query, 2_000))
    }

    /// Returns the ids of what is found.
    pub fn found(&self, query: &str) -> Vec<String> {
        ids(&self.recall(query))
    }

    /// Returns an engine that remembers nothing, over the same store.
    pub fn fresh(&self) -> Engine {
        self.lab.another("")
    }
}

pub fn now() -> Timestamp {
    NOW.parse().unwrap()
}

pub fn query_for(query: &str, max_tokens: u64) -> ContextRequest {
    ContextRequest {
        query: query.to_owned(),
        max_tokens,
        ..ContextRequest::default()
    }
}

pub fn ids(context: &Context) -> Vec<String> {
    let parts = context.components.iter();
    parts.map(|part| part.source.clone()).collect()
}

/// Returns a line with a message of a speaker.
pub fn said(id: &str, session: &str, time: &str, speaker: &str, text: &str) -> String {
    let line = serde_json::json!({
        "kind": "event", "id": id, "session_id": session, "timestamp": time,
        "type": "user_message", "actor": "user",
        "content": {"speaker": speaker, "text": text},
    });
    format!("{line}\n")
}

/// Returns an event with the time `NOW`.
pub fn event(id: &str, text: &str) -> EventRecord {
    let line = said(id, "now", NOW, "Ana", text);
    match serde_json::from_str(&line).unwrap() {
        Record::Event(event) => event,
        _ => unreachable!("an event"),
    }
}

/// Four turns of a conversation, and one of another.
pub fn talk() -> String {
    [
        said(
            "a1",
            "mon",
            "2026-02-02T10:00:00Z",
            "Ana",
            "Where did you go last summer?",
        ),
        said(
            "a2",
            "mon",
            "2026-02-02T10:01:00Z",
            "Ben",
            "We took the night train to Lisbon.",
        ),
        said(
            "a3",
            "mon",
            "2026-02-02T10:02:00Z",
            "Ana",
            "Lovely! Did the children like it?",
        ),
        said(
            "a4",
            "mon",
            "2026-02-02T10:03:00Z",
            "Ben",
            "They slept all the way, and ate custard tarts.",
        ),
        said(
            "b1",
            "tue",
            "2026-02-10T09:00:00Z",
            "Ana",
            "My sister Clara bought a sailing boat.",
        ),
    ]
    .concat()
}
