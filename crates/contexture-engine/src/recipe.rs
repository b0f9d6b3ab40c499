//! Recipes: the layers of a request, with the source, the budget and the
//! position of each. A recipe is data, not code.
//!
//! A recipe is written as YAML or JSON (grammar 2):
//!
//! ```yaml
//! recipe: reviewer
//! layers:
//!   - {layer: rules, source: files, with: {paths: [AGENTS.md]}, place: system, pinned: true}
//!   - {layer: chat, source: history, share: 100, fit: window, place: history}
//!   - {layer: ask, source: event}
//! ```
//!
//! Layers have any name. A source may be used several times, with other
//! parameters (`with:`). A layer may be a group of nested `layers:`, which share
//! its tokens and inherit its settings. The engine that follows the recipe checks whether a source exists
//! and accepts a parameter, because only the engine knows the registered
//! sources.

use std::sync::Arc;

use contexture_core::{Anchor, ByScore, Cut, Fit, Order, Path, Place, Share};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::advice::Warning;
use crate::error::Error;
use crate::yaml::{Fields, Mark, Node, Source};

const FITS: &[&str] = &["first-fit", "by-score", "window", "path"];
const PLACES: &[&str] = &["system", "history", "current", "by-role"];
const ORDERS: &[&str] = &["auto", "priority", "stable"];
const CUTS: &[&str] = &["item", "never", "start", "middle", "end"];

/// The fields that only some fits have, with those fits.
const FIT_FIELDS: &[(&str, &[&str])] = &[
    ("min_recent", &["window", "path"]),
    ("shrink_to", &["window"]),
    ("head", &["path"]),
];

/// The order of a layer's items in the request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayerOrder {
    /// In the order of the source, so that a change of priority does not
    /// reorder items.
    #[default]
    Stable,
    /// Highest priority first.
    Priority,
    /// By priority without a session. Stable in a session, so that a change of
    /// priority does not break the provider's prompt cache.
    Auto,
}

impl LayerOrder {
    /// Returns the order for a request, with a session or without.
    pub fn resolve(self, in_session: bool) -> Order {
        match self {
            Self::Stable => Order::Stable,
            Self::Auto if in_session => Order::Stable,
            Self::Auto | Self::Priority => Order::Priority,
        }
    }
}

/// A recipe.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// The name.
    pub name: String,
    /// The purpose, in one sentence.
    pub description: String,
    /// The layers, in order.
    pub layers: Vec<RecipeLayer>,
    /// The file that the recipe was read from, for error messages.
    pub file: Option<Arc<str>>,
}

/// A recipe in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecipeInfo {
    /// The name of the recipe.
    pub name: String,
    /// The purpose of the recipe, in one sentence.
    pub description: String,
}

/// One layer of a recipe.
///
/// A layer without a source is a group: it has no items, so only its share
/// affects a request. In a file, nested layers inherit the other settings of
/// their group; [`Recipe::parse`] copies them to each nested layer.
#[derive(Debug, Clone, PartialEq)]
pub struct RecipeLayer {
    /// The name of the layer, unique in the recipe.
    pub name: Arc<str>,
    /// The name of the source that fills the layer. `None` for a layer that
    /// only has nested layers.
    pub source: Option<String>,
    /// The parameters of the source. A text that begins with `$` refers to a
    /// field of the request: `$session`.
    pub with: Map<String, Value>,
    /// The layer's share of the budget.
    pub share: Share,
    /// The part of items that may be removed. `None` leaves it to each item.
    pub cut: Option<Cut>,
    /// The rule that decides which items are kept.
    pub fit: Fit,
    /// The position of the kept items in the request.
    pub place: Place,
    /// The order of the kept items.
    pub order: LayerOrder,
    /// Whether secrets are masked.
    pub mask_secrets: bool,
    /// Whether all its items are pinned.
    pub pinned: bool,
    /// Whether its source may summarise older items to make room.
    pub compact: bool,
    /// Whether the items change with every request, so that nothing after them
    /// can be cached. A source can also set this.
    pub volatile: bool,
    /// Nested layers that share the tokens of this one.
    pub layers: Vec<RecipeLayer>,
    // The positions of the layer and its parameters in the file.
    places: LayerMarks,
}

