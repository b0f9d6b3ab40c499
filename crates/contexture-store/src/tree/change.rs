//! Changes to a tree that add no nodes. A change lists only the fields that it
//! changes, so that writers of different fields do not overwrite each other.

use contexture_core::Tokens;
use serde::Deserialize;

use super::{Agent, Flags, MemoryChange, Preferences, SavedPath, Tree, TruncationStrategy};

/// A change to a tree that adds no nodes or edges.
#[derive(Debug, Clone, PartialEq)]
pub enum TreeChange {
    /// Changes settings of the tree itself.
    Settings(SettingsChange),
    /// Adds an agent or replaces the agent with the same id.
    Agent(Agent),
    /// Adds a saved path or replaces the path with the same name.
    Path(SavedPath),
    /// Changes the flags of a node.
    Flags {
        /// The node's id.
        node: String,
        /// The flags to change.
        change: FlagChange,
    },
    /// Changes the memory of an agent.
    Memory {
        /// The agent's id.
        agent: String,
        /// The change to the memory.
        change: MemoryChange,
    },
}

/// Flags of a node to change. Flags that are omitted keep their value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct FlagChange {
    /// Whether requests omit the node.
    pub excluded: Option<bool>,
    /// Whether the node is hidden as deleted.
    pub pruned: Option<bool>,
    /// Whether the node is bookmarked.
    pub bookmarked: Option<bool>,
}

impl FlagChange {
    /// Returns `flags` with this change applied.
    pub fn apply(self, flags: Flags) -> Flags {
        Flags {
            excluded: self.excluded.unwrap_or(flags.excluded),
            pruned: self.pruned.unwrap_or(flags.pruned),
            bookmarked: self.bookmarked.unwrap_or(flags.bookmarked),
        }
    }
}

/// The change that sets every flag.
impl From<Flags> for FlagChange {
    fn from(flags: Flags) -> Self {
        Self {
            excluded: Some(flags.excluded),
            pruned: Some(flags.pruned),
            bookmarked: Some(flags.bookmarked),
        }
    }
}

/// A change to the settings of a tree. `None` leaves a setting unchanged;
/// `Some(None)` clears it.
///
/// The id, the mode and the creation time of a tree never change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingsChange {
    /// The tree's title.
    pub title: Option<Option<String>>,
    /// The system context.
    pub system_context: Option<Option<String>>,
    /// Whether a document has a system context at all.
    pub buffer_mode_system_context: Option<bool>,
    /// The tree's preferences, each by itself.
    pub preferences: PreferencesChange,
}

impl SettingsChange {
    /// Applies the change to `tree`.
    pub fn apply(&self, tree: &mut Tree) {
        if let Some(title) = &self.title {
            tree.title.clone_from(title);
        }
        if let Some(context) = &self.system_context {
            tree.system_context.clone_from(context);
        }
        if let Some(has_one) = self.buffer_mode_system_context {
            tree.buffer_mode_system_context = has_one;
        }
        self.preferences.apply(&mut tree.preferences);
    }
}

/// A change to the [preferences](Preferences) of a tree. `None` leaves a
/// preference unchanged; `Some(None)` clears it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PreferencesChange {
    /// The nodes that are dropped if a path does not fit.
    pub truncation_strategy: Option<Option<TruncationStrategy>>,
    /// The number of latest nodes that are kept before all others.
    pub minimum_recent_nodes: Option<Option<usize>>,
    /// The number of tokens reserved for the response.
    pub token_buffer: Option<Option<Tokens>>,
}

impl PreferencesChange {
    fn apply(self, preferences: &mut Preferences) {
        if let Some(strategy) = self.truncation_strategy {
            preferences.truncation_strategy = strategy;
        }
        if let Some(nodes) = self.minimum_recent_nodes {
            preferences.minimum_recent_nodes = nodes;
        }
        if let Some(tokens) = self.token_buffer {
            preferences.token_buffer = tokens;
        }
    }
}

/// The change that sets or clears every preference.
impl From<Preferences> for PreferencesChange {
    fn from(preferences: Preferences) -> Self {
        Self {
            truncation_strategy: Some(preferences.truncation_strategy),
            minimum_recent_nodes: Some(preferences.minimum_recent_nodes),
            token_buffer: Some(preferences.token_buffer),
        }
    }
}
