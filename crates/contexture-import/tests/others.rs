//! Imports of the other formats.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::Write as _;

use contexture_import::{Environment, Import, format, formats};
use contexture_store::{Ledger, Trees};
use serde_json::json;
use support::{Place, assert_text, options};

fn chatgpt() -> String {
    let message = |role: &str, content: serde_json::Value| {
        json!({"author": {"role": role}, "create_time": 1_770_026_400.5, "content": content,
            "metadata": {"model_slug": "gpt-5"}})
    };
    let text = |text: &str| json!({"content_type": "text", "parts": [text]});
    let hidden = json!({"author": {"role": "system"}, "content": text("secret rules"),
        "metadata": {"is_visually_hidden_from_conversation": true}});
    let tool = json!({"author": {"role": "tool", "name": "python"}, "content":
        {"content_type": "execution_output", "text": "42"}});
    let all = json!([{
        "title": "Boats", "create_time": 1_770_026_400.0, "conversation_id": "c1",
        "current_node": "h",
        "mapping": {
            "root": {"id": "root", "message": null, "parent": null, "children": ["sys"]},
            "sys": {"message": hidden, "parent": "root", "children": ["a"]},
            "a": {"message": message("user", json!({"content_type": "multimodal_text", "parts":
                ["Which boat?", {"content_type": "image_asset_pointer",
                    "asset_pointer": "file-service://f1"}]})), "parent": "sys"},
            "b": {"message": message("assistant", json!({"content_type": "thoughts", "thoughts":
                [{"summary": "Looking", "content": "It is red."}]})), "parent": "a"},
            "c": {"message": message("assistant", text("Anna.")), "parent": "b"},
            "d": {"message": message("assistant", text("Brise.")), "parent": "b"},
            "e": {"message": message("assistant", json!({"content_type": "code",
                "language": "python", "text": "6*7"})), "parent": "d"},
            "f": {"message": tool, "parent": "e"},
            "g": {"message": message("assistant", text("")), "parent": "f"},
            "h": {"message": message("user", json!({"content_type": "novelty", "x": 1})),
                "parent": "g"},
        }
    }, {
        "title": "Two beginnings", "id": "c2", "mapping": {
            "r": {"message": null, "parent": null},
            "x": {"message": message("user", text("one")), "parent": "r"},
            "y": {"message": message("user", text("two")), "parent": "r"},
            "z": {"message": message("assistant", text("in a circle")), "parent": "z2"},
            "z2": {"message": message("assistant", text("in it, too")), "parent": "z"},
        }
    }, {"title": "Empty", "id": "c3", "mapping": {}}, {"no": "conversation"}]);
    all.to_string()
}

const CHATGPT: &str = r#"
    chatgpt:c1 (dialogue) Boats
      a < - human: Which boat?||[image_asset_pointer file-service://f1]
      b < a model: [thoughts]|Looking|It is red.
      c < b model: Anna.
      d < b model: Brise.
      e < d model: ```python|6*7|```
      f < e model: [python]|42
      h < f human: {"content_type":"novelty","x":1}
      path current: h
    chatgpt:c2 (dialogue) Two beginnings
      root < - human: 
      x < root human: one
      y < root human: two
      z < root model: in a circle
      z2 < root model: in it, too
"#;

/// Sorts nothing, but takes away the order of nodes with the same time.
fn sorted(trees: &str) -> String {
    let mut trees: Vec<Vec<&str>> = trees
        .split_inclusive("chatgpt:")
        .map(|tree| tree.lines().collect())
        .collect();
    for tree in &mut trees {
        tree.sort_unstable();
    }
    trees.concat().join("\n")
}

#[test]
fn a_chatgpt_export_becomes_trees() {
    let place = Place::new();
    let path = place.file("conversations.json", chatgpt());
    let report = place.import("chatgpt", &path);
    assert_eq!((report.counts.trees, report.counts.unknown), (2, 1));
    let dedented: Vec<&str> = CHATGPT
        .lines()
        .map(|line| line.get(4..).unwrap_or(""))
        .collect();
    assert_eq!(
        sorted(&place.trees()),
        sorted(dedented.join("\n").trim_start())
    );
    // The same in a zip file adds nothing.
    let path = place.directory.path().join("export.zip");
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    let packed = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated);
    zip.start_file("user.json", packed).unwrap();
    zip.write_all(b"{}").unwrap();
    zip.start_file("conversations.json", packed).unwrap();
    zip.write_all(chatgpt().as_bytes()).unwrap();
    zip.finish().unwrap();
    let again = place.import("chatgpt", &path);
    assert!(again.files[0].error.is_none(), "{:?}", again.files);
    assert!(again.counts.is_nothing_new(), "{:?}", again.counts);
}

