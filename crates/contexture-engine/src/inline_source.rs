//! The sources `system` and `items`: instructions and items inside the request
//! itself.

use std::collections::BTreeSet;

use contexture_core::{Cut, Item, Role, Text, Trust};

use crate::engine::Engine;
use crate::error::Error;
use crate::recipe::RecipeLayer;
use crate::request::Request;
use crate::source::{Ask, Concept, Facts, Offer, Scope, Source};

/// The recipe of a request that holds its own content and names no recipe.
const RECIPE: &str = "inline";

/// The layer of items that name none.
const ITEMS: &str = "items";

/// Offers the instructions of the request.
#[derive(Debug, Default)]
pub struct SystemSource;

impl Source for SystemSource {
    fn name(&self) -> &str {
        "system"
    }

    fn concept(&self) -> Concept {
        Concept::Persona
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn recipe_for(&self, _: &Engine, request: &Request) -> Result<Option<String>, Error> {
        Ok(request.has_inline().then(|| RECIPE.to_owned()))
    }

    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error> {
        let text = ask.request.system.as_deref().unwrap_or_default().trim_end();
        if text.trim().is_empty() {
            return Ok(Offer::default());
        }
        let mut item = Item::new("system", Role::System, Text::guarded(text, ask.policy)).pinned();
        item.priority = 1.0;
        item.trust = Trust::Operator;
        Ok(Offer::from(vec![item]))
    }
}

/// Offers the items of the request that belong to a layer.
#[derive(Debug, Default)]
pub struct ItemsSource;

impl Source for ItemsSource {
    fn name(&self) -> &str {
        "items"
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn resolve(&self, scope: &Scope<'_>, _: &mut Facts) -> Result<(), Error> {
        let own = |layer: &&RecipeLayer| layer.source.as_deref() == Some(self.name());
        let layers = scope.recipe.sources().filter(own);
        let layers: Vec<&str> = layers.map(|layer| &*layer.name).collect();
        let mut ids = BTreeSet::new();
        for (i, item) in scope.request.items.iter().enumerate() {
            let wrong = |field: &str, message: String| {
                let at = format!("items[{i}].{field}");
                Err(Error::input(format!("{at}: {message}")).at(at))
            };
            let layer = item.layer.as_deref().unwrap_or(ITEMS);
            if !layers.contains(&layer) {
                return wrong("layer", crate::error::not_one_of("layer", layer, &layers));
            }
            if !ids.insert(item.id.as_str()) {
                return wrong("id", format!("`{}` is used twice", item.id));
            }
            if item.priority.is_some_and(|it| !(0.0..=1.0).contains(&it)) {
                return wrong("priority", "must be a number from 0 to 1".to_owned());
            }
        }
        Ok(())
    }

    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error> {
        let mut items = Vec::new();
        for one in &ask.request.items {
            if *one.layer.as_deref().unwrap_or(ITEMS) != *ask.layer.name {
                continue;
            }
            let text = Text::guarded(one.content.trim_end(), ask.policy);
            let role = one.role.unwrap_or(Role::Context);
            let mut item = Item::new(one.id.as_str(), role, text);
            item.path = (role == Role::Context).then(|| one.id.as_str().into());
            item.priority = one.priority.unwrap_or(0.5);
            item.cut = one.cut.unwrap_or(Cut::End);
            item.trust = Trust::Retrieved;
            items.push(if one.pinned { item.pinned() } else { item });
        }
        Ok(Offer::from(items))
    }
}
