//! [`Call`]: allows the writes of a call to be cancelled before they begin.
//!
//! A server responds to a call that takes too long before its work is done. A
//! write that still waits for the store must then not happen, because the
//! server has asked the caller to retry. A write that has begun cannot be
//! cancelled, and the server must report that its outcome is unknown.
//!
//! A store in another process can read ahead the data that a call will need
//! next. The results are stored with the call, for one use each. A store can also
//! keep a state of its own in a call, such as a write that waits for the next one.
//!
//! A call also knows its caller, whom the audit log names, and its execution
//! slot: while it waits for a language model or for the store, other calls can
//! run.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{IdempotentCall, StoreError};

const OPEN: u8 = 0;
const BEGUN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// One call: its writes, its caller and its execution slot.
#[derive(Clone, Default)]
pub struct Call {
    state: Arc<AtomicU8>,
    caller: Option<Arc<str>>,
    place: Option<Arc<dyn ExecutionSlot>>,
    ahead: Arc<ReadAheadAnswers>,
    stores: Arc<StoreStates>,
    keyed: Option<Arc<CallKey>>,
}

/// What stores keep in a call, by a key of each store.
#[derive(Default)]
struct StoreStates {
    // The number of states, so that a lookup costs nothing if there are none.
    count: AtomicUsize,
    states: Mutex<HashMap<String, Arc<dyn Any + Send + Sync>>>,
}

/// Answers that were read ahead.
#[derive(Default)]
struct ReadAheadAnswers {
    // The number of answers, so that a lookup costs nothing if there are none.
    count: AtomicUsize,
    answers: Mutex<HashMap<String, Box<dyn Any + Send>>>,
}

/// The idempotency key of a call, and whether a write has stored it.
struct CallKey {
    call: IdempotentCall,
    is_stored: AtomicBool,
}

/// The purpose of a call to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelCall {
    /// A summary.
    Summary,
    /// Vectors of texts.
    Embedding,
}

impl ModelCall {
    /// Returns the name for metrics.
    pub fn name(self) -> &'static str {
        match self {
            ModelCall::Summary => "summary",
            ModelCall::Embedding => "embedding",
        }
    }
}

/// The right of a call to work. The call gives it up while it waits for a model.
pub trait ExecutionSlot: Send + Sync {
    /// Called before a thread of the call waits for something that needs no
    /// processor, such as a disk. It must not block.
    fn wait(&self) {}

    /// Called before a thread of the call waits for a model. It can block until
    /// the call may ask one.
    fn leave(&self, model: ModelCall);

    /// Called in the same thread when the model has answered after `time`. It
    /// can block until the call may continue.
    fn come_back(&self, model: ModelCall, time: Duration);
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("state", &self.state)
            .field("caller", &self.caller)
            .finish_non_exhaustive()
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Call>> = const { RefCell::new(None) };
}

impl Call {
    /// Returns a call of the API key with that id.
    pub fn by(caller: Option<Arc<str>>) -> Self {
        Self {
            caller,
            ..Self::default()
        }
    }

    /// Returns the same call with an execution slot.
    pub fn with_slot(mut self, place: Arc<dyn ExecutionSlot>) -> Self {
        self.place = Some(place);
        self
    }

    /// Returns the same call with an idempotency key, which its first write stores.
    pub fn keyed(mut self, call: IdempotentCall) -> Self {
        let is_stored = AtomicBool::new(false);
        self.keyed = Some(Arc::new(CallKey { call, is_stored }));
        self
    }

