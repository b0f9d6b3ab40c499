//! Relations: the entities that they connect, and the texts that mention them.

use crate::driver::{Connection, OptionalExtension};
use contexture_store::{Derived, Record, RecordKind, RelationRecord, Remembered};

use super::batch::Batch;
use super::prepare::{Prepared, body, digest, tag};
use super::{kind, load};
use crate::error::Fault;

/// A row of `memory_ends`.
struct Ends {
    relation: i64,
    source: i64,
    target: i64,
    relation_type: String,
}

impl Batch<'_> {
    pub(super) fn keep_relation(&mut self, new: &Prepared, now: i64) -> Result<Remembered, Fault> {
        let ends = self.known_ends(new)?;
        let mut found = self.find(new.kind, &new.id)?;
        if let (None, Some((source, target))) = (&found, ends)
            && let Some(derived) = self.between(&new.record_type, source, target)?
        {
            found = Some(self.row(derived)?).filter(|row| !row.given);
        }
        let outcome = match found {
            None => Remembered::Added(self.insert(new, true, new.at.unwrap_or(now), None)?),
            Some(old) if self.is_unchanged(&old, new)? => {
                if old.archived {
                    self.restore(&old)?;
                }
                return Ok(Remembered::Unchanged(old.key));
            }
            Some(old) => {
                self.replace(&old, new, new.at.unwrap_or(old.at), None)?;
                match old.given {
                    true => Remembered::Replaced(old.key),
                    false => Remembered::Added(old.key),
                }
            }
        };
        self.put_ends(outcome.key(), ends, &new.record_type)?;
        Ok(outcome)
    }

    /// Returns the entities that a relation connects, when both exist.
    fn known_ends(&self, new: &Prepared) -> Result<Option<(i64, i64)>, Fault> {
        let Some((source, target)) = &new.ends else {
            return Ok(None);
        };
        let user = new.user.as_deref();
        let source = self.entity_at_end(source, user)?;
        let target = self.entity_at_end(target, user)?;
        Ok(source.zip(target))
    }

    fn put_ends(
        &self,
        relation: i64,
        ends: Option<(i64, i64)>,
        relation_type: &str,
    ) -> Result<(), Fault> {
        (self.db)
            .prepare_cached("DELETE FROM memory_ends WHERE relation = ?1")?
            .execute([relation])?;
        if let Some((source, target)) = ends {
            (self.db)
                .prepare_cached(
                    "INSERT INTO memory_ends (relation, source, target, type)
                     VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute((relation, source, target, relation_type))?;
        }
        Ok(())
    }

    /// Returns the oldest relation of that type between two entities.
    fn between(&self, relation_type: &str, source: i64, target: i64) -> Result<Option<i64>, Fault> {
        let mut select = self.db.prepare_cached(
            "SELECT relation FROM memory_ends WHERE source = ?1 AND target = ?2 AND type = ?3
             ORDER BY relation LIMIT 1",
        )?;
        let found = select.query_row((source, target, relation_type), |row| row.get(0));
        Ok(found.optional()?)
    }

    /// Records that a text mentions a relation. Creates the relation if it does
    /// not exist.
    pub(super) fn link(
        &mut self,
        text: i64,
        at: i64,
        relation_type: &str,
        source: i64,
        target: i64,
    ) -> Result<(), Fault> {
        let relation = match self.between(relation_type, source, target)? {
            Some(relation) => relation,
            None => self.make_relation(at, relation_type, source, target)?,
        };
        if self.put_evidence(relation, text)? {
            self.touch(relation, 1, 1);
        }
        Ok(())
    }

    fn put_evidence(&self, relation: i64, text: i64) -> Result<bool, Fault> {
        let added = (self.db)
            .prepare_cached(
                "INSERT INTO memory_evidence (relation, record) VALUES (?1, ?2)
                 ON CONFLICT DO NOTHING",
            )?
            .change((relation, text))?;
        Ok(added > 0)
    }

    fn make_relation(
        &mut self,
        at: i64,
        relation_type: &str,
        source: i64,
        target: i64,
    ) -> Result<i64, Fault> {
        let new = self.derived(relation_type, source, target)?;
        let key = match self.find(kind::RELATION, &new.id)? {
            // The relation was recorded before its entities existed.
            Some(there) => there.key,
            None => self.insert(&new, false, at, None)?,
        };
        self.put_ends(key, Some((source, target)), relation_type)?;
        Ok(key)
    }

    /// Returns a derived relation between two entities.
    fn derived(&self, relation_type: &str, source: i64, target: i64) -> Result<Prepared, Fault> {
        let (source_id, target_id) = (self.row(source)?.id, self.row(target)?.id);
        let relation = RelationRecord {
            id: format!("{source_id} {relation_type} {target_id}"),
            relation_type: relation_type.to_owned(),
            source_id,
            target_id,
            ..RelationRecord::default()
        };
        let mut new = Prepared::relation(&relation)?;
        new.digest = digest(&new.body, &new.derived);
        Ok(new)
    }

    /// Returns the relations that a text mentions.
    pub(super) fn relations_of(&self, text: i64) -> Result<Vec<i64>, Fault> {
        let mut select =
            (self.db).prepare_cached("SELECT relation FROM memory_evidence WHERE record = ?1")?;
        let found = select.query_map([text], |row| row.get(0))?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    fn ends_at(&self, entity: i64) -> Result<Vec<Ends>, Fault> {
        let mut select = self.db.prepare_cached(
            "SELECT relation, source, target, type FROM memory_ends WHERE source = ?1
             UNION SELECT relation, source, target, type FROM memory_ends WHERE target = ?1
             ORDER BY relation",
        )?;
        let found = select.query_map([entity], |row| {
            Ok(Ends {
                relation: row.get(0)?,
                source: row.get(1)?,
                target: row.get(2)?,
                relation_type: row.get(3)?,
            })
        })?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// Writes the new id of an entity into its derived relations.
    pub(super) fn rename_end(&mut self, entity: i64) -> Result<(), Fault> {
        self.move_ends(entity, entity)
    }

    /// Moves the relations of one entity to another.
    pub(super) fn move_ends(&mut self, from: i64, into: i64) -> Result<(), Fault> {
        for ends in self.ends_at(from)? {
            let meant = |key: i64| if key == from { into } else { key };
            let (source, target) = (meant(ends.source), meant(ends.target));
            if self.row(ends.relation)?.given {
                self.put_ends(ends.relation, Some((source, target)), &ends.relation_type)?;
                continue;
            }
            let new = self.derived(&ends.relation_type, source, target)?;
            let there = self.between(&ends.relation_type, source, target)?;
            let there = match there.filter(|there| *there != ends.relation) {
                None => self.find(kind::RELATION, &new.id)?.map(|row| row.key),
                there => there,
            };
            match there.filter(|there| *there != ends.relation) {
                Some(there) => self.merge(ends.relation, there)?,
                None => {
                    self.put_ends(ends.relation, Some((source, target)), &ends.relation_type)?;
                    let tag = tag(self.tenant, kind::RELATION, &new.id);
                    (self.db)
                        .prepare_cached(
                            "UPDATE memories SET id = ?2, digest = ?3, tag = ?4 WHERE key = ?1",
                        )?
                        .execute((ends.relation, &new.id, new.digest, tag))?;
                    self.put_body(ends.relation, &new.body)?;
                    self.changed(ends.relation, kind::RELATION)?;
                }
            }
        }
        Ok(())
    }

    /// Moves the evidence of one relation to the relation that replaces it.
    fn merge(&mut self, from: i64, into: i64) -> Result<(), Fault> {
        let texts: Vec<(i64, bool)> = {
            let mut select = self.db.prepare_cached(
                "SELECT e.record, m.archived FROM memory_evidence e
                 JOIN memories m ON m.key = e.record WHERE e.relation = ?1",
            )?;
            let found = select.query_map([from], |row| Ok((row.get(0)?, row.get(1)?)))?;
            found.collect::<Result<_, _>>()?
        };
        for (text, archived) in texts {
            if self.put_evidence(into, text)? {
                self.touch(into, i64::from(!archived), 1);
            }
        }
        self.remove(from)
    }

    /// Removes the derived relations of an entity.
    pub(super) fn remove_derived_at(&mut self, entity: i64) -> Result<(), Fault> {
        for ends in self.ends_at(entity)? {
            if !self.row(ends.relation)?.given {
                self.remove(ends.relation)?;
            }
        }
        Ok(())
    }

    /// Removes the id of a deleted record from the records that refer to it.
    pub(super) fn remove_references(&mut self, kind: RecordKind, id: &str) -> Result<(), Fault> {
        let naming: Vec<i64> = {
            let mut select = self.db.prepare_cached(
                "SELECT record FROM memory_references WHERE tenant = ?1 AND id = ?2",
            )?;
            let found = select.query_map((self.tenant, id), |row| row.get(0))?;
            found.collect::<Result<_, _>>()?
        };
        for key in naming {
            self.unname_in(key, kind, id)?;
        }
        Ok(())
    }

    fn unname_in(&self, key: i64, kind: RecordKind, id: &str) -> Result<(), Fault> {
        let Some((mut record, _)) = load::both(self.db, self.tenant, key)? else {
            return Ok(());
        };
        let before = record.clone();
        let own = record.kind();
        let clear = |field: &mut Option<String>, named: RecordKind| {
            if named == kind && field.as_deref() == Some(id) {
                *field = None;
            }
        };
        let body = match &mut record {
            Record::Event(event) => {
                clear(&mut event.parent_id, RecordKind::Event);
                clear(&mut event.supersedes, own);
                body(event)
            }
            Record::Chunk(chunk) => {
                clear(&mut chunk.supersedes, own);
                body(chunk)
            }
            Record::Entity(entity) => {
                clear(&mut entity.supersedes, own);
                body(entity)
            }
            Record::Relation(relation) => {
                clear(&mut relation.supersedes, own);
                if matches!(kind, RecordKind::Event | RecordKind::Chunk) {
                    relation.evidence.retain(|named| named != id);
                }
                body(relation)
            }
            Record::Pattern(pattern) => {
                clear(&mut pattern.supersedes, own);
                body(pattern)
            }
            Record::Task(_) => return Ok(()),
        }?;
        if record == before {
            return Ok(());
        }
        self.put_body(key, &body)?;
        // The derived data has not changed.
        let mut old = self.row(key)?.digest;
        let fresh = digest(&body, &Derived::default());
        old.splice(..16.min(old.len()), fresh[..16].iter().copied());
        (self.db)
            .prepare_cached("UPDATE memories SET digest = ?2 WHERE key = ?1")?
            .execute((key, old))?;
        (self.db)
            .prepare_cached(
                "DELETE FROM memory_references WHERE tenant = ?1 AND id = ?2 AND record = ?3",
            )?
            .execute((self.tenant, id, key))?;
        Ok(())
    }
}

/// Returns the weight of a relation. Each text adds half of the difference to
/// 1.
pub(super) fn weight(given: f64, texts: i64) -> f64 {
    if texts <= 0 {
        return given;
    }
    let halvings = i32::try_from(texts).unwrap_or(i32::MAX);
    1.0 - (1.0 - given) * 0.5_f64.powi(halvings)
}

/// Returns the keys of the latest texts that mention a relation, oldest first.
pub(super) fn texts_of(db: &Connection, relation: i64) -> Result<Vec<i64>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT e.record FROM memory_evidence e JOIN memories m ON m.key = e.record
         WHERE e.relation = ?1 AND m.archived = 0 ORDER BY e.record DESC LIMIT 32",
    )?;
    let found = select.query_map([relation], |row| row.get(0))?;
    let mut found = found.collect::<Result<Vec<i64>, _>>()?;
    found.reverse();
    Ok(found)
}

/// Returns the ids of the texts that mention a relation, oldest first.
pub(super) fn evidence(db: &Connection, relation: i64) -> Result<Vec<String>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT m.id FROM memory_evidence e JOIN memories m ON m.key = e.record
         WHERE e.relation = ?1 AND m.archived = 0 ORDER BY e.record",
    )?;
    let found = select.query_map([relation], |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}
