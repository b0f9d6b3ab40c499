//! Authentication with API keys.

use contexture_server::Server;
use serde_json::json;

use crate::support::{Lab, talk, until};

const NO_KEY: &str = "401 unauthorized: the server requires an API key [send `Authorization: \
    Bearer KEY`; create a key with `contexture key new` on the server]";
const WRONG_KEY: &str = "401 unauthorized: the API key is invalid [send the whole key as \
    `Authorization: Bearer KEY`]";
const REVOKED: &str = "401 unauthorized: the API key was revoked [create another key with \
    `contexture key new` on the server]";

#[test]
fn a_server_with_keys_accepts_only_calls_with_a_key() {
    let lab = Lab::new();
    let key = lab.key("");
    let server = lab.serve();
    assert!(server.needs_key);
    assert_eq!(
        server.with_key(&key).get("/v1/sessions").text(),
        r#"200 {"sessions":[],"next":null}"#
    );
    let refused = server.get("/v1/sessions");
    assert_eq!(refused.text(), NO_KEY);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    // Health checks and documentation need no key.
    for target in ["/healthz", "/readyz", "/openapi.json", "/docs"] {
        server.get(target).ok(200);
    }
}

#[test]
fn malformed_unknown_and_wrong_keys_get_the_same_answer() {
    let lab = Lab::new();
    let key = lab.key("");
    let elsewhere = Lab::new().key("");
    let server = lab.serve();
    let (head, secret) = key.rsplit_once('_').unwrap();
    let wrong_secret = format!("{head}_{}", secret.chars().rev().collect::<String>());
    for wrong in ["x", "", &elsewhere, &wrong_secret, &key[..key.len() - 1]] {
        assert_eq!(
            server.with_key(wrong).get("/v1/sessions").text(),
            WRONG_KEY,
            "{wrong}"
        );
    }
    let client = server.anybody();
    for header in [format!("Basic {key}"), key.clone(), format!("Bearer{key}")] {
        let headers = [("authorization", header.as_str())];
        assert_eq!(
            client.send("GET", "/v1/sessions", &headers, None).text(),
            WRONG_KEY
        );
    }
    // Two keys could be two callers.
    let twice = [
        ("authorization", format!("Bearer {key}")),
        ("authorization", format!("Bearer {key}")),
    ];
    let twice: Vec<(&str, &str)> = twice
        .iter()
        .map(|(name, value)| (*name, &**value))
        .collect();
    assert_eq!(
        client.send("GET", "/v1/sessions", &twice, None).text(),
        NO_KEY
    );
    // The word for the scheme may be written in any way.
    let header = format!("bearer {key}");
    client
        .send("GET", "/v1/sessions", &[("authorization", &header)], None)
        .ok(200);
}

#[test]
fn a_revoked_key_is_rejected_and_the_server_still_requires_keys() {
    let lab = Lab::new();
    let (first, last) = (lab.key(""), lab.key(""));
    let server = lab.serve();
    for key in [&first, &last] {
        let client = server.with_key(key);
        client.get("/v1/sessions").ok(200);
        lab.revoke(key);
        // A key that was looked up is cached for a moment.
        let refused =
            until(|| Some(client.get("/v1/sessions")).filter(|answer| answer.status != 200));
        assert_eq!(refused.text(), REVOKED);
        // A caller without the secret does not learn that the key was revoked.
        let (head, _) = key.rsplit_once('_').unwrap();
        let guess = format!("{head}_{}", "x".repeat(43));
        assert_eq!(
            server.with_key(&guess).get("/v1/sessions").text(),
            WRONG_KEY
        );
    }
    assert_eq!(server.get("/v1/sessions").text(), NO_KEY);
    drop(server);
    let again = lab.serve();
    assert!(again.needs_key);
    assert_eq!(again.get("/v1/sessions").text(), NO_KEY);
}

#[test]
fn local_calls_need_no_key_until_one_is_created() {
    let lab = Lab::new();
    let server = lab.serve();
    assert!(!server.needs_key);
    server.get("/v1/sessions").ok(200);
    server.get("/metrics").ok(200);
    // Nobody is asked for a key, so that a wrong one does not matter.
    server.with_key("x").get("/v1/sessions").ok(200);
    let key = lab.key("");
    let refused = until(|| Some(server.get("/v1/sessions")).filter(|answer| answer.status != 200));
    assert_eq!(refused.text(), NO_KEY);
    server.with_key(&key).get("/v1/sessions").ok(200);
}

#[test]
fn a_public_address_requires_a_key() {
    let bind = |lab: &Lab| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime
            .block_on(Server::bind(lab.service()))
            .map(|server| server.needs_key())
    };
    for address in ["0.0.0.0:0", "[::]:0"] {
        let lab = Lab::new().with(|server| server.addr = address.to_owned());
        let refused = bind(&lab).unwrap_err();
        assert!(refused.is_input());
        assert_eq!(
            refused.to_string(),
            format!(
                "other machines can reach {address}, and no API key exists: anyone could read and \
                 write all data"
            )
        );
        assert_eq!(
            json!(refused.advice()),
            json!([
                {"do": "text", "text": "create an API key with `contexture key new`"},
                {"do": "set", "field": "addr",
                 "value": "a loopback address such as 127.0.0.1:4650"},
            ])
        );
    }
    // With only revoked keys, every caller is rejected, which is safe.
    let lab = Lab::new().with(|server| server.addr = "0.0.0.0:0".to_owned());
    let key = lab.key("");
    lab.revoke(&key);
    assert!(bind(&lab).unwrap());
}

