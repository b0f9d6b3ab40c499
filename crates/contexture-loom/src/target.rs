//! [`Loom`]: the tree, head, path and agent that a request names, after
//! defaults.
//!
//! Also holds the errors about them, and [`LoomSummary`], the part of the
//! report about the path.

use std::collections::{BTreeMap, BTreeSet};

use contexture_core::{Assembly, Block, Role, Tokens, Trust, grouped};
use contexture_engine::assembled::sent_name;
use contexture_engine::{
    Advice, Ask, Concept, Engine, Error, Operation, RecipeLayer, usual_format,
};
use contexture_providers::Sampling;
use contexture_store::{
    Agent, NodeHead, SourceRole, TreeInfo, TreeMode, Trees, TruncationStrategy,
};
use contexture_tokens::Model;
use serde::Serialize;

use crate::error::not_one_of;
use crate::path;
use crate::read::PathItems;

/// The names by which a request selects a tree, a node, a path and an agent.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoomRequest {
    pub(crate) tree: Option<String>,
    pub(crate) head: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) working_buffer: Option<String>,
    pub(crate) include_annotations: bool,
    pub(crate) instructions: Vec<String>,
    pub(crate) context: Vec<String>,
    pub(crate) has_event: bool,
}

/// The tree, the node and the agent that a request is made for.
#[derive(Debug)]
pub(crate) struct Loom {
    pub(crate) info: TreeInfo,
    pub(crate) agent: Option<Agent>,
    pub(crate) head: NodeHead,
    pub(crate) path_name: Option<String>,
    pub(crate) choices: Vec<String>,
    pub(crate) strategy: TruncationStrategy,
    pub(crate) minimum_recent: usize,
    token_buffer: Tokens,
    sampling: Sampling,
    pub(crate) with_annotations: bool,
    pub(crate) working_buffer: Option<String>,
    // The instruction and context sources for the next node.
    pub(crate) instructions: Vec<String>,
    pub(crate) context: Vec<NodeHead>,
}

/// The use of a path through a loom tree.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoomSummary {
    /// The id of the tree.
    pub tree_id: String,
    /// The id of the node at the end of the path.
    pub head_node_id: String,
    /// The agent that writes next.
    pub agent_id: Option<String>,
    /// The name of the saved path that was followed.
    pub path: Option<String>,
    /// The truncation strategy for paths that exceed the budget.
    pub strategy: TruncationStrategy,
    /// Whether nodes were cut or dropped.
    pub truncated: bool,
    /// The number of nodes in the request, including nodes that were cut.
    pub nodes_kept: u64,
    /// The number of nodes that were cut.
    pub nodes_cut: u64,
    /// The number of nodes that were dropped. Null if older nodes were not
    /// counted.
    pub nodes_dropped: Option<u64>,
    /// The number of nodes within `minimum_recent_nodes` that were dropped
    /// because even they exceeded the budget.
    pub recent_nodes_dropped: u64,
}

impl LoomSummary {
    /// Returns the warnings that a person should not overlook.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let kept = grouped(self.nodes_kept);
        match self.nodes_dropped {
            Some(0) => {}
            Some(dropped) => lines.push(format!(
                "dropped because the budget is full: {} of {} nodes ({})",
                grouped(dropped),
                grouped(self.nodes_kept + dropped),
                self.strategy.name()
            )),
            None => lines.push(format!(
                "the latest {kept} nodes fit; older nodes were not read ({})",
                self.strategy.name()
            )),
        }
        let dropped = self.recent_nodes_dropped;
        if dropped > 0 {
            lines.push(format!(
                "the latest nodes do not fit: {} of the minimum_recent_nodes {} dropped, oldest \
                 first",
                grouped(dropped),
                if dropped == 1 { "was" } else { "were" }
            ));
        }
        lines
    }
}

