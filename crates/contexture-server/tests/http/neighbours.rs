//! A caller or tenant must not harm others: one test for each known attack.

use std::thread;

use contexture::config::TenantConfig;
use contexture::store::{TenantQuota, Tenants as _};
use contexture_server::Server;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{Client, Lab, talk, turn, until};

/// Locks the file of a tenant, as a write that takes long would. Dropping it
/// lets others write.
fn lock(lab: &Lab, tenant: &str) -> Connection {
    let main = lab.path(".contexture/contexture.db");
    let path = contexture_sqlite::tenants_directory(main).join(format!("t-{tenant}.db"));
    let db = Connection::open(path).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    db
}

#[test]
fn a_tenant_with_slow_work_leaves_places_for_others() {
    let lab = Lab::new().with(|server| {
        server.max_concurrent = 4;
        server.request_timeout_ms = 30_000;
    });
    let (slow, other) = (lab.key("slow"), lab.key("other"));
    let server = lab.serve();
    let (slow, other) = (server.with_key(&slow), server.with_key(&other));
    talk(&slow, "s", "before");
    talk(&other, "s", "before");
    let locked = lock(&lab, "slow");
    thread::scope(|scope| {
        let calls: Vec<_> = (0..16)
            .map(|i| {
                let slow = slow.clone();
                let said = turn(&format!("turn {i}"));
                scope.spawn(move || slow.post("/v1/sessions/s/turns", &said).status)
            })
            .collect();
        // All its places are in use, and the rest waits.
        until(|| {
            let metrics = server.with_key(&lab.metrics_key()).get("/metrics").body;
            let line = metrics
                .lines()
                .find(|line| line.starts_with("contexture_requests_waiting "));
            let waiting: u64 = line?.rsplit(' ').next()?.parse().ok()?;
            (waiting >= 10).then_some(())
        });
        // Others read and write as if nothing was.
        talk(&other, "t", "meanwhile");
        other.get("/v1/sessions/s/history").ok(200);
        server.get("/readyz").ok(200);
        server.get("/healthz").ok(200);
        assert!(calls.iter().all(|call| !call.is_finished()));
        drop(locked);
        for call in calls {
            // A lock that is held for long is reported.
            let status = call.join().unwrap();
            assert!([201, 503].contains(&status), "{status}");
        }
    });
}

#[test]
fn streams_of_tenants_share_the_cores() {
    const STREAMS: usize = 3;
    const RECORDS: usize = 1_500;
    let lab = Lab::new();
    let keys = [lab.key("one"), lab.key("other")];
    let server = lab.serve();
    let clients = keys.map(|key| server.with_key(&key));
    // Neither is alone any more, so that each leaves a core to the other.
    for client in &clients {
        client.get("/v1/usage").ok(200);
    }
    thread::scope(|scope| {
        for (i, client) in clients.iter().cycle().take(2 * STREAMS).enumerate() {
            scope.spawn(move || {
                let lines: String = (0..RECORDS)
                    .map(|j| {
                        let id = format!("e{i}-{j}");
                        let record = json!({"kind": "event", "id": id, "content": id});
                        format!("{record}\n")
                    })
                    .collect();
                let ndjson = [("content-type", "application/x-ndjson")];
                let sent = client.send("POST", "/v1/memory/records", &ndjson, Some(&lines));
                assert_eq!(sent.ok(200).json()["added"], RECORDS);
                client.get("/v1/sessions").ok(200);
            });
        }
    });
    for client in &clients {
        let exported = client.get("/v1/memory/records").ok(200).body;
        assert_eq!(exported.lines().count(), STREAMS * RECORDS);
    }
}

#[test]
fn a_write_that_was_reported_as_timed_out_does_not_happen() {
    let lab = Lab::new().with(|server| server.request_timeout_ms = 1_000);
    let key = lab.key("slow");
    let server = lab.serve();
    let client = server.with_key(&key);
    client.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    let locked = lock(&lab, "slow");
    let said = turn("charge the card once");
    let answer = client.post("/v1/sessions/s/turns", &said);
    assert_eq!(
        answer.text(),
        "503 timeout: the call did not finish within 1000 ms; nothing was written [retry later, \
         or raise `request_timeout_ms` in the server's settings]"
    );
    drop(locked);
    // The retry that the answer asks for.
    client.post("/v1/sessions/s/turns", &said).ok(201);
    until(|| {
        let metrics = server.with_key(&lab.metrics_key()).get("/metrics").body;
        metrics
            .contains("contexture_requests_in_progress 0")
            .then_some(())
    });
    let history = client.get("/v1/sessions/s/history").ok(200).json();
    assert_eq!(history["total"], 1, "{history}");
}

