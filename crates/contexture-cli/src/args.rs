//! The command line: every command, option and help text.
//!
//! [`Cli`] is the whole of it; commands with many options have a module of
//! their own. Tests check that each command has an example
//! and that options state their defaults in one style; an option that states
//! none has none.

mod fetch;
mod fit;
mod help;
mod import;
mod key;
mod memory;
mod models;
mod one;
mod serve;
mod session;
mod snapshot;
mod task;
mod tree;
mod trust;
mod upkeep;
mod working_set;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser};
use clap::{Arg, Args, Parser, Subcommand, ValueEnum};
use contexture::turn::AgentRole;
use contexture::{Format, Request};

use crate::root;
pub(crate) use fetch::FetchArgs;
pub(crate) use fit::FitArgs;
pub(crate) use help::parse;
pub(crate) use import::{ARCHIVE, ImportArgs};
pub(crate) use key::{KeyArgs, KeyCommand};
pub(crate) use memory::{
    ForgetArgs, ListArgs, MemoryArgs, MemoryCommand, RecallArgs, RecallFormat, RecordArgs,
};
pub(crate) use serve::{InspectArgs, ListedTools, McpArgs, ServeArgs};
pub(crate) use task::{TaskArgs, TaskCommand};

pub(crate) use models::{ModelsArgs, ModelsCommand};
pub(crate) use session::{PinArgs, SessionArgs, SessionCommand};
pub(crate) use snapshot::{SnapshotArgs, SnapshotCommand};
pub(crate) use tree::{
    AddArgs, AgentCommand, AgentName, AgentSetArgs, NodeCommand, PathCommand, Pinned, Prefer,
    ShowArgs, TreeArgs, TreeCommand, TreeMemoryCommand, TreeSettings,
};
pub(crate) use trust::TrustArgs;
pub(crate) use upkeep::{
    BackupArgs, ExportArgs, FileCommand, GcArgs, RestoreArgs, TenantArgs, TenantCommand, VerifyArgs,
};
pub(crate) use working_set::{WorkingSetArgs, WorkingSetCommand, WorkingSetOptions};

