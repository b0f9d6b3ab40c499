//! Task stacks.

mod import;

use crate::driver::{Connection, OptionalExtension, Row};
use crate::params;
use contexture_store::{NewTask, Record, StoreError, TaskRecord, TaskStatus, TaskView};
use jiff::Timestamp;

use crate::error::Fault;
use crate::row::{Time, Word};

pub use import::import;

/// The largest number of completed siblings in a view.
const SIBLINGS: i64 = 100;

/// A row of the table of tasks.
struct TaskRow {
    key: i64,
    parent: Option<i64>,
    open_parts: i64,
    task: TaskRecord,
}

const COLUMNS: &str = "SELECT t.key, t.parent, t.open_parts, t.id, t.stack, t.goal, p.id, t.status,
    t.result, t.depth, t.created_at, t.finished_at
    FROM tasks t LEFT JOIN tasks p ON p.key = t.parent";

impl TaskRow {
    fn read(row: &Row<'_>) -> crate::driver::Result<Self> {
        Ok(Self {
            key: row.get(0)?,
            parent: row.get(1)?,
            open_parts: row.get(2)?,
            task: TaskRecord {
                id: row.get(3)?,
                stack: row.get(4)?,
                goal: row.get(5)?,
                parent_id: row.get(6)?,
                status: row.get::<Word<_>>(7)?.0,
                result: row.get(8)?,
                depth: row.get(9)?,
                created_at: Some(row.get::<Time>(10)?.0),
                finished_at: row.get::<Option<Time>>(11)?.map(|time| time.0),
            },
        })
    }

    fn load(db: &Connection, key: i64) -> Result<Self, Fault> {
        let mut select = db.prepare_cached(&format!("{COLUMNS} WHERE t.key = ?1"))?;
        Ok(select.query_row([key], Self::read)?)
    }

    fn find(db: &Connection, tenant: i64, id: &str) -> Result<Option<Self>, Fault> {
        let mut select =
            db.prepare_cached(&format!("{COLUMNS} WHERE t.tenant = ?1 AND t.id = ?2"))?;
        Ok(select.query_row((tenant, id), Self::read).optional()?)
    }

    fn in_stack(db: &Connection, tenant: i64, stack: &str, id: &str) -> Result<Self, Fault> {
        let found = Self::find(db, tenant, id)?.filter(|found| found.task.stack == stack);
        found.ok_or_else(|| Fault::not_found("task", id))
    }

    /// Returns true when the task is active or has open subtasks.
    fn is_open(&self) -> bool {
        self.task.status == TaskStatus::Active || self.open_parts > 0
    }
}

fn current(db: &Connection, tenant: i64, stack: &str) -> Result<Option<i64>, Fault> {
    let mut select =
        db.prepare_cached("SELECT current FROM task_stacks WHERE tenant = ?1 AND stack = ?2")?;
    let found = select.query_row((tenant, stack), |row| row.get(0));
    Ok(found.optional()?.flatten())
}

/// Makes a task the current one of its stack. Creates the stack if it does not
/// exist.
fn put_current(
    db: &Connection,
    tenant: i64,
    stack: &str,
    current: Option<i64>,
) -> Result<(), Fault> {
    db.prepare_cached(
        "INSERT INTO task_stacks (tenant, stack, current) VALUES (?1, ?2, ?3)
         ON CONFLICT (tenant, stack) DO UPDATE SET current = ?3",
    )?
    .execute((tenant, stack, current))?;
    Ok(())
}

