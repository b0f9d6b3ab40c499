//! Limits that hold on all servers of a store.
//!
//! Each server counts its requests, and adds them to counts in the store twice a
//! second. The sums tell what the other servers have accepted. A limit can
//! therefore be exceeded by what other servers accept within about a second.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often counts are added to those in the store.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The rate limit of one key: a bucket of tokens that fills up at a rate. Requests
/// on other servers take tokens, too, so that there can be fewer than none.
pub(crate) struct Bucket {
    level: Mutex<Level>,
}

struct Level {
    // Tokens per second.
    rate: f64,
    burst: f64,
    tokens: f64,
    at: Instant,
    // The requests that the store does not know yet.
    unsent: u64,
    // The requests on all servers in a period, as the store reported last.
    sum: Option<(i64, u64)>,
    // The tokens that a full bucket did not take since then. Requests on other
    // servers use them first.
    spilled: f64,
}

impl Bucket {
    /// Returns a full bucket.
    pub(crate) fn new(per_second: u32, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst.max(1));
        Self {
            level: Mutex::new(Level {
                rate: f64::from(per_second.max(1)),
                burst,
                tokens: burst,
                at: now,
                unsent: 0,
                sum: None,
                spilled: 0.0,
            }),
        }
    }

    /// Changes the limit. Used requests stay used.
    pub(crate) fn change(&self, per_second: u32, burst: u32, now: Instant) {
        let mut level = lock(&self.level);
        level.fill(now);
        let burst = f64::from(burst.max(1));
        level.tokens += burst - level.burst;
        (level.rate, level.burst) = (f64::from(per_second.max(1)), burst);
    }

    /// Takes a token for a request. Fails with the time until there is one.
    pub(crate) fn take(&self, now: Instant) -> Result<(), Duration> {
        let mut level = lock(&self.level);
        level.fill(now);
        if level.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - level.tokens) / level.rate));
        }
        level.tokens -= 1.0;
        level.unsent += 1;
        Ok(())
    }

    /// Returns the requests since the last call.
    pub(crate) fn unsent(&self) -> u64 {
        std::mem::take(&mut lock(&self.level).unsent)
    }

    /// Notes that the store did not get requests.
    pub(crate) fn put_back(&self, unsent: u64) {
        lock(&self.level).unsent += unsent;
    }

    /// Takes the tokens of requests on other servers: `sum` is what the store has
    /// for `period` after it got `sent` of this one.
    pub(crate) fn learn(&self, sent: u64, period: i64, sum: u64, now: Instant) {
        let mut level = lock(&self.level);
        level.fill(now);
        let others = match level.sum.replace((period, sum)) {
            Some((of, before)) if of == period => sum.saturating_sub(before).saturating_sub(sent),
            // Requests from before this server knew the sum are not counted
            // against it.
            _ => 0,
        };
        let spilled = std::mem::take(&mut level.spilled);
        let beyond = (others as f64 - spilled).max(0.0);
        level.tokens = (level.tokens - beyond).max(-level.burst);
    }
}

impl Level {
    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        let tokens = self.tokens + passed * self.rate;
        self.tokens = tokens.min(self.burst);
        self.spilled += tokens - self.tokens;
        self.at = now;
    }
}

/// How often something happened in a period, on all servers.
#[derive(Default)]
pub(crate) struct SharedCounts {
    counts: Mutex<HashMap<(String, i64), Count>>,
}

#[derive(Default, Clone, Copy)]
struct Count {
    // The latest sum of the store, on all servers.
    sum: u64,
    unsent: u64,
}

impl SharedCounts {
    /// Counts one more, unless there are `most`. Counts of other periods are
    /// forgotten.
    pub(crate) fn add(&self, name: &str, period: i64, most: u64) -> bool {
        let mut counts = lock(&self.counts);
        let key = (name.to_owned(), period);
        if !counts.contains_key(&key) {
            counts.retain(|(_, of), count| *of == period || count.unsent > 0);
        }
        let count = counts.entry(key).or_default();
        if count.sum + count.unsent >= most {
            return false;
        }
        count.unsent += 1;
        true
    }

    /// Returns what the store does not know yet.
    pub(crate) fn unsent(&self) -> Vec<(String, i64, u64)> {
        let counts = lock(&self.counts);
        let unsent = counts.iter().filter(|(_, count)| count.unsent > 0);
        unsent
            .map(|((name, period), count)| (name.clone(), *period, count.unsent))
            .collect()
    }

