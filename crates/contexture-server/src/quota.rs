//! Quotas: what a tenant may store, and how many requests it may send in a day.
//!
//! Storage is measured before a call that can store something. The quota of bytes
//! applies to every such call, and each other quota to the operations that add objects
//! of its kind. A call that begins below the quota is finished, so a tenant can exceed
//! its quota by the calls that run at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use contexture::Timestamp;
use contexture::key::tenant_name;
use contexture::store::{TenantQuota, Usage};
use contexture_api::{ReachedQuota, StorageKind};

use crate::app::App;
use crate::limits::SharedCounts;
use crate::problem::Problem;
use crate::tenant::Tenant;

/// How long a tenant's usage is reused, as long as the calls since then cannot have
/// reached a quota.
const FRESH: Duration = Duration::from_secs(1);

/// The most that one call usually adds: bytes, sessions, memory records and nodes.
const MOST_ADDED: [u64; 4] = [16 << 20, 1, 1_000, 10_000];

/// How long the quotas of the store are reused. A quota that another process sets
/// applies after this time.
const QUOTAS_FRESH: Duration = Duration::from_secs(2);

/// The quotas that were set over the admin API or the command line. They replace
/// those of the settings.
#[derive(Default)]
pub(crate) struct StoredQuotas {
    known: Mutex<HashMap<String, TenantQuota>>,
    read_at: Mutex<Option<Instant>>,
}

impl StoredQuotas {
    /// Has the quotas read from the store before the next call.
    pub(crate) fn expire(&self) {
        *lock(&self.read_at) = None;
    }

    /// Returns true if the quotas are too old, and lets one caller read them.
    fn is_due(&self) -> bool {
        let mut read_at = lock(&self.read_at);
        let due = read_at.is_none_or(|at| at.elapsed() >= QUOTAS_FRESH);
        if due {
            *read_at = Some(Instant::now());
        }
        due
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The routes with a method that could store something, and do not. The tools of
/// `/mcp` are checked one by one.
const READING: [&str; 7] = [
    "/v1/assemble/preview",
    "/v1/memory/forget",
    "/v1/memory/recall",
    "/v1/tokens",
    "/v1/recipes/check",
    "/v1/snapshots/{hash}/refit",
    "/mcp",
];

/// The routes that store something with some bodies only. Their operations check the
/// quotas.
const SOMETIMES: [&str; 1] = ["/v1/fit"];

/// The seconds of a day.
pub(crate) const DAY: i64 = 86_400;

/// The requests of the current day, by tenant, on all servers of the store.
#[derive(Default)]
pub(crate) struct RequestsOfDay {
    pub(crate) counts: SharedCounts,
}

impl RequestsOfDay {
    /// Counts a request. Fails if the tenant has sent too many today.
    pub(crate) fn count(&self, tenant: &str, quota: &TenantQuota) -> Result<(), Problem> {
        let most = quota.max_requests_per_day;
        if most == 0 {
            return Ok(());
        }
        let now = Timestamp::now().as_second();
        let name = format!("requests of {tenant}");
        if self.counts.add(&name, now.div_euclid(DAY), most) {
            return Ok(());
        }
        let wait = DAY - now.rem_euclid(DAY);
        let tenant = tenant_name(tenant);
        let message =
            format!("tenant `{tenant}` uses {most} of its quota of {most} requests per day");
        Err(Problem {
            retry_after: u32::try_from(wait).ok(),
            ..Problem::new(StatusCode::TOO_MANY_REQUESTS, "quota_exceeded", message)
                .hint("retry after `retry-after` seconds")
        })
    }
}

/// The usage of a tenant, if it was measured.
pub(crate) type Measured = tokio::sync::Mutex<Option<MeasuredUsage>>;

/// The usage of a tenant at a time.
#[derive(Clone, Copy)]
pub(crate) struct MeasuredUsage {
    at: Instant,
    usage: Usage,
    // The number of calls that may have stored something since then.
    calls: u64,
}

impl MeasuredUsage {
    /// Returns true if the usage is recent, and the calls since then cannot have
    /// reached a quota.
    fn is_fresh(&self, quota: &TenantQuota) -> bool {
        let mut kinds = limits(&self.usage, quota).into_iter().zip(MOST_ADDED);
        let is_far = kinds.all(|((used, most, _), added)| {
            most == 0 || used >= most || used.saturating_add(self.calls * added) < most
        });
        is_far && self.at.elapsed() < FRESH
    }
}

/// Returns each kind of storage: what is used, the quota, and the kind.
fn limits(usage: &Usage, quota: &TenantQuota) -> [(u64, u64, StorageKind); 4] {
    [
        (usage.bytes, quota.max_bytes, StorageKind::Bytes),
        (usage.sessions, quota.max_sessions, StorageKind::Sessions),
        (usage.records, quota.max_records, StorageKind::Records),
        (usage.nodes, quota.max_nodes, StorageKind::Nodes),
    ]
}

/// Whether the calls of a route store something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storing {
    Never,
    Sometimes,
    Always,
}

/// Returns whether the calls of a method and route store something.
pub(crate) fn storing(method: &Method, route: &str) -> Storing {
    match *method {
        Method::GET | Method::HEAD | Method::DELETE => Storing::Never,
        _ if READING.contains(&route) => Storing::Never,
        _ if SOMETIMES.contains(&route) => Storing::Sometimes,
        _ => Storing::Always,
    }
}

impl App {
    /// Returns the quota of a tenant: the stored one, or that of the settings.
    pub(crate) fn quota_of(&self, tenant: &str) -> TenantQuota {
        let stored = lock(&self.stored_quotas().known).get(tenant).copied();
        stored.unwrap_or_else(|| self.config().quota_of(tenant))
    }

