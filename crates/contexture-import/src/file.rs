//! [`SourceFile`]: a file that is imported, with where its import is.

use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use contexture_core::ContentHash;
use contexture_store::ImportCursor;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::error::ImportError;
use crate::lines::Lines;
use crate::writer::LaterState;

/// The number of bytes at the beginning and at the end of the imported part
/// that are hashed.
const EDGE: u64 = 64 * 1024;

/// How long a watched file must be unchanged before an answer at its end is recorded
/// that has a reason for its end. Its rows may all have one.
const PAUSE: Duration = Duration::from_secs(2);

/// How long ago a file was changed. It decides whether the end of the file is
/// recorded, or held back because more may follow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rest {
    age: Duration,
    // The age of the file itself. A copy is younger than its rows.
    file_age: Duration,
    // Whether the rows must be young, too.
    by_rows: bool,
    settle: Duration,
    // The same for an end that looks complete.
    pause: Duration,
}

impl Rest {
    /// Returns the time for which the file must be unchanged before its end is
    /// recorded. `is_complete`: whether the end looks complete.
    fn needed(self, is_complete: bool) -> Duration {
        match is_complete {
            true => self.pause,
            false => self.settle,
        }
    }

    /// Returns true if the end of the file can be recorded. Otherwise, `held`
    /// becomes the earliest time for which it can.
    pub(crate) fn allows(self, is_complete: bool, held: &mut Option<Duration>) -> bool {
        let needed = self.needed(is_complete);
        if self.age >= needed {
            return true;
        }
        *held = Some(held.map_or(needed, |held| held.min(needed)));
        false
    }

    /// Returns the rest of a file whose last row has this time.
    pub(crate) fn since(self, last_row: Option<Timestamp>) -> Self {
        match last_row {
            Some(at) if self.by_rows => Self {
                age: self.file_age.max(age(at)),
                ..self
            },
            _ => self,
        }
    }

    /// Returns the same for a part of the file that was changed at this time.
    pub(crate) fn is_settled_since(self, changed: Timestamp) -> bool {
        age(changed) >= self.settle
    }

    /// Returns true if nothing more is expected.
    pub(crate) fn is_settled(self) -> bool {
        self.age >= self.settle
    }
}

/// A file that is imported.
pub struct SourceFile<'a> {
    /// The path of the file.
    pub path: &'a Path,
    /// The path in its stored form.
    pub name: String,
    /// The state of the reader after it last read the file. If the file is read
    /// from the beginning again, the state shows what is already imported.
    pub state: Option<Vec<u8>>,
    /// The offset to continue at, in bytes. Zero for the whole file.
    pub offset: u64,
    /// The longest line that is read, in bytes.
    pub max_line: usize,
    /// The time that is used where the file has none.
    pub now: Timestamp,
    /// Whether to record messages at the end that have no answer yet.
    pub with_tail: bool,
    /// The state to store, set by the reader.
    pub new_state: Vec<u8>,
    // The same state, if it contains ids of turns.
    pub(crate) later_state: Option<LaterState>,
    /// The offset up to which the file was read, set by the reader.
    pub new_offset: u64,
    /// The time zone of times without one.
    pub zone: TimeZone,
    pub(crate) rest: Rest,
    // The time after the last change at which the end of the file can be
    // recorded, if the reader held it back.
    pub(crate) held: Option<Duration>,
    metadata: Metadata,
    // The log of a SQLite file, which holds its latest changes.
    log: Option<Metadata>,
}

impl<'a> SourceFile<'a> {
    /// Opens a file for reading from its beginning.
    pub fn open(path: &'a Path, now: Timestamp, max_line: usize) -> Result<Self, ImportError> {
        let metadata = std::fs::metadata(path).map_err(|error| ImportError::file(path, error))?;
        Ok(Self {
            path,
            name: stored_name(path),
            state: None,
            offset: 0,
            max_line,
            now,
            with_tail: true,
            new_state: Vec::new(),
            later_state: None,
            new_offset: 0,
            zone: TimeZone::UTC,
            rest: Rest::default(),
            held: None,
            metadata,
            log: log_of(path),
        })
    }

    /// Returns the size of the file when it was opened.
    pub fn size(&self) -> u64 {
        self.metadata.len()
    }

    /// Returns the time of the last change, in Unix nanoseconds.
    pub fn modified(&self) -> i64 {
        let of_log = self.log.as_ref().and_then(|log| log.modified().ok());
        let modified = self.metadata.modified().ok().max(of_log);
        let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        since.map_or(0, |since| {
            i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
        })
    }

