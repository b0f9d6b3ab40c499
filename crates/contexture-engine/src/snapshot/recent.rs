//! The latest requests of the sessions, in memory: the next request is compared
//! with them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use contexture_core::ContentHash;

use super::Saved;

/// The maximum number of sessions whose latest requests are in memory.
pub(super) const MOST_REMEMBERED: usize = 4096;

/// The maximum number of blocks of all these requests together.
pub(super) const MOST_REMEMBERED_BLOCKS: usize = 200_000;

/// The maximum number of latest requests per session in memory. If several are
/// made at once, the one saved last is among them.
pub(super) const MOST_OF_A_SESSION: usize = 32;

/// The latest requests of each session, within the limits above.
///
/// When a limit is reached, the least recently used sessions are dropped. A
/// request that is still being written stays, because the store does not have
/// it yet.
#[derive(Debug, Default)]
pub(crate) struct RecentRequests {
    pub(super) sessions: BTreeMap<String, RecentSession>,
    // The sessions by when they were used last.
    pub(super) by_use: BTreeMap<u64, String>,
    uses: u64,
    pub(super) blocks: usize,
}

#[derive(Debug, Default)]
pub(super) struct RecentSession {
    // The requests, oldest first.
    pub(super) requests: VecDeque<Arc<Saved>>,
    // The session's key in `by_use`.
    used: u64,
}

impl RecentRequests {
    /// Returns the latest request of a session.
    pub(crate) fn latest(&mut self, session: &str) -> Option<Arc<Saved>> {
        self.used(session)?.requests.back().cloned()
    }

    /// Returns the request with that hash, if it is one of the session's
    /// latest.
    pub(crate) fn find(&mut self, session: &str, hash: ContentHash) -> Option<Arc<Saved>> {
        let mut saved = self.used(session)?.requests.iter().rev();
        saved.find(|saved| saved.hash == hash).cloned()
    }

    pub(crate) fn put(&mut self, session: &str, saved: Arc<Saved>) {
        if self.blocks + saved.blocks() > MOST_REMEMBERED_BLOCKS {
            // An eighth is left free for the next requests.
            let limit = MOST_REMEMBERED_BLOCKS - MOST_REMEMBERED_BLOCKS / 8;
            self.shrink(limit.saturating_sub(saved.blocks()));
        }
        if !self.sessions.contains_key(session) {
            if self.sessions.len() >= MOST_REMEMBERED {
                self.drop_oldest(|recent| recent.sessions.len() < MOST_REMEMBERED);
            }
            self.uses += 1;
            self.by_use.insert(self.uses, session.to_owned());
            let new = RecentSession {
                requests: VecDeque::new(),
                used: self.uses,
            };
            self.sessions.insert(session.to_owned(), new);
        }
        self.blocks += saved.blocks();
        let Some(recent) = self.used(session) else {
            return;
        };
        recent.requests.push_back(saved);
        if recent.requests.len() > MOST_OF_A_SESSION
            && let Some(oldest) = recent.requests.pop_front()
        {
            self.blocks -= oldest.blocks();
        }
    }

    /// Returns a session, and marks it as the most recently used one.
    fn used(&mut self, session: &str) -> Option<&mut RecentSession> {
        let recent = self.sessions.get_mut(session)?;
        self.uses += 1;
        if let Some(name) = self.by_use.remove(&recent.used) {
            self.by_use.insert(self.uses, name);
        }
        recent.used = self.uses;
        Some(recent)
    }

    /// Drops requests until at most `limit` blocks remain: first the older
    /// requests of each session, then whole sessions.
    fn shrink(&mut self, limit: usize) {
        for recent in self.sessions.values_mut() {
            let mut later = recent.requests.len();
            recent.requests.retain(|saved| {
                later -= 1;
                let stays = later == 0 || saved.is_pending();
                if !stays {
                    self.blocks -= saved.blocks();
                }
                stays
            });
        }
        self.drop_oldest(|recent| recent.blocks <= limit);
    }

    /// Drops the least recently used sessions until that is `enough`.
    fn drop_oldest(&mut self, enough: impl Fn(&Self) -> bool) {
        let mut from = 0;
        while !enough(self)
            && let Some((&used, name)) = self.by_use.range(from..).next()
        {
            from = used + 1;
            let Some(recent) = self.sessions.get(name) else {
                continue;
            };
            if recent.requests.iter().any(|saved| saved.is_pending()) {
                continue;
            }
            let dropped = recent.requests.iter().map(|saved| saved.blocks());
            self.blocks -= dropped.sum::<usize>();
            self.sessions.remove(name);
            self.by_use.remove(&used);
        }
    }
}
