//! The arguments of `contexture memory`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use contexture::memory::ContextFilters;
use contexture::store::RecordKind;

use super::{StoreOptions, tokens};

#[derive(Args)]
pub(crate) struct MemoryArgs {
    #[command(subcommand)]
    pub(crate) command: MemoryCommand,
    #[command(flatten)]
    pub(crate) options: StoreOptions,
}

#[derive(Subcommand)]
pub(crate) enum MemoryCommand {
    /// Record what is to be found again: lines of JSON, or plain texts
    #[command(after_help = "\
One record a line, each with its kind; unknown fields are refused with their place:
  {\"kind\":\"event\",\"session_id\":\"mon\",\"timestamp\":\"2026-01-26T09:00:00Z\",\"type\":\"user_message\",
   \"content\":{\"speaker\":\"Ana\",\"text\":\"The pump is back.\"}}
  {\"kind\":\"chunk\",\"source\":\"manual.md\",\"text\":\"…\"}
  {\"kind\":\"entity\",\"type\":\"person\",\"name\":\"Ana\",\"properties\":{\"role\":\"keeper\"}}
  {\"kind\":\"relation\",\"type\":\"works_at\",\"source_id\":\"Ana\",\"target_id\":\"the pump house\"}
  {\"kind\":\"pattern\",\"name\":\"pump\",\"conditions\":[{\"type\":\"keyword\",\"value\":\"pump\"}],\"procedure\":\"…\"}
  {\"kind\":\"task\",\"id\":\"t1\",\"goal\":\"…\"}

A record whose id is known replaces the one that is there; the same one twice is one. What was
recorded before an error stays, and the error says how far that is.

With --text, files are recorded as chunks of a source named by their path, relative to the current
directory where they are below it; what was recorded of that source before is replaced.

Examples:
  contexture memory record events.jsonl
  tail -n 100 log.jsonl | contexture memory record -
  contexture memory record --text docs/*.md
  pdftotext manual.pdf - | contexture memory record --text - --source manual.pdf")]
    Record(RecordArgs),
    /// Print what is remembered of a question, within a budget
    #[command(after_help = "\
Standard output is the text, to be put into a prompt. It is found by words and by meaning, without
a network; an empty query gives what is recent and what matters.

Filters are JSON; nothing else is found:
  {\"since\":\"2026-01-01T00:00:00Z\",\"event_types\":[\"user_message\"],\"entity_types\":[\"person\"],
   \"exclude\":[\"e12\"],\"task_id\":\"t3\"}

Examples:
  contexture memory recall 'When does the ferry leave?'
  contexture memory recall 'What failed?' --max-tokens 500 --explain
  contexture memory recall 'Ana' --filters '{\"event_types\":[\"user_message\"]}' --format json
  contexture memory recall '' --session monday --strategy coding
  git log -1 --format=%B | contexture memory recall -")]
    Recall(Box<RecallArgs>),
    /// Show how much is remembered, by kind
    #[command(after_help = "\
Of each kind, how many
  hold      have no end
  ended     were superseded, or have a time at which they end: from then on they are not found
  archived  were put aside, to stay within the caps or because their text no longer has them:
            they are not found
The three add up to what is kept. In JSON, `live` is what holds and what has ended.

Examples:
  contexture memory stats
  contexture memory stats --json | jq .kinds.event.hold")]
    Stats,
    /// Show a record, whole
    #[command(after_help = "\
`memory recall --explain` names the records that it found.

Examples:
  contexture memory show e12
  contexture memory show person:ana --json")]
    Show {
        /// Its id
        id: String,
    },
    /// Print all records, one a line, as `memory record` takes them
    #[command(after_help = "\
What was only derived is not in it: vectors, words, and the entities and relations that were read
out of texts. They are made anew where the texts are recorded.

Examples:
  contexture memory export > memory.jsonl
  contexture memory export --db sqlite:old.db | contexture memory record - --db sqlite:new.db")]
    Export,
    /// Forget records, and all that was derived from them
    #[command(after_help = "\
Nothing of them is left in the store: words, vectors, and the entities and relations that were
known from them alone go too. Requests that were assembled earlier still hold what was sent: they
are snapshots, and stay.

Examples:
  contexture memory forget --id e12
  contexture memory forget --id ana --kind entity
  contexture memory forget --source manual.md
  contexture memory forget --session monday")]
    Forget(ForgetArgs),
    /// Make all vectors anew, with the configured embedder
    #[command(after_help = "\
Needed when [memory.embedder] in contexture.toml is another one than before, and after an endpoint
was down. What was done before an interruption is not done again.

Examples:
  contexture memory reembed")]
    Reembed,
}

#[derive(Args)]
pub(crate) struct RecordArgs {
    /// Lines of JSON, or with --text any text; - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The files are texts, to be found in chunks
    #[arg(long)]
    pub(crate) text: bool,
    /// What the text is called [default: the path of its file]
    #[arg(long, value_name = "NAME", requires = "text")]
    pub(crate) source: Option<String>,
}

#[derive(Args)]
pub(crate) struct RecallArgs {
    /// What to look for; - is standard input
    pub(crate) query: String,
    /// The session one is in: what happened in it counts as recent
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// What it may take, headings included
    #[arg(long, value_name = "N", default_value = "2000", allow_negative_numbers = true,
          value_parser = tokens)]
    pub(crate) max_tokens: u64,
    /// What may be found, as JSON
    #[arg(long, value_name = "JSON", value_parser = ContextFilters::from_json)]
    pub(crate) filters: Option<ContextFilters>,
    /// The archetype whose strategy is followed [default: what contexture.toml says, else recall]
    #[arg(long, value_name = "NAME")]
    pub(crate) strategy: Option<String>,
    /// The model whose tokens are counted [default: what contexture.toml says]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Who asks: what is visible to others only is not found; may be given several times
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) identity: Vec<String>,
    /// The form of the answer
    #[arg(long, value_enum, default_value_t = RecallFormat::Text)]
    pub(crate) format: RecallFormat,
    /// Show on standard error what was found, why, and what was left out
    #[arg(long)]
    pub(crate) explain: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecallFormat {
    /// The text alone
    Text,
    /// The text, what is in it and how it came about
    Json,
}

#[derive(Args)]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    pub(crate) what: ForgetWhat,
    /// The kind of the record, where several have that id
    #[arg(long, value_enum, requires = "id")]
    pub(crate) kind: Option<KindArg>,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct ForgetWhat {
    /// The record of that id
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Chunks and events that were taken from there
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Events and chunks of that session
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindArg {
    /// Something that happened
    Event,
    /// A piece of a text
    Chunk,
    /// Somebody or something
    Entity,
    /// How two entities stand to each other
    Relation,
    /// Something that works
    Pattern,
    /// Something to do
    Task,
}

impl From<KindArg> for RecordKind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Event => RecordKind::Event,
            KindArg::Chunk => RecordKind::Chunk,
            KindArg::Entity => RecordKind::Entity,
            KindArg::Relation => RecordKind::Relation,
            KindArg::Pattern => RecordKind::Pattern,
            KindArg::Task => RecordKind::Task,
        }
    }
}
