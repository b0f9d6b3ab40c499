//! Renders requests for OpenAI Responses.

use std::borrow::Cow;

use contexture_core::{Media, MediaKind, MediaSource};
use serde_json::{Map, Value, json};

use crate::check::{self, refused};
use crate::conversation::{
    Content, Conversation, Message, Speaker, Tool, ToolResult, is_blank, kind_of,
};
use crate::dialect::{Dialect, PLAIN_NAMES, call_id, is_graphic, is_plain_name, rules};
use crate::json::{Json, Node, map};
use crate::openai::{
    FILE_NAME, address, breakpoint, has_cache_breakpoints, has_developer_role, instructions,
    push_cache_key, whole_messages,
};
use crate::{Format, Prompt, Refused, marks, media};

pub(crate) const DIALECT: Dialect = Dialect {
    name: "openai-responses",
    rules: rules!("openai", "messages"),
    thinking: false,
    model_media: false,
    result_media: true,
    goes_on: |_| true,
    resumes: false,
    in_a_row: true,
    model_first: true,
    is_tool_name: is_plain_name,
    tool_names: PLAIN_NAMES,
    call_id: |id| call_id(id, 64, is_graphic),
    check_media,
};

pub(crate) fn request<'p>(prompt: &'p Prompt<'_>) -> Result<Json<'p>, Refused> {
    let developer_role = has_developer_role(prompt.model);
    let conversation = Conversation::of(prompt.layout, &DIALECT, developer_role)?;
    check::check(&conversation, prompt, &DIALECT)?;
    let breakpoints = match has_cache_breakpoints(prompt.model) {
        true => marks::breakpoints(&conversation, false),
        false => Vec::new(),
    };
    let Conversation {
        tools,
        system,
        developer,
        messages,
        ..
    } = conversation;

    let mut input = Vec::new();
    for instruction in developer {
        let text = Json::Text(instruction.text);
        let content = vec![map! {"type": Json::text("input_text"), "text": text}];
        input.push(map! {
            "type": Json::text("message"),
            "role": Json::text("developer"),
            "content": content,
        });
    }
    for (at, message) in messages.into_iter().enumerate() {
        match message.speaker {
            Speaker::User => {
                let marked = breakpoints.iter().filter(|(message, _)| *message == at);
                let marked: Vec<usize> = marked.map(|(_, piece)| *piece).collect();
                user(message, &marked, &mut input);
            }
            Speaker::Model => assistant(message, &mut input),
            Speaker::Other => input.extend(whole_messages(message)),
        }
    }
    let mut lone = lone_reasoning(&input).into_iter();
    input.retain(|_| !lone.next().unwrap_or_default());
    let mut request = map! {"model": Json::text(prompt.model)};
    push_cache_key(&mut request, prompt);
    if let Some(text) = instructions(&system) {
        request.push("instructions", Json::Text(text.into()));
    }
    let mut tools: Vec<Json<'_>> = tools.into_iter().map(tool).collect();
    let deferred = prompt.deferred_tools(Format::OpenAiResponses, &DIALECT)?;
    if !deferred.is_empty() {
        tools.push(map! {"type": Json::text("tool_search")});
        tools.extend(deferred.into_iter().map(|deferred| {
            let mut made = tool(deferred);
            made.push("defer_loading", Value::Bool(true));
            made
        }));
    }
    if !tools.is_empty() {
        request.push("tools", tools);
    }
    request.push("input", input);
    if let Some(limit) = prompt.limit() {
        request.push("max_output_tokens", Value::from(limit));
    }
    let mut fields = Map::new();
    prompt
        .sampling
        .write(Format::OpenAiResponses, prompt.model, &mut fields)?;
    for (name, value) in fields {
        request.push_named(name, value);
    }
    Ok(request)
}

/// Returns for each item whether it is reasoning that no other item of the model
/// follows. OpenAI rejects such reasoning: an answer that was cut off may end
/// with it.
pub(crate) fn lone_reasoning<N: Node>(input: &[N]) -> Vec<bool> {
    let mut is_followed = false;
    let is_lone = |item: &N| {
        let is_reasoning = item.text("type") == "reasoning";
        if !is_reasoning {
            is_followed = is_of_model(item);
        }
        is_reasoning && !is_followed
    };
    let mut lone: Vec<bool> = input.iter().rev().map(is_lone).collect();
    lone.reverse();
    lone
}

