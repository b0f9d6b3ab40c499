//! Requests of providers in, requests that fit out.

use crate::support::*;
use contexture::core::Code;
use contexture::{Cause, Engine, FitOptions, Fitted, Format, Request};
use serde_json::{Value, json};

/// A run of tool calls in the form of each API.
fn run(api: &str, steps: usize) -> Value {
    let words = |i: usize| prose(i, 60);
    let ids = 0..steps;
    match api {
        "anthropic" => {
            let mut messages =
                vec![json!({"role": "user", "content": "Fix it. Never touch a.rs."})];
            for i in ids {
                messages.push(json!({"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": format!("s{i}")},
                    {"type": "tool_use", "id": format!("toolu_{i}"), "name": "read",
                     "input": {"path": format!("src/{i}.rs")}},
                ]}));
                messages.push(json!({"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": format!("toolu_{i}"),
                     "content": words(i)},
                ]}));
            }
            json!({"model": "claude-sonnet-5-5", "max_tokens": 500, "system": "Be brief.",
                "tools": [{"name": "read", "input_schema": {"type": "object"}}],
                "messages": messages, "metadata": {"user_id": "7"}})
        }
        "openai-chat" => {
            let mut messages = vec![
                json!({"role": "system", "content": "Be brief."}),
                json!({"role": "user", "content": "Fix it. Never touch a.rs."}),
            ];
            for i in ids {
                messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
                    {"id": format!("call_{i}"), "type": "function", "function":
                        {"name": "read", "arguments": format!("{{\"path\":\"src/{i}.rs\"}}")}},
                ]}));
                let id = format!("call_{i}");
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": words(i)}));
            }
            json!({"model": "gpt-4o", "messages": messages, "max_tokens": 500, "seed": 3})
        }
        "openai-responses" => {
            let mut input = vec![json!({"role": "user", "content": "Fix it. Never touch a.rs."})];
            for i in ids {
                input.push(
                    json!({"type": "reasoning", "id": format!("rs_{i}"), "summary": [],
                    "encrypted_content": format!("seal{i}")}),
                );
                input.push(
                    json!({"type": "function_call", "call_id": format!("call_{i}"),
                    "name": "read", "arguments": format!("{{\"path\":\"src/{i}.rs\"}}")}),
                );
                input.push(
                    json!({"type": "function_call_output", "call_id": format!("call_{i}"),
                    "output": words(i)}),
                );
            }
            json!({"model": "gpt-4o", "instructions": "Be brief.", "input": input,
                "max_output_tokens": 500, "store": false})
        }
        _ => {
            let mut contents =
                vec![json!({"role": "user", "parts": [{"text": "Fix it. Never touch a.rs."}]})];
            for i in ids {
                contents.push(json!({"role": "model", "parts": [
                    {"functionCall": {"name": "read", "args": {"path": format!("src/{i}.rs")}},
                     "thoughtSignature": format!("s{i}")},
                ]}));
                contents.push(json!({"role": "user", "parts": [
                    {"functionResponse": {"name": "read", "response": {"result": words(i)}}},
                ]}));
            }
            json!({"contents": contents, "systemInstruction": {"parts": [{"text": "Be brief."}]},
                "generationConfig": {"maxOutputTokens": 500}})
        }
    }
}

const APIS: [(&str, &str); 4] = [
    ("anthropic", "messages"),
    ("openai-chat", "messages"),
    ("openai-responses", "input"),
    ("gemini", "contents"),
];

fn fit(lab: &Lab, body: &str, max_tokens: u64) -> Fitted {
    let options = FitOptions {
        max_tokens: Some(max_tokens),
        ..FitOptions::default()
    };
    lab.engine
        .fit(&lab.root, body.as_bytes(), &options)
        .unwrap()
}

/// Blanks, the order of fields and the spelling of numbers included.
#[test]
fn a_request_that_fits_is_returned_byte_for_byte() {
    let lab = Lab::new("");
    // Files of the project are not part of it.
    lab.write(
        "tools.json",
        r#"[{"name": "other", "description": "Not meant."}]"#,
    );
    for (api, _) in APIS {
        let body = format!(" {:#}\n", run(api, 5));
        let fitted = fit(&lab, &body, 100_000);
        assert_eq!((fitted.body, fitted.is_changed), (body, false), "{api}");
    }
}

