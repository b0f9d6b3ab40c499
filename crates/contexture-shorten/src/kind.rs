//! Detects the kind of text of a tool result.

use crate::hint::Hint;
use crate::{code, diff, json};

/// The kind of a tool result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A log, or the output of a command.
    Log,
    /// A JSON object or list.
    Json,
    /// A diff in the unified format.
    Diff,
    /// Source code in a language that has a grammar.
    Code,
    /// Any other text.
    Plain,
}

impl Kind {
    /// Returns the kind of a text.
    pub(crate) fn of(text: &str, hint: &Hint<'_>) -> Self {
        if json::is_json(text) {
            return Kind::Json;
        }
        if diff::is_diff(text) {
            return Kind::Diff;
        }
        if code::language(text, hint).is_some() {
            return Kind::Code;
        }
        // A word such as "error" in a document is not a failure.
        match hint.extension() {
            Some(extension) if is_document(&extension) => Kind::Plain,
            _ => Kind::Log,
        }
    }
}

/// Returns true for file name extensions that are not those of logs.
fn is_document(extension: &str) -> bool {
    !matches!(extension, "log" | "out" | "err" | "txt" | "trace")
}
