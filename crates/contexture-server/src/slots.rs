//! Slots to work, shared fairly between tenants.
//!
//! A call needs a slot before its work starts. There is a limit for all calls
//! and a limit for each tenant. Calls that wait are served tenant by tenant, in
//! turn, so that a tenant with a thousand calls does not delay a tenant with one.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The number of waiting calls of a tenant from which those are removed whose
/// callers gave up.
const MANY: usize = 256;

/// The slots of a server.
pub(crate) struct Slots {
    state: Mutex<State>,
}

struct State {
    free: usize,
    tenants: HashMap<Arc<str>, TenantSlots>,
    // The tenants with waiting calls, in the order in which they are served.
    turns: VecDeque<Arc<str>>,
}

/// The slots of one tenant.
#[derive(Default)]
struct TenantSlots {
    in_use: usize,
    most: usize,
    waiting: VecDeque<oneshot::Sender<Slot>>,
}

/// The right to work. Dropping it lets the next call work.
pub(crate) struct Slot {
    // `None` when nothing is to be given back.
    slots: Option<Arc<Slots>>,
    tenant: Arc<str>,
}

impl Slots {
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

    /// Waits for a slot. `most` is the number of slots that the tenant can
    /// have at once.
    ///
    /// Dropping the future gives up: the call is then never served.
    pub(crate) async fn acquire(self: &Arc<Self>, tenant: &str, most: usize) -> Slot {
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
                    // Callers that gave up while their tenant had no slot.
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
            // The sender is dropped only with the slot inside.
            if let Ok(slot) = receiver.await {
                return slot;
            }
        }
    }

    /// Returns a slot without waiting, if one is free and the tenant has fewer
    /// than `most`.
    pub(crate) fn try_acquire(self: &Arc<Self>, tenant: &str, most: usize) -> Option<Slot> {
        let mut state = self.lock();
        let in_use = state.tenants.get(tenant).map_or(0, |of| of.in_use);
        if state.free == 0 || in_use >= most.max(1) {
            return None;
        }
        state.free -= 1;
        let name: Arc<str> = tenant.into();
        let of_tenant = state.tenants.entry(Arc::clone(&name)).or_default();
        of_tenant.most = most.max(1);
        of_tenant.in_use += 1;
        Some(Slot {
            slots: Some(Arc::clone(self)),
            tenant: name,
        })
    }

    /// Gives free slots to waiting calls, tenant by tenant.
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
                let slot = Slot {
                    slots: Some(Arc::clone(self)),
                    tenant: Arc::clone(&name),
                };
                match sender.send(slot) {
                    Ok(()) => {
                        of_tenant.in_use += 1;
                        state.free -= 1;
                        served = true;
                    }
                    // The caller gave up. The lock is held: nothing is given back.
                    Err(mut slot) => slot.slots = None,
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

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(slots) = self.slots.take() {
            slots.give_back(&self.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Waiting<'a> = Pin<Box<dyn Future<Output = Slot> + 'a>>;

    fn poll(waiting: &mut Waiting<'_>) -> Option<Slot> {
        let mut cx = Context::from_waker(Waker::noop());
        match waiting.as_mut().poll(&mut cx) {
            Poll::Ready(slot) => Some(slot),
            Poll::Pending => None,
        }
    }

    fn wait<'a>(slots: &'a Arc<Slots>, tenant: &'a str, most: usize) -> Waiting<'a> {
        Box::pin(slots.acquire(tenant, most))
    }

    #[test]
    fn tenants_are_served_in_turn() {
        let slots = Slots::new(1);
        let first = poll(&mut wait(&slots, "a", 1)).unwrap();
        let mut calls: Vec<(&str, Waiting<'_>)> = ["a", "a", "a", "b", "b", "c"]
            .into_iter()
            .map(|tenant| (tenant, wait(&slots, tenant, 1)))
            .collect();
        for (_, call) in &mut calls {
            assert!(poll(call).is_none());
        }
        assert_eq!(slots.waiting(), 6);
        drop(first);
        let mut served = Vec::new();
        while !calls.is_empty() {
            let mut ready = None;
            for (i, (_, call)) in calls.iter_mut().enumerate() {
                if let Some(slot) = poll(call) {
                    ready = Some((i, slot));
                    break;
                }
            }
            let (i, slot) = ready.unwrap();
            served.push(calls.remove(i).0);
            drop(slot);
        }
        assert_eq!(served, ["a", "b", "c", "a", "b", "a"]);
        assert_eq!(slots.waiting(), 0);
        assert!(slots.lock().tenants.is_empty());
    }

    #[test]
    fn a_free_slot_is_given_without_waiting() {
        let slots = Slots::new(3);
        let first = slots.try_acquire("a", 2).unwrap();
        let second = slots.try_acquire("a", 2).unwrap();
        assert!(slots.try_acquire("a", 2).is_none(), "the tenant's limit");
        let other = slots.try_acquire("b", 2).unwrap();
        assert!(slots.try_acquire("b", 2).is_none(), "the limit of all");
        let mut waiting = wait(&slots, "b", 2);
        assert!(poll(&mut waiting).is_none());
        drop(first);
        let last = poll(&mut waiting).unwrap();
        drop((second, other, last));
        assert!(slots.lock().tenants.is_empty());
        assert_eq!(slots.lock().free, 3);
    }

    #[test]
    fn a_tenant_leaves_places_for_others() {
        let slots = Slots::new(4);
        let mut calls: Vec<_> = (0..10).map(|_| wait(&slots, "greedy", 3)).collect();
        let mut held: Vec<Slot> = calls.iter_mut().filter_map(poll).collect();
        assert_eq!(held.len(), 3);
        let other = poll(&mut wait(&slots, "other", 3)).unwrap();
        assert!(poll(&mut wait(&slots, "third", 3)).is_none());
        // The slot goes to the tenant that is below its limit.
        drop(other);
        let served = |calls: &mut [Waiting<'_>]| -> Vec<Slot> {
            calls.iter_mut().filter_map(poll).collect()
        };
        assert!(served(&mut calls[3..]).is_empty());
        held.pop();
        assert_eq!(served(&mut calls[3..]).len(), 1);
    }

    #[test]
    fn a_call_that_gave_up_is_not_served() {
        let slots = Slots::new(1);
        let held = poll(&mut wait(&slots, "a", 1)).unwrap();
        let mut gone = wait(&slots, "a", 1);
        assert!(poll(&mut gone).is_none());
        let mut next = wait(&slots, "b", 1);
        assert!(poll(&mut next).is_none());
        drop(gone);
        drop(held);
        let held = poll(&mut next).unwrap();
        // One that was served and gave up before it looked gives the slot back.
        let mut late = wait(&slots, "a", 1);
        assert!(poll(&mut late).is_none());
        drop(held);
        drop(late);
        assert!(poll(&mut wait(&slots, "c", 1)).is_some());
        assert_eq!(slots.lock().free, 1);
    }
}
