//! Anthropic Messages.

use contexture_core::{Media, MediaKind, MediaSource};
use serde_json::{Value, json};

use crate::check::{self, refused};
use crate::conversation::{Content, Conversation, Speaker, ToolResult, is_blank};
use crate::dialect::{Dialect, PLAIN_NAMES, call_id, is_plain_name, is_word, rules};
use crate::marks::Marks;
use crate::media;
use crate::{Format, Prompt, Refused};

pub(crate) const DIALECT: Dialect = Dialect {
    rules: rules!("anthropic", "messages"),
    thinking: true,
    model_media: false,
    result_media: true,
    goes_on,
    model_first: false,
    is_tool_name: is_plain_name,
    tool_names: PLAIN_NAMES,
    call_id: |id| call_id(id, 64, is_word),
    check_media,
};

/// Returns true for the models that continue their own last message: those
/// before Claude 4.6.
fn goes_on(model: &str) -> bool {
    !is_since(model, (4, 6))
}

/// Returns true for a model that is known to have at least this version.
pub(crate) fn is_since(model: &str, version: (u32, u32)) -> bool {
    let name = model.find("claude").map_or(model, |at| &model[at..]);
    // Versions have one or two digits, dates have eight.
    let mut numbers = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|part| part.len() <= 2)
        .filter_map(|part| part.parse::<u32>().ok());
    let Some(major) = numbers.next().filter(|_| name.starts_with("claude")) else {
        return false;
    };
    (major, numbers.next().unwrap_or(0)) >= version
}

pub(crate) fn request(prompt: &Prompt<'_>) -> Result<Value, Refused> {
    let mut conversation = Conversation::of(prompt.layout, &DIALECT, false)?;
    if prompt.continues {
        conversation.trim_end();
    }
    check::check(&conversation, prompt, &DIALECT)?;

    let mut tools: Vec<Value> = Vec::with_capacity(conversation.tools.len());
    for tool in &conversation.tools {
        let mut value = json!({"name": tool.name});
        if let Some(description) = &tool.description {
            value["description"] = description.as_str().into();
        }
        value["input_schema"] = Value::Object(tool.parameters.clone());
        tools.push(value);
    }
    let mut system: Vec<Value> = conversation
        .system
        .iter()
        .map(|instruction| json!({"type": "text", "text": instruction.text}))
        .collect();
    let mut messages: Vec<Value> = conversation
        .messages
        .iter()
        .map(|message| {
            let role = match message.speaker {
                Speaker::User => "user",
                Speaker::Model => "assistant",
            };
            let content: Vec<Value> = message
                .pieces
                .iter()
                .map(|piece| block(&piece.content))
                .collect();
            json!({"role": role, "content": content})
        })
        .collect();

    let marks = Marks::of(&conversation);
    let mark = json!({"type": "ephemeral"});
    if let Some(tool) = marks.tool {
        tools[tool]["cache_control"] = mark.clone();
    }
    if let Some(text) = marks.system {
        system[text]["cache_control"] = mark.clone();
    }
    for (message, piece) in marks.pieces {
        messages[message]["content"][piece]["cache_control"] = mark.clone();
    }

    let mut request = json!({
        "model": prompt.model,
        "max_tokens": prompt.limit_or_default(),
    });
    if let Value::Object(fields) = &mut request {
        prompt
            .sampling
            .write(Format::Anthropic, prompt.model, fields)?;
    }
    if !tools.is_empty() {
        request["tools"] = Value::Array(tools);
    }
    if !system.is_empty() {
        request["system"] = Value::Array(system);
    }
    request["messages"] = Value::Array(messages);
    Ok(request)
}

fn block(content: &Content<'_>) -> Value {
    match content {
        Content::Text(text) => json!({"type": "text", "text": text}),
        Content::Thinking { text, signature } => {
            json!({"type": "thinking", "thinking": text, "signature": signature})
        }
        Content::Call(call) => {
            json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments})
        }
        Content::Result(result) => result_block(result),
        Content::Media(media) => media_block(media),
    }
}

fn result_block(result: &ToolResult<'_>) -> Value {
    let content = if result.media.is_empty() {
        Value::from(&*result.text)
    } else {
        let text = Some(&result.text).filter(|text| !is_blank(text));
        text.map(|text| json!({"type": "text", "text": text}))
            .into_iter()
            .chain(result.media.iter().map(|media| media_block(media)))
            .collect()
    };
    let mut block = json!({"type": "tool_result", "tool_use_id": result.id, "content": content});
    if result.is_error {
        block["is_error"] = true.into();
    }
    block
}

fn media_block(media: &Media) -> Value {
    let source = match &media.source {
        MediaSource::Data(data) => {
            let media_type = media::canonical_type(media);
            json!({"type": "base64", "media_type": media_type, "data": data})
        }
        MediaSource::Url(url) => json!({"type": "url", "url": url}),
    };
    json!({"type": media.kind.name(), "source": source})
}

fn check_media(media: &Media) -> Result<(), Refused> {
    match media.kind {
        MediaKind::Image => {
            media::expect_type(media, &media::WEB_IMAGES, "anthropic.image_type")?;
        }
        MediaKind::Document => {
            media::expect_type(media, &["application/pdf"], "anthropic.document_type")?;
        }
        MediaKind::Audio => {
            return Err(refused(
                "anthropic.no_audio",
                "Anthropic takes no recordings: give a transcript, or leave it out",
            ));
        }
    }
    media::expect_source(media, "anthropic.media_data")
}
