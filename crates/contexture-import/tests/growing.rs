//! The law of growing files: however a file grows between imports, the result is
//! that of one import of the whole file.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use contexture_import::Options;
use contexture_store::Ledger;
use serde_json::{Value, json};
use support::{Place, fixture, options};

/// Options of an import of a file that is still growing.
fn following(with_tail: bool) -> Options {
    Options {
        settle: Duration::from_secs(3600),
        with_tail,
        ..options()
    }
}

/// Options of an import that runs once, as if all rows were written just now.
fn once() -> Options {
    Options {
        settle: Duration::from_secs(3600 * 24 * 365 * 200),
        settle_by_rows: true,
        ..options()
    }
}

/// Returns the sessions, the number of stored turns and the requests.
fn result(place: &Place) -> String {
    let mut out = place.sessions();
    let db = rusqlite::Connection::open(place.directory.path().join("contexture.db")).unwrap();
    let turns = db.query_row("SELECT count(*) FROM turns", [], |row| row.get::<_, i64>(0));
    out += &format!("{} turns are stored\n", turns.unwrap());
    for session in place.store.sessions(None, 100).unwrap() {
        let moves = place.store.head_moves(&session.label, 100).unwrap();
        let rewinds = moves.iter().filter(|one| one.reason == "rewound").count();
        out += &format!("{}: {rewinds} rewinds\n", session.label);
        for (snapshot, body) in place.requests(&session.label) {
            out += &format!("{} {} {body}\n", snapshot.created_at, snapshot.tokens);
        }
    }
    out
}

/// Imports a file after each of the cuts, and in the end as a whole.
fn grown(source: &str, name: &str, text: &str, cuts: &[usize], options: &Options) -> String {
    let place = Place::new();
    let path = place.file(name, "");
    for cut in cuts {
        std::fs::write(&path, &text[..*cut]).unwrap();
        place.import_with(source, &path, options.clone());
    }
    std::fs::write(&path, text).unwrap();
    place.import(source, &path);
    result(&place)
}

/// Checks the law for every cut into two, and for a cut after every row.
fn check(source: &str, name: &str, text: &str) {
    let whole = grown(source, name, text, &[], &following(true));
    let cuts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    for cut in &cuts {
        for options in [following(true), once()] {
            let found = grown(source, name, text, &[*cut], &options);
            assert!(found == whole, "cut at {cut}:\n{found}\n\nwhole:\n{whole}");
        }
    }
    for options in [following(true), following(false), once()] {
        let found = grown(source, name, text, &cuts, &options);
        assert!(found == whole, "row by row:\n{found}\n\nwhole:\n{whole}");
    }
    // A copy is new, and its rows are old: everything is recorded at once.
    let copied = Options {
        settle: Duration::from_secs(3600),
        ..once()
    };
    for cut in &cuts {
        let place = [options(), copied.clone()].map(|options| {
            let place = Place::new();
            let path = place.file(name, &text[..*cut]);
            let report = place.import_with(source, &path, options);
            assert_eq!(report.counts.unfinished, 0);
            result(&place)
        });
        assert_eq!(place[0], place[1], "cut at {cut}");
    }
}

/// A file of Claude Code with rows in the order in which they are added.
#[derive(Default)]
struct Transcript {
    text: String,
    rows: usize,
}

impl Transcript {
    fn row(&mut self, parent: Option<usize>, mut row: Value) -> usize {
        self.rows += 1;
        let id = |row: usize| format!("00000000-0000-4000-8000-{row:012}");
        row["uuid"] = json!(id(self.rows));
        row["parentUuid"] = json!(parent.map(id));
        row["timestamp"] = json!(format!(
            "2026-02-02T10:{:02}:{:02}Z",
            self.rows / 60,
            self.rows % 60
        ));
        self.text += &format!("{row}\n");
        self.rows
    }

    fn user(&mut self, parent: Option<usize>, content: Value) -> usize {
        let message = json!({"role": "user", "content": content});
        self.row(parent, json!({"type": "user", "message": message}))
    }

    fn result(&mut self, parent: usize, call: &str) -> usize {
        let result = json!({"type": "tool_result", "tool_use_id": call,
            "content": format!("output of {call}")});
        self.user(Some(parent), json!([result]))
    }

