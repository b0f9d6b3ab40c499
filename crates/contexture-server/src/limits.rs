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
    rate: f64,
    burst: f64,
    level: Mutex<Level>,
}

struct Level {
    tokens: f64,
    at: Instant,
    // The requests that the store does not know yet.
    unsent: u64,
    // The requests on all servers, as the store said last.
    sum: Option<u64>,
}

impl Bucket {
    /// Returns a full bucket.
    pub(crate) fn new(per_second: u32, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst.max(1));
        Self {
            rate: f64::from(per_second.max(1)),
            burst,
            level: Mutex::new(Level {
                tokens: burst,
                at: now,
                unsent: 0,
                sum: None,
            }),
        }
    }

    fn fill(&self, level: &mut Level, now: Instant) {
        let passed = now.saturating_duration_since(level.at).as_secs_f64();
        level.tokens = (level.tokens + passed * self.rate).min(self.burst);
        level.at = now;
    }

    /// Takes a token for a request. Fails with the time until there is one.
    pub(crate) fn take(&self, now: Instant) -> Result<(), Duration> {
        let mut level = lock(&self.level);
        self.fill(&mut level, now);
        if level.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - level.tokens) / self.rate));
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
    /// after it got `sent` of this one.
    pub(crate) fn learn(&self, sent: u64, sum: u64, now: Instant) {
        let mut level = lock(&self.level);
        self.fill(&mut level, now);
        let before = level.sum.replace(sum);
        let others = before.map_or(0, |before| sum.saturating_sub(before).saturating_sub(sent));
        level.tokens = (level.tokens - others as f64).max(-self.burst);
    }
}

/// How often something happened in a period, on all servers.
#[derive(Default)]
pub(crate) struct SharedCounts {
    counts: Mutex<HashMap<(String, i64), Count>>,
}

#[derive(Default, Clone, Copy)]
struct Count {
    // On all servers, as the store said last.
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
        // What was counted before this server knew is not held against it.
        bucket.learn(bucket.unsent(), 500, start);
        bucket.take(start).unwrap();
        bucket.learn(bucket.unsent(), 507, start);
        // Two of its own and six of others.
        bucket.take(start).unwrap();
        bucket.take(start).unwrap();
        assert_eq!(bucket.take(start), Err(Duration::from_secs(1)));
        // Others can leave fewer than none, but not without end.
        bucket.learn(bucket.unsent(), 100_000, start);
        assert_eq!(bucket.take(start), Err(Duration::from_secs(11)));
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
        // What the store does not know yet is still sent.
        assert_eq!(counts.unsent().len(), 3);
    }
}
