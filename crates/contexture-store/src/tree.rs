//! Loom trees: conversations and documents with branches.
//!
//! A tree has nodes and edges. A *continuation* edge leads from a node to the
//! node that follows it; an *annotation* edge leads to a comment. An edit is a
//! new node that takes the position of the original. Nodes and edges never
//! change, except for the flags of a node.

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
use crate::time;
use contexture_core::message::{Block, MessageContent};

pub use change::{FlagChange, PreferencesChange, SettingsChange, TreeChange};
pub use check::local_id;
pub use grow::{KnownNode, Surroundings, in_another_tree, no_node};
pub use memory::{Action, AgentMemory, MemoryChange, Pin, Stash};
pub use merge::Merged;

/// A whole tree, as it is exported and imported.
// `TreeDocument::normalised` converts it to the one form that a store returns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a loom tree: an object with `tree`, `agents`, `nodes` and `edges`"
)]
pub struct TreeDocument {
    /// The tree and its settings.
    pub tree: Tree,
    /// The agents that write in the tree. Default: none.
    #[serde(default)]
    pub agents: Vec<Agent>,
    /// The nodes. Default: none.
    #[serde(default)]
    pub nodes: Vec<Node>,
    /// The edges between nodes. Default: none.
    #[serde(default)]
    pub edges: Vec<Edge>,
    /// The saved paths. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<SavedPath>,
    /// The memories of agents. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<AgentMemory>,
}

/// The settings of a tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a tree: an object with `id` and `mode`"
)]
pub struct Tree {
    /// The tree's unique id.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub id: String,
    /// The kind of content of the nodes. It cannot be changed later.
    pub mode: TreeMode,
    /// The title of the tree.
    #[serde(default)]
    pub title: Option<String>,
    /// Text at the start of every request from the tree, after the agent's own
    /// system prompt.
    #[serde(default)]
    pub system_context: Option<String>,
    /// Whether requests from a tree of mode `buffer` include the system
    /// context. Default: false.
    #[serde(default)]
    pub buffer_mode_system_context: bool,
    /// Settings for paths that exceed the budget. They override the
    /// application's settings.
    #[serde(default)]
    pub preferences: Preferences,
    /// The time when the tree was created: RFC 3339 or Unix milliseconds.
    /// Default: the time when it is stored.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub created_at: Option<Timestamp>,
}

/// The kind of content of a tree's nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TreeMode {
    /// Messages of a conversation.
    Dialogue,
    /// Parts of one text.
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

/// Settings for paths that exceed the budget. Fields that are omitted use the
/// application's setting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Preferences {
    /// The part of the path that is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncation_strategy: Option<TruncationStrategy>,
    /// The number of latest nodes that are kept before all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<contexture_core::schema::Number>")
    )]
    pub minimum_recent_nodes: Option<usize>,
    /// The number of tokens reserved for the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<contexture_core::schema::Number>")
    )]
    pub token_buffer: Option<Tokens>,
}

/// The part of a path that is dropped when the path exceeds the budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TruncationStrategy {
    /// The middle is dropped. A marker shows where.
    #[default]
    TruncateMiddle,
    /// The oldest nodes are dropped.
    RollingWindow,
    /// Nothing is dropped. The call fails instead.
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

/// An agent: a person or a model that writes in a tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "an agent: an object with `id` and `type`"
)]
#[cfg_attr(feature = "schema", schemars(rename = "TreeAgent"))]
pub struct Agent {
    /// The agent's id, unique in the tree.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub id: String,
    /// Whether the agent is a person or a model.
    #[serde(rename = "type")]
    pub kind: Author,
    /// The display name.
    #[serde(default)]
    pub name: Option<String>,
    /// Text at the start of every request for the agent.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// The model that the agent uses.
    #[serde(default)]
    pub model: Option<String>,
    /// The sampling parameters of the model, such as `temperature` and `top_p`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Parameters"))]
    pub parameters: Map<String, Value>,
    /// The agent's permissions in the tree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<String>,
    /// Whether requests tell the agent that it works in a tree, and at which
    /// node. Default: false.
    #[serde(default)]
    pub loom_aware: bool,
    /// The id of the node at which the agent works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<String>,
}

/// The kind of author.
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

