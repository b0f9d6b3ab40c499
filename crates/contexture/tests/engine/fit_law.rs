//! Whatever a valid request has in it and however little room there is: `fit`
//! returns a request that the provider accepts, or reports that the latest
//! message does not fit.

use crate::support::*;
use contexture::native::Api;
use contexture::{Cause, FitOptions};
use contexture_providers::{Format, preflight, preflight_continued};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

/// A part of a conversation.
#[derive(Debug, Clone, Copy)]
enum Move {
    /// The user and the model say something.
    Talk,
    /// The model calls this many tools at once.
    Calls(usize),
    /// The model answers in a form that only this API has.
    Odd(usize),
    /// Instructions between the messages, where the API has them.
    Instructs,
    /// The user shows a picture.
    Image,
}

/// The end of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    User,
    Results,
    /// The model's message, which it continues.
    Model,
    /// A turn that the provider paused.
    Paused,
}

#[derive(Debug, Clone)]
struct Given {
    api: Api,
    moves: Vec<(Move, usize)>,
    end: End,
    // Results of calls that the provider stores.
    stored: usize,
    // The cache marks in the instructions, and whether the request has one.
    marks: usize,
    is_marked: bool,
    budget: u64,
}

fn given() -> impl Strategy<Value = Given> {
    let one = prop_oneof![
        3 => Just(Move::Talk),
        3 => (1..4_usize).prop_map(Move::Calls),
        3 => (0..4_usize).prop_map(Move::Odd),
        1 => Just(Move::Instructs),
        1 => Just(Move::Image),
    ];
    let size = prop_oneof![4 => 1..60_usize, 1 => 200..900_usize];
    (
        prop::sample::select(Api::ALL.to_vec()),
        prop::collection::vec((one, size), 0..14),
        prop::sample::select(vec![End::User, End::Results, End::Model, End::Paused]),
        prop_oneof![2 => Just(0), 1 => 1..3_usize],
        0..4_usize,
        any::<bool>(),
        prop_oneof![3 => 200..2_500_u64, 1 => 2_500..30_000_u64],
    )
        .prop_map(
            |(api, moves, end, stored, marks, is_marked, budget)| Given {
                api,
                moves,
                end,
                stored,
                marks,
                is_marked,
                budget,
            },
        )
}

/// The picture of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Writes a conversation in the form of an API.
struct Writer {
    api: Api,
    list: Vec<Value>,
    calls: usize,
}

impl Writer {
    fn user(&mut self, text: String) {
        let said = match self.api {
            Api::Gemini => json!({"role": "user", "parts": [{"text": text}]}),
            _ => json!({"role": "user", "content": text}),
        };
        self.push("user", said);
    }

    fn model(&mut self, text: String) {
        let said = match self.api {
            Api::Gemini => json!({"role": "model", "parts": [{"text": text}]}),
            _ => json!({"role": "assistant", "content": text}),
        };
        self.push("model", said);
    }

    /// Adds a message. Messages of one speaker are merged where the API requires
    /// that the speakers alternate.
    fn push(&mut self, speaker: &str, message: Value) {
        let field = match self.api {
            Api::Anthropic => "content",
            Api::Gemini => "parts",
            _ => return self.list.push(message),
        };
        let blocks = |message: &Value| match &message[field] {
            Value::String(text) => vec![json!({"type": "text", "text": text})],
            list => list.as_array().unwrap().clone(),
        };
        let role = match (self.api, speaker) {
            (Api::Gemini, "model") => "model",
            (_, "model") => "assistant",
            _ => "user",
        };
        match self.list.last_mut().filter(|last| last["role"] == role) {
            Some(last) => {
                let merged: Vec<Value> = [blocks(last), blocks(&message)].concat();
                last[field] = merged.into();
            }
            None => self.list.push(message),
        }
    }

    /// Adds a message of the user with this many words.
    fn ask(&mut self, at: usize, words: usize) {
        self.user(prose(at, words));
    }

