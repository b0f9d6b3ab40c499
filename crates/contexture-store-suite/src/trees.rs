//! Tests of the documentation of [`Trees`](contexture_store::Trees), one
//! function for each promise.

use serde_json::json;

use super::at;
use contexture_store::{
    Agent, AgentMemory, Author, Block, Connections, Edge, EdgeKind, EdgeSource, FlagChange, Flags,
    Growth, Imported, MemoryChange, MessageContent, Node, NodeHead, Pin, Preferences,
    PreferencesChange, RawResponse, SavedPath, SettingsChange, SourceRole, Stash, Step, Store,
    StoreError, Tree, TreeChange, TreeDocument, TreeMode, TruncationStrategy,
};

/// Reads a tree in short: one record in each line.
///
/// ```text
/// agent a1 model
/// node n1 human Where are we?
/// node n2 model @a1 In a garden.
/// node n3 model of:n2 at:90 In a wood.
/// edge e1 n1 -> n2
/// note e2 n1 n3 context:c instruction:i -> n4
/// path main n2 e1
/// ```
pub(crate) fn document(tree: &str, text: &str) -> TreeDocument {
    let mut document = TreeDocument {
        tree: Tree {
            id: tree.to_owned(),
            mode: TreeMode::Dialogue,
            title: None,
            system_context: None,
            buffer_mode_system_context: false,
            preferences: Preferences::default(),
            created_at: Some(at(0)),
        },
        agents: Vec::new(),
        nodes: Vec::new(),
        edges: Vec::new(),
        paths: Vec::new(),
        memories: Vec::new(),
    };
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    for (i, line) in lines.enumerate() {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap().to_owned();
        match (&*word(), word()) {
            ("agent", id) => document.agents.push(agent(&id)),
            ("node", id) => {
                let author = match &*word() {
                    "human" => Author::Human,
                    _ => Author::Model,
                };
                let mut node = node(&id, author, "");
                node.created_at = Some(at(i as i64));
                let mut said = Vec::new();
                for word in words {
                    if let Some(agent) = word.strip_prefix('@') {
                        node.author_agent_id = Some(agent.to_owned());
                    } else if let Some(from) = word.strip_prefix("of:") {
                        node.edited_from = Some(from.to_owned());
                    } else if let Some(seconds) = word.strip_prefix("at:") {
                        node.created_at = Some(at(seconds.parse().unwrap()));
                    } else {
                        said.push(word);
                    }
                }
                node.content = MessageContent::Text(said.join(" "));
                document.nodes.push(node);
            }
            ("path", name) => document.paths.push(SavedPath {
                name,
                head: word(),
                choices: words.map(str::to_owned).collect(),
            }),
            (kind, id) => {
                let mut sources: Vec<EdgeSource> = Vec::new();
                for word in words.by_ref().take_while(|word| *word != "->") {
                    let (role, node) = match word.split_once(':') {
                        Some(("context", node)) => (SourceRole::Context, node),
                        Some((_, node)) => (SourceRole::Instruction, node),
                        None => (SourceRole::Primary, word),
                    };
                    let node_id = node.to_owned();
                    sources.push(EdgeSource { node_id, role });
                }
                document.edges.push(Edge {
                    id,
                    kind: match kind {
                        "edge" => EdgeKind::Continuation,
                        _ => EdgeKind::Annotation,
                    },
                    sources,
                    target_node_id: words.next().unwrap().to_owned(),
                });
            }
        }
    }
    document
}

fn agent(id: &str) -> Agent {
    Agent {
        id: id.to_owned(),
        kind: Author::Model,
        name: None,
        system_prompt: None,
        model: None,
        parameters: serde_json::Map::new(),
        permissions: Vec::new(),
        loom_aware: false,
        position: None,
    }
}

fn node(id: &str, author: Author, text: &str) -> Node {
    Node {
        id: id.to_owned(),
        local_id: None,
        author,
        author_agent_id: None,
        content: MessageContent::Text(text.to_owned()),
        edited_from: None,
        metadata: None,
        created_at: None,
        raw_response: None,
    }
}

fn growth(text: &str) -> Growth {
    let document = document("", text);
    Growth {
        nodes: document.nodes,
        edges: document.edges,
    }
}

pub(crate) fn import(store: &dyn Store, tree: &str, text: &str) -> Imported {
    store.import_tree(&document(tree, text), at(100)).unwrap()
}

fn grow(store: &dyn Store, tree: &str, text: &str) -> Vec<NodeHead> {
    store.grow(tree, &growth(text), at(200)).unwrap()
}

fn export(store: &dyn Store, tree: &str) -> String {
    store.export_tree(tree).unwrap().to_json()
}

fn epoch(store: &dyn Store, tree: &str) -> u64 {
    store.tree(tree).unwrap().epoch
}

fn step(head: &NodeHead) -> String {
    match &head.step {
        Step::Nothing => format!("{} nothing", head.id),
        Step::Plain { parent } => format!("{} after {parent}", head.id),
        Step::Look => format!("{} look", head.id),
    }
}

fn climb(store: &dyn Store, tree: &str, from: &str) -> Vec<String> {
    let heads = store.climb(tree, from, usize::MAX).unwrap();
    heads.iter().map(step).collect()
}

/// The incoming edges of a node, each with its possible sources.
fn arrivals(store: &dyn Store, tree: &str, node: &str) -> Vec<String> {
    let arrivals = store.arrivals(tree, node).unwrap();
    let line = |arrival: &contexture_store::Arrival| {
        let versions: Vec<&str> = arrival.versions.iter().map(|head| &*head.id).collect();
        format!("{} {}", arrival.edge.id, versions.join(" "))
    };
    arrivals.iter().map(line).collect()
}

/// Checks that a call is rejected with a message that begins with this text,
/// and that tree `t` is unchanged.
fn refused<T: std::fmt::Debug>(
    store: &dyn Store,
    why: &str,
    attempt: impl FnOnce() -> Result<T, StoreError>,
) {
    let before = (export(store, "t"), store.tree("t").unwrap());
    let trees = store.trees(None, 100).unwrap().len();
    let said = attempt().unwrap_err().to_string();
    assert!(said.starts_with(why), "{said}\n  is not\n{why}");
    assert_eq!((export(store, "t"), store.tree("t").unwrap()), before);
    assert_eq!(store.trees(None, 100).unwrap().len(), trees);
}

fn is_unknown<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(
        matches!(result, Err(StoreError::NotFound { .. })),
        "{result:?}"
    );
}

/// A document with every kind of record.
fn everything() -> TreeDocument {
    let json = json!({
        "tree": {"id": "t1", "mode": "dialogue", "title": "A garden", "system_context": "Be brief.",
            "buffer_mode_system_context": true, "created_at": "2026-02-02T10:00:00.123456Z",
            "preferences": {"truncation_strategy": "rolling_window", "minimum_recent_nodes": 2,
                "token_buffer": 512}},
        "agents": [
            {"id": "b", "type": "human", "name": "Ana"},
            {"id": "a", "type": "model", "name": "Atlas", "system_prompt": "You are Atlas.",
                "model": "m1", "parameters": {"top_p": 0.1, "a": [1, {"z": null, "b": "c"}]},
                "permissions": ["write", "prune"], "loom_aware": true, "position": "n3"},
        ],
        "nodes": [
            {"id": "n3", "author": "model", "author_agent_id": "a", "created_at": 1770000003123_i64,
                "content": [{"type": "text", "text": "Look."},
                    {"type": "image", "media_type": "image/png", "url": "https://example.com/a.png"}],
                "raw_response": {"model": "m1", "provider": "p", "request_hash": "abc",
                    "usage": {"input_tokens": 10, "output_tokens": 2, "cached_input_tokens": 0,
                        "cache_write_tokens": 0, "reasoning_tokens": 0},
                    "body": {"z": 1.5, "a": [null, true, "x"]}}},
            {"id": "n1", "author": "human", "author_agent_id": "b", "content": "Where are we?",
                "created_at": "2026-02-02T09:00:00+01:00", "metadata": {"bookmarked": true}},
            {"id": "n2", "author": "human", "content": "Where am I?", "edited_from": "n1",
                "created_at": "2026-02-02T10:00:01Z"},
            {"id": "note", "author": "human", "content": "Hm.", "metadata": {"excluded": true},
                "created_at": "2026-02-02T10:00:04Z"},
            {"id": "rule", "author": "human", "content": "In rhyme.", "metadata": {"pruned": true},
                "created_at": "2026-02-02T10:00:05Z"},
        ],
        "edges": [
            {"id": "e2", "type": "annotation", "sources": [{"node_id": "n3"}], "target_node_id": "note"},
            {"id": "e1", "type": "continuation", "target_node_id": "n3", "sources": [
                {"node_id": "rule", "role": "instruction"}, {"node_id": "n1", "role": "primary"}]},
        ],
        "paths": [{"name": "main", "head": "n3", "choices": ["n2", "e1", "n2"]}],
        "memories": [{"agent_id": "a", "pins": [{"text": "b"}, {"node_id": "n1"}, {"text": "a"}],
            "stashes": [{"name": "z", "text": "1"}, {"name": "y", "text": "2", "recalled": true}],
            "trace": [{"action": "pinned", "at": 1770000000001_i64}, {"action": "stashed"}]}],
    });
    serde_json::from_value(json).unwrap()
}

