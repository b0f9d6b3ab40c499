//! The documentation of [`Upkeep`](contexture_store::Upkeep): the deletion of
//! turns and snapshots, one function for each promise.

use std::sync::atomic::{AtomicBool, Ordering};

use contexture_core::ContentHash;
use contexture_store::{
    Blob, Block, Compaction, Handle, HandlePrefix, Message, MessageContent, MessageRole,
    NewSession, NewTurn, PendingSnapshot, Snapshot, Store, StoreError, Trigger, TurnHead, TurnId,
    Walk,
};

use super::at;

const EVERYTHING: Walk<'static> = Walk {
    counter: "words",
    tokens: u64::MAX,
    at_least: 0,
    through: None,
};

pub(crate) fn create(store: &dyn Store, label: &str) {
    let new = NewSession {
        label: label.to_owned(),
        ..NewSession::default()
    };
    store.create_session(&new, at(0)).unwrap();
}

pub(crate) fn fork(store: &dyn Store, label: &str, head: TurnId) -> Result<(), StoreError> {
    let new = NewSession {
        label: label.to_owned(),
        head: Some(head),
        ..NewSession::default()
    };
    store.create_session(&new, at(0)).map(drop)
}

fn message(role: MessageRole, content: MessageContent) -> Message {
    Message {
        role,
        source: None,
        content,
        tool_call_id: None,
        is_error: false,
        context_json: None,
    }
}

pub(crate) fn said(text: &str) -> NewTurn {
    NewTurn {
        messages: vec![message(
            MessageRole::User,
            MessageContent::Text(text.to_owned()),
        )],
        ..NewTurn::default()
    }
}

fn record(store: &dyn Store, label: &str, turn: &NewTurn) -> TurnId {
    store.record(label, turn, None, None, at(1)).unwrap().id
}

/// Records turns with these texts.
pub(crate) fn talk(store: &dyn Store, label: &str, texts: &[&str]) -> Vec<TurnId> {
    let texts = texts.iter();
    texts
        .map(|text| record(store, label, &said(text)))
        .collect()
}

fn call(id: &str) -> Message {
    let call = Block::ToolCall {
        id: id.to_owned(),
        name: "shell".to_owned(),
        arguments: serde_json::json!({"command": "make"}),
        native: None,
    };
    message(MessageRole::Assistant, MessageContent::Blocks(vec![call]))
}

fn result(id: &str, text: &str) -> Message {
    Message {
        tool_call_id: Some(id.to_owned()),
        ..message(MessageRole::Tool, MessageContent::Text(text.to_owned()))
    }
}

fn path(store: &dyn Store, label: &str) -> Vec<TurnHead> {
    let head = store.session(label).unwrap().head.unwrap();
    store.walk(head, &EVERYTHING).unwrap()
}

fn ids(heads: &[TurnHead]) -> Vec<TurnId> {
    heads.iter().map(|head| head.id).collect()
}

fn blob(text: &str) -> Blob {
    Blob {
        hash: ContentHash::of(text.as_bytes()),
        bytes: text.as_bytes().to_vec(),
    }
}

/// Saves a request with two parts, and returns its hash.
fn save(store: &dyn Store, session: &str, name: &str, part: &str) -> ContentHash {
    let (part, common) = (blob(part), blob("in all requests"));
    let root = blob(&format!("{name} {} {}", part.hash, common.hash));
    let snapshot = Snapshot {
        hash: ContentHash::of(name.as_bytes()),
        session: session.to_owned(),
        parent_turn: None,
        model: "gpt-4o".to_owned(),
        tokens: 12,
        counter: "words".to_owned(),
        root: root.hash,
        created_at: at(1),
    };
    store
        .put_snapshot(&snapshot, &[root, part, common])
        .unwrap();
    snapshot.hash
}

fn has_blob(store: &dyn Store, text: &str) -> bool {
    let found = store.blobs(&[ContentHash::of(text.as_bytes())]).unwrap();
    found[0].is_some()
}

