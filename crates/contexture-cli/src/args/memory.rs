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
    /// Record events, facts and texts
    #[command(after_help = "\
Input is one JSON object per line, each with its kind. Unknown fields are rejected with line and column:
  {\"kind\":\"event\",\"session_id\":\"mon\",\"timestamp\":\"2026-01-26T09:00:00Z\",\"type\":\"user_message\",
   \"content\":{\"speaker\":\"Ana\",\"text\":\"The pump is back.\"}}
  {\"kind\":\"chunk\",\"source\":\"manual.md\",\"text\":\"…\"}
  {\"kind\":\"entity\",\"type\":\"person\",\"name\":\"Ana\",\"properties\":{\"role\":\"keeper\"}}
  {\"kind\":\"relation\",\"type\":\"works_at\",\"source_id\":\"Ana\",\"target_id\":\"the pump house\"}
  {\"kind\":\"pattern\",\"name\":\"pump\",\"conditions\":[{\"type\":\"keyword\",\"value\":\"pump\"}],\"procedure\":\"…\"}
  {\"kind\":\"task\",\"id\":\"t1\",\"goal\":\"…\"}

A record replaces the stored record with the same id. Recording the same record twice has no effect. \
Lines are saved in batches of 1,000. After an error, earlier batches stay recorded, and the message \
says how many lines were recorded.

With --text, each file is split into chunks. Their source is the path of the file, relative to the \
current directory if the file is below it. Chunks recorded from the same source before are replaced.

Examples:
  contexture memory record events.jsonl
  tail -n 100 log.jsonl | contexture memory record -
  contexture memory record --text docs/*.md
  echo 'The pump starts at noon.' | contexture memory record --text - --source notes
  pdftotext manual.pdf - | contexture memory record --text - --source manual.pdf")]
    Record(RecordArgs),
    /// Print the records that match a query, within a token budget
    #[command(after_help = "\
The text on standard output is ready to be placed in a prompt. Recall searches by words and by \
meaning, without a network. An empty query returns recent and important records.

Filters are JSON; only records that match all of them are returned:
  {\"since\":\"2026-01-01T00:00:00Z\",\"event_types\":[\"user_message\"],\"entity_types\":[\"person\"],
   \"exclude\":[\"e12\"],\"task_id\":\"t3\"}

Examples:
  contexture memory recall 'When does the ferry leave?'
  contexture memory recall 'What failed?' --max-tokens 500 --explain
  contexture memory recall 'Ana' --filters '{\"event_types\":[\"user_message\"]}' --format json
  contexture memory recall '' --session monday --strategy coding
  git log -1 --format=%B | contexture memory recall -")]
    Recall(Box<RecallArgs>),
    /// Show the number of records by kind
    #[command(after_help = "\
Columns, for each kind of record:
  valid     valid, without an end time
  ended     superseded, or with an end time after which recall ignores them
  archived  removed from recall because a cap was exceeded or their source text no longer
            contains them
The sum of the three is the number of stored records. In JSON, `hold` is valid, \
and `live` is valid plus ended.

Examples:
  contexture memory stats
  contexture memory stats --json | jq .kinds.event.hold")]
    Stats,
    /// List records as JSON Lines, a page at a time
    #[command(after_help = "\
Examples:
  contexture memory list --kind event --session monday
  contexture memory list --source handbook.md --limit 20 --after 140")]
    List(Box<ListArgs>),
    /// Show all fields of a record
    #[command(after_help = "\
`contexture memory recall QUERY --explain` prints the ids of the records it found.

Examples:
  contexture memory show e12
  contexture memory show person:ana --json")]
    Show {
        /// Id of the record
        id: String,
    },
    /// Export all records as lines of JSON that `memory record` accepts
    #[command(after_help = "\
Derived data is not exported: vectors, words, and entities and relations extracted from text. It \
is computed again when the texts are recorded.

Examples:
  contexture memory export > memory.jsonl
  contexture memory export --db sqlite:old.db | contexture memory record - --db sqlite:new.db")]
    Export,
    /// Delete records and everything derived from them
    #[command(after_help = "\
No trace of the records remains in the memory: words, vectors, and entities and relations derived \
only from them are deleted too. Snapshots of earlier requests still contain the text that was sent.

Examples:
  contexture memory forget --id e12
  contexture memory forget --id ana --kind entity
  contexture memory forget --source manual.md
  contexture memory forget --session monday")]
    Forget(ForgetArgs),
    /// Compute the vectors of all texts again with the configured embedder
    #[command(after_help = "\
Run it after a change of [memory.embedder] in contexture.toml, and after an embedding endpoint was \
unavailable. An interrupted run continues where it stopped.

Examples:
  contexture memory reembed")]
    Reembed,
}

#[derive(Args)]
pub(crate) struct RecordArgs {
    /// Files with lines of JSON, or with any text if --text is set; - reads standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Record the files as text, split into chunks
    #[arg(long)]
    pub(crate) text: bool,
    /// Source of the chunks [default: the path of the file]
    #[arg(long, value_name = "NAME", requires = "text")]
    pub(crate) source: Option<String>,
}

#[derive(Args)]
pub(crate) struct RecallArgs {
    /// Query; - reads standard input
    pub(crate) query: String,
    /// Current session, whose events count as recent
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Token budget of the output, headings included
    #[arg(long, value_name = "N", default_value = "2000", allow_negative_numbers = true,
          value_parser = tokens)]
    pub(crate) max_tokens: u64,
    /// Filters as JSON
    #[arg(long, value_name = "JSON", value_parser = ContextFilters::from_json)]
    pub(crate) filters: Option<ContextFilters>,
    /// Archetype whose strategy is used [default: the one set in contexture.toml, else recall]
    #[arg(long, value_name = "NAME")]
    pub(crate) strategy: Option<String>,
    /// Model whose tokenizer is used [default: the model set in contexture.toml]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Time zone of times in the query such as `yesterday` [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,
    /// Identity of the caller, to include records visible only to it; can be repeated
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) identity: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = RecallFormat::Text)]
    pub(crate) format: RecallFormat,
    /// Print to standard error what was found, why, and what was dropped
    #[arg(long)]
    pub(crate) explain: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecallFormat {
    /// Only the text
    Text,
    /// The text, its records and their scores
    Json,
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Kind of record [default: any]
    #[arg(long, value_enum)]
    pub(crate) kind: Option<KindArg>,
    /// User that the records belong to [default: any]
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Agent that the records belong to [default: any]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Session that the records belong to [default: any]
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Task that the records belong to [default: any]
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<String>,
    /// Origin of the records [default: any]
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// List also the entities and relations that were extracted from texts
    #[arg(long)]
    pub(crate) extracted: bool,
    /// Maximum number of records, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) limit: u16,
    /// Cursor that the page before printed [default: the first page]
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

#[derive(Args)]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    pub(crate) what: ForgetWhat,
    /// Kind of the record, if several kinds share the id [default: any]
    #[arg(long, value_enum, requires = "id")]
    pub(crate) kind: Option<KindArg>,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct ForgetWhat {
    /// Delete the record with this id
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Delete the chunks and events of this source
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Delete the events and chunks of this session
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Delete all records of this user
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindArg {
    /// Message or other event
    Event,
    /// Part of a text
    Chunk,
    /// Person, place or thing
    Entity,
    /// Relation between two entities
    Relation,
    /// Procedure that worked before
    Pattern,
    /// Task of a stack
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
