//! The two texts of a record: the one that is searched, and the line in a
//! prompt.

use std::fmt::Write;

use contexture_core::ContentHash;
use contexture_recall::{is_standing_instruction, template_print};
use contexture_store::{
    ChunkRecord, EntityRecord, EventRecord, Outcome, PatternRecord, Record, RelationRecord,
};
use contexture_time::{Clock, Interval, mentioned_times};
use contexture_words::{Words, analyse, query_keywords};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::context::Channel;

/// The fields that contain a message, best first.
const MESSAGE_FIELDS: [&str; 4] = ["text", "message", "content", "body"];

/// The fields that contain the speaker, best first.
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

/// Returns the text of an event or a chunk that is indexed.
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
    // The outcome is added, so that a query for failures finds the event.
    match event.outcome {
        Some(Outcome::Success) => text.push_str("\nsuccess succeeded"),
        Some(Outcome::Failure) => text.push_str("\nfailure failed"),
        Some(Outcome::Partial) | None => {}
    }
    if !event.keywords.is_empty() {
        // Words that the text already has would count twice.
        let said = analyse(&text);
        let new = |word: &&String| query_keywords(word).iter().any(|w| said.count(w.id) == 0);
        for word in event.keywords.iter().filter(new) {
            text.push('\n');
            text.push_str(word);
        }
    }
    text
}

/// The marker of the form that [`Packed::to_bytes`] writes. Older forms begin
/// with the length of an audience, which is never that large.
const PACKED: [u8; 3] = [0xff, 0xff, 1];

/// The maximum number of names in an audience.
const MOST_AUDIENCE: usize = 0xfff0;

/// The search data of a text, as it is stored.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Packed {
    /// The words of the text.
    pub(crate) words: Words,
    /// The hashes of the names that may see the text. Empty: everyone.
    pub(crate) audience: Box<[u64]>,
    /// True if the text is a standing instruction.
    pub(crate) instructs: bool,
    /// The times that the text mentions, other than its own.
    pub(crate) told: Box<[Interval]>,
    /// A hash that is equal for texts that differ only in numbers and ids.
    pub(crate) template: u64,
    /// The hashes of the user, the agent and the source, by [`person`]; 0 for
    /// none.
    pub(crate) owner: [u64; 3],
}

impl Packed {
    /// Returns the search data of a record with this text. An event without a
    /// time has the time `now`.
    pub(crate) fn of(text: &str, record: &Record, now: Option<Timestamp>) -> Self {
        // A document rarely describes the day on which it is recorded.
        let said = match record {
            Record::Event(event) => event.timestamp.or(now),
            _ => None,
        };
        let owner = record.scope();
        let told = mentioned_times(text, &Clock::new(said, TimeZone::UTC));
        let audience = audience(record).iter().take(MOST_AUDIENCE);
        let mut words = analyse(text);
        let mut template = template_print(text);
        // Equal texts of two actors are two texts. A speaker is stored by
        // itself.
        if let Record::Event(event) = record
            && let Some(actor) = event.actor.as_deref()
            && speaker(record).is_none()
        {
            words.print ^= person(actor);
            template ^= person(actor);
        }
        Self {
            words,
            audience: audience.map(|who| person(who)).collect(),
            instructs: is_by_user(record) && is_standing_instruction(text),
            told: told.into(),
            template,
            owner: [owner.user, owner.agent, owner.source].map(|name| name_number(name.as_deref())),
        }
    }

    /// Returns the search data as bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = PACKED.to_vec();
        bytes.push(u8::from(self.instructs));
        bytes.extend(self.template.to_le_bytes());
        bytes.extend(self.owner.iter().flat_map(|name| name.to_le_bytes()));
        bytes.push(self.told.len() as u8);
        for Interval { from, to } in &self.told {
            bytes.extend(from.to_le_bytes());
            bytes.extend(to.to_le_bytes());
        }
        bytes.extend((self.audience.len() as u16).to_le_bytes());
        bytes.extend(self.audience.iter().flat_map(|who| who.to_le_bytes()));
        bytes.extend(self.words.to_bytes());
        bytes
    }

    /// Reads what [`Packed::to_bytes`] wrote. Returns `None` for an older form
    /// and for damaged bytes: the search data is then derived again.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&PACKED)?;
        let (&instructs, rest) = rest.split_first()?;
        let (template, rest) = rest.split_first_chunk::<8>()?;
        let (owner, rest) = rest.split_at_checked(24)?;
        let (owner, _) = owner.as_chunks::<8>();
        let owner = [owner[0], owner[1], owner[2]].map(u64::from_le_bytes);
        let (&told, rest) = rest.split_first()?;
        let (told, rest) = rest.split_at_checked(usize::from(told) * 16)?;
        let (told, _) = told.as_chunks::<8>();
        let (told, _) = told.as_chunks::<2>();
        let told = told.iter().map(|both| {
            let [from, to] = both.map(i64::from_le_bytes);
            Interval { from, to }
        });
        let (count, rest) = rest.split_first_chunk::<2>()?;
        let count = usize::from(u16::from_le_bytes(*count));
        let (audience, words) = rest.split_at_checked(count * 8)?;
        let (audience, _) = audience.as_chunks::<8>();
        let audience = audience.iter().map(|who| u64::from_le_bytes(*who));
        Some(Self {
            words: Words::from_bytes(words)?,
            audience: audience.collect(),
            instructs: instructs != 0,
            told: told.collect(),
            template: u64::from_le_bytes(*template),
            owner,
        })
    }
}