/// A node of a tree. Only its flags can change; an edit creates a new node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a node: an object with `id`, `author` and `content`"
)]
pub struct Node {
    /// The node's id, unique across all trees.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub id: String,
    /// A short name, unique in the tree: the first characters of `id`. The
    /// store assigns it. Exports contain it only if it is longer than usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_id: Option<String>,
    /// Whether a person or a model wrote the node.
    pub author: Author,
    /// The id of the agent that wrote the node.
    #[serde(default)]
    pub author_agent_id: Option<String>,
    /// The content: text, or blocks of type `text`, `image`, `audio` or
    /// `document`.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NodeContent"))]
    pub content: MessageContent,
    /// The id of the node that this node is a new version of. Without edges of
    /// its own, the node takes the position of the original.
    #[serde(default)]
    pub edited_from: Option<String>,
    /// The flags of the node. Default: the flags of the existing node, or all
    /// false for a new node.
    #[serde(default)]
    pub metadata: Option<Flags>,
    /// The time when the node was written: RFC 3339 or Unix milliseconds.
    /// Default: the time when it is stored.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub created_at: Option<Timestamp>,
    /// The provider's response, if a model wrote the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_response: Option<RawResponse>,
}

impl Node {
    /// Returns the beginning of the node's first text, at most
    /// [`PREVIEW_CHARS`] characters. For a node without text, returns the kind
    /// of its first block.
    pub fn preview(&self) -> String {
        let blocks = match &self.content {
            MessageContent::Text(text) => return text.chars().take(PREVIEW_CHARS).collect(),
            MessageContent::Blocks(blocks) => blocks,
        };
        let text = blocks.iter().find_map(|block| match block {
            Block::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let media_type = blocks.iter().find_map(|block| match block {
            Block::Image { media_type, .. }
            | Block::Audio { media_type, .. }
            | Block::Document { media_type, .. } => Some(media_type.as_str()),
            _ => None,
        });
        let shown = text.or(media_type).unwrap_or_default();
        shown.chars().take(PREVIEW_CHARS).collect()
    }
}

impl Node {
    /// Returns the display name of the node: its short name, or its id if it
    /// has none.
    pub fn name(&self) -> &str {
        self.local_id.as_deref().unwrap_or(&self.id)
    }

    /// Returns the flags of the node; all false if it has none.
    pub fn flags(&self) -> Flags {
        self.metadata.unwrap_or_default()
    }
}

/// The flags of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", schemars(rename = "NodeFlags"))]
pub struct Flags {
    /// Whether requests omit the node. Default: false.
    pub excluded: bool,
    /// Whether the node is hidden as deleted. The store still holds it.
    /// Default: false.
    pub pruned: bool,
    /// Whether the node is bookmarked. Default: false.
    pub bookmarked: bool,
}

/// A provider's response and the usage that it reported.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RawResponse {
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider whose API was called, such as `anthropic`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The token usage that the provider reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The hash of the snapshot of the request that was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_hash: Option<String>,
    /// The response as it was received.
    pub body: Value,
}

/// An edge from source nodes to a target node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "an edge: an object with `id`, `type`, `sources` and `target_node_id`"
)]
pub struct Edge {
    /// The edge's id, unique in the tree.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub id: String,
    /// The kind of edge.
    #[serde(rename = "type")]
    pub kind: EdgeKind,
    /// The source nodes. Several primary sources are versions of one node.
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::sources))]
    pub sources: Vec<EdgeSource>,
    /// The id of the target node.
    pub target_node_id: String,
}

impl Edge {
    /// Returns the nodes that are sources in that role, in order.
    pub fn sources_as(&self, role: SourceRole) -> impl Iterator<Item = &str> {
        let of_role = self.sources.iter().filter(move |one| one.role == role);
        of_role.map(|source| source.node_id.as_str())
    }
}

/// The kind of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EdgeKind {
    /// The target continues the source.
    Continuation,
    /// The target is an annotation of the source.
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
    /// The id of the source node.
    pub node_id: String,
    /// The role of the source. Default: `primary`.
    #[serde(default)]
    pub role: SourceRole,
}

/// The role of an edge's source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SourceRole {
    /// An instruction for the target. It is added to the system context.
    Instruction,
    /// Reference text for the target. It is placed directly before the primary
    /// source.
    Context,
    /// The node that the target continues.
    #[default]
    Primary,
}

/// A saved path: a name for a node and for the branches that lead to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a path: an object with `name` and `head`"
)]
pub struct SavedPath {
    /// The name of the path, unique in the tree.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub name: String,
    /// The id of the node at the end of the path.
    pub head: String,
    /// The ids of nodes or edges to follow where the path has several versions
    /// or several incoming edges. Default: the newest version.
    #[serde(default)]
    pub choices: Vec<String>,
}

