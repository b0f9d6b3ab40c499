//! Sessions: recording, reading, and cost.

use super::*;
use crate::support::exchange;
use contexture::turn::{NewTurn, Usage, turn_from_json};

#[test]
fn invalid_turns_are_rejected() {
    let nested = format!(
        "{{\"messages\":[{{\"role\":\"user\",\"context_json\":{}",
        "[".repeat(100_000)
    );
    let deep = format!(
        "messages[0].context_json{}…: recursion limit exceeded at line 1 column 168",
        "[0]".repeat(32)
    );
    for (text, message) in [
        ("", "it ends before a value at line 1 column 0"),
        ("{", "it ends inside an object at line 1 column 1"),
        (
            "{\"messages\":[",
            "messages: it ends inside a list at line 1 column 13",
        ),
        ("hello", "expected value at line 1 column 1"),
        (
            "{\"messages\":[]} and more",
            "trailing characters at line 1 column 17",
        ),
        (
            "[]",
            "invalid length 0, expected a turn: an object with `messages` at line 1 column 2",
        ),
        ("{}", "missing field `messages` at line 1 column 2"),
        (&nested, &deep),
        (
            r#"{"messages":[{"role":"user","cntent":"x"}]}"#,
            "messages[0].cntent: unknown field `cntent`, expected one of `role`, `source`, \
             `content`, `tool_call_id`, `is_error`, `context_json` at line 1 column 36",
        ),
        (
            r#"{"messages":[{"role":"robot","content":"x"}]}"#,
            "messages[0].role: unknown value `robot`, expected one of `system`, `developer`, `user`, \
             `assistant`, `tool` at line 1 column 28",
        ),
        (
            r#"{"messages":[{"role":"user","content":[{"type":"txt","text":"x"}]}]}"#,
            "messages[0].content[0].type: unknown value `txt`, expected one of `text`, `image`, \
             `audio`, `document`, `tool_call`, `tool_result`, `thinking`, `provider` at line 1 column 52",
        ),
        (
            r#"{"messages":[{"role":"user","content":5}]}"#,
            "messages[0].content: invalid type: integer `5`, expected text or a list of blocks at \
             line 1 column 39",
        ),
        (
            r#"{"messages":[],"usage":{"input_tokens":-1}}"#,
            "usage.input_tokens: invalid value: integer `-1`, expected a whole number, 0 or more at \
             line 1 column 41",
        ),
        (
            r#"{"messages":[],"parent_turn_id":"abc"}"#,
            "parent_turn_id: `abc` is not the id of a turn: a turn's id is 32 hexadecimal digits at line 1 \
             column 38",
        ),
    ] {
        let error = turn_from_json("turn.json", text).unwrap_err();
        assert_eq!(error.to_string(), format!("turn.json: {message}"));
        assert!(
            error
                .hint(&contexture::advice::Plain)
                .as_deref()
                .unwrap()
                .starts_with("write a turn as `{")
        );
    }
}

/// The suite of the stores tests the other rules for turns.
#[test]
fn turns_with_invalid_values_are_rejected() {
    let lab = project("", &[]);
    let refused = |turn: NewTurn| told(&lab.engine.record("chat", &turn, None).unwrap_err());
    let unnamed = NewTurn {
        model: Some(" ".to_owned()),
        ..exchange("Hi", "Hello.")
    };
    assert_eq!(
        refused(unnamed),
        "model: is empty\nhint: omit it when the model is unknown"
    );
    let long = "a ".repeat(10 << 20);
    assert_eq!(
        refused(exchange(&long, "Hello.")),
        "messages[0].content: is 20971520 bytes; the limit is 16777216 (limits.max_message_bytes)"
    );
    let keyed = |said: &str| NewTurn {
        idempotency_key: Some("k1".to_owned()),
        ..exchange(said, "Hello.")
    };
    lab.record("chat", &keyed("One"));
    assert_eq!(
        refused(keyed("Two")),
        "the idempotency key `k1` was used for another call; nothing was recorded\nhint: use a \
         new idempotency key for each call"
    );
}

