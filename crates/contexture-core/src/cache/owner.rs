//! [`Owner`]: the share of the pool that the caches of one tenant can fill.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use super::{POOL, Slot};

/// The largest number that the pool is divided by: the number of owners with
/// entries, or this one.
const MOST_PARTS: u64 = 4;

/// The number of slots that may be in the queue of an owner without an entry.
const MOST_STALE: usize = 64;

/// The owner of caches, such as one tenant of a server.
///
/// An owner whose entries exceed its share evicts its own entries, beginning with
/// those that were not used since they were added. The share is the whole pool
/// while there is one owner. With several owners, three quarters of the pool are
/// divided by their number, and by four if there are more. Only owners with entries
/// count.
///
/// ```
/// use contexture_core::cache::{Cache, Owner};
///
/// let tenant = Owner::new();
/// let names: Cache<u32, String> = tenant.own(Cache::new);
/// names.insert(1, "one".to_owned(), 3);
/// assert!(tenant.bytes() > 0);
/// ```
#[derive(Clone)]
pub struct Owner(Arc<Account>);

#[derive(Default)]
struct Account {
    bytes: AtomicU64,
    entries: AtomicU64,
    // The entries in the order of their addition. The pool may have evicted some.
    slots: Mutex<VecDeque<Slot>>,
}

/// The number of owners with entries.
static ACTIVE: AtomicU64 = AtomicU64::new(0);

static EVICTIONS: AtomicU64 = AtomicU64::new(0);

static ALL: Mutex<Vec<Weak<Account>>> = Mutex::new(Vec::new());

/// The owner of caches that no other owner has.
static SHARED: LazyLock<Owner> = LazyLock::new(Owner::new);

thread_local! {
    static CURRENT: RefCell<Option<Owner>> = const { RefCell::new(None) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner")
    }
}

impl Owner {
    /// Returns an owner without entries.
    pub fn new() -> Self {
        let account = Arc::new(Account::default());
        let mut all = lock(&ALL);
        all.retain(|account| account.strong_count() > 0);
        all.push(Arc::downgrade(&account));
        Self(account)
    }

    /// Returns the owner of caches that are created now in this thread: the one
    /// whose [`own`](Self::own) runs, or else one that the whole process shares.
    pub fn current() -> Self {
        let current = CURRENT.with_borrow(Option::clone);
        current.unwrap_or_else(|| SHARED.clone())
    }

    /// Calls `create`. Caches that this thread creates meanwhile belong to this
    /// owner.
    pub fn own<T>(&self, create: impl FnOnce() -> T) -> T {
        // Restored also if `create` panics.
        struct Restore(Option<Owner>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _restore = Restore(CURRENT.replace(Some(self.clone())));
        create()
    }

    /// Returns the size of the owner's entries, in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Charges the owner for an entry until the charge is dropped.
    pub(super) fn charge(&self, bytes: u64) -> Charge {
        let account = Arc::clone(&self.0);
        account.bytes.fetch_add(bytes, Ordering::Relaxed);
        if account.entries.fetch_add(1, Ordering::AcqRel) == 0 {
            ACTIVE.fetch_add(1, Ordering::Relaxed);
        }
        Charge {
            account,
            bytes,
            is_used: AtomicBool::new(false),
        }
    }

    /// Notes an entry that was added, and evicts entries if the share is exceeded.
    pub(super) fn added(&self, slot: Slot, is_new: bool) {
        let mut slots = lock(&self.0.slots);
        if is_new {
            slots.push_back(slot);
        }
        let limit = limit();
        // An entry that was used since it was added, or since it was passed over,
        // is passed over.
        let mut chances = slots.len();
        while self.bytes() > limit
            && let Some(slot) = slots.pop_front()
        {
            let Some(entry) = POOL.entries.peek(&slot) else {
                continue;
            };
            if chances > 0 && entry.charge().is_used.swap(false, Ordering::Relaxed) {
                chances -= 1;
                slots.push_back(slot);
                continue;
            }
            drop(entry);
            if POOL.entries.remove(&slot).is_some() {
                EVICTIONS.fetch_add(1, Ordering::Relaxed);
            }
        }
        let entries = self.0.entries.load(Ordering::Relaxed);
        let most = usize::try_from(entries.saturating_mul(2)).unwrap_or(usize::MAX);
        if slots.len() > most.saturating_add(MOST_STALE) {
            slots.retain(|slot| POOL.entries.contains_key(slot));
        }
    }
}

/// The part of an owner's share that one entry uses.
pub(super) struct Charge {
    account: Arc<Account>,
    pub(super) bytes: u64,
    is_used: AtomicBool,
}

impl Charge {
    pub(super) fn mark_used(&self) {
        // A write that changes nothing would still move the cache line between cores.
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if self.account.entries.fetch_sub(1, Ordering::AcqRel) == 1 {
            ACTIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Returns how many bytes one owner can have.
pub(super) fn limit() -> u64 {
    let capacity = POOL.entries.capacity();
    match ACTIVE.load(Ordering::Relaxed) {
        0 | 1 => capacity,
        // The pool is locked in parts, which do not fill evenly. Without a reserve,
        // a full part would evict the entries of others.
        owners => capacity / 4 * 3 / owners.min(MOST_PARTS),
    }
}

pub(super) struct OwnerStats {
    pub(super) owners: u64,
    pub(super) largest: u64,
    pub(super) evictions: u64,
}

pub(super) fn stats() -> OwnerStats {
    let all = lock(&ALL);
    let accounts = all.iter().filter_map(Weak::upgrade);
    let largest = accounts.map(|account| account.bytes.load(Ordering::Relaxed));
    OwnerStats {
        owners: ACTIVE.load(Ordering::Relaxed),
        largest: largest.max().unwrap_or(0),
        evictions: EVICTIONS.load(Ordering::Relaxed),
    }
}