pub fn a_tree_is_read_back_unchanged(store: &dyn Store) {
    let document = everything();
    document.check().unwrap();
    let imported = store.import_tree(&document, at(9)).unwrap();
    let expected = Imported {
        created: true,
        nodes: 5,
        edges: 2,
        reflagged: 0,
        changed: false,
    };
    assert_eq!(imported, expected);
    let exported = store.export_tree("t1").unwrap();
    let normalised = document.clone().normalised(at(9));
    assert_eq!(exported, normalised);
    assert_eq!(exported.to_json(), normalised.to_json());
    let read: TreeDocument = serde_json::from_str(&exported.to_json()).unwrap();
    assert_eq!(read, exported);

    let info = store.tree("t1").unwrap();
    assert_eq!(info.tree, normalised.tree);
    assert_eq!(info.root.as_deref(), Some("n1"));
    assert_eq!((info.nodes, info.edges, info.epoch), (5, 2, 0));
    assert_eq!(info.agents, normalised.agents);
    assert_eq!(info.paths, normalised.paths);
    assert_eq!(info.paths[0].choices, ["e1", "n2"]);
    let memory = store.agent_memory("t1", "a").unwrap();
    assert_eq!(memory, normalised.memories[0]);
    assert_eq!(memory.trace[1].at, Some(at(9)));
}

pub fn a_tree_can_be_empty(store: &dyn Store) {
    import(store, "t", "");
    let info = store.tree("t").unwrap();
    assert_eq!((info.root, info.nodes, info.edges), (None, 0, 0));
    assert_eq!(
        export(store, "t"),
        document("t", "").normalised(at(0)).to_json()
    );
    assert_eq!(grow(store, "t", ""), []);
    grow(
        store,
        "t",
        "node n1 human a\nnode n2 model b\nedge e1 n1 -> n2",
    );
    let info = store.tree("t").unwrap();
    assert_eq!(info.root.as_deref(), Some("n1"));
    assert_eq!((info.nodes, info.edges, info.epoch), (2, 1, 0));
}

pub fn a_tree_imported_again_changes_nothing(store: &dyn Store) {
    let document = everything();
    store.import_tree(&document, at(9)).unwrap();
    let before = (export(store, "t1"), store.tree("t1").unwrap());
    let same = Imported {
        created: false,
        nodes: 0,
        edges: 0,
        reflagged: 0,
        changed: false,
    };
    let mut silent = document.clone();
    for node in &mut silent.nodes {
        (node.created_at, node.raw_response) = (None, None);
        node.local_id = Some(format!("{}~7", node.id));
    }
    let exported = store.export_tree("t1").unwrap();
    for again in [&document, &silent, &exported] {
        assert_eq!(store.import_tree(again, at(99)).unwrap(), same);
        assert_eq!((export(store, "t1"), store.tree("t1").unwrap()), before);
    }
}

pub fn the_order_of_records_does_not_matter(store: &dyn Store) {
    // Ids with common prefixes, with equal and different times.
    let text = "
        agent a1 model
        agent a2 model
        node X-aaaaaa1 human at:1 one
        node X-aaaa model @a1 at:1 two
        node X-aaaaaa2 human at:1 three
        node X-aaaaaa human at:3 four
        node X-aaaaaa3 model of:X-aaaaaa1 @a2 at:2 five
        node X-b human at:9 rule
        edge e1 X-aaaaaa1 -> X-aaaa
        edge e2 X-aaaa X-aaaaaa2 instruction:X-b -> X-aaaaaa
        edge e3 X-aaaaaa1 -> X-aaaaaa2
        path p X-aaaaaa e1
        path o X-aaaa";
    let mut random = 7_u64;
    let mut below = |n: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % n as u64) as usize
    };
    let mut first: Option<(String, Vec<String>)> = None;
    for letter in 'A'..='J' {
        // A node belongs to one tree, so every tree has its own nodes.
        let own = text.replace("X-", &format!("{letter}-"));
        let mut document = document("t", &own);
        document.tree.id = format!("t{letter}");
        fn shuffle<T>(list: &mut [T], below: &mut impl FnMut(usize) -> usize) {
            for i in 1..list.len() {
                list.swap(i, below(i + 1));
            }
        }
        shuffle(&mut document.agents, &mut below);
        shuffle(&mut document.nodes, &mut below);
        shuffle(&mut document.edges, &mut below);
        shuffle(&mut document.paths, &mut below);
        store.import_tree(&document, at(50)).unwrap();
        let back = |text: &str| text.replace(&format!("{letter}-"), "X-");
        let exported =
            back(&export(store, &document.tree.id)).replace(&format!("\"t{letter}\""), "\"t\"");
        let skeleton = store.skeleton(&document.tree.id).unwrap();
        let named = skeleton
            .nodes
            .iter()
            .map(|(head, _)| back(&format!("{} {}", head.id, head.local_id)));
        let named = (exported, named.collect::<Vec<_>>());
        assert_eq!(first.get_or_insert(named.clone()), &named);
    }
    assert_eq!(
        first.unwrap().1,
        [
            "X-aaaa X-aaaa",
            "X-aaaaaa1 X-aaaaa",
            "X-aaaaaa2 X-aaaaaa",
            "X-aaaaaa3 X-aaaaaa3",
            "X-aaaaaa X-aaaaaa~2",
            "X-b X-b",
        ]
    );
}

pub fn short_names_are_beginnings_of_ids(store: &dyn Store) {
    import(store, "t", "node 0123456789 human root");
    let names = |heads: Vec<NodeHead>| -> Vec<String> {
        heads.into_iter().map(|head| head.local_id).collect()
    };
    // Six characters, one more if that name is in use, and all of a short id.
    let heads = grow(
        store,
        "t",
        "node 0123456zz human a
         node 01234567 human b
         node 012 human c
         node 012345 human d
         node äöüßéèx human e
         edge e1 0123456789 -> 0123456zz
         edge e2 0123456789 -> 01234567
         edge e3 0123456789 -> 012
         edge e4 0123456789 -> 012345
         edge e5 0123456789 -> äöüßéèx",
    );
    let given = ["0123456", "01234567", "012", "012345~2", "äöüßéè"];
    assert_eq!(names(heads), given);
    // A node with an explicit short name gets it, whatever the order is.
    let mut more = growth(
        "node 012345678 human at:1 a
         node 0123456780 human at:2 b
         edge e6 0123456789 -> 012345678
         edge e7 0123456789 -> 0123456780",
    );
    more.nodes[1].local_id = Some("012345678".to_owned());
    let heads = store.grow("t", &more, at(3)).unwrap();
    assert_eq!(names(heads), ["012345678~2", "012345678"]);
    // Unusual short names are exported, so that they are the same after every
    // import.
    let exported = store.export_tree("t").unwrap();
    let written = exported.nodes.iter().filter_map(|node| {
        let local_id = node.local_id.as_ref()?;
        Some(format!("{} {local_id}", node.id))
    });
    assert_eq!(
        written.collect::<Vec<_>>(),
        [
            "0123456zz 0123456",
            "01234567 01234567",
            "012345678 012345678~2",
            "0123456780 012345678",
            "012345 012345~2",
        ]
    );
    let mut wrong = growth("node new human a\nedge e9 012 -> new");
    for (local_id, why) in [
        (
            "other",
            "nodes[0].local_id: `other` is not a short name for `new`: it is the first 6 characters or more of the id",
        ),
        ("ne", "nodes[0].local_id: `ne` is not a short name"),
    ] {
        wrong.nodes[0].local_id = Some(local_id.to_owned());
        refused(store, why, || store.grow("t", &wrong, at(3)));
    }
    let mut taken = growth("node 0123456789x human a\nedge e9 012 -> 0123456789x");
    taken.nodes[0].local_id = Some("012345".to_owned());
    let why = "nodes[0].local_id: `012345` is already the short name of node `0123456789`";
    refused(store, why, || store.grow("t", &taken, at(3)));
    let mut whole = document("t", "");
    (whole.nodes, whole.edges) = (taken.nodes, taken.edges);
    refused(store, why, || store.import_tree(&whole, at(3)));
}

