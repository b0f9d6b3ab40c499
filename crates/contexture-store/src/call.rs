//! [`Call`]: lets the writes of a call be withdrawn before they begin.
//!
//! A server answers a call that takes too long before its work is done. A write
//! that still waits for the store must then not happen: the caller was told to
//! retry. A write that has begun cannot be withdrawn, and the caller must be told
//! that its outcome is unknown.
//!
//! A call also knows its caller, whom the audit log names, and its place: while
//! it waits for a language model or for the store, others can work.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::StoreError;

const OPEN: u8 = 0;
const BEGUN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// One call: its writes, its caller and its place.
#[derive(Clone, Default)]
pub struct Call {
    state: Arc<AtomicU8>,
    caller: Option<Arc<str>>,
    place: Option<Arc<dyn CallPlace>>,
}

/// What a call asks a model for.
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
pub trait CallPlace: Send + Sync {
    /// Called before a thread of the call waits for something that needs no
    /// processor, such as a disk. It must not block.
    fn wait(&self) {}

    /// Called before a thread of the call waits for a model. It can block until
    /// the call may ask one.
    fn leave(&self, model: ModelCall);

    /// Called in the same thread when the model has answered after `time`. It can
    /// block until the call may work again.
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

    /// Returns the same call with a place to work.
    pub fn with_place(mut self, place: Arc<dyn CallPlace>) -> Self {
        self.place = Some(place);
        self
    }

    /// Notes that the current call is about to wait for something that needs no
    /// processor, such as a disk.
    pub fn wait() {
        let place = CURRENT.with_borrow(|call| call.as_ref()?.place.clone());
        if let Some(place) = place {
            place.wait();
        }
    }

    /// Waits for a model, which can take long. The current call gives up its place
    /// meanwhile.
    pub fn wait_for_model<T>(model: ModelCall, wait: impl FnOnce() -> T) -> T {
        struct ComeBack(Arc<dyn CallPlace>, ModelCall, Instant);
        impl Drop for ComeBack {
            fn drop(&mut self) {
                self.0.come_back(self.1, self.2.elapsed());
            }
        }
        let place = CURRENT.with_borrow(|call| call.as_ref()?.place.clone());
        let _come_back = place.map(|place| {
            place.leave(model);
            ComeBack(place, model, Instant::now())
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

    /// Runs `work` as a part of this call. Stores check, before each write that
    /// this thread asks for, that the call was not withdrawn.
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

    /// Withdraws all writes of the call. Returns false if one has begun, so that
    /// the outcome is unknown.
    pub fn withdraw(&self) -> bool {
        let was = self
            .state
            .compare_exchange(OPEN, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire);
        was != Err(BEGUN)
    }

    /// Notes that a write begins. Fails if the call was withdrawn.
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
