//! The store goes away, is something else, or takes no more, while it is
//! served.
#![cfg(unix)]

use std::fs;

use contexture::store::Tenants as _;
use contexture_sqlite::{Options, SqliteStore};

use crate::support::{Answer, Client, Lab, Running, talk, turn, until};

const GONE: &str = "503 unavailable: the store is unavailable [retry after `retry-after` seconds]";

/// Every call that needs the store reports that it is unavailable; the others
/// work.
fn is_unavailable(server: &Running, client: &Client) {
    // A successful check is reused for a moment.
    until(|| (client.get("/readyz").status == 503).then_some(()));
    let asked: [Answer; 6] = [
        client.get("/v1/sessions"),
        client.get("/v1/sessions/s/history"),
        client.post("/v1/sessions", r#"{"label":"lost"}"#),
        client.post("/v1/sessions/s/turns", &turn("Lost.")),
        client.get("/v1/tasks"),
        client.get("/readyz"),
    ];
    for answer in asked {
        assert_eq!(answer.text(), GONE);
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    assert_eq!(server.get("/healthz").text(), r#"200 {"status":"ok"}"#);
    server.get("/openapi.json").ok(200);
}

/// By itself, as soon as the store is there again.
fn is_well(client: &Client, turns: u64) {
    until(|| (client.get("/readyz").status == 200).then_some(()));
    assert_eq!(client.get("/v1/sessions/s").ok(200).json()["turns"], turns);
    client
        .post("/v1/sessions/s/turns", &turn("Once more."))
        .ok(201);
    assert_eq!(
        client.get("/v1/sessions/s").ok(200).json()["turns"],
        turns + 1
    );
}

#[test]
fn a_deleted_store_is_used_again_after_it_is_restored() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    talk(&client, "s", "First.");
    let (path, away) = (lab.path(".contexture/contexture.db"), lab.path("away.db"));
    for turns in 1..3 {
        fs::rename(&path, &away).unwrap();
        is_unavailable(&server, &client);
        // Something else in its place is not written to.
        fs::write(&path, "something else").unwrap();
        is_unavailable(&server, &client);
        assert_eq!(fs::read_to_string(&path).unwrap(), "something else");
        fs::rename(&away, &path).unwrap();
        is_well(&client, turns);
    }
}

#[test]
fn keys_are_required_while_the_store_is_unavailable() {
    let lab = Lab::new();
    // Others have files of their own, which are still there.
    let key = lab.key("");
    let server = lab.serve();
    let client = server.with_key(&key);
    talk(&client, "s", "First.");
    let (path, away) = (lab.path(".contexture/contexture.db"), lab.path("away.db"));
    fs::rename(&path, &away).unwrap();
    // A caller without a key does not learn the state of the store.
    assert_eq!(server.get("/v1/sessions").status, 401);
    until(|| {
        // A key that was looked up is cached for a moment, but no call succeeds
        // without the store.
        let answer = client.get("/v1/sessions");
        assert_eq!(answer.status, 503, "{}", answer.body);
        assert!(!answer.body.contains("away") && !answer.body.contains(".db"));
        let unknown = server.with_key(&Lab::new().key("")).get("/v1/sessions");
        (unknown.status == 503).then_some(())
    });
    fs::rename(&away, &path).unwrap();
    is_well(&client, 1);
}

#[test]
fn metrics_are_shown_while_the_store_is_unavailable() {
    let lab = Lab::new();
    let (key, metrics) = (lab.key(""), lab.metrics_key());
    let server = lab.serve();
    talk(&server.with_key(&key), "s", "First.");
    let scraper = server.with_key(&metrics);
    scraper.get("/metrics").ok(200);
    let (path, away) = (lab.path(".contexture/contexture.db"), lab.path("away.db"));
    fs::rename(&path, &away).unwrap();
    until(|| (server.get("/readyz").status == 503).then_some(()));
    // The key was looked up too long ago to be used without the store elsewhere.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    let shown = scraper.get("/metrics").ok(200).body;
    assert!(shown.contains("contexture_requests_waiting"), "{shown}");
    // Other keys, and other calls with the key, are refused.
    assert_eq!(server.with_key(&key).get("/v1/sessions").status, 503);
    assert_eq!(server.get("/metrics").status, 401);
    let unknown = Lab::new().metrics_key();
    assert_eq!(server.with_key(&unknown).get("/metrics").status, 503);
    fs::rename(&away, &path).unwrap();
    is_well(&server.with_key(&key), 1);
}

#[test]
fn a_full_store_can_still_be_read() {
    let mut lab = Lab::new();
    let options = Options {
        max_bytes: Some(2 << 20),
        ..Options::default()
    };
    let path = lab.path(".contexture/contexture.db");
    lab.stores = SqliteStore::open_with(&path, options).unwrap();
    let server = lab.serve();
    let client = server.anybody();
    talk(&client, "s", "First.");
    let large = turn(&"large ".repeat(20_000));
    let refused = until(|| {
        Some(client.post("/v1/sessions/s/turns", &large)).filter(|answer| answer.status != 201)
    });
    assert_eq!(
        refused.text(),
        "507 store_full: the disk of the store is full; nothing was written [free disk space on \
         the machine of the store, then retry]"
    );
    let turns = client.get("/v1/sessions/s").ok(200).json()["turns"].clone();
    let history = client.get("/v1/sessions/s/history").ok(200).json();
    assert_eq!(history["total"], turns);
}

#[test]
fn a_read_only_store_can_still_be_read() {
    let mut lab = Lab::new();
    let writer = lab.serve();
    talk(&writer.anybody(), "s", "First.");
    drop(writer);
    lab.stores = SqliteStore::open_read_only(lab.path(".contexture/contexture.db")).unwrap();
    let server = lab.serve();
    let client = server.anybody();
    assert_eq!(client.get("/v1/sessions/s").ok(200).json()["turns"], 1);
    let refused = client.post("/v1/sessions/s/turns", &turn("Lost."));
    assert_eq!(refused.text(), GONE);
    assert_eq!(client.get("/readyz").text(), GONE);
    server.get("/healthz").ok(200);
}

/// A process that ended between two steps of a deletion leaves a hidden session. The
/// next server deletes the rest, even if the tenant is unused.
#[test]
fn a_deletion_is_continued_after_a_restart_without_a_call_of_the_tenant() {
    let lab = Lab::new();
    let (key, metrics) = (lab.key("harbour"), lab.metrics_key());
    {
        let server = lab.serve();
        let client = server.with_key(&key);
        talk(&client, "s", "First.");
        for said in ["Second.", "Third."] {
            client.post("/v1/sessions/s/turns", &turn(said)).ok(201);
        }
    }
    let main = lab.path(".contexture/contexture.db");
    let pending = {
        let stores = SqliteStore::open(&main).unwrap();
        let tenant = stores.for_tenant("harbour");
        let deleted = tenant.delete_session_in_steps("s", 1, 3).unwrap();
        deleted.pending && stores.stats().unwrap().pending_deletions == Some(1)
    };
    assert!(pending);
    let file = contexture_sqlite::tenants_directory(main).join("t-harbour.db");
    let db = rusqlite::Connection::open(file).unwrap();
    let server = lab.serve();
    until(|| {
        let rows = "SELECT (SELECT count(*) FROM pending_deletions) + (SELECT count(*) FROM turns)";
        let rows: i64 = db.query_row(rows, [], |row| row.get(0)).unwrap();
        (rows == 0).then_some(())
    });
    let metrics = server.with_key(&metrics);
    until(|| {
        let text = metrics.get("/metrics").ok(200).body;
        text.contains("contexture_store_pending_deletions 0\n")
            .then_some(())
    });
    server.with_key(&key).get("/v1/sessions/s").ok(404);
}

/// A process that ended before it had overwritten deleted text leaves a mark in
/// the tenant's file. The next server overwrites it, even if the tenant is
/// unused.
#[test]
fn deleted_text_is_overwritten_after_a_restart_without_a_call_of_the_tenant() {
    let lab = Lab::new();
    let (key, metrics) = (lab.key("harbour"), lab.metrics_key());
    {
        let server = lab.serve();
        talk(&server.with_key(&key), "s", "First.");
    }
    let main = lab.path(".contexture/contexture.db");
    let file = contexture_sqlite::tenants_directory(main).join("t-harbour.db");
    let db = rusqlite::Connection::open(file).unwrap();
    db.execute("INSERT INTO unclean_files (since) VALUES (0)", [])
        .unwrap();
    let server = lab.serve();
    until(|| {
        let marks = "SELECT count(*) FROM unclean_files";
        let marks: i64 = db.query_row(marks, [], |row| row.get(0)).unwrap();
        (marks == 0).then_some(())
    });
    let metrics = server.with_key(&metrics);
    until(|| {
        let text = metrics.get("/metrics").ok(200).body;
        text.contains("contexture_store_pending_forgetting 0\n")
            .then_some(())
    });
    assert_eq!(
        server.with_key(&key).get("/v1/sessions/s").ok(200).json()["turns"],
        1
    );
}
