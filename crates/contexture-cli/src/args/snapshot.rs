//! The arguments of `contexture snapshot`.

use clap::{Args, Subcommand};
use contexture::Format;

use super::{StoreOptions, formats, percent};

#[derive(Args)]
pub(crate) struct SnapshotArgs {
    #[command(subcommand)]
    pub(crate) command: SnapshotCommand,
    #[command(flatten)]
    pub(crate) options: StoreOptions,
}

#[derive(Subcommand)]
pub(crate) enum SnapshotCommand {
    /// List the requests, the latest stored first
    #[command(after_help = "\
Examples:
  contexture snapshot list
  contexture snapshot list --session support --limit 5")]
    List {
        /// Session to list the requests of [default: all sessions]
        #[arg(long, value_name = "LABEL")]
        session: Option<String>,
        /// Number of requests to list
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Print a request with exactly the bytes that were assembled
    #[command(after_help = "\
Examples:
  contexture snapshot show 3f2a9c
  contexture snapshot show 3f2a9c --format anthropic")]
    Show {
        /// First digits of the hash, at least 4
        hash: String,
        /// Output format of the request
        #[arg(long, value_parser = formats(), default_value = "text")]
        format: Format,
    },
    /// Compare two requests
    #[command(after_help = "\
Prints how many tokens the requests share from the start, and every item that differs.

Examples:
  contexture snapshot diff 3f2a9c 81bb02
  contexture snapshot diff 3f2a9c 81bb02 --min-shared 90")]
    Diff {
        /// Hash of the earlier request
        a: String,
        /// Hash of the later request
        b: String,
        /// Exit with 1 if less than this percentage of the later request is shared [default: no limit]
        #[arg(long, value_name = "PERCENT", value_parser = percent)]
        min_shared: Option<f64>,
    },
    /// Verify that saved requests are complete and render to the same bytes
    #[command(after_help = "\
Examples:
  contexture snapshot check
  contexture snapshot check 3f2a9c")]
    Check {
        /// First digits of the hash [default: all requests]
        hash: Option<String>,
    },
    /// Delete a request
    #[command(after_help = "\
The request is deleted in all sessions that have it. Content that other requests use is kept. The \
deleted text is overwritten in the store's files.

Examples:
  contexture snapshot delete 3f2a9c
  contexture snapshot delete 3f2a9c --yes")]
    Delete {
        /// First digits of the hash, at least 4
        hash: String,
        /// Do not ask. Without a terminal the command never asks
        #[arg(long)]
        yes: bool,
    },
}
