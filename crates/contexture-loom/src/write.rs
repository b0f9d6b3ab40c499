//! [`Looms`]: imports trees, and adds, edits and flags nodes.
//!
//! Nodes are named by id, by short name, or by the first four or more
//! characters of an id. Every method is one transaction of the store. An edit
//! adds a node; no node is overwritten.

use contexture_providers::usage_of;
use contexture_store::{
    Author, Edge, EdgeKind, EdgeSource, FlagChange, Flags, Growth, Imported, MessageContent, Node,
    NodeHead, RawResponse, SavedPath, SourceRole, StoreError, TreeChange, TreeDocument, Trees,
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use contexture_engine::{Advice, Engine, Error, snapshot};

use crate::turn::json_with_path;

/// A node to add to a tree.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a node: an object with `author`, `content` and `after`"
)]
pub struct NewNode {
    /// The node's id. Default: made from the content and the position.
    #[serde(default)]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<contexture_store::schema::Label>")
    )]
    pub id: Option<String>,
    /// Whether a person or a model wrote the node.
    pub author: Author,
    /// The id of the agent that wrote the node.
    #[serde(default)]
    pub agent: Option<String>,
    /// The content: text, or blocks of type `text`, `image`, `audio` or
    /// `document`.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "contexture_store::schema::NodeContent")
    )]
    pub content: MessageContent,
    /// The parents of the node, by id or short name. Empty for the root;
    /// several parents are versions of one node.
    #[serde(default)]
    pub after: Vec<String>,
    /// The kind of edge from the parents. Default: `continuation`.
    #[serde(default = "continuation")]
    pub kind: EdgeKind,
    /// Context and instruction sources of the node. Default: none.
    #[serde(default, deserialize_with = "material")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<MaterialForm>"))]
    pub material: Vec<(SourceRole, Material)>,
    /// The provider's response, if a model wrote the node.
    #[serde(default)]
    pub raw_response: Option<RawResponse>,
}

/// The content of a new node, besides its predecessor.
#[derive(Debug, Clone, PartialEq)]
pub enum Material {
    /// A node that is there.
    Node(String),
    /// Something new, which becomes a node.
    New(MessageContent),
}

fn continuation() -> EdgeKind {
    EdgeKind::Continuation
}

/// A context or instruction source of a new node: an existing node, or new
/// content that becomes a node.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(rename = "NodeSource", transform = crate::schema::material)
)]
#[serde(
    deny_unknown_fields,
    expecting = "a source: an object with `role`, and `node_id` or `content`"
)]
struct MaterialForm {
    /// The role of the source.
    role: SourceRole,
    /// The existing node, by id or short name.
    #[serde(default)]
    node_id: Option<String>,
    /// The new content.
    #[serde(default)]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<contexture_store::schema::NodeContent>")
    )]
    content: Option<MessageContent>,
}

fn material<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(SourceRole, Material)>, D::Error> {
    let forms = Vec::<MaterialForm>::deserialize(deserializer)?;
    let read = |form: MaterialForm| match (form.node_id, form.content) {
        (Some(node), None) => Ok((form.role, Material::Node(node))),
        (None, Some(content)) => Ok((form.role, Material::New(content))),
        _ => Err(serde::de::Error::custom(
            "a source needs either `node_id` or `content`",
        )),
    };
    forms.into_iter().map(read).collect()
}

impl NewNode {
    /// Returns a text that continues from `after`, or the root of a tree.
    pub fn text(author: Author, text: impl Into<String>, after: Option<&str>) -> Self {
        Self {
            id: None,
            author,
            agent: None,
            content: MessageContent::Text(text.into()),
            after: after.map(str::to_owned).into_iter().collect(),
            kind: EdgeKind::Continuation,
            material: Vec::new(),
            raw_response: None,
        }
    }
}

/// A new version of a node.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "an edit: an object with `content`")]
pub struct NodeEdit {
    /// The id of the new version. Default: made from the content and the
    /// position.
    #[serde(default)]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<contexture_store::schema::Label>")
    )]
    pub id: Option<String>,
    /// Whether a person or a model wrote the version. Default: the author of
    /// the edited node.
    #[serde(default)]
    pub author: Option<Author>,
    /// The id of the agent that wrote the version.
    #[serde(default)]
    pub agent: Option<String>,
    /// The content: text, or blocks of type `text`, `image`, `audio` or
    /// `document`.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "contexture_store::schema::NodeContent")
    )]
    pub content: MessageContent,
}

/// Reads a tree from JSON. Error messages refer to the input by `name`, with
/// the line and the field.
pub fn tree_from_json(name: &str, text: &str) -> Result<TreeDocument, Error> {
    json_with_path(name, text).map_err(|error| {
        error.advise(
            "write a tree as \
             `{\"tree\":{\"id\":\"t1\",\"mode\":\"dialogue\"},\"agents\":[],\"nodes\":[…],\"edges\":[…]}`",
        )
    })
}

