//! Claude Code: one JSON row per content block, in
//! `projects/SLUG/SESSION.jsonl`.
//!
//! Rows form a tree by `parentUuid`. The rows of one answer have one
//! `message.id`; results of its calls are children of its rows. A turn here is
//! one answer with all messages since the answer before it, so that a turn is
//! one call of the model, with its usage and its request.
//!
//! A rewind is another child of an earlier row. A fork is a new file that
//! begins with the same rows. Rows with `isSidechain` belong to a sub-agent, in
//! the same file or in a file of its own. `api-request` rows describe the sent
//! requests.

mod graph;
mod reader;
mod request_digest;
mod row;
mod sent;

use std::path::{Path, PathBuf};

use crate::error::ImportError;
use crate::file::SourceFile;
use crate::format::{Environment, Format};
use crate::lines::Line;
use crate::writer::Writer;
use reader::Reader;

/// The format of Claude Code.
pub(crate) struct ClaudeCode;

/// The name of the format, which labels of sessions begin with.
const NAME: &str = "claude-code";

impl Format for ClaudeCode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Claude Code"
    }

    fn places(&self, environment: &Environment) -> Vec<PathBuf> {
        let configured = environment.variable("CLAUDE_CONFIG_DIR");
        let homes = match configured {
            Some(directory) => vec![directory.to_owned()],
            None => [".claude", ".config/claude"]
                .iter()
                .filter_map(|path| environment.in_home(path))
                .collect(),
        };
        homes.iter().map(|home| home.join("projects")).collect()
    }

    fn is_transcript(&self, path: &Path) -> bool {
        path.extension()
            .is_some_and(|extension| extension == "jsonl")
    }

    fn grows(&self) -> bool {
        true
    }

    fn read(&self, file: &mut SourceFile<'_>, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        let mut reader = Reader::new(file, writer)?;
        let mut lines = file.lines()?;
        let failed = |error| ImportError::file(file.path, error);
        while let Some(line) = lines.next().map_err(failed)? {
            match line {
                Line::Text { offset, bytes } => reader.row(offset, bytes, writer)?,
                Line::TooLong { .. } => writer.counts.too_long += 1,
            }
        }
        let end = lines.offset();
        reader.finish(end, file, writer)
    }
}