/// Assembles requests for language models within a token budget, and reports what was left out.
#[derive(Parser)]
#[command(
    name = "contexture",
    version,
    after_help = "\
Examples:
  contexture init                               propose a working set for this project
  contexture assemble --explain                 print the prompt and explain every file
  contexture assemble --format anthropic --event 'Why does the build fail?'
  contexture session new support                create a conversation in .contexture/
  contexture assemble --recipe broker --session support --event 'Hello'
  contexture session record support turn.json   record what the model answered
  contexture tree import story.json             import a branching conversation or text
  contexture assemble --tree story --head 3f9a  assemble the request for one node
  contexture memory record events.jsonl         record events in memory
  contexture memory recall 'When does the ferry leave?'
  contexture tokens src/*.rs --model gpt-5.6    count tokens
  contexture working-set add src/lib.rs --priority 0.7 --why 'the bug is here'

Exit codes: 0 success, 1 failure, 2 invalid input or invalid command line, 3 the request would \
break the provider's prompt cache (with --fail-on-cache-break). \
Every command has --help with examples."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

// The options of every command. A doc comment would describe the program.
#[derive(Args)]
pub(crate) struct GlobalOptions {
    /// Directory of the project [default: the nearest directory, from here upward, with
    /// working-set.yml, .agent/working-set.yml or contexture.toml; else this directory]
    #[arg(
        long = "root",
        value_name = "DIR",
        global = true,
        env = "CONTEXTURE_ROOT"
    )]
    pub(crate) root: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create the first files of a project
    #[command(after_help = "\
Looks at the files of the project (languages, build files, README, AGENTS.md, tests, docs; \
.gitignore is respected), proposes a working set with the tokens of each entry, and writes it to \
.agent/working-set.yml. On a terminal it asks first. Also writes .agent/constitution.md, \
.agent/hot.yml, .agent/cold.yml and contexture.toml. Existing files are not changed.

Examples:
  contexture init
  contexture init --yes && contexture assemble --explain
  contexture init my-project
  contexture init --force        replace the working set with a new proposal")]
    Init(InitArgs),
    /// Assemble the request for a model, and print it
    #[command(after_help = "\
The manifest lists files with priorities. Files that fit the budget are included; the others are \
cut or dropped, and the report gives the reason for each. Only the request goes to standard output.

Examples:
  contexture assemble                          print text with role tags
  contexture assemble examples/quickstart --explain
  contexture assemble --max-tokens 8000 --report report.yml
  contexture assemble --format openai-chat --event-file question.txt > request.json
  contexture assemble --report - > prompt-and-report.txt
  contexture assemble --recipe broker --session support --event-file event.json --format anthropic
  contexture assemble --tree story --head 3f9a1c --format openai-chat
  contexture assemble --tree draft --working-buffer 'And then' --model davinci-002 --format openai-completions
  contexture assemble --recipe memory --query 'When does the ferry leave?' --max-tokens 2000
  contexture assemble --recipe task-stack --stack tables --event 'Go on.' --max-tokens 8000

An event file holds text, or JSON:
  {\"content\":\"…\",\"timezone\":\"Europe/Berlin\",\"platform\":\"slack\",\"sender\":{\"name\":\"Ana\"}}")]
    Assemble(Box<AssembleArgs>),
    /// List or change the files of the working set
    #[command(after_help = "\
Every change needs a reason (--why). All changes of one call are applied, or none. Comments and \
layout of the manifest are preserved.

Examples:
  contexture working-set list
  contexture working-set add src/lib.rs --priority 0.7 --why 'the bug is here'
  contexture working-set adjust src/lib.rs --priority 0.9 --why 'the test fails here'
  contexture working-set remove src/lib.rs --why 'fixed'
  contexture working-set apply actions.yml     apply what a model requested
  contexture working-set observe turn.json     update priorities after a turn

An actions file contains one or more YAML documents:
  action: add_to_working_set      # or remove_from_working_set, adjust_priority
  path: src/lib.rs
  priority: 0.7
  why: the bug is here")]
    WorkingSet(WorkingSetArgs),
    /// Record, list, fork and compact conversations
    #[command(after_help = "\
Turns are immutable. A session points to its latest turn; a fork shares the turns before it. \
A turn is JSON:
  {\"messages\":[{\"role\":\"user\",\"content\":\"Why?\"},{\"role\":\"assistant\",\"content\":\"Because.\"}],
   \"model\":\"gpt-5.6\",\"usage\":{\"input_tokens\":812,\"output_tokens\":9,\"cached_input_tokens\":640}}

Examples:
  contexture session new support --task 'Answer questions about invoices'
  contexture session record support turn.json
  contexture session history support --limit 3
  contexture session fork support what-if --at 3f2a
  contexture session compact support --focus 'decisions about refunds'
  contexture session uncompact support
  contexture session cost support")]
    Session(SessionArgs),
    /// Make a provider's request fit into the window, and print it
    #[command(after_help = "\
The request is the JSON body that an agent sends to Anthropic Messages, OpenAI Chat Completions, \
OpenAI Responses or Gemini. A request that fits is printed byte for byte. Otherwise older steps are \
replaced by a summary, and long tool results are cut. With --session, new messages are recorded and \
the summary is kept from call to call. See docs/fit.md.

Examples:
  contexture fit --max-tokens 100000 < request.json
  contexture fit request.json --explain > smaller.json
  contexture fit request.json --session build-bot
  contexture fit request.json --to anthropic")]
    Fit(FitArgs),
    /// Import the sessions of Claude Code, Codex and other programs
    #[command(after_help = "\
Sessions become sessions, branching conversations become trees, and requests that a file records \
become snapshots. Importing again adds only what is new. Without a source, the default directories of \
all programs are searched. See docs/import.md.

Sources: claude-code, codex, gemini, opencode, chatgpt, claude, aider, loomsidian, and archive: a \
file that `contexture export` wrote. An archive is checked as a whole before anything is written, and \
a tenant that has other data is not changed.

Examples:
  contexture import                            all sessions on this machine
  contexture import claude-code --since 1d     what Claude Code did since yesterday
  contexture import codex --dry-run            print what would be imported
  contexture import chatgpt ~/Downloads/export.zip
  contexture import claude-code --watch        follow sessions while they grow
  contexture import archive everything.ctxa    another store, from `contexture export`
  contexture import archive harbour.ctxa --tenant port")]
    Import(ImportArgs),
    /// Print a tool result that was cut in a request
    #[command(after_help = "\
A long tool result is cut in requests. The marker of the cut names its lines and its handle. The \
store keeps the whole result. Secrets are masked. See docs/tool-results.md.

Examples:
  contexture fetch sha256:1a2b3c4d5e6f
  contexture fetch 1a2b3c4d --lines 120-841
  contexture fetch 1a2b3c4d --grep 'error|panicked'
  contexture fetch 1a2b3c4d --jq '.items[] | select(.id == 7) | .name'")]
    Fetch(FetchArgs),
    /// Create, import, extend and draw branching conversations and texts (looms)
    #[command(after_help = "\
A tree consists of immutable nodes and of edges from a node to its continuations. A node can have \
several continuations. `contexture assemble --tree TREE --head NODE` assembles the request for a \
node. See docs/loom.md.

Examples:
  contexture tree import story.json
  contexture tree show story
  contexture tree new tides --mode dialogue --title 'Why two tides?'
  contexture tree node add tides --author human 'Why are there two tides a day?'
  contexture tree node add tides --author model --after 3f9a --response answer.json
  contexture tree node edit tides 3f9a 'Why are there two high tides a day?'
  contexture tree node flag tides 81bb --exclude
  contexture tree path save tides draft --head 81bb
  contexture tree agent set tides ada --type model --loom-aware
  contexture tree export tides > tides.json")]
    Tree(TreeArgs),
    /// Record events, texts and facts, and recall them
    #[command(after_help = "\
Records are events, chunks of text, entities, relations, patterns and tasks, one JSON object per \
line. Recall searches by words and by meaning. It needs no API key and no network. \
See docs/memory.md.

Examples:
  contexture memory record events.jsonl
  contexture memory record --text docs/*.md
  contexture memory recall 'When does the ferry leave?' --max-tokens 800 --explain
  contexture memory stats
  contexture memory forget --source docs/old.md
  contexture assemble --recipe broker --session support --event 'When does the ferry leave?'")]
    Memory(MemoryArgs),
    /// Manage the task stack: push, pop, resume and show tasks
    #[command(after_help = "\
Tasks form a tree. A new task becomes the current task and a subtask of the previous one. It stays \
current until it is popped with its result. The recipe task-stack adds the tasks to a request.

Examples:
  contexture task push 'Publish the tide tables'
  contexture task push 'Check the figures of March'
  contexture task show
  contexture task pop --result 'Two rows were wrong, corrected'
  contexture assemble --recipe task-stack --event 'Go on.' --max-tokens 8000")]
    Task(TaskArgs),
    /// Create, list and revoke API keys for the server
    #[command(after_help = "\
Clients of a server send an API key with every request. A key grants access to the data of one \
tenant; tenants share no data. The other commands use the tenant `default`.

Examples:
  contexture key new --name 'my laptop'
  contexture key new --tenant harbour --name 'harbour agent' > harbour.key
  contexture key list
  contexture key revoke 7hK2mQx9PzR4")]
    Key(KeyArgs),
    /// Serve Contexture over HTTP, with MCP at /mcp
    #[command(after_help = "\
The server offers the operations of the other commands to programs in any language and to agents. \
/ is the inspector, /docs lists the operations, /openapi.json describes them, /mcp is the Model \
Context Protocol, and /metrics is for Prometheus. On SIGTERM the server finishes the requests it accepted, then stops.

On 127.0.0.1 authentication is off until the first key exists. On any other address a key is \
required: create one with `contexture key new`. Settings are in contexture.toml under [server], or \
in environment variables such as CONTEXTURE_SERVER_ADDR and CONTEXTURE_SERVER_MAX_CONCURRENT.

Examples:
  contexture serve
  contexture serve --addr 127.0.0.1:9000 --root my-project
  contexture key new > agent.key && contexture serve --addr 0.0.0.0:4650
  curl http://127.0.0.1:4650/v1/recipes")]
    Serve(ServeArgs),
    /// Show sessions, requests, memory and trees in the browser, read-only
    #[command(after_help = "\
Starts a server on a free port of this machine and opens the browser. The server refuses every \
operation that writes. The printed address has a key that is valid until the command ends.

Examples:
  contexture inspect
  contexture inspect support
  contexture inspect backup.db --no-browser")]
    Inspect(InspectArgs),
    /// Serve one agent over standard input and output (Model Context Protocol)
    #[command(after_help = "\
The agent starts this command. Add it to the configuration of the agent:

  {\"mcpServers\": {\"contexture\": {\"command\": \"contexture\",
                                 \"args\": [\"mcp\", \"--root\", \"my-project\"]}}}

The agent can call every tool; --tools all also lists those that few agents need. \
For several agents, or agents on other machines, run `contexture serve` and use /mcp.

Examples:
  contexture mcp --root my-project")]
    Mcp(McpArgs),
    /// List, print, compare and verify assembled requests
    #[command(after_help = "\
Every assembled request is saved in the store as a snapshot, identified by its hash.

Examples:
  contexture snapshot list --session support
  contexture snapshot show 3f2a9c --format anthropic
  contexture snapshot diff 3f2a9c 81bb02
  contexture snapshot diff 3f2a9c 81bb02 --min-shared 90   exit with 1 if less is shared
  contexture snapshot check 3f2a9c                         verify that it renders to the same bytes")]
    Snapshot(SnapshotArgs),
    /// Count the tokens of files
    #[command(after_help = "\
Examples:
  contexture tokens README.md src/*.rs
  contexture tokens --model claude-sonnet-5-5 notes.md    print an estimate, usually too high
  git diff | contexture tokens -")]
    Tokens(TokensArgs),
    /// List, show and check recipes, and list their sources
    #[command(after_help = "\
Examples:
  contexture recipe list
  contexture recipe show working-set > mine.yml
  contexture recipe sources                    list the sources of items
  contexture recipe check mine.yml
  contexture assemble --recipe mine.yml")]
    Recipe(RecipeArgs),
    /// List the models with their limits and prices, or replace the model table
    #[command(after_help = "\
Models that you add to contexture.toml are listed too.

Examples:
  contexture models list claude
  contexture models list --json > models.json
  contexture models update model_prices_and_context_window.json")]
    Models(ModelsArgs),
    /// Check configuration, manifest, models and store, and suggest fixes
    #[command(after_help = "\
Prints one line per check, marked `ok`, `note` or `bad`. The lines that need attention come last, \
followed by a summary. The exit code is 2 if a check is bad.

Examples:
  contexture doctor
  contexture doctor --all        list every setting and where its value comes from
  contexture doctor my-project --json")]
    Doctor(DoctorArgs),
    /// Trust the contexture.toml of a project, so that all its settings are active
    #[command(after_help = "\
A cloned project brings a contexture.toml that other people wrote. Settings that run commands, send \
content or environment variables to a URL, use paths outside the root, or open a server to host \
names and web pages are inactive until you trust the file. The other settings always work. Trust is \
for the exact content: a changed file must be trusted again. The command prints what becomes active.

The list of trusted files is $XDG_DATA_HOME/contexture/trusted (~/.local/share by default). \
CONTEXTURE_TRUST_FILE sets another path. See docs/trust.md.

Examples:
  contexture trust --show                      print what would become active
  contexture trust
  contexture trust my-project
  contexture trust --list
  contexture trust my-project --revoke")]
    Trust(TrustArgs),
    /// Back up the store to a new directory; a server can keep running
    #[command(after_help = "\
The directory gets one database file per tenant and manifest.json with their sizes and hashes. Each \
file is one consistent state. See docs/backup.md.

Examples:
  contexture backup /backups/2026-01-31
  contexture backup harbour.backup --tenant harbour")]
    Backup(BackupArgs),
    /// Check a backup, and replace the store with it
    #[command(after_help = "\
Stop the server first. Sizes, hashes and all content are checked before anything is replaced. \
Tenants that are not in the backup keep their data.

Examples:
  contexture restore /backups/2026-01-31 --check
  contexture restore /backups/2026-01-31 --replace")]
    Restore(RestoreArgs),
    /// Write everything in the store, or one tenant, to a portable archive
    #[command(after_help = "\
The archive is one compressed file with hashes. `contexture import archive` reads it into another \
store, SQLite or PostgreSQL. The store can be used meanwhile. The archive of a whole store has all \
tenants, the hashes of API keys, quotas and the audit log; the archive of a tenant has its data only. \
It has everything in plain text: store it as safely as the store. See docs/backup.md.

Examples:
  contexture export everything.ctxa
  contexture export harbour.ctxa --tenant harbour
  contexture export - | ssh backup 'cat > everything.ctxa'")]
    Export(ExportArgs),
    /// Verify the integrity of the store
    #[command(after_help = "\
Checks the database files, the hashes and chains of turns, heads, snapshots, memory records and \
trees. Prints one line per damaged item. The exit code is 1 if something is damaged.

Examples:
  contexture verify
  contexture verify --tenant harbour --json")]
    Verify(VerifyArgs),
    /// Delete old snapshots, and content that no snapshot refers to
    #[command(after_help = "\
The latest snapshot of each session is always kept. Without a limit, only content that nothing \
refers to is deleted.

Examples:
  contexture gc --dry-run
  contexture gc --snapshot-days 30
  contexture gc --snapshots-per-session 100")]
    Gc(GcArgs),
    /// List tenants, show what they store, and delete them
    #[command(after_help = "\
Examples:
  contexture tenant list
  contexture tenant usage harbour
  contexture tenant delete harbour --yes
  contexture tenant audit")]
    Tenant(TenantArgs),
    /// Print a completion script for your shell
    #[command(after_help = "\
The scripts for bash, zsh and fish also complete the names of recipes, sessions and trees.

Examples:
  contexture completions bash > /etc/bash_completion.d/contexture
  contexture completions zsh > ~/.zfunc/_contexture
  contexture completions fish > ~/.config/fish/completions/contexture.fish")]
    Completions {
        /// Shell to generate the script for
        shell: clap_complete::Shell,
    },
    /// List names for the completion scripts
    #[command(
        name = "__complete",
        hide = true,
        after_help = "\
Examples:
  contexture __complete sessions"
    )]
    CompleteNames {
        /// Kind of the names
        kind: NameKind,
        #[arg(skip)]
        root: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct InitArgs {
    /// Directory of the project; created if it does not exist [default: --root, else this directory]
    pub(crate) dir: Option<PathBuf>,
    /// Accept the proposal without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Replace an existing working-set.yml; other files are never replaced
    #[arg(long)]
    pub(crate) force: bool,
    #[arg(skip)]
    pub(crate) root: PathBuf,
}

#[derive(Args)]
#[command(mut_args(of_command_line))]
pub(crate) struct AssembleArgs {
    /// Directory that all paths are relative to [default: --root]
    #[arg(value_name = "ROOT")]
    pub(crate) dir: Option<PathBuf>,
    #[arg(skip)]
    pub(crate) root: PathBuf,
    #[command(flatten)]
    pub(crate) request: Request,
    /// Current question or event: the last message of the request
    #[arg(long, value_name = "TEXT")]
    pub(crate) event: Option<String>,
    /// Read the event from a file, as text or JSON; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "event")]
    pub(crate) event_file: Option<PathBuf>,
    /// Read the text of --working-buffer from a file; - reads standard input
    #[arg(
        long,
        value_name = "FILE",
        requires = "tree",
        conflicts_with = "working_buffer"
    )]
    pub(crate) working_buffer_file: Option<PathBuf>,
    /// Time to use as the current time, for repeatable output [default: the system clock]
    #[arg(long, value_name = "RFC3339", value_parser = timestamp)]
    pub(crate) now: Option<contexture::Timestamp>,
    /// Output format of the request
    #[arg(long, value_parser = formats(), default_value = "text")]
    pub(crate) format: Format,
    /// Write the report to a file; - writes it to standard output, after the request [default: no report]
    #[arg(long, value_name = "FILE|-")]
    pub(crate) report: Option<PathBuf>,
    /// Output format of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Yaml)]
    pub(crate) report_format: ReportFormat,
    /// Print the outcome of every candidate to standard error
    #[arg(long)]
    pub(crate) explain: bool,
    /// Store: sqlite:PATH or postgres://USER@HOST/DATABASE [default:
    /// sqlite:ROOT/.contexture/contexture.db]
    #[arg(
        long,
        value_name = "URL",
        env = "CONTEXTURE_DB",
        hide_env_values = true
    )]
    pub(crate) db: Option<String>,
}

/// Adds properties of the command line to the flags of a request: which flags
/// need a tree, the format of numbers and roles, the value names, and the group
/// of each flag in the help.
fn of_command_line(arg: Arg) -> Arg {
    let heading = match arg.get_id().as_str() {
        "session" | "role" | "task" | "toolset" | "event" | "event_file" => "Conversation",
        "tree"
        | "head"
        | "path"
        | "agent"
        | "working_buffer"
        | "working_buffer_file"
        | "include_annotations"
        | "instructions"
        | "context" => "Tree",
        "query" | "filters" | "strategy" | "stack" => "Memory and tasks",
        "model" | "max_tokens" | "reserve_response" | "reserve_tools" => "Budget",
        "format" | "report" | "report_format" | "explain" | "fail_on_cache_break" => "Output",
        "manifest" | "recipe" => "Files and recipe",
        _ => return arg,
    };
    let help = arg.get_help().map(|help| short_help(&help.to_string()));
    let arg = arg.help(help.unwrap_or_default()).help_heading(heading);
    match arg.get_id().as_str() {
        "head"
        | "path"
        | "agent"
        | "working_buffer"
        | "include_annotations"
        | "instructions"
        | "context" => arg.requires("tree"),
        "max_tokens" | "reserve_response" | "reserve_tools" => arg
            .allow_negative_numbers(true)
            .value_parser(ValueParser::new(tokens)),
        "role" => arg.value_parser(roles()),
        "fail_on_cache_break" => arg.help(
            "Exit with 3 if the request changes tools, instructions or history of the session's \
             previous request, or is for another model, so that the provider's cache is lost",
        ),
        // A flag cannot hold the recipe itself, as JSON can.
        "recipe" => arg.help(
            "Built-in recipe or a file [default: the recipe for the mode of the tree, else the \
             configured one]",
        ),
        "filters" => arg
            .help("Filters for memory as JSON: since, event_types, entity_types, exclude, task_id"),
        _ => arg,
    }
}

/// Returns the description of a field as the help of a flag: without its
/// article, and with the default in brackets.
fn short_help(description: &str) -> String {
    let text = description.replace('`', "");
    let text = text.strip_prefix("The ").unwrap_or(&text);
    let text = match text.strip_prefix("Includes ") {
        Some(rest) => format!("Include {rest}"),
        None => text.to_owned(),
    };
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let text: String = first.into_iter().chain(letters).collect();
    match text.split_once(". Default: ") {
        Some((text, "none" | "false")) => text.to_owned(),
        Some((text, default)) => format!("{text} [default: {default}]"),
        None => text,
    }
}

fn roles() -> impl TypedValueParser<Value = AgentRole> {
    let roles = [AgentRole::Manager, AgentRole::Worker, AgentRole::Unified];
    let named = move |name: String| roles.into_iter().find(|role| role.name() == name);
    PossibleValuesParser::new(roles.map(AgentRole::name))
        .map(move |name| named(name).unwrap_or_default())
}

fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(|(name, _)| name)).map(|name| {
        let mut formats = Format::ALL.into_iter();
        let named = formats.find(|(known, _)| *known == name);
        named.map_or(Format::Text, |(_, format)| format)
    })
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    Yaml,
    Json,
}

/// The options of every command that opens a store.
#[derive(Args)]
pub(crate) struct StoreOptions {
    #[arg(skip)]
    pub(crate) root: PathBuf,
    /// Store: sqlite:PATH or postgres://USER@HOST/DATABASE [default:
    /// sqlite:ROOT/.contexture/contexture.db]
    #[arg(
        long,
        value_name = "URL",
        global = true,
        env = "CONTEXTURE_DB",
        hide_env_values = true
    )]
    pub(crate) db: Option<String>,
    /// Time to use as the current time, for repeatable output [default: the system clock]
    #[arg(long, value_name = "RFC3339", value_parser = timestamp, global = true)]
    pub(crate) now: Option<contexture::Timestamp>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct TokensArgs {
    #[arg(skip)]
    pub(crate) root: PathBuf,
    /// Files to count; - reads standard input [default: standard input]
    #[arg(value_name = "FILES")]
    pub(crate) files: Vec<PathBuf>,
    /// Model whose tokenizer is used [default: the model set in contexture.toml]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Tokenizer instead of a model: o200k_base, cl100k_base, estimate or a tokenizer.json [default: that of the model]
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "model")]
    pub(crate) tokenizer: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RecipeArgs {
    #[arg(skip)]
    pub(crate) root: PathBuf,
    #[command(subcommand)]
    pub(crate) command: RecipeCommand,
}

#[derive(Subcommand)]
pub(crate) enum RecipeCommand {
    /// List the built-in recipes
    #[command(after_help = "\
Examples:
  contexture recipe list
  contexture recipe list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a recipe as YAML
    #[command(after_help = "\
Examples:
  contexture recipe show working-set > mine.yml")]
    Show {
        /// Built-in recipe or a file
        name: String,
    },
    /// List the sources that a recipe can use, with their parameters
    #[command(after_help = "\
Examples:
  contexture recipe sources
  contexture recipe sources --json")]
    Sources {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check the layers, sources and parameters of a recipe file
    #[command(after_help = "\
Examples:
  contexture recipe check mine.yml")]
    Check {
        /// Recipe file
        file: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Directory of the project [default: --root]
    #[arg(value_name = "ROOT")]
    pub(crate) dir: Option<PathBuf>,
    #[arg(skip)]
    pub(crate) root: PathBuf,
    /// List every setting with its value and where the value comes from
    #[arg(long)]
    pub(crate) all: bool,
    /// Store: sqlite:PATH or postgres://USER@HOST/DATABASE [default:
    /// sqlite:ROOT/.contexture/contexture.db]
    #[arg(
        long,
        value_name = "URL",
        env = "CONTEXTURE_DB",
        hide_env_values = true
    )]
    pub(crate) db: Option<String>,
    /// Time to use as the current time, for repeatable output [default: the system clock]
    #[arg(long, value_name = "RFC3339", value_parser = timestamp)]
    pub(crate) now: Option<contexture::Timestamp>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Names that a shell can complete.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NameKind {
    Recipes,
    Sessions,
    Trees,
}

impl Command {
    /// Sets the directory of the project: the one that the command names, else
    /// the one of `--root`, else the one that is found.
    pub(crate) fn set_root(&mut self, given: Option<PathBuf>) {
        let found = |named: Option<PathBuf>| root::project(named.or_else(|| given.clone()));
        match self {
            // A new project begins where the user is, not above.
            Command::Init(args) => {
                let named = args.dir.take().or_else(|| given.clone());
                args.root = named.unwrap_or_else(|| PathBuf::from("."));
            }
            Command::Assemble(args) => args.root = found(args.dir.take()),
            Command::WorkingSet(args) => {
                let named = match &mut args.command {
                    WorkingSetCommand::List { dir }
                    | WorkingSetCommand::Apply { dir, .. }
                    | WorkingSetCommand::Observe { dir, .. } => dir.take(),
                    _ => None,
                };
                args.options.root = found(named);
            }
            Command::Session(args) => args.options.root = found(None),
            Command::Fit(args) => args.root = found(None),
            Command::Import(args) => args.options.root = found(None),
            Command::Fetch(args) => args.options.root = found(None),
            Command::Tree(args) => args.options.root = found(None),
            Command::Memory(args) => args.options.root = found(None),
            Command::Task(args) => args.options.root = found(None),
            Command::Key(args) => args.options.root = found(None),
            Command::Snapshot(args) => args.options.root = found(None),
            Command::Serve(args) => args.options.root = found(None),
            Command::Inspect(args) => args.options.root = found(None),
            Command::Mcp(args) => args.options.root = found(None),
            Command::Tokens(args) => args.root = found(None),
            Command::Recipe(args) => args.root = found(None),
            Command::Doctor(args) => args.root = found(args.dir.take()),
            Command::Models(args) => args.root = found(None),
            Command::Trust(args) => args.root = found(args.path.take()),
            Command::Backup(args) => args.options.root = found(None),
            Command::Restore(args) => args.options.root = found(None),
            Command::Export(args) => args.options.root = found(None),
            Command::Verify(args) => args.options.root = found(None),
            Command::Gc(args) => args.options.root = found(None),
            Command::Tenant(args) => args.options.root = found(None),
            Command::CompleteNames { root, .. } => *root = found(None),
            Command::Completions { .. } => {}
        }
    }
}

fn tokens(text: &str) -> Result<u64, String> {
    text.replace(['_', ','], "")
        .parse()
        .map_err(|_| "must be a whole number of tokens, 0 or more".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    text.trim_end_matches('%')
        .parse()
        .ok()
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| "must be a percentage from 0 to 100".to_owned())
}

fn priority(text: &str) -> Result<f64, String> {
    text.parse()
        .map_err(|_| "must be a number from 0 to 1".to_owned())
}

fn timestamp(text: &str) -> Result<contexture::Timestamp, String> {
    if let Ok(ms) = text.parse::<i64>() {
        return contexture::Timestamp::from_millisecond(ms).map_err(|e| e.to_string());
    }
    text.parse()
        .map_err(|_| "must be a time such as 2026-01-31T12:00:00Z, or Unix milliseconds".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use contexture::{Interface as _, Operation};
    use contexture_terminal::CommandLine;

    use super::*;

    /// Returns `command` and every command below it, with the words that a user
    /// types.
    fn commands(command: &clap::Command, typed: &str) -> Vec<(String, clap::Command)> {
        let typed = format!("{typed}{}", command.get_name());
        let below = command.get_subcommands();
        let below = below.flat_map(|one| commands(one, &format!("{typed} ")));
        std::iter::once((typed.clone(), command.clone()))
            .chain(below)
            .collect()
    }

    #[test]
    fn every_command_begins_with_a_verb_and_has_an_example() {
        let not_verbs = [
            "A", "An", "The", "This", "What", "Who", "Where", "How", "Its", "It",
        ];
        for (typed, command) in commands(&Cli::command(), "") {
            let about = command.get_about().map(ToString::to_string);
            let about = about.unwrap_or_default();
            let first = about.split([' ', ',']).next().unwrap_or_default();
            let is_verb = first.starts_with(char::is_uppercase)
                && first.chars().all(char::is_alphabetic)
                && !not_verbs.contains(&first);
            assert!(is_verb, "{typed}: {about}");
            let after = command.get_after_help().map(ToString::to_string);
            let after = after.unwrap_or_default();
            assert!(after.contains("Examples:\n"), "{typed} has no example");
        }
    }

    #[test]
    fn options_state_defaults_in_one_style() {
        let mut stated = 0;
        for (typed, command) in commands(&Cli::command(), "") {
            for option in command.get_arguments() {
                let help = option.get_help().map(ToString::to_string);
                let help = help.unwrap_or_default();
                let name = option.get_id();
                assert!(!help.contains("Default:"), "{typed} --{name}: {help}");
                assert!(!help.contains("default: none"), "{typed} --{name}: {help}");
                if help.contains("efault:") {
                    stated += 1;
                    let at_end = help.contains(" [default: ") && help.ends_with(']');
                    assert!(at_end, "{typed} --{name}: {help}");
                }
            }
        }
        assert!(stated > 20, "{stated}");
    }

    #[test]
    fn every_operation_in_advice_is_a_command_that_exists() {
        for &operation in Operation::ALL {
            for on in [None, Some("thing")] {
                let call = CommandLine.operation(operation, on);
                let call = call.unwrap_or_else(|| panic!("{operation:?} has no command"));
                let call = call.trim_matches('`').replace("WHO", "human");
                let call = call.replace(" P ", " 0.5 ");
                let words = call.split(' ');
                if let Err(error) = Cli::try_parse_from(words) {
                    panic!("{call}: {error}");
                }
            }
        }
    }

    #[test]
    fn descriptions_of_fields_become_help_of_flags() {
        assert_eq!(
            short_help("The task stack. Default: `main`"),
            "Task stack [default: main]"
        );
        assert_eq!(
            short_help("Includes annotations of nodes. Default: false"),
            "Include annotations of nodes"
        );
    }
}
