//! Imports of Claude Code's files.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::PathBuf;

use contexture_import::Options;
use contexture_store::{Imports, Ledger, Retention, Session, Upkeep};
use serde_json::{Value, json};
use support::{Place, assert_text, fixture, options};

const SESSION: &str = "11111111-1111-4111-8111-111111111111";
const MAIN: &str = "claude-code:11111111-1111-4111-8111-111111111111";
const FORK: &str = "claude-code:22222222-2222-4222-8222-222222222222";

/// The path of a fixture, from that of the project.
fn file(name: &str) -> PathBuf {
    fixture("claude-code/projects/-home-ana-boats").join(name)
}

fn main_file() -> PathBuf {
    file(&format!("{SESSION}.jsonl"))
}

/// Imports the session, its sub-agent and the fork of it.
fn import_all(place: &Place) -> contexture_import::Counts {
    let mut counts = contexture_import::Counts::default();
    for path in [
        main_file(),
        file(&format!("{SESSION}/subagents/agent-c3d4.jsonl")),
        file("22222222-2222-4222-8222-222222222222.jsonl"),
    ] {
        let report = place.import("claude-code", &path);
        assert!(report.files.iter().all(|file| file.error.is_none()));
        counts.add(&report.counts);
    }
    counts
}

#[test]
fn every_kind_of_row_is_imported() {
    let place = Place::new();
    let counts = import_all(&place);
    assert_text(
        &place.sessions(),
        r#"
        claude-code:11111111-1111-4111-8111-111111111111
          task: Which boats are in the harbour?
          1 claude-opus-5-5 stop tool_use 1110+12 (1000 cached) request
            user: Which boats are in the harbour?
            system: <system-reminder>|The harbour is Kiel.|</system-reminder>
            assistant: (Two lists are needed.)
            assistant: Bash {"command":"ls piers"} as toolu_1
            assistant: Bash {"command":"ls docks"} as toolu_2
          2 claude-opus-5-5 stop end_turn 1110+12 (1000 cached) request
            tool: toolu_1 -> Anna|Brise
            tool: toolu_2 -> Carla
            assistant: Anna, Brise and Carla.
          3 claude-opus-5-5 stop end_turn 1110+12 (1000 cached) request
            user: How long is Brise?
            assistant: Nine metres.
          4 stop error 0+0 (0 cached) error: API Error: overloaded
            user: And Carla?
            assistant: API Error: overloaded
          = The boats are Anna, Brise and Carla. (manual, 1122 -> 300, keeps turns)
          5 claude-opus-5-5 stop end_turn 1110+12 (1000 cached) request
            user: Which one is red?
            assistant: Carla is red.
          6 pending
            user: Thanks, and

        claude-code:11111111-1111-4111-8111-111111111111:agent-a1b2
          task: Count the sails.
          from: claude-code:11111111-1111-4111-8111-111111111111
          1 claude-opus-5-5 stop end_turn 1110+12 (1000 cached)
            user: Count the sails.
            assistant: Four sails.

        claude-code:11111111-1111-4111-8111-111111111111:agent-c3d4
          task: Measure the mast.
          from: claude-code:11111111-1111-4111-8111-111111111111
          1 claude-opus-5-5 stop tool_use 1110+12 (1000 cached)
            user: Measure the mast.
            assistant: Bash {"command":"measure"} as toolu_m
          2 claude-opus-5-5 stop end_turn 1110+12 (1000 cached)
            tool: toolu_m -> 12 m
            assistant: The mast is 12 m high.

        claude-code:22222222-2222-4222-8222-222222222222
          task: Which boats are in the harbour?
          from: claude-code:11111111-1111-4111-8111-111111111111
          1 claude-opus-5-5 stop tool_use 1110+12 (1000 cached) request
            user: Which boats are in the harbour?
            system: <system-reminder>|The harbour is Kiel.|</system-reminder>
            assistant: (Two lists are needed.)
            assistant: Bash {"command":"ls piers"} as toolu_1
            assistant: Bash {"command":"ls docks"} as toolu_2
          2 claude-opus-5-5 stop end_turn 1110+12 (1000 cached) request
            tool: toolu_1 -> Anna|Brise
            tool: toolu_2 -> Carla
            assistant: Anna, Brise and Carla.
          3 claude-opus-5-5 stop end_turn 1110+12 (1000 cached) request
            user: Which pier is free?
            assistant: Pier four.
        "#,
    );
    // Beside the turns above: the first answer about Brise, which was rewound,
    // and the question that was taken back.
    assert_eq!(counts.turns, 6 + 1 + 2 + 1 + 2);
    assert_eq!((counts.sessions, counts.compactions), (4, 1));
    // The question that was answered twice was one request.
    assert_eq!(counts.requests, 5);
    assert_eq!(counts.incomplete_requests, 0);
    assert_eq!(counts.digest_mismatches, 0);
    // A row of an unknown type, and one that is not JSON, are kept.
    assert_eq!(counts.unknown, 2);
    let name = std::path::absolute(main_file()).unwrap();
    let name = name.to_string_lossy();
    let rows = place.store.import_rows("claude-code", &name, 9).unwrap();
    assert!(rows[0].raw.contains("weather-report"), "{rows:?}");
    assert_eq!(rows[1].raw, "not json at all {");
    // A fork shares the turns of its origin.
    let session = |label| place.store.session(label).unwrap();
    let first = |label| place.turns(&session(label))[1].id;
    assert_eq!(first(MAIN), first(FORK));
}

