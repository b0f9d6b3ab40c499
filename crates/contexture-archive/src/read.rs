//! Reads the lines of an archive, and checks all hashes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;

use contexture_core::ContentHash;
use contexture_store::{ArchiveEntry, StoreError};
use jiff::Timestamp;
use ruzstd::decoding::StreamingDecoder;
use serde::Deserialize;
use serde_json::Value;

use crate::{FORMAT, Part, PartKind, Summary, content_hash};

/// The longest line that is read, in bytes.
const LONGEST: u64 = 1 << 30;

/// The first bytes of a Zstandard frame.
const FRAME: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Returns the error for a file that is not a whole archive.
pub(crate) fn not_an_archive(message: &str) -> StoreError {
    StoreError::invalid("archive", message)
}

/// Returns the error of the operating system that an error comes from, if it does.
fn cause_of_system(error: &io::Error) -> Option<String> {
    if error.raw_os_error().is_some() {
        return Some(error.to_string());
    }
    let mut cause = error.get_ref().map(|cause| cause as &dyn std::error::Error);
    while let Some(current) = cause {
        let found = current.downcast_ref::<io::Error>();
        if found.is_some_and(|found| found.raw_os_error().is_some()) {
            return Some(current.to_string());
        }
        cause = current.source();
    }
    None
}

/// The content of all frames, one after the other.
struct Frames<R: Read> {
    /// `None` between frames only while the next begins.
    state: Option<State<R>>,
}

enum State<R: Read> {
    Between(BufReader<R>),
    Within(Box<StreamingDecoder<BufReader<R>, ruzstd::decoding::FrameDecoder>>),
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.state.take() {
                None => return Err(io::Error::other("was not read to its end before")),
                Some(State::Between(mut rest)) => {
                    if rest.fill_buf()?.is_empty() {
                        self.state = Some(State::Between(rest));
                        return Ok(0);
                    }
                    let decoder = StreamingDecoder::new(rest).map_err(io::Error::other)?;
                    self.state = Some(State::Within(Box::new(decoder)));
                }
                Some(State::Within(mut decoder)) => {
                    let read = decoder.read(buffer)?;
                    if read > 0 {
                        self.state = Some(State::Within(decoder));
                        return Ok(read);
                    }
                    self.state = Some(State::Between(decoder.into_inner()));
                }
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    contexture_archive: u32,
    version: String,
    created_at: Timestamp,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    parts: Vec<Part>,
    rows: u64,
    content: ContentHash,
}

/// A line between rows.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Begin {
        part: PartKind,
        tenant: Option<String>,
    },
    Keys {
        keys: BTreeMap<String, u64>,
    },
    Table {
        table: String,
        columns: Vec<String>,
    },
    End {
        end: PartKind,
        rows: u64,
        hash: ContentHash,
    },
    Manifest {
        manifest: Manifest,
        hash: ContentHash,
    },
}

/// The part that is read.
struct Current {
    part: PartKind,
    tenant: Option<String>,
    hash: blake3::Hasher,
    rows: u64,
}

/// Reads an archive.
pub(crate) struct Reader<R: Read> {
    lines: BufReader<Frames<R>>,
    line: Vec<u8>,
    number: u64,
    header: Header,
    /// Of all lines before the current one.
    all: blake3::Hasher,
    current: Option<Current>,
    parts: Vec<Part>,
    manifest: Option<Manifest>,
}

impl Reader<File> {
    /// Opens an archive. Fails for a file that is not an archive, or that a
    /// newer version wrote.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let cannot = |error: io::Error| StoreError::Backend {
            store: "archive",
            source: format!("{}: {error}", path.display()).into(),
        };
        let mut file = File::open(path).map_err(cannot)?;
        let mut first = [0; FRAME.len()];
        let is_frame = file.read_exact(&mut first).is_ok() && first == FRAME;
        if !is_frame {
            return Err(not_an_archive("is not an archive of Contexture"));
        }
        let file = File::open(path).map_err(cannot)?;
        Self::new(file)
    }
}

impl<R: Read> Reader<R> {
    fn new(source: R) -> Result<Self, StoreError> {
        let state = Some(State::Between(BufReader::with_capacity(256 << 10, source)));
        let mut reader = Self {
            lines: BufReader::with_capacity(256 << 10, Frames { state }),
            line: Vec::new(),
            number: 0,
            header: Header {
                contexture_archive: 0,
                version: String::new(),
                created_at: Timestamp::UNIX_EPOCH,
            },
            all: blake3::Hasher::new(),
            current: None,
            parts: Vec::new(),
            manifest: None,
        };
        // A file of another program can have a first line of any length.
        let is_line = reader.read_line(4096)?;
        let foreign = || not_an_archive("is not an archive of Contexture");
        let first: Value = match is_line {
            true => serde_json::from_slice(&reader.line).map_err(|_| foreign())?,
            false => return Err(foreign()),
        };
        match first.get("contexture_archive").and_then(Value::as_u64) {
            Some(format) if format > u64::from(FORMAT) => {
                let message = format!(
                    "was written by a newer version: its format is {format}, and this version \
                     reads at most {FORMAT}; upgrade Contexture"
                );
                return Err(not_an_archive(&message));
            }
            Some(1..) => {}
            _ => return Err(foreign()),
        }
        reader.header = serde_json::from_value(first).map_err(|_| foreign())?;
        reader.all.update(&reader.line);
        Ok(reader)
    }