/// The position of a layer in its file, for error messages. It does not affect
/// equality.
#[derive(Debug, Clone, Default)]
struct LayerMarks {
    field: String,
    mark: Option<Mark>,
    with: Vec<(String, Mark)>,
    // Whether `mask_secrets: false` was replaced by the default.
    kept_masked: bool,
}

impl PartialEq for LayerMarks {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl RecipeLayer {
    /// Returns a layer of that name and source with defaults: no share of its
    /// own, first fit, in the current message.
    pub fn new(name: impl Into<Arc<str>>, source: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            source: Some(source.into()),
            with: Map::new(),
            share: Share::default(),
            cut: None,
            fit: Fit::FirstFit,
            place: Place::Current,
            order: LayerOrder::Stable,
            mask_secrets: true,
            pinned: false,
            compact: true,
            volatile: false,
            layers: Vec::new(),
            places: LayerMarks::default(),
        }
    }

    /// Sets a parameter of the source.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.with.insert(name.to_owned(), value.into());
        self
    }

    /// Sets the layer's share of the budget, in percent.
    pub fn share(mut self, percent: f64) -> Self {
        self.share.percent = percent;
        self
    }

    /// Sets the position of the kept items in the request.
    pub fn place(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// Returns an error about the layer, or about one of its parameters, with
    /// its position in the file.
    pub fn error(&self, recipe: &Recipe, parameter: Option<&str>, message: &str) -> Error {
        let field = match parameter {
            Some(name) => format!("{}.with.{name}", self.field()),
            None => format!("{}.source", self.field()),
        };
        let of_parameter = parameter.and_then(|name| {
            let mut with = self.places.with.iter();
            with.find(|(known, _)| known == name).map(|(_, mark)| *mark)
        });
        match (&recipe.file, of_parameter.or(self.places.mark)) {
            (Some(file), Some(mark)) => Source { name: file }.error(mark, &field, message),
            _ => Error::input(format!("recipe `{}`: {field}: {message}", recipe.name)),
        }
        .at("recipe")
    }

    fn field(&self) -> String {
        match self.places.field.is_empty() {
            true => format!("layer `{}`", self.name),
            false => self.places.field.clone(),
        }
    }
}

impl Recipe {
    /// Returns a recipe with these layers.
    pub fn new(name: impl Into<String>, layers: Vec<RecipeLayer>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            layers,
            file: None,
        }
    }

    /// Returns every layer that has a source, including nested ones, in order.
    pub fn sources(&self) -> impl Iterator<Item = &RecipeLayer> {
        fn collect<'r>(layers: &'r [RecipeLayer], all: &mut Vec<&'r RecipeLayer>) {
            for layer in layers {
                if layer.source.is_some() {
                    all.push(layer);
                }
                collect(&layer.layers, all);
            }
        }
        let mut all = Vec::new();
        collect(&self.layers, &mut all);
        all.into_iter()
    }

    /// Turns masking on in every layer, for a recipe that must not turn it off.
    pub(crate) fn keep_masked(&mut self) {
        fn keep(layers: &mut [RecipeLayer]) {
            for layer in layers {
                if !layer.mask_secrets {
                    layer.mask_secrets = true;
                    layer.places.kept_masked = true;
                }
                keep(&mut layer.layers);
            }
        }
        keep(&mut self.layers);
    }

    /// Returns a warning about the layers whose `mask_secrets: false` is
    /// ignored, because the recipe is a file of the project.
    pub fn masking_warning(&self) -> Option<Warning> {
        let kept = |layer: &&RecipeLayer| layer.places.kept_masked;
        let names = self.sources().filter(kept);
        let names: Vec<String> = names.map(|layer| format!("`{}`", layer.name)).collect();
        let layers = match names.len() {
            0 => return None,
            1 => "layer",
            _ => "layers",
        };
        let message = format!(
            "recipe `{}`: `mask_secrets: false` of the {layers} {} is ignored; secrets are masked",
            self.name,
            names.join(", ")
        );
        Some(Warning::new("mask_secrets_ignored", message).advise(
            "set `allow_unmasked_layers = true` under `[secrets]` in contexture.toml, and trust \
             the file",
        ))
    }

    /// Reads a recipe. Error messages name the file as `name`, with line,
    /// column and field.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let source = Source { name };
        let documents = source.parse(text)?;
        let [root] = documents.as_slice() else {
            let start = Mark { line: 1, column: 1 };
            return Err(source.error(
                start,
                "",
                "a recipe must be one mapping with `recipe` and `layers`",
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
        let layers = read_layers(source, "layers", nodes, &Inherited::default())?;
        let mut seen: Vec<&RecipeLayer> = Vec::new();
        check_names(source, &layers, &mut seen)?;
        fields.finish(&["recipe", "description", "layers"])?;
        Ok(Self {
            name: recipe_name,
            description,
            layers,
            file: Some(name.into()),
        })
    }
}

/// Fails if two layers have the same name: rows of the report refer to layers
/// by name.
fn check_names<'l>(
    source: Source<'_>,
    layers: &'l [RecipeLayer],
    seen: &mut Vec<&'l RecipeLayer>,
) -> Result<(), Error> {
    for layer in layers {
        if seen.iter().any(|before| before.name == layer.name) {
            let mark = layer.places.mark.unwrap_or_default();
            let field = format!("{}.layer", layer.places.field);
            let twice = format!(
                "the layer name `{}` is already in use; give each layer its own name",
                layer.name
            );
            return Err(source.error(mark, &field, twice));
        }
        seen.push(layer);
        check_names(source, &layer.layers, seen)?;
    }
    Ok(())
}

