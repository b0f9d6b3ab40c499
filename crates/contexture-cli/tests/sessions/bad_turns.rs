//! Turns that make no sense, and sessions that are not there.

use super::*;

const HINT: &str = "hint: a turn is `{\"messages\":[{\"role\":\"user\",\"content\":\"…\"}]}`\n";

/// Checks that a file that is no turn is refused with `message`.
#[track_caller]
fn check_file(turn: &str, message: &str) {
    let project = chat().file("turn.json", turn);
    let message = format!("error: turn.json: {message}\n{HINT}");
    project.refuses(&["session", "record", "chat", "turn.json"], 2, &message);
}

/// Checks that a turn is refused with `message`.
#[track_caller]
fn check_turn(turn: &Value, message: &str) {
    let project = chat().file("turn.json", turn.to_string());
    let message = format!("error: {message}\n");
    project.refuses(&["session", "record", "chat", "turn.json"], 2, &message);
}

/// Checks that a turn with these messages is refused with `message`.
#[track_caller]
fn check_messages(messages: &Value, message: &str) {
    check_turn(&json!({"messages": messages}), message);
}

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
        let args: Vec<&str> = args.split(' ').collect();
        project.refuses(
            &args,
            2,
            "
            error: there is no session `chta`
            hint: `contexture session list` shows those there are; `session new` makes one
            ",
        );
    }
}

#[test]
fn no_store_at_all() {
    let project = project().file(
        "turn.json",
        r#"{"messages":[{"role":"user","content":"x"}]}"#,
    );
    for args in [
        "session list",
        "session record chat turn.json",
        "snapshot list",
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        project.refuses(
            &args,
            2,
            "error: there is no store at ./.contexture/contexture.db: nothing was kept yet \
             (`contexture session new LABEL` makes one; --root and --db say where)\n",
        );
    }
}

#[test]
fn names_that_are_none() {
    let project = project();
    let long = "x".repeat(201);
    for (label, message) in [
        ("", "label: is empty"),
        (
            " a",
            "label: holds control characters, or blanks at its ends",
        ),
        (
            "a\nb",
            "label: holds control characters, or blanks at its ends",
        ),
        (&long, "label: is 201 bytes; the limit is 200"),
    ] {
        let message = format!("error: {message}\n");
        project.refuses(&["session", "new", label], 2, &message);
    }
}

#[test]
fn names_that_are_taken() {
    let project = chat();
    project.ok(&["session", "alias", "chat", "talk"]);
    let session = "error: there is a session `chat` already\n";
    let alias = "error: there is a session with the alias `talk` already\n";
    project.refuses(&["session", "new", "chat"], 2, session);
    project.refuses(&["session", "new", "talk"], 2, alias);
    project.refuses(&["session", "new", "other", "--alias", "chat"], 2, session);
    project.refuses(&["session", "fork", "chat", "talk"], 2, alias);
    project.refuses(&["session", "alias", "chat", "talk"], 2, alias);
    // Nothing of a session that was refused is left.
    assert_eq!(labels(&project), ["chat"]);
}

#[test]
fn aliases_cannot_form_a_loop() {
    let project = chat();
    project.ok(&["session", "new", "other", "--alias", "o"]);
    let itself = "error: alias: `chat` cannot stand for itself\n";
    project.refuses(&["session", "alias", "chat", "chat"], 2, itself);
    project.refuses(
        &["session", "new", "x", "--alias", "x"],
        2,
        "error: alias: `x` cannot stand for itself\n",
    );
    // Each other's.
    project.refuses(
        &["session", "alias", "chat", "other"],
        2,
        "error: there is a session `other` already\n",
    );
    project.refuses(
        &["session", "alias", "other", "chat"],
        2,
        "error: there is a session `chat` already\n",
    );
    project.refuses(
        &["session", "alias", "o", "other"],
        2,
        "error: alias: `other` cannot stand for itself\n",
    );
}

#[test]
fn what_is_no_json() {
    check_file("", "it ends where a value should be at line 1 column 0");
    check_file("{", "it ends inside an object at line 1 column 1");
    check_file(
        "{\"messages\":[",
        "messages: it ends inside a list at line 1 column 13",
    );
    check_file("hello", "expected value at line 1 column 1");
    check_file(
        "{\"messages\":[]} and more",
        "trailing characters at line 1 column 17",
    );
    check_file(
        "[]",
        "invalid length 0, expected a turn: an object with `messages` at line 1 column 2",
    );
    check_file("{}", "missing field `messages` at line 1 column 2");
}

