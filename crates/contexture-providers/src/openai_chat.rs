//! Renders requests for OpenAI Chat Completions.

use contexture_core::{Media, MediaKind, MediaSource};
use serde_json::{Value, json};

use crate::check::{self, refused};
use crate::conversation::{Content, Conversation, Message, Speaker};
use crate::dialect::{Dialect, PLAIN_NAMES, call_id, is_graphic, is_plain_name, rules};
use crate::openai::{FILE_NAME, address, has_developer_role, instructions};
use crate::{Format, Prompt, Refused, media};

pub(crate) const DIALECT: Dialect = Dialect {
    rules: rules!("openai", "messages"),
    thinking: false,
    model_media: false,
    result_media: false,
    goes_on: |_| true,
    model_first: true,
    is_tool_name: is_plain_name,
    tool_names: PLAIN_NAMES,
    // Older models take 40 characters, newer ones more.
    call_id: |id| call_id(id, 40, is_graphic),
    check_media,
};

pub(crate) fn request(prompt: &Prompt<'_>) -> Result<Value, Refused> {
    let developer_role = has_developer_role(prompt.model);
    let conversation = Conversation::of(prompt.layout, &DIALECT, developer_role)?;
    check::check(&conversation, prompt, &DIALECT)?;

    let mut messages = Vec::new();
    if let Some(text) = instructions(&conversation.system) {
        messages.push(json!({"role": "system", "content": text}));
    }
    for instruction in &conversation.developer {
        messages.push(json!({"role": "developer", "content": instruction.text}));
    }
    for message in &conversation.messages {
        match message.speaker {
            Speaker::User => user(message, &mut messages),
            Speaker::Model => messages.push(assistant(message)),
        }
    }
    let mut request = json!({"model": prompt.model, "messages": messages});
    let tools: Vec<Value> = conversation
        .tools
        .iter()
        .map(|tool| {
            let mut function = json!({"name": tool.name});
            if let Some(description) = &tool.description {
                function["description"] = description.as_str().into();
            }
            function["parameters"] = Value::Object(tool.parameters.clone());
            json!({"type": "function", "function": function})
        })
        .collect();
    if !tools.is_empty() {
        request["tools"] = Value::Array(tools);
    }
    if let Some(limit) = prompt.limit() {
        request["max_completion_tokens"] = limit.into();
    }
    if let Value::Object(fields) = &mut request {
        prompt
            .sampling
            .write(Format::OpenAiChat, prompt.model, fields)?;
    }
    Ok(request)
}

fn assistant(message: &Message<'_>) -> Value {
    let mut texts = Vec::new();
    let mut calls = Vec::new();
    for piece in &message.pieces {
        match &piece.content {
            Content::Text(text) => texts.push(&**text),
            Content::Call(call) => calls.push(json!({
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.json},
            })),
            Content::Result(_) | Content::Thinking { .. } | Content::Media(_) => {}
        }
    }
    let content = (!texts.is_empty()).then(|| texts.join("\n\n"));
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    message
}

/// Results are messages of their own; the rest of what the user says is one.
fn user(message: &Message<'_>, messages: &mut Vec<Value>) {
    let mut texts = Vec::new();
    let mut parts = Vec::new();
    let mut has_media = false;
    for piece in &message.pieces {
        match &piece.content {
            Content::Result(result) => messages.push(json!({
                "role": "tool",
                "tool_call_id": result.id,
                "content": result.told(),
            })),
            Content::Text(text) => {
                texts.push(&**text);
                parts.push(json!({"type": "text", "text": text}));
            }
            Content::Media(media) => {
                has_media = true;
                parts.push(media_part(media));
            }
            Content::Call(_) | Content::Thinking { .. } => {}
        }
    }
    if has_media {
        messages.push(json!({"role": "user", "content": parts}));
    } else if !texts.is_empty() {
        messages.push(json!({"role": "user", "content": texts.join("\n\n")}));
    }
}

fn media_part(media: &Media) -> Value {
    match media.kind {
        MediaKind::Image => json!({"type": "image_url", "image_url": {"url": address(media)}}),
        MediaKind::Document => json!({
            "type": "file",
            "file": {"filename": FILE_NAME, "file_data": address(media)},
        }),
        MediaKind::Audio => {
            let data = match &media.source {
                MediaSource::Data(data) | MediaSource::Url(data) => data,
            };
            let format = audio_format(media).unwrap_or_default();
            json!({"type": "input_audio", "input_audio": {"data": data, "format": format}})
        }
    }
}

fn audio_format(media: &Media) -> Option<&'static str> {
    match &*media::canonical_type(media) {
        "audio/wav" => Some("wav"),
        "audio/mpeg" => Some("mp3"),
        _ => None,
    }
}

fn check_media(media: &Media) -> Result<(), Refused> {
    let elsewhere = matches!(media.source, MediaSource::Url(_));
    match media.kind {
        MediaKind::Image => media::expect_type(media, &media::WEB_IMAGES, "openai.image_type")?,
        MediaKind::Document => {
            media::expect_type(media, &["application/pdf"], "openai.document_type")?;
        }
        MediaKind::Audio => {
            media::expect_type(media, &["audio/wav", "audio/mpeg"], "openai.audio_type")?;
        }
    }
    if elsewhere && media.kind != MediaKind::Image {
        return Err(refused(
            "openai.media_url",
            format!(
                "Chat Completions takes no address of {}: give its bytes",
                media::describe(media)
            ),
        ));
    }
    media::expect_source(media, "openai.media_data")
}
