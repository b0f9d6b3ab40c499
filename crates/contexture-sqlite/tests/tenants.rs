//! Tenants of one store share no data.
#![allow(clippy::unwrap_used)]

mod support;

use contexture_core::ContentHash;
use contexture_sqlite::SqliteStore;
use contexture_store::{
    Analysis, Blob, Derived, EmbedderInfo, FlagChange, Flags, Forget, Growth, Handle, HandlePrefix,
    Imported, Ledger, Link, Memories, MemoryChange, MemoryState, MemoryStats, Mention, NewRecord,
    NewSession, NewTask, NewTurn, Remembered, Sample, Samples, SessionChange, SessionStatus,
    Snapshot, Snapshots, StoreError, TaskStatus, TaskView, Tasks, TreeChange, TreeDocument, Trees,
    Walk,
};
use support::{COUNTER, at, counted, path, session, turn, turn_with_result};

fn is_unknown<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(
        matches!(result, Err(StoreError::NotFound { .. })),
        "{result:?}"
    );
}

fn snapshot(session: &str, name: &str) -> Snapshot {
    Snapshot {
        hash: ContentHash::of(name.as_bytes()),
        session: session.to_owned(),
        parent_turn: None,
        model: "m".to_owned(),
        tokens: 1,
        counter: COUNTER.to_owned(),
        root: ContentHash::of(b"root"),
        created_at: at(1),
    }
}

fn blob(text: &str) -> Blob {
    Blob {
        hash: ContentHash::of(text.as_bytes()),
        bytes: text.as_bytes().to_vec(),
    }
}

/// Returns the tenants `a` and `b` of one store, and the default tenant.
fn tenants() -> (tempfile::TempDir, [SqliteStore; 3]) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("store.db")).unwrap();
    let stores = [store.for_tenant("a"), store.for_tenant("b"), store];
    (directory, stores)
}

#[test]
fn names_of_other_tenants_are_not_found() {
    let (_directory, [a, b, nameless]) = tenants();
    let new = NewSession {
        aliases: vec!["alias".to_owned()],
        ..session("s")
    };
    a.create_session(&new, at(0)).unwrap();
    let said = turn("secret");
    let recorded = a
        .record("s", &said, Some(&counted(&said)), None, at(1))
        .unwrap();
    let printed = "secret ".repeat(99);
    let handle = HandlePrefix::from(Handle::of(&printed));
    a.record("s", &turn_with_result(&printed), None, None, at(1))
        .unwrap();
    assert_eq!(a.tool_result(&handle).unwrap().text, printed);
    a.put_snapshot(&snapshot("s", "one"), &[blob("secret")])
        .unwrap();
    let sample = Sample {
        counted: 1,
        actual: 2,
    };
    a.put_sample("m", COUNTER, sample).unwrap();

    let walk = Walk {
        counter: COUNTER,
        tokens: 0,
        at_least: 0,
        through: None,
    };
    for other in [&b, &nameless, &a.for_tenant("A"), &a.for_tenant("a ")] {
        for label in ["s", "alias"] {
            is_unknown(other.session(label));
            is_unknown(other.head_moves(label, 10));
            is_unknown(other.record(label, &turn("hello"), None, None, at(2)));
            is_unknown(other.move_head(label, None, None, "why", at(2)));
            is_unknown(other.compact(label, recorded.id, &compaction(), at(2)));
            let change = SessionChange {
                status: Some(SessionStatus::Failed),
                ..SessionChange::default()
            };
            is_unknown(other.change_session(label, &change));
        }
        assert_eq!(other.sessions(None, 10).unwrap(), []);
        is_unknown(other.tool_result(&handle));
        is_unknown(other.walk(recorded.id, &walk));
        is_unknown(other.turns(&[recorded.id], COUNTER));
        is_unknown(other.put_counts(&[(recorded.id, counted(&said))]));
        let fork = NewSession {
            head: Some(recorded.id),
            ..session("fork")
        };
        is_unknown(other.create_session(&fork, at(2)));
        let task = NewSession {
            parent_session: Some("s".to_owned()),
            ..session("task")
        };
        is_unknown(other.create_session(&task, at(2)));
        assert_eq!(other.snapshots(None, 10).unwrap(), []);
        assert_eq!(other.snapshots(Some("s"), 10).unwrap(), []);
        assert_eq!(other.find_snapshots("").unwrap(), []);
        let hash = ContentHash::of(b"one").to_string();
        assert_eq!(other.find_snapshots(&hash).unwrap(), []);
        assert_eq!(other.blobs(&[blob("secret").hash]).unwrap(), [None]);
        assert_eq!(other.samples("m", COUNTER, 10).unwrap(), []);
    }
}

