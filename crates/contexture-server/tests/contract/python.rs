//! Checks of the document and of the metrics with other libraries.
//!
//! The test needs Python and its package index. Without them it fails: a
//! skipped test looks just like one that passes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Lab, talk};

/// Returns the path of a script or a setting next to this file.
pub(crate) fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/contract")
        .join(name)
}

/// Returns a Python that has the libraries. All tests share it.
pub(crate) fn python() -> String {
    let made = Command::new("sh")
        .arg(beside("../../../contexture-providers/tests/sdk/setup.sh"))
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("contract"))
        .arg(beside("requirements.txt"))
        .arg("schemathesis, openapi_spec_validator, prometheus_client")
        .output()
        .expect("this test needs sh");
    assert!(
        made.status.success(),
        "this test needs Python 3.11 or newer and its package index:\n{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let printed = String::from_utf8(made.stdout).unwrap();
    printed.lines().last().unwrap().to_owned()
}

/// Runs a script with a file that holds `text`, and returns what it prints.
fn judge(script: &str, text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("text");
    std::fs::write(&path, text).unwrap();
    let run = Command::new(python())
        .arg("-c")
        .arg(script)
        .arg(&path)
        .output()
        .unwrap();
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn the_document_is_openapi() {
    let script = "
import json, sys
from openapi_spec_validator import OpenAPIV31SpecValidator
document = json.load(open(sys.argv[1], encoding='utf-8'))
for error in OpenAPIV31SpecValidator(document).iter_errors():
    print(list(error.absolute_path), error.message)
";
    assert_eq!(judge(script, &contexture_server::openapi().to_string()), "");
}

#[test]
fn metrics_can_be_parsed_and_have_no_user_names() {
    let mut lab = Lab::new();
    // Durations are reported only if the clock runs.
    lab.now = None;
    let (key, metrics) = (lab.key("harbour"), lab.metrics_key());
    let server = lab.serve();
    let client = server.with_key(&key);
    talk(&client, "lighthouse", "canary-in-content");
    let request = r#"{"session":"lighthouse","recipe":"broker","event":"canary-in-event"}"#;
    client.post("/v1/assemble", request).ok(200);
    client
        .get("/v1/sessions/lighthouse?canary-in-query=1")
        .ok(400);
    client.get("/canary-in-path").ok(404);
    client.post("/v1/sessions", "canary-in-body").ok(400);
    server.get("/v1/sessions").ok(401);
    server
        .raw("CANARY /v1/sessions HTTP/1.1\r\nhost: canary\r\n\r\n")
        .ok(403);
    let measured = server.with_key(&metrics).get("/metrics").ok(200).body;
    let (key_id, secret) = contexture::key::parse(&key).unwrap();
    for nobody in ["harbour", "lighthouse", "canary", "CANARY", key_id, secret] {
        assert!(!measured.contains(nobody), "{nobody} in\n{measured}");
    }
    let script = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
for family in text_string_to_metric_families(open(sys.argv[1], encoding='utf-8').read()):
    for sample in family.samples:
        if sample.name.endswith(('_total', '_count')) and sample.value:
            labels = ' '.join(f'{k}={v}' for k, v in sorted(sample.labels.items()))
            print(sample.name, labels, int(sample.value))
";
    let read = judge(script, &measured);
    for line in [
        "contexture_requests_total method=POST route=/v1/sessions status=201 1",
        "contexture_requests_total method=POST route=/v1/sessions status=400 1",
        "contexture_requests_total method=POST route=/v1/sessions/{label}/turns status=201 1",
        "contexture_requests_total method=GET route=/v1/sessions/{label} status=400 1",
        "contexture_requests_total method=GET route=none status=404 1",
        "contexture_requests_total method=other route=/v1/sessions status=403 1",
        "contexture_recorded_turns_total  1",
        "contexture_request_seconds_count method=POST route=/v1/assemble 1",
    ] {
        assert!(
            read.lines().any(|known| known == line),
            "{line}\nnot in\n{read}"
        );
    }
    for name in [
        "contexture_assembled_tokens_total",
        "contexture_stage_seconds_count stage=",
        "contexture_queue_wait_seconds_count",
        "contexture_store_wait_seconds_count operation=read",
        "contexture_store_wait_seconds_count operation=write",
    ] {
        assert!(read.contains(name), "{name}\nnot in\n{read}");
    }
}
