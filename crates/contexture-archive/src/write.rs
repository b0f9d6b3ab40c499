//! Writes the lines of an archive, in compressed frames.

use std::io::{self, Write};

use contexture_core::ContentHash;
use contexture_store::{ArchiveEntry, Store, StoreError};
use jiff::Timestamp;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{FORMAT, Part, PartKind, Summary, content_hash};

/// The minimum number of bytes of lines in a frame, except for the last.
const FRAME: usize = 1 << 20;

/// Writes an archive.
pub(crate) struct Writer<W> {
    out: W,
    frame: Vec<u8>,
    /// Of all lines.
    all: blake3::Hasher,
    part: Option<(PartKind, Option<String>, Lines)>,
    parts: Vec<Part>,
    created_at: Timestamp,
}

/// The hash and the number of the rows of a part.
#[derive(Default)]
struct Lines {
    hash: blake3::Hasher,
    rows: u64,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(out: W, now: Timestamp) -> Result<Self, StoreError> {
        let mut writer = Self {
            out,
            frame: Vec::new(),
            all: blake3::Hasher::new(),
            part: None,
            parts: Vec::new(),
            created_at: now,
        };
        let version = env!("CARGO_PKG_VERSION");
        writer.line(&json!({
            "contexture_archive": FORMAT,
            "version": version,
            "created_at": now,
        }))?;
        Ok(writer)
    }

    pub(crate) fn begin(&mut self, part: PartKind, tenant: Option<&str>) -> Result<(), StoreError> {
        match tenant {
            Some(tenant) => self.line(&json!({"part": part, "tenant": tenant}))?,
            None => self.line(&json!({"part": part}))?,
        }
        self.part = Some((part, tenant.map(str::to_owned), Lines::default()));
        Ok(())
    }

    pub(crate) fn entry(&mut self, entry: &ArchiveEntry) -> Result<(), StoreError> {
        match entry {
            ArchiveEntry::Row(cells) => self.line(cells),
            other => self.line(&line_of(other)),
        }?;
        if let Some((_, _, lines)) = &mut self.part {
            lines.rows += u64::from(matches!(entry, ArchiveEntry::Row(_)));
        }
        Ok(())
    }

    pub(crate) fn end(&mut self) -> Result<(), StoreError> {
        let Some((part, tenant, lines)) = self.part.take() else {
            return Ok(());
        };
        let hash = ContentHash::from_bytes(*lines.hash.finalize().as_bytes());
        self.line(&json!({"end": part, "rows": lines.rows, "hash": hash}))?;
        self.parts.push(Part {
            part,
            tenant,
            rows: lines.rows,
            hash,
        });
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<Summary, StoreError> {
        let rows = self.parts.iter().map(|part| part.rows).sum();
        let content = content_hash(&self.parts);
        let all = ContentHash::from_bytes(*self.all.finalize().as_bytes());
        let manifest = json!({"parts": self.parts, "rows": rows, "content": content});
        self.line(&json!({"manifest": manifest, "hash": all}))?;
        self.flush()?;
        self.out.flush().map_err(|error| failed(&error))?;
        Ok(Summary {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            created_at: self.created_at,
            parts: self.parts,
            rows,
            content,
        })
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), StoreError> {
        let from = self.frame.len();
        to_line(value, &mut self.frame)?;
        let line = &self.frame[from..];
        self.all.update(line);
        if let Some((_, _, lines)) = &mut self.part {
            lines.hash.update(line);
        }
        match self.frame.len() >= FRAME {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let frame = compressed(&self.frame);
        self.frame.clear();
        // The memory of a single large row is released.
        self.frame.shrink_to(2 * FRAME);
        self.out.write_all(&frame).map_err(|error| failed(&error))
    }
}

/// Returns the lines as a frame. It is read again before it is used: an archive
/// may be all that is left of the data.
fn compressed(lines: &[u8]) -> Vec<u8> {
    let frame = compress_to_vec(lines, CompressionLevel::Fastest);
    match is_frame_of(&frame, lines) {
        true => frame,
        false => compress_to_vec(lines, CompressionLevel::Uncompressed),
    }
}

fn is_frame_of(frame: &[u8], lines: &[u8]) -> bool {
    let Ok(mut decoder) = StreamingDecoder::new(frame) else {
        return false;
    };
    let mut rest = lines;
    let mut some = vec![0; 64 << 10];
    loop {
        match io::Read::read(&mut decoder, &mut some) {
            Ok(0) => return rest.is_empty(),
            Ok(read) => match rest.strip_prefix(&some[..read]) {
                Some(more) => rest = more,
                None => return false,
            },
            Err(_) => return false,
        }
    }
}

fn to_line(value: &impl Serialize, line: &mut Vec<u8>) -> Result<(), StoreError> {
    serde_json::to_writer(&mut *line, value).map_err(|error| StoreError::Backend {
        store: "archive",
        source: Box::new(error),
    })?;
    line.push(b'\n');
    Ok(())
}

fn line_of(entry: &ArchiveEntry) -> Value {
    match entry {
        ArchiveEntry::Keys(keys) => json!({"keys": keys}),
        ArchiveEntry::Table { name, columns } => json!({"table": name, "columns": columns}),
        ArchiveEntry::Row(cells) => json!(cells),
    }
}

/// Returns the hash that the part of a tenant would have in an archive.
pub(crate) fn hash_of(store: &dyn Store) -> Result<ContentHash, StoreError> {
    let mut hash = blake3::Hasher::new();
    let mut line = Vec::new();
    store.export_entries(&mut |entry| {
        line.clear();
        match &entry {
            ArchiveEntry::Row(cells) => to_line(cells, &mut line)?,
            other => to_line(&line_of(other), &mut line)?,
        }
        hash.update(&line);
        Ok(())
    })?;
    Ok(ContentHash::from_bytes(*hash.finalize().as_bytes()))
}

fn failed(error: &io::Error) -> StoreError {
    if error.kind() == io::ErrorKind::StorageFull {
        let store = "the archive".to_owned();
        return StoreError::Full { store };
    }
    StoreError::Backend {
        store: "archive",
        source: format!("cannot be written: {error}").into(),
    }
}
