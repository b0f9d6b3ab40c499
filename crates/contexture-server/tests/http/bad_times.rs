//! Calls that come at a bad time: in the middle of a deletion, at a quota, or after
//! the clock was set back; large answers, and tenants with bad names.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use contexture::store::{Retention, Tenants as _, Upkeep as _};
use serde_json::json;

use crate::support::{Client, Lab, Wire, now, talk, turn, until};

/// Sends a part of a chunked body.
fn chunk(wire: &mut Wire, text: &str) -> bool {
    wire.send(format!("{:x}\r\n{text}\r\n", text.len()))
}

fn lines(from: usize, to: usize) -> String {
    (from..to)
        .map(|i| {
            format!(
                "{}\n",
                json!({"kind": "event", "id": format!("e{i}"), "content": format!("Number {i}.")})
            )
        })
        .collect()
}

/// Returns true if the server has answered.
fn is_answered(wire: &Wire) -> bool {
    wire.0.set_nonblocking(true).unwrap();
    let answered = wire.0.peek(&mut [0]).is_ok();
    wire.0.set_nonblocking(false).unwrap();
    answered
}

#[test]
fn a_stream_of_records_ends_when_its_key_is_revoked() {
    let lab = Lab::new();
    let (key, other) = (lab.key("harbour"), lab.key("harbour"));
    let server = lab.serve();
    let mut wire = server.connect();
    wire.send(format!(
        "POST /v1/memory/records HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
    ));
    assert!(chunk(&mut wire, &lines(0, 10)));
    // The stream is accepted before its key is revoked.
    let metrics = server.with_key(&lab.metrics_key());
    until(|| {
        let text = metrics.get("/metrics").ok(200).body;
        let begun = text.contains("contexture_requests_in_progress 1\n");
        begun.then_some(())
    });
    lab.revoke(&key);
    // The key is checked every few seconds.
    let mut sent = 10;
    while !is_answered(&wire) && sent < 20_000 && chunk(&mut wire, &lines(sent, sent + 10)) {
        sent += 10;
        thread::sleep(std::time::Duration::from_millis(50));
    }
    let answer = wire.answer();
    assert!(answer.status >= 400, "{}", answer.body);
    assert!(
        answer.text().contains("the key was revoked"),
        "{}",
        answer.text()
    );
    // Others of the tenant go on.
    server.with_key(&other).get("/v1/usage").ok(200);
}

#[test]
fn a_quota_that_is_reached_in_the_middle_of_a_batch_ends_it() {
    let lab = Lab::new().with(|server| server.quota.max_records = 1000);
    let key = lab.key("harbour");
    let server = lab.serve();
    // One call below the quota is finished.
    let client = server.with_key(&key);
    let batch: Vec<_> = (0..600)
        .map(|i| json!({"kind": "event", "id": format!("b{i}"), "content": format!("Batch {i}.")}))
        .collect();
    let body = json!({ "records": batch }).to_string();
    client.post("/v1/memory/records", &body).ok(200);
    // A stream is not: it could go on for ever.
    let mut wire = server.connect();
    wire.send(format!(
        "POST /v1/memory/records HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
    ));
    let stored = || {
        let usage = lab.stores.tenant("harbour").usage().unwrap();
        usage.records
    };
    // Until the server has answered: it looks at the usage once a second.
    let mut sent = 0;
    while !is_answered(&wire) && sent < 200_000 && chunk(&mut wire, &lines(sent, sent + 500)) {
        sent += 500;
        thread::sleep(std::time::Duration::from_millis(50));
    }
    let answer = wire.answer();
    assert_eq!(answer.status, 507, "{}", answer.body);
    let text = answer.text();
    assert!(
        text.contains("of its quota of 1000 memory records"),
        "{text}"
    );
    assert!(stored() > 1000 && stored() < 200_000, "{}", stored());
    // Reading and deleting still work.
    client.get("/v1/usage").ok(200);
    client.delete("/v1/memory/records/b1").ok(200);
}

