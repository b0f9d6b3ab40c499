//! The current task, its ancestors and the results of its siblings, as items.

use contexture_core::guard::Policy;
use contexture_core::{Cut, Item, Role, Text, Trust};
use contexture_store::{TaskRecord, TaskStatus, TaskView};

use serde::Serialize;

/// A task stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StackTasks {
    /// The name of the stack.
    pub stack: String,
    /// The id of the current task. Null if there is none.
    pub current: Option<String>,
    /// The tasks of the stack. Each task follows its parent.
    pub tasks: Vec<TaskRecord>,
}

/// A task that was created, finished or resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskChanged {
    /// The task.
    pub task: TaskRecord,
    /// The task that is current now. Null if there is none.
    pub current: Option<TaskRecord>,
}

/// The progress of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StackInfo {
    /// The stack.
    pub stack: String,
    /// The number of tasks.
    pub tasks: usize,
    /// The number of active tasks.
    pub active: usize,
    /// The number of blocked tasks.
    pub blocked: usize,
    /// The number of completed tasks.
    pub complete: usize,
    /// The current task.
    pub current: Option<TaskRecord>,
}

impl StackInfo {
    /// Counts the tasks of a stack.
    pub fn of(stack: String, tasks: &[TaskRecord], current: Option<TaskRecord>) -> Self {
        let count = |status| tasks.iter().filter(|task| task.status == status).count();
        Self {
            stack,
            tasks: tasks.len(),
            active: count(TaskStatus::Active),
            blocked: count(TaskStatus::Blocked),
            complete: count(TaskStatus::Complete),
            current,
        }
    }
}

/// Returns the goal of the root task. It is never shortened.
pub(crate) fn root(view: &TaskView, policy: Policy) -> Vec<Item> {
    let root = view.path.first().map(|task| {
        let text = format!("Goal: {}", task.goal);
        item(&format!("task {}", task.id), &text, policy).pinned()
    });
    root.into_iter().collect()
}

/// Returns the tasks below the root: the ancestors of the current task in short
/// form, then the current task. The current task is kept first, then its
/// nearest ancestors.
pub(crate) fn path(view: &TaskView, policy: Policy) -> Vec<Item> {
    let tasks = view.path.iter().enumerate().skip(1);
    let last = view.path.len().saturating_sub(1);
    tasks
        .map(|(depth, task)| {
            let text = match depth == last {
                true => format!("Current task: {}", task.goal),
                false => format!("For that: {}", in_short(task)),
            };
            let mut item = item(&format!("task {}", task.id), &text, policy);
            // Nearer tasks are kept first.
            item.priority = 0.5 + 0.5 * depth as f64 / view.path.len() as f64;
            item
        })
        .collect()
}

/// Returns the results of the current task's completed siblings and subtasks,
/// in the order of their completion. Own subtasks are kept before siblings, and
/// later results before earlier ones.
pub(crate) fn results(view: &TaskView, policy: Policy) -> Vec<Item> {
    let tasks: Vec<&TaskRecord> = view.siblings.iter().chain(&view.parts).collect();
    let count = tasks.len() as f64;
    (tasks.into_iter().enumerate())
        .map(|(i, task)| {
            let text = match &task.result {
                Some(result) => format!("Done: {}\nResult: {result}", task.goal),
                None => format!("Done: {}", task.goal),
            };
            let mut item = item(&format!("result {}", task.id), &text, policy);
            item.priority = 0.5 * (i + 1) as f64 / count;
            item
        })
        .collect()
}

/// Returns the short form of an ancestor: its result if it is complete,
/// otherwise its goal.
fn in_short(task: &TaskRecord) -> &str {
    match (task.status, &task.result) {
        (TaskStatus::Complete, Some(result)) => result,
        _ => &task.goal,
    }
}

fn item(id: &str, text: &str, policy: Policy) -> Item {
    let mut item = Item::new(id, Role::Context, Text::guarded(text, policy));
    item.trust = Trust::User;
    item.cut = Cut::End;
    item
}
