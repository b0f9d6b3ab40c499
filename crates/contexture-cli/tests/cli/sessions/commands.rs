//! `session`: new, list, show, record, history, fork, alias, close.

use super::*;

const TURN: &str = r#"{"messages":[
    {"role":"user","source":"human","content":"Why does the build fail?"},
    {"role":"assistant","content":[{"type":"text","text":"Let me look."},
        {"type":"tool_call","id":"c1","name":"shell","arguments":{"command":"make"}}]},
    {"role":"tool","tool_call_id":"c1","content":"undefined reference to foo"},
    {"role":"assistant","content":"foo is never linked."}],
    "model":"claude-sonnet-4-20250514","provider":"anthropic",
    "usage":{"input_tokens":5120,"output_tokens":96,"cached_input_tokens":4096,"cache_write_tokens":512},
    "stop_reason":"end_turn","parent_turn_id":null,"idempotency_key":null}"#;

#[test]
fn a_session_is_made_and_shown() {
    let project = project().file("personas/ana/SOUL.md", "Curious.\n");
    let args = "session new support --alias help --alias desk --persona ana --now";
    let mut args: Vec<&str> = args.split(' ').collect();
    args.extend([NOW, "--task", "Answer questions about invoices"]);
    assert_eq!(project.ok(&args), "created session support\n");
    assert_eq!(
        project.ok(&["session", "show", "support"]),
        dedent(
            "
            session   support
            aliases   desk, help
            status    active
            turns     0
            persona   ana
            task      Answer questions about invoices
            created   2026-01-31T12:00:00Z
            updated   2026-01-31T12:00:00Z
            moves     2026-01-31T12:00:00Z created -> the start
            "
        )
    );
    assert_eq!(
        json_of(&project, &["session", "show", "desk"]),
        json!({
            "label": "support", "aliases": ["desk", "help"], "head": null, "turns": 0,
            "persona": "ana", "parent_session": null, "parent_turn": null,
            "task": "Answer questions about invoices", "remember": null, "status": "active",
            "created_at": NOW, "updated_at": NOW,
        })
    );
}

#[test]
fn lists_mask_secrets_in_tasks_and_titles() {
    let key = format!("AKIA{}", "Q7ZX4RT2MNPW8LKD");
    let project = Project::new();
    let line = serde_json::json!({
        "type": "user",
        "uuid": "a",
        "sessionId": "11111111-1111-4111-8111-111111111111",
        "timestamp": "2026-01-31T12:00:00Z",
        "message": {"role": "user", "content": format!("Deploy with {key}")},
    });
    let answer = serde_json::json!({
        "type": "assistant",
        "uuid": "b",
        "parentUuid": "a",
        "sessionId": "11111111-1111-4111-8111-111111111111",
        "timestamp": "2026-01-31T12:00:01Z",
        "message": {"id": "m1", "role": "assistant", "model": "claude-sonnet-5-5",
            "content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn"},
    });
    project.write("chat.jsonl", format!("{line}\n{answer}\n"));
    project.run("import claude-code chat.jsonl").expect_code(0);
    project
        .run(&["session", "new", "own", "--task", &format!("use {key}")])
        .expect_code(0);
    project
        .run(&[
            "tree",
            "new",
            "plan",
            "--mode",
            "dialogue",
            "--title",
            &format!("use {key}"),
        ])
        .expect_code(0);
    project
        .run(&["task", "push", &format!("rotate {key}")])
        .expect_code(0);
    project
        .run("tree node add plan --author human Hello")
        .expect_code(0);
    for args in [
        "session list",
        "session list --json",
        "session show own",
        "session show own --json",
        "session alias own mine --json",
        "tree list",
        "tree list --json",
        "tree set plan --prefer minimum_recent_nodes=3 --json",
        "tree show plan --json",
        "tree show plan",
        "task show",
        "task show --json",
        "task list",
        "task list --json",
        "memory show t1",
    ] {
        let out = project.ok(args);
        assert!(!out.contains(&key), "{args}: {out}");
        assert!(out.contains("[secret masked: "), "{args}: {out}");
    }
    // The turn is as it was recorded.
    let history = project.ok("session history claude-code:chat");
    assert!(history.contains(&key), "{history}");
}

