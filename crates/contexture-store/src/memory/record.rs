//! Records as users write and read them: events, chunks, entities, relations,
//! patterns and tasks, each with the scope that it belongs to.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::task::TaskRecord;
use crate::time;

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
    #[serde(default, with = "time::of_record")]
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
    #[serde(default, with = "time::of_record")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_from: Option<Timestamp>,
    /// The end of validity: RFC 3339 or Unix milliseconds. Default: unlimited.
    #[serde(default, with = "time::of_record")]
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
    #[serde(default, with = "time::of_record")]
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
    #[serde(default, with = "time::of_record")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_from: Option<Timestamp>,
    /// The end of validity: RFC 3339 or Unix milliseconds. Default: unlimited.
    #[serde(default, with = "time::of_record")]
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
    #[serde(default, with = "time::of_record")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_from: Option<Timestamp>,
    /// The end of validity: RFC 3339 or Unix milliseconds. Default: unlimited.
    #[serde(default, with = "time::of_record")]
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
    #[serde(default, with = "time::of_record")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub timestamp: Option<Timestamp>,
    /// The start of validity: RFC 3339 or Unix milliseconds. Default:
    /// unlimited.
    #[serde(default, with = "time::of_record")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_from: Option<Timestamp>,
    /// The end of validity: RFC 3339 or Unix milliseconds. Default: unlimited.
    #[serde(default, with = "time::of_record")]
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
    #[serde(default, with = "time::of_record")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub valid_from: Option<Timestamp>,
    /// The end of validity: RFC 3339 or Unix milliseconds. Default: unlimited.
    #[serde(default, with = "time::of_record")]
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