#[test]
fn older_steps_are_summarised_and_the_rest_is_kept() {
    let lab = Lab::new("");
    for (api, field) in APIS {
        let whole = run(api, 80);
        let fitted = fit(&lab, &whole.to_string(), 6_000);
        assert!(fitted.is_changed, "{api}");
        let made: Value = serde_json::from_str(&fitted.body).unwrap();
        for (name, value) in whole.as_object().unwrap() {
            if name != field {
                assert_eq!(&made[name], value, "{api}: {name}");
            }
        }
        let (old, new) = (
            whole[field].as_array().unwrap(),
            made[field].as_array().unwrap(),
        );
        let used = fitted.assembled.report.budget.used;
        assert!((4_000..=5_500).contains(&used), "{api}: {used}");
        assert!(
            new.len() < old.len() && new.len() > 6,
            "{api}: {}",
            new.len()
        );
        // The latest messages are the same; cache marks come on top.
        let text = made[field].to_string();
        for known in [
            "[Previous conversation summary]",
            "Fix it. Never touch a.rs.",
            "src/3.rs",
            "src/79.rs",
        ] {
            assert!(text.contains(known), "{api}: {known}");
        }
        let latest = |list: &[Value], back: usize| {
            let text = list[list.len() - back].to_string();
            text.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
        };
        for back in 1..=2 {
            let (old, new) = (latest(old, back), latest(new, back));
            assert_eq!(sorted(&new), sorted(&old), "{api}");
        }
        let rows = &fitted.assembled.report.excluded;
        assert!(rows.iter().any(|row| row.code == Code::COMPACTED), "{api}");
        // The result fits, and fits again.
        let again = fit(&lab, &fitted.body, 6_000);
        assert!(!again.is_changed, "{api}");
    }
}

/// Messages far before the window are neither guarded nor counted, and are one
/// row of the report. The window is as full as if all had been counted, even if
/// a token has many bytes.
#[test]
fn messages_beyond_the_budget_are_one_row_and_the_window_is_full() {
    let lab = Lab::new("[compaction]\nenabled = false\n");
    for kind in ["prose", "blanks"] {
        let text = |i: usize| match kind {
            "prose" => prose(i, 60),
            _ => format!("{i}:{}{i}", " ".repeat(3_000)),
        };
        let said = |i: usize| {
            let role = if i.is_multiple_of(2) {
                "user"
            } else {
                "assistant"
            };
            json!({"role": role, "content": text(i)})
        };
        let messages: Vec<Value> = (0..801).map(said).collect();
        let body = json!({"model": "gpt-4o", "messages": messages, "max_tokens": 100});
        let fitted = fit(&lab, &body.to_string(), 3_000);
        let report = &fitted.assembled.report;
        assert!(
            (1_500..=2_900).contains(&report.budget.used),
            "{kind}: {}",
            report.budget.used
        );
        let rows = report.excluded.iter();
        let unread: Vec<_> = rows
            .filter(|row| row.reason.to_string().contains("not read"))
            .collect();
        let made: Value = serde_json::from_str(&fitted.body).unwrap();
        assert_eq!(
            made["messages"].as_array().unwrap().last(),
            messages.last(),
            "{kind}"
        );
        let [unread] = &unread[..] else {
            panic!("{kind}: {unread:?}");
        };
        assert_eq!(unread.code, Code::BEFORE_WINDOW, "{kind}");
        assert!(
            unread.id.starts_with("messages/0-"),
            "{kind}: {}",
            unread.id
        );
        assert!(
            unread.items.is_some_and(|items| items > 100),
            "{kind}: {unread:?}"
        );
        assert!(fitted.body.contains("left out"), "{kind}");
    }
}

/// A conversation that is far too long is not counted as far as one that is a
/// little too long.
#[test]
fn a_window_does_not_depend_on_the_messages_far_before_it() {
    let lab = Lab::new("[compaction]\nenabled = false\n");
    let said = |i: usize| {
        let role = ["user", "assistant"][i % 2];
        json!({"role": role, "content": prose(i, 60)})
    };
    let messages: Vec<Value> = (0..401).map(said).collect();
    let window = |from: usize| {
        let body = json!({"model": "gpt-4o", "messages": messages[from..], "max_tokens": 100});
        fit(&lab, &body.to_string(), 3_000)
    };
    let whole = window(0);
    let mut compared = 0;
    for from in (0..400).step_by(2) {
        let fitted = window(from);
        if fitted.is_changed {
            assert_eq!(fitted.body, whole.body, "from {from}");
            compared += 1;
        }
    }
    assert!((150..199).contains(&compared), "{compared}");
}

