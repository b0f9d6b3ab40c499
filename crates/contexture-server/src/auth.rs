//! Authenticates callers by API key and limits the rate of each key.
//!
//! Until the first key is created, a server on a loopback address accepts every
//! call. From then on every call needs a key, even after all keys are revoked.
//! Keys that were looked up are cached for two seconds.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode, header};
use contexture::config::ServerConfig;
use contexture::core::ContentHash;
use contexture::key;
use contexture::store::{KeyRecord, KeyScope, Tenants as Stores};
use tracing::info;

use crate::limits::Bucket;
use crate::problem::Problem;

/// How long the server trusts a key that it looked up. A revoked key is
/// rejected after this time. Open streams of a revoked key are ended by a
/// [`Watch`].
///
/// [`Watch`]: crate::app::Watch
const FRESH: Duration = Duration::from_secs(2);

/// How long a key that was looked up serves the checks of its open streams: the
/// streams of a key are checked with one look-up.
const FRESH_FOR_STREAMS: Duration = Duration::from_millis(250);

/// How long wrong keys of an address are counted.
const MINUTE: Duration = Duration::from_secs(60);

/// The maximum number of cached keys, and of addresses with wrong keys.
const MOST_REMEMBERED: usize = 10_000;

/// The authenticated caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The name of the tenant; "" is the default tenant.
    pub(crate) tenant: String,
    /// The id of the key, if the server requires keys.
    pub(crate) key: Option<String>,
}

/// Authenticates callers by their API keys and limits their rate.
pub(crate) struct Keys {
    stores: Arc<dyn Stores>,
    // Never becomes false again: after its last key is revoked, the server
    // rejects every call.
    required: AtomicBool,
    // The time when the store was last asked whether there are keys.
    checked_at: Mutex<Instant>,
    cache: Mutex<HashMap<String, CachedKey>>,
    // The requests of a key per second, and at once. None without a limit.
    rate: Mutex<Option<(u32, u32)>>,
    // The only key that is accepted, in place of those of the store.
    only: Option<String>,
    wrong: Mutex<WrongKeys>,
}

/// The wrong keys of the current minute, by address.
struct WrongKeys {
    most: u32,
    since: Instant,
    counts: HashMap<IpAddr, u32>,
}

/// A key that was read from the store, with the rate limiter of its caller.
struct CachedKey {
    record: KeyRecord,
    since: Instant,
    // Whether the store must be asked again before `since` is too long ago.
    stale: bool,
    limiter: Option<Arc<Bucket>>,
}

/// The part of the server that a call needs access to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The data of a tenant.
    Tenant,
    /// The metrics of the whole server.
    Metrics,
    /// The administration of the whole server.
    Admin,
}

impl Keys {
    /// Reads whether the store has keys.
    pub(crate) fn new(
        stores: Arc<dyn Stores>,
        config: &ServerConfig,
    ) -> Result<Self, contexture::Error> {
        let required = !stores.keys()?.is_empty();
        Ok(Self {
            stores,
            required: AtomicBool::new(required),
            checked_at: Mutex::new(Instant::now()),
            cache: Mutex::default(),
            rate: Mutex::new(rate_of(config)),
            only: None,
            wrong: Mutex::new(WrongKeys {
                most: config.wrong_keys_per_minute,
                since: Instant::now(),
                counts: HashMap::new(),
            }),
        })
    }

    /// Applies changed limits. Requests of before still count.
    pub(crate) fn set_limits(&self, config: &ServerConfig) {
        let rate = rate_of(config);
        *self.rate.lock().unwrap_or_else(PoisonError::into_inner) = rate;
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        for cached in cache.values_mut() {
            match (rate, &cached.limiter) {
                (Some((rate, burst)), Some(bucket)) => bucket.change(rate, burst, Instant::now()),
                (Some(_), None) => cached.limiter = self.new_bucket(),
                (None, _) => cached.limiter = None,
            }
        }
        drop(cache);
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.most = config.wrong_keys_per_minute;
    }

