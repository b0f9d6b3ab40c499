//! Recipes: which layers a request has, where their items come from, what they
//! may cost and where they go. Data, not code.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use contexture_core::{Cut, Fit, Order, Path, Place, Share, Window};
use contexture_store::TreeMode;

use crate::config::MemoryPosition;
use crate::error::Error;
use crate::files::Root;
use crate::working_set::cut_named;
use crate::yaml::{Fields, Node, Source};

/// The layers a recipe may name.
pub const LAYERS: &[&str] = &[
    "workspace",
    "persona",
    "session",
    "memory",
    "event",
    "files",
    "task",
    "role",
    "environment",
    "runtime",
    "tools",
    "loom",
    "task-path",
    "task-results",
];

/// Where a layer's items come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// The boot header.
    Boot,
    /// The files of the working set.
    WorkingSet,
    /// The workspace's standing files.
    Workspace,
    /// The persona's files and permissions.
    Persona,
    /// What the agent can do.
    Environment,
    /// Where it runs.
    Runtime,
    /// What it is to do.
    Task,
    /// What its role asks of it.
    Role,
    /// The tools it may call.
    Tools,
    /// The conversation so far.
    History,
    /// The event at hand.
    Event,
    /// The system prompt of a loom's agent.
    LoomAgent,
    /// The system context of a loom's tree.
    LoomTree,
    /// The directives on the way to a place in it.
    LoomInstructions,
    /// What an agent is told that knows it works in a tree.
    LoomAddendum,
    /// What such an agent keeps in mind.
    LoomMemory,
    /// The way to a place, as a conversation.
    LoomPath,
    /// The way to a place, as a document.
    LoomDocument,
    /// Where such an agent is.
    LoomPosition,
    /// What is remembered of what is asked.
    Memory,
    /// What the tasks of a stack are for, in the end.
    TaskRoot,
    /// The tasks from there to the current one.
    TaskPath,
    /// What came of those beside it.
    TaskResults,
}

impl SourceKind {
    /// Returns true for what comes from a loom's tree.
    pub fn is_loom(self) -> bool {
        use SourceKind::*;
        match self {
            LoomAgent | LoomTree | LoomInstructions | LoomAddendum | LoomMemory | LoomPath
            | LoomDocument | LoomPosition => true,
            Boot | WorkingSet | Workspace | Persona | Environment | Runtime | Task | Role
            | Tools | History | Event | Memory | TaskRoot | TaskPath | TaskResults => false,
        }
    }

    /// Returns true for what comes from a stack of tasks.
    pub fn is_task_stack(self) -> bool {
        use SourceKind::{TaskPath, TaskResults, TaskRoot};
        matches!(self, TaskRoot | TaskPath | TaskResults)
    }

    /// Returns the mode of the trees that the source is for, when it is for one
    /// only.
    pub fn mode(self) -> Option<TreeMode> {
        match self {
            SourceKind::LoomPath => Some(TreeMode::Dialogue),
            SourceKind::LoomDocument => Some(TreeMode::Buffer),
            _ => None,
        }
    }
}

/// The names of the sources.
pub const SOURCES: &[&str] = &[
    "boot",
    "working-set",
    "workspace",
    "persona",
    "environment",
    "runtime",
    "task",
    "role",
    "tools",
    "history",
    "event",
    "loom-agent",
    "loom-tree",
    "loom-instructions",
    "loom-addendum",
    "loom-memory",
    "loom-path",
    "loom-document",
    "loom-position",
    "memory",
    "task-root",
    "task-path",
    "task-results",
];
const FITS: &[&str] = &["first-fit", "by-score", "window", "path"];
const PLACES: &[&str] = &["system", "history", "current", "by-role"];
const ORDERS: &[&str] = &["priority", "stable"];
const CUTS: &[&str] = &["item", "never", "start", "middle", "end"];

/// A recipe.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Its name.
    pub name: String,
    /// What it is for, in a sentence.
    pub description: String,
    /// Its layers, in order.
    pub layers: Vec<RecipeLayer>,
}

/// A recipe in a list.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecipeInfo {
    /// Its name.
    pub name: String,
    /// What it is for, in a sentence.
    pub description: String,
}