pub fn a_node_is_found_by_the_beginning_of_its_id(store: &dyn Store) {
    import(
        store,
        "t",
        "node abcdef human root
         node abcdefgh human a
         node abcdefghij human b
         node abcdefghik human c
         node ab human d
         node wxyz1 human e
         edge e1 abcdef -> abcdefgh
         edge e2 abcdef -> abcdefghij
         edge e3 abcdef -> abcdefghik
         edge e4 abcdef -> ab
         edge e5 abcdef -> wxyz1",
    );
    let find = |name: &str| match store.find_node("t", name) {
        Ok(head) => head.id,
        Err(StoreError::NotFound { what, name }) => format!("no {what} {name}"),
        Err(error) => error.to_string(),
    };
    for (name, found) in [
        ("abcdef", "abcdef"),     // an id
        ("abcdefgh", "abcdefgh"), // an id that others begin with
        ("abcdefg", "abcdefgh"),  // a short name
        ("abcdefghik", "abcdefghik"),
        ("ab", "ab"),
        ("wxyz", "wxyz1"),      // a beginning
        ("wxy", "no node wxy"), // too short for one
        ("wxyz2", "no node wxyz2"),
        ("", "no node "),
        ("abcdefghi", "abcdefghik"), // the short name of the third
        ("a_cdef", "no node a_cdef"),
        ("%%%%", "no node %%%%"),
        (
            "abcd",
            "node: several nodes begin with `abcd`: `abcdef`, `abcdefgh`, `abcdefghij`, ...; \
             give more of the id",
        ),
    ] {
        assert_eq!(find(name), found, "{name:?}");
    }
    import(store, "other", "node zzzzzzzz human root");
    assert_eq!(find("zzzzzzzz"), "no node zzzzzzzz");
    assert_eq!(find("zzzz"), "no node zzzz");
}

pub fn an_import_adds_what_is_new(store: &dyn Store) {
    import(
        store,
        "t",
        "agent a model\nagent b model\nnode n1 human a\nnode n2 model b\nedge e1 n1 -> n2
         path p n1\npath q n1",
    );
    let mut more = document(
        "t",
        "agent b model\nagent c model\nnode n2 model at:4 b\nnode n3 human @a c\nedge e2 n2 -> n3
         path q n3 e2\npath r n2",
    );
    more.tree.title = Some("Garden".to_owned());
    more.agents[0].model = Some("m2".to_owned());
    more.nodes[0].created_at = None;
    more.nodes[0].metadata = Some(Flags {
        pruned: true,
        ..Flags::default()
    });
    let imported = store.import_tree(&more, at(500)).unwrap();
    let expected = Imported {
        created: false,
        nodes: 1,
        edges: 1,
        reflagged: 1,
        changed: true,
    };
    assert_eq!(imported, expected);
    // Flags that a document omits do not change.
    more.nodes[0].metadata = None;
    let again = store.import_tree(&more, at(501)).unwrap();
    assert_eq!((again.nodes, again.reflagged), (0, 0));
    assert!(store.find_node("t", "n2").unwrap().flags.pruned);
    let info = store.tree("t").unwrap();
    assert_eq!(info.tree.title.as_deref(), Some("Garden"));
    assert_eq!((info.nodes, info.edges), (3, 2));
    let agents = info.agents.iter().map(|agent| {
        let model = agent.model.as_deref().unwrap_or("-");
        format!("{} {model}", agent.id)
    });
    assert_eq!(agents.collect::<Vec<_>>(), ["a -", "b m2", "c -"]);
    let paths = info
        .paths
        .iter()
        .map(|path| format!("{} {}", path.name, path.head));
    assert_eq!(paths.collect::<Vec<_>>(), ["p n1", "q n3", "r n2"]);
    let steps = ["n3 after n2", "n2 after n1", "n1 nothing"];
    assert_eq!(climb(store, "t", "n3"), steps);
    assert!(store.find_node("t", "n2").unwrap().flags.pruned);
}

pub fn a_rejected_import_stores_nothing(store: &dyn Store) {
    import(
        store,
        "t",
        "agent a model\nnode n1 human a\nnode n2 model @a b\nedge e1 n1 -> n2",
    );
    import(store, "t2", "node m1 human a");
    let attempt = |change: &dyn Fn(&mut TreeDocument), why: &str| {
        let mut document = store.export_tree("t").unwrap();
        change(&mut document);
        refused(store, why, || store.import_tree(&document, at(9)));
    };
    let other = "nodes[1]: node `n2` already exists in this tree with different content: nodes never \
                 change; add an edit";
    attempt(
        &|it| it.nodes[1].content = MessageContent::Text("c".to_owned()),
        other,
    );
    attempt(&|it| it.nodes[1].author = Author::Human, other);
    attempt(&|it| it.nodes[1].author_agent_id = None, other);
    attempt(&|it| it.nodes[1].edited_from = Some("n1".to_owned()), other);
    attempt(&|it| it.nodes[1].created_at = Some(at(1)), other);
    let other = "edges[0]: edge `e1` already exists in this tree with different content: edges never \
                 change; add another";
    attempt(&|it| it.edges[0].kind = EdgeKind::Annotation, other);
    attempt(
        &|it| it.tree.mode = TreeMode::Buffer,
        "tree.mode: tree `t` is a dialogue; you cannot change the mode of an existing tree",
    );
    let add = |text: &str, why: &str| {
        let more = document("t", text);
        attempt(
            &|it| {
                it.nodes.extend(more.nodes.clone());
                it.edges.extend(more.edges.clone());
            },
            why,
        );
    };
    add(
        "node m1 human a",
        "nodes[2].id: node `m1` is in tree `t2` already; a node belongs to one tree",
    );
    add(
        "edge e2 m1 -> n2",
        "edges[1].sources[0].node_id: there is no node `m1` in this tree; it is in tree `t2`",
    );
    add(
        "edge e2 n1 -> m1",
        "edges[1].target_node_id: there is no node `m1` in this tree; it is in tree `t2`",
    );
    add(
        "node n3 human of:m1 a",
        "nodes[2].edited_from: there is no node `m1` in this tree; it is in tree `t2`",
    );
    add(
        "edge e2 n9 -> n2",
        "edges[1].sources[0].node_id: there is no node `n9` in this tree",
    );
    add("node n3 human a", "nodes: there are 2 roots (`n1`, `n3`)");
    add(
        "edge e2 n2 -> n1",
        "edges: the edges form a cycle: `n1` -> `n2` -> `n1`",
    );
    let mut nonsense = document("t3", "node n7 human a\nnode n8 human b");
    refused(store, "nodes: there are 2 roots", || {
        store.import_tree(&nonsense, at(9))
    });
    nonsense.tree.id = " ".to_owned();
    refused(store, "tree.id: is empty", || {
        store.import_tree(&nonsense, at(9))
    });
    is_unknown(store.tree("t3"));
}

