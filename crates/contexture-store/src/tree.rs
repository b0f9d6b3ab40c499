//! Looms: branching conversations, and documents written in branches.

mod change;
mod check;
mod grow;
mod memory;
mod merge;
mod steps;

use std::fmt;

use contexture_core::{Tokens, Usage};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::StoreError;
use crate::message::{Block, MessageContent};
use crate::time;

pub use change::{FlagChange, PreferencesChange, SettingsChange, TreeChange};
pub use check::local_id;
pub use grow::{Known, Surroundings, in_another_tree, no_node};
pub use memory::{Action, AgentMemory, MemoryChange, Pin, Stash};
pub use merge::Merged;

/// A tree with everything in it, as a file holds it.
// `TreeDocument::normalised` gives it the one form that a store gives back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a loom tree: an object with `tree`, `agents`, `nodes` and `edges`"
)]
pub struct TreeDocument {
    /// The tree itself.
    pub tree: Tree,
    /// Who writes in it.
    #[serde(default)]
    pub agents: Vec<Agent>,
    /// What was written.
    #[serde(default)]
    pub nodes: Vec<Node>,
    /// What follows from what.
    #[serde(default)]
    pub edges: Vec<Edge>,
    /// Paths that were saved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<SavedPath>,
    /// What agents keep in mind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<AgentMemory>,
}

/// A tree, without what is in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a tree: an object with `id` and `mode`"
)]
pub struct Tree {
    /// Names it.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub id: String,
    /// What its nodes are. Fixed when the tree is made.
    pub mode: TreeMode,
    /// What it is called.
    #[serde(default)]
    pub title: Option<String>,
    /// What every request from it begins with, behind the agent's own prompt.
    #[serde(default)]
    pub system_context: Option<String>,
    /// Whether a document has a system context at all.
    #[serde(default)]
    pub buffer_mode_system_context: bool,
    /// What it prefers otherwise than the application.
    #[serde(default)]
    pub preferences: Preferences,
    /// When it was made. Default: when it is stored.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub created_at: Option<Timestamp>,
}

/// What the nodes of a tree are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TreeMode {
    /// Messages of a conversation.
    Dialogue,
    /// Pieces of one text.
    Buffer,
}

impl TreeMode {
    /// Returns the mode's name.
    pub fn name(self) -> &'static str {
        match self {
            TreeMode::Dialogue => "dialogue",
            TreeMode::Buffer => "buffer",
        }
    }
}

/// What is done when a path does not fit. What is left out is for somebody
/// else to say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Preferences {
    /// What goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncation_strategy: Option<TruncationStrategy>,
    /// How many of the latest nodes come before everything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<contexture_core::schema::Number>")
    )]
    pub minimum_recent_nodes: Option<usize>,
    /// What is set aside for the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<contexture_core::schema::Number>")
    )]
    pub token_buffer: Option<Tokens>,
}

/// What goes when a path does not fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TruncationStrategy {
    /// The middle. A marker stands in its place.
    #[default]
    TruncateMiddle,
    /// The oldest.
    RollingWindow,
    /// Nothing: it is an error.
    StopAtLimit,
}

impl TruncationStrategy {
    /// Returns the strategy's name.
    pub fn name(self) -> &'static str {
        match self {
            TruncationStrategy::TruncateMiddle => "truncate_middle",
            TruncationStrategy::RollingWindow => "rolling_window",
            TruncationStrategy::StopAtLimit => "stop_at_limit",
        }
    }
}

/// Who writes in a tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "an agent: an object with `id` and `type`"
)]
#[cfg_attr(feature = "schema", schemars(rename = "TreeAgent"))]
pub struct Agent {
    /// Names it; unique in its tree.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub id: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: Author,
    /// What it is called.
    #[serde(default)]
    pub name: Option<String>,
    /// What every request for it begins with.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// The model that it is.
    #[serde(default)]
    pub model: Option<String>,
    /// How the model is to sample: `temperature`, `top_p` and the like.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Parameters"))]
    pub parameters: Map<String, Value>,
    /// What it may do in the tree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<String>,
    /// Whether it is told that it works in a tree, and where it is.
    #[serde(default)]
    pub loom_aware: bool,
    /// The node where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<String>,
}

/// Who wrote a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// A person.
    Human,
    /// A model.
    Model,
}

