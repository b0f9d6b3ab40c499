//! Reads the items of OpenAI's Responses API as messages of turns.
//!
//! The items that make up most of a rollout are read here, in one pass. All
//! others are read by `contexture_providers::native`.

use std::borrow::Cow;

use contexture_providers::native::{self, Api};
use contexture_store::{Block, Message, MessageContent, MessageRole, RawJson};
use serde::Deserialize;
use serde_json::Value;

use crate::fields::{self, Fields};

/// Returns true for an item that the model wrote.
pub(super) fn is_output(item: &str) -> bool {
    if item.starts_with(TOOL_RESULT) {
        return false;
    }
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<Cow<'a, str>>,
        #[serde(borrow)]
        role: Option<Cow<'a, str>>,
    }
    let Ok(item) = serde_json::from_str::<Kind<'_>>(item) else {
        return false;
    };
    match item.kind.as_deref() {
        Some("message") | None => item.role.as_deref() == Some("assistant"),
        Some("additional_tools" | "item_reference" | "compaction" | "compaction_summary") => false,
        Some(kind) => !kind.ends_with("_output") && !kind.ends_with("_response"),
    }
}

/// Reads items as messages: inputs, then the answer.
pub(super) fn messages(inputs: &[String], outputs: &[String]) -> Vec<Message> {
    let mut all = read_items(inputs);
    // An answer is one message, whatever items it has.
    let mut blocks = Vec::new();
    for message in read_items(outputs) {
        match message.content {
            MessageContent::Blocks(more) => blocks.extend(more),
            MessageContent::Text(text) => blocks.push(Block::text(text)),
        }
    }
    if !blocks.is_empty() {
        all.push(crate::messages::message(MessageRole::Assistant, blocks));
    }
    all
}

fn read_items(items: &[String]) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    let mut rest = items;
    while let Some((first, others)) = rest.split_first() {
        if let Some((role, block)) = common_item(first) {
            add(&mut messages, crate::messages::message(role, vec![block]));
            rest = others;
            continue;
        }
        let is_other = |item: &&String| !COMMON.iter().any(|begin| item.starts_with(begin));
        let length = 1 + others.iter().take_while(is_other).count();
        let (run, others) = rest.split_at(length);
        for message in read_run(run) {
            add(&mut messages, message);
        }
        rest = others;
    }
    messages
}

/// Adds a message as the reader of the API does: adjacent messages of the model
/// are one message, and so are results.
fn add(messages: &mut Vec<Message>, message: Message) {
    let joins = matches!(message.role, MessageRole::Assistant | MessageRole::Tool);
    if let Some(last) = messages.last_mut()
        && joins
        && last.role == message.role
        && let MessageContent::Blocks(before) = &mut last.content
        && let MessageContent::Blocks(blocks) = message.content
    {
        before.extend(blocks);
        return;
    }
    messages.push(message);
}

/// The beginning of a tool result, the most frequent item of a rollout.
const TOOL_RESULT: &str = r#"{"type":"function_call_output","call_id":""#;

/// The beginnings of the items that most of a rollout is made of.
const COMMON: [&str; 3] = [TOOL_RESULT, TOOL_CALL, REASONING];
const TOOL_CALL: &str = r#"{"type":"function_call","#;
const REASONING: &str = r#"{"type":"reasoning","#;

/// Reads a common item. `None` for everything else, which the reader of the API
/// reads.
fn common_item(item: &str) -> Option<(MessageRole, Block)> {
    if item.starts_with(TOOL_CALL) {
        return Some((MessageRole::Assistant, tool_call(item)?));
    }
    if item.starts_with(REASONING) {
        let reasoning = Block::Provider {
            provider: Api::OpenAiResponses.name().to_owned(),
            raw: RawJson::parse(item).ok()?,
        };
        return Some((MessageRole::Assistant, reasoning));
    }
    Some((MessageRole::Tool, tool_result(item)?))
}

/// Reads a call whose arguments are written as they would be sent again.
fn tool_call(item: &str) -> Option<Block> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Call<'a> {
        #[serde(rename = "type")]
        _kind: serde::de::IgnoredAny,
        call_id: String,
        name: String,
        #[serde(borrow)]
        arguments: Cow<'a, str>,
    }
    let read: Call<'_> = serde_json::from_str(item).ok()?;
    let arguments: Value = serde_json::from_str(&read.arguments).ok()?;
    let is_named = !read.call_id.trim().is_empty() && !read.name.trim().is_empty();
    let is_same = arguments.is_object() && arguments.to_string() == read.arguments;
    (is_named && is_same).then_some(Block::ToolCall {
        id: read.call_id,
        name: read.name,
        arguments,
        native: None,
    })
}

