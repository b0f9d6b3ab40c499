//! Memory records: events, chunks, entities, relations, patterns and tasks.
//!
//! A user stores and reads [`Record`]s. Next to each record a store saves its
//! search data ([`Derived`]: words, vector, mentions), which the caller creates.
//! A store does not search: it returns [changes](Memories::changes) in order,
//! from which an index in memory is built and updated, and records by key.

mod check;

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::StoreError;
use crate::task::TaskRecord;
use crate::time;

/// The maximum length of an id, and of the name of a session, source or task,
/// in bytes.
pub const MAX_ID_BYTES: usize = 512;

/// A memory record, and the form of a record in an import file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// An event, such as a message or a command.
    Event(EventRecord),
    /// A part of a text, such as a section of a file.
    Chunk(ChunkRecord),
    /// A person, thing or concept.
    Entity(EntityRecord),
    /// A relation between two entities.
    Relation(RelationRecord),
    /// A procedure that worked before.
    Pattern(PatternRecord),
    /// A task of a task stack.
    Task(TaskRecord),
}

/// The kinds of memory records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// An event, such as a message or a command.
    Event,
    /// A part of a text, such as a section of a file.
    Chunk,
    /// A person, thing or concept.
    Entity,
    /// A relation between two entities.
    Relation,
    /// A procedure that worked before.
    Pattern,
    /// A task of a task stack.
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
    /// Returns the kind of the record.
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

    /// Returns the id of the record. Empty if it has none yet.
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

    /// Returns the scope of the record. A task has none: its stack has.
    pub fn scope(&self) -> RecordScope {
        let (user, agent, session, task, source) = match self {
            Record::Event(it) => (
                &it.user,
                &it.agent,
                &it.session_id,
                &it.task_id,
                it.source.clone(),
            ),
            Record::Chunk(it) => (
                &it.user,
                &it.agent,
                &it.session_id,
                &it.task_id,
                Some(it.source.clone()),
            ),
            Record::Entity(it) => (
                &it.user,
                &it.agent,
                &it.session_id,
                &it.task_id,
                it.source.clone(),
            ),
            Record::Relation(it) => (
                &it.user,
                &it.agent,
                &it.session_id,
                &it.task_id,
                it.source.clone(),
            ),
            Record::Pattern(it) => (
                &it.user,
                &it.agent,
                &it.session_id,
                &it.task_id,
                it.source.clone(),
            ),
            Record::Task(_) => return RecordScope::default(),
        };
        RecordScope {
            user: user.clone(),
            agent: agent.clone(),
            session: session.clone(),
            task: task.clone(),
            source,
        }
    }
}

/// The scope of a record. A field that is `None` sets no restriction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordScope {
    /// The user.
    pub user: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// The session.
    pub session: Option<String>,
    /// The id of the task.
    pub task: Option<String>,
    /// The origin, such as a file.
    pub source: Option<String>,
}

/// An event: something that happened at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "an event: an object with `type` and `content`"
)]
pub struct EventRecord {
    /// The record's id. Default: a hash of the other fields.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NameOrEmpty"))]
    pub id: String,
    /// The session in which the event happened.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub session_id: Option<String>,
    /// The time of the event: RFC 3339 or Unix milliseconds. Default: the time
    /// when it is stored.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub timestamp: Option<Timestamp>,
    /// The type of event, such as `user_message` or `file_write`. Default:
    /// `note`.
    #[serde(rename = "type", default = "note")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub event_type: String,
    /// The person or program that caused the event.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub actor: Option<String>,
    /// The content: a text, or an object such as `{"speaker", "text"}`,
    /// `{"path"}` or `{"command", "stdout", "stderr"}`.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NotNull"))]
    pub content: Value,
    /// The outcome of the event. Default: none.
    #[serde(default)]
    pub outcome: Option<Outcome>,
    /// The id of the event that caused this one.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub parent_id: Option<String>,
    /// A short form of the content. It is shown when the whole content does not
    /// fit.
    #[serde(default)]
    pub summary: Option<String>,
    /// Additional search terms.
    #[serde(default)]
    pub keywords: Vec<String>,
    /// The id of the task that the event belongs to.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub task_id: Option<String>,
    /// The origin of the event, such as a file.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub source: Option<String>,
    /// The start of validity: RFC 3339 or Unix milliseconds. Default:
    /// unlimited.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_from: Option<Timestamp>,
    /// The end of validity: RFC 3339 or Unix milliseconds. Default: unlimited.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_to: Option<Timestamp>,
    /// The id of the event that this one replaces. Recall no longer returns the
    /// replaced event.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub supersedes: Option<String>,
    /// The personas or senders that can see the event. Default: everyone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub visible_to: Vec<String>,
    /// The user that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub user: Option<String>,
    /// The agent that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub agent: Option<String>,
}

