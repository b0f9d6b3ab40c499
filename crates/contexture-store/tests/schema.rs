//! The JSON Schemas accept exactly the values that serde and the checks accept.

#![cfg(feature = "schema")]
#![allow(clippy::unwrap_used)] // Helpers of a test are not a test to the lint.

use contexture_core::schema::{input, output};
use contexture_core::{ContentHash, Usage};
use contexture_store::{
    AgentMemory, AgentRole, Edge, Flags, Forget, Forgotten, HeadMove, Imported, KindStats,
    MemoryStats, Message, NewSession, NewTask, NewTurn, Node, NodeHead, Record, RecordKind,
    Recorded, SavedPath, Session, SessionChange, SessionStatus, Snapshot, StopReason, StoreError,
    TaskRecord, TaskView, Tree, TreeDocument, TreeInfo, Turn, TurnId, TurnKind,
};
use jiff::Timestamp;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn validator(schema: &Schema) -> jsonschema::Validator {
    jsonschema::draft202012::new(schema.as_value()).unwrap()
}

/// Checks that the schema and the code accept `value`, and that the result
/// matches the schema of outputs.
fn taken<T>(value: Value, check: impl Fn(&T) -> Result<(), StoreError>)
where
    T: JsonSchema + DeserializeOwned + Serialize,
{
    let by_schema = validator(&input().into_root_schema_for::<T>());
    if let Err(error) = by_schema.validate(&value) {
        panic!(
            "the schema refuses {value}: {error} at {}",
            error.instance_path()
        );
    }
    let read: T = serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{value}: {e}"));
    check(&read).unwrap_or_else(|e| panic!("{value}: {e}"));
    given(&read);
}

/// Checks that both reject `value`.
fn refused<T>(value: Value, check: impl Fn(&T) -> Result<(), StoreError>)
where
    T: JsonSchema + DeserializeOwned,
{
    let by_schema = validator(&input().into_root_schema_for::<T>());
    assert!(!by_schema.is_valid(&value), "the schema takes {value}");
    if let Ok(read) = serde_json::from_value::<T>(value.clone()) {
        assert!(check(&read).is_err(), "the code takes {value}");
    }
}

/// Checks that `value` matches the schema of outputs.
fn given<T: JsonSchema + Serialize>(value: &T) {
    let value = serde_json::to_value(value).unwrap();
    let schema = output().into_root_schema_for::<T>();
    if let Err(error) = validator(&schema).validate(&value) {
        panic!(
            "not as the schema says: {value}: {error} at {}",
            error.instance_path()
        );
    }
}

/// Returns `value` with `change` merged in. A field with the value `{"-": 0}`
/// is removed.
fn with(value: &Value, change: Value) -> Value {
    let mut value = value.clone();
    for (field, new) in change.as_object().unwrap() {
        match new == &json!({"-": 0}) {
            true => value.as_object_mut().unwrap().shift_remove(field),
            false => value
                .as_object_mut()
                .unwrap()
                .insert(field.clone(), new.clone()),
        };
    }
    value
}

fn anything<T>(_: &T) -> Result<(), StoreError> {
    Ok(())
}