    /// Runs a write of a store. If the current call has an idempotency key that is
    /// not stored yet, the write gets it, and must store it.
    pub fn write_with_key<T>(
        write: impl FnOnce(Option<IdempotentCall>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let keyed = CURRENT.with_borrow(|call| call.as_ref()?.keyed.clone());
        let Some(keyed) = keyed.filter(|it| !it.is_stored.load(Ordering::Acquire)) else {
            return write(None);
        };
        let done = write(Some(keyed.call.clone()))?;
        keyed.is_stored.store(true, Ordering::Release);
        Ok(done)
    }

    /// Records that the current call is about to wait for something that needs
    /// no processor, such as a disk.
    pub fn wait() {
        let place = CURRENT.with_borrow(|call| call.as_ref()?.place.clone());
        if let Some(place) = place {
            place.wait();
        }
    }

    /// Waits for a model, which can take long. The current call releases its
    /// execution slot meanwhile.
    pub fn wait_for_model<T>(model: ModelCall, wait: impl FnOnce() -> T) -> T {
        struct ReacquireSlot(Arc<dyn ExecutionSlot>, ModelCall, Instant);
        impl Drop for ReacquireSlot {
            fn drop(&mut self) {
                self.0.come_back(self.1, self.2.elapsed());
            }
        }
        let place = CURRENT.with_borrow(|call| call.as_ref()?.place.clone());
        let _come_back = place.map(|place| {
            place.leave(model);
            ReacquireSlot(place, model, Instant::now())
        });
        wait()
    }

    /// Runs `work` as a part of `call`, if there is one: for threads that a call
    /// starts.
    pub fn run_in<T>(call: Option<&Call>, work: impl FnOnce() -> T) -> T {
        match call {
            Some(call) => call.run(work),
            None => work(),
        }
    }

    /// Returns the id of the API key of the current call, for the audit log.
    pub fn caller() -> Option<String> {
        CURRENT.with_borrow(|call| Some(call.as_ref()?.caller.as_ref()?.to_string()))
    }

    /// Runs `work` as a part of this call. Before each write by this thread,
    /// stores check that the call was not cancelled.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Restore(Option<Call>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _restore = Restore(CURRENT.replace(Some(self.clone())));
        work()
    }