/// A tree without its nodes and edges.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeInfo {
    /// The settings of the tree. `created_at` is always set.
    pub tree: Tree,
    /// The id of the root node. Null while the tree is empty.
    pub root: Option<String>,
    /// The number of nodes.
    pub nodes: u64,
    /// The number of edges.
    pub edges: u64,
    /// The number of edges with instruction sources.
    #[serde(skip)]
    pub instructions: u64,
    /// The agents, by id.
    pub agents: Vec<Agent>,
    /// The saved paths, by name.
    pub paths: Vec<SavedPath>,
    /// A number that changes when a path that a caller has walked may be stale:
    /// after changes of flags, edits, and new edges to existing nodes. New
    /// nodes do not change it.
    #[serde(skip)]
    pub epoch: u64,
}

/// A node without its content.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "NodeSummary"))]
pub struct NodeHead {
    /// The node's id.
    pub id: String,
    /// The node's short name.
    pub local_id: String,
    /// Whether a person or a model wrote the node.
    pub author: Author,
    /// The id of the agent that wrote the node.
    pub author_agent_id: Option<String>,
    /// The id of the node that this node is a new version of.
    pub edited_from: Option<String>,
    /// The flags of the node.
    pub flags: Flags,
    /// The time when the node was written.
    pub created_at: Timestamp,
    /// The size of the content in bytes.
    pub bytes: u64,
    /// The step to the node from its parent.
    #[serde(skip)]
    pub step: Step,
}

impl NodeHead {
    /// Returns the node with the given content.
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

/// The step to a node from its parent on a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// No edge leads to the node: it is the root, or only a context or
    /// instruction source.
    Nothing,
    /// One continuation edge leads to the node, from one source without other
    /// versions.
    Plain {
        /// The id of the parent.
        parent: String,
    },
    /// Several edges or versions lead to the node: read its
    /// [arrivals](Trees::arrivals).
    Look,
}

/// An incoming edge of a node, with every node that can precede the target on a
/// path.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// The incoming edge.
    pub edge: Edge,
    /// The primary sources of the edge, each followed by its edits (including
    /// edits of edits, by time and id) that have no incoming edges of their
    /// own. Each node appears once: an edit that is itself a primary source
    /// appears among the primary sources.
    pub versions: Vec<NodeHead>,
}

/// The number of edges that start at a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Connections {
    /// Continuation edges of which the node is a primary source.
    pub continuations: u64,
    /// Annotation edges of which the node is a primary source.
    pub annotations: u64,
    /// Edges of which the node is a context or instruction source.
    pub links: u64,
}

/// The nodes and edges of a tree, without the whole content.
#[derive(Debug, Clone, PartialEq)]
pub struct Skeleton {
    /// The nodes by time and id, each with the first [`PREVIEW_CHARS`]
    /// characters of its text.
    pub nodes: Vec<(NodeHead, String)>,
    /// The edges by id.
    pub edges: Vec<Edge>,
}

/// A node with its token counts.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedNode {
    /// The node. `local_id` and `created_at` are set; the raw response is
    /// omitted.
    pub node: Node,
    /// The number of tokens of each block, if all blocks were counted.
    pub tokens: Option<Vec<Tokens>>,
}

/// Nodes and edges to add to a tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Growth {
    /// The new nodes.
    pub nodes: Vec<Node>,
    /// The new edges.
    pub edges: Vec<Edge>,
}

/// The result of importing a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "TreeImported"))]
pub struct Imported {
    /// Whether the import created the tree.
    pub created: bool,
    /// The number of nodes that were added.
    pub nodes: u64,
    /// The number of edges that were added.
    pub edges: u64,
    /// The number of existing nodes whose flags changed.
    pub reflagged: u64,
    /// Whether settings, agents, paths or memories changed.
    pub changed: bool,
}

/// The usual length of a node's short name, in characters. A short name is
/// longer if its beginning is already in use.
pub const LOCAL_ID_CHARS: usize = 6;

/// The number of characters of a node's text that a [skeleton](Skeleton) shows.
pub const PREVIEW_CHARS: usize = 120;

