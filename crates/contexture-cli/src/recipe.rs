use std::fmt::Write as _;

use contexture::Recipe;
use serde_json::json;

use crate::args::{RecipeArgs, RecipeCommand};
use crate::output;

pub(crate) fn run(args: &RecipeArgs) -> anyhow::Result<()> {
    match &args.command {
        RecipeCommand::List { json } => list(*json),
        RecipeCommand::Show { name } => {
            // Loading first gives the same complaint as assembling would.
            Recipe::load(name)?;
            match Recipe::text(name) {
                Some(text) => output::text(text),
                None => output::text(&output::read(name.as_ref())?),
            }
        }
        RecipeCommand::Check { file } => {
            let recipe = Recipe::parse(&file.display().to_string(), &output::read(file)?)?;
            let layers: Vec<&str> = recipe
                .layers
                .iter()
                .map(|layer| layer.name.as_str())
                .collect();
            output::text(&format!(
                "{}: recipe `{}` is good: {}\n",
                file.display(),
                recipe.name,
                layers.join(", ")
            ))
        }
    }
}

fn list(as_json: bool) -> anyhow::Result<()> {
    let recipes = Recipe::list()?;
    if as_json {
        return output::text(&format!("{:#}\n", json!(recipes)));
    }
    let mut lines = String::new();
    for recipe in &recipes {
        let _ = writeln!(lines, "{:<14} {}", recipe.name, recipe.description);
    }
    output::text(&lines)
}
