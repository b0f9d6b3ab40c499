//! The bytes of a turn, from which its id follows.

use std::ops::Range;

use contexture_core::message::{Block, Message, MessageContent};
use jiff::Timestamp;
use serde::Serialize;

use super::NewTurn;
use crate::id::TurnId;
use crate::json_text;

/// The content of a turn or a compaction, in the one form that is hashed.
///
/// It does not include the turn's position in its session and its idempotency
/// key, so a retry has the same body. Every store derives ids from it, so the
/// same turns have the same ids everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    bytes: Vec<u8>,
    // The byte range of each message's content.
    contents: Vec<Range<usize>>,
}

impl Body {
    // Our types serialise to JSON in the order of their fields, and so always
    // to the same bytes.
    pub(crate) fn of(value: &impl Serialize) -> Self {
        Self {
            // This fails only for maps whose keys are not text; there are none.
            bytes: serde_json::to_vec(value).unwrap_or_default(),
            contents: Vec::new(),
        }
    }

    /// Returns the body of a turn: `rest` is the turn without its messages.
    pub(super) fn of_turn(rest: &NewTurn, messages: &[Message]) -> Self {
        let rest = Self::of(rest).bytes;
        // The messages are the first field, and are always written.
        let after = rest.strip_prefix(MESSAGES).unwrap_or(b"}");
        let size: usize = messages.iter().map(Message::bytes).sum();
        let mut bytes = Vec::with_capacity(rest.len() + size + size / 8 + 64 * messages.len());
        bytes.extend_from_slice(&MESSAGES[..MESSAGES.len() - 1]);
        let mut contents = Vec::with_capacity(messages.len());
        for (i, message) in messages.iter().enumerate() {
            if i > 0 {
                bytes.push(b',');
            }
            contents.push(write_message(message, &mut bytes));
        }
        bytes.push(b']');
        bytes.extend_from_slice(after);
        Self { bytes, contents }
    }

    /// Returns the content of a message as JSON: a text, or a list of blocks.
    /// `None` if there is no message with that number.
    pub fn content(&self, message: usize) -> Option<&str> {
        let content = self.bytes.get(self.contents.get(message)?.clone())?;
        std::str::from_utf8(content).ok()
    }

    /// Returns a hash of the content, independent of its position.
    pub fn hash(&self) -> TurnId {
        TurnId::of(&self.bytes)
    }

    /// Returns the id of the turn with this content after `parent`, in the
    /// session of that label (not an alias), at that time (to the millisecond):
    /// the hash of the JSON `[parent,session,milliseconds,body]`.
    pub fn id(&self, parent: Option<TurnId>, session: &str, created_at: Timestamp) -> TurnId {
        let mut list = Self::of(&(parent, session, created_at.as_millisecond())).bytes;
        list.pop();
        list.push(b',');
        // BLAKE3 hashes one piece of memory several times as fast as parts of it.
        // After a first part of this length, it hashes the rest as fast.
        let first = FIRST_PART.saturating_sub(list.len());
        let (first, rest) = self.bytes.split_at(first.min(self.bytes.len()));
        list.reserve_exact(first.len() + 1);
        list.extend_from_slice(first);
        if rest.is_empty() {
            list.push(b']');
            return TurnId::of(&list);
        }
        TurnId::of_parts(&[&list, rest, b"]"])
    }
}

/// The length of the part of a body that is copied to be hashed with its position.
const FIRST_PART: usize = 16 * 1024;

/// The start of the body of a turn without messages.
const MESSAGES: &[u8] = br#"{"messages":[]"#;

/// The JSON of an empty message content.
const NO_CONTENT: &[u8] = br#""content":"""#;

/// Writes a message as JSON. Returns the byte range of its content.
fn write_message(message: &Message, out: &mut Vec<u8>) -> Range<usize> {
    let shell = Message {
        role: message.role,
        source: message.source,
        content: MessageContent::Text(String::new()),
        tool_call_id: message.tool_call_id.clone(),
        is_error: message.is_error,
        context_json: message.context_json.clone(),
    };
    let shell = Body::of(&shell).bytes;
    // The fields before the content contain only enum names, so this is the
    // first match.
    let at = shell
        .windows(NO_CONTENT.len())
        .position(|window| window == NO_CONTENT);
    let at = at.unwrap_or(0) + NO_CONTENT.len();
    out.extend_from_slice(&shell[..at - 2]);
    let begins = out.len();
    match &message.content {
        MessageContent::Text(text) => json_text::write(text, out),
        MessageContent::Blocks(blocks) => {
            out.push(b'[');
            for (i, block) in blocks.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_block(block, out);
            }
            out.push(b']');
        }
    }
    let ends = out.len();
    out.extend_from_slice(&shell[at..]);
    begins..ends
}

