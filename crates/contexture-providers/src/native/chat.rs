//! Reads OpenAI Chat Completions.

use contexture_core::Native;
use contexture_core::message::{Block, Message, MessageContent, MessageRole};
use serde_json::Value;

use super::node::{Node, object};
use super::{
    Api, NativeError, NativeRequest, NativeTool, message, opaque, sendable, settings, with_native,
};
use crate::conversation::shown_result;
use crate::json::{Json, map};
use crate::openai_chat::{DIALECT, media_part};

const API: Api = Api::OpenAiChat;

pub(super) fn request(node: &Node<'_>) -> Result<NativeRequest, NativeError> {
    let mut system = Vec::new();
    let mut messages: Vec<Message> = Vec::new();
    let given = node.each_of("messages")?;
    messages.reserve(given.len());
    // Whether there was another message than an instruction, perhaps a blank one.
    let mut has_begun = false;
    for one in given {
        let role = one.required_text("role")?;
        let is_instruction = matches!(&*role, "system" | "developer");
        has_begun |= !is_instruction;
        match &*role {
            _ if is_instruction && !has_begun => system.push(instruction(one)?),
            // Instructions between the messages stay where they are.
            _ if is_instruction => {
                messages.push(message(MessageRole::System, vec![instruction(one)?]));
            }
            "user" => messages.push(message(MessageRole::User, user(one)?)),
            "assistant" => messages.extend(assistant(one)?),
            "tool" => {
                let result = result(one)?;
                match messages
                    .last_mut()
                    .map(|last| (last.role, &mut last.content))
                {
                    // Results that follow each other answer one message.
                    Some((MessageRole::Tool, MessageContent::Blocks(blocks))) => {
                        blocks.extend(result);
                    }
                    _ => messages.push(message(MessageRole::Tool, result)),
                }
            }
            // A role of older versions, or of another server.
            _ => {
                let block = opaque(API, one.raw_json());
                messages.push(message(MessageRole::User, vec![block]));
            }
        }
    }
    let tool = |tool: Node<'_>| {
        let inner = tool.find("function").or(tool.find("custom"));
        Ok(NativeTool {
            name: inner.unwrap_or(tool.clone()).string("name")?,
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
        settings: settings(node, &["model", "tools", "messages"])?,
        conversation: 0..0,
    })
}

pub(super) fn response(node: &Node<'_>) -> Result<(Vec<Message>, Option<String>), NativeError> {
    let choices = node.list("choices")?;
    // Further choices are other answers to the same question.
    let Some(choice) = choices.first() else {
        return Err(NativeError::new(
            "choices",
            "is empty: the response has no answer",
        ));
    };
    let Some(said) = choice.find("message") else {
        let path = format!("{}.message", choice.path());
        return Err(NativeError::new(path, "is missing"));
    };
    let messages = assistant(&said)?.into_iter().collect();
    Ok((messages, choice.string("finish_reason")?))
}

fn instruction(node: &Node<'_>) -> Result<Block, NativeError> {
    Ok(super::own_text(API, node.raw_json(), told(node)?))
}

/// Returns the text of a message's content, a text or a list of parts.
pub(super) fn told(node: &Node<'_>) -> Result<String, NativeError> {
    let content = node.find("content").filter(|content| !content.is_null());
    Ok(match content {
        Some(content) if content.is_list() => texts(&content)?.join("\n\n"),
        Some(content) => content.expect_text()?,
        None => String::new(),
    })
}

/// Returns the texts of a list of parts.
fn texts(content: &Node<'_>) -> Result<Vec<String>, NativeError> {
    let mut texts = Vec::new();
    for part in content.items()? {
        match part.kind_field().as_str() {
            "text" | "input_text" => texts.push(part.given("text")?),
            _ => texts.extend(part.string("text")?),
        }
    }
    Ok(texts)
}

