//! The source `loom`: offers the parts of a tree as layers.
//!
//! A layer selects one part with `part`: the system prompt of the agent, the
//! system context of the tree, the instructions on the path, the memory and the
//! position of a loom-aware agent, or the nodes of the path. All layers of a
//! request share one reading of the tree.

use std::sync::Arc;

use contexture_core::{Layout, Role};
use contexture_engine::source::{Account, Facts, Scope};
use contexture_engine::{
    Advice, Ask, Concept, Engine, EngineBuilder, Error, Offer, Outcome, Parameter, ParameterKind,
    Request, Source, Warning,
};
use contexture_store::TreeMode;
use contexture_tokens::Provider;

use crate::items::{HEADER, NodeCache};
use crate::path::PathCache;
use crate::read::PathItems;
use crate::reading::{LoomReader, Part, Squeeze};
use crate::target::{Loom, LoomRequest};

/// Cached data of trees between requests.
#[derive(Debug, Default)]
pub(crate) struct LoomCache {
    pub(crate) paths: PathCache,
    pub(crate) nodes: NodeCache,
}

/// Registers the source `loom`.
pub fn register(builder: EngineBuilder) -> EngineBuilder {
    builder.source(LoomSource {
        cache: LoomCache::default(),
    })
}

/// Offers one part of a tree's content to a request.
struct LoomSource {
    cache: LoomCache,
}

/// The parts of a loom, by their names in recipes.
const PARTS: &[&str] = &[
    "agent",
    "tree",
    "instructions",
    "addendum",
    "memory",
    "path",
    "document",
    "position",
];

const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "part",
        ParameterKind::Word(PARTS),
        "Which part: the agent's prompt, the tree's system context, the instructions on the \
         path, the explanation for loom-aware agents, their memory or their positions, or the \
         nodes of the path as messages or as a document. Default: the nodes, in the mode of the \
         tree.",
    ),
    Parameter::new(
        "tree",
        ParameterKind::Text,
        "The id of the tree. Default: the request's.",
    ),
    Parameter::new(
        "head",
        ParameterKind::Text,
        "The node to continue from. Default: the request's.",
    ),
    Parameter::new(
        "path",
        ParameterKind::Text,
        "The saved path. Default: the request's.",
    ),
    Parameter::new(
        "agent",
        ParameterKind::Text,
        "The agent that writes next. Default: the request's.",
    ),
    Parameter::new(
        "working_buffer",
        ParameterKind::Text,
        "Text at the end of a document. Default: the request's.",
    ),
    Parameter::new(
        "include_annotations",
        ParameterKind::Flag,
        "Whether annotations are included. Default: the request's.",
    ),
    Parameter::new(
        "instructions",
        ParameterKind::Texts,
        "Instructions for the next node. Default: the request's.",
    ),
    Parameter::new(
        "context",
        ParameterKind::Texts,
        "Nodes to include as reference. Default: the request's.",
    ),
];

/// The state of one request's path during assembly.
#[derive(Default)]
struct Progress {
    path: Option<PathItems>,
    // Whether a line of ours comes before a path that a model begins.
    with_opening: bool,
    // Whether that line did not fit.
    opening_failed: bool,
    squeeze: Squeeze,
}

impl Progress {
    /// Gives more tokens to the latest node, because no part of it fits.
    /// Returns false if nothing more can be left out.
    fn make_room(&mut self) -> bool {
        self.squeeze = match self.squeeze {
            Squeeze::None => Squeeze::Marker,
            Squeeze::Marker => Squeeze::Sources,
            Squeeze::Sources if self.with_opening => {
                (self.with_opening, self.opening_failed) = (false, true);
                Squeeze::Sources
            }
            Squeeze::Sources => return false,
        };
        true
    }
}

/// Returns the loom that a layer is about. Layers with the same parameters
/// share it.
fn loom_of(scope: &Scope<'_>) -> Result<Arc<Loom>, Error> {
    let mut with = scope.with.clone();
    with.remove("part");
    let key = serde_json::Value::Object(with).to_string();
    scope.shared(&key, || Loom::find(scope.engine, &wanted(scope)))
}

fn wanted(scope: &Scope<'_>) -> LoomRequest {
    let request = scope.request;
    let text =
        |name: &str, of_request: &Option<String>| scope.text(name).or_else(|| of_request.clone());
    LoomRequest {
        tree: text("tree", &request.tree),
        head: text("head", &request.head),
        path: text("path", &request.path),
        agent: text("agent", &request.agent),
        working_buffer: text("working_buffer", &request.working_buffer),
        include_annotations: scope
            .flag("include_annotations")
            .unwrap_or(request.include_annotations),
        instructions: scope
            .texts("instructions")
            .unwrap_or_else(|| request.instructions.clone()),
        context: scope
            .texts("context")
            .unwrap_or_else(|| request.context.clone()),
        has_event: request.event.is_some(),
    }
}

fn part_of(scope: &Scope<'_>, loom: &Loom) -> Result<Part, Error> {
    let part = match scope.text("part").as_deref() {
        Some("agent") => Part::Agent,
        Some("tree") => Part::Tree,
        Some("instructions") => Part::Instructions,
        Some("addendum") => Part::Addendum,
        Some("memory") => Part::Memory,
        Some("position") => Part::Position,
        Some("path") => Part::Path(TreeMode::Dialogue),
        Some("document") => Part::Path(TreeMode::Buffer),
        _ => Part::Path(loom.mode()),
    };
    if let Part::Path(mode) = part
        && loom.mode() != mode
    {
        let (tree, is) = (&loom.info.tree.id, loom.mode());
        return Err(Error::input(format!(
            "the mode of tree `{tree}` is {is}, but the recipe is for {mode}"
        ))
        .advise(Advice::set_to("recipe", recipe_for(is))));
    }
    Ok(part)
}

