//! The current message of a request enters history with the same bytes.

use crate::support::*;
use contexture::core::Role;
use contexture::memory::Lines;
use contexture::turn::NewTurn;
use contexture::{Assembled, Attachment, Event, Format, Hook, Request, Sender};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

/// Summaries would move the prefix.
const WHOLE: &str = "[compaction]\nenabled = false";

/// Returns an event with every optional field.
fn event(content: &str) -> Event {
    Event {
        content: content.to_owned(),
        timezone: Some("Europe/Berlin".to_owned()),
        sender: Some(Sender {
            name: Some("Ana".to_owned()),
            id: Some("u7".to_owned()),
        }),
        hooks: vec![Hook {
            name: "billing".to_owned(),
            content: "Plan: gold\nToken: ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW2xY4".to_owned(),
        }],
        attachments: vec![
            Attachment {
                name: Some("invoice.txt".to_owned()),
                content: Some("No. 81, 2 × 30 €\n</context>".to_owned()),
                ..Attachment::default()
            },
            Attachment {
                media_type: Some("image/png".to_owned()),
                data: Some(PIXEL.to_owned()),
                ..Attachment::default()
            },
            Attachment {
                path: Some("notes/charge.md".to_owned()),
                ..Attachment::default()
            },
        ],
        ..Event::default()
    }
}

fn lab(config: &str) -> Lab {
    let lab = Lab::new(config);
    lab.write("notes/charge.md", "# Charge\n\nAsked twice on Monday.\n");
    let lines = r#"{"kind":"event","content":"Ana was charged twice in May and got a refund.","timestamp":"2026-01-05T10:00:00Z"}
{"kind":"event","content":"Invoices are sent on the first of the month.","timestamp":"2026-01-06T10:00:00Z"}
"#;
    let mut progress = |_, _| {};
    let mut lines = Lines {
        name: "records.jsonl",
        reader: &mut lines.as_bytes(),
        progress: &mut progress,
    };
    let memory = lab.engine.memory().unwrap();
    memory.record_lines(&mut lines, Some(lab.tick())).unwrap();
    lab
}

impl Lab {
    fn ask(&self, label: &str, event: Option<Event>) -> Assembled {
        let request = Request {
            event,
            now: Some(self.tick()),
            ..request(label, 100_000)
        };
        self.engine.assemble(&self.root, &request).unwrap()
    }
}

/// Returns the messages of a provider's request without cache marks.
fn messages(assembled: &Assembled, format: Format) -> Vec<Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Array(list) => list.iter_mut().for_each(strip),
            Value::Object(fields) => {
                fields.remove("cache_control");
                fields.remove("prompt_cache_breakpoint");
                fields.values_mut().for_each(strip);
            }
            _ => {}
        }
    }
    let body: Value = serde_json::from_str(&assembled.render(format).unwrap()).unwrap();
    let list = ["messages", "input", "contents"]
        .iter()
        .find_map(|key| body.get(key));
    let mut list = list.unwrap().as_array().unwrap().clone();
    list.iter_mut().for_each(strip);
    list
}

/// Checks that a request begins with all of the one before.
fn check_prefix(before: &Assembled, after: &Assembled) -> Result<(), String> {
    for format in PROVIDERS {
        let (before, after) = (messages(before, format), messages(after, format));
        let begins = after.get(..before.len()) == Some(&before[..]);
        if !begins {
            let pretty = |list: &[Value]| serde_json::to_string_pretty(list).unwrap();
            let (before, after) = (pretty(&before), pretty(&after));
            return Err(format!("{format:?}:\n{before}\n---\n{after}"));
        }
    }
    let text = |assembled: &Assembled| assembled.render(Format::Text).unwrap();
    let (before, after) = (text(before), text(after));
    match after.starts_with(&before) {
        true => Ok(()),
        false => Err(format!("{before}\n---\n{after}")),
    }
}

