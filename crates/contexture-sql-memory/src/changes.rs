//! Reads the changes from which an index is built and updated.

use std::ops::ControlFlow;

use crate::driver::{Connection, Row, Statement};
use contexture_store::{
    Change, EntitySketch, PatternSketch, Record, RecordKind, RelationSketch, Sketch, TextSketch,
};

use super::{entities, is_text, kind_of, load, outcome_of, relations, unpack};
use crate::error::Fault;
use crate::row::{limit, unsigned};

/// Returns changes in their order. It merges two queries: texts and patterns,
/// and all other kinds.
pub fn changes(
    db: &Connection,
    tenant: i64,
    after: u64,
    most: usize,
) -> Result<Vec<Change>, Fault> {
    let Ok(after) = i64::try_from(after) else {
        return Ok(Vec::new());
    };
    // A caller that begins with the first change needs every record.
    if after == 0 && !db.has_all_memories()? {
        return Err(Fault::damaged(
            "the memory",
            "its indexes do not have the same records; restore a backup",
        ));
    }
    let mut sketches = Sketches::new(db)?;
    // The columns suffice for texts: no JSON is parsed.
    let mut texts = db.prepare_cached(
        "SELECT seq, key, kind, archived, type, session, task, source, speaker, at, idx,
             valid_from, valid_to, outcome, words, vector, mentions,
             (SELECT l.vector FROM memory_later l WHERE l.record = memories.key)
         FROM memories WHERE tenant = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let mut select = db.prepare_cached(
        "SELECT seq, key, given, texts FROM memory_counts WHERE tenant = ?1 AND seq > ?2
         UNION ALL SELECT seq, key, NULL, NULL FROM memory_gone WHERE tenant = ?1 AND seq > ?2
         ORDER BY seq LIMIT ?3",
    )?;
    let others = select.query_map((tenant, after, limit(most)), Other::read)?;
    let mut others = others
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .peekable();
    let mut changes = Vec::new();
    texts.for_each((tenant, after, limit(most)), |row| {
        let seq = unsigned(row, 0)?;
        while changes.len() < most
            && let Some(before) = others.next_if(|other| other.seq < seq)
        {
            changes.push(sketches.other(&before)?);
        }
        if changes.len() >= most {
            return Ok(ControlFlow::Break(()));
        }
        let (key, sketch) = (row.get(1)?, sketches.sketch(row)?);
        changes.push(Change { seq, key, sketch });
        Ok::<_, Fault>(ControlFlow::Continue(()))
    })?;
    let room = most.saturating_sub(changes.len());
    for rest in others.take(room) {
        changes.push(sketches.other(&rest)?);
    }
    Ok(changes)
}

/// A change of an entity or a relation, or a deletion.
struct Other {
    seq: u64,
    key: i64,
    /// Whether the record was recorded explicitly, and the number of texts that
    /// mention it. `None` for a deletion.
    counts: Option<(bool, i64)>,
}

impl Other {
    fn read(row: &Row<'_>) -> crate::driver::Result<Other> {
        let given: Option<bool> = row.get(2)?;
        Ok(Other {
            seq: unsigned(row, 0)?,
            key: row.get(1)?,
            counts: given.zip(row.get(3)?),
        })
    }
}

struct Sketches<'a> {
    db: &'a Connection,
    bodies: Statement<'a>,
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

    /// Returns the sketch of an entity or a relation, from its JSON.
    fn parsed(&mut self, key: i64, counts: (bool, i64)) -> Result<Option<Sketch>, Fault> {
        let db = self.db;
        let (given, texts) = counts;
        let found = self.bodies.query_row([key], |row| {
            if row.get(1)? {
                return Ok(None);
            }
            let record = load::parse(kind_of(row.get(0)?)?, row.get_ref(5)?.as_str()?)?;
            Ok(Some((record, row.get(2)?, row.get(3)?, row.get(4)?)))
        })?;
        let Some((record, at, valid_from, valid_to)) = found else {
            return Ok(None);
        };
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
                        false => relations::texts_of(self.db, key)?,
                    },
                    at,
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

fn text(row: &Row<'_>) -> crate::driver::Result<TextSketch> {
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
        outcome: row.get::<Option<i64>>(13)?.and_then(outcome_of),
        words: row.get(14)?,
        vector: row.get(15)?,
        later: row.get(17)?,
        mentions: unpack(row.get_ref(16)?.as_blob_or_null()?),
    })
}