#[test]
fn an_answer_that_is_being_written_is_imported_when_it_is_complete() {
    let project = Project::new();
    let row = |uuid: &str,
               parent: Option<&str>,
               at: contexture::Timestamp,
               message: serde_json::Value| {
        serde_json::json!({
            "type": message["role"],
            "uuid": uuid,
            "parentUuid": parent,
            "sessionId": "11111111-1111-4111-8111-111111111111",
            "timestamp": at.to_string(),
            "message": message,
        })
    };
    let part = |text: &str, stop: Option<&str>| {
        serde_json::json!({"id": "m1", "role": "assistant", "model": "claude-sonnet-5-5",
            "content": [{"type": "text", "text": text}], "stop_reason": stop})
    };
    let question = serde_json::json!({"role": "user", "content": "Which boats are here?"});
    let label = "claude-code:chat";
    let history = || project.ok(&["session", "history", label]);
    for is_copy in [false, true] {
        let at = match is_copy {
            false => contexture::Timestamp::now(),
            true => "2026-01-31T12:00:00Z".parse().unwrap(),
        };
        let begun = format!(
            "{}\n{}\n",
            row("a", None, at, question.clone()),
            row("b", Some("a"), at, part("Anna", None))
        );
        let end = row("c", Some("b"), at, part(" and Berta.", Some("end_turn")));
        project.write("chat.jsonl", &begun);
        let out = project.run("import claude-code chat.jsonl");
        let is_told = out.err.contains("the end of 1 file is still being written");
        assert_eq!(is_told, !is_copy, "{}", out.err);
        if is_copy {
            assert!(history().contains("Anna"));
            continue;
        }
        project.write("chat.jsonl", format!("{begun}{end}\n"));
        project.run("import claude-code chat.jsonl").expect_code(0);
        let all = history();
        assert!(all.contains("Anna") && all.contains("Berta"), "{all}");
        let usage = project.ok("tenant usage default --json");
        let usage: serde_json::Value = serde_json::from_str(&usage).unwrap();
        assert_eq!(usage["turns"], 1, "{usage}");
        project
            .run(&["session", "delete", label, "--yes"])
            .expect_code(0);
    }
}

#[test]
fn sessions_are_listed_by_name() {
    let project = project();
    for label in ["b", "a"] {
        project.ok(&[
            "session",
            "new",
            label,
            "--task",
            "Two\nlines",
            "--now",
            NOW,
        ]);
    }
    assert_eq!(
        project.ok(&["session", "list"]),
        " session  turns  status  updated               parent  task\n \
         a            0  active  2026-01-31T12:00:00Z          Two…\n \
         b            0  active  2026-01-31T12:00:00Z          Two…\n"
    );
    assert_eq!(labels(&project), ["a", "b"]);
}

#[test]
fn the_store_is_made_where_nothing_is_committed_by_accident() {
    let project = chat();
    assert_eq!(project.read(".contexture/.gitignore"), "*\n");
    assert!(project.path(".contexture/contexture.db").is_file());
}

#[test]
fn a_turn_is_recorded_from_a_file_and_shown() {
    let project = chat().file("turn.json", TURN);
    let said = project.ok(&["session", "record", "chat", "turn.json", "--now", NOW]);
    let turns = json_of(&project, &["session", "history", "chat"]);
    let id = text(&turns[0]["id"]);
    assert_eq!(said, format!("recorded turn 1 of chat: {id}\n"));
    assert_eq!(
        project.ok(&["session", "history", "chat"]),
        format!(
            "1 {} 2026-01-31T12:00:00Z claude-sonnet-4-20250514\n  \
             user      Why does the build fail?\n  \
             assistant Let me look.\n  \
             assistant calls shell {{\"command\":\"make\"}}\n  \
             tool      undefined reference to foo\n  \
             assistant foo is never linked.\n\n",
            &id[..8]
        )
    );
    // The recorded turn is returned unchanged.
    let given = parsed(TURN);
    for field in ["messages", "model", "provider", "stop_reason"] {
        assert_eq!(turns[0][field], given[field], "{field}");
    }
    assert_eq!(turns[0]["usage"]["cache_write_tokens"], 512);
    assert_eq!(turns[0]["parent"], Value::Null);
    assert_eq!(turns[0]["depth"], 1);
}

