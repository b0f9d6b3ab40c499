//! Metrics for Prometheus, in the OpenMetrics text format.
//!
//! Labels never contain tenants, sessions or other data of callers.

mod indexes;
mod models;
mod store;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabel as _, EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use contexture::Assembled;
use contexture::core::cache;
use contexture::store::Waited;

use crate::traces;
use indexes::IndexMetrics;
use models::ModelMetrics;
use store::StoreMetrics;

/// The metrics of a server, in the format of Prometheus.
pub struct Metrics {
    registry: Registry,
    requests: Family<Route, Counter>,
    seconds: Family<Route, Histogram>,
    stages: Family<Stage, Histogram>,
    queue: Histogram,
    store: Family<Operation, Histogram>,
    tokens: Counter,
    shared: Counter,
    turns: Counter,
    provider_input: Counter,
    provider_cached: Counter,
    records: Counter,
    pub(crate) refused_connections: Counter,
    pub(crate) refused_by_quota: Counter,
    pub(crate) dropped_spans: Counter,
    pub(crate) connections: Gauge,
    pub(crate) working: Gauge,
    pub(crate) waiting: Gauge,
    /// The memory that is reserved for bodies and answers.
    pub(crate) body_memory: Gauge<u64, AtomicU64>,
    resident: Gauge<u64, AtomicU64>,
    cache: CacheMetrics,
    indexes: IndexMetrics,
    pub(crate) models: ModelMetrics,
    pub(crate) upkeep: StoreMetrics,
}

/// The metrics of the process-wide caches.
struct CacheMetrics {
    bytes: Gauge<u64, AtomicU64>,
    limit: Gauge<u64, AtomicU64>,
    entries: Gauge<u64, AtomicU64>,
    hits: Counter,
    misses: Counter,
    tenant_limit: Gauge<u64, AtomicU64>,
    largest_tenant: Gauge<u64, AtomicU64>,
    tenant_evictions: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Route {
    method: &'static str,
    route: String,
    // Left out for latencies: a histogram for each status would be many rows.
    status: Option<u16>,
}

impl EncodeLabelSet for Route {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        ("method", self.method).encode(encoder.encode_label())?;
        ("route", self.route.as_str()).encode(encoder.encode_label())?;
        if let Some(status) = self.status {
            ("status", status).encode(encoder.encode_label())?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Stage {
    stage: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

/// The maximum number of tokens that one request adds to a counter. A wrong
/// report of a client must not spoil the sum.
const MOST_TOKENS: u64 = 1_000_000_000;

/// From a tenth of a millisecond to half a minute.
fn latencies() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.5, 14))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("contexture");
        let requests = Family::default();
        registry.register("requests", "Requests answered", Family::clone(&requests));
        let seconds = Family::new_with_constructor(latencies as fn() -> Histogram);
        let help = "Time from a request's head to its answer";
        registry.register_with_unit("request", help, Unit::Seconds, Family::clone(&seconds));
        let stages = Family::new_with_constructor(latencies as fn() -> Histogram);
        let help = "Duration of each stage of assembling a request";
        registry.register_with_unit("stage", help, Unit::Seconds, Family::clone(&stages));
        let queue = latencies();
        let help = "Time that requests wait in the queue";
        registry.register_with_unit("queue_wait", help, Unit::Seconds, queue.clone());
        let store = Family::new_with_constructor(latencies as fn() -> Histogram);
        let help = "Time that requests wait for the store: for a read connection or a commit";
        registry.register_with_unit("store_wait", help, Unit::Seconds, Family::clone(&store));
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, Counter::clone(&counter));
            counter
        };
        let tokens = counter("assembled_tokens", "Tokens of assembled requests");
        let shared = counter(
            "assembled_shared_tokens",
            "Leading tokens of assembled requests that are the same as in the session's previous \
             request: a provider can serve them from its cache",
        );
        let turns = counter("recorded_turns", "Turns recorded");
        let provider_input = counter(
            "provider_input_tokens",
            "Input tokens that providers reported with turns",
        );
        let provider_cached = counter(
            "provider_cached_input_tokens",
            "Input tokens that came from the provider's cache",
        );
        let records = counter("recorded_memories", "Memory records stored");
        let refused_connections = counter(
            "refused_connections",
            "Connections refused because their address had too many",
        );
        let refused_by_quota = counter(
            "refused_by_quota",
            "Requests refused because their tenant had reached a quota",
        );
        let dropped_spans = counter(
            "dropped_spans",
            "Spans of traces that were not sent because the collector was slow or failed",
        );
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, Gauge::clone(&gauge));
            gauge
        };
        let connections = gauge("connections", "Open connections");
        let working = gauge("requests_in_progress", "Requests in progress");
        let waiting = gauge("requests_waiting", "Requests waiting for a free slot");
        let body_memory = Gauge::default();
        let help = "Memory that large request bodies and large unsent answers reserve";
        registry.register_with_unit("body_memory", help, Unit::Bytes, Gauge::clone(&body_memory));
        let resident = Gauge::default();
        let help = "Memory that the process uses";
        registry.register_with_unit(
            "resident_memory",
            help,
            Unit::Bytes,
            Gauge::clone(&resident),
        );
        let cache = CacheMetrics::new(&mut registry);
        let indexes = IndexMetrics::new(&mut registry);
        let models = ModelMetrics::new(&mut registry);
        let upkeep = StoreMetrics::new(&mut registry);
        Self {
            registry,
            requests,
            seconds,
            stages,
            queue,
            store,
            tokens,
            shared,
            turns,
            provider_input,
            provider_cached,
            records,
            refused_connections,
            refused_by_quota,
            dropped_spans,
            connections,
            working,
            waiting,
            body_memory,
            resident,
            cache,
            indexes,
            models,
            upkeep,
        }
    }
}

