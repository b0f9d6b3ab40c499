//! The metrics at `/metrics`: the caches, the store and its upkeep.

use std::collections::BTreeSet;

use crate::support::{Lab, talk, until};

/// Returns the value of a metric without labels.
fn value(metrics: &str, name: &str) -> u64 {
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.unwrap_or_else(|| panic!("{name} is missing:\n{metrics}"));
    value.parse().unwrap()
}

#[test]
fn the_caches_of_the_process_are_measured() {
    let lab = Lab::new();
    let server = lab.serve();
    server.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    let assemble = || {
        // Counts of long texts are kept.
        let event = "How long is the harbour wall? ".repeat(200);
        let body = serde_json::json!({"session": "s", "recipe": "broker", "event": event});
        let body = body.to_string();
        server.post("/v1/assemble", &body).ok(200);
    };
    assemble();
    let before = server.get("/metrics").ok(200).body;
    for kind in [
        "# TYPE contexture_cache_bytes gauge",
        "# TYPE contexture_cache_limit_bytes gauge",
        "# TYPE contexture_cache_entries gauge",
        "# TYPE contexture_cache_hits counter",
        "# TYPE contexture_cache_misses counter",
        "# TYPE contexture_cache_tenant_limit_bytes gauge",
        "# TYPE contexture_cache_largest_tenant_bytes gauge",
        "# TYPE contexture_cache_tenant_evictions counter",
        "# TYPE contexture_memory_index_bytes gauge",
        "# TYPE contexture_memory_index_limit_bytes gauge",
        "# TYPE contexture_memory_index_tenant_limit_bytes gauge",
        "# TYPE contexture_memory_index_largest_tenant_bytes gauge",
        "# TYPE contexture_memory_indexes gauge",
        "# TYPE contexture_memory_index_evictions counter",
        "# TYPE contexture_memory_index_passing_loads counter",
    ] {
        assert!(before.contains(kind), "{kind}\n{before}");
    }
    assert!(value(&before, "contexture_cache_bytes") > 0);
    assert!(value(&before, "contexture_cache_entries") > 0);
    assemble();
    let after = server.get("/metrics").ok(200).body;
    let lookups = |metrics: &str| {
        value(metrics, "contexture_cache_hits_total")
            + value(metrics, "contexture_cache_misses_total")
    };
    assert!(lookups(&after) > lookups(&before));
}

#[test]
fn the_limit_of_the_caches_is_the_one_in_the_settings() {
    let limit = 300 << 20;
    let lab = Lab::new().with(|server| server.cache_bytes = limit);
    // The limit is the process's: another test may start a server meanwhile.
    until(|| {
        let metrics = lab.serve().get("/metrics").ok(200).body;
        (value(&metrics, "contexture_cache_limit_bytes") == limit).then_some(())
    });
}

/// Returns the names of all metrics in an answer of `/metrics`, as Prometheus
/// stores them.
fn names(metrics: &str) -> BTreeSet<String> {
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    let name = |line: &str| line.split(['{', ' ']).next().map(str::to_owned);
    samples.filter_map(name).collect()
}

/// Returns the names of metrics that a text mentions.
fn mentioned(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_name(c));
    words
        .filter(|word| word.starts_with("contexture_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_store_and_its_upkeep_are_measured() {
    let mut lab = Lab::new();
    lab.now = None;
    let server = lab.serve();
    talk(&server.anybody(), "s", "Hello.");
    let metrics = server.get("/metrics").ok(200).body;
    assert!(value(&metrics, "contexture_store_bytes") > 0);
    assert!(value(&metrics, "contexture_store_log_bytes") > 0);
    assert!(value(&metrics, "contexture_disk_free_bytes") > 0);
    assert_eq!(value(&metrics, "contexture_store_queued_writes"), 0);
    assert_eq!(value(&metrics, "contexture_store_pending_forgetting"), 0);
    assert_eq!(
        value(&metrics, "contexture_last_backup_timestamp_seconds"),
        0
    );
    // Somebody reads an earlier state, so that deleted text stays in the log.
    let path = lab.path(".contexture/contexture.db");
    let reader = rusqlite::Connection::open(path).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM turns").unwrap();
    let deleted = server.anybody().delete("/v1/sessions/s").ok(200).json();
    assert_eq!(deleted["pending"], true);
    until(|| {
        let metrics = server.get("/metrics").ok(200).body;
        (value(&metrics, "contexture_store_pending_forgetting") == 1).then_some(())
    });
    drop(reader);
    until(|| {
        let metrics = server.get("/metrics").ok(200).body;
        (value(&metrics, "contexture_store_pending_forgetting") == 0).then_some(())
    });
    let now = contexture::Timestamp::now();
    let backup = lab.path("backup");
    lab.stores.backend().back_up(&backup, None, now).unwrap();
    let metrics = server.get("/metrics").ok(200).body;
    let last = value(&metrics, "contexture_last_backup_timestamp_seconds");
    assert_eq!(last, now.as_second().unsigned_abs());
}

#[test]
fn the_board_and_the_alert_rules_name_metrics_that_exist() {
    let mut lab = Lab::new();
    // Stages are timed by the real clock only.
    lab.now = None;
    let server = lab.serve();
    talk(&server.anybody(), "s", "Hello.");
    let body = r#"{"session":"s","recipe":"broker","event":"Hello?"}"#;
    server.post("/v1/assemble", body).ok(200);
    // The first answer is counted in the second.
    server.get("/metrics").ok(200);
    let exist = names(&server.get("/metrics").ok(200).body);
    let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/deploy");
    let mut all = BTreeSet::new();
    for file in ["grafana.json", "alerts.yml"] {
        let text = std::fs::read_to_string(format!("{deploy}/{file}")).unwrap();
        let used = mentioned(&text);
        // Descriptions name a histogram by its name alone.
        let exists =
            |name: &&String| exist.contains(*name) || exist.contains(&format!("{name}_bucket"));
        let missing: Vec<&String> = used.iter().filter(|name| !exists(name)).collect();
        assert!(missing.is_empty(), "{file}: {missing:?}");
        all.extend(used);
    }
    assert!(all.len() > 30, "{all:?}");
}
