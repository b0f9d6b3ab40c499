//! `contexture task`: pushes, pops, resumes and draws tasks.

use std::path::Path;

use contexture::store::{NewTask, StoreError, TaskRecord, TaskStatus};
use contexture::{Engine, Error, Shown as _, StackInfo, StackTasks, TaskChanged, Timestamp};
use contexture_terminal::tasks::drawn;
use serde_json::json;

use crate::args::{StoreOptions, TaskArgs, TaskCommand};
use crate::output::{self, Advice};
use crate::session::{plain, short, show, table};
use crate::store;

/// The longest line that is shown of a goal or a result.
const LINE: usize = 80;

pub(crate) fn run(args: &TaskArgs) -> anyhow::Result<()> {
    let (stack, options) = (args.stack.as_str(), &args.options);
    let now = options.now.unwrap_or_else(Timestamp::now);
    match &args.command {
        TaskCommand::Push { goal, id, parent } => {
            let new = NewTask {
                id: id.clone(),
                goal: typed(goal)?,
                parent_id: parent.clone(),
            };
            let engine = engine(options, true)?;
            let task = engine.store()?.push_task(stack, &new, now);
            let task = task.map_err(Error::from)?;
            let part = match &task.parent_id {
                Some(parent) => format!(", a subtask of {parent}"),
                None => String::new(),
            };
            print_change(
                &engine,
                args,
                &task,
                &format!("task {} is current{part}", task.id),
            )
        }
        TaskCommand::Pop {
            id,
            result,
            blocked,
        } => {
            let result = result.as_deref().map(typed).transpose()?;
            let status = match blocked {
                true => TaskStatus::Blocked,
                false => TaskStatus::Complete,
            };
            let engine = engine(options, false)?;
            let done =
                engine
                    .store()?
                    .finish_task(stack, id.as_deref(), status, result.as_deref(), now);
            let task = done.map_err(|error| refused(&engine, stack, id.as_deref(), error))?;
            let current = match current(&engine, stack)? {
                Some(current) => {
                    format!(
                        "the current task is {}: {}",
                        current.id,
                        short(&current.goal, LINE)
                    )
                }
                None => "no current task".to_owned(),
            };
            let is = match blocked {
                true => "is blocked",
                false => "is complete",
            };
            print_change(
                &engine,
                args,
                &task,
                &format!("task {} {is}; {current}", task.id),
            )
        }
        TaskCommand::Resume { id } => {
            let engine = engine(options, false)?;
            let task = engine.store()?.resume_task(stack, id);
            let task = task.map_err(|error| refused(&engine, stack, Some(id), error))?;
            let task = task.shown();
            let told = format!("task {} is current: {}", task.id, short(&task.goal, LINE));
            print_change(&engine, args, &task, &told)
        }
        TaskCommand::Show => {
            let engine = engine(options, false)?;
            let tasks = engine.store()?.tasks(stack).map_err(Error::from)?;
            let all = StackTasks {
                stack: stack.to_owned(),
                current: current(&engine, stack)?.map(|task| task.id),
                tasks: tasks.shown(),
            };
            if options.json {
                return output::text(&format!("{:#}\n", json!(all)));
            }
            output::text(&drawn(stack, &all.tasks, all.current.as_deref()))
        }
        TaskCommand::List => list(&engine(options, false)?, options),
    }
}

fn engine(options: &StoreOptions, make: bool) -> anyhow::Result<Engine> {
    store::engine_with(options, make, "contexture task push GOAL")
}

/// Returns the argument, or standard input for `-`.
fn typed(text: &str) -> anyhow::Result<String> {
    match text {
        "-" => Ok(output::read_text(Path::new("-"))?.trim_end().to_owned()),
        text => Ok(text.to_owned()),
    }
}

fn current(engine: &Engine, stack: &str) -> anyhow::Result<Option<TaskRecord>> {
    let view = engine.store()?.task_view(stack).map_err(Error::from)?;
    Ok(view.path.into_iter().next_back().shown())
}

