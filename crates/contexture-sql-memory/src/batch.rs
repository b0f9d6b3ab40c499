//! One change to a memory, with any number of records.
//!
//! The batch assigns sequence numbers. At its end it updates the entities and
//! relations that follow from the records, once.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use crate::driver::{Connection, OptionalExtension};
use crate::params;
use contexture_store::RecordKind;

use super::prepare::{Prepared, tag};
use super::{is_counted, kind_of};
use crate::error::{Error, Fault};

pub(super) struct Batch<'a> {
    pub(super) db: &'a Connection,
    pub(super) tenant: i64,
    pub(super) state: State,
    before: State,
    /// The last key that the batch assigned; `None` before the first.
    last_key: Option<i64>,
    /// Keys that the database has allocated and the batch has not assigned yet.
    taken: Range<i64>,
    /// Entities that the batch has looked up, by normalised name, type and
    /// user.
    pub(super) entities: HashMap<(String, String, Option<String>), i64>,
    /// The changes of the number of texts that mention an entity or a relation,
    /// by key.
    count_changes: BTreeMap<i64, CountChange>,
    /// Entities to merge: the key of the duplicate and the key that replaces
    /// it.
    pub(super) merged_entities: BTreeMap<i64, i64>,
    /// The number of deleted records by kind.
    pub(super) deleted: BTreeMap<RecordKind, u64>,
}

/// The change of the number of texts that mention a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CountChange {
    /// The change without archived texts.
    texts: i64,
    /// The change with archived texts.
    held: i64,
}

/// A row of `memory_states`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) seq: i64,
    pub(super) words: Option<i64>,
    pub(super) model: Option<i64>,
}

impl<'a> Batch<'a> {
    pub(super) fn open(db: &'a Connection, tenant: i64) -> Result<Self, Fault> {
        let mut select =
            db.prepare_cached("SELECT seq, words, model FROM memory_states WHERE tenant = ?1")?;
        let found = select.query_row([tenant], |row| {
            Ok(State {
                seq: row.get(0)?,
                words: row.get(1)?,
                model: row.get(2)?,
            })
        });
        let state = found.optional()?.unwrap_or_default();
        Ok(Self {
            db,
            tenant,
            state,
            before: state,
            last_key: None,
            taken: 0..0,
            entities: HashMap::new(),
            count_changes: BTreeMap::new(),
            merged_entities: BTreeMap::new(),
            deleted: BTreeMap::new(),
        })
    }

    /// Returns the number of the next change.
    pub(super) fn next_seq(&mut self) -> i64 {
        self.state.seq += 1;
        self.state.seq
    }

    /// Returns a key that was never used.
    fn next_key(&mut self) -> Result<i64, Fault> {
        if let Some(next) = self.taken.next() {
            return Ok(next);
        }
        let last = match self.last_key {
            Some(last) => last,
            None => {
                if let Some((first, count)) = self.db.take_record_keys()? {
                    self.taken = first + 1..first + count;
                    return Ok(first);
                }
                (self.db)
                    .prepare_cached("SELECT last FROM memory_keys")?
                    .query_row((), |row| row.get(0))?
            }
        };
        self.last_key = Some(last + 1);
        Ok(last + 1)
    }

    /// Adds to the number of texts that mention an entity or a relation,
    /// without (`texts`) and with (`held`) archived ones.
    pub(super) fn touch(&mut self, key: i64, texts: i64, held: i64) {
        let more = self.count_changes.entry(key).or_default();
        more.texts += texts;
        more.held += held;
    }

    /// Updates the derived records, and writes the sequence number of the
    /// memory.
    pub(super) fn close(&mut self) -> Result<(), Fault> {
        // `settle` removes only derived records, which adds no entries here.
        for (key, more) in std::mem::take(&mut self.count_changes) {
            self.settle(key, more)?;
        }
        if let Some(last) = self.last_key {
            (self.db)
                .prepare_cached("UPDATE memory_keys SET last = ?1")?
                .execute([last])?;
        }
        if self.state != self.before {
            let State { seq, words, model } = self.state;
            (self.db)
                .prepare_cached(
                    "INSERT INTO memory_states (tenant, seq, words, model, tasks)
                     VALUES (?1, ?2, ?3, ?4, 0)
                     ON CONFLICT (tenant) DO UPDATE SET seq = ?2, words = ?3, model = ?4",
                )?
                .execute((self.tenant, seq, words, model))?;
        }
        Ok(())
    }

