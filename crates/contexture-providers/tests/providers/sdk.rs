//! Requests as the providers' own client libraries see them.
//!
//! This needs Python and its package index. Without them it fails: a test that
//! is skipped looks just like one that passes.
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use crate::common::generate::{talk, unit};
use crate::common::*;
use contexture_core::{Item, Join, MediaKind, Role, Text};
use contexture_providers::{Format, Prompt, Sampling, preflight};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk")
}

/// A Python that has the client libraries. The tests of this file share it.
static PYTHON: LazyLock<String> = LazyLock::new(|| {
    let made = Command::new("sh")
        .arg(scripts().join("setup.sh"))
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("sdk"))
        .output()
        .expect("this test needs sh");
    assert!(
        made.status.success(),
        "this test needs Python 3.11 or newer and its package index, to install the client \
         libraries of the providers:\n{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let printed = String::from_utf8(made.stdout).unwrap();
    printed.lines().last().unwrap().to_owned()
});

/// Returns the verdicts on requests, in order.
fn judge(requests: &[(String, Format, Value)]) -> Vec<Value> {
    judge_ending(requests, Speaker::User)
}

/// The authors that may write the last message.
#[derive(PartialEq)]
enum Speaker {
    User,
    Anyone,
}

fn judge_ending(requests: &[(String, Format, Value)], last: Speaker) -> Vec<Value> {
    let mut child = Command::new(&*PYTHON)
        .arg(scripts().join("validate.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the Python that setup.sh made runs");
    let mut stdin = child.stdin.take().unwrap();
    let lines: String = requests
        .iter()
        .map(|(title, format, request)| {
            let line = json!({
                "name": title,
                "format": name(*format),
                "request": request,
                "continues": last == Speaker::Anyone,
            });
            format!("{line}\n")
        })
        .collect();
    // Verdicts come while requests still go in: both pipes have to move.
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "validate.py failed");
    let verdicts: Vec<Value> = output
        .stdout
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(verdicts.len(), requests.len());
    verdicts
}

/// Requests with everything that one provider or the other has.
fn samples() -> Vec<(String, Format, Value)> {
    let mut requests = Vec::new();
    let media = [
        (MediaKind::Image, "image/png", data(PIXEL)),
        (
            MediaKind::Image,
            "image/webp",
            url("https://example.com/a.webp"),
        ),
        (MediaKind::Document, "application/pdf", data("JVBERi0=")),
        (
            MediaKind::Document,
            "application/pdf",
            url("https://example.com/a.pdf"),
        ),
        (MediaKind::Audio, "audio/wav", data("UklGRg==")),
        (MediaKind::Audio, "audio/mp3", data("SUQz")),
    ];
    for role in [Role::User, Role::Context, Role::Assistant, Role::Tool] {
        for (kind, media_type, source) in media.clone() {
            let mut history = vec![user("Look."), call("c1", "shell", "{}")];
            history.push(result("c1", "shell", "ok"));
            history.push(crate::common::media(role, kind, media_type, source));
            let talk = Talk {
                system: vec![
                    said(Role::System, "Be brief."),
                    said(Role::Developer, "Mend it."),
                ],
                history,
                event: vec![user("Go on.")],
                ..Talk::default()
            };
            for format in FORMATS {
                for model in ["gpt-5", "gemini-3-pro", "other"] {
                    // Requests that a provider rejects are already rejected
                    // here.
                    if let Ok(request) = talk.request_for(format, model) {
                        let title = format!("{media_type} of {} to {model}", role.name());
                        requests.push((title, format, request));
                    }
                }
            }
        }
    }
    requests
}

fn generated(count: usize) -> Vec<(String, Format, Value)> {
    let mut runner = TestRunner::deterministic();
    let units = proptest::collection::vec(unit(), 0..6);
    let mut requests = Vec::new();
    for number in 0..count {
        let units = units.new_tree(&mut runner).unwrap().current();
        for format in FORMATS {
            let request = talk(&units).request(format).unwrap();
            requests.push((format!("generated {number}"), format, request));
        }
    }
    requests
}

#[test]
fn requests_are_accepted_by_the_client_libraries() {
    let mut requests = samples();
    assert!(requests.len() > 150, "{} samples", requests.len());
    requests.extend(generated(150));
    for verdict in judge(&requests) {
        assert_eq!(verdict["ok"], true, "{verdict:#}");
    }
}

