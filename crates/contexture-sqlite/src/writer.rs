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

use crate::driver::Database;
use crate::error::{self, Fault};
use crate::presence::Files;
use crate::scrub::scrub;
use crate::seal::Seal;

/// The most requests in one transaction, so that no caller waits for a flood of
/// others.
const MAX_BATCH: usize = 256;

/// How long to wait before a lock is tried again. SQLite's own handler waits up
/// to 100 ms, and would hardly ever find a gap between the transactions of
/// another busy process, which is some ten microseconds wide.
pub(crate) const RETRY: Duration = Duration::from_micros(200);

/// How long to write without a pause that another process can see, and how long
/// that is. Without it, a process that always has something to write keeps all
/// others out.
const STRETCH: Duration = Duration::from_millis(25);
const PAUSE: Duration = Duration::from_millis(1);

/// How long to wait for readers before the log is left as it is for now. Reads
/// are short, and whoever forgets wants to know that it is done.
const CLEANING: Duration = Duration::from_millis(500);

/// How often cleaning is tried again while nothing is written.
const CLEANING_INTERVAL: Duration = Duration::from_secs(1);

/// How long to wait for readers before files that are gone are kept open.
const LEAVING: Duration = Duration::from_millis(100);

/// Why nothing is written.
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

/// A handle on the thread. Dropping it waits until everything that was asked
/// for is done and the connection is closed.
pub(crate) struct Writer {
    // `None` only while it is dropped.
    messages: Option<Sender<Message>>,
    thread: Option<JoinHandle<()>>,
    failed: Arc<AtomicBool>,
    /// What is seen of the thread from outside.
    pub(crate) seen: Arc<Seen>,
}

/// The state of a writer thread, for metrics.
#[derive(Default)]
pub(crate) struct Seen {
    /// The number of requests that wait.
    pub(crate) queued: AtomicUsize,
    /// Whether the files may still hold something of what was deleted.
    pub(crate) unclean: AtomicBool,
}

enum Message {
    /// Something to be done.
    Request(Box<dyn Request>),
    /// Leave the files: see [`Writer::leave`].
    Leave(SyncSender<Left>),
}

/// What came of leaving the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing: somebody else still reads what is in the log. The thread stays.
    Not,
    /// They are left, with nothing in the log.
    Empty,
    /// They are left, and there may be something in the log.
    Full,
}

impl Writer {
    /// Starts the thread on a connection.
    pub(crate) fn start(
        connection: Database,
        files: Files,
        address: String,
        busy_timeout: Duration,
    ) -> std::io::Result<Writer> {
        let (messages, waiting) = mpsc::channel();
        let failed = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&failed);
        let seen = Arc::new(Seen::default());
        let seen_by_thread = Arc::clone(&seen);
        let thread = std::thread::Builder::new()
            .name("contexture-sqlite".to_owned())
            .spawn(move || {
                // What an earlier process left undone.
                let unclean = is_unclean(&connection);
                let (main, id) = files.main();
                let seal = Seal::open(main, id);
                let mut thread = Thread {
                    connection,
                    seal,
                    committed: None,
                    files,
                    address,
                    busy_timeout,
                    unclean,
                    failed: told,
                    seen: seen_by_thread,
                };
                match thread.run(&waiting) {
                    None => thread.clean(CLEANING),
                    Some((asked, left)) => {
                        // Before the answer: whoever asked is about to open
                        // other files of these names.
                        drop(thread);
                        let _ = asked.send(left);
                    }
                }
            })?;
        Ok(Writer {
            messages: Some(messages),
            thread: Some(thread),
            failed,
            seen,
        })
    }

    /// Runs `work` in a transaction and returns what it gave once that is on
    /// disk, and whether the files hold nothing any more of what was deleted.
    /// `None` when the thread is gone.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, Fault> + Send + 'static,
        after: After,
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
        self.seen.queued.fetch_add(1, Ordering::Relaxed);
        self.messages.as_ref()?.send(message).ok()?;
        Call::wait();
        answer.recv().ok()
    }

    /// Runs `work` in a transaction that others share, and tells `done` what came
    /// of it, without waiting. Returns false when the thread is gone.
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
        // If the thread is gone, dropping it tells.
        let message = Message::Request(Box::new(later));
        self.seen.queued.fetch_add(1, Ordering::Relaxed);
        (self.messages.as_ref()).is_some_and(|messages| messages.send(message).is_ok())
    }

    /// Leaves files that are no longer where they were: moves what is in the log
    /// into the main file, wherever that is now, and closes the connection.
    ///
    /// A log that stays behind where another file is put would be taken for that
    /// file's.
    pub(crate) fn leave(&self) -> Left {
        let (reply, answer) = mpsc::sync_channel(1);
        match &self.messages {
            Some(messages) => drop(messages.send(Message::Leave(reply))),
            None => drop(reply),
        }
        // Without an answer the thread is gone already: it panicked.
        answer.recv().unwrap_or(Left::Full)
    }

    /// Returns true when the latest transaction that had something to commit
    /// could not be committed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