/// Adds a task to a stack and makes it the current one.
pub fn push(
    db: &Connection,
    tenant: i64,
    stack: &str,
    new: &NewTask,
    now: Timestamp,
) -> Result<TaskRecord, Fault> {
    let parent = match &new.parent_id {
        Some(id) => Some(TaskRow::in_stack(db, tenant, stack, id)?),
        None => match current(db, tenant, stack)? {
            Some(key) => Some(TaskRow::load(db, key)?),
            None => None,
        },
    };
    if let Some(parent) = &parent
        && parent.task.status == TaskStatus::Complete
    {
        let message = format!("task `{}` is complete", parent.task.id);
        return Err(StoreError::invalid("parent_id", message).into());
    }
    let task = TaskRecord {
        id: match &new.id {
            Some(id) => id.clone(),
            None => free_id(db, tenant)?,
        },
        stack: stack.to_owned(),
        goal: new.goal.clone(),
        parent_id: parent.as_ref().map(|parent| parent.task.id.clone()),
        status: TaskStatus::Active,
        result: None,
        depth: match &parent {
            Some(parent) => parent.task.depth.saturating_add(1),
            None => 0,
        },
        created_at: Some(now),
        finished_at: None,
    };
    Record::Task(task.clone()).check()?;
    if TaskRow::find(db, tenant, &task.id)?.is_some() {
        return Err(Fault::exists("task", &task.id));
    }
    let key = insert(
        db,
        tenant,
        &task,
        parent.as_ref().map(|parent| parent.key),
        now,
    )?;
    if let Some(parent) = &parent {
        opened(db, parent.key, 1)?;
    }
    put_current(db, tenant, stack, Some(key))?;
    Ok(TaskRow::load(db, key)?.task)
}

/// Returns a generated name that no task has or had.
fn free_id(db: &Connection, tenant: i64) -> Result<String, Fault> {
    let mut next = db.prepare_cached(
        "INSERT INTO memory_states (tenant, seq, tasks) VALUES (?1, 0, 1)
         ON CONFLICT (tenant) DO UPDATE SET tasks = memory_states.tasks + 1 RETURNING tasks",
    )?;
    loop {
        let number: i64 = next.query_row([tenant], |row| row.get(0))?;
        let id = format!("t{number}");
        if TaskRow::find(db, tenant, &id)?.is_none() {
            return Ok(id);
        }
    }
}

fn insert(
    db: &Connection,
    tenant: i64,
    task: &TaskRecord,
    parent: Option<i64>,
    now: Timestamp,
) -> Result<i64, Fault> {
    let mut insert = db.prepare_cached(
        "INSERT INTO tasks (tenant, id, stack, parent, depth, open_parts, status, goal, result,
             created_at, finished_at)
         VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8, ?9, ?10)",
    )?;
    let key = insert.insert(params![
        tenant,
        task.id,
        task.stack,
        parent,
        task.depth,
        Word(task.status),
        task.goal,
        task.result,
        Time(task.created_at.unwrap_or(now)),
        task.finished_at.map(Time),
    ])?;
    Ok(key)
}

/// Adds `more` (1 or -1) to the number of open subtasks of a task, and updates
/// its ancestors.
fn opened(db: &Connection, task: i64, more: i64) -> Result<(), Fault> {
    let mut at = Some(task);
    while let Some(key) = at {
        let row = TaskRow::load(db, key)?;
        let after = TaskRow {
            open_parts: row.open_parts + more,
            ..row
        };
        db.prepare_cached("UPDATE tasks SET open_parts = ?2 WHERE key = ?1")?
            .execute((key, after.open_parts))?;
        let was_open = after.task.status == TaskStatus::Active || after.open_parts - more > 0;
        at = after.parent.filter(|_| was_open != after.is_open());
    }
    Ok(())
}

/// Sets the status of a task, and updates its ancestors.
fn put_status(
    db: &Connection,
    row: &mut TaskRow,
    status: TaskStatus,
    result: Option<String>,
    finished_at: Option<Timestamp>,
) -> Result<(), Fault> {
    let was_open = row.is_open();
    row.task.status = status;
    row.task.result = result;
    row.task.finished_at = finished_at;
    db.prepare_cached(
        "UPDATE tasks SET status = ?2, result = ?3, finished_at = ?4 WHERE key = ?1",
    )?
    .execute((
        row.key,
        Word(status),
        &row.task.result,
        finished_at.map(Time),
    ))?;
    match (row.parent, i64::from(row.is_open()) - i64::from(was_open)) {
        (None, _) | (_, 0) => Ok(()),
        (Some(parent), more) => opened(db, parent, more),
    }
}

