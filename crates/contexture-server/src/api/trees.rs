//! Looms: conversations and documents that branch.

use axum::http::Method;
use contexture::Request;
use contexture::loom::{FlagChange, NewNode, NodeEdit, check_agent};
use contexture::store::{
    Agent, AgentMemory, Edge, Flags, Growth, Imported, MemoryChange, Node, NodeHead, Pin,
    Preferences, SavedPath, SettingsChange, TreeChange, TreeDocument, TreeInfo,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::page::Page;
use crate::operation::{Api, Nothing, Operation};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// A tree, by its id.
#[derive(Debug, Deserialize, JsonSchema)]
struct InTree {
    /// The tree.
    tree: String,
}

/// A node of a tree.
#[derive(Debug, Deserialize, JsonSchema)]
struct AtNode {
    /// The tree.
    tree: String,
    /// The node, by id or short name.
    node: String,
}

/// An agent of a tree.
#[derive(Debug, Deserialize, JsonSchema)]
struct OfAgent {
    /// The tree.
    tree: String,
    /// The agent.
    agent: String,
}

/// A saved path of a tree.
#[derive(Debug, Deserialize, JsonSchema)]
struct NamedPath {
    /// The tree.
    tree: String,
    /// The path's name.
    name: String,
}

/// A part of all trees.
#[derive(Debug, Serialize, JsonSchema)]
struct TreeList {
    /// The trees, by id.
    trees: Vec<TreeInfo>,
    /// What to send as `after` for those behind, if there are more.
    next: Option<String>,
}

/// What is to be otherwise about a tree. What is left out stays as it is; an
/// empty text takes the setting away.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TreePatch {
    /// Its title.
    title: Option<String>,
    /// What stands before everything.
    system_context: Option<String>,
    /// Whether documents have it, too.
    buffer_mode_system_context: Option<bool>,
    /// What is preferred in it.
    preferences: Option<Preferences>,
}

/// A node, and what else stands in its place.
#[derive(Debug, Serialize, JsonSchema)]
struct NodeAnswer {
    /// The node.
    node: Node,
    /// All versions of it, in the order they were written.
    versions: Vec<NodeHead>,
}

/// The place that a path is wanted to.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Place {
    /// The node, by id or short name. Default: where the saved path ends, else
    /// where the agent is, else the only leaf.
    head: Option<String>,
    /// A saved path.
    path: Option<String>,
    /// An agent of the tree.
    agent: Option<String>,
}

/// The way to a place.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TreeWay")]
struct Way {
    /// The nodes, the root first.
    nodes: Vec<NodeHead>,
}

/// Where a saved path leads.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "PathTarget")]
#[serde(deny_unknown_fields)]
struct PathBody {
    /// Where it ends, by id or short name.
    head: String,
    /// Where there are several versions or several ways, the node or the edge
    /// that is taken.
    #[serde(default)]
    choices: Vec<String>,
}