    fn answer(&mut self, parent: usize, id: &str, block: Value, stop: Option<&str>) -> usize {
        let message = json!({"id": id, "role": "assistant", "model": "claude-x",
            "content": [block], "stop_reason": stop,
            "usage": {"input_tokens": 100, "output_tokens": 5}});
        self.row(
            Some(parent),
            json!({"type": "assistant", "requestId": format!("req {id}"), "message": message}),
        )
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": id}})
}

/// A loop of calls, calls at the same time, a rewind and an answer without a reason
/// for its end.
fn claude_code() -> String {
    let mut all = Transcript::default();
    let mut last = all.user(None, json!("Fix it"));
    for step in 0..4 {
        let id = format!("msg_{step}");
        last = all.answer(last, &id, text(&format!("Step {step}")), None);
        last = all.answer(last, &id, call(&format!("t{step}")), Some("tool_use"));
        last = all.result(last, &format!("t{step}"));
    }
    last = all.answer(last, "msg_p", text("Both at once"), None);
    let first = all.answer(last, "msg_p", call("p1"), None);
    all.result(first, "p1");
    let second = all.answer(first, "msg_p", call("p2"), Some("tool_use"));
    last = all.result(second, "p2");
    let done = all.answer(last, "msg_d", text("Done."), Some("end_turn"));
    let asked = all.user(Some(done), json!("And now?"));
    all.answer(asked, "msg_n", text("Nothing."), Some("end_turn"));
    let again = all.user(Some(done), json!("Something else?"));
    last = all.answer(again, "msg_e", text("No"), None);
    last = all.answer(last, "msg_e", text(" end."), None);
    all.user(Some(last), json!("Thanks"));
    all.text
}

#[test]
fn a_session_of_claude_code() {
    check("claude-code", "p/s.jsonl", &claude_code());
}

#[test]
fn a_session_of_claude_code_with_requests_and_sub_agents() {
    let path = fixture("claude-code/projects/-home-ana-boats")
        .join("11111111-1111-4111-8111-111111111111.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    check("claude-code", "p/session.jsonl", &text);
}

/// A rollout with a loop of calls, a rollback, a call without usage and a
/// compaction.
fn codex(id: &str, meta: Value) -> String {
    let mut first = json!({"id": id, "base_instructions": {"text": "You look after boats."}});
    first
        .as_object_mut()
        .unwrap()
        .extend(meta.as_object().unwrap().clone());
    let item = |item: Value| ("response_item", item);
    let said = |role: &str, text: &str| {
        let kind = match role {
            "assistant" => "output_text",
            _ => "input_text",
        };
        let content = json!([{"type": kind, "text": text}]);
        item(json!({"type": "message", "role": role, "content": content}))
    };
    let call = |id: &str| {
        item(
            json!({"type": "function_call", "call_id": id, "name": "shell",
            "arguments": "{\"command\":[\"ls\"]}"}),
        )
    };
    let output =
        |id: &str| item(json!({"type": "function_call_output", "call_id": id, "output": "Anna"}));
    let event = |kind: &str| ("event_msg", json!({"type": kind, "num_turns": 1}));
    let tokens = |input: u64| {
        let usage = json!({"input_tokens": input, "cached_input_tokens": 1, "output_tokens": 2});
        (
            "event_msg",
            json!({"type": "token_count", "info": {"last_token_usage": usage}}),
        )
    };
    let rows = [
        ("session_meta", first),
        ("turn_context", json!({"model": "gpt-5.5"})),
        event("task_started"),
        said("user", "Which boats are here?"),
        event("user_message"),
        item(json!({"type": "reasoning", "summary": [], "encrypted_content": "e"})),
        call("c1"),
        call("c2"),
        tokens(100),
        output("c1"),
        output("c2"),
        call("c3"),
        tokens(110),
        output("c3"),
        said("assistant", "Anna"),
        said("assistant", "is here."),
        tokens(120),
        event("task_complete"),
        event("task_started"),
        said("user", "Sink her."),
        said("assistant", "No."),
        tokens(130),
        event("thread_rolled_back"),
        event("task_started"),
        said("user", "Paint her."),
        said("assistant", "She"),
        event("turn_aborted"),
        said("user", "<turn_aborted>"),
        ("compacted", json!({"message": "Anna was painted."})),
        event("task_started"),
        said("user", "And now?"),
        said("assistant", "She sails."),
        tokens(60),
        event("task_started"),
        said("user", "Thanks"),
    ];
    let mut out = String::new();
    for (i, (kind, payload)) in rows.iter().enumerate() {
        let row = json!({"timestamp": format!("2026-02-02T10:00:{i:02}.000Z"), "type": kind,
            "payload": payload});
        out += &format!("{row}\n");
    }
    out
}

#[test]
fn a_rollout_of_codex() {
    check("codex", "rollout-1.jsonl", &codex("t1", json!({})));
}

/// Returns the result of an origin, and of a fork that grows row by row or not.
fn forked(source: &str, files: [(&str, &str); 2], by_row: bool) -> String {
    let place = Place::new();
    let [(origin, origin_text), (fork, fork_text)] = files;
    place.import(source, &place.file(origin, origin_text));
    let path = place.file(fork, "");
    for (at, _) in fork_text.match_indices('\n').filter(|_| by_row) {
        std::fs::write(&path, &fork_text[..=at]).unwrap();
        place.import_with(source, &path, following(true));
    }
    std::fs::write(&path, fork_text).unwrap();
    place.import(source, &path);
    result(&place)
}

#[test]
fn a_fork_that_grows_shares_the_turns_of_its_origin() {
    let origin = claude_code();
    let rows: Vec<&str> = origin.split_inclusive('\n').collect();
    let own = rows[10..12].concat().replace("msg_3", "msg_f");
    let own = own
        .replace("-000000000011", "-000000000098")
        .replace("-000000000012", "-000000000099");
    let fork = rows[..10].concat() + &own;
    let files = [("p/one.jsonl", &*origin), ("p/two.jsonl", &*fork)];
    let whole = forked("claude-code", files, false);
    assert!(whole.contains("from: claude-code:one"), "{whole}");
    support::assert_text(&forked("claude-code", files, true), &whole);
    let origin = codex("t1", json!({}));
    let fork = codex("t2", json!({"forked_from_id": "t1"}));
    let rows: Vec<&str> = fork.split_inclusive('\n').collect();
    let fork = rows[..18].concat() + &rows[29..33].concat();
    let files = [("rollout-1.jsonl", &*origin), ("rollout-2.jsonl", &*fork)];
    let whole = forked("codex", files, false);
    assert!(whole.contains("from: codex:t1"), "{whole}");
    support::assert_text(&forked("codex", files, true), &whole);
}

/// The files of a session, its sub-agent and its fork, in any order.
#[test]
fn parents_do_not_depend_on_the_order_of_imports() {
    let row = |uuid: &str, parent: &str, kind: &str, said: &str| {
        format!(
            r#"{{"type":"{kind}","uuid":"{uuid}","parentUuid":{parent},"timestamp":"2026-02-02T10:00:00Z","message":{{"id":"m-{uuid}","role":"{kind}","content":[{{"type":"text","text":"{said}"}}],"stop_reason":"end_turn"}}}}"#
        ) + "\n"
    };
    let shared = row("a", "null", "user", "Hi") + &row("b", "\"a\"", "assistant", "Hello.");
    let more = shared.clone()
        + &row("c", "\"b\"", "user", "More?")
        + &row("d", "\"c\"", "assistant", "More.");
    let other = shared.clone()
        + &row("e", "\"b\"", "user", "Less?")
        + &row("f", "\"e\"", "assistant", "Less.");
    let agent = row("x", "null", "user", "Count") + &row("y", "\"x\"", "assistant", "Four.");
    let names = ["one.jsonl", "two.jsonl", "one/subagents/agent-k.jsonl"];
    for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0], [2, 0, 1]] {
        let place = Place::new();
        let mut paths = Vec::new();
        for (name, text) in names.iter().zip([&more, &other, &agent]) {
            paths.push(place.file(name, text));
            // The times of their creation differ.
            std::thread::sleep(Duration::from_millis(20));
        }
        for i in order {
            place.import("claude-code", &paths[i]);
        }
        let parent = |label: &str| place.store.session(label).unwrap().parent_session;
        assert_eq!(parent("claude-code:one"), None, "{order:?}");
        for child in ["claude-code:two", "claude-code:one:agent-k"] {
            let found = parent(child);
            assert_eq!(
                found.as_deref(),
                Some("claude-code:one"),
                "{order:?} {child}"
            );
        }
    }
    let agent = json!({"source": {"subagent": {"thread_spawn": {"parent_thread_id": "t1"}}}});
    let texts = [
        codex("t1", json!({})),
        codex("t2", json!({"forked_from_id": "t1"})),
        codex("t3", agent).replace("boats", "sails"),
    ];
    for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0]] {
        let place = Place::new();
        for i in order {
            let path = place.file(&format!("rollout-{i}.jsonl"), &texts[i]);
            place.import("codex", &path);
        }
        let parent = |label: &str| place.store.session(label).unwrap().parent_session;
        assert_eq!(parent("codex:t1"), None, "{order:?}");
        for child in ["codex:t2", "codex:t3"] {
            assert_eq!(
                parent(child).as_deref(),
                Some("codex:t1"),
                "{order:?} {child}"
            );
        }
    }
}