/// What is done after the commit, before the caller is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Nothing.
    Nothing,
    /// What was deleted is overwritten in the file, and the log is emptied, if the
    /// file is marked.
    Clean,
    /// It is undone instead: it was only to see whether it can be done.
    Undo,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.messages.take();
        if let Some(thread) = self.thread.take() {
            // If it panicked, whoever waited for it has been told.
            let _ = thread.join();
        }
    }
}

/// Something to be done in a transaction.
trait Request: Send {
    /// Does it, and returns true when what it did is to be kept.
    fn run(&mut self, connection: &Database, address: &str) -> bool;

    /// Says what is to be done after the commit.
    fn after(&self) -> After;

    /// Answers the caller: with what `run` gave, or with what went wrong for
    /// everybody; and whether the files are clean.
    fn answer(self: Box<Self>, failure: Option<StoreError>, clean: bool);
}

struct Task<T, F> {
    work: Option<F>,
    result: Option<Result<T, StoreError>>,
    reply: SyncSender<(Result<T, StoreError>, bool)>,
    after: After,
    // The call it is a part of, which may be withdrawn.
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
        matches!(self.result, Some(Ok(_))) && self.after != After::Undo
    }

    fn after(&self) -> After {
        match self.result {
            // What was refused has deleted nothing.
            Some(Err(_)) => After::Nothing,
            _ => self.after,
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>, clean: bool) {
        let answer = match failure {
            Some(failure) => Some(Err(failure)),
            None => self.result,
        };
        if let Some(answer) = answer {
            // A caller that is gone does not mind.
            let _ = self.reply.send((answer, clean));
        }
    }
}

