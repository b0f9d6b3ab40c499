//! Snapshots and samples.
//!
//! Content is stored once under its hash. A snapshot can be saved in the
//! background; reads then wait until it is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::driver::{Batch, Connection, OptionalExtension, Row};
use crate::params;
use contexture_core::ContentHash;
use contexture_store::{
    Blob, PendingSnapshot, Sample, Samples, Snapshot, Snapshots, StoreError, TurnId,
};

use crate::error::Fault;
use crate::row::{Hash, Id, Time, id, limit, number, unsigned};
use crate::together::{Question, Together};
use crate::value::ToSql;
use crate::{Backend, SqlStore, ahead};

/// The number of samples stored per model and counter. Calibration uses only
/// the latest.
const MAX_SAMPLES: i64 = 1000;

/// Content with fewer bytes is passed to the writer thread without checking
/// whether it exists.
const SMALL: usize = 64 * 1024;

impl<B: Backend> Snapshots for SqlStore<B> {
    fn put_snapshot(&self, snapshot: &Snapshot, blobs: &[Blob]) -> Result<(), StoreError> {
        // Existing content is not copied for the writer thread. For little
        // content, a copy is cheaper than the check.
        let bytes: usize = blobs.iter().map(|blob| blob.bytes.len()).sum();
        let new: Vec<Blob> = match bytes <= SMALL {
            true => blobs.to_vec(),
            false => self.read(|db, tenant| {
                let mut new = Vec::new();
                for blob in blobs {
                    if !has_blob(db, tenant, blob.hash)? {
                        new.push(blob.clone());
                    }
                }
                Ok(new)
            })?,
        };
        let known: Vec<ContentHash> = match new.len() == blobs.len() {
            true => Vec::new(),
            false => blobs.iter().map(|blob| blob.hash).collect(),
        };
        let new_snapshot = snapshot.clone();
        let complete = self.write(move |db, tenant| {
            put_blobs(db, tenant, &new)?;
            // Existing content may have been collected since the check.
            for hash in known {
                if !has_blob(db, tenant, hash)? {
                    return Ok(false);
                }
            }
            put_snapshot(db, tenant, &new_snapshot)?;
            Ok(true)
        })?;
        if complete {
            return Ok(());
        }
        let (snapshot, blobs) = (snapshot.clone(), blobs.to_vec());
        self.write(move |db, tenant| {
            put_blobs(db, tenant, &blobs)?;
            put_snapshot(db, tenant, &snapshot)
        })
    }

    fn put_snapshot_later(&self, pending: PendingSnapshot) {
        let PendingSnapshot {
            snapshot,
            blobs,
            report,
            builds_on,
            made_of,
            done,
        } = pending;
        let known = self.known_if_remote();
        let saved = known.map(|known| {
            (
                known,
                self.backend.tenant_name().to_owned(),
                snapshot.clone(),
            )
        });
        let done = move |result: Result<(), StoreError>| {
            if let (Ok(()), Some((known, tenant, snapshot))) = (&result, saved) {
                known.saved(&tenant, &snapshot);
            }
            done(result);
        };
        let request = NewRequest {
            snapshot,
            blobs,
            report,
            builds_on,
            made_of,
        };
        let request = Arc::new(request);
        if !self.backend.is_remote() {
            let saved = Arc::clone(&request);
            if let Some(saved) = self.write_pending_with(move |db, tenant| saved.save(db, tenant)) {
                return done(saved);
            }
            self.write_later(move |db, tenant| request.save(db, tenant), done);
            return;
        }
        // The check and the writes are sent together. The second attempt finds out
        // what is missing, if that was the reason.
        let backend = self.backend.clone();
        let first = Arc::clone(&request);
        self.write_later(
            move |db, tenant| first.save_at_once(db, tenant),
            move |result| match result {
                Err(StoreError::Backend { .. }) => {
                    backend.write_later(move |db, tenant| request.save(db, tenant), done);
                }
                result => done(result),
            },
        );
    }

