//! Checks that the store's path still leads to the open files.
//!
//! A file that is deleted or renamed stays open. SQLite continues to write into
//! it, and those writes are lost with the last connection. The path is
//! therefore compared with the open file before a connection is used, and again
//! after a write before it is acknowledged. The check is one system call per
//! file, about two microseconds.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use std::{fs, io};

use crate::handles::FileUse;

/// The files of a store that connections have open.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    path: PathBuf,
    // Both are next to the file itself, not next to a link to it.
    log: CompanionFile,
    index: CompanionFile,
    // Lasts as long as there are connections.
    used: Arc<FileUse>,
}

/// A file next to the main file. It has no id if it did not exist.
#[derive(Debug, Clone)]
struct CompanionFile {
    path: PathBuf,
    id: Option<FileId>,
}

/// Identifies a file independently of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    inode: u64,
    // The system reuses numbers, so the time of creation is compared, too.
    #[cfg(unix)]
    created: Option<SystemTime>,
}

impl FileId {
    /// Returns a number that identifies the file.
    #[cfg(unix)]
    pub(crate) fn number(self) -> u64 {
        let created = self.created.and_then(|time| {
            let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            Some(since.as_nanos() as u64)
        });
        self.inode ^ self.device.rotate_left(32) ^ created.unwrap_or(0).rotate_left(16)
    }

    #[cfg(not(unix))]
    pub(crate) fn number(self) -> u64 {
        0
    }

    /// Returns the id of the file at `path`.
    pub(crate) fn at(path: &Path) -> io::Result<FileId> {
        fs::metadata(path).map(|found| FileId::of(&found))
    }

    #[cfg(unix)]
    pub(crate) fn of(found: &fs::Metadata) -> FileId {
        use std::os::unix::fs::MetadataExt;
        FileId {
            device: found.dev(),
            inode: found.ino(),
            created: found.created().ok(),
        }
    }

    /// Open files can be neither removed nor renamed on this system, so that an
    /// existing file is always the same one.
    #[cfg(not(unix))]
    pub(crate) fn of(_: &fs::Metadata) -> FileId {
        FileId {}
    }
}

impl CompanionFile {
    fn look(main: &Path, suffix: &str) -> CompanionFile {
        let mut path = OsString::from(main);
        path.push(suffix);
        let path = PathBuf::from(path);
        let id = FileId::at(&path).ok();
        CompanionFile { path, id }
    }

    fn is_there(&self) -> bool {
        self.id.is_none() || FileId::at(&self.path).ok() == self.id
    }
}

impl Files {
    /// Returns the files of the store at `path`, which is in use. A connection to it
    /// must be open and must have read something; otherwise the log may not exist
    /// yet. If another file is at the path by now, they are not there.
    pub(crate) fn look(path: &Path, used: Arc<FileUse>) -> Files {
        Files {
            path: path.to_owned(),
            log: CompanionFile::look(used.path(), "-wal"),
            index: CompanionFile::look(used.path(), "-shm"),
            used,
        }
    }

    /// Returns the files as they are now. The main file is the same.
    pub(crate) fn look_again(&self) -> Files {
        Files::look(&self.path, Arc::clone(&self.used))
    }

    /// Ends the use of the files. All connections must be closed.
    pub(crate) fn end_use(&self) {
        self.used.end();
    }

    /// Returns a handle to the store's file, in addition to those of SQLite.
    pub(crate) fn handle(&self) -> io::Result<Arc<fs::File>> {
        self.used.handle(&self.path)
    }

    /// Returns the size of the log.
    pub(crate) fn log_bytes(&self) -> u64 {
        fs::metadata(&self.log.path).map_or(0, |found| found.len())
    }

    /// Returns true when the log is empty.
    pub(crate) fn log_is_empty(&self) -> bool {
        self.log_bytes() == 0
    }

    /// Returns true if all files are still at their paths.
    pub(crate) fn are_there(&self) -> bool {
        self.main_is_there() && self.log.is_there() && self.index.is_there()
    }

    /// Returns true if the main file is still at its path.
    pub(crate) fn main_is_there(&self) -> bool {
        FileId::at(&self.path).is_ok_and(|found| found == self.used.id())
    }

    /// Returns the store's own file.
    pub(crate) fn main(&self) -> (&Path, FileId) {
        (&self.path, self.used.id())
    }

    /// Returns true if the main file has, or had, the path `real`, which does not
    /// lead through a link.
    pub(crate) fn are_at(&self, real: &Path) -> bool {
        self.used.path() == real
    }

    /// Returns true if both have the same main file, whatever their logs are.
    pub(crate) fn is_same_as(&self, other: &Files) -> bool {
        self.used.id() == other.used.id()
    }

    /// Returns the log if it is not empty and still at its path although
    /// another main file is there now. SQLite would apply the log to that file.
    pub(crate) fn stray_log(&self) -> Option<&Path> {
        let full = fs::metadata(&self.log.path)
            .is_ok_and(|found| found.len() > 0 && self.log.id == Some(FileId::of(&found)));
        (full && !self.main_is_there()).then_some(self.log.path.as_path())
    }

    /// Returns false if the system does not permit writing to the store.
    /// Permissions may have changed since the store was opened.
    #[cfg(unix)]
    pub(crate) fn may_be_written(&self) -> bool {
        use rustix::fs::{Access, AtFlags, CWD, accessat};
        use rustix::io::Errno;
        // SQLite creates and removes the log in the directory of the file, so
        // the directory must be writable, too.
        let directory = self.log.path.parent();
        [Some(self.path.as_path()), directory]
            .into_iter()
            .flatten()
            .all(|path| {
                let allowed = accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS);
                // Other errors are reported by the operation that fails.
                !matches!(allowed, Err(Errno::ACCESS | Errno::ROFS | Errno::PERM))
            })
    }

    #[cfg(not(unix))]
    pub(crate) fn may_be_written(&self) -> bool {
        true
    }
}
