//! Turns that are written with the next request of their call. A store that cannot do
//! that writes nothing.

use std::sync::mpsc;

use contexture_core::ContentHash;
use contexture_store::{
    Blob, Call, PendingSnapshot, Recorded, Session, SessionChange, SessionStatus, Snapshot, Store,
    StoreError, TurnId, Walk,
};

use super::at;
use crate::deletion::{create, said, talk};

/// Hands over a turn to be written later.
fn defer(store: &dyn Store, label: &str, text: &str) -> Option<Recorded> {
    let turn = said(text);
    let session = store.session(label).unwrap();
    let kept = store.record_with_request(&session, &turn, None, None, at(5));
    kept.unwrap()
}

/// Saves a request that follows the head of a session.
fn save(store: &dyn Store, text: &str, builds_on: Option<ContentHash>) -> Result<(), StoreError> {
    let root = Blob {
        hash: ContentHash::of(text.as_bytes()),
        bytes: text.as_bytes().into(),
    };
    let head = store.session("s").unwrap().head;
    let (sender, receiver) = mpsc::channel();
    store.put_snapshot_later(PendingSnapshot {
        snapshot: Snapshot {
            hash: root.hash,
            session: "s".to_owned(),
            parent_turn: head,
            model: "gpt-4o".to_owned(),
            tokens: 12,
            counter: "words".to_owned(),
            root: root.hash,
            created_at: at(5),
        },
        blobs: vec![root],
        report: None,
        builds_on,
        made_of: Some(head.into_iter().collect()),
        done: Box::new(move |done| drop(sender.send(done))),
    });
    receiver.recv().unwrap()
}

/// Returns what another caller reads.
fn by_another<T: Send>(read: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|threads| threads.spawn(read).join().unwrap())
}

fn head(store: &dyn Store) -> Option<TurnId> {
    store.session("s").unwrap().head
}

fn requests(store: &dyn Store) -> Vec<Option<TurnId>> {
    let saved = store.snapshots(Some("s"), 9).unwrap();
    saved.iter().map(|snapshot| snapshot.parent_turn).collect()
}

/// Runs `test` in a call, with a session `s` whose only turn is passed.
fn in_call(store: &dyn Store, test: impl FnOnce(&Call, TurnId)) {
    create(store, "s");
    let first = talk(store, "s", &["one"])[0];
    let call = Call::default();
    call.run(|| test(&call, first));
    assert_eq!(store.verify().unwrap().damaged, []);
}

pub fn a_turn_is_written_with_its_request(store: &dyn Store) {
    in_call(store, |_, first| {
        let Some(recorded) = defer(store, "s", "two") else {
            assert!(store.finish_turn(first));
            assert_eq!(head(store), Some(first));
            return;
        };
        assert_eq!(recorded.parent, Some(first));
        assert_eq!((recorded.depth, recorded.replayed), (2, false));
        // The call sees its turn, and others do not.
        let session = store.session("s").unwrap();
        assert_eq!((session.head, session.turns), (Some(recorded.id), 2));
        by_another(|| assert_eq!(head(store), Some(first)));
        save(store, "request", None).unwrap();
        by_another(|| {
            assert_eq!(store.session("s").unwrap(), session);
            assert_eq!(requests(store), [Some(recorded.id)]);
            let turn = &store.turns(&[recorded.id], "").unwrap()[0];
            assert_eq!(turn.turn, said("two"));
        });
        assert!(store.finish_turn(recorded.id));
        // The next turn of the call.
        let next = defer(store, "s", "three").unwrap();
        assert_eq!(next.parent, Some(recorded.id));
        assert!(store.finish_turn(next.id));
        by_another(|| assert_eq!(head(store), Some(next.id)));
    });
}

pub fn every_query_finds_a_turn_that_waits(store: &dyn Store) {
    create(store, "s");
    let queries: [&dyn Fn(TurnId); 4] = [
        &|id| assert_eq!(store.turns(&[id], "").unwrap()[0].id, id),
        &|id| {
            let everything = Walk {
                counter: "",
                tokens: u64::MAX,
                at_least: 0,
                through: None,
            };
            assert_eq!(store.walk(id, &everything).unwrap()[0].id, id);
        },
        &|id| assert_eq!(store.head_moves("s", 1).unwrap()[0].to, Some(id)),
        &|id| {
            let next = said("next");
            let next = store.record("s", &next, None, None, at(6)).unwrap();
            assert_eq!(next.parent, Some(id));
        },
    ];
    for (i, query) in queries.iter().enumerate() {
        Call::default().run(|| {
            if let Some(recorded) = defer(store, "s", &format!("turn {i}")) {
                query(recorded.id);
                assert!(store.finish_turn(recorded.id));
            }
        });
    }
    assert_eq!(store.verify().unwrap().damaged, []);
}

