//! The arguments of `contexture serve`, `contexture inspect` and `contexture mcp`.
//!
//! They take [`ServiceOptions`]; they become the [`StoreOptions`] of the other
//! commands.

use std::path::PathBuf;

use clap::Args;

use super::{StoreOptions, timestamp};

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on [default: the address set in contexture.toml, else 127.0.0.1:4650]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) addr: Option<String>,
    /// Stop when standard input ends, so that the server ends with the program that started it
    #[arg(long)]
    pub(crate) stop_with_stdin: bool,
    #[command(flatten)]
    pub(crate) options: ServiceOptions,
}

#[derive(Args)]
pub(crate) struct InspectArgs {
    /// Session to open, or the file of a store [default: the list of sessions]
    #[arg(value_name = "SESSION|FILE")]
    pub(crate) target: Option<String>,
    /// Print the address without opening a browser
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Do not import sessions of this machine first. They are imported if neither a session, a
    /// file nor --db is given
    #[arg(long)]
    pub(crate) no_import: bool,
    #[command(flatten)]
    pub(crate) options: ServiceOptions,
}

#[derive(Args)]
pub(crate) struct McpArgs {
    /// Tools to list: `core` lists what most agents need in about 1,000 tokens
    #[arg(long, value_enum, value_name = "LIST", default_value_t)]
    pub(crate) tools: ListedTools,
    #[command(flatten)]
    pub(crate) options: ServiceOptions,
}

/// The tools that an agent is shown.
#[derive(Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum ListedTools {
    /// Memory, sessions, files and cut results.
    #[default]
    Core,
    /// Every tool, with the schemas of its results.
    All,
}

/// The project and the store that a server uses.
#[derive(Args)]
pub(crate) struct ServiceOptions {
    #[arg(skip)]
    pub(super) root: PathBuf,
    /// Store: sqlite:PATH or postgres://USER@HOST/DATABASE [default:
    /// sqlite:ROOT/.contexture/contexture.db]
    #[arg(
        long,
        value_name = "URL",
        env = "CONTEXTURE_DB",
        hide_env_values = true
    )]
    db: Option<String>,
    /// Fixed time to use as the current time, for repeatable output [default: the system clock]
    #[arg(long, value_name = "RFC3339", value_parser = timestamp)]
    now: Option<contexture::Timestamp>,
}

impl From<&ServiceOptions> for StoreOptions {
    fn from(options: &ServiceOptions) -> Self {
        Self {
            root: options.root.clone(),
            db: options.db.clone(),
            now: options.now,
            json: false,
        }
    }
}
