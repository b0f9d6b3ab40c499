//! Replaces the messages of a request, and keeps every other byte.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use super::node::Node;
use super::{Api, BYTE_ORDER_MARK, NativeError, utf8};
use crate::marks::MOST_MARKS;

/// The cache mark as requests are rendered without blanks.
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// The name of a cache mark.
const KEY: &str = "\"cache_control\"";

impl Api {
    /// Returns the field that holds the conversation.
    pub(crate) fn messages_field(self) -> &'static str {
        match self {
            Api::Anthropic | Api::OpenAiChat => "messages",
            Api::OpenAiResponses => "input",
            Api::Gemini => "contents",
        }
    }
}

/// Returns the request `body`, which [`read_request`](super::read_request)
/// could read, with another conversation: `messages`, for the same API and without
/// white space. All other fields keep their bytes and their order.
///
/// `conversation` is the place of the body's conversation, as it was read: it
/// is not looked at again.
///
/// Cache marks of the body stay, among them that of the whole request. Of those
/// in `messages`, only the last ones stay, as many as the API still accepts. If
/// the body has more than it accepts,
/// [`without_excess_marks`](super::without_excess_marks) removes them.
pub fn with_messages(
    body: &[u8],
    conversation: Range<usize>,
    messages: &str,
    api: Api,
) -> Result<String, NativeError> {
    // Only what is around the conversation is read again.
    let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    let around = match (body.get(..conversation.start), body.get(conversation.end..)) {
        (Some(before), Some(after)) if !conversation.is_empty() => [before, b"0", after].concat(),
        _ => body.to_vec(),
    };
    let text = utf8(&around)?;
    let field = api.messages_field();
    let root = Node::of_json(text);
    let fields = root.fields()?;
    let others = fields.iter().filter(|(name, _)| name != field);
    let within = |value: &Node<'_>| memmem::find_iter(value.raw.as_bytes(), KEY).count();
    let marks: usize = others
        .map(|(name, value)| usize::from(name == "cache_control") + within(value))
        .sum();
    // A mark of the whole request is on its last block, and may have a longer
    // life than ours: a mark with a shorter life must not come before it.
    let whole = fields.iter().find(|(name, _)| name == "cache_control");
    let is_longer = whole.is_some_and(|(_, mark)| mark.find("ttl").is_some());
    let most = match is_longer {
        true => 0,
        // Some of them are removed: only the last one before the messages stays.
        false if marks > MOST_MARKS => MOST_MARKS - 1,
        false => MOST_MARKS.saturating_sub(marks),
    };
    let new = last_marks(messages, most);
    // Names are written without blanks, so that the rest gets no longer.
    let mut out = String::with_capacity(text.len() + new.len());
    out.push('{');
    for (i, (name, value)) in fields.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        let key = serde_json::Value::from(name.as_str()).to_string();
        out.push_str(&key);
        out.push(':');
        out.push_str(if name == field { &new } else { value.raw });
    }
    out.push('}');
    Ok(out)
}

/// Returns a request with an empty conversation. `conversation` is where it is in the
/// body, or empty if that is not known.
pub fn without_messages(
    body: &[u8],
    conversation: Range<usize>,
    api: Api,
) -> Result<String, NativeError> {
    with_messages(body, conversation, "[]", api)
}

/// Returns `messages` with their last `most` cache marks. Inside a text a mark
/// would have backslashes before its quotes.
fn last_marks(messages: &str, most: usize) -> Cow<'_, str> {
    let marks = memmem::find_iter(messages.as_bytes(), MARK).count();
    match marks.checked_sub(most) {
        None | Some(0) => Cow::Borrowed(messages),
        Some(excess) => Cow::Owned(messages.replacen(MARK, "", excess)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn other_fields_keep_their_bytes() {
        let body =
            br#"{ "model" : "m", "max_tokens":1.0e2, "messages": [1, 2], "x": {"b" :1,"a":2} }"#;
        // Where the conversation is may be known or not.
        let start = body.iter().position(|byte| *byte == b'[').unwrap();
        for place in [0..0, start..start + 6] {
            let made = with_messages(body, place, "[2]", Api::Anthropic);
            assert_eq!(
                made.unwrap(),
                r#"{"model":"m","max_tokens":1.0e2,"messages":[2],"x":{"b" :1,"a":2}}"#
            );
        }
    }

    #[test]
    fn at_most_four_cache_marks_remain() {
        let mark = r#"{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}"#;
        let body = format!(r#"{{"system":[{mark},{mark},{mark}],"messages":[]}}"#);
        let new = format!("[{mark},{mark}]");
        let made = with_messages(body.as_bytes(), 0..0, &new, Api::Anthropic).unwrap();
        assert_eq!(made.matches("cache_control").count(), 4);
        assert!(
            made.contains(r#""messages":[{"type":"text","text":"a"},{"#),
            "{made}"
        );
    }

    #[test]
    fn a_mark_of_the_whole_request_counts() {
        let mark = r#"{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}"#;
        let new = format!("[{mark},{mark}]");
        let count = |whole: &str| {
            let body = format!(
                r#"{{"cache_control":{whole},"system":[{mark},{mark},{mark}],"messages":[]}}"#
            );
            let made = with_messages(body.as_bytes(), 0..0, &new, Api::Anthropic).unwrap();
            made.matches("cache_control").count()
        };
        assert_eq!(count(r#"{"type":"ephemeral"}"#), 4);
        // A mark with a longer life must not come after ours.
        let body =
            format!(r#"{{"cache_control":{{"type":"ephemeral","ttl":"1h"}},"messages":[{mark}]}}"#);
        let made = with_messages(body.as_bytes(), 0..0, &new, Api::Anthropic).unwrap();
        assert_eq!(made.matches("cache_control").count(), 1);
    }
}
