//! Converts messages of Anthropic's API into messages of turns.
//!
//! The blocks that make up most of a transcript are read here, in one pass. All
//! others are read by `contexture_providers::native`, which keeps their bytes.

use std::borrow::Cow;

use contexture_engine::masked;
use contexture_providers::native::{self, Api};
use contexture_store::{Block, BlockText, Message, MessageContent, MessageRole, Native, RawJson};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::fields::{self, Fields};

/// A block with fields that are understood here. Any other field is an error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommonBlock<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow)]
    signature: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_use_id: Option<Cow<'a, str>>,
    content: Option<ResultText>,
    is_error: Option<bool>,
}

/// The content of a tool result that is one text, in a list or not. It is read
/// in one pass, because it is most of a transcript.
struct ResultText(String);

impl<'de> Deserialize<'de> for ResultText {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OneText;

        impl<'de> serde::de::Visitor<'de> for OneText {
            type Value = ResultText;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, or a list with one text block")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ResultText, E> {
                Ok(ResultText(text.to_owned()))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> Result<ResultText, A::Error> {
                let only = || serde::de::Error::custom("not one text block");
                let one: TextBlock<'_> = list.next_element()?.ok_or_else(only)?;
                let more: Option<serde::de::IgnoredAny> = list.next_element()?;
                match one.kind == "text" && more.is_none() {
                    true => Ok(ResultText(one.text.into_owned())),
                    false => Err(only()),
                }
            }
        }

        from.deserialize_any(OneText)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextBlock<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
}

/// Reads the `content` of a message: a text, or a list of blocks.
pub(crate) fn blocks(content: &str, role: MessageRole) -> Vec<Block> {
    if content.starts_with('"') {
        let text: String = serde_json::from_str(content).unwrap_or_default();
        return vec![Block::text(text)];
    }
    let items: Vec<&RawValue> = serde_json::from_str(content).unwrap_or_default();
    let raws: Vec<&str> = items.iter().map(|item| item.get()).collect();
    blocks_of(&raws, role)
}

/// Reads blocks, each of them JSON.
pub(crate) fn blocks_of(raws: &[&str], role: MessageRole) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::with_capacity(raws.len());
    for raw in raws {
        match common(raw, role) {
            Some(block) => blocks.push(block),
            None => blocks.extend(other(raw, role)),
        }
    }
    let calls = |block: &Block| matches!(block, Block::ToolCall { .. });
    if role == MessageRole::Assistant && !blocks.iter().any(calls) && blocks.len() == raws.len() {
        // Without a call, signed thinking is sent back in its own form only.
        for (block, raw) in blocks.iter_mut().zip(raws) {
            if let Block::Thinking {
                signature: Some(_),
                native,
                ..
            } = block
                && let Ok(raw) = RawJson::parse(raw)
            {
                *native = Some(Native::new(Api::Anthropic.name(), raw));
            }
        }
    }
    blocks
}

/// Reads the user's content in one pass. Returns `None` if it is not JSON, or
/// has an uncommon block.
pub(crate) fn user_if_valid(content: &str) -> Option<Vec<Message>> {
    let all = match content.starts_with('"') {
        true => vec![Block::text(serde_json::from_str::<String>(content).ok()?)],
        false => {
            if let Some(messages) = only_result(content) {
                return Some(messages);
            }
            let blocks: Vec<CommonBlock<'_>> = serde_json::from_str(content).ok()?;
            let blocks = blocks.into_iter();
            blocks
                .map(|block| common_block(block, MessageRole::User))
                .collect::<Option<_>>()?
        }
    };
    Some(of_user(all))
}

