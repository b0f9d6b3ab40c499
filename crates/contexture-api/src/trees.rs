//! Operations on loom trees: conversations and documents with branches.
//!
//! Nodes and edges are only ever added. Flags, settings, agents, saved paths and
//! agent memories can change.

use contexture::loom::{FlagChange, NewNode, NodeEdit, check_agent};
use contexture::store::{
    Agent, AgentMemory, Edge, Flags, Growth, Imported, MemoryChange, Node, NodeHead, Pin,
    Preferences, SavedPath, SettingsChange, TreeChange, TreeDocument, TreeInfo,
};
use contexture::{Request, Shown as _};
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::operation::{Api, Nothing, Operation};
use crate::page::Page;
use crate::problem::Problem;
use crate::quota::StorageKind;
use crate::tenant::Tenant;

/// A tree in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
struct InTree {
    /// The id of the tree.
    tree: String,
}

/// A node in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
struct AtNode {
    /// The id of the tree.
    tree: String,
    /// The node, by id or short name.
    node: String,
}

/// An agent in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
struct OfAgent {
    /// The id of the tree.
    tree: String,
    /// The id of the agent.
    agent: String,
}

/// A saved path in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
struct NamedPath {
    /// The id of the tree.
    tree: String,
    /// The name of the saved path.
    name: String,
}

/// A page of the list of trees.
#[derive(Debug, Serialize, JsonSchema)]
struct TreeList {
    /// The trees by id.
    trees: Vec<TreeInfo>,
    /// The value to send as `after` for the next page. Null on the last page.
    next: Option<String>,
}

/// A change to the settings of a tree. Omitted fields are not changed; an empty
/// text clears a setting.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TreePatch {
    /// The title of the tree, at most 4,096 bytes.
    title: Option<String>,
    /// Text at the start of every request from the tree.
    system_context: Option<String>,
    /// Whether requests from a tree of mode `buffer` include the system
    /// context.
    buffer_mode_system_context: Option<bool>,
    /// Settings for paths that exceed the budget.
    preferences: Option<Preferences>,
}

/// A node and its versions.
#[derive(Debug, Serialize, JsonSchema)]
struct NodeResponse {
    /// The node.
    node: Node,
    /// All versions of the node, in the order they were written.
    versions: Vec<NodeHead>,
}

/// The query of a path.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct PathQuery {
    /// The node at the end of the path, by id or short name. Default: the end
    /// of the saved path, otherwise the agent's position, otherwise the only
    /// leaf.
    head: Option<String>,
    /// The name of a saved path to follow. Default: none.
    path: Option<String>,
    /// The id of an agent of the tree. Default: none.
    agent: Option<String>,
}

/// The nodes of a path.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TreePath")]
struct PathNodes {
    /// The nodes from the root to the head, without their content.
    nodes: Vec<NodeHead>,
}

/// A path to save.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewSavedPath")]
#[serde(deny_unknown_fields)]
struct PathBody {
    /// The node at the end of the path, by id or short name.
    head: String,
    /// The ids of nodes or edges to follow where the path has several versions
    /// or several incoming edges. Default: the newest version.
    #[serde(default)]
    choices: Vec<String>,
}

