//! Stores of older versions are migrated to the newest with all their data.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::Path;

use contexture_sqlite::SqliteStore;
use contexture_store::{
    Analysis, Derived, Handle, HandlePrefix, KeyRecord, KeyScope, Ledger, Memories, MemoryState,
    NewRecord, Snapshots, StoreError, Tasks, Tenants, Trees,
};
use rusqlite::Connection;
use support::{at, check_store, counted, session, turn, turn_with_result};

/// Returns the objects of a schema, sorted by name.
fn schema(db: &Connection) -> Vec<String> {
    let mut select = db
        .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
        .unwrap();
    let lines = select.query_map([], |row| row.get(0)).unwrap();
    lines.collect::<Result<_, _>>().unwrap()
}

/// Creates a store of an older version with three turns, in the state that this
/// version left.
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
    // The trigger belongs to a table that every version has, and uses a new
    // table.
    db.execute_batch("DROP TRIGGER snapshot_reports_end")
        .unwrap();
    // Columns and triggers of tables that every version has.
    let memories = "DROP TRIGGER memory_counted; DROP TRIGGER memory_archived;
         DROP TRIGGER memory_uncounted; DROP INDEX memories_of_user;
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
    db.execute_batch("DROP INDEX turns_deleted").unwrap();
    db.execute_batch(LATER_INDEXES).unwrap();
    // Columns that versions 6, 13, 19, 20 and 21 added.
    for (table, column) in [
        ("compactions", "first_kept_message"),
        ("compactions", "facts"),
        ("tenants", "inside"),
        ("sessions", "remember"),
        ("turns", "deleted"),
        ("tenants", "turn_deletions"),
        ("tenants", "content_deletions"),
        ("sessions", "deleted"),
    ] {
        let drop = format!("ALTER TABLE {table} DROP COLUMN {column}");
        db.execute_batch(&drop).unwrap();
    }
    if old.table_exists(None, "memory_states").unwrap() {
        db.execute_batch(LATER_COLUMNS).unwrap();
    }
    if old.table_exists(None, "node_contents").unwrap() {
        db.execute_batch(
            "ALTER TABLE node_contents DROP COLUMN sum; ALTER TABLE trees DROP COLUMN deleted",
        )
        .unwrap();
    }
    remove_seal(path);
    db.pragma_update(None, "user_version", steps.len() as u32)
        .unwrap();
    assert_eq!(schema(&db), schema(&old));
}

/// Removes the file with the number of commits, which older stores do not have.
fn remove_seal(path: &Path) {
    let mut seal = path.as_os_str().to_owned();
    seal.push("-seal");
    std::fs::remove_file(seal).unwrap();
}

/// Removes the indexes that version 22 added, as far as their tables are there.
const LATER_INDEXES: &str = "
    DROP INDEX IF EXISTS nodes_of_parent; DROP INDEX turns_of_parent;
    DROP INDEX turns_of_compaction; DROP INDEX messages_of_turn; DROP INDEX keys_of_turn;";

/// Removes the triggers that version 12 added to earlier tables.
const LATER_TRIGGERS: &str = "
    DROP TRIGGER text_added; DROP TRIGGER text_replaced;
    DROP TRIGGER text_archived; DROP TRIGGER text_restored;";
const LATER_COLUMNS: &str = "
    ALTER TABLE memory_states DROP COLUMN later;
    ALTER TABLE memory_states DROP COLUMN later_seq;";

/// Returns a tenant whose data is in the store's own file, as before version
/// 13.
fn tenant_inside(path: &Path, store: &SqliteStore, name: &str) -> SqliteStore {
    let db = Connection::open(path).unwrap();
    let insert = "INSERT INTO tenants (name, inside) VALUES (?1, 1)";
    db.execute(insert, [name]).unwrap();
    store.for_tenant(name)
}

const V1: &str = include_str!("../src/v1.sql");
const V2: &str = include_str!("../src/v2.sql");
const V3: &str = include_str!("../src/v3.sql");