fn turn() -> Value {
    json!({
        "messages": [
            {"role": "user", "source": "human", "content": "Why does the build fail?"},
            {"role": "assistant", "content": [
                {"type": "text", "text": "Let me look."},
                {"type": "tool_call", "id": "c1", "name": "shell",
                 "arguments": {"command": "make"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "undefined reference to foo"},
            {"role": "assistant", "content": "foo is never linked."}],
        "model": "claude-sonnet-4-20250514", "provider": "anthropic",
        "usage": {"input_tokens": 5120, "output_tokens": 96, "cached_input_tokens": 4096,
                  "cache_write_tokens": 512},
        "stop_reason": "end_turn", "parent_turn_id": null, "idempotency_key": null
    })
}

#[test]
fn a_turn() {
    let check = |turn: &NewTurn| turn.outline(&[]).map(|_| ());
    taken(turn(), check);
    for change in [
        json!({"messages": [{"role": "user", "content": "a"}]}),
        json!({"messages": [{"role": "system", "content": ""}, {"role": "user", "content": " x"}]}),
        json!({"messages": [{"role": "user", "content": [
            {"type": "image", "media_type": "image/png", "url": "https://a.example/x.png"},
            {"type": "audio", "media_type": "audio/wav", "data": "AAAA", "url": null},
            {"type": "document", "media_type": "application/pdf", "data": "AAAA"}]}]}),
        json!({"messages": [
            {"role": "assistant", "content": [
                {"type": "thinking", "text": "Hm", "signature": "s"},
                {"type": "tool_call", "id": "c", "name": "n", "arguments": {}}]},
            {"role": "tool", "content": [
                {"type": "tool_result", "tool_call_id": "c", "content": "", "is_error": true}]}]}),
        json!({"usage": {}}),
        json!({"usage": {"input_tokens": i64::MAX}}),
        json!({"stop_reason": "STOP"}),
        json!({"stop_reason": "pause_turn"}),
        json!({"messages": [{"role": "assistant", "content": [
            {"type": "tool_call", "id": "c", "name": "n", "arguments": "{\"a"},
            {"type": "provider", "provider": "anthropic", "raw": {"type": "x", "n": [1]}},
            {"type": "text", "text": "a", "native": {"provider": "gemini", "raw": {"a": 1}}}]}]}),
        json!({"stop_reason": null, "status": "failed", "role": "worker"}),
        json!({"error": {"kind": "rate_limit"}}),
        json!({"parent_turn_id": "00112233445566778899AABBCCDDEEFF"}),
        json!({"tools": ["a"], "permissions_granted": [], "idempotency_key": "k"}),
    ] {
        taken(with(&turn(), change), check);
    }
    for change in [
        json!({"messages": {"-": 0}}),
        json!({"messages": []}),
        json!({"messages": null}),
        json!({"messages": [{"role": "user", "content": " \n"}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "\u{3000}"}]}]}),
        json!({"messages": [{"role": "user"}]}),
        json!({"messages": [{"role": "user", "content": "a", "colour": 1}]}),
        json!({"messages": [{"role": "bot", "content": "a"}]}),
        json!({"messages": [{"role": "user", "content": "a", "is_error": true}]}),
        json!({"messages": [{"role": "user", "content": "a", "tool_call_id": "c"}]}),
        json!({"messages": [{"role": "tool", "content": "a"}]}),
        json!({"messages": [{"role": "user", "content": 7}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "text"}]}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "x": 1}]}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "video", "text": "a"}]}]}),
        json!({"messages": [{"role": "user", "content": [
            {"type": "image", "media_type": "image/png"}]}]}),
        json!({"messages": [{"role": "user", "content": [
            {"type": "image", "media_type": "image/png", "data": "A", "url": "b"}]}]}),
        json!({"messages": [{"role": "user", "content": [
            {"type": "tool_call", "id": "c", "name": "n", "arguments": {}}]}]}),
        json!({"messages": [{"role": "assistant", "content": [
            {"type": "tool_call", "id": " ", "name": "n", "arguments": {}}]}]}),
        json!({"messages": [{"role": "assistant", "content": [
            {"type": "tool_call", "id": "c", "name": "n", "arguments": [1]}]}]}),
        json!({"messages": [{"role": "assistant", "content": [
            {"type": "provider", "provider": "anthropic"}]}]}),
        json!({"messages": [{"role": "assistant", "content": [
            {"type": "provider", "provider": " ", "raw": {}}]}]}),
        json!({"messages": [{"role": "assistant", "content": [
            {"type": "provider", "provider": "anthropic", "raw": [1]}]}]}),
        json!({"messages": [{"role": "assistant", "content": [
            {"type": "text", "text": "a", "raw": {}}]}]}),
        json!({"messages": [{"role": "assistant", "content": [
            {"type": "tool_result", "tool_call_id": "c", "content": ""}]}]}),
        json!({"idempotency_key": ""}),
        json!({"parent_turn_id": "abc"}),
        json!({"usage": {"input_tokens": -1}}),
        json!({"usage": {"input_tokens": 9_223_372_036_854_775_808_u64}}),
        json!({"usage": {"tokens": 1}}),
        json!({"stop_reason": " "}),
        json!({"stop_reason": 1}),
        json!({"status": "done"}),
        json!({"role": "boss"}),
        json!({"error": {"kind": "other"}}),
        json!({"error": {"message": "no kind"}}),
        json!({"tools": "all"}),
        json!({"surprise": 1}),
    ] {
        refused(with(&turn(), change), check);
    }
    // A stored turn is the given one, with its id and position.
    let id = TurnId::of(b"a turn");
    let turn = Turn {
        id,
        parent: None,
        depth: 1,
        kind: TurnKind::Normal,
        created_at: Timestamp::UNIX_EPOCH,
        turn: serde_json::from_value(turn()).unwrap(),
        compaction: None,
        counts: None,
    };
    given(&turn);
    given(&Recorded {
        id,
        parent: Some(id),
        depth: 2,
        replayed: false,
    });
    taken(json!("unified"), anything::<AgentRole>);
    taken(json!("function_call"), anything::<StopReason>);
    refused(json!("Unified"), anything::<AgentRole>);
    taken(json!({"role": "user", "content": []}), anything::<Message>);
    refused(json!({"output_tokens": 0.5}), anything::<Usage>);
}