/// Returns true unless a program wrote the record: only users give
/// instructions.
fn is_by_user(record: &Record) -> bool {
    let Record::Event(event) = record else {
        return false;
    };
    let programs = ["assistant", "model", "system", "tool", "agent"];
    let is_program = |who: &str| programs.contains(&who.to_lowercase().as_str());
    let speaker = speaker(record).or(event.actor.as_deref());
    !speaker.is_some_and(is_program)
        && !event.actor.as_deref().is_some_and(is_program)
        && !event.event_type.starts_with("assistant")
}

/// Returns a hash of a name in an audience.
pub(crate) fn person(name: &str) -> u64 {
    let hash = ContentHash::of(name.as_bytes());
    let first = hash.as_bytes().first_chunk().copied();
    u64::from_le_bytes(first.unwrap_or_default())
}

/// Returns a hash of a user, agent or source; 0 for none.
pub(crate) fn name_number(name: Option<&str>) -> u64 {
    name.map_or(0, |name| person(name).max(1))
}

/// Returns the names that may see a record. Empty: everyone.
fn audience(record: &Record) -> &[String] {
    match record {
        Record::Event(event) => &event.visible_to,
        Record::Chunk(chunk) => &chunk.visible_to,
        _ => &[],
    }
}

/// Returns true when only some identities may see the record.
pub(crate) fn is_private(record: &Record) -> bool {
    !audience(record).is_empty()
}

/// Returns the speaker of an event or a chunk.
pub(crate) fn speaker(record: &Record) -> Option<&str> {
    let Record::Event(event) = record else {
        return None;
    };
    let fields = event.content.as_object()?;
    said(fields)?;
    first(fields, &SPEAKERS)
}

fn said(fields: &Map<String, Value>) -> Option<&str> {
    first(fields, &MESSAGE_FIELDS)
}

fn first<'a>(fields: &'a Map<String, Value>, names: &[&str]) -> Option<&'a str> {
    let mut values = names.iter().filter_map(|name| fields.get(*name)?.as_str());
    values.find(|value| !value.trim().is_empty())
}

/// Returns true when an event has no text: neither in its content nor as a
/// summary. A speaker who said nothing is not a text.
pub(crate) fn is_empty(event: &EventRecord) -> bool {
    fn has_text(value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Bool(_) | Value::Number(_) => true,
            Value::String(text) => !text.trim().is_empty(),
            Value::Array(values) => values.iter().any(has_text),
            Value::Object(fields) => fields.values().any(has_text),
        }
    }
    let has_summary = event
        .summary
        .as_ref()
        .is_some_and(|text| !text.trim().is_empty());
    let has_content = match &event.content {
        Value::Object(fields) => {
            let is_message = MESSAGE_FIELDS.iter().any(|name| fields.contains_key(*name));
            fields.iter().any(|(name, value)| {
                let is_speaker = SPEAKERS.contains(&name.as_str());
                has_text(value) && !(is_message && is_speaker)
            })
        }
        content => has_text(content),
    };
    !has_content && !has_summary
}

/// Returns all strings in a value, one per line.
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

/// Returns the line of an event without its time: a prefix that is kept when
/// the rest is shortened, and the rest.
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
            // Errors come before other output.
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

/// Returns the lines of an event, all but the first indented. An indented line
/// cannot be mistaken for a heading or for another speaker's line.
pub(crate) fn indented(text: &str) -> String {
    text.replace('\n', "\n  ")
}

/// Returns the lines of a chunk. Lines that look like our headings are escaped.
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

/// Returns the text of a chunk in a prompt.
pub(crate) fn chunk(chunk: &ChunkRecord) -> String {
    chunk.text.trim_matches(['\n', '\r']).trim_end().to_owned()
}

/// Returns the line of an entity in a prompt.
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

/// Returns the line of a relation in a prompt, with names instead of ids. A
/// derived relation has its date.
pub(crate) fn relation(relation: &RelationRecord, from: &str, to: &str, zone: &TimeZone) -> String {
    let date = relation.timestamp.filter(|_| !relation.evidence.is_empty());
    let date = date.map_or_else(String::new, |at| format!(" ({})", day(at, zone)));
    format!("{from} --[{}]--> {to}{date}", relation.relation_type)
}

/// Returns the day of a time.
pub(crate) fn day(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%Y-%m-%d").to_string()
}

/// Returns a time in seconds: in UTC as `2026-02-02T10:00:00Z`, in another zone
/// with its offset.
pub(crate) fn second(at: Timestamp, zone: &TimeZone) -> String {
    match zone == &TimeZone::UTC {
        true => format!("{at:.0}"),
        false => {
            let zoned = at.to_zoned(zone.clone());
            zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
        }
    }
}

/// Returns the line of a pattern in a prompt.
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