#[test]
fn a_rewind_is_a_branch() {
    let place = Place::new();
    import_all(&place);
    let moves = place.store.head_moves(MAIN, 100).unwrap();
    let reasons: Vec<&str> = moves.iter().rev().map(|it| it.reason.as_str()).collect();
    assert_eq!(reasons, ["created", "imported", "rewound", "imported"]);
    let left = moves[1].from.unwrap();
    let left = place.store.turns(&[left], "").unwrap();
    let shown = support::show_turn(&left[0]);
    assert!(shown.contains("Brise is nine metres long."), "{shown}");
}

#[test]
fn requests_are_rebuilt_as_they_were_sent() {
    let place = Place::new();
    import_all(&place);
    let requests = place.requests(MAIN);
    assert_eq!(requests.len(), 4);
    let mark = json!({"type": "ephemeral"});
    let first = json!({"role": "user", "content": [
        {"type": "text", "text": "<system-reminder>\nThe harbour is Kiel.\n</system-reminder>"},
        {"type": "text", "text": "Which boats are in the harbour?"},
    ]});
    let answer = json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "Two lists are needed.", "signature": "c2ln"},
        {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls piers"}},
        {"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {"command": "ls docks"}},
    ]});
    let results = json!({"role": "user", "content": [
        {"tool_use_id": "toolu_1", "type": "tool_result", "content": "Anna\nBrise",
         "is_error": false, "cache_control": mark},
        {"tool_use_id": "toolu_2", "type": "tool_result",
         "content": [{"type": "text", "text": "Carla"}]},
    ]});
    let body = |messages: Value| {
        json!({
            "model": "claude-opus-5-5",
            "messages": messages,
            "system": [
                {"type": "text", "text": "You look after boats."},
                {"type": "text", "text": "Be brief.", "cache_control": mark},
            ],
            "tools": [{"name": "Bash", "description": "Runs a command.", "input_schema":
                {"type": "object", "properties": {"command": {"type": "string"}}}}],
            "max_tokens": 32000,
            "thinking": {"type": "adaptive"},
        })
    };
    // A text is a block where it has a mark.
    let marked = json!({"role": "system", "content":
        [{"type": "text", "text": "The time is ten.", "cache_control": mark}]});
    assert_eq!(requests[0].1, body(json!([first, marked])));
    let plain = json!({"role": "system", "content": "The time is ten."});
    assert_eq!(requests[1].1, body(json!([first, plain, answer, results])));
    assert_eq!(requests[2].1["messages"].as_array().unwrap().len(), 6);
    let after = json!([
        {"role": "user", "content": "The boats are Anna, Brise and Carla."},
        {"role": "user", "content":
            [{"type": "text", "text": "Which one is red?", "cache_control": mark}]},
    ]);
    assert_eq!(requests[3].1, body(after));
    // The usage of a request, and its parent.
    let turns = place.turns(&place.store.session(MAIN).unwrap());
    assert_eq!(requests[1].0.tokens, 1110);
    assert_eq!(requests[1].0.parent_turn, Some(turns[0].id));
    let answered = turns[1].turn.request_hash.as_deref();
    assert_eq!(answered, Some(requests[1].0.hash.to_string().as_str()));
    let of_fork = place.requests(FORK);
    assert_eq!(of_fork[0].1["messages"].as_array().unwrap().len(), 6);
    assert_eq!(of_fork[0].1["messages"][1], plain);
}

