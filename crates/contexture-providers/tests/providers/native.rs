//! Bodies of the providers' own APIs are read: whole, as streams, and not at all
//! where they are none.
use contexture_core::message::{Block, Message, MessageRole};
use contexture_providers::native::{
    Api, NativeError, NativeResponse, StreamReader, is_native, read_exchange, read_request,
    read_response,
};
use serde_json::{Value, json};

fn read(body: &str) -> NativeResponse {
    read_response(body.as_bytes(), &Api::ALL).unwrap()
}

fn refused(body: &str) -> String {
    read_response(body.as_bytes(), &Api::ALL)
        .unwrap_err()
        .to_string()
}

/// Returns messages in few words: one line for each block.
fn outline(messages: &[Message]) -> Vec<String> {
    let mut lines = Vec::new();
    for message in messages {
        for block in message.blocks() {
            let own = block.native().map_or("", |_| " +own");
            let said = match &*block {
                Block::Text { text, .. } => format!("text {text}"),
                Block::Thinking {
                    text, signature, ..
                } => {
                    format!("thinking {text} {}", signature.as_deref().unwrap_or("-"))
                }
                Block::ToolCall {
                    id,
                    name,
                    arguments,
                    ..
                } => {
                    format!("call {id} {name} {arguments}")
                }
                Block::ToolResult {
                    tool_call_id,
                    content,
                    is_error,
                    ..
                } => {
                    format!(
                        "result {tool_call_id} {content}{}",
                        if *is_error { " failed" } else { "" }
                    )
                }
                Block::Provider { provider, raw } => format!("{provider} {}", raw.as_str()),
                media => format!("media {}", media.media().unwrap().media_type),
            };
            lines.push(format!("{}: {said}{own}", message.role.name()));
        }
    }
    lines
}

#[test]
fn anthropic_whole() {
    let body = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-5-5",
        "content":[
          {"type":"thinking","thinking":"Hm.","signature":"c2VhbA=="},
          {"type":"redacted_thinking","data":"c2Vj"},
          {"type":"text","text":"Let me look."},
          {"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}},
          {"type":"tool_use","id":"toolu_1","name":"shell","input":{"command":"make"}}],
        "stop_reason":"tool_use","stop_sequence":null,
        "usage":{"input_tokens":5,"cache_read_input_tokens":90,"cache_creation_input_tokens":5,"output_tokens":7}}"#;
    let read = read(body);
    assert_eq!(
        (read.api, read.id.as_deref()),
        (Api::Anthropic, Some("msg_1"))
    );
    assert_eq!(read.model.as_deref(), Some("claude-sonnet-5-5"));
    assert_eq!(read.stop_reason.as_deref(), Some("tool_use"));
    let usage = read.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.cached_input_tokens), (100, 90));
    assert_eq!(
        outline(&read.messages),
        [
            "assistant: thinking Hm. c2VhbA==",
            r#"assistant: anthropic {"type":"redacted_thinking","data":"c2Vj"}"#,
            "assistant: text Let me look.",
            r#"assistant: anthropic {"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}}"#,
            r#"assistant: call toolu_1 shell {"command":"make"}"#,
        ]
    );
}

