//! The arguments of `contexture fit`.

use std::path::PathBuf;

use clap::Args;
use contexture::Format;

use super::{formats, timestamp};

#[derive(Args)]
pub(crate) struct FitArgs {
    #[arg(skip)]
    pub(crate) root: PathBuf,
    /// File with the request; - reads standard input [default: standard input]
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    pub(crate) file: PathBuf,
    /// Session that keeps the conversation from call to call; it is created if needed
    #[arg(long, value_name = "LABEL")]
    pub(crate) session: Option<String>,
    /// Store of the session: sqlite:PATH or postgres://USER@HOST/DATABASE [default:
    /// sqlite:ROOT/.contexture/contexture.db]
    #[arg(
        long,
        value_name = "URL",
        env = "CONTEXTURE_DB",
        hide_env_values = true
    )]
    pub(crate) db: Option<String>,
    /// API of the request: anthropic, openai, openai-chat, openai-responses or gemini [default: detected]
    #[arg(long, value_name = "API")]
    pub(crate) from: Option<String>,
    /// Format of the result [default: that of the request]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub(crate) to: Option<Format>,
    /// Model whose window and tokenizer count [default: the request's model]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Size of the context window in tokens [default: the model's]
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// Tokens to keep free for the response [default: the request's own limit, otherwise the model's output limit, at most a quarter of the window and at most 32,000]
    #[arg(long, value_name = "N")]
    pub(crate) reserve_response: Option<u64>,
    /// Exit with 3 if the request changes earlier messages of the session's previous request, so that the provider's cache is lost
    #[arg(long, requires = "session")]
    pub(crate) fail_on_cache_break: bool,
    /// Print a table of what was kept and left out to standard error
    #[arg(long)]
    pub(crate) explain: bool,
    /// Time to use as the current time, for repeatable output [default: the system clock]
    #[arg(long, value_name = "RFC3339", value_parser = timestamp)]
    pub(crate) now: Option<contexture::Timestamp>,
}
