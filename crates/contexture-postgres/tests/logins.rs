//! Logins with passwords, and TLS, on a server that requires them.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use contexture_postgres::{Options, PostgresStore};
use contexture_sql::Backend as _;
use contexture_store::{Events as _, Ledger as _, NewSession, NewTurn, StoreError};
use jiff::Timestamp;
use serde_json::json;

use crate::support::proxy::Proxy;
use crate::support::{run_at, start};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// The password of all users, with characters that a URL and SQL treat specially.
const PASSWORD: &str = "p@ss'w\u{f6}rd/%3A";
const PASSWORD_IN_URL: &str = "p%40ss%27w%C3%B6rd%2F%253A";

/// The server with TLS and passwords.
struct Secure {
    port: String,
    /// The certificates of authorities: the one that signed the server's certificate, and
    /// another one.
    root: PathBuf,
    other_root: PathBuf,
}

fn secure() -> &'static Secure {
    static SECURE: OnceLock<Secure> = OnceLock::new();
    SECURE.get_or_init(|| {
        let url = start(&["secure"]);
        let port = url.split(':').nth(2).unwrap().split('/').next().unwrap();
        let root = PathBuf::from(url.split("sslrootcert=").nth(1).unwrap());
        let secure = Secure {
            port: port.to_owned(),
            other_root: root.with_file_name("other.pem"),
            root,
        };
        for (user, kind) in [
            ("by_scram", "scram-sha-256"),
            ("by_other", "scram-sha-256"),
            ("by_tls", "scram-sha-256"),
            ("by_text", "scram-sha-256"),
            ("by_md5", "md5"),
        ] {
            // Other processes of tests create the same users.
            let password = PASSWORD.replace('\'', "''");
            secure.run(&format!(
                "DO $$ BEGIN
                     PERFORM pg_advisory_xact_lock(1);
                     IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{user}') THEN
                         SET LOCAL password_encryption = '{kind}';
                         CREATE ROLE {user} LOGIN PASSWORD '{password}';
                         GRANT CREATE ON DATABASE postgres TO {user};
                     END IF;
                 END $$"
            ));
        }
        secure
    })
}

impl Secure {
    fn run(&self, sql: &str) {
        run_at(&format!("{}/postgres", self.host("postgres")), sql);
    }

    fn host(&self, user: &str) -> String {
        format!("postgres://{user}@localhost:{}", self.port)
    }

    /// Returns a URL with a schema of its own.
    fn url(&self, user: &str, password: &str, parameters: &str) -> String {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let schema = format!("login_{}_{number}", std::process::id());
        self.run(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE"));
        let host = self.host(&format!("{user}:{password}"));
        format!("{host}/postgres?schema={schema}&{parameters}")
    }

    /// Returns a URL for a connection with TLS.
    fn tls_url(&self, user: &str, parameters: &str) -> String {
        let root = self.root.display();
        let tls = format!("sslmode=verify-full&sslrootcert={root}&{parameters}");
        self.url(user, PASSWORD_IN_URL, &tls)
    }
}

fn session(label: &str) -> NewSession {
    NewSession {
        label: label.to_owned(),
        ..NewSession::default()
    }
}

/// Writes and reads, and returns whether the connection has TLS.
fn use_store(store: &PostgresStore) -> bool {
    store.create_session(&session("s"), NOW).unwrap();
    let turn: NewTurn = serde_json::from_value(json!({"messages": [
        {"role": "user", "content": "x".repeat(100_000)},
        {"role": "assistant", "content": "yes"}]}))
    .unwrap();
    let recorded = store.record("s", &turn, None, None, NOW).unwrap();
    let read = store.turns(&[recorded.id], "none").unwrap();
    assert_eq!(read[0].turn.messages, turn.messages);
    let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let read =
        |db: &contexture_sql::Connection, _| Ok(db.query_row(sql, (), |row| row.get::<bool>(0))?);
    store.backend().read(read).unwrap()
}

fn refused(url: &str) -> String {
    let error = PostgresStore::open(url).map(|_| ()).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    let message = error.to_string();
    assert!(!message.contains(PASSWORD), "{message}");
    message
}

#[test]
fn a_password_is_sent_in_the_way_that_the_server_wants() {
    for user in ["by_scram", "by_md5", "by_text"] {
        let plain = secure().url(user, PASSWORD_IN_URL, "sslmode=disable");
        assert!(!use_store(&PostgresStore::open(&plain).unwrap()), "{user}");
        let encrypted = secure().tls_url(user, "");
        let store = PostgresStore::open(&encrypted).unwrap();
        assert!(use_store(&store), "{user}");
    }
}

/// A wrong password is refused with the first connection: a server that tried again and
/// again would have the user locked out.
#[test]
fn a_wrong_password_is_tried_once() {
    for user in ["by_scram", "by_md5", "by_text"] {
        let url = secure().url(user, "wrong", "sslmode=disable");
        let proxy = Proxy::start(&url);
        let message = refused(&proxy.url(&url));
        assert!(
            message.contains("password authentication failed"),
            "{message}"
        );
        assert!(!message.contains("wrong"), "{message}");
        assert_eq!(proxy.cuts.connections.load(Ordering::Acquire), 1, "{user}");
        let url = url.replace(":wrong@", "@");
        let message = refused(&url);
        assert!(message.contains("add it to the URL"), "{message}");
    }
}

#[test]
fn a_password_that_changes_later_is_noticed() {
    let secure = secure();
    let url = secure.url("by_other", PASSWORD_IN_URL, "sslmode=disable");
    let proxy = Proxy::start(&url);
    let store = PostgresStore::open(&proxy.url(&url)).unwrap();
    store.create_session(&session("before"), NOW).unwrap();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'by_other'";
    secure.run(&format!("ALTER ROLE by_other PASSWORD 'new'; {end}"));
    std::thread::sleep(Duration::from_millis(50));
    let made = || proxy.cuts.connections.load(Ordering::Acquire);
    for label in ["one", "two"] {
        let before = made();
        let error = store.create_session(&session(label), NOW).unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("password"), "{error}");
        assert_eq!(made() - before, 1);
    }
    let password = PASSWORD.replace('\'', "''");
    secure.run(&format!("ALTER ROLE by_other PASSWORD '{password}'"));
    store.create_session(&session("after"), NOW).unwrap();
}

