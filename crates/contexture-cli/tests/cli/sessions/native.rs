//! `session record` with the bodies of providers, as they came.

use super::*;

const RESPONSE: &str = r#"{"id":"msg_01","type":"message","role":"assistant","model":"claude-sonnet-5-5",
    "content":[
      {"type":"thinking","thinking":"The log names foo.","signature":"EqQBCkYIBxgC"},
      {"type":"redacted_thinking","data":"EmwKAhgBEgyz"},
      {"type":"tool_use","id":"toolu_01A09q90qw90lq91","name":"shell","input":{"command":"make"}}],
    "stop_reason":"tool_use","usage":{"input_tokens":512,"output_tokens":48}}"#;

const STREAM: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_02","type":"message","role":"assistant","model":"claude-sonnet-5-5","content":[],"usage":{"input_tokens":600,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I cannot do thät."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"refusal"},"usage":{"output_tokens":9}}

event: message_stop
data: {"type":"message_stop"}

"#;

fn exchange() -> String {
    json!({
        "provider": "anthropic",
        "request": {"model": "claude-sonnet-5-5", "max_tokens": 1000, "messages": [
            {"role": "user", "content": "Build."},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "toolu_01A09q90qw90lq91", "name": "shell",
                 "input": {"command": "make"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_01A09q90qw90lq91",
                 "content": "undefined reference to foo", "is_error": true}]},
        ]},
        "response": STREAM,
    })
    .to_string()
}

#[test]
fn responses_and_streams_are_recorded_and_shown() {
    let project = chat()
        .file(
            "question.json",
            r#"{"messages":[{"role":"user","content":"Build."}]}"#,
        )
        .file("response.json", RESPONSE)
        .file("exchange.json", exchange());
    for file in ["question.json", "response.json", "exchange.json"] {
        project.ok(&["session", "record", "chat", file, "--now", NOW]);
    }
    let shown = project.ok(&["session", "history", "chat"]);
    let ids = json_of(&project, &["session", "history", "chat"]);
    let id = |n: usize| text(&ids[n]["id"])[..8].to_owned();
    assert_eq!(
        shown,
        format!(
            "1 {} 2026-01-31T12:00:00Z\n  \
               user      Build.\n\n\
             2 {} 2026-01-31T12:00:00Z claude-sonnet-5-5\n  \
               assistant (thinks) The log names foo.\n  \
               assistant [anthropic] {{\"type\":\"redacted_thinking\",\"data\":\"EmwKAhgBEgyz\"}}\n  \
               assistant calls shell {{\"command\":\"make\"}}\n\n\
             3 {} 2026-01-31T12:00:00Z claude-sonnet-5-5 (stopped: refusal)\n  \
               tool      failed: undefined reference to foo\n  \
               assistant I cannot do thät.\n\n",
            id(0),
            id(1),
            id(2)
        )
    );
    let args = "assemble --recipe broker --session chat --event Well? --model claude-sonnet-5-5 \
                --format anthropic --now 2026-01-31T12:00:00Z";
    let args: Vec<&str> = args.split_whitespace().collect();
    let request = project.ok(&args);
    assert!(
        request.contains("\n        {\"type\":\"redacted_thinking\",\"data\":\"EmwKAhgBEgyz\"},\n"),
        "{request}"
    );
}

#[test]
fn a_body_with_a_wrong_content_type() {
    let half = &STREAM[..STREAM.find("event: content_block_stop").unwrap()];
    let project = chat()
        .file("response.json", RESPONSE)
        .file("half.sse", half);
    project.refuses(
        &[
            "session",
            "record",
            "chat",
            "response.json",
            "--from",
            "gemini",
        ],
        2,
        "error: response.json: is a response of anthropic, not of gemini: name the right provider, \
         or none to detect it\n",
    );
    project.refuses(
        &["session", "record", "chat", "half.sse"],
        2,
        "error: half.sse: the stream was cut off: it has no `content_block_stop` for block 0 (3 \
         events came). Record the whole stream, or the part that arrived in Contexture's own form \
         with `status` or `error`\n",
    );
    let run = project.run(&["session", "record", "chat", "half.sse", "--from", "acme"]);
    run.expect_code(2);
    assert!(
        run.err
            .contains("anthropic, openai, openai-chat, openai-responses, gemini"),
        "{}",
        run.err
    );
    assert_eq!(json_of(&project, &["session", "show", "chat"])["turns"], 0);
}
