//! The arguments of `contexture session`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{StoreOptions, tokens};

#[derive(Args)]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    pub(crate) command: SessionCommand,
    #[command(flatten)]
    pub(crate) options: StoreOptions,
}

/// The arguments of `session pin`.
#[derive(Args)]
pub(crate) struct PinArgs {
    /// Label or alias of the session
    pub(crate) label: String,
    /// Text to pin
    #[arg(required_unless_present_any = ["file", "turn"], conflicts_with_all = ["file", "turn"])]
    pub(crate) text: Option<String>,
    /// File with the text; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "turn")]
    pub(crate) file: Option<PathBuf>,
    /// Turn whose messages are pinned: its number, or the first digits of its id
    #[arg(long, value_name = "TURN")]
    pub(crate) turn: Option<String>,
    /// Name of the pin [default: pin-1, pin-2 and so on]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum SessionCommand {
    /// Create a session
    #[command(after_help = "\
Examples:
  contexture session new support --task 'Answer questions about invoices'
  contexture session new worker-1 --parent support --alias invoices")]
    New {
        /// Label of the session
        label: String,
        /// Alias of the session; can be repeated
        #[arg(long = "alias", value_name = "NAME")]
        aliases: Vec<String>,
        /// Persona of the agent: a directory below personas/ [default: the configured one]
        #[arg(long, value_name = "NAME")]
        persona: Option<String>,
        /// Task of the session
        #[arg(long, value_name = "TEXT")]
        task: Option<String>,
        /// Parent session, for the session of a worker
        #[arg(long, value_name = "LABEL")]
        parent: Option<String>,
        /// Whether recorded turns become memory events [default: from_sessions in the settings]
        #[arg(long, value_name = "BOOL")]
        remember: Option<bool>,
    },
    /// List the sessions
    #[command(after_help = "\
Examples:
  contexture session list
  contexture session list --json")]
    List,
    /// Show the properties of a session
    #[command(after_help = "\
Examples:
  contexture session show support")]
    Show {
        /// Label or alias of the session
        label: String,
    },
    /// Record a turn: what the user asked and what the model answered
    #[command(after_help = "\
FILE holds a turn in Contexture's own form, a provider's response as it came (whole or as a \
recorded stream), or {\"provider\": ..., \"request\": ..., \"response\": ...}. Anthropic Messages, \
OpenAI Chat and Responses, and Gemini are detected; --from names the provider.

Examples:
  contexture session record support turn.json
  contexture session record support - < turn.json
  contexture session record support response.json --from anthropic")]
    Record {
        /// Label or alias of the session
        label: String,
        /// File with the turn, or with a provider's response; - reads standard input
        file: PathBuf,
        /// Provider whose response the file holds [default: detected]
        #[arg(long, value_name = "PROVIDER", value_parser = contexture::native::Api::NAMES)]
        from: Option<String>,
    },
    /// Show the turns of a session, oldest first
    #[command(after_help = "\
Examples:
  contexture session history support --limit 3
  contexture session history support --all --json")]
    History {
        /// Label or alias of the session
        label: String,
        /// Number of turns to show, counted from the latest
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
        /// Show all turns
        #[arg(long, conflicts_with = "limit")]
        all: bool,
    },
    /// Fork a session
    #[command(after_help = "\
Creates a session that shares the turns of another session up to a turn.

Examples:
  contexture session fork support what-if
  contexture session fork support what-if --at 3f2a")]
    Fork {
        /// Label or alias of the session to fork
        label: String,
        /// Label of the new session
        new: String,
        /// Last shared turn: its number, or the first digits of its id [default: the latest turn]
        #[arg(long, value_name = "TURN")]
        at: Option<String>,
    },
    /// Summarise all turns but the latest
    #[command(after_help = "\
Turns are not deleted: `contexture session uncompact` undoes a compaction.

Examples:
  contexture session compact support --focus 'decisions about refunds'
  contexture session compact support --overflow --model gpt-5.6")]
    Compact {
        /// Label or alias of the session
        label: String,
        /// Topic that the summary must cover
        #[arg(long, value_name = "TEXT")]
        focus: Option<String>,
        /// Compact further than usual, once, after the provider rejected a request as too long
        #[arg(long)]
        overflow: bool,
        /// Model whose window applies [default: the model of the latest request]
        #[arg(long, value_name = "NAME")]
        model: Option<String>,
        /// Window in tokens [default: the window of the model]
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = tokens)]
        max_tokens: Option<u64>,
    },
    /// Undo the latest compaction; later turns are kept
    #[command(after_help = "\