#[test]
fn data_of_other_tenants_is_not_found() {
    let lab = Lab::new();
    let (harbour, island) = (lab.key("harbour"), lab.key("island"));
    let server = lab.serve();
    let (harbour, island) = (server.with_key(&harbour), server.with_key(&island));
    talk(&harbour, "tides", "The harbour's secret.");
    let assembled = harbour
        .post(
            "/v1/assemble",
            r#"{"session":"tides","recipe":"broker","event":"And?"}"#,
        )
        .ok(200);
    let snapshot = assembled.json()["snapshot"].as_str().unwrap().to_owned();
    let asked = |name: &str, snapshot: &str| {
        let mut texts = vec![
            island.get(&format!("/v1/sessions/{name}")),
            island.get(&format!("/v1/sessions/{name}/history")),
            island.get(&format!("/v1/sessions/{name}/cost")),
            island.get(&format!("/v1/sessions/{name}/events")),
            island.get(&format!("/v1/snapshots/{snapshot}")),
            island.patch(&format!("/v1/sessions/{name}"), r#"{"alias":"mine"}"#),
            island.post(
                &format!("/v1/sessions/{name}/turns"),
                &crate::support::turn("x"),
            ),
            island.post(&format!("/v1/sessions/{name}/fork"), r#"{"label":"copy"}"#),
            island.post(&format!("/v1/sessions/{name}/compact"), "{}"),
            island.post(
                "/v1/assemble",
                &format!(r#"{{"session":"{name}","recipe":"broker","event":"x"}}"#),
            ),
        ];
        texts.push(island.post(
            "/v1/sessions",
            &format!(r#"{{"label":"child","parent_session":"{name}"}}"#),
        ));
        texts
            .iter()
            .map(|answer| {
                answer
                    .ok_status(404)
                    .text()
                    .replace(name, "NAME")
                    .replace(snapshot, "HASH")
            })
            .collect::<Vec<_>>()
    };
    let nothing = "0".repeat(snapshot.len());
    assert_eq!(asked("tides", &snapshot), asked("ebbes", &nothing));
    assert_eq!(
        island.get("/v1/sessions").text(),
        r#"200 {"sessions":[],"next":null}"#
    );
    assert_eq!(harbour.get("/v1/sessions/tides").json()["turns"], 1);
}

#[test]
fn a_metrics_key_has_access_to_metrics_only() {
    let lab = Lab::new();
    let (tenant, metrics) = (lab.key("harbour"), lab.metrics_key());
    let server = lab.serve();
    assert_eq!(
        server.with_key(&metrics).get("/v1/sessions").text(),
        "403 forbidden: the API key has access to /metrics only [create another key with \
         `contexture key new` on the server]"
    );
    assert_eq!(
        server.with_key(&tenant).get("/metrics").text(),
        "403 forbidden: the API key has no access to /metrics [create a key for metrics with \
         `contexture key new --metrics` on the server]"
    );
    assert_eq!(server.get("/metrics").text(), NO_KEY);
    let read = server.with_key(&metrics).get("/metrics").ok(200);
    assert_eq!(
        read.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
}

#[test]
fn calls_above_the_rate_limit_get_status_429() {
    let lab = Lab::new().with(|server| (server.rate_per_second, server.rate_burst) = (1, 3));
    let (eager, calm) = (lab.key("harbour"), lab.key("harbour"));
    let server = lab.serve();
    let refused = until(|| {
        let answer = server.with_key(&eager).get("/v1/sessions");
        Some(answer).filter(|answer| answer.status != 200)
    });
    assert_eq!(
        refused.text(),
        "429 rate_limited: the API key exceeded its rate limit [retry after `retry-after` seconds]"
    );
    assert_eq!(refused.header("retry-after"), Some("1"));
    // Others are not held up by it, and after a while it goes on.
    server.with_key(&calm).get("/v1/sessions").ok(200);
    until(|| (server.with_key(&eager).get("/v1/sessions").status == 200).then_some(()));
}

#[test]
fn keys_do_not_appear_in_answers() {
    let lab = Lab::new();
    let key = lab.key("harbour");
    let metrics = lab.metrics_key();
    let server = lab.serve();
    let client = server.with_key(&key);
    let answers = [
        client.get("/v1/sessions"),
        client.get("/v1/sessions/x"),
        client.post("/v1/sessions", "{"),
        client.get("/nowhere"),
        client.delete("/v1/sessions"),
        server.with_key(&metrics).get("/metrics"),
        server.with_key(&metrics).get("/v1/sessions"),
    ];
    let secrets = [
        key.rsplit('_').next().unwrap(),
        metrics.rsplit('_').next().unwrap(),
    ];
    for answer in answers {
        let whole = format!("{answer:?}");
        assert!(
            secrets.iter().all(|secret| !whole.contains(secret)),
            "{whole}"
        );
    }
}
