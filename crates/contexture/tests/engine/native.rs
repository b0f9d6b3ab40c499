//! The bodies of providers are recorded as they are, and go back as they were.

use crate::support::*;
use contexture::native::Api;
use contexture::store::{NewTurn, ParentTurn, StopReason, StoreError, TurnId};
use contexture::turn::turn_from_json;
use contexture::{Assembled, Format, Recording, Request};
use proptest::prelude::*;
use serde_json::{Value, json};

const APIS: [(Api, &str); 4] = [
    (Api::Anthropic, "claude-sonnet-5-5"),
    (Api::OpenAiChat, "gpt-5.5"),
    (Api::OpenAiResponses, "gpt-5.5"),
    (Api::Gemini, "gemini-3.8-flash"),
];

fn read(lab: &Lab, label: &str, body: &str) -> Result<NewTurn, contexture::Error> {
    let recording = Recording::read("body", body.as_bytes(), None)?;
    lab.engine.turn_of(label, recording)
}

fn record(lab: &Lab, label: &str, body: &str) -> NewTurn {
    let turn = read(lab, label, body).unwrap();
    lab.record(label, &turn);
    turn
}

fn assemble(lab: &Lab, label: &str, model: &str, format: Format) -> Assembled {
    let request = Request {
        model: Some(model.to_owned()),
        format: Some(format),
        ..request(label, 60_000)
    };
    lab.engine.assemble(&lab.root, &request).unwrap()
}

/// Returns a request without its cache marks and without blanks.
fn rendered(assembled: &Assembled, format: Format) -> String {
    let body = assembled.render_compact(format).unwrap();
    body.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
}

/// Returns a response of an API with these parts, verbatim.
fn response(api: Api, model: &str, parts: &[String]) -> String {
    let parts = parts.join(",");
    match api {
        Api::Anthropic => format!(
            r#"{{"id":"msg_1","type":"message","role":"assistant","model":"{model}","content":[{parts}],"stop_reason":"end_turn"}}"#
        ),
        Api::OpenAiChat => format!(
            r#"{{"id":"c","model":"{model}","choices":[{{"index":0,"message":{{"role":"assistant","content":"Said.","tool_calls":[{parts}]}},"finish_reason":"stop"}}]}}"#
        ),
        Api::OpenAiResponses => format!(
            r#"{{"id":"resp_1","object":"response","status":"completed","model":"{model}","output":[{parts}]}}"#
        ),
        Api::Gemini => format!(
            r#"{{"candidates":[{{"content":{{"role":"model","parts":[{parts}]}},"finishReason":"STOP"}}],"modelVersion":"{model}"}}"#
        ),
    }
}

/// Checks that the request has the parts, byte for byte and in order.
fn in_order(body: &str, parts: &[String]) -> Result<(), String> {
    let mut from = 0;
    for part in parts {
        match body[from..].find(part.as_str()) {
            Some(at) => from += at + part.len(),
            None => return Err(format!("{part}\nis not in its place in\n{body}")),
        }
    }
    Ok(())
}

// --- The law -----------------------------------------------------------------

/// JSON in another writer's style: with blanks, escapes and odd numbers.
fn json_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("1.0".to_owned()),
        Just("-0".to_owned()),
        Just("1E5".to_owned()),
        Just("0.10".to_owned()),
        Just("12345678901234567890123".to_owned()),
        Just(r#""caf\u00e9 \/ \"x\" \ud83e\udd80""#.to_owned()),
        "[a-zA-Z0-9 <>é漢]{0,40}".prop_map(|text| format!("\"{text}\"")),
        "[A-Za-z0-9+/]{100,140}".prop_map(|text| format!("\"{text}==\"")),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..3), blank())
                .prop_map(|(list, blank)| format!("[{blank}{}{blank}]", list.join(","))),
            (prop::collection::vec(inner, 0..3), blank()).prop_map(|(list, blank)| {
                let fields = list.iter().enumerate();
                let fields = fields.map(|(i, value)| format!("\"f{i}\"{blank}:{blank}{value}"));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
            }),
        ]
    })
}

fn blank() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just(""), Just(" "), Just("\n  "), Just("\t")]
}

/// Parts of an answer: opaque ones, and those that are understood.
fn parts(api: Api) -> impl Strategy<Value = Vec<String>> {
    let one = (
        any::<prop::sample::Index>(),
        json_text(),
        blank(),
        "[a-z]{1,8}",
    );
    prop::collection::vec(one, 1..6).prop_map(move |parts| {
        let parts = parts.into_iter().enumerate();
        parts
            .map(|(i, (kind, value, blank, word))| {
                part(api, kind.index(4), i, &value, blank, &word)
            })
            .collect()
    })
}