fn note() -> String {
    "note".to_owned()
}

/// The outcome of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "EventOutcome"))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The event succeeded.
    Success,
    /// The event failed.
    Failure,
    /// The event succeeded in part.
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

/// A chunk: a part of a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a chunk: an object with `source` and `text`"
)]
pub struct ChunkRecord {
    /// The record's id. Default: made from the source and the index.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NameOrEmpty"))]
    pub id: String,
    /// The origin of the text, such as a file path or a URL.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub source: String,
    /// The text of the chunk. A long text is split when it is recorded.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "contexture_core::schema::NotBlank")
    )]
    pub text: String,
    /// The position of the chunk in its source, from 0. Default: 0.
    #[serde(default)]
    pub index: u32,
    /// The time when the text was written: RFC 3339 or Unix milliseconds.
    /// Default: the time when it is stored.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub timestamp: Option<Timestamp>,
    /// The session that the chunk belongs to.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub session_id: Option<String>,
    /// The chunk's embedding vector, made by the configured embedder. Default:
    /// the embedder is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<Vec<crate::schema::Float>>")
    )]
    pub embedding: Option<Vec<f32>>,
    /// The start of validity: RFC 3339 or Unix milliseconds. Default:
    /// unlimited.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_from: Option<Timestamp>,
    /// The end of validity: RFC 3339 or Unix milliseconds. Default: unlimited.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_to: Option<Timestamp>,
    /// The id of the chunk that this one replaces. Recall no longer returns the
    /// replaced chunk.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub supersedes: Option<String>,
    /// The personas or senders that can see the chunk. Default: everyone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub visible_to: Vec<String>,
    /// The user that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub user: Option<String>,
    /// The agent that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub agent: Option<String>,
    /// The id of the task that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub task_id: Option<String>,
}

/// An entity: a person, thing or concept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "an entity: an object with `type` and `name`"
)]
pub struct EntityRecord {
    /// The record's id. Default: made from the type and the name.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NameOrEmpty"))]
    pub id: String,
    /// The type of entity, such as `person` or `file`.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub entity_type: String,
    /// The name of the entity.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// Other names of the entity.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::schema::Name>"))]
    pub aliases: Vec<String>,
    /// Properties of the entity, with any names.
    #[serde(default)]
    pub properties: Map<String, Value>,
    /// The number of times the entity was mentioned. Mentions in texts recorded
    /// later are added. Default: 0.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "contexture_core::schema::Number"))]
    pub mentions: u64,
    /// The importance of the entity, from 0 to 1. Default: derived from the
    /// mentions.
    #[serde(default)]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<contexture_core::schema::Fraction>")
    )]
    pub salience: Option<f64>,
    /// The certainty that the entity exists, from 0 to 1. Default: 1.
    #[serde(default)]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<contexture_core::schema::Fraction>")
    )]
    pub confidence: Option<f64>,
    /// The start of validity: RFC 3339 or Unix milliseconds. Default:
    /// unlimited.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_from: Option<Timestamp>,
    /// The end of validity: RFC 3339 or Unix milliseconds. Default: unlimited.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_to: Option<Timestamp>,
    /// The id of the entity that this one replaces. Recall no longer returns
    /// the replaced entity.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub supersedes: Option<String>,
    /// The user that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub user: Option<String>,
    /// The agent that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub agent: Option<String>,
    /// The session that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub session_id: Option<String>,
    /// The id of the task that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub task_id: Option<String>,
    /// The origin of the record, such as a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub source: Option<String>,
}