#[test]
fn anthropic_request() {
    let body = r#"{"model":"claude-sonnet-5-5","max_tokens":4096,"thinking":{"type":"adaptive"},
        "system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],
        "tools":[{"name":"shell","description":"Runs","input_schema":{"type":"object"}},
                 {"type":"web_search_20250305","name":"web_search"}],
        "messages":[
          {"role":"user","content":"Build."},
          {"role":"system","content":[{"type":"text","text":"Two agents.","cache_control":{"type":"ephemeral"}}]},
          {"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"shell","input":{}}]},
          {"role":"user","content":[
             {"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"no such file"},{"type":"tool_reference","tool_name":"x"}],"is_error":true},
             {"type":"image","source":{"type":"url","url":"https://x.test/a.png"}},
             {"type":"image","source":{"type":"file","file_id":"file_1"}},
             {"type":"text","text":"And?","cache_control":{"type":"ephemeral"}}]}]}"#;
    let read = read_request(body.as_bytes(), &Api::ALL).unwrap();
    assert_eq!(read.api, Api::Anthropic);
    assert_eq!(read.system, [Block::text("Be brief.")]);
    let tools: Vec<_> = read
        .tools
        .iter()
        .map(|tool| tool.name.as_deref().unwrap())
        .collect();
    assert_eq!(tools, ["shell", "web_search"]);
    assert_eq!(
        read.tools[1].raw.as_str(),
        r#"{"type":"web_search_20250305","name":"web_search"}"#
    );
    let settings: Vec<_> = read
        .settings
        .iter()
        .map(|(name, raw)| (name.as_str(), raw.as_str()))
        .collect();
    assert_eq!(
        settings,
        [
            ("max_tokens", "4096"),
            ("thinking", r#"{"type":"adaptive"}"#)
        ]
    );
    assert_eq!(
        outline(&read.messages),
        [
            "user: text Build.",
            "system: text Two agents. +own",
            "assistant: call t1 shell {}",
            "tool: result t1 no such file\n\n{\"type\":\"tool_reference\",\"tool_name\":\"x\"} failed +own",
            "user: media image/png",
            r#"user: anthropic {"type":"image","source":{"type":"file","file_id":"file_1"}}"#,
            "user: text And?",
        ]
    );
}

#[test]
fn chat_whole() {
    let body = r#"{"id":"c1","object":"chat.completion","model":"gpt-5.5","choices":[{"index":0,
        "message":{"role":"assistant","content":null,"refusal":null,"annotations":[],"reasoning_content":"hm",
          "tool_calls":[
            {"id":"a","type":"function","function":{"name":"get","arguments":"{\"n\":1}"}},
            {"id":"b","type":"function","function":{"name":"get","arguments":"{\"n\": 1}"}},
            {"id":"c","type":"function","function":{"name":"get","arguments":"{\"n\":"}},
            {"id":"d","type":"custom","custom":{"name":"patch","input":"*** Begin"}}]},
        "finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#;
    let read = read(body);
    assert_eq!(
        (read.api, read.stop_reason.as_deref()),
        (Api::OpenAiChat, Some("tool_calls"))
    );
    assert_eq!(
        outline(&read.messages),
        [
            r#"assistant: openai-chat {"reasoning_content":"hm"}"#,
            r#"assistant: call a get {"n":1}"#,
            r#"assistant: call b get {"n":1} +own"#,
            r#"assistant: call c get "{\"n\":""#,
            r#"assistant: call d patch "*** Begin" +own"#,
        ]
    );
    let refusal = r#"{"choices":[{"message":{"role":"assistant","content":null,"refusal":"I will not."},"finish_reason":"stop"}]}"#;
    assert_eq!(
        outline(&super_read(refusal)),
        ["assistant: text I will not. +own"]
    );
}

fn super_read(body: &str) -> Vec<Message> {
    read(body).messages
}

#[test]
fn chat_request() {
    let body = r#"{"model":"gpt-5.5","temperature":1.0,"tools":[{"type":"function","function":{"name":"get"}}],
        "messages":[
          {"role":"system","content":"Be brief."},{"role":"developer","content":"And kind."},
          {"role":"user","name":"ana","content":"Hi"},
          {"role":"user","content":[{"type":"text","text":"See"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}}]},
          {"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"get","arguments":"{}"}}]},
          {"role":"tool","tool_call_id":"a","content":"1"},
          {"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"2"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"chart"}]},
          {"role":"system","content":"Later."}]}"#;
    let read = read_request(body.as_bytes(), &Api::ALL).unwrap();
    assert_eq!(read.api, Api::OpenAiChat);
    assert_eq!(read.system.len(), 2);
    assert_eq!(read.tools[0].name.as_deref(), Some("get"));
    assert_eq!(read.settings[0].1.as_str(), "1.0");
    assert_eq!(
        outline(&read.messages),
        [
            "user: text Hi +own",
            "user: text See +own",
            "user: media image/png +own",
            "assistant: call a get {}",
            "tool: result a 1",
            "tool: result b 2\n\n{\"type\":\"chart\"} +own",
            "tool: media image/png",
            "system: text Later. +own",
        ]
    );
}

#[test]
fn responses_whole_and_request() {
    let items = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2VhbA=="},
        {"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hi.","annotations":[]}]},
        {"type":"function_call","id":"fc_1","call_id":"call_1","name":"shell","arguments":"{}","status":"completed"},
        {"type":"web_search_call","id":"ws_1","status":"completed"}"#;
    let body = |status: &str| {
        format!(
            r#"{{"id":"resp_1","object":"response",{status},"model":"gpt-5.5","output":[{items}],
            "usage":{{"input_tokens":10,"input_tokens_details":{{"cached_tokens":4}},"output_tokens":3}}}}"#
        )
    };
    let read = read(&body(r#""status":"completed""#));
    assert_eq!(
        (read.api, read.stop_reason.as_deref()),
        (Api::OpenAiResponses, Some("tool_calls"))
    );
    let said = outline(&read.messages);
    assert_eq!(
        said,
        [
            r#"assistant: openai-responses {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2VhbA=="}"#,
            "assistant: text Hi. +own",
            "assistant: call call_1 shell {} +own",
            r#"assistant: openai-responses {"type":"web_search_call","id":"ws_1","status":"completed"}"#,
        ]
    );
    for (status, reason) in [
        (
            r#""status":"incomplete","incomplete_details":{"reason":"content_filter"}"#,
            "content_filter",
        ),
        (
            r#""status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}"#,
            "max_tokens",
        ),
        (r#""status":"incomplete""#, "incomplete"),
        (r#""status":"cancelled""#, "cancelled"),
    ] {
        assert_eq!(super_reason(&body(status)).as_deref(), Some(reason));
    }
    assert_eq!(
        refused(&body(r#""status":"in_progress""#)),
        "status: is `in_progress`: the response is not finished; record it when it is"
    );
    let request = format!(
        r#"{{"model":"gpt-5.5","instructions":"Be brief.","store":false,"prompt_cache_key":"t1","input":[
            {{"type":"additional_tools","tools":[]}},
            {{"type":"message","role":"developer","content":[{{"type":"input_text","text":"cwd /srv"}}]}},
            {{"type":"message","role":"user","content":[{{"type":"input_text","text":"Go."}}]}},
            {items},
            {{"type":"function_call_output","call_id":"call_1","output":"ok"}},
            {{"type":"compaction","id":"cmp_1","encrypted_content":"c2Vj"}}]}}"#
    );
    let read = read_request(request.as_bytes(), &Api::ALL).unwrap();
    assert_eq!(read.system, [Block::text("Be brief.")]);
    let mut expected = vec![
        r#"user: openai-responses {"type":"additional_tools","tools":[]}"#.to_owned(),
        "system: text cwd /srv +own".to_owned(),
        "user: text Go.".to_owned(),
    ];
    expected.extend(said);
    expected.push("tool: result call_1 ok".to_owned());
    expected.push(
        r#"assistant: openai-responses {"type":"compaction","id":"cmp_1","encrypted_content":"c2Vj"}"#.to_owned(),
    );
    assert_eq!(outline(&read.messages), expected);
}

/// A program may give its system prompt in a field, as messages, or both.
#[test]
fn instructions_before_the_conversation_are_no_part_of_it() {
    let lead = r#"{"role":"developer","name":"ops","content":[{"type":"text","text":"A"},{"type":"text","text":"B"}]},{"role":"system","content":"C"}"#;
    let body =
        format!(r#"{{"model":"gpt-4o","messages":[{lead},{{"role":"user","content":"Hi"}}]}}"#);
    let chat = read_request(body.as_bytes(), &[Api::OpenAiChat]).unwrap();
    let body = format!(
        r#"{{"model":"gpt-4o","instructions":"I","input":[{lead},{{"role":"user","content":"Hi"}}]}}"#
    );
    let responses = read_request(body.as_bytes(), &[Api::OpenAiResponses]).unwrap();
    for (read, before) in [(chat, 0), (responses, 1)] {
        assert_eq!(outline(&read.messages), ["user: text Hi"]);
        let system = &read.system[before..];
        let raw = |block: &Block| block.native().unwrap().raw.as_str().to_owned();
        let raws: Vec<String> = system.iter().map(raw).collect();
        assert_eq!(raws.join(","), lead);
        let texts = system.iter().map(|block| match block {
            Block::Text { text, .. } => text.as_str(),
            _ => "",
        });
        assert_eq!(texts.collect::<Vec<_>>(), ["A\n\nB", "C"]);
    }
}

/// Texts that another API can express are read as texts.
#[test]
fn texts_in_other_forms_are_texts() {
    let body = r#"{"model":"claude-sonnet-5-5","max_tokens":9,"messages":[{"role":"user","content":[
        {"type":"document","title":"Notes","source":{"type":"text","media_type":"text/plain","data":"The code is 7."}},
        {"type":"image","source":{"type":"url","url":"https://x.test/a.webp?k=1"}}]}]}"#;
    let read = read_request(body.as_bytes(), &Api::ALL).unwrap();
    assert_eq!(
        outline(&read.messages),
        [
            "user: text Notes\n\nThe code is 7. +own",
            "user: media image/webp"
        ]
    );
    let body = r#"{"model":"gpt-4o","messages":[
        {"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.test/a.JPG"}}]},
        {"role":"assistant","content":[{"type":"refusal","refusal":"No."}]}]}"#;
    let read = read_request(body.as_bytes(), &Api::ALL).unwrap();
    assert_eq!(
        outline(&read.messages),
        ["user: media image/jpeg", "assistant: text No. +own"]
    );
}

