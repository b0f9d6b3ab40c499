//! Memory: what is to be found again.
//!
//! A [`Record`] is what a user gives and gets back. Beside it a store keeps
//! what it is found by: its [`Derived`] words, vector and mentions, made by the
//! caller. A store does not search: it hands out [changes](Memories::changes) in
//! the order they were made, from which an index in memory is built and kept
//! up to date, and records by key.

mod check;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::StoreError;
use crate::task::TaskRecord;
use crate::time;

/// The longest id, and the longest name of a session, source or task.
pub const MAX_ID_BYTES: usize = 512;

/// Something to remember, as a line of a file holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// Something that happened.
    Event(EventRecord),
    /// A piece of a text.
    Chunk(ChunkRecord),
    /// Somebody or something.
    Entity(EntityRecord),
    /// How two entities stand to each other.
    Relation(RelationRecord),
    /// Something that works.
    Pattern(PatternRecord),
    /// Something to do.
    Task(TaskRecord),
}

/// The kinds of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// Something that happened.
    Event,
    /// A piece of a text.
    Chunk,
    /// Somebody or something.
    Entity,
    /// How two entities stand to each other.
    Relation,
    /// Something that works.
    Pattern,
    /// Something to do.
    Task,
}

impl RecordKind {
    /// All kinds.
    pub const ALL: [RecordKind; 6] = [
        RecordKind::Event,
        RecordKind::Chunk,
        RecordKind::Entity,
        RecordKind::Relation,
        RecordKind::Pattern,
        RecordKind::Task,
    ];

    /// Returns the kind's name.
    pub fn name(self) -> &'static str {
        match self {
            RecordKind::Event => "event",
            RecordKind::Chunk => "chunk",
            RecordKind::Entity => "entity",
            RecordKind::Relation => "relation",
            RecordKind::Pattern => "pattern",
            RecordKind::Task => "task",
        }
    }
}

impl Record {
    /// Returns what kind of record it is.
    pub fn kind(&self) -> RecordKind {
        match self {
            Record::Event(_) => RecordKind::Event,
            Record::Chunk(_) => RecordKind::Chunk,
            Record::Entity(_) => RecordKind::Entity,
            Record::Relation(_) => RecordKind::Relation,
            Record::Pattern(_) => RecordKind::Pattern,
            Record::Task(_) => RecordKind::Task,
        }
    }

    /// Returns its id; empty when it has none yet.
    pub fn id(&self) -> &str {
        match self {
            Record::Event(event) => &event.id,
            Record::Chunk(chunk) => &chunk.id,
            Record::Entity(entity) => &entity.id,
            Record::Relation(relation) => &relation.id,
            Record::Pattern(pattern) => &pattern.id,
            Record::Task(task) => &task.id,
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "an event: an object with `type` and `content`"
)]
pub struct EventRecord {
    /// Names it. Default: a hash over the rest of it.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NameOrEmpty"))]
    pub id: String,
    /// The session it happened in.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub session_id: Option<String>,
    /// When it happened. Default: when it is stored.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub timestamp: Option<Timestamp>,
    /// What kind of event it is, such as `user_message` or `file_write`.
    #[serde(rename = "type", default = "note")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub event_type: String,
    /// Who or what did it.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub actor: Option<String>,
    /// What happened: a text, or an object such as `{"speaker", "text"}`,
    /// `{"path"}` or `{"command", "stdout", "stderr"}`.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NotNull"))]
    pub content: Value,
    /// How it ended.
    #[serde(default)]
    pub outcome: Option<Outcome>,
    /// The event it follows from.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub parent_id: Option<String>,
    /// What it comes to, in short.
    #[serde(default)]
    pub summary: Option<String>,
    /// Words it is to be found by, beside its own.
    #[serde(default)]
    pub keywords: Vec<String>,
    /// The task it belongs to.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub task_id: Option<String>,
    /// Where it was taken from, such as a file.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub source: Option<String>,
    /// From when on it holds. Default: always.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_from: Option<Timestamp>,
    /// Until when it holds. Default: for ever.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_to: Option<Timestamp>,
    /// The event that no longer holds because of this one.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub supersedes: Option<String>,
    /// Who may see it: names of personas or senders. Everybody, when nobody is
    /// named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub visible_to: Vec<String>,
}

fn note() -> String {
    "note".to_owned()
}

/// How an event ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "EventOutcome"))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Well.
    Success,
    /// Badly.
    Failure,
    /// In part.
    Partial,
}

