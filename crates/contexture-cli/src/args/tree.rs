//! The arguments of `contexture tree`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use contexture::store::{Author, TreeMode, TruncationStrategy};
use serde_json::Value;

use super::StoreOptions;

#[derive(Args)]
pub(crate) struct TreeArgs {
    #[command(subcommand)]
    pub(crate) command: TreeCommand,
    #[command(flatten)]
    pub(crate) options: StoreOptions,
}

#[derive(Subcommand)]
pub(crate) enum TreeCommand {
    /// Bring a tree in from JSON, or what is new in it
    #[command(after_help = "\
A tree that is not there is made. To one that is, new nodes and edges are added; settings, agents,
paths, memories and flags become what the file says; what the file does not have stays. All of it
is done, or nothing.

  {\"tree\":{\"id\":\"t1\",\"mode\":\"dialogue\",\"title\":\"…\",\"system_context\":\"…\",\"preferences\":{}},
   \"agents\":[{\"id\":\"a1\",\"type\":\"model\",\"system_prompt\":\"…\",\"loom_aware\":false}],
   \"nodes\":[{\"id\":\"n1\",\"author\":\"human\",\"content\":\"…\"},{\"id\":\"n2\",\"author\":\"model\",\"content\":\"…\"}],
   \"edges\":[{\"id\":\"e1\",\"type\":\"continuation\",\"sources\":[{\"node_id\":\"n1\",\"role\":\"primary\"}],
             \"target_node_id\":\"n2\"}]}

Examples:
  contexture tree import story.json
  contexture tree export story --db sqlite:other.db | contexture tree import -")]
    Import {
        /// The file; - is standard input
        file: PathBuf,
    },
    /// Print a tree as JSON, in the one form that importing it would give back
    #[command(after_help = "\
Agents, edges, paths and memories stand by name, nodes by time and id; every time is written out.
Exporting what was imported from an export gives the same bytes.

Examples:
  contexture tree export story > story.json
  contexture tree export story --output story.json")]
    Export {
        /// The tree
        tree: String,
        /// Write to a file instead
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// List the trees
    #[command(after_help = "\
Examples:
  contexture tree list
  contexture tree list --json | jq '.[].tree.id'")]
    List,
    /// Make an empty tree
    #[command(after_help = "\
A dialogue's nodes are messages; a buffer's nodes are pieces of one text. Which of them it is
cannot be changed later.

Preferences say what happens when a path does not fit; those of contexture.toml ([loom]) hold for
what a tree does not say:
  truncation_strategy   truncate_middle, rolling_window or stop_at_limit
  minimum_recent_nodes  how many of the latest nodes come before everything else
  token_buffer          tokens set aside for the answer

Examples:
  contexture tree new story --mode buffer --title 'The lighthouse'
  contexture tree new tides --mode dialogue --system-context-file tides.md \\
    --prefer truncation_strategy=rolling_window --prefer minimum_recent_nodes=6")]
    New {
        /// Its name
        tree: String,
        /// What its nodes are
        #[arg(long, value_enum)]
        mode: ModeArg,
        #[command(flatten)]
        settings: TreeSettings,
    },
    /// Change what a tree says about itself; what is not given stays
    #[command(after_help = "\
An empty value takes a setting away: --title '' or --prefer token_buffer=

Examples:
  contexture tree set story --title 'The lighthouse, second draft'
  contexture tree set story --buffer-mode-system-context
  contexture tree set tides --prefer truncation_strategy=stop_at_limit")]
    Set {
        /// The tree
        tree: String,
        /// What its nodes are: cannot be changed, only checked
        #[arg(long, value_enum)]
        mode: Option<ModeArg>,
        #[command(flatten)]
        settings: TreeSettings,
    },
    /// Draw a tree, with the path to a place in it
    #[command(after_help = "\
One line for each node: short id, author, tokens, what is to be known about it, how it begins.
What goes on from a node stands below it; other branches are set in before that.

  ●  is on the path                    ○  is not
  ◌  is another version of that place  ✎  is a remark
  ◆  is context or an instruction for what follows
  ⋮  stands for nodes with nothing to see; --all shows them
  @  is where an agent is

The path leads to --head, or the end of --path, or where --agent is, or the only end there is;
where there are several ends, none is drawn. With --json every node is listed.

Examples:
  contexture tree show tides
  contexture tree show tides --head 3f9a1c | less
  contexture tree show tides --from 3f9a1c --depth 10
  contexture tree show tides --all --json")]
    Show(ShowArgs),
    /// Nodes: add, edit, flag, look at
    #[command(after_help = "\
Examples:
  contexture tree node add tides --author human 'Why are there two tides a day?'
  contexture tree node edit tides 3f9a 'Why are there two high tides a day?'
  contexture tree node flag tides 3f9a --exclude
  contexture tree node show tides 3f9a")]
    Node {
        #[command(subcommand)]
        command: NodeCommand,
    },
    /// Saved paths: names for places, with the choices on the way
    #[command(after_help = "\
Examples:
  contexture tree path save tides draft --head 81bb --choose 3f9a
  contexture tree path list tides
  contexture tree show tides --path draft
  contexture assemble --tree tides --path draft")]
    Path {
        #[command(subcommand)]
        command: PathCommand,
    },
    /// Who writes in a tree
    #[command(after_help = "\
Examples:
  contexture tree agent set tides ada --type model --model gpt-4o --prompt-file ada.md
  contexture tree agent set tides ada --loom-aware --at 3f9a
  contexture tree agent list tides
  contexture assemble --tree tides --agent ada")]
    Agent {
        #[command(subcommand)]
        command: AgentCommand,
    },
    /// What a loom-aware agent keeps in mind
    #[command(after_help = "\
It stands in the agent's requests before the messages: what it pinned, the stashes it recalled,
and the latest things it did.

Examples:
  contexture tree memory pin tides ada 3f9a1c
  contexture tree memory pin tides ada --text 'Never give a figure without its source.'
  contexture tree memory stash tides ada outline 'First the moon, then the sea floor.'
  contexture tree memory recall tides ada outline
  contexture tree memory act tides ada 'went back to 3f9a1c'
  contexture tree memory show tides ada")]
    Memory {
        #[command(subcommand)]
        command: TreeMemoryCommand,
    },
}

#[derive(Args)]
pub(crate) struct TreeSettings {
    /// What it is called
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// What every request begins with, behind the agent's own prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system_context: Option<String>,
    /// The same from a file; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "system_context")]
    pub(crate) system_context_file: Option<PathBuf>,
    /// Whether a document has a system context at all
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub(crate) buffer_mode_system_context: Option<bool>,
    /// What it prefers otherwise than contexture.toml; may be given several times
    #[arg(long = "prefer", value_name = "KEY=VALUE", value_parser = prefer)]
    pub(crate) prefer: Vec<Prefer>,
}

impl TreeSettings {
    /// Returns true when there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.title.is_none()
            && self.system_context.is_none()
            && self.system_context_file.is_none()
            && self.buffer_mode_system_context.is_none()
            && self.prefer.is_empty()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    /// Messages of a conversation
    Dialogue,
    /// Pieces of one text
    Buffer,
}

impl From<ModeArg> for TreeMode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Dialogue => TreeMode::Dialogue,
            ModeArg::Buffer => TreeMode::Buffer,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthorArg {
    /// A person
    Human,
    /// A model
    Model,
}

impl From<AuthorArg> for Author {
    fn from(author: AuthorArg) -> Self {
        match author {
            AuthorArg::Human => Author::Human,
            AuthorArg::Model => Author::Model,
        }
    }
}

/// A preference that is set, or taken away.
#[derive(Clone, Copy)]
pub(crate) enum Prefer {
    Strategy(Option<TruncationStrategy>),
    Recent(Option<usize>),
    Buffer(Option<u64>),
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// The tree
    pub(crate) tree: String,
    /// The place that the path leads to
    #[arg(long, value_name = "NODE")]
    pub(crate) head: Option<String>,
    /// The saved path that is drawn
    #[arg(long, value_name = "NAME")]
    pub(crate) path: Option<String>,
    /// The agent whose place the path leads to
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// The node that the drawing begins with [default: the root]
    #[arg(long, value_name = "NODE")]
    pub(crate) from: Option<String>,
    /// How many nodes deep it goes
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<usize>,
    /// Every node, none folded
    #[arg(long)]
    pub(crate) all: bool,
    /// The model whose tokens are counted [default: what contexture.toml says]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum NodeCommand {
    /// Add a node; prints its short id
    #[command(after_help = "\
The first node of a tree follows nothing; every other one goes on from --after. Several of them
are versions of one place. Nodes are named by id, short id, or the first characters of the id,
four or more.

--context and --instruction name nodes that are there, --instruct and --attach make new ones of a
text and of a file (text, or a picture: png, jpg, gif, webp). Instructions go into the system
context of requests that pass here, context stands right before what is continued.

--response keeps what the provider answered, with its usage; without TEXT, what it says is taken
from there (OpenAI, Anthropic, Gemini).

In a dialogue the line break at the end of a file is no part of the message; in a buffer every
byte counts.

Examples:
  n1=$(contexture tree node add tides --author human 'Why are there two tides a day?')
  n2=$(contexture tree node add tides --author model --after $n1 --response answer.json)
  contexture tree node add tides --author human --after $n1 --file question.md
  contexture tree node add tides --author human --after $n2 --annotate 'Check this figure.'
  contexture tree node add tides --agent ada --after $n1 --attach chart.png \\
    --instruct 'Answer in one sentence.' 'Because there are two bulges.'
  contexture tree node add tides --author human --after $n2 -- '- a text that begins with a dash'")]
    Add(Box<AddArgs>),
    /// Add another version of a node, which stands in its place; prints its short id
    #[command(after_help = "\
Nodes never change: an edit is a node of its own. Requests show the latest version, unless a saved
path chooses another.

Examples:
  contexture tree node edit tides 3f9a1c 'Why are there two high tides a day?'
  contexture tree node edit tides 3f9a1c --file question.md")]
    Edit {
        /// The tree
        tree: String,
        /// The node
        node: String,
        /// What it says now; - is standard input
        text: Option<String>,
        /// The same from a file; - is standard input
        #[arg(long, value_name = "FILE", conflicts_with = "text")]
        file: Option<PathBuf>,
        /// Who wrote it [default: who wrote what is edited]
        #[arg(long, value_enum)]
        author: Option<AuthorArg>,
        /// Which agent
        #[arg(long, value_name = "ID")]
        agent: Option<String>,
        /// Its id [default: made from what it says and where]
        #[arg(long, value_name = "ID")]
        id: Option<String>,
    },
    /// Leave a node out of requests, take it away, mark it; or undo that
    #[command(after_help = "\
Examples:
  contexture tree node flag tides 3f9a1c --exclude      stays on the path, not in requests
  contexture tree node flag tides 3f9a1c --prune        is taken away, and can be restored
  contexture tree node flag tides 3f9a1c --restore --bookmark")]
    Flag {
        /// The tree
        tree: String,
        /// The node
        node: String,
        /// Leave it out of requests
        #[arg(long)]
        exclude: bool,
        /// Show it in requests again
        #[arg(long, conflicts_with = "exclude")]
        include: bool,
        /// Take it away
        #[arg(long)]
        prune: bool,
        /// Bring it back
        #[arg(long, conflicts_with = "prune")]
        restore: bool,
        /// Mark it
        #[arg(long)]
        bookmark: bool,
        /// Take the mark away
        #[arg(long, conflicts_with = "bookmark")]
        unbookmark: bool,
    },
    /// Show all about a node: what it says, who, when, flags, edges, versions, usage
    #[command(after_help = "\
Examples:
  contexture tree node show tides 3f9a
  contexture tree node show tides 3f9a --json | jq .raw_response.body")]
    Show {
        /// The tree
        tree: String,
        /// The node
        node: String,
    },
}

#[derive(Args)]
pub(crate) struct AddArgs {
    /// The tree
    pub(crate) tree: String,
    /// What it says; - is standard input
    pub(crate) text: Option<String>,
    /// The same from a file; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    pub(crate) file: Option<PathBuf>,
    /// Who wrote it [default: what the agent is]
    #[arg(long, value_enum, required_unless_present = "agent")]
    pub(crate) author: Option<AuthorArg>,
    /// Which agent wrote it
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// What it follows; several are versions of one place
    #[arg(long, value_name = "NODE")]
    pub(crate) after: Vec<String>,
    /// It is a remark on what it follows
    #[arg(long, requires = "after")]
    pub(crate) annotate: bool,
    /// Its id [default: made from what it says and where]
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// A node that it looks at
    #[arg(long, value_name = "NODE", requires = "after")]
    pub(crate) context: Vec<String>,
    /// A node that directs it
    #[arg(long, value_name = "NODE", requires = "after")]
    pub(crate) instruction: Vec<String>,
    /// A new directive for it
    #[arg(long, value_name = "TEXT", requires = "after")]
    pub(crate) instruct: Vec<String>,
    /// A file that it looks at: text or a picture
    #[arg(long, value_name = "FILE", requires = "after")]
    pub(crate) attach: Vec<PathBuf>,
    /// What the provider answered, as JSON; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) response: Option<PathBuf>,
    /// The request that it answers, by its hash: what the provider counted is learned from
    #[arg(long, value_name = "HASH", requires = "response")]
    pub(crate) request: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum PathCommand {
    /// Save a path: a name for a place, with the choices on the way
    #[command(after_help = "\
Where a place has several versions, the latest is taken, and where several edges lead to a node
the request is refused, unless the path chooses: by node for a version, by edge or node for a way.

Examples:
  contexture tree path save tides draft --head 81bb02
  contexture tree path save tides first-wording --head 81bb02 --choose 3f9a1c
  contexture assemble --tree tides --path first-wording")]
    Save {
        /// The tree
        tree: String,
        /// Its name; one of that name is replaced
        name: String,
        /// Where it ends
        #[arg(long, value_name = "NODE")]
        head: String,
        /// The version or the edge that is taken; may be given several times
        #[arg(long, value_name = "NODE|EDGE")]
        choose: Vec<String>,
    },
    /// List the saved paths
    #[command(after_help = "\
Examples:
  contexture tree path list tides")]
    List {
        /// The tree
        tree: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum AgentCommand {
    /// Make an agent, or change one; what is not given stays
    #[command(after_help = "\
A loom-aware agent is told that it works in a tree: its requests have a line about each node, what
it keeps in mind, and where it and others are. An empty value takes a setting away.

Examples:
  contexture tree agent set tides ada --type model --model gpt-4o --prompt 'You explain with numbers.'
  contexture tree agent set tides ada --loom-aware --permission read --permission branch --at 3f9a1c
  contexture tree agent set tides ada --parameter temperature=0.7 --loom-aware=false")]
    Set(Box<AgentSetArgs>),
    /// List the agents
    #[command(after_help = "\
Examples:
  contexture tree agent list tides
  contexture tree agent list tides --json")]
    List {
        /// The tree
        tree: String,
    },
}

#[derive(Args)]
pub(crate) struct AgentSetArgs {
    /// The tree
    pub(crate) tree: String,
    /// Its name in the tree
    pub(crate) id: String,
    /// What it is; needed for a new one
    #[arg(long = "type", value_enum)]
    pub(crate) kind: Option<AuthorArg>,
    /// What it is called
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// What its requests begin with
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    /// The same from a file; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub(crate) prompt_file: Option<PathBuf>,
    /// The model that it is
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// How the model is to sample; may be given several times
    #[arg(long = "parameter", value_name = "KEY=VALUE", value_parser = parameter)]
    pub(crate) parameters: Vec<(String, Option<Value>)>,
    /// What it may do, in place of what it might; may be given several times
    #[arg(long = "permission", value_name = "NAME")]
    pub(crate) permissions: Vec<String>,
    /// Whether it knows that it works in a tree
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub(crate) loom_aware: Option<bool>,
    /// The node where it is
    #[arg(long, value_name = "NODE")]
    pub(crate) at: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum TreeMemoryCommand {
    /// Show what it keeps in mind
    #[command(after_help = "\
Examples:
  contexture tree memory show tides ada")]
    Show(AgentName),
    /// Have a node or a text in every request
    #[command(after_help = "\
Examples:
  contexture tree memory pin tides ada 3f9a
  contexture tree memory pin tides ada --text 'Never give a figure without its source.'")]
    #[command(override_usage = "contexture tree memory pin <TREE> <AGENT> <NODE|--text TEXT>")]
    Pin {
        #[command(flatten)]
        of: AgentName,
        #[command(flatten)]
        what: Pinned,
    },
    /// Have it there no longer
    #[command(after_help = "\
Examples:
  contexture tree memory unpin tides ada 3f9a")]
    #[command(override_usage = "contexture tree memory unpin <TREE> <AGENT> <NODE|--text TEXT>")]
    Unpin {
        #[command(flatten)]
        of: AgentName,
        #[command(flatten)]
        what: Pinned,
    },
    /// Put a text aside under a name, to be recalled
    #[command(after_help = "\
Examples:
  contexture tree memory stash tides ada outline 'First the moon, then the sea floor.'
  contexture tree memory stash tides ada outline --file outline.md")]
    Stash {
        #[command(flatten)]
        of: AgentName,
        /// Its name; one of that name is replaced
        name: String,
        /// What it is; - is standard input
        #[arg(required_unless_present = "file")]
        text: Option<String>,
        /// The same from a file; - is standard input
        #[arg(long, value_name = "FILE", conflicts_with = "text")]
        file: Option<PathBuf>,
    },
    /// Have a stash in every request
    #[command(after_help = "\
Examples:
  contexture tree memory recall tides ada outline")]
    Recall {
        #[command(flatten)]
        of: AgentName,
        /// Its name
        name: String,
    },
    /// Have a stash there no longer; it is kept
    #[command(after_help = "\
Examples:
  contexture tree memory put-away tides ada outline")]
    PutAway {
        #[command(flatten)]
        of: AgentName,
        /// Its name
        name: String,
    },
    /// Throw a stash away
    #[command(after_help = "\
Examples:
  contexture tree memory discard tides ada outline")]
    Discard {
        #[command(flatten)]
        of: AgentName,
        /// Its name
        name: String,
    },
    /// Note that something was done
    #[command(after_help = "\
Examples:
  contexture tree memory act tides ada 'went back to 3f9a'")]
    Act {
        #[command(flatten)]
        of: AgentName,
        /// What it was
        action: String,
    },
}

#[derive(Args)]
pub(crate) struct AgentName {
    /// The tree
    pub(crate) tree: String,
    /// The agent
    pub(crate) agent: String,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Pinned {
    /// The node
    pub(crate) node: Option<String>,
    /// A text instead
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
}

fn prefer(text: &str) -> Result<Prefer, String> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=VALUE")?;
    let value = Some(value.trim()).filter(|value| !value.is_empty());
    let number = |value: &str| -> Result<u64, String> {
        let parsed = value.replace(['_', ','], "").parse();
        parsed.map_err(|_| format!("{key} must be a whole number, 0 or more"))
    };
    match key.trim() {
        "truncation_strategy" => {
            let all = [
                TruncationStrategy::TruncateMiddle,
                TruncationStrategy::RollingWindow,
                TruncationStrategy::StopAtLimit,
            ];
            let find = |value| {
                let found = all.into_iter().find(|one| one.name() == value);
                let names = all.map(TruncationStrategy::name).join(", ");
                found.ok_or_else(|| format!("{key} must be one of {names}"))
            };
            value.map(find).transpose().map(Prefer::Strategy)
        }
        "minimum_recent_nodes" => {
            let value = value.map(number).transpose()?;
            let value = value.map(usize::try_from).transpose();
            value
                .map(Prefer::Recent)
                .map_err(|_| format!("{key} is too large"))
        }
        "token_buffer" => value.map(number).transpose().map(Prefer::Buffer),
        other => Err(format!(
            "`{other}` is no preference; those are truncation_strategy, minimum_recent_nodes and \
             token_buffer"
        )),
    }
}

fn parameter(text: &str) -> Result<(String, Option<Value>), String> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=VALUE")?;
    if key.trim().is_empty() {
        return Err("must be KEY=VALUE".to_owned());
    }
    let value = match value {
        "" => None,
        // What is no JSON is text.
        value => Some(serde_json::from_str(value).unwrap_or_else(|_| value.into())),
    };
    Ok((key.trim().to_owned(), value))
}