#[test]
fn what_is_nested_without_end() {
    let nested = "[".repeat(100_000);
    let turn = format!("{{\"messages\":[{{\"role\":\"user\",\"context_json\":{nested}");
    let path = format!("messages[0].context_json{}", "[0]".repeat(32));
    check_file(
        &turn,
        &format!("{path}…: recursion limit exceeded at line 1 column 168"),
    );
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
fn an_unknown_field_is_named_with_its_path() {
    check_file(
        r#"{"messages":[{"role":"user","cntent":"x"}]}"#,
        "messages[0].cntent: unknown field `cntent`, expected one of `role`, `source`, `content`, \
         `tool_call_id`, `is_error`, `context_json` at line 1 column 36",
    );
    check_file(
        r#"{"messages":[],"usage":{"input":1}}"#,
        "usage.input: unknown field `input`, expected one of `input_tokens`, `output_tokens`, \
         `cached_input_tokens`, `cache_write_tokens`, `reasoning_tokens` at line 1 column 31",
    );
}

#[test]
fn an_unknown_role() {
    check_file(
        r#"{"messages":[{"role":"robot","content":"x"}]}"#,
        "messages[0].role: unknown value `robot`, expected one of `system`, `developer`, `user`, \
         `assistant`, `tool` at line 1 column 28",
    );
    check_file(
        r#"{"messages":[],"role":"boss"}"#,
        "role: unknown value `boss`, expected one of `manager`, `worker`, `unified` at line 1 \
         column 28",
    );
}

#[test]
fn an_invalid_block() {
    check_file(
        r#"{"messages":[{"role":"user","content":[{"type":"txt","text":"x"}]}]}"#,
        "messages[0].content[0].type: unknown value `txt`, expected one of `text`, `image`, \
         `audio`, `document`, `tool_call`, `tool_result`, `thinking` at line 1 column 52",
    );
    check_file(
        r#"{"messages":[{"role":"user","content":5}]}"#,
        "messages[0].content: invalid type: integer `5`, expected text or a list of blocks at \
         line 1 column 39",
    );
    let block = |block: Value| json!([{"role": "user", "content": [block]}]);
    check_messages(
        &block(json!({"type": "image", "media_type": "image/png"})),
        "messages[0].content[0]: needs either `data` or `url`",
    );
    check_messages(
        &block(json!({"type": "tool_call", "id": "c", "name": "sh", "arguments": {}})),
        "messages[0].content[0]: a tool call belongs to the assistant's messages, not to user",
    );
    check_messages(
        &json!([{"role": "assistant", "content": [
            {"type": "tool_call", "id": "c", "name": "sh", "arguments": "ls"}]}]),
        "messages[0].content[0].arguments: must be an object",
    );
}

#[test]
fn numbers_that_are_none() {
    check_file(
        r#"{"messages":[],"usage":{"input_tokens":-1}}"#,
        "usage.input_tokens: invalid value: integer `-1`, expected a whole number, 0 or more at \
         line 1 column 41",
    );
    check_file(
        r#"{"messages":[],"usage":7}"#,
        "usage: invalid type: integer `7`, expected usage: an object with `input_tokens` and \
         `output_tokens` at line 1 column 24",
    );
    check_turn(
        &json!({"messages": [{"role": "user", "content": "x"}],
                "usage": {"input_tokens": u64::MAX}}),
        "usage.input_tokens: 18446744073709551615 is too large; the limit is 9223372036854775807",
    );
}

#[test]
fn an_empty_turn() {
    check_messages(
        &json!([]),
        "messages: is empty: a turn has at least one message",
    );
    let nothing = "messages: hold nothing: a turn says or does something";
    check_messages(&json!([{"role": "user", "content": ""}]), nothing);
    check_messages(&json!([{"role": "user", "content": " \n\t"}]), nothing);
    check_messages(&json!([{"role": "user", "content": []}]), nothing);
}

#[test]
fn an_empty_model() {
    check_turn(
        &json!({"messages": [{"role": "user", "content": "x"}], "model": " "}),
        "model: is empty\nhint: leave it out when it is not known",
    );
}

#[test]
fn a_tool_result_without_its_call() {
    check_messages(
        &json!([{"role": "tool", "tool_call_id": "c1", "content": "x"}]),
        "messages[0].content: answers call `c1`, which was not made or has its result",
    );
    check_messages(
        &json!([{"role": "tool", "content": "x"}]),
        "messages[0].tool_call_id: is missing: a tool's message says which call it answers",
    );
    check_messages(
        &json!([{"role": "user", "tool_call_id": "c1", "content": "x"}]),
        "messages[0].tool_call_id: belongs to a message of role tool, not user",
    );
    let call = json!({"role": "assistant", "content": [
        {"type": "tool_call", "id": "c1", "name": "sh", "arguments": {}}]});
    check_messages(
        &json!([call, {"role": "assistant", "content": "Done."}]),
        "messages[1]: call `c1` has no result yet; the results of calls follow directly behind \
         them",
    );
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "x"});
    check_messages(
        &json!([call, result, result]),
        "messages[2].content: answers call `c1`, which was not made or has its result",
    );
}