impl Loom {
    /// Finds the tree, the node and the agent of a request.
    pub(crate) fn find(engine: &Engine, request: &LoomRequest) -> Result<Self, Error> {
        let store = engine.trees()?;
        let Some(tree) = &request.tree else {
            return Err(Error::input("the request names no tree").advise(Advice::set("tree")));
        };
        let info = store.tree(tree)?;
        let mode = info.tree.mode;
        if request.working_buffer.is_some() && mode == TreeMode::Dialogue {
            return Err(
                Error::input("a dialogue has no working buffer; only documents have one")
                    .advise(Advice::set("event")),
            );
        }
        if request.has_event && mode == TreeMode::Buffer {
            return Err(
                Error::input("a document has no event").advise(Advice::set("working_buffer"))
            );
        }
        let path = request.path.as_ref().map(|name| {
            let named = info.paths.iter().find(|path| path.name == *name);
            named.cloned().ok_or_else(|| {
                let known: Vec<&str> = info.paths.iter().map(|path| &*path.name).collect();
                Error::input(not_one_of("path", name, &known))
            })
        });
        let path = path.transpose()?;
        let agent = request.agent.as_ref().map(|id| {
            let named = info.agents.iter().find(|agent| agent.id == *id);
            named.cloned().ok_or_else(|| {
                let known: Vec<&str> = info.agents.iter().map(|agent| &*agent.id).collect();
                Error::input(not_one_of("agent", id, &known))
            })
        });
        let agent = agent.transpose()?;
        let position = || agent.as_ref()?.position.clone();
        let head = (request.head.clone())
            .or_else(|| Some(path.as_ref()?.head.clone()))
            .or_else(position);
        let head = match head {
            Some(name) => store.find_node(tree, &name)?,
            None => only_leaf(store, &info)?,
        };
        if let Some(blank) = (request.instructions.iter()).position(|text| text.trim().is_empty()) {
            return Err(Error::input(format!("instruction {} is empty", blank + 1)));
        }
        let context = (request.context.iter())
            .map(|name| store.find_node(tree, name))
            .collect::<Result<Vec<_>, _>>()?;
        let (own, usual) = (info.tree.preferences, &engine.config().loom);
        let sampling = match &agent {
            Some(agent) => sampling_of(agent)?,
            None => Sampling::default(),
        };
        Ok(Self {
            agent,
            head,
            path_name: path.as_ref().map(|path| path.name.clone()),
            choices: path.map(|path| path.choices).unwrap_or_default(),
            strategy: (own.truncation_strategy).unwrap_or(usual.truncation_strategy),
            minimum_recent: (own.minimum_recent_nodes).unwrap_or(usual.minimum_recent_nodes),
            // The reserve is the agent's own output limit, if it has one.
            token_buffer: (sampling.max_tokens.or(own.token_buffer)).unwrap_or(usual.token_buffer),
            sampling,
            with_annotations: request.include_annotations,
            working_buffer: request.working_buffer.clone(),
            instructions: request.instructions.clone(),
            context,
            info,
        })
    }

    pub(crate) fn mode(&self) -> TreeMode {
        self.info.tree.mode
    }

    /// Returns the tokens reserved for the response.
    pub(crate) fn token_buffer(&self) -> Tokens {
        self.token_buffer
    }

    /// Returns the sampling settings of the agent.
    pub(crate) fn sampling(&self) -> Sampling {
        self.sampling.clone()
    }

    /// Returns the warnings about settings of the loom.
    pub(crate) fn warnings(&self, model: &Model) -> Vec<String> {
        let mut warnings = Vec::new();
        let Some(agent) = &self.agent else {
            return warnings;
        };
        let unsupported = usual_format(model.provider)
            .map(|format| self.sampling.unsupported(format, sent_name(model)));
        let unsupported = unsupported.unwrap_or_default();
        if !unsupported.is_empty() {
            warnings.push(format!(
                "{} does not accept parameters {} of agent `{}`; they are omitted",
                model.name,
                unsupported.join(", "),
                agent.id
            ));
        }
        if agent.loom_aware && self.mode() == TreeMode::Buffer {
            warnings.push(format!(
                "agent `{}` is loom-aware, but the request for a document contains only its text",
                agent.id
            ));
        }
        warnings
    }

