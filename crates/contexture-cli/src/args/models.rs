//! The arguments of `contexture models`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    pub(crate) command: ModelsCommand,
    #[arg(skip)]
    pub(crate) root: PathBuf,
}

#[derive(Subcommand)]
pub(crate) enum ModelsCommand {
    /// List the models with their limits and prices
    #[command(after_help = "\
Prices are in US dollars per million tokens.

Examples:
  contexture models list claude
  contexture models list gemini-3 --json")]
    List {
        /// Text that the name, family or provider contains [default: all models]
        filter: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Replace the model table of a project by a file
    #[command(after_help = "\
FILE is LiteLLM's model_prices_and_context_window.json, the output of `contexture models list \
--json`, or a table that Contexture wrote. The table is written to .contexture/models.tsv. Delete \
that file to use the built-in table again.

Examples:
  contexture models update model_prices_and_context_window.json
  contexture models update models.json --root my-project")]
    Update {
        /// File to read; - reads standard input
        file: PathBuf,
        /// Date of the data, such as 2026-11-16 [default: the file's date, or its modification time]
        #[arg(long, value_name = "DATE")]
        date: Option<String>,
    },
}
