use std::path::PathBuf;

use clap::Args;

use super::{StoreOptions, timestamp};

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on [default: what contexture.toml says, else 127.0.0.1:8787]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) addr: Option<String>,
    #[command(flatten)]
    pub(crate) options: ServiceOptions,
}

#[derive(Args)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub(crate) options: ServiceOptions,
}

/// What is served.
#[derive(Args)]
pub(crate) struct ServiceOptions {
    /// The directory of the project
    #[arg(long, value_name = "DIR", default_value = ".", env = "CONTEXTURE_ROOT")]
    root: PathBuf,
    /// Where conversations, trees, memory, tasks and keys are kept [default:
    /// sqlite:ROOT/.contexture/contexture.db]
    #[arg(
        long,
        value_name = "URL",
        env = "CONTEXTURE_DB",
        hide_env_values = true
    )]
    db: Option<String>,
    /// The clock, for repeatable output: it stands still
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