/// One layer of a recipe.
#[derive(Debug, Clone, PartialEq)]
pub struct RecipeLayer {
    /// Its name: one of [`LAYERS`].
    pub name: String,
    /// Where its items come from.
    pub source: SourceKind,
    /// Its part of the budget.
    pub share: Share,
    /// How its items may be cut; `None` leaves it to each item.
    pub cut: Option<Cut>,
    /// How it is decided what is kept.
    pub fit: Fit,
    /// Where the kept items go.
    pub place: Place,
    /// In what order.
    pub order: Order,
    /// Whether secrets are masked.
    pub mask_secrets: bool,
}

/// The built-in recipes: name and text.
const BUILT_IN: &[(&str, &str)] = &[
    (
        "working-set",
        include_str!("../../../recipes/working-set.yml"),
    ),
    ("broker", include_str!("../../../recipes/broker.yml")),
    (
        "loom-dialogue",
        include_str!("../../../recipes/loom-dialogue.yml"),
    ),
    (
        "loom-buffer",
        include_str!("../../../recipes/loom-buffer.yml"),
    ),
    ("memory", include_str!("../../../recipes/memory.yml")),
    (
        "task-stack",
        include_str!("../../../recipes/task-stack.yml"),
    ),
];

impl Recipe {
    /// Returns the names of the built-in recipes.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Returns the built-in recipes.
    pub fn list() -> Result<Vec<RecipeInfo>, Error> {
        let recipes = Self::names().map(Self::load);
        let info = |recipe: Self| RecipeInfo {
            name: recipe.name,
            description: recipe.description,
        };
        recipes.map(|recipe| recipe.map(info)).collect()
    }

    /// Returns the text of a built-in recipe.
    pub fn text(name: &str) -> Option<&'static str> {
        BUILT_IN
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, text)| *text)
    }

    /// Returns the built-in recipe of that name, or reads the file it names.
    pub fn load(name: &str) -> Result<Self, Error> {
        if let Some(text) = Self::text(name) {
            return Self::built_in(name, text);
        }
        let looks_like_a_file = name.contains(['/', '.']);
        match std::fs::read_to_string(name) {
            Ok(text) => Self::parse(name, &text),
            Err(error) if looks_like_a_file => {
                Err(Error::input(format!("cannot read recipe {name}: {error}")))
            }
            Err(_) => {
                let known: Vec<&str> = Self::names().collect();
                Err(
                    Error::input(crate::error::not_one_of("recipe", name, &known))
                        .hint("name a built-in recipe or the file of your own"),
                )
            }
        }
    }

    /// Returns the built-in recipe of that name, or the one in a file below
    /// `root`: for names that come from elsewhere.
    pub fn load_below(root: &Root, name: &str) -> Result<Self, Error> {
        if Self::text(name).is_some() {
            return Self::load(name);
        }
        if root.is_absent(name) {
            let known: Vec<&str> = Self::names().collect();
            let unknown = crate::error::not_one_of("recipe", name, &known);
            let hint = "name a built-in recipe, or a file of your own below the root";
            return Err(Error::input(unknown).at("recipe").hint(hint));
        }
        let text = root
            .read_required(name)
            .map_err(|error| error.at("recipe"))?;
        Self::parse(name, &text)
    }

    /// Reads a recipe that is built in, which never changes.
    fn built_in(name: &str, text: &str) -> Result<Self, Error> {
        static KNOWN: Mutex<BTreeMap<String, Recipe>> = Mutex::new(BTreeMap::new());
        let lock = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(name) {
            return Ok(known.clone());
        }
        let recipe = Self::parse(&format!("{name} (built in)"), text)?;
        lock().insert(name.to_owned(), recipe.clone());
        Ok(recipe)
    }

    /// Returns the recipe with the layer of memory somewhere else.
    pub(crate) fn with_memory_at(mut self, position: Option<MemoryPosition>) -> Self {
        let layers = &mut self.layers;
        let memory = layers.iter().position(|l| l.source == SourceKind::Memory);
        let (Some(position), Some(memory)) = (position, memory) else {
            return self;
        };
        let mut layer = layers.remove(memory);
        let history = layers.iter().position(|l| l.place == Place::History);
        let event = layers.iter().position(|l| l.source == SourceKind::Event);
        let (place, at) = match position {
            MemoryPosition::System => (Place::System, history),
            MemoryPosition::BeforeHistory => (Place::History, history),
            MemoryPosition::AfterHistory => (Place::History, history.map(|at| at + 1)),
            MemoryPosition::Current => (Place::Current, event),
        };
        layer.place = place;
        layers.insert(at.unwrap_or(memory).min(layers.len()), layer);
        self
    }

    /// Reads a recipe; `name` stands for the file in complaints, which name
    /// line, column and field.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let source = Source { name };
        let documents = source.parse(text)?;
        let [root] = documents.as_slice() else {
            let start = crate::yaml::Mark { line: 1, column: 1 };
            return Err(source.error(
                start,
                "",
                "a recipe is one mapping with `recipe` and `layers`",
            ));
        };
        let mut fields = Fields::of(source, "", root)?;
        let node = fields.require("recipe")?;
        let recipe_name = fields.as_text("recipe", node)?.0.to_owned();
        let description = fields
            .text("description")?
            .map(|(text, _)| text.trim().to_owned())
            .unwrap_or_default();
        let nodes = fields.list("layers")?;
        if nodes.is_empty() {
            return Err(fields.error(root.mark, "layers", "a recipe needs at least one layer"));
        }
        let layers = nodes
            .iter()
            .enumerate()
            .map(|(i, node)| read_layer(source, i, node))
            .collect::<Result<Vec<_>, _>>()?;
        for (i, layer) in layers.iter().enumerate() {
            if layers[..i].iter().any(|before| before.name == layer.name) {
                return Err(source.error(
                    nodes[i].mark,
                    &format!("layers[{i}].layer"),
                    format!("`{}` stands in this recipe already", layer.name),
                ));
            }
        }
        for (i, layer) in layers.iter().enumerate() {
            if layers[..i]
                .iter()
                .any(|before| before.source == layer.source)
            {
                return Err(source.error(
                    nodes[i].mark,
                    &format!("layers[{i}].source"),
                    "another layer has this source already; everything would be sent twice",
                ));
            }
        }
        check_shares(source, nodes, &layers)?;
        fields.finish(&["recipe", "description", "layers"])?;
        Ok(Self {
            name: recipe_name,
            description,
            layers,
        })
    }
}