    /// Reads the quotas from the store, if that was too long ago.
    pub(crate) async fn refresh_quotas(&self) {
        if !self.stored_quotas().is_due() {
            return;
        }
        let app = self.clone();
        let read = self.run_apart(move || Ok(app.tenants().stores().quotas()?));
        // Without an answer, the quotas of before apply.
        if let Ok(quotas) = read.await {
            *lock(&self.stored_quotas().known) = quotas.into_iter().collect();
        }
    }

    /// Fails if a tenant has stored as many bytes or memory records as it may.
    pub(crate) async fn check_records(&self, tenant: &Arc<Tenant>) -> Result<(), Problem> {
        self.measure_storage(tenant).await?;
        tenant.check_quota(StorageKind::Bytes)?;
        tenant.check_quota(StorageKind::Records)
    }

    /// Measures what a tenant stores, and notes which quotas it has reached.
    pub(crate) async fn measure_storage(&self, tenant: &Arc<Tenant>) -> Result<(), Problem> {
        let quota = self.quota_of(&tenant.name);
        if !quota.limits_storage() {
            tenant.reached_quotas.set(Vec::new());
            return Ok(());
        }
        // One call measures, and the others of the tenant wait for it. Measuring
        // takes some time when much is stored, and the checks of keys must not wait
        // for many calls of one tenant.
        let mut measured = tenant.measured.lock().await;
        let known = measured.filter(|known| known.is_fresh(&quota));
        let mut known = match known {
            Some(known) => known,
            None => {
                let measuring = Arc::clone(tenant);
                let usage = self
                    .run_apart(move || Ok(measuring.store()?.usage()?))
                    .await?;
                MeasuredUsage {
                    at: Instant::now(),
                    usage,
                    calls: 0,
                }
            }
        };
        known.calls += 1;
        *measured = Some(known);
        drop(measured);
        let reached = limits(&known.usage, &quota)
            .into_iter()
            .filter(|(used, most, _)| *most > 0 && used >= most);
        let reached = reached.map(|(used, most, kind)| ReachedQuota { kind, used, most });
        tenant.reached_quotas.set(reached.collect());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_only_read_never_store() {
        for operation in &contexture_api::api().operations {
            let is_reading = operation.only_reads || operation.method == Method::DELETE;
            let is_forget = operation.id == "forget";
            let storing = storing(&operation.method, operation.path);
            assert_eq!(
                storing == Storing::Never,
                is_reading || is_forget,
                "{}",
                operation.id
            );
        }
        assert_eq!(storing(&Method::POST, "/v1/assemble"), Storing::Always);
        assert_eq!(storing(&Method::POST, "/v1/fit"), Storing::Sometimes);
    }
}
