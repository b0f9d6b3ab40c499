//! Measures, deletes and collects the data of a tenant.

pub(crate) mod pending;
mod session;
mod steps;
mod tree;
mod trim;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::driver::Connection;
use contexture_core::ContentHash;
use contexture_sql_memory::{forget, tasks};
use contexture_store::{Deleted, Retention, StoreError, TurnId, Upkeep, Usage, Verification};

use crate::error::Fault;
use crate::row::{Hash, Time};
use crate::{Backend, SqlStore, verify};

pub(crate) use pending::Deletion;

impl<B: Backend> Upkeep for SqlStore<B> {
    fn usage(&self) -> Result<Usage, StoreError> {
        let (usage, deletions) =
            self.read(|db, tenant| Ok((usage(db, tenant)?, pending::count(db, tenant)?)))?;
        let mut usage = self.backend.measure(usage)?;
        usage.pending |= deletions > 0;
        Ok(usage)
    }

    fn has_deleted_text(&self) -> Result<bool, StoreError> {
        Ok(self.backend.has_deleted_text()? || self.read(pending::count)? > 0)
    }

    fn continue_deletions(&self) -> Result<u64, StoreError> {
        self.continue_all()
    }

    fn verify(&self) -> Result<Verification, StoreError> {
        self.settle();
        if !self.backend.has_data()? {
            return Ok(Verification::default());
        }
        match self.read(verify::verify) {
            // Unreadable data is damage, too.
            Err(StoreError::NotAStore { store, message }) => {
                let mut verified = Verification::default();
                let damage = contexture_store::Damage {
                    what: store,
                    message,
                };
                verified.damaged.push(damage);
                Ok(verified)
            }
            other => other,
        }
    }

    fn delete_session(&self, label: &str) -> Result<Deleted, StoreError> {
        let deleted = self.delete_or_divide(Deletion::Session(label.to_owned()))?;
        self.note_deletion("session_deleted", label.to_owned());
        Ok(deleted)
    }

    fn delete_turns_before(&self, label: &str, turn: TurnId) -> Result<Deleted, StoreError> {
        // A request that is being saved may contain the turns.
        self.settle();
        let deleted = self.delete_or_divide(Deletion::Turns {
            session: label.to_owned(),
            before: turn,
        })?;
        self.note_deletion("turns_deleted", format!("{label} before {turn}"));
        Ok(deleted)
    }

    fn delete_snapshot(&self, hash: ContentHash) -> Result<Deleted, StoreError> {
        self.settle();
        let deleted = self.delete_or_divide(Deletion::Snapshot(hash))?;
        self.note_deletion("snapshot_deleted", hash.to_string());
        Ok(deleted)
    }

    fn delete_tree(&self, id: &str) -> Result<Deleted, StoreError> {
        // A request of the tree may be being saved.
        self.settle();
        let deleted = self.delete_or_divide(Deletion::Tree(id.to_owned()))?;
        self.note_deletion("tree_deleted", id.to_owned());
        Ok(deleted)
    }

    fn collect(&self, retention: &Retention, dry_run: bool) -> Result<Deleted, StoreError> {
        self.settle();
        let retention = *retention;
        if !self.backend.has_data()? {
            return Ok(Deleted::default());
        }
        if dry_run {
            let deleted = self.read(|db, tenant| collect(db, tenant, &retention, true))?;
            return Ok(Deleted {
                deleted,
                pending: false,
            });
        }
        self.delete_or_divide(Deletion::Collection(retention.into()))
    }
}

impl<B: Backend> SqlStore<B> {
    fn delete(
        &self,
        delete: impl FnOnce(&Connection, i64) -> Result<BTreeMap<String, u64>, Fault> + Send + 'static,
    ) -> Result<Deleted, StoreError> {
        let (deleted, clean) = self.write_and_clean(delete)?;
        Ok(Deleted {
            deleted,
            pending: !clean,
        })
    }
}

