//! Deletions that are divided into steps, as on a full disk. The store is valid after
//! each step, and a deletion that has begun is continued to its end.

use contexture_core::ContentHash;
use contexture_store::{
    Blob, Deleted, Forget, MemoryChange, NewRecord, NewSession, NewSessionPin, NewTask, Pin,
    Record, Retention, SessionChange, Snapshot, Store, StoreError, TaskStatus, TreeChange, TurnId,
    Walk,
};

use crate::deletion::{create, fork, talk};
use crate::memory::{chunk, found, remember};
use crate::{at, trees};

/// A store whose deletions can be divided into steps. Each method runs at most `steps`
/// steps of at most `most` rows.
pub trait InSteps {
    fn store(&self) -> &dyn Store;

    fn delete_session(&self, label: &str, most: usize, steps: usize)
    -> Result<Deleted, StoreError>;

    fn delete_tree(&self, id: &str, most: usize, steps: usize) -> Result<Deleted, StoreError>;

    fn delete_turns(
        &self,
        label: &str,
        turn: TurnId,
        most: usize,
        steps: usize,
    ) -> Result<Deleted, StoreError>;

    fn forget(&self, what: &Forget, most: usize, steps: usize) -> Result<Deleted, StoreError>;

    fn collect(
        &self,
        retention: &Retention,
        most: usize,
        steps: usize,
    ) -> Result<Deleted, StoreError>;
}

/// Implements [`InSteps`] for a type whose first field is a store in SQL.
#[macro_export]
macro_rules! in_steps {
    ($store:ty) => {
        impl $crate::InSteps for $store {
            fn store(&self) -> &dyn contexture_store::Store {
                &self.0
            }

            fn delete_session(
                &self,
                label: &str,
                most: usize,
                steps: usize,
            ) -> Result<contexture_store::Deleted, contexture_store::StoreError> {
                self.0.delete_session_in_steps(label, most, steps)
            }

            fn delete_tree(
                &self,
                id: &str,
                most: usize,
                steps: usize,
            ) -> Result<contexture_store::Deleted, contexture_store::StoreError> {
                self.0.delete_tree_in_steps(id, most, steps)
            }

            fn delete_turns(
                &self,
                label: &str,
                turn: contexture_store::TurnId,
                most: usize,
                steps: usize,
            ) -> Result<contexture_store::Deleted, contexture_store::StoreError> {
                self.0.delete_turns_in_steps(label, turn, most, steps)
            }

            fn forget(
                &self,
                what: &contexture_store::Forget,
                most: usize,
                steps: usize,
            ) -> Result<contexture_store::Deleted, contexture_store::StoreError> {
                self.0.forget_in_steps(what, most, steps)
            }

            fn collect(
                &self,
                retention: &contexture_store::Retention,
                most: usize,
                steps: usize,
            ) -> Result<contexture_store::Deleted, contexture_store::StoreError> {
                self.0.collect_in_steps(retention, most, steps)
            }
        }
    };
}

/// Calls `step` until the deletion has ended, and `check` after each step. Returns the
/// number of deleted rows of a kind.
fn run(
    store: &dyn Store,
    kind: &str,
    step: impl Fn() -> Result<Deleted, StoreError>,
    check: impl Fn(),
) -> u64 {
    let (mut deleted, mut steps) = (0, 0);
    loop {
        let done = step().unwrap();
        deleted += done.deleted.get(kind).copied().unwrap_or(0);
        let verified = store.verify().unwrap();
        assert_eq!(verified.damaged, []);
        let pending = verified.checked.get("pending_deletions").copied();
        if pending.is_none() {
            assert_eq!(store.continue_deletions().unwrap(), 0);
            check();
            return deleted;
        }
        assert!(done.pending && store.usage().unwrap().pending);
        assert!(store.has_deleted_text().unwrap());
        check();
        steps += 1;
        assert!(steps < 10_000, "the deletion does not end");
    }
}

fn texts(store: &dyn Store, label: &str) -> usize {
    let head = store.session(label).unwrap().head.unwrap();
    let everything = Walk {
        counter: "words",
        tokens: u64::MAX,
        at_least: 0,
        through: None,
    };
    let path = store.walk(head, &everything).unwrap();
    let ids: Vec<TurnId> = path.iter().map(|turn| turn.id).collect();
    store.turns(&ids, "words").unwrap().len()
}