fn summary(first_kept: TurnId) -> Compaction {
    Compaction {
        summary: "Much was said.".to_owned(),
        summarized_through: None,
        first_kept: Some(first_kept),
        first_kept_message: 0,
        facts: None,
        made_of: Vec::new(),
        trigger: Trigger::Manual,
        focus: None,
        summariser: "extractive".to_owned(),
        tokens_before: 9,
        tokens_after: 3,
        usage: None,
    }
}

fn is_missing<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::NotFound { .. }))
}

fn is_invalid<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Invalid { field, .. }) if field == "before")
}

fn check(store: &dyn Store) {
    assert_eq!(store.verify().unwrap().damaged, []);
}

pub fn turns_before_a_turn_are_deleted(store: &dyn Store) {
    create(store, "s");
    create(store, "other");
    let long = "a long result ".repeat(99);
    let with_result = NewTurn {
        messages: vec![call("c1"), result("c1", &long)],
        idempotency_key: Some("retry".to_owned()),
        ..NewTurn::default()
    };
    let old = talk(store, "s", &["one", "two"]);
    let called = store.record("s", &with_result, None, None, at(1)).unwrap();
    let compacted = store
        .compact("s", called.id, &summary(old[1]), at(2))
        .unwrap();
    let kept = talk(store, "s", &["four", "five"]);
    save(store, "s", "request", "only in s");
    save(store, "other", "other request", "only in other");
    assert_eq!(path(store, "s")[0].compaction, Some(compacted.id));
    let before = store.session("s").unwrap();

    let deleted = store.delete_turns_before("s", kept[0]).unwrap().deleted;
    assert_eq!((deleted["turns"], deleted["snapshots"]), (4, 1));
    // The rest of the path is as it was, and begins with the turn.
    let left = path(store, "s");
    assert_eq!(ids(&left), [kept[1], kept[0]]);
    assert_eq!((left[0].depth, left[1].depth), (5, 4));
    assert_eq!(left[0].parent, Some(kept[0]));
    assert_eq!((left[1].parent, left[1].compaction), (None, None));
    assert_eq!(left[0].compaction, None);
    let turns = store.turns(&[kept[1], kept[0]], "words").unwrap();
    assert_eq!(turns[0].turn.messages, said("five").messages);
    assert_eq!((turns[0].parent, turns[1].parent), (Some(kept[0]), None));
    let only_first = Walk {
        tokens: 0,
        ..EVERYTHING
    };
    let first = store.walk(kept[0], &only_first).unwrap();
    assert_eq!((first.len(), first[0].parent), (1, None));
    let after = store.session("s").unwrap();
    assert_eq!((after.head, after.turns), (Some(kept[1]), 5));
    assert_ne!(after.turn_deletions, before.turn_deletions);
    // The deleted turns cannot be read, forked or moved to.
    for id in [old[0], old[1], called.id, compacted.id] {
        assert!(is_missing(store.turns(&[id], "words")));
        assert!(is_missing(store.walk(id, &EVERYTHING)));
        assert!(is_missing(fork(store, "fork", id)));
        let moved = store.move_head("s", Some(kept[1]), Some(id), "back", at(2));
        assert!(is_missing(moved));
    }
    let handle = HandlePrefix::from(Handle::of(&long));
    assert!(is_missing(store.tool_result(&handle)));
    // Nor can its requests, but those of others.
    assert_eq!(store.snapshots(Some("s"), 9).unwrap(), []);
    assert_eq!(store.snapshots(None, 9).unwrap().len(), 1);
    assert!(!has_blob(store, "only in s"));
    assert!(has_blob(store, "only in other") && has_blob(store, "in all requests"));
    let usage = store.usage().unwrap();
    assert_eq!((usage.turns, usage.snapshots), (2, 1));
    check(store);
    // A retry of a deleted turn is not recorded again.
    let retried = store.record("s", &with_result, None, None, at(1)).unwrap();
    assert_eq!((retried.id, retried.replayed), (called.id, true));
    // The session continues, also in forks.
    let next = record(store, "s", &said("six"));
    fork(store, "fork", kept[1]).unwrap();
    let in_fork = record(store, "fork", &said("instead"));
    assert_eq!(ids(&path(store, "s")), [next, kept[1], kept[0]]);
    assert_eq!(ids(&path(store, "fork")), [in_fork, kept[1], kept[0]]);
    let compacted = store.compact("s", next, &summary(kept[1]), at(3)).unwrap();
    assert_eq!(path(store, "s")[0].id, compacted.id);
    check(store);
    // The session goes, and the fork is whole.
    store.delete_session("s").unwrap();
    assert_eq!(ids(&path(store, "fork")), [in_fork, kept[1], kept[0]]);
    check(store);
}

