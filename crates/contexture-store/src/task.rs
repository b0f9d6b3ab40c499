//! Task stacks: the current task, its parents, and the results of other tasks.
//!
//! A stack has a name and at most one current task. A new task becomes current
//! and is a subtask of the previous one. When it is complete, its parent
//! becomes current again.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::time;

/// A stored task, and the form of a task in an import file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a task: an object with `id` and `goal`"
)]
pub struct TaskRecord {
    /// The task's id, unique in its store.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub id: String,
    /// The name of the stack. Default: `main`.
    #[serde(default = "main_stack")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub stack: String,
    /// The goal of the task.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "contexture_core::schema::NotBlank")
    )]
    pub goal: String,
    /// The id of the parent task. Default: none.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub parent_id: Option<String>,
    /// The status of the task. Default: `active`.
    #[serde(default)]
    pub status: TaskStatus,
    /// The result of a completed task, or the reason why a task is blocked.
    #[serde(default)]
    pub result: Option<String>,
    /// The number of ancestors of the task. The store derives it from
    /// `parent_id` and ignores the value in a file.
    #[serde(default)]
    pub depth: u32,
    /// The time when the task was created: RFC 3339 or Unix milliseconds.
    /// Default: the time when it is stored.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub created_at: Option<Timestamp>,
    /// The time when the task was completed or blocked: RFC 3339 or Unix
    /// milliseconds.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub finished_at: Option<Timestamp>,
}

fn main_stack() -> String {
    "main".to_owned()
}

/// The status of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// The task is in progress or not started.
    #[default]
    Active,
    /// The task is done.
    Complete,
    /// The task waits for something.
    Blocked,
}

impl TaskStatus {
    /// Returns the status's name.
    pub fn name(self) -> &'static str {
        match self {
            TaskStatus::Active => "active",
            TaskStatus::Complete => "complete",
            TaskStatus::Blocked => "blocked",
        }
    }
}

/// A task to create.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a task: an object with `goal`")]
pub struct NewTask {
    /// The task's id, unique in its store. Default: the next unused id, such as
    /// `t12`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub id: Option<String>,
    /// The goal of the task.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "contexture_core::schema::NotBlank")
    )]
    pub goal: String,
    /// The id of the parent task. Default: the current task.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub parent_id: Option<String>,
}

/// The position in a stack: the current task and the tasks around it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskView {
    /// The tasks from the root to the current task. Empty if the stack has no
    /// current task.
    pub path: Vec<TaskRecord>,
    /// The completed siblings of the current task, oldest first, at most the
    /// latest 100.
    pub siblings: Vec<TaskRecord>,
    /// The completed subtasks of the current task, oldest first, at most the
    /// latest 100.
    pub parts: Vec<TaskRecord>,
}

/// Stores tasks. Tasks form trees; a stack has one current task. Names of stacks
/// follow the rules of [labels](crate::check_label).
pub trait Tasks: Send + Sync {
    /// Adds a task and makes it the current task of its stack. The first task
    /// creates the stack.
    ///
    /// Fails if the id is already in use, if the goal is blank, and if the parent
    /// is not in the stack or is complete.
    fn push_task(
        &self,
        stack: &str,
        new: &NewTask,
        now: Timestamp,
    ) -> Result<TaskRecord, StoreError>;

    /// Completes or blocks a task (default: the current one), stores its result
    /// and returns the task. If the task is the current one or one of its
    /// ancestors, the nearest active ancestor becomes current.
    ///
    /// Fails if the stack is empty, or if the task is not in it, is already
    /// complete, or has active subtasks.
    fn finish_task(
        &self,
        stack: &str,
        id: Option<&str>,
        status: TaskStatus,
        result: Option<&str>,
        now: Timestamp,
    ) -> Result<TaskRecord, StoreError>;

    /// Makes an active or blocked task the current one, and sets it to active.
    fn resume_task(&self, stack: &str, id: &str) -> Result<TaskRecord, StoreError>;

    /// Returns the path to the current task of a stack, with its completed
    /// siblings and subtasks. A stack that was never used is empty.
    fn task_view(&self, stack: &str) -> Result<TaskView, StoreError>;

    /// Returns a stack's tasks, each after its parent, siblings by time and id.
    fn tasks(&self, stack: &str) -> Result<Vec<TaskRecord>, StoreError>;

    /// Returns the names of the stacks, in alphabetical order.
    fn task_stacks(&self) -> Result<Vec<String>, StoreError>;
}
