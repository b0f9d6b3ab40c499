//! Files that are damaged, strange or hostile.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::Write as _;

use contexture_import::{Import, Options, format, formats};
use contexture_store::Ledger;
use serde_json::json;
use support::{Place, assert_text, options};

/// A row of Claude Code.
fn row(kind: &str, uuid: &str, parent: Option<&str>, text: &str) -> String {
    let message = match kind {
        "assistant" => json!({"id": format!("msg_{uuid}"), "role": "assistant", "model": "m",
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1}}),
        _ => json!({"role": "user", "content": text}),
    };
    let row = json!({"type": kind, "uuid": uuid, "parentUuid": parent, "message": message,
        "timestamp": "2026-02-02T10:00:00Z"});
    format!("{row}\n")
}

fn conversation() -> String {
    row("user", "a", None, "one?")
        + &row("assistant", "b", Some("a"), "One.")
        + &row("user", "c", Some("b"), "two?")
        + &row("assistant", "d", Some("c"), "Two.")
}

const IMPORTED: &str = "
    claude-code:s
      task: one?
      1 m stop end_turn 1+1 (0 cached)
        user: one?
        assistant: One.
      2 m stop end_turn 1+1 (0 cached)
        user: two?
        assistant: Two.
    ";

#[test]
fn a_truncated_last_line_waits_for_the_rest() {
    let place = Place::new();
    let text = conversation();
    let path = place.file("s.jsonl", &text[..text.len() - 20]);
    let report = place.import("claude-code", &path);
    assert_eq!(report.counts.unknown, 0);
    std::fs::write(&path, &text).unwrap();
    place.import("claude-code", &path);
    assert_text(&place.sessions(), IMPORTED);
}

#[test]
fn a_request_that_keeps_more_messages_than_there_are_is_incomplete() {
    let place = Place::new();
    let mut text = conversation();
    for keep in [1, 1_000_000_000_000, u64::MAX] {
        let row = json!({"type": "api-request", "id": "r", "base": "q", "keep": keep, "tail": [],
            "timestamp": "2026-02-02T10:00:00Z"});
        text += &format!("{row}\n");
    }
    let path = place.file("s.jsonl", text);
    let report = place.import("claude-code", &path);
    assert_eq!(report.counts.incomplete_requests, 3);
    assert_text(&place.sessions(), IMPORTED);
}

#[test]
fn rows_out_of_order_lose_nothing() {
    let place = Place::new();
    let text = row("assistant", "b", Some("a"), "One.")
        + &row("user", "a", None, "one?")
        + &row("assistant", "d", Some("c"), "Two.")
        + &row("user", "c", Some("b"), "two?");
    let path = place.file("s.jsonl", text);
    place.import("claude-code", &path);
    assert_text(&place.sessions(), IMPORTED);
    // A parent that comes after its answer is complete is a turn of its own.
    let text = row("assistant", "k", Some("j"), "One.")
        + &row("assistant", "l", Some("k"), "Two.")
        + &row("user", "j", None, "one?");
    let path = place.file("t.jsonl", text);
    let report = place.import("claude-code", &path);
    assert_eq!((report.counts.turns, report.counts.skipped), (3, 0));
}

#[test]
fn two_files_with_the_same_uuids_share_their_turns() {
    let place = Place::new();
    let text = conversation();
    let first = place.file("s.jsonl", &text);
    let second = place.file("t.jsonl", text + &row("user", "e", Some("d"), "three?"));
    let report = place.import("claude-code", &first);
    assert_eq!(report.counts.turns, 2);
    let report = place.import("claude-code", &second);
    assert_eq!((report.counts.turns, report.counts.sessions), (1, 1));
    let session = place.store.session("claude-code:t").unwrap();
    assert_eq!(session.turns, 3);
    assert_eq!(session.parent_session.as_deref(), Some("claude-code:s"));
}

/// Both files are written in one batch: the second one finds the turns of the
/// first.
#[test]
fn two_files_with_the_same_uuids_in_one_directory_share_their_turns() {
    let place = Place::new();
    let text = conversation();
    // A sub-directory comes after the files above it.
    place.file("all/s.jsonl", &text);
    place.file(
        "all/later/t.jsonl",
        text + &row("user", "e", Some("d"), "three?"),
    );
    let report = place.import("claude-code", &place.directory.path().join("all"));
    let counts: Vec<(u64, u64)> = (report.files.iter())
        .map(|file| (file.counts.sessions, file.counts.turns))
        .collect();
    assert_eq!(counts, [(1, 2), (1, 1)]);
    assert_eq!((report.counts.sessions, report.counts.turns), (2, 3));
    let session = place.store.session("claude-code:t").unwrap();
    assert_eq!(session.turns, 3);
    assert_eq!(session.parent_session.as_deref(), Some("claude-code:s"));
    let again = place.import("claude-code", &place.directory.path().join("all"));
    assert_eq!((again.unchanged, again.files.len()), (2, 0));
}