impl Outcome {
    /// Returns the outcome's name.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Success => "success",
            Outcome::Failure => "failure",
            Outcome::Partial => "partial",
        }
    }
}

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a chunk: an object with `source` and `text`"
)]
pub struct ChunkRecord {
    /// Names it. Default: its source and index.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NameOrEmpty"))]
    pub id: String,
    /// What it is a piece of, such as a file or an address.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub source: String,
    /// The text. One that is long is split when it is recorded.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "contexture_core::schema::NotBlank")
    )]
    pub text: String,
    /// Which piece it is.
    #[serde(default)]
    pub index: u32,
    /// When it was written. Default: when it is stored.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub timestamp: Option<Timestamp>,
    /// The session it belongs to.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub session_id: Option<String>,
    /// Its vector, when the caller has one already, of the store's embedder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<Vec<crate::schema::Float>>")
    )]
    pub embedding: Option<Vec<f32>>,
    /// From when on it holds. Default: always.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_from: Option<Timestamp>,
    /// Until when it holds. Default: for ever.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_to: Option<Timestamp>,
    /// The chunk that no longer holds because of this one.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub supersedes: Option<String>,
    /// Who may see it: names of personas or senders. Everybody, when nobody is
    /// named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub visible_to: Vec<String>,
}

/// Somebody or something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "an entity: an object with `type` and `name`"
)]
pub struct EntityRecord {
    /// Names it. Default: its type and name.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NameOrEmpty"))]
    pub id: String,
    /// What it is, such as `person` or `file`.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub entity_type: String,
    /// What it is called.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// What else it is called.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::schema::Name>"))]
    pub aliases: Vec<String>,
    /// What is known of it.
    #[serde(default)]
    pub properties: Map<String, Value>,
    /// How often it was mentioned; what is recorded later is added.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "contexture_core::schema::Number"))]
    pub mentions: u64,
    /// How much it matters, from 0 to 1. Default: follows from the mentions.
    #[serde(default)]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<contexture_core::schema::Fraction>")
    )]
    pub salience: Option<f64>,
    /// How sure it is, from 0 to 1. Default: 1.
    #[serde(default)]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<contexture_core::schema::Fraction>")
    )]
    pub confidence: Option<f64>,
    /// From when on it holds. Default: always.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_from: Option<Timestamp>,
    /// Until when it holds. Default: for ever.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_to: Option<Timestamp>,
    /// The entity that no longer holds because of this one.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub supersedes: Option<String>,
}

/// How two entities stand to each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a relation: an object with `type`, `source_id` and `target_id`"
)]
pub struct RelationRecord {
    /// Names it. Default: its type and ends.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::LongNameOrEmpty"))]
    pub id: String,
    /// How they stand, such as `works_at`.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub relation_type: String,
    /// The entity it begins at: its id, or a name that is known. An entity may
    /// come later than its relations.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub source_id: String,
    /// The entity it leads to. An entity may be related to itself.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub target_id: String,
    /// How strong it is, from 0 to 1. Default: 1.
    #[serde(default)]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<contexture_core::schema::Fraction>")
    )]
    pub weight: Option<f64>,
    /// The events that it is known from.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// When it was learned. Default: when it is stored.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub timestamp: Option<Timestamp>,
    /// From when on it holds. Default: always.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_from: Option<Timestamp>,
    /// Until when it holds. Default: for ever.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_to: Option<Timestamp>,
    /// The relation that no longer holds because of this one.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub supersedes: Option<String>,
}

/// Something that works, and when to think of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a pattern: an object with `name`, `conditions` and `procedure`"
)]
pub struct PatternRecord {
    /// Names it. Default: its name.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NameOrEmpty"))]
    pub id: String,
    /// What it is called.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// When to think of it.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// What to do.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "contexture_core::schema::NotBlank")
    )]
    pub procedure: String,
    /// How often it was tried.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "contexture_core::schema::Number"))]
    pub applications: u64,
    /// How often it worked.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "contexture_core::schema::Number"))]
    pub successes: u64,
    /// How often it did not.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "contexture_core::schema::Number"))]
    pub failures: u64,
    /// Where it holds, such as a session. Default: everywhere.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub scope: Option<String>,
    /// From when on it holds. Default: always.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_from: Option<Timestamp>,
    /// Until when it holds. Default: for ever.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_to: Option<Timestamp>,
    /// The pattern that no longer holds because of this one.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub supersedes: Option<String>,
}

