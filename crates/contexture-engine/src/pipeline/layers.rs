//! Makes the layers of a recipe, and fills them with the items of the sources.

use std::sync::Arc;

use contexture_core::{Block, Content, Item, Layer, Part};

use crate::recipe::RecipeLayer;
use crate::source::Offer;

/// Returns a layer of a recipe with its nested layers, without items.
pub(super) fn empty_layer(recipe: &RecipeLayer, in_session: bool) -> Layer {
    Layer {
        share: recipe.share,
        fit: recipe.fit.clone(),
        place: recipe.place,
        order: recipe.order.resolve(in_session),
        volatile: recipe.volatile,
        layers: (recipe.layers.iter())
            .map(|recipe| empty_layer(recipe, in_session))
            .collect(),
        ..Layer::new(Arc::clone(&recipe.name))
    }
}

/// Finds the layer of a recipe by its unique name.
pub(super) fn find_layer<'l>(layers: &'l mut [Layer], name: &str) -> Option<&'l mut Layer> {
    for layer in layers {
        if *layer.name == *name {
            return Some(layer);
        }
        if let Some(found) = find_layer(&mut layer.layers, name) {
            return Some(found);
        }
    }
    None
}

fn set_volatile(layers: &mut [Layer]) {
    for layer in layers {
        layer.volatile = true;
        set_volatile(&mut layer.layers);
    }
}

/// Marks a layer and its nested layers: their volatile items in the current
/// message enter history.
pub(super) fn set_recorded(layer: &mut Layer) {
    layer.recorded = true;
    layer.layers.iter_mut().for_each(set_recorded);
}

/// Returns items that are not part of the layout as blocks.
pub(super) fn blocks(layer: &Arc<str>, items: Vec<Item>) -> Vec<Block> {
    let ready = items.into_iter().filter_map(|item| match item.content {
        Content::Ready(text) => {
            let mut block = Block::new(item.id, Arc::clone(layer), item.role, text);
            block.part = item.part;
            Some(block)
        }
        _ => None,
    });
    ready.collect()
}

/// Fills a layer with a source's offer.
pub(super) fn fill(layer: &mut Layer, recipe: &RecipeLayer, offer: Offer) {
    layer.items = offer.items;
    layer.layers = offer.layers;
    if let Some(fit) = offer.fit {
        layer.fit = fit;
    }
    layer.frame = offer.frame;
    layer.curator = offer.curator;
    layer.volatile |= offer.volatile;
    if layer.volatile {
        set_volatile(&mut layer.layers);
    }
    if let Some(max) = offer.max {
        layer.share.max = Some(layer.share.max.map_or(max, |own| own.min(max)));
        layer.share.min = layer.share.min.min(max);
    }
    let is_text = |item: &Item| matches!(item.part, Part::Text | Part::ToolResult { .. });
    for item in &mut layer.items {
        if let Some(cut) = recipe.cut
            && (is_text(item) || !offer.keeps_parts)
        {
            item.cut = cut;
        }
        item.pinned |= recipe.pinned && !matches!(item.content, Content::Absent { .. });
    }
}
