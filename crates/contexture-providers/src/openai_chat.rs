//! Renders requests for OpenAI Chat Completions.

use std::borrow::Cow;

use contexture_core::{Media, MediaKind, MediaSource};
use serde_json::{Map, Value, json};

use crate::check::{self, refused};
use crate::conversation::{Content, Conversation, Message, Piece, Speaker, is_blank, kind_of};
use crate::dialect::{Dialect, PLAIN_NAMES, call_id, is_graphic, is_plain_name, rules};
use crate::json::{Json, Node, map};
use crate::openai::{
    FILE_NAME, address, breakpoint, has_cache_breakpoints, has_developer_role, instructions,
    push_cache_key, whole_messages,
};
use crate::{Format, Prompt, Refused, marks, media};

pub(crate) const DIALECT: Dialect = Dialect {
    name: "openai-chat",
    rules: rules!("openai", "messages"),
    thinking: false,
    model_media: false,
    result_media: false,
    goes_on: |_| true,
    resumes: false,
    in_a_row: true,
    model_first: true,
    is_tool_name: is_plain_name,
    tool_names: PLAIN_NAMES,
    // Older models take 40 characters, newer ones more.
    call_id: |id| call_id(id, 40, is_graphic),
    check_media,
};

pub(crate) fn request<'p>(prompt: &'p Prompt<'_>) -> Result<Json<'p>, Refused> {
    let developer_role = has_developer_role(prompt.model);
    let conversation = Conversation::of(prompt.layout, &DIALECT, developer_role)?;
    check::check(&conversation, prompt, &DIALECT)?;
    let breakpoints = match has_cache_breakpoints(prompt.model) {
        true => marks::breakpoints(&conversation, true),
        false => Vec::new(),
    };
    let Conversation {
        tools,
        system,
        developer,
        messages: said,
        ..
    } = conversation;

    let mut messages = Vec::new();
    if let Some(text) = instructions(&system) {
        messages.push(map! {"role": Json::text("system"), "content": Json::Text(text.into())});
    }
    for instruction in developer {
        let content = Json::Text(instruction.text);
        messages.push(map! {"role": Json::text("developer"), "content": content});
    }
    for (at, message) in said.into_iter().enumerate() {
        match message.speaker {
            Speaker::User => {
                let marked = breakpoints.iter().any(|(message, _)| *message == at);
                user(message, marked, &mut messages);
            }
            Speaker::Model => messages.extend(assistant(message)),
            Speaker::Other => messages.extend(whole_messages(message)),
        }
    }
    let mut request = map! {"model": Json::text(prompt.model), "messages": messages};
    push_cache_key(&mut request, prompt);
    let tools: Vec<Json<'_>> = tools
        .into_iter()
        .map(|tool| {
            let mut function = map! {"name": Json::text(tool.name)};
            if let Some(description) = tool.description {
                function.push("description", Json::Text(description.into()));
            }
            function.push("parameters", Value::Object(tool.parameters));
            map! {"type": Json::text("function"), "function": function}
        })
        .collect();
    if !tools.is_empty() {
        request.push("tools", tools);
    }
    if let Some(limit) = prompt.limit() {
        request.push("max_completion_tokens", Value::from(limit));
    }
    let mut fields = Map::new();
    prompt
        .sampling
        .write(Format::OpenAiChat, prompt.model, &mut fields)?;
    for (name, value) in fields {
        request.push_named(name, value);
    }
    Ok(request)
}

