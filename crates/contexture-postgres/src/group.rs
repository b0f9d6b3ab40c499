//! Runs concurrent calls of the same kind in one transaction.
//!
//! A transaction and its statements cost about as much for one call as for
//! several. One of the waiting callers therefore runs all waiting calls
//! together.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use contexture_store::{Call, StoreError};

/// The maximum number of calls in one transaction. It limits how long a caller
/// waits for others.
const MOST_AT_ONCE: usize = 128;

/// The maximum number of concurrent transactions. While one waits for the disk,
/// the next can be prepared. With more transactions, each would have fewer
/// calls.
const MOST_TRANSACTIONS: usize = 2;

/// How long a call waits for the transactions of other tenants. One of these may
/// wait for a lock that an import or another server holds. After this time, the call
/// begins a transaction of its own.
const PATIENCE: Duration = Duration::from_millis(100);

/// The outcome of a call: a response, or the call itself, which must then run
/// alone.
pub(crate) type Outcome<J, A> = Result<Result<A, StoreError>, J>;

/// The waiting calls.
pub(crate) struct Group<J, A> {
    state: Mutex<State<J, A>>,
    /// True if the calls of one tenant run one after the other. The database makes a
    /// transaction with the calls of one tenant wait for another one. Calls of several
    /// tenants run together only if no other transaction has calls of the same tenants.
    is_exclusive: bool,
}

struct State<J, A> {
    // Boxed, because each caller can be the one that collects a batch: a long list
    // would take fresh pages of memory in the heap of each thread.
    waiting: VecDeque<Box<Waiting<J, A>>>,
    /// The tenants for which transactions are running, and the number of these.
    busy: BTreeMap<i64, usize>,
    transactions: usize,
    /// The number of calls in running transactions.
    running: usize,
}

/// A call with a waiting caller.
pub(crate) struct Waiting<J, A> {
    pub(crate) tenant: i64,
    pub(crate) job: Option<J>,
    /// The server's call that this call belongs to. It may be cancelled.
    pub(crate) call: Option<Call>,
    outcome: Option<Outcome<J, A>>,
    /// The call after its response was stored. Its caller drops it: memory is freed
    /// fastest by the thread that allocated it, and other callers do not wait for it.
    done: Option<J>,
    reply: Reply<J, A>,
    caller: Thread,
}

/// The outcome of a call, for its caller, and the call if it was run.
type Reply<J, A> = Arc<Mutex<Option<(Outcome<J, A>, Option<J>)>>>;

impl<J, A> Drop for Waiting<J, A> {
    /// Sends the outcome to the caller. A call without an outcome is returned to
    /// its caller, which must run it alone.
    fn drop(&mut self) {
        let outcome = match (self.outcome.take(), self.job.take()) {
            (Some(outcome), _) => outcome,
            (None, Some(job)) => Err(job),
            (None, None) => Ok(Err(panicked())),
        };
        *lock(&self.reply) = Some((outcome, self.done.take()));
        self.caller.unpark();
    }
}

impl<J, A> Waiting<J, A> {
    /// Stores the response.
    pub(crate) fn answer(&mut self, answer: Result<A, StoreError>) {
        self.done = self.job.take();
        self.outcome = Some(Ok(answer));
    }
}