#[test]
fn a_turn_is_recorded_from_standard_input() {
    let project = chat();
    let args = ["session", "record", "chat", "-", "--now", NOW, "--json"];
    let first = parsed(&project.run_with(&args, TURN).out);
    // Null requires an empty session, which it is no longer.
    let run = project.run_with(&args, TURN);
    run.expect_code(2);
    assert!(run.err.contains("nothing was recorded"), "{}", run.err);
    let after = TURN.replace("\"parent_turn_id\":null,", "");
    let second = parsed(&project.run_with(&args, &after).out);
    assert_eq!(first["number"], 1);
    assert_eq!(first["parent_turn_id"], Value::Null);
    assert_eq!(second["number"], 2);
    assert_eq!(second["parent_turn_id"], first["turn_id"]);
    assert_eq!(second["replayed"], false);
}

#[test]
fn a_retry_with_the_same_key_is_the_same_turn() {
    let project = chat();
    let turn = json!({
        "messages": [{"role": "user", "content": "Hi"}],
        "idempotency_key": "k1",
    });
    let first = record(&project, "chat", &turn);
    say(&project, "chat", "And now?", "Later.");
    assert_eq!(record(&project, "chat", &turn), first);
    let again = ["session", "record", "chat", "-"];
    let run = project.run_with(&again, &turn.to_string());
    assert_eq!(
        run.out,
        format!("recorded turn 1 of chat: {first} (already recorded)\n")
    );
    assert_eq!(json_of(&project, &["session", "show", "chat"])["turns"], 2);
}

#[test]
fn history_shows_the_latest_turns() {
    let project = chat();
    let empty = project.ok(&["session", "history", "chat"]);
    assert_eq!(empty, "no turns yet\n");
    for n in 1..=4 {
        say(&project, "chat", &format!("Question {n}"), "Answer");
    }
    let two = project.ok(&["session", "history", "chat", "--limit", "2"]);
    assert!(
        two.starts_with("(2 older turns not shown; show all with --all)\n\n3 "),
        "{two}"
    );
    let three = project.ok(&["session", "history", "chat", "--limit", "3"]);
    assert!(
        three.starts_with("(1 older turn not shown; show all with --all)\n\n2 "),
        "{three}"
    );
    let all = project.ok(&["session", "history", "chat", "--all"]);
    assert!(all.starts_with("1 ") && all.contains("Question 4"), "{all}");
}

#[test]
fn a_turn_that_failed_is_shown_as_failed() {
    let project = chat();
    let turn = json!({
        "messages": [{"role": "user", "content": "Hi"}],
        "error": {"kind": "rate_limit", "message": "slow down"},
        "stop_reason": "error",
    });
    let id = record(&project, "chat", &turn);
    let shown = project.ok(&["session", "history", "chat"]);
    let head = format!("1 {} 2026-01-31T12:00:00Z  failed\n", &id[..8]);
    assert!(shown.starts_with(&head), "{shown}");
}

#[test]
fn a_fork_shares_its_ancestors() {
    let project = chat();
    let first = say(&project, "chat", "Red or blue?", "Blue.");
    let second = say(&project, "chat", "Sure?", "Yes.");
    assert_eq!(
        project.ok(&[
            "session",
            "fork",
            "chat",
            "what-if",
            "--at",
            &first[..6],
            "--now",
            NOW
        ]),
        "forked chat as session what-if, after turn 1\n"
    );
    let third = say(&project, "what-if", "Why not red?", "Red is fine.");
    let ids = |label: &str| -> Vec<String> {
        let turns = json_of(&project, &["session", "history", label]);
        let turns = turns.as_array().unwrap().iter();
        turns.map(|turn| text(&turn["id"]).to_owned()).collect()
    };
    assert_eq!(ids("chat"), [first.clone(), second.clone()]);
    assert_eq!(ids("what-if"), [first.clone(), third]);
    let fork = json_of(&project, &["session", "show", "what-if"]);
    assert_eq!(fork["parent_session"], "chat");
    assert_eq!(fork["parent_turn"], first.as_str());

    project.ok(&["session", "fork", "chat", "by-number", "--at", "1"]);
    assert_eq!(ids("by-number"), std::slice::from_ref(&first));
    project.ok(&["session", "fork", "chat", "head"]);
    assert_eq!(ids("head"), [first, second]);
}

