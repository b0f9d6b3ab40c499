//! The two texts of a record: the one that is searched, and the line in a
//! prompt.

use std::fmt::Write;

use contexture_core::ContentHash;
use contexture_recall::{Words, analyse, query_keywords};
use contexture_store::{
    ChunkRecord, EntityRecord, EventRecord, Outcome, PatternRecord, Record, RelationRecord,
};
use serde_json::{Map, Value};

use crate::context::Channel;

/// The fields that hold what somebody says, best first.
const SAID: [&str; 4] = ["text", "message", "content", "body"];

/// The fields that name who says it, best first.
const SPEAKERS: [&str; 4] = ["speaker", "author", "sender", "name"];

/// The headings of the sections.
const HEADINGS: [&str; 6] = [
    Channel::Recent.heading(),
    Channel::Semantic.heading(),
    Channel::Entity.heading(),
    Channel::Relation.heading(),
    Channel::Pattern.heading(),
    Channel::Custom.heading(),
];

/// Returns the text that an event or a chunk is found by.
pub(crate) fn searchable(record: &Record) -> Option<String> {
    match record {
        Record::Event(event) => Some(searchable_event(event)),
        Record::Chunk(chunk) => Some(chunk.text.clone()),
        _ => None,
    }
}

fn searchable_event(event: &EventRecord) -> String {
    let mut text = match &event.content {
        Value::String(text) => text.clone(),
        Value::Object(fields) => match said(fields) {
            Some(said) => said.to_owned(),
            None => strings(&event.content),
        },
        other => strings(other),
    };
    if let Some(summary) = &event.summary {
        text.push('\n');
        text.push_str(summary);
    }
    // So that it is found when somebody asks what failed.
    match event.outcome {
        Some(Outcome::Success) => text.push_str("\nsuccess succeeded"),
        Some(Outcome::Failure) => text.push_str("\nfailure failed"),
        Some(Outcome::Partial) | None => {}
    }
    if !event.keywords.is_empty() {
        // What the text says already would count twice.
        let said = analyse(&text);
        let new = |word: &&String| query_keywords(word).iter().any(|w| said.count(w.id) == 0);
        for word in event.keywords.iter().filter(new) {
            text.push('\n');
            text.push_str(word);
        }
    }
    text
}

/// Returns the words of a text as they are kept, with who may see it.
pub(crate) fn pack(words: &Words, record: &Record) -> Vec<u8> {
    let audience: Vec<u64> = audience(record).iter().map(|who| person(who)).collect();
    let mut bytes = (audience.len() as u16).to_le_bytes().to_vec();
    bytes.extend(
        audience
            .iter()
            .take(u16::MAX.into())
            .flat_map(|who| who.to_le_bytes()),
    );
    bytes.extend(words.to_bytes());
    bytes
}

/// Reads what [`pack`] wrote.
pub(crate) fn unpack(bytes: &[u8]) -> Option<(Words, Box<[u64]>)> {
    let (count, rest) = bytes.split_first_chunk::<2>()?;
    let count = usize::from(u16::from_le_bytes(*count));
    let (audience, words) = rest.split_at_checked(count * 8)?;
    let (audience, _) = audience.as_chunks::<8>();
    let audience = audience.iter().map(|who| u64::from_le_bytes(*who));
    Some((Words::from_bytes(words)?, audience.collect()))
}

/// Returns a number for a name in an audience.
pub(crate) fn person(name: &str) -> u64 {
    let hash = ContentHash::of(name.as_bytes());
    let first = hash.as_bytes().first_chunk().copied();
    u64::from_le_bytes(first.unwrap_or_default())
}

/// Returns who may see a record; everybody, when nobody is named.
fn audience(record: &Record) -> &[String] {
    match record {
        Record::Event(event) => &event.visible_to,
        Record::Chunk(chunk) => &chunk.visible_to,
        _ => &[],
    }
}

/// Returns true when only some may see it.
pub(crate) fn is_private(record: &Record) -> bool {
    !audience(record).is_empty()
}

/// Returns who says what is in an event or chunk.
pub(crate) fn speaker(record: &Record) -> Option<&str> {
    let Record::Event(event) = record else {
        return None;
    };
    let fields = event.content.as_object()?;
    said(fields)?;
    first(fields, &SPEAKERS)
}

fn said(fields: &Map<String, Value>) -> Option<&str> {
    first(fields, &SAID)
}

fn first<'a>(fields: &'a Map<String, Value>, names: &[&str]) -> Option<&'a str> {
    let mut values = names.iter().filter_map(|name| fields.get(*name)?.as_str());
    values.find(|value| !value.trim().is_empty())
}

