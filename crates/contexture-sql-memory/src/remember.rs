//! Stores records.

use std::collections::BTreeSet;

use crate::driver::Connection;
use contexture_store::{Analysis, RecordKind, Remembered, StoreError, TaskRecord};
use jiff::Timestamp;

use super::batch::{Batch, Row, ended};
use super::prepare::{Item, Prepared, PreparedRecords, at};
use super::{embed, is_text, kind, kind_of, load, pack};
use crate::error::Fault;
use crate::tasks;

/// Stores prepared records with everything that is derived from them.
pub fn remember(
    db: &Connection,
    tenant: i64,
    PreparedRecords(items): &PreparedRecords,
    analysis: &Analysis,
    now: Timestamp,
) -> Result<Vec<Remembered>, Fault> {
    let mut batch = Batch::open(db, tenant)?;
    let records = || {
        items.iter().filter_map(|item| match item {
            Item::Record(record) => Some(&**record),
            Item::Task(_) => None,
        })
    };
    if records().any(|record| is_text(record.kind)) {
        embed::agree(&mut batch, analysis)?;
    }
    let now_ms = now.as_millisecond();
    let mut outcomes = vec![Remembered::Unchanged(0); items.len()];
    // Entities come first, because names in the texts of the same batch refer
    // to them.
    let is_entity = |record: &&Prepared| record.kind == kind::ENTITY;
    for record in records().filter(is_entity) {
        outcomes[record.place] = batch.keep_entity(record, now_ms)?;
    }
    batch.absorb()?;
    for record in records().filter(|record| !is_entity(record)) {
        outcomes[record.place] = match record.kind {
            kind::RELATION => batch.keep_relation(record, now_ms)?,
            _ => batch.keep(record, now_ms)?,
        };
    }
    for record in records().filter(|record| record.supersedes.is_some()) {
        batch.supersede(record, outcomes[record.place], now_ms)?;
    }
    batch.close()?;
    keep_tasks(db, tenant, items, now, &mut outcomes)?;
    Ok(outcomes)
}

fn keep_tasks(
    db: &Connection,
    tenant: i64,
    items: &[Item],
    now: Timestamp,
    outcomes: &mut [Remembered],
) -> Result<(), Fault> {
    let tasks: Vec<(usize, &TaskRecord)> = (items.iter().enumerate())
        .filter_map(|(place, item)| match item {
            Item::Task(task) => Some((place, task)),
            Item::Record(_) => None,
        })
        .collect();
    for (place, outcome) in tasks::import(db, tenant, &tasks, now)? {
        outcomes[place] = outcome;
    }
    Ok(())
}

