//! Changes turns that a store would reject: texts that are too long, and content in
//! the wrong place.

use std::collections::HashSet;

use contexture_store::{Block, Message, MessageContent, MessageRole, NewTurn, OpenCall};

/// Cuts texts that are longer than the store accepts.
pub(super) fn cut_long(turn: &mut NewTurn, max_message_bytes: usize) {
    // Leaves bytes for content that is not text, and for the mark of the
    // cut.
    let limit = max_message_bytes.saturating_sub(4096).max(1);
    for message in &mut turn.messages {
        if message.content.bytes() <= limit {
            continue;
        }
        match &mut message.content {
            MessageContent::Text(text) => cut(text, limit),
            MessageContent::Blocks(blocks) => {
                let share = limit / blocks.len().max(1);
                blocks.iter_mut().for_each(|block| cut_block(block, share));
            }
        }
    }
}

fn cut(text: &mut String, limit: usize) {
    if text.len() <= limit {
        return;
    }
    let whole = text.len();
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.push_str(&format!("\n[cut at import: {end} of {whole} bytes]"));
}

fn cut_block(block: &mut Block, limit: usize) {
    if block.bytes() <= limit {
        return;
    }
    if let Some(native) = block.native_mut() {
        *native = None;
    }
    match block {
        Block::Text { text, .. } => {
            let mut whole = text.to_string();
            cut(&mut whole, limit);
            *text = whole.into();
        }
        Block::Thinking { text, .. } => cut(text, limit),
        Block::ToolResult { content, .. } => cut(content, limit),
        Block::ToolCall { arguments, .. } => {
            let mut text = arguments.to_string();
            cut(&mut text, limit);
            *arguments = serde_json::Value::String(text);
        }
        other => {
            let bytes = other.bytes();
            if bytes > limit {
                *other = Block::text(format!("[left out at import: {bytes} bytes]"));
            }
        }
    }
}

/// Changes content that a store would reject, so that no text is lost.
pub(super) fn repair(turn: &mut NewTurn, open: &[OpenCall]) {
    make_call_ids_unique(&mut turn.messages);
    let mut waiting: HashSet<String> = open.iter().map(|call| call.id.clone()).collect();
    for message in &mut turn.messages {
        message.is_error = false;
        message.tool_call_id = None;
        let role = message.role;
        let mut blocks: Vec<Block> = message
            .content
            .blocks()
            .into_iter()
            .map(std::borrow::Cow::into_owned)
            .collect();
        for block in &mut blocks {
            repair_block(block, role, &mut waiting);
        }
        let answers = blocks
            .iter()
            .any(|block| matches!(block, Block::ToolResult { .. }));
        if role == MessageRole::Tool && !answers {
            message.role = MessageRole::User;
        }
        message.content = MessageContent::Blocks(blocks);
    }
    turn.messages.retain(|message| !message.blocks().is_empty());
    if turn.usage.as_ref().is_some_and(|usage| {
        usage.cached_input_tokens + usage.cache_write_tokens > usage.input_tokens
    }) {
        turn.usage = None;
    }
    if let Some(contexture_store::StopReason::Other(word)) = &turn.stop_reason
        && (word.trim().is_empty() || word.len() > contexture_store::StopReason::MAX_BYTES)
    {
        turn.stop_reason = None;
    }
}

fn repair_block(block: &mut Block, role: MessageRole, waiting: &mut HashSet<String>) {
    let is_model = role == MessageRole::Assistant;
    match block {
        Block::ToolResult {
            tool_call_id,
            content,
            ..
        } if is_model || !waiting.remove(tool_call_id) => {
            *block = Block::text(format!("[result of call {tool_call_id}]\n{content}"));
        }
        Block::ToolCall {
            id,
            name,
            arguments,
            ..
        } if !is_model || id.trim().is_empty() || name.trim().is_empty() => {
            *block = Block::text(format!("[call of {name}] {arguments}"));
        }
        Block::ToolCall { arguments, .. } if !arguments.is_object() && !arguments.is_string() => {
            *arguments = serde_json::Value::String(arguments.to_string());
        }
        Block::Thinking { text, .. } if !is_model => *block = Block::text(text.as_str()),
        _ => {
            if let Some(native) = block.native_mut() {
                *native = None;
            }
        }
    }
}

/// Makes the ids of a turn's calls unique.
fn make_call_ids_unique(messages: &mut [Message]) {
    let mut seen = HashSet::new();
    for message in messages {
        let MessageContent::Blocks(blocks) = &mut message.content else {
            continue;
        };
        for block in blocks {
            if let Block::ToolCall { id, native, .. } = block {
                let mut number = 1;
                let first = id.clone();
                while !seen.insert(id.clone()) {
                    number += 1;
                    *id = format!("{first}~{number}");
                    *native = None;
                }
            }
        }
    }
}
