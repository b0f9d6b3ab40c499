//! Deletes the turns of a session before a turn.
//!
//! The row of a deleted turn remains without content: its id is part of the hash
//! of the next turn, and compactions, moves of heads and other sessions can refer
//! to it. A walk ends before a deleted turn.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;

use contexture_sql_archive::unlisted;
use contexture_store::{Retention, StoreError, TurnId, TurnKind};

use super::{Garbage, delete_content, delete_rows};
use crate::driver::{Batch, Connection};
use crate::error::Fault;
use crate::row::Word;
use crate::sessions::{self, SessionRow};
use crate::turns;

/// Deletes the turns of a session before `turn`.
pub(super) fn run(
    db: &Connection,
    tenant: i64,
    label: &str,
    turn: TurnId,
) -> Result<BTreeMap<String, u64>, Fault> {
    let session = sessions::find(db, tenant, label)?;
    let first = turns::key(db, tenant, turn)?;
    let path = path(db, &session)?;
    let Some(at) = path.iter().position(|key| *key == first) else {
        return Err(invalid(format!(
            "turn `{turn}` is not on the path to the head of session `{}`",
            session.label
        )));
    };
    let (kept, older) = path.split_at(at + 1);
    check_calls(db, turn, first, older)?;
    let parents = parents(db, tenant)?;
    if !parents.contains_key(&first) {
        return Ok(BTreeMap::new());
    }
    let mut own = other_turns(db, &session, kept, &parents)?;
    own.extend(undone_compactions(db, &session, kept, &parents)?);
    let deletable = unless_shared(db, tenant, &session, older, own, &parents)?;
    delete(db, tenant, &session, &deletable)
}

fn invalid(message: String) -> Fault {
    Fault::Refused(StoreError::invalid("before", message))
}

/// Returns the turns on the path to the head that are not deleted, newest first.
fn path(db: &Connection, session: &SessionRow) -> Result<Vec<i64>, Fault> {
    let mut select = db.prepare_cached(
        "WITH RECURSIVE path (key, parent, place) AS (
             SELECT key, parent, 1 FROM turns WHERE key = ?1
             UNION ALL
             SELECT t.key, t.parent, p.place + 1 FROM path p JOIN turns t ON t.key = p.parent
             WHERE t.deleted IS NULL)
         SELECT key FROM path ORDER BY place",
    )?;
    let keys = select.query_map([session.head], |row| row.get(0))?;
    Ok(keys.collect::<Result<_, _>>()?)
}

/// Fails if tool calls of the older turns are still open at the first kept turn,
/// unless that turn abandons them: a request cannot begin with results.
fn check_calls(db: &Connection, turn: TurnId, first: i64, older: &[i64]) -> Result<(), Fault> {
    if older.is_empty() || can_be_first(db, first)? {
        return Ok(());
    }
    for key in older {
        if can_be_first(db, *key)? {
            let instead = turns::id_of(db, *key)?;
            return Err(invalid(format!(
                "the turns after `{turn}` need tool calls of the turns before it; use turn \
                 `{instead}` instead"
            )));
        }
    }
    Err(invalid(format!(
        "the turns after `{turn}` need tool calls of the turns before it; use a later turn"
    )))
}

/// Returns true if a turn does not need tool calls of the turns before it.
fn can_be_first(db: &Connection, key: i64) -> Result<bool, Fault> {
    let mut select = db.prepare_cached(
        "SELECT t.kind, t.begins, p.open_calls IS NOT NULL
         FROM turns t LEFT JOIN turns p ON p.key = t.parent WHERE t.key = ?1",
    )?;
    let found = select.query_row([key], |row| {
        let starts_step =
            row.get::<Word<TurnKind>>(0)?.0 == TurnKind::Normal && row.get::<bool>(1)?;
        Ok(starts_step || !row.get::<bool>(2)?)
    });
    Ok(found?)
}

/// Returns the parent of each turn of the tenant.
fn parents(db: &Connection, tenant: i64) -> Result<HashMap<i64, i64>, Fault> {
    let mut parents = HashMap::new();
    let mut select = db
        .prepare_cached("SELECT key, parent FROM turns WHERE tenant = ?1 AND parent IS NOT NULL")?;
    select.for_each([tenant], |row| {
        parents.insert(row.get(0)?, row.get(1)?);
        Ok::<_, Fault>(ControlFlow::Continue(()))
    })?;
    Ok(parents)
}