/// Reads the result of a tool that is a text, and not blank.
fn tool_result(item: &str) -> Option<Block> {
    if !item.starts_with(TOOL_RESULT) {
        return None;
    }
    let read = short_escapes(item).or_else(|| serde_json::from_str(item).ok())?;
    let is_common = !read.call_id.trim().is_empty() && !read.output.trim().is_empty();
    is_common.then_some(Block::ToolResult {
        tool_call_id: read.call_id,
        content: read.output,
        is_error: false,
        native: None,
    })
}

/// The result of a tool that is a text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Output {
    #[serde(rename = "type")]
    _kind: serde::de::IgnoredAny,
    call_id: String,
    output: String,
}

/// Reads a result without escapes of characters by their number. `None` for
/// everything else.
fn short_escapes(item: &str) -> Option<Output> {
    let (mut kind, mut call_id, mut output) = (None, None, None);
    let mut fields = Fields::of(item)?;
    for (name, value) in fields.by_ref() {
        let value = fields::string(&item[value])?;
        let was = match name {
            "type" => kind.replace(value).is_some(),
            "call_id" => call_id.replace(value).is_some(),
            "output" => output.replace(value).is_some(),
            _ => return None,
        };
        if was {
            return None;
        }
    }
    (fields.are_complete() && kind.is_some()).then_some(Output {
        _kind: serde::de::IgnoredAny,
        call_id: call_id?,
        output: output?,
    })
}

fn read_run(items: &[String]) -> Vec<Message> {
    let body = format!(r#"{{"model":"-","input":[{}]}}"#, items.join(","));
    match native::read_request(body.as_bytes(), &[Api::OpenAiResponses]) {
        Ok(request) => {
            // Instructions at the beginning.
            let told = (!request.system.is_empty()).then(|| Message {
                role: MessageRole::System,
                source: None,
                content: MessageContent::Blocks(request.system),
                tool_call_id: None,
                is_error: false,
                context_json: None,
            });
            told.into_iter().chain(request.messages).collect()
        }
        // One item that cannot be read does not take the others with it.
        Err(_) if items.len() > 1 => items
            .iter()
            .flat_map(|item| read_run(std::slice::from_ref(item)))
            .collect(),
        Err(_) => vec![crate::messages::text(MessageRole::User, items[0].as_str())],
    }
}

/// Returns the first line of the user's message.
pub(super) fn title(item: &str) -> Option<String> {
    let read = read_items(&[item.to_owned()]);
    let message = read
        .iter()
        .find(|message| message.role == MessageRole::User)?;
    let blocks = message.blocks();
    let text = blocks.iter().find_map(|block| match &**block {
        Block::Text { text, .. } => Some(text.trim()),
        _ => None,
    })?;
    // Text that the program itself adds is in tags, or is a file.
    let is_added = text.starts_with('<') || text.starts_with("# AGENTS.md");
    match is_added {
        true => None,
        false => crate::messages::title(text),
    }
}

/// Returns the last text of a history: a summary is its last item.
pub(super) fn last_text(history: &[String]) -> String {
    let read = read_items(history);
    let texts = read.iter().rev().flat_map(Message::blocks);
    let mut texts = texts.filter_map(|block| match &*block {
        Block::Text { text, .. } => Some(text.to_string()),
        _ => None,
    });
    texts
        .next()
        .unwrap_or_else(|| "The history was compacted by the provider.".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_what_the_providers_crate_reads() {
        let items = [
            r#"{"type":"function_call","call_id":"a","name":"n","arguments":"{}"}"#,
            r#"{"type":"function_call","call_id":"a2","name":"n","arguments":"{\"b\":[1,\"\\n\"],\"a\":2}"}"#,
            r#"{"type":"function_call","call_id":"a3","name":"n","arguments":"{ \"b\": 1.50 }"}"#,
            r#"{"type":"function_call","call_id":"a4","name":"n","arguments":"no object"}"#,
            r#"{"type":"function_call","call_id":"a5","name":"n","arguments":""}"#,
            r#"{"type":"function_call","call_id":"a6","name":"n","arguments":"{}","id":"fc_2"}"#,
            r#"{"type":"custom_tool_call","call_id":"a7","name":"n","input":"x"}"#,
            r#"{"type":"function_call_output","call_id":"a","output":"caf\u00e9 \/ \"x\"\n"}"#,
            r#"{"type":"function_call_output","call_id":"b","output":""}"#,
            r#"{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"t"}]}"#,
            r#"{"type":"function_call_output","call_id":"d","output":"x","id":"fc_1"}"#,
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"go on"}]}"#,
            r#"{"type":"reasoning","summary":[],"encrypted_content":"e"}"#,
            r#"{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"\u00e9 x"}]}"#,
            r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}"#,
        ];
        let items: Vec<String> = items.map(str::to_owned).to_vec();
        assert_eq!(read_items(&items), read_run(&items));
        for item in &items {
            let one = std::slice::from_ref(item);
            assert_eq!(read_items(one), read_run(one), "{item}");
        }
        let common = items.iter().filter(|it| common_item(it).is_some());
        // Two calls, a result and the reasoning.
        assert_eq!(common.count(), 5);
    }
}
