use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::time;

/// What an agent keeps in mind in a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a memory: an object with `agent_id`")]
pub struct AgentMemory {
    /// Whose it is.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub agent_id: String,
    /// What it always has before it, in the order it was pinned.
    #[serde(default)]
    pub pins: Vec<Pin>,
    /// What it put aside, by name.
    #[serde(default)]
    pub stashes: Vec<Stash>,
    /// What it did, oldest first.
    #[serde(default)]
    pub trace: Vec<Action>,
}

/// Something pinned: a node, or a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a pin: an object with `node_id` or `text`"
)]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::pin))]
pub struct Pin {
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Something put aside under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a stash: an object with `name` and `text`"
)]
pub struct Stash {
    /// Its name; unique for its agent.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub name: String,
    /// What it is.
    pub text: String,
    /// Whether it is shown.
    #[serde(default)]
    pub recalled: bool,
}

/// Something the agent did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "an action: an object with `action`")]
#[cfg_attr(feature = "schema", schemars(rename = "AgentAction"))]
pub struct Action {
    /// What it was.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "contexture_core::schema::NotBlank")
    )]
    pub action: String,
    /// When. Default: when it is stored.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub at: Option<Timestamp>,
}

/// A change to what an agent keeps in mind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryChange {
    /// Something more is pinned. What is pinned already stays where it is.
    Pin(Pin),
    /// Something is no longer pinned; it must be.
    Unpin(Pin),
    /// Something is put aside, in place of what has that name. It is not shown
    /// until it is recalled.
    Stash {
        /// Its name.
        name: String,
        /// What it is.
        text: String,
    },
    /// A stash is shown from now on, or no longer.
    Recall {
        /// Its name.
        name: String,
        /// Whether it is shown.
        shown: bool,
    },
    /// A stash is thrown away.
    Discard {
        /// Its name.
        name: String,
    },
    /// Something was done.
    Act(String),
}