/// Something that nobody waits for.
struct BackgroundWrite<F, D>
where
    D: FnOnce(Result<(), StoreError>),
{
    work: Option<F>,
    result: Option<Result<(), StoreError>>,
    // `None` when it was told.
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

    fn after(&self) -> After {
        After::Nothing
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
    files: Files,
    address: String,
    busy_timeout: Duration,
    // Whether the file or the log may still hold something of what was deleted.
    unclean: bool,
    failed: Arc<AtomicBool>,
    seen: Arc<Seen>,
}

impl Thread {
    /// Does what is asked, until nobody can ask any more, or somebody asks it to
    /// leave.
    fn run(&mut self, waiting: &Receiver<Message>) -> Option<(SyncSender<Left>, Left)> {
        let mut paused = Instant::now();
        loop {
            let idle = Instant::now();
            self.seen.unclean.store(self.unclean, Ordering::Relaxed);
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
            } else if paused.elapsed() >= STRETCH {
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
            self.seen.queued.fetch_sub(batch.len(), Ordering::Relaxed);
            while !batch.is_empty() {
                self.commit(&mut batch);
            }
            if let Some(asked) = leave {
                match self.leave() {
                    Left::Not => drop(asked.send(Left::Not)),
                    left => return Some((asked, left)),
                }
            }
        }
    }

    /// Runs requests in one transaction, commits, and answers them. Takes all
    /// of them unless the transaction is lost on the way.
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
            // The next transaction must not find what is left of this one.
            let _ = self.execute("ROLLBACK");
        }
        match &outcome {
            Ok(true) => self.failed.store(false, Ordering::Relaxed),
            // There was nothing to commit, or somebody was in the way.
            Ok(false) => {}
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {}
            Err(_) => self.failed.store(true, Ordering::Relaxed),
        }
        if outcome.is_ok() {
            let wanted = done.iter().any(|request| request.after() == After::Clean);
            // Without the mark, nothing was deleted.
            self.unclean |= wanted && is_marked(&self.connection).unwrap_or(true);
            // Others do not wait for what somebody else deleted.
            self.clean(if wanted { CLEANING } else { Duration::ZERO });
        }
        // Once more: the file may have gone while it was written.
        let is_gone = outcome.is_ok() && !self.files.are_there();
        if let (Ok(true), Some(number), false) = (&outcome, self.committed.take(), is_gone) {
            self.seal.write(number);
        }
        // A refusal, too, is answered only now: it may be due to what another
        // request of the batch did, and would be wrong if that is undone.
        for request in done {
            let failure = match &outcome {
                Err(error) => Some(Fault::Sql(copy(error)).at(&self.address)),
                Ok(_) if is_gone => Some(Refusal::Gone.error(&self.address)),
                Ok(_) => None,
            };
            request.answer(failure, !self.unclean);
        }
    }

    /// Says why nothing can be written now, if that is so.
    fn refusal(&self) -> Option<Refusal> {
        if !self.files.are_there() {
            return Some(Refusal::Gone);
        }
        (!self.files.may_be_written()).then_some(Refusal::ReadOnly)
    }

    /// Moves what is in the log into the main file.
    fn leave(&mut self) -> Left {
        let start = Instant::now();
        loop {
            match self.move_log() {
                Ok(true) => return Left::Empty,
                // The disk fails, and would the next time.
                Err(error) if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) => {
                    return Left::Full;
                }
                Ok(false) | Err(_) if start.elapsed() >= LEAVING => return Left::Not,
                Ok(false) | Err(_) => std::thread::sleep(RETRY),
            }
        }
    }

    /// Empties the log and overwrites what deleted rows left in the file, if
    /// there may be something. While somebody reads an earlier state the log
    /// cannot be emptied, and a disk may fail: then it is tried again after the
    /// next commit, from time to time, at the end, and when the store is opened
    /// again.
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

    /// Returns false when somebody is in the way.
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
        // Nobody writes now. Another process may have since the log was emptied.
        let done = match self.files.log_is_empty() {
            true => self
                .files
                .handle()
                .and_then(|file| scrub(&file))
                .map(|_| true),
            false => Ok(false),
        };
        self.execute("ROLLBACK")?;
        // Pages that were read before are still as they were. Written again,
        // they would bring back what was overwritten.
        self.connection.execute_batch("PRAGMA shrink_memory")?;
        if !done? {
            return Ok(false);
        }
        self.execute("DELETE FROM unclean_files")?;
        Ok(true)
    }

    /// Moves the log into the file. Returns false when somebody is in the way.
    fn move_log(&self) -> rusqlite::Result<bool> {
        let empty = "PRAGMA wal_checkpoint(TRUNCATE)";
        let busy = (self.connection).query_row(empty, [], |row| row.get::<_, i64>(0))?;
        Ok(busy == 0)
    }

    /// Returns whether there was something to commit.
    fn transact(
        &mut self,
        batch: &mut VecDeque<Box<dyn Request>>,
        done: &mut Vec<Box<dyn Request>>,
    ) -> rusqlite::Result<bool> {
        if let Err(error) = self.begin() {
            done.extend(batch.drain(..));
            return Err(error);
        }
        // One that is alone needs no savepoint, for which SQLite copies every
        // page that is changed.
        let alone = batch.len() == 1;
        let before = self.connection.total_changes();
        let mut kept = false;
        while let Some(mut request) = batch.pop_front() {
            if !alone {
                self.execute("SAVEPOINT request")?;
            }
            let keep = request.run(&self.connection, &self.address);
            if self.connection.is_autocommit() {
                // Some failures, such as a full disk, can end the transaction.
                // This one knows its own; those before it hear of it.
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
        self.execute("COMMIT").map(|()| kept)
    }

    /// Begins a transaction as soon as no other process writes.
    fn begin(&self) -> rusqlite::Result<()> {
        let start = Instant::now();
        loop {
            match self.execute("BEGIN IMMEDIATE") {
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && start.elapsed() < self.busy_timeout =>
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

/// Returns true when the file is marked: something was deleted, and may not be
/// overwritten yet.
pub(crate) fn is_unclean(connection: &Connection) -> bool {
    is_marked(connection).unwrap_or(false)
}

fn is_marked(connection: &Connection) -> rusqlite::Result<bool> {
    let mark = "SELECT EXISTS (SELECT 1 FROM unclean_files)";
    connection.query_row(mark, [], |row| row.get(0))
}

/// Returns the error once more: everybody in a batch gets it.
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