#[test]
fn a_session_is_deleted_while_it_is_read_assembled_compacted_and_streamed() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let calls: [(&str, &str, Option<String>); 5] = [
            ("GET", "/v1/sessions/s", None),
            ("GET", "/v1/sessions/s/history?limit=50", None),
            ("POST", "/v1/sessions/s/compact", Some("{}".to_owned())),
            ("POST", "/v1/sessions/s/turns", Some(turn("A sentence. ").replace("A sentence. ", &"A sentence. ".repeat(50)))),
            (
                "POST",
                "/v1/assemble",
                Some(json!({"session": "s", "recipe": "broker", "model": "gpt-4o", "event": "Go on."}).to_string()),
            ),
        ];
        let mut callers = Vec::new();
        for (method, target, body) in calls {
            let (client, stop) = (client.clone(), &stop);
            callers.push(scope.spawn(move || {
                let json = [("content-type", "application/json")];
                let mut statuses = std::collections::BTreeMap::new();
                while !stop.load(Ordering::Relaxed) {
                    let headers = if body.is_some() { &json[..] } else { &[] };
                    let answer = client.send(method, target, headers, body.as_deref());
                    // The record exists, does not exist, or there was a
                    // conflict.
                    assert!(
                        [200, 201, 404, 409].contains(&answer.status),
                        "{method} {target}: {}",
                        answer.text()
                    );
                    *statuses.entry(answer.status).or_insert(0) += 1;
                }
                statuses
            }));
        }
        for round in 0..12 {
            let created = client.post("/v1/sessions", r#"{"label":"s"}"#);
            created.ok(201);
            for i in 0..8 {
                let text = format!("{round} {i} {}", "The tide is high. ".repeat(30));
                client.post("/v1/sessions/s/turns", &turn(&text));
            }
            let mut events = server.connect();
            events.send(
                "GET /v1/sessions/s/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
            );
            assert!(events.until("\r\n\r\n").contains("200 OK"));
            client.delete("/v1/sessions/s").ok(200);
        }
        stop.store(true, Ordering::Relaxed);
        for caller in callers {
            let statuses = caller.join().unwrap();
            assert!(!statuses.is_empty());
        }
    });
    // Requests may have made the session again; the store is whole.
    assert_eq!(lab.stores.verify().unwrap().damaged, []);
    talk(&client, "another", "Hello.");
}

#[test]
fn a_page_of_large_turns_ends_when_it_is_long_enough() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    client.post("/v1/sessions", r#"{"label":"a"}"#).ok(201);
    let text = "x".repeat(900_000);
    for _ in 0..12 {
        client.post("/v1/sessions/a/turns", &turn(&text)).ok(201);
    }
    let page = client.get("/v1/sessions/a/history?limit=100").ok(200);
    assert!(page.body.len() > 8 << 20, "{}", page.body.len());
    let first = page.json();
    let turns = first["turns"].as_array().unwrap().len();
    assert!((9..12).contains(&turns), "{turns}");
    let next = first["next"].as_str().unwrap();
    let rest = client.get(&format!("/v1/sessions/a/history?limit=100&before={next}"));
    let rest = rest.ok(200).json();
    assert_eq!(rest["turns"].as_array().unwrap().len(), 12 - turns);
    assert!(rest["next"].is_null());
}