#[test]
fn a_claude_export_becomes_trees() {
    let place = Place::new();
    let all = json!([{
        "uuid": "k1", "name": "Boats", "created_at": "2026-02-02T10:00:00Z",
        "chat_messages": [
            {"uuid": "a", "sender": "human", "text": "Which boat?", "content": [],
             "created_at": "2026-02-02T10:00:01Z",
             "parent_message_uuid": "00000000-0000-4000-8000-000000000000",
             "attachments": [{"file_name": "list.txt", "extracted_content": "Anna"}],
             "files": [{"file_name": "photo.png"}]},
            {"uuid": "b", "sender": "assistant", "created_at": "2026-02-02T10:00:02Z",
             "parent_message_uuid": "a", "content": [
                {"type": "thinking", "thinking": "A list."},
                {"type": "tool_use", "name": "search", "input": {"q": "boat"}},
                {"type": "tool_result", "name": "search",
                 "content": [{"type": "text", "text": "Anna"}]},
                {"type": "text", "text": "Anna."}]},
            {"uuid": "c", "sender": "assistant", "text": "Brise.",
             "created_at": "2026-02-02T10:00:03Z", "parent_message_uuid": "a"},
        ]
    }, {
        "uuid": "k2", "name": "", "created_at": "2026-02-02T11:00:00Z",
        "chat_messages": [
            {"uuid": "x", "sender": "human", "text": "one", "created_at": "2026-02-02T11:00:01Z"},
            {"uuid": "y", "sender": "assistant", "text": "One.",
             "created_at": "2026-02-02T11:00:02Z"},
        ]
    }]);
    let path = place.file("conversations.json", all.to_string());
    let report = place.import("claude", &path);
    assert_eq!((report.counts.trees, report.counts.nodes), (2, 5));
    assert_text(
        &place.trees(),
        r#"
        claude:k1 (dialogue) Boats
          a < - human: Which boat?||[attachment list.txt]|Anna||[attachment photo.png]
          b < a model: [thinking]|A list.||[call of search] {"q":"boat"}||[result of search]|Anna||Anna.
          c < a model: Brise.
          path current: c
        claude:k2 (dialogue)
          x < - human: one
          y < x model: One.
          path current: y
        "#,
    );
}

#[test]
fn loomsidian_becomes_trees() {
    let place = Place::new();
    let note = json!({"current": "b", "hoisted": [], "nodes": {
        "a": {"text": "Once", "parentId": null, "unread": false, "collapsed": false},
        "b": {"text": " upon a time", "parentId": "a", "bookmarked": true, "unread": false},
        "c": {"text": " there was", "parentId": "a", "unread": true},
        "d": {"parentId": "a"},
    }});
    let all = json!({"settings": {}, "state": {"story.md": note, "odd.md": 7}});
    let path = place.file("vault/.obsidian/plugins/loom/data.json", all.to_string());
    let report = place.import("loomsidian", place.directory.path());
    assert_eq!((report.counts.trees, report.counts.unknown), (1, 2));
    // Nodes without a time are in the order of their ids, which begin with a hash.
    let shown = place.trees();
    let mut lines: Vec<&str> = shown.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "  a < - human: Once",
            "  b < a human:  upon a time *",
            "  c < a human:  there was",
            "  path current: b",
            "loomsidian:vault/story.md (buffer) story.md",
        ]
    );
    // One tree, without notes.
    std::fs::write(&path, json!({"nodes": {"a": {"text": "x"}}}).to_string()).unwrap();
    let report = place.import("loomsidian", &path);
    assert_eq!(report.counts.trees, 1);
}

