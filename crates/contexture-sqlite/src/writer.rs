//! The writer thread, which does all writes.
//!
//! SQLite has one writer at a time, and a commit waits for the disk. Therefore one
//! thread has the only connection that writes. It runs all waiting writes in one
//! transaction, commits once, and then answers. Callers wait for the disk together
//! instead of one after the other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contexture_store::{Call, StoreError};
use rusqlite::{Connection, ErrorCode, ffi};

use crate::Options;
use crate::driver::Database;
use crate::error::{self, Fault};
use crate::presence::Files;
use crate::scrub::scrub;
use crate::seal::Seal;
use crate::stats::free_bytes;

/// The most requests in one transaction, so that a caller waits for at most one
/// batch of others.
const MAX_BATCH: usize = 256;

/// How long to wait before a lock is tried again. SQLite's own handler waits up
/// to 100 ms. It would rarely hit a gap between the transactions of another
/// busy process, which lasts some ten microseconds.
pub(crate) const RETRY: Duration = Duration::from_micros(200);

/// The longest time to write without a pause, and the length of the pause.
/// Without pauses, a process that always has something to write would lock out
/// all other processes.
const MAX_STRETCH: Duration = Duration::from_millis(25);
const PAUSE: Duration = Duration::from_millis(1);

/// How long cleaning waits for readers of an earlier state before it is
/// postponed. Reads are short, and a caller that deletes data needs to know
/// whether the data is removed.
const CLEAN_TIMEOUT: Duration = Duration::from_millis(500);

/// A deletion saves disk space if less than this remains after a log with all
/// pages of the file, in bytes.
const LOW_DISK: u64 = 16 << 20;

/// How much the log grows before the free disk space is looked at, in bytes.
const LOG_STEP: u64 = 1 << 20;

/// How often cleaning is tried again while nothing is written.
const CLEANING_INTERVAL: Duration = Duration::from_secs(1);

/// How long closing waits for readers. After that time, files that were removed
/// or replaced stay open.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);

/// How long a commit with a rollback journal waits for reads of other processes. A
/// large batch would have to be written again.
const BULK_TIMEOUT: Duration = Duration::from_secs(60);

/// The reason why nothing can be written.
enum Refusal {
    Gone,
    ReadOnly,
}

impl Refusal {
    fn error(&self, address: &str) -> StoreError {
        match self {
            Refusal::Gone => error::gone(address),
            Refusal::ReadOnly => StoreError::ReadOnly {
                store: address.to_owned(),
            },
        }
    }
}

/// A handle to the writer thread. Dropping it waits until all pending requests
/// are done and the connection is closed.
pub(crate) struct Writer {
    // `None` only during the drop.
    messages: Option<Sender<Message>>,
    thread: Option<JoinHandle<()>>,
    failed: Arc<AtomicBool>,
    /// The status of the thread, for metrics.
    pub(crate) status: Arc<WriterStatus>,
}

/// The state of a writer thread, for metrics.
#[derive(Default)]
pub(crate) struct WriterStatus {
    /// The number of waiting requests.
    pub(crate) queued: AtomicUsize,
    /// Whether the files may still contain deleted data.
    pub(crate) unclean: AtomicBool,
}

enum Message {
    /// Work to run in a transaction.
    Request(Box<dyn Request>),
    /// Close the files: see [`Writer::leave`].
    Leave(SyncSender<LeaveOutcome>),
}

/// The result of closing the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaveOutcome {
    /// The files stay open, because another connection still reads the log.
    Busy,
    /// The files are closed, and the log is empty.
    LogEmpty,
    /// The files are closed, and the log may have content.
    LogRemains,
}