pub fn a_rejected_growth_stores_nothing(store: &dyn Store) {
    import(
        store,
        "t",
        "agent a model
         node n1 human a
         node n2 model b
         node n3 human c
         node m human material
         node n1b human of:n1 d
         edge e1 n1 -> n2
         edge e2 n2 context:m -> n3",
    );
    import(store, "t2", "node x1 human a");
    for (text, why) in [
        (
            "node n2 model b\nedge e9 n1 -> n2",
            "nodes[0].id: node `n2` is in this tree already",
        ),
        (
            "node x1 human a\nedge e9 n1 -> x1",
            "nodes[0].id: node `x1` is in tree `t2` already; a node belongs to one tree",
        ),
        (
            "node y human a\nnode y human b\nedge e9 n1 -> y",
            "nodes[1].id: `y` is there twice",
        ),
        (
            "node y human a\nedge e1 n1 -> y",
            "edges[0].id: edge `e1` is in this tree already",
        ),
        (
            "node y human a\nedge e9 n9 -> y",
            "edges[0].sources[0].node_id: there is no node `n9` in this tree",
        ),
        (
            "node y human a\nedge e9 x1 -> y",
            "edges[0].sources[0].node_id: there is no node `x1` in this tree; it is in tree `t2`",
        ),
        (
            "edge e9 n1 -> x1",
            "edges[0].target_node_id: there is no node `x1` in this tree; it is in tree `t2`",
        ),
        (
            "node y human a\nedge e9 context:n1 -> y",
            "edges[0].sources: edge `e9` has no primary source",
        ),
        (
            "node y human a\nedge e9 -> y",
            "edges[0].sources: edge `e9` has no primary source",
        ),
        (
            "node y human of:n9 a",
            "nodes[0].edited_from: there is no node `n9` in this tree",
        ),
        (
            "node y human of:x1 a",
            "nodes[0].edited_from: there is no node `x1` in this tree; it is in tree `t2`",
        ),
        (
            "node y human of:y a",
            "nodes: the edits form a cycle: `y` -> `y`",
        ),
        (
            "node y human @b a\nedge e9 n1 -> y",
            "nodes[0].author_agent_id: there is no agent `b` in this tree",
        ),
        (
            "node y human a",
            "nodes: there are 2 roots (`n1`, `y`): a tree has one node that no edge leads to; others follow from something, are edits, or are context or instruction sources",
        ),
        (
            "node y human a\nnode z human b\nedge e9 y -> z",
            "nodes: there are 2 roots (`n1`, `y`)",
        ),
        // A context source does not become a root.
        (
            "node y human a\nedge e9 m -> y",
            "nodes: there are 2 roots (`n1`, `m`)",
        ),
        (
            "edge e9 n3 -> n2",
            "edges: the edges form a cycle: `n2` -> `n3` -> `n2`",
        ),
        (
            "edge e9 n3 -> n1",
            "edges: the edges form a cycle: `n1` -> `n2` -> `n3` -> `n1`",
        ),
        (
            "edge e9 n2 -> n2",
            "edges[0].sources[0].node_id: `n2` cannot follow from itself",
        ),
        (
            "node y human a\nnode z human b\nedge e8 y -> z\nedge e9 z -> y",
            "edges: the edges form a cycle: `y` -> `z` -> `y`",
        ),
        (
            "node y human a\nedge e8 n3 -> y\nedge e9 n1 y -> n2",
            "edges: the edges form a cycle: `n2` -> `n3` -> `y` -> `n2`",
        ),
        // The cycle leads through an edit of the source node.
        (
            "edge e9 n2 -> n1b\nedge e8 n1b -> n1",
            "edges: the edges form a cycle",
        ),
        (
            "node y human a\nedge e9 n1 n1 -> y",
            "edges[0].sources[1].node_id: `n1` is already a source of this edge",
        ),
    ] {
        refused(store, why, || store.grow("t", &growth(text), at(9)));
    }
    let mut wrong = growth("node y human a\nedge e9 n1 -> y");
    wrong.nodes[0].content = MessageContent::Blocks(vec![]);
    refused(store, "nodes[0].content: is empty", || {
        store.grow("t", &wrong, at(9))
    });
    wrong.nodes[0].content = MessageContent::Text("x".repeat(100 << 20));
    refused(store, "nodes[0].content: is 104857600 bytes", || {
        store.grow("t", &wrong, at(9))
    });
    // A growth is applied completely or not at all.
    let half = "node y human a\nedge e9 n1 -> y\nedge e8 n9 -> y";
    refused(store, "edges[1]", || store.grow("t", &growth(half), at(9)));
    is_unknown(store.find_node("t", "y"));
}

pub fn only_the_flags_of_a_node_change(store: &dyn Store) {
    store.import_tree(&everything(), at(9)).unwrap();
    let mut expected = store.export_tree("t1").unwrap();
    for node in expected.nodes.clone() {
        let flags = Flags {
            excluded: !node.flags().excluded,
            pruned: !node.flags().pruned,
            bookmarked: node.flags().bookmarked,
        };
        let change = TreeChange::Flags {
            node: node.id.clone(),
            change: flags.into(),
        };
        let before = epoch(store, "t1");
        store.change_tree("t1", &change, at(10)).unwrap();
        assert!(epoch(store, "t1") > before);
        let known = expected.nodes.iter_mut().find(|one| one.id == node.id);
        known.unwrap().metadata = Some(flags);
        assert_eq!(store.export_tree("t1").unwrap(), expected);
        assert_eq!(store.find_node("t1", &node.id).unwrap().flags, flags);
    }
    // The same change again has no effect.
    let before = epoch(store, "t1");
    let change = TreeChange::Flags {
        node: "n3".to_owned(),
        change: expected.nodes[0].flags().into(),
    };
    assert_eq!(expected.nodes[0].id, "n3");
    store.change_tree("t1", &change, at(11)).unwrap();
    assert_eq!(epoch(store, "t1"), before);
    // A change without flags has no effect, either.
    let change = flag("n3", FlagChange::default());
    store.change_tree("t1", &change, at(11)).unwrap();
    assert_eq!(epoch(store, "t1"), before);
    assert_eq!(store.export_tree("t1").unwrap(), expected);
}

fn flag(node: &str, change: FlagChange) -> TreeChange {
    TreeChange::Flags {
        node: node.to_owned(),
        change,
    }
}

pub fn concurrent_changes_of_flags_are_all_applied(store: &dyn Store) {
    const EACH: usize = 40;
    import(store, "t", "node n1 human a");
    // A setter and a getter of one flag.
    type Flag = (fn(bool) -> FlagChange, fn(Flags) -> bool);
    let flags: [Flag; 3] = [
        (
            |set| FlagChange {
                excluded: Some(set),
                ..FlagChange::default()
            },
            |flags| flags.excluded,
        ),
        (
            |set| FlagChange {
                pruned: Some(set),
                ..FlagChange::default()
            },
            |flags| flags.pruned,
        ),
        (
            |set| FlagChange {
                bookmarked: Some(set),
                ..FlagChange::default()
            },
            |flags| flags.bookmarked,
        ),
    ];
    let before = epoch(store, "t");
    std::thread::scope(|scope| {
        for (change, read) in flags {
            // Each flag has one writer, so its value remains until that writer
            // changes it.
            scope.spawn(move || {
                for i in 0..EACH {
                    let set = i % 2 == 0;
                    let change = flag("n1", change(set));
                    store.change_tree("t", &change, at(1)).unwrap();
                    let there = store.find_node("t", "n1").unwrap().flags;
                    assert_eq!(read(there), set, "{there:?}");
                }
                let change = flag("n1", change(true));
                store.change_tree("t", &change, at(1)).unwrap();
            });
        }
    });
    let all = Flags {
        excluded: true,
        pruned: true,
        bookmarked: true,
    };
    assert_eq!(store.find_node("t", "n1").unwrap().flags, all);
    assert!(epoch(store, "t") > before);
}

pub fn settings_agents_and_paths_change(store: &dyn Store) {
    import(
        store,
        "t",
        "agent a model\nnode n1 human a\nnode n2 human b\nedge e1 n1 -> n2\npath p n1",
    );
    let before = store.tree("t").unwrap();
    let settings = SettingsChange {
        title: Some(Some("Garden".to_owned())),
        system_context: Some(Some("Be \"brief\".\0".to_owned())),
        buffer_mode_system_context: Some(true),
        preferences: Preferences {
            truncation_strategy: Some(TruncationStrategy::StopAtLimit),
            minimum_recent_nodes: Some(0),
            token_buffer: None,
        }
        .into(),
    };
    let change = |change: TreeChange| store.change_tree("t", &change, at(5));
    change(TreeChange::Settings(settings.clone())).unwrap();
    let mut expected = before.tree.clone();
    settings.apply(&mut expected);
    assert_eq!(expected.title.as_deref(), Some("Garden"));
    assert_eq!(store.tree("t").unwrap().tree, expected);
    let mut other = settings;
    other.preferences.token_buffer = Some(Some(u64::MAX));
    let why = "preferences.token_buffer: 18446744073709551615 is too large";
    refused(store, why, || change(TreeChange::Settings(other)));

    let moved = Agent {
        name: Some("Atlas".to_owned()),
        position: Some("n2".to_owned()),
        ..agent("a")
    };
    change(TreeChange::Agent(moved.clone())).unwrap();
    change(TreeChange::Agent(agent("0"))).unwrap();
    assert_eq!(store.tree("t").unwrap().agents, [agent("0"), moved]);
    let mut lost = agent("a");
    lost.position = Some("n9".to_owned());
    let why = "position: there is no node `n9` in this tree";
    refused(store, why, || change(TreeChange::Agent(lost)));
    let why = "id: is empty";
    refused(store, why, || change(TreeChange::Agent(agent(""))));

    let path = |name: &str, head: &str, choices: &[&str]| SavedPath {
        name: name.to_owned(),
        head: head.to_owned(),
        choices: choices.iter().map(|one| (*one).to_owned()).collect(),
    };
    change(TreeChange::Path(path("p", "n2", &["n1", "e1"]))).unwrap();
    change(TreeChange::Path(path("o", "n1", &[]))).unwrap();
    let paths = [path("o", "n1", &[]), path("p", "n2", &["e1", "n1"])];
    assert_eq!(store.tree("t").unwrap().paths, paths);
    for (wrong, why) in [
        (
            path("p", "n9", &[]),
            "head: there is no node `n9` in this tree",
        ),
        (
            path("p", "n1", &["n1", "x"]),
            "choices[1]: there is neither a node nor an edge `x` in this tree",
        ),
        (path("", "n1", &[]), "name: is empty"),
    ] {
        refused(store, why, || change(TreeChange::Path(wrong)));
    }
    // None of these changes affects a path.
    assert_eq!(epoch(store, "t"), before.epoch);
}