/// Completes or blocks a task: the one with `id`, or the current one.
pub fn finish(
    db: &Connection,
    tenant: i64,
    stack: &str,
    id: Option<&str>,
    status: TaskStatus,
    result: Option<String>,
    now: Timestamp,
) -> Result<TaskRecord, Fault> {
    if status == TaskStatus::Active {
        let message = "a task that is finished is `complete` or `blocked`";
        return Err(StoreError::invalid("status", message).into());
    }
    let at = current(db, tenant, stack)?;
    let mut row = match (id, at) {
        (Some(id), _) => TaskRow::in_stack(db, tenant, stack, id)?,
        (None, Some(key)) => TaskRow::load(db, key)?,
        (None, None) => {
            let message = format!("`{stack}` has no current task");
            return Err(StoreError::invalid("stack", message).into());
        }
    };
    let refused = |message: String| Err(StoreError::invalid("task", message).into());
    let name = &row.task.id;
    if row.task.status == TaskStatus::Complete {
        return refused(format!("`{name}` is already complete"));
    }
    if row.open_parts > 0 {
        return refused(format!("`{name}` has parts that are still active"));
    }
    put_status(db, &mut row, status, result, Some(now))?;
    if at == Some(row.key) {
        let above = nearest_active(db, row.parent)?;
        put_current(db, tenant, stack, above)?;
    }
    Ok(TaskRow::load(db, row.key)?.task)
}

/// Returns the first active task among `at` and its ancestors.
fn nearest_active(db: &Connection, mut at: Option<i64>) -> Result<Option<i64>, Fault> {
    let mut select = db.prepare_cached("SELECT parent, status FROM tasks WHERE key = ?1")?;
    while let Some(key) = at {
        let (parent, status) = select.query_row([key], |row| {
            Ok((row.get(0)?, row.get::<Word<TaskStatus>>(1)?.0))
        })?;
        if status == TaskStatus::Active {
            return Ok(Some(key));
        }
        at = parent;
    }
    Ok(None)
}

/// Makes an unfinished task the current one of its stack.
pub fn resume(db: &Connection, tenant: i64, stack: &str, id: &str) -> Result<TaskRecord, Fault> {
    let mut row = TaskRow::in_stack(db, tenant, stack, id)?;
    match row.task.status {
        TaskStatus::Complete => {
            let message = format!("`{id}` is complete");
            return Err(StoreError::invalid("task", message).into());
        }
        TaskStatus::Blocked => {
            // The task no longer waits.
            put_status(db, &mut row, TaskStatus::Active, None, None)?;
        }
        TaskStatus::Active => {}
    }
    put_current(db, tenant, stack, Some(row.key))?;
    Ok(TaskRow::load(db, row.key)?.task)
}

/// Returns the path to the current task, with completed siblings and subtasks.
pub fn view(db: &Connection, tenant: i64, stack: &str) -> Result<TaskView, Fault> {
    let Some(key) = current(db, tenant, stack)? else {
        return Ok(TaskView::default());
    };
    let last = TaskRow::load(db, key)?;
    let (parent, mut at) = (last.parent, last.parent);
    let mut path = vec![last.task];
    while let Some(key) = at {
        let above = TaskRow::load(db, key)?;
        path.push(above.task);
        at = above.parent;
    }
    path.reverse();
    Ok(TaskView {
        path,
        siblings: completed(db, tenant, stack, parent)?,
        parts: completed(db, tenant, stack, Some(key))?,
    })
}

/// Returns the latest completed subtasks of a task, oldest first.
fn completed(
    db: &Connection,
    tenant: i64,
    stack: &str,
    parent: Option<i64>,
) -> Result<Vec<TaskRecord>, Fault> {
    let mut select = db.prepare_cached(&format!(
        "{COLUMNS} WHERE t.tenant = ?1 AND t.stack = ?2 AND t.parent IS NOT DISTINCT FROM ?3
             AND t.status = 'complete' ORDER BY t.created_at DESC, t.id DESC LIMIT ?4"
    ))?;
    let found = select.query_map((tenant, stack, parent, SIBLINGS), TaskRow::read)?;
    let mut tasks = found
        .map(|row| Ok(row?.task))
        .collect::<crate::driver::Result<Vec<_>>>()?;
    tasks.reverse();
    Ok(tasks)
}