/// A file that is cut off and comes back is not recorded twice.
#[test]
fn a_file_that_comes_back_adds_nothing() {
    let text = claude_code();
    let place = Place::new();
    let path = place.file("p/s.jsonl", &text);
    place.import("claude-code", &path);
    let before = result(&place);
    let cuts = text.match_indices('\n').map(|(at, _)| at + 1);
    for cut in cuts {
        for end in [cut, text.len()] {
            std::fs::write(&path, &text[..end]).unwrap();
            let report = place.import("claude-code", &path);
            assert!(report.counts.is_nothing_new(), "{cut} {:?}", report.counts);
        }
        let after = result(&place);
        let lines = |all: &str| -> String {
            let lines = all.lines().filter(|line| !line.ends_with(" rewinds"));
            lines.collect::<Vec<_>>().join("\n")
        };
        support::assert_text(&lines(&after), &lines(&before));
    }
}

/// A held end is recorded without a change of the file, once it has settled.
#[test]
fn a_held_end_is_recorded_later() {
    let place = Place::new();
    let text = claude_code();
    let path = place.file("p/s.jsonl", &text);
    let whole = place.import_with("claude-code", &path, following(true));
    assert!(!place.sessions().contains("user: Thanks"));
    let again = place.import_with("claude-code", &path, following(true));
    assert_eq!((again.files.len(), again.unchanged), (0, 1));
    let file = std::fs::File::options().append(true).open(&path).unwrap();
    let old = std::time::SystemTime::now() - Duration::from_secs(7200);
    file.set_modified(old).unwrap();
    let place = Place::new();
    let copy = place.file("p/s.jsonl", &text);
    let file = std::fs::File::options().append(true).open(&copy).unwrap();
    file.set_modified(old).unwrap();
    let old = place.import_with("claude-code", &copy, following(true));
    assert_eq!(old.counts.turns, whole.counts.turns + 1);
    assert!(place.sessions().contains("user: Thanks"));
}

