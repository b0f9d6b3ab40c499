//! One owner of caches cannot evict the entries of another. The pool belongs to
//! the process, so these tests have a process of their own.

use std::sync::Mutex;

use contexture_core::cache::{self, Cache, Owner};

const MIB: u64 = 1 << 20;

/// One test at a time: all use the whole pool.
static ALONE: Mutex<()> = Mutex::new(());

fn with_limit(bytes: u64, test: impl FnOnce()) {
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    // Evicts what an earlier test has left.
    cache::set_limit(1);
    cache::set_limit(bytes);
    test();
}

#[test]
fn a_hostile_owner_evicts_only_its_own_entries() {
    with_limit(64 * MIB, || {
        let (victim, hostile) = (Owner::new(), Owner::new());
        let small: Cache<u64, u64> = victim.own(Cache::new);
        let large: Cache<u64, u64> = hostile.own(Cache::new);
        // A quarter of the pool, whose entries are not used meanwhile.
        for n in 0..256 {
            small.insert(n, n, 64 << 10);
        }
        let before = cache::stats().owner_evictions;
        for n in 0..8_000 {
            large.insert(n, n, 64 << 10);
            // Even if the hostile owner uses its entries often.
            for used in n.saturating_sub(3)..n {
                let _ = large.get(&used);
            }
        }
        let stats = cache::stats();
        assert_eq!((0..256).filter(|n| small.get(n).is_some()).count(), 256);
        assert_eq!(stats.owner_limit, 24 * MIB);
        assert!(hostile.bytes() <= stats.owner_limit, "{stats:?}");
        assert!(hostile.bytes() > stats.owner_limit / 2, "{stats:?}");
        assert_eq!(stats.largest_owner_bytes, hostile.bytes());
        assert!(stats.owner_evictions > before, "{stats:?}");
        assert!(stats.bytes <= stats.limit, "{stats:?}");
        small.clear();
        large.clear();
    });
}

#[test]
fn three_hostile_owners_evict_only_their_own_entries() {
    with_limit(64 * MIB, || {
        let owners: Vec<Owner> = (0..4).map(|_| Owner::new()).collect();
        let caches: Vec<Cache<u64, u64>> =
            owners.iter().map(|owner| owner.own(Cache::new)).collect();
        for n in 0..64 {
            caches[0].insert(n, n, 64 << 10);
        }
        for n in 0..3_000 {
            for cache in &caches[1..] {
                cache.insert(n, n, 64 << 10);
            }
        }
        let found = (0..64).filter(|n| caches[0].get(n).is_some()).count();
        assert_eq!(found, 64);
        for owner in &owners[1..] {
            assert!(owner.bytes() <= 12 * MIB, "{}", owner.bytes());
        }
    });
}

#[test]
fn used_entries_of_an_owner_are_evicted_last() {
    with_limit(16 * MIB, || {
        let (other, owner) = (Owner::new(), Owner::new());
        let others: Cache<u64, u64> = other.own(Cache::new);
        others.insert(0, 0, 64);
        let cache: Cache<u64, u64> = owner.own(Cache::new);
        for n in 0..10 {
            cache.insert(n, n, 32 << 10);
        }
        for n in 10..2_000 {
            cache.insert(n, n, 32 << 10);
            assert_eq!(cache.get(&3), Some(3), "after {n}");
        }
        assert_eq!(cache.get(&5), None);
    });
}

#[test]
fn entries_that_are_removed_or_replaced_are_not_charged() {
    with_limit(64 * MIB, || {
        let owner = Owner::new();
        let cache: Cache<u64, u64> = owner.own(Cache::new);
        for _ in 0..1_000 {
            cache.insert(1, 1, 1 << 10);
        }
        let one = owner.bytes();
        assert!(one < 2 << 10, "{one}");
        cache.insert(2, 2, 1 << 10);
        assert_eq!(owner.bytes(), 2 * one);
        cache.remove(&1);
        cache.remove(&2);
        assert_eq!(owner.bytes(), 0);
        // An entry that is larger than the pool is not kept.
        cache.insert(3, 3, 1 << 30);
        assert_eq!((cache.get(&3), owner.bytes()), (None, 0));
    });
}

#[test]
fn caches_belong_to_the_owner_that_creates_them() {
    let (outer, inner) = (Owner::new(), Owner::new());
    let of = |owner: &Owner| {
        let before = owner.bytes();
        let cache: Cache<u64, u64> = Cache::new();
        cache.insert(1, 1, 100);
        owner.bytes() > before
    };
    outer.own(|| {
        assert!(of(&outer) && !of(&inner));
        inner.own(|| assert!(of(&inner) && !of(&outer)));
        let failed = std::panic::catch_unwind(|| inner.own(|| panic!("in the middle")));
        assert!(failed.is_err());
        assert!(of(&outer));
    });
    assert!(!of(&outer));
}