#[test]
fn requests_with_wrong_digests_are_not_rebuilt() {
    let place = Place::new();
    let text = std::fs::read_to_string(main_file()).unwrap();
    let forged = text.replace("The time is ten.", "The time is two.");
    let path = place.file("forged.jsonl", forged);
    let report = place.import("claude-code", &path);
    assert_eq!(report.counts.digest_mismatches, 1);
    // All but the one after the compaction have that message.
    assert_eq!(
        (report.counts.requests, report.counts.incomplete_requests),
        (1, 4)
    );
    let forged = text.replace("You look after boats.", "You look after cars.");
    let path = place.file("forged-2.jsonl", forged);
    let report = place.import("claude-code", &path);
    assert_eq!(report.counts.digest_mismatches, 1);
    assert_eq!(report.counts.requests, 0);
}

#[test]
fn a_request_with_another_digest_is_counted() {
    let text = std::fs::read_to_string(main_file()).unwrap();
    // No digest of a part covers the parameters and the marks.
    for (name, from, to) in [
        ("params", "\"max_tokens\":32000", "\"max_tokens\":16000"),
        ("marks", "[\"system\",1]", "[\"system\",0]"),
    ] {
        let place = Place::new();
        let path = place.file(&format!("{name}.jsonl"), text.replace(from, to));
        let report = place.import("claude-code", &path);
        // The first four requests of a file are checked.
        assert_eq!(report.counts.digest_mismatches, 4, "{name}");
        assert_eq!(report.counts.incomplete_requests, 0, "{name}");
        assert_eq!(report.counts.requests, 4, "{name}");
    }
}

#[test]
fn a_request_that_is_there_twice_is_whole() {
    let text = std::fs::read_to_string(main_file()).unwrap();
    let name = "session.jsonl";
    let once = Place::new();
    once.import("claude-code", &once.file(name, &text));
    let twice = Place::new();
    let is_request = |line: &str| line.contains("\"type\":\"api-request\"");
    let doubled: String = (text.lines())
        .map(|line| format!("{line}\n").repeat(1 + usize::from(is_request(line))))
        .collect();
    assert!(doubled.len() > text.len());
    let report = twice.import("claude-code", &twice.file(name, doubled));
    assert_eq!(report.counts.incomplete_requests, 0);
    assert_eq!(sent(&twice), sent(&once));
}

#[test]
fn a_second_import_adds_nothing() {
    let place = Place::new();
    let directory = place.copy("claude-code");
    let first = place.import("claude-code", &directory);
    assert!(!first.counts.is_nothing_new());
    let before = place.sessions();
    let again = place.import("claude-code", &directory);
    assert!(again.counts.is_nothing_new());
    assert_eq!((again.files.len(), again.unchanged), (0, 3));
    // A file that is written again with the same content is read, and nothing
    // is new.
    let path = directory.join(format!("projects/-home-ana-boats/{SESSION}.jsonl"));
    let text = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, text).unwrap();
    let again = place.import("claude-code", &directory);
    assert!(again.counts.is_nothing_new(), "{:?}", again.counts);
    assert_eq!(again.files.len(), 1);
    assert_eq!(place.sessions(), before);
}

fn ids(place: &Place, session: &Session) -> Vec<String> {
    let turns = place.turns(session);
    turns.iter().map(|turn| turn.id.to_string()).collect()
}

/// However a file grows between imports, the result is that of one import.
#[test]
fn a_growing_file_gives_what_one_import_gives() {
    let whole = Place::new();
    let text = std::fs::read_to_string(main_file()).unwrap();
    let path = whole.file("a/session.jsonl", &text);
    whole.import("claude-code", &path);
    let expected = whole.sessions();
    for with_tail in [true, false] {
        for step in [1, 3, 7] {
            let place = Place::new();
            let path = place.file("a/session.jsonl", "");
            let mut ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
            // Also in the middle of rows.
            let middles: Vec<usize> = ends.iter().map(|end| end - 5).collect();
            ends.extend(middles);
            ends.sort_unstable();
            for end in ends.iter().step_by(step).chain([&text.len()]) {
                let mut end = *end;
                while !text.is_char_boundary(end) {
                    end += 1;
                }
                std::fs::write(&path, &text[..end]).unwrap();
                let growing = Options {
                    with_tail,
                    ..options()
                };
                place.import_with("claude-code", &path, growing);
            }
            // The last question has no answer: it is recorded at the end.
            place.import("claude-code", &path);
            std::fs::write(&path, &text).unwrap();
            let file = std::fs::File::options().append(true).open(&path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH)
                .unwrap();
            place.import("claude-code", &path);
            assert_eq!(place.sessions(), expected, "step {step}, tail {with_tail}");
            for session in whole.store.sessions(None, 9).unwrap() {
                let other = place.store.session(&session.label).unwrap();
                assert_eq!(ids(&whole, &session), ids(&place, &other));
            }
            assert_eq!(sent(&place), sent(&whole));
        }
    }
}

