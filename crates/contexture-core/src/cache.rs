//! [`Cache`]: a cache in memory, backed by one pool for the whole process with
//! a limit in bytes.
//!
//! A [`Cache`] is a typed view of the pool. All entries of all caches and
//! tenants together stay within the limit ([`set_limit`]); the least used
//! entries are evicted first. An entry can be evicted at any time, so no result
//! may depend on one.
//!
//! A cache belongs to an [`Owner`], such as a tenant of a server. An owner that
//! fills its share of the pool evicts its own entries, not those of others.
//!
//! ```
//! use contexture_core::cache::Cache;
//!
//! let squares: Cache<u64, u64> = Cache::new();
//! squares.insert(3, 9, 16);
//! assert_eq!(squares.get(&3), Some(9));
//! assert_eq!(squares.get(&4), None);
//! ```

mod owner;

use std::any::Any;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use quick_cache::sync::{self, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

pub use owner::Owner;
use owner::{Charge, OwnerStats};

/// The bound unless another is set: 256 MiB.
pub const DEFAULT_LIMIT: u64 = 256 << 20;

/// The bytes of an entry beyond the size that its owner reports.
const ENTRY_BYTES: u64 = 160;

/// About how large an entry is, to make room for their number.
const TYPICAL_BYTES: u64 = 2_048;

/// In how many parts the pool is locked. Each has its share of the bound, and
/// an entry larger than a share is not kept. The default of the library grows
/// with the number of processors, and the shares would become small.
const PARTS: usize = 8;

/// The key of an entry in the pool: the number of its cache, and the hash of
/// its key with a random seed. The key itself is compared when an entry is
/// found.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Slot {
    space: u64,
    hash: u64,
}

/// An entry of the pool.
trait Held: Any + Send + Sync {
    fn charge(&self) -> &Charge;

    fn as_any(&self) -> &dyn Any;
}

/// A key and a value of a cache's own types.
struct Pair<K, V> {
    key: K,
    value: V,
    charge: Charge,
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static> Held for Pair<K, V> {
    fn charge(&self) -> &Charge {
        &self.charge
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

type Entry = Arc<dyn Held>;

#[derive(Clone)]
struct ByBytes;

impl Weighter<Slot, Entry> for ByBytes {
    fn weight(&self, _: &Slot, entry: &Entry) -> u64 {
        entry.charge().bytes
    }
}

struct Pool {
    entries: sync::Cache<Slot, Entry, ByBytes>,
    seed: RandomState,
    hits: AtomicU64,
    misses: AtomicU64,
}

static POOL: LazyLock<Pool> = LazyLock::new(|| Pool {
    entries: entries(),
    seed: RandomState::new(),
    hits: AtomicU64::new(0),
    misses: AtomicU64::new(0),
});

fn entries() -> sync::Cache<Slot, Entry, ByBytes> {
    let items = usize::try_from(DEFAULT_LIMIT / TYPICAL_BYTES).unwrap_or(usize::MAX);
    let options = OptionsBuilder::new()
        .shards(PARTS)
        .estimated_items_capacity(items)
        .weight_capacity(DEFAULT_LIMIT)
        .build();
    match options {
        Ok(options) => sync::Cache::with_options(
            options,
            ByBytes,
            DefaultHashBuilder::default(),
            DefaultLifecycle::default(),
        ),
        // Both that must be set are.
        Err(_) => sync::Cache::with_weighter(items, DEFAULT_LIMIT, ByBytes),
    }
}

static NEXT_SPACE: AtomicU64 = AtomicU64::new(1);

/// Sets how many bytes all caches of the process may hold together.
pub fn set_limit(bytes: u64) {
    POOL.entries.set_capacity(bytes);
}

/// The size of all caches of the process, and their hits and misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// The number of entries.
    pub entries: u64,
    /// The size of all entries, in bytes.
    pub bytes: u64,
    /// The bound on `bytes`.
    pub limit: u64,
    /// The number of lookups that found an entry.
    pub hits: u64,
    /// The number of lookups that found none.
    pub misses: u64,
    /// The number of owners with entries.
    pub owners: u64,
    /// The bound on the entries of one owner, in bytes.
    pub owner_limit: u64,
    /// The size of the entries of the owner that has most, in bytes.
    pub largest_owner_bytes: u64,
    /// The number of entries that were evicted because their owner reached its
    /// bound.
    pub owner_evictions: u64,
}

/// Returns the size of all caches of the process, and their hits and misses.
pub fn stats() -> Stats {
    let OwnerStats {
        owners,
        largest,
        evictions,
    } = owner::stats();
    Stats {
        owners,
        owner_limit: owner::limit(),
        largest_owner_bytes: largest,
        owner_evictions: evictions,
        entries: POOL.entries.len() as u64,
        bytes: POOL.entries.weight(),
        limit: POOL.entries.capacity(),
        hits: POOL.hits.load(Ordering::Relaxed),
        misses: POOL.misses.load(Ordering::Relaxed),
    }
}

/// Values by key, kept as long as the process has room for them.
pub struct Cache<K, V> {
    // The number that marks this cache's entries in the pool. A new number
    // empties the cache.
    space: AtomicU64,
    owner: Owner,
    types: PhantomData<fn(K) -> V>,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self {
            space: AtomicU64::new(NEXT_SPACE.fetch_add(1, Ordering::Relaxed)),
            owner: Owner::current(),
            types: PhantomData,
        }
    }
}

impl<K, V> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cache")
    }
}

