//! The counts of objects that an import found and added.

use contexture_store::ImportStep;
use serde::Serialize;

/// The number of objects that an import added, or would add in a dry run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// New sessions.
    pub sessions: u64,
    /// New turns.
    pub turns: u64,
    /// New compactions.
    pub compactions: u64,
    /// New requests.
    pub requests: u64,
    /// New trees.
    pub trees: u64,
    /// New nodes of trees.
    pub nodes: u64,
    /// The number of rows that are not understood. They are stored.
    pub unknown: u64,
    /// Rows that are not understood and of which only the beginning is stored.
    pub unknown_truncated: u64,
    /// Lines or conversations over the limit, which are left out.
    pub too_long: u64,
    /// Requests that the file does not hold completely.
    pub incomplete_requests: u64,
    /// Messages or requests whose content does not match the file's own digest.
    pub digest_mismatches: u64,
    /// Turns that could not be stored.
    pub skipped: u64,
    /// Files whose end is still being written. A later import records it.
    pub unfinished: u64,
}

impl Counts {
    /// Returns the counts of a step.
    pub(crate) fn of(step: &ImportStep) -> Self {
        let mut counts = Self::default();
        match step {
            ImportStep::Session { .. } => counts.sessions = 1,
            ImportStep::Turn { .. } => counts.turns = 1,
            ImportStep::Compaction { .. } => counts.compactions = 1,
            ImportStep::Snapshot { .. } => counts.requests = 1,
            ImportStep::Head { .. }
            | ImportStep::ContentSince(_)
            | ImportStep::Content(_)
            | ImportStep::Cursor(_)
            | ImportStep::State { .. }
            | ImportStep::Root { .. }
            | ImportStep::Row(_) => {}
        }
        counts
    }

    pub(crate) fn found(&mut self, step: &ImportStep) {
        self.add(&Self::of(step));
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.turns += other.turns;
        self.compactions += other.compactions;
        self.requests += other.requests;
        self.trees += other.trees;
        self.nodes += other.nodes;
        self.unknown += other.unknown;
        self.unknown_truncated += other.unknown_truncated;
        self.too_long += other.too_long;
        self.incomplete_requests += other.incomplete_requests;
        self.digest_mismatches += other.digest_mismatches;
        self.skipped += other.skipped;
        self.unfinished += other.unfinished;
    }

    /// Returns true if nothing was added.
    pub fn is_nothing_new(&self) -> bool {
        self.sessions + self.turns + self.compactions + self.requests + self.trees + self.nodes == 0
    }
}
