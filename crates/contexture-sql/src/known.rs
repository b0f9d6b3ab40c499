//! Sessions as this process last read or recorded them.
//!
//! To record a turn, the engine reads the session and its latest snapshots. On a
//! database in another process, that costs a transaction. The store therefore
//! caches both. The transaction that records the turn compares the cached state
//! with the database, and writes nothing if they differ.

use std::collections::HashMap;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contexture_core::ContentHash;
use contexture_store::{Recorded, Session, Snapshot, TurnId};
use jiff::Timestamp;

use crate::sessions::RecordingRow;

/// The number of sessions after which those that were not used since are dropped.
const MOST_RECENT: usize = 2048;

/// A session with its latest snapshots.
#[derive(Debug, Clone)]
pub(crate) struct KnownSession {
    /// The key of the session, and the number of moves of its head.
    pub(crate) key: i64,
    pub(crate) moves: i64,
    pub(crate) session: Session,
    pub(crate) snapshots: Vec<Snapshot>,
    /// The limit that the snapshots were read with.
    pub(crate) most: usize,
}

impl KnownSession {
    /// Returns true if the session in the database has the same state.
    pub(crate) fn is_current(
        &self,
        found: &RecordingRow,
        snapshots: &[(ContentHash, Option<TurnId>)],
    ) -> bool {
        let known = self.snapshots.iter();
        found.session.key == self.key
            && found.session.moves == self.moves
            && found.head.id() == self.session.head
            && found.remember == self.session.remember
            && known
                .map(|snapshot| (snapshot.hash, snapshot.parent_turn))
                .eq(snapshots.iter().copied())
    }
}

/// The cached sessions of all tenants, by tenant and label, and the numbers of the
/// tenants' latest events.
#[derive(Default)]
pub(crate) struct KnownSessions {
    sessions: Mutex<Generations>,
    events: Mutex<HashMap<String, LatestEvent>>,
}

/// The number of a tenant's latest event, as this process last saw it. Only the
/// database has the true number; see [`latest`](crate::events::latest).
pub(crate) type LatestEvent = Arc<AtomicI64>;

/// The number of tenants after which the numbers of their latest events are dropped.
const MOST_TENANTS: usize = 16 * 1024;

type ByName = HashMap<(String, String), CachedSession>;

/// The sessions that were used recently, and those that were used before.
#[derive(Default)]
struct Generations {
    recent: ByName,
    older: ByName,
}

/// The state of a session, and how often it was outdated.
#[derive(Default)]
struct CachedSession {
    known: Option<Arc<KnownSession>>,
    /// The number of times in succession that the state was outdated.
    misses: u32,
    /// The number of turns that are recorded before the state is cached again.
    skips: u32,
}

/// The largest number of misses that changes the number of skips.
const MOST_MISSES: u32 = 6;

impl KnownSessions {
    fn lock(&self) -> MutexGuard<'_, Generations> {
        let sessions = self.sessions.lock();
        sessions.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the latest event of a tenant, which callers update.
    pub(crate) fn latest_event(&self, tenant: &str) -> LatestEvent {
        let events = self.events.lock();
        let mut events = events.unwrap_or_else(PoisonError::into_inner);
        if let Some(latest) = events.get(tenant) {
            return Arc::clone(latest);
        }
        if events.len() >= MOST_TENANTS {
            events.clear();
        }
        Arc::clone(events.entry(tenant.to_owned()).or_default())
    }

    /// Returns a session with its `most` latest snapshots.
    pub(crate) fn get(&self, tenant: &str, label: &str, most: usize) -> Option<Arc<KnownSession>> {
        let mut all = self.lock();
        let known = all.get(tenant, label)?.known.as_ref()?;
        (known.most == most).then(|| Arc::clone(known))
    }

    /// Drops the state of a session.
    pub(crate) fn remove(&self, tenant: &str, label: &str) {
        if let Some(cached) = self.lock().get(tenant, label) {
            cached.known = None;
        }
    }

    /// Drops the state of a session, which was outdated. Other servers also use the
    /// session: with each miss, twice as many turns are recorded without the cache.
    pub(crate) fn missed(&self, tenant: &str, label: &str) {
        if let Some(cached) = self.lock().get(tenant, label) {
            cached.known = None;
            cached.misses = (cached.misses + 1).min(MOST_MISSES);
            cached.skips = (1 << cached.misses) - 1;
        }
    }