/// One sign that a pattern is to be thought of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a condition: an object with `type` and `value`"
)]
pub struct Condition {
    /// What is looked at.
    #[serde(rename = "type")]
    pub condition_type: ConditionKind,
    /// What it must be.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub value: String,
    /// How much it says. Default: 1.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Weight>"))]
    pub weight: Option<f64>,
}

/// What a condition looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ConditionKind {
    /// A word of the query.
    Keyword,
    /// The type of an entity that the query mentions.
    EntityType,
    /// A type of error that the query mentions.
    ErrorType,
    /// A text that the query holds.
    Custom,
}

/// Names a record inside a store: never used again for another, and the same
/// when the record is recorded anew.
pub type RecordKey = i64;

/// A record, with what it is found by.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRecord {
    /// The record, with its id and times.
    pub record: Record,
    /// What it is found by.
    pub derived: Derived,
}

/// What a record is found by. Made by the caller; to a store these are bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Derived {
    /// The words of an event or a chunk, as an index reads them.
    pub words: Option<Vec<u8>>,
    /// Its vector, likewise; `None` when it could not be had.
    pub vector: Option<Vec<u8>>,
    /// Who says it, normalised, when somebody does.
    pub speaker: Option<String>,
    /// The names of an entity, aliases included, normalised.
    pub names: Vec<String>,
    /// The entities that an event or a chunk mentions, each once.
    pub mentions: Vec<Mention>,
    /// The relations that it tells of, by the places of their ends in
    /// `mentions`.
    pub links: Vec<Link>,
}

/// An entity that a text mentions. The entity of that name, as name or alias,
/// is meant: the one of the same type, else the oldest; when there is none, it
/// is made, with the id `type:key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// What it is.
    pub entity_type: String,
    /// What it is called.
    pub name: String,
    /// The same, normalised.
    pub key: String,
}

/// A relation that a text tells of. When it is known already its weight grows
/// towards 1, by half of what is missing; a new one has the weight 0.5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// How the two stand.
    pub relation_type: String,
    /// The place of one end in the mentions.
    pub from: usize,
    /// The place of the other.
    pub to: usize,
}

/// What the derived parts were made with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Analysis {
    /// The version of the rules for words.
    pub words: u32,
    /// What made the vectors; `None` where none were made.
    pub embedder: Option<EmbedderInfo>,
}

/// Names what made vectors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EmbedderInfo {
    /// The model, exactly.
    pub name: String,
    /// How long its vectors are.
    pub dimensions: u32,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remembered {
    /// It is new.
    Added(RecordKey),
    /// There was one of its id that said something else, which it replaces.
    Replaced(RecordKey),
    /// It was there already.
    Unchanged(RecordKey),
}

impl Remembered {
    /// Returns the record's key; 0 for a task, which has none.
    pub fn key(self) -> RecordKey {
        match self {
            Remembered::Added(key) | Remembered::Replaced(key) | Remembered::Unchanged(key) => key,
        }
    }
}

/// Something that changed, in the order of `seq`. Of several changes to one
/// record only the last is handed out.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Rises with every change.
    pub seq: u64,
    /// Which record.
    pub key: RecordKey,
    /// How it is found now; `None` when it was forgotten or archived.
    pub sketch: Option<Sketch>,
}

/// What an index keeps of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Sketch {
    /// Of an event or a chunk.
    Text(TextSketch),
    /// Of an entity.
    Entity(EntitySketch),
    /// Of a relation.
    Relation(RelationSketch),
    /// Of a pattern.
    Pattern(PatternSketch),
}