/// Google's own examples have names in snake case.
#[test]
fn gemini_in_snake_case() {
    let body = r#"{"system_instruction":{"parts":[{"text":"Be brief."}]},
        "tools":[{"function_declarations":[{"name":"get"}]}],
        "generation_config":{"max_output_tokens":9},"contents":[
        {"role":"user","parts":[{"inline_data":{"mime_type":"image/png","data":"AAAA"}},{"text":"Go."}]},
        {"role":"model","parts":[{"function_call":{"name":"get","args":{"n":1}}}]},
        {"role":"user","parts":[{"function_response":{"name":"get","response":{"output":"1"}}}]}]}"#;
    let read = read_request(body.as_bytes(), &Api::ALL).unwrap();
    assert_eq!(read.system, [Block::text("Be brief.")]);
    assert_eq!(read.tools[0].name.as_deref(), Some("get"));
    assert_eq!(
        outline(&read.messages),
        [
            "user: media image/png +own",
            "user: text Go.",
            r#"assistant: call get-1 get {"n":1} +own"#,
            "tool: result get-1 1 +own",
        ]
    );
}

fn super_reason(body: &str) -> Option<String> {
    read(body).stop_reason
}

#[test]
fn gemini_whole_and_request() {
    let parts = r#"{"text":"Hm.","thought":true},{"functionCall":{"name":"get","args":{"n":1}},"thoughtSignature":"c2Vh"},
        {"functionCall":{"name":"get","args":{"n":2}}},{"executableCode":{"language":"PYTHON","code":"1"}},{"text":"","thoughtSignature":"c2Vi"}"#;
    let body = format!(
        r#"{{"candidates":[{{"content":{{"role":"model","parts":[{parts}]}},"finishReason":"SAFETY"}}],
            "usageMetadata":{{"promptTokenCount":10,"candidatesTokenCount":2}},"modelVersion":"gemini-3.8-flash","responseId":"r1"}}"#
    );
    let read = read(&body);
    assert_eq!(
        (read.api, read.stop_reason.as_deref()),
        (Api::Gemini, Some("SAFETY"))
    );
    assert_eq!(
        (read.id.as_deref(), read.model.as_deref()),
        (Some("r1"), Some("gemini-3.8-flash"))
    );
    let said = outline(&read.messages);
    assert_eq!(
        said,
        [
            "assistant: thinking Hm. - +own",
            r#"assistant: call get-1 get {"n":1} +own"#,
            r#"assistant: call get-2 get {"n":2} +own"#,
            r#"assistant: gemini {"executableCode":{"language":"PYTHON","code":"1"}}"#,
            r#"assistant: gemini {"text":"","thoughtSignature":"c2Vi"}"#,
        ]
    );
    let request = format!(
        r#"{{"systemInstruction":{{"parts":[{{"text":"Be brief."}}]}},"generationConfig":{{"temperature":1.0}},
            "tools":[{{"functionDeclarations":[{{"name":"get"}}]}},{{"googleSearch":{{}}}}],
            "contents":[{{"role":"user","parts":[{{"text":"Go."}}]}},{{"role":"model","parts":[{parts}]}},
              {{"role":"user","parts":[{{"functionResponse":{{"name":"get","response":{{"output":"a"}}}}}},
                {{"functionResponse":{{"name":"get","response":{{"error":"b"}}}}}},{{"text":"Well?"}}]}}]}}"#
    );
    let read = read_request(request.as_bytes(), &Api::ALL).unwrap();
    assert_eq!(read.system, [Block::text("Be brief.")]);
    assert_eq!(read.tools.len(), 2);
    let mut expected = vec!["user: text Go.".to_owned()];
    expected.extend(said);
    expected.extend([
        "tool: result get-1 a +own".to_owned(),
        "tool: result get-2 b failed +own".to_owned(),
        "user: text Well?".to_owned(),
    ]);
    assert_eq!(outline(&read.messages), expected);
}