fn save(store: &dyn Store, session: &str, text: &str) -> ContentHash {
    let blob = |text: String| Blob {
        hash: ContentHash::of(text.as_bytes()),
        bytes: text.into_bytes(),
    };
    let content = blob(text.to_owned());
    let root = blob(format!(
        r#"{{"session":"{session}","text":"{}"}}"#,
        content.hash
    ));
    let snapshot = Snapshot {
        hash: root.hash,
        session: session.to_owned(),
        parent_turn: None,
        model: "m".to_owned(),
        tokens: 1,
        counter: "words".to_owned(),
        root: root.hash,
        created_at: at(1),
    };
    let hash = root.hash;
    store.put_snapshot(&snapshot, &[content, root]).unwrap();
    hash
}

fn is_missing<T>(found: Result<T, StoreError>) -> bool {
    matches!(found, Err(StoreError::NotFound { .. }))
}

pub fn a_session_is_deleted_in_steps(steps: &dyn InSteps) {
    let store = steps.store();
    for most in [1, 3, 1_000] {
        create(store, "main");
        let alias = SessionChange {
            alias: Some("short".to_owned()),
            ..SessionChange::default()
        };
        store.change_session("main", &alias).unwrap();
        let turns = talk(store, "main", &["one", "two", "three", "four", "five"]);
        let pin = NewSessionPin {
            name: Some("p".to_owned()),
            text: "pinned".to_owned(),
            origin: None,
        };
        store.pin("main", &pin, at(2)).unwrap();
        store
            .move_head("main", Some(turns[4]), Some(turns[1]), "back", at(3))
            .unwrap();
        talk(store, "main", &["other"]);
        for i in 0..4 {
            save(store, "main", &format!("request {i}"));
        }
        create(store, "kept");
        talk(store, "kept", &["stays"]);
        let kept = save(store, "kept", "request 1");
        assert!(steps.delete_session("short", most, 0).unwrap().pending);
        let deleted = run(
            store,
            "turns",
            || steps.delete_session("main", most, 1),
            || {
                assert!(is_missing(store.session("main")));
                assert!(is_missing(store.session("short")));
                assert_eq!(store.sessions(None, 9).unwrap().len(), 1);
                assert_eq!(store.usage().unwrap().sessions, 1);
                assert!(is_missing(store.delete_turns_before("main", turns[1])));
                assert!(is_missing(store.pin("main", &pin, at(2))));
                assert_eq!(texts(store, "kept"), 1);
                assert_eq!(store.snapshots(Some("kept"), 9).unwrap()[0].hash, kept);
            },
        );
        assert_eq!(deleted, 6);
        let usage = store.usage().unwrap();
        assert_eq!((usage.turns, usage.snapshots), (1, 1));
        assert_eq!(store.snapshots(Some("main"), 9).unwrap(), []);
        // The label can be used again.
        create(store, "main");
        for label in ["main", "kept"] {
            store.delete_session(label).unwrap();
        }
    }
}

pub fn a_forked_session_is_whole_after_each_step(steps: &dyn InSteps) {
    let store = steps.store();
    create(store, "main");
    let shared = talk(store, "main", &["one", "two", "three"]);
    let new = NewSession {
        label: "fork".to_owned(),
        head: Some(shared[1]),
        parent_session: Some("main".to_owned()),
        ..NewSession::default()
    };
    store.create_session(&new, at(1)).unwrap();
    talk(store, "fork", &["four", "five"]);
    talk(store, "main", &["six", "seven"]);
    let deleted = run(
        store,
        "turns",
        || steps.delete_session("main", 1, 1),
        || {
            let fork = store.session("fork").unwrap();
            assert_eq!((fork.turns, fork.parent_session), (4, None));
            assert_eq!(texts(store, "fork"), 4);
            let refused = store.create_session(&new, at(1));
            assert!(matches!(refused, Err(StoreError::Exists { .. })));
        },
    );
    assert_eq!(deleted, 3);
    assert_eq!(store.usage().unwrap().turns, 4);
    talk(store, "fork", &["eight"]);
    assert_eq!(texts(store, "fork"), 5);
}

pub fn a_session_can_be_forked_between_steps(steps: &dyn InSteps) {
    let store = steps.store();
    create(store, "main");
    let turns = talk(store, "main", &["one", "two", "three", "four"]);
    // Head moves are deleted before turns.
    while texts_of(store, turns[3]) == 4 {
        assert!(steps.delete_session("main", 1, 1).unwrap().pending);
        assert_eq!(store.verify().unwrap().damaged, []);
    }
    assert!(is_missing(fork(store, "early", turns[0])));
    let exists = store.create_session(
        &NewSession {
            label: "main".to_owned(),
            ..NewSession::default()
        },
        at(1),
    );
    assert!(
        matches!(&exists, Err(StoreError::Exists { what, .. }) if what.contains("pending")),
        "{exists:?}"
    );
    fork(store, "late", turns[2]).unwrap();
    assert_eq!(store.continue_deletions().unwrap(), 0);
    // The fork needs the turns that were left when it was made.
    assert_eq!(texts(store, "late"), 2);
    assert_eq!(store.verify().unwrap().damaged, []);
    assert_eq!(store.usage().unwrap().turns, 2);
}