/// Returns true for an item that the model wrote, or that may refer to one.
fn is_of_model<N: Node>(item: &N) -> bool {
    match item.text("type") {
        "message" | "" => item.text("role") == "assistant",
        "item_reference" => true,
        kind => !is_input(kind),
    }
}

/// Returns true for the items that the program sends, not the model.
pub(crate) fn is_input(kind: &str) -> bool {
    kind.ends_with("_output")
        || kind.ends_with("_response")
        || matches!(kind, "additional_tools" | "item_reference")
}

/// Writes a message of the model. Its texts are messages, and its calls are
/// separate items. An item in OpenAI's own form keeps its position.
fn assistant<'a>(message: Message<'a>, input: &mut Vec<Json<'a>>) {
    let mut texts: Vec<Cow<'_, str>> = Vec::new();
    let flush = |texts: &mut Vec<Cow<'a, str>>, input: &mut Vec<Json<'a>>| {
        if !texts.is_empty() {
            let text = std::mem::take(texts).join("\n\n");
            input.push(map! {
                "type": Json::text("message"),
                "role": Json::text("assistant"),
                "content": Json::Text(text.into()),
            });
        }
    };
    for piece in message.pieces {
        match (piece.content, piece.native) {
            (Content::Provider(raw), _) | (_, Some(raw)) => {
                flush(&mut texts, input);
                input.push(Json::raw(raw));
            }
            (Content::Text(text), None) => texts.push(text),
            (Content::Call(call), None) => {
                flush(&mut texts, input);
                input.push(map! {
                    "type": Json::text("function_call"),
                    "call_id": Json::Text(call.id),
                    "name": Json::text(call.name),
                    "arguments": Json::Text(call.json),
                });
            }
            (Content::Result(_) | Content::Thinking { .. } | Content::Media(_), None) => {}
        }
    }
    flush(&mut texts, input);
}

fn user<'a>(message: Message<'a>, marked: &[usize], input: &mut Vec<Json<'a>>) {
    let mut content = Vec::new();
    let flush = |content: &mut Vec<Json<'a>>, input: &mut Vec<Json<'a>>| {
        if !content.is_empty() {
            input.push(map! {
                "type": Json::text("message"),
                "role": Json::text("user"),
                "content": std::mem::take(content),
            });
        }
    };
    for (at, piece) in message.pieces.into_iter().enumerate() {
        match (piece.content, piece.native) {
            (Content::Provider(raw), _) | (_, Some(raw)) => {
                if is_content_part(raw) {
                    content.push(Json::raw(raw));
                } else {
                    flush(&mut content, input);
                    input.push(Json::raw(raw));
                }
            }
            (Content::Result(result), None) => input.push(result_item(&result)),
            (Content::Text(text), None) => {
                let mut part = map! {"type": Json::text("input_text"), "text": Json::Text(text)};
                if marked.contains(&at) {
                    let (field, mark) = breakpoint();
                    part.push(field, mark);
                }
                content.push(part);
            }
            (Content::Media(media), None) => content.push(media_part(media).into()),
            (Content::Call(_) | Content::Thinking { .. }, None) => {}
        }
    }
    flush(&mut content, input);
}

fn tool(tool: Tool<'_>) -> Json<'_> {
    let mut made = map! {"type": Json::text("function"), "name": Json::text(tool.name)};
    if let Some(description) = tool.description {
        made.push("description", Json::Text(description.into()));
    }
    made.push("parameters", Value::Object(tool.parameters));
    // Strict is the default here, and rejects most schemas.
    made.push("strict", Value::Bool(false));
    made
}

/// Returns true for a part of a message's content; everything else is an item of
/// its own.
pub(crate) fn is_content_part(raw: &str) -> bool {
    let kind = kind_of(raw);
    kind.starts_with("input_") || matches!(&*kind, "output_text" | "refusal" | "text")
}

fn result_item<'a>(result: &ToolResult<'_>) -> Json<'a> {
    let output = if result.media.is_empty() {
        Json::Text(result.told().into_owned().into())
    } else {
        let text = Some(result.told()).filter(|text| !is_blank(text));
        let parts: Value = text
            .map(|text| json!({"type": "input_text", "text": text}))
            .into_iter()
            .chain(result.media.iter().map(|media| media_part(media)))
            .collect();
        parts.into()
    };
    let kind = match result.custom {
        true => "custom_tool_call_output",
        false => "function_call_output",
    };
    map! {
        "type": Json::text(kind),
        "call_id": Json::Text(result.id.clone().into_owned().into()),
        "output": output,
    }
}

pub(crate) fn media_part(media: &Media) -> Value {
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
