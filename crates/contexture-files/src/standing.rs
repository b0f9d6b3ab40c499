//! What an agent is told before the conversation: workspace, persona,
//! environment, runtime, its role and its tools.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use contexture_core::guard::Policy;
use contexture_core::{Content, Item, Role, Text, Trust};

use crate::by_file::ByFile;
use crate::tools::Toolbox;

/// What was made of what stands still: files of the operator, tools, sections of
/// the system prompt. It is read, guarded and counted once, until it changes.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    pub(crate) files: ByFile<Content>,
    pub(crate) toolboxes: ByFile<Arc<Toolbox>>,
    sections: Mutex<Sections>,
}

#[derive(Debug, Default)]
struct Sections {
    known: BTreeMap<(bool, bool, String), Text>,
    bytes: usize,
}

/// The most bytes of sections that are kept.
const MOST_SECTIONS: usize = 4 << 20;

impl Standing {
    /// Returns a pinned section of the system prompt, or nothing when it is
    /// empty.
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
        let key = (policy.mask_secrets, policy.between_tags, text.to_owned());
        let lock = || self.sections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().known.get(&key) {
            return known.clone();
        }
        let guarded = Text::guarded(text, policy);
        let mut sections = lock();
        if sections.bytes > MOST_SECTIONS {
            *sections = Sections::default();
        }
        sections.bytes += 2 * text.len() + 512;
        sections.known.insert(key, guarded.clone());
        guarded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_made_once_and_do_not_grow_without_bound() {
        let standing = Standing::default();
        let make = |text: &str| standing.section("task", text, Policy::default());
        assert_eq!(make("  \n"), None);
        assert_eq!(make(" a "), make("a"));
        for n in 0..200 {
            make(&format!("{n} {}", "x".repeat(100_000)));
            let sections = standing.sections.lock().unwrap();
            let held: usize = sections
                .known
                .values()
                .map(|text| text.as_str().len())
                .sum();
            assert!(held <= MOST_SECTIONS, "{held}");
        }
    }
}
