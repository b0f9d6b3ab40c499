//! The arguments of `contexture task`.

use clap::{Args, Subcommand};

use super::StoreOptions;

#[derive(Args)]
pub(crate) struct TaskArgs {
    #[command(subcommand)]
    pub(crate) command: TaskCommand,
    /// The stack
    #[arg(long, value_name = "NAME", default_value = "main", global = true)]
    pub(crate) stack: String,
    #[command(flatten)]
    pub(crate) options: StoreOptions,
}

#[derive(Subcommand)]
pub(crate) enum TaskCommand {
    /// Begin a task: it becomes the current one, as a part of the one before
    #[command(after_help = "\
Examples:
  contexture task push 'Publish the tide tables'
  contexture task push 'Check the figures of March' --id march
  contexture task push 'Ask the harbour master' --parent march --stack tables")]
    Push {
        /// What is to be reached; - is standard input
        goal: String,
        /// Its id [default: a free one, such as t12]
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// The task it is a part of [default: the current one]
        #[arg(long, value_name = "ID")]
        parent: Option<String>,
    },
    /// Say that a task is done, or waits: the one it is a part of becomes current
    #[command(after_help = "\
A task whose parts are still active cannot be done before them. The result is what requests for
the tasks beside it and above it say of it.

Examples:
  contexture task pop --result 'Two rows were wrong, corrected'
  contexture task pop --blocked --result 'the answer of the harbour master'
  contexture task pop --id march --result - < result.txt")]
    Pop {
        /// Which one [default: the current one]
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// What came of it, or what it waits for; - is standard input
        #[arg(long, value_name = "TEXT")]
        result: Option<String>,
        /// It is not done: it waits for something
        #[arg(long)]
        blocked: bool,
    },
    /// Go on with a task that is active or waits
    #[command(after_help = "\
Examples:
  contexture task resume march")]
    Resume {
        /// Its id
        id: String,
    },
    /// Draw the tasks of a stack, with the current one
    #[command(after_help = "\
What is a part of a task stands below it, set in:
  ●  is current            ○  is active
  ✓  is complete           ‖  waits

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
