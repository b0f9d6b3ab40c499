//! Reads OpenAI Responses.

use contexture_core::Native;
use contexture_core::message::{Block, Message, MessageContent, MessageRole};
use serde_json::Value;

use super::chat::{arguments, from_address, sent, told};
use super::node::Node;
use super::{
    Api, NativeError, NativeRequest, NativeTool, message, opaque, sendable, settings, with_native,
};
use crate::conversation::shown_result;
use crate::json::{Json, map};
use crate::openai_responses::{DIALECT, is_input, media_part};

const API: Api = Api::OpenAiResponses;

pub(super) fn request(node: &Node<'_>) -> Result<NativeRequest, NativeError> {
    let system = node.string("instructions")?.filter(|text| !text.is_empty());
    let mut system: Vec<Block> = system.map(Block::text).into_iter().collect();
    let mut messages: Vec<Message> = Vec::new();
    if let Some(input) = node.find("input").filter(|input| !input.is_null()) {
        match input.text() {
            Some(text) => messages.push(message(MessageRole::User, vec![Block::text(text)])),
            None => {
                for item in input.items()? {
                    let (role, blocks) = read(&item)?;
                    match role {
                        MessageRole::System if messages.is_empty() => system.extend(blocks),
                        role => add(&mut messages, role, blocks, &item),
                    }
                }
            }
        }
    }
    let tool = |tool: Node<'_>| {
        Ok(NativeTool {
            name: tool.string("name")?,
            raw: tool.raw_json(),
        })
    };
    Ok(NativeRequest {
        api: API,
        model: node.string("model")?,
        system,
        tools: node
            .list("tools")?
            .into_iter()
            .map(tool)
            .collect::<Result<_, _>>()?,
        messages,
        settings: settings(node, &["model", "instructions", "tools", "input"])?,
        conversation: 0..0,
    })
}

/// Adds an item to the messages. Adjacent items of the model are one message,
/// and so are results; each item of the user is a message of its own.
fn add(messages: &mut Vec<Message>, role: MessageRole, mut blocks: Vec<Block>, item: &Node<'_>) {
    let joins = matches!(role, MessageRole::Assistant | MessageRole::Tool);
    match messages.last_mut() {
        Some(Message {
            role: last,
            content: MessageContent::Blocks(before),
            ..
        }) if joins && *last == role => {
            // Two texts of the model would become one without their own form.
            if let ([.., Block::Text { .. }], [Block::Text { native, .. }]) =
                (&before[..], &mut blocks[..])
            {
                *native = Some(Native::new(API.name(), item.raw_json()));
            }
            before.extend(blocks);
        }
        _ => messages.push(message(role, blocks)),
    }
}

pub(super) fn response(node: &Node<'_>) -> Result<(Vec<Message>, Option<String>), NativeError> {
    let status = node.string("status")?;
    let mut blocks = Vec::new();
    for item in node.list("output")? {
        let (role, read) = read(&item)?;
        match role {
            MessageRole::Assistant => blocks.extend(read),
            // A result of the model's own tools stays in place.
            _ => blocks.push(opaque(API, item.raw_json())),
        }
    }
    let calls = blocks
        .iter()
        .any(|block| matches!(block, Block::ToolCall { .. }));
    let details = node.find("incomplete_details");
    let reason = details.and_then(|details| details.string("reason").ok()?);
    let stop_reason = match (status.as_deref(), reason.as_deref()) {
        (Some("queued" | "in_progress"), _) => {
            return Err(NativeError::new(
                "status",
                format!(
                    "is `{}`: the response is not finished; record it when it is",
                    status.unwrap_or_default()
                ),
            ));
        }
        (Some("incomplete"), Some("max_output_tokens")) => Some("max_tokens".to_owned()),
        (Some("incomplete"), Some(_)) => reason,
        (Some("completed") | None, _) if calls => Some("tool_calls".to_owned()),
        (Some("completed"), _) => Some("stop".to_owned()),
        _ => status,
    };
    let messages = match blocks.is_empty() {
        true => Vec::new(),
        false => vec![message(MessageRole::Assistant, blocks)],
    };
    Ok((messages, stop_reason))
}

fn read(node: &Node<'_>) -> Result<(MessageRole, Vec<Block>), NativeError> {
    let raw = node.raw_json();
    let kind = node.kind_field();
    let one = |role, block| Ok((role, vec![block]));
    match kind.as_str() {
        "message" | "" => {
            let role = node.required("role")?;
            match role.as_str() {
                "user" => Ok((MessageRole::User, user(node)?)),
                "assistant" => one(MessageRole::Assistant, said(node)?),
                // Instructions between the messages stay where they are.
                _ => one(MessageRole::System, super::own_text(API, raw, told(node)?)),
            }
        }
        "function_call" | "custom_tool_call" => one(MessageRole::Assistant, call(node, &kind)?),
        "function_call_output" | "custom_tool_call_output" => {
            Ok((MessageRole::Tool, result(node, &kind)?))
        }
        kind if is_input(kind) => one(MessageRole::User, opaque(API, raw)),
        _ => one(MessageRole::Assistant, opaque(API, raw)),
    }
}