// --- Streams -----------------------------------------------------------------

fn sse(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| {
            format!(
                "event: {}\r\ndata: {event}\r\n\r\n",
                event["type"].as_str().unwrap_or("x")
            )
        })
        .collect()
}

fn anthropic_events() -> Vec<Value> {
    vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
            "model": "claude-sonnet-5-5", "content": [], "stop_reason": null,
            "usage": {"input_tokens": 10, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": ", é漢🦀."}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2VhbA=="}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "c2Vj"}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "t1", "name": "shell", "input": {}}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ""}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{\"n\": "}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "1.50}"}}),
        json!({"type": "content_block_stop", "index": 2}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}}),
        json!({"type": "message_stop"}),
    ]
}

#[test]
fn a_stream_split_anywhere_reads_the_same() {
    let stream = sse(&anthropic_events());
    let whole = read(&stream);
    assert_eq!(
        outline(&whole.messages),
        [
            "assistant: thinking Hm, é漢🦀. c2VhbA==",
            r#"assistant: anthropic {"type":"redacted_thinking","data":"c2Vj"}"#,
            r#"assistant: call t1 shell {"n":1.5} +own"#,
        ]
    );
    let usage = whole.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (10, 20));
    for size in [1, 2, 3, 7] {
        let mut reader = StreamReader::new();
        for chunk in stream.as_bytes().chunks(size) {
            reader.push(chunk);
        }
        assert_eq!(reader.finish(&Api::ALL).unwrap(), whole);
    }
    // The end is missing in the middle of a character.
    let mut reader = StreamReader::new();
    let at = stream.find('漢').unwrap() + 1;
    reader.push(&stream.as_bytes()[..at]);
    let error = reader.finish(&Api::ALL).unwrap_err();
    assert_eq!(error.message, format!("is not UTF-8 at byte {}", at - 1));
}