impl<K, V> Cache<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Returns an empty cache of the [current owner](Owner::own).
    pub fn new() -> Self {
        Self::default()
    }

    fn slot(&self, key: &K) -> Slot {
        Slot {
            space: self.space.load(Ordering::Acquire),
            hash: POOL.seed.hash_one(key),
        }
    }

    /// Returns the value cached for `key`, or `None` if there is none or it was
    /// evicted.
    pub fn get(&self, key: &K) -> Option<V> {
        let found = POOL.entries.get(&self.slot(key));
        let pair = found.as_ref().and_then(|entry| {
            let pair: &Pair<K, V> = entry.as_any().downcast_ref()?;
            (pair.key == *key).then_some(pair)
        });
        let value = pair.map(|pair| {
            pair.charge.mark_used();
            pair.value.clone()
        });
        match &value {
            Some(_) => POOL.hits.fetch_add(1, Ordering::Relaxed),
            None => POOL.misses.fetch_add(1, Ordering::Relaxed),
        };
        value
    }

    /// Adds a value of about `bytes` bytes. A previous value for the key is
    /// replaced.
    pub fn insert(&self, key: K, value: V, bytes: usize) {
        let slot = self.slot(&key);
        let charge = self.owner.charge(bytes as u64 + ENTRY_BYTES);
        let is_new = !POOL.entries.contains_key(&slot);
        let pair = Pair { key, value, charge };
        POOL.entries.insert(slot, Arc::new(pair));
        self.owner.added(slot, is_new);
    }

    /// Removes the entry for `key`.
    pub fn remove(&self, key: &K) {
        POOL.entries.remove(&self.slot(key));
    }

    /// Removes all entries. Their memory is reused when other entries need it.
    pub fn clear(&self) {
        let space = NEXT_SPACE.fetch_add(1, Ordering::Relaxed);
        self.space.store(space, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_do_not_see_each_other() {
        let (a, b): (Cache<u32, String>, Cache<u32, String>) = (Cache::new(), Cache::new());
        a.insert(1, "a".to_owned(), 1);
        assert_eq!((a.get(&1), b.get(&1)), (Some("a".to_owned()), None));
        b.insert(1, "b".to_owned(), 1);
        assert_eq!(a.get(&1).as_deref(), Some("a"));
        a.remove(&1);
        assert_eq!((a.get(&1), b.get(&1).as_deref()), (None, Some("b")));
        b.clear();
        assert_eq!(b.get(&1), None);
    }

    #[test]
    fn all_caches_together_stay_within_the_bound() {
        let caches: Vec<Cache<u64, Arc<[u8]>>> = (0..8).map(|_| Cache::new()).collect();
        for n in 0..2_000 {
            for cache in &caches {
                cache.insert(n, Arc::from([0; 8]), 64 << 10);
                let stats = stats();
                assert!(stats.bytes <= stats.limit, "{stats:?}");
            }
        }
        // Entries that are used repeatedly are still cached.
        let held = (0..2_000).filter(|n| caches[0].get(n).is_some()).count();
        assert!(held > 0);
        assert!(stats().misses > 0);
    }
}