#[test]
fn a_retry_with_the_same_request_id_is_recorded_once() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    client.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    let send = |id: &str, said: &str| {
        let headers = [("content-type", "application/json"), ("x-request-id", id)];
        let answer = client.send("POST", "/v1/sessions/s/turns", &headers, Some(&turn(said)));
        answer.ok(201).json()["turn_id"].clone()
    };
    let first = send("r1", "charge the card");
    assert_eq!(send("r1", "charge the card"), first);
    // Another body is another call, whatever its id; and another id, too.
    assert_ne!(send("r1", "charge it again"), first);
    assert_ne!(send("r2", "charge the card"), first);
    assert_eq!(client.get("/v1/sessions/s").json()["turns"], 3);
}

/// Sends a body that the server does not read, and another request after it.
fn calls_again(client: &Client, address: std::net::SocketAddr, head: &str, bytes: usize) -> u16 {
    use std::io::Write as _;
    let _ = client;
    let mut wire = crate::support::Wire(std::net::TcpStream::connect(address).unwrap());
    let body = "x".repeat(bytes);
    let sent =
        format!("{head}content-type: application/json\r\ncontent-length: {bytes}\r\n\r\n{body}");
    wire.send(sent);
    let first = wire.answer();
    if first.header("connection") == Some("close") {
        assert!(bytes > 64 << 10, "a small body is read");
        return first.status;
    }
    let second = wire
        .0
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n");
    second.unwrap();
    wire.answer().ok(200);
    first.status
}

#[test]
fn a_connection_can_be_used_after_an_error() {
    let lab = Lab::new().with(|server| {
        server.rate_per_second = 1;
        server.rate_burst = 1;
        server.wrong_keys_per_minute = 0;
    });
    let key = lab.key("a");
    let server = lab.serve();
    let client = server.with_key(&key);
    client.get("/v1/sessions").ok(200);
    for _ in 0..5 {
        for bytes in [50, 5_000, 200_000] {
            for (head, status) in [
                (
                    "POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\n".to_owned(),
                    401,
                ),
                (
                    "POST /nowhere HTTP/1.1\r\nhost: localhost\r\n".to_owned(),
                    404,
                ),
                (
                    format!(
                        "POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n"
                    ),
                    429,
                ),
            ] {
                let got = calls_again(&client, server.address, &head, bytes);
                // The rate allows one call a second.
                assert!(got == status || (status == 429 && got == 400), "{got}");
            }
        }
    }
}

#[test]
fn an_invalid_pattern_is_refused_and_breaks_nothing() {
    let manifest = "budget:\n  max_tokens: 1000\nfiles:\n  - path: a.md\n    priority: 0.5\n";
    let lab = Lab::new()
        .file("working-set.yml", manifest)
        .file("a.md", "Hello.\n")
        .file("b[1.md", "A name like a pattern.\n");
    let server = lab.serve();
    let act = |path: &str| {
        let body = json!({"actions": [{"action": "add_to_working_set", "path": path,
            "priority": 0.5, "why": "it is needed"}]});
        server.post("/v1/working-set/actions", &body.to_string())
    };
    for path in ["notes[1.md", "{a.md", "x/[b"] {
        let refused = act(path).ok(422).text();
        assert!(
            refused.contains("is not a file, and not a pattern"),
            "{refused}"
        );
    }
    // A file that is called like this is a file.
    act("b[1.md").ok(200);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "add_to_working_set",
        "arguments": {"path": "notes[2.md", "priority": 0.5, "why": "it is needed"}}});
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    let answer = server
        .anybody()
        .send("POST", "/mcp", &headers, Some(&call.to_string()))
        .ok(200);
    assert!(answer.body.contains("not a pattern"), "{}", answer.body);
    server.get("/v1/working-set").ok(200);
    // An entry that was written by hand, or whose file is missing, affects
    // nothing else.
    std::fs::remove_file(lab.path("b[1.md")).unwrap();
    let listed = server.get("/v1/working-set").ok(200).body;
    assert!(listed.contains("not a pattern"), "{listed}");
    let assembled = server
        .post(
            "/v1/assemble",
            r#"{"recipe":"working-set","event":"Hello?"}"#,
        )
        .ok(200);
    assert!(assembled.body.contains("Hello."), "{}", assembled.body);
    server
        .post("/v1/working-set/observe", &turn("Look at a.md."))
        .ok(200);
}