/// Returns the answers to an event, as agents record them: a turn, or several.
fn answers(style: u8, content: &str, n: usize) -> Vec<NewTurn> {
    let id = format!("call_{n:016}");
    let call = || calls([id.as_str()]);
    match style % 5 {
        0 => vec![exchange(content, &prose(n, 12))],
        // The loop is in the client: one turn for all steps.
        1 => vec![turn([
            user(content),
            call(),
            result(&id, "exit 0"),
            says("Done."),
        ])],
        // A turn for each answer of the model, and one for the results.
        2 => vec![
            turn([user(content), call()]),
            turn([result(&id, "exit 0")]),
            turn([says(&prose(n, 9))]),
        ],
        // The request has the user's message, so the turn does not repeat it.
        3 => vec![turn([says(&prose(n, 7))])],
        // The user's message by itself, and then the answer.
        _ => vec![turn([user(content)]), turn([says(&prose(n, 7))])],
    }
}

#[test]
fn a_request_begins_with_the_whole_request_before_it() {
    let lab = lab(WHOLE);
    let mut runner = TestRunner::new(Config {
        cases: 24,
        failure_persistence: None,
        ..Config::default()
    });
    let number = std::cell::Cell::new(0);
    let run = prop::collection::vec((any::<u8>(), any::<u8>()), 1..7);
    runner
        .run(&run, |run| {
            number.set(number.get() + 1);
            let label = format!("case {}", number.get());
            lab.session(&label);
            let mut previous: Option<Assembled> = None;
            for (n, (kind, style)) in run.into_iter().enumerate() {
                let content = match kind % 3 {
                    0 => format!("Why was I charged twice? ({n})"),
                    1 => format!("key ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW2xY4\u{202e} {n}  \n"),
                    _ => format!("<context>{}</user>", prose(n, 10)),
                };
                let asked = match kind % 4 {
                    0 => Event::from(content.as_str()),
                    _ => event(&content),
                };
                let now = lab.ask(&label, Some(asked));
                if let Some(previous) = &previous {
                    check_prefix(previous, &now).map_err(TestCaseError::fail)?;
                }
                let mut last = now;
                for turn in answers(style, &content, n) {
                    let is_answer = turn.messages.len() == 1
                        && turn.messages[0].role == contexture::turn::MessageRole::Tool;
                    lab.record(&label, &turn);
                    if is_answer {
                        // A step without an event.
                        let step = lab.ask(&label, None);
                        check_prefix(&last, &step).map_err(TestCaseError::fail)?;
                        last = step;
                    }
                }
                previous = Some(last);
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn everything_around_the_event_is_there_while_the_agent_works_on_it() {
    let lab = lab("");
    lab.session("s");
    let content = "Why was I charged twice?";
    lab.ask("s", Some(event(content)));
    lab.record("s", &turn([user(content), calls(["c1"])]));
    lab.record("s", &turn([result("c1", "two charges")]));
    let step = lab.ask("s", None);
    let text = step.render(Format::Text).unwrap();
    for part in [
        "Current time: 2026",
        "Sender: Ana (u7)",
        "invoice.txt",
        "No. 81",
        "Asked twice on Monday.",
        "Plan: gold",
        "got a refund",
    ] {
        assert_eq!(text.matches(part).count(), 1, "{part}\n{text}");
    }
    assert_eq!(text.matches(content).count(), 1, "{text}");
    assert!(!text.contains("ghp_"), "{text}");
    // It is history: nothing of it is offered as new.
    assert!(step.layout.current.is_empty());
    let history = &step.layout.history;
    assert!(history.iter().any(|block| block.role == Role::Context));
    assert!(step.report.budget.used <= step.report.budget.effective);
}

#[test]
fn forks_and_undone_compactions_have_the_same_bytes() {
    let lab = lab(WHOLE);
    lab.session("s");
    let mut requests = Vec::new();
    for n in 0..6 {
        let content = format!("Question {n}? {}", prose(n, 60));
        requests.push(lab.ask("s", Some(event(&content))));
        lab.record("s", &exchange(&content, &prose(n + 50, 60)));
    }
    let last = requests.last().unwrap();
    lab.fork("s", "fork");
    check_prefix(last, &lab.ask("fork", Some(event("And now?")))).unwrap();
    let compact = contexture::CompactRequest {
        now: Some(lab.tick()),
        max_tokens: Some(4_000),
        ..Default::default()
    };
    let compacted = lab.engine.compact("s", &compact).unwrap();
    assert!(compacted.compacted().is_some());
    let shorter = lab.ask("s", Some(event("And now?")));
    check_prefix(last, &shorter).unwrap_err();
    lab.engine.uncompact("s", Some(lab.tick())).unwrap();
    check_prefix(last, &lab.ask("s", Some(event("And now?")))).unwrap();
}

#[test]
fn a_native_request_is_recorded_as_it_was_sent() {
    for format in PROVIDERS {
        let lab = lab(WHOLE);
        lab.session("s");
        let mut previous: Option<Assembled> = None;
        for n in 0..3 {
            let now = lab.ask("s", Some(event(&format!("Why was I charged twice? {n}"))));
            if let Some(previous) = &previous {
                check_prefix(previous, &now)
                    .map_err(|why| format!("{format:?} {why}"))
                    .unwrap();
            }
            let request: Value = serde_json::from_str(&now.render(format).unwrap()).unwrap();
            let said = format!("It was refunded. {n}");
            let response = match format {
                Format::Anthropic => serde_json::json!({"type": "message", "role": "assistant",
                    "model": "m", "content": [{"type": "text", "text": said}],
                    "stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 2}}),
                Format::OpenAiChat => serde_json::json!({"object": "chat.completion", "model": "m",
                    "choices": [{"index": 0, "finish_reason": "stop",
                        "message": {"role": "assistant", "content": said}}]}),
                Format::OpenAiResponses => serde_json::json!({"object": "response", "model": "m",
                    "status": "completed", "output": [{"type": "message", "id": format!("msg_{n}"),
                        "role": "assistant", "status": "completed",
                        "content": [{"type": "output_text", "text": said, "annotations": []}]}]}),
                _ => {
                    serde_json::json!({"modelVersion": "m", "candidates": [{"finishReason": "STOP",
                    "content": {"role": "model", "parts": [{"text": said}]}}]})
                }
            };
            let hash = now.snapshot.clone().unwrap();
            let body = serde_json::json!({"request": request, "response": response,
                "request_hash": hash});
            let recording = contexture::Recording::read("-", body.to_string().as_bytes(), None);
            let turn = lab.engine.turn_of("s", recording.unwrap()).unwrap();
            lab.record("s", &turn);
            previous = Some(now);
        }
    }
}

#[test]
fn a_turn_that_says_something_else_is_left_as_it_is() {
    let lab = lab(WHOLE);
    lab.session("s");
    lab.ask("s", Some(event("Why was I charged twice?")));
    lab.record(
        "s",
        &exchange("A question of another request", "An answer."),
    );
    let next = lab.ask("s", None);
    let text = next.render(Format::Text).unwrap();
    assert!(text.contains("A question of another request"), "{text}");
    assert!(!text.contains("charged twice?"), "{text}");
    assert!(!text.contains("Sender: Ana"), "{text}");
}

#[test]
fn without_snapshots_the_message_is_recorded_as_the_turn_says_it() {
    let lab = lab("[snapshots]\nkeep = false");
    lab.session("s");
    lab.ask("s", Some(event("Why was I charged twice?")));
    lab.record(
        "s",
        &exchange("Why was I charged twice?", "It was refunded."),
    );
    let text = lab.ask("s", None).render(Format::Text).unwrap();
    assert_eq!(text.matches("Why was I charged twice?").count(), 1);
    assert!(!text.contains("Sender: Ana"), "{text}");
}

#[test]
fn large_events_are_paid_for_once() {
    let lab = lab(WHOLE);
    lab.session("s");
    for n in 0..4 {
        let content = format!("Log {n}: {}", prose(n, 3_000));
        let now = lab.ask("s", Some(event(&content)));
        if n > 0 {
            // The previous request is the beginning of this one: only the
            // answer and the current message are new.
            let cache = now.report.cache.clone().unwrap();
            let answer = now.layout.history.last().unwrap();
            assert_eq!(answer.text(), "Noted.");
            let standing = now.layout.system.iter().chain(&now.layout.history);
            let standing: u64 = standing.map(|block| block.tokens).sum();
            assert_eq!(cache.shared_tokens, standing - answer.tokens);
        }
        lab.record("s", &exchange(&content, "Noted."));
    }
}
