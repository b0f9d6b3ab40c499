//! Reads the changes from which an index is built and updated.

use contexture_store::{
    Change, EntitySketch, PatternSketch, Record, RecordKind, RelationSketch, Sketch, TextSketch,
};
use rusqlite::{CachedStatement, Connection, Row, Rows};

use super::{entities, is_text, kind_of, load, outcome_of, relations, unpack};
use crate::error::Fault;
use crate::row::{limit, unsigned};

/// Returns changes in their order. They come from two places: texts and
/// patterns, and everything else.
pub(super) fn changes(
    db: &Connection,
    tenant: i64,
    after: u64,
    most: usize,
) -> Result<Vec<Change>, Fault> {
    let Ok(after) = i64::try_from(after) else {
        return Ok(Vec::new());
    };
    let mut sketches = Sketches::new(db)?;
    // Nothing of what is read for texts has to be parsed.
    let mut select = db.prepare_cached(
        "SELECT seq, key, kind, archived, type, session, task, source, speaker, at, idx,
             valid_from, valid_to, outcome, words, vector, mentions,
             (SELECT l.vector FROM memory_later l WHERE l.record = memories.key)
         FROM memories WHERE tenant = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let mut texts = select.query((tenant, after, limit(most)))?;
    let mut select = db.prepare_cached(
        "SELECT seq, key, given, texts FROM memory_counts WHERE tenant = ?1 AND seq > ?2
         UNION ALL SELECT seq, key, NULL, NULL FROM memory_gone WHERE tenant = ?1 AND seq > ?2
         ORDER BY seq LIMIT ?3",
    )?;
    let mut others = select.query((tenant, after, limit(most)))?;
    let mut other = Other::next(&mut others)?;
    let mut changes = Vec::new();
    while let Some(row) = texts.next()? {
        let seq = unsigned(row, 0)?;
        while let Some(before) = other.take_if(|other| other.seq < seq && changes.len() < most) {
            changes.push(sketches.other(&before)?);
            other = Other::next(&mut others)?;
        }
        if changes.len() >= most {
            return Ok(changes);
        }
        let (key, sketch) = (row.get(1)?, sketches.sketch(row)?);
        changes.push(Change { seq, key, sketch });
    }
    while let Some(rest) = other.take_if(|_| changes.len() < most) {
        changes.push(sketches.other(&rest)?);
        other = Other::next(&mut others)?;
    }
    Ok(changes)
}

/// A change to an entity or a relation, or of something that is gone.
struct Other {
    seq: u64,
    key: i64,
    /// Whether it was given, and how many texts tell of it; `None` when it is
    /// gone.
    counts: Option<(bool, i64)>,
}

impl Other {
    fn next(rows: &mut Rows<'_>) -> Result<Option<Other>, Fault> {
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let given: Option<bool> = row.get(2)?;
        Ok(Some(Other {
            seq: unsigned(row, 0)?,
            key: row.get(1)?,
            counts: given.zip(row.get(3)?),
        }))
    }
}

struct Sketches<'a> {
    db: &'a Connection,
    bodies: CachedStatement<'a>,
}

impl<'a> Sketches<'a> {
    fn new(db: &'a Connection) -> Result<Self, Fault> {
        let bodies = db.prepare_cached(
            "SELECT m.kind, m.archived, m.at, m.valid_from, m.valid_to, b.body
             FROM memories m JOIN memory_bodies b ON b.record = m.key WHERE m.key = ?1",
        )?;
        Ok(Self { db, bodies })
    }

    /// Returns the sketch of a text or a pattern.
    fn sketch(&mut self, row: &Row<'_>) -> Result<Option<Sketch>, Fault> {
        if row.get(3)? {
            return Ok(None);
        }
        if is_text(row.get(2)?) {
            return Ok(Some(Sketch::Text(text(row)?)));
        }
        self.parsed(row.get(1)?, (true, 0))
    }

    fn other(&mut self, other: &Other) -> Result<Change, Fault> {
        let sketch = match other.counts {
            Some(counts) => self.parsed(other.key, counts)?,
            None => None,
        };
        Ok(Change {
            seq: other.seq,
            key: other.key,
            sketch,
        })
    }

    /// Returns the sketch of a record that is no text, from what it says.
    fn parsed(&mut self, key: i64, counts: (bool, i64)) -> Result<Option<Sketch>, Fault> {
        let db = self.db;
        let (given, texts) = counts;
        let mut rows = self.bodies.query([key])?;
        let Some(row) = rows.next()? else {
            return Err(rusqlite::Error::QueryReturnedNoRows.into());
        };
        if row.get(1)? {
            return Ok(None);
        }
        let (valid_from, valid_to) = (row.get(3)?, row.get(4)?);
        let record = load::parse(kind_of(row.get(0)?)?, &row.get::<_, String>(5)?)?;
        let owner = record.scope();
        Ok(match record {
            Record::Entity(entity) => Some(Sketch::Entity(EntitySketch {
                id: entity.id,
                entity_type: entity.entity_type,
                names: entities::names(db, key)?,
                mentions: entity.mentions.saturating_add(texts.unsigned_abs()),
                salience: entity.salience,
                confidence: entity.confidence.unwrap_or(1.0),
                texts: texts.unsigned_abs(),
                given,
                valid_from,
                valid_to,
                owner,
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
                    derived_from: match given {
                        true => Vec::new(),
                        false => relations::told_by(self.db, key)?,
                    },
                    at: row.get(2)?,
                    valid_from,
                    valid_to,
                    owner,
                }))
            }
            Record::Pattern(pattern) => Some(Sketch::Pattern(PatternSketch {
                conditions: pattern.conditions,
                applications: pattern.applications,
                successes: pattern.successes,
                scope: pattern.scope,
                valid_from,
                valid_to,
                owner,
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
        later: row.get(17)?,
        mentions: unpack(row.get_ref(16)?.as_blob_or_null()?),
    })
}
