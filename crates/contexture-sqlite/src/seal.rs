//! The number of committed transactions, in a file next to the database.
//!
//! SQLite silently ends the recovery of its log at the first damaged frame, and
//! all later commits are lost. The number of commits is therefore also stored
//! in a second file. The file is written after each commit without waiting for
//! the disk: after a power failure its number can be too small, never too
//! large. A store whose own number is smaller than the number in this file has
//! lost commits.
//!
//! The rest of the file is a reserve of disk space. A deletion on a full disk
//! releases it, because the log needs space for the pages that change.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use contexture_core::ContentHash;
use contexture_store::StoreError;
use rusqlite::Connection;

use crate::presence::FileId;

/// The file with the number, open for writing.
pub(crate) struct Seal {
    file: Option<File>,
    id: FileId,
    // The size of the file that was reached, or given up.
    reserved: u64,
}

/// The length of the content: the file's id, the number, and a hash of both.
const BYTES: usize = 32;

/// The reserve is a sixteenth of the database within these bounds, in bytes.
const LEAST_RESERVE: u64 = 256 << 10;
const MOST_RESERVE: u64 = 8 << 20;

/// Returns the path of the file for the store at `main`.
pub(crate) fn path(main: &Path) -> PathBuf {
    let mut path = main.as_os_str().to_owned();
    path.push("-seal");
    path.into()
}

impl Seal {
    /// Opens the file for the store at `main`. If that fails, `write` does
    /// nothing.
    pub(crate) fn open(main: &Path, id: FileId) -> Seal {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path(main)).ok();
        Seal {
            file,
            id,
            reserved: 0,
        }
    }

    /// Locks the file, to show that the store is open: a connection with a rollback
    /// journal has no lock between its transactions. Elsewhere than on Unix, open files
    /// cannot be replaced, and the lock would prevent writes.
    pub(crate) fn lock(&self) {
        if let (true, Some(file)) = (cfg!(unix), &self.file) {
            let _ = file.try_lock_shared();
        }
    }

    /// Writes the number. Errors are ignored: the number in the file is then
    /// too small, which is allowed.
    pub(crate) fn write(&mut self, number: u64) {
        let content = content(self.id, number);
        if let Some(file) = &mut self.file {
            let _ = file
                .seek(SeekFrom::Start(0))
                .and_then(|_| file.write_all(&content));
        }
    }
}

impl Seal {
    /// Extends the reserve for a database of that size. Errors are ignored: on a
    /// full disk, the reserve stays smaller.
    pub(crate) fn reserve(&mut self, database_bytes: u64) {
        let wanted = (database_bytes / 16).clamp(LEAST_RESERVE, MOST_RESERVE);
        if self.reserved >= wanted {
            return;
        }
        let Some(file) = &mut self.file else {
            return;
        };
        // Written bytes, because an empty range would need no space.
        let zeros = [0; 64 << 10];
        let mut end = file.metadata().map_or(0, |found| found.len());
        let mut at = end.max(BYTES as u64);
        while at < wanted && file.seek(SeekFrom::Start(at)).is_ok() {
            match file.write(&zeros) {
                Ok(written @ 1..) => at += written as u64,
                _ => break,
            }
            end = at;
        }
        // Not tried again with every commit while the disk is full.
        self.reserved = end.max(wanted);
    }

    /// Extends the reserve like [`reserve`](Self::reserve), also if that has failed
    /// before.
    pub(crate) fn refill(&mut self, database_bytes: u64) {
        self.reserved = 0;
        self.reserve(database_bytes);
    }

    /// Gives the reserve back to the disk.
    pub(crate) fn release(&mut self) {
        if let Some(file) = &self.file {
            release(file);
        }
        self.reserved = 0;
    }
}

fn release(file: &File) {
    if file
        .metadata()
        .is_ok_and(|found| found.len() > BYTES as u64)
    {
        let _ = file.set_len(BYTES as u64);
    }
}

/// Returns true if a process has locked the file of the store at `main`.
pub(crate) fn is_locked(main: &Path) -> bool {
    let file = File::open(path(main));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Gives the reserve of the store at `main` back to the disk. Returns true if
/// there was one.
pub(crate) fn release_at(main: &Path) -> bool {
    let reserve = OpenOptions::new().write(true).open(path(main));
    let Some(file) = reserve.ok() else {
        return false;
    };
    let had = file
        .metadata()
        .is_ok_and(|found| found.len() > BYTES as u64);
    release(&file);
    had
}

fn content(id: FileId, number: u64) -> [u8; BYTES] {
    let mut content = [0; BYTES];
    content[..8].copy_from_slice(&id.number().to_le_bytes());
    content[8..16].copy_from_slice(&number.to_le_bytes());
    let hash = ContentHash::of(&content[..16]);
    content[16..].copy_from_slice(&hash.as_bytes()[..16]);
    content
}

/// Returns the number that was written for the file with that id. Returns
/// `None` if there is none, or if it belongs to another file.
fn read(main: &Path, id: FileId) -> Option<u64> {
    let mut bytes = [0; BYTES];
    File::open(path(main)).ok()?.read_exact(&mut bytes).ok()?;
    let number = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
    (content(id, number) == bytes).then_some(number)
}

/// Returns how many transactions the store has committed.
pub(crate) fn commits(db: &Connection) -> rusqlite::Result<u64> {
    let number: i64 = db.query_row("SELECT number FROM commits", [], |row| row.get(0))?;
    Ok(number.unsigned_abs())
}

/// Returns how many commits of the store at `main` are lost.
pub(crate) fn lost(db: &Connection, main: &Path, id: FileId) -> rusqlite::Result<u64> {
    let Some(sealed) = read(main, id) else {
        return Ok(0);
    };
    Ok(sealed.saturating_sub(commits(db)?))
}

/// Fails when commits of the store at `main` are lost.
pub(crate) fn check(db: &Connection, main: &Path, id: FileId) -> Result<(), StoreError> {
    // Other errors of the store are reported elsewhere.
    match lost(db, main, id) {
        Ok(0) | Err(_) => Ok(()),
        Ok(lost) => Err(StoreError::Damaged {
            what: format!("the write-ahead log of {}", main.display()),
            message: format!(
                "{lost} transactions that were acknowledged are lost; restore a backup, or \
                 accept the loss with `contexture verify --accept-loss`"
            ),
        }),
    }
}

/// Resets the detection: the current content of the store counts as complete.
pub(crate) fn accept(db: &Connection, main: &Path, id: FileId) -> rusqlite::Result<()> {
    Seal::open(main, id).write(commits(db)?);
    Ok(())
}