    /// Returns the call that this thread works for.
    pub fn current() -> Option<Call> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Saves an answer of a store for the first query with that key. Without a
    /// current call, nothing is saved.
    pub fn keep_ahead<T: Send + 'static>(key: String, answer: T) {
        CURRENT.with_borrow(|call| {
            let Some(Call { ahead, .. }) = call else {
                return;
            };
            let mut answers = lock(&ahead.answers);
            answers.insert(key, Box::new(answer));
            ahead.count.store(answers.len(), Ordering::Release);
        });
    }

    /// Returns the answer with that key, once.
    pub fn take_ahead<T: 'static>(key: impl FnOnce() -> String) -> Option<T> {
        CURRENT.with_borrow(|call| {
            let ahead = &call.as_ref()?.ahead;
            if ahead.count.load(Ordering::Acquire) == 0 {
                return None;
            }
            let mut answers = lock(&ahead.answers);
            let answer = answers.remove(&key())?;
            ahead.count.store(answers.len(), Ordering::Release);
            answer.downcast().ok().map(|answer| *answer)
        })
    }

    /// Returns true if the answer with that key was read ahead and is not used yet.
    pub fn has_ahead(key: &str) -> bool {
        CURRENT.with_borrow(|call| {
            let ahead = call.as_ref().map(|call| &call.ahead);
            ahead.is_some_and(|ahead| {
                ahead.count.load(Ordering::Acquire) > 0 && lock(&ahead.answers).contains_key(key)
            })
        })
    }

    /// Drops the answers that were not used. A store calls this before a write,
    /// because data that was read before may then be outdated.
    pub fn forget_ahead() {
        CURRENT.with_borrow(|call| {
            let Some(Call { ahead, .. }) = call else {
                return;
            };
            if ahead.count.swap(0, Ordering::AcqRel) > 0 {
                lock(&ahead.answers).clear();
            }
        });
    }

    /// Returns the state that a store has put into the current call.
    pub fn state<T: Send + Sync + 'static>(key: &str) -> Option<Arc<T>> {
        CURRENT.with_borrow(|call| {
            let stores = &call.as_ref()?.stores;
            if stores.count.load(Ordering::Acquire) == 0 {
                return None;
            }
            let state = Arc::clone(lock(&stores.states).get(key)?);
            state.downcast().ok()
        })
    }

    /// Returns the state that a store has put into the current call, or puts the default
    /// there. Returns `None` if there is no call, or another state with that key.
    pub fn state_or_default<T: Default + Send + Sync + 'static>(key: &str) -> Option<Arc<T>> {
        CURRENT.with_borrow(|call| {
            let stores = &call.as_ref()?.stores;
            let mut states = lock(&stores.states);
            if !states.contains_key(key) {
                states.insert(key.to_owned(), Arc::<T>::default());
                stores.count.store(states.len(), Ordering::Release);
            }
            Arc::clone(states.get(key)?).downcast().ok()
        })
    }

    /// Cancels all writes of the call. Returns false if one has begun, so that
    /// the outcome is unknown.
    pub fn withdraw(&self) -> bool {
        let was = self
            .state
            .compare_exchange(OPEN, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire);
        was != Err(BEGUN)
    }

    /// Marks the beginning of a write. Fails if the call was cancelled.
    ///
    /// A store calls this where the write runs, not where it is requested.
    pub fn begin(&self) -> Result<(), StoreError> {
        let was = self
            .state
            .compare_exchange(OPEN, BEGUN, Ordering::AcqRel, Ordering::Acquire);
        match was {
            Err(WITHDRAWN) => Err(StoreError::Withdrawn),
            _ => Ok(()),
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_withdrawn_only_before_its_first_write() {
        let call = Call::default();
        call.begin().unwrap();
        assert!(!call.withdraw());
        call.begin().unwrap();
        let call = Call::default();
        assert!(call.withdraw() && call.withdraw());
        assert!(matches!(call.begin(), Err(StoreError::Withdrawn)));
    }

    #[test]
    fn an_answer_that_was_read_ahead_is_used_once() {
        let take = || Call::take_ahead::<u32>(|| "a".to_owned());
        Call::keep_ahead("a".to_owned(), 1_u32);
        assert_eq!(take(), None, "there is no call");
        let call = Call::default();
        call.run(|| {
            Call::keep_ahead("a".to_owned(), 1_u32);
            assert_eq!(Call::take_ahead::<u32>(|| "b".to_owned()), None);
            Call::default().run(|| assert_eq!(take(), None, "another call"));
            assert!(Call::has_ahead("a") && !Call::has_ahead("b"));
            assert_eq!(take(), Some(1));
            assert_eq!(take(), None);
            assert!(!Call::has_ahead("a"));
            Call::keep_ahead("a".to_owned(), 2_u32);
            Call::forget_ahead();
            assert_eq!(take(), None);
        });
    }

    #[test]
    fn a_store_keeps_its_state_as_long_as_the_call() {
        let state = || Call::state::<AtomicU8>("store").map(|it| it.load(Ordering::Relaxed));
        assert!(
            Call::state_or_default::<AtomicU8>("store").is_none(),
            "no call"
        );
        let call = Call::default();
        call.run(|| {
            assert_eq!(state(), None);
            let made = Call::state_or_default::<AtomicU8>("store").unwrap();
            assert_eq!(state(), Some(0));
            made.store(1, Ordering::Relaxed);
            assert!(Call::state::<AtomicU8>("another").is_none());
            assert!(Call::state_or_default::<AtomicBool>("store").is_none());
            Call::default().run(|| assert_eq!(state(), None, "another call"));
            let same = Call::state_or_default::<AtomicU8>("store").unwrap();
            assert_eq!(same.load(Ordering::Relaxed), 1);
        });
        assert_eq!(state(), None);
        call.run(|| assert_eq!(state(), Some(1)));
    }

    #[test]
    fn calls_nest_and_end() {
        assert!(Call::current().is_none());
        let outer = Call::by(Some("k1".into()));
        outer.run(|| {
            assert_eq!(Call::caller().as_deref(), Some("k1"));
            Call::default().run(|| Call::current().unwrap().begin().unwrap());
            assert!(Call::current().unwrap().withdraw());
        });
        assert!(outer.begin().is_err());
        assert!(Call::current().is_none());
    }
}
