//! Calls that come at a bad time: after the clock was set back; and tenants with
//! bad names.

use contexture::store::{Retention, Tenants as _, Upkeep as _};
use serde_json::json;

use crate::support::{Lab, now, talk, turn};

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
    // Turns are in the order in which they were said, not by their times.
    let history = client.get("/v1/sessions/s/history?limit=10").ok(200).body;
    assert!(history.find("First.") < history.find("Second."));
    // What seems to be from the future is not old.
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