#[test]
fn a_clock_that_is_set_back_a_year_loses_nothing() {
    let mut lab = Lab::new();
    {
        let server = lab.serve();
        talk(&server.anybody(), "s", "First.");
        let body = r#"{"session":"s","recipe":"broker","event":"Hello?"}"#;
        server.post("/v1/assemble", body).ok(200);
    }
    let year = std::time::Duration::from_secs(365 * 86_400);
    lab.now = Some(now().saturating_sub(year).unwrap());
    let server = lab.serve();
    let client = server.anybody();
    client
        .post("/v1/sessions/s/turns", &turn("Second."))
        .ok(201);
    let body = r#"{"session":"s","recipe":"broker","event":"And now?"}"#;
    let assembled = client.post("/v1/assemble", body).ok(200).body;
    assert!(assembled.contains("First.") && assembled.contains("Second."));
    // Turns are in the order of recording, not by their times.
    let history = client.get("/v1/sessions/s/history?limit=10").ok(200).body;
    assert!(history.find("First.") < history.find("Second."));
    // A record with a future time is not old.
    let retention = Retention {
        before: lab.now,
        ..Retention::default()
    };
    let collected = lab.stores.collect(&retention, true).unwrap();
    assert_eq!(collected.deleted.get("snapshots"), None);
    assert_eq!(lab.stores.verify().unwrap().damaged, []);
    // Keys that are created now are valid now.
    let key = lab.key("harbour");
    server.with_key(&key).get("/v1/sessions").ok(200);
}

#[test]
fn a_tenant_cannot_have_any_name() {
    let lab = Lab::new();
    let admin = lab.admin_key();
    let server = lab.serve();
    let admin = server.with_key(&admin);
    let long = "x".repeat(300);
    for name in [
        "..",
        ".",
        "CON",
        "con",
        "nul",
        "com1",
        "a/b",
        "a b",
        "\u{1F980}",
        "-a",
        &long,
    ] {
        let body = json!({ "tenant": name }).to_string();
        let refused = admin.post("/v1/admin/keys", &body);
        assert_eq!(refused.status, 422, "{name}");
        let text = refused.text();
        assert!(text.starts_with("422 invalid: tenant: `"), "{text}");
        assert!(text.len() < 300, "{text}");
        let shown: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let target = format!("/v1/admin/tenants/{shown}");
        assert_eq!(admin.get(&target).status, 422, "{name}");
        assert_eq!(admin.delete(&target).status, 422, "{name}");
    }
    // Nothing was created for any of them.
    assert_eq!(lab.stores.tenant_names().unwrap(), [""]);
    assert_eq!(lab.stores.keys().unwrap().len(), 1);
}

/// Returns the request that is assembled for a session, as text.
fn assembled(client: &Client, session: &str) -> String {
    let body =
        json!({"session": session, "recipe": "broker", "model": "gpt-4o", "event": "Go on."});
    client
        .post("/v1/assemble", &body.to_string())
        .ok(200)
        .text()
}

#[test]
fn turns_that_another_process_deletes_are_not_sent_any_more() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    client.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    for text in ["the canary sings", "the parrot talks", "the owl sleeps"] {
        client.post("/v1/sessions/s/turns", &turn(text)).ok(201);
    }
    // Twice: the second request is made from the cache.
    for _ in 0..2 {
        let request = assembled(&client, "s");
        assert!(request.contains("canary") && request.contains("owl"));
    }
    let history = client.get("/v1/sessions/s/history").ok(200).json();
    let ids: Vec<String> = (history["turns"].as_array().unwrap().iter())
        .map(|turn| turn["id"].as_str().unwrap().to_owned())
        .collect();
    lab.stores
        .delete_turns_before("s", ids[1].parse().unwrap())
        .unwrap();
    let request = assembled(&client, "s");
    assert!(!request.contains("canary"), "{request}");
    assert!(request.contains("parrot") && request.contains("owl"));
    // Over HTTP, by the first digits of the id.
    let target = format!("/v1/sessions/s/turns?before={}", &ids[2][..8]);
    let deleted = client.delete(&target).ok(200).json();
    assert_eq!(deleted["deleted"]["turns"], 1, "{deleted}");
    let request = assembled(&client, "s");
    assert!(!request.contains("parrot") && request.contains("owl"));
    let history = client.get("/v1/sessions/s/history").ok(200).json();
    assert_eq!(history["turns"].as_array().unwrap().len(), 1);
    assert!(history["next"].is_null() && history["turns"][0]["parent"].is_null());
    assert_eq!(
        client.delete(&target.replace(&ids[2][..8], &ids[0])).status,
        404
    );
    // A fork is named.
    client.post("/v1/sessions/s/turns", &turn("more")).ok(201);
    let fork = client.post("/v1/sessions/s/fork", r#"{"label":"twin"}"#);
    let head = fork.ok(201).json()["head"].as_str().unwrap().to_owned();
    let refused = client.delete(&format!("/v1/sessions/s/turns?before={head}"));
    assert_eq!(refused.status, 409);
    assert!(refused.text().contains("`twin`"), "{}", refused.text());
    assert_eq!(lab.stores.verify().unwrap().damaged, []);
}

