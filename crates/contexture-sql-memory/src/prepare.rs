//! Converts records to columns before they are written.
//!
//! The callers' threads do this work, so that the writer thread only writes.

use contexture_core::ContentHash;
use contexture_store::{
    Analysis, Derived, EntityRecord, NewRecord, Record, RelationRecord, StoreError, TaskRecord,
};
use jiff::Timestamp;
use serde::Serialize;

use super::{is_text, kind, outcome_number};

/// Records and tasks that are ready to be stored.
pub struct PreparedRecords(pub(crate) Vec<Item>);

impl PreparedRecords {
    /// Returns true if there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A record or task to be stored.
pub(super) enum Item {
    Record(Box<Prepared>),
    Task(TaskRecord),
}

/// A record as columns. Times are Unix milliseconds.
#[derive(Default)]
pub(super) struct Prepared {
    /// The index of the record in the request.
    pub(super) place: usize,
    pub(super) kind: i64,
    pub(super) id: String,
    pub(super) body: String,
    /// The hash of the body and the derived data.
    pub(super) digest: [u8; 32],
    pub(super) record_type: String,
    pub(super) session: Option<String>,
    pub(super) task: Option<String>,
    pub(super) source: Option<String>,
    pub(super) user: Option<String>,
    pub(super) agent: Option<String>,
    /// The time of the record; `None` when the record has none.
    pub(super) at: Option<i64>,
    pub(super) index: i64,
    pub(super) valid_from: Option<i64>,
    pub(super) valid_to: Option<i64>,
    pub(super) outcome: Option<i64>,
    pub(super) supersedes: Option<String>,
    /// The ids of other records that the record refers to.
    pub(super) references: Vec<String>,
    /// The names of the entities that a relation connects.
    pub(super) ends: Option<(String, String)>,
    pub(super) derived: Derived,
}

/// Prepares records, and rejects those that are invalid by themselves.
pub fn prepare(
    records: &[NewRecord],
    analysis: &Analysis,
    most: u64,
) -> Result<PreparedRecords, StoreError> {
    let mut items = Vec::with_capacity(records.len());
    for (place, new) in records.iter().enumerate() {
        let item = check(new, analysis).and_then(|()| item(place, new, most));
        items.push(item.map_err(|error| at(place, error))?);
    }
    Ok(PreparedRecords(items))
}

/// Returns the error with its field as a field of the record at index `place`.
pub(crate) fn at(place: usize, error: StoreError) -> StoreError {
    match error {
        StoreError::Invalid { field, message } => {
            StoreError::invalid(format!("records[{place}].{field}"), message)
        }
        other => other,
    }
}

fn check(new: &NewRecord, analysis: &Analysis) -> Result<(), StoreError> {
    new.record.check()?;
    let derived = &new.derived;
    if derived.vector.is_some() && analysis.embedder.is_none() {
        return Err(StoreError::invalid(
            "vector",
            "was created by an unknown embedder",
        ));
    }
    for (i, mention) in derived.mentions.iter().enumerate() {
        if mention.key.is_empty() || mention.name.is_empty() || mention.entity_type.is_empty() {
            let field = format!("mentions[{i}]");
            return Err(StoreError::invalid(field, "has no name or no type"));
        }
    }
    for (i, link) in derived.links.iter().enumerate() {
        if link.from.max(link.to) >= derived.mentions.len() {
            let message = format!("there are only {} mentions", derived.mentions.len());
            return Err(StoreError::invalid(format!("links[{i}]"), message));
        }
    }
    Ok(())
}

fn item(place: usize, new: &NewRecord, most: u64) -> Result<Item, StoreError> {
    let mut prepared = match columns(&new.record)? {
        Some(prepared) => prepared,
        None => {
            let Record::Task(task) = &new.record else {
                return Err(StoreError::invalid("kind", "is unknown"));
            };
            let bytes = task.goal.len() + task.result.as_ref().map_or(0, String::len);
            check_size(&new.record, bytes, most)?;
            return Ok(Item::Task(task.clone()));
        }
    };
    check_size(&new.record, prepared.body.len(), most)?;
    prepared.place = place;
    let owner = new.record.scope();
    (prepared.user, prepared.agent) = (owner.user, owner.agent);
    prepared.digest = digest(&prepared.body, &new.derived);
    prepared.derived = new.derived.clone();
    if !is_text(prepared.kind) {
        (prepared.derived.words, prepared.derived.vector) = (None, None);
        prepared.derived.mentions.clear();
        prepared.derived.links.clear();
    }
    if let Some(id) = &prepared.supersedes {
        prepared.references.push(id.clone());
    }
    Ok(Item::Record(Box::new(prepared)))
}

fn check_size(record: &Record, bytes: usize, most: u64) -> Result<(), StoreError> {
    if bytes as u64 <= most {
        return Ok(());
    }
    let field = match record {
        Record::Event(_) => "content",
        Record::Chunk(_) => "text",
        Record::Entity(_) => "properties",
        Record::Relation(_) => "evidence",
        Record::Pattern(_) => "procedure",
        Record::Task(_) => "goal",
    };
    let message = format!("is {bytes} bytes; the limit is {most} (limits.max_message_bytes)");
    Err(StoreError::invalid(field, message))
}

/// Returns the columns of a record; `None` for a task.
fn columns(record: &Record) -> Result<Option<Prepared>, StoreError> {
    let prepared = match record {
        Record::Event(event) => Prepared {
            kind: kind::EVENT,
            id: event.id.clone(),
            body: body(event)?,
            record_type: event.event_type.clone(),
            session: event.session_id.clone(),
            task: event.task_id.clone(),
            source: event.source.clone(),
            at: milliseconds(event.timestamp),
            valid_from: milliseconds(event.valid_from),
            valid_to: milliseconds(event.valid_to),
            outcome: event.outcome.map(outcome_number),
            supersedes: event.supersedes.clone(),
            references: event.parent_id.iter().cloned().collect(),
            ..Prepared::default()
        },
        Record::Chunk(chunk) => Prepared {
            kind: kind::CHUNK,
            id: chunk.id.clone(),
            body: body(chunk)?,
            record_type: "chunk".to_owned(),
            session: chunk.session_id.clone(),
            task: chunk.task_id.clone(),
            source: Some(chunk.source.clone()),
            at: milliseconds(chunk.timestamp),
            index: i64::from(chunk.index),
            valid_from: milliseconds(chunk.valid_from),
            valid_to: milliseconds(chunk.valid_to),
            supersedes: chunk.supersedes.clone(),
            ..Prepared::default()
        },
        Record::Entity(entity) => Prepared::entity(entity)?,
        Record::Relation(relation) => Prepared::relation(relation)?,
        Record::Pattern(pattern) => Prepared {
            kind: kind::PATTERN,
            id: pattern.id.clone(),
            body: body(pattern)?,
            session: pattern.session_id.clone(),
            task: pattern.task_id.clone(),
            source: pattern.source.clone(),
            valid_from: milliseconds(pattern.valid_from),
            valid_to: milliseconds(pattern.valid_to),
            supersedes: pattern.supersedes.clone(),
            ..Prepared::default()
        },
        Record::Task(_) => return Ok(None),
    };
    Ok(Some(prepared))
}

impl Prepared {
    pub(crate) fn entity(entity: &EntityRecord) -> Result<Self, StoreError> {
        Ok(Prepared {
            kind: kind::ENTITY,
            id: entity.id.clone(),
            body: body(entity)?,
            record_type: entity.entity_type.clone(),
            session: entity.session_id.clone(),
            task: entity.task_id.clone(),
            source: entity.source.clone(),
            valid_from: milliseconds(entity.valid_from),
            valid_to: milliseconds(entity.valid_to),
            supersedes: entity.supersedes.clone(),
            ..Prepared::default()
        })
    }

