//! The index file of a memory: a view on disk, next to the store.
//!
//! A new process reads the file and then only the later changes. The file is
//! derived from the store. A file that is missing, damaged, of another store or
//! of another version is not used; the view is then built from the store, and
//! the file is written again. Deleting a record deletes the file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use contexture_store::{EmbedderInfo, MemoryState};

use crate::error::Error;
use crate::later::Generation;
use crate::view::{Opened, View};
use crate::{CHANGES, Memory, lock};

/// The number of texts from which a file is worth its space. Fewer texts are
/// read from the store in some 10 ms.
const WORTH_A_FILE: usize = 2_000;

/// A file is written again when one in this many texts has changed.
const STALE: u64 = 20;

/// The number of attempts to write a file while the memory changes.
const ATTEMPTS: usize = 3;

/// The state of the index file in this process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IndexFileState {
    // The sequence numbers of the last change and the last vector in the file.
    saved: Option<(u64, u64)>,
    // True if the file could not be written: it is not tried again.
    failed: bool,
    // True if damage was found while the file was in use.
    damaged: bool,
}

impl IndexFileState {
    /// Returns true when the view should be written.
    fn is_due(&self, view: &View) -> bool {
        let texts = view.index.len();
        if texts < WORTH_A_FILE || !view.wordless.is_empty() || self.failed {
            return false;
        }
        self.saved.is_none_or(|(seq, later)| {
            let changed = view.seq.saturating_sub(seq) + view.later.saturating_sub(later);
            changed > texts as u64 / STALE
        })
    }
}