#[test]
fn aider_becomes_sessions() {
    let place = Place::new();
    let text = "\
# aider chat started at 2026-02-02 10:00:00

> Aider v0.86.0
> Main model: gpt-5.5 with diff edit format

#### add a boat
#### and a pier

Here is the boat:

```
boat = 1
```

> Tokens: 3.2k sent, 209 received. Cost: $0.01 message, $0.01 session.
> Applied edit to boats.py

#### thanks

You are welcome.

# aider chat started at 2026-02-02 11:00:00

#### /help
";
    let path = place.file(".aider.chat.history.md", text);
    let report = place.import("aider", &path);
    assert_eq!((report.counts.sessions, report.counts.turns), (2, 3));
    let shown = place.sessions();
    let label = shown.lines().next().unwrap().to_owned();
    let prefix = label.strip_suffix("2026-02-02T10:00:00").unwrap();
    assert_text(
        &shown.replace(prefix, "aider:*:"),
        "
        aider:*:2026-02-02T10:00:00
          task: add a boat
          1 gpt-5.5 stop end_turn 3200+209 (0 cached)
            user: add a boat|and a pier
            system: Aider v0.86.0|Main model: gpt-5.5 with diff edit format|Tokens: 3.2k sent, 209 received. Cost: $0.01 message, $0.01 session.|Applied edit to boats.py
            assistant: Here is the boat:||```|boat = 1|```
          2 gpt-5.5 stop end_turn
            user: thanks
            assistant: You are welcome.

        aider:*:2026-02-02T11:00:00
          task: /help
          1 pending
            user: /help
        ",
    );
    std::fs::write(&path, format!("{text}\nHelp yourself.\n")).unwrap();
    let report = place.import("aider", &path);
    assert_eq!(report.counts.turns, 1);
}

#[test]
fn aider_counts_all_calls_of_a_turn() {
    let place = Place::new();
    let text = "\
# aider chat started at 2026-02-02 10:00:00

#### explain

##### A heading
of the answer

> Tokens: 3.0k sent, 1.0k cache write, 500 cache hit, 200 received.

More.

> Tokens: 2.0k sent, 2.1k cache hit, 100 received.
";
    let path = place.file(".aider.chat.history.md", text);
    let local = contexture_import::Options {
        zone: jiff::tz::TimeZone::fixed(jiff::tz::offset(9)),
        ..options()
    };
    let report = place.import_with("aider", &path, local);
    assert_eq!(report.counts.turns, 1);
    let session = place.store.sessions(None, 9).unwrap().remove(0);
    let turn = place.turns(&session).remove(0);
    assert_eq!(turn.created_at.to_string(), "2026-02-02T01:00:00Z");
    let usage = turn.turn.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (5100, 300));
    assert_eq!(
        (usage.cached_input_tokens, usage.cache_write_tokens),
        (2600, 1000)
    );
    let shown = place.sessions();
    assert!(
        shown.contains("assistant: ##### A heading|of the answer||"),
        "{shown}"
    );
    // Recorded turns keep their time.
    std::fs::write(&path, format!("{text}\n#### thanks\n\nYou are welcome.\n")).unwrap();
    let report = place.import("aider", &path);
    assert_eq!(report.counts.turns, 1);
}