/// A change to the memory of an agent.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "AgentMemoryChange")]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
enum AgentMemoryChange {
    /// Pins a node or a text.
    #[schemars(title = "PinAgentMemoryChange")]
    Pin {
        /// The node or the text to pin.
        what: Pin,
    },
    /// Removes a pin.
    #[schemars(title = "UnpinAgentMemoryChange")]
    Unpin {
        /// The node or the text to unpin.
        what: Pin,
    },
    /// Saves a text under a name. An existing text with this name is replaced.
    #[schemars(title = "StashAgentMemoryChange")]
    Stash {
        /// The name of the stash.
        name: String,
        /// The text to save.
        text: String,
    },
    /// Includes a stash in requests.
    #[schemars(title = "ShowStashAgentMemoryChange")]
    Recall {
        /// The name of the stash.
        name: String,
    },
    /// Omits a stash from requests again.
    #[schemars(title = "HideStashAgentMemoryChange")]
    PutAway {
        /// The name of the stash.
        name: String,
    },
    /// Deletes a stash.
    #[schemars(title = "DiscardStashAgentMemoryChange")]
    Discard {
        /// The name of the stash.
        name: String,
    },
    /// Adds an action to the agent's trace.
    #[schemars(title = "AddActionAgentMemoryChange")]
    Act {
        /// A short description of the action.
        text: String,
    },
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::post("/v1/trees", "import_tree")
            .describe(
                "Import a tree",
                "Creates a tree, or adds nodes and edges to an existing one. Settings, agents, \
                 paths and flags in the document replace the stored ones. Content that the \
                 document does not mention is kept.",
            )
            .large()
            .refuses(&[404, 409])
            .example(
                "/v1/trees",
                json!({
                    "tree": {"id": "story", "mode": "dialogue", "title": "The ferry"},
                    "agents": [{"id": "guide", "type": "model", "system_prompt": "Be brief."}],
                    "nodes": [
                        {"id": "n1", "author": "human", "content": "When does the ferry leave?"},
                        {"id": "n2", "author": "model", "author_agent_id": "guide",
                         "content": "At nine."},
                    ],
                    "edges": [{"id": "e1", "type": "continuation",
                        "sources": [{"node_id": "n1", "role": "primary"}],
                        "target_node_id": "n2"}],
                }),
            ),
        |tenant: &Tenant, _: Nothing, _: Nothing, body: TreeDocument| -> Result<Imported, _> {
            if !body.nodes.is_empty() {
                tenant.check_quota(StorageKind::Nodes)?;
            }
            Ok(tenant.engine.import_tree(&body, Some(tenant.now()))?)
        },
    );
    api.add(
        Operation::get("/v1/trees", "list_trees")
            .describe(
                "List trees",
                "Returns the trees in the order of their ids, one page at a time.",
            )
            .example("/v1/trees", None),
        list,
    );
    api.add(
        Operation::get("/v1/trees/{tree}", "get_tree")
            .describe(
                "Get a tree",
                "Returns the settings, agents and saved paths of a tree, without its nodes.",
            )
            .example("/v1/trees/story", None),
        |tenant: &Tenant, at: InTree, _: Nothing, _: Nothing| -> Result<TreeInfo, Problem> {
            Ok(tenant.store()?.tree(&at.tree)?.shown())
        },
    );
    api.add(
        Operation::new(Method::PATCH, "/v1/trees/{tree}", "update_tree")
            .describe(
                "Update a tree",
                "Changes the settings of a tree. Omitted fields are not changed; an empty text \
                 clears a setting. Nodes are not changed.",
            )
            .example(
                "/v1/trees/story",
                json!({"system_context": "You sell tickets."}),
            ),
        change,
    );
    api.add(
        Operation::get("/v1/trees/{tree}/document", "export_tree")
            .describe(
                "Export a tree",
                "Returns the whole tree. Imported elsewhere, it gives the same requests, byte for \
                 byte.",
            )
            .answers_large()
            .example("/v1/trees/story/document", None),
        |tenant: &Tenant, at: InTree, _: Nothing, _: Nothing| -> Result<TreeDocument, Problem> {
            Ok(tenant.store()?.export_tree(&at.tree)?)
        },
    );
    api.add(
        Operation::post("/v1/trees/{tree}/nodes", "add_node")
            .describe(
                "Add a node",
                "Adds a node after existing nodes, or the root of an empty tree.",
            )
            .creates()
            .refuses(&[409])
            .example(
                "/v1/trees/story/nodes",
                json!({"id": "n3", "author": "human", "content": "And back?", "after": ["n2"]}),
            ),
        |tenant: &Tenant, at: InTree, _: Nothing, body: NewNode| -> Result<NodeHead, Problem> {
            tenant.check_quota(StorageKind::Nodes)?;
            Ok(tenant
                .engine
                .add_node(&at.tree, &body, Some(tenant.now()))?)
        },
    );
    api.add(
        Operation::get("/v1/trees/{tree}/nodes/{node}", "get_node")
            .describe(
                "Get a node",
                "Returns a node with its content and all its versions.",
            )
            .example("/v1/trees/story/nodes/n2", None),
        node,
    );
    api.add(
        Operation::new(Method::PATCH, "/v1/trees/{tree}/nodes/{node}", "flag_node")
            .describe(
                "Update the flags of a node",
                "Changes the flags of a node. Requests omit nodes with the flag `excluded`.",
            )
            .example("/v1/trees/story/nodes/n2", json!({"bookmarked": true})),
        |tenant: &Tenant, at: AtNode, _: Nothing, body: FlagChange| -> Result<Flags, Problem> {
            Ok(tenant.engine.flag_node(&at.tree, &at.node, body)?)
        },
    );
    api.add(
        Operation::post("/v1/trees/{tree}/nodes/{node}/edits", "edit_node")
            .describe(
                "Edit a node",
                "Adds a new version of a node. The new version takes the position of the \
                 original, which is kept.",
            )
            .creates()
            .refuses(&[409])
            .example(
                "/v1/trees/story/nodes/n3/edits",
                json!({"id": "n4", "content": "And when does it come back?"}),
            ),
        |tenant: &Tenant, at: AtNode, _: Nothing, body: NodeEdit| -> Result<NodeHead, Problem> {
            tenant.check_quota(StorageKind::Nodes)?;
            let now = Some(tenant.now());
            Ok(tenant.engine.edit_node(&at.tree, &at.node, &body, now)?)
        },
    );
    api.add(
        Operation::post("/v1/trees/{tree}/edges", "add_edge")
            .describe(
                "Add an edge",
                "Adds an edge between existing nodes: another path to a node, an annotation, or a \
                 context or instruction source.",
            )
            .creates()
            .refuses(&[409])
            .example(
                "/v1/trees/story/edges",
                json!({"id": "e2", "type": "annotation",
                    "sources": [{"node_id": "n1", "role": "primary"}], "target_node_id": "n3"}),
            ),
        add_edge,
    );
    api.add(
        Operation::get("/v1/trees/{tree}/path", "get_path")
            .describe(
                "Get a path",
                "Returns the nodes from the root to a node, without their content.",
            )
            .refuses(&[422])
            .example("/v1/trees/story/path?head=n4", None),
        path,
    );
    api.add(
        Operation::new(Method::PUT, "/v1/trees/{tree}/paths/{name}", "save_path")
            .describe(
                "Save a path",
                "Saves a name for a node and for the branches that lead to it. An existing path \
                 with this name is replaced.",
            )
            .example("/v1/trees/story/paths/main", json!({"head": "n4"})),
        |tenant: &Tenant, at: NamedPath, _: Nothing, body: PathBody| -> Result<SavedPath, _> {
            let choices = &body.choices;
            Ok(tenant
                .engine
                .save_path(&at.tree, &at.name, &body.head, choices)?)
        },
    );
    api.add(
        Operation::new(Method::PUT, "/v1/trees/{tree}/agents/{agent}", "put_agent")
            .describe(
                "Create or replace an agent",
                "Creates an agent that writes in the tree, or replaces the agent with this id.",
            )
            .example(
                "/v1/trees/story/agents/guide",
                json!({"id": "guide", "type": "model", "system_prompt": "Be brief.",
                    "loom_aware": true}),
            ),
        put_agent,
    );
    api.add(
        Operation::get("/v1/trees/{tree}/agents/{agent}/memory", "get_agent_memory")
            .describe(
                "Get the memory of an agent",
                "Returns the pins, stashes and latest actions of an agent.",
            )
            .example("/v1/trees/story/agents/guide/memory", None),
        |tenant: &Tenant, of: OfAgent, _: Nothing, _: Nothing| agent_memory(tenant, &of),
    );
    api.add(
        Operation::post(
            "/v1/trees/{tree}/agents/{agent}/memory",
            "change_agent_memory",
        )
        .describe(
            "Update the memory of an agent",
            "Changes the pins, stashes or actions of an agent. Requests of agents with \
             `loom_aware` include this memory.",
        )
        .example(
            "/v1/trees/story/agents/guide/memory",
            json!({"action": "pin", "what": {"text": "The ferry takes bicycles."}}),
        ),
        change_agent_memory,
    );
}

