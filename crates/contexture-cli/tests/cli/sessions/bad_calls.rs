//! Calls with unknown names or invalid values.

use super::*;

#[test]
fn an_unknown_session() {
    let project = chat().file(
        "turn.json",
        r#"{"messages":[{"role":"user","content":"x"}]}"#,
    );
    for args in [
        "session show chta",
        "session record chta turn.json",
        "session history chta",
        "session fork chta new",
        "session compact chta",
        "session uncompact chta",
        "session cost chta",
        "session alias chta other",
        "session close chta",
        "session new other --parent chta",
        "assemble --recipe broker --session chta --event Hi",
    ] {
        project.refuses(
            args,
            2,
            "
            error: there is no session `chta`
            hint: `contexture session list` lists the sessions; or `contexture session new \
            LABEL` creates a session
            ",
        );
    }
}

#[test]
fn a_file_that_cannot_be_read() {
    let project = chat().file("latin1.json", b"{\"messages\":[\"caf\xE9\"]}");
    for (file, why) in [
        ("nowhere.json", "No such file or directory (os error 2)"),
        ("latin1.json", "stream did not contain valid UTF-8"),
        (".", "Is a directory (os error 21)"),
    ] {
        let message = format!("error: cannot read {file}: {why}\n");
        project.refuses(&["session", "record", "chat", file], 2, &message);
    }
}

#[test]
fn a_stale_parent() {
    let project = chat();
    let first = say(&project, "chat", "One", "1");
    let second = say(&project, "chat", "Two", "2");
    let turn = |parent: &str| {
        let messages = json!([{"role": "user", "content": "x"}]);
        json!({"messages": messages, "parent_turn_id": parent}).to_string()
    };
    project.write("stale.json", turn(&first));
    project.refuses(
        &["session", "record", "chat", "stale.json"],
        2,
        &format!(
            "error: conflict: the head of session `chat` is {second}, not {first}; nothing was \
             recorded\nhint: assemble again to get the current state, then record the new turn\n"
        ),
    );
    project.write("fresh.json", turn(&second));
    project.ok(&["session", "record", "chat", "fresh.json"]);
}

#[test]
fn the_error_of_a_call() {
    let project = chat()
        .file("junk.json", "{\"messages\":[")
        .file("empty.json", r#"{"messages":[]}"#)
        .file("event.txt", "\n");
    for (args, message) in [
        (
            "session record chat junk.json",
            "
            error: junk.json: messages: it ends inside a list at line 1 column 13
            hint: write a turn as `{\"messages\":[{\"role\":\"user\",\"content\":\"…\"}]}`
            ",
        ),
        (
            "session record chat empty.json",
            "error: messages: is empty: a turn has at least one message\n",
        ),
        (
            "session new chat",
            "error: there is a session `chat` already\n",
        ),
        (
            "session new other --persona ana",
            "
            error: no persona `ana`: personas/ana is not a directory
            hint: create it, with SOUL.md and IDENTITY.md, or set persona.dir in contexture.toml
            ",
        ),
        (
            "session fork chat new --at abc",
            "
            error: `abc` is not a turn id; give at least 4 hexadecimal digits
            hint: `contexture session history chat` shows the turns
            ",
        ),
        (
            "session fork chat new --at 7",
            "
            error: session `chat` has no turn 7; it has 0 turns
            hint: `contexture session history chat` shows the turns
            ",
        ),
        (
            "session uncompact chat",
            "error: session `chat` has no compaction to undo\n",
        ),
        (
            "session compact chat --overflow",
            "
            error: session `chat` was not compacted: the session has no turns
            hint: set --max-tokens
            ",
        ),
        (
            "snapshot show 00000000",
            "
            error: no snapshot `00000000`
            hint: `contexture snapshot list` lists the snapshots
            ",
        ),
        (
            "assemble --recipe broker --session chat --event-file event.txt",
            "error: the event is empty; give text with --event, or a file with --event-file\n",
        ),
    ] {
        project.refuses(args, 2, message);
    }
}

#[test]
fn invalid_arguments_are_rejected() {
    let project = chat();
    for (args, message) in [
        (
            "session list --now yesterday",
            "error: invalid value 'yesterday' for '--now <RFC3339>': must be a time such as \
             2026-01-31T12:00:00Z, or Unix milliseconds",
        ),
        (
            "snapshot diff aaaa bbbb --min-shared 120",
            "error: invalid value '120' for '--min-shared <PERCENT>': must be a percentage from 0 to 100",
        ),
        (
            "session compact chat --max-tokens -5",
            "error: invalid value '-5' for '--max-tokens <N>': must be a whole number of tokens, 0 \
             or more",
        ),
        (
            "assemble --recipe broker --role boss",
            "error: invalid value 'boss' for '--role <ROLE>'",
        ),
    ] {
        let run = project.run(args);
        run.expect_code(2);
        run.says(message);
    }
}