    fn wrong(&self, message: &str) -> StoreError {
        not_an_archive(&format!(
            "line {}: {message}; the archive is damaged",
            self.number
        ))
    }

    /// Reads a line. Returns false at the end of the file.
    fn read_line(&mut self, longest: u64) -> Result<bool, StoreError> {
        self.line.clear();
        self.line.shrink_to(4 << 20);
        self.number += 1;
        let mut limited = (&mut self.lines).take(longest);
        let read = limited.read_until(b'\n', &mut self.line);
        if let Err(error) = read {
            let after = self.number - 1;
            let message = match cause_of_system(&error) {
                Some(cause) => format!("cannot be read after line {after}: {cause}"),
                None => format!("is truncated or damaged after line {after}"),
            };
            return Err(not_an_archive(&message));
        }
        match self.line.last() {
            None => Ok(false),
            Some(b'\n') => Ok(true),
            Some(_) => Err(self.wrong("the line has no end, or is too long")),
        }
    }

    fn next_line(&mut self) -> Result<Line, StoreError> {
        let line = serde_json::from_slice(&self.line);
        line.map_err(|_| self.wrong("it is not understood"))
    }

    /// Begins the next part. `None` after the last, when all was found intact.
    pub(crate) fn next_part(&mut self) -> Result<Option<(PartKind, Option<String>)>, StoreError> {
        while self.current.is_some() {
            self.next_entry()?;
        }
        if self.manifest.is_some() {
            return Ok(None);
        }
        if !self.read_line(LONGEST)? {
            return Err(not_an_archive("is truncated"));
        }
        match self.next_line()? {
            Line::Begin { part, tenant } => {
                self.all.update(&self.line);
                if tenant.is_some() != (part == PartKind::Tenant) {
                    return Err(self.wrong("the part has a wrong name"));
                }
                self.current = Some(Current {
                    part,
                    tenant: tenant.clone(),
                    hash: blake3::Hasher::new(),
                    rows: 0,
                });
                Ok(Some((part, tenant)))
            }
            Line::Manifest { manifest, hash } => {
                self.finish(manifest, hash)?;
                Ok(None)
            }
            _ => Err(self.wrong("it belongs to no part")),
        }
    }

    fn finish(&mut self, manifest: Manifest, hash: ContentHash) -> Result<(), StoreError> {
        let all = ContentHash::from_bytes(*self.all.finalize().as_bytes());
        let rows: u64 = self.parts.iter().map(|part| part.rows).sum();
        let is_intact = all == hash
            && manifest.parts == self.parts
            && manifest.rows == rows
            && manifest.content == content_hash(&self.parts);
        if !is_intact {
            return Err(self.wrong("the hashes of the manifest differ"));
        }
        let mut names: Vec<_> = (self.parts.iter())
            .map(|part| (part.part, part.tenant.as_deref()))
            .collect();
        names.sort_unstable();
        names.dedup();
        if names.len() != self.parts.len() {
            return Err(self.wrong("a part is there twice"));
        }
        self.manifest = Some(manifest);
        match self.read_line(LONGEST)? {
            false => Ok(()),
            true => Err(self.wrong("there is more after the manifest")),
        }
    }

    /// Returns the next entry of the part; `None` at its end, when it was found
    /// intact.
    pub(crate) fn next_entry(&mut self) -> Result<Option<ArchiveEntry>, StoreError> {
        if self.current.is_none() {
            return Ok(None);
        }
        if !self.read_line(LONGEST)? {
            return Err(not_an_archive("is truncated"));
        }
        self.all.update(&self.line);
        let Some(current) = &mut self.current else {
            return Ok(None);
        };
        if self.line.first() == Some(&b'[') {
            current.hash.update(&self.line);
            current.rows += 1;
            let cells = serde_json::from_slice(&self.line);
            let cells = cells.map_err(|_| self.wrong("it is not a row"))?;
            return Ok(Some(ArchiveEntry::Row(cells)));
        }
        let line = serde_json::from_slice(&self.line);
        match line {
            Ok(Line::Keys { keys }) => {
                current.hash.update(&self.line);
                Ok(Some(ArchiveEntry::Keys(keys)))
            }
            Ok(Line::Table { table, columns }) => {
                current.hash.update(&self.line);
                let name = table;
                Ok(Some(ArchiveEntry::Table { name, columns }))
            }
            Ok(Line::End { end, rows, hash }) => {
                let found = ContentHash::from_bytes(*current.hash.finalize().as_bytes());
                if (end, rows, hash) != (current.part, current.rows, found) {
                    return Err(self.wrong("the hash of the part differs"));
                }
                let part = Part {
                    part: end,
                    tenant: current.tenant.take(),
                    rows,
                    hash,
                };
                self.parts.push(part);
                self.current = None;
                Ok(None)
            }
            _ => Err(self.wrong("it is not understood")),
        }
    }

    /// Returns the hash of the part that ended last.
    pub(crate) fn last_hash(&self) -> Option<ContentHash> {
        match self.current {
            Some(_) => None,
            None => self.parts.last().map(|part| part.hash),
        }
    }

    /// Returns the contents of the archive, after it was read.
    pub(crate) fn summary(self) -> Result<Summary, StoreError> {
        let Some(manifest) = self.manifest else {
            return Err(not_an_archive("is truncated"));
        };
        Ok(Summary {
            format: self.header.contexture_archive,
            version: self.header.version,
            created_at: self.header.created_at,
            parts: manifest.parts,
            rows: manifest.rows,
            content: manifest.content,
        })
    }
}
