//! The arguments of `contexture fetch`.

use clap::Args;

use super::StoreOptions;

#[derive(Args)]
pub(crate) struct FetchArgs {
    /// Handle in the marker of the cut: `sha256:` and at least 8 digits
    pub(crate) handle: String,
    /// Lines to print: `10-20`, `10-` or `10` [default: all lines]
    #[arg(long, value_name = "RANGE")]
    pub(crate) lines: Option<String>,
    /// Print only lines that match this regular expression, with their numbers
    /// [default: all lines]
    #[arg(long, value_name = "REGEX")]
    pub(crate) grep: Option<String>,
    /// Print the output of this jq expression; --lines and --grep apply to it
    #[arg(long, value_name = "EXPR")]
    pub(crate) jq: Option<String>,
    /// Largest number of bytes to print; 0 prints everything
    #[arg(long, value_name = "N", default_value_t = 32768)]
    pub(crate) max_bytes: u32,
    #[command(flatten)]
    pub(crate) options: StoreOptions,
}