#[test]
fn half_a_stream_says_what_is_missing() {
    let events = anthropic_events();
    let cut = |n: usize| refused(&sse(&events[..n]));
    for (n, missing) in [
        (1, "it has no `message_stop` (1 event came)"),
        (
            4,
            "it has no `content_block_stop` for block 0 (4 events came)",
        ),
        (
            12,
            "it has no `content_block_stop` for block 2 (12 events came)",
        ),
        (15, "it has no `message_stop` (15 events came)"),
    ] {
        assert!(
            cut(n).starts_with(&format!("the stream was cut off: {missing}")),
            "{}",
            cut(n)
        );
    }
    let torn = sse(&events);
    let torn = &torn[..torn.rfind("message_stop\"").unwrap()];
    assert!(
        refused(torn).starts_with("event 16: is not JSON"),
        "{}",
        refused(torn)
    );
    assert!(refused(torn).ends_with("the stream may have been cut off here"));
    let chat = sse(&[json!({"choices": [{"index": 0, "delta": {"content": "Hel"}}]})]);
    assert!(refused(&chat).contains("it has no `finish_reason`"));
    let responses = sse(&[json!({"type": "response.created", "response": {"id": "r"}})]);
    assert!(refused(&responses).contains("it has no `response.completed`"));
    let gemini = r#"[{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}]"#;
    assert!(refused(gemini).contains("it has no `finishReason`"));
    assert!(refused("[{\"candidates\":[").contains("the stream may have been cut off"));
}