fn compaction() -> contexture_store::Compaction {
    contexture_store::Compaction {
        summary: "s".to_owned(),
        summarized_through: None,
        first_kept: None,
        first_kept_message: 0,
        facts: None,
        made_of: Vec::new(),
        trigger: contexture_store::Trigger::Manual,
        focus: None,
        summariser: "extractive".to_owned(),
        tokens_before: 1,
        tokens_after: 1,
        usage: None,
    }
}

#[test]
fn tenants_can_use_the_same_names() {
    let (directory, stores) = tenants();
    let keyed = |said: &str| NewTurn {
        idempotency_key: Some("key".to_owned()),
        ..turn(said)
    };
    let mut first = Vec::new();
    for (i, store) in stores.iter().enumerate() {
        let new = NewSession {
            aliases: vec!["alias".to_owned()],
            ..session("s")
        };
        store.create_session(&new, at(0)).unwrap();
        // The same turn has the same id, and is stored once for each.
        let same = store.record("s", &turn("same"), None, None, at(1)).unwrap();
        first.push(same.id);
        // The same idempotency key belongs to another turn.
        let own = store
            .record("s", &keyed(&format!("own {i}")), None, None, at(2))
            .unwrap();
        assert!(!own.replayed);
        let n = i as u64 + 1;
        let words = contexture_store::Counted {
            counter: COUNTER.to_owned(),
            blocks: vec![vec![n], vec![n]],
        };
        store.put_counts(&[(same.id, words)]).unwrap();
        store
            .put_sample(
                "m",
                COUNTER,
                Sample {
                    counted: n,
                    actual: n,
                },
            )
            .unwrap();
        let taken = Snapshot {
            tokens: n,
            ..snapshot("s", "same")
        };
        store
            .put_snapshot(&taken, &[blob("same"), blob(&format!("own {i}"))])
            .unwrap();
    }
    assert!(first.iter().all(|id| *id == first[0]));
    for (i, store) in stores.iter().enumerate() {
        let n = i as u64 + 1;
        let session = store.session("alias").unwrap();
        let walked = path(store, session.head.unwrap());
        assert_eq!(walked.len(), 2);
        assert_eq!(walked[1].tokens, Some(2 * n));
        let turns = store.turns(&[walked[0].id, walked[1].id], COUNTER).unwrap();
        assert_eq!(turns[0].turn, keyed(&format!("own {i}")));
        assert_eq!(turns[1].counts, Some(vec![vec![n], vec![n]]));
        assert_eq!(
            store.samples("m", COUNTER, 9).unwrap(),
            [Sample {
                counted: n,
                actual: n
            }]
        );
        let snapshots = store.snapshots(None, 10).unwrap();
        assert_eq!(
            snapshots,
            [Snapshot {
                tokens: n,
                ..snapshot("s", "same")
            }]
        );
        assert_eq!(store.find_snapshots("").unwrap(), snapshots);
        let hashes: Vec<ContentHash> = (0..3)
            .map(|other| blob(&format!("own {other}")).hash)
            .collect();
        let found = store.blobs(&hashes).unwrap();
        for (other, bytes) in found.iter().enumerate() {
            assert_eq!(bytes.is_some(), other == i);
        }
        // A change of one tenant is not visible to the others.
        let status = SessionChange {
            status: Some(SessionStatus::Completed),
            ..SessionChange::default()
        };
        store.change_session("s", &status).unwrap();
        let done = stores
            .iter()
            .filter(|store| store.session("s").unwrap().status == SessionStatus::Completed);
        assert_eq!(done.count(), i + 1);
    }
    // A newly opened handle sees the same data as an existing one.
    let again = SqliteStore::open(directory.path().join("store.db")).unwrap();
    assert_eq!(
        again.for_tenant("b").session("s").unwrap(),
        stores[1].session("s").unwrap()
    );
}