fn user(node: &Node<'_>) -> Result<Vec<Block>, NativeError> {
    let content = node.get("content").filter(|content| !content.is_null());
    let mut blocks = match content {
        Some(content) if content.is_list() => parts(content)?,
        Some(content) => vec![Block::text(content.expect_block_text()?)],
        None => {
            let path = format!("{}.content", node.path());
            return Err(NativeError::new(path, "is missing"));
        }
    };
    // Other fields, such as a name, belong to the message: to its only block, or
    // before its blocks.
    let fields = node.each_field()?.iter();
    let more = fields.filter(|(name, _)| name != "role" && name != "content");
    let more: Vec<_> = more.map(|(name, value)| (&**name, value.raw)).collect();
    let only = match &mut blocks[..] {
        [block] => block.native_mut(),
        _ => None,
    };
    match only {
        _ if more.is_empty() => {}
        Some(native) => *native = Some(Native::new(API.name(), node.raw_json())),
        None => blocks.insert(0, opaque(API, object(more))),
    }
    Ok(blocks)
}

/// Reads the user's content in a list of parts. Texts keep their own form, because
/// they would become one string without it.
fn parts(content: &Node<'_>) -> Result<Vec<Block>, NativeError> {
    let items = content.each_item()?;
    let mut blocks: Vec<Block> = items.iter().map(part).collect::<Result<_, _>>()?;
    for (block, item) in blocks.iter_mut().zip(items) {
        if let Block::Text { native, .. } = block {
            *native = Some(Native::new(API.name(), item.raw_json()));
        }
    }
    Ok(blocks)
}

/// Reads a part of the user's message.
fn part(node: &Node<'_>) -> Result<Block, NativeError> {
    let raw = node.raw_json();
    if node.kind_field() == "text" {
        let text = node.given("text")?;
        let expected = map! {"type": Json::text("text"), "text": Json::text(&text)};
        return Ok(with_native(
            API,
            Block::text(text.as_str()),
            &raw,
            &expected,
        ));
    }
    let Some(block) = medium(node)? else {
        return Ok(opaque(API, raw));
    };
    let expected = sendable(&DIALECT, &block).map(|media| media_part(&media));
    Ok(match expected {
        Some(expected) => with_native(API, block, &raw, &expected.into()),
        None => opaque(API, raw),
    })
}

/// Reads a part that is a medium. Returns `None` for other parts, and for files
/// that are stored at the provider.
fn medium(node: &Node<'_>) -> Result<Option<Block>, NativeError> {
    Ok(match node.kind_field().as_str() {
        "image_url" => {
            let image = node.find("image_url");
            let url = image
                .map(|image| image.string("url"))
                .transpose()?
                .flatten();
            url.map(|url| from_address(&url, "image"))
        }
        "input_audio" => {
            let audio = node.find("input_audio");
            let field = |name: &str| audio.as_ref().and_then(|audio| audio.string(name).ok()?);
            match (field("data"), field("format")) {
                (Some(data), Some(format)) => Some(Block::Audio {
                    media_type: match format.as_str() {
                        "mp3" => "audio/mpeg".to_owned(),
                        format => format!("audio/{format}"),
                    },
                    data: Some(data),
                    url: None,
                    native: None,
                }),
                _ => None,
            }
        }
        "file" => {
            let file = node.find("file");
            let data = file.and_then(|file| file.string("file_data").ok()?);
            data.filter(|data| data.starts_with("data:"))
                .map(|data| from_address(&data, "document"))
        }
        _ => None,
    })
}

/// Returns the medium at an address, which holds its bytes if it is a data URL.
pub(super) fn from_address(address: &str, kind: &str) -> Block {
    let (media_type, data, url) = match address
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"))
    {
        Some((media_type, data)) => (media_type.to_owned(), Some(data.to_owned()), None),
        None => {
            let guessed = match kind {
                "image" => image_type(address),
                _ => "application/pdf",
            };
            (guessed.to_owned(), None, Some(address.to_owned()))
        }
    };
    match kind {
        "image" => Block::Image {
            media_type,
            data,
            url,
            native: None,
        },
        _ => Block::Document {
            media_type,
            data,
            url,
            native: None,
        },
    }
}

/// Returns the type of a picture by the extension in its address. The type of
/// one without a known extension is assumed.
pub(super) fn image_type(address: &str) -> &'static str {
    let end = address.find(['?', '#']).unwrap_or(address.len());
    let (_, extension) = address[..end].rsplit_once('.').unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        _ => "image/png",
    }
}