    /// Returns the rate limit of a key without requests so far, if there is one.
    fn new_bucket(&self) -> Option<Arc<Bucket>> {
        let rate = *self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        rate.map(|(rate, burst)| Arc::new(Bucket::new(rate, burst, Instant::now())))
    }

    /// Accepts one key for the default tenant, and none of the store.
    pub(crate) fn accept_only(mut self, key: String) -> Self {
        self.required = AtomicBool::new(true);
        self.only = Some(key);
        self
    }

    /// Authenticates a caller by the only key that is accepted.
    fn check_only(&self, only: &str, headers: &HeaderMap) -> Result<Caller, Problem> {
        let sent = headers.get(header::AUTHORIZATION);
        let sent = sent.and_then(|value| value.to_str().ok()).unwrap_or("");
        let sent = sent.strip_prefix("Bearer ").unwrap_or("");
        // Hashes are compared, so that the duration reveals nothing about the
        // key.
        match ContentHash::of(sent.as_bytes()) == ContentHash::of(only.as_bytes()) {
            true => Ok(Caller {
                tenant: String::new(),
                key: None,
            }),
            false => Err(
                unauthorized("the key of this inspector is missing or wrong").hint(
                    "open the address that `contexture inspect` printed, with everything after `#`",
                ),
            ),
        }
    }

