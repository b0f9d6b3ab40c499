//! Deletes a session, at once or in steps.
//!
//! Before the first step, the session is hidden: it has no rows that a caller can
//! find by its label, and the rows that are left are no damage. Turns that other
//! sessions share are assigned to one of those.

use std::collections::{BTreeSet, HashMap};

use contexture_sql_archive::unlisted;
use contexture_store::Retention;

use super::steps::{Counts, UNCOUNTED, snapshots_step};
use super::{Garbage, delete_content, delete_rows, trim};
use crate::driver::Connection;
use crate::error::Fault;
use crate::events;
use crate::sessions::{self, SessionRow};

/// Deletes a session, and those of its turns that no other session needs.
pub(super) fn delete(db: &Connection, tenant: i64, session: &SessionRow) -> Result<Counts, Fault> {
    let key = session.key;
    db.defer_references()?;
    reassign_turns(db, tenant, session, &needed(db, tenant, key)?)?;
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
    unlisted::mark_all(db, tenant)?;
    let mut counts = counts?;
    // Content that only the requests of this session had.
    let content = Garbage::find(db, tenant, &Retention::default())?;
    content.delete(db, tenant)?;
    counts.extend(content.counts());
    Ok(counts)
}

/// Hides a session, so that it can be deleted in steps. Its aliases can be used again,
/// its label cannot.
pub(super) fn hide(db: &Connection, tenant: i64, label: &str) -> Result<(), Fault> {
    let session = sessions::find(db, tenant, label)?;
    delete_rows(
        db,
        session.key,
        &[
            ("", "UPDATE sessions SET deleted = 1 WHERE key = ?1"),
            (
                "",
                "UPDATE sessions SET parent_session = NULL WHERE parent_session = ?1",
            ),
            ("", "DELETE FROM aliases WHERE session = ?1"),
        ],
    )?;
    Ok(())
}

/// The rows of a hidden session that are deleted before its turns: the table, and the
/// column that identifies a row.
const ROWS: [(&str, &str); 3] = [
    ("head_moves", "seq"),
    ("idempotency_keys", "key"),
    ("session_pins", "seq"),
];

/// Deletes the first of these rows of a hidden session: snapshots, events, other rows,
/// content of turns that no other session needs, and rows of such turns.
pub(super) fn step(
    db: &Connection,
    tenant: i64,
    session: &SessionRow,
    most: usize,
) -> Result<Counts, Fault> {
    let deleted = snapshots_step(db, tenant, &session.label, most)?;
    if !deleted.is_empty() {
        return Ok(deleted);
    }
    let uncounted = |rows: usize| Ok(Counts::from([(UNCOUNTED.to_owned(), rows as u64)]));
    let rows = events::forget_some(db, tenant, &session.label, most)?;
    if rows > 0 {
        return uncounted(rows);
    }
    for (table, column) in ROWS {
        let sql = format!(
            "DELETE FROM {table} WHERE session = ?1 AND {column} IN (
                 SELECT {column} FROM {table} WHERE session = ?1 ORDER BY {column} LIMIT ?2)"
        );
        let limit = crate::row::limit(most);
        let rows = db.prepare_cached(&sql)?.change((session.key, limit))?;
        if rows > 0 {
            return uncounted(rows);
        }
    }
    let needed = needed(db, tenant, session.key)?;
    let mut select = db
        .prepare_cached("SELECT key, deleted IS NULL FROM turns WHERE session = ?1 ORDER BY key")?;
    let own = select.query_map([session.key], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let own: Vec<(i64, bool)> = own.collect::<Result<_, _>>()?;
    let (shared, own): (Vec<_>, Vec<_>) =
        (own.into_iter()).partition(|(key, _)| needed.contains(key));
    // The oldest first: what follows a deleted turn is still a conversation, and a new
    // session can be forked from it.
    let whole = own.iter().filter(|(_, is_whole)| *is_whole);
    let some: BTreeSet<i64> = whole.map(|(key, _)| *key).take(most).collect();
    if !some.is_empty() {
        return trim::delete(db, tenant, session, &some);
    }
    if !shared.is_empty() {
        let some: BTreeSet<i64> = shared.iter().map(|(key, _)| *key).take(most).collect();
        reassign_turns(db, tenant, session, &some)?;
        return uncounted(some.len());
    }
    // The newest first: a turn refers to the one before it.
    let Some((first, _)) = own.iter().rev().take(most).next_back() else {
        return Ok(Counts::new());
    };
    delete_turn_rows(db, session, *first)?;
    // The turns were counted with their content.
    uncounted(own.len().min(most))
}

/// Deletes the rows of the turns of a hidden session from `first` on. The turns have no
/// content.
fn delete_turn_rows(db: &Connection, session: &SessionRow, first: i64) -> Result<(), Fault> {
    const TURNS: &str = "(SELECT key FROM turns WHERE session = ?1 AND key >= ?2)";
    db.defer_references()?;
    db.prepare_cached("UPDATE sessions SET head = NULL WHERE key = ?1 AND head IS NOT NULL")?
        .execute([session.key])?;
    for sql in [
        &format!("DELETE FROM idempotency_keys WHERE turn IN {TURNS}"),
        &format!("DELETE FROM turn_labels WHERE turn IN {TURNS}"),
        "DELETE FROM turns WHERE session = ?1 AND key >= ?2",
    ] {
        db.prepare_cached(sql)?.execute((session.key, first))?;
    }
    Ok(())
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
    // Another session that is being deleted would assign the turns once more.
    let mut give = db.prepare_cached(
        "UPDATE turns SET session = (
             SELECT key FROM sessions WHERE tenant = ?3 AND key <> ?2
             ORDER BY CASE WHEN deleted IS NULL THEN 0 ELSE 1 END, key LIMIT 1) WHERE key = ?1",
    )?;
    for turn in turns {
        label.execute((turn, &session.label))?;
        give.execute((turn, session.key, tenant))?;
    }
    Ok(())
}
