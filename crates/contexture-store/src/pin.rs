//! Pins: texts that stay in every request of a session.
//!
//! A pin has a name and revisions. Replacing or removing a pin adds a revision,
//! so that the earlier texts stay stored. Compactions do not change pins.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::session::check_label;

/// A text that every request of a session contains, even after its turn was
/// summarised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionPin {
    /// The name of the pin, unique in its session.
    pub name: String,
    /// The number of the revision, from 1. Replacing a pin adds a revision, and
    /// so does removing it.
    pub revision: u64,
    /// The text. Null in a revision that removed the pin.
    pub text: Option<String>,
    /// The source of the text, such as a file or a turn.
    pub origin: Option<String>,
    /// The time when the revision was made.
    pub created_at: Timestamp,
}

/// A text to pin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSessionPin {
    /// The name. A pin of that name is replaced. Default: `pin-1`, `pin-2`, …,
    /// the first that was never used.
    pub name: Option<String>,
    /// The text.
    pub text: String,
    /// The source of the text.
    pub origin: Option<String>,
}

impl NewSessionPin {
    /// Checks the name and the text.
    pub fn check(&self) -> Result<(), StoreError> {
        if let Some(name) = &self.name {
            check_label("name", name)?;
        }
        if self.text.trim().is_empty() {
            return Err(StoreError::invalid("text", "is empty"));
        }
        Ok(())
    }
}