/// Shares are percent of one whole: they add up to 100.
fn check_shares(source: Source<'_>, nodes: &[Node], layers: &[RecipeLayer]) -> Result<(), Error> {
    let total: f64 = layers.iter().map(|layer| layer.share.percent).sum();
    if (total - 100.0).abs() < 1e-6 {
        return Ok(());
    }
    let last = layers
        .iter()
        .rposition(|layer| layer.share.percent > 0.0)
        .unwrap_or(0);
    let listed: Vec<String> = layers
        .iter()
        .filter(|layer| layer.share.percent > 0.0)
        .map(|layer| format!("{} {}", layer.name, layer.share.percent))
        .collect();
    Err(source.error(
        nodes[last].mark,
        "layers",
        format!(
            "the shares add up to {total}, not 100 ({})",
            listed.join(", ")
        ),
    ))
}

fn read_layer(source: Source<'_>, i: usize, node: &Node) -> Result<RecipeLayer, Error> {
    let mut fields = Fields::of(source, format!("layers[{i}]"), node)?;
    let missing = |fields: &Fields<'_>, key: &str| fields.error(node.mark, key, "is missing");
    let name = fields
        .word("layer", "layer", LAYERS)?
        .ok_or_else(|| missing(&fields, "layer"))?
        .to_owned();
    let source_name = fields
        .word("source", "source", SOURCES)?
        .ok_or_else(|| missing(&fields, "source"))?;
    let kind = match source_name {
        "boot" => SourceKind::Boot,
        "working-set" => SourceKind::WorkingSet,
        "workspace" => SourceKind::Workspace,
        "persona" => SourceKind::Persona,
        "environment" => SourceKind::Environment,
        "runtime" => SourceKind::Runtime,
        "task" => SourceKind::Task,
        "role" => SourceKind::Role,
        "tools" => SourceKind::Tools,
        "history" => SourceKind::History,
        "loom-agent" => SourceKind::LoomAgent,
        "loom-tree" => SourceKind::LoomTree,
        "loom-instructions" => SourceKind::LoomInstructions,
        "loom-addendum" => SourceKind::LoomAddendum,
        "loom-memory" => SourceKind::LoomMemory,
        "loom-path" => SourceKind::LoomPath,
        "loom-document" => SourceKind::LoomDocument,
        "loom-position" => SourceKind::LoomPosition,
        "memory" => SourceKind::Memory,
        "task-root" => SourceKind::TaskRoot,
        "task-path" => SourceKind::TaskPath,
        "task-results" => SourceKind::TaskResults,
        _ => SourceKind::Event,
    };
    // What is said of history elsewhere, and what is summarised, is told by
    // this name.
    let is_path = kind == SourceKind::History || kind.mode().is_some();
    if is_path && name != "session" {
        let why = format!("the source `{source_name}` goes into the layer `session`, not `{name}`");
        return Err(fields.error(node.mark, "source", why));
    }
    let percent = match fields.number("share")? {
        None => 0.0,
        Some((percent, _)) if (0.0..=100.0).contains(&percent) => percent,
        Some((percent, mark)) => {
            return Err(fields.error(
                mark,
                "share",
                format!("must be percent, from 0 to 100, not {percent}"),
            ));
        }
    };
    let share = Share {
        min: fields.whole("min", 0)?.unwrap_or(0),
        percent,
        max: fields.whole("max", 1)?,
    };
    if let Some(max) = share.max
        && share.min > max
    {
        return Err(fields.error(
            node.mark,
            "min",
            format!("is {}, more than max {max}", share.min),
        ));
    }
    let cut = fields.word("cut", "cut", CUTS)?.and_then(cut_named);
    let mut known = vec![
        "layer",
        "source",
        "share",
        "min",
        "max",
        "cut",
        "fit",
        "place",
        "order",
        "mask_secrets",
    ];
    let fit = match fields.word("fit", "fit", FITS)? {
        None | Some("first-fit") => Fit::FirstFit,
        Some("by-score") => Fit::ByScore,
        Some("path") => {
            known.extend(["min_recent", "head"]);
            Fit::Path(read_path(&mut fields)?)
        }
        Some(_) => {
            known.extend(["min_recent", "shrink_to"]);
            Fit::Window(read_window(&mut fields)?)
        }
    };
    let place = match fields.word("place", "place", PLACES)? {
        Some("system") => Place::System,
        Some("history") => Place::History,
        Some("by-role") => Place::ByRole,
        None | Some(_) => Place::Current,
    };
    let order = match fields.word("order", "order", ORDERS)? {
        Some("priority") => Order::Priority,
        None | Some(_) => Order::Stable,
    };
    let mask_secrets = fields.truth("mask_secrets")?.unwrap_or(true);
    fields.finish(&known)?;
    Ok(RecipeLayer {
        name,
        source: kind,
        share,
        cut,
        fit,
        place,
        order,
        mask_secrets,
    })
}

