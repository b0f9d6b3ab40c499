//! The admin API: authorisation and effects.

use serde_json::{Value, json};

use crate::support::{Lab, talk, turn};

/// Every operation of the admin API: its method, target and body.
const CALLS: [(&str, &str, Option<&str>); 15] = [
    ("GET", "/v1/admin/tenants", None),
    ("GET", "/v1/admin/tenants/harbour", None),
    ("DELETE", "/v1/admin/tenants/harbour", None),
    ("GET", "/v1/admin/tenants/harbour/quota", None),
    ("PUT", "/v1/admin/tenants/harbour/quota", Some("{}")),
    ("DELETE", "/v1/admin/tenants/harbour/quota", None),
    ("GET", "/v1/admin/keys", None),
    ("POST", "/v1/admin/keys", Some("{}")),
    ("DELETE", "/v1/admin/keys/7hK2mQx9PzR4", None),
    ("GET", "/v1/admin/audit", None),
    ("POST", "/v1/admin/reload", None),
    ("GET", "/v1/admin/archive", None),
    ("POST", "/v1/admin/archive", Some("{}")),
    ("GET", "/v1/admin/tenants/harbour/archive", None),
    ("POST", "/v1/admin/tenants/harbour/archive", Some("{}")),
];

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

#[test]
fn only_an_admin_key_opens_the_admin_api() {
    let lab = Lab::new();
    let open = lab.serve();
    for (method, target, body) in CALLS {
        let refused = open.anybody().send(method, target, &JSON, body);
        assert_eq!(
            refused.text(),
            "401 unauthorized: the admin API requires an admin key [create one with `contexture \
             key new --admin` on the server; from then on every call needs a key]",
            "{method} {target}"
        );
    }
    drop(open);
    let (tenant, metrics, admin) = (lab.key("harbour"), lab.metrics_key(), lab.admin_key());
    let server = lab.serve();
    for (method, target, body) in CALLS {
        for key in [&tenant, &metrics] {
            let refused = server.with_key(key).send(method, target, &JSON, body);
            assert_eq!(
                refused.text(),
                "403 forbidden: the API key has no access to the admin API [create an admin key \
                 with `contexture key new --admin` on the server]",
                "{method} {target}"
            );
        }
        let refused = server.anybody().send(method, target, &JSON, body);
        assert_eq!(refused.status, 401, "{method} {target}");
    }
    // And an admin key opens nothing else.
    let admin = server.with_key(&admin);
    for target in ["/v1/sessions", "/v1/usage"] {
        assert_eq!(admin.get(target).status, 403, "{target}");
    }
    assert_eq!(admin.get("/metrics").status, 403);
    // The inspector has a key of its own, which is none for administration.
    let only = "ctx_0123456789ab_0123456789012345678901234567890123456789012";
    let inspector = lab.inspect(only);
    for (method, target, body) in CALLS {
        let refused = inspector.with_key(only).send(method, target, &JSON, body);
        assert_eq!(refused.status, 403, "{method} {target}");
    }
}

#[test]
fn every_operation_of_the_admin_api_is_tested() {
    let document = contexture_server::openapi();
    let paths = document["paths"].as_object().unwrap();
    let declared: usize = (paths.iter())
        .filter(|(path, _)| path.starts_with("/v1/admin/"))
        .map(|(_, methods)| methods.as_object().unwrap().len())
        .sum();
    assert_eq!(declared, CALLS.len());
}

