//! A PostgreSQL server for tests.
#![allow(dead_code)]

pub(crate) mod proxy;

use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use contexture_postgres::{Options, PostgresStore};
use tokio_postgres::NoTls;

/// Returns the URL of the server: `CONTEXTURE_TEST_POSTGRES`, or one that
/// `tests/postgres/start` starts.
pub(crate) fn server() -> &'static str {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| {
        if let Ok(url) = std::env::var("CONTEXTURE_TEST_POSTGRES") {
            return url;
        }
        start(&[])
    })
}

/// Starts a server with `tests/postgres/start`, unless it runs. Returns its URL.
pub(crate) fn start(arguments: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/postgres/start");
    let started = Command::new(script).args(arguments).output().unwrap();
    let told = String::from_utf8_lossy(&started.stderr);
    assert!(started.status.success(), "{script} failed: {told}");
    String::from_utf8(started.stdout).unwrap().trim().to_owned()
}

/// A separate schema on the server, removed at the end.
pub(crate) struct Schema {
    name: String,
    pub(crate) url: String,
}

impl Schema {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        let url = format!("{}?schema={name}", server());
        let schema = Self { name, url };
        // A schema of an earlier process with this number may remain.
        schema.drop_tables();
        schema
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn open(&self) -> PostgresStore {
        self.open_with(Options::default())
    }

    pub(crate) fn open_with(&self, options: Options) -> PostgresStore {
        PostgresStore::open_with(&self.url, options).unwrap()
    }

    fn drop_tables(&self) {
        run(&format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", self.name));
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.drop_tables();
        }
    }
}

/// Runs statements on the server.
pub(crate) fn run(sql: &str) {
    run_at(server(), sql);
}

/// Runs statements on the server at a URL.
pub(crate) fn run_at(url: &str, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        let driven = tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
        drop(client);
        driven.await.unwrap().unwrap();
    });
}
