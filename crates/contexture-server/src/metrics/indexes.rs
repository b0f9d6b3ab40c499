//! The metrics of the memory indexes of all tenants.

use std::sync::atomic::{AtomicU64, Ordering};

use contexture::memory::index_memory;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

type Number = Gauge<u64, AtomicU64>;

/// The size of the memory indexes of all tenants.
pub(super) struct IndexMetrics {
    bytes: Number,
    limit: Number,
    share: Number,
    largest: Number,
    indexes: Number,
    evictions: Counter,
    passing: Counter,
}

impl IndexMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            bytes: Number::default(),
            limit: Number::default(),
            share: Number::default(),
            largest: Number::default(),
            indexes: Number::default(),
            evictions: Counter::default(),
            passing: Counter::default(),
        };
        let sizes = [
            (
                "memory_index",
                "Memory that the memory indexes of all tenants use",
                &metrics.bytes,
            ),
            (
                "memory_index_limit",
                "Maximum memory of the memory indexes of all tenants",
                &metrics.limit,
            ),
            (
                "memory_index_tenant_limit",
                "Memory of one memory index above which it is evicted first",
                &metrics.share,
            ),
            (
                "memory_index_largest_tenant",
                "Memory of the largest memory index",
                &metrics.largest,
            ),
        ];
        for (name, help, gauge) in sizes {
            registry.register_with_unit(name, help, Unit::Bytes, gauge.clone());
        }
        let help = "Memory indexes that are loaded";
        registry.register("memory_indexes", help, metrics.indexes.clone());
        let help = "Memory indexes that were evicted";
        registry.register("memory_index_evictions", help, metrics.evictions.clone());
        let help = "Memory indexes that were loaded for one recall because they did not fit";
        registry.register("memory_index_passing_loads", help, metrics.passing.clone());
        metrics
    }

    pub(super) fn read(&self) {
        let stats = index_memory::stats();
        self.bytes.set(stats.bytes);
        self.limit.set(stats.limit);
        self.share.set(stats.share);
        self.largest.set(stats.largest);
        self.indexes.set(stats.indexes);
        // Two threads can read the statistics in one order and store them in the
        // other. A counter must never decrease.
        let evictions = self.evictions.inner();
        evictions.fetch_max(stats.evictions, Ordering::Relaxed);
        let passing = self.passing.inner();
        passing.fetch_max(stats.passing, Ordering::Relaxed);
    }
}