/// Returns a provider's answer with the usage that it reports. `request` is the
/// snapshot of the request, if known.
pub fn raw_response(body: Value, request: Option<String>) -> RawResponse {
    let named = || body.get("model")?.as_str().map(str::to_owned);
    RawResponse {
        model: named(),
        provider: None,
        usage: usage_of(&body),
        request_hash: request,
        body,
    }
}

/// The most bytes of the title of a tree.
pub const MAX_TITLE_BYTES: usize = 4096;

/// Fails if the title of a tree is too long. `at` is its field.
pub fn check_title(title: Option<&str>, at: &str) -> Result<(), Error> {
    let bytes = title.map_or(0, str::len);
    match bytes <= MAX_TITLE_BYTES {
        true => Ok(()),
        false => {
            let message = format!("is {bytes} bytes; the limit is {MAX_TITLE_BYTES}");
            Err(Error::input(message).at(at))
        }
    }
}

/// The trees of an engine.
#[derive(Clone, Copy)]
pub struct Looms<'e> {
    pub(crate) engine: &'e Engine,
}

impl<'e> Looms<'e> {
    /// Returns the trees of an engine.
    pub fn new(engine: &'e Engine) -> Self {
        Self { engine }
    }

    /// Imports a tree.
    pub fn import_tree(
        &self,
        document: &TreeDocument,
        now: Option<Timestamp>,
    ) -> Result<Imported, Error> {
        check_title(document.tree.title.as_deref(), "tree.title")?;
        let most = self.engine.config().limits.max_message_bytes;
        for (i, node) in document.nodes.iter().enumerate() {
            node.check_size(&format!("nodes[{i}]"), most)?;
        }
        for agent in &document.agents {
            super::check_agent(agent)?;
        }
        let now = now.unwrap_or_else(Timestamp::now);
        Ok(self.engine.trees()?.import_tree(document, now)?)
    }

    /// Adds a node to a tree.
    pub fn add_node(
        &self,
        tree: &str,
        new: &NewNode,
        now: Option<Timestamp>,
    ) -> Result<NodeHead, Error> {
        let store = self.engine.trees()?;
        let info = store.tree(tree)?;
        let now = now.unwrap_or_else(Timestamp::now);
        let mut ids = Ids::new(&info.tree.id, info.nodes, now);
        let mut growth = Growth::default();
        let mut sources = Vec::new();
        for name in &new.after {
            sources.push(EdgeSource {
                node_id: store.find_node(tree, name)?.id,
                role: SourceRole::Primary,
            });
        }
        for (role, material) in &new.material {
            let node_id = match material {
                Material::Node(name) => store.find_node(tree, name)?.id,
                Material::New(content) => {
                    let node = node(ids.next(content), Author::Human, content.clone(), now);
                    growth.nodes.push(node);
                    growth.nodes[growth.nodes.len() - 1].id.clone()
                }
            };
            sources.push(EdgeSource {
                node_id,
                role: *role,
            });
        }
        let id = match &new.id {
            Some(id) => free_id(store, tree, id)?,
            None => ids.next(&new.content),
        };
        if sources.is_empty() && info.root.is_some() {
            return Err(Error::input(format!(
                "tree `{tree}` already has a root, so a new node needs a parent"
            ))
            .advise(Advice::set("after")));
        }
        if !sources.is_empty() {
            growth.edges.push(Edge {
                id: format!("to-{id}"),
                kind: new.kind,
                sources,
                target_node_id: id.clone(),
            });
        }
        let mut added = node(id.clone(), new.author, new.content.clone(), now);
        added.author_agent_id = new.agent.clone();
        added.raw_response = new.raw_response.clone();
        let mut answered = None;
        if let Some(response) = &mut added.raw_response
            && let Some(hash) = &response.request_hash
        {
            let snapshot = snapshot::find(self.engine.snapshots()?, hash)?;
            response.request_hash = Some(snapshot.hash.to_string());
            answered = response.usage.map(|usage| (snapshot, usage));
        }
        growth.nodes.push(added);
        let added = self.grow(tree, &growth, &id, now)?;
        if let Some((snapshot, usage)) = answered
            && let Some(new) = self.engine.sample(&snapshot, None, &usage)
        {
            // The node is saved even if this fails.
            let samples = self.engine.samples()?;
            let _ = samples.put_sample(&new.model, &new.counter, new.sample);
        }
        Ok(added)
    }