/// What an index keeps of an event or a chunk.
#[derive(Debug, Clone, PartialEq)]
pub struct TextSketch {
    /// [`RecordKind::Event`] or [`RecordKind::Chunk`].
    pub kind: RecordKind,
    /// The event's type; of a chunk, `chunk`.
    pub event_type: String,
    /// The session; for a chunk without one, its source.
    pub session: Option<String>,
    /// The task.
    pub task: Option<String>,
    /// Who says it, normalised.
    pub speaker: Option<String>,
    /// When it happened, in Unix milliseconds.
    pub at: i64,
    /// The place of a chunk among those of its source; 0 for an event.
    pub index: u32,
    /// From when on it holds, in Unix milliseconds.
    pub valid_from: Option<i64>,
    /// Until when it holds, in Unix milliseconds.
    pub valid_to: Option<i64>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Its words; `None` when they are not there, and are to be made anew.
    pub words: Option<Vec<u8>>,
    /// Its vector by the embedder in use; `None` when it has none.
    pub vector: Option<Vec<u8>>,
    /// The entities that it mentions.
    pub mentions: Vec<RecordKey>,
}

/// What an index keeps of an entity.
#[derive(Debug, Clone, PartialEq)]
pub struct EntitySketch {
    /// Its id.
    pub id: String,
    /// Its type.
    pub entity_type: String,
    /// Its names, normalised.
    pub names: Vec<String>,
    /// How often it was mentioned, all in all.
    pub mentions: u64,
    /// How much it matters, if that was said.
    pub salience: Option<f64>,
    /// How sure it is.
    pub confidence: f64,
    /// How many texts mention it.
    pub texts: u64,
    /// Whether it was recorded, rather than only read about somewhere.
    pub given: bool,
    /// From when on it holds, in Unix milliseconds.
    pub valid_from: Option<i64>,
    /// Until when it holds, in Unix milliseconds.
    pub valid_to: Option<i64>,
}

/// What an index keeps of a relation.
#[derive(Debug, Clone, PartialEq)]
pub struct RelationSketch {
    /// Its type.
    pub relation_type: String,
    /// The entity it begins at, by id or name.
    pub source_id: String,
    /// The entity it leads to.
    pub target_id: String,
    /// How strong it is.
    pub weight: f64,
    /// The texts that tell of it, when it was not recorded itself; of many, the
    /// latest 32.
    pub derived_from: Vec<RecordKey>,
    /// When it was learned, in Unix milliseconds.
    pub at: i64,
    /// From when on it holds, in Unix milliseconds.
    pub valid_from: Option<i64>,
    /// Until when it holds, in Unix milliseconds.
    pub valid_to: Option<i64>,
}

/// What an index keeps of a pattern: all of it but what is to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct PatternSketch {
    /// When to think of it.
    pub conditions: Vec<Condition>,
    /// How often it was tried.
    pub applications: u64,
    /// How often it worked.
    pub successes: u64,
    /// Where it holds.
    pub scope: Option<String>,
    /// From when on it holds, in Unix milliseconds.
    pub valid_from: Option<i64>,
    /// Until when it holds, in Unix milliseconds.
    pub valid_to: Option<i64>,
}

/// How far a memory is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryState {
    /// The number of its last change; 0 for one that was never used.
    pub seq: u64,
    /// What its words and vectors were made with; `None` before the first text.
    pub analysis: Option<Analysis>,
}

/// What is to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Forget {
    /// Records of that id, of one kind or of any.
    Id {
        /// The kind. Default: any.
        #[serde(default)]
        kind: Option<RecordKind>,
        /// The id.
        id: String,
    },
    /// What was taken from there: chunks and events of a source.
    Source(String),
    /// What happened there: events and chunks of a session.
    Session(String),
}

/// How many records were forgotten, by kind: those that were named, and
/// entities and relations that were known from them alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Forgotten(pub BTreeMap<RecordKind, u64>);

/// What is in a memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryStats {
    /// By kind, tasks included.
    pub kinds: BTreeMap<RecordKind, KindStats>,
    /// How many sessions events name.
    pub sessions: u64,
    /// How many sources chunks and events name.
    pub sources: u64,
    /// Events and chunks that have no vector of the embedder in use.
    pub unembedded: u64,
    /// The bytes of all records.
    pub bytes: u64,
}

/// How many records of a kind there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindStats {
    /// That can be found.
    pub live: u64,
    /// Of those, how many have an end of validity.
    pub ended: u64,
    /// That were put aside.
    pub archived: u64,
}

