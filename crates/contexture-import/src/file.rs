//! [`SourceFile`]: a file that is imported, with where its import is.

use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use contexture_core::ContentHash;
use contexture_store::ImportCursor;
use jiff::Timestamp;

use crate::error::ImportError;
use crate::lines::Lines;
use crate::writer::LaterState;

/// The number of bytes at the beginning and at the end of the imported part
/// that are hashed.
const EDGE: u64 = 64 * 1024;

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
    metadata: Metadata,
    // The log of a SQLite file, which holds its latest changes.
    log: Option<Metadata>,
}

impl<'a> SourceFile<'a> {
    /// Opens a file for reading from its beginning.
    pub fn open(path: &'a Path, now: Timestamp, max_line: usize) -> Result<Self, ImportError> {
        let metadata = std::fs::metadata(path).map_err(|error| ImportError::file(path, error))?;
        let absolute: PathBuf = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self {
            path,
            name: absolute.to_string_lossy().into_owned(),
            state: None,
            offset: 0,
            max_line,
            now,
            with_tail: true,
            new_state: Vec::new(),
            later_state: None,
            new_offset: 0,
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

    /// Returns true if nothing has changed since `cursor` was saved.
    pub fn is_unchanged(&self, cursor: &ImportCursor) -> bool {
        cursor.size == self.size()
            && cursor.modified == self.modified()
            && cursor.identity == self.identity()
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
            modified: self.modified(),
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

/// Returns the log of a SQLite file, if it is one and has one.
fn log_of(path: &Path) -> Option<Metadata> {
    path.extension().filter(|extension| *extension == "db")?;
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    std::fs::metadata(name).ok()
}