/// The maximum number of subtasks that an error lists as not done.
const NAMED: usize = 5;

/// Returns the error for a task that cannot be popped or resumed, with a hint.
fn refused(engine: &Engine, stack: &str, id: Option<&str>, error: StoreError) -> anyhow::Error {
    let is_refused = matches!(&error, StoreError::Invalid { field, .. }
        if field == "task" || field == "stack");
    let tasks = engine
        .store()
        .ok()
        .and_then(|store| store.tasks(stack).ok());
    let (true, Some(tasks)) = (is_refused, tasks) else {
        return Error::from(error).into();
    };
    let current = current(engine, stack).ok().flatten();
    let id = id.or(current.as_ref().map(|task| task.id.as_str()));
    let at = tasks.iter().position(|task| Some(task.id.as_str()) == id);
    let mut message = error.to_string();
    let hint = match at.map(|at| (&tasks[at], active_parts(&tasks, at))) {
        None if tasks.is_empty() => {
            "push a task with `contexture task push GOAL`, or list the stacks with `contexture \
             task list`"
                .to_owned()
        }
        None => "resume a blocked task with `contexture task resume ID`, push another with \
                 `contexture task push GOAL`, or show all with `contexture task show`"
            .to_owned(),
        Some((task, parts)) if task.status != TaskStatus::Complete && !parts.is_empty() => {
            let named: Vec<&str> = parts
                .iter()
                .take(NAMED)
                .map(|part| part.id.as_str())
                .collect();
            message.push_str(&format!(": {}", named.join(", ")));
            if parts.len() > NAMED {
                message.push_str(&format!(" and {} more", parts.len() - NAMED));
            }
            // Subtasks follow their parents, so the last one has none.
            let last = parts.last().map_or("ID", |part| part.id.as_str());
            format!(
                "pop the subtasks first, innermost first: `contexture task pop --id {last} \
                 --result TEXT`, or --blocked for a blocked one"
            )
        }
        Some(_) => "show active and blocked tasks with `contexture task show`, or push another \
                    with `contexture task push GOAL`"
            .to_owned(),
    };
    Advice { message, hint }.into()
}

/// Returns the active tasks below the one at `at`.
fn active_parts(tasks: &[TaskRecord], at: usize) -> Vec<&TaskRecord> {
    let below = tasks[at + 1..].iter();
    below
        .take_while(|task| task.depth > tasks[at].depth)
        .filter(|task| task.status == TaskStatus::Active)
        .collect()
}

fn print_change(
    engine: &Engine,
    args: &TaskArgs,
    task: &TaskRecord,
    told: &str,
) -> anyhow::Result<()> {
    let changed = TaskChanged {
        task: task.clone().shown(),
        current: current(engine, &args.stack)?,
    };
    show(&args.options, &changed, &output::visible(told))
}

fn list(engine: &Engine, options: &StoreOptions) -> anyhow::Result<()> {
    let store = engine.store()?;
    let stacks = store.task_stacks().map_err(Error::from)?;
    let mut rows = Vec::new();
    for stack in stacks {
        let tasks = store.tasks(&stack).map_err(Error::from)?;
        let current = current(engine, &stack)?;
        rows.push(StackInfo::of(stack, &tasks, current));
    }
    if options.json {
        return output::text(&format!("{:#}\n", json!(rows)));
    }
    if rows.is_empty() {
        return output::text("no tasks; push one with `contexture task push GOAL`\n");
    }
    let header = ["stack", "active", "blocked", "complete", "current"];
    let mut table = table(&header, &[1, 2, 3]);
    for row in &rows {
        let current = row.current.as_ref();
        let current = current.map(|task| format!("{} {}", task.id, short(&task.goal, 60)));
        table.add_row([
            output::visible(&row.stack),
            row.active.to_string(),
            row.blocked.to_string(),
            row.complete.to_string(),
            output::visible(&current.unwrap_or_default()),
        ]);
    }
    output::text(&plain(&table))
}