#[test]
fn a_session() {
    let check = NewSession::check;
    let new = json!({"label": "support", "aliases": ["help desk"], "head": null,
                     "persona": "ada", "parent_session": null, "task": "help", "remember": true});
    taken(new.clone(), check);
    taken(json!({"label": "é"}), check);
    for change in [
        json!({"label": {"-": 0}}),
        json!({"label": ""}),
        json!({"label": null}),
        json!({"label": " a"}),
        json!({"label": "a\u{a0}"}),
        json!({"label": "a\nb"}),
        json!({"label": "a\u{0}"}),
        json!({"label": "a".repeat(201)}),
        json!({"aliases": ["a "]}),
        json!({"head": "support"}),
        json!({"owner": "me"}),
        json!({"remember": "yes"}),
    ] {
        refused(with(&new, change), check);
    }
    taken(json!({"alias": "help"}), anything::<SessionChange>);
    taken(json!({"remember": false}), anything::<SessionChange>);
    taken(json!({"status": "failed"}), anything::<SessionChange>);
    taken(
        json!({"alias": "help", "status": "failed"}),
        anything::<SessionChange>,
    );
    taken(json!({}), anything::<SessionChange>);
    refused(json!({"status": "gone"}), anything::<SessionChange>);
    refused(json!({"label": "x"}), anything::<SessionChange>);
    given(&Session {
        label: "support".to_owned(),
        aliases: vec!["help".to_owned()],
        head: Some(TurnId::of(b"head")),
        turns: 3,
        persona: None,
        parent_session: None,
        parent_turn: None,
        task: Some("help".to_owned()),
        remember: Some(false),
        status: SessionStatus::Active,
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
        turn_deletions: 0,
    });
    given(&HeadMove {
        from: None,
        to: Some(TurnId::of(b"head")),
        reason: "recorded".to_owned(),
        at: Timestamp::UNIX_EPOCH,
    });
    given(&Snapshot {
        hash: ContentHash::of(b"request"),
        session: "support".to_owned(),
        parent_turn: None,
        model: "gpt-4o".to_owned(),
        tokens: 12,
        counter: "o200k_base".to_owned(),
        root: ContentHash::of(b"root"),
        created_at: Timestamp::UNIX_EPOCH,
    });
}

fn tree() -> Value {
    json!({
        "tree": {"id": "t1", "mode": "dialogue", "title": "A talk", "system_context": "Be brief.",
                 "preferences": {}},
        "agents": [{"id": "a1", "type": "model", "system_prompt": "…", "loom_aware": false,
                    "parameters": {"temperature": 0.5}, "position": "n1"}],
        "nodes": [
            {"id": "n1", "author": "human", "author_agent_id": null, "content": "Hello",
             "edited_from": null,
             "metadata": {"excluded": false, "pruned": false, "bookmarked": false},
             "created_at": "2026-02-02T10:00:00Z"},
            {"id": "n2", "author": "model", "author_agent_id": "a1",
             "content": [{"type": "text", "text": "Hi"}], "created_at": 1_770_000_000_123_i64,
             "raw_response": {"model": "m", "usage": {"input_tokens": 1}, "body": {"id": 7}}}],
        "edges": [{"id": "e1", "type": "continuation",
                   "sources": [{"node_id": "n1", "role": "primary"}], "target_node_id": "n2"}],
        "paths": [{"name": "main", "head": "n2"}],
        "memories": [{"agent_id": "a1", "pins": [{"node_id": "n1"}, {"text": "Be kind."}],
                      "stashes": [{"name": "s", "text": ""}],
                      "trace": [{"action": "looked", "at": null}]}]
    })
}

