//! The numbers of kinds and outcomes in columns, and lists of keys.

use contexture_driver::{Error, driver::Result};
use contexture_store::{Outcome, RecordKind};

/// The numbers of the kinds in the column `kind`.
pub(crate) mod kind {
    pub(crate) const EVENT: i64 = 0;
    pub(crate) const CHUNK: i64 = 1;
    pub(crate) const ENTITY: i64 = 2;
    pub(crate) const RELATION: i64 = 3;
    pub(crate) const PATTERN: i64 = 4;
}

/// Returns the kind with this number in the column `kind`.
pub(crate) fn kind_of(number: i64) -> Result<RecordKind> {
    match number {
        kind::EVENT => Ok(RecordKind::Event),
        kind::CHUNK => Ok(RecordKind::Chunk),
        kind::ENTITY => Ok(RecordKind::Entity),
        kind::RELATION => Ok(RecordKind::Relation),
        kind::PATTERN => Ok(RecordKind::Pattern),
        other => Err(Error::Content(format!("{other} is no kind of record"))),
    }
}

/// Returns the number of a kind. Returns `None` for tasks, which have their own
/// tables.
pub(crate) fn number_of(kind: RecordKind) -> Option<i64> {
    match kind {
        RecordKind::Event => Some(kind::EVENT),
        RecordKind::Chunk => Some(kind::CHUNK),
        RecordKind::Entity => Some(kind::ENTITY),
        RecordKind::Relation => Some(kind::RELATION),
        RecordKind::Pattern => Some(kind::PATTERN),
        RecordKind::Task => None,
    }
}

pub(crate) fn is_text(kind: i64) -> bool {
    matches!(kind, kind::EVENT | kind::CHUNK)
}

/// Returns true for entities and relations: the store counts the texts that
/// mention them.
pub(crate) fn is_counted(kind: i64) -> bool {
    matches!(kind, kind::ENTITY | kind::RELATION)
}

pub(crate) fn outcome_number(outcome: Outcome) -> i64 {
    match outcome {
        Outcome::Success => 0,
        Outcome::Failure => 1,
        Outcome::Partial => 2,
    }
}

pub(crate) fn outcome_of(number: i64) -> Option<Outcome> {
    match number {
        0 => Some(Outcome::Success),
        1 => Some(Outcome::Failure),
        2 => Some(Outcome::Partial),
        _ => None,
    }
}

/// Encodes the keys of entities for the column `mentions`. An empty list is
/// null.
pub fn pack(keys: &[i64]) -> Option<Vec<u8>> {
    let bytes = keys.iter().flat_map(|key| key.to_le_bytes());
    (!keys.is_empty()).then(|| bytes.collect())
}

/// Decodes the column `mentions`.
pub fn unpack(bytes: Option<&[u8]>) -> Vec<i64> {
    let (keys, _) = bytes.unwrap_or_default().as_chunks::<8>();
    keys.iter().copied().map(i64::from_le_bytes).collect()
}
