//! Checks records, and creates their default ids.

use jiff::Timestamp;

use super::{
    ChunkRecord, EntityRecord, EventRecord, MAX_ID_BYTES, PatternRecord, Record, RelationRecord,
};
use crate::error::StoreError;
use crate::task::TaskRecord;

impl Record {
    /// Sets a missing id, so that the same line recorded twice is the same
    /// record. The store sets a missing time when the record is new.
    pub fn complete(&mut self) {
        match self {
            Record::Event(event) if event.id.is_empty() => event.id = digest(event),
            Record::Chunk(chunk) if chunk.id.is_empty() => {
                chunk.id = format!("{}#{}", chunk.source, chunk.index);
            }
            Record::Entity(entity) if entity.id.is_empty() => {
                let id = format!("{}:{}", entity.entity_type, entity.name);
                entity.id = of_user(id, entity.user.as_deref());
            }
            Record::Relation(relation) if relation.id.is_empty() => {
                let id = format!(
                    "{} {} {}",
                    relation.source_id, relation.relation_type, relation.target_id
                );
                relation.id = of_user(id, relation.user.as_deref());
            }
            Record::Pattern(pattern) if pattern.id.is_empty() => {
                pattern.id = of_user(pattern.name.clone(), pattern.user.as_deref());
            }
            _ => {}
        }
    }

    /// Checks that the record is valid by itself. The error has the field of
    /// the record.
    pub fn check(&self) -> Result<(), StoreError> {
        scope(self)?;
        match self {
            Record::Event(event) => check_event(event),
            Record::Chunk(chunk) => check_chunk(chunk),
            Record::Entity(entity) => check_entity(entity),
            Record::Relation(relation) => check_relation(relation),
            Record::Pattern(pattern) => check_pattern(pattern),
            Record::Task(task) => check_task(task),
        }
    }
}

/// Returns an id that two users do not share.
fn of_user(id: String, user: Option<&str>) -> String {
    match user {
        Some(user) => format!("{id} ({user})"),
        None => id,
    }
}

/// Checks the names of the scope that a record belongs to.
fn scope(record: &Record) -> Result<(), StoreError> {
    let scope = record.scope();
    for (field, value) in [
        ("user", &scope.user),
        ("agent", &scope.agent),
        ("session_id", &scope.session),
        ("task_id", &scope.task),
        ("source", &scope.source),
    ] {
        optional(field, value.as_deref())?;
    }
    Ok(())
}

fn digest(event: &EventRecord) -> String {
    // A record that was read can be written.
    let bytes = serde_json::to_vec(event).unwrap_or_default();
    let hash = blake3::hash(&bytes).to_hex();
    format!("e-{}", &hash[..16])
}

fn check_event(event: &EventRecord) -> Result<(), StoreError> {
    name("id", &event.id)?;
    name("type", &event.event_type)?;
    for (field, value) in [
        ("session_id", &event.session_id),
        ("actor", &event.actor),
        ("parent_id", &event.parent_id),
        ("task_id", &event.task_id),
        ("source", &event.source),
    ] {
        optional(field, value.as_deref())?;
    }
    if event.content.is_null() {
        return Err(StoreError::invalid(
            "content",
            "is null: give a text or an object",
        ));
    }
    if event.parent_id.as_deref() == Some(&event.id) {
        return Err(StoreError::invalid("parent_id", "is the event itself"));
    }
    validity(event.valid_from, event.valid_to)?;
    supersedes(&event.id, event.supersedes.as_deref())
}

fn check_chunk(chunk: &ChunkRecord) -> Result<(), StoreError> {
    name("id", &chunk.id)?;
    name("source", &chunk.source)?;
    optional("session_id", chunk.session_id.as_deref())?;
    if chunk.text.trim().is_empty() {
        return Err(StoreError::invalid("text", "is empty"));
    }
    let finite = |embedding: &Vec<f32>| embedding.iter().all(|number| number.is_finite());
    if !chunk.embedding.as_ref().is_none_or(finite) {
        return Err(StoreError::invalid(
            "embedding",
            "contains a value that is not a number",
        ));
    }
    validity(chunk.valid_from, chunk.valid_to)?;
    supersedes(&chunk.id, chunk.supersedes.as_deref())
}

