//! The arguments of `contexture task`.

use clap::{Args, Subcommand};

use super::StoreOptions;

#[derive(Args)]
pub(crate) struct TaskArgs {
    #[command(subcommand)]
    pub(crate) command: TaskCommand,
    /// Stack of tasks
    #[arg(long, value_name = "NAME", default_value = "main", global = true)]
    pub(crate) stack: String,
    #[command(flatten)]
    pub(crate) options: StoreOptions,
}

#[derive(Subcommand)]
pub(crate) enum TaskCommand {
    /// Push a task: it becomes the current task and a subtask of the previous one
    #[command(after_help = "\
Examples:
  contexture task push 'Publish the tide tables'
  contexture task push 'Check the figures of March' --id march
  contexture task push 'Ask the harbour master' --parent march --stack tables")]
    Push {
        /// Goal of the task; - reads standard input
        goal: String,
        /// Id of the task [default: the next free id, such as t12]
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// Parent task [default: the current task]
        #[arg(long, value_name = "ID")]
        parent: Option<String>,
    },
    /// Complete or block a task: its parent becomes the current task
    #[command(after_help = "\
A task with active subtasks cannot be completed. Requests for the parent and the sibling tasks \
contain the result.

Examples:
  contexture task pop --result 'Two rows were wrong, corrected'
  contexture task pop --blocked --result 'waiting for the harbour master'
  contexture task pop --id march --result - < result.txt")]
    Pop {
        /// Id of the task [default: the current task]
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// Result of the task, or what it waits for; - reads standard input
        #[arg(long, value_name = "TEXT")]
        result: Option<String>,
        /// Mark the task as blocked instead of complete
        #[arg(long)]
        blocked: bool,
    },
    /// Resume an active or blocked task: it becomes the current task
    #[command(after_help = "\
Examples:
  contexture task resume march")]
    Resume {
        /// Id of the task
        id: String,
    },
    /// Draw the tasks of a stack
    #[command(after_help = "\
Subtasks are indented below their parent:
  ●  current               ○  active
  ✓  complete              ‖  blocked

Examples:
  contexture task show
  contexture task show --stack tables --json")]
    Show,
    /// List the stacks
    #[command(after_help = "\
Examples:
  contexture task list
  contexture task list --json | jq -r '.[].stack'")]
    List,
}