impl Writer {
    /// Starts the thread on a connection.
    pub(crate) fn start(
        connection: Database,
        files: Files,
        address: String,
        options: &Options,
    ) -> std::io::Result<Writer> {
        let (busy_timeout, is_bulk) = (options.busy_timeout, options.bulk);
        let (messages, waiting) = mpsc::channel();
        let failed = Arc::new(AtomicBool::new(false));
        let failed_in_thread = Arc::clone(&failed);
        let status = Arc::new(WriterStatus::default());
        let status_of_thread = Arc::clone(&status);
        let thread = std::thread::Builder::new()
            .name("contexture-sqlite".to_owned())
            .spawn(move || {
                // An earlier process may have stopped before it cleaned the
                // file.
                let unclean = is_unclean(&connection);
                let (main, id) = files.main();
                let seal = Seal::open(main, id);
                if is_bulk {
                    seal.lock();
                }
                let mut thread = Thread {
                    connection,
                    seal,
                    committed: None,
                    log_bytes: 0,
                    files,
                    address,
                    busy_timeout,
                    is_bulk,
                    unclean,
                    failed: failed_in_thread,
                    status: status_of_thread,
                };
                match thread.run(&waiting) {
                    None => {
                        thread.clean(CLEAN_TIMEOUT);
                        thread.close();
                    }
                    Some((asked, left)) => {
                        // The connection is closed before the answer, because
                        // the caller opens other files with the same names
                        // next.
                        drop(thread);
                        let _ = asked.send(left);
                    }
                }
            })?;
        Ok(Writer {
            messages: Some(messages),
            thread: Some(thread),
            failed,
            status,
        })
    }

    /// Runs `work` in a transaction. When the transaction is on disk, returns
    /// the result and whether the files contain no deleted data any more.
    /// Returns `None` if the thread has ended.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, Fault> + Send + 'static,
        after: AfterCommit,
    ) -> Option<(Result<T, StoreError>, bool)> {
        let (reply, answer) = mpsc::sync_channel(1);
        let task = Task {
            work: Some(work),
            result: None,
            reply,
            after,
            call: Call::current(),
        };
        let message = Message::Request(Box::new(task));
        self.status.queued.fetch_add(1, Ordering::Relaxed);
        self.messages.as_ref()?.send(message).ok()?;
        Call::wait();
        answer.recv().ok()
    }

    /// Queues `work` for a shared transaction and returns at once; `done` is
    /// called with the result. Returns false if the thread has ended.
    pub(crate) fn run_later(
        &self,
        work: impl FnOnce(&Database) -> Result<(), Fault> + Send + 'static,
        done: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) -> bool {
        let later = BackgroundWrite {
            work: Some(work),
            result: None,
            done: Some(done),
        };
        // If the thread has ended, dropping the message calls `done`.
        let message = Message::Request(Box::new(later));
        self.status.queued.fetch_add(1, Ordering::Relaxed);
        (self.messages.as_ref()).is_some_and(|messages| messages.send(message).is_ok())
    }

    /// Closes files that are no longer at their path: moves the content of the
    /// log into the main file, wherever that file is now, and closes the
    /// connection.
    ///
    /// If another file is later put at the path, SQLite would apply a remaining
    /// log to that file.
    pub(crate) fn leave(&self) -> LeaveOutcome {
        let (reply, answer) = mpsc::sync_channel(1);
        match &self.messages {
            Some(messages) => drop(messages.send(Message::Leave(reply))),
            None => drop(reply),
        }
        // Without an answer, the thread has panicked.
        answer.recv().unwrap_or(LeaveOutcome::LogRemains)
    }

    /// Returns true if the latest transaction with changes could not be
    /// committed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

/// The action between the commit and the answer to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterCommit {
    /// Nothing.
    Nothing,
    /// Deleted data is overwritten in the file, and the log is emptied, if the
    /// file is marked.
    Clean,
    /// The write is rolled back: the caller only tests whether it would
    /// succeed.
    Undo,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.messages.take();
        // A callback of the thread can have been the last owner: the thread then ends by
        // itself.
        let thread = self.thread.take();
        let current = std::thread::current().id();
        if let Some(thread) = thread.filter(|it| it.thread().id() != current) {
            // If the thread panicked, its callers have received an error.
            let _ = thread.join();
        }
    }
}

/// Work for the writer thread, run in a transaction.
trait Request: Send {
    /// Runs the work. Returns false if its changes must be rolled back.
    fn run(&mut self, connection: &Database, address: &str) -> bool;

    /// Returns the action after the commit.
    fn after(&self) -> AfterCommit;