/// Returns the built-in recipe for trees of a mode.
pub(crate) fn recipe_for(mode: TreeMode) -> &'static str {
    match mode {
        TreeMode::Dialogue => "loom-dialogue",
        TreeMode::Buffer => "loom-buffer",
    }
}

impl Source for LoomSource {
    fn name(&self) -> &str {
        "loom"
    }

    fn parameters(&self) -> &[Parameter] {
        PARAMETERS
    }

    fn concept(&self) -> Concept {
        Concept::History
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn is_bare(&self, scope: &Scope<'_>) -> bool {
        let part = scope.text("part");
        let bare = ["agent", "tree", "instructions", "document"];
        part.is_some_and(|part| bare.contains(&part.as_str()))
    }

    fn needs_store(&self, _: &Scope<'_>) -> bool {
        true
    }

    fn recipe_for(&self, engine: &Engine, request: &Request) -> Result<Option<String>, Error> {
        // The mode of the tree decides the recipe.
        let Some(tree) = &request.tree else {
            return Ok(None);
        };
        let mode = engine.trees()?.tree(tree)?.tree.mode;
        Ok(Some(recipe_for(mode).to_owned()))
    }

    fn resolve(&self, scope: &Scope<'_>, facts: &mut Facts) -> Result<(), Error> {
        let loom = loom_of(scope)?;
        if let Some(agent) = &loom.agent {
            facts.model = facts.model.take().or_else(|| agent.model.clone());
        }
        facts.reserve_response = facts.reserve_response.or(Some(loom.token_buffer()));
        if scope.request.session.is_none() {
            facts.label.get_or_insert_with(|| loom.label());
        }
        facts.continues = true;
        facts.sampling.get_or_insert_with(|| loom.sampling());
        if loom.shows_headers() && !facts.reserved_prefixes.contains(&HEADER) {
            facts.reserved_prefixes.push(HEADER);
        }
        part_of(scope, &loom).map(drop)
    }

    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error> {
        let loom = loom_of(ask)?;
        for message in loom.warnings(ask.model) {
            ask.warn(Warning::new("loom", message));
        }
        let known = ask.state::<Progress>()?;
        let mut progress = known.lock();
        let part = part_of(ask, &loom)?;
        let mut policy = ask.policy;
        // A document alone has no tags that content could forge.
        policy.show_invisible = !ask.is_document;
        let reading = LoomReader {
            loom: &loom,
            store: ask.engine.trees()?,
            cache: &self.cache,
            counts: ask.counts,
            policy,
            available: ask.budget.available(),
            now: ask.now,
            with_opening: progress.with_opening,
            squeeze: progress.squeeze,
            has_event: ask.request.event.is_some(),
            addendum: ask.engine.config().loom.addendum.as_deref(),
        };
        let mut offer = Offer {
            keeps_parts: true,
            volatile: matches!(part, Part::Position),
            ..Offer::default()
        };
        match part {
            Part::Path(_) => {
                let mut fit = ask.layer.fit.clone();
                let mut made = reading.path(&mut fit)?;
                offer.items = std::mem::take(&mut made.items);
                offer.excluded = std::mem::take(&mut made.unsent);
                offer.fit = Some(fit);
                progress.path = Some(made);
            }
            part => offer.items = reading.items(part, &mut offer.excluded)?,
        }
        Ok(offer)
    }

    fn revise(&self, ask: &Ask<'_>, outcome: &Outcome<'_>) -> Result<Option<Offer>, Error> {
        let known = ask.state::<Progress>()?;
        let again = {
            let mut progress = known.lock();
            let loom = loom_of(ask)?;
            let Some(path) = &progress.path else {
                return Ok(None);
            };
            match outcome.assembly() {
                None if progress.with_opening => {
                    (progress.with_opening, progress.opening_failed) = (false, true);
                    true
                }
                None => match outcome.error() {
                    Some(error) if error.is_over_budget() => {
                        return Err(loom.over_budget(ask, error, path));
                    }
                    _ => false,
                },
                Some(assembly) => match loom.check_says_something(ask, path, assembly) {
                    Ok(()) => {
                        let may = !progress.with_opening && !progress.opening_failed;
                        let lacks = may && lacks_opening(ask, &assembly.layout);
                        progress.with_opening |= lacks;
                        lacks
                    }
                    Err(_) if progress.make_room() => true,
                    Err(error) => return Err(error),
                },
            }
        };
        match again {
            true => self.gather(ask).map(Some),
            false => Ok(None),
        }
    }

    fn account(&self, ask: &Ask<'_>, account: &mut Account<'_>) -> Result<(), Error> {
        let known = ask.state::<Progress>()?;
        let progress = known.lock();
        let Some(path) = &progress.path else {
            return Ok(());
        };
        let loom = loom_of(ask)?;
        let summary = path.summary(&loom, &ask.layer.name, account.report);
        for message in summary.warnings() {
            ask.warn(Warning::new("path_cut", message));
        }
        account.details.insert(summary);
        Ok(())
    }
}

/// Returns true if a path begins with the model, and the provider requires a
/// user message first.
fn lacks_opening(ask: &Ask<'_>, layout: &Layout) -> bool {
    let strict = matches!(ask.model.provider, Provider::Anthropic | Provider::Gemini);
    let first = layout.history.iter().chain(&layout.current).next();
    strict && first.is_some_and(|block| block.role == Role::Assistant)
}