#[test]
fn any_label_has_a_directory_of_its_own() {
    let manifest = "budget:\n  max_tokens: 1000\nfiles:\n  - path: a.md\n    priority: 0.5\n";
    let lab = Lab::new()
        .file("working-set.yml", manifest)
        .file("a.md", "Hello.\n");
    let server = lab.serve();
    let long = "x".repeat(256);
    let longest = "y".repeat(3000);
    for label in ["a%2Fb", "a_b", "a%20b", &long, &longest] {
        let target = format!("/v1/working-set/observe?session={label}");
        server.post(&target, &turn("Look at a.md.")).ok(200);
    }
    let sessions = std::fs::read_dir(lab.path(".contexture/sessions")).unwrap();
    let names: Vec<String> = sessions
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".gitignore")
        .collect();
    assert_eq!(names.len(), 5, "{names:?}");
}

/// Returns why a server does not start.
fn refused(lab: &Lab) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let bound = runtime.block_on(Server::bind(lab.service()));
    bound
        .err()
        .map_or_else(String::new, |error| error.to_string())
}

#[test]
fn tenants_cannot_share_files() {
    let roots = |roots: &[(&str, &str)]| {
        let mut lab = Lab::new()
            .file("other/sub/a.md", "a")
            .file("third/a.md", "a");
        #[cfg(unix)]
        std::os::unix::fs::symlink(lab.path("other"), lab.path("link")).unwrap();
        for (name, root) in roots {
            let root = Some((*root).to_owned());
            let tenants = &mut lab.config.server.tenants;
            tenants.insert((*name).to_owned(), TenantConfig { root, quota: None });
        }
        refused(&lab)
    };
    assert_eq!(roots(&[("a", "other"), ("b", "third")]), "");
    for (given, why) in [
        (
            &[("a", "other"), ("b", "other/sub")][..],
            "is inside the root of tenant `a`",
        ),
        (
            &[("a", "other/sub"), ("b", "other")],
            "is inside the root of tenant `a`",
        ),
        (
            &[("a", "other"), ("b", "./third/../other")],
            "is also the root of tenant `a`",
        ),
        (
            &[("a", "other"), ("b", "link/sub")],
            "is inside the root of tenant `a`",
        ),
        (&[("a", ".")], "is or contains the server's root"),
        (&[("a", "..")], "is or contains the server's root"),
        (&[("a", ".contexture/tenants/b")], "is inside `.contexture`"),
    ] {
        let said = roots(given);
        assert!(said.contains(why), "{given:?}: {said}");
    }
}

#[test]
fn the_store_and_the_settings_are_hidden() {
    let manifest = "budget:\n  max_tokens: 1000\nfiles:\n  - path: '*.*'\n    priority: 0.5\n";
    let lab = Lab::new()
        .file("working-set.yml", manifest)
        .file("contexture.toml", "# SECRET\n")
        .file("a.md", "Hello.\n");
    let server = lab.serve();
    for path in [
        ".contexture/contexture.db",
        "contexture.toml",
        "./contexture.toml",
    ] {
        let body = json!({"actions": [{"action": "add_to_working_set", "path": path,
            "priority": 0.5, "why": "to see"}]});
        let refused = server.post("/v1/working-set/actions", &body.to_string());
        assert_eq!(refused.status, 404, "{path}: {}", refused.body);
    }
    let assembled = server
        .post(
            "/v1/assemble",
            r#"{"recipe":"working-set","event":"Hello?"}"#,
        )
        .ok(200)
        .body;
    assert!(assembled.contains("a.md") && !assembled.contains("SECRET"));
    assert!(!assembled.contains("contexture.toml"), "{assembled}");
}

