//! Measures, deletes and collects what a tenant has stored.

use std::collections::{BTreeMap, BTreeSet};

use contexture_core::ContentHash;
use contexture_store::{Deleted, Retention, StoreError, Upkeep, Usage, Verification};
use rusqlite::Connection;

use crate::error::Fault;
use crate::row::{Hash, Time};
use crate::{SqliteStore, Tenant, sessions, verify, writer};

impl Upkeep for SqliteStore {
    fn usage(&self) -> Result<Usage, StoreError> {
        let mut usage = self.read(usage)?;
        usage.bytes = match self.existing()? {
            Some(_) => self.files.bytes_of(&self.tenant.name),
            None => 0,
        };
        Ok(usage)
    }

    fn verify(&self) -> Result<Verification, StoreError> {
        self.settle();
        let Some(shared) = self.existing()? else {
            return Ok(Verification::default());
        };
        let verified = self.read(verify::verify);
        match verified {
            // What cannot even be read is damage, too.
            Err(StoreError::NotAStore { message, .. }) => {
                let mut verified = Verification::default();
                verified.damaged.push(contexture_store::Damage {
                    what: shared.place.address.clone(),
                    message,
                });
                Ok(verified)
            }
            other => other,
        }
    }

    fn delete_session(&self, label: &str) -> Result<Deleted, StoreError> {
        let label = label.to_owned();
        self.delete(move |db, tenant| delete_session(db, tenant, &label))
    }

    fn delete_tree(&self, id: &str) -> Result<Deleted, StoreError> {
        let id = id.to_owned();
        self.delete(move |db, tenant| delete_tree(db, tenant, &id))
    }

    fn collect(&self, retention: &Retention, dry_run: bool) -> Result<Deleted, StoreError> {
        self.settle();
        let retention = *retention;
        if self.existing()?.is_none() {
            return Ok(Deleted::default());
        }
        if dry_run {
            let counts = self.read(|db, tenant| {
                let doomed = Doomed::find(db, tenant, &retention)?;
                Ok(doomed.counts())
            })?;
            return Ok(Deleted {
                deleted: counts,
                pending: false,
            });
        }
        self.delete(move |db, tenant| {
            // Found in the transaction that deletes: what is written meanwhile
            // is seen.
            let doomed = Doomed::find(db, tenant, &retention)?;
            doomed.delete(db)?;
            Ok(doomed.counts())
        })
    }
}