/// The settings that nested layers inherit from their group.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Inherited {
    cut: Option<Cut>,
    place: Place,
    order: LayerOrder,
    mask_secrets: bool,
    pinned: bool,
    compact: bool,
    volatile: bool,
}

impl Default for Inherited {
    fn default() -> Self {
        Self::of(&RecipeLayer::new("", ""))
    }
}

impl Inherited {
    fn of(layer: &RecipeLayer) -> Self {
        Self {
            cut: layer.cut,
            place: layer.place,
            order: layer.order,
            mask_secrets: layer.mask_secrets,
            pinned: layer.pinned,
            compact: layer.compact,
            volatile: layer.volatile,
        }
    }
}

fn read_layers(
    source: Source<'_>,
    prefix: &str,
    nodes: &[Node],
    inherited: &Inherited,
) -> Result<Vec<RecipeLayer>, Error> {
    let layers = nodes
        .iter()
        .enumerate()
        .map(|(i, node)| read_layer(source, format!("{prefix}[{i}]"), node, inherited))
        .collect::<Result<Vec<_>, _>>()?;
    check_shares(source, prefix, nodes, &layers)?;
    Ok(layers)
}

/// Fails if the shares add up to more than 100 percent.
fn check_shares(
    source: Source<'_>,
    prefix: &str,
    nodes: &[Node],
    layers: &[RecipeLayer],
) -> Result<(), Error> {
    let total: f64 = layers.iter().map(|layer| layer.share.percent).sum();
    if total <= 100.0 + 1e-6 {
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
        prefix,
        format!(
            "the shares add up to {total}, more than 100 ({})",
            listed.join(", ")
        ),
    ))
}

/// The sources of grammar 1 that have another form now.
const FORMER: &[(&str, &str)] = &[
    ("workspace", "{source: files}"),
    ("loom-agent", "{source: loom, with: {part: agent}}"),
    ("loom-tree", "{source: loom, with: {part: tree}}"),
    (
        "loom-instructions",
        "{source: loom, with: {part: instructions}}",
    ),
    ("loom-addendum", "{source: loom, with: {part: addendum}}"),
    ("loom-memory", "{source: loom, with: {part: memory}}"),
    ("loom-path", "{source: loom, with: {part: path}}"),
    ("loom-document", "{source: loom, with: {part: document}}"),
    ("loom-position", "{source: loom, with: {part: position}}"),
    ("task-root", "{source: tasks, with: {part: root}}"),
    ("task-path", "{source: tasks, with: {part: path}}"),
    ("task-results", "{source: tasks, with: {part: results}}"),
];