/// Returns all strings in a value, one a line.
fn strings(value: &Value) -> String {
    fn gather(value: &Value, text: &mut String) {
        match value {
            Value::String(string) => {
                text.push_str(string);
                text.push('\n');
            }
            Value::Array(values) => values.iter().for_each(|value| gather(value, text)),
            Value::Object(fields) => fields.values().for_each(|value| gather(value, text)),
            Value::Number(number) => {
                let _ = writeln!(text, "{number}");
            }
            Value::Bool(_) | Value::Null => {}
        }
    }
    let mut text = String::new();
    gather(value, &mut text);
    text
}

/// Returns how an event reads, without its time: what stands before, which is
/// kept when the rest is shortened, and the rest.
pub(crate) fn event(event: &EventRecord) -> (String, String) {
    let outcome = match event.outcome {
        Some(outcome) => format!(" [{}]", outcome.name()),
        None => String::new(),
    };
    let empty = Map::new();
    let fields = event.content.as_object().unwrap_or(&empty);
    let field = |name: &str| {
        let text = fields.get(name).and_then(Value::as_str);
        text.filter(|text| !text.trim().is_empty())
    };
    let more = |names: &[&str]| {
        let parts = names.iter().filter_map(|name| field(name));
        parts.map(str::trim_end).collect::<Vec<_>>().join("\n")
    };
    let with = |head: String, rest: String| match rest.is_empty() {
        true => (head, rest),
        false => (format!("{head}\n"), rest),
    };
    match (event.event_type.as_str(), field("path"), field("command")) {
        ("file_read", Some(path), _) => {
            return with(format!("Read: {path}{outcome}"), more(&["text", "diff"]));
        }
        ("file_write", Some(path), _) => {
            return with(format!("Wrote: {path}{outcome}"), more(&["text", "diff"]));
        }
        ("shell_exec", _, Some(command)) => {
            // What went wrong is told before what went well.
            let output = match event.outcome {
                Some(Outcome::Failure) => more(&["stderr", "stdout"]),
                _ => more(&["stdout", "stderr"]),
            };
            return with(format!("Executed: `{command}`{outcome}"), output);
        }
        _ => {}
    }
    if let (true, Some(message)) = (event.event_type == "error", field("message")) {
        return with(format!("Error: {message}{outcome}"), more(&["stack"]));
    }
    let text = match &event.content {
        Value::String(text) => Some(text.as_str()),
        _ => said(fields),
    };
    let who = first(fields, &SPEAKERS).or(event.actor.as_deref());
    let who = who.unwrap_or(&event.event_type);
    match text {
        Some(text) => (format!("{who}: "), format!("{}{outcome}", text.trim())),
        None => {
            let head = format!("{}: ", event.event_type);
            (head, format!("{}{outcome}", event.content))
        }
    }
}

/// Returns the lines of an event with all but the first indented, so that none
/// can be taken for a heading or for somebody else's.
pub(crate) fn indented(text: &str) -> String {
    text.replace('\n', "\n  ")
}

/// Returns the lines of a chunk with those escaped that look like headings of
/// ours.
pub(crate) fn escaped(text: &str) -> String {
    let is_heading = |line: &str| {
        let section = line.strip_prefix("## ").map(str::trim);
        let section = section.is_some_and(|title| HEADINGS.contains(&title));
        section || (line.starts_with('[') && line.trim_end().ends_with(']'))
    };
    if !text.lines().any(is_heading) {
        return text.to_owned();
    }
    let lines = text.split('\n').map(|line| match is_heading(line) {
        true => format!("\\{line}"),
        false => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns how a chunk reads.
pub(crate) fn chunk(chunk: &ChunkRecord) -> String {
    chunk.text.trim_matches(['\n', '\r']).trim_end().to_owned()
}

/// Returns how an entity reads.
pub(crate) fn entity(entity: &EntityRecord) -> String {
    let mut known: Vec<String> = Vec::new();
    if !entity.aliases.is_empty() {
        known.push(format!("also {}", entity.aliases.join(", ")));
    }
    for (name, value) in &entity.properties {
        match value {
            Value::String(text) => known.push(format!("{name}: {text}")),
            other => known.push(format!("{name}: {other}")),
        }
    }
    let known = match known.is_empty() {
        true => String::new(),
        false => format!(" ({})", known.join(", ")),
    };
    format!("**{}**: {}{known}", entity.entity_type, entity.name)
}

/// Returns how a relation reads; its ends by name, not id.
pub(crate) fn relation(relation: &RelationRecord, from: &str, to: &str) -> String {
    format!("{from} --[{}]--> {to}", relation.relation_type)
}

/// Returns how a pattern reads.
pub(crate) fn pattern(pattern: &PatternRecord) -> String {
    let worked = match pattern.applications {
        0 => "not tried yet".to_owned(),
        n => format!("worked {} of {n} times", pattern.successes),
    };
    format!(
        "**{}** ({worked}): {}",
        pattern.name,
        pattern.procedure.trim()
    )
}