impl SqliteStore {
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

fn usage(db: &Connection, tenant: i64) -> Result<Usage, Fault> {
    let count = |sql: &str| -> Result<u64, Fault> {
        let number: i64 = db
            .prepare_cached(sql)?
            .query_row([tenant], |row| row.get(0))?;
        Ok(number.unsigned_abs())
    };
    Ok(Usage {
        bytes: 0,
        sessions: count("SELECT count(*) FROM sessions WHERE tenant = ?1")?,
        turns: count("SELECT count(*) FROM turns WHERE tenant = ?1")?,
        snapshots: count("SELECT count(*) FROM snapshots WHERE tenant = ?1")?,
        records: count("SELECT count(*) FROM memories WHERE tenant = ?1")?,
        trees: count("SELECT count(*) FROM trees WHERE tenant = ?1")?,
        nodes: count("SELECT ifnull(sum(nodes), 0) FROM trees WHERE tenant = ?1")?,
        tasks: count("SELECT count(*) FROM tasks WHERE tenant = ?1")?,
        pending: tenant != Tenant::NOBODY && writer::is_unclean(db),
    })
}

/// Runs statements that delete rows of one thing, whose key is `?1`. Returns how
/// many rows of each table went, where a name is given.
fn delete_rows(
    db: &Connection,
    key: i64,
    statements: &[(&str, &str)],
) -> Result<BTreeMap<String, u64>, Fault> {
    // Rows refer to each other in both directions.
    db.execute_batch("PRAGMA defer_foreign_keys = ON")?;
    let mut counts = BTreeMap::new();
    for (name, sql) in statements {
        let rows = db.prepare_cached(sql)?.execute([key])? as u64;
        if !name.is_empty() && rows > 0 {
            *counts.entry((*name).to_owned()).or_default() += rows;
        }
    }
    Ok(counts)
}

fn delete_tree(db: &Connection, tenant: i64, id: &str) -> Result<BTreeMap<String, u64>, Fault> {
    let mut select = db.prepare_cached("SELECT key FROM trees WHERE tenant = ?1 AND id = ?2")?;
    let mut found = select.query_map((tenant, id), |row| row.get::<_, i64>(0))?;
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

fn delete_session(
    db: &Connection,
    tenant: i64,
    label: &str,
) -> Result<BTreeMap<String, u64>, Fault> {
    let session = sessions::find(db, tenant, label)?;
    let key = session.key;
    // The turns recorded in this session that others need: those that others
    // stand at, stood at, began at or follow, and what comes before them.
    let seeds = "
        CREATE TEMP TABLE kept (turn INTEGER PRIMARY KEY);
        CREATE TEMP TABLE own (turn INTEGER PRIMARY KEY);";
    db.execute_batch("DROP TABLE IF EXISTS temp.kept; DROP TABLE IF EXISTS temp.own;")?;
    db.execute_batch(seeds)?;
    db.execute(
        "INSERT INTO own SELECT key FROM turns WHERE session = ?1",
        [key],
    )?;
    db.execute(
        "INSERT OR IGNORE INTO kept
         WITH RECURSIVE needed (turn) AS (
             SELECT turn FROM (
                 SELECT head AS turn FROM sessions WHERE key <> ?1
                 UNION SELECT parent_turn FROM sessions WHERE key <> ?1
                 UNION SELECT source FROM head_moves WHERE session <> ?1
                 UNION SELECT target FROM head_moves WHERE session <> ?1
                 UNION SELECT parent FROM turns WHERE session <> ?1
                 UNION SELECT compaction FROM turns WHERE session <> ?1
                 UNION SELECT c.summarized_through FROM compactions c
                     JOIN turns t ON t.key = c.turn WHERE t.session <> ?1
                 UNION SELECT c.first_kept FROM compactions c
                     JOIN turns t ON t.key = c.turn WHERE t.session <> ?1
             ) WHERE turn IN own
             UNION SELECT t.parent FROM needed n JOIN turns t ON t.key = n.turn
                 WHERE t.parent IN own
             UNION SELECT t.compaction FROM needed n JOIN turns t ON t.key = n.turn
                 WHERE t.compaction IN own
             UNION SELECT c.summarized_through FROM needed n
                 JOIN compactions c ON c.turn = n.turn WHERE c.summarized_through IN own
             UNION SELECT c.first_kept FROM needed n
                 JOIN compactions c ON c.turn = n.turn WHERE c.first_kept IN own
         )
         SELECT turn FROM needed WHERE turn IS NOT NULL",
        [key],
    )?;
    // What is kept belongs to another session from now on. Its id follows from
    // the label that it was recorded under.
    db.execute(
        "INSERT OR IGNORE INTO turn_labels (turn, label) SELECT turn, ?1 FROM kept",
        [&session.label],
    )?;
    let heir = "SELECT min(key) FROM sessions WHERE tenant = ?2 AND key <> ?1";
    db.execute(
        &format!("UPDATE turns SET session = ({heir}) WHERE session = ?1 AND key IN kept"),
        [key, tenant],
    )?;
    db.execute("DELETE FROM own WHERE turn IN kept", [])?;
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
                "DELETE FROM idempotency_keys WHERE session = ?1 OR turn IN own",
            ),
            ("", "DELETE FROM head_moves WHERE session = ?1"),
            ("", "DELETE FROM aliases WHERE session = ?1"),
            (
                "",
                "DELETE FROM tool_results WHERE ?1 = ?1 AND message IN (
                     SELECT m.key FROM own JOIN messages m
                     ON m.key >= own.turn << 14 AND m.key < (own.turn + 1) << 14)",
            ),
            (
                "",
                "DELETE FROM messages WHERE ?1 = ?1 AND key IN (
                     SELECT m.key FROM own JOIN messages m
                     ON m.key >= own.turn << 14 AND m.key < (own.turn + 1) << 14)",
            ),
            ("", "DELETE FROM tool_calls WHERE ?1 = ?1 AND turn IN own"),
            ("", "DELETE FROM late_results WHERE ?1 = ?1 AND turn IN own"),
            ("", "DELETE FROM compactions WHERE ?1 = ?1 AND turn IN own"),
            ("", "DELETE FROM counts WHERE ?1 = ?1 AND turn IN own"),
            ("", "DELETE FROM turn_labels WHERE ?1 = ?1 AND turn IN own"),
            ("turns", "DELETE FROM turns WHERE ?1 = ?1 AND key IN own"),
            (
                "snapshots",
                "DELETE FROM snapshots WHERE (tenant, session) IN (
                     SELECT tenant, label FROM sessions WHERE key = ?1)",
            ),
            ("sessions", "DELETE FROM sessions WHERE key = ?1"),
        ],
    );
    db.execute_batch("DROP TABLE temp.kept; DROP TABLE temp.own;")?;
    // A text that a deleted message had may be in others, too. They are listed
    // again when somebody asks for it.
    db.execute("DELETE FROM unlisted_results", [])?;
    db.execute(
        "INSERT INTO unlisted_results
         SELECT min(key), max(key) FROM turns HAVING max(key) IS NOT NULL",
        [],
    )?;
    let mut counts = counts?;
    // Content that only those requests had.
    let content = Doomed::find(db, tenant, &Retention::default())?;
    content.delete(db)?;
    counts.extend(content.counts());
    Ok(counts)
}

