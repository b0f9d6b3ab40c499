//! Measures, deletes and collects the data of a tenant.

mod steps;
mod trim;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use crate::driver::Connection;
use contexture_core::ContentHash;
use contexture_sql_memory::{forget, tasks};
use contexture_store::{Deleted, Retention, StoreError, TurnId, Upkeep, Usage, Verification};

use crate::error::Fault;
use crate::row::{Hash, Time};
use crate::sessions::SessionRow;
use crate::{Backend, SqlStore, events, results, sessions, verify};

impl<B: Backend> Upkeep for SqlStore<B> {
    fn usage(&self) -> Result<Usage, StoreError> {
        let usage = self.read(usage)?;
        self.backend.measure(usage)
    }

    fn has_deleted_text(&self) -> Result<bool, StoreError> {
        self.backend.has_deleted_text()
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
        let name = label.to_owned();
        let deleted = self.delete(move |db, tenant| delete_session(db, tenant, &name))?;
        self.note_deletion("session_deleted", label.to_owned());
        Ok(deleted)
    }

    fn delete_turns_before(&self, label: &str, turn: TurnId) -> Result<Deleted, StoreError> {
        // A request that is being saved may contain the turns.
        self.settle();
        let (name, again) = (label.to_owned(), label.to_owned());
        let deleted = self.delete_or_divide(
            move |db, tenant| trim::run(db, tenant, &name, turn),
            move |db, tenant, most| steps::turns_step(db, tenant, &again, turn, most),
        )?;
        self.note_deletion("turns_deleted", format!("{label} before {turn}"));
        Ok(deleted)
    }

    fn delete_snapshot(&self, hash: ContentHash) -> Result<Deleted, StoreError> {
        self.settle();
        let deleted = match self.delete(move |db, tenant| delete_snapshot(db, tenant, hash)) {
            Err(StoreError::Full { .. }) => self.delete_or_divide(
                move |db, tenant| collect(db, tenant, &Retention::default(), false),
                move |db, tenant, most| {
                    let keys = keys_of(db, tenant, hash)?;
                    steps::garbage_step(db, tenant, keys, most)
                },
            )?,
            deleted => deleted?,
        };
        self.note_deletion("snapshot_deleted", hash.to_string());
        Ok(deleted)
    }

