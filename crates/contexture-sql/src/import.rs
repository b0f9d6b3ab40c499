//! Imports: a batch of steps is one transaction.

use std::collections::{HashMap, HashSet};

use crate::driver::{Connection, OptionalExtension, Row};
use crate::params;
use contexture_core::ContentHash;
use contexture_store::{
    Compaction, ImportCursor, ImportOutcome, ImportRow, ImportStep, ImportedTurn, Imports,
    StoreError, TurnId,
};
use jiff::Timestamp;

use crate::error::Fault;
use crate::record::{self, Appender, Parent, Prepared};
use crate::row::{Hash, limit, number, unsigned};
use crate::sessions::{self, SessionRow};
use crate::{Backend, SqlStore, snapshots, turns, upkeep};

/// A step, prepared as far as possible before the writer thread gets it.
enum ReadyStep {
    Turn {
        session: String,
        parent: ImportedTurn,
        turn: Box<Prepared>,
        at: Timestamp,
    },
    Other(ImportStep),
}

impl<B: Backend> Imports for SqlStore<B> {
    fn import(&self, steps: Vec<ImportStep>) -> Result<Vec<ImportOutcome>, StoreError> {
        let mut ready = Vec::with_capacity(steps.len());
        for step in steps {
            ready.push(match step {
                ImportStep::Turn {
                    session,
                    parent,
                    turn,
                    at,
                } => {
                    turn.check_sizes(self.max_message_bytes())?;
                    let turn = Prepared::imported(*turn).map_err(|fault| self.explain(fault))?;
                    ReadyStep::Turn {
                        session,
                        parent,
                        turn: Box::new(turn),
                        at,
                    }
                }
                other => ReadyStep::Other(other),
            });
        }
        self.write(move |db, tenant| {
            let mut batch = Batch::new(db, tenant)?;
            for step in &ready {
                let outcome = batch.apply(step)?;
                batch.outcomes.push(outcome);
            }
            let outcomes = batch.outcomes;
            // The steps are freed by the thread that made them: it can use the
            // memory again for the next batch.
            Ok((outcomes, ready))
        })
        .map(|(outcomes, _)| outcomes)
    }

    fn content_deletions(&self) -> Result<u64, StoreError> {
        self.read(content_deletions)
    }

    fn import_cursor(&self, source: &str, file: &str) -> Result<Option<ImportCursor>, StoreError> {
        self.read(|db, tenant| {
            let mut select = db.prepare_cached(&format!(
                "{CURSOR} WHERE tenant = ?1 AND source = ?2 AND file = ?3"
            ))?;
            Ok(select
                .query_row((tenant, source, file), cursor_row)
                .optional()?)
        })
    }

