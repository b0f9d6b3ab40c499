//! Holds the connections to the store's files while the files are in place, and
//! reopens them after the files were replaced.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use std::{fs, io};

use contexture_store::StoreError;

use crate::Shared;
use crate::connect::{Reader, StoreLocation};
use crate::driver::Database;
use crate::error::{self, Fault};
use crate::presence::Files;
use crate::readers::Readers;
use crate::writer::{AfterCommit, LeaveOutcome, Writer, WriterStatus};

/// How long closing waits for readers of files that were removed or replaced.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);

/// How often readers check that the log exists.
const CHECK_INTERVAL_MS: u64 = 100;

/// The sets of files that this process has open.
static OPEN: Mutex<Vec<Weak<Open>>> = Mutex::new(Vec::new());

/// All connections of a handle to one set of files.
///
/// They are closed together, before other files with the same names are opened. See
/// [`handles`](crate::handles).
pub(crate) struct Open {
    /// The number of this set of files, different for each set at the path.
    pub(crate) number: u64,
    pub(crate) readers: Readers,
    files: Files,
    // The writer is started by the first write. A program that only reads needs
    // none.
    writer: Mutex<Option<Arc<Writer>>>,
    // Whether the log was empty when the writer closed the files.
    emptied: AtomicBool,
    opened: Instant,
    // The time of the next check of all files, in milliseconds since `opened`.
    next_check_ms: AtomicU64,
}

impl Open {
    pub(crate) fn new((first, files): (Reader, Files), number: u64) -> Arc<Open> {
        let open = Arc::new(Open {
            number,
            readers: Readers::new(first),
            files,
            writer: Mutex::new(None),
            emptied: AtomicBool::new(false),
            opened: Instant::now(),
            next_check_ms: AtomicU64::new(CHECK_INTERVAL_MS),
        });
        let mut all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|it| it.strong_count() > 0);
        all.push(Arc::downgrade(&open));
        open
    }

    fn is_current(&self) -> bool {
        !self.readers.are_closed() && self.files.are_there()
    }

    /// The same for readers. A store whose log was removed can still be read,
    /// but new writes are not visible. Readers therefore check the log at
    /// intervals only.
    fn is_readable(&self) -> bool {
        if self.readers.are_closed() || !self.files.main_is_there() {
            return false;
        }
        let now = self.opened.elapsed().as_millis() as u64;
        if now < self.next_check_ms.load(Ordering::Relaxed) {
            return true;
        }
        self.next_check_ms
            .store(now + CHECK_INTERVAL_MS, Ordering::Relaxed);
        self.files.are_there()
    }

    /// Returns the error for a failed read. The files may have been removed
    /// meanwhile.
    pub(crate) fn explain(&self, address: &str, fault: Fault) -> StoreError {
        if fault.code().is_some() && !self.files.are_there() {
            self.next_check_ms.store(0, Ordering::Relaxed);
            return error::gone(address);
        }
        fault.at(address)
    }

    /// Opens another connection that reads these files.
    pub(crate) fn reader(&self, place: &StoreLocation) -> Result<Reader, Fault> {
        let reader = place.reader(self.files.main().1);
        self.if_current(place, reader)
    }

    /// Returns the writer thread. Returns `None` if these files were closed.
    fn writer(&self, place: &StoreLocation) -> Result<Option<Arc<Writer>>, Fault> {
        let mut current = self.lock_writer();
        if self.readers.are_closed() {
            return Ok(None);
        }
        if let Some(writer) = &*current {
            return Ok(Some(Arc::clone(writer)));
        }
        let opened = place.writing_connection(&self.files);
        // Includes the log, which may have been created just now.
        let opened = opened.map(|connection| (connection, self.files.look_again()));
        let (connection, files) = self.if_current(place, opened)?;
        let writer = Writer::start(connection, files, place.address.clone(), &place.options);
        let writer = writer.map_err(|error| StoreError::Backend {
            store: "sqlite",
            source: Box::new(error),
        })?;
        Ok(Some(Arc::clone(current.insert(Arc::new(writer)))))
    }

    /// Returns the opened value, unless it may belong to other files. If
    /// opening failed, the error reports that the files are missing.
    fn if_current<T>(&self, place: &StoreLocation, opened: Result<T, Fault>) -> Result<T, Fault> {
        if !self.files.are_there() {
            return Err(Fault::Refused(error::gone(&place.address)));
        }
        let address = &place.address;
        opened.map_err(|fault| Fault::Refused(error::not_reopened(address, fault.at(address))))
    }

    /// Closes all connections. Returns false when some are still in use.
    fn leave(&self) -> bool {
        if !self.readers.close(CLOSE_TIMEOUT) {
            return false;
        }
        let mut current = self.lock_writer();
        if let Some(writer) = &*current {
            match writer.leave() {
                LeaveOutcome::Busy => return false,
                LeaveOutcome::LogEmpty => self.emptied.store(true, Ordering::Relaxed),
                LeaveOutcome::LogRemains => {}
            }
        }
        *current = None;
        self.files.end_use();
        true
    }

    pub(crate) fn forget_writer(&self, writer: &Arc<Writer>) {
        let mut current = self.lock_writer();
        if current.as_ref().is_some_and(|it| Arc::ptr_eq(it, writer)) {
            *current = None;
        }
    }

    /// Returns the status of the writer thread, if there is one.
    pub(crate) fn writer_status(&self) -> Option<Arc<WriterStatus>> {
        let writer = self.writer.try_lock().ok()?;
        Some(Arc::clone(&writer.as_ref()?.status))
    }

    fn lock_writer(&self) -> MutexGuard<'_, Option<Arc<Writer>>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // The last connection that closes removes the log, and only the
        // writer's connection can do that. Readers therefore close first.
        self.readers.close(Duration::ZERO);
    }
}