#[test]
fn a_store_of_version_1_keeps_its_turns_and_accepts_trees() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    older(&path, &[V1]);
    let before = fs::read(&path).unwrap();
    // A read-only handle cannot migrate the store.
    let refused = SqliteStore::open_read_only(&path).unwrap_err();
    assert!(
        matches!(&refused, StoreError::NotAStore { message, .. } if message.contains("older version")),
        "{refused}"
    );
    assert!(fs::read(&path).unwrap() == before);

    // Another connection is open, so that the changes stay in the log.
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
    let other = tenant_inside(&path, &store, "other");
    store.create_session(&session("s"), at(0)).unwrap();
    other.create_session(&session("s"), at(0)).unwrap();
    // More turns than are listed at once.
    for i in 0..600 {
        let store = if i == 300 { &other } else { &store };
        store
            .record("s", &turn_with_result(&text(i)), None, None, at(1))
            .unwrap();
    }
    drop((store, other));
    remove_seal(&path);
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
         DROP INDEX memories_of_user;
         ALTER TABLE memories DROP COLUMN user; ALTER TABLE memories DROP COLUMN agent;
         DROP TABLE unclean_files; ALTER TABLE tenants DROP COLUMN inside;
         DROP TABLE commits; DROP TABLE turn_labels; DROP TABLE audit; DROP TABLE quotas;
         DROP TABLE files; DROP TABLE file_states; DROP TABLE events;
         DROP TABLE request_counts; DROP TABLE done_calls;
         ALTER TABLE node_contents DROP COLUMN sum;
         ALTER TABLE sessions DROP COLUMN remember;
         DROP INDEX turns_deleted; ALTER TABLE turns DROP COLUMN deleted;
         ALTER TABLE tenants DROP COLUMN turn_deletions;
         DROP TABLE pending_deletions; ALTER TABLE sessions DROP COLUMN deleted;
         ALTER TABLE trees DROP COLUMN deleted;
         ALTER TABLE tenants DROP COLUMN content_deletions;
         PRAGMA user_version = 6;",
    )
    .unwrap();
    db.execute_batch(LATER_INDEXES).unwrap();
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

/// Stores a record of every kind, with the tenant's name in it.
fn fill(store: &SqliteStore, name: &str) {
    store.create_session(&session("s"), at(0)).unwrap();
    for i in 0..20 {
        let said = turn_with_result(&format!("{name} said {i} ").repeat(40));
        let mut new = turn(&format!("{name} {i}"));
        new.idempotency_key = Some(format!("k{i}"));
        let counts = counted(&new);
        store.record("s", &new, Some(&counts), None, at(i)).unwrap();
        store.record("s", &said, None, None, at(i)).unwrap();
    }
    let json = format!(
        r#"{{"tree":{{"id":"t","mode":"dialogue","title":"{name}"}},
        "agents":[{{"id":"a","type":"model","system_prompt":"{name}"}}],
        "nodes":[{{"id":"n1","author":"human","content":"{name} one"}},
            {{"id":"n2","author":"model","author_agent_id":"a","content":"{name} two"}}],
        "edges":[{{"id":"e","type":"continuation","target_node_id":"n2",
            "sources":[{{"node_id":"n1","role":"primary"}}]}}]}}"#
    );
    let document = serde_json::from_str(&json).unwrap();
    store.import_tree(&document, at(2)).unwrap();
    let event = serde_json::json!({"kind": "event", "id": "e", "session_id": "s",
        "timestamp": 1_770_000_000_000_i64, "type": "note", "actor": "user",
        "content": {"text": format!("{name} remembers")}});
    let record = NewRecord {
        record: serde_json::from_value(event).unwrap(),
        derived: Derived::default(),
    };
    let analysis = Analysis {
        words: 1,
        embedder: None,
    };
    store.remember(&[record], &analysis, at(3)).unwrap();
    let task = contexture_store::NewTask {
        id: None,
        goal: format!("{name} goal"),
        parent_id: None,
    };
    store.push_task("main", &task, at(4)).unwrap();
    store.mark_key([name.len() as u8; 32]).unwrap();
}

/// Returns all stored data as text.
fn everything(store: &SqliteStore) -> String {
    let session = store.session("s").unwrap();
    let path = support::path(store, session.head.unwrap());
    let ids: Vec<_> = path.iter().map(|head| head.id).collect();
    let turns = store.turns(&ids, support::COUNTER).unwrap();
    let changes = store.changes(0, 100).unwrap();
    let keys: Vec<_> = changes.iter().map(|change| change.key).collect();
    format!(
        "{session:?} {turns:?} {:?} {:?} {:?} {changes:?} {:?} {:?} {:?}",
        store.head_moves("s", 100).unwrap(),
        store.tree("t").unwrap(),
        store.export_tree("t").unwrap(),
        store.records(&keys).unwrap(),
        store.tasks("main").unwrap(),
        store.memory_stats().unwrap(),
    )
}

