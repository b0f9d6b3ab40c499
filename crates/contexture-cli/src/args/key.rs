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
    /// Create a key, and print it once
    #[command(after_help = "\
Run it in the directory of the server, or with the same --root and --db. Only the key goes to \
standard output. The store saves a hash of it, so the key cannot be shown \
again. It grants access to the data of one tenant. With --metrics it grants access to /metrics, with \
--admin to the admin API, and to no data.

Examples:
  contexture key new --name 'my laptop'
  contexture key new --tenant harbour --name 'harbour agent' > harbour.key
  contexture key new --metrics --name 'dashboard'
  contexture key new --admin --name 'operator' > admin.key
  curl -H \"Authorization: Bearer $(cat harbour.key)\" http://127.0.0.1:4650/v1/sessions")]
    New {
        /// Tenant whose data the key grants access to: a-z, 0-9, _ and - [default: default]
        #[arg(long, value_name = "NAME", conflicts_with_all = ["metrics", "admin"])]
        tenant: Option<String>,
        /// Grant access to /metrics only
        #[arg(long)]
        metrics: bool,
        /// Grant access to the admin API only: tenants, quotas, keys and the audit log
        #[arg(long, conflicts_with = "metrics")]
        admin: bool,
        /// Description of the key
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
    },
    /// List the keys, oldest first
    #[command(after_help = "\
Revoked keys are listed too. Secrets are not stored, so they cannot be shown.

Examples:
  contexture key list
  contexture key list --json | jq -r '.[] | select(.revoked_at == null) | .id'")]
    List,
    /// Revoke a key
    #[command(after_help = "\
A running server rejects the key after at most two seconds. Revoking a key twice has no effect.

Examples:
  contexture key revoke 7hK2mQx9PzR4
  contexture key revoke 'my laptop'")]
    Revoke {
        /// Id shown by `contexture key list`, or the name of the key
        id: String,
    },
}