#[test]
fn a_rollout_that_shrinks_is_read_anew_without_doubles() {
    let place = Place::new();
    let row = |kind: &str, payload: serde_json::Value| {
        let row = json!({"timestamp": "2026-02-02T10:00:00Z", "type": kind, "payload": payload});
        format!("{row}\n")
    };
    let said = |role: &str, kind: &str, text: &str| {
        let content = json!([{"type": kind, "text": text}]);
        row(
            "response_item",
            json!({"type": "message", "role": role, "content": content}),
        )
    };
    let half = row("session_meta", json!({"id": "r"}))
        + &said("user", "input_text", "one?")
        + &said("assistant", "output_text", "One.");
    let whole = half.clone()
        + &said("user", "input_text", "two?")
        + &said("assistant", "output_text", "Two.");
    let path = place.file("rollout-r.jsonl", &whole);
    assert_eq!(place.import("codex", &path).counts.turns, 2);
    for text in [&half, &whole] {
        std::fs::write(&path, text).unwrap();
        let report = place.import("codex", &path);
        assert!(report.counts.is_nothing_new(), "{:?}", report.counts);
    }
    assert_eq!(place.store.session("codex:r").unwrap().turns, 2);
}

#[test]
fn a_file_that_shrinks_is_read_anew_without_doubles() {
    let place = Place::new();
    let text = conversation();
    let path = place.file("s.jsonl", &text);
    place.import("claude-code", &path);
    let half = text.match_indices('\n').nth(1).unwrap().0 + 1;
    std::fs::write(&path, &text[..half]).unwrap();
    let report = place.import("claude-code", &path);
    assert!(report.counts.is_nothing_new(), "{:?}", report.counts);
    assert_eq!(place.store.session("claude-code:s").unwrap().turns, 1);
    // The imported turns are still there, and are found again.
    std::fs::write(&path, &text).unwrap();
    let report = place.import("claude-code", &path);
    assert!(report.counts.is_nothing_new(), "{:?}", report.counts);
    assert_text(&place.sessions(), IMPORTED);
}

#[test]
fn a_rewritten_file_keeps_what_was_imported() {
    let place = Place::new();
    let path = place.file("s.jsonl", conversation());
    place.import("claude-code", &path);
    let other = row("user", "a", None, "one?")
        + &row("assistant", "b", Some("a"), "One.")
        + &row("user", "x", Some("b"), "other?")
        + &row("assistant", "y", Some("x"), "Other.");
    std::fs::write(&path, other).unwrap();
    let report = place.import("claude-code", &path);
    assert_eq!(report.counts.turns, 1);
    assert!(place.sessions().contains("Other."));
}

#[test]
fn binary_junk_is_counted() {
    let place = Place::new();
    let junk: Vec<u8> = (0..4096_u32).map(|i| (i * 7919 % 251) as u8).collect();
    for format in formats() {
        let name = match format.name() {
            "gemini" => "chats/session-1.jsonl",
            "codex" => "rollout-1.jsonl",
            "opencode" => "opencode.db",
            _ => "junk",
        };
        let path = place.file(&format!("{}/{name}", format.name()), &junk);
        let report = Import::new(&place.store, options())
            .path(*format, &path)
            .unwrap();
        assert!(report.counts.is_nothing_new(), "{}", format.name());
    }
    let packed = place.file("rollout-2.jsonl.zst", &junk);
    let report = place.import("codex", &packed);
    let error = report.files[0].error.as_deref().unwrap();
    assert!(error.contains("is not a zstd file"), "{error}");
    // Junk between rows does not hide them.
    let mut text = junk.clone();
    text.push(b'\n');
    text.extend(conversation().into_bytes());
    let path = place.file("s.jsonl", text);
    assert!(place.import("claude-code", &path).counts.unknown > 0);
    assert_text(&place.sessions(), IMPORTED);
}

