//! The files of a working set as items.
//!
//! An item has the path, the priority and the strategy of its entry, and no
//! content yet. The engine loads the content when the fit could use it, in the
//! order of priority.

use std::sync::Arc;

use contexture_core::guard::Policy;
use contexture_core::{Content, Item, Role, Trust};
use contexture_engine::lines::load_file;
use contexture_engine::source::Loader;
use contexture_engine::{Error, Root, Unusable};

use crate::working_set::{Candidate, Hints, Manifest, expand};

/// Returns an item for each file that the manifest matches.
pub(crate) fn working_set(
    root: &Root,
    max_file_bytes: u64,
    manifest: &Manifest,
    hints: &Hints,
    policy: Policy,
    warnings: &mut Vec<String>,
) -> Result<Vec<Item>, Error> {
    let candidates = expand(root, manifest, warnings)?;
    let below = root.clone();
    let loader = Loader::new(move |item| load_file(&below, max_file_bytes, item));
    let loader = Arc::new(loader);
    Ok(candidates
        .into_iter()
        .map(|candidate| item_of(root, hints, policy, candidate).data(Arc::clone(&loader)))
        .collect())
}

pub(crate) fn item_of(
    root: &Root,
    hints: &Hints,
    policy: Policy,
    candidate: Candidate<'_>,
) -> Item {
    let size = candidate.size(root);
    let Candidate {
        id,
        path,
        entry,
        problem,
        ..
    } = candidate;
    let content = match size {
        // The size of a part of a file is known only after reading.
        Ok(_) if entry.lines.is_some() => Content::Pending { bytes: 0, policy },
        Ok(bytes) => Content::Pending { bytes, policy },
        Err(Unusable { code, reason }) => Content::Absent { code, reason },
    };
    let priority = hints.priority(&path, entry);
    let id: Arc<str> = id.into();
    Item {
        path: Some(Arc::clone(&id)),
        trust: match entry.role {
            Role::System | Role::Developer => Trust::Operator,
            Role::User => Trust::User,
            _ if path.contains("/sessions/") && path.contains("/tool/") => Trust::Tool,
            _ => Trust::Retrieved,
        },
        priority,
        base_priority: hints.get(&path).map(|_| entry.priority),
        cut: entry.cut,
        max_lines: entry.max_lines,
        max_tokens: entry.max_tokens,
        first_line: entry.lines.map_or(1, |lines| lines.first),
        pinned: entry.is_pinned() && problem.is_none(),
        ..Item::with_content(id, entry.role, content)
    }
}
