//! Media in the results of tools: they are counted and sent, or reported.

use crate::support::*;
use contexture::{FitOptions, Fitted, Format};
use serde_json::{Value, json};

/// The beginning of a PNG of 1000 x 1000 pixels.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAA+gAAAPoCAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// The tokens of that image.
const IMAGE: u64 = 1_334;

const APIS: [(&str, Format, &str); 4] = [
    ("anthropic", Format::Anthropic, "claude-sonnet-5-5"),
    ("openai-chat", Format::OpenAiChat, "gpt-4o"),
    ("openai-responses", Format::OpenAiResponses, "gpt-4o"),
    ("gemini", Format::Gemini, "gemini-2.5-pro"),
];

/// A medium in a result, in the form of each API.
fn medium(api: &str, media_type: &str, data: &str) -> Value {
    let address = format!("data:{media_type};base64,{data}");
    match api {
        "anthropic" => json!({"type": "image", "source":
            {"type": "base64", "media_type": media_type, "data": data}}),
        "openai-chat" => json!({"type": "image_url", "image_url": {"url": address}}),
        "openai-responses" => {
            json!({"type": "input_image", "image_url": address, "detail": "auto"})
        }
        _ => json!({"inlineData": {"mimeType": media_type, "data": data}}),
    }
}

/// A run of calls whose results have a text and a medium.
fn run(api: &str, steps: usize, medium: &Value) -> Value {
    let mut said = Vec::new();
    match api {
        "anthropic" => {
            said.push(json!({"role": "user", "content": "Look."}));
            for i in 0..steps {
                let id = format!("toolu_{i}");
                said.push(json!({"role": "assistant", "content": [
                    {"type": "tool_use", "id": id, "name": "shot", "input": {}}]}));
                said.push(json!({"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": id,
                     "content": [{"type": "text", "text": format!("shot {i}")}, medium]}]}));
            }
            json!({"model": "claude-sonnet-5-5", "max_tokens": 500, "messages": said})
        }
        "openai-chat" => {
            said.push(json!({"role": "user", "content": "Look."}));
            for i in 0..steps {
                let id = format!("call_{i}");
                said.push(json!({"role": "assistant", "content": null, "tool_calls": [
                    {"id": id, "type": "function",
                     "function": {"name": "shot", "arguments": "{}"}}]}));
                said.push(json!({"role": "tool", "tool_call_id": id,
                    "content": [{"type": "text", "text": format!("shot {i}")}, medium]}));
            }
            json!({"model": "gpt-4o", "max_tokens": 500, "messages": said})
        }
        "openai-responses" => {
            said.push(json!({"role": "user", "content": "Look."}));
            for i in 0..steps {
                let id = format!("call_{i}");
                said.push(
                    json!({"type": "function_call", "call_id": id, "name": "shot",
                    "arguments": "{}"}),
                );
                said.push(json!({"type": "function_call_output", "call_id": id,
                    "output": [{"type": "input_text", "text": format!("shot {i}")}, medium]}));
            }
            json!({"model": "gpt-4o", "max_output_tokens": 500, "input": said})
        }
        _ => {
            said.push(json!({"role": "user", "parts": [{"text": "Look."}]}));
            for i in 0..steps {
                said.push(json!({"role": "model", "parts": [
                    {"functionCall": {"name": "shot", "args": {}}}]}));
                said.push(json!({"role": "user", "parts": [{"functionResponse":
                    {"name": "shot", "response": {"output": format!("shot {i}")},
                     "parts": [medium]}}]}));
            }
            json!({"contents": said, "generationConfig": {"maxOutputTokens": 500}})
        }
    }
}

fn fit(lab: &Lab, body: &Value, to: (Format, &str), max_tokens: u64) -> Fitted {
    let options = FitOptions {
        to: Some(to.0),
        model: Some(to.1.to_owned()),
        max_tokens: Some(max_tokens),
        ..FitOptions::default()
    };
    let fitted = lab
        .engine
        .fit(&lab.root, body.to_string().as_bytes(), &options);
    fitted.unwrap()
}

fn codes(fitted: &Fitted) -> String {
    let warnings = fitted.assembled.report.warnings.iter();
    let codes: Vec<String> = warnings.map(|one| one.code.to_string()).collect();
    codes.join(" ")
}

#[test]
fn an_image_in_a_result_is_counted_and_sent_to_every_api() {
    let lab = Lab::new("");
    for (from, ..) in APIS {
        let body = run(from, 3, &medium(from, "image/png", PNG));
        for (to, format, model) in APIS {
            let fitted = fit(&lab, &body, (format, model), 100_000);
            let used = fitted.assembled.report.budget.used;
            assert!(used >= 3 * IMAGE, "{from} to {to}: {used}");
            assert!(used < 6 * IMAGE, "{from} to {to}: {used}");
            let sent = fitted.body.matches(PNG).count();
            assert_eq!(sent, 3, "{from} to {to}");
            assert_eq!(codes(&fitted), "", "{from} to {to}");
        }
    }
}

#[test]
fn images_in_results_do_not_exceed_the_window() {
    let lab = Lab::new("");
    for (api, format, model) in APIS {
        let body = run(api, 30, &medium(api, "image/png", PNG));
        let fitted = fit(&lab, &body, (format, model), 12_000);
        let sent = fitted.body.matches(PNG).count() as u64;
        assert!(sent > 0 && sent * IMAGE <= 11_500, "{api}: {sent}");
    }
}

/// An image that only the server of the request accepts stays in its result. For
/// another API it is described, and a warning names it.
#[test]
fn an_unusual_image_in_a_result_is_sent_once_or_reported() {
    let lab = Lab::new("");
    for (from, ..) in APIS {
        let body = run(from, 30, &medium(from, "image/x-icon", PNG));
        for (to, format, model) in APIS {
            let fitted = fit(&lab, &body, (format, model), 12_000);
            let sent = fitted.body.matches(PNG).count() as u64;
            let described = fitted.body.matches("[image image/x-icon").count();
            let codes = codes(&fitted);
            if from == to {
                assert!(sent > 0 && sent * IMAGE <= 11_500, "{from}: {sent}");
                assert_eq!(described, 0, "{from}");
                assert!(!codes.contains("media_described"), "{from}: {codes}");
            } else {
                assert_eq!(sent, 0, "{from} to {to}");
                assert!(described > 0, "{from} to {to}");
                assert!(codes.contains("media_described"), "{from} to {to}: {codes}");
            }
        }
    }
}

/// A file that is stored at a provider has tokens there, and is reported for
/// another provider.
#[test]
fn a_stored_file_in_a_result_is_counted_or_reported() {
    let lab = Lab::new("");
    let file = json!({"type": "document", "source": {"type": "file", "file_id": "file_1"}});
    let body = run("anthropic", 1, &file);
    let same = fit(
        &lab,
        &body,
        (Format::Anthropic, "claude-sonnet-5-5"),
        100_000,
    );
    assert!(same.assembled.report.budget.used > 50_000);
    assert_eq!(codes(&same), "");
    let other = fit(&lab, &body, (Format::OpenAiChat, "gpt-4o"), 100_000);
    assert!(other.assembled.report.budget.used < 500);
    assert!(codes(&other).contains("media_described"));
    assert!(other.body.contains("file_1"), "{}", other.body);
}
