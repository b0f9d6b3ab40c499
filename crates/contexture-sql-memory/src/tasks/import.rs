//! Imports tasks together with other records. Parents can follow their
//! subtasks.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::driver::Connection;
use crate::params;
use contexture_store::{Remembered, StoreError, TaskRecord, TaskStatus};
use jiff::Timestamp;

use super::{TaskRow, current, insert, nearest_active, put_current};
use crate::error::Fault;
use crate::row::{Time, Word};

/// A written task and its index in the request.
struct Written<'a> {
    place: usize,
    key: i64,
    task: &'a TaskRecord,
    /// The previous row, if the task existed.
    before: Option<TaskRow>,
}

/// Stores tasks, given with their indexes, and returns the outcome of each. A
/// task has no key.
pub fn import(
    db: &Connection,
    tenant: i64,
    tasks: &[(usize, &TaskRecord)],
    now: Timestamp,
) -> Result<Vec<(usize, Remembered)>, Fault> {
    let mut outcomes = Vec::with_capacity(tasks.len());
    let mut written = Vec::new();
    for (place, task) in tasks {
        let before = TaskRow::find(db, tenant, &task.id)?;
        let outcome = match &before {
            Some(there) if is_same(&there.task, task) => Remembered::Unchanged(0),
            Some(_) => Remembered::Replaced(0),
            None => Remembered::Added(0),
        };
        outcomes.push((*place, outcome));
        if let Remembered::Unchanged(_) = outcome {
            continue;
        }
        let key = match &before {
            Some(there) => {
                update(db, there, task)?;
                there.key
            }
            None => insert(db, tenant, task, None, now)?,
        };
        written.push(Written {
            place: *place,
            key,
            task,
            before,
        });
    }
    if written.is_empty() {
        return Ok(outcomes);
    }
    // Parents can be set only after all tasks exist.
    for task in &written {
        put_parent(db, tenant, task)?;
    }
    let depths = put_depths(db, &written)?;
    check_parts(db, &written)?;
    recount(db, &written, &depths)?;
    put_stacks(db, tenant, &written)?;
    Ok(outcomes)
}

/// Returns true when a task equals the stored one. The depth is derived, and a
/// missing time equals the stored time.
fn is_same(there: &TaskRecord, task: &TaskRecord) -> bool {
    let kept = |time: Option<Timestamp>| time.map(Timestamp::as_millisecond);
    let created_at = task.created_at.or(there.created_at);
    let same = TaskRecord {
        depth: there.depth,
        created_at: there.created_at,
        finished_at: there.finished_at,
        ..task.clone()
    };
    same == *there
        && kept(created_at) == kept(there.created_at)
        && kept(task.finished_at) == kept(there.finished_at)
}

fn update(db: &Connection, there: &TaskRow, task: &TaskRecord) -> Result<(), Fault> {
    let created_at = task.created_at.or(there.task.created_at);
    db.prepare_cached(
        "UPDATE tasks SET stack = ?2, status = ?3, goal = ?4, result = ?5,
             created_at = coalesce(?6, created_at), finished_at = ?7 WHERE key = ?1",
    )?
    .execute(params![
        there.key,
        task.stack,
        Word(task.status),
        task.goal,
        task.result,
        created_at.map(Time),
        task.finished_at.map(Time),
    ])?;
    Ok(())
}

fn refused(place: usize, field: &str, message: String) -> Fault {
    StoreError::invalid(format!("records[{place}].{field}"), message).into()
}

fn put_parent(db: &Connection, tenant: i64, written: &Written<'_>) -> Result<(), Fault> {
    let parent = match &written.task.parent_id {
        None => None,
        Some(id) => {
            let refused = |message: String| refused(written.place, "parent_id", message);
            let found = TaskRow::find(db, tenant, id)?;
            let found = found.ok_or_else(|| refused(format!("there is no task `{id}`")))?;
            if found.task.stack != written.task.stack {
                return Err(refused(format!(
                    "task `{id}` is in stack `{}`",
                    found.task.stack
                )));
            }
            Some(found.key)
        }
    };
    db.prepare_cached("UPDATE tasks SET parent = ?2 WHERE key = ?1")?
        .execute((written.key, parent))?;
    Ok(())
}