#[test]
fn a_changed_node_is_a_new_version_and_blocks_nothing() {
    let place = Place::new();
    let name = "vault/.obsidian/plugins/loom/data.json";
    let data = |text: &str, more: bool| {
        let mut nodes = json!({
            "a": {"text": text, "parentId": null},
            "b": {"text": " upon", "parentId": "a"},
        });
        if more {
            nodes["c"] = json!({"text": " a time", "parentId": "b"});
        }
        json!({"state": {"story.md": {"current": "a", "nodes": nodes}}}).to_string()
    };
    place.import("loomsidian", &place.file(name, data("Once", false)));
    let import = |text: &str| {
        let report = place.import("loomsidian", &place.file(name, data(text, true)));
        assert_eq!(report.files[0].warnings, [""; 0]);
        (report.counts.nodes, report.counts.skipped)
    };
    // A version of the first node, and the new node.
    assert_eq!(import("Twice"), (2, 0));
    let shown = place.trees();
    assert!(shown.contains(" a@1 < - human: Twice\n"), "{shown}");
    assert!(shown.contains(" c < b human:  a time\n"), "{shown}");
    assert!(shown.contains("path current: a@1\n"), "{shown}");
    let tree = place
        .store
        .export_tree("loomsidian:vault/story.md")
        .unwrap();
    let version = tree.nodes.iter().find(|node| node.id.ends_with("@1"));
    let from = version.unwrap().edited_from.as_deref().unwrap();
    assert!(from.ends_with("story.md/a"), "{from}");
    assert_eq!(import("Twice"), (0, 0));
    // The first text again is another version.
    assert_eq!(import("Once"), (1, 0));
    assert_eq!(import("Once"), (0, 0));
    // A node that has another parent stays where it is, and is reported.
    let moved = data("Once", true).replace(r#""parentId":"b""#, r#""parentId":"a""#);
    let report = place.import("loomsidian", &place.file(name, moved));
    let warning = &report.files[0].warnings[0];
    assert!(
        warning.contains("1 node(s) have another parent"),
        "{warning}"
    );
}

#[test]
fn vaults_with_the_same_name_have_trees_of_their_own() {
    let place = Place::new();
    let data = |text: &str| {
        let nodes = json!({"a": {"text": text, "parentId": null}});
        json!({"state": {"story.md": {"current": "a", "nodes": nodes}}}).to_string()
    };
    let one = place.file("x/vault/.obsidian/plugins/loom/data.json", data("One"));
    let two = place.file("y/vault/.obsidian/plugins/loom/data.json", data("Two"));
    for path in [&one, &two] {
        assert_eq!(place.import("loomsidian", path).counts.trees, 1);
    }
    let shown = place.trees();
    assert!(
        shown.contains("loomsidian:vault/story.md (buffer)"),
        "{shown}"
    );
    assert!(shown.contains("a < - human: One\n"), "{shown}");
    assert!(shown.contains("a < - human: Two\n"), "{shown}");
    // A vault that was moved is still the same.
    let moved = place.file("z/vault/.obsidian/plugins/loom/data.json", data("One"));
    std::fs::remove_file(&one).unwrap();
    let report = place.import("loomsidian", &moved);
    assert!(report.counts.is_nothing_new(), "{:?}", report.counts);
}

#[test]
fn files_of_messages_are_kept() {
    let place = Place::new();
    let db = opencode(&place.directory.path().join("opencode.db"));
    db.execute_batch("INSERT INTO session VALUES ('s', NULL, 'Boats', 1, 1, NULL, 0);")
        .unwrap();
    let image = json!({"type": "file", "mime": "image/png", "filename": "a.png",
        "url": "data:image/png;base64,AA=="});
    add(
        &db,
        "s",
        "m1",
        json!({"role": "user"}),
        &[json!({"type": "text", "text": "Look"})],
    );
    add(
        &db,
        "s",
        "m2",
        json!({"role": "assistant", "finish": "stop"}),
        &[
            json!({"type": "tool", "callID": "t1", "tool": "read", "state": {"status": "completed",
                "input": {}, "output": "An image.", "attachments": [image]}}),
            json!({"type": "hologram", "data": "x"}),
        ],
    );
    let report = place.import("opencode", &place.directory.path().join("opencode.db"));
    assert_eq!((report.counts.turns, report.counts.unknown), (1, 1));
    let shown = place.sessions();
    assert!(
        shown.contains("tool: t1 -> An image.\n    tool: Image { media_type: \"image/png\""),
        "{shown}"
    );

    let message = json!({"author": {"role": "user"}, "content":
        {"content_type": "text", "parts": ["Read this"]}, "metadata": {"attachments": [
            {"id": "file-1", "name": "report.pdf", "mime_type": "application/pdf"}]}});
    let shown_image = json!({"author": {"role": "user"}, "content":
        {"content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer",
            "asset_pointer": "file-service://file-9"}]},
        "metadata": {"attachments": [{"id": "file-9", "name": "cat.png"}]}});
    let all = json!([{"id": "c", "mapping": {
        "a": {"message": message, "parent": null},
        "b": {"message": shown_image, "parent": "a"},
    }}]);
    place.import(
        "chatgpt",
        &place.file("conversations.json", all.to_string()),
    );
    let shown = place.trees();
    assert!(
        shown.contains("human: Read this||[attachment report.pdf application/pdf]\n"),
        "{shown}"
    );
    assert!(
        shown.contains("human: [image_asset_pointer file-service://file-9]\n"),
        "{shown}"
    );
}