/// A relation between two entities.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a relation: an object with `type`, `source_id` and `target_id`"
)]
pub struct RelationRecord {
    /// The record's id. Default: made from the type and both entities.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::LongNameOrEmpty"))]
    pub id: String,
    /// The type of relation, such as `works_at`.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub relation_type: String,
    /// The first entity: an id or a known name. The entity can be recorded
    /// after the relation.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub source_id: String,
    /// The second entity: an id or a known name. It can be the same as the
    /// first.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub target_id: String,
    /// The strength of the relation, from 0 to 1. Default: 1.
    #[serde(default)]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<contexture_core::schema::Fraction>")
    )]
    pub weight: Option<f64>,
    /// The ids of the events that support the relation.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// The time when the relation was learned: RFC 3339 or Unix milliseconds.
    /// Default: the time when it is stored.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub timestamp: Option<Timestamp>,
    /// The start of validity: RFC 3339 or Unix milliseconds. Default:
    /// unlimited.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_from: Option<Timestamp>,
    /// The end of validity: RFC 3339 or Unix milliseconds. Default: unlimited.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_to: Option<Timestamp>,
    /// The id of the relation that this one replaces. Recall no longer returns
    /// the replaced relation.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub supersedes: Option<String>,
    /// The user that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub user: Option<String>,
    /// The agent that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub agent: Option<String>,
    /// The session that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub session_id: Option<String>,
    /// The id of the task that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub task_id: Option<String>,
    /// The origin of the record, such as a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub source: Option<String>,
}

/// A pattern: a procedure that worked before, with the conditions for using it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a pattern: an object with `name`, `conditions` and `procedure`"
)]
pub struct PatternRecord {
    /// The record's id. Default: the name.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NameOrEmpty"))]
    pub id: String,
    /// The name of the pattern.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// The conditions under which recall returns the pattern.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// The steps to take.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "contexture_core::schema::NotBlank")
    )]
    pub procedure: String,
    /// The number of times the procedure was applied. Default: 0.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "contexture_core::schema::Number"))]
    pub applications: u64,
    /// The number of times the procedure worked. Default: 0.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "contexture_core::schema::Number"))]
    pub successes: u64,
    /// The number of times the procedure failed. Default: 0.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "contexture_core::schema::Number"))]
    pub failures: u64,
    /// The scope of the pattern, such as a session. Default: everywhere.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub scope: Option<String>,
    /// The start of validity: RFC 3339 or Unix milliseconds. Default:
    /// unlimited.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_from: Option<Timestamp>,
    /// The end of validity: RFC 3339 or Unix milliseconds. Default: unlimited.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_to: Option<Timestamp>,
    /// The id of the pattern that this one replaces. Recall no longer returns
    /// the replaced pattern.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub supersedes: Option<String>,
    /// The user that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub user: Option<String>,
    /// The agent that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub agent: Option<String>,
    /// The session that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub session_id: Option<String>,
    /// The id of the task that the record belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub task_id: Option<String>,
    /// The origin of the record, such as a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub source: Option<String>,
}

/// A condition of a pattern.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a condition: an object with `type` and `value`"
)]
pub struct Condition {
    /// The part of the query that is compared.
    #[serde(rename = "type")]
    pub condition_type: ConditionKind,
    /// The value that the query must contain.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub value: String,
    /// The weight of the condition, 0 or more. Default: 1.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Weight>"))]
    pub weight: Option<f64>,
}

/// The part of a query that a condition compares.
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
    /// A text that occurs in the query.
    Custom,
}