Examples:
  contexture session uncompact support")]
    Uncompact {
        /// Label or alias of the session
        label: String,
    },
    /// Pin a text: every request of the session contains it
    #[command(after_help = "\
Compaction does not change pins. A pin with the same name is replaced; its revisions stay stored.

Examples:
  contexture session pin support 'Never refund without asking Ana.' --name refunds
  contexture session pin support --file rules.md
  contexture session pin support --turn 3")]
    Pin(PinArgs),
    /// List the pins of a session
    #[command(after_help = "\
Examples:
  contexture session pins support
  contexture session pins support --revisions refunds")]
    Pins {
        /// Label or alias of the session
        label: String,
        /// Show every revision of this pin [default: the latest revision of
        /// each pin]
        #[arg(long, value_name = "NAME")]
        revisions: Option<String>,
    },
    /// Remove a pin; its revisions stay stored
    #[command(after_help = "\
Examples:
  contexture session unpin support refunds")]
    Unpin {
        /// Label or alias of the session
        label: String,
        /// Name of the pin
        name: String,
    },
    /// Show the cost of a session: tokens, cached tokens and money
    #[command(after_help = "\
Examples:
  contexture session cost support
  contexture session cost support --json")]
    Cost {
        /// Label or alias of the session
        label: String,
    },
    /// Add an alias to a session
    #[command(after_help = "\
Examples:
  contexture session alias support invoices")]
    Alias {
        /// Label or alias of the session
        label: String,
        /// Alias to add
        alias: String,
    },
    /// Set whether the turns of a session become memory events
    #[command(after_help = "\
Overrides `from_sessions` in [memory] of contexture.toml for turns that are recorded from now on. \
Records of earlier turns are kept; delete them with `contexture memory forget --session LABEL`.

Examples:
  contexture session remember support true
  contexture session remember support false")]
    Remember {
        /// Label or alias of the session
        label: String,
        /// Whether recorded turns become memory events
        #[arg(value_name = "BOOL", action = clap::ArgAction::Set)]
        remember: bool,
    },
    /// Delete a session with its turns and snapshots
    #[command(after_help = "\
Turns that a fork shares are kept. Memory records of the session are kept; delete them with \
`contexture memory forget --session LABEL`. The deleted text is overwritten in the store's files.

Examples:
  contexture session delete support
  contexture session delete support --yes")]
    Delete {
        /// Label or alias of the session
        label: String,
        /// Do not ask. Without a terminal the command never asks
        #[arg(long)]
        yes: bool,
    },
    /// Delete the turns of a session before a turn
    #[command(after_help = "\
The turn and those after it keep their ids and numbers. All snapshots of the session are deleted, \
because they can contain the deleted turns. Memory records are kept, and so are summaries after the \
turn. The command fails if another session shares one of the turns. The deleted text is overwritten \
in the store's files.

Examples:
  contexture session trim support --before 40
  contexture session trim support --before 3f2a9c --yes")]
    Trim {
        /// Label or alias of the session
        label: String,
        /// First turn to keep: its number, or the first 4 or more digits of its id
        #[arg(long, value_name = "TURN")]
        before: String,
        /// Do not ask. Without a terminal the command never asks
        #[arg(long)]
        yes: bool,
    },
    /// Close a session: mark its work as completed or failed
    #[command(after_help = "\
Examples:
  contexture session close worker-1
  contexture session close worker-1 --failed")]
    Close {
        /// Label or alias of the session
        label: String,
        /// Mark the session as failed instead of completed
        #[arg(long)]
        failed: bool,
    },
    /// Reopen a closed session: it accepts turns again
    #[command(after_help = "\
Examples:
  contexture session reopen worker-1")]
    Reopen {
        /// Label or alias of the session
        label: String,
    },
}
