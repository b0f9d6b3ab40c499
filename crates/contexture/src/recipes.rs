//! The built-in recipes, which are compiled in from `recipes/`.
//!
//! They are ordinary recipes: `contexture recipe show NAME` prints one, to be
//! copied and changed. The engine treats no name of a recipe specially.

use std::sync::OnceLock;

use contexture_engine::{Error, Recipe, RecipeInfo};

/// The built-in recipes: name and text.
const BUILT_IN: &[(&str, &str)] = &[
    ("working-set", include_str!("../recipes/working-set.yml")),
    ("broker", include_str!("../recipes/broker.yml")),
    (
        "loom-dialogue",
        include_str!("../recipes/loom-dialogue.yml"),
    ),
    ("loom-buffer", include_str!("../recipes/loom-buffer.yml")),
    ("memory", include_str!("../recipes/memory.yml")),
    ("inline", include_str!("../recipes/inline.yml")),
    ("fit", include_str!("../recipes/fit.yml")),
    ("task-stack", include_str!("../recipes/task-stack.yml")),
];

/// Returns the names of the built-in recipes.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// Returns the text of a built-in recipe.
pub fn text(name: &str) -> Option<&'static str> {
    let known = BUILT_IN.iter().find(|(known, _)| *known == name);
    known.map(|(_, text)| *text)
}

/// Returns the built-in recipes.
pub fn list() -> Result<Vec<RecipeInfo>, Error> {
    let info = |recipe: Recipe| RecipeInfo {
        name: recipe.name,
        description: recipe.description,
    };
    Ok(all()?.into_iter().map(info).collect())
}

/// Returns the built-in recipes, which are read once in a process.
pub(crate) fn all() -> Result<Vec<Recipe>, Error> {
    static READ: OnceLock<Vec<Recipe>> = OnceLock::new();
    if let Some(recipes) = READ.get() {
        return Ok(recipes.clone());
    }
    let read = |(name, text): &(&str, &str)| Recipe::parse(&format!("{name} (built in)"), text);
    let recipes = BUILT_IN.iter().map(read).collect::<Result<_, _>>()?;
    Ok(READ.get_or_init(|| recipes).clone())
}