impl Memory<'_> {
    /// Returns the path of the index file, if the store has one.
    pub fn index_path(&self) -> Option<PathBuf> {
        self.store.index_path()
    }

    /// Reads the index file. Returns `None` when it is missing or cannot be
    /// used.
    pub(crate) fn open_index(
        &self,
        state: &MemoryState,
        shape: (Generation, usize),
    ) -> Result<Option<View>, Error> {
        if lock(&self.cache.index_file).damaged {
            return Ok(None);
        }
        let Some(file) = self.index_path().and_then(|path| File::open(path).ok()) else {
            return Ok(None);
        };
        // After any error, the view is built from the store.
        let Ok(opened) = Opened::new(file) else {
            return Ok(None);
        };
        let embedder = embedder_of(state, shape.0);
        let Some((before, last)) = opened.compared().filter(|_| opened.fits(shape.0, embedder))
        else {
            return Ok(None);
        };
        if last > state.seq || !opened.agrees(&self.store.changes(before, CHANGES)?) {
            return Ok(None);
        }
        let Some(view) = opened.view().ok().filter(|view| view.shape() == shape) else {
            return Ok(None);
        };
        lock(&self.cache.index_file).saved = Some((view.seq, view.later));
        Ok(Some(view))
    }

    /// Returns true when an index file can be used instead of reading the whole
    /// store.
    pub fn has_index_file(&self) -> Result<bool, Error> {
        let state = self.store.memory_state()?;
        let shape = self.shape(&state)?;
        Ok(self.open_index(&state, shape)?.is_some())
    }

    /// Loads the index, so that the next recall finds it in memory. Does nothing
    /// when the index would exceed [`index_memory`](crate::index_memory).
    pub fn load_index(&self) -> Result<(), Error> {
        let file = self.index_path().and_then(|path| fs::metadata(path).ok());
        let bytes = file.map_or(0, |file| file.len());
        if self.cache.view.has_room_for(bytes) && !self.is_empty()? {
            drop(self.view(None)?);
        }
        Ok(())
    }

    /// Writes the index file when the index in memory has changed enough since
    /// the last write, and returns true if it did. A memory with fewer than
    /// 2,000 texts has no file.
    ///
    /// Fails when the file cannot be written; later calls then do nothing.
    pub fn save_index(&self) -> Result<bool, Error> {
        let Some(path) = self.index_path() else {
            return Ok(false);
        };
        // One thread writes at a time.
        let _saving = lock(&self.cache.saving_index);
        let saved = self.save_to(&path);
        saved.map_err(|error| {
            lock(&self.cache.index_file).failed = true;
            let message = format!(
                "the index file {} cannot be written: {error}",
                path.display()
            );
            Error::failure(message, error)
        })
    }

    fn save_to(&self, path: &Path) -> io::Result<bool> {
        let views = &self.cache.view;
        let known = *lock(&self.cache.index_file);
        let is_due = |view: &Option<View>| view.as_ref().is_some_and(|view| known.is_due(view));
        if !is_due(&views.read()) {
            return Ok(false);
        }
        let state = self.store.memory_state().map_err(io::Error::other)?;
        let partial = partial(path);
        let Some(mut file) = locked(&partial)? else {
            return Ok(false);
        };
        for _ in 0..ATTEMPTS {
            let mut view = views.write();
            let Some(prepared) = view.as_mut().map(View::prepare_to_write) else {
                break;
            };
            drop(view);
            let guard = views.read();
            // Another thread may have changed the view.
            let Some(view) = guard.as_ref().filter(|view| view.is_as_prepared(prepared)) else {
                continue;
            };
            let embedder = embedder_of(&state, view.generation);
            file = match view.write(file, embedder) {
                Ok(file) => file,
                Err(error) => {
                    let _ = fs::remove_file(&partial);
                    return Err(error);
                }
            };
            let opened = Opened::new(File::open(&partial)?)?;
            match fs::rename(&partial, path) {
                Ok(()) => {}
                // A deletion of records also deletes unfinished files.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => {
                    let _ = fs::remove_file(&partial);
                    return Err(error);
                }
            }
            *lock(&self.cache.index_file) = IndexFileState {
                saved: Some((view.seq, view.later)),
                ..IndexFileState::default()
            };
            let (seq, slots) = (view.seq, view.index.slots());
            let changed = view.index.changed_vectors();
            drop(guard);
            drop(file);
            if self.is_forgotten_since(seq)? {
                // The file may contain a deleted record.
                fs::remove_file(path)?;
                lock(&self.cache.index_file).saved = None;
                return Ok(false);
            }
            return self.keep_vectors(&opened, prepared, slots, changed);
        }
        let _ = fs::remove_file(&partial);
        Ok(false)
    }

    /// Replaces the vectors of a large view in memory by those of the file.
    fn keep_vectors(
        &self,
        opened: &Opened,
        prepared: u64,
        slots: usize,
        changed: usize,
    ) -> io::Result<bool> {
        let mut view = self.cache.view.write();
        if let Some(view) = view.as_mut().filter(|view| view.prepared() == prepared) {
            opened.keep_vectors_of(view, slots, changed)?;
        }
        Ok(true)
    }

    /// Returns true when a record was deleted or archived after a change.
    fn is_forgotten_since(&self, seq: u64) -> io::Result<bool> {
        let changes = self.store.changes(seq, usize::MAX);
        let changes = changes.map_err(io::Error::other)?;
        Ok(changes.iter().any(|change| change.sketch.is_none()))
    }

    /// Drops the index in memory, because its file is damaged. The next recall
    /// builds it from the store.
    pub(crate) fn drop_damaged(&self) {
        let mut known = lock(&self.cache.index_file);
        (known.damaged, known.saved) = (true, None);
        drop(known);
        let mut view = self.cache.view.write();
        *view = None;
    }

    /// Deletes the index file, because it contains a deleted record.
    pub(crate) fn delete_index(&self) -> Result<(), Error> {
        let Some(path) = self.index_path() else {
            return Ok(());
        };
        lock(&self.cache.index_file).saved = None;
        for path in [&partial(&path), &path] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let message = format!(
                        "the records are forgotten, but the index file {} cannot be deleted: \
                         {error}",
                        path.display()
                    );
                    return Err(Error::failure(message, error).advise("delete the file"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the embedder of the vectors of a generation.
fn embedder_of(state: &MemoryState, generation: Generation) -> Option<&EmbedderInfo> {
    match generation {
        Generation::First => state.analysis.as_ref()?.embedder.as_ref(),
        Generation::Later => state.later.embedder.as_ref(),
    }
}

/// Returns the temporary path of a file that replaces another.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-new");
    name.into()
}

/// Creates an empty file with a lock. Returns `None` when another process has
/// the lock.
fn locked(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    file.set_len(0)?;
    Ok(Some(file))
}