    /// Returns the error if content that is never cut does not fit.
    pub(crate) fn over_budget(
        &self,
        ask: &Ask<'_>,
        error: &contexture_core::Error,
        path: &PathItems,
    ) -> Error {
        let (needed, available) = error.over_budget().unwrap_or_default();
        let stops = self.strategy == TruncationStrategy::StopAtLimit;
        let others = needed.saturating_sub(if stops { path.tokens } else { 0 });
        if stops && others <= available {
            return Error::input(format!(
                "the request for node `{}` needs {needed} tokens but {available} are available, \
                 and stop_at_limit drops nothing",
                self.head.local_id
            ))
            .advise(Advice::call_on(Operation::FlagNode, &self.info.tree.id))
            .advise("use a model with a larger window, or another truncation_strategy");
        }
        // If nothing may be left out, nodes are never cut either.
        let largest: Vec<String> = (error.largest().iter())
            .filter(|piece| !path.pinned.contains(&*piece.id))
            .map(|piece| format!("`{}` {}", piece.id, piece.tokens))
            .collect();
        let largest = match largest.is_empty() {
            true => String::new(),
            false => format!(" (largest: {})", largest.join(", ")),
        };
        let is_plain = |layer: &RecipeLayer| {
            layer.source == ask.layer.source || ask.concept_of(layer) == Some(Concept::Event)
        };
        // Other sources can pin items, too.
        let numbers = format!("need {others} tokens but {available} are available{largest}");
        match ask.recipe.sources().all(is_plain) {
            true => Error::input(format!(
                "the system context and the event {numbers}; neither is ever cut"
            ))
            .advise(Advice::raise("max_tokens"))
            .advise("shorten the system context, or use a model with a larger window"),
            false => Error::input(format!("the pinned items {numbers}; they are never cut"))
                .advise(Advice::raise("max_tokens"))
                .advise("shorten the largest items, or use a model with a larger window"),
        }
    }

    /// Fails when nothing but the system context is left, or when the model
    /// would answer or continue something else than the latest node.
    pub(crate) fn check_says_something(
        &self,
        ask: &Ask<'_>,
        path: &PathItems,
        assembly: &Assembly,
    ) -> Result<(), Error> {
        let Assembly { layout, report } = assembly;
        // A node may have the same name as one of our own items.
        let ours = |block: &Block| {
            block.trust == Trust::Operator && matches!(&*block.id, "gap" | "opening" | "loom")
        };
        let is_loom = |block: &Block| {
            let mut layers = ask.recipe.sources();
            layers.any(|layer| *layer.name == *block.layer && layer.source == ask.layer.source)
        };
        let mut said = layout.history.iter().chain(&layout.current);
        let has_event = ask.request.event.is_some() && !layout.current.iter().all(is_loom);
        let says_something = match self.mode() {
            // The question may be given separately from the path; otherwise the
            // latest node is the question.
            TreeMode::Dialogue if has_event => true,
            TreeMode::Dialogue => match path.latest() {
                Some(latest) => said.any(|block| block.id == *latest),
                None => said.any(|block| *block.layer == *ask.layer.name && !ours(block)),
            },
            TreeMode::Buffer => {
                let mut document = said.filter(|block| block.role == Role::Document);
                document.next_back().map(|block| &block.id) == path.end.as_ref()
            }
        };
        if says_something {
            return Ok(());
        }
        let needs = path.latest_tokens;
        let others = report.budget.layers.iter();
        let others = others.filter(|layer| *layer.name != *ask.layer.name);
        let taken: Tokens = others.map(|layer| layer.used).sum();
        Err(Error::input(format!(
            "no room for the latest node: {taken} of {} tokens are used, the node has {needs}, \
             and no part of it fits",
            report.budget.effective
        ))
        .advise(Advice::raise("max_tokens"))
        .advise("shorten the system context"))
    }

    /// Returns the label under which requests of the loom are saved.
    pub(crate) fn label(&self) -> String {
        let tree = &self.info.tree.id;
        // Agents have prompts of their own, and so nothing in common.
        match &self.agent {
            Some(agent) => format!("loom:{tree}/{}", agent.id),
            None => format!("loom:{tree}"),
        }
    }

