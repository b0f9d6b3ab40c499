//! The command and two servers on one PostgreSQL database.

mod limits;
mod round_trips;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::Project;
use serde_json::{Value, json};

/// Returns the URL of a schema that no other test uses.
fn database(name: &str) -> String {
    let server = std::env::var("CONTEXTURE_TEST_POSTGRES").unwrap_or_else(|_| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/postgres/start");
        let started = Command::new(script).output().unwrap();
        let told = String::from_utf8_lossy(&started.stderr);
        assert!(started.status.success(), "{script} failed: {told}");
        String::from_utf8(started.stdout).unwrap().trim().to_owned()
    });
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_micros();
    format!("{server}?schema=cli_{name}_{}_{now}", std::process::id())
}

/// A server in a process of its own.
struct Served {
    child: Child,
    address: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(project: &Project, url: &str) -> Served {
    serve_with_rate(project, url, ["1000000", "1000000"])
}

/// Starts a server with a limit of requests of a key per second, and at once.
fn serve_with_rate(project: &Project, url: &str, [rate, burst]: [&str; 2]) -> Served {
    let mut child = project
        .command(&["serve", "--addr", "127.0.0.1:0", "--db", url])
        .env("CONTEXTURE_SERVER_RATE_PER_SECOND", rate)
        .env("CONTEXTURE_SERVER_RATE_BURST", burst)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("http://") {
        said.clear();
        assert_ne!(lines.read_line(&mut said).unwrap(), 0);
    }
    // Later log lines are read, so that the server does not block.
    thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    let address = said.split("http://").nth(1).unwrap();
    let address = address.split(' ').next().unwrap().to_owned();
    Served { child, address }
}

impl Served {
    fn ask(&self, method: &str, target: &str, body: &Value) -> (u16, Value) {
        self.ask_with(method, target, "", body)
    }