    /// Returns the identity of the file in the file system.
    pub fn identity(&self) -> String {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            format!("{}:{}", self.metadata.dev(), self.metadata.ino())
        }
        #[cfg(not(unix))]
        String::new()
    }

    /// Sets how long a file must be unchanged before its end is recorded. `by_rows`:
    /// whether its last row must be young, too, for the end to be held back.
    pub(crate) fn settle(&mut self, settle: Duration, by_rows: bool) {
        let age = u64::try_from(unix_now().saturating_sub(self.modified())).unwrap_or(0);
        let file_age = Duration::from_nanos(age);
        self.rest = Rest {
            // Until a reader finds the time of the last row.
            age: match by_rows {
                true => Duration::MAX,
                false => file_age,
            },
            file_age,
            by_rows,
            settle,
            pause: match self.with_tail {
                true => Duration::ZERO,
                false => settle.min(PAUSE),
            },
        };
    }

    /// Returns true if nothing has changed since `cursor` was saved.
    pub fn is_unchanged(&self, cursor: &ImportCursor) -> bool {
        cursor.size == self.size()
            && cursor.identity == self.identity()
            && match cursor.modified {
                // The end was held back until this time. A file that grew has
                // another size; one with a log may not.
                held if held < 0 => {
                    let is_due = unix_now() >= held.saturating_neg() || self.rest.settle.is_zero();
                    self.log.is_none() && !is_due
                }
                modified => modified == self.modified(),
            }
    }

    /// Returns true if the imported part is still the beginning of the file.
    pub fn continues(&self, cursor: &ImportCursor) -> Result<bool, ImportError> {
        if cursor.offset == 0 || cursor.offset > self.size() {
            return Ok(false);
        }
        Ok(self.hash(cursor.offset)? == cursor.hash)
    }

    /// Returns the cursor after the file was read.
    pub fn cursor(&self, source: &str, unknown: u64) -> Result<ImportCursor, ImportError> {
        Ok(ImportCursor {
            source: source.to_owned(),
            file: self.name.clone(),
            identity: self.identity(),
            size: self.size(),
            modified: match self.held {
                // Negative: the time from which the end is read again.
                Some(held) => {
                    let held = i64::try_from(held.as_nanos()).unwrap_or(i64::MAX);
                    self.modified().saturating_add(held).max(1).saturating_neg()
                }
                None => self.modified(),
            },
            offset: self.new_offset,
            hash: self.hash(self.new_offset)?,
            unknown,
        })
    }

    /// Returns a hash of the edges of the first `length` bytes.
    fn hash(&self, length: u64) -> Result<ContentHash, ImportError> {
        let failed = |error| ImportError::file(self.path, error);
        let mut file = File::open(self.path).map_err(failed)?;
        let mut bytes = length.to_le_bytes().to_vec();
        (&mut file)
            .take(length.min(EDGE))
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        let rest = length.saturating_sub(EDGE).min(EDGE);
        file.seek(SeekFrom::Start(length - rest)).map_err(failed)?;
        file.take(rest).read_to_end(&mut bytes).map_err(failed)?;
        Ok(ContentHash::of(&bytes))
    }

    /// Opens the file at the position of the last import.
    pub fn reader(&self) -> Result<File, ImportError> {
        let failed = |error| ImportError::file(self.path, error);
        let mut file = File::open(self.path).map_err(failed)?;
        file.seek(SeekFrom::Start(self.offset)).map_err(failed)?;
        Ok(file)
    }

    /// Returns the lines of the file after the last import. Bytes that are
    /// added meanwhile are read by the next import.
    pub fn lines(&self) -> Result<Lines<std::io::Take<File>>, ImportError> {
        let left = self.size().saturating_sub(self.offset);
        let reader = self.reader()?.take(left);
        Ok(Lines::new(reader, self.offset, self.max_line))
    }

    /// Returns the whole file, if it is not larger than `max` bytes.
    pub fn bytes(&self, max: u64) -> Result<Vec<u8>, ImportError> {
        if self.size() > max {
            return Err(self.refuse(format!(
                "is {} bytes; files of this format are read whole, up to {max} bytes",
                self.size()
            )));
        }
        std::fs::read(self.path).map_err(|error| ImportError::file(self.path, error))
    }

    /// Returns an error about the content of the file.
    pub fn refuse(&self, message: impl Into<String>) -> ImportError {
        ImportError::content(self.path, message)
    }
}

/// Returns a path in its stored form.
pub(crate) fn stored_name(path: &Path) -> String {
    let absolute: PathBuf = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.to_string_lossy().into_owned()
}

/// Returns how long ago a time was.
fn age(at: Timestamp) -> Duration {
    let age = i128::from(unix_now()) - at.as_nanosecond();
    Duration::from_nanos(u64::try_from(age).unwrap_or(0))
}

/// Returns the time of this computer, in Unix nanoseconds.
fn unix_now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    })
}

/// Returns the log of a SQLite file, if it is one and has one.
fn log_of(path: &Path) -> Option<Metadata> {
    path.extension().filter(|extension| *extension == "db")?;
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    std::fs::metadata(name).ok()
}