#[test]
fn arguments_that_were_cut_off_are_kept() {
    let mut events = anthropic_events();
    events.remove(12);
    events[13] = json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}});
    let read = read(&sse(&events));
    let last = outline(&read.messages).pop().unwrap();
    assert_eq!(last, r#"assistant: call t1 shell "{\"n\": ""#);
}

#[test]
fn a_chat_stream_is_put_together() {
    let delta = |delta: Value| json!({"id": "c1", "model": "gpt-5.5", "choices": [{"index": 0, "delta": delta}]});
    let mut stream = sse(&[
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"reasoning_content": "h"})),
        delta(json!({"reasoning_content": "m"})),
        delta(json!({"content": "Let me "})),
        delta(json!({"content": "look."})),
        delta(
            json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "get", "arguments": ""}}]}),
        ),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"n\""}}]})),
        delta(
            json!({"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "put", "arguments": "{}"}}]}),
        ),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]})),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 2}}),
    ]);
    stream.push_str("data: [DONE]\n\n");
    let read = read(&stream);
    assert_eq!(read.usage.unwrap().input_tokens, 4);
    assert_eq!(read.stop_reason.as_deref(), Some("tool_calls"));
    assert_eq!(
        outline(&read.messages),
        [
            r#"assistant: openai-chat {"reasoning_content":"hm"}"#,
            "assistant: text Let me look.",
            r#"assistant: call a get {"n":1}"#,
            "assistant: call b put {}",
        ]
    );
}

#[test]
fn a_responses_stream_has_its_items_at_the_end_or_on_the_way() {
    let item = r#"{"type":"reasoning","id":"rs_1","summary":[],"n":1.50}"#;
    let end = |output: &str| {
        format!(
            "data: {{\"type\":\"response.created\",\"response\":{{\"id\":\"r1\"}}}}\n\n\
         data: {{\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{item}}}\n\n\
         data: {{\"type\":\"response.completed\",\"response\":{{\"id\":\"r1\",\"status\":\"completed\",\"model\":\"gpt-5.5\",\"output\":[{output}]}}}}\n\n"
        )
    };
    let expected = [format!("assistant: openai-responses {item}")];
    assert_eq!(outline(&read(&end(item)).messages), expected);
    assert_eq!(outline(&read(&end("")).messages), expected);
    let failed = sse(&[
        json!({"type": "response.created", "response": {"id": "r1"}}),
        json!({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "Oh."}}}),
    ]);
    assert!(refused(&failed).contains("the provider answered with the error server_error: Oh."));
}

