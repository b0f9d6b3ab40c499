//! What an agent is told before the conversation: workspace, persona,
//! environment, runtime, its role and its tools.

mod environment;
mod event;
mod permissions;
mod role;
mod standing;
mod tools;

pub(crate) use environment::Environments;
pub(crate) use event::event_items;
pub use permissions::Permissions;
pub(crate) use role::{role_items, runtime_items, task_items};
pub(crate) use standing::{persona_dir, persona_items, standing_files};
pub(crate) use tools::{Toolbox, guarded_json, tool_items};

use std::sync::Arc;

use contexture_core::guard::Policy;
use contexture_core::{Item, Role, Text, Trust};

/// Returns a pinned section of the system prompt, or nothing when it is empty.
pub(crate) fn section(id: impl Into<Arc<str>>, text: &str, policy: Policy) -> Option<Item> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let mut item = Item::new(id, Role::System, Text::guarded(text, policy)).pinned();
    item.priority = 1.0;
    item.trust = Trust::Operator;
    Some(item)
}