fn list(tenant: &Tenant, _: Nothing, page: Page, _: Nothing) -> Result<TreeList, Problem> {
    let limit = page.limit.get();
    let mut trees = tenant.store()?.trees(page.after.as_deref(), limit + 1)?;
    let more = trees.len() > limit;
    trees.truncate(limit);
    let next = trees.last().filter(|_| more);
    Ok(TreeList {
        next: next.map(|info| info.tree.id.clone()),
        trees: trees.shown(),
    })
}

fn change(tenant: &Tenant, at: InTree, _: Nothing, body: TreePatch) -> Result<TreeInfo, Problem> {
    let store = tenant.store()?;
    contexture::loom::check_title(body.title.as_deref(), "title")?;
    // An empty text clears a setting.
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    let change = SettingsChange {
        title: body.title.map(given),
        system_context: body.system_context.map(given),
        buffer_mode_system_context: body.buffer_mode_system_context,
        preferences: body.preferences.map(Into::into).unwrap_or_default(),
    };
    store.change_tree(&at.tree, &TreeChange::Settings(change), tenant.now())?;
    Ok(store.tree(&at.tree)?.shown())
}

fn node(tenant: &Tenant, at: AtNode, _: Nothing, _: Nothing) -> Result<NodeResponse, Problem> {
    let store = tenant.store()?;
    let head = store.find_node(&at.tree, &at.node)?;
    let versions = store.versions(&at.tree, &head.id)?;
    let found = store.nodes(&at.tree, &[&head.id], "")?.into_iter().next();
    let Some(found) = found else {
        return Err(Problem::failure("a node disappeared between two reads"));
    };
    let mut node = found.node;
    node.raw_response = store.raw_response(&at.tree, &head.id)?;
    Ok(NodeResponse { node, versions })
}