#[test]
fn keys_are_created_listed_and_revoked() {
    let lab = Lab::new();
    let admin = lab.admin_key();
    let server = lab.serve();
    let admin = server.with_key(&admin);
    let body = json!({"tenant": "harbour", "name": "the agent"}).to_string();
    let created = admin.post("/v1/admin/keys", &body).ok(201).json();
    let harbour = server.with_key(created["key"].as_str().unwrap());
    talk(&harbour, "s", "Hello.");
    let listed = admin.get("/v1/admin/keys").ok(200).json();
    assert_eq!(listed["keys"][1], created["record"]);
    assert_eq!(listed["keys"][0]["scope"], "admin");
    assert_eq!(listed["keys"][0]["tenant"], Value::Null);
    let id = created["record"]["id"].as_str().unwrap();
    let revoked = admin.delete(&format!("/v1/admin/keys/{id}")).ok(200).json();
    assert!(revoked["revoked_at"].is_string());
    // At once, although the server had the key in its cache.
    assert_eq!(harbour.get("/v1/sessions").status, 401);
    assert_eq!(
        admin.delete("/v1/admin/keys/none").text(),
        "404 not_found: there is no key `none`"
    );
    for (body, message) in [
        (
            r#"{"tenant":".."}"#,
            "422 invalid: tenant: `..` is not a valid tenant name; use 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit",
        ),
        (
            r#"{"tenant":""}"#,
            "422 invalid: tenant: `` is not a valid tenant name; use 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit",
        ),
        (
            r#"{"tenant":"a","scope":"admin"}"#,
            "422 invalid: tenant: an admin key grants no access to a tenant, so it cannot belong to `a` [create two keys]",
        ),
    ] {
        assert_eq!(admin.post("/v1/admin/keys", body).text(), message);
    }
    assert_eq!(
        admin.post("/v1/admin/keys", r#"{"scope":"root"}"#).status,
        400
    );
}

#[test]
fn a_stored_quota_replaces_the_one_of_the_settings() {
    let lab = Lab::new().with(|server| server.quota.max_sessions = 100);
    let (key, admin) = (lab.key("harbour"), lab.admin_key());
    let server = lab.serve();
    let (harbour, admin) = (server.with_key(&key), server.with_key(&admin));
    talk(&harbour, "one", "Hello.");
    let target = "/v1/admin/tenants/harbour/quota";
    let quota = admin.get(target).ok(200).json();
    assert_eq!(quota["quota"]["max_sessions"], 100);
    assert_eq!(quota["stored"], false);
    let set = admin.send("PUT", target, &JSON, Some(r#"{"max_sessions":1}"#));
    assert_eq!(set.ok(200).json()["stored"], true);
    // The usage that the server measured for the first call is reused for a second.
    let refused = crate::support::until(|| {
        let answer = harbour.post("/v1/sessions", r#"{"label":"two"}"#);
        let made = answer.status == 201;
        if made {
            harbour.delete("/v1/sessions/two").ok(200);
        }
        (!made).then_some(answer)
    });
    assert_eq!(
        refused.text(),
        "507 quota_exceeded: tenant `harbour` uses 1 of its quota of 1 sessions [delete data, or \
         ask the operator for a larger quota]"
    );
    admin.delete(target).ok(200);
    harbour.post("/v1/sessions", r#"{"label":"two"}"#).ok(201);
    let refused = admin.send("PUT", target, &JSON, Some(r#"{"max_session":1}"#));
    assert_eq!(refused.status, 400);
    // A number that cannot be stored is refused, not replaced.
    let largest = format!(r#"{{"max_bytes":{}}}"#, u64::MAX);
    let refused = admin.send("PUT", target, &JSON, Some(&largest));
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert!(refused.text().contains("max_bytes"), "{}", refused.text());
    // A quota can be set before the tenant has data.
    let target = "/v1/admin/tenants/nobody/quota";
    admin
        .send("PUT", target, &JSON, Some(r#"{"max_bytes":1}"#))
        .ok(200);
}

#[test]
fn a_deleted_tenant_is_gone_at_once() {
    let lab = Lab::new();
    let (key, admin) = (lab.key("harbour"), lab.admin_key());
    let server = lab.serve();
    let (harbour, admin) = (server.with_key(&key), server.with_key(&admin));
    talk(&harbour, "s", "Hello.");
    let listed = admin.get("/v1/admin/tenants?limit=1").ok(200).json();
    assert_eq!(listed["tenants"][0]["tenant"], "default");
    assert_eq!(listed["next"], "default");
    let rest = admin.get("/v1/admin/tenants?after=default").ok(200).json();
    assert_eq!(rest["tenants"][0]["tenant"], "harbour");
    assert_eq!(rest["tenants"][0]["usage"]["turns"], 1);
    assert_eq!(rest["next"], Value::Null);
    let mut events = server.connect();
    events.send(format!(
        "GET /v1/sessions/s/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\r\n"
    ));
    assert!(events.until("\r\n\r\n").contains("200 OK"));
    admin.delete("/v1/admin/tenants/harbour").ok(200);
    // The stream ends, and the key is rejected.
    events.rest();
    assert_eq!(harbour.get("/v1/sessions").status, 401);
    assert_eq!(admin.get("/v1/admin/tenants/harbour").status, 404);
    assert_eq!(admin.delete("/v1/admin/tenants/harbour").status, 404);
    assert_eq!(admin.delete("/v1/admin/tenants/default").status, 422);
    // A new tenant of that name begins with nothing.
    let again = server.with_key(&lab.key("harbour"));
    assert_eq!(again.get("/v1/usage").ok(200).json()["sessions"], 0);
    talk(&again, "s", "Hello again.");
}

#[test]
fn a_deleted_tenant_leaves_none_of_its_files() {
    let lab = Lab::new();
    let (key, admin) = (lab.key("harbour"), lab.admin_key());
    let server = lab.serve();
    let (harbour, admin) = (server.with_key(&key), server.with_key(&admin));
    talk(&harbour, "s", "Hello.");
    let target = "/v1/files/content?path=docs/AGENTS.md";
    let body = r#"{"content":"Only canaries sing."}"#;
    harbour.send("PUT", target, &JSON, Some(body)).ok(200);
    let at = |path: &str| lab.path(&format!(".contexture/tenants/harbour/{path}"));
    let event = |session: &str| {
        let body = format!(r#"{{"recipe":"broker","session":"{session}","event":"Hello?"}}"#);
        harbour.post("/v1/assemble", &body).ok(200);
    };
    harbour
        .patch("/v1/sessions/s", r#"{"alias":"also"}"#)
        .ok(200);
    event("s");
    event("also");
    let logs = ["s", "also"].map(|name| format!(".contexture/sessions/{name}/events.jsonl"));
    for log in &logs {
        assert!(at(log).exists(), "{log}");
    }
    // The log of a session is deleted with it.
    harbour.delete("/v1/sessions/s").ok(200);
    for log in &logs {
        assert!(!at(log).exists(), "{log}");
    }
    talk(&harbour, "t", "Hello.");
    event("t");
    std::fs::write(at("own.md"), "The operator's.").unwrap();
    assert!(at("docs/AGENTS.md").exists());
    admin.delete("/v1/admin/tenants/harbour").ok(200);
    assert!(!at("docs").exists() && !at(".contexture").exists());
    assert!(!lab.path(".contexture/files/harbour.json").exists());
    assert!(at("own.md").exists());
}

#[test]
fn acts_and_deletions_are_in_the_audit_log_with_their_caller() {
    let lab = Lab::new();
    let (key, admin) = (lab.key("harbour"), lab.admin_key());
    let id = |key: &str| contexture::key::parse(key).unwrap().0.to_owned();
    let server = lab.serve();
    let harbour = server.with_key(&key);
    talk(&harbour, "s", "Hello.");
    harbour.delete("/v1/sessions/s").ok(200);
    harbour.delete("/v1/sessions/s").ok(404);
    let record = r#"{"records":[{"kind":"event","id":"m1","content":"The pier is closed."}]}"#;
    harbour.post("/v1/memory/records", record).ok(200);
    harbour.delete("/v1/memory/records/m1").ok(200);
    talk(&harbour, "t", "Hello.");
    let turns = harbour.post("/v1/sessions/t/turns", &turn("More."));
    turns.ok(201);
    let keys = admin;
    let admin = server.with_key(&keys);
    let quota = "/v1/admin/tenants/harbour/quota";
    admin.send("PUT", quota, &JSON, Some("{}")).ok(200);
    admin.delete("/v1/admin/tenants/harbour").ok(200);
    let log = admin.get("/v1/admin/audit").ok(200).json();
    let lines: Vec<String> = (log["entries"].as_array().unwrap().iter().rev())
        .map(|entry| {
            let part = |name: &str| entry[name].as_str().unwrap_or("-").to_owned();
            let line = format!(
                "{} {} {} by {}",
                part("act"),
                part("tenant"),
                part("subject"),
                part("actor")
            );
            line.replace(&id(&key), "HARBOUR")
                .replace(&id(&keys), "ADMIN")
        })
        .collect();
    assert_eq!(
        lines,
        [
            "key_created harbour HARBOUR by -",
            "key_created default ADMIN by -",
            "session_deleted harbour s by HARBOUR",
            "memory_forgotten harbour 1 records by HARBOUR",
            "quota_set harbour harbour by ADMIN",
            "tenant_deleted harbour harbour by ADMIN",
        ]
    );
    assert_eq!(admin.get("/v1/admin/audit?limit=0").status, 400);
}