#[test]
fn gemini_becomes_sessions() {
    let place = Place::new();
    let rows = [
        json!({"sessionId": "g1", "projectHash": "p", "startTime": "2026-02-02T10:00:00Z"}),
        json!({"id": "1", "timestamp": "2026-02-02T10:00:01Z", "type": "user",
            "content": [{"text": "Which boat?"}, {"inlineData":
                {"mimeType": "image/png", "data": "AA=="}}]}),
        json!({"id": "2", "timestamp": "2026-02-02T10:00:02Z", "type": "gemini",
            "content": "Let me look.", "model": "gemini-3.8-flash"}),
        // The same message again, complete.
        json!({"id": "2", "timestamp": "2026-02-02T10:00:02Z", "type": "gemini",
            "content": "Let me look.", "model": "gemini-3.8-flash",
            "thoughts": [{"subject": "Boats", "description": "A list."}],
            "tokens": {"input": 100, "output": 5, "cached": 40, "thoughts": 3, "tool": 0},
            "toolCalls": [
                {"id": "t1", "name": "ls", "args": {"dir": "."}, "status": "success",
                 "result": [{"functionResponse": {"id": "t1", "response": {"output": "Anna"}}}]},
                {"name": "rm", "args": {}, "status": "error",
                 "result": [{"functionResponse": {"response": {"error": "no"}}}]}]}),
        json!({"id": "3", "timestamp": "2026-02-02T10:00:03Z", "type": "gemini",
            "content": "Anna.", "model": "gemini-3.8-flash"}),
        json!({"id": "4", "timestamp": "2026-02-02T10:00:04Z", "type": "user",
            "content": "Paint her red."}),
        json!({"id": "5", "timestamp": "2026-02-02T10:00:05Z", "type": "gemini",
            "content": "Painted."}),
        json!({"$rewindTo": "4"}),
        json!({"$set": {"lastUpdated": "2026-02-02T10:00:06Z"}}),
        json!({"id": "6", "timestamp": "2026-02-02T10:00:06Z", "type": "info",
            "content": "Request cancelled."}),
        json!({"id": "7", "timestamp": "2026-02-02T10:00:07Z", "type": "user",
            "content": "Paint her blue."}),
        json!({"id": "8", "timestamp": "2026-02-02T10:00:08Z", "type": "error",
            "content": "quota"}),
        json!({"strange": true}),
    ];
    let text: Vec<String> = rows.iter().map(ToString::to_string).collect();
    let path = place.file("p/chats/session-1.jsonl", text.join("\n") + "\n");
    let report = place.import("gemini", place.directory.path());
    assert_eq!(report.files.len(), 1);
    assert_eq!((report.counts.turns, report.counts.unknown), (4, 1));
    assert_text(
        &place.sessions(),
        r#"
        gemini:g1
          task: Which boat?
          1 gemini-3.8-flash stop tool_use 100+8 (40 cached)
            user: Which boat?
            user: Image { media_type: "image/png", data: Some("AA=="), url: No
            assistant: (Boats|A list.)
            assistant: Let me look.
            assistant: ls {"dir":"."} as t1
            assistant: rm {} as 2-1
            tool: t1 -> Anna
            tool: failed 2-1 -> no
          2 gemini-3.8-flash stop end_turn
            assistant: Anna.
          3 error: quota
            system: Request cancelled.
            user: Paint her blue.
            system: quota
        "#,
    );
    // The older form, and an import of the same again.
    std::fs::write(&path, text.join("\n") + "\n\n").unwrap();
    assert!(place.import("gemini", &path).counts.is_nothing_new());
    let old = json!({"sessionId": "g2", "startTime": "2026-02-02T10:00:00Z", "messages": [
        {"id": "1", "type": "user", "content": "Hi"},
        {"id": "2", "type": "gemini", "content": "Hello."}]});
    let path = place.file("p/chats/session-2.json", old.to_string());
    assert_eq!(place.import("gemini", &path).counts.turns, 1);
}

fn opencode(path: &std::path::Path) -> rusqlite::Connection {
    let db = rusqlite::Connection::open(path).unwrap();
    db.execute_batch(
        "PRAGMA journal_mode = WAL;
         CREATE TABLE session (id TEXT, parent_id TEXT, title TEXT, time_created INTEGER,
             time_updated INTEGER, revert TEXT, cost REAL);
         CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
         CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT);",
    )
    .unwrap();
    db
}