fn add_edge(tenant: &Tenant, at: InTree, _: Nothing, mut edge: Edge) -> Result<Edge, Problem> {
    let store = tenant.store()?;
    for source in &mut edge.sources {
        source.node_id = store.find_node(&at.tree, &source.node_id)?.id;
    }
    edge.target_node_id = store.find_node(&at.tree, &edge.target_node_id)?.id;
    let growth = Growth {
        nodes: Vec::new(),
        edges: vec![edge.clone()],
    };
    store.grow(&at.tree, &growth, tenant.now())?;
    Ok(edge)
}

fn path(tenant: &Tenant, at: InTree, query: PathQuery, _: Nothing) -> Result<PathNodes, Problem> {
    let request = Request {
        tree: Some(at.tree),
        head: query.head,
        path: query.path,
        agent: query.agent,
        ..Request::default()
    };
    let nodes = tenant.engine.tree_path(&request)?;
    Ok(PathNodes { nodes })
}

fn put_agent(tenant: &Tenant, of: OfAgent, _: Nothing, agent: Agent) -> Result<Agent, Problem> {
    if agent.id != of.agent {
        let message = format!(
            "`id` is `{}`, but the path names agent `{}`",
            agent.id, of.agent
        );
        return Err(Problem::unprocessable(message).at("id"));
    }
    check_agent(&agent)?;
    let change = TreeChange::Agent(agent.clone());
    tenant
        .store()?
        .change_tree(&of.tree, &change, tenant.now())?;
    Ok(agent)
}

/// Fails if the tree does not have this agent.
fn check_agent_exists(tenant: &Tenant, of: &OfAgent) -> Result<(), Problem> {
    let info = tenant.store()?.tree(&of.tree)?;
    match info.agents.iter().any(|agent| agent.id == of.agent) {
        true => Ok(()),
        false => {
            let none = format!("tree `{}` has no agent `{}`", of.tree, of.agent);
            let hint = "create it with `PUT /v1/trees/{tree}/agents/{agent}`";
            Err(Problem::missing(none).hint(hint))
        }
    }
}

fn agent_memory(tenant: &Tenant, of: &OfAgent) -> Result<AgentMemory, Problem> {
    check_agent_exists(tenant, of)?;
    Ok(tenant.store()?.agent_memory(&of.tree, &of.agent)?)
}

fn change_agent_memory(
    tenant: &Tenant,
    of: OfAgent,
    _: Nothing,
    body: AgentMemoryChange,
) -> Result<AgentMemory, Problem> {
    check_agent_exists(tenant, &of)?;
    let store = tenant.store()?;
    let named = |mut pin: Pin| -> Result<Pin, Problem> {
        if let Some(node) = &mut pin.node_id {
            *node = store.find_node(&of.tree, node)?.id;
        }
        Ok(pin)
    };
    let change = match body {
        AgentMemoryChange::Pin { what } => MemoryChange::Pin(named(what)?),
        AgentMemoryChange::Unpin { what } => MemoryChange::Unpin(named(what)?),
        AgentMemoryChange::Stash { name, text } => MemoryChange::Stash { name, text },
        AgentMemoryChange::Recall { name } => MemoryChange::Recall { name, shown: true },
        AgentMemoryChange::PutAway { name } => MemoryChange::Recall { name, shown: false },
        AgentMemoryChange::Discard { name } => MemoryChange::Discard { name },
        AgentMemoryChange::Act { text } => MemoryChange::Act(text),
    };
    let change = TreeChange::Memory {
        agent: of.agent.clone(),
        change,
    };
    store.change_tree(&of.tree, &change, tenant.now())?;
    agent_memory(tenant, &of)
}