    fn calls(&mut self, count: usize, words: usize) {
        let ids: Vec<usize> = (self.calls..self.calls + count).collect();
        self.calls += count;
        let path = |id: &usize| format!("src/{id}.rs");
        let text = |id: &usize| prose(*id, words);
        match self.api {
            Api::Anthropic => {
                let mut said =
                    vec![json!({"type": "thinking", "thinking": "hm", "signature": "s"})];
                said.extend(ids.iter().map(|id| {
                    json!({"type": "tool_use", "id": format!("toolu_{id}"), "name": "read",
                        "input": {"path": path(id)}})
                }));
                let results: Vec<Value> = (ids.iter())
                    .map(|id| {
                        json!({"type": "tool_result", "tool_use_id": format!("toolu_{id}"),
                            "content": text(id)})
                    })
                    .collect();
                self.push("model", json!({"role": "assistant", "content": said}));
                self.push("user", json!({"role": "user", "content": results}));
            }
            Api::OpenAiChat => {
                let calls: Vec<Value> = (ids.iter())
                    .map(|id| {
                        json!({"id": format!("call_{id}"), "type": "function", "function":
                            {"name": "read", "arguments": json!({"path": path(id)}).to_string()}})
                    })
                    .collect();
                self.list
                    .push(json!({"role": "assistant", "content": null, "tool_calls": calls}));
                for id in &ids {
                    self.list.push(json!({"role": "tool",
                        "tool_call_id": format!("call_{id}"), "content": text(id)}));
                }
            }
            Api::OpenAiResponses => {
                let id = self.calls;
                self.list
                    .push(json!({"type": "reasoning", "id": format!("rs_{id}"),
                    "summary": [], "encrypted_content": "seal"}));
                for id in &ids {
                    self.list.push(json!({"type": "function_call",
                        "call_id": format!("call_{id}"), "name": "read",
                        "arguments": json!({"path": path(id)}).to_string()}));
                }
                for id in &ids {
                    self.list.push(json!({"type": "function_call_output",
                        "call_id": format!("call_{id}"), "output": text(id)}));
                }
            }
            Api::Gemini => {
                let calls: Vec<Value> = (ids.iter())
                    .map(|id| {
                        json!({"functionCall": {"name": "read", "args": {"path": path(id)}},
                            "thoughtSignature": "c2ln"})
                    })
                    .collect();
                let results: Vec<Value> = (ids.iter())
                    .map(|id| {
                        json!({"functionResponse":
                            {"name": "read", "response": {"output": text(id)}}})
                    })
                    .collect();
                self.list.push(json!({"role": "model", "parts": calls}));
                self.list.push(json!({"role": "user", "parts": results}));
            }
        }
    }

    /// Adds an answer that only this API has.
    fn odd(&mut self, kind: usize, at: usize, words: usize) {
        self.ask(at, words);
        let list = &mut self.list;
        match (self.api, kind) {
            (Api::OpenAiChat, 0) => list
                .push(json!({"role": "assistant", "content": null, "refusal": "I cannot help."})),
            (Api::OpenAiChat, 1) => list.push(json!({"role": "assistant", "content": null,
                "audio": {"id": format!("audio_{at}")}})),
            (Api::OpenAiChat, 2) => {
                list.push(json!({"role": "assistant", "content": null,
                    "function_call": {"name": "read", "arguments": "{}"}}));
                list.push(json!({"role": "function", "name": "read",
                    "content": prose(at, words)}));
            }
            (Api::OpenAiResponses, 0) => {
                list.push(json!({"type": "reasoning", "id": format!("rs_m{at}"),
                    "summary": []}));
                list.push(json!({"type": "message", "id": format!("msg_{at}"),
                    "role": "assistant", "status": "completed", "content":
                        [{"type": "output_text", "text": prose(at, words), "annotations": []}]}));
            }
            (Api::OpenAiResponses, 1) => {
                list.push(json!({"type": "web_search_call", "id": format!("ws_{at}"),
                    "status": "completed"}));
                list.push(json!({"role": "assistant", "content": [{"type": "refusal",
                    "refusal": "I cannot help."}]}));
            }
            (Api::Anthropic, 0 | 1) => {
                let id = format!("srvtoolu_{at}");
                let said = json!([
                    {"type": "server_tool_use", "id": id, "name": "web_search", "input": {}},
                    {"type": "web_search_tool_result", "tool_use_id": id, "content": []},
                    {"type": "text", "text": prose(at, words)},
                ]);
                self.push("model", json!({"role": "assistant", "content": said}));
            }
            (Api::Gemini, 0 | 1) => self.push(
                "model",
                json!({"role": "model", "parts": [{"text": prose(at, words)},
                    {"text": "", "thoughtSignature": "c2ln"}]}),
            ),
            _ => self.model(prose(at, words)),
        }
    }

    fn instructs(&mut self, at: usize) {
        let text = prose(at, 9);
        match self.api {
            Api::OpenAiChat | Api::OpenAiResponses => {
                let role = ["system", "developer"][at % 2];
                self.list.push(json!({"role": role, "content": text}));
            }
            Api::Anthropic if !self.list.is_empty() => {
                self.list.push(json!({"role": "system", "content": text}));
            }
            _ => {}
        }
    }

    fn image(&mut self, at: usize) {
        let text = prose(at, 5);
        let url = format!("data:image/png;base64,{PIXEL}");
        let said = match self.api {
            Api::Anthropic => json!({"role": "user", "content": [
                {"type": "image", "source":
                    {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                {"type": "text", "text": text}]}),
            Api::OpenAiChat => json!({"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": url}},
                {"type": "text", "text": text}]}),
            Api::OpenAiResponses => json!({"role": "user", "content": [
                {"type": "input_image", "image_url": url, "detail": "low"},
                {"type": "input_text", "text": text}]}),
            Api::Gemini => json!({"role": "user", "parts": [
                {"inlineData": {"mimeType": "image/png", "data": PIXEL}}, {"text": text}]}),
        };
        self.push("user", said);
        self.model(prose(at, 5));
    }
}