/// Returns the turns that were recorded in a session, are not on the path to its
/// head, and do not come after the first kept turn.
fn other_turns(
    db: &Connection,
    session: &SessionRow,
    kept: &[i64],
    parents: &HashMap<i64, i64>,
) -> Result<BTreeSet<i64>, Fault> {
    let mut select =
        db.prepare_cached("SELECT key FROM turns WHERE session = ?1 AND deleted IS NULL")?;
    let own = select.query_map([session.key], |row| row.get(0))?;
    let own: Vec<i64> = own.collect::<Result<_, _>>()?;
    let mut is_after: HashMap<i64, bool> = kept.iter().map(|key| (*key, true)).collect();
    let mut others = BTreeSet::new();
    for key in own {
        if !leads_to(key, parents, &mut is_after, |_| {}) {
            others.insert(key);
        }
    }
    Ok(others)
}

/// Returns the compactions of a session that were undone: they are not on the path to
/// its head, and no turn follows them. Their summaries can contain what is deleted.
fn undone_compactions(
    db: &Connection,
    session: &SessionRow,
    kept: &[i64],
    parents: &HashMap<i64, i64>,
) -> Result<BTreeSet<i64>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT key FROM turns WHERE session = ?1 AND kind = ?2 AND deleted IS NULL",
    )?;
    let found = select.query_map((session.key, Word(TurnKind::Compaction)), |row| row.get(0))?;
    let mut undone: BTreeSet<i64> = found.collect::<Result<_, _>>()?;
    for key in kept {
        undone.remove(key);
    }
    let mut followed: Vec<(i64, i64)> = (parents.iter())
        .filter(|(_, parent)| undone.contains(parent))
        .map(|(key, parent)| (*parent, *key))
        .collect();
    // The newest first: an undone compaction can follow another.
    followed.sort_unstable_by(|a, b| b.cmp(a));
    let mut is_whole = db.prepare_cached("SELECT deleted IS NULL FROM turns WHERE key = ?1")?;
    for (key, next) in followed {
        if !undone.contains(&next) && is_whole.query_row([next], |row| row.get::<bool>(0))? {
            undone.remove(&key);
        }
    }
    Ok(undone)
}

/// Climbs from a turn to one whose answer is known, or to the root, where the
/// answer is no. Adds the answer of all turns in between, and calls `visit` with
/// those that were not known.
fn leads_to(
    key: i64,
    parents: &HashMap<i64, i64>,
    known: &mut HashMap<i64, bool>,
    mut visit: impl FnMut(i64),
) -> bool {
    let mut climbed = Vec::new();
    let mut next = Some(key);
    let mut answer = false;
    while let Some(key) = next {
        if let Some(found) = known.get(&key) {
            answer = *found;
            break;
        }
        visit(key);
        climbed.push(key);
        next = parents.get(&key).copied();
    }
    known.extend(climbed.into_iter().map(|key| (key, answer)));
    answer
}

/// Returns the turns to delete: the older ones on the path, and the others that no
/// other session needs. Fails if another session needs one of the older ones.
fn unless_shared(
    db: &Connection,
    tenant: i64,
    session: &SessionRow,
    older: &[i64],
    mut others: BTreeSet<i64>,
    parents: &HashMap<i64, i64>,
) -> Result<BTreeSet<i64>, Fault> {
    // Where the heads of other sessions are, or were.
    let mut select = db.prepare_cached(
        "SELECT s.label, s.head FROM sessions s
         WHERE s.tenant = ?1 AND s.key <> ?2 AND s.head IS NOT NULL AND s.deleted IS NULL
         UNION SELECT s.label, m.target FROM head_moves m JOIN sessions s ON s.key = m.session
         WHERE s.tenant = ?1 AND s.key <> ?2 AND m.target IS NOT NULL AND s.deleted IS NULL
         ORDER BY 1, 2",
    )?;
    let mut needs_older: HashMap<i64, bool> = older.iter().map(|key| (*key, true)).collect();
    let mut needed: HashSet<i64> = HashSet::new();
    let mut sharing: Vec<String> = Vec::new();
    select.for_each((tenant, session.key), |row| {
        let (label, turn): (String, i64) = (row.get(0)?, row.get(1)?);
        if leads_to(turn, parents, &mut needs_older, |key| {
            needed.insert(key);
        }) && sharing.last() != Some(&label)
        {
            sharing.push(label);
        }
        Ok::<_, Fault>(ControlFlow::Continue(()))
    })?;
    if !sharing.is_empty() {
        return Err(Fault::Refused(StoreError::Shared {
            session: session.label.clone(),
            others: sharing,
        }));
    }
    others.retain(|key| !needed.contains(key));
    others.extend(older);
    Ok(others)
}

