//! Portable archives over the admin API.

use std::io::Read as _;

use serde_json::{Value, json};

use crate::support::{Lab, Running, talk};

/// Sends bytes and returns the status and the bytes of the answer.
fn send(server: &Running, key: &str, method: &str, target: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(format!("http://{}{target}", server.address))
        .header("authorization", format!("Bearer {key}"));
    let answered = match method {
        "GET" => agent.run(request.body(()).unwrap()),
        _ => agent.run(request.body(body).unwrap()),
    };
    let mut answered = answered.unwrap();
    let mut bytes = Vec::new();
    let mut reader = answered.body_mut().as_reader();
    reader.read_to_end(&mut bytes).unwrap();
    (answered.status().as_u16(), bytes)
}

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(bytes)))
}

#[test]
fn a_tenant_moves_to_another_server() {
    let (one, two) = (Lab::new(), Lab::new());
    let (tenant, admin, other) = (one.key("harbour"), one.admin_key(), two.admin_key());
    let (server, target) = (one.serve(), two.serve());
    talk(
        &server.with_key(&tenant),
        "main",
        "When does the ferry leave?",
    );
    let path = "/v1/admin/tenants/harbour/archive";
    let (status, archive) = send(&server, &admin, "GET", path, b"");
    assert_eq!(status, 200);
    let (status, imported) = send(&target, &other, "POST", path, &archive);
    let imported = json_of(&imported);
    assert_eq!(status, 200, "{imported}");
    assert_eq!(imported["imported"], json!(["harbour"]));
    // Again, nothing changes; and under another name it is another tenant.
    let (status, again) = send(&target, &other, "POST", path, &archive);
    assert_eq!(
        (status, &json_of(&again)["unchanged"]),
        (200, &json!(["harbour"]))
    );
    let port = "/v1/admin/tenants/port/archive";
    assert_eq!(send(&target, &other, "POST", port, &archive).0, 200);
    // It is used at once.
    let key = two.key("port");
    let session = target
        .with_key(&key)
        .get("/v1/sessions/main")
        .ok(200)
        .json();
    assert_eq!(session["turns"], 1);
    talk(&target.with_key(&key), "later", "And back?");
    let (status, refused) = send(&target, &other, "POST", port, &archive);
    assert_eq!(status, 409, "{}", json_of(&refused));
    assert_eq!(json_of(&refused)["error"]["code"], "exists");
    // The audit log names the caller.
    let audit = target
        .with_key(&other)
        .get("/v1/admin/audit")
        .ok(200)
        .json();
    let acts = audit["entries"].as_array().unwrap();
    let act = acts
        .iter()
        .find(|act| act["act"] == "archive_imported")
        .unwrap();
    assert!(act["actor"].is_string(), "{act}");
}

#[test]
fn everything_moves_with_its_keys() {
    let (one, two) = (Lab::new(), Lab::new());
    let (tenant, admin, other) = (one.key("harbour"), one.admin_key(), two.admin_key());
    let (server, target) = (one.serve(), two.serve());
    talk(
        &server.with_key(&tenant),
        "main",
        "When does the ferry leave?",
    );
    let (status, archive) = send(&server, &admin, "GET", "/v1/admin/archive", b"");
    assert_eq!(status, 200);
    assert_eq!(target.with_key(&tenant).get("/v1/sessions").status, 401);
    let (status, imported) = send(&target, &other, "POST", "/v1/admin/archive", &archive);
    assert_eq!(status, 200, "{}", json_of(&imported));
    let session = target.with_key(&tenant).get("/v1/sessions/main").ok(200);
    assert_eq!(session.json()["turns"], 1);
}

#[test]
fn a_wrong_archive_changes_nothing() {
    let lab = Lab::new().with(|config| config.max_archive_bytes = 2000);
    let admin = lab.admin_key();
    let server = lab.serve();
    let path = "/v1/admin/archive";
    let post = |body: &[u8]| {
        let (status, answer) = send(&server, &admin, "POST", path, body);
        let error = json_of(&answer)["error"]["message"].clone();
        (status, error.as_str().unwrap_or_default().to_owned())
    };
    let foreign = (422, "archive: is not an archive of Contexture".to_owned());
    assert_eq!(post(b"{}"), foreign);
    assert_eq!(post(b""), foreign);
    let (status, message) = post(&[b'x'; 3000]);
    assert_eq!(status, 413, "{message}");
    let (status, archive) = send(&server, &admin, "GET", path, b"");
    assert_eq!(status, 200);
    let (status, message) = post(&archive[..archive.len() - 7]);
    assert_eq!(
        (status, message.contains("truncated")),
        (422, true),
        "{message}"
    );
    let none = send(
        &server,
        &admin,
        "GET",
        "/v1/admin/tenants/nobody/archive",
        b"",
    );
    assert_eq!(none.0, 404, "{}", json_of(&none.1));
    let wrong = send(
        &server,
        &admin,
        "GET",
        "/v1/admin/tenants/..%2Fa/archive",
        b"",
    );
    assert_eq!(wrong.0, 422, "{}", json_of(&wrong.1));
}