    /// Answers the caller with the result of `run`, or with `failure` if the
    /// whole transaction failed, and with whether the files are clean.
    fn answer(self: Box<Self>, failure: Option<StoreError>, clean: bool);
}

struct Task<T, F> {
    work: Option<F>,
    result: Option<Result<T, StoreError>>,
    reply: SyncSender<(Result<T, StoreError>, bool)>,
    after: AfterCommit,
    // The call that the work belongs to. It may be cancelled.
    call: Option<Call>,
}

impl<T, F> Request for Task<T, F>
where
    T: Send,
    F: FnOnce(&Database) -> Result<T, Fault> + Send,
{
    fn run(&mut self, connection: &Database, address: &str) -> bool {
        let begun = self.call.as_ref().map_or(Ok(()), Call::begin);
        self.result = match begun {
            Err(withdrawn) => Some(Err(withdrawn)),
            Ok(()) => {
                let result = self.work.take().map(|work| work(connection));
                result.map(|result| result.map_err(|fault| fault.at(address)))
            }
        };
        matches!(self.result, Some(Ok(_))) && self.after != AfterCommit::Undo
    }

    fn after(&self) -> AfterCommit {
        match self.result {
            // Rejected work has deleted nothing.
            Some(Err(_)) => AfterCommit::Nothing,
            _ => self.after,
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>, clean: bool) {
        let answer = match failure {
            Some(failure) => Some(Err(failure)),
            None => self.result,
        };
        if let Some(answer) = answer {
            // The caller may have stopped waiting.
            let _ = self.reply.send((answer, clean));
        }
    }
}

/// Work without a waiting caller.
struct BackgroundWrite<F, D>
where
    D: FnOnce(Result<(), StoreError>),
{
    work: Option<F>,
    result: Option<Result<(), StoreError>>,
    // `None` after it was called.
    done: Option<D>,
}

impl<F, D> Request for BackgroundWrite<F, D>
where
    F: FnOnce(&Database) -> Result<(), Fault> + Send,
    D: FnOnce(Result<(), StoreError>) + Send,
{
    fn run(&mut self, connection: &Database, address: &str) -> bool {
        let result = self.work.take().map(|work| work(connection));
        self.result = result.map(|result| result.map_err(|fault| fault.at(address)));
        matches!(self.result, Some(Ok(())))
    }

    fn after(&self) -> AfterCommit {
        AfterCommit::Nothing
    }

    fn answer(mut self: Box<Self>, failure: Option<StoreError>, _: bool) {
        let result = match failure {
            Some(failure) => Some(Err(failure)),
            None => self.result.take(),
        };
        if let (Some(result), Some(done)) = (result, self.done.take()) {
            done(result);
        }
    }
}

impl<F, D> Drop for BackgroundWrite<F, D>
where
    D: FnOnce(Result<(), StoreError>),
{
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            done(Err(StoreError::Backend {
                store: "sqlite",
                source: "the thread that writes has stopped".into(),
            }));
        }
    }
}

struct Thread {
    connection: Database,
    seal: Seal,
    // The number of the transaction that is being committed.
    committed: Option<u64>,
    // The size of the log when the free disk space was last looked at.
    log_bytes: u64,
    files: Files,
    address: String,
    busy_timeout: Duration,
    // Whether the file may have a rollback journal instead of a log.
    is_bulk: bool,
    // Whether the file or the log may still contain deleted data.
    unclean: bool,
    failed: Arc<AtomicBool>,
    status: Arc<WriterStatus>,
}

