//! Settings that are read again while the server runs.

use std::fs;

use serde_json::json;

use crate::support::{Client, Lab, Running, Wire, talk, turn, until};

fn write(lab: &Lab, path: &str, text: &str) {
    let path = lab.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn reload(admin: &Client) -> serde_json::Value {
    admin
        .send("POST", "/v1/admin/reload", &[], None)
        .ok(200)
        .json()
}

fn default_model(client: &Client) -> String {
    let models = client.get("/v1/models").ok(200).json();
    models["default"].as_str().unwrap().to_owned()
}

#[test]
fn changed_settings_apply_without_a_restart() {
    let lab = Lab::new();
    let (key, admin) = (lab.key("harbour"), lab.admin_key());
    let server = lab.serve();
    let (client, admin) = (server.with_key(&key), server.with_key(&admin));
    talk(&client, "s", "First.");
    let unchanged = json!({"changed": [], "needs_restart": [], "unchanged_tenants": []});
    assert_eq!(reload(&admin), unchanged);
    let before = default_model(&client);
    write(
        &lab,
        "contexture.toml",
        "model = \"mine\"\n[models.mine]\nwindow = 5000\n[server.quota]\nmax_sessions = 1\n\
         [retention]\nsnapshot_days = 3\n",
    );
    assert_eq!(default_model(&client), before, "nobody asked to read it");
    assert_eq!(
        reload(&admin),
        json!({
            "changed": ["model", "models.mine", "retention.snapshot_days",
                "server.quota.max_sessions"],
            "needs_restart": [],
            "unchanged_tenants": [],
        })
    );
    assert_eq!(default_model(&client), "mine");
    let refused = client.post("/v1/sessions", r#"{"label":"second"}"#);
    assert_eq!(refused.status, 507, "{}", refused.body);
    // A setting that was removed from the file has its default again.
    fs::remove_file(lab.path("contexture.toml")).unwrap();
    assert_eq!(reload(&admin)["changed"].as_array().unwrap().len(), 4);
    assert_eq!(default_model(&client), before);
    // The usage is measured again after a second.
    until(|| {
        let created = client.post("/v1/sessions", r#"{"label":"second"}"#);
        (created.status == 201).then_some(())
    });
}

#[test]
fn a_changed_rate_applies_to_keys_that_are_in_use() {
    let lab = Lab::new();
    let (key, admin) = (lab.key("harbour"), lab.admin_key());
    let server = lab.serve();
    let (client, admin) = (server.with_key(&key), server.with_key(&admin));
    for _ in 0..20 {
        client.get("/v1/sessions").ok(200);
    }
    write(
        &lab,
        "contexture.toml",
        "[server]\nrate_per_second = 1\nrate_burst = 10\n",
    );
    assert_eq!(
        reload(&admin)["changed"],
        json!(["server.rate_burst", "server.rate_per_second"])
    );
    let limited = until(|| Some(client.get("/v1/sessions")).filter(|it| it.status != 200));
    assert!(
        limited.text().starts_with("429 rate_limited"),
        "{}",
        limited.body
    );
    fs::remove_file(lab.path("contexture.toml")).unwrap();
    until(|| (admin.send("POST", "/v1/admin/reload", &[], None).status == 200).then_some(()));
    for _ in 0..20 {
        client.get("/v1/sessions").ok(200);
    }
}

#[test]
fn settings_that_need_a_restart_are_named() {
    let lab = Lab::new();
    let admin = lab.admin_key();
    let server = lab.serve();
    let admin = server.with_key(&admin);
    write(
        &lab,
        "contexture.toml",
        "[server]\nmax_connections = 7\nmax_body_bytes = 4096\n[store]\npool_size = 3\n",
    );
    assert_eq!(
        reload(&admin),
        json!({
            "changed": ["server.max_body_bytes"],
            "needs_restart": ["server.max_connections", "store.pool_size"],
            "unchanged_tenants": [],
        })
    );
    // They are named until the server is started again.
    assert_eq!(
        reload(&admin),
        json!({
            "changed": [],
            "needs_restart": ["server.max_connections", "store.pool_size"],
            "unchanged_tenants": [],
        })
    );
    let long = json!({"label": "s", "task": "x".repeat(5000)}).to_string();
    let harbour = lab.key("harbour");
    let refused = server.with_key(&harbour).post("/v1/sessions", &long);
    assert_eq!(refused.status, 413, "{}", refused.body);
}

#[test]
fn a_file_with_an_error_changes_nothing() {
    let lab = Lab::new();
    let (key, admin) = (lab.key("harbour"), lab.admin_key());
    let server = lab.serve();
    let (client, admin) = (server.with_key(&key), server.with_key(&admin));
    let before = default_model(&client);
    for (text, message) in [
        ("model = \"mine\"\n[server\n", "contexture.toml:2:"),
        (
            "model = \"mine\"\n[server]\nrate = 3\n",
            "contexture.toml:3:1: unknown field `rate`",
        ),
        (
            "model = \"mine\"\n[server]\n\nmax_concurrent = 0\n",
            "contexture.toml:4: server.max_concurrent: must be 1 or more",
        ),
        (
            "model = \"mine\"\n[models.mine]\nwindow = 0\n",
            "contexture.toml:3: models.mine.window: must be at least 1",
        ),
        (
            "model = \"mine\"\n[server.tenants.harbour]\nroot = \".\"\n",
            "server.tenants.harbour.root: is or contains the server's root",
        ),
    ] {
        write(&lab, "contexture.toml", text);
        let refused = admin.send("POST", "/v1/admin/reload", &[], None);
        assert_eq!(refused.status, 422, "{}", refused.body);
        assert!(refused.text().contains(message), "{}", refused.text());
        assert_eq!(default_model(&client), before);
    }
}

#[test]
fn a_tenant_with_an_error_in_its_own_file_keeps_its_settings() {
    let lab = Lab::new().file(
        ".contexture/tenants/harbour/contexture.toml",
        "model = \"gpt-4o\"\n",
    );
    let (harbour, island, admin) = (lab.key("harbour"), lab.key("island"), lab.admin_key());
    let server = lab.serve();
    let (harbour, island) = (server.with_key(&harbour), server.with_key(&island));
    let admin = server.with_key(&admin);
    assert_eq!(default_model(&harbour), "gpt-4o");
    default_model(&island);
    let own = ".contexture/tenants/harbour/contexture.toml";
    write(&lab, own, "modle = \"gpt-4\"\n");
    write(&lab, "contexture.toml", "model = \"gpt-4.1\"\n");
    let reloaded = reload(&admin);
    assert_eq!(reloaded["changed"], json!(["model"]));
    let unchanged = &reloaded["unchanged_tenants"];
    assert_eq!(unchanged[0]["tenant"], "harbour");
    let error = unchanged[0]["error"].as_str().unwrap();
    assert!(
        error.contains("contexture.toml:1:1: unknown field `modle`"),
        "{error}"
    );
    assert_eq!(default_model(&harbour), "gpt-4o");
    assert_eq!(default_model(&island), "gpt-4.1");
    write(&lab, own, "model = \"gpt-4\"\n");
    assert_eq!(reload(&admin)["unchanged_tenants"], json!([]));
    assert_eq!(default_model(&harbour), "gpt-4");
}

fn listen(server: &Running, key: &str) -> Wire {
    let mut wire = server.connect();
    wire.send(format!(
        "GET /v1/sessions/s/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n"
    ));
    wire.until("\r\n\r\n");
    wire
}

/// A listener of before and one of after a reload both get what happens, also when
/// the first one leaves.
#[test]
fn open_streams_stay_open() {
    let lab = Lab::new();
    let (key, admin) = (lab.key("harbour"), lab.admin_key());
    let server = lab.serve();
    let (client, admin) = (server.with_key(&key), server.with_key(&admin));
    talk(&client, "s", "First.");
    let mut before = listen(&server, &key);
    reload(&admin);
    let mut after = listen(&server, &key);
    let record = |text: &str| client.post("/v1/sessions/s/turns", &turn(text)).ok(201);
    record("Second.");
    before.until("\"number\":2");
    after.until("\"number\":2");
    drop(before);
    record("Third.");
    after.until("\"number\":3");
    reload(&admin);
    record("Fourth.");
    after.until("\"number\":4");
}

#[test]
fn only_an_admin_key_can_reload() {
    let lab = Lab::new();
    let key = lab.key("harbour");
    let server = lab.serve();
    let refused = server
        .with_key(&key)
        .send("POST", "/v1/admin/reload", &[], None);
    assert_eq!(refused.status, 403, "{}", refused.body);
}