    fn latest_snapshot(&self, session: &str) -> Result<Option<Snapshot>, StoreError> {
        Ok(self.kept_snapshots(Some(session), 1)?.into_iter().next())
    }

    fn find_snapshots(&self, prefix: &str) -> Result<Vec<Snapshot>, StoreError> {
        self.settle();
        self.read_once(
            || ahead::snapshot(prefix),
            |db, tenant| find(db, tenant, prefix),
        )
    }

    fn snapshots(&self, session: Option<&str>, most: usize) -> Result<Vec<Snapshot>, StoreError> {
        self.settle();
        self.kept_snapshots(session, most)
    }

    fn snapshots_before(
        &self,
        session: Option<&str>,
        before: ContentHash,
        most: usize,
    ) -> Result<Vec<Snapshot>, StoreError> {
        self.settle();
        self.read(|db, tenant| {
            let mut select = db.prepare_cached(&format!(
                "{COLUMNS} WHERE tenant = ?1 AND (?2 IS NULL OR session = ?2) AND key < (
                     SELECT max(key) FROM snapshots
                     WHERE tenant = ?1 AND hash = ?3 AND (?2 IS NULL OR session = ?2))
                 ORDER BY key DESC LIMIT ?4"
            ))?;
            let found =
                select.query_map((tenant, session, Hash(before), limit(most)), snapshot_row)?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    fn put_snapshot_report(&self, hash: ContentHash, report: Vec<u8>) {
        let write = move |db: &Connection, tenant: i64| put_report(db, tenant, hash, &report);
        // A report only explains a request, so a failure to store it is
        // ignored.
        self.write_later(write, drop);
    }

    fn snapshot_report(&self, hash: ContentHash) -> Result<Option<Vec<u8>>, StoreError> {
        self.settle();
        self.read(|db, tenant| {
            let mut select = db.prepare_cached(
                "SELECT report FROM snapshot_reports WHERE tenant = ?1 AND hash = ?2",
            )?;
            let found = select.query_row((tenant, Hash(hash)), |row| row.get(0));
            Ok(found.optional()?)
        })
    }

    fn mark_key(&self, new: [u8; 32]) -> Result<[u8; 32], StoreError> {
        // A turn that waits does not change it.
        if let Some(secret) = self.backend.read(mark_key)? {
            return Ok(secret);
        }
        self.write(move |db, tenant| {
            // Another handle may have created the row meanwhile.
            db.prepare_cached(
                "INSERT INTO mark_keys (tenant, secret) VALUES (?1, ?2)
                 ON CONFLICT (tenant) DO NOTHING",
            )?
            .execute((tenant, new))?;
            let made = mark_key(db, tenant)?;
            made.ok_or_else(|| Fault::not_found("mark key", tenant.to_string()))
        })
    }

    fn blobs(&self, hashes: &[ContentHash]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        self.settle();
        // A turn that waits has no content here.
        self.backend.read(|db, tenant| {
            let mut together = Together::default();
            let blobs: Vec<_> = hashes
                .iter()
                .map(|&hash| together.add(move |db| blob(db, tenant, hash)))
                .collect();
            together.run(db)?;
            blobs.into_iter().map(|blob| blob.take()).collect()
        })
    }

    fn has_blobs(&self, hashes: &[ContentHash]) -> Result<bool, StoreError> {
        self.settle();
        self.read(|db, tenant| Ok(missing_blob(db, tenant, hashes)?.is_none()))
    }
}

/// Returns the first of these hashes whose content is not stored.
pub(crate) fn missing_blob(
    db: &Connection,
    tenant: i64,
    hashes: &[ContentHash],
) -> Result<Option<ContentHash>, Fault> {
    // Requests have many messages. On a database in another process, a round trip
    // for each of them takes long.
    for hashes in hashes.chunks(1024) {
        let mut together = Together::default();
        let found: Vec<_> = hashes
            .iter()
            .map(|&hash| (hash, together.add(move |db| has_blob(db, tenant, hash))))
            .collect();
        together.run(db)?;
        for (hash, found) in found {
            if !found.take()? {
                return Ok(Some(hash));
            }
        }
    }
    Ok(None)
}

pub(crate) fn blob(
    db: &Connection,
    tenant: i64,
    hash: ContentHash,
) -> Result<Option<Vec<u8>>, Fault> {
    let mut select =
        db.prepare_cached("SELECT bytes FROM blobs WHERE tenant = ?1 AND hash = ?2")?;
    let found = select.query_row((tenant, Hash(hash)), |row| row.get(0));
    Ok(found.optional()?)
}

/// Returns at most two snapshots whose hashes begin with `prefix`.
pub(crate) fn find(db: &Connection, tenant: i64, prefix: &str) -> Result<Vec<Snapshot>, Fault> {
    let Some((first, last)) = range(prefix) else {
        return Ok(Vec::new());
    };
    let mut select = db.prepare_cached(&format!(
        "{COLUMNS} WHERE key IN (
             SELECT max(key) FROM snapshots
             WHERE tenant = ?1 AND hash BETWEEN ?2 AND ?3 GROUP BY hash LIMIT 2)
         ORDER BY hash"
    ))?;
    let found = select.query_map((tenant, Hash(first), Hash(last)), snapshot_row)?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn mark_key(db: &Connection, tenant: i64) -> Result<Option<[u8; 32]>, Fault> {
    let mut select = db.prepare_cached("SELECT secret FROM mark_keys WHERE tenant = ?1")?;
    Ok(select.query_row([tenant], |row| row.get(0)).optional()?)
}

const COLUMNS: &str = "SELECT hash, session, parent_turn, model, tokens, counter, root, \
    created_at FROM snapshots";

fn snapshot_row(row: &Row<'_>) -> crate::driver::Result<Snapshot> {
    Ok(Snapshot {
        hash: row.get::<Hash>(0)?.0,
        session: row.get(1)?,
        parent_turn: id(row, 2)?,
        model: row.get(3)?,
        tokens: unsigned(row, 4)?,
        counter: row.get(5)?,
        root: row.get::<Hash>(6)?.0,
        created_at: row.get::<Time>(7)?.0,
    })
}

fn has_blob(db: &Connection, tenant: i64, hash: ContentHash) -> Result<bool, Fault> {
    let mut select = db.prepare_cached("SELECT 1 FROM blobs WHERE tenant = ?1 AND hash = ?2")?;
    Ok(select.exists((tenant, Hash(hash)))?)
}

pub(crate) fn put_blobs(db: &Connection, tenant: i64, blobs: &[Blob]) -> Result<(), Fault> {
    let mut insert = db.prepare_cached(
        "INSERT INTO blobs (tenant, hash, bytes) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    )?;
    if !db.is_remote() {
        for blob in blobs {
            insert.execute((tenant, Hash(blob.hash), &blob.bytes))?;
        }
        return Ok(());
    }
    let mut batch = Batch::default();
    for blob in blobs {
        batch.add((tenant, Hash(blob.hash), &blob.bytes))?;
    }
    Ok(insert.execute_all(batch)?)
}

/// A request to save.
struct NewRequest {
    snapshot: Snapshot,
    blobs: Vec<Blob>,
    report: Option<Vec<u8>>,
    builds_on: Option<ContentHash>,
    made_of: Option<Vec<TurnId>>,
}

/// Something that a request was made of.
enum RequestSource<'r> {
    Snapshot(ContentHash),
    Session(&'r str),
    Turn(TurnId),
}

impl RequestSource<'_> {
    /// Returns a query for a row that exists unless the source was deleted.
    fn question(&self, tenant: i64) -> Result<Question, Fault> {
        Ok(match self {
            RequestSource::Snapshot(hash) => Question::new(
                "SELECT 1 FROM snapshots WHERE tenant = ?1 AND hash = ?2 LIMIT 1",
                (tenant, Hash(*hash)),
            ),
            RequestSource::Session(label) => Question::new(
                "SELECT 1 FROM sessions WHERE tenant = ?1 AND label = ?2 AND deleted IS NULL",
                (tenant, *label),
            ),
            RequestSource::Turn(turn) => Question::new(
                "SELECT 1 FROM turns WHERE tenant = ?1 AND id = ?2 AND deleted IS NULL",
                (tenant, Id(*turn)),
            ),
        }?)
    }

    fn missing(&self) -> Fault {
        match self {
            RequestSource::Snapshot(hash) => Fault::not_found("snapshot", hash),
            RequestSource::Session(label) => Fault::not_found("session", label),
            RequestSource::Turn(turn) => Fault::not_found("turn", turn),
        }
    }
}

impl NewRequest {
    /// Returns the snapshot that the request builds on, its session, and turns of
    /// it.
    fn sources(&self) -> Vec<RequestSource<'_>> {
        let mut sources = Vec::new();
        sources.extend(self.builds_on.map(RequestSource::Snapshot));
        if let Some(turns) = &self.made_of {
            sources.push(RequestSource::Session(&self.snapshot.session));
            sources.extend(turns.iter().copied().map(RequestSource::Turn));
        }
        sources
    }

    /// Saves the request. Fails if a source was deleted meanwhile.
    fn save(&self, db: &Connection, tenant: i64) -> Result<(), Fault> {
        let sources = self.sources();
        let found = db.query_together(&questions(&sources, tenant)?)?;
        for (source, rows) in sources.iter().zip(found) {
            if rows.0.is_empty() {
                return Err(source.missing());
            }
        }
        self.write(db, tenant)
    }

    /// Saves the request without waiting for the check of its sources. The
    /// transaction fails if a source was deleted meanwhile.
    fn save_at_once(&self, db: &Connection, tenant: i64) -> Result<(), Fault> {
        db.require_rows(&questions(&self.sources(), tenant)?)?;
        self.write(db, tenant)
    }

    fn write(&self, db: &Connection, tenant: i64) -> Result<(), Fault> {
        put_blobs(db, tenant, &self.blobs)?;
        put_snapshot(db, tenant, &self.snapshot)?;
        match &self.report {
            Some(report) => put_report(db, tenant, self.snapshot.hash, report),
            None => Ok(()),
        }
    }
}

fn questions(sources: &[RequestSource<'_>], tenant: i64) -> Result<Vec<Question>, Fault> {
    let questions = sources.iter().map(|source| source.question(tenant));
    questions.collect()
}

/// Stores the report of a snapshot, unless the snapshot is missing.
fn put_report(
    db: &Connection,
    tenant: i64,
    hash: ContentHash,
    report: &Vec<u8>,
) -> Result<(), Fault> {
    db.prepare_cached(
        "INSERT INTO snapshot_reports (tenant, hash, report)
         SELECT ?1, ?2, ?3 WHERE EXISTS (
             SELECT 1 FROM snapshots WHERE tenant = ?1 AND hash = ?2)
         ON CONFLICT (tenant, hash) DO UPDATE SET report = excluded.report",
    )?
    .execute((tenant, Hash(hash), report))?;
    Ok(())
}

fn put_snapshot(db: &Connection, tenant: i64, snapshot: &Snapshot) -> Result<(), Fault> {
    // The latest snapshot has the largest key, so an existing one gets a new
    // key.
    db.prepare_cached("DELETE FROM snapshots WHERE tenant = ?1 AND hash = ?2 AND session = ?3")?
        .execute((tenant, Hash(snapshot.hash), &snapshot.session))?;
    let mut insert = db.prepare_cached(INSERT_SNAPSHOT)?;
    with_snapshot_values(tenant, snapshot, |values| Ok(insert.execute(values)?))
}

/// Stores a snapshot unless the session has it. Returns true if it is new.
pub(crate) fn add_snapshot(
    db: &Connection,
    tenant: i64,
    snapshot: &Snapshot,
) -> Result<bool, Fault> {
    let mut insert = db.prepare_cached(INSERT_SNAPSHOT)?;
    let rows = with_snapshot_values(tenant, snapshot, |values| Ok(insert.change(values)?))?;
    Ok(rows > 0)
}

/// Inserts a snapshot unless the session has it.
const INSERT_SNAPSHOT: &str =
    "INSERT INTO snapshots (tenant, session, hash, parent_turn, model, tokens, counter, root,
         created_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING";

/// Calls `write` with the values of [`INSERT_SNAPSHOT`].
fn with_snapshot_values<T>(
    tenant: i64,
    snapshot: &Snapshot,
    write: impl FnOnce(&[&dyn ToSql]) -> Result<T, Fault>,
) -> Result<T, Fault> {
    write(params![
        tenant,
        snapshot.session,
        Hash(snapshot.hash),
        snapshot.parent_turn.map(Id),
        snapshot.model,
        number("tokens", snapshot.tokens)?,
        snapshot.counter,
        Hash(snapshot.root),
        Time(snapshot.created_at),
    ])
}

/// Returns the first and the last hash whose hexadecimal form begins with
/// `prefix`. Returns `None` if no hash can.
fn range(prefix: &str) -> Option<(ContentHash, ContentHash)> {
    let rest = 64_usize.checked_sub(prefix.len())?;
    let first = ContentHash::from_hex(&(prefix.to_owned() + &"0".repeat(rest)))?;
    let last = ContentHash::from_hex(&(prefix.to_owned() + &"f".repeat(rest)))?;
    Some((first, last))
}

impl<B: Backend> SqlStore<B> {
    fn kept_snapshots(
        &self,
        session: Option<&str>,
        most: usize,
    ) -> Result<Vec<Snapshot>, StoreError> {
        let Some(session) = session else {
            return self.read(|db, tenant| {
                let mut select = db.prepare_cached(&format!(
                    "{COLUMNS} WHERE tenant = ?1 ORDER BY key DESC LIMIT ?2"
                ))?;
                let found = select.query_map((tenant, limit(most)), snapshot_row)?;
                Ok(found.collect::<Result<_, _>>()?)
            });
        };
        self.read_once(
            || ahead::latest_snapshots(session, most),
            |db, tenant| of_session(db, tenant, session, most),
        )
    }
}

/// Returns the latest snapshots of a session.
pub(crate) fn of_session(
    db: &Connection,
    tenant: i64,
    session: &str,
    most: usize,
) -> Result<Vec<Snapshot>, Fault> {
    let mut select = db.prepare_cached(&format!(
        "{COLUMNS} WHERE tenant = ?1 AND session = ?2 ORDER BY key DESC LIMIT ?3"
    ))?;
    let found = select.query_map((tenant, session, limit(most)), snapshot_row)?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Returns the hashes of the latest snapshots of a session, and their parent turns.
pub(crate) fn hashes_of_session(
    db: &Connection,
    tenant: i64,
    session: &str,
    most: usize,
) -> Result<Vec<(ContentHash, Option<TurnId>)>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT hash, parent_turn FROM snapshots
         WHERE tenant = ?1 AND session = ?2 ORDER BY key DESC LIMIT ?3",
    )?;
    let found = select.query_map((tenant, session, limit(most)), |row| {
        Ok((row.get::<Hash>(0)?.0, id(row, 1)?))
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Stores a sample, and removes the samples beyond [`MAX_SAMPLES`].
pub(crate) fn insert_sample(
    db: &Connection,
    tenant: i64,
    model: &str,
    counter: &str,
    sample: Sample,
) -> Result<(), Fault> {
    let mut samples = NewSamples::default();
    samples.add(tenant, model, counter, sample)?;
    samples.insert(db)
}

/// Samples of one transaction.
#[derive(Default)]
pub(crate) struct NewSamples {
    batch: Batch,
    of: BTreeSet<(i64, String, String)>,
}

impl NewSamples {
    /// Adds a sample.
    pub(crate) fn add(
        &mut self,
        tenant: i64,
        model: &str,
        counter: &str,
        sample: Sample,
    ) -> Result<(), Fault> {
        let counted = number("counted", sample.counted)?;
        let actual = number("actual", sample.actual)?;
        self.batch.add((tenant, model, counter, counted, actual))?;
        (self.of).insert((tenant, model.to_owned(), counter.to_owned()));
        Ok(())
    }

    /// Stores the samples, and removes those beyond [`MAX_SAMPLES`].
    pub(crate) fn insert(self, db: &Connection) -> Result<(), Fault> {
        db.prepare_cached(
            "INSERT INTO samples (tenant, model, counter, counted, actual)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute_all(self.batch)?;
        for (tenant, model, counter) in &self.of {
            db.prepare_cached(
                "DELETE FROM samples WHERE tenant = ?1 AND model = ?2 AND counter = ?3 AND key <= (
                     SELECT key FROM samples WHERE tenant = ?1 AND model = ?2 AND counter = ?3
                     ORDER BY key DESC LIMIT 1 OFFSET ?4)",
            )?
            .execute((*tenant, model, counter, MAX_SAMPLES))?;
        }
        Ok(())
    }
}

impl<B: Backend> Samples for SqlStore<B> {
    fn put_sample(&self, model: &str, counter: &str, sample: Sample) -> Result<(), StoreError> {
        let (model, counter) = (model.to_owned(), counter.to_owned());
        self.write(move |db, tenant| insert_sample(db, tenant, &model, &counter, sample))
    }

    fn samples(&self, model: &str, counter: &str, most: usize) -> Result<Vec<Sample>, StoreError> {
        self.read_once(
            || ahead::samples(model, counter, most),
            |db, tenant| samples(db, tenant, model, counter, most),
        )
    }

    fn sampled_models(&self, counter: &str) -> Result<Vec<String>, StoreError> {
        self.read_once(
            || ahead::sampled_models(counter),
            |db, tenant| sampled_models(db, tenant, counter),
        )
    }
}

pub(crate) fn samples(
    db: &Connection,
    tenant: i64,
    model: &str,
    counter: &str,
    most: usize,
) -> Result<Vec<Sample>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT counted, actual FROM samples
         WHERE tenant = ?1 AND model = ?2 AND counter = ?3 ORDER BY key DESC LIMIT ?4",
    )?;
    let found = select.query_map((tenant, model, counter, limit(most)), |row| {
        Ok(Sample {
            counted: unsigned(row, 0)?,
            actual: unsigned(row, 1)?,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

pub(crate) fn sampled_models(
    db: &Connection,
    tenant: i64,
    counter: &str,
) -> Result<Vec<String>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT DISTINCT model FROM samples WHERE tenant = ?1 AND counter = ?2 ORDER BY model",
    )?;
    let found = select.query_map((tenant, counter), |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_range() {
        let hash = |text: &str| ContentHash::from_hex(text).unwrap();
        let (first, last) = range("aB1").unwrap();
        assert_eq!(first, hash(&format!("ab1{}", "0".repeat(61))));
        assert_eq!(last, hash(&format!("ab1{}", "f".repeat(61))));
        let whole = "5".repeat(64);
        assert_eq!(range(&whole), Some((hash(&whole), hash(&whole))));
        for none in ["x", "é", "-1", &"5".repeat(65)] {
            assert_eq!(range(none), None, "{none}");
        }
    }
}