/// A tree with every kind of record. Two short names are not the usual ones.
fn tree(id: &str) -> TreeDocument {
    let json = r#"{"tree":{"id":"ID","mode":"dialogue","created_at":1000},
        "agents":[{"id":"x","type":"model","position":"abcdef2"}],
        "nodes":[{"id":"abcdef1","author":"human","content":"secret","created_at":3000},
            {"id":"abcdef2","author":"model","author_agent_id":"x","content":"I see","created_at":2000,
             "raw_response":{"body":"secret"}},
            {"id":"abcdef","author":"human","content":"hidden","edited_from":"abcdef1","created_at":4000}],
        "edges":[{"id":"e1","type":"continuation","sources":[{"node_id":"abcdef1"}],
            "target_node_id":"abcdef2"}],
        "paths":[{"name":"p","head":"abcdef2","choices":["abcdef"]}],
        "memories":[{"agent_id":"x","pins":[{"node_id":"abcdef1"}],
            "stashes":[{"name":"s","text":"secret"}],"trace":[{"action":"saw","at":1}]}]}"#;
    serde_json::from_str(&json.replace("ID", id)).unwrap()
}

#[test]
fn trees_of_other_tenants_are_not_found() {
    let (_directory, [a, b, nameless]) = tenants();
    a.import_tree(&tree("t"), at(0)).unwrap();
    a.put_node_counts("t", COUNTER, &[("abcdef1", vec![1])])
        .unwrap();
    let before = a.export_tree("t").unwrap().to_json();
    for other in [&b, &nameless, &a.for_tenant("A"), &a.for_tenant("a ")] {
        assert_eq!(other.trees(None, 10).unwrap(), []);
        is_unknown(other.tree("t"));
        is_unknown(other.export_tree("t"));
        is_unknown(other.skeleton("t"));
        is_unknown(other.grow("t", &Growth::default(), at(1)));
        for name in ["abcdef1", "abcdef~2", "abcd"] {
            is_unknown(other.find_node("t", name));
        }
        // Nor can they reach it through a tree of their own.
        let json = r#"{"tree":{"id":"own","mode":"dialogue"},
            "nodes":[{"id":"own1","author":"human","content":"mine"}]}"#;
        let own: TreeDocument = serde_json::from_str(json).unwrap();
        other.import_tree(&own, at(1)).unwrap();
        for tree in ["t", "own"] {
            is_unknown(other.find_node(tree, "abcdef1"));
            is_unknown(other.climb(tree, "abcdef1", 1));
            is_unknown(other.arrivals(tree, "abcdef2"));
            is_unknown(other.nodes(tree, &["abcdef1"], COUNTER));
            is_unknown(other.put_node_counts(tree, COUNTER, &[("abcdef1", vec![1])]));
            is_unknown(other.connections(tree, &["abcdef1"]));
            is_unknown(other.annotations(tree, &["abcdef1"]));
            is_unknown(other.raw_response(tree, "abcdef2"));
            is_unknown(other.agent_memory(tree, "x"));
            let flags = TreeChange::Flags {
                node: "abcdef1".to_owned(),
                change: Flags::default().into(),
            };
            is_unknown(other.change_tree(tree, &flags, at(1)));
        }
        // The error does not reveal that a node is in another tenant's tree.
        let edge = Growth {
            nodes: Vec::new(),
            edges: vec![tree("t").edges.remove(0)],
        };
        let said = other.grow("own", &edge, at(1)).unwrap_err().to_string();
        assert_eq!(
            said,
            "edges[0].target_node_id: there is no node `abcdef2` in this tree"
        );
    }
    assert_eq!(a.export_tree("t").unwrap().to_json(), before);
}