fn read_layer(
    source: Source<'_>,
    field: String,
    node: &Node,
    inherited: &Inherited,
) -> Result<RecipeLayer, Error> {
    let mut fields = Fields::of(source, field.clone(), node)?;
    let missing = |fields: &Fields<'_>, key: &str| fields.error(node.mark, key, "is missing");
    let name = match fields.text("layer")? {
        None => return Err(missing(&fields, "layer")),
        Some((name, mark)) if name.trim().is_empty() => {
            return Err(fields.error(mark, "layer", "a layer needs a name"));
        }
        Some((name, _)) => name.to_owned(),
    };
    let is_group = fields.has("layers");
    let inner = fields.list("layers")?;
    let named = fields.text("source")?;
    if let Some((former, mark)) = named
        && let Some((_, now)) = FORMER.iter().find(|(known, _)| *known == former)
    {
        let why = format!("`{former}` was removed in recipe grammar 2; write {now}");
        return Err(fields.error(mark, "source", why));
    }
    let mut layer = match (named, is_group) {
        (None, false) => return Err(missing(&fields, "source")),
        (Some((_, mark)), true) => {
            let both = "a layer needs either `source` or `layers`, not both";
            return Err(fields.error(mark, "source", both));
        }
        (Some((named, _)), false) => RecipeLayer::new(name.as_str(), named),
        (None, true) if inner.is_empty() => {
            return Err(fields.error(node.mark, "layers", "a group needs at least one layer"));
        }
        (None, true) => RecipeLayer {
            source: None,
            ..RecipeLayer::new(name.as_str(), "")
        },
    };
    if is_group {
        refuse_on_group(&mut fields)?;
    }
    layer.places.mark = Some(node.mark);
    layer.places.field = field.clone();
    if let Some(with) = fields.take("with") {
        let mut parameters = Fields::of(source, format!("{field}.with"), with)?;
        for (key, mark, value) in parameters.drain() {
            layer.places.with.push((key.to_owned(), mark));
            layer.with.insert(key.to_owned(), value.to_json());
        }
    }
    layer.share = read_share(&mut fields, node)?;
    layer.fit = read_fit(&mut fields)?;
    layer.cut = match fields.word("cut", "cut", CUTS)? {
        None => inherited.cut,
        Some(named) => cut_named(named),
    };
    layer.place = match fields.word("place", "place", PLACES)? {
        None => inherited.place,
        Some("system") => Place::System,
        Some("history") => Place::History,
        Some("by-role") => Place::ByRole,
        Some(_) => Place::Current,
    };
    layer.order = match fields.word("order", "order", ORDERS)? {
        None => inherited.order,
        Some("priority") => LayerOrder::Priority,
        Some("auto") => LayerOrder::Auto,
        Some(_) => LayerOrder::Stable,
    };
    let mut truth = |key: &str, usual: bool| Ok::<_, Error>(fields.truth(key)?.unwrap_or(usual));
    layer.mask_secrets = truth("mask_secrets", inherited.mask_secrets)?;
    layer.pinned = truth("pinned", inherited.pinned)?;
    layer.compact = truth("compact", inherited.compact)?;
    layer.volatile = truth("volatile", inherited.volatile)?;
    if is_group {
        let prefix = format!("{field}.layers");
        layer.layers = read_layers(source, &prefix, inner, &Inherited::of(&layer))?;
    }
    let mut known = vec![
        "layer",
        "source",
        "with",
        "layers",
        "share",
        "min",
        "max",
        "cut",
        "fit",
        "place",
        "order",
        "mask_secrets",
        "pinned",
        "compact",
        "volatile",
    ];
    let of_fit = FIT_FIELDS
        .iter()
        .filter(|(_, fits)| fits.contains(&fit_name(&layer.fit)));
    known.extend(of_fit.map(|(field, _)| *field));
    fields.finish(&known)?;
    Ok(layer)
}

/// Fails if a group sets how its items are made or chosen: it has none.
fn refuse_on_group(fields: &mut Fields<'_>) -> Result<(), Error> {
    let of_fits = FIT_FIELDS.iter().map(|(field, _)| *field);
    for key in ["with", "fit"].into_iter().chain(of_fits) {
        if let Some(node) = fields.take(key) {
            let message = format!(
                "a layer with `layers` has no items of its own; set `{key}` on its nested layers"
            );
            return Err(fields.error(node.mark, key, message));
        }
    }
    Ok(())
}

