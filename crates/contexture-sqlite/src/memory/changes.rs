//! What an index is built from.

use contexture_store::{
    Change, EntitySketch, PatternSketch, Record, RecordKind, RelationSketch, Sketch, TextSketch,
};
use rusqlite::{CachedStatement, Connection, Row};

use super::{entities, is_text, kind_of, load, outcome_of, relations, unpack};
use crate::error::Fault;
use crate::row::{limit, unsigned};

/// Returns changes in their order: rows, and notes of what is gone.
pub(super) fn changes(
    db: &Connection,
    tenant: i64,
    after: u64,
    most: usize,
) -> Result<Vec<Change>, Fault> {
    let Ok(after) = i64::try_from(after) else {
        return Ok(Vec::new());
    };
    let mut gone = gone(db, tenant, after, most)?.into_iter().peekable();
    let mut sketches = Sketches::new(db)?;
    // Nothing of what is read for texts has to be parsed.
    let mut select = db.prepare_cached(
        "SELECT seq, key, kind, archived, type, session, task, source, speaker, at, idx,
             valid_from, valid_to, outcome, words, vector, mentions, given, texts, id
         FROM memories WHERE tenant = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let mut rows = select.query((tenant, after, limit(most)))?;
    let mut changes = Vec::new();
    while let Some(row) = rows.next()? {
        let (seq, key) = (unsigned(row, 0)?, row.get(1)?);
        while let Some(before) = gone.next_if(|gone| gone.seq < seq) {
            changes.push(before);
        }
        if changes.len() >= most {
            break;
        }
        let sketch = sketches.sketch(row, key)?;
        changes.push(Change { seq, key, sketch });
    }
    changes.extend(gone);
    changes.truncate(most);
    Ok(changes)
}

fn gone(db: &Connection, tenant: i64, after: i64, most: usize) -> Result<Vec<Change>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT seq, key FROM memory_gone WHERE tenant = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let found = select.query_map((tenant, after, limit(most)), |row| {
        Ok(Change {
            seq: unsigned(row, 0)?,
            key: row.get(1)?,
            sketch: None,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

struct Sketches<'a> {
    db: &'a Connection,
    bodies: CachedStatement<'a>,
}

impl<'a> Sketches<'a> {
    fn new(db: &'a Connection) -> Result<Self, Fault> {
        Ok(Self {
            db,
            bodies: db.prepare_cached("SELECT body FROM memory_bodies WHERE record = ?1")?,
        })
    }

    fn sketch(&mut self, row: &Row<'_>, key: i64) -> Result<Option<Sketch>, Fault> {
        if row.get(3)? {
            return Ok(None);
        }
        let number = row.get(2)?;
        if is_text(number) {
            return Ok(Some(Sketch::Text(text(row)?)));
        }
        let kind = kind_of(number)?;
        let read = |body: &Row<'_>| load::parse(kind, body.get_ref(0)?.as_str()?);
        let record = self.bodies.query_row([key], read)?;
        let (valid_from, valid_to) = (row.get(11)?, row.get(12)?);
        let (given, texts): (bool, i64) = (row.get(17)?, row.get(18)?);
        Ok(match record {
            Record::Entity(entity) => Some(Sketch::Entity(EntitySketch {
                id: entity.id,
                entity_type: entity.entity_type,
                names: entities::names(self.db, key)?,
                mentions: entity.mentions.saturating_add(texts.unsigned_abs()),
                salience: entity.salience,
                confidence: entity.confidence.unwrap_or(1.0),
                has_properties: !entity.properties.is_empty() || !entity.aliases.is_empty(),
                valid_from,
                valid_to,
            })),
            Record::Relation(relation) => {
                let first = match given {
                    true => relation.weight.unwrap_or(1.0),
                    false => 0.0,
                };
                Some(Sketch::Relation(RelationSketch {
                    relation_type: relation.relation_type,
                    source_id: relation.source_id,
                    target_id: relation.target_id,
                    weight: relations::weight(first, texts),
                    at: row.get(9)?,
                    valid_from,
                    valid_to,
                }))
            }
            Record::Pattern(pattern) => Some(Sketch::Pattern(PatternSketch {
                conditions: pattern.conditions,
                applications: pattern.applications,
                successes: pattern.successes,
                scope: pattern.scope,
                valid_from,
                valid_to,
            })),
            Record::Event(_) | Record::Chunk(_) | Record::Task(_) => None,
        })
    }
}

fn text(row: &Row<'_>) -> rusqlite::Result<TextSketch> {
    let kind = kind_of(row.get(2)?)?;
    let session: Option<String> = row.get(5)?;
    Ok(TextSketch {
        kind,
        event_type: row.get(4)?,
        session: match (session, kind) {
            (None, RecordKind::Chunk) => row.get(7)?,
            (session, _) => session,
        },
        task: row.get(6)?,
        speaker: row.get(8)?,
        at: row.get(9)?,
        index: row.get(10)?,
        valid_from: row.get(11)?,
        valid_to: row.get(12)?,
        outcome: row.get::<_, Option<i64>>(13)?.and_then(outcome_of),
        words: row.get(14)?,
        vector: row.get(15)?,
        mentions: unpack(row.get_ref(16)?.as_blob_or_null()?),
    })
}