/// Reads the user's content if it is a list with one result of a tool, and the
/// result is a text, and not blank. `None` for everything else.
pub(crate) fn only_result(content: &str) -> Option<Vec<Message>> {
    let result = content.strip_prefix('[')?.strip_suffix(']')?;
    let (mut kind, mut id, mut text, mut is_error) = (None, None, None, None);
    let mut fields = Fields::of(result)?;
    for (name, value) in fields.by_ref() {
        let value = &result[value];
        let was = match name {
            "type" => kind.replace(value).is_some(),
            "tool_use_id" => id.replace(fields::string(value)?).is_some(),
            "content" => text.replace(fields::string(value)?).is_some(),
            "is_error" => is_error.replace(value.parse::<bool>().ok()?).is_some(),
            _ => return None,
        };
        if was {
            return None;
        }
    }
    let result = Block::ToolResult {
        tool_call_id: id?,
        content: text.filter(|text| !text.trim().is_empty())?,
        is_error: is_error.unwrap_or(false),
        native: None,
    };
    let is_result = fields.are_complete() && kind == Some("\"tool_result\"");
    is_result.then(|| of_user(vec![result]))
}

/// Reads the user's content. Results of tools are a message of their own.
pub(crate) fn user(content: &str) -> Vec<Message> {
    of_user(blocks(content, MessageRole::User))
}

fn of_user(all: Vec<Block>) -> Vec<Message> {
    let mut results = Vec::new();
    let mut said = Vec::new();
    let mut after_result = false;
    for block in all {
        match &block {
            Block::ToolResult { .. } => {
                after_result = true;
                results.push(block);
            }
            // Media of a result come after it.
            Block::Image { native: None, .. } | Block::Document { native: None, .. }
                if after_result =>
            {
                results.push(block);
            }
            _ => {
                after_result = false;
                said.push(block);
            }
        }
    }
    let mut messages = Vec::new();
    if !results.is_empty() {
        messages.push(message(MessageRole::Tool, results));
    }
    if !said.is_empty() {
        messages.push(message(MessageRole::User, said));
    }
    messages
}

/// Returns a message of blocks.
pub(crate) fn message(role: MessageRole, blocks: Vec<Block>) -> Message {
    Message {
        role,
        source: None,
        content: MessageContent::Blocks(blocks),
        tool_call_id: None,
        is_error: false,
        context_json: None,
    }
}

/// The longest title of a session, in characters.
const TITLE_CHARS: usize = 120;

