//! A server in this process, over a project in a temporary directory, and
//! clients: a plain one, and one that sends whatever bytes a test likes.
#![allow(dead_code)] // Each test file uses its own part of this.
#![allow(clippy::unwrap_used)] // Helpers of a test are not a test to the lint.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contexture::config::{Config, FILE, ServerConfig};
use contexture::store::{KeyScope, Tenants};
use contexture::{Root, Timestamp, key};
use contexture_server::{Metrics, Server, Service};
use contexture_sqlite::SqliteStore;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// The clock of every test.
pub(crate) const NOW: &str = "2026-01-31T12:00:00Z";

/// Whatever takes longer hangs. Far more than anything needs, also on a busy
/// machine.
pub(crate) const HANGS_AFTER: Duration = Duration::from_secs(60);

pub(crate) fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// A project and its store, before it is served.
pub(crate) struct Lab {
    dir: TempDir,
    pub(crate) config: Config,
    pub(crate) now: Option<Timestamp>,
    pub(crate) stores: SqliteStore,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("contexture-test-")
            .tempdir()
            .unwrap();
        let stores = SqliteStore::open(dir.path().join(".contexture/contexture.db")).unwrap();
        let mut config = Config::default();
        config.server.addr = "127.0.0.1:0".to_owned();
        Self {
            dir,
            config,
            now: Some(now()),
            stores,
        }
    }

    /// Changes the server's settings.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut ServerConfig)) -> Self {
        change(&mut self.config.server);
        self
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Adds a file, with the directories above it.
    pub(crate) fn file(self, path: &str, content: &str) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Makes a key of a tenant.
    pub(crate) fn key(&self, tenant: &str) -> String {
        self.new_key(tenant, KeyScope::Tenant)
    }

    /// Makes a key that opens what is measured.
    pub(crate) fn metrics_key(&self) -> String {
        self.new_key("", KeyScope::Metrics)
    }

    /// Makes a key that opens the admin API.
    pub(crate) fn admin_key(&self) -> String {
        self.new_key("", KeyScope::Admin)
    }

    fn new_key(&self, tenant: &str, scope: KeyScope) -> String {
        let (key, record) = key::generate(tenant, scope, None, now()).unwrap();
        self.stores.add_key(&record).unwrap();
        key.as_str().to_owned()
    }

    /// Revokes a key, as another process would.
    pub(crate) fn revoke(&self, key: &str) {
        let (id, _) = key::parse(key).unwrap();
        self.stores.revoke_key(id, now()).unwrap();
    }

    /// Uses the store of another project.
    pub(crate) fn sharing(mut self, other: &Lab) -> Self {
        self.stores = other.stores.clone();
        self
    }

    pub(crate) fn service(&self) -> Service {
        Service {
            root: self.dir.path().to_owned(),
            config: self.config.clone(),
            stores: Arc::new(self.stores.clone()),
            metrics: Arc::new(Metrics::default()),
            now: self.now,
            mark_key: Some(contexture::core::guard::MarkKey::from_text("test")),
            private: vec![self.path(".contexture/contexture.db")],
            back_up: Some({
                let stores = self.stores.clone();
                Arc::new(move |target, now| stores.backend().back_up(target, None, now).map(drop))
            }),
            read_settings: Arc::new({
                let (usual, root) = (self.config.clone(), self.dir.path().to_owned());
                move || {
                    let root = Root::open(&root)?;
                    if root.is_absent(FILE) {
                        return Ok(usual.clone());
                    }
                    let mut config = Config::read(&root)?;
                    config.server.addr.clone_from(&usual.server.addr);
                    Ok(config)
                }
            }),
        }
    }

    /// Serves the project until the test lets go of it.
    pub(crate) fn serve(&self) -> Running {
        self.serve_for(None)
    }

    /// Serves the project read-only, to callers with that key.
    pub(crate) fn inspect(&self, key: &str) -> Running {
        self.serve_for(Some(key.to_owned()))
    }

    fn serve_for(&self, key: Option<String>) -> Running {
        let service = self.service();
        let limits = &service.config.server;
        let threads = limits.max_concurrent + limits.max_model_calls + limits.max_streams() + 16;
        let (stop, stopped) = oneshot::channel::<()>();
        let (bound, address) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .max_blocking_threads(threads)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let server = match key {
                    None => Server::bind(service).await.unwrap(),
                    Some(key) => Server::bind_read_only(service, key).await.unwrap(),
                };
                bound.send((server.address(), server.needs_key())).unwrap();
                server
                    .run(async {
                        let _ = stopped.await;
                    })
                    .await;
            });
        });
        let (address, needs_key) = address.recv().unwrap();
        Running {
            address,
            needs_key,
            agent: agent(),
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(HANGS_AFTER))
        .build()
        .into()
}

/// A server that answers. It stops when it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) needs_key: bool,
    agent: ureq::Agent,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.say_stop();
        if let Some(thread) = self.thread.take() {
            let joined = thread.join();
            if !std::thread::panicking() {
                joined.unwrap();
            }
        }
    }
}

impl Running {
    /// Tells the server to stop, and goes on at once.
    pub(crate) fn say_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Returns a client that has no key.
    pub(crate) fn anybody(&self) -> Client {
        Client {
            agent: self.agent.clone(),
            address: self.address,
            key: None,
        }
    }

    /// Returns a client with that key.
    pub(crate) fn with_key(&self, key: &str) -> Client {
        Client {
            key: Some(key.to_owned()),
            ..self.anybody()
        }
    }

    pub(crate) fn get(&self, target: &str) -> Answer {
        self.anybody().get(target)
    }

    pub(crate) fn post(&self, target: &str, body: &str) -> Answer {
        self.anybody().post(target, body)
    }

