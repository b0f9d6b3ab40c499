//! A standby, which answers reads and refuses writes.
#![allow(clippy::unwrap_used)]

mod support;

use std::thread;
use std::time::Duration;

use contexture_postgres::PostgresStore;
use contexture_store::{Ledger as _, NewSession, NewTurn, StoreError, Tenants as _};
use jiff::Timestamp;
use serde_json::json;

use crate::support::{run_at, start};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn session(label: &str) -> NewSession {
    NewSession {
        label: label.to_owned(),
        ..NewSession::default()
    }
}

#[test]
fn a_standby_reads_and_refuses_writes() {
    let standby = start(&["standby"]);
    let primary = start(&["secure"]);
    let primary = primary.split('?').next().unwrap();
    let schema = format!("standby_{}", std::process::id());
    run_at(primary, &format!("DROP SCHEMA IF EXISTS {schema} CASCADE"));
    let (on_primary, on_standby) = (
        format!("{primary}?schema={schema}"),
        format!("{standby}?schema={schema}"),
    );

    // There are no tables, and none can be created.
    let error = PostgresStore::open(&on_standby).map(|_| ()).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");

    let store = PostgresStore::open(&on_primary).unwrap();
    store.create_session(&session("s"), NOW).unwrap();
    // The standby follows.
    let reader = (0..600).find_map(|_| {
        thread::sleep(Duration::from_millis(50));
        let reader = PostgresStore::open(&on_standby).ok()?;
        reader.session("s").is_ok().then_some(reader)
    });
    let reader = reader.unwrap();

    let turn: NewTurn = serde_json::from_value(json!({"messages": [
        {"role": "user", "content": "one"}, {"role": "assistant", "content": "yes"}]}))
    .unwrap();
    let read_only = [
        reader.create_session(&session("t"), NOW).map(|_| ()),
        reader.record("s", &turn, None, None, NOW).map(|_| ()),
        // Another tenant's row would have to be added.
        (reader.for_tenant("new").create_session(&session("t"), NOW)).map(|_| ()),
        reader.ping(),
    ];
    for error in read_only {
        let error = error.unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
    }
    // Reads go on, with the same connections.
    assert_eq!(reader.session("s").unwrap().turns, 0);

    // The URL can ask for the primary.
    let hosts = |url: &str| {
        let host = url.split('@').nth(1).unwrap().split('/').next().unwrap();
        host.to_owned()
    };
    let wanted = "target_session_attrs=read-write";
    let alone = format!("{on_standby}&{wanted}");
    let error = PostgresStore::open(&alone).map(|_| ()).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    let both = format!(
        "postgres://postgres@{},{}/postgres?schema={schema}&{wanted}",
        hosts(&on_standby),
        hosts(&on_primary),
    );
    let store = PostgresStore::open(&both).unwrap();
    store.record("s", &turn, None, None, NOW).unwrap();
    run_at(primary, &format!("DROP SCHEMA {schema} CASCADE"));
}