    fn ask_with(&self, method: &str, target: &str, headers: &str, body: &Value) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let limit = Some(Duration::from_secs(120));
        stream.set_read_timeout(limit).unwrap();
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let request = format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let code = answer[9..12].parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        // Chunks of an answer are not needed here: `content-length` is sent.
        (code, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn get(&self, target: &str) -> Value {
        let (code, answer) = self.ask("GET", target, &Value::Null);
        assert_eq!(code, 200, "{target}: {answer}");
        answer
    }
}

#[test]
fn the_command_works_on_a_database() {
    let project = Project::new();
    let url = database("command");
    let with = |args: &[&str]| {
        let mut words = args.to_vec();
        words.extend(["--db", &url]);
        project.run(&words)
    };
    assert_eq!(with(&["session", "new", "support"]).code, Some(0));
    let listed = with(&["session", "list"]);
    assert!(listed.out.contains("support"), "{}", listed.out);
    assert_eq!(with(&["memory", "stats"]).code, Some(0));
    let verified = with(&["verify"]);
    assert_eq!(verified.code, Some(0), "{}", verified.err);
    assert_eq!(with(&["gc", "--dry-run"]).code, Some(0));
    let usage = with(&["tenant", "list"]);
    assert!(usage.out.contains("default"), "{}", usage.out);
    let refused = with(&["backup", "elsewhere"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("pg_dump"), "{}", refused.err);
    let key = with(&["key", "new"]);
    assert!(
        key.err.contains("postgres://postgres@127.0.0.1"),
        "{}",
        key.err
    );
}

#[test]
fn a_database_that_cannot_be_reached_is_named_without_its_password() {
    let project = Project::new();
    let url = "postgres://ann:secret@127.0.0.1:1/app";
    let run = project.run(&["session", "list", "--db", url]);
    assert_eq!(run.code, Some(1), "{}", run.err);
    assert!(
        run.err.contains("postgres://ann@127.0.0.1:1/app"),
        "{}",
        run.err
    );
    assert!(!run.err.contains("secret"), "{}", run.err);
}

/// Clients record turns in shared sessions through both servers: each request is
/// assembled on one server and answered on the other.
#[test]
fn two_servers_share_sessions() {
    const CLIENTS: usize = 64;
    const TURNS: usize = 3;
    const SESSIONS: usize = 4;
    let (one, other) = (Project::new(), Project::new());
    let url = database("servers");
    let servers = [serve(&one, &url), serve(&other, &url)];
    for i in 0..SESSIONS {
        let new = json!({"label": format!("s{i}")});
        let (code, answer) = servers[i % 2].ask("POST", "/v1/sessions", &new);
        assert_eq!(code, 201, "{answer}");
    }
    let conflicts = AtomicUsize::new(0);
    let until = Instant::now() + Duration::from_secs(240);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (servers, conflicts) = (&servers, &conflicts);
            scope.spawn(move || {
                let session = format!("s{}", client % SESSIONS);
                let (here, there) = (&servers[client % 2], &servers[(client + 1) % 2]);
                let mut recorded = 0;
                while recorded < TURNS {
                    assert!(Instant::now() < until, "client {client} is not done");
                    let request = json!({"recipe": "broker", "session": session,
                        "event": format!("client {client} turn {recorded}"), "report": false});
                    let (code, request) = here.ask("POST", "/v1/assemble", &request);
                    assert_eq!(code, 200, "{request}");
                    let turn = json!({"messages": [
                            {"role": "user", "content": format!("{client} {recorded}")},
                            {"role": "assistant", "content": "yes"}],
                        "parent_turn_id": request["parent_turn_id"],
                        "request_hash": request["snapshot"]});
                    assert!(request["snapshot"].is_string(), "{request}");
                    let target = format!("/v1/sessions/{session}/turns");
                    let (code, answer) = there.ask("POST", &target, &turn);
                    match code {
                        201 => recorded += 1,
                        409 => drop(conflicts.fetch_add(1, Ordering::Relaxed)),
                        code => panic!("{code}: {answer}"),
                    }
                }
            });
        }
    });
    for i in 0..SESSIONS {
        let label = format!("s{i}");
        let shown = servers[i % 2].get(&format!("/v1/sessions/{label}"));
        assert_eq!(shown["turns"], json!(CLIENTS * TURNS / SESSIONS), "{shown}");
        // One chain: every turn follows the one before it.
        let history = servers[(i + 1) % 2].get(&format!("/v1/sessions/{label}/history?limit=500"));
        let turns = history["turns"].as_array().unwrap();
        assert_eq!(turns.len(), CLIENTS * TURNS / SESSIONS);
    }
    // Every answer on the other server found the request.
    let project = Project::new();
    let verified = project.run(&["verify", "--db", &url]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
}

/// The same call is sent to both servers at once, and again later.
#[test]
fn a_call_with_a_key_is_done_once_on_two_servers() {
    const CALLS: usize = 8;
    let (one, other) = (Project::new(), Project::new());
    let url = database("keys");
    let servers = [serve(&one, &url), serve(&other, &url)];
    let task = json!({"goal": "reach the harbour"});
    let send = |server: &Served, body: &Value| {
        server.ask_with("POST", "/v1/tasks", "idempotency-key: k\r\n", body)
    };
    let answers: Vec<(u16, Value)> = thread::scope(|scope| {
        let calls: Vec<_> = (0..CALLS)
            .map(|i| {
                scope.spawn({
                    let (servers, task, send) = (&servers, &task, &send);
                    move || send(&servers[i % 2], task)
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let first = answers.iter().find(|(code, _)| *code == 201).unwrap();
    for (code, answer) in &answers {
        match code {
            201 => assert_eq!(answer, &first.1),
            // In progress, or done on the other server, which has no answer yet.
            _ => assert_eq!((*code, &answer["error"]["code"]), (409, &json!("conflict"))),
        }
    }
    for server in &servers {
        assert_eq!(&send(server, &task), first);
        assert_eq!(server.get("/v1/usage")["tasks"], 1);
        let (code, answer) = send(server, &json!({"goal": "another"}));
        assert_eq!(code, 409, "{answer}");
    }
}

/// Clients change a tree, a memory and tasks through both servers.
#[test]
fn two_servers_lose_no_update() {
    let (one, other) = (Project::new(), Project::new());
    let url = database("updates");
    let servers = [serve(&one, &url), serve(&other, &url)];
    let tree = json!({"tree": {"id": "t", "mode": "dialogue"}, "nodes": [
        {"id": "n1", "author": "human", "content": "Hello."}]});
    let (code, answer) = servers[0].ask("POST", "/v1/trees", &tree);
    assert!(code < 300, "{answer}");
    const CLIENTS: usize = 64;
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let server = &servers[client % 2];
            scope.spawn(move || {
                let agent = json!({"id": format!("agent{client}"), "type": "model"});
                let target = format!("/v1/trees/t/agents/agent{client}");
                let (code, answer) = server.ask("PUT", &target, &agent);
                assert!(code < 300, "{code} {answer}");
                let record = json!({"records": [{"kind": "event", "id": format!("e{client}"),
                    "type": "user_message", "actor": "user",
                    "content": {"speaker": "Ana", "text": format!("My number is {client}.")}}]});
                let (code, answer) = server.ask("POST", "/v1/memory/records", &record);
                assert!(code < 300, "{code} {answer}");
                let task = json!({"goal": format!("goal {client}")});
                let target = format!("/v1/tasks?stack=stack{client}");
                let (code, answer) = server.ask("POST", &target, &task);
                assert!(code < 300, "{code} {answer}");
            });
        }
    });
    let shown = servers[1].get("/v1/trees/t");
    assert_eq!(
        shown["agents"].as_array().map(Vec::len),
        Some(CLIENTS),
        "{shown}"
    );
    let usage = servers[0].get("/v1/usage");
    assert_eq!(usage["tasks"], CLIENTS, "{usage}");
    let listed = servers[1].get("/v1/memory/list?kind=event&limit=1000");
    let events = listed["records"].as_array().map(Vec::len);
    assert_eq!(events, Some(CLIENTS), "{listed}");
    // Each server finds the records of the other.
    for server in &servers {
        let query = json!({"query": "Is my number 3?", "max_tokens": 2000});
        let (code, found) = server.ask("POST", "/v1/memory/recall", &query);
        assert_eq!(code, 200, "{found}");
        assert!(found.to_string().contains("My number is 3."), "{found}");
    }
    // A record that one server deletes is not found by the other.
    let (code, answer) = servers[0].ask("DELETE", "/v1/memory/records/e3", &Value::Null);
    assert!(code < 300, "{code} {answer}");
    let query = json!({"query": "Is my number 3?", "max_tokens": 2000});
    let (_, found) = servers[1].ask("POST", "/v1/memory/recall", &query);
    assert!(!found.to_string().contains("My number is 3."), "{found}");
}

/// A stream of the events of a session.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(server: &Served, session: &str, headers: &str) -> Self {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        let limit = Some(Duration::from_secs(60));
        stream.set_read_timeout(limit).unwrap();
        let request = format!(
            "GET /v1/sessions/{session}/events HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains("200"), "{line}");
        while line.trim() != "" {
            line.clear();
            lines.read_line(&mut line).unwrap();
        }
        Self(lines)
    }

    /// Returns the id and the data of the next event.
    fn next(&mut self) -> (String, Value) {
        let mut id = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream ended");
            if let Some(number) = line.strip_prefix("id: ") {
                id = number.trim().to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (id, serde_json::from_str(data).unwrap());
            }
        }
    }
}

fn record(server: &Served, text: &str) -> Value {
    let turn = json!({"messages": [{"role": "user", "content": text},
        {"role": "assistant", "content": "yes"}]});
    let (code, answer) = server.ask("POST", "/v1/sessions/s/turns", &turn);
    assert_eq!(code, 201, "{answer}");
    answer
}

#[test]
fn a_listener_of_one_server_sees_what_happens_on_the_other() {
    let (one, other) = (Project::new(), Project::new());
    let url = database("events");
    let servers = [serve(&one, &url), serve(&other, &url)];
    let (code, answer) = servers[0].ask("POST", "/v1/sessions", &json!({"label": "s"}));
    assert_eq!(code, 201, "{answer}");
    let mut events = Events::open(&servers[1], "s", "");
    let first = record(&servers[0], "First.");
    let (id, event) = events.next();
    assert_eq!(event["type"], "turn_recorded");
    assert_eq!(event["turn_id"], first["turn_id"]);
    // It connects to the other server again, and gets what it missed from both.
    drop(events);
    let request = json!({"recipe": "broker", "session": "s", "event": "And?", "report": false});
    let (code, assembled) = servers[1].ask("POST", "/v1/assemble", &request);
    assert_eq!(code, 200, "{assembled}");
    let missed = [
        record(&servers[1], "Second."),
        record(&servers[0], "Third."),
    ];
    let header = format!("last-event-id: {id}\r\n");
    let mut events = Events::open(&servers[0], "s", &header);
    let fourth = record(&servers[1], "Fourth.");
    let (_, event) = events.next();
    assert_eq!(event["type"], "assembled");
    assert_eq!(event["snapshot"], assembled["snapshot"]);
    for turn in missed.iter().chain([&fourth]) {
        assert_eq!(events.next().1["turn_id"], turn["turn_id"]);
    }
}