/// Deletes snapshots, memory records and tasks that have expired, and content
/// without references. A dry run only counts them.
pub(crate) fn collect(
    db: &Connection,
    tenant: i64,
    retention: &Retention,
    dry_run: bool,
) -> Result<BTreeMap<String, u64>, Fault> {
    // The search runs in the transaction that deletes, so that it sees
    // concurrent writes.
    let garbage = Garbage::find(db, tenant, retention)?;
    if !dry_run {
        garbage.delete(db, tenant)?;
    }
    let mut counts = garbage.counts();
    if let Some(before) = retention.memories_before {
        let records = match dry_run {
            true => forget::count_older(db, tenant, Time(before))?,
            false => forget::forget_older(db, tenant, Time(before), usize::MAX)?,
        };
        counts.extend((records > 0).then(|| ("records".to_owned(), records)));
    }
    if let Some(before) = retention.tasks_before {
        let tasks = match dry_run {
            true => tasks::count_finished(db, tenant, Time(before))?,
            false => tasks::forget_finished(db, tenant, Time(before), usize::MAX)?,
        };
        counts.extend((tasks > 0).then(|| ("tasks".to_owned(), tasks)));
    }
    Ok(counts)
}

/// Counts the rows of a tenant. The store adds the size in bytes.
pub(crate) fn usage(db: &Connection, tenant: i64) -> Result<Usage, Fault> {
    let count = |sql: &str| -> Result<u64, Fault> {
        let number: i64 = db
            .prepare_cached(sql)?
            .query_row([tenant], |row| row.get(0))?;
        Ok(number.unsigned_abs())
    };
    Ok(Usage {
        bytes: 0,
        sessions: count("SELECT count(*) FROM sessions WHERE tenant = ?1 AND deleted IS NULL")?,
        // Two counts, because each can use an index.
        turns: count(
            "SELECT (SELECT count(*) FROM turns WHERE tenant = ?1)
                 - (SELECT count(*) FROM turns WHERE tenant = ?1 AND deleted = 1)",
        )?,
        snapshots: count("SELECT count(*) FROM snapshots WHERE tenant = ?1")?,
        records: count("SELECT count(*) FROM memories WHERE tenant = ?1")?,
        trees: count("SELECT count(*) FROM trees WHERE tenant = ?1 AND deleted IS NULL")?,
        nodes: count(
            "SELECT CAST(coalesce(sum(nodes), 0) AS BIGINT) FROM trees
             WHERE tenant = ?1 AND deleted IS NULL",
        )?,
        tasks: count("SELECT count(*) FROM tasks WHERE tenant = ?1")?,
        pending: false,
    })
}

/// Runs statements that delete the rows of one object, whose key is `?1`.
/// Returns the number of deleted rows for each named table.
fn delete_rows(
    db: &Connection,
    key: i64,
    statements: &[(&str, &str)],
) -> Result<BTreeMap<String, u64>, Fault> {
    // Rows refer to each other in both directions.
    db.defer_references()?;
    let mut counts = BTreeMap::new();
    for (name, sql) in statements {
        let rows = db.prepare_cached(sql)?.change([key])? as u64;
        if !name.is_empty() && rows > 0 {
            *counts.entry((*name).to_owned()).or_default() += rows;
        }
    }
    Ok(counts)
}

/// The tables with the content of turns, by the column `turn`.
const TURN_CONTENT: [&str; 5] = [
    "sent_messages",
    "tool_calls",
    "late_results",
    "compactions",
    "counts",
];

