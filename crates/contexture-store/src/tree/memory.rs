//! The memory of an agent in a tree: pins, stashes and a trace of actions.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::time;

/// The memory of an agent in a tree: pins, stashes and recent actions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a memory: an object with `agent_id`")]
pub struct AgentMemory {
    /// The id of the agent.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub agent_id: String,
    /// Nodes and texts that are in every request of the agent, in the order
    /// they were pinned.
    #[serde(default)]
    pub pins: Vec<Pin>,
    /// Texts that the agent saved under a name.
    #[serde(default)]
    pub stashes: Vec<Stash>,
    /// The agent's actions, oldest first.
    #[serde(default)]
    pub trace: Vec<Action>,
}

/// A pinned node or text: exactly one of both fields is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a pin: an object with `node_id` or `text`"
)]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::pin))]
pub struct Pin {
    /// The id of the pinned node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The pinned text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A text that an agent saved under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a stash: an object with `name` and `text`"
)]
pub struct Stash {
    /// The name of the stash, unique for the agent.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label"))]
    pub name: String,
    /// The saved text.
    pub text: String,
    /// Whether the text is included in requests. Default: false.
    #[serde(default)]
    pub recalled: bool,
}

/// An action of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "an action: an object with `action`")]
#[cfg_attr(feature = "schema", schemars(rename = "AgentAction"))]
pub struct Action {
    /// A short description of the action.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "contexture_core::schema::NotBlank")
    )]
    pub action: String,
    /// The time of the action: RFC 3339 or Unix milliseconds. Default: the time
    /// when it is stored.
    #[serde(default, with = "time::lenient")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Time"))]
    pub at: Option<Timestamp>,
}

/// A change to an agent's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryChange {
    /// Pins a node or a text. A pin that exists keeps its position.
    Pin(Pin),
    /// Removes a pin. Fails if the pin does not exist.
    Unpin(Pin),
    /// Saves a text under a name and replaces an earlier text of that name. The
    /// text is not in requests until it is recalled.
    Stash {
        /// The name of the stash.
        name: String,
        /// The text to save.
        text: String,
    },
    /// Includes a stash in requests, or omits it again.
    Recall {
        /// The name of the stash.
        name: String,
        /// Whether requests include the stash.
        shown: bool,
    },
    /// Deletes a stash.
    Discard {
        /// The name of the stash.
        name: String,
    },
    /// Adds an action to the agent's trace.
    Act(String),
}