    /// Writes the number of texts that mention an entity or a relation. A
    /// derived record is hidden while all its texts are archived, and deleted
    /// with its last text.
    fn settle(&mut self, key: i64, more: CountChange) -> Result<(), Fault> {
        let seq = self.state.seq + 1;
        let mut update = self.db.prepare_cached(
            "UPDATE memory_counts SET texts = texts + ?3, held = held + ?4,
                 seq = CASE WHEN ?3 = 0 THEN seq ELSE ?5 END WHERE key = ?1 AND tenant = ?2
             RETURNING given, texts, held",
        )?;
        let found = update.query_row((key, self.tenant, more.texts, more.held, seq), |row| {
            Ok((row.get::<bool>(0)?, row.get::<i64>(1)?, row.get::<i64>(2)?))
        });
        // The record itself may have been deleted.
        let Some((given, texts, held)) = found.optional()? else {
            return Ok(());
        };
        if more.texts != 0 {
            self.state.seq = seq;
        }
        if !given && held == 0 {
            return self.remove(key);
        }
        if !given && (texts == 0) != (texts == more.texts) {
            (self.db)
                .prepare_cached("UPDATE memories SET archived = ?2 WHERE key = ?1")?
                .execute((key, texts == 0))?;
        }
        Ok(())
    }

    /// Gives a changed record a new sequence number.
    pub(super) fn changed(&mut self, key: i64, kind: i64) -> Result<(), Fault> {
        let seq = self.next_seq();
        let sql = match is_counted(kind) {
            true => "UPDATE memory_counts SET seq = ?2 WHERE key = ?1",
            false => "UPDATE memories SET seq = ?2 WHERE key = ?1",
        };
        self.db.prepare_cached(sql)?.execute((key, seq))?;
        Ok(())
    }

    /// Removes a record from all tables and stores a row for its deletion. The
    /// caller removes its mentions first.
    pub(super) fn remove(&mut self, key: i64) -> Result<(), Fault> {
        for sql in [
            "DELETE FROM memory_names WHERE entity = ?1",
            "DELETE FROM memory_mentions WHERE record = ?1",
            "DELETE FROM memory_evidence WHERE relation = ?1",
            "DELETE FROM memory_ends WHERE relation = ?1",
            "DELETE FROM memory_ends WHERE source = ?1",
            "DELETE FROM memory_ends WHERE target = ?1",
            "DELETE FROM memory_references WHERE record = ?1",
            "DELETE FROM memory_vectors WHERE record = ?1",
            "DELETE FROM memory_bodies WHERE record = ?1",
            "DELETE FROM memory_counts WHERE key = ?1",
        ] {
            self.db.prepare_cached(sql)?.execute([key])?;
        }
        let kind = (self.db)
            .prepare_cached("DELETE FROM memories WHERE key = ?1 AND tenant = ?2 RETURNING kind")?
            .query_row((key, self.tenant), |row| kind_of(row.get(0)?))?;
        let seq = self.next_seq();
        (self.db)
            .prepare_cached("INSERT INTO memory_gone (tenant, seq, key) VALUES (?1, ?2, ?3)")?
            .execute((self.tenant, seq, key))?;
        *self.deleted.entry(kind).or_default() += 1;
        Ok(())
    }

