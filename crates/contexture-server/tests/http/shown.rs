//! Secrets in titles and goals are masked when they are shown.

use serde_json::json;

use crate::support::Lab;

#[test]
fn titles_and_goals_are_shown_with_masked_secrets() {
    let key = format!("AKIA{}", "Q7ZX4RT2MNPW8LKD");
    let with_key = format!("deploy with {key}");
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    let session = json!({"label": "s", "task": with_key}).to_string();
    let tree = json!({"tree": {"id": "t", "mode": "dialogue", "title": with_key}}).to_string();
    let task = json!({"goal": with_key}).to_string();
    let result = json!({"result": with_key}).to_string();
    client.post("/v1/trees", &tree).ok(200);
    let answers = [
        client.post("/v1/sessions", &session).ok(201),
        client.get("/v1/sessions").ok(200),
        client.get("/v1/sessions/s").ok(200),
        client.patch("/v1/sessions/s", r#"{"alias":"b"}"#).ok(200),
        client.patch("/v1/sessions/s", "{}").ok(200),
        client.get("/v1/trees").ok(200),
        client.get("/v1/trees/t").ok(200),
        client
            .patch("/v1/trees/t", r#"{"system_context":"Be brief."}"#)
            .ok(200),
        client.post("/v1/tasks", &task).ok(201),
        client.get("/v1/tasks").ok(200),
        client.post("/v1/tasks/t1/complete", &result).ok(200),
    ];
    for answer in answers {
        let text = answer.text();
        assert!(!text.contains(&key), "{text}");
        assert!(text.contains("deploy with [secret masked: "), "{text}");
    }
    // The document is content: it has what was stored.
    let document = client.get("/v1/trees/t/document").ok(200);
    assert!(document.text().contains(&key));
}