fn read_window(fields: &mut Fields<'_>) -> Result<Window, Error> {
    let mut window = Window::default();
    if let Some(recent) = read_recent(fields)? {
        window.min_recent = recent;
    }
    if let Some(part) = read_part(fields, "shrink_to")? {
        window.shrink_to = part;
    }
    Ok(window)
}

fn read_path(fields: &mut Fields<'_>) -> Result<Path, Error> {
    let mut path = Path::default();
    if let Some(recent) = read_recent(fields)? {
        path.min_recent = recent;
    }
    if let Some(part) = read_part(fields, "head")? {
        path.head = part;
    }
    Ok(path)
}

fn read_recent(fields: &mut Fields<'_>) -> Result<Option<usize>, Error> {
    let recent = fields.whole("min_recent", 0)?;
    Ok(recent.map(|recent| usize::try_from(recent).unwrap_or(usize::MAX)))
}

/// Reads percent as a part of one.
fn read_part(fields: &mut Fields<'_>, key: &str) -> Result<Option<f64>, Error> {
    match fields.number(key)? {
        None => Ok(None),
        Some((percent, _)) if (0.0..=100.0).contains(&percent) => Ok(Some(percent / 100.0)),
        Some((percent, mark)) => Err(fields.error(
            mark,
            key,
            format!("must be percent, from 0 to 100, not {percent}"),
        )),
    }
}