fn part(api: Api, kind: usize, i: usize, value: &str, blank: &str, word: &str) -> String {
    let id = format!("call_{word}_0123456789abcdef_{i}");
    match (api, kind) {
        (Api::Anthropic, 0) => format!(r#"{{"type":"text","text":"{word} {i}"}}"#),
        // Blanks and escapes in what is understood are not kept; everything else is.
        (Api::Anthropic, 1) => format!(
            r#"{{"type":"tool_use","id":"{id}","name":"{word}","input":{{"a":{}}}}}"#,
            PLAIN[i % PLAIN.len()]
        ),
        (Api::Anthropic, 2) => {
            format!(r#"{{"type":"text",{blank}"text":"{word} {i}","citations":[{value}]}}"#)
        }
        (Api::Anthropic, _) => format!(r#"{{{blank}"type":"x_{word}","more":{value}{blank}}}"#),
        (Api::OpenAiChat, 0) => format!(
            r#"{{"id":"{id}","type":"function","function":{{"name":"{word}","arguments":"{{\"a\":{i}}}"}}}}"#
        ),
        (Api::OpenAiChat, 1) => format!(
            r#"{{"id":"{id}","type":"function","function":{{"name":"{word}","arguments":"{{\"a\":"}}}}"#
        ),
        (Api::OpenAiChat, 2) => format!(
            r#"{{"id":"{id}","type":"custom","custom":{{"name":"{word}","input":"any text {i}"}}}}"#
        ),
        (Api::OpenAiChat, _) => format!(
            r#"{{"id":"{id}",{blank}"type":"function","function":{{"name":"{word}","arguments":"{{}}"}},"extra_content":{value}}}"#
        ),
        (Api::OpenAiResponses, 0) => format!(
            r#"{{"type":"message","id":"m{i}","role":"assistant","content":[{{"type":"output_text","text":"{word}","annotations":[{value}]}}]}}"#
        ),
        (Api::OpenAiResponses, 1) => format!(
            r#"{{"type":"function_call","call_id":"{id}","name":"{word}","arguments":"{{\"a\":{i}}}"}}"#
        ),
        (Api::OpenAiResponses, 2) => format!(
            r#"{{"type":"custom_tool_call",{blank}"call_id":"{id}","name":"{word}","input":"text","more":{value}}}"#
        ),
        (Api::OpenAiResponses, _) => {
            format!(r#"{{{blank}"type":"x_{word}","encrypted_content":{value}}}"#)
        }
        (Api::Gemini, 0) => format!(r#"{{"text":"{word} {i}"}}"#),
        (Api::Gemini, 1) => format!(
            r#"{{"functionCall":{{"name":"{word}","args":{{"a":{value}}}}},"thoughtSignature":"c2Vh"}}"#
        ),
        (Api::Gemini, 2) => format!(
            r#"{{"text":"{word} {i}",{blank}"thought":true,"thoughtSignature":"c2VhbA=="}}"#
        ),
        (Api::Gemini, _) => format!(r#"{{{blank}"x{word}":{value}}}"#),
    }
}

/// Values without blanks and escapes.
const PLAIN: [&str; 6] = [
    "1.0",
    "1E5",
    "-0",
    "12345678901234567890123",
    "\"é漢 <b>\"",
    r#"[1,{"b":null,"a":0.10}]"#,
];

/// Checks the property for the answer of one model.
fn holds(lab: &Lab, case: u32, (api, model): (Api, &str), parts: &[String]) -> Result<(), String> {
    let label = format!("{}-{case}", api.name());
    lab.session(&label);
    lab.record(&label, &turn([user("Begin.")]));
    record(lab, &label, &response(api, model, parts));
    let format = api.format();
    let first = assemble(lab, &label, model, format);
    let body = rendered(&first, format);
    in_order(&body, parts)?;
    // The snapshot has the same bytes.
    let hash = first.snapshot.clone().ok_or("no snapshot")?;
    let kept = contexture::snapshot::find(lab.engine.store().unwrap(), &hash.to_string()).unwrap();
    let saved = contexture::snapshot::Saved::load(lab.engine.store().unwrap(), &kept).unwrap();
    let again = saved.render(lab.engine.store().unwrap(), format).unwrap();
    match again == first.render(format).unwrap() {
        true => Ok(()),
        false => Err("the snapshot differs".to_owned()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_provider_response_is_sent_back_byte_for_byte(
        anthropic in parts(Api::Anthropic),
        chat in parts(Api::OpenAiChat),
        responses in parts(Api::OpenAiResponses),
        gemini in parts(Api::Gemini),
    ) {
        let lab = Lab::new("");
        let said = [anthropic, chat, responses, gemini];
        for (i, (api, said)) in APIS.into_iter().zip(said).enumerate() {
            if let Err(why) = holds(&lab, i as u32, api, &said) {
                return Err(TestCaseError::fail(format!("{}: {why}", api.0.name())));
            }
        }
    }
}

// --- Each by itself ----------------------------------------------------------

const THOUGHT: &str = r#"{"type":"thinking","thinking":"Look.","signature":"c2VhbA=="}"#;
const REDACTED: &str = r#"{"type":"redacted_thinking","data":"c2VjcmV0"}"#;
const CALL: &str = r#"{"type":"tool_use","id":"toolu_0123456789abcdef","name":"shell","input":{"command":"make"}}"#;

fn anthropic(parts: &[&str]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
    response(Api::Anthropic, "claude-sonnet-5-5", &parts)
}

/// Returns an exchange with the request and the response.
fn exchange_of(messages: Value, response: &str) -> String {
    let response: Value = serde_json::from_str(response).unwrap();
    let request = json!({"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": messages});
    json!({"provider": "anthropic", "request": request, "response": response}).to_string()
}

fn said(turn: &NewTurn) -> Vec<String> {
    let messages = turn.messages.iter();
    messages
        .map(|message| {
            let mut texts = Vec::new();
            message.each_text(|text| texts.push(text.to_owned()));
            format!("{}: {}", message.role.name(), texts.join(" | "))
        })
        .collect()
}

#[test]
fn other_providers_get_what_they_understand_and_a_row_for_the_rest() {
    let lab = Lab::new("");
    lab.session("s");
    lab.record("s", &turn([user("Build.")]));
    record(&lab, "s", &anthropic(&[THOUGHT, REDACTED, CALL]));
    lab.record("s", &turn([result("toolu_0123456789abcdef", "ok")]));
    for (api, model) in APIS {
        let format = api.format();
        let assembled = assemble(&lab, "s", model, format);
        let body = rendered(&assembled, format);
        let rows: Vec<String> = assembled
            .report
            .excluded
            .iter()
            .map(|row| format!("{}: {}", row.code, row.reason))
            .collect();
        assert!(body.contains("shell") && body.contains("make"), "{body}");
        if api == Api::Anthropic {
            let parts = [THOUGHT, REDACTED, CALL].map(str::to_owned);
            in_order(&body, &parts).unwrap();
            assert_eq!(rows, Vec::<String>::new());
        } else {
            assert!(!body.contains("c2Vj") && !body.contains("c2Vh"), "{body}");
            assert_eq!(
                rows,
                [
                    "not_for_provider: thinking that the provider does not accept back",
                    "not_for_provider: belongs to the API of another provider",
                ]
            );
        }
    }
    let text = assemble(&lab, "s", "claude-sonnet-5-5", Format::Text);
    check(&text).unwrap();
    let text = unmarked(&text.render(Format::Text).unwrap());
    assert!(
        text.contains(&format!("<assistant provider=\"anthropic\">\n{REDACTED}\n")),
        "{text}"
    );
}

#[test]
fn signed_thinking_goes_back_without_a_call_too() {
    let lab = Lab::new("");
    lab.session("s");
    lab.record("s", &turn([user("Build.")]));
    let text = r#"{"type":"text","text":"Done."}"#;
    let omitted = r#"{"type":"thinking","thinking":"","signature":"c2VhbA=="}"#;
    record(&lab, "s", &anthropic(&[THOUGHT, text]));
    lab.record("s", &turn([user("And?")]));
    record(&lab, "s", &anthropic(&[omitted, REDACTED, text]));
    let body = rendered(
        &assemble(&lab, "s", "claude-sonnet-5-5", Format::Anthropic),
        Format::Anthropic,
    );
    let parts = [THOUGHT, text, omitted, REDACTED, text].map(str::to_owned);
    in_order(&body, &parts).unwrap();
}

#[test]
fn a_changed_signature_is_kept_as_it_is() {
    let lab = Lab::new("");
    lab.session("s");
    lab.record("s", &turn([user("Build.")]));
    let changed = THOUGHT.replace("c2VhbA==", "Zm9yZ2Vk");
    record(&lab, "s", &anthropic(&[&changed, CALL]));
    let assembled = assemble(&lab, "s", "claude-sonnet-5-5", Format::Anthropic);
    in_order(&rendered(&assembled, Format::Anthropic), &[changed]).unwrap();
}

#[test]
fn signed_reasoning_with_a_secret_is_sent_unchanged() {
    let lab = Lab::new("");
    lab.session("s");
    lab.record("s", &turn([user("Build.")]));
    let secret = THOUGHT.replace("Look.", "Use ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW2xY4.");
    record(&lab, "s", &anthropic(&[&secret, REDACTED, CALL]));
    let assembled = assemble(&lab, "s", "claude-sonnet-5-5", Format::Anthropic);
    let body = rendered(&assembled, Format::Anthropic);
    // The provider wrote it, and rejects it if it was changed.
    in_order(&body, &[secret, REDACTED.to_owned(), CALL.to_owned()]).unwrap();
}

#[test]
fn a_system_message_inside_the_list_stays_in_its_place() {
    let lab = Lab::new("");
    lab.session("s");
    let between = r#"{"role":"system","content":"Two agents are here."}"#;
    let messages = json!([
        {"role": "user", "content": "Build."},
        serde_json::from_str::<Value>(between).unwrap(),
    ]);
    record(&lab, "s", &exchange_of(messages, &anthropic(&[CALL])));
    let body = rendered(
        &assemble(&lab, "s", "claude-sonnet-5-5", Format::Anthropic),
        Format::Anthropic,
    );
    let parts = ["Build.", between, CALL].map(str::to_owned);
    in_order(&body, &parts).unwrap();
}

#[test]
fn new_messages_of_a_request_are_recorded_before_the_response() {
    let lab = Lab::new("");
    lab.session("s");
    let mut messages = vec![json!({"role": "user", "content": "Build."})];
    let call: Value = serde_json::from_str(CALL).unwrap();
    // The session is empty: everything is new.
    let first = exchange_of(json!(messages), &anthropic(&[THOUGHT, CALL]));
    let turn = record(&lab, "s", &first);
    assert_eq!(
        said(&turn),
        ["user: Build.", "assistant: Look. | {\"command\":\"make\"}"]
    );
    assert_eq!(turn.stop_reason, Some(StopReason::EndTurn));
    assert_eq!(turn.provider.as_deref(), Some("anthropic"));
    // Messages after the recorded answer. The client left out the reasoning.
    messages.push(json!({"role": "assistant", "content": [call]}));
    messages.push(json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "toolu_0123456789abcdef", "content": "ok"},
        {"type": "text", "text": "And then?"},
    ]}));
    let done = anthropic(&[r#"{"type":"text","text":"Done."}"#]);
    let turn = record(&lab, "s", &exchange_of(json!(messages), &done));
    assert_eq!(
        said(&turn),
        ["tool: ok", "user: And then?", "assistant: Done."]
    );
    // Another history: only what follows its last answer.
    let other = json!([
        {"role": "user", "content": "Elsewhere."},
        {"role": "assistant", "content": "Something else."},
        {"role": "user", "content": "Now here."},
    ]);
    let turn = record(&lab, "s", &exchange_of(other, &done));
    assert_eq!(said(&turn), ["user: Now here.", "assistant: Done."]);
    // Its calls come along where results need them.
    let other_call = CALL.replace("toolu_", "other_");
    let other = json!([
        {"role": "user", "content": "Elsewhere."},
        {"role": "assistant", "content": [serde_json::from_str::<Value>(&other_call).unwrap()]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "other_0123456789abcdef", "content": "ok"},
        ]},
    ]);
    let turn = record(&lab, "s", &exchange_of(other, &done));
    let expected = [
        "assistant: {\"command\":\"make\"}",
        "tool: ok",
        "assistant: Done.",
    ];
    assert_eq!(said(&turn), expected);
}

#[test]
fn a_retry_is_recorded_once() {
    let lab = Lab::new("");
    lab.session("s");
    let body = exchange_of(
        json!([
            {"role": "user", "content": "Build."},
            {"role": "assistant", "content": "How?"},
            {"role": "user", "content": "With make."},
        ]),
        &anthropic(&[CALL]),
    );
    let mut body: Value = serde_json::from_str(&body).unwrap();
    body["idempotency_key"] = json!("k1");
    let body = body.to_string();
    let once = lab.record("s", &read(&lab, "s", &body).unwrap());
    let twice = lab.record("s", &read(&lab, "s", &body).unwrap());
    assert_eq!(once.id, twice.id);
    assert!(!once.replayed && twice.replayed);
}

#[test]
fn gemini_pairs_calls_without_ids() {
    let lab = Lab::new("");
    lab.session("s");
    let call = |city: &str| {
        format!(
            r#"{{"functionCall":{{"name":"weather","args":{{"city":"{city}"}}}},"thoughtSignature":"c2VhbA=="}}"#
        )
    };
    let answer = |city: &str| {
        format!(
            r#"{{"functionResponse":{{"name":"weather","response":{{"output":"sun in {city}"}}}}}}"#
        )
    };
    let said = response(
        Api::Gemini,
        "gemini-3.8-flash",
        &[call("Rome"), call("Oslo")],
    );
    lab.record("s", &turn([user("Weather?")]));
    record(&lab, "s", &said);
    let request = format!(
        r#"{{"contents":[{{"role":"user","parts":[{{"text":"Weather?"}}]}},{{"role":"model","parts":[{},{}]}},{{"role":"user","parts":[{},{}]}}]}}"#,
        call("Rome"),
        call("Oslo"),
        answer("Rome"),
        answer("Oslo"),
    );
    let again = response(Api::Gemini, "gemini-3.8-flash", &[call("Bonn")]);
    record(
        &lab,
        "s",
        &format!(r#"{{"request":{request},"response":{again}}}"#),
    );
    // The agent answers in our own form, by the id that it was given.
    lab.record("s", &turn([result("weather-1", "rain")]));
    let assembled = assemble(&lab, "s", "gemini-3.8-flash", Format::Gemini);
    let parts = [
        call("Rome"),
        call("Oslo"),
        answer("Rome"),
        answer("Oslo"),
        call("Bonn"),
        r#"{"functionResponse":{"name":"weather","response":{"output":"rain"}}}"#.to_owned(),
    ];
    in_order(&rendered(&assembled, Format::Gemini), &parts).unwrap();
    // Other providers need ids, and no two calls have the same.
    for (api, model) in APIS {
        assemble(&lab, "s", model, api.format())
            .render(api.format())
            .unwrap();
    }
}

#[test]
fn stop_reasons_are_kept_as_the_provider_wrote_them() {
    let lab = Lab::new("");
    let words = [
        "refusal",
        "pause_turn",
        "model_context_window_exceeded",
        "content_filter",
        "SAFETY",
        "incomplete",
    ];
    for word in words {
        lab.session(word);
        let body = anthropic(&[r#"{"type":"text","text":"No."}"#]).replace("end_turn", word);
        record(&lab, word, &body);
        let turn = &lab.engine.history(word, 1).unwrap()[0].turn;
        assert_eq!(turn.stop_reason, Some(StopReason::Other(word.to_owned())));
        assert_eq!(serde_json::to_value(turn).unwrap()["stop_reason"], word);
    }
    let own = |word: &str| format!(r#"{{"messages":[],"stop_reason":"{word}"}}"#);
    for (word, reason) in [
        ("stop", StopReason::EndTurn),
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("tool_calls", StopReason::ToolUse),
        ("timeout", StopReason::Timeout),
    ] {
        assert_eq!(
            turn_from_json("t", &own(word)).unwrap().stop_reason,
            Some(reason)
        );
    }
}

/// Answers without a text, as providers return them: the session stays usable.
#[test]
fn a_session_goes_on_after_an_answer_without_text() {
    let chat = |fields: &str| {
        format!(
            r#"{{"choices":[{{"message":{{"role":"assistant","content":null,{fields}}},"finish_reason":"stop"}}]}}"#
        )
    };
    let signed = [
        r#"{"text":"Yes."}"#.to_owned(),
        r#"{"text":"","thoughtSignature":"c2ln"}"#.to_owned(),
    ];
    let reasoning = r#"{"type":"reasoning","id":"rs_1","summary":[]}"#.to_owned();
    let cut_off = response(Api::OpenAiResponses, "gpt-5.5", &[reasoning]).replace(
        r#""completed""#,
        r#""incomplete","incomplete_details":{"reason":"max_output_tokens"}"#,
    );
    let cases = [
        (Api::OpenAiChat, chat(r#""refusal":"I cannot help.""#)),
        (
            Api::OpenAiChat,
            chat(r#""audio":{"id":"audio_1","data":"","transcript":"Hi."}"#),
        ),
        (
            Api::OpenAiChat,
            chat(r#""function_call":{"name":"f","arguments":"{}"}"#),
        ),
        (Api::OpenAiChat, chat(r#""reasoning_content":"Hm.""#)),
        (
            Api::Gemini,
            response(Api::Gemini, "gemini-3.8-flash", &signed),
        ),
        (Api::OpenAiResponses, cut_off),
    ];
    let lab = Lab::new("");
    for (at, (api, body)) in cases.iter().enumerate() {
        let label = format!("s{at}");
        lab.session(&label);
        lab.record(&label, &turn([user("Go.")]));
        record(&lab, &label, body);
        lab.record(&label, &turn([user("And?")]));
        // The answer is sent to its own API, and to the others.
        for (other, model) in APIS {
            let assembled = assemble(&lab, &label, model, other.format());
            let sent = assembled.render(other.format());
            assert!(sent.is_ok(), "{body} in {other:?}: {sent:?}");
            let is_reasoning = sent.unwrap().contains("rs_1");
            assert!(!is_reasoning, "{body} in {api:?}");
        }
    }
}

/// Anthropic resumes a turn that it paused when the turn is sent back as the
/// last message.
#[test]
fn a_paused_turn_is_sent_back() {
    let lab = Lab::new("");
    let assemble = || {
        let request = Request {
            model: Some("claude-sonnet-5-5".to_owned()),
            format: Some(Format::Anthropic),
            event: None,
            ..request("s", 60_000)
        };
        lab.engine.assemble(&lab.root, &request).unwrap()
    };
    lab.session("s");
    lab.record("s", &turn([user("Search.")]));
    let search = r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}"#;
    let body = anthropic(&[search]).replace("end_turn", "pause_turn");
    record(&lab, "s", &body);
    let assembled = assemble();
    let sent: Value = serde_json::from_str(&rendered(&assembled, Format::Anthropic)).unwrap();
    assert_eq!(sent["messages"][1]["content"][0]["id"], "srvtoolu_1");
    assert_eq!(sent["messages"].as_array().unwrap().len(), 2, "{sent}");
    // The answer after the pause continues the same message.
    let found = r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}"#;
    record(
        &lab,
        "s",
        &anthropic(&[found, r#"{"type":"text","text":"Found."}"#]),
    );
    let assembled = assemble();
    let refused = assembled.render(Format::Anthropic).unwrap_err();
    assert_eq!(refused.rule, "anthropic.user_last");
    lab.record("s", &turn([user("Thanks.")]));
    let assembled = assemble();
    let sent = rendered(&assembled, Format::Anthropic);
    in_order(&sent, &[search.to_owned(), found.to_owned()]).unwrap();
}

#[test]
fn an_opaque_block_of_our_own_form_keeps_its_bytes() {
    let lab = Lab::new("");
    lab.session("s");
    let raw = "{ \"type\":\"compaction\",\n  \"id\" : \"cmp_1\", \"n\": 1.50, \"e\":\"\\u00e9\" }";
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"Go."}},{{"role":"assistant","content":[
           {{"type":"provider","provider":"openai-responses","raw":{raw}}}]}}]}}"#
    );
    let turn = turn_from_json("t", &body).unwrap();
    lab.record("s", &turn);
    let kept = &lab.engine.history("s", 1).unwrap()[0].turn;
    assert_eq!(kept.messages, turn.messages);
    let assembled = assemble(&lab, "s", "gpt-5.5", Format::OpenAiResponses);
    in_order(
        &rendered(&assembled, Format::OpenAiResponses),
        &[raw.to_owned()],
    )
    .unwrap();
}

#[test]
fn the_parent_is_any_head_or_none_or_a_turn() {
    let lab = Lab::new("");
    lab.session("s");
    let with = |parent: &str| {
        let body = format!(r#"{{"messages":[{{"role":"user","content":"Hi."}}]{parent}}}"#);
        turn_from_json("t", &body).unwrap()
    };
    let try_record = |turn: &NewTurn| lab.store.record("s", turn, None, None, lab.tick());
    assert_eq!(with("").parent_turn_id, ParentTurn::Head);
    let empty = with(r#","parent_turn_id":null"#);
    assert_eq!(empty.parent_turn_id, ParentTurn::Empty);
    let first = try_record(&empty).unwrap();
    // The session is not empty any more.
    let refused = try_record(&empty).unwrap_err();
    assert!(
        matches!(&refused, StoreError::Conflict { expected: None, head: Some(head), .. } if *head == first.id),
        "{refused}"
    );
    let on = |id: TurnId| with(&format!(r#","parent_turn_id":"{id}""#));
    let second = try_record(&on(first.id)).unwrap();
    assert!(matches!(
        try_record(&on(first.id)),
        Err(StoreError::Conflict { .. })
    ));
    let third = try_record(&with("")).unwrap();
    assert_eq!(third.parent, Some(second.id));
    let given: Vec<ParentTurn> = lab
        .engine
        .history("s", 9)
        .unwrap()
        .iter()
        .map(|turn| turn.turn.parent_turn_id)
        .collect();
    assert_eq!(
        given,
        [
            ParentTurn::Empty,
            ParentTurn::Turn(first.id),
            ParentTurn::Head
        ]
    );
}

#[test]
fn a_result_for_a_call_of_three_turns_back_is_recorded_once() {
    let lab = Lab::new("");
    lab.session("s");
    lab.record("s", &turn([user("Build.")]));
    record(&lab, "s", &anthropic(&[CALL]));
    for _ in 0..3 {
        lab.record("s", &exchange("Never mind.", "Fine."));
    }
    let late = turn([result("toolu_0123456789abcdef", "ok")]);
    lab.record("s", &late);
    let refused = lab.engine.record("s", &late, None).unwrap_err().to_string();
    assert!(
        refused.contains(
            "answers call `toolu_0123456789abcdef`, which does not exist or already has a result"
        ),
        "{refused}"
    );
    assert_eq!(lab.store.session("s").unwrap().turns, 6);
}

#[test]
fn a_large_image_is_rejected_with_its_size_or_accepted_as_configured() {
    let data = "A".repeat(20 << 20);
    let image = json!({"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
        {"type": "text", "text": "What is it?"},
    ]});
    let body = exchange_of(
        json!([image]),
        &anthropic(&[r#"{"type":"text","text":"A."}"#]),
    );
    let lab = Lab::new("");
    lab.session("s");
    let turn = read(&lab, "s", &body).unwrap();
    let refused = lab.engine.record("s", &turn, None).unwrap_err().to_string();
    assert_eq!(
        refused,
        "messages[0].content: is 20971531 bytes; the limit is 16777216 (limits.max_message_bytes)"
    );
    // A smaller image is accepted, once, and not where the limit is lower.
    let smaller = body.replace(&data, &data[..8 << 20]);
    let turn = read(&lab, "s", &smaller).unwrap();
    assert!(turn.messages[0].blocks()[0].native().is_none());
    lab.record("s", &turn);
    let strict = lab.another("[limits]\nmax_message_bytes = 1000000");
    let refused = strict.record("s", &turn, None).unwrap_err().to_string();
    assert!(
        refused.contains("is 8388619 bytes; the limit is 1000000"),
        "{refused}"
    );
}

#[test]
fn an_answer_without_content_keeps_its_reason() {
    let lab = Lab::new("");
    lab.session("s");
    let blocked =
        r#"{"promptFeedback":{"blockReason":"SAFETY"},"modelVersion":"gemini-3.8-flash"}"#;
    let alone = read(&lab, "s", blocked).unwrap();
    assert_eq!(said(&alone), ["assistant: "]);
    let request = r#"{"contents":[{"role":"user","parts":[{"text":"Hm?"}]}]}"#;
    let turn = record(
        &lab,
        "s",
        &format!(r#"{{"request":{request},"response":{blocked}}}"#),
    );
    assert_eq!(said(&turn), ["user: Hm?", "assistant: "]);
    assert_eq!(
        turn.stop_reason,
        Some(StopReason::Other("SAFETY".to_owned()))
    );
}

#[test]
fn fields_next_to_the_response_are_those_of_a_turn() {
    let lab = Lab::new("");
    lab.session("s");
    let with = |field: &str| {
        let response = anthropic(&[r#"{"type":"text","text":"A."}"#]);
        read(&lab, "s", &format!(r#"{{"response":{response},{field}}}"#))
    };
    let turn = with(r#""source_event_id":"e1","parent_turn_id":null"#).unwrap();
    assert_eq!(turn.source_event_id.as_deref(), Some("e1"));
    assert_eq!(turn.parent_turn_id, ParentTurn::Empty);
    let refused = with(r#""model":"x""#).unwrap_err().to_string();
    assert_eq!(
        refused,
        "model: the value comes from the response; remove the field"
    );
    let refused = with(r#""colour":"red""#).unwrap_err().to_string();
    assert!(refused.contains("unknown field `colour`"), "{refused}");
}

#[test]
fn opaque_calls_and_results_stay_together() {
    let lab = Lab::new("");
    lab.session("s");
    let call = r#"{"type":"local_shell_call","id":"lsh_1","call_id":"call_1","action":{"type":"exec","command":["ls"]}}"#;
    let output = r#"{"type":"local_shell_call_output","id":"lsh_1","output":"a.txt"}"#;
    let function = r#"{"type":"function_call","call_id":"call_0123456789abcdef","name":"get","arguments":"{}"}"#;
    let result =
        r#"{"type":"function_call_output","call_id":"call_0123456789abcdef","output":"1"}"#;
    let said = format!(
        r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":"Go."}}]}},{call},{function}"#
    );
    let tools = r#"{"type":"additional_tools","tools":[{"name":"x"}]}"#;
    let first = response(
        Api::OpenAiResponses,
        "gpt-5.5",
        &[call.to_owned(), function.to_owned()],
    );
    let input =
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"Go."}]}"#;
    let with = |input: &str, response: &str| {
        format!(r#"{{"request":{{"model":"gpt-5.5","input":[{input}]}},"response":{response}}}"#)
    };
    record(&lab, "s", &with(&format!("{tools},{input}"), &first));
    let done = r#"{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"Done."}]}"#;
    let done_body = response(Api::OpenAiResponses, "gpt-5.5", &[done.to_owned()]);
    // The result that only OpenAI understands comes before the other one.
    record(
        &lab,
        "s",
        &with(&format!("{tools},{said},{output},{result}"), &done_body),
    );
    let assembled = assemble(&lab, "s", "gpt-5.5", Format::OpenAiResponses);
    let body = rendered(&assembled, Format::OpenAiResponses);
    let parts = [tools, input, call, function].map(str::to_owned);
    in_order(&body, &parts).unwrap();
    for part in [output, result, done] {
        assert!(body.contains(part), "{part} in {body}");
    }
    let rows = assembled.report.included.iter();
    let tools = rows
        .filter(|row| row.role == contexture::core::Role::Tool)
        .count();
    assert_eq!(tools, 2);
}

#[test]
fn texts_in_a_list_stay_a_list_for_chat() {
    let lab = Lab::new("");
    lab.session("s");
    let user = r#"{"role":"user","content":[{"type":"text","text":"One."},{"type":"text","text":"Two."}]}"#;
    let named = r#"{"role":"user","name":"ana","content":"Three."}"#;
    let said = r#"{"role":"assistant","content":[{"type":"text","text":"Four."}]}"#;
    let body = format!(
        r#"{{"request":{{"model":"gpt-5.5","messages":[{user},{said},{named}]}},
            "response":{{"model":"gpt-5.5","choices":[{{"message":{said},"finish_reason":"stop"}}]}}}}"#
    );
    record(&lab, "s", &body);
    let assembled = assemble(&lab, "s", "gpt-5.5", Format::OpenAiChat);
    let parts = [user, said, named, said].map(str::to_owned);
    in_order(&rendered(&assembled, Format::OpenAiChat), &parts).unwrap();
}

#[test]
fn a_request_alone_is_no_turn() {
    let lab = Lab::new("");
    for body in [
        r#"{"model":"claude-sonnet-5-5","max_tokens":9,"messages":[{"role":"user","content":"a"}]}"#,
        r#"{"model":"gpt-5.5","input":"a"}"#,
        r#"{"contents":[{"parts":[{"text":"a"}]}]}"#,
    ] {
        let refused = read(&lab, "s", body).unwrap_err().to_string();
        assert!(refused.starts_with("body: is a request of "), "{refused}");
    }
}

/// A model may end without a word, for example after a tool result. Its usage and its
/// reason are recorded, and the next request is valid.
#[test]
fn an_answer_without_content_is_recorded() {
    let lab = Lab::new("");
    for (api, model) in APIS {
        let label = format!("silent-{model}-{api:?}");
        lab.session(&label);
        lab.record(&label, &turn([user("Hi")]));
        let body = match api {
            Api::Anthropic => json!({"id": "m", "type": "message", "role": "assistant",
                "model": model, "content": [], "stop_reason": "end_turn",
                "usage": {"input_tokens": 7, "output_tokens": 1}}),
            Api::OpenAiChat => json!({"id": "c", "model": model, "choices": [{"index": 0,
                "message": {"role": "assistant", "content": null}, "finish_reason": "stop"}]}),
            Api::OpenAiResponses => json!({"id": "resp_1", "object": "response",
                "status": "completed", "model": model, "output": []}),
            Api::Gemini => json!({"candidates": [{"finishReason": "SAFETY"}],
                "modelVersion": model}),
        };
        let recorded = record(&lab, &label, &body.to_string());
        assert!(recorded.stop_reason.is_some(), "{label}");
        lab.record(&label, &turn([user("Are you there?")]));
        let assembled = assemble(&lab, &label, model, api.format());
        let request = rendered(&assembled, api.format());
        assert!(request.contains("Are you there?"), "{label}: {request}");
    }
}

/// The user's message was recorded before the call, and is in the request as well.
#[test]
fn a_message_that_waits_for_its_answer_is_recorded_once() {
    let lab = Lab::new("");
    lab.session("s");
    lab.record("s", &turn([user("Hi")]));
    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    let exchange = |messages: &[Value], text: &str| {
        json!({
            "request": {"model": "gpt-5.5", "messages": messages},
            "response": {"id": "c", "object": "chat.completion", "model": "gpt-5.5", "choices": [
                {"index": 0, "message": said("assistant", text), "finish_reason": "stop"}]},
        })
        .to_string()
    };
    let mut messages = vec![said("user", "Hi")];
    let recorded = record(&lab, "s", &exchange(&messages, "Hello."));
    assert_eq!(recorded.messages.len(), 1);
    lab.record("s", &turn([user("And now?")]));
    messages.extend([said("assistant", "Hello."), said("user", "And now?")]);
    let recorded = record(&lab, "s", &exchange(&messages, "Nothing."));
    assert_eq!(recorded.messages.len(), 1);
    messages.extend([said("assistant", "Nothing."), said("user", "And now?")]);
    let recorded = record(&lab, "s", &exchange(&messages, "Still nothing."));
    assert_eq!(recorded.messages.len(), 2);
}
