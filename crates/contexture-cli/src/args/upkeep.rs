//! The arguments of `contexture backup`, `restore`, `export`, `verify`, `gc` and
//! `tenant`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::StoreOptions;

#[derive(Args)]
pub(crate) struct BackupArgs {
    /// Directory to create
    pub(crate) target: PathBuf,
    /// Tenant to back up [default: all tenants]
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) options: StoreOptions,
}

#[derive(Args)]
pub(crate) struct RestoreArgs {
    /// Directory of the backup
    pub(crate) backup: PathBuf,
    /// Replace the data of the backed-up tenants
    #[arg(long)]
    pub(crate) replace: bool,
    /// Check the backup, and restore nothing
    #[arg(long, conflicts_with = "replace")]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) options: StoreOptions,
}

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// File to create, or - for standard output
    pub(crate) archive: PathBuf,
    /// Tenant to export [default: all tenants]
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) options: StoreOptions,
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// Tenant to verify [default: all tenants]
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Accept that transactions were lost, so that the store can be opened
    #[arg(long)]
    pub(crate) accept_loss: bool,
    #[command(flatten)]
    pub(crate) options: StoreOptions,
}

#[derive(Args)]
pub(crate) struct GcArgs {
    /// Print what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Delete snapshots older than this number of days [default: retention.snapshot_days in
    /// contexture.toml]
    #[arg(long, value_name = "N")]
    pub(crate) snapshot_days: Option<u64>,
    /// Keep this number of snapshots per session [default: retention.snapshots_per_session in
    /// contexture.toml]
    #[arg(long, value_name = "N")]
    pub(crate) snapshots_per_session: Option<u64>,
    /// Delete events and chunks of the memory older than this number of days [default:
    /// retention.memory_days in contexture.toml]
    #[arg(long, value_name = "N")]
    pub(crate) memory_days: Option<u64>,
    /// Delete tasks that were finished this number of days ago [default: retention.task_days in
    /// contexture.toml]
    #[arg(long, value_name = "N")]
    pub(crate) task_days: Option<u64>,
    /// Delete lines of event logs older than this number of days [default: retention.log_days in
    /// contexture.toml]
    #[arg(long, value_name = "N")]
    pub(crate) log_days: Option<u64>,
    #[command(flatten)]
    pub(crate) options: StoreOptions,
}

#[derive(Args)]
pub(crate) struct TenantArgs {
    #[command(subcommand)]
    pub(crate) command: TenantCommand,
    #[command(flatten)]
    pub(crate) options: StoreOptions,
}

