use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

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
  contexture assemble --report - > prompt-and-report.txt")]
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
    /// Count tokens
    #[command(after_help = "\
Examples:
  contexture tokens README.md src/*.rs
  contexture tokens --model claude-sonnet-4 notes.md    an estimate that errs high
  git diff | contexture tokens -")]
    Tokens(TokensArgs),
    /// List, show and check recipes
    #[command(after_help = "\
Examples:
  contexture recipe list
  contexture recipe show working-set > mine.yml
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
pub(crate) struct AssembleArgs {
    /// The directory that all paths are relative to
    #[arg(default_value = ".")]
    pub(crate) root: PathBuf,
    /// A built-in recipe or a file [default: what contexture.toml says, else working-set]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) recipe: Option<String>,
    /// The manifest, relative to the root [default: working-set.yml, else .agent/working-set.yml]
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest: Option<String>,
    /// The session whose log is written [default: default]
    #[arg(long, value_name = "LABEL")]
    pub(crate) session: Option<String>,
    /// What is asked now: the last message
    #[arg(long, value_name = "TEXT")]
    pub(crate) event: Option<String>,
    /// The same from a text file; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "event")]
    pub(crate) event_file: Option<PathBuf>,
    /// The model: decides window, tokenizer and provider [default: what contexture.toml says]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The window [default: what the manifest says, else the model's]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = tokens)]
    pub(crate) max_tokens: Option<u64>,
    /// Tokens kept free for the answer [default: what the manifest says, else 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = tokens)]
    pub(crate) reserve_response: Option<u64>,
    /// Tokens kept free for tools [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = tokens)]
    pub(crate) reserve_tools: Option<u64>,
    /// The clock, for repeatable output, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "RFC3339", value_parser = timestamp)]
    pub(crate) now: Option<contexture::Timestamp>,
    /// The form of the request
    #[arg(long, value_enum, default_value_t = FormatArg::Text)]
    pub(crate) format: FormatArg,
    /// Write the report to a file; - is standard output, behind the prompt
    #[arg(long, value_name = "FILE|-")]
    pub(crate) report: Option<PathBuf>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Yaml)]
    pub(crate) report_format: ReportFormat,
    /// Show on standard error what became of every candidate
    #[arg(long)]
    pub(crate) explain: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// Blocks between role tags
    Text,
    /// Contexture's own form, with the report
    Json,
    /// Anthropic Messages
    Anthropic,
    /// OpenAI Chat Completions
    OpenaiChat,
    /// OpenAI Responses
    OpenaiResponses,
    /// Gemini generateContent
    Gemini,
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
    /// Check a recipe file
    Check {
        /// The file
        file: PathBuf,
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