fn check_entity(entity: &EntityRecord) -> Result<(), StoreError> {
    name("id", &entity.id)?;
    name("type", &entity.entity_type)?;
    name("name", &entity.name)?;
    for (i, alias) in entity.aliases.iter().enumerate() {
        name(&format!("aliases[{i}]"), alias)?;
    }
    part("salience", entity.salience)?;
    part("confidence", entity.confidence)?;
    validity(entity.valid_from, entity.valid_to)?;
    supersedes(&entity.id, entity.supersedes.as_deref())
}

fn check_relation(relation: &RelationRecord) -> Result<(), StoreError> {
    // The default id contains three names.
    long_name("id", &relation.id, 4 * MAX_ID_BYTES)?;
    name("type", &relation.relation_type)?;
    name("source_id", &relation.source_id)?;
    name("target_id", &relation.target_id)?;
    part("weight", relation.weight)?;
    validity(relation.valid_from, relation.valid_to)?;
    supersedes(&relation.id, relation.supersedes.as_deref())
}

fn check_pattern(pattern: &PatternRecord) -> Result<(), StoreError> {
    name("id", &pattern.id)?;
    name("name", &pattern.name)?;
    if pattern.procedure.trim().is_empty() {
        return Err(StoreError::invalid("procedure", "is empty"));
    }
    for (i, condition) in pattern.conditions.iter().enumerate() {
        let field = format!("conditions[{i}]");
        name(&format!("{field}.value"), &condition.value)?;
        let sound = |weight: f64| weight.is_finite() && weight >= 0.0;
        if !condition.weight.is_none_or(sound) {
            return Err(StoreError::invalid(
                format!("{field}.weight"),
                "must be 0 or more",
            ));
        }
    }
    let ended = pattern.successes.checked_add(pattern.failures);
    if ended.is_none_or(|ended| ended > pattern.applications) {
        return Err(StoreError::invalid(
            "applications",
            format!(
                "is {}, less than {} successes and {} failures together",
                pattern.applications, pattern.successes, pattern.failures
            ),
        ));
    }
    optional("scope", pattern.scope.as_deref())?;
    validity(pattern.valid_from, pattern.valid_to)?;
    supersedes(&pattern.id, pattern.supersedes.as_deref())
}

fn check_task(task: &TaskRecord) -> Result<(), StoreError> {
    name("id", &task.id)?;
    crate::check_label("stack", &task.stack)?;
    if task.goal.trim().is_empty() {
        return Err(StoreError::invalid("goal", "is empty"));
    }
    if task.parent_id.as_deref() == Some(&task.id) {
        return Err(StoreError::invalid("parent_id", "is the task itself"));
    }
    optional("parent_id", task.parent_id.as_deref())
}

fn name(field: &str, value: &str) -> Result<(), StoreError> {
    long_name(field, value, MAX_ID_BYTES)
}

fn long_name(field: &str, value: &str, most: usize) -> Result<(), StoreError> {
    if value.trim().is_empty() {
        return Err(StoreError::invalid(field, "is empty"));
    }
    if value.len() > most {
        return Err(StoreError::invalid(
            field,
            format!("is {} bytes; the limit is {most}", value.len()),
        ));
    }
    if value.contains('\0') {
        return Err(StoreError::invalid(field, "contains a NUL character"));
    }
    Ok(())
}

fn optional(field: &str, value: Option<&str>) -> Result<(), StoreError> {
    value.map_or(Ok(()), |value| name(field, value))
}

fn part(field: &str, value: Option<f64>) -> Result<(), StoreError> {
    match value {
        Some(value) if !(0.0..=1.0).contains(&value) => Err(StoreError::invalid(
            field,
            format!("must be from 0 to 1, not {value}"),
        )),
        _ => Ok(()),
    }
}

fn validity(from: Option<Timestamp>, to: Option<Timestamp>) -> Result<(), StoreError> {
    match (from, to) {
        (Some(from), Some(to)) if to < from => Err(StoreError::invalid(
            "valid_to",
            format!("is {to}, before valid_from {from}"),
        )),
        _ => Ok(()),
    }
}

fn supersedes(id: &str, other: Option<&str>) -> Result<(), StoreError> {
    optional("supersedes", other)?;
    if other == Some(id) {
        return Err(StoreError::invalid("supersedes", "is the record itself"));
    }
    Ok(())
}