impl Author {
    /// Returns the author's name.
    pub fn name(self) -> &'static str {
        match self {
            Author::Human => "human",
            Author::Model => "model",
        }
    }
}

/// Something that was written. It never changes, but for its flags; an edit is
/// a node of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a node: an object with `id`, `author` and `content`"
)]
pub struct Node {
    /// Names it; unique among all trees.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub id: String,
    /// A short name, unique in its tree: the first characters of `id`. Given
    /// by the store, and written down only where it is longer than usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_id: Option<String>,
    /// Who wrote it.
    pub author: Author,
    /// Which agent, when that is known.
    #[serde(default)]
    pub author_agent_id: Option<String>,
    /// What it says: text, pictures, recordings, documents.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NodeContent"))]
    pub content: MessageContent,
    /// The node that this is another version of. Unless it has edges of its
    /// own, it stands where that one stands.
    #[serde(default)]
    pub edited_from: Option<String>,
    /// What may change. Default: for a node that is there, what it has; else
    /// no flag.
    #[serde(default)]
    pub metadata: Option<Flags>,
    /// When it was written. Default: when it is stored.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub created_at: Option<Timestamp>,
    /// What the provider answered, for what a model wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_response: Option<RawResponse>,
}

impl Node {
    /// Returns the beginning of the node's first text, [`PREVIEW_CHARS`] long
    /// at most; for one without text, what its first block is.
    pub fn preview(&self) -> String {
        let blocks = match &self.content {
            MessageContent::Text(text) => return text.chars().take(PREVIEW_CHARS).collect(),
            MessageContent::Blocks(blocks) => blocks,
        };
        let text = blocks.iter().find_map(|block| match block {
            Block::Text { text } => Some(text),
            _ => None,
        });
        let media_type = blocks.iter().find_map(|block| match block {
            Block::Image { media_type, .. }
            | Block::Audio { media_type, .. }
            | Block::Document { media_type, .. } => Some(media_type),
            _ => None,
        });
        let shown = text.or(media_type).map_or("", String::as_str);
        shown.chars().take(PREVIEW_CHARS).collect()
    }
}

impl Node {
    /// Returns what it is called: its short name, once it has one.
    pub fn name(&self) -> &str {
        self.local_id.as_deref().unwrap_or(&self.id)
    }

    /// Returns its flags.
    pub fn flags(&self) -> Flags {
        self.metadata.unwrap_or_default()
    }
}

/// What may change about a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", schemars(rename = "NodeFlags"))]
pub struct Flags {
    /// Left out of requests.
    pub excluded: bool,
    /// Taken away, but still there.
    pub pruned: bool,
    /// Marked by somebody.
    pub bookmarked: bool,
}

/// What a provider answered, with what it says that it cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RawResponse {
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whose API it was called through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// What it cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The snapshot of the request that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_hash: Option<String>,
    /// The whole answer, as it came.
    pub body: Value,
}

/// What follows from what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "an edge: an object with `id`, `type`, `sources` and `target_node_id`"
)]
pub struct Edge {
    /// Names it; unique in its tree.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub id: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: EdgeKind,
    /// What the target follows from. Several primary ones are versions of one
    /// place.
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::sources))]
    pub sources: Vec<EdgeSource>,
    /// What follows.
    pub target_node_id: String,
}

impl Edge {
    /// Returns the nodes that are sources in that role, in order.
    pub fn sources_as(&self, role: SourceRole) -> impl Iterator<Item = &str> {
        let of_role = self.sources.iter().filter(move |one| one.role == role);
        of_role.map(|source| source.node_id.as_str())
    }
}

/// What an edge is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EdgeKind {
    /// The target goes on where the source ends.
    Continuation,
    /// The target is a remark on the source.
    Annotation,
}

/// A source of an edge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a source: an object with `node_id` and `role`"
)]
pub struct EdgeSource {
    /// The node.
    pub node_id: String,
    /// What it is to the target. Default: primary.
    #[serde(default)]
    pub role: SourceRole,
}

/// What a source is to the target of its edge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SourceRole {
    /// A directive for this generation: goes into the system context.
    Instruction,
    /// Something to look at: stands right before the primary.
    Context,
    /// What the target goes on from.
    #[default]
    Primary,
}