    fn import_cursors(&self) -> Result<Vec<ImportCursor>, StoreError> {
        self.read(|db, tenant| {
            let mut select =
                db.prepare_cached(&format!("{CURSOR} WHERE tenant = ?1 ORDER BY source, file"))?;
            let rows = select.query_map([tenant], cursor_row)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    fn import_state(&self, source: &str, file: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|db, tenant| {
            let mut select = db.prepare_cached(
                "SELECT s.bytes FROM imports i JOIN import_states s ON s.import = i.key
                 WHERE i.tenant = ?1 AND i.source = ?2 AND i.file = ?3",
            )?;
            Ok(select
                .query_row((tenant, source, file), |row| row.get(0))
                .optional()?)
        })
    }

    fn import_with_root(&self, source: &str, root: &str) -> Result<Option<String>, StoreError> {
        self.read(|db, tenant| {
            let mut select = db.prepare_cached(
                "SELECT file FROM import_roots WHERE tenant = ?1 AND source = ?2 AND root = ?3",
            )?;
            Ok(select
                .query_row((tenant, source, root), |row| row.get(0))
                .optional()?)
        })
    }

    fn import_rows(
        &self,
        source: &str,
        file: &str,
        most: usize,
    ) -> Result<Vec<ImportRow>, StoreError> {
        self.read(|db, tenant| {
            let mut select = db.prepare_cached(
                "SELECT \"offset\", raw FROM import_rows
                 WHERE tenant = ?1 AND source = ?2 AND file = ?3 ORDER BY \"offset\" LIMIT ?4",
            )?;
            let rows = select.query_map((tenant, source, file, limit(most)), |row| {
                Ok(ImportRow {
                    source: source.to_owned(),
                    file: file.to_owned(),
                    offset: unsigned(row, 0)?,
                    raw: row.get(1)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}

fn content_deletions(db: &Connection, tenant: i64) -> Result<u64, Fault> {
    let mut select = db.prepare_cached("SELECT content_deletions FROM tenants WHERE key = ?1")?;
    let found = select.query_row([tenant], |row| unsigned(row, 0));
    Ok(found.optional()?.unwrap_or(0))
}

const CURSOR: &str = "SELECT source, file, identity, size, modified, \"offset\", hash, unknown \
    FROM imports";

fn cursor_row(row: &Row<'_>) -> crate::driver::Result<ImportCursor> {
    Ok(ImportCursor {
        source: row.get(0)?,
        file: row.get(1)?,
        identity: row.get(2)?,
        size: unsigned(row, 3)?,
        modified: row.get(4)?,
        offset: unsigned(row, 5)?,
        hash: row.get::<Hash>(6)?.0,
        unknown: unsigned(row, 7)?,
    })
}

/// A batch that is being written. Sessions and parents are read once.
struct Batch<'db> {
    db: &'db Connection,
    tenant: i64,
    outcomes: Vec<ImportOutcome>,
    sessions: HashMap<String, SessionRow>,
    parents: HashMap<TurnId, Parent>,
    appender: Appender<'db>,
    // Whether content was deleted since the import began, if a step asks for that.
    has_deletions: Option<bool>,
    // Content that was found.
    stored: HashSet<ContentHash>,
}

impl<'db> Batch<'db> {
    fn new(db: &'db Connection, tenant: i64) -> Result<Self, Fault> {
        Ok(Self {
            db,
            tenant,
            outcomes: Vec::new(),
            sessions: HashMap::new(),
            parents: HashMap::new(),
            appender: Appender::new(db)?,
            has_deletions: None,
            stored: HashSet::new(),
        })
    }

    fn apply(&mut self, step: &ReadyStep) -> Result<ImportOutcome, Fault> {
        let nothing = ImportOutcome::default();
        let step = match step {
            ReadyStep::Turn {
                session,
                parent,
                turn,
                at,
            } => return self.turn(session, *parent, turn, *at),
            ReadyStep::Other(step) => step,
        };
        match step {
            // Turns are prepared before this point.
            ImportStep::Turn { .. } => Ok(nothing),
            ImportStep::Session { new, head, at } => {
                match sessions::find(self.db, self.tenant, &new.label) {
                    Ok(found) => {
                        if let Some(parent) = &new.parent_session {
                            sessions::set_parent(self.db, self.tenant, &found, parent)?;
                        }
                        return Ok(nothing);
                    }
                    Err(Fault::Refused(StoreError::NotFound { .. })) => {}
                    Err(fault) => return Err(fault),
                }
                let mut new = new.clone();
                new.head = self.id(*head)?.or(new.head);
                sessions::create(self.db, self.tenant, &new, *at)?;
                Ok(ImportOutcome {
                    added: true,
                    ..nothing
                })
            }
            ImportStep::Compaction {
                session,
                parent,
                first_kept,
                compaction,
                at,
            } => self.compaction(session, *parent, *first_kept, compaction, *at),
            ImportStep::Head {
                session,
                to,
                reason,
                at,
            } => {
                let to = self.id(*to)?;
                let to = to.map(|to| turns::key(self.db, self.tenant, to));
                let to = to.transpose()?;
                // The session is read again: an earlier step may have moved its
                // head.
                let row = sessions::find(self.db, self.tenant, session)?;
                if row.head == to {
                    return Ok(nothing);
                }
                sessions::move_head(self.db, &row, to, reason, *at)?;
                Ok(nothing)
            }
            ImportStep::ContentSince(number) => {
                let found = content_deletions(self.db, self.tenant)?;
                self.has_deletions = Some(found != *number);
                Ok(nothing)
            }
            ImportStep::Snapshot {
                snapshot,
                parent,
                blobs,
            } => {
                let mut snapshot = (**snapshot).clone();
                snapshot.parent_turn = self.id(*parent)?.or(snapshot.parent_turn);
                snapshots::put_blobs(self.db, self.tenant, blobs)?;
                if self.has_deletions == Some(true) {
                    self.check_content(snapshot.root)?;
                }
                let added = snapshots::add_snapshot(self.db, self.tenant, &snapshot)?;
                Ok(ImportOutcome { added, ..nothing })
            }
            ImportStep::Content(blobs) => {
                snapshots::put_blobs(self.db, self.tenant, blobs)?;
                Ok(nothing)
            }
            ImportStep::Cursor(cursor) => {
                self.put_cursor(cursor)?;
                Ok(nothing)
            }
            ImportStep::State {
                source,
                file,
                bytes,
                needs,
            } => {
                // A collection of another process may have deleted it since the
                // reader found it, or since an earlier batch stored it.
                if self.has_deletions != Some(false)
                    && let Some(missing) = snapshots::missing_blob(self.db, self.tenant, needs)?
                {
                    return Err(Fault::not_found("content", missing.to_string()));
                }
                self.db
                    .prepare_cached(
                        "INSERT INTO import_states (import, bytes)
                         SELECT key, ?4 FROM imports
                         WHERE tenant = ?1 AND source = ?2 AND file = ?3
                         ON CONFLICT (import) DO UPDATE SET bytes = excluded.bytes",
                    )?
                    .execute((self.tenant, source, file, bytes))?;
                Ok(nothing)
            }
            ImportStep::Root { source, root, file } => {
                self.db
                    .prepare_cached(
                        "INSERT INTO import_roots (tenant, source, root, file)
                         VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
                    )?
                    .execute((self.tenant, source, root, file))?;
                Ok(nothing)
            }
            ImportStep::Row(row) => {
                let new = self
                    .db
                    .prepare_cached(
                        "INSERT INTO import_rows (tenant, source, file, \"offset\", raw)
                         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
                    )?
                    .change((
                        self.tenant,
                        &row.source,
                        &row.file,
                        number("offset", row.offset)?,
                        &row.raw,
                    ))?;
                Ok(ImportOutcome {
                    added: new > 0,
                    ..nothing
                })
            }
        }
    }

    /// Fails if a collection has deleted content of a request since an earlier batch
    /// stored it.
    fn check_content(&mut self, root: ContentHash) -> Result<(), Fault> {
        // The root and lists of hashes refer to other content. Messages do not, although
        // their text can contain what looks like a hash.
        let mut waiting = upkeep::hashes_in(&self.content(root)?);
        while !waiting.is_empty() {
            waiting.retain(|hash| self.stored.insert(*hash));
            if let Some(missing) = snapshots::missing_blob(self.db, self.tenant, &waiting)? {
                return Err(Fault::not_found("content", missing.to_string()));
            }
            let mut listed = Vec::new();
            for hash in waiting {
                listed.extend(upkeep::listed_hashes(&self.content(hash)?));
            }
            waiting = listed;
        }
        Ok(())
    }

    fn content(&self, hash: ContentHash) -> Result<Vec<u8>, Fault> {
        let found = snapshots::blob(self.db, self.tenant, hash)?;
        found.ok_or_else(|| Fault::not_found("content", hash.to_string()))
    }

    fn put_cursor(&self, cursor: &ImportCursor) -> Result<(), Fault> {
        self.db
            .prepare_cached(
                "INSERT INTO imports (tenant, source, file, identity, size, modified, \"offset\", hash,
                     unknown)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                 ON CONFLICT (tenant, source, file) DO UPDATE SET identity = excluded.identity,
                     size = excluded.size, modified = excluded.modified,
                     \"offset\" = excluded.\"offset\", hash = excluded.hash, unknown = excluded.unknown",
            )?
            .execute(params![
                self.tenant,
                cursor.source,
                cursor.file,
                cursor.identity,
                number("size", cursor.size)?,
                cursor.modified,
                number("offset", cursor.offset)?,
                Hash(cursor.hash),
                number("unknown", cursor.unknown)?,
            ])?;
        Ok(())
    }

    fn id(&self, turn: ImportedTurn) -> Result<Option<TurnId>, Fault> {
        match turn {
            ImportedTurn::Nothing => Ok(None),
            ImportedTurn::Stored(id) => Ok(Some(id)),
            ImportedTurn::Step(at) => {
                let id = self.outcomes.get(at).and_then(|outcome| outcome.turn);
                let id = id.ok_or_else(|| Fault::not_found("turn of step", at.to_string()))?;
                Ok(Some(id))
            }
        }
    }

    /// Reads the session, unless this batch has read it before.
    fn load_session(&mut self, label: &str) -> Result<(), Fault> {
        if !self.sessions.contains_key(label) {
            let row = sessions::find(self.db, self.tenant, label)?;
            self.sessions.insert(label.to_owned(), row);
        }
        Ok(())
    }

    /// Reads a parent turn, unless this batch has read it before.
    fn load_parent(&mut self, id: TurnId) -> Result<(), Fault> {
        if !self.parents.contains_key(&id) {
            // A file that is imported again can begin with deleted turns.
            let key = turns::key_to_refer_to(self.db, self.tenant, id)?;
            let parent = record::parent(self.db, key)?;
            self.parents.insert(id, parent);
        }
        Ok(())
    }

    fn turn(
        &mut self,
        label: &str,
        parent: ImportedTurn,
        turn: &Prepared,
        at: Timestamp,
    ) -> Result<ImportOutcome, Fault> {
        let parent = self.id(parent)?;
        self.load_session(label)?;
        if let Some(parent) = parent {
            self.load_parent(parent)?;
        }
        let root = Parent::default();
        let session = &self.sessions[label];
        let parent = parent.map_or(&root, |parent| &self.parents[&parent]);
        let appender = &mut self.appender;
        let (recorded, made) =
            record::append(self.db, appender, self.tenant, session, parent, turn, at)?;
        let added = made.is_some();
        if let Some(made) = made {
            self.parents.insert(recorded.id, made);
        }
        Ok(ImportOutcome {
            turn: Some(recorded.id),
            added,
        })
    }

    fn compaction(
        &mut self,
        label: &str,
        parent: ImportedTurn,
        first_kept: ImportedTurn,
        compaction: &Compaction,
        at: Timestamp,
    ) -> Result<ImportOutcome, Fault> {
        let parent = self.id(parent)?;
        let parent = parent.ok_or_else(|| {
            Fault::Refused(StoreError::invalid(
                "parent",
                "is missing: no history starts with a compaction",
            ))
        })?;
        let mut compaction = compaction.clone();
        compaction.first_kept = self.id(first_kept)?.or(compaction.first_kept);
        compaction.summarized_through = compaction.summarized_through.or(Some(parent));
        compaction.check()?;
        self.load_session(label)?;
        self.load_parent(parent)?;
        let session = &self.sessions[label];
        let before = &self.parents[&parent];
        let (recorded, added) =
            record::append_compaction(self.db, self.tenant, session, before, &compaction, at)?;
        Ok(ImportOutcome {
            turn: Some(recorded.id),
            added,
        })
    }
}
