//! Tenants share nothing, whatever they do at once.

use std::io::Read as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::support::{Answer, Client, Lab, Wire};

/// How often each of the tenants asks for something.
const CALLS: u64 = 10_000;

/// Clients of each tenant.
const CLIENTS: u64 = 4;

/// One tenant, with its canary in all its texts.
struct Side {
    canary: &'static str,
    others: &'static str,
    calls: AtomicU64,
}

impl Side {
    fn new(canary: &'static str, others: &'static str) -> Self {
        Self {
            canary,
            others,
            calls: AtomicU64::new(0),
        }
    }

    /// Looks at an answer: nothing of the other tenant is in it.
    fn look(&self, answer: Answer) -> Answer {
        self.calls.fetch_add(1, Ordering::Relaxed);
        assert!(answer.status < 500, "{}: {}", answer.status, answer.body);
        let whole = format!("{:?} {}", answer.headers, answer.body);
        assert!(!whole.contains(self.others), "{} in {whole}", self.others);
        answer
    }

    fn text(&self, what: &str, i: u64) -> String {
        format!("{} {what} {i}", self.canary)
    }
}

/// Asks for everything in turn, by names that both tenants use.
fn hammer(side: &Side, client: &Client, from: u64) {
    let get = |target: &str| side.look(client.get(target));
    let post = |target: &str, body: &Value| side.look(client.post(target, &body.to_string()));
    let mut i = from;
    while side.calls.load(Ordering::Relaxed) < CALLS {
        i += CLIENTS;
        let (label, tree) = (format!("s{}", i % 8), format!("tree{}", i % 4));
        let said = side.text("said", i);
        post("/v1/sessions", &json!({"label": label, "task": said}));
        post(
            &format!("/v1/sessions/{label}/turns"),
            &json!({"messages": [{"role": "user", "content": said},
                {"role": "assistant", "content": side.text("answered", i)}],
                "idempotency_key": format!("k{i}")}),
        );
        post(
            "/v1/assemble",
            &json!({"session": label, "recipe": "broker", "event": side.text("asked", i),
                "max_tokens": 2000, "reserve_response": 0}),
        );
        post(
            "/v1/memory/records",
            &json!({"records": [{"kind": "event", "id": format!("e{}", i % 64),
                "session_id": label, "timestamp": "2026-01-31T08:00:00Z",
                "type": "user_message", "actor": "user",
                "content": {"text": side.text("remembered the ferry", i)}}]}),
        );
        post(
            "/v1/memory/recall",
            &json!({"query": "when does the ferry leave?", "max_tokens": 300}),
        );
        post(
            "/v1/tasks",
            &json!({"id": format!("t{}", i % 16), "goal": side.text("goal", i)}),
        );
        post(
            "/v1/trees",
            &json!({"tree": {"id": tree, "mode": "dialogue", "title": side.text("tree", i)}}),
        );
        post(
            &format!("/v1/trees/{tree}/nodes"),
            &json!({"id": format!("n{i}"), "author": "human", "content": side.text("node", i)}),
        );
        post("/v1/tokens", &json!({"texts": [said]}));
        post(
            &format!("/v1/tasks/t{}/complete", i % 16),
            &json!({"result": side.text("done", i)}),
        );
        get(&format!("/v1/sessions/{label}/history?limit=5"));
        get("/v1/sessions?limit=3");
        get(&format!("/v1/snapshots?session={label}&limit=2"));
        get(&format!("/v1/memory/records/e{}", i % 64));
        get("/v1/tasks");
        get(&format!("/v1/trees/{tree}"));
        get(&format!("/v1/trees/{tree}/nodes/n{i}"));
        get("/v1/nothing");
    }
}