/// Snapshots that are not kept, and content that no other refers to.
struct Doomed {
    snapshots: Vec<i64>,
    blobs: Vec<i64>,
    bytes: u64,
}

impl Doomed {
    fn find(db: &Connection, tenant: i64, retention: &Retention) -> Result<Self, Fault> {
        let snapshots = Self::snapshots(db, tenant, retention)?;
        let doomed: BTreeSet<i64> = snapshots.iter().copied().collect();
        // Everything that the others refer to, directly or not.
        let mut roots = db.prepare_cached("SELECT key, root FROM snapshots WHERE tenant = ?1")?;
        let roots = roots.query_map([tenant], |row| Ok((row.get(0)?, row.get::<_, Hash>(1)?.0)))?;
        let mut waiting = Vec::new();
        for root in roots {
            let (key, root): (i64, ContentHash) = root?;
            if !doomed.contains(&key) {
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
            let mut rows = content.query((tenant, Hash(hash)))?;
            if let Some(row) = rows.next()? {
                let bytes = row.get_ref(0)?.as_blob().unwrap_or_default();
                waiting.extend(hashes_in(bytes));
            }
        }
        let mut all =
            db.prepare_cached("SELECT key, hash, length(bytes) FROM blobs WHERE tenant = ?1")?;
        let mut rows = all.query([tenant])?;
        let (mut blobs, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            if !needed.contains(row.get::<_, Hash>(1)?.0.as_bytes()) {
                blobs.push(row.get(0)?);
                bytes += row.get::<_, i64>(2)?.unsigned_abs();
            }
        }
        Ok(Self {
            snapshots,
            blobs,
            bytes,
        })
    }

    fn snapshots(db: &Connection, tenant: i64, retention: &Retention) -> Result<Vec<i64>, Fault> {
        let mut select = db.prepare_cached(
            "SELECT key FROM (
                 SELECT key, created_at,
                     row_number() OVER (PARTITION BY session ORDER BY key DESC) AS place
                 FROM snapshots WHERE tenant = ?1)
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
        for key in &self.blobs {
            blob.execute([key])?;
        }
        Ok(())
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let counts = [
            ("snapshots", self.snapshots.len() as u64),
            ("blobs", self.blobs.len() as u64),
            ("blob_bytes", self.bytes),
        ];
        let some = counts.into_iter().filter(|(_, count)| *count > 0);
        some.map(|(name, count)| (name.to_owned(), count)).collect()
    }
}

/// Returns the hashes that are written out in content. Text that happens to look
/// like one is no harm: more is kept.
pub(crate) fn hashes_in(bytes: &[u8]) -> Vec<ContentHash> {
    let mut found = Vec::new();
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
