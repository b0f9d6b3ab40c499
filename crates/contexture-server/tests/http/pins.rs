//! Pins are made, replaced, listed and removed.

use serde_json::json;

use crate::support::Lab;

#[test]
fn pins_are_in_every_request_until_they_are_removed() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    client.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    let pins = "/v1/sessions/s/pins";
    let pin = |body: serde_json::Value| client.post(pins, &body.to_string());
    let first = pin(json!({"name": "goal", "text": "Ship it."})).ok(201);
    assert_eq!(first.json()["revision"], 1);
    let second = pin(json!({"name": "goal", "text": "Ship version 2."}));
    assert_eq!(second.json()["revision"], 2);
    let listed = client.get(pins).json();
    assert_eq!(listed["pins"].as_array().unwrap().len(), 1);
    assert_eq!(listed["pins"][0]["text"], "Ship version 2.");
    let revisions = client.get("/v1/sessions/s/pins?name=goal").json();
    assert_eq!(revisions["pins"].as_array().unwrap().len(), 2);
    let body = json!({"recipe": "broker", "session": "s", "event": "Now?", "format": "text"});
    let sent = || {
        client
            .post("/v1/assemble", &body.to_string())
            .json()
            .to_string()
    };
    assert!(sent().contains("Ship version 2."));
    let removed = client.delete("/v1/sessions/s/pins/goal").json();
    assert_eq!(removed["text"], serde_json::Value::Null);
    assert!(!sent().contains("Ship version 2."));
}

#[test]
fn wrong_pins_are_rejected() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    client.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    for (body, expected) in [
        (json!({}), "either `text` or `turn`"),
        (json!({"text": ""}), "text"),
        (json!({"turn": "abcd"}), "no turn `abcd`"),
        (json!({"text": "a", "nmae": "b"}), "nmae"),
    ] {
        let answer = client.post("/v1/sessions/s/pins", &body.to_string());
        assert!(answer.text().contains(expected), "{}", answer.text());
    }
    let answer = client.delete("/v1/sessions/s/pins/nothing");
    assert!(
        answer.text().contains("there is no pin `nothing`"),
        "{}",
        answer.text()
    );
    let answer = client.post("/v1/sessions/nobody/pins", r#"{"text":"a"}"#);
    assert!(
        answer.text().contains("there is no session `nobody`"),
        "{}",
        answer.text()
    );
}