/// Deletes the content of the turns `t` for which `which` is true; its `?1` is
/// `key`. The turns themselves remain.
fn delete_content(db: &Connection, which: &str, key: i64) -> Result<(), Fault> {
    let turns = format!("(SELECT t.key FROM turns t WHERE {which})");
    // The key of a message begins with that of its turn. With `JOIN`, SQLite would
    // compare each message of the store with each turn.
    let messages = format!(
        "(SELECT m.key FROM turns t CROSS JOIN messages m
          WHERE m.key >= t.key << 14 AND m.key < (t.key + 1) << 14 AND ({which}))"
    );
    let of_messages = [("tool_results", "message"), ("messages", "key")];
    let of_messages = of_messages
        .map(|(table, column)| format!("DELETE FROM {table} WHERE {column} IN {messages}"));
    let of_turns = TURN_CONTENT.map(|table| format!("DELETE FROM {table} WHERE turn IN {turns}"));
    // Rows refer to each other in both directions.
    db.defer_references()?;
    for sql in of_messages.iter().chain(&of_turns) {
        db.prepare_cached(sql)?.change([key])?;
    }
    Ok(())
}

/// Deletes a snapshot in all sessions that have it.
fn delete_snapshot(
    db: &Connection,
    tenant: i64,
    hash: ContentHash,
) -> Result<BTreeMap<String, u64>, Fault> {
    let keys = keys_of(db, tenant, hash)?;
    if keys.is_empty() {
        return Err(Fault::not_found("snapshot", hash.to_string()));
    }
    let garbage = Garbage::with_content(db, tenant, keys)?;
    garbage.delete(db, tenant)?;
    Ok(garbage.counts())
}

/// Returns the keys of a snapshot in all sessions that have it.
fn keys_of(db: &Connection, tenant: i64, hash: ContentHash) -> Result<Vec<i64>, Fault> {
    let mut select =
        db.prepare_cached("SELECT key FROM snapshots WHERE tenant = ?1 AND hash = ?2")?;
    let keys = select.query_map((tenant, Hash(hash)), |row| row.get(0))?;
    Ok(keys.collect::<Result<_, _>>()?)
}

/// Snapshots that have expired, and content that no other snapshot refers to.
struct Garbage {
    snapshots: Vec<i64>,
    // The key of each blob, and its size in bytes.
    blobs: Vec<(i64, u64)>,
}

impl Garbage {
    fn find(db: &Connection, tenant: i64, retention: &Retention) -> Result<Self, Fault> {
        let snapshots = Self::snapshots(db, tenant, retention)?;
        Self::with_content(db, tenant, snapshots)
    }

    /// Adds the content that no other snapshot refers to.
    fn with_content(db: &Connection, tenant: i64, snapshots: Vec<i64>) -> Result<Self, Fault> {
        let garbage: BTreeSet<i64> = snapshots.iter().copied().collect();
        // All content that other snapshots refer to, directly or indirectly.
        let mut roots = db.prepare_cached("SELECT key, root FROM snapshots WHERE tenant = ?1")?;
        let roots = roots.query_map([tenant], |row| Ok((row.get(0)?, row.get::<Hash>(1)?.0)))?;
        let mut waiting = Vec::new();
        for root in roots {
            let (key, root): (i64, ContentHash) = root?;
            if !garbage.contains(&key) {
                waiting.push(root);
            }
        }
        let mut needed: BTreeSet<[u8; 32]> = BTreeSet::new();
        let mut content =
            db.prepare_cached("SELECT bytes FROM blobs WHERE tenant = ?1 AND hash = ?2")?;
        while let Some(hash) = waiting.pop() {
            if !needed.insert(*hash.as_bytes()) {
                continue;
            }
            content.for_each((tenant, Hash(hash)), |row| {
                let bytes = row.get_ref(0)?.as_blob().unwrap_or_default();
                waiting.extend(hashes_in(bytes));
                Ok::<_, Fault>(ControlFlow::Break(()))
            })?;
        }
        let mut all =
            db.prepare_cached("SELECT key, hash, length(bytes) FROM blobs WHERE tenant = ?1")?;
        let mut blobs = Vec::new();
        all.for_each([tenant], |row| {
            if !needed.contains(row.get::<Hash>(1)?.0.as_bytes()) {
                blobs.push((row.get(0)?, row.get::<i64>(2)?.unsigned_abs()));
            }
            Ok::<_, Fault>(ControlFlow::Continue(()))
        })?;
        Ok(Self { snapshots, blobs })
    }

