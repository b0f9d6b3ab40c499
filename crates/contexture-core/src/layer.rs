//! Layers: candidates that share a part of the budget.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::budget::Share;
use crate::fit::Fit;
use crate::form::Curator;
use crate::item::{Item, Role, Trust};
use crate::text::Text;

/// Where a layer's items go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The static part, first.
    System,
    /// The conversation, which grows from turn to turn.
    History,
    /// Content that is new in each request, placed last.
    #[default]
    Current,
    /// The header and system items to the static part, the rest to the last.
    ByRole,
}

/// The order of a layer's kept items in the request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Highest priority or score first.
    Priority,
    /// As the source gave them, so that a change of priority moves nothing and
    /// a provider's cache survives.
    #[default]
    Stable,
}

/// The one block that all items of a layer are written into.
///
/// The items of such a layer, and of the layers inside it, have no tags of their
/// own: each is some lines of the block. The block is one in the request, and
/// its items are rows of their own in the report.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// The role of the block.
    pub role: Role,
    /// The path in its tag, when the role shows one.
    pub path: Option<Arc<str>>,
    /// How far its content is to be believed.
    pub trust: Trust,
}

/// A line before the items of a layer inside a [`Frame`].
///
/// It is written, and paid for, only when one of the layer's items is kept. A
/// blank line stands between two layers of a frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Heading {
    /// The line; nothing is written when it is empty.
    pub text: Text,
    /// Whether a blank line follows it.
    pub spaced: bool,
}

/// Candidates that share a part of the budget.
///
/// Layers nest: the layers inside one share what it is allowed, and what one of
/// them leaves unused goes to the others.
#[derive(Debug, Clone)]
pub struct Layer {
    /// The layer's name in the report.
    pub name: Arc<str>,
    /// The layer's share of the budget.
    pub share: Share,
    /// The rule that decides which items are kept.
    pub fit: Fit,
    /// Where the kept items go.
    pub place: Place,
    /// In what order.
    pub order: Order,
    /// Whether its items are new each time, so that nothing is to be gained
    /// from a provider's cache behind them.
    pub volatile: bool,
    /// Whether what is volatile in it enters history with the same bytes when
    /// the answer is recorded, if it is placed in the current message. A
    /// provider's cache then finds it again.
    pub recorded: bool,
    /// The block that its items are lines of, when they have no tags of their
    /// own.
    pub frame: Option<Frame>,
    /// The heading before its items, when it is inside a frame.
    pub heading: Option<Heading>,
    /// What its source can tell about the items, for those of the layers inside
    /// it too.
    pub curator: Option<Arc<dyn Curator>>,
    /// The candidates.
    pub items: Vec<Item>,
    /// Layers that share what this one is allowed, behind its own items.
    pub layers: Vec<Layer>,
}

impl Layer {
    /// Returns an empty layer that may use the whole budget.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            share: Share {
                percent: 100.0,
                ..Share::default()
            },
            fit: Fit::FirstFit,
            place: Place::Current,
            order: Order::Stable,
            volatile: false,
            recorded: false,
            frame: None,
            heading: None,
            curator: None,
            items: Vec::new(),
            layers: Vec::new(),
        }
    }
}