/// A tree that one tenant exports is identical after an import by another:
/// bytes and short names.
#[test]
fn tenants_can_use_the_same_tree_ids() {
    let (_directory, [a, b, nameless]) = tenants();
    let new = Imported {
        created: true,
        nodes: 3,
        edges: 1,
        reflagged: 0,
        changed: false,
    };
    assert_eq!(a.import_tree(&tree("t"), at(0)).unwrap(), new);
    let exported = a.export_tree("t").unwrap();
    assert_eq!(b.import_tree(&exported, at(99)).unwrap(), new);
    assert_eq!(nameless.import_tree(&tree("t2"), at(0)).unwrap(), new);
    assert_eq!(b.export_tree("t").unwrap().to_json(), exported.to_json());
    for (name, id) in [
        ("abcdef", "abcdef"),
        ("abcdef2", "abcdef2"),
        ("abcdef~2", "abcdef"),
    ] {
        for store in [&a, &b] {
            assert_eq!(store.find_node("t", name).unwrap().id, id);
        }
    }
    // A change of one tenant is not visible to the others.
    let act = TreeChange::Memory {
        agent: "x".to_owned(),
        change: MemoryChange::Act("went".to_owned()),
    };
    b.change_tree("t", &act, at(1)).unwrap();
    let pruned = TreeChange::Flags {
        node: "abcdef2".to_owned(),
        change: FlagChange {
            pruned: Some(true),
            ..FlagChange::default()
        },
    };
    b.change_tree("t", &pruned, at(1)).unwrap();
    b.put_node_counts("t", COUNTER, &[("abcdef1", vec![5])])
        .unwrap();
    assert_eq!(a.export_tree("t").unwrap(), exported);
    assert_eq!(a.tree("t").unwrap().epoch, 0);
    let counted = a.nodes("t", &["abcdef1"], COUNTER).unwrap();
    assert_eq!(counted[0].tokens, None);
}

/// Texts, an entity, relations and tasks, the same for every tenant.
fn memories() -> Vec<NewRecord> {
    let mention = |name: &str| Mention {
        entity_type: "person".to_owned(),
        name: name.to_owned(),
        key: name.to_lowercase(),
    };
    let text = Derived {
        words: Some(b"words".to_vec()),
        vector: Some(b"vector".to_vec()),
        mentions: vec![mention("Ann"), mention("Bob")],
        links: vec![Link {
            relation_type: "knows".to_owned(),
            from: 0,
            to: 1,
        }],
        ..Derived::default()
    };
    let named = Derived {
        names: vec!["bob".to_owned()],
        ..Derived::default()
    };
    let lines = [
        (
            r#"{"kind":"event","id":"e","session_id":"s","source":"f","content":"secret"}"#,
            text.clone(),
        ),
        (
            r#"{"kind":"chunk","id":"c","source":"f","text":"secret"}"#,
            text,
        ),
        (
            r#"{"kind":"entity","id":"bob","type":"person","name":"Bob"}"#,
            named,
        ),
        (
            r#"{"kind":"relation","id":"r","type":"likes","source_id":"bob","target_id":"person:ann",
            "evidence":["e"]}"#,
            Derived::default(),
        ),
        (
            r#"{"kind":"pattern","id":"p","name":"p","procedure":"secret"}"#,
            Derived::default(),
        ),
        (
            r#"{"kind":"task","id":"a","goal":"secret","created_at":0}"#,
            Derived::default(),
        ),
        (
            r#"{"kind":"task","id":"b","goal":"secret","parent_id":"a","created_at":0}"#,
            Derived::default(),
        ),
    ];
    let read = |(line, derived): (&str, Derived)| NewRecord {
        record: serde_json::from_str(line).unwrap(),
        derived,
    };
    lines.map(read).into()
}

fn analysis(name: &str) -> Analysis {
    Analysis {
        words: 1,
        embedder: Some(embedder(name)),
    }
}

fn embedder(name: &str) -> EmbedderInfo {
    EmbedderInfo {
        name: name.to_owned(),
        dimensions: 1,
    }
}