/// Identifies a record inside a store. A key is never reused, and a record
/// keeps its key when it is recorded again.
pub type RecordKey = i64;

/// A record and the data that an index needs to find it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRecord {
    /// The record, with its id and times.
    pub record: Record,
    /// The search data of the record.
    pub derived: Derived,
}

/// The search data of a record. The caller creates it; a store saves the bytes
/// without reading them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Derived {
    /// The terms of an event or a chunk, encoded for the index.
    pub words: Option<Vec<u8>>,
    /// The embedding vector of an event or a chunk, encoded for the index.
    /// `None` if the embedder failed.
    pub vector: Option<Vec<u8>>,
    /// The normalised name of the speaker, if there is one.
    pub speaker: Option<String>,
    /// The normalised names of an entity, including aliases.
    pub names: Vec<String>,
    /// The entities that an event or a chunk mentions, each once.
    pub mentions: Vec<Mention>,
    /// The relations that an event or a chunk mentions. Their ends are indices
    /// into `mentions`.
    pub links: Vec<Link>,
}

/// A mention of an entity in a text.
///
/// The store resolves the mention by name or alias: an entity of the same type
/// first, otherwise the oldest entity. If no entity has that name, the store
/// creates one with the id `type:key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// The type of entity.
    pub entity_type: String,
    /// The name of the entity.
    pub name: String,
    /// The normalised name.
    pub key: String,
}

/// A relation that a text mentions.
///
/// A new relation has the weight 0.5. Each further mention halves the distance
/// of the weight to 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The type of relation.
    pub relation_type: String,
    /// The index of the first entity in the mentions.
    pub from: usize,
    /// The index of the second entity in the mentions.
    pub to: usize,
}

/// The versions of the analysers that created the search data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Analysis {
    /// The version of the rules for terms.
    pub words: u32,
    /// The embedder that created the vectors. `None` if there are no vectors.
    pub embedder: Option<EmbedderInfo>,
}

/// The embedder that created the vectors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EmbedderInfo {
    /// The exact name of the model.
    pub name: String,
    /// The number of dimensions of a vector.
    pub dimensions: u32,
}

/// The result of recording one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remembered {
    /// The record is new.
    Added(RecordKey),
    /// The record replaced a different record with the same id.
    Replaced(RecordKey),
    /// An identical record existed.
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

/// A change to a record, in the order of `seq`. A store returns only the last
/// of several changes to one record.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The sequence number of the change. It increases with every change.
    pub seq: u64,
    /// The key of the record.
    pub key: RecordKey,
    /// The current search data; `None` if the record was deleted or archived.
    pub sketch: Option<Sketch>,
}

/// The fields of a record that an index holds in memory.
#[derive(Debug, Clone, PartialEq)]
pub enum Sketch {
    /// An event or a chunk.
    Text(TextSketch),
    /// An entity.
    Entity(EntitySketch),
    /// A relation.
    Relation(RelationSketch),
    /// A pattern.
    Pattern(PatternSketch),
}

/// The fields of an event or a chunk that an index holds in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct TextSketch {
    /// [`RecordKind::Event`] or [`RecordKind::Chunk`].
    pub kind: RecordKind,
    /// The type of event; `chunk` for a chunk.
    pub event_type: String,
    /// The session; the source for a chunk without a session.
    pub session: Option<String>,
    /// The id of the task.
    pub task: Option<String>,
    /// The normalised name of the speaker.
    pub speaker: Option<String>,
    /// The time of the event, in Unix milliseconds.
    pub at: i64,
    /// The position of a chunk in its source, from 0; 0 for an event.
    pub index: u32,
    /// The start of validity, in Unix milliseconds.
    pub valid_from: Option<i64>,
    /// The end of validity, in Unix milliseconds.
    pub valid_to: Option<i64>,
    /// The outcome of the event.
    pub outcome: Option<Outcome>,
    /// The encoded terms; `None` if the terms are missing and must be created
    /// again.
    pub words: Option<Vec<u8>>,
    /// The encoded vector of the current embedder; `None` if there is none.
    pub vector: Option<Vec<u8>>,
    /// The encoded vector of the second generation; `None` if there is none
    /// yet.
    pub later: Option<Vec<u8>>,
    /// The keys of the entities that the text mentions.
    pub mentions: Vec<RecordKey>,
}