/// Reads the model's content: one message, or none if it is blank.
fn assistant(node: &Node<'_>) -> Result<Option<Message>, NativeError> {
    let mut blocks = Vec::new();
    let mut said = Vec::new();
    let content = node.get("content").filter(|content| !content.is_null());
    match content {
        Some(content) if content.is_list() => {
            for part in content.each_item()? {
                said.push(match part.kind_field().as_str() {
                    // In its own form, it stays a part of a list.
                    "text" => Block::Text {
                        text: part.string("text")?.unwrap_or_default().into(),
                        native: Some(Native::new(API.name(), part.raw_json())),
                    },
                    "refusal" => {
                        let text = part.string("refusal")?.unwrap_or_default();
                        super::own_text(API, part.raw_json(), text)
                    }
                    _ => opaque(API, part.raw_json()),
                });
            }
        }
        Some(content) => {
            let text = content.expect_block_text()?;
            if text.written().bytes() > 0 {
                said.push(Block::text(text));
            }
        }
        None => {}
    }
    // Fields of the message itself: reasoning of some servers, a refusal,
    // audio.
    let known = ["role", "content", "tool_calls"];
    let fields = node.each_field()?;
    let more: Vec<_> = fields
        .iter()
        .filter(|(name, value)| !known.contains(&&**name) && !is_nothing(value.raw))
        .collect();
    if !more.is_empty() {
        let refusal = node.get("refusal").and_then(Node::text);
        let raw = object(more.iter().map(|(name, value)| (&**name, value.raw)));
        blocks.push(match refusal {
            Some(text) if said.is_empty() => Block::Text {
                text: text.into(),
                native: Some(Native::new(API.name(), raw)),
            },
            _ => opaque(API, raw),
        });
    }
    match blocks.is_empty() {
        true => blocks = said,
        false => blocks.extend(said),
    }
    for one in node.each_of("tool_calls")? {
        blocks.push(call(one)?);
    }
    Ok((!blocks.is_empty()).then(|| message(MessageRole::Assistant, blocks)))
}

fn is_nothing(raw: &str) -> bool {
    let inner = raw.strip_prefix('[').and_then(|raw| raw.strip_suffix(']'));
    raw == "null" || inner.is_some_and(|inner| inner.trim().is_empty())
}

fn call(node: &Node<'_>) -> Result<Block, NativeError> {
    let id = node.required("id")?;
    let (inner, written) = match (node.find("function"), node.find("custom")) {
        (Some(function), _) => (function, "arguments"),
        (None, Some(custom)) => (custom, "input"),
        (None, None) => {
            let path = format!("{}.function", node.path());
            return Err(NativeError::new(path, "is missing"));
        }
    };
    let name = inner.required("name")?;
    let arguments = match inner.find(written).filter(|written| !written.is_null()) {
        // Some servers give an object instead of its text.
        Some(given) if given.is_object() => given.value(),
        Some(given) => arguments(&given.expect_text()?),
        None => Value::Object(serde_json::Map::new()),
    };
    let expected = map! {
        "id": Json::Text(id.clone().into()),
        "type": Json::text("function"),
        "function": map! {
            "name": Json::Text(name.clone().into()),
            "arguments": Json::Text(sent(&arguments).into()),
        },
    };
    let block = Block::ToolCall {
        id,
        name,
        arguments,
        native: None,
    };
    Ok(with_native(API, block, &node.raw_json(), &expected))
}

/// Returns the arguments that a model wrote: an object, or the text if it is none.
pub(super) fn arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => value,
        _ => Value::String(text.to_owned()),
    }
}

/// Returns the arguments in the form in which they are sent.
pub(super) fn sent(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => text.clone(),
        object => object.to_string(),
    }
}

/// Reads the result of a tool, followed by the media in it.
fn result(node: &Node<'_>) -> Result<Vec<Block>, NativeError> {
    let id = node.required("tool_call_id")?;
    let mut media = Vec::new();
    let text = match node.get("content").filter(|content| content.is_list()) {
        Some(content) => {
            let mut texts = Vec::new();
            for part in content.each_item()? {
                match (part.kind_field().as_str(), medium(part)?) {
                    ("text", _) => texts.push(part.given("text")?),
                    (_, Some(block)) => media.push(block),
                    // A part that has no form here is in the result's own form.
                    _ => texts.push(super::shown(&part.raw_json()).0),
                }
            }
            texts.join("\n\n")
        }
        None => told(node)?,
    };
    let expected = map! {
        "role": Json::text("tool"),
        "tool_call_id": Json::Text(id.clone().into()),
        "content": Json::Text(shown_result(&text).to_owned().into()),
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
