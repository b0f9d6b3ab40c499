//! Events of sessions, and counts that servers share.

use contexture_store::{NewSession, NewTurn, Store, Tenants};
use serde_json::{Map, Value, json};

use super::at;

fn data(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(data) => data,
        _ => Map::new(),
    }
}

pub fn events_are_numbered_in_the_order_of_writes(store: &dyn Store) {
    let none = store.events(0, 10).unwrap();
    assert_eq!((none.oldest, none.latest, none.events.len()), (0, 0, 0));
    for label in ["a", "b"] {
        let new = NewSession {
            label: label.to_owned(),
            aliases: vec![format!("{label}-alias")],
            ..NewSession::default()
        };
        store.create_session(&new, at(1)).unwrap();
    }
    let turn: NewTurn = serde_json::from_value(json!({"messages": [
        {"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}]}))
    .unwrap();
    let first = store.record("a-alias", &turn, None, None, at(2)).unwrap();
    store.put_event("assembled", "b", data(json!({"tokens": 7})), at(3));
    // The event is written in the background, so it may not be visible yet.
    while store.events(0, 10).unwrap().latest < 2 {
        std::thread::yield_now();
    }
    let second = store.record("b", &turn, None, None, at(4)).unwrap();
    let page = store.events(0, 10).unwrap();
    assert_eq!((page.oldest, page.latest), (1, 3));
    let shown: Vec<Value> = page
        .events
        .iter()
        .map(|event| json!([event.number, event.kind, event.session, event.data]))
        .collect();
    assert_eq!(
        Value::from(shown),
        json!([
            [1, "turn_recorded", "a", {"turn_id": first.id.to_string(), "number": 1}],
            [2, "assembled", "b", {"tokens": 7}],
            [3, "turn_recorded", "b", {"turn_id": second.id.to_string(), "number": 1}],
        ])
    );
    assert_eq!(page.events[1].at, at(3));
    let rest = store.events(1, 1).unwrap();
    assert_eq!(rest.events, page.events[1..2]);
    assert_eq!(store.events(u64::MAX, 10).unwrap().events, []);
    // A turn that is not recorded causes no event.
    assert!(store.record("none", &turn, None, None, at(5)).is_err());
    // Events of a deleted session are not returned, and their numbers are not
    // used again.
    store.delete_session("b").unwrap();
    let page = store.events(0, 10).unwrap();
    assert_eq!(page.latest, 3);
    assert!(page.events.iter().all(|event| event.session != "b"));
    assert!(page.events[2].data.is_empty());
    store.record("a", &turn, None, None, at(6)).unwrap();
    assert_eq!(store.events(3, 10).unwrap().events[0].number, 4);
}

/// The time of the later events does not advance, between two multiples of 64
/// ms.
pub fn old_events_are_removed_by_their_number(store: &dyn Store) {
    const WEEK_MS: i64 = 7 * 24 * 3600 * 1000;
    let day = |ms| jiff::Timestamp::from_millisecond(ms).unwrap();
    let (first, later) = (day(64_000), day(64_000 + WEEK_MS + 7));
    for _ in 0..30 {
        store.put_event("assembled", "s", data(json!({})), first);
    }
    for _ in 30..63 {
        store.put_event("assembled", "s", data(json!({})), later);
    }
    let page = store.events(0, 100).unwrap();
    assert_eq!((page.oldest, page.latest), (1, 63));
    store.put_event("assembled", "s", data(json!({})), later);
    let page = store.events(0, 100).unwrap();
    assert_eq!((page.oldest, page.latest), (31, 64));
    // No event follows for a long time: the latest event remains, with its
    // number.
    let much_later = day(64_000 + 10 * WEEK_MS);
    for _ in 64..127 {
        store.put_event("assembled", "s", data(json!({})), later);
    }
    store.put_event("assembled", "s", data(json!({})), much_later);
    let page = store.events(0, 100).unwrap();
    assert_eq!((page.oldest, page.latest), (128, 128));
}

pub fn recorded_turns_remove_old_events(store: &dyn Store) {
    const WEEK_MS: i64 = 7 * 24 * 3600 * 1000;
    let day = |ms| jiff::Timestamp::from_millisecond(ms).unwrap();
    let new = NewSession {
        label: "s".to_owned(),
        ..NewSession::default()
    };
    store.create_session(&new, day(64_000)).unwrap();
    let record = |count: u64, at: jiff::Timestamp| {
        let turn: NewTurn =
            serde_json::from_value(json!({"messages": [{"role": "user", "content": "Why?"}]}))
                .unwrap();
        for _ in 0..count {
            store.record("s", &turn, None, None, at).unwrap();
        }
        let page = store.events(0, 100).unwrap();
        (page.oldest, page.latest)
    };
    let later = day(64_000 + WEEK_MS + 7);
    assert_eq!(record(30, day(64_000)), (1, 30));
    assert_eq!(record(33, later), (1, 63));
    assert_eq!(record(1, later), (31, 64));
    assert_eq!(record(63, later), (31, 127));
    // The latest event remains, so that no number is used twice.
    assert_eq!(record(1, day(64_000 + 10 * WEEK_MS)), (128, 128));
    assert_eq!(record(1, day(64_000 + 10 * WEEK_MS)), (128, 129));
}

pub fn counts_are_added_up(stores: &dyn Tenants) {
    let count = |name: &str, period, more| (name.to_owned(), period, more);
    let sums = stores.add_counts(&[count("a", 5, 2), count("b", 0, 1)], 5);
    assert_eq!(sums.unwrap(), [2, 1]);
    let sums = stores.add_counts(&[count("a", 5, 3), count("a", 6, 1)], 5);
    assert_eq!(sums.unwrap(), [5, 1]);
    // Only old periods are removed.
    let sums = stores.add_counts(&[count("a", 6, 0), count("b", 0, 0)], 6);
    assert_eq!(sums.unwrap(), [1, 1]);
    let sums = stores.add_counts(&[count("a", 5, 0)], 5);
    assert_eq!(sums.unwrap(), [0]);
    // Without a period, no count is removed.
    let sums = stores.add_counts(&[count("a", 6, 1)], 0);
    assert_eq!(sums.unwrap(), [2]);
    assert_eq!(stores.add_counts(&[], 0).unwrap(), [0; 0]);
}