    /// Adds another version of a node, which replaces it in requests.
    pub fn edit_node(
        &self,
        tree: &str,
        name: &str,
        edit: &NodeEdit,
        now: Option<Timestamp>,
    ) -> Result<NodeHead, Error> {
        let store = self.engine.trees()?;
        let info = store.tree(tree)?;
        let edited = store.find_node(tree, name)?;
        let now = now.unwrap_or_else(Timestamp::now);
        let mut ids = Ids::new(&info.tree.id, info.nodes, now);
        let id = match &edit.id {
            Some(id) => free_id(store, tree, id)?,
            None => ids.next(&edit.content),
        };
        let author = edit.author.unwrap_or(edited.author);
        let mut version = node(id.clone(), author, edit.content.clone(), now);
        version.edited_from = Some(edited.id.clone());
        // The author of the edited node, unless the edit has another one.
        let same = || edited.author_agent_id.filter(|_| author == edited.author);
        version.author_agent_id = edit.agent.clone().or_else(same);
        let growth = Growth {
            nodes: vec![version],
            edges: Vec::new(),
        };
        self.grow(tree, &growth, &id, now)
    }

    fn grow(
        &self,
        tree: &str,
        growth: &Growth,
        id: &str,
        now: Timestamp,
    ) -> Result<NodeHead, Error> {
        for (i, node) in growth.nodes.iter().enumerate() {
            node.check_size(
                &format!("nodes[{i}]"),
                self.engine.config().limits.max_message_bytes,
            )?;
        }
        let grown = self.engine.trees()?.grow(tree, growth, now);
        let grown = grown.map_err(without_places)?;
        let added = grown.into_iter().find(|node| node.id == id);
        added.ok_or_else(|| Error::damage(format!("node `{id}` was not added")))
    }

    /// Changes flags of a node; other flags are unchanged. Returns all flags.
    pub fn flag_node(&self, tree: &str, name: &str, change: FlagChange) -> Result<Flags, Error> {
        let store = self.engine.trees()?;
        let node = store.find_node(tree, name)?;
        if change.apply(node.flags) == node.flags {
            return Ok(node.flags);
        }
        let id = node.id.clone();
        let change = TreeChange::Flags { node: id, change };
        store.change_tree(tree, &change, Timestamp::now())?;
        // Another writer may have changed the other flags in the meantime.
        Ok(store.find_node(tree, &node.id)?.flags)
    }

    /// Saves a path: a name for a node, with the choices on the path to it.
    pub fn save_path(
        &self,
        tree: &str,
        name: &str,
        head: &str,
        choices: &[String],
    ) -> Result<SavedPath, Error> {
        let store = self.engine.trees()?;
        let head = store.find_node(tree, head)?.id;
        let mut chosen = Vec::new();
        for choice in choices {
            // A choice that is not a node must be an edge, which the store
            // finds.
            chosen.push(match store.find_node(tree, choice) {
                Ok(node) => node.id,
                Err(StoreError::NotFound { .. }) => choice.clone(),
                Err(error) => return Err(error.into()),
            });
        }
        let path = SavedPath {
            name: name.to_owned(),
            head,
            choices: chosen,
        };
        let change = TreeChange::Path(path.clone());
        store.change_tree(tree, &change, Timestamp::now())?;
        Ok(path)
    }
}

/// Returns an id that is not another node's short name, which would make that
/// name ambiguous.
fn free_id(store: &dyn Trees, tree: &str, id: &str) -> Result<String, Error> {
    match store.find_node(tree, id) {
        Ok(other) if other.local_id == id && other.id != id => Err(Error::input(format!(
            "the id `{id}` is already in use as the short name of node `{}`",
            other.id
        ))
        .advise("choose another id, or omit it")),
        _ => Ok(id.to_owned()),
    }
}

/// Returns an error without the list positions that the caller did not write.
fn without_places(error: StoreError) -> StoreError {
    match error {
        StoreError::Invalid { field, message } => {
            let of_node = field
                .strip_prefix("nodes[")
                .and_then(|rest| rest.split_once("]."));
            let field = match of_node {
                Some((_, field @ ("content" | "author_agent_id"))) => field,
                _ => "",
            };
            StoreError::invalid(field, message)
        }
        other => other,
    }
}

fn node(id: String, author: Author, content: MessageContent, now: Timestamp) -> Node {
    Node {
        id,
        local_id: None,
        author,
        author_agent_id: None,
        content,
        edited_from: None,
        metadata: None,
        created_at: Some(now),
        raw_response: None,
    }
}

/// Makes ids from the content, the position and the time of nodes.
struct Ids<'a> {
    tree: &'a str,
    nodes: u64,
    now: Timestamp,
}

/// The number of hexadecimal digits of an id.
const ID_DIGITS: usize = 16;

impl<'a> Ids<'a> {
    fn new(tree: &'a str, nodes: u64, now: Timestamp) -> Self {
        Self { tree, nodes, now }
    }

    fn next(&mut self, content: &MessageContent) -> String {
        let what = (self.tree, self.nodes, self.now.as_millisecond(), content);
        self.nodes += 1;
        // This fails only for maps whose keys are not text; there are none.
        let bytes = serde_json::to_vec(&what).unwrap_or_default();
        let mut id = contexture_core::ContentHash::of(&bytes).to_string();
        id.truncate(ID_DIGITS);
        id
    }
}
