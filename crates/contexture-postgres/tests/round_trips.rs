//! Tests of the number of round trips to the database.
#![allow(clippy::unwrap_used)]

mod support;

use contexture_core::ContentHash;
use contexture_postgres::PostgresStore;
use contexture_store::{
    Blob, Call, Counted, Ledger, Message, MessageContent, MessageRole, NewSession, NewTurn,
    ParentTurn, PendingSnapshot, ReadAhead, Samples as _, Snapshot, Snapshots as _, StoreError,
    TurnId,
};
use jiff::Timestamp;
use support::Schema;

fn message(role: MessageRole, text: &str) -> Message {
    Message {
        role,
        source: None,
        content: MessageContent::Text(text.to_owned()),
        tool_call_id: None,
        is_error: false,
        context_json: None,
    }
}

fn turn(text: &str) -> NewTurn {
    NewTurn {
        messages: vec![
            message(MessageRole::User, text),
            message(MessageRole::Assistant, "yes"),
        ],
        ..NewTurn::default()
    }
}

/// Returns the result of `work`, and the number of its round trips.
fn counted<T>(store: &PostgresStore, work: impl FnOnce() -> T) -> (T, u64) {
    let before = store.backend().round_trips();
    let done = work();
    (done, store.backend().round_trips() - before)
}

fn record(store: &PostgresStore, turn: &NewTurn, at: i64) -> u64 {
    let counted_turn = Counted {
        counter: "test".to_owned(),
        blocks: vec![vec![3], vec![1]],
    };
    let at = Timestamp::from_second(1_800_000_000 + at).unwrap();
    let (recorded, trips) = counted(store, || {
        store.record("main", turn, Some(&counted_turn), None, at)
    });
    recorded.unwrap();
    trips
}

fn store_with_session(schema: &Schema) -> PostgresStore {
    let store = schema.open();
    let new = NewSession {
        label: "main".to_owned(),
        aliases: vec!["first".to_owned()],
        ..NewSession::default()
    };
    let at = Timestamp::from_second(1_800_000_000).unwrap();
    store.create_session(&new, at).unwrap();
    store
}

#[test]
fn a_recorded_turn_takes_two_round_trips() {
    let schema = Schema::new();
    let store = store_with_session(&schema);
    // The first turn also creates the counter.
    record(&store, &turn("one"), 1);
    assert_eq!(record(&store, &turn("two"), 2), 2);
    let with_key = NewTurn {
        idempotency_key: Some("k".to_owned()),
        ..turn("three")
    };
    assert_eq!(record(&store, &with_key, 3), 2);
    let head = store.session("main").unwrap().head.unwrap();
    let expecting = NewTurn {
        parent_turn_id: ParentTurn::Turn(head),
        ..turn("four")
    };
    assert_eq!(record(&store, &expecting, 4), 2);
    assert_eq!(record(&store, &with_key, 5), 2, "a retry");
}

#[test]
fn a_request_is_saved_in_one_round_trip() {
    let schema = Schema::new();
    let store = store_with_session(&schema);
    record(&store, &turn("one"), 1);
    let head = store.session("main").unwrap().head.unwrap();
    let save = |text: &str, builds_on: Option<ContentHash>, made_of: Vec<TurnId>| {
        let bytes = text.as_bytes().to_vec();
        let hash = ContentHash::of(text.as_bytes());
        let snapshot = Snapshot {
            hash,
            session: "main".to_owned(),
            parent_turn: Some(head),
            model: "m".to_owned(),
            tokens: 1,
            counter: "test".to_owned(),
            root: hash,
            created_at: Timestamp::from_second(1_800_000_009).unwrap(),
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        let pending = PendingSnapshot {
            snapshot,
            blobs: vec![Blob { hash, bytes }],
            report: Some(b"{}".to_vec()),
            builds_on,
            made_of: Some(made_of),
            done: Box::new(move |done| drop(sender.send(done))),
        };
        let ((), trips) = counted(&store, || store.put_snapshot_later(pending));
        (receiver.recv().unwrap().map(|()| hash), trips)
    };
    let (first, trips) = save("first", None, vec![head]);
    assert_eq!(trips, 1);
    let (second, trips) = save("second", Some(first.unwrap()), vec![head]);
    assert_eq!(trips, 1);
    assert_eq!(
        store.latest_snapshot("main").unwrap().unwrap().hash,
        second.unwrap()
    );
    // The first attempt writes nothing. The second attempt finds out why.
    let unknown = ContentHash::of(b"unknown");
    let other_turn = TurnId::from_bytes([7; 16]);
    for (builds_on, turn, what) in [
        (Some(unknown), head, "snapshot"),
        (None, other_turn, "turn"),
    ] {
        let (refused, trips) = save("third", builds_on, vec![head, turn]);
        let refused = refused.unwrap_err();
        assert!(
            matches!(refused, StoreError::NotFound { what: missing, .. } if missing == what),
            "{refused}"
        );
        assert_eq!(trips, 2);
        assert!(!store.has_blobs(&[ContentHash::of(b"third")]).unwrap());
    }
}

#[test]
fn reading_ahead_takes_one_round_trip() {
    let schema = Schema::new();
    let store = store_with_session(&schema);
    record(&store, &turn("one"), 1);
    let wanted = ReadAhead {
        session: Some("main"),
        pins: true,
        snapshots: 1,
        samples: Some(("model", "counter", 9)),
        memory: true,
        ..ReadAhead::default()
    };
    let ask = || {
        let session = store.session("main").unwrap();
        assert_eq!(session.aliases, ["first"]);
        assert_eq!(session.turns, 1);
        assert!(store.pins("main").unwrap().is_empty());
        assert!(store.latest_snapshot("main").unwrap().is_none());
        assert!(store.samples("model", "counter", 9).unwrap().is_empty());
    };
    let ((), apart) = counted(&store, ask);
    assert_eq!(apart, 4);
    Call::default().run(|| {
        let ((), ahead) = counted(&store, || store.read_ahead(&wanted));
        assert_eq!(ahead, 1);
        assert_eq!(counted(&store, ask).1, 0);
        // Each response is used once.
        assert_eq!(counted(&store, ask).1, 4);
        // After a write, rows that were read before are not used.
        store.read_ahead(&wanted);
        record(&store, &turn("two"), 2);
        assert_eq!(store.session("main").unwrap().turns, 2);
    });
    // An alias needs one more round trip, and a missing session is still an
    // error.
    assert_eq!(store.session("first").unwrap().label, "main");
    assert!(store.session("none").is_err());
}

#[test]
fn turns_are_read_in_as_many_round_trips_as_one() {
    let schema = Schema::new();
    let store = store_with_session(&schema);
    for i in 1..=40 {
        record(&store, &turn(&format!("turn {i}")), i);
    }
    let head = store.session("main").unwrap().head.unwrap();
    let walk = contexture_store::Walk {
        counter: "test",
        tokens: u64::MAX,
        at_least: 0,
        through: None,
    };
    let (heads, trips) = counted(&store, || store.walk(head, &walk).unwrap());
    assert_eq!(heads.len(), 40);
    assert!(trips <= 3, "{trips}");
    let ids: Vec<_> = heads.iter().map(|head| head.id).collect();
    let (one, trips_of_one) = counted(&store, || store.turns(&ids[..1], "test").unwrap());
    let (all, trips_of_all) = counted(&store, || store.turns(&ids, "test").unwrap());
    assert_eq!(one[0], all[0]);
    assert_eq!(all.len(), 40);
    assert_eq!(trips_of_one, trips_of_all);
    assert!(trips_of_all <= 3, "{trips_of_all}");
}