/// Returns changes that set and that clear one setting each.
fn single_settings() -> Vec<[SettingsChange; 2]> {
    let none = SettingsChange::default;
    let preferences = |preferences: PreferencesChange| SettingsChange {
        preferences,
        ..none()
    };
    let no_preference = PreferencesChange::default;
    let pairs = |set: bool| {
        let text = |text: &str| Some(set.then(|| text.to_owned()));
        [
            SettingsChange {
                title: text("Garden"),
                ..none()
            },
            SettingsChange {
                system_context: text("Be brief."),
                ..none()
            },
            SettingsChange {
                buffer_mode_system_context: Some(set),
                ..none()
            },
            preferences(PreferencesChange {
                truncation_strategy: Some(set.then_some(TruncationStrategy::StopAtLimit)),
                ..no_preference()
            }),
            preferences(PreferencesChange {
                minimum_recent_nodes: Some(set.then_some(3)),
                ..no_preference()
            }),
            preferences(PreferencesChange {
                token_buffer: Some(set.then_some(500)),
                ..no_preference()
            }),
        ]
    };
    let pairs = pairs(true).into_iter().zip(pairs(false));
    pairs.map(|(set, clear)| [set, clear]).collect()
}

fn change_settings(store: &dyn Store, change: &SettingsChange) {
    let change = TreeChange::Settings(change.clone());
    store.change_tree("t", &change, at(5)).unwrap();
}

pub fn each_setting_changes_separately(store: &dyn Store) {
    import(store, "t", "node n1 human a");
    let mut expected = store.tree("t").unwrap().tree;
    for set in [0, 1] {
        for changes in single_settings() {
            let before = expected.clone();
            changes[set].apply(&mut expected);
            assert_ne!(expected, before, "{:?}", changes[set]);
            change_settings(store, &changes[set]);
            assert_eq!(store.tree("t").unwrap().tree, expected);
        }
        // An empty change has no effect.
        change_settings(store, &SettingsChange::default());
        assert_eq!(store.tree("t").unwrap().tree, expected);
    }
}

pub fn concurrent_changes_of_settings_are_all_applied(store: &dyn Store) {
    const EACH: usize = 25;
    import(store, "t", "node n1 human a");
    std::thread::scope(|scope| {
        for [set, clear] in single_settings() {
            // Each setting has one writer, so its value remains until that
            // writer changes it.
            scope.spawn(move || {
                for change in [&clear, &set].into_iter().cycle().take(2 * EACH) {
                    change_settings(store, change);
                    let there = store.tree("t").unwrap().tree;
                    let mut expected = there.clone();
                    change.apply(&mut expected);
                    assert_eq!(there, expected);
                }
            });
        }
    });
    let there = store.tree("t").unwrap().tree;
    let mut expected = there.clone();
    for [set, _] in single_settings() {
        set.apply(&mut expected);
    }
    assert_eq!(there, expected);
}

pub fn a_climb_follows_plain_steps(store: &dyn Store) {
    import(
        store,
        "t",
        "node n1 human a
         node n2 model b
         node n3 human c
         node n4 model d
         node n5 human e
         node n6 model f
         node n7 human g
         node m human rule
         node n2b model of:n2 h
         node n5b human of:n5 i
         edge e1 n1 -> n2
         edge e2 n2 -> n3
         edge e3 n3 -> n4
         note e4 n4 -> n5
         edge e5 n4 -> n6
         edge e6 n6 instruction:m -> n7",
    );
    // The walk stops at a node with several versions, at an annotation, at
    // other context sources, and at the root.
    assert_eq!(
        climb(store, "t", "n6"),
        ["n6 after n4", "n4 after n3", "n3 look"]
    );
    assert_eq!(climb(store, "t", "n2"), ["n2 after n1", "n1 nothing"]);
    assert_eq!(climb(store, "t", "n5"), ["n5 look"]);
    assert_eq!(climb(store, "t", "n7"), ["n7 look"]);
    assert_eq!(climb(store, "t", "m"), ["m nothing"]);
    // An edit is reached like its original.
    assert_eq!(climb(store, "t", "n2b"), ["n2b after n1", "n1 nothing"]);
    assert_eq!(climb(store, "t", "n5b"), ["n5b look"]);
    let lengths = [0, 1, 2, 3, 9].map(|limit| store.climb("t", "n6", limit).unwrap().len());
    assert_eq!(lengths, [0, 1, 2, 3, 3]);
    // The last node also has the id of its parent.
    let last = store.climb("t", "n6", 1).unwrap().remove(0);
    assert_eq!(step(&last), "n6 after n4");
}

pub fn steps_are_updated_by_every_write(store: &dyn Store) {
    import(
        store,
        "t",
        "node n1 human a\nnode n2 model b\nedge e1 n1 -> n2",
    );
    grow(store, "t", "node n3 human c\nedge e2 n2 -> n3");
    assert_eq!(epoch(store, "t"), 0);
    let steps = || ["n3", "n2"].map(|id| step(&store.find_node("t", id).unwrap()));
    assert_eq!(steps(), ["n3 after n2", "n2 after n1"]);
    // An edit is another version of the node.
    let edit = grow(store, "t", "node n2b model of:n2 d");
    assert_eq!(step(&edit[0]), "n2b after n1");
    assert_eq!(steps(), ["n3 look", "n2 after n1"]);
    assert_eq!(arrivals(store, "t", "n3"), ["e2 n2 n2b"]);
    assert_eq!(epoch(store, "t"), 1);
    // An edit with its own edge is a separate node.
    grow(
        store,
        "t",
        "node n4 human e\nedge e3 n1 -> n4\nedge e4 n4 -> n2b",
    );
    assert_eq!(steps(), ["n3 after n2", "n2 after n1"]);
    assert_eq!(climb(store, "t", "n2b")[0], "n2b after n4");
    assert_eq!(epoch(store, "t"), 2);
    // A second edge creates two paths, also for the edits of the node.
    grow(store, "t", "node n3b human of:n3 f");
    assert_eq!(climb(store, "t", "n3b")[0], "n3b after n2");
    grow(store, "t", "edge e5 n2b -> n3");
    assert_eq!(steps(), ["n3 look", "n2 after n1"]);
    assert_eq!(climb(store, "t", "n3b"), ["n3b look"]);
    assert_eq!(arrivals(store, "t", "n3b"), ["e2 n2", "e5 n2b"]);
    assert_eq!(epoch(store, "t"), 4);
}

/// Compares the stored steps with a slow computation: after any sequence of
/// writes, nodes are reached as the whole document defines.
pub fn stored_steps_equal_those_computed_from_the_whole_tree(store: &dyn Store) {
    let mut random = 11_u64;
    let mut below = |n: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % n as u64) as usize
    };
    import(store, "t", "node n0 human root");
    let (mut count, mut edges, mut refusals) = (1, 0, 0);
    for round in 0..200 {
        let mut text = String::new();
        let first = count;
        for _ in 0..=below(3) {
            let any = below(count);
            match below(6) {
                0 => text += &format!("node n{count} human of:n{any} edit\n"),
                1 => {
                    let other = below(count);
                    text += &format!(
                        "node n{count} model text\nedge e{edges} n{any} context:n{other} -> n{count}\n"
                    );
                    edges += 1;
                }
                _ => {
                    text +=
                        &format!("node n{count} model text\nedge e{edges} n{any} -> n{count}\n");
                    edges += 1;
                }
            }
            count += 1;
        }
        if below(2) == 0 {
            let (source, target) = (below(count), below(count));
            let kind = ["edge", "note"][below(2)];
            text += &format!("{kind} e{edges} n{source} -> n{target}\n");
            edges += 1;
        }
        let written = match round % 5 {
            0 => {
                let mut more = document("t", &text);
                more.tree.created_at = None;
                store.import_tree(&more, at(round)).map(drop)
            }
            _ => store.grow("t", &growth(&text), at(round)).map(drop),
        };
        if written.is_err() {
            refusals += 1;
            count = first;
        }
        let whole = store.export_tree("t").unwrap();
        whole.check().unwrap();
        let skeleton = store.skeleton("t").unwrap();
        assert_eq!(skeleton.edges, whole.edges);
        for ((node, step), (head, _)) in whole.nodes.iter().zip(whole.steps()).zip(&skeleton.nodes)
        {
            assert_eq!((&node.id, &step), (&head.id, &head.step), "after {text}");
        }
        let info = store.tree("t").unwrap();
        assert_eq!(info.nodes, whole.nodes.len() as u64);
        assert_eq!(info.edges, whole.edges.len() as u64);
        assert_eq!(info.root.as_deref(), whole.root());
    }
    assert!((3..100).contains(&refusals), "{refusals}");
}

