//! Compaction between turns, outside of any request.
//!
//! With `[compaction] background = true`, a history that is nearly too long is
//! summarised after a turn was recorded. The next request need not wait for it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contexture::compaction::Attempt;
use contexture::store::{Call, CallPlace, ModelCall};

use crate::api::sessions;
use crate::metrics::Metrics;
use crate::tenant::Tenant;

/// The sessions that are being looked at, by tenant and label. A session has one
/// thread at most, and there are few: others are looked at after their next turn.
static RUNNING: Mutex<BTreeSet<(usize, String)>> = Mutex::new(BTreeSet::new());

/// The maximum number of threads.
const MOST_RUNNING: usize = 4;

/// The maximum number of threads of one tenant, whose summariser may be slow.
const MOST_OF_TENANT: usize = 2;

/// Summarises the history of a session in a thread of its own, if the settings
/// say so and the next request is likely to need it.
pub(crate) fn compact(tenant: &Arc<Tenant>, label: &str) {
    if !tenant.engine.config().compaction.background {
        return;
    }
    let key = (Arc::as_ptr(tenant) as usize, label.to_owned());
    {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let of_tenant = running.iter().filter(|other| other.0 == key.0).count();
        if of_tenant >= MOST_OF_TENANT
            || running.len() >= MOST_RUNNING
            || !running.insert(key.clone())
        {
            return;
        }
    }
    let done = Done(key);
    let (tenant, label) = (Arc::clone(tenant), label.to_owned());
    let work = move || {
        let _done = done;
        let call = Call::default().with_place(Arc::new(NoPlace(Arc::clone(&tenant.metrics))));
        let compact = || tenant.engine.compact_ahead(&label, tenant.fixed_now());
        match call.run(compact) {
            Ok(Attempt::Compacted(compacted)) => {
                // Nobody waits for an answer: the next request has the summary.
                let _ = sessions::publish_compacted(&tenant, &label, &compacted);
            }
            Ok(Attempt::Nothing(reason)) => {
                tracing::debug!(reason, "not compacted in the background");
            }
            Err(error) => tracing::warn!(%error, "compaction in the background failed"),
        }
    };
    // Without a thread the next request summarises, as it does without this.
    let _ = std::thread::Builder::new()
        .name("compaction".to_owned())
        .spawn(work);
}

/// Work in the background has no place to give up. Its model calls are measured.
struct NoPlace(Arc<Metrics>);

impl CallPlace for NoPlace {
    fn leave(&self, _: ModelCall) {
        self.0.models.in_progress.inc();
    }

    fn come_back(&self, model: ModelCall, time: Duration) {
        self.0.models.in_progress.dec();
        self.0.models.answered(model, time);
    }
}

/// Takes a session out of those that are looked at, however its thread ends.
struct Done((usize, String));

impl Drop for Done {
    fn drop(&mut self) {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.remove(&self.0);
    }
}