/// A place in a tree that has a name, with the choices on the way to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a path: an object with `name` and `head`"
)]
pub struct SavedPath {
    /// Its name; unique in its tree.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub name: String,
    /// Where it ends.
    pub head: String,
    /// Where there are several versions or several ways, the node or the edge
    /// that is taken.
    #[serde(default)]
    pub choices: Vec<String>,
}

/// What a store knows of a tree without looking into it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeInfo {
    /// The tree. `created_at` is set.
    pub tree: Tree,
    /// The node that everything begins with; null while there is none.
    pub root: Option<String>,
    /// How many nodes it has.
    pub nodes: u64,
    /// How many edges.
    pub edges: u64,
    /// How many edges have instruction sources.
    #[serde(skip)]
    pub instructions: u64,
    /// Who writes in it, by id.
    pub agents: Vec<Agent>,
    /// The paths that were saved, by name.
    pub paths: Vec<SavedPath>,
    /// Changes when a path that somebody walked may no longer be what it was:
    /// with flags, edits, and edges to nodes that were there before. Growth
    /// leaves it as it is.
    #[serde(skip)]
    pub epoch: u64,
}

/// A node without what it says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeHead {
    /// Its id.
    pub id: String,
    /// Its short name.
    pub local_id: String,
    /// Who wrote it.
    pub author: Author,
    /// Which agent.
    pub author_agent_id: Option<String>,
    /// The node that it is another version of.
    pub edited_from: Option<String>,
    /// What may change.
    pub flags: Flags,
    /// When it was written.
    pub created_at: Timestamp,
    /// How many bytes it holds.
    pub bytes: u64,
    /// How it is reached.
    #[serde(skip)]
    pub step: Step,
}

impl NodeHead {
    /// Returns the node, with what it says.
    pub fn with(self, content: MessageContent, raw_response: Option<RawResponse>) -> Node {
        Node {
            id: self.id,
            local_id: Some(self.local_id),
            author: self.author,
            author_agent_id: self.author_agent_id,
            content,
            edited_from: self.edited_from,
            metadata: Some(self.flags),
            created_at: Some(self.created_at),
            raw_response,
        }
    }
}

/// How a node is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing leads there: it is the root, or material for others.
    Nothing,
    /// By one continuation edge with one source, which has no other versions.
    Plain {
        /// The node before.
        parent: String,
    },
    /// In a way that has to be [looked at](Trees::arrivals).
    Look,
}

/// An edge that leads to a place, with all that could stand before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// The edge.
    pub edge: Edge,
    /// Its primary sources, each followed by the edits that stand in its place
    /// (edits of edits included, by time and id): those without edges of their
    /// own that lead to them. Each node once: an edit that is a primary source
    /// too has its place among those.
    pub versions: Vec<NodeHead>,
}

/// How many edges begin at a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Connections {
    /// Continuation edges that it is a primary source of.
    pub continuations: u64,
    /// Annotation edges that it is a primary source of.
    pub annotations: u64,
    /// Edges that it is another source of.
    pub links: u64,
}

/// The shape of a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Skeleton {
    /// Its nodes, by time and id, with the beginning of their text.
    pub nodes: Vec<(NodeHead, String)>,
    /// Its edges, by id.
    pub edges: Vec<Edge>,
}

/// A node with what it counts.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedNode {
    /// The node. `local_id` and `created_at` are set; the raw response is left
    /// out.
    pub node: Node,
    /// The tokens of each of its blocks, when they are known.
    pub tokens: Option<Vec<Tokens>>,
}

/// Nodes and edges to be added to a tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Growth {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The edges.
    pub edges: Vec<Edge>,
}

/// What importing a document did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "TreeImported"))]
pub struct Imported {
    /// Whether the tree is new.
    pub created: bool,
    /// How many nodes were added.
    pub nodes: u64,
    /// How many edges.
    pub edges: u64,
    /// How many nodes were there and got other flags.
    pub reflagged: u64,
    /// Whether settings, agents, paths or memories became others.
    pub changed: bool,
}

/// How many characters of a node's id are its short name, unless that is taken.
pub const LOCAL_ID_CHARS: usize = 6;

/// How much of a node's text a [skeleton](Skeleton) shows, in characters.
pub const PREVIEW_CHARS: usize = 120;