/// The fields of an entity that an index holds in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct EntitySketch {
    /// The record's id.
    pub id: String,
    /// The type of entity.
    pub entity_type: String,
    /// The normalised names.
    pub names: Vec<String>,
    /// The total number of mentions.
    pub mentions: u64,
    /// The importance from 0 to 1, if it was recorded.
    pub salience: Option<f64>,
    /// The certainty that the entity exists, from 0 to 1.
    pub confidence: f64,
    /// The number of texts that mention the entity.
    pub texts: u64,
    /// Whether the entity was recorded explicitly, not only extracted from
    /// text.
    pub given: bool,
    /// The start of validity, in Unix milliseconds.
    pub valid_from: Option<i64>,
    /// The end of validity, in Unix milliseconds.
    pub valid_to: Option<i64>,
    /// The scope of the record.
    pub owner: RecordScope,
}

/// The fields of a relation that an index holds in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct RelationSketch {
    /// The type of relation.
    pub relation_type: String,
    /// The first entity, by id or name.
    pub source_id: String,
    /// The second entity, by id or name.
    pub target_id: String,
    /// The strength of the relation, from 0 to 1.
    pub weight: f64,
    /// The keys of the texts that mention the relation, at most the latest 32.
    /// Empty if the relation was recorded explicitly.
    pub derived_from: Vec<RecordKey>,
    /// The time when the relation was learned, in Unix milliseconds.
    pub at: i64,
    /// The start of validity, in Unix milliseconds.
    pub valid_from: Option<i64>,
    /// The end of validity, in Unix milliseconds.
    pub valid_to: Option<i64>,
    /// The scope of the record.
    pub owner: RecordScope,
}

/// The fields of a pattern that an index holds in memory: everything except the
/// procedure.
#[derive(Debug, Clone, PartialEq)]
pub struct PatternSketch {
    /// The conditions under which recall returns the pattern.
    pub conditions: Vec<Condition>,
    /// The number of times the procedure was applied.
    pub applications: u64,
    /// The number of times the procedure worked.
    pub successes: u64,
    /// The scope of the pattern; `None` for everywhere.
    pub scope: Option<String>,
    /// The start of validity, in Unix milliseconds.
    pub valid_from: Option<i64>,
    /// The end of validity, in Unix milliseconds.
    pub valid_to: Option<i64>,
    /// The scope of the record.
    pub owner: RecordScope,
}

/// The state of a memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryState {
    /// The sequence number of the last change; 0 for an unused memory.
    pub seq: u64,
    /// The analysers that created the search data; `None` before the first
    /// text.
    pub analysis: Option<Analysis>,
    /// The second generation of vectors.
    pub later: LaterState,
}

/// The state of the second generation of vectors, which are computed after
/// recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaterState {
    /// The embedder; `None` before the first vector.
    pub embedder: Option<EmbedderInfo>,
    /// A number that grows with each vector.
    pub seq: u64,
    /// The number of active texts that have a vector.
    pub current: u64,
    /// The number of active texts that have none.
    pub pending: u64,
}

/// A text that has no vector of the second generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingText {
    /// The key of the text.
    pub key: RecordKey,
    /// A number that distinguishes this text from one that it replaced.
    pub stamp: i64,
}

/// A vector of the second generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaterVector {
    /// The sequence number of the vector.
    pub seq: u64,
    /// The key of the text.
    pub key: RecordKey,
    /// The encoded vector.
    pub vector: Vec<u8>,
}