#[test]
fn a_gemini_stream_is_a_list_or_lines_or_events() {
    let chunks = [
        r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"Hel"}]}}],"modelVersion":"gemini-3.8-flash"}"#,
        r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"lo."}]}}]}"#,
        r#"{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"get","args":{"n":1.50}},"thoughtSignature":"c2Vh"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3}}"#,
    ];
    let lines = chunks.join("\n");
    let list = format!("[{}\n]", chunks.join(",\r\n"));
    let events: String = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\r\n\r\n"))
        .collect();
    for stream in [lines, list, events] {
        let read = read(&stream);
        assert_eq!(read.model.as_deref(), Some("gemini-3.8-flash"));
        assert_eq!(
            outline(&read.messages),
            [
                "assistant: text Hello.",
                r#"assistant: call get-1 get {"n":1.5} +own"#
            ]
        );
        let message = &read.messages[0];
        let own = message.blocks()[1]
            .native()
            .unwrap()
            .raw
            .as_str()
            .to_owned();
        assert!(own.contains("1.50"), "{own}");
    }
}

// --- What is none ------------------------------------------------------------

#[test]
fn a_body_of_another_provider_is_refused() {
    let chat =
        r#"{"choices":[{"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}"#;
    let refused = |body: &str, name: &str| -> NativeError {
        read_response(body.as_bytes(), Api::named(name).unwrap()).unwrap_err()
    };
    assert_eq!(
        refused(chat, "anthropic").to_string(),
        "is a response of openai-chat, not of anthropic: name the right provider, or none to detect it"
    );
    assert!(read_response(chat.as_bytes(), Api::named("openai").unwrap()).is_ok());
    assert_eq!(
        refused(&sse(&anthropic_events()), "openai").message,
        "is a stream of anthropic, not of openai-chat or openai-responses: name the right provider, or none to detect it"
    );
    assert_eq!(
        refused("{\"hello\":1}", "gemini").to_string(),
        "is no response of a provider that Contexture can read: a response of Gemini has `candidates`"
    );
}

