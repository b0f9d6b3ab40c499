//! The working set as JSON for programs.

use contexture_core::guard::Policy;
use contexture_core::{Content, Counts, Cut, Role, Tokens};
use contexture_engine::lines::load_file;
use serde::Serialize;

use super::{Candidate, Hints, Manifest};
use crate::files::Root;
use crate::load::item_of;

/// A working set: the files that requests are assembled from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkingSet {
    /// The path of the manifest, relative to the root.
    pub manifest: String,
    /// The size of the context window in tokens, if the manifest sets one.
    pub max_tokens: Option<Tokens>,
    /// The number of tokens reserved for the response, if the manifest sets it.
    pub reserved_for_response: Option<Tokens>,
    /// The files that match the entries, in the manifest's order.
    pub files: Vec<WorkingSetFile>,
}

/// A file of a working set.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkingSetFile {
    /// The path relative to the root, with the line range.
    pub path: String,
    /// The manifest entry that matches the file.
    pub entry: String,
    /// The line of the entry in the manifest, from 1.
    pub line: usize,
    /// The priority, from 0 to 1, after hints.
    pub priority: f64,
    /// The priority in the manifest, from 0 to 1.
    pub base_priority: f64,
    /// The role that the content is sent as.
    pub role: Role,
    /// The part of the file that a cut removes.
    pub truncate_strategy: Cut,
    /// The maximum number of lines to show. Null for all.
    pub max_lines: Option<u32>,
    /// The maximum number of tokens, tags included. Null for no limit.
    pub max_tokens: Option<Tokens>,
    /// The number of tokens of the file, tags included. Absent if it was not
    /// counted or cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Whether the file is pinned: it is included whole, or the call fails.
    pub pinned: bool,
    /// `ok`, or the reason why the file cannot be read.
    pub status: String,
}

impl WorkingSet {
    /// Lists the files that a manifest [matches](super::expand).
    pub fn of(
        root: &Root,
        manifest: &Manifest,
        hints: &Hints,
        candidates: &[Candidate<'_>],
    ) -> Self {
        let file = |candidate: &Candidate<'_>| {
            let entry = candidate.entry;
            WorkingSetFile {
                path: candidate.id.clone(),
                entry: entry.id(),
                line: entry.line,
                priority: hints.priority(&candidate.path, entry),
                base_priority: entry.priority,
                role: entry.role,
                truncate_strategy: entry.cut,
                max_lines: entry.max_lines,
                max_tokens: entry.max_tokens,
                tokens: None,
                pinned: entry.is_pinned(),
                status: candidate.status(root),
            }
        };
        Self {
            manifest: manifest.path.clone(),
            max_tokens: manifest.max_tokens,
            reserved_for_response: manifest.reserved_for_response,
            files: candidates.iter().map(file).collect(),
        }
    }

    /// Counts the tokens of the files that can be read. `candidates` are the
    /// files of the list.
    pub fn count(
        &mut self,
        root: &Root,
        candidates: &[Candidate<'_>],
        counts: &Counts,
        max_file_bytes: u64,
    ) {
        let hints = Hints::default();
        for (file, candidate) in self.files.iter_mut().zip(candidates) {
            let mut item = item_of(root, &hints, Policy::default(), candidate.clone());
            item.content = load_file(root, max_file_bytes, &item);
            match &item.content {
                Content::Ready(text) => {
                    file.tokens = Some(counts.count_of(text) + counts.overhead_of(&item));
                }
                Content::Absent { reason, .. } if file.status == "ok" => {
                    file.status.clone_from(reason);
                }
                _ => {}
            }
        }
    }
}