fn texts_of(store: &dyn Store, head: TurnId) -> usize {
    let everything = Walk {
        counter: "words",
        tokens: u64::MAX,
        at_least: 0,
        through: None,
    };
    store.walk(head, &everything).unwrap().len()
}

pub fn two_sessions_that_share_turns_are_deleted_in_steps(steps: &dyn InSteps) {
    let store = steps.store();
    create(store, "one");
    let turns = talk(store, "one", &["a", "b", "c"]);
    fork(store, "two", turns[1]).unwrap();
    talk(store, "two", &["d"]);
    fork(store, "three", turns[2]).unwrap();
    for label in ["one", "two"] {
        assert!(steps.delete_session(label, 1, 2).unwrap().pending);
    }
    let verified = store.verify().unwrap();
    assert_eq!(verified.damaged, []);
    assert_eq!(verified.checked["pending_deletions"], 2);
    assert_eq!(store.continue_deletions().unwrap(), 0);
    assert_eq!(store.verify().unwrap().damaged, []);
    assert_eq!(texts(store, "three"), 3);
    assert_eq!(store.usage().unwrap().turns, 3);
    store.delete_session("three").unwrap();
    assert_eq!(store.usage().unwrap().turns, 0);
}

pub fn a_tree_is_deleted_in_steps(steps: &dyn InSteps) {
    let store = steps.store();
    // Ids of nodes are unique in a store.
    let text = |name: &str, edge: &str| {
        let lines = "agent a model
            node #1 human one
            node #2 model @a two
            node #3 human three
            node #4 model of:#2 four
            node #5 human five
            node #6 human of:#1 six
            edge e1 #1 -> #2
            edge e2 #2 -> #3
            path main #3";
        format!("{lines}\n{edge}").replace('#', name)
    };
    let (to_older, note) = ("edge e3 #5 -> #1", "note e3 #1 #3 context:#4 -> #5");
    for most in [1, 2, 1_000] {
        trees::import(store, "t", &text("x", to_older));
        trees::import(store, "kept", &text("y", note));
        for change in [
            MemoryChange::Pin(Pin {
                node_id: Some("x1".to_owned()),
                text: None,
            }),
            MemoryChange::Stash {
                name: "s".to_owned(),
                text: "stashed".to_owned(),
            },
        ] {
            let agent = "a".to_owned();
            let change = TreeChange::Memory { agent, change };
            store.change_tree("t", &change, at(7)).unwrap();
        }
        let before = store.export_tree("kept").unwrap();
        let deleted = run(
            store,
            "nodes",
            || steps.delete_tree("t", most, 1),
            || {
                assert!(is_missing(store.tree("t")));
                assert!(is_missing(store.find_node("t", "x1")));
                assert_eq!(store.trees(None, 9).unwrap().len(), 1);
                let usage = store.usage().unwrap();
                assert_eq!((usage.trees, usage.nodes), (1, 6));
                assert_eq!(store.export_tree("kept").unwrap(), before);
            },
        );
        assert_eq!(deleted, 6);
        // The ids can be used again.
        trees::import(store, "t", &text("x", note));
        assert!(steps.delete_tree("t", most, 1).unwrap().pending);
        let again = trees::document("t", &text("x", note));
        let refused = store.import_tree(&again, at(1));
        assert!(matches!(refused, Err(StoreError::Exists { .. })));
        assert_eq!(store.continue_deletions().unwrap(), 0);
        store.import_tree(&again, at(1)).unwrap();
        for id in ["t", "kept"] {
            store.delete_tree(id).unwrap();
        }
    }
}

pub fn records_are_deleted_in_steps(steps: &dyn InSteps) {
    let store = steps.store();
    let said = |source: &str, i: u32| {
        let text = format!("@person:Ann -knows-> @person:P{} {source} {i}", i % 3);
        chunk(source, i, &text)
    };
    let texts = |source: &str| -> Vec<NewRecord> { (0..7).map(|i| said(source, i)).collect() };
    remember(store, &texts("kept"));
    let before = found(store);
    for most in [1, 3, 1_000] {
        remember(store, &texts("a"));
        let what = Forget::Source("a".to_owned());
        let first = steps.forget(&what, most, 1).unwrap();
        assert!(first.pending && first.deleted["chunk"] >= most.min(7) as u64);
        // A record that is stored later is not deleted.
        remember(store, &[said("a", 9)]);
        let deleted = run(
            store,
            "chunk",
            || steps.forget(&what, most, 1),
            || {
                assert!(!store.record_keys(&["kept#3", "a#9"]).unwrap().is_empty());
            },
        );
        assert_eq!(deleted + first.deleted["chunk"], 7);
        assert_eq!(store.record_keys(&["a#9"]).unwrap().len(), 1);
        store.forget(&what).unwrap();
        assert_eq!(found(store), before);
    }
}

