//! `contexture recipe`: lists, prints and checks recipes, and lists sources.

use std::fmt::Write as _;
use std::path::Path;

use contexture::{Engine, ParameterKind, RecipeLayer, Root, recipes};
use serde_json::{Value, json};

use crate::args::{RecipeArgs, RecipeCommand};
use crate::output;
use crate::session::{plain, table};

pub(crate) fn run(args: &RecipeArgs) -> anyhow::Result<()> {
    match &args.command {
        RecipeCommand::List { json } => list(*json),
        RecipeCommand::Show { name } => {
            // Loading the recipe first gives the same error as assembling
            // would.
            let root = Root::open(&args.root)?;
            Engine::for_root(&root)?.find_recipe(&root, name)?;
            match recipes::text(name) {
                Some(text) => output::text(text),
                None => output::text(&output::read(name.as_ref())?),
            }
        }
        RecipeCommand::Sources { json } => sources(&args.root, *json),
        RecipeCommand::Check { file } => check(file, &args.root),
    }
}

fn list(as_json: bool) -> anyhow::Result<()> {
    let recipes = recipes::list()?;
    if as_json {
        return output::text(&format!("{:#}\n", json!(recipes)));
    }
    let mut lines = String::new();
    for recipe in &recipes {
        let _ = writeln!(lines, "{:<14} {}", recipe.name, recipe.description);
    }
    output::text(&lines)
}

/// Checks a recipe with the sources that the engine of `root` has.
fn check(file: &Path, root: &Path) -> anyhow::Result<()> {
    let root = Root::open(root)?;
    let engine = Engine::for_root(&root)?;
    let recipe = engine.parse_recipe(&root, file, &output::read(file)?)?;
    engine.check_recipe(&recipe)?;
    recipe.masking_warning().iter().for_each(output::warn);
    output::text(&format!(
        "{}: recipe `{}` is valid: {}\n",
        file.display(),
        recipe.name,
        names(&recipe.layers)
    ))
}

/// Returns the names of layers, with those of the layers inside them.
fn names(layers: &[RecipeLayer]) -> String {
    let name = |layer: &RecipeLayer| match layer.layers.is_empty() {
        true => output::visible(&layer.name),
        false => format!(
            "{} ({})",
            output::visible(&layer.name),
            names(&layer.layers)
        ),
    };
    layers.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn sources(root: &Path, as_json: bool) -> anyhow::Result<()> {
    let root = Root::open(root)?;
    let engine = Engine::for_root(&root)?;
    if as_json {
        let source = |(name, parameters)| json!({"source": name, "with": contexture::Parameter::schema(parameters)});
        let sources: Vec<Value> = engine.sources().map(source).collect();
        return output::text(&format!("{:#}\n", json!(sources)));
    }
    let mut table = table(&["source", "parameter", "is", "about"], &[]);
    for (name, parameters) in engine.sources() {
        if parameters.is_empty() {
            table.add_row([name, "", "", ""]);
        }
        for (i, parameter) in parameters.iter().enumerate() {
            let name = if i == 0 { name } else { "" };
            let kind = kind(parameter.kind);
            table.add_row([name, parameter.name, &kind, parameter.about]);
        }
    }
    output::text(&plain(&table))
}

/// Returns the kind of a parameter, in a word or two.
fn kind(kind: ParameterKind) -> String {
    match kind {
        ParameterKind::Text => "text".to_owned(),
        ParameterKind::Word(words) => words.join(" | "),
        ParameterKind::Number => "number".to_owned(),
        ParameterKind::Flag => "true | false".to_owned(),
        ParameterKind::Texts => "list of texts".to_owned(),
        ParameterKind::Object => "mapping".to_owned(),
        _ => String::new(),
    }
}