impl Thread {
    /// Runs requests until all handles are dropped, or until it is asked to
    /// close the files.
    fn run(
        &mut self,
        waiting: &Receiver<Message>,
    ) -> Option<(SyncSender<LeaveOutcome>, LeaveOutcome)> {
        let mut paused = Instant::now();
        loop {
            let idle = Instant::now();
            self.status.unclean.store(self.unclean, Ordering::Relaxed);
            let first = match self.unclean {
                false => waiting.recv().ok()?,
                true => match waiting.recv_timeout(CLEANING_INTERVAL) {
                    Ok(first) => first,
                    Err(RecvTimeoutError::Timeout) => {
                        self.clean(Duration::ZERO);
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => return None,
                },
            };
            if idle.elapsed() >= PAUSE {
                paused = Instant::now();
            } else if paused.elapsed() >= MAX_STRETCH {
                std::thread::sleep(PAUSE);
                paused = Instant::now();
            }
            let mut batch = VecDeque::new();
            let mut leave = None;
            let more = waiting.try_iter().take(MAX_BATCH - 1);
            for message in std::iter::once(first).chain(more) {
                match message {
                    Message::Request(request) => batch.push_back(request),
                    Message::Leave(asked) => {
                        leave = Some(asked);
                        break;
                    }
                }
            }
            self.status.queued.fetch_sub(batch.len(), Ordering::Relaxed);
            if batch.iter().any(|it| it.after() == AfterCommit::Clean) && self.is_disk_low() {
                self.delete_on_low_disk(&mut batch);
            }
            while !batch.is_empty() {
                self.commit(&mut batch);
            }
            self.keep_log_small();
            if let Some(asked) = leave {
                match self.leave() {
                    LeaveOutcome::Busy => drop(asked.send(LeaveOutcome::Busy)),
                    left => return Some((asked, left)),
                }
            }
        }
    }

    /// Returns true if the log might not find space for a deletion: it has at most
    /// all pages of the file.
    fn is_disk_low(&self) -> bool {
        let free = free_bytes(self.files.main().0);
        free.is_some_and(|free| free < self.database_bytes().saturating_add(LOW_DISK))
    }

    /// Moves the log into the file while there is still space for that. A large log
    /// on a full disk could be neither moved nor extended, and nothing could be
    /// deleted.
    fn keep_log_small(&mut self) {
        let log = self.files.log_bytes();
        self.log_bytes = self.log_bytes.min(log);
        if log < self.log_bytes + LOG_STEP {
            return;
        }
        let free = free_bytes(self.files.main().0);
        if free.is_some_and(|free| free < log.saturating_add(LOW_DISK)) {
            // Errors are ignored: it is tried again when the log has grown.
            let _ = self.move_log();
        }
        self.log_bytes = self.files.log_bytes();
    }

    fn database_bytes(&self) -> u64 {
        let database = std::fs::metadata(self.files.main().0);
        database.map_or(0, |found| found.len())
    }

    /// Commits the deletions of a batch, each alone, with as little disk space as
    /// possible. Other requests remain.
    fn delete_on_low_disk(&mut self, batch: &mut VecDeque<Box<dyn Request>>) {
        let (deletions, others) = batch
            .drain(..)
            .partition::<VecDeque<_>, _>(|it| it.after() == AfterCommit::Clean);
        *batch = others;
        for deletion in deletions {
            // The space of the log is used again. Errors are ignored: the deletion
            // may still succeed.
            let restart = "PRAGMA wal_checkpoint(RESTART)";
            let _ = self.connection.query_row(restart, [], |_| Ok(()));
            self.seal.release();
            // Pages that become free are not written to the log. `scrub` overwrites
            // them in the file.
            let _ = self
                .connection
                .execute_batch("PRAGMA temp_store = MEMORY; PRAGMA secure_delete = FAST");
            self.commit(&mut VecDeque::from([deletion]));
            let _ = self.connection.execute_batch(
                "PRAGMA secure_delete = ON; PRAGMA temp_store = DEFAULT; PRAGMA shrink_memory",
            );
            self.seal.reserve(self.database_bytes());
        }
    }

    /// Runs requests in one transaction, commits, and answers them. Requests
    /// remain in `batch` only if the transaction was aborted on the way.
    fn commit(&mut self, batch: &mut VecDeque<Box<dyn Request>>) {
        if let Some(refusal) = self.refusal() {
            for request in batch.drain(..) {
                request.answer(Some(refusal.error(&self.address)), false);
            }
            return;
        }
        let mut done = Vec::with_capacity(batch.len());
        let outcome = self.transact(batch, &mut done);
        if outcome.is_err() && !self.connection.is_autocommit() {
            // The next transaction must not start inside this one.
            let _ = self.execute("ROLLBACK");
        }
        match &outcome {
            Ok(true) => self.failed.store(false, Ordering::Relaxed),
            // There was nothing to commit, or another process held the lock.
            Ok(false) => {}
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {}
            Err(_) => self.failed.store(true, Ordering::Relaxed),
        }
        if outcome.is_ok() {
            let wanted = done
                .iter()
                .any(|request| request.after() == AfterCommit::Clean);
            // Without the mark, nothing was deleted.
            self.unclean |= wanted && is_marked(&self.connection).unwrap_or(true);
            // Only callers that deleted something wait for the cleaning.
            self.clean(if wanted {
                CLEAN_TIMEOUT
            } else {
                Duration::ZERO
            });
        }
        // Checked again, because the file may have been removed during the
        // write.
        let is_gone = outcome.is_ok() && !self.files.are_there();
        if let (Ok(true), Some(number), false) = (&outcome, self.committed.take(), is_gone) {
            self.seal.write(number);
            self.seal.reserve(self.database_bytes());
        }
        // Rejections are also answered only now: one may result from another
        // request of the batch, and would be wrong if that request is rolled
        // back.
        for request in done {
            let failure = match &outcome {
                Err(error) => Some(Fault::Sql(copy(error)).at(&self.address)),
                Ok(_) if is_gone => Some(Refusal::Gone.error(&self.address)),
                Ok(_) => None,
            };
            request.answer(failure, !self.unclean);
        }
    }

    /// Returns the reason why nothing can be written now, if there is one.
    fn refusal(&self) -> Option<Refusal> {
        if !self.files.are_there() {
            return Some(Refusal::Gone);
        }
        (!self.files.may_be_written()).then_some(Refusal::ReadOnly)
    }

    /// Closes the connection. The log and the shared memory are then removed, and the
    /// reserve gets their space back before another program can use it.
    fn close(self) {
        let bytes = self.database_bytes();
        let Thread {
            connection,
            mut seal,
            is_bulk,
            files,
            ..
        } = self;
        // SQLite opens the log by name. If another file is at the path, its log is not
        // touched.
        if is_bulk && files.main_is_there() {
            // Errors are ignored: the next process that writes does the same.
            let _ = connection.busy_timeout(CLOSE_TIMEOUT);
            let _ = connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()));
        }
        drop(connection);
        seal.refill(bytes);
    }

    /// Moves the content of the log into the main file.
    fn leave(&mut self) -> LeaveOutcome {
        let start = Instant::now();
        loop {
            match self.move_log() {
                Ok(true) => return LeaveOutcome::LogEmpty,
                // The disk fails; a retry would fail, too.
                Err(error) if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) => {
                    return LeaveOutcome::LogRemains;
                }
                Ok(false) | Err(_) if start.elapsed() >= CLOSE_TIMEOUT => {
                    return LeaveOutcome::Busy;
                }
                Ok(false) | Err(_) => std::thread::sleep(RETRY),
            }
        }
    }

    /// Empties the log and overwrites deleted rows in the file, if there may be
    /// any. The log cannot be emptied while a connection reads an earlier
    /// state, and the disk may fail. Cleaning is then retried after the next
    /// commit, once a second, at the end, and when the store is opened again.
    fn clean(&mut self, patience: Duration) {
        let start = Instant::now();
        while self.unclean {
            match self.overwrite() {
                Ok(true) => self.unclean = false,
                Ok(false) if start.elapsed() < patience => std::thread::sleep(RETRY),
                // The mark in the file stays.
                Ok(false) | Err(_) => return,
            }
        }
    }

    /// Returns false if another connection prevents it.
    fn overwrite(&self) -> Result<bool, Box<dyn std::error::Error>> {
        if !self.files.are_there() || !self.move_log()? {
            return Ok(false);
        }
        match self.execute("BEGIN IMMEDIATE") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                return Ok(false);
            }
            begun => begun?,
        }
        // No other process can write now, but one may have written since the
        // log was emptied.
        let done = match self.files.log_is_empty() {
            true => self
                .files
                .handle()
                .and_then(|file| scrub(&file))
                .map(|_| true),
            false => Ok(false),
        };
        self.execute("ROLLBACK")?;
        // Cached pages still contain the deleted data. Writing such a page
        // would restore it, so the cache is dropped.
        self.connection.execute_batch("PRAGMA shrink_memory")?;
        if !done? {
            return Ok(false);
        }
        self.execute("DELETE FROM unclean_files")?;
        Ok(true)
    }

    /// Moves the log into the file. Returns false if another connection
    /// prevents it.
    fn move_log(&self) -> rusqlite::Result<bool> {
        let empty = "PRAGMA wal_checkpoint(TRUNCATE)";
        let busy = (self.connection).query_row(empty, [], |row| row.get::<_, i64>(0))?;
        Ok(busy == 0)
    }

    /// Returns whether there were changes to commit.
    fn transact(
        &mut self,
        batch: &mut VecDeque<Box<dyn Request>>,
        done: &mut Vec<Box<dyn Request>>,
    ) -> rusqlite::Result<bool> {
        if let Err(error) = self.begin() {
            done.extend(batch.drain(..));
            return Err(error);
        }
        // A single request needs no savepoint. SQLite copies every changed page
        // for a savepoint.
        let alone = batch.len() == 1;
        let before = self.connection.total_changes();
        let mut kept = false;
        while let Some(mut request) = batch.pop_front() {
            if !alone {
                self.execute("SAVEPOINT request")?;
            }
            let keep = request.run(&self.connection, &self.address);
            if self.connection.is_autocommit() {
                // Some failures, such as a full disk, end the transaction. This
                // request has its own error; the requests before it get the
                // error below.
                request.answer(None, false);
                return Err(lost());
            }
            done.push(request);
            kept |= keep;
            match (keep, alone) {
                (true, true) => {}
                (false, true) => return self.execute("ROLLBACK").map(|()| false),
                (false, false) => {
                    self.execute("ROLLBACK TO request")?;
                    self.execute("RELEASE request")?;
                }
                (true, false) => self.execute("RELEASE request")?,
            }
        }
        if kept && self.connection.total_changes() > before {
            let count = "UPDATE commits SET number = number + 1 RETURNING number";
            let mut count = self.connection.prepare_cached(count)?;
            let number: i64 = count.query_row([], |row| row.get(0))?;
            self.committed = Some(number.unsigned_abs());
        }
        // Without a log, other connections must have ended their reads.
        let timeout = match self.is_bulk {
            true => self.busy_timeout.max(BULK_TIMEOUT),
            false => self.busy_timeout,
        };
        self.retry("COMMIT", timeout).map(|()| kept)
    }

    /// Begins a transaction as soon as no other process writes.
    fn begin(&self) -> rusqlite::Result<()> {
        self.retry("BEGIN IMMEDIATE", self.busy_timeout)
    }

    /// Retries a statement while another connection holds a lock, until the timeout.
    fn retry(&self, sql: &str, timeout: Duration) -> rusqlite::Result<()> {
        let start = Instant::now();
        loop {
            match self.execute(sql) {
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && start.elapsed() < timeout =>
                {
                    std::thread::sleep(RETRY);
                }
                other => return other,
            }
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }
}

/// Returns true if the file is marked: data was deleted and may not be
/// overwritten yet.
pub(crate) fn is_unclean(connection: &Connection) -> bool {
    is_marked(connection).unwrap_or(false)
}

fn is_marked(connection: &Connection) -> rusqlite::Result<bool> {
    let mark = "SELECT EXISTS (SELECT 1 FROM unclean_files)";
    connection.query_row(mark, [], |row| row.get(0))
}

/// Copies an error, because every request of a batch gets it.
fn copy(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, message) => {
            rusqlite::Error::SqliteFailure(*code, message.clone())
        }
        other => rusqlite::Error::SqliteFailure(
            ffi::Error::new(ffi::SQLITE_ERROR),
            Some(other.to_string()),
        ),
    }
}

fn lost() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        ffi::Error::new(ffi::SQLITE_ABORT_ROLLBACK),
        Some("rolled back because another write of the same transaction failed; retry".to_owned()),
    )
}