/// The records to delete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Forget {
    /// Deletes the records with an id.
    Id {
        /// The kind of record. Default: every kind.
        #[serde(default)]
        kind: Option<RecordKind>,
        /// The id of the records.
        id: String,
    },
    /// Deletes the chunks and events of a source.
    Source(String),
    /// Deletes the events and chunks of a session.
    Session(String),
}

/// The records to list: those that match every field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RecordList {
    /// The kind of record. Default: every kind.
    pub kind: Option<RecordKind>,
    /// The user that the records belong to. Default: every user.
    pub user: Option<String>,
    /// The agent that the records belong to. Default: every agent.
    pub agent: Option<String>,
    /// The session that the records belong to. Default: every session.
    pub session: Option<String>,
    /// The id of the task that the records belong to. Default: every task.
    pub task: Option<String>,
    /// The origin of the records. Default: every source.
    pub source: Option<String>,
}

/// The number of deleted records, by kind. It includes entities and relations
/// that were derived only from the deleted records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DeletedRecords"))]
pub struct Forgotten {
    /// The number of deleted records by kind.
    pub forgotten: BTreeMap<RecordKind, u64>,
    /// Whether the store's files can still hold deleted text. The store
    /// overwrites it as soon as it can, also after a restart.
    pub pending: bool,
}

/// The content of a memory in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryStats {
    /// The number of records by kind, including tasks.
    pub kinds: BTreeMap<RecordKind, KindStats>,
    /// The number of distinct sessions.
    pub sessions: u64,
    /// The number of distinct sources.
    pub sources: u64,
    /// The number of events and chunks without a vector of the current
    /// embedder.
    pub unembedded: u64,
    /// The size of all records in bytes.
    pub bytes: u64,
}

/// The number of records of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindStats {
    /// The number of records that recall can return.
    pub live: u64,
    /// The number of those records that have an end of validity.
    pub ended: u64,
    /// The number of archived records.
    pub archived: u64,
}

/// Stores memory records. Keys, ids and counts never include other tenants.
pub trait Memories: Send + Sync {
    /// Stores records, all or none, and returns the result of each, in the order
    /// given. Tasks are stored like [`Tasks`](crate::Tasks) does, without
    /// becoming current.
    ///
    /// A record replaces a different record with the same id; an identical
    /// record changes nothing. A record that
    /// [supersedes](EventRecord::supersedes) another of its kind ends the
    /// other's validity at its own `valid_from`, otherwise at its time, otherwise
    /// at `now`. Mentions and links create or strengthen entities and relations.
    ///
    /// A recorded entity or relation replaces a derived one and keeps its key:
    /// one with the same id, an entity with the same type and a common name, or
    /// a relation of the same type between the same entities. A missing time is
    /// `now`, and keeps that value when the record is repeated. Missing words or
    /// vectors are filled in.
    ///
    /// Fails if a record is [invalid](Record::check), with its position
    /// (`records[3].id`); if the superseded record does not exist; if the parent
    /// of a task is missing or a descendant; and if there are texts and
    /// `analysis` is not the current one. A memory without texts adopts
    /// `analysis`; a memory without an embedder adopts the first one. Callers
    /// without an embedder give texts without vectors.
    fn remember(
        &self,
        records: &[NewRecord],
        analysis: &Analysis,
        now: Timestamp,
    ) -> Result<Vec<Remembered>, StoreError>;

    /// Returns the state of the memory. This is cheap: every recall calls it.
    fn memory_state(&self) -> Result<MemoryState, StoreError>;

    /// Returns at most `limit` changes after the sequence number `after`, in
    /// order. The numbers are in the order of commits, on all handles: once a
    /// change was returned, no change with a smaller number appears.
    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError>;

    /// Returns records in the order of the keys; `None` for missing ones. The
    /// `mentions` of an entity include the mentions in texts.
    fn records(&self, keys: &[RecordKey]) -> Result<Vec<Option<Record>>, StoreError>;

    /// Returns the keys of the records with those ids, of any kind, in no
    /// particular order, archived ones included. Tasks have none.
    fn record_keys(&self, ids: &[&str]) -> Result<Vec<(RecordKind, RecordKey)>, StoreError>;

