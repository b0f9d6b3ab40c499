//! Imports of Codex rollouts.

#![allow(clippy::unwrap_used)]

mod support;

use contexture_store::{Ledger, Retention, Snapshot, Upkeep};
use serde_json::{Value, json};
use support::{Place, assert_text};

fn rows(rows: &[(&str, Value)]) -> String {
    let mut out = String::new();
    for (i, (kind, payload)) in rows.iter().enumerate() {
        let row = json!({"timestamp": format!("2026-02-02T10:00:{:02}.000Z", i % 60),
            "ordinal": i, "type": kind, "payload": payload});
        out += &format!("{row}\n");
    }
    out
}

fn meta(id: &str) -> (&'static str, Value) {
    let meta = json!({"id": id, "cwd": "/boats", "cli_version": "0.166.0", "source": "exec",
        "model_provider": "openai", "base_instructions": {"text": "You look after boats."}});
    ("session_meta", meta)
}

fn said(role: &str, text: &str) -> (&'static str, Value) {
    let kind = match role {
        "assistant" => "output_text",
        _ => "input_text",
    };
    let item = json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}],
        "internal_chat_message_metadata_passthrough": {"turn_id": "t"}});
    ("response_item", item)
}

fn event(kind: &str) -> (&'static str, Value) {
    ("event_msg", json!({"type": kind}))
}

fn usage(input: u64) -> (&'static str, Value) {
    let usage = json!({"usage": {"input_tokens": input, "cached_input_tokens": 50,
        "cache_write_input_tokens": 0, "output_tokens": 5, "reasoning_output_tokens": 2}});
    ("token_usage_record", usage)
}

fn beginning(id: &str) -> Vec<(&'static str, Value)> {
    vec![
        meta(id),
        event("task_started"),
        said("developer", "Be brief."),
        said("user", "<environment_context>Kiel</environment_context>"),
        ("world_state", json!({"full": true})),
        ("turn_context", json!({"model": "gpt-5.5", "cwd": "/boats"})),
        said("user", "Which boats are here?"),
        (
            "response_item",
            json!({"type": "reasoning", "id": "rs_1", "summary": [],
            "encrypted_content": "c2VhbA=="}),
        ),
        (
            "response_item",
            json!({"type": "function_call", "call_id": "c1", "name": "exec_command",
            "arguments": "{\"cmd\":\"ls\"}"}),
        ),
        (
            "event_msg",
            json!({"type": "token_count", "info": {"last_token_usage":
            {"input_tokens": 100, "cached_input_tokens": 0, "output_tokens": 9}}}),
        ),
        (
            "response_item",
            json!({"type": "function_call_output", "call_id": "c1",
            "output": "Anna"}),
        ),
        said("assistant", "Anna is here."),
        usage(120),
        event("task_complete"),
    ]
}

/// Returns the bodies of all requests, oldest first.
fn sent(place: &Place) -> Vec<Value> {
    let requests = place.requests("codex:t1").into_iter();
    requests.map(|(_, body)| body).collect()
}