    /// Returns the agent, if it is loom-aware.
    pub(crate) fn aware(&self) -> Option<&Agent> {
        let agent = self.agent.as_ref()?;
        (agent.loom_aware && self.mode() == TreeMode::Dialogue).then_some(agent)
    }

    /// Returns true when each node begins with a header.
    pub(crate) fn shows_headers(&self) -> bool {
        self.aware().is_some()
    }

    /// Returns true when requests have a system context.
    pub(crate) fn has_system(&self) -> bool {
        self.mode() == TreeMode::Dialogue || self.info.tree.buffer_mode_system_context
    }
}

/// Fails when the parameters of an agent are none that are known.
pub fn check_agent(agent: &Agent) -> Result<(), Error> {
    sampling_of(agent).map(drop)
}

/// Reads how an agent's answers are drawn.
fn sampling_of(agent: &Agent) -> Result<Sampling, Error> {
    let parameters = serde_json::Value::Object(agent.parameters.clone());
    serde_json::from_value(parameters).map_err(|error| {
        let why = crate::error::plain(&error.to_string());
        Error::input(format!("agent `{}`: parameters: {why}", agent.id))
    })
}

/// Returns the only leaf of a tree. Fails if there are several.
fn only_leaf(store: &dyn Trees, info: &TreeInfo) -> Result<NodeHead, Error> {
    let tree = &info.tree.id;
    if info.root.is_none() {
        return Err(Error::input(format!("tree `{tree}` is empty"))
            .advise(Advice::call_on(Operation::AddNode, tree)));
    }
    let skeleton = store.skeleton(tree)?;
    let nodes = skeleton.nodes.iter().map(|(node, _)| node);
    let reached: BTreeSet<&str> = (skeleton.edges.iter())
        .map(|edge| &*edge.target_node_id)
        .collect();
    // An edit that no edge leads to has the position of its original.
    let in_place: BTreeMap<&str, &str> = nodes
        .clone()
        .filter(|node| !reached.contains(&*node.id))
        .filter_map(|node| Some((&*node.id, node.edited_from.as_deref()?)))
        .collect();
    let place = |mut id| {
        while let Some(from) = in_place.get(id) {
            id = *from;
        }
        id
    };
    // A pruned node is not a leaf, and its predecessor may be one.
    let pruned: BTreeSet<&str> = nodes
        .clone()
        .filter(|node| node.flags.pruned)
        .map(|node| &*node.id)
        .collect();
    let continuations = (skeleton.edges.iter())
        .filter(|edge| edge.continues() && !pruned.contains(&*edge.target_node_id));
    let continued: BTreeSet<&str> = continuations
        .clone()
        .flat_map(|edge| edge.sources_as(SourceRole::Primary))
        .map(place)
        .collect();
    let targets: BTreeSet<&str> = continuations.map(|edge| &*edge.target_node_id).collect();
    let is_root = |node: &NodeHead| info.root.as_deref() == Some(&*node.id);
    let leaves: Vec<&NodeHead> = nodes
        .clone()
        .filter(|node| !continued.contains(&*node.id))
        .filter(|node| targets.contains(&*node.id) || is_root(node))
        .collect();
    match leaves.as_slice() {
        [one] => {
            let versions = nodes.filter(|node| place(&node.id) == one.id);
            let versions: Vec<NodeHead> = versions.cloned().collect();
            let latest = path::choose_version(&versions, &[]);
            Ok(latest.unwrap_or(one).clone())
        }
        leaves => {
            let named: Vec<&str> = leaves.iter().take(8).map(|leaf| &*leaf.local_id).collect();
            Err(Error::input(format!(
                "tree `{tree}` has {} leaves ({}{}); name the node to continue from",
                leaves.len(),
                named.join(", "),
                if leaves.len() > named.len() {
                    ", ..."
                } else {
                    ""
                }
            ))
            .advise(Advice::set("head"))
            .advise(Advice::call_on(Operation::ShowTree, tree)))
        }
    }
}