/// Writes a block as JSON.
fn write_block(block: &Block, out: &mut Vec<u8>) {
    // Long texts are most of a history, so they are written apart.
    let (shell, empty, text): (_, &[u8], _) = match block {
        Block::Text { text, native: None } => (Block::text(""), br#""text":"""#, text.as_str()),
        Block::ToolResult {
            tool_call_id,
            content,
            is_error,
            native: None,
        } => {
            let result = Block::ToolResult {
                tool_call_id: tool_call_id.clone(),
                content: String::new(),
                is_error: *is_error,
                native: None,
            };
            (result, NO_CONTENT, content.as_str())
        }
        other => {
            // This fails only for maps whose keys are not text; there are none.
            let _ = serde_json::to_writer(out, other);
            return;
        }
    };
    let shell = Body::of(&shell).bytes;
    // A quote inside of a text is escaped, so this is the field.
    let at = shell.windows(empty.len()).position(|part| part == empty);
    let at = at.unwrap_or(0) + empty.len();
    out.extend_from_slice(&shell[..at - 2]);
    json_text::write(text, out);
    out.extend_from_slice(&shell[at..]);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_is_the_hash_of_a_list() {
        let parent = TurnId::of(b"parent");
        let now = Timestamp::from_millisecond(1_770_000_000_123).unwrap();
        let turn = NewTurn {
            model: Some("m".to_owned()),
            ..NewTurn::default()
        };
        let placed = NewTurn {
            parent_turn_id: parent.into(),
            idempotency_key: Some("k".to_owned()),
            ..turn.clone()
        };
        let json = format!(r#"["{parent}","a\"b",1770000000123,{{"messages":[],"model":"m"}}]"#);
        let id = TurnId::of(json.as_bytes());
        assert_eq!(turn.body().id(Some(parent), "a\"b", now), id);
        assert_eq!(placed.body().id(Some(parent), "a\"b", now), id);
        assert_eq!(placed.body().hash(), turn.body().hash());
    }

    #[test]
    fn a_long_body_is_hashed_as_one_list() {
        let now = Timestamp::from_millisecond(1).unwrap();
        for length in (FIRST_PART - 80..FIRST_PART + 8).chain([100_000]) {
            let bytes = vec![b'x'; length];
            let list = [br#"[null,"s",1,"#, &bytes[..], b"]"].concat();
            let body = Body {
                bytes,
                contents: Vec::new(),
            };
            assert_eq!(body.id(None, "s", now), TurnId::of(&list), "{length}");
        }
    }

    #[test]
    fn a_body_is_the_json_of_the_turn() {
        let all = json!([
            {"role": "user", "source": "human", "content": "a \"b\"\n\u{1}é"},
            {"role": "assistant", "content": [
                {"type": "text", "text": "\"content\":\"\""},
                {"type": "tool_call", "id": "c", "name": "n", "arguments": {"content": ""}},
            ]},
            {"role": "tool", "content": [
                {"type": "tool_result", "tool_call_id": "\"content\":\"\"", "content": "x\n\\",
                    "is_error": true},
                {"type": "tool_result", "tool_call_id": "c", "content": ""},
                {"type": "text", "text": ""},
            ]},
            {"role": "tool", "content": "", "tool_call_id": "\"content\":\"\"", "is_error": true,
                "context_json": {"content": ""}},
        ]);
        let turn: NewTurn = serde_json::from_value(json!({
            "messages": all, "model": "m", "tools": ["t"], "permissions_granted": ["p"],
            "usage": {"input_tokens": 1, "output_tokens": 2}, "stop_reason": "end_turn",
            "toolset_name": "x", "source_event_id": "e", "role": "manager", "status": "completed",
        }))
        .unwrap();
        let body = turn.body();
        assert_eq!(body.bytes, serde_json::to_vec(&turn).unwrap());
        for (i, message) in turn.messages.iter().enumerate() {
            let content = serde_json::to_string(&message.content).unwrap();
            assert_eq!(body.content(i), Some(content.as_str()));
        }
        assert_eq!(body.content(turn.messages.len()), None);
        assert_eq!(NewTurn::default().body().bytes, br#"{"messages":[]}"#);
    }
}
