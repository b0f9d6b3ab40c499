//! Stores of older versions become ones of the newest, with everything in them.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::Path;

use contexture_sqlite::SqliteStore;
use contexture_store::{
    Analysis, Derived, Handle, HandlePrefix, KeyRecord, KeyScope, Ledger, Memories, MemoryState,
    NewRecord, StoreError, Tasks, Tenants, Trees,
};
use rusqlite::Connection;
use support::{at, check_store, counted, session, turn, turn_with_result};

/// Returns what there is in a schema, in the order of names.
fn schema(db: &Connection) -> Vec<String> {
    let mut select = db
        .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
        .unwrap();
    let lines = select.query_map([], |row| row.get(0)).unwrap();
    lines.collect::<Result<_, _>>().unwrap()
}

/// Makes a store of an older version with three turns, as that version left it.
fn older(path: &Path, steps: &[&str]) {
    let store = SqliteStore::open(path).unwrap();
    store.create_session(&session("s"), at(0)).unwrap();
    for said in ["one", "two", "three"] {
        let said = turn(said);
        let counted = counted(&said);
        store
            .record("s", &said, Some(&counted), None, at(1))
            .unwrap();
    }
    drop(store);
    let old = Connection::open_in_memory().unwrap();
    for step in steps {
        old.execute_batch(step).unwrap();
    }
    let db = Connection::open(path).unwrap();
    db.pragma_update(None, "foreign_keys", false).unwrap();
    db.execute_batch(LATER_TRIGGERS).unwrap();
    // It belongs to a table that every version has, and uses one that is new.
    db.execute_batch("DROP TRIGGER snapshot_reports_end")
        .unwrap();
    // Columns and triggers of tables that every version has.
    let memories = "DROP TRIGGER memory_counted; DROP TRIGGER memory_archived;
         DROP TRIGGER memory_uncounted;
         ALTER TABLE memories DROP COLUMN user; ALTER TABLE memories DROP COLUMN agent;";
    db.execute_batch(memories).unwrap();
    let mut tables = db
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
        .unwrap();
    let tables = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
    for table in tables.collect::<Result<Vec<_>, _>>().unwrap() {
        if !old.table_exists(None, &*table).unwrap() {
            db.execute_batch(&format!("DROP TABLE {table}")).unwrap();
        }
    }
    // Columns that version 6 added.
    for column in ["first_kept_message", "facts"] {
        let drop = format!("ALTER TABLE compactions DROP COLUMN {column}");
        db.execute_batch(&drop).unwrap();
    }
    if old.table_exists(None, "memory_states").unwrap() {
        db.execute_batch(LATER_COLUMNS).unwrap();
    }
    db.pragma_update(None, "user_version", steps.len() as u32)
        .unwrap();
    assert_eq!(schema(&db), schema(&old));
}

/// Takes away what version 11 added to tables of earlier ones.
const LATER_TRIGGERS: &str = "
    DROP TRIGGER text_added; DROP TRIGGER text_replaced;
    DROP TRIGGER text_archived; DROP TRIGGER text_restored;";
const LATER_COLUMNS: &str = "
    ALTER TABLE memory_states DROP COLUMN later;
    ALTER TABLE memory_states DROP COLUMN later_seq;";

const V1: &str = include_str!("../src/v1.sql");
const V2: &str = include_str!("../src/v2.sql");
const V3: &str = include_str!("../src/v3.sql");

#[test]
fn a_store_of_version_1_keeps_its_turns_and_accepts_trees() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    older(&path, &[V1]);
    let before = fs::read(&path).unwrap();
    // Who may only read cannot bring it up to date.
    let refused = SqliteStore::open_read_only(&path).unwrap_err();
    assert!(
        matches!(&refused, StoreError::NotAStore { message, .. } if message.contains("older version")),
        "{refused}"
    );
    assert!(fs::read(&path).unwrap() == before);

    // Somebody else has it open, so that what is done stays in the log.
    let other = Connection::open(&path).unwrap();
    let turns = "SELECT count(*) FROM turns";
    let _: u32 = other.query_row(turns, [], |row| row.get(0)).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.session("s").unwrap().turns, 3);
    assert_eq!(store.trees(None, 10).unwrap(), []);
    let reader = SqliteStore::open_read_only(&path).unwrap();
    assert_eq!(reader.session("s").unwrap().turns, 3);
    let json = r#"{"tree":{"id":"t","mode":"buffer"},
        "nodes":[{"id":"n1","author":"human","content":"Once"}]}"#;
    let document = serde_json::from_str(json).unwrap();
    store.import_tree(&document, at(2)).unwrap();
    assert_eq!(reader.tree("t").unwrap().nodes, 1);
    drop((store, reader, other));

    let new = directory.path().join("new.db");
    drop(SqliteStore::open(&new).unwrap());
    let (migrated, new) = (
        Connection::open(&path).unwrap(),
        Connection::open(&new).unwrap(),
    );
    assert_eq!(schema(&migrated), schema(&new));
    drop((migrated, new));
    assert_eq!(check_store(&path).len(), 3);
}