    /// Notes that the store got `sent`, and has `sum` on all servers.
    pub(crate) fn learn(&self, name: &str, period: i64, sent: u64, sum: u64) {
        let mut counts = lock(&self.counts);
        if let Some(count) = counts.get_mut(&(name.to_owned(), period)) {
            count.unsent = count.unsent.saturating_sub(sent);
            count.sum = sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_fills_up_at_its_rate() {
        let start = Instant::now();
        let bucket = Bucket::new(2, 3, start);
        for _ in 0..3 {
            bucket.take(start).unwrap();
        }
        assert_eq!(bucket.take(start), Err(Duration::from_millis(500)));
        let later = start + Duration::from_millis(500);
        bucket.take(later).unwrap();
        assert!(bucket.take(later).is_err());
        // It does not become fuller than full.
        let much_later = start + Duration::from_secs(100);
        for _ in 0..3 {
            bucket.take(much_later).unwrap();
        }
        assert!(bucket.take(much_later).is_err());
    }

    #[test]
    fn requests_on_other_servers_take_tokens() {
        let start = Instant::now();
        let bucket = Bucket::new(1, 10, start);
        bucket.take(start).unwrap();
        // Requests from before this server knew the sum are not counted against
        // it.
        bucket.learn(bucket.unsent(), 7, 500, start);
        bucket.take(start).unwrap();
        bucket.learn(bucket.unsent(), 7, 507, start);
        // Two of its own and six of others.
        bucket.take(start).unwrap();
        bucket.take(start).unwrap();
        assert_eq!(bucket.take(start), Err(Duration::from_secs(1)));
        // Others can leave fewer than none, but not without end.
        bucket.learn(bucket.unsent(), 7, 100_000, start);
        assert_eq!(bucket.take(start), Err(Duration::from_secs(11)));
        // The counts of the next day start at 0.
        let later = start + Duration::from_secs(20);
        bucket.learn(0, 8, 3, later);
        for _ in 0..10 {
            bucket.take(later).unwrap();
        }
        assert!(bucket.take(later).is_err());
    }

    #[test]
    fn a_changed_limit_counts_what_was_used() {
        let start = Instant::now();
        let bucket = Bucket::new(1, 10, start);
        for _ in 0..4 {
            bucket.take(start).unwrap();
        }
        bucket.change(2, 5, start);
        bucket.take(start).unwrap();
        assert_eq!(bucket.take(start), Err(Duration::from_millis(500)));
        bucket.change(2, 7, start);
        bucket.take(start).unwrap();
        bucket.take(start).unwrap();
        assert!(bucket.take(start).is_err());
    }

    /// A key that was not used on this server for an hour, and at its rate on
    /// another one, is not held up for the requests of that hour.
    #[test]
    fn requests_of_the_past_are_not_held_against_a_key() {
        let start = Instant::now();
        let bucket = Bucket::new(1, 10, start);
        bucket.learn(0, 7, 0, start);
        let later = start + Duration::from_secs(3600);
        bucket.take(later).unwrap();
        bucket.learn(bucket.unsent(), 7, 3001, later);
        for _ in 0..9 {
            bucket.take(later).unwrap();
        }
        assert!(bucket.take(later).is_err());
        // Requests of this moment are.
        let again = later + Duration::from_secs(10);
        bucket.learn(bucket.unsent(), 7, 3001 + 9 + 8, again);
        bucket.take(again).unwrap();
        bucket.take(again).unwrap();
        assert!(bucket.take(again).is_err());
    }

    #[test]
    fn counts_of_all_servers_are_limited_together() {
        let counts = SharedCounts::default();
        assert!(counts.add("a", 7, 3));
        assert_eq!(counts.unsent(), [("a".to_owned(), 7, 1)]);
        assert!(counts.add("a", 7, 3));
        // Another server has sent one.
        counts.learn("a", 7, 1, 2);
        assert!(!counts.add("a", 7, 3), "2 in the store and 1 here");
        assert!(counts.add("b", 7, 3));
        assert!(counts.add("a", 8, 3), "another day");
        // Counts that the store does not have yet are still sent.
        assert_eq!(counts.unsent().len(), 3);
    }
}