/// What a store does for memory. A key, an id or a count is never another
/// tenant's.
pub trait Memories: Send + Sync {
    /// Keeps records, all or none, and says what became of each, in the order
    /// given. Tasks among them are kept as [`Tasks`](crate::Tasks) keeps them,
    /// without becoming current.
    ///
    /// A record whose id is known replaces the one that is there, if it says
    /// something else; otherwise nothing changes. One that
    /// [supersedes](EventRecord::supersedes) another of its kind ends the
    /// validity of that one at its own `valid_from`, else its time, else `now`.
    /// Mentions and links make or strengthen entities and relations.
    ///
    /// A record that was only ever derived is taken over by one that is
    /// recorded: of the same id, or for an entity of the same type and one of
    /// its names, for a relation of the same type between the same entities.
    /// It keeps its key. A time that a record does not say is `now`, and stays
    /// so when the same is recorded again. Words or a vector that were missing
    /// are filled in.
    ///
    /// Fails when a record [makes no sense](Record::check), with its place
    /// among those given (`records[3].id`); when one supersedes what is not
    /// there; when a task's parent is missing or follows from it; and when
    /// there are texts and `analysis` is not the one in use. A memory that has
    /// no text yet takes it as its own; one without an embedder takes the
    /// first; who has no embedder gives texts without vectors.
    fn remember(
        &self,
        records: &[NewRecord],
        analysis: &Analysis,
        now: Timestamp,
    ) -> Result<Vec<Remembered>, StoreError>;

    /// Returns how far the memory is. Cheap: asked before every recall.
    fn memory_state(&self) -> Result<MemoryState, StoreError>;

    /// Returns at most `limit` changes behind `after`, in the order they were
    /// made.
    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError>;

    /// Returns records, in the order asked for; `None` for what is not there.
    /// Entities have the mentions that were added up.
    fn records(&self, keys: &[RecordKey]) -> Result<Vec<Option<Record>>, StoreError>;

    /// Returns the keys of the records with those ids, of any kind, in no
    /// particular order, archived ones included. Tasks have none.
    fn record_keys(&self, ids: &[&str]) -> Result<Vec<(RecordKind, RecordKey)>, StoreError>;

    /// Takes records out of sight without forgetting them. Recording one anew
    /// brings it back. The mentions of a text that is out of sight do not
    /// count, and what is only derived from such texts is out of sight too.
    /// Keys that are gone are passed over.
    fn archive(&self, keys: &[RecordKey]) -> Result<(), StoreError>;

    /// Forgets records and all that was derived from them: nothing of them is
    /// left in the store's files. Mentions go with the texts they are in;
    /// entities and relations that were only ever derived, from those texts
    /// alone, go too, as do derived relations of an entity that goes. Records
    /// that name one by its id, as parent, evidence or what they supersede, do
    /// so no longer.
    ///
    /// Fails when there is nothing of that id, source or session, and for a
    /// task that has parts or is the current one.
    fn forget(&self, what: &Forget) -> Result<Forgotten, StoreError>;

    /// Keeps words that were made anew, by the rules of version `rules`, which
    /// becomes the version in use. When it was another before, all other texts
    /// have no words from then on, and are changes.
    fn put_words(&self, rules: u32, words: &[(RecordKey, Vec<u8>)]) -> Result<(), StoreError>;

    /// Keeps vectors of an embedder, beside those of the one in use if that is
    /// another. Keys that are gone are passed over.
    fn put_vectors(
        &self,
        embedder: &EmbedderInfo,
        vectors: &[(RecordKey, Vec<u8>)],
    ) -> Result<(), StoreError>;

    /// Returns at most `limit` keys behind `after`, in order, of events and
    /// chunks that have no vector of that embedder, archived ones left out.
    fn unembedded(
        &self,
        embedder: &EmbedderInfo,
        after: RecordKey,
        limit: usize,
    ) -> Result<Vec<RecordKey>, StoreError>;

    /// Puts an embedder in use, and drops the vectors of all others. Every text
    /// is a change then.
    fn use_embedder(&self, embedder: &EmbedderInfo) -> Result<(), StoreError>;

    /// Returns what is in the memory.
    fn memory_stats(&self) -> Result<MemoryStats, StoreError>;
}
