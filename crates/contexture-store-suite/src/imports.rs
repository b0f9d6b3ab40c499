//! Imports: batches of steps, cursors and stored rows.

use contexture_core::ContentHash;
use contexture_store::{
    Blob, Block, Compaction, ImportCursor, ImportRow, ImportStep, ImportedTurn, Message,
    MessageContent, MessageRole, NewSession, NewTurn, Retention, Snapshot, Store, StoreError,
    Trigger, Walk,
};

use crate::at;

fn session(label: &str) -> ImportStep {
    let new = NewSession {
        label: label.to_owned(),
        ..NewSession::default()
    };
    ImportStep::Session {
        new,
        head: ImportedTurn::Nothing,
        at: at(0),
    }
}

fn turn(label: &str, parent: ImportedTurn, text: &str, second: i64) -> ImportStep {
    let message = Message {
        role: MessageRole::User,
        source: None,
        content: MessageContent::Blocks(vec![Block::text(text)]),
        tool_call_id: None,
        is_error: false,
        context_json: None,
    };
    ImportStep::Turn {
        session: label.to_owned(),
        parent,
        turn: Box::new(NewTurn {
            messages: vec![message],
            ..NewTurn::default()
        }),
        at: at(second),
    }
}

fn head(label: &str, to: ImportedTurn) -> ImportStep {
    ImportStep::Head {
        session: label.to_owned(),
        to,
        reason: "imported".to_owned(),
        at: at(9),
    }
}

fn steps() -> Vec<ImportStep> {
    let compaction = Compaction {
        summary: "one and two".to_owned(),
        summarized_through: None,
        first_kept: None,
        first_kept_message: 0,
        facts: None,
        made_of: Vec::new(),
        trigger: Trigger::Manual,
        focus: None,
        summariser: "it".to_owned(),
        tokens_before: 5,
        tokens_after: 3,
        usage: None,
    };
    vec![
        session("a"),
        turn("a", ImportedTurn::Nothing, "one", 1),
        turn("a", ImportedTurn::Step(1), "two", 2),
        // A branch.
        turn("a", ImportedTurn::Step(1), "other", 3),
        ImportStep::Compaction {
            session: "a".to_owned(),
            parent: ImportedTurn::Step(2),
            first_kept: ImportedTurn::Step(2),
            compaction: Box::new(compaction),
            at: at(4),
        },
        turn("a", ImportedTurn::Step(4), "three", 5),
        head("a", ImportedTurn::Step(5)),
    ]
}

pub fn an_import_is_read_back_as_a_session(store: &dyn Store) {
    let outcomes = store.import(steps()).unwrap();
    assert_eq!(outcomes.iter().filter(|it| it.added).count(), 6);
    let session = store.session("a").unwrap();
    assert_eq!((session.turns, session.head), (3, outcomes[5].turn));
    let ids: Vec<_> = [1, 2, 3, 4]
        .iter()
        .filter_map(|i| outcomes[*i].turn)
        .collect();
    let turns = store.turns(&ids, "").unwrap();
    assert_eq!(turns[1].parent, Some(ids[0]));
    assert_eq!(turns[2].parent, Some(ids[0]));
    let compaction = turns[3].compaction.as_ref().unwrap();
    assert_eq!(compaction.first_kept, Some(ids[1]));
    assert_eq!(compaction.summarized_through, Some(ids[1]));
    // A fork begins at a stored turn.
    let fork = ImportStep::Session {
        new: NewSession {
            label: "b".to_owned(),
            parent_session: Some("a".to_owned()),
            ..NewSession::default()
        },
        head: ImportedTurn::Stored(ids[1]),
        at: at(6),
    };
    store.import(vec![fork]).unwrap();
    assert_eq!(store.session("b").unwrap().head, Some(ids[1]));
}