    /// Stores the state of a session after a turn was recorded. `is_hit` is true if
    /// the state before the turn was cached.
    pub(crate) fn recorded(
        &self,
        tenant: &str,
        known: &KnownSession,
        is_hit: bool,
        recorded: &Recorded,
        now: Timestamp,
    ) {
        let mut next = known.clone();
        next.moves += 1;
        next.session.follow(recorded, now);
        let next = Arc::new(next);
        let mut all = self.lock();
        let cached = all.get_or_add(tenant, &known.session.label);
        if is_hit {
            cached.misses = 0;
        }
        match cached.skips.checked_sub(1) {
            Some(skips) => cached.skips = skips,
            None => cached.known = Some(next),
        }
    }

    /// Adds a snapshot that was stored.
    pub(crate) fn saved(&self, tenant: &str, snapshot: &Snapshot) {
        let mut all = self.lock();
        let cached = all.get(tenant, &snapshot.session);
        if let Some(known) = cached.and_then(|cached| cached.known.as_mut()) {
            let known = Arc::make_mut(known);
            known.snapshots.retain(|it| it.hash != snapshot.hash);
            known.snapshots.insert(0, snapshot.clone());
            known.snapshots.truncate(known.most);
        }
    }
}

impl Generations {
    fn get(&mut self, tenant: &str, label: &str) -> Option<&mut CachedSession> {
        let name = (tenant.to_owned(), label.to_owned());
        if let Some(older) = self.older.remove(&name) {
            self.put(name.clone(), older);
        }
        self.recent.get_mut(&name)
    }

    fn get_or_add(&mut self, tenant: &str, label: &str) -> &mut CachedSession {
        let name = (tenant.to_owned(), label.to_owned());
        if !self.recent.contains_key(&name) {
            let older = self.older.remove(&name).unwrap_or_default();
            self.put(name.clone(), older);
        }
        self.recent.entry(name).or_default()
    }

    fn put(&mut self, name: (String, String), cached: CachedSession) {
        if self.recent.len() >= MOST_RECENT {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(name, cached);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(all: &KnownSessions, label: &str, is_hit: bool) {
        let now = Timestamp::UNIX_EPOCH;
        let session = Session {
            label: label.to_owned(),
            aliases: Vec::new(),
            head: None,
            turns: 0,
            persona: None,
            parent_session: None,
            parent_turn: None,
            task: None,
            status: contexture_store::SessionStatus::Active,
            created_at: now,
            updated_at: now,
            remember: None,
            turn_deletions: 0,
        };
        let known = KnownSession {
            key: 1,
            moves: 1,
            session,
            snapshots: Vec::new(),
            most: 1,
        };
        let id = TurnId::from_bytes([1; 16]);
        let turn = Recorded {
            id,
            parent: None,
            depth: 1,
            replayed: false,
        };
        all.recorded("", &known, is_hit, &turn, now);
    }

    fn is_known(all: &KnownSessions, label: &str) -> bool {
        all.get("", label, 1).is_some()
    }

    #[test]
    fn a_session_that_others_change_is_cached_less_often() {
        let all = KnownSessions::default();
        recorded(&all, "s", false);
        assert!(is_known(&all, "s"));
        for skips in [1, 3, 7] {
            all.missed("", "s");
            for _ in 0..skips {
                recorded(&all, "s", false);
                assert!(!is_known(&all, "s"));
            }
            recorded(&all, "s", false);
            assert!(is_known(&all, "s"));
        }
        recorded(&all, "s", true);
        all.missed("", "s");
        recorded(&all, "s", false);
        recorded(&all, "s", false);
        assert!(is_known(&all, "s"));
    }

    #[test]
    fn the_cache_has_a_limit() {
        let all = KnownSessions::default();
        for number in 0..3 * MOST_RECENT {
            recorded(&all, "used", false);
            recorded(&all, &number.to_string(), false);
        }
        assert!(is_known(&all, "used"));
        assert!(!is_known(&all, "0"));
        let all = all.lock();
        assert!(all.recent.len() + all.older.len() <= 2 * MOST_RECENT);
    }
}