#[test]
fn a_tree() {
    let check = TreeDocument::check;
    taken(tree(), check);
    taken(json!({"tree": {"id": "t", "mode": "buffer"}}), check);
    let inside = |list: &str, change: Value| {
        let mut tree = tree();
        tree[list][0] = with(&tree[list][0], change);
        tree
    };
    for tree in [
        with(&tree(), json!({"tree": {"-": 0}})),
        with(&tree(), json!({"version": 1})),
        with(&tree(), json!({"tree": {"id": "t"}})),
        with(&tree(), json!({"tree": {"id": "t", "mode": "chat"}})),
        with(&tree(), json!({"tree": {"id": " t", "mode": "buffer"}})),
        with(
            &tree(),
            json!({"tree": {"id": "t", "mode": "buffer",
                                      "preferences": {"token_buffer": u64::MAX}}}),
        ),
        with(
            &tree(),
            json!({"tree": {"id": "t", "mode": "buffer",
                                      "preferences": {"truncation_strategy": "none"}}}),
        ),
        with(
            &tree(),
            json!({"tree": {"id": "t", "mode": "buffer", "created_at": "yesterday "},
                             "nodes": 1}),
        ),
        inside("agents", json!({"id": ""})),
        inside("agents", json!({"type": "dog"})),
        inside("agents", json!({"parameters": [1]})),
        inside("nodes", json!({"id": "n1\u{7f}"})),
        inside("nodes", json!({"content": []})),
        inside("nodes", json!({"content": null})),
        inside(
            "nodes",
            json!({"content": [{"type": "thinking", "text": "Hm"}]}),
        ),
        inside(
            "nodes",
            json!({"content": [{"type": "image", "media_type": "image/png"}]}),
        ),
        inside("nodes", json!({"metadata": {"gone": true}})),
        inside("nodes", json!({"created_at": 1e300})),
        inside("nodes", json!({"created_at": true})),
        inside("nodes", json!({"created_at": 999_999_999_999_999_i64})),
        inside("edges", json!({"sources": []})),
        inside(
            "edges",
            json!({"sources": [{"node_id": "n1", "role": "context"}]}),
        ),
        inside("edges", json!({"type": "arrow"})),
        inside("edges", json!({"target_node_id": {"-": 0}})),
        inside("paths", json!({"name": ""})),
        inside("paths", json!({"head": {"-": 0}})),
        inside("memories", json!({"pins": [{}]})),
        inside(
            "memories",
            json!({"pins": [{"node_id": "n1", "text": "both"}]}),
        ),
        inside("memories", json!({"stashes": [{"name": "", "text": ""}]})),
        inside("memories", json!({"trace": [{"action": " "}]})),
    ] {
        refused(tree, check);
    }
    let document: TreeDocument = serde_json::from_value(tree()).unwrap();
    let document = document.normalised(Timestamp::UNIX_EPOCH);
    given(&document);
    taken(
        json!({"id": "n", "author": "human", "content": "x"}),
        |node: &Node| node.check("node"),
    );
    taken(
        json!({"id": "e", "type": "annotation", "sources": [{"node_id": "a"}],
               "target_node_id": "b"}),
        |edge: &Edge| edge.check("edge"),
    );
    taken(json!({"bookmarked": true}), anything::<Flags>);
    refused(json!({"bookmarked": null}), anything::<Flags>);
    taken(json!({"agent_id": "a"}), anything::<AgentMemory>);
    taken(
        json!({"name": "p", "head": "n", "choices": ["e1"]}),
        anything::<SavedPath>,
    );
    given(&TreeInfo {
        tree: Tree {
            ..document.tree.clone()
        },
        root: None,
        nodes: 0,
        edges: 0,
        instructions: 0,
        agents: document.agents.clone(),
        paths: document.paths.clone(),
        epoch: 0,
    });
    given(&NodeHead {
        id: "n1".to_owned(),
        local_id: "n1".to_owned(),
        author: contexture_store::Author::Human,
        author_agent_id: None,
        edited_from: None,
        flags: Flags::default(),
        created_at: Timestamp::UNIX_EPOCH,
        bytes: 5,
        step: contexture_store::Step::Nothing,
    });
    given(&Imported {
        created: true,
        nodes: 2,
        edges: 1,
        reflagged: 0,
        changed: false,
    });
}

