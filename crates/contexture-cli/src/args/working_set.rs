//! The arguments of `contexture working-set`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{priority, timestamp};

#[derive(Args)]
pub(crate) struct WorkingSetArgs {
    #[command(subcommand)]
    pub(crate) command: WorkingSetCommand,
    #[command(flatten)]
    pub(crate) options: WorkingSetOptions,
}

#[derive(Args)]
pub(crate) struct WorkingSetOptions {
    #[arg(skip)]
    pub(crate) root: PathBuf,
    /// Working-set file, relative to the root [default: working-set.yml, else .agent/working-set.yml]
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) manifest: Option<String>,
    /// Session whose event log records the change [default: default]
    #[arg(long, value_name = "LABEL", global = true)]
    pub(crate) session: Option<String>,
    /// Time to use as the current time, for repeatable output [default: the system clock]
    #[arg(long, value_name = "RFC3339", value_parser = timestamp, global = true)]
    pub(crate) now: Option<contexture::Timestamp>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
pub(crate) enum WorkingSetCommand {
    /// List the entries and the files they match
    #[command(after_help = "\
Examples:
  contexture working-set list
  contexture working-set list my-project --json")]
    List {
        /// Directory that all paths are relative to [default: --root]
        #[arg(value_name = "ROOT")]
        dir: Option<PathBuf>,
    },
    /// Explain what happens to one file: kept, cut or dropped, or why no entry uses it
    #[command(after_help = "\
Examples:
  contexture working-set why src/lib.rs")]
    Why {
        /// Path of the file below the root
        path: String,
    },
    /// Apply the changes that a model requested
    #[command(after_help = "\
Examples:
  contexture working-set apply actions.yml
  contexture working-set apply - < actions.yml")]
    Apply {
        /// File with YAML documents; - reads standard input
        file: PathBuf,
        /// Directory that all paths are relative to [default: --root]
        #[arg(value_name = "ROOT")]
        dir: Option<PathBuf>,
    },
    /// Add a file, a directory or a pattern
    #[command(after_help = "\
Examples:
  contexture working-set add src/lib.rs --priority 0.7 --why 'the bug is here'
  contexture working-set add 'docs/*.md' --priority 0.3 --truncate-strategy end --why 'background'")]
    Add {
        /// Path or pattern below the root
        path: String,
        /// Priority from 0 (dropped first) to 1 (kept longest)
        #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = priority,
              default_value = "0.5")]
        priority: f64,
        /// Reason for the change
        #[arg(long, value_name = "TEXT")]
        why: String,
        /// Role of the content in the request [default: context]
        #[arg(long, value_name = "ROLE", value_parser = ["system", "developer", "user", "context"])]
        role: Option<String>,
        /// Part to remove when the file does not fit [default: end]
        #[arg(long, value_name = "STRATEGY", value_parser = ["never", "start", "middle", "end"])]
        truncate_strategy: Option<String>,
    },
    /// Remove an entry
    #[command(after_help = "\
Examples:
  contexture working-set remove src/lib.rs --why 'fixed'")]
    Remove {
        /// Path as written in working-set.yml
        path: String,
        /// Reason for the change
        #[arg(long, value_name = "TEXT")]
        why: String,
    },
    /// Change the priority of an entry
    #[command(after_help = "\
Examples:
  contexture working-set adjust src/lib.rs --priority 0.9 --why 'the test fails here'")]
    Adjust {
        /// Path as written in working-set.yml
        path: String,
        /// Priority from 0 (dropped first) to 1 (kept longest)
        #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = priority)]
        priority: f64,
        /// Reason for the change
        #[arg(long, value_name = "TEXT")]
        why: String,
    },
    /// Update the working set from a turn
    #[command(after_help = "\
Saves tool outputs as files and adds them, raises the priority of files that the turn mentions, and lowers \
the priority of files that were not mentioned for several turns.

Examples:
  contexture working-set observe turn.json
  contexture working-set observe - my-project < turn.json")]
    Observe {
        /// File with the turn as JSON; - reads standard input
        file: PathBuf,
        /// Directory that all paths are relative to [default: --root]
        #[arg(value_name = "ROOT")]
        dir: Option<PathBuf>,
    },
}
