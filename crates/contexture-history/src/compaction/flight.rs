//! One compaction of a history at a time.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};

use contexture_store::TurnId;

static RUNNING: Mutex<BTreeSet<TurnId>> = Mutex::new(BTreeSet::new());
static ENDED: Condvar = Condvar::new();

/// A lock on the compaction of a history that ends with a turn. Others wait for
/// it: a second summary of the same turns would be discarded.
pub(crate) struct Flight(TurnId);

impl Flight {
    pub(crate) fn begin(head: TurnId) -> Self {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        while !running.insert(head) {
            running = ENDED.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        Self(head)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.remove(&self.0);
        ENDED.notify_all();
    }
}
