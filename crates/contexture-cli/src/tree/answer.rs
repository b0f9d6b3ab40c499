//! Reads files for nodes: answers of providers, texts and pictures.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contexture::loom::raw_response;
use contexture::store::{Block, MessageContent, RawResponse};
use serde_json::Value;

use crate::output::{self, Usage};

/// A provider's answer, with its text if it has a known form.
pub(super) struct Answer {
    pub(super) raw: RawResponse,
    pub(super) text: Option<String>,
}

/// Reads a provider's answer from a file.
pub(super) fn read(path: &Path) -> anyhow::Result<Answer> {
    let text = output::read_text(path)?;
    let body: Value = serde_json::from_str(&text)
        .map_err(|error| Usage(format!("{}: not JSON: {error}", output::name(path))))?;
    let (provider, text) = match said(&body) {
        Some((provider, text)) => (Some(provider.to_owned()), Some(text)),
        None => (None, None),
    };
    let mut raw = raw_response(body, None);
    raw.provider = provider;
    Ok(Answer { raw, text })
}

/// Returns the provider and the text of an answer, if its form is known. The
/// text does not include reasoning and tool calls.
fn said(body: &Value) -> Option<(&'static str, String)> {
    let texts = |list: &Value, wanted: &[&str]| -> Option<String> {
        let parts = list.as_array()?.iter().filter(|part| {
            let kind = part.get("type").and_then(Value::as_str);
            kind.is_none_or(|kind| wanted.contains(&kind)) && part.get("thought").is_none()
        });
        let parts = parts.filter_map(|part| part.get("text")?.as_str());
        let parts: Vec<&str> = parts.collect();
        (!parts.is_empty()).then(|| parts.concat())
    };
    if let Some(choice) = body.pointer("/choices/0") {
        // Chat has a message, completions a text.
        let content = choice.pointer("/message/content");
        let text = match content {
            Some(Value::String(text)) => Some(text.clone()),
            Some(list) => texts(list, &["text"]),
            None => choice
                .get("text")
                .and_then(Value::as_str)
                .map(str::to_owned),
        };
        return Some(("openai", text?));
    }
    if let Some(output) = body.get("output").and_then(Value::as_array) {
        let messages = output.iter().filter(|item| item["type"] == "message");
        let said: Vec<String> = messages
            .filter_map(|message| texts(message.get("content")?, &["output_text", "text"]))
            .collect();
        return (!said.is_empty()).then(|| ("openai", said.concat()));
    }
    if let Some(parts) = body.pointer("/candidates/0/content/parts") {
        return Some(("gemini", texts(parts, &[])?));
    }
    let content = body.get("content")?;
    Some(("anthropic", texts(content, &["text"])?))
}

/// Reads a file that something is made from: text, or a picture.
pub(super) fn attached(path: &Path) -> anyhow::Result<MessageContent> {
    let cannot = |why: String| Usage(format!("cannot read {}: {why}", output::name(path)));
    let bytes = output::read_bytes(path)?;
    if let Some(media_type) = picture(&bytes) {
        return Ok(MessageContent::Blocks(vec![Block::Image {
            media_type: media_type.to_owned(),
            data: Some(STANDARD.encode(&bytes)),
            url: None,
            native: None,
        }]));
    }
    let text = String::from_utf8(bytes)
        .ok()
        .map(output::without_mark)
        .filter(|text| !text.contains('\0'));
    let text = text.ok_or_else(|| {
        cannot("it is neither text nor a picture (png, jpg, gif, webp)".to_owned())
    })?;
    if text.trim().is_empty() {
        return Err(cannot("it is empty".to_owned()).into());
    }
    Ok(MessageContent::Text(text))
}

/// Returns the media type of a picture by its first bytes, or `None` if it is
/// not a picture. File name extensions are wrong more often.
fn picture(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_found_in_every_form() {
        let check = |body: Value, expected: Option<(&str, &str)>| {
            let said = said(&body);
            let said = said.as_ref().map(|(provider, text)| (*provider, &**text));
            assert_eq!(said, expected, "{body}");
        };
        let chat = json!({"choices": [{"message": {"role": "assistant", "content": "Yes."}}]});
        check(chat, Some(("openai", "Yes.")));
        let completions = json!({"choices": [{"text": " upon a time", "index": 0}]});
        check(completions, Some(("openai", " upon a time")));
        let responses = json!({"output": [{"type": "reasoning", "summary": []},
            {"type": "message", "content": [{"type": "output_text", "text": "Yes"},
                {"type": "output_text", "text": "."}]}]});
        check(responses, Some(("openai", "Yes.")));
        let anthropic = json!({"content": [{"type": "thinking", "thinking": "Hm."},
            {"type": "text", "text": "Yes."}]});
        check(anthropic, Some(("anthropic", "Yes.")));
        let gemini = json!({"candidates": [{"content": {"parts": [
            {"text": "Hm.", "thought": true}, {"text": "Yes."}]}}]});
        check(gemini, Some(("gemini", "Yes.")));
        check(json!({"content": [{"type": "tool_use", "id": "c"}]}), None);
        check(json!({"choices": [{"message": {"content": null}}]}), None);
        check(json!([1, 2]), None);
    }
}
