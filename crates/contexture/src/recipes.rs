//! The built-in recipes, which are compiled in from `recipes/`.
//!
//! They are ordinary recipes: `contexture recipe show NAME` prints one, to be
//! copied and changed. The engine treats no name of a recipe specially.

use std::sync::{Arc, OnceLock};

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
    let info = |at| {
        let recipe = read(at)?;
        Ok(RecipeInfo {
            name: recipe.name.clone(),
            description: recipe.description.clone(),
        })
    };
    (0..BUILT_IN.len()).map(info).collect()
}

/// Returns the built-in recipe at an index in [`names`]. It is read once in a
/// process, when it is first needed.
pub(crate) fn read(at: usize) -> Result<Arc<Recipe>, Error> {
    static READ: [OnceLock<Arc<Recipe>>; BUILT_IN.len()] =
        [const { OnceLock::new() }; BUILT_IN.len()];
    if let Some(recipe) = READ[at].get() {
        return Ok(Arc::clone(recipe));
    }
    let (name, text) = BUILT_IN[at];
    let recipe = Recipe::parse(&format!("{name} (built in)"), text)?;
    Ok(Arc::clone(READ[at].get_or_init(|| Arc::new(recipe))))
}
