//! The static content before the conversation: workspace, persona, environment,
//! runtime, role and tools.

use std::sync::Arc;

use contexture_core::cache::Cache;
use contexture_core::guard::Policy;
use contexture_core::{Content, Item, Role, Text, Trust};

use crate::by_file::ByFile;
use crate::tools::Toolbox;

/// A cache of static content: files of the operator, tools, sections of the
/// system prompt. It is read, guarded and counted once, until it changes.
#[derive(Debug, Default)]
pub(crate) struct StaticContent {
    pub(crate) files: ByFile<Content>,
    pub(crate) toolboxes: ByFile<Arc<Toolbox>>,
    // Sections by their policy and text.
    sections: Cache<(Policy, String), Text>,
}

impl StaticContent {
    /// Returns a pinned section of the system prompt, or `None` if it is empty.
    pub(crate) fn section(
        &self,
        id: impl Into<Arc<str>>,
        text: &str,
        policy: Policy,
    ) -> Option<Item> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        let mut item = Item::new(id, Role::System, self.text(text, policy)).pinned();
        item.priority = 1.0;
        item.trust = Trust::Operator;
        Some(item)
    }

    fn text(&self, text: &str, policy: Policy) -> Text {
        let key = (policy, text.to_owned());
        if let Some(known) = self.sections.get(&key) {
            return known;
        }
        let guarded = Text::guarded(text, policy);
        let bytes = 2 * text.len() + 512;
        self.sections.insert(key, guarded.clone(), bytes);
        guarded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_the_same_each_time_and_an_empty_one_is_left_out() {
        let static_content = StaticContent::default();
        let make = |text: &str| static_content.section("task", text, Policy::default());
        assert_eq!(make("  \n"), None);
        assert_eq!(make(" a "), make("a"));
    }
}