pub fn an_arrival_has_its_versions(store: &dyn Store) {
    import(
        store,
        "t",
        "node n1 human a
         node n2 human b
         node x human of:n1 at:50 c
         node y human of:x at:49 d
         node z human of:n1 at:50 e
         node own human of:n1 f
         node deep human of:own g
         node n3 model h
         node n3b model of:n3 i
         node n3c model of:n3b j
         edge e0 n1 -> n2
         edge e1 n2 -> own
         edge e9 n2 n1 -> n3
         note e3 own context:x -> n3",
    );
    // Primary sources in their order, each with its edits by time and id. An
    // edit with its own edge is a separate node.
    let expected = ["e3 own deep", "e9 n2 n1 y x z"];
    for node in ["n3", "n3b", "n3c"] {
        assert_eq!(arrivals(store, "t", node), expected, "{node}");
    }
    let versions = |node: &str| -> Vec<String> {
        let versions = store.versions("t", node).unwrap();
        versions.into_iter().map(|head| head.id).collect()
    };
    assert_eq!(versions("n1"), ["n1", "y", "x", "z"]);
    assert_eq!(versions("x"), ["x", "y"]);
    assert_eq!(versions("n2"), ["n2"]);
    let unknown = store.versions("t", "n9");
    assert!(matches!(
        unknown,
        Err(StoreError::NotFound { what: "node", .. })
    ));
    assert_eq!(arrivals(store, "t", "n1"), Vec::<String>::new());
    assert_eq!(arrivals(store, "t", "z"), Vec::<String>::new());
    assert_eq!(arrivals(store, "t", "deep"), ["e1 n2"]);
    let whole = store.export_tree("t").unwrap();
    for arrival in store.arrivals("t", "n3c").unwrap() {
        assert!(whole.edges.contains(&arrival.edge));
        for version in arrival.versions {
            assert_eq!(version, store.find_node("t", &version.id).unwrap());
        }
    }
    // An edit that is also a primary source is listed once.
    grow(store, "t", "node n4 model k\nedge e4 n1 n2 x -> n4");
    assert_eq!(arrivals(store, "t", "n4"), ["e4 n1 z n2 x y"]);
}

pub fn a_long_path_is_climbed_in_parts(store: &dyn Store) {
    const LENGTH: usize = 100_000;
    let mut long = document("t", "");
    long.nodes = (0..LENGTH)
        .map(|i| node(&format!("n{i}"), Author::Human, "text"))
        .collect();
    long.edges = (1..LENGTH)
        .map(|i| Edge {
            id: format!("e{i}"),
            kind: EdgeKind::Continuation,
            sources: vec![EdgeSource {
                node_id: format!("n{}", i - 1),
                role: SourceRole::Primary,
            }],
            target_node_id: format!("n{i}"),
        })
        .collect();
    let imported = store.import_tree(&long, at(1)).unwrap();
    assert_eq!(imported.nodes, LENGTH as u64);
    let mut next = Some(format!("n{}", LENGTH - 1));
    let mut walked = 0;
    while let Some(from) = next.take() {
        let part = store.climb("t", &from, 30_000).unwrap();
        assert!(part.len() <= 30_000);
        for head in &part {
            walked += 1;
            assert_eq!(head.id, format!("n{}", LENGTH - walked));
        }
        if let Step::Plain { parent } = &part.last().unwrap().step {
            next = Some(parent.clone());
        }
    }
    assert_eq!(walked, LENGTH);
    // A cycle of that length is detected, too, without recursion.
    let back = growth(&format!("edge back n{} -> n1", LENGTH - 1));
    let why = "edges: the edges form a cycle: `n1` -> `n2` -> `n3` -> `n4` -> `n5` -> `n6` -> `n7` -> `n8` -> ...";
    let said = store.grow("t", &back, at(2)).unwrap_err().to_string();
    assert_eq!(said, why);
}

pub fn connections_and_annotations_are_counted(store: &dyn Store) {
    import(
        store,
        "t",
        "node n1 human a
         node n2 human at:9 b
         node n3 human at:8 c
         node n4 human at:8 d
         node n5 human e
         node n6 human at:3 f
         edge e1 n1 -> n2
         edge e2 n1 n2 -> n3
         note e3 n1 -> n4
         note e4 n1 n2 -> n3
         edge e5 n2 context:n1 -> n5
         edge e6 n2 instruction:n1 context:n3 -> n5
         note e7 n2 context:n1 -> n6",
    );
    let found = store.connections("t", &["n2", "n1", "n6", "n1"]).unwrap();
    let lines = found.iter().map(|one: &Connections| {
        let Connections {
            continuations,
            annotations,
            links,
        } = one;
        format!("{continuations} {annotations} {links}")
    });
    assert_eq!(
        lines.collect::<Vec<_>>(),
        ["3 2 0", "2 2 3", "0 0 0", "2 2 3"]
    );
    let remarks = |ids: &[&str]| -> Vec<String> {
        let remarks = store.annotations("t", ids).unwrap();
        remarks
            .iter()
            .map(|(node, remark)| format!("{node} {}", remark.id))
            .collect()
    };
    assert_eq!(
        remarks(&["n2", "n3", "n1"]),
        ["n2 n6", "n2 n3", "n1 n3", "n1 n4"]
    );
    assert_eq!(remarks(&[]), Vec::<String>::new());
}

pub fn nodes_are_returned_with_their_counts(store: &dyn Store) {
    store.import_tree(&everything(), at(9)).unwrap();
    let tokens = |ids: &[&str], counter: &str| -> Vec<Option<Vec<u64>>> {
        let nodes = store.nodes("t1", ids, counter).unwrap();
        nodes.into_iter().map(|node| node.tokens).collect()
    };
    assert_eq!(tokens(&["n1", "n3"], "words"), [None, None]);
    let counts = [("n3", vec![1, 700]), ("n1", vec![3])];
    store.put_node_counts("t1", "words", &counts).unwrap();
    store
        .put_node_counts("t1", "bytes", &[("n1", vec![u64::MAX])])
        .unwrap();
    assert_eq!(
        tokens(&["n1", "n3"], "words"),
        [Some(vec![3]), Some(vec![1, 700])]
    );
    assert_eq!(tokens(&["n1", "n3"], "bytes"), [Some(vec![u64::MAX]), None]);
    // Existing counts do not change.
    store
        .put_node_counts("t1", "words", &[("n1", vec![9])])
        .unwrap();
    assert_eq!(tokens(&["n1"], "words"), [Some(vec![3])]);
    store.put_node_counts("t1", "words", &[]).unwrap();
    // The counts are stored completely or not at all.
    let half = [("n2", vec![1]), ("n9", vec![1])];
    is_unknown(store.put_node_counts("t1", "words", &half));
    assert_eq!(tokens(&["n2"], "words"), [None]);

    let whole = store.export_tree("t1").unwrap();
    let ids = ["n3", "n1", "n3", "rule", "n2"];
    let nodes = store.nodes("t1", &ids, "words").unwrap();
    for (id, found) in ids.iter().zip(nodes) {
        let mut expected = whole
            .nodes
            .iter()
            .find(|one| one.id == *id)
            .unwrap()
            .clone();
        expected.raw_response = None;
        expected.local_id = Some((*id).to_owned());
        assert_eq!(found.node, expected);
    }
}