    /// Rejects a call with a key that the server does not know, from an address
    /// that sent too many wrong keys. The store is not asked.
    pub(crate) fn check_address(
        &self,
        headers: &HeaderMap,
        address: Option<IpAddr>,
    ) -> Result<(), Problem> {
        let Some(address) = address.filter(|_| self.required()) else {
            return Ok(());
        };
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let minute = wrong.since.elapsed();
        let count = wrong.counts.get(&address).copied().unwrap_or(0);
        if wrong.most == 0 || minute >= MINUTE || count < wrong.most {
            return Ok(());
        }
        drop(wrong);
        // Other callers with the same address are accepted: their key was in
        // use.
        if let Ok((id, _)) = bearer_key(headers)
            && (self.cache.lock().unwrap_or_else(PoisonError::into_inner)).contains_key(id)
        {
            return Ok(());
        }
        let wait = MINUTE.saturating_sub(minute).as_secs();
        let problem = Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_wrong_keys",
            "too many wrong API keys from this address",
        );
        Err(Problem {
            retry_after: Some(u32::try_from(wait).unwrap_or(60) + 1),
            ..problem.hint("retry after `retry-after` seconds with a valid key")
        })
    }

    /// Counts a wrong key from an address.
    pub(crate) fn note_wrong_key(&self, address: IpAddr) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.since.elapsed() >= MINUTE || wrong.counts.len() >= MOST_REMEMBERED {
            wrong.since = Instant::now();
            wrong.counts.clear();
        }
        *wrong.counts.entry(address).or_default() += 1;
    }

    /// Returns true if calls need a key: the store has a key, or had one.
    pub(crate) fn required(&self) -> bool {
        self.required.load(Ordering::Relaxed)
    }

    /// Authenticates a caller from the cache. Returns `None` if the store must
    /// be asked.
    pub(crate) fn cached(
        &self,
        headers: &HeaderMap,
        scope: Scope,
    ) -> Option<Result<Caller, Problem>> {
        if let Some(only) = &self.only {
            return Some(match scope {
                Scope::Admin => Err(forbidden("the inspector cannot administer the server")),
                _ => self.check_only(only, headers),
            });
        }
        // Administration always needs a key: with it, a local process could
        // lock out all other callers.
        if !self.required() && scope == Scope::Admin {
            return match self.is_fresh() {
                true => Some(Err(unauthorized("the admin API requires an admin key")
                    .hint(
                        "create one with `contexture key new --admin` on the server; from then on \
                     every call needs a key",
                    ))),
                false => None,
            };
        }
        if !self.required() {
            // Authentication is off, so a key that is sent is ignored.
            return self.is_fresh().then(|| {
                Ok(Caller {
                    tenant: String::new(),
                    key: None,
                })
            });
        }
        let (id, secret) = match bearer_key(headers) {
            Ok(key) => key,
            Err(problem) => return Some(Err(problem)),
        };
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let found = cache
            .get(id)
            .filter(|key| !key.stale && key.since.elapsed() < FRESH)?;
        let (record, limiter) = (found.record.clone(), found.limiter.clone());
        drop(cache);
        Some(self.admit(&record, limiter.as_deref(), secret, scope))
    }

    /// Authenticates a caller with the key as the store had it last, however long ago
    /// that was. Returns `None` if the key was not used since the start.
    pub(crate) fn known(
        &self,
        headers: &HeaderMap,
        scope: Scope,
    ) -> Option<Result<Caller, Problem>> {
        if !self.required() {
            return Some(Ok(Caller {
                tenant: String::new(),
                key: None,
            }));
        }
        let (id, secret) = bearer_key(headers).ok()?;
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let found = cache.get(id)?;
        let (record, limiter) = (found.record.clone(), found.limiter.clone());
        drop(cache);
        Some(self.admit(&record, limiter.as_deref(), secret, scope))
    }

    /// Returns true if the store was asked for keys a short time ago.
    fn is_fresh(&self) -> bool {
        let checked_at = self.checked_at.lock();
        let checked_at = checked_at.unwrap_or_else(PoisonError::into_inner);
        checked_at.elapsed() < FRESH
    }

    /// Drops all cached keys, so that a key which was revoked is rejected at once.
    pub(crate) fn forget_cached(&self) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        for cached in cache.values_mut() {
            // The rate limiters are kept.
            cached.stale = true;
        }
    }

    /// Authenticates a caller. Asks the store if the cache has no fresh entry.
    pub(crate) fn check(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller, Problem> {
        self.refresh_required()?;
        if let Some(cached) = self.cached(headers, scope) {
            return cached;
        }
        let (id, secret) = bearer_key(headers)?;
        let Some(record) = self.stores.key(id)? else {
            return Err(invalid_key());
        };
        let limiter = self.remember(&record);
        self.admit(&record, limiter.as_deref(), secret, scope)
    }

    /// Caches a key as the store has it now, and returns its rate limiter.
    fn remember(&self, record: &KeyRecord) -> Option<Arc<Bucket>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= MOST_REMEMBERED {
            cache.clear();
        }
        let limiter = match cache.remove(&record.id) {
            Some(cached) => cached.limiter,
            None => self.new_bucket(),
        };
        let entry = CachedKey {
            record: record.clone(),
            since: Instant::now(),
            stale: false,
            limiter: limiter.clone(),
        };
        cache.insert(record.id.clone(), entry);
        limiter
    }

    /// Returns the rate limits of keys, with the names of their counts in the store.
    pub(crate) fn limiters(&self) -> Vec<(String, Arc<Bucket>)> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let limiters = cache.iter().filter_map(|(id, key)| {
            Some((format!("rate {id}"), Arc::clone(key.limiter.as_ref()?)))
        });
        limiters.collect()
    }

    /// Reads whether the store has keys by now.
    fn refresh_required(&self) -> Result<(), Problem> {
        if !self.required() {
            let any = !self.stores.keys()?.is_empty();
            let was = self.required.fetch_or(any, Ordering::Relaxed);
            if any && !was {
                info!("authentication is on: a key was created");
            }
            let mut checked_at = self
                .checked_at
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *checked_at = Instant::now();
        }
        Ok(())
    }

    /// Returns true if an authenticated caller would be authenticated again. Asks
    /// the store, unless the key was looked up a moment ago.
    pub(crate) fn is_valid(&self, caller: &Caller) -> Result<bool, Problem> {
        if self.only.is_some() {
            return Ok(true);
        }
        let Some(id) = &caller.key else {
            self.refresh_required()?;
            return Ok(!self.required());
        };
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let known = cache
            .get(id)
            .filter(|key| !key.stale && key.since.elapsed() < FRESH_FOR_STREAMS)
            .map(|key| key.record.revoked_at.is_none());
        drop(cache);
        if let Some(known) = known {
            return Ok(known);
        }
        let Some(record) = self.stores.key(id)? else {
            return Ok(false);
        };
        self.remember(&record);
        Ok(record.revoked_at.is_none())
    }

    fn admit(
        &self,
        record: &KeyRecord,
        limiter: Option<&Bucket>,
        secret: &str,
        scope: Scope,
    ) -> Result<Caller, Problem> {
        // The secret is checked first: only its owner can learn that it is revoked.
        if !key::matches(record, secret) {
            return Err(invalid_key());
        }
        if record.revoked_at.is_some() {
            return Err(unauthorized("the API key was revoked")
                .hint("create another key with `contexture key new` on the server"));
        }
        match (record.scope, scope) {
            (KeyScope::Tenant, Scope::Tenant)
            | (KeyScope::Metrics, Scope::Metrics)
            | (KeyScope::Admin, Scope::Admin) => {}
            (_, Scope::Admin) => {
                return Err(forbidden("the API key has no access to the admin API")
                    .hint("create an admin key with `contexture key new --admin` on the server"));
            }
            (KeyScope::Admin, Scope::Tenant) => {
                return Err(
                    forbidden("the API key has access to the admin API only").hint(
                        "create a key for a tenant with `contexture key new` or `POST \
                         /v1/admin/keys`",
                    ),
                );
            }
            (KeyScope::Metrics, Scope::Tenant) => {
                return Err(forbidden("the API key has access to /metrics only")
                    .hint("create another key with `contexture key new` on the server"));
            }
            (_, Scope::Metrics) => {
                return Err(forbidden("the API key has no access to /metrics").hint(
                    "create a key for metrics with `contexture key new --metrics` on the server",
                ));
            }
        }
        if let Some(limiter) = limiter
            && let Err(wait) = limiter.take(Instant::now())
        {
            let problem = Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limited",
                "the API key exceeded its rate limit",
            );
            return Err(Problem {
                retry_after: Some(u32::try_from(wait.as_secs()).unwrap_or(u32::MAX - 1) + 1),
                ..problem.hint("retry after `retry-after` seconds")
            });
        }
        Ok(Caller {
            tenant: record.tenant.clone(),
            key: Some(record.id.clone()),
        })
    }
}

/// Returns the requests of a key per second, and at once. `None` without a limit.
fn rate_of(config: &ServerConfig) -> Option<(u32, u32)> {
    match (config.rate_per_second, config.rate_burst) {
        (0, _) => None,
        (rate, 0) => Some((rate, rate)),
        (rate, burst) => Some((rate, burst)),
    }
}

/// Returns the id and the secret of the key in `Authorization`.
fn bearer_key(headers: &HeaderMap) -> Result<(&str, &str), Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(unauthorized("the server requires an API key").hint(
            "send `Authorization: Bearer KEY`; create a key with `contexture key new` on the \
             server",
        ));
    };
    let text = value.to_str().ok();
    let text = text.and_then(|text| {
        let (scheme, key) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    text.and_then(key::parse).ok_or_else(invalid_key)
}

/// Returns one error for an unknown key and for a wrong secret, so that callers
/// cannot find out which keys exist.
fn invalid_key() -> Problem {
    unauthorized("the API key is invalid").hint("send the whole key as `Authorization: Bearer KEY`")
}

fn unauthorized(message: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
}

fn forbidden(message: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "forbidden", message)
}