/// Saves a request in the background that was made of turns of its session.
fn save_made_of(
    store: &dyn Store,
    session: &str,
    text: &str,
    made_of: Option<Vec<TurnId>>,
) -> Result<(), StoreError> {
    let root = blob(text);
    let snapshot = Snapshot {
        hash: root.hash,
        session: session.to_owned(),
        parent_turn: None,
        model: "gpt-4o".to_owned(),
        tokens: 12,
        counter: "words".to_owned(),
        root: root.hash,
        created_at: at(1),
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    store.put_snapshot_later(PendingSnapshot {
        snapshot,
        blobs: vec![root],
        report: None,
        builds_on: None,
        made_of,
        done: Box::new(move |done| drop(sender.send(done))),
    });
    receiver.recv().unwrap()
}

pub fn a_request_made_of_deleted_turns_is_not_saved(store: &dyn Store) {
    create(store, "s");
    create(store, "other");
    let turns = talk(store, "s", &["one", "two", "three"]);
    let others = talk(store, "other", &["one", "two"]);
    let all = || Some(vec![turns[0], turns[2]]);
    save_made_of(store, "s", "before", all()).unwrap();
    store.delete_turns_before("s", turns[1]).unwrap();
    assert!(is_missing(save_made_of(store, "s", "one two three", all())));
    assert!(!has_blob(store, "one two three"));
    assert_eq!(store.snapshots(Some("s"), 9).unwrap(), []);
    // A request of turns that are left is saved, and so is that of another session.
    save_made_of(store, "s", "two three", Some(vec![turns[1], turns[2]])).unwrap();
    save_made_of(store, "other", "its own", Some(vec![others[0]])).unwrap();
    store.delete_session("s").unwrap();
    for made_of in [vec![turns[1]], Vec::new()] {
        let saved = save_made_of(store, "s", "two three again", Some(made_of));
        assert!(is_missing(saved));
    }
    // A new session of the same name does not have the turns.
    create(store, "s");
    let saved = save_made_of(store, "s", "two three again", Some(vec![turns[1]]));
    assert!(is_missing(saved));
    assert!(!has_blob(store, "two three again"));
    // A request that was made of no session does not need one.
    save_made_of(store, "none", "of files", None).unwrap();
    save_made_of(store, "s", "of no turns", Some(Vec::new())).unwrap();
    assert_eq!(store.snapshots(None, 9).unwrap().len(), 3);
    check(store);
}

pub fn a_summary_made_of_deleted_turns_is_not_saved(store: &dyn Store) {
    create(store, "s");
    let turns = talk(store, "s", &["one", "two", "three"]);
    store.delete_turns_before("s", turns[1]).unwrap();
    let made_of = |turn: TurnId| Compaction {
        made_of: vec![turn],
        ..summary(turns[2])
    };
    let head = turns[2];
    assert!(is_missing(store.compact(
        "s",
        head,
        &made_of(turns[0]),
        at(3)
    )));
    assert_eq!(store.session("s").unwrap().head, Some(head));
    store.compact("s", head, &made_of(turns[1]), at(3)).unwrap();
    check(store);
}

pub fn turns_are_deleted_further_and_further(store: &dyn Store) {
    create(store, "s");
    let texts: Vec<String> = (0..40).map(|n| format!("turn {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let turns = talk(store, "s", &texts);
    // There is nothing before the first turn.
    let nothing = store.delete_turns_before("s", turns[0]).unwrap().deleted;
    assert_eq!(nothing.len(), 0);
    for first in [1, 2, 30, 39] {
        store.delete_turns_before("s", turns[first]).unwrap();
        // Once more is the same.
        let again = store.delete_turns_before("s", turns[first]).unwrap();
        assert_eq!(again.deleted.len(), 0);
        let mut left = turns[first..].to_vec();
        left.reverse();
        assert_eq!(ids(&path(store, "s")), left);
        assert_eq!(store.usage().unwrap().turns, left.len() as u64);
        assert_eq!(store.session("s").unwrap().turns, 40);
        check(store);
    }
    assert!(is_missing(store.delete_turns_before("s", turns[30])));
    record(store, "s", &said("after that"));
    check(store);
}

pub fn the_requests_of_a_tree_are_deleted_with_it(store: &dyn Store) {
    crate::trees::import(store, "t", "agent a model\nnode n1 human one");
    crate::trees::import(store, "t/b", "node m1 human two");
    for label in ["loom:t", "loom:t/a", "loom:t/b", "loom:tt", "s"] {
        save(
            store,
            label,
            &format!("request of {label}"),
            &format!("only in {label}"),
        );
    }
    let deleted = store.delete_tree("t").unwrap().deleted;
    assert_eq!((deleted["trees"], deleted["snapshots"]), (1, 2));
    assert!(deleted["blobs"] >= 2 && deleted["blob_bytes"] > 0);
    for label in ["loom:t", "loom:t/a"] {
        assert!(!has_blob(store, &format!("only in {label}")));
        assert_eq!(store.snapshots(Some(label), 9).unwrap(), []);
    }
    // Another tree, whose id is like the label of an agent, and others keep theirs.
    for label in ["loom:t/b", "loom:tt", "s"] {
        assert!(has_blob(store, &format!("only in {label}")));
        assert_eq!(store.snapshots(Some(label), 9).unwrap().len(), 1);
    }
    assert!(has_blob(store, "in all requests"));
    check(store);
}

pub fn an_undone_summary_is_deleted_with_its_turns(store: &dyn Store) {
    create(store, "s");
    let turns = talk(store, "s", &["one", "two", "three"]);
    let (head, back) = (turns[2], "uncompacted");
    let of = |text: &str| Compaction {
        summary: text.to_owned(),
        ..summary(turns[2])
    };
    // Two compactions follow each other, and both are undone.
    let first = store.compact("s", head, &of("first"), at(2)).unwrap();
    let second = (store.compact("s", first.id, &of("second"), at(2))).unwrap();
    let moved = store.move_head("s", Some(second.id), Some(head), back, at(2));
    moved.unwrap();
    // A turn follows the third, which is part of a conversation.
    let third = store.compact("s", head, &of("third"), at(3)).unwrap();
    let answer = record(store, "s", &said("instead"));
    let moved = store.move_head("s", Some(answer), Some(head), "back", at(3));
    moved.unwrap();
    let fourth = store.compact("s", head, &of("fourth"), at(4)).unwrap();
    let moved = store.move_head("s", Some(fourth.id), Some(head), back, at(4));
    moved.unwrap();
    // There is nothing to delete before the first turn.
    store.delete_turns_before("s", turns[0]).unwrap();
    assert!(store.turns(&[first.id, second.id], "words").is_ok());
    let deleted = store.delete_turns_before("s", turns[1]).unwrap().deleted;
    assert_eq!(deleted["turns"], 4);
    for id in [first.id, second.id, fourth.id] {
        assert!(is_missing(store.turns(&[id], "words")));
    }
    assert!(store.turns(&[third.id, answer], "words").is_ok());
    assert_eq!(ids(&path(store, "s")), [turns[2], turns[1]]);
    check(store);
    // A summary that is undone after its turns were deleted.
    let late = store.compact("s", head, &of("late"), at(5)).unwrap();
    let moved = store.move_head("s", Some(late.id), Some(head), back, at(5));
    moved.unwrap();
    store.delete_turns_before("s", turns[1]).unwrap();
    assert!(is_missing(store.turns(&[late.id], "words")));
    check(store);
    record(store, "s", &said("four"));
    check(store);
}

pub fn a_summary_is_kept_when_its_turns_are_deleted(store: &dyn Store) {
    create(store, "s");
    let turns = talk(store, "s", &["one", "two", "three"]);
    let made = summary(turns[1]);
    let compacted = store.compact("s", turns[2], &made, at(2)).unwrap();
    let last = record(store, "s", &said("four"));
    // It names a turn that is deleted.
    store.delete_turns_before("s", compacted.id).unwrap();
    let left = path(store, "s");
    assert_eq!(ids(&left), [last, compacted.id]);
    assert_eq!(left[0].compaction, Some(compacted.id));
    let stored = store.turns(&[compacted.id], "words").unwrap().remove(0);
    assert_eq!(
        (stored.parent, stored.compaction),
        (None, Some(made.clone()))
    );
    // The same state can be restored.
    store.compact("s", last, &made, at(3)).unwrap();
    check(store);
}

pub fn turns_that_other_sessions_share_are_not_deleted(store: &dyn Store) {
    create(store, "s");
    let turns = talk(store, "s", &["one", "two", "three", "four"]);
    fork(store, "a", turns[3]).unwrap();
    record(store, "a", &said("in a"));
    // The head of another was there once.
    fork(store, "b", turns[1]).unwrap();
    store
        .move_head("b", Some(turns[1]), None, "restart", at(2))
        .unwrap();
    // A session that was started there does not share turns.
    let started = NewSession {
        label: "started".to_owned(),
        parent_session: Some("s".to_owned()),
        ..NewSession::default()
    };
    store.create_session(&started, at(1)).unwrap();
    let refused = store.delete_turns_before("s", turns[2]);
    let Err(StoreError::Shared { session, others }) = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(
        (session.as_str(), others.as_slice()),
        ("s", &["a".to_owned(), "b".to_owned()][..])
    );
    let told = refused.unwrap_err().to_string();
    assert!(told.contains("`a`, `b`"), "{told}");
    assert_eq!(path(store, "s").len(), 4);
    // The fork cannot delete what it shares, either.
    let refused = store.delete_turns_before("a", turns[2]);
    assert!(matches!(refused, Err(StoreError::Shared { others, .. }) if others == ["b", "s"]));
    check(store);
    store.delete_session("b").unwrap();
    store.delete_session("a").unwrap();
    store.delete_turns_before("s", turns[2]).unwrap();
    assert_eq!(ids(&path(store, "s")), [turns[3], turns[2]]);
    let started = store.session("started").unwrap();
    assert_eq!(started.parent_turn, Some(turns[3]));
    check(store);
}

pub fn abandoned_turns_are_deleted_with_those_they_follow(store: &dyn Store) {
    create(store, "s");
    let turns = talk(store, "s", &["one", "two", "three"]);
    let back = |to: TurnId| {
        let head = store.session("s").unwrap().head;
        store.move_head("s", head, Some(to), "back", at(2)).unwrap();
    };
    // A branch before the turn, one after it, and one that a fork continues.
    back(turns[0]);
    let before = record(store, "s", &said("another two"));
    back(turns[2]);
    let after = record(store, "s", &said("another four"));
    back(turns[2]);
    let head = record(store, "s", &said("four"));
    store.delete_turns_before("s", turns[1]).unwrap();
    assert_eq!(ids(&path(store, "s")), [head, turns[2], turns[1]]);
    assert!(is_missing(store.turns(&[before], "words")));
    assert_eq!(store.turns(&[after], "words").unwrap().len(), 1);
    back(after);
    assert_eq!(ids(&path(store, "s")), [after, turns[2], turns[1]]);
    check(store);
}

pub fn a_session_does_not_begin_with_results(store: &dyn Store) {
    create(store, "s");
    let first = record(store, "s", &said("go"));
    let open = NewTurn {
        messages: vec![call("c1")],
        ..NewTurn::default()
    };
    let open = record(store, "s", &open);
    let compacted = store.compact("s", open, &summary(open), at(2)).unwrap();
    let answered = NewTurn {
        messages: vec![result("c1", "done")],
        ..NewTurn::default()
    };
    let answered = record(store, "s", &answered);
    let last = record(store, "s", &said("thanks"));
    for id in [compacted.id, answered] {
        let refused = store.delete_turns_before("s", id);
        let Err(StoreError::Invalid { message, .. }) = &refused else {
            panic!("{refused:?}");
        };
        assert!(message.contains(&open.to_string()), "{message}");
    }
    store.delete_turns_before("s", open).unwrap();
    assert!(is_missing(store.turns(&[first], "words")));
    store.delete_turns_before("s", last).unwrap();
    assert_eq!(ids(&path(store, "s")), [last]);
    check(store);
}

pub fn only_turns_before_a_turn_of_the_session_are_deleted(store: &dyn Store) {
    create(store, "s");
    create(store, "t");
    create(store, "empty");
    let mine = talk(store, "s", &["one", "two"]);
    let others = talk(store, "t", &["one", "two"]);
    assert!(is_missing(store.delete_turns_before("nobody", mine[1])));
    let unknown = TurnId::of(b"unknown");
    assert!(is_missing(store.delete_turns_before("s", unknown)));
    assert!(is_invalid(store.delete_turns_before("s", others[1])));
    assert!(is_invalid(store.delete_turns_before("empty", mine[1])));
    assert_eq!(store.usage().unwrap().turns, 4);
}

pub fn a_snapshot_is_deleted(store: &dyn Store) {
    let one = save(store, "s", "one", "only in one");
    save(store, "t", "one", "only in one");
    let two = save(store, "s", "two", "only in two");
    store.put_snapshot_report(one, b"report".to_vec());
    store.put_snapshot_report(two, b"report".to_vec());
    assert!(store.snapshot_report(one).unwrap().is_some());
    let deleted = store.delete_snapshot(one).unwrap().deleted;
    assert_eq!((deleted["snapshots"], deleted["blobs"]), (2, 2));
    assert_eq!(store.find_snapshots(&one.to_string()).unwrap(), []);
    assert_eq!(store.snapshot_report(one).unwrap(), None);
    assert!(!has_blob(store, "only in one"));
    assert!(has_blob(store, "only in two") && has_blob(store, "in all requests"));
    assert!(store.snapshot_report(two).unwrap().is_some());
    assert!(is_missing(store.delete_snapshot(one)));
    assert_eq!(store.snapshots(None, 9).unwrap().len(), 1);
    check(store);
    // It can be saved again.
    save(store, "s", "one", "only in one");
    assert!(has_blob(store, "only in one"));
    store.delete_snapshot(two).unwrap();
    assert_eq!(store.snapshots(None, 9).unwrap().len(), 1);
    check(store);
}

pub fn a_snapshot_that_is_being_saved_is_whole_after_a_deletion(store: &dyn Store) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..40 {
                save(store, "s", &format!("request {n}"), "in half of them");
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let latest = store.snapshots(Some("s"), 1).unwrap();
            if let Some(latest) = latest.first() {
                store.delete_snapshot(latest.hash).unwrap();
            }
        }
    });
    for snapshot in store.snapshots(None, 100).unwrap() {
        assert!(store.blobs(&[snapshot.root]).unwrap()[0].is_some());
        assert!(has_blob(store, "in half of them") && has_blob(store, "in all requests"));
    }
    check(store);
}

pub fn turns_are_deleted_while_others_read_and_record(store: &dyn Store) {
    create(store, "s");
    record(store, "s", &said("first"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..60 {
                record(store, "s", &said(&format!("turn {n}")));
            }
            done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let head = store.session("s").unwrap().head.unwrap();
                store.delete_turns_before("s", head).unwrap();
            }
        });
        while !done.load(Ordering::Acquire) {
            let head = store.session("s").unwrap().head.unwrap();
            // What is read is whole, or it is reported as missing.
            let walked = match store.walk(head, &EVERYTHING) {
                Ok(walked) => walked,
                Err(StoreError::NotFound { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            match store.turns(&ids(&walked), "words") {
                Ok(turns) => assert!(turns.iter().all(|it| it.turn.messages.len() == 1)),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert_eq!(store.session("s").unwrap().turns, 61);
    check(store);
}