#[test]
fn a_line_over_the_limit_is_skipped_with_a_count() {
    let place = Place::new();
    let long = "x".repeat(3 << 20);
    let text = format!("{}{}", row("user", "z", None, &long), conversation());
    let path = place.file("s.jsonl", text);
    let short = Options {
        max_line: 1 << 20,
        ..options()
    };
    let report = place.import_with("claude-code", &path, short);
    assert_eq!(report.counts.too_long, 1);
    assert_text(&place.sessions(), IMPORTED);
}

/// A line of 500 MB: written sparsely, read in pieces, and never held.
#[test]
fn a_line_of_500_mb_is_skipped() {
    let place = Place::new();
    let path = place.file("s.jsonl", conversation());
    let file = std::fs::File::options().append(true).open(&path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length + (500 << 20)).unwrap();
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    file.write_all(b"\n").unwrap();
    file.write_all(row("user", "e", Some("d"), "three?").as_bytes())
        .unwrap();
    drop(file);
    let report = place.import("claude-code", &path);
    assert_eq!((report.counts.too_long, report.counts.turns), (1, 3));
}

#[test]
fn a_message_over_the_stores_limit_is_cut() {
    let place = Place::new();
    let long = "y".repeat(20_000);
    let text = row("user", "a", None, &long) + &row("assistant", "b", Some("a"), "One.");
    let path = place.file("s.jsonl", text);
    let small = Options {
        max_message_bytes: 10_000,
        ..options()
    };
    place.import_with("claude-code", &path, small);
    let shown = place.sessions();
    assert!(
        shown.contains("[cut at import: 5904 of 20000 bytes]"),
        "{}",
        shown.len()
    );
}

#[test]
fn unknown_versions_and_fields_are_no_obstacle() {
    let place = Place::new();
    let text = conversation().replace(
        "\"timestamp\"",
        "\"version\":\"99.0.0\",\"novelty\":{\"deep\":[1,{\"x\":null}]},\"timestamp\"",
    );
    let path = place.file("s.jsonl", text);
    place.import("claude-code", &path);
    assert_text(&place.sessions(), IMPORTED);
    // A field of another type makes a row unknown, not the file.
    let odd =
        conversation() + "{\"type\":\"user\",\"uuid\":7,\"message\":[]}\n{\"type\":3}\n[]\n7\n";
    let path = place.file(
        "u.jsonl",
        odd.replace("\"a\"", "\"f\"").replace("\"b\"", "\"g\""),
    );
    assert_eq!(place.import("claude-code", &path).counts.unknown, 4);
}

#[test]
fn cycles_of_parents_end() {
    let place = Place::new();
    let text = row("user", "a", Some("c"), "one?")
        + &row("user", "b", Some("a"), "two?")
        + &row("user", "c", Some("b"), "three?")
        + &row("assistant", "d", Some("c"), "Done.")
        + &row("user", "e", Some("e"), "four?")
        + &row("assistant", "f", Some("e"), "Done again.");
    let path = place.file("s.jsonl", text);
    let report = place.import("claude-code", &path);
    assert_eq!(report.counts.turns, 2);
    let shown = place.sessions();
    for said in ["one?", "two?", "three?", "Done.", "four?", "Done again."] {
        assert!(shown.contains(said), "{said} in {shown}");
    }
}

#[test]
fn cycles_in_exported_trees_end() {
    let place = Place::new();
    let said = |parent: &str, text: &str| {
        json!({"parent": parent, "message": {"author": {"role": "user"},
            "content": {"content_type": "text", "parts": [text]}}})
    };
    let chats = json!([{"id": "c", "mapping": {
        "a": said("b", "one?"), "b": said("a", "two?"), "e": said("e", "three?")}}]);
    let path = place.file("conversations.json", chats.to_string());
    let report = place.import("chatgpt", &path);
    assert_eq!(report.counts.trees, 1);
    let loom = json!({"nodes": {"a": {"text": "one", "parentId": "b"}, "b": {"text": "two",
        "parentId": "a"}}, "current": "a"});
    let path = place.file("data.json", loom.to_string());
    let report = place.import("loomsidian", &path);
    assert_eq!(report.counts.trees, 1);
    let shown = place.trees();
    for text in ["one?", "two?", "three?", "one", "two"] {
        assert!(shown.contains(text), "{text} in {shown}");
    }
}

#[test]
fn only_the_newest_files_can_be_imported() {
    let place = Place::new();
    for (name, seconds) in [("old", 1_000), ("new", 3_000), ("middle", 2_000)] {
        let text = conversation().replace("\"a\"", &format!("\"{name}\""));
        let path = place.file(&format!("all/{name}.jsonl"), text);
        let file = std::fs::File::options().append(true).open(path).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        file.set_modified(time).unwrap();
    }
    let newest = Options {
        newest: Some(2),
        ..options()
    };
    let report = place.import_with("claude-code", &place.directory.path().join("all"), newest);
    let mut names: Vec<&str> = (report.files.iter())
        .filter_map(|file| file.file.file_stem()?.to_str())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["middle", "new"]);
}