#[test]
fn requests_are_found_by_how_their_hashes_begin() {
    let lab = project("", &[]);
    let snapshot = made(&lab, |_| {}).unwrap().snapshot.clone().unwrap();
    let mut like = contexture::snapshot::find(&*lab.store, &snapshot).unwrap();
    // Hashes that begin alike are rare.
    for end in ["0", "1"] {
        let hash = format!("abcdef{}{end}", "0".repeat(57));
        like.hash = serde_json::from_value(hash.into()).unwrap();
        lab.store.put_snapshot(&like, &[]).unwrap();
    }
    let error = contexture::snapshot::find(&*lab.store, "ABCDEF").unwrap_err();
    let why = "`ABCDEF` matches several snapshots; give more digits";
    assert_eq!(told(&error), why);
    let error = contexture::snapshot::find(&*lab.store, "xyz123").unwrap_err();
    let why = "`xyz123` is not a hash; give at least 4 hexadecimal digits";
    assert_eq!(
        told(&error),
        format!("{why}\nhint: `list_snapshots` lists the snapshots")
    );
}

#[test]
fn turns_are_found_by_how_their_ids_begin() {
    let lab = project("", &[]);
    let id = lab.record("chat", &exchange("Hi", "Hello.")).id.to_string();
    let fork = |label: &str, at: &str| lab.engine.fork(label, "new", Some(at), None);
    for none in ["", "abc", "not a turn"] {
        let message = format!("`{none}` is not a turn id; give at least 4 hexadecimal digits");
        assert_eq!(fork("chat", none).unwrap_err().to_string(), message);
    }
    lab.session("empty");
    assert_eq!(
        told(&fork("empty", &id).unwrap_err()),
        format!(
            "session `empty` has no turn `{id}`\n\
             hint: `get_history` of `empty` shows the turns"
        )
    );
    assert_eq!(
        fork("chat", &id[..6]).unwrap().head.unwrap().to_string(),
        id
    );
}

#[test]
fn a_fork_cost_what_its_path_cost() {
    let lab = project("", &[]);
    let turn = NewTurn {
        model: Some("gpt-4o".to_owned()),
        usage: Some(Usage {
            input_tokens: 1_000_000,
            ..Usage::default()
        }),
        ..exchange("Hi", "Hello.")
    };
    let first = lab.record("chat", &turn).id.to_string();
    lab.record("chat", &turn);
    lab.engine.fork("chat", "fork", Some(&first), None).unwrap();
    let dollars = |label: &str| lab.engine.cost(label).unwrap().dollars;
    assert_eq!((dollars("chat"), dollars("fork")), (5.0, 2.5));
}

#[test]
fn a_secret_in_the_conversation_is_masked() {
    let lab = project("", &[]);
    // The key is in two parts, so that scanners do not report this file as a
    // leak.
    let key = ["AKIA", "Z7QX2M4N6P8R3T5V"].concat();
    lab.record("chat", &exchange(&format!("The key is {key}."), "Noted."));
    let request = ask(&lab, |_| {});
    assert!(!request.to_string().contains(&key), "{request:#}");
    assert_eq!(request["report"]["guard"].as_array().unwrap().len(), 1);
    // The ledger has the original text.
    let said = format!("{:?}", lab.engine.history("chat", 1).unwrap());
    assert!(said.contains(&key), "{said}");
}

#[test]
fn invalid_settings_are_rejected() {
    let percent = "must be a percentage from 1 to 100";
    for (setting, message) in [
        (
            "compaction.threshold = 0",
            format!("compaction.threshold: {percent}"),
        ),
        (
            "compaction.threshold = 120",
            format!("compaction.threshold: {percent}"),
        ),
        (
            "compaction.threshold = nan",
            format!("compaction.threshold: {percent}"),
        ),
        (
            "compaction.overflow_target = -3",
            format!("compaction.overflow_target: {percent}"),
        ),
        (
            "compaction.summary = 0.5",
            format!("compaction.summary: {percent}"),
        ),
        (
            "compaction.target = 90",
            "compaction.target: must be at most compaction.threshold".to_owned(),
        ),
        (
            "summariser.kind = \"openai\"",
            "summariser.model: must be set when summariser.kind is not `extractive`".to_owned(),
        ),
    ] {
        let error = contexture::config::Config::parse(setting).unwrap_err();
        // A setting that is missing has no line.
        let line = if message.starts_with("summariser.") {
            ""
        } else {
            "1:"
        };
        assert_eq!(
            error.to_string(),
            format!("contexture.toml:{line} {message}")
        );
    }
    let error = contexture::config::Config::parse("summariser.kind = \"gpt\"").unwrap_err();
    let expected = "contexture.toml:1:19: unknown value `gpt`, expected one of `extractive`, `openai`, `anthropic`";
    assert_eq!(error.to_string(), expected);
}