#[test]
fn the_certificate_of_the_server_is_checked() {
    let secure = secure();
    let url = secure.tls_url("by_tls", "");
    let store = PostgresStore::open(&url).unwrap();
    assert!(use_store(&store));
    // A setting is the same as the parameter of the URL.
    let root = format!("&sslrootcert={}", secure.root.display());
    let options = Options {
        tls_root_certificates: Some(secure.root.clone()),
        ..Options::default()
    };
    PostgresStore::open_with(&url.replace(&root, ""), options).unwrap();
    // The certificate is for `localhost`.
    let by_address = url.replace("@localhost", "@127.0.0.1");
    assert!(
        refused(&by_address).contains("not valid for name"),
        "{by_address}"
    );
    let elsewhere = url.replace("@localhost", "@db.example") + "&hostaddr=127.0.0.1";
    assert!(
        refused(&elsewhere).contains("not valid for name"),
        "{elsewhere}"
    );
    // The name is checked, not the address.
    PostgresStore::open(&format!("{url}&hostaddr=127.0.0.1")).unwrap();
    // Another authority, and those that browsers trust.
    let other = url.replace("/ca.pem", "/other.pem");
    assert!(secure.other_root.exists());
    assert!(
        refused(&other).contains("invalid peer certificate"),
        "{other}"
    );
    let browsers = url.replace(&root, "");
    assert!(refused(&browsers).contains("UnknownIssuer"), "{browsers}");
}

#[test]
fn a_file_without_certificates_is_refused() {
    let secure = secure();
    for file in ["none.pem", "server.key", "ca.key"] {
        let file = secure.root.with_file_name(file);
        let url = secure.url("by_tls", PASSWORD_IN_URL, "sslmode=verify-full");
        let url = format!("{url}&sslrootcert={}", file.display());
        let error = PostgresStore::open(&url).map(|_| ()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("cannot read the certificates"), "{error}");
    }
}

#[test]
fn a_user_that_needs_tls_is_refused_without_it() {
    let url = secure().url("by_tls", PASSWORD_IN_URL, "sslmode=disable");
    let message = refused(&url);
    assert!(message.contains("by_tls"), "{message}");
    assert!(message.contains("no encryption"), "{message}");
}

/// A login is bound to the certificate of the server, so that nobody in between can pass
/// it on. With `channel_binding=require`, other ways to log in are refused.
#[test]
fn a_login_can_be_bound_to_the_certificate() {
    let secure = secure();
    let bound = secure.tls_url("by_scram", "channel_binding=require");
    let store = PostgresStore::open(&bound).unwrap();
    assert!(use_store(&store));
    let unbound = secure.tls_url("by_scram", "channel_binding=disable");
    assert!(use_store(&PostgresStore::open(&unbound).unwrap()));
    for (user, tls) in [
        // The server asks for the password in another way.
        ("by_md5", true),
        ("by_text", true),
        // It asks for none.
        ("postgres", true),
        ("by_scram", false),
    ] {
        let require = "channel_binding=require";
        let url = match tls {
            true => secure.tls_url(user, require),
            false => {
                let plain = format!("sslmode=disable&{require}");
                secure.url(user, PASSWORD_IN_URL, &plain)
            }
        };
        let message = refused(&url);
        assert!(message.contains("channel_binding=require"), "{message}");
    }
}

/// Notifications of events have a connection of their own, which logs in as well.
#[test]
fn events_are_announced_over_tls() {
    let url = secure().tls_url("by_tls", "channel_binding=require");
    let (one, other) = (
        PostgresStore::open(&url).unwrap(),
        PostgresStore::open(&url).unwrap(),
    );
    let (told, hears) = mpsc::channel();
    let hint = move |tenant: &str| {
        let _ = told.send(tenant.to_owned());
    };
    other.backend().on_event(std::sync::Arc::new(hint));
    one.backend().on_event(std::sync::Arc::new(|_: &str| {}));
    let acme = one.for_tenant("acme");
    acme.create_session(&session("s"), NOW).unwrap();
    // The listener may not be there for the first ones.
    let heard = (0..600).find_map(|_| {
        acme.put_event("test", "s", Default::default(), NOW);
        hears.recv_timeout(Duration::from_millis(100)).ok()
    });
    assert_eq!(heard.as_deref(), Some("acme"));
}
