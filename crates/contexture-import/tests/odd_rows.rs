//! Odd rows of exports: they are counted and stored, and the others are imported.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;

use contexture_import::{Import, Options, format};
use contexture_store::{
    Author, Edge, EdgeKind, EdgeSource, Imports, MessageContent, Node, SourceRole, TreeDocument,
    Trees,
};
use serde_json::{Value, json};
use support::{Place, assert_text, options};

/// Returns the stored rows that were not understood, sorted.
fn rows(place: &Place, source: &str, path: &Path) -> Vec<String> {
    let name = std::path::absolute(path).unwrap();
    let rows = place
        .store
        .import_rows(source, &name.to_string_lossy(), 100)
        .unwrap();
    let mut rows: Vec<String> = rows.into_iter().map(|row| row.raw).collect();
    rows.sort();
    rows
}

#[test]
fn an_odd_message_of_claude_does_not_hide_the_others() {
    let place = Place::new();
    let surrogate = r#"{"uuid":"s","sender":"human","text":"cut \ud83d","content":[{"type":"text","text":"cut \ud83d"}],"parent_message_uuid":"g"}"#;
    let text = json!([{
        "uuid": "k", "name": 7, "created_at": "yesterday", "current_leaf_message_uuid": "s",
        "chat_messages": [
            {"uuid": "a", "sender": "human", "text": "one", "content": null},
            {"uuid": "b", "sender": "assistant", "text": "two", "content": 7,
             "parent_message_uuid": "a"},
            {"uuid": "c", "sender": "human", "content": "three", "created_at": "2026-02-30",
             "parent_message_uuid": "b"},
            {"uuid": "d", "sender": 1, "text": null, "content": {"x": 1}, "created_at": 7,
             "parent_message_uuid": "c"},
            {"uuid": "e", "sender": "human", "text": "five", "attachments": null,
             "files": ["a.png", {"file_name": 7}], "parent_message_uuid": "d"},
            {"uuid": "f", "sender": "human", "text": "six", "attachments": 7,
             "content": [null, "seven", {"type": "text"}], "parent_message_uuid": "e"},
            {"uuid": "g", "sender": "human", "text": "eight", "parent_message_uuid": "f"},
            "SURROGATE",
            {"uuid": "h", "sender": "human", "text": "nine", "parent_message_uuid": "s"},
            7,
            {"sender": "human", "text": "no id"},
        ]
    }])
    .to_string()
    .replace("\"SURROGATE\"", surrogate);
    let path = place.file("conversations.json", text);
    let report = place.import("claude", &path);
    assert_eq!(report.files[0].error, None);
    assert_eq!(report.counts.nodes, 8);
    assert_eq!(
        (report.counts.unknown, report.counts.unknown_truncated),
        (3, 0)
    );
    let odd = ["7", r#"{"sender":"human","text":"no id"}"#, surrogate];
    assert_eq!(rows(&place, "claude", &path), odd);
    let shown = place.trees();
    for line in [
        "a < - human: one",
        "b < a model: two",
        "c < b human: three",
        r#"d < c model: {"x":1}"#,
        "e < d human: five||[attachment a.png]||[attachment file]",
        "f < e human: seven||[attachment file]",
        "g < f human: eight",
        "h < g human: nine",
        "path current: g",
    ] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
}

#[test]
fn a_long_row_is_reported_as_truncated() {
    let place = Place::new();
    let long = json!({"chat_messages": "x".repeat(70_000)});
    let good = json!({"uuid": "k", "chat_messages": [{"uuid": "a", "text": "one"}]});
    let path = place.file("conversations.json", json!([long, 7, good]).to_string());
    let report = place.import("claude", &path);
    let counts = report.counts;
    assert_eq!((counts.unknown, counts.unknown_truncated), (2, 1));
    let lengths: Vec<usize> = rows(&place, "claude", &path)
        .iter()
        .map(String::len)
        .collect();
    assert_eq!(lengths, [1, 64 * 1024]);
}

#[test]
fn rows_of_a_refused_file_are_neither_stored_nor_counted() {
    for (source, text, expected) in [
        (
            "claude",
            "[{\"mapping\":{}},7]",
            "has no conversation with `chat_messages`; for an export of ChatGPT, use the source \
             `chatgpt`",
        ),
        (
            "claude",
            "[{\"chat_messages\":[]}]",
            "has no conversation with an id and `chat_messages`",
        ),
        (
            "chatgpt",
            "[{\"mapping\":{}}]",
            "has no conversation with an id and `mapping`",
        ),
        (
            "loomsidian",
            "{\"state\":{\"a.md\":7}}",
            "has neither `nodes` nor `state` with trees",
        ),
    ] {
        for dry_run in [false, true] {
            let place = Place::new();
            let path = place.file("conversations.json", text);
            let some = Options {
                dry_run,
                ..options()
            };
            let report = place.import_with(source, &path, some);
            let error = report.files[0].error.as_deref().unwrap();
            assert!(error.ends_with(expected), "{error}");
            assert_eq!(report.counts.unknown, 0, "{error}");
            assert!(rows(&place, source, &path).is_empty(), "{error}");
        }
    }
}

fn said(text: &str, time: Value) -> Value {
    json!({"author": {"role": "user"}, "create_time": time,
        "content": {"content_type": "text", "parts": [text]}})
}

#[test]
fn an_odd_node_of_chatgpt_is_counted_and_its_children_keep_their_place() {
    let place = Place::new();
    let text = json!([
        {"title": 7, "id": "c", "create_time": "2026-02-02T10:00:00Z", "current_node": "odd2",
         "mapping": {
            "root": {"message": null, "parent": null, "children": ["a"]},
            "a": {"message": said("one", json!(1_770_026_401.5)), "parent": "root",
                "children": ["odd"]},
            "odd": 7,
            "b": {"message": said("two", json!("2026")), "parent": "odd"},
            "odd2": {"message": 7, "parent": "b"},
            "c": {"message": said("three", json!("1770026403")), "parent": "odd2",
                "children": ["d"]},
            "d": {"message": said("four", json!([])), "parent": 7},
            "e": {"message": {"author": 7, "metadata": 7, "content":
                {"content_type": "text", "parts": "five"}}, "parent": "d"},
         }},
        {"title": "No id", "mapping": {}},
    ]);
    let path = place.file("conversations.json", text.to_string());
    let report = place.import("chatgpt", &path);
    assert_eq!(report.files[0].error, None);
    assert_eq!((report.counts.nodes, report.counts.unknown), (5, 3));
    assert_eq!(
        rows(&place, "chatgpt", &path),
        [
            "7",
            r#"{"message":7,"parent":"b"}"#,
            r#"{"title":"No id","mapping":{}}"#
        ]
    );
    let shown = place.trees();
    for line in [
        "chatgpt:c (dialogue)\n",
        "a < - human: one",
        "b < a human: two",
        "c < b human: three",
        "d < c human: four",
        "e < d model: five",
        "path current: b",
    ] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    let tree = place.store.export_tree("chatgpt:c").unwrap();
    let time = |text: &str| {
        let content = MessageContent::Text(text.to_owned());
        let node = tree.nodes.iter().find(|node| node.content == content);
        node.unwrap().created_at.unwrap().to_string()
    };
    assert_eq!(time("one"), "2026-02-02T10:00:01.5Z");
    // Without a time of its own, a node has the time of the conversation.
    assert_eq!(time("two"), "2026-02-02T10:00:00Z");
    assert_eq!(time("three"), "2026-02-02T10:00:03Z");
}

/// A conversation whose messages have ids with the same beginning.
fn long_conversation(messages: usize) -> String {
    let id = |i: usize| format!("019a1b2c-0000-7000-8000-{i:012}");
    let messages: Vec<Value> = (0..messages)
        .map(|i| {
            json!({"uuid": id(i), "sender": "human", "text": format!("text {i}"),
                "parent_message_uuid": i.checked_sub(1).map(id)})
        })
        .collect();
    json!([{"uuid": "019a1b2c-k", "chat_messages": messages}]).to_string()
}

#[test]
fn nodes_of_imported_trees_have_short_names() {
    let place = Place::new();
    let path = place.file("conversations.json", long_conversation(200));
    assert_eq!(place.import("claude", &path).counts.nodes, 200);
    let vault = json!({"state": {format!("{}.md", "long ".repeat(50)): {"nodes": {
        "a": {"text": "Once"}, "b": {"text": " upon", "parentId": "a"}}}}});
    let loom = place.file("vault/.obsidian/plugins/loom/data.json", vault.to_string());
    assert_eq!(place.import("loomsidian", &loom).counts.nodes, 2);
    for info in place.store.trees(None, 9).unwrap() {
        for (head, _) in place.store.skeleton(&info.tree.id).unwrap().nodes {
            assert!(head.local_id.len() <= 8, "{}", head.local_id);
            let is_hex = head.local_id.chars().all(|one| one.is_ascii_hexdigit());
            assert!(is_hex, "{}", head.local_id);
        }
    }
    // A second import adds only what is new.
    std::fs::write(&path, long_conversation(201)).unwrap();
    let again = place.import("claude", &path);
    assert_eq!((again.counts.trees, again.counts.nodes), (0, 1));
    assert_eq!(again.counts.skipped, 0);
    let copy = place.file("copy/conversations.json", long_conversation(201));
    assert!(place.import("claude", &copy).counts.is_nothing_new());
}

#[test]
fn a_tree_with_ids_of_an_earlier_form_gets_no_duplicates() {
    let place = Place::new();
    let path = place.file("conversations.json", long_conversation(3));
    place.import("claude", &path);
    let mut old: TreeDocument = place.store.export_tree("claude:019a1b2c-k").unwrap();
    // Earlier, the id had no hash at its beginning.
    let plain = |id: &str| id.split_once('/').unwrap().1.to_owned();
    let nodes: Vec<Node> = std::mem::take(&mut old.nodes);
    old.nodes.extend(nodes.into_iter().map(|node| Node {
        id: plain(&node.id),
        local_id: None,
        ..node
    }));
    for edge in &mut old.edges {
        let target = plain(&edge.target_node_id);
        *edge = Edge {
            id: format!("to {target}"),
            kind: EdgeKind::Continuation,
            sources: vec![EdgeSource {
                node_id: plain(&edge.sources[0].node_id),
                role: SourceRole::Primary,
            }],
            target_node_id: target,
        };
    }
    for path in &mut old.paths {
        path.head = plain(&path.head);
    }
    assert_eq!(old.nodes[0].author, Author::Human);
    let earlier = Place::new();
    let now = "2026-02-03T00:00:00Z".parse().unwrap();
    earlier.store.import_tree(&old, now).unwrap();
    let before = earlier.trees();
    let path = earlier.file("conversations.json", long_conversation(3));
    let report = earlier.import("claude", &path);
    assert!(report.counts.is_nothing_new(), "{:?}", report.counts);
    assert_eq!(report.counts.skipped, 0);
    assert_text(&earlier.trees(), &before);
    std::fs::write(&path, long_conversation(4)).unwrap();
    let report = earlier.import("claude", &path);
    assert_eq!((report.counts.nodes, report.counts.skipped), (1, 0));
}

#[test]
fn an_odd_node_of_loomsidian_is_stored() {
    let place = Place::new();
    let data = json!({"nodes": {
        "a": {"text": "Once", "bookmarked": null},
        "b": {"text": 7, "parentId": "a"},
        "c": {"text": " upon", "parentId": "b", "bookmarked": "yes"},
        "d": 7,
    }, "current": 7, "state": [8]});
    let path = place.file("vault/.obsidian/plugins/loom/data.json", data.to_string());
    let report = place.import("loomsidian", &path);
    assert_eq!((report.counts.nodes, report.counts.unknown), (2, 3));
    assert_eq!(
        rows(&place, "loomsidian", &path),
        ["7", "[8]", r#"{"text":7,"parentId":"a"}"#]
    );
    let shown = place.trees();
    assert!(shown.contains("c < a human:  upon"), "{shown}");
}

#[test]
fn an_odd_message_of_gemini_is_stored() {
    let place = Place::new();
    let old = json!({"sessionId": "g", "startTime": 7, "messages": [
        {"id": "1", "type": "user", "content": "Hi", "timestamp": "never"},
        7,
        {"id": "2", "type": "gemini", "content": "Hello.", "toolCalls": null, "thoughts": 7},
        {"id": "3", "type": "user", "content": "Go on."},
        {"id": "4", "type": "gemini", "content": "Yes.", "model": 7,
         "toolCalls": [7, {"id": "t", "name": "ls", "status": 7, "result": "Anna"}]},
    ]});
    let path = place.file("p/chats/session-1.json", old.to_string());
    let report = place.import("gemini", &path);
    assert_eq!((report.counts.turns, report.counts.unknown), (2, 3));
    assert_eq!(rows(&place, "gemini", &path).len(), 3);
    assert_text(
        &place.sessions(),
        "
        gemini:g
          task: Hi
          1 stop end_turn
            user: Hi
            assistant: Hello.
          2 stop tool_use
            user: Go on.
            assistant: Yes.
            assistant: ls {} as t
            tool: t -> Anna
        ",
    );
}

#[test]
fn an_odd_row_of_opencode_is_stored() {
    let place = Place::new();
    let path = place.directory.path().join("opencode.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(
        r#"CREATE TABLE session (id, parent_id, title, time_created, time_updated, revert);
           CREATE TABLE message (id, session_id, data);
           CREATE TABLE part (id, message_id, data);
           INSERT INTO session VALUES (NULL, NULL, 'No id', 1, 1, NULL);
           INSERT INTO session VALUES ('s', 7, 7, NULL, 1.5, 7);
           INSERT INTO message VALUES ('m1', 's', '{"role":"user"}');
           INSERT INTO message VALUES ('m2', 's', 7);
           INSERT INTO message VALUES ('m3', 's', '[]');
           INSERT INTO message VALUES ('m4', 's', '{"role":"assistant"}');
           INSERT INTO part VALUES ('p1', 'm1', '{"type":"text","text":"Hi"}');
           INSERT INTO part VALUES ('p2', 'm1', NULL);
           INSERT INTO part VALUES ('p3', 'm4', CAST('{"type":"text","text":"Hello."}' AS BLOB));
           INSERT INTO part VALUES ('p4', 'm4', CAST(x'ff' AS TEXT));"#,
    )
    .unwrap();
    let report = place.import("opencode", &path);
    assert_eq!(report.files[0].error, None);
    assert_eq!((report.counts.turns, report.counts.unknown), (1, 5));
    assert_eq!(
        rows(&place, "opencode", &path),
        ["7", "[]", "null", "null|null|No id|1|1|null", "\u{fffd}"]
    );
    assert!(place.sessions().contains("assistant: Hello."));
}

#[test]
fn an_odd_file_of_opencode_is_stored() {
    let place = Place::new();
    let session = json!({"id": "ses_1", "title": 7, "time": 7, "revert": 7});
    let path = place.file("storage/session/p/ses_1.json", session.to_string());
    for (name, text) in [
        ("message/ses_1/msg_1.json", "{\"role\":\"user\"}"),
        ("message/ses_1/msg_2.json", "{"),
        (
            "part/msg_1/prt_1.json",
            "{\"type\":\"text\",\"text\":\"Hi\"}",
        ),
        ("part/msg_1/prt_2.json", "7"),
    ] {
        place.file(&format!("storage/{name}"), text);
    }
    let report = place.import("opencode", &path);
    assert_eq!((report.counts.turns, report.counts.unknown), (1, 2));
    assert_eq!(rows(&place, "opencode", &path), ["7", "{"]);
}

#[test]
fn a_file_that_fails_is_reported_once() {
    let place = Place::new();
    let path = place.file("rollout-1.jsonl.zst", "not packed");
    let codex = format("codex").unwrap();
    let mut import = Import::new(&place.store, options());
    let report = import.path(codex, &path).unwrap();
    let error = report.files[0].error.as_deref().unwrap();
    let expected =
        "rollout-1.jsonl.zst: is not a zstd file, or is damaged; check it with `zstd -t`";
    assert!(error.ends_with(expected), "{error}");
    let report = import.path(codex, &path).unwrap();
    assert_eq!((report.files.len(), report.unchanged), (0, 1));
    // A change of the file is reported.
    std::fs::write(&path, "still not packed").unwrap();
    let report = import.path(codex, &path).unwrap();
    assert!(report.files[0].error.is_some());
    // A zstd file that is truncated is damaged, too.
    let row = json!({"type": "response_item", "payload": {"type": "message", "role": "user",
        "content": "Hi"}});
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let packed = ruzstd::encoding::compress_to_vec(format!("{row}\n").as_bytes(), level);
    std::fs::write(&path, &packed[..packed.len() - 5]).unwrap();
    let report = import.path(codex, &path).unwrap();
    let error = report.files[0].error.as_deref().unwrap();
    assert!(error.ends_with(expected), "{error}");
    std::fs::write(&path, &packed).unwrap();
    let report = import.path(codex, &path).unwrap();
    assert_eq!((&report.files[0].error, report.counts.turns), (&None, 1));
}

#[test]
fn a_lock_is_tried_again_and_reported_once() {
    let place = Place::new();
    let path = place.directory.path().join("opencode.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(
        "CREATE TABLE session (id, parent_id, title, time_created, time_updated, revert);
         CREATE TABLE message (id, session_id, data);
         CREATE TABLE part (id, message_id, data);
         BEGIN EXCLUSIVE;",
    )
    .unwrap();
    let opencode = format("opencode").unwrap();
    let mut import = Import::new(&place.store, options());
    assert!(
        import.path(opencode, &path).unwrap().files[0]
            .error
            .is_some()
    );
    assert!(import.path(opencode, &path).unwrap().files.is_empty());
    db.execute_batch("ROLLBACK").unwrap();
    let report = import.path(opencode, &path).unwrap();
    assert_eq!(report.files[0].error, None);
}