    fn delete_tree(&self, id: &str) -> Result<Deleted, StoreError> {
        let name = id.to_owned();
        let deleted = self.delete(move |db, tenant| delete_tree(db, tenant, &name))?;
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
        self.delete_or_divide(
            move |db, tenant| collect(db, tenant, &retention, false),
            move |db, tenant, most| steps::collection_step(db, tenant, &retention, most),
        )
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
        garbage.delete(db)?;
    }
    let mut counts = garbage.counts();
    if let Some(before) = retention.memories_before {
        let records = forget::forget_older(db, tenant, Time(before), dry_run)?;
        counts.extend((records > 0).then(|| ("records".to_owned(), records)));
    }
    if let Some(before) = retention.tasks_before {
        let tasks = tasks::forget_finished(db, tenant, Time(before), dry_run)?;
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
        sessions: count("SELECT count(*) FROM sessions WHERE tenant = ?1")?,
        // Two counts, because each can use an index.
        turns: count(
            "SELECT (SELECT count(*) FROM turns WHERE tenant = ?1)
                 - (SELECT count(*) FROM turns WHERE tenant = ?1 AND deleted = 1)",
        )?,
        snapshots: count("SELECT count(*) FROM snapshots WHERE tenant = ?1")?,
        records: count("SELECT count(*) FROM memories WHERE tenant = ?1")?,
        trees: count("SELECT count(*) FROM trees WHERE tenant = ?1")?,
        nodes: count(
            "SELECT CAST(coalesce(sum(nodes), 0) AS BIGINT) FROM trees WHERE tenant = ?1",
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
    // The key of a message begins with that of its turn.
    let messages = format!(
        "(SELECT m.key FROM turns t JOIN messages m
          ON m.key >= t.key << 14 AND m.key < (t.key + 1) << 14 WHERE {which})"
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

/// Deletes a tree.
pub(crate) fn delete_tree(
    db: &Connection,
    tenant: i64,
    id: &str,
) -> Result<BTreeMap<String, u64>, Fault> {
    let mut select = db.prepare_cached("SELECT key FROM trees WHERE tenant = ?1 AND id = ?2")?;
    let mut found = select.query_map((tenant, id), |row| row.get::<i64>(0))?;
    let Some(key) = found.next().transpose()? else {
        return Err(Fault::not_found("tree", id));
    };
    const NODES: &str = "node IN (SELECT key FROM nodes WHERE tree = ?1)";
    const AGENTS: &str = "agent IN (SELECT key FROM agents WHERE tree = ?1)";
    let by_node = |table: &str| format!("DELETE FROM {table} WHERE {NODES}");
    let by_agent = |table: &str| format!("DELETE FROM {table} WHERE {AGENTS}");
    let (counts, contents, responses) = (
        by_node("node_counts"),
        by_node("node_contents"),
        by_node("raw_responses"),
    );
    let (pins, stashes, actions) = (by_agent("pins"), by_agent("stashes"), by_agent("actions"));
    delete_rows(
        db,
        key,
        &[
            ("", &counts),
            ("", &contents),
            ("", &responses),
            ("", &pins),
            ("", &stashes),
            ("", &actions),
            (
                "",
                "DELETE FROM edge_sources WHERE edge IN (SELECT key FROM edges WHERE tree = ?1)",
            ),
            ("edges", "DELETE FROM edges WHERE tree = ?1"),
            ("paths", "DELETE FROM saved_paths WHERE tree = ?1"),
            ("agents", "DELETE FROM agents WHERE tree = ?1"),
            ("nodes", "DELETE FROM nodes WHERE tree = ?1"),
            ("trees", "DELETE FROM trees WHERE key = ?1"),
        ],
    )
}

/// Deletes a session, and those of its turns that no other session needs.
pub(crate) fn delete_session(
    db: &Connection,
    tenant: i64,
    label: &str,
) -> Result<BTreeMap<String, u64>, Fault> {
    let session = sessions::find(db, tenant, label)?;
    let key = session.key;
    db.defer_references()?;
    reassign_turns(db, tenant, &session, &needed(db, tenant, key)?)?;
    events::forget_session(db, tenant, &session.label)?;
    const TURNS: &str = "(SELECT key FROM turns WHERE session = ?1)";
    delete_content(db, "t.session = ?1", key)?;
    let counts = delete_rows(
        db,
        key,
        &[
            (
                "",
                "UPDATE sessions SET parent_session = NULL WHERE parent_session = ?1",
            ),
            (
                "",
                &format!("DELETE FROM idempotency_keys WHERE session = ?1 OR turn IN {TURNS}"),
            ),
            ("", "DELETE FROM head_moves WHERE session = ?1"),
            ("", "DELETE FROM aliases WHERE session = ?1"),
            (
                "",
                &format!("DELETE FROM turn_labels WHERE turn IN {TURNS}"),
            ),
            ("", "DELETE FROM session_pins WHERE session = ?1"),
            ("turns", "DELETE FROM turns WHERE session = ?1"),
            (
                "snapshots",
                "DELETE FROM snapshots WHERE (tenant, session) IN (
                     SELECT tenant, label FROM sessions WHERE key = ?1)",
            ),
            ("sessions", "DELETE FROM sessions WHERE key = ?1"),
        ],
    );
    // Other messages may have the text of a deleted message. They are listed
    // again on the next search for it.
    results::unlist(db, tenant)?;
    let mut counts = counts?;
    // Content that only the requests of this session had.
    let content = Garbage::find(db, tenant, &Retention::default())?;
    content.delete(db)?;
    counts.extend(content.counts());
    Ok(counts)
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
    garbage.delete(db)?;
    Ok(garbage.counts())
}

/// Returns the keys of a snapshot in all sessions that have it.
fn keys_of(db: &Connection, tenant: i64, hash: ContentHash) -> Result<Vec<i64>, Fault> {
    let mut select =
        db.prepare_cached("SELECT key FROM snapshots WHERE tenant = ?1 AND hash = ?2")?;
    let keys = select.query_map((tenant, Hash(hash)), |row| row.get(0))?;
    Ok(keys.collect::<Result<_, _>>()?)
}

/// Returns the turns of a session that other sessions need. Heads, head moves,
/// fork points, parents and compactions of other sessions refer to them, or
/// needed turns follow them.
fn needed(db: &Connection, tenant: i64, session: i64) -> Result<BTreeSet<i64>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT t.key, t.parent, t.compaction, c.summarized_through, c.first_kept
         FROM turns t LEFT JOIN compactions c ON c.turn = t.key WHERE t.session = ?1",
    )?;
    let own = select.query_map([session], |row| {
        let before: [Option<i64>; 4] = [row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
        Ok((row.get(0)?, before))
    })?;
    let own: HashMap<i64, [Option<i64>; 4]> = own.collect::<Result<_, _>>()?;
    let mut select = db.prepare_cached(
        "SELECT head FROM sessions WHERE tenant = ?2 AND key <> ?1
         UNION SELECT parent_turn FROM sessions WHERE tenant = ?2 AND key <> ?1
         UNION SELECT m.source FROM head_moves m JOIN sessions s ON s.key = m.session
             WHERE s.tenant = ?2 AND s.key <> ?1
         UNION SELECT m.target FROM head_moves m JOIN sessions s ON s.key = m.session
             WHERE s.tenant = ?2 AND s.key <> ?1
         UNION SELECT parent FROM turns WHERE tenant = ?2 AND session <> ?1
         UNION SELECT compaction FROM turns WHERE tenant = ?2 AND session <> ?1
         UNION SELECT c.summarized_through FROM compactions c JOIN turns t ON t.key = c.turn
             WHERE t.tenant = ?2 AND t.session <> ?1
         UNION SELECT c.first_kept FROM compactions c JOIN turns t ON t.key = c.turn
             WHERE t.tenant = ?2 AND t.session <> ?1",
    )?;
    let mut waiting: Vec<i64> = Vec::new();
    for turn in select.query_map((session, tenant), |row| row.get::<Option<i64>>(0))? {
        waiting.extend(turn?);
    }
    let mut needed = BTreeSet::new();
    while let Some(turn) = waiting.pop() {
        if let Some(before) = own.get(&turn)
            && needed.insert(turn)
        {
            waiting.extend(before.iter().flatten());
        }
    }
    Ok(needed)
}

/// Assigns turns of a session to another session. The id of a turn depends on
/// the label of the session that recorded it.
fn reassign_turns(
    db: &Connection,
    tenant: i64,
    session: &SessionRow,
    turns: &BTreeSet<i64>,
) -> Result<(), Fault> {
    let mut label = db.prepare_cached(
        "INSERT INTO turn_labels (turn, label) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
    )?;
    let mut give = db.prepare_cached(
        "UPDATE turns SET session = (
             SELECT min(key) FROM sessions WHERE tenant = ?3 AND key <> ?2) WHERE key = ?1",
    )?;
    for turn in turns {
        label.execute((turn, &session.label))?;
        give.execute((turn, session.key, tenant))?;
    }
    Ok(())
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

    fn delete(&self, db: &Connection) -> Result<(), Fault> {
        let mut snapshot = db.prepare_cached("DELETE FROM snapshots WHERE key = ?1")?;
        for key in &self.snapshots {
            snapshot.execute([key])?;
        }
        let mut blob = db.prepare_cached("DELETE FROM blobs WHERE key = ?1")?;
        for (key, _) in &self.blobs {
            blob.execute([key])?;
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
    let mut found = Vec::new();
    let (list, rest) = bytes.as_chunks::<32>();
    // Bytes of hashes are rarely valid UTF-8.
    if rest.is_empty() && std::str::from_utf8(bytes).is_err() {
        found.extend(list.iter().map(|hash| ContentHash::from_bytes(*hash)));
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