/// Writes the depths of the tasks and of their descendants, and rejects cycles.
/// Each task is visited once.
fn put_depths(db: &Connection, written: &[Written<'_>]) -> Result<HashMap<i64, u32>, Fault> {
    let mut parent_of = db.prepare_cached("SELECT parent FROM tasks WHERE key = ?1")?;
    let mut put = db.prepare_cached("UPDATE tasks SET depth = ?2 WHERE key = ?1")?;
    let mut depths: HashMap<i64, u32> = HashMap::new();
    for task in written {
        let (mut path, mut on_path) = (Vec::new(), HashSet::new());
        let mut at = Some(task.key);
        let mut depth = 0;
        while let Some(key) = at {
            if let Some(known) = depths.get(&key) {
                depth = known.saturating_add(1);
                break;
            }
            if !on_path.insert(key) {
                let message = format!("task `{}` would be a part of itself", task.task.id);
                return Err(refused(task.place, "parent_id", message));
            }
            path.push(key);
            at = parent_of.query_row([key], |row| row.get(0))?;
        }
        for key in path.into_iter().rev() {
            depths.insert(key, depth);
            depth = depth.saturating_add(1);
        }
    }
    for (key, depth) in &depths {
        put.execute((key, depth))?;
    }
    // The descendants of moved tasks change their depth, too.
    let moved = written.iter().filter(|task| task.before.is_some());
    let mut pile: Vec<i64> = moved.map(|task| task.key).collect();
    let mut parts = db.prepare_cached("SELECT key FROM tasks WHERE parent = ?1 AND depth <> ?2")?;
    while let Some(key) = pile.pop() {
        let below = depths.get(&key).copied().unwrap_or(0).saturating_add(1);
        let found = parts.query_map((key, below), |row| row.get(0))?;
        for part in found.collect::<Result<Vec<i64>, _>>()? {
            put.execute((part, below))?;
            depths.insert(part, below);
            pile.push(part);
        }
    }
    Ok(depths)
}

/// Rejects a task whose subtasks are in another stack.
fn check_parts(db: &Connection, written: &[Written<'_>]) -> Result<(), Fault> {
    let mut elsewhere =
        db.prepare_cached("SELECT 1 FROM tasks WHERE parent = ?1 AND stack <> ?2")?;
    for task in written.iter().filter(|task| task.before.is_some()) {
        if elsewhere.exists((task.key, &task.task.stack))? {
            let message = format!("task `{}` has parts in another stack", task.task.id);
            return Err(refused(task.place, "stack", message));
        }
    }
    Ok(())
}

/// Counts the open subtasks of the tasks, deepest first, and of their ancestors
/// while a count changes.
fn recount(
    db: &Connection,
    written: &[Written<'_>],
    depths: &HashMap<i64, u32>,
) -> Result<(), Fault> {
    let mut pile: BTreeSet<(u32, i64)> = BTreeSet::new();
    for task in written {
        pile.insert((depths.get(&task.key).copied().unwrap_or(0), task.key));
        let now_in = TaskRow::load(db, task.key)?.parent;
        let was_in = task.before.as_ref().and_then(|before| before.parent);
        for parent in [now_in, was_in].into_iter().flatten() {
            pile.insert((TaskRow::load(db, parent)?.task.depth, parent));
        }
    }
    let mut count = db.prepare_cached(
        "SELECT count(*) FROM tasks WHERE parent = ?1 AND (status = 'active' OR open_parts > 0)",
    )?;
    let mut put = db.prepare_cached("UPDATE tasks SET open_parts = ?2 WHERE key = ?1")?;
    while let Some((depth, key)) = pile.pop_last() {
        let mut row = TaskRow::load(db, key)?;
        let was_open = row.is_open();
        let counted: i64 = count.query_row([key], |row| row.get(0))?;
        if counted == row.open_parts {
            continue;
        }
        put.execute((key, counted))?;
        row.open_parts = counted;
        if let Some(parent) = row.parent.filter(|_| row.is_open() != was_open) {
            pile.insert((depth.saturating_sub(1), parent));
        }
    }
    Ok(())
}

/// Creates the stacks, and chooses another current task where the current one
/// is no longer possible.
fn put_stacks(db: &Connection, tenant: i64, written: &[Written<'_>]) -> Result<(), Fault> {
    let mut stacks: BTreeSet<&str> = BTreeSet::new();
    for task in written {
        stacks.insert(&task.task.stack);
        stacks.extend(task.before.as_ref().map(|before| &*before.task.stack));
    }
    for stack in stacks {
        let at = current(db, tenant, stack)?;
        let row = at.map(|key| TaskRow::load(db, key)).transpose()?;
        let next = match row {
            Some(row) if row.task.stack != stack => None,
            Some(row) if row.task.status != TaskStatus::Active => nearest_active(db, row.parent)?,
            _ => at,
        };
        put_current(db, tenant, stack, next)?;
        db.prepare_cached(
            "DELETE FROM task_stacks WHERE tenant = ?1 AND stack = ?2
             AND NOT EXISTS (SELECT 1 FROM tasks WHERE tenant = ?1 AND stack = ?2)",
        )?
        .execute((tenant, stack))?;
    }
    Ok(())
}