fn sorted(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

/// Callers with the same request at the same time, some in the same process and some
/// in another, record the conversation once.
#[test]
fn calls_at_the_same_time_record_a_conversation_once() {
    let lab = Lab::new("");
    let other = engine("", &lab.root, &lab.store);
    for round in 0..8 {
        let options = FitOptions {
            session: Some(format!("round {round}")),
            max_tokens: Some(100_000),
            now: Some(lab.tick()),
            ..FitOptions::default()
        };
        for steps in [2, 5] {
            let body = run("openai-chat", steps).to_string();
            let fit = |engine: &Engine| {
                let fitted = engine.fit(&lab.root, body.as_bytes(), &options);
                assert_eq!(fitted.unwrap().body, body);
            };
            std::thread::scope(|threads| {
                for _ in 0..3 {
                    threads.spawn(|| fit(&lab.engine));
                    threads.spawn(|| fit(&other));
                }
            });
            fit(&lab.engine);
        }
        let session = lab.store.session(&format!("round {round}")).unwrap();
        assert_eq!(session.turns, 2);
    }
}

/// The client sends the whole conversation each time. The session keeps the
/// summary, so that a result begins as the one before did.
#[test]
fn a_session_keeps_the_summary_from_call_to_call() {
    let lab = Lab::new("");
    for (api, field) in APIS {
        let label = format!("run-{api}");
        let fit = |steps: usize| {
            let options = FitOptions {
                session: Some(label.clone()),
                max_tokens: Some(6_000),
                now: Some(lab.tick()),
                ..FitOptions::default()
            };
            let body = run(api, steps).to_string();
            let fitted = lab
                .engine
                .fit(&lab.root, body.as_bytes(), &options)
                .unwrap();
            let made: Value = serde_json::from_str(&fitted.body).unwrap();
            let list = made[field].as_array().unwrap().clone();
            list.iter().map(Value::to_string).collect::<Vec<_>>()
        };
        let (mut previous, mut breaks) = (fit(1), 0);
        for steps in 2..90 {
            let now = fit(steps);
            let shared = previous.iter().zip(&now).take_while(|(a, b)| {
                let bare =
                    |text: &str| text.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "");
                bare(a) == bare(b)
            });
            breaks += usize::from(shared.count() < previous.len());
            previous = now;
        }
        assert!((1..10).contains(&breaks), "{api}: {breaks} breaks");
        assert!(previous.concat().contains("Never touch a.rs."), "{api}");
        // A retry records nothing.
        let turns = lab.store.session(&label).unwrap().turns;
        assert_eq!(fit(89), previous, "{api}");
        assert_eq!(lab.store.session(&label).unwrap().turns, turns, "{api}");
    }
    // Another conversation is not mixed into it.
    let other = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi."}]});
    let options = FitOptions {
        session: Some("run-openai-chat".to_owned()),
        ..FitOptions::default()
    };
    let error = lab
        .engine
        .fit(&lab.root, other.to_string().as_bytes(), &options);
    let error = error.map(|fitted| fitted.body).unwrap_err().to_string();
    assert!(error.contains("do not continue session"), "{error}");
}

/// An engine that knows the request before reads only the end of the next one.
/// The result is the one of an engine that knows nothing.
#[test]
fn caches_of_an_engine_change_no_result() {
    let (lab, other) = (Lab::new(""), Lab::new(""));
    for (api, field) in APIS {
        let options = |lab: &Lab| FitOptions {
            session: Some(format!("run-{api}")),
            max_tokens: Some(6_000),
            now: Some(lab.tick()),
            ..FitOptions::default()
        };
        for steps in 1..60 {
            let mut body = run(api, steps);
            let latest = body[field].as_array_mut().unwrap().last_mut().unwrap();
            if api == "anthropic" {
                // Clients move their cache mark to the latest message.
                latest["content"][0]["cache_control"] = json!({"type": "ephemeral"});
            }
            let body = match steps % 7 {
                // Another spelling, so that no byte of the messages is where it was.
                // The text of a result is its JSON in Gemini's requests.
                0 if api != "gemini" => serde_json::to_string_pretty(&body).unwrap(),
                _ => body.to_string(),
            };
            let known = (lab.engine).fit(&lab.root, body.as_bytes(), &options(&lab));
            let anew = engine("", &other.root, &other.store);
            let anew = anew.fit(&other.root, body.as_bytes(), &options(&other));
            let (known, anew) = (known.unwrap(), anew.unwrap());
            assert_eq!(known.body, anew.body, "{api}, {steps} steps");
            assert_eq!(known.is_changed, anew.is_changed, "{api}, {steps} steps");
            // Retries have the same result, and record nothing.
            for _ in 0..2 {
                let again = (lab.engine).fit(&lab.root, body.as_bytes(), &options(&lab));
                assert_eq!(again.unwrap().body, known.body, "{api}, {steps} steps");
            }
        }
        let turns = |lab: &Lab| lab.store.session(&format!("run-{api}")).unwrap().turns;
        assert_eq!(turns(&lab), turns(&other), "{api}");
    }
    // A request that is cut off is an error of the whole, and another conversation
    // is noticed.
    let body = run("openai-chat", 70).to_string();
    let session = || FitOptions {
        session: Some("run-openai-chat".to_owned()),
        max_tokens: Some(6_000),
        ..FitOptions::default()
    };
    let cut = lab
        .engine
        .fit(&lab.root, &body.as_bytes()[..body.len() - 9], &session());
    let cut = cut.map(|fitted| fitted.body).unwrap_err().to_string();
    assert!(cut.contains("is not JSON"), "{cut}");
    let mut wrong = run("openai-chat", 70);
    wrong["messages"][130]["role"] = json!(7);
    let wrong = lab
        .engine
        .fit(&lab.root, wrong.to_string().as_bytes(), &session());
    let wrong = wrong.map(|fitted| fitted.body).unwrap_err().to_string();
    assert!(wrong.contains("messages[130].role"), "{wrong}");
}

#[test]
fn a_request_is_translated() {
    let lab = Lab::new("");
    let options = FitOptions {
        to: Some(Format::Anthropic),
        model: Some("claude-sonnet-5-5".to_owned()),
        ..FitOptions::default()
    };
    let mut body = run("openai-chat", 3);
    body["tools"] = json!([{"type": "function", "function":
        {"name": "read", "description": "Reads.", "parameters": {"type": "object"}}}]);
    let fitted = lab
        .engine
        .fit(&lab.root, body.to_string().as_bytes(), &options);
    let made: Value = serde_json::from_str(&fitted.unwrap().body).unwrap();
    assert_eq!(made["system"][0]["text"], "Be brief.");
    assert_eq!(made["tools"][0]["name"], "read");
    assert_eq!(made["messages"][1]["content"][0]["type"], "tool_use");
    assert_eq!(made["model"], "claude-sonnet-5-5");
}

