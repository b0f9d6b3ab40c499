//! Turns are recorded without reading a session that the process knows, and only if
//! no other process has changed it.
#![allow(clippy::unwrap_used)]

mod support;

use contexture_core::ContentHash;
use contexture_postgres::PostgresStore;
use contexture_store::{
    Blob, Call, Ledger as _, Message, MessageContent, MessageRole, NewSession, NewTurn,
    PendingSnapshot, ReadAhead, Recorded, SessionChange, Snapshot, Snapshots as _,
};
use jiff::Timestamp;
use support::Schema;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn turn(text: &str) -> NewTurn {
    let message = |role, text: &str| Message {
        role,
        source: None,
        content: MessageContent::Text(text.to_owned()),
        tool_call_id: None,
        is_error: false,
        context_json: None,
    };
    NewTurn {
        messages: vec![
            message(MessageRole::User, text),
            message(MessageRole::Assistant, "yes"),
        ],
        ..NewTurn::default()
    }
}

/// Records a turn as the engine does. Returns `None` if the session has changed,
/// and the number of round trips.
fn record(store: &PostgresStore, second: i64) -> (Option<Recorded>, u64) {
    let before = store.backend().round_trips();
    let recorded = Call::default().run(|| {
        store.read_ahead(&ReadAhead {
            session: Some("main"),
            snapshots: 2,
            is_cached: true,
            ..ReadAhead::default()
        });
        let session = store.session("main").unwrap();
        let snapshots = store.snapshots(Some("main"), 2).unwrap();
        assert!(snapshots.len() <= 2);
        let text = format!("turn {} at {second}", session.turns + 1);
        let recorded = store.record_as_read("main", &turn(&text), None, None, at(second));
        recorded.unwrap()
    });
    (recorded, store.backend().round_trips() - before)
}

fn save(store: &PostgresStore, text: &str) {
    let blob = Blob {
        hash: ContentHash::of(text.as_bytes()),
        bytes: text.as_bytes().to_vec(),
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    store.put_snapshot_later(PendingSnapshot {
        snapshot: Snapshot {
            hash: blob.hash,
            session: "main".to_owned(),
            parent_turn: store.session("main").unwrap().head,
            model: "m".to_owned(),
            tokens: 1,
            counter: "c".to_owned(),
            root: blob.hash,
            created_at: at(0),
        },
        report: Some(text.as_bytes().to_vec()),
        blobs: vec![blob.clone()],
        builds_on: None,
        made_of: None,
        done: Box::new(move |done| drop(sender.send(done))),
    });
    receiver.recv().unwrap().unwrap();
    let report = store.snapshot_report(blob.hash).unwrap();
    assert_eq!(report.as_deref(), Some(text.as_bytes()));
}

#[test]
fn a_known_session_is_not_read_again() {
    let schema = Schema::new();
    let store = schema.open();
    let new = NewSession {
        label: "main".to_owned(),
        ..NewSession::default()
    };
    store.create_session(&new, at(0)).unwrap();
    let (first, trips) = record(&store, 1);
    assert_eq!((first.unwrap().depth, trips), (1, 3));
    for second in 2..5 {
        let (recorded, trips) = record(&store, second);
        assert_eq!(recorded.unwrap().depth, second as u64);
        assert_eq!(trips, 2);
    }
    // Snapshots of the same process are known, also those beyond the limit.
    for second in 5..10 {
        save(&store, &format!("request {second}"));
        assert_eq!(record(&store, second).1, 2);
    }
    save(&store, "request 7");
    assert_eq!(record(&store, 10).1, 2);
    // Another handle for the tenant shares the cache.
    assert_eq!(record(&store.for_tenant(""), 11).1, 2);
    assert_eq!(store.session("main").unwrap().turns, 11);
}

#[test]
fn a_session_that_another_process_has_changed_is_read_again() {
    let schema = Schema::new();
    let (store, other) = (schema.open(), schema.open());
    let new = NewSession {
        label: "main".to_owned(),
        ..NewSession::default()
    };
    store.create_session(&new, at(0)).unwrap();
    let changes: [&dyn Fn(i64); 5] = [
        &|second| {
            other
                .record("main", &turn("other"), None, None, at(second))
                .unwrap();
        },
        &|_| save(&other, "one"),
        &|_| {
            let change = SessionChange {
                remember: Some(true),
                ..SessionChange::default()
            };
            other.change_session("main", &change).unwrap();
        },
        &|second| {
            let head = other.session("main").unwrap().head;
            other
                .move_head("main", head, None, "test", at(second))
                .unwrap();
        },
        // The head is the same as before, but it has moved.
        &|second| {
            let head = other.session("main").unwrap().head;
            other
                .move_head("main", head, None, "test", at(second))
                .unwrap();
            other
                .move_head("main", None, head, "test", at(second))
                .unwrap();
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let number = number as i64 * 1000;
        // Until the state is cached.
        let mut second = number + 1;
        while record(&store, second).1 != 2 {
            second += 1;
            assert!(second < number + 100);
        }
        change(second + 1);
        let before = other.session("main").unwrap();
        assert!(record(&store, second + 2).0.is_none(), "change {number}");
        assert_eq!(other.session("main").unwrap(), before);
        let (recorded, trips) = record(&store, second + 3);
        assert_eq!((recorded.unwrap().depth, trips), (before.turns + 1, 3));
    }
}