/// A change to what an agent keeps in mind.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "AgentMemoryChange")]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
enum Mind {
    /// Something more is pinned.
    Pin {
        /// The node or the text.
        what: Pin,
    },
    /// Something is no longer pinned.
    Unpin {
        /// The node or the text.
        what: Pin,
    },
    /// Something is put aside, in place of what has that name.
    Stash {
        /// Its name.
        name: String,
        /// What it is.
        text: String,
    },
    /// A stash is shown from now on.
    Recall {
        /// Its name.
        name: String,
    },
    /// A stash is no longer shown.
    PutAway {
        /// Its name.
        name: String,
    },
    /// A stash is thrown away.
    Discard {
        /// Its name.
        name: String,
    },
    /// Something was done.
    Act {
        /// What.
        text: String,
    },
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::post("/v1/trees", "import_tree")
            .says(
                "Bring in a tree, or more of one",
                "Makes the tree when there is none. What is there stays; what the document is \
                 silent about stays as it is.",
            )
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
            Ok(tenant.engine.import_tree(&body, Some(tenant.now()))?)
        },
    );
    api.add(
        Operation::get("/v1/trees", "list_trees")
            .says(
                "List the trees",
                "In the order of their ids, a part at a time.",
            )
            .example("/v1/trees", None),
        list,
    );
    api.add(
        Operation::get("/v1/trees/{tree}", "get_tree")
            .says(
                "Look at a tree",
                "Its settings, agents and paths, without its nodes.",
            )
            .example("/v1/trees/story", None),
        |tenant: &Tenant, at: InTree, _: Nothing, _: Nothing| -> Result<TreeInfo, Problem> {
            Ok(tenant.store()?.tree(&at.tree)?)
        },
    );
    api.add(
        Operation::new(Method::PATCH, "/v1/trees/{tree}", "change_tree")
            .says("Change a tree's settings", "Its nodes never change.")
            .example(
                "/v1/trees/story",
                json!({"system_context": "You sell tickets."}),
            ),
        change,
    );
    api.add(
        Operation::get("/v1/trees/{tree}/document", "export_tree")
            .says(
                "Read a whole tree",
                "Brought in anywhere, it gives the same requests, byte for byte.",
            )
            .example("/v1/trees/story/document", None),
        |tenant: &Tenant, at: InTree, _: Nothing, _: Nothing| -> Result<TreeDocument, Problem> {
            Ok(tenant.store()?.export_tree(&at.tree)?)
        },
    );
    api.add(
        Operation::post("/v1/trees/{tree}/nodes", "add_node")
            .says(
                "Add a node",
                "It follows from one that is there, or begins the tree.",
            )
            .creates()
            .refuses(&[409])
            .example(
                "/v1/trees/story/nodes",
                json!({"id": "n3", "author": "human", "content": "And back?", "after": ["n2"]}),
            ),
        |tenant: &Tenant, at: InTree, _: Nothing, body: NewNode| -> Result<NodeHead, Problem> {
            Ok(tenant
                .engine
                .add_node(&at.tree, &body, Some(tenant.now()))?)
        },
    );
    api.add(
        Operation::get("/v1/trees/{tree}/nodes/{node}", "get_node")
            .says("Read a node", "With its other versions.")
            .example("/v1/trees/story/nodes/n2", None),
        node,
    );
    api.add(
        Operation::new(Method::PATCH, "/v1/trees/{tree}/nodes/{node}", "flag_node")
            .says(
                "Change a node's flags",
                "The only thing about a node that changes. What is excluded is left out of \
                 requests.",
            )
            .example("/v1/trees/story/nodes/n2", json!({"bookmarked": true})),
        |tenant: &Tenant, at: AtNode, _: Nothing, body: FlagChange| -> Result<Flags, Problem> {
            Ok(tenant.engine.flag_node(&at.tree, &at.node, body)?)
        },
    );
    api.add(
        Operation::post("/v1/trees/{tree}/nodes/{node}/edits", "edit_node")
            .says(
                "Add another version of a node",
                "It stands in the place of the one it was made from, which stays.",
            )
            .creates()
            .refuses(&[409])
            .example(
                "/v1/trees/story/nodes/n3/edits",
                json!({"id": "n4", "content": "And when does it come back?"}),
            ),
        |tenant: &Tenant, at: AtNode, _: Nothing, body: NodeEdit| -> Result<NodeHead, Problem> {
            let now = Some(tenant.now());
            Ok(tenant.engine.edit_node(&at.tree, &at.node, &body, now)?)
        },
    );
    api.add(
        Operation::post("/v1/trees/{tree}/edges", "add_edge")
            .says(
                "Add an edge",
                "Between nodes that are there: another way to a node, or material for it.",
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
            .says(
                "Read the way to a place",
                "The nodes from the root on, without what they say.",
            )
            .refuses(&[422])
            .example("/v1/trees/story/path?head=n4", None),
        path,
    );
    api.add(
        Operation::new(Method::PUT, "/v1/trees/{tree}/paths/{name}", "save_path")
            .says(
                "Save a path",
                "A name for a place, with the choices on the way there.",
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
            .says(
                "Add or replace an agent",
                "Who writes in a tree, and how they are asked.",
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
            .says(
                "Read what an agent keeps in mind",
                "What is pinned, what is put aside, and what it did last.",
            )
            .example("/v1/trees/story/agents/guide/memory", None),
        |tenant: &Tenant, of: OfAgent, _: Nothing, _: Nothing| agent_memory(tenant, &of),
    );
    api.add(
        Operation::post(
            "/v1/trees/{tree}/agents/{agent}/memory",
            "change_agent_memory",
        )
        .says(
            "Change what an agent keeps in mind",
            "It is in the requests of agents that are loom-aware.",
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
        trees,
    })
}

fn change(tenant: &Tenant, at: InTree, _: Nothing, body: TreePatch) -> Result<TreeInfo, Problem> {
    let store = tenant.store()?;
    // An empty text clears a setting.
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    let change = SettingsChange {
        title: body.title.map(given),
        system_context: body.system_context.map(given),
        buffer_mode_system_context: body.buffer_mode_system_context,
        preferences: body.preferences.map(Into::into).unwrap_or_default(),
    };
    store.change_tree(&at.tree, &TreeChange::Settings(change), tenant.now())?;
    Ok(store.tree(&at.tree)?)
}

fn node(tenant: &Tenant, at: AtNode, _: Nothing, _: Nothing) -> Result<NodeAnswer, Problem> {
    let store = tenant.store()?;
    let head = store.find_node(&at.tree, &at.node)?;
    let versions = store.versions(&at.tree, &head.id)?;
    let found = store.nodes(&at.tree, &[&head.id], "")?.into_iter().next();
    let Some(found) = found else {
        return Err(Problem::failure("a node that was found is not there"));
    };
    let mut node = found.node;
    node.raw_response = store.raw_response(&at.tree, &head.id)?;
    Ok(NodeAnswer { node, versions })
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

fn path(tenant: &Tenant, at: InTree, place: Place, _: Nothing) -> Result<Way, Problem> {
    let request = Request {
        tree: Some(at.tree),
        head: place.head,
        path: place.path,
        agent: place.agent,
        ..Request::default()
    };
    let nodes = tenant.engine.tree_path(&request)?;
    Ok(Way { nodes })
}

fn put_agent(tenant: &Tenant, of: OfAgent, _: Nothing, agent: Agent) -> Result<Agent, Problem> {
    if agent.id != of.agent {
        return Err(Problem::unprocessable("the agent's id is not the one in the path").at("id"));
    }
    check_agent(&agent)?;
    let change = TreeChange::Agent(agent.clone());
    tenant
        .store()?
        .change_tree(&of.tree, &change, tenant.now())?;
    Ok(agent)
}

/// Fails when a tree has no such agent.
fn known(tenant: &Tenant, of: &OfAgent) -> Result<(), Problem> {
    let info = tenant.store()?.tree(&of.tree)?;
    match info.agents.iter().any(|agent| agent.id == of.agent) {
        true => Ok(()),
        false => {
            let none = format!("tree `{}` has no agent `{}`", of.tree, of.agent);
            let hint = "`PUT /v1/trees/{tree}/agents/{agent}` makes one";
            Err(Problem::missing(none).hint(hint))
        }
    }
}

fn agent_memory(tenant: &Tenant, of: &OfAgent) -> Result<AgentMemory, Problem> {
    known(tenant, of)?;
    Ok(tenant.store()?.agent_memory(&of.tree, &of.agent)?)
}

fn change_agent_memory(
    tenant: &Tenant,
    of: OfAgent,
    _: Nothing,
    mind: Mind,
) -> Result<AgentMemory, Problem> {
    known(tenant, &of)?;
    let store = tenant.store()?;
    let named = |mut pin: Pin| -> Result<Pin, Problem> {
        if let Some(node) = &mut pin.node_id {
            *node = store.find_node(&of.tree, node)?.id;
        }
        Ok(pin)
    };
    let change = match mind {
        Mind::Pin { what } => MemoryChange::Pin(named(what)?),
        Mind::Unpin { what } => MemoryChange::Unpin(named(what)?),
        Mind::Stash { name, text } => MemoryChange::Stash { name, text },
        Mind::Recall { name } => MemoryChange::Recall { name, shown: true },
        Mind::PutAway { name } => MemoryChange::Recall { name, shown: false },
        Mind::Discard { name } => MemoryChange::Discard { name },
        Mind::Act { text } => MemoryChange::Act(text),
    };
    let change = TreeChange::Memory {
        agent: of.agent.clone(),
        change,
    };
    store.change_tree(&of.tree, &change, tenant.now())?;
    agent_memory(tenant, &of)
}