#[test]
fn a_tenant_cannot_exceed_its_quota() {
    let mut lab = Lab::new();
    let tenants = &mut lab.config.server.tenants;
    let quota = Some(TenantQuota {
        max_sessions: 2,
        max_records: 3,
        ..TenantQuota::default()
    });
    tenants.insert("small".to_owned(), TenantConfig { root: None, quota });
    let quota = Some(TenantQuota {
        max_requests_per_day: 40,
        ..TenantQuota::default()
    });
    tenants.insert("daily".to_owned(), TenantConfig { root: None, quota });
    let [small, daily, other] = ["small", "daily", "other"].map(|name| lab.key(name));
    let server = lab.serve();
    let (small, other) = (server.with_key(&small), server.with_key(&other));
    let daily = server.with_key(&daily);
    let refused = until(|| {
        let label = format!("{{\"label\":\"s{}\"}}", crate::support::number());
        let answer = small.post("/v1/sessions", &label);
        (answer.status == 507).then_some(answer)
    });
    let sessions = small.get("/v1/usage").ok(200).json()["sessions"].clone();
    assert_eq!(sessions, 2);
    let text = refused.text();
    assert!(text.contains("quota_exceeded"), "{text}");
    assert!(text.contains("of its quota of 2 sessions"), "{text}");
    // Reading and deleting go on, and make room.
    let listed = small.get("/v1/sessions").ok(200).json();
    for session in listed["sessions"].as_array().unwrap() {
        let label = session["label"].as_str().unwrap();
        small.delete(&format!("/v1/sessions/{label}")).ok(200);
    }
    until(|| {
        let answer = small.post("/v1/sessions", r#"{"label":"again"}"#);
        (answer.status == 201).then_some(())
    });
    // Others have no quota.
    for i in 0..60 {
        let label = format!("{{\"label\":\"o{i}\"}}");
        other.post("/v1/sessions", &label).ok(201);
    }
    let refused = until(|| {
        let answer = daily.get("/v1/sessions");
        (answer.status == 429).then_some(answer)
    });
    assert!(refused.text().contains("quota of 40 requests per day"));
    assert!(refused.header("retry-after").is_some());
}

/// Returns a lab with one tenant `small` that has a quota.
fn lab_with(quota: TenantQuota) -> (Lab, String) {
    let mut lab = Lab::new();
    let quota = Some(quota);
    let tenants = &mut lab.config.server.tenants;
    tenants.insert("small".to_owned(), TenantConfig { root: None, quota });
    let key = lab.key("small");
    (lab, key)
}

/// Makes a tenant tell its usage from now on: it is reused for a second.
fn wait_for_refusal(small: &Client, target: &str, mut body: impl FnMut() -> String) -> String {
    until(|| {
        let answer = small.post(target, &body());
        (answer.status == 507).then(|| answer.text())
    })
}

#[test]
fn a_quota_of_bytes_refuses_all_calls_that_store_something() {
    let (lab, key) = lab_with(TenantQuota {
        max_bytes: 1,
        ..TenantQuota::default()
    });
    let store = lab.stores.tenant("small");
    let label = contexture::store::NewSession {
        label: "s".to_owned(),
        ..Default::default()
    };
    store.create_session(&label, crate::support::now()).unwrap();
    let server = lab.serve();
    let small = server.with_key(&key);
    let before = small.get("/v1/usage").ok(200).json();
    let event = r#"{"recipe":"broker","session":"s","event":"Hello?"}"#;
    let native = r#"{"model":"gpt-5.6","messages":[{"role":"user","content":"Hello?"}]}"#;
    let fit = |more: &str| format!(r#"{{"request":{native}{more}}}"#);
    for (target, body) in [
        ("/v1/assemble", event.to_owned()),
        ("/v1/fit", fit(r#","session":"s""#)),
        ("/v1/fit", fit(r#","session":"new""#)),
        ("/v1/sessions/s/turns", turn("Hello.")),
        ("/v1/tasks", r#"{"goal":"Rest"}"#.to_owned()),
    ] {
        let refused = small.post(target, &body);
        assert_eq!(refused.status, 507, "{target}: {}", refused.body);
        let text = refused.text();
        assert!(text.contains("of its quota of 1 bytes"), "{target}: {text}");
    }
    // The tools and prompts of MCP store the same.
    let call = |name: &str, arguments: Value| {
        let headers = [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": name, "arguments": arguments}});
        let sent = small.send("POST", "/mcp", &headers, Some(&call.to_string()));
        sent.ok(200).body
    };
    let request: Value = serde_json::from_str(native).unwrap();
    for (name, arguments) in [
        ("assemble", json!({"recipe": "broker", "event": "Hello?"})),
        ("fit", json!({"request": request, "session": "s"})),
        (
            "remember",
            json!({"text": "The pier is closed.", "why": "To know."}),
        ),
    ] {
        let answer = call(name, arguments);
        assert!(
            answer.contains("of its quota of 1 bytes"),
            "{name}: {answer}"
        );
    }
    // What stores nothing still works.
    small.post("/v1/assemble/preview", event).ok(200);
    small.post("/v1/fit", &fit("")).ok(200);
    assert!(!call("fit", json!({ "request": request })).contains("quota"));
    let after = small.get("/v1/usage").ok(200).json();
    for kind in ["sessions", "turns", "snapshots", "records"] {
        assert_eq!(before[kind], after[kind], "{kind}");
    }
    let metrics = server.with_key(&lab.metrics_key()).get("/metrics").body;
    assert!(
        metrics.contains("contexture_refused_by_quota_total 8"),
        "{metrics}"
    );
}

#[test]
fn a_quota_of_one_kind_refuses_only_that_kind() {
    let (lab, key) = lab_with(TenantQuota {
        max_sessions: 1,
        max_records: 1,
        max_nodes: 1,
        ..TenantQuota::default()
    });
    let server = lab.serve();
    let small = server.with_key(&key);
    let session = || format!("{{\"label\":\"s{}\"}}", crate::support::number());
    let event = r#"{"recipe":"broker","session":"s","event":"Hello?"}"#;
    let native = r#"{"request":{"model":"gpt-5.6","messages":[{"role":"user","content":"Hi"}]},"#;
    talk(&small, "s", "Hello.");
    let text = wait_for_refusal(&small, "/v1/sessions", session);
    assert!(text.contains("uses 1 of its quota of 1 sessions"), "{text}");
    // Calls that would create a session are refused, and all others are not.
    for (target, body) in [
        ("/v1/sessions/s/fork", r#"{"label":"t"}"#.to_owned()),
        ("/v1/fit", format!(r#"{native}"session":"new"}}"#)),
    ] {
        let refused = small.post(target, &body);
        assert_eq!(refused.status, 507, "{target}: {}", refused.body);
    }
    small.post("/v1/sessions/s/turns", &turn("More.")).ok(201);
    small.patch("/v1/sessions/s", r#"{"alias":"also"}"#).ok(200);
    small.post("/v1/assemble", event).ok(200);
    let record = |id: usize| {
        format!(r#"{{"records":[{{"kind":"event","id":"m{id}","content":"The pier {id}."}}]}}"#)
    };
    small.post("/v1/memory/records", &record(1)).ok(200);
    let text = wait_for_refusal(&small, "/v1/memory/records", || {
        record(crate::support::number() + 2)
    });
    assert!(text.contains("of its quota of 1 memory records"), "{text}");
    let body = r#"{"source":"a.md","text":"The tide."}"#;
    assert_eq!(small.post("/v1/memory/texts", body).status, 507);
    small.post("/v1/sessions/s/turns", &turn("Again.")).ok(201);
    small.post("/v1/tasks", r#"{"goal":"Rest"}"#).ok(201);
    // A turn that becomes a memory record is one.
    small
        .patch("/v1/sessions/s", r#"{"remember":true}"#)
        .ok(200);
    let refused = small.post("/v1/sessions/s/turns", &turn("Remember this."));
    assert_eq!(refused.status, 507, "{}", refused.body);
    let tree = r#"{"tree":{"id":"t","mode":"dialogue"},
        "nodes":[{"id":"n1","author":"human","content":"Hello."}]}"#;
    small.post("/v1/trees", tree).ok(200);
    let text = wait_for_refusal(&small, "/v1/trees/t/nodes", || {
        let id = crate::support::number() + 2;
        format!(r#"{{"id":"n{id}","author":"human","content":"More.","after":["n1"]}}"#)
    });
    assert!(text.contains("of its quota of 1 nodes"), "{text}");
    let edit = small.post("/v1/trees/t/nodes/n1/edits", r#"{"id":"n9","content":"x"}"#);
    assert_eq!(edit.status, 507, "{}", edit.body);
    small
        .patch("/v1/trees/t/nodes/n1", r#"{"bookmarked":true}"#)
        .ok(200);
}

#[test]
fn wrong_keys_are_limited_by_address() {
    let lab = Lab::new().with(|server| server.wrong_keys_per_minute = 5);
    let key = lab.key("a");
    let server = lab.serve();
    let client = server.with_key(&key);
    client.get("/v1/sessions").ok(200);
    let wrong = server.with_key("ctx_nothing_here");
    let mut statuses = Vec::new();
    for i in 0..8 {
        let unknown = key.replace(&key[4..8], &format!("{i:04}"));
        statuses.push(server.with_key(&unknown).get("/v1/sessions").status);
    }
    assert_eq!(statuses[..5], [401; 5]);
    assert_eq!(statuses[5..], [429; 3]);
    // A caller with a valid key at the same address goes on.
    client.get("/v1/sessions").ok(200);
    let _ = wrong;
}

#[test]
fn a_large_tree_can_be_imported_after_it_was_exported() {
    const NODES: usize = 30_000;
    let lab = Lab::new();
    let server = lab.serve();
    let text = "A sentence that makes the tree large enough. ".repeat(11);
    let nodes: Vec<Value> = (0..NODES)
        .map(|i| json!({"id": format!("n{i}"), "author": "human", "content": text}))
        .collect();
    let edges: Vec<Value> = (1..NODES)
        .map(|i| {
            json!({"id": format!("e{i}"), "type": "continuation",
                "sources": [{"node_id": format!("n{}", i - 1), "role": "primary"}],
                "target_node_id": format!("n{i}")})
        })
        .collect();
    let tree = json!({"tree": {"id": "t", "mode": "dialogue"}, "nodes": nodes, "edges": edges});
    let tree = tree.to_string();
    assert!(tree.len() > 16 << 20, "{}", tree.len());
    server.post("/v1/trees", &tree).ok(200);
    let exported = server.get("/v1/trees/t/document").ok(200).body;
    drop(server);
    let other = Lab::new();
    let server = other.serve();
    server.post("/v1/trees", &exported).ok(200);
    let again = server.get("/v1/trees/t/document").ok(200).body;
    assert!(again == exported);
}

/// A summariser that accepts connections and answers when the test ends.
struct SlowModel {
    address: std::net::SocketAddr,
    asked: std::sync::mpsc::Receiver<std::net::TcpStream>,
}

impl SlowModel {
    fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, asked) = std::sync::mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if sender.send(stream).is_err() {
                    break;
                }
            }
        });
        Self { address, asked }
    }
}

#[test]
fn a_call_that_waits_for_a_model_leaves_its_place_to_others() {
    let model = SlowModel::start();
    let mut lab = Lab::new().with(|server| {
        server.max_concurrent = 1;
        server.max_model_calls = 8;
    });
    let summariser = &mut lab.config.summariser;
    summariser.kind = contexture::config::SummariserKind::OpenAi;
    summariser.base_url = Some(format!("http://{}/v1", model.address));
    summariser.model = Some("slow".to_owned());
    summariser.attempts = 1;
    summariser.deadline_ms = 2_000;
    let (victim, attacker) = (lab.key("victim"), lab.key("attacker"));
    let server = lab.serve();
    let (victim, attacker) = (server.with_key(&victim), server.with_key(&attacker));
    talk(&victim, "v", "Hello.");
    attacker.post("/v1/sessions", r#"{"label":"a"}"#).ok(201);
    for i in 0..30 {
        let said = format!("{i} {}", "The tide is high at the pier. ".repeat(40));
        attacker.post("/v1/sessions/a/turns", &turn(&said)).ok(201);
    }
    // Two calls of the attacker wait for the model, which is its share. Without
    // places of their own they would take the only place there is.
    let calls: Vec<_> = (0..4)
        .map(|_| {
            let attacker = attacker.clone();
            thread::spawn(move || attacker.post("/v1/sessions/a/compact", "{}").status)
        })
        .collect();
    let _first = model.asked.recv().unwrap();
    let _second = model.asked.recv().unwrap();
    // While the model answers no call, all other calls work.
    victim.post("/v1/sessions/v/turns", &turn("More.")).ok(201);
    victim.get("/v1/sessions/v").ok(200);
    let metrics = server.with_key(&lab.metrics_key()).get("/metrics").ok(200);
    assert!(
        metrics
            .body
            .contains("contexture_model_calls_in_progress 2"),
        "{}",
        metrics.body
    );
    // The model stays silent: the summaries are written without it.
    for call in calls {
        let status = call.join().unwrap();
        assert!([200, 409].contains(&status), "{status}");
    }
    let metrics = server.with_key(&lab.metrics_key()).get("/metrics").ok(200);
    assert!(
        metrics
            .body
            .contains("contexture_model_calls_in_progress 0")
    );
    let line = r#"contexture_model_call_seconds_count{kind="summary"} "#;
    let count = metrics.body.lines().find_map(|it| it.strip_prefix(line));
    assert_ne!(count.unwrap(), "0");
}

/// Returns a measured number.
fn measured(metrics: &Client, name: &str) -> u64 {
    let text = metrics.get("/metrics").ok(200).body;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("{name}: {text}"))
        .trim()
        .parse()
        .unwrap()
}

#[test]
fn background_summaries_wait_with_the_model_calls_of_requests() {
    let model = SlowModel::start();
    // One call of a model at a time for a tenant.
    let mut lab = Lab::new().with(|server| server.max_model_calls = 4);
    lab.config.compaction.background = true;
    let summariser = &mut lab.config.summariser;
    summariser.kind = contexture::config::SummariserKind::OpenAi;
    summariser.base_url = Some(format!("http://{}/v1", model.address));
    summariser.model = Some("slow".to_owned());
    summariser.attempts = 1;
    summariser.deadline_ms = 20_000;
    let (key, metrics) = (lab.key("a"), lab.metrics_key());
    let server = lab.serve();
    let (client, metrics) = (server.with_key(&key), server.with_key(&metrics));
    let said = turn(&"The tide is high at the pier. ".repeat(40));
    for label in ["s", "t"] {
        let session = json!({ "label": label }).to_string();
        client.post("/v1/sessions", &session).ok(201);
        let target = format!("/v1/sessions/{label}/turns");
        client.post(&target, &said).ok(201);
        let body = json!({"recipe": "broker", "session": label, "model": "gpt-4o",
            "max_tokens": 4000, "event": "Go on."});
        client.post("/v1/assemble", &body.to_string()).ok(200);
        for _ in 0..20 {
            client.post(&target, &said).ok(201);
        }
    }
    let _first = model.asked.recv().unwrap();
    until(|| (measured(&metrics, "contexture_model_calls_waiting ") == 1).then_some(()));
    assert_eq!(measured(&metrics, "contexture_model_calls_in_progress "), 1);
    assert!(model.asked.try_recv().is_err());
}

/// Asks for a large answer, and does not read it.
fn ask_and_wait(server: &crate::support::Running, key: &str, target: &str) -> crate::support::Wire {
    let mut wire = server.connect();
    wire.send(format!(
        "GET {target} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n"
    ));
    wire
}

#[test]
fn large_answers_share_the_memory_for_bodies() {
    // The least memory: a tenant can have 8 MiB of answers at a time.
    let lab = Lab::new().with(|server| server.body_memory_bytes = 16 << 20);
    let (victim, attacker, metrics) = (lab.key("victim"), lab.key("attacker"), lab.metrics_key());
    let server = lab.serve();
    let (victim, reader) = (server.with_key(&victim), server.with_key(&attacker));
    let metrics = server.with_key(&metrics);
    talk(&victim, "v", "Hello.");
    reader.post("/v1/sessions", r#"{"label":"a"}"#).ok(201);
    let text = "x".repeat(900_000);
    for _ in 0..7 {
        reader.post("/v1/sessions/a/turns", &turn(&text)).ok(201);
    }
    // Clients that never read their answers of 6 MB each. The first answer has all
    // the memory of the attacker; the calls after it wait.
    let target = "/v1/sessions/a/history?limit=7";
    let idle: Vec<_> = (0..6)
        .map(|_| ask_and_wait(&server, &attacker, target))
        .collect();
    until(|| (measured(&metrics, "contexture_body_memory_bytes ") > 6_000_000).then_some(()));
    until(|| (measured(&metrics, "contexture_requests_in_progress ") == 5).then_some(()));
    assert!(measured(&metrics, "contexture_body_memory_bytes ") <= 8 << 20);
    // Small answers of the attacker need no memory.
    reader.get("/v1/sessions/a").ok(200);
    // Others are answered, small and large.
    victim.get("/v1/sessions/v").ok(200);
    victim.post("/v1/sessions/v/turns", &turn(&text)).ok(201);
    let answer = victim.get("/v1/sessions/v/history").ok(200);
    assert!(answer.body.len() > 900_000);
    server.get("/readyz").ok(200);
    // When its clients have disconnected, the attacker gets answers, too, and
    // no memory is reserved any more.
    drop(idle);
    let answer = until(|| {
        let answer = reader.get(target);
        (answer.status == 200).then_some(answer)
    });
    assert!(answer.body.len() > 6_000_000);
    until(|| (measured(&metrics, "contexture_body_memory_bytes ") == 0).then_some(()));
}

#[test]
fn a_large_tree_is_exported_within_the_memory_for_bodies() {
    let lab = Lab::new().with(|server| server.body_memory_bytes = 16 << 20);
    let (key, metrics) = (lab.key("a"), lab.metrics_key());
    let server = lab.serve();
    let (client, metrics) = (server.with_key(&key), server.with_key(&metrics));
    let text = "x".repeat(100_000);
    let nodes: Vec<Value> = (0..20)
        .map(|i| json!({"id": format!("n{i}"), "author": "human", "content": text}))
        .collect();
    let edges: Vec<Value> = (1..20)
        .map(|i| {
            json!({"id": format!("e{i}"), "type": "continuation",
                "sources": [{"node_id": format!("n{}", i - 1), "role": "primary"}],
                "target_node_id": format!("n{i}")})
        })
        .collect();
    let tree = json!({"tree": {"id": "t", "mode": "dialogue"}, "nodes": nodes, "edges": edges});
    client.post("/v1/trees", &tree.to_string()).ok(200);
    // A client that never reads holds what its answer needs, not more.
    let target = "/v1/trees/t/document";
    let idle = ask_and_wait(&server, &key, target);
    until(|| (measured(&metrics, "contexture_body_memory_bytes ") > 2_000_000).then_some(()));
    until(|| (measured(&metrics, "contexture_body_memory_bytes ") < 3_000_000).then_some(()));
    drop(idle);
    let answer = client.get(target).ok(200);
    assert!(answer.body.len() > 2_000_000);
    until(|| (measured(&metrics, "contexture_body_memory_bytes ") == 0).then_some(()));
}

/// A call that waits for a vector gives up its slot. It must not hold a lock
/// meanwhile that the calls with all the slots wait for.
#[test]
fn a_burst_of_recalls_and_records_is_answered() {
    const CALLS: usize = 80;
    let lab = Lab::new();
    let key = lab.key("busy");
    let server = lab.serve();
    let client = server.with_key(&key);
    client.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    let record = |id: &str| {
        json!({"records": [{"kind": "event", "id": id, "type": "note",
            "content": format!("The ferry {id} leaves at noon")}]})
        .to_string()
    };
    for i in 0..5 {
        let first = record(&format!("first {i}"));
        client.post("/v1/memory/records", &first).ok(200);
    }
    thread::scope(|scope| {
        for i in 0..CALLS {
            let client = client.clone();
            scope.spawn(move || match i % 10 {
                9 => client
                    .post("/v1/memory/records", &record(&format!("w{i}")))
                    .ok(200),
                _ => {
                    let request = json!({"recipe": "broker", "session": "s",
                        "event": format!("hi ferry {i}"), "max_tokens": 8000, "report": false,
                        "format": "openai-chat"});
                    client.post("/v1/assemble", &request.to_string()).ok(200)
                }
            });
        }
    });
    client.get("/v1/sessions/s").ok(200);
}
