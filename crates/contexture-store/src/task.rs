//! The task stack: what is being done, for what, and what came of it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::time;

/// A task, as it is kept and as a line of a file holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a task: an object with `id` and `goal`"
)]
pub struct TaskRecord {
    /// Names it; unique in its store.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Name"))]
    pub id: String,
    /// The stack it is in. Default: `main`.
    #[serde(default = "main_stack")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub stack: String,
    /// What is to be reached.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "contexture_core::schema::NotBlank")
    )]
    pub goal: String,
    /// The task it is a part of.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub parent_id: Option<String>,
    /// How far it is.
    #[serde(default)]
    pub status: TaskStatus,
    /// What came of it, or what it waits for.
    #[serde(default)]
    pub result: Option<String>,
    /// How many tasks it is a part of. Follows from its parents: what a file
    /// says here is not looked at.
    #[serde(default)]
    pub depth: u32,
    /// When it was made. Default: when it is stored.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub created_at: Option<Timestamp>,
    /// When it was completed or blocked.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub finished_at: Option<Timestamp>,
}

fn main_stack() -> String {
    "main".to_owned()
}

/// How far a task is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// It is being done, or will be.
    #[default]
    Active,
    /// It is done.
    Complete,
    /// It waits for something.
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

/// A task to be pushed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a task: an object with `goal`")]
pub struct NewTask {
    /// Names it. Default: a name that is free, such as `t12`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub id: Option<String>,
    /// What is to be reached.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "contexture_core::schema::NotBlank")
    )]
    pub goal: String,
    /// The task it is a part of. Default: the current one.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Name>"))]
    pub parent_id: Option<String>,
}

/// Where one is in a stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskView {
    /// From the root to the current task; empty when there is none.
    pub path: Vec<TaskRecord>,
    /// The completed tasks that have the same parent as the current one, oldest
    /// first; of many, the latest hundred.
    pub siblings: Vec<TaskRecord>,
    /// The completed parts of the current one, likewise.
    pub parts: Vec<TaskRecord>,
}

/// What a store does for tasks. Tasks form trees; a stack has one current task.
/// Names of stacks follow the rules of [labels](crate::check_label).
pub trait Tasks: Send + Sync {
    /// Adds a task and makes it the current one of its stack, which begins with
    /// its first task.
    ///
    /// Fails when its id is taken, when its goal is blank, and when its parent
    /// is not a task of the stack or is complete.
    fn push_task(
        &self,
        stack: &str,
        new: &NewTask,
        now: Timestamp,
    ) -> Result<TaskRecord, StoreError>;

    /// Completes or blocks a task, the current one unless `id` names another,
    /// keeps its result and returns it. When it was the current one or above
    /// it, the nearest task above it that is active becomes current.
    ///
    /// Fails when the stack is empty, when the task is not in it, is complete
    /// already, or has parts that are still active.
    fn finish_task(
        &self,
        stack: &str,
        id: Option<&str>,
        status: TaskStatus,
        result: Option<&str>,
        now: Timestamp,
    ) -> Result<TaskRecord, StoreError>;

    /// Makes a task that is active or blocked the current one, and active.
    fn resume_task(&self, stack: &str, id: &str) -> Result<TaskRecord, StoreError>;

    /// Returns where one is in a stack. A stack that has never been used is
    /// empty.
    fn task_view(&self, stack: &str) -> Result<TaskView, StoreError>;

    /// Returns a stack's tasks, each behind the one it is a part of, siblings
    /// by time and id.
    fn tasks(&self, stack: &str) -> Result<Vec<TaskRecord>, StoreError>;

    /// Returns the names of the stacks, in alphabetical order.
    fn task_stacks(&self) -> Result<Vec<String>, StoreError>;
}
