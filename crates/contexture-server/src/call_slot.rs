//! The slot of a call in progress, which others get while the call waits for a
//! language model.
//!
//! Calls of models have slots of their own. A call first gets such a slot, and
//! only then gives up its slot to work: the number of threads stays bounded.
//!
//! A call also has a core, which it gives up for good when it first waits for the
//! store or a model.
//!
//! A call that comes back from a model waits for neither: it may hold a lock that
//! calls with all the slots wait for. It gets a slot if one is free, and works
//! without one otherwise. The slots of model calls limit how many do so.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contexture::store::{ExecutionSlot, ModelCall};
use tokio::runtime::Handle;

use crate::app::App;
use crate::slots::Slot;
use crate::traces::ActiveSpan;

/// The slot of a call.
pub(crate) struct CallSlot {
    app: App,
    tenant: Arc<str>,
    runtime: Handle,
    span: Option<ActiveSpan>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    // `None` while the call waits for a model, after that if none was free, and
    // after its work is done.
    slot: Option<Slot>,
    // `None` after the first wait, and without API keys.
    core: Option<Slot>,
    // One for each thread of the call that waits for a model.
    model_calls: Vec<Slot>,
    done: bool,
}

impl CallSlot {
    pub(crate) fn new(
        app: App,
        tenant: &str,
        (slot, core): (Slot, Option<Slot>),
        span: Option<ActiveSpan>,
    ) -> Arc<Self> {
        let state = State {
            slot: Some(slot),
            core,
            ..State::default()
        };
        Arc::new(Self {
            app,
            tenant: tenant.into(),
            runtime: Handle::current(),
            span,
            state: Mutex::new(state),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExecutionSlot for CallSlot {
    fn wait(&self) {
        let core = self.lock().core.take();
        drop(core);
    }

    fn leave(&self, _: ModelCall) {
        self.wait();
        let model_call = self.runtime.block_on(self.app.model_call(&self.tenant));
        self.app.metrics().models.in_progress.inc();
        let mut state = self.lock();
        state.model_calls.push(model_call);
        let slot = state.slot.take();
        drop(state);
        // Its return to the others must not happen under the lock.
        drop(slot);
    }

    fn come_back(&self, model: ModelCall, time: Duration) {
        self.app.metrics().models.in_progress.dec();
        self.app.metrics().models.answered(model, time);
        if let Some(span) = &self.span {
            span.model_call(model, time);
        }
        let mut state = self.lock();
        let model_call = state.model_calls.pop();
        let is_last = state.model_calls.is_empty() && !state.done;
        drop(state);
        drop(model_call);
        if !is_last {
            return;
        }
        let Some(slot) = self.app.free_slot(&self.tenant) else {
            return;
        };
        let mut state = self.lock();
        let unused = match state.done || state.slot.is_some() {
            true => Some(slot),
            false => {
                state.slot = Some(slot);
                None
            }
        };
        drop(state);
        drop(unused);
    }
}

/// Gives a slot back when the work of its call is done. The call itself can be
/// known for longer.
pub(crate) struct EndOfWork(pub(crate) Arc<CallSlot>);

impl Drop for EndOfWork {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.done = true;
        let slots = (state.slot.take(), state.core.take());
        drop(state);
        drop(slots);
    }
}