/// Returns the oldest turns of a session before `turn`: at least `most`, if there
/// are more than that. None if there are not: they are deleted at once.
pub(super) fn oldest_before(
    db: &Connection,
    tenant: i64,
    session: &SessionRow,
    turn: TurnId,
    most: usize,
) -> Result<BTreeSet<i64>, Fault> {
    let first = turns::key(db, tenant, turn)?;
    let path = path(db, session)?;
    let at = path.iter().position(|key| *key == first);
    let mut older = at.map_or_else(Vec::new, |at| path[at + 1..].to_vec());
    // A session may have been forked since the last step.
    let parents = parents(db, tenant)?;
    unless_shared(db, tenant, session, &older, BTreeSet::new(), &parents)?;
    older.reverse();
    // The turn after them must not need their tool calls.
    let mut end = most;
    while end < older.len() && !can_be_first(db, older[end])? {
        end += 1;
    }
    Ok(match end < older.len() {
        true => older[..end].iter().copied().collect(),
        false => BTreeSet::new(),
    })
}

/// Deletes the content of turns, and the snapshots of their session.
pub(super) fn delete(
    db: &Connection,
    tenant: i64,
    session: &SessionRow,
    deletable: &BTreeSet<i64>,
) -> Result<BTreeMap<String, u64>, Fault> {
    let mut marks = Batch::default();
    for key in deletable {
        marks.add([key])?;
    }
    db.prepare_cached(
        "UPDATE turns SET deleted = 1, compaction = NULL, begins = 0, bytes = 0, created_at = 0,
             open_calls = NULL, model = NULL, provider = NULL, input_tokens = NULL,
             output_tokens = NULL, cached_input_tokens = NULL, cache_write_tokens = NULL,
             reasoning_tokens = NULL, stop_reason = NULL, error_kind = NULL,
             error_message = NULL, status = NULL, role = NULL, toolset_name = NULL, tools = NULL,
             permissions_granted = NULL, source_event_id = NULL, request_hash = NULL,
             idempotency_key = NULL
         WHERE key = ?1",
    )?
    .execute_all(marks)?;
    const TURNS: &str = "(SELECT key FROM turns WHERE tenant = ?1 AND deleted = 1)";
    delete_content(db, "t.tenant = ?1 AND t.deleted = 1", tenant)?;
    delete_rows(
        db,
        tenant,
        &[
            // A deleted summary is no longer shown.
            (
                "",
                &format!(
                    "UPDATE turns SET compaction = NULL
                     WHERE tenant = ?1 AND compaction IN {TURNS}"
                ),
            ),
            (
                "",
                "UPDATE tenants SET turn_deletions = turn_deletions + 1 WHERE key = ?1",
            ),
        ],
    )?;
    // A text of a deleted message may be in others, too. They are listed again
    // when a caller asks for it.
    unlisted::mark_all(db, tenant)?;
    let snapshots = db
        .prepare_cached("DELETE FROM snapshots WHERE tenant = ?1 AND session = ?2")?
        .change((tenant, &session.label))? as u64;
    let content = Garbage::find(db, tenant, &Retention::default())?;
    content.delete(db, tenant)?;
    let mut counts = content.counts();
    let deleted = [("turns", deletable.len() as u64), ("snapshots", snapshots)];
    let deleted = deleted.into_iter().filter(|(_, count)| *count > 0);
    counts.extend(deleted.map(|(name, count)| (name.to_owned(), count)));
    Ok(counts)
}
