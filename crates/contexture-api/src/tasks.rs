//! Operations on task stacks: create, complete and resume tasks.
//!
//! A stack has one current task. Requests with the recipe `task-stack` show it
//! with its parents and the results of finished tasks.

use contexture::store::{NewTask, TaskRecord, TaskStatus};
use contexture::{Shown as _, StackTasks, TaskChanged};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::operation::{Api, Nothing, Operation};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// The query of a call about tasks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OnStack {
    /// The name of the task stack. Default: `main`.
    pub stack: String,
}

impl Default for OnStack {
    fn default() -> Self {
        Self {
            stack: "main".to_owned(),
        }
    }
}

/// A task in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
struct OfTask {
    /// The id of the task.
    id: String,
}

/// The outcome of a task.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "TaskOutcome")]
#[serde(default, deny_unknown_fields)]
pub struct TaskOutcome {
    /// The result of the task, or the reason why it is blocked. Default: none.
    pub result: Option<String>,
    /// Whether the task is blocked instead of complete. Default: false.
    pub blocked: bool,
}

/// The list of task stacks.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StackList")]
struct Stacks {
    /// The names of the stacks.
    stacks: Vec<String>,
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::post("/v1/tasks", "push_task")
            .describe(
                "Create a task",
                "Creates a task, which becomes current. Its parent is the previously current task \
                 unless `parent_id` is given.",
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
            .describe(
                "Get a task stack",
                "Returns the tasks of a stack. Each task follows its parent.",
            )
            .example("/v1/tasks", None),
        |tenant: &Tenant, _: Nothing, on: OnStack, _: Nothing| -> Result<StackTasks, Problem> {
            Ok(StackTasks {
                current: current(tenant, &on.stack)?.map(|task| task.id),
                tasks: tenant.store()?.tasks(&on.stack)?.shown(),
                stack: on.stack,
            })
        },
    );
    api.add(
        Operation::post("/v1/tasks/{id}/complete", "complete_task")
            .describe(
                "Complete a task",
                "Completes a task, or marks it as blocked. The parent task becomes current. Fails \
                 if a subtask is still active.",
            )
            .refuses(&[409])
            .example(
                "/v1/tasks/t1/complete",
                json!({"result": "The printer wants paper.", "blocked": true}),
            ),
        |tenant: &Tenant, of: OfTask, on: OnStack, body: TaskOutcome| {
            finish(tenant, &on.stack, Some(&of.id), &body)
        },
    );
    api.add(
        Operation::post("/v1/tasks/{id}/resume", "resume_task")
            .describe(
                "Resume a blocked task",
                "Makes a blocked task active and current again.",
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
            .describe("List task stacks", "Returns the names of the task stacks.")
            .example("/v1/stacks", None),
        |tenant: &Tenant, _: Nothing, _: Nothing, _: Nothing| -> Result<Stacks, Problem> {
            let stacks = tenant.store()?.task_stacks()?;
            Ok(Stacks { stacks })
        },
    );
}

/// Creates a task and makes it current.
pub fn push(tenant: &Tenant, stack: &str, new: &NewTask) -> Result<TaskChanged, Problem> {
    let task = tenant.store()?.push_task(stack, new, tenant.now())?;
    changed(tenant, stack, task)
}

/// Completes or blocks a task. Default: the current task.
pub fn finish(
    tenant: &Tenant,
    stack: &str,
    id: Option<&str>,
    outcome: &TaskOutcome,
) -> Result<TaskChanged, Problem> {
    let status = match outcome.blocked {
        true => TaskStatus::Blocked,
        false => TaskStatus::Complete,
    };
    let (result, now) = (outcome.result.as_deref(), tenant.now());
    let task = tenant
        .store()?
        .finish_task(stack, id, status, result, now)?;
    changed(tenant, stack, task)
}

fn changed(tenant: &Tenant, stack: &str, task: TaskRecord) -> Result<TaskChanged, Problem> {
    Ok(TaskChanged {
        task: task.shown(),
        current: current(tenant, stack)?,
    })
}

fn current(tenant: &Tenant, stack: &str) -> Result<Option<TaskRecord>, Problem> {
    let view = tenant.store()?.task_view(stack)?;
    Ok(view.path.into_iter().next_back().shown())
}
