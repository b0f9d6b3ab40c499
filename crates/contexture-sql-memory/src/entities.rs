//! Entities: their names, and the merge of derived entities when one is
//! recorded explicitly.

use std::collections::BTreeSet;

use crate::driver::{Connection, OptionalExtension};
use contexture_store::{EntityRecord, Mention, Remembered};

use super::batch::{Batch, Row};
use super::kind;
use super::prepare::{Prepared, digest};
use super::remember::distinct;
use crate::error::Fault;

impl Batch<'_> {
    pub(super) fn keep_entity(&mut self, new: &Prepared, now: i64) -> Result<Remembered, Fault> {
        let found = match self.find(new.kind, &new.id)? {
            None => self.derived_namesake(new)?,
            found => found,
        };
        let outcome = match found {
            None => Remembered::Added(self.insert(new, true, new.at.unwrap_or(now), None)?),
            Some(old) if self.is_unchanged(&old, new)? => {
                if old.archived {
                    self.restore(&old)?;
                }
                return Ok(Remembered::Unchanged(old.key));
            }
            Some(old) => {
                self.replace(&old, new, old.at, None)?;
                if old.id != new.id {
                    self.rename_end(old.key)?;
                }
                match old.given {
                    true => Remembered::Replaced(old.key),
                    false => Remembered::Added(old.key),
                }
            }
        };
        self.put_names(outcome.key(), &new.derived.names)?;
        for namesake in self.derived_namesakes(new, outcome.key())? {
            // No other entity may have the name.
            self.put_names(namesake, &[])?;
            self.merged_entities.insert(namesake, outcome.key());
        }
        // Names may refer to other entities now.
        self.entities.clear();
        Ok(outcome)
    }

    /// Returns the first derived entity of the same type and name.
    fn derived_namesake(&self, new: &Prepared) -> Result<Option<Row>, Fault> {
        let namesakes = self.derived_namesakes(new, 0)?;
        let first = namesakes.first().map(|key| self.row(*key));
        first.transpose()
    }

    /// Returns the derived entities, except `but`, with the same type and one
    /// of the names, in the order of the names.
    fn derived_namesakes(&self, new: &Prepared, but: i64) -> Result<Vec<i64>, Fault> {
        let mut found = Vec::new();
        let mut select = self.db.prepare_cached(
            "SELECT m.key FROM memory_names n JOIN memories m ON m.key = n.entity
             JOIN memory_counts c ON c.key = n.entity
             WHERE n.tenant = ?1 AND n.name = ?2 AND m.type = ?3 AND c.given = 0 AND m.key <> ?4
                 AND m.user IS NOT DISTINCT FROM ?5
             ORDER BY m.key",
        )?;
        for name in &new.derived.names {
            let of = (self.tenant, name, &new.record_type, but, &new.user);
            let keys = select.query_map(of, |row| row.get(0))?;
            for key in keys {
                found.push(key?);
            }
        }
        Ok(distinct(&found))
    }

    pub(super) fn has_names(&self, old: &Row, new: &Prepared) -> Result<bool, Fault> {
        Ok(names(self.db, old.key)? == new.derived.names)
    }

    fn put_names(&self, entity: i64, names: &[String]) -> Result<(), Fault> {
        (self.db)
            .prepare_cached("DELETE FROM memory_names WHERE entity = ?1")?
            .execute([entity])?;
        let mut insert = self.db.prepare_cached(
            "INSERT INTO memory_names (tenant, name, entity, place) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO NOTHING",
        )?;
        for (place, name) in names.iter().enumerate() {
            insert.execute((self.tenant, name, entity, place as i64))?;
        }
        Ok(())
    }

    /// Moves the texts and relations of merged entities to the entities that
    /// replace them.
    pub(super) fn absorb(&mut self) -> Result<(), Fault> {
        let mut merged_entities = std::mem::take(&mut self.merged_entities);
        // An entity may have been recorded explicitly in the meantime.
        let mut is_derived = Vec::new();
        for from in merged_entities.keys() {
            let row = self.row_if_any(*from)?;
            is_derived.extend(row.filter(|row| !row.given).map(|row| row.key));
        }
        merged_entities.retain(|from, _| is_derived.contains(from));
        for text in self.texts_of(&is_derived)? {
            let row = self.row(text)?;
            let meant = |key: &i64| merged_entities.get(key).copied().unwrap_or(*key);
            let mentions: Vec<i64> = row.mentions.iter().map(meant).collect();
            let mentions = distinct(&mentions);
            for new in mentions.iter().filter(|key| !row.mentions.contains(key)) {
                self.touch(*new, i64::from(!row.archived), 1);
            }
            self.put_mentions(text, &mentions)?;
        }
        for (from, into) in merged_entities {
            self.move_ends(from, into)?;
            self.remove(from)?;
        }
        Ok(())
    }

    /// Removes an entity from the mentions of all texts.
    pub(super) fn unmention(&mut self, entity: i64) -> Result<(), Fault> {
        for text in self.texts_of(&[entity])? {
            let mut mentions = self.row(text)?.mentions;
            mentions.retain(|key| *key != entity);
            self.put_mentions(text, &mentions)?;
        }
        Ok(())
    }

    /// Returns the texts that mention one of the entities, archived texts
    /// included. Reads the mentions of all texts.
    fn texts_of(&self, entities: &[i64]) -> Result<Vec<i64>, Fault> {
        if entities.is_empty() {
            return Ok(Vec::new());
        }
        // Several entities share one statement, because SQLite reads all
        // mentions for each.
        let mut select = self.db.prepare_cached(
            "SELECT record FROM memory_mentions WHERE entity IN (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        let mut texts = BTreeSet::new();
        for some in entities.chunks(8) {
            let mut eight = [some[0]; 8];
            eight[..some.len()].copy_from_slice(some);
            for text in select.query_map(eight, |row| row.get(0))? {
                texts.insert(text?);
            }
        }
        Ok(texts.into_iter().collect())
    }

    fn put_mentions(&mut self, text: i64, mentions: &[i64]) -> Result<(), Fault> {
        let seq = self.next_seq();
        (self.db)
            .prepare_cached("UPDATE memories SET mentions = ?2, seq = ?3 WHERE key = ?1")?
            .execute((text, super::pack(mentions), seq))?;
        (self.db)
            .prepare_cached("DELETE FROM memory_mentions WHERE record = ?1")?
            .execute([text])?;
        let mut insert = (self.db)
            .prepare_cached("INSERT INTO memory_mentions (record, entity) VALUES (?1, ?2)")?;
        for entity in mentions {
            insert.execute((text, entity))?;
        }
        Ok(())
    }

    /// Returns the entity of each mention. Creates the entities that do not
    /// exist.
    pub(super) fn resolve(
        &mut self,
        mentions: &[Mention],
        user: Option<&str>,
    ) -> Result<Vec<i64>, Fault> {
        let mut keys = Vec::with_capacity(mentions.len());
        for mention in mentions {
            let (key, kind) = (mention.key.clone(), mention.entity_type.clone());
            let name = (key, kind, user.map(str::to_owned));
            let key = match self.entities.get(&name) {
                Some(key) => *key,
                None => {
                    let key = self.entity_meant(mention, user)?;
                    self.entities.insert(name, key);
                    key
                }
            };
            keys.push(key);
        }
        Ok(keys)
    }

    fn entity_meant(&mut self, mention: &Mention, user: Option<&str>) -> Result<i64, Fault> {
        if let Some(key) = self.entity_called(&mention.key, &mention.entity_type, user)? {
            return Ok(key);
        }
        let id = match user {
            Some(user) => format!("{}:{} ({user})", mention.entity_type, mention.key),
            None => format!("{}:{}", mention.entity_type, mention.key),
        };
        // The entity may have been recorded with this id and other names.
        if let Some(there) = self.find(kind::ENTITY, &id)? {
            return Ok(there.key);
        }
        let entity = EntityRecord {
            id,
            entity_type: mention.entity_type.clone(),
            name: mention.name.clone(),
            user: user.map(str::to_owned),
            ..EntityRecord::default()
        };
        let mut new = Prepared::entity(&entity)?;
        new.user.clone_from(&entity.user);
        new.derived.names = vec![mention.key.clone()];
        new.digest = digest(&new.body, &new.derived);
        let key = self.insert(&new, false, 0, None)?;
        self.put_names(key, &new.derived.names)?;
        Ok(key)
    }

    /// Returns the entity with this name. The user's own entity comes before
    /// one that was recorded for all users; then the entity of this type; then
    /// the oldest. Entities that were derived from texts of other users are
    /// ignored.
    fn entity_called(
        &self,
        name: &str,
        entity_type: &str,
        user: Option<&str>,
    ) -> Result<Option<i64>, Fault> {
        let mut select = self.db.prepare_cached(
            "SELECT m.key FROM memory_names n JOIN memories m ON m.key = n.entity
             WHERE n.tenant = ?1 AND n.name = ?2 AND (m.user IS NOT DISTINCT FROM ?4
                 OR (m.user IS NULL
                 AND (SELECT given FROM memory_counts c WHERE c.key = m.key) = 1))
             ORDER BY (m.user IS NOT DISTINCT FROM ?4) DESC, (m.type = ?3) DESC, m.key LIMIT 1",
        )?;
        let found = select.query_row((self.tenant, name, entity_type, user), |row| row.get(0));
        Ok(found.optional()?)
    }

    /// Returns the entity at an end of a relation: by its id, otherwise by its
    /// name.
    pub(super) fn entity_at_end(
        &self,
        end: &str,
        user: Option<&str>,
    ) -> Result<Option<i64>, Fault> {
        match self.find(kind::ENTITY, end)? {
            Some(entity) => Ok(Some(entity.key)),
            None => self.entity_called(end, "", user),
        }
    }
}

/// Returns the names of an entity, normalised, in the order given.
pub(super) fn names(db: &Connection, entity: i64) -> Result<Vec<String>, Fault> {
    let mut select =
        db.prepare_cached("SELECT name FROM memory_names WHERE entity = ?1 ORDER BY place")?;
    let found = select.query_map([entity], |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}