/// Closes the files of the path `real` that are no longer there, those of all handles
/// of this process. Fails if some are still in use, or if the log of an earlier file
/// has content.
pub(crate) fn leave_replaced(real: &Path, address: &str) -> Result<(), StoreError> {
    let open: Vec<Arc<Open>> = {
        let all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).collect()
    };
    let replaced = open
        .into_iter()
        .filter(|it| it.files.are_at(real) && !it.files.are_there());
    let replaced: Vec<Arc<Open>> = replaced.collect();
    // All of them, because the writer of any handle can empty the log.
    for earlier in &replaced {
        if !earlier.leave() {
            return Err(error::still_read(address));
        }
    }
    for earlier in &replaced {
        let is_emptied = replaced
            .iter()
            .any(|it| it.files.is_same_as(&earlier.files) && it.emptied.load(Ordering::Relaxed));
        if !is_emptied && let Some(log) = earlier.files.stray_log() {
            let message = format!(
                "another file is at its path, next to the log of the earlier file; delete {}, or \
                 move it next to the earlier file",
                log.display()
            );
            return Err(error::unavailable(address, message));
        }
    }
    Ok(())
}

impl Shared {
    /// Returns the connections to the files that are at the path now, for
    /// reading.
    pub(crate) fn open(&self) -> Result<Arc<Open>, StoreError> {
        let open = self.current();
        match open.is_readable() {
            true => Ok(open),
            false => self.reopen(),
        }
    }

    /// Returns the connections and the writer thread, for writing.
    pub(crate) fn writer(&self) -> Result<(Arc<Open>, Arc<Writer>), StoreError> {
        loop {
            let open = self.current();
            let open = match open.is_current() {
                true => open,
                false => self.reopen()?,
            };
            let writer = open.writer(&self.place);
            // The files were closed since the check: try again.
            if let Some(writer) = writer.map_err(|fault| fault.at(&self.place.address))? {
                return Ok((open, writer));
            }
        }
    }

    /// Runs `work` in the writer thread. Returns its result and whether the
    /// files are clean.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        open: &Open,
        writer: &Arc<Writer>,
        work: impl FnOnce(&Database, u64) -> Result<T, Fault> + Send + 'static,
        after: AfterCommit,
    ) -> Result<(T, bool), StoreError> {
        let number = open.number;
        let answer = writer.run(move |connection| work(connection, number), after);
        if let Some((done, clean)) = answer {
            return done.map(|done| (done, clean));
        }
        let address = &self.place.address;
        if open.readers.are_closed() {
            return Err(error::gone(address));
        }
        // The thread panicked. The next call starts another.
        open.forget_writer(writer);
        Err(StoreError::Backend {
            store: "sqlite",
            source: format!("{address}: the thread that writes has stopped").into(),
        })
    }

    pub(crate) fn current(&self) -> Arc<Open> {
        let current = self.current.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }

    /// Closes files that are no longer at the path, and opens the files that
    /// are there now. Missing files are not created: an empty store would hide
    /// the loss.
    fn reopen(&self) -> Result<Arc<Open>, StoreError> {
        let _alone = self
            .reopening
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let old = self.current();
        // Another thread has reopened the files, or they are back.
        if old.is_current() {
            return Ok(old);
        }
        let unavailable = |message: &str| Err(error::unavailable(&self.place.address, message));
        if !old.leave() {
            return Err(error::still_read(&self.place.address));
        }
        match fs::metadata(&self.place.path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return unavailable("the file was deleted; Contexture does not create a new one");
            }
            Err(error) => return unavailable(&error.to_string()),
        }
        let found = self.place.find_again().map_err(|fault| {
            error::not_reopened(&self.place.address, fault.at(&self.place.address))
        })?;
        let number = match found.1.is_same_as(&old.files) {
            true => old.number,
            false => old.number + 1,
        };
        let new = Open::new(found, number);
        let mut current = (self.current.write()).unwrap_or_else(PoisonError::into_inner);
        *current = Arc::clone(&new);
        Ok(new)
    }
}