/// Returns the bodies of all requests, sorted.
fn sent(place: &Place) -> Vec<String> {
    let requests = place.requests("claude-code:session").into_iter();
    let mut bodies: Vec<String> = requests.map(|(_, body)| body.to_string()).collect();
    bodies.sort();
    bodies
}

/// A collection deletes content that no request has. The next request of a
/// growing file still has it.
#[test]
fn a_collection_between_imports_loses_nothing() {
    let text = std::fs::read_to_string(main_file()).unwrap();
    let whole = Place::new();
    let path = whole.file("a/session.jsonl", &text);
    whole.import("claude-code", &path);
    let expected = sent(&whole);
    let latest_only = Retention {
        per_session: Some(1),
        ..Retention::default()
    };
    for retention in [Retention::default(), latest_only] {
        let place = Place::new();
        let path = place.file("a/session.jsonl", "");
        for (end, _) in text.match_indices('\n') {
            std::fs::write(&path, &text[..=end]).unwrap();
            let report = place.import("claude-code", &path);
            assert_eq!(report.counts.incomplete_requests, 0, "{end}");
            place.store.collect(&retention, false).unwrap();
        }
        assert_eq!(place.sessions(), whole.sessions());
        let found = sent(&place);
        match retention.per_session {
            Some(_) => {
                assert_eq!(found.len(), 1);
                assert!(found.iter().all(|body| expected.contains(body)));
            }
            None => assert_eq!(found, expected),
        }
    }
}

#[test]
fn a_deleted_session_is_imported_again_when_its_file_grows() {
    let text = std::fs::read_to_string(main_file()).unwrap();
    let whole = Place::new();
    let path = whole.file("a/session.jsonl", &text);
    whole.import("claude-code", &path);
    let middle = text[..text.len() / 2].rfind('\n').unwrap();
    for session in whole.store.sessions(None, 9).unwrap() {
        let place = Place::new();
        let path = place.file("a/session.jsonl", &text[..=middle]);
        place.import("claude-code", &path);
        // A session or a sub-agent that the first half does not have.
        if place.store.delete_session(&session.label).is_err() {
            continue;
        }
        std::fs::write(&path, &text).unwrap();
        place.import("claude-code", &path);
        assert_eq!(place.sessions(), whole.sessions(), "{}", session.label);
        assert_eq!(sent(&place), sent(&whole));
    }
}

#[test]
fn a_growing_file_costs_what_is_new() {
    let place = Place::new();
    let text = std::fs::read_to_string(main_file()).unwrap();
    let path = place.file("s.jsonl", &text);
    place.import("claude-code", &path);
    let more = r#"{"type":"assistant","uuid":"00000000-0000-4000-8000-000000000045","parentUuid":"00000000-0000-4000-8000-000000000044","timestamp":"2026-02-02T11:00:00Z","message":{"id":"msg_5","role":"assistant","model":"claude-opus-5-5","content":[{"type":"text","text":"You are welcome."}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":3}}}
"#;
    std::fs::write(&path, text.clone() + more).unwrap();
    let report = place.import("claude-code", &path);
    assert_eq!((report.counts.turns, report.counts.sessions), (1, 0));
    let session = place.store.session("claude-code:s").unwrap();
    let turns = place.turns(&session);
    // The question that was recorded without its answer is in no path.
    assert_eq!(turns.len(), 7);
    let last = support::show_turn(&turns[6]);
    assert!(
        last.contains("user: Thanks, and\n    assistant: You are welcome."),
        "{last}"
    );
    let cursor = place.store.import_cursors().unwrap().remove(0);
    assert!(cursor.offset > text.len() as u64 - 600);
}