/// Returns the first line of a text as the title of a session, if it has one.
/// Lists print titles, so secrets are masked, before the title is shortened.
pub(crate) fn title(text: &str) -> Option<String> {
    let text = &masked(text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let line = line.chars().filter(|one| !one.is_control());
    Some(line.take(TITLE_CHARS).collect())
}

/// Returns a message of plain text.
pub(crate) fn text(role: MessageRole, text: impl Into<BlockText>) -> Message {
    message(role, vec![Block::text(text)])
}

fn common(raw: &str, role: MessageRole) -> Option<Block> {
    common_block(serde_json::from_str(raw).ok()?, role)
}

fn common_block(block: CommonBlock<'_>, role: MessageRole) -> Option<Block> {
    let is_model = role == MessageRole::Assistant;
    let is_call = block.id.is_some() || block.name.is_some() || block.input.is_some();
    let is_result =
        block.tool_use_id.is_some() || block.content.is_some() || block.is_error.is_some();
    let is_thinking = block.thinking.is_some() || block.signature.is_some();
    match &*block.kind {
        "text" if !is_call && !is_result && !is_thinking => {
            Some(Block::text(block.text?.into_owned()))
        }
        "thinking" if is_model && !is_call && !is_result && block.text.is_none() => {
            let signature = block.signature.map(Cow::into_owned);
            Some(Block::Thinking {
                text: block.thinking?.into_owned(),
                signature: signature.filter(|signature| !signature.is_empty()),
                native: None,
            })
        }
        "tool_use" if is_model && !is_result && !is_thinking && block.text.is_none() => {
            let arguments: Value = serde_json::from_str(block.input?.get()).ok()?;
            let (id, name) = (block.id?.into_owned(), block.name?.into_owned());
            let is_named = !id.trim().is_empty() && !name.trim().is_empty();
            (arguments.is_object() && is_named).then_some(Block::ToolCall {
                id,
                name,
                arguments,
                native: None,
            })
        }
        "tool_result" if !is_model && !is_call && !is_thinking && block.text.is_none() => {
            // A blank result keeps its own form.
            let content = block.content.filter(|text| !text.0.trim().is_empty())?;
            Some(Block::ToolResult {
                tool_call_id: block.tool_use_id?.into_owned(),
                content: content.0,
                is_error: block.is_error.unwrap_or(false),
                native: None,
            })
        }
        _ => None,
    }
}

fn other(raw: &str, role: MessageRole) -> Vec<Block> {
    let role = match role {
        MessageRole::Assistant => "assistant",
        _ => "user",
    };
    let body = format!(
        r#"{{"model":"-","messages":[{{"role":"{role}","content":[{raw}]}}],"system":""}}"#
    );
    let read = native::read_request(body.as_bytes(), &[Api::Anthropic]);
    let opaque = || {
        let raw = RawJson::parse(raw).unwrap_or_default();
        vec![match raw.as_str().starts_with('{') {
            true => Block::Provider {
                provider: Api::Anthropic.name().to_owned(),
                raw,
            },
            false => Block::text(raw.as_str()),
        }]
    };
    let Ok(read) = read else {
        return opaque();
    };
    let blocks: Vec<Block> = read
        .messages
        .into_iter()
        .flat_map(|message| match message.content {
            MessageContent::Blocks(blocks) => blocks,
            MessageContent::Text(text) => vec![Block::text(text)],
        })
        .collect();
    match blocks.is_empty() {
        true => opaque(),
        false => blocks,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn native_blocks(role: &str, content: &str) -> Vec<Message> {
        let body =
            format!(r#"{{"model":"m","messages":[{{"role":"{role}","content":{content}}}]}}"#);
        native::read_request(body.as_bytes(), &[Api::Anthropic])
            .unwrap()
            .messages
    }

    #[test]
    fn common_blocks_are_what_the_providers_crate_reads() {
        let of_model = [
            r#"[{"type":"text","text":"a\nb"}]"#,
            r#"[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"x"}]"#,
            r#"[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"c","name":"n","input":{"a":[1]}}]"#,
            r#"[{"type":"tool_use","id":"c","name":"n","input":{},"caller":{"type":"direct"}}]"#,
            r#"[{"type":"redacted_thinking","data":"x"}]"#,
            r#"[{"type":"server_tool_use","id":"s","name":"web_search","input":{}}]"#,
        ];
        for content in of_model {
            let read = blocks(content, MessageRole::Assistant);
            let expected = native_blocks("assistant", content);
            assert_eq!(
                vec![message(MessageRole::Assistant, read)],
                expected,
                "{content}"
            );
        }
        let of_user = [
            r#""plain""#,
            r#"[{"type":"tool_result","tool_use_id":"c","content":"out","is_error":false}]"#,
            r#"[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"a"}]},{"type":"text","text":"and"}]"#,
            r#"[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"is_error":true}]"#,
            r#"[{"type":"tool_result","tool_use_id":"c"}]"#,
            r#" [ { "tool_use_id" : "c\n" , "content" : "a\"b\\" , "type" : "tool_result" } ] "#,
            r#"[{"is_error":true,"tool_use_id":"c","type":"tool_result","content":"caf\u00e9"}]"#,
            r#"[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]"#,
            r#"[{"type":"tool_result","tool_use_id":"c","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]}]"#,
        ];
        assert!(user_if_valid(of_user[1]).is_some() && user_if_valid(of_user[3]).is_none());
        for bad in ["", "[", "[],", "\"a\",\"b\":1", "{}", "null"] {
            assert_eq!(user_if_valid(bad), None, "{bad}");
        }
        for content in of_user {
            let expected = native_blocks("user", content);
            assert_eq!(user(content), expected, "{content}");
            if let Some(read) = user_if_valid(content) {
                assert_eq!(read, expected, "{content}");
            }
        }
    }
}