#[test]
fn results_without_calls_and_calls_without_results_are_kept() {
    let place = Place::new();
    let result = json!({"type": "user", "uuid": "e", "parentUuid": "d", "timestamp":
        "2026-02-02T10:00:00Z", "message": {"role": "user", "content":
        [{"type": "tool_result", "tool_use_id": "nobody", "content": "a result"}]}});
    let call = json!({"type": "assistant", "uuid": "f", "parentUuid": "e", "timestamp":
        "2026-02-02T10:00:00Z", "message": {"id": "m9", "role": "assistant", "content":
        [{"type": "tool_use", "id": "c", "name": "n", "input": {}},
         {"type": "tool_use", "id": "c", "name": "n", "input": {"again": true}}]}});
    let text = format!(
        "{}{result}\n{call}\n{}",
        conversation(),
        row("user", "g", Some("f"), "stop")
    );
    let path = place.file("s.jsonl", text);
    let report = place.import("claude-code", &path);
    assert_eq!((report.counts.turns, report.counts.skipped), (4, 0));
    let shown = place.sessions();
    assert!(
        shown.contains("user: [result of call nobody]|a result"),
        "{shown}"
    );
    assert!(shown.contains("n {\"again\":true} as c~2"), "{shown}");
}

#[test]
fn a_zip_with_a_path_that_leads_out_is_refused() {
    for evil in ["../evil.json", "/etc/evil", "a/../../evil", "..\\evil"] {
        let place = Place::new();
        let path = place.directory.path().join("export.zip");
        let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
        let plain = zip::write::SimpleFileOptions::default();
        zip.start_file(evil, plain).unwrap();
        zip.write_all(b"x").unwrap();
        zip.start_file("conversations.json", plain).unwrap();
        zip.write_all(b"[]").unwrap();
        zip.finish().unwrap();
        for source in ["chatgpt", "claude"] {
            let report = place.import(source, &path);
            let error = report.files[0].error.as_deref().unwrap();
            assert!(
                error.contains("leads out of the archive"),
                "{evil}: {error}"
            );
        }
    }
}

#[test]
fn exports_that_are_not_exports_are_refused() {
    let place = Place::new();
    let cases = [
        ("chatgpt", "{}", "is not an export that can be read"),
        (
            "chatgpt",
            "[{\"uuid\":\"u\",\"chat_messages\":[]}]",
            "use the source `claude`",
        ),
        ("claude", "[{\"mapping\":{}}]", "use the source `chatgpt`"),
        (
            "claude",
            "PK\u{3}\u{4} no zip",
            "is not a zip file that can be read",
        ),
        ("loomsidian", "{}", "has neither `nodes` nor `state`"),
        ("loomsidian", "[", "is not the data of Loomsidian"),
    ];
    for (i, (source, text, expected)) in cases.into_iter().enumerate() {
        let path = place.file(&format!("{i}.json"), text);
        let report = place.import(source, &path);
        let error = report.files[0].error.as_deref().unwrap_or_default();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(error.contains(&format!("{i}.json")), "{error}");
    }
    let nowhere = place.directory.path().join("nowhere");
    let mut import = Import::new(&place.store, options());
    let missing = import.path(format("codex").unwrap(), &nowhere).unwrap_err();
    assert!(missing.to_string().contains("nowhere"), "{missing}");
}

#[test]
fn a_locked_sqlite_file_is_reported() {
    let place = Place::new();
    let path = place.directory.path().join("opencode.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(
        "CREATE TABLE session (id TEXT, parent_id TEXT, title TEXT, time_created INTEGER,
             time_updated INTEGER, revert TEXT);
         CREATE TABLE message (id TEXT, session_id TEXT, data TEXT);
         CREATE TABLE part (id TEXT, message_id TEXT, data TEXT);
         BEGIN EXCLUSIVE;",
    )
    .unwrap();
    let report = place.import("opencode", &path);
    let error = report.files[0].error.as_deref().unwrap();
    assert!(error.contains("is locked by another program"), "{error}");
    db.execute_batch("ROLLBACK").unwrap();
    let report = place.import("opencode", &path);
    assert!(report.files[0].error.is_none());
}