/// Reads `fit`, and the fields that the chosen fit has.
fn read_fit(fields: &mut Fields<'_>) -> Result<Fit, Error> {
    let fit = match fields.word("fit", "fit", FITS)? {
        None | Some("first-fit") => Fit::FirstFit,
        Some("by-score") => Fit::ByScore(ByScore::default()),
        Some("path") => Fit::Path(read_path(fields)?),
        Some(_) => Fit::Path(read_window(fields)?),
    };
    for (key, fits) in FIT_FIELDS {
        if let Some(node) = fields.take(key) {
            let fits: Vec<String> = fits.iter().map(|fit| format!("`fit: {fit}`")).collect();
            let message = format!(
                "is only for {}; the fit of this layer is `{}`",
                fits.join(" and "),
                fit_name(&fit)
            );
            return Err(fields.error(node.mark, key, message));
        }
    }
    Ok(fit)
}

/// Returns the name of a fit in recipes.
fn fit_name(fit: &Fit) -> &'static str {
    match fit {
        Fit::FirstFit => "first-fit",
        Fit::ByScore(_) => "by-score",
        Fit::Path(path) if path.anchor.is_some() => "window",
        Fit::Path(_) => "path",
    }
}

fn read_share(fields: &mut Fields<'_>, node: &Node) -> Result<Share, Error> {
    let percent = match fields.number("share")? {
        None => 0.0,
        Some((percent, _)) if (0.0..=100.0).contains(&percent) => percent,
        Some((percent, mark)) => {
            return Err(fields.error(
                mark,
                "share",
                format!("must be a percentage from 0 to 100, not {percent}"),
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
    Ok(share)
}

/// Returns the cut of that name; `None` for `item` and for unknown words.
pub fn cut_named(name: &str) -> Option<Cut> {
    match name {
        "never" => Some(Cut::Never),
        "start" => Some(Cut::Start),
        "middle" => Some(Cut::Middle),
        "end" => Some(Cut::End),
        _ => None,
    }
}

fn read_window(fields: &mut Fields<'_>) -> Result<Path, Error> {
    let mut anchor = Anchor::default();
    let mut window = Path::window();
    if let Some(recent) = read_recent(fields)? {
        window.min_recent = recent;
    }
    if let Some(part) = read_part(fields, "shrink_to")? {
        anchor.shrink_to = part;
    }
    window.anchor = Some(anchor);
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

/// Reads a percentage as a fraction from 0 to 1.
fn read_part(fields: &mut Fields<'_>, key: &str) -> Result<Option<f64>, Error> {
    match fields.number(key)? {
        None => Ok(None),
        Some((percent, _)) if (0.0..=100.0).contains(&percent) => Ok(Some(percent / 100.0)),
        Some((percent, mark)) => Err(fields.error(
            mark,
            key,
            format!("must be a percentage from 0 to 100, not {percent}"),
        )),
    }
}

/// A recipe in a request: the name of one, a file, or the recipe itself.
#[derive(Debug, Clone, PartialEq)]
pub enum RecipeRef {
    /// A registered recipe, or a file.
    Name(String),
    /// The recipe itself.
    Value(Arc<Recipe>),
}

impl From<&str> for RecipeRef {
    fn from(name: &str) -> Self {
        RecipeRef::Name(name.to_owned())
    }
}

impl From<String> for RecipeRef {
    fn from(name: String) -> Self {
        RecipeRef::Name(name)
    }
}

impl From<Recipe> for RecipeRef {
    fn from(recipe: Recipe) -> Self {
        RecipeRef::Value(Arc::new(recipe))
    }
}

impl Serialize for RecipeRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            RecipeRef::Name(name) => serializer.serialize_str(name),
            RecipeRef::Value(recipe) => recipe.to_json().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RecipeRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(name) => Ok(RecipeRef::Name(name)),
            value @ Value::Object(_) => Recipe::parse("recipe", &value.to_string())
                .map(Self::from)
                .map_err(|error| serde::de::Error::custom(error.to_string())),
            _ => Err(serde::de::Error::custom(
                "expected a recipe: a name, a file, or an object with `recipe` and `layers`",
            )),
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for RecipeRef {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RecipeOrName".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "The name of a built-in recipe, a file below the root, or a recipe \
                            itself.",
            "anyOf": [
                {
                    "description": "The name of a built-in recipe, or a file below the root.",
                    "type": "string",
                    "minLength": 1,
                },
                {
                    "title": "InlineRecipe",
                    "description": "A recipe.",
                    "type": "object",
                    "properties": {
                        "recipe": {"description": "The name of the recipe.", "type": "string"},
                        "description": {
                            "description": "The purpose of the recipe, in one sentence.",
                            "type": "string",
                        },
                        "layers": {
                            "description": "The layers of the request, in order.",
                            "type": "array",
                            "minItems": 1,
                            "items": {
                                "title": "InlineLayer",
                                "description": "A layer of a recipe.",
                                "type": "object",
                                "properties": {
                                    "layer": {
                                        "description": "The name of the layer.",
                                        "type": "string",
                                    },
                                    "source": {
                                        "description": "The source that fills the layer.",
                                        "type": "string",
                                    },
                                    "with": {
                                        "description": "Parameters for the source.",
                                        "type": "object",
                                    },
                                },
                                "required": ["layer"],
                            },
                        },
                    },
                    "required": ["recipe", "layers"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

impl Recipe {
    /// Returns the recipe in the form that [`parse`](Recipe::parse) reads.
    pub fn to_json(&self) -> Value {
        let usual = Inherited::default();
        let layers = self.layers.iter().map(|layer| layer.to_json(&usual));
        let layers: Vec<Value> = layers.collect();
        let mut recipe = json!({"recipe": self.name, "layers": layers});
        if !self.description.is_empty() {
            recipe["description"] = self.description.as_str().into();
        }
        recipe
    }
}

impl RecipeLayer {
    /// Returns the layer with the settings that differ from those that it
    /// inherits.
    fn to_json(&self, inherited: &Inherited) -> Value {
        let mut layer = json!({"layer": self.name});
        let mut set = |key: &str, value: Value| layer[key] = value;
        if let Some(source) = &self.source {
            set("source", source.as_str().into());
            if !self.with.is_empty() {
                set("with", self.with.clone().into());
            }
            match &self.fit {
                Fit::FirstFit => {}
                Fit::ByScore(_) => set("fit", fit_name(&self.fit).into()),
                Fit::Path(path) => {
                    set("fit", fit_name(&self.fit).into());
                    set("min_recent", path.min_recent.into());
                    match &path.anchor {
                        Some(anchor) => set("shrink_to", json!(anchor.shrink_to * 100.0)),
                        None => set("head", json!(path.head * 100.0)),
                    }
                }
            }
        }
        let share = &self.share;
        for (key, value) in [
            ("share", (share.percent > 0.0).then(|| json!(share.percent))),
            ("min", (share.min > 0).then(|| json!(share.min))),
            ("max", share.max.map(|max| json!(max))),
        ] {
            if let Some(value) = value {
                set(key, value);
            }
        }
        if self.cut != inherited.cut {
            set(
                "cut",
                self.cut.map_or_else(|| "item".into(), |cut| json!(cut)),
            );
        }
        if self.place != inherited.place {
            set("place", json!(self.place));
        }
        if self.order != inherited.order {
            let order = match self.order {
                LayerOrder::Stable => "stable",
                LayerOrder::Priority => "priority",
                LayerOrder::Auto => "auto",
            };
            set("order", order.into());
        }
        for (key, value, usual) in [
            ("mask_secrets", self.mask_secrets, inherited.mask_secrets),
            ("pinned", self.pinned, inherited.pinned),
            ("compact", self.compact, inherited.compact),
            ("volatile", self.volatile, inherited.volatile),
        ] {
            if value != usual {
                set(key, value.into());
            }
        }
        if !self.layers.is_empty() {
            let own = Inherited::of(self);
            let layers = self.layers.iter().map(|layer| layer.to_json(&own));
            set("layers", layers.collect());
        }
        layer
    }
}
