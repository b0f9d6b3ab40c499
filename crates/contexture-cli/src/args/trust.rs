//! The arguments of `contexture trust`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub(crate) struct TrustArgs {
    /// Directory of the project, or its contexture.toml [default: the project of
    /// the current directory]
    #[arg(value_name = "ROOT|FILE")]
    pub(crate) path: Option<PathBuf>,
    #[arg(skip)]
    pub(crate) root: PathBuf,
    /// Print what would become active, and trust nothing
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    pub(crate) show: bool,
    /// List the trusted files
    #[arg(long, conflicts_with_all = ["path", "revoke"])]
    pub(crate) list: bool,
    /// Remove the file from the trusted files
    #[arg(long)]
    pub(crate) revoke: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