impl Given {
    /// Returns true if the request ends with the model's message.
    fn ends_with_model(&self) -> bool {
        match self.end {
            End::User | End::Results => false,
            End::Model => self.api != Api::Gemini,
            End::Paused => self.api == Api::Anthropic,
        }
    }

    fn body(&self) -> Value {
        let mut writer = Writer {
            api: self.api,
            list: Vec::new(),
            calls: 0,
        };
        let stored = match self.api {
            Api::OpenAiResponses => self.stored,
            _ => 0,
        };
        for at in 0..stored {
            writer.list.push(json!({"type": "function_call_output",
                "call_id": format!("stored_{at}"), "output": prose(at, 40)}));
        }
        for (at, &(one, words)) in self.moves.iter().enumerate() {
            match one {
                Move::Talk => {
                    writer.ask(at, words);
                    writer.model(prose(at + 1, words));
                }
                Move::Calls(count) => {
                    writer.ask(at, 5);
                    writer.calls(count, words);
                    writer.model(prose(at + 2, 5));
                }
                Move::Odd(kind) => writer.odd(kind, at, words),
                Move::Instructs => writer.instructs(at),
                Move::Image => writer.image(at),
            }
        }
        writer.ask(99, 9);
        match self.end {
            End::Results => writer.calls(2, 20),
            _ if !self.ends_with_model() => {}
            End::Paused => writer.push(
                "model",
                json!({"role": "assistant", "content": [{"type": "server_tool_use",
                    "id": "srvtoolu_end", "name": "web_search", "input": {}}]}),
            ),
            _ => writer.model("The answer is".to_owned()),
        }
        let list = writer.list;
        match self.api {
            Api::Anthropic => {
                let mark = json!({"type": "ephemeral"});
                let system: Vec<Value> = (0..4)
                    .map(|at| {
                        let mut text = json!({"type": "text", "text": prose(at, 4)});
                        if at < self.marks {
                            text["cache_control"] = mark.clone();
                        }
                        text
                    })
                    .collect();
                let model = match self.end {
                    // A model that continues its own message.
                    End::Model => "claude-sonnet-4-5",
                    _ => "claude-sonnet-5-5",
                };
                let mut body = json!({"model": model, "max_tokens": 100,
                    "system": system, "messages": list});
                if self.is_marked {
                    body["cache_control"] = mark;
                }
                body
            }
            Api::OpenAiChat => {
                json!({"model": "gpt-4o", "messages": list, "max_tokens": 100})
            }
            Api::OpenAiResponses => {
                let mut body = json!({"model": "gpt-5.5", "instructions": "Be brief.",
                    "input": list, "max_output_tokens": 100});
                if stored > 0 {
                    body["previous_response_id"] = json!("resp_1");
                }
                body
            }
            Api::Gemini => {
                json!({"contents": list, "generationConfig": {"maxOutputTokens": 100}})
            }
        }
    }
}

fn check(format: Format, body: &Value, ends_with_model: bool) -> Result<(), String> {
    let checked = match ends_with_model {
        true => preflight_continued(format, body),
        false => preflight(format, body),
    };
    checked.map_err(|refused| refused.to_string())
}

#[test]
fn every_valid_request_fits_or_its_latest_message_does_not() {
    let lab = Lab::new("[snapshots]\nkeep = false");
    let mut runner = TestRunner::new(Config {
        cases: 600,
        failure_persistence: None,
        ..Config::default()
    });
    let result = runner.run(&given(), |given| {
        let body = given.body();
        let format = given.api.format();
        let ends_with_model = given.ends_with_model();
        // The generator makes valid requests.
        prop_assert_eq!(check(format, &body, ends_with_model), Ok(()));
        let options = FitOptions {
            from: Some(format.name().to_owned()),
            max_tokens: Some(given.budget),
            ..FitOptions::default()
        };
        let fitted = lab
            .engine
            .fit(&lab.root, body.to_string().as_bytes(), &options);
        let fitted = match fitted {
            Ok(fitted) => fitted,
            Err(error) => {
                prop_assert_eq!(error.cause(), Cause::OverBudget, "{}", error);
                return Ok(());
            }
        };
        let made: Value = serde_json::from_str(&fitted.body).unwrap();
        prop_assert_eq!(check(format, &made, ends_with_model), Ok(()));
        prop_assert!(fitted.is_changed || made == body);
        for at in 0..given.stored {
            let id = format!("\"stored_{at}\"");
            let is_given = body.to_string().contains(&id);
            prop_assert!(!is_given || fitted.body.contains(&id), "{}", fitted.body);
        }
        let marks = made.to_string().matches("\"cache_control\"").count();
        prop_assert!(marks <= 4, "{} marks", marks);
        Ok(())
    });
    result.unwrap();
}
