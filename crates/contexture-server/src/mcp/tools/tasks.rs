//! The task stack.

use contexture::TaskChanged;
use contexture::schema::NotBlank;
use contexture::store::{NewTask, TaskStatus};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Reason, note};
use crate::mcp::tool::{Answer, Effect, Tools};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// A task to be begun.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Push {
    /// What is to be reached, so that one can tell when it is done.
    #[schemars(with = "NotBlank")]
    goal: String,
    /// Why it is a task of its own, in one sentence. It is kept in the log.
    #[schemars(with = "NotBlank")]
    why: String,
    /// The stack. Default: `main`.
    #[serde(default = "main_stack")]
    stack: String,
    /// Names it. Default: a name that is free, such as `t12`.
    #[serde(default)]
    id: Option<String>,
    /// The task it is a part of. Default: the current one.
    #[serde(default)]
    parent_id: Option<String>,
}

/// A task to be ended.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Pop {
    /// Why it ends now, in one sentence. It is kept in the log.
    #[schemars(with = "NotBlank")]
    why: String,
    /// What came of it, for whoever goes on; for one that is blocked, what it
    /// waits for.
    #[serde(default)]
    result: Option<String>,
    /// True when it is not done but cannot go on.
    #[serde(default)]
    blocked: bool,
    /// The stack. Default: `main`.
    #[serde(default = "main_stack")]
    stack: String,
    /// The task. Default: the current one.
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
            "Begin a task",
            "Makes a task the current one, as a part of the one that was current. Call it when \
             work falls apart into steps that each have a result. Requests with the recipe \
             `task-stack` then say what is being done, for what, and what came of the parts.",
        ),
        Effect::Adds,
        |tenant, push: Push| {
            let new = NewTask {
                id: push.id,
                goal: push.goal,
                parent_id: push.parent_id,
            };
            let task = tenant.store()?.push_task(&push.stack, &new, tenant.now())?;
            let changed = changed(tenant, &push.stack, task)?;
            noted(tenant, "task_pushed", &push.why, &changed);
            let part = match &changed.task.parent_id {
                Some(parent) => format!(", a part of {parent}"),
                None => String::new(),
            };
            let text = format!("task {} is current{part}", changed.task.id);
            Ok(Answer::new(text, &changed))
        },
    );
    tools.add::<TaskChanged, Pop>(
        "pop_task",
        (
            "End a task",
            "Completes the current task and keeps its result, or says that it is blocked; the \
             task that it was a part of becomes current again. Its own parts must have ended \
             before. A completed task cannot be opened again.",
        ),
        Effect::Replaces,
        |tenant, pop: Pop| {
            let status = match pop.blocked {
                true => TaskStatus::Blocked,
                false => TaskStatus::Complete,
            };
            let (id, result) = (pop.id.as_deref(), pop.result.as_deref());
            let store = tenant.store()?;
            let task = store.finish_task(&pop.stack, id, status, result, tenant.now())?;
            let changed = changed(tenant, &pop.stack, task)?;
            noted(tenant, "task_popped", &pop.why, &changed);
            let is = match pop.blocked {
                true => "waits",
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

fn changed(
    tenant: &Tenant,
    stack: &str,
    task: contexture::store::TaskRecord,
) -> Result<TaskChanged, Problem> {
    let view = tenant.store()?.task_view(stack)?;
    Ok(TaskChanged {
        task,
        current: view.path.into_iter().next_back(),
    })
}

/// Tasks belong to no session: the usual log has the reasons.
fn noted(tenant: &Tenant, event: &str, why: &str, changed: &TaskChanged) {
    let reason = Reason {
        stack: Some(&changed.task.stack),
        id: Some(&changed.task.id),
        ..Reason::new(why)
    };
    if let Some(warning) = note(tenant, None, event, &reason) {
        tracing::warn!(warning, "tool");
    }
}