/// The answers of OpenCode are rows that change until they are complete.
#[test]
fn an_answer_of_opencode_is_recorded_when_it_is_complete() {
    let states = |complete: bool, words: usize| {
        let said = "One two three four".split(' ').take(words);
        let said = said.collect::<Vec<_>>().join(" ");
        let mut data = json!({"role": "assistant", "modelID": "m", "providerID": "p",
            "time": {"created": 2}, "tokens": {"input": 0, "output": 0}});
        let mut tool = json!({"type": "tool", "callID": "c1", "tool": "bash",
            "state": {"status": "running", "input": {"command": "ls"}}});
        if complete {
            data["time"]["completed"] = json!(9);
            data["finish"] = json!("stop");
            data["tokens"] = json!({"input": 100, "output": 20});
            tool["state"]["status"] = json!("completed");
            tool["state"]["output"] = json!("Anna");
        }
        (data, vec![text(&said), tool])
    };
    let import = |steps: &[(bool, usize)]| {
        let place = Place::new();
        let path = place.directory.path().join("opencode.db");
        let db = rusqlite::Connection::open(&path).unwrap();
        db.execute_batch(
            "CREATE TABLE session (id TEXT, parent_id TEXT, title TEXT, time_created INTEGER,
                 time_updated INTEGER, revert TEXT);
             CREATE TABLE message (id TEXT, session_id TEXT, data TEXT);
             CREATE TABLE part (id TEXT, message_id TEXT, data TEXT);
             INSERT INTO session VALUES ('s', NULL, 'Boats', 1, 1, NULL);
             INSERT INTO message VALUES ('m1', 's', '{\"role\":\"user\",\"time\":{\"created\":1}}');
             INSERT INTO part VALUES ('p0', 'm1', '{\"type\":\"text\",\"text\":\"Count\"}');",
        )
        .unwrap();
        place.import_with("opencode", &path, following(true));
        for (complete, words) in steps {
            let (data, parts) = states(*complete, *words);
            db.execute_batch(
                "DELETE FROM message WHERE id = 'm2'; DELETE FROM part WHERE id > 'p0'",
            )
            .unwrap();
            db.execute(
                "INSERT INTO message VALUES ('m2', 's', ?1)",
                [data.to_string()],
            )
            .unwrap();
            for (i, part) in parts.iter().enumerate() {
                db.execute(
                    "INSERT INTO part VALUES (?1, 'm2', ?2)",
                    (format!("p{}", i + 1), part.to_string()),
                )
                .unwrap();
            }
            place.import_with("opencode", &path, following(true));
        }
        result(&place)
    };
    let whole = import(&[(true, 4)]);
    assert!(whole.contains("1 turns are stored"), "{whole}");
    assert_eq!(
        import(&[(false, 1), (false, 2), (false, 4), (true, 4)]),
        whole
    );
}
