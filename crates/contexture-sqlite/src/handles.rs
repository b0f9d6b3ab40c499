//! The database files that the process has connections to, and handles to them in
//! addition to those of SQLite.
//!
//! Only one file of each path is in use at a time. SQLite finds the log and its index
//! by name, and locks them for other processes only. A connection to a second file
//! with the same name would use the log of the first file, and would truncate the
//! index that the connections to the first file have mapped: the process then gets
//! SIGBUS.
//!
//! On Unix, closing any handle on a file removes all locks that the process has
//! on it, those of SQLite too. Therefore such a handle stays open as long as
//! the process has a connection to the file. Every owner of a connection holds
//! a [`FileUse`].

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::presence::FileId;

static FILES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// A file that the process has connections to.
struct Entry {
    id: FileId,
    // The path of each use.
    uses: Vec<PathBuf>,
    handle: Option<Arc<File>>,
}

/// Represents the connections to a file. It is created before the first
/// connection, and dropped or ended after the last.
#[derive(Debug)]
pub(crate) struct FileUse {
    path: PathBuf,
    id: FileId,
    ended: AtomicBool,
}

fn lock() -> MutexGuard<'static, Vec<Entry>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FileUse {
    /// Begins a use of the file at `path`, which must not lead through a link.
    /// Returns `None` while another file of the same path is in use.
    pub(crate) fn begin(path: &Path, id: FileId) -> Option<FileUse> {
        let mut files = lock();
        let is_used = |entry: &Entry| entry.uses.iter().any(|used| used == path);
        if files.iter().any(|entry| entry.id != id && is_used(entry)) {
            return None;
        }
        match files.iter_mut().find(|entry| entry.id == id) {
            Some(entry) => entry.uses.push(path.to_owned()),
            None => files.push(Entry {
                id,
                uses: vec![path.to_owned()],
                handle: None,
            }),
        }
        Some(FileUse {
            path: path.to_owned(),
            id,
            ended: AtomicBool::new(false),
        })
    }

    /// Returns the path of the file, without links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the id of the file.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// Ends the use. All connections must be closed.
    pub(crate) fn end(&self) {
        if self.ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut files = lock();
        let Some(at) = files.iter().position(|entry| entry.id == self.id) else {
            return;
        };
        let uses = &mut files[at].uses;
        if let Some(used) = uses.iter().position(|used| *used == self.path) {
            uses.swap_remove(used);
        }
        if uses.is_empty() {
            files.swap_remove(at);
        }
    }

    /// Returns a handle for reading and writing the file, which is at `path`.
    pub(crate) fn handle(&self, path: &Path) -> io::Result<Arc<File>> {
        let mut files = lock();
        let known = files.iter().find(|entry| entry.id == self.id);
        if let Some(handle) = known.and_then(|entry| entry.handle.as_ref()) {
            return Ok(Arc::clone(handle));
        }
        let opened = Arc::new(OpenOptions::new().read(true).write(true).open(path)?);
        let id = FileId::of(&opened.metadata()?);
        // Another file may be at the path by now. If it is in use, its handle
        // must stay open, too.
        if let Some(entry) = files.iter_mut().find(|entry| entry.id == id) {
            entry.handle.get_or_insert_with(|| Arc::clone(&opened));
        }
        match id == self.id {
            true => Ok(opened),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl Drop for FileUse {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn one_file_of_a_path_is_in_use_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let made = |name: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, name).unwrap();
            (FileId::at(&path).unwrap(), path)
        };
        let ((a, path), (b, other)) = (made("a"), made("b"));
        let first = FileUse::begin(&path, a).unwrap();
        let second = FileUse::begin(&path, a).unwrap();
        // The other file has another path, and is then moved to this one.
        drop(FileUse::begin(&other, b).unwrap());
        assert!(FileUse::begin(&path, b).is_none());
        first.end();
        assert!(FileUse::begin(&path, b).is_none());
        // A use ends once.
        drop(first);
        assert!(FileUse::begin(&path, b).is_none());
        drop(second);
        let third = FileUse::begin(&path, b).unwrap();
        assert!(FileUse::begin(&path, a).is_none());
        drop(third);
        assert!(FileUse::begin(&path, a).is_some());
    }
}
