//! Handles to database files, in addition to those of SQLite.
//!
//! On Unix, closing any handle on a file removes all locks that the process has
//! on it, those of SQLite too. Therefore such a handle stays open as long as
//! the process has a connection to the file. Every owner of a connection holds
//! a [`FileUse`].

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::presence::FileId;

static FILES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// A file that the process has connections to.
struct Entry {
    id: FileId,
    uses: usize,
    handle: Option<Arc<File>>,
}

/// Represents the connections to a file. It is created before the first
/// connection and dropped after the last.
#[derive(Debug)]
pub(crate) struct FileUse {
    id: FileId,
}

fn lock() -> MutexGuard<'static, Vec<Entry>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FileUse {
    pub(crate) fn new(id: FileId) -> FileUse {
        let mut files = lock();
        match files.iter_mut().find(|entry| entry.id == id) {
            Some(entry) => entry.uses += 1,
            None => files.push(Entry {
                id,
                uses: 1,
                handle: None,
            }),
        }
        FileUse { id }
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
        let mut files = lock();
        if let Some(at) = files.iter().position(|entry| entry.id == self.id) {
            files[at].uses -= 1;
            if files[at].uses == 0 {
                files.swap_remove(at);
            }
        }
    }
}
