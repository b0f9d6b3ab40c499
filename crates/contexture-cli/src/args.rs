mod key;
mod memory;
mod serve;
mod task;
mod tree;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser};
use clap::{Arg, Args, Parser, Subcommand, ValueEnum};
use contexture::turn::AgentRole;
use contexture::{Format, Request};

pub(crate) use key::{KeyArgs, KeyCommand};
pub(crate) use memory::{
    ForgetArgs, MemoryArgs, MemoryCommand, RecallArgs, RecallFormat, RecordArgs,
};
pub(crate) use serve::{McpArgs, ServeArgs};
pub(crate) use task::{TaskArgs, TaskCommand};
pub(crate) use tree::{
    AddArgs, AgentCommand, AgentName, AgentSetArgs, NodeCommand, PathCommand, Pinned, Prefer,
    ShowArgs, TreeArgs, TreeCommand, TreeMemoryCommand, TreeSettings,
};

/// Decides what a language model sees: assembles prompts within a token budget.
#[derive(Parser)]
#[command(
    name = "contexture",
    version,
    about,
    after_help = "\
Examples:
  contexture init                              start: write .agent/ and contexture.toml here
  contexture assemble --explain                the prompt, and what became of every file
  contexture assemble --format anthropic --event 'Why does the build fail?'
  contexture session new support                a conversation, kept in .contexture/
  contexture assemble --recipe broker --session support --event 'Hello'
  contexture session record support turn.json   what the model answered
  contexture tree import story.json             a branching conversation or text
  contexture assemble --tree story --head 3f9a  the request for a place in it
  contexture memory record events.jsonl         what is to be found again
  contexture memory recall 'When does the ferry leave?'
  contexture tokens src/*.rs --model gpt-4o    count tokens
  contexture working-set add src/lib.rs --priority 0.7 --why 'the bug is here'

Exit codes: 0 done, 1 failed, 2 something in the input or the call is wrong.
Every command has --help with examples."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Write the first files of a project
    #[command(after_help = "\
Writes .agent/constitution.md, .agent/working-set.yml, .agent/hot.yml, .agent/cold.yml and
contexture.toml. Files that exist are left as they are.

Examples:
  contexture init
  contexture init my-project && contexture assemble my-project --explain")]
    Init(InitArgs),
    /// Assemble the prompt: the main job
    #[command(after_help = "\
The manifest lists files with priorities; those that fit the budget are in the prompt, the
others are cut or left out, and the report says why. Standard output is the prompt alone.

Examples:
  contexture assemble                          text with role tags
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
    /// Look at the working set, or change it
    #[command(after_help = "\
Every change needs a reason. All changes of a call are made, or none; comments and layout of
the file survive.

Examples:
  contexture working-set list
  contexture working-set add src/lib.rs --priority 0.7 --why 'the bug is here'
  contexture working-set adjust src/lib.rs --priority 0.9 --why 'it is, indeed'
  contexture working-set remove src/lib.rs --why 'mended'
  contexture working-set apply actions.yml     what a model asked for
  contexture working-set observe turn.json     after a turn: bump, demote, add tool outputs

An actions file holds one or several YAML documents:
  action: add_to_working_set      # or remove_from_working_set, adjust_priority
  path: src/lib.rs
  priority: 0.7
  why: the bug is here")]
    WorkingSet(WorkingSetArgs),
    /// Conversations: record turns, look at them, fork them, make them shorter
    #[command(after_help = "\
Turns are never changed: a session is a pointer to the latest one, a fork shares what came before.
A turn is JSON:
  {\"messages\":[{\"role\":\"user\",\"content\":\"Why?\"},{\"role\":\"assistant\",\"content\":\"Because.\"}],
   \"model\":\"gpt-4o\",\"usage\":{\"input_tokens\":812,\"output_tokens\":9,\"cached_input_tokens\":640}}

Examples:
  contexture session new support --task 'Answer questions about invoices'
  contexture session record support turn.json
  contexture session history support --limit 3
  contexture session fork support what-if --at 3f2a
  contexture session compact support --focus 'what was decided about refunds'
  contexture session uncompact support
  contexture session cost support")]
    Session(SessionArgs),
    /// Looms: conversations and texts that branch; bring them in, grow them, draw them
    #[command(after_help = "\
A tree holds nodes that never change, and edges that say what goes on from what; any node can be
continued in several ways. `contexture assemble --tree TREE --head NODE` makes the request for a
place in it. docs/loom.md tells the rest.

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
    /// Memory: record what happened and what is known, and find it again
    #[command(after_help = "\
Events, pieces of texts, people and things, how they stand to each other, and what works are
recorded as lines of JSON, and found by words and by meaning. It needs no key and no network.
docs/memory.md tells the rest.

Examples:
  contexture memory record events.jsonl
  contexture memory record --text docs/*.md
  contexture memory recall 'When does the ferry leave?' --max-tokens 800 --explain
  contexture memory stats
  contexture memory forget --source docs/old.md
  contexture assemble --recipe broker --session support --event 'When does the ferry leave?'")]
    Memory(MemoryArgs),
    /// The task stack: what is being done, for what, and what came of it
    #[command(after_help = "\
Tasks are parts of tasks. A new one is a part of the current one, and current until it is popped
with its result. The recipe task-stack makes requests of where one is.

Examples:
  contexture task push 'Publish the tide tables'
  contexture task push 'Check the figures of March'
  contexture task show
  contexture task pop --result 'Two rows were wrong, corrected'
  contexture assemble --recipe task-stack --event 'Go on.' --max-tokens 8000")]
    Task(TaskArgs),
    /// Keys: what opens the store to those who ask a server
    #[command(after_help = "\
Whoever asks a server sends a key with every request. A key opens the data of one tenant; tenants
share nothing. What the other commands keep belongs to the tenant `default`.

Examples:
  contexture key new --name 'my laptop'
  contexture key new --tenant harbour --name 'the agent of the harbour' > harbour.key
  contexture key list
  contexture key revoke 7hK2mQx9PzR4")]
    Key(KeyArgs),
    /// Serve everything over HTTP, with MCP at /mcp
    #[command(after_help = "\
Everything that the other commands do, for programs in any language and for agents. /docs shows
the operations, /openapi.json describes them, /mcp speaks the Model Context Protocol, /metrics is
for Prometheus. SIGTERM stops the server when it has finished what it accepted.

On 127.0.0.1 no key is needed until there is one. On any other address there must be one:
`contexture key new`. Settings are in contexture.toml under [server], or in the environment:
CONTEXTURE_SERVER_ADDR, CONTEXTURE_SERVER_MAX_CONCURRENT and so on.

Examples:
  contexture serve
  contexture serve --addr 127.0.0.1:9000 --root my-project
  contexture key new > agent.key && contexture serve --addr 0.0.0.0:8787
  curl http://127.0.0.1:8787/v1/recipes")]
    Serve(ServeArgs),
    /// Serve one agent over standard input and output, with the Model Context Protocol
    #[command(after_help = "\
An agent starts this itself. In its configuration:

  {\"mcpServers\": {\"contexture\": {\"command\": \"contexture\",
                                 \"args\": [\"mcp\", \"--root\", \"my-project\"]}}}

Several agents, or agents on other machines, use `contexture serve` and its /mcp.")]
    Mcp(McpArgs),
    /// Requests that were assembled: what exactly did the model see?
    #[command(after_help = "\
Every assembled request is kept by content in the store.

Examples:
  contexture snapshot list --session support
  contexture snapshot show 3f2a9c --format anthropic
  contexture snapshot diff 3f2a9c 81bb02
  contexture snapshot diff 3f2a9c 81bb02 --min-shared 90   exit code 1 when less is shared
  contexture snapshot check 3f2a9c                         comes out with the same bytes?")]
    Snapshot(SnapshotArgs),
    /// Count tokens
    #[command(after_help = "\
Examples:
  contexture tokens README.md src/*.rs
  contexture tokens --model claude-sonnet-4 notes.md    an estimate that errs high
  git diff | contexture tokens -")]
    Tokens(TokensArgs),
    /// List, show and check recipes, and list their sources
    #[command(after_help = "\
Examples:
  contexture recipe list
  contexture recipe show working-set > mine.yml
  contexture recipe sources                    what a layer may take its items from
  contexture recipe check mine.yml
  contexture assemble --recipe mine.yml")]
    Recipe(RecipeArgs),
    /// Check configuration, manifest and models, and say what to do
    #[command(after_help = "\
Prints what is good, what is worth a look and what is bad, and the settings in force.

Examples:
  contexture doctor
  contexture doctor my-project --json")]
    Doctor(DoctorArgs),
    /// Print a completion script for your shell
    #[command(after_help = "\
Examples:
  contexture completions bash > /etc/bash_completion.d/contexture
  contexture completions zsh > ~/.zfunc/_contexture
  contexture completions fish > ~/.config/fish/completions/contexture.fish")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Args)]
pub(crate) struct InitArgs {
    /// Where to start; created when it is not there
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
}

#[derive(Args)]
#[command(mut_args(of_command_line))]
pub(crate) struct AssembleArgs {
    /// The directory that all paths are relative to
    #[arg(default_value = ".")]
    pub(crate) root: PathBuf,
    #[command(flatten)]
    pub(crate) request: Request,
    /// What is asked now: the last message
    #[arg(long, value_name = "TEXT")]
    pub(crate) event: Option<String>,
    /// The same from a file, text or a JSON event; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "event")]
    pub(crate) event_file: Option<PathBuf>,
    /// The text of --working-buffer from a file; - is standard input
    #[arg(
        long,
        value_name = "FILE",
        requires = "tree",
        conflicts_with = "working_buffer"
    )]
    pub(crate) working_buffer_file: Option<PathBuf>,
    /// The clock, for repeatable output, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "RFC3339", value_parser = timestamp)]
    pub(crate) now: Option<contexture::Timestamp>,
    /// The form of the request
    #[arg(long, value_parser = formats(), default_value = "text")]
    pub(crate) format: Format,
    /// Write the report to a file; - is standard output, behind the prompt
    #[arg(long, value_name = "FILE|-")]
    pub(crate) report: Option<PathBuf>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Yaml)]
    pub(crate) report_format: ReportFormat,
    /// Show on standard error what became of every candidate
    #[arg(long)]
    pub(crate) explain: bool,
    /// Where conversations, memory and requests are kept [default: sqlite:ROOT/.contexture/contexture.db]
    #[arg(long, value_name = "URL")]
    pub(crate) db: Option<String>,
}

/// Adds to the flags of a request what only the command line knows: which of
/// them need a tree, how numbers and roles are typed, and what a flag holds.
fn of_command_line(arg: Arg) -> Arg {
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
        // A flag cannot hold the recipe itself, as JSON can.
        "recipe" => arg.help(
            "A built-in recipe or a file. Default: that of the tree, else the configured one",
        ),
        "filters" => arg.help(
            "What memory may find, as JSON: since, event_types, entity_types, exclude, task_id",
        ),
        _ => arg,
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

#[derive(Args)]
pub(crate) struct WorkingSetArgs {
    #[command(subcommand)]
    pub(crate) command: WorkingSetCommand,
    #[command(flatten)]
    pub(crate) options: WorkingSetOptions,
}

#[derive(Args)]
pub(crate) struct WorkingSetOptions {
    /// The manifest, relative to the root [default: working-set.yml, else .agent/working-set.yml]
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) manifest: Option<String>,
    /// The session whose log is written [default: default]
    #[arg(long, value_name = "LABEL", global = true)]
    pub(crate) session: Option<String>,
    /// The clock, for repeatable output
    #[arg(long, value_name = "RFC3339", value_parser = timestamp, global = true)]
    pub(crate) now: Option<contexture::Timestamp>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
pub(crate) enum WorkingSetCommand {
    /// Show the entries, and the files they stand for
    List {
        /// The directory that all paths are relative to
        #[arg(default_value = ".")]
        root: PathBuf,
    },
    /// Apply the changes that a model asked for
    Apply {
        /// YAML documents; - is standard input
        file: PathBuf,
        /// The directory that all paths are relative to
        #[arg(default_value = ".")]
        root: PathBuf,
    },
    /// Add a file, a directory or a pattern
    Add {
        /// The path below the root
        path: String,
        /// From 0 to 1
        #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = priority)]
        priority: f64,
        /// The reason
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
        /// Whose words it holds
        #[arg(long, value_name = "ROLE", value_parser = ["system", "developer", "user", "context"])]
        role: Option<String>,
        /// How it may be cut
        #[arg(long, value_name = "STRATEGY", value_parser = ["never", "start", "middle", "end"])]
        truncate_strategy: Option<String>,
        /// The directory that all paths are relative to
        #[arg(long, value_name = "DIR", default_value = ".")]
        root: PathBuf,
    },
    /// Remove an entry
    Remove {
        /// The path as it stands in the manifest
        path: String,
        /// The reason
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
        /// The directory that all paths are relative to
        #[arg(long, value_name = "DIR", default_value = ".")]
        root: PathBuf,
    },
    /// Give an entry another priority
    Adjust {
        /// The path as it stands in the manifest
        path: String,
        /// From 0 to 1
        #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = priority)]
        priority: f64,
        /// The reason
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
        /// The directory that all paths are relative to
        #[arg(long, value_name = "DIR", default_value = ".")]
        root: PathBuf,
    },
    /// Update from a turn: add tool outputs, bump what was mentioned, demote what was not
    Observe {
        /// A turn as JSON; - is standard input
        file: PathBuf,
        /// The directory that all paths are relative to
        #[arg(default_value = ".")]
        root: PathBuf,
    },
}

/// Where a store is, and how what is found there is shown.
#[derive(Args)]
pub(crate) struct StoreOptions {
    /// The directory of the project
    #[arg(
        long,
        value_name = "DIR",
        default_value = ".",
        global = true,
        env = "CONTEXTURE_ROOT"
    )]
    pub(crate) root: PathBuf,
    /// Where conversations, trees, memory and tasks are kept [default:
    /// sqlite:ROOT/.contexture/contexture.db]
    #[arg(
        long,
        value_name = "URL",
        global = true,
        env = "CONTEXTURE_DB",
        hide_env_values = true
    )]
    pub(crate) db: Option<String>,
    /// The clock, for repeatable output
    #[arg(long, value_name = "RFC3339", value_parser = timestamp, global = true)]
    pub(crate) now: Option<contexture::Timestamp>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    pub(crate) command: SessionCommand,
    #[command(flatten)]
    pub(crate) options: StoreOptions,
}

#[derive(Subcommand)]
pub(crate) enum SessionCommand {
    /// Make a session
    New {
        /// Its name
        label: String,
        /// Another name for it; may be given several times
        #[arg(long = "alias", value_name = "NAME")]
        aliases: Vec<String>,
        /// Who speaks: a directory below personas/
        #[arg(long, value_name = "NAME")]
        persona: Option<String>,
        /// What it is to do
        #[arg(long, value_name = "TEXT")]
        task: Option<String>,
        /// The session it belongs to, for a worker's
        #[arg(long, value_name = "LABEL")]
        parent: Option<String>,
    },
    /// List the sessions
    List,
    /// Show a session
    Show {
        /// Its name or alias
        label: String,
    },
    /// Record a turn: what was asked and what the model answered
    Record {
        /// Its name or alias
        label: String,
        /// A turn as JSON; - is standard input
        file: PathBuf,
    },
    /// Show the turns of a session, oldest first
    History {
        /// Its name or alias
        label: String,
        /// How many of the latest
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
        /// All of them
        #[arg(long, conflicts_with = "limit")]
        all: bool,
    },
    /// Make a session that begins where another one is, or was
    Fork {
        /// The name or alias of the one it comes from
        label: String,
        /// Its own name
        new: String,
        /// The turn it begins behind: the first digits of its id [default: the latest]
        #[arg(long, value_name = "TURN")]
        at: Option<String>,
    },
    /// Summarise all but the latest turns
    Compact {
        /// Its name or alias
        label: String,
        /// What the summary is to pay attention to
        #[arg(long, value_name = "TEXT")]
        focus: Option<String>,
        /// The provider said that the request was too long: go further than usual, once
        #[arg(long)]
        overflow: bool,
        /// The model whose window counts [default: that of the latest request]
        #[arg(long, value_name = "NAME")]
        model: Option<String>,
        /// The window [default: the model's]
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = tokens)]
        max_tokens: Option<u64>,
    },
    /// Undo the latest summary; nothing that was said since is lost
    Uncompact {
        /// Its name or alias
        label: String,
    },
    /// Show what the turns cost: tokens, the part from the cache, and money
    Cost {
        /// Its name or alias
        label: String,
    },
    /// Give a session another name
    Alias {
        /// Its name or alias
        label: String,
        /// The other name
        alias: String,
    },
    /// Say that the work of a session is done
    Close {
        /// Its name or alias
        label: String,
        /// It failed
        #[arg(long)]
        failed: bool,
    },
}

#[derive(Args)]
pub(crate) struct SnapshotArgs {
    #[command(subcommand)]
    pub(crate) command: SnapshotCommand,
    #[command(flatten)]
    pub(crate) options: StoreOptions,
}

#[derive(Subcommand)]
pub(crate) enum SnapshotCommand {
    /// List the latest requests, newest first
    List {
        /// Those of one session
        #[arg(long, value_name = "LABEL")]
        session: Option<String>,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Print a request, byte for byte as it was
    Show {
        /// The first digits of its hash
        hash: String,
        /// The form of the request
        #[arg(long, value_parser = formats(), default_value = "text")]
        format: Format,
    },
    /// Show where two requests part, and what differs
    Diff {
        /// The earlier one
        a: String,
        /// The later one
        b: String,
        /// Fail when they share less than so many percent of the later one
        #[arg(long, value_name = "PERCENT", value_parser = percent)]
        min_shared: Option<f64>,
    },
    /// Check that a request is there whole and comes out with the same bytes
    Check {
        /// The first digits of its hash; without one, all are checked
        hash: Option<String>,
    },
}

#[derive(Args)]
pub(crate) struct TokensArgs {
    /// Files; - is standard input
    #[arg(value_name = "FILES")]
    pub(crate) files: Vec<PathBuf>,
    /// The model whose tokens are counted [default: what contexture.toml says]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// A tokenizer.json, o200k_base, cl100k_base or estimate, instead of a model
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "model")]
    pub(crate) tokenizer: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RecipeArgs {
    #[command(subcommand)]
    pub(crate) command: RecipeCommand,
}

#[derive(Subcommand)]
pub(crate) enum RecipeCommand {
    /// List the built-in recipes
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a recipe as YAML, to read or to start your own from
    Show {
        /// A built-in recipe or a file
        name: String,
    },
    /// List the sources that a recipe may use, with their parameters
    Sources {
        /// The directory of the project
        #[arg(long, value_name = "DIR", default_value = ".")]
        root: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check a recipe file: its layers, sources and parameters
    Check {
        /// The file
        file: PathBuf,
        /// The directory of the project
        #[arg(long, value_name = "DIR", default_value = ".")]
        root: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// The directory to look at
    #[arg(default_value = ".")]
    pub(crate) root: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
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
        .ok_or_else(|| "must be percent, from 0 to 100".to_owned())
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