/// Returns everything that a tenant can read, as one text.
fn everything(client: &Client) -> String {
    let mut all = String::new();
    let mut read = |target: &str| {
        let answer = client.get(target).ok(200);
        all.push_str(&answer.body);
        all.push('\n');
        answer
    };
    read("/v1/memory/records");
    read("/v1/memory/stats");
    read("/v1/tasks");
    read("/v1/stacks");
    let trees = read("/v1/trees").json();
    let sessions = read("/v1/sessions?limit=1000").json();
    let snapshots = read("/v1/snapshots?limit=1000").json();
    for tree in trees["trees"].as_array().unwrap() {
        let id = tree["id"]
            .as_str()
            .or_else(|| tree["tree"]["id"].as_str())
            .unwrap();
        read(&format!("/v1/trees/{id}/document"));
    }
    for session in sessions["sessions"].as_array().unwrap() {
        let label = session["label"].as_str().unwrap();
        read(&format!("/v1/sessions/{label}/history?limit=1000"));
    }
    for snapshot in snapshots["snapshots"]
        .as_array()
        .unwrap()
        .iter()
        .step_by(20)
    {
        let hash = snapshot["hash"].as_str().unwrap();
        read(&format!("/v1/snapshots/{hash}"));
    }
    all
}

/// Opens a stream of a session's events.
fn listen(lab: &crate::support::Running, key: &str, label: &str) -> Wire {
    let mut wire = lab.connect();
    wire.send(format!(
        "GET /v1/sessions/{label}/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer \
         {key}\r\n\r\n"
    ));
    assert!(wire.until("\r\n\r\n").contains("200 OK"));
    wire
}

#[test]
fn concurrent_tenants_do_not_see_each_others_data() {
    let lab = Lab::new().with(|server| server.rate_per_second = 0);
    let (harbour, island) = (lab.key("harbour"), lab.key("island"));
    let metrics = lab.metrics_key();
    let mut server = lab.serve();
    let sides = [
        (
            Side::new("canary-of-the-harbour", "canary-of-the-island"),
            harbour,
        ),
        (
            Side::new("canary-of-the-island", "canary-of-the-harbour"),
            island,
        ),
    ];
    for (side, key) in &sides {
        let body = json!({"label": "s0", "task": side.text("first", 0)}).to_string();
        server.with_key(key).post("/v1/sessions", &body).ok(201);
    }
    let listeners = sides.each_ref().map(|(_, key)| {
        let mut wire = listen(&server, key, "s0");
        thread::spawn(move || {
            let mut heard = String::new();
            wire.0.read_to_string(&mut heard).unwrap();
            heard
        })
    });
    thread::scope(|scope| {
        for from in 0..CLIENTS {
            for (side, key) in &sides {
                let client = server.with_key(key);
                scope.spawn(move || hammer(side, &client, from));
            }
        }
    });
    for (side, key) in &sides {
        assert!(side.calls.load(Ordering::Relaxed) >= CALLS);
        let all = everything(&server.with_key(key));
        assert!(!all.contains(side.others));
        // It is there, wherever it belongs.
        for what in [
            "said",
            "answered",
            "asked",
            "remembered",
            "goal",
            "done",
            "node",
            "tree",
        ] {
            assert!(
                all.contains(&format!("{} {what}", side.canary)),
                "{what} is nowhere"
            );
        }
    }
    let measured = server.with_key(&metrics).get("/metrics").ok(200).body;
    assert!(
        !measured.contains("canary") && !measured.contains("harbour"),
        "{measured}"
    );
    server.say_stop();
    drop(server);
    let heard = listeners.map(|listener| listener.join().unwrap());
    let turns = |heard: &str| -> Vec<String> {
        let lines = heard.lines().filter_map(|line| line.strip_prefix("data: "));
        let events = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        events
            .filter_map(|event| Some(event["turn_id"].as_str()?.to_owned()))
            .collect()
    };
    let [harbour, island] = heard.each_ref().map(|heard| turns(heard));
    assert!(!harbour.is_empty() && !island.is_empty());
    assert!(harbour.iter().all(|turn| !island.contains(turn)));
    assert!(!heard.concat().contains("canary"));
}
