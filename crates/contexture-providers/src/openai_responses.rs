//! Renders requests for OpenAI Responses.

use contexture_core::{Media, MediaKind, MediaSource};
use serde_json::{Value, json};

use crate::check::{self, refused};
use crate::conversation::{Content, Conversation, Message, Speaker, ToolResult, is_blank};
use crate::dialect::{Dialect, PLAIN_NAMES, call_id, is_graphic, is_plain_name, rules};
use crate::openai::{FILE_NAME, address, has_developer_role, instructions};
use crate::{Format, Prompt, Refused, media};

pub(crate) const DIALECT: Dialect = Dialect {
    rules: rules!("openai", "messages"),
    thinking: false,
    model_media: false,
    result_media: true,
    goes_on: |_| true,
    model_first: true,
    is_tool_name: is_plain_name,
    tool_names: PLAIN_NAMES,
    call_id: |id| call_id(id, 64, is_graphic),
    check_media,
};

pub(crate) fn request(prompt: &Prompt<'_>) -> Result<Value, Refused> {
    let developer_role = has_developer_role(prompt.model);
    let conversation = Conversation::of(prompt.layout, &DIALECT, developer_role)?;
    check::check(&conversation, prompt, &DIALECT)?;

    let mut input = Vec::new();
    for instruction in &conversation.developer {
        let content = json!([{"type": "input_text", "text": instruction.text}]);
        input.push(json!({"type": "message", "role": "developer", "content": content}));
    }
    for message in &conversation.messages {
        match message.speaker {
            Speaker::User => user(message, &mut input),
            Speaker::Model => assistant(message, &mut input),
        }
    }
    let mut request = json!({"model": prompt.model});
    if let Some(text) = instructions(&conversation.system) {
        request["instructions"] = text.into();
    }
    let tools: Vec<Value> = conversation
        .tools
        .iter()
        .map(|tool| {
            let mut value = json!({"type": "function", "name": tool.name});
            if let Some(description) = &tool.description {
                value["description"] = description.as_str().into();
            }
            value["parameters"] = Value::Object(tool.parameters.clone());
            // Strict is the default here, and refuses most schemas.
            value["strict"] = false.into();
            value
        })
        .collect();
    if !tools.is_empty() {
        request["tools"] = Value::Array(tools);
    }
    request["input"] = Value::Array(input);
    if let Some(limit) = prompt.limit() {
        request["max_output_tokens"] = limit.into();
    }
    if let Value::Object(fields) = &mut request {
        prompt
            .sampling
            .write(Format::OpenAiResponses, prompt.model, fields)?;
    }
    Ok(request)
}

/// The model's texts are messages, its calls are items beside them.
fn assistant(message: &Message<'_>, input: &mut Vec<Value>) {
    let mut texts: Vec<&str> = Vec::new();
    let flush = |texts: &mut Vec<&str>, input: &mut Vec<Value>| {
        if !texts.is_empty() {
            let text = std::mem::take(texts).join("\n\n");
            input.push(json!({"type": "message", "role": "assistant", "content": text}));
        }
    };
    for piece in &message.pieces {
        match &piece.content {
            Content::Text(text) => texts.push(text),
            Content::Call(call) => {
                flush(&mut texts, input);
                input.push(json!({
                    "type": "function_call",
                    "call_id": call.id,
                    "name": call.name,
                    "arguments": call.json,
                }));
            }
            Content::Result(_) | Content::Thinking { .. } | Content::Media(_) => {}
        }
    }
    flush(&mut texts, input);
}

fn user(message: &Message<'_>, input: &mut Vec<Value>) {
    let mut content = Vec::new();
    for piece in &message.pieces {
        match &piece.content {
            Content::Result(result) => input.push(result_item(result)),
            Content::Text(text) => content.push(json!({"type": "input_text", "text": text})),
            Content::Media(media) => content.push(media_part(media)),
            Content::Call(_) | Content::Thinking { .. } => {}
        }
    }
    if !content.is_empty() {
        input.push(json!({"type": "message", "role": "user", "content": content}));
    }
}

fn result_item(result: &ToolResult<'_>) -> Value {
    let output = if result.media.is_empty() {
        Value::from(&*result.told())
    } else {
        let text = Some(result.told()).filter(|text| !is_blank(text));
        text.map(|text| json!({"type": "input_text", "text": text}))
            .into_iter()
            .chain(result.media.iter().map(|media| media_part(media)))
            .collect()
    };
    json!({"type": "function_call_output", "call_id": result.id, "output": output})
}

fn media_part(media: &Media) -> Value {
    match (media.kind, &media.source) {
        (MediaKind::Image, _) => {
            json!({"type": "input_image", "image_url": address(media), "detail": "auto"})
        }
        (_, MediaSource::Url(url)) => json!({"type": "input_file", "file_url": url}),
        (_, MediaSource::Data(_)) => json!({
            "type": "input_file",
            "filename": FILE_NAME,
            "file_data": address(media),
        }),
    }
}

fn check_media(media: &Media) -> Result<(), Refused> {
    match media.kind {
        MediaKind::Image => media::expect_type(media, &media::WEB_IMAGES, "openai.image_type")?,
        MediaKind::Document => {
            media::expect_type(media, &["application/pdf"], "openai.document_type")?;
        }
        MediaKind::Audio => {
            return Err(refused(
                "openai.no_audio",
                "Responses takes no recordings: use Chat Completions, give a transcript, or leave \
                 it out",
            ));
        }
    }
    media::expect_source(media, "openai.media_data")
}
