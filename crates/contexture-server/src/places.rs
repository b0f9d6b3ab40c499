//! Places to work, shared fairly between tenants.
//!
//! A call needs a place before its work starts. There is a limit for all calls
//! and a limit for each tenant. Calls that wait are served tenant by tenant, in
//! turn, so that a tenant with a thousand calls does not delay a tenant with one.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The number of waiting calls of a tenant from which those are removed whose
/// callers gave up.
const MANY: usize = 256;

/// The places of a server.
pub(crate) struct Places {
    state: Mutex<State>,
}

struct State {
    free: usize,
    tenants: HashMap<Arc<str>, TenantPlaces>,
    // The tenants with waiting calls, in the order in which they are served.
    turns: VecDeque<Arc<str>>,
}

/// The places of one tenant.
#[derive(Default)]
struct TenantPlaces {
    in_use: usize,
    most: usize,
    waiting: VecDeque<oneshot::Sender<Place>>,
}

/// The right to work. Dropping it lets the next call work.
pub(crate) struct Place {
    // `None` when nothing is to be given back.
    places: Option<Arc<Places>>,
    tenant: Arc<str>,
}

impl Places {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let state = State {
            free: most,
            tenants: HashMap::new(),
            turns: VecDeque::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
        })
    }

    /// Waits for a place. `most` is the number of places that the tenant can
    /// have at once.
    ///
    /// Dropping the future gives up: the call is then never served.
    pub(crate) async fn acquire(self: &Arc<Self>, tenant: &str, most: usize) -> Place {
        loop {
            let receiver = {
                let mut state = self.lock();
                let name: Arc<str> = match state.tenants.get_key_value(tenant) {
                    Some((name, _)) => Arc::clone(name),
                    None => tenant.into(),
                };
                let of_tenant = state.tenants.entry(Arc::clone(&name)).or_default();
                of_tenant.most = most.max(1);
                let listed = !of_tenant.waiting.is_empty();
                if of_tenant.waiting.len() >= MANY {
                    // Callers that gave up while their tenant had no place.
                    of_tenant.waiting.retain(|sender| !sender.is_closed());
                }
                let (sender, receiver) = oneshot::channel();
                of_tenant.waiting.push_back(sender);
                if !listed {
                    state.turns.push_back(name);
                }
                self.serve(&mut state);
                receiver
            };
            // The sender is dropped only with the place inside.
            if let Ok(place) = receiver.await {
                return place;
            }
        }
    }

    /// Gives free places to waiting calls, tenant by tenant.
    fn serve(self: &Arc<Self>, state: &mut State) {
        let mut skipped = 0;
        while state.free > 0 && skipped < state.turns.len() {
            let Some(name) = state.turns.pop_front() else {
                return;
            };
            let Some(of_tenant) = state.tenants.get_mut(&name) else {
                continue;
            };
            let mut served = false;
            while of_tenant.in_use < of_tenant.most
                && !served
                && let Some(sender) = of_tenant.waiting.pop_front()
            {
                let place = Place {
                    places: Some(Arc::clone(self)),
                    tenant: Arc::clone(&name),
                };
                match sender.send(place) {
                    Ok(()) => {
                        of_tenant.in_use += 1;
                        state.free -= 1;
                        served = true;
                    }
                    // The caller gave up. The lock is held: nothing is given back.
                    Err(mut place) => place.places = None,
                }
            }
            // A tenant whose callers all gave up is not in the queue any more.
            skipped = match (served, of_tenant.waiting.is_empty()) {
                (true, _) => 0,
                (false, true) => skipped,
                (false, false) => skipped + 1,
            };
            match (of_tenant.waiting.is_empty(), of_tenant.in_use) {
                (false, _) => state.turns.push_back(name),
                (true, 0) => drop(state.tenants.remove(&name)),
                (true, _) => {}
            }
        }
    }

    fn give_back(self: &Arc<Self>, tenant: &Arc<str>) {
        let mut state = self.lock();
        state.free += 1;
        if let Some(of_tenant) = state.tenants.get_mut(tenant) {
            of_tenant.in_use -= 1;
            if of_tenant.in_use == 0 && of_tenant.waiting.is_empty() {
                state.tenants.remove(tenant);
            }
        }
        self.serve(&mut state);
    }

    /// Returns the number of waiting calls.
    pub(crate) fn waiting(&self) -> usize {
        let state = self.lock();
        (state.tenants.values()).map(|of| of.waiting.len()).sum()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(places) = self.places.take() {
            places.give_back(&self.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Waiting<'a> = Pin<Box<dyn Future<Output = Place> + 'a>>;

    fn poll(waiting: &mut Waiting<'_>) -> Option<Place> {
        let mut cx = Context::from_waker(Waker::noop());
        match waiting.as_mut().poll(&mut cx) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    fn wait<'a>(places: &'a Arc<Places>, tenant: &'a str, most: usize) -> Waiting<'a> {
        Box::pin(places.acquire(tenant, most))
    }

    #[test]
    fn tenants_are_served_in_turn() {
        let places = Places::new(1);
        let first = poll(&mut wait(&places, "a", 1)).unwrap();
        let mut calls: Vec<(&str, Waiting<'_>)> = ["a", "a", "a", "b", "b", "c"]
            .into_iter()
            .map(|tenant| (tenant, wait(&places, tenant, 1)))
            .collect();
        for (_, call) in &mut calls {
            assert!(poll(call).is_none());
        }
        assert_eq!(places.waiting(), 6);
        drop(first);
        let mut served = Vec::new();
        while !calls.is_empty() {
            let mut ready = None;
            for (i, (_, call)) in calls.iter_mut().enumerate() {
                if let Some(place) = poll(call) {
                    ready = Some((i, place));
                    break;
                }
            }
            let (i, place) = ready.unwrap();
            served.push(calls.remove(i).0);
            drop(place);
        }
        assert_eq!(served, ["a", "b", "c", "a", "b", "a"]);
        assert_eq!(places.waiting(), 0);
        assert!(places.lock().tenants.is_empty());
    }

    #[test]
    fn a_tenant_leaves_places_for_others() {
        let places = Places::new(4);
        let mut calls: Vec<_> = (0..10).map(|_| wait(&places, "greedy", 3)).collect();
        let mut held: Vec<Place> = calls.iter_mut().filter_map(poll).collect();
        assert_eq!(held.len(), 3);
        let other = poll(&mut wait(&places, "other", 3)).unwrap();
        assert!(poll(&mut wait(&places, "third", 3)).is_none());
        // The place goes to the tenant that is below its limit.
        drop(other);
        let served = |calls: &mut [Waiting<'_>]| -> Vec<Place> {
            calls.iter_mut().filter_map(poll).collect()
        };
        assert!(served(&mut calls[3..]).is_empty());
        held.pop();
        assert_eq!(served(&mut calls[3..]).len(), 1);
    }

    #[test]
    fn a_call_that_gave_up_is_not_served() {
        let places = Places::new(1);
        let held = poll(&mut wait(&places, "a", 1)).unwrap();
        let mut gone = wait(&places, "a", 1);
        assert!(poll(&mut gone).is_none());
        let mut next = wait(&places, "b", 1);
        assert!(poll(&mut next).is_none());
        drop(gone);
        drop(held);
        let held = poll(&mut next).unwrap();
        // One that was served and gave up before it looked gives the place back.
        let mut late = wait(&places, "a", 1);
        assert!(poll(&mut late).is_none());
        drop(held);
        drop(late);
        assert!(poll(&mut wait(&places, "c", 1)).is_some());
        assert_eq!(places.lock().free, 1);
    }
}