/// Returns a message of the assistant. A call is an object of its own. Other
/// content in OpenAI's own form consists of fields of the message, or of parts
/// of its content. Returns `None` for a message that OpenAI rejects because it
/// has none of its kinds of content, such as one that only has the reasoning of
/// another server.
fn assistant(message: Message<'_>) -> Option<Json<'_>> {
    let mut texts: Vec<Json<'_>> = Vec::new();
    let mut parts = Vec::new();
    let mut has_parts = false;
    let mut calls = Vec::new();
    let mut fields = Vec::new();
    for piece in message.pieces {
        let native = match &piece.content {
            Content::Provider(raw) => Some(*raw),
            _ => piece.native,
        };
        match (piece.content, native) {
            (Content::Call(_), Some(raw)) => calls.push(Json::raw(raw)),
            (_, Some(raw)) if kind_of(raw).is_empty() => fields.push(raw),
            (_, Some(raw)) => {
                has_parts = true;
                parts.push(Json::raw(raw));
            }
            (Content::Text(text), None) => {
                let text = Piece::json(piece.block, text);
                parts.push(map! {"type": Json::text("text"), "text": text.clone()});
                texts.push(text);
            }
            (Content::Call(call), None) => calls.push(map! {
                "id": Json::Text(call.id),
                "type": Json::text("function"),
                "function": map! {
                    "name": Json::text(call.name),
                    "arguments": Json::Text(call.json),
                },
            }),
            _ => {}
        }
    }
    let content = match (has_parts, texts.is_empty()) {
        (true, _) => Json::List(parts),
        (false, true) => Json::Value(Value::Null),
        (false, false) => joined(texts),
    };
    let mut is_empty = content.is_null() && calls.is_empty();
    let mut message = map! {"role": Json::text("assistant"), "content": content};
    if !calls.is_empty() {
        message.push("tool_calls", calls);
    }
    for raw in fields {
        message.push_raw_fields(raw);
    }
    is_empty &= !CONTENT_FIELDS.iter().any(|field| has(&message, field));
    (!is_empty).then_some(message)
}

/// The fields of the model's message that are content, besides `content` and
/// `tool_calls`.
pub(crate) const CONTENT_FIELDS: [&str; 3] = ["refusal", "audio", "function_call"];

/// Returns true if a message has a field that is neither null nor a blank text.
pub(crate) fn has<N: Node>(message: &N, field: &str) -> bool {
    let is_content = |value: &N| match value.as_text() {
        Some(text) => !is_blank(text),
        None => !value.is_null(),
    };
    message.get(field).is_some_and(is_content)
}

/// Returns texts with a blank line between them.
fn joined(mut texts: Vec<Json<'_>>) -> Json<'_> {
    if texts.len() == 1 {
        return texts.remove(0);
    }
    let texts: Vec<&str> = texts.iter().filter_map(Node::as_text).collect();
    Json::Text(Cow::Owned(texts.join("\n\n")))
}

/// Writes a message of the user. Results are messages of their own and come
/// first. The remaining parts are one message, unless a message with another role
/// or with fields of its own is between them.
///
/// With `marked`, its one text gets a breakpoint.
fn user<'a>(message: Message<'a>, marked: bool, messages: &mut Vec<Json<'a>>) {
    let mut said = Vec::new();
    let mut run = Said::default();
    for piece in message.pieces {
        let native = match &piece.content {
            Content::Provider(raw) => Some(*raw),
            _ => piece.native,
        };
        match (piece.content, native) {
            (Content::Result(_), Some(raw)) => messages.push(Json::raw(raw)),
            // Fields of the message, such as a name.
            (Content::Provider(raw), _) if is_fields(raw) => {
                said.extend(std::mem::take(&mut run).message(marked));
                run.fields = Some(raw);
            }
            // A message with a role that only OpenAI has.
            (_, Some(raw)) if kind_of(raw).is_empty() => {
                said.extend(std::mem::take(&mut run).message(marked));
                said.push(Json::raw(raw));
            }
            (_, Some(raw)) => {
                run.has_parts = true;
                run.parts.push(Json::raw(raw));
            }
            (Content::Result(result), None) => messages.push(map! {
                "role": Json::text("tool"),
                "tool_call_id": Json::Text(result.id.clone()),
                "content": Json::Text(result.told().into_owned().into()),
            }),
            (Content::Text(text), None) => {
                let text = Piece::json(piece.block, text);
                let mut part = map! {"type": Json::text("text"), "text": text.clone()};
                if marked {
                    let (field, mark) = breakpoint();
                    part.push(field, mark);
                }
                run.parts.push(part);
                run.texts.push(text);
            }
            (Content::Media(media), None) => {
                run.has_parts = true;
                run.parts.push(media_part(media).into());
            }
            _ => {}
        }
    }
    said.extend(run.message(marked));
    messages.extend(said);
}

/// The content of a message of the user.
#[derive(Default)]
struct Said<'a> {
    texts: Vec<Json<'a>>,
    parts: Vec<Json<'a>>,
    /// Whether some part is not a text.
    has_parts: bool,
    /// The other fields of the message, as a JSON object.
    fields: Option<&'a str>,
}

impl<'a> Said<'a> {
    /// Returns the message, if it has content.
    fn message(self, marked: bool) -> Option<Json<'a>> {
        if self.parts.is_empty() {
            return None;
        }
        let content = match self.has_parts || marked {
            true => Json::List(self.parts),
            false => joined(self.texts),
        };
        let mut message = map! {"role": Json::text("user"), "content": content};
        if let Some(fields) = self.fields {
            message.push_raw_fields(fields);
        }
        Some(message)
    }
}

/// Returns true for the fields of a message without its role and its content.
fn is_fields(raw: &str) -> bool {
    let fields: Option<Map<String, Value>> = serde_json::from_str(raw).ok();
    fields.is_some_and(|fields| !fields.contains_key("role") && !fields.contains_key("type"))
}

pub(crate) fn media_part(media: &Media) -> Value {
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