pub fn turns_are_deleted_in_steps(steps: &dyn InSteps) {
    let store = steps.store();
    create(store, "main");
    let turns = talk(store, "main", &["one", "two", "three", "four", "five"]);
    save(store, "main", "request");
    let step = || steps.delete_turns("main", turns[4], 1, 1);
    while texts(store, "main") == 5 {
        assert!(step().unwrap().pending);
        assert_eq!(store.verify().unwrap().damaged, []);
    }
    // The deletion waits while another session needs the rest.
    fork(store, "fork", turns[3]).unwrap();
    let shared = store.continue_deletions();
    assert!(
        matches!(shared, Err(StoreError::Shared { .. })),
        "{shared:?}"
    );
    assert_eq!(texts(store, "fork"), 3);
    assert!(store.usage().unwrap().pending);
    store.delete_session("fork").unwrap();
    run(store, "turns", step, || {
        assert!(texts(store, "main") > 0);
    });
    assert_eq!(texts(store, "main"), 1);
    // A pending deletion ends with its session.
    talk(store, "main", &["six", "seven"]);
    let head = store.session("main").unwrap().head.unwrap();
    assert!(steps.delete_turns("main", head, 1, 0).unwrap().pending);
    store.delete_session("main").unwrap();
    assert_eq!(store.continue_deletions().unwrap(), 0);
    assert!(
        !store
            .verify()
            .unwrap()
            .checked
            .contains_key("pending_deletions")
    );
}

pub fn a_collection_runs_in_steps(steps: &dyn InSteps) {
    let store = steps.store();
    for most in [1, 2, 1_000] {
        create(store, "main");
        for i in 0..4 {
            save(store, "main", &format!("request {i}"));
        }
        let mut records: Vec<NewRecord> =
            (0..5).map(|i| chunk("a", i, "@person:Ann old")).collect();
        let mut new = chunk("a", 9, "@person:Ann new");
        if let Record::Chunk(chunk) = &mut new.record {
            chunk.timestamp = Some(at(50));
        }
        records.push(new);
        remember(store, &records);
        for i in 0..3 {
            let task = NewTask {
                id: None,
                goal: format!("goal {i}"),
                parent_id: None,
            };
            store.push_task("s", &task, at(1)).unwrap();
            store
                .finish_task("s", None, TaskStatus::Complete, None, at(2))
                .unwrap();
        }
        let retention = Retention {
            per_session: Some(1),
            memories_before: Some(at(20)),
            tasks_before: Some(at(20)),
            ..Retention::default()
        };
        // Another retention replaces that of a pending collection.
        let none = Retention::default();
        assert!(steps.collect(&none, most, 0).unwrap().pending);
        assert!(steps.collect(&retention, most, 0).unwrap().pending);
        let checked = store.verify().unwrap().checked;
        assert_eq!(checked["pending_deletions"], 1);
        let expected = store.collect(&retention, true).unwrap();
        assert_eq!(expected.deleted["records"], 5);
        let deleted = run(
            store,
            "records",
            || steps.collect(&retention, most, 1),
            || {
                assert_eq!(store.record_keys(&["a#9"]).unwrap().len(), 1);
            },
        );
        assert_eq!(deleted, 5);
        let usage = store.usage().unwrap();
        assert_eq!((usage.snapshots, usage.tasks), (1, 0));
        store.delete_session("main").unwrap();
        store.forget(&Forget::Source("a".to_owned())).unwrap();
    }
}

pub fn a_pending_deletion_is_continued_by_the_same_call(steps: &dyn InSteps) {
    let store = steps.store();
    create(store, "main");
    talk(store, "main", &["one", "two"]);
    trees::import(
        store,
        "t",
        "node n1 human a\nnode n2 human b\nedge e n1 -> n2",
    );
    assert!(steps.delete_session("main", 1, 1).unwrap().pending);
    assert!(steps.delete_tree("t", 1, 1).unwrap().pending);
    assert_eq!(store.delete_session("main").unwrap().deleted["sessions"], 1);
    assert_eq!(store.delete_tree("t").unwrap().deleted["trees"], 1);
    assert!(is_missing(store.delete_session("main")));
    assert!(is_missing(store.delete_tree("t")));
    assert_eq!(store.continue_deletions().unwrap(), 0);
}
