//! Metrics of the store and its upkeep: sizes, the write queue, the garbage
//! collector and backups.

use std::sync::atomic::AtomicU64;

use contexture::store::StoreStats;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

type Bytes = Gauge<u64, AtomicU64>;

/// Metrics of the store.
pub(crate) struct StoreMetrics {
    bytes: Bytes,
    log_bytes: Bytes,
    free_bytes: Bytes,
    queued_writes: Bytes,
    pending_forgetting: Bytes,
    pending_deletions: Bytes,
    max_connections: Bytes,
    connections_in_use: Bytes,
    waiting_for_connections: Bytes,
    retries: Bytes,
    synchronous_standbys: Bytes,
    last_backup: Gauge,
    round_trips: Counter,
    pub(crate) failed_snapshots: Counter,
    pub(crate) collections: Counter,
    pub(crate) failed_collections: Counter,
    pub(crate) collected_snapshots: Counter,
    pub(crate) backups: Counter,
    pub(crate) failed_backups: Counter,
}

impl StoreMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let mut bytes = |name: &str, help: &str| {
            let gauge = Bytes::default();
            registry.register_with_unit(name, help, Unit::Bytes, gauge.clone());
            gauge
        };
        let size = bytes("store", "Size of all database files");
        let log_bytes = bytes("store_log", "Size of all write-ahead logs");
        let free_bytes = bytes("disk_free", "Free space on the disk of the store");
        let mut count = |name: &str, help: &str| {
            let gauge = Bytes::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let queued_writes = count("store_queued_writes", "Writes that wait for the store");
        let pending_forgetting = count(
            "store_pending_forgetting",
            "Database files that can still hold deleted text",
        );
        let pending_deletions = count(
            "store_pending_deletions",
            "Deletions that have begun and have not ended",
        );
        let max_connections = count(
            "store_connections_limit",
            "Maximum number of connections to the database",
        );
        let connections_in_use = count(
            "store_connections_in_use",
            "Connections to the database that are in use",
        );
        let waiting_for_connections = count(
            "store_connections_waiting",
            "Calls that wait for a connection to the database",
        );
        let retries = count(
            "store_retries",
            "Transactions that were begun again after a lost connection, since the start",
        );
        let synchronous_standbys = count(
            "store_synchronous_standbys",
            "Standbys of the database that a commit waits for; 0 if a failover can lose commits",
        );
        let last_backup = Gauge::default();
        let help = "Time of the last backup of all tenants, in Unix time; 0 if there is none";
        registry.register_with_unit(
            "last_backup_timestamp",
            help,
            Unit::Seconds,
            last_backup.clone(),
        );
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, Counter::clone(&counter));
            counter
        };
        Self {
            bytes: size,
            log_bytes,
            free_bytes,
            queued_writes,
            pending_forgetting,
            pending_deletions,
            max_connections,
            connections_in_use,
            waiting_for_connections,
            retries,
            synchronous_standbys,
            last_backup,
            round_trips: counter(
                "store_round_trips",
                "Answers of a database in another process that calls have waited for",
            ),
            failed_snapshots: counter(
                "failed_snapshots",
                "Snapshots of requests that could not be saved",
            ),
            collections: counter("collections", "Runs of the garbage collector"),
            failed_collections: counter(
                "failed_collections",
                "Runs of the garbage collector that failed for a tenant",
            ),
            collected_snapshots: counter(
                "collected_snapshots",
                "Snapshots that the garbage collector has deleted",
            ),
            backups: counter("backups", "Scheduled backups that were made"),
            failed_backups: counter("failed_backups", "Scheduled backups that failed"),
        }
    }

    /// Sets the gauges. A value that the store does not know stays as it is.
    pub(crate) fn set(&self, stats: &StoreStats) {
        for (gauge, value) in [
            (&self.bytes, stats.bytes),
            (&self.log_bytes, stats.log_bytes),
            (&self.free_bytes, stats.free_bytes),
            (&self.queued_writes, stats.queued_writes),
            (&self.pending_forgetting, stats.pending_forgetting),
            (&self.pending_deletions, stats.pending_deletions),
            (&self.max_connections, stats.max_connections),
            (&self.connections_in_use, stats.connections_in_use),
            (&self.waiting_for_connections, stats.waiting_for_connections),
            (&self.retries, stats.retries),
            (&self.synchronous_standbys, stats.synchronous_standbys),
        ] {
            if let Some(value) = value {
                gauge.set(value);
            }
        }
        if let Some(now) = stats.round_trips {
            // The store counts. A scrape that is late adds nothing.
            let before = self.round_trips.get();
            self.round_trips.inc_by(now.saturating_sub(before));
        }
        if let Some(at) = stats.last_backup {
            self.last_backup.set(at.as_second());
        }
    }
}