    /// Leaves the content after the first `most` to a later collection.
    fn limit(&mut self, most: usize) {
        self.blobs.truncate(most);
    }

    fn snapshots(db: &Connection, tenant: i64, retention: &Retention) -> Result<Vec<i64>, Fault> {
        let mut select = db.prepare_cached(
            "SELECT key FROM (
                 SELECT key, created_at,
                     row_number() OVER (PARTITION BY session ORDER BY key DESC) AS place
                 FROM snapshots WHERE tenant = ?1) AS placed
             WHERE place > 1 AND (created_at < ?2 OR place > ?3)",
        )?;
        let before = retention.before.map(Time);
        let most = retention
            .per_session
            .map(|most| i64::try_from(most).unwrap_or(i64::MAX));
        let found = select.query_map((tenant, before, most), |row| row.get(0))?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    fn delete(&self, db: &Connection, tenant: i64) -> Result<(), Fault> {
        let mut snapshot = db.prepare_cached("DELETE FROM snapshots WHERE key = ?1")?;
        for key in &self.snapshots {
            snapshot.execute([key])?;
        }
        let mut blob = db.prepare_cached("DELETE FROM blobs WHERE key = ?1")?;
        for (key, _) in &self.blobs {
            blob.execute([key])?;
        }
        if !self.blobs.is_empty() {
            // An import that relies on stored content checks it again.
            db.prepare_cached(
                "UPDATE tenants SET content_deletions = content_deletions + 1 WHERE key = ?1",
            )?
            .execute([tenant])?;
        }
        Ok(())
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let counts = [
            ("snapshots", self.snapshots.len() as u64),
            ("blobs", self.blobs.len() as u64),
            (
                "blob_bytes",
                self.blobs.iter().map(|(_, bytes)| bytes).sum(),
            ),
        ];
        let some = counts.into_iter().filter(|(_, count)| *count > 0);
        some.map(|(name, count)| (name.to_owned(), count)).collect()
    }
}

/// Returns the hashes in content: written out as text, and as bytes in a list
/// of hashes. Text that only resembles a hash keeps some content longer, which
/// is harmless.
pub(crate) fn hashes_in(bytes: &[u8]) -> Vec<ContentHash> {
    let mut found = listed_hashes(bytes);
    if !found.is_empty() {
        return found;
    }
    let mut run = 0;
    for (at, byte) in bytes.iter().chain(b" ").enumerate() {
        if byte.is_ascii_hexdigit() {
            run += 1;
            continue;
        }
        if run == 64
            && let Ok(text) = std::str::from_utf8(&bytes[at - 64..at])
        {
            found.extend(ContentHash::from_hex(text));
        }
        run = 0;
    }
    found
}

/// Returns the hashes of a list of hashes. Empty for other content.
pub(crate) fn listed_hashes(bytes: &[u8]) -> Vec<ContentHash> {
    let (list, rest) = bytes.as_chunks::<32>();
    // Bytes of hashes are rarely valid UTF-8.
    match rest.is_empty() && std::str::from_utf8(bytes).is_err() {
        true => list.iter().copied().map(ContentHash::from_bytes).collect(),
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_found_in_text_and_in_lists() {
        let hashes: Vec<ContentHash> = (0..40_u8).map(|i| ContentHash::of(&[i])).collect();
        let text = format!(r#"{{"a":"{}","b":["{}"]}}"#, hashes[0], hashes[1]);
        assert_eq!(hashes_in(text.as_bytes()), hashes[..2]);
        let list: Vec<u8> = hashes.iter().flat_map(|hash| *hash.as_bytes()).collect();
        assert_eq!(hashes_in(&list), hashes);
        for none in [&b""[..], &b"word"[..], &b"x".repeat(64)[..], &list[..40]] {
            assert!(hashes_in(none).is_empty(), "{none:?}");
        }
    }
}