#[test]
fn records() {
    // The record is completed first, as when it is recorded.
    let check = |record: &Record| {
        let mut record = record.clone();
        record.complete();
        record.check()
    };
    let event = json!({"kind": "event", "id": "e1", "session_id": "s",
        "timestamp": "2026-02-02T10:00:00+01:00", "type": "user_message", "actor": "user",
        "content": {"speaker": "Ana", "text": "Ship on Friday."}, "outcome": null,
        "parent_id": null});
    let chunk = json!({"kind": "chunk", "source": "notes.md", "text": "one", "index": 3,
        "embedding": [0.5, -1, 1e-9], "visible_to": ["ana"]});
    let entity = json!({"kind": "entity", "type": "person", "name": "Ana", "aliases": ["A."],
        "properties": {"city": "Porto"}, "mentions": 3, "salience": 1, "confidence": 0.5});
    let relation = json!({"kind": "relation", "type": "works_at", "source_id": "Ana",
        "target_id": "Acme", "weight": 0.5, "evidence": ["e1"]});
    let pattern = json!({"kind": "pattern", "name": "linking",
        "conditions": [{"type": "keyword", "value": "ld", "weight": 2}],
        "procedure": "Look at the order of libraries.", "applications": 3, "successes": 2,
        "failures": 1});
    let task = json!({"kind": "task", "id": "t1", "goal": "Ship", "created_at": 0});
    for record in [&event, &chunk, &entity, &relation, &pattern, &task] {
        taken(record.clone(), check);
        refused(with(record, json!({"colour": 1})), check);
        refused(with(record, json!({"kind": "thing"})), check);
        refused(with(record, json!({"kind": {"-": 0}})), check);
        refused(with(record, json!({"id": " "})), check);
        refused(with(record, json!({"id": "a\u{0}"})), check);
        refused(with(record, json!({"id": "a".repeat(2049)})), check);
    }
    for record in [&event, &chunk, &entity, &relation, &pattern] {
        taken(with(record, json!({"id": ""})), check);
        taken(
            with(
                record,
                json!({"valid_from": 0, "valid_to": "2026-02-02T10:00:00Z"}),
            ),
            check,
        );
        refused(with(record, json!({"valid_from": []})), check);
        refused(with(record, json!({"supersedes": ""})), check);
    }
    taken(
        with(&event, json!({"type": {"-": 0}, "content": "A text"})),
        check,
    );
    for (record, change) in [
        (&event, json!({"content": null})),
        (&event, json!({"content": {"-": 0}})),
        (&event, json!({"type": ""})),
        (&event, json!({"session_id": ""})),
        (&event, json!({"outcome": "fine"})),
        (&event, json!({"keywords": [1]})),
        (&chunk, json!({"text": "\n"})),
        (&chunk, json!({"source": ""})),
        (&chunk, json!({"index": -1})),
        (&chunk, json!({"index": 4_294_967_296_u64})),
        (&chunk, json!({"embedding": [1e39]})),
        (&chunk, json!({"embedding": ["a"]})),
        (&entity, json!({"name": ""})),
        (&entity, json!({"aliases": [" "]})),
        (&entity, json!({"salience": 1.5})),
        (&entity, json!({"confidence": -0.1})),
        (&entity, json!({"properties": []})),
        (&relation, json!({"source_id": ""})),
        (&relation, json!({"weight": 2})),
        (&pattern, json!({"procedure": ""})),
        (
            &pattern,
            json!({"conditions": [{"type": "mood", "value": "a"}]}),
        ),
        (
            &pattern,
            json!({"conditions": [{"type": "keyword", "value": ""}]}),
        ),
        (
            &pattern,
            json!({"conditions": [{"type": "keyword", "value": "a", "weight": -1}]}),
        ),
        (&task, json!({"goal": " "})),
        (&task, json!({"id": {"-": 0}})),
        (&task, json!({"stack": ""})),
        (&task, json!({"status": "lost"})),
    ] {
        refused(with(record, change), check);
    }
    taken(json!({"id": {"id": "e1"}}), anything::<Forget>);
    taken(
        json!({"id": {"kind": "event", "id": "e1"}}),
        anything::<Forget>,
    );
    taken(json!({"source": "notes.md"}), anything::<Forget>);
    refused(json!({"source": "a", "session": "b"}), anything::<Forget>);
    refused(json!({"id": {"id": "e1", "of": 1}}), anything::<Forget>);
    given(&Forgotten {
        forgotten: [(RecordKind::Event, 2)].into(),
        pending: true,
    });
    given(&MemoryStats {
        kinds: [(RecordKind::Chunk, KindStats::default())].into(),
        ..MemoryStats::default()
    });
}

#[test]
fn tasks() {
    taken(json!({"goal": "Ship"}), anything::<NewTask>);
    taken(
        json!({"goal": "Ship", "id": "t1", "parent_id": null}),
        anything::<NewTask>,
    );
    refused(json!({"id": "t1"}), anything::<NewTask>);
    refused(
        json!({"goal": "Ship", "stack": "main"}),
        anything::<NewTask>,
    );
    let task: TaskRecord = serde_json::from_value(json!({"id": "t", "goal": "Ship"})).unwrap();
    given(&task);
    given(&TaskView {
        path: vec![task],
        ..TaskView::default()
    });
}