#[test]
fn errors_name_the_path() {
    let anthropic =
        |content: &str| format!(r#"{{"type":"message","role":"assistant","content":{content}}}"#);
    for (body, error) in [
        (anthropic("7"), "content: must be a list, not a number"),
        (
            anthropic("[7]"),
            "content[0]: must be an object, not a number",
        ),
        (
            anthropic("[{}]"),
            "content[0].type: is missing: every block has a `type`",
        ),
        (
            anthropic(r#"[{"type":"text","text":1}]"#),
            "content[0].text: must be a string, not a number",
        ),
        (
            anthropic(r#"[{"type":"tool_use","name":"x"}]"#),
            "content[0].id: is missing",
        ),
        (
            r#"{"choices":[]}"#.to_owned(),
            "choices: is empty: the response has no answer",
        ),
        (
            r#"{"choices":[{}]}"#.to_owned(),
            "choices[0].message: is missing",
        ),
        (String::new(), "is empty: there is no body to read"),
        (
            "{".to_owned(),
            "is not JSON: EOF while parsing an object at line 1 column 1",
        ),
    ] {
        assert_eq!(refused(&body), error);
    }
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert!(
        refused(overloaded).starts_with(
            "error: the provider answered with the error overloaded_error: Overloaded."
        )
    );
    // A text block without its text is named by its message and its place there.
    for (body, path) in [
        (
            r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"},{"type":"text"}]}]}"#,
            "messages[1].content[1].text",
        ),
        (
            r#"{"model":"m","max_tokens":9,"system":[{"type":"text","text":null}],"messages":[{"role":"user","content":"a"}]}"#,
            "system[0].text",
        ),
        (
            r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_text"}]}]}"#,
            "input[0].content[0].text",
        ),
        (
            r#"{"model":"m","messages":[{"role":"system","content":[{"type":"text"}]},{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a.b/c.png"}}]}]}"#,
            "messages[0].content[0].text",
        ),
        (
            r#"{"model":"m","messages":[{"role":"tool","tool_call_id":"c","content":[{"type":"text"}]}]}"#,
            "messages[0].content[0].text",
        ),
    ] {
        let error = read_request(body.as_bytes(), &Api::ALL).unwrap_err();
        assert_eq!(error.to_string(), format!("{path}: is missing"));
    }
    let exchange = |body: &str| {
        read_exchange(body.as_bytes(), &Api::ALL)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        exchange(r#"{"request":{}}"#),
        "response: is missing: add the provider's response, whole or as a recorded stream"
    );
    assert!(
        exchange(r#"{"provider":"acme","response":{}}"#)
            .starts_with("provider: unknown provider `acme`")
    );
    let inner = format!(r#"{{"response":{}}}"#, anthropic("[{}]"));
    assert!(exchange(&inner).starts_with("response.content[0].type: is missing"));
}

#[test]
fn requests_are_distinguished() {
    for (body, api) in [
        (
            r#"{"model":"claude-sonnet-5-5","max_tokens":1,"messages":[{"role":"user","content":"a"}]}"#,
            Api::Anthropic,
        ),
        (
            r#"{"model":"m","system":"s","messages":[]}"#,
            Api::Anthropic,
        ),
        (
            r#"{"model":"gpt-5.5","messages":[{"role":"user","content":"a"}]}"#,
            Api::OpenAiChat,
        ),
        (
            r#"{"model":"claude-sonnet-5-5","messages":[{"role":"system","content":"a"}]}"#,
            Api::OpenAiChat,
        ),
        // Servers behind the Chat API accept Anthropic's marks.
        (
            r#"{"model":"m","max_tokens":1,"messages":[{"role":"system","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}]}"#,
            Api::OpenAiChat,
        ),
        (
            r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}]}"#,
            Api::Anthropic,
        ),
        (r#"{"model":"gpt-5.5","input":"a"}"#, Api::OpenAiResponses),
        (r#"{"contents":[]}"#, Api::Gemini),
    ] {
        assert_eq!(
            read_request(body.as_bytes(), &Api::ALL).unwrap().api,
            api,
            "{body}"
        );
    }
    let marked = r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}]}"#;
    let chat = Api::named("openai").unwrap();
    let read = read_request(marked.as_bytes(), chat).unwrap();
    assert_eq!(read.api, Api::OpenAiChat);
}

#[test]
fn our_own_form_is_not_confused_with_a_providers() {
    for body in [
        r#"{"messages":[]}"#,
        r#"{"messages":[],"model":"m","usage":{}}"#,
        "{}",
        "7",
        "not JSON",
    ] {
        assert!(!is_native(body.as_bytes()), "{body}");
    }
    for body in [
        r#"{"response":{}}"#,
        r#"{"choices":[]}"#,
        r#"{"candidates":[]}"#,
        r#"{"output":[]}"#,
        r#"{"content":[],"role":"assistant"}"#,
        "data: {}\n\n",
        "event: x\n",
        ": comment\n",
        "[]",
        r#"{"type":"error","error":{}}"#,
        "{}\n{}",
    ] {
        assert!(is_native(body.as_bytes()), "{body}");
    }
}

#[test]
fn roles_are_those_of_the_speakers() {
    let read = read_request(
        br#"{"model":"m","system":"s","messages":[{"role":"user","content":[{"type":"text","text":"a"},
            {"type":"tool_result","tool_use_id":"t","content":"r"}]}]}"#,
        &Api::ALL,
    )
    .unwrap();
    let roles: Vec<MessageRole> = read.messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [MessageRole::Tool, MessageRole::User]);
}