#[test]
fn memories_of_other_tenants_are_not_found() {
    let (_directory, [a, b, nameless]) = tenants();
    let kept = a.remember(&memories(), &analysis("m"), at(0)).unwrap();
    let keys: Vec<i64> = kept[..5].iter().map(|it| it.key()).collect();
    a.resume_task("main", "b").unwrap();
    let before = (
        a.changes(0, 100).unwrap(),
        a.memory_state().unwrap(),
        a.memory_stats().unwrap(),
        a.tasks("main").unwrap(),
    );
    for other in [&b, &nameless, &a.for_tenant("A"), &a.for_tenant("a ")] {
        assert_eq!(other.memory_state().unwrap(), MemoryState::default());
        assert_eq!(other.memory_stats().unwrap(), MemoryStats::default());
        assert_eq!(other.changes(0, 100).unwrap(), []);
        assert_eq!(other.records(&keys).unwrap(), vec![None; 5]);
        let ids = ["e", "c", "bob", "person:ann", "r", "p", "a"];
        assert_eq!(other.record_keys(&ids).unwrap(), []);
        other.archive(&keys).unwrap();
        for id in ids {
            let id = id.to_owned();
            is_unknown(other.forget(&Forget::Id { kind: None, id }));
        }
        is_unknown(other.forget(&Forget::Source("f".to_owned())));
        is_unknown(other.forget(&Forget::Session("s".to_owned())));
        // Nor when they have their own embedder and texts.
        other.put_words(2, &[(keys[0], vec![9])]).unwrap();
        other
            .put_vectors(&embedder("m"), &[(keys[0], vec![9])])
            .unwrap();
        other.use_embedder(&embedder("other")).unwrap();
        other
            .put_vectors(&embedder("other"), &[(keys[0], vec![9])])
            .unwrap();
        let without = other.unembedded(&embedder("m"), 0, 10).unwrap();
        assert!(without.is_empty());
        assert_eq!(other.task_stacks().unwrap(), Vec::<String>::new());
        assert_eq!(other.tasks("main").unwrap(), []);
        assert_eq!(other.task_view("main").unwrap(), TaskView::default());
        is_unknown(other.resume_task("main", "a"));
        is_unknown(other.finish_task("main", Some("b"), TaskStatus::Complete, None, at(1)));
        let part = NewTask {
            id: None,
            goal: "x".to_owned(),
            parent_id: Some("a".to_owned()),
        };
        is_unknown(other.push_task("main", &part, at(1)));
    }
    assert_eq!(
        before,
        (
            a.changes(0, 100).unwrap(),
            a.memory_state().unwrap(),
            a.memory_stats().unwrap(),
            a.tasks("main").unwrap(),
        )
    );
    // Records with the same ids are independent; a deletion in one tenant does
    // not affect the other.
    let own = nameless.for_tenant("c");
    let others = own.remember(&memories(), &analysis("n"), at(0)).unwrap();
    assert!(
        others[..5]
            .iter()
            .all(|it| matches!(it, Remembered::Added(_)))
    );
    own.forget(&Forget::Source("f".to_owned())).unwrap();
    assert_eq!(a.changes(0, 100).unwrap(), before.0);
    assert_eq!(a.memory_stats().unwrap(), before.2);
}