#[test]
fn tenants_of_an_older_store_get_files_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let names = ["harbour", "a/b", "🦀"];
    let tenants = names.map(|name| tenant_inside(&path, &store, name));
    fill(&store, "default");
    for (tenant, name) in tenants.iter().zip(names) {
        fill(tenant, name);
    }
    let key = KeyRecord {
        id: "k".to_owned(),
        hash: [7; 32],
        tenant: "harbour".to_owned(),
        scope: KeyScope::Tenant,
        name: None,
        created_at: at(0),
        revoked_at: None,
    };
    store.add_key(&key).unwrap();
    let all = [&store].into_iter().chain(&tenants);
    let before: Vec<String> = all.map(everything).collect();
    drop((store, tenants));
    let files = contexture_sqlite::tenants_directory(&path);
    assert!(!files.exists());

    // A read-only handle reads the tenants in the store's own file.
    let reader = SqliteStore::open_read_only(&path).unwrap();
    assert_eq!(everything(&reader.for_tenant("harbour")), before[1]);
    drop(reader);
    assert!(!files.exists());

    // The remains of an interrupted attempt are harmless.
    fs::create_dir(&files).unwrap();
    for left in ["t-harbour.new", "t-harbour.db"] {
        fs::write(files.join(left), "not a store").unwrap();
    }
    for _ in 0..2 {
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(everything(&store), before[0]);
        for (name, before) in names.iter().zip(&before[1..]) {
            assert_eq!(&everything(&store.for_tenant(name)), before);
        }
        assert_eq!(store.key("k").unwrap().unwrap().tenant, "harbour");
        // Idempotency keys, tool results and the mark's key still work.
        let mut again = turn("harbour 19");
        again.idempotency_key = Some("k19".to_owned());
        let harbour = store.for_tenant("harbour");
        harbour.record("s", &again, None, None, at(99)).unwrap();
        assert_eq!(harbour.session("s").unwrap().turns, 40);
        let handle = Handle::of(&"harbour said 3 ".repeat(40));
        harbour.tool_result(&HandlePrefix::from(handle)).unwrap();
        assert_eq!(harbour.mark_key([0; 32]).unwrap(), [7; 32]);
    }
    // The store's own file has no data of the other tenants.
    let bytes = fs::read(&path).unwrap();
    for name in [
        "harbour said",
        "harbour one",
        "harbour remembers",
        "harbour goal",
    ] {
        let name = name.as_bytes();
        assert!(!bytes.windows(name.len()).any(|window| window == name));
    }
    support::check_rows(&path);
    let mut found: Vec<_> = fs::read_dir(&files)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    found.retain(|file| file.extension().is_some_and(|it| it == "db"));
    assert_eq!(found.len(), 3);
    for file in found {
        support::check_rows(&file);
    }
    // The default tenant's data is unchanged.
    let db = Connection::open(&path).unwrap();
    let turns: i64 = (db.query_row("SELECT count(*) FROM turns", [], |row| row.get(0))).unwrap();
    assert_eq!(turns, 40);
}

/// Opens a store of an older version, and is stopped in the middle.
#[cfg(unix)]
#[test]
fn migrates_below_a_limit() {
    let Some(path) = support::child_path() else {
        return;
    };
    support::faults::limit_files();
    match SqliteStore::open(&path) {
        Ok(_) => support::say("opened"),
        Err(error) => support::say(&format!("failed {error}")),
    }
}

/// A migration that is killed, or runs out of disk space, at any write leaves
/// the older store or the newer one. The next migration completes.
#[cfg(unix)]
#[test]
fn a_migration_can_be_killed_at_any_write() {
    use support::faults::{copy, limited};
    use support::rounds;
    let directory = tempfile::tempdir().unwrap();
    older(&directory.path().join("store.db"), &[V1]);
    // The log of a migration is about as long as the store.
    let longest = 2 << 20;
    let mut random = support::Random(0x5EED);
    let (mut killed, mut failed, mut opened) = (0, 0, 0);
    for round in 0..rounds(40) {
        let copied = tempfile::tempdir().unwrap();
        copy(directory.path(), copied.path());
        let path = copied.path().join("store.db");
        // Half of the limits are small, where the first writes are.
        let limit = match random.below(2) {
            0 => random.below(longest / 16),
            _ => random.below(longest),
        };
        let ignore = round % 2 == 1;
        let mut command = limited("migrates_below_a_limit", &path, limit, ignore);
        let output = command.output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        match (output.status.success(), out.contains("opened")) {
            (false, _) => killed += 1,
            (true, true) => opened += 1,
            (true, false) => failed += 1,
        }
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(store.session("s").unwrap().turns, 3, "at {limit}: {out}");
        assert_eq!(
            contexture_store::Upkeep::verify(&store).unwrap().damaged,
            []
        );
    }
    println!("{killed} kills and {failed} errors inside a migration, {opened} complete");
    assert!(
        killed > 5 && failed > 5 && opened > 2,
        "{killed} {failed} {opened}"
    );
}