#[test]
fn bad_requests_are_errors_that_name_what_is_wrong() {
    let lab = Lab::new("");
    let anthropic = run("anthropic", 2).to_string();
    let no_result = json!({"model": "gpt-4o", "messages": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "user", "content": "And?"},
    ]});
    for (body, from, said) in [
        ("", None, "is empty"),
        ("{\"a\": 1}", None, "request"),
        (anthropic.as_str(), Some("gemini"), "gemini"),
        (
            anthropic.as_str(),
            Some("other"),
            "expected one of anthropic",
        ),
        (&no_result.to_string(), None, "has no result"),
    ] {
        let options = FitOptions {
            from: from.map(str::to_owned),
            ..FitOptions::default()
        };
        let error = lab.engine.fit(&lab.root, body.as_bytes(), &options);
        let error = error.map(|fitted| fitted.body).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {error}");
    }
    // The required messages do not fit.
    let options = FitOptions {
        max_tokens: Some(600),
        reserve_response: Some(0),
        ..FitOptions::default()
    };
    let mut large = run("anthropic", 2);
    large["system"] = prose(1, 2_000).into();
    let error = lab
        .engine
        .fit(&lab.root, large.to_string().as_bytes(), &options);
    assert!(error.is_err());
}

/// Content that the request itself holds is fitted and reported like any other.
#[test]
fn inline_items_are_candidates() {
    let lab = Lab::new("");
    let request: contexture::Request = serde_json::from_value(json!({
        "system": "Be brief.",
        "tools": [{"name": "read", "description": "Reads.", "parameters": {"type": "object"}}],
        "items": [
            {"id": "notes", "content": "Short notes.", "priority": 0.9},
            {"id": "log", "content": prose(3, 900), "priority": 0.2, "cut": "never"},
            {"id": "rule", "content": "Always test.", "pinned": true},
        ],
        "messages": [{"role": "user", "content": "Hello."}],
        "model": "gpt-4o", "max_tokens": 700, "reserve_response": 0,
    }))
    .unwrap();
    let assembled = lab.engine.assemble(&lab.root, &request).unwrap();
    let sent = assembled.render(Format::OpenAiChat).unwrap();
    assert!(
        sent.contains("Always test.") && sent.contains("Hello."),
        "{sent}"
    );
    let kept = assembled.report.included.iter();
    let kept: Vec<&str> = kept.map(|row| &*row.id).collect();
    for id in ["tool:read", "system", "notes", "rule"] {
        assert!(kept.contains(&id), "{id}: {kept:?}");
    }
    let out = &assembled.report.excluded[0];
    assert_eq!((&*out.id, out.code), ("log", Code::TOO_LARGE));
    for (wrong, said) in [
        (
            json!({"id": "a", "content": "b", "layer": "other"}),
            "items[0].layer",
        ),
        (
            json!({"id": "a", "content": "b", "priority": 2}),
            "items[0].priority",
        ),
    ] {
        let mut request = request.clone();
        request.items = vec![serde_json::from_value(wrong).unwrap()];
        let error = lab
            .engine
            .assemble(&lab.root, &request)
            .map(|_| ())
            .unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn a_conversation_that_is_recorded_at_once_is_cut_too() {
    let lab = Lab::new("");
    let said: Vec<Value> = (0..401)
        .map(|number: usize| {
            let role = ["user", "assistant"][number % 2];
            json!({"role": role, "content": prose(number, 60)})
        })
        .collect();
    let options = FitOptions {
        session: Some("s".to_owned()),
        max_tokens: Some(8_000),
        reserve_response: Some(0),
        ..FitOptions::default()
    };
    // The whole conversation is one turn for the session, and then has two more.
    for end in [399, 401] {
        let body = json!({"model": "gpt-4o", "messages": said[..end]}).to_string();
        let fitted = lab
            .engine
            .fit(&lab.root, body.as_bytes(), &options)
            .unwrap();
        assert!(fitted.is_changed);
        let sent: Value = serde_json::from_str(&fitted.body).unwrap();
        let sent = sent["messages"].as_array().unwrap();
        assert!(sent.len() < 200, "{}", sent.len());
        assert_eq!(sent.last(), said[..end].last());
    }
}

/// 500 tools keep their bytes, and their tokens are reserved. If they alone do
/// not fit, the call fails with an error that names them.
#[test]
fn five_hundred_tools_are_kept_or_refused_as_a_whole() {
    let lab = Lab::new("");
    let tool = |i: usize| {
        json!({"name": format!("tool_{i}"), "description": prose(i, 10),
            "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}})
    };
    let mut request = run("anthropic", 900);
    request["tools"] = (0..500).map(tool).collect();
    let body = request.to_string();
    let fitted = fit(&lab, &body, 100_000);
    let made: Value = serde_json::from_str(&fitted.body).unwrap();
    assert_eq!(made["tools"], request["tools"]);
    assert!(fitted.is_changed && fitted.assembled.report.budget.used < 100_000);
    let kept = made["messages"].as_array().unwrap().len();
    assert!((1..1_801).contains(&kept), "{kept}");
    let options = FitOptions {
        max_tokens: Some(4_000),
        ..FitOptions::default()
    };
    let error = lab.engine.fit(&lab.root, body.as_bytes(), &options);
    let error = error.map(|fitted| fitted.body).unwrap_err().to_string();
    assert!(error.contains("tools"), "{error}");
}

/// Bytes that are not a picture are counted as text.
#[test]
fn a_large_image_is_kept_byte_for_byte_or_refused() {
    let lab = Lab::new("");
    let data = "iVBORw0KGgo".repeat(20 * 1024 * 1024 / 11);
    let mut request = run("anthropic", 3);
    let image = json!({"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
        {"type": "text", "text": "What is this?"},
    ]});
    request["messages"].as_array_mut().unwrap().push(image);
    let body = request.to_string();
    let options = FitOptions {
        max_tokens: Some(20_000),
        ..FitOptions::default()
    };
    let fitted = lab.engine.fit(&lab.root, body.as_bytes(), &options);
    match fitted {
        Ok(fitted) => assert!(fitted.body == body || !fitted.body.contains("iVBORw0KGgo")),
        Err(error) => assert_eq!(error.cause(), Cause::OverBudget, "{error}"),
    }
}

/// A request without its latest message would ask nothing.
#[test]
fn a_latest_message_that_does_not_fit_is_an_error() {
    let lab = Lab::new("");
    let mut request = run("anthropic", 20);
    let image = json!({"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        {"type": "text", "text": "What is this?"},
    ]});
    request["messages"].as_array_mut().unwrap().push(image);
    let options = FitOptions {
        max_tokens: Some(3_000),
        ..FitOptions::default()
    };
    let error = lab
        .engine
        .fit(&lab.root, request.to_string().as_bytes(), &options);
    let error = error.map(|fitted| fitted.body).unwrap_err();
    assert_eq!(error.cause(), Cause::OverBudget, "{error}");
    assert!(
        error
            .to_string()
            .contains("the latest message does not fit"),
        "{error}"
    );
}

/// A block that only the provider understands stays with its message, and keeps
/// its bytes, whatever happens around it.
#[test]
fn an_unknown_block_keeps_its_bytes_in_a_request_that_is_cut() {
    let lab = Lab::new("");
    let mut request = run("anthropic", 80);
    let unknown = r#"{"type":"advisor_note","weight":1.50,"of":["a" ,"\u00e9"]}"#;
    let raw: Value = serde_json::from_str(unknown).unwrap();
    let messages = request["messages"].as_array_mut().unwrap();
    let last = messages.len() - 2;
    messages[last]["content"]
        .as_array_mut()
        .unwrap()
        .insert(1, raw.clone());
    let body = request.to_string().replace(&raw.to_string(), unknown);
    let fitted = fit(&lab, &body, 3_000);
    assert!(fitted.is_changed);
    assert!(fitted.body.contains(unknown), "{}", fitted.body);
}

/// Providers reject a result that comes later than the message after its call:
/// the error names the call.
#[test]
fn a_result_three_messages_late_is_an_error_with_the_call() {
    let lab = Lab::new("");
    let call = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "call_7", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let late = json!({"model": "gpt-4o", "messages": [
        {"role": "user", "content": "Go."}, call,
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": "One moment."},
        {"role": "user", "content": "Now?"},
        {"role": "tool", "tool_call_id": "call_7", "content": "done"},
    ]});
    let options = FitOptions::default();
    let error = lab
        .engine
        .fit(&lab.root, late.to_string().as_bytes(), &options);
    let error = error.map(|fitted| fitted.body).unwrap_err().to_string();
    assert!(error.contains("call_7"), "{error}");
}

/// A run of the Responses or the Chat API whose system prompt is in messages, with
/// an instruction between the steps.
fn instructed(api: &str, steps: usize) -> (Value, String) {
    let (field, lead) = match api {
        "openai-chat" => (
            "messages",
            r#"{"role":"developer","name":"ops","content":[{"type":"text","text":"You are Zorb."},{"type":"text","text":"ALWAYS_ANSWER_IN_FRENCH."}]},{"role":"system","content":"Be kind."}"#,
        ),
        _ => (
            "input",
            r#"{"role":"developer","content":"You are Zorb. ALWAYS_ANSWER_IN_FRENCH."}"#,
        ),
    };
    let mut body = run(api, steps);
    if let Some(fields) = body.as_object_mut() {
        fields.remove("instructions");
    }
    let messages = body[field].as_array_mut().unwrap();
    if api == "openai-chat" {
        messages.remove(0);
    }
    messages.insert(
        1,
        json!({"role": "developer", "content": "From now on: NO_EMOJI."}),
    );
    let lead_values: Vec<Value> = serde_json::from_str(&format!("[{lead}]")).unwrap();
    messages.splice(0..0, lead_values);
    (body, lead.to_owned())
}

#[test]
fn instructions_among_the_messages_keep_their_bytes() {
    let lab = Lab::new("");
    for (api, field) in [("openai-chat", "messages"), ("openai-responses", "input")] {
        let (whole, lead) = instructed(api, 80);
        let lead = lead.as_str();
        // The fields of a JSON object of the test are sorted.
        let whole = whole
            .to_string()
            .replace(&sorted_list(lead), &format!("[{lead},"));
        assert!(whole.contains(&format!("[{lead},")), "{api}");
        // It fits.
        let fitted = fit(&lab, &whole, 100_000);
        assert_eq!((&fitted.body, fitted.is_changed), (&whole, false), "{api}");
        let rows = &fitted.assembled.report.included;
        assert!(rows.iter().all(|row| !row.id.contains("opening")), "{api}");
        // It does not.
        let fitted = fit(&lab, &whole, 6_000);
        assert!(fitted.is_changed, "{api}");
        let begins = format!("\"{field}\":[{lead},");
        assert!(fitted.body.contains(&begins), "{api}: {}", fitted.body);
        for known in ["NO_EMOJI", "[Previous conversation summary]"] {
            assert!(fitted.body.contains(known), "{api}: {known}");
        }
        assert!(!fitted.body.contains("begins with the assistant"), "{api}");
        // Another API has a field for them.
        for (format, to) in [
            (Format::Anthropic, "claude-sonnet-5-5"),
            (Format::Gemini, "gemini-3.8-flash"),
        ] {
            let options = FitOptions {
                to: Some(format),
                model: Some(to.to_owned()),
                ..FitOptions::default()
            };
            let fitted = lab.engine.fit(&lab.root, whole.as_bytes(), &options);
            let made: Value = serde_json::from_str(&fitted.unwrap().body).unwrap();
            let system = match format {
                Format::Anthropic => made["system"].to_string(),
                _ => made["systemInstruction"].to_string(),
            };
            for known in ["ALWAYS_ANSWER_IN_FRENCH", "NO_EMOJI"] {
                assert!(system.contains(known), "{api} to {to}: {system}");
            }
        }
    }
}

/// Returns the beginning of a list with these values, as the tests write it.
fn sorted_list(values: &str) -> String {
    let values: Vec<Value> = serde_json::from_str(&format!("[{values}]")).unwrap();
    let values: Vec<String> = values.iter().map(Value::to_string).collect();
    format!("[{},", values.join(","))
}

#[test]
fn a_session_keeps_instructions_among_the_messages() {
    let lab = Lab::new("");
    for (api, field) in [("openai-chat", "messages"), ("openai-responses", "input")] {
        for steps in [1, 2, 40, 41, 80] {
            let options = FitOptions {
                session: Some(format!("told-{api}")),
                max_tokens: Some(6_000),
                now: Some(lab.tick()),
                ..FitOptions::default()
            };
            let (body, _) = instructed(api, steps);
            let fitted = lab
                .engine
                .fit(&lab.root, body.to_string().as_bytes(), &options)
                .unwrap();
            let made: Value = serde_json::from_str(&fitted.body).unwrap();
            assert_eq!(made[field][0], body[field][0], "{api}, {steps} steps");
            assert!(fitted.body.contains("NO_EMOJI"), "{api}, {steps} steps");
        }
    }
}

/// Content that another API can express is sent there, and other content of the
/// user is named in a warning.
#[test]
fn translated_content_is_not_lost() {
    let lab = Lab::new("");
    let to = |body: Value, format: Format, model: &str, max_tokens: Option<u64>| {
        let options = FitOptions {
            to: Some(format),
            model: Some(model.to_owned()),
            max_tokens,
            ..FitOptions::default()
        };
        let fitted = lab
            .engine
            .fit(&lab.root, body.to_string().as_bytes(), &options);
        let fitted = fitted.unwrap();
        let warnings = &fitted.assembled.report.warnings;
        let codes: Vec<String> = warnings.iter().map(|one| one.code.to_string()).collect();
        let made: Value = serde_json::from_str(&fitted.body).unwrap();
        (made, codes.join(" "))
    };
    let chat = |content: Value| json!({"model": "gpt-4o", "messages": [{"role": "user", "content": content}]});
    let text = json!({"type": "text", "text": "See."});
    let file = json!({"type": "file", "file": {"file_id": "file-1"}});
    let (made, codes) = to(
        chat(json!([text, file])),
        Format::OpenAiResponses,
        "gpt-4o",
        None,
    );
    let part = json!({"type": "input_file", "file_id": "file-1"});
    assert_eq!(made["input"][0]["content"][1], part);
    assert!(!codes.contains("content_left_out"), "{codes}");
    let (_, codes) = to(
        chat(json!([text, file])),
        Format::Anthropic,
        "claude-sonnet-5-5",
        None,
    );
    assert!(codes.contains("content_left_out"), "{codes}");
    let audio = json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}});
    let (_, codes) = to(
        chat(json!([text, audio])),
        Format::OpenAiResponses,
        "gpt-4o",
        None,
    );
    assert!(codes.contains("media_described"), "{codes}");
    // Only the description is counted.
    let url = "https://x.test/a.pdf";
    let pdf = json!({"model": "gpt-4o", "input": [{"role": "user", "content": [
        {"type": "input_file", "file_url": url}, {"type": "input_text", "text": "See."}]}]});
    let (made, codes) = to(pdf.clone(), Format::OpenAiChat, "gpt-4o", Some(32_000));
    assert!(made["messages"].to_string().contains(url), "{made}");
    assert!(codes.contains("media_described"), "{codes}");
    let same = fit(&lab, &pdf.to_string(), 100_000);
    assert!(!same.is_changed);
    assert!(same.assembled.report.warnings.is_empty());
    // A file of Gemini is not at a public address.
    let uri = "https://generativelanguage.googleapis.com/v1beta/files/abc";
    let gemini = json!({"contents": [{"role": "user", "parts": [{"text": "See."},
        {"fileData": {"mimeType": "image/png", "fileUri": uri}}]}]});
    let (made, codes) = to(gemini, Format::Anthropic, "claude-sonnet-5-5", None);
    assert!(!made.to_string().contains("\"url\""), "{made}");
    assert!(codes.contains("media_described"), "{codes}");
}