/// Returns all tasks of a stack, each before its subtasks.
pub fn list(db: &Connection, tenant: i64, stack: &str) -> Result<Vec<TaskRecord>, Fault> {
    // The last sibling comes first, because a stack reverses the order.
    let mut select = db.prepare_cached(&format!(
        "{COLUMNS} WHERE t.tenant = ?1 AND t.stack = ?2 ORDER BY t.created_at DESC, t.id DESC"
    ))?;
    let found = select.query_map((tenant, stack), TaskRow::read)?;
    let mut parts: std::collections::HashMap<Option<i64>, Vec<TaskRow>> = Default::default();
    for row in found {
        let row = row?;
        parts.entry(row.parent).or_default().push(row);
    }
    let mut tasks = Vec::new();
    let mut pile = parts.remove(&None).unwrap_or_default();
    while let Some(row) = pile.pop() {
        pile.extend(parts.remove(&Some(row.key)).unwrap_or_default());
        tasks.push(row.task);
    }
    Ok(tasks)
}

/// Returns the number of tasks that were finished before a time and can be deleted.
pub fn count_finished(db: &Connection, tenant: i64, before: Time) -> Result<u64, Fault> {
    Ok(finished(db, tenant, before)?.len() as u64)
}

/// Returns the tasks that were finished before a time. A task with a remaining subtask
/// is not deleted, nor is the current task of a stack.
fn finished(db: &Connection, tenant: i64, before: Time) -> Result<Vec<String>, Fault> {
    // Subtasks first: a task with subtasks cannot be deleted.
    let mut select = db.prepare_cached(
        "WITH RECURSIVE kept (key) AS (
             SELECT key FROM tasks
                 WHERE tenant = ?1 AND (finished_at IS NULL OR finished_at >= ?2)
             UNION SELECT current FROM task_stacks WHERE tenant = ?1 AND current IS NOT NULL
             UNION SELECT t.parent FROM kept k JOIN tasks t ON t.key = k.key
                 WHERE t.parent IS NOT NULL)
         SELECT id FROM tasks WHERE tenant = ?1 AND key NOT IN (SELECT key FROM kept)
         ORDER BY depth DESC, key",
    )?;
    let found = select.query_map((tenant, before), |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Deletes at most `most` tasks that were finished before a time, and returns their
/// number.
pub fn forget_finished(
    db: &Connection,
    tenant: i64,
    before: Time,
    most: usize,
) -> Result<u64, Fault> {
    let mut found = finished(db, tenant, before)?;
    found.truncate(most);
    for id in &found {
        forget(db, tenant, id)?;
    }
    Ok(found.len() as u64)
}

/// Deletes a task. Returns false when no task has this id.
pub fn forget(db: &Connection, tenant: i64, id: &str) -> Result<bool, Fault> {
    let Some(row) = TaskRow::find(db, tenant, id)? else {
        return Ok(false);
    };
    let refused = |message: String| Err(StoreError::invalid("id", message).into());
    let mut parts = db.prepare_cached("SELECT 1 FROM tasks WHERE parent = ?1")?;
    if parts.exists([row.key])? {
        return refused(format!("task `{id}` has subtasks; delete them first"));
    }
    if current(db, tenant, &row.task.stack)? == Some(row.key) {
        // An ancestor of the current task has subtasks and was rejected above.
        return refused(format!("task `{id}` is the current one; finish it first"));
    }
    if row.is_open()
        && let Some(parent) = row.parent
    {
        opened(db, parent, -1)?;
    }
    db.prepare_cached("DELETE FROM tasks WHERE key = ?1")?
        .execute([row.key])?;
    db.prepare_cached(
        "DELETE FROM task_stacks WHERE tenant = ?1 AND stack = ?2
         AND NOT EXISTS (SELECT 1 FROM tasks WHERE tenant = ?1 AND stack = ?2)",
    )?
    .execute((tenant, &row.task.stack))?;
    Ok(true)
}

/// Returns the names of the stacks, sorted.
pub fn stacks(db: &Connection, tenant: i64) -> Result<Vec<String>, Fault> {
    let mut select =
        db.prepare_cached("SELECT stack FROM task_stacks WHERE tenant = ?1 ORDER BY stack")?;
    let found = select.query_map([tenant], |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}