impl Batch<'_> {
    /// Stores an event, a chunk or a pattern.
    fn keep(&mut self, new: &Prepared, now: i64) -> Result<Remembered, Fault> {
        let Some(old) = self.find(new.kind, &new.id)? else {
            let mentions = self.resolve(&new.derived.mentions, new.user.as_deref())?;
            let at = new.at.unwrap_or(now);
            let key = self.insert(new, true, at, pack(&distinct(&mentions)).as_deref())?;
            self.add_mentions(key, new, at, &mentions)?;
            return Ok(Remembered::Added(key));
        };
        if self.is_unchanged(&old, new)? {
            self.fill_in(&old, new)?;
            if old.archived {
                self.restore(&old)?;
            }
            return Ok(Remembered::Unchanged(old.key));
        }
        self.remove_mentions(&old)?;
        let mentions = self.resolve(&new.derived.mentions, new.user.as_deref())?;
        let at = new.at.unwrap_or(old.at);
        self.replace(&old, new, at, pack(&distinct(&mentions)).as_deref())?;
        self.add_mentions(old.key, new, at, &mentions)?;
        Ok(Remembered::Replaced(old.key))
    }

    /// Returns true when a record equals the stored one: in its recorded form,
    /// or in the form that callers get.
    pub(crate) fn is_unchanged(&self, old: &Row, new: &Prepared) -> Result<bool, Fault> {
        if old.digest == new.digest {
            // An explicit record of a derived entity is a change.
            return Ok(old.given);
        }
        if old.digest.get(16..) != new.digest.get(16..) && is_text(new.kind) {
            return Ok(false);
        }
        // The comparison ignores the order of fields in an object, and the
        // times, ends and counts that the store has set.
        let kind = kind_of(new.kind)?;
        let said = load::parse(kind, &new.body)?;
        let Some((given, handed_out)) = load::both(self.db, self.tenant, old.key)? else {
            return Ok(false);
        };
        let same = (old.given && said == given) || said == handed_out;
        Ok(same && (kind != RecordKind::Entity || self.has_names(old, new)?))
    }

    /// Stores missing words and a missing vector.
    fn fill_in(&mut self, old: &Row, new: &Prepared) -> Result<(), Fault> {
        let words = new.derived.words.as_ref().filter(|_| old.lacks_words);
        let vector = new.derived.vector.as_ref().filter(|_| old.lacks_vector);
        if words.is_none() && vector.is_none() {
            return Ok(());
        }
        let seq = self.next_seq();
        (self.db)
            .prepare_cached(
                "UPDATE memories SET words = coalesce(?2, words), vector = coalesce(?3, vector),
                     seq = ?4 WHERE key = ?1",
            )?
            .execute((old.key, words, vector, seq))?;
        Ok(())
    }

    /// Stores the mentions of a text.
    fn add_mentions(
        &mut self,
        key: i64,
        new: &Prepared,
        at: i64,
        mentions: &[i64],
    ) -> Result<(), Fault> {
        for entity in distinct(mentions) {
            (self.db)
                .prepare_cached("INSERT INTO memory_mentions (record, entity) VALUES (?1, ?2)")?
                .execute((key, entity))?;
            self.touch(entity, 1, 1);
        }
        for link in &new.derived.links {
            if let (Some(from), Some(to)) = (mentions.get(link.from), mentions.get(link.to)) {
                self.link(key, at, &link.relation_type, *from, *to)?;
            }
        }
        Ok(())
    }

    /// Removes the mentions of a text.
    pub(crate) fn remove_mentions(&mut self, text: &Row) -> Result<(), Fault> {
        let less = match text.archived {
            true => 0,
            false => -1,
        };
        for entity in &text.mentions {
            self.touch(*entity, less, -1);
        }
        for relation in self.relations_of(text.key)? {
            self.touch(relation, less, -1);
        }
        for sql in [
            "DELETE FROM memory_mentions WHERE record = ?1",
            "DELETE FROM memory_evidence WHERE record = ?1",
        ] {
            self.db.prepare_cached(sql)?.execute([text.key])?;
        }
        Ok(())
    }

    /// Ends the validity of the records that a record supersedes.
    fn supersede(&mut self, new: &Prepared, outcome: Remembered, now: i64) -> Result<(), Fault> {
        let Some(id) = &new.supersedes else {
            return Ok(());
        };
        let Some(old) = self.find(new.kind, id)? else {
            // The records were superseded when this record was first stored.
            if let Remembered::Unchanged(_) = outcome {
                return Ok(());
            }
            let kind = kind_of(new.kind)?.name();
            let missing = StoreError::invalid("supersedes", format!("there is no {kind} `{id}`"));
            return Err(at(new.place, missing).into());
        };
        let end = new.valid_from.or(new.at).unwrap_or(now);
        let superseded = old.superseded.map_or(end, |before| before.min(end));
        let valid_to = ended(old.valid_from, old.valid_to, Some(superseded));
        if old.superseded == Some(superseded) && old.valid_to == valid_to {
            return Ok(());
        }
        (self.db)
            .prepare_cached("UPDATE memories SET superseded = ?2, valid_to = ?3 WHERE key = ?1")?
            .execute((old.key, superseded, valid_to))?;
        self.changed(old.key, old.kind)
    }
}

/// Returns the keys without duplicates, in their order.
pub fn distinct(keys: &[i64]) -> Vec<i64> {
    let mut seen = BTreeSet::new();
    let mut keys = keys.to_vec();
    keys.retain(|key| seen.insert(*key));
    keys
}
