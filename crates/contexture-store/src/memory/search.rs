//! The search data of records: what the caller derives from a text and a store
//! saves, and the changes from which an index in memory is built.

use serde::{Deserialize, Serialize};

use super::record::{Condition, Outcome, Record, RecordKind, RecordScope};

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