    /// Opens a connection over which a test sends what it likes.
    pub(crate) fn connect(&self) -> Wire {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(HANGS_AFTER)).unwrap();
        stream.set_nodelay(true).unwrap();
        Wire(stream)
    }

    /// Sends bytes and returns the answer to them.
    pub(crate) fn raw(&self, bytes: impl AsRef<[u8]>) -> Answer {
        let mut wire = self.connect();
        wire.send(bytes);
        wire.answer()
    }
}

/// Calls a server, as a program would.
#[derive(Clone)]
pub(crate) struct Client {
    agent: ureq::Agent,
    address: SocketAddr,
    key: Option<String>,
}

impl Client {
    pub(crate) fn get(&self, target: &str) -> Answer {
        self.send("GET", target, &[], None)
    }

    pub(crate) fn delete(&self, target: &str) -> Answer {
        self.send("DELETE", target, &[], None)
    }

    pub(crate) fn post(&self, target: &str, body: &str) -> Answer {
        let json = [("content-type", "application/json")];
        self.send("POST", target, &json, Some(body))
    }

    pub(crate) fn patch(&self, target: &str, body: &str) -> Answer {
        let json = [("content-type", "application/json")];
        self.send("PATCH", target, &json, Some(body))
    }

    pub(crate) fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Answer {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("http://{}{target}", self.address));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answered = match body {
            Some(body) => self.agent.run(request.body(body).unwrap()),
            None => self.agent.run(request.body(()).unwrap()),
        };
        let mut answered = answered.unwrap_or_else(|error| panic!("{method} {target}: {error}"));
        let headers = (answered.headers().iter())
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        let mut body = Vec::new();
        answered
            .body_mut()
            .as_reader()
            .read_to_end(&mut body)
            .unwrap();
        Answer {
            status: answered.status().as_u16(),
            headers,
            body: String::from_utf8(body).unwrap(),
        }
    }
}

/// A response of a server.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names are in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Returns the answer, which must have that status.
    #[track_caller]
    pub(crate) fn ok(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.body);
        self
    }

    /// The same, for an answer that is looked at again.
    #[track_caller]
    pub(crate) fn ok_status(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "{}", self.body);
        self
    }

    /// Returns the response as one text: the status and the content of the
    /// body. An error is checked, and becomes `status code message (field)
    /// [hint]`.
    #[track_caller]
    pub(crate) fn text(&self) -> String {
        if self.status < 400 {
            return format!("{} {}", self.status, self.body);
        }
        assert_eq!(
            self.header("content-type"),
            Some("application/json"),
            "{self:?}"
        );
        assert!(self.header("x-request-id").is_some(), "{self:?}");
        assert_eq!(
            self.header("contexture-version"),
            Some(env!("CARGO_PKG_VERSION")),
            "{self:?}"
        );
        let body = self.json();
        let error = body["error"].as_object().unwrap();
        assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
        let names: Vec<&str> = error.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["code", "message", "field", "hint", "advice"],
            "{body}"
        );
        let part = |name: &str| error[name].as_str().map(str::to_owned);
        let mut text = format!(
            "{} {}: {}",
            self.status,
            part("code").unwrap(),
            part("message").unwrap()
        );
        if let Some(field) = part("field") {
            text.push_str(&format!(" ({field})"));
        }
        if let Some(hint) = part("hint") {
            text.push_str(&format!(" [{hint}]"));
        }
        text
    }
}

/// A connection over which a test sends what it likes.
pub(crate) struct Wire(pub(crate) TcpStream);

impl Wire {
    /// Sends bytes. A server that has hung up already is not of interest here.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.write_all(bytes.as_ref()).is_ok()
    }

    /// Says that nothing more is sent.
    pub(crate) fn end(&mut self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Reads until the server hangs up.
    pub(crate) fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        let mut part = [0; 4096];
        loop {
            match self.0.read(&mut part) {
                Ok(0) => break,
                Ok(read) => bytes.extend_from_slice(&part[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!("the server neither answers nor hangs up: {error}"),
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    /// Reads one response, which must have a length.
    pub(crate) fn answer(&mut self) -> Answer {
        let head = self.until("\r\n\r\n");
        let mut lines = head.split("\r\n");
        let first = lines.next().unwrap();
        let status = first
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no answer: {head:?}"));
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.map_or(0, |(_, length)| length.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        Answer {
            status,
            headers,
            body: String::from_utf8(body).unwrap(),
        }
    }

    /// Reads up to and with `end`, or to the end of what is sent.
    pub(crate) fn until(&mut self, end: &str) -> String {
        let mut bytes = Vec::new();
        let mut byte = [0];
        while !bytes.ends_with(end.as_bytes()) {
            match self.0.read(&mut byte) {
                Ok(0) => break,
                Ok(_) => bytes.push(byte[0]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!("the server neither answers nor hangs up: {error}"),
            }
        }
        String::from_utf8(bytes).unwrap()
    }
}

/// Asks until the answer is the one that is waited for.
#[track_caller]
pub(crate) fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < HANGS_AFTER, "it does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Creates a session with a turn that contains `text`.
pub(crate) fn talk(client: &Client, label: &str, text: &str) {
    client
        .post("/v1/sessions", &format!(r#"{{"label":"{label}"}}"#))
        .ok(201);
    client
        .post(&format!("/v1/sessions/{label}/turns"), &turn(text))
        .ok(201);
}

/// Returns a turn that contains `text`.
pub(crate) fn turn(text: &str) -> String {
    serde_json::json!({"messages": [
        {"role": "user", "content": text},
        {"role": "assistant", "content": "Well."},
    ]})
    .to_string()
}

/// A number that no other test of this process has.
pub(crate) fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