#[test]
fn turns_are_deleted_while_the_session_is_read_assembled_compacted_and_streamed() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    client.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    client.post("/v1/sessions/s/turns", &turn("first")).ok(201);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let event =
            json!({"session": "s", "recipe": "broker", "model": "gpt-4o", "event": "Go on."});
        let calls = [
            ("GET", "/v1/sessions/s/history?limit=50", None),
            ("POST", "/v1/sessions/s/compact", Some("{}".to_owned())),
            ("POST", "/v1/assemble", Some(event.to_string())),
        ];
        for (method, target, body) in calls {
            let (client, stop) = (client.clone(), &stop);
            scope.spawn(move || {
                let json = [("content-type", "application/json")];
                while !stop.load(Ordering::Relaxed) {
                    let headers = if body.is_some() { &json[..] } else { &[] };
                    let answer = client.send(method, target, headers, body.as_deref());
                    // A turn that it is about to read can be deleted.
                    assert!(
                        [200, 404, 409].contains(&answer.status),
                        "{method} {target}: {}",
                        answer.text()
                    );
                }
            });
        }
        let mut events = server.connect();
        events.send(
            "GET /v1/sessions/s/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        );
        assert!(events.until("\r\n\r\n").contains("200 OK"));
        for round in 0..20 {
            for i in 0..4 {
                let text = format!("{round} {i} {}", "The tide is high. ".repeat(30));
                let recorded = client.post("/v1/sessions/s/turns", &turn(&text));
                assert!([201, 409].contains(&recorded.status), "{}", recorded.text());
            }
            let session = client.get("/v1/sessions/s").ok(200).json();
            let head = session["head"].as_str().unwrap();
            let deleted = client.delete(&format!("/v1/sessions/s/turns?before={head}"));
            // The head may have moved on by a compaction, but it is still there.
            deleted.ok(200);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(events.until("turn_recorded").contains("turn_recorded"));
    });
    assert_eq!(lab.stores.verify().unwrap().damaged, []);
    client.post("/v1/sessions/s/turns", &turn("last")).ok(201);
    assert!(assembled(&client, "s").contains("last"));
}

#[test]
fn a_snapshot_is_deleted_once() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    talk(&client, "s", "First.");
    assembled(&client, "s");
    let list = client.get("/v1/snapshots?session=s").ok(200).json();
    let hash = list["snapshots"][0]["hash"].as_str().unwrap().to_owned();
    let target = format!("/v1/snapshots/{hash}");
    client.get(&target).ok(200);
    let deleted = client.delete(&target).ok(200).json();
    assert_eq!(deleted["deleted"]["snapshots"], 1, "{deleted}");
    assert_eq!(client.get(&target).status, 404);
    assert_eq!(client.delete(&target).status, 404);
    // The next requests are saved.
    for _ in 0..2 {
        assembled(&client, "s");
    }
    let list = client.get("/v1/snapshots?session=s").ok(200).json();
    assert!(!list["snapshots"].as_array().unwrap().is_empty(), "{list}");
    assert_eq!(lab.stores.verify().unwrap().damaged, []);
}
