//! Renders requests for Anthropic Messages.

use contexture_core::{Block, Media, MediaKind, MediaSource};
use serde_json::Value;

use crate::check::{self, refused};
use crate::conversation::{Content, Conversation, Piece, Speaker, Tool, ToolResult, is_blank};
use crate::dialect::{Dialect, PLAIN_NAMES, call_id, is_plain_name, is_word, rules};
use crate::json::{Json, map};
use crate::marks::Marks;
use crate::media;
use crate::{Format, Prompt, Refused};

pub(crate) const DIALECT: Dialect = Dialect {
    name: "anthropic",
    rules: rules!("anthropic", "messages"),
    thinking: true,
    model_media: false,
    result_media: true,
    goes_on,
    resumes: true,
    // Anthropic combines them itself.
    in_a_row: false,
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

pub(crate) fn request<'p>(prompt: &'p Prompt<'_>) -> Result<Json<'p>, Refused> {
    let mut conversation = Conversation::of(prompt.layout, &DIALECT, false)?;
    if prompt.continues {
        conversation.trim_end();
    }
    check::check(&conversation, prompt, &DIALECT)?;
    let marks = Marks::of(&conversation);
    let Conversation {
        tools,
        system,
        messages,
        ..
    } = conversation;

    let mut tools: Vec<Json<'_>> = tools.into_iter().map(tool).collect();
    let deferred = prompt.deferred_tools(Format::Anthropic, &DIALECT)?;
    if !deferred.is_empty() {
        tools.push(map! {
            "type": Json::text("tool_search_tool_bm25_20251119"),
            "name": Json::text("tool_search_tool_bm25"),
        });
        tools.extend(deferred.into_iter().map(|deferred| {
            let mut made = tool(deferred);
            made.push("defer_loading", Value::Bool(true));
            made
        }));
    }
    let mut system: Vec<Json<'_>> = system
        .into_iter()
        .map(|instruction| map! {"type": Json::text("text"), "text": Json::Text(instruction.text)})
        .collect();
    let mut messages: Vec<(Speaker, Vec<Json<'_>>)> = messages
        .into_iter()
        .map(|message| {
            let pieces = message.pieces.into_iter();
            let content = pieces.map(block).collect();
            (message.speaker, content)
        })
        .collect();

    let mark = |made: Option<&mut Json<'_>>| {
        if let Some(made) = made {
            made.push("cache_control", map! {"type": Json::text("ephemeral")});
        }
    };
    mark(marks.tool.and_then(|tool| tools.get_mut(tool)));
    mark(marks.system.and_then(|text| system.get_mut(text)));
    for (message, piece) in marks.pieces {
        let message = messages.get_mut(message);
        mark(message.and_then(|(_, content)| content.get_mut(piece)));
    }
    let messages: Vec<Json<'_>> = messages
        .into_iter()
        .flat_map(|(speaker, content)| match speaker {
            Speaker::User => vec![map! {"role": Json::text("user"), "content": content}],
            Speaker::Model => vec![map! {"role": Json::text("assistant"), "content": content}],
            // Whole messages in Anthropic's own form.
            Speaker::Other => content,
        })
        .collect();

    let mut request = map! {
        "model": Json::text(prompt.model),
        "max_tokens": Value::from(prompt.limit_or_default()),
    };
    let mut sampling = serde_json::Map::new();
    prompt
        .sampling
        .write(Format::Anthropic, prompt.model, &mut sampling)?;
    for (name, value) in sampling {
        request.push_named(name, value);
    }
    if !tools.is_empty() {
        request.push("tools", tools);
    }
    if !system.is_empty() {
        request.push("system", system);
    }
    request.push("messages", messages);
    Ok(request)
}

fn tool(tool: Tool<'_>) -> Json<'_> {
    let mut made = map! {"name": Json::text(tool.name)};
    if let Some(description) = tool.description {
        made.push("description", Json::Text(description.into()));
    }
    made.push("input_schema", Value::Object(tool.parameters));
    made
}

fn block(piece: Piece<'_>) -> Json<'_> {
    let block = piece.block;
    if let Some(raw) = piece.native {
        return Json::raw(raw);
    }
    match piece.content {
        Content::Provider(raw) => Json::raw(raw),
        Content::Text(text) => map! {"type": Json::text("text"), "text": Piece::json(block, text)},
        Content::Thinking { text, signature } => map! {
            "type": Json::text("thinking"),
            "thinking": Json::Text(text),
            "signature": Json::text(signature),
        },
        Content::Call(call) => map! {
            "type": Json::text("tool_use"),
            "id": Json::Text(call.id),
            "name": Json::text(call.name),
            "input": Value::Object(call.arguments),
        },
        Content::Result(result) => result_block(block, result),
        Content::Media(media) => media_block(media),
    }
}

fn result_block<'a>(block: &'a Block, result: ToolResult<'a>) -> Json<'a> {
    let content = if result.media.is_empty() {
        Piece::json(block, result.text)
    } else {
        let text = Some(result.text).filter(|text| !is_blank(text));
        text.map(|text| map! {"type": Json::text("text"), "text": Json::Text(text)})
            .into_iter()
            .chain(result.media.into_iter().map(media_block))
            .collect::<Vec<_>>()
            .into()
    };
    let mut block = map! {
        "type": Json::text("tool_result"),
        "tool_use_id": Json::Text(result.id),
        "content": content,
    };
    if result.is_error {
        block.push("is_error", Value::Bool(true));
    }
    block
}

pub(crate) fn media_block(media: &Media) -> Json<'_> {
    let source = match &media.source {
        MediaSource::Data(data) => map! {
            "type": Json::text("base64"),
            "media_type": Value::from(media::canonical_type(media)),
            "data": Json::text(data),
        },
        MediaSource::Url(url) => map! {"type": Json::text("url"), "url": Json::text(url)},
    };
    map! {"type": Json::text(media.kind.name()), "source": source}
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
