//! The thread that shares the counts of requests with other servers.
//!
//! Twice a second it adds the requests since the last time to the counts in the
//! store, in one transaction, and reads the sums. Nothing is sent without
//! requests, and no request waits for it.

use std::sync::Arc;
use std::time::Instant;

use contexture::Timestamp;

use crate::app::App;
use crate::limits::{Bucket, INTERVAL};
use crate::quota::DAY;

/// The state of the thread between two exchanges.
struct Exchange {
    // Whether other machines can use the store. Those of one machine share the
    // requests of a day only.
    is_shared: bool,
    // The day for which the counts of days before were removed.
    cleaned: Option<i64>,
}

impl App {
    /// Starts the thread. It ends with the server.
    pub(crate) fn start_sharing_counts(&self) {
        // A store without round trips belongs to one machine, whose rates are known.
        let stats = self.tenants().stores().stats();
        let mut exchange = Exchange {
            is_shared: stats.is_ok_and(|stats| stats.round_trips.is_some()),
            cleaned: None,
        };
        let app = self.downgrade();
        let work = move || {
            while let Some(app) = app() {
                exchange.run(&app);
                drop(app);
                std::thread::sleep(INTERVAL);
            }
        };
        // Without the thread, each server counts by itself.
        drop(
            std::thread::Builder::new()
                .name("counts".to_owned())
                .spawn(work),
        );
    }
}

impl Exchange {
    /// Adds this server's counts to those in the store, and reads the counts of
    /// other servers.
    fn run(&mut self, app: &App) {
        let today = Timestamp::now().as_second().div_euclid(DAY);
        let days = &app.requests_of_day().counts;
        let day_counts = days.unsent();
        let rates = match self.is_shared {
            true => unsent_rates(app),
            false => Vec::new(),
        };
        if day_counts.is_empty() && rates.is_empty() {
            return;
        }
        let mut counts = day_counts.clone();
        let of_rates = rates.iter();
        counts.extend(of_rates.map(|(name, unsent, _)| (name.clone(), today, *unsent)));
        // Counts of days before yesterday are removed once a day: the clock of
        // another server may be late.
        let oldest = match self.cleaned == Some(today) {
            true => 0,
            false => today - 1,
        };
        let Ok(sums) = app.tenants().stores().add_counts(&counts, oldest) else {
            // They are sent when the store is there again.
            for (_, unsent, bucket) in rates {
                bucket.put_back(unsent);
            }
            return;
        };
        self.cleaned = Some(today);
        let mut sums = sums.into_iter();
        for ((name, day, sent), sum) in day_counts.iter().zip(sums.by_ref()) {
            days.learn(name, *day, *sent, sum);
        }
        let now = Instant::now();
        for ((_, sent, bucket), sum) in rates.iter().zip(sums) {
            bucket.learn(*sent, today, sum, now);
        }
    }
}

/// Returns the rate limits of keys with requests that the store does not know yet:
/// their names in the store, and the numbers of requests.
fn unsent_rates(app: &App) -> Vec<(String, u64, Arc<Bucket>)> {
    let limiters = app.keys().limiters().into_iter();
    limiters
        .map(|(name, bucket)| (name, bucket.unsent(), bucket))
        .filter(|(_, unsent, _)| *unsent > 0)
        .collect()
}