#[test]
fn a_tool_result_may_come_with_the_next_turn_but_not_later() {
    let project = chat();
    let call = json!({"messages": [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": [
            {"type": "tool_call", "id": "c1", "name": "sh", "arguments": {}}]}]});
    let result = json!({"messages": [{"role": "tool", "tool_call_id": "c1", "content": "ok"}]});
    record(&project, "chat", &call);
    record(&project, "chat", &result);
    project.write("late.json", result.to_string());
    project.refuses(
        &["session", "record", "chat", "late.json"],
        2,
        "error: messages[0].content: answers call `c1`, which was not made or has its result\n",
    );
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
             recorded\n\
             hint: assemble again, so that the turn answers what is there now, and record that\n"
        ),
    );
    project.write("fresh.json", turn(&second));
    project.ok(&["session", "record", "chat", "fresh.json"]);
    check_file(
        &turn("abc"),
        "parent_turn_id: `abc` is no turn's id: a turn's id is 32 hexadecimal digits at line 1 \
         column 67",
    );
}

#[test]
fn a_key_that_was_used_for_another_turn() {
    let project = chat();
    let turn = |said: &str| json!({"messages": [{"role": "user", "content": said}], "idempotency_key": "k1"});
    record(&project, "chat", &turn("One"));
    project.write("turn.json", turn("Two").to_string());
    project.refuses(
        &["session", "record", "chat", "turn.json"],
        2,
        "
        error: the idempotency key `k1` was used for another turn; nothing was recorded
        hint: take a new key for another turn
        ",
    );
    check_turn(
        &json!({"messages": [{"role": "user", "content": "x"}], "idempotency_key": ""}),
        "idempotency_key: is empty",
    );
}

#[test]
fn a_message_of_twenty_megabytes() {
    let project = chat();
    let turn = json!({"messages": [{"role": "user", "content": "a ".repeat(10 << 20)}]});
    project.write("turn.json", turn.to_string());
    project.refuses(
        &["session", "record", "chat", "turn.json"],
        2,
        "error: messages[0].content: is 20971520 bytes; the limit is 16777216 \
         (limits.max_message_bytes)\n",
    );
}

#[test]
fn a_clock_that_goes_backwards() {
    let project = chat();
    let at = |now: &str| {
        let args = ["session", "record", "chat", "-", "--now", now];
        let turn = r#"{"messages":[{"role":"user","content":"x"}]}"#;
        project.run_with(&args, turn).expect_code(0);
    };
    at("2026-02-01T12:00:00Z");
    at("2020-01-01T00:00:00Z");
    // The order is that of the turns, and the session is never younger.
    let shown = json_of(&project, &["session", "show", "chat"]);
    assert_eq!(shown["turns"], 2);
    assert_eq!(shown["updated_at"], "2026-02-01T12:00:00Z");
    let turns = json_of(&project, &["session", "history", "chat"]);
    assert_eq!(turns[1]["created_at"], "2020-01-01T00:00:00Z");
    assert_eq!(turns[1]["parent"], turns[0]["id"]);
    assert_eq!(assembled(&project, &[])["parent_turn_id"], turns[1]["id"]);
}
