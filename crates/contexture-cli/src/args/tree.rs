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
    /// Import a tree from JSON, or add new nodes to an existing tree
    #[command(after_help = "\
A missing tree is created. In an existing tree, new nodes and edges are added; settings, agents, \
paths, agent memories and flags are overwritten by those in the file; everything else is unchanged. \
The whole file is imported, or nothing.

  {\"tree\":{\"id\":\"t1\",\"mode\":\"dialogue\",\"title\":\"…\",\"system_context\":\"…\",\"preferences\":{}},
   \"agents\":[{\"id\":\"a1\",\"type\":\"model\",\"system_prompt\":\"…\",\"loom_aware\":false}],
   \"nodes\":[{\"id\":\"n1\",\"author\":\"human\",\"content\":\"…\"},{\"id\":\"n2\",\"author\":\"model\",\"content\":\"…\"}],
   \"edges\":[{\"id\":\"e1\",\"type\":\"continuation\",\"sources\":[{\"node_id\":\"n1\",\"role\":\"primary\"}],
             \"target_node_id\":\"n2\"}]}

Examples:
  contexture tree import story.json
  contexture tree export story --db sqlite:other.db | contexture tree import -")]
    Import {
        /// File with the tree as JSON; - reads standard input
        file: PathBuf,
    },
    /// Delete a tree with its nodes, edges, agents, paths and snapshots
    #[command(after_help = "\
The deleted text is overwritten in the store's files.

Examples:
  contexture tree delete story")]
    Delete {
        /// Id of the tree
        tree: String,
    },
    /// Export a tree as JSON that `tree import` accepts
    #[command(after_help = "\
Agents, edges, paths and agent memories are sorted by name, nodes by time and id. Exporting an \
imported export gives the same bytes.

Examples:
  contexture tree export story > story.json
  contexture tree export story --output story.json")]
    Export {
        /// Id of the tree
        tree: String,
        /// File to write to [default: standard output]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// List the trees
    #[command(after_help = "\
Examples:
  contexture tree list
  contexture tree list --json | jq '.[].tree.id'")]
    List,
    /// Create an empty tree
    #[command(after_help = "\
The nodes of a dialogue are messages; the nodes of a buffer are parts of one text. The mode cannot \
be changed later.

Preferences control what happens when a path does not fit. They override [loom] in contexture.toml:
  truncation_strategy   truncate_middle, rolling_window or stop_at_limit
  minimum_recent_nodes  number of latest nodes that are kept before everything else
  token_buffer          tokens reserved for the answer

Examples:
  contexture tree new story --mode buffer --title 'The lighthouse'
  contexture tree new tides --mode dialogue --system-context-file tides.md \\
    --prefer truncation_strategy=rolling_window --prefer minimum_recent_nodes=6")]
    New {
        /// Id of the new tree
        tree: String,
        /// Mode: whether the nodes are messages or parts of one text
        #[arg(long, value_enum)]
        mode: ModeArg,
        #[command(flatten)]
        settings: TreeSettings,
    },
    /// Change the settings of a tree; omitted settings keep their value
    #[command(after_help = "\
An empty value removes a setting: --title '' or --prefer token_buffer=

Examples:
  contexture tree set story --title 'The lighthouse, second draft'
  contexture tree set story --buffer-mode-system-context
  contexture tree set tides --prefer truncation_strategy=stop_at_limit")]
    Set {
        /// Id of the tree
        tree: String,
        /// Mode that the tree must have; fails if it differs [default: any]
        #[arg(long, value_enum)]
        mode: Option<ModeArg>,
        #[command(flatten)]
        settings: TreeSettings,
    },
    /// Draw a tree and the path to a node
    #[command(after_help = "\
Each node is one line: short id, author, tokens, notes, and the start of its text. The continuation \
of a node is drawn below it; other branches are indented above the continuation.

  ●  node on the path                  ○  node off the path
  ◌  another version of a node         ✎  annotation
  ◆  context or instruction source of the following node
  ⋮  folded nodes; --all shows them
  @  position of an agent

The path ends at --head, at the end of --path, at the position of --agent, or at the only leaf. If \
the tree has several leaves and none of these is given, no path is drawn. --json lists every node.

Examples:
  contexture tree show tides
  contexture tree show tides --head 3f9a1c | less
  contexture tree show tides --from 3f9a1c --depth 10
  contexture tree show tides --all --json")]
    Show(ShowArgs),
    /// Add, edit, flag and show nodes
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
    /// Save and list named paths through a tree
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
    /// Create, change and list the agents of a tree
    #[command(after_help = "\
Examples:
  contexture tree agent set tides ada --type model --model gpt-5.6 --prompt-file ada.md
  contexture tree agent set tides ada --loom-aware --at 3f9a
  contexture tree agent list tides
  contexture assemble --tree tides --agent ada")]
    Agent {
        #[command(subcommand)]
        command: AgentCommand,
    },
    /// Manage the memory of a loom-aware agent: pins, stashes and actions
    #[command(after_help = "\
The requests of the agent contain its memory before the messages: pinned nodes and texts, recalled \
stashes, and its latest actions.

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
    /// Title of the tree
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Text that every request begins with, after the prompt of the agent
    #[arg(long, value_name = "TEXT")]
    pub(crate) system_context: Option<String>,
    /// Read the system context from a file; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "system_context")]
    pub(crate) system_context_file: Option<PathBuf>,
    /// Whether requests for a buffer include the system context [default: false; without a value: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub(crate) buffer_mode_system_context: Option<bool>,
    /// Preference that overrides contexture.toml; can be repeated
    #[arg(long = "prefer", value_name = "KEY=VALUE", value_parser = prefer)]
    pub(crate) prefer: Vec<Prefer>,
}

impl TreeSettings {
    /// Returns true when no setting is given.
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
    /// Nodes are messages of a conversation
    Dialogue,
    /// Nodes are parts of one text
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

/// A preference to set, or with `None` to remove.
#[derive(Clone, Copy)]
pub(crate) enum Prefer {
    Strategy(Option<TruncationStrategy>),
    Recent(Option<usize>),
    Buffer(Option<u64>),
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// Id of the tree
    pub(crate) tree: String,
    /// Node where the path ends [default: the only leaf]
    #[arg(long, value_name = "NODE")]
    pub(crate) head: Option<String>,
    /// Saved path to draw
    #[arg(long, value_name = "NAME")]
    pub(crate) path: Option<String>,
    /// Agent at whose position the path ends
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// Node to start the drawing at [default: the root]
    #[arg(long, value_name = "NODE")]
    pub(crate) from: Option<String>,
    /// Maximum depth in nodes [default: no limit]
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<usize>,
    /// Show every node, without folding
    #[arg(long)]
    pub(crate) all: bool,
    /// Model whose tokenizer is used [default: the model set in contexture.toml]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum NodeCommand {
    /// Add a node, and print its short id
    #[command(after_help = "\
The first node of a tree has no parent; every other node needs --after. If --after is repeated, the \
parents must be versions of one node. Name a node by its id, its short id, or the first four or \
more characters of its id.

--context and --instruction refer to existing nodes. --instruct and --attach create new nodes from \
a text and from a file (text, or a picture: png, jpg, gif, webp). Instructions are added to the \
system context of requests whose path passes through the node. Context is placed directly before \
the node.

--response saves the answer of the provider with its usage. Without TEXT, the text of the node is \
read from it (OpenAI, Anthropic, Gemini).

In a dialogue, the final line break of a file is removed. In a buffer, every byte is kept.

Examples:
  n1=$(contexture tree node add tides --author human 'Why are there two tides a day?')
  n2=$(contexture tree node add tides --author model --after $n1 --response answer.json)
  contexture tree node add tides --author human --after $n1 --file question.md
  contexture tree node add tides --author human --after $n2 --annotate 'Check this figure.'
  contexture tree node add tides --agent ada --after $n1 --attach chart.png \\
    --instruct 'Answer in one sentence.' 'Because there are two bulges.'
  contexture tree node add tides --author human --after $n2 -- '- a text that begins with a dash'")]
    Add(Box<AddArgs>),
    /// Edit a node: add a new version of it, and print its short id
    #[command(after_help = "\
Nodes are immutable: an edit is a new node. Requests contain the latest version, unless a saved path \
chooses another.

Examples:
  contexture tree node edit tides 3f9a1c 'Why are there two high tides a day?'
  contexture tree node edit tides 3f9a1c --file question.md")]
    Edit {
        /// Id of the tree
        tree: String,
        /// Id or short id of the node
        node: String,
        /// New text; - reads standard input
        text: Option<String>,
        /// Read the text from a file; - reads standard input
        #[arg(long, value_name = "FILE", conflicts_with = "text")]
        file: Option<PathBuf>,
        /// Author [default: the author of the edited node]
        #[arg(long, value_enum)]
        author: Option<AuthorArg>,
        /// Agent that wrote it
        #[arg(long, value_name = "ID")]
        agent: Option<String>,
        /// Id of the new node [default: a hash of its content and position]
        #[arg(long, value_name = "ID")]
        id: Option<String>,
    },
    /// Exclude, prune or bookmark a node, or undo that
    #[command(after_help = "\
Examples:
  contexture tree node flag tides 3f9a1c --exclude      omit from requests, keep on the path
  contexture tree node flag tides 3f9a1c --prune        remove from the tree; can be restored
  contexture tree node flag tides 3f9a1c --restore --bookmark")]
    Flag {
        /// Id of the tree
        tree: String,
        /// Id or short id of the node
        node: String,
        /// Omit the node from requests
        #[arg(long)]
        exclude: bool,
        /// Include the node in requests again
        #[arg(long, conflicts_with = "exclude")]
        include: bool,
        /// Remove the node from the tree
        #[arg(long)]
        prune: bool,
        /// Restore a pruned node
        #[arg(long, conflicts_with = "prune")]
        restore: bool,
        /// Bookmark the node
        #[arg(long)]
        bookmark: bool,
        /// Remove the bookmark
        #[arg(long, conflicts_with = "bookmark")]
        unbookmark: bool,
    },
    /// Show a node: text, author, time, flags, edges, versions and usage
    #[command(after_help = "\
Examples:
  contexture tree node show tides 3f9a
  contexture tree node show tides 3f9a --json | jq .raw_response.body")]
    Show {
        /// Id of the tree
        tree: String,
        /// Id or short id of the node
        node: String,
    },
}

#[derive(Args)]
pub(crate) struct AddArgs {
    /// Id of the tree
    pub(crate) tree: String,
    /// Text of the node; - reads standard input
    pub(crate) text: Option<String>,
    /// Read the text from a file; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    pub(crate) file: Option<PathBuf>,
    /// Author [default: the type of the agent]
    #[arg(long, value_enum, required_unless_present = "agent")]
    pub(crate) author: Option<AuthorArg>,
    /// Agent that wrote it
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// Parent node; repeat it for several versions of the parent [default: no parent, for a root]
    #[arg(long, value_name = "NODE")]
    pub(crate) after: Vec<String>,
    /// Add the node as an annotation of its parent
    #[arg(long, requires = "after")]
    pub(crate) annotate: bool,
    /// Id of the new node [default: a hash of its content and position]
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Existing node to use as a context source; can be repeated
    #[arg(long, value_name = "NODE", requires = "after")]
    pub(crate) context: Vec<String>,
    /// Existing node to use as an instruction; can be repeated
    #[arg(long, value_name = "NODE", requires = "after")]
    pub(crate) instruction: Vec<String>,
    /// Text of a new instruction node; can be repeated
    #[arg(long, value_name = "TEXT", requires = "after")]
    pub(crate) instruct: Vec<String>,
    /// File to add as a context source, text or a picture; can be repeated
    #[arg(long, value_name = "FILE", requires = "after")]
    pub(crate) attach: Vec<PathBuf>,
    /// File with the answer of the provider as JSON; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) response: Option<PathBuf>,
    /// Hash of the request that was answered, to calibrate token counts
    #[arg(long, value_name = "HASH", requires = "response")]
    pub(crate) request: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum PathCommand {
    /// Save a path: a name for a node, with the versions and edges that lead to it
    #[command(after_help = "\
If a node has several versions, requests use the latest. If several edges lead to a node, requests \
are rejected. A saved path overrides both: --choose takes a node for a version, and an edge or its \
source node for an edge.

Examples:
  contexture tree path save tides draft --head 81bb02
  contexture tree path save tides first-wording --head 81bb02 --choose 3f9a1c
  contexture assemble --tree tides --path first-wording")]
    Save {
        /// Id of the tree
        tree: String,
        /// Name of the path; an existing path of that name is replaced
        name: String,
        /// Node where the path ends
        #[arg(long, value_name = "NODE")]
        head: String,
        /// Version or edge to use; can be repeated
        #[arg(long, value_name = "NODE|EDGE")]
        choose: Vec<String>,
    },
    /// List the saved paths
    #[command(after_help = "\
Examples:
  contexture tree path list tides")]
    List {
        /// Id of the tree
        tree: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum AgentCommand {
    /// Create or change an agent; omitted settings keep their value
    #[command(after_help = "\
The requests of a loom-aware agent explain that it works in a tree. They contain a line about each \
node, the memory of the agent, and the positions of all agents. An empty value removes a setting.

Examples:
  contexture tree agent set tides ada --type model --model gpt-5.6 --prompt 'You explain with numbers.'
  contexture tree agent set tides ada --loom-aware --permission read --permission branch --at 3f9a1c
  contexture tree agent set tides ada --parameter temperature=0.7 --loom-aware=false")]
    Set(Box<AgentSetArgs>),
    /// List the agents
    #[command(after_help = "\
Examples:
  contexture tree agent list tides
  contexture tree agent list tides --json")]
    List {
        /// Id of the tree
        tree: String,
    },
}

#[derive(Args)]
pub(crate) struct AgentSetArgs {
    /// Id of the tree
    pub(crate) tree: String,
    /// Id of the agent
    pub(crate) id: String,
    /// Type of the agent; required for a new agent [default: unchanged]
    #[arg(long = "type", value_enum)]
    pub(crate) kind: Option<AuthorArg>,
    /// Display name
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// System prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    /// Read the system prompt from a file; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub(crate) prompt_file: Option<PathBuf>,
    /// Model of the agent [default: the model set in contexture.toml]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Sampling parameter of the model; can be repeated
    #[arg(long = "parameter", value_name = "KEY=VALUE", value_parser = parameter)]
    pub(crate) parameters: Vec<(String, Option<Value>)>,
    /// Permission; replaces all permissions the agent had; can be repeated [default: unchanged]
    #[arg(long = "permission", value_name = "NAME")]
    pub(crate) permissions: Vec<String>,
    /// Whether its requests explain the tree [default: false; without a value: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub(crate) loom_aware: Option<bool>,
    /// Node where the agent is
    #[arg(long, value_name = "NODE")]
    pub(crate) at: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum TreeMemoryCommand {
    /// Show the memory of an agent
    #[command(after_help = "\
Examples:
  contexture tree memory show tides ada")]
    Show(AgentName),
    /// Pin a node or a text to every request of the agent
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
    /// Unpin a node or a text
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
    /// Save a text under a name, to be recalled later
    #[command(after_help = "\
Examples:
  contexture tree memory stash tides ada outline 'First the moon, then the sea floor.'
  contexture tree memory stash tides ada outline --file outline.md")]
    Stash {
        #[command(flatten)]
        of: AgentName,
        /// Name of the stash; an existing stash of that name is replaced
        name: String,
        /// Text of the stash; - reads standard input
        #[arg(required_unless_present = "file")]
        text: Option<String>,
        /// Read the text from a file; - reads standard input
        #[arg(long, value_name = "FILE", conflicts_with = "text")]
        file: Option<PathBuf>,
    },
    /// Include a stash in every request
    #[command(after_help = "\
Examples:
  contexture tree memory recall tides ada outline")]
    Recall {
        #[command(flatten)]
        of: AgentName,
        /// Name of the stash
        name: String,
    },
    /// Stop including a stash in requests, without deleting it
    #[command(after_help = "\
Examples:
  contexture tree memory put-away tides ada outline")]
    PutAway {
        #[command(flatten)]
        of: AgentName,
        /// Name of the stash
        name: String,
    },
    /// Delete a stash
    #[command(after_help = "\
Examples:
  contexture tree memory discard tides ada outline")]
    Discard {
        #[command(flatten)]
        of: AgentName,
        /// Name of the stash
        name: String,
    },
    /// Record an action of the agent
    #[command(after_help = "\
Examples:
  contexture tree memory act tides ada 'went back to 3f9a'")]
    Act {
        #[command(flatten)]
        of: AgentName,
        /// Description of the action
        action: String,
    },
}

#[derive(Args)]
pub(crate) struct AgentName {
    /// Id of the tree
    pub(crate) tree: String,
    /// Id of the agent
    pub(crate) agent: String,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Pinned {
    /// Id or short id of the node
    pub(crate) node: Option<String>,
    /// Text instead of a node
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
            "unknown preference `{other}`; expected truncation_strategy, minimum_recent_nodes or \
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
        // A value that is not JSON is text.
        value => Some(serde_json::from_str(value).unwrap_or_else(|_| value.into())),
    };
    Ok((key.trim().to_owned(), value))
}