/// Stores loom trees.
///
/// Every method is one transaction. A write that returns `Ok` survives a power
/// failure; a write that fails changes nothing. Nodes and edges are never
/// deleted and never change, except for a node's flags. Times are stored in
/// milliseconds.
///
/// Methods with a tree's id fail if the tree does not exist. Nodes are given by
/// their whole id, except in [`find_node`](Trees::find_node).
pub trait Trees: Send + Sync {
    /// Imports a document and creates the tree if it does not exist. New nodes
    /// and edges are added. Settings, agents, paths, memories and flags in the
    /// document replace the stored ones; everything else is kept.
    ///
    /// Fails if the document is [invalid](TreeDocument::check) together with the
    /// stored tree; if a node is in another tree; if a node or an edge exists
    /// with different content; and if the mode differs.
    fn import_tree(&self, document: &TreeDocument, now: Timestamp) -> Result<Imported, StoreError>;

    /// Returns the whole tree, [normalised](TreeDocument::normalised).
    fn export_tree(&self, tree: &str) -> Result<TreeDocument, StoreError>;

    /// Returns a tree without its nodes and edges.
    fn tree(&self, tree: &str) -> Result<TreeInfo, StoreError>;

    /// Returns at most `limit` trees with ids after `after`, in alphabetical
    /// order.
    fn trees(&self, after: Option<&str>, limit: usize) -> Result<Vec<TreeInfo>, StoreError>;

    /// Adds nodes and edges, all or none, and returns the heads of the nodes
    /// in the order given. The position of an agent that wrote a node moves to
    /// that node, unless the node is an edit, an annotation or only a context or
    /// instruction source.
    ///
    /// Each new node must be the root of an empty tree, the target of a new
    /// edge, an edit, or a context or instruction source of a new edge.
    fn grow(
        &self,
        tree: &str,
        growth: &Growth,
        now: Timestamp,
    ) -> Result<Vec<NodeHead>, StoreError>;

    /// Changes a tree. Fields that the change omits are not changed, even if
    /// several writers change one tree or one node at the same time.
    fn change_tree(
        &self,
        tree: &str,
        change: &TreeChange,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Returns the node with that id or short name, or the only node whose id
    /// starts with the name (four characters or more).
    fn find_node(&self, tree: &str, name: &str) -> Result<NodeHead, StoreError>;

    /// Walks from a node towards the root by [plain](Step::Plain) steps and
    /// returns at most `limit` nodes, including the first. The last node is the
    /// one whose step is not plain. The cost depends on the number of nodes that
    /// are returned.
    fn climb(&self, tree: &str, from: &str, limit: usize) -> Result<Vec<NodeHead>, StoreError>;

    /// Returns the incoming edges of a node, by id. An edit without incoming
    /// edges has those of the node that it was edited from.
    fn arrivals(&self, tree: &str, node: &str) -> Result<Vec<Arrival>, StoreError>;

    /// Returns a node, followed by its edits, including edits of edits, that have
    /// no incoming edges of their own.
    fn versions(&self, tree: &str, node: &str) -> Result<Vec<NodeHead>, StoreError>;

    /// Returns nodes with their content, in the order of `ids`, and the counts
    /// made with `counter`.
    fn nodes(
        &self,
        tree: &str,
        ids: &[&str],
        counter: &str,
    ) -> Result<Vec<CountedNode>, StoreError>;

    /// Stores the token counts of the blocks of nodes. Existing counts are not
    /// changed.
    fn put_node_counts(
        &self,
        tree: &str,
        counter: &str,
        counts: &[(&str, Vec<Tokens>)],
    ) -> Result<(), StoreError>;

    /// Returns the number of edges that start at each of the nodes, in the order
    /// of `ids`.
    fn connections(&self, tree: &str, ids: &[&str]) -> Result<Vec<Connections>, StoreError>;

    /// Returns the annotations of the nodes: pairs of a node's id and the target
    /// of an annotation edge of which the node is a primary source. They are
    /// sorted by the order of `ids`, then by the annotations' time and id.
    fn annotations(&self, tree: &str, ids: &[&str]) -> Result<Vec<(String, NodeHead)>, StoreError>;

    /// Returns the nodes and edges of a tree, without the whole content.
    fn skeleton(&self, tree: &str) -> Result<Skeleton, StoreError>;

    /// Returns the provider's response for a node, if one is stored.
    fn raw_response(&self, tree: &str, node: &str) -> Result<Option<RawResponse>, StoreError>;

    /// Returns the memory of an agent.
    fn agent_memory(&self, tree: &str, agent: &str) -> Result<AgentMemory, StoreError>;
}

impl fmt::Display for TreeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
