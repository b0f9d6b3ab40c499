//! Edits a user's `working-set.yml` without disturbing the rest of it.
//!
//! A manifest is written and commented by people, so an edit must not pass it through a
//! serializer. Instead the text is parsed for source positions, and only the bytes of the change
//! are spliced: comments, blank lines, quoting, indentation, key order and line ends stay.
//!
//! Every edit is checked before it is returned. The result is parsed again and compared with the
//! source's data after the same change; if they differ, the answer is
//! `EditError::Unsupported` and never damaged text.
//!
//! This module does no I/O, does not expand aliases, and does not judge whether the manifest is
//! complete.

mod document;
mod scalar;
mod tree;

use std::fmt;

use document::Document;

/// The largest manifest, in bytes, before or after an edit.
const MAX_BYTES: usize = 4 << 20;
/// The most values, keys included, in one manifest.
const MAX_NODES: usize = 500_000;
/// The maximum nesting depth of collections, counted separately for block and
/// flow style. It bounds recursion.
const MAX_DEPTH: usize = 64;
/// Entry fields whose value is a whole number; all others are text.
const NUMBER_FIELDS: [&str; 1] = ["max_lines"];

/// One change to a manifest.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// Adds an entry at the end of `files`, in the style of the entries there; creates `files`
    /// when it is missing.
    Add {
        /// The path of the entry; it must not be listed yet.
        path: String,
        /// The priority, in 0..=1.
        priority: f64,
        /// Further fields in order. Values are text, except for `max_lines`.
        fields: Vec<(String, String)>,
    },
    /// Removes an entry with its comments: those on its lines, a block directly above it at the
    /// same indentation, and lines directly below it that are indented deeper.
    ///
    /// Removing the last entry of a block list leaves `files:` without a value.
    Remove {
        /// The path of the entry.
        path: String,
    },
    /// Sets the priority of an entry and keeps everything else on that line.
    SetPriority {
        /// The path of the entry.
        path: String,
        /// The priority, in 0..=1.
        priority: f64,
    },
    /// Sets `metadata.<key>` to a text; creates `metadata` at the end of the document when it is
    /// missing.
    SetMetadata {
        /// The key below `metadata`.
        key: String,
        /// The text it gets.
        value: String,
    },
}

/// The reason why a manifest was not changed. Lines and columns start at 1; a
/// column counts characters.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditError {
    /// No entry has this path.
    NotFound {
        /// The path in the edit.
        path: String,
    },
    /// The path of an `Add` is listed already.
    Duplicate {
        /// The path that was to be added.
        path: String,
    },
    /// The manifest is valid, but this change cannot be made safely in place.
    Unsupported {
        /// The line of the obstacle.
        line: usize,
        /// The column of the obstacle.
        column: usize,
        /// The reason why the text cannot be edited in place.
        reason: String,
    },
    /// The manifest is not valid YAML.
    Parse {
        /// The line of the fault.
        line: usize,
        /// The column of the fault.
        column: usize,
        /// The message of the parser.
        message: String,
    },
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::NotFound { path } => {
                write!(f, "`{path}` is not listed in `files`; add it first")
            }
            EditError::Duplicate { path } => write!(
                f,
                "`{path}` is already listed in `files`; set its priority or remove it first"
            ),
            EditError::Unsupported {
                line,
                column,
                reason,
            } => {
                write!(f, "line {line}, column {column}: {reason}; edit it by hand")
            }
            EditError::Parse {
                line,
                column,
                message,
            } => write!(
                f,
                "line {line}, column {column}: {message}; correct the YAML and try again"
            ),
        }
    }
}

impl std::error::Error for EditError {}

/// Applies `edits` in order to `source`: all of them, or an error and nothing.
///
/// The source is parsed even when there are no edits, so a broken manifest is always an error.
///
/// # Examples
///
/// ```
/// use contexture_files::working_set::edit::{Edit, apply};
///
/// let source = "files:\n  - path: a.md  # mine\n    priority: 0.5  # for now\n";
/// let edit = Edit::SetPriority { path: "a.md".into(), priority: 1.0 };
/// assert_eq!(
///     apply(source, &[edit])?,
///     "files:\n  - path: a.md  # mine\n    priority: 1.0  # for now\n",
/// );
/// # Ok::<(), contexture_files::working_set::edit::EditError>(())
/// ```
pub fn apply(source: &str, edits: &[Edit]) -> Result<String, EditError> {
    let mut document = Document::parse(source.to_owned())?;
    for edit in edits {
        let change = match edit {
            Edit::Add {
                path,
                priority,
                fields,
            } => document.add(path, *priority, fields),
            Edit::Remove { path } => document.remove(path),
            Edit::SetPriority { path, priority } => document.set_priority(path, *priority),
            Edit::SetMetadata { key, value } => document.set_metadata(key, value),
        }?;
        document = document.changed(change)?;
    }
    Ok(document.text)
}