#[test]
fn a_session_has_other_names() {
    let project = chat();
    assert_eq!(
        project.ok(&["session", "alias", "chat", "talk"]),
        "added alias talk to session chat\n"
    );
    // An alias of an alias is one more name of the session itself.
    assert_eq!(
        project.ok(&["session", "alias", "talk", "t"]),
        "added alias t to session chat\n"
    );
    let id = say(&project, "t", "Hi", "Hello.");
    let shown = json_of(&project, &["session", "show", "talk"]);
    assert_eq!(shown["head"], id.as_str());
    assert_eq!(shown["aliases"], json!(["t", "talk"]));
    let request = "assemble --recipe broker --session t --format json";
    assert_eq!(parsed(&project.ok(request))["session_label"], "chat");
}

#[test]
fn a_session_is_closed() {
    let project = chat();
    let close = |args: &[&str]| project.ok(&[&["session", "close", "chat"], args].concat());
    assert_eq!(close(&[]), "session chat is completed\n");
    assert_eq!(
        json_of(&project, &["session", "show", "chat"])["status"],
        "completed"
    );
    assert_eq!(close(&["--failed"]), "session chat is failed\n");
    assert_eq!(
        json_of(&project, &["session", "show", "chat"])["status"],
        "failed"
    );
}

#[test]
fn another_store_is_named_by_option_or_setting() {
    let project = project();
    project.ok(&["session", "new", "elsewhere", "--db", "sqlite:data/my.db"]);
    assert!(project.path("data/my.db").is_file());
    project.write("contexture.toml", "[store]\nurl = \"sqlite:data/my.db\"\n");
    assert_eq!(labels(&project), ["elsewhere"]);
}

#[test]
fn a_closed_session_refuses_turns() {
    let project = Project::new().file(
        "turn.json",
        r#"{"messages":[{"role":"user","content":"Why?"},{"role":"assistant","content":"So."}]}"#,
    );
    project.ok("session new chat");
    project.ok("session record chat turn.json");
    project.ok("session close chat --failed");
    project.refuses(
        "session record chat turn.json",
        2,
        "
        error: conflict: session `chat` is closed (failed); nothing was recorded
        hint: fork the session and record the turn there; or `contexture session reopen chat` \
         sets its status to active
        ",
    );
    project.ok("session fork chat again");
    project.ok("session record again turn.json");
    assert_eq!(
        project.ok("session reopen chat"),
        "session chat is active\n"
    );
    project.ok("session record chat turn.json");
}

#[test]
fn a_session_is_remembered_when_it_says_so() {
    let project = Project::new().file(
        "turn.json",
        r#"{"messages":[{"role":"user","content":"My dog is called Rufus."}]}"#,
    );
    project.ok("session new chat --remember true");
    project.ok("session new quiet");
    for label in ["chat", "quiet"] {
        project.ok(&["session", "record", label, "turn.json"]);
    }
    let listed = project.ok("memory list");
    assert_eq!(listed.matches("called Rufus").count(), 1, "{listed}");
    let listed = project.ok("memory list --session chat");
    assert_eq!(listed.matches("called Rufus").count(), 1, "{listed}");
    let shown = project.ok("session show chat");
    assert!(shown.contains("remember  true"), "{shown}");
    let changed = project.ok("session remember chat false");
    let told = "turns of session chat do not become memory events from now on";
    assert!(changed.contains(told), "{changed}");
    project.ok("session record chat turn.json");
    let listed = project.ok("memory list");
    assert_eq!(listed.matches("called Rufus").count(), 1, "{listed}");
    let kept = "memory records of the session are kept; delete them with `contexture memory \
                forget --session chat`";
    let run = project.run("session delete quiet --yes");
    assert!(!run.err.contains("memory records"), "{}", run.err);
    let run = project.run("session delete chat --yes");
    assert!(run.err.contains(kept), "{}", run.err);
    project.ok("memory forget --session chat");
    assert_eq!(project.ok("memory list"), "");
}