/// What a store does for looms.
///
/// Every method is one transaction. What a writing method acknowledges
/// survives a power cut; what it refuses leaves no trace. Nodes and edges
/// never change and are never removed; what changes are a node's flags.
/// Times are kept to the millisecond.
///
/// Methods that take a tree's id fail when there is none of that name. Nodes
/// are named by their whole id, except in [`find_node`](Trees::find_node).
pub trait Trees: Send + Sync {
    /// Brings in a document. A tree that is not there is made. To one that is,
    /// what is new in the document is added; its settings, agents, paths,
    /// memories and flags become what the document says, where it says it; and what the document
    /// does not have stays.
    ///
    /// Fails when the document [makes no sense](TreeDocument::check) together
    /// with what is there; when a node is in another tree; when a node or an
    /// edge is there and says something else; and when the mode differs.
    fn import_tree(&self, document: &TreeDocument, now: Timestamp) -> Result<Imported, StoreError>;

    /// Returns everything in a tree, [normalised](TreeDocument::normalised).
    fn export_tree(&self, tree: &str) -> Result<TreeDocument, StoreError>;

    /// Returns a tree without its nodes and edges.
    fn tree(&self, tree: &str) -> Result<TreeInfo, StoreError>;

    /// Returns at most `limit` trees whose ids come behind `after`, in
    /// alphabetical order.
    fn trees(&self, after: Option<&str>, limit: usize) -> Result<Vec<TreeInfo>, StoreError>;

    /// Adds nodes and edges, all or none, and returns the heads of the nodes
    /// in the order given. An agent that wrote a node is there from then on,
    /// unless it is an edit, a remark or material.
    ///
    /// Each new node must be the root of an empty tree, the target of a new
    /// edge, an edit, or a context or instruction source of a new edge.
    fn grow(
        &self,
        tree: &str,
        growth: &Growth,
        now: Timestamp,
    ) -> Result<Vec<NodeHead>, StoreError>;

    /// Changes a tree. What a change does not name stays as it is, also when
    /// several writers change one tree, or one node, at the same time.
    fn change_tree(
        &self,
        tree: &str,
        change: &TreeChange,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Returns the node with that id or short name, or the only one whose id
    /// begins so (four characters or more).
    fn find_node(&self, tree: &str, name: &str) -> Result<NodeHead, StoreError>;

    /// Walks from a node towards the root by [plain](Step::Plain) steps, at
    /// most `limit` nodes with the first, and ends with the node whose step is
    /// another. The cost follows what is returned.
    fn climb(&self, tree: &str, from: &str, limit: usize) -> Result<Vec<NodeHead>, StoreError>;

    /// Returns the edges that lead to a node, by id; for an edit that has none,
    /// those that lead to what it was edited from.
    fn arrivals(&self, tree: &str, node: &str) -> Result<Vec<Arrival>, StoreError>;

    /// Returns a node, followed by the edits that stand in its place, edits of
    /// edits included.
    fn versions(&self, tree: &str, node: &str) -> Result<Vec<NodeHead>, StoreError>;

    /// Returns nodes with what they say, in the order asked for, and the counts
    /// made with `counter`.
    fn nodes(
        &self,
        tree: &str,
        ids: &[&str],
        counter: &str,
    ) -> Result<Vec<CountedNode>, StoreError>;

    /// Keeps the tokens of the blocks of nodes. Counts that are there stay as
    /// they are.
    fn put_node_counts(
        &self,
        tree: &str,
        counter: &str,
        counts: &[(&str, Vec<Tokens>)],
    ) -> Result<(), StoreError>;

    /// Returns how many edges begin at each of the nodes, in the order asked
    /// for.
    fn connections(&self, tree: &str, ids: &[&str]) -> Result<Vec<Connections>, StoreError>;

    /// Returns the remarks on each of the nodes: the targets of annotation edges
    /// that it is a primary source of, each with the node's own id before it, in
    /// the order of the nodes asked for, then by the remarks' time and id.
    fn annotations(&self, tree: &str, ids: &[&str]) -> Result<Vec<(String, NodeHead)>, StoreError>;

    /// Returns the shape of a tree.
    fn skeleton(&self, tree: &str) -> Result<Skeleton, StoreError>;

    /// Returns what a provider answered when a node was written, if that is
    /// known.
    fn raw_response(&self, tree: &str, node: &str) -> Result<Option<RawResponse>, StoreError>;

    /// Returns what an agent keeps in mind.
    fn agent_memory(&self, tree: &str, agent: &str) -> Result<AgentMemory, StoreError>;
}

impl fmt::Display for TreeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