pub fn raw_responses_are_read_back_unchanged(store: &dyn Store) {
    let document = everything();
    store.import_tree(&document, at(9)).unwrap();
    let response = store.raw_response("t1", "n3").unwrap();
    assert_eq!(response, document.nodes[0].raw_response);
    assert_eq!(store.raw_response("t1", "n1").unwrap(), None);
    let mut more = growth("node n9 model at:900 a\nedge e9 n3 -> n9");
    let own = RawResponse {
        body: json!({"big": u64::MAX, "small": 1e-7, "z": 0, "a": [[["deep"]]]}),
        ..RawResponse::default()
    };
    more.nodes[0].raw_response = Some(own.clone());
    store.grow("t1", &more, at(10)).unwrap();
    let found = store.raw_response("t1", "n9").unwrap().unwrap();
    assert_eq!(found, own);
    assert_eq!(found.body.to_string(), own.body.to_string());
    // A missing response is added; a different one is a conflict.
    let mut late = store.export_tree("t1").unwrap();
    let n1 = late.nodes.iter_mut().find(|node| node.id == "n1").unwrap();
    n1.raw_response = Some(own.clone());
    assert_eq!(store.import_tree(&late, at(11)).unwrap().nodes, 0);
    assert_eq!(store.raw_response("t1", "n1").unwrap(), Some(own));
    let n1 = late.nodes.iter_mut().find(|node| node.id == "n1").unwrap();
    n1.raw_response = Some(RawResponse::default());
    let said = store.import_tree(&late, at(12)).unwrap_err().to_string();
    assert!(said.contains("with different content"), "{said}");
}

pub fn an_agents_position_is_its_latest_node(store: &dyn Store) {
    import(store, "t", "agent a model\nagent b model\nnode n1 human a");
    let positions = || -> Vec<Option<String>> {
        let agents = store.tree("t").unwrap().agents;
        agents.into_iter().map(|agent| agent.position).collect()
    };
    assert_eq!(positions(), [None, None]);
    let some = |id: &str| Some(id.to_owned());
    grow(
        store,
        "t",
        "node n3 model @a b\nnode n2 model @a c\nedge e1 n1 -> n2\nedge e2 n2 -> n3",
    );
    assert_eq!(positions(), [some("n2"), None]);
    grow(
        store,
        "t",
        "node n4 model @b d\nnode n5 model e\nedge e3 n1 -> n4\nedge e4 n1 -> n5",
    );
    assert_eq!(positions(), [some("n2"), some("n4")]);
    // A document without positions does not remove them.
    import(store, "t", "agent a model\nagent b model\nnode n1 human a");
    assert_eq!(positions(), [some("n2"), some("n4")]);
    let head = store.find_node("t", "n4").unwrap();
    assert_eq!(head.author_agent_id.as_deref(), Some("b"));
}

pub fn agent_memories_are_stored(store: &dyn Store) {
    import(store, "t", "agent a model\nagent b model\nnode n1 human a");
    let change = |change: MemoryChange| {
        let agent = "a".to_owned();
        store.change_tree("t", &TreeChange::Memory { agent, change }, at(7))
    };
    let text = |text: &str| Pin {
        node_id: None,
        text: Some(text.to_owned()),
    };
    let node = |id: &str| Pin {
        node_id: Some(id.to_owned()),
        text: None,
    };
    let nothing = AgentMemory {
        agent_id: "a".to_owned(),
        ..AgentMemory::default()
    };
    assert_eq!(store.agent_memory("t", "a").unwrap(), nothing);
    for pin in [
        text("b"),
        node("n1"),
        text("a"),
        node("n1"),
        text("b"),
        text("n1"),
    ] {
        change(MemoryChange::Pin(pin)).unwrap();
    }
    change(MemoryChange::Unpin(text("a"))).unwrap();
    change(MemoryChange::Pin(text("a"))).unwrap();
    let stash = |name: &str, said: &str| MemoryChange::Stash {
        name: name.to_owned(),
        text: said.to_owned(),
    };
    let recall = |name: &str, shown| MemoryChange::Recall {
        name: name.to_owned(),
        shown,
    };
    let discard = |name: &str| MemoryChange::Discard {
        name: name.to_owned(),
    };
    change(stash("z", "1")).unwrap();
    change(stash("y", "2")).unwrap();
    change(stash("x", "3")).unwrap();
    change(recall("z", true)).unwrap();
    change(recall("y", true)).unwrap();
    change(recall("y", false)).unwrap();
    change(stash("z", "4")).unwrap();
    change(discard("x")).unwrap();
    for action in ["went", "saw", "went"] {
        change(MemoryChange::Act(action.to_owned())).unwrap();
    }
    let memory = store.agent_memory("t", "a").unwrap();
    assert_eq!(memory.pins, [text("b"), node("n1"), text("n1"), text("a")]);
    let stashed = |name: &str, said: &str| Stash {
        name: name.to_owned(),
        text: said.to_owned(),
        recalled: false,
    };
    assert_eq!(memory.stashes, [stashed("y", "2"), stashed("z", "4")]);
    let done: Vec<&str> = memory.trace.iter().map(|action| &*action.action).collect();
    assert_eq!(done, ["went", "saw", "went"]);
    assert!(memory.trace.iter().all(|action| action.at == Some(at(7))));
    assert!(store.agent_memory("t", "b").unwrap().is_empty());
    assert_eq!(store.export_tree("t").unwrap().memories, [memory]);
    for (wrong, why) in [
        (MemoryChange::Unpin(text("c")), "there is no pin `c`"),
        (MemoryChange::Unpin(node("n9")), "there is no pin `n9`"),
        (
            MemoryChange::Pin(node("n9")),
            "pin.node_id: there is no node `n9` in this tree",
        ),
        (
            MemoryChange::Pin(Pin {
                node_id: None,
                text: None,
            }),
            "pin: needs either `node_id` or `text`",
        ),
        (recall("x", true), "there is no stash `x`"),
        (discard("x"), "there is no stash `x`"),
        (stash("", "1"), "name: is empty"),
        (MemoryChange::Act(" ".to_owned()), "action: is empty"),
    ] {
        refused(store, why, || change(wrong));
    }
    let nobody = TreeChange::Memory {
        agent: "c".to_owned(),
        change: MemoryChange::Act("went".to_owned()),
    };
    is_unknown(store.change_tree("t", &nobody, at(8)));
}

pub fn the_epoch_rises_when_paths_may_change(store: &dyn Store) {
    import(
        store,
        "t",
        "agent a model\nnode n1 human a\nnode n2 human b\nedge e1 n1 -> n2",
    );
    let mut expected = 0;
    for (text, rises) in [
        ("node n3 model @a c\nedge e2 n2 -> n3", false),
        (
            "node m human d\nnode n4 model e\nedge e3 n3 instruction:m -> n4",
            false,
        ),
        ("note e4 n1 -> n4", true),
        ("node n5 model of:n3 f", true),
        ("node n6 model g\nnote e5 n5 -> n6", false),
    ] {
        grow(store, "t", text);
        expected += u64::from(rises);
        assert_eq!(epoch(store, "t"), expected, "{text}");
    }
    for (text, rises) in [
        ("node n7 human a\nedge e7 n2 -> n7", false),
        ("edge e8 n2 -> n7", true),
        ("edge e8 n2 -> n7", false),
        ("node n8 human of:n7 a", true),
    ] {
        import(store, "t", text);
        expected += u64::from(rises);
        assert_eq!(epoch(store, "t"), expected, "{text}");
    }
}

pub fn a_skeleton_shows_the_shape(store: &dyn Store) {
    store.import_tree(&everything(), at(9)).unwrap();
    let mut more = growth(
        "node s1 human at:30000 a\nnode s2 human at:30001 a\nnode s3 human at:30002 a
         edge e7 n3 -> s1\nedge e8 n3 -> s2\nedge e9 n3 -> s3",
    );
    let image = || Block::Image {
        media_type: "image/png".to_owned(),
        data: Some("AAAA".to_owned()),
        url: None,
        native: None,
    };
    let text = |text: &str| Block::Text {
        text: text.into(),
        native: None,
    };
    more.nodes[0].content = MessageContent::Text("ä".repeat(200));
    more.nodes[1].content = MessageContent::Blocks(vec![image()]);
    more.nodes[2].content = MessageContent::Blocks(vec![image(), text("one"), text("two")]);
    store.grow("t1", &more, at(10)).unwrap();
    let skeleton = store.skeleton("t1").unwrap();
    let lines = skeleton.nodes.iter();
    let lines: Vec<String> = lines
        .map(|(head, text)| format!("{} {text}", head.id))
        .collect();
    let long = format!("s1 {}", "ä".repeat(120));
    assert_eq!(
        lines,
        [
            "n3 Look.",
            "n1 Where are we?",
            "n2 Where am I?",
            "note Hm.",
            "rule In rhyme.",
            &long,
            "s2 image/png",
            "s3 one",
        ]
    );
    assert_eq!(skeleton.edges, store.export_tree("t1").unwrap().edges);
    for (head, _) in &skeleton.nodes {
        assert_eq!(head, &store.find_node("t1", &head.id).unwrap());
    }
    let bytes: Vec<u64> = skeleton.nodes.iter().map(|(head, _)| head.bytes).collect();
    assert_eq!(bytes, [30, 13, 11, 3, 9, 400, 4, 10]);
}

