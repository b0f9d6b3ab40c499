//! A queue for the writes of one tenant.
//!
//! A commit waits for the disk, and the writes of a tenant run one after the
//! other. One of the waiting callers therefore runs all waiting writes in one
//! transaction, each after a savepoint.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use contexture_sql::{Connection, Fault};
use contexture_store::{Call, StoreError};

use crate::error::{again, explain};

/// The maximum number of writes in one transaction. It limits how long a caller
/// waits for others.
const MOST_AT_ONCE: usize = 256;

/// The waiting writes of a tenant.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Box<dyn Job>>,
    // True while a caller runs some of the writes.
    busy: bool,
}

/// A write with a waiting caller.
pub(crate) trait Job: Send {
    /// Runs the write, and returns true when its changes are to be committed.
    fn run(&mut self, db: &Connection, tenant: i64, address: &str) -> bool;

    /// Sets the error of a write that failed after it was run.
    fn fail(&mut self, error: StoreError);

    /// Returns false when the caller does not wait for the disk.
    fn is_durable(&self) -> bool;

    /// Returns false for a write that does not change the tenant's own data.
    fn is_own(&self) -> bool;

    /// Sends the caller the result of `run`, or the error that concerns all
    /// writes.
    fn answer(self: Box<Self>, failure: Option<&StoreError>);
}

struct Task<T, F> {
    work: Option<F>,
    result: Option<Result<T, StoreError>>,
    reply: SyncSender<Result<T, StoreError>>,
    durable: bool,
    own: bool,
    // The call that the write belongs to. It may be cancelled.
    call: Option<Call>,
}

impl<T, F> Job for Task<T, F>
where
    T: Send,
    F: FnOnce(&Connection, i64) -> Result<T, Fault> + Send,
{
    fn run(&mut self, db: &Connection, tenant: i64, address: &str) -> bool {
        let begun = self.call.as_ref().map_or(Ok(()), Call::begin);
        self.result = match begun {
            Err(withdrawn) => Some(Err(withdrawn)),
            Ok(()) => {
                let result = self.work.take().map(|work| work(db, tenant));
                result.map(|result| result.map_err(|fault| explain(fault, address)))
            }
        };
        matches!(self.result, Some(Ok(_)))
    }

    fn fail(&mut self, error: StoreError) {
        self.result = Some(Err(error));
    }

    fn is_durable(&self) -> bool {
        self.durable
    }

    fn is_own(&self) -> bool {
        self.own
    }

    fn answer(self: Box<Self>, failure: Option<&StoreError>) {
        let answer = match failure {
            Some(failure) => Some(Err(again(failure))),
            None => self.result,
        };
        if let Some(answer) = answer {
            // The caller may have stopped waiting.
            let _ = self.reply.send(answer);
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `work` was run and committed. `run` runs a batch in one
    /// transaction and answers it; one caller at a time does that.
    pub(crate) fn write<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection, i64) -> Result<T, Fault> + Send + 'static,
        durable: bool,
        own: bool,
        run: impl Fn(Vec<Box<dyn Job>>),
    ) -> Result<T, StoreError> {
        let (reply, answer) = mpsc::sync_channel(1);
        let task = Task {
            work: Some(work),
            result: None,
            reply,
            durable,
            own,
            call: Call::current(),
        };
        let mut state = self.lock();
        state.waiting.push_back(Box::new(task));
        loop {
            if let Some(answer) = answered(&answer) {
                return answer;
            }
            if state.busy {
                state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.busy = true;
            let some = state.waiting.len().min(MOST_AT_ONCE);
            let batch: Vec<Box<dyn Job>> = state.waiting.drain(..some).collect();
            drop(state);
            // `Ended` is also dropped when `run` panics: others must not wait
            // for ever.
            let ended = Ended(self);
            run(batch);
            drop(ended);
            state = self.lock();
        }
    }
}

struct Ended<'q>(&'q Queue);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.lock().busy = false;
        self.0.changed.notify_all();
    }
}

fn answered<T>(answer: &Receiver<Result<T, StoreError>>) -> Option<Result<T, StoreError>> {
    match answer.try_recv() {
        Ok(answer) => Some(answer),
        Err(TryRecvError::Empty) => None,
        // The batch of this write panicked.
        Err(TryRecvError::Disconnected) => Some(Err(StoreError::Backend {
            store: "postgres",
            source: "a write of the same transaction panicked; nothing was written".into(),
        })),
    }
}
