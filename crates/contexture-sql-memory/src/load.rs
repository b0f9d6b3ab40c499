//! Reads records.

use crate::driver::{Connection, OptionalExtension};
use contexture_core::ContentHash;
use contexture_store::{Record, RecordKey, RecordKind};
use jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::prepare::tag;
use super::{kind_of, number_of, relations};
use crate::error::{Error, Fault};

/// A record's body with the columns that the store adds to it.
struct Loaded {
    kind: RecordKind,
    key: i64,
    at: i64,
    valid_to: Option<i64>,
    superseded: bool,
}

/// Returns a record.
pub fn record(db: &Connection, tenant: i64, key: i64) -> Result<Option<Record>, Fault> {
    let Some((loaded, mut record)) = load(db, tenant, key)? else {
        return Ok(None);
    };
    loaded.complete(db, &mut record)?;
    Ok(Some(record))
}

/// Returns a record in two forms: as recorded, and as returned to callers.
pub fn both(db: &Connection, tenant: i64, key: i64) -> Result<Option<(Record, Record)>, Fault> {
    let Some((loaded, given)) = load(db, tenant, key)? else {
        return Ok(None);
    };
    let mut record = given.clone();
    loaded.complete(db, &mut record)?;
    Ok(Some((given, record)))
}

fn load(db: &Connection, tenant: i64, key: i64) -> Result<Option<(Loaded, Record)>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT m.kind, m.at, m.valid_to, m.superseded IS NOT NULL, b.body, m.digest, m.id
         FROM memories m LEFT JOIN memory_bodies b ON b.record = m.key
         WHERE m.key = ?1 AND m.tenant = ?2",
    )?;
    let found = select.query_row((key, tenant), |row| {
        let kind = kind_of(row.get(0)?)?;
        let loaded = Loaded {
            kind,
            key,
            at: row.get(1)?,
            valid_to: row.get(2)?,
            superseded: row.get(3)?,
        };
        let Ok(body) = row.get_ref(4)?.as_str() else {
            return Ok(Err((row.get::<String>(6)?, "its content is missing")));
        };
        if !is_intact(body, row.get_ref(5)?.as_blob()?) {
            let message = "its content does not match its hash";
            return Ok(Err((row.get::<String>(6)?, message)));
        }
        Ok(Ok((loaded, parse(kind, body)?)))
    });
    match found.optional()? {
        None => Ok(None),
        Some(Ok(loaded)) => Ok(Some(loaded)),
        Some(Err((id, message))) => Err(Fault::damaged(format!("record `{id}`"), message)),
    }
}

/// Returns true when the digest was computed from this body.
pub fn is_intact(body: &str, digest: &[u8]) -> bool {
    digest.get(..16) == Some(&ContentHash::of(body.as_bytes()).as_bytes()[..16])
}

/// Parses the body of a record.
pub fn parse(kind: RecordKind, body: &str) -> crate::driver::Result<Record> {
    fn read<T: DeserializeOwned>(body: &str) -> crate::driver::Result<T> {
        serde_json::from_str(body).map_err(Error::content)
    }
    Ok(match kind {
        RecordKind::Event => Record::Event(read(body)?),
        RecordKind::Chunk => Record::Chunk(read(body)?),
        RecordKind::Entity => Record::Entity(read(body)?),
        RecordKind::Relation => Record::Relation(read(body)?),
        RecordKind::Pattern => Record::Pattern(read(body)?),
        RecordKind::Task => Record::Task(read(body)?),
    })
}

impl Loaded {
    /// Sets the fields that the body lacks, and those that have changed since.
    fn complete(&self, db: &Connection, record: &mut Record) -> Result<(), Fault> {
        let at = time(self.at)?;
        let ended = self.valid_to.filter(|_| self.superseded);
        let ended = ended.map(time).transpose()?;
        let valid_to = match record {
            Record::Event(event) => {
                event.timestamp.get_or_insert(at);
                &mut event.valid_to
            }
            Record::Chunk(chunk) => {
                chunk.timestamp.get_or_insert(at);
                &mut chunk.valid_to
            }
            Record::Entity(entity) => {
                let (_, texts) = counts(db, self.key)?;
                entity.mentions = entity.mentions.saturating_add(texts.unsigned_abs());
                &mut entity.valid_to
            }
            Record::Relation(relation) => {
                relation.timestamp.get_or_insert(at);
                let (given, texts) = counts(db, self.key)?;
                if !given {
                    relation.weight = Some(relations::weight(0.0, texts));
                } else if let Some(weight) = &mut relation.weight {
                    *weight = relations::weight(*weight, texts);
                }
                for id in relations::evidence(db, self.key)? {
                    if !relation.evidence.contains(&id) {
                        relation.evidence.push(id);
                    }
                }
                &mut relation.valid_to
            }
            Record::Pattern(pattern) => &mut pattern.valid_to,
            Record::Task(_) => return Ok(()),
        };
        if ended.is_some() {
            *valid_to = ended;
        }
        debug_assert_eq!(record.kind(), self.kind, "a body is of its row's kind");
        Ok(())
    }
}

/// Returns whether an entity or a relation was recorded explicitly, and the
/// number of texts that mention it.
fn counts(db: &Connection, key: i64) -> crate::driver::Result<(bool, i64)> {
    let mut select = db.prepare_cached("SELECT given, texts FROM memory_counts WHERE key = ?1")?;
    select.query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
}

fn time(milliseconds: i64) -> crate::driver::Result<Timestamp> {
    let time = Timestamp::from_millisecond(milliseconds);
    time.map_err(Error::content)
}

/// Returns the keys of the records with those ids.
pub fn keys(
    db: &Connection,
    tenant: i64,
    ids: &[&str],
) -> Result<Vec<(RecordKind, RecordKey)>, Fault> {
    let mut keys = Vec::new();
    for id in ids {
        for kind in RecordKind::ALL {
            let Some(number) = number_of(kind) else {
                continue;
            };
            let key = key(db, tenant, number, id)?;
            keys.extend(key.map(|key| (kind, key)));
        }
    }
    Ok(keys)
}

/// Returns the key of a record.
pub fn key(db: &Connection, tenant: i64, kind: i64, id: &str) -> Result<Option<RecordKey>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT key FROM memories WHERE tag = ?1 AND tenant = ?2 AND kind = ?3 AND id = ?4",
    )?;
    let found = select.query_row((tag(tenant, kind, id), tenant, kind, id), |row| row.get(0));
    Ok(found.optional()?)
}
