//! The working set as JSON for programs.

use contexture_core::{Cut, Role, Tokens};
use serde::Serialize;

use super::{Candidate, Hints, Manifest};
use crate::files::Root;

/// A working set.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkingSet {
    /// The manifest, relative to the root.
    pub manifest: String,
    /// The whole window, when it states one.
    pub max_tokens: Option<Tokens>,
    /// What it sets aside for the response.
    pub reserved_for_response: Option<Tokens>,
    /// The files that its entries stand for, in its order.
    pub files: Vec<WorkingSetFile>,
}

/// A file of a working set.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkingSetFile {
    /// The path below the root, with its line range.
    pub path: String,
    /// The entry of the manifest that it comes from.
    pub entry: String,
    /// The line that the entry stands on.
    pub line: usize,
    /// Its priority, from 0 to 1, as hints have moved it.
    pub priority: f64,
    /// The priority in the manifest, from 0 to 1.
    pub base_priority: f64,
    /// The role: system, user, assistant, context and others.
    pub role: Role,
    /// Which part may be removed when it does not fit.
    pub truncate_strategy: Cut,
    /// Most lines to show.
    pub max_lines: Option<u32>,
    /// Whether it is always there: whole, or the call fails.
    pub pinned: bool,
    /// `ok`, or why it cannot be read.
    pub status: String,
}

impl WorkingSet {
    /// Lists the files that a manifest [stands for](super::expand).
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
}
