//! What `/metrics` shows of the caches.

use crate::support::{Lab, until};

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