    /// Archives records: recall does not find them any more, and recording one
    /// again restores it. Mentions in archived texts do not count, and records
    /// that are derived only from archived texts are archived too. Unknown keys
    /// are ignored.
    fn archive(&self, keys: &[RecordKey]) -> Result<(), StoreError>;

    /// Deletes records and everything derived only from them. No trace is left
    /// in the store's files, unless [`Forgotten::pending`] says so: the embedded
    /// store overwrites the rest as soon as it can, and PostgreSQL with its next
    /// VACUUM. Other handles do not return a deleted record from then on. Mentions are deleted with their texts; entities and
    /// relations that were derived only from those texts are deleted too, and so
    /// are derived relations of a deleted entity. References to a deleted record
    /// (as parent, evidence or superseded record) are removed.
    ///
    /// Fails if the id, source or session does not exist, and for a task that
    /// has subtasks or is current.
    fn forget(&self, what: &Forget) -> Result<Forgotten, StoreError>;

    /// Stores new words, made with version `rules` of the rules, which becomes
    /// the current version. If the version changed, the words of all other texts
    /// are removed, and those texts are reported as changes.
    fn put_words(&self, rules: u32, words: &[(RecordKey, Vec<u8>)]) -> Result<(), StoreError>;

    /// Stores vectors of an embedder, next to those of the current embedder if
    /// that is another one. Unknown keys are ignored.
    fn put_vectors(
        &self,
        embedder: &EmbedderInfo,
        vectors: &[(RecordKey, Vec<u8>)],
    ) -> Result<(), StoreError>;

    /// Returns at most `limit` keys after `after`, in order, of events and
    /// chunks that have no vector of that embedder. Archived ones are left out.
    fn unembedded(
        &self,
        embedder: &EmbedderInfo,
        after: RecordKey,
        limit: usize,
    ) -> Result<Vec<RecordKey>, StoreError>;

    /// Sets the embedder in use, and drops the vectors of all others. Every
    /// text then counts as changed.
    fn use_embedder(&self, embedder: &EmbedderInfo) -> Result<(), StoreError>;

    /// Returns at most `limit` keys after `after`, in ascending order, of the
    /// records that a list selects. Archived records, derived entities and
    /// relations, and tasks are not listed.
    fn list(
        &self,
        what: &RecordList,
        after: RecordKey,
        limit: usize,
    ) -> Result<Vec<RecordKey>, StoreError>;

    /// Returns the number of records that can be found, by kind. This is cheap:
    /// every recording calls it.
    fn record_counts(&self) -> Result<BTreeMap<RecordKind, u64>, StoreError>;

    /// Stores vectors of the second generation. They are not a change of the
    /// memory: [`later_vectors`](Memories::later_vectors) reports them.
    ///
    /// If the embedder is not that of the second generation so far, the
    /// vectors of the earlier one are dropped, and every text is pending. A
    /// text that was replaced, archived or deleted since it was read gets no
    /// vector.
    fn put_later(
        &self,
        embedder: &EmbedderInfo,
        vectors: &[(PendingText, Vec<u8>)],
    ) -> Result<(), StoreError>;

    /// Returns at most `limit` active events and chunks without a vector of the
    /// second generation, the newest first.
    fn pending(&self, limit: usize) -> Result<Vec<PendingText>, StoreError>;

    /// Returns at most `limit` vectors of the second generation after the
    /// number `after`, in order.
    fn later_vectors(&self, after: u64, limit: usize) -> Result<Vec<LaterVector>, StoreError>;

    /// Returns the path of the file in which an index derived from this memory
    /// can be kept on the local disk. `None` if the store has no such path; the
    /// index is then built whenever a process starts. A store that deletes a
    /// tenant deletes the file too.
    fn index_path(&self) -> Option<PathBuf> {
        None
    }

    /// Returns statistics of the memory.
    fn memory_stats(&self) -> Result<MemoryStats, StoreError>;
}
