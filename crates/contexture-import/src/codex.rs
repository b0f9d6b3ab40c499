//! Codex: rollouts, `sessions/YEAR/MONTH/DAY/rollout-TIME-THREAD.jsonl`, or
//! `.jsonl.zst` for old ones.
//!
//! A rollout is a list of the items of the conversation, in the form of
//! OpenAI's Responses API. The items before an answer were sent with its
//! request. A `compacted` row replaces them. A `thread_rolled_back` event
//! retracts the latest turns of the user.

mod items;
mod position;
mod reader;
mod row;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::ImportError;
use crate::file::{Rest, SourceFile};
use crate::format::{Environment, Format};
use crate::lines::{Line, Lines};
use crate::writer::Writer;
use reader::Reader;

/// The format of Codex.
pub(crate) struct Codex;

/// The name of the format, which labels of sessions begin with.
const NAME: &str = "codex";

impl Format for Codex {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Codex"
    }

    fn places(&self, environment: &Environment) -> Vec<PathBuf> {
        let configured = environment.variable("CODEX_HOME").map(Path::to_owned);
        let home = configured.or_else(|| environment.in_home(".codex"));
        let home = home.into_iter();
        home.flat_map(|home| [home.join("sessions"), home.join("archived_sessions")])
            .collect()
    }

    fn is_transcript(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("rollout-") && (name.ends_with(".jsonl") || name.ends_with(".jsonl.zst"))
    }

    fn grows(&self) -> bool {
        true
    }

    fn read(&self, file: &mut SourceFile<'_>, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        let is_packed = file.path.extension().is_some_and(|it| it == "zst");
        if !is_packed {
            let mut reader = Reader::new(file, writer)?;
            let end = rows(file, file.lines()?, &mut reader, writer)?;
            return reader.finish(end, file, writer);
        }
        // A packed file does not grow.
        file.offset = 0;
        file.rest = Rest::default();
        let mut reader = Reader::new(file, writer)?;
        let packed = File::open(file.path).map_err(|error| ImportError::file(file.path, error))?;
        let unpacked = ruzstd::decoding::StreamingDecoder::new(std::io::BufReader::new(packed));
        let unpacked = unpacked.map_err(|_| not_zstd(file))?;
        let end = rows(
            file,
            Lines::new(unpacked, 0, file.max_line),
            &mut reader,
            writer,
        )?;
        reader.finish(end, file, writer)?;
        file.new_offset = 0;
        Ok(())
    }
}

fn not_zstd(file: &SourceFile<'_>) -> ImportError {
    file.refuse("is not a zstd file, or is damaged; check it with `zstd -t`")
}

fn rows<R: Read>(
    file: &SourceFile<'_>,
    mut lines: Lines<R>,
    reader: &mut Reader,
    writer: &mut Writer<'_>,
) -> Result<u64, ImportError> {
    let failed = |error: std::io::Error| {
        let is_packed = file.path.extension().is_some_and(|it| it == "zst");
        match error.raw_os_error() {
            // The decoder found the error.
            None if is_packed => not_zstd(file),
            _ => ImportError::file(file.path, error),
        }
    };
    while let Some(line) = lines.next().map_err(failed)? {
        match line {
            Line::Text { offset, bytes } => reader.row(offset, bytes, writer)?,
            Line::TooLong { .. } => writer.counts.too_long += 1,
        }
    }
    Ok(lines.offset())
}