#[test]
fn a_dry_run_writes_nothing() {
    let place = Place::new();
    let dry = Options {
        dry_run: true,
        ..options()
    };
    let report = place.import_with("claude-code", &main_file(), dry);
    assert_eq!(report.counts.sessions, 2);
    assert_eq!((report.counts.turns, report.counts.requests), (9, 5));
    assert_eq!(place.sessions(), "");
    assert!(place.store.import_cursors().unwrap().is_empty());
}

#[test]
fn a_dry_run_counts_only_what_is_new() {
    let place = Place::new();
    let text = std::fs::read_to_string(main_file()).unwrap();
    let path = place.file("s.jsonl", &text);
    place.import("claude-code", &path);
    let more = r#"{"type":"assistant","uuid":"00000000-0000-4000-8000-000000000045","parentUuid":"00000000-0000-4000-8000-000000000044","timestamp":"2026-02-02T11:00:00Z","message":{"id":"msg_5","role":"assistant","content":[{"type":"text","text":"You are welcome."}],"stop_reason":"end_turn"}}
"#;
    std::fs::write(&path, text + more).unwrap();
    let dry = Options {
        dry_run: true,
        ..options()
    };
    let expected = place.import_with("claude-code", &path, dry).counts;
    assert_eq!(expected, place.import("claude-code", &path).counts);
    assert_eq!(expected.turns, 1);
}

/// A question and its answer. Both ids begin with `name`.
fn exchange(name: &str, parent: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"{name}-q","parentUuid":{parent},"timestamp":"2026-02-02T10:00:00Z","message":{{"role":"user","content":"{name}?"}}}}
{{"type":"assistant","uuid":"{name}-a","parentUuid":"{name}-q","timestamp":"2026-02-02T10:00:01Z","message":{{"id":"m-{name}","role":"assistant","content":[{{"type":"text","text":"{name}."}}],"stop_reason":"end_turn"}}}}
"#
    )
}

/// Returns the label, the parent and the questions of each session.
fn questions(place: &Place) -> Vec<(String, Option<String>, Vec<String>)> {
    let sessions = place.store.sessions(None, 100).unwrap().into_iter();
    let described = sessions.map(|session| {
        let turns = place.turns(&session);
        let said = turns.iter().map(|turn| {
            let shown = support::show_turn(turn);
            let said = shown.split_once("user: ").unwrap().1;
            said.split_once('?').unwrap().0.to_owned()
        });
        let said = said.collect();
        (session.label, session.parent_session, said)
    });
    described.collect()
}

#[test]
fn two_files_with_one_session_id_and_other_messages_are_two_sessions() {
    let place = Place::new();
    let one = place.file("one/s.jsonl", exchange("a", "null"));
    let two = place.file("two/s.jsonl", exchange("b", "null"));
    let copy = place.file("three/s.jsonl", exchange("a", "null"));
    for path in [&one, &two, &copy] {
        assert_eq!(place.import("claude-code", path).files[0].warnings, [""; 0]);
    }
    // A copy is no session.
    let expected = [
        ("claude-code:s", None, ["a"]),
        ("claude-code:s@two", None, ["b"]),
    ];
    let expected = expected
        .map(|(label, parent, said)| (label.to_owned(), parent, said.map(str::to_owned).to_vec()));
    assert_eq!(questions(&place), expected);
}

