//! The command `contexture serve`: its output, its log, and how it stops.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::support::{Project, dedent};
use serde_json::Value;

/// A server in a process of its own.
struct Served {
    child: Child,
    address: String,
    /// The lines that the command prints before it serves.
    said: Vec<String>,
    log: JoinHandle<String>,
}

/// Starts a server on a free port and waits until it listens.
fn serve(project: &Project, args: &[&str]) -> Served {
    let mut command = project.command(&["serve", "--addr", "127.0.0.1:0"]);
    command.args(args).env("CONTEXTURE_SERVER_LOG", "debug");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut said = Vec::new();
    let mut early = String::new();
    while said.len() < 2 {
        let mut line = String::new();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "{said:?} {early}");
        match line.starts_with('{') {
            true => early.push_str(&line),
            false => said.push(line.trim_end().to_owned()),
        }
    }
    let log = std::thread::spawn(move || {
        lines.read_to_string(&mut early).unwrap();
        early
    });
    let address = said[0].split("http://").nth(1).unwrap();
    let address = address.split(' ').next().unwrap().to_owned();
    Served {
        child,
        address,
        said,
        log,
    }
}

impl Served {
    /// Sends a request and returns the whole answer.
    fn ask(&self, method: &str, target: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Tells the server to stop.
    fn signal(&self) {
        let sent = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Tells the server to stop, and returns its exit code and its log.
    fn stop(mut self) -> (Option<i32>, String) {
        self.signal();
        let code = self.child.wait().unwrap().code();
        (code, self.log.join().unwrap())
    }
}

#[test]
fn an_address_that_others_reach_is_refused_without_keys() {
    let project = Project::new();
    let run = project.run(&["serve", "--addr", "0.0.0.0:0"]);
    assert_eq!(run.code, Some(2));
    assert_eq!(
        run.err,
        "error: other machines can reach 0.0.0.0:0, and no API key exists: anyone could read and \
         write all data\nhint: create an API key with `contexture key new`; or set --addr to a \
         loopback address such as 127.0.0.1:4650\n"
    );
}

#[test]
fn the_server_prints_its_address_and_authentication() {
    let project = Project::new();
    let served = serve(&project, &[]);
    assert_eq!(
        served.said,
        [
            format!(
                "serving on http://{} (inspector at /, docs at /docs, MCP at /mcp)",
                served.address
            ),
            "authentication is off: any local process can read and write all data; run \
             `contexture key new` to require an API key"
                .to_owned(),
        ]
    );
    assert_eq!(served.stop().0, Some(0));
    project.run(&["key", "new"]);
    let served = serve(&project, &[]);
    assert_eq!(
        served.said[1],
        "authentication is on: clients must send an API key; create one with `contexture key new`"
    );
    assert!(
        served
            .ask("GET", "/v1/sessions", "", "")
            .starts_with("HTTP/1.1 401 ")
    );
    assert_eq!(served.stop().0, Some(0));
}

#[test]
fn it_ends_with_standard_input_when_asked_to() {
    let project = Project::new();
    let mut command = project.command(&["serve", "--addr", "127.0.0.1:0", "--stop-with-stdin"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(line.starts_with("serving on http://127.0.0.1:"), "{line}");
    assert_eq!(child.try_wait().unwrap(), None);
    drop(child.stdin.take());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let project = Project::new();
    let served = serve(&project, &[]);
    // A request whose body is still to come keeps the server.
    let mut busy = TcpStream::connect(&served.address).unwrap();
    let head = "POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\nexpect: \
                100-continue\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n";
    busy.write_all(head.as_bytes()).unwrap();
    let mut begun = [0; 12];
    busy.read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"HTTP/1.1 100");
    served.signal();
    while TcpStream::connect(&served.address).is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (code, log) = served.stop();
    assert_eq!(code, Some(1), "{log}");
    let said = "stopping after the open requests; press Ctrl-C again, or repeat the signal, to \
                stop at once\n";
    assert!(log.contains(said), "{log}");
    assert!(!log.contains(r#""message":"stopped"#), "{log}");
}

#[test]
fn a_signal_ends_it_and_loses_nothing_that_was_acknowledged() {
    let project = Project::new();
    let served = serve(&project, &[]);
    let made = served.ask("POST", "/v1/sessions", "", r#"{"label":"s"}"#);
    assert!(made.starts_with("HTTP/1.1 201 "), "{made}");
    let address = served.address.clone();
    let writer = std::thread::spawn(move || {
        let mut acknowledged = 0;
        loop {
            let Ok(mut stream) = TcpStream::connect(&address) else {
                return acknowledged;
            };
            let body = r#"{"messages":[{"role":"user","content":"x"}]}"#;
            let request = format!(
                "POST /v1/sessions/s/turns HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let mut answer = String::new();
            let sent = stream.write_all(request.as_bytes());
            let read = sent.and_then(|()| stream.read_to_string(&mut answer));
            if read.is_ok() && answer.starts_with("HTTP/1.1 201 ") {
                acknowledged += 1;
            }
        }
    });
    while !served
        .ask("GET", "/v1/sessions/s", "", "")
        .contains(r#""turns":2"#)
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (code, log) = served.stop();
    assert_eq!(code, Some(0));
    assert!(log.contains(r#""message":"stopped""#), "{log}");
    let acknowledged: u64 = writer.join().unwrap();
    assert!(acknowledged > 0);
    let session = project.run(&["session", "list", "--json"]).out;
    let session: Value = serde_json::from_str(&session).unwrap();
    let turns = session
        .pointer("/sessions/0/turns")
        .or(session.pointer("/0/turns"));
    let turns = turns.and_then(Value::as_u64).unwrap();
    // A turn whose response was not read may be recorded, too.
    assert!(turns >= acknowledged, "{turns} of {acknowledged}");
}

#[test]
fn the_log_has_a_line_for_each_request_and_nothing_of_what_was_said() {
    let project = Project::new();
    let made = project.run(&["key", "new", "--tenant", "harbour"]).out;
    let key = made
        .split_whitespace()
        .find(|word| word.starts_with("ctx_"))
        .unwrap()
        .to_owned();
    let secret = key.rsplit('_').next().unwrap();
    let served = serve(&project, &[]);
    let bearer = format!("authorization: Bearer {key}\r\n");
    let named = format!("{bearer}x-request-id: the-third\r\n");
    let turn = r#"{"messages":[{"role":"user","content":"canary in a turn"}]}"#;
    let calls = [
        (
            "POST",
            "/v1/sessions",
            bearer.as_str(),
            r#"{"label":"canary-label","task":"canary task"}"#,
        ),
        ("POST", "/v1/sessions/canary-label/turns", &bearer, turn),
        (
            "POST",
            "/v1/assemble",
            &named,
            r#"{"session":"canary-label","recipe":"broker","event":"canary event"}"#,
        ),
        ("POST", "/v1/sessions", &bearer, r#"{"canary":"field"}"#),
        ("POST", "/v1/sessions", &bearer, "canary that is no JSON"),
        (
            "POST",
            "/v1/assemble",
            &bearer,
            r#"{"recipe":"../canary.yml"}"#,
        ),
        ("GET", "/v1/sessions/canary?canary=query", &bearer, ""),
        ("GET", "/canary/path", &bearer, ""),
        (
            "GET",
            "/v1/sessions",
            "authorization: Bearer canary\r\n",
            "",
        ),
        (
            "GET",
            "/v1/sessions",
            "x-canary: header\r\norigin: http://canary.example\r\n",
            "",
        ),
        ("CANARY", "/v1/sessions", &bearer, ""),
    ];
    for (method, target, headers, body) in calls {
        served.ask(method, target, headers, body);
    }
    let (code, log) = served.stop();
    assert_eq!(code, Some(0));
    for never in ["canary", "CANARY", secret] {
        assert!(!log.contains(never), "{never} in\n{log}");
    }
    let lines: Vec<Value> = log
        .lines()
        // The message about the stop is for people.
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let requests: Vec<&Value> = lines
        .iter()
        .filter(|line| line["message"] == "request")
        .collect();
    let told: Vec<String> = requests
        .iter()
        .map(|line| {
            let part = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            assert!(line["id"].is_string() && line["ms"].is_number(), "{line}");
            let (method, route) = (part("method"), part("route"));
            format!(
                "{method} {route} {} {} {}",
                line["status"],
                part("tenant"),
                part("code")
            )
        })
        .collect();
    assert_eq!(
        told.join("\n") + "\n",
        dedent(
            "
            POST /v1/sessions 201 harbour -
            POST /v1/sessions/{label}/turns 201 harbour -
            POST /v1/assemble 200 harbour -
            POST /v1/sessions 400 harbour invalid_field
            POST /v1/sessions 400 harbour invalid_json
            POST /v1/assemble 422 harbour invalid
            GET /v1/sessions/{label} 400 harbour invalid_query
            GET none 404 - no_such_path
            GET /v1/sessions 401 - unauthorized
            GET /v1/sessions 403 - foreign_origin
            other /v1/sessions 405 - no_such_method
            "
        )
    );
    assert_eq!(requests[2]["id"], "the-third");
}

/// Starts an inspector, and returns it with the address that it prints.
fn inspect(project: &Project, args: &[&str]) -> (Child, String) {
    let mut command = project.command(&["inspect", "--no-browser"]);
    command.args(args).stdout(Stdio::piped());
    // The tests must not read the sessions of this machine.
    command
        .env("HOME", project.path("home"))
        .env_remove("CLAUDE_CONFIG_DIR")
        .env_remove("CODEX_HOME")
        .env_remove("OPENCODE_DATA_DIR")
        .env_remove("XDG_DATA_HOME");
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut address = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut address).unwrap();
    (child, address.trim_end().to_owned())
}

#[test]
fn an_inspector_only_reads_and_accepts_only_its_own_key() {
    let project = Project::new();
    project.ok(&["session", "new", "a b/c"]);
    let stored = project.run(&["key", "new"]).out;
    let (mut child, printed) = inspect(&project, &["a b/c"]);
    let (address, fragment) = printed.split_once("/#key=").unwrap();
    let (key, view) = fragment.split_once('&').unwrap();
    assert_eq!(view, "to=%2Fsession%2Fa%2520b%252Fc");
    let ask = |method: &str, key: &str| {
        let address = address.strip_prefix("http://").unwrap();
        assert!(address.starts_with("127.0.0.1:"), "{address}");
        let mut stream = TcpStream::connect(address).unwrap();
        let body = r#"{"label":"new"}"#;
        let length = if method == "GET" { 0 } else { body.len() };
        let request = format!(
            "{method} /v1/sessions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             authorization: Bearer {key}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{}",
            &body[..length]
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer[9..12].to_owned()
    };
    assert_eq!(ask("GET", key), "200");
    assert_eq!(ask("POST", key), "403");
    assert_eq!(ask("GET", stored.trim()), "401");
    assert_eq!(ask("GET", ""), "401");
    let sent = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // The key was not stored.
    assert!(!project.ok(&["key", "list"]).contains(&key[4..12]));
}

#[test]
fn an_inspector_opens_the_file_of_a_store() {
    let project = Project::new();
    project.ok(&["session", "new", "s"]);
    let store = project.path(".contexture/contexture.db");
    let other = Project::new();
    let (mut child, printed) = inspect(&other, &[store.to_str().unwrap()]);
    assert!(
        printed.starts_with("http://127.0.0.1:") && !printed.contains("&to="),
        "{printed}"
    );
    let sent = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Without an argument, there is something to see on a machine where agents ran.
#[test]
fn an_inspector_imports_the_newest_sessions_of_the_machine() {
    let row = |kind: &str, uuid: &str, parent: &str, content: &str| {
        format!(
            r#"{{"type":"{kind}","uuid":"{uuid}","parentUuid":{parent},"timestamp":"2026-02-02T10:00:00Z","message":{{"id":"m-{uuid}","role":"{kind}","stop_reason":"end_turn","content":{content}}}}}"#
        ) + "\n"
    };
    let transcript = row("user", "a", "null", r#""Hi""#)
        + &row(
            "assistant",
            "b",
            r#""a""#,
            r#"[{"type":"text","text":"Hello."}]"#,
        );
    let place = "home/.claude/projects/-boats/one.jsonl";
    let project = Project::new().file(place, &transcript);
    let (mut child, printed) = inspect(&project, &[]);
    assert!(printed.starts_with("http://127.0.0.1:"), "{printed}");
    child.kill().unwrap();
    child.wait().unwrap();
    let listed = project.ok(&["session", "list"]);
    assert!(listed.contains("claude-code:one"), "{listed}");
}

#[test]
fn an_inspector_needs_a_store_and_a_session_that_exists() {
    let project = Project::new().file("notes.md", "text");
    let none = project.run(&["inspect", "--no-browser", "--no-import"]);
    assert_eq!(none.code, Some(2));
    assert!(none.err.contains("no store at"), "{}", none.err);
    project.ok(&["session", "new", "s"]);
    let unknown = project.run(&["inspect", "t", "--no-browser"]);
    assert_eq!(unknown.code, Some(2), "{}", unknown.err);
    assert!(unknown.err.contains("`t`"), "{}", unknown.err);
    let file = project.run(&["inspect", "notes.md", "--no-browser"]);
    assert!(
        file.err.contains("is neither a session nor a store"),
        "{}",
        file.err
    );
}

/// SIGHUP makes the server read its settings again: the log reports the
/// changes, those that need a restart, and the position of an error.
#[cfg(unix)]
#[test]
fn settings_are_read_again_on_sighup() {
    let project = Project::new();
    let served = serve(&project, &[]);
    let hang_up = || {
        let sent = Command::new("kill")
            .args(["-HUP", &served.child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    };
    let model = || {
        let answer = served.ask("GET", "/v1/models", "", "");
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        let models: Value = serde_json::from_str(body).unwrap();
        models["default"].as_str().unwrap().to_owned()
    };
    let wait_for = |wanted: &str| {
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while model() != wanted {
            assert!(
                std::time::Instant::now() < until,
                "the model is {}",
                model()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    project.write(
        "contexture.toml",
        "model = \"gpt-4o\"\n[server]\naddr = \"127.0.0.1:1\"\n[store]\npool_size = 9\n",
    );
    hang_up();
    wait_for("gpt-4o");
    project.write("contexture.toml", "model = \"gpt-4.1\"\nmodle = 3\n");
    hang_up();
    // The signal after it shows that the server has seen the one before.
    std::thread::sleep(Duration::from_millis(500));
    project.write("contexture.toml", "model = \"gpt-4\"\n");
    hang_up();
    wait_for("gpt-4");
    let (code, log) = served.stop();
    assert_eq!(code, Some(0), "{log}");
    let lines: Vec<Value> = log
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let with = |field: &str, message: &str| -> Vec<String> {
        let lines = lines.iter().filter(|line| line["message"] == message);
        lines
            .map(|line| line[field].as_str().unwrap().to_owned())
            .collect()
    };
    // The address of the command line has priority over the file.
    let changed = with("changed", "the settings were read again");
    assert_eq!(changed, ["model", "model"], "{log}");
    let restart = with("settings", "changed settings need a restart of the server");
    assert_eq!(restart, ["store.pool_size"], "{log}");
    let errors = with("error", "the previous settings still apply");
    assert_eq!(errors.len(), 1, "{log}");
    assert!(errors[0].starts_with("contexture.toml:2:1: "), "{log}");
}
