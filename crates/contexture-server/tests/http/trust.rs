//! A tenant's settings cannot act outside the tenant's root.

use std::net::TcpListener;

use contexture::config::Config;
use serde_json::json;

use crate::support::Lab;

const COMMAND: &str = "[environment]\ncommand = [\"sh\", \"-c\", \"touch ran; echo '{}'\"]\n";

/// The settings of a tenant that would send content to `url`.
fn settings(url: &str) -> String {
    format!(
        "recipe = \"broker\"\n{COMMAND}[memory.embedder]\nbase_url = \"{url}\"\nmodel = \"e\"\n\
         dimensions = 4\napi_key_env = \"PATH\"\n"
    )
}

#[test]
fn a_tenants_file_activates_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let lab = Lab::new().file(
        ".contexture/tenants/harbour/contexture.toml",
        &settings(&url),
    );
    let key = lab.key("harbour");
    let server = lab.serve();
    let client = server.with_key(&key);
    let record = json!({"records": [{"kind": "event", "id": "a", "content": "The boat is out."}]});
    let recorded = client.post("/v1/memory/records", &record.to_string());
    assert_eq!(recorded.status, 200, "{}", recorded.body);
    let request = json!({"event": "Hello", "max_tokens": 4000});
    let answer = client.post("/v1/assemble", &request.to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
    let warnings = answer.json()["report"]["warnings"].clone();
    assert_eq!(
        warnings[0],
        json!({
            "code": "settings_inactive",
            "message": "the contexture.toml of a tenant cannot activate every setting: \
                        `environment.command`, `memory.embedder` are inactive",
            "advice": [{"do": "text", "text": "the operator of the server can set them"}],
        })
    );
    // The rest of the tenant's file works.
    assert_eq!(answer.json()["report"]["recipe"], "broker");
    assert!(!lab.path(".contexture/tenants/harbour/ran").exists());
    let error = listener.accept().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

/// A committed link in the place of a tenant's root.
#[cfg(unix)]
#[test]
fn a_tenants_root_is_not_opened_through_a_link() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("a.md"), "private").unwrap();
    let lab = Lab::new().file(".contexture/tenants/.keep", "");
    let link = lab.path(".contexture/tenants/harbour");
    std::os::unix::fs::symlink(outside.path(), link).unwrap();
    let key = lab.key("harbour");
    let server = lab.serve();
    let request = json!({"event": "Hello", "max_tokens": 4000});
    let answer = server
        .with_key(&key)
        .post("/v1/assemble", &request.to_string());
    assert_ne!(answer.status, 200, "{}", answer.body);
}

#[test]
fn a_tenant_uses_a_setting_that_the_operator_has_too() {
    let mut lab = Lab::new().file(
        ".contexture/tenants/harbour/contexture.toml",
        &format!("recipe = \"broker\"\n{COMMAND}"),
    );
    lab.config.environment = Config::parse(COMMAND).unwrap().environment;
    let key = lab.key("harbour");
    let server = lab.serve();
    let client = server.with_key(&key);
    let request = json!({"event": "Hello", "max_tokens": 4000});
    let answer = client.post("/v1/assemble", &request.to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(lab.path(".contexture/tenants/harbour/ran").exists());
}

#[test]
fn the_directories_of_tenants_are_ignored_by_git_but_not_by_patterns() {
    let lab = Lab::new();
    let key = lab.key("harbour");
    let server = lab.serve();
    let client = server.with_key(&key);
    client.get("/v1/sessions");
    let read = |path: &str| std::fs::read_to_string(lab.path(path)).ok();
    assert_eq!(read(".contexture/.gitignore").as_deref(), Some("*\n"));
    assert!(lab.path(".contexture/tenants/harbour").is_dir());
    assert_eq!(read(".contexture/tenants/harbour/.gitignore"), None);
}
