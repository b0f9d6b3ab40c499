//! Shorter forms of an item: a passage, a summary.
//!
//! The fit uses a form if the whole item does not fit, or if its tokens are
//! worth more elsewhere. An item can bring its forms along. Forms that are
//! expensive to make come from a [`Curator`], which the fit calls only for the
//! few items that need one.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::counts::{Counts, Tokens};
use crate::item::Item;
use crate::text::Text;

/// The kind of a shorter form of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FormKind {
    /// A passage of the text, verbatim.
    Passage,
    /// The most relevant sentences of the text, verbatim.
    Extract,
    /// A summary of the text.
    Summary,
}

/// A shorter form of an item.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    /// The kind of the form: a passage or a summary.
    pub kind: FormKind,
    /// The text of the form.
    pub text: Text,
}

impl Form {
    /// Returns a form of that kind.
    pub fn new(kind: FormKind, text: Text) -> Self {
        Self { kind, text }
    }
}

/// Methods by which a source helps to fit its items.
///
/// The methods are called only when the result matters, so that forms are made
/// only for the few items that need one. Forms that exist already belong in
/// [`Item::forms`].
pub trait Curator: fmt::Debug + Send + Sync {
    /// Returns a passage of the item that costs at most `room` tokens, for an
    /// item that does not fit whole.
    fn passage(&self, item: &Item, room: Tokens, counts: &Counts) -> Option<Form> {
        let _ = (item, room, counts);
        None
    }

    /// Returns the item in other or fewer words, at most `room` tokens, to make
    /// room for something better.
    fn summary(&self, item: &Item, room: Tokens, counts: &Counts) -> Option<Form> {
        let _ = (item, room, counts);
        None
    }

    /// Compares two items with nearly the same content by their age: `Greater`
    /// if `a` is the newer one. Returns `None` if their content differs.
    fn near_duplicate(&self, a: &Item, b: &Item) -> Option<Ordering> {
        let _ = (a, b);
        None
    }

    /// Adds the keys of an item to `keys`, and returns its print. Two
    /// near-duplicates have a key in common and similar prints, so that only such
    /// items are compared. Returns `None` when an item must be compared with all
    /// others.
    fn near_keys(&self, item: &Item, keys: &mut Vec<u32>) -> Option<NearPrint> {
        let _ = (item, keys);
        None
    }
}

/// A print of an item's content that is similar for near-duplicates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NearPrint {
    /// Bits of the content.
    pub bits: u64,
    /// The prints of two near-duplicates differ in at most as many bits as the sum
    /// of this number of both.
    pub most_apart: u32,
}

impl NearPrint {
    /// Returns true if items with these prints may be near-duplicates.
    pub fn may_be_near(self, other: Self) -> bool {
        (self.bits ^ other.bits).count_ones() <= self.most_apart + other.most_apart
    }
}
