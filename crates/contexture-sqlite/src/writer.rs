//! The thread that writes.
//!
//! SQLite has one writer at a time, and a commit waits for the disk. So there
//! is one thread with the only connection that writes: it takes everything that
//! waits, runs it in one transaction, commits once, and answers then. Callers
//! wait for the disk together instead of one after the other.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contexture_store::StoreError;
use rusqlite::{Connection, ErrorCode, ffi};

use crate::error::Fault;

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

/// A handle on the thread. Dropping it waits until everything that was asked
/// for is done and the connection is closed.
pub(crate) struct Writer {
    // `None` only while it is dropped.
    requests: Option<Sender<Box<dyn Request>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread on a connection.
    pub(crate) fn start(
        connection: Connection,
        address: String,
        busy_timeout: Duration,
    ) -> std::io::Result<Writer> {
        let (requests, waiting) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("contexture-sqlite".to_owned())
            .spawn(move || {
                let mut thread = Thread {
                    connection,
                    address,
                    busy_timeout,
                    unclean: Unclean::Nothing,
                };
                thread.run(&waiting);
                thread.clean(true);
            })?;
        Ok(Writer {
            requests: Some(requests),
            thread: Some(thread),
        })
    }

    /// Runs `work` in a transaction and returns what it gave once that is on
    /// disk. `None` when the thread is gone.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
        after: After,
    ) -> Option<Result<T, StoreError>> {
        let (reply, answer) = mpsc::sync_channel(1);
        let task = Task {
            work: Some(work),
            result: None,
            reply,
            after,
        };
        self.requests.as_ref()?.send(Box::new(task)).ok()?;
        answer.recv().ok()
    }
}

/// What is done after the commit, before the caller is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Nothing.
    Nothing,
    /// The file is written anew and the log emptied, so that what was deleted is
    /// in neither.
    Clean,
    /// It is undone instead: it was only to see whether it can be done.
    Undo,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.requests.take();
        if let Some(thread) = self.thread.take() {
            // If it panicked, whoever waited for it has been told.
            let _ = thread.join();
        }
    }
}

/// Something to be done in a transaction.
trait Request: Send {
    /// Does it, and returns true when what it did is to be kept.
    fn run(&mut self, connection: &Connection, address: &str) -> bool;

    /// Says what is to be done after the commit.
    fn after(&self) -> After;

    /// Answers the caller: with what `run` gave, or with what went wrong for
    /// everybody.
    fn answer(self: Box<Self>, failure: Option<StoreError>);
}

struct Task<T, F> {
    work: Option<F>,
    result: Option<Result<T, StoreError>>,
    reply: SyncSender<Result<T, StoreError>>,
    after: After,
}

impl<T, F> Request for Task<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T, Fault> + Send,
{
    fn run(&mut self, connection: &Connection, address: &str) -> bool {
        let result = self.work.take().map(|work| work(connection));
        self.result = result.map(|result| result.map_err(|fault| fault.at(address)));
        matches!(self.result, Some(Ok(_))) && self.after != After::Undo
    }

    fn after(&self) -> After {
        self.after
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let answer = match failure {
            Some(failure) => Some(Err(failure)),
            None => self.result,
        };
        if let Some(answer) = answer {
            // A caller that is gone does not mind.
            let _ = self.reply.send(answer);
        }
    }
}

struct Thread {
    connection: Connection,
    address: String,
    busy_timeout: Duration,
    unclean: Unclean,
}

/// Where there may still be something of what was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unclean {
    Nothing,
    /// In the file, and in the log.
    File,
    /// In the log only.
    Log,
}

impl Thread {
    fn run(&mut self, waiting: &Receiver<Box<dyn Request>>) {
        let mut paused = Instant::now();
        loop {
            let idle = Instant::now();
            let Ok(first) = waiting.recv() else { return };
            if idle.elapsed() >= PAUSE {
                paused = Instant::now();
            } else if paused.elapsed() >= STRETCH {
                std::thread::sleep(PAUSE);
                paused = Instant::now();
            }
            let mut batch = VecDeque::from([first]);
            batch.extend(waiting.try_iter().take(MAX_BATCH - 1));
            while !batch.is_empty() {
                self.commit(&mut batch);
            }
        }
    }