pub fn a_turn_that_waits_is_written_without_a_request(store: &dyn Store) {
    in_call(store, |_, _| {
        if let Some(recorded) = defer(store, "s", "two") {
            // Only one turn of a call waits.
            assert_eq!(defer(store, "s", "three"), None);
            assert!(store.finish_turn(recorded.id));
            by_another(|| assert_eq!(head(store), Some(recorded.id)));
            assert!(store.finish_turn(recorded.id));
            assert_eq!(store.session("s").unwrap().turns, 2);
        }
    });
}

pub fn a_turn_that_waits_does_not_replace_another(store: &dyn Store) {
    in_call(store, |_, first| {
        let Some(lost) = defer(store, "s", "two") else {
            return;
        };
        let other = said("another two");
        let other = by_another(|| store.record("s", &other, None, None, at(4)).unwrap());
        assert_eq!(other.parent, Some(first));
        // The request was made of a turn that there is not.
        save(store, "request", None).unwrap_err();
        // The call must not go on without its turn.
        let stopped = |error| assert!(matches!(error, StoreError::Withdrawn), "{error}");
        stopped(store.turns(&[first], "").unwrap_err());
        let three = said("three");
        let three = store.record("s", &three, None, None, at(6));
        stopped(three.unwrap_err());
        assert_eq!(defer(store, "s", "three"), None);
        // Another turn of the call does not change that.
        assert!(store.finish_turn(other.id));
        assert!(!store.finish_turn(lost.id));
        assert_eq!(head(store), Some(other.id));
        assert_eq!(requests(store), []);
        // The call begins again.
        let again = defer(store, "s", "two").unwrap();
        assert_eq!(again.parent, Some(other.id));
        save(store, "request", None).unwrap();
        assert!(store.finish_turn(again.id));
        by_another(|| assert_eq!(head(store), Some(again.id)));
        assert_eq!(requests(store), [Some(again.id)]);
    });
}

pub fn a_turn_is_written_although_its_request_is_refused(store: &dyn Store) {
    in_call(store, |_, _| {
        if let Some(recorded) = defer(store, "s", "two") {
            let deleted = Some(ContentHash::of(b"deleted"));
            let refused = save(store, "request", deleted).unwrap_err();
            assert!(matches!(refused, StoreError::NotFound { .. }));
            assert!(store.finish_turn(recorded.id));
            by_another(|| assert_eq!(head(store), Some(recorded.id)));
            assert_eq!(requests(store), []);
        }
    });
}

pub fn a_turn_of_a_cancelled_call_is_not_written(store: &dyn Store) {
    in_call(store, |call, first| {
        if let Some(recorded) = defer(store, "s", "two") {
            assert!(call.withdraw());
            save(store, "request", None).unwrap_err();
            assert!(!store.finish_turn(recorded.id));
            by_another(|| assert_eq!(head(store), Some(first)));
        }
    });
}

pub fn a_turn_that_cannot_be_recorded_does_not_wait(store: &dyn Store) {
    in_call(store, |_, first| {
        let mut stale = said("two");
        stale.parent_turn_id = None.into();
        let session = store.session("s").unwrap();
        let kept = store.record_with_request(&session, &stale, None, None, at(5));
        assert!(matches!(kept, Ok(None) | Err(StoreError::Conflict { .. })));
        // The session has moved on since it was read.
        let earlier = Session {
            head: None,
            ..session.clone()
        };
        let two = said("two");
        let kept = store.record_with_request(&earlier, &two, None, None, at(5));
        assert_eq!(kept.unwrap(), None);
        let unknown = Session {
            label: "t".to_owned(),
            ..session.clone()
        };
        let kept = store.record_with_request(&unknown, &two, None, None, at(5));
        assert!(matches!(kept, Ok(None) | Err(StoreError::NotFound { .. })));
        let closed = SessionChange {
            status: Some(SessionStatus::Completed),
            ..SessionChange::default()
        };
        store.change_session("s", &closed).unwrap();
        let kept = store.record_with_request(&session, &two, None, None, at(5));
        assert!(matches!(kept, Ok(None) | Err(StoreError::Closed { .. })));
        assert!(store.finish_turn(first));
        assert_eq!(head(store), Some(first));
    });
    // Without a call, nothing can wait.
    create(store, "free");
    assert_eq!(defer(store, "free", "one"), None);
}
