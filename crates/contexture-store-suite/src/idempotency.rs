//! Tests of the documentation of [`DoneCalls`](contexture_store::DoneCalls),
//! one function for each promise.

use contexture_core::ContentHash;
use contexture_store::{
    Call, DoneCall, IdempotentCall, MAX_STORED_ANSWER_BYTES, NewSession, NewTask, Store,
    StoreError, TaskRecord,
};

use super::at;

fn keyed(key: &str, call: &str, seconds: i64) -> IdempotentCall {
    IdempotentCall {
        key: key.to_owned(),
        digest: ContentHash::of(call.as_bytes()),
        now: at(seconds),
    }
}

fn task() -> NewTask {
    NewTask {
        goal: "reach the harbour".to_owned(),
        ..NewTask::default()
    }
}

/// Pushes a task as a call with an idempotency key.
fn push(store: &dyn Store, call: &IdempotentCall) -> Result<TaskRecord, StoreError> {
    let call = Call::default().keyed(call.clone());
    call.run(|| store.push_task("s", &task(), at(0)))
}

fn tasks(store: &dyn Store) -> usize {
    store.tasks("s").unwrap().len()
}

fn done(answer: Option<&[u8]>) -> Option<DoneCall> {
    let answer = answer.map(<[u8]>::to_vec);
    Some(DoneCall { answer })
}

pub fn a_call_with_a_key_is_done_once(store: &dyn Store) {
    let call = keyed("k", "push", 0);
    assert_eq!(store.done_call(&call).unwrap(), None);
    push(store, &call).unwrap();
    assert_eq!(store.done_call(&call).unwrap(), done(None));
    let again = push(store, &keyed("k", "push", 1));
    assert!(matches!(again, Err(StoreError::AlreadyDone { key }) if key == "k"));
    let other = keyed("k", "another", 1);
    let refused = push(store, &other);
    assert!(matches!(refused, Err(StoreError::KeyReused { key }) if key == "k"));
    let refused = store.done_call(&other);
    assert!(matches!(refused, Err(StoreError::KeyReused { key }) if key == "k"));
    assert_eq!(tasks(store), 1);
    store.put_answer(&call, b"done").unwrap();
    assert_eq!(store.done_call(&call).unwrap(), done(Some(b"done")));
    // The response of another call is not stored under the key.
    store.put_answer(&other, b"another").unwrap();
    assert_eq!(store.done_call(&call).unwrap(), done(Some(b"done")));
    // Another key is another call, and a call without a key is never compared.
    push(store, &keyed("l", "push", 2)).unwrap();
    store.push_task("s", &task(), at(3)).unwrap();
    assert_eq!(tasks(store), 3);
}

pub fn all_writes_of_a_call_belong_to_its_key(store: &dyn Store) {
    let call = Call::default().keyed(keyed("k", "two", 0));
    call.run(|| {
        store.push_task("s", &task(), at(0)).unwrap();
        store.push_task("s", &task(), at(0)).unwrap();
    });
    assert_eq!(tasks(store), 2);
}

pub fn a_write_that_failed_stores_no_key(store: &dyn Store) {
    let call = keyed("k", "resume", 0);
    let of_call = Call::default().keyed(call.clone());
    of_call.run(|| store.resume_task("s", "nothing").unwrap_err());
    assert_eq!(store.done_call(&call).unwrap(), None);
    push(store, &keyed("k", "push", 0)).unwrap();
    assert_eq!(tasks(store), 1);
}

pub fn an_answer_stores_the_key_of_a_call_that_wrote_nothing(store: &dyn Store) {
    let call = keyed("k", "a file", 0);
    store.put_answer(&call, b"done").unwrap();
    assert_eq!(store.done_call(&call).unwrap(), done(Some(b"done")));
    let again = push(store, &call);
    assert!(matches!(again, Err(StoreError::AlreadyDone { .. })));
}

pub fn a_long_answer_is_not_stored(store: &dyn Store) {
    let (call, longer) = (keyed("k", "long", 0), keyed("l", "longer", 0));
    let answer = vec![b'x'; MAX_STORED_ANSWER_BYTES + 1];
    let fits = &answer[1..];
    store.put_answer(&call, fits).unwrap();
    store.put_answer(&longer, &answer).unwrap();
    assert_eq!(store.done_call(&call).unwrap(), done(Some(fits)));
    assert_eq!(store.done_call(&longer).unwrap(), done(None));
    assert!(store.usage().unwrap().bytes >= fits.len() as u64);
}

pub fn a_key_is_forgotten_after_a_day(store: &dyn Store) {
    const DAY: i64 = 86_400;
    push(store, &keyed("k", "push", 0)).unwrap();
    let found = |key, seconds| store.done_call(&keyed(key, "push", seconds)).unwrap();
    assert!(found("k", DAY).is_some());
    assert_eq!(found("k", DAY + 1), None);
    // A removed key is also free for a server with another clock.
    push(store, &keyed("l", "push", DAY + 1)).unwrap();
    assert_eq!(found("k", 0), None);
    assert!(found("l", DAY + 1).is_some());
    push(store, &keyed("k", "another", DAY + 2)).unwrap();
    assert_eq!(tasks(store), 3);
}

pub fn a_deletion_removes_stored_answers(store: &dyn Store) {
    let call = keyed("k", "push", 0);
    push(store, &call).unwrap();
    store.put_answer(&call, b"the text of a session").unwrap();
    let session = NewSession {
        label: "t".to_owned(),
        ..NewSession::default()
    };
    store.create_session(&session, at(1)).unwrap();
    store.delete_session("t").unwrap();
    assert_eq!(store.done_call(&call).unwrap(), done(None));
}