#[test]
fn no_row_refers_to_one_of_another_tenant() {
    let (directory, stores) = tenants();
    for store in &stores {
        store.create_session(&session("s"), at(0)).unwrap();
        for said in ["one", "two", "three"] {
            let said = turn(said);
            store
                .record("s", &said, Some(&counted(&said)), None, at(1))
                .unwrap();
        }
        let head = store.session("s").unwrap().head.unwrap();
        store.compact("s", head, &compaction(), at(2)).unwrap();
        let fork = NewSession {
            head: Some(head),
            parent_session: Some("s".to_owned()),
            ..session("fork")
        };
        store.create_session(&fork, at(3)).unwrap();
        store
            .record("fork", &turn("four"), None, None, at(3))
            .unwrap();
        store.import_tree(&tree("t"), at(4)).unwrap();
        let counts = [("abcdef1", vec![1])];
        store.put_node_counts("t", COUNTER, &counts).unwrap();
        let mut more = tree("t");
        more.nodes[2].id = "abcdef3".to_owned();
        let growth = Growth {
            nodes: vec![more.nodes.remove(2)],
            edges: Vec::new(),
        };
        store.grow("t", &growth, at(5)).unwrap();
        let kept = store.remember(&memories(), &analysis("m"), at(6)).unwrap();
        store
            .put_vectors(&embedder("n"), &[(kept[0].key(), vec![1])])
            .unwrap();
        store.resume_task("main", "b").unwrap();
    }
    let db = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
    let crossing = [
        "SELECT count(*) FROM turns t JOIN turns p ON p.key = t.parent WHERE p.tenant <> t.tenant",
        "SELECT count(*) FROM turns t JOIN turns c ON c.key = t.compaction WHERE c.tenant <> t.tenant",
        "SELECT count(*) FROM turns t JOIN sessions s ON s.key = t.session WHERE s.tenant <> t.tenant",
        "SELECT count(*) FROM sessions s JOIN turns t ON t.key = s.head WHERE s.tenant <> t.tenant",
        "SELECT count(*) FROM sessions s JOIN turns t ON t.key = s.parent_turn WHERE s.tenant <> t.tenant",
        "SELECT count(*) FROM sessions s JOIN sessions p ON p.key = s.parent_session WHERE s.tenant <> p.tenant",
        "SELECT count(*) FROM counts c JOIN turns t ON t.key = c.turn JOIN counters n ON n.key = c.counter WHERE n.tenant <> t.tenant",
        "SELECT count(*) FROM head_moves m JOIN sessions s ON s.key = m.session JOIN turns t ON t.key = m.target WHERE s.tenant <> t.tenant",
        "SELECT count(*) FROM nodes n JOIN trees t ON t.key = n.tree WHERE t.tenant <> n.tenant",
        "SELECT count(*) FROM trees t JOIN nodes n ON n.key = t.root WHERE n.tree <> t.key",
        "SELECT count(*) FROM nodes n JOIN nodes p ON p.key IN (n.parent, n.edited_from) WHERE p.tree <> n.tree",
        "SELECT count(*) FROM nodes n JOIN agents a ON a.key = n.agent WHERE a.tree <> n.tree",
        "SELECT count(*) FROM agents a JOIN nodes n ON n.key = a.position WHERE a.tree <> n.tree",
        "SELECT count(*) FROM edges e JOIN nodes n ON n.key = e.target WHERE n.tree <> e.tree",
        "SELECT count(*) FROM edge_sources s JOIN edges e ON e.key = s.edge JOIN nodes n ON n.key = s.node WHERE n.tree <> e.tree",
        "SELECT count(*) FROM node_counts c JOIN nodes n ON n.key = c.node JOIN counters k ON k.key = c.counter WHERE n.tenant <> k.tenant",
        "SELECT count(*) FROM saved_paths p JOIN nodes n ON n.key = p.head WHERE n.tree <> p.tree",
        "SELECT count(*) FROM memory_counts c JOIN memories m ON m.key = c.key WHERE c.tenant <> m.tenant",
        "SELECT count(*) FROM memory_mentions x JOIN memories m ON m.key = x.record JOIN memories e ON e.key = x.entity WHERE m.tenant <> e.tenant",
        "SELECT count(*) FROM memory_evidence x JOIN memories m ON m.key = x.record JOIN memories e ON e.key = x.relation WHERE m.tenant <> e.tenant",
        "SELECT count(*) FROM memory_ends x JOIN memories m ON m.key = x.relation JOIN memories e ON e.key IN (x.source, x.target) WHERE m.tenant <> e.tenant",
        "SELECT count(*) FROM memory_names x JOIN memories m ON m.key = x.entity WHERE m.tenant <> x.tenant",
        "SELECT count(*) FROM memory_references x JOIN memories m ON m.key = x.record WHERE m.tenant <> x.tenant",
        "SELECT count(*) FROM memory_vectors x JOIN memories m ON m.key = x.record JOIN memory_models e ON e.key = x.model WHERE m.tenant <> e.tenant",
        "SELECT count(*) FROM memory_states x JOIN memory_models m ON m.key = x.model WHERE m.tenant <> x.tenant",
        "SELECT count(*) FROM tasks t JOIN tasks p ON p.key = t.parent WHERE p.tenant <> t.tenant OR p.stack <> t.stack",
        "SELECT count(*) FROM task_stacks s JOIN tasks t ON t.key = s.current WHERE s.tenant <> t.tenant OR s.stack <> t.stack",
        "SELECT count(*) FROM pins p JOIN agents a ON a.key = p.agent JOIN nodes n ON n.key = p.node WHERE n.tree <> a.tree",
    ];
    for query in crossing {
        let rows: u32 = db.query_row(query, [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{query}");
    }
}