pub fn trees_are_listed_by_id(store: &dyn Store) {
    assert_eq!(store.trees(None, 10).unwrap(), []);
    for id in ["b", "a", "d", "c"] {
        import(
            store,
            id,
            &format!("agent x model\nnode {id}1 human a\npath p {id}1"),
        );
    }
    let ids = |after: Option<&str>, limit| -> Vec<String> {
        let found = store.trees(after, limit).unwrap();
        for info in &found {
            assert_eq!(info, &store.tree(&info.tree.id).unwrap());
        }
        found.into_iter().map(|info| info.tree.id).collect()
    };
    assert_eq!(ids(None, 10), ["a", "b", "c", "d"]);
    assert_eq!(ids(None, 2), ["a", "b"]);
    assert_eq!(ids(Some("b"), 10), ["c", "d"]);
    assert_eq!(ids(Some("bb"), 1), ["c"]);
    assert_eq!(ids(Some("d"), 10), Vec::<String>::new());
}

pub fn unknown_trees_and_nodes_are_errors(store: &dyn Store) {
    import(store, "t", "node n1 human a");
    import(store, "t2", "agent b model\nnode m1 human a");
    let flags = |node: &str| TreeChange::Flags {
        node: node.to_owned(),
        change: Flags::default().into(),
    };
    is_unknown(store.export_tree("no"));
    is_unknown(store.tree("no"));
    is_unknown(store.skeleton("no"));
    is_unknown(store.grow("no", &Growth::default(), at(1)));
    is_unknown(store.change_tree("no", &flags("n1"), at(1)));
    is_unknown(store.put_node_counts("no", "words", &[]));
    is_unknown(store.connections("no", &[]));
    // A node of another tree is reported as unknown.
    for (tree, node) in [
        ("no", "n1"),
        ("t", "n9"),
        ("t", "m1"),
        ("t2", "n1"),
        ("t", ""),
    ] {
        is_unknown(store.find_node(tree, node));
        is_unknown(store.climb(tree, node, 1));
        is_unknown(store.arrivals(tree, node));
        is_unknown(store.nodes(tree, &[node], "words"));
        is_unknown(store.put_node_counts(tree, "words", &[(node, vec![1])]));
        is_unknown(store.connections(tree, &[node]));
        is_unknown(store.annotations(tree, &[node]));
        is_unknown(store.raw_response(tree, node));
        is_unknown(store.change_tree(tree, &flags(node), at(1)));
    }
    is_unknown(store.agent_memory("t", "b"));
    assert!(matches!(
        store.find_node("t", "n9"),
        Err(StoreError::NotFound { what: "node", name }) if name == "n9"
    ));
}

pub fn times_of_nodes_are_stored_in_milliseconds(store: &dyn Store) {
    let fine: jiff::Timestamp = "2026-02-02T10:00:00.123999Z".parse().unwrap();
    let kept: jiff::Timestamp = "2026-02-02T10:00:00.123Z".parse().unwrap();
    let mut document = document("t", "node n1 human a\nnode n2 human b\nedge e1 n1 -> n2");
    document.tree.created_at = None;
    document.nodes[0].created_at = Some(fine);
    document.nodes[1].created_at = None;
    store.import_tree(&document, fine).unwrap();
    store.import_tree(&document, at(0)).unwrap();
    let heads = store
        .grow("t", &growth("node n3 human of:n1 c"), fine)
        .unwrap();
    assert_eq!(heads[0].created_at, at(0));
    let mut more = growth("node n4 human of:n1 c");
    more.nodes[0].created_at = None;
    let heads = store.grow("t", &more, fine).unwrap();
    assert_eq!(heads[0].created_at, kept);
    assert_eq!(store.tree("t").unwrap().tree.created_at, Some(kept));
    for id in ["n1", "n2", "n4"] {
        assert_eq!(store.find_node("t", id).unwrap().created_at, kept);
    }
    let json = r#"{"id":"n5","author":"human","content":"","edited_from":"n1","created_at":-5}"#;
    let early: Node = serde_json::from_str(json).unwrap();
    let growth = Growth {
        nodes: vec![early],
        edges: Vec::new(),
    };
    let heads = store.grow("t", &growth, fine).unwrap();
    assert_eq!(heads[0].created_at.as_millisecond(), -5);
}

pub fn any_text_of_a_tree_is_read_back_unchanged(store: &dyn Store) {
    let texts = [
        "",
        " ",
        "\0",
        "a\0b",
        "'",
        "\"",
        "\\",
        "`",
        "\u{feff}",
        "\r\n\t",
        "\u{1f600}",
        "\u{1F469}\u{200D}\u{1F469}",
        "\u{202e}abc",
        "\u{e000}\u{10ffff}",
        "%s %n",
        "'; DROP TABLE nodes; --",
        "\u{2028}",
        "{\"a\":1}",
    ];
    let mut document = document("t", "agent a model\nnode n1 human root\npath p n1");
    for (i, text) in texts.iter().enumerate() {
        let mut one = node(&format!("x{i}"), Author::Model, text);
        one.edited_from = Some("n1".to_owned());
        one.raw_response = Some(RawResponse {
            model: Some((*text).to_owned()),
            body: json!({*text: text}),
            ..RawResponse::default()
        });
        document.nodes.push(one);
        let mut blocks = node(&format!("y{i}"), Author::Model, "");
        blocks.edited_from = Some("n1".to_owned());
        let text = (*text).to_owned();
        blocks.content = MessageContent::Blocks(vec![Block::Text {
            text: text.as_str().into(),
            native: None,
        }]);
        document.nodes.push(blocks);
        let mut agent = agent(&format!("agent {i}"));
        agent.name = Some(text.clone());
        agent.system_prompt = Some(text.clone());
        agent.permissions = vec![text.clone()];
        agent.parameters.insert(text.clone(), json!(text));
        document.agents.push(agent);
    }
    let names = ["'", "\"", "\u{1f600}", "a b", "%", "_", "ä", "\\", "--"];
    for (i, name) in names.iter().enumerate() {
        let mut one = node(name, Author::Human, "named");
        one.edited_from = Some("n1".to_owned());
        one.author_agent_id = Some("a".to_owned());
        document.nodes.push(one);
        document.edges.push(Edge {
            id: (*name).to_owned(),
            kind: EdgeKind::Annotation,
            sources: vec![EdgeSource {
                node_id: "n1".to_owned(),
                role: SourceRole::Primary,
            }],
            target_node_id: format!("x{i}"),
        });
    }
    document.memories.push(AgentMemory {
        agent_id: "a".to_owned(),
        pins: vec![Pin {
            node_id: None,
            text: Some("a\0'\u{1f600}".to_owned()),
        }],
        ..AgentMemory::default()
    });
    let expected = document.clone().normalised(at(9));
    store.import_tree(&document, at(9)).unwrap();
    assert_eq!(export(store, "t"), expected.to_json());
    for name in names {
        assert_eq!(store.find_node("t", name).unwrap().id, name);
    }
}

pub fn concurrent_growth_of_a_tree_is_all_stored(store: &dyn Store) {
    const WRITERS: usize = 4;
    const EACH: usize = 25;
    import(store, "t", "node n0 human root");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let mut parent = "n0".to_owned();
                for i in 0..EACH {
                    // All ids have the same prefix, so they compete for short
                    // names.
                    let id = format!("sharedid{writer}x{i}");
                    let text = format!("node {id} model text\nedge {id} {parent} -> {id}");
                    let head = grow(store, "t", &text).remove(0);
                    assert_eq!(head.id, id);
                    parent = id;
                }
            });
        }
    });
    let info = store.tree("t").unwrap();
    let all = (WRITERS * EACH) as u64;
    assert_eq!((info.nodes, info.edges, info.epoch), (all + 1, all, 0));
    let whole = store.export_tree("t").unwrap();
    whole.check().unwrap();
    assert_eq!(whole.nodes.len() as u64, all + 1);
    for writer in 0..WRITERS {
        let last = format!("sharedid{writer}x{}", EACH - 1);
        assert_eq!(climb(store, "t", &last).len(), EACH + 1);
    }
    let mut names: Vec<String> = store
        .skeleton("t")
        .unwrap()
        .nodes
        .into_iter()
        .map(|(head, _)| head.local_id)
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len() as u64, all + 1);
}