impl Metrics {
    /// Records how long a request waited for the store.
    pub fn store_waited(&self, waited: Waited, time: Duration) {
        let operation = match waited {
            Waited::Read => "read",
            Waited::Write => "write",
        };
        self.store
            .get_or_create(&Operation { operation })
            .observe(time.as_secs_f64());
    }

    pub(crate) fn answered(&self, method: &'static str, route: &str, status: u16, time: Duration) {
        let mut labels = Route {
            method,
            route: route.to_owned(),
            status: None,
        };
        self.seconds
            .get_or_create(&labels)
            .observe(time.as_secs_f64());
        labels.status = Some(status);
        self.requests.get_or_create(&labels).inc();
    }

    pub(crate) fn queued(&self, time: Duration) {
        self.queue.observe(time.as_secs_f64());
    }

    pub(crate) fn assembled(&self, assembled: &Assembled) {
        traces::note_assembled(assembled);
        let report = &assembled.report;
        for (stage, ms) in &report.timings_ms {
            let stage = Stage {
                stage: stage.to_string(),
            };
            self.stages.get_or_create(&stage).observe(ms / 1000.0);
        }
        self.tokens.inc_by(report.budget.used);
        if let Some(cache) = &report.cache {
            self.shared.inc_by(cache.shared_tokens);
        }
    }

    pub(crate) fn recorded(&self, usage: Option<&contexture::turn::Usage>) {
        self.turns.inc();
        if let Some(usage) = usage {
            traces::note_usage(usage.input_tokens, usage.output_tokens);
            self.provider_input
                .inc_by(usage.input_tokens.min(MOST_TOKENS));
            self.provider_cached
                .inc_by(usage.cached_input_tokens.min(MOST_TOKENS));
        }
    }

    pub(crate) fn remembered(&self, records: u64) {
        self.records.inc_by(records);
    }

    /// Returns all metrics in the OpenMetrics text format.
    pub(crate) fn render(&self) -> String {
        if let Some(bytes) = resident_bytes() {
            self.resident.set(bytes);
        }
        self.cache.read();
        self.indexes.read();
        let mut text = String::new();
        // Writing to a text does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl CacheMetrics {
    fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            bytes: Gauge::default(),
            limit: Gauge::default(),
            entries: Gauge::default(),
            hits: Counter::default(),
            misses: Counter::default(),
            tenant_limit: Gauge::default(),
            largest_tenant: Gauge::default(),
            tenant_evictions: Counter::default(),
        };
        let help = "Memory that the caches of the process use";
        registry.register_with_unit("cache", help, Unit::Bytes, metrics.bytes.clone());
        let help = "Maximum memory of the caches of the process";
        registry.register_with_unit("cache_limit", help, Unit::Bytes, metrics.limit.clone());
        let help = "Entries in the caches of the process";
        registry.register("cache_entries", help, metrics.entries.clone());
        let help = "Cache lookups that found an entry";
        registry.register("cache_hits", help, metrics.hits.clone());
        let help = "Cache lookups that found no entry";
        registry.register("cache_misses", help, metrics.misses.clone());
        let help = "Maximum memory of the caches of one tenant";
        let name = "cache_tenant_limit";
        registry.register_with_unit(name, help, Unit::Bytes, metrics.tenant_limit.clone());
        let help = "Memory of the caches of the tenant that uses most";
        let name = "cache_largest_tenant";
        registry.register_with_unit(name, help, Unit::Bytes, metrics.largest_tenant.clone());
        let help = "Cache entries that were evicted because a tenant reached its limit";
        let evictions = metrics.tenant_evictions.clone();
        registry.register("cache_tenant_evictions", help, evictions);
        metrics
    }

    fn read(&self) {
        let stats = cache::stats();
        self.bytes.set(stats.bytes);
        self.limit.set(stats.limit);
        self.entries.set(stats.entries);
        // Two threads can read the statistics in one order and store them in the
        // other. A counter must never decrease.
        self.hits.inner().fetch_max(stats.hits, Ordering::Relaxed);
        let misses = self.misses.inner();
        misses.fetch_max(stats.misses, Ordering::Relaxed);
        self.tenant_limit.set(stats.owner_limit);
        self.largest_tenant.set(stats.largest_owner_bytes);
        let evictions = self.tenant_evictions.inner();
        evictions.fetch_max(stats.owner_evictions, Ordering::Relaxed);
    }
}

/// Returns the resident memory of the process in bytes, on Linux.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
