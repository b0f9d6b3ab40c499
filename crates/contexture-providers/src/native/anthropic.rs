//! Reads Anthropic Messages.

use contexture_core::RawJson;
use contexture_core::message::{Block, Message, MessageRole};
use serde_json::Value;

use super::chat::{image_type, told};
use super::node::{Node, object};
use super::{
    Api, NativeError, NativeRequest, NativeTool, message, opaque, sendable, settings, with_native,
};
use crate::anthropic::{DIALECT, media_block};
use crate::json::{Json, map};

const API: Api = Api::Anthropic;

pub(super) fn request(node: &Node<'_>) -> Result<NativeRequest, NativeError> {
    let system = match node.find("system").filter(|system| !system.is_null()) {
        Some(system) => content(&system, MessageRole::System)?,
        None => Vec::new(),
    };
    let mut messages = Vec::new();
    for one in node.list("messages")? {
        let role = one.required("role")?;
        match role.as_str() {
            "user" => messages.extend(user(&one)?),
            "assistant" => messages.extend(assistant(&one)?),
            // Instructions between the messages stay where they are.
            "system" => {
                let block = super::own_text(API, without_marks(&one)?, told(&one)?);
                messages.push(message(MessageRole::System, vec![block]));
            }
            _ => {
                let wrong = format!("unknown role `{role}`; expected user, assistant or system");
                return Err(NativeError::new(format!("{}.role", one.path()), wrong));
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
        settings: settings(node, &["model", "system", "tools", "messages"])?,
        conversation: 0..0,
    })
}

pub(super) fn response(node: &Node<'_>) -> Result<(Vec<Message>, Option<String>), NativeError> {
    Ok((assistant(node)?, node.string("stop_reason")?))
}

/// Reads the model's content: one message, or none if it is blank.
fn assistant(node: &Node<'_>) -> Result<Vec<Message>, NativeError> {
    let Some(content_node) = node.find("content").filter(|content| !content.is_null()) else {
        return Err(NativeError::new(path(node, "content"), "is missing"));
    };
    let mut blocks = content(&content_node, MessageRole::Assistant)?;
    let calls = blocks
        .iter()
        .any(|block| matches!(block, Block::ToolCall { .. }));
    if !calls {
        // Without a call, signed thinking is sent back in its own form only.
        let raws = content_node.items().unwrap_or_default();
        for (block, raw) in blocks.iter_mut().zip(raws) {
            if let Block::Thinking {
                signature: Some(_),
                native,
                ..
            } = block
            {
                let raw = unmarked(&raw)?;
                *native = Some(contexture_core::Native::new(API.name(), raw));
            }
        }
    }
    Ok(match blocks.is_empty() {
        true => Vec::new(),
        false => vec![message(MessageRole::Assistant, blocks)],
    })
}

/// Reads the user's content. Results of tools are a message of their own.
fn user(node: &Node<'_>) -> Result<Vec<Message>, NativeError> {
    let Some(content_node) = node.find("content").filter(|content| !content.is_null()) else {
        return Err(NativeError::new(path(node, "content"), "is missing"));
    };
    let mut results = Vec::new();
    let mut said = Vec::new();
    if content_node.is_list() {
        for block in content_node.items()? {
            match block.kind_field().as_str() {
                "tool_result" => results.extend(result(&block)?),
                _ => said.push(read(&block, MessageRole::User)?),
            }
        }
    } else {
        said = content(&content_node, MessageRole::User)?;
    }
    let mut messages = Vec::new();
    if !results.is_empty() {
        messages.push(message(MessageRole::Tool, results));
    }
    if !said.is_empty() {
        messages.push(message(MessageRole::User, said));
    }
    Ok(messages)
}

fn path(node: &Node<'_>, name: &str) -> String {
    match node.path() {
        path if path.is_empty() => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

fn content(node: &Node<'_>, role: MessageRole) -> Result<Vec<Block>, NativeError> {
    match node.raw.starts_with('"') {
        true => Ok(vec![Block::text(node.expect_block_text()?)]),
        false => {
            let blocks = node.each_item()?.iter();
            blocks.map(|block| read(block, role)).collect()
        }
    }
}

/// Returns the block without its cache mark.
fn unmarked(node: &Node<'_>) -> Result<RawJson, NativeError> {
    let fields = node.fields()?;
    if fields.iter().all(|(name, _)| name != "cache_control") {
        return Ok(node.raw_json());
    }
    let others = fields.iter().filter(|(name, _)| name != "cache_control");
    Ok(object(
        others.map(|(name, value)| (name.as_str(), value.raw)),
    ))
}

/// Returns a message without the cache marks of its blocks.
fn without_marks(node: &Node<'_>) -> Result<RawJson, NativeError> {
    let Some(content) = node.find("content").filter(Node::is_list) else {
        return Ok(node.raw_json());
    };
    let items = content.items()?;
    let marked = |item: &Node<'_>| item.find("cache_control").is_some();
    if !items.iter().any(marked) {
        return Ok(node.raw_json());
    }
    let blocks: Vec<RawJson> = items.iter().map(unmarked).collect::<Result<_, _>>()?;
    let blocks: Vec<&str> = blocks.iter().map(RawJson::as_str).collect();
    let blocks = format!("[{}]", blocks.join(","));
    let fields = node.fields()?;
    Ok(object(fields.iter().map(
        |(name, value)| match name.as_str() {
            "content" => (name.as_str(), blocks.as_str()),
            name => (name, value.raw),
        },
    )))
}

fn read(node: &Node<'_>, role: MessageRole) -> Result<Block, NativeError> {
    let raw = unmarked(node)?;
    let keep = |block: Block, expected: Json<'_>| with_native(API, block, &raw, &expected);
    let kind = node.kind_field();
    if kind.is_empty() {
        return Err(NativeError::new(
            path(node, "type"),
            "is missing: every block has a `type`",
        ));
    }
    let is_model = role == MessageRole::Assistant;
    Ok(match kind.as_str() {
        "text" => {
            let text = match is_model {
                true => node.string("text")?.unwrap_or_default(),
                false => node.given("text")?,
            };
            let expected = map! {"type": Json::text("text"), "text": Json::text(&text)};
            keep(Block::text(text.as_str()), expected)
        }
        "thinking" if is_model => {
            let text = node.string("thinking")?.unwrap_or_default();
            let signature = node.string("signature")?.filter(|seal| !seal.is_empty());
            let expected = map! {
                "type": Json::text("thinking"),
                "thinking": Json::Text(text.clone().into()),
                "signature": Json::Text(signature.clone().unwrap_or_default().into()),
            };
            let signed = signature.is_some();
            let block = Block::Thinking {
                text,
                signature,
                native: None,
            };
            match signed {
                true => keep(block, expected),
                // The provider takes none back without its signature.
                false => block,
            }
        }
        "tool_use" if is_model => {
            let (id, name) = (node.required("id")?, node.required("name")?);
            let arguments = match node.find("input").filter(|input| !input.is_null()) {
                Some(input) if input.is_object() => input.value(),
                // A stream that was cut off inside the arguments.
                Some(input) => Value::String(input.expect_text()?),
                None => Value::Object(serde_json::Map::new()),
            };
            let is_object = arguments.is_object();
            let expected = map! {
                "type": Json::text("tool_use"),
                "id": Json::Text(id.clone().into()),
                "name": Json::Text(name.clone().into()),
                "input": arguments.clone(),
            };
            let block = Block::ToolCall {
                id,
                name,
                arguments,
                native: None,
            };
            match is_object {
                true => keep(block, expected),
                false => block,
            }
        }
        "document" if is_written(node) => super::own_text(API, raw.clone(), document(node)?),
        "image" | "document" => match media(node, &kind)? {
            Some(block) => match sendable(&DIALECT, &block) {
                Some(media) => keep(block, media_block(&media)),
                None => opaque(API, raw),
            },
            None => opaque(API, raw),
        },
        _ => opaque(API, raw),
    })
}

/// Returns true for a document whose source is text.
fn is_written(node: &Node<'_>) -> bool {
    let source = node.find("source");
    source.is_some_and(|source| matches!(source.kind_field().as_str(), "text" | "content"))
}

/// Returns the text of a document, after its title.
fn document(node: &Node<'_>) -> Result<String, NativeError> {
    let mut texts: Vec<String> = node.string("title")?.into_iter().collect();
    if let Some(source) = node.find("source") {
        texts.extend(source.string("data")?);
        texts.push(told(&source)?);
    }
    texts.retain(|text| !text.trim().is_empty());
    Ok(texts.join("\n\n"))
}

/// Reads an image or a document. Returns `None` for other blocks, and for files
/// that are stored at the provider.
fn media(node: &Node<'_>, kind: &str) -> Result<Option<Block>, NativeError> {
    let is_medium = matches!(kind, "image" | "document");
    let Some(source) = node.find("source").filter(|_| is_medium) else {
        return Ok(None);
    };
    let (data, url) = match source.kind_field().as_str() {
        "base64" => (source.string("data")?, None),
        "url" => (None, source.string("url")?),
        _ => return Ok(None),
    };
    if data.is_none() && url.is_none() {
        return Ok(None);
    }
    let media_type = source.string("media_type")?;
    Ok(Some(match kind {
        "image" => Block::Image {
            media_type: media_type
                .unwrap_or_else(|| image_type(url.as_deref().unwrap_or_default()).to_owned()),
            data,
            url,
            native: None,
        },
        _ => Block::Document {
            media_type: media_type.unwrap_or_else(|| "application/pdf".to_owned()),
            data,
            url,
            native: None,
        },
    }))
}

/// Reads the result of a tool, followed by the media in it.
fn result(node: &Node<'_>) -> Result<Vec<Block>, NativeError> {
    let raw = unmarked(node)?;
    let id = node.required("tool_use_id")?;
    let is_error = node
        .find("is_error")
        .is_some_and(|error| error.raw == "true");
    let mut texts = Vec::new();
    let mut media_blocks = Vec::new();
    let mut plain = true;
    let content = node.find("content").filter(|content| !content.is_null());
    match content {
        Some(content) if content.is_list() => {
            let items = content.items()?;
            for item in &items {
                match item.kind_field().as_str() {
                    "text" => {
                        texts.push(item.given("text")?);
                        plain &= item.fields()?.len() == 2;
                    }
                    "document" if is_written(item) => {
                        texts.push(document(item)?);
                        plain = false;
                    }
                    kind => match media(item, kind)? {
                        Some(block) => media_blocks.push(block),
                        // A part that has no form here is in the result's own form.
                        None => {
                            texts.push(super::shown(&item.raw_json()).0);
                            plain = false;
                        }
                    },
                }
            }
            // A single text means the same with or without a list.
            plain &= items.len() <= 1 && media_blocks.is_empty();
        }
        Some(content) => texts.push(content.expect_text()?),
        None => {}
    }
    let text = texts.join("\n\n");
    // An empty result is otherwise sent as a text that says so.
    plain &= !text.trim().is_empty();
    let known = ["type", "tool_use_id", "content", "is_error"];
    let fields = node.fields()?;
    let has_more = |name: &str| !known.contains(&name) && name != "cache_control";
    let more = fields.iter().any(|(name, _)| has_more(name));
    let block = Block::ToolResult {
        tool_call_id: id.clone(),
        content: text.clone(),
        is_error,
        native: None,
    };
    let block = match plain && !more {
        true => block,
        false => {
            let media: Vec<_> = media_blocks.iter().filter_map(Block::media).collect();
            let text = (!text.trim().is_empty())
                .then(|| map! {"type": Json::text("text"), "text": Json::text(&text)});
            let content: Vec<Json<'_>> = text
                .into_iter()
                .chain(media.iter().map(media_block))
                .collect();
            let mut expected = map! {
                "type": Json::text("tool_result"),
                "tool_use_id": Json::text(&id),
                "content": content,
            };
            if is_error {
                expected.push("is_error", Value::Bool(true));
            }
            // Only the own form of the result can hold a medium of another type.
            let is_sendable = |block: &Block| sendable(&DIALECT, block).is_some();
            if !media_blocks.iter().all(is_sendable) {
                expected = Json::Value(Value::Null);
            }
            with_native(API, block, &raw, &expected)
        }
    };
    Ok(std::iter::once(block).chain(media_blocks).collect())
}
