//! Calls of the same kind that are made at the same time, in one transaction.
//!
//! A transaction and its statements cost about as much for one call as for some.
//! Calls that wait are therefore made together by one of the waiting callers.

use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

use contexture_store::{Call, StoreError};

/// The most calls in one transaction, so that no caller waits for a flood of others.
const MOST_AT_ONCE: usize = 128;

/// How many transactions run at the same time. While one waits for the disk, the next
/// can be prepared; with more of them, each has fewer calls.
const MOST_TRANSACTIONS: usize = 2;

/// What came of a call: an answer, or the call, to be made alone.
pub(crate) type Outcome<J, A> = Result<Result<A, StoreError>, J>;

/// The calls that wait.
pub(crate) struct Group<J, A> {
    state: Mutex<State<J, A>>,
    /// Whether the calls of one tenant are made one after the other.
    is_exclusive: bool,
}

struct State<J, A> {
    waiting: VecDeque<Waiting<J, A>>,
    /// The tenants for which a transaction runs now.
    busy: BTreeSet<i64>,
    transactions: usize,
}

/// A call that somebody waits for.
pub(crate) struct Waiting<J, A> {
    pub(crate) tenant: i64,
    pub(crate) job: Option<J>,
    /// The call of the server that it is a part of, which may be withdrawn.
    pub(crate) call: Option<Call>,
    outcome: Option<Outcome<J, A>>,
    reply: SyncSender<Outcome<J, A>>,
    caller: Thread,
}

impl<J, A> Waiting<J, A> {
    /// Hands the call back, to be made alone.
    fn hand_back(&mut self) {
        if let Some(job) = self.job.take() {
            self.outcome = Some(Err(job));
        }
    }

    /// Notes the answer.
    pub(crate) fn answer(&mut self, answer: Result<A, StoreError>) {
        self.job = None;
        self.outcome = Some(Ok(answer));
    }
}

impl<J, A> Group<J, A> {
    pub(crate) fn new(is_exclusive: bool) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                busy: BTreeSet::new(),
                transactions: 0,
            }),
            is_exclusive,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<J, A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the call was made. `run` makes calls in one transaction. Returns
    /// the call if it has to be made alone.
    pub(crate) fn call(
        &self,
        tenant: i64,
        job: J,
        run: impl Fn(&mut [Waiting<J, A>]),
    ) -> Outcome<J, A> {
        let (reply, answer) = mpsc::sync_channel(1);
        let waiting = Waiting {
            tenant,
            job: Some(job),
            call: Call::current(),
            outcome: None,
            reply,
            caller: thread::current(),
        };
        let mut state = self.lock();
        state.waiting.push_back(waiting);
        loop {
            let batch = self.take(&mut state);
            drop(state);
            let is_leader = !batch.is_empty();
            if is_leader {
                self.run(batch, &run);
            }
            if let Some(outcome) = answered(&answer) {
                return outcome;
            }
            if !is_leader {
                Call::wait();
                thread::park();
            }
            if let Some(outcome) = answered(&answer) {
                return outcome;
            }
            state = self.lock();
        }
    }

    fn run(&self, mut batch: Vec<Waiting<J, A>>, run: impl Fn(&mut [Waiting<J, A>])) {
        // Others must not wait for ever, also when this panics.
        let run = catch_unwind(AssertUnwindSafe(|| run(&mut batch)));
        let mut state = self.lock();
        state.transactions -= 1;
        for waiting in &batch {
            state.busy.remove(&waiting.tenant);
        }
        // One of those who still wait goes on.
        let next = state.waiting.front().map(|next| next.caller.clone());
        drop(state);
        if let Some(next) = next {
            next.unpark();
        }
        for mut waiting in batch {
            if run.is_err() {
                waiting.answer(Err(panicked()));
            }
            waiting.hand_back();
            if let Some(outcome) = waiting.outcome.take() {
                // A caller that is gone does not mind.
                let _ = waiting.reply.send(outcome);
            }
            waiting.caller.unpark();
        }
    }

    /// Takes calls that can be made now.
    fn take(&self, state: &mut State<J, A>) -> Vec<Waiting<J, A>> {
        let mut batch = Vec::new();
        if state.transactions == MOST_TRANSACTIONS {
            return batch;
        }
        let mut left = VecDeque::new();
        for waiting in state.waiting.drain(..) {
            match batch.len() < MOST_AT_ONCE && !state.busy.contains(&waiting.tenant) {
                true => batch.push(waiting),
                false => left.push_back(waiting),
            }
        }
        state.waiting = left;
        state.transactions += usize::from(!batch.is_empty());
        if self.is_exclusive {
            state
                .busy
                .extend(batch.iter().map(|waiting| waiting.tenant));
        }
        batch
    }
}

fn panicked() -> StoreError {
    StoreError::Backend {
        store: "postgres",
        source: "a call of the same transaction panicked".into(),
    }
}

fn answered<J, A>(answer: &Receiver<Outcome<J, A>>) -> Option<Outcome<J, A>> {
    match answer.try_recv() {
        Ok(outcome) => Some(outcome),
        Err(TryRecvError::Empty) => None,
        Err(TryRecvError::Disconnected) => Some(Ok(Err(panicked()))),
    }
}