#[test]
fn documents_settings_and_prefilled_answers_are_accepted() {
    let part = |text: &str| Item::new("node", Role::Document, Text::new(text));
    let talks = [
        Talk {
            system: vec![said(Role::System, "Go on.")],
            history: vec![part("It was a dark"), part(" and stormy ")],
            ..Talk::default()
        },
        Talk {
            history: vec![
                user("Tell a story.").join(Join::Paragraph),
                user("A short one.").join(Join::Paragraph),
                model("Once upon a time "),
            ],
            ..Talk::default()
        },
    ];
    let sampling = Sampling {
        temperature: Some(0.7),
        top_p: Some(1.0),
        top_k: Some(40),
        stop: vec!["END".to_owned()],
        seed: Some(42),
        frequency_penalty: Some(-0.5),
        presence_penalty: Some(1.0),
        max_tokens: Some(100),
    };
    // The libraries of today no longer have these, which earlier models still
    // take with an earlier version of the API.
    let for_anthropic = Sampling {
        temperature: None,
        top_p: None,
        top_k: None,
        ..sampling.clone()
    };
    let mut requests = Vec::new();
    for (number, talk) in talks.iter().enumerate() {
        for (_, format) in Format::ALL {
            // Our own form is made from an assembled request.
            if format == Format::Json {
                continue;
            }
            let layout = talk.layout();
            let prompt = Prompt {
                continues: true,
                sampling: match format {
                    Format::Anthropic => &for_anthropic,
                    _ => &sampling,
                },
                ..Prompt::new(&layout, "some-model", 9000)
            };
            if format == Format::Text || (format == Format::Gemini && number == 1) {
                continue;
            }
            requests.push((
                format!("talk {number}"),
                format,
                prompt.request(format).unwrap(),
            ));
        }
    }
    assert_eq!(requests.len(), 9);
    for verdict in judge_ending(&requests, Speaker::Anyone) {
        assert_eq!(verdict["ok"], true, "{verdict:#}");
    }
    // And what is wrong is still found.
    let mut wrong = requests[3].clone();
    assert_eq!(wrong.1, Format::OpenAiCompletions);
    wrong.2["top_k"] = json!(3);
    assert_eq!(judge(&[wrong])[0]["ok"], false);
}

#[test]
fn an_invalid_request_is_found() {
    let units = unit()
        .new_tree(&mut TestRunner::deterministic())
        .unwrap()
        .current();
    let talk = talk(&[units]);
    let mut requests = Vec::new();
    for format in FORMATS {
        let whole = talk.request(format).unwrap();
        let mut unknown = whole.clone();
        unknown["no_such_key"] = json!(1);
        let mut empty = whole.clone();
        let mut wrong = whole.clone();
        match format {
            Format::Anthropic => {
                empty["messages"] = json!([]);
                wrong["messages"][0]["content"][0] = json!({"type": "text", "text": ""});
            }
            Format::OpenAiChat => {
                empty["messages"] = json!([]);
                wrong["messages"][1]["role"] = json!("model");
            }
            Format::OpenAiResponses => {
                empty["input"] = json!([]);
                wrong["input"][0]["content"][0]["type"] = json!("text");
            }
            _ => {
                empty["contents"] = json!([]);
                wrong["contents"][0]["parts"][0] = json!({"inline_data": {}});
            }
        }
        for (title, request) in [("unknown", unknown), ("empty", empty), ("wrong", wrong)] {
            requests.push((title.to_owned(), format, request));
        }
    }
    for verdict in judge(&requests) {
        assert_eq!(verdict["ok"], false, "{verdict:#}");
        assert_ne!(verdict["errors"], json!([]));
    }
}

/// Every request that comes of leaving out or repeating one message, or one
/// part of one.
fn edited(request: &Value) -> Vec<Value> {
    let key = ["messages", "input", "contents"]
        .into_iter()
        .find(|key| request.get(key).is_some());
    let key = key.unwrap();
    let mut edits = Vec::new();
    let mut edit = |path: &str| {
        let length = request
            .pointer(path)
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        for at in 0..length {
            for repeat in [false, true] {
                let mut request = request.clone();
                let list = request.pointer_mut(path).and_then(Value::as_array_mut);
                let list = list.unwrap();
                let item = list.remove(at);
                if repeat {
                    list.insert(at, item.clone());
                    list.insert(at, item);
                }
                edits.push(request);
            }
        }
    };
    edit(&format!("/{key}"));
    for at in 0..request[key].as_array().unwrap().len() {
        for parts in ["content", "parts", "tool_calls"] {
            edit(&format!("/{key}/{at}/{parts}"));
        }
    }
    edits
}

#[test]
fn edited_requests_that_pass_preflight_pass_the_client_libraries() {
    let mut taken = Vec::new();
    let mut refused = 0;
    for (title, format, request) in generated(12) {
        for edit in edited(&request) {
            match preflight(format, &edit) {
                Ok(()) => taken.push((title.clone(), format, edit)),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(
        taken.len() > 100 && refused > 100,
        "{} {refused}",
        taken.len()
    );
    for (verdict, (_, _, request)) in judge(&taken).iter().zip(&taken) {
        assert_eq!(verdict["ok"], true, "{verdict:#}\n{request:#}");
    }
}
