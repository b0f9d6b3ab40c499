//! The sources `system` and `items`: instructions and items inside the request
//! itself.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_core::message::{Block, Message, MessageRole};
use contexture_core::{Cut, Item, Part, Role, Text, Trust};

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
        let mut items = Vec::new();
        let text = ask.request.system.as_deref().unwrap_or_default().trim_end();
        if !text.trim().is_empty() {
            let text = Text::guarded(text, ask.policy);
            items.push(instruction("system".to_owned(), Role::System, text));
        }
        for (i, native) in ask.request.native_instructions.iter().enumerate() {
            // The bytes are sent as they are, so the text is only counted.
            let text = Text::verbatim(native.raw.as_str());
            let item = instruction(format!("system/{i}"), Role::System, text);
            items.push(item.part(Part::Provider(Arc::new(native.clone()))));
        }
        for (id, role, text) in instructions(&ask.request.messages) {
            items.push(instruction(id, role, Text::guarded(&text, ask.policy)));
        }
        Ok(Offer::from(items))
    }
}

fn instruction(id: String, role: Role, text: Text) -> Item {
    let mut item = Item::new(id, role, text).pinned();
    item.priority = 1.0;
    item.trust = Trust::Operator;
    item
}

/// Returns the instructions among the messages of a request: their ids, roles
/// and texts. One in a provider's own form keeps its place between the messages.
pub(crate) fn instructions(messages: &[Message]) -> impl Iterator<Item = (String, Role, String)> {
    messages.iter().enumerate().flat_map(|(m, message)| {
        let role = match message.role {
            MessageRole::System => Some(Role::System),
            MessageRole::Developer => Some(Role::Developer),
            _ => None,
        };
        let blocks = role.map(|_| message.blocks()).unwrap_or_default();
        let count = blocks.len();
        let read = move |(b, block): (usize, Cow<'_, Block>)| match (role, &*block) {
            (Some(role), Block::Text { text, native: None }) if !text.trim().is_empty() => {
                let id = match count {
                    1 => format!("messages/{m}"),
                    _ => format!("messages/{m}.{b}"),
                };
                Some((id, role, text.trim_end().to_owned()))
            }
            _ => None,
        };
        blocks
            .into_iter()
            .enumerate()
            .filter_map(read)
            .collect::<Vec<_>>()
    })
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
