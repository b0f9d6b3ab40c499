//! The tools `push_task` and `pop_task`.

use contexture::TaskChanged;
use contexture::schema::NotBlank;
use contexture::store::NewTask;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Reason, note};
use crate::tool::{Answer, Effect, Tools};
use contexture_api::Tenant;
use contexture_api::tasks::{self, TaskOutcome};

/// The arguments of `push_task`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Push {
    /// The goal, so that it is clear when the task is done.
    #[schemars(with = "NotBlank")]
    goal: String,
    /// The reason, in one sentence.
    #[schemars(with = "NotBlank")]
    why: String,
    /// The task stack. Default: `main`.
    #[serde(default = "main_stack")]
    stack: String,
    /// The task's id. Default: the next unused id, such as `t12`.
    #[serde(default)]
    id: Option<String>,
    /// The parent task. Default: the current task.
    #[serde(default)]
    parent_id: Option<String>,
}

/// The arguments of `pop_task`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Pop {
    /// The reason, in one sentence.
    #[schemars(with = "NotBlank")]
    why: String,
    /// The result, or the reason why the task is blocked. Default: none.
    #[serde(default)]
    result: Option<String>,
    /// Whether the task is blocked instead of done. Default: false.
    #[serde(default)]
    blocked: bool,
    /// The task stack. Default: `main`.
    #[serde(default = "main_stack")]
    stack: String,
    /// The task. Default: the current task.
    #[serde(default)]
    id: Option<String>,
}

fn main_stack() -> String {
    "main".to_owned()
}

pub(super) fn add(tools: &mut Tools) {
    tools.add::<TaskChanged, Push>(
        "push_task",
        (
            "Start a task",
            "Creates a task and makes it current. Its parent is the previously current task. Call \
             it when work splits into steps with results. Requests with the recipe `task-stack` \
             show the current task, its parents and results.",
        ),
        Effect::Adds,
        |tenant, push: Push| {
            let new = NewTask {
                id: push.id,
                goal: push.goal,
                parent_id: push.parent_id,
            };
            let changed = tasks::push(tenant, &push.stack, &new)?;
            log_reason(tenant, "task_pushed", &push.why, &changed);
            let part = match &changed.task.parent_id {
                Some(parent) => format!("; its parent is {parent}"),
                None => String::new(),
            };
            let text = format!("task {} is current{part}", changed.task.id);
            Ok(Answer::new(text, &changed))
        },
    );
    tools.add::<TaskChanged, Pop>(
        "pop_task",
        (
            "Finish a task",
            "Completes the current task with its result, or marks it as blocked. The parent task \
             becomes current. Fails if a subtask is active. A completed task cannot be reopened.",
        ),
        Effect::Replaces,
        |tenant, pop: Pop| {
            let outcome = TaskOutcome {
                result: pop.result,
                blocked: pop.blocked,
            };
            let changed = tasks::finish(tenant, &pop.stack, pop.id.as_deref(), &outcome)?;
            log_reason(tenant, "task_popped", &pop.why, &changed);
            let is = match pop.blocked {
                true => "is blocked",
                false => "is complete",
            };
            let current = match &changed.current {
                Some(current) => format!("{} is current: {}", current.id, current.goal),
                None => "no task is current".to_owned(),
            };
            let text = format!("task {} {is}; {current}", changed.task.id);
            Ok(Answer::new(text, &changed))
        },
    );
}

/// Logs the reason in the log of the default session: tasks have no session.
fn log_reason(tenant: &Tenant, event: &str, why: &str, changed: &TaskChanged) {
    let reason = Reason {
        stack: Some(&changed.task.stack),
        id: Some(&changed.task.id),
        ..Reason::new(why)
    };
    if let Some(warning) = note(tenant, None, event, &reason) {
        tracing::warn!(warning = warning.message, "tool");
    }
}