fn add(
    db: &rusqlite::Connection,
    session: &str,
    id: &str,
    data: serde_json::Value,
    parts: &[serde_json::Value],
) {
    db.execute(
        "INSERT INTO message (id, session_id, data) VALUES (?1, ?2, ?3)",
        (id, session, data.to_string()),
    )
    .unwrap();
    for (i, part) in parts.iter().enumerate() {
        db.execute(
            "INSERT INTO part (id, message_id, session_id, data) VALUES (?1, ?2, ?3, ?4)",
            (format!("{id}-{i}"), id, session, part.to_string()),
        )
        .unwrap();
    }
}

#[test]
fn opencode_becomes_sessions() {
    let place = Place::new();
    let path = place.directory.path().join("opencode.db");
    let db = opencode(&path);
    db.execute_batch(
        "INSERT INTO session VALUES ('s2', 's1', 'Helper', 1770026400500, 5, NULL, 0);
         INSERT INTO session VALUES ('s1', NULL, 'Boats', 1770026400000, 5,
             '{\"messageID\":\"m7\"}', 0.25);",
    )
    .unwrap();
    let user = |at: i64| json!({"role": "user", "time": {"created": at}});
    let model = |at: i64, finish: &str| {
        json!({"role": "assistant", "time": {"created": at}, "modelID": "claude-x",
            "providerID": "anthropic", "finish": finish, "tokens":
            {"input": 10, "output": 12, "reasoning": 0, "cache": {"read": 1000, "write": 100}}})
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    add(
        &db,
        "s1",
        "m1",
        user(1),
        &[
            text("Which boat?"),
            json!({"type": "file",
        "mime": "image/png", "url": "data:image/png;base64,AA==", "filename": "a.png"}),
        ],
    );
    add(
        &db,
        "s1",
        "m2",
        model(2, "tool-calls"),
        &[
            json!({"type": "step-start"}),
            json!({"type": "reasoning", "text": "A list."}),
            json!({"type": "tool", "callID": "t1", "tool": "bash", "state":
            {"status": "completed", "input": {"command": "ls"}, "output": "Anna"}}),
            json!({"type": "tool", "callID": "t2", "tool": "bash", "state":
            {"status": "error", "input": {"command": "rm"}, "error": "denied"}}),
            json!({"type": "step-finish"}),
        ],
    );
    add(&db, "s1", "m3", model(3, "stop"), &[text("Anna.")]);
    add(
        &db,
        "s1",
        "m4",
        user(4),
        &[json!({"type": "compaction", "auto": true})],
    );
    let mut summary = model(5, "stop");
    summary["summary"] = json!(true);
    add(&db, "s1", "m5", summary, &[text("Anna was found.")]);
    add(&db, "s1", "m6", model(6, "stop"), &[text("Go on.")]);
    add(&db, "s1", "m7", user(7), &[text("Paint her.")]);
    add(&db, "s1", "m8", model(8, "stop"), &[text("Painted.")]);
    add(&db, "s2", "n1", user(1), &[text("Count.")]);
    add(&db, "s2", "n2", model(2, "stop"), &[text("One.")]);
    let report = place.import("opencode", &path);
    assert!(report.files[0].error.is_none(), "{:?}", report.files);
    assert_eq!((report.counts.sessions, report.counts.turns), (2, 5));
    assert_text(
        &place.sessions(),
        r#"
        opencode:s1
          task: Boats
          1 claude-x stop tool_use 1110+12 (1000 cached)
            user: Which boat?
            user: Image { media_type: "image/png", data: Some("AA=="), url: No
            assistant: (A list.)
            assistant: bash {"command":"ls"} as t1
            assistant: bash {"command":"rm"} as t2
            tool: t1 -> Anna
            tool: failed t2 -> denied
          2 claude-x stop end_turn 1110+12 (1000 cached)
            assistant: Anna.
          = Anna was found. (context_limit, 1110 -> 4)
          3 claude-x stop end_turn 1110+12 (1000 cached)
            assistant: Go on.

        opencode:s2
          task: Helper
          from: opencode:s1
          1 claude-x stop end_turn 1110+12 (1000 cached)
            user: Count.
            assistant: One.
        "#,
    );
    // New rows in the log are read; unchanged ones are not.
    add(&db, "s2", "n3", user(9), &[text("Again.")]);
    db.execute("UPDATE session SET time_updated = 9 WHERE id = 's2'", [])
        .unwrap();
    let report = place.import("opencode", &path);
    assert_eq!((report.counts.sessions, report.counts.turns), (0, 1));
}

#[test]
fn opencode_files_of_older_versions_become_sessions() {
    let place = Place::new();
    let put = |name: &str, value: serde_json::Value| place.file(name, value.to_string());
    put(
        "storage/session/p/ses_1.json",
        json!({"id": "ses_1", "title": "Old",
        "time": {"created": 1_770_026_400_000_i64}}),
    );
    put(
        "storage/message/ses_1/msg_1.json",
        json!({"role": "user", "time": {"created": 1}}),
    );
    put(
        "storage/part/msg_1/prt_1.json",
        json!({"type": "text", "text": "Hi"}),
    );
    put(
        "storage/message/ses_1/msg_2.json",
        json!({"role": "assistant", "modelID": "m"}),
    );
    put(
        "storage/part/msg_2/prt_2.json",
        json!({"type": "text", "text": "Hello."}),
    );
    let report = place.import("opencode", &place.directory.path().join("storage"));
    assert_eq!((report.counts.sessions, report.counts.turns), (1, 1));
    assert!(place.sessions().contains("assistant: Hello."));
}

#[test]
fn files_are_found_in_their_default_places() {
    let place = Place::new();
    let row = |kind: &str, message: serde_json::Value| {
        json!({"type": kind, "uuid": kind, "message": message,
            "timestamp": "2026-02-02T10:00:00Z"})
    };
    let claude = row("user", json!({"role": "user", "content": "Hi"}));
    place.file("home/.claude/projects/p/s.jsonl", format!("{claude}\n"));
    let codex = json!({"type": "response_item", "payload": {"type": "message", "role": "user",
        "content": "Hi"}});
    place.file(
        "codex/sessions/2026/02/02/rollout-1.jsonl",
        format!("{codex}\n"),
    );
    let gemini = json!({"id": "1", "type": "user", "content": "Hi"});
    place.file(
        "home/.gemini/tmp/p/chats/session-1.jsonl",
        format!("{gemini}\n"),
    );
    let aider = "# aider chat started at 2026-02-02 10:00:00\n\n#### hi\n";
    place.file("work/.aider.chat.history.md", aider);
    let root = place.directory.path();
    let environment = Environment {
        home: Some(root.join("home")),
        current: Some(root.join("work")),
        variables: vec![("CODEX_HOME".to_owned(), root.join("codex"))],
    };
    let mut import = Import::new(&place.store, options());
    let mut found = Vec::new();
    for format in formats() {
        let report = import.default_places(*format, &environment).unwrap();
        found.extend(report.files.iter().map(|file| file.source));
    }
    assert_eq!(found, ["claude-code", "codex", "gemini", "aider"]);
    assert_eq!(place.store.sessions(None, 9).unwrap().len(), 4);
    assert!(format("nothing").is_none());
}
