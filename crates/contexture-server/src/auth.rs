//! Who calls: keys, and how much each may ask for.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode, header};
use contexture::config::ServerConfig;
use contexture::key;
use contexture::store::{KeyRecord, KeyScope, Tenants as Stores};
use governor::clock::{Clock as _, MonotonicClock};
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use crate::problem::Problem;

/// How long a key that was looked up is taken to be what it was: a key that is
/// revoked opens nothing after that. What it has open then, a [`Watch`] ends.
///
/// [`Watch`]: crate::app::Watch
const FRESH: Duration = Duration::from_secs(2);

/// How many keys are remembered.
const MOST_REMEMBERED: usize = 10_000;

type Limiter = RateLimiter<NotKeyed, InMemoryState, MonotonicClock>;

/// Whoever calls, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The tenant; "" is the usual one.
    pub(crate) tenant: String,
    /// The id of the key, where one was needed.
    pub(crate) key: Option<String>,
}

/// What is known about keys.
pub(crate) struct Keys {
    stores: Arc<dyn Stores>,
    // Never becomes false again: a server whose last key is revoked is closed,
    // not open.
    required: AtomicBool,
    looked: Mutex<Instant>,
    known: Mutex<HashMap<String, Known>>,
    quota: Option<Quota>,
    clock: MonotonicClock,
}

struct Known {
    record: KeyRecord,
    since: Instant,
    limiter: Option<Arc<Limiter>>,
}

/// What a call asks to be let in to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// A tenant's data.
    Tenant,
    /// What is known about the server as a whole.
    Metrics,
}

impl Keys {
    /// Looks whether there are keys.
    pub(crate) fn new(
        stores: Arc<dyn Stores>,
        config: &ServerConfig,
    ) -> Result<Self, contexture::Error> {
        let required = !stores.keys()?.is_empty();
        let quota = NonZeroU32::new(config.rate_per_second).map(|rate| {
            let burst = NonZeroU32::new(config.rate_burst).unwrap_or(rate);
            Quota::per_second(rate).allow_burst(burst)
        });
        Ok(Self {
            stores,
            required: AtomicBool::new(required),
            looked: Mutex::new(Instant::now()),
            known: Mutex::default(),
            quota,
            clock: MonotonicClock,
        })
    }

    /// Returns true when a call needs a key: there is one, or was.
    pub(crate) fn required(&self) -> bool {
        self.required.load(Ordering::Relaxed)
    }

    /// Returns who calls, when that can be told without asking the store.
    pub(crate) fn known(&self, headers: &HeaderMap, door: Door) -> Option<Result<Caller, Problem>> {
        if !self.required() {
            let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = looked.elapsed() < FRESH;
            // Nobody is asked for a key, so one that is sent does not matter.
            return fresh.then(|| {
                Ok(Caller {
                    tenant: String::new(),
                    key: None,
                })
            });
        }
        let (id, secret) = match sent(headers) {
            Ok(sent) => sent,
            Err(problem) => return Some(Err(problem)),
        };
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known
            .get(id)
            .filter(|known| known.since.elapsed() < FRESH)?;
        let (record, limiter) = (found.record.clone(), found.limiter.clone());
        drop(known);
        Some(self.admit(&record, limiter.as_deref(), secret, door))
    }

    /// Returns who calls. Asks the store when what is known is not fresh.
    pub(crate) fn check(&self, headers: &HeaderMap, door: Door) -> Result<Caller, Problem> {
        self.look()?;
        if let Some(known) = self.known(headers, door) {
            return known;
        }
        let (id, secret) = sent(headers)?;
        let Some(record) = self.stores.key(id)? else {
            return Err(wrong());
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_REMEMBERED {
            known.clear();
        }
        let limiter = match known.remove(id) {
            Some(known) => known.limiter,
            None => self
                .quota
                .map(|quota| Arc::new(RateLimiter::direct_with_clock(quota, self.clock.clone()))),
        };
        let entry = Known {
            record: record.clone(),
            since: Instant::now(),
            limiter: limiter.clone(),
        };
        known.insert(id.to_owned(), entry);
        drop(known);
        self.admit(&record, limiter.as_deref(), secret, door)
    }

    /// Looks whether there are keys by now.
    fn look(&self) -> Result<(), Problem> {
        if !self.required() {
            let any = !self.stores.keys()?.is_empty();
            self.required.fetch_or(any, Ordering::Relaxed);
            *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
        Ok(())
    }

    /// Returns true when somebody who was let in would be let in again. Asks
    /// the store.
    pub(crate) fn still(&self, caller: &Caller) -> Result<bool, Problem> {
        let Some(id) = &caller.key else {
            self.look()?;
            return Ok(!self.required());
        };
        let record = self.stores.key(id)?;
        Ok(record.is_some_and(|record| record.revoked_at.is_none()))
    }

    fn admit(
        &self,
        record: &KeyRecord,
        limiter: Option<&Limiter>,
        secret: &str,
        door: Door,
    ) -> Result<Caller, Problem> {
        // The secret comes first: only its owner may learn that it is revoked.
        if !key::matches(record, secret) {
            return Err(wrong());
        }
        if record.revoked_at.is_some() {
            return Err(unauthorized("the key was revoked")
                .hint("make another with `contexture key new` on the server"));
        }
        match (record.scope, door) {
            (KeyScope::Tenant, Door::Tenant) | (KeyScope::Metrics, Door::Metrics) => {}
            (KeyScope::Metrics, Door::Tenant) => {
                return Err(forbidden("this key opens /metrics only"));
            }
            (KeyScope::Tenant, Door::Metrics) => {
                return Err(forbidden("this key does not open /metrics")
                    .hint("make one that does with `contexture key new --metrics` on the server"));
            }
        }
        if let Some(limiter) = limiter
            && let Err(until) = limiter.check()
        {
            let wait = until.wait_time_from(self.clock.now());
            let problem = Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limited",
                "this key sends more requests than it may",
            );
            return Err(Problem {
                retry_after: Some(u32::try_from(wait.as_secs()).unwrap_or(u32::MAX - 1) + 1),
                ..problem.hint("wait as long as `retry-after` says, and send less")
            });
        }
        Ok(Caller {
            tenant: record.tenant.clone(),
            key: Some(record.id.clone()),
        })
    }
}

/// Returns the id and the secret of the key that was sent.
fn sent(headers: &HeaderMap) -> Result<(&str, &str), Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(unauthorized("this server needs a key")
            .hint("send it as `Authorization: Bearer KEY`; `contexture key new` makes one"));
    };
    let text = value.to_str().ok();
    let text = text.and_then(|text| {
        let (scheme, key) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    text.and_then(key::parse).ok_or_else(wrong)
}

/// One answer for a key that is not there and a secret that does not fit.
fn wrong() -> Problem {
    unauthorized("there is no such key")
        .hint("send it as `Authorization: Bearer KEY`, whole and unchanged")
}

fn unauthorized(message: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
}

fn forbidden(message: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "forbidden", message)
}