/// An import frees the texts of a turn before the turn is checked.
pub fn an_imported_turn_is_the_recorded_one(store: &dyn Store) {
    let long = "  x\ny".repeat(1000);
    let new: NewTurn = serde_json::from_value(serde_json::json!({"model": "m", "messages": [
        {"role": "user", "content": format!("  é {long}")},
        {"role": "assistant", "content": [
            {"type": "text", "text": long},
            {"type": "tool_call", "id": "c", "name": "n", "arguments": {"a": long}},
        ]},
        {"role": "tool", "content": [
            {"type": "tool_result", "tool_call_id": "c", "content": long, "is_error": true},
        ]},
        {"role": "assistant", "content": " "},
    ]}))
    .unwrap();
    store.import(vec![session("r")]).unwrap();
    store.record("r", &new, None, None, at(1)).unwrap();
    let step = ImportStep::Turn {
        session: "i".to_owned(),
        parent: ImportedTurn::Nothing,
        turn: Box::new(new.clone()),
        at: at(1),
    };
    let head = head("i", ImportedTurn::Step(1));
    store.import(vec![session("i"), step, head]).unwrap();
    let all = Walk {
        counter: "",
        tokens: u64::MAX,
        at_least: 0,
        through: None,
    };
    let read = |label: &str| {
        let id = store.session(label).unwrap().head.unwrap();
        let heads = store.walk(id, &all).unwrap();
        let turn = store.turns(&[id], "").unwrap().remove(0);
        (heads[0].bytes, heads[0].begins, turn.turn)
    };
    let imported = read("i");
    assert_eq!(imported, read("r"));
    assert_eq!(imported.2, new);
}

pub fn a_second_import_adds_nothing(store: &dyn Store) {
    let first = store.import(steps()).unwrap();
    let again = store.import(steps()).unwrap();
    assert!(again.iter().all(|outcome| !outcome.added));
    let ids = |outcomes: &[contexture_store::ImportOutcome]| {
        outcomes.iter().map(|it| it.turn).collect::<Vec<_>>()
    };
    assert_eq!(ids(&first), ids(&again));
    assert_eq!(store.head_moves("a", 9).unwrap().len(), 2);
}

pub fn an_import_is_whole_or_nothing(store: &dyn Store) {
    let mut bad = steps();
    bad.push(turn("nobody", ImportedTurn::Nothing, "x", 1));
    let error = store.import(bad).unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
    assert!(store.session("a").is_err());
    let empty = turn("a", ImportedTurn::Nothing, "  ", 1);
    let error = store.import(vec![session("a"), empty]).unwrap_err();
    assert!(matches!(error, StoreError::Invalid { .. }), "{error}");
    let later = turn("a", ImportedTurn::Step(7), "x", 1);
    assert!(store.import(vec![session("a"), later]).is_err());
    assert!(store.session("a").is_err());
}

pub fn an_imported_request_is_stored_once(store: &dyn Store) {
    let bytes = b"a request".to_vec();
    let hash = ContentHash::of(&bytes);
    let request = || ImportStep::Snapshot {
        snapshot: Box::new(Snapshot {
            hash,
            session: "a".to_owned(),
            parent_turn: None,
            model: "m".to_owned(),
            tokens: 7,
            counter: "provider".to_owned(),
            root: hash,
            created_at: at(1),
        }),
        parent: ImportedTurn::Step(1),
        blobs: vec![Blob {
            hash,
            bytes: bytes.clone(),
        }],
    };
    let batch = || {
        let mut batch = steps();
        batch.push(request());
        batch
    };
    let first = store.import(batch()).unwrap();
    assert!(first[7].added);
    assert!(!store.import(batch()).unwrap()[7].added);
    let found = store.snapshots(Some("a"), 9).unwrap();
    assert_eq!((found.len(), found[0].parent_turn), (1, first[1].turn));
    assert_eq!(store.blobs(&[hash]).unwrap(), [Some(bytes.clone())]);
}

