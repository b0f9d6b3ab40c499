//! Which tokens were too few for an item: those of the request, or of its layer.

use std::collections::BTreeMap;

use crate::assemble::Fitted;
use crate::counts::Tokens;
use crate::fit::Fit;
use crate::layer::Layer;
use crate::report::Room;

/// What limits the tokens of a layer, apart from the budget.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LayerRoom {
    // Whether other layers would get a part of more tokens.
    is_shared: bool,
    // The tokens that the layer may still get, and the `max` that says so.
    spare: Option<(Tokens, Tokens)>,
}

impl LayerRoom {
    /// Returns the tokens that are too few for an item that needs `missing` more.
    pub(crate) fn for_missing(self, missing: Tokens) -> Room {
        match self.spare {
            Some((spare, max)) if missing > spare => Room::LayerMax(max),
            _ if self.is_shared => Room::Layer,
            _ => Room::Request,
        }
    }
}

/// The limits of layers by name.
#[derive(Debug, Default)]
pub(crate) struct Rooms<'a>(BTreeMap<&'a str, LayerRoom>);

impl<'a> Rooms<'a> {
    pub(crate) fn of(layers: &'a [Layer], fitted: &[Fitted]) -> Self {
        let mut rooms = Self::default();
        rooms.add(layers, fitted, LayerRoom::default(), false);
        rooms
    }

    pub(crate) fn of_layer(&self, name: &str) -> LayerRoom {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Adds what limits each of the layers inside a layer that `around` limits.
    /// `together`: their items are chosen as if they were of one layer.
    fn add(&mut self, layers: &'a [Layer], fitted: &[Fitted], around: LayerRoom, together: bool) {
        let short = fitted.iter().filter(|fitted| fitted.wants_more()).count();
        for (layer, fitted) in layers.iter().zip(fitted) {
            let own = layer.share.max;
            let own = own.map(|max| (max.saturating_sub(fitted.allowed), max));
            let room = LayerRoom {
                is_shared: around.is_shared || (short > 1 && !together),
                spare: around.spare.into_iter().chain(own).min(),
            };
            self.0.insert(&layer.name, room);
            let together = together || matches!(layer.fit, Fit::ByScore(_));
            self.add(&layer.layers, &fitted.layers, room, together);
        }
    }
}