fn user(node: &Node<'_>) -> Result<Vec<Block>, NativeError> {
    let Some(content) = node.find("content").filter(|content| !content.is_null()) else {
        return Err(NativeError::new(
            format!("{}.content", node.path()),
            "is missing",
        ));
    };
    match content.text() {
        Some(text) => Ok(vec![Block::text(text)]),
        None => content.items()?.iter().map(part).collect(),
    }
}

/// Reads a part of the user's message, or of a tool's result.
fn part(node: &Node<'_>) -> Result<Block, NativeError> {
    let raw = node.raw_json();
    if node.kind_field() == "input_text" {
        let text = node.given("text")?;
        let expected = map! {"type": Json::text("input_text"), "text": Json::text(&text)};
        return Ok(with_native(
            API,
            Block::text(text.as_str()),
            &raw,
            &expected,
        ));
    }
    Ok(match medium(node)? {
        Some(block) => match sendable(&DIALECT, &block).map(|media| media_part(&media)) {
            Some(expected) => with_native(API, block, &raw, &expected.into()),
            None => opaque(API, raw),
        },
        None => opaque(API, raw),
    })
}

/// Reads a part that is a medium. Returns `None` for other parts, and for files
/// that are stored at the provider.
fn medium(node: &Node<'_>) -> Result<Option<Block>, NativeError> {
    Ok(match node.kind_field().as_str() {
        "input_image" => {
            let url = node.string("image_url")?;
            url.map(|url| from_address(&url, "image"))
        }
        "input_file" => {
            let data = node
                .string("file_data")?
                .filter(|data| data.starts_with("data:"));
            let address = data.or(node.string("file_url")?);
            address.map(|address| from_address(&address, "document"))
        }
        _ => None,
    })
}

/// Reads a message of the model.
fn said(node: &Node<'_>) -> Result<Block, NativeError> {
    let raw = node.raw_json();
    let mut texts = Vec::new();
    if let Some(content) = node.find("content").filter(|content| !content.is_null()) {
        match content.text() {
            Some(text) => texts.push(text),
            None => {
                for part in content.items()? {
                    texts.extend(part.string("text")?.or(part.string("refusal")?));
                }
            }
        }
    }
    let text = texts.join("\n\n");
    if text.trim().is_empty() {
        return Ok(opaque(API, raw));
    }
    let expected = map! {
        "type": Json::text("message"),
        "role": Json::text("assistant"),
        "content": Json::text(&text),
    };
    Ok(with_native(
        API,
        Block::text(text.as_str()),
        &raw,
        &expected,
    ))
}

fn call(node: &Node<'_>, kind: &str) -> Result<Block, NativeError> {
    let (id, name) = (node.required("call_id")?, node.required("name")?);
    let arguments = match kind {
        "function_call" => arguments(&node.string("arguments")?.unwrap_or_default()),
        _ => Value::String(node.string("input")?.unwrap_or_default()),
    };
    let expected = map! {
        "type": Json::text("function_call"),
        "call_id": Json::Text(id.clone().into()),
        "name": Json::Text(name.clone().into()),
        "arguments": Json::Text(sent(&arguments).into()),
    };
    let block = Block::ToolCall {
        id,
        name,
        arguments,
        native: None,
    };
    Ok(with_native(API, block, &node.raw_json(), &expected))
}

/// Reads the result of a tool, followed by the media in it.
fn result(node: &Node<'_>, kind: &str) -> Result<Vec<Block>, NativeError> {
    let id = node.required("call_id")?;
    let mut texts = Vec::new();
    let mut media = Vec::new();
    let output = node.find("output").filter(|output| !output.is_null());
    match output {
        Some(output) if output.is_list() => {
            for item in output.items()? {
                match (part(&item)?, medium(&item)?) {
                    (Block::Text { text, .. }, _) => texts.push(text.into()),
                    (_, Some(block)) => media.push(block),
                    // A part that has no form here is in the result's own form.
                    _ => texts.push(super::shown(&item.raw_json()).0),
                }
            }
        }
        Some(output) => texts.push(output.expect_text()?),
        None => {}
    }
    let text = texts.join("\n\n");
    let expected = match media.is_empty() && kind == "function_call_output" {
        true => map! {
            "type": Json::text("function_call_output"),
            "call_id": Json::Text(id.clone().into()),
            "output": Json::Text(shown_result(&text).to_owned().into()),
        },
        false => Json::Value(Value::Null),
    };
    let block = Block::ToolResult {
        tool_call_id: id,
        content: text,
        is_error: false,
        native: None,
    };
    let block = with_native(API, block, &node.raw_json(), &expected);
    Ok(std::iter::once(block).chain(media).collect())
}
