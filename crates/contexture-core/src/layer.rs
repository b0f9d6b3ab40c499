//! Layers: candidates that share a part of the budget.
//!
//! A layer has a share of the budget in percent, a position in the request
//! ([`Place`]), an order, and a method of fitting. Tokens that a layer does not
//! need are passed on to the others. Layers can contain layers, whose shares
//! are parts of the share of the outer layer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::budget::Share;
use crate::fit::Fit;
use crate::form::Curator;
use crate::item::{Item, Role, Trust};
use crate::text::Text;

/// The position of a layer's items in the request.
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
    /// The trust level of the content.
    pub trust: Trust,
}

/// A line before the items of a layer inside a [`Frame`].
///
/// It is written, and charged, only if at least one of the layer's items is
/// kept. A blank line separates two layers of a frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Heading {
    /// The line; nothing is written when it is empty.
    pub text: Text,
    /// Whether a blank line follows it.
    pub spaced: bool,
}

/// Candidates that share a part of the budget.
///
/// Layers nest: nested layers share the tokens of their parent, and tokens that
/// one leaves unused go to the others.
#[derive(Debug, Clone)]
pub struct Layer {
    /// The layer's name in the report.
    pub name: Arc<str>,
    /// The layer's share of the budget.
    pub share: Share,
    /// The rule that decides which items are kept.
    pub fit: Fit,
    /// The position of the kept items in the request.
    pub place: Place,
    /// In what order.
    pub order: Order,
    /// Whether the items change with every request, so that a provider's cache
    /// cannot apply to anything after them.
    pub volatile: bool,
    /// Whether volatile items of the current message enter history with the
    /// same bytes when the answer is recorded. A provider's cache can then
    /// reuse them.
    pub recorded: bool,
    /// The block that its items are lines of, when they have no tags of their
    /// own.
    pub frame: Option<Frame>,
    /// The heading before its items, when it is inside a frame.
    pub heading: Option<Heading>,
    /// The source's curator for these items and those of nested layers.
    pub curator: Option<Arc<dyn Curator>>,
    /// The candidates.
    pub items: Vec<Item>,
    /// Nested layers. They share the tokens of this layer and follow its own
    /// items.
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
