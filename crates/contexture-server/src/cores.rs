//! Cores: how many calls of a tenant compute at a time.
//!
//! The system shares processors between threads, not between tenants: a tenant
//! with many threads at work would slow down all others. While several tenants
//! send calls, each therefore leaves one core to the others. A tenant that is
//! alone uses all cores.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::slots::{Slot, Slots};

/// How long after a call of another tenant a tenant is not alone.
const RECENT: Duration = Duration::from_secs(10);

/// The cores of a server.
pub(crate) struct Cores {
    // One slot per call that computes. Only tenants have a limit.
    slots: Arc<Slots>,
    // The number of calls of a tenant that compute at a time, next to others.
    most: usize,
    recent: Mutex<Recent>,
}

impl Default for Cores {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            slots: Slots::new(usize::MAX),
            most: cores.saturating_sub(1).max(1),
            recent: Mutex::default(),
        }
    }
}

impl Cores {
    /// Waits until a call of a tenant can compute.
    pub(crate) async fn acquire(&self, tenant: &str) -> Slot {
        let is_alone = {
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            recent.is_alone(tenant, Instant::now())
        };
        let most = if is_alone { usize::MAX } else { self.most };
        self.slots.acquire(tenant, most).await
    }

    /// Returns the number of waiting calls.
    pub(crate) fn waiting(&self) -> usize {
        self.slots.waiting()
    }
}

/// The tenants that sent the latest calls.
#[derive(Default)]
struct Recent {
    latest: Option<(Arc<str>, Instant)>,
    // The time of the latest call of any other tenant.
    other: Option<Instant>,
}

impl Recent {
    /// Notes a call of a tenant. Returns true if no other tenant has called for
    /// some time.
    fn is_alone(&mut self, tenant: &str, now: Instant) -> bool {
        match &mut self.latest {
            Some((name, at)) if **name == *tenant => *at = now,
            latest => {
                let before = latest.replace((tenant.into(), now));
                self.other = before.map(|(_, at)| at);
            }
        }
        self.other
            .is_none_or(|at| now.saturating_duration_since(at) >= RECENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_alone_when_no_other_has_called_for_some_time() {
        let mut recent = Recent::default();
        let begin = Instant::now();
        let mut call =
            |tenant, second| recent.is_alone(tenant, begin + Duration::from_secs(second));
        assert!(call("a", 0));
        assert!(call("a", 1));
        assert!(!call("b", 2));
        assert!(!call("a", 3));
        assert!(!call("a", 11));
        // The last call of `b` was ten seconds ago.
        assert!(call("a", 12));
        assert!(call("b", 30));
        assert!(!call("a", 31));
    }
}