    /// Inserts a new row that no text mentions yet.
    pub(super) fn insert(
        &mut self,
        new: &Prepared,
        given: bool,
        at: i64,
        mentions: Option<&[u8]>,
    ) -> Result<i64, Fault> {
        let (key, seq) = (self.next_key()?, self.next_seq());
        (self.db)
            .prepare_cached(
                "INSERT INTO memories (key, tenant, kind, seq, archived, at, idx, valid_from,
                     valid_to, outcome, type, session, task, source, speaker, mentions, words,
                     vector, digest, tag, id, \"user\", agent)
                 VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
                     ?16, ?17, ?18, ?19, ?20, ?21, ?22)",
            )?
            .execute(params![
                key,
                self.tenant,
                new.kind,
                (!is_counted(new.kind)).then_some(seq),
                at,
                new.index,
                new.valid_from,
                new.valid_to,
                new.outcome,
                new.record_type,
                new.session,
                new.task,
                new.source,
                new.derived.speaker,
                mentions,
                new.derived.words,
                new.derived.vector,
                new.digest,
                tag(self.tenant, new.kind, &new.id),
                new.id,
                new.user,
                new.agent,
            ])?;
        if is_counted(new.kind) {
            (self.db)
                .prepare_cached(
                    "INSERT INTO memory_counts (key, tenant, seq, given, texts, held)
                     VALUES (?1, ?2, ?3, ?4, 0, 0)",
                )?
                .execute((key, self.tenant, seq, given))?;
        }
        (self.db)
            .prepare_cached("INSERT INTO memory_bodies (record, body) VALUES (?1, ?2)")?
            .execute((key, &new.body))?;
        self.put_references(key, new)?;
        Ok(key)
    }

    /// Replaces an existing record. The new version is not archived.
    pub(super) fn replace(
        &mut self,
        old: &Row,
        new: &Prepared,
        at: i64,
        mentions: Option<&[u8]>,
    ) -> Result<(), Fault> {
        let valid_to = ended(new.valid_from, new.valid_to, old.superseded);
        (self.db)
            .prepare_cached(
                "UPDATE memories SET archived = 0, at = ?2, idx = ?3, valid_from = ?4,
                     valid_to = ?5, outcome = ?6, type = ?7, session = ?8, task = ?9,
                     source = ?10, speaker = ?11, mentions = ?12, words = ?13, vector = ?14,
                     digest = ?15, tag = ?16, id = ?17, \"user\" = ?18, agent = ?19 WHERE key = ?1",
            )?
            .execute(params![
                old.key,
                at,
                new.index,
                new.valid_from,
                valid_to,
                new.outcome,
                new.record_type,
                new.session,
                new.task,
                new.source,
                new.derived.speaker,
                mentions,
                new.derived.words,
                new.derived.vector,
                new.digest,
                tag(self.tenant, new.kind, &new.id),
                new.id,
                new.user,
                new.agent,
            ])?;
        if !old.given {
            (self.db)
                .prepare_cached("UPDATE memory_counts SET given = 1 WHERE key = ?1")?
                .execute([old.key])?;
        }
        self.changed(old.key, new.kind)?;
        self.put_body(old.key, &new.body)?;
        for sql in [
            "DELETE FROM memory_references WHERE record = ?1",
            // The vectors were computed from the previous text.
            "DELETE FROM memory_vectors WHERE record = ?1",
        ] {
            self.db.prepare_cached(sql)?.execute([old.key])?;
        }
        self.put_references(old.key, new)
    }

    pub(super) fn put_body(&self, key: i64, body: &str) -> Result<(), Fault> {
        (self.db)
            .prepare_cached("UPDATE memory_bodies SET body = ?2 WHERE record = ?1")?
            .execute((key, body))?;
        Ok(())
    }

    fn put_references(&self, key: i64, new: &Prepared) -> Result<(), Fault> {
        for id in &new.references {
            (self.db)
                .prepare_cached(
                    "INSERT INTO memory_references (tenant, id, record) VALUES (?1, ?2, ?3)
                     ON CONFLICT DO NOTHING",
                )?
                .execute((self.tenant, id, key))?;
        }
        Ok(())
    }

    pub(super) fn find(&self, kind: i64, id: &str) -> Result<Option<Row>, Fault> {
        let mut select = self.db.prepare_cached(
            "SELECT key, kind, digest, archived, superseded, valid_from, valid_to, at, mentions,
                 vector IS NULL, words IS NULL, id, (SELECT given FROM memory_counts c
                 WHERE kind IN (2, 3) AND c.key = m.key)
             FROM memories m WHERE tag = ?1 AND tenant = ?2 AND kind = ?3 AND id = ?4",
        )?;
        let tag = tag(self.tenant, kind, id);
        let found = select.query_row((tag, self.tenant, kind, id), Row::read);
        Ok(found.optional()?)
    }

    pub(super) fn row(&self, key: i64) -> Result<Row, Fault> {
        let row = self.row_if_any(key)?;
        Ok(row.ok_or(Error::NoRows)?)
    }

    pub(super) fn row_if_any(&self, key: i64) -> Result<Option<Row>, Fault> {
        let mut select = self.db.prepare_cached(
            "SELECT key, kind, digest, archived, superseded, valid_from, valid_to, at, mentions,
                 vector IS NULL, words IS NULL, id, (SELECT given FROM memory_counts c
                 WHERE kind IN (2, 3) AND c.key = m.key)
             FROM memories m WHERE key = ?1 AND tenant = ?2",
        )?;
        Ok(select.query_row((key, self.tenant), Row::read).optional()?)
    }
}

/// The columns of an existing record that a batch reads.
pub(super) struct Row {
    pub(super) key: i64,
    pub(super) kind: i64,
    pub(super) digest: Vec<u8>,
    pub(super) archived: bool,
    pub(super) superseded: Option<i64>,
    pub(super) valid_from: Option<i64>,
    pub(super) valid_to: Option<i64>,
    pub(super) at: i64,
    pub(super) mentions: Vec<i64>,
    pub(super) lacks_vector: bool,
    pub(super) lacks_words: bool,
    pub(super) id: String,
    pub(super) given: bool,
}

impl Row {
    fn read(row: &crate::driver::Row<'_>) -> crate::driver::Result<Self> {
        Ok(Self {
            key: row.get(0)?,
            kind: row.get(1)?,
            digest: row.get(2)?,
            archived: row.get(3)?,
            superseded: row.get(4)?,
            valid_from: row.get(5)?,
            valid_to: row.get(6)?,
            at: row.get(7)?,
            mentions: super::unpack(row.get_ref(8)?.as_blob_or_null()?),
            lacks_vector: row.get(9)?,
            lacks_words: row.get(10)?,
            id: row.get(11)?,
            given: row.get::<Option<bool>>(12)?.unwrap_or(true),
        })
    }
}

/// Returns the end of a superseded record's validity: at most its own end, and
/// at least its start.
pub(super) fn ended(
    valid_from: Option<i64>,
    said: Option<i64>,
    superseded: Option<i64>,
) -> Option<i64> {
    let Some(superseded) = superseded else {
        return said;
    };
    let end = said.map_or(superseded, |said| said.min(superseded));
    Some(valid_from.map_or(end, |from| end.max(from)))
}