#[derive(Subcommand)]
pub(crate) enum TenantCommand {
    /// List the tenants with what they have stored
    #[command(after_help = "\
Examples:
  contexture tenant list
  contexture tenant list --json | jq -r '.[] | [.tenant, .usage.bytes] | @tsv'")]
    List,
    /// Show what a tenant has stored
    #[command(after_help = "\
Examples:
  contexture tenant usage harbour")]
    Usage {
        /// Name of the tenant
        name: String,
    },
    /// Write the data of a tenant to a portable archive
    #[command(after_help = "\
The same as `contexture export FILE --tenant NAME`. Import it with `contexture import archive FILE`.

Examples:
  contexture tenant export harbour harbour.ctxa")]
    Export {
        /// Name of the tenant
        name: String,
        /// File to create, or - for standard output
        archive: PathBuf,
    },
    /// List, print, store and delete files of a tenant that are in the store
    #[command(after_help = "\
A server uses the stored files of a tenant without a configured root as files in its root: personas, \
tools, permissions, recipes and working sets. All servers of the store use a change within two \
seconds. See docs/scaling.md.

Examples:
  contexture tenant file list harbour
  contexture tenant file put harbour persona/SOUL.md SOUL.md
  contexture tenant file get harbour persona/SOUL.md
  contexture tenant file delete harbour persona/SOUL.md")]
    File {
        #[command(subcommand)]
        command: FileCommand,
    },
    /// Delete all data of a tenant, and revoke its keys
    #[command(after_help = "\
Removes the tenant's database file. Files in the tenant's root directory are not removed. Restart a \
running server, or wait until it has unloaded the tenant. Back up the tenant first if in doubt.

Examples:
  contexture backup harbour.backup --tenant harbour
  contexture tenant delete harbour --yes")]
    Delete {
        /// Name of the tenant
        name: String,
        /// Confirm the deletion
        #[arg(long)]
        yes: bool,
    },
    /// Show or set the quota of a tenant
    #[command(after_help = "\
The quota is saved in the store and replaces the quota in contexture.toml. A limit that is not given \
is 0: no limit. Running servers use it within two seconds. Without options, the command prints the \
quota that applies.

Examples:
  contexture tenant quota harbour
  contexture tenant quota harbour --max-bytes 1000000000 --max-sessions 1000
  contexture tenant quota harbour --remove")]
    Quota {
        /// Name of the tenant
        name: String,
        /// Maximum size of its database file in bytes [default: 0, no limit]
        #[arg(long, value_name = "N")]
        max_bytes: Option<u64>,
        /// Maximum number of sessions [default: 0, no limit]
        #[arg(long, value_name = "N")]
        max_sessions: Option<u64>,
        /// Maximum number of memory records [default: 0, no limit]
        #[arg(long, value_name = "N")]
        max_records: Option<u64>,
        /// Maximum number of nodes of all trees [default: 0, no limit]
        #[arg(long, value_name = "N")]
        max_nodes: Option<u64>,
        /// Maximum number of requests in a day (UTC) [default: 0, no limit]
        #[arg(long, value_name = "N")]
        max_requests_per_day: Option<u64>,
        /// Remove the saved quota, so that the one in contexture.toml applies
        #[arg(long, conflicts_with_all = ["max_bytes", "max_sessions", "max_records", "max_nodes",
              "max_requests_per_day"])]
        remove: bool,
    },
    /// List administrative acts: keys, quotas and deletions
    #[command(after_help = "\
Lists created and revoked keys, changed quotas, and deleted tenants, sessions, trees and memory \
records. ACTOR is the id of the API key; acts on the command line have none. Entries are never \
removed.

Examples:
  contexture tenant audit
  contexture tenant audit --limit 1000 --json")]
    Audit {
        /// Most entries to list [default: 50]
        #[arg(
            long,
            value_name = "N",
            default_value_t = 50,
            hide_default_value = true
        )]
        limit: usize,
    },
}

#[derive(Subcommand)]
pub(crate) enum FileCommand {
    /// List the stored files
    #[command(after_help = "\
Examples:
  contexture tenant file list harbour")]
    List {
        /// Name of the tenant
        name: String,
    },
    /// Print a stored file
    #[command(after_help = "\
Examples:
  contexture tenant file get harbour persona/SOUL.md")]
    Get {
        /// Name of the tenant
        name: String,
        /// Path of the file, relative to the tenant's root
        path: String,
    },
    /// Store a file
    #[command(after_help = "\
Examples:
  contexture tenant file put harbour persona/SOUL.md SOUL.md
  contexture tenant file put harbour persona/SOUL.md - < SOUL.md")]
    Put {
        /// Name of the tenant
        name: String,
        /// Path of the file, relative to the tenant's root
        path: String,
        /// File to read, or - for standard input
        file: PathBuf,
        /// Hash that the stored file must have, or an empty string if there must be none [default:
        /// any]
        #[arg(long, value_name = "HASH")]
        if_hash: Option<String>,
    },
    /// Delete a stored file
    #[command(after_help = "\
Examples:
  contexture tenant file delete harbour persona/SOUL.md")]
    Delete {
        /// Name of the tenant
        name: String,
        /// Path of the file, relative to the tenant's root
        path: String,
        /// Hash that the stored file must have [default: any]
        #[arg(long, value_name = "HASH")]
        if_hash: Option<String>,
    },
}
