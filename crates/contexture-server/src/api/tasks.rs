//! Tasks: stacks of what is being done.

use contexture::store::{NewTask, TaskRecord, TaskStatus};
use contexture::{StackTasks, TaskChanged};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::operation::{Api, Nothing, Operation};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// Which stack is meant.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OnStack {
    /// The stack of tasks.
    pub(crate) stack: String,
}

impl Default for OnStack {
    fn default() -> Self {
        Self {
            stack: "main".to_owned(),
        }
    }
}

/// A task, by its id.
#[derive(Debug, Deserialize, JsonSchema)]
struct OfTask {
    /// The task.
    id: String,
}

/// How a task ended.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "TaskOutcome")]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Ended {
    /// What came of it.
    pub(crate) result: Option<String>,
    /// Whether it waits for something, and is not done.
    pub(crate) blocked: bool,
}

/// All stacks.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StackList")]
struct Stacks {
    /// Their names.
    stacks: Vec<String>,
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::post("/v1/tasks", "push_task")
            .says(
                "Push a task",
                "It becomes the current one, a part of the one that was, unless it is said what \
                 it is a part of.",
            )
            .creates()
            .refuses(&[404, 409])
            .example(
                "/v1/tasks",
                json!({"id": "t1", "goal": "Publish the tide tables"}),
            ),
        |tenant: &Tenant, _: Nothing, on: OnStack, body: NewTask| push(tenant, &on.stack, &body),
    );
    api.add(
        Operation::get("/v1/tasks", "get_tasks")
            .says(
                "Read a stack",
                "Each task stands behind the one it is a part of.",
            )
            .example("/v1/tasks", None),
        |tenant: &Tenant, _: Nothing, on: OnStack, _: Nothing| -> Result<StackTasks, Problem> {
            Ok(StackTasks {
                current: current(tenant, &on.stack)?.map(|task| task.id),
                tasks: tenant.store()?.tasks(&on.stack)?,
                stack: on.stack,
            })
        },
    );
    api.add(
        Operation::post("/v1/tasks/{id}/complete", "complete_task")
            .says(
                "Say that a task is done, or waits",
                "What it is a part of becomes the current one. Its own parts must be done before.",
            )
            .refuses(&[409])
            .example(
                "/v1/tasks/t1/complete",
                json!({"result": "The printer wants paper.", "blocked": true}),
            ),
        |tenant: &Tenant, of: OfTask, on: OnStack, body: Ended| {
            finish(tenant, &on.stack, Some(&of.id), &body)
        },
    );
    api.add(
        Operation::post("/v1/tasks/{id}/resume", "resume_task")
            .says(
                "Go on with a task that waits",
                "It becomes the current one.",
            )
            .refuses(&[409, 422])
            .example("/v1/tasks/t1/resume", None),
        |tenant: &Tenant, of: OfTask, on: OnStack, _: Nothing| -> Result<TaskChanged, Problem> {
            let task = tenant.store()?.resume_task(&on.stack, &of.id)?;
            changed(tenant, &on.stack, task)
        },
    );
    api.add(
        Operation::get("/v1/stacks", "list_stacks")
            .says("List the stacks", "Their names.")
            .example("/v1/stacks", None),
        |tenant: &Tenant, _: Nothing, _: Nothing, _: Nothing| -> Result<Stacks, Problem> {
            let stacks = tenant.store()?.task_stacks()?;
            Ok(Stacks { stacks })
        },
    );
}

/// Pushes a task.
pub(crate) fn push(tenant: &Tenant, stack: &str, new: &NewTask) -> Result<TaskChanged, Problem> {
    let task = tenant.store()?.push_task(stack, new, tenant.now())?;
    changed(tenant, stack, task)
}

/// Ends a task, the current one unless another is named.
pub(crate) fn finish(
    tenant: &Tenant,
    stack: &str,
    id: Option<&str>,
    ended: &Ended,
) -> Result<TaskChanged, Problem> {
    let status = match ended.blocked {
        true => TaskStatus::Blocked,
        false => TaskStatus::Complete,
    };
    let (result, now) = (ended.result.as_deref(), tenant.now());
    let task = tenant
        .store()?
        .finish_task(stack, id, status, result, now)?;
    changed(tenant, stack, task)
}

fn changed(tenant: &Tenant, stack: &str, task: TaskRecord) -> Result<TaskChanged, Problem> {
    Ok(TaskChanged {
        task,
        current: current(tenant, stack)?,
    })
}

fn current(tenant: &Tenant, stack: &str) -> Result<Option<TaskRecord>, Problem> {
    let view = tenant.store()?.task_view(stack)?;
    Ok(view.path.into_iter().next_back())
}
