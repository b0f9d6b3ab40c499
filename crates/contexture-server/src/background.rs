//! Compaction between turns, outside of any request.
//!
//! With `[compaction] background = true`, a history that is nearly too long is
//! summarised after a turn was recorded. The next request need not wait for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contexture::compaction::Attempt;
use contexture::store::{Call, ExecutionSlot, ModelCall};
use tokio::runtime::Handle;

use crate::app::App;
use crate::slots::Slot;
use crate::tenant::Tenant;

/// A tenant and the label of one of its sessions.
type Key = (usize, String);

/// The sessions that are being looked at, and whether a turn was recorded
/// meanwhile. A session has one thread at most, and there are few: others are
/// looked at after their next turn.
static RUNNING: Mutex<BTreeMap<Key, bool>> = Mutex::new(BTreeMap::new());

/// The maximum number of threads.
const MOST_RUNNING: usize = 4;

/// The maximum number of threads of one tenant, whose summariser may be slow.
const MOST_OF_TENANT: usize = 2;

fn running() -> MutexGuard<'static, BTreeMap<Key, bool>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Summarises the history of a session in a thread of its own, if the settings
/// say so and the next request is likely to need it. Its calls of a model wait
/// with those of requests.
pub(crate) fn compact(app: &App, tenant: &Arc<Tenant>, label: &str) {
    if !tenant.engine.config().compaction.background {
        return;
    }
    let key = (Arc::as_ptr(tenant) as usize, label.to_owned());
    {
        let mut running = running();
        if let Some(again) = running.get_mut(&key) {
            *again = true;
            return;
        }
        let of_tenant = running.keys().filter(|other| other.0 == key.0).count();
        if of_tenant >= MOST_OF_TENANT || running.len() >= MOST_RUNNING {
            return;
        }
        running.insert(key.clone(), false);
    }
    let mut run = Run(Some(key));
    let (tenant, label) = (Arc::clone(tenant), label.to_owned());
    let slot = ModelSlots {
        app: app.clone(),
        tenant: Arc::clone(&tenant.name),
        runtime: Handle::current(),
        held: Mutex::default(),
    };
    let work = move || {
        let call = Call::default().with_slot(Arc::new(slot));
        loop {
            let compact = || tenant.engine.compact_ahead(&label, tenant.fixed_now());
            match call.run(compact) {
                // No caller waits for an answer: the next request has the summary.
                Ok(Attempt::Compacted(_)) => tenant.events.wake(),
                Ok(Attempt::Nothing(reason)) => {
                    tracing::debug!(reason, "not compacted in the background");
                }
                Err(error) => tracing::warn!(%error, "compaction in the background failed"),
            }
            if !run.goes_on() {
                return;
            }
        }
    };
    // Without a thread the next request summarises, as it does without this.
    let _ = std::thread::Builder::new()
        .name("compaction".to_owned())
        .spawn(work);
}

/// Work in the background has no slot to give up. Its model calls need one, as
/// those of requests do.
struct ModelSlots {
    app: App,
    tenant: Arc<str>,
    runtime: Handle,
    held: Mutex<Vec<Slot>>,
}

impl ModelSlots {
    fn held(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExecutionSlot for ModelSlots {
    fn leave(&self, _: ModelCall) {
        let slot = self.runtime.block_on(self.app.model_call(&self.tenant));
        self.held().push(slot);
        self.app.metrics().models.in_progress.inc();
    }

    fn come_back(&self, model: ModelCall, time: Duration) {
        self.app.metrics().models.in_progress.dec();
        self.app.metrics().models.answered(model, time);
        let slot = self.held().pop();
        drop(slot);
    }
}

/// A session in the list of sessions in progress. Dropping it removes the
/// session from the list, however its thread ends.
struct Run(Option<Key>);

impl Run {
    /// Returns true if a turn was recorded since the session was looked at.
    /// Otherwise takes the session out of the list, so that the next turn starts
    /// a thread.
    fn goes_on(&mut self) -> bool {
        let mut running = running();
        let again = self.0.as_ref().and_then(|key| running.get_mut(key));
        if again.is_some_and(std::mem::take) {
            return true;
        }
        if let Some(key) = self.0.take() {
            running.remove(&key);
        }
        false
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(key) = &self.0 {
            running().remove(key);
        }
    }
}