    pub(crate) fn relation(relation: &RelationRecord) -> Result<Self, StoreError> {
        Ok(Prepared {
            kind: kind::RELATION,
            id: relation.id.clone(),
            body: body(relation)?,
            record_type: relation.relation_type.clone(),
            session: relation.session_id.clone(),
            task: relation.task_id.clone(),
            source: relation.source.clone(),
            at: milliseconds(relation.timestamp),
            valid_from: milliseconds(relation.valid_from),
            valid_to: milliseconds(relation.valid_to),
            supersedes: relation.supersedes.clone(),
            references: relation.evidence.clone(),
            ends: Some((relation.source_id.clone(), relation.target_id.clone())),
            ..Prepared::default()
        })
    }
}

fn milliseconds(time: Option<Timestamp>) -> Option<i64> {
    time.map(Timestamp::as_millisecond)
}

/// Returns the JSON of a record as it is stored.
pub fn body<T: Serialize>(record: &T) -> Result<String, StoreError> {
    let wrong = |error: serde_json::Error| StoreError::invalid("content", error.to_string());
    let mut value = serde_json::to_value(record).map_err(wrong)?;
    // Null fields are removed: a missing field is read as null.
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    serde_json::to_string(&value).map_err(wrong)
}

/// Returns the lookup number of a record.
pub fn tag(tenant: i64, kind: i64, id: &str) -> i64 {
    let mut bytes = Vec::with_capacity(id.len() + 16);
    bytes.extend_from_slice(&tenant.to_le_bytes());
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.extend_from_slice(id.as_bytes());
    let [a, b, c, d, e, f, ..] = *ContentHash::of(&bytes).as_bytes();
    // SQLite stores a number of six bytes in six bytes. Records with equal
    // numbers are distinguished by their ids.
    i64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// Returns the hash of a record's body and of the data derived from it.
pub fn digest(body: &str, derived: &Derived) -> [u8; 32] {
    let mut bytes = Vec::new();
    // The length comes first, so that different lists cannot have equal bytes.
    let mut put = |text: &str| {
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    };
    put(derived.speaker.as_deref().unwrap_or_default());
    put(&derived.names.len().to_string());
    derived.names.iter().for_each(|name| put(name));
    for mention in &derived.mentions {
        put(&mention.entity_type);
        put(&mention.key);
    }
    for link in &derived.links {
        put(&link.relation_type);
        put(&format!("{} {}", link.from, link.to));
    }
    let mut digest = [0; 32];
    digest[..16].copy_from_slice(&ContentHash::of(body.as_bytes()).as_bytes()[..16]);
    digest[16..].copy_from_slice(&ContentHash::of(&bytes).as_bytes()[..16]);
    digest
}
