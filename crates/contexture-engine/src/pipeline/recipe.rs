//! The recipe of a request, and the parameters of its sources.

use std::sync::Arc;

use contexture_core::Place;
use serde_json::{Map, Value};

use crate::engine::Engine;
use crate::error::Error;
use crate::files::Root;
use crate::recipe::{Recipe, RecipeLayer, RecipeRef};
use crate::request::{Request, VARIABLES};
use crate::source::{Concept, Position};

/// Fails if a recipe refers to a field that requests do not have.
pub(crate) fn check_variables(recipe: &Recipe, layer: &RecipeLayer) -> Result<(), Error> {
    for (name, value) in &layer.with {
        if let Some(variable) = variable_in(value)
            && !VARIABLES.contains(&variable)
        {
            let message = crate::error::not_one_of("field of the request", variable, VARIABLES);
            return Err(layer.error(recipe, Some(name), &message));
        }
    }
    Ok(())
}

/// Returns the name after the `$` of a parameter.
pub(super) fn variable_in(value: &Value) -> Option<&str> {
    value.as_str()?.strip_prefix('$')
}

/// Returns the parameters of a layer's source: those of the request, else those
/// of the recipe. Variables are not replaced.
pub(super) fn with_variables(request: &Request, layer: &RecipeLayer) -> Map<String, Value> {
    let mut with = layer.with.clone();
    if let Some(more) = request.with.get(&*layer.name) {
        with.extend(more.clone());
    }
    with
}

/// Returns the parameters of a layer's source, with variables replaced by the
/// request's fields.
pub(super) fn parameters(request: &Request, layer: &RecipeLayer) -> Map<String, Value> {
    let mut with = with_variables(request, layer);
    for value in with.values_mut() {
        if let Some(name) = variable_in(value) {
            *value = request.variable(name).unwrap_or(Value::Null);
        }
    }
    with
}

/// Returns the recipe of a request, with its layers moved to the positions that
/// the settings require.
pub(super) fn recipe_of(
    engine: &Engine,
    root: &Root,
    request: &Request,
) -> Result<Arc<Recipe>, Error> {
    let recipe = match &request.recipe {
        Some(recipe) => engine.recipe(root, recipe)?,
        None => {
            let mut suggested = None;
            for name in engine.source_names() {
                if let Some(source) = engine.source(name)
                    && suggested.is_none()
                {
                    suggested = source.recipe_for(engine, request)?;
                }
            }
            match suggested {
                Some(name) => engine.recipe(root, &RecipeRef::Name(name))?,
                None => engine.usual_recipe(root)?,
            }
        }
    };
    Ok(positioned(engine, recipe))
}

/// Returns the recipe with its layers moved to the positions that the settings
/// require.
pub(super) fn positioned(engine: &Engine, recipe: Arc<Recipe>) -> Arc<Recipe> {
    let wanted = |layer: &RecipeLayer| {
        let source = engine.source(layer.source.as_deref()?)?;
        source.position(engine)
    };
    if recipe.layers.iter().all(|layer| wanted(layer).is_none()) {
        return recipe;
    }
    let mut moved = Recipe::clone(&recipe);
    for at in 0..moved.layers.len() {
        let Some(position) = wanted(&moved.layers[at]) else {
            continue;
        };
        let mut layer = moved.layers.remove(at);
        let layers = &moved.layers;
        // The conversation itself, if other layers are placed before it.
        let is_conversation = |layer: &RecipeLayer| {
            let source = layer.source.as_deref().and_then(|name| engine.source(name));
            source.is_some_and(|source| source.concept() == Concept::History)
        };
        let in_history = |layer: &RecipeLayer| layer.place == Place::History;
        let history = (layers.iter())
            .position(|layer| in_history(layer) && is_conversation(layer))
            .or_else(|| layers.iter().position(in_history));
        let last = layers.iter().rposition(|l| l.place == Place::Current);
        let (place, to) = match position {
            Position::System => (Place::System, history),
            Position::BeforeHistory => (Place::History, history),
            Position::AfterHistory => (Place::History, history.map(|at| at + 1)),
            Position::Current => (Place::Current, last),
        };
        layer.place = place;
        moved
            .layers
            .insert(to.unwrap_or(at).min(moved.layers.len()), layer);
    }
    Arc::new(moved)
}