pub fn content_without_a_request_is_stored_until_a_collection(store: &dyn Store) {
    let blob = |text: &str| Blob {
        hash: ContentHash::of(text.as_bytes()),
        bytes: text.as_bytes().to_vec(),
    };
    let (one, other) = (blob("one"), blob("other"));
    assert!(!store.has_blobs(&[one.hash]).unwrap());
    let content = ImportStep::Content(vec![one.clone()]);
    // Stored again, it stays as it is.
    let outcomes = store.import(vec![content.clone(), content]).unwrap();
    assert!(outcomes.iter().all(|outcome| !outcome.added));
    assert!(store.has_blobs(&[]).unwrap());
    assert!(store.has_blobs(&[one.hash, one.hash]).unwrap());
    assert!(!store.has_blobs(&[one.hash, other.hash]).unwrap());
    store.collect(&Retention::default(), false).unwrap();
    assert!(!store.has_blobs(&[one.hash]).unwrap());
}

pub fn a_state_is_not_saved_without_its_content(store: &dyn Store) {
    let blob = |text: &str| Blob {
        hash: ContentHash::of(text.as_bytes()),
        bytes: text.as_bytes().to_vec(),
    };
    let (one, other) = (blob("one"), blob("other"));
    let cursor = ImportCursor {
        source: "s".to_owned(),
        file: "/f".to_owned(),
        identity: "1:2".to_owned(),
        size: 10,
        modified: 1,
        offset: 5,
        hash: ContentHash::of(b"x"),
        unknown: 0,
    };
    let end = |before: Vec<Blob>| {
        vec![
            ImportStep::Content(before),
            ImportStep::Cursor(Box::new(cursor.clone())),
            ImportStep::State {
                source: "s".to_owned(),
                file: "/f".to_owned(),
                bytes: b"state".to_vec(),
                needs: vec![one.hash, other.hash],
            },
        ]
    };
    store
        .import(vec![ImportStep::Content(vec![one.clone()])])
        .unwrap();
    // A collection runs between two batches.
    store.collect(&Retention::default(), false).unwrap();
    let error = store.import(end(vec![other.clone()])).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::NotFound {
                what: "content",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(store.import_cursor("s", "/f").unwrap(), None);
    assert!(!store.has_blobs(&[other.hash]).unwrap());
    store.import(end(vec![one.clone(), other.clone()])).unwrap();
    let state = || store.import_state("s", "/f").unwrap();
    assert_eq!(state().as_deref(), Some(&b"state"[..]));
    // The same, if a step tells when the import began.
    let began = store.content_deletions().unwrap();
    let since = |mut steps: Vec<ImportStep>| {
        steps.insert(0, ImportStep::ContentSince(began));
        store.import(steps)
    };
    since(end(Vec::new())).unwrap();
    store.collect(&Retention::default(), false).unwrap();
    since(end(vec![other.clone()])).unwrap_err();
    since(end(vec![one.clone(), other.clone()])).unwrap();
}

pub fn a_request_is_not_saved_without_its_content(store: &dyn Store) {
    let blob = |bytes: Vec<u8>| Blob {
        hash: ContentHash::of(&bytes),
        bytes,
    };
    let text = |text: &str| blob(text.as_bytes().to_vec());
    let list = |blobs: &[&Blob]| {
        let hashes = blobs.iter().flat_map(|blob| *blob.hash.as_bytes());
        blob(hashes.collect())
    };
    // The text of a message can look like a hash.
    let other = ContentHash::of(b"no content");
    let message = text(&format!(r#"{{"content":"{other}"}}"#));
    let last = text("last");
    let messages = list(&[&message, &last]);
    let lists = list(&[&messages]);
    let root = text(&format!(
        r#"{{"list":"{}","tail":["{}"]}}"#,
        lists.hash, last.hash
    ));
    let request = |number: u64, blobs: &[&Blob]| {
        let mut batch = steps();
        batch.push(ImportStep::ContentSince(number));
        batch.push(ImportStep::Snapshot {
            snapshot: Box::new(Snapshot {
                hash: root.hash,
                session: "a".to_owned(),
                parent_turn: None,
                model: "m".to_owned(),
                tokens: 7,
                counter: "provider".to_owned(),
                root: root.hash,
                created_at: at(1),
            }),
            parent: ImportedTurn::Step(1),
            blobs: blobs.iter().map(|blob| (*blob).clone()).collect(),
        });
        batch
    };
    let number = store.content_deletions().unwrap();
    let earlier = [&message, &messages, &lists, &last];
    // A collection runs between two batches.
    let content = earlier.map(Clone::clone).to_vec();
    store.import(vec![ImportStep::Content(content)]).unwrap();
    store.collect(&Retention::default(), false).unwrap();
    assert!(store.content_deletions().unwrap() > number);
    for missing in 0..earlier.len() {
        let mut blobs = vec![&root];
        blobs.extend(
            earlier
                .iter()
                .enumerate()
                .filter(|it| it.0 != missing)
                .map(|it| it.1),
        );
        let refused = store.import(request(number, &blobs)).unwrap_err();
        let name = earlier[missing].hash.to_string();
        let expected = StoreError::NotFound {
            what: "content",
            name,
        };
        assert_eq!(refused.to_string(), expected.to_string());
        assert_eq!(store.snapshots(None, 9).unwrap(), []);
        assert_eq!(store.sessions(None, 9).unwrap(), []);
    }
    // Nothing is missing.
    let mut all = vec![&root];
    all.extend(earlier);
    store.import(request(number, &all)).unwrap();
    assert_eq!(store.verify().unwrap().damaged, []);
    // A collection that deletes no content changes nothing.
    let number = store.content_deletions().unwrap();
    store.collect(&Retention::default(), false).unwrap();
    assert_eq!(store.content_deletions().unwrap(), number);
}

pub fn a_cursor_is_read_back_and_replaced(store: &dyn Store) {
    let cursor = |offset| ImportCursor {
        source: "s".to_owned(),
        file: "/f".to_owned(),
        identity: "1:2".to_owned(),
        size: 10,
        modified: 123_456_789,
        offset,
        hash: ContentHash::of(b"x"),
        unknown: 2,
    };
    let state = |bytes: &[u8]| ImportStep::State {
        source: "s".to_owned(),
        file: "/f".to_owned(),
        bytes: bytes.to_vec(),
        needs: Vec::new(),
    };
    assert_eq!(store.import_cursor("s", "/f").unwrap(), None);
    assert_eq!(store.import_state("s", "/f").unwrap(), None);
    for (offset, bytes) in [(5, &b"one"[..]), (9, b"two")] {
        let steps = vec![ImportStep::Cursor(Box::new(cursor(offset))), state(bytes)];
        store.import(steps).unwrap();
        let stored = store.import_cursor("s", "/f").unwrap();
        assert_eq!(stored, Some(cursor(offset)));
        let stored = store.import_state("s", "/f").unwrap();
        assert_eq!(stored.as_deref(), Some(bytes));
    }
    assert_eq!(store.import_cursors().unwrap(), [cursor(9)]);
    let root = |file: &str| ImportStep::Root {
        source: "s".to_owned(),
        root: "r".to_owned(),
        file: file.to_owned(),
    };
    store.import(vec![root("/f"), root("/g")]).unwrap();
    let first = store.import_with_root("s", "r").unwrap();
    assert_eq!(first.as_deref(), Some("/f"));
    assert_eq!(store.import_with_root("t", "r").unwrap(), None);
}

pub fn a_row_that_is_not_understood_is_kept_once(store: &dyn Store) {
    let row = |offset: u64, raw: &str| ImportRow {
        source: "s".to_owned(),
        file: "/f".to_owned(),
        offset,
        raw: raw.to_owned(),
    };
    let steps = || {
        vec![
            ImportStep::Row(row(8, "b\0c")),
            ImportStep::Row(row(3, "a")),
        ]
    };
    assert!(store.import(steps()).unwrap().iter().all(|it| it.added));
    assert!(store.import(steps()).unwrap().iter().all(|it| !it.added));
    let rows = store.import_rows("s", "/f", 9).unwrap();
    assert_eq!(rows, [row(3, "a"), row(8, "b\0c")]);
    assert_eq!(store.import_rows("s", "/f", 1).unwrap().len(), 1);
}