/// Claude Code writes a second file with the same id when a session is resumed in
/// another directory, and both can go on.
#[test]
fn a_session_that_is_resumed_in_another_directory_is_a_fork() {
    let shared = exchange("a", "null") + &exchange("b", "\"a-a\"");
    for order in [["home", "tree"], ["tree", "home"]] {
        let place = Place::new();
        let mut texts = [shared.clone(), shared.clone() + &exchange("t", "\"b-a\"")];
        let [home, tree] = ["home", "tree"].map(|name| format!("{name}/s.jsonl"));
        let mut paths = Vec::new();
        for (name, text) in [&home, &tree].into_iter().zip(&texts) {
            paths.push(place.file(name, text));
            // The times of their creation differ.
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let path = |name: &str| &paths[usize::from(name == "tree")];
        for name in order {
            place.import("claude-code", path(name));
        }
        // The first file goes on, too, and then the second.
        for (at, name, parent) in [(0, "h", "b-a"), (1, "u", "t-a"), (0, "i", "h-a")] {
            texts[at] += &exchange(name, &format!("\"{parent}\""));
            std::fs::write(&paths[at], &texts[at]).unwrap();
            place.import("claude-code", &paths[at]);
            place.import("claude-code", &paths[1 - at]);
        }
        let second = format!("claude-code:s@{}", order[1]);
        let all = questions(&place);
        let said = |label: &str| {
            let found = all.iter().find(|(one, ..)| one == label);
            found.map(|(_, _, said)| said.join(" "))
        };
        let label = |name: &str| match name == order[0] {
            true => "claude-code:s".to_owned(),
            false => second.clone(),
        };
        assert_eq!(all.len(), 2, "{all:?}");
        assert_eq!(said(&label("home")).as_deref(), Some("a b h i"), "{all:?}");
        assert_eq!(said(&label("tree")).as_deref(), Some("a b t u"), "{all:?}");
        // The older file is the origin.
        let of_tree = all.iter().find(|(one, ..)| *one == label("tree")).unwrap();
        assert_eq!(of_tree.1, Some(label("home")), "{all:?}");
    }
}

#[test]
fn a_deleted_session_is_imported_again_from_a_copy() {
    let place = Place::new();
    let path = place.file("home/s.jsonl", exchange("a", "null"));
    place.import("claude-code", &path);
    place.store.delete_session("claude-code:s").unwrap();
    // The file is shorter, so that it is read from its beginning.
    let shorter = exchange("a", "null").replace("a.", "");
    std::fs::write(&path, &shorter).unwrap();
    let copy = place.file("home/t.jsonl", &shorter);
    for path in [&path, &copy] {
        let report = place.import("claude-code", path);
        assert_eq!(report.files[0].error, None);
    }
    let labels: Vec<String> = questions(&place).into_iter().map(|one| one.0).collect();
    assert_eq!(labels, ["claude-code:s", "claude-code:t"]);
}

#[test]
fn an_earlier_copy_does_not_move_the_head_back() {
    let place = Place::new();
    let begun = exchange("a", "null");
    let text = begun.clone() + &exchange("b", "\"a-a\"");
    place.import("claude-code", &place.file("home/s.jsonl", &text));
    let report = place.import("claude-code", &place.file("backup/s.jsonl", &begun));
    assert_eq!((report.counts.turns, report.counts.sessions), (0, 0));
    assert_eq!(questions(&place)[0].2, ["a", "b"]);
    assert_eq!(questions(&place).len(), 1);
}

#[test]
fn old_files_can_be_left_out() {
    let place = Place::new();
    let path = place.copy("claude-code");
    let late = Options {
        since: Some("2100-01-01T00:00:00Z".parse().unwrap()),
        ..options()
    };
    let report = place.import_with("claude-code", &path, late);
    assert!(report.files.is_empty());
    assert_eq!(place.sessions(), "");
}

#[test]
fn a_watched_file_is_followed() {
    let place = Place::new();
    let text = std::fs::read_to_string(main_file()).unwrap();
    let rows: Vec<&str> = text.split_inclusive('\n').collect();
    let path = place.file("s.jsonl", rows[..10].concat());
    let following = Options {
        with_tail: false,
        settle: std::time::Duration::from_secs(3600),
        ..options()
    };
    let mut import = contexture_import::Import::new(&place.store, following);
    let format = contexture_import::format("claude-code").unwrap();
    let mut turns = Vec::new();
    let mut end = 10;
    contexture_import::watch(
        &mut import,
        &[format],
        Some(&path),
        &contexture_import::Environment::default(),
        std::time::Duration::from_millis(5),
        |report| {
            turns.push(report.counts.turns);
            end += 6;
            std::fs::write(&path, rows[..rows.len().min(end)].concat()).unwrap();
            end < rows.len() + 12
        },
    )
    .unwrap();
    // Every answer that another row of its session follows is recorded while the
    // file grows.
    assert_eq!(turns.iter().sum::<u64>(), 7, "{turns:?}");
    assert!(!place.sessions().contains("Four sails."));
    // The answer of the sub-agent has a reason for its end, and the file has been
    // unchanged for some seconds.
    std::fs::write(&path, text.clone() + "\n").unwrap();
    let file = std::fs::File::options().append(true).open(&path).unwrap();
    let earlier = std::time::SystemTime::now() - std::time::Duration::from_secs(10);
    file.set_modified(earlier).unwrap();
    let report = import.path(format, &path).unwrap();
    assert_eq!(report.counts.turns, 1);
    assert!(place.sessions().contains("Four sails."));
    assert!(place.sessions().contains("Carla is red."));
    assert!(!place.sessions().contains("Thanks, and"));
}