impl<J, A> Group<J, A> {
    pub(crate) fn new(is_exclusive: bool) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                busy: BTreeMap::new(),
                transactions: 0,
                running: 0,
            }),
            is_exclusive,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<J, A>> {
        lock(&self.state)
    }

    /// Waits until the call was run. `run` runs calls in one transaction.
    /// Returns the call if it must run alone.
    pub(crate) fn call(
        &self,
        tenant: i64,
        job: J,
        run: impl Fn(&mut [Box<Waiting<J, A>>]),
    ) -> Outcome<J, A> {
        let answer: Reply<J, A> = Arc::default();
        let waiting = Waiting {
            tenant,
            job: Some(job),
            call: Call::current(),
            outcome: None,
            done: None,
            reply: Arc::clone(&answer),
            caller: thread::current(),
        };
        let waiting = Box::new(waiting);
        let begun = Instant::now();
        let mut state = self.lock();
        state.waiting.push_back(waiting);
        loop {
            let batch = self.take(&mut state, begun.elapsed() >= PATIENCE);
            drop(state);
            if batch.is_empty() {
                Call::wait();
                thread::park_timeout(PATIENCE);
            } else {
                self.run(batch, &run);
            }
            let reply = lock(&answer).take();
            if let Some((outcome, _)) = reply {
                return outcome;
            }
            state = self.lock();
        }
    }

    fn run(&self, mut batch: Vec<Box<Waiting<J, A>>>, run: impl Fn(&mut [Box<Waiting<J, A>>])) {
        // Other callers must not wait for ever, even if `run` panics.
        let run = catch_unwind(AssertUnwindSafe(|| run(&mut batch)));
        let mut state = self.lock();
        state.transactions -= 1;
        state.running -= batch.len();
        for tenant in self.tenants(&batch) {
            if let Some(count) = state.busy.get_mut(&tenant) {
                *count -= 1;
            }
        }
        state.busy.retain(|_, count| *count > 0);
        // One of the remaining callers continues.
        let next = state.waiting.front().map(|next| next.caller.clone());
        drop(state);
        if let Some(next) = next {
            next.unpark();
        }
        for mut waiting in batch {
            if run.is_err() {
                waiting.answer(Err(panicked()));
            }
        }
    }

    /// Returns the tenants whose calls run one after the other.
    fn tenants(&self, batch: &[Box<Waiting<J, A>>]) -> BTreeSet<i64> {
        let tenants = batch.iter().filter(|_| self.is_exclusive);
        tenants.map(|waiting| waiting.tenant).collect()
    }

    /// Removes the calls from the queue that can run now.
    ///
    /// A second transaction begins only with at least half as many calls as the
    /// first one has: statements for few calls cost nearly as much as for many.
    /// Other calls wait for the end of the first transaction, or until one of them
    /// has waited too long.
    fn take(&self, state: &mut State<J, A>, waited_long: bool) -> Vec<Box<Waiting<J, A>>> {
        let mut batch = Vec::new();
        let busy = &state.busy;
        let is_free = |waiting: &Waiting<J, A>| !busy.contains_key(&waiting.tenant);
        let mut count = (state.waiting.iter()).filter(|it| is_free(it)).count();
        let begins_anyway = waited_long && self.is_exclusive && count > 0;
        if state.transactions >= MOST_TRANSACTIONS && !begins_anyway {
            return batch;
        }
        // If there are only calls of busy tenants, those of one tenant wait in the
        // database for its lock. They continue as soon as the first transaction is
        // committed. A transaction with several tenants would not wait for locks.
        let one_tenant = match count {
            0 => state.waiting.front().map(|waiting| waiting.tenant),
            _ => None,
        };
        let is_taken = |waiting: &Waiting<J, A>| match one_tenant {
            Some(tenant) => waiting.tenant == tenant,
            None => is_free(waiting),
        };
        if one_tenant.is_some() {
            count = (state.waiting.iter()).filter(|it| is_taken(it)).count();
        }
        if count * 2 < state.running.min(MOST_AT_ONCE) && !begins_anyway {
            return batch;
        }
        let mut left = VecDeque::new();
        for waiting in state.waiting.drain(..) {
            match batch.len() < MOST_AT_ONCE && is_taken(&waiting) {
                true => batch.push(waiting),
                false => left.push_back(waiting),
            }
        }
        state.waiting = left;
        state.transactions += usize::from(!batch.is_empty());
        state.running += batch.len();
        for tenant in self.tenants(&batch) {
            *state.busy.entry(tenant).or_default() += 1;
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

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(group: &Group<(), ()>, tenants: std::ops::Range<i64>) {
        for tenant in tenants {
            group.lock().waiting.push_back(Box::new(Waiting {
                tenant,
                job: Some(()),
                call: None,
                outcome: None,
                done: None,
                reply: Arc::default(),
                caller: thread::current(),
            }));
        }
    }

    fn taken(group: &Group<(), ()>) -> Vec<i64> {
        taken_after(group, false)
    }

    fn taken_after(group: &Group<(), ()>, waited_long: bool) -> Vec<i64> {
        let batch = group.take(&mut group.lock(), waited_long);
        batch.iter().map(|waiting| waiting.tenant).collect()
    }

    #[test]
    fn a_second_transaction_has_half_as_many_calls_as_the_first() {
        let group = Group::new(false);
        add(&group, 0..4);
        assert_eq!(taken(&group), [0, 1, 2, 3]);
        add(&group, 4..5);
        assert!(taken(&group).is_empty());
        add(&group, 5..6);
        assert_eq!(taken(&group), [4, 5]);
        // There are two.
        add(&group, 6..16);
        assert!(taken(&group).is_empty());
    }

    #[test]
    fn a_tenant_has_one_transaction_at_a_time_beside_others() {
        let group = Group::new(true);
        add(&group, 0..1);
        assert_eq!(taken(&group), [0]);
        add(&group, 0..3);
        assert_eq!(taken(&group), [1, 2]);
    }

    #[test]
    fn the_calls_of_one_tenant_wait_in_the_database() {
        let group = Group::new(true);
        add(&group, 0..2);
        let first = group.take(&mut group.lock(), false);
        assert_eq!(first.len(), 2);
        add(&group, 1..2);
        add(&group, 0..2);
        assert_eq!(taken(&group), [1, 1]);
        // The tenant 1 is busy until both transactions have ended.
        group.run(first, |_| {});
        add(&group, 0..3);
        assert_eq!(taken(&group), [0, 0, 2]);
    }

    #[test]
    fn a_tenant_does_not_wait_long_for_transactions_of_another() {
        let group = Group::new(true);
        for _ in 0..8 {
            add(&group, 0..1);
        }
        assert_eq!(taken(&group), [0; 8]);
        add(&group, 1..2);
        assert!(taken(&group).is_empty());
        assert_eq!(taken_after(&group, true), [1]);
        // Both wait for locks.
        add(&group, 0..3);
        assert!(taken(&group).is_empty());
        assert_eq!(taken_after(&group, true), [2]);
        // The calls of busy tenants wait for their own tenants.
        assert!(taken_after(&group, true).is_empty());
    }
}