    /// Runs requests in one transaction, commits, and answers them. Takes all
    /// of them unless the transaction is lost on the way.
    fn commit(&mut self, batch: &mut VecDeque<Box<dyn Request>>) {
        let mut done = Vec::with_capacity(batch.len());
        let outcome = self.transact(batch, &mut done);
        if outcome.is_err() && !self.connection.is_autocommit() {
            // The next transaction must not find what is left of this one.
            let _ = self.execute("ROLLBACK");
        }
        if outcome.is_ok() {
            let wanted = done.iter().any(|request| request.after() == After::Clean);
            if wanted {
                self.unclean = Unclean::File;
            }
            self.clean(wanted);
        }
        // A refusal, too, is answered only now: it may be due to what another
        // request of the batch did, and would be wrong if that is undone.
        for request in done {
            let failure = outcome.as_ref().err();
            request.answer(failure.map(|error| Fault::Sql(copy(error)).at(&self.address)));
        }
    }

    /// Rewrites the file and empties the log, if something is to be gone from
    /// them. While somebody reads an earlier state the log cannot be emptied:
    /// then it is tried again after the next commit, and at the end. The file,
    /// which is much work, only when it is `wanted`.
    fn clean(&mut self, wanted: bool) {
        let patience = if wanted { CLEANING } else { Duration::ZERO };
        let start = Instant::now();
        loop {
            let done = match self.unclean {
                Unclean::Nothing => return,
                Unclean::File if !wanted => return,
                Unclean::File => self.rewrite(),
                Unclean::Log => self.empty_log(),
            };
            if done {
                continue;
            }
            if start.elapsed() >= patience {
                return;
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Deleted rows are overwritten, but SQLite moves rows from page to page
    /// when it splits and joins pages, and leaves copies in the free room
    /// there. Only a file that is written anew has none of them.
    fn rewrite(&mut self) -> bool {
        let done = self.connection.execute_batch("VACUUM").is_ok();
        if done {
            self.unclean = Unclean::Log;
        }
        done
    }

    fn empty_log(&mut self) -> bool {
        let empty = "PRAGMA wal_checkpoint(TRUNCATE)";
        // 1 when somebody is in the way.
        let busy = (self.connection).query_row(empty, [], |row| row.get::<_, i64>(0));
        let done = busy.is_ok_and(|busy| busy == 0);
        if done {
            self.unclean = Unclean::Nothing;
        }
        done
    }

    fn transact(
        &self,
        batch: &mut VecDeque<Box<dyn Request>>,
        done: &mut Vec<Box<dyn Request>>,
    ) -> rusqlite::Result<()> {
        if let Err(error) = self.begin() {
            done.extend(batch.drain(..));
            return Err(error);
        }
        // One that is alone needs no savepoint, for which SQLite copies every
        // page that is changed.
        let alone = batch.len() == 1;
        while let Some(mut request) = batch.pop_front() {
            if !alone {
                self.execute("SAVEPOINT request")?;
            }
            let keep = request.run(&self.connection, &self.address);
            if self.connection.is_autocommit() {
                // Some failures, such as a full disk, can end the transaction.
                // This one knows its own; those before it hear of it.
                request.answer(None);
                return Err(lost());
            }
            done.push(request);
            match (keep, alone) {
                (true, true) => {}
                (false, true) => return self.execute("ROLLBACK"),
                (false, false) => {
                    self.execute("ROLLBACK TO request")?;
                    self.execute("RELEASE request")?;
                }
                (true, false) => self.execute("RELEASE request")?,
            }
        }
        self.execute("COMMIT")
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
        Some("rolled back, because a write beside it failed; try again".to_owned()),
    )
}