#[test]
fn a_store_of_version_2_keeps_its_turns_and_accepts_memories() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    older(&path, &[V1, V2]);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.session("s").unwrap().turns, 3);
    assert_eq!(store.memory_state().unwrap(), MemoryState::default());
    assert_eq!(store.task_stacks().unwrap(), Vec::<String>::new());
    let json = r#"{"kind":"event","id":"e","content":"it rains"}"#;
    let new = NewRecord {
        record: serde_json::from_str(json).unwrap(),
        derived: Derived::default(),
    };
    let kept = store.remember(&[new], &Analysis::default(), at(2)).unwrap();
    assert_eq!(
        store.records(&[kept[0].key()]).unwrap()[0]
            .as_ref()
            .unwrap()
            .id(),
        "e"
    );
    drop(store);

    let new = directory.path().join("new.db");
    drop(SqliteStore::open(&new).unwrap());
    let (migrated, new) = (
        Connection::open(&path).unwrap(),
        Connection::open(&new).unwrap(),
    );
    assert_eq!(schema(&migrated), schema(&new));
    drop((migrated, new));
    assert_eq!(check_store(&path).len(), 3);
}

#[test]
fn a_store_of_version_3_keeps_its_turns_and_accepts_keys() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    older(&path, &[V1, V2, V3]);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.session("s").unwrap().turns, 3);
    assert_eq!(store.keys().unwrap(), []);
    let key = KeyRecord {
        id: "k".to_owned(),
        hash: [1; 32],
        tenant: "harbour".to_owned(),
        scope: KeyScope::Tenant,
        name: None,
        created_at: at(2),
        revoked_at: None,
    };
    store.add_key(&key).unwrap();
    store.ping().unwrap();
    assert_eq!(store.keys().unwrap(), [key]);
    drop(store);

    let new = directory.path().join("new.db");
    drop(SqliteStore::open(&new).unwrap());
    let (migrated, new) = (
        Connection::open(&path).unwrap(),
        Connection::open(&new).unwrap(),
    );
    assert_eq!(schema(&migrated), schema(&new));
    drop((migrated, new));
    assert_eq!(check_store(&path).len(), 3);
}

#[test]
fn tool_results_of_an_older_store_are_found_by_their_handles() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let text = |i: usize| format!("line {i}\n").repeat(99);
    let store = SqliteStore::open(&path).unwrap();
    let other = store.for_tenant("other");
    store.create_session(&session("s"), at(0)).unwrap();
    other.create_session(&session("s"), at(0)).unwrap();
    // More than are listed at once.
    for i in 0..600 {
        let store = if i == 300 { &other } else { &store };
        store
            .record("s", &turn_with_result(&text(i)), None, None, at(1))
            .unwrap();
    }
    drop((store, other));
    let db = Connection::open(&path).unwrap();
    db.execute_batch(LATER_TRIGGERS).unwrap();
    db.execute_batch(LATER_COLUMNS).unwrap();
    db.execute_batch(
        "DROP TABLE memory_later; DROP TABLE memory_pending; DROP TABLE memory_progress;
         DROP TABLE tool_results; DROP TABLE unlisted_results; DROP TABLE sent_messages;
         DROP TABLE session_pins;
         DROP TABLE import_states; DROP TABLE imports; DROP TABLE import_roots;
         DROP TABLE import_rows; DROP TABLE snapshot_reports;
         DROP TRIGGER snapshot_reports_end;
         DROP TRIGGER memory_counted; DROP TRIGGER memory_archived;
         DROP TRIGGER memory_uncounted; DROP TABLE memory_kinds;
         ALTER TABLE memories DROP COLUMN user; ALTER TABLE memories DROP COLUMN agent;
         PRAGMA user_version = 6;",
    )
    .unwrap();
    drop(db);

    let store = SqliteStore::open(&path).unwrap();
    let find = |store: &SqliteStore, text: &str| {
        let found = store.tool_result(&HandlePrefix::from(Handle::of(text)));
        found.map(|found| found.text)
    };
    store
        .record("s", &turn_with_result(&text(1_000)), None, None, at(2))
        .unwrap();
    for i in [599, 0, 1_000] {
        assert_eq!(find(&store, &text(i)).unwrap(), text(i));
    }
    let unknown = find(&store, &text(300));
    assert!(matches!(unknown, Err(StoreError::NotFound { .. })));
    assert_eq!(
        find(&store.for_tenant("other"), &text(300)).unwrap(),
        text(300)
    );
}