#[test]
fn translated_tools_keep_their_meaning() {
    let lab = Lab::new("");
    let to = |body: Value, format: Format, model: &str| {
        let options = FitOptions {
            to: Some(format),
            model: Some(model.to_owned()),
            ..FitOptions::default()
        };
        let fitted = lab
            .engine
            .fit(&lab.root, body.to_string().as_bytes(), &options);
        let fitted = fitted.unwrap();
        let made: Value = serde_json::from_str(&fitted.body).unwrap();
        (made, fitted.assembled.report.warnings.clone())
    };
    let gemini = json!({"contents": [{"role": "user", "parts": [{"text": "Go."}]}],
        "tools": [{"functionDeclarations": [{"name": "get", "parameters": {"type": "OBJECT",
            "properties": {"type": {"type": "STRING", "enum": ["A"]}}}}]}]});
    let (made, _) = to(gemini, Format::Anthropic, "claude-sonnet-5-5");
    let schema = &made["tools"][0]["input_schema"];
    assert_eq!(schema["type"], "object");
    assert_eq!(
        schema["properties"]["type"],
        json!({"type": "string", "enum": ["A"]})
    );
    let anthropic = json!({"model": "claude-sonnet-5-5", "max_tokens": 100,
        "messages": [{"role": "user", "content": "Go."}],
        "tools": [{"type": "web_search_20250305", "name": "web_search"},
            {"type": "custom", "name": "get", "input_schema": {"type": "object"}}]});
    let (made, warnings) = to(anthropic, Format::OpenAiChat, "gpt-4o");
    assert_eq!(made["tools"].as_array().unwrap().len(), 1);
    assert!(warnings.iter().any(|one| one.code == "tools_left_out"));
    let custom = json!({"model": "gpt-5.5", "tools": [{"type": "custom",
            "custom": {"name": "sql", "description": "Runs SQL."}}],
        "messages": [{"role": "user", "content": "Go."},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"}]});
    let (made, _) = to(custom, Format::Anthropic, "claude-sonnet-5-5");
    assert_eq!(made["tools"][0]["description"], "Runs SQL.");
    let call = &made["messages"][1]["content"][0];
    assert_eq!(call["input"], json!({"input": "SELECT 1"}));
}

/// A conversation in the request itself may have its instructions in it.
#[test]
fn instructions_of_inline_messages_are_sent() {
    let lab = Lab::new("");
    let messages = json!([{"role": "system", "content": "Sys2"},
        {"role": "user", "content": "x"}, {"role": "developer", "content": "Dev2"}]);
    for format in [Format::OpenAiChat, Format::Anthropic] {
        let request = Request {
            messages: serde_json::from_value(messages.clone()).unwrap(),
            format: Some(format),
            ..Request::default()
        };
        let made = lab.engine.assemble(&lab.root, &request).unwrap();
        let body = made.render(format).unwrap();
        for known in ["Sys2", "Dev2"] {
            assert!(body.contains(known), "{body}");
        }
        assert_eq!(made.report.excluded, [], "{body}");
    }
}

fn refusal(lab: &Lab, body: &Value, options: &FitOptions) -> contexture::Error {
    let fitted = lab
        .engine
        .fit(&lab.root, body.to_string().as_bytes(), options);
    fitted.map(|fitted| fitted.body).unwrap_err()
}

/// The provider stores the calls that the first results answer, and rejects a
/// request without these results.
#[test]
fn results_of_stored_calls_stay() {
    let lab = Lab::new("");
    for field in ["previous_response_id", "conversation"] {
        let mut request = run("openai-responses", 80);
        request[field] = json!("stored_1");
        let input = request["input"].as_array_mut().unwrap();
        for id in ["call_x", "call_y"] {
            let result = json!({"type": "function_call_output", "call_id": id,
                "output": format!("the result of {id}")});
            input.insert(0, result);
        }
        for budget in [100_000, 6_000, 2_000] {
            let fitted = fit(&lab, &request.to_string(), budget);
            assert_eq!(fitted.is_changed, budget < 100_000);
            for id in ["call_x", "call_y"] {
                let text = format!("the result of {id}");
                assert!(fitted.body.contains(&text), "{budget}: {}", fitted.body);
            }
        }
        // The session would not have the whole conversation.
        let options = FitOptions {
            session: Some("stored".to_owned()),
            ..FitOptions::default()
        };
        let error = refusal(&lab, &request, &options).to_string();
        assert!(error.contains(field), "{error}");
        assert!(lab.store.session("stored").is_err());
        // Another provider stores nothing.
        let options = FitOptions {
            to: Some(Format::Anthropic),
            ..FitOptions::default()
        };
        let error = refusal(&lab, &request, &options).to_string();
        assert!(error.contains("call_y"), "{error}");
        request[field] = Value::Null;
        let error = refusal(&lab, &request, &FitOptions::default()).to_string();
        assert!(error.contains("does not exist"), "{error}");
    }
}

/// A model continues its own message, and Anthropic resumes a turn that it
/// paused.
#[test]
fn a_request_may_end_with_the_model() {
    let lab = Lab::new("");
    let search = json!({"role": "assistant", "content": [
        {"type": "text", "text": "I search."},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
    ]});
    let said = json!({"role": "assistant", "content": "The answer is"});
    for (api, field, model, end) in [
        ("anthropic", "messages", "claude-opus-4-6", &search),
        ("anthropic", "messages", "claude-sonnet-4-5", &said),
        ("openai-chat", "messages", "gpt-4o", &said),
        ("openai-responses", "input", "gpt-4o", &said),
    ] {
        let mut request = run(api, 80);
        request["model"] = json!(model);
        let list = request[field].as_array_mut().unwrap();
        list.push(json!({"role": "user", "content": "Go on."}));
        list.push(end.clone());
        for session in [None, Some(format!("{api} {model}"))] {
            let options = FitOptions {
                session,
                max_tokens: Some(6_000),
                now: Some(lab.tick()),
                ..FitOptions::default()
            };
            let fitted = lab
                .engine
                .fit(&lab.root, request.to_string().as_bytes(), &options)
                .unwrap();
            assert!(fitted.is_changed);
            let made: Value = serde_json::from_str(&fitted.body).unwrap();
            let last = made[field].as_array().unwrap().last().unwrap();
            assert_eq!(last["role"], "assistant", "{api}: {last}");
        }
    }
    // A model that does not continue its own message.
    let mut request = run("anthropic", 80);
    let list = request["messages"].as_array_mut().unwrap();
    list.push(said);
    let options = FitOptions {
        max_tokens: Some(6_000),
        ..FitOptions::default()
    };
    let error = refusal(&lab, &request, &options).to_string();
    assert!(error.contains("anthropic.user_last"), "{error}");
}

/// The mark of the whole request is one of the four that Anthropic accepts.
#[test]
fn a_request_gets_at_most_four_cache_marks() {
    let lab = Lab::new("");
    let mark = json!({"type": "ephemeral"});
    let mut request = run("anthropic", 80);
    let text = |text: &str| json!({"type": "text", "text": text, "cache_control": mark});
    request["system"] = json!([text("One."), text("Two."), text("Three.")]);
    request["cache_control"] = mark.clone();
    let fitted = fit(&lab, &request.to_string(), 6_000);
    assert!(fitted.is_changed);
    assert_eq!(fitted.body.matches("cache_control").count(), 4);
}

/// A request that fits is valid, too: Anthropic rejects five marks.
#[test]
fn excess_cache_marks_of_a_request_are_removed_and_reported() {
    let lab = Lab::new("");
    let mark = json!({"type": "ephemeral"});
    let text = |text: &str| json!({"type": "text", "text": text, "cache_control": mark});
    for (steps, max_tokens) in [(2, 100_000), (80, 6_000)] {
        let mut request = run("anthropic", steps);
        request["tools"][0]["cache_control"] = mark.clone();
        request["system"] = json!([text("One."), text("Two."), text("Three."), text("Four.")]);
        let messages = request["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "assistant", "content": "Done."}));
        messages.push(json!({"role": "user", "content": [text("Next.")]}));
        let fitted = fit(&lab, &request.to_string(), max_tokens);
        assert!(fitted.is_changed);
        let made: Value = serde_json::from_str(&fitted.body).unwrap();
        contexture_providers::preflight(Format::Anthropic, &made).unwrap();
        assert_eq!(fitted.body.matches("cache_control").count(), 4);
        assert_eq!(made["system"][3]["cache_control"], mark);
        let warnings = &fitted.assembled.report.warnings;
        let warning = warnings
            .iter()
            .find(|one| one.code == "cache_marks_removed");
        assert!(
            warning.unwrap().message.contains("tools[0]"),
            "{warnings:?}"
        );
    }
    let mut request = run("anthropic", 2);
    request["system"] = json!([text("1"), text("2"), text("3"), text("4")]);
    let fitted = fit(&lab, &request.to_string(), 100_000);
    assert!(!fitted.is_changed);
}

#[test]
fn text_is_no_request() {
    let lab = Lab::new("");
    let options = FitOptions {
        to: Some(Format::Text),
        ..FitOptions::default()
    };
    let error = refusal(&lab, &run("anthropic", 2), &options);
    assert_eq!(error.field(), Some("to"));
    assert!(error.to_string().contains("openai-chat"), "{error}");
}