#[test]
fn every_kind_of_row_is_imported() {
    let place = Place::new();
    let mut all = beginning("t1");
    all.extend([
        event("task_started"),
        said("user", "Paint her red."),
        said("assistant", "Painted."),
        usage(130),
        // The latest turn of the user is rolled back.
        (
            "event_msg",
            json!({"type": "thread_rolled_back", "num_turns": 1}),
        ),
        event("task_started"),
        said("user", "Paint her blue."),
        said("assistant", "She is blue."),
        usage(140),
        (
            "compacted",
            json!({"message": "Anna was painted blue.", "replacement_history": [
            {"type": "message", "role": "user", "content":
                [{"type": "input_text", "text": "Anna was painted blue."}]}]}),
        ),
        event("task_started"),
        said("user", "And now?"),
        said("assistant", "She sails."),
        usage(60),
        ("novelty", json!({"x": 1})),
        event("task_started"),
        said("user", "Thanks"),
    ]);
    let path = place.file("rollout-1.jsonl", rows(&all) + "no json\n");
    let report = place.import("codex", &path);
    assert_text(
        &place.sessions(),
        r#"
        codex:t1
          task: Which boats are here?
          1 gpt-5.5 stop tool_use 100+9 (0 cached) request
            system: Be brief.
            user: <environment_context>Kiel</environment_context>
            user: Which boats are here?
            assistant: openai-responses {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2VhbA=="}
            assistant: exec_command {"cmd":"ls"} as c1
          2 gpt-5.5 stop end_turn 120+5 (50 cached) request
            tool: c1 -> Anna
            assistant: Anna is here.
          3 gpt-5.5 stop end_turn 140+5 (50 cached) request
            user: Paint her blue.
            assistant: She is blue.
          = Anna was painted blue. (context_limit, 0 -> 6)
          4 gpt-5.5 stop end_turn 60+5 (50 cached) request
            user: And now?
            assistant: She sails.
          5 pending
            user: Thanks
        "#,
    );
    assert_eq!((report.counts.turns, report.counts.requests), (6, 5));
    assert_eq!(report.counts.unknown, 2);
    let moves = place.store.head_moves("codex:t1", 9).unwrap();
    assert!(moves.iter().any(|it| it.reason == "rewound"), "{moves:?}");
}

#[test]
fn requests_are_the_items_before_an_answer() {
    let place = Place::new();
    let mut all = beginning("t1");
    all.extend([
        (
            "compacted",
            json!({"message": "", "replacement_history": [
            {"type": "message", "role": "user", "content":
                [{"type": "input_text", "text": "Anna is here."}]},
            {"type": "compaction", "encrypted_content": "c2VhbA=="}]}),
        ),
        event("task_started"),
        said("user", "And now?"),
        said("assistant", "She sails."),
    ]);
    let path = place.file("rollout-1.jsonl", rows(&all));
    place.import("codex", &path);
    let requests = place.requests("codex:t1");
    let text = |role: &str, text: &str| {
        json!({"type": "message", "role": role, "content":
            [{"type": "input_text", "text": text}]})
    };
    let instructions = text("developer", "You look after boats.");
    let first = vec![
        instructions.clone(),
        text("developer", "Be brief."),
        text("user", "<environment_context>Kiel</environment_context>"),
        text("user", "Which boats are here?"),
    ];
    assert_eq!(requests[0].1, json!({"model": "gpt-5.5", "input": first}));
    let mut second = first;
    second.extend([
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbA=="}),
        json!({"type": "function_call", "call_id": "c1", "name": "exec_command",
            "arguments": "{\"cmd\":\"ls\"}"}),
        json!({"type": "function_call_output", "call_id": "c1", "output": "Anna"}),
    ]);
    assert_eq!(requests[1].1["input"], json!(second));
    let third = json!([
        instructions,
        text("user", "Anna is here."),
        {"type": "compaction", "encrypted_content": "c2VhbA=="},
        text("user", "And now?"),
    ]);
    assert_eq!(requests[2].1["input"], third);
    assert_eq!(requests[1].0.tokens, 120);
}

/// Most messages of a long request are named in lists of hashes, which the
/// collection of garbage follows.
#[test]
fn long_requests_are_whole_after_a_collection() {
    let place = Place::new();
    let mut all = vec![
        meta("t1"),
        ("turn_context", json!({"model": "gpt-5.5"})),
        event("task_started"),
    ];
    for i in 0..50 {
        all.push(said("user", &format!("question {i}")));
        all.push(said("assistant", &format!("answer {i}")));
    }
    let path = place.file("rollout-1.jsonl", rows(&all));
    place.import("codex", &path);
    let before = place.requests("codex:t1");
    let lengths: Vec<usize> = before
        .iter()
        .map(|(_, body)| body["input"].as_array().unwrap().len())
        .collect();
    assert_eq!(lengths, (0..50).map(|i| 2 * i + 2).collect::<Vec<_>>());
    let deleted = place.store.collect(&Retention::default(), false).unwrap();
    // The last answer is in no request.
    assert_eq!(deleted.deleted.get("blobs"), Some(&1), "{deleted:?}");
    let bodies = |requests: Vec<(Snapshot, Value)>| -> Vec<Value> {
        requests.into_iter().map(|(_, body)| body).collect()
    };
    assert_eq!(bodies(place.requests("codex:t1")), bodies(before));
}

/// A collection deletes content that no request has yet, such as the latest
/// answer. The next request of a growing file still has it.
#[test]
fn a_collection_between_imports_loses_nothing() {
    let mut all = beginning("t1");
    all.extend([
        event("task_started"),
        said("user", "Paint her red."),
        said("assistant", "Painted."),
        event("task_complete"),
        event("task_started"),
        said("user", "And now?"),
        said("assistant", "She sails."),
        (
            "event_msg",
            json!({"type": "thread_rolled_back", "num_turns": 2}),
        ),
        event("task_started"),
        said("user", "Paint her blue."),
        said("assistant", "She is blue."),
        usage(60),
    ]);
    let text = rows(&all);
    let whole = Place::new();
    let path = whole.file("rollout-1.jsonl", &text);
    whole.import("codex", &path);
    let latest_only = Retention {
        per_session: Some(1),
        ..Retention::default()
    };
    for retention in [Retention::default(), latest_only] {
        let place = Place::new();
        let path = place.file("rollout-1.jsonl", "");
        for (end, _) in text.match_indices('\n') {
            std::fs::write(&path, &text[..=end]).unwrap();
            place.import("codex", &path);
            place.store.collect(&retention, false).unwrap();
        }
        assert_eq!(place.sessions(), whole.sessions());
        let (found, expected) = (sent(&place), sent(&whole));
        match retention.per_session {
            // Requests that were deleted do not come back.
            Some(_) => assert_eq!(found, expected[expected.len() - 1..]),
            None => assert_eq!(found, expected),
        }
    }
}

#[test]
fn a_deleted_session_is_imported_again_when_its_file_grows() {
    let place = Place::new();
    let mut all = beginning("t1");
    let path = place.file("rollout-1.jsonl", rows(&all));
    place.import("codex", &path);
    place.store.delete_session("codex:t1").unwrap();
    let unchanged = place.import("codex", &path);
    assert_eq!((unchanged.unchanged, place.sessions().as_str()), (1, ""));
    all.extend([
        event("task_started"),
        said("user", "Paint her red."),
        said("assistant", "Painted."),
    ]);
    std::fs::write(&path, rows(&all)).unwrap();
    let report = place.import("codex", &path);
    assert_eq!((report.counts.sessions, report.counts.turns), (1, 3));
    let whole = Place::new();
    let path = whole.file("rollout-1.jsonl", rows(&all));
    whole.import("codex", &path);
    assert_eq!(place.sessions(), whole.sessions());
    assert_eq!(sent(&place), sent(&whole));
}

#[test]
fn a_packed_rollout_is_the_same_session() {
    let place = Place::new();
    let text = rows(&beginning("t1"));
    let path = place.file("sessions/2026/02/02/rollout-1.jsonl", &text);
    place.import("codex", &path);
    let before = place.sessions();
    std::fs::remove_file(path).unwrap();
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let packed = ruzstd::encoding::compress_to_vec(text.as_bytes(), level);
    let path = place.file("archived_sessions/rollout-1.jsonl.zst", packed);
    let report = place.import("codex", &path);
    assert!(report.counts.is_nothing_new(), "{:?}", report.counts);
    assert_eq!(place.sessions(), before);
    let fresh = Place::new();
    fresh.import("codex", &path);
    assert_eq!(fresh.sessions(), before);
}

#[test]
fn a_fork_shares_turns_and_a_sub_agent_has_a_parent() {
    let place = Place::new();
    let first = place.file("rollout-1.jsonl", rows(&beginning("t1")));
    place.import("codex", &first);
    let mut fork = beginning("t2");
    fork[0].1["forked_from_id"] = json!("t1");
    fork.extend([
        event("task_started"),
        said("user", "Sell her."),
        said("assistant", "Sold."),
    ]);
    let fork = place.file("rollout-2.jsonl", rows(&fork));
    let report = place.import("codex", &fork);
    assert_eq!((report.counts.turns, report.counts.sessions), (1, 1));
    let session = place.store.session("codex:t2").unwrap();
    assert_eq!(session.turns, 3);
    assert_eq!(session.parent_session.as_deref(), Some("codex:t1"));
    let mut agent = vec![meta("t3")];
    agent[0].1["source"] =
        json!({"subagent": {"thread_spawn": {"parent_thread_id": "t1", "depth": 1}}});
    agent.extend([said("user", "Count."), said("assistant", "One.")]);
    let agent = place.file("rollout-3.jsonl", rows(&agent));
    place.import("codex", &agent);
    let session = place.store.session("codex:t3").unwrap();
    assert_eq!(session.parent_session.as_deref(), Some("codex:t1"));
}

#[test]
fn a_growing_rollout_gives_what_one_import_gives() {
    let mut all = beginning("t1");
    all.extend([
        event("task_started"),
        said("user", "Paint her red."),
        said("assistant", "Painted."),
        usage(130),
        (
            "event_msg",
            json!({"type": "thread_rolled_back", "num_turns": 1}),
        ),
        ("compacted", json!({"message": "Anna is here."})),
        event("task_started"),
        said("user", "And now?"),
        said("assistant", "She sails."),
        usage(60),
    ]);
    let text = rows(&all);
    let whole = Place::new();
    let path = whole.file("rollout-1.jsonl", &text);
    whole.import("codex", &path);
    let place = Place::new();
    let path = place.file("rollout-1.jsonl", "");
    for (end, _) in text.match_indices('\n') {
        std::fs::write(&path, &text[..=end]).unwrap();
        place.import("codex", &path);
    }
    assert_eq!(place.sessions(), whole.sessions());
    assert_eq!(sent(&place), sent(&whole));
    let head = |place: &Place| place.store.session("codex:t1").unwrap().head;
    assert_eq!(head(&place), head(&whole));
    // A rollout that is rewritten keeps the imported turns.
    let other = text.replace("She sails.", "She sank.");
    std::fs::write(&path, other).unwrap();
    let report = place.import("codex", &path);
    assert_eq!(report.counts.turns, 1);
    assert!(place.sessions().contains("She sank."));
}
