//! The arguments of `contexture key`.

use clap::{Args, Subcommand};

use super::StoreOptions;

#[derive(Args)]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    pub(crate) command: KeyCommand,
    #[command(flatten)]
    pub(crate) options: StoreOptions,
}

#[derive(Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key, and show it this once
    #[command(after_help = "\
The key alone is printed on standard output; only a hash of it is kept, so it cannot be shown
again. It opens the data of one tenant, or with --metrics the server's measurements and no data.

Examples:
  contexture key new --name 'my laptop'
  contexture key new --tenant harbour --name 'the agent of the harbour' > harbour.key
  contexture key new --metrics --name 'the dashboard'
  curl -H \"Authorization: Bearer $(cat harbour.key)\" http://127.0.0.1:8787/v1/sessions")]
    New {
        /// Whose data it opens: a-z, 0-9, _ and - [default: default]
        #[arg(long, value_name = "NAME", conflicts_with = "metrics")]
        tenant: Option<String>,
        /// It opens /metrics and nothing else
        #[arg(long)]
        metrics: bool,
        /// What it is for, in words
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
    },
    /// List the keys, the oldest first
    #[command(after_help = "\
Keys that were revoked are listed, too. Secrets are not kept, so none is shown.

Examples:
  contexture key list
  contexture key list --json | jq -r '.[] | select(.revoked_at == null) | .id'")]
    List,
    /// Revoke a key: from now on it opens nothing
    #[command(after_help = "\
A server that is running knows it with the next request. Revoking a key again changes nothing.

Examples:
  contexture key revoke 7hK2mQx9PzR4")]
    Revoke {
        /// The key's id: the middle part of the key
        id: String,
    },
}
